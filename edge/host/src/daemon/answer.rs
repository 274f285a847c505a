//! Answers to what people ask of the daemon.
//!
//! In: a wish. Out: an answer at once; only who wants a server of which none is ready waits for one.

use std::sync::mpsc::SyncSender;
use std::time::Instant;

use super::{Daemon, FRESH};
use crate::api::{Question, Wish};
use crate::http::Told;
use crate::logs;
use crate::sdk::desk::Metadata;
use crate::view::{Machine, Overview, State};

/// A server that was given away, if one was, and the answer.
type Given = (Option<usize>, Told);

/// Somebody who waits for a server.
#[derive(Debug)]
pub(super) struct Waiting {
    name: Option<String>,
    metadata: Metadata,
    reply: SyncSender<Told>,
}

/// Who may wait for a server to become ready, at one time.
const WAITING_MAX: usize = 64;

impl Daemon {
    pub(super) fn answer(&mut self, question: Question, now: Instant) {
        let Question { wish, reply } = question;
        let told = match wish {
            Wish::Overview => Told::json(200, &self.overview(now)),
            Wish::Logs { name, lines } => self.logs(&name, lines),
            Wish::Stop { name } => self.each(&name, |one| {
                one.stop(now);
                true
            }),
            Wish::Start { name } => self.each(&name, |one| one.start_again(now)),
            Wish::StopAll => {
                self.keeps = false;
                self.end(now);
                Told::json(200, &serde_json::json!({ "stopping": self.servers.len() }))
            }
            Wish::Allocate { name, metadata } => {
                return self.allocate(Waiting { name, metadata, reply }, now);
            }
        };
        // Who has gone does not want it any more.
        let _ = reply.try_send(told);
    }

    /// Does something with a server, or with all of a table. How many it was done with.
    fn each(&mut self, name: &str, mut act: impl FnMut(&mut super::One) -> bool) -> Told {
        let (mut found, mut done) = (0, Vec::new());
        for index in 0..self.servers.len() {
            let Some(one) = self.servers.get_mut(index) else { continue };
            if one.plan.name == name || one.plan.server.name == name {
                found += 1;
                if act(one) {
                    done.push(one.plan.name.clone());
                }
                self.remember(index);
            }
        }
        match (found, done.is_empty()) {
            (0, _) => self.unknown(name),
            (_, true) => Told::error(409, &format!("{name}: runs already")),
            (_, false) => Told::json(200, &serde_json::json!({ "servers": done })),
        }
    }

    fn unknown(&self, name: &str) -> Told {
        let names = self.servers.iter().flat_map(|it| [&*it.plan.name, &*it.plan.server.name]);
        let meant = wire::nearest::did_you_mean(name, names);
        Told::error(
            404,
            &format!("there is no server `{name}`{meant}; `throng host ps` lists them"),
        )
    }

    fn logs(&self, name: &str, lines: usize) -> Told {
        if !self.servers.iter().any(|it| it.plan.name == name) {
            return self.unknown(name);
        }
        let body = logs::tail(&self.folder.server(name), lines).into_bytes();
        Told { status: 200, kind: "text/plain; charset=utf-8", body }
    }

    /// All servers, with fresh numbers.
    fn overview(&mut self, now: Instant) -> Overview {
        self.sample(now, FRESH);
        let servers = self.servers.iter().map(|it| it.status(now)).collect();
        Overview { servers, machine: self.machine.clone() }
    }

    /// Takes all numbers, if the last ones are older than this.
    pub(super) fn sample(&mut self, now: Instant, age: std::time::Duration) {
        if self.sampled.is_none_or(|at| now.duration_since(at) >= age) {
            self.sampled = Some(now);
            for one in &mut self.servers {
                one.sample(now, self.groups.as_ref());
            }
            self.sample_machine();
        }
    }

    /// Source: proc_stat(5), proc_meminfo(5).
    fn sample_machine(&mut self) {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).flat_map(str::parse).collect();
        // User, nice, system, idle, waiting for disks, interrupts of two kinds, stolen.
        let all: u64 = ticks.iter().take(8).sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let (busy, before) = (all - idle, self.ticks);
        self.ticks = (busy, all);
        let spent = all.saturating_sub(before.1);
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        let percent = (before.1 > 0 && spent > 0)
            .then(|| 100.0 * busy.saturating_sub(before.0) as f64 / spent as f64);
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let value = |name: &str| {
            let line = memory.lines().find_map(|it| it.strip_prefix(name));
            let kib = line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or(0) << 10
        };
        self.machine = Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_percent: percent,
            memory_bytes: value("MemTotal:"),
            memory_available_bytes: value("MemAvailable:"),
        };
    }

    /// Gives a server away, now or as soon as one is ready.
    fn allocate(&mut self, waiting: Waiting, now: Instant) {
        if self.waiting.len() >= WAITING_MAX {
            let what = format!("{WAITING_MAX} wait for a server already");
            let _ = waiting.reply.try_send(Told::error(503, &what));
            return;
        }
        self.waiting.push(waiting);
        self.serve_waiting(now);
    }

    /// Answers; a server that nobody takes any more is ready again.
    fn hand_over(&mut self, (index, told): Given, reply: &SyncSender<Told>) {
        if reply.try_send(told).is_err()
            && let Some(index) = index
            && let Some(one) = self.servers.get_mut(index)
        {
            one.take_back();
            self.remember(index);
        }
    }

    /// A server that is ready, the first by name of its table; or why there will be none. `None` if one
    /// may become ready: one that is being started and that nobody before has been promised (`promised`),
    /// or one that is started for it now.
    fn give(
        &mut self,
        name: Option<&str>,
        metadata: &Metadata,
        promised: &mut Vec<usize>,
        now: Instant,
    ) -> Option<Given> {
        let is_meant = |one: &super::One| {
            name.is_none_or(|name| one.plan.name == name || one.plan.server.name == name)
        };
        let ready = self.servers.iter_mut().position(|it| is_meant(it) && it.allocate(metadata));
        if let Some(index) = ready {
            self.remember(index);
            let one = self.servers.get(index)?;
            return Some((Some(index), Told::json(200, &one.status(now))));
        }
        if !self.servers.iter().any(is_meant) {
            return Some((None, self.unknown(name.unwrap_or_default())));
        }
        let is_starting = |one: &super::One| is_meant(one) && one.state() == State::Starting;
        let mut starting = (0..).zip(&self.servers).filter(|(_, it)| is_starting(it));
        let mut next = starting.by_ref().map(|it| it.0).find(|it| !promised.contains(it));
        if next.is_none() && !self.is_ending {
            next = self.servers.iter().position(|it| is_meant(it) && it.is_spare());
            if let Some(one) = next.and_then(|index| self.servers.get_mut(index)) {
                one.start_again(now);
            }
        }
        promised.extend(next);
        if next.is_some() || self.servers.iter().any(is_starting) {
            return None;
        }
        let what = "no server is ready, and none is being started";
        Some((None, Told::error(409, what)))
    }

    /// Serves who waits, in order.
    pub(super) fn serve_waiting(&mut self, now: Instant) {
        let mut promised = Vec::new();
        for it in std::mem::take(&mut self.waiting) {
            match self.give(it.name.as_deref(), &it.metadata, &mut promised, now) {
                Some(given) => self.hand_over(given, &it.reply),
                None => self.waiting.push(it),
            }
        }
    }
}
