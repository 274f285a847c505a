//! How connections and attempts come to their ends, and that they are told: resets that nobody
//! reads of, stops, attempts that are taken back, and limits that are judged fairly.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::mpsc;
use std::time::Duration;

use engine::{Count, DriverChoice, Limits};
use event::{CloseReason, ConnectFailure, Input, ThreadId};
use socket2::SockRef;

use crate::rig::{PATIENCE, Rig, echo, pattern, quick, round_trip};
use crate::threads::deaf_listener;

/// What a handler says at once is no sign of a peer that does not read.
pub(crate) fn a_peer_that_reads_eagerly_is_not_cut_off(driver: DriverChoice) {
    let rig = Rig::new(driver, quick(), |_, input, out| {
        if let Input::Bytes { conn, .. } = input {
            (0..6).for_each(|part| out.send(conn, &pattern(1 << 20, part)));
        }
    });
    let mut client = rig.client();
    client.write_all(b"all of it").unwrap();
    let mut all = vec![0; 6 << 20];
    client.read_exact(&mut all).unwrap();
    let expected: Vec<u8> = (0..6).flat_map(|part| pattern(1 << 20, part)).collect();
    assert!(all == expected);
    drop(client);
    assert_eq!(rig.stop().value(Count::ClosedOutputLimit), 0);
}

/// Whether the handler reads no more, or the peer has nothing more to say: a reset is told.
pub(crate) fn a_reset_is_told_though_nobody_reads(driver: DriverChoice) {
    let (told, closed) = mpsc::channel();
    let rig = Rig::new(driver, quick(), move |_, input, out| match input {
        Input::Bytes { conn, .. } => {
            out.reading(conn, false);
            out.send(conn, b"!");
        }
        Input::Eof { conn } => out.send(conn, b"?"),
        Input::Closed { reason, .. } => told.send(reason).unwrap(),
        _ => {}
    });
    for round in 0..20 {
        let mut client = rig.client();
        if round % 2 == 0 {
            client.write_all(b"one").unwrap();
        } else {
            client.shutdown(Shutdown::Write).unwrap();
        }
        client.read_exact(&mut [0; 1]).unwrap();
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        assert_eq!(closed.recv_timeout(PATIENCE), Ok(CloseReason::Reset), "round {round}");
    }
    rig.stop();
}

pub(crate) fn a_stop_is_told_to_every_connection(driver: DriverChoice) {
    let (told, closed) = mpsc::channel();
    let rig = Rig::new(driver, quick(), move |now, input, out| match input {
        Input::Closed { reason, .. } => told.send(reason).unwrap(),
        input => echo(now, input, out),
    });
    let clients: Vec<_> = (0..5).map(|_| rig.client()).collect();
    clients.iter().for_each(|client| assert_eq!(round_trip(client, b"in"), b"in"));
    rig.running.stop();
    let reasons: Vec<_> = (0..5).map(|_| closed.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(reasons, [CloseReason::Shutdown; 5]);
    drop(clients);
    assert_eq!(rig.stop().value(Count::ClosedShutdown), 5);
}

pub(crate) fn an_attempt_to_connect_can_be_taken_back(driver: DriverChoice) {
    let (_listener, _waiting, deaf) = deaf_listener();
    let (told, events) = mpsc::channel();
    let mut attempts = Vec::new();
    let rig = Rig::new(driver, quick(), move |now, input, out| match input {
        Input::Mail(0) => attempts.push(out.connect(deaf, 1, 60_000)),
        Input::Mail(1) => attempts.drain(..).for_each(|attempt| {
            out.cancel_connect(attempt);
            out.cancel_connect(attempt);
        }),
        Input::Mail(2) => {
            out.connect(deaf, 2, 20);
        }
        // Before there is even a socket.
        Input::Mail(_) => {
            let attempt = out.connect(deaf, 3, 60_000);
            out.cancel_connect(attempt);
        }
        Input::ConnectFailed { token, failure } => told.send((token, failure)).unwrap(),
        input => echo(now, input, out),
    });
    // Nobody else's socket is taken for the one that there was not.
    let neighbour = rig.client();
    assert_eq!(round_trip(&neighbour, b"before"), b"before");
    for (orders, wanted) in [
        (&[0, 1][..], (1, ConnectFailure::Cancelled)),
        (&[2][..], (2, ConnectFailure::TimedOut)),
        (&[3][..], (3, ConnectFailure::Cancelled)),
    ] {
        for order in orders {
            rig.running.post(ThreadId(0), *order).unwrap();
        }
        assert_eq!(events.recv_timeout(PATIENCE), Ok(wanted));
    }
    rig.await_count(Count::Open, |open| open == 1);
    assert_eq!(round_trip(&neighbour, b"after"), b"after");
    drop(neighbour);
    rig.stop();
    assert!(events.try_recv().is_err(), "one outcome each");
}

/// What is in the making when the thread stops fails then, and is told.
pub(crate) fn a_stop_ends_attempts_to_connect(driver: DriverChoice) {
    let (_listener, _waiting, deaf) = deaf_listener();
    let (told, events) = mpsc::channel();
    let limits = Limits { connect_ms: 60_000, ..quick() };
    let rig = Rig::new(driver, limits, move |_, input, out| match input {
        Input::Mail(_) => {
            out.connect(deaf, 7, u32::MAX);
        }
        Input::ConnectFailed { token, failure } => told.send((token, failure)).unwrap(),
        _ => {}
    });
    rig.running.post(ThreadId(0), 0).unwrap();
    rig.await_count(Count::Open, |open| open == 1);
    rig.stop();
    assert_eq!(events.try_recv(), Ok((7, ConnectFailure::Shutdown)));
}
