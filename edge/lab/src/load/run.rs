//! One run: starts the server if asked to, runs the generator on a thread of its own, samples
//! processes at the edges of the counted time, and adds everything up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use engine::{DriverChoice, Engine, Limits, StartError, ThreadFailed, ThreadPlan};

use super::environment::Environment;
use super::generator::{Command, Event, Generator, PLAYERS_MAX};
use super::hlog::Intervals;
use super::process::{ProcessSample, own_cpu, own_resident_bytes, sample};
use super::program::{Dials, Program, compile};
use super::record::{Record, Stage};
use super::scenario::{Scenario, ScenarioError, Span};
use super::summary::{
    GeneratorCost, PLAYERS_MIN, Percentiles, RESULT_VERSION, Second, Settings, Summary,
};
use super::target::{Server, Target, TargetError, cpus, pin_thread};

/// Records that may wait for the main thread.
const EVENTS_MAX: usize = 64;
/// Files that a process needs besides its connections.
const FILES_OF_OUR_OWN: u64 = 64;
/// The engine's receive buffers: with thousands of sockets many have something at once.
const RECEIVE_BUFFERS: u16 = 4_096;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What players do.
    pub scenario: Scenario,
    /// Where.
    pub target: Target,
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
    /// The server process to sample.
    pub server_pid: Option<u32>,
    /// A server to start, on another processor, and to end.
    pub server: Option<String>,
    /// The generator's processor; the last one by default.
    pub pin: Option<usize>,
    /// The generator's driver.
    pub driver: DriverChoice,
    /// Of arrivals, think times and weights; random by default.
    pub seed: Option<u64>,
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
    /// Whether the server's process is sampled.
    pub has_server: bool,
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
        "{players} players need {players} open files, and this process may have {limit}: raise \
         `ulimit -n`, or use fewer players"
    )]
    OpenFiles {
        /// Asked for.
        players: u32,
        /// The system's limit.
        limit: u64,
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

/// Runs a plan. `watch` is told every second, and may ask to end the counted time by returning
/// `false`.
///
/// # Errors
/// When the run could not begin or its generator failed; failures of the server are part of the
/// result.
pub fn run(plan: &Plan, watch: Watch<'_>) -> Result<Finished, RunError> {
    let run_number = unix_now().subsec_nanos() ^ std::process::id().rotate_left(16);
    let dials = Dials {
        host: plan.target.host.clone(),
        server_key: plan.server_key.clone(),
        http_key: plan.http_key.clone(),
        run: format!("{run_number:08x}"),
        vars: plan.vars.clone(),
        pipeline: plan.pipeline.unwrap_or(plan.scenario.pipeline),
    };
    // Everything that can be wrong with the request is found before a server is started.
    compile(&plan.scenario, &dials)?;
    let players = plan.players.unwrap_or(plan.scenario.players);
    check_players(players)?;
    let places = cpus();
    let pin = plan.pin.or_else(|| places.last().copied().filter(|_| places.len() > 1));
    let mut server =
        plan.server.as_deref().map(|command| start_server(command, pin)).transpose()?;
    let target = match &mut server {
        Some(server) => server.wait(&plan.target)?,
        None => plan.target.clone(),
    };
    let server_pid = server.as_ref().map(Server::pid).or(plan.server_pid);
    let before = server_pid.map(sample).transpose()?;
    if let Some(cpu) = pin {
        pin_thread(cpu)?;
    }
    let program = Arc::new(compile(&plan.scenario, &Dials { host: target.host.clone(), ..dials })?);
    let settings = generator_settings(plan, &target, players, run_number);
    let mut collector = Collector::new(plan, &target, &program, &settings, pin);
    collector.server = server_pid.zip(before).map(|(pid, before)| ServerWatch::new(pid, before));
    collector.drive(plan, program, settings, pin, watch)
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Raises the limit of open files as far as the system lets us, and compares.
fn check_players(players: u32) -> Result<(), RunError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if players > PLAYERS_MAX {
        return Err(RunError::Players { players });
    }
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // A failure leaves the old limit, which is what is compared with then.
    let _ = setrlimit(Resource::Nofile, raised);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if u64::from(players) + FILES_OF_OUR_OWN > limit {
        return Err(RunError::OpenFiles { players, limit });
    }
    Ok(())
}

/// Starts the server on the processors that the generator does not use.
fn start_server(command: &str, pin: Option<usize>) -> Result<Server, RunError> {
    let others: Vec<usize> = cpus().into_iter().filter(|cpu| Some(*cpu) != pin).collect();
    if let Some(cpu) = others.first() {
        pin_thread(*cpu)?;
    }
    Ok(Server::start(command)?)
}

fn generator_settings(
    plan: &Plan,
    target: &Target,
    players: u32,
    run_number: u32,
) -> super::generator::Settings {
    let phases_ns: u64 = plan.scenario.phases.iter().map(|phase| phase.duration.ns()).sum();
    let counted_ns = if plan.scenario.phases.is_empty() {
        plan.duration.ns()
    } else {
        phases_ns.saturating_sub(plan.warm_up.ns())
    };
    super::generator::Settings {
        target: target.addr,
        host: target.host.clone(),
        players,
        first_number: 0,
        players_all: players,
        rate: plan.rate.or(plan.scenario.rate),
        saturate: plan.saturate,
        has_clock: true,
        ramp_ns: plan.ramp.unwrap_or(plan.scenario.ramp).ns(),
        warm_up_ns: plan.warm_up.ns(),
        counted_ns,
        timeout_ns: plan.scenario.timeout.ns(),
        phases: plan.scenario.phases.clone(),
        run_tag: u16::try_from(run_number & 0xfff).unwrap_or(0),
        seed: plan.seed.unwrap_or_else(|| u64::from(run_number)),
    }
}

/// Samples of the server at the edges of the counted time.
struct ServerWatch {
    pid: u32,
    before: ProcessSample,
    /// When all players had come.
    ready: Option<ProcessSample>,
    start: Option<(ProcessSample, Instant)>,
    end: Option<(ProcessSample, Instant)>,
    last: Duration,
}

impl ServerWatch {
    fn new(pid: u32, before: ProcessSample) -> Self {
        Self { pid, before, ready: None, start: None, end: None, last: before.cpu() }
    }
}

/// Adds up what the generator tells.
struct Collector {
    summary: Summary,
    total: Record,
    setup: Vec<bool>,
    headline: u16,
    has_phases: bool,
    intervals: Intervals,
    stage: Stage,
    stage_at: Instant,
    op_names: Vec<String>,
    start_ns: Option<u64>,
    server: Option<ServerWatch>,
    own_start: Option<(Duration, Instant)>,
    own_last: (Duration, Instant),
    own_resident_before: u64,
}

impl Collector {
    fn new(
        plan: &Plan,
        target: &Target,
        program: &Program,
        settings: &super::generator::Settings,
        pin: Option<usize>,
    ) -> Self {
        let scenario = &plan.scenario;
        let mut vars = scenario.vars.clone();
        vars.extend(plan.vars.clone());
        let summary = Summary {
            version: RESULT_VERSION,
            scenario: scenario.name.clone(),
            title: scenario.title.clone(),
            about: scenario.about.clone(),
            started_unix_s: unix_now().as_secs(),
            settings: Settings {
                target: target.url.clone(),
                players: settings.players,
                rate: settings.rate.filter(|_| !plan.saturate),
                saturate: plan.saturate,
                pipeline: plan.pipeline.unwrap_or(scenario.pipeline),
                warm_up_s: plan.warm_up.0.as_secs_f64(),
                planned_s: super::summary::seconds(settings.counted_ns),
                vars,
                driver: String::new(),
                pin,
                seed: settings.seed,
            },
            environment: Environment::read(),
            ..Summary::default()
        };
        Self {
            summary,
            total: Record::new(Stage::Counted, program.ops.len(), 0),
            setup: program.ops.iter().map(|op| op.setup).collect(),
            headline: program.headline,
            has_phases: !scenario.phases.is_empty(),
            intervals: Intervals::default(),
            stage: Stage::Ramp,
            stage_at: Instant::now(),
            op_names: program.ops.iter().map(|op| op.name.clone()).collect(),
            start_ns: None,
            server: None,
            own_start: None,
            own_last: (own_cpu(), Instant::now()),
            own_resident_before: own_resident_bytes(),
        }
    }

    fn drive(
        mut self,
        plan: &Plan,
        program: Arc<Program>,
        settings: super::generator::Settings,
        pin: Option<usize>,
        watch: Watch<'_>,
    ) -> Result<Finished, RunError> {
        let (sender, events) = sync_channel(EVENTS_MAX);
        let mut engine = Engine::new(plan.driver);
        let (for_thread, players) = (program.clone(), settings.players);
        let mut thread = ThreadPlan::core("generator", Vec::new(), move |_start| {
            // Timers to the microsecond; the kernel rounds to 50 µs otherwise.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            Generator::new(for_thread, settings, sender)
        });
        thread.pin = pin;
        thread.limits = Limits {
            connections_max: players + 16,
            receive_buffers: RECEIVE_BUFFERS,
            ..Limits::default()
        };
        let id = engine.add(thread);
        let running = engine.start()?;
        self.summary.settings.driver = running.driver().to_string();
        let _ = running.post(id, Command::Begin);
        let done = self.collect(
            &events,
            || running.is_finished(id),
            || {
                let _ = running.post(id, Command::Finish);
            },
            watch,
        );
        running.join()?;
        done?;
        self.finish(&program);
        Ok(Finished { summary: self.summary, intervals: self.intervals })
    }

    /// Takes events until the generator is done.
    fn collect(
        &mut self,
        events: &Receiver<Event>,
        is_finished: impl Fn() -> bool,
        ask_to_finish: impl Fn(),
        watch: Watch<'_>,
    ) -> Result<(), RunError> {
        loop {
            match events.recv_timeout(Duration::from_millis(500)) {
                Ok(Event::Stage(stage)) => self.stage_begins(stage),
                Ok(Event::Record(record)) => {
                    let second = self.take(&record);
                    self.summary.series.push(second);
                    if !self.tell(watch) {
                        ask_to_finish();
                    }
                }
                Ok(Event::Done) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if !is_finished() => {}
                Err(_) => return Err(RunError::Gone),
            }
        }
    }

    fn tell(&self, watch: &mut dyn FnMut(&Progress<'_>) -> bool) -> bool {
        let Some(second) = self.summary.series.last() else { return true };
        watch(&Progress {
            stage: self.stage,
            stage_s: self.stage_at.elapsed().as_secs_f64(),
            second,
            history: &self.summary.series,
            op_names: &self.op_names,
            has_server: self.server.is_some(),
            summary: &self.summary,
        })
    }

    fn stage_begins(&mut self, stage: Stage) {
        self.stage = stage;
        let now = Instant::now();
        self.stage_at = now;
        // A server that is gone cannot be sampled; its errors are in the result.
        let server = self.server.as_ref().and_then(|server| sample(server.pid).ok());
        if stage == Stage::WarmUp {
            if let Some(watch) = &mut self.server {
                watch.ready = server;
            }
        } else if stage == Stage::Counted {
            self.own_start = Some((own_cpu(), now));
            if let Some(watch) = &mut self.server {
                watch.start = server.map(|sample| (sample, now));
            }
        } else if stage == Stage::Drain {
            if let Some(watch) = &mut self.server {
                watch.end = server.map(|sample| (sample, now));
            }
            if let Some((cpu, at)) = self.own_start {
                let used = own_cpu().saturating_sub(cpu).as_secs_f64();
                self.summary.counted_s = at.elapsed().as_secs_f64();
                self.summary.generator = GeneratorCost {
                    cpu_s: used,
                    cpu_share: used / self.summary.counted_s.max(1e-9),
                    resident_bytes: own_resident_bytes(),
                    ..GeneratorCost::default()
                };
            }
        }
    }

    /// Adds a record, and makes a line of the series from it.
    fn take(&mut self, record: &Record) -> Second {
        let start_ns = *self.start_ns.get_or_insert(record.from_ns);
        let mut second = Second::of(record, start_ns, self.headline);
        self.intervals.take(record, start_ns);
        let now = Instant::now();
        let (cpu, at) = std::mem::replace(&mut self.own_last, (own_cpu(), now));
        let wall_s = now.duration_since(at).as_secs_f64().max(1e-9);
        second.generator_cpu = self.own_last.0.saturating_sub(cpu).as_secs_f64() / wall_s;
        if let Some(watch) = &mut self.server
            && let Ok(sample) = sample(watch.pid)
        {
            let cpu = std::mem::replace(&mut watch.last, sample.cpu());
            second.server_cpu = sample.cpu().saturating_sub(cpu).as_secs_f64() / wall_s;
        }
        if matches!(record.stage, Stage::Counted | Stage::Drain) {
            for (op, setup) in self.setup.iter().enumerate() {
                if !setup {
                    self.total.add_op(op, record);
                }
            }
        }
        for (op, setup) in self.setup.iter().enumerate() {
            if *setup {
                self.total.add_op(op, record);
            }
        }
        self.total.add_rest(record, record.stage == Stage::Counted);
        second
    }

    fn finish(&mut self, program: &Program) {
        let series = &self.summary.series;
        let counted_s: f64 = series
            .iter()
            .filter(|second| second.stage == Stage::Counted.word())
            .map(|second| second.length_s)
            .sum();
        self.summary.counted_s = counted_s;
        if self.has_phases {
            let most = self.summary.series.iter().map(|second| second.players).max();
            self.summary.settings.players = most.unwrap_or(0);
        }
        let resident_bytes = self.summary.generator.resident_bytes;
        let grown = resident_bytes.saturating_sub(self.own_resident_before);
        let players = self.summary.settings.players;
        if players >= PLAYERS_MIN {
            self.summary.generator.bytes_per_player = grown / u64::from(players);
        }
        self.summary.generator.turn_ns_max = self.total.turn_ns_max;
        self.summary.generator.behind = Percentiles::of(self.total.behind.histogram());
        self.summary.deliveries = program.match_ops.iter().any(Option::is_some).then(|| {
            let it = &self.total.deliveries;
            super::summary::Deliveries {
                echoes_sent: it.sent[0],
                echoes: it.received[0],
                broadcasts_sent: it.sent[1],
                broadcasts: it.received[1],
                lost: it.lost,
                doubled: it.doubled,
                reordered: it.reordered,
                foreign: it.foreign,
                untracked: it.untracked,
            }
        });
        self.summary.add_totals(&self.total, &program.ops, program.headline);
        if let Some(watch) = &self.server
            && let (Some((start, from)), Some((end, until))) = (watch.start, watch.end)
        {
            let wall_s = until.duration_since(from).as_secs_f64();
            let ready = watch.ready.unwrap_or(start);
            self.summary.add_server(watch.pid, [watch.before, ready, start, end], wall_s);
        }
    }
}
