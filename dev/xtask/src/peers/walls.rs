//! `cargo xtask walls`: how many game servers this machine carries behind `process` and behind `network`, and what
//! the walls of the second cost: `throng host ramp` of three servers, twice each, over the same numbers.
//!
//! What is deliberately not here: the measurement, which is the ramp's. Data comes in from its `result.json`; it
//! goes out as records (`record`), table.md and a picture for each server.

mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::quiet;
use super::record::{self, Record};
use crate::docs;
use crate::repository::{path_with, root};

/// Both walls that are compared, the cheaper one first.
const WALLS: [&str; 2] = ["process", "network"];

/// What to measure.
pub struct Request {
    /// Names of servers; none: all.
    pub servers: Vec<String>,
    /// How often each number is measured, and for how long.
    pub repeats: Option<usize>,
    /// Likewise, as `throng host ramp --span` has it.
    pub span: Option<String>,
    /// Where records, table and pictures go.
    pub out: PathBuf,
    /// Only the table and the pictures of the records that are there.
    pub table: bool,
    /// The program; else a release build is made.
    pub throng: Option<PathBuf>,
}

/// A server of `scenarios/host`.
struct Server {
    name: &'static str,
    title: &'static str,
    /// Numbers of servers.
    steps: &'static str,
    /// More for the ramp: its gate, and what it cannot know by itself.
    flags: &'static [&'static str],
    /// What its players notice.
    seen: &'static str,
}

const SERVERS: &[Server] = &[
    Server {
        name: "game",
        title: "throng host game, 60 ticks a second, 12 players",
        steps: "1,4,8,12,16,20,24,28,32",
        flags: &["--gate", "lateness_p99 <= 10%"],
        seen: "lateness",
    },
    Server {
        name: "teeworlds",
        title: "Teeworlds 0.7, 50 ticks a second, 12 players",
        steps: "1,8,16,32,48",
        flags: &["--gate", "lateness_p99 <= alone + 10%"],
        seen: "lateness",
    },
    Server {
        name: "openarena",
        title: "OpenArena 0.8.8, 20 ticks a second, 8 bots",
        steps: "1,8,16,32,48,64",
        flags: &["--gate", "status_p99 <= 10%", "--bots", "8", "--tick", "50ms"],
        seen: "status",
    },
];

/// Measures.
///
/// # Errors
/// If there is no such server, or a ramp fails.
pub fn run(ask: &Request) -> anyhow::Result<bool> {
    if let Some(name) = ask.servers.iter().find(|name| !SERVERS.iter().any(|it| it.name == **name))
    {
        let known: Vec<_> = SERVERS.iter().map(|it| it.name).collect();
        bail!("there is no server `{name}`: {}", known.join(", "));
    }
    // Servers that are not measured now keep their records.
    let mut records = record::read(&ask.out)?;
    if !ask.table {
        let throng = docs::throng_of(ask.throng.as_deref())?;
        let is_meant =
            |it: &&Server| ask.servers.is_empty() || ask.servers.iter().any(|name| name == it.name);
        for server in SERVERS.iter().filter(is_meant) {
            for wall in WALLS {
                let result = ramp(&throng, server, wall, ask)?;
                records.retain(|it| it.row != server.name || it.who != wall);
                records.push(Record {
                    row: server.name.to_owned(),
                    who: wall.to_owned(),
                    round: 1,
                    place: 0,
                    processor: record::processor(),
                    beside: Vec::new(),
                    result,
                    histograms: BTreeMap::new(),
                });
                // Ramp by ramp: one takes many minutes.
                record::write(&ask.out, &records)?;
            }
        }
    }
    let text = table::write(&records, &ask.out)?;
    print!("\n{text}");
    Ok(true)
}

fn ramp(
    throng: &Path,
    server: &Server,
    wall: &str,
    ask: &Request,
) -> anyhow::Result<serde_json::Value> {
    let file = match wall {
        "process" => format!("scenarios/host/{}.toml", server.name),
        _ => format!("scenarios/host/{}-{wall}.toml", server.name),
    };
    let out = std::env::temp_dir().join(format!("throng-walls-{}", std::process::id()));
    println!("{file} …");
    let mut command = Command::new(throng);
    command.args(["host", "ramp", &file, "--realtime", "--steps", server.steps]).args(server.flags);
    // Controls of seconds differ by more than those of a minute.
    command.args(["--warm-up", "3s", "--control", "6s", "--drift", "5", "--price", "0.10"]);
    command.args(["--repeats", &ask.repeats.unwrap_or(3).to_string()]);
    command.args(["--span", ask.span.as_deref().unwrap_or("15s")]);
    command.arg("--out").arg(&out).current_dir(root()).env("PATH", path_with(throng)?);
    let done = quiet(&mut command).with_context(|| file.clone());
    let text = done.and_then(|()| Ok(std::fs::read(out.join("result.json"))?));
    let _ = std::fs::remove_dir_all(&out);
    kept(&text?)
}

