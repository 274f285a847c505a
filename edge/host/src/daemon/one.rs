//! One server's life: when it is started, when it counts as ready, hung or failed, and what is said of
//! it.
//!
//! In: what its threads report, its answers to status queries, the time. Out: signals to its process, and
//! a status. It never waits.
//!
//! ```text
//! Due ─▶ Starting ─▶ Ready ⇄ Allocated, Reserved
//!  ▲        │          │          │
//!  │        └──────────┴──────────┴─▶ Stopping ─▶ Stopped
//!  └───────────── Failed ◀─────────────┘ (or at once, if it ends by itself)
//! ```

mod sdk;

use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use lab::games::query::{ANSWER_BYTES_MAX, Info, Step, ask, take};
use rustix::process::Signal;

use super::Event;
use super::plan::{DISK_BYTES, Plan};
use super::start::Alive;
use crate::fleet::{Bytes, Ready, Restart, Wall};
use crate::groups::{Groups, Used};
use crate::logs::Noticed;
use crate::process::{self, Identity};
use crate::sdk::desk::{Desk, Metadata, Word};
use crate::state::Record;
use crate::view::{State, Status};

/// Time to become ready, if the file does not say.
const READY_PATIENCE: Duration = Duration::from_mins(1);
/// Time to end after SIGTERM, if the file does not say.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Between status queries of a server that starts, and of one that is ready. Quake III answers one a
/// second to one address; Agones looks every five seconds as well.
const ASK_STARTING: Duration = Duration::from_secs(1);
const ASK_READY: Duration = Duration::from_secs(5);
/// Status queries without an answer after which a server that once answered hangs. As Agones' health.
const MISSES_MAX: u32 = 3;
/// The first pause before a server is started again; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// Who has run so long begins with the first pause again.
const SOUND: Duration = Duration::from_mins(1);
/// Bytes of what is said of a server.
const WHAT_BYTES_MAX: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To be started, at this moment.
    Due(Instant),
    Starting(Instant),
    Ready,
    Allocated,
    /// Set aside by itself, and ready again at this moment, if it said one.
    Reserved(Option<Instant>),
    /// Told to end; killed at this moment.
    Stopping(Instant, End),
    Stopped,
    /// Started again at this moment, if at all.
    Failed(Option<Instant>),
}

/// Why a server is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Somebody wants it.
    Wanted,
    /// It is no use any more.
    Failure,
    /// It wants it itself, by the SDK.
    Shutdown,
}

/// A status query that goes on.
#[derive(Debug)]
struct Probe {
    socket: UdpSocket,
    next: Instant,
    misses: u32,
    is_waiting: bool,
    has_answered: bool,
}

/// Numbers over the last seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    at: Option<Instant>,
    cpu: Duration,
    waited: Duration,
    cpu_percent: Option<f64>,
    wait_ms_per_s: Option<f64>,
    memory: Option<u64>,
}

/// A server.
#[derive(Debug)]
pub(super) struct One {
    pub(super) plan: Plan,
    /// Counts its starts, so that what a thread of an earlier one reports is not taken for this one's.
    pub(super) round: u64,
    phase: Phase,
    alive: Option<Alive>,
    adopting: Option<Record>,
    since: Instant,
    /// Starts after the first.
    restarts: u32,
    /// Failures in a row.
    failures: u32,
    has_begun: bool,
    /// It was started before, by this daemon or an earlier one.
    has_run: bool,
    has_shown_text: bool,
    /// What is kept of the past; and what is so now.
    what: String,
    limits_hit: Vec<String>,
    /// Where its disk is, as it sees it; without root it has none.
    disk: Option<PathBuf>,
    /// The state that was told last.
    told: Option<State>,
    is_slowed: bool,
    probe: Option<Probe>,
    info: Option<Info>,
    rates: Rates,
    used: Used,
    /// Its side of the SDK, where that listens, and how it is used (`sdk`).
    pub(super) desk: Arc<Desk>,
    doors: Option<(u16, u16)>,
    has_said_ready: bool,
    shutdowns: u32,
    kept: (Instant, u64),
}

