//! Every style passes one list: what was sent is given, in number, content and order; what is too
//! large or had no room is counted. Over loopback, and [`Style::Xdp`] over a veth pair where one can be
//! made.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::{DATAGRAM_BYTES_MAX, OpenError, Receiver, SendStyle, Setup, Style, interface_of};
use crate::namespace::VethPair;

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);
/// The largest datagram that a frame of Ethernet carries over IPv4.
const FRAME_MAX: usize = 1_472;

/// Where the two ends are.
enum Place {
    Loopback,
    Pair(VethPair),
}

impl Place {
    /// For a style; none, with words, where there can be none.
    fn of(style: Style) -> Option<Self> {
        if style != Style::Xdp {
            return Some(Self::Loopback);
        }
        let pair = VethPair::new().map_err(|error| eprintln!("xdp skipped: {error}")).ok()?;
        let there = pair.far.within(|| Style::Xdp.open(far(), &Self::setup_of_pair()).map(drop));
        match there.unwrap() {
            Ok(()) => Some(Self::Pair(pair)),
            Err(error) => {
                eprintln!("xdp skipped: {error}");
                None
            }
        }
    }

    fn setup_of_pair() -> Setup {
        let interface = Some((VethPair::INTERFACE.to_owned(), 0));
        Setup { interface, datagram_bytes_max: DATAGRAM_BYTES_MAX, ..Setup::default() }
    }

    fn setup(&self) -> Setup {
        match self {
            Self::Loopback => Setup { datagram_bytes_max: DATAGRAM_BYTES_MAX, ..Setup::default() },
            Self::Pair(_) => Self::setup_of_pair(),
        }
    }

    /// Goes on at the receiving end.
    fn receive<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self {
            Self::Loopback => work(),
            Self::Pair(pair) => pair.far.within(work).unwrap(),
        }
    }

    /// The socket to receive from; only in [`Self::receive`].
    fn socket(&self) -> UdpSocket {
        match self {
            Self::Loopback => UdpSocket::bind("127.0.0.1:0").unwrap(),
            Self::Pair(_) => far(),
        }
    }

    /// A socket that is connected to it.
    fn sender(&self, to: SocketAddr) -> UdpSocket {
        let connect = |ip: Ipv4Addr| {
            let socket = UdpSocket::bind((ip, 0)).unwrap();
            socket.connect(to).unwrap();
            socket
        };
        match self {
            Self::Loopback => connect(Ipv4Addr::LOCALHOST),
            Self::Pair(pair) => pair.near.within(|| connect(VethPair::NEAR)).unwrap(),
        }
    }
}

fn far() -> UdpSocket {
    UdpSocket::bind((VethPair::FAR, 0)).unwrap()
}

/// Does something for each style that there is here, at its receiving end.
fn each_style(work: impl Fn(Style, &Place) + Sync) {
    for style in Style::ALL {
        if let Some(place) = Place::of(style) {
            place.receive(|| work(style, &place));
        }
    }
}

/// What came, by sender, each in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came(BTreeMap<SocketAddr, Vec<Vec<u8>>>);

impl Came {
    /// Receives until `is_enough` of what has come, been truncated and been dropped in all.
    fn receive(
        &mut self,
        receiver: &mut dyn Receiver,
        is_enough: impl Fn(u64, u64, u64) -> bool,
    ) -> (u64, u64, u64) {
        let (since, mut all) = (Instant::now(), super::Batch::default());
        loop {
            let batch = receiver.receive(STEP, &mut |datagram| {
                self.0.entry(datagram.from).or_default().push(datagram.bytes.to_vec());
            });
            all += batch.unwrap();
            let counts = (all.datagrams, all.truncated, receiver.dropped().unwrap());
            let bytes: usize = self.0.values().flatten().map(Vec::len).sum();
            assert_eq!(all.bytes, bytes as u64);
            if is_enough(counts.0, counts.1, counts.2) || since.elapsed() > LONG {
                return counts;
            }
        }
    }
}

