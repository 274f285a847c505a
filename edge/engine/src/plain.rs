//! The loop of a plain thread: mail, timer, end of batch. No sockets; the handler may block, and
//! may ask other threads and wait for the answer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event::{Ask, Handler, Input, Op, Output, ThreadId, Urgency};

use crate::clock::Clock;
use crate::counters::{Count, Counters, Published};
use crate::mailbox::{Exchange, Parker, Postman};

/// Mail that may be kept while a thread waits for an answer, in mailboxes full of it; beyond, the
/// question fails and is counted (`ask_failures`).
const STASH_MAILBOXES_MAX: usize = 16;

/// Mail that arrived while the handler waited for an answer, and questions that failed.
struct Stash<M> {
    mail: VecDeque<M>,
    failures: u64,
}

/// Asks other threads in the name of one plain thread.
pub(crate) struct Asker<M> {
    exchange: Arc<Exchange<M>>,
    me: ThreadId,
    parker: Arc<Parker>,
    stash: Rc<RefCell<Stash<M>>>,
}

impl<M> Ask<M> for Asker<M> {
    fn ask(
        &mut self,
        to: ThreadId,
        mail: M,
        is_answer: &dyn Fn(&M) -> bool,
        patience_ms: u32,
    ) -> Option<M> {
        let answer = self.post_and_wait(to, mail, is_answer, patience_ms);
        if answer.is_none() {
            self.stash.borrow_mut().failures += 1;
        }
        answer
    }
}

impl<M> Asker<M> {
    fn post_and_wait(
        &mut self,
        to: ThreadId,
        mail: M,
        is_answer: &dyn Fn(&M) -> bool,
        patience_ms: u32,
    ) -> Option<M> {
        let other = self.exchange.mailbox(to)?;
        let inbox = self.exchange.mailbox(self.me)?;
        other.post(mail, Urgency::Wake).ok()?;
        other.wake();
        let deadline = Instant::now() + Duration::from_millis(u64::from(patience_ms));
        let stash_max = inbox.capacity() * STASH_MAILBOXES_MAX;
        loop {
            while let Some(mail) = inbox.pop() {
                if is_answer(&mail) {
                    return Some(mail);
                }
                let mut stash = self.stash.borrow_mut();
                stash.mail.push_back(mail);
                if stash.mail.len() >= stash_max {
                    return None;
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            if inbox.try_sleep_for_mail() {
                self.parker.park(Some(left));
                inbox.awake();
            }
        }
    }
}

/// One plain thread.
pub(crate) struct Plain<M> {
    postman: Postman<M>,
    parker: Arc<Parker>,
    clock: Clock,
    published: Arc<Published>,
    counters: Counters,
    stash: Rc<RefCell<Stash<M>>>,
    out: Output<M>,
    wake_ns: Option<u64>,
    is_stopped: bool,
}

impl<M: Send + 'static> Plain<M> {
    pub(crate) fn new(
        postman: Postman<M>,
        parker: Arc<Parker>,
        clock: Clock,
        published: Arc<Published>,
    ) -> Self {
        Self {
            postman,
            parker,
            clock,
            published,
            counters: Counters::default(),
            stash: Rc::new(RefCell::new(Stash { mail: VecDeque::new(), failures: 0 })),
            out: Output::default(),
            wake_ns: None,
            is_stopped: false,
        }
    }

    pub(crate) fn asker(&self) -> Box<dyn Ask<M>> {
        Box::new(Asker {
            exchange: self.postman.exchange.clone(),
            me: self.postman.me,
            parker: self.parker.clone(),
            stash: self.stash.clone(),
        })
    }

    /// Runs until the handler stops the thread.
    pub(crate) fn run(&mut self, mut handler: Box<dyn Handler<Mail = M>>) {
        let exchange = self.postman.exchange.clone();
        let Some(inbox) = exchange.mailbox(self.postman.me) else { return };
        while !self.is_stopped {
            self.sleep(inbox);
            let mut was_busy = false;
            for _ in 0..self.postman.refused.len() {
                let Some((to, mail)) = self.postman.refused.pop_front() else { break };
                self.handle(&mut *handler, Input::Refused { to, mail });
                was_busy = true;
            }
            for _ in 0..inbox.capacity() {
                let stashed = self.stash.borrow_mut().mail.pop_front();
                let Some(mail) = stashed.or_else(|| inbox.pop()) else { break };
                self.counters.add(Count::MailIn, 1);
                self.handle(&mut *handler, Input::Mail(mail));
                was_busy = true;
            }
            if inbox.take_stop() {
                self.handle(&mut *handler, Input::Stop);
                was_busy = true;
            }
            if self.wake_ns.is_some_and(|due_ns| due_ns <= self.clock.now().mono_ns) {
                self.wake_ns = None;
                self.handle(&mut *handler, Input::Wake);
                was_busy = true;
            }
            if was_busy {
                self.handle(&mut *handler, Input::TurnEnd);
            }
            self.counters.add(Count::Turns, 1);
            self.published.publish(&self.counters);
        }
        inbox.close();
        let stashed = self.stash.borrow().mail.len() as u64;
        let waiting = std::iter::from_fn(|| inbox.pop()).count() as u64;
        self.counters.add(Count::MailDropped, stashed + waiting);
        self.published.publish(&self.counters);
    }

    fn sleep(&mut self, inbox: &crate::mailbox::Mailbox<M>) {
        if !self.postman.refused.is_empty() || !self.stash.borrow().mail.is_empty() {
            return;
        }
        let now_ns = self.clock.now().mono_ns;
        let patience =
            self.wake_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        if patience != Some(Duration::ZERO) && inbox.try_sleep() {
            self.counters.add(Count::SystemCalls, 1);
            self.parker.park(patience);
            inbox.awake();
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
        handler.handle(self.clock.now(), input, &mut self.out);
        if let Some(wake_ns) = self.out.take_wake() {
            self.wake_ns = wake_ns;
        }
        for op in self.out.drain() {
            match op {
                Op::Mail { to, mail, urgency } => {
                    self.postman.post(to, mail, urgency, &mut self.counters);
                }
                Op::Stop => self.is_stopped = true,
                _ => self.counters.add(Count::Misdirected, 1),
            }
        }
        self.out.reset();
        self.postman.flush_wakes(&mut self.counters);
        let failures = std::mem::take(&mut self.stash.borrow_mut().failures);
        self.counters.add(Count::AskFailures, failures);
    }
}
