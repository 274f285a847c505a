//! The server that is measured: its address, and starting and ending it when asked to.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How long a server may take to listen.
const START_S_MAX: u64 = 60;
/// How long a server may take to end after SIGTERM.
const END_S_MAX: u64 = 15;
/// Lines of a server's output that are kept for an error message.
const LINES_MAX: usize = 64;
/// What a server prints when it listens.
const LISTENING: &str = "listening on http://";

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

impl Target {
    /// Reads `http://host:port` and looks the host up.
    ///
    /// # Errors
    /// When it is not of this form, or the host has no address.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let form = || TargetError::Form(url.to_owned());
        let rest = url.strip_prefix("http://").ok_or_else(form)?;
        let host = rest.strip_suffix('/').unwrap_or(rest);
        if host.is_empty() || host.contains(['/', '?', ' ', '@']) {
            return Err(form());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let name = if has_port { host.to_owned() } else { format!("{host}:80") };
        let failed = |error| TargetError::Name { name: name.clone(), error };
        let none = || failed(std::io::Error::other("no address"));
        let addr = name.to_socket_addrs().map_err(failed)?.next().ok_or_else(none)?;
        Ok(Self { url: url.to_owned(), host: host.to_owned(), addr })
    }
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

/// The processors that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// A server that was started for the run; ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    command: String,
    lines: Receiver<String>,
    last_lines: Vec<String>,
}

impl Server {
    /// Starts `command` on the processors of the calling thread. Its output is read to the end, so
    /// that it never blocks on it.
    pub(crate) fn start(command: &str) -> Result<Self, TargetError> {
        // `exec` makes the process the server itself, not a shell around it.
        let child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let failed = |error| TargetError::Spawn { command: command.to_owned(), error };
        let mut child = child.map_err(failed)?;
        let (sender, lines) = sync_channel(LINES_MAX);
        if let Some(stdout) = child.stdout.take() {
            drain(stdout, sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            drain(stderr, sender);
        }
        Ok(Self { child, command: command.to_owned(), lines, last_lines: Vec::new() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server says where it listens, or `addr` accepts.
    pub(crate) fn wait(&mut self, target: &Target) -> Result<Target, TargetError> {
        let deadline = Instant::now() + Duration::from_secs(START_S_MAX);
        loop {
            if let Some(url) = self.read_lines() {
                return Target::parse(&url).or_else(|_| Ok(target.clone()));
            }
            if TcpStream::connect_timeout(&target.addr, Duration::from_millis(200)).is_ok() {
                return Ok(target.clone());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                std::thread::sleep(Duration::from_millis(50)); // Its last lines come in.
                self.read_lines();
                return Err(self.failed(format!("ended before it listened ({status})")));
            }
            if Instant::now() > deadline {
                return Err(self.failed(format!("did not listen within {START_S_MAX} s")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn read_lines(&mut self) -> Option<String> {
        loop {
            match self.lines.try_recv() {
                Ok(line) => {
                    let url = line.split_once(LISTENING).map(|(_, rest)| {
                        let end = rest.find(|c: char| c.is_whitespace() || "\"',".contains(c));
                        format!("http://{}", &rest[..end.unwrap_or(rest.len())])
                    });
                    if self.last_lines.len() >= LINES_MAX {
                        self.last_lines.remove(0);
                    }
                    self.last_lines.push(line);
                    if url.is_some() {
                        return url;
                    }
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return None,
            }
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
        if let Some(pid) = pid {
            // An error means that it has ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(END_S_MAX);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reads `from` to its end on a thread of its own. Lines that nobody takes are dropped.
fn drain(from: impl Read + Send + 'static, to: SyncSender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            drop(to.try_send(line));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{Server, Target};

    #[test]
    fn targets() {
        for (url, host, addr) in [
            ("http://127.0.0.1:7350", "127.0.0.1:7350", "127.0.0.1:7350"),
            ("http://127.0.0.1/", "127.0.0.1", "127.0.0.1:80"),
            ("http://[::1]:80", "[::1]:80", "[::1]:80"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((&*target.host, &*target.addr.to_string()), (host, addr));
        }
        for url in ["", "127.0.0.1:1", "https://a", "http://", "http://a b", "http://a/b"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_server_says_where_it_listens_and_is_ended() {
        let target = Target::parse("http://127.0.0.1:1").unwrap();
        let command =
            "sh -c 'echo INFO listening on http://127.0.0.1:4321, driver uring; sleep 60'";
        let mut server = Server::start(command).unwrap();
        assert_eq!(server.wait(&target).unwrap().addr.port(), 4321);
        let pid = server.pid();
        drop(server);
        assert!(crate::load::sample(pid).is_err());
    }

    #[test]
    fn a_server_that_ends_is_an_error_with_its_lines() {
        let target = Target::parse("http://127.0.0.1:1").unwrap();
        let mut server = Server::start("sh -c 'echo no such key >&2; exit 3'").unwrap();
        let error = server.wait(&target).unwrap_err().to_string();
        assert!(error.contains("no such key") && error.contains("exit status: 3"), "{error}");
    }
}
