//! The scripts' `localcache_*`.

/// One thread's replica of the cache.
#[derive(Debug, Default)]
pub struct Cache {}
/// A change.
#[derive(Clone, Debug)]
pub struct CacheChange;
impl Cache {
    /// Applies.
    pub fn apply(&mut self, _change: &CacheChange) {}
    /// Takes.
    pub fn take_changes(&mut self) -> Vec<CacheChange> {
        Vec::new()
    }
}
