//! The scripts' `localcache_*`: shared by all threads of all nodes through replication. Every
//! thread owns a replica; what its scripts change is taken with [`Cache::take_changes`] and posted
//! to the others, which [`Cache::apply`] it.
//!
//! It is a cache: two threads that write one key at the same moment agree on one of the two, a
//! write that crosses a delete may survive it, and what does not fit is dropped, oldest first. But
//! who writes after it has seen a write is always the later one, whatever the clock says: stamps
//! are hybrid logical clocks (Kulkarni et al., "Logical Physical Clocks", 2014), which never go back.
//! Nothing here reaches the database. A node that starts begins with an empty one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use event::Now;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::node::NodeId;
use crate::plain;
use crate::value::Value;

/// Entries of the cache; the oldest makes room for a new one.
pub const ENTRIES_MAX: usize = 65_536;

/// Bytes of keys and values; the oldest entries make room for new ones.
pub const BYTES_MAX: usize = 64 << 20;

/// Bytes of one key and its value; a larger one is refused.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Changes waiting for [`Cache::take_changes`]; more in one call of a script are refused.
pub const CHANGES_MAX: usize = 16_384;

/// Bytes of keys and values in them; the change that would exceed it is refused.
pub const CHANGES_BYTES_MAX: usize = 16 << 20;

/// What an entry costs besides its bytes: tree nodes, the vectors' heads. An estimate.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// When a write was made, and by whom: orders the writes of all threads. `serial` counts the writes
/// for which the clock had not moved on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Stamp {
    unix_ms: u64,
    serial: u64,
    writer: Writer,
}

/// A thread of any node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Writer {
    /// The node.
    pub node: NodeId,
    /// The number of the thread there.
    pub thread: u16,
}

/// One change on its way to another thread's replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheChange {
    stamp: Stamp,
    kind: ChangeKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum ChangeKind {
    Put {
        #[serde(with = "plain::text")]
        key: Arc<str>,
        value: Value,
        expires_ms: Option<u64>,
    },
    Delete {
        #[serde(with = "plain::text")]
        key: Arc<str>,
    },
    Clear,
}

impl CacheChange {
    /// Whether a thread of this node made it, no later than then.
    pub fn is_of(&self, node: NodeId, until_unix_ms: u64) -> bool {
        let Stamp { unix_ms, serial, writer } = self.stamp;
        // No thread counts that far within a millisecond.
        writer.node == node && unix_ms <= until_unix_ms && serial < u64::MAX / 2
    }
}

/// Why a change was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CacheError {
    /// The value is too large.
    #[error("localcache value of {bytes} bytes is above {ENTRY_BYTES_MAX}")]
    TooLarge {
        /// Its size with the key's.
        bytes: usize,
    },
    /// One call of a script changed too much.
    #[error("localcache: more than {CHANGES_MAX} changes or {CHANGES_BYTES_MAX} bytes in one call")]
    TooManyChanges,
}

#[derive(Debug)]
struct Entry {
    value: Value,
    expires_ms: Option<u64>,
    bytes: usize,
    stamp: Stamp,
}

/// One thread's replica of the cache.
#[derive(Debug, Default)]
pub struct Cache {
    writer: Writer,
    /// The latest stamp that was given or seen here.
    latest: Stamp,
    entries: BTreeMap<Arc<str>, Entry>,
    by_age: BTreeSet<(Stamp, Arc<str>)>,
    bytes: usize,
    changes: Vec<CacheChange>,
    /// Of keys and values in `changes`.
    changes_bytes: usize,
    evicted_count: u64,
    refused_count: u64,
}

impl Cache {
    /// An empty replica of a thread.
    pub fn new(writer: Writer) -> Self {
        Self { writer, ..Self::default() }
    }

    /// The value of `key`, unless its time is up.
    pub fn get(&self, now: Now, key: &str) -> Option<&Value> {
        let entry = self.entries.get(key)?;
        let lives = entry.expires_ms.is_none_or(|expires_ms| now.unix_ms < expires_ms);
        lives.then_some(&entry.value)
    }