/// Content that tells datagrams apart as far as their size allows.
fn content(flow: usize, number: usize, bytes: usize) -> Vec<u8> {
    let low = |number: usize| number.to_le_bytes()[0];
    let mark = [low(flow), low(number)];
    (0..bytes).map(|at| mark[at % 2] ^ low(at / 2)).collect()
}

#[test]
fn what_was_sent_comes_in_number_content_and_order() {
    const FLOWS: usize = 5;
    each_style(|style, place| {
        for size in [0, 1, 64, FRAME_MAX, 9_000] {
            if style == Style::Xdp && size > FRAME_MAX {
                continue;
            }
            // As many as a socket's usual buffer holds.
            let each = if size > FRAME_MAX { 2 } else { 12 };
            let socket = place.socket();
            let to = socket.local_addr().unwrap();
            let mut receiver = style.open(socket, &place.setup()).unwrap();
            let senders: Vec<_> = (0..FLOWS).map(|_| place.sender(to)).collect();
            let mut wanted = Came::default();
            for number in 0..each {
                for (flow, sender) in senders.iter().enumerate() {
                    let bytes = content(flow, number, size);
                    assert_eq!(sender.send(&bytes).unwrap(), size);
                    let from = sender.local_addr().unwrap();
                    wanted.0.entry(from).or_default().push(bytes);
                }
            }
            let mut came = Came::default();
            let all = (FLOWS * each) as u64;
            let counts = came.receive(&mut *receiver, |came, _, _| came == all);
            assert_eq!(counts, (all, 0, 0), "{style}, {size} bytes");
            assert!(came == wanted, "{style}, {size} bytes: other contents");
        }
    });
}

#[test]
fn every_style_of_sending_reaches_every_style_of_receiving() {
    each_style(|style, place| {
        for send_style in SendStyle::ALL {
            // Fewer than a batch, several, and one more.
            for (count, size) in [(1, 64), (7, 0), (65, 1), (100, 64), (50, FRAME_MAX)] {
                let socket = place.socket();
                let to = socket.local_addr().unwrap();
                let mut receiver = style.open(socket, &place.setup()).unwrap();
                let sender = place.sender(to);
                let from = sender.local_addr().unwrap();
                let mut sender = send_style.open(sender, 32, FRAME_MAX).unwrap();
                let sent = sender.send(count, size, &mut |number, bytes| {
                    bytes.copy_from_slice(&content(3, number, size));
                });
                let (sent, all) = (sent.unwrap(), count as u64);
                let place = format!("{send_style} to {style}, {count} of {size} bytes");
                assert_eq!(sent.datagrams, all, "{place}");
                let calls = if send_style == SendStyle::One { all } else { all.div_ceil(32) };
                // A piece of no bytes cannot be cut up.
                let calls = if send_style == SendStyle::Gso && size == 0 { all } else { calls };
                assert!(sent.calls >= calls && sent.calls <= all, "{place}: {sent:?}");
                let mut came = Came::default();
                let counts = came.receive(&mut *receiver, |came, _, _| came == all);
                assert_eq!(counts, (all, 0, 0), "{place}");
                let bytes: Vec<_> = (0..count).map(|number| content(3, number, size)).collect();
                assert!(came.0.get(&from) == Some(&bytes), "{place}: other contents");
            }
        }
    });
}

#[test]
fn what_is_too_large_is_counted_and_not_given() {
    each_style(|style, place| {
        let socket = place.socket();
        let to = socket.local_addr().unwrap();
        let setup = Setup { datagram_bytes_max: 100, ..place.setup() };
        let mut receiver = style.open(socket, &setup).unwrap();
        let sender = place.sender(to);
        let from = sender.local_addr().unwrap();
        let sizes = [100, 101, 0, FRAME_MAX, 99];
        for (number, size) in sizes.into_iter().enumerate() {
            sender.send(&content(1, number, size)).unwrap();
        }
        // Several that come as one.
        let mut merged = SendStyle::Gso.open(sender, 8, 200).unwrap();
        merged.send(3, 101, &mut |_, _| {}).unwrap();
        merged.send(2, 100, &mut |_, bytes| bytes.fill(9)).unwrap();
        let mut came = Came::default();
        let counts = came.receive(&mut *receiver, |came, truncated, _| came + truncated == 10);
        assert_eq!(counts, (5, 5, 0), "{style}");
        let given = [content(1, 0, 100), vec![], content(1, 4, 99), vec![9; 100], vec![9; 100]];
        assert_eq!(came.0.get(&from).unwrap(), &given, "{style}");
    });
}

