//! Input of one connection that has to wait: behind a request that is being answered, because the
//! connection has had its share of the turn, or because its client has not taken earlier answers.
//!
//! Bytes are taken from the front by an offset, never copied for each request, so that the work is
//! in proportion to the bytes. The core stops reading above [`HELD_BYTES_MAX`] and goes on reading
//! at half of it; what the engine delivers at once may come on top.

use std::sync::Arc;

use event::{ConnId, Now, Output};

use super::{Core, State};
use crate::mail::Mail;
use crate::stats::CoreStats;

/// Bytes kept for a connection that sends on while its request is being answered; above it the
/// core stops reading from it until half of them are handled.
pub(super) const HELD_BYTES_MAX: usize = 64 * 1024;
/// Requests or messages of one connection that are handled in one turn; the rest of what has come
/// waits for the next turn, behind the neighbours. 128 messages take about 0.2 ms.
const HANDLED_PER_TURN_MAX: u16 = 128;
/// Bytes of answers on an HTTP connection after which its next request waits until the kernel has
/// taken them all: whoever asks for more than it takes is made to wait, not closed.
pub(super) const UNTAKEN_BYTES_MAX: usize = 64 * 1024;
/// The same on a socket, or half of what it may have unsent if that is less: what else it is sent
/// needs room beside its answers.
pub(super) const SOCKET_UNTAKEN_BYTES_MAX: usize = 16 * 1024;
/// Connections whose backlog goes on in one turn.
pub(super) const RESUMED_PER_TURN_MAX: usize = 32;

/// Bytes that wait, and the connection's share of the turn.
pub(super) struct Backlog {
    bytes: Vec<u8>,
    stats: Arc<CoreStats>,
    /// How many of `bytes` have been handled. Reading stops long before 4 GiB wait.
    taken: u32,
    /// What of them stands in the gauge.
    counted: u32,
    /// The turn in which `handled` requests were handled.
    turn: u32,
    handled: u16,
    /// Bytes of answers since the kernel was last known to have taken all.
    untaken: u32,
    /// The engine is asked to tell when it has; until then nothing is handled.
    is_untaken: bool,
    /// That has kept something waiting, and is counted.
    is_wait_counted: bool,
    /// Reading is stopped.
    is_paused: bool,
    /// The core's list of backlogs to go on with has it.
    pub(super) is_queued: bool,
}

/// A backlog's bytes while they are handled.
pub(super) struct Lent {
    bytes: Vec<u8>,
    taken: u32,
}

impl Lent {
    /// What is to be handled; `fresh` if nothing was waiting.
    pub(super) fn or<'a>(&'a self, fresh: &'a [u8]) -> &'a [u8] {
        let rest = self.bytes.get(self.taken as usize..).unwrap_or_default();
        if rest.is_empty() { fresh } else { rest }
    }
}

impl Backlog {
    pub(super) fn new(stats: Arc<CoreStats>) -> Self {
        Self {
            bytes: Vec::new(),
            stats,
            taken: 0,
            counted: 0,
            turn: 0,
            handled: 0,
            untaken: 0,
            is_untaken: false,
            is_wait_counted: false,
            is_paused: false,
            is_queued: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.taken as usize
    }

    /// Adds bytes behind what waits. What is handled goes when it is the larger part, so that each
    /// byte is moved once at most.
    pub(super) fn hold(&mut self, bytes: &[u8]) {
        if self.taken as usize > self.len() {
            self.bytes.drain(..self.taken as usize);
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
            self.taken = count_u32(lent.bytes.len().saturating_sub(left));
            self.bytes = lent.bytes;
        }
        self.recount();
    }

    /// Forgets everything; tells whether reading was stopped.
    pub(super) fn clear(&mut self) -> bool {
        self.bytes = Vec::new();
        self.taken = 0;
        self.is_untaken = false;
        self.recount();
        std::mem::take(&mut self.is_paused)
    }

    /// So much was answered; beyond `untaken_max` what follows waits for [`Self::all_taken`].
    pub(super) fn note_answer(
        &mut self,
        conn: ConnId,
        bytes: u64,
        untaken_max: usize,
        out: &mut Output<Mail>,
    ) {
        self.untaken = self.untaken.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if !self.is_untaken && self.untaken as usize > untaken_max {
            self.is_untaken = true;
            out.tell_when_sent(conn);
        }
    }

    /// The kernel has taken everything that was sent before.
    pub(super) fn all_taken(&mut self) {
        self.untaken = 0;
        self.is_untaken = false;
        self.is_wait_counted = false;
    }

    /// Whether nothing more may be asked until answers are taken.
    pub(super) fn is_untaken(&self) -> bool {
        self.is_untaken
    }

    /// The same when something is there that has to wait for it, to be counted.
    pub(super) fn waits_for_taking(&mut self) -> bool {
        if self.is_untaken && !std::mem::replace(&mut self.is_wait_counted, true) {
            self.stats.answers_awaited.up();
        }
        self.is_untaken
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

    /// Ends the connection's share of the turn: what it sent cost as much as many requests.
    pub(super) fn end_turn(&mut self) {
        self.handled = HANDLED_PER_TURN_MAX;
    }

    /// Stops reading when too much waits, and goes on when half is handled; tells whether it does.
    pub(super) fn backpressure(&mut self, conn: ConnId, out: &mut Output<Mail>) -> bool {
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
        let len = count_u32(self.len());
        if len >= self.counted {
            self.stats.input_bytes_waiting.add(u64::from(len - self.counted));
        } else {
            self.stats.input_bytes_waiting.take(u64::from(self.counted - len));
        }
        self.counted = len;
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.stats.input_bytes_waiting.take(u64::from(self.counted));
    }
}

fn count_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Core {
    /// The kernel has taken everything that was sent on a connection: it may ask for more.
    pub(super) fn all_taken(&mut self, now: Now, conn: ConnId, out: &mut Output<Mail>) {
        match self.take(conn) {
            State::Http(mut http) => {
                http.backlog.all_taken();
                http.heard = now;
                if http.waiting.is_some() || http.backlog.is_empty() {
                    return self.put(conn, State::Http(http));
                }
                self.http_run(now, conn, http, b"", out);
            }
            State::Socket(mut session) => {
                session.backlog.all_taken();
                session.heard = now.into();
                if session.waiting.is_some() || session.backlog.is_empty() {
                    return self.put(conn, State::Socket(session));
                }
                self.socket_run(now, conn, session, b"", out);
            }
            State::Grpc(mut grpc) => {
                grpc.backlog.all_taken();
                self.grpc_run(now, conn, grpc, b"", out);
            }
            other => self.put(conn, other),
        }
    }

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
