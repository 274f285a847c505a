//! Who is received from when: pieces and turns, exactly.

use std::time::Duration;

use event::{ConnId, Input};

use crate::tests::hand::{Hand, orders};
use crate::{Count, Limits, Receive};

/// Four pieces a turn.
fn limits() -> Limits {
    Limits { turn_bytes: 8 << 10, receive_buffer_bytes: 1 << 10, ..Limits::default() }
}

const FULL: [u8; 1 << 10] = [0; 1 << 10];

/// Accepts connections that flood.
fn flooders(hand: &mut Hand, count: usize) -> Vec<ConnId> {
    let conns: Vec<_> = (0..count).map(|_| hand.accept()).collect();
    let all = conns.clone();
    hand.kernel.buffers = Some(0);
    hand.turn(0, move |reactor| {
        for conn in &all {
            (0..2).for_each(|_| reactor.on_bytes(conn.slot, FULL.to_vec().as_mut_slice()));
            reactor.net.touch(conn.slot);
        }
    });
    hand.kernel.buffers = None;
    conns
}

fn granted(hand: &Hand) -> Vec<u32> {
    let granted = hand.kernel.wishes.iter().filter(|(_, wish)| *wish == Receive::One);
    granted.map(|(slot, _)| *slot).collect()
}

#[test]
fn two_full_pieces_make_a_flood_and_less_than_a_quarter_of_one_ends_it() {
    let mut hand = Hand::new(limits(), orders);
    let conn = hand.accept();
    for (len, floods) in [
        (1_024, false),
        (1_023, false),
        (1_024, false),
        (1_024, true),
        (1_023, true),
        (256, true),
        (255, false),
        (1_024, false),
        (255, false),
        (1_024, false),
        (1_024, true),
    ] {
        hand.receive(conn, &FULL[..len]);
        assert_eq!(hand.count(Count::Flooding), u64::from(floods), "after {len} bytes");
    }
    hand.turn(0, move |reactor| reactor.net.on_nothing(conn.slot));
    assert_eq!(hand.count(Count::Flooding), 0);
    assert_eq!(hand.kernel.wishes, [(conn.slot, Receive::Many)]);
    let bytes = 5 * 1_024 + 2 * 1_023 + 256 + 2 * 255 + 1_024;
    assert_eq!((hand.count(Count::BytesIn), hand.count(Count::Receives)), (bytes, 11));
}

#[test]
fn who_floods_gets_one_piece_by_turns() {
    let mut hand = Hand::new(limits(), orders);
    let conns = flooders(&mut hand, 6);
    let mut seen = granted(&hand);
    assert_eq!(seen, [0], "one at least, however few buffers are free");
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::ZERO), "somebody is in line");
    seen.extend(granted(&hand));
    for _ in 0..3 {
        let last = granted(&hand);
        hand.turn(0, move |reactor| {
            for slot in last {
                reactor.on_bytes(slot, FULL.to_vec().as_mut_slice());
                reactor.net.touch(slot);
            }
        });
        seen.extend(granted(&hand));
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1]);
    assert_eq!(hand.count(Count::Flooding), conns.len() as u64);
}

/// A driver with few buffers free: half of them are left to those who do not flood.
#[test]
fn pieces_leave_half_of_the_free_buffers_to_others() {
    for (free, pieces) in [(0, 1), (1, 1), (4, 2), (5, 2), (6, 3), (100, 4)] {
        let mut hand = Hand::new(limits(), orders);
        flooders(&mut hand, 8);
        hand.kernel.buffers = Some(free);
        hand.turn(0, |_| ());
        assert_eq!(granted(&hand).len(), pieces, "{free} free buffers");
    }
}

#[test]
fn who_met_a_shortage_goes_first() {
    let mut hand = Hand::new(limits(), orders);
    flooders(&mut hand, 6);
    let quiet = hand.accept();
    hand.kernel.buffers = Some(2);
    hand.turn(0, move |reactor| {
        reactor.net.on_shortage(quiet.slot);
        reactor.net.on_shortage(quiet.slot);
    });
    assert_eq!(granted(&hand), [quiet.slot]);
    assert_eq!(hand.count(Count::BufferShortages), 2);
    // It waits for a turn like any other until it has shown that it does not flood.
    assert_eq!(hand.count(Count::Flooding), 7);
    hand.receive(quiet, b"little");
    hand.turn(0, |_| ());
    assert_eq!(hand.count(Count::Flooding), 6);
}

/// A turn tells a bound of bytes, each input costs besides, and what is left over waits.
#[test]
fn a_turn_is_spent_by_bytes_and_by_inputs() {
    let mut hand = Hand::new(limits(), orders);
    let conn = hand.accept();
    hand.turn(0, move |reactor| {
        for _ in 0..6 {
            assert!(!reactor.net.is_turn_spent());
            reactor.on_bytes(conn.slot, FULL.to_vec().as_mut_slice());
        }
        // 7,680 of 8,192.
        assert!(!reactor.net.is_turn_spent());
        reactor.on_bytes(conn.slot, &mut FULL.to_vec()[..255]);
        assert!(!reactor.net.is_turn_spent());
        reactor.on_bytes(conn.slot, &mut FULL.to_vec()[..1]);
        assert!(reactor.net.is_turn_spent() && !reactor.net.is_turn_over());
    });
    // What mail costs is no part of what the kernel brought.
    hand.reactor.net.limits.turn_bytes = 4 * 256;
    hand.others.mail.borrow_mut().extend(0..4);
    hand.turn(0, |reactor| assert!(!reactor.net.is_turn_spent()));
}

