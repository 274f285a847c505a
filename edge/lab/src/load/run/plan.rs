//! What a run is asked for, whether it can be run, and why it could not.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use engine::{DriverChoice, StartError, ThreadFailed};

use crate::load::generator::{self, Node, PLAYERS_MAX, Source, TlsClient};
use crate::load::scenario::data::{Data, Pick};
use crate::load::scenario::mark::SENDER_MASK;
use crate::load::scenario::program::{Dials, compile};
use crate::load::scenario::{Scenario, ScenarioError, Span};
use crate::measure::number::float;
use crate::measure::process::SampleError;
use crate::measure::processors::cpus;
use crate::measure::target::{Target, TargetError};
use crate::measure::tls::{TlsChoice, TlsError};

/// Files that a process needs besides its connections.
const FILES_OF_OUR_OWN: u64 = 64;
/// Servers that one run may have, at most.
pub const TARGETS_MAX: usize = 64;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What players do.
    pub scenario: Scenario,
    /// Where: one server, or several nodes that are measured as one; player n goes to node n
    /// modulo their count. At least one, at most [`TARGETS_MAX`].
    pub targets: Vec<Target>,
    /// Whether somebody named them; else a server that is started may say where it listens.
    pub is_target_given: bool,
    /// Instead of the scenario's number.
    pub players: Option<u32>,
    /// Instead of the scenario's rate.
    pub rate: Option<f64>,
    /// Instead of the scenario's.
    pub rate_end: Option<f64>,
    /// Closed loop: each operation begins when the last is answered.
    pub saturate: bool,
    /// How long is counted.
    pub duration: Span,
    /// How long load runs before that.
    pub warm_up: Span,
    /// Instead of the scenario's.
    pub ramp: Option<Span>,
    /// Instead of the scenario's.
    pub pipeline: Option<u16>,
    /// For `auth = "server-key"`.
    pub server_key: String,
    /// For `auth = "http-key"`.
    pub http_key: String,
    /// Values for the scenario's variables.
    pub vars: BTreeMap<String, String>,
    /// The server processes to sample; what they use is added up.
    pub server_pids: Vec<u32>,
    /// A server to start, on another processor, and to end.
    pub server: Option<String>,
    /// The generator's processor; the last one by default.
    pub pin: Option<usize>,
    /// The local address of connections; the system's choice by default, and many over loopback.
    pub bind: Option<IpAddr>,
    /// Of targets that begin with https://.
    pub tls: TlsChoice,
    /// The generator's thread, and a server that is started, before all ordinary threads.
    pub realtime: bool,
    /// The generator's driver.
    pub driver: DriverChoice,
    /// Of arrivals, think times and weights; random by default.
    pub seed: Option<u64>,
    /// Processes that share the players, for more sockets than one may open.
    pub processes: u16,
    /// What is measured, in words: versions that no header says.
    pub peer: String,
    /// Arguments that tell a worker process which of the command line's runs it belongs to.
    pub worker_args: Vec<String>,
    /// The file that the output of [`Self::server`] is kept in.
    pub server_log: Option<PathBuf>,
    /// Tells a person what is waited for before the run begins.
    pub say: fn(&str),
    /// Set from outside to end the wait for a server that starts.
    pub stop: Arc<AtomicBool>,
}

