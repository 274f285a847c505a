//! What a daemon says of its servers and the machine, as JSON and as text.
//!
//! In: numbers of the daemon. Out: tables. Not here: how they are had.

use std::fmt::Write as _;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fleet::sdk::Counter;

/// State of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Started, and not ready yet.
    Starting,
    /// Waits for players.
    Ready,
    /// Has been given to somebody.
    Allocated,
    /// Has set itself aside by the SDK: it is not given away until it says that it is ready.
    Reserved,
    /// Ended because somebody wanted it, or by itself without a failure.
    Stopped,
    /// Ended or was ended for a failure, or could not be started.
    Failed,
}

impl State {
    /// The word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Allocated => "allocated",
            Self::Reserved => "reserved",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// A server now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// What it is called.
    pub name: String,
    /// Which table of the fleet's file it is of.
    pub fleet: String,
    /// What it does.
    pub state: State,
    /// The wall, as in the file.
    pub wall: String,
    /// Where players find it: address and port; only the address without a port.
    pub address: Option<String>,
    /// Its process, while there is one.
    pub pid: Option<u32>,
    /// Players on it, bots included; `null` if it was not asked or did not say.
    pub players: Option<u32>,
    /// How many there may be.
    pub players_max: Option<u32>,
    /// Processor time in percent of one processor, over the last seconds.
    pub cpu_percent: Option<f64>,
    /// Time that its threads have waited for a processor, in milliseconds a second, over the last seconds.
    pub runqueue_wait_ms_per_s: Option<f64>,
    /// Memory in bytes, with files within its walls.
    pub memory_bytes: Option<u64>,
    /// Ticks that began late or were left out, of servers that tell it; `null` where nobody can know.
    pub ticks_late: Option<u64>,
    /// How often it was started again.
    pub restarts: u32,
    /// Seconds since it was started.
    pub up_s: Option<u64>,
    /// What happened to it, in words; empty if nothing did.
    pub what: String,
    /// What it has said by the Agones SDK; `null` if it never did.
    #[serde(default)]
    pub sdk: Option<Sdk>,
}

/// What a server has said by the Agones SDK, and what was said to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sdk {
    /// Its state in Agones' words.
    pub state: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Counters.
    pub counters: BTreeMap<String, Counter>,
    /// Lists.
    pub lists: BTreeMap<String, Values>,
    /// Players, if they are tracked.
    pub players: Option<Values>,
    /// Labels, annotations, values and players that are not shown, because there are too many.
    pub not_shown: u64,
    /// Times that its calls had to wait.
    pub waited: u64,
    /// Connections and watches that were refused.
    pub refused: u64,
    /// Connections of other users that were closed.
    pub strangers: u64,
}

/// A list of a server's, or its players.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    /// How many there are.
    pub count: u64,
    /// How many there may be.
    pub capacity: i64,
    /// The first of them.
    pub values: Vec<String>,
}

/// The machine now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Processors.
    pub cpus: usize,
    /// Processor time that was used, in percent of all, over the last seconds.
    pub cpu_percent: Option<f64>,
    /// Memory, and how much of it could be used, in bytes.
    pub memory_bytes: u64,
    /// Likewise.
    pub memory_available_bytes: u64,
}

/// All servers and the machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Overview {
    /// In the order of the fleet's file.
    pub servers: Vec<Status>,
    /// The machine.
    pub machine: Machine,
}

impl Overview {
    /// The totals as one line.
    #[must_use]
    pub fn total(&self) -> String {
        let count = |state| self.servers.iter().filter(|it| it.state == state).count();
        let players: u32 = self.servers.iter().filter_map(|it| it.players).sum();
        let machine = &self.machine;
        let used = machine.memory_bytes.saturating_sub(machine.memory_available_bytes);
        format!(
            "{}: {} ready, {} allocated, {} reserved, {} starting, {} stopped, {} failed; {players} \
             players; machine: {} CPUs {} busy, {} of {} memory in use",
            servers(self.servers.len()),
            count(State::Ready),
            count(State::Allocated),
            count(State::Reserved),
            count(State::Starting),
            count(State::Stopped),
            count(State::Failed),
            machine.cpus,
            machine.cpu_percent.map_or_else(|| "?".to_owned(), |it| format!("{it:.0} %")),
            bytes(used),
            bytes(machine.memory_bytes),
        )
    }
}

/// So many servers.
#[must_use]
pub fn servers(count: usize) -> String {
    if count == 1 { "1 server".to_owned() } else { format!("{count} servers") }
}

