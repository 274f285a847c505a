//! What threads do for one another: mail, waking, timers, questions; and connections that an engine
//! makes itself.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use engine::{Count, DriverChoice, Engine, Limits, ThreadPlan};
use event::{CloseReason, ConnectFailure, Input, ThreadId};
use socket2::{Domain, Socket, Type};

use crate::rig::{PATIENCE, Rig, Script, echo, pattern, quick, round_trip};

pub(crate) fn a_wake_comes_on_time_and_once(driver: DriverChoice) {
    let (told, woken) = mpsc::channel();
    let mut due_ns = 0;
    let rig = Rig::new(driver, quick(), move |now, input, out| match input {
        Input::Mail(ms) => {
            due_ns = now.after_ms(ms).mono_ns;
            out.wake_at(Some(now.after_ms(ms * 100 + 1).mono_ns));
            out.wake_at(Some(due_ns));
        }
        Input::Wake => told.send(now.mono_ns.checked_sub(due_ns)).unwrap(),
        _ => {}
    });
    for ms in [0, 1, 15, 2] {
        rig.running.post(ThreadId(0), ms).unwrap();
        let late_ns = woken.recv_timeout(PATIENCE).unwrap();
        assert!(late_ns.is_some_and(|late_ns| late_ns < 1_000_000_000), "{ms} ms: {late_ns:?}");
    }
    assert!(woken.try_recv().is_err());
    rig.stop();
}

/// A turn tells all mail, however much; what clients sent has a share of its own.
pub(crate) fn mail_without_end_keeps_no_client_waiting(driver: DriverChoice) {
    let rig = Rig::new(driver, quick(), |now, input, out| match input {
        Input::Mail(mail) => out.mail(ThreadId(0), mail),
        input => echo(now, input, out),
    });
    let old = rig.client();
    (0..4_000).for_each(|mail| rig.running.post(ThreadId(0), mail).unwrap());
    let new = rig.client();
    for client in [&old, &new] {
        assert_eq!(round_trip(client, b"all the same"), b"all the same");
    }
    rig.stop();
}

pub(crate) fn every_busy_turn_ends_once(driver: DriverChoice) {
    let (told, turns) = mpsc::channel();
    let mut inputs = 0;
    let rig = Rig::new(driver, quick(), move |now, input, out| match input {
        Input::TurnEnd => told.send(std::mem::take(&mut inputs)).unwrap(),
        input => {
            inputs += 1;
            echo(now, input, out);
        }
    });
    let client = rig.client();
    for _ in 0..50 {
        assert_eq!(round_trip(&client, b"turn"), b"turn");
    }
    rig.stop();
    let turns: Vec<u32> = turns.iter().collect();
    assert!(turns.len() >= 50 && turns.iter().all(|inputs| *inputs > 0));
}

/// Mail and the wish to stop reach a thread in one turn: what it gathered is not left lying.
pub(crate) fn the_turn_that_stops_a_thread_ends_too(driver: DriverChoice) {
    let mut engine = Engine::new(driver);
    let listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
    let (told, batches) = mpsc::channel();
    let (entered, has_entered) = mpsc::channel();
    let mut gates = Vec::new();
    let mut script = || {
        let (told, entered) = (told.clone(), entered.clone());
        let (gate, is_open) = mpsc::channel::<()>();
        gates.push(gate);
        let mut batch = 0;
        Script(move |_, input: Input<'_, u64>, _: &mut event::Output<u64>| match input {
            Input::Mail(0) => {
                entered.send(()).unwrap();
                is_open.recv().unwrap();
            }
            Input::Mail(mail) => batch += mail,
            Input::TurnEnd if batch > 0 => told.send(std::mem::take(&mut batch)).unwrap(),
            _ => {}
        })
    };
    let (core, plain) = (script(), script());
    engine.add(ThreadPlan::core("core", listeners, |_| core));
    engine.add(ThreadPlan::plain("plain", |_| plain));
    let running = engine.start().unwrap();
    for thread in [ThreadId(0), ThreadId(1)] {
        running.post(thread, 0).unwrap();
        has_entered.recv_timeout(PATIENCE).unwrap();
        running.post(thread, 7).unwrap();
    }
    running.stop();
    gates.iter().for_each(|gate| gate.send(()).unwrap());
    running.join().unwrap();
    assert_eq!(batches.try_iter().collect::<Vec<_>>(), [7, 7]);
}

