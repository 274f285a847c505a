//! What a ramp has found, in the form of its `result.json`.

use serde::{Deserialize, Serialize};

use super::power::PowerSource;
use crate::measure::{Environment, Percentiles};

/// Of the form of [`RampResult`].
pub const RAMP_VERSION: u32 = 1;

/// A ramp.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RampResult {
    /// [`RAMP_VERSION`].
    pub version: u32,
    /// `host ramp`.
    pub command: String,
    /// When it began, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Why it ended early; empty if it did not.
    pub ended: String,
    /// What was asked for.
    pub settings: Settings,
    /// What each gate says, the one that was asked for first.
    pub gates: Vec<GateResult>,
    /// Numbers of servers that were never measured undisturbed. They pass no gate, and fail none.
    #[serde(default)]
    pub unmeasured: Vec<Unmeasured>,
    /// All that was measured, in order, what was discarded too.
    pub steps: Vec<Step>,
    /// The machine over time.
    pub series: Vec<Second>,
    /// Where.
    pub environment: Environment,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The server's table, its wall, and what it answers.
    pub server: String,
    /// Likewise.
    pub wall: String,
    /// Likewise.
    pub kind: String,
    /// Players of ours on each, and datagrams that each sends a second.
    pub players: u32,
    /// Likewise.
    pub rate_hz: f64,
    /// Bots that each server had of its own.
    pub bots: u32,
    /// Nanoseconds of a tick; 0 if no step told it.
    pub tick_ns: u64,
    /// Seconds that counted of each step, of each control, and that came before.
    pub span_s: f64,
    /// Likewise.
    pub control_s: f64,
    /// Likewise.
    pub warm_up_s: f64,
    /// How often every number was to be measured.
    pub repeats: u32,
    /// Order of the repeats.
    pub seed: u64,
    /// By how much controls might differ, as a part of a tick.
    pub drift: f64,
    /// Part of the processors' time that might be taken from the machine.
    pub steal: f64,
    /// How late players might send themselves, as a part of a tick at the 99th percentile.
    pub late: f64,
    /// Threads that played, their processors, and whether they went before all others.
    pub threads: usize,
    /// Likewise.
    pub cores: Vec<usize>,
    /// Likewise.
    pub is_realtime: bool,
    /// Processors of the machine.
    pub processors: u32,
    /// Watts of an idle and a busy processor in the model.
    pub watts: [f64; 2],
    /// Where figures of power are from.
    pub power: PowerSource,
    /// Price of an hour of the machine.
    pub price: Option<f64>,
}

/// What one gate says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// As it is written.
    pub gate: String,
    /// The most servers of which all passed in every repeat that counts, with all smaller numbers of
    /// which a step counts; the others are [`RampResult::unmeasured`].
    pub servers: u32,
    /// The same for each processor of the machine.
    pub per_core: f64,
    /// The least number that failed; none if none did.
    pub fails_at: Option<u32>,
    /// What failed there, in words.
    pub why: String,
    /// Players on that many servers; bots are players too.
    pub players: u32,
    /// What a player's hour costs then.
    pub player_hour: Option<f64>,
}

/// A number of servers of which no step counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmeasured {
    /// The number.
    pub servers: u32,
    /// Steps that were measured and discarded, in all repeats together.
    pub tries: u32,
    /// Why the last of them was.
    pub why: String,
}

/// Why something was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A number of servers.
    #[default]
    Step,
    /// One server alone, to see whether the machine is as it was.
    Control,
}

/// One stretch that was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// From 1 on, in the order of time.
    pub number: u32,
    /// Why.
    pub role: Role,
    /// Servers.
    pub servers: u32,
    /// Which repeat, from 1 on.
    pub repeat: u32,
    /// When it began, in seconds since the ramp did, and its length.
    pub at_s: f64,
    /// Likewise.
    pub span_s: f64,
    /// Seconds until all servers and players were there.
    pub ready_s: f64,
    /// Why it does not count; empty if it does.
    pub discarded: String,
    /// Nanoseconds of a tick.
    pub tick_ns: u64,
    /// Of all servers together: how late snapshots were, how long a command took, a status query.
    pub lateness: Percentiles,
    /// Likewise.
    pub transactions: Percentiles,
    /// Likewise.
    pub status: Percentiles,
    /// Each server.
    pub each: Vec<ServerFigures>,
    /// The machine.
    pub machine: MachineFigures,
    /// The players' threads.
    pub generator: GeneratorFigures,
}

