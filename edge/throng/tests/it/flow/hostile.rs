//! What one client does to the server with flows, and what its neighbours notice of that.

use super::super::ping::hostile::ends_when_interrupted;
use std::net::UdpSocket;

use super::*;

const ASK: &str = "flow protocol=tcp lanes=1 bytes=64\n";

/// A session of a stranger that says that it is there, as long as the server listens.
fn lasting(port: u16) -> BufReader<TcpStream> {
    let control = session_on(stranger(port)).0;
    let mut beats = control.get_ref().try_clone().unwrap();
    std::thread::spawn(move || {
        while beats.write_all(b"?\n").is_ok() {
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    control
}

#[test]
fn one_client_leaves_a_flow_to_its_neighbour() {
    let (server, port) = server(&["--flows", "3"]);
    let mut idle = [(); 3].map(|()| lasting(port));
    let began = Instant::now();
    let answers = idle.each_mut().map(|it| say(it, ASK));
    assert!(answers[..2].iter().all(|it| it.starts_with("ready ")), "{answers:?}");
    assert!(answers[2].starts_with("no busy this address has 2 flows"), "{answers:?}");
    let folder = Folder::new("flow-neighbour");
    carries(&at(port), &[], &folder);
    // A flow that has ended is no flow any more, though its session goes on.
    let [first, second, third] = &mut idle;
    assert!(say(first, "end\n").starts_with("ended "));
    assert!(say(third, ASK).starts_with("ready "));
    // And it cannot be begun again behind its end, nor opened.
    for (line, part) in [
        ("begin number=7 stage=counted\n", "at number=7"),
        ("open\n", "no form the flow has ended"),
    ] {
        let answer = say(first, line);
        assert!(answer.starts_with(part), "{line}: {answer}");
    }
    // Those that do not begin end, and say so.
    let why = say(second, "?\n");
    assert!(why.starts_with("bye the flow did not begin within 5.25 s"), "{why}");
    assert!(began.elapsed() < Duration::from_secs(5) + SOON, "{:?}", began.elapsed());
    drop(idle);
    server.signal(Signal::INT);
    let ran = server.end();
    assert!(ran.out.contains("1 flow ended by the server"), "{}", ran.out);
}

/// Priority and processors of the threads of a process that have this name. Source: proc(5).
fn threads(pid: u32, name: &str) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let text = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let (stat, status) = (text("stat"), text("status"));
        let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
        if !head.ends_with(name) {
            continue;
        }
        let nice = rest.split(' ').nth(16).unwrap().parse().unwrap();
        let allowed = status.lines().find_map(|it| it.strip_prefix("Cpus_allowed_list:")).unwrap();
        found.push((nice, allowed.trim().to_owned()));
    }
    found
}

#[test]
fn work_that_is_asked_for_gives_way_to_pings() {
    let (server, port) = server(&[]);
    let target = at(port);
    let (nice_before, allowed) = threads(server.pid(), "throng").remove(0);
    let folder = Folder::new("flow-work");
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
            command.args(["flow", &target, "-t", "30s", "-W", "0", "--udp", "--work", "1ms"]);
            command.args(["-m", "4,*", "--rate", "4kpps"]);
            let mut client = Process::of(command);
            client.is_counting();
            client
        })
        .collect();
    let workers = threads(server.pid(), "flow-datagrams");
    assert_eq!(workers.len(), 8, "{workers:?}");
    let has_several = allowed.contains(['-', ',']);
    for (nice, cpus) in workers {
        let lower = (nice_before + 5).min(19);
        assert_eq!((nice, cpus == allowed), (lower, !has_several), "{cpus} of {allowed}");
    }
    let ran = throng(&["ping", &target, "-n", "200", "-i", "5ms", "--out", folder.path()]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let longest_ms = number(&folder.result(), "/ops/0/response/max_ns") / 1e6;
    assert!(longest_ms < 250.0, "{longest_ms} ms {}", ran.out);
    for client in clients {
        client.signal(Signal::INT);
        client.end();
    }
}

