//! One stretch: servers are there, players are there, and everything is looked at before and after.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::power::{Energy, PowerSource, WATTS, measured, modelled};
use super::result::{GeneratorFigures, MachineFigures, Role, Second, ServerFigures, Step};
use super::run::{Running, Servers, now};
use super::usage::{self, Usage};
use crate::flow::machine::Machine;
use crate::games::players::crowd::{Crowd, CrowdError, Look, Place, Settings};
use crate::games::players::{GeneratorSeen, ServerSeen};
use crate::measure::Percentiles;
use crate::measure::number::float;
use crate::measure::percentiles::Times;

/// How often is looked whether all are there, and whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// A second of the series.
const SECOND: Duration = Duration::from_secs(1);

/// Why a ramp ends before its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// Somebody wants it.
    Stopped,
    /// It cannot go on.
    Failed(String),
}

impl From<CrowdError> for Halt {
    fn from(error: CrowdError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// What players have seen of each server, for the log.
pub(super) struct Seen {
    pub(super) start: Duration,
    pub(super) length: Duration,
    servers: Vec<ServerSeen>,
}

impl Seen {
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &ServerSeen)> {
        self.servers.iter().enumerate()
    }
}

/// What is needed for all stretches.
pub(super) struct Rig<'a> {
    plan: &'a Plan,
    servers: &'a mut dyn Servers,
    crowd: Crowd,
    /// Servers that have players, and the process that each was.
    joined: BTreeMap<String, u32>,
    began: Instant,
    energy: Energy,
    series: Vec<Second>,
    steps: u32,
}

/// The machine at one moment.
struct Moment {
    at: Instant,
    machine: Machine,
    energy: Vec<[u64; 2]>,
}

impl<'a> Rig<'a> {
    pub(super) fn new(plan: &'a Plan, servers: &'a mut dyn Servers) -> Result<Self, CrowdError> {
        let crowd = Crowd::start(&Settings {
            seed: plan.seed,
            threads: plan.threads,
            cores: plan.cores.clone(),
            is_realtime: plan.is_realtime,
        })?;
        Ok(Self {
            plan,
            servers,
            crowd,
            joined: BTreeMap::new(),
            began: now(),
            energy: Energy::here(),
            series: Vec::new(),
            steps: 0,
        })
    }

    pub(super) fn power(&self) -> PowerSource {
        self.energy.source()
    }

    pub(super) fn into_series(self) -> Vec<Second> {
        self.series
    }

    /// Measures so many servers.
    pub(super) fn measure(
        &mut self,
        role: Role,
        servers: u32,
        repeat: u32,
    ) -> Result<(Step, Seen), Halt> {
        let since = now();
        self.check()?;
        let plan = self.plan;
        let running = self.servers.set(servers, &|| plan.is_stopped());
        self.check()?;
        let running = running
            .map_err(|why| Halt::Failed(format!("{servers} servers cannot be had: {why}")))?;
        self.seat(&running)?;
        let ready_s = since.elapsed().as_secs_f64();
        self.pause(self.plan.warm_up)?;
        self.steps += 1;
        let pids: Vec<u32> = running.iter().map(|it| it.pid).collect();
        let (start, before, used) = (self.began.elapsed(), self.moment(), usage::of(&pids, false));
        self.crowd.begin();
        self.watch(if role == Role::Control { plan.control } else { plan.span }, servers)?;
        let (mut seen, generator) = self.crowd.end()?;
        let (after, now_used) = (self.moment(), usage::of(&pids, true));
        let span = after.at.duration_since(before.at);
        // In the order of the servers, whichever thread played there.
        let place = |name: &str| running.iter().position(|it| it.name == name);
        seen.sort_by_key(|it| place(&it.name));
        let uses = used.iter().zip(&now_used);
        let each = seen.iter().zip(uses).map(|(seen, uses)| figures(seen, uses, span)).collect();
        let mut step = Step {
            role,
            servers,
            repeat,
            at_s: start.as_secs_f64(),
            span_s: span.as_secs_f64(),
            ready_s,
            tick_ns: self.tick_ns(&seen),
            each,
            generator: generator_figures(&generator, span),
            ..Step::default()
        };
        pool(&mut step, &seen);
        step.machine = self.machine(&before, &after);
        step.machine.servers_cpu_percent = step.each.iter().filter_map(|it| it.cpu_percent).sum();
        step.machine.servers_memory_bytes = step.each.iter().map(|it| it.memory_bytes).sum();
        Ok((step, Seen { start, length: span, servers: seen }))
    }

    fn check(&self) -> Result<(), Halt> {
        if self.plan.is_stopped() { Err(Halt::Stopped) } else { Ok(()) }
    }

    fn pause(&self, span: Duration) -> Result<(), Halt> {
        let since = now();
        while let Some(left) = span.checked_sub(since.elapsed()).filter(|it| !it.is_zero()) {
            self.check()?;
            std::thread::sleep(left.min(LOOK));
        }
        self.check()
    }

