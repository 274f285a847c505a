//! The loop of a plain thread: mail, timer, end of batch. No sockets; the handler may block.

use std::rc::Rc;
use std::time::Duration;

use event::{Handler, Input, Now, Op, Output};

use crate::counters::{Count, Counters};
use crate::mail::{Postman, Process};

/// How a plain thread knows the time and sleeps.
pub trait Sleep {
    /// What time it is.
    fn now(&self) -> Now;

    /// Sleeps until somebody wakes the thread ([`Process::wake`]), or until `patience` has passed.
    fn park(&self, patience: Option<Duration>);
}

/// One plain thread.
pub struct Plain<M> {
    process: Rc<dyn Process<M>>,
    sleep: Rc<dyn Sleep>,
    postman: Postman<M>,
    counters: Counters,
    out: Output<M>,
    wake_ns: Option<u64>,
    /// When the handler was last told something.
    told_ns: u64,
    is_stopped: bool,
}

impl<M: Send + 'static> Plain<M> {
    /// The thread that `process` belongs to.
    #[must_use]
    pub fn new(process: Rc<dyn Process<M>>, sleep: Rc<dyn Sleep>) -> Self {
        Self {
            postman: Postman::new(process.clone()),
            process,
            sleep,
            counters: Counters::default(),
            out: Output::default(),
            wake_ns: None,
            told_ns: 0,
            is_stopped: false,
        }
    }

    /// Runs until the handler stops the thread.
    pub fn run(&mut self, mut handler: Box<dyn Handler<Mail = M>>) {
        while !self.is_stopped {
            self.rest();
            // Told behind all mail that was posted before: what is there now, and no more than that.
            let wants_stop = self.process.take_stop();
            self.turn(&mut *handler, wants_stop, u64::MAX);
            self.publish();
        }
        self.end();
    }

    /// Leaves the counters for others to read.
    pub(crate) fn publish(&self) {
        self.process.publish(&self.counters);
    }

    /// Nobody can post any more, and what was posted before and not handled is counted.
    pub(crate) fn end(&mut self) {
        self.process.close();
        let waiting = std::iter::from_fn(|| self.process.pop()).count();
        let late = waiting + self.postman.refused();
        self.counters.add(Count::MailDropped, late as u64);
        self.publish();
    }

    /// Tells all that is waiting; of the mail, no more once `until_ns` has passed. Says whether there
    /// was anything.
    pub(crate) fn turn(
        &mut self,
        handler: &mut dyn Handler<Mail = M>,
        wants_stop: bool,
        until_ns: u64,
    ) -> bool {
        let mut was_busy = false;
        for _ in 0..self.postman.refused() {
            let Some((to, mail)) = self.postman.take_refused() else { break };
            self.handle(handler, Input::Refused { to, mail });
            was_busy = true;
        }
        for _ in 0..self.process.mail_max() {
            let Some(mail) = self.process.pop() else { break };
            self.counters.add(Count::MailIn, 1);
            self.handle(handler, Input::Mail(mail));
            was_busy = true;
            if self.told_ns >= until_ns {
                break;
            }
        }
        if wants_stop {
            self.handle(handler, Input::Stop);
            was_busy = true;
        }
        if self.wake_ns.is_some_and(|due_ns| due_ns <= self.sleep.now().mono_ns) {
            self.wake_ns = None;
            self.handle(handler, Input::Wake);
            was_busy = true;
        }
        if was_busy {
            self.handle(handler, Input::TurnEnd);
        }
        self.counters.add(Count::Turns, 1);
        was_busy
    }

    /// Whether something is to be told besides mail and a wake-up.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.postman.refused() > 0
    }

    /// When the handler wants to be woken.
    pub(crate) fn wake_ns(&self) -> Option<u64> {
        self.wake_ns
    }

    fn rest(&mut self) {
        if self.has_leftovers() {
            return;
        }
        let now_ns = self.sleep.now().mono_ns;
        let patience =
            self.wake_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        if patience != Some(Duration::ZERO) && self.process.try_sleep() {
            self.counters.add(Count::SystemCalls, 1);
            self.sleep.park(patience);
            self.process.awake();
        }
    }

    /// Gives the handler one input and posts what it has to say. The clock is read each time:
    /// a handler that may block makes a turn's time old.
    fn handle(&mut self, handler: &mut dyn Handler<Mail = M>, input: Input<'_, M>) {
        // The batch of the turn that stopped the thread ends as any other.
        if self.is_stopped && !matches!(input, Input::TurnEnd) {
            if let Input::Mail(_) | Input::Refused { .. } = input {
                self.counters.add(Count::MailDropped, 1);
            }
            return;
        }
        let now = self.sleep.now();
        self.told_ns = now.mono_ns;
        handler.handle(now, input, &mut self.out);
        if let Some(wake_ns) = self.out.take_wake() {
            self.wake_ns = wake_ns;
        }
        for op in self.out.drain() {
            match op {
                Op::Mail { to, mail, urgency } => {
                    self.postman.post(to, mail, urgency, &mut self.counters);
                }
                Op::Stop => self.is_stopped = true,
                Op::Send { .. }
                | Op::SendShared { .. }
                | Op::OfferShared { .. }
                | Op::TellWhenSent { .. }
                | Op::Close { .. }
                | Op::Abort { .. }
                | Op::Reading { .. }
                | Op::OutputMax { .. }
                | Op::OutputPatience { .. }
                | Op::Coalesce { .. }
                | Op::SendDatagram { .. }
                | Op::Connect { .. }
                | Op::CancelConnect { .. }
                | Op::StopAccepting => self.counters.add(Count::Misdirected, 1),
            }
        }
        self.out.reset();
        self.postman.flush_wakes(&mut self.counters);
    }
}