impl One {
    pub(super) fn new(
        index: usize,
        plan: Plan,
        record: Option<Record>,
        disk: Option<PathBuf>,
        events: &Sender<Event>,
    ) -> Self {
        let now = Instant::now();
        let waits = plan.server.on_demand && record.is_none();
        let desk = Desk::new(index, plan.server.sdk().unwrap_or_default(), events.clone());
        Self {
            desk: Arc::new(desk),
            doors: record.as_ref().and_then(|it| it.sdk_ports),
            has_said_ready: false,
            shutdowns: 0,
            kept: (now, 0),
            plan,
            round: 0,
            phase: if waits { Phase::Stopped } else { Phase::Due(now) },
            alive: None,
            restarts: record.as_ref().map_or(0, |it| it.restarts),
            adopting: record,
            since: now,
            failures: 0,
            has_begun: false,
            has_run: false,
            has_shown_text: false,
            what: String::new(),
            limits_hit: Vec::new(),
            disk,
            told: None,
            is_slowed: false,
            probe: None,
            info: None,
            rates: Rates::default(),
            used: Used::default(),
        }
    }

    /// The process of an earlier daemon that it is to go on with.
    pub(super) fn adopting(&self) -> Option<Identity> {
        self.adopting.as_ref()?.identity
    }

    /// It goes on.
    pub(super) fn adopted(
        &mut self,
        alive: Alive,
        probe: Option<UdpSocket>,
        is_open: bool,
        now: Instant,
    ) {
        let Some(mut record) = self.adopting.take() else { return };
        self.alive = Some(alive);
        (self.has_begun, self.has_run) = (true, true);
        self.set_probe(probe, now);
        self.phase = match record.state {
            State::Ready => Phase::Ready,
            State::Allocated => Phase::Allocated,
            State::Reserved => Phase::Reserved(None),
            State::Starting | State::Stopped | State::Failed => {
                Phase::Starting(now + self.patience())
            }
        };
        let is_same = record.description == self.plan.description();
        let more =
            if is_same { "" } else { "; described otherwise now: stop and start it to change it" };
        let sdk = if is_open { "" } else { "; its SDK ports are taken, so that it is not heard" };
        self.what = format!("adopted from an earlier daemon{more}{sdk}");
        self.desk.resume(self.round, self.who(), record.sdk.take());
        self.desk.run(now);
        self.tell_desk();
    }

    fn patience(&self) -> Duration {
        self.plan.server.ready.timeout.map_or(READY_PATIENCE, |it| it.0)
    }

    pub(super) fn state(&self) -> State {
        match self.phase {
            Phase::Due(_) if self.failures > 0 => State::Failed,
            Phase::Due(_) | Phase::Starting(_) => State::Starting,
            Phase::Ready => State::Ready,
            Phase::Allocated => State::Allocated,
            Phase::Reserved(_) => State::Reserved,
            // Until it has ended it is what it was, and `what` says that it is being stopped.
            Phase::Stopping(_, End::Wanted | End::Shutdown) => State::Stopped,
            Phase::Stopping(_, End::Failure) | Phase::Failed(_) => State::Failed,
            Phase::Stopped => State::Stopped,
        }
    }

    /// What the next daemon has to know.
    pub(super) fn record(&self) -> Record {
        Record {
            name: self.plan.name.clone(),
            boot: process::boot(),
            slot: self.plan.slot,
            address: self.plan.address,
            identity: self.alive.as_ref().map(|it| it.identity),
            state: self.state(),
            wall: self.plan.server.wall,
            description: self.plan.description(),
            restarts: self.restarts,
            sdk_ports: self.doors,
            sdk: self.desk.paper(),
        }
    }

    /// A line about its state, if that is another one than the last time.
    pub(super) fn news(&mut self, now: Instant) -> Option<String> {
        let state = self.state();
        if matches!(self.phase, Phase::Stopping(..)) {
            // How it ends is not known yet.
            return None;
        }
        if self.told.replace(state) == Some(state) {
            return None;
        }
        let status = self.status(now);
        let place = status.address.filter(|_| state == State::Ready);
        let place = place.map_or_else(String::new, |it| format!(" at {it}"));
        let what =
            if status.what.is_empty() { String::new() } else { format!(": {}", status.what) };
        Some(format!("{}: {}{place}{what}", status.name, state.word()))
    }

    /// Whether it runs.
    pub(super) fn has_process(&self) -> bool {
        self.alive.is_some()
    }

