//! `throng echo`: the bare echo server on the engine. What it answers is `server::echo`'s.

use anyhow::Context as _;
use engine::{Engine, ThreadPlan};
use server::echo::Echo;

use crate::cli::EchoOptions;
use crate::signals::StopSignals;

/// Largest body and WebSocket message that is taken, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Runs the echo server until it is told to stop.
///
/// # Errors
/// Whatever keeps it from starting, in words for the operator.
pub fn run(options: EchoOptions) -> anyhow::Result<()> {
    let stop = StopSignals::catch().context("cannot catch signals")?;
    let address = (options.address, options.port).into();
    let listeners = engine::listen(address, options.cores)
        .with_context(|| format!("cannot listen on {address} (--address, --port)"))?;
    let bound = match listeners.first() {
        Some(listener) => listener.local_addr().context("cannot read the listener's address")?,
        None => address,
    };
    let mut engine = Engine::new(options.driver.choice());
    for (index, listener) in listeners.into_iter().enumerate() {
        let build = |_| Echo::new(MESSAGE_BYTES_MAX);
        let mut plan = ThreadPlan::core(format!("echo-{index}"), vec![listener], build);
        plan.pin = options.pin.then_some(index);
        engine.add(plan);
    }
    let running = engine.start().context("cannot start the engine (--driver)")?;
    tracing::info!("listening on http://{bound}");
    let signal = stop.wait().context("cannot wait for a second signal")?;
    tracing::info!(signal = signal.name(), "stopping");
    running.stop();
    running.join().context("the echo server failed")
}
