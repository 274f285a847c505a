//! Events in, lists out.
