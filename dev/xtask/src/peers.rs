//! `cargo xtask peers`: throng and other servers in the same rounds under the same generator.
//!
//! Each round runs every row, and of a row every server once, one after the other, who is first changing from
//! round to round, each on one processor with the generator (`throng load`) on another. What comes out are
//! ratios within a round and their spread, to other servers or to throng itself in another row; on a shared
//! machine nothing else can be said.
//!
//! What is deliberately not here: other servers, and how they are built. A file names their commands.
//! Data comes in from that file and from what `throng load` writes; it goes out as a table and as
//! records (`record`).

pub mod before;
mod beside;
pub mod growth;
pub mod guests;
mod picture;
mod plan;
pub mod profile;
mod record;
mod rows;
mod table;
pub mod walls;
pub mod zone;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::docs;
use crate::repository::{path_with, root};
use plan::Server;
use record::Record;
use rows::{Group, ROWS, Row};

/// Names the file of peers when `--with` does not.
pub const VARIABLE: &str = "THRONG_PEERS";

/// Rounds of a row that does not take minutes.
const ROUNDS: usize = 5;

/// Seconds before what is counted.
const WARM_UP_S: u32 = 2;

/// What to measure.
#[derive(Default)]
pub struct Request {
    /// Names of rows; none: all.
    pub rows: Vec<String>,
    /// The file of peers; else [`VARIABLE`] names it; without both throng runs alone.
    pub with: Option<PathBuf>,
    /// Rounds; the row's own number if not given.
    pub rounds: Option<usize>,
    /// Seconds that are counted; the row's own number if not given.
    pub duration_s: Option<u32>,
    /// Where records and table go.
    pub out: Option<PathBuf>,
    /// Least median ratio to the best other server, or to the row of `against`, of every row.
    pub expect: Option<f64>,
    /// The row with which throng's other rows are compared, round by round, instead of with other servers.
    pub against: Option<String>,
    /// Only print the rows.
    pub list: bool,
    /// Only print the table of a folder's records.
    pub table: Option<PathBuf>,
    /// The program; else a release build is made.
    pub throng: Option<PathBuf>,
    /// More for `throng load`, of every run.
    pub load: Vec<String>,
}

/// The number of an expectation `ratio >= 0.75`.
///
/// # Errors
/// If it is of another form.
pub fn expectation(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_prefix("ratio").map(str::trim_start);
    let number = number.and_then(|text| text.strip_prefix(">=")).map(str::trim);
    let number: Option<f64> = number.and_then(|text| text.parse().ok());
    number.filter(|it| it.is_finite()).ok_or_else(|| format!("`{text}`: write 'ratio >= 0.75'"))
}

/// Why nobody can be measured beside throng, if nobody can.
pub fn missing() -> Option<String> {
    let why = || format!("no other servers named ({VARIABLE}; cargo xtask peers --help)");
    std::env::var_os(VARIABLE).is_none().then(why)
}

/// Measures. Tells whether every run went well and the expectation holds.
///
/// # Errors
/// If what was asked for makes no sense, or nothing can be run or written.
pub fn run(ask: &Request) -> anyhow::Result<bool> {
    if ask.list {
        for row in ROWS {
            println!("{:<17} {:<10} {}", row.name, row.group.word(), row.title);
        }
        return Ok(true);
    }
    if let Some(folder) = &ask.table {
        print!("{}", table::markdown(&record::read(folder)?));
        return Ok(true);
    }
    let peers = if ask.against.is_some() { Vec::new() } else { peers_of(ask)? };
    let mut rows = plan::rows(&ask.rows)?;
    let against =
        ask.against.as_ref().map(|name| plan::rows(std::slice::from_ref(name))).transpose()?;
    let against = against.map(|rows| rows[0]);
    if let Some(against) = against {
        rows.retain(|row| row.name != against.name);
        rows.insert(0, against);
    }
    let mut bench = Bench::new(ask, &rows)?;
    println!("about {} min\n", (bench.seconds(&rows, &peers) / 60).max(1));
    let is_well = bench.rows(&rows, &peers)?;
    print!("\n{}", bench.finish()?);
    if let Some(against) = against {
        rows.retain(|row| row.name != against.name);
        print!("\n{}", table::against(&bench.records, &rows, against));
    }
    Ok(is_well && holds(ask.expect, &rows, against, &bench.records))
}

