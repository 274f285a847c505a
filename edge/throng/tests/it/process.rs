//! A server as a process: killed and started again, and ended while something hangs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A folder that is gone when the test is done.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("throng-it-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("modules")).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server; killed at the latest when it is dropped.
struct Server {
    child: Child,
    log: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(folder: &Folder, port: u16, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_throng"))
            .args(["serve", "--data_dir", folder.0.to_str().unwrap(), "--logger.format", "text"])
            .args(["--socket.port", &port.to_string()])
            // One below may be another test's by now.
            .args(["--socket.grpc", "false"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, log, address: String::new() };
        let line = server.line_with("listening on http://");
        let address = line.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
        address.clone_into(&mut server.address);
        server
    }

    /// The next line of the log with `part` in it.
    fn line_with(&mut self, part: &str) -> String {
        let mut read = String::new();
        loop {
            let start = read.len();
            assert!(self.log.read_line(&mut read).unwrap() > 0, "no `{part}`: {read}");
            if read[start..].contains(part) {
                return read[start..].to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel takes its time to tear down a ring, which holds the listener.
#[test]
fn a_server_that_was_killed_starts_again_at_once() {
    let folder = Folder::new("again");
    let free = crate::free_port();
    for _ in 0..12 {
        let mut server = Server::start(&folder, free, &[]);
        let mut client = TcpStream::connect(&server.address).unwrap();
        client.write_all(b"GET /healthcheck HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }
}

/// A function that never ends keeps its thread; the process ends all the same, and says what for.
#[test]
fn the_process_ends_in_time_whatever_hangs() {
    let folder = Folder::new("hangs");
    let module = "local nk = require('nakama')
        nk.register_rpc(function(context, payload)
            nk.logger_info('it begins')
            while true do end
        end, 'hang')";
    std::fs::write(folder.0.join("modules/hang.lua"), module).unwrap();
    let mut server = Server::start(&folder, 0, &["--runtime.call_budget_ms", "600000"]);
    let mut client = TcpStream::connect(&server.address).unwrap();
    let call = "POST /v2/rpc/hang?http_key=defaulthttpkey HTTP/1.1\r\nHost: a\r\n\
                Content-Length: 2\r\n\r\n\"\"";
    client.write_all(call.as_bytes()).unwrap();
    server.line_with("it begins");
    let start = Instant::now();
    server.signal(Signal::TERM);
    let lost = server.line_with("not ended in time");
    assert!(lost.contains("caller-") && lost.contains("lost: 1 calls without an answer"), "{lost}");
    let ended = server.child.wait().unwrap();
    let took = start.elapsed();
    assert_eq!(ended.code(), Some(3));
    // Five seconds, and what a busy machine needs to start and end processes.
    assert!(took < Duration::from_secs(8), "{took:?}");
}

/// What was saved of a zone and is damaged is told, with the cure, and never taken for no zone.
#[test]
fn a_damaged_zone_keeps_the_server_from_starting() {
    let folder = Folder::new("zone");
    let zone = ["--world.enabled", "true", "--world.snapshot_interval_ms", "100"];
    let with_bots = [&zone[..], &["--world.bots", "50"]].concat();
    let server = Server::start(&folder, 0, &with_bots);
    let path = folder.0.join("throng.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    let parts = || -> i64 {
        other.query_row("SELECT COUNT(*) FROM zone_part", [], |row| row.get(0)).unwrap()
    };
    let start = Instant::now();
    while parts() == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "the zone is never saved");
    }
    drop(server);
    drop(Server::start(&folder, 0, &with_bots));
    let cut = "UPDATE zone_part SET bytes = substr(bytes, 1, length(bytes) - 9) WHERE number = 0";
    assert_eq!(other.execute(cut, []).unwrap(), 1);
    let refused = Command::new(env!("CARGO_BIN_EXE_throng"))
        .args(["serve", "--data_dir", folder.0.to_str().unwrap(), "--socket.port", "0"])
        .args(["--socket.grpc", "false"])
        .args(zone)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&refused.stderr) + String::from_utf8_lossy(&refused.stdout);
    assert!(!refused.status.success(), "{told}");
    for part in ["the sum over them", "zone_part", "data_dir", "world.snapshot_interval_ms"] {
        assert!(told.contains(part), "no {part}: {told}");
    }
    // Given up by hand, it begins anew.
    let none = ["--world.enabled", "true", "--world.snapshot_interval_ms", "0"];
    drop(Server::start(&folder, 0, &none));
    assert_eq!(parts(), 0);
}

/// What a client sends to register a device.
fn registration(device: &str) -> String {
    let body = format!("{{\"id\":\"{device}\"}}");
    format!(
        "POST /v2/account/authenticate/device?create=true HTTP/1.1\r\nHost: a\r\n\
         Authorization: Basic ZGVmYXVsdGtleTo=\r\nContent-Length: {}\r\nConnection: close\r\n\
         \r\n{body}",
        body.len()
    )
}

/// Another process keeps the write lock of the database, as a broken backup might.
#[test]
fn the_process_ends_in_time_while_another_holds_the_database() {
    let folder = Folder::new("locked");
    let mut server = Server::start(&folder, 0, &["--engine.cores", "1"]);
    let other = rusqlite::Connection::open(folder.0.join("throng.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut clients: Vec<TcpStream> =
        (0..8).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    let start = Instant::now();
    for (at, client) in clients.iter_mut().enumerate() {
        client.write_all(registration(&format!("a-device-{at}")).as_bytes()).unwrap();
    }
    // All in line are told when the patience with the first of them is over.
    for client in &mut clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    server.line_with("another process holds the database");

    // The database is free for a moment; then a call hangs, and the process is told to end.
    other.execute_batch("ROLLBACK").unwrap();
    let mut client = TcpStream::connect(&server.address).unwrap();
    client.write_all(registration("a-device-0").as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut hangs = TcpStream::connect(&server.address).unwrap();
    hangs.write_all(registration("a-device-1").as_bytes()).unwrap();
    // The one core has read that by the time it answers this.
    let mut client = TcpStream::connect(&server.address).unwrap();
    client.write_all(b"GET /healthcheck HTTP/1.0\r\n\r\n").unwrap();
    client.read_to_string(&mut String::new()).unwrap();
    let start = Instant::now();
    server.signal(Signal::TERM);
    server.child.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

/// Clients could fill the log with what a script answers them on purpose.
#[test]
fn an_error_with_a_code_of_the_script_is_an_answer_and_no_failure() {
    let folder = Folder::new("answers");
    let text = "local nk = require('nakama')\n\
                nk.register_rpc(function() error({ 'on purpose', 3 }) end, 'meant')\n\
                nk.register_rpc(function() error('by mistake') end, 'slip')";
    std::fs::write(folder.0.join("modules/m.lua"), text).unwrap();
    let mut server = Server::start(&folder, 0, &[]);
    for (id, part) in [("meant", "on purpose"), ("slip", "by mistake")] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let head = format!("GET /v2/rpc/{id}?http_key=defaulthttpkey HTTP/1.1\r\nHost: a\r\n");
        write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(part), "{answer}");
    }
    let first = server.line_with("rpc ");
    assert!(first.contains("rpc failed: by mistake") && first.contains("m.lua:3"), "{first}");
}
