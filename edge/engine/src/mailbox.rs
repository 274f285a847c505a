//! Bounded mailboxes between threads, and published counters: the memory that threads share, behind
//! [`reactor::Process`]. What is posted when, and who is woken, is decided there.
//!
//! A mailbox is a lock-free queue; a full one refuses, and the poster hears of it. How a thread
//! sleeps is its driver's business; it hands in a [`Wake`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use event::{Now, ThreadId, Urgency};
use reactor::{COUNTERS_LEN, Counters, Process, Sleep};

use crate::clock::Clock;

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
    /// Mail, and after it, in a mailbox that is closed, nothing but `None`: see [`Self::close`].
    queue: ArrayQueue<Option<M>>,
    /// Set by the owner before it sleeps, taken by the one poster that wakes it.
    asleep: AtomicBool,
    /// The owner has ended: nothing is taken any more.
    closed: AtomicBool,
    stop: AtomicBool,
    waker: Box<dyn Wake>,
    counters: [AtomicU64; COUNTERS_LEN],
}

impl<M> Mailbox<M> {
    pub(crate) fn new(mail_max: usize, waker: Box<dyn Wake>) -> Self {
        Self {
            queue: ArrayQueue::new(mail_max.max(1)),
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            waker,
            counters: [const { AtomicU64::new(0) }; COUNTERS_LEN],
        }
    }

    /// Owner: the next mail.
    fn pop(&self) -> Option<M> {
        self.queue.pop().flatten()
    }

