//! `cargo xtask zone`: what the zone does in each of its scenarios, and as there are more pilots, with the server
//! on one processor and `throng load` on another.
//!
//! Data comes in from what `throng load zone` writes; it goes out as records (`record`), table.md, and a picture
//! of what a partition that follows the load is worth beside one that does not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::picture::{self, Along, Points, Upright};
use super::plan::THRONG;
use super::quiet;
use super::record::{self, Record};
use super::table::{Spread, whole};
use crate::docs;
use crate::repository::path_with;

/// The server of every scenario. It logs where its metrics are, which `throng load` reads there.
const SERVER: &str = "throng serve --data_dir data --metrics.prometheus_port 9100 \
                      --world.enabled true --world.players_max 5000 --world.ships_per_address 0";
/// Four rooms that may use a two-hundredth of a tick each for cells: a load that 1,000 ships are already.
const ROOMS: &str = " --engine.rooms 4 --world.cells_permille 5";

/// What to measure.
pub struct Request {
    /// Names of scenarios; none: all.
    pub cases: Vec<String>,
    /// Runs of each.
    pub rounds: usize,
    /// Drops the records of these scenarios that are there.
    pub is_anew: bool,
    /// Only writes table and picture.
    pub is_table: bool,
    /// Where records, table and picture go.
    pub out: PathBuf,
    /// The program; else a release build is made.
    pub throng: Option<PathBuf>,
}

/// A scenario.
struct Case {
    name: &'static str,
    title: &'static str,
    /// Arguments of `throng load`.
    load: &'static str,
    /// Options of the server, besides those of all.
    world: &'static str,
    warm_up_s: u32,
    /// Seconds that are counted; none where the scenario's phases say it.
    counted_s: Option<u32>,
}

const SPREAD: &str = " --world.side_m 2048";
const CROWD: &str = " --world.side_m 512";
const SPREAD_UDP: &str = " --world.side_m 2048 --datagram.enabled true --datagram.port 0";
const CROWD_UDP: &str = " --world.side_m 512 --datagram.enabled true --datagram.port 0";
/// 4,000 pilots are sent as many packets together as 1,000 at 20 ticks a second: what one processor of the generator can
/// check.
const SPREAD_SLOW: &str = " --world.side_m 2048 --world.tick_rate_hz 5";
const CROWD_SLOW: &str = " --world.side_m 512 --world.tick_rate_hz 5";
/// A quarter of the world, which is a cell of the fixed partition, holds the crowd for most of a minute.
const CIRCLE: &str = " --world.side_m 1536";
const CIRCLE_FIXED: &str = " --world.side_m 1536 --world.partition static";

