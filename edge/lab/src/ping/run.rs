//! One run: opens the session, starts the streams, adds up what they tell, and makes the result.
//!
//! In: a plan. Out: a result of the same form as `throng load`'s, whatever became of the other end
//! after the streams had begun; an error when they could not begin.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use super::jitter::Jitter;
use super::plan::{Amount, Kind, Plan, PlanError};
use super::probe::{Clock, Gone, random};
use super::stream::{Event, Go, Own, live};
use crate::doctor::{Tree, facts};
use crate::load::record::{Record, Stage};
use crate::load::result::notes;
use crate::load::result::summary::{Settings, TlsAsked};
use crate::load::run::collect::Collector;
use crate::load::scenario::Process;
use crate::load::scenario::program::Op;
use crate::load::{Environment, Finished, PingOp, PingSummary, RESULT_VERSION, Summary, Watch};
use crate::measure::processors::{Realtime, cpus};
use crate::measure::target::TargetError;
use crate::measure::tls::{self, Trust};
use crate::peer::control::{Control, Dial};
use crate::peer::protocol::Service;

/// How often the control connection is looked at.
const TURN: Duration = Duration::from_millis(50);
/// How long the server's own word is waited for when a stream has ended before its time.
const WHY_MAX: Duration = Duration::from_millis(200);
/// Between the word to begin and the first ping, so that all streams are awake.
const BEGIN_NS: u64 = 2_000_000;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// Asked for wrongly.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There is nothing to ping.
    #[error("{place}: {gone}")]
    Gone {
        /// As given.
        place: String,
        /// Why.
        gone: Gone,
    },
    /// A processor or priority that the system does not give.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// No thread.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// Stopped before the first ping.
    #[error("stopped before the first ping")]
    Stopped,
}

