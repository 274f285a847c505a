//! The bounds of what waits to be sent: when reading stops, what is dropped, who is closed, and when
//! memory is given back.

use event::{Bytes, Datagrams, Input, SocketId};

use crate::fair::EARLY_MAX;
use crate::tests::hand::{Hand, orders, sent};
use crate::{Count, Limits, Phase};

const KIB: usize = 1 << 10;

#[test]
fn reading_stops_above_the_high_mark_and_goes_on_below_half_of_it() {
    let limits = Limits { output_bytes_high: 4 << 10, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    let conn = hand.accept();
    hand.receive(conn, b"SSSS");
    assert!(hand.conn(conn).is_reading(), "just the mark is not above it");
    hand.receive(conn, b"s");
    assert!(!hand.conn(conn).is_reading());
    hand.receive(conn, b"SS");
    assert_eq!((hand.count(Count::Held), hand.count(Count::ReadPauses)), (2, 1));
    hand.takes(0, conn, 2 * KIB);
    hand.takes(0, conn, 1);
    assert_eq!((hand.conn(conn).unsent(), hand.conn(conn).is_reading()), (2 * KIB, false));
    hand.log();
    hand.takes(0, conn, 1);
    assert_eq!(hand.line(), "2 bytes of 0, turn end");
    assert!(hand.conn(conn).is_reading());
    assert_eq!((hand.count(Count::Held), hand.count(Count::Unsent)), (0, 4 * KIB as u64 - 1));
    assert_eq!((hand.count(Count::Sends), hand.count(Count::BytesOut)), (3, 2 * KIB as u64 + 2));
}

/// However low the mark: who has taken all is read from.
#[test]
fn reading_goes_on_when_all_is_sent() {
    let mut hand = Hand::new(Limits { output_bytes_high: 1, ..Limits::default() }, orders);
    let conn = hand.accept();
    hand.receive(conn, b"ss");
    assert!(!hand.conn(conn).is_reading());
    hand.takes(0, conn, 1);
    assert!(!hand.conn(conn).is_reading());
    hand.takes(0, conn, 1);
    assert!(hand.conn(conn).is_reading());
}

#[test]
fn what_is_only_offered_is_dropped_for_who_is_behind() {
    let mut first = None;
    let limits = Limits { output_bytes_high: 4 << 10, ..Limits::default() };
    let mut hand = Hand::new(limits, move |now, input, out| match input {
        Input::Opened { conn, .. } => first = Some(conn),
        Input::Mail(0) => first.into_iter().for_each(|conn| out.output_max(conn, 12 << 10)),
        Input::Mail(len) => {
            let bytes = Bytes::from(vec![0; len as usize]);
            first.into_iter().for_each(|conn| out.offer_shared(conn, bytes.clone()));
        }
        input => orders(now, input, out),
    });
    let conn = hand.accept();
    let offer = |hand: &mut Hand, len| {
        hand.others.mail.borrow_mut().push_back(len);
        hand.turn(0, |_| ());
        (hand.conn(conn).unsent(), hand.count(Count::OutputDropped))
    };
    assert_eq!(offer(&mut hand, 4 << 10), (4 * KIB, 0));
    assert_eq!(offer(&mut hand, 2 << 10), (6 * KIB, 0), "just the mark is not behind");
    assert_eq!(offer(&mut hand, 1), (6 * KIB, 1));
    hand.takes(0, conn, 4 * KIB);
    assert_eq!(offer(&mut hand, 1), (2 * KIB + 1, 1));
    // Half of a low limit counts instead of the mark.
    assert_eq!(offer(&mut hand, 0), (2 * KIB + 1, 1));
    hand.reactor.net.limits.output_bytes_high = 64 << 10;
    assert_eq!(offer(&mut hand, 4 << 10), (6 * KIB + 1, 1));
    assert_eq!(offer(&mut hand, 1), (6 * KIB + 1, 2));
}

#[test]
fn who_is_behind_and_is_sent_more_is_closed_when_all_have_too_much() {
    let limits =
        Limits { output_total_max: 48 << 10, output_bytes_high: 1 << 20, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    let (behind, much, little) = (hand.accept(), hand.accept(), hand.accept());
    hand.receive(behind, &[b'S'; 16]);
    hand.receive(much, &[b'S'; 30]);
    hand.receive(much, b"SS");
    hand.receive(little, &[b'S'; 8]);
    assert_eq!(hand.count(Count::ClosedOutputTotal), 0);
    assert_eq!(hand.phase(much), Phase::Open, "just the total is not too much");
    assert_eq!(hand.phase(little), Phase::Open, "and who has less than 16 KiB is not behind");
    hand.receive(little, b"s");
    assert_eq!(hand.phase(little), Phase::Open);
    hand.log();
    hand.receive(behind, b"s");
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "1 bytes of 0, turn end, closed 0: OutputTotal, turn end");
    assert_eq!(hand.count(Count::ClosedOutputTotal), 1);
    assert_eq!(hand.count(Count::Unsent), 40 * KIB as u64 + 1);
}

/// The limit is held against a peer that was offered something and did not take it, and that is
/// known two turns later.
#[test]
fn the_limit_of_output_is_judged_after_the_kernel_was_offered_the_bytes() {
    let limits =
        Limits { output_bytes_max: 8 << 10, output_bytes_high: 1 << 20, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    let conn = hand.accept();
    hand.receive(conn, &[b'S'; 8]);
    hand.receive(conn, b"s");
    assert_eq!((hand.phase(conn), hand.conn(conn).unsent()), (Phase::Open, 8 * KIB + 1));
    // As long as something of before is not looked at, nobody can be said not to have taken it.
    hand.kernel.has_more = true;
    (0..5).for_each(|_| hand.receive(conn, b"s"));
    assert_eq!((hand.phase(conn), hand.count(Count::ClosedOutputLimit)), (Phase::Open, 0));
    hand.kernel.has_more = false;
    hand.log();
    hand.receive(conn, b"s");
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "1 bytes of 0, turn end, closed 0: OutputLimit, turn end");
}

/// Who has little unsent may be sent much, though it did not take the little.
#[test]
fn a_large_piece_behind_a_small_one_is_taken() {
    let limits =
        Limits { output_bytes_max: 8 << 10, output_bytes_high: 1 << 20, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    let conn = hand.accept();
    hand.receive(conn, &[b'S'; 4]);
    (0..4).for_each(|_| hand.turn(0, |_| ()));
    hand.receive(conn, &[b'S'; 20]);
    assert_eq!((hand.phase(conn), hand.conn(conn).unsent()), (Phase::Open, 24 * KIB));
    hand.receive(conn, &[b'S'; 1]);
    assert_eq!(hand.phase(conn), Phase::Gone);
}

/// More was said than one may have unsent: the turn ends, so that the kernel is offered it.
#[test]
fn saying_more_than_the_limit_ends_the_turn() {
    let limits = Limits { output_bytes_max: 8 << 10, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    let conn = hand.accept();
    for (said, is_over) in [(8, false), (1, true)] {
        hand.turn(0, move |reactor| {
            reactor.on_bytes(conn.slot, &mut vec![b'S'; said]);
            assert_eq!(reactor.net.is_turn_over(), is_over, "{said} KiB");
            assert_eq!(reactor.net.is_turn_spent(), is_over, "{said} KiB");
        });
    }
}

/// One client that is sent too much in every turn, whether by another thread's mail or by its own
/// bytes: everybody's datagrams, mail and bytes wait for a few turns, and no longer.
#[test]
fn turns_that_end_early_keep_nobody_waiting_for_long() {
    let limits = Limits { output_bytes_max: 1 << 10, ..Limits::default() };
    for is_mail in [true, false] {
        let mut conn = None;
        let mut hand = Hand::new(limits, move |_, input, out| match input {
            Input::Opened { conn: new, .. } => conn = Some(new),
            Input::Mail(_) | Input::Bytes { .. } => {
                conn.into_iter().for_each(|conn| out.send(conn, &[0; 2 << 10]));
            }
            _ => {}
        })
        .with_sockets(1);
        let conn = hand.accept();
        hand.log();
        let mut waits = 0;
        for _ in 0..40 {
            if is_mail {
                hand.others.mail.borrow_mut().extend([1, 2]);
            }
            let offered = hand.conn(conn).unsent();
            hand.turn(0, move |reactor| {
                // The kernel has taken all of it: the client reads.
                if offered > 0 {
                    sent(reactor, conn, offered);
                }
                if !is_mail && !reactor.net.is_turn_over() {
                    reactor.on_bytes(conn.slot, &mut [0]);
                }
                if !reactor.net.are_datagrams_spent() {
                    let from = ([127, 0, 0, 1], 9).into();
                    reactor.on_datagrams(Datagrams::merged(SocketId(0), from, 0, 0, &mut [7]));
                }
            });
            let has_told = hand.log().iter().any(|it| it.contains("datagrams"));
            waits = if has_told { 0 } else { waits + 1 };
            assert!(waits <= u32::from(EARLY_MAX), "{waits} turns, {is_mail}");
        }
        assert_eq!(hand.phase(conn), Phase::Open);
    }
}

#[test]
fn memory_is_given_back_once_a_burst_of_large_answers_is_sent() {
    let limits = Limits { output_bytes_max: 64 << 20, ..Limits::default() };
    let mut hand = Hand::new(limits, |_, input, out| {
        if let Input::Bytes { conn, .. } = input {
            out.send_shared(conn, vec![0; 8 << 20].into());
        }
    });
    let conn = hand.accept();
    hand.receive(conn, b"much");
    hand.turn(1_000, |_| ());
    assert_eq!(hand.kernel.trims, 0, "it is not sent yet");
    hand.takes(0, conn, 8 << 20);
    hand.turn(1_000, |_| ());
    assert_eq!(hand.kernel.trims, 1);
    hand.turn(1_000, |_| ());
    hand.turn(1_000, |_| ());
    assert_eq!((hand.kernel.trims, hand.kernel.waited.0), (1, None), "and nobody looks any more");
}

/// A kernel that took nothing of what it was offered has answered: the limit holds at once.
#[test]
fn who_is_known_to_take_nothing_is_closed_at_once() {
    let limits = Limits { output_bytes_max: 8 << 10, ..Limits::default() };
    for takes_nothing in [false, true] {
        let mut hand = Hand::new(limits, orders);
        let conn = hand.accept();
        hand.receive(conn, &[b'S'; 8]);
        hand.turn(0, move |reactor| {
            if takes_nothing {
                reactor.net.conns.at(conn.slot).out.as_mut().unwrap().unpin();
                reactor.net.on_send_blocked(conn.slot);
            }
            reactor.on_bytes(conn.slot, &mut [b's']);
        });
        assert_eq!(hand.phase(conn) == Phase::Gone, takes_nothing);
    }
}

/// One byte above the total is too much, from whoever is behind.
#[test]
fn the_total_is_a_bound_to_the_byte() {
    let limits =
        Limits { output_total_max: 16 << 10, output_bytes_high: 1 << 20, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    let conn = hand.accept();
    hand.receive(conn, &[b'S'; 16]);
    assert_eq!(hand.phase(conn), Phase::Open);
    hand.receive(conn, b"s");
    assert_eq!(hand.phase(conn), Phase::Gone);
}