/// A client is told of something on thread 0, which has posted it to thread 1 before, and then asks
/// thread 1: that one must know, even when the mail and the question reach it in one turn, and even
/// when the question's connection was ready before.
pub(crate) fn mail_posted_before_an_answer_is_seen_before_the_next_request(driver: DriverChoice) {
    let mut engine = Engine::new(driver);
    let listeners = [(); 2].map(|()| engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap());
    let addresses = listeners.each_ref().map(|l| l[0].local_addr().unwrap());
    let [first, second] = listeners;
    let (gate, is_open) = mpsc::channel::<()>();
    let (entered, has_entered) = mpsc::channel();
    let hold_up = move || {
        entered.send(()).unwrap();
        is_open.recv().unwrap();
    };
    engine.add(ThreadPlan::core("tells", first, |_| {
        Script(|_, input: Input<'_, u64>, out: &mut event::Output<u64>| {
            if let Input::Bytes { conn, bytes } = input {
                out.send(conn, bytes);
                out.mail(ThreadId(1), u64::from(bytes[0]));
            }
        })
    }));
    let (mut latest, mut is_to_hold) = (0, false);
    let mut plan = ThreadPlan::core("asked", second, move |_| {
        Script(move |_, input: Input<'_, u64>, out: &mut event::Output<u64>| match input {
            // Held up at the end of its turn, it finds everything else together in the next.
            Input::Bytes { bytes, .. } if bytes == b"hold" => is_to_hold = true,
            Input::TurnEnd if std::mem::take(&mut is_to_hold) => hold_up(),
            // Held up in the middle of a turn.
            Input::Bytes { bytes, .. } if bytes == b"stay" => hold_up(),
            Input::Bytes { conn, bytes } if bytes.ends_with(b"?") => out.send(conn, &[latest]),
            Input::Mail(number) => latest = number.to_le_bytes()[0],
            _ => {}
        })
    });
    plan.limits = quick();
    engine.add(plan);
    let running = engine.start().unwrap();
    let connect = |at: usize| {
        let client = TcpStream::connect(addresses[at]).unwrap();
        client.set_nodelay(true).unwrap();
        client
    };
    let (teller, mut holder, mut asker) = (connect(0), connect(1), connect(1));
    for number in 1..=100 {
        holder.write_all(b"hold").unwrap();
        has_entered.recv_timeout(PATIENCE).unwrap();
        if number % 2 == 0 {
            // Held up in a turn that has found the asker's connection ready.
            holder.write_all(b"stay").unwrap();
            asker.write_all(b"so").unwrap();
            gate.send(()).unwrap();
            has_entered.recv_timeout(PATIENCE).unwrap();
        }
        assert_eq!(tell(&teller, number), number);
        asker.write_all(b"?").unwrap();
        gate.send(()).unwrap();
        let mut answer = [0];
        asker.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [number]);
    }
    running.stop();
    drop((teller, holder, asker));
    running.join().unwrap();
}

fn tell(mut teller: &TcpStream, number: u8) -> u8 {
    let mut back = [0];
    teller.write_all(&[number]).unwrap();
    teller.read_exact(&mut back).unwrap();
    back[0]
}

