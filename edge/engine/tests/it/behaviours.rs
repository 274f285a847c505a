//! What a core thread must do for its connections, whichever driver it runs on.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engine::{Count, DriverChoice, Limits};
use event::{Bytes, CloseReason, ConnId, Input, ThreadId};
use socket2::SockRef;

use crate::rig::{PATIENCE, Rig, drain, echo, pattern, quick, round_trip};

pub(crate) fn every_size_comes_back_whole(driver: DriverChoice) {
    let limits = quick();
    let rig = Rig::new(driver, limits, echo);
    let client = rig.client();
    let buffer = limits.receive_buffer_bytes as usize;
    let boundaries = [1, 2 << 10, 16 << 10, buffer, 2 * buffer, 64 << 10, 128 << 10, 1 << 20];
    for (seed, boundary) in boundaries.into_iter().enumerate() {
        for size in [boundary - 1, boundary, boundary + 1] {
            let bytes = pattern(size, seed);
            assert!(round_trip(&client, &bytes) == bytes, "{size} bytes");
        }
    }
    assert_eq!(drain(client), b"");
    rig.stop();
}

pub(crate) fn a_request_split_at_every_byte_is_the_same_request(driver: DriverChoice) {
    let rig = Rig::new(driver, quick(), echo);
    let mut client = rig.client();
    let request = pattern(48, 7);
    let mut back = vec![0; request.len()];
    for split in 0..=request.len() {
        let (first, second) = request.split_at(split);
        client.write_all(first).unwrap();
        client.write_all(second).unwrap();
        client.read_exact(&mut back).unwrap();
        assert_eq!(back, request, "split at {split}");
    }
    for byte in &request {
        client.write_all(&[*byte]).unwrap();
    }
    client.read_exact(&mut back).unwrap();
    assert_eq!(back, request);
    rig.stop();
}

/// The peer sends far more than all buffers hold before it reads a byte: slowed, nothing lost.
pub(crate) fn a_slow_reader_loses_nothing(driver: DriverChoice) {
    let limits = Limits { output_bytes_high: 32 << 10, ..quick() };
    let rig = Rig::new(driver, limits, echo);
    let (mut client, neighbour) = (rig.client(), rig.client());
    let bytes = pattern(24 << 20, 3);
    let mut back = vec![0; bytes.len()];
    std::thread::scope(|scope| {
        let mut writer = client.try_clone().unwrap();
        let bytes = &bytes;
        scope.spawn(move || writer.write_all(bytes).unwrap());
        rig.await_count(Count::ReadPauses, |pauses| pauses > 0);
        assert_eq!(round_trip(&neighbour, b"not slowed"), b"not slowed");
        client.read_exact(&mut back).unwrap();
    });
    assert!(back == bytes);
    // What it did once is forgotten when it sends no more than a buffer holds.
    assert_eq!(round_trip(&client, b"caught up"), b"caught up");
    rig.await_count(Count::Flooding, |flooding| flooding == 0);
    let end = rig.stop();
    assert_eq!(end.value(Count::ClosedOutputLimit), 0);
}

/// A handler pushes far more than the peer takes, and goes on: closed at the limit, and counted.
pub(crate) fn output_is_bounded_and_neighbours_notice_nothing(driver: DriverChoice) {
    let (told, closed) = mpsc::channel();
    let limits = Limits { output_bytes_max: 1 << 20, ..quick() };
    let mut greedy = None;
    let rig = Rig::new(driver, limits, move |now, input, out| match input {
        Input::Bytes { conn, bytes } if bytes == b"flood" => {
            greedy = Some(conn);
            (0..200).for_each(|_| out.send_shared(conn, vec![7; 100 << 10].into()));
        }
        // As a match does: it is not slowed by reading less.
        Input::Mail(_) => {
            greedy.into_iter().for_each(|conn| out.send_shared(conn, vec![7; 100 << 10].into()));
        }
        Input::Closed { conn, reason } => told.send((conn, reason)).unwrap(),
        input => echo(now, input, out),
    });
    let (mut greedy, neighbour) = (rig.client(), rig.client());
    assert_eq!(round_trip(&neighbour, b"before"), b"before");
    greedy.write_all(b"flood").unwrap();
    rig.await_count(Count::Unsent, |unsent| unsent > 1 << 20);
    for _ in 0..4 {
        let turns = rig.counters().value(Count::Turns);
        rig.running.post(ThreadId(0), 0).unwrap();
        rig.await_count(Count::Turns, |now| now > turns);
    }
    let (_, reason) = closed.recv_timeout(PATIENCE).unwrap();
    assert_eq!(reason, CloseReason::OutputLimit);
    assert_eq!(round_trip(&neighbour, b"after"), b"after");
    assert_eq!(rig.stop().value(Count::ClosedOutputLimit), 1);
}

