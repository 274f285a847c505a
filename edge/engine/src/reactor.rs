//! What a core thread decides, whichever driver carries it out: which inputs the handler gets and
//! when, what its operations do to a connection, and every limit on the way.
//!
//! A driver reports through `Net::on_…` and `Reactor::on_…`; nothing here calls a driver. Whatever
//! the kernel is to do follows from a connection's state: changed ones are put into the dirty
//! list, which the driver works off once a turn. So many answers become one send.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use event::{CloseReason, ConnId, Handler, Input, ListenerId, Now, Op, Output};

use crate::clock::Clock;
use crate::conns::{Conns, Held, Phase};
use crate::counters::{Count, Counters, Published};
use crate::limits::Limits;
use crate::mailbox::Postman;
use crate::outgoing::Pool;

/// Held input is told in pieces of this size, and at most this many a turn, so that one
/// connection's backlog does not hold up the others.
const HELD_PIECE_BYTES: usize = 16 << 10;
const HELD_PIECES_MAX: usize = 4;
/// Threads that were posted mail are woken after so many inputs, not only at the end of a turn.
const INPUTS_PER_WAKE: u32 = 32;

/// An input that is told at a place in the turn where the handler may be called.
#[derive(Debug)]
enum Deferred {
    Sent(ConnId),
    Gone(u32),
    /// An outgoing connection for which there was no slot.
    NoSlot(u64),
}

/// The handler of a core thread and everything around it.
pub(crate) struct Reactor<M> {
    handler: Box<dyn Handler<Mail = M>>,
    out: Output<M>,
    clock: Clock,
    published: Arc<Published>,
    was_busy: bool,
    inputs_since_wake: u32,
    pub(crate) net: Net<M>,
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
    resuming: Vec<u32>,
    deferred: VecDeque<Deferred>,
    wake_ns: Option<u64>,
    lingering: VecDeque<(u64, ConnId)>,
    flushing: VecDeque<(u64, ConnId, u64)>,
    /// When accepting goes on after the system had nothing left for a connection.
    accept_resume_ns: Option<u64>,
    stage: Stage,
}

/// How far a thread is on its way to its end, and until when it may stay there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Connections take their last bytes.
    Draining(u64),
    /// Connections are aborted; the kernel gives back what it holds.
    Aborting(u64),
    Over,
}

