//! What a core thread's handler is told and when, whichever driver runs. What its operations do
//! to connections is decided in `net`.
//!
//! A driver reports through `Reactor::on_…` and `Net::on_…`; nothing here calls a driver. Whatever
//! the kernel is to do follows from a connection's state: changed ones are put into the dirty
//! list, which the driver works off once a turn. So many answers become one send.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use event::{CloseReason, Handler, Input, ListenerId, Now, Output};

use crate::companion::Companion;
use crate::conns::Phase;
use crate::counters::Count;
use crate::fair::INPUT_COST;
use crate::limits::Limits;
use crate::mail::{Postman, Process};
use crate::net::{Deferred, Net, Scarce};
use crate::stop::Stage;

/// Held input is told in pieces of this size, and at most this many a turn, so that one
/// connection's backlog does not hold up the others.
const HELD_PIECE_BYTES: usize = 16 << 10;
const HELD_PIECES_MAX: usize = 4;
/// Threads that were posted mail are woken after so many inputs, not only at the end of a turn.
const INPUTS_PER_WAKE: u32 = 32;

/// The handler of a core thread and everything around it.
pub struct Reactor<M> {
    handler: Box<dyn Handler<Mail = M>>,
    companion: Option<Companion<M>>,
    out: Output<M>,
    was_busy: bool,
    inputs_since_wake: u32,
    /// A stop was asked for and is not told yet.
    wants_stop: bool,
    /// Its connections, timers and mail.
    pub net: Net<M>,
}

