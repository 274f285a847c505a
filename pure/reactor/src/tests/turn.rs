//! When a thread sleeps and coalesces, whom it wakes when, and in which order a turn tells things.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use event::{ConnId, Input, ThreadId};

use crate::tests::hand::{Hand, Others, orders};
use crate::{Count, Limits};

#[test]
fn only_after_lazy_mail_and_nothing_else_may_events_coalesce() {
    let mut hand = Hand::new(Limits::default(), orders);
    let conn = hand.accept();
    for (said, coalesces) in
        [("l", true), ("m", false), ("lm", false), ("ll", true), ("-", false), ("ls", false)]
    {
        hand.receive(conn, said.as_bytes());
        hand.turn(0, |_| ());
        assert_eq!(hand.kernel.waited.1, coalesces, "after {said}");
        assert!(!coalesces || hand.kernel.waited.0 == Some(Duration::from_millis(1)), "{said}");
        hand.turn(0, |_| ());
        assert!(!hand.kernel.waited.1, "after a turn of nothing");
    }
}

#[test]
fn coalescing_lasts_as_long_as_asked_and_no_longer_than_to_the_next_wake_up() {
    let mut hand = Hand::new(Limits::default(), |now, input, out| {
        let Input::Bytes { bytes, .. } = input else { return };
        match bytes[0] {
            b'g' => out.coalesce(4_000_000),
            ms => out.wake_at(Some(now.after_ms(u64::from(ms)).mono_ns)),
        }
        out.mail_lazy(ThreadId(1), 1);
    });
    let conn = hand.accept();
    hand.receive(conn, b"g");
    for (wake_ms, coalesce_ms) in [(100, 4), (3, 3)] {
        hand.receive(conn, &[wake_ms]);
        hand.turn(0, |_| ());
        assert_eq!(hand.kernel.waited, (Some(Duration::from_millis(coalesce_ms)), true));
    }
    // What the kernel has brought already is not kept waiting.
    hand.receive(conn, &[50]);
    hand.kernel.has_more = true;
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited, (Some(Duration::ZERO), false));
}

#[test]
fn a_thread_sleeps_until_it_is_due_and_not_while_anything_waits() {
    let mut hand = Hand::new(Limits::default(), |now, input, out| {
        if let Input::Bytes { bytes, .. } = input {
            out.wake_at(Some(now.after_ms(u64::from(bytes[0])).mono_ns));
        }
    });
    let conn = hand.accept();
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited, (None, false));
    hand.receive(conn, &[20]);
    hand.turn(5, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::from_millis(20)));
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::from_millis(15)));
    hand.others.mail.borrow_mut().push_back(1);
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::ZERO), "mail waits");
    hand.log();
    hand.turn(14, |_| ());
    assert_eq!(hand.line(), "", "not before it is due");
    hand.turn(1, |_| ());
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "wake, turn end");
}

#[test]
fn in_a_long_turn_receivers_of_mail_are_woken_before_its_end() {
    let mut hand = Hand::new(Limits::default(), orders);
    let conn = hand.accept();
    hand.log();
    hand.turn(0, move |reactor| {
        (0..70).for_each(|_| reactor.on_bytes(conn.slot, b"m".to_vec().as_mut_slice()));
    });
    let log = hand.log();
    let wakes = log.iter().enumerate().filter(|(_, event)| *event == "wake 1");
    // Each input is a line, and its mail another; the end of the turn is one as well.
    assert_eq!(wakes.map(|(at, _)| at).collect::<Vec<_>>(), [64, 129, 143]);
    assert_eq!(hand.count(Count::Wakes), 3);
}

#[test]
fn a_turn_tells_in_the_order_that_handlers_are_promised() {
    let mut second: Option<ConnId> = None;
    let mut hand = Hand::new(Limits::default(), move |now, input, out| match input {
        Input::Opened { conn, .. } => second = Some(conn),
        Input::Bytes { conn, bytes } if bytes[0] == b'p' => {
            out.reading(conn, false);
            out.wake_at(Some(now.after_ms(1).mono_ns));
        }
        Input::Mail(_) => second.into_iter().for_each(|conn| out.reading(conn, true)),
        input => orders(now, input, out),
    });
    let (first, second) = (hand.accept(), hand.accept());
    hand.receive(second, b"p");
    hand.receive(second, b"hidden");
    hand.others.room.set(0);
    hand.others.mail.borrow_mut().push_back(5);
    hand.others.stop.set(true);
    hand.log();
    hand.turn(1, move |reactor| reactor.on_bytes(first.slot, &mut [b'm', b't']));
    assert_eq!(
        hand.line(),
        "mail 5, stop, 2 bytes of 0, refused 2 to 1, sent 0, 6 bytes of 1, wake, turn end"
    );
    assert_eq!((hand.count(Count::MailIn), hand.count(Count::MailRefused)), (1, 1));
}

/// Mail is taken as long as there is any, up to what a mailbox holds: more may come meanwhile.
#[test]
fn a_turn_takes_no_more_mail_than_a_mailbox_holds() {
    let mut hand = Hand::new(Limits::default(), orders);
    hand.others.mail.borrow_mut().extend(0..6);
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "mail 0, mail 1, mail 2, mail 3, turn end");
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "mail 4, mail 5, turn end");
}

/// Mail that was posted before a stop was asked for is told before it, though more comes meanwhile
/// than one turn takes.
#[test]
fn a_stop_comes_behind_all_mail_of_before() {
    let others: Rc<RefCell<Option<Rc<Others>>>> = Rc::default();
    let posts = others.clone();
    let mut hand = Hand::new(Limits::default(), move |_, input, out| match input {
        Input::Mail(0) => {
            // Meanwhile somebody fills the mailbox, and then asks for a stop.
            let others = posts.borrow().clone().unwrap();
            others.mail.borrow_mut().extend(1..=4);
            others.stop.set(true);
        }
        Input::Stop => out.stop(),
        _ => {}
    });
    *others.borrow_mut() = Some(hand.others.clone());
    hand.others.mail.borrow_mut().push_back(0);
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "mail 0, mail 1, mail 2, mail 3, turn end");
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::ZERO));
    assert_eq!(hand.line(), "mail 4, stop, mailbox closed, turn end");
    assert_eq!(hand.count(Count::MailDropped), 0);
}

/// A stop that is asked for in a turn that ends early is told in the next.
#[test]
fn a_stop_waits_for_a_turn_that_is_not_over() {
    let limits = Limits { output_bytes_max: 1, ..Limits::default() };
    let mut conn = None;
    let mut hand = Hand::new(limits, move |_, input, out| match input {
        Input::Opened { conn: new, .. } => conn = Some(new),
        Input::Mail(_) => conn.into_iter().for_each(|conn| out.send(conn, b"much")),
        Input::Stop => out.stop(),
        _ => {}
    });
    hand.accept();
    hand.log();
    hand.others.mail.borrow_mut().push_back(1);
    hand.others.stop.set(true);
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "mail 1, turn end");
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::ZERO));
    assert_eq!(hand.line(), "stop, mailbox closed, turn end");
}
