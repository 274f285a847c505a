//! Bounded mailboxes between threads, and who is woken when.
//!
//! A mailbox is a lock-free queue; a full one refuses, and the poster hears of it. A poster wakes
//! the receiver only if it sleeps, and at most once for all mail of one [`Postman::flush_wakes`].
//! How a thread sleeps is its driver's business; it hands in a [`Wake`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use event::{ThreadId, Urgency};

use crate::counters::{Count, Counters};

/// Wakes a thread that sleeps in its driver. Waking one that is awake costs one useless turn.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

/// Sleeping and waking of a thread without a driver.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Parker {
    /// Sleeps until woken, or until `patience` has passed.
    pub(crate) fn park(&self, patience: Option<Duration>) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if !*woken {
            woken = match patience {
                None => self.changed.wait(woken).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let waited = self.changed.wait_timeout(woken, patience);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *woken = false;
    }
}

impl Wake for Parker {
    fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

impl<W: Wake + ?Sized> Wake for Arc<W> {
    fn wake(&self) {
        (**self).wake();
    }
}

/// One thread's mailbox.
pub(crate) struct Mailbox<M> {
    queue: ArrayQueue<M>,
    /// Set by the owner before it sleeps, taken by the one poster that wakes it.
    asleep: AtomicBool,
    /// The owner has ended: nothing is taken any more.
    closed: AtomicBool,
    stop: AtomicBool,
    waker: Box<dyn Wake>,
}

impl<M> Mailbox<M> {
    pub(crate) fn new(mail_max: usize, waker: Box<dyn Wake>) -> Self {
        Self {
            queue: ArrayQueue::new(mail_max.max(1)),
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            waker,
        }
    }

    /// Owner: the next mail.
    pub(crate) fn pop(&self) -> Option<M> {
        self.queue.pop()
    }

    /// Owner: whether there is neither mail nor the wish to stop.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.stop.load(Ordering::Relaxed)
    }

    /// How much mail is waiting.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// How much mail it holds at most: a batch that is bounded by it never starves the rest.
    pub(crate) fn capacity(&self) -> usize {
        self.queue.capacity()
    }

    /// Owner: announces sleep. `false` if there is something to do already.
    pub(crate) fn try_sleep(&self) -> bool {
        if !self.try_sleep_for_mail() {
            return false;
        }
        if self.stop.load(Ordering::Relaxed) {
            self.awake();
            return false;
        }
        true
    }

    /// As [`Self::try_sleep`], for an owner that waits for an answer and will stop only after.
    pub(crate) fn try_sleep_for_mail(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence of `wake`: either the poster sees us asleep, or we its mail.
        fence(Ordering::SeqCst);
        if self.queue.is_empty() {
            return true;
        }
        self.asleep.store(false, Ordering::Relaxed);
        false
    }

    /// Owner: awake again, for whatever reason.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Owner: whether a stop was asked for since the last call.
    pub(crate) fn take_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed) && self.stop.swap(false, Ordering::Acquire)
    }

    /// Owner: refuses everything from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Posts; gives the mail back when the box is full or its owner has ended. Says whether the
    /// receiver should be woken.
    pub(crate) fn post(&self, mail: M, urgency: Urgency) -> Result<bool, M> {
        if self.closed.load(Ordering::Acquire) {
            return Err(mail);
        }
        self.queue.push(mail)?;
        Ok(urgency == Urgency::Wake || self.queue.len() * 4 >= self.queue.capacity())
    }

    /// Wakes the owner if it sleeps; says whether it did.
    pub(crate) fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        let was_asleep =
            self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel);
        if was_asleep {
            self.waker.wake();
        }
        was_asleep
    }

    /// Asks the owner to stop, and wakes it.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }
}

/// All mailboxes of an engine, by thread.
pub(crate) struct Exchange<M> {
    pub(crate) boxes: Vec<Mailbox<M>>,
}

impl<M> Exchange<M> {
    pub(crate) fn mailbox(&self, thread: ThreadId) -> Option<&Mailbox<M>> {
        self.boxes.get(usize::from(thread.0))
    }
}

/// Posts one thread's mail, and remembers whom to wake and what was refused.
pub(crate) struct Postman<M> {
    pub(crate) exchange: Arc<Exchange<M>>,
    pub(crate) me: ThreadId,
    to_wake: Vec<ThreadId>,
    /// Mail that its receiver had no room for, to be told to the handler. Bounded by what one
    /// turn's inputs make the handler post.
    pub(crate) refused: VecDeque<(ThreadId, M)>,
}