#[test]
fn what_had_no_room_is_counted() {
    each_style(|style, place| {
        let socket = place.socket();
        let to = socket.local_addr().unwrap();
        // The least that there is; frames have memory of their own.
        socket2::SockRef::from(&socket).set_recv_buffer_size(1).unwrap();
        let all = if style == Style::Xdp { 6_000 } else { 500 };
        let sender = place.sender(to);
        // Of what was dropped before, nothing is said.
        if style != Style::Xdp {
            for _ in 0..100 {
                sender.send(&[1; 1_000]).unwrap();
            }
            let before = UdpSocket::try_clone(&socket).unwrap();
            before.set_nonblocking(true).unwrap();
            while before.recv(&mut [0; 1_000]).is_ok() {}
        }
        let mut receiver = style.open(socket, &place.setup()).unwrap();
        assert_eq!(receiver.dropped().unwrap(), 0, "{style}");
        for _ in 0..all {
            sender.send(&[2; 1_000]).unwrap();
        }
        let mut came = Came::default();
        let counts = came.receive(&mut *receiver, |came, _, dropped| came + dropped == all);
        let (given, truncated, dropped) = counts;
        assert!(given > 0 && dropped > 0 && truncated == 0, "{style}: {counts:?}");
        assert_eq!(given + dropped, all, "{style}: {counts:?}");
        assert!(came.0.values().flatten().all(|bytes| bytes == &[2; 1_000]), "{style}");
    });
}

#[test]
fn congestion_bits_are_told_where_they_are_asked_for() {
    each_style(|style, place| {
        for has_ecn in [true, false] {
            let socket = place.socket();
            let to = socket.local_addr().unwrap();
            let mut receiver =
                style.open(socket, &Setup { ecn: has_ecn, ..place.setup() }).unwrap();
            let sender = place.sender(to);
            for bits in 0..4_u8 {
                socket2::SockRef::from(&sender).set_tos_v4(0xb8 | u32::from(bits)).unwrap();
                sender.send(&[bits]).unwrap();
            }
            let mut told = Vec::new();
            let since = Instant::now();
            while told.len() < 4 && since.elapsed() < LONG {
                let each = &mut |it: super::Datagram<'_>| told.push((it.bytes[0], it.ecn));
                receiver.receive(STEP, each).unwrap();
            }
            let has_ecn = has_ecn || style == Style::Xdp;
            let wanted: Vec<_> = (0..4).map(|bits| (bits, has_ecn.then_some(bits))).collect();
            assert_eq!(told, wanted, "{style}");
        }
    });
}

#[test]
fn ipv6_is_received_where_the_style_has_it() {
    for style in Style::ALL {
        let Ok(socket) = UdpSocket::bind("[::1]:0") else {
            eprintln!("skipped: no IPv6");
            return;
        };
        let to = socket.local_addr().unwrap();
        let opened = style.open(socket, &Setup { ecn: true, ..Setup::default() });
        if style == Style::Xdp {
            assert!(matches!(opened, Err(OpenError::NoInterface)));
            continue;
        }
        let mut receiver = opened.unwrap();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        sender.send_to(b"six", to).unwrap();
        let mut told = Vec::new();
        let since = Instant::now();
        while told.is_empty() && since.elapsed() < LONG {
            let each =
                &mut |it: super::Datagram<'_>| told.push((it.bytes.to_vec(), it.from, it.ecn));
            receiver.receive(STEP, each).unwrap();
        }
        assert_eq!(told, [(b"six".to_vec(), sender.local_addr().unwrap(), Some(0))], "{style}");
    }
}

