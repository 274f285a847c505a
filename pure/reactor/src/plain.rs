//! The loop of a plain thread: mail, timer, end of batch. No sockets; the handler may block, and
//! may ask other threads and wait for the answer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use event::{Handler, Input, Now, Op, Output, Requester, ThreadId, Urgency};

use crate::counters::{Count, Counters};
use crate::mail::{Postman, Process};

/// Mail that may be kept while a thread waits for an answer, in mailboxes full of it; beyond, the
/// request fails and is counted (`requests_unanswered`).
const STASH_MAILBOXES_MAX: usize = 16;

/// How a plain thread knows the time and sleeps.
pub trait Sleep {
    /// What time it is.
    fn now(&self) -> Now;

    /// Sleeps until somebody wakes the thread ([`Process::wake`]), or until `patience` has passed.
    fn park(&self, patience: Option<Duration>);
}

/// What a thread and its requests share: both post, and both take mail.
struct Shared<M> {
    postman: Postman<M>,
    counters: Counters,
    /// Mail that arrived while the handler waited for an answer.
    stash: VecDeque<M>,
}

impl<M> Shared<M> {
    fn post(&mut self, to: ThreadId, mail: M, urgency: Urgency) {
        self.postman.post(to, mail, urgency, &mut self.counters);
    }

    fn flush_wakes(&mut self) {
        self.postman.flush_wakes(&mut self.counters);
    }
}

/// Asks other threads in the name of one plain thread.
struct PlainRequester<M> {
    process: Rc<dyn Process<M>>,
    sleep: Rc<dyn Sleep>,
    shared: Rc<RefCell<Shared<M>>>,
}

impl<M> Requester<M> for PlainRequester<M> {
    fn request(
        &mut self,
        before: &mut Output<M>,
        to: ThreadId,
        mail: M,
        is_answer: &dyn Fn(&M) -> bool,
        patience_ms: u32,
    ) -> Option<M> {
        for (to, mail, urgency) in before.take_posts() {
            self.shared.borrow_mut().post(to, mail, urgency);
        }
        let answer = self.post_and_wait(to, mail, is_answer, patience_ms);
        if answer.is_none() {
            self.shared.borrow_mut().counters.add(Count::RequestsUnanswered, 1);
        }
        answer
    }
}

impl<M> PlainRequester<M> {
    fn post_and_wait(
        &mut self,
        to: ThreadId,
        mail: M,
        is_answer: &dyn Fn(&M) -> bool,
        patience_ms: u32,
    ) -> Option<M> {
        {
            let shared = &mut *self.shared.borrow_mut();
            let is_behind = shared.postman.is_behind(to);
            let posted = !is_behind && self.process.post(to, mail, Urgency::Wake).is_ok();
            // Those who were posted to before the request are woken even if it cannot be posted.
            shared.flush_wakes();
            if !posted {
                return None;
            }
            shared.counters.add(Count::MailOut, 1);
            if self.process.wake(to) {
                shared.counters.add(Count::Wakes, 1);
            }
        }
        let deadline = self.sleep.now().after_ms(u64::from(patience_ms));
        let stash_max = self.process.mail_max() * STASH_MAILBOXES_MAX;
        loop {
            while let Some(mail) = self.process.pop() {
                if is_answer(&mail) {
                    self.shared.borrow_mut().counters.add(Count::MailIn, 1);
                    return Some(mail);
                }
                let stash = &mut self.shared.borrow_mut().stash;
                stash.push_back(mail);
                if stash.len() >= stash_max {
                    return None;
                }
            }
            let left_ns = deadline.mono_ns.saturating_sub(self.sleep.now().mono_ns);
            if left_ns == 0 {
                return None;
            }
            if self.process.try_sleep_for_mail() {
                self.sleep.park(Some(Duration::from_nanos(left_ns)));
                self.process.awake();
            }
        }
    }
}

/// One plain thread.
pub struct Plain<M> {
    process: Rc<dyn Process<M>>,
    sleep: Rc<dyn Sleep>,
    shared: Rc<RefCell<Shared<M>>>,
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
        let shared = Shared {
            postman: Postman::new(process.clone()),
            counters: Counters::default(),
            stash: VecDeque::new(),
        };
        Self {
            process,
            sleep,
            shared: Rc::new(RefCell::new(shared)),
            out: Output::default(),
            wake_ns: None,
            told_ns: 0,
            is_stopped: false,
        }
    }

    /// What the thread's handler asks others with.
    #[must_use]
    pub fn requester(&self) -> Box<dyn Requester<M>> {
        let (process, sleep) = (self.process.clone(), self.sleep.clone());
        Box::new(PlainRequester { process, sleep, shared: self.shared.clone() })
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
        self.process.publish(&self.shared.borrow().counters);
    }

    /// Nobody can post any more, and what was posted before and not handled is counted.
    pub(crate) fn end(&mut self) {
        self.process.close();
        let process = self.process.clone();
        let waiting = std::iter::from_fn(|| process.pop()).count();
        let shared = &mut *self.shared.borrow_mut();
        let late = waiting + shared.stash.len() + shared.postman.refused();
        shared.counters.add(Count::MailDropped, late as u64);
        self.process.publish(&shared.counters);
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
        let refused = self.shared.borrow().postman.refused();
        for _ in 0..refused {
            let refused = self.shared.borrow_mut().postman.take_refused();
            let Some((to, mail)) = refused else { break };
            self.handle(handler, Input::Refused { to, mail });
            was_busy = true;
        }
        let mail_max = self.shared.borrow().stash.len() + self.process.mail_max();
        for _ in 0..mail_max {
            let stashed = self.shared.borrow_mut().stash.pop_front();
            let Some(mail) = stashed.or_else(|| self.process.pop()) else { break };
            self.shared.borrow_mut().counters.add(Count::MailIn, 1);
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
        self.shared.borrow_mut().counters.add(Count::Turns, 1);
        was_busy
    }

    /// Whether something is to be told besides mail and a wake-up.
    pub(crate) fn has_leftovers(&self) -> bool {
        let shared = self.shared.borrow();
        shared.postman.refused() > 0 || !shared.stash.is_empty()
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
            self.shared.borrow_mut().counters.add(Count::SystemCalls, 1);
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
                self.shared.borrow_mut().counters.add(Count::MailDropped, 1);
            }
            return;
        }
        let now = self.sleep.now();
        self.told_ns = now.mono_ns;
        handler.handle(now, input, &mut self.out);
        if let Some(wake_ns) = self.out.take_wake() {
            self.wake_ns = wake_ns;
        }
        let shared = &mut *self.shared.borrow_mut();
        for op in self.out.drain() {
            match op {
                Op::Mail { to, mail, urgency } => shared.post(to, mail, urgency),
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
                | Op::StopAccepting => shared.counters.add(Count::Misdirected, 1),
            }
        }
        self.out.reset();
        shared.flush_wakes();
    }
}
