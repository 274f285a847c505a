//! A plain thread from a seed: it posts, and is posted to; whoever gets its mail sees it in the order
//! in which it was posted.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use event::{Handler, Input, Now, Output, Random, ThreadId, Urgency};
use reactor::{Count, Counters, Plain, Postman, Sleep};

use crate::process::{Boxes, Mail, View};

/// The other threads, and the time: both go on while the thread sleeps.
struct Others {
    boxes: Rc<Boxes>,
    now_ns: RefCell<u64>,
    /// The last mail that each thread has taken.
    taken: RefCell<[Mail; 3]>,
}

impl Sleep for Others {
    fn now(&self) -> Now {
        *self.now_ns.borrow_mut() += 1_000;
        Now { mono_ns: *self.now_ns.borrow(), unix_ms: 0 }
    }

    fn park(&self, patience: Option<Duration>) {
        let draw = self.boxes.random.borrow_mut().below(10);
        let slept = patience.map_or(1_000_000, |p| u64::try_from(p.as_nanos()).unwrap());
        *self.now_ns.borrow_mut() += slept / u64::from(draw + 1);
        for to in 1..3 {
            let mut boxes = self.boxes.boxes.borrow_mut();
            let Some(mail) = boxes[to].pop_front() else { continue };
            let last = &mut self.taken.borrow_mut()[to];
            assert!(mail > *last, "mail {mail} to thread {to} came after {last}");
            *last = mail;
        }
        self.boxes.somebody_posts();
    }
}

/// Posts, each mail greater than the one before.
struct Posts {
    random: Random,
    posted: Mail,
    last: Mail,
    inputs: u32,
}

impl Handler for Posts {
    type Mail = Mail;

    fn handle(&mut self, _: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        self.inputs += 1;
        match input {
            Input::Mail(mail) => {
                assert!(mail > self.last, "mail out of order");
                self.last = mail;
            }
            Input::Stop => return out.stop(),
            _ => {}
        }
        for _ in 0..self.random.below(4) {
            let to = ThreadId(1 + u16::try_from(self.random.below(2)).unwrap());
            self.posted += 1;
            out.mail(to, self.posted);
        }
    }
}

#[test]
fn mail_keeps_its_order() {
    for seed in 0..300 {
        let boxes = Boxes::new(seed, 8);
        let (now_ns, taken) = (RefCell::new(0), RefCell::default());
        let others = Rc::new(Others { boxes: boxes.clone(), now_ns, taken });
        let mut plain = Plain::new(Rc::new(View(boxes.clone())), others.clone());
        let random = Random::from_number(seed);
        let handler = Posts { random, posted: 0, last: 0, inputs: 0 };
        let stops = Stops { handler, boxes: boxes.clone() };
        plain.run(Box::new(stops));
        while boxes.boxes.borrow()[1..].iter().any(|mailbox| !mailbox.is_empty()) {
            others.park(None);
        }
        let counters = *boxes.last.borrow();
        let ends = counters.value(Count::MailIn) + counters.value(Count::MailDropped);
        assert!(ends >= boxes.accepted.get(), "seed {seed}: {ends} of {:?}", boxes.accepted);
        assert!(boxes.boxes.borrow()[0].is_empty(), "seed {seed}: mail lies there");
    }
}

/// Asks its thread to stop after a while.
struct Stops {
    handler: Posts,
    boxes: Rc<Boxes>,
}

impl Handler for Stops {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        self.handler.handle(now, input, out);
        if self.handler.inputs == 100 {
            self.boxes.stop.set(true);
        }
    }
}

/// What refused mail costs does not grow with how much of it waits.
#[test]
#[expect(clippy::disallowed_methods, reason = "looks how long it takes")]
fn much_refused_mail_costs_no_more_than_a_little() {
    const MAILS: u64 = 150_000;
    let mut postman = Postman::new(Rc::new(View(Boxes::new(1, 8))));
    let mut counters = Counters::default();
    let since = std::time::Instant::now();
    for to in [1, 2] {
        for mail in 1..=MAILS {
            postman.post(ThreadId(to), mail, Urgency::Wake, &mut counters);
        }
    }
    let refused = std::iter::from_fn(|| postman.take_refused());
    let expected = [1, 2].into_iter().flat_map(|to| (9..=MAILS).map(move |m| (ThreadId(to), m)));
    assert!(refused.eq(expected));
    // Some milliseconds; looking through all of them for each took many seconds.
    assert!(since.elapsed() < Duration::from_secs(3));
    postman.post(ThreadId(1), 1, Urgency::Wake, &mut counters);
    assert_eq!(postman.refused(), 1);
}
