//! Many clients that do everything in any order, from a seed: pieces of any size, slow reading,
//! half-closes, resets, silent leaving; with buffers and limits so small that every path is taken.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use engine::{Count, DriverChoice, Limits};
use event::Random;
use socket2::SockRef;

use crate::rig::{Rig, drain, echo, pattern, quick};

const THREADS: u64 = 4;
const CLIENTS_PER_THREAD: u64 = 60;

pub(crate) fn echoes_survive_chaos(driver: DriverChoice) {
    for seed in 0..3 {
        let limits = Limits {
            receive_buffers: 8,
            receive_buffer_bytes: 512,
            output_bytes_high: 4 << 10,
            linger_ms: 200,
            ..quick()
        };
        let rig = Rig::new(driver, limits, echo);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let rig = &rig;
                scope.spawn(move || {
                    let mut random = Random::from_number(seed * THREADS + thread);
                    for _ in 0..CLIENTS_PER_THREAD {
                        live(rig.client(), &mut random);
                    }
                });
            }
        });
        rig.await_count(Count::Open, |open| open == 0);
        let end = rig.stop();
        assert_eq!(end.value(Count::Accepted), THREADS * CLIENTS_PER_THREAD, "seed {seed}");
        assert_eq!(end.value(Count::ClosedOutputLimit), 0, "seed {seed}");
    }
}

/// One client's life: whatever it reads must be what it sent.
fn live(client: TcpStream, random: &mut Random) {
    let all = pattern(random.below(200_000) as usize, random.below(250) as usize);
    let (mut sent, mut read) = (0, 0);
    let mut back = vec![0; 40_000];
    for _ in 0..random.below(30) {
        match random.below(12) {
            0 if random.below(4) == 0 => {
                SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
                return;
            }
            1 if random.below(4) == 0 => return,
            2..=7 => {
                // Never so much on the way that both sides could wait for each other.
                let len = (random.below(60_000) as usize).min(all.len() - sent);
                if sent + len - read > 60_000 {
                    continue;
                }
                (&client).write_all(&all[sent..sent + len]).unwrap();
                sent += len;
            }
            _ => {
                let len = (random.below(40_000) as usize).min(sent - read);
                (&client).read_exact(&mut back[..len]).unwrap();
                assert!(back[..len] == all[read..read + len]);
                read += len;
            }
        }
    }
    assert!(drain(client) == all[read..sent]);
}

/// A thread that stops does not wait for a peer that does not read, and takes its memory back.
pub(crate) fn a_stop_does_not_wait_for_ever(driver: DriverChoice) {
    let rig = Rig::new(driver, quick(), |_, input, out| {
        if let event::Input::Bytes { conn, .. } = input {
            out.output_max(conn, 32 << 20);
            out.send(conn, &vec![1; 16 << 20]);
        }
    });
    let mut clients: Vec<_> = (0..5).map(|_| rig.client()).collect();
    for client in &mut clients {
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0; 1]).unwrap();
    }
    // One of them has also shut its side down, one has reset.
    clients[0].shutdown(Shutdown::Write).unwrap();
    SockRef::from(&clients[1]).set_linger(Some(Duration::ZERO)).unwrap();
    drop(clients.remove(1));
    rig.await_count(Count::ClosedReset, |resets| resets == 1);
    assert_eq!(rig.stop().value(Count::ClosedShutdown), 4);
}
