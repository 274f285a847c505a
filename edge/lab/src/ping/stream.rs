//! One stream: a thread that begins pings when they are due, takes their answers, and keeps the
//! times of both.
//!
//! In: a probe, a schedule, and the word to begin. Out: records, one a second, and why it ended.
//!
//! In the open loop a ping begins when it is due, whether the ones before are answered or not, and
//! it is timed three ways: lateness (due to sent), service (sent to answered), response (due to
//! answered). While nothing is due the thread sleeps in ppoll(2); shortly before a ping is due it
//! waits awake, because waking up takes longer than a ping may be late. In the closed loop the next
//! begins when the last is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use rustix::event::{PollFd, Timespec, poll};
use rustls::ClientConfig;

use super::jitter::Jitter;
use super::plan::{Amount, Plan};
use super::probe::{Answered, Clock, Gone, Probe, Start, Traffic, probe};
use super::window::{Answer, Sent, Window};
use crate::load::record::kind::{Cause, Kind as ErrorKind};
use crate::load::record::{Record, Stage};
use crate::measure::arrivals;
use crate::measure::number::float;
use crate::measure::processors::pin_thread;

/// Length of a record.
const SECOND_NS: u64 = 1_000_000_000;
/// How long a thread sleeps at most: a run that is stopped has ended soon.
const SLEEP_NS_MAX: u64 = 50_000_000;
/// How long before a ping is due the thread waits awake: at least, at most, and at first.
const AWAKE_NS: [u64; 3] = [20_000, 500_000, 100_000];
/// So near to a due moment nothing else is begun.
const NEAR_NS: u64 = 3_000;
/// How long doubles of the last datagrams are waited for.
const LINGER_NS: u64 = 20_000_000;
/// How long the last answers are waited for when the run is stopped.
const STOPPED_NS_MAX: u64 = 300_000_000;
/// Pings given up one after the other from which on datagrams are said not to come back.
const SILENT_PINGS: u64 = 3;

/// What a stream tells the run.
pub(super) enum Event {
    /// Connected.
    Ready,
    /// The warm-up is over.
    Warm,
    /// A stretch of time, in order.
    Record(Box<Record>),
    /// Over: what it measured besides, and why it ended before its time.
    Done(Vec<Jitter>, Option<Gone>),
}

/// The word to begin with the next stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Go {
    pub(super) from_ns: u64,
}

/// A stream's own part of a run.
pub(super) struct Own {
    pub(super) index: u16,
    pub(super) session: u64,
    pub(super) clock: Clock,
    pub(super) seed: u64,
    pub(super) events: Sender<(u16, Event)>,
    pub(super) go: Receiver<Go>,
    /// Where TLS is spoken: its own sessions are those that it resumes.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// The whole life of a stream.
pub(super) fn live(plan: &Plan, own: &Own, stop: &AtomicBool) {
    let tell = |event| own.events.send((own.index, event)).is_ok();
    let mut jitter = Vec::new();
    let ended = run(plan, own, stop, &mut jitter, &tell);
    // Who does not listen any more has ended the run.
    let _ = tell(Event::Done(jitter, ended.err()));
}

fn run(
    plan: &Plan,
    own: &Own,
    stop: &AtomicBool,
    jitter: &mut Vec<Jitter>,
    tell: &dyn Fn(Event) -> bool,
) -> Result<(), Gone> {
    // Timers to the microsecond; the kernel rounds to 50 µs otherwise.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if let Some(cpu) = plan.pin {
        pin_thread(cpu).map_err(|error| Gone::Network(std::io::Error::other(error.to_string())))?;
    }
    let probe =
        probe(Start { plan, session: own.session, clock: own.clock, tls: own.tls.as_ref() })?;
    let mut stream = Stream::new(plan, own, stop, probe, tell);
    tell(Event::Ready);
    for (stage, amount) in [(Stage::WarmUp, plan.warm_up), (Stage::Counted, plan.amount)] {
        // A run that is over says no more.
        let Ok(go) = own.go.recv() else { break };
        let ended = stream.stage(stage, amount, go.from_ns);
        std::mem::swap(jitter, &mut stream.jitter);
        ended?;
        if stage == Stage::WarmUp {
            tell(Event::Warm);
        }
    }
    Ok(())
}

/// When pings are due.
struct Schedule {
    from_ns: f64,
    interval_ns: f64,
    process: arrivals::Process,
    random: arrivals::Stream,
    /// Of the next one.
    index: u64,
    next_ns: f64,
}

