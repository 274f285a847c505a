//! Adds up what generators tell: totals, the seconds, samples of the server at the edges of the
//! counted time. The figures come out as a [`Summary`].

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::kinds::Kinds;
use super::metrics::MetricsWatch;
use super::plan::{Plan, RunError, unix_now};
use crate::load::generator::Event;
use crate::load::record::{OwnRecord, Record, Stage};
use crate::load::result::Second;
use crate::load::result::summary::{
    DataSummary, GeneratorCost, PLAYERS_MIN, RESULT_VERSION, RampCost, Settings, Summary, TlsAsked,
};
use crate::load::result::{Progress, Watch, ZoneSummary};
use crate::load::scenario::program::{Op, Program};
use crate::measure::hlog::{Intervals, Kind};
use crate::measure::number::seconds;
use crate::measure::percentiles::Percentiles;
use crate::measure::process::{ProcessSample, Watched, own_cpu, own_resident_bytes};
use crate::measure::processors::cpus_of;
use crate::measure::secrets::{KEY, is_secret};
use crate::measure::target::Target;
use crate::measure::tls::Trust;

/// Samples of the server at the edges of the counted time.
pub(super) struct ServerWatch {
    watched: Watched,
    /// Processes of it when the run began.
    pids: Vec<u32>,
    before: ProcessSample,
    /// When all players had come.
    ready: Option<ProcessSample>,
    start: Option<(ProcessSample, Instant)>,
    end: Option<(ProcessSample, Instant)>,
    last: Duration,
    /// Processors that they may use; none where that is not known.
    cores: Option<u32>,
}

impl ServerWatch {
    pub(super) fn new(watched: Watched, before: ProcessSample) -> Self {
        let pids = watched.pids();
        let cores: BTreeSet<usize> = pids.iter().flat_map(|pid| cpus_of(*pid)).collect();
        Self {
            cores: u32::try_from(cores.len()).ok().filter(|it| *it > 0),
            pids,
            watched,
            before,
            ready: None,
            start: None,
            end: None,
            last: before.cpu(),
        }
    }
}

/// Adds up what the generator tells.
pub(crate) struct Collector {
    pub(crate) summary: Summary,
    pub(crate) total: Record,
    kinds: Kinds,
    /// What the generator did while the players came.
    ramp: OwnRecord,
    setup: Vec<bool>,
    headline: u16,
    has_phases: bool,
    pub(crate) intervals: Intervals,
    stage: Stage,
    stage_at: Instant,
    op_names: Vec<String>,
    is_loop_op: Vec<bool>,
    start_ns: Option<u64>,
    pub(super) server: Option<ServerWatch>,
    pub(super) metrics: Option<MetricsWatch>,
    /// Whether players are pilots of the zone.
    flies: bool,
    own_last: (Duration, Instant),
    own_resident_before: u64,
}

impl Collector {
    pub(super) fn new(
        plan: &Plan,
        targets: &[Target],
        program: &Program,
        settings: &crate::load::generator::Settings,
        pin: Option<usize>,
    ) -> Self {
        let scenario = &plan.scenario;
        let targets: Vec<String> = targets.iter().map(|target| target.url.clone()).collect();
        let mut vars = scenario.vars.clone();
        vars.extend(plan.vars.clone());
        for (name, value) in &mut vars {
            if is_secret(name) {
                KEY.clone_into(value);
            }
        }
        let summary = Summary {
            version: RESULT_VERSION,
            command: "load".to_owned(),
            scenario: scenario.name.clone(),
            title: scenario.title.clone(),
            about: scenario.about.clone(),
            started_unix_s: unix_now().as_secs(),
            settings: Settings {
                target: targets.join(", "),
                targets,
                server_pids: Vec::new(),
                players: settings.players,
                rate: settings.rate.filter(|_| !plan.saturate),
                rate_end: settings.rate_end.filter(|_| !plan.saturate),
                saturate: plan.saturate,
                is_free: scenario.phases.is_empty() && program.has_free_loop(settings.rate),
                pipeline: plan.pipeline.unwrap_or(scenario.pipeline),
                scenario_digest: scenario.digest(),
                ramp_s: seconds(settings.ramp_ns),
                warm_up_s: plan.warm_up.0.as_secs_f64(),
                planned_s: seconds(settings.counted_ns),
                vars,
                data: scenario.data.iter().map(DataSummary::of).collect(),
                driver: String::new(),
                processes: plan.processes.max(1),
                realtime: plan.realtime,
                tls: settings.tls.is_some().then(|| TlsAsked {
                    trust: plan.tls.trust.words(),
                    insecure: plan.tls.trust == Trust::Anybody,
                    resumes: plan.tls.resumes,
                }),
                bind: plan.bind.map(|it| it.to_string()),
                pin,
                seed: settings.seed,
            },
            ..Summary::default()
        };
        let collector = Self::of(summary, &program.ops, program.headline);
        Self { has_phases: !scenario.phases.is_empty(), flies: program.flies(), ..collector }
    }