impl<M> Postman<M> {
    pub(crate) fn new(exchange: Arc<Exchange<M>>, me: ThreadId) -> Self {
        Self { exchange, me, to_wake: Vec::new(), refused: VecDeque::new() }
    }

    pub(crate) fn post(
        &mut self,
        to: ThreadId,
        mail: M,
        urgency: Urgency,
        counters: &mut Counters,
    ) {
        // What was refused stays before what comes later, though there may be room again by now.
        let is_behind = self.refused.iter().any(|(refused, _)| *refused == to);
        let posted = match self.exchange.mailbox(to) {
            Some(mailbox) if !is_behind => mailbox.post(mail, urgency),
            _ => Err(mail),
        };
        match posted {
            Ok(wake) => {
                counters.add(Count::MailOut, 1);
                if wake && !self.to_wake.contains(&to) {
                    self.to_wake.push(to);
                }
            }
            Err(mail) => {
                counters.add(Count::MailRefused, 1);
                self.refused.push_back((to, mail));
            }
        }
    }

    /// Wakes every receiver of mail posted since the last call.
    pub(crate) fn flush_wakes(&mut self, counters: &mut Counters) {
        for to in self.to_wake.drain(..) {
            if let Some(mailbox) = self.exchange.mailbox(to)
                && mailbox.wake()
            {
                counters.add(Count::Wakes, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{ThreadId, Urgency};

    use super::{Exchange, Mailbox, Parker, Postman};
    use crate::counters::{Count, Counters};

    fn exchange(mail_max: usize) -> Arc<Exchange<u32>> {
        let boxes = (0..2).map(|_| Mailbox::new(mail_max, Box::new(Parker::default()))).collect();
        Arc::new(Exchange { boxes })
    }

    #[test]
    fn a_full_mailbox_gives_mail_back_and_keeps_the_rest_in_order() {
        let exchange = exchange(3);
        let mut counters = Counters::default();
        let mut postman = Postman::new(exchange.clone(), ThreadId(0));
        for mail in 0..5 {
            postman.post(ThreadId(1), mail, Urgency::Wake, &mut counters);
        }
        postman.post(ThreadId(9), 99, Urgency::Wake, &mut counters);
        assert_eq!(exchange.boxes[1].pop(), Some(0));
        // There is room again, but not before those that were refused.
        postman.post(ThreadId(1), 5, Urgency::Wake, &mut counters);
        let refused: Vec<_> = postman.refused.iter().map(|(to, mail)| (to.0, *mail)).collect();
        assert_eq!(refused, [(1, 3), (1, 4), (9, 99), (1, 5)]);
        assert_eq!(counters.value(Count::MailRefused), 4);
        let taken: Vec<_> = std::iter::from_fn(|| exchange.boxes[1].pop()).collect();
        assert_eq!(taken, [1, 2]);
    }

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let exchange = exchange(8);
        let mut counters = Counters::default();
        let mut postman = Postman::new(exchange.clone(), ThreadId(0));
        let receiver = &exchange.boxes[1];
        for (asleep, wakes) in [(false, 0), (true, 1)] {
            assert!(!asleep || receiver.try_sleep());
            postman.post(ThreadId(1), 1, Urgency::Wake, &mut counters);
            postman.post(ThreadId(1), 2, Urgency::Wake, &mut counters);
            postman.flush_wakes(&mut counters);
            postman.flush_wakes(&mut counters);
            assert_eq!(counters.value(Count::Wakes), wakes);
            assert!(!receiver.try_sleep(), "mail is waiting");
            while receiver.pop().is_some() {}
        }
    }

    #[test]
    fn lazy_mail_wakes_at_a_quarter_full() {
        let exchange = exchange(16);
        let receiver = &exchange.boxes[1];
        let wakes: Vec<_> = (0..5).map(|m| receiver.post(m, Urgency::Lazy)).collect();
        assert_eq!(wakes, [Ok(false), Ok(false), Ok(false), Ok(true), Ok(true)]);
    }

    #[test]
    fn a_closed_mailbox_refuses_and_a_stop_is_taken_once() {
        let exchange = exchange(16);
        let receiver = &exchange.boxes[1];
        receiver.stop();
        assert!(!receiver.try_sleep());
        assert!(receiver.take_stop() && !receiver.take_stop());
        receiver.close();
        assert_eq!(receiver.post(7, Urgency::Wake), Err(7));
    }
}
