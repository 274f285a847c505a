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
use crate::doctor::{Tree, facts};
use crate::measure::Environment;
use crate::measure::number::group_f64;
use crate::measure::processors::cpus;

/// What feeds the receivers of one flow: datagrams that can be batched.
const ONE_FLOW: SendStyle = SendStyle::Gso;
/// And of many, when each sends one datagram in its turn, so that nothing can be.
const MANY_FLOWS: SendStyle = SendStyle::One;
/// And where datagrams come in fragments, which segments may not.
const FRAGMENTED: SendStyle = SendStyle::Mmsg;
/// The largest datagram that a frame of the veth pair carries over IPv4.
const FRAME_BYTES_MAX: usize = 1_472;
/// Why larger ones are not for [`Style::Xdp`], which takes whole datagrams only, and
/// [`SendStyle::Gso`].
const FRAGMENTS: &str = "a datagram above 1,472 bytes comes in fragments";
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
    let (processors, is_one_core) = processors(&Tree::here(), &cpus());
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
        settings: Settings { is_one_core, ..settings(plan, processors) },
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
        is_one_core: false,
    }
}

/// Processors of the sender and the receiver, of two cores if there are two, and whether they are of
/// one. Source: Documentation/admin-guide/cputopology.rst of Linux.
fn processors(tree: &Tree, cpus: &[usize]) -> (Option<[usize; 2]>, bool) {
    let [one, others @ ..] = cpus else { return (None, false) };
    let path = format!("/sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list");
    let siblings = facts::list(&tree.text_or_empty(&path)).unwrap_or_default();
    match others.iter().find(|it| !siblings.contains(it)) {
        Some(other) => (Some([*one, *other]), false),
        None => (others.first().map(|other| [*one, *other]), !others.is_empty()),
    }
}

/// The rows in the order in which they are told, each with what is measured for it.
fn rows(plan: &Plan) -> Vec<(Row, Case)> {
    let mut rows = Vec::new();
    for path in &plan.paths {
        let is_cut = *path == Path::Veth && plan.bytes > FRAME_BYTES_MAX;
        let one_flow = if is_cut { FRAGMENTED } else { ONE_FLOW };
        let mut flows = vec![(1, one_flow)];
        if plan.flows > 1 {
            let has_bursts = plan.bursts[1] > 1;
            flows.push((plan.flows, if has_bursts { one_flow } else { MANY_FLOWS }));
        }
        for (flows, send_style) in flows {
            for style in &plan.styles {
                let case = Case { style: *style, send_style, flows };
                let mut row = row(*path, Side::Receive, case);
                if is_cut && *style == Style::Xdp {
                    FRAGMENTS.clone_into(&mut row.why);
                }
                rows.push((row, case));
            }
        }
        for send_style in &plan.send_styles {
            let case = Case { style: RECEIVER, send_style: *send_style, flows: 1 };
            let mut row = row(*path, Side::Send, case);
            if is_cut && *send_style == SendStyle::Gso {
                FRAGMENTS.clone_into(&mut row.why);
            }
            rows.push((row, case));
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

    use super::{FRAGMENTS, Path, Plan, Side, processors, rows, run};
    use crate::doctor::tests::Recorded;

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
    fn what_comes_in_fragments_is_sent_otherwise_or_said() {
        let of = |bytes, paths| {
            let plan = Plan { bytes, paths, bursts: [64, 8], ..Plan::default() };
            rows(&plan).into_iter().map(|(row, _)| row).collect::<Vec<_>>()
        };
        for rows in [of(1_472, vec![Path::Veth]), of(2_000, vec![Path::Loopback])] {
            assert!(rows.iter().all(|row| row.why.is_empty()));
            assert!(rows.iter().all(|row| row.side == Side::Send || row.other == "gso"));
        }
        for row in of(1_473, vec![Path::Veth]) {
            let is_missing = row.style == "xdp" || (row.side == Side::Send && row.style == "gso");
            assert_eq!(row.why, if is_missing { FRAGMENTS } else { "" }, "{row:?}");
            assert!(row.side == Side::Send || row.other == "mmsg", "{row:?}");
        }
    }

    /// Of `-l 2k --path veth`.
    #[test]
    fn fragments_are_measured_over_the_pair() {
        let result = run(
            &Plan {
                span: Duration::from_millis(100),
                rounds: 1,
                bytes: 2_000,
                flows: 2,
                rate: Some(5_000.0),
                paths: vec![Path::Veth],
                styles: vec![Style::Recv, Style::Xdp],
                send_styles: vec![SendStyle::One, SendStyle::Gso],
                ..Plan::default()
            },
            &mut |_| {},
        )
        .unwrap();
        for row in &result.rows {
            if ["xdp", "gso"].contains(&row.style.as_str()) {
                assert!(row.rounds.is_empty() && !row.why.is_empty(), "{row:?}");
            } else if row.why.is_empty() {
                assert!(row.rounds.iter().all(|it| it.received > 0), "{row:?}");
            } else {
                // Without the rights to make a pair nothing is measured, and all say so.
                assert!(result.rows.iter().all(|it| it.why == row.why), "{row:?}");
            }
        }
    }

    #[test]
    fn sender_and_receiver_have_a_core_each_where_there_are_two() {
        let nothing = Recorded::of("styles", "").tree();
        assert_eq!(processors(&nothing, &[0, 1, 2]), (Some([0, 1]), false));
        let path = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
        let recorded = Recorded::of("styles", &format!("{path}\n\t0-1\n"));
        let tree = recorded.tree();
        assert_eq!(processors(&tree, &[0, 1, 2]), (Some([0, 2]), false));
        assert_eq!(processors(&tree, &[0, 1]), (Some([0, 1]), true));
        assert_eq!(processors(&tree, &[0]), (None, false));
        assert_eq!(processors(&tree, &[]), (None, false));
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
                assert!(round.truncated + round.unreadable == 0 && round.buffer_bytes > 0);
                assert!(!round.series.is_empty(), "{row:?}");
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
