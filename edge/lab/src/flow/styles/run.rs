//! All cases in turn, round after round; every other round backwards, so that a drift meets all alike.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use engine::datagram::{SendStyle, Style};

use super::super::work::Work;
use super::measure::{Case, Rig, measure};
use super::place::Place;
use super::plan::{Plan, PlanError};
use super::result::{Path, Row, STYLES_VERSION, Settings, Side, StylesResult};
use crate::measure::Environment;
use crate::measure::number::group_f64;
use crate::measure::processors::cpus;

/// What feeds the receivers of one flow: datagrams that can be batched.
const ONE_FLOW: SendStyle = SendStyle::Gso;
/// And of many, when each sends one datagram in its turn, so that nothing can be.
const MANY_FLOWS: SendStyle = SendStyle::One;
/// What the senders that are compared send to: what is least in their way.
const RECEIVER: Style = Style::Gro;

/// Measures everything. `tell` is told each step in words.
///
/// # Errors
/// When the plan cannot be done; what the system refuses is said by the rows.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> Result<StylesResult, PlanError> {
    plan.check()?;
    let environment = Environment::read();
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let processors = match *cpus() {
        [one, other, ..] => Some([one, other]),
        _ => None,
    };
    let mut rows = rows(plan);
    let mut places: BTreeMap<Path, Result<Place, String>> = BTreeMap::new();
    for path in &plan.paths {
        places.entry(*path).or_insert_with(|| Place::new(*path));
    }
    for (row, _) in &mut rows {
        if let Some(Err(why)) = places.get(&row.path) {
            row.why.clone_from(why);
        }
    }
    let work = Work::of(plan.work);
    let is_stopped = || plan.stop.load(Ordering::Relaxed);
    for round in 1..=plan.rounds {
        let mut order: Vec<_> = rows.iter_mut().collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for (row, case) in order {
            let Some(Ok(place)) = places.get(&row.path) else { continue };
            if is_stopped() || !row.why.is_empty() {
                continue;
            }
            let name = format!("round {round} of {}: {}", plan.rounds, name(row));
            match measure(Rig { plan, place, processors, work }, *case) {
                // Of a measurement that was cut short nothing is kept.
                _ if is_stopped() => {}
                Ok(mut measured) => {
                    measured.round = round;
                    let rate = group_f64(measured.per_cpu_s(row.side));
                    tell(&format!("{name}: {rate} per CPU-second"));
                    row.rounds.push(measured);
                }
                Err(why) => {
                    tell(&format!("{name}: {why}"));
                    row.why = why;
                }
            }
        }
    }
    Ok(StylesResult {
        version: STYLES_VERSION,
        command: "flow styles".to_owned(),
        unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        ended: if is_stopped() { "interrupted".to_owned() } else { String::new() },
        settings: settings(plan, processors),
        rows: rows.into_iter().map(|(row, _)| row).collect(),
        environment,
    })
}

fn settings(plan: &Plan, processors: Option<[usize; 2]>) -> Settings {
    Settings {
        span_s: plan.span.as_secs_f64(),
        rounds: plan.rounds,
        bytes: plan.bytes,
        flows: plan.flows,
        bursts: plan.bursts,
        rate: plan.rate.unwrap_or(0.0),
        work_ns: u64::try_from(plan.work.as_nanos()).unwrap_or(u64::MAX),
        gather_us: u64::try_from(plan.gather.as_micros()).unwrap_or(u64::MAX),
        batch: plan.batch,
        buffer_bytes: plan.buffer_bytes,
        processors,
    }
}

/// The rows in the order in which they are told, each with what is measured for it.
fn rows(plan: &Plan) -> Vec<(Row, Case)> {
    let mut rows = Vec::new();
    for path in &plan.paths {
        let mut flows = vec![(1, ONE_FLOW)];
        if plan.flows > 1 {
            let has_bursts = plan.bursts[1] > 1;
            flows.push((plan.flows, if has_bursts { ONE_FLOW } else { MANY_FLOWS }));
        }
        for (flows, send_style) in flows {
            for style in &plan.styles {
                let case = Case { style: *style, send_style, flows };
                rows.push((row(*path, Side::Receive, case), case));
            }
        }
        for send_style in &plan.send_styles {
            let case = Case { style: RECEIVER, send_style: *send_style, flows: 1 };
            rows.push((row(*path, Side::Send, case), case));
        }
    }
    rows
}