/// One server in a stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerFigures {
    /// Its name.
    pub name: String,
    /// Players of ours who were to play, and those who did not at the end.
    pub players: u32,
    /// Likewise.
    pub lost: u32,
    /// Why, if the server said so.
    pub refused: String,
    /// How late snapshots were, by each player's own schedule.
    pub lateness: Percentiles,
    /// From a command to the first snapshot that shows it.
    pub transactions: Percentiles,
    /// From a status query to its answer.
    pub status: Percentiles,
    /// Snapshots that came.
    pub snapshots: u64,
    /// And did not, between others.
    pub missed: u64,
    /// Times that nothing came for more than one and a half distances.
    pub gaps: u64,
    /// Snapshots whose lateness was not kept for lack of room.
    pub left_out: u64,
    /// Commands sent, and those that no snapshot showed.
    pub commands: u64,
    /// Likewise.
    pub unanswered: u64,
    /// Status queries sent, and those without an answer.
    pub asked: u64,
    /// Likewise.
    pub silent: u64,
    /// Ticks that were due, and those that were late or left out, as the server counts them.
    pub ticks_due: Option<u64>,
    /// Likewise.
    pub ticks_late: Option<u64>,
    /// Processor time in percent of one processor.
    pub cpu_percent: Option<f64>,
    /// Time that its threads waited for a processor, in milliseconds a second.
    pub runqueue_wait_ms_per_s: Option<f64>,
    /// Times a second that a thread was taken off its processor.
    pub preempted_per_s: Option<f64>,
    /// Memory at the end; of shared pages its part, where the system tells.
    pub memory_bytes: u64,
}

/// The machine in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFigures {
    /// Processor time that was used, in percent of all processors, by the kernel's ticks.
    pub cpu_percent: f64,
    /// Part of it in the kernel, interrupts included.
    pub system_percent: f64,
    /// Taken by the host that this machine runs on.
    pub steal_percent: f64,
    /// All servers together, in percent of one processor.
    pub servers_cpu_percent: f64,
    /// Memory of all servers.
    pub servers_memory_bytes: u64,
    /// Watts, from where [`Settings::power`] says.
    pub watts: f64,
}

/// The players' threads in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorFigures {
    /// Processor time in percent of one processor.
    pub cpu_percent: f64,
    /// How much later than intended something was sent.
    pub late: Percentiles,
    /// How much later than it came something was read. The figures of servers do not have it in them.
    pub behind: Percentiles,
    /// Datagrams.
    pub sent: u64,
    /// Likewise.
    pub received: u64,
    /// Datagrams that the kernel did not take.
    pub unsent: u64,
}

/// A second of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the ramp began, at its end.
    pub at_s: f64,
    /// The step that it is of.
    pub step: u32,
    /// Servers.
    pub servers: u32,
    /// Processor time in percent of all processors.
    pub cpu_percent: f64,
    /// Taken from this machine.
    pub steal_percent: f64,
    /// Watts.
    pub watts: f64,
}

impl RampResult {
    /// Steps that count, without controls.
    pub(super) fn counted(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|it| it.role == Role::Step && it.discarded.is_empty())
    }

    /// The numbers of servers of which some step counts, in order.
    pub(super) fn levels(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.counted().map(|it| it.servers).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The numbers of servers whose steps were all discarded, in order.
    pub(super) fn never_measured(&self) -> Vec<Unmeasured> {
        let levels = self.levels();
        let never = self.tried().into_iter().filter(|it| !levels.contains(it));
        let of = |servers| {
            let is_of = |it: &&Step| it.role == Role::Step && it.servers == servers;
            let tries = self.steps.iter().filter(is_of).count();
            let last = self.steps.iter().rfind(is_of);
            let tries = u32::try_from(tries).unwrap_or(u32::MAX);
            let why = last.map_or_else(String::new, |it| it.discarded.clone());
            Unmeasured { servers, tries, why }
        };
        never.map(of).collect()
    }

    /// The numbers of servers that were measured at all, those whose steps were all discarded too.
    pub(super) fn tried(&self) -> Vec<u32> {
        let steps = self.steps.iter().filter(|it| it.role == Role::Step);
        let mut all: Vec<u32> = steps.map(|it| it.servers).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
