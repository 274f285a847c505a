//! What becomes of a core thread's connections: queues, limits, backpressure, closing in order,
//! and what the handler's operations do to them. Calls neither the handler nor a driver.
//!
//! Operations and a driver's reports (`on_…`) come in; out go the dirty list, which tells the
//! driver whom to look at, and inputs that are put off until the handler may be called.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use event::{CloseReason, ConnId, ConnectFailure, Now, OncePerSecond, Op, Urgency};

use crate::conns::{Conns, Held, Phase};
use crate::counters::{Count, Counters};
use crate::limits::Limits;
use crate::mailbox::Postman;
use crate::memory::Burst;
use crate::outgoing::{Outgoing, Pool};

/// How long the kernel may take to give back what it holds of aborted connections when a thread
/// ends. It takes a turn or two; this is for a machine that hardly lets the thread run.
const ABORTING_MS_MAX: u32 = 10_000;
/// What there is too little of for one more connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scarce {
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
    /// An outgoing connection for which there was no slot.
    NoSlot(u64),
}

/// The connections of a core thread, its timers and its mail.
pub(crate) struct Net<M> {
    pub(crate) now: Now,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) conns: Conns,
    pub(crate) pool: Pool,
    pub(crate) postman: Postman<M>,
    /// Connections that want something of the kernel, each at most once.
    pub(crate) dirty: Vec<u32>,
    /// Where outgoing connections go, and the handler's tokens, until they stand or fail.
    pub(crate) connecting: BTreeMap<u32, (SocketAddr, u64)>,
    /// Whether the listeners are open.
    pub(crate) accepting: bool,
    pub(crate) resuming: Vec<u32>,
    pub(crate) deferred: VecDeque<Deferred>,
    pub(crate) wake_ns: Option<u64>,
    lingering: VecDeque<(u64, ConnId)>,
    /// When it is next looked whether peers take what is sent to them, while anything waits; and
    /// how often that is looked.
    pub(crate) look_ns: Option<u64>,
    pub(crate) look_ms: u32,
    /// Until when outgoing connections may be in the making, the oldest first.
    attempts: VecDeque<(u64, ConnId)>,
    /// When accepting goes on after the system had nothing left for a connection.
    pub(crate) accept_resume_ns: Option<u64>,
    pub(crate) stage: Stage,
    /// What bounds the thread's connections.
    pub(crate) bounded_by: Scarce,
    said: OncePerSecond,
    pub(crate) burst: Burst,
    /// How long events may gather while nothing is urgent.
    pub(crate) gather_ns: u64,
    /// Whether this turn has posted mail that can wait, and whether anything cannot.
    pub(crate) was_lazy: bool,
    pub(crate) was_urgent: bool,
}

/// How far a thread is on its way to its end, and until when it may stay there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    /// Connections take their last bytes.
    Draining(u64),
    /// Connections are aborted; the kernel gives back what it holds.
    Aborting(u64),
    Over,
}

impl Stage {
    fn due_ns(self) -> Option<u64> {
        match self {
            Self::Draining(due_ns) | Self::Aborting(due_ns) => Some(due_ns),
            Self::Running | Self::Over => None,
        }
    }
}

impl<M> Net<M> {
    pub(crate) fn new(now: Now, limits: Limits, postman: Postman<M>) -> Self {
        Self {
            now,
            limits,
            counters: Counters::default(),
            conns: Conns::new(limits.connections_max),
            pool: Pool::default(),
            postman,
            dirty: Vec::new(),
            connecting: BTreeMap::new(),
            accepting: true,
            resuming: Vec::new(),
            deferred: VecDeque::new(),
            wake_ns: None,
            lingering: VecDeque::new(),
            look_ns: None,
            look_ms: crate::stall::look_ms(limits.stall_ms.min(limits.flush_ms)),
            attempts: VecDeque::new(),
            accept_resume_ns: None,
            stage: Stage::Running,
            bounded_by: Scarce::Connections,
            said: OncePerSecond::default(),
            burst: Burst::default(),
            gather_ns: crate::driver::GATHER_NS,
            was_lazy: false,
            was_urgent: false,
        }
    }

    /// Whether something of this turn is left for the next.
    pub(crate) fn has_leftovers(&self) -> bool {
        !self.deferred.is_empty() || !self.resuming.is_empty() || !self.postman.refused.is_empty()
    }

