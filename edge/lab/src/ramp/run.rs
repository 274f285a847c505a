//! The ramp: which number of servers comes next, which steps count, and when it is over.
//!
//! In: a plan, servers that somebody starts, words for who watches. Out: a result, also of a ramp that was
//! stopped.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use super::gate::{Gate, Metric};
use super::judge::{judge, result, value};
use super::levels::{between, shuffled, usual};
use super::plan::{Plan, PlanError};
use super::power::WATTS;
use super::result::{RAMP_VERSION, RampResult, Role, Settings, Step};
use super::step::{Halt, Rig, Seen};
use crate::games::players::crowd::CrowdError;
use crate::games::query::Query;
use crate::measure::arrivals::Stream;
use crate::measure::hlog::{Intervals, Kind};
use crate::measure::number::{float, time};
use crate::measure::{Environment, Percentiles};

/// How often a step that was discarded is measured again at once.
const RETRIES_MAX: u32 = 2;
/// Part of what was to be sent that the kernel may not take.
const UNSENT_MAX: f64 = 0.001;

/// A server that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// Where it is played.
    pub address: SocketAddr,
    /// Its first process, which leads a session of its own.
    pub pid: u32,
}

/// Whoever starts and stops servers.
pub trait Servers {
    /// Lets the first so many of the servers run and no others, and waits until they are ready.
    /// `is_over` says when it is not to be waited for any more.
    ///
    /// # Errors
    /// Why that is not so, in words.
    fn set(&mut self, count: u32, is_over: &dyn Fn() -> bool) -> Result<Vec<Running>, String>;
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RampError {
    /// Asked for wrongly.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The players' threads.
    #[error(transparent)]
    Crowd(#[from] CrowdError),
}

/// Does it. `tell` is told each step in words.
///
/// # Errors
/// When it cannot begin. What happens later is part of the result.
pub fn run(
    plan: &Plan,
    servers: &mut dyn Servers,
    tell: &mut dyn FnMut(&str),
) -> Result<(RampResult, Intervals), RampError> {
    plan.check()?;
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let environment = Environment::read();
    let rig = Rig::new(plan, servers)?;
    let all = RampResult {
        version: RAMP_VERSION,
        command: "host ramp".to_owned(),
        unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        settings: settings(plan, &rig, &environment),
        environment,
        ..RampResult::default()
    };
    let gates = plan.gate.reported();
    let intervals = Intervals::default();
    let mut ramp = Ramp { plan, rig, gates, all, intervals, control: None, tell };
    let ended = match ramp.drive() {
        Ok(()) => String::new(),
        Err(Halt::Stopped) => "interrupted".to_owned(),
        Err(Halt::Failed(why)) => why,
    };
    let Ramp { mut all, intervals, rig, gates, .. } = ramp;
    all.ended = ended;
    all.settings.tick_ns = all.steps.iter().map(|it| it.tick_ns).max().unwrap_or(0);
    all.series = rig.into_series();
    all.unmeasured = all.never_measured();
    all.gates = gates.iter().map(|gate| result(gate, &all)).collect();
    Ok((all, intervals))
}

fn settings(plan: &Plan, rig: &Rig<'_>, environment: &Environment) -> Settings {
    let kind = match plan.query {
        Query::Throng => "throng",
        Query::Teeworlds => "teeworlds",
        Query::Quake3 => "quake3",
        Query::A2s => "a2s",
    };
    Settings {
        server: plan.server.clone(),
        wall: plan.wall.clone(),
        kind: kind.to_owned(),
        players: plan.players,
        rate_hz: if plan.players > 0 { plan.rate_hz } else { 0.0 },
        bots: plan.bots,
        tick_ns: 0,
        span_s: plan.span.as_secs_f64(),
        control_s: plan.control.as_secs_f64(),
        warm_up_s: plan.warm_up.as_secs_f64(),
        repeats: plan.repeats,
        seed: plan.seed,
        drift: plan.drift,
        steal: plan.steal,
        late: plan.late,
        threads: plan.threads,
        cores: plan.cores.clone(),
        is_realtime: plan.is_realtime,
        processors: u32::try_from(environment.processors_online.max(1)).unwrap_or(1),
        watts: plan.watts.unwrap_or(WATTS),
        power: rig.power(),
        price: plan.price,
    }
}

struct Ramp<'a> {
    plan: &'a Plan,
    rig: Rig<'a>,
    gates: Vec<Gate>,
    all: RampResult,
    intervals: Intervals,
    /// What the last control showed.
    control: Option<u64>,
    tell: &'a mut dyn FnMut(&str),
}

impl Ramp<'_> {
    fn drive(&mut self) -> Result<(), Halt> {
        let asked = &self.plan.steps;
        let is_ours = asked.is_empty();
        let levels = if is_ours { usual(self.plan.most) } else { asked.clone() };
        for level in levels {
            let is_possible = self.level(level, 1)?;
            // Who says which numbers wants all of them.
            if is_ours && (!is_possible || self.has_failed()) {
                break;
            }
        }
        while let Some(level) = self.missing().filter(|_| is_ours) {
            if !self.level(level, 1)? {
                break;
            }
        }
        let mut stream = Stream::new(self.plan.seed, 0);
        for repeat in 2..=self.plan.repeats {
            for level in shuffled(self.all.tried(), &mut stream) {
                self.level(level, repeat)?;
            }
        }
        Ok(())
    }

