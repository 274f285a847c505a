//! What a page of pilots in the zone has besides: application messages, staleness and view error over time,
//! and how the partition followed.

use std::collections::BTreeSet;

use super::charts::{draw, draw_measured, line, short};
use super::over_time::{Time, points_over, thin};
use crate::load::result::{Second, Summary, ZoneSecond, ZoneSummary};
use crate::load::view::zone::{WITH, length, length_f64, rows};
use crate::measure::chart::{Axis, COLOURS, HeatMap, Tell};
use crate::measure::number::{bits, float, group_f64, time, time_f64};
use crate::measure::page::{figure, pairs, tile};

/// Side of a bin, in metres.
const BIN_M: f64 = 64.0;

/// What the axis of view errors shows at least, in millimetres.
const ERROR_MM: f64 = 10.0;

pub(super) fn tiles(out: &mut String, zone: &ZoneSummary) -> std::fmt::Result {
    out.push_str("<section class=\"tiles\">");
    let note = "a second, decoded and checked";
    tile(out, "application messages", &group_f64(zone.updates_per_s), note)?;
    let per_cpu_s = zone.updates_per_cpu_s.map_or("–".to_owned(), group_f64);
    tile(out, "efficiency", &per_cpu_s, "of them per CPU-second of the server")?;
    if let Some(per_core) = zone.updates_per_core() {
        tile(out, "per core", &group_f64(per_core), "a second, for each core that it may run on")?;
    }
    let stale = zone.staleness.p99().map_or("–".to_owned(), time);
    tile(out, "staleness", &stale, "99th percentile")?;
    tile(out, "view error", &length(zone.view_error.p99_mm), "99th percentile")?;
    tile(out, "a pilot receives", &bits(zone.pilot_bytes_per_s * 8.0), WITH)?;
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
        it.zone.as_ref().map_or(0.0, |zone| float(zone.updates)) / it.length_s.max(1e-9)
    });
    let lines = vec![line("application messages", 0, true, per_s)];
    draw(out, summary, seconds, ("Application messages", "a second", &short), lines)?;
    let lines = vec![
        line("p50", 0, false, of(|it| float(it.stale_p50_ns))),
        line("p99", 1, false, of(|it| float(it.stale_p99_ns))),
    ];
    let note = "how old what is known of a ship is";
    draw(out, summary, seconds, ("Staleness", note, &time_f64), lines)?;
    // None at all is the best that there is, and no reason to leave it out.
    if zone.view_error.count > 0 {
        let lines = vec![
            line("p50", 0, false, of(|it| float(it.error_p50_mm))),
            line("p99", 1, false, of(|it| float(it.error_p99_mm))),
        ];
        let note = "how far from where it is believed a ship is";
        let named: (_, _, &Tell<'_>) = ("View error", note, &length_f64);
        draw_measured(out, summary, seconds, named, (lines, ERROR_MM))?;
    }
    let percent = |it: f64| format!("{it:.0} %");
    let lines = vec![line("time", 2, false, of(|it| f64::from(it.tau_permille) / 10.0))];
    let note = "100 % is not dilated; the slowest of each second";
    draw(out, summary, seconds, ("Speed of time", note, &percent), lines)?;
    if zone.server.is_some() {
        of_cells(out, summary, seconds)?;
    }
    out.push_str("</section>");
    Ok(())
}

/// How the partition followed, by what the server said of its cells.
fn of_cells(out: &mut String, summary: &Summary, seconds: &[Second]) -> std::fmt::Result {
    let of = |value: fn(&ZoneSecond) -> f64| {
        points_over(seconds, move |it| it.zone.as_ref().map_or(0.0, value))
    };
    if let Some(svg) = hot_spot(summary, seconds) {
        let note =
            "processor time of a tick for each 64 m from west to east; edges are cells' borders";
        figure(out, "Where the load is", note, &svg)?;
    }
    let rooms: BTreeSet<u16> = seconds
        .iter()
        .filter_map(|it| it.zone.as_ref())
        .flat_map(|it| it.rooms_us().into_keys())
        .collect();
    let line_of = |(colour, room): (usize, &u16)| {
        let points = points_over(seconds, |it| {
            let us = it.zone.as_ref().and_then(|zone| zone.rooms_us().get(room).copied());
            float(us.unwrap_or(0)) * 1e3
        });
        line(&format!("room {room}"), colour, false, points)
    };
    let lines =
        rooms.iter().take(COLOURS).enumerate().map(|(colour, room)| line_of((colour, room)));
    let note = "processor time of a tick for its cells, smoothed; an even partition has lines of one height";
    draw(out, summary, seconds, ("Load of rooms", note, &time_f64), lines.collect())?;
    let lines = vec![line("cells", 0, false, of(|it| float(it.cells)))];
    draw(out, summary, seconds, ("Cells", "at the end of each second", &short), lines)?;
    let lines = vec![line("ships", 5, true, of(|it| float(it.hand_overs)))];
    draw(out, summary, seconds, ("Hand-overs", "between cells, a second", &short), lines)
}