/// Runs a plan. `watch` is told every second, and may end the run by returning `false`.
///
/// # Errors
/// When it could not begin. What happens later is part of the result.
pub fn run(plan: &Plan, watch: Watch<'_>) -> Result<Finished, PingError> {
    plan.check()?;
    let tls = match plan.place.tls_name {
        Some(_) => Some(tls::client(&plan.tls).map_err(PlanError::Tls)?),
        None => None,
    };
    let gone = |gone| PingError::Gone { place: plan.place.text.clone(), gone };
    // Before the session is opened: it looks at the whole machine.
    let environment = Environment { peer: plan.peer.clone(), ..Environment::read() };
    let clock = Clock::start();
    let dial = Dial {
        service: Service::Ping,
        addr: plan.place.addr,
        token: plan.token.as_deref(),
        timeout: plan.timeout,
        stop: &plan.stop,
    };
    let control = plan.needs_server().then(|| Control::open(dial)).transpose().map_err(gone)?;
    let ops: Vec<Op> = plan
        .operations()
        .into_iter()
        .map(|name| Op { name, counted: true, setup: false })
        .collect();
    let seed = plan.seed.unwrap_or_else(|| u64::from(now().subsec_nanos()));
    let asked = summary(plan, control.as_ref(), seed);
    let mut collector = Collector::of(Summary { environment, ..asked }, &ops, 0);
    collector.summary.generator.processors = u32::try_from(cpus().len()).unwrap_or(1);
    let stop = AtomicBool::new(false);
    // Without a server that gives one it only tells our datagrams from others'.
    let session = control.as_ref().map_or_else(|| u64::from_ne_bytes(random()), |it| it.session);
    let (events, told) = channel();
    let mut run = Run {
        plan,
        clock,
        control,
        collector,
        told,
        lanes: (0..plan.streams).map(|_| Lane::default()).collect(),
        ended: None,
        is_begun: false,
        got_before: None,
    };
    // Threads inherit it; this one, which only adds up, is ordinary again then.
    let realtime = plan.realtime.then(Realtime::begin).transpose()?;
    let result = std::thread::scope(|scope| {
        for index in 0..plan.streams {
            let (go, goes) = channel();
            let tls = tls.as_ref().map(|config| tls::of_one(config, plan.tls.resumes));
            let events = events.clone();
            let own = Own { index, session, clock, seed, events, go: goes, tls };
            let stop = &stop;
            let thread = std::thread::Builder::new().name(format!("ping-{index}"));
            if let Err(error) = thread.spawn_scoped(scope, move || live(plan, &own, stop)) {
                stop.store(true, Ordering::Relaxed);
                return Err(PingError::Thread(error));
            }
            if let Some(lane) = run.lanes.get_mut(usize::from(index)) {
                lane.go = Some(go);
            }
        }
        drop(realtime);
        drop(events);
        run.all(&stop, watch)
    });
    result?;
    Ok(run.finish(&ops))
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// What of a run is known before it begins.
fn summary(plan: &Plan, control: Option<&Control>, seed: u64) -> Summary {
    let interval_s = plan.interval.as_secs_f64();
    let seconds = |amount: Amount| match amount {
        Amount::Time(time) => time.as_secs_f64(),
        Amount::Count(count) => crate::measure::number::float(count) * interval_s,
    };
    let sizes: Vec<String> = plan.sizes.iter().map(u32::to_string).collect();
    let of = match *plan.sizes {
        // A GET has no body, and a connection sends nothing.
        [0] => String::new(),
        _ => format!(" of {} bytes", sizes.join(", ")),
    };
    let rate = (!plan.is_closed()).then(|| f64::from(plan.streams) / interval_s);
    Summary {
        version: RESULT_VERSION,
        command: "ping".to_owned(),
        scenario: plan.kind.word().to_owned(),
        title: format!("{}{of} to {}", plan.kind.title(), plan.place.text),
        started_unix_s: now().as_secs(),
        settings: Settings {
            target: plan.place.text.clone(),
            targets: vec![plan.place.text.clone()],
            players: u32::from(plan.streams),
            rate,
            saturate: plan.is_closed(),
            pipeline: 1,
            warm_up_s: seconds(plan.warm_up),
            planned_s: seconds(plan.amount),
            driver: if plan.busy_poll { "threads, busy polling" } else { "threads" }.to_owned(),
            processes: 1,
            realtime: plan.realtime,
            pin: plan.pin,
            seed,
            tls: plan.place.tls_name.as_ref().map(|_| TlsAsked {
                trust: plan.tls.trust.words(),
                insecure: plan.tls.trust == Trust::Anybody,
                resumes: plan.tls.resumes,
            }),
            ..Settings::default()
        },
        ping: Some(PingSummary {
            kind: plan.kind.word().to_owned(),
            streams: plan.streams,
            interval_ns: u64::try_from(plan.interval.as_nanos()).unwrap_or(u64::MAX),
            arrivals: if plan.arrivals == Process::Poisson { "poisson" } else { "constant" }
                .to_owned(),
            busy_poll: plan.busy_poll,
            server_version: control.map(|it| it.version.clone()).unwrap_or_default(),
            ..PingSummary::default()
        }),
        ..Summary::default()
    }
}

/// What is known of a stream.
#[derive(Default)]
struct Lane {
    go: Option<Sender<Go>>,
    /// Stages that it has reached: connected, warm.
    reached: u8,
    records: VecDeque<Record>,
    is_done: bool,
    jitter: Vec<Jitter>,
}

struct Run<'a> {
    plan: &'a Plan,
    clock: Clock,
    control: Option<Control>,
    collector: Collector,
    told: Receiver<(u16, Event)>,
    lanes: Vec<Lane>,
    /// Why it ended before its time.
    ended: Option<Gone>,
    /// Whether a ping may have been sent.
    is_begun: bool,
    /// Datagrams that the server had got before the counted time.
    got_before: Option<u64>,
}