#[test]
fn a_wait_ends_when_nothing_comes_and_a_gathering_one_loses_nothing() {
    each_style(|style, place| {
        let socket = place.socket();
        let to = socket.local_addr().unwrap();
        let setup = Setup { gather: Duration::from_micros(200), batch: 4, ..place.setup() };
        let mut receiver = style.open(socket, &setup).unwrap();
        for patience in [Duration::ZERO, STEP] {
            let began = Instant::now();
            let batch = receiver.receive(patience, &mut |_| panic!("nothing was sent")).unwrap();
            assert_eq!(batch.datagrams, 0, "{style}");
            // The kernel counts some waits in ticks.
            assert!(began.elapsed() + Duration::from_millis(4) >= patience, "{style}");
        }
        let sender = place.sender(to);
        for round in 0..3 {
            for number in 0..11 {
                sender.send(&[round, number]).unwrap();
            }
            let mut came = Came::default();
            let counts = came.receive(&mut *receiver, |came, _, _| came == 11);
            assert_eq!(counts, (11, 0, 0), "{style}");
        }
        // What was not received goes with it, and what it had lent to the kernel.
        for number in 0..11 {
            sender.send(&[9, number]).unwrap();
        }
    });
}

#[test]
fn what_is_there_is_given_at_once_and_no_more_than_a_batch_of_it() {
    for style in Style::ALL.into_iter().filter(|it| *it != Style::Xdp) {
        let socket = Place::Loopback.socket();
        let sender = Place::Loopback.sender(socket.local_addr().unwrap());
        for number in 0..7 {
            sender.send(&[number]).unwrap();
        }
        // What was sent over loopback is there, at the latest when the first one is.
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.peek(&mut [0; 1]).unwrap();
        let setup = Setup { gather: Duration::from_secs(2), batch: 3, ..Place::Loopback.setup() };
        let mut receiver = style.open(socket, &setup).unwrap();
        let (began, mut given) = (Instant::now(), 0);
        while given < 7 {
            let batch = receiver.receive(LONG, &mut |_| {}).unwrap();
            assert!((1..=3).contains(&batch.datagrams), "{style}: {batch:?}");
            given += batch.datagrams;
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{style} waited for more");
    }
}

#[test]
fn of_merged_datagrams_the_kernel_counts_pieces_that_had_no_room() {
    const PIECES: u64 = 20;
    for style in [Style::Gro, Style::UringGro] {
        let socket = Place::Loopback.socket();
        socket2::SockRef::from(&socket).set_recv_buffer_size(1).unwrap();
        let sender = Place::Loopback.sender(socket.local_addr().unwrap());
        let mut sender = SendStyle::Gso.open(sender, 64, 1_000).unwrap();
        let mut receiver = style.open(socket, &Place::Loopback.setup()).unwrap();
        for _ in 0..PIECES {
            assert_eq!(sender.send(64, 1_000, &mut |_, bytes| bytes.fill(1)).unwrap().calls, 1);
        }
        let mut came = Came::default();
        let enough = |came, _, dropped| came + dropped * 64 == PIECES * 64;
        let (given, _, dropped) = came.receive(&mut *receiver, enough);
        assert!(given > 0 && dropped > 0, "{style}: {given} {dropped}");
        assert_eq!(given + dropped * 64, PIECES * 64, "{style}");
    }
}

#[test]
fn a_sender_whose_filling_has_panicked_goes_on_with_what_is_new() {
    for style in SendStyle::ALL {
        let socket = Place::Loopback.socket();
        let to = socket.local_addr().unwrap();
        let mut receiver = Style::Recv.open(socket, &Place::Loopback.setup()).unwrap();
        let mut sender = style.open(Place::Loopback.sender(to), 4, 10).unwrap();
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // The first of a batch is filled, and with `one` it is sent.
            let _ = sender.send(3, 10, &mut |number, bytes| {
                assert_eq!(number, 0);
                bytes.fill(1);
            });
        }));
        assert!(broken.is_err(), "{style}");
        let sent = sender.send(2, 10, &mut |_, bytes| bytes.fill(2)).unwrap();
        assert_eq!(sent.datagrams, 2, "{style}");
        let wanted = if style == SendStyle::One { 3 } else { 2 };
        let mut came = Came::default();
        assert_eq!(came.receive(&mut *receiver, |came, _, _| came == wanted).0, wanted);
        let all = came.0.into_values().flatten().filter(|it| it == &[2; 10]).count();
        assert_eq!(all, 2, "{style}");
    }
}