/// What was held back is told by pieces and by turns, too.
#[test]
fn held_input_is_told_in_pieces_and_by_turns() {
    const PIECE: usize = 16 << 10;
    let mut conns = Vec::new();
    let mut hand = Hand::new(Limits::default(), move |_, input, out| match input {
        Input::Opened { conn, .. } => {
            conns.push(conn);
            out.reading(conn, false);
        }
        Input::Mail(_) => conns.iter().for_each(|conn| {
            out.reading(*conn, true);
            out.reading(*conn, true);
        }),
        _ => {}
    });
    let (much, little) = (hand.accept(), hand.accept());
    hand.turn(0, move |reactor| {
        (0..6).for_each(|_| reactor.on_bytes(much.slot, &mut vec![0; PIECE]));
        reactor.on_bytes(much.slot, &mut [0; 5]);
        reactor.on_bytes(little.slot, &mut [0; 9]);
        reactor.on_eof(little.slot);
    });
    assert_eq!(hand.count(Count::Held), 6 * PIECE as u64 + 14);
    assert_eq!(hand.count(Count::ReadPauses), 2);
    hand.others.mail.borrow_mut().push_back(0);
    hand.log();
    hand.turn(0, |_| ());
    let piece = format!("{PIECE} bytes of 0");
    let expected =
        format!("mail 0, {piece}, {piece}, {piece}, {piece}, 9 bytes of 1, end of 1, turn end");
    assert_eq!(hand.line(), expected);
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), format!("{piece}, {piece}, 5 bytes of 0, turn end"));
    assert_eq!(hand.count(Count::Held), 0);
}

/// Many that are read from again: no more of them in one turn than it may tell.
#[test]
fn held_input_is_bounded_by_the_turn() {
    let mut conns = Vec::new();
    let mut hand = Hand::new(limits(), move |_, input, out| match input {
        Input::Opened { conn, .. } => {
            conns.push(conn);
            out.reading(conn, false);
        }
        Input::Mail(_) => conns.iter().for_each(|conn| out.reading(*conn, true)),
        _ => {}
    });
    let conns: Vec<_> = (0..10).map(|_| hand.accept()).collect();
    for conn in conns {
        hand.receive(conn, &FULL);
    }
    hand.others.mail.borrow_mut().push_back(0);
    let mut told = Vec::new();
    for _ in 0..3 {
        hand.log();
        hand.turn(0, |_| ());
        told.push(hand.log().iter().filter(|line| line.contains("bytes")).count());
    }
    assert_eq!(told, [7, 3, 0], "each costs 1,280 of 8,192");
}

/// Stopping twice is stopping once, and going on without a stop is nothing.
#[test]
fn reading_is_stopped_once() {
    let mut hand = Hand::new(Limits::default(), |_, input, out| {
        if let Input::Bytes { conn, bytes } = input {
            bytes.iter().for_each(|order| out.reading(conn, *order == b'1'));
        }
    });
    let conn = hand.accept();
    hand.receive(conn, b"1");
    assert_eq!((hand.count(Count::ReadPauses), hand.count(Count::Flooding)), (0, 0));
    hand.receive(conn, b"00");
    hand.log();
    hand.turn(0, |_| ());
    assert_eq!(hand.count(Count::ReadPauses), 1);
    assert_eq!((hand.line().as_str(), hand.kernel.waited.0), ("", None), "nothing is left to tell");
}

/// Held input is told as long as the handler wants it, piece by piece: a stop or a close between two
/// of them counts at once.
#[test]
fn held_input_stops_where_the_handler_stops() {
    const PIECE: usize = 16 << 10;
    for (order, dropped) in [(b'p', 0), (b'c', 2 * PIECE as u64), (b'a', 2 * PIECE as u64)] {
        let mut held = None;
        let mut hand = Hand::new(Limits::default(), move |now, input, out| match input {
            Input::Opened { conn, .. } => {
                held = Some(conn);
                out.reading(conn, false);
            }
            Input::Mail(0) => held.into_iter().for_each(|conn| out.reading(conn, true)),
            // Both in one turn: it is as if nothing had been said.
            Input::Mail(_) => held.into_iter().for_each(|conn| {
                out.reading(conn, true);
                out.reading(conn, false);
            }),
            input => orders(now, input, out),
        });
        let conn = hand.accept();
        hand.turn(0, move |reactor| {
            (0..3).for_each(|_| reactor.on_bytes(conn.slot, &mut vec![order; PIECE]));
        });
        hand.log();
        hand.others.mail.borrow_mut().push_back(1);
        hand.turn(0, |_| ());
        assert_eq!(hand.line(), "mail 1, turn end");
        hand.others.mail.borrow_mut().push_back(0);
        hand.turn(0, |_| ());
        assert_eq!(hand.line(), format!("mail 0, {PIECE} bytes of 0, turn end"));
        let left = if dropped > 0 { 0 } else { 2 * PIECE as u64 };
        assert_eq!((hand.count(Count::Held), hand.count(Count::BytesDiscarded)), (left, dropped));
    }
}
