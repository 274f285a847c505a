//! 10,000 connections where the limit of open files is 20,000: the clients live in a process of
//! their own, so that both drivers have room for their side. The child is this test program, told
//! by an environment variable what to do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use engine::{Count, DriverChoice, Limits};

use crate::rig::{PATIENCE, Rig, echo};

const CONNECTIONS: usize = 10_000;
const ADDRESS_VARIABLE: &str = "THRONG_TEST_CROWD";

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
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crowd::child", "--nocapture"])
        .env(ADDRESS_VARIABLE, rig.address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
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