/// The other servers, if any are named.
fn peers_of(ask: &Request) -> anyhow::Result<Vec<Server>> {
    let file = ask.with.clone().or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    file.map_or_else(|| Ok(Vec::new()), |path| plan::peers(&path))
}

/// Whether every row's ratio is what it should be; says so.
fn holds(
    least: Option<f64>,
    rows: &[&'static Row],
    against: Option<&'static Row>,
    records: &[Record],
) -> bool {
    let Some(least) = least else { return true };
    let mut holds = true;
    for row in rows {
        let found = match against {
            Some(against) => table::ratio_to(records, row, against),
            None => table::ratio(records, row),
        };
        let found = found.map(|it| it.median());
        let is_well = found.is_some_and(|ratio| ratio >= least);
        let found = found.map_or("nothing to compare with".to_owned(), |it| format!("{it:.2}"));
        println!(
            "{} {}: {found}, {least} expected",
            if is_well { "ok  " } else { "FAIL" },
            row.name
        );
        holds &= is_well;
    }
    holds
}

/// Puts the modules that throng runs in these rows into `folder`. Those in Go are built.
///
/// # Errors
/// If Go is missing or cannot build them, or the folder cannot be written.
fn lay_out(rows: &[&Row], folder: &Path) -> anyhow::Result<()> {
    for row in rows {
        let to = folder.join(row.modules);
        if row.group != Group::Nakama || to.exists() {
            continue;
        }
        let from = root().join("scenarios").join(row.modules);
        if !from.join("go.mod").exists() {
            symlink(from, to)?;
            continue;
        }
        let mut go = Command::new("go");
        go.args(["build", "-buildmode=c-shared", "-ldflags=-w", "-o"]).arg(to.join("echo.wasm"));
        go.env("GOOS", "wasip1").env("GOARCH", "wasm").current_dir(&from).stdin(Stdio::null());
        let status = go.status().with_context(|| format!("row {} needs Go", row.name))?;
        if !status.success() {
            bail!("{} cannot be built: {status}", from.display());
        }
    }
    Ok(())
}

/// Where and how runs are made.
struct Bench<'a> {
    ask: &'a Request,
    throng: PathBuf,
    /// A folder for throng's data, and one for what a run writes.
    scratch: PathBuf,
    out: PathBuf,
    records: Vec<Record>,
}