/// A core asks a plain thread for every message, in both directions across full mailboxes.
pub(crate) fn mail_is_refused_not_lost(driver: DriverChoice) {
    const MAIL: u64 = 20_000;
    let mut engine = Engine::new(driver);
    let (told, done) = mpsc::channel();
    let mut seen = 0;
    let (mut refused, mut answers) = (0_u64, 0_u64);
    engine.add(ThreadPlan::core("core", Vec::new(), move |_| {
        Script(move |_, input: Input<'_, u64>, out: &mut event::Output<u64>| {
            match input {
                Input::Mail(u64::MAX) => (0..MAIL).for_each(|mail| out.mail(ThreadId(1), mail)),
                Input::Mail(_) => answers += 1,
                Input::Refused { .. } => refused += 1,
                _ => return,
            }
            if answers + refused == MAIL {
                told.send((answers, refused)).unwrap();
            }
        })
    }));
    let mut plan = ThreadPlan::plain("plain", move |_| {
        Script(move |_, input: Input<'_, u64>, out: &mut event::Output<u64>| {
            if let Input::Mail(mail) = input {
                assert!(mail >= seen, "order");
                seen = mail;
                out.mail(ThreadId(0), mail);
            }
        })
    });
    plan.mailbox_max = 64;
    engine.add(plan);
    let running = engine.start().unwrap();
    running.post(ThreadId(0), u64::MAX).unwrap();
    let (answers, refused) = done.recv_timeout(PATIENCE).unwrap();
    assert!(answers >= 64 && refused > 0, "{answers} answers, {refused} refused");
    running.stop();
    while !running.is_finished(ThreadId(0)) || !running.is_finished(ThreadId(1)) {
        std::thread::yield_now();
    }
    assert_eq!(running.counters()[0].counters.value(Count::MailRefused), refused);
    assert_eq!(running.post(ThreadId(1), 5), Err(5), "an ended thread takes no mail");
    running.join().unwrap();
}

pub(crate) fn outgoing_connections_stand_or_fail(driver: DriverChoice) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let nobody = {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap()
    };
    let (told, events) = mpsc::channel();
    let rig = Rig::new(driver, quick(), move |now, input, out| match input {
        Input::Mail(token) => {
            out.connect(if token < 100 { to } else { nobody }, token, 60_000);
        }
        Input::Connected { conn, token } => {
            out.send(conn, b"hello");
            told.send((token, None)).unwrap();
        }
        Input::ConnectFailed { token, failure } => told.send((token, Some(Err(failure)))).unwrap(),
        Input::Closed { reason, .. } => told.send((0, Some(Ok(reason)))).unwrap(),
        input => echo(now, input, out),
    });
    rig.running.post(ThreadId(0), 42).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let mut hello = [0; 5];
    peer.read_exact(&mut hello).unwrap();
    assert_eq!((&hello, events.recv_timeout(PATIENCE)), (b"hello", Ok((42, None))));
    let bytes = pattern(100 << 10, 1);
    assert!(round_trip(&peer, &bytes) == bytes);
    drop(peer);
    assert_eq!(events.recv_timeout(PATIENCE), Ok((0, Some(Ok(CloseReason::Peer)))));
    rig.running.post(ThreadId(0), 142).unwrap();
    let failed = Some(Err(ConnectFailure::Refused));
    assert_eq!(events.recv_timeout(PATIENCE), Ok((142, failed)));
    rig.stop();
}

pub(crate) fn outgoing_connections_come_from_where_they_were_told(driver: DriverChoice) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let rig = Rig::new(driver, quick(), move |now, input, out| match input {
        Input::Mail(last) => {
            let last = u8::try_from(last).unwrap();
            let from = [127, 3, 0, last].into();
            out.connect_from(Some(from), to, u64::from(last), u32::MAX);
        }
        Input::Connected { conn, .. } => out.send(conn, b"hello"),
        input => echo(now, input, out),
    });
    for last in [7, 9, 7] {
        rig.running.post(ThreadId(0), last).unwrap();
        let (mut peer, from) = listener.accept().unwrap();
        assert_eq!(from.ip().to_string(), format!("127.3.0.{last}"));
        let mut hello = [0; 5];
        peer.read_exact(&mut hello).unwrap();
    }
    rig.stop();
}

/// A listener whose queue is full: the kernel drops what asks for more.
pub(crate) fn deaf_listener() -> (Socket, Vec<TcpStream>, SocketAddr) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let to = listener.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&to, Duration::from_millis(50)) {
        waiting.push(stream);
    }
    (listener, waiting, to)
}

