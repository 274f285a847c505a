//! The scripts' `localcache_*`.

/// One thread's replica of the cache.
#[derive(Debug, Default)]
pub struct Cache {}
