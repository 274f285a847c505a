//! Several processes that share the players of one run: for more sockets than one process may
//! open, and more than one processor can drive.
//!
//! The controller starts this program again for each share. Workers write a line for every event
//! to their standard output, and read commands (`go`, `finish`) from their standard input, whose
//! end means that the controller is gone. The controller joins the seconds of all workers into
//! one, so that everything behind it sees one generator.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::collect::Collector;
use super::here::{EVENTS_MAX, Here};
use super::plan::{Plan, RunError};
use crate::load::generator::{Command, Event};
use crate::load::record::{Record, Stage};
use crate::load::result::Watch;
use crate::measure::process::{own_cpu, own_resident_bytes};

/// Bytes of a worker's line, at most: histograms of 64 operations.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Worker processes, at most.
pub(crate) const PROCESSES_MAX: u16 = 256;
/// Stretches of one worker that wait for those of another, at most; then the run has failed.
const WAITING_MAX: usize = 60;
/// How long workers may take to end after the last one is done.
const END_S_MAX: u64 = 10;

/// One line of a worker.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    Driver(String),
    Ready,
    Stage(Stage),
    Stopped,
    Record(Box<Record>),
    Done,
}

/// The worker's side: runs until its generator is done.
pub(super) fn serve(generator: Here, driver: &str) -> Result<(), RunError> {
    let (sender, commands) = channel();
    std::thread::spawn(move || read_commands(&sender));
    write_line(&Line::Driver(driver.to_owned()));
    generator.post(Command::Begin);
    let mut last_cpu = own_cpu();
    let mut base_ns = None;
    loop {
        while let Ok(command) = commands.try_recv() {
            generator.post(command);
        }
        let line = match generator.events.recv_timeout(Duration::from_millis(5)) {
            Ok(Event::Ready) => Line::Ready,
            Ok(Event::Stage(stage)) => Line::Stage(stage),
            Ok(Event::Stopped) => Line::Stopped,
            Ok(Event::Record(mut record)) => {
                let base_ns = *base_ns.get_or_insert(record.from_ns);
                // Clocks of processes begin at different times; runs begin together.
                record.from_ns -= base_ns;
                record.until_ns -= base_ns;
                let cpu = std::mem::replace(&mut last_cpu, own_cpu());
                let used = last_cpu.saturating_sub(cpu);
                record.cpu_ns = u64::try_from(used.as_nanos()).unwrap_or(0);
                record.resident_bytes = own_resident_bytes();
                Line::Record(record)
            }
            Ok(Event::Done) => break,
            Err(RecvTimeoutError::Timeout) if !generator.running.is_finished(generator.id) => {
                continue;
            }
            Err(_) => return Err(RunError::Gone),
        };
        write_line(&line);
    }
    generator.running.join()?;
    write_line(&Line::Done);
    Ok(())
}

fn read_commands(to: &Sender<Command>) {
    for line in std::io::stdin().lock().lines() {
        let command = match line.as_deref() {
            Ok("go") => Command::Go,
            Ok("finish") => Command::Finish,
            _ => break,
        };
        if to.send(command).is_err() {
            return;
        }
    }
    // The controller is gone: nobody wants the rest. An error means that the run is over.
    let _ = to.send(Command::Finish);
}

/// Writes a line; a controller that does not read any more ends the worker by its commands' end.
fn write_line(line: &Line) {
    let mut stdout = std::io::stdout().lock();
    if let Ok(text) = serde_json::to_string(line) {
        let _ = writeln!(stdout, "{text}");
        let _ = stdout.flush();
    }
}

/// The controller's side.
pub(super) struct Workers {
    children: Vec<Child>,
    commands: Vec<ChildStdin>,
    lines: Receiver<(usize, Option<Line>)>,
}

