//! A generator on a thread of this process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use engine::{Engine, Limits, Running, ThreadPlan, bind_udp};
use event::ThreadId;

use super::plan::{Plan, RunError};
use crate::load::generator::{Command, Event, Generator, SOCKETS, Settings};
use crate::load::scenario::program::Program;
use crate::measure::processors::Realtime;

/// Records that may wait for the main thread.
pub(super) const EVENTS_MAX: usize = 64;
/// Connections beyond the players', for few players.
const SPARE_CONNECTIONS: u32 = 64;
/// Cost of what pilots of the zone are told in one turn, over sockets and by datagram. All snapshots of a tick come within a millisecond or
/// two, and reading one takes some microseconds: 256 KiB of them are a millisecond in which no control is sent
/// that becomes due. So is a sixteenth of it.
const PILOTS_TURN_BYTES: u32 = 16 << 10;
/// A generator on a thread of this process.
pub(super) struct Here {
    pub(super) running: Running<Command>,
    pub(super) id: ThreadId,
    pub(super) events: Receiver<Event>,
}

impl Here {
    pub(super) fn start(
        plan: &Plan,
        program: Arc<Program>,
        settings: Settings,
        pin: Option<usize>,
    ) -> Result<Self, RunError> {
        let (sender, events) = sync_channel(EVENTS_MAX);
        let mut engine = Engine::new(plan.driver);
        // Those of players that begin anew are closing for a while yet.
        let connections_max = settings.players + settings.players / 4 + SPARE_CONNECTIONS;
        let connect_ms = u32::try_from(settings.timeout_ns / 1_000_000).unwrap_or(u32::MAX).max(1);
        let usual = Limits::default();
        let (turn_bytes, datagram_turn_bytes) = if program.flies() {
            (PILOTS_TURN_BYTES, PILOTS_TURN_BYTES)
        } else {
            (usual.turn_bytes, usual.datagram_turn_bytes)
        };
        let sockets = if program.has_datagrams() {
            sockets(&settings).map_err(RunError::Datagrams)?
        } else {
            Vec::new()
        };
        let mut thread = ThreadPlan::core("generator", Vec::new(), move |_start| {
            // Timers to the microsecond; the kernel rounds to 50 µs otherwise.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            Generator::new(program, settings, sender)
        })
        .with_sockets(sockets);
        thread.pin = pin;
        thread.limits =
            Limits { connections_max, connect_ms, turn_bytes, datagram_turn_bytes, ..usual };
        let id = engine.add(thread);
        // The engine's thread inherits it; this one, which only adds up, is ordinary again then.
        let _realtime = plan.realtime.then(Realtime::begin).transpose()?;
        Ok(Self { running: engine.start()?, id, events })
    }

    /// Tells the generator something; one that has ended need not know.
    pub(super) fn post(&self, command: Command) {
        let _ = self.running.post(self.id, command);
    }
}

/// Sockets for datagrams to and from servers, each with a port of its own.
fn sockets(settings: &Settings) -> std::io::Result<Vec<UdpSocket>> {
    let is_ipv4 = settings.nodes.iter().all(|node| node.addr.is_ipv4());
    let any: IpAddr =
        if is_ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let bound = (0..SOCKETS).map(|_| bind_udp(SocketAddr::new(any, 0), 1));
    Ok(bound.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
