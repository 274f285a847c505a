//! One run: starts the server if asked to, and runs the generator on a thread of its own, or
//! several in processes of their own. `collect` adds up what they tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, SystemTime};

use engine::{DriverChoice, Engine, Limits, Running, StartError, ThreadFailed, ThreadPlan};
use event::ThreadId;

use super::advice;
use super::collect::{Collector, ServerWatch};
use super::deliveries::SENDER_MASK;
use super::generator::{Command, Event, Generator, Node, PLAYERS_MAX};
use super::hlog::Intervals;
use super::process::sample_all;
use super::program::{Dials, Program, compile};
use super::record::{ErrorCount, Stage};
use super::scenario::{Scenario, ScenarioError, Span};
use super::summary::{Second, Summary};
use super::target::{Server, Target, TargetError, Unbind, cpus, pin_thread};
use super::workers::Workers;

/// Records that may wait for the main thread.
pub(super) const EVENTS_MAX: usize = 64;
/// Files that a process needs besides its connections.
const FILES_OF_OUR_OWN: u64 = 64;
/// Connections beyond the players', for few players.
const SPARE_CONNECTIONS: u32 = 64;
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

/// A run that has ended.
pub struct Finished {
    /// Its figures.
    pub summary: Summary,
    /// Its histograms, second by second.
    pub intervals: Intervals,
}

/// How a run goes, told every second.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    /// Where it is.
    pub stage: Stage,
    /// Seconds since that began.
    pub stage_s: f64,
    /// The second that has just ended.
    pub second: &'a Second,
    /// All seconds, the last one too.
    pub history: &'a [Second],
    /// Operations in the order of [`Second::ops`].
    pub op_names: &'a [String],
    /// Beside them: whether it counts and is what the run is about, not preparation.
    pub is_loop_op: &'a [bool],
    /// Whether the server's process is sampled.
    pub has_server: bool,
    /// Errors so far, by operation (its place in `op_names`) and kind.
    pub errors: &'a BTreeMap<(u16, String), ErrorCount>,
    /// What was asked for stands in its settings; its figures come at the end.
    pub summary: &'a Summary,
}

