//! A second handler on a core's thread: the core's companion, for work that comes from the core and goes
//! back to it, and that is too short to be worth waking another thread.
//!
//! It is a thread to everybody else, with a number, a mailbox and counters of its own, and does not know
//! that it shares one. It owns no socket and may not block: while it works, the core's connections
//! wait. So each turn of the core ends with one of the companion's, in which it is told mail for so long
//! and no longer; the rest waits until the core has heard the kernel again. Both mailboxes wake the one
//! thread, and neither wakes it while the other is at work.
//!
//! In come the companion's mail and the core's turns; out goes mail.

use std::rc::Rc;

use event::{Handler, Now};

use crate::mail::Process;
use crate::plain::{Plain, Sleep};

/// The second handler of a core's thread.
pub struct Companion<M> {
    plain: Plain<M>,
    process: Rc<dyn Process<M>>,
    clock: Rc<dyn Sleep>,
    handler: Box<dyn Handler<Mail = M>>,
    turn_ns: u64,
}

impl<M: Send + 'static> Companion<M> {
    /// A companion with the mailbox that `process` sees as its own. It begins no further input once its
    /// turn has lasted for `turn_ns` nanoseconds. `clock` is asked for the time and never sleeps.
    #[must_use]
    pub fn new(
        handler: Box<dyn Handler<Mail = M>>,
        process: Rc<dyn Process<M>>,
        clock: Rc<dyn Sleep>,
        turn_ns: u64,
    ) -> Self {
        let plain = Plain::new(process.clone(), clock.clone());
        Self { plain, process, clock, handler, turn_ns }
    }

    /// Its part of a turn that began at `now`. Says whether it was told anything.
    pub(crate) fn turn(&mut self, now: Now) -> bool {
        let is_due = self.plain.wake_ns().is_some_and(|due_ns| due_ns <= now.mono_ns);
        if !is_due && !self.plain.has_leftovers() && self.process.is_idle() {
            return false;
        }
        // It ends with its core, and not before.
        let _ = self.process.take_stop();
        let until_ns = self.clock.now().mono_ns.saturating_add(self.turn_ns);
        let was_busy = self.plain.turn(&mut *self.handler, false, until_ns);
        self.plain.publish();
        was_busy
    }

    /// Whether its next turn cannot wait; mail is another matter.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.plain.has_leftovers()
    }

    /// When it wants to be woken.
    pub(crate) fn wake_ns(&self) -> Option<u64> {
        self.plain.wake_ns()
    }

    /// Announces that the thread will sleep; `false` if there is mail.
    pub(crate) fn try_sleep(&self) -> bool {
        self.process.try_sleep()
    }

    /// The thread is awake again.
    pub(crate) fn awake(&self) {
        self.process.awake();
    }

    /// Its core has ended: the handler is told so, behind all mail that is there.
    pub(crate) fn end(&mut self) {
        self.plain.turn(&mut *self.handler, true, u64::MAX);
        self.plain.end();
    }
}