    /// When the next timer or limit of time is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let dues = [
            self.wake_ns,
            self.accept_resume_ns,
            self.stage.due_ns(),
            self.lingering.front().map(|(due_ns, _)| *due_ns),
            self.look_ns,
            self.attempts.front().map(|(due_ns, _)| *due_ns),
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
                let bytes = arena.get(range).unwrap_or_default();
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
            Op::Gather { ns } => self.gather_ns = ns,
            Op::Connect { to, token } => self.connect(to, token),
            Op::StopAccepting => self.accepting = false,
            Op::Stop => self.stop(),
        }
    }

    /// Queues bytes, unless that would be too many.
    #[inline]
    fn send(&mut self, conn: ConnId, len: usize, push: impl FnOnce(&mut Outgoing, &mut Pool)) {
        let Some(state) = self.conns.named(conn) else { return };
        if state.phase != Phase::Open {
            return;
        }
        let out = state.out.get_or_insert_with(|| self.pool.queue());
        // What is said at once is taken whole, however large, and so is a large body behind its
        // head: the limit is on what was said before and the peer has not read.
        let output_max = state.output_max as usize;
        let is_behind = out.unsent() > BEHIND_BYTES_MIN.min(output_max / 2);
        if is_behind && out.unsent() + len > output_max {
            self.fail(conn.slot, CloseReason::OutputLimit);
            return;
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

    /// From now on the connection gets one receive buffer at a time.
    pub(crate) fn floods(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.conns.at(slot).has_flooded, true) {
            self.counters.add(Count::Flooding, 1);
        }
    }

    /// From now on the connection may be given several again.
    pub(crate) fn floods_no_more(&mut self, slot: u32) {
        if std::mem::take(&mut self.conns.at(slot).has_flooded) {
            self.counters.subtract(Count::Flooding, 1);
        }
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

    fn connect(&mut self, to: SocketAddr, token: u64) {
        match self.conns.take(Phase::Connecting, self.limits.output_bytes_max) {
            Some(conn) => {
                self.counters.add(Count::Open, 1);
                self.conns.at(conn.slot).patience_ms = self.limits.stall_ms;
                self.connecting.insert(conn.slot, (to, token));
                self.attempts.push_back((self.due_ns(self.limits.connect_ms), conn));
                self.touch(conn.slot);
            }
            None => self.deferred.push_back(Deferred::NoSlot(token)),
        }
    }

    /// Closes in order: send what is queued, shut down, wait for the peer.
    fn close(&mut self, conn: ConnId) {
        let Some(state) = self.conns.named(conn) else { return };
        match state.phase {
            Phase::Open => {}
            Phase::Connecting => return self.fail(conn.slot, CloseReason::Asked),
            Phase::Free | Phase::Flushing | Phase::Lingering | Phase::Dying | Phase::Gone => return,
        }
        state.reason = if state.eof { CloseReason::Peer } else { CloseReason::Asked };
        state.phase = Phase::Flushing;
        if let Some(held) = state.held.take() {
            self.drop_held(&held);
        }
        if self.conns.at(conn.slot).out.is_none() {
            self.flushed(conn.slot);
        } else {
            let flush_ms = self.limits.flush_ms;
            let state = self.conns.at(conn.slot);
            state.patience_ms = state.patience_ms.min(flush_ms);
        }
        self.touch(conn.slot);
    }

    /// All is sent of a connection that is being closed.
    fn flushed(&mut self, slot: u32) {
        let due_ns = self.due_ns(self.limits.linger_ms);
        let conn = self.conns.id(slot);
        let state = self.conns.at(slot);
        if state.eof {
            let reason = state.reason;
            self.fail(slot, reason);
        } else {
            state.phase = Phase::Lingering;
            self.lingering.push_back((due_ns, conn));
            self.touch(slot);
        }
    }

    /// Ends a connection without further ado; the driver takes it from here.
    pub(crate) fn fail(&mut self, slot: u32, reason: CloseReason) {
        let state = self.conns.at(slot);
        match state.phase {
            Phase::Free | Phase::Dying | Phase::Gone => return,
            Phase::Open | Phase::Connecting => state.reason = reason,
            // The handler has asked already: what else goes wrong is of no interest to it.
            Phase::Flushing | Phase::Lingering => {}
        }
        state.phase = Phase::Dying;
        if let Some(held) = state.held.take() {
            self.drop_held(&held);
        }
        self.touch(slot);
    }

    /// The kernel has taken the first `bytes` of what was pinned.
    #[inline]
    pub(crate) fn on_sent(&mut self, slot: u32, bytes: usize) {
        self.counters.add(Count::Sends, 1);
        self.counters.add(Count::BytesOut, bytes as u64);
        self.counters.subtract(Count::Unsent, bytes as u64);
        let conn = self.conns.id(slot);
        let state = self.conns.at(slot);
        let Some(out) = &mut state.out else { return };
        if out.sent(bytes, &mut self.pool) {
            self.deferred.push_back(Deferred::Sent(conn));
        }
        let unsent = out.unsent();
        if unsent == 0
            && let Some(queue) = state.out.take()
        {
            self.pool.recycle(queue);
        }
        if state.reading_paused && unsent < self.limits.output_bytes_high as usize / 2 {
            state.reading_paused = false;
            if state.held.is_some() {
                self.resume(slot);
            }
            self.touch(slot);
        }
        if unsent > 0 {
            self.touch(slot);
        } else if self.conns.at(slot).phase == Phase::Flushing {
            self.flushed(slot);
        }
    }

    /// The driver has closed the socket and the kernel holds nothing of it any more.
    pub(crate) fn on_released(&mut self, slot: u32) {
        let state = self.conns.at(slot);
        state.phase = Phase::Gone;
        if let Some(queue) = state.out.take() {
            self.counters.subtract(Count::Unsent, queue.unsent() as u64);
            self.pool.recycle(queue);
        }
        self.deferred.push_back(Deferred::Gone(slot));
    }

    /// Puts a connection on the driver's list.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32) {
        let state = self.conns.at(slot);
        if !std::mem::replace(&mut state.dirty, true) {
            self.dirty.push(slot);
        }
    }

    /// Gives the driver every connection that wants something, in the order they came to want it,
    /// and those that the work itself makes want more.
    #[inline]
    pub(crate) fn work_off_dirty(&mut self, mut work_off: impl FnMut(&mut Self, u32)) {
        let mut slots = std::mem::take(&mut self.dirty);
        while !slots.is_empty() {
            for slot in slots.drain(..) {
                self.conns.at(slot).dirty = false;
                work_off(self, slot);
            }
            std::mem::swap(&mut slots, &mut self.dirty);
        }
        self.dirty = slots;
    }

    pub(crate) fn resume(&mut self, slot: u32) {
        let state = self.conns.at(slot);
        if !std::mem::replace(&mut state.resuming, true) {
            self.resuming.push(slot);
        }
    }

    pub(crate) fn drop_held(&mut self, held: &Held) {
        let untold = (held.bytes.len() - held.told) as u64;
        self.counters.subtract(Count::Held, untold);
        self.counters.add(Count::BytesDiscarded, untold);
    }

    /// A connection is accepted and closed at once, for want of room.
    pub(crate) fn refuse_accept(&mut self, scarce: Scarce) {
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

    fn due_ns(&self, after_ms: u32) -> u64 {
        self.now.after_ms(u64::from(after_ms)).mono_ns
    }

    fn stop(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        self.accepting = false;
        if let Some(mailbox) = self.postman.exchange.mailbox(self.postman.me) {
            mailbox.close();
        }
        self.stage = Stage::Draining(self.due_ns(self.limits.stop_ms));
        for slot in self.conns.taken() {
            let conn = self.conns.id(slot);
            self.close(conn);
            self.conns.at(slot).reason = CloseReason::Shutdown;
        }
    }

    fn end_stage(&mut self, now_ns: u64) {
        if self.stage.due_ns().is_none_or(|due_ns| due_ns > now_ns) {
            return;
        }
        if let Stage::Draining(_) = self.stage {
            self.stage = Stage::Aborting(self.due_ns(ABORTING_MS_MAX));
            for slot in self.conns.taken() {
                self.fail(slot, CloseReason::Shutdown);
            }
        } else {
            self.stage = Stage::Over;
        }
    }

    /// Ends attempts to connect that got no answer in time.
    fn end_attempts(&mut self, now_ns: u64) {
        while let Some((due_ns, conn)) = self.attempts.front().copied() {
            let is_pending =
                self.conns.named(conn).is_some_and(|state| state.phase == Phase::Connecting);
            // Those that have come to an end go at once, so that nobody is woken for them.
            if is_pending && due_ns > now_ns {
                return;
            }
            self.attempts.pop_front();
            if is_pending {
                self.fail(conn.slot, CloseReason::ConnectFailed(ConnectFailure::TimedOut));
            }
        }
    }

    /// Whether the driver should be accepting connections just now.
    pub(crate) fn wants_accept(&self) -> bool {
        self.accepting && self.accept_resume_ns.is_none()
    }

    /// The system had no file or memory for a connection: tries again a little later.
    pub(crate) fn pause_accepting(&mut self, error: &std::io::Error) {
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
        self.end_attempts(now_ns);
        self.accept_resume_ns = self.accept_resume_ns.filter(|due_ns| *due_ns > now_ns);
        while let Some((due_ns, conn)) = self.lingering.front().copied()
            && due_ns <= now_ns
        {
            self.lingering.pop_front();
            if self.conns.named(conn).is_some_and(|state| state.phase == Phase::Lingering) {
                self.counters.add(Count::LingerTimeouts, 1);
                self.fail(conn.slot, CloseReason::Asked);
            }
        }
        self.end_stalls(now_ns);
    }
}