    /// Adds to a summary that says what is asked for; `headline` is a place in `ops`.
    pub(crate) fn of(summary: Summary, ops: &[Op], headline: u16) -> Self {
        let name = ops.get(usize::from(headline)).map(|op| op.name.clone()).unwrap_or_default();
        Self {
            summary: Summary { headline: name, ..summary },
            total: Record::new(Stage::Counted, ops.len(), 0),
            kinds: Kinds::default(),
            ramp: OwnRecord::default(),
            setup: ops.iter().map(|op| op.setup).collect(),
            headline,
            has_phases: false,
            intervals: Intervals::default(),
            stage: Stage::Ramp,
            stage_at: Instant::now(),
            op_names: ops.iter().map(|op| op.name.clone()).collect(),
            is_loop_op: ops.iter().map(|op| op.counted && !op.setup).collect(),
            start_ns: None,
            server: None,
            metrics: None,
            flies: false,
            own_last: (own_cpu(), Instant::now()),
            own_resident_before: own_resident_bytes(),
        }
    }

    /// Takes events until the generator is done.
    pub(super) fn collect(
        &mut self,
        events: &Receiver<Event>,
        is_finished: impl Fn() -> bool,
        ask_to_finish: impl Fn(),
        watch: Watch<'_>,
    ) -> Result<(), RunError> {
        loop {
            match events.recv_timeout(Duration::from_millis(500)) {
                Ok(Event::Ready | Event::Stopped) => {}
                Ok(Event::Stage(stage)) => self.stage_begins(stage),
                Ok(Event::Record(record)) => {
                    if !self.add(&record, watch) {
                        ask_to_finish();
                    }
                }
                Ok(Event::Done) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if !is_finished() => {}
                Err(_) => return Err(RunError::Gone),
            }
        }
    }

    /// Adds a stretch of all generators, and tells who watches; `false` asks to end the counted
    /// time.
    pub(crate) fn add(&mut self, record: &Record, watch: Watch<'_>) -> bool {
        let second = self.take(record);
        if second.is_empty() {
            return true;
        }
        self.summary.series.push(second);
        self.tell(watch)
    }