/// What one of several processes does of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Counted from 0.
    pub index: u16,
    /// How many processes there are.
    pub count: u16,
    /// The run's number, the same for all.
    pub run_number: u32,
    /// Where the servers listen.
    pub urls: Vec<String>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// There is no server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A generator gets no sockets for datagrams.
    #[error("cannot bind sockets for datagrams: {0}")]
    Datagrams(std::io::Error),
    /// The server's process cannot be sampled.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// No such process.
    #[error("--server-pid {pid}: there is no process {pid}")]
    NoProcess {
        /// As given.
        pid: u32,
    },
    /// A processor that there is not.
    #[error("--pin {cpu}: there is no processor {cpu}: {known}")]
    NoProcessor {
        /// As given.
        cpu: usize,
        /// Those that there are: `0–3`.
        known: String,
    },
    /// More players than this process can have connections.
    #[error(
        "{players} players need as many open files, and a process may have {limit}: use \
         --processes {processes}, or raise `ulimit -n`"
    )]
    OpenFiles {
        /// Asked for.
        players: u32,
        /// The system's limit.
        limit: u64,
        /// How many processes would do.
        processes: u64,
    },
    /// A worker process could not be started, or ended badly.
    #[error("worker {index}: {what}")]
    Worker {
        /// Counted from 0.
        index: u16,
        /// What happened.
        what: String,
    },
    /// No server, or more than [`TARGETS_MAX`].
    #[error("{count} targets: a run has 1 to {TARGETS_MAX}")]
    Targets {
        /// How many were given.
        count: usize,
    },
    /// Several targets for the one server that the run starts itself.
    #[error("a server that is started for the run is one: give one target, or none")]
    ServerOfMany,
    /// A data file has not a row for each player.
    #[error(
        "data `{name}`: {players} players, and {file} has {rows} rows, of which each gets one: a \
         longer file, at most {rows} players (--players), or `wrap = true` in the scenario"
    )]
    Rows {
        /// The scenario's name for it.
        name: String,
        /// As the scenario says.
        file: String,
        /// How many it has.
        rows: u32,
        /// How many are to come.
        players: u64,
    },
    /// More players than can be numbered.
    #[error("{players} players are too many: at most {PLAYERS_MAX}")]
    Players {
        /// Asked for.
        players: u32,
    },
    /// The generator's thread did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The generator's thread failed.
    #[error(transparent)]
    Failed(#[from] ThreadFailed),
    /// The generator's thread ended without a word.
    #[error("the generator ended before its time")]
    Gone,
}

/// Whether a plan can be run, as far as that can be told without a server.
///
/// # Errors
/// When the scenario cannot be meant so, or the players are too many for this process.
pub fn check(plan: &Plan) -> Result<(), RunError> {
    compile(&plan.scenario, &dials(plan, &plan.targets, 0))?;
    check_targets(plan)?;
    check_processor(plan)?;
    check_rows(plan)?;
    tls_client(plan, &plan.targets)?;
    check_players(plan.players.unwrap_or(plan.scenario.players), plan.processes.max(1))
}

pub(super) fn dials(plan: &Plan, targets: &[Target], run_number: u32) -> Dials {
    Dials {
        hosts: targets.iter().map(|target| target.host.clone()).collect(),
        server_key: plan.server_key.clone(),
        http_key: plan.http_key.clone(),
        run: format!("{run_number:08x}"),
        vars: plan.vars.clone(),
        pipeline: plan.pipeline.unwrap_or(plan.scenario.pipeline),
    }
}

/// Raises the limit of open files as far as the system lets us, and compares.
pub(super) fn check_players(players: u32, processes: u16) -> Result<(), RunError> {
    if players > PLAYERS_MAX {
        return Err(RunError::Players { players });
    }
    let limit = engine::raise_file_limit().unwrap_or(u64::MAX);
    let each = u64::from(players.div_ceil(u32::from(processes.max(1))));
    if each + FILES_OF_OUR_OWN > limit {
        let room = limit.saturating_sub(FILES_OF_OUR_OWN).max(1);
        return Err(RunError::OpenFiles {
            players,
            limit,
            processes: u64::from(players).div_ceil(room),
        });
    }
    Ok(())
}

/// Whether every player that is to come has a row of each data file.
fn check_rows(plan: &Plan) -> Result<(), RunError> {
    let phases = &plan.scenario.phases;
    let players = if phases.is_empty() {
        u64::from(plan.players.unwrap_or(plan.scenario.players))
    } else if phases.iter().any(|phase| phase.players_max.is_some()) {
        // Nobody knows how many will be let in.
        return Ok(());
    } else {
        let expected = phases.iter().map(|it| it.arrivals * it.duration.0.as_secs_f64());
        whole(expected.sum())
    };
    let is_own = |data: &&Data| data.pick == Pick::Player && !data.wrap;
    for data in plan.scenario.data.iter().filter(is_own) {
        let rows = data.table.rows();
        if players > u64::from(rows) {
            let (name, file) = (data.name.clone(), data.file.clone());
            return Err(RunError::Rows { name, file, rows, players });
        }
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn whole(count: f64) -> u64 {
    count.clamp(0.0, 1e15).ceil() as u64
}

/// Whether this process may run where it is to.
fn check_processor(plan: &Plan) -> Result<(), RunError> {
    let known = cpus();
    match plan.pin {
        // Where none is known, the system decides.
        Some(cpu) if !known.is_empty() && !known.contains(&cpu) => {
            Err(RunError::NoProcessor { cpu, known: ranges(&known) })
        }
        _ => Ok(()),
    }
}

/// `0–3, 6` of sorted numbers.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| *b == a + 1);
    let runs = runs.filter_map(|run| Some((run.first()?, run.last()?)));
    let words =
        runs.map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}–{last}") }
            },
        );
    words.collect::<Vec<_>>().join(", ")
}

