//! A comparison of paths for a terminal, as a table of values, and as a page.

use std::fmt::Write as _;

use super::place::Path;
use super::result::{PathRound, PathRow, PathsResult};
use crate::measure::chart::{Bar, Bars, Dress};
use crate::measure::number::{bits, seconds_text, time_f64};
use crate::measure::page::{self, Mood, badge, banner, figure, stamp};
use crate::measure::percentiles::TOO_FEW;
use crate::measure::spread::Spread;
use crate::measure::text::escape;

/// The columns after the path's name.
fn heads(result: &PathsResult) -> Vec<String> {
    let mut heads = Vec::new();
    for bytes in &result.settings.sizes {
        heads.extend([format!("{bytes} B p50"), "p99".to_owned(), "over wire".to_owned()]);
    }
    heads.extend(["TCP", "UDP", "lost"].map(str::to_owned));
    heads
}

fn cell(spread: Option<Spread>, write: fn(f64) -> String) -> String {
    spread.map_or_else(|| TOO_FEW.to_owned(), |it| it.cell(write).line())
}

fn p50(row: &PathRow, bytes: u32) -> Option<Spread> {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    row.spread(|it| Some(it.ping(bytes)?.p50_ns as f64))
}

fn rate(row: &PathRow, protocol: &str) -> Option<Spread> {
    row.spread(|it| Some(it.flow(protocol)?.bits_per_s))
}

/// How much longer than over a wire.
fn over_wire(result: &PathsResult, row: &PathRow, bytes: u32) -> String {
    let wire = result.rows.iter().find(|it| it.path == Path::Wire && row.path > Path::Wire);
    let median = |row: &PathRow| p50(row, bytes).map(|it| it.median);
    match (wire.and_then(median), median(row)) {
        (Some(wire), Some(ns)) => {
            let sign = if ns < wire { "-" } else { "+" };
            format!("{sign}{}", time_f64((ns - wire).abs()))
        }
        _ => String::new(),
    }
}

fn cells(result: &PathsResult, row: &PathRow) -> Vec<String> {
    let mut cells = vec![row.path.name().to_owned()];
    if row.rounds.is_empty() {
        cells.push(if row.why.is_empty() { "not measured" } else { &row.why }.to_owned());
        return cells;
    }
    for bytes in &result.settings.sizes {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let p99 = row.spread(|it| Some(it.ping(*bytes)?.p99()? as f64));
        cells.extend([
            cell(p50(row, *bytes), time_f64),
            cell(p99, time_f64),
            over_wire(result, row, *bytes),
        ]);
    }
    let lost = row.spread(|it: &PathRound| it.flow("udp")?.lost);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    cells.extend([cell(rate(row, "tcp"), bits), cell(rate(row, "udp"), bits), cell(lost, percent)]);
    cells
}

fn how(result: &PathsResult) -> String {
    let it = &result.settings;
    let every = if it.interval_s > 0.0 {
        format!("each every {} in the mean", time_f64(it.interval_s * 1e9))
    } else {
        "back to back".to_owned()
    };
    format!(
        "Round trips of UDP, {} at one time, {every}, {} for each size; then {} of TCP over 8 connections, and \
         as long of datagrams of 1,024 bytes as fast as one thread sends them; {} rounds, median and range. Both ends \
         are on this machine, in network namespaces with veth pairs for cables, so that what counts are the \
         differences: `over wire` is what stands between players and a server that has the machine's network.",
        it.streams,
        seconds_text(it.span_s),
        seconds_text(it.span_s),
        it.rounds,
    )
}

/// The result for a terminal.
#[must_use]
pub fn text(result: &PathsResult) -> String {
    let head = std::iter::once("path".to_owned()).chain(heads(result)).collect();
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(result.rows.iter().map(|it| cells(result, it))).collect();
    let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
    // What says why there is nothing takes the room that it needs.
    for row in rows.iter().filter(|row| row.len() > 2) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in &rows {
        let pad = |(cell, width): (&String, &usize)| match row.len() {
            2 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        };
        let line: Vec<String> = row.iter().zip(&widths).map(pad).collect();
        out.push_str(line.join("  ").trim_end());
        out.push('\n');
    }
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", how(result));
    if !result.ended.is_empty() {
        let _ = writeln!(out, "ended early: {}", result.ended);
    }
    out
}

/// A line for each size and flow of each round; times in microseconds.
#[must_use]
pub fn csv(result: &PathsResult) -> String {
    let mut out =
        String::from("path,round,what,bytes,p50_us,p99_us,p999_us,count,lost,bits_per_s\n");
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let us = |ns: u64| ns as f64 / 1e3;
    for row in &result.rows {
        for round in &row.rounds {
            let name = format!("{},{}", row.path.name(), round.round);
            for it in &round.pings {
                let (at, bytes, lost) = (&it.times, it.bytes, it.lost);
                // Writing to a String cannot fail.
                let _ = writeln!(
                    out,
                    "{name},ping,{bytes},{:.3},{:.3},{:.3},{},{lost},",
                    us(at.p50_ns),
                    us(at.p99_ns),
                    us(at.p999_ns),
                    at.count
                );
            }
            for it in &round.flows {
                let lost = it.lost.map_or_else(String::new, |it| format!("{it:.6}"));
                let _ = writeln!(out, "{name},{},,,,,,{lost},{:.0}", it.protocol, it.bits_per_s);
            }
        }
    }
    out
}

