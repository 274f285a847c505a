//! What becomes of a core thread's connections: queues, limits, backpressure, closing in order,
//! and what the handler's operations do to them. Calls neither the handler nor a driver.
//!
//! Operations and a driver's reports (`on_…`) come in; out go the dirty list, which tells the
//! driver whom to look at, and inputs that are put off until the handler may be called.

use std::collections::VecDeque;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use event::{CloseReason, ConnId, ConnectFailure, Now, OncePerSecond, Op, Urgency};

use crate::attempts::{Attempts, Wish};
use crate::burst::Burst;
use crate::conns::{Conns, Held, Phase};
use crate::counters::{Count, Counters};
use crate::datagrams::Outbox;
use crate::fair::Turns;
use crate::limits::Limits;
use crate::mail::Postman;
use crate::outgoing::{Outgoing, Pool};
use crate::stop::Stage;

/// How long a thread lets events coalesce after a turn that brought nothing urgent, unless its handler
/// says otherwise. A wake-up costs more than handling a message that only waits for a tick (4,000 of
/// them a second took 4,900 turns and 70 ms; coalesced for 4 ms, 280 turns and 36 ms). The first turn
/// with something urgent in it (an answer, a connection, mail) ends the coalescing.
const COALESCE_NS: u64 = 1_000_000;

/// What there is too little of for one more connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// The thread has as many as it may.
    Connections,
    /// The process may have no more open files, or the ring of the thread.
    Files,
}

/// A connection with so much unsent is behind: it is closed when all have too much together.
const BEHIND_BYTES_MIN: usize = 16 << 10;

/// An input that is told at a place in the turn where the handler may be called.
#[derive(Debug)]
pub(crate) enum Deferred {
    Sent(ConnId),
    Gone(u32),
    /// An attempt to connect that has no slot, or none any more.
    ConnectFailed(u64, ConnectFailure),
}

/// The connections of a core thread, its timers and its mail.
pub struct Net<M> {
    /// When the turn began.
    pub(crate) now: Now,
    /// Turns since the start, without those before which something was left.
    pub(crate) turn: u64,
    /// The thread's limits.
    pub limits: Limits,
    /// What it counts.
    pub counters: Counters,
    /// Its connections.
    pub conns: Conns,
    pub(crate) pool: Pool,
    pub(crate) postman: Postman<M>,
    /// Connections that want something of the kernel, each at most once.
    dirty: Vec<u32>,
    pub(crate) attempts: Attempts,
    /// Whether the listeners are open.
    pub(crate) accepting: bool,
    pub(crate) resuming: VecDeque<u32>,
    pub(crate) turns: Turns,
    pub(crate) deferred: VecDeque<Deferred>,
    pub(crate) wake_ns: Option<u64>,
    lingering: VecDeque<(u64, ConnId)>,
    /// When it is next looked whether peers take what is sent to them, while anything waits; and
    /// how often that is looked.
    pub(crate) look_ns: Option<u64>,
    pub(crate) look_ms: u32,
    /// When accepting goes on after the system had nothing left for a connection.
    accept_resume_ns: Option<u64>,
    pub(crate) stage: Stage,
    /// What bounds the thread's connections.
    bounded_by: Scarce,
    pub(crate) said: OncePerSecond,
    pub(crate) burst: Burst,
    /// Whether the allocator should be asked for memory.
    pub(crate) trim: bool,
    /// How long events may coalesce while nothing is urgent.
    pub(crate) coalesce_ns: u64,
    /// Whether this turn has posted mail that can wait, and whether anything cannot.
    pub(crate) was_lazy: bool,
    pub(crate) was_urgent: bool,
    /// Datagrams that wait for the turn's end, of each socket.
    pub(crate) outboxes: Vec<Outbox>,
    /// Cost of the datagrams that were told in this turn.
    pub(crate) datagrams_spent: u64,
}

impl<M> Net<M> {
    pub(crate) fn new(now: Now, limits: Limits, bounded_by: Scarce, postman: Postman<M>) -> Self {
        let mut net = Self {
            now,
            turn: 0,
            limits,
            counters: Counters::default(),
            conns: Conns::new(limits.connections_max),
            pool: Pool::default(),
            postman,
            dirty: Vec::new(),
            attempts: Attempts::default(),
            accepting: true,
            resuming: VecDeque::new(),
            turns: Turns::default(),
            deferred: VecDeque::new(),
            wake_ns: None,
            lingering: VecDeque::new(),
            look_ns: None,
            look_ms: crate::stall::look_ms(limits.stall_ms.min(limits.flush_ms)),
            accept_resume_ns: None,
            stage: Stage::Running,
            bounded_by,
            said: OncePerSecond::default(),
            burst: Burst::default(),
            trim: false,
            coalesce_ns: COALESCE_NS,
            was_lazy: false,
            was_urgent: false,
            outboxes: Vec::new(),
            datagrams_spent: 0,
        };
        net.begin_turns();
        net
    }