#[test]
fn who_is_sent_small_pieces_leaves_a_processor_to_pings() {
    let (server, port) = server(&[]);
    let target = at(port);
    let (nice_before, allowed) = threads(server.pid(), "throng").remove(0);
    let has_several = allowed.contains(['-', ',']);
    for (name, flags, is_small) in [
        ("ping-peer", &["-l", "64"][..], true),
        ("ping-peer", &["-l", "64k"], false),
        ("flow-datagrams", &["--udp", "-l", "16"], true),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
        command.args(["flow", &target, "-t", "30s", "-W", "0", "-R", "-m", "2,*"]).args(flags);
        let mut client = Process::of(command);
        client.is_counting();
        let senders = threads(server.pid(), name);
        let kept_off = senders.iter().filter(|it| it.1 != allowed || it.0 != nice_before).count();
        assert_eq!(kept_off, if is_small { 2 } else { 0 }, "{flags:?}: {senders:?} of {allowed}");
        // Of several processors one is left; on one alone they give way.
        assert!(senders.iter().all(|it| it.0 == nice_before || !has_several), "{senders:?}");
        if is_small {
            let folder = Folder::new("flow-small");
            let ran = throng(&["ping", &target, "-n", "200", "-i", "5ms", "--out", folder.path()]);
            assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
            let longest_ms = number(&folder.result(), "/ops/0/response/max_ns") / 1e6;
            assert!(longest_ms < 250.0, "{longest_ms} ms {}", ran.out);
        }
        client.signal(Signal::INT);
        client.end();
    }
    server.signal(Signal::INT);
    let ran = server.end();
    assert!(ran.out.contains("2 flows kept off one processor"), "{}", ran.out);
}

#[test]
fn whoever_waits_for_a_flow_can_be_interrupted() {
    // A server that opens a session, says these lines, and then nothing.
    for (flags, says) in
        [(&[][..], ""), (&["--udp"], "ready lanes=1\n"), (&["--reverse"], "ready lanes=1\n")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Datagrams come, and are not answered.
        let _silent = UdpSocket::bind(listener.local_addr().unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
        command.args(["flow", &at(listener.local_addr().unwrap().port())]).args(flags);
        let mut accepted = None;
        ends_when_interrupted(command, || {
            let mut control = BufReader::new(listener.accept().unwrap().0);
            let mut line = String::new();
            control.read_line(&mut line).unwrap();
            let lines = format!("throng/1 ok session=1 version=x\n{says}");
            control.get_mut().write_all(lines.as_bytes()).unwrap();
            control.read_line(&mut line).unwrap();
            assert!(line.contains("\nflow protocol="), "{line}");
            // What is said answers what it asks next; a session that is silent would have vanished.
            let mut beats = control.get_ref().try_clone().unwrap();
            std::thread::spawn(move || {
                while beats.write_all(b"!\n").is_ok() {
                    std::thread::sleep(Duration::from_millis(300));
                }
            });
            std::thread::sleep(Duration::from_millis(300));
            accepted = Some(control);
        });
    }
}

/// Datagrams that come within a time.
fn count(socket: &UdpSocket, span: Duration) -> u32 {
    let began = Instant::now();
    let mut count = 0;
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while began.elapsed() < span {
        count += u32::from(socket.recv(&mut [0; 2_000]).is_ok());
    }
    count
}

#[test]
fn the_server_floods_nobody_who_does_not_ask_for_it_again_and_again() {
    let (_server, port) = server(&["--send-rate", "8Mb"]);
    let mut control = BufReader::new(stranger(port));
    let reply = say(&mut control, "throng/1 flow control version=x\n");
    let session = u64::from_str_radix(session_in(&reply), 16).unwrap();
    let mut beats = control.get_ref().try_clone().unwrap();
    std::thread::spawn(move || {
        while beats.write_all(b"?\n").is_ok() {
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    let asked = say(&mut control, "flow protocol=udp lanes=2 bytes=1000 send=one back=1\n");
    // A million bytes a second, of both sockets together, with 8, 20 and 38 of headers each.
    assert!(asked.starts_with("ready lanes=2 most=469.0431519"), "{asked}");
    let socket = |from: &str| {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect(at(port)).unwrap();
        socket
    };
    let says = |socket: &UdpSocket, session: u64, lane: u64| {
        let head = [session.to_be_bytes(), ((1 << 62) | lane).to_be_bytes()].concat();
        socket.send(&head).unwrap();
    };
    // Another address that knows the number, and one that does not know it.
    let (other, guesses, own) = (socket("127.0.0.3"), socket("127.0.0.2"), socket("127.0.0.2"));
    says(&other, session, 0);
    says(&guesses, session ^ 1, 0);
    says(&own, session, 1);
    assert_eq!(own.recv(&mut [0; 64]).unwrap(), 16);
    assert_eq!(say(&mut control, "open\n"), "opened lanes=1\n");
    assert!(say(&mut control, "begin number=1 stage=counted\n").starts_with("at number=1 "));
    says(&own, session, 1);
    let came = count(&own, Duration::from_secs(1));
    assert!((50..700).contains(&came), "{came} of 469");
    for nobody in [&other, &guesses] {
        assert_eq!(count(nobody, Duration::from_millis(100)), 0);
    }
    // It falls silent when its receiver does.
    count(&own, Duration::from_millis(2_500));
    let came = count(&own, Duration::from_millis(500));
    assert_eq!(came, 0, "it goes on");
    says(&own, session, 1);
    assert!(count(&own, Duration::from_millis(500)) > 0, "it does not hear");
}
