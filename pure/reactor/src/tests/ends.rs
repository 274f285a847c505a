//! How connections come to their ends, what is waited for and how long; and pauses of accepting.

use std::time::Duration;

use event::{CloseReason, ConnectFailure, Input};

use crate::tests::hand::{Hand, orders};
use crate::{Count, Limits, Phase};

#[test]
fn after_an_error_of_accepting_there_is_a_pause() {
    let limits = Limits { accept_pause_ms: 30, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    assert!(hand.reactor.net.wants_accept());
    hand.turn(0, |reactor| reactor.net.pause_accepting(&"no memory"));
    hand.turn(29, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::from_millis(30)));
    assert!(!hand.reactor.net.wants_accept() && !hand.reactor.net.has_stopped_accepting());
    hand.turn(1, |_| ());
    assert!(hand.reactor.net.wants_accept());
    assert_eq!(hand.count(Count::AcceptFailures), 1);
    let conn = hand.accept();
    hand.receive(conn, b"q");
    assert!(!hand.reactor.net.wants_accept() && hand.reactor.net.has_stopped_accepting());
}

#[test]
fn lingering_ends_with_the_peers_end_or_with_its_time() {
    let limits = Limits { linger_ms: 50, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    let (polite, silent) = (hand.accept(), hand.accept());
    for conn in [polite, silent] {
        hand.receive(conn, b"c");
        assert_eq!(hand.phase(conn), Phase::Lingering);
        hand.receive(conn, b"too late");
    }
    assert_eq!(hand.count(Count::BytesDiscarded), 16);
    hand.log();
    hand.turn(49, move |reactor| reactor.on_eof(polite.slot));
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "closed 0: Asked, turn end");
    assert_eq!(hand.kernel.waited.0, Some(Duration::ZERO), "somebody is to be told");
    hand.turn(0, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::from_millis(1)));
    assert_eq!(hand.count(Count::LingerTimeouts), 0);
    hand.rest(1);
    assert_eq!(hand.line(), "closed 1: Asked, turn end");
    assert_eq!((hand.count(Count::LingerTimeouts), hand.count(Count::ClosedAsked)), (1, 2));
}

/// Who has closed its side, before our close or behind it, is not waited for.
#[test]
fn a_peer_that_has_closed_is_not_lingered_for() {
    let mut hand = Hand::new(Limits::default(), |now, input, out| match input {
        Input::Eof { conn } => {
            out.send(conn, b"bye");
            out.close(conn);
        }
        input => orders(now, input, out),
    });
    let (first, second) = (hand.accept(), hand.accept());
    hand.receive(second, b"sc");
    hand.log();
    for conn in [first, second] {
        hand.turn(0, move |reactor| reactor.on_eof(conn.slot));
        assert_eq!(hand.phase(conn), Phase::Flushing);
        let unsent = hand.conn(conn).unsent();
        hand.takes(0, conn, unsent);
        assert_eq!(hand.conn(conn).phase(), Phase::Gone);
        hand.turn(0, |_| ());
    }
    assert_eq!(
        hand.line(),
        "end of 0, turn end, closed 0: Peer, turn end, closed 1: Asked, turn end"
    );
    assert_eq!((hand.count(Count::ClosedPeer), hand.count(Count::ClosedAsked)), (1, 1));
}

#[test]
fn a_closing_connection_is_waited_for_as_long_as_it_takes_its_last_bytes() {
    let limits = Limits { flush_ms: 100, ..Limits::default() };
    let mut hand = Hand::new(limits, |_, input, out| {
        if let Input::Bytes { conn, .. } = input {
            out.send(conn, &vec![0; 256 << 10]);
            out.close(conn);
        }
    });
    let conn = hand.accept();
    hand.receive(conn, b"all");
    // It is looked after every 25 ms, a quarter of the patience.
    for round in 0..5 {
        (0..4).for_each(|_| hand.turn(25, |_| ()));
        assert_eq!(hand.phase(conn), Phase::Flushing, "round {round}");
        let bytes = hand.conn(conn).unsent() / 8;
        hand.takes(0, conn, bytes);
    }
    (0..4).for_each(|_| hand.turn(25, |_| ()));
    assert_eq!(hand.phase(conn), Phase::Flushing);
    hand.log();
    hand.rest(25);
    assert_eq!(hand.line(), "closed 0: Asked, turn end");
    assert_eq!((hand.count(Count::FlushTimeouts), hand.count(Count::ClosedAsked)), (1, 1));
}