impl Run<'_> {
    /// From the first connection until all streams are done.
    fn all(&mut self, stop: &AtomicBool, watch: Watch<'_>) -> Result<(), PingError> {
        let mut stage = 0;
        while self.lanes.iter().any(|lane| !lane.is_done) {
            match self.told.recv_timeout(TURN) {
                Ok((index, event)) => self.take(index, event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look_at_control();
            self.add_records(stop, watch);
            if self.ended.is_some() || self.plan.stop.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
                // Who waits for the word to begin waits no more.
                self.lanes.iter_mut().for_each(|lane| lane.go = None);
            }
            let is_reached = self.lanes.iter().all(|lane| lane.reached > stage);
            if is_reached && self.ended.is_none() && stage < 2 {
                stage += 1;
                self.begin(if stage == 1 { Stage::WarmUp } else { Stage::Counted });
            }
        }
        self.add_records(stop, watch);
        self.hear_why();
        self.collector.stage_begins(Stage::Drain);
        match self.ended.take() {
            Some(gone) if !self.is_begun => {
                Err(PingError::Gone { place: self.plan.place.text.clone(), gone })
            }
            None if !self.is_begun => Err(PingError::Stopped),
            ended => {
                self.ended = ended;
                Ok(())
            }
        }
    }

    fn begin(&mut self, stage: Stage) {
        self.is_begun = true;
        if stage == Stage::Counted {
            self.got_before = self.count();
        }
        self.collector.stage_begins(stage);
        let go = Go { from_ns: self.clock.now() + BEGIN_NS };
        for lane in &self.lanes {
            // One that has ended says so itself.
            let _ = lane.go.as_ref().map(|it| it.send(go));
        }
    }

    fn take(&mut self, index: u16, event: Event) {
        let Some(lane) = self.lanes.get_mut(usize::from(index)) else { return };
        match event {
            Event::Ready | Event::Warm => lane.reached += 1,
            Event::Record(record) => lane.records.push_back(*record),
            Event::Done(jitter, gone) => {
                lane.is_done = true;
                lane.jitter = jitter;
                self.ended = self.ended.take().or(gone);
            }
        }
    }

    /// A server that ends says so on its control connection, perhaps a moment after its other
    /// connections have ended.
    fn hear_why(&mut self) {
        let deadline = Instant::now() + WHY_MAX;
        while self.ended.is_some() && self.control.is_some() && Instant::now() < deadline {
            self.look_at_control();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the server says on its control connection tells more than what became of a stream.
    fn look_at_control(&mut self) {
        if let Some(control) = &mut self.control
            && let Err(gone) = control.turn()
        {
            self.control = None;
            let is_better = matches!(gone, Gone::Ended(_)) || self.ended.is_none();
            if is_better {
                self.ended = Some(gone);
            }
        }
    }

    /// Joins the records of all streams, second by second.
    fn add_records(&mut self, stop: &AtomicBool, watch: Watch<'_>) {
        while let Some(stage) = self.next_stage() {
            let mut joined: Option<Record> = None;
            for lane in &mut self.lanes {
                if lane.records.front().is_none_or(|it| it.stage != stage) {
                    continue;
                }
                let Some(record) = lane.records.pop_front() else { continue };
                match &mut joined {
                    None => joined = Some(record),
                    Some(joined) => joined.join(&record),
                }
            }
            if let Some(record) = joined
                && !self.collector.add(&record, watch)
            {
                stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The stage of the second that all streams have told, if they have.
    fn next_stage(&self) -> Option<Stage> {
        let is_told = |lane: &Lane| lane.is_done || !lane.records.is_empty();
        let stages = self.lanes.iter().filter_map(|lane| lane.records.front()).map(|it| it.stage);
        stages.min().filter(|_| self.lanes.iter().all(is_told))
    }

    /// Datagrams that the server has got until now, where it counts them.
    fn count(&mut self) -> Option<u64> {
        let control = self.control.as_mut().filter(|_| self.plan.kind == Kind::Udp);
        control.and_then(Control::count)
    }

    fn finish(mut self, ops: &[Op]) -> Finished {
        let got = self.count().zip(self.got_before).map(|(got, before)| got.saturating_sub(before));
        if let Some(control) = self.control.take() {
            let is_stopped = self.plan.stop.load(Ordering::Relaxed);
            control.end(if is_stopped { "interrupted" } else { "finished" });
        }
        let mut collector = self.collector;
        collector.finish(ops, self.plan.kind.is_of_datagrams());
        let summary = &mut collector.summary;
        summary.ended = self.ended.as_ref().map(ToString::to_string).unwrap_or_default();
        let times = |op: usize| {
            let record = collector.total.ops.get(op)?;
            record.response.histogram().or(record.service.histogram())
        };
        let part = summary.ping.get_or_insert_default();
        for (op, size) in self.plan.sizes.iter().enumerate() {
            let jitter = self.lanes.iter().filter_map(|lane| lane.jitter.get(op));
            let (jitter_ns, difference_mean_ns) = Jitter::of_all(jitter);
            let histogram = self.plan.buckets.of(times(op));
            let size_bytes = u64::from(*size);
            part.ops.push(PingOp { size_bytes, jitter_ns, difference_mean_ns, histogram });
        }
        // What was doubled on its way there would hide what was lost on it.
        if let (Some(got), Some(deliveries)) = (got, &summary.deliveries)
            && deliveries.doubled == 0
        {
            let lost = u64::try_from(deliveries.lost).unwrap_or(0);
            let there = deliveries.echoes_sent.saturating_sub(got).min(lost);
            (part.lost_there, part.lost_back) = (Some(there), Some(lost - there));
        }
        let (places, online) = (cpus(), facts::online(&Tree::here()));
        let places = notes::Places { own: &places, online: &online, pin: self.plan.pin };
        summary.notes = notes::of_address(self.plan.place.addr.ip(), &places);
        if summary.settings.tls.as_ref().is_some_and(|it| it.insecure) {
            summary.notes.push(notes::INSECURE.to_owned());
        }
        Finished { summary: collector.summary, intervals: collector.intervals }
    }
}