/// Is told how a run goes; `false` ends the counted time.
pub type Watch<'a> = &'a mut dyn FnMut(&Progress<'_>) -> bool;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// There is no server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The server's process cannot be sampled.
    #[error(transparent)]
    Sample(#[from] super::process::SampleError),
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
    check_players(plan.players.unwrap_or(plan.scenario.players), plan.processes.max(1))
}

/// Runs a plan. `watch` is told every second, and may ask to end the counted time by returning
/// `false`.
///
/// # Errors
/// When the run could not begin or its generator failed; failures of the server are part of the
/// result.
pub fn run(plan: &Plan, watch: Watch<'_>) -> Result<Finished, RunError> {
    let run_number = unix_now().subsec_nanos() ^ std::process::id().rotate_left(16);
    // Everything that can be wrong with the request is found before a server is started.
    check(plan)?;
    let _unbind = Unbind::later();
    let places = cpus();
    let pin = plan.pin.or_else(|| places.last().copied().filter(|_| places.len() > 1));
    let mut server =
        plan.server.as_deref().map(|command| start_server(plan, command, pin)).transpose()?;
    let targets = match &mut server {
        Some(server) => vec![server.wait(&plan.stop)?],
        None => plan.targets.iter().map(Target::reach).collect::<Result<Vec<_>, _>>()?,
    };
    let pids = server.as_ref().map_or_else(|| plan.server_pids.clone(), |it| vec![it.pid()]);
    let before = sample_all(&pids)?;
    if let Some(cpu) = pin {
        pin_thread(cpu)?;
    }
    let program = Arc::new(compile(&plan.scenario, &dials(plan, &targets, run_number))?);
    let settings = generator_settings(plan, &targets, run_number, None);
    let mut collector = Collector::new(plan, &targets, &program, &settings, pin);
    collector.summary.generator.processors = processors_of(plan, places.len());
    collector.server = (!pids.is_empty()).then(|| ServerWatch::new(pids.clone(), before));
    if plan.processes > 1 {
        let urls: Vec<_> = targets.iter().map(|target| target.url.as_str()).collect();
        let workers = Workers::start(plan, run_number, &urls)?;
        workers.drive(&mut collector, watch)?;
    } else {
        let generator = Here::start(plan, program.clone(), settings, pin)?;
        collector.summary.settings.driver = generator.running.driver().to_string();
        generator.post(Command::Begin);
        let is_finished = || generator.running.is_finished(generator.id);
        let ask_to_finish = || generator.post(Command::Finish);
        let done = collector.collect(&generator.events, is_finished, ask_to_finish, watch);
        generator.running.join()?;
        done?;
    }
    collector.finish(&program);
    let ended = server.as_mut().and_then(Server::ended);
    collector.summary.notes = advice::notes(&targets, (&places, pin), &pids, ended);
    // This process has bound itself to one of them since.
    collector.summary.environment.processors = places.len();
    let of_result = advice::notes_of(&collector.summary, !pids.is_empty());
    collector.summary.notes.extend(of_result);
    collector.summary.ended = advice::stopped(&collector.summary).unwrap_or_default();
    Ok(Finished { summary: collector.summary, intervals: collector.intervals })
}

/// Runs one worker's share of a plan: records go out as lines, commands come in as lines.
///
/// # Errors
/// When its generator could not begin or failed.
pub fn work(plan: &Plan, share: &Share) -> Result<(), RunError> {
    let reach = |url: &String| Target::parse(url)?.reach();
    let targets = share.urls.iter().map(reach).collect::<Result<Vec<_>, _>>()?;
    let players = plan.players.unwrap_or(plan.scenario.players);
    check_players(players, share.count)?;
    let places = cpus();
    let pin = plan.pin.or_else(|| {
        // The first processor is the server's, if there is more than one.
        let own = places.get(1..).filter(|own| !own.is_empty())?;
        own.get(usize::from(share.count - 1 - share.index) % own.len()).copied()
    });
    let program = Arc::new(compile(&plan.scenario, &dials(plan, &targets, share.run_number))?);
    let settings = generator_settings(plan, &targets, share.run_number, Some(share));
    let generator = Here::start(plan, program, settings, pin)?;
    let driver = generator.running.driver().to_string();
    super::workers::serve(generator, &driver)
}

/// A generator on a thread of this process.
pub(super) struct Here {
    pub(super) running: Running<Command>,
    pub(super) id: ThreadId,
    pub(super) events: Receiver<Event>,
}

impl Here {
    fn start(
        plan: &Plan,
        program: Arc<Program>,
        settings: super::generator::Settings,
        pin: Option<usize>,
    ) -> Result<Self, RunError> {
        let (sender, events) = sync_channel(EVENTS_MAX);
        let mut engine = Engine::new(plan.driver);
        // Those of players that begin anew are closing for a while yet.
        let connections_max = settings.players + settings.players / 4 + SPARE_CONNECTIONS;
        let connect_ms = u32::try_from(settings.timeout_ns / 1_000_000).unwrap_or(u32::MAX).max(1);
        let mut thread = ThreadPlan::core("generator", Vec::new(), move |_start| {
            // Timers to the microsecond; the kernel rounds to 50 µs otherwise.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            Generator::new(program, settings, sender)
        });
        thread.pin = pin;
        thread.limits = Limits { connections_max, connect_ms, ..Limits::default() };
        let id = engine.add(thread);
        Ok(Self { running: engine.start()?, id, events })
    }

    /// Tells the generator something; one that has ended need not know.
    pub(super) fn post(&self, command: Command) {
        let _ = self.running.post(self.id, command);
    }
}

fn dials(plan: &Plan, targets: &[Target], run_number: u32) -> Dials {
    Dials {
        hosts: targets.iter().map(|target| target.host.clone()).collect(),
        server_key: plan.server_key.clone(),
        http_key: plan.http_key.clone(),
        run: format!("{run_number:08x}"),
        vars: plan.vars.clone(),
        pipeline: plan.pipeline.unwrap_or(plan.scenario.pipeline),
    }
}

pub(super) fn unix_now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Raises the limit of open files as far as the system lets us, and compares.
fn check_players(players: u32, processes: u16) -> Result<(), RunError> {
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

/// How many processors the generator's processes can use at once, as [`work`] binds them.
fn processors_of(plan: &Plan, places: usize) -> u32 {
    let own = if plan.pin.is_some() { 1 } else { places.saturating_sub(1).max(1) };
    u32::from(plan.processes.max(1)).min(u32::try_from(own).unwrap_or(u32::MAX))
}

/// Starts the server on the processors that the generator does not use.
fn start_server(plan: &Plan, command: &str, pin: Option<usize>) -> Result<Server, RunError> {
    let others: Vec<usize> = cpus().into_iter().filter(|cpu| Some(*cpu) != pin).collect();
    if let Some(cpu) = others.first() {
        pin_thread(*cpu)?;
    }
    let Some(target) = plan.targets.first() else { return Err(RunError::Targets { count: 0 }) };
    Ok(Server::start(command, target, plan.is_target_given)?)
}

fn generator_settings(
    plan: &Plan,
    targets: &[Target],
    run_number: u32,
    share: Option<&Share>,
) -> super::generator::Settings {
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
        phase.arrivals /= super::summary::float(count);
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
    super::generator::Settings {
        nodes: targets.iter().map(|it| Node { addr: it.addr, host: it.host.clone() }).collect(),
        first_sender,
        players: part(index + 1) - part(index),
        first_number,
        players_all: all,
        rate: plan.rate.or(plan.scenario.rate),
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
    }
}