impl<'a> Bench<'a> {
    fn new(ask: &'a Request, rows: &[&Row]) -> anyhow::Result<Self> {
        let throng = docs::throng_of(ask.throng.as_deref())?;
        let scratch = std::env::temp_dir().join(format!("throng-peers-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
        lay_out(rows, &scratch)?;
        let out = ask.out.clone().unwrap_or_else(|| scratch.join("records"));
        // Rows that are not measured now keep their records.
        let records = record::read(&out)?;
        Ok(Self { ask, throng, scratch, out, records })
    }

    fn about(&self) -> &'static str {
        if self.ask.throng.is_some() { "" } else { "cargo build --release" }
    }

    fn servers(&self, row: &Row, peers: &[Server]) -> Vec<Server> {
        let ours = plan::throng(row, &self.scratch, self.about());
        std::iter::once(ours).chain(peers.iter().filter(|peer| peer.is_in(row)).cloned()).collect()
    }

    fn rounds(&self, row: &Row) -> usize {
        self.ask.rounds.unwrap_or(if row.is_long { 1 } else { ROUNDS })
    }

    fn counted_s(&self, row: &Row) -> u32 {
        self.ask.duration_s.unwrap_or(row.counted_s)
    }

    /// How long all of it takes, about.
    fn seconds(&self, rows: &[&Row], peers: &[Server]) -> u64 {
        const START_AND_END_S: u32 = 3;
        let one = |row: &&Row| {
            let run_s = START_AND_END_S + row.ramp_s + WARM_UP_S + self.counted_s(row);
            let runs = self.rounds(row) * self.servers(row, peers).len();
            u64::from(run_s) * runs as u64
        };
        rows.iter().map(one).sum()
    }

    /// All rounds of all rows. Tells whether all went well.
    fn rows(&mut self, rows: &[&Row], peers: &[Server]) -> anyhow::Result<bool> {
        self.records.retain(|record| rows.iter().all(|row| record.row != row.name));
        let rounds = rows.iter().map(|row| self.rounds(row)).max().unwrap_or(0);
        let mut is_well = true;
        for round in 0..rounds {
            for row in rows {
                if round < self.rounds(row) {
                    is_well &= self.round(round, row, &self.servers(row, peers));
                }
                record::write(&self.out, &self.records)?;
            }
        }
        rows.iter().for_each(|row| record::thin_out(&mut self.records, row.name));
        record::write(&self.out, &self.records)?;
        Ok(is_well)
    }

    /// One round of a row. Tells whether all went well.
    fn round(&mut self, round: usize, row: &Row, servers: &[Server]) -> bool {
        let mut is_well = true;
        for (place, index) in (1..).zip(plan::order(round, servers.len())) {
            let server = &servers[index];
            print!("{:<17} round {} {:<20} ", row.name, round + 1, server.name);
            match self.measure(row, server) {
                Ok(record) => {
                    let found = table::per_cpu_second(&record.result).unwrap_or(0.0);
                    println!("{found:>12.0} per CPU-second");
                    self.records.push(Record { round: round + 1, place, ..record });
                }
                Err(error) => {
                    println!("FAILED: {error:#}");
                    is_well = false;
                }
            }
        }
        is_well
    }

    /// One run. Which round it was the caller knows.
    fn measure(&self, row: &Row, server: &Server) -> anyhow::Result<Record> {
        let out = self.scratch.join("run");
        if let Some(before) = &server.before {
            quiet(Command::new("sh").args(["-c", before]).current_dir(&server.folder))
                .context("before")?;
        }
        let mut load = Command::new(&self.throng);
        load.arg("load").args(row.load).args(&server.load).arg("--out").arg(&out);
        load.args(["--duration", &format!("{}s", self.counted_s(row))]);
        load.args(["--warmup", &format!("{WARM_UP_S}s"), "--server", &server.start]);
        if let Some(target) = &server.target {
            load.args(["--target", target]);
        }
        let peer = [server.name.as_str(), server.about.as_str()].join(" ");
        load.args(["--peer", peer.trim()]).args(&self.ask.load).current_dir(&server.folder);
        let beside = server.beside.as_ref().map(|file| server.folder.join(file));
        load.env("PATH", path_with(&self.throng)?);
        let beside = beside::watch(beside.as_deref(), || quiet(&mut load))?;
        let (result, histograms) = record::read_run(&out)?;
        Ok(Record {
            row: row.name.to_owned(),
            who: server.name.clone(),
            round: 0,
            place: 0,
            processor: record::processor(),
            beside,
            result,
            histograms,
        })
    }

    /// Writes the table and gives it back; what was only for the runs goes.
    fn finish(&self) -> anyhow::Result<String> {
        let text = table::markdown(&self.records);
        std::fs::write(self.out.join("table.md"), &text)?;
        println!("\nrecords: {}", self.out.join(record::FILE).display());
        self.clean();
        Ok(text)
    }

    /// What was only for the runs goes.
    fn clean(&self) {
        let rest = ["run", "data", "modules"].map(|name| self.scratch.join(name));
        for path in rest {
            // What was never made need not go, and the folder stays if it has the records.
            let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(path));
        }
        let _ = std::fs::remove_dir(&self.scratch);
    }
}

/// Runs a command whose output matters only if it fails.
fn quiet(command: &mut Command) -> anyhow::Result<()> {
    const TAIL: usize = 600;
    let output = command.stdin(Stdio::null()).output().context("cannot be run")?;
    if output.status.success() {
        return Ok(());
    }
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&both[both.len().saturating_sub(TAIL)..]).into_owned();
    bail!("{}: {}", output.status, text.trim())
}

#[cfg(test)]
mod tests {
    use super::expectation;

    #[test]
    fn an_expectation_is_a_least_ratio() {
        assert_eq!(expectation("ratio >= 0.75"), Ok(0.75));
        assert_eq!(expectation("ratio>=8"), Ok(8.0));
        for text in ["", "ratio", "ratio > 1", "ratio >= x", "ratio >= NaN", "ops >= 1"] {
            assert!(expectation(text).is_err(), "{text}");
        }
    }
}
