//! Mailboxes without threads: what is posted lies in queues; somebody else posts, at any moment.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use event::{Random, ThreadId, Urgency};
use reactor::{Counters, Process};

/// Mail with a number, in the order in which its sender posted it.
pub(crate) type Mail = u64;

/// The mailboxes of a process; thread 0 is looked at.
pub(crate) struct Boxes {
    pub(crate) boxes: RefCell<Vec<VecDeque<Mail>>>,
    pub(crate) mail_max: usize,
    pub(crate) random: RefCell<Random>,
    pub(crate) is_closed: Cell<bool>,
    pub(crate) stop: Cell<bool>,
    /// Mail that others have posted to thread 0, accepted or refused.
    pub(crate) posted: Cell<u64>,
    pub(crate) accepted: Cell<u64>,
    pub(crate) last: RefCell<Counters>,
}

impl Boxes {
    pub(crate) fn new(seed: u64, mail_max: usize) -> Rc<Self> {
        Rc::new(Self {
            boxes: RefCell::new(vec![VecDeque::new(); 3]),
            mail_max,
            random: RefCell::new(Random::from_number(seed)),
            is_closed: Cell::new(false),
            stop: Cell::new(false),
            posted: Cell::new(0),
            accepted: Cell::new(0),
            last: RefCell::default(),
        })
    }

    /// Somebody posts to thread 0, or not.
    pub(crate) fn somebody_posts(&self) {
        if self.random.borrow_mut().below(3) > 0 {
            return;
        }
        let mine = &mut self.boxes.borrow_mut()[0];
        self.posted.set(self.posted.get() + 1);
        if !self.is_closed.get() && mine.len() < self.mail_max {
            mine.push_back(self.posted.get());
            self.accepted.set(self.accepted.get() + 1);
        }
    }
}

/// Thread 0's view of it.
pub(crate) struct View(pub(crate) Rc<Boxes>);

impl Process<Mail> for View {
    fn post(&self, to: ThreadId, mail: Mail, _: Urgency) -> Result<bool, Mail> {
        let mut boxes = self.0.boxes.borrow_mut();
        match boxes.get_mut(usize::from(to.0)) {
            Some(mailbox) if mailbox.len() < self.0.mail_max => {
                mailbox.push_back(mail);
                Ok(true)
            }
            _ => Err(mail),
        }
    }

    fn wake(&self, _: ThreadId) -> bool {
        true
    }

    fn pop(&self) -> Option<Mail> {
        self.0.boxes.borrow_mut()[0].pop_front()
    }

    fn is_idle(&self) -> bool {
        self.0.boxes.borrow()[0].is_empty() && !self.0.stop.get()
    }

    fn mail_max(&self) -> usize {
        self.0.mail_max
    }

    fn take_stop(&self) -> bool {
        self.0.stop.replace(false)
    }

    fn try_sleep(&self) -> bool {
        self.is_idle()
    }

    fn awake(&self) {
        // At any moment.
        self.0.somebody_posts();
    }

    fn close(&self) {
        self.0.somebody_posts();
        self.0.is_closed.set(true);
    }

    fn publish(&self, counters: &Counters) {
        *self.0.last.borrow_mut() = *counters;
        self.0.somebody_posts();
    }
}