impl<M: Send + 'static> Reactor<M> {
    /// A reactor for `handler`, of the thread that `process` belongs to. `bounded_by` says what
    /// `limits.connections_max` comes from, for the log.
    #[must_use]
    pub fn new(
        handler: Box<dyn Handler<Mail = M>>,
        now: Now,
        limits: Limits,
        bounded_by: Scarce,
        process: Rc<dyn Process<M>>,
    ) -> Self {
        Self {
            handler,
            companion: None,
            out: Output::default(),
            was_busy: false,
            inputs_since_wake: 0,
            wants_stop: false,
            net: Net::new(now, limits, bounded_by, Postman::new(process)),
        }
    }

    /// The same with a second handler on the thread.
    #[must_use]
    pub fn with_companion(self, companion: Option<Companion<M>>) -> Self {
        Self { companion, ..self }
    }

    /// Gives the handler one input and does what it asks for.
    #[inline]
    pub(crate) fn handle(&mut self, input: Input<'_, M>) {
        if self.net.stage != Stage::Running && !is_told_after_stop(&input) {
            if let Input::Mail(_) | Input::Refused { .. } = input {
                self.net.counters.add(Count::MailDropped, 1);
            }
            return;
        }
        self.was_busy = true;
        self.net.spend(INPUT_COST);
        self.net.was_urgent |=
            !matches!(input, Input::Bytes { .. } | Input::Datagrams(_) | Input::TurnEnd);
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
        if patience == Some(Duration::ZERO) {
            return patience;
        }
        // Awake again, whatever is announced here, when the turn begins.
        let may_sleep = self.net.postman.process.try_sleep()
            && self.companion.as_ref().is_none_or(Companion::try_sleep);
        if may_sleep { patience } else { Some(Duration::ZERO) }
    }

    /// As of the beginning of the turn, which is late by its length at most: a bounded one.
    fn patience(&self) -> Option<Duration> {
        let companion = self.companion.as_ref();
        if self.net.has_leftovers()
            || self.wants_stop
            || companion.is_some_and(Companion::has_leftovers)
        {
            return Some(Duration::ZERO);
        }
        let dues = [self.net.next_due_ns(), companion.and_then(Companion::wake_ns)];
        let due_ns = dues.into_iter().flatten().min()?;
        Some(Duration::from_nanos(due_ns.saturating_sub(self.net.now.mono_ns)))
    }

    /// With `has_more` the last turn has left something that the kernel had brought: as long as it
    /// does, nobody can be said not to have taken what was offered.
    pub(crate) fn begin_turn(&mut self, now: Now, has_more: bool) {
        assert!(now.mono_ns >= self.net.now.mono_ns, "time goes back");
        self.net.now = now;
        self.net.turn += u64::from(!has_more);
        self.net.begin_turns();
        self.net.postman.process.awake();
        if let Some(companion) = &self.companion {
            companion.awake();
        }
    }

    /// The companion's part of the turn, if there is one. What it has said is told at once: whoever
    /// waits for it is answered in this turn.
    pub(crate) fn take_companions_turn(&mut self) {
        let Some(companion) = &mut self.companion else { return };
        if companion.turn(self.net.now) {
            self.take_mail();
        }
    }

    /// Takes all mail that is waiting, and the wish to stop: that is told behind all mail that was
    /// posted before it was uttered, however much comes meanwhile.
    pub fn take_mail(&mut self) {
        if self.net.postman.process.is_idle() && !self.wants_stop {
            return;
        }
        let process = self.net.postman.process.clone();
        // Asked for before the mailbox is looked at: what lies there now is all that came before.
        self.wants_stop |= process.take_stop();
        for _ in 0..process.mail_max() {
            if self.net.is_turn_over() {
                return;
            }
            let Some(mail) = process.pop() else { break };
            self.net.counters.add(Count::MailIn, 1);
            self.handle(Input::Mail(mail));
        }
        if std::mem::take(&mut self.wants_stop) {
            self.handle(Input::Stop);
        }
    }

    /// Tells what was put off. What comes of it waits for the next turn, so that a handler that
    /// posts refused mail again at once does not keep the thread here.
    pub(crate) fn take_deferred(&mut self) {
        for _ in 0..self.net.postman.refused() {
            let Some((to, mail)) = self.net.postman.take_refused() else { break };
            self.handle(Input::Refused { to, mail });
        }
        for _ in 0..self.net.deferred.len() {
            match self.net.deferred.pop_front() {
                None => break,
                Some(Deferred::Sent(conn)) => {
                    let is_open =
                        self.net.conns.named(conn).is_some_and(|c| c.phase() == Phase::Open);
                    if is_open {
                        self.handle(Input::Sent { conn });
                    }
                }
                Some(Deferred::Gone(slot)) => self.tell_gone(slot),
                Some(Deferred::ConnectFailed(token, failure)) => {
                    self.net.counters.add(Count::ClosedConnectFailed, 1);
                    self.handle(Input::ConnectFailed { token, failure });
                }
            }
        }
    }

    fn tell_gone(&mut self, slot: u32) {
        let conn = self.net.conns.id(slot);
        let reason = self.net.conns.at(slot).reason;
        let attempt = self.net.attempts.end(slot);
        self.net.counters.subtract(Count::Open, 1);
        self.net.floods_no_more(slot);
        self.net.conns.give_back(slot);
        match attempt {
            Some(attempt) => {
                assert!(attempt.failure.is_some(), "an attempt ended and did not fail");
                let Some(failure) = attempt.failure else { return };
                self.net.counters.add(Count::ClosedConnectFailed, 1);
                self.handle(Input::ConnectFailed { token: attempt.token, failure });
            }
            None => {
                self.net.counters.add(closed_count(reason), 1);
                self.handle(Input::Closed { conn, reason });
            }
        }
    }

    /// Tells held input of connections that are read from again.
    pub(crate) fn resume_held(&mut self) {
        self.net.spend_anew();
        for _ in 0..self.net.resuming.len() {
            if self.net.is_turn_spent() {
                return;
            }
            let Some(slot) = self.net.resuming.pop_front() else { return };
            self.net.conns.at(slot).resuming = false;
            self.resume_one(slot);
        }
    }

    fn resume_one(&mut self, slot: u32) {
        let conn = self.net.conns.id(slot);
        let state = self.net.conns.at(slot);
        if state.phase() != Phase::Open || state.reading_off || state.reading_paused {
            return;
        }
        let Some(mut held) = state.held.take() else { return };
        let mut pieces_left = HELD_PIECES_MAX;
        while held.told < held.bytes.len() && pieces_left > 0 && self.is_reading(conn) {
            let end = held.bytes.len().min(held.told + HELD_PIECE_BYTES);
            let bytes = &mut held.bytes[held.told..end];
            self.net.counters.subtract(Count::Held, bytes.len() as u64);
            self.net.spend(bytes.len() as u64);
            self.handle(Input::Bytes { conn, bytes });
            held.told = end;
            pieces_left -= 1;
        }
        let state = self.net.conns.at(slot);
        if state.phase() != Phase::Open {
            self.net.count_dropped(&held);
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

    fn is_reading(&mut self, conn: event::ConnId) -> bool {
        let state = self.net.conns.named(conn);
        state.is_some_and(|state| state.phase() == Phase::Open && state.is_reading())
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
    pub(crate) fn take_was_lazy(&mut self) -> bool {
        let was_lazy = std::mem::take(&mut self.net.was_lazy);
        let was_urgent = std::mem::take(&mut self.net.was_urgent);
        was_lazy && !was_urgent
    }

    pub(crate) fn publish(&mut self) {
        self.net.postman.process.publish(&self.net.counters);
    }

    /// Whether the handler has stopped the thread and every connection is closed (or will not).
    pub(crate) fn is_finished(&self) -> bool {
        match self.net.stage {
            Stage::Running => false,
            Stage::Draining(_) | Stage::Aborting(_) => self.net.conns.open() == 0,
            Stage::Over => true,
        }
    }

    /// The thread ends: nobody can post to it any more, and what was posted before and not handled
    /// is counted.
    pub(crate) fn end(&mut self) {
        if let Some(companion) = &mut self.companion {
            companion.end();
        }
        let process = self.net.postman.process.clone();
        process.close();
        let late = std::iter::from_fn(|| process.pop()).count() + self.net.postman.refused();
        self.net.counters.add(Count::MailDropped, late as u64);
        self.publish();
    }

    /// A driver accepted a connection. `None` if there is no room: it is to be closed at once.
    pub fn on_accepted(
        &mut self,
        listener: ListenerId,
        peer: SocketAddr,
        file: u32,
    ) -> Option<u32> {
        if !self.net.accepting {
            return None;
        }
        let Some(conn) = self.net.conns.take(Phase::Open, self.net.limits.output_bytes_max) else {
            self.net.refuse_for_connections();
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

    /// An outgoing connection stands. It may have been given up meanwhile, and is being closed then.
    pub fn on_connected(&mut self, slot: u32) {
        let conn = self.net.conns.id(slot);
        let state = self.net.conns.at(slot);
        if state.phase() != Phase::Connecting {
            assert!(state.phase() == Phase::Dying, "connected while {:?}", state.phase());
            return;
        }
        state.become_phase(Phase::Open);
        let attempt = self.net.attempts.end(slot);
        assert!(attempt.is_some(), "connected, and nobody asked");
        let Some(attempt) = attempt else { return };
        self.net.counters.add(Count::Connected, 1);
        self.net.touch(slot);
        self.handle(Input::Connected { conn, token: attempt.token });
    }

    /// Bytes arrived, at least one, at most `Limits::receive_buffer_bytes`.
    #[inline]
    pub fn on_bytes(&mut self, slot: u32, bytes: &mut [u8]) {
        debug_assert!(!bytes.is_empty(), "no bytes are no input");
        debug_assert!(bytes.len() <= self.net.limits.receive_buffer_bytes as usize);
        self.net.counters.add(Count::Receives, 1);
        self.net.counters.add(Count::BytesIn, bytes.len() as u64);
        self.net.note_piece(slot, bytes.len());
        let conn = self.net.conns.id(slot);
        let state = self.net.conns.at(slot);
        debug_assert!(!state.eof, "bytes behind the end");
        if state.phase() != Phase::Open {
            self.net.counters.add(Count::BytesDiscarded, bytes.len() as u64);
        } else if state.is_reading() {
            self.net.spend(bytes.len() as u64);
            self.handle(Input::Bytes { conn, bytes });
        } else {
            // No part of what a turn may tell: the sooner it is seen that receiving goes on, the
            // sooner it is stopped.
            // Copied, so that the driver's shared buffers serve the neighbours. Bounded by what
            // the kernel delivers before the receive is cancelled at the end of this turn.
            state.held.get_or_insert_default().bytes.extend_from_slice(bytes);
            self.net.counters.add(Count::Held, bytes.len() as u64);
        }
    }

    /// The peer will send no more.
    pub fn on_eof(&mut self, slot: u32) {
        let conn = self.net.conns.id(slot);
        let state = self.net.conns.at(slot);
        state.granted = false;
        match state.phase() {
            Phase::Open => {
                assert!(!state.eof, "the end comes once");
                state.eof = true;
                if state.is_reading() {
                    self.handle(Input::Eof { conn });
                } else {
                    state.held.get_or_insert_default().eof = true;
                }
            }
            Phase::Flushing => state.eof = true,
            Phase::Lingering => {
                let reason = state.reason;
                self.net.fail(slot, reason);
            }
            // Nothing of it is of interest any more.
            Phase::Dying => {}
            Phase::Free | Phase::Connecting | Phase::Gone => {
                unreachable!("the end of a connection that is {:?}", state.phase())
            }
        }
    }
}

/// After its stop a handler hears of the ends of its connections, and of the ends of turns.
fn is_told_after_stop<M>(input: &Input<'_, M>) -> bool {
    matches!(input, Input::Closed { .. } | Input::ConnectFailed { .. } | Input::TurnEnd)
}

fn closed_count(reason: CloseReason) -> Count {
    match reason {
        CloseReason::Asked => Count::ClosedAsked,
        CloseReason::Peer => Count::ClosedPeer,
        CloseReason::Reset => Count::ClosedReset,
        CloseReason::OutputLimit => Count::ClosedOutputLimit,
        CloseReason::OutputTotal => Count::ClosedOutputTotal,
        CloseReason::OutputStalled => Count::ClosedOutputStalled,
        CloseReason::Shutdown => Count::ClosedShutdown,
    }
}