    /// Owner: whether there is neither mail nor the wish to stop.
    #[inline]
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.stop.load(Relaxed)
    }

    /// How much mail is waiting.
    pub(crate) fn len(&self) -> usize {
        if self.closed.load(Ordering::Acquire) { 0 } else { self.queue.len() }
    }

    /// How much mail it holds at most.
    pub(crate) fn capacity(&self) -> usize {
        self.queue.capacity()
    }

    /// Owner: announces sleep. `false` if there is something to do already.
    fn try_sleep(&self) -> bool {
        self.asleep.store(true, Relaxed);
        // Pairs with the fence of `wake`: either the poster sees us asleep, or we its mail.
        fence(Ordering::SeqCst);
        let has_mail = !self.queue.is_empty() && !self.closed.load(Relaxed);
        if has_mail || self.stop.load(Relaxed) {
            self.awake();
            return false;
        }
        true
    }

    /// Owner: awake again, for whatever reason.
    fn awake(&self) {
        self.asleep.store(false, Relaxed);
    }

    /// Owner: whether a stop was asked for since the last call.
    fn take_stop(&self) -> bool {
        self.stop.load(Relaxed) && self.stop.swap(false, Ordering::Acquire)
    }

    /// Owner: refuses everything from now on, and gives what was accepted before, in order. Done
    /// once, it gives nothing.
    ///
    /// The queue is filled with `None`, so that a poster who has looked at `closed` before finds it
    /// full: whatever it accepted is given here, and costs posters nothing.
    fn close(&self) -> Vec<M> {
        let mut accepted = Vec::new();
        if self.closed.swap(true, Ordering::SeqCst) {
            return accepted;
        }
        let mut fillers = 0;
        while fillers < self.queue.capacity() {
            match self.queue.push(None) {
                Ok(()) => fillers += 1,
                Err(_) => match self.queue.pop() {
                    Some(Some(mail)) => accepted.push(mail),
                    Some(None) => fillers -= 1,
                    None => {}
                },
            }
        }
        accepted
    }

    /// Posts; gives the mail back when the box is full or its owner has ended. Says whether the
    /// receiver should be woken.
    pub(crate) fn post(&self, mail: M, urgency: Urgency) -> Result<bool, M> {
        if self.closed.load(Ordering::Acquire) {
            return Err(mail);
        }
        if let Err(mail) = self.queue.push(Some(mail)) {
            let Some(mail) = mail else { unreachable!("what was pushed comes back") };
            return Err(mail);
        }
        Ok(urgency == Urgency::Wake || self.queue.len() * 4 >= self.queue.capacity())
    }

    /// Wakes the owner if it sleeps; says whether it did.
    pub(crate) fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        let was_asleep = self.asleep.load(Relaxed) && self.asleep.swap(false, Ordering::AcqRel);
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

    /// The owner's counters, as of its last turn.
    pub(crate) fn counters(&self) -> Counters {
        Counters::from_values(std::array::from_fn(|index| self.counters[index].load(Relaxed)))
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

/// What one thread sees of an exchange.
pub(crate) struct Place<M> {
    pub(crate) exchange: Arc<Exchange<M>>,
    pub(crate) me: ThreadId,
    /// Mail that was accepted before the mailbox was closed.
    last: RefCell<VecDeque<M>>,
}

impl<M> Place<M> {
    /// The place of thread `me`, which must have a mailbox.
    pub(crate) fn new(exchange: Arc<Exchange<M>>, me: ThreadId) -> Self {
        assert!(exchange.mailbox(me).is_some(), "thread {} has no mailbox", me.0);
        Self { exchange, me, last: RefCell::default() }
    }

    #[inline]
    fn mine(&self) -> &Mailbox<M> {
        &self.exchange.boxes[usize::from(self.me.0)]
    }
}

impl<M> Process<M> for Place<M> {
    fn post(&self, to: ThreadId, mail: M, urgency: Urgency) -> Result<bool, M> {
        match self.exchange.mailbox(to) {
            Some(mailbox) => mailbox.post(mail, urgency),
            None => Err(mail),
        }
    }

    fn wake(&self, to: ThreadId) -> bool {
        self.exchange.mailbox(to).is_some_and(Mailbox::wake)
    }

    fn pop(&self) -> Option<M> {
        let mine = self.mine();
        if mine.closed.load(Relaxed) { self.last.borrow_mut().pop_front() } else { mine.pop() }
    }

    #[inline]
    fn is_idle(&self) -> bool {
        let mine = self.mine();
        if mine.closed.load(Relaxed) {
            return self.last.borrow().is_empty() && !mine.stop.load(Relaxed);
        }
        mine.is_idle()
    }

    fn mail_max(&self) -> usize {
        self.mine().capacity()
    }

    fn take_stop(&self) -> bool {
        self.mine().take_stop()
    }

    fn try_sleep(&self) -> bool {
        self.last.borrow().is_empty() && self.mine().try_sleep()
    }

    fn awake(&self) {
        self.mine().awake();
    }

    fn close(&self) {
        self.last.borrow_mut().extend(self.mine().close());
    }

    fn publish(&self, counters: &Counters) {
        for (shared, value) in self.mine().counters.iter().zip(counters.values()) {
            shared.store(*value, Relaxed);
        }
    }
}

/// How a thread without a driver sleeps, and what it takes for the time.
pub(crate) struct Bed {
    pub(crate) parker: Arc<Parker>,
    pub(crate) clock: Clock,
}

impl Sleep for Bed {
    fn now(&self) -> Now {
        self.clock.now()
    }

    fn park(&self, patience: Option<Duration>) {
        self.parker.park(patience);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use event::{ThreadId, Urgency};
    use reactor::{Count, Counters, Postman, Process as _, Sleep as _};

    use super::{Bed, Exchange, Mailbox, Parker, Place, Wake as _};
    use crate::clock::Clock;

    fn exchange(mail_max: usize) -> Arc<Exchange<u32>> {
        let boxes = (0..2).map(|_| Mailbox::new(mail_max, Box::new(Parker::default()))).collect();
        Arc::new(Exchange { boxes })
    }

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let exchange = exchange(8);
        let mut counters = Counters::default();
        let mut postman = Postman::new(Rc::new(Place::new(exchange.clone(), ThreadId(0))));
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

    /// Who sleeps is woken once; who is awake, by itself or by a wake, is not.
    #[test]
    fn a_sleeper_is_awake_once_it_is_woken_or_says_so() {
        let exchange = exchange(8);
        let (receiver, place) = (&exchange.boxes[1], Place::new(exchange.clone(), ThreadId(1)));
        assert!(place.try_sleep() && receiver.wake() && !receiver.wake());
        assert!(place.try_sleep());
        place.awake();
        assert!(!receiver.wake());
    }

    #[test]
    fn idle_is_who_has_neither_mail_nor_a_stop_to_look_at() {
        let exchange = exchange(8);
        let (receiver, place) = (&exchange.boxes[1], Place::new(exchange.clone(), ThreadId(1)));
        assert!(place.is_idle());
        assert_eq!(receiver.post(1, Urgency::Lazy), Ok(false));
        assert!(!place.is_idle() && !place.try_sleep());
        assert_eq!(place.pop(), Some(1));
        assert!(place.is_idle());
        receiver.stop();
        assert!(!place.is_idle() && place.take_stop() && place.is_idle());
    }

    /// A thread that waits takes no processor's time, and no wake is forgotten or taken twice.
    #[test]
    fn a_parked_thread_sleeps_until_it_is_woken_or_its_time_has_come() {
        const NAP: Duration = Duration::from_millis(20);
        let parker = Arc::new(Parker::default());
        let bed = Bed { parker: parker.clone(), clock: Clock::start() };
        let slept = |patience| {
            let start = Instant::now();
            bed.park(Some(patience));
            start.elapsed()
        };
        assert!(slept(NAP) >= NAP);
        parker.wake();
        assert!(slept(1_000 * NAP) < 1_000 * NAP);
        assert!(slept(NAP) >= NAP);
    }

    #[test]
    fn lazy_mail_wakes_at_a_quarter_full() {
        let exchange = exchange(16);
        let receiver = &exchange.boxes[1];
        let wakes: Vec<_> = (0..5).map(|m| receiver.post(m, Urgency::Lazy)).collect();
        assert_eq!(wakes, [Ok(false), Ok(false), Ok(false), Ok(true), Ok(true)]);
    }

    #[test]
    fn a_closed_mailbox_refuses_gives_the_rest_and_a_stop_is_taken_once() {
        let exchange = exchange(16);
        let (receiver, place) = (&exchange.boxes[1], Place::new(exchange.clone(), ThreadId(1)));
        receiver.stop();
        assert!(!receiver.try_sleep());
        assert!(receiver.take_stop() && !receiver.take_stop());
        (0..3).for_each(|mail| assert!(receiver.post(mail, Urgency::Wake).is_ok()));
        place.close();
        place.close();
        assert_eq!(receiver.post(7, Urgency::Wake), Err(7));
        assert_eq!(receiver.len(), 0);
        assert!(!place.is_idle() && !place.try_sleep());
        let rest: Vec<_> = std::iter::from_fn(|| place.pop()).collect();
        assert_eq!((rest, place.is_idle(), place.try_sleep()), (vec![0, 1, 2], true, true));
    }

    /// Whatever the moment at which the owner ends: what it accepted it has, the rest is refused.
    #[test]
    fn mail_is_accepted_or_refused_while_the_mailbox_closes() {
        for round in 0..300 {
            let exchange = exchange(4);
            let accepted: usize = std::thread::scope(|scope| {
                let posters: Vec<_> = (0..2)
                    .map(|_| {
                        let receiver = &exchange.boxes[1];
                        scope.spawn(move || {
                            let posts = (0..50).map(|mail| receiver.post(mail, Urgency::Lazy));
                            posts.flatten().count()
                        })
                    })
                    .collect();
                let place = Place::new(exchange.clone(), ThreadId(1));
                let mut taken = 0;
                for _ in 0..round % 20 {
                    taken += usize::from(place.pop().is_some());
                }
                place.close();
                let accepted: usize = posters.into_iter().filter_map(|p| p.join().ok()).sum();
                taken += std::iter::from_fn(|| place.pop()).count();
                assert_eq!(taken, accepted, "round {round}");
                accepted
            });
            assert!(accepted <= 100);
        }
    }
}