    /// Sets `key` for `ttl_s` seconds, 0 for ever. Nil deletes it.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn put(&mut self, now: Now, key: &str, value: Value, ttl_s: u64) -> Result<(), CacheError> {
        if value == Value::Nil {
            return self.delete(now, key);
        }
        let bytes = key.len() + value_bytes(&value);
        if bytes > ENTRY_BYTES_MAX {
            self.refused_count += 1;
            return Err(CacheError::TooLarge { bytes });
        }
        let expires_ms = (ttl_s > 0).then(|| now.after_ms(ttl_s.saturating_mul(1_000)).unix_ms);
        let kind = ChangeKind::Put { key: key.into(), value, expires_ms };
        self.change(now, kind, bytes)
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// [`CacheError::TooManyChanges`].
    pub fn delete(&mut self, now: Now, key: &str) -> Result<(), CacheError> {
        self.change(now, ChangeKind::Delete { key: key.into() }, key.len())
    }

    /// Removes everything.
    pub fn clear(&mut self, now: Now) {
        // Earlier changes are overtaken by this one, so there is always room for it.
        self.changes.clear();
        self.changes_bytes = 0;
        let change = CacheChange { stamp: self.stamp(now), kind: ChangeKind::Clear };
        self.apply(&change);
        self.changes.push(change);
    }

    /// What scripts on this thread changed since the last call, for the other threads.
    pub fn take_changes(&mut self) -> Vec<CacheChange> {
        self.changes_bytes = 0;
        std::mem::take(&mut self.changes)
    }

    /// Takes over what this thread changed elsewhere, while modules loaded for it: the other threads are
    /// still to be told.
    pub fn absorb(&mut self, changes: Vec<CacheChange>) {
        changes.iter().for_each(|change| self.apply(change));
        self.changes.extend(changes);
    }

    /// Takes over another thread's change. Doing it twice does no harm.
    pub fn apply(&mut self, change: &CacheChange) {
        let stamp = change.stamp;
        self.latest = self.latest.max(stamp);
        match &change.kind {
            ChangeKind::Put { key, value, expires_ms } => {
                if self.entries.get(key).is_some_and(|entry| entry.stamp >= stamp) {
                    return;
                }
                self.remove(key);
                let bytes = key.len() + value_bytes(value) + ENTRY_OVERHEAD_BYTES;
                let value = value.clone();
                self.entries.insert(
                    Arc::clone(key),
                    Entry { value, expires_ms: *expires_ms, bytes, stamp },
                );
                self.by_age.insert((stamp, Arc::clone(key)));
                self.bytes += bytes;
                self.make_room();
            }
            ChangeKind::Delete { key } => {
                if self.entries.get(key).is_some_and(|entry| entry.stamp < stamp) {
                    self.remove(key);
                }
            }
            ChangeKind::Clear => {
                while let Some((oldest, key)) = self.by_age.first()
                    && *oldest <= stamp
                {
                    let key = Arc::clone(key);
                    self.remove(&key);
                }
            }
        }
    }

    /// Forgets what nodes have written that do not live, or not in that life, any more.
    pub fn retain_nodes(&mut self, is_living: impl Fn(NodeId) -> bool) {
        let gone = self.by_age.iter().filter(|(stamp, _)| !is_living(stamp.writer.node));
        let gone: Vec<Arc<str>> = gone.map(|(_, key)| Arc::clone(key)).collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// How many entries there are, expired ones included until they are pushed out.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What they cost, bytes; an estimate.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many entries were dropped to make room.
    pub fn evicted_count(&self) -> u64 {
        self.evicted_count
    }

    /// How many changes of scripts on this thread were refused.
    pub fn refused_count(&self) -> u64 {
        self.refused_count
    }

    fn change(&mut self, now: Now, kind: ChangeKind, bytes: usize) -> Result<(), CacheError> {
        let changes_bytes = self.changes_bytes + bytes;
        if self.changes.len() >= CHANGES_MAX || changes_bytes > CHANGES_BYTES_MAX {
            self.refused_count += 1;
            return Err(CacheError::TooManyChanges);
        }
        self.changes_bytes = changes_bytes;
        let change = CacheChange { stamp: self.stamp(now), kind };
        self.apply(&change);
        self.changes.push(change);
        Ok(())
    }

    fn stamp(&mut self, now: Now) -> Stamp {
        let Stamp { unix_ms, serial, .. } = self.latest;
        let (unix_ms, serial) =
            if now.unix_ms > unix_ms { (now.unix_ms, 0) } else { (unix_ms, serial + 1) };
        self.latest = Stamp { unix_ms, serial, writer: self.writer };
        self.latest
    }

    fn remove(&mut self, key: &str) {
        if let Some((key, entry)) = self.entries.remove_entry(key) {
            self.by_age.remove(&(entry.stamp, key));
            self.bytes -= entry.bytes;
        }
    }

    fn make_room(&mut self) {
        while (self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX)
            && let Some((_, key)) = self.by_age.pop_first()
        {
            if let Some(entry) = self.entries.remove(&key) {
                self.bytes -= entry.bytes;
                self.evicted_count += 1;
            }
        }
    }
}

/// Roughly what a value costs, in bytes.
fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Nil | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.iter().map(value_bytes).sum(),
            Value::Map(members) => {
                let member = |(name, value): &(Bytes, Value)| {
                    size_of::<Bytes>() + name.len() + value_bytes(value)
                };
                members.iter().map(member).sum()
            }
        }
}

