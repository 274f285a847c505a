//! The server that is measured, started and ended when asked to.
//!
//! In: a command as a person writes it. Out: a [`Target`] that accepts connections, or an error that
//! says what to do; how it ended, if it did so by itself.

mod output;
#[cfg(test)]
mod tests;

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use output::Output;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use super::scrape::{self, Scrape};
use super::secrets::without_keys;
use super::target::{Target, TargetError};

/// How long a server may take to listen.
const START_S_MAX: u64 = 60;
/// How long a server may take to end after SIGTERM.
const END_S_MAX: u64 = 15;
/// How long processes that a server has started may outlive it.
const REST_END_MAX: Duration = Duration::from_secs(2);
/// How long the last lines of a server that has ended may take to come in.
const LAST_LINES_MS: u64 = 50;
/// After how long a person is told what is waited for.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// What a server prints when it listens.
const LISTENING: &str = "listening on http://";
/// What ours prints of its metrics.
const METRICS: &str = "metrics on http://";

/// A server that was started for the run; ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Without keys: for messages, which end in JUnit files.
    command: String,
    output: Output,
    /// Where all of its output stands, if it is kept.
    log: Option<PathBuf>,
    /// What is measured, if it was named; else where a server listens by default.
    target: Target,
    is_target_given: bool,
    /// Something accepted there before this server was started, so that accepting says nothing.
    is_taken: bool,
    /// When it listened.
    listened: Instant,
    /// When its process ended.
    ended: Arc<OnceLock<Instant>>,
}

/// The metrics of a server. It accepts connections before it has printed anything, so its address is looked
/// up whenever it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(Output);

impl Metrics {
    /// Reads them; none if the server has not told where they are, or does not answer there.
    pub(crate) fn read(&self) -> Option<Scrape> {
        Scrape::read(&self.0.metrics()?)
    }

    /// Reads another page of the same port, without its head.
    pub(crate) fn page(&self, path: &str) -> Option<String> {
        let page = scrape::page(&self.0.metrics()?, path)?;
        page.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }
}

/// How a server ended by itself.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Since it listened.
    pub(crate) after: Duration,
    /// `signal 9, SIGKILL`, `exit code 1`.
    pub(crate) how: String,
    /// What it printed last.
    pub(crate) last_lines: Vec<String>,
    /// Where all of its output stands, if it was kept.
    pub(crate) log: Option<PathBuf>,
}

