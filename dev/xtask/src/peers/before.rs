//! `cargo xtask before`: an older build and today's, both at once on one processor, each under a
//! generator of its own on another. What the machine does to one it does to the other in the same
//! moment, so that a change of one or two per cent shows where runs one after the other differ by
//! twenty. They take caches from each other, so the figures are lower than one alone would have;
//! only their ratio says something.
//!
//! What is deliberately not here: building the older one. Data comes in as its program and from what
//! `throng load` writes; it goes out as a table and as records (`record`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};

use super::record::{self, Record};
use super::table::{Spread, per_cpu_second, whole};
use crate::docs;
use crate::repository::root;

/// Rounds of every row.
const ROUNDS: usize = 6;

/// Seconds before what is counted.
const WARM_UP_S: u32 = 2;

/// Names of the two in records and table.
const NAMES: [&str; 2] = ["before", "after"];

/// What to compare.
pub struct Request {
    /// The older program.
    pub before: PathBuf,
    /// Names of rows; none: all.
    pub rows: Vec<String>,
    /// Rounds of every row.
    pub rounds: Option<usize>,
    /// Where records and table go.
    pub out: Option<PathBuf>,
    /// Least median ratio, after to before, of every row.
    pub expect: Option<f64>,
    /// Today's program; else a release build is made.
    pub throng: Option<PathBuf>,
}

/// A row of the comparison. Rows that write or answer with work have a rate that both hold at once;
/// the others are closed loops.
struct Row {
    name: &'static str,
    title: &'static str,
    /// Whether it is `throng serve` that is measured, not `throng echo`.
    serves: bool,
    load: &'static [&'static str],
    counted_s: u32,
}

const fn row(
    name: &'static str,
    title: &'static str,
    serves: bool,
    load: &'static [&'static str],
) -> Row {
    Row { name, title, serves, load, counted_s: 7 }
}

const ROWS: &[Row] = &[
    row(
        "plaintext-16",
        "plaintext, 16 in a pipeline, 64 connections",
        false,
        &["plaintext", "--saturate", "--pipeline", "16", "--players", "64"],
    ),
    row(
        "plaintext-512",
        "plaintext, one at a time, 512 connections",
        false,
        &["plaintext", "--saturate", "--players", "512"],
    ),
    row(
        "ws-512",
        "WebSocket echo, 64 bytes, 512 connections",
        false,
        &["ws-echo", "--saturate", "--players", "512"],
    ),
    row(
        "register",
        "register a device, durable, 6,000/s",
        true,
        &["register", "--rate", "6000", "--players", "64"],
    ),
    row(
        "authenticate",
        "authenticate a device, 6,000/s",
        true,
        &["authenticate", "--rate", "6000", "--players", "64"],
    ),
    row(
        "rpc-lua",
        "RPC echo in Lua over HTTP, 12,000/s",
        true,
        &["rpc-lua", "--rate", "12000", "--players", "64"],
    ),
    row(
        "rpc-write",
        "RPC in Lua that writes one object, durable, 2,000/s",
        true,
        &["rpc-write", "--rate", "2000", "--players", "64"],
    ),
    row(
        "transfer",
        "transfers in Lua, durable, uniform, 2,000/s",
        true,
        &["transfer", "--rate", "2000", "--players", "64", "--set", "accounts=10000"],
    ),
    row(
        "relayed",
        "messages of a relayed match delivered, 8 listeners, 8,000/s sent",
        true,
        &["ws-broadcast", "--players", "9", "--rate", "8000"],
    ),
    Row {
        counted_s: 20,
        ..row(
            "match",
            "match messages delivered, 200 players × 20/s",
            true,
            &["match", "--players", "200", "--rate", "20"],
        )
    },
];