    /// Whether nothing of it runs, and nothing will.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Stopped | Phase::Failed(None))
    }

    pub(super) fn is_being_started(&self) -> bool {
        matches!(self.phase, Phase::Starting(_)) && !self.has_begun
    }

    /// Whether something is about to happen with it.
    pub(super) fn is_hurried(&self) -> bool {
        matches!(self.phase, Phase::Starting(_) | Phase::Due(_) | Phase::Stopping(..))
    }

    pub(super) fn wants_start(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Due(at) | Phase::Failed(Some(at)) => at <= now,
            _ => false,
        }
    }

    /// It is being started.
    pub(super) fn begin(&mut self, now: Instant) {
        self.restarts += u32::from(self.has_run);
        self.has_run = true;
        self.round += 1;
        self.phase = Phase::Starting(now + self.patience());
        self.since = now;
        (self.has_begun, self.has_shown_text, self.is_slowed) = (false, false, false);
        (self.alive, self.probe, self.info) = (None, None, None);
        (self.rates, self.used) = (Rates::default(), Used::default());
        self.limits_hit.clear();
        self.what = before(std::mem::take(&mut self.what));
        (self.doors, self.has_said_ready) = (None, false);
        self.desk.begin(self.round, self.who());
    }

    /// Its process is there.
    pub(super) fn spawned(&mut self, alive: Alive, now: Instant) {
        if matches!(self.phase, Phase::Stopping(..)) {
            // It was stopped while it was being started.
            alive.signal(Signal::KILL);
        }
        self.alive = Some(alive);
        self.since = now;
    }

    /// Its program has begun.
    pub(super) fn started(&mut self, probe: Option<UdpSocket>, doors: (u16, u16), now: Instant) {
        self.has_begun = true;
        self.doors = Some(doors);
        self.desk.run(now);
        self.set_probe(probe, now);
    }

    fn set_probe(&mut self, probe: Option<UdpSocket>, now: Instant) {
        if self.plan.server.ready.query.is_some() {
            self.probe = probe.map(|socket| Probe {
                socket,
                next: now,
                misses: 0,
                is_waiting: false,
                has_answered: false,
            });
        }
    }

    /// It could not be started.
    pub(super) fn refused(&mut self, error: String, now: Instant) {
        (self.adopting, self.alive) = (None, None);
        if matches!(self.phase, Phase::Stopping(_, End::Wanted)) {
            self.phase = Phase::Stopped;
            return;
        }
        self.failed(format!("could not be started: {error}"), now);
    }

    /// Something in its output.
    pub(super) fn noticed(&mut self, noticed: Noticed, _now: Instant) {
        match noticed {
            Noticed::Text => self.has_shown_text = true,
            Noticed::Slowed => self.is_slowed = true,
        }
    }

    /// It has ended, and nothing is left of it.
    pub(super) fn exited(&mut self, status: Option<ExitStatus>, used: Used, now: Instant) {
        self.count(used);
        (self.alive, self.probe, self.info) = (None, None, None);
        self.rates = Rates::default();
        if let Phase::Stopping(_, end) = self.phase {
            match end {
                End::Wanted => {
                    self.phase = Phase::Stopped;
                    self.what = String::from(self.hits().trim_start_matches("; "));
                }
                End::Shutdown => self.has_shut_down(now),
                End::Failure => {
                    let what = std::mem::take(&mut self.what);
                    self.failed(what, now);
                }
            }
            return;
        }
        let out_of_memory = self.used.out_of_memory > 0;
        let what = match status {
            None => "ended; how is not known, as an earlier daemon had started it".to_owned(),
            Some(status) if status.signal() == Some(9) && out_of_memory => "killed".to_owned(),
            Some(status) if status.signal() == Some(libc::SIGXFSZ) => {
                // It wrote beyond RLIMIT_FSIZE. Source: setrlimit(2).
                format!(
                    "{}; a file of it grew to limits.disk = {}",
                    ending(status),
                    self.disk_limit()
                )
            }
            Some(status) => ending(status),
        };
        let what = format!("{what}{}", self.hits());
        let is_well = status.is_some_and(|it| it.success());
        if is_well && (self.plan.server.restart != Restart::Always || self.plan.server.on_demand) {
            self.phase = Phase::Stopped;
            self.what = what;
        } else {
            self.failed(what, now);
        }
    }

    fn failed(&mut self, what: String, now: Instant) {
        let ran = now.duration_since(self.since);
        self.failures = if ran >= SOUND { 1 } else { self.failures.saturating_add(1) };
        let pause = PAUSE.saturating_mul(1 << (self.failures - 1).min(16)).min(PAUSE_MAX);
        let again = (self.plan.server.restart != Restart::Never).then(|| now + pause);
        self.phase = Phase::Failed(again);
        self.what = what;
        if self.what.len() > WHAT_BYTES_MAX {
            let mut end = WHAT_BYTES_MAX;
            while !self.what.is_char_boundary(end) {
                end -= 1;
            }
            self.what.truncate(end);
        }
    }

    /// What the limits did, in words.
    fn hits(&self) -> String {
        self.limits_hit.iter().fold(String::new(), |all, it| all + "; " + it)
    }

    /// Tells it to end, because somebody wants it.
    pub(super) fn stop(&mut self, now: Instant) {
        match self.phase {
            Phase::Due(_) | Phase::Failed(_) if self.alive.is_none() => {
                self.phase = Phase::Stopped;
            }
            Phase::Stopped | Phase::Stopping(_, End::Wanted) => {}
            _ => self.end(End::Wanted, now),
        }
    }

    /// Starts it again after it was stopped or has failed. Whether that was so.
    pub(super) fn start_again(&mut self, now: Instant) -> bool {
        let is_down = matches!(self.phase, Phase::Stopped | Phase::Failed(_) | Phase::Due(_));
        if is_down {
            self.failures = 0;
            self.phase = Phase::Due(now);
        }
        is_down
    }

    /// Whether it is started when somebody wants one.
    pub(super) fn is_spare(&self) -> bool {
        self.plan.server.on_demand && matches!(self.phase, Phase::Stopped)
    }

    /// Gives it away, with what is to be told to it. Whether it was ready.
    pub(super) fn allocate(&mut self, metadata: &Metadata) -> bool {
        let is_ready = self.phase == Phase::Ready;
        if is_ready {
            self.phase = Phase::Allocated;
            self.desk.allocated(sdk::unix_s(), metadata);
        }
        is_ready
    }

    /// Takes it back from who has gone before it was theirs.
    pub(super) fn take_back(&mut self) {
        if self.phase == Phase::Allocated {
            self.phase = Phase::Ready;
            self.tell_desk();
        }
    }

    fn end(&mut self, end: End, now: Instant) {
        let grace = self.plan.server.stop_grace.map_or(STOP_GRACE, |it| it.0);
        self.phase = Phase::Stopping(now + grace, end);
        self.tell_desk();
        let Some(alive) = &self.alive else { return };
        // The first process of its own process ids is not sent what it does not handle; what SIGTERM does
        // to others then is done here.
        let is_first = self.plan.server.wall >= Wall::Files;
        if !self.has_begun || is_first && process::ignores_term(alive.identity.pid) {
            alive.signal(Signal::KILL);
        } else {
            alive.signal(Signal::TERM);
        }
    }

    /// Ends it for a failure.
    fn give_up(&mut self, what: String, now: Instant) {
        self.what = what;
        self.end(End::Failure, now);
        // It is not to be trusted with an end in good order.
        self.phase = Phase::Stopping(now, End::Failure);
    }

    /// Looks at what is due.
    pub(super) fn look(&mut self, now: Instant, groups: Option<&Groups>) {
        match self.phase {
            Phase::Starting(deadline) if self.has_begun => {
                self.query(now, ASK_STARTING);
                if self.is_up() {
                    self.phase = Phase::Ready;
                    self.since = if self.failures > 0 { self.since } else { now };
                } else if now >= deadline {
                    let what = self.unready();
                    self.give_up(what, now);
                }
            }
            Phase::Reserved(Some(end)) if now >= end => self.phase = Phase::Ready,
            Phase::Ready | Phase::Allocated | Phase::Reserved(_) => {
                self.query(now, ASK_READY);
                let hung = self.probe.as_ref().filter(|it| it.has_answered);
                if hung.is_some_and(|it| it.misses >= MISSES_MAX) {
                    let seconds = ASK_READY.as_secs();
                    let what = format!(
                        "hung: no answer to {MISSES_MAX} status queries, one every {seconds} s; killed"
                    );
                    self.give_up(what, now);
                }
            }
            Phase::Stopping(deadline, _) if now >= deadline => {
                if let Some(alive) = &self.alive {
                    alive.signal(Signal::KILL);
                }
                if let Some(groups) = groups.filter(|_| self.plan.server.wall >= Wall::Cgroup) {
                    groups.kill(&self.plan.name);
                }
            }
            Phase::Due(_)
            | Phase::Starting(_)
            | Phase::Stopping(..)
            | Phase::Stopped
            | Phase::Failed(_) => {}
        }
        if let Some(what) = self.unhealthy(now) {
            self.desk.set_word(Word::Unhealthy);
            self.give_up(what, now);
        }
        self.tell_desk();
    }

    fn is_up(&self) -> bool {
        let (ready, pid) = (&self.plan.server.ready, self.alive.as_ref().map(|it| it.identity.pid));
        let user = pid.and_then(process::user);
        let is_bound = |port| pid.is_some_and(|pid| process::is_bound(pid, port, user));
        match ready {
            Ready { query: Some(_), .. } => self.info.is_some(),
            Ready { log: Some(_), .. } => self.has_shown_text,
            Ready { port: Some(port), .. } => is_bound(*port),
            Ready { sdk: true, .. } => self.has_said_ready,
            _ => self.plan.port.is_none_or(is_bound),
        }
    }

    fn unready(&self) -> String {
        let (ready, seconds) = (&self.plan.server.ready, self.patience().as_secs_f64());
        let lack = match ready {
            Ready { query: Some(_), .. } => "no answer to a status query".to_owned(),
            Ready { log: Some(text), .. } => format!("no line with \"{text}\" in its output"),
            Ready { sdk: true, .. } => "no Ready() by the SDK".to_owned(),
            _ => {
                let port = ready.port.or(self.plan.port).unwrap_or(0);
                format!("port {port} is not bound by it")
            }
        };
        format!("not ready within {seconds} s (ready.timeout): {lack}; killed")
    }

    /// Sends what is due and takes what has come.
    fn query(&mut self, now: Instant, period: Duration) {
        let (Some(query), Some(probe)) = (self.plan.server.ready.query, &mut self.probe) else {
            return;
        };
        let mut bytes = [0; ANSWER_BYTES_MAX];
        // One answer for each question, so that a server that sends more holds nobody up.
        if let Ok(len) = probe.socket.recv(&mut bytes) {
            match take(query, &bytes[..len]) {
                Step::Send(more) => {
                    let _ = probe.socket.send(&more);
                }
                Step::Done(info) => {
                    self.info = Some(info);
                    (probe.misses, probe.is_waiting, probe.has_answered) = (0, false, true);
                }
                Step::Ignore => {}
            }
        }
        if now >= probe.next {
            probe.misses += u32::from(probe.is_waiting);
            probe.is_waiting = true;
            probe.next = now + period;
            // A port that nobody holds refuses, which is as much as no answer.
            let _ = probe.socket.send(&ask(query));
        }
    }

    /// Takes what the groups have counted; says what is new in it.
    fn count(&mut self, used: Used) {
        let limits = &self.plan.server.limits;
        let mut hits = Vec::new();
        if used.out_of_memory > 0 {
            let limit = limits.memory.map_or_else(|| "?".to_owned(), |it| it.to_string());
            hits.push(format!(
                "out of memory: the kernel killed a process of it at limits.memory = {limit}"
            ));
        }
        if used.refused_pids > 0 {
            let (limit, times) = (limits.pids.unwrap_or(0), used.refused_pids);
            hits.push(format!("processes refused {times} times at limits.pids = {limit}"));
        }
        if self.is_slowed {
            hits.push("its output waits: more than limits.log in a second".to_owned());
        }
        if self.is_disk_full() {
            hits.push(format!("its disk is full at limits.disk = {}", self.disk_limit()));
        }
        self.limits_hit = hits;
        self.used = used;
    }

    fn disk_limit(&self) -> Bytes {
        self.plan.server.limits.disk.unwrap_or(Bytes(DISK_BYTES))
    }

    /// Its files are memory of a fixed size, which only it sees.
    fn is_disk_full(&self) -> bool {
        let was_full = self.limits_hit.iter().any(|it| it.contains("limits.disk"));
        let (Some(alive), Some(disk)) = (&self.alive, &self.disk) else { return was_full };
        let disk = disk.strip_prefix("/").unwrap_or(disk);
        let path = format!("/proc/{}/root", alive.identity.pid);
        // Bytes, or names.
        rustix::fs::statvfs(std::path::Path::new(&path).join(disk)).map_or(was_full, |it| {
            // Some file systems count no names.
            let has_no_names = it.f_files > 0 && it.f_favail == 0;
            was_full || it.f_bavail == 0 || has_no_names
        })
    }

    /// Takes its numbers.
    pub(super) fn sample(&mut self, now: Instant, groups: Option<&Groups>) {
        let Some(pid) = self.alive.as_ref().map(|it| it.identity.pid) else { return };
        let groups = groups.filter(|_| self.plan.server.wall >= Wall::Cgroup);
        let (cpu, memory, pids) = match groups {
            Some(groups) => {
                let used = groups.used(&self.plan.name);
                self.count(used);
                (used.cpu, used.memory, groups.pids(&self.plan.name))
            }
            None => {
                self.count(Used::default());
                (process::cpu(pid).unwrap_or_default(), process::memory(pid), vec![pid])
            }
        };
        let waited = process::waited(&pids);
        let before = self.rates;
        self.rates = Rates { at: Some(now), cpu, waited, memory, ..Rates::default() };
        if let Some(at) = before.at {
            let seconds = now.duration_since(at).as_secs_f64().max(1e-3);
            let cpu = cpu.saturating_sub(before.cpu).as_secs_f64();
            let waited = waited.saturating_sub(before.waited).as_secs_f64();
            self.rates.cpu_percent = Some(100.0 * cpu / seconds);
            self.rates.wait_ms_per_s = Some(1e3 * waited / seconds);
        }
    }

    /// What there is to say of it.
    pub(super) fn status(&self, now: Instant) -> Status {
        let is_there = self.alive.is_some();
        let mut what = self.what.clone();
        if is_there {
            what += &self.hits();
        }
        match self.phase {
            Phase::Failed(Some(at)) => {
                let seconds = at.saturating_duration_since(now).as_secs_f64();
                what = format!("{what}; is started again in {seconds:.0} s");
            }
            Phase::Stopping(_, End::Wanted) => what = String::from("is being stopped"),
            Phase::Stopping(_, End::Shutdown) => what = String::from("ends by its own Shutdown()"),
            Phase::Due(_)
            | Phase::Starting(_)
            | Phase::Ready
            | Phase::Allocated
            | Phase::Reserved(_)
            | Phase::Stopping(_, End::Failure)
            | Phase::Stopped
            | Phase::Failed(None) => {}
        }
        let players = self.info.map(|it| (it.players, it.players_max));
        let players = players.or_else(|| self.desk.players());
        Status {
            name: self.plan.name.clone(),
            fleet: self.plan.server.name.clone(),
            state: self.state(),
            wall: self.plan.server.wall.word().to_owned(),
            address: self.plan.place_text(),
            pid: self.alive.as_ref().map(|it| it.identity.pid),
            players: players.map(|it| it.0),
            players_max: players.map(|it| it.1),
            cpu_percent: self.rates.cpu_percent,
            runqueue_wait_ms_per_s: self.rates.wait_ms_per_s,
            memory_bytes: self.rates.memory,
            ticks_late: self.info.and_then(|it| it.ticks_late),
            restarts: self.restarts,
            up_s: is_there.then(|| now.duration_since(self.since).as_secs()),
            what: what.trim_start_matches("; ").to_owned(),
            sdk: self.desk.view(),
        }
    }
}

/// What happened in an earlier life, told in a new one.
fn before(what: String) -> String {
    if what.is_empty() || what.starts_with(BEFORE) { what } else { format!("{BEFORE}{what}") }
}

const BEFORE: &str = "before: ";

/// How a process ended, in words. Source: signal(7).
fn ending(status: ExitStatus) -> String {
    const NAMES: &[(i32, &str)] = &[
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (31, "SIGSYS"),
    ];
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended by itself with code {code}"),
        (None, Some(signal)) => {
            let name = NAMES.iter().find(|(number, _)| *number == signal).map_or("", |(_, it)| it);
            format!("ended by signal {signal} {name}").trim_end().to_owned()
        }
        (None, None) => "ended".to_owned(),
    }
}