impl Server {
    /// Starts `command` on the processors of the calling thread. Its output is read to the end, so
    /// that it never blocks on it. It does not get the terminal's ^C, which ends the run: it has to
    /// answer until the run has ended.
    ///
    /// A target that was given is what is measured; without one it is what the server says, and
    /// `target` is where a server that says nothing is looked for. `log` is the file that its output
    /// is kept in.
    pub(crate) fn start(
        command: &str,
        (target, is_target_given): (&Target, bool),
        log: Option<&Path>,
    ) -> Result<Self, TargetError> {
        let is_taken = target.accepts();
        if is_taken && is_target_given {
            return Err(TargetError::Taken { url: target.url.clone() });
        }
        let output = Output::to(log).map_err(|error| TargetError::Log {
            path: log.unwrap_or(Path::new("")).to_owned(),
            error,
        })?;
        // `exec` makes the process the server itself, not a shell around it.
        let child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let failed = |error| TargetError::Spawn { command: without_keys(command), error };
        let mut child = child.map_err(failed)?;
        if let Some(stdout) = child.stdout.take() {
            output.take(stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            output.take(stderr);
        }
        let ended = Arc::default();
        note_end(child.id(), Arc::clone(&ended));
        Ok(Self {
            child,
            command: without_keys(command),
            output,
            log: log.map(Path::to_owned),
            target: target.clone(),
            is_target_given,
            is_taken,
            listened: Instant::now(),
            ended,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it says of itself, of which it may tell where it is.
    pub(crate) fn metrics(&self) -> Metrics {
        Metrics(self.output.clone())
    }

    /// How the process ended, if it has and nothing listens in its place, as behind one that puts
    /// itself into the background.
    pub(crate) fn ended_by_itself(&mut self) -> Option<Ended> {
        let status = self.ended().filter(|_| !self.target.accepts())?;
        std::thread::sleep(Duration::from_millis(LAST_LINES_MS));
        let at = self.ended.get().copied().unwrap_or_else(Instant::now);
        Some(Ended {
            after: at.saturating_duration_since(self.listened),
            how: how_ended(status),
            last_lines: self.output.last_lines(),
            log: self.log.clone(),
        })
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until the target that was given accepts; without one, until the server says where it
    /// listens, or the default address accepts. `wait_note` is told once what is waited for, when
    /// that takes long.
    pub(crate) fn wait(
        &mut self,
        stop: &AtomicBool,
        wait_note: &mut dyn FnMut(&str),
    ) -> Result<Target, TargetError> {
        let target = self.wait_for_target(stop, wait_note)?;
        self.target.clone_from(&target);
        self.listened = Instant::now();
        Ok(target)
    }

    fn wait_for_target(
        &mut self,
        stop: &AtomicBool,
        wait_note: &mut dyn FnMut(&str),
    ) -> Result<Target, TargetError> {
        let begin = Instant::now();
        let deadline = begin + Duration::from_secs(START_S_MAX);
        let mut is_told = false;
        loop {
            if let Some(url) = self.output.said()
                && !self.is_target_given
                && let Ok(target) = Target::parse(&url, stop)
            {
                return target.reach();
            }
            if !self.is_taken && self.target.accepts() {
                return self.target.reach();
            }
            if let Some(status) = self.ended() {
                std::thread::sleep(Duration::from_millis(LAST_LINES_MS));
                let how = how_ended(status);
                return Err(self.failed(format!("ended before it listened ({how})")));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(TargetError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(self.failed(self.missed()));
            }
            if !is_told && begin.elapsed() > SILENCE_MAX {
                is_told = true;
                wait_note(&format!("waiting for {} (up to {START_S_MAX} s)", self.target.url));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What did not happen in time.
    fn missed(&self) -> String {
        let url = &self.target.url;
        if self.is_target_given {
            let said = self.output.said();
            let said = said.map(|said| format!("; it says that it listens at {said}"));
            format!(
                "did not make {url} (--target) accept connections within {START_S_MAX} s{}",
                said.unwrap_or_default()
            )
        } else if self.is_taken {
            format!(
                "did not say `{LISTENING}…` within {START_S_MAX} s (something else listens at \
                 {url}: name this server's own address with --target)"
            )
        } else {
            format!(
                "neither said `{LISTENING}…` nor listened at {url} within {START_S_MAX} s (name \
                 its address with --target)"
            )
        }
    }

    fn failed(&self, what: String) -> TargetError {
        let mut lines = self.output.last_lines();
        lines.extend(self.log.iter().map(|log| format!("(all of them: {})", log.display())));
        TargetError::Start { command: self.command.clone(), what, lines: lines.join("\n") }
    }
}

/// Notes when process `pid`, a child of this one, ends; whoever waits for it still can.
fn note_end(pid: u32, ended: Arc<OnceLock<Instant>>) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    std::thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // An error means that it has been waited for already: it has ended.
        while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        let _ = ended.set(Instant::now());
    });
}

/// `exit code 1`, `signal 9, SIGKILL`.
pub(crate) fn how_ended(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return status.code().map_or_else(String::new, |code| format!("exit code {code}"));
    };
    let name = match signal {
        1 => ", SIGHUP",
        2 => ", SIGINT",
        3 => ", SIGQUIT",
        4 => ", SIGILL",
        6 => ", SIGABRT",
        7 => ", SIGBUS",
        8 => ", SIGFPE",
        9 => ", SIGKILL",
        11 => ", SIGSEGV",
        13 => ", SIGPIPE",
        15 => ", SIGTERM",
        _ => "",
    };
    format!("signal {signal}{name}")
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| {
            if let Some(pid) = pid {
                // The process has a group of its own: also what it has started itself must not
                // outlive the run. An error means that all of it has ended already.
                let _ = kill_process_group(pid, signal);
            }
        };
        signal(Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(END_S_MAX);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // A script may be gone at once while the server that it has started still ends.
        let deadline = deadline.min(Instant::now() + REST_END_MAX);
        let has_rest = || pid.is_some_and(|pid| test_kill_process_group(pid).is_ok());
        while has_rest() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        signal(Signal::KILL);
        drop(self.child.wait());
    }
}
