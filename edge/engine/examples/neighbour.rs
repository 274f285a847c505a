//! How long a quiet connection waits beside others that send without end, on both drivers:
//! `neighbour [SECONDS]`. Two shapes: echo with bytes that mean nothing, and answers to requests
//! that are pipelined. Prints the median and the 99th percentile of the quiet one's round trips, in
//! milliseconds, and what the others got done meanwhile.
//!
//! Client and server share the machine, so compare the rows, not machines.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use engine::{Count, DriverChoice, Engine, Limits, ThreadPlan};
use event::{Handler, Input, Now, Output, ThreadId};

const REQUEST: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: neighbour\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";

/// What the connections of a run say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Raw,
    Requests,
}

struct Server(Shape);

impl Handler for Server {
    type Mail = ();

    fn handle(&mut self, _: Now, input: Input<'_, ()>, out: &mut Output<()>) {
        match input {
            Input::Bytes { conn, bytes } if self.0 == Shape::Raw => out.send(conn, bytes),
            Input::Bytes { conn, bytes } => {
                for _ in 0..bytes.windows(4).filter(|four| *four == b"\r\n\r\n").count() {
                    out.send(conn, ANSWER);
                }
            }
            Input::Eof { conn } => out.close(conn),
            Input::Stop => out.stop(),
            _ => {}
        }
    }
}

/// Sends without end on all of its connections by turns, and reads what comes back: one thread, or
/// it would be measured how the system shares its processors.
fn flood(streams: &[TcpStream], shape: Shape, done: &AtomicBool, back: &AtomicU64) {
    let block = if shape == Shape::Raw { vec![7; 64 << 10] } else { REQUEST.repeat(1_024) };
    let (mut at, mut buffer) = (vec![0; streams.len()], vec![0; 64 << 10]);
    while !done.load(Relaxed) {
        for (mut stream, at) in streams.iter().zip(&mut at) {
            let sent = stream.write(&block[*at..]).unwrap_or(0);
            *at = (*at + sent) % block.len();
            let read = stream.read(&mut buffer).unwrap_or(0);
            back.fetch_add(read as u64, Relaxed);
        }
    }
}

fn quiet(address: SocketAddr, shape: Shape, lasts: Duration) -> std::io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (request, answer) =
        if shape == Shape::Raw { (&b"please"[..], 6) } else { (REQUEST, ANSWER.len()) };
    let mut buffer = vec![0; answer];
    let (start, mut took) = (Instant::now(), Vec::new());
    while start.elapsed() < lasts {
        let asked = Instant::now();
        stream.write_all(request)?;
        stream.read_exact(&mut buffer)?;
        took.push(asked.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    took.sort_unstable();
    Ok(took)
}

fn run(
    driver: DriverChoice,
    shape: Shape,
    flooders: usize,
    buffers: u16,
    lasts: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1)?;
    let address = listeners[0].local_addr()?;
    let mut engine = Engine::new(driver);
    let mut plan = ThreadPlan::core("core", listeners, move |_| Server(shape));
    plan.limits = Limits { receive_buffers: buffers, stop_ms: 100, ..Limits::default() };
    engine.add(plan);
    let running = engine.start()?;
    let (done, back) = (AtomicBool::new(false), AtomicU64::new(0));
    let streams =
        (0..flooders).map(|_| TcpStream::connect(address)).collect::<Result<Vec<_>, _>>()?;
    for stream in &streams {
        stream.set_nonblocking(true)?;
    }
    let took = std::thread::scope(|scope| {
        scope.spawn(|| flood(&streams, shape, &done, &back));
        std::thread::sleep(Duration::from_millis(300));
        let took = quiet(address, shape, lasts);
        done.store(true, Relaxed);
        took
    })?;
    let ms = |part: usize| took[(took.len() - 1) * part / 100].as_secs_f64() * 1_000.0;
    let shortages = running.counters()[usize::from(ThreadId(0).0)].counters;
    println!(
        "{driver:?} {shape:?}: {flooders} flooders, {buffers} buffers: p50 {:.2} ms, p99 {:.2} ms, \
         most {:.2} ms; {} MB back, {} shortages",
        ms(50),
        ms(99),
        ms(100),
        back.load(Relaxed) >> 20,
        shortages.value(Count::BufferShortages),
    );
    running.stop();
    Ok(running.join()?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(2.0), |seconds| seconds.parse::<f64>())?;
    let cells = [
        (Shape::Raw, 16, 256),
        (Shape::Raw, 256, 256),
        (Shape::Raw, 16, 16),
        (Shape::Requests, 64, 256),
    ];
    for (shape, flooders, buffers) in cells {
        for driver in [DriverChoice::Poll, DriverChoice::Uring] {
            run(driver, shape, flooders, buffers, Duration::from_secs_f64(seconds))?;
        }
    }
    Ok(())
}