/// One answer above the limit is no sign of a peer that does not read.
pub(crate) fn one_large_answer_is_sent_whole(driver: DriverChoice) {
    const LARGE: usize = 5 << 20;
    let limits = Limits { output_bytes_max: 1 << 20, ..quick() };
    let rig = Rig::new(driver, limits, move |_, input, out| {
        if let Input::Bytes { conn, bytes } = input {
            // As one piece, or its head by itself and its body not copied.
            let split = if bytes == b"in parts" { 300 } else { 0 };
            let (head, body) = (pattern(LARGE, 3), pattern(LARGE, 3).split_off(split));
            out.send(conn, &head[..split]);
            out.send_shared(conn, body.into());
            out.close(conn);
        }
    });
    for request in [&b"all of it"[..], b"in parts"] {
        let mut client = rig.client();
        client.write_all(request).unwrap();
        assert!(drain(client) == pattern(LARGE, 3));
    }
    assert_eq!(rig.stop().value(Count::ClosedOutputLimit), 0);
}

pub(crate) fn a_half_closed_peer_still_gets_its_answer(driver: DriverChoice) {
    let (told, closed) = mpsc::channel();
    let mut request = Vec::new();
    let rig = Rig::new(driver, quick(), move |_, input, out| match input {
        Input::Bytes { bytes, .. } => request.extend_from_slice(bytes),
        Input::Eof { conn } => {
            out.send(conn, &request);
            out.close(conn);
            out.send(conn, b"after the close nothing is sent");
        }
        Input::Closed { reason, .. } => told.send(reason).unwrap(),
        _ => {}
    });
    let mut client = rig.client();
    let bytes = pattern(300 << 10, 5);
    client.write_all(&bytes).unwrap();
    assert!(drain(client) == bytes);
    assert_eq!(closed.recv_timeout(PATIENCE), Ok(CloseReason::Peer));
    rig.stop();
}

/// Resets while input, output, or both are under way; the thread goes on.
pub(crate) fn a_reset_in_the_middle_hurts_nobody_else(driver: DriverChoice) {
    let (told, closed) = mpsc::channel();
    let rig = Rig::new(driver, quick(), move |now, input, out| match input {
        Input::Bytes { conn, bytes } if bytes == b"much" => out.send(conn, &vec![1; 1 << 20]),
        Input::Closed { reason, .. } => told.send(reason).unwrap(),
        input => echo(now, input, out),
    });
    let neighbour = rig.client();
    for round in 0..40 {
        let mut client = rig.client();
        client.write_all(if round % 2 == 0 { b"much" } else { b"some" }).unwrap();
        if round % 4 < 2 {
            client.read_exact(&mut [0; 3]).unwrap();
        }
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        assert_eq!(closed.recv_timeout(PATIENCE), Ok(CloseReason::Reset), "round {round}");
        assert_eq!(round_trip(&neighbour, b"still here"), b"still here");
    }
    rig.stop();
}

pub(crate) fn an_accept_storm_is_weathered(driver: DriverChoice) {
    const CLIENTS: usize = 1_500;
    let rig = Rig::new(driver, quick(), echo);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| rig.client()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.write_all(&index.to_le_bytes()).unwrap();
    }
    for (index, client) in clients.iter_mut().enumerate() {
        let mut back = [0; 8];
        client.read_exact(&mut back).unwrap();
        assert_eq!(usize::from_le_bytes(back), index);
    }
    drop(clients);
    rig.await_count(Count::Open, |open| open == 0);
    // Slots are used again.
    assert_eq!(round_trip(&rig.client(), b"again"), b"again");
    assert_eq!(rig.stop().value(Count::Accepted), CLIENTS as u64 + 1);
}

