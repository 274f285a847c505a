//! What needs processes of its own: 10,000 connections where the limit of open files is 20,000 (the
//! clients live in another process, so that both drivers have room for their side), and running out
//! of files. The child is this test program, told by an environment variable what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use engine::{Count, DriverChoice, Limits};
use socket2::{Domain, Socket, Type};

use crate::rig::{PATIENCE, Rig, echo, quick, round_trip};

const CONNECTIONS: usize = 10_000;
const ADDRESS_VARIABLE: &str = "THRONG_TEST_CROWD";
const SCARCE_VARIABLE: &str = "THRONG_TEST_SCARCE";

/// The clients: connect all, then two rounds of a message on each, then say so and leave.
#[test]
fn child() {
    let Ok(address) = std::env::var(ADDRESS_VARIABLE) else { return };
    let mut clients: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|index| {
            let client = TcpStream::connect(&address);
            client.unwrap_or_else(|error| panic!("connection {index}: {error}"))
        })
        .collect();
    for round in 0..2_usize {
        for (index, client) in clients.iter_mut().enumerate() {
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.write_all(&(index * 2 + round).to_le_bytes()).unwrap();
        }
        for (index, client) in clients.iter_mut().enumerate() {
            let mut back = [0; 8];
            client.read_exact(&mut back).unwrap();
            assert_eq!(usize::from_le_bytes(back), index * 2 + round);
        }
    }
    println!("all {CONNECTIONS} answered");
    // Held until the parent has looked.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

pub(crate) fn ten_thousand_connections_are_held(driver: DriverChoice) {
    let limits = Limits { connections_max: 12_000, ..Limits::default() };
    let rig = Rig::new(driver, limits, echo);
    let mut child = again("crowd::child")
        .env(ADDRESS_VARIABLE, rig.address.to_string())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let all = CONNECTIONS as u64;
    rig.await_count(Count::BytesOut, |bytes| bytes == all * 16);
    assert_eq!(rig.counters().value(Count::Open), all);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    rig.await_count(Count::Open, |open| open == 0);
    assert_eq!(rig.stop().value(Count::AcceptFailures), 0);
}

/// This program, told to run one of its tests.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).stdout(Stdio::null());
    command
}

pub(crate) fn running_out_of_files_stops_accepting_for_a_moment_only(driver: DriverChoice) {
    let mut child = again("crowd::scarce_child");
    child.env(SCARCE_VARIABLE, driver.to_string()).stdout(Stdio::piped());
    let ended = child.output().unwrap();
    assert!(ended.status.success());
    // A name that no test has is no failure to the harness: it runs none.
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(told.contains("test result: ok. 1 passed"), "{told}");
}

/// The first clients are served, the others once some have gone.
#[test]
fn scarce_child() {
    let Ok(driver) = std::env::var(SCARCE_VARIABLE) else { return };
    if driver == "uring" { scarce_registered_files() } else { scarce_files() }
}

/// Registered files do not count, and a ring has as many of them as there may be files: all but
/// its spare ones can be connections. One more is closed at once.
fn scarce_registered_files() {
    limit_files(200);
    let rig = Rig::new(DriverChoice::Uring, quick(), echo);
    let mut clients: Vec<_> = (0..100).map(|_| rig.client()).collect();
    rig.await_count(Count::AcceptRefused, |times| times > 0);
    assert_eq!(round_trip(&clients[0], b"served"), b"served");
    clients.truncate(20);
    rig.await_count(Count::Open, |open| open <= 20);
    assert_eq!(round_trip(&rig.client(), b"room again"), b"room again");
    drop(clients);
    rig.stop();
}

fn scarce_files() {
    let limits = Limits { accept_pause_ms: 5, ..quick() };
    let rig = Rig::new(DriverChoice::Poll, limits, echo);
    let served = rig.client();
    assert_eq!(round_trip(&served, b"served"), b"served");
    // The sockets of the clients exist already; after this nothing can be opened any more.
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let mut clients: Vec<_> = (0..10).map(|_| socket()).collect();
    let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
    limit_files(u64::try_from(next).unwrap());
    // As on the ring: one too many is closed at once, and the others notice nothing.
    let mut refused = Vec::new();
    for client in clients.drain(..5) {
        client.connect(&rig.address.into()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = TcpStream::from(client);
        assert!(!matches!(client.read(&mut [0; 1]), Ok(1..)));
        // Its own file would be one for the server.
        refused.push(client);
    }
    rig.await_count(Count::AcceptRefused, |times| times == 5);
    assert_eq!(round_trip(&served, b"still served"), b"still served");
    limit_files(u64::try_from(next).unwrap() + 5);
    for client in clients {
        client.connect(&rig.address.into()).unwrap();
        let client = TcpStream::from(client);
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(round_trip(&client, b"served at last"), b"served at last");
    }
    assert_eq!(rig.counters().value(Count::AcceptFailures), 0);
    drop(served);
    rig.stop();
}

fn limit_files(files: u64) {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = Some(files);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
}