/// Figures of a server that are kept: where they stand, and what one is counted in. Times in microseconds,
/// memory in KiB, others in hundredths: a whole result of 32 servers has 0.7 MB.
const KEPT: [(&str, f64); 9] = [
    ("/lateness/count", 1.0),
    ("/lateness/p99_ns", 1e3),
    ("/status/count", 1.0),
    ("/status/p99_ns", 1e3),
    ("/gaps", 1.0),
    ("/lost", 1.0),
    ("/cpu_percent", 0.01),
    ("/runqueue_wait_ms_per_s", 0.01),
    ("/memory_bytes", 1024.0),
];

/// Of the times of all servers of a step, and of the players' threads, these are kept.
const TIMES: [&str; 4] = ["count", "p50_ns", "p99_ns", "max_ns"];

/// A result without what follows from its steps, and without the folders of a machine. Of the servers of a step
/// each figure is a list; numbers have no more than three places.
fn kept(text: &[u8]) -> anyhow::Result<serde_json::Value> {
    let mut result: serde_json::Value = serde_json::from_slice(text)?;
    let fields = result.as_object_mut().context("not a result")?;
    fields.remove("series");
    let steps = fields.get_mut("steps").and_then(|it| it.as_array_mut()).into_iter().flatten();
    for step in steps {
        thin(step);
        let Some(each) = step.get_mut("each") else { continue };
        let servers = each.as_array().map_or(&[][..], Vec::as_slice);
        let of = |place: &str, one: f64| -> Vec<serde_json::Value> {
            let value = |it: &serde_json::Value| it.pointer(place).and_then(|it| it.as_f64());
            let whole = |value: f64| serde_json::json!((value / one).round());
            servers.iter().map(|it| value(it).map_or(serde_json::Value::Null, whole)).collect()
        };
        let lists = KEPT.map(|(place, one)| (place.to_owned(), of(place, one).into()));
        *each = serde_json::Value::Object(lists.into_iter().collect());
    }
    let command = fields.get_mut("environment").and_then(|it| it.get_mut("command"));
    let words = command.and_then(|it| it.as_array_mut()).into_iter().flatten();
    for word in words.filter(|it| it.as_str().is_some_and(|it| it.starts_with('/'))) {
        *word = "DIR".into();
    }
    Ok(result)
}

/// Leaves out percentiles and places that nobody asks for.
fn thin(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            if fields.contains_key("p9999_ns") {
                fields.retain(|name, _| TIMES.contains(&name.as_str()));
            }
            fields.iter_mut().for_each(|(_, it)| thin(it));
        }
        Value::Array(all) => all.iter_mut().for_each(thin),
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().map(|it| (it * 1e3).round() / 1e3);
            *value = rounded.into();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{SERVERS, WALLS, kept};

    #[test]
    fn every_server_has_a_file_for_each_wall() {
        for server in SERVERS {
            for wall in WALLS {
                let tail = if wall == "process" { "" } else { "-network" };
                let file = format!("scenarios/host/{}{tail}.toml", server.name);
                let text = std::fs::read_to_string(crate::repository::root().join(&file)).unwrap();
                assert!(text.contains(&format!("wall = \"{wall}\"")), "{file}");
            }
        }
    }

    #[test]
    fn a_record_names_no_folder_of_a_machine() {
        let text = br#"{"series":[1],"steps":[{"each":[{"gaps":2,"status":{"p99_ns":1499}}]}],
            "environment":{"command":["throng","--out","/a/b"]}}"#;
        let kept = kept(text).unwrap();
        let each = &kept["steps"][0]["each"];
        assert_eq!(
            (each["/gaps"][0].as_f64(), each["/status/p99_ns"][0].as_f64()),
            (Some(2.0), Some(1.0))
        );
        assert!(each["/lost"][0].is_null());
        assert_eq!(kept["environment"]["command"], serde_json::json!(["throng", "--out", "DIR"]));
        assert!(kept.get("series").is_none());
        assert!(super::kept(b"[]").is_err());
    }
}