impl Workers {
    /// Starts this program again, once for each process, with its own arguments and a share each.
    pub(super) fn start(plan: &Plan, run_number: u32, urls: &[&str]) -> Result<Self, RunError> {
        let count = plan.processes;
        let (sender, lines) = sync_channel(EVENTS_MAX);
        let mut workers = Self { children: Vec::new(), commands: Vec::new(), lines };
        for index in 0..count.min(PROCESSES_MAX) {
            let share = format!("{index}/{count}/{run_number:x}/{}", urls.join(","));
            let failed = |what: String| RunError::Worker { index, what };
            let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
            let mut child = Process::new(program)
                .args(std::env::args_os().skip(1))
                .args(["--worker", &share])
                .args(&plan.worker_args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| failed(error.to_string()))?;
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            workers.children.push(child);
            let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
                return Err(failed("has no pipes".to_owned()));
            };
            workers.commands.push(stdin);
            let sender = sender.clone();
            std::thread::spawn(move || read_lines(usize::from(index), stdout, &sender));
        }
        Ok(workers)
    }

    /// Runs until all workers are done; what they tell goes to the collector as one.
    pub(super) fn drive(
        mut self,
        collector: &mut Collector,
        watch: Watch<'_>,
    ) -> Result<(), RunError> {
        let (sender, events) = sync_channel(EVENTS_MAX);
        let lines = std::mem::replace(&mut self.lines, sync_channel(1).1);
        let mut commands = std::mem::take(&mut self.commands);
        let count = self.children.len();
        let is_finishing = Arc::new(AtomicBool::new(false));
        let is_asked = is_finishing.clone();
        let joiner = std::thread::spawn(move || {
            let mut joiner = Joiner::new(count, sender);
            joiner.run(&lines, &mut commands, &is_asked)
        });
        let is_joined = || joiner.is_finished();
        let ask_to_finish = || is_finishing.store(true, Ordering::Relaxed);
        let done = collector.collect(&events, is_joined, ask_to_finish, watch);
        drop(events);
        let joined = joiner.join().map_err(|_| RunError::Gone)?;
        collector.summary.settings.driver = joined?;
        done
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Their commands end, so they do; those that do not are ended.
        self.commands.clear();
        let deadline = Instant::now() + Duration::from_secs(END_S_MAX);
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) {
                if Instant::now() > deadline {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Sends a worker's lines on; `None` at their end, or at one that is not understood.
fn read_lines(index: usize, stdout: impl std::io::Read, to: &SyncSender<(usize, Option<Line>)>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut text = String::new();
        let mut limited = std::io::Read::take(&mut stdout, LINE_BYTES_MAX);
        let line = match limited.read_line(&mut text) {
            Ok(1..) => serde_json::from_str(&text).ok(),
            _ => None,
        };
        let is_end = line.is_none();
        if to.send((index, line)).is_err() || is_end {
            return;
        }
    }
}

/// Joins what several workers tell.
struct Joiner {
    queues: Vec<VecDeque<Box<Record>>>,
    is_ready: Vec<bool>,
    is_done: Vec<bool>,
    /// Of each worker.
    stages: Vec<Stage>,
    /// Of the run, as it was told last.
    stage: Option<Stage>,
    driver: String,
    to: SyncSender<Event>,
}

impl Joiner {
    fn new(count: usize, to: SyncSender<Event>) -> Self {
        Self {
            queues: (0..count).map(|_| VecDeque::new()).collect(),
            is_ready: vec![false; count],
            is_done: vec![false; count],
            stages: vec![Stage::Ramp; count],
            stage: None,
            driver: String::new(),
            to,
        }
    }

    /// Returns the workers' driver.
    fn run(
        &mut self,
        lines: &Receiver<(usize, Option<Line>)>,
        commands: &mut Vec<ChildStdin>,
        is_finishing: &AtomicBool,
    ) -> Result<String, RunError> {
        let tell = |commands: &mut Vec<ChildStdin>, command: &str| {
            for stdin in commands {
                // A worker that is gone is noticed by its lines' end.
                let _ = writeln!(stdin, "{command}").and_then(|()| stdin.flush());
            }
        };
        let mut has_told = false;
        while !self.is_done.iter().all(|is_done| *is_done) {
            if !has_told && is_finishing.load(Ordering::Relaxed) {
                has_told = true;
                tell(commands, "finish");
            }
            let (index, line) = match lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(RunError::Gone),
            };
            let Some(line) = line else {
                if self.is_done[index] {
                    continue;
                }
                let index = u16::try_from(index).unwrap_or(u16::MAX);
                let what = "ended before its time; what it said stands above".to_owned();
                return Err(RunError::Worker { index, what });
            };
            let told = self.take(index, line);
            self.check_pace()?;
            match told {
                Some(Command::Finish) if !has_told => {
                    has_told = true;
                    tell(commands, "finish");
                }
                Some(Command::Go) => tell(commands, "go"),
                _ => {}
            }
        }
        self.send(Event::Done);
        Ok(std::mem::take(&mut self.driver))
    }

    /// Takes a line; returns what all workers are to be told because of it: to go on when the last
    /// one is ready, to finish when one has met a failure that ends the run.
    fn take(&mut self, index: usize, line: Line) -> Option<Command> {
        match line {
            Line::Driver(driver) => self.driver = driver,
            Line::Ready => {
                self.is_ready[index] = true;
                return self.is_ready.iter().all(|is_ready| *is_ready).then_some(Command::Go);
            }
            Line::Stopped => return Some(Command::Finish),
            Line::Stage(stage) => {
                self.stages[index] = stage;
                let stage = self.run_stage();
                if self.stage.is_none_or(|known| known < stage) {
                    self.stage = Some(stage);
                    self.send(Event::Stage(stage));
                }
            }
            Line::Record(record) => {
                self.queues[index].push_back(record);
                self.join();
            }
            Line::Done => {
                self.is_done[index] = true;
                self.join();
            }
        }
        None
    }

    /// The first worker that counts makes the run count: they begin within milliseconds. But the
    /// counting ends with the last one, because some may have no players, or lose them all early.
    fn run_stage(&self) -> Stage {
        let stages = || self.stages.iter().copied();
        let busy = stages().filter(|stage| *stage < Stage::Drain).max();
        busy.or(stages().min()).unwrap_or(Stage::Done)
    }

    /// One that tells nothing any more keeps the others' stretches waiting, and the run with them.
    fn check_pace(&self) -> Result<(), RunError> {
        if self.queues.iter().all(|queue| queue.len() <= WAITING_MAX) {
            return Ok(());
        }
        let mut states = self.queues.iter().zip(&self.is_done);
        let lacks = states.position(|(queue, is_done)| queue.is_empty() && !is_done);
        let index = lacks.and_then(|index| u16::try_from(index).ok()).unwrap_or(u16::MAX);
        let what = format!("told nothing while another told {WAITING_MAX} seconds");
        Err(RunError::Worker { index, what })
    }

    /// Joins the oldest stretches as long as every worker that is not done has told one. Where
    /// some are a stage ahead, the others' last stretch of the stage goes alone.
    fn join(&mut self) {
        loop {
            let lacks = self.queues.iter().zip(&self.is_done);
            if lacks.clone().any(|(queue, is_done)| queue.is_empty() && !is_done) {
                return;
            }
            let fronts = self.queues.iter().filter_map(|queue| queue.front());
            let Some(stage) = fronts.map(|record| record.stage).min() else { return };
            let mut joined: Option<Box<Record>> = None;
            let (mut lengths_ns, mut count) = (0, 0);
            for queue in &mut self.queues {
                if queue.front().is_some_and(|record| record.stage == stage)
                    && let Some(record) = queue.pop_front()
                {
                    lengths_ns += record.until_ns.saturating_sub(record.from_ns);
                    count += 1;
                    match &mut joined {
                        Some(joined) => joined.join(&record),
                        None => joined = Some(record),
                    }
                }
            }
            let Some(mut record) = joined else { return };
            // Workers' clocks differ by milliseconds: from the first one's beginning to the last
            // one's end every stretch would be longer than it was, and every rate lower.
            record.until_ns = record.from_ns + lengths_ns / count.max(1);
            self.send(Event::Record(record));
        }
    }

    /// Nobody listens any more when the collector has failed: then there is nothing to tell.
    fn send(&self, event: Event) {
        let _ = self.to.send(event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::{Joiner, Line, WAITING_MAX};
    use crate::load::generator::{Command, Event};
    use crate::load::record::kind::{Cause, Kind};
    use crate::load::record::{NO_OP, Record, Stage};

    #[test]
    fn seconds_of_several_workers_become_one() {
        let (sender, events) = sync_channel(64);
        let mut joiner = Joiner::new(2, sender);
        let record = |stage, done| {
            let mut record = Record::new(stage, 1, 0);
            record.ops[0].done = done;
            record.ops[0].service.record(1_000_000, done);
            record.error(NO_OP, &Kind::of(Cause::Other, "kind"), || "example".to_owned());
            record.players = 5;
            record.ready = 3;
            record.lacking.insert("reason".to_owned(), 2);
            // Their clocks do not begin at the same moment.
            record.from_ns = done * 1_000_000;
            record.until_ns = record.from_ns + 1_000_000_000;
            // As it travels between processes.
            let text = serde_json::to_string(&Line::Record(Box::new(record))).unwrap();
            serde_json::from_str::<Line>(&text).unwrap()
        };
        assert_eq!(joiner.take(0, Line::Ready), None);
        assert_eq!(joiner.take(1, Line::Ready), Some(Command::Go));
        joiner.take(0, Line::Stage(Stage::Counted));
        joiner.take(1, Line::Stage(Stage::Counted));
        joiner.take(0, record(Stage::Counted, 1));
        joiner.take(0, record(Stage::Counted, 2));
        joiner.take(1, record(Stage::Counted, 10));
        joiner.take(1, record(Stage::Drain, 20));
        joiner.take(0, record(Stage::Drain, 3));
        joiner.take(0, Line::Done);
        joiner.take(1, Line::Done);
        let mut found = Vec::new();
        while let Ok(event) = events.try_recv() {
            match event {
                Event::Stage(stage) => assert_eq!(stage, Stage::Counted),
                Event::Record(record) => {
                    let times = record.ops[0].service.histogram().unwrap().len();
                    let errors = record.errors[&(NO_OP, Kind::of(Cause::Other, "kind"))].count;
                    assert_eq!(record.until_ns - record.from_ns, 1_000_000_000);
                    assert_eq!(u64::from(record.ready) / 3, errors);
                    assert_eq!(record.lacking["reason"], errors * 2);
                    found.push((record.ops[0].done, times, errors, record.players));
                }
                _ => {}
            }
        }
        assert_eq!(found, [(11, 11, 2, 10), (2, 2, 1, 5), (23, 23, 2, 10)]);
    }

    #[test]
    fn a_worker_that_ends_early_does_not_end_the_counting_of_the_others() {
        let (sender, events) = sync_channel(64);
        let mut joiner = Joiner::new(2, sender);
        let told = [
            (0, Stage::Ramp),
            (1, Stage::Ramp),
            // It has no players.
            (0, Stage::Drain),
            (0, Stage::Done),
            (1, Stage::WarmUp),
            (1, Stage::Counted),
            (1, Stage::Drain),
            (1, Stage::Done),
        ];
        for (index, stage) in told {
            joiner.take(index, Line::Stage(stage));
        }
        let stage = |event| match event {
            Event::Stage(stage) => Some(stage),
            _ => None,
        };
        let found: Vec<Stage> = events.try_iter().filter_map(stage).collect();
        let wanted = [Stage::Ramp, Stage::WarmUp, Stage::Counted, Stage::Drain, Stage::Done];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_worker_that_stands_still_does_not_keep_the_run_for_ever() {
        let (sender, _events) = sync_channel(64);
        let mut joiner = Joiner::new(2, sender);
        for at in 0..=WAITING_MAX {
            assert!(joiner.check_pace().is_ok(), "{at}");
            joiner.take(1, Line::Record(Box::new(Record::new(Stage::Counted, 1, 0))));
        }
        let error = joiner.check_pace().unwrap_err().to_string();
        assert!(error.starts_with("worker 0: told nothing"), "{error}");
    }

    #[test]
    fn a_worker_that_is_to_end_the_run_ends_it_for_all() {
        let (sender, _events) = sync_channel(64);
        let mut joiner = Joiner::new(2, sender);
        assert_eq!(joiner.take(1, Line::Stopped), Some(Command::Finish));
    }
}