    /// Whether no gate holds any more.
    fn has_failed(&self) -> bool {
        self.gates.iter().all(|gate| result(gate, &self.all).fails_at.is_some())
    }

    /// A number that nobody has measured between one that passes a gate and one that does not.
    fn missing(&self) -> Option<u32> {
        let measured: Vec<u32> = self.all.steps.iter().map(|it| it.servers).collect();
        let next = self.gates.iter().find_map(|gate| {
            let found = result(gate, &self.all);
            between(found.servers, found.fails_at?).filter(|it| !measured.contains(it))
        });
        next.filter(|it| *it <= self.plan.most)
    }

    /// Measures a number of servers until it counts, or was disturbed in every try: then it is passed over,
    /// and the result names it if no other repeat counts. Whether more of them make sense.
    fn level(&mut self, servers: u32, repeat: u32) -> Result<bool, Halt> {
        for _ in 0..=RETRIES_MAX {
            if self.control.is_none() {
                self.control()?;
            }
            let before = self.control;
            let (mut step, seen) = self.rig.measure(Role::Step, servers, repeat)?;
            step.number = self.next_number();
            let is_late = self.generator_fault(&step);
            let after = if is_late.is_empty() { self.control()? } else { before };
            let is_generator = !is_late.is_empty();
            step.discarded = match is_late {
                it if !it.is_empty() => it,
                _ => self.disturbed(&step, before, after),
            };
            let is_kept = step.discarded.is_empty();
            self.keep(step, &seen);
            if is_kept || is_generator {
                return Ok(is_kept);
            }
        }
        let tries = RETRIES_MAX + 1;
        (self.tell)(&format!("{}: not measured: disturbed {tries} times", name(servers, repeat)));
        Ok(true)
    }