    /// Players leave servers that have ended, and join those that are new; all are waited for.
    fn seat(&mut self, running: &[Running]) -> Result<(), Halt> {
        let is_same =
            |name: &String, pid: u32| running.iter().any(|it| it.name == *name && it.pid == pid);
        let gone: Vec<String> = self
            .joined
            .iter()
            .filter(|(name, pid)| !is_same(name, **pid))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.joined.remove(&name);
            self.crowd.leave(&name);
        }
        for it in running {
            if !self.joined.contains_key(&it.name) {
                self.joined.insert(it.name.clone(), it.pid);
                self.crowd.join(Place {
                    name: it.name.clone(),
                    address: it.address,
                    query: self.plan.query,
                    players: self.plan.players,
                    period: self.plan.period(),
                })?;
            }
        }
        let since = now();
        // Who is not there in time is lost in this stretch.
        while since.elapsed() < self.plan.patience {
            let looks = self.crowd.look()?;
            if looks.iter().all(|it| self.is_there(it)) {
                break;
            }
            self.pause(LOOK)?;
        }
        Ok(())
    }

    fn is_there(&self, look: &Look) -> bool {
        let is_told = look.info.is_some_and(|it| it.players >= self.plan.bots);
        look.refused.is_some() || (look.playing >= look.players && is_told)
    }

    /// Lets time pass, and looks at the machine every second.
    fn watch(&mut self, span: Duration, servers: u32) -> Result<(), Halt> {
        let since = now();
        let mut before = self.moment();
        while let Some(left) = span.checked_sub(since.elapsed()).filter(|it| !it.is_zero()) {
            self.pause(left.min(SECOND))?;
            let after = self.moment();
            // What is left of a second would be mostly rounding.
            if after.at.duration_since(before.at) >= SECOND / 2 {
                let machine = self.machine(&before, &after);
                self.series.push(Second {
                    at_s: self.began.elapsed().as_secs_f64(),
                    step: self.steps,
                    servers,
                    cpu_percent: machine.cpu_percent,
                    steal_percent: machine.steal_percent,
                    watts: machine.watts,
                });
            }
            before = after;
        }
        Ok(())
    }

    fn moment(&self) -> Moment {
        let machine = Machine::read().unwrap_or_default();
        Moment { at: now(), machine, energy: self.energy.read() }
    }

    fn machine(&self, before: &Moment, after: &Moment) -> MachineFigures {
        let it = after.machine.since(&before.machine);
        let system_s = it.system_s + it.interrupt_s + it.softirq_s;
        let all_s = (it.user_s + system_s + it.idle_s + it.steal_s).max(1e-9);
        let busy = (it.user_s + system_s) / all_s;
        let watts = match self.energy.source() {
            PowerSource::Measured => {
                let span_s = after.at.duration_since(before.at).as_secs_f64();
                measured(&before.energy, &after.energy, span_s)
            }
            PowerSource::Modelled => {
                modelled(it.processors, busy, self.plan.watts.unwrap_or(WATTS))
            }
        };
        MachineFigures {
            cpu_percent: busy * 100.0,
            system_percent: system_s / all_s * 100.0,
            steal_percent: it.steal_s / all_s * 100.0,
            watts,
            ..MachineFigures::default()
        }
    }

    fn tick_ns(&self, seen: &[ServerSeen]) -> u64 {
        let told = seen.iter().map(|it| it.tick_ns).max().filter(|ns| *ns > 0);
        let asked = self.plan.tick.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
        asked.or(told).unwrap_or(0)
    }
}

fn percentiles(times: &Times) -> Percentiles {
    Percentiles::of(times.histogram())
}

/// All servers together.
fn pool(step: &mut Step, seen: &[ServerSeen]) {
    let sum = |times: fn(&ServerSeen) -> &Times| {
        let mut all = Times::default();
        seen.iter().for_each(|it| all.add(times(it)));
        percentiles(&all)
    };
    step.lateness = sum(|it| &it.lateness);
    step.transactions = sum(|it| &it.transactions);
    step.status = sum(|it| &it.status);
}

fn generator_figures(it: &GeneratorSeen, span: Duration) -> GeneratorFigures {
    GeneratorFigures {
        cpu_percent: float(it.cpu_ns) / 1e7 / span.as_secs_f64().max(1e-9),
        late: percentiles(&it.late),
        behind: percentiles(&it.behind),
        sent: it.sent,
        received: it.received,
        unsent: it.unsent,
    }
}

fn figures(seen: &ServerSeen, (before, after): (&Usage, &Usage), span: Duration) -> ServerFigures {
    let span_s = span.as_secs_f64().max(1e-9);
    let is_there = before.processes > 0 && after.processes > 0;
    let rate = |of: fn(&Usage) -> u64, unit: f64| {
        is_there.then(|| float(of(after).saturating_sub(of(before))) / unit / span_s)
    };
    let [told_before, told_after] = seen.told;
    let since = |of: fn(&crate::games::query::Info) -> Option<u64>| {
        let before = told_before.as_ref().and_then(of)?;
        Some(told_after.as_ref().and_then(of)?.saturating_sub(before))
    };
    ServerFigures {
        name: seen.name.clone(),
        players: seen.players,
        lost: seen.lost,
        refused: seen.refused.unwrap_or_default().to_owned(),
        lateness: percentiles(&seen.lateness),
        transactions: percentiles(&seen.transactions),
        status: percentiles(&seen.status),
        snapshots: seen.snapshots,
        missed: seen.missed,
        gaps: seen.gaps,
        left_out: seen.left_out,
        commands: seen.commands,
        unanswered: seen.unanswered,
        asked: seen.asked,
        silent: seen.silent,
        ticks_due: since(|it| it.ticks),
        ticks_late: since(|it| it.ticks_late),
        // Nanoseconds a second are ten millionths of a percent.
        cpu_percent: rate(|it| it.ran_ns, 1e7),
        runqueue_wait_ms_per_s: rate(|it| it.waited_ns, 1e6),
        preempted_per_s: rate(|it| it.preempted, 1.0),
        memory_bytes: after.memory_bytes,
    }
}