fn row(path: Path, side: Side, case: Case) -> Row {
    let (receiver, sender) = (case.style.to_string(), case.send_style.to_string());
    let (style, other) = match side {
        Side::Receive => (receiver, sender),
        Side::Send => (sender, receiver),
    };
    Row { path, flows: case.flows, side, style, other, why: String::new(), rounds: Vec::new() }
}

fn name(row: &Row) -> String {
    let flows = if row.flows == 1 { "one flow".to_owned() } else { format!("{} flows", row.flows) };
    let side = match row.side {
        Side::Receive => "receiving by",
        Side::Send => "sending by",
    };
    format!("{}, {flows}, {side} {}", row.path.name(), row.style)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use engine::datagram::{SendStyle, Style};

    use super::{Path, Plan, Side, rows, run};

    #[test]
    fn rows_stand_in_the_order_in_which_they_are_compared() {
        let plan = Plan {
            styles: vec![Style::Recv, Style::Gro],
            send_styles: vec![SendStyle::One],
            ..Plan::default()
        };
        let told: Vec<_> = rows(&plan)
            .iter()
            .map(|(row, _)| format!("{} {} {}", row.path.name(), row.flows, row.style))
            .collect();
        let one = |path: &str| {
            ["1 recv", "1 gro", "64 recv", "64 gro", "1 one"].map(|it| format!("{path} {it}"))
        };
        assert_eq!(told, [one("loopback"), one("veth")].concat());
        let others = |plan: &Plan| rows(plan)[2].0.other.clone();
        assert_eq!(others(&plan), "one");
        assert_eq!(others(&Plan { bursts: [64, 2], ..plan.clone() }), "gso");
        assert_eq!(rows(&Plan { flows: 1, ..plan }).len(), 6);
    }

    #[test]
    fn every_style_is_measured_or_says_why_not() {
        let plan = Plan {
            span: Duration::from_millis(100),
            rounds: 1,
            flows: 1,
            // Slow, so that what is sent is what a busy machine can receive.
            rate: Some(20_000.0),
            work: Duration::from_nanos(100),
            ..Plan::default()
        };
        let mut told = 0;
        let result = run(&plan, &mut |_| told += 1).unwrap();
        assert_eq!((result.rows.len(), result.ended.as_str()), (2 * (7 + 4), ""));
        for row in &result.rows {
            if !row.why.is_empty() {
                // What works everywhere is missing nowhere.
                let may_miss = row.path == Path::Veth || row.style.starts_with("uring");
                assert!(may_miss || row.style == "xdp", "{row:?}");
                continue;
            }
            let rounds: Vec<_> = row.rounds.iter().map(|it| it.round).collect();
            assert_eq!(rounds, [1], "{row:?}");
            for round in &row.rounds {
                assert!(round.received > 0 && round.sent > 0 && round.span_s >= 0.1, "{row:?}");
                assert!(round.receiver.cpu_s > 0.0 && round.per_cpu_s(Side::Receive) > 0.0);
                assert!(round.truncated == 0 && !round.series.is_empty(), "{row:?}");
            }
        }
        assert!(told >= 10, "{told}");
    }

    #[test]
    fn who_is_stopped_keeps_what_is_whole() {
        let plan =
            Plan { span: Duration::from_mins(10), paths: vec![Path::Loopback], ..Plan::default() };
        plan.stop.store(true, Ordering::Relaxed);
        let result = run(&plan, &mut |_| {}).unwrap();
        assert_eq!(result.ended, "interrupted");
        assert!(result.rows.iter().all(|row| row.rounds.is_empty() && row.why.is_empty()));
    }
}