#[cfg(test)]
mod tests {
    use event::Now;

    use super::{
        BYTES_MAX, CHANGES_BYTES_MAX, CHANGES_MAX, Cache, CacheError, ENTRIES_MAX, ENTRY_BYTES_MAX,
        Writer,
    };
    use crate::node::{Incarnation, Nodes};
    use crate::value::Value;

    fn cache(thread: u16) -> Cache {
        Cache::new(Writer { thread, ..Writer::default() })
    }

    fn at(unix_ms: u64) -> Now {
        Now { mono_ns: 0, unix_ms }
    }

    #[test]
    fn what_a_gone_node_has_written_counts_no_more() {
        let mut nodes = Nodes::new(&["a", "b"], "a", Incarnation(1)).unwrap();
        let away = nodes.named("b").unwrap();
        assert!(nodes.set(away, Incarnation(1)));
        let (here, there) = (nodes.here(), nodes.named("b").unwrap());
        let [mut a, mut b] = [here, there].map(|node| Cache::new(Writer { node, thread: 1 }));
        a.put(at(1_000), "ours", Value::Int(1), 0).unwrap();
        // Its clock is far ahead, so that nobody writes after it.
        b.put(at(9_000_000), "theirs", Value::Int(2), 0).unwrap();
        for change in b.take_changes() {
            assert!(change.is_of(there, 9_000_000) && !change.is_of(there, 8_999_999));
            assert!(!change.is_of(here, u64::MAX) && !change.is_of(away, u64::MAX));
            a.apply(&change);
        }
        assert!(nodes.set(there, Incarnation(0)));
        a.retain_nodes(|node| nodes.is_living(node));
        assert_eq!(
            (a.get(at(1_000), "ours"), a.get(at(1_000), "theirs")),
            (Some(&Value::Int(1)), None)
        );
        assert_eq!((a.entries.len(), a.by_age.len()), (1, 1));
    }

    #[test]
    fn entries_expire_and_replicas_agree() {
        let (mut a, mut b) = (cache(1), cache(2));
        a.put(at(1_000), "k", Value::Int(1), 2).unwrap();
        a.put(at(1_000), "gone", Value::Int(9), 0).unwrap();
        a.delete(at(1_001), "gone").unwrap();
        b.put(at(1_000), "other", Value::text("x"), 0).unwrap();
        for change in a.take_changes() {
            b.apply(&change);
            b.apply(&change);
        }
        for change in b.take_changes() {
            a.apply(&change);
        }
        for cache in [&a, &b] {
            assert_eq!(cache.get(at(2_999), "k"), Some(&Value::Int(1)));
            assert_eq!(cache.get(at(3_000), "k"), None);
            assert_eq!(cache.get(at(3_000), "other"), Some(&Value::text("x")));
            assert_eq!(cache.get(at(1_001), "gone"), None);
            assert_eq!(cache.len(), 2);
        }
        assert!(a.take_changes().is_empty());
    }

