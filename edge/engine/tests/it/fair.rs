//! How long a quiet connection waits beside others that send without end, in a measure that a busy
//! machine does not change: bytes of others, and turns, that the thread's handler was told between
//! the moment at which the kernel had the quiet one's bytes and the moment at which they were told.
//!
//! The handler itself sends for the quiet peers, from within a turn, so that moment is exact.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, SyncSender};

use engine::{Count, DriverChoice, Limits};
use event::{Input, Now, Output};

use crate::rig::{PATIENCE, Rig, quick};

const TURN_BYTES: u32 = 16 << 10;
const BUFFER_BYTES: u32 = 1 << 10;
/// Requests of the quiet peers that are judged; every fifth comes on a new connection.
const REQUESTS: u32 = 200;
const REQUEST: &[u8] = b"please";

/// Turns before anything is judged: at first nobody is known to flood.
const TURNS_BEFORE: u64 = 100;

/// Bytes of others between a request and its being told, at most, and turns that end meanwhile: the
/// next, or the one behind it. Half a turn's bytes and one turn are usual.
const BYTES_MAX: u64 = 4 * TURN_BYTES as u64;
const TURNS_MAX: u64 = 4;

/// The quiet peers, as the handler plays them, and what it has been told of the others.
struct Quiet {
    told: u64,
    turns: u64,
    old: Option<TcpStream>,
    /// When the request was sent that is not told.
    asked: Option<(u64, u64)>,
    requests: u32,
    worst: (u64, u64),
    report: SyncSender<(u64, u64)>,
}

impl Quiet {
    /// A turn has ended.
    fn turned(&mut self, to: SocketAddr) {
        self.turns += 1;
        if self.turns < TURNS_BEFORE || self.asked.is_some() || self.requests == REQUESTS {
            return;
        }
        if self.requests.is_multiple_of(5) {
            self.old = None;
        }
        let peer = self.old.get_or_insert_with(|| TcpStream::connect(to).unwrap());
        peer.write_all(REQUEST).unwrap();
        self.asked = Some((self.told, self.turns));
    }

    fn answered(&mut self) {
        let (told, turns) = self.asked.take().unwrap();
        let waited = (self.told - told, self.turns - turns);
        self.worst = (self.worst.0.max(waited.0), self.worst.1.max(waited.1));
        self.requests += 1;
        if self.requests == REQUESTS {
            self.report.send(self.worst).unwrap();
        }
    }
}

/// Ends the flood, however its test ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Sends without end on all connections by turns, and reads what comes back.
pub(crate) fn flood(streams: &[TcpStream], is_done: &AtomicBool) {
    let block = vec![7; 64 << 10];
    let mut buffer = vec![0; 64 << 10];
    while !is_done.load(Relaxed) {
        for mut stream in streams {
            let _ = stream.write(&block);
            let _ = stream.read(&mut buffer);
        }
    }
}

fn delays(driver: DriverChoice, flooders: usize, receive_buffers: u16) -> (u64, u64) {
    let (report, reported) = mpsc::sync_channel(1);
    let begins = std::sync::Arc::new(AtomicBool::new(false));
    let has_begun = begins.clone();
    let limits = Limits {
        turn_bytes: TURN_BYTES,
        receive_buffer_bytes: BUFFER_BYTES,
        receive_buffers,
        ..quick()
    };
    let listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
    let to = listeners[0].local_addr().unwrap();
    let (asked, worst, old) = (None, (0, 0), None);
    let mut quiet = Quiet { told: 0, turns: 0, old, asked, requests: 0, worst, report };
    let script = move |_: Now, input: Input<'_, u64>, out: &mut Output<u64>| match input {
        Input::Bytes { bytes, .. } if bytes == REQUEST => quiet.answered(),
        Input::Bytes { conn, bytes } => {
            quiet.told += bytes.len() as u64;
            out.send(conn, bytes);
        }
        Input::Eof { conn } => out.close(conn),
        Input::TurnEnd if has_begun.load(Relaxed) => quiet.turned(to),
        _ => {}
    };
    let rig = Rig::on(driver, limits, listeners, script);
    let streams: Vec<_> = (0..flooders).map(|_| rig.client()).collect();
    streams.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let is_done = AtomicBool::new(false);
    let worst = std::thread::scope(|scope| {
        let _ends = Ends(&is_done);
        scope.spawn(|| flood(&streams, &is_done));
        rig.await_count(Count::BytesIn, |bytes| bytes > flooders as u64 * (64 << 10));
        begins.store(true, Relaxed);
        reported.recv_timeout(PATIENCE).unwrap()
    });
    drop(streams);
    rig.stop();
    worst
}

pub(crate) fn a_flood_delays_a_neighbour_by_a_turn_or_two(driver: DriverChoice) {
    for (flooders, buffers) in [(1, 16), (16, 16), (64, 16), (64, 64)] {
        let (bytes, turns) = delays(driver, flooders, buffers);
        assert!(
            bytes <= BYTES_MAX && turns <= TURNS_MAX,
            "{flooders} flooders, {buffers} buffers: {bytes} bytes of others and {turns} turns came \
             first, {BYTES_MAX} and {TURNS_MAX} are fair"
        );
    }
}