#[test]
fn an_interface_is_left_as_it_was() {
    let Some(place) = Place::of(Style::Xdp) else { return };
    place.receive(|| {
        let socket = place.socket();
        let to = socket.local_addr().unwrap();
        let plain = socket.try_clone().unwrap();
        let mut receiver = Style::Xdp.open(socket, &place.setup()).unwrap();
        let sender = place.sender(to);
        sender.send(b"past the stack").unwrap();
        let mut came = Came::default();
        assert_eq!(came.receive(&mut *receiver, |came, _, _| came == 1), (1, 0, 0));
        plain.set_nonblocking(true).unwrap();
        assert!(plain.recv(&mut [0; 20]).is_err(), "it came twice");
        drop(receiver);
        plain.set_nonblocking(false).unwrap();
        plain.set_read_timeout(Some(LONG)).unwrap();
        sender.send(b"through it").unwrap();
        let mut bytes = [0; 20];
        assert_eq!(plain.recv(&mut bytes).map(|len| bytes[..len].to_vec()).unwrap(), b"through it");
    });
}

#[test]
fn only_its_peers_frames_are_taken_of_a_connected_socket() {
    let Some(place) = Place::of(Style::Xdp) else { return };
    place.receive(|| {
        let socket = place.socket();
        let to = socket.local_addr().unwrap();
        let (peer, other) = (place.sender(to), place.sender(to));
        let plain = socket.try_clone().unwrap();
        let stranger = UdpSocket::bind((VethPair::FAR, 0)).unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        let (name, queue) = interface_of(&socket, 100).unwrap();
        let setup = Setup { interface: Some((name, queue)), ..Setup::default() };
        let mut receiver = Style::Xdp.open(socket, &setup).unwrap();
        // Another program cannot have the interface, and says so.
        let error = Style::Xdp.open(stranger, &setup).err().unwrap().to_string();
        assert!(error.contains("another program takes the frames of veth0"), "{error}");
        other.send(b"by the stack").unwrap();
        peer.send(b"past it").unwrap();
        let mut came = Came::default();
        assert_eq!(came.receive(&mut *receiver, |came, _, _| came == 1), (1, 0, 0));
        assert_eq!(came.0.into_keys().collect::<Vec<_>>(), [peer.local_addr().unwrap()]);
        plain.set_nonblocking(true).unwrap();
        assert!(plain.recv(&mut [0; 20]).is_err(), "a connected socket has one peer");
    });
}

#[test]
fn a_peer_that_nobody_is_and_a_size_that_is_too_large_are_told() {
    for style in SendStyle::ALL {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = Place::Loopback.sender(nobody);
        let mut sender = style.open(socket, 4, 100).unwrap();
        let refused = (0..100).find_map(|_| sender.send(1, 10, &mut |_, _| {}).err());
        let kind = refused.map(|error| error.kind());
        assert_eq!(kind, Some(std::io::ErrorKind::ConnectionRefused), "{style}");
        let kind = sender.send(1, 101, &mut |_, _| {}).map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::InvalidInput), "{style}");
    }
}

#[test]
fn names_are_read_back_and_bounds_are_kept() {
    for style in Style::ALL {
        assert_eq!(style.to_string().parse(), Ok(style));
        for (batch, datagram_bytes_max) in
            [(0, 10), (1_025, 10), (10, 0), (10, DATAGRAM_BYTES_MAX + 1)]
        {
            let setup = Setup { batch, datagram_bytes_max, ..Setup::default() };
            let opened = style.open(Place::Loopback.socket(), &setup);
            assert!(
                matches!(opened, Err(OpenError::Batch { .. } | OpenError::DatagramBytes { .. })),
                "{style} {setup:?}"
            );
        }
    }
    for style in SendStyle::ALL {
        assert_eq!(style.to_string().parse(), Ok(style));
    }
    let error = "telepathy".parse::<Style>().unwrap_err().to_string();
    assert!(error.contains("recv, epoll, mmsg, gro, uring, uring-gro, xdp"), "{error}");
}
