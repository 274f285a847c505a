//! Matches by size, and within a size by age: a list that is bounded in size need not look at the
//! matches that do not fit. Keys come in and go out; what a match is, `directory.rs` knows.

use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::RangeInclusive;

use super::Version;
use crate::match_id::MatchId;

/// Orders matches by age, oldest first. Those of one room and one millisecond are ordered by the
/// room's own count, others of one millisecond by their id, so that all replicas agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) create_time_ms: u64,
    /// The version of the event that told of the match.
    pub(super) version: Version,
    pub(super) id: MatchId,
}

/// The two kinds of match, which are never listed mixed.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) authoritative: Partition,
    pub(super) relayed: Partition,
}

/// Matches of one kind.
#[derive(Debug, Default)]
pub(super) struct Partition {
    by_size: BTreeMap<u32, BTreeSet<Key>>,
    count: usize,
}

impl Index {
    pub(super) fn insert(&mut self, size: u32, key: Key) {
        let partition = self.partition(key.id);
        partition.count += usize::from(partition.by_size.entry(size).or_default().insert(key));
    }

    pub(super) fn remove(&mut self, size: u32, key: &Key) {
        let partition = self.partition(key.id);
        let Some(bucket) = partition.by_size.get_mut(&size) else { return };
        partition.count -= usize::from(bucket.remove(key));
        if bucket.is_empty() {
            partition.by_size.remove(&size);
        }
    }

    fn partition(&mut self, id: MatchId) -> &mut Partition {
        if id.is_authoritative() { &mut self.authoritative } else { &mut self.relayed }
    }
}

impl Partition {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Matches whose size is in `sizes`, newest first. The first costs one look into every size
    /// that occurs, each further one little more than a search by key.
    pub(super) fn newest(&self, sizes: RangeInclusive<u32>) -> Newest<'_> {
        // An empty range panics in BTreeMap.
        let heads = if sizes.is_empty() {
            BinaryHeap::new()
        } else {
            let newest = |(size, bucket): (&u32, &BTreeSet<Key>)| Some((*bucket.last()?, *size));
            self.by_size.range(sizes).filter_map(newest).collect()
        };
        Newest { partition: self, heads }
    }
}

/// Merges the sizes of a partition by age.
pub(super) struct Newest<'a> {
    partition: &'a Partition,
    /// The newest match of every size that has not been given out.
    heads: BinaryHeap<(Key, u32)>,
}

impl Iterator for Newest<'_> {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        let mut head = self.heads.peek_mut()?;
        let (key, size) = *head;
        let bucket = self.partition.by_size.get(&size);
        match bucket.and_then(|bucket| bucket.range(..key).next_back()) {
            Some(older) => head.0 = *older,
            None => {
                PeekMut::pop(head);
            }
        }
        Some(key)
    }
}
