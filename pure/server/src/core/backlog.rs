//! Input of one connection that has to wait: behind a request that is being answered, or because
//! the connection has had its share of the turn.
//!
//! Bytes are taken from the front by an offset, never copied for each request, so that the work is
//! in proportion to the bytes. The core stops reading above [`HELD_BYTES_MAX`] and goes on reading
//! at half of it; what the engine delivers at once may come on top.

use std::sync::Arc;

use event::{ConnId, Output};

use super::Core;
use crate::mail::Mail;
use crate::stats::CoreStats;

/// Bytes kept for a connection that sends on while its request is being answered; above it the
/// core stops reading from it until half of them are handled.
pub(super) const HELD_BYTES_MAX: usize = 64 * 1024;
/// Requests or messages of one connection that are handled in one turn; the rest of what has come
/// waits for the next turn, behind the neighbours. 128 messages take about 0.2 ms.
const HANDLED_PER_TURN_MAX: u16 = 128;
/// Connections whose backlog goes on in one turn.
pub(super) const RESUMED_PER_TURN_MAX: usize = 32;

/// Bytes that wait, and the connection's share of the turn.
pub(super) struct Backlog {
    bytes: Vec<u8>,
    /// How many of `bytes` have been handled.
    taken: usize,
    /// What of it stands in the gauge.
    counted: usize,
    stats: Arc<CoreStats>,
    /// The turn in which `handled` requests were handled.
    turn: u32,
    handled: u16,
    /// Reading is stopped.
    is_paused: bool,
    /// The core's list of backlogs to go on with has it.
    pub(super) is_queued: bool,
}

/// A backlog's bytes while they are handled.
pub(super) struct Lent {
    bytes: Vec<u8>,
    taken: usize,
}

impl Lent {
    /// What is to be handled; `fresh` if nothing was waiting.
    pub(super) fn or<'a>(&'a self, fresh: &'a [u8]) -> &'a [u8] {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        if rest.is_empty() { fresh } else { rest }
    }
}

impl Backlog {
    pub(super) fn new(stats: Arc<CoreStats>) -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            counted: 0,
            stats,
            turn: 0,
            handled: 0,
            is_paused: false,
            is_queued: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Adds bytes behind what waits. What is handled goes when it is the larger part, so that each
    /// byte is moved once at most.
    pub(super) fn hold(&mut self, bytes: &[u8]) {
        if self.taken > self.len() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
        self.recount();
    }

    /// Takes all bytes out, to be given back with [`Self::give_back`].
    pub(super) fn lend(&mut self) -> Lent {
        Lent { bytes: std::mem::take(&mut self.bytes), taken: std::mem::take(&mut self.taken) }
    }

    /// Takes the bytes back (or copies `fresh` ones), of which the last `left` are not handled.
    pub(super) fn give_back(&mut self, lent: Lent, fresh: &[u8], left: usize) {
        if lent.bytes.is_empty() {
            self.bytes.extend_from_slice(&fresh[fresh.len().saturating_sub(left)..]);
        } else if left > 0 {
            self.taken = lent.bytes.len().saturating_sub(left);
            self.bytes = lent.bytes;
        }
        self.recount();
    }

    /// Forgets everything; tells whether reading was stopped.
    pub(super) fn clear(&mut self) -> bool {
        self.bytes = Vec::new();
        self.taken = 0;
        self.recount();
        std::mem::take(&mut self.is_paused)
    }

    /// Whether one more request may be handled in this turn; counts it.
    pub(super) fn may_handle(&mut self, turn: u32) -> bool {
        if self.turn != turn {
            self.turn = turn;
            self.handled = 0;
        }
        self.handled = self.handled.saturating_add(1);
        self.handled <= HANDLED_PER_TURN_MAX
    }

    /// Stops reading when too much waits, and goes on when half is handled; tells whether it does.
    pub(super) fn pace(&mut self, conn: ConnId, out: &mut Output<Mail>) -> bool {
        if !self.is_paused && self.len() > HELD_BYTES_MAX {
            self.is_paused = true;
            out.reading(conn, false);
        } else if self.is_paused && self.len() <= HELD_BYTES_MAX / 2 {
            self.is_paused = false;
            out.reading(conn, true);
            return true;
        }
        false
    }

    fn recount(&mut self) {
        let len = self.len();
        if len >= self.counted {
            self.stats.input_bytes_waiting.add((len - self.counted) as u64);
        } else {
            self.stats.input_bytes_waiting.take((self.counted - len) as u64);
        }
        self.counted = len;
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.stats.input_bytes_waiting.take(self.counted as u64);
    }
}

impl Core {
    /// Has the connection's backlog gone on with in the next turn.
    pub(super) fn queue_backlog(&mut self, conn: ConnId, backlog: &mut Backlog) {
        if !std::mem::replace(&mut backlog.is_queued, true) {
            self.backlogs.push_back(conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Backlog, HANDLED_PER_TURN_MAX};
    use crate::stats::CoreStats;

    #[test]
    fn bytes_are_taken_from_the_front_and_counted_while_they_wait() {
        let stats = Arc::new(CoreStats::default());
        let mut backlog = Backlog::new(stats.clone());
        backlog.hold(b"abcdef");
        assert_eq!(stats.input_bytes_waiting.read(), 6);
        let lent = backlog.lend();
        assert_eq!(lent.or(b"fresh"), b"abcdef");
        backlog.give_back(lent, b"", 2);
        assert_eq!(stats.input_bytes_waiting.read(), 2);
        backlog.hold(b"gh");
        let lent = backlog.lend();
        assert_eq!(lent.or(b""), b"efgh");
        backlog.give_back(lent, b"", 0);
        assert!(backlog.is_empty() && stats.input_bytes_waiting.read() == 0);
        let lent = backlog.lend();
        assert_eq!(lent.or(b"fresh"), b"fresh");
        backlog.give_back(lent, b"fresh", 2);
        assert_eq!(stats.input_bytes_waiting.read(), 2);
        drop(backlog);
        assert_eq!(stats.input_bytes_waiting.read(), 0);
    }

    #[test]
    fn a_turn_has_room_for_so_many_requests() {
        let mut backlog = Backlog::new(Arc::default());
        for turn in 1..3 {
            let handled = (0..1_000).filter(|_| backlog.may_handle(turn)).count();
            assert_eq!(handled, usize::from(HANDLED_PER_TURN_MAX));
        }
    }
}
