//! Places by key: so many things at one time of each host, or of each user, while others wait in the
//! order in which they came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whoever has a seat keeps it until this is dropped.
pub(crate) type Seat = OwnedSemaphorePermit;

/// Places of each key. Keys of which nobody has or wants a place are forgotten.
#[derive(Debug)]
pub(crate) struct Seats<K> {
    each: usize,
    keys: Mutex<BTreeMap<K, Arc<Semaphore>>>,
}

impl<K: Ord> Seats<K> {
    pub(crate) fn new(each: usize) -> Self {
        Self { each, keys: Mutex::new(BTreeMap::new()) }
    }

    /// Waits for a place.
    pub(crate) async fn take(&self, key: K) -> Option<Seat> {
        // Semaphores are never closed.
        self.of(key).acquire_owned().await.ok()
    }

    /// A place, if one is free.
    pub(crate) fn try_take(&self, key: K) -> Option<Seat> {
        self.of(key).try_acquire_owned().ok()
    }

    fn of(&self, key: K) -> Arc<Semaphore> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        // Who sits or waits holds one, too.
        keys.retain(|_, seats| Arc::strong_count(seats) > 1);
        Arc::clone(keys.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.each))))
    }
}

#[cfg(test)]
mod tests {
    use super::Seats;

    #[test]
    fn each_key_has_its_places_and_is_forgotten_without_guests() {
        let seats = Seats::new(2);
        let (a, b) = (seats.try_take("a"), seats.try_take("a"));
        assert!(a.is_some() && b.is_some() && seats.try_take("a").is_none());
        let other = seats.try_take("b");
        assert!(other.is_some());
        drop(a);
        assert!(seats.try_take("a").is_some());
        drop((b, other));
        assert!(seats.try_take("c").is_some());
        assert_eq!(seats.keys.lock().unwrap().len(), 1);
    }
}