    fn tell(&self, watch: &mut dyn FnMut(&Progress<'_>) -> bool) -> bool {
        let Some(second) = self.summary.series.last() else { return true };
        watch(&Progress {
            stage: self.stage,
            stage_s: self.stage_at.elapsed().as_secs_f64(),
            second,
            history: &self.summary.series,
            op_names: &self.op_names,
            is_loop_op: &self.is_loop_op,
            has_server: self.server.is_some(),
            errors: &self.total.errors,
            total: &self.total,
            summary: &self.summary,
        })
    }

    pub(crate) fn stage_begins(&mut self, stage: Stage) {
        self.stage = stage;
        let now = Instant::now();
        self.stage_at = now;
        self.metrics.iter_mut().for_each(|it| it.stage_begins(stage));
        // A server that is gone cannot be sampled; its errors are in the result.
        let server = self.server.as_mut().and_then(|server| server.watched.sample().ok());
        if let Some(watch) = &mut self.server {
            match stage {
                Stage::WarmUp => watch.ready = server,
                Stage::Counted => watch.start = server.map(|sample| (sample, now)),
                Stage::Drain => watch.end = server.map(|sample| (sample, now)),
                Stage::Ramp | Stage::Done => {}
            }
        }
    }

    /// Adds a record, and makes a line of the series from it.
    fn take(&mut self, record: &Record) -> Second {
        let start_ns = *self.start_ns.get_or_insert_with(|| {
            // It is told when it is over.
            let length_ns = record.until_ns.saturating_sub(record.from_ns);
            let began = unix_now().saturating_sub(Duration::from_nanos(length_ns));
            self.summary.series_unix_ms = u64::try_from(began.as_millis()).unwrap_or(u64::MAX);
            record.from_ns
        });
        if self.summary.environment.server.is_empty() {
            self.summary.environment.server.clone_from(&record.server);
        }
        let mut second = Second::of(record, start_ns, self.headline);
        if record.stage == Stage::Ramp && !self.has_phases {
            self.summary.ramp.get_or_insert_default().take(record, &second);
        }
        second.note = self.ramp_note(record);
        keep(&mut self.intervals, record, start_ns, &self.setup);
        let now = Instant::now();
        let (cpu, at) = std::mem::replace(&mut self.own_last, (own_cpu(), now));
        let wall_s = now.duration_since(at).as_secs_f64().max(1e-9);
        let own_s = self.own_last.0.saturating_sub(cpu).as_secs_f64();
        // Workers have measured themselves; this process only adds up then.
        let is_worked = record.resident_bytes > 0;
        let worked_s = seconds(record.cpu_ns);
        second.generator_cpu = own_s / wall_s + worked_share(worked_s, second.length_s);
        second.generator_bytes =
            if is_worked { record.resident_bytes } else { own_resident_bytes() };
        if let Some(watch) = &mut self.server
            && let Ok(sample) = watch.watched.sample()
        {
            let cpu = std::mem::replace(&mut watch.last, sample.cpu());
            second.server_cpu = sample.cpu().saturating_sub(cpu).as_secs_f64() / wall_s;
        }
        self.metrics.iter_mut().for_each(|it| it.second(&mut second));
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
        second.errors_by = self.kinds.count(&record.errors, &self.total.errors);
        if record.stage == Stage::Ramp {
            self.ramp.add(&record.own);
        }
        second
    }

    /// What is to be said when players are no longer waited for.
    fn ramp_note(&self, record: &Record) -> String {
        let ramp = self.summary.ramp.as_ref().filter(|_| !record.lacking.is_empty());
        ramp.and_then(|ramp| ramp.text(self.summary.settings.players)).unwrap_or_default()
    }

    /// Makes figures of all that was added. `has_deliveries`: whether messages were counted one by
    /// one.
    pub(crate) fn finish(&mut self, ops: &[Op], has_deliveries: bool) {
        let series = &self.summary.series;
        let counted_s: f64 = series
            .iter()
            .filter(|second| second.stage == Stage::Counted)
            // Not a sum: that of nothing is -0.
            .fold(0.0, |sum, second| sum + second.length_s);
        if self.has_phases {
            let most = self.summary.series.iter().map(|second| second.players).max();
            self.summary.settings.players = most.unwrap_or(0);
        }
        let counted = || series.iter().filter(|second| second.stage == Stage::Counted);
        let (cpu_s, _) = cpu_of(&self.summary, Stage::Counted);
        let (ramp_cpu_s, ramp_s) = cpu_of(&self.summary, Stage::Ramp);
        let resident_bytes = counted().map(|second| second.generator_bytes).max().unwrap_or(0);
        self.summary.counted_s = counted_s;
        self.summary.generator = GeneratorCost {
            cpu_s,
            cpu_share: cpu_s / counted_s.max(1e-9),
            resident_bytes,
            processors: self.summary.generator.processors,
            ..GeneratorCost::default()
        };
        let processes = u64::from(self.summary.settings.processes.max(1));
        let grown = resident_bytes.saturating_sub(self.own_resident_before * processes);
        let players = self.summary.settings.players;
        if players >= PLAYERS_MIN {
            self.summary.generator.bytes_per_player = grown / u64::from(players);
        }
        self.summary.turned_away = self.total.turned_away;
        let own = &self.total.own;
        self.summary.generator.turn_ns_max = own.turn_ns_max;
        self.summary.generator.stalled_s = seconds(own.stalled_ns);
        self.summary.generator.behind = Percentiles::of(own.behind.histogram());
        self.summary.generator.ramp = RampCost {
            seconds: ramp_s,
            cpu_share: ramp_cpu_s / ramp_s.max(1e-9),
            turn_ns_max: self.ramp.turn_ns_max,
            stalled_s: seconds(self.ramp.stalled_ns),
            behind: Percentiles::of(self.ramp.behind.histogram()),
        };
        self.summary.deliveries = has_deliveries.then(|| {
            let it = &self.total.deliveries;
            crate::load::result::summary::Deliveries {
                echoes_sent: it.sent[0],
                echoes: it.received[0],
                broadcasts_sent: it.sent[1],
                broadcasts: it.received[1],
                lost: it.lost,
                cut_off: it.cut_off,
                doubled: it.doubled,
                reordered: it.reordered,
                foreign: it.foreign,
                untracked: it.untracked,
            }
        });
        self.summary.zone = self.flies.then(|| Box::new(self.zone(counted_s)));
        self.summary.add_totals(&self.total, ops, self.headline);
        self.kinds.place(&mut self.summary.series, &self.summary.errors, ops);
        if let Some(watch) = &self.server
            && let (Some((start, from)), Some((end, until))) = (watch.start, watch.end)
        {
            let wall_s = until.duration_since(from).as_secs_f64();
            let ready = watch.ready.unwrap_or(start);
            let pid = watch.pids.first().copied().unwrap_or(0);
            self.summary.settings.server_pids.clone_from(&watch.pids);
            self.summary.add_server(pid, [watch.before, ready, start, end], wall_s);
        }
    }

    /// What pilots of the zone were told, and what the server says of it.
    fn zone(&self, counted_s: f64) -> ZoneSummary {
        let server = self.metrics.as_ref().and_then(MetricsWatch::summary);
        let server_cores = self.server.as_ref().and_then(|it| it.cores);
        ZoneSummary { server_cores, server, ..ZoneSummary::of(&self.total.zone, counted_s) }
    }
}

/// Keeps the histograms of a stretch for the log. What is done outside the loop counts in every
/// stage, the rest not before the counted time.
fn keep(intervals: &mut Intervals, record: &Record, start_ns: u64, is_setup: &[bool]) {
    let start = Duration::from_nanos(record.from_ns.saturating_sub(start_ns));
    let length = Duration::from_nanos(record.until_ns.saturating_sub(record.from_ns));
    let stage = match record.stage {
        Stage::Ramp => Some("ramp"),
        Stage::WarmUp => Some("warm-up"),
        Stage::Counted | Stage::Drain | Stage::Done => None,
    };
    for ((index, op), is_setup) in record.ops.iter().enumerate().zip(is_setup) {
        let apart = stage.filter(|_| !is_setup);
        let kinds = [
            ("service", &op.service),
            ("response", &op.response),
            ("late", &op.lateness),
            ("service.failed", &op.failures.service),
            ("response.failed", &op.failures.response),
            ("service.unended", &op.unended.service),
            ("response.unended", &op.unended.response),
        ];
        for (word, times) in kinds {
            intervals.keep((index, Kind { word, apart }), (start, length), times);
        }
    }
}

/// CPU seconds of the generator in a stage, and how long that lasted.
fn cpu_of(summary: &Summary, stage: Stage) -> (f64, f64) {
    let seconds = summary.series.iter().filter(|second| second.stage == stage);
    seconds.fold((0.0, 0.0), |(cpu_s, length_s), it| {
        (cpu_s + it.generator_cpu * it.length_s, length_s + it.length_s)
    })
}

/// Processors that workers used while a stretch lasted. Not by the clock of this process: their
/// stretches may come late, and then several at once.
fn worked_share(worked_s: f64, length_s: f64) -> f64 {
    if length_s > 0.0 { worked_s / length_s } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::worked_share;

    #[test]
    fn a_stretch_without_length_has_no_share() {
        assert!((worked_share(0.5, 2.0) - 0.25).abs() < 1e-9);
        assert!(worked_share(0.5, 0.0).abs() < 1e-9);
    }
}