const CASES: &[Case] = &[
    Case {
        name: "S1",
        title: "uniform cruise",
        load: "zone --players 1000 --set fleet=spread",
        world: SPREAD,
        warm_up_s: 15,
        counted_s: Some(30),
    },
    Case {
        name: "S2",
        title: "two fleets converge, pass and turn",
        load: "zone --players 1000 --set fleet=converge",
        world: " --world.side_m 1024",
        warm_up_s: 40,
        counted_s: Some(30),
    },
    Case {
        name: "S8",
        title: "the same, the partition fixed",
        load: "zone --players 1000 --set fleet=converge",
        world: " --world.side_m 1024 --world.partition static",
        warm_up_s: 40,
        counted_s: Some(30),
    },
    Case {
        name: "S2-one-cell",
        title: "the same in one room and one cell",
        load: "zone --players 1000 --set fleet=converge",
        world: " --world.side_m 1024",
        warm_up_s: 40,
        counted_s: Some(30),
    },
    Case {
        name: "circle",
        title: "one crowd that goes round the middle of the world",
        load: "zone --players 1000 --set fleet=circle",
        world: CIRCLE,
        warm_up_s: 40,
        counted_s: Some(60),
    },
    Case {
        name: "circle-fixed",
        title: "the same, the partition fixed",
        load: "zone --players 1000 --set fleet=circle",
        world: CIRCLE_FIXED,
        warm_up_s: 40,
        counted_s: Some(60),
    },
    Case {
        name: "S3",
        title: "one crowd",
        load: "zone --players 1000 --set fleet=crowd",
        world: CROWD,
        warm_up_s: 20,
        counted_s: Some(30),
    },
    Case {
        name: "S3-udp",
        title: "the same by datagrams",
        load: "zone --players 1000 --set fleet=crowd --set transport=datagrams",
        world: CROWD_UDP,
        warm_up_s: 20,
        counted_s: Some(30),
    },
    Case {
        name: "crowd-udp/1600",
        title: "1,600 pilots in one crowd, by datagrams",
        load: "zone --players 1600 --set fleet=crowd --set transport=datagrams",
        world: CROWD_UDP,
        warm_up_s: 20,
        counted_s: Some(30),
    },
    Case {
        name: "spread-udp/1400",
        title: "1,400 pilots spread, by datagrams",
        load: "zone --players 1400 --set fleet=spread --set transport=datagrams",
        world: SPREAD_UDP,
        warm_up_s: 15,
        counted_s: Some(30),
    },
    Case {
        name: "S4",
        title: "fast movers",
        load: "zone --players 1000 --set fleet=fast",
        world: SPREAD,
        warm_up_s: 15,
        counted_s: Some(30),
    },
    Case {
        name: "S5",
        title: "1,000 pilots, 5 % of whom are others each second",
        load: "zone-churn",
        world: SPREAD,
        warm_up_s: 30,
        counted_s: None,
    },
    Case {
        name: "illyriad-like",
        title: "1,000 pilots, each told of all others in each of 5 ticks a second",
        load: "zone --players 1000 --rate 5 --set fleet=crowd",
        world: " --world.side_m 256 --world.tick_rate_hz 5 --world.near_ships 1000 --world.packet_max_bytes 16384",
        warm_up_s: 20,
        counted_s: Some(30),
    },
    Case {
        name: "spread/250",
        title: "250 pilots spread",
        load: "zone --players 250 --set fleet=spread",
        world: SPREAD,
        warm_up_s: 10,
        counted_s: Some(20),
    },
    Case {
        name: "crowd/250",
        title: "250 pilots in one crowd",
        load: "zone --players 250 --set fleet=crowd",
        world: CROWD,
        warm_up_s: 20,
        counted_s: Some(20),
    },
    Case {
        name: "spread/4000",
        title: "4,000 pilots spread, 5 ticks a second",
        load: "zone --players 4000 --rate 5 --set fleet=spread",
        world: SPREAD_SLOW,
        warm_up_s: 40,
        counted_s: Some(20),
    },
    Case {
        name: "crowd/4000",
        title: "4,000 pilots in one crowd, 5 ticks a second",
        load: "zone --players 4000 --rate 5 --set fleet=crowd",
        world: CROWD_SLOW,
        warm_up_s: 40,
        counted_s: Some(20),
    },
];

impl Case {
    /// Whether the server has several rooms, so that there is a partition to look at.
    fn has_rooms(&self) -> bool {
        ["S1", "S2", "S4", "S5", "S8", "circle", "circle-fixed"].contains(&self.name)
    }

    fn words(&self) -> Vec<String> {
        let rooms = if self.has_rooms() { ROOMS } else { " --engine.rooms 1" };
        let mut words: Vec<String> = self.load.split(' ').map(str::to_owned).collect();
        words.extend(["--server".to_owned(), format!("{SERVER}{rooms}{}", self.world)]);
        words.extend(["--warmup".to_owned(), format!("{}s", self.warm_up_s)]);
        if let Some(counted_s) = self.counted_s {
            words.extend(["--duration".to_owned(), format!("{counted_s}s")]);
        }
        words
    }
}

