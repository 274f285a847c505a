//! Completions that were taken out of the kernel's ring and are not delivered yet, oldest first.
//!
//! Mostly all of them are delivered in the turn that took them. Then the list begins anew at its
//! front, and a thread goes through the same few lines of the processor's cache in every turn; a
//! queue that goes round would go through all of its memory.

/// A completion, copied out of the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) user_data: u64,
    pub(super) result: i32,
    pub(super) flags: u32,
}

/// The list. Bounded by what the kernel may hold for the thread's connections.
#[derive(Debug, Default)]
pub(super) struct Completions {
    list: Vec<Completion>,
    /// How many of them have been delivered.
    delivered: usize,
}

impl Completions {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Makes room at the front: to be called before some are added.
    #[inline]
    pub(super) fn close_up(&mut self) {
        // What is left is moved only when it is less than what is gone: so each is moved once.
        if self.delivered * 2 > self.list.len() {
            self.list.drain(..self.delivered);
            self.delivered = 0;
        }
    }

    #[inline]
    pub(super) fn push(&mut self, completion: Completion) {
        self.list.push(completion);
    }

    /// Takes the oldest.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Completion> {
        let next = self.list.get(self.delivered).copied()?;
        self.delivered += 1;
        if self.delivered == self.list.len() {
            self.clear();
        }
        Some(next)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.delivered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{Completion, Completions};

    #[test]
    fn the_oldest_comes_first_whenever_more_are_added() {
        let mut all = Completions::default();
        let (mut added, mut taken) = (0, 0);
        for (add, take) in [(3, 1), (2, 2), (0, 1), (5, 0), (1, 7), (4, 4), (1, 0)] {
            all.close_up();
            for _ in 0..add {
                all.push(Completion { user_data: added, result: 0, flags: 0 });
                added += 1;
            }
            for _ in 0..take {
                assert_eq!(all.pop().unwrap().user_data, taken);
                taken += 1;
            }
            assert_eq!(all.is_empty(), added == taken, "{added} {taken}");
            assert!(all.list.len() as u64 <= 2 * (added - taken + take));
        }
        all.clear();
        assert!(all.is_empty() && all.pop().is_none());
    }
}
