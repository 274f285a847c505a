//! The other end fails: what is said, how soon, and what is kept.

use super::relay::{Harm, Relay};
use super::*;

/// Runs a ping that has to fail soon. What it said.
fn fails(args: &[&str], part: &str) -> Ran {
    fails_soon(ping, args, part)
}

#[test]
fn nothing_listens_or_something_else_does() {
    let target = at(crate::free_port());
    for kind in [&[][..], &["--udp"], &["--connect"], &["--http"], &["--ws"]] {
        let mut args = vec![&*target];
        args.extend(kind);
        fails(&args, "nothing listens there (connection refused)");
    }
    // A server that speaks first, one that never speaks, and one of another version.
    for (says, part) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", "is not `throng ping serve`: it said `SSH-2.0-OpenSSH_9.2"),
        ("", "does not answer as `throng ping serve` does"),
        ("throng/2 ok session=1 version=9.9\n", "the server speaks version 2 of the protocol"),
        ("throng/2 no version speak 2\n", "the server refuses: speak 2"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = at(listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(says.as_bytes()).unwrap();
            // Until the other end has enough.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        fails(&[&target], part);
    }
}

#[test]
fn a_server_says_what_it_does_not_understand() {
    let (server, port) = server(&["--per-address", "2"]);
    let ask = |line: &str| {
        let mut stream = TcpStream::connect(at(port)).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    };
    for (line, part) in [
        ("throng/2 ping control version=9\n", "throng/1 no version the server (throng "),
        ("throng/1 mail tcp\n", "throng/1 no service this server does not do `mail tcp`"),
        ("throng/1 ping tcp session=1\n", "throng/1 no session there is no such session"),
        ("SSH-2.0-x\r\n\r\n", "HTTP/1.1 400 Bad Request"),
    ] {
        let answer = ask(line);
        assert!(answer.starts_with(part), "{line}: {answer}");
    }
    // Two connections that say nothing are all that an address may have. Those of before may have
    // their places a little longer on a busy machine: then these are told so.
    let hold = |()| {
        let began = Instant::now();
        while began.elapsed() < SOON {
            let mut stream = TcpStream::connect(at(port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            if stream.read(&mut [0]).is_err() {
                return stream;
            }
        }
        panic!("no place");
    };
    let held = [(); 2].map(hold);
    let ran = fails(&[&at(port)], "too many connections");
    assert!(ran.err.contains("--per-address"), "{}", ran.err);
    drop(held);
    server.signal(Signal::TERM);
    let ran = server.end();
    for part in ["1 refused for their version", "turned away at a limit", "stopped by SIGTERM"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let (_server, port) = server(&[]);
    let port_text = port.to_string();
    let ran = ping(&["serve", "--port", &port_text]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains(&format!("TCP port 127.0.0.1:{port} is taken")), "{}", ran.err);
    let port = crate::free_port();
    let _only_udp = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let ran = ping(&["serve", "--port", &port.to_string()]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains(&format!("UDP port 127.0.0.1:{port} is taken")), "{}", ran.err);
    let ran = ping(&["serve", "--address", "203.0.113.1", "--token", "x"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("cannot listen on 203.0.113.1:9500"), "{}", ran.err);
}

#[test]
fn a_firewall_that_swallows_is_told_from_a_server_that_is_not_there() {
    // A queue of connections that is full: further attempts are dropped, as a firewall drops them.
    let listener = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    let any: std::net::SocketAddrV4 = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&listener, &any).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let wait = Duration::from_millis(200);
    let held: Vec<_> = (0..4).map(|_| TcpStream::connect_timeout(&address, wait)).collect();
    assert!(held.iter().any(Result::is_err), "the queue is not full");
    for kind in [&[][..], &["--connect"], &["--http"]] {
        let target = at(address.port());
        let mut args = vec![&*target];
        args.extend(kind);
        fails(&args, "no connection within 1.5 s (timed out: a firewall, or the wrong host?)");
    }
    // TCP passes, UDP does not.
    let (_server, port) = server(&[]);
    let relay = Relay { delay: Duration::ZERO, stall: None, harm: Harm::All };
    let target = at(relay.start(port));
    fails(&[&target, "--udp", "-w", "0"], "a firewall on the way swallows UDP");
}

#[test]
fn a_server_that_goes_away_is_told_and_what_was_measured_is_kept() {
    for (signal, kinds, part) in [
        (Signal::KILL, &["", "--udp", "--http", "--ws", "--connect"][..], ""),
        (Signal::INT, &["", "--udp"], "the server ended the session: stopped"),
        // Its kernel goes on, it does not: as a machine that has lost its power.
        (Signal::STOP, &["", "--udp", "--http", "--ws"], "for 1."),
    ] {
        for kind in kinds {
            let (server, port) = server(&[]);
            let folder = Folder::new("gone");
            let target = at(port);
            let mut args = vec![&*target, "-n", "30s", "-i", "5ms", "--out", folder.path()];
            args.extend(Some(*kind).filter(|kind| !kind.is_empty()));
            let mut client = Process::start(&args);
            client.is_counting();
            server.signal(signal);
            let began = Instant::now();
            let ran = client.end();
            let took = began.elapsed();
            let told = format!("{signal:?} {kind} {took:?}\n{}{}", ran.out, ran.err);
            assert_eq!(ran.code, Some(1), "{told}");
            assert!(ran.err.contains(part) && ran.out.contains("ENDED EARLY: "), "{told}");
            assert!(took < SOON, "{told}");
            let result = folder.result();
            assert!(number(&result, "/ops/0/done") > 5.0, "{told}");
            assert!(!result["ended"].as_str().unwrap().is_empty(), "{told}");
            server.signal(Signal::CONT);
        }
    }
}

#[test]
fn a_client_that_goes_away_is_told_by_the_server() {
    let (mut server, port) = server(&[]);
    for (signal, code, part) in [
        (Signal::INT, Some(130), "ended: interrupted"),
        (Signal::KILL, None, "ended: "),
        (Signal::STOP, None, "ended: vanished"),
    ] {
        let folder = Folder::new("client");
        let mut client =
            Process::start(&[&at(port), "--udp", "-n", "30s", "-i", "5ms", "--out", folder.path()]);
        server.line_with("began (throng ");
        client.is_counting();
        client.signal(signal);
        let began = Instant::now();
        let line = server.line_with(" ended: ");
        assert!(line.contains(part) && began.elapsed() < SOON, "{line} {:?}", began.elapsed());
        if code.is_some() {
            let ran = client.end();
            assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
            assert!(ran.err.contains("ended by SIGINT"), "{}", ran.err);
            let result = folder.result();
            assert_eq!(result["ended"], "interrupted (SIGINT)");
            assert!(number(&result, "/ops/0/done") > 5.0, "{}", ran.out);
        }
    }
    server.signal(Signal::INT);
    let ran = server.end();
    assert!(ran.out.contains("1 of them vanished"), "{}", ran.out);
}

#[test]
fn datagrams_of_nobody_are_not_answered() {
    let (server, port) = server(&[]);
    let ask = |from: &str, bytes: &[u8]| {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.send_to(bytes, at(port)).unwrap();
        socket.recv(&mut [0; 2_000]).ok()
    };
    for len in [0, 7, 16, 64, 1_400] {
        assert_eq!(ask("127.0.0.1", &vec![0; len]), None, "{len}");
    }
    // A session that is open is answered at its own address alone, byte for byte.
    let mut control = TcpStream::connect(at(port)).unwrap();
    control.write_all(b"throng/1 ping control version=x\n").unwrap();
    let mut reply = String::new();
    BufReader::new(control.try_clone().unwrap()).read_line(&mut reply).unwrap();
    let session = reply.split("session=").nth(1).unwrap().split(' ').next().unwrap();
    let mut datagram = u64::from_str_radix(session, 16).unwrap().to_be_bytes().to_vec();
    datagram.extend_from_slice(&[7; 100]);
    assert_eq!(ask("127.0.0.1", &datagram), Some(108));
    assert_eq!(ask("127.0.0.2", &datagram), None);
    assert_eq!(ask("127.0.0.1", &datagram[..15]), None);
    drop(control);
    server.signal(Signal::INT);
    let ran = server.end();
    assert!(ran.out.contains("7 datagrams of nobody, not answered"), "{}", ran.out);
}