/// Measures.
///
/// # Errors
/// If there is no such scenario, or a run fails.
pub fn run(ask: &Request) -> anyhow::Result<bool> {
    if let Some(name) = ask.cases.iter().find(|name| !CASES.iter().any(|it| it.name == **name)) {
        let known: Vec<_> = CASES.iter().map(|case| case.name).collect();
        bail!("there is no scenario `{name}`: {}", known.join(", "));
    }
    let is_meant =
        |case: &&Case| ask.cases.is_empty() || ask.cases.iter().any(|it| it == case.name);
    let cases: Vec<&Case> = CASES.iter().filter(is_meant).collect();
    let mut records = record::read(&ask.out)?;
    if !ask.is_table {
        if ask.is_anew {
            records.retain(|record| !cases.iter().any(|case| case.name == record.row));
        }
        let throng = docs::throng_of(ask.throng.as_deref())?;
        let scratch = std::env::temp_dir().join(format!("throng-zone-{}", std::process::id()));
        let done = (0..ask.rounds).try_for_each(|_| {
            cases.iter().try_for_each(|case| {
                // A clean folder for each: a zone goes on with what was saved.
                let _ = std::fs::remove_dir_all(&scratch);
                std::fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
                measure(case, (&throng, &scratch), &mut records)?;
                record::write(&ask.out, &records)
            })
        });
        let _ = std::fs::remove_dir_all(&scratch);
        done?;
    }
    let text = table(&records);
    std::fs::write(ask.out.join("table.md"), &text)?;
    if let Some(svg) = picture(&records) {
        std::fs::write(ask.out.join("partition.svg"), svg)?;
    }
    print!("\n{text}");
    Ok(true)
}

fn measure(
    case: &Case,
    (throng, scratch): (&Path, &Path),
    records: &mut Vec<Record>,
) -> anyhow::Result<()> {
    // Relative, as the record names it: folders of a machine are nobody's business.
    const OUT: &str = "run";
    let round = 1 + records.iter().filter(|it| it.row == case.name).count();
    print!("{:<14} round {round} ", case.name);
    let mut command = Command::new(throng);
    command.arg("load").args(case.words()).args(["--out", OUT]).current_dir(scratch);
    command.env("PATH", path_with(throng)?);
    quiet(&mut command).with_context(|| case.name)?;
    let mut result = record::read_run(&scratch.join(OUT))?.0;
    if result.pointer("/zone/server").is_none_or(Value::is_null) {
        bail!("{}: the server has not told of its metrics, or they did not answer", case.name);
    }
    // The seconds would be most of the record; what the picture needs of them is in the zone's part.
    for name in ["series", "series_unix_ms"] {
        result.as_object_mut().and_then(|fields| fields.remove(name));
    }
    let per_s = |name| number(&result, name).map_or("–".to_owned(), whole);
    let [rate, per_cpu_s] = ["/zone/updates_per_s", "/zone/updates_per_cpu_s"].map(per_s);
    let invalid = result["invalid"].as_array().map_or(0, Vec::len);
    println!("{rate}/s, {per_cpu_s} per CPU-second, {invalid} reasons to call it INVALID");
    records.push(Record {
        row: case.name.to_owned(),
        who: THRONG.to_owned(),
        round,
        place: 1,
        processor: record::processor(),
        beside: Vec::new(),
        result,
        histograms: BTreeMap::new(),
    });
    Ok(())
}

fn number(result: &Value, pointer: &str) -> Option<f64> {
    result.pointer(pointer)?.as_f64()
}