impl Schedule {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "since the start")]
    fn due_ns(&self) -> u64 {
        self.next_ns as u64
    }

    fn pass(&mut self) {
        self.index += 1;
        self.next_ns = match self.process {
            // Not a sum, which would drift.
            arrivals::Process::Constant => self.from_ns + float(self.index) * self.interval_ns,
            arrivals::Process::Poisson => {
                self.next_ns + float(self.random.gap_ns(self.process, self.interval_ns))
            }
        };
    }
}

struct Stream<'a> {
    plan: &'a Plan,
    own: &'a Own,
    stop: &'a AtomicBool,
    probe: Box<dyn Probe>,
    tell: &'a dyn Fn(Event) -> bool,
    window: Window,
    answers: Vec<Answered>,
    record: Record,
    jitter: Vec<Jitter>,
    schedule: Schedule,
    /// When this stage began.
    from_ns: u64,
    /// Pings begun in it.
    begun: u64,
    /// Since when another may begin, as far as the probe is concerned.
    free_ns: u64,
    /// When something last came, or was begun while nothing was awaited.
    life_ns: u64,
    /// When the last answer came.
    answered_ns: u64,
    /// How long before a ping is due sleeping ends.
    awake_ns: u64,
    random: arrivals::Stream,
}

impl<'a> Stream<'a> {
    fn new(
        plan: &'a Plan,
        own: &'a Own,
        stop: &'a AtomicBool,
        probe: Box<dyn Probe>,
        tell: &'a dyn Fn(Event) -> bool,
    ) -> Self {
        let random = arrivals::Stream::new(own.seed, u64::from(own.index));
        let ops = plan.sizes.len();
        let schedule = Schedule {
            from_ns: 0.0,
            interval_ns: plan.interval.as_secs_f64() * 1e9,
            process: plan.arrivals,
            random,
            index: 0,
            next_ns: 0.0,
        };
        Self {
            plan,
            own,
            stop,
            probe,
            tell,
            window: Window::default(),
            answers: Vec::new(),
            record: Record::new(Stage::WarmUp, ops, 0),
            jitter: vec![Jitter::default(); ops],
            schedule,
            from_ns: 0,
            begun: 0,
            free_ns: 0,
            life_ns: 0,
            answered_ns: 0,
            awake_ns: AWAKE_NS[2],
            random,
        }
    }

    fn now(&self) -> u64 {
        self.own.clock.now()
    }

    fn is_closed(&self) -> bool {
        self.plan.is_closed()
    }