pub(crate) fn failures_to_connect_have_their_cause(driver: DriverChoice) {
    let (_listener, _waiting, deaf) = deaf_listener();
    // A broadcast address is no place to connect to.
    let nowhere = SocketAddr::from(([255, 255, 255, 255], 9));
    let (told, events) = mpsc::channel();
    let limits = Limits { connect_ms: 100, connections_max: 2, ..quick() };
    let rig = Rig::new(driver, limits, move |_, input, out| match input {
        Input::Mail(_) => {
            out.connect(deaf, 1, 60_000);
            out.connect(nowhere, 2, 60_000);
            out.connect(deaf, 3, 60_000);
        }
        Input::ConnectFailed { token, failure } => told.send((token, failure)).unwrap(),
        _ => {}
    });
    rig.running.post(ThreadId(0), 0).unwrap();
    let mut found: Vec<_> = (0..3).map(|_| events.recv_timeout(PATIENCE).unwrap()).collect();
    found.sort_unstable();
    let wanted = [ConnectFailure::TimedOut, ConnectFailure::Unreachable, ConnectFailure::NoSlot];
    let wanted: Vec<_> = (1..).zip(wanted).collect();
    assert_eq!(found, wanted);
    // The slots are free again.
    rig.running.post(ThreadId(0), 0).unwrap();
    for _ in 0..3 {
        events.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(rig.stop().value(Count::ClosedConnectFailed), 6);
}

/// An engine as a client of itself: what a load generator does.
pub(crate) fn many_outgoing_connections_talk(driver: DriverChoice) {
    const CONNECTIONS: u64 = 1_000;
    let server = Rig::new(driver, quick(), echo);
    let address = server.address;
    let (told, done) = mpsc::channel();
    let mut answers = 0;
    let clients = Rig::new(driver, quick(), move |_, input, out| match input {
        Input::Mail(_) => (0..CONNECTIONS).for_each(|token| {
            out.connect(address, token, 60_000);
        }),
        Input::Connected { conn, token } => out.send(conn, &token.to_le_bytes()),
        Input::Bytes { conn, bytes } => {
            assert_eq!(bytes.len(), 8);
            answers += 1;
            out.close(conn);
            if answers == CONNECTIONS {
                told.send(()).unwrap();
            }
        }
        _ => {}
    });
    clients.running.post(ThreadId(0), 1).unwrap();
    done.recv_timeout(PATIENCE).unwrap();
    server.await_count(Count::Open, |open| open == 0);
    assert_eq!(clients.stop().value(Count::Connected), CONNECTIONS);
    server.stop();
}

/// Sleepers are woken whatever the moment at which mail comes.
pub(crate) fn no_wake_is_lost(driver: DriverChoice) {
    const ROUNDS: u64 = 20_000;
    let mut engine = Engine::new(driver);
    let (told, done) = mpsc::channel();
    let ping = move |me: u16| {
        let told = told.clone();
        move |_, input: Input<'_, u64>, out: &mut event::Output<u64>| {
            if let Input::Mail(round) = input {
                match round {
                    ROUNDS => told.send(()).unwrap(),
                    round => out.mail(ThreadId(1 - me), round + 1),
                }
            }
        }
    };
    let (core, plain) = (ping(0), ping(1));
    engine.add(ThreadPlan::core("core", Vec::new(), |_| Script(core)));
    engine.add(ThreadPlan::plain("plain", |_| Script(plain)));
    let running = engine.start().unwrap();
    running.post(ThreadId(0), 0).unwrap();
    done.recv_timeout(PATIENCE + Duration::from_secs(10)).unwrap();
    running.stop();
    running.join().unwrap();
}

