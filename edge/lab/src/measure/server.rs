//! The server that is measured, started and ended when asked to.
//!
//! In: a command as a person writes it. Out: a [`Target`] that accepts connections, or an error that
//! says what to do.

#[cfg(test)]
mod tests;

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::secrets::without_keys;
use super::target::{Target, TargetError};

/// How long a server may take to listen.
const START_S_MAX: u64 = 60;
/// How long a server may take to end after SIGTERM.
const END_S_MAX: u64 = 15;
/// How long processes that a server has started may outlive it.
const REST_END_MAX: Duration = Duration::from_secs(2);
/// Lines of a server's output that are kept for an error message.
const LINES_MAX: usize = 64;
/// Lines that may wait to be looked at: a server may say a lot before it says where it listens.
const LINES_WAITING_MAX: usize = 1_024;
/// Bytes of one line of it, at most.
const LINE_BYTES_MAX: u64 = 4_096;
/// What a server prints when it listens.
const LISTENING: &str = "listening on http://";
/// A server that was started for the run; ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Without keys: for messages, which end in JUnit files.
    command: String,
    lines: Receiver<String>,
    last_lines: Vec<String>,
    /// What is measured, if it was named; else where a server listens by default.
    target: Target,
    is_target_given: bool,
    /// Something accepted there before this server was started, so that accepting says nothing.
    is_taken: bool,
    /// The address that the server has told.
    said: Option<String>,
}

impl Server {
    /// Starts `command` on the processors of the calling thread. Its output is read to the end, so
    /// that it never blocks on it. It does not get the terminal's ^C, which ends the run: it has to
    /// answer until the run has ended.
    ///
    /// A target that was given is what is measured; without one it is what the server says, and
    /// `target` is where a server that says nothing is looked for.
    pub(crate) fn start(
        command: &str,
        target: &Target,
        is_target_given: bool,
    ) -> Result<Self, TargetError> {
        let is_taken = target.accepts();
        if is_taken && is_target_given {
            return Err(TargetError::Taken { url: target.url.clone() });
        }
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
        let (sender, lines) = sync_channel(LINES_WAITING_MAX);
        if let Some(stdout) = child.stdout.take() {
            drain(stdout, sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            drain(stderr, sender);
        }
        Ok(Self {
            child,
            command: without_keys(command),
            lines,
            last_lines: Vec::new(),
            target: target.clone(),
            is_target_given,
            is_taken,
            said: None,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until the target that was given accepts; without one, until the server says where it
    /// listens, or the default address accepts.
    pub(crate) fn wait(&mut self, stop: &AtomicBool) -> Result<Target, TargetError> {
        let deadline = Instant::now() + Duration::from_secs(START_S_MAX);
        loop {
            self.read_lines();
            if let Some(url) = &self.said
                && !self.is_target_given
                && let Ok(target) = Target::parse(url)
            {
                return target.reach();
            }
            if !self.is_taken && self.target.accepts() {
                return self.target.reach();
            }
            if let Some(status) = self.ended() {
                std::thread::sleep(Duration::from_millis(50)); // Its last lines come in.
                self.read_lines();
                return Err(self.failed(format!("ended before it listened ({status})")));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(TargetError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(self.failed(self.missed()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What did not happen in time.
    fn missed(&self) -> String {
        let url = &self.target.url;
        if self.is_target_given {
            let said =
                self.said.as_ref().map(|said| format!("; it says that it listens at {said}"));
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

    /// Takes the lines that have come, and the first address that one of them tells.
    fn read_lines(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            if self.said.is_none() {
                self.said = line.split_once(LISTENING).map(|(_, rest)| {
                    let end = rest.find(|c: char| c.is_whitespace() || "\"',".contains(c));
                    format!("http://{}", &rest[..end.unwrap_or(rest.len())])
                });
            }
            if self.last_lines.len() >= LINES_MAX {
                self.last_lines.remove(0);
            }
            self.last_lines.push(line);
        }
    }

    fn failed(&self, what: String) -> TargetError {
        let lines = self.last_lines.join("\n");
        TargetError::Start { command: self.command.clone(), what, lines }
    }
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

/// Reads `from` to its end on a thread of its own, whatever stands there: a server whose output is
/// no longer read would be stopped by it. Lines that nobody takes are dropped.
fn drain(from: impl Read + Send + 'static, to: SyncSender<String>) {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            // The rest of a longer one is skipped.
            match from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(1..) => {
                    if line.last() != Some(&b'\n') && from.skip_until(b'\n').is_err() {
                        return;
                    }
                    let text = String::from_utf8_lossy(&line);
                    drop(to.try_send(text.trim_end_matches(['\r', '\n']).to_owned()));
                }
                Ok(0) => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
}
