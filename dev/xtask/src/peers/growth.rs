//! `cargo xtask growth`: what an operation costs the server's processor as there is more of
//! something: connections, matches, registered users, processors. A curve each, as a table and as a
//! picture.
//!
//! What is deliberately not here: other servers, and times. Data comes in from what `throng load`
//! writes; it goes out as records (`record`), table.md and an SVG for each curve.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::picture::{self, Along, Points, Upright};
use super::quiet;
use super::record::{self, Record};
use super::table::{Spread, per_cpu_second};
use crate::docs;
use crate::repository::{path_with, root};

/// Rounds of every curve: all points once, then all again.
const ROUNDS: usize = 3;
/// Seconds that are counted at each point.
const COUNTED_S: u32 = 5;
const WARM_UP_S: u32 = 2;

/// The line of those who are missing at a step, and register.
const REGISTER: &str = "register";
/// How many of them in a second.
const REGISTERED_PER_S: u32 = 20_000;

/// What to measure.
pub struct Request {
    /// Names of curves; none: all.
    pub curves: Vec<String>,
    /// Rounds of every curve.
    pub rounds: Option<usize>,
    /// Where records, table and pictures go.
    pub out: PathBuf,
    /// The program; else a release build is made.
    pub throng: Option<PathBuf>,
}

/// Lines of one picture over the same steps.
struct Curve {
    name: &'static str,
    title: &'static str,
    /// What there is more of.
    of: &'static str,
    steps: &'static [u32],
    lines: &'static [&'static str],
    /// Arguments of `throng load` for a line at a step.
    load: fn(line: &str, step: u32) -> Vec<String>,
    /// What an operation is.
    operation: &'static str,
}

const CURVES: &[Curve] = &[
    Curve {
        name: "connections",
        title: "WebSocket echo, 64 bytes, one in flight on each connection",
        of: "connections",
        steps: &[100, 300, 1_000, 3_000, 10_000, 18_000],
        lines: &["uring", "poll"],
        load: |line, step| {
            words(
                &format!("ws-echo --saturate --players {step}"),
                &format!("throng echo --driver {line}"),
            )
        },
        operation: "echo",
    },
    Curve {
        name: "matches",
        title: "matches of ten players, ten ticks a second, a message a second and player",
        of: "matches",
        steps: &[1, 5, 20, 100, 400, 1_500],
        lines: &["delivery"],
        load: |_, step| {
            let players = step * 10;
            let ramp_s = 3 + players / 1_500;
            words(
                &format!(
                    "match --rate 1 --players {players} --ramp {ramp_s}s --set rpc=bench_take_seat"
                ),
                "throng serve --data_dir data --runtime.path modules --logger.level warn \
                 --session.token_expiry_sec 7200",
            )
        },
        operation: "message delivered",
    },
    Curve {
        name: "users",
        title: "registered users, of whom any logs in",
        of: "users",
        steps: &[1_000, 10_000, 100_000, 1_000_000],
        lines: &[REGISTER, "authenticate"],
        load: |line, _| {
            let pace = if line == REGISTER { "" } else { " --saturate" };
            words(
                &format!("./{line}.toml{pace}"),
                "throng serve --data_dir data --logger.level warn",
            )
        },
        operation: "request",
    },
    Curve {
        name: "processors",
        title: "WebSocket echo, 64 bytes, 512 connections, 40,000 a second; the generator has no processor of its own",
        of: "cores of the server",
        steps: &[1, 2],
        lines: &["uring", "poll"],
        load: |line, step| {
            words(
                "ws-echo --players 512 --rate 40000",
                &format!("throng echo --cores {step} --driver {line}"),
            )
        },
        operation: "echo",
    },
];

fn words(load: &str, server: &str) -> Vec<String> {
    let server = ["--server".to_owned(), server.to_owned()];
    load.split(' ').map(str::to_owned).chain(server).collect()
}