/// A figure of a run, and how it is written.
type Figure = (&'static str, fn(&Value) -> Option<f64>, fn(f64) -> String);

const FIGURES: &[Figure] = &[
    ("application messages a second", |it| number(it, "/zone/updates_per_s"), whole),
    ("per CPU-second of the server", |it| number(it, "/zone/updates_per_cpu_s"), whole),
    ("server, of one processor", server_share, percent),
    (
        "packets a second",
        |it| Some(number(it, "/zone/snapshots")? / number(it, "/counted_s")?),
        whole,
    ),
    (
        "of them by datagram",
        |it| Some(number(it, "/zone/by_datagram")? / number(it, "/zone/snapshots")?),
        percent,
    ),
    (
        "application messages in a packet",
        |it| Some(number(it, "/zone/updates")? / number(it, "/zone/snapshots")?),
        whole,
    ),
    (
        "datagrams lost of a million",
        |it| {
            let (lost, came) =
                (number(it, "/zone/datagrams_lost")?, number(it, "/zone/datagrams")?);
            (came > 0.0).then(|| lost / (lost + came) * 1e6)
        },
        whole,
    ),
    ("bytes of a packet", |it| number(it, "/zone/snapshot_bytes"), whole),
    ("a pilot receives, kbit/s", |it| Some(number(it, "/zone/pilot_bytes_per_s")? * 0.008), whole),
    ("ships in sight", |it| number(it, "/zone/in_sight"), whole),
    ("staleness p50, ms", |it| Some(number(it, "/zone/staleness/p50_ns")? / 1e6), tenths),
    ("staleness p99, ms", |it| Some(number(it, "/zone/staleness/p99_ns")? / 1e6), tenths),
    ("view error p50, mm", |it| number(it, "/zone/view_error/p50_mm"), whole),
    ("view error p99, mm", |it| number(it, "/zone/view_error/p99_mm"), whole),
    (
        "ships looked for in sight",
        |it| Some(number(it, "/zone/seen")? + number(it, "/zone/unseen")?),
        whole,
    ),
    (
        "never told of; not told to forget",
        |it| Some(number(it, "/zone/unseen")? + number(it, "/zone/lingering")?),
        whole,
    ),
    (
        "updates compared",
        |it| Some(number(it, "/zone/same")? + number(it, "/zone/different")?),
        whole,
    ),
    ("different", |it| number(it, "/zone/different"), whole),
    ("ticks a second", |it| number(it, "/zone/ticks_per_s"), hundredths),
    (
        "ticks late p99, ms at most",
        |it| Some(number(it, "/zone/server/late/p99_us")? / 1e3),
        tenths,
    ),
    (
        "cells of a tick p99, ms at most",
        |it| Some(number(it, "/zone/server/took/p99_us")? / 1e3),
        tenths,
    ),
    (
        "packets of a tick p99, ms at most",
        |it| Some(number(it, "/zone/server/packets/p99_us")? / 1e3),
        tenths,
    ),
    ("most cells", |it| number(it, "/zone/server/cells/1"), whole),
    ("splits", |it| number(it, "/zone/server/splits"), whole),
    ("merges", |it| number(it, "/zone/server/merges"), whole),
    ("borders moved", |it| number(it, "/zone/server/border_moves"), whole),
    ("hand-overs", |it| number(it, "/zone/server/hand_overs"), whole),
    ("cells of the fullest room, µs a tick", fullest_us, whole),
    ("its part of all", fullest_share, percent),
    (
        "the generator late p99, ms",
        |it| Some(number(it, "/generator/behind/p99_ns")? / 1e6),
        hundredths,
    ),
    ("generator, of one processor", |it| number(it, "/generator/cpu_share"), percent),
    ("runs; INVALID of them", invalid, whole),
];

/// Whether a run is INVALID; added up, not averaged.
fn invalid(result: &Value) -> Option<f64> {
    Some(if result["invalid"].as_array()?.is_empty() { 0.0 } else { 1.0 })
}

fn server_share(result: &Value) -> Option<f64> {
    let used = number(result, "/server/user_s")? + number(result, "/server/system_s")?;
    Some(used / number(result, "/server/wall_s")?)
}

fn seconds(result: &Value, name: &str) -> Vec<f64> {
    let values = result.pointer(name).and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
    Some(values.iter().sum::<f64>() / f64::from(count))
}

fn fullest_us(result: &Value) -> Option<f64> {
    mean(&seconds(result, FULLEST))
}

fn fullest_share(result: &Value) -> Option<f64> {
    let all = mean(&seconds(result, "/zone/server/all_rooms_us")).filter(|all| *all > 0.0)?;
    Some(fullest_us(result)? / all)
}

/// What the fullest room's cells cost, second by second.
const FULLEST: &str = "/zone/server/fullest_room_us";

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

/// All scenarios beside each other, those that grow in a table of their own.
fn table(records: &[Record]) -> String {
    let mut text = "Made by `cargo xtask zone` from the records beside it. Medians of the runs (lowest–highest).\n"
        .to_owned();
    for is_growth in [false, true] {
        let cases = CASES.iter().filter(|case| case.name.contains('/') == is_growth);
        let runs = |case: &'static Case| {
            let of: Vec<&Record> = records.iter().filter(|it| it.row == case.name).collect();
            (case, of)
        };
        let runs: Vec<_> = cases.map(runs).filter(|(_, runs)| !runs.is_empty()).collect();
        if runs.is_empty() {
            continue;
        }
        text.push_str("\n| |");
        for (case, _) in &runs {
            // Writing to a String cannot fail.
            let _ = write!(text, " {}: {} |", case.name, case.title);
        }
        text.push_str("\n|---|");
        runs.iter().for_each(|_| text.push_str("---:|"));
        text.push('\n');
        for figure in FIGURES {
            let _ = write!(text, "| {} |", figure.0);
            for (_, runs) in &runs {
                let _ = write!(text, " {} |", cell(figure, runs));
            }
            text.push('\n');
        }
    }
    text
}

