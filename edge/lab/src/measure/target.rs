//! The server that is measured: its address, whether something listens there, and starting and
//! ending it when asked to.
//!
//! In: an address or a command as a person writes it. Out: a [`Target`] that accepts connections,
//! or an error that says what to do. Not here: whether what listens speaks the right protocol,
//! which the run itself shows.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustls::pki_types::ServerName;

use super::lookup;

/// How long a connection may take that finds out whether something listens.
const REACH_MAX: Duration = Duration::from_secs(2);
/// Addresses of one name that are tried, at most; further ones are not.
const ADDRESSES_MAX: usize = 8;

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As given: `http://127.0.0.1:7350`, `https://game.example`.
    pub url: String,
    /// For the `Host` header.
    pub host: String,
    /// The first address that the name has, or the one that accepts.
    pub addr: SocketAddr,
    /// All that the name had when it was looked up, as far as they are tried.
    addrs: Vec<SocketAddr>,
    /// Whose certificate it is to have, if it begins with https://; its sockets are `wss` then.
    pub tls_name: Option<ServerName<'static>>,
}

/// Why there is nothing to measure.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not an address of the form `http://host:port`.
    #[error(
        "`{0}` is not a target: write http://host:port or https://host:port (sockets are `ws` and \
         `wss` then)"
    )]
    Form(String),
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
    /// Its output cannot be kept.
    #[error("{}: {error}", path.display())]
    Log {
        /// The file for it.
        path: std::path::PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Not allowed to be a realtime thread.
    #[error(
        "--realtime: {error}; it takes CAP_SYS_NICE (root has it) or a limit of realtime priority: \
         `ulimit -r 1`"
    )]
    Realtime {
        /// What the system said.
        error: std::io::Error,
    },
    /// An address that connections cannot come from.
    #[error("--bind {address}: {error}; name an address of this machine (`ip address`)")]
    Bind {
        /// As given.
        address: std::net::IpAddr,
        /// What the system said.
        error: std::io::Error,
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
    pub(crate) fn of(error: std::io::Error, waited: Duration) -> Self {
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
    /// Reads `http://host:port` or `https://host:port` and looks the host up.
    ///
    /// # Errors
    /// When it is not of this form, or the host has no address; when `stop` is set before the system has
    /// answered.
    pub fn parse(url: &str, stop: &AtomicBool) -> Result<Self, TargetError> {
        let form = || TargetError::Form(url.to_owned());
        let (is_tls, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, url.strip_prefix("http://").ok_or_else(form)?),
        };
        let host = rest.strip_suffix('/').unwrap_or(rest);
        if host.is_empty() || host.contains(['/', '?', ' ', '@']) {
            return Err(form());
        }
        let none = |error| TargetError::Name { name: host.to_owned(), error };
        let (name, port) = name_and_port(host, if is_tls { 443 } else { 80 });
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls_name =
            is_tls.then(|| ServerName::try_from(name.clone())).transpose().map_err(|_| form())?;
        let mut addrs = lookup::addresses(&name, port, stop).map_err(none)?;
        addrs.truncate(ADDRESSES_MAX);
        let addr = *addrs.first().ok_or_else(|| none(std::io::Error::other("no address")))?;
        Ok(Self { url: url.to_owned(), host: host.to_owned(), addr, addrs, tls_name })
    }

    /// Connects once: the target, at the first address of its name that accepts. A name such as
    /// `localhost` has several, and a server need not listen at all of them.
    ///
    /// # Errors
    /// [`TargetError::Silent`] when none accepts within 2 s each.
    pub fn reach(&self) -> Result<Self, TargetError> {
        self.reach_within(REACH_MAX)
    }

    pub(super) fn reach_within(&self, wait: Duration) -> Result<Self, TargetError> {
        let mut last = None;
        for addr in &self.addrs {
            match TcpStream::connect_timeout(addr, wait) {
                Ok(_) => return Ok(Self { addr: *addr, ..self.clone() }),
                Err(error) => last = Some((*addr, error)),
            }
        }
        let none = || (self.addr, std::io::Error::other("no address"));
        let (addr, error) = last.unwrap_or_else(none);
        let silence = Silence::of(error, wait);
        Err(TargetError::Silent { url: self.url.clone(), addr, silence })
    }

    /// Whether something accepts there now.
    pub(super) fn accepts(&self) -> bool {
        self.reach_within(Duration::from_millis(200)).is_ok()
    }
}

/// The parts of `host` or `host:port`, with this port unless another is named.
fn name_and_port(host: &str, port: u16) -> (&str, u16) {
    let parts = host.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
    parts.unwrap_or((host, port))
}
