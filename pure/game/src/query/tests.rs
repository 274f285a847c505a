//! Queries against documents, by data.
