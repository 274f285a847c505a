//! `throng ping` and `throng ping serve` from outside: every kind, what stands in the result, delays
//! and losses that are known beforehand, and every way in which the other end can fail.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Ran, throng};

mod failures;
pub(super) mod hostile;
pub(super) mod relay;
mod truth;

/// How long until both ends have said what is wrong: two seconds, and what starting a process and
/// this machine's other work take.
pub(super) const SOON: Duration = Duration::from_millis(3_500);

/// What a command said that had to fail soon.
pub(super) fn fails_soon(run: fn(&[&str]) -> Ran, args: &[&str], part: &str) -> Ran {
    let began = Instant::now();
    let ran = run(args);
    let took = began.elapsed();
    let told = format!("{args:?} {took:?}\n{}{}", ran.out, ran.err);
    assert_eq!(ran.code, Some(1), "{told}");
    assert!(ran.err.contains(part), "`{part}`: {told}");
    assert!(took < SOON, "{told}");
    ran
}

/// A folder that is gone when the test is done.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("throng-ping-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    pub(super) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(super) fn result(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.0.join("result.json")).unwrap()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `throng ping …`, or another, ended when it is dropped.
pub(super) struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
    seen: String,
    errors: BufReader<ChildStderr>,
    complaints: String,
}

impl Process {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
        command.arg("ping").args(args);
        Self::of(command)
    }

    pub(super) fn of(mut command: Command) -> Self {
        let mut child = command
            .env_remove("THRONG_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, lines, seen: String::new(), errors, complaints: String::new() }
    }

    /// Waits until a second of a run has been counted.
    pub(super) fn is_counting(&mut self) {
        while !self.complaints.contains(" counted ") {
            assert!(
                self.errors.read_line(&mut self.complaints).unwrap() > 0,
                "{}",
                self.complaints
            );
        }
    }

    /// The next line with `part` in it.
    pub(super) fn line_with(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "no `{part}`: {}", self.seen);
            self.seen.push_str(&line);
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Of a server that has just been started.
    pub(super) fn port(&mut self) -> u16 {
        let line = self.line_with("listening on ");
        let address = line.split_whitespace().nth(2).unwrap();
        address.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(super) fn end(mut self) -> Ran {
        let mut out = std::mem::take(&mut self.seen);
        self.lines.read_to_string(&mut out).unwrap();
        let mut err = std::mem::take(&mut self.complaints);
        self.errors.read_to_string(&mut err).unwrap();
        Ran { code: self.child.wait().unwrap().code(), out, err }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server and its port.
pub(super) fn server(args: &[&str]) -> (Process, u16) {
    let all: Vec<&str> = ["serve", "--port", "0"].into_iter().chain(args.iter().copied()).collect();
    let mut server = Process::start(&all);
    let port = server.port();
    (server, port)
}

fn ping(args: &[&str]) -> Ran {
    let all: Vec<&str> = ["ping"].into_iter().chain(args.iter().copied()).collect();
    throng(&all)
}

pub(super) fn at(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A connection to a server on loopback that comes from another address than a neighbour's.
pub(super) fn stranger(port: u16) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &"127.0.0.2:0".parse::<std::net::SocketAddrV4>().unwrap()).unwrap();
    connect(&socket, &at(port).parse::<std::net::SocketAddrV4>().unwrap()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// Says a first line; the server's answer.
pub(super) fn first_line(mut stream: &TcpStream, line: &str) -> String {
    stream.write_all(line.as_bytes()).unwrap();
    let (mut answer, mut byte) = (String::new(), [0]);
    while !answer.ends_with('\n') && stream.read(&mut byte).unwrap() > 0 {
        answer.push(char::from(byte[0]));
    }
    answer
}

/// The number of a session in the answer to its first line.
pub(super) fn session_in(answer: &str) -> &str {
    answer.split("session=").nth(1).unwrap().split(' ').next().unwrap()
}

/// A number of the result.
pub(super) fn number(result: &Value, at: &str) -> f64 {
    result.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at}: {result:#}"))
}

#[test]
fn every_kind_is_answered_on_one_port() {
    let (server, port) = server(&[]);
    let target = at(port);
    for (kind, flags) in [
        ("tcp", &["-l", "16"][..]),
        ("tcp", &["-l", "1m", "-n", "5"]),
        ("tcp", &["-l", "64", "--streams", "8"]),
        ("tcp", &["-l", "64", "--busy-poll"]),
        ("udp", &["--udp", "-l", "16,1k,60000"]),
        ("connect", &["--connect"]),
        ("http", &["--http"]),
        ("http", &["--http", "-l", "10k"]),
        ("ws", &["--ws"]),
        ("ws", &["--ws", "-l", "100k"]),
    ] {
        for interval in ["2ms", "0"] {
            let folder = Folder::new("kinds");
            let mut args =
                vec![&*target, "-n", "20", "-w", "2", "-i", interval, "--out", folder.path()];
            // The last of two counts would be one too many for the command line.
            let own: Vec<&str> = flags.to_vec();
            if own.contains(&"-n") {
                args.drain(1..3);
            }
            args.extend(own);
            let ran = ping(&args);
            let told = format!("{flags:?} {interval}\n{}{}", ran.out, ran.err);
            assert_eq!(ran.code, Some(0), "{told}");
            let result = folder.result();
            let ops = result["ops"].as_array().unwrap();
            let done: u64 = ops.iter().map(|op| op["done"].as_u64().unwrap()).sum();
            let count = if flags.contains(&"-n") { 5 } else { 20 };
            let streams = if flags.contains(&"--streams") { 8 } else { 1 };
            assert_eq!(
                (done, &result["scenario"]),
                (count * streams, &Value::from(kind)),
                "{told}"
            );
            for (op, part) in ops.iter().zip(result["ping"]["ops"].as_array().unwrap()) {
                let buckets = part["histogram"].as_array().unwrap();
                let sum: u64 = buckets.iter().map(|it| it["count"].as_u64().unwrap()).sum();
                assert_eq!(Some(sum), op["done"].as_u64(), "{told}");
            }
        }
    }
    server.signal(Signal::INT);
    let ran = server.end();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for part in ["stopped by SIGINT; ", "messages", "datagrams", "HTTP requests", "frames"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.out.contains("refused") && !ran.out.contains("vanished"), "{}", ran.out);
}

#[test]
fn the_result_has_the_form_of_loads() {
    let (_server, port) = server(&[]);
    let folder = Folder::new("form");
    let expect =
        ["--expect", "p95 < 10s", "--expect", "tcp 64 B.done == 100", "--expect", "jitter < 10s"];
    let mut args =
        vec!["-n", "100", "-i", "2ms", "-l", "64,256", "-h", "0.1,1,10", "--out", folder.path()];
    let target = at(port);
    args.insert(0, &target);
    args.extend(expect);
    let ran = ping(&args);
    // Of each stream a hundred in all: fifty of each size.
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("FAILED tcp 64 B.done == 100: tcp 64 B.done is 50"), "{}", ran.out);
    assert!(ran.err.contains("1 of 3 expectations failed"), "{}", ran.err);
    let result = folder.result();
    assert_eq!((&result["command"], &result["version"]), (&Value::from("ping"), &Value::from(1)));
    let names: Vec<_> = result["ops"].as_array().unwrap().iter().map(|op| &op["name"]).collect();
    assert_eq!(names, ["tcp 64 B", "tcp 256 B"]);
    assert_eq!(result["ping"]["ops"][0]["histogram"].as_array().unwrap().len(), 4);
    for time in ["service", "response", "lateness"] {
        assert!((number(&result, &format!("/ops/0/{time}/count")) - 50.0).abs() < 0.5, "{time}");
    }
    let text = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    let log = text("result.hlog");
    assert!(log.contains("Tag=tcp_64_B.response,") && log.contains("HISTFAAA"), "{log}");
    let csv = text("series.csv");
    let columns: Vec<_> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.len() >= 2 && columns.iter().all(|it| *it == columns[0]), "{csv}");
    let page = text("report.html");
    for part in ["throng ping · tcp", "Histogram of tcp 256 B", "RFC 3550", "1 stream on", "p99.99"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn icmp_is_answered_or_its_permission_is_told() {
    let ran = ping(&["127.0.0.1", "--icmp", "-n", "10", "-i", "2ms"]);
    let told = format!("{}{}", ran.out, ran.err);
    match ran.code {
        Some(0) => assert!(told.contains("lost 0 of 10 (0 %), doubled 0"), "{told}"),
        _ => assert!(told.contains("ping_group_range") && told.contains("setcap"), "{told}"),
    }
}

#[test]
fn a_wide_server_wants_a_token_that_nobody_prints() {
    let ran = ping(&["serve", "--address", "0.0.0.0", "--port", "0"]);
    assert_eq!(ran.code, Some(2), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("give --token TOKEN"), "{}", ran.err);
    let (server, port) = server(&["--address", "0.0.0.0", "--token", "hush-hush"]);
    let target = at(port);
    let folder = Folder::new("token");
    for (flags, is_right) in [
        (&["--token", "hush-hush"][..], true),
        (&["--udp", "--token", "hush-hush"], true),
        (&["--http", "--token", "hush-hush"], true),
        (&["--ws", "--token", "hush-hush"], true),
        (&["--connect"], true),
        (&["--token", "hush-husi"], false),
        (&[], false),
        (&["--ws"], false),
        (&["--http"], false),
    ] {
        let mut args = vec![&*target, "-n", "5", "-i", "1ms", "-w", "0", "--out", folder.path()];
        args.extend(flags);
        let ran = ping(&args);
        let told = format!("{flags:?}\n{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(i32::from(!is_right)), "{told}");
        assert!(is_right || told.contains("token") || told.contains("401"), "{told}");
        assert!(!ran.out.contains("hush") && !ran.err.contains("hush"), "{told}");
        for name in ["result.json", "report.html"] {
            let text = std::fs::read_to_string(folder.0.join(name)).unwrap_or_default();
            assert!(!text.contains("hush"), "{name}");
        }
    }
    server.signal(Signal::INT);
    let ran = server.end();
    assert!(
        ran.out.contains("refused for their token") && !ran.out.contains("hush"),
        "{}",
        ran.out
    );
}
