//! `cargo xtask guests`: the same game in every language that guests are written in, `examples/`: what an RPC call
//! costs the server's processor that decodes and encodes what it was sent, and one that searches a path; and what a
//! match takes in memory.
//!
//! Each round runs every language once, one after the other, who is first changing from round to round. Memory is
//! measured by the attack test that holds it to a bound. What is deliberately not here: other servers (`peers`), and
//! times. Data comes in from what `throng load` and the test write; it goes out as records (`record`) and table.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::plan;
use super::quiet;
use super::record::{self, Record};
use super::table::{Spread, per_cpu_second, whole};
use crate::docs;
use crate::repository::{path_with, root};

/// Rounds of every row.
const ROUNDS: usize = 3;
/// Seconds that are counted in each run.
const COUNTED_S: u32 = 5;
const WARM_UP_S: u32 = 2;

/// Languages, as `dev/e2e/guests.mjs` names them, and as the table does.
const LANGUAGES: [(&str, &str); 4] = [
    ("lua", "Lua"),
    ("javascript", "JavaScript"),
    ("go", "Go in WebAssembly"),
    ("rust", "Rust in WebAssembly"),
];

/// What is called.
struct Row {
    name: &'static str,
    title: &'static str,
    /// What follows `throng load`.
    load: &'static [&'static str],
}

/// The scenario that is not built in lies in the scratch folder.
const PATH_SCENARIO: &str = "rpc-path.toml";

const ROWS: [Row; 2] = [
    Row {
        name: "echo",
        title: "RPC that decodes its payload and encodes it again",
        load: &["rpc-lua", "--rpc", "echo"],
    },
    Row {
        name: "path",
        title: "RPC that searches a path of 2,046 steps",
        load: &["./rpc-path.toml"],
    },
];

/// The test that measures matches.
const MATCHES_TEST: &str = "attack/wasm.test.mjs";

/// What to measure.
pub struct Request {
    /// Rounds of every row.
    pub rounds: Option<usize>,
    /// Seconds that are counted in each run.
    pub duration_s: Option<u32>,
    /// Where records and table go.
    pub out: PathBuf,
    /// The program; else a release build is made.
    pub throng: Option<PathBuf>,
}

