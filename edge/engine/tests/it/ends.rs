//! How connections and attempts come to their ends, and that they are told: resets that nobody
//! reads of, stops, attempts that are taken back, and limits that are judged fairly.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engine::{Count, DriverChoice, Engine, Limits, StartError, ThreadPlan};
use event::{CloseReason, ConnectFailure, Input, ThreadId};
use socket2::{Domain, SockRef, Socket, Type};

use crate::rig::{PATIENCE, Rig, Script, echo, pattern, quick, round_trip};
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

/// An error of accepting that is no peer's doing: accepting pauses after it, does not spin, and goes
/// on when the cause has gone. Whoever is connected notices nothing.
pub(crate) fn accepting_pauses_after_an_error_and_goes_on(driver: DriverChoice) {
    const PAUSE_MS: u32 = 20;
    let limits = Limits { accept_pause_ms: PAUSE_MS, ..quick() };
    let listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
    let spoiler = listeners[0].try_clone().unwrap();
    let rig = Rig::on(driver, limits, listeners, echo);
    let client = rig.client();
    assert_eq!(round_trip(&client, b"before"), b"before");
    let start = Instant::now();
    // A socket that does not listen any more cannot be accepted from: EINVAL.
    SockRef::from(&spoiler).shutdown(Shutdown::Both).unwrap();
    // The ring has many accepts outstanding, and each of them fails.
    let at_once = if driver == DriverChoice::Uring { 64 } else { 1 };
    rig.await_count(Count::AcceptFailures, |failures| failures >= 3 * at_once);
    assert_eq!(round_trip(&client, b"while"), b"while");
    let failures = rig.counters().value(Count::AcceptFailures);
    let pauses = start.elapsed().as_millis() / u128::from(PAUSE_MS) + 1;
    assert!(u128::from(failures / at_once) <= pauses, "{failures} failures in {pauses} pauses");
    SockRef::from(&spoiler).listen(16).unwrap();
    let again = TcpStream::connect(spoiler.local_addr().unwrap()).unwrap();
    again.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(round_trip(&again, b"after"), b"after");
    rig.stop();
}

/// What a thread needs is refused: those that were started before are stopped again.
pub(crate) fn a_failed_start_leaves_no_thread(driver: DriverChoice) {
    let listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let mut engine = Engine::new(driver);
    engine.add(ThreadPlan::core("good", listeners, |_| Script(echo)));
    // TCP_NODELAY cannot be set on what is no TCP socket.
    let unfit = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    engine.add(ThreadPlan::core("bad", vec![unfit.into()], |_| Script(echo)));
    let started = engine.start().map(|_| ());
    let Err(StartError::Thread { name, .. }) = started else { panic!("{started:?}") };
    assert_eq!(name, "bad");
    let start = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(start.elapsed() < PATIENCE, "a thread is left behind");
    }
}

/// Small messages do not wait until the peer has acknowledged those before (TCP_NODELAY), whoever
/// has connected to whom.
pub(crate) fn small_messages_leave_at_once(driver: DriverChoice) {
    const ROUNDS: u32 = 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let mut latest = None;
    let rig = Rig::new(driver, quick(), move |_, input, out| match input {
        Input::Mail(0) => latest.into_iter().for_each(|conn| out.send(conn, b"!")),
        Input::Mail(_) => {
            out.connect(to, 0, 60_000);
        }
        Input::Opened { conn, .. } | Input::Connected { conn, .. } => latest = Some(conn),
        _ => {}
    });
    rig.running.post(ThreadId(0), 1).unwrap();
    let (connected, _) = listener.accept().unwrap();
    rig.await_count(Count::Connected, |connected| connected == 1);
    for is_accepted in [false, true] {
        let mut peer = if is_accepted { rig.client() } else { connected.try_clone().unwrap() };
        rig.await_count(Count::Open, |open| open == 1 + u64::from(is_accepted));
        let mut at_once = 0;
        for _ in 0..ROUNDS {
            // It acknowledges as late as it may: 40 ms and more.
            SockRef::from(&peer).set_tcp_quickack(false).unwrap();
            for _ in 0..2 {
                let sent = rig.counters().value(Count::BytesOut);
                rig.running.post(ThreadId(0), 0).unwrap();
                rig.await_count(Count::BytesOut, |bytes| bytes == sent + 1);
            }
            at_once += u32::from(peer.peek(&mut [0; 2]).unwrap() == 2);
            peer.read_exact(&mut [0; 2]).unwrap();
        }
        // All of them, but a busy machine may be late in handing them over.
        assert!(at_once > ROUNDS / 2, "{at_once} of {ROUNDS}, accepted: {is_accepted}");
    }
    rig.stop();
}