    #[test]
    fn the_later_write_wins_on_every_replica() {
        let (mut a, mut b) = (cache(1), cache(2));
        a.put(at(5), "k", Value::Int(1), 0).unwrap();
        b.put(at(6), "k", Value::Int(2), 0).unwrap();
        let (from_a, from_b) = (a.take_changes(), b.take_changes());
        from_b.iter().for_each(|change| a.apply(change));
        from_a.iter().for_each(|change| b.apply(change));
        assert_eq!(a.get(at(7), "k"), Some(&Value::Int(2)));
        assert_eq!(b.get(at(7), "k"), Some(&Value::Int(2)));
        b.clear(at(8));
        b.take_changes().iter().for_each(|change| a.apply(change));
        assert!(a.is_empty() && b.is_empty());
    }

    /// Within one millisecond, and with a clock that was set back: who has seen the older write
    /// overwrites it, on every replica.
    #[test]
    fn a_write_is_never_older_than_what_its_writer_has_seen() {
        let (mut a, mut b) = (cache(1), cache(2));
        for number in 0..100 {
            b.put(at(5), &format!("other{number}"), Value::Nil, 0).unwrap();
        }
        b.put(at(5), "k", Value::Int(0), 0).unwrap();
        b.take_changes().iter().for_each(|change| a.apply(change));
        for (round, unix_ms) in (1..).zip([5, 5, 1, 0, 4, 6, 2]) {
            let (writer, reader) = if round % 2 == 1 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            writer.put(at(unix_ms), "k", Value::Int(round), 0).unwrap();
            assert_eq!(writer.get(at(unix_ms), "k"), Some(&Value::Int(round)), "{round}");
            writer.take_changes().iter().for_each(|change| reader.apply(change));
            assert_eq!(reader.get(at(unix_ms), "k"), Some(&Value::Int(round)), "{round}");
        }
        a.delete(at(0), "k").unwrap();
        assert_eq!(a.get(at(0), "k"), None);
        a.take_changes().iter().for_each(|change| b.apply(change));
        assert_eq!(b.get(at(0), "k"), None);
        b.put(at(0), "k", Value::Int(9), 0).unwrap();
        b.clear(at(0));
        assert!(b.is_empty());
    }

    #[test]
    fn the_oldest_entries_make_room_and_limits_are_errors() {
        let mut cache = self::cache(1);
        for number in 0..=ENTRIES_MAX {
            cache.put(at(1), &format!("k{number}"), Value::Bool(true), 0).unwrap();
            cache.take_changes();
        }
        assert_eq!((cache.len(), cache.evicted_count()), (ENTRIES_MAX, 1));
        assert!(cache.get(at(1), "k0").is_none() && cache.get(at(1), "k1").is_some());

        let large = Value::Bytes(vec![0; ENTRY_BYTES_MAX - 100].into());
        for number in 0..=BYTES_MAX / (ENTRY_BYTES_MAX - 100) {
            cache.put(at(2), &format!("l{number}"), large.clone(), 0).unwrap();
            cache.take_changes();
        }
        assert!(cache.len() < 100);
        let too_large = Value::Bytes(vec![0; ENTRY_BYTES_MAX].into());
        let refused = cache.put(at(3), "x", too_large, 0);
        assert!(matches!(refused, Err(CacheError::TooLarge { .. })));

        cache.take_changes();
        for _ in 0..CHANGES_MAX {
            cache.delete(at(4), "x").unwrap();
        }
        assert_eq!(cache.delete(at(4), "x"), Err(CacheError::TooManyChanges));
        cache.clear(at(5));
        assert_eq!(cache.take_changes().len(), 1);
    }

    /// What waits for the other threads is bounded in bytes: also if it overwrites itself.
    #[test]
    fn the_changes_of_a_call_are_bounded_in_bytes() {
        let mut cache = self::cache(1);
        let large = Value::Bytes(vec![0; ENTRY_BYTES_MAX - 100].into());
        let full = CacheError::TooManyChanges;
        for round in 1..4 {
            let puts = (0..100).map(|_| cache.put(at(round), "k", large.clone(), 0));
            let done = puts.take_while(Result::is_ok).count();
            assert_eq!(done, CHANGES_BYTES_MAX / (ENTRY_BYTES_MAX - 100));
            assert_eq!(cache.put(at(round), "k", large.clone(), 0), Err(full.clone()));
            assert_eq!(cache.refused_count(), 2 * round);
            if round == 2 { cache.clear(at(round)) } else { drop(cache.take_changes()) }
        }
    }
}