/// Two listeners of one thread, one of them for IPv6 where the machine has it.
pub(crate) fn listeners_are_told_apart(driver: DriverChoice) {
    let mut listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
    let second = engine::listen((std::net::Ipv6Addr::LOCALHOST, 0).into(), 1)
        .or_else(|_| engine::listen(([127, 0, 0, 1], 0).into(), 1));
    listeners.extend(second.unwrap());
    let addresses: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
    let (told, opened) = mpsc::channel();
    let mut engine = Engine::new(driver);
    let mut plan = ThreadPlan::core("core", listeners, move |_| {
        Script(move |_, input: Input<'_, u64>, _: &mut event::Output<u64>| {
            if let Input::Opened { listener, peer, .. } = input {
                told.send((listener.0, peer)).unwrap();
            }
        })
    });
    plan.limits = quick();
    engine.add(plan);
    let running = engine.start().unwrap();
    for index in [1_u16, 0, 0, 1] {
        let client = TcpStream::connect(addresses[usize::from(index)]).unwrap();
        let expected = (index, client.local_addr().unwrap());
        assert_eq!(opened.recv_timeout(PATIENCE), Ok(expected));
    }
    running.stop();
    running.join().unwrap();
}

/// A thread is what its plan says: where it runs, what it is called, what its mailbox holds; and it
/// can be stopped by itself.
pub(crate) fn threads_are_as_planned(driver: DriverChoice) {
    let mut engine = Engine::new(driver);
    let (told, seen) = mpsc::channel();
    let (gate, is_open) = mpsc::channel::<()>();
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|cpu| cpus.is_set(*cpu)).unwrap();
    let mut plan = ThreadPlan::core("a core", Vec::new(), move |start| {
        Script(move |_, input: Input<'_, u64>, _: &mut event::Output<u64>| {
            if let Input::Mail(_) = input {
                let cpus = rustix::thread::sched_getaffinity(None).unwrap();
                let name = std::thread::current().name().map(str::to_owned);
                told.send((start.thread, name, cpus.count(), cpus.is_set(cpu))).unwrap();
                is_open.recv().unwrap();
            }
        })
    });
    (plan.pin, plan.mailbox_max) = (Some(cpu), 5);
    engine.add(plan);
    engine.add(ThreadPlan::plain("plain", |_| Script(echo)));
    let running = engine.start().unwrap();
    assert_eq!(running.driver(), driver);
    let core = ThreadId(0);
    running.post(core, 0).unwrap();
    let expected = (core, Some("a core".to_owned()), 1, true);
    assert_eq!(seen.recv_timeout(PATIENCE), Ok(expected));
    let posted = (0..9).filter(|mail| running.post(core, *mail).is_ok()).count();
    assert_eq!(posted, 5);
    let counters = running.counters();
    let known: Vec<_> = counters.iter().map(|c| (c.thread.0, &*c.name, c.mail_waiting)).collect();
    assert_eq!(known, [(0, "a core", 5), (1, "plain", 0)]);
    assert_eq!(counters[0].mailbox_max, 5);
    (0..6).for_each(|_| gate.send(()).unwrap());
    running.stop_thread(core);
    let start = std::time::Instant::now();
    while !running.is_finished(core) {
        assert!(start.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert!(!running.is_finished(ThreadId(1)) && running.is_finished(ThreadId(2)));
    assert_eq!(running.counters()[0].counters.value(Count::MailIn), 6);
    running.stop();
    running.join().unwrap();
}

/// The first thread that came to a bad end is named, once all have ended.
pub(crate) fn a_thread_that_panics_is_named(driver: DriverChoice) {
    let mut engine = Engine::new(driver);
    let script = || {
        Script(|_, input: Input<'_, u64>, _: &mut event::Output<u64>| {
            assert!(!matches!(input, Input::Mail(_)), "as the test wants it");
        })
    };
    engine.add(ThreadPlan::core("well", Vec::new(), move |_| script()));
    engine.add(ThreadPlan::core("first", Vec::new(), move |_| script()));
    engine.add(ThreadPlan::plain("second", move |_| script()));
    let running = engine.start().unwrap();
    running.post(ThreadId(2), 0).unwrap();
    running.post(ThreadId(1), 0).unwrap();
    running.stop();
    let ended = running.join().map_err(|error| error.to_string());
    assert_eq!(ended, Err("thread first panicked".into()));
}
