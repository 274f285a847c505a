//! What a core thread's handler is told and when, whichever driver runs. What its operations do
//! to connections is decided in `net`.
//!
//! A driver reports through `Reactor::on_…` and `Net::on_…`; nothing here calls a driver. Whatever
//! the kernel is to do follows from a connection's state: changed ones are put into the dirty
//! list, which the driver works off once a turn. So many answers become one send.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use event::{CloseReason, ConnId, ConnectFailure, Handler, Input, ListenerId, Output};

use crate::clock::Clock;
use crate::conns::Phase;
use crate::counters::{Count, Published};
use crate::limits::Limits;
use crate::mailbox::Postman;
use crate::net::{Deferred, Net, Stage};

/// Held input is told in pieces of this size, and at most this many a turn, so that one
/// connection's backlog does not hold up the others.
const HELD_PIECE_BYTES: usize = 16 << 10;
const HELD_PIECES_MAX: usize = 4;
/// Threads that were posted mail are woken after so many inputs, not only at the end of a turn.
const INPUTS_PER_WAKE: u32 = 32;

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
        // The batch of the turn that stopped the thread ends as any other.
        if self.net.stage != Stage::Running && !matches!(input, Input::TurnEnd) {
            if let Input::Mail(_) | Input::Refused { .. } = input {
                self.net.counters.add(Count::MailDropped, 1);
            }
            return;
        }
        self.was_busy = true;
        self.net.was_urgent |= !matches!(input, Input::Bytes { .. } | Input::TurnEnd);
        self.out.set_unsent(self.net.counters.value(Count::Unsent));
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
        if self.net.has_leftovers() {
            return Some(Duration::ZERO);
        }
        let due_ns = self.net.next_due_ns()?;
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
                    let reason = CloseReason::ConnectFailed(ConnectFailure::NoSlot);
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
        self.net.floods_no_more(slot);
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

    /// Whether all that came of the last turn was mail that nobody needs to be woken for.
    pub(crate) fn take_was_unhurried(&mut self) -> bool {
        let was_lazy = std::mem::take(&mut self.net.was_lazy);
        let was_urgent = std::mem::take(&mut self.net.was_urgent);
        was_lazy && !was_urgent
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
            self.net.refuse_accept(self.net.bounded_by);
            return None;
        };
        let patience_ms = self.net.limits.stall_ms;
        let state = self.net.conns.at(conn.slot);
        (state.file, state.patience_ms) = (file, patience_ms);
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
        if state.has_flooded && bytes.len() < self.net.limits.receive_buffer_bytes as usize {
            // It has caught up: nothing was left for a further buffer.
            self.net.floods_no_more(slot);
        }
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

fn closed_count(reason: CloseReason) -> Count {
    match reason {
        CloseReason::Asked => Count::ClosedAsked,
        CloseReason::Peer => Count::ClosedPeer,
        CloseReason::Reset => Count::ClosedReset,
        CloseReason::OutputLimit => Count::ClosedOutputLimit,
        CloseReason::OutputTotal => Count::ClosedOutputTotal,
        CloseReason::OutputStalled => Count::ClosedOutputStalled,
        CloseReason::ConnectFailed(_) => Count::ClosedConnectFailed,
        CloseReason::Shutdown => Count::ClosedShutdown,
    }
}
