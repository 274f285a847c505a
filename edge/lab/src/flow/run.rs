//! One run: opens the session, makes the connections, starts the threads, lets stretches begin at both
//! ends, and makes the result of what both had done when each began.
//!
//! In: a plan. Out: a result of the same form as `throng load`'s, whatever became of the other end after
//! the flow had begun; an error when it could not begin.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use engine::datagram::Style;

use super::machine::Machine;
use super::meter::{Stage, totals};
use super::plan::{Plan, PlanError, Rate};
use super::sums::{self, Ends};
use super::threads::Threads;
use super::words::{self, Asked, Protocol, Totals};
use crate::load::record::{self, Record};
use crate::load::result::notes;
use crate::load::result::summary::{Deliveries, Settings};
use crate::load::run::collect::Collector;
use crate::load::scenario::program::Op;
use crate::load::{
    Environment, Finished, FlowConnection, FlowDatagrams, FlowSummary, RESULT_VERSION, Summary,
    Watch,
};
use crate::measure::number::{bits, count_of, float, group_f64};
use crate::measure::percentiles::Times;
use crate::measure::processors::cpus;
use crate::peer::control::{Control, Dial};
use crate::peer::gone::Gone;
use crate::peer::patience::Patience;
use crate::peer::protocol::Service;

/// How often the control connection is looked at.
const TURN: Duration = Duration::from_millis(20);
/// Length of a stretch, and the shortest that a stage's end leaves.
const SECOND: Duration = Duration::from_secs(1);
const STRETCH_MIN: Duration = Duration::from_millis(200);
/// How long the other end may take to say that it has noted the end of the last stretch that counts,
/// while everything flows on.
const TOLD_MAX: Duration = Duration::from_millis(500);
/// How long threads of this end may take to note that a stretch has begun.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long the other end may take to tell what it had done, when nothing more is sent; it waits that
/// long for what is under way.
const TELL_MAX: Duration = Duration::from_millis(1_300);
/// How long the server's own word is waited for when a thread has ended before its time.
const WHY_MAX: Duration = Duration::from_millis(200);

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// Asked for wrongly.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Nobody to send to or receive from.
    #[error("{place}: {gone}")]
    Gone {
        /// As given.
        place: String,
        /// Why.
        gone: Gone,
    },
    /// No thread.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// Stopped before anything was sent.
    #[error("stopped before anything was sent")]
    Stopped,
}

/// Runs a plan. `watch` is told every second, and may end the run by returning `false`.
///
/// # Errors
/// When it could not begin. What happens later is part of the result.
pub fn run(plan: &Plan, watch: Watch<'_>) -> Result<Finished, FlowError> {
    plan.check()?;
    let gone = |gone| FlowError::Gone { place: plan.place.text.clone(), gone };
    // Before the session is opened: it looks at the whole machine.
    let environment = Environment { peer: plan.peer.clone(), ..Environment::read() };
    let dial = Dial {
        service: Service::Flow,
        addr: plan.place.addr,
        token: plan.token.as_deref(),
        timeout: plan.timeout,
        stop: &plan.stop,
    };
    let mut control = Control::open(dial).map_err(gone)?;
    let ready = ask(&mut control, &asked(plan).line(), "ready", dial.patience()).map_err(gone)?;
    let each_bits = 8.0 * float(u64::from(plan.bytes)) * float(u64::from(plan.connections()));
    let most_bits = words::read_most(&ready).map(|most| most * each_bits);
    let connected = Threads::connect(plan, dial, &mut control).map_err(gone)?;
    if plan.stop.load(Ordering::Relaxed) {
        return Err(FlowError::Stopped);
    }
    let threads = Threads::start(plan, connected).map_err(FlowError::Thread)?;
    let name = if plan.is_back { "receive" } else { "send" }.to_owned();
    let ops = [Op { name, counted: true, setup: false }];
    let asked = summary(plan, &control);
    let mut collector = Collector::of(Summary { environment, ..asked }, &ops, 0);
    collector.summary.generator.processors = u32::try_from(cpus().len()).unwrap_or(1);
    let run = Run {
        plan,
        threads,
        control: Some(control),
        collector,
        marks: VecDeque::new(),
        counted: None,
        has_counted: false,
        ended: None,
        missed: 0,
        most_bits,
    };
    Ok(run.all(watch).finish(&ops))
}