/// A text for a terminal: what would move its cursor or change its colours is written out. Lines and tabs stay.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' && c != '\t' {
            // Those of Unicode are below U+00A0.
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// A table of all servers.
#[must_use]
pub fn table(overview: &Overview) -> String {
    let head = [
        "NAME",
        "STATE",
        "ADDRESS",
        "PLAYERS",
        "CPU",
        "WAIT ms/s",
        "MEMORY",
        "LATE",
        "STARTS",
        "WHAT",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let cell = |text: String| printable(&text).replace(['\n', '\t'], " ");
    rows.extend(overview.servers.iter().map(|it| row(it).map(cell)));
    let mut widths = [0; 10];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            let is_number = (3..9).contains(&at);
            let _ = if is_number {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:<width$}  ")
            };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

fn row(it: &Status) -> [String; 10] {
    let dash = || "-".to_owned();
    let players = match (it.players, it.players_max) {
        (Some(players), Some(most)) if most > 0 => format!("{players}/{most}"),
        (Some(players), _) => players.to_string(),
        (None, _) => dash(),
    };
    [
        it.name.clone(),
        it.state.word().to_owned(),
        it.address.clone().unwrap_or_else(dash),
        players,
        it.cpu_percent.map_or_else(dash, |it| format!("{it:.1} %")),
        it.runqueue_wait_ms_per_s.map_or_else(dash, |it| format!("{it:.1}")),
        it.memory_bytes.map_or_else(dash, bytes),
        it.ticks_late.map_or_else(dash, |it| it.to_string()),
        (it.restarts + 1).to_string(),
        what(it),
    ]
}

/// What happened to it; and what it asked of the SDK beyond its limits, if it did.
fn what(it: &Status) -> String {
    let Some(sdk) = it.sdk.as_ref().filter(|sdk| sdk.refused + sdk.waited > 0) else {
        return it.what.clone();
    };
    let (refused, waited) = (sdk.refused, sdk.waited);
    let pause = if it.what.is_empty() { "" } else { "; " };
    let told = format!("SDK: {refused} connections or watches refused, {waited} times too fast");
    format!("{}{pause}{told}", it.what)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1_024.0 { format!("{mib:.1} MiB") } else { format!("{:.1} GiB", mib / 1_024.0) }
}

#[cfg(test)]
mod tests {
    use super::{Machine, Overview, Sdk, State, Status, printable, servers, table};

    #[test]
    fn a_table_has_a_row_for_each() {
        let status = Status {
            name: "arena-1".to_owned(),
            fleet: "arena".to_owned(),
            state: State::Ready,
            wall: "network".to_owned(),
            address: Some("10.213.0.2:27960".to_owned()),
            pid: Some(7),
            players: Some(8),
            players_max: Some(16),
            cpu_percent: Some(2.51),
            runqueue_wait_ms_per_s: Some(1.0),
            memory_bytes: Some(38 << 20),
            ticks_late: None,
            restarts: 0,
            up_s: Some(9),
            what: String::new(),
            sdk: None,
        };
        let failed = Status {
            name: "b".to_owned(),
            state: State::Failed,
            address: None,
            players: None,
            what: "\u{1b}[2J\nexit code 3".to_owned(),
            ..status.clone()
        };
        let machine = Machine { cpus: 2, cpu_percent: Some(10.0), ..Machine::default() };
        let overview = Overview { servers: vec![status, failed], machine };
        let text = table(&overview);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].starts_with("arena-1  ready   10.213.0.2:27960     8/16  2.5 %"),
            "{text}"
        );
        assert!(lines[2].ends_with("\\x1b[2J exit code 3"), "{text}");
        assert_eq!(printable("a\tb\n\u{1b}\u{9b}\r\u{7f}ä"), "a\tb\n\\x1b\\x9b\\x0d\\x7fä");
        assert_eq!((servers(1), servers(0)), ("1 server".to_owned(), "0 servers".to_owned()));
        let sdk = Sdk { refused: 3, waited: 40, ..Sdk::default() };
        let greedy = Status { sdk: Some(sdk), ..overview.servers[1].clone() };
        let text = table(&Overview { servers: vec![greedy], ..Overview::default() });
        let told = "exit code 3; SDK: 3 connections or watches refused, 40 times too fast\n";
        assert!(text.ends_with(told), "{text}");
        assert!(overview.total().starts_with("2 servers: 1 ready, 0 allocated"));
    }
}
