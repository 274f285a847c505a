//! Mail that is refused, comes too late, or comes while an answer is waited for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use event::{Handler, Input, Now, Output, ThreadId};

use crate::tests::hand::{Hand, Mail, Others};
use crate::{Count, Limits, Plain, Sleep};

/// Until a refusal is told, later mail to the same thread is refused as well, and only that.
#[test]
fn refused_mail_keeps_its_place() {
    let mut hand = Hand::new(Limits::default(), |_, input, out| match input {
        Input::Mail(mail) => {
            out.mail(ThreadId(1), mail);
            out.mail(ThreadId(2), mail);
        }
        Input::Refused { to, mail: 1 } => out.mail(to, 50),
        _ => {}
    });
    hand.others.room.set(1);
    hand.others.mail.borrow_mut().extend([1, 2]);
    let others = hand.others.clone();
    // Room again, and still: what was refused before is told first.
    hand.turn(0, move |_| others.room.set(9));
    assert_eq!(
        hand.line(),
        "mail 1, post 1 to 1, mail 2, refused 1 to 2, refused 2 to 1, refused 2 to 2, turn end, \
         wake 1"
    );
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::ZERO), "refused mail is to be told");
    assert_eq!(hand.line(), "refused 50 to 2, turn end");
    hand.others.mail.borrow_mut().push_back(3);
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "mail 3, post 3 to 1, post 3 to 2, turn end, wake 1, wake 2");
    assert_eq!((hand.count(Count::MailOut), hand.count(Count::MailRefused)), (3, 4));
}

#[test]
fn mail_that_nobody_takes_any_more_is_counted() {
    let mut hand = Hand::new(Limits::default(), |_, input, out| {
        if let Input::Mail(_) = input {
            out.mail(ThreadId(1), 7);
        }
    });
    hand.turn(0, |_| ());
    hand.others.room.set(0);
    hand.others.mail.borrow_mut().extend([1, 2, 3]);
    hand.reactor.take_mail();
    hand.others.mail.borrow_mut().extend([4, 5]);
    hand.reactor.end();
    assert_eq!(hand.count(Count::MailDropped), 3 + 2);
    assert_eq!(hand.log().pop().as_deref(), Some("mailbox closed"));
}

/// A clock that stands unless somebody sleeps.
struct Bed {
    now_ns: Cell<u64>,
    others: Rc<Others>,
    slept: RefCell<Vec<Option<Duration>>>,
}

impl Sleep for Bed {
    fn now(&self) -> Now {
        Now { mono_ns: self.now_ns.get(), unix_ms: 0 }
    }

    fn park(&self, patience: Option<Duration>) {
        self.slept.borrow_mut().push(patience);
        assert!(self.slept.borrow().len() < 100, "sleeps without end");
        match patience {
            Some(patience) => {
                let ns = u64::try_from(patience.as_nanos()).unwrap();
                self.now_ns.set(self.now_ns.get() + ns);
            }
            None => self.others.stop.set(true),
        }
    }
}

struct Script<F>(F);

impl<F: FnMut(Now, Input<'_, Mail>, &mut Output<Mail>)> Handler for Script<F> {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        (self.0)(now, input, out);
    }
}

/// A plain thread in the place of a core.
fn plain() -> (Hand, Rc<Bed>, Plain<Mail>) {
    let hand = Hand::new(Limits::default(), |_, _, _| ());
    let bed = Rc::new(Bed {
        now_ns: Cell::new(0),
        others: hand.others.clone(),
        slept: RefCell::default(),
    });
    let plain = Plain::new(hand.others.clone(), bed.clone());
    (hand, bed, plain)
}

/// A plain thread sleeps until its mail or its wake-up, and wakes others at the end of its turn.
#[test]
fn a_plain_thread_sleeps_until_it_wants_to_be_woken() {
    let (mut hand, bed, mut plain) = plain();
    hand.others.mail.borrow_mut().push_back(100);
    plain.run(Box::new(Script(move |now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>| {
        match input {
            Input::Mail(_) => {
                out.mail(ThreadId(2), 1);
                out.close(event::ConnId { slot: 0, generation: 0 });
                out.mail_lazy(ThreadId(1), 2);
                out.wake_at(Some(now.after_ms(50).mono_ns));
            }
            Input::Wake => assert_eq!(now.mono_ns, 50_000_000),
            Input::Stop => out.stop(),
            _ => {}
        }
    })));
    assert_eq!(
        hand.line(),
        "post 1 to 2, post 2 to 1, wake 2, mailbox closed",
        "nobody is woken for what can wait"
    );
    let slept = [Some(50), None].map(|ms| ms.map(Duration::from_millis));
    assert_eq!(*bed.slept.borrow(), slept);
    assert_eq!((hand.count(Count::Misdirected), hand.count(Count::Wakes)), (1, 1));
    assert_eq!((hand.count(Count::MailIn), hand.count(Count::MailOut)), (1, 2));
    assert_eq!((hand.count(Count::Turns), hand.count(Count::SystemCalls)), (3, 2));
}

/// A thread with refusals to tell does not sleep; one that has stopped is told no more than the end
/// of its batch.
#[test]
fn refusals_are_told_at_once_and_a_stop_is_the_last_of_a_turn() {
    let (hand, bed, mut plain) = plain();
    hand.others.room.set(0);
    hand.others.mail.borrow_mut().push_back(1);
    let (log, sleeps, others) =
        (Rc::<RefCell<Vec<String>>>::default(), bed.clone(), hand.others.clone());
    let told = log.clone();
    plain.run(Box::new(Script(move |_: Now, input: Input<'_, Mail>, out: &mut Output<Mail>| {
        told.borrow_mut().push(format!("{input:?}"));
        match input {
            Input::Mail(1) => out.mail(ThreadId(1), 5),
            Input::Refused { .. } => {
                assert!(sleeps.slept.borrow().is_empty(), "it slept over a refusal");
                others.mail.borrow_mut().extend([2, 3, 4]);
            }
            Input::Mail(_) => out.stop(),
            _ => {}
        }
    })));
    let told = log.borrow().join(", ");
    let expected = "Mail(1), TurnEnd, Refused { to: ThreadId(1), mail: 5 }, Mail(2), TurnEnd";
    assert_eq!(told, expected);
    assert_eq!((hand.count(Count::MailDropped), hand.count(Count::MailIn)), (2, 4));
}
