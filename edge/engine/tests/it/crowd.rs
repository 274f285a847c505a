//! What needs processes of its own: 10,000 connections where the limit of open files is 20,000 (the
//! clients live in another process, so that both drivers have room for their side), and running out
//! of files. The child is this test program, told by an environment variable what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use engine::{Count, DriverChoice, Limits};

use crate::rig::{PATIENCE, Rig, echo, quick, round_trip};

const CONNECTIONS: usize = 10_000;
const ADDRESS_VARIABLE: &str = "THRONG_TEST_CROWD";
const SCARCE_VARIABLE: &str = "THRONG_TEST_SCARCE";
/// Files that the child below may have open: too few for its clients and their other ends.
const SCARCE_FILES: u64 = 200;

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
    let ended = child.env(SCARCE_VARIABLE, driver.to_string()).status().unwrap();
    assert!(ended.success());
}

/// Twice as many clients as there are files for: the first are served, the others are once the
/// first have gone.
#[test]
fn scarce_child() {
    let Ok(driver) = std::env::var(SCARCE_VARIABLE) else { return };
    let driver: DriverChoice = driver.parse().unwrap();
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = Some(SCARCE_FILES);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let limits = Limits { accept_pause_ms: 5, ..quick() };
    let rig = Rig::new(driver, limits, echo);
    // Registered files do not count, and the ring has as many of them as there may be files: all
    // but its spare ones. One more connection than it holds is closed at once.
    let is_ring = driver == DriverChoice::Uring;
    let mut clients: Vec<_> = (0..150).map(|_| rig.client()).collect();
    let shortage = if is_ring { Count::AcceptRefused } else { Count::AcceptFailures };
    rig.await_count(shortage, |times| times > 0);
    assert_eq!(round_trip(&clients[0], b"served"), b"served");
    if is_ring {
        clients.truncate(20);
        rig.await_count(Count::Open, |open| open <= 20);
        clients.push(rig.client());
    } else {
        clients.drain(..100);
    }
    let last = clients.last().unwrap();
    assert_eq!(round_trip(last, b"served at last"), b"served at last");
    drop(clients);
    rig.stop();
}