    /// Turns since the start.
    #[inline]
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Whether something of this turn is left for the next.
    pub(crate) fn has_leftovers(&self) -> bool {
        !self.deferred.is_empty()
            || !self.resuming.is_empty()
            || self.turns.is_waiting()
            || self.postman.refused() > 0
    }

    /// When the next timer or limit of time is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let dues = [
            self.wake_ns,
            self.accept_resume_ns,
            self.stage.due_ns(),
            self.lingering.front().map(|(due_ns, _)| *due_ns),
            self.look_ns,
            self.attempts.next_ns(),
        ];
        dues.into_iter().flatten().min()
    }

    /// Does one of the handler's operations.
    #[inline]
    pub(crate) fn apply(&mut self, op: Op<M>, arena: &[u8]) {
        if let Op::Mail { urgency: Urgency::Lazy, .. } = op {
            self.was_lazy = true;
        } else {
            self.was_urgent = true;
        }
        match op {
            Op::Send { conn, range } => {
                let bytes = &arena[range];
                self.send(conn, bytes.len(), |out, pool| out.push(bytes, pool));
            }
            Op::SendShared { conn, bytes } => {
                self.send(conn, bytes.len(), |out, pool| out.push_shared(bytes, pool));
            }
            Op::OfferShared { conn, bytes } => {
                if self.is_behind(conn) {
                    self.counters.add(Count::OutputDropped, 1);
                } else {
                    self.send(conn, bytes.len(), |out, pool| out.push_shared(bytes, pool));
                }
            }
            Op::OutputPatience { conn, ms } => self.set_patience(conn, ms),
            Op::Mail { to, mail, urgency } => {
                self.postman.post(to, mail, urgency, &mut self.counters);
            }
            Op::TellWhenSent { conn } => self.tell_when_sent(conn),
            Op::Close { conn } => self.close(conn),
            Op::Abort { conn } => {
                if self.conns.named(conn).is_some() {
                    self.fail(conn.slot, CloseReason::Asked);
                }
            }
            Op::Reading { conn, on } => self.set_reading(conn, on),
            Op::OutputMax { conn, bytes } => {
                if let Some(state) = self.conns.named(conn) {
                    state.output_max = u32::try_from(bytes).unwrap_or(u32::MAX);
                }
            }
            Op::Coalesce { ns } => self.coalesce_ns = ns,
            Op::Connect { attempt, from, to, token, within_ms } => {
                self.connect(Wish { id: attempt, from, to, token }, within_ms);
            }
            Op::CancelConnect { attempt } => {
                if let Some(slot) = self.attempts.slot(attempt) {
                    self.fail_connect(slot, ConnectFailure::Cancelled);
                }
            }
            Op::SendDatagram { socket, to, range } => {
                self.send_datagram(socket, to, &arena[range]);
            }
            Op::StopAccepting => self.accepting = false,
            Op::Stop => self.stop(),
        }
    }

    /// Queues bytes, unless that would be too many.
    #[inline]
    fn send(&mut self, conn: ConnId, len: usize, push: impl FnOnce(&mut Outgoing, &mut Pool)) {
        let Some(state) = self.conns.named(conn) else { return };
        if state.phase() != Phase::Open {
            return;
        }
        let out = state.out.get_or_insert_with(|| self.pool.queue());
        // What is said at once is taken whole, however large, and so is a large body behind its
        // head: the limit is on what the kernel was offered before and the peer has not read.
        let output_max = state.output_max as usize;
        if out.unsent() + len > output_max {
            let is_behind = out.unsent() > BEHIND_BYTES_MIN.min(output_max / 2);
            if is_behind && out.is_blocked(self.turn) {
                self.fail(conn.slot, CloseReason::OutputLimit);
                return;
            }
            // Whether the peer reads is not known before the kernel has been asked.
            self.turns.end_early();
        }
        let total = self.counters.value(Count::Unsent);
        if out.unsent() >= BEHIND_BYTES_MIN && total + len as u64 > self.limits.output_total_max {
            self.fail(conn.slot, CloseReason::OutputTotal);
            return;
        }
        if self.look_ns.is_none() {
            self.look_ns = Some(self.now.after_ms(u64::from(self.look_ms)).mono_ns);
        }
        push(out, &mut self.pool);
        self.burst.note(len);
        self.counters.add(Count::Unsent, len as u64);
        if out.unsent() > self.limits.output_bytes_high as usize && !state.reading_paused {
            state.reading_paused = true;
            self.counters.add(Count::ReadPauses, 1);
            self.floods(conn.slot);
        }
        self.touch(conn.slot);
    }

    fn tell_when_sent(&mut self, conn: ConnId) {
        let Some(state) = self.conns.named(conn) else { return };
        match &mut state.out {
            Some(out) => out.tell_when_sent(),
            None => self.deferred.push_back(Deferred::Sent(conn)),
        }
    }

    fn set_reading(&mut self, conn: ConnId, on: bool) {
        let Some(state) = self.conns.named(conn) else { return };
        let stops = !on && !state.reading_off;
        state.reading_off = !on;
        let may_resume = on && state.held.is_some();
        if stops {
            self.counters.add(Count::ReadPauses, 1);
            self.floods(conn.slot);
        }
        if may_resume {
            self.resume(conn.slot);
        }
        self.touch(conn.slot);
    }

    fn connect(&mut self, wish: Wish, within_ms: u32) {
        let failed = |failure| Deferred::ConnectFailed(wish.token, failure);
        if self.stage != Stage::Running {
            self.deferred.push_back(failed(ConnectFailure::Shutdown));
            return;
        }
        match self.conns.take(Phase::Connecting, self.limits.output_bytes_max) {
            Some(conn) => {
                self.counters.add(Count::Open, 1);
                self.conns.at(conn.slot).patience_ms = self.limits.stall_ms;
                let within_ms = within_ms.min(self.limits.connect_ms);
                self.attempts.begin(conn.slot, wish, self.now.after_ms(u64::from(within_ms)));
                self.touch(conn.slot);
            }
            None => self.deferred.push_back(failed(ConnectFailure::NoSlot)),
        }
    }

    /// Where the connection that is being made in `slot` goes.
    #[must_use]
    pub fn connects_to(&self, slot: u32) -> SocketAddr {
        self.attempts.to(slot)
    }

    /// The local address that the connection in `slot` is to come from; none for any.
    #[must_use]
    pub fn connects_from(&self, slot: u32) -> Option<IpAddr> {
        self.attempts.from(slot)
    }

    /// An attempt to connect has failed, is taken back, or has lasted long enough.
    pub(crate) fn fail_connect(&mut self, slot: u32, failure: ConnectFailure) {
        self.attempts.fail(slot, failure);
        let state = self.conns.at(slot);
        if state.phase() == Phase::Connecting {
            state.become_phase(Phase::Dying);
        }
        self.touch(slot);
    }

    /// The system says that an outgoing connection cannot be made.
    pub fn on_connect_failed(&mut self, slot: u32, failure: ConnectFailure) {
        self.fail_connect(slot, failure);
    }

    /// Closes in order: send what is queued, shut down, wait for the peer.
    pub(crate) fn close(&mut self, conn: ConnId) {
        let Some(state) = self.conns.named(conn) else { return };
        match state.phase() {
            Phase::Open => {}
            Phase::Free
            | Phase::Connecting
            | Phase::Flushing
            | Phase::Lingering
            | Phase::Dying
            | Phase::Gone => return,
        }
        state.reason = if state.eof { CloseReason::Peer } else { CloseReason::Asked };
        state.become_phase(Phase::Flushing);
        self.drop_held(conn.slot);
        let state = self.conns.at(conn.slot);
        if state.out.is_none() {
            self.flushed(conn.slot);
        } else {
            state.patience_ms = state.patience_ms.min(self.limits.flush_ms);
        }
        self.touch(conn.slot);
    }

    /// All is sent of a connection that is being closed.
    fn flushed(&mut self, slot: u32) {
        let due_ns = self.due_ns(self.limits.linger_ms);
        let conn = self.conns.id(slot);
        let state = self.conns.at(slot);
        assert!(state.phase() == Phase::Flushing && state.out.is_none());
        if state.eof {
            let reason = state.reason;
            self.fail(slot, reason);
        } else {
            state.become_phase(Phase::Lingering);
            self.lingering.push_back((due_ns, conn));
            self.touch(slot);
        }
    }

    /// The peer or the network has reset the connection.
    pub fn on_reset(&mut self, slot: u32) {
        if self.conns.at(slot).phase() == Phase::Connecting {
            self.fail_connect(slot, ConnectFailure::Refused);
        } else {
            self.fail(slot, CloseReason::Reset);
        }
    }

    /// What a driver watched for instead of receiving has come: the connection is dead in both
    /// directions. Where it receives as well, receiving tells.
    pub fn on_hang_up(&mut self, slot: u32) {
        if self.conns.at(slot).wants_watch() {
            self.fail(slot, CloseReason::Reset);
        }
    }

    /// Ends a connection without further ado; the driver takes it from here.
    pub(crate) fn fail(&mut self, slot: u32, reason: CloseReason) {
        let state = self.conns.at(slot);
        match state.phase() {
            Phase::Free | Phase::Dying | Phase::Gone => return,
            Phase::Connecting => return self.fail_connect(slot, ConnectFailure::Shutdown),
            Phase::Open => state.reason = reason,
            // The handler has asked already: what else goes wrong is of no interest to it.
            Phase::Flushing | Phase::Lingering => {}
        }
        state.become_phase(Phase::Dying);
        state.granted = false;
        self.drop_held(slot);
        self.touch(slot);
    }

    /// The socket took nothing of what it was offered.
    pub fn on_send_blocked(&mut self, slot: u32) {
        let state = self.conns.at(slot);
        if let Some(out) = &mut state.out {
            out.blocked();
        }
        self.touch(slot);
    }

    /// The kernel has taken the first `bytes` of what it was offered, and has let go of all of it.
    #[inline]
    pub fn on_sent(&mut self, slot: u32, bytes: usize) {
        self.counters.add(Count::Sends, 1);
        self.counters.add(Count::BytesOut, bytes as u64);
        self.counters.subtract(Count::Unsent, bytes as u64);
        let conn = self.conns.id(slot);
        let state = self.conns.at(slot);
        let out = state.out.as_mut();
        assert!(out.is_some(), "{bytes} bytes are sent of an empty queue");
        let Some(out) = out else { return };
        if out.sent(bytes, &mut self.pool) {
            self.deferred.push_back(Deferred::Sent(conn));
        }
        let unsent = out.unsent();
        if unsent == 0
            && let Some(queue) = state.out.take()
        {
            self.pool.recycle(queue);
        }
        let low = self.limits.output_bytes_high as usize / 2;
        if state.reading_paused && (unsent < low || unsent == 0) {
            state.reading_paused = false;
            if state.held.is_some() {
                self.resume(slot);
            }
            self.touch(slot);
        }
        if unsent > 0 {
            self.touch(slot);
        } else if self.conns.at(slot).phase() == Phase::Flushing {
            self.flushed(slot);
        }
    }

    /// The driver has closed the socket and the kernel holds nothing of it any more.
    pub fn on_released(&mut self, slot: u32) {
        let state = self.conns.at(slot);
        state.become_phase(Phase::Gone);
        state.eof = false;
        if let Some(queue) = state.out.take() {
            assert!(!queue.is_pinned(), "the kernel still reads");
            self.counters.subtract(Count::Unsent, queue.unsent() as u64);
            self.pool.recycle(queue);
        }
        self.deferred.push_back(Deferred::Gone(slot));
    }

    /// Puts a connection on the driver's list.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        let state = self.conns.at(slot);
        if !std::mem::replace(&mut state.dirty, true) {
            self.dirty.push(slot);
        }
    }

    /// Gives the driver every connection that wants something, in the order they came to want it,
    /// and those that the work itself makes want more; then those whose turn it is to receive.
    #[inline]
    pub fn work_off_dirty(&mut self, mut work_off: impl FnMut(&mut Self, u32)) {
        let mut slots = std::mem::take(&mut self.dirty);
        loop {
            while !slots.is_empty() {
                for slot in slots.drain(..) {
                    self.conns.at(slot).dirty = false;
                    work_off(self, slot);
                }
                std::mem::swap(&mut slots, &mut self.dirty);
            }
            let Some(slot) = self.grant() else { break };
            work_off(self, slot);
            std::mem::swap(&mut slots, &mut self.dirty);
        }
        self.dirty = slots;
    }

    pub(crate) fn resume(&mut self, slot: u32) {
        let state = self.conns.at(slot);
        if !std::mem::replace(&mut state.resuming, true) {
            self.resuming.push_back(slot);
        }
    }

    /// Throws away what is held of a connection that is not read any more.
    pub(crate) fn drop_held(&mut self, slot: u32) {
        if let Some(held) = self.conns.at(slot).held.take() {
            self.count_dropped(&held);
        }
    }

    pub(crate) fn count_dropped(&mut self, held: &Held) {
        let untold = (held.bytes.len() - held.told) as u64;
        self.counters.subtract(Count::Held, untold);
        self.counters.add(Count::BytesDiscarded, untold);
    }

    /// One connection too many is closed at once.
    pub(crate) fn refuse_for_connections(&mut self) {
        self.refuse_accept(self.bounded_by);
    }

    /// A connection is accepted and closed at once, for want of room.
    pub fn refuse_accept(&mut self, scarce: Scarce) {
        self.counters.add(Count::AcceptRefused, 1);
        let kind = match scarce {
            Scarce::Connections => "connections_max",
            Scarce::Files => "open files",
        };
        let Some(unsaid) = self.said.note(self.now, kind) else { return };
        let connections = self.conns.open();
        match scarce {
            Scarce::Connections => tracing::warn!(
                unsaid,
                connections,
                "connections are closed at once: a thread holds its part of \
                 engine.connections_max (said once a second)"
            ),
            Scarce::Files => tracing::warn!(
                unsaid,
                connections,
                "connections are closed at once: the limit of open files is reached; raise it \
                 (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile of Docker) (said once a \
                 second)"
            ),
        }
    }

    pub(crate) fn flush_wakes(&mut self) {
        self.postman.flush_wakes(&mut self.counters);
    }

    pub(crate) fn due_ns(&self, after_ms: u32) -> u64 {
        self.now.after_ms(u64::from(after_ms)).mono_ns
    }

    /// Ends attempts to connect that got no answer in time.
    fn end_attempts(&mut self) {
        while let Some(slot) = self.attempts.pop_due(self.now) {
            self.fail_connect(slot, ConnectFailure::TimedOut);
        }
    }

    /// Whether the driver should be accepting connections just now.
    #[must_use]
    pub fn wants_accept(&self) -> bool {
        self.accepting && self.accept_resume_ns.is_none()
    }

    /// Whether the listeners are to be closed for good.
    #[must_use]
    pub fn has_stopped_accepting(&self) -> bool {
        !self.accepting
    }

    /// The system had no file or memory for a connection: tries again a little later.
    pub fn pause_accepting(&mut self, error: &dyn Display) {
        if let Some(unsaid) = self.said.note(self.now, "accept") {
            tracing::warn!(
                %error,
                unsaid,
                "cannot accept connections, trying again soon (said once a second)"
            );
        }
        self.counters.add(Count::AcceptFailures, 1);
        self.accept_resume_ns = Some(self.due_ns(self.limits.accept_pause_ms));
    }

    /// Ends connecting, sending and lingering that have lasted long enough.
    pub(crate) fn end_waits(&mut self, now_ns: u64) {
        self.end_stage(now_ns);
        self.end_attempts();
        self.accept_resume_ns = self.accept_resume_ns.filter(|due_ns| *due_ns > now_ns);
        while let Some((due_ns, conn)) = self.lingering.front().copied()
            && due_ns <= now_ns
        {
            self.lingering.pop_front();
            if self.conns.named(conn).is_some_and(|state| state.phase() == Phase::Lingering) {
                self.counters.add(Count::LingerTimeouts, 1);
                self.fail(conn.slot, CloseReason::Asked);
            }
        }
        self.end_stalls(now_ns);
    }

    /// Stops the process if anything is not as it must be between two turns: the state of every
    /// connection ([`crate::Conn::assert_legal`]), the lists that it is in, and the gauges.
    ///
    /// For tests and simulations: it looks at every connection.
    pub fn assert_legal(&self) {
        let (mut unsent, mut held) = (0, 0);
        for state in self.conns.iter() {
            state.assert_legal();
            unsent += state.unsent() as u64;
            held += state.held.as_ref().map_or(0, |held| (held.bytes.len() - held.told) as u64);
        }
        assert_eq!(self.counters.value(Count::Unsent), unsent, "bytes unsent");
        assert_eq!(self.counters.value(Count::Held), held, "bytes held");
        let flooding = self.conns.iter().filter(|state| state.has_flooded).count() as u64;
        assert_eq!(self.counters.value(Count::Flooding), flooding, "connections that flood");
        assert_eq!(self.counters.value(Count::Open), u64::from(self.conns.open()), "connections");
        assert!(self.outboxes.iter().all(Outbox::is_empty), "datagrams wait longer than a turn");
        let conns = &self.conns;
        assert!(conns.are_listed(self.dirty.iter(), |conn| conn.dirty), "who wants something");
        assert!(conns.are_listed(self.resuming.iter(), |conn| conn.resuming), "who resumes");
        assert!(conns.are_listed(self.turns.in_line(), |conn| conn.hungry), "who is in line");
    }
}
