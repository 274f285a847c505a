//! What a core thread must do with datagrams, whichever driver it runs on. Clients are sockets of std,
//! and, for pieces that the kernel merges, the sender that has it cut one up.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use engine::datagram::SendStyle;
use engine::{Count, Counters, DriverChoice, Engine, Limits, Running, ThreadPlan};
use event::{Input, Now, Output, SocketId, ThreadId};
use socket2::SockRef;

use crate::rig::{PATIENCE, Rig, Script, pattern, quick, round_trip};

const SOCKET: SocketId = SocketId(0);
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Sends back what it gets, datagrams and bytes.
fn echo(now: Now, input: Input<'_, u64>, out: &mut Output<u64>) {
    match input {
        Input::Datagrams(all) => {
            let (socket, from) = (all.socket, all.from);
            all.into_iter().for_each(|bytes| out.send_datagram(socket, from, bytes));
        }
        input => crate::rig::echo(now, input, out),
    }
}

/// A core thread with a listener and a socket for datagrams, both at free ports.
struct Both {
    rig: Rig,
    to: SocketAddr,
}

impl Both {
    fn new<F>(driver: DriverChoice, limits: Limits, script: F) -> Self
    where
        F: FnMut(Now, Input<'_, u64>, &mut Output<u64>) + Send + 'static,
    {
        let socket = engine::bind_udp(LOOPBACK.into(), 1).unwrap().remove(0);
        Self::on(driver, limits, socket, script)
    }

    fn on<F>(driver: DriverChoice, limits: Limits, socket: UdpSocket, script: F) -> Self
    where
        F: FnMut(Now, Input<'_, u64>, &mut Output<u64>) + Send + 'static,
    {
        let to = socket.local_addr().unwrap();
        let listeners = engine::listen(LOOPBACK.into(), 1).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let mut engine = Engine::new(driver);
        let plan = ThreadPlan::core("core", listeners, |_| Script(script));
        let mut plan = plan.with_sockets(vec![socket]);
        plan.limits = limits;
        engine.add(plan);
        Self { rig: Rig { address, running: engine.start().unwrap() }, to }
    }

    /// A socket that is connected to the thread's.
    fn client(&self) -> UdpSocket {
        client(self.to)
    }
}

fn client(to: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind(if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
    client.connect(to).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

fn receive(client: &UdpSocket) -> Vec<u8> {
    receive_from(client).0
}

fn receive_from(client: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut bytes = vec![0; 65_536];
    loop {
        match client.recv_from(&mut bytes) {
            // With a timeout set, such calls are not begun again by the system. Source: signal(7).
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => {
                let (len, from) = received.unwrap();
                bytes.truncate(len);
                return (bytes, from);
            }
        }
    }
}

/// Sends one datagram and waits for its answer.
fn asked(client: &UdpSocket, bytes: &[u8]) -> Vec<u8> {
    client.send(bytes).unwrap();
    receive(client)
}

pub(crate) fn datagrams_of_every_size_come_back_whole(driver: DriverChoice) {
    const LARGEST: usize = 65_507;
    let limits = Limits { datagram_bytes_max: 65_507, ..quick() };
    let v6 = engine::bind_udp((std::net::Ipv6Addr::LOCALHOST, 0).into(), 1);
    let v4 = engine::bind_udp(LOOPBACK.into(), 1);
    let (mut all, mut bytes) = (0, 0);
    // A machine may be without IPv6.
    for mut socket in [v4, v6].into_iter().flatten() {
        let both = Both::on(driver, limits, socket.remove(0), echo);
        let client = both.client();
        (all, bytes) = (0, 0);
        for len in [0, 1, 2, 64, 1_471, 1_472, 1_473, 4_096, 16_384, 65_000, LARGEST] {
            let sent = pattern(len, len);
            assert!(asked(&client, &sent) == sent, "{len} bytes");
            (all, bytes) = (all + 1, bytes + len as u64);
        }
        let end = both.rig.stop();
        let counts = [Count::DatagramsIn, Count::DatagramBytesIn, Count::DatagramsOut];
        assert_eq!(counts.map(|count| end.value(count)), [all, bytes, all]);
        assert_eq!(end.value(Count::DatagramBytesOut), bytes);
    }
    assert!(all > 0 && bytes > 0);
}

/// Many at once of one sender come as few pieces and leave as few, and each is one datagram to both
/// the handler and the client.
pub(crate) fn merged_datagrams_come_apart(driver: DriverChoice) {
    let (told, heard) = mpsc::channel();
    let both = Both::new(driver, quick(), move |now, input, out| {
        if let Input::Datagrams(all) = &input {
            told.send(all.count()).unwrap();
        }
        echo(now, input, out);
    });
    for len in [1, 100, 1_472] {
        let client = both.client();
        // Room for all answers, which wait until they are read.
        SockRef::from(&client).set_recv_buffer_size(1 << 20).unwrap();
        let mut sender = SendStyle::Gso.open(client.try_clone().unwrap(), 40, len).unwrap();
        let fill =
            &mut |index: usize, bytes: &mut [u8]| bytes.copy_from_slice(&pattern(len, index));
        sender.send(40, len, fill).unwrap();
        for index in 0..40 {
            assert!(receive(&client) == pattern(len, index), "{index} of {len} bytes");
        }
    }
    let counters = both.rig.stop();
    assert_eq!(counters.value(Count::DatagramsIn), 120);
    assert_eq!(counters.value(Count::DatagramsOut), 120);
    let pieces: Vec<u64> = heard.iter().collect();
    assert_eq!(pieces.iter().sum::<u64>(), 120);
    assert!(pieces.len() < 60, "not merged: {pieces:?}");
}

pub(crate) fn what_is_too_long_is_dropped_and_counted(driver: DriverChoice) {
    let limits = Limits { datagram_bytes_max: 100, ..quick() };
    let both = Both::new(driver, limits, |now, input, out| {
        // One longer than may be sent with each.
        if let Input::Datagrams(all) = &input {
            out.send_datagram(SOCKET, all.from, &[0; 101]);
        }
        echo(now, input, out);
    });
    let client = both.client();
    for len in [101, 5_000, 65_507] {
        client.send(&pattern(len, 1)).unwrap();
        assert_eq!(asked(&client, b"neighbour"), b"neighbour");
    }
    assert_eq!(asked(&client, &pattern(100, 1)), pattern(100, 1));
    let end = both.rig.stop();
    assert_eq!(end.value(Count::DatagramsInDropped), 3);
    assert_eq!(end.value(Count::DatagramsIn), 4);
    assert_eq!(end.value(Count::DatagramsOutDropped), 4);
    assert_eq!(end.value(Count::DatagramsOut), 4);
}

pub(crate) fn more_than_the_queue_holds_is_dropped_and_counted(driver: DriverChoice) {
    let limits = Limits { datagram_queue_bytes: 50 * (100 + 64), ..quick() };
    let both = Both::new(driver, limits, |_, input, out| {
        if let Input::Datagrams(all) = input {
            (0..80).for_each(|_| out.send_datagram(SOCKET, all.from, &[7; 100]));
        }
    });
    let client = both.client();
    client.send(b"eighty").unwrap();
    (0..50).for_each(|_| assert_eq!(receive(&client), [7; 100]));
    let end = both.rig.stop();
    let counts = [Count::DatagramsOut, Count::DatagramsOutDropped, Count::DatagramsOutRefused];
    assert_eq!(counts.map(|count| end.value(count)), [50, 30, 0]);
}

/// What the kernel does not take is counted; others, and connections, notice nothing.
pub(crate) fn what_cannot_be_sent_is_counted_and_hurts_nobody(driver: DriverChoice) {
    let both = Both::new(driver, quick(), |now, input, out| {
        if let Input::Datagrams(_) = &input {
            let nowhere = [([127, 0, 0, 1], 0), ([255, 255, 255, 255], 9)];
            for to in nowhere.map(SocketAddr::from) {
                // One alone, and as many as go together.
                out.send_datagram(SOCKET, to, b"nowhere");
                (0..3).for_each(|_| out.send_datagram(SOCKET, to, b"at all"));
            }
            out.send_datagram(SOCKET, "[::1]:9".parse().unwrap(), b"the other family");
        }
        echo(now, input, out);
    });
    let (client, connection) = (both.client(), both.rig.client());
    for _ in 0..3 {
        assert_eq!(asked(&client, b"please"), b"please");
        assert_eq!(round_trip(&connection, b"please"), b"please");
    }
    drop(connection);
    let end = both.rig.stop();
    assert_eq!((end.value(Count::DatagramsOut), end.value(Count::DatagramsOutRefused)), (3, 27));
}

/// A handler that takes its time: the kernel drops what has no room, and that is known to a datagram.
pub(crate) fn what_the_kernel_drops_is_counted(driver: DriverChoice) {
    const SENT: u64 = 2_000;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    SockRef::from(&socket).set_recv_buffer_size(16 << 10).unwrap();
    let ((begun, has_begun), (go, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let mut is_first = true;
    let both = Both::on(driver, quick(), socket, move |now, input, out| {
        if let (Input::Datagrams(_), true) = (&input, std::mem::take(&mut is_first)) {
            begun.send(()).unwrap();
            goes_on.recv().unwrap();
        }
        echo(now, input, out);
    });
    let client = both.client();
    client.send(b"first").unwrap();
    has_begun.recv_timeout(PATIENCE).unwrap();
    (1..SENT).for_each(|_| assert_eq!(client.send(&[7; 500]).unwrap(), 500));
    go.send(()).unwrap();
    both.rig.await_counters(|counters| {
        counters.value(Count::DatagramsIn) + counters.value(Count::DatagramsLost) == SENT
    });
    let end = both.rig.stop();
    assert!(end.value(Count::DatagramsLost) > SENT / 2, "{end:?}");
    assert_eq!(end.value(Count::DatagramsOut), end.value(Count::DatagramsIn));
}

/// However many wait: three here, that together are beyond the turn's bound. None is left behind.
pub(crate) fn a_turn_tells_so_many_datagrams(driver: DriverChoice) {
    const SENT: usize = 100;
    let limits = Limits { datagram_turn_bytes: 1_000, ..quick() };
    let ((begun, has_begun), (go, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let (told, heard) = mpsc::channel();
    let (mut is_first, mut count) = (true, 0);
    let both = Both::new(driver, limits, move |_, input, _| match input {
        Input::Datagrams(all) => {
            if std::mem::take(&mut is_first) {
                begun.send(()).unwrap();
                goes_on.recv().unwrap();
            }
            count += all.count();
        }
        Input::TurnEnd => told.send(std::mem::take(&mut count)).unwrap(),
        _ => {}
    });
    let client = both.client();
    client.send(&[7; 100]).unwrap();
    has_begun.recv_timeout(PATIENCE).unwrap();
    (1..SENT).for_each(|_| assert_eq!(client.send(&[7; 100]).unwrap(), 100));
    go.send(()).unwrap();
    both.rig.await_count(Count::DatagramsIn, |count| count == SENT as u64);
    both.rig.stop();
    let turns: Vec<u64> = heard.iter().collect();
    assert!(turns.iter().all(|count| *count <= 3), "{turns:?}");
    assert!(turns.iter().filter(|count| **count == 3).count() > 20, "{turns:?}");
}

pub(crate) fn congestion_bits_are_told(driver: DriverChoice) {
    let (told, heard) = mpsc::channel();
    let both = Both::new(driver, quick(), move |now, input, out| {
        if let Input::Datagrams(all) = &input {
            told.send(all.ecn).unwrap();
        }
        echo(now, input, out);
    });
    let client = both.client();
    for ecn in 0..4_u8 {
        SockRef::from(&client).set_tos_v4(u32::from(ecn)).unwrap();
        asked(&client, b"marked");
        assert_eq!(heard.recv_timeout(PATIENCE), Ok(ecn));
    }
    both.rig.stop();
}

/// The kernel spreads senders over the sockets of one port; each is answered from it.
pub(crate) fn threads_share_a_port(driver: DriverChoice) {
    let sockets = engine::bind_udp(LOOPBACK.into(), 2).unwrap();
    let to = sockets[0].local_addr().unwrap();
    let mut engine = Engine::new(driver);
    for socket in sockets {
        let plan = ThreadPlan::core("core", Vec::new(), |_| Script(echo));
        engine.add(plan.with_sockets(vec![socket]));
    }
    let running: Running<u64> = engine.start().unwrap();
    for number in 0..64_u8 {
        // A connected socket hears only from the port that it has asked.
        assert_eq!(asked(&client(to), &[number]), [number]);
    }
    running.stop();
    while !(0..2).all(|thread| running.is_finished(ThreadId(thread))) {
        std::thread::yield_now();
    }
    let counts = running.counters();
    let each: Vec<u64> = counts.iter().map(|it| it.counters.value(Count::DatagramsIn)).collect();
    assert!(each.iter().sum::<u64>() == 64 && each.iter().all(|count| *count > 0), "{each:?}");
    running.join().unwrap();
}

/// Several sockets of one thread are told apart, and a handler may answer on another.
pub(crate) fn sockets_are_told_apart(driver: DriverChoice) {
    let sockets: Vec<_> =
        (0..3).map(|_| engine::bind_udp(LOOPBACK.into(), 1).unwrap().remove(0)).collect();
    let to: Vec<_> = sockets.iter().map(|it| it.local_addr().unwrap()).collect();
    let mut engine = Engine::new(driver);
    let plan = ThreadPlan::core("core", Vec::new(), |_| {
        Script(|_, input: Input<'_, u64>, out: &mut Output<u64>| {
            if let Input::Datagrams(all) = input {
                let next = SocketId((all.socket.0 + 1) % 3);
                out.send_datagram(next, all.from, &all.socket.0.to_be_bytes());
            }
        })
    });
    engine.add(plan.with_sockets(sockets));
    let running = engine.start().unwrap();
    let asks = UdpSocket::bind("127.0.0.1:0").unwrap();
    asks.set_read_timeout(Some(PATIENCE)).unwrap();
    for index in [0_u16, 2, 1, 0] {
        asks.send_to(b"who?", to[usize::from(index)]).unwrap();
        let (bytes, from) = receive_from(&asks);
        assert_eq!((&*bytes, from), (&index.to_be_bytes()[..], to[(usize::from(index) + 1) % 3]));
    }
    running.stop();
    running.join().unwrap();
}

/// Two sockets with much that waits share a turn's bound: neither is told to its end before the other.
pub(crate) fn sockets_of_a_thread_take_turns(driver: DriverChoice) {
    let sockets = [0, 1].map(|_| engine::bind_udp(LOOPBACK.into(), 1).unwrap().remove(0));
    let clients = sockets.each_ref().map(|socket| client(socket.local_addr().unwrap()));
    let ((begun, has_begun), (go, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let (told, heard) = mpsc::channel();
    let mut is_first = true;
    let plan = ThreadPlan::core("core", Vec::new(), move |_| {
        Script(move |_, input: Input<'_, u64>, _: &mut Output<u64>| {
            if let Input::Datagrams(all) = input {
                if std::mem::take(&mut is_first) {
                    begun.send(()).unwrap();
                    goes_on.recv().unwrap();
                }
                (0..all.count()).for_each(|_| told.send(all.socket.0).unwrap());
            }
        })
    });
    let mut plan = plan.with_sockets(sockets.into());
    plan.limits = Limits { datagram_turn_bytes: 1_000, ..quick() };
    let mut engine = Engine::new(driver);
    engine.add(plan);
    let running: Running<u64> = engine.start().unwrap();
    clients[0].send(b"first").unwrap();
    has_begun.recv_timeout(PATIENCE).unwrap();
    for client in &clients {
        (0..60).for_each(|_| assert_eq!(client.send(b"waits").unwrap(), 5));
    }
    go.send(()).unwrap();
    let order: Vec<u16> = (0..121).map(|_| heard.recv_timeout(PATIENCE).unwrap()).collect();
    let of_each = |id: u16| order[..60].iter().filter(|it| **it == id).count();
    assert!(of_each(0) > 20 && of_each(1) > 20, "{order:?}");
    running.stop();
    running.join().unwrap();
}

/// What was said in the turn that stops a thread is sent; what comes later is nobody's.
pub(crate) fn a_stop_sends_the_last_datagrams(driver: DriverChoice) {
    let mut last = None;
    let both = Both::new(driver, quick(), move |_, input, out| match input {
        Input::Datagrams(all) => {
            last = Some(all.from);
            out.send_datagram(SOCKET, all.from, b"heard");
        }
        Input::Stop => out.send_datagram(SOCKET, last.unwrap(), b"last words"),
        _ => {}
    });
    let client = both.client();
    assert_eq!(asked(&client, b"hello"), b"heard");
    let end = both.rig.stop();
    assert_eq!(receive(&client), b"last words");
    assert_eq!(end.value(Count::DatagramsOut), 2);
}

pub(crate) fn an_idle_thread_with_a_socket_sleeps(driver: DriverChoice) {
    let both = Both::new(driver, quick(), echo);
    let client = both.client();
    assert_eq!(asked(&client, b"awake"), b"awake");
    std::thread::park_timeout(Duration::from_millis(20));
    let turns = both.rig.counters().value(Count::Turns);
    let parked = std::time::Instant::now();
    while parked.elapsed() < Duration::from_millis(200) {
        std::thread::park_timeout(Duration::from_millis(200));
    }
    let more = both.rig.counters().value(Count::Turns) - turns;
    assert!(more <= 3, "{more} turns of an idle thread");
    both.rig.stop();
}

/// A client is told of something on thread 0, which has posted it to thread 1 before, and then asks
/// thread 1 by datagram: that one must know, even in the middle of a turn that has taken its mail and has
/// found the socket ready.
pub(crate) fn mail_posted_before_an_answer_is_seen_before_the_next_datagram(driver: DriverChoice) {
    let listeners = [(); 2].map(|()| engine::listen(LOOPBACK.into(), 1).unwrap());
    let addresses = listeners.each_ref().map(|all| all[0].local_addr().unwrap());
    let [first, second] = listeners;
    let socket = engine::bind_udp(LOOPBACK.into(), 1).unwrap();
    let asker = client(socket[0].local_addr().unwrap());
    let ((entered, has_entered), (gate, is_open)) = (mpsc::channel(), mpsc::channel::<()>());
    let mut engine = Engine::new(driver);
    engine.add(ThreadPlan::core("tells", first, |_| {
        Script(|_, input: Input<'_, u64>, out: &mut Output<u64>| {
            if let Input::Bytes { conn, bytes } = input {
                out.mail(ThreadId(1), u64::from(bytes[0]));
                out.send(conn, bytes);
            }
        })
    }));
    let (mut latest, mut is_to_hold) = (0, false);
    let plan = ThreadPlan::core("asked", second, move |_| {
        let hold_up = move || {
            entered.send(()).unwrap();
            is_open.recv().unwrap();
        };
        Script(move |_, input: Input<'_, u64>, out: &mut Output<u64>| match input {
            // Held up at the end of its turn, it finds everything else together in the next.
            Input::Bytes { bytes, .. } if bytes == b"hold" => is_to_hold = true,
            Input::TurnEnd if std::mem::take(&mut is_to_hold) => hold_up(),
            // Held up in the middle of a turn.
            Input::Bytes { .. } => hold_up(),
            Input::Mail(number) => latest = number.to_le_bytes()[0],
            Input::Datagrams(all) => {
                let from = all.from;
                let questions = all.into_iter().filter(|bytes| bytes == b"?").count();
                (0..questions).for_each(|_| out.send_datagram(SOCKET, from, &[latest]));
            }
            _ => {}
        })
    });
    engine.add(plan.with_sockets(socket));
    let running: Running<u64> = engine.start().unwrap();
    let [teller, holder] = addresses.map(|to| {
        let stream = std::net::TcpStream::connect(to).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    });
    let hold = |word: &[u8]| {
        use std::io::Write as _;
        (&holder).write_all(word).unwrap();
    };
    for number in 1..=50 {
        hold(b"hold");
        has_entered.recv_timeout(PATIENCE).unwrap();
        hold(b"stay");
        asker.send(b"so").unwrap();
        gate.send(()).unwrap();
        has_entered.recv_timeout(PATIENCE).unwrap();
        assert_eq!(round_trip(&teller, &[number]), [number]);
        asker.send(b"?").unwrap();
        gate.send(()).unwrap();
        assert_eq!(receive(&asker), [number]);
    }
    running.stop();
    drop((teller, holder));
    running.join().unwrap();
}

/// What a datagram costs in system calls: one by one a wait, a receive and a send; of many at once
/// next to none.
pub(crate) fn system_calls_are_few(driver: DriverChoice) {
    const ASKED: u64 = 100;
    let both = Both::new(driver, quick(), echo);
    let client = both.client();
    let calls = |rig: &Rig, datagrams: u64| {
        rig.await_count(Count::DatagramsOut, |out| out == datagrams);
        rig.counters().value(Count::SystemCalls)
    };
    assert_eq!(asked(&client, b"first"), b"first");
    let before = calls(&both.rig, 1);
    (0..ASKED).for_each(|_| assert_eq!(asked(&client, b"alone"), b"alone"));
    let alone = calls(&both.rig, 1 + ASKED) - before;
    assert!(alone <= 3 * ASKED + 20, "{alone} system calls for {ASKED} datagrams one by one");
    let mut sender = SendStyle::Gso.open(client.try_clone().unwrap(), 50, 100).unwrap();
    let before = calls(&both.rig, 1 + ASKED);
    for _ in 0..10 {
        sender.send(50, 100, &mut |_, bytes| bytes.fill(7)).unwrap();
        (0..50).for_each(|_| assert_eq!(receive(&client), [7; 100]));
    }
    let together = calls(&both.rig, 1 + ASKED + 500) - before;
    assert!(together <= 60, "{together} system calls for 500 datagrams, fifty at once");
    both.rig.stop();
}

/// Bytes of the longest request, and what a datagram or a turn costs here.
const TURN_BYTES: u32 = 16 << 10;
const BUFFER_BYTES: u32 = 1 << 10;
const REQUESTS: u32 = 100;
const TURNS_BEFORE: u64 = 100;
const DATAGRAM_COST: u64 = 256;

/// Ends a flood, however its test ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn fair_limits() -> Limits {
    Limits {
        turn_bytes: TURN_BYTES,
        datagram_turn_bytes: TURN_BYTES,
        receive_buffer_bytes: BUFFER_BYTES,
        receive_buffers: 64,
        ..quick()
    }
}

/// What others were told, and turns that ended, between a request and its being told, at worst.
struct Waits {
    told: u64,
    turns: u64,
    asked: Option<(u64, u64)>,
    requests: u32,
    worst: (u64, u64),
    report: mpsc::SyncSender<(u64, u64)>,
}

impl Waits {
    fn new(report: mpsc::SyncSender<(u64, u64)>) -> Self {
        Self { told: 0, turns: 0, asked: None, requests: 0, worst: (0, 0), report }
    }

    /// A turn has ended; whether it is time for a request.
    fn turned(&mut self) -> bool {
        self.turns += 1;
        let is_due = self.turns >= TURNS_BEFORE && self.asked.is_none() && self.requests < REQUESTS;
        if is_due {
            self.asked = Some((self.told, self.turns));
        }
        is_due
    }

    fn answered(&mut self) {
        let Some((told, turns)) = self.asked.take() else { return };
        self.worst = (self.worst.0.max(self.told - told), self.worst.1.max(self.turns - turns));
        self.requests += 1;
        if self.requests == REQUESTS {
            let _ = self.report.send(self.worst);
        }
    }
}

fn assert_fair((bytes, turns): (u64, u64), of: &str) {
    let most = 4 * u64::from(TURN_BYTES);
    assert!(bytes <= most && turns <= 4, "{bytes} bytes of {of} and {turns} turns came first");
}

/// A quiet connection beside datagrams without end.
pub(crate) fn a_flood_of_datagrams_leaves_connections_their_turn(driver: DriverChoice) {
    let (report, reported) = mpsc::sync_channel(1);
    let mut waits = Waits::new(report);
    let (place, its_place) = mpsc::channel::<std::net::TcpStream>();
    let mut quiet = None;
    let both = Both::new(driver, fair_limits(), move |_, input, out| match input {
        Input::Datagrams(all) => {
            waits.told += all.bytes() + all.count() * DATAGRAM_COST;
            let from = all.from;
            all.into_iter().for_each(|bytes| out.send_datagram(SOCKET, from, bytes));
        }
        Input::Bytes { .. } => waits.answered(),
        Input::TurnEnd => {
            use std::io::Write as _;
            quiet = quiet.take().or_else(|| its_place.try_recv().ok());
            if let Some(quiet) = &mut quiet
                && waits.turned()
            {
                quiet.write_all(b"please").unwrap();
            }
        }
        _ => {}
    });
    place.send(both.rig.client()).unwrap();
    let is_done = AtomicBool::new(false);
    let worst = std::thread::scope(|scope| {
        let _ends = Ends(&is_done);
        for _ in 0..2 {
            let client = both.client();
            scope.spawn(|| flood(client, &is_done));
        }
        reported.recv_timeout(PATIENCE).unwrap()
    });
    assert_fair(worst, "datagrams");
    both.rig.stop();
}

/// Sends without end, many at once where the system cuts pieces up.
fn flood(client: UdpSocket, is_done: &AtomicBool) {
    let mut sender = SendStyle::Gso.open(client, 50, 200).unwrap();
    while !is_done.load(Relaxed) {
        let _ = sender.send(50, 200, &mut |_, bytes| bytes.fill(7));
    }
}

/// Datagrams now and then beside connections that send without end.
pub(crate) fn a_flood_of_bytes_leaves_datagrams_their_turn(driver: DriverChoice) {
    let (report, reported) = mpsc::sync_channel(1);
    let mut waits = Waits::new(report);
    let begins = std::sync::Arc::new(AtomicBool::new(false));
    let has_begun = begins.clone();
    let socket = engine::bind_udp(LOOPBACK.into(), 1).unwrap().remove(0);
    let quiet = client(socket.local_addr().unwrap());
    let both = Both::on(driver, fair_limits(), socket, move |_, input, out| match input {
        Input::Datagrams(_) => waits.answered(),
        Input::Bytes { conn, bytes } => {
            waits.told += bytes.len() as u64;
            out.send(conn, bytes);
        }
        Input::Eof { conn } => out.close(conn),
        Input::TurnEnd if has_begun.load(Relaxed) && waits.turned() => {
            quiet.send(b"please").unwrap();
        }
        _ => {}
    });
    let streams: Vec<_> = (0..16).map(|_| both.rig.client()).collect();
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let is_done = AtomicBool::new(false);
    let worst = std::thread::scope(|scope| {
        let _ends = Ends(&is_done);
        scope.spawn(|| crate::fair::flood(&streams, &is_done));
        both.rig.await_count(Count::BytesIn, |bytes| bytes > 16 * (64 << 10));
        begins.store(true, Relaxed);
        reported.recv_timeout(PATIENCE).unwrap()
    });
    assert_fair(worst, "connections");
    drop(streams);
    both.rig.stop();
}

/// Each datagram is answered, refused or dropped, however they come: nothing is unaccounted for.
pub(crate) fn every_datagram_is_accounted_for(driver: DriverChoice) {
    let limits = Limits {
        datagram_bytes_max: 300,
        datagram_turn_bytes: 4 << 10,
        datagram_queue_bytes: 3 << 10,
        ..quick()
    };
    let both = Both::new(driver, limits, |now, input, out| {
        if let Input::Datagrams(all) = &input {
            out.send_datagram(SOCKET, all.from, &[7; 301]);
        }
        echo(now, input, out);
    });
    let sent = std::thread::scope(|scope| {
        let floods: Vec<_> = (0..3)
            .map(|flooder: usize| {
                let client = both.client();
                scope.spawn(move || send_all(&client, flooder))
            })
            .collect();
        floods.into_iter().map(|it| it.join().unwrap()).sum::<u64>()
    });
    let came = |it: &Counters| {
        let all = [Count::DatagramsIn, Count::DatagramsInDropped, Count::DatagramsLost];
        all.map(|count| it.value(count)).iter().sum::<u64>()
    };
    // The kernel counts a merged piece as one.
    both.rig.await_counters(|it| came(it) == sent);
    let end = both.rig.stop();
    let out = [Count::DatagramsOut, Count::DatagramsOutDropped, Count::DatagramsOutRefused];
    let gone: u64 = out.map(|count| end.value(count)).iter().sum();
    assert!(gone > end.value(Count::DatagramsIn), "an answer each, and some that were too long");
    assert!(end.value(Count::DatagramsOutDropped) > 0 && end.value(Count::DatagramsInDropped) > 0);
}

/// Sends datagrams of many lengths one by one; how many.
fn send_all(client: &UdpSocket, seed: usize) -> u64 {
    let all = pattern(320, seed);
    (0..2_000).filter(|at| client.send(&all[..(at * 7 + seed) % 320]).is_ok()).count() as u64
}
