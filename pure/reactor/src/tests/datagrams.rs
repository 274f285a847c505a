//! Datagrams: what a turn tells and sends, what is left out, and what goes as one bundle.

use event::{Datagrams, Input, SocketId};

use crate::tests::hand::Hand;
use crate::{Count, Limits, Reactor, Taken};

const SOCKET: SocketId = SocketId(0);

/// Datagrams of a sender arrive.
fn arrive(reactor: &mut Reactor<u32>, port: u16, segment: u16, bytes: usize) {
    let mut bytes = vec![7; bytes];
    let from = ([127, 0, 0, 1], port).into();
    reactor.on_datagrams(Datagrams::merged(SOCKET, from, 0, segment, &mut bytes));
}

/// A thread with one socket, which answers each datagram as bytes say: to which port, how long.
fn hand(limits: Limits, answers: Vec<(u16, usize)>) -> Hand {
    let hand = Hand::new(limits, move |_, input, out| {
        if let Input::Datagrams(_) = input {
            for (port, len) in &answers {
                out.send_datagram(SOCKET, ([127, 0, 0, 1], *port).into(), &vec![7; *len]);
            }
        }
    });
    hand.with_sockets(1)
}

/// Ports, datagrams, segment sizes and bytes of the bundles that are to be sent.
fn bundles(hand: &Hand) -> Vec<(u16, u16, u16, usize)> {
    let all = hand.reactor.net.outbox(SOCKET).bundles();
    all.map(|it| (it.to.port(), it.count, it.segment, it.bytes.len())).collect()
}

#[test]
fn datagrams_of_one_size_to_one_address_go_together() {
    let full = 65_507 / 1_400;
    for (answers, wanted) in [
        (vec![(1, 5), (1, 5), (1, 3)], vec![(1, 3, 5, 13)]),
        // After a shorter one there is nothing more.
        (vec![(1, 5), (1, 3), (1, 3)], vec![(1, 2, 5, 8), (1, 1, 3, 3)]),
        (vec![(1, 5), (1, 6)], vec![(1, 1, 5, 5), (1, 1, 6, 6)]),
        (vec![(1, 5), (2, 5), (1, 5)], vec![(1, 1, 5, 5), (2, 1, 5, 5), (1, 1, 5, 5)]),
        // Of no bytes each is its own.
        (
            vec![(1, 0), (1, 0), (1, 5), (1, 0)],
            vec![(1, 1, 0, 0), (1, 1, 0, 0), (1, 1, 5, 5), (1, 1, 0, 0)],
        ),
        (vec![(1, 9); 65], vec![(1, 64, 9, 576), (1, 1, 9, 9)]),
        (
            vec![(1, 1_400); full + 1],
            vec![(1, u16::try_from(full).unwrap(), 1_400, full * 1_400), (1, 1, 1_400, 1_400)],
        ),
    ] {
        let count = answers.len() as u64;
        let mut hand = hand(Limits::default(), answers);
        hand.kernel.keeps_datagrams = true;
        hand.turn(0, |reactor| arrive(reactor, 9, 0, 1));
        assert_eq!(bundles(&hand), wanted);
        let outbox = hand.reactor.net.outbox(SOCKET);
        let pieces = outbox.bundles().flat_map(|bundle| bundle.pieces(false)).count();
        assert_eq!(pieces as u64, count);
        assert_eq!(outbox.bundles().flat_map(|it| it.pieces(true)).count(), wanted.len());
        let taken = Taken { datagrams: count - 1, bytes: 3, refused: 1 };
        hand.reactor.net.on_datagrams_offered(SOCKET, taken);
        assert!(hand.reactor.net.outbox(SOCKET).is_empty());
        hand.kernel.keeps_datagrams = false;
        hand.rest(0);
        assert_eq!(hand.count(Count::DatagramsOut), count - 1);
        assert_eq!(
            (hand.count(Count::DatagramBytesOut), hand.count(Count::DatagramsOutRefused)),
            (3, 1)
        );
    }
}

