//! What makes running guests look at their time: a thread that moves wasmtime's epoch on, once a
//! millisecond while guests run, and more often while some run on a core, whose sockets wait. When none has run for a
//! while it is parked, so that a quiet server is not woken; the first call after that wakes it.
//!
//! A tick costs a wake-up, so that there are no more of them than it takes. Where this thread has to wait for a
//! processor the ticks are late by that; a guest's own count of what it does (fuel) is never late, but made code of Go
//! four times as slow.
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

/// The same while guests run on a core or in the batch: a slice that is over is seen at the second one.
const TICK_ON_CORE: Duration = Duration::from_micros(400);

/// Ticks without a guest on a core after which they are as far apart as for others.
const QUIET_ON_CORE_TICKS: u32 = 8;

/// Ticks without a guest after which the thread is parked: so long nobody pays for waking it.
const QUIET_TICKS: u32 = 64;

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    /// Some have run on a core since the last tick.
    ran_on_core: AtomicBool,
    /// Ticks are as close as a core needs them.
    is_close: AtomicBool,
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

    /// To be held while a guest runs; `on_core` says whether sockets or a transaction wait meanwhile.
    pub(crate) fn run(&self, on_core: bool) -> Ticking<'_> {
        let Shared { running, ran_on_core, is_close, is_asleep, .. } = &*self.shared;
        running.fetch_add(1, SeqCst);
        if on_core && !ran_on_core.load(SeqCst) {
            ran_on_core.store(true, SeqCst);
        }
        let is_late = on_core && !is_close.load(SeqCst) && !is_close.swap(true, SeqCst);
        let was_asleep = is_asleep.load(SeqCst) && is_asleep.swap(false, SeqCst);
        if (is_late || was_asleep)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
        Ticking(&self.shared)
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
    let (mut quiet_ticks, mut quiet_on_core) = (0, 0);
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
        quiet_on_core = if shared.ran_on_core.swap(false, SeqCst) { 0 } else { quiet_on_core + 1 };
        let is_close = quiet_on_core <= QUIET_ON_CORE_TICKS;
        shared.is_close.store(is_close, SeqCst);
        thread::park_timeout(if is_close { TICK_ON_CORE } else { TICK });
        engine.increment_epoch();
    }
}