/// The page.
#[must_use]
pub fn report(result: &PathsResult) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, result);
    out
}

fn write_page(out: &mut String, result: &PathsResult) -> std::fmt::Result {
    page::open(out, "throng host paths")?;
    let stamp = escape(&stamp(result.unix_ms / 1_000));
    write!(out, "<header><p class=\"kind\"><span>throng host paths · {stamp}</span>")?;
    let missing = result.rows.iter().filter(|it| it.rounds.is_empty()).count();
    if missing > 0 {
        badge(out, Mood::Warn, &format!("{missing} of {} not measured", result.rows.len()))?;
    }
    write!(
        out,
        "</p><h1>What it costs to give a server a network of its own</h1><p class=\"how\">{}</p></header>",
        escape(&how(result))
    )?;
    if !result.ended.is_empty() {
        banner(out, Mood::Bad, "Ended early.", &result.ended)?;
    }
    out.push_str("<section class=\"charts\">");
    for bytes in &result.settings.sizes {
        let name = format!("Round trips of {bytes} bytes");
        figure(out, &name, "median", &bars(result, |row| p50(row, *bytes), time_f64))?;
    }
    figure(out, "TCP", "goodput", &bars(result, |row| rate(row, "tcp"), bits))?;
    figure(out, "UDP", "goodput", &bars(result, |row| rate(row, "udp"), bits))?;
    out.push_str("</section>");
    let heads = heads(result);
    let heads: Vec<&str> =
        std::iter::once("path").chain(heads.iter().map(String::as_str)).collect();
    let rows: Vec<Vec<String>> = result
        .rows
        .iter()
        .map(|row| {
            let mut cells = cells(result, row);
            cells.resize(heads.len(), String::new());
            cells
        })
        .collect();
    page::table(out, ("Paths", 1), &heads, &rows)?;
    page::origin(out, &result.environment)?;
    page::close_with(out, result)
}

fn bars(
    result: &PathsResult,
    of: impl Fn(&PathRow) -> Option<Spread>,
    write: fn(f64) -> String,
) -> String {
    let bar = |(colour, row): (usize, &PathRow)| {
        let spread = of(row)?;
        Some(Bar {
            label: row.path.name().to_owned(),
            text: spread.cell(write).line(),
            dress: Dress { colour, dash: 0 },
            value: spread.median,
            lowest: spread.lowest,
            highest: spread.highest,
            is_invalid: false,
        })
    };
    Bars { bars: result.rows.iter().enumerate().filter_map(bar).collect() }.svg()
}

#[cfg(test)]
mod tests {
    use super::super::result::{FlowRate, PathRound, PathRow, PathsResult, Settings, SizeTimes};
    use super::{Path, csv, report, text};
    use crate::measure::Percentiles;

    fn made_up() -> PathsResult {
        let round = |p50_ns| {
            let times =
                Percentiles { count: 1_000, p50_ns, p99_ns: 2 * p50_ns, ..Percentiles::default() };
            let udp =
                FlowRate { protocol: "udp".to_owned(), bits_per_s: 1e9, ..FlowRate::default() };
            let tcp =
                FlowRate { protocol: "tcp".to_owned(), bits_per_s: 4e9, ..FlowRate::default() };
            let pings = vec![SizeTimes { bytes: 64, times, lost: 0 }];
            PathRound { round: 1, pings, flows: vec![tcp, udp] }
        };
        let row = |path, p50_ns: Option<u64>, why: &str| PathRow {
            path,
            why: why.to_owned(),
            rounds: p50_ns.map(round).into_iter().collect(),
        };
        PathsResult {
            settings: Settings {
                sizes: vec![64],
                streams: 8,
                rounds: 1,
                span_s: 1.0,
                interval_s: 0.01,
            },
            rows: vec![
                row(Path::Loopback, Some(10_000), ""),
                row(Path::Wire, Some(13_000), ""),
                row(Path::Bridge, Some(16_200), ""),
                row(Path::Translation, None, "takes <nft>"),
            ],
            ..PathsResult::default()
        }
    }

    #[test]
    fn paths_stand_side_by_side() {
        let told = text(&made_up());
        for wanted in ["loopback", "16.2 µs", "+3.20 µs", "4.00 Gb/s", "translation  takes <nft>"]
        {
            assert!(told.contains(wanted), "{wanted}\n{told}");
        }
        assert_eq!(csv(&made_up()).lines().count(), 1 + 3 * 3);
        let page = report(&made_up());
        assert!(page.contains("takes &lt;nft&gt;") && !page.contains("takes <nft>"));
        assert_eq!(page.matches("<figure>").count(), 3);
        let json = page.split_once("id=\"result\">").unwrap().1.split_once("</script>").unwrap().0;
        let read: PathsResult = serde_json::from_str(json).unwrap();
        assert_eq!(read.rows.len(), 4);
    }
}