/// The patience of an open connection is another, and what ends it is told.
#[test]
fn an_open_connection_has_its_own_patience() {
    let limits = Limits { flush_ms: 100, stall_ms: 200, ..Limits::default() };
    let mut hand = Hand::new(limits, |now, input, out| match input {
        Input::Bytes { conn, bytes } if bytes[0] == b'h' => {
            out.output_patience(conn, 400);
            out.send(conn, b"something");
        }
        input => orders(now, input, out),
    });
    let (usual, patient) = (hand.accept(), hand.accept());
    hand.receive(usual, b"s");
    hand.receive(patient, b"h");
    hand.log();
    (0..8).for_each(|_| hand.turn(25, |_| ()));
    assert_eq!(hand.line(), "");
    // It is looked again after a quarter of the shortest patience.
    assert_eq!(hand.kernel.waited.0, Some(Duration::from_millis(25)));
    hand.rest(25);
    assert_eq!(hand.line(), "closed 0: OutputStalled, turn end");
    (0..7).for_each(|_| hand.turn(25, |_| ()));
    assert_eq!(hand.line(), "");
    hand.rest(25);
    assert_eq!(hand.line(), "closed 1: OutputStalled, turn end");
    assert_eq!(hand.count(Count::ClosedOutputStalled), 2);
    assert_eq!(hand.count(Count::FlushTimeouts), 0);
}

#[test]
fn a_stop_drains_then_aborts_then_gives_up() {
    let limits = Limits { stop_ms: 40, linger_ms: 1_000, ..Limits::default() };
    let mut hand = Hand::new(limits, orders);
    let (talks, idle) = (hand.accept(), hand.accept());
    hand.receive(idle, b"p");
    hand.log();
    hand.receive(talks, b"sx");
    assert_eq!((hand.phase(talks), hand.phase(idle)), (Phase::Flushing, Phase::Lingering));
    assert_eq!(hand.line(), "2 bytes of 0, mailbox closed, turn end");
    assert!(!hand.reactor.net.wants_accept() && !hand.reactor.is_finished());
    // Neither mail nor bytes are told any more; both are counted.
    hand.others.mail.borrow_mut().push_back(7);
    hand.receive(talks, b"more");
    assert_eq!(hand.line(), "");
    assert_eq!(hand.count(Count::MailDropped), 1);
    hand.turn(39, |_| ());
    assert_eq!(hand.phase(talks), Phase::Flushing);
    hand.rest(1);
    assert_eq!(hand.line(), "closed 0: Shutdown, closed 1: Shutdown, turn end");
    assert!(hand.reactor.is_finished());
    assert_eq!(hand.count(Count::ClosedShutdown), 2);
}

#[test]
fn an_attempt_to_connect_fails_when_its_time_or_that_of_the_engine_is_up() {
    let limits = Limits { connect_ms: 50, connections_max: 2, ..Limits::default() };
    let mut hand = Hand::new(limits, |_, input, out| {
        if let Input::Mail(within_ms) = input {
            out.connect(([127, 0, 0, 1], 1).into(), u64::from(within_ms), within_ms);
        }
    });
    hand.others.mail.borrow_mut().extend([20, 80, 90]);
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "mail 20, mail 80, mail 90, not connected 90: NoSlot, turn end");
    hand.turn(19, |_| ());
    assert_eq!(hand.kernel.waited.0, Some(Duration::from_millis(20)));
    assert_eq!(hand.line(), "");
    hand.rest(1);
    assert_eq!(hand.line(), "not connected 20: TimedOut, turn end");
    hand.turn(29, |_| ());
    assert_eq!(hand.line(), "");
    hand.rest(1);
    assert_eq!(hand.line(), "not connected 80: TimedOut, turn end");
    assert_eq!(hand.count(Count::ClosedConnectFailed), 3);
    assert_eq!(hand.count(Count::Open), 0);
}

