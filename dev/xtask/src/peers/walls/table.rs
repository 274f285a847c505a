//! What ramps of both walls say, side by side. Pure but for the files that it writes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::super::picture::{self, Along, Points, Upright};
use super::super::record::Record;
use super::super::table::Spread;
use super::{SERVERS, Server, WALLS};

/// Writes table.md and the pictures. Out: the table.
pub(super) fn write(records: &[Record], out: &Path) -> anyhow::Result<String> {
    let mut text = "Made by `cargo xtask walls` from the records beside it.\n".to_owned();
    for server in SERVERS {
        let ramps = WALLS.map(|wall| {
            let found = records.iter().find(|it| it.row == server.name && it.who == wall);
            found.map(|it| Ramp(&it.result))
        });
        let [Some(process), Some(network)] = ramps else { continue };
        one(&mut text, server, &[process, network]);
        let lines = WALLS.iter().zip([process, network]);
        let points: Points =
            lines.map(|(wall, ramp)| ((*wall).to_owned(), ramp.points(late(server)))).collect();
        let title = format!("{}: {} of the worst server, p99", server.title, server.seen);
        let upright = Upright { name: "part of a tick", unit: "%", per: 0.01 };
        let along = Along { name: "servers", is_even: false };
        let path = out.join(format!("{}.svg", server.name));
        std::fs::write(&path, picture::svg(&title, &along, &upright, &points))
            .with_context(|| path.display().to_string())?;
    }
    std::fs::write(out.join("table.md"), &text)?;
    Ok(text)
}

/// A figure, and how it is written.
type Column = (Of, fn(f64) -> String);
type Of = fn(Step<'_>) -> Option<f64>;

/// What players notice.
fn late(server: &Server) -> Of {
    if server.seen == "lateness" { |it| it.lateness() } else { |it| it.status() }
}

/// A ramp's result.
#[derive(Clone, Copy)]
struct Ramp<'a>(&'a Value);

/// A step of it that counts.
#[derive(Clone, Copy)]
struct Step<'a>(&'a Value);

impl<'a> Ramp<'a> {
    fn counted(self) -> impl Iterator<Item = Step<'a>> {
        let all = self.0["steps"].as_array().into_iter().flatten();
        all.filter(|it| it["role"] == "step" && it["discarded"] == "").map(Step)
    }

    fn discarded(self) -> usize {
        let all = self.0["steps"].as_array().into_iter().flatten();
        all.filter(|it| it["discarded"] != "").count()
    }

    fn levels(self) -> Vec<u32> {
        let mut all: Vec<u32> = self.counted().filter_map(|it| it.servers()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn at(self, level: u32, of: Of) -> Option<Spread> {
        let steps = self.counted().filter(|it| it.servers() == Some(level));
        Spread::of(steps.filter_map(of).collect())
    }

    fn points(self, of: Of) -> Vec<(u32, Spread)> {
        self.levels().into_iter().filter_map(|it| Some((it, self.at(it, of)?))).collect()
    }
}

impl Step<'_> {
    fn servers(self) -> Option<u32> {
        u32::try_from(self.0["servers"].as_u64()?).ok()
    }

    /// Of the worst server, as a part of a tick; none if one had too few values.
    fn worst(self, name: &str) -> Option<f64> {
        let tick_us = self.0["tick_ns"].as_f64()? / 1e3;
        let list = |figure: &str| self.0["each"][format!("/{name}/{figure}")].as_array();
        let each = list("count")?.iter().zip(list("p99_ns")?);
        let of = |(count, p99_us): (&Value, &Value)| {
            (count.as_f64()? > 0.0).then(|| Some(p99_us.as_f64()? / tick_us))?
        };
        let all: Option<Vec<f64>> = each.map(of).collect();
        all?.into_iter().max_by(f64::total_cmp)
    }

    fn lateness(self) -> Option<f64> {
        self.worst("lateness")
    }

    fn status(self) -> Option<f64> {
        self.worst("status")
    }

    /// Percent of one processor that a server's own threads used, in the mean.
    fn own_cpu(self) -> Option<f64> {
        let all = self.0["machine"]["servers_cpu_percent"].as_f64()?;
        Some(all / f64::from(self.servers()?))
    }

    fn memory_mb(self) -> Option<f64> {
        let all = self.0["machine"]["servers_memory_bytes"].as_f64()?;
        Some(all / 1e6 / f64::from(self.servers()?))
    }
}