#[test]
fn what_is_too_long_or_too_much_is_dropped_and_counted() {
    let limits = Limits {
        datagram_bytes_max: 100,
        datagram_queue_bytes: 10 * (100 + 64),
        ..Limits::default()
    };
    let mut hand = hand(limits, vec![(1, 100), (1, 101), (2, 100), (1, 100), (1, 100)]);
    hand.turn(0, |reactor| {
        // Twelve are asked for that are not too long: ten have room.
        (0..3).for_each(|_| arrive(reactor, 9, 0, 1));
    });
    assert_eq!(hand.count(Count::DatagramsOut), 10);
    assert_eq!(hand.count(Count::DatagramsOutDropped), 3 + 2);
    hand.log();
    hand.turn(0, |reactor| {
        arrive(reactor, 9, 0, 101);
        arrive(reactor, 9, 101, 250);
        arrive(reactor, 9, 100, 250);
        reactor.net.on_datagrams_unreadable(2);
        reactor.net.on_datagrams_lost(7);
    });
    assert_eq!(
        hand.line(),
        "1 datagrams, 48 bytes, of port 9, 3 datagrams, 250 bytes, of port 9, turn end"
    );
    assert_eq!(hand.count(Count::DatagramsInDropped), 1 + 2 + 2);
    assert_eq!(hand.count(Count::DatagramsIn), 3 + 1 + 3);
    assert_eq!(hand.count(Count::DatagramBytesIn), 3 + 48 + 250);
    assert_eq!(hand.count(Count::DatagramsLost), 7);
}

/// A bound of their own, in which each counts: connections have theirs beside it.
#[test]
fn a_turn_tells_so_many_datagrams() {
    let limits = Limits { datagram_turn_bytes: 1_000, turn_bytes: 600, ..Limits::default() };
    let mut hand = hand(limits, Vec::new());
    hand.turn(0, |reactor| {
        arrive(reactor, 9, 0, 243);
        assert!(!reactor.net.are_datagrams_spent());
        arrive(reactor, 9, 200, 245);
        assert!(reactor.net.are_datagrams_spent(), "three of 256 and 488 bytes");
    });
    hand.turn(0, |reactor| {
        assert!(!reactor.net.are_datagrams_spent(), "the next turn begins anew");
        arrive(reactor, 9, 0, 231);
        arrive(reactor, 9, 0, 0);
        assert!(!reactor.net.are_datagrams_spent(), "743 of 1,000");
        arrive(reactor, 9, 0, 1);
        assert!(reactor.net.are_datagrams_spent());
    });
}

#[test]
fn after_the_stop_datagrams_are_counted_and_not_told() {
    let mut hand = Hand::new(Limits::default(), |_, input, out| {
        if let Input::Datagrams(_) = input {
            out.send_datagram(SOCKET, ([127, 0, 0, 1], 1).into(), b"last");
            out.stop();
        }
    })
    .with_sockets(1);
    hand.turn(0, |reactor| {
        arrive(reactor, 9, 0, 1);
        arrive(reactor, 9, 1, 3);
        assert!(reactor.net.is_stopping());
    });
    assert_eq!(hand.line(), "1 datagrams, 1 bytes, of port 9, mailbox closed, turn end");
    let counts = [Count::DatagramsIn, Count::DatagramsInDropped, Count::DatagramsOut];
    assert_eq!(counts.map(|count| hand.count(count)), [1, 3, 1]);
}

#[test]
fn sockets_are_counted_and_one_that_is_not_there_is_a_mistake() {
    let mut hand = Hand::new(Limits::default(), |_, input, out| {
        if let Input::Datagrams(_) = input {
            out.send_datagram(SocketId(2), ([127, 0, 0, 1], 1).into(), b"nowhere");
        }
    })
    .with_sockets(2);
    assert_eq!(hand.reactor.net.sockets(), 2);
    hand.turn(0, |reactor| arrive(reactor, 9, 0, 1));
    assert_eq!(hand.count(Count::Misdirected), 1);
}

#[test]
#[should_panic(expected = "are sent or refused")]
fn a_driver_that_loses_datagrams_is_found() {
    let mut hand = hand(Limits::default(), vec![(1, 5), (1, 5)]);
    hand.kernel.keeps_datagrams = true;
    hand.turn(0, |reactor| arrive(reactor, 9, 0, 1));
    let taken = Taken { datagrams: 1, ..Taken::default() };
    hand.reactor.net.on_datagrams_offered(SOCKET, taken);
}