/// Measures. Tells whether every match stayed within its bound.
///
/// # Errors
/// If a guest cannot be built for another reason than a toolchain that is not there, or a run fails.
pub fn run(ask: &Request) -> anyhow::Result<bool> {
    let throng = docs::throng_of(ask.throng.as_deref())?;
    let scratch = std::env::temp_dir().join(format!("throng-guests-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    let bench = Bench { throng, scratch };
    let done = bench.all(ask);
    let _ = std::fs::remove_dir_all(&bench.scratch);
    done
}

struct Bench {
    throng: PathBuf,
    scratch: PathBuf,
}

impl Bench {
    fn all(&self, ask: &Request) -> anyhow::Result<bool> {
        let languages = self.build()?;
        let scenario = root().join("scenarios").join(PATH_SCENARIO);
        std::fs::copy(scenario, self.scratch.join(PATH_SCENARIO))?;
        let mut records = Vec::new();
        for round in 0..ask.rounds.unwrap_or(ROUNDS) {
            for row in &ROWS {
                for (place, index) in (1..).zip(plan::order(round, languages.len())) {
                    let (language, _) = languages[index];
                    print!("{:<5} round {} {language:<11} ", row.name, round + 1);
                    let result =
                        self.measure(row, language, ask.duration_s.unwrap_or(COUNTED_S))?;
                    let found = per_cpu_second(&result).unwrap_or(0.0);
                    println!("{found:>9.0} per CPU-second");
                    records.push(Record {
                        row: row.name.to_owned(),
                        who: language.to_owned(),
                        round: round + 1,
                        place,
                        processor: record::processor(),
                        beside: Vec::new(),
                        result,
                        histograms: BTreeMap::new(),
                    });
                    record::write(&ask.out, &records)?;
                }
            }
        }
        let (matches, is_well) = self.matches()?;
        let text = table(&languages, &records, &matches);
        std::fs::write(ask.out.join("table.md"), &text)?;
        print!("\n{text}");
        Ok(is_well)
    }

    /// The game of every language whose toolchain is here, to `modules/LANGUAGE`; says what is missing.
    fn build(&self) -> anyhow::Result<Vec<(&'static str, &'static str)>> {
        let modules = self.scratch.join("modules");
        let mut node = Command::new("node");
        node.args(["guests.mjs", "games"]).arg(&modules).current_dir(root().join("dev/e2e"));
        if !node.stdin(Stdio::null()).status().context("cannot run node")?.success() {
            bail!("the games cannot be built");
        }
        let is_there = |(language, _): &(&str, &str)| modules.join(language).is_dir();
        Ok(LANGUAGES.into_iter().filter(is_there).collect())
    }

    fn measure(
        &self,
        row: &Row,
        language: &str,
        counted_s: u32,
    ) -> anyhow::Result<serde_json::Value> {
        // Relative, as the record names it: folders of a machine are nobody's business.
        const OUT: &str = "run";
        let _ = std::fs::remove_dir_all(self.scratch.join("data"));
        let server = format!(
            "throng serve --data_dir data --runtime.path modules/{language} --logger.level warn \
             --session.token_expiry_sec 7200"
        );
        let mut load = Command::new(&self.throng);
        load.arg("load").args(row.load).args(["--saturate", "--players", "64", "--out", OUT]);
        load.args(["--duration", &format!("{counted_s}s"), "--warmup", &format!("{WARM_UP_S}s")]);
        load.args(["--server", &server]).current_dir(&self.scratch);
        load.env("PATH", path_with(&self.throng)?);
        quiet(&mut load).with_context(|| format!("{} in {language}", row.name))?;
        let mut result = record::read_run(&self.scratch.join(OUT))?.0;
        // A run is one figure: the seconds behind it would be three quarters of the record.
        for name in ["series", "series_unix_ms"] {
            result.as_object_mut().and_then(|fields| fields.remove(name));
        }
        Ok(result)
    }

    /// What the test says of matches, a line for each language, and whether all stayed within their bounds.
    fn matches(&self) -> anyhow::Result<(Vec<String>, bool)> {
        let mut node = Command::new("node");
        node.args(["--test", "--test-force-exit", "--test-timeout=400000", "--test-reporter=tap"]);
        node.args(["--test-name-pattern", "matches in", MATCHES_TEST]);
        node.current_dir(root().join("dev/e2e")).env("THRONG_BIN", &self.throng);
        let output = node.stdin(Stdio::null()).output().context("cannot run node")?;
        let told = told(&String::from_utf8_lossy(&output.stdout));
        if told.is_empty() {
            bail!("{MATCHES_TEST} measured nothing");
        }
        Ok((told, output.status.success()))
    }
}

/// Of the test's output in TAP: `1000 matches in lua …: 120.5 KB in memory …`.
fn told(tap: &str) -> Vec<String> {
    let mut told = Vec::new();
    let mut test = "";
    for line in tap.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("# Subtest: ") {
            test = name;
        } else if let Some(found) = line.strip_prefix("# ")
            && found.contains(" KB in memory")
        {
            told.push(format!("{test}: {found}"));
        }
    }
    told
}

fn table(languages: &[(&str, &str)], records: &[Record], matches: &[String]) -> String {
    let mut text = "Made by `cargo xtask guests`; the rows are of the records beside it.\n\n\
                    Operations per CPU-second of the server, 64 connections in a closed loop, median \
                    (lowest–highest).\n\n| |"
        .to_owned();
    for (_, title) in languages {
        // Writing to a String cannot fail.
        let _ = write!(text, " {title} |");
    }
    text.push_str("\n|---|");
    languages.iter().for_each(|_| text.push_str("---:|"));
    for row in &ROWS {
        let _ = write!(text, "\n| {} |", row.title);
        for (language, _) in languages {
            let runs = records.iter().filter(|it| it.row == row.name && it.who == *language);
            let found = Spread::of(runs.filter_map(|it| per_cpu_second(&it.result)).collect());
            let _ = write!(text, " {} |", found.map_or("–".to_owned(), |it| it.text(whole)));
        }
    }
    text.push_str("\n\nMatches in which nothing happens, by the attack test:\n\n");
    for line in matches {
        let _ = writeln!(text, "- {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_test_of_matches_is_read() {
        let tap = "TAP version 13\n# Subtest: 1000 matches in lua take less than 100 KB each\nok 1 - 1000 matches in \
                   lua take less than 100 KB each\n  ---\n  ...\n# 90.5 KB in memory for each match, 80 KB asked for\n\
                   # Subtest: other\n# tests 2\n";
        let line = "1000 matches in lua take less than 100 KB each: 90.5 KB in memory for each match, 80 KB asked for";
        assert_eq!(told(tap), [line]);
    }

    #[test]
    fn a_language_that_was_not_measured_has_a_dash() {
        let record = Record {
            row: "echo".to_owned(),
            who: "lua".to_owned(),
            round: 1,
            place: 1,
            processor: BTreeMap::new(),
            beside: Vec::new(),
            result: json!({ "server": { "ops_per_cpu_s": 70_000.0 } }),
            histograms: BTreeMap::new(),
        };
        let text = table(&LANGUAGES[..2], &[record], &["a line".to_owned()]);
        assert!(text.contains("| Lua | JavaScript |\n|---|---:|---:|\n"), "{text}");
        assert!(text.contains("encodes it again | 70,000 | – |\n"), "{text}");
        assert!(text.ends_with("\n\n- a line\n"), "{text}");
    }
}