/// What cells cost from west to east, over time; none if nothing is known of them.
fn hot_spot(summary: &Summary, seconds: &[Second]) -> Option<String> {
    let mut cells = Vec::new();
    let mut side_m = 0.0_f64;
    for second in seconds {
        let Some(zone) = &second.zone else { continue };
        side_m = side_m.max(f64::from(zone.bins) * BIN_M);
        let edges = zone.map.iter().flat_map(|cell| [cell.area[0], cell.area[2]]);
        let edges: Vec<u16> = edges.collect::<BTreeSet<u16>>().into_iter().collect();
        for (from, to) in edges.iter().zip(edges.iter().skip(1)) {
            let over = zone.map.iter().filter(|it| it.area[0] <= *from && it.area[2] >= *to);
            let each_us: f64 = over
                .map(|it| {
                    f64::from(it.cost_us) / f64::from(it.area[2].saturating_sub(it.area[0]).max(1))
                })
                .sum();
            let (from_s, until_s) = (second.at_s - second.length_s, second.at_s);
            cells.push([
                from_s,
                until_s,
                f64::from(*from) * BIN_M,
                f64::from(*to) * BIN_M,
                each_us,
            ]);
        }
    }
    let time = Time::of(seconds, summary.series_unix_ms);
    let metres = |it: f64| format!("{it:.0} m");
    let tell_x = |at: f64| time.tell(at);
    let y = Axis::linear(side_m, metres);
    let (tell, shades): ((&Tell<'_>, &Tell<'_>), _) = ((&tell_x, &metres), time.shades(seconds));
    let (x, x_name) = (time.axis(), time.name());
    (!cells.is_empty()).then(|| HeatMap { x, y, x_name, cells, unit: " µs", shades, tell }.svg())
}

#[cfg(test)]
mod tests {
    use super::{charts, tables, tiles};
    use crate::load::record::Stage;
    use crate::load::result::{Second, Summary, ZoneCell, ZoneSecond, ZoneServer, ZoneSummary};

    #[test]
    fn the_page_shows_where_the_load_is_and_which_room_has_it() {
        let cell =
            |x0, x1, room, cost_us| ZoneCell { area: [x0, 0, x1, 16], room, ships: 9, cost_us };
        let second = |at: u32, map: Vec<ZoneCell>| Second {
            at_s: f64::from(at) + 1.0,
            length_s: 1.0,
            stage: Stage::Counted,
            zone: Some(ZoneSecond { updates: 5, bins: 16, cells: 2, map, ..ZoneSecond::default() }),
            ..Second::default()
        };
        let series = vec![
            second(0, vec![cell(0, 16, 0, 900)]),
            second(1, vec![cell(0, 6, 0, 400), cell(6, 16, 1, 500)]),
        ];
        let server = ZoneServer {
            splits: 1,
            fullest_room_us: vec![900, 500],
            all_rooms_us: vec![900, 900],
            ..ZoneServer::default()
        };
        let zone = ZoneSummary {
            updates_per_s: 5.0,
            server_cores: Some(1),
            server: Some(server),
            ..ZoneSummary::default()
        };
        let summary = Summary { series, counted_s: 2.0, ..Summary::default() };
        let mut page = String::new();
        tiles(&mut page, &zone).unwrap();
        tables(&mut page, &summary, &zone).unwrap();
        charts(&mut page, &summary, &zone).unwrap();
        for part in [
            "Where the load is",
            "Load of rooms",
            "room 1",
            "50 µs of 384 m to 1024 m",
            "per allocated core",
            "1 splits",
            "700 µs of processor time for its cells in a tick, 78 %",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert_eq!(page.matches("class=\"heat\"").count(), 3);
    }
    /// With 100 samples a second and more the 99th percentile of each of them may be nought.
    #[test]
    fn a_view_without_error_is_shown_and_one_that_nobody_checked_is_not() {
        let second = |at: u32| Second {
            at_s: f64::from(at) + 1.0,
            length_s: 1.0,
            zone: Some(ZoneSecond { updates: 5, ..ZoneSecond::default() }),
            ..Second::default()
        };
        let summary = Summary { series: (0..4).map(second).collect(), ..Summary::default() };
        let mut zone = ZoneSummary::default();
        let mut page = String::new();
        charts(&mut page, &summary, &zone).unwrap();
        assert!(page.contains("Application messages") && !page.contains("View error"), "{page}");
        zone.view_error.count = 720;
        page.clear();
        charts(&mut page, &summary, &zone).unwrap();
        assert!(page.contains("View error") && page.contains(">10 mm<"), "{page}");
    }
}