pub(crate) fn running_out_of_receive_buffers_loses_nothing(driver: DriverChoice) {
    let limits = Limits { receive_buffers: 4, receive_buffer_bytes: 64, ..quick() };
    let rig = Rig::new(driver, limits, echo);
    std::thread::scope(|scope| {
        for seed in 0..12 {
            let rig = &rig;
            scope.spawn(move || {
                let bytes = pattern(100_000 + seed, seed);
                assert!(round_trip(&rig.client(), &bytes) == bytes, "client {seed}");
            });
        }
    });
    let end = rig.stop();
    let is_ring = driver == DriverChoice::Uring;
    assert_eq!(end.value(Count::BufferShortages) > 0, is_ring);
}

/// The answer is large, the peer is still sending, and our side has closed: no byte is lost to a
/// reset.
pub(crate) fn a_close_delivers_what_was_sent(driver: DriverChoice) {
    let (told, closed) = mpsc::channel();
    // The peer sees the end of it at once, not when lingering is over.
    let limits = Limits { linger_ms: 60_000, ..quick() };
    let rig = Rig::new(driver, limits, move |_, input, out| match input {
        Input::Bytes { conn, .. } => {
            out.send(conn, &pattern(1 << 20, 9));
            out.close(conn);
        }
        Input::Closed { reason, .. } => told.send(reason).unwrap(),
        _ => {}
    });
    let mut client = rig.client();
    client.write_all(b"give").unwrap();
    // What comes after the request that made the handler close is thrown away.
    client.write_all(&pattern(200 << 10, 1)).unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert!(all == pattern(1 << 20, 9));
    drop(client);
    assert_eq!(closed.recv_timeout(PATIENCE), Ok(CloseReason::Asked));
    assert!(rig.stop().value(Count::BytesDiscarded) > 0);
}

pub(crate) fn a_peer_that_never_closes_is_not_waited_for(driver: DriverChoice) {
    let limits = Limits { linger_ms: 20, flush_ms: 20, ..quick() };
    let rig = Rig::new(driver, limits, |_, input, out| {
        if let Input::Bytes { conn, bytes } = input {
            let len = if bytes == b"much" { 3 << 19 } else { 3 };
            out.send(conn, &vec![1; len]);
            out.close(conn);
        }
    });
    let mut reads = rig.client();
    reads.write_all(b"some").unwrap();
    reads.read_exact(&mut [0; 3]).unwrap();
    rig.await_count(Count::LingerTimeouts, |timeouts| timeouts == 1);
    let mut does_not_read = rig.client();
    SockRef::from(&does_not_read).set_recv_buffer_size(4_096).unwrap();
    does_not_read.write_all(b"much").unwrap();
    // Socket buffers may take everything; then the peer is waited for instead.
    rig.await_counters(|counters| {
        counters.value(Count::FlushTimeouts) + counters.value(Count::LingerTimeouts) == 2
    });
    rig.stop();
}