const HEADS: &str = "| servers | late, process | network | CPU a server, process | network | memory a server, process | network |\n\
|---:|---:|---:|---:|---:|---:|---:|\n";

fn one(text: &mut String, server: &Server, ramps: &[Ramp<'_>; 2]) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\n## {}\n\n", server.title);
    for (wall, ramp) in WALLS.iter().zip(ramps) {
        for gate in ramp.0["gates"].as_array().into_iter().flatten() {
            let fails = match gate["fails_at"].as_u64() {
                Some(level) => format!("{level} fail: {}", gate["why"].as_str().unwrap_or("")),
                None => "more were not measured".to_owned(),
            };
            let _ = writeln!(
                text,
                "- `{wall}`, `{}`: {} servers, {} a processor; {fails}",
                gate["gate"].as_str().unwrap_or(""),
                gate["servers"],
                gate["per_core"],
            );
        }
        let _ = writeln!(text, "- `{wall}`: {} stretches discarded", ramp.discarded());
    }
    let _ = write!(
        text,
        "\nOf the worst server the 99th percentile of {} in percent of a tick, processor time of its own \
         threads in percent of one processor, MB; \
         median (lowest–highest) of the repeats.\n\n{HEADS}",
        server.seen
    );
    let columns: [Column; 3] = [
        (late(server), |part| format!("{:.1}", part * 100.0)),
        (|it| it.own_cpu(), tenth),
        (|it| it.memory_mb(), tenth),
    ];
    let mut levels: Vec<u32> = ramps.iter().flat_map(|it| it.levels()).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        let _ = write!(text, "| {level} |");
        for (of, write) in columns {
            for ramp in ramps {
                let cell = ramp.at(level, of).map_or("–".to_owned(), |it| it.text(write));
                let _ = write!(text, " {cell} |");
            }
        }
        text.push('\n');
    }
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::SERVERS;
    use super::{Ramp, one};

    fn step(servers: usize, p99_us: u64, discarded: &str) -> Value {
        json!({
            "role": "step", "servers": servers, "discarded": discarded, "tick_ns": 1_000_000,
            "each": {"/lateness/count": vec![100; servers], "/lateness/p99_ns": vec![p99_us; servers]},
            "machine": {"servers_cpu_percent": 20.0, "servers_memory_bytes": 8_000_000},
        })
    }

    fn ramp(late_us: u64) -> Value {
        let gates =
            json!([{"gate": "g", "servers": 2, "per_core": 1.0, "fails_at": null, "why": ""}]);
        let steps = [
            step(2, late_us, ""),
            step(2, late_us + 20, ""),
            step(2, 9_000, "the machine changed"),
        ];
        json!({"gates": gates, "steps": steps})
    }

    #[test]
    fn walls_stand_side_by_side_without_what_was_discarded() {
        let (process, network) = (ramp(100), ramp(150));
        let mut text = String::new();
        one(&mut text, &SERVERS[0], &[Ramp(&process), Ramp(&network)]);
        let row = "| 2 | 11.0 (10.0–12.0) | 16.0 (15.0–17.0) | 10.0 | 10.0 | 4.0 | 4.0 |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("- `network`: 1 stretches discarded"), "{text}");
        assert!(
            text.contains("- `process`, `g`: 2 servers, 1.0 a processor; more were not measured")
        );
    }

    #[test]
    fn who_had_too_few_values_has_no_figure() {
        let mut ramp = ramp(1);
        for step in ramp["steps"].as_array_mut().unwrap() {
            step["each"]["/lateness/count"][1] = 0.into();
        }
        assert!(Ramp(&ramp).at(2, |it| it.lateness()).is_none());
        assert!(Ramp(&ramp).at(2, |it| it.status()).is_none());
        assert!(Ramp(&ramp).at(2, |it| it.own_cpu()).is_some());
    }
}
