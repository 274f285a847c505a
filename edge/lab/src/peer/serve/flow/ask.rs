//! What a session asks for: whether it is sound and may be had, and the flow that comes of it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use engine::datagram::{SendStyle, Style};

use super::super::super::protocol::Refusal;
use super::super::shares::Full;
use super::super::state::{Session, State};
use super::Flow;
use crate::flow::meter::{Beat, Stage};
use crate::flow::pace::Pace;
use crate::flow::plan::{BUFFER_BYTES_MAX, CONNECTIONS_MAX, DATAGRAM_BYTES, WORK_MAX};
use crate::flow::words::{self, Asked, Protocol};
use crate::flow::work::Work;
use crate::measure::number::{bits, count_of, group_f64};
use crate::measure::processors::{cpus, kept_free};

/// What is said to who asks for more than there may be.
const NOT_SOUND: Refusal = Refusal::Asked(
    "a flow has 1 to 512 connections, 16 MiB in a call, 65,507 bytes in a datagram, 1 ms of work for \
     each",
);

/// Frames come from a queue of an interface, of which one socket can have them.
const ONE_BY_XDP: Refusal =
    Refusal::Asked("--style xdp receives what one socket sends: one thread (-m 1,*)");

/// Takes what a session asks for, if it may be had. The answer to it.
pub(super) fn ask(state: &Arc<State>, session: &Session, line: &str) -> Result<String, Refusal> {
    let asked = Asked::read(line).ok_or(NOT_SOUND)?;
    check(&asked)?;
    if !asked.is_back
        && asked.protocol == Protocol::Udp
        && asked.style == Style::Xdp.name()
        && !state.options.takes_frames
    {
        return Err(Refusal::Service(
            "--style xdp (the server has to be started with --xdp)".to_owned(),
        ));
    }
    // Who comes over IPv4 to a socket of IPv6 is sent to over IPv4.
    let is_ipv6 = session.peer.to_canonical().is_ipv6();
    let most = most_of_each(&asked, is_ipv6, state)?;
    let options = &state.options;
    // Its control connection has a place already.
    let lanes_max = options.per_address_max.min(options.connections_max).saturating_sub(1);
    if asked.lanes > lanes_max {
        return Err(Refusal::Busy(format!(
            "{} connections are too many: one address may have {lanes_max} beside the session's \
             (--per-address, --connections)",
            asked.lanes
        )));
    }
    let place = state.flows.take(session.peer, 1).map_err(|full| {
        Refusal::Busy(match full {
            Full::All => format!(
                "{} flows at once are the most (--flows): try again later",
                options.flows_max
            ),
            Full::Own => format!(
                "this address has {} flows, one less than the server (--flows): try again later",
                state.flows.each_max()
            ),
        })
    })?;
    let lanes = asked.lanes;
    let peers = if asked.protocol == Protocol::Udp { lanes } else { 0 };
    let flow = Flow {
        pace: match (asked.rate, most) {
            (None, Some(most)) => Pace::at_most(most),
            (rate, _) => Pace::new(rate),
        },
        work: Work::of(if asked.burns() { asked.work } else { Duration::ZERO }),
        asked,
        beat: Arc::new(Beat::new()),
        lanes: Mutex::default(),
        senders: Mutex::default(),
        peers: Mutex::new(vec![None; usize::try_from(peers).unwrap_or(0)]),
        stretch: Mutex::new((0, Stage::Open)),
        bytes: AtomicU64::new(0),
        peer: session.peer,
        asked_at: Instant::now(),
        begun_at: OnceLock::new(),
        moved_at: Mutex::new(Instant::now()),
        place: Mutex::new(Some(place)),
    };
    let most = most.filter(|_| flow.asked.rate.is_none());
    let takes_all = flow.asked.burns() || flow.asked.sends_small();
    // Another thread cannot have set it: this is the session's.
    let _ = session.flow.set(Arc::new(flow));
    state.count(|it| {
        it.flows += 1;
        it.flows_kept_off += u64::from(takes_all);
    });
    Ok(words::ready(lanes, most))
}

/// Datagrams a second that each lane sends at most, of a flow whose datagrams the server sends: nothing
/// on the way tells it to slow down.
fn most_of_each(asked: &Asked, is_ipv6: bool, state: &State) -> Result<Option<f64>, Refusal> {
    if !(asked.protocol == Protocol::Udp && asked.is_back) {
        return Ok(None);
    }
    let most_bits = state.options.send_bits_max;
    let bytes = words::wire_bytes(asked.bytes, is_ipv6);
    let most = most_bits / (8.0 * f64::from(bytes) * f64::from(asked.lanes));
    // Both ends divide.
    if asked.rate.is_some_and(|rate| rate > most * 1.001) {
        return Err(Refusal::Busy(format!(
            "the server sends {} of datagrams at most, with all their headers ({} datagrams/s of {}; \
             --send-rate): ask for less with --rate",
            bits(most_bits),
            group_f64(most * f64::from(asked.lanes)),
            count_of(u64::from(asked.bytes), "byte")
        )));
    }
    Ok(Some(most))
}

/// Whether what is asked for is sound, and there at all.
fn check(asked: &Asked) -> Result<(), Refusal> {
    let [least, most] = match asked.protocol {
        Protocol::Tcp => [1, BUFFER_BYTES_MAX],
        Protocol::Udp => DATAGRAM_BYTES,
    };
    let is_sound = (1..=CONNECTIONS_MAX).contains(&asked.lanes)
        && (least..=most).contains(&asked.bytes)
        && asked.work <= WORK_MAX;
    if !is_sound {
        return Err(NOT_SOUND);
    }
    if asked.protocol == Protocol::Udp && !asked.is_back && asked.style.parse::<Style>().is_err() {
        return Err(Refusal::Service(format!("--style {}", asked.style)));
    }
    if asked.protocol == Protocol::Udp && asked.style == Style::Xdp.name() && asked.lanes > 1 {
        return Err(ONE_BY_XDP);
    }
    let is_known = asked.send_style.parse::<SendStyle>().is_ok();
    if asked.protocol == Protocol::Udp && asked.is_back && !is_known {
        return Err(Refusal::Service(format!("--send-style {}", asked.send_style)));
    }
    if let Some(core) = asked.core.filter(|core| !cpus().contains(core)) {
        return Err(Refusal::Busy(format!("the server may not use processor {core}")));
    }
    let takes_all = asked.burns() || asked.sends_small();
    if let Some(core) = asked.core.filter(|core| takes_all && kept_free() == Some(*core)) {
        return Err(Refusal::Busy(format!(
            "the server keeps processor {core} free of --work and of sending small pieces, for those who \
             ping it: name another with --remote-core"
        )));
    }
    Ok(())
}
