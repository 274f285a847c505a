//! Mail between threads: what a thread sees of the others, the order in which its mail leaves, and
//! who is woken when. A full mailbox refuses, and the poster hears of it. The queues themselves are
//! shared memory and belong to `edge/engine`.
//!
//! In come a handler's mails, in order. Out go calls of [`Process`], and what was refused.

use std::collections::VecDeque;
use std::rc::Rc;

use event::{ThreadId, Urgency};

use crate::counters::{Count, Counters};

/// What one thread has in common with the rest of its process: everybody's mailboxes, of which it
/// may post to all and empty its own, and its published counters.
pub trait Process<M> {
    /// Posts to another thread's mailbox; says whether its owner should be woken.
    ///
    /// # Errors
    /// Gives the mail back when that mailbox is full, closed, or none.
    fn post(&self, to: ThreadId, mail: M, urgency: Urgency) -> Result<bool, M>;

    /// Wakes a thread if it sleeps; says whether it did.
    fn wake(&self, to: ThreadId) -> bool;

    /// The next mail to this thread.
    fn pop(&self) -> Option<M>;

    /// Whether there is neither mail to this thread nor the wish that it stop.
    fn is_idle(&self) -> bool;

    /// Mail that this thread's mailbox holds at most: a batch bounded by it starves nobody.
    fn mail_max(&self) -> usize;

    /// Whether this thread was asked to stop since the last call.
    fn take_stop(&self) -> bool;

    /// Announces that this thread will sleep: whoever posts to it from now on wakes it. `false` if
    /// there is something to do already.
    fn try_sleep(&self) -> bool;

    /// This thread is awake again, for whatever reason.
    fn awake(&self);

    /// Refuses everything posted to this thread from now on. What was accepted before, to the last
    /// mail, can still be taken with [`Self::pop`]; nothing is in between.
    fn close(&self);

    /// Leaves this thread's counters for others to read.
    fn publish(&self, counters: &Counters);
}

/// Posts one thread's mail, and remembers whom to wake and what was refused.
pub struct Postman<M> {
    pub(crate) process: Rc<dyn Process<M>>,
    to_wake: Vec<ThreadId>,
    /// Mail that its receiver had no room for, to be told to the handler. Bounded by what one
    /// turn's inputs make the handler post.
    refused: VecDeque<(ThreadId, M)>,
    /// How much of that is for each thread, by its number.
    refused_of: Vec<u32>,
}

impl<M> Postman<M> {
    /// A postman of the thread that `process` belongs to.
    #[must_use]
    pub fn new(process: Rc<dyn Process<M>>) -> Self {
        Self { process, to_wake: Vec::new(), refused: VecDeque::new(), refused_of: Vec::new() }
    }

    /// Posts, unless older mail to the same thread was refused and waits to be told: then this is
    /// refused, too, so that mail stays in order. Whoever is to be woken is at the next
    /// [`Self::flush_wakes`].
    pub fn post(&mut self, to: ThreadId, mail: M, urgency: Urgency, counters: &mut Counters) {
        // What was refused stays before what comes later, though there may be room again by now.
        let posted =
            if self.is_behind(to) { Err(mail) } else { self.process.post(to, mail, urgency) };
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
                let index = usize::from(to.0);
                if self.refused_of.len() <= index {
                    self.refused_of.resize(index + 1, 0);
                }
                self.refused_of[index] += 1;
            }
        }
    }

    /// Whether mail to a thread was refused that the handler has not been told of.
    fn is_behind(&self, to: ThreadId) -> bool {
        self.refused_of.get(usize::from(to.0)).is_some_and(|refused| *refused > 0)
    }

    /// How much mail was refused and is still to be told.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused.len()
    }

    /// The next mail that was refused, in the order in which it was posted.
    pub fn take_refused(&mut self) -> Option<(ThreadId, M)> {
        let (to, mail) = self.refused.pop_front()?;
        let of = &mut self.refused_of[usize::from(to.0)];
        assert!(*of > 0, "refused mail of thread {} is counted", to.0);
        *of -= 1;
        Some((to, mail))
    }

    /// Wakes every receiver of mail posted since the last call.
    pub fn flush_wakes(&mut self, counters: &mut Counters) {
        for to in self.to_wake.drain(..) {
            if self.process.wake(to) {
                counters.add(Count::Wakes, 1);
            }
        }
    }
}