fn cell((name, of, write): &Figure, runs: &[&Record]) -> String {
    let values: Vec<f64> = runs.iter().filter_map(|it| of(&it.result)).collect();
    if name.starts_with("runs;") {
        return format!("{}; {}", runs.len(), write(values.iter().sum()));
    }
    Spread::of(values).map_or("–".to_owned(), |spread| spread.text(write))
}

/// What the fullest room's cells cost, second by second, with a partition that follows and one that does not.
fn picture(records: &[Record]) -> Option<String> {
    let line = |(row, name): (&str, &str)| {
        let runs: Vec<Vec<f64>> = records
            .iter()
            .filter(|it| it.row == row)
            .map(|it| seconds(&it.result, FULLEST))
            .collect();
        let length = runs.iter().map(Vec::len).min().unwrap_or(0);
        let at = |second: usize| {
            let values = runs.iter().filter_map(|run| Some(run.get(second)? * 1e3)).collect();
            Some((u32::try_from(second + 1).ok()?, Spread::of(values)?))
        };
        (name.to_owned(), (0..length).filter_map(at).collect::<Vec<_>>())
    };
    let points: Points = [("circle-fixed", "fixed"), ("circle", "follows")].map(line).into();
    if points.iter().any(|(_, points)| points.len() < 2) {
        return None;
    }
    let along = Along { name: "second of the counted time", is_even: true };
    let upright = Upright { name: "CPU of a tick", unit: "µs", per: 1e3 };
    let title = "What the fullest of four rooms computes for a crowd that moves";
    Some(picture::svg(title, &along, &upright, &points))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::super::record::Record;
    use super::{CASES, picture, table};

    fn record(row: &str, round: usize, result: Value) -> Record {
        Record {
            row: row.to_owned(),
            who: "throng".to_owned(),
            round,
            place: 1,
            processor: BTreeMap::new(),
            beside: Vec::new(),
            result,
            histograms: BTreeMap::new(),
        }
    }

    fn result(fullest_us: &[u64], invalid: &[&str]) -> Value {
        json!({
            "invalid": invalid,
            "counted_s": 2.0,
            "zone": {
                "updates_per_s": 1_500.0,
                "updates": 3_000,
                "snapshots": 30,
                "server": { "fullest_room_us": fullest_us, "all_rooms_us": [40, 40] },
            },
        })
    }

    #[test]
    fn the_table_has_medians_and_counts_what_is_invalid() {
        let records = [
            record("S2", 1, result(&[10, 20], &[])),
            record("S2", 2, result(&[30, 20], &["late"])),
            record("crowd/250", 1, result(&[], &[])),
        ];
        let text = table(&records);
        for part in [
            "| application messages a second | 1,500 |",
            "| application messages in a packet | 100 |",
            "| cells of the fullest room, µs a tick | 20 (15–25) |",
            "| its part of all | 50.0 % (37.5 %–62.5 %) |",
            "| runs; INVALID of them | 2; 1 |",
            "crowd/250: 250 pilots in one crowd",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn the_picture_needs_both_sides() {
        let one = record("circle", 1, result(&[10, 20, 10], &[]));
        assert_eq!(picture(std::slice::from_ref(&one)), None);
        let svg = picture(&[one, record("circle-fixed", 1, result(&[30, 35, 33], &[]))]).unwrap();
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains(">fixed<") && svg.contains(">follows<"), "{svg}");
    }

    #[test]
    fn every_scenario_says_all_that_it_needs() {
        for case in CASES {
            let words = case.words().join(" ");
            assert!(words.contains("--server throng serve") && words.contains("--world.enabled"));
            assert_eq!(words.contains("--duration"), case.counted_s.is_some(), "{words}");
        }
    }
}
