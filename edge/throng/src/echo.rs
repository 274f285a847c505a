//! `throng echo`: the bare echo server on the engine. What it answers is `server::echo`'s.

use std::net::{SocketAddr, UdpSocket};

use anyhow::Context as _;
use engine::{Count, Counters, Engine, Running, ThreadPlan};
use server::echo::{Echo, Unanswered};

use crate::cli::EchoOptions;
use crate::signals::StopSignals;

/// Largest body and WebSocket message that is taken, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Largest datagram that is answered, in bytes: what UDP over IPv4 carries.
const DATAGRAM_BYTES_MAX: u32 = 65_507;

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
    let mut sockets = sockets(&options, bound)?.into_iter();
    let mut unanswered = Unanswered::default();
    let mut engine = Engine::new(options.driver.choice());
    for (index, listener) in listeners.into_iter().enumerate() {
        let datagrams = unanswered.of_core(bound.port());
        let build = |_| Echo::new(MESSAGE_BYTES_MAX).with_datagrams(datagrams);
        let mut plan = ThreadPlan::core(format!("echo-{index}"), vec![listener], build)
            .with_sockets(sockets.next().into_iter().collect());
        plan.pin = options.pin.then_some(index);
        plan.limits.datagram_bytes_max = DATAGRAM_BYTES_MAX;
        engine.add(plan);
    }
    let mut running = engine.start().context("cannot start the engine (--driver)")?;
    tracing::info!("listening on http://{bound}");
    let signal = stop.wait().context("cannot wait for a second signal")?;
    tracing::info!(signal = signal.name(), "stopping");
    running.stop();
    let ended = running.wait().context("the echo server failed");
    if options.udp {
        tell_datagrams(&running, unanswered.read());
    }
    ended
}

/// Sockets for datagrams at the same address, one for each core, if they are asked for.
fn sockets(options: &EchoOptions, bound: SocketAddr) -> anyhow::Result<Vec<UdpSocket>> {
    if !options.udp {
        return Ok(Vec::new());
    }
    let sockets = engine::bind_udp(bound, options.cores)
        .with_context(|| format!("cannot take datagrams at {bound} (--address, --port, --udp)"))?;
    tracing::info!("answering datagrams at {bound}");
    if !bound.ip().is_loopback() {
        tracing::warn!(
            "datagrams are answered to whatever address they come from, which may be forged: nobody \
             gets more than was sent, but two echo servers at different ports can be made to answer \
             each other without end; --address 127.0.0.1 keeps it to this machine"
        );
    }
    if bound.ip().is_unspecified() {
        tracing::warn!(
            "answers to datagrams leave from the address that the system chooses: where this machine has \
             several, name with --address the one that clients ask"
        );
    }
    Ok(sockets)
}

/// Says what became of datagrams.
fn tell_datagrams(running: &Running<()>, unanswered: u64) {
    let mut all = Counters::default();
    running.counters().iter().for_each(|thread| all.merge(&thread.counters));
    tracing::info!(
        received = all.value(Count::DatagramsIn),
        answered = all.value(Count::DatagramsOut),
        not_answered = unanswered,
        no_room_to_send = all.value(Count::DatagramsOutDropped),
        not_taken = all.value(Count::DatagramsOutRefused),
        unreadable = all.value(Count::DatagramsInDropped),
        lost = all.value(Count::DatagramsLost),
        "datagrams"
    );
}