fn check_targets(plan: &Plan) -> Result<(), RunError> {
    let count = plan.targets.len();
    if !(1..=TARGETS_MAX).contains(&count) {
        return Err(RunError::Targets { count });
    }
    if plan.server.is_some() && count > 1 {
        return Err(RunError::ServerOfMany);
    }
    Ok(())
}

pub(super) fn generator_settings(
    plan: &Plan,
    targets: &[Target],
    run_number: u32,
    share: Option<&Share>,
) -> Result<generator::Settings, RunError> {
    let source = Source::new(plan.bind)?;
    let mut phases = plan.scenario.phases.clone();
    let phases_ns = phases.iter().fold(0_u64, |sum, phase| sum.saturating_add(phase.duration.ns()));
    let counted_ns = if phases.is_empty() {
        plan.duration.ns()
    } else {
        phases_ns.saturating_sub(plan.warm_up.ns())
    };
    let all = plan.players.unwrap_or(plan.scenario.players);
    let (index, count) = share.map_or((0, 1), |it| (u64::from(it.index), u64::from(it.count)));
    let part = |index: u64| u32::try_from(u64::from(all) * index / count).unwrap_or(u32::MAX);
    for phase in &mut phases {
        phase.arrivals /= float(count);
        let most = phase.players_max.map(u64::from);
        phase.players_max = most.map(|it| u32::try_from(it.div_ceil(count)).unwrap_or(u32::MAX));
    }
    // Arrivals of several processes must not share their numbers.
    let first_number = if phases.is_empty() {
        part(index)
    } else {
        u32::try_from(u64::from(u32::MAX) / count * index).unwrap_or(0)
    };
    let seed = plan.seed.unwrap_or_else(|| u64::from(run_number));
    // In match messages there is room for 24 bits: arrivals of several processes share them.
    let first_sender = if phases.is_empty() {
        first_number
    } else {
        u32::try_from(u64::from(SENDER_MASK) / count * index).unwrap_or(0)
    };
    Ok(generator::Settings {
        nodes: targets.iter().map(node).collect(),
        tls: tls_client(plan, targets)?,
        source,
        first_sender,
        players: part(index + 1) - part(index),
        first_number,
        players_all: all,
        share: share.map_or(generator::Share::WHOLE, |it| generator::Share {
            index: it.index,
            count: it.count,
        }),
        rate: plan.rate.or(plan.scenario.rate),
        rate_end: plan.rate_end.or(plan.scenario.rate_end),
        saturate: plan.saturate,
        has_clock: true,
        waits_for_go: share.is_some(),
        ramp_ns: plan.ramp.unwrap_or(plan.scenario.ramp).ns(),
        warm_up_ns: plan.warm_up.ns(),
        counted_ns,
        timeout_ns: plan.scenario.timeout.ns(),
        phases,
        run_tag: u16::try_from(run_number & 0xfff).unwrap_or(0),
        seed,
    })
}

fn node(target: &Target) -> Node {
    let tls_name = target.tls_name.clone();
    Node { addr: target.addr, host: target.host.clone(), tls_name }
}

/// What connections of TLS have in common, if there are any.
fn tls_client(plan: &Plan, targets: &[Target]) -> Result<Option<TlsClient>, TlsError> {
    let is_wanted = targets.iter().any(|it| it.tls_name.is_some());
    is_wanted.then(|| TlsClient::new(&plan.tls)).transpose()
}

pub(super) fn unix_now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn neighbours_are_told_together() {
        assert_eq!(ranges(&[0, 1]), "0–1");
        assert_eq!(ranges(&[0, 2, 3, 4, 7]), "0, 2–4, 7");
        assert_eq!(ranges(&[]), "");
    }
}