/// Peers that take nothing, or a byte now and then: closed after the patience; who reads is not.
pub(crate) fn a_peer_that_takes_too_little_is_closed(driver: DriverChoice) {
    const LARGE: usize = 16 << 20;
    let (told, closed) = mpsc::channel();
    let limits = Limits { stall_ms: 300, flush_ms: 300, ..quick() };
    let rig = Rig::new(driver, limits, move |now, input, out| match input {
        Input::Bytes { conn, bytes } if bytes.starts_with(b"much") => {
            out.send(conn, &vec![1; LARGE]);
            if bytes == b"much and close" {
                out.close(conn);
            }
        }
        Input::Closed { reason: CloseReason::OutputStalled | CloseReason::Asked, .. } => {
            told.send(()).unwrap();
        }
        input => echo(now, input, out),
    });
    let mut reads = rig.client();
    reads.write_all(b"much").unwrap();
    let reader = std::thread::spawn(move || reads.read_exact(&mut vec![0; LARGE]).unwrap());
    for request in [&b"much"[..], b"much and close"] {
        let mut client = rig.client();
        SockRef::from(&client).set_recv_buffer_size(4_096).unwrap();
        client.write_all(request).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // It goes on taking a little: a few bytes each time.
        while matches!(closed.try_recv(), Err(mpsc::TryRecvError::Empty)) {
            let _ = client.read(&mut [0; 16]);
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
    reader.join().unwrap();
    let end = rig.stop();
    assert_eq!(end.value(Count::ClosedOutputStalled), 1);
    assert_eq!(end.value(Count::FlushTimeouts), 1);
}

/// All together may have so much unsent: who is behind and is sent more goes first.
pub(crate) fn what_is_unsent_is_bounded_in_total(driver: DriverChoice) {
    let limits = Limits { output_total_max: 4 << 20, output_bytes_max: 64 << 20, ..quick() };
    let mut greedy = Vec::new();
    let rig = Rig::new(driver, limits, move |now, input, out| match input {
        Input::Bytes { conn, bytes } if bytes == b"more" => {
            greedy.push(conn);
            out.send(conn, &vec![1; 8 << 20]);
        }
        Input::Mail(0) => {
            greedy.iter().for_each(|conn| out.offer_shared(*conn, Bytes::from_static(b"maybe")));
        }
        Input::Mail(_) => greedy.iter().for_each(|conn| out.send(*conn, b"certainly")),
        input => echo(now, input, out),
    });
    let neighbour = rig.client();
    assert_eq!(round_trip(&neighbour, b"before"), b"before");
    let clients: Vec<TcpStream> = (0..2).map(|_| rig.client()).collect();
    for client in &clients {
        SockRef::from(client).set_recv_buffer_size(4_096).unwrap();
        let mut half = client;
        half.write_all(b"more").unwrap();
    }
    rig.await_count(Count::BytesIn, |bytes| bytes == 6 + 8);
    rig.await_count(Count::Unsent, |unsent| unsent > 4 << 20);
    rig.running.post(ThreadId(0), 0).unwrap();
    rig.await_count(Count::OutputDropped, |dropped| dropped == 2);
    assert_eq!(round_trip(&neighbour, b"while"), b"while");
    assert_eq!(rig.counters().value(Count::ClosedOutputTotal), 0);
    rig.running.post(ThreadId(0), 1).unwrap();
    rig.await_count(Count::ClosedOutputTotal, |closed| closed > 0);
    rig.await_count(Count::Unsent, |unsent| unsent <= 8 << 20);
    assert_eq!(round_trip(&neighbour, b"after"), b"after");
    rig.stop();
}

pub(crate) fn an_abort_closes_at_once(driver: DriverChoice) {
    let (told, closed) = mpsc::channel();
    let rig = Rig::new(driver, quick(), move |_, input, out| match input {
        Input::Bytes { conn, .. } => {
            out.send(conn, &vec![1; 1 << 20]);
            out.abort(conn);
            out.abort(conn);
            out.close(conn);
        }
        Input::Closed { conn, reason, .. } => {
            // Its id is dead: all of this must be ignored.
            out.send(conn, b"too late");
            out.close(conn);
            out.reading(conn, true);
            out.tell_when_sent(conn);
            told.send(reason).unwrap();
        }
        Input::Sent { .. } => told.send(CloseReason::Reset).unwrap(),
        _ => {}
    });
    let mut client = rig.client();
    client.write_all(b"x").unwrap();
    assert_eq!(closed.recv_timeout(PATIENCE), Ok(CloseReason::Asked));
    let mut all = Vec::new();
    let result = client.read_to_end(&mut all);
    assert!(result.is_ok() || result.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    assert!(all.len() < 1 << 20);
    assert!(closed.try_recv().is_err());
    rig.stop();
}

/// Reading is switched off at the first byte and on again by mail, many times; the end of the
/// stream is held back like the bytes before it.
pub(crate) fn reading_can_be_stopped_without_losing_anything(driver: DriverChoice) {
    let (told, seen) = mpsc::channel();
    let mut current: Option<ConnId> = None;
    let rig = Rig::new(driver, quick(), move |_, input, out| match input {
        Input::Bytes { conn, bytes } => {
            out.reading(conn, false);
            current = Some(conn);
            told.send(Some(bytes.to_vec())).unwrap();
        }
        Input::Eof { conn } => {
            told.send(None).unwrap();
            out.close(conn);
        }
        Input::Mail(_) => {
            if let Some(conn) = current {
                out.reading(conn, true);
            }
        }
        _ => {}
    });
    let client = rig.client();
    let bytes = pattern(3 << 20, 2);
    let mut got = Vec::new();
    std::thread::scope(|scope| {
        let (mut client, bytes) = (&client, &bytes);
        scope.spawn(move || {
            client.write_all(bytes).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        });
        while let Some(part) = seen.recv_timeout(PATIENCE).unwrap() {
            assert!(seen.try_recv().is_err(), "input while reading is off");
            got.extend_from_slice(&part);
            rig.running.post(ThreadId(0), 0).unwrap();
        }
    });
    assert!(got == bytes, "{} of {} bytes", got.len(), bytes.len());
    rig.stop();
}

/// A peer that sends on while reading is stopped again and again: little is held for it.
pub(crate) fn little_is_held_of_a_peer_that_is_paused_again_and_again(driver: DriverChoice) {
    const BYTES: usize = 8 << 20;
    const BUFFERS: u16 = 64;
    let limits = Limits { receive_buffers: BUFFERS, ..quick() };
    let held_bound = u64::from(BUFFERS) * u64::from(limits.receive_buffer_bytes);
    let (mut paused, mut got) = (None, 0);
    let rig = Rig::new(driver, limits, move |_, input, out| match input {
        Input::Bytes { conn, bytes } => {
            got += bytes.len();
            paused = Some(conn);
            out.reading(conn, false);
            if got == BYTES {
                out.send(conn, b"all");
            }
        }
        Input::Mail(_) => paused.into_iter().for_each(|conn| out.reading(conn, true)),
        _ => {}
    });
    let client = rig.client();
    std::thread::scope(|scope| {
        scope.spawn(|| (&client).write_all(&pattern(BYTES, 1)).unwrap());
        let mut held_max = 0;
        while rig.counters().value(Count::BytesIn) < BYTES as u64 {
            let counters = rig.counters();
            held_max = held_max.max(counters.value(Count::Held));
            let turns = counters.value(Count::Turns);
            rig.running.post(ThreadId(0), 0).unwrap();
            rig.await_count(Count::Turns, |now| now > turns);
        }
        // All buffers at the first stop, if the kernel is let to fill them; then no more than one.
        assert!(held_max <= held_bound, "{held_max} bytes held");
    });
    client.set_nonblocking(true).unwrap();
    while client.peek(&mut [0; 3]).is_err() {
        let turns = rig.counters().value(Count::Turns);
        rig.running.post(ThreadId(0), 0).unwrap();
        rig.await_count(Count::Turns, |now| now > turns);
    }
    assert!(rig.stop().value(Count::ReadPauses) > 100);
}

pub(crate) fn sent_is_told_when_all_has_left(driver: DriverChoice) {
    const MUCH: usize = 16 << 20;
    let (told, sent) = mpsc::channel();
    let rig = Rig::new(driver, quick(), move |_, input, out| match input {
        Input::Opened { conn, .. } => out.tell_when_sent(conn),
        Input::Bytes { conn, .. } => {
            // More than the socket buffers of both sides take.
            out.output_max(conn, MUCH);
            out.send(conn, &vec![7; MUCH]);
            out.tell_when_sent(conn);
        }
        Input::Sent { .. } => told.send(()).unwrap(),
        _ => {}
    });
    let mut client = rig.client();
    sent.recv_timeout(PATIENCE).expect("nothing queued: told at once");
    client.write_all(b"x").unwrap();
    client.read_exact(&mut [0; 1 << 10]).unwrap();
    assert!(sent.try_recv().is_err(), "not before it has left");
    client.read_exact(&mut vec![0; MUCH - (1 << 10)]).unwrap();
    sent.recv_timeout(PATIENCE).expect("told once all had left");
    assert!(sent.try_recv().is_err(), "told once");
    rig.stop();
}

pub(crate) fn a_broadcast_reaches_everyone_in_order(driver: DriverChoice) {
    const CLIENTS: usize = 30;
    let mut all = Vec::new();
    let rig = Rig::new(driver, quick(), move |_, input, out| match input {
        Input::Opened { conn, .. } => all.push(conn),
        Input::Bytes { .. } if all.len() == CLIENTS => {
            for (index, size) in [100, 70 << 10, 1, 16 << 10, 15 << 10].into_iter().enumerate() {
                let bytes = Bytes::from(pattern(size, index));
                for conn in &all {
                    out.send_shared(*conn, bytes.clone());
                }
            }
        }
        _ => {}
    });
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| rig.client()).collect();
    rig.await_count(Count::Accepted, |accepted| accepted == CLIENTS as u64);
    clients[3].write_all(b"go").unwrap();
    let expected = [
        pattern(100, 0),
        pattern(70 << 10, 1),
        pattern(1, 2),
        pattern(16 << 10, 3),
        pattern(15 << 10, 4),
    ]
    .concat();
    for client in &mut clients {
        let mut got = vec![0; expected.len()];
        client.read_exact(&mut got).unwrap();
        assert!(got == expected);
    }
    rig.stop();
}

pub(crate) fn one_connection_too_many_is_told_by_a_close(driver: DriverChoice) {
    let limits = Limits { connections_max: 3, ..quick() };
    let rig = Rig::new(driver, limits, echo);
    let mut clients: Vec<_> = (0..3).map(|_| rig.client()).collect();
    for client in &clients {
        assert_eq!(round_trip(client, b"in"), b"in");
    }
    for _ in 0..200 {
        // To its end, because a read with a time-out may be interrupted on a busy machine.
        let end = rig.client().read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    }
    assert_eq!(drain(clients.remove(0)), b"");
    rig.await_count(Count::Open, |open| open == 2);
    assert_eq!(round_trip(&rig.client(), b"room again"), b"room again");
    assert_eq!(rig.stop().value(Count::AcceptRefused), 200);
}

pub(crate) fn listeners_are_closed_on_request(driver: DriverChoice) {
    let rig = Rig::new(driver, quick(), |now, input, out| match input {
        Input::Mail(1) => out.stop_accepting(),
        input => echo(now, input, out),
    });
    let client = rig.client();
    assert_eq!(round_trip(&client, b"open"), b"open");
    rig.running.post(ThreadId(0), 1).unwrap();
    let start = Instant::now();
    // Nobody has to connect for that: the address is free for another.
    while TcpListener::bind(rig.address).is_err() {
        assert!(start.elapsed() < PATIENCE, "still accepting");
        std::thread::park_timeout(Duration::from_micros(500));
    }
    assert!(TcpStream::connect(rig.address).is_err());
    assert_eq!(round_trip(&client, b"stays"), b"stays");
    rig.stop();
}

pub(crate) fn a_stop_delivers_the_last_bytes(driver: DriverChoice) {
    let mut current = None;
    let rig = Rig::new(driver, Limits::default(), move |_, input, out| match input {
        Input::Bytes { conn, bytes } => {
            current = Some(conn);
            out.send(conn, bytes);
        }
        Input::Stop => {
            if let Some(conn) = current {
                out.send(conn, &pattern(600 << 10, 4));
            }
            out.stop();
        }
        _ => {}
    });
    let mut client = rig.client();
    assert_eq!(round_trip(&client, b"hello"), b"hello");
    rig.running.stop();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    assert!(all == pattern(600 << 10, 4));
    drop(client);
    assert_eq!(rig.stop().value(Count::ClosedShutdown), 1);
}

pub(crate) fn the_peers_address_is_told(driver: DriverChoice) {
    let (told, seen) = mpsc::channel();
    let rig = Rig::new(driver, quick(), move |_, input, _| {
        if let Input::Opened { peer, .. } = input {
            told.send(peer).unwrap();
        }
    });
    let clients: Vec<_> = (0..100).map(|_| rig.client()).collect();
    let mut expected: Vec<_> = clients.iter().map(|c| c.local_addr().unwrap()).collect();
    let mut got: Vec<_> = (0..100).map(|_| seen.recv_timeout(PATIENCE).unwrap()).collect();
    expected.sort_unstable();
    got.sort_unstable();
    assert_eq!(got, expected);
    rig.stop();
}

/// Nothing to do takes no turns, but for the last ones of what was done before.
pub(crate) fn an_idle_thread_sleeps(driver: DriverChoice) {
    const NAP: Duration = Duration::from_millis(200);
    const TURNS_MAX: u64 = 10;
    let rig = Rig::new(driver, quick(), echo);
    let client = rig.client();
    assert_eq!(round_trip(&client, b"awake"), b"awake");
    let before = rig.counters().value(Count::Turns);
    let start = Instant::now();
    while start.elapsed() < NAP {
        std::thread::park_timeout(NAP);
    }
    let turns = rig.counters().value(Count::Turns) - before;
    assert!(turns <= TURNS_MAX, "{turns} turns");
    rig.stop();
}