/// Measures.
///
/// # Errors
/// If there is no such curve, or a run fails.
pub fn run(ask: &Request) -> anyhow::Result<bool> {
    if let Some(name) = ask.curves.iter().find(|name| !CURVES.iter().any(|it| it.name == **name)) {
        let known: Vec<_> = CURVES.iter().map(|curve| curve.name).collect();
        bail!("there is no curve `{name}`: {}", known.join(", "));
    }
    let throng = docs::throng_of(ask.throng.as_deref())?;
    let scratch = std::env::temp_dir().join(format!("throng-growth-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    std::os::unix::fs::symlink(root().join("scenarios/modules"), scratch.join("modules"))?;
    let bench = Bench { throng, scratch };
    let done = bench.all(ask);
    let _ = std::fs::remove_dir_all(&bench.scratch);
    done.map(|()| true)
}

struct Bench {
    throng: PathBuf,
    scratch: PathBuf,
}

impl Bench {
    fn all(&self, ask: &Request) -> anyhow::Result<()> {
        // Curves that are not measured now keep their records.
        let mut records = record::read(&ask.out)?;
        let is_meant = |curve: &&Curve| {
            ask.curves.is_empty() || ask.curves.iter().any(|name| name == curve.name)
        };
        for curve in CURVES.iter().filter(is_meant) {
            records.retain(|record| !record.row.starts_with(&format!("{}/", curve.name)));
            for round in 1..=ask.rounds.unwrap_or(ROUNDS) {
                // Point by point: a round takes minutes, and one that fails keeps what it has.
                self.round(curve, round, |record| {
                    records.push(record);
                    record::write(&ask.out, &records)
                })?;
            }
        }
        let mut text = "Made by `cargo xtask growth` from the records beside it.\n".to_owned();
        for curve in CURVES {
            let points = points(curve, &records);
            if points.iter().any(|(_, points)| !points.is_empty()) {
                table(&mut text, curve, &points);
                let path = ask.out.join(format!("{}.svg", curve.name));
                let name = format!("CPU for one {}", curve.operation);
                let along = Along { name: curve.of, is_even: false };
                let upright = Upright { name: &name, unit: "µs", per: 1e3 };
                std::fs::write(&path, picture::svg(curve.title, &along, &upright, &points))
                    .with_context(|| path.display().to_string())?;
            }
        }
        std::fs::write(ask.out.join("table.md"), &text)?;
        print!("\n{text}");
        Ok(())
    }

    /// All points of a curve once.
    fn round(
        &self,
        curve: &Curve,
        round: usize,
        mut keep: impl FnMut(Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let _ = std::fs::remove_dir_all(self.scratch.join("data"));
        let (mut place, mut have) = (0, 0);
        for &step in curve.steps {
            for line in curve.lines {
                let mut counted_s = COUNTED_S;
                if curve.name == "users" {
                    // Those that are there stay.
                    counted_s = users(&self.scratch, line, have, step)?;
                    have = step;
                } else {
                    let _ = std::fs::remove_dir_all(self.scratch.join("data"));
                }
                place += 1;
                print!("{:<12} round {round} {step:>9} {line:<13} ", curve.name);
                let warm_up_s = if *line == REGISTER { 0 } else { WARM_UP_S };
                let result = match self.measure(&(curve.load)(line, step), warm_up_s, counted_s) {
                    Ok(result) => result,
                    Err(error) => bail!("{} {step} {line}: {error:#}", curve.name),
                };
                let each = per_cpu_second(&result).map_or(0.0, |per_s| 1e9 / per_s);
                println!("{each:>9.0} ns");
                keep(Record {
                    row: format!("{}/{step}", curve.name),
                    who: (*line).to_owned(),
                    round,
                    place,
                    processor: record::processor(),
                    beside: Vec::new(),
                    result,
                    histograms: BTreeMap::new(),
                })?;
            }
        }
        Ok(())
    }

    fn measure(
        &self,
        load: &[String],
        warm_up_s: u32,
        counted_s: u32,
    ) -> anyhow::Result<serde_json::Value> {
        // Relative, as the record names it: folders of a machine are nobody's business.
        const OUT: &str = "run";
        let mut command = Command::new(&self.throng);
        command.arg("load").args(load).args(["--out", OUT]).current_dir(&self.scratch);
        command.args([
            "--duration",
            &format!("{counted_s}s"),
            "--warmup",
            &format!("{warm_up_s}s"),
        ]);
        command.env("PATH", path_with(&self.throng)?);
        quiet(&mut command)?;
        let mut result = record::read_run(&self.scratch.join(OUT))?.0;
        // A point is one figure: the seconds behind it would be three quarters of the record.
        for name in ["series", "series_unix_ms"] {
            result.as_object_mut().and_then(|fields| fields.remove(name));
        }
        Ok(result)
    }
}

/// Writes the scenario of a line and who its users are, when `have` are registered and there are to
/// be `count`: those who are missing register one after the other at an even rate, or any of all log
/// in. Tells for how many seconds.
fn users(folder: &Path, line: &str, have: u32, count: u32) -> anyhow::Result<u32> {
    let missing = count - have;
    let counted_s = missing.div_ceil(REGISTERED_PER_S);
    let (pick, first, rate, counted_s) = match line {
        REGISTER => ("turn", have, f64::from(missing) / f64::from(counted_s), counted_s),
        _ => ("random", 0, 1.0, COUNTED_S),
    };
    let mut rows = String::from("id\n");
    for user in first..count {
        // Writing to a String cannot fail.
        let _ = writeln!(rows, "growth-user-{user:07}");
    }
    std::fs::write(folder.join("users.csv"), rows)?;
    let text = format!(
        r#"name = "{line}"
title = "One of {count} users"
needs = "the Nakama client protocol"
players = 64
rate = {rate:.1}

[[data]]
name = "users"
file = "users.csv"
pick = "{pick}"

[[session]]
name = "user"
process = "constant"

[[session.loop]]
op = "{line}"
post = "/v2/account/authenticate/device?create={}&"
auth = "server-key"
body = '{{"id":"${{users.id}}"}}'
contains = '"token":'
"#,
        line == REGISTER
    );
    std::fs::write(folder.join(format!("{line}.toml")), text)?;
    Ok(counted_s)
}

/// Of each line: step, and nanoseconds of the server's processor for an operation.
fn points(curve: &Curve, records: &[Record]) -> Points {
    let of_line = |line: &&'static str| {
        let at = |step: &u32| {
            let row = format!("{}/{step}", curve.name);
            let runs = records.iter().filter(|it| it.row == row && it.who == **line);
            let costs = runs.filter_map(|it| Some(1e9 / per_cpu_second(&it.result)?)).collect();
            Some((*step, Spread::of(costs)?))
        };
        ((*line).to_owned(), curve.steps.iter().filter_map(at).collect())
    };
    curve.lines.iter().map(of_line).collect()
}

fn table(text: &mut String, curve: &Curve, points: &Points) {
    let _ = write!(
        text,
        "\n## {}\n\nNanoseconds of the server's processor for one {}, median (lowest–highest).\n\n| {} |",
        curve.title, curve.operation, curve.of
    );
    for (line, _) in points {
        let _ = write!(text, " {line} |");
    }
    text.push_str("\n|---:|");
    points.iter().for_each(|_| text.push_str("---:|"));
    text.push('\n');
    for &step in curve.steps {
        let _ = write!(text, "| {step} |");
        for (_, points) in points {
            let found = points.iter().find(|(at, _)| *at == step);
            let whole = |ns: f64| format!("{ns:.0}");
            let cell = found.map_or("–".to_owned(), |(_, it)| it.text(whole));
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
}
