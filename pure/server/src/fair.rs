//! A queue that is fair between users: each has a line of its own, and the lines take turns, one
//! item each. What one user wants stays in order.
//!
//! Not here: how long it may get. Whoever fills it counts (`core::dispatch`).

use std::collections::{BTreeMap, VecDeque};

/// Lines by key, which take turns.
#[derive(Debug)]
pub(crate) struct FairQueue<K, T> {
    lines: BTreeMap<K, VecDeque<T>>,
    /// Keys of lines that are not empty, in the order of their turns.
    turns: VecDeque<K>,
    len: usize,
}

/// What is to be done with the next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its first item is taken.
    Take,
    /// It keeps its place; the next one is looked at.
    Skip,
    /// It leaves, with all its items.
    Leave,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<K: Copy + Ord, T> FairQueue<K, T> {
    pub(crate) fn push(&mut self, key: K, item: T) {
        let line = self.lines.entry(key).or_default();
        if line.is_empty() {
            self.turns.push_back(key);
        }
        line.push_back(item);
        self.len += 1;
    }

    /// The first item of the line whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.pop_where(|_, _| Turn::Take, |_, _| {})
    }

    /// The first item of the first line that `turn` takes, by its key and that item. Lines that it
    /// sends away go to `left`.
    pub(crate) fn pop_where(
        &mut self,
        mut turn: impl FnMut(K, &T) -> Turn,
        mut left: impl FnMut(K, VecDeque<T>),
    ) -> Option<T> {
        let mut at = 0;
        while let Some(key) = self.turns.get(at).copied() {
            let first = self.lines.get(&key)?.front()?;
            match turn(key, first) {
                Turn::Skip => at += 1,
                Turn::Leave => {
                    self.turns.remove(at);
                    let line = self.lines.remove(&key).unwrap_or_default();
                    self.len -= line.len();
                    left(key, line);
                }
                Turn::Take => {
                    self.turns.remove(at);
                    let line = self.lines.get_mut(&key)?;
                    let item = line.pop_front()?;
                    self.len -= 1;
                    if line.is_empty() {
                        self.lines.remove(&key);
                    } else {
                        self.turns.push_back(key);
                    }
                    return Some(item);
                }
            }
        }
        None
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.len > 0 && self.lines.contains_key(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many items one line has.
    pub(crate) fn len_of(&self, key: K) -> usize {
        self.lines.get(&key).map_or(0, VecDeque::len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All items, one line after the other.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{FairQueue, Turn};

    #[test]
    fn lines_take_turns_and_keep_their_order() {
        let mut queue = FairQueue::default();
        for item in ["a1", "a2", "a3", "b1", "c1", "c2"] {
            queue.push(item.as_bytes()[0], item);
        }
        assert_eq!((queue.len(), queue.len_of(b'a'), queue.len_of(b'x')), (6, 3, 0));
        assert!(queue.iter().eq(&["a1", "a2", "a3", "b1", "c1", "c2"]));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "c2", "a3"]);
        assert!(queue.is_empty() && queue.lines.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn lines_can_be_passed_over_or_sent_away() {
        let mut queue = FairQueue::default();
        for item in ["a1", "b1", "b2", "c1"] {
            queue.push(item.as_bytes()[0], item);
        }
        let mut left = Vec::new();
        let turn = |key, _: &&str| match key {
            b'a' => Turn::Skip,
            b'b' => Turn::Leave,
            _ => Turn::Take,
        };
        assert_eq!(queue.pop_where(turn, |_, line| left.extend(line)), Some("c1"));
        assert_eq!((left, queue.len()), (vec!["b1", "b2"], 1));
        assert_eq!(queue.pop_where(turn, |_, _| {}), None);
        assert_eq!(queue.pop(), Some("a1"));
    }
}
