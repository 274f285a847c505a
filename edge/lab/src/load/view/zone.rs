//! What pilots of the zone were told, as text: the claim with its definition, and what stands beside it.
//!
//! In: a result. Out: lines, and the rows that the page has too.

use std::fmt::Write as _;

use super::table::paragraph;
use crate::load::result::{Bounds, Summary, ZoneSummary};
use crate::measure::number::{bits, bytes_f64, float, group, time, time_f64};
use crate::measure::percentiles::TOO_FEW;

pub(super) fn text(out: &mut String, summary: &Summary, zone: &ZoneSummary) -> std::fmt::Result {
    writeln!(out, "{}", zone.claim())?;
    paragraph(out, "  ", &format!("({})", zone.definition()))?;
    for (name, value) in rows(summary, zone) {
        paragraph(out, &format!("  {name}: "), &value)?;
    }
    Ok(())
}

/// What the bytes are that a pilot receives.
pub(super) const WITH: &str = "with what carries it";

/// Names and values.
pub(super) fn rows(summary: &Summary, zone: &ZoneSummary) -> Vec<(&'static str, String)> {
    let per_s = |count: u64| float(count) / summary.counted_s.max(1e-9);
    let per_core = match (zone.updates_per_core(), zone.server_cores) {
        (Some(it), Some(cores)) => {
            format!("{} per second, of {cores} that the server may run on", group_mean(it))
        }
        _ => "not known: the server's process is not".to_owned(),
    };
    let mut rows = vec![
        ("per allocated core", per_core),
        (
            "packets",
            format!(
                "{} snapshots per second, of {} and {:.1} application messages each; {} ships in sight in \
                 the mean",
                group_mean(per_s(zone.snapshots)),
                bytes_f64(zone.snapshot_bytes),
                float(zone.updates) / float(zone.snapshots.max(1)),
                group_mean(zone.in_sight),
            ),
        ),
        ("a pilot receives", format!("{} ({WITH})", bits(zone.pilot_bytes_per_s * 8.0))),
        ("carried by", carried_by(zone)),
        ("staleness", staleness(zone)),
        ("view error", view_error(zone)),
        (
            "checked",
            format!(
                "{} updates the same as the ship's own pilot was told, {} different; of {} samples \
                 nothing was known",
                group(zone.same),
                group(zone.different),
                group(zone.unknown),
            ),
        ),
        ("in sight", in_sight(zone)),
        (
            "ticks",
            format!(
                "{:.2} per second of {}; time at {:.0} % when slowest; {} snapshots came after a newer \
                 one, {} summaries",
                zone.ticks_per_s,
                zone.tick_rate_hz,
                f64::from(zone.tau_permille) / 10.0,
                group(zone.old),
                group(zone.summaries),
            ),
        ),
    ];
    rows.extend(server_rows(zone));
    rows
}

/// Why nothing is known of the server's ticks.
const NO_METRICS: &str = "not known: they are read where --server starts a server that has metrics \
     (--metrics.prometheus_port) and could be asked when the counted time began and ended";

/// Whether pilots are told of the ships that they should see.
fn in_sight(zone: &ZoneSummary) -> String {
    let known = zone.seen + zone.unseen;
    let told = match known {
        0 => "no ship that was looked for had been within sight for 160 ticks".to_owned(),
        _ => format!(
            "of {} ships that had been within sight for 160 ticks pilots had not been told of {}",
            group(known),
            group(zone.unseen),
        ),
    };
    format!("{told}; {} were still known 160 ticks after they had gone", group(zone.lingering))
}

/// What the server says of itself.
fn server_rows(zone: &ZoneSummary) -> Vec<(&'static str, String)> {
    let Some(it) = &zone.server else {
        return vec![("server's ticks", NO_METRICS.to_owned())];
    };
    let ticks = format!(
        "late {}; cells took {} and packets {} of the fullest room's processor; {} held, {} slowed",
        bounds(&it.late),
        bounds(&it.took),
        bounds(&it.packets),
        group(it.held),
        group(it.slowed),
    );
    let partition = format!(
        "{} to {} cells, {} splits, {} merges, {} borders moved; {} hand-overs, {} faults; {} shows \
         skipped, {} packets held",
        group(it.cells.0),
        group(it.cells.1),
        group(it.splits),
        group(it.merges),
        group(it.border_moves),
        group(it.hand_overs),
        group(it.faults),
        group(it.shows_skipped),
        group(it.packets_held),
    );
    let mut rows = vec![("server's ticks", ticks), ("partition", partition)];
    if let (Some(ns), Some(share)) = (it.fullest_room_ns(), it.fullest_share()) {
        let text = format!(
            "{} of processor time for its cells in a tick, {:.0} % of what all rooms need, in the mean of all \
             seconds",
            time_f64(ns),
            share * 100.0,
        );
        rows.push(("the fullest room", text));
    }
    rows
}

fn group_mean(count: f64) -> String {
    crate::measure::number::group_f64(count)
}

/// Which way snapshots took.
fn carried_by(zone: &ZoneSummary) -> String {
    if zone.datagrams == 0 {
        return "WebSocket".to_owned();
    }
    let all = zone.datagrams + zone.datagrams_lost;
    format!(
        "datagrams (UDP): {} of {} snapshots; {} of {} datagrams were lost",
        group(zone.by_datagram),
        group(zone.snapshots),
        group(zone.datagrams_lost),
        group(all),
    )
}

fn staleness(zone: &ZoneSummary) -> String {
    let it = &zone.staleness;
    let p99 = it.p99().map_or(TOO_FEW.to_owned(), time);
    format!("p50 {}, p99 {p99}, max {}", time(it.p50_ns), time(it.max_ns))
}

fn view_error(zone: &ZoneSummary) -> String {
    let it = &zone.view_error;
    format!("p50 {}, p99 {}, max {}", length(it.p50_mm), length(it.p99_mm), length(it.max_mm))
}

/// Millimetres for people.
pub(super) fn length(mm: u64) -> String {
    length_f64(float(mm))
}

pub(super) fn length_f64(mm: f64) -> String {
    if mm < 1_000.0 { format!("{mm:.0} mm") } else { format!("{:.2} m", mm / 1_000.0) }
}

fn bounds(it: &Bounds) -> String {
    let up_to =
        |us: Option<u64>| us.map_or(TOO_FEW.to_owned(), |us| format!("≤ {}", time(us * 1_000)));
    format!("p50 {}, p99 {}, p99.9 {}", up_to(it.p50_us), up_to(it.p99_us), up_to(it.p999_us))
}
