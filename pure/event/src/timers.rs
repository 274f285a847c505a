//! Deadlines of one handler, ordered by time. A handler keeps one of these, asks the engine to
//! wake it at [`Timers::next_ns`], and takes what is due with [`Timers::pop_due`].

use std::collections::BTreeMap;

use crate::Now;

/// Names one armed timer, so that it can be disarmed: its due time and a running number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId {
    due_ns: u64,
    serial: u64,
}

/// Timers that carry a `K` each. As many as the handler arms; every one is bounded by the thing
/// it belongs to (a connection, a match).
#[derive(Debug)]
pub struct Timers<K> {
    armed: BTreeMap<TimerId, K>,
    serial: u64,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { armed: BTreeMap::new(), serial: 0 }
    }
}

impl<K> Timers<K> {
    /// Arms a timer for `due`; timers of the same moment go off in the order they were armed.
    pub fn arm(&mut self, due: Now, what: K) -> TimerId {
        self.serial += 1;
        let id = TimerId { due_ns: due.mono_ns, serial: self.serial };
        self.armed.insert(id, what);
        id
    }

    /// Takes an armed timer back; `None` when it has gone off already.
    pub fn disarm(&mut self, id: TimerId) -> Option<K> {
        self.armed.remove(&id)
    }

    /// The next timer that is due at `now`, earliest first.
    pub fn pop_due(&mut self, now: Now) -> Option<K> {
        let entry = self.armed.first_entry()?;
        (entry.key().due_ns <= now.mono_ns).then(|| entry.remove())
    }

    /// When the earliest timer is due, in nanoseconds of [`Now::mono_ns`].
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.armed.first_key_value().map(|(id, _)| id.due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;
    use crate::Now;

    #[test]
    fn timers_go_off_in_order_and_can_be_disarmed() {
        let start = Now::default();
        let mut timers = Timers::default();
        timers.arm(start.after_ms(20), "late");
        timers.arm(start.after_ms(10), "early");
        let gone = timers.arm(start.after_ms(5), "disarmed");
        timers.arm(start.after_ms(10), "early too");
        assert_eq!(timers.disarm(gone), Some("disarmed"));
        assert_eq!(timers.next_ns(), Some(10_000_000));
        assert_eq!(timers.pop_due(start.after_ms(9)), None);
        assert_eq!(timers.pop_due(start.after_ms(10)), Some("early"));
        assert_eq!(timers.pop_due(start.after_ms(10)), Some("early too"));
        assert_eq!(timers.pop_due(start.after_ms(10)), None);
    }
}
