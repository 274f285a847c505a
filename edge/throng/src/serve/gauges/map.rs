//! The zone's cells as a page of the metrics port: an area for each, drawn where it lies, with its room, ships and
//! cost, so that repartition can be watched. A browser asks for it again each second; there is no script.
//!
//! In: what the zone's home tells of itself. Out: HTML; for programs, the same as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use server::stats::{CellShown, RoomStats};

/// Side of the picture, in pixels.
const SIDE: u32 = 720;
/// One colour for each room, again from the first on.
const HUES: [u16; 8] = [210, 25, 140, 280, 50, 330, 175, 95];

/// The page.
pub(super) fn page(rooms: &[Arc<RoomStats>], tick_rate_hz: u8) -> String {
    let mut out = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"1\">\
         <title>throng: cells of the zone</title><style>body{background:#05070d;color:#9fb4d0;\
         font:13px/1.5 ui-monospace,monospace;margin:16px}text{fill:#e8eefb;font-size:12px;\
         text-anchor:middle}rect{stroke:#e8eefb;stroke-width:1}</style>",
    );
    let map = rooms.iter().find_map(|room| room.zone.map.read());
    // Writing to a String cannot fail.
    let _ = match map {
        Some((tick, bins, cells)) => {
            let period_us = 1_000_000 / u32::from(tick_rate_hz.max(1));
            draw(&mut out, (tick, bins), &cells, period_us)
        }
        None => write!(out, "<p>There is no zone (world.enabled), or no tick of it yet."),
    };
    out + "</html>\n"
}

/// The same for programs: the tick, the bins of 64 m on a side of the world, and of each cell its first column
/// and row of bins and those behind the last, its room, its ships, and what a tick of it costs, smoothed, in
/// microseconds. `null` without a zone.
pub(super) fn json(rooms: &[Arc<RoomStats>]) -> String {
    let map = rooms.iter().find_map(|room| room.zone.map.read());
    map.map_or("null\n".to_owned(), |(tick, bins, cells)| write_json((tick, bins), &cells))
}

fn write_json((tick, bins): (u64, u16), cells: &[CellShown]) -> String {
    let cell = |it: &CellShown| {
        let CellShown { area, room, ships, cost_us } = it;
        format!("{{\"area\":{area:?},\"room\":{room},\"ships\":{ships},\"cost_us\":{cost_us}}}")
    };
    let cells: Vec<String> = cells.iter().map(cell).collect();
    format!("{{\"tick\":{tick},\"bins\":{bins},\"cells\":[{}]}}\n", cells.join(","))
}

fn draw(
    out: &mut String,
    (tick, bins): (u64, u16),
    cells: &[CellShown],
    period_us: u32,
) -> std::fmt::Result {
    let ships: u64 = cells.iter().map(|cell| u64::from(cell.ships)).sum();
    let many = if cells.len() == 1 { "cell" } else { "cells" };
    let mut rooms: BTreeMap<u16, u32> = BTreeMap::new();
    for cell in cells {
        *rooms.entry(cell.room).or_default() += cell.cost_us;
    }
    write!(
        out,
        "<p>tick {tick} · {} {many} · {ships} ships · {} m<br>each cell: its room, its ships, what a tick of it \
         takes of a tick's time; the fuller, the brighter</p><p>all of a room's cells:",
        cells.len(),
        u32::from(bins) * 64,
    )?;
    for (room, cost_us) in rooms {
        let permille = permille_of(cost_us, period_us);
        let (hue, whole, tenth) = (hue_of(room), permille / 10, permille % 10);
        write!(out, " <b style=\"color:hsl({hue} 60% 65%)\">room {room}</b> {whole}.{tenth} %")?;
    }
    write!(
        out,
        "</p><svg width=\"{SIDE}\" height=\"{SIDE}\" \
         viewBox=\"0 0 {SIDE} {SIDE}\">",
    )?;
    // North is up.
    let place = |line: u16| u32::from(line) * SIDE / u32::from(bins.max(1));
    for cell in cells {
        let [x0, y0, x1, y1] = cell.area.map(place);
        let permille = permille_of(cell.cost_us, period_us);
        let hue = hue_of(cell.room);
        let light = 12 + permille.min(1_000) * 38 / 1_000;
        let (left, top) = (x0, SIDE.saturating_sub(y1));
        let (width, height) = (x1.saturating_sub(x0), y1.saturating_sub(y0));
        write!(
            out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" \
             fill=\"hsl({hue} 60% {light}%)\"/><text x=\"{}\" y=\"{}\">room {}, {} ships, {}.{} %</text>",
            left + width / 2,
            top + height / 2,
            cell.room,
            cell.ships,
            permille / 10,
            permille % 10,
        )?;
    }
    out.push_str("</svg>");
    Ok(())
}

fn permille_of(cost_us: u32, period_us: u32) -> u32 {
    cost_us.saturating_mul(1_000) / period_us.max(1)
}

fn hue_of(room: u16) -> u16 {
    HUES[usize::from(room) % HUES.len()]
}

#[cfg(test)]
mod tests {
    use super::{CellShown, draw, json, page, write_json};

    #[test]
    fn each_cell_is_where_it_lies_with_what_it_costs() {
        let west = CellShown { area: [0, 0, 32, 64], room: 0, ships: 30, cost_us: 10_000 };
        let east = CellShown { area: [32, 0, 64, 64], room: 1, ships: 12, cost_us: 500 };
        let mut out = String::new();
        draw(&mut out, (9, 64), &[west, east], 50_000).unwrap();
        for part in [
            "tick 9 · 2 cells · 42 ships · 4096 m",
            "<rect x=\"0\" y=\"0\" width=\"360\" height=\"720\" fill=\"hsl(210 60% 19%)\"/>",
            "<rect x=\"360\" y=\"0\" width=\"360\" height=\"720\" fill=\"hsl(25 60% 12%)\"/>",
            "room 0, 30 ships, 20.0 %",
            "room 1, 12 ships, 1.0 %",
            "room 0</b> 20.0 % <b style=\"color:hsl(25 60% 65%)\">room 1</b> 1.0 %",
        ] {
            assert!(out.contains(part), "{part}\n{out}");
        }
    }

    #[test]
    fn programs_are_told_the_same() {
        let cell = CellShown { area: [0, 4, 8, 16], room: 1, ships: 30, cost_us: 900 };
        let text = r#"{"tick":9,"bins":16,"cells":[{"area":[0, 4, 8, 16],"room":1,"ships":30,"cost_us":900}]}"#;
        assert_eq!(write_json((9, 16), &[cell]).trim_end(), text);
    }

    #[test]
    fn without_a_zone_the_page_says_so() {
        assert!(page(&[], 20).contains("There is no zone"));
        assert_eq!(json(&[]), "null\n");
    }
}
