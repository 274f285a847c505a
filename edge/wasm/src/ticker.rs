//! What makes running guests look at their time: a thread that moves wasmtime's epoch on, once a
//! millisecond while guests run. When none has run for a while it is parked, so that a quiet server is not
//! woken; the first call after that wakes it.
//!
//! Not here: what is looked at (`script::budget`, through the callback of each instance).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::Engine;

/// Between two epochs: the finest budget is a millisecond.
const TICK: Duration = Duration::from_millis(1);

/// Ticks without a guest after which the thread is parked: so long nobody pays for waking it.
const QUIET_TICKS: u32 = 64;

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    is_asleep: AtomicBool,
    is_over: AtomicBool,
}

/// The thread, which ends with its owner.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A guest that runs: epochs pass until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticking<'a>(&'a Shared);

impl Ticker {
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("wasm-epochs".to_owned())
            .spawn(move || tick(&of_thread, &engine))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// To be held while a guest runs.
    pub(crate) fn run(&self) -> Ticking<'_> {
        self.shared.running.fetch_add(1, SeqCst);
        self.wake();
        Ticking(&self.shared)
    }

    fn wake(&self) {
        if self.shared.is_asleep.swap(false, SeqCst)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It cannot have panicked: a panic ends the process.
            let _ = thread.join();
        }
    }
}

fn tick(shared: &Shared, engine: &Engine) {
    let mut quiet_ticks = 0;
    while !shared.is_over.load(SeqCst) {
        quiet_ticks = if shared.running.load(SeqCst) == 0 { quiet_ticks + 1 } else { 0 };
        if quiet_ticks > QUIET_TICKS {
            shared.is_asleep.store(true, SeqCst);
            // Whoever has begun since then sees that it sleeps, and wakes it; or it is seen here.
            while shared.is_asleep.load(SeqCst)
                && shared.running.load(SeqCst) == 0
                && !shared.is_over.load(SeqCst)
            {
                thread::park();
            }
            shared.is_asleep.store(false, SeqCst);
            quiet_ticks = 0;
        }
        thread::park_timeout(TICK);
        engine.increment_epoch();
    }
}