impl<M: Send + 'static> Reactor<M> {
    pub(crate) fn new(
        handler: Box<dyn Handler<Mail = M>>,
        clock: Clock,
        published: Arc<Published>,
        limits: Limits,
        postman: Postman<M>,
    ) -> Self {
        Self {
            handler,
            out: Output::default(),
            clock,
            published,
            was_busy: false,
            inputs_since_wake: 0,
            net: Net::new(clock.now(), limits, postman),
        }
    }

    /// Gives the handler one input and does what it asks for.
    #[inline]
    pub(crate) fn handle(&mut self, input: Input<'_, M>) {
        if self.net.stage != Stage::Running {
            if let Input::Mail(_) | Input::Refused { .. } = input {
                self.net.counters.add(Count::MailDropped, 1);
            }
            return;
        }
        self.was_busy = true;
        self.handler.handle(self.net.now, input, &mut self.out);
        if self.out.is_empty() {
            return;
        }
        if let Some(wake_ns) = self.out.take_wake() {
            self.net.wake_ns = wake_ns;
        }
        let (ops, arena) = self.out.parts();
        for op in ops {
            self.net.apply(op, arena);
        }
        self.out.reset();
        self.inputs_since_wake += 1;
        if self.inputs_since_wake >= INPUTS_PER_WAKE {
            self.inputs_since_wake = 0;
            self.net.flush_wakes();
        }
    }

    /// How long the thread may sleep; zero when something is left from this turn or mail waits.
    /// Announces the sleep, so that whoever posts mail from now on wakes the thread.
    pub(crate) fn fall_asleep(&mut self) -> Option<Duration> {
        let patience = self.patience();
        let exchange = &self.net.postman.exchange;
        if patience != Some(Duration::ZERO)
            && let Some(mailbox) = exchange.mailbox(self.net.postman.me)
            && !mailbox.try_sleep()
        {
            return Some(Duration::ZERO);
        }
        patience
    }

    fn patience(&self) -> Option<Duration> {
        let net = &self.net;
        if !net.deferred.is_empty() || !net.resuming.is_empty() || !net.postman.refused.is_empty() {
            return Some(Duration::ZERO);
        }
        let dues = [
            net.wake_ns,
            net.accept_resume_ns,
            net.stage.due_ns(),
            net.lingering.front().map(|(due_ns, _)| *due_ns),
            net.flushing.front().map(|(due_ns, ..)| *due_ns),
        ];
        let due_ns = dues.into_iter().flatten().min()?;
        // Time has passed since the turn began; a short wait must not become a long one.
        Some(Duration::from_nanos(due_ns.saturating_sub(self.clock.now().mono_ns)))
    }

    pub(crate) fn begin_turn(&mut self) {
        self.net.now = self.clock.now();
        if let Some(mailbox) = self.net.postman.exchange.mailbox(self.net.postman.me) {
            mailbox.awake();
        }
    }

    /// Takes all mail that is waiting, and the wish to stop.
    pub(crate) fn take_mail(&mut self) {
        let me = self.net.postman.me;
        if self.net.postman.exchange.mailbox(me).is_none_or(|mailbox| mailbox.is_idle()) {
            return;
        }
        let exchange = self.net.postman.exchange.clone();
        let Some(mailbox) = exchange.mailbox(me) else { return };
        for _ in 0..mailbox.capacity() {
            let Some(mail) = mailbox.pop() else { break };
            self.net.counters.add(Count::MailIn, 1);
            self.handle(Input::Mail(mail));
        }
        if mailbox.take_stop() {
            self.handle(Input::Stop);
        }
    }

    /// Tells what was put off. What comes of it waits for the next turn, so that a handler that
    /// posts refused mail again at once does not keep the thread here.
    pub(crate) fn take_deferred(&mut self) {
        for _ in 0..self.net.postman.refused.len() {
            let Some((to, mail)) = self.net.postman.refused.pop_front() else { break };
            self.handle(Input::Refused { to, mail });
        }
        for _ in 0..self.net.deferred.len() {
            match self.net.deferred.pop_front() {
                None => break,
                Some(Deferred::Sent(conn)) => {
                    let is_open =
                        self.net.conns.named(conn).is_some_and(|c| c.phase == Phase::Open);
                    if is_open {
                        self.handle(Input::Sent { conn });
                    }
                }
                Some(Deferred::Gone(slot)) => self.tell_gone(slot),
                Some(Deferred::NoSlot(token)) => {
                    let conn = ConnId { slot: u32::MAX, generation: 0 };
                    let reason = CloseReason::ConnectFailed;
                    self.handle(Input::Closed { conn, reason, token });
                }
            }
        }
    }

    fn tell_gone(&mut self, slot: u32) {
        let conn = self.net.conns.id(slot);
        let reason = self.net.conns.at(slot).reason;
        let token = self.net.connecting.remove(&slot).map_or(0, |(_, token)| token);
        self.net.counters.add(closed_count(reason), 1);
        self.net.counters.subtract(Count::Open, 1);
        self.net.conns.give_back(slot);
        self.handle(Input::Closed { conn, reason, token });
    }

    /// Tells held input of connections that are read from again.
    pub(crate) fn resume_held(&mut self) {
        for slot in std::mem::take(&mut self.net.resuming) {
            self.net.conns.at(slot).resuming = false;
            self.resume_one(slot);
        }
    }

    fn resume_one(&mut self, slot: u32) {
        let conn = self.net.conns.id(slot);
        let state = self.net.conns.at(slot);
        if state.phase != Phase::Open || state.reading_off || state.reading_paused {
            return;
        }
        let Some(mut held) = state.held.take() else { return };
        let mut pieces_left = HELD_PIECES_MAX;
        while held.told < held.bytes.len()
            && pieces_left > 0
            && self.net.conns.at(slot).is_reading()
        {
            let end = held.bytes.len().min(held.told + HELD_PIECE_BYTES);
            let Some(bytes) = held.bytes.get(held.told..end) else { break };
            self.net.counters.subtract(Count::Held, bytes.len() as u64);
            self.handle(Input::Bytes { conn, bytes });
            held.told = end;
            pieces_left -= 1;
        }
        let state = self.net.conns.at(slot);
        if state.phase != Phase::Open {
            self.net.drop_held(&held);
        } else if held.told < held.bytes.len() || (held.eof && !state.is_reading()) {
            let is_stopped = !state.is_reading();
            state.held = Some(held);
            if !is_stopped {
                self.net.resume(slot);
            }
        } else {
            self.net.touch(slot);
            if held.eof {
                self.handle(Input::Eof { conn });
            }
        }
    }

    /// Tells a wake-up that is due, and ends waits that have lasted long enough.
    pub(crate) fn take_timers(&mut self) {
        let now_ns = self.net.now.mono_ns;
        if self.net.wake_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.net.wake_ns = None;
            self.handle(Input::Wake);
        }
        self.net.end_waits(now_ns);
    }

    pub(crate) fn take_was_busy(&mut self) -> bool {
        std::mem::take(&mut self.was_busy)
    }

    pub(crate) fn publish(&mut self) {
        self.published.publish(&self.net.counters);
    }

    /// Whether the handler has stopped the thread and every connection is closed (or will not).
    pub(crate) fn is_finished(&self) -> bool {
        match self.net.stage {
            Stage::Running => false,
            Stage::Draining(_) | Stage::Aborting(_) => self.net.conns.open() == 0,
            Stage::Over => true,
        }
    }

    pub(crate) fn close_mailbox(&mut self) {
        if let Some(mailbox) = self.net.postman.exchange.mailbox(self.net.postman.me) {
            mailbox.close();
        }
        self.publish();
    }

    /// A driver accepted a connection. `None` if there is no room: it is to be closed at once.
    pub(crate) fn on_accepted(
        &mut self,
        listener: ListenerId,
        peer: SocketAddr,
        file: u32,
    ) -> Option<u32> {
        if !self.net.accepting {
            return None;
        }
        let Some(conn) = self.net.conns.take(Phase::Open, self.net.limits.output_bytes_max) else {
            self.net.refuse_accept();
            return None;
        };
        self.net.conns.at(conn.slot).file = file;
        self.net.counters.add(Count::Accepted, 1);
        self.net.counters.add(Count::Open, 1);
        self.net.touch(conn.slot);
        self.handle(Input::Opened { conn, listener, peer });
        Some(conn.slot)
    }

    /// An outgoing connection stands.
    pub(crate) fn on_connected(&mut self, slot: u32) {
        let conn = self.net.conns.id(slot);
        let state = self.net.conns.at(slot);
        if state.phase != Phase::Connecting {
            return;
        }
        state.phase = Phase::Open;
        let token = self.net.connecting.remove(&slot).map_or(0, |(_, token)| token);
        self.net.counters.add(Count::Connected, 1);
        self.net.touch(slot);
        self.handle(Input::Connected { conn, token });
    }

    /// Bytes arrived, at least one.
    #[inline]
    pub(crate) fn on_bytes(&mut self, slot: u32, bytes: &[u8]) {
        self.net.counters.add(Count::Receives, 1);
        self.net.counters.add(Count::BytesIn, bytes.len() as u64);
        let conn = self.net.conns.id(slot);
        let state = self.net.conns.at(slot);
        if state.phase != Phase::Open {
            self.net.counters.add(Count::BytesDiscarded, bytes.len() as u64);
        } else if state.is_reading() {
            self.handle(Input::Bytes { conn, bytes });
        } else {
            // Copied, so that the driver's shared buffers serve the neighbours. Bounded by what
            // the kernel delivers before the receive is cancelled at the end of this turn.
            state.held.get_or_insert_default().bytes.extend_from_slice(bytes);
            self.net.counters.add(Count::Held, bytes.len() as u64);
        }
    }

    /// The peer will send no more.
    pub(crate) fn on_eof(&mut self, slot: u32) {
        let conn = self.net.conns.id(slot);
        let state = self.net.conns.at(slot);
        if std::mem::replace(&mut state.eof, true) {
            return;
        }
        match state.phase {
            Phase::Open if state.is_reading() => self.handle(Input::Eof { conn }),
            Phase::Open => state.held.get_or_insert_default().eof = true,
            Phase::Lingering => {
                let reason = state.reason;
                self.net.fail(slot, reason);
            }
            Phase::Free | Phase::Connecting | Phase::Flushing | Phase::Dying | Phase::Gone => {}
        }
    }
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
    fn new(now: Now, limits: Limits, postman: Postman<M>) -> Self {
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
            flushing: VecDeque::new(),
            accept_resume_ns: None,
            stage: Stage::Running,
        }
    }

    /// Does one of the handler's operations.
    #[inline]
    fn apply(&mut self, op: Op<M>, arena: &[u8]) {
        match op {
            Op::Send { conn, range } => {
                let bytes = arena.get(range).unwrap_or_default();
                self.send(conn, bytes.len(), |out, pool| out.push(bytes, pool));
            }
            Op::SendShared { conn, bytes } => {
                self.send(conn, bytes.len(), |out, pool| out.push_shared(bytes, pool));
            }
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
            Op::Connect { to, token } => self.connect(to, token),
            Op::StopAccepting => self.accepting = false,
            Op::Stop => self.stop(),
        }
    }

    /// Queues bytes, unless that would be too many.
    #[inline]
    fn send(
        &mut self,
        conn: ConnId,
        len: usize,
        push: impl FnOnce(&mut crate::outgoing::Outgoing, &mut Pool),
    ) {
        let Some(state) = self.conns.named(conn) else { return };
        if state.phase != Phase::Open {
            return;
        }
        let out = state.out.get_or_insert_with(|| self.pool.queue());
        if out.unsent() + len > state.output_max as usize {
            self.fail(conn.slot, CloseReason::OutputLimit);
            return;
        }
        push(out, &mut self.pool);
        self.counters.add(Count::Unsent, len as u64);
        if out.unsent() > self.limits.output_bytes_high as usize && !state.reading_paused {
            state.reading_paused = true;
            self.counters.add(Count::ReadPauses, 1);
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
        state.reading_off = !on;
        if on && state.held.is_some() {
            self.resume(conn.slot);
        }
        self.touch(conn.slot);
    }

    fn connect(&mut self, to: SocketAddr, token: u64) {
        match self.conns.take(Phase::Connecting, self.limits.output_bytes_max) {
            Some(conn) => {
                self.counters.add(Count::Open, 1);
                self.connecting.insert(conn.slot, (to, token));
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
            let due_ns = self.due_ns(self.limits.flush_ms);
            let sent_total = self.conns.at(conn.slot).out.as_ref().map_or(0, |o| o.sent_total());
            self.flushing.push_back((due_ns, conn, sent_total));
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

    fn resume(&mut self, slot: u32) {
        let state = self.conns.at(slot);
        if !std::mem::replace(&mut state.resuming, true) {
            self.resuming.push(slot);
        }
    }

    fn drop_held(&mut self, held: &Held) {
        let untold = (held.bytes.len() - held.told) as u64;
        self.counters.subtract(Count::Held, untold);
        self.counters.add(Count::BytesDiscarded, untold);
    }

    fn refuse_accept(&mut self) {
        if self.counters.value(Count::AcceptRefused) == 0 {
            tracing::warn!(
                connections_max = self.limits.connections_max,
                "connections are closed at once: the thread holds as many as it may; \
                 raise connections_max or add threads (said once, counted in accept_refused)"
            );
        }
        self.counters.add(Count::AcceptRefused, 1);
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
            self.stage = Stage::Aborting(self.due_ns(self.limits.stop_ms));
            for slot in self.conns.taken() {
                self.fail(slot, CloseReason::Shutdown);
            }
        } else {
            self.stage = Stage::Over;
        }
    }

    /// Whether the driver should be accepting connections just now.
    pub(crate) fn wants_accept(&self) -> bool {
        self.accepting && self.accept_resume_ns.is_none()
    }

    /// The system had no file or memory for a connection: tries again a little later.
    pub(crate) fn pause_accepting(&mut self, error: &std::io::Error) {
        if self.counters.value(Count::AcceptFailures) == 0 {
            tracing::warn!(
                %error,
                "cannot accept a connection, trying again soon: if the limit of open files is \
                 reached, raise it (ulimit -n, LimitNOFILE= of systemd) (said once, counted in \
                 accept_failures)"
            );
        }
        self.counters.add(Count::AcceptFailures, 1);
        self.accept_resume_ns = Some(self.due_ns(self.limits.accept_pause_ms));
    }

    /// Ends flushing and lingering that have lasted long enough.
    fn end_waits(&mut self, now_ns: u64) {
        self.end_stage(now_ns);
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
        while let Some((due_ns, conn, sent_before)) = self.flushing.front().copied()
            && due_ns <= now_ns
        {
            self.flushing.pop_front();
            let Some(state) = self.conns.named(conn) else { continue };
            if state.phase != Phase::Flushing {
                continue;
            }
            let sent_total = state.out.as_ref().map_or(0, |out| out.sent_total());
            if sent_total > sent_before {
                let due_ns = self.due_ns(self.limits.flush_ms);
                self.flushing.push_back((due_ns, conn, sent_total));
            } else {
                self.counters.add(Count::FlushTimeouts, 1);
                self.fail(conn.slot, CloseReason::Asked);
            }
        }
    }
}

fn closed_count(reason: CloseReason) -> Count {
    match reason {
        CloseReason::Asked => Count::ClosedAsked,
        CloseReason::Peer => Count::ClosedPeer,
        CloseReason::Reset => Count::ClosedReset,
        CloseReason::OutputLimit => Count::ClosedOutputLimit,
        CloseReason::ConnectFailed => Count::ClosedConnectFailed,
        CloseReason::Shutdown => Count::ClosedShutdown,
    }
}
