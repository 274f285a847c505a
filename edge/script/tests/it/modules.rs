//! The example modules at the repository's root.