/// Compares. Tells whether every run went well and the expectation holds.
///
/// # Errors
/// If there is no such row, or nothing can be run or written.
pub fn run(ask: &Request) -> anyhow::Result<bool> {
    if let Some(name) = ask.rows.iter().find(|name| !ROWS.iter().any(|row| row.name == **name)) {
        let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        bail!("there is no row `{name}`: {}", known.join(", "));
    }
    let before = ask.before.canonicalize().with_context(|| ask.before.display().to_string())?;
    let after = docs::throng_of(ask.throng.as_deref())?.canonicalize()?;
    let scratch = std::env::temp_dir().join(format!("throng-before-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    let bench = Bench { programs: [before, after], scratch };
    let done = bench.all(ask);
    let _ = std::fs::remove_dir_all(&bench.scratch);
    done
}

struct Bench {
    /// Before and after; the latter has the generator for both.
    programs: [PathBuf; 2],
    scratch: PathBuf,
}

impl Bench {
    fn all(&self, ask: &Request) -> anyhow::Result<bool> {
        let rounds = ask.rounds.unwrap_or(ROUNDS);
        let rows: Vec<_> = ROWS
            .iter()
            .filter(|row| ask.rows.is_empty() || ask.rows.iter().any(|name| name == row.name))
            .collect();
        let (mut records, mut holds) = (Vec::new(), true);
        let mut text = String::from(TABLE);
        for row in rows {
            let mut ratios = Vec::new();
            for round in 1..=rounds {
                let pair = self.round(row, round)?;
                let [before, after] = pair.each_ref().map(|run| per_cpu_second(&run.result));
                let (Some(before), Some(after)) = (before, after) else {
                    bail!("{} round {round}: nothing was counted", row.name);
                };
                println!(
                    "{:<14} round {round} before {before:>10.0} after {after:>10.0} ratio {:.3}",
                    row.name,
                    after / before
                );
                ratios.push(after / before);
                records.extend(pair);
            }
            holds &= line(&mut text, row, &records, ratios, ask.expect);
            if let Some(out) = &ask.out {
                record::write(out, &records)?;
                std::fs::write(out.join("table.md"), &text)?;
            }
        }
        print!("\n{text}");
        Ok(holds)
    }

    /// Both at once. Who starts first, and has the lower port, changes from round to round.
    fn round(&self, row: &Row, round: usize) -> anyhow::Result<[Record; 2]> {
        let order = if round.is_multiple_of(2) { [1, 0] } else { [0, 1] };
        let ports = ports()?;
        let mut running = Vec::new();
        for (place, which) in order.into_iter().enumerate() {
            running.push((place, which, self.start(row, which, ports[place])?));
        }
        let mut pair = [None, None];
        let mut failed = None;
        for (place, which, child) in running {
            let output = child.wait_with_output()?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                failed = Some(format!("{} {} round {round}: {said}", row.name, NAMES[which]));
                continue;
            }
            let (result, _) = record::read_run(&self.folder(which).join("run"))?;
            pair[which] = Some(Record {
                row: row.name.to_owned(),
                who: NAMES[which].to_owned(),
                round,
                place: place + 1,
                processor: record::processor(),
                beside: Vec::new(),
                result,
                // Times of two servers on one processor say nothing.
                histograms: BTreeMap::new(),
            });
        }
        match (failed, pair) {
            (None, [Some(before), Some(after)]) => Ok([before, after]),
            (failed, _) => bail!(failed.unwrap_or_default()),
        }
    }

    fn folder(&self, which: usize) -> PathBuf {
        self.scratch.join(NAMES[which])
    }

    /// A generator that starts and ends its server.
    fn start(&self, row: &Row, which: usize, port: u16) -> anyhow::Result<Child> {
        let folder = self.folder(which);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        // By these names, so that the records tell nothing of the machine's folders.
        symlink(&self.programs[which], folder.join("throng"))?;
        symlink(root().join("scenarios/modules"), folder.join("modules"))?;
        let server = if row.serves {
            format!(
                "./throng serve --data_dir data --runtime.path modules --logger.level error \
                 --session.token_expiry_sec 7200 --socket.port {port}"
            )
        } else {
            format!("./throng echo --port {port}")
        };
        let mut load = Command::new(&self.programs[1]);
        load.arg("load").args(row.load).args(["--peer", NAMES[which], "--out", "run"]);
        load.args(["--target", &format!("http://127.0.0.1:{port}"), "--server", &server]);
        load.args(["--warmup", &format!("{WARM_UP_S}s")]);
        load.args(["--duration", &format!("{}s", row.counted_s)]);
        load.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        load.spawn().context("throng load")
    }
}

/// Two ports for servers, the lower one first, each with the one below it for its gRPC. None of those that the
/// system gives to outgoing connections (ip(7), `ip_local_port_range`): a generator's could have it.
fn ports() -> anyhow::Result<[u16; 2]> {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 10_000 + u16::try_from(std::process::id() % 10_000)?;
    let mut free = (first..32_768).step_by(2).filter(|port| is_free(*port) && is_free(port - 1));
    match (free.next(), free.next()) {
        (Some(low), Some(high)) => Ok([low, high]),
        _ => bail!("no free port from {first} to 32,767"),
    }
}

const TABLE: &str = "\
Operations per CPU-second of the server process, both servers at once on one processor; medians, and\n\
the ratio after ÷ before of each round.\n\n\
| | before | after | ratio, median | rounds |\n|---|---|---|---|---|\n";

/// Adds a row to the table. Tells whether it is as expected.
fn line(
    text: &mut String,
    row: &Row,
    records: &[Record],
    ratios: Vec<f64>,
    expect: Option<f64>,
) -> bool {
    let of = |name| {
        let runs = records.iter().filter(|run| run.row == row.name && run.who == name);
        Spread::of(runs.filter_map(|run| per_cpu_second(&run.result)).collect())
    };
    let (Some(before), Some(after)) = (of(NAMES[0]), of(NAMES[1])) else { return false };
    let Some(ratio) = Spread::of(ratios) else { return false };
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "| {} | {} | {} | {:.3} | {} |",
        row.title,
        whole(before.median()),
        whole(after.median()),
        ratio.median(),
        ratio.range(|number| format!("{number:.3}")),
    );
    let holds = expect.is_none_or(|least| ratio.median() >= least);
    if !holds {
        println!("FAIL {}: ratio {:.3}", row.name, ratio.median());
    }
    holds
}
