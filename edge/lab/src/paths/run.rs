//! All paths in turn, round after round; every other round backwards, so that a drift meets all alike.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use super::place::{Path, Place};
use super::plan::{Plan, PlanError};
use super::result::{
    FlowRate, PATHS_VERSION, PathRound, PathRow, PathsResult, Settings, SizeTimes,
};
use crate::flow::{self, Mapping, Protocol, SendStyle, Style};
use crate::load::{Finished, Summary};
use crate::measure::number::{bits, float, time};
use crate::measure::{Environment, TlsChoice, Trust};
use crate::ping::{self, Amount, Buckets, Family, Kind, Process, ServeOptions, Server};

/// What both ends say to each other; nobody else is in their namespaces, and loopback has its own port.
const TOKEN: &str = "paths";
/// Silence after which an answer is lost.
const TIMEOUT: Duration = Duration::from_millis(1_500);
/// Connections of the flow of TCP, and bytes of its calls.
const CONNECTIONS: u32 = 8;
const TCP_BYTES: u32 = 128 << 10;
/// Bytes of a datagram of the flow of UDP.
const UDP_BYTES: u32 = 1_024;

/// Measures everything. `tell` is told each step in words.
///
/// # Errors
/// When the plan cannot be done; what the system refuses is said by the rows.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> Result<PathsResult, PlanError> {
    plan.check()?;
    let environment = Environment::read();
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let is_stopped = || plan.stop.load(Ordering::Relaxed);
    let mut rows: Vec<(PathRow, Option<Place>)> =
        plan.paths.iter().map(|path| row(*path, tell)).collect();
    for round in 1..=plan.rounds {
        let mut order: Vec<_> = rows.iter_mut().collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for (row, place) in order {
            let Some(place) = place else { continue };
            if is_stopped() || !row.why.is_empty() {
                continue;
            }
            match measure(plan, place, round) {
                // Of a measurement that was cut short nothing is kept.
                _ if is_stopped() => {}
                Ok(measured) => {
                    tell(&line(row.path, &measured));
                    row.rounds.push(measured);
                }
                Err(why) => {
                    tell(&format!("{}: {why}", row.path.name()));
                    row.why = why;
                }
            }
        }
    }
    Ok(PathsResult {
        version: PATHS_VERSION,
        command: "host paths".to_owned(),
        unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        ended: if is_stopped() { "interrupted".to_owned() } else { String::new() },
        settings: Settings {
            sizes: plan.sizes.clone(),
            streams: plan.streams,
            interval_s: plan.interval.as_secs_f64(),
            span_s: plan.span.as_secs_f64(),
            rounds: plan.rounds,
        },
        rows: rows.into_iter().map(|(row, _)| row).collect(),
        environment,
    })
}

fn row(path: Path, tell: &mut dyn FnMut(&str)) -> (PathRow, Option<Place>) {
    let empty = |why| PathRow { path, why, rounds: Vec::new() };
    match Place::new(path) {
        Ok(place) => (empty(String::new()), Some(place)),
        Err(why) => {
            tell(&format!("{}: {why}", path.name()));
            (empty(why), None)
        }
    }
}

fn line(path: Path, round: &PathRound) -> String {
    let pings = round.pings.iter().map(|it| format!("{} B {}", it.bytes, time(it.times.p50_ns)));
    let flows = round.flows.iter().map(|it| format!("{} {}", it.protocol, bits(it.bits_per_s)));
    let all: Vec<String> = pings.chain(flows).collect();
    format!("round {} of {}: {}", round.round, path.name(), all.join(", "))
}

/// Both ends, each in a thread that is where it has to be.
fn measure(plan: &Plan, place: &Place, round: u32) -> Result<PathRound, String> {
    let is_over = AtomicBool::new(false);
    let (sender, bound) = channel();
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let server = scope.spawn(move || {
            let server = place.enter_server().and_then(|()| bind(place));
            match server {
                Ok(server) => {
                    let _ = sender.send(Ok(server.address().port()));
                    // How it ended shows at the other end.
                    let _ = server.run(|| is_over.load(Ordering::Relaxed));
                }
                Err(why) => drop(sender.send(Err(why))),
            }
        });
        let measured = match bound.recv() {
            Ok(Ok(port)) => {
                let address = SocketAddr::from((place.calls, port));
                let client = scope.spawn(move || {
                    place.enter_players()?;
                    from_players(plan, address, round)
                });
                client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            Ok(Err(why)) => Err(why),
            Err(_) => Err("the server's thread has ended".to_owned()),
        };
        is_over.store(true, Ordering::Relaxed);
        drop(server.join());
        measured
    })
}

fn bind(place: &Place) -> Result<Server, String> {
    let options = ServeOptions {
        address: (place.binds, 0).into(),
        token: Some(TOKEN.to_owned()),
        connections_max: 512,
        per_address_max: 512,
        flows_max: 2,
        send_bits_max: 1e9,
        takes_frames: false,
    };
    Server::bind(options, |_| {}).map_err(|error| error.to_string())
}