    fn timeout_ns(&self) -> u64 {
        u64::try_from(self.plan.timeout.as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long an answer is waited for: less when somebody waits for the end.
    fn patience_ns(&self) -> u64 {
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if is_stopped { self.timeout_ns().min(STOPPED_NS_MAX) } else { self.timeout_ns() }
    }

    /// Sends pings for an amount, and waits for their answers.
    fn stage(&mut self, stage: Stage, amount: Amount, from_ns: u64) -> Result<(), Gone> {
        self.record = Record::new(stage, self.plan.sizes.len(), from_ns);
        self.jitter = vec![Jitter::default(); self.plan.sizes.len()];
        (self.from_ns, self.begun) = (from_ns, 0);
        (self.free_ns, self.life_ns, self.answered_ns) = (from_ns, from_ns, from_ns);
        // Streams share the time between two starts evenly.
        let phase =
            self.schedule.interval_ns * f64::from(self.own.index) / f64::from(self.plan.streams);
        self.schedule.from_ns = float(from_ns) + phase;
        (self.schedule.index, self.schedule.next_ns) = (0, self.schedule.from_ns);
        self.schedule.random = self.random;
        let end_ns = match amount {
            Amount::Time(time) => {
                from_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
            }
            Amount::Count(_) => u64::MAX,
        };
        let count = match amount {
            Amount::Time(_) => u64::MAX,
            Amount::Count(count) => count,
        };
        let ended = self.send_and_receive(count, end_ns);
        self.end_stage(end_ns, ended.is_err());
        ended
    }

    fn send_and_receive(&mut self, count: u64, end_ns: u64) -> Result<(), Gone> {
        // Since when no further ping begins.
        let mut over_ns = None;
        loop {
            let turn_ns = self.now();
            self.roll(turn_ns, end_ns, over_ns.is_some());
            let is_over = self.is_over(turn_ns, end_ns, count);
            if is_over {
                over_ns = over_ns.or(Some(turn_ns));
            } else {
                self.begin_due(turn_ns)?;
            }
            self.window.give_up_before(turn_ns.saturating_sub(self.patience_ns()));
            let is_idle = self.window.waiting() == 0 && self.is_time_up(turn_ns, end_ns, count);
            let quiet_ns = over_ns.unwrap_or(u64::MAX).max(self.answered_ns);
            let linger_ns = if self.plan.kind.is_of_datagrams() { LINGER_NS } else { 0 };
            if is_over && is_idle && turn_ns.saturating_sub(quiet_ns) >= linger_ns {
                return Ok(());
            }
            self.look_for_life(turn_ns)?;
            let slept_ns = self.wait(is_over, end_ns)?;
            self.take_answers();
            let length_ns = self.now().saturating_sub(turn_ns);
            self.record.own.turn(length_ns.saturating_sub(slept_ns));
        }
    }

    /// Whether no further ping begins. What was due before the end still does if it can.
    fn is_over(&self, now_ns: u64, end_ns: u64, count: u64) -> bool {
        let is_due = !self.is_closed() && self.schedule.due_ns() < end_ns;
        let is_time_up =
            if is_due { now_ns >= end_ns && !self.can_begin() } else { now_ns >= end_ns };
        let has_no_more = !self.is_closed() && !is_due;
        self.begun >= count || self.stop.load(Ordering::Relaxed) || is_time_up || has_no_more
    }

    /// A stage that lasts for a time lasts for all of it.
    fn is_time_up(&self, now_ns: u64, end_ns: u64, count: u64) -> bool {
        now_ns >= end_ns || self.begun >= count || self.stop.load(Ordering::Relaxed)
    }

    /// Datagrams are counted one by one, those of the warm-up not.
    fn counts_deliveries(&self) -> bool {
        self.plan.kind.is_of_datagrams() && self.record.stage == Stage::Counted
    }

    fn can_begin(&self) -> bool {
        let most = if self.is_closed() { 1 } else { self.probe.waiting_max() };
        !self.probe.has_unsent() && self.window.waiting() < most
    }

    /// When the next ping is due; in the closed loop, since when it is.
    fn due_ns(&self) -> u64 {
        if self.is_closed() { self.from_ns } else { self.schedule.due_ns() }
    }

    /// Begins a ping if one is due and can be begun.
    fn begin_due(&mut self, now_ns: u64) -> Result<(), Gone> {
        if !self.can_begin() {
            return Ok(());
        }
        let due_ns = self.due_ns();
        if due_ns > now_ns {
            return Ok(());
        }
        let due_ns = if self.is_closed() { now_ns } else { due_ns };
        if self.window.waiting() == 0 {
            self.life_ns = now_ns;
        }
        let sizes = u64::try_from(self.plan.sizes.len()).unwrap_or(1).max(1);
        // Streams begin with different sizes.
        let place = (self.begun + u64::from(self.own.index)) % sizes;
        let place = usize::try_from(place).unwrap_or(0);
        let size = self.plan.sizes.get(place).copied().unwrap_or(0);
        let op = u16::try_from(place).unwrap_or(0);
        let number = self.window.next();
        let sent_ns = self.probe.begin(self.own.clock, number, size)?;
        self.window.sent(Sent { due_ns, sent_ns, op });
        self.begun += 1;
        self.schedule.pass();
        if self.counts_deliveries() {
            self.record.deliveries.sent[0] += 1;
        }
        let is_closed = self.is_closed();
        if !is_closed {
            let could_ns = due_ns.max(self.free_ns);
            self.record.own.behind.record(sent_ns.saturating_sub(could_ns), 1);
        }
        if let Some(record) = self.record.op(op) {
            record.started += 1;
            if !is_closed {
                record.lateness.record(sent_ns - due_ns, 1);
            }
        }
        Ok(())
    }

    /// Waits for an answer, for the next ping to be due, or for a while. How long it slept.
    fn wait(&mut self, is_over: bool, end_ns: u64) -> Result<u64, Gone> {
        let from_ns = self.now();
        let could_begin = self.can_begin();
        let due_ns = if is_over || !could_begin { u64::MAX } else { self.due_ns() };
        let most_ns = if is_over && from_ns < end_ns { end_ns } else { u64::MAX };
        let roll_ns = self.record.from_ns.saturating_add(SECOND_NS);
        let roll_ns = if is_over || roll_ns >= end_ns { u64::MAX } else { roll_ns };
        let until_ns = due_ns.min(most_ns).min(roll_ns).min(from_ns + SLEEP_NS_MAX);
        let mut slept_ns = 0;
        if self.plan.busy_poll {
            while !self.receive()? && self.now() < until_ns {}
        } else if until_ns.saturating_sub(from_ns) > self.awake_ns {
            slept_ns = self.sleep(from_ns, until_ns - self.awake_ns)?;
        } else if due_ns <= until_ns {
            self.wait_awake(due_ns)?;
        } else {
            slept_ns = self.sleep(from_ns, until_ns)?;
        }
        if !could_begin {
            self.free_ns = self.now();
        }
        Ok(slept_ns)
    }

    /// Sleeps until something comes, or until a moment.
    fn sleep(&mut self, from_ns: u64, until_ns: u64) -> Result<u64, Gone> {
        let left_ns = until_ns.saturating_sub(from_ns);
        let timeout = Timespec {
            tv_sec: i64::try_from(left_ns / SECOND_NS).unwrap_or(0),
            tv_nsec: i64::try_from(left_ns % SECOND_NS).unwrap_or(0),
        };
        let (fd, flags) = self.probe.waits_on();
        let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
        // What is always readable and waited for by nobody would make every sleep short.
        let fds = if flags.is_empty() { &mut fds[..0] } else { &mut fds[..] };
        let ready = match poll(fds, Some(&timeout)) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(Gone::Network(error.into())),
        };
        let woke_ns = self.now();
        if ready > 0 {
            self.receive()?;
        } else {
            let over_ns = woke_ns.saturating_sub(until_ns);
            let wanted_ns = (over_ns + over_ns / 4).max(self.awake_ns - self.awake_ns / 64);
            self.awake_ns = wanted_ns.clamp(AWAKE_NS[0], AWAKE_NS[1]);
        }
        Ok(woke_ns.saturating_sub(from_ns))
    }

    /// Waits for a moment without sleeping, and takes what comes meanwhile.
    fn wait_awake(&mut self, due_ns: u64) -> Result<(), Gone> {
        while self.now() + NEAR_NS < due_ns {
            if self.window.waiting() > 0 && self.receive()? {
                return Ok(());
            }
        }
        while self.now() < due_ns {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Hands over what is unsent, and takes what has come.
    fn receive(&mut self) -> Result<bool, Gone> {
        let has_unsent = self.probe.has_unsent();
        if has_unsent {
            self.probe.go_on()?;
        }
        let has_come = self.probe.receive(self.own.clock, &mut self.answers)?;
        if has_come || has_unsent && !self.probe.has_unsent() {
            self.life_ns = self.now();
        }
        Ok(has_come)
    }

    fn take_answers(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        for answer in answers.drain(..) {
            self.take_answer(&answer);
        }
        self.answers = answers;
    }

    fn take_answer(&mut self, answer: &Answered) {
        let counts = self.counts_deliveries();
        let is_closed = self.is_closed();
        let (sent, is_late) = match self.window.answered(answer.number) {
            Answer::First { sent, is_late } => (sent, is_late),
            Answer::Again => {
                self.record.deliveries.doubled += u64::from(counts);
                return;
            }
            Answer::Foreign => {
                self.record.deliveries.foreign += u64::from(counts);
                return;
            }
        };
        self.answered_ns = self.answered_ns.max(answer.at_ns);
        let service_ns = answer.at_ns.saturating_sub(sent.sent_ns);
        let response_ns = answer.at_ns.saturating_sub(sent.due_ns);
        if counts {
            self.record.deliveries.received[0] += 1;
            self.record.deliveries.reordered += u64::from(is_late);
        }
        if let Some(jitter) = self.jitter.get_mut(usize::from(sent.op)) {
            jitter.add(service_ns);
        }
        if let Some(status) = answer.bad_status {
            let kind = ErrorKind::new(Cause::Status(status), format!("status {status}"));
            self.record.error(sent.op, &kind, String::new);
        }
        let Some(op) = self.record.op(sent.op) else { return };
        op.service.record(service_ns, 1);
        if !is_closed {
            op.response.record(response_ns, 1);
        }
        if answer.bad_status.is_some() {
            op.failed += 1;
            op.failures.service.record(service_ns, 1);
            if !is_closed {
                op.failures.response.record(response_ns, 1);
            }
        } else {
            op.done += 1;
        }
    }

    /// Whether the other end is still there, as far as its answers tell.
    fn look_for_life(&self, now_ns: u64) -> Result<(), Gone> {
        let silent_ns = now_ns.saturating_sub(self.life_ns);
        if silent_ns < self.timeout_ns() {
            return Ok(());
        }
        let timeout = self.plan.timeout;
        if self.plan.kind.is_of_datagrams() {
            let is_silent = self.window.given_up_in_a_row() >= SILENT_PINGS;
            return match (is_silent, self.plan.needs_server()) {
                (false, _) => Ok(()),
                (true, true) => Err(Gone::Swallowed(timeout)),
                (true, false) => Err(Gone::Vanished(timeout)),
            };
        }
        if self.window.waiting() > 0 || self.window.given_up_in_a_row() > 0 {
            return Err(Gone::Vanished(timeout));
        }
        Ok(())
    }

    /// Hands over the record of every second that is over.
    fn roll(&mut self, now_ns: u64, end_ns: u64, is_over: bool) {
        // What comes behind the end belongs to the last second.
        let now_ns = if is_over { self.answered_ns } else { now_ns };
        loop {
            let until_ns = self.record.from_ns.saturating_add(SECOND_NS);
            if until_ns > now_ns || until_ns >= end_ns {
                return;
            }
            self.hand_over(until_ns);
        }
    }

    fn hand_over(&mut self, until_ns: u64) {
        let Traffic { sent_bytes, received_bytes, connecting, server } = self.probe.take_traffic();
        let fresh = Record::new(self.record.stage, self.record.ops.len(), until_ns);
        let mut record = std::mem::replace(&mut self.record, fresh);
        (record.until_ns, record.bytes_out, record.bytes_in) =
            (until_ns, sent_bytes, received_bytes);
        record.connecting = connecting;
        record.server = server;
        (record.players, record.ready, record.connections) = (1, 1, 1);
        // A run that does not listen any more asks for the end by other ways.
        let _ = (self.tell)(Event::Record(Box::new(record)));
    }

    /// Counts what was not answered, and what was due and not sent.
    fn end_stage(&mut self, end_ns: u64, is_broken: bool) {
        let now_ns = self.now();
        let (open, forgotten) = self.window.take_unanswered();
        let is_closed = self.is_closed();
        if self.counts_deliveries() {
            let lost = open.len() as u64 + forgotten;
            self.record.deliveries.lost += i64::try_from(lost).unwrap_or(i64::MAX);
        }
        for sent in &open {
            let is_of_datagrams = self.plan.kind.is_of_datagrams();
            let Some(op) = self.record.op(sent.op) else { continue };
            op.unanswered += 1;
            // A datagram that is lost has no time; what a connection owes still has one so far.
            if !is_of_datagrams {
                let service_ns = now_ns.saturating_sub(sent.sent_ns);
                op.service.record(service_ns, 1);
                op.unended.service.record(service_ns, 1);
                if !is_closed {
                    let response_ns = now_ns.saturating_sub(sent.due_ns);
                    op.response.record(response_ns, 1);
                    op.unended.response.record(response_ns, 1);
                }
            }
        }
        if let Some(op) = self.record.op(0) {
            op.unanswered += forgotten;
        }
        let until_ns =
            if end_ns < now_ns { end_ns.max(self.answered_ns) } else { self.answered_ns };
        let until_ns = if is_broken { now_ns } else { until_ns };
        if !is_closed && end_ns != u64::MAX && !is_broken && !self.stop.load(Ordering::Relaxed) {
            self.count_missed(end_ns, now_ns);
        }
        self.hand_over(until_ns.max(self.record.from_ns));
    }

    /// What was due before the end and could not be sent, because those before were not answered.
    fn count_missed(&mut self, end_ns: u64, now_ns: u64) {
        while self.schedule.due_ns() < end_ns {
            let response_ns = now_ns.saturating_sub(self.schedule.due_ns());
            if let Some(op) = self.record.op(0) {
                op.missed += 1;
                op.response.record(response_ns, 1);
                op.unended.response.record(response_ns, 1);
            }
            self.schedule.pass();
        }
    }
}
