//! An engine under test: a core thread whose handler follows a few one-byte orders, and clients.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use engine::{Count, Counters, DriverChoice, Engine, Limits, Running, ThreadPlan};
use event::{Handler, Input, Now, Output, ThreadId};

/// Longer than anything here may take, so that a hang is a failure and not a wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The defaults, but a thread that stops waits only a moment for clients that stay.
pub(crate) fn quick() -> Limits {
    Limits { stop_ms: 100, ..Limits::default() }
}

/// A handler that is a function.
pub(crate) struct Script<F>(pub(crate) F);

impl<F> Handler for Script<F>
where
    F: FnMut(Now, Input<'_, u64>, &mut Output<u64>),
{
    type Mail = u64;

    fn handle(&mut self, now: Now, input: Input<'_, u64>, out: &mut Output<u64>) {
        let is_stop = matches!(input, Input::Stop);
        (self.0)(now, input, out);
        if is_stop {
            out.stop();
        }
    }
}

/// Sends back what it gets, closes when the peer does.
pub(crate) fn echo(_: Now, input: Input<'_, u64>, out: &mut Output<u64>) {
    match input {
        Input::Bytes { conn, bytes } => out.send(conn, bytes),
        Input::Eof { conn } => out.close(conn),
        _ => {}
    }
}

/// One core thread with one listener.
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    pub(crate) running: Running<u64>,
}

impl Rig {
    pub(crate) fn new<F>(driver: DriverChoice, limits: Limits, script: F) -> Self
    where
        F: FnMut(Now, Input<'_, u64>, &mut Output<u64>) + Send + 'static,
    {
        let listeners = engine::listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
        Self::on(driver, limits, listeners, script)
    }

    /// On listeners that the test has made.
    pub(crate) fn on<F>(
        driver: DriverChoice,
        limits: Limits,
        listeners: Vec<TcpListener>,
        script: F,
    ) -> Self
    where
        F: FnMut(Now, Input<'_, u64>, &mut Output<u64>) + Send + 'static,
    {
        let address = listeners[0].local_addr().unwrap();
        let mut engine = Engine::new(driver);
        let mut plan = ThreadPlan::core("core", listeners, |_| Script(script));
        plan.limits = limits;
        engine.add(plan);
        Self { address, running: engine.start().unwrap() }
    }

    pub(crate) fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.set_write_timeout(Some(PATIENCE)).unwrap();
        client
    }

    pub(crate) fn counters(&self) -> Counters {
        self.running.counters()[0].counters
    }

    /// Waits until a counter is what it should be.
    pub(crate) fn await_count(&self, count: Count, is_enough: impl Fn(u64) -> bool) {
        self.await_counters(|counters| is_enough(counters.value(count)));
    }

    /// Waits until the counters are what they should be; they are published once a turn.
    pub(crate) fn await_counters(&self, are_enough: impl Fn(&Counters) -> bool) {
        let start = std::time::Instant::now();
        while !are_enough(&self.counters()) {
            assert!(start.elapsed() < PATIENCE, "waited in vain: {:?}", self.counters());
            // Leaves the processor to whom it watches.
            std::thread::park_timeout(Duration::from_micros(500));
        }
    }

    /// Stops the engine; nothing may be left behind.
    pub(crate) fn stop(self) -> Counters {
        self.running.stop();
        let published = self.running.counters();
        drop(published);
        let mut last = Counters::default();
        while !self.running.is_finished(ThreadId(0)) {
            std::thread::yield_now();
        }
        last.merge(&self.running.counters()[0].counters);
        self.running.join().unwrap();
        for gauge in [Count::Open, Count::Unsent, Count::Held] {
            assert_eq!(last.value(gauge), 0, "{gauge:?} at the end");
        }
        last
    }
}

/// Bytes that tell when two of them change places.
pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + at / 251 + seed) % 256).to_le_bytes()[0]).collect()
}

/// Sends `bytes` from a thread of its own and reads until as many have come back.
pub(crate) fn round_trip(client: &TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut back = vec![0; bytes.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut half = client;
            half.write_all(bytes).unwrap();
        });
        let mut half = client;
        half.read_exact(&mut back).unwrap();
    });
    back
}

/// Shuts the sending side down and reads to the end.
pub(crate) fn drain(mut client: TcpStream) -> Vec<u8> {
    client.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    rest
}