fn from_players(plan: &Plan, address: SocketAddr, round: u32) -> Result<PathRound, String> {
    let mut measured = PathRound { round, ..PathRound::default() };
    let is_on = || !plan.stop.load(Ordering::Relaxed);
    let pinged = ping::run(&pings(plan, address)?, &mut |_| is_on());
    let Finished { summary, .. } = pinged.map_err(|error| error.to_string())?;
    fault(&summary)?;
    for (bytes, op) in plan.sizes.iter().zip(&summary.ops) {
        let lost = op.failed + op.unanswered;
        measured.pings.push(SizeTimes { bytes: *bytes, times: op.answered.service, lost });
    }
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let flowed = flow::run(&flow_of(plan, address, protocol)?, &mut |_| is_on());
        let Finished { summary, .. } = flowed.map_err(|error| error.to_string())?;
        fault(&summary)?;
        let it = summary.flow.ok_or("a flow without a result")?;
        let lost = it.datagrams.map(|it| float(it.lost) / float(it.sent.max(1)));
        measured.flows.push(FlowRate {
            protocol: it.protocol,
            bits_per_s: it.goodput_bits,
            lost,
            receiver_ns_per_byte: it.receiver.cpu_ns_per_byte,
            sender_ns_per_byte: it.sender.cpu_ns_per_byte,
        });
    }
    Ok(measured)
}

fn fault(summary: &Summary) -> Result<(), String> {
    if summary.ended.is_empty() { Ok(()) } else { Err(summary.ended.clone()) }
}

fn place_of(plan: &Plan, address: SocketAddr) -> Result<ping::Place, String> {
    ping::Place::parse(&address.to_string(), Kind::Udp, Family::Any, &plan.stop)
        .map_err(|error| error.to_string())
}

fn pings(plan: &Plan, address: SocketAddr) -> Result<ping::Plan, String> {
    let sizes = u32::try_from(plan.sizes.len()).unwrap_or(1);
    Ok(ping::Plan {
        kind: Kind::Udp,
        is_plain: false,
        place: place_of(plan, address)?,
        // Each size has its time.
        amount: Amount::Time(plan.span * sizes),
        warm_up: Amount::Time(plan.span / 10),
        sizes: plan.sizes.clone(),
        interval: plan.interval,
        arrivals: Process::Poisson,
        streams: plan.streams,
        buckets: Buckets::default(),
        token: Some(TOKEN.to_owned()),
        tls: TlsChoice { trust: Trust::System, resumes: true },
        timeout: TIMEOUT,
        busy_poll: false,
        pin: None,
        realtime: false,
        seed: Some(1),
        peer: String::new(),
        stop: plan.stop.clone(),
    })
}

fn flow_of(plan: &Plan, address: SocketAddr, protocol: Protocol) -> Result<flow::Plan, String> {
    let (per_thread, bytes) = match protocol {
        Protocol::Tcp => (CONNECTIONS, TCP_BYTES),
        Protocol::Udp => (1, UDP_BYTES),
    };
    Ok(flow::Plan {
        protocol,
        place: place_of(plan, address)?,
        is_back: false,
        mappings: vec![Mapping { threads: 1, core: None, host: None }],
        per_thread,
        bytes,
        rate: None,
        counted: plan.span,
        warm_up: plan.span / 10,
        cool_down: Duration::from_millis(100),
        remote_core: None,
        work: Duration::ZERO,
        style: Style::Recv,
        send_style: SendStyle::One,
        token: Some(TOKEN.to_owned()),
        timeout: TIMEOUT,
        peer: String::new(),
        stop: plan.stop.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::{Path, Plan, run};

    fn short() -> Plan {
        Plan { span: Duration::from_millis(300), rounds: 1, streams: 2, ..Plan::default() }
    }

    #[test]
    fn every_path_is_measured_or_says_why_not() {
        let mut told = 0;
        let result = run(&short(), &mut |_| told += 1).unwrap();
        assert_eq!((result.rows.len(), &*result.ended, told), (Path::ALL.len(), "", 5));
        for row in &result.rows {
            if !row.why.is_empty() {
                // Namespaces take rights, a translation its program.
                assert!(row.path != Path::Loopback && row.rounds.is_empty(), "{row:?}");
                continue;
            }
            let round = &row.rounds[0];
            for bytes in [64, 256, 1_024] {
                assert!(round.ping(bytes).is_some_and(|it| it.p50_ns > 0), "{row:?}");
            }
            for protocol in ["tcp", "udp"] {
                assert!(round.flow(protocol).is_some_and(|it| it.bits_per_s > 0.0), "{row:?}");
            }
        }
    }

    #[test]
    fn who_is_stopped_keeps_what_is_whole() {
        let plan = Plan { paths: vec![Path::Loopback], span: Duration::from_mins(1), ..short() };
        plan.stop.store(true, Ordering::Relaxed);
        let result = run(&plan, &mut |_| {}).unwrap();
        assert!(result.ended == "interrupted" && result.rows[0].rounds.is_empty());
    }

    #[test]
    fn what_cannot_be_done_is_said_before() {
        for (plan, flag) in [
            (Plan { sizes: vec![1_401], ..short() }, "--size"),
            (Plan { sizes: vec![], ..short() }, "--size"),
            (Plan { streams: 0, ..short() }, "--streams"),
            (Plan { span: Duration::ZERO, ..short() }, "--time"),
            (Plan { interval: Duration::from_secs(1), ..short() }, "--interval"),
            (Plan { rounds: 0, ..short() }, "--rounds"),
        ] {
            let error = run(&plan, &mut |_| {}).unwrap_err().to_string();
            assert!(error.contains(flag), "{flag}: {error}");
        }
    }
}
