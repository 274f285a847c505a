//! What a page of pilots in the zone has besides: application messages, staleness and view error over time,
//! and how the partition followed.

use super::charts::{draw, line, short};
use super::over_time::{points_over, thin};
use crate::load::result::{Second, Summary, ZoneSecond, ZoneSummary};
use crate::load::view::zone::{length, rows};
use crate::measure::number::{bits, float, group_f64, time, time_f64};
use crate::measure::page::{pairs, tile};

pub(super) fn tiles(out: &mut String, zone: &ZoneSummary) -> std::fmt::Result {
    out.push_str("<section class=\"tiles\">");
    let note = "a second, decoded and checked";
    tile(out, "application messages", &group_f64(zone.updates_per_s), note)?;
    let per_cpu_s = zone.updates_per_cpu_s.map_or("–".to_owned(), group_f64);
    tile(out, "efficiency", &per_cpu_s, "of them per CPU-second of the server")?;
    let stale = zone.staleness.p99().map_or("–".to_owned(), time);
    tile(out, "staleness", &stale, "99th percentile")?;
    tile(out, "view error", &length(zone.view_error.p99_mm), "99th percentile")?;
    let note = "WebSocket and envelope included";
    tile(out, "a pilot receives", &bits(zone.pilot_bytes_per_s * 8.0), note)?;
    out.push_str("</section>");
    Ok(())
}

pub(super) fn tables(out: &mut String, summary: &Summary, zone: &ZoneSummary) -> std::fmt::Result {
    pairs(out, "The zone, counted time", rows(summary, zone))
}

pub(super) fn charts(out: &mut String, summary: &Summary, zone: &ZoneSummary) -> std::fmt::Result {
    let seconds: Vec<Second> = thin(summary.series.iter().filter(|it| it.zone.is_some()));
    // A line needs two points.
    if seconds.len() < 2 {
        return Ok(());
    }
    let seconds = &seconds[..];
    let of = |value: fn(&ZoneSecond) -> f64| {
        points_over(seconds, move |it| it.zone.as_ref().map_or(0.0, value))
    };
    out.push_str("<section class=\"charts\">");
    let per_s = points_over(seconds, |it| {
        it.zone.map_or(0.0, |zone| float(zone.updates)) / it.length_s.max(1e-9)
    });
    let lines = vec![line("updates", 0, true, per_s)];
    draw(out, summary, seconds, ("Application messages", "a second", &short), lines)?;
    let lines = vec![
        line("p50", 0, false, of(|it| float(it.stale_p50_ns))),
        line("p99", 1, false, of(|it| float(it.stale_p99_ns))),
    ];
    let note = "how old what is known of a ship is";
    draw(out, summary, seconds, ("Staleness", note, &time_f64), lines)?;
    let metres = |it: f64| format!("{:.2} m", it / 1_000.0);
    let lines = vec![
        line("p50", 0, false, of(|it| float(it.error_p50_mm))),
        line("p99", 1, false, of(|it| float(it.error_p99_mm))),
    ];
    let note = "how far from where it is believed a ship is";
    draw(out, summary, seconds, ("View error", note, &metres), lines)?;
    let percent = |it: f64| format!("{it:.0} %");
    let lines = vec![line("time", 2, false, of(|it| f64::from(it.tau_permille) / 10.0))];
    let note = "100 % is not dilated; the slowest of each second";
    draw(out, summary, seconds, ("Speed of time", note, &percent), lines)?;
    if zone.server.is_some() {
        let lines = vec![line("cells", 0, false, of(|it| float(it.cells)))];
        draw(out, summary, seconds, ("Cells", "at the end of each second", &short), lines)?;
        let lines = vec![line("ships", 5, true, of(|it| float(it.hand_overs)))];
        draw(out, summary, seconds, ("Hand-overs", "between cells, a second", &short), lines)?;
    }
    out.push_str("</section>");
    Ok(())
}
