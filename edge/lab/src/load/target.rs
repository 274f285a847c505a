//! The server that is measured: its address, whether something listens there, and starting and
//! ending it when asked to.
//!
//! In: an address or a command as a person writes it. Out: a [`Target`] that accepts connections,
//! or an error that says what to do. Not here: whether what listens speaks the right protocol,
//! which the run itself shows.

#[cfg(test)]
mod tests;

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::environment::without_keys;

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
/// How long a connection may take that finds out whether something listens.
const REACH_MAX: Duration = Duration::from_secs(2);
/// Addresses of one name that are tried, at most; further ones are not.
const ADDRESSES_MAX: usize = 8;

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As given: `http://127.0.0.1:7350`.
    pub url: String,
    /// For the `Host` header.
    pub host: String,
    /// The first address that the name has.
    pub addr: SocketAddr,
}

/// Why there is nothing to measure.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not an address of the form `http://host:port`.
    #[error("`{0}` is not a target: write http://host:port")]
    Form(String),
    /// TLS.
    #[error("`{0}`: TLS is not spoken here; name the server's plain port, http://host:port")]
    Tls(String),
    /// Nothing accepts connections there.
    #[error(
        "{silence}: {url} ({addr}); start the server, name its address with --target \
         http://HOST:PORT, or have one started with --server 'COMMAND'"
    )]
    Silent {
        /// As given.
        url: String,
        /// The last address that was tried.
        addr: SocketAddr,
        /// How.
        silence: Silence,
    },
    /// Something listens already where the server is to be started.
    #[error(
        "something listens at {url} already, so that the server started by --server would not be \
         what is measured: end it, or leave --server out (--server-pid PID measures its CPU)"
    )]
    Taken {
        /// The target as given.
        url: String,
    },
    /// Told to stop while the server started.
    #[error("interrupted while the server started")]
    Interrupted,
    /// The name has no address.
    #[error("`{name}` has no address: {error}")]
    Name {
        /// Host and port.
        name: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The command could not be run.
    #[error("cannot start `{command}`: {error}")]
    Spawn {
        /// The command line.
        command: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The command ended, or did not listen in time.
    #[error("`{command}` {what}; its last lines:\n{lines}")]
    Start {
        /// The command line.
        command: String,
        /// What happened.
        what: String,
        /// What it printed last.
        lines: String,
    },
    /// A processor that there is not.
    #[error("processor {cpu} cannot be pinned to: {error}")]
    Pin {
        /// Counted from 0.
        cpu: usize,
        /// What the system said.
        error: std::io::Error,
    },
}

/// How nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum Silence {
    /// The host says so.
    #[error("nothing listens there (connection refused)")]
    Refused,
    /// Nobody says anything.
    #[error("no connection within {} s (timed out: a firewall, or the wrong host?)", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The network says that there is no way to it.
    #[error("the host cannot be reached ({0})")]
    Unreachable(std::io::Error),
    /// Whatever else the system says.
    #[error("no connection can be made ({0})")]
    Other(std::io::Error),
}

impl Silence {
    fn of(error: std::io::Error, waited: Duration) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::TimedOut(waited),
            ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable => Self::Unreachable(error),
            _ => Self::Other(error),
        }
    }
}

impl Target {
    /// Reads `http://host:port` and looks the host up.
    ///
    /// # Errors
    /// When it is not of this form, or the host has no address.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let form = || TargetError::Form(url.to_owned());
        if url.starts_with("https://") {
            return Err(TargetError::Tls(url.to_owned()));
        }
        let rest = url.strip_prefix("http://").ok_or_else(form)?;
        let host = rest.strip_suffix('/').unwrap_or(rest);
        if host.is_empty() || host.contains(['/', '?', ' ', '@']) {
            return Err(form());
        }
        let none = || TargetError::Name {
            name: host.to_owned(),
            error: std::io::Error::other("no address"),
        };
        let addr = addresses(host)?.next().ok_or_else(none)?;
        Ok(Self { url: url.to_owned(), host: host.to_owned(), addr })
    }

    /// Connects once: the target, at the first address of its name that accepts. A name such as
    /// `localhost` has several, and a server need not listen at all of them.
    ///
    /// # Errors
    /// [`TargetError::Silent`] when none accepts within 2 s each.
    pub fn reach(&self) -> Result<Self, TargetError> {
        self.reach_within(REACH_MAX)
    }

    fn reach_within(&self, wait: Duration) -> Result<Self, TargetError> {
        let mut last = None;
        for addr in addresses(&self.host)?.take(ADDRESSES_MAX) {
            match TcpStream::connect_timeout(&addr, wait) {
                Ok(_) => return Ok(Self { addr, ..self.clone() }),
                Err(error) => last = Some((addr, error)),
            }
        }
        let none = || (self.addr, std::io::Error::other("no address"));
        let (addr, error) = last.unwrap_or_else(none);
        let silence = Silence::of(error, wait);
        Err(TargetError::Silent { url: self.url.clone(), addr, silence })
    }

    /// Whether something accepts there now.
    fn accepts(&self) -> bool {
        self.reach_within(Duration::from_millis(200)).is_ok()
    }
}

/// The addresses of `host` or `host:port`; port 80 unless another is named.
fn addresses(host: &str) -> Result<impl Iterator<Item = SocketAddr>, TargetError> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let name = if has_port { host.to_owned() } else { format!("{host}:80") };
    let found = name.to_socket_addrs();
    found.map_err(|error| TargetError::Name { name, error })
}

/// Binds the calling thread, and what it starts from now on, to one processor.
pub(crate) fn pin_thread(cpu: usize) -> Result<(), TargetError> {
    let mut set = CpuSet::new();
    let result = if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(Into::into)
    } else {
        Err(std::io::Error::other("no such processor"))
    };
    result.map_err(|error| TargetError::Pin { cpu, error })
}

/// Gives the calling thread its processors back when dropped: a run binds it, and the next run has
/// to find all of them.
#[derive(Debug)]
pub(crate) struct Unbind(Option<CpuSet>);

impl Unbind {
    /// Remembers the processors of the calling thread, which has to drop it too.
    pub(crate) fn later() -> Self {
        Self(sched_getaffinity(None).ok())
    }
}

impl Drop for Unbind {
    fn drop(&mut self) {
        if let Some(set) = &self.0 {
            // They were the thread's before, so that only a machine that has lost some refuses.
            let _ = sched_setaffinity(None, set);
        }
    }
}

/// The processors that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

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
