//! The other end fails: what is said at both, how soon, and what is kept.

use super::*;

/// Runs a flow that has to fail soon. What it said.
fn fails(args: &[&str], part: &str) -> Ran {
    fails_soon(flow, args, part)
}

#[test]
fn nothing_listens_or_something_else_does() {
    let target = at(crate::free_port());
    for flags in [&[][..], &["--udp"], &["--reverse"]] {
        fails(&[&[&*target][..], flags].concat(), "nothing listens there (connection refused)");
    }
    for (says, part) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", "is not `throng ping serve`: it said `SSH-2.0-OpenSSH_9.2"),
        ("", "does not answer as `throng ping serve` does"),
        ("throng/2 ok session=1 version=9.9\n", "the server speaks version 2 of the protocol"),
        ("throng/2 no version speak 2\n", "the server refuses: speak 2"),
        // As a server of before there were flows.
        (
            "throng/1 no service this server does not do `flow control`\n",
            "does not do `flow control`",
        ),
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
fn a_wide_server_wants_its_token() {
    let (server, port) = server(&["--address", "0.0.0.0", "--token", "hush-hush"]);
    let target = at(port);
    for flags in [&[][..], &["--token", "hush-husi"], &["--udp"]] {
        fails(&[&[&*target][..], flags].concat(), "the token is missing or wrong");
    }
    let folder = Folder::new("flow-token");
    for flags in [&["--token", "hush-hush"][..], &["--token", "hush-hush", "-u", "--rate", "1kpps"]]
    {
        let (_, ran) = carries(&target, flags, &folder);
        assert!(!ran.out.contains("hush") && !ran.err.contains("hush"), "{}{}", ran.out, ran.err);
        for name in ["result.json", "report.html"] {
            let text = std::fs::read_to_string(folder.0.join(name)).unwrap();
            assert!(!text.contains("hush"), "{name}");
        }
    }
    server.signal(Signal::INT);
    assert!(server.end().out.contains("3 refused for their token"));
}

fn start(target: &str, flags: &[&str], folder: &Folder) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
    command.args(["flow", target, "-t", "30s", "-W", "0", "--out", folder.path()]).args(flags);
    Process::of(command)
}

/// What a flow has to have kept that was ended from outside.
fn is_kept(folder: &Folder, told: &str) {
    let result = folder.result();
    assert!(number(&result, "/flow/goodput_bits") > 0.0, "{told}");
    assert!((0.5..5.0).contains(&number(&result, "/counted_s")), "{told}");
    assert!(!result["ended"].as_str().unwrap().is_empty(), "{told}");
}

#[test]
fn a_server_that_goes_away_is_told_and_what_was_measured_is_kept() {
    const UDP: &[&str] = &["--udp", "--rate", "2kpps"];
    for (signal, kinds, part) in [
        (Signal::KILL, &[&[][..], &["--reverse"], UDP][..], ""),
        (Signal::INT, &[&[], UDP], "the server ended the session: stopped"),
        // Its kernel goes on, it does not: as a machine that has lost its power.
        (Signal::STOP, &[&[], &["--reverse"], UDP], "for 1."),
    ] {
        for flags in kinds {
            let (server, port) = server(&[]);
            let folder = Folder::new("flow-gone");
            let mut client = start(&at(port), flags, &folder);
            client.is_counting();
            server.signal(signal);
            let began = Instant::now();
            let ran = client.end();
            let took = began.elapsed();
            let told = format!("{signal:?} {flags:?} {took:?}\n{}{}", ran.out, ran.err);
            assert_eq!(ran.code, Some(1), "{told}");
            assert!(ran.err.contains(part) && ran.out.contains("ENDED EARLY: "), "{told}");
            assert!(took < SOON, "{told}");
            is_kept(&folder, &told);
            server.signal(Signal::CONT);
        }
    }
}

#[test]
fn a_client_that_goes_away_is_told_by_the_server() {
    let (mut server, port) = server(&[]);
    for (signal, flags, part) in [
        (Signal::INT, &[][..], "ended: interrupted; a flow of "),
        (Signal::INT, &["--reverse"], "ended: interrupted; a flow of "),
        (Signal::KILL, &["--udp", "--rate", "2kpps"], "ended: "),
        (Signal::STOP, &[], "ended: vanished"),
    ] {
        let folder = Folder::new("flow-client");
        let mut client = start(&at(port), flags, &folder);
        server.line_with("began (throng ");
        client.is_counting();
        client.signal(signal);
        let began = Instant::now();
        let line = server.line_with(" ended: ");
        let took = began.elapsed();
        assert!(line.contains(part) && took < SOON, "{signal:?} {line} {took:?}");
        if signal == Signal::INT {
            let ran = client.end();
            let told = format!("{flags:?}\n{}{}", ran.out, ran.err);
            assert_eq!(ran.code, Some(130), "{told}");
            assert!(ran.err.contains("ended by SIGINT"), "{told}");
            is_kept(&folder, &told);
        }
    }
    server.signal(Signal::INT);
    assert!(server.end().out.contains("1 of them vanished"));
}

/// A server made up, of one flow of one connection: takes what comes, and answers as one does. How soon
/// before it told what it had got at the end of the last stretch something had still come.
fn made_up(listener: TcpListener, begun: std::sync::mpsc::Sender<String>) -> Option<Duration> {
    const OK: &[u8] = b"throng/1 ok session=1 version=0.0.0\n";
    let hears = |stream: TcpStream| {
        let mut stream = BufReader::new(stream);
        stream.read_line(&mut String::new()).unwrap();
        stream.get_ref().write_all(OK).unwrap();
        stream
    };
    let began = Instant::now();
    let got = std::sync::Arc::new(std::sync::Mutex::new((0, Instant::now())));
    let mut control = hears(listener.accept().unwrap().0);
    let (mut line, mut last) = (String::new(), None);
    while control.read_line(&mut line).unwrap_or(0) > 0 {
        let (word, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        let number = rest.split(' ').next().unwrap_or_default().to_owned();
        let answer = match word {
            "?" => "!\n".to_owned(),
            "flow" => {
                let (listener, got) = (listener.try_clone().unwrap(), got.clone());
                std::thread::spawn(move || {
                    let mut stream = hears(listener.accept().unwrap().0);
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(1..) = stream.read(&mut bytes) {
                        let mut got = got.lock().unwrap();
                        *got = (got.0 + 1, Instant::now());
                    }
                });
                "ready lanes=1\n".to_owned()
            }
            "begin" => {
                let stage = rest.rsplit('=').next().unwrap_or_default().to_owned();
                if stage == "cool-down" {
                    std::thread::sleep(Duration::from_millis(300));
                    last = Some(got.lock().unwrap().1.elapsed());
                }
                begun.send(stage).unwrap();
                let (ns, bytes) = (began.elapsed().as_nanos(), got.lock().unwrap().0);
                format!("at {number} lanes=1 at={ns} bytes={bytes}\n")
            }
            "end" => "ended number=99 lanes=1\n".to_owned(),
            _ => break,
        };
        control.get_ref().write_all(answer.as_bytes()).unwrap();
        line.clear();
    }
    last
}

#[test]
fn a_flow_that_is_interrupted_flows_until_both_ends_have_looked_at_the_clock() {
    for (stage, warm_up) in [("counted", "0"), ("warm-up", "20s")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = at(listener.local_addr().unwrap().port());
        let (begun, stages) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || made_up(listener, begun));
        let folder = Folder::new("flow-interrupted");
        let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
        let args = ["-t", "20s", "-W", warm_up, "-l", "1k", "--rate", "1Mb"];
        command.args(["flow", &target, "--out", folder.path()]).args(args);
        let client = Process::of(command);
        assert_eq!(stages.recv_timeout(SOON).unwrap(), stage);
        std::thread::sleep(Duration::from_millis(250));
        client.signal(Signal::INT);
        let ran = client.end();
        let told = format!("{stage}\n{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(130), "{told}");
        // A piece comes every 8 ms; the server has waited for 300 before it told.
        let last = server.join().unwrap().unwrap();
        assert!(last < Duration::from_millis(150), "{last:?} {told}");
        assert!(!flat(&ran.out).contains("too busy"), "{told}");
        if stage == "counted" {
            let counted_s = number(&folder.result(), "/flow/receiver/counted_s");
            assert!((0.3..5.0).contains(&counted_s), "{counted_s} {told}");
        } else {
            assert!(flat(&ran.out).contains("before its counted time began"), "{told}");
        }
    }
}

/// A namespace with a loopback of its own; none where this user may not make one. It goes with the
/// shell that holds it.
struct Namespace(std::process::Child);

impl Namespace {
    fn new() -> Option<Self> {
        let script = "ip link set lo up && echo && read _";
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut()?).read_line(&mut line).ok()?;
        let namespace = Self(child);
        (line == "\n").then_some(namespace)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg(program);
        command
    }

    /// From now on nothing passes, and nobody is told: as a firewall that swallows.
    fn swallow(&self) {
        let args = "qdisc add dev lo root tbf rate 8bit burst 1 latency 1ms".split(' ');
        assert!(self.command("tc").args(args).status().unwrap().success());
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_firewall_that_swallows_ends_both_ends() {
    // UDP alone, from the beginning.
    let (_server, port) = server(&[]);
    let relay = Relay { delay: Duration::ZERO, stall: None, harm: Harm::All };
    fails(&[&at(relay.start(port)), "--udp"], "a firewall on the way swallows UDP");
    for flags in [&[][..], &["--reverse"], &["--udp", "--rate", "2kpps"]] {
        let Some(namespace) = Namespace::new() else {
            eprintln!("skipped: no permission to make a network namespace");
            return;
        };
        let binary = env!("CARGO_BIN_EXE_throng");
        let mut command = namespace.command(binary);
        command.args(["ping", "serve", "--port", "0"]);
        let mut server = Process::of(command);
        let port = server.port();
        let folder = Folder::new("flow-swallowed");
        let mut command = namespace.command(binary);
        let target = at(port);
        command.args(["flow", &target, "-t", "30s", "-W", "0", "--out", folder.path()]).args(flags);
        let mut client = Process::of(command);
        client.is_counting();
        namespace.swallow();
        let began = Instant::now();
        let ran = client.end();
        let took = began.elapsed();
        let told = format!("{flags:?} {took:?}\n{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(1), "{told}");
        assert!(ran.err.contains("the other end has vanished") && took < SOON, "{told}");
        is_kept(&folder, &told);
        let line = server.line_with(" ended: ");
        assert!(line.contains("vanished") && began.elapsed() < 2 * SOON, "{line} {told}");
    }
}