/// A reset ends whatever is under way, and the first reason is the one that is told.
#[test]
fn a_reset_is_told_as_such_unless_the_handler_has_closed() {
    let mut hand = Hand::new(Limits::default(), |now, input, out| match input {
        Input::Mail(_) => {
            out.connect(([127, 0, 0, 1], 1).into(), 9, 60_000);
        }
        input => orders(now, input, out),
    });
    let (open, closing, lingering) = (hand.accept(), hand.accept(), hand.accept());
    hand.receive(closing, b"sc");
    hand.receive(lingering, b"c");
    hand.others.mail.borrow_mut().push_back(0);
    hand.turn(0, |_| ());
    hand.log();
    hand.turn(0, move |reactor| {
        for slot in [open.slot, closing.slot, lingering.slot, lingering.slot + 1] {
            reactor.net.on_reset(slot);
            reactor.net.on_reset(slot);
        }
    });
    // Who makes an attempt takes it back by itself, as a driver would.
    hand.turn(0, |_| ());
    let refused = format!("not connected 9: {:?}", ConnectFailure::Refused);
    let reset = format!("closed 0: {:?}", CloseReason::Reset);
    assert_eq!(
        hand.line(),
        format!("{reset}, closed 1: Asked, closed 2: Asked, {refused}, turn end")
    );
}

/// What a driver watches for where it does not receive is a reset there, and nothing elsewhere.
#[test]
fn a_hang_up_ends_only_who_is_not_received_from() {
    let mut hand = Hand::new(Limits::default(), orders);
    let (reads, paused, ended) = (hand.accept(), hand.accept(), hand.accept());
    hand.receive(paused, b"p");
    hand.turn(0, move |reactor| reactor.on_eof(ended.slot));
    hand.log();
    hand.turn(0, move |reactor| {
        [reads, paused, ended].iter().for_each(|conn| reactor.net.on_hang_up(conn.slot));
    });
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "closed 1: Reset, closed 2: Reset, turn end");
}

/// What the system says of an attempt is what is told; so is what bounds connections.
#[test]
fn attempts_go_where_they_were_told_and_fail_as_the_system_says() {
    let from = std::net::IpAddr::from([127, 0, 0, 7]);
    let to = ([127, 0, 0, 1], 9).into();
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let mut hand = Hand::new(limits, move |_, input, out| {
        if let Input::Mail(_) = input {
            out.connect_from(Some(from), to, 5, 60_000);
        }
    });
    hand.others.mail.borrow_mut().push_back(0);
    hand.turn(0, move |reactor| {
        assert_eq!(reactor.net.connects_from(0), Some(from));
        assert_eq!(reactor.net.connects_to(0), to);
        let peer = ([127, 0, 0, 1], 1).into();
        assert!(reactor.on_accepted(event::ListenerId(0), peer, 0).is_none());
        reactor.net.on_connect_failed(0, ConnectFailure::NoLocalPort);
        reactor.net.on_connect_failed(0, ConnectFailure::Unreachable);
    });
    hand.log();
    hand.turn(0, |_| ());
    assert_eq!(hand.line(), "not connected 5: NoLocalPort, turn end", "the first reason stands");
    assert_eq!(hand.count(Count::AcceptRefused), 1);
}

#[test]
fn a_connection_that_stands_is_told_unless_it_was_taken_back() {
    let mut hand = Hand::new(Limits::default(), |_, input, out| {
        if let Input::Mail(token) = input {
            let attempt = out.connect(([127, 0, 0, 1], 9).into(), u64::from(token), 60_000);
            if token == 2 {
                out.cancel_connect(attempt);
            }
        }
    });
    hand.others.mail.borrow_mut().extend([1, 2]);
    hand.turn(0, |reactor| {
        reactor.on_connected(0);
        reactor.on_connected(1);
    });
    hand.turn(0, |_| ());
    assert_eq!(
        hand.line(),
        "mail 1, mail 2, connected 0 for 1, turn end, not connected 2: Cancelled, turn end"
    );
    assert_eq!((hand.count(Count::Connected), hand.count(Count::Open)), (1, 1));
}