    fn next_number(&self) -> u32 {
        u32::try_from(self.all.steps.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    fn control(&mut self) -> Result<Option<u64>, Halt> {
        let (mut step, seen) = self.rig.measure(Role::Control, 1, 1)?;
        step.number = self.next_number();
        self.control = control_ns(self.plan.gate.metric(), &step);
        self.keep(step, &seen);
        Ok(self.control)
    }

    /// Why a step does not count because of its players, if so.
    fn generator_fault(&self, step: &Step) -> String {
        let it = &step.generator;
        let most_ns = self.plan.late * float(step.tick_ns);
        if it.late.p99().is_some_and(|ns| float(ns) > most_ns) {
            return format!(
                "the players were late themselves: they sent {} late (p99); give them a processor \
                 (--cores) or precedence (--realtime)",
                time(it.late.p99_ns)
            );
        }
        let sent = it.sent + it.unsent;
        if float(it.unsent) > UNSENT_MAX * float(sent) {
            return format!(
                "the kernel did not take {} of {sent} datagrams of the players",
                it.unsent
            );
        }
        String::new()
    }

    /// Why a step does not count because of the machine, if so.
    fn disturbed(&self, step: &Step, before: Option<u64>, after: Option<u64>) -> String {
        let steal = step.machine.steal_percent / 100.0;
        if steal > self.plan.steal {
            return format!(
                "{:.2} % of the processors were taken from this machine",
                steal * 100.0
            );
        }
        let (Some(before), Some(after)) = (before, after) else {
            return "a control had too few values".to_owned();
        };
        if float(before.abs_diff(after)) > self.plan.drift * float(step.tick_ns) {
            let (before, after) = (time(before), time(after));
            return format!(
                "the machine changed: one server alone had {before} before and {after} after"
            );
        }
        String::new()
    }

    fn keep(&mut self, step: Step, seen: &Seen) {
        let apart = match (step.role, step.discarded.is_empty()) {
            (Role::Control, _) => Some("control"),
            (Role::Step, false) => Some("discarded"),
            (Role::Step, true) => None,
        };
        for (index, server) in seen.iter() {
            let stretch = (seen.start, seen.length);
            for (word, times) in [
                ("lateness", &server.lateness),
                ("transaction", &server.transactions),
                ("status", &server.status),
            ] {
                self.intervals.keep((index, Kind { word, apart }), stretch, times);
            }
        }
        let line = self.line(&step);
        (self.tell)(&line);
        self.all.steps.push(step);
    }

    fn line(&self, step: &Step) -> String {
        let name = match step.role {
            Role::Control => "control".to_owned(),
            Role::Step => name(step.servers, step.repeat),
        };
        let (verdict, server) = judge(&self.plan.gate.beside(&self.all.steps), step);
        let worst = value(verdict.metric, verdict.value, step.tick_ns);
        let word = match (step.role, &*step.discarded, verdict.holds) {
            (Role::Control, ..) => String::new(),
            (Role::Step, "", true) => ", passes".to_owned(),
            (Role::Step, "", false) => ", FAILS".to_owned(),
            (Role::Step, why, _) => format!(", discarded: {why}"),
        };
        let (metric, cpu) = (verdict.metric.name(), step.machine.cpu_percent);
        format!("{name}: {metric} {worst} ({server}), machine {cpu:.0} % busy{word}")
    }
}

/// A step for people.
fn name(servers: u32, repeat: u32) -> String {
    let plural = if servers == 1 { "" } else { "s" };
    format!("{servers} server{plural}, repeat {repeat}")
}

/// What a control is compared by: the gate's time, at the highest percentile that it has values for.
fn control_ns(metric: Metric, step: &Step) -> Option<u64> {
    let times: &Percentiles = match metric {
        Metric::StatusP99 | Metric::RunqueueWait => &step.status,
        Metric::TransactionP99 => &step.transactions,
        Metric::LatenessP99
        | Metric::LatenessP999
        | Metric::Gaps
        | Metric::Missed
        | Metric::TicksLate => &step.lateness,
    };
    times.p99().or((times.count > 0).then_some(times.p50_ns))
}

impl Plan {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// When something began, for differences.
pub(super) fn now() -> Instant {
    Instant::now()
}

impl Intervals {
    /// The log of a ramp, whose servers are called so.
    #[must_use]
    pub fn log_of_ramp(&self, result: &RampResult) -> Vec<u8> {
        let most = result.steps.iter().map(|it| it.servers).max().unwrap_or(1);
        let longest = result.steps.iter().max_by_key(|it| it.each.len());
        let names: Vec<&str> = longest.map_or_else(Vec::new, |step| {
            step.each.iter().take(most as usize).map(|it| &*it.name).collect()
        });
        let started = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(result.unix_ms);
        self.log(&names, started, &result.environment.command_line())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Plan, Query, Role, Running, Servers, run};
    use crate::games::reference::{Options, Server};

    /// Servers in this process, which therefore all have the same first process.
    struct Here(Vec<Server>);

    impl Servers for Here {
        fn set(&mut self, count: u32, _: &dyn Fn() -> bool) -> Result<Vec<Running>, String> {
            let count = count as usize;
            if count > 2 {
                return Err("no more than two here".to_owned());
            }
            while self.0.len() > count {
                self.0.pop().unwrap().stop().unwrap();
            }
            while self.0.len() < count {
                let options = Options { tick_hz: 50, work: Duration::ZERO, ..Options::default() };
                let driver = "auto".parse().unwrap();
                let address = ([127, 0, 0, 1], 0).into();
                self.0.push(Server::start(address, driver, options).unwrap());
            }
            let running = self.0.iter().enumerate().map(|(index, it)| Running {
                name: format!("a-{}", index + 1),
                address: it.address(),
                pid: std::process::id(),
            });
            Ok(running.collect())
        }
    }

    fn plan() -> Plan {
        Plan {
            players: 2,
            span: Duration::from_secs(1),
            control: Duration::from_secs(1),
            warm_up: Duration::from_millis(200),
            repeats: 1,
            most: 2,
            // All of them, also when a stretch had too few values on a busy machine.
            steps: vec![1, 2],
            // Whatever this machine does besides.
            drift: 1e6,
            steal: 1.0,
            late: 1e6,
            gate: "lateness_p99 <= 10000%".parse().unwrap(),
            ..Plan::usual(Query::Throng)
        }
    }

    #[test]
    fn numbers_are_measured_with_controls_between() {
        let mut told = Vec::new();
        let (result, intervals) =
            run(&plan(), &mut Here(Vec::new()), &mut |line| told.push(line.to_owned())).unwrap();
        assert_eq!(result.ended, "");
        let steps: Vec<_> = result.steps.iter().map(|it| (it.role, it.servers)).collect();
        let is = |role, servers| steps.contains(&(role, servers));
        assert!(is(Role::Step, 1) && is(Role::Step, 2) && is(Role::Control, 1), "{told:?}");
        // Besides a line for each step there may be one of a number that could not be measured.
        told.retain(|it| !it.contains("not measured"));
        assert_eq!((told.len(), result.settings.tick_ns), (steps.len(), 20_000_000));
        let two = result.steps.iter().find(|it| it.servers == 2).unwrap();
        assert!(two.each.iter().all(|it| it.snapshots > 0 && it.commands > 0), "{two:?}");
        assert!(two.generator.sent > 0 && !result.series.is_empty());
        assert!(!intervals.log_of_ramp(&result).is_empty());
    }

    #[test]
    fn a_number_that_was_always_disturbed_is_named_and_passes_nothing() {
        // As if somebody always took something from the machine.
        let disturbed = Plan { steal: -1.0, steps: vec![1], most: 1, ..plan() };
        let mut told = Vec::new();
        let mut tell = |line: &str| told.push(line.to_owned());
        let (result, _) = run(&disturbed, &mut Here(Vec::new()), &mut tell).unwrap();
        let [never] = &*result.unmeasured else { panic!("{:?}", result.unmeasured) };
        assert_eq!((never.servers, never.tries), (1, 3));
        assert!(never.why.contains("taken from this machine"), "{never:?}");
        assert!(result.gates.iter().all(|it| it.servers == 0 && it.fails_at.is_none()));
        assert!(told.iter().any(|it| it == "1 server, repeat 1: not measured: disturbed 3 times"));
    }

    #[test]
    fn what_was_measured_is_kept_when_servers_are_not_to_be_had_or_somebody_stops_it() {
        let three = Plan { steps: vec![1, 3], most: 3, ..plan() };
        let (result, _) = run(&three, &mut Here(Vec::new()), &mut |_| {}).unwrap();
        assert!(result.ended.contains("no more than two here"), "{}", result.ended);
        assert!(!result.steps.is_empty());
        let stopped = plan();
        stopped.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let (result, _) = run(&stopped, &mut Here(Vec::new()), &mut |_| {}).unwrap();
        assert_eq!((&*result.ended, result.steps.len()), ("interrupted", 0));
    }
}