/// Says a line and waits for its answer, which begins with this word, or `no WORD text`.
pub(super) fn ask(
    control: &mut Control,
    line: &str,
    word: &str,
    patience: Patience<'_>,
) -> Result<String, Gone> {
    control.say(line)?;
    loop {
        patience.go_on()?;
        control.turn()?;
        if let Some(answer) = control.line(word) {
            return Ok(answer);
        }
        if let Some(no) = control.line("no") {
            let text = no.split_once(' ').map_or(&*no, |it| it.1);
            return Err(Gone::Refused(crate::measure::text::one_line(text)));
        }
        if patience.is_up() {
            return Err(Gone::Mute(patience.timeout()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn asked(plan: &Plan) -> Asked {
    Asked {
        protocol: plan.protocol,
        is_back: plan.is_back,
        lanes: plan.connections(),
        bytes: plan.bytes,
        core: plan.remote_core,
        work: plan.work,
        style: plan.style.name().to_owned(),
        send_style: plan.send_style.name().to_owned(),
        rate: plan.rate_of_each(plan.connections()).filter(|_| plan.is_back),
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// What of a run is known before it begins.
fn summary(plan: &Plan, control: &Control) -> Summary {
    let (threads, connections) = (plan.threads(), plan.connections());
    let protocol = plan.protocol.word();
    let direction = if plan.is_back { "from" } else { "to" };
    let name = protocol.to_uppercase();
    let rate = plan.rate.map(|rate| match rate {
        Rate::Bits(per_s) => bits(per_s),
        Rate::Datagrams(per_s) => format!("{} datagrams/s", group_f64(per_s)),
    });
    let mut settings = Settings {
        target: plan.place.text.clone(),
        targets: vec![plan.place.text.clone()],
        players: connections,
        saturate: rate.is_none(),
        pipeline: 1,
        warm_up_s: plan.warm_up.as_secs_f64(),
        planned_s: plan.counted.as_secs_f64(),
        driver: "threads".to_owned(),
        processes: 1,
        ..Settings::default()
    };
    let is_udp = plan.protocol == Protocol::Udp;
    let of_udp = |name: &str| if is_udp { name.to_owned() } else { String::new() };
    let work_ns = u64::try_from(plan.work.as_nanos()).unwrap_or(u64::MAX);
    // What tells runs apart; a style is what is compared.
    let mut var = |name: &str, value: String| settings.vars.insert(name.to_owned(), value);
    var("bytes", plan.bytes.to_string());
    var("threads", threads.to_string());
    if let Some(rate) = rate {
        var("rate", rate);
    }
    if is_udp {
        var("style", plan.style.name().to_owned());
        var("send_style", plan.send_style.name().to_owned());
        var("work", format!("{work_ns} ns"));
    }
    Summary {
        version: RESULT_VERSION,
        command: "flow".to_owned(),
        scenario: format!("flow-{protocol}{}", if plan.is_back { "-back" } else { "" }),
        title: format!("{name} throughput {direction} {}", plan.place.text),
        started_unix_s: now().as_secs(),
        settings,
        flow: Some(FlowSummary {
            protocol: protocol.to_owned(),
            is_back: plan.is_back,
            threads,
            connections,
            bytes: plan.bytes,
            cores: plan.cores(),
            remote_core: plan.remote_core,
            rate_bits: match plan.rate {
                Some(Rate::Bits(bits)) => Some(bits),
                _ => None,
            },
            rate_datagrams: match plan.rate {
                Some(Rate::Datagrams(datagrams)) => Some(datagrams),
                _ => None,
            },
            style: of_udp(plan.style.name()),
            send_style: of_udp(plan.send_style.name()),
            work_ns,
            cool_down_s: plan.cool_down.as_secs_f64(),
            server_version: control.version.clone(),
            ..FlowSummary::default()
        }),
        ..Summary::default()
    }
}

/// When each stretch begins, and of which stage it is; the last one is the end.
fn schedule(plan: &Plan) -> Vec<(Duration, Stage)> {
    let mut begins = Vec::new();
    let mut from = Duration::ZERO;
    for (stage, length) in [
        (Stage::WarmUp, plan.warm_up),
        (Stage::Counted, plan.counted),
        (Stage::CoolDown, plan.cool_down),
    ] {
        let mut at = Duration::ZERO;
        while at < length {
            begins.push((from + at, stage));
            at += SECOND;
            if at + STRETCH_MIN > length {
                break;
            }
        }
        from += length;
    }
    begins.push((from, Stage::Over));
    begins
}

/// The beginning of a stretch.
struct Mark {
    number: u32,
    /// Of the stretch that begins.
    stage: Stage,
    own: Totals,
    /// What the other end says, once it has.
    far: Option<Totals>,
    /// How long calls took since the mark before.
    times: Times,
}

/// The first and the last moment of the counted time that both ends have told.
#[derive(Clone, Copy)]
struct Counted {
    from: Ends,
    until: Ends,
}

struct Run<'a> {
    plan: &'a Plan,
    threads: Threads,
    control: Option<Control>,
    collector: Collector,
    /// In order; the oldest ones wait for what the other end says.
    marks: VecDeque<Mark>,
    counted: Option<Counted>,
    /// Why it ended before its time.
    ended: Option<Gone>,
    /// The counted time has begun.
    has_counted: bool,
    /// Due and not sent until the last mark.
    missed: u64,
    /// Bits a second that the server sends at most, where no rate was asked for.
    most_bits: Option<f64>,
}

/// What is known when nothing more is sent.
struct Done<'a> {
    run: Run<'a>,
    /// What the receiver of datagrams had got in the end.
    last: Option<Totals>,
    connections: Vec<FlowConnection>,
}

impl<'a> Run<'a> {
    /// From the first stretch until nothing more is sent and both ends have told.
    fn all(mut self, watch: Watch<'_>) -> Done<'a> {
        let began = Instant::now();
        let mut goes_on = true;
        let mut stage_before = Stage::Open;
        for (number, (at, stage)) in (1..).zip(schedule(self.plan)) {
            goes_on = goes_on && self.wait_until(began + at, watch);
            if !goes_on || stage == Stage::Over {
                self.finish_stretch(number, stage_before);
                break;
            }
            self.mark(number, stage, stage_before);
            stage_before = stage;
        }
        self.hear_why();
        self.end(watch)
    }

    /// Whether nothing has ended the flow until then.
    fn wait_until(&mut self, at: Instant, watch: Watch<'_>) -> bool {
        loop {
            self.look_at_control();
            self.threads.say_here();
            let goes_on = self.tell_seconds(watch);
            if let Some(gone) = self.threads.failure() {
                self.ended = self.ended.take().or(Some(gone));
            }
            if !goes_on || self.ended.is_some() || self.plan.stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(TURN));
        }
    }

    /// Ends the last stretch. One that counts ends for both ends while the flow still flows, whatever
    /// ends it: who receives looks at the clock when something comes, and would otherwise have waited in
    /// vain, on the clock, for what nobody sends any more.
    fn finish_stretch(&mut self, number: u32, before: Stage) {
        let flows_on = before != Stage::CoolDown && self.ended.is_none() && self.control.is_some();
        if !flows_on {
            return self.mark(number, Stage::Over, before);
        }
        self.mark(number, Stage::CoolDown, before);
        let deadline = Instant::now() + TOLD_MAX;
        while self.marks.back().is_some_and(|it| it.far.is_none())
            && self.control.is_some()
            && Instant::now() < deadline
        {
            self.look_at_control();
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.plan.is_back {
            self.threads.beat.begin(number.saturating_add(1), Stage::Over);
        }
    }

    /// Begins a stretch at both ends.
    fn mark(&mut self, number: u32, stage: Stage, before: Stage) {
        // The other end goes on until all has come that was sent.
        let theirs = if stage == Stage::Over { Stage::CoolDown } else { stage };
        if let Some(control) = &mut self.control
            && let Err(gone) = control.say(&words::begin(number, theirs))
        {
            self.lose(gone);
        }
        // And whoever receives, until nothing more is sent.
        let ours = if self.plan.is_back { theirs } else { stage };
        self.threads.beat.begin(number, ours);
        let mut own = totals(&self.threads.lanes, number, PATIENCE);
        if !self.plan.is_back {
            own.add_tcp(&self.threads.infos(before, stage));
        }
        if before != stage {
            own.machine = Machine::read();
        }
        let times = self.threads.take_times();
        self.has_counted |= stage == Stage::Counted;
        self.marks.push_back(Mark { number, stage, own, far: None, times });
    }

    /// What the server says on its control connection tells more than what became of a thread.
    fn look_at_control(&mut self) {
        let Some(control) = &mut self.control else { return };
        let turned = control.turn();
        while let Some((number, far)) = control.line("at").as_deref().and_then(Totals::read) {
            if let Some(mark) = self.marks.iter_mut().find(|it| it.number == number) {
                mark.far = Some(far);
            }
        }
        if let Err(gone) = turned {
            self.lose(gone);
        }
    }

    fn lose(&mut self, gone: Gone) {
        self.control = None;
        if matches!(gone, Gone::Ended(_)) || self.ended.is_none() {
            self.ended = Some(gone);
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

    fn ends(&self, mark: &Mark) -> Ends {
        let far = mark.far.unwrap_or_default();
        let (sender, receiver) = if self.plan.is_back { (far, mark.own) } else { (mark.own, far) };
        Ends { sender, receiver }
    }

    /// Tells all seconds of which both ends have told beginning and end.
    fn tell_seconds(&mut self, watch: Watch<'_>) -> bool {
        let mut goes_on = true;
        while let (Some(first), Some(second)) = (self.marks.front(), self.marks.get(1))
            && first.far.is_some()
            && second.far.is_some()
        {
            let (from, until) = (self.ends(first), self.ends(second));
            let Some(first) = self.marks.pop_front() else { break };
            goes_on &= self.tell_second(&first, (&from, &until), watch);
        }
        goes_on
    }

    fn tell_second(
        &mut self,
        first: &Mark,
        (from, until): (&Ends, &Ends),
        watch: Watch<'_>,
    ) -> bool {
        let is_counted = first.stage == Stage::Counted;
        if is_counted {
            let begins = self.counted.map_or(*from, |it| it.from);
            self.counted = Some(Counted { from: begins, until: *until });
        }
        let stage = match first.stage {
            Stage::Open | Stage::WarmUp => record::Stage::WarmUp,
            Stage::Counted => record::Stage::Counted,
            Stage::CoolDown | Stage::Over => record::Stage::Drain,
        };
        let own = |it: &Ends| if self.plan.is_back { it.receiver } else { it.sender };
        let (own_from, own_until) = (own(from), own(until));
        let mut record = Record::new(stage, 1, own_from.at_ns);
        record.until_ns = own_until.at_ns;
        record.bytes_out = until.sender.bytes.saturating_sub(from.sender.bytes);
        record.bytes_in = until.receiver.bytes.saturating_sub(from.receiver.bytes);
        record.players = self.plan.connections();
        record.connections = self.plan.connections();
        // What comes after the counted time does not count.
        if let Some(op) = record.op(0).filter(|_| stage != record::Stage::Drain) {
            let calls = own_until.calls.saturating_sub(own_from.calls);
            (op.started, op.done) = (calls, calls);
            op.missed = until.sender.missed.saturating_sub(from.sender.missed);
            if let Some(next) = self.marks.front() {
                op.service.add(&next.times);
            }
            self.missed += if is_counted { op.missed } else { 0 };
        }
        if self.collector.summary.series.last().is_none_or(|it| it.stage != stage) {
            self.collector.stage_begins(stage);
        }
        if let Some(flow) = &mut self.collector.summary.flow {
            flow.series.push(sums::second(from, until));
        }
        let before = self.collector.summary.series.len();
        let goes_on = self.collector.add(&record, watch);
        if self.collector.summary.series.len() == before
            && let Some(flow) = &mut self.collector.summary.flow
        {
            // A stretch without length is no second.
            flow.series.pop();
        }
        goes_on
    }

    /// Ends the flow: whoever sends stops first, and all that was sent is waited for.
    fn end(mut self, watch: Watch<'_>) -> Done<'a> {
        if !self.plan.is_back {
            self.threads.join();
        }
        let (mut last, mut connections) = (None, Vec::new());
        if let Some(control) = &mut self.control {
            let said = control.say("end\n");
            let ended = said.and_then(|()| control.await_line("ended", TELL_MAX));
            while let Some(line) = control.line("connection") {
                connections.push(words::read_connection(&line));
            }
            match ended {
                Ok(line) => last = line.as_deref().and_then(Totals::read).map(|it| it.1),
                Err(gone) => self.lose(gone),
            }
        }
        self.look_at_control();
        // Who receives streams has got what there is; datagrams may be under way.
        let is_last_here = self.plan.is_back && self.plan.protocol == Protocol::Udp;
        if is_last_here {
            self.threads.drain();
        }
        self.threads.beat.begin(u32::MAX, Stage::Over);
        self.threads.join();
        if is_last_here {
            last = Some(totals(&self.threads.lanes, u32::MAX, Duration::ZERO));
        }
        self.tell_seconds(watch);
        if let Some(control) = self.control.take() {
            let is_stopped = self.plan.stop.load(Ordering::Relaxed);
            control.end(if is_stopped { "interrupted" } else { "finished" });
        }
        if !self.plan.is_back {
            connections = self.threads.connections();
        }
        Done { run: self, last, connections }
    }
}

impl Done<'_> {
    fn finish(self, ops: &[Op]) -> Finished {
        let Self { run, last, connections } = self;
        let mut collector = run.collector;
        collector.stage_begins(record::Stage::Done);
        let is_udp = run.plan.protocol == Protocol::Udp;
        collector.finish(ops, is_udp);
        let summary = &mut collector.summary;
        summary.ended = run.ended.as_ref().map(ToString::to_string).unwrap_or_default();
        let untold = run.counted.is_none().then(|| {
            untold(run.has_counted, run.ended.is_some() || run.plan.stop.load(Ordering::Relaxed))
        });
        let flow = summary.flow.get_or_insert_default();
        if let Some(Counted { from, until }) = run.counted {
            flow.sender = sums::end(&from.sender, &until.sender);
            flow.receiver = sums::end(&from.receiver, &until.receiver);
            flow.goodput_bits = flow.receiver.bits_per_s;
            if is_udp {
                let datagrams =
                    datagrams(&from, &until, &last.unwrap_or(until.receiver), run.missed);
                flow.datagrams = Some(datagrams);
                summary.deliveries = Some(deliveries(&datagrams));
            } else {
                let sent = until.sender.retransmits.saturating_sub(from.sender.retransmits);
                flow.retransmits = Some(sent);
            }
        }
        flow.connections_tcp = connections;
        summary.notes = own_notes(run.plan, flow, (run.missed, run.most_bits));
        summary.notes.extend(untold.map(str::to_owned));
        Finished { summary: collector.summary, intervals: collector.intervals }
    }
}

/// What became of the datagrams that were sent in the counted time. What is known of them at the end of
/// the run is more than at the end of the counted time: the last were under way.
fn datagrams(from: &Ends, until: &Ends, last: &Totals, missed: u64) -> FlowDatagrams {
    let sent = until.sender.datagrams.saturating_sub(from.sender.datagrams);
    let since = |of: fn(&Totals) -> u64| of(last).saturating_sub(of(&from.receiver));
    let received = last.counted.min(sent);
    FlowDatagrams {
        sent,
        received,
        lost: sent - received,
        doubled: since(|it| it.doubled),
        reordered: since(|it| it.reordered),
        dropped: until.receiver.dropped.saturating_sub(from.receiver.dropped),
        missed,
        foreign: since(|it| it.foreign),
    }
}

/// The same in the form in which all results have it.
fn deliveries(it: &FlowDatagrams) -> Deliveries {
    Deliveries {
        echoes_sent: it.sent,
        echoes: it.received,
        lost: i64::try_from(it.lost).unwrap_or(i64::MAX),
        doubled: it.doubled,
        reordered: it.reordered,
        foreign: it.foreign,
        ..Deliveries::default()
    }
}

/// What a reader should know besides.
fn own_notes(
    plan: &Plan,
    flow: &FlowSummary,
    (missed, most_bits): (u64, Option<f64>),
) -> Vec<String> {
    let online = crate::doctor::facts::online(&crate::doctor::Tree::here());
    let own = cpus();
    let places = notes::Places { own: &own, online: &online, pin: None };
    let mut notes = notes::of_address(plan.place.addr.ip(), &places);
    if plan.place.addr.ip().is_loopback() {
        notes.push(
            "both ends are on this machine: the sender's time in the kernel holds what the kernel does \
             to hand over to the receiver, and there is no network between them"
                .to_owned(),
        );
    }
    if let Some(most) = most_bits {
        notes.push(format!(
            "the server sends {} of datagrams at most, without their headers, and more was not tried: its \
             --send-rate, which counts the headers too",
            bits(most)
        ));
    }
    if missed > 0 {
        notes.push(format!(
            "{} due and not made in time: the sender, or the path behind its socket, is too \
             slow for --rate",
            count_of(missed, "send")
        ));
    }
    notes.extend(flow.datagrams.and_then(|it| drops_note(&it, plan.style)));
    notes
}

/// What the drops at the receiver's socket say.
fn drops_note(it: &FlowDatagrams, style: Style) -> Option<String> {
    if style.joins() {
        return (it.dropped > 0).then(|| {
            format!(
                "what the receiver's socket has dropped is counted in pieces, as the kernel hands them \
                 over with `{}`: each is one datagram, or up to 64 that it has joined; `lost` counts \
                 datagrams",
                style.name()
            )
        });
    }
    let is_most = it.lost > 0 && float(it.dropped.min(it.lost)) / float(it.lost) > 0.5;
    is_most.then(|| {
        "most of the lost datagrams were dropped at the receiver's socket: it was too slow, or its \
         buffer too small (net.core.rmem_default)"
            .to_owned()
    })
}

/// Why there are no figures: no stretch of the counted time had begun and ended for both ends.
fn untold(has_counted: bool, is_early: bool) -> &'static str {
    match (has_counted, is_early) {
        (false, _) => "the flow ended before its counted time began: nothing was counted",
        (true, true) => {
            "the flow ended in the first second of its counted time, before both ends had said what \
             they had done in it: nothing was counted"
        }
        (true, false) => {
            "the other end did not say in time what it had done when the counted time began and ended: \
             its machine, or the path to it, is too busy, and nothing was counted"
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::datagram::Style;

    use super::{Ends, Stage, Totals, datagrams, drops_note, untold};
    use crate::load::FlowDatagrams;

    #[test]
    fn drops_of_joined_datagrams_are_pieces_and_are_said_to_be() {
        let it = FlowDatagrams { sent: 10_000, lost: 900, dropped: 20, ..FlowDatagrams::default() };
        for style in [Style::Gro, Style::UringGro] {
            let note = drops_note(&it, style).unwrap_or_default();
            assert!(note.contains("in pieces") && note.contains(style.name()), "{note}");
            assert_eq!(drops_note(&FlowDatagrams { dropped: 0, ..it }, style), None);
        }
        assert_eq!(drops_note(&it, Style::Mmsg), None);
        let most = FlowDatagrams { dropped: 800, ..it };
        assert!(drops_note(&most, Style::Mmsg).is_some_and(|it| it.contains("rmem_default")));
    }

    #[test]
    fn a_flow_that_ended_early_is_not_blamed_on_a_busy_machine() {
        for (has_counted, is_early, part) in [
            (false, true, "before its counted time began"),
            (true, true, "in the first second"),
            (true, false, "too busy"),
        ] {
            let note = untold(has_counted, is_early);
            assert!(note.contains(part), "{note}");
            assert_eq!(note.contains("busy"), has_counted && !is_early, "{note}");
        }
    }

    #[test]
    fn what_comes_late_is_not_lost() {
        let from = Ends {
            sender: Totals { datagrams: 100, ..Totals::default() },
            receiver: Totals { doubled: 2, dropped: 10, ..Totals::default() },
        };
        let until = Ends {
            sender: Totals { datagrams: 1_100, ..Totals::default() },
            receiver: Totals { counted: 900, doubled: 2, dropped: 60, ..Totals::default() },
        };
        let last = Totals { counted: 940, doubled: 3, dropped: 70, ..Totals::default() };
        let it = datagrams(&from, &until, &last, 5);
        assert_eq!((it.sent, it.received, it.lost, it.dropped), (1_000, 940, 60, 50));
        assert_eq!((it.doubled, it.missed), (1, 5));
        // A stranger cannot have received more than was sent.
        let wrong = Totals { counted: u64::MAX, ..Totals::default() };
        assert_eq!(datagrams(&from, &until, &wrong, 0).lost, 0);
        assert!(Stage::Counted < Stage::Over);
    }
}
