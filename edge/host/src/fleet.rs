//! What a fleet is: the file FLEET.toml as types, and what must hold of it before anything starts.
//!
//! In: the file's text. Out: a [`Fleet`], or what is wrong with it, with line, key and cure. What of the
//! machine can be known by then is looked at as well (`here`); the rest is found when it is started.

mod clash;
mod form;
#[cfg(target_os = "linux")]
mod here;
pub mod sdk;
mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use lab::measure::Span;
use serde::{Deserialize, Serialize};

pub use lab::games::query::Query;
use sdk::Agones;
pub use units::{Bytes, Cores, Subnet};

/// Servers of one fleet, at most: an address and a user id for each are set aside.
pub const SERVERS_MAX: u32 = 1_000;
/// Bytes of a fleet's file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Letters of a name: with a number behind it, it names files, groups and a host.
pub const NAME_CHARS_MAX: usize = 40;

/// Why a fleet's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// It cannot be read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// It is not a fleet's file.
    #[error("{0}")]
    Form(String),
    /// A server's table contradicts itself or another one.
    #[error("server `{name}`: `{key}`: {what}")]
    Wrong {
        /// The server's name.
        name: String,
        /// The key that has to change.
        key: &'static str,
        /// What is wrong and what to write.
        what: String,
    },
    /// As [`FleetError::Wrong`], of the file's own tables.
    #[error("[host]: `{key}`: {what}")]
    Host {
        /// The key that has to change.
        key: &'static str,
        /// What is wrong and what to write.
        what: String,
    },
}

/// A fleet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// What holds for all.
    #[serde(default)]
    pub host: Host,
    /// The servers, one table for each kind.
    #[serde(default)]
    pub server: Vec<Server>,
    /// What of an Agones file is not done here, a line each.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// What holds for all servers of a fleet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Where servers behind `wall = "network"` get their addresses from; the first is the machine's.
    pub subnet: Subnet,
    /// A network interface: servers stand beside it by macvlan, with addresses of its network, instead
    /// of behind a bridge.
    pub macvlan: Option<String>,
    /// The router of the servers' network; with a bridge it is the machine.
    pub gateway: Option<Ipv4Addr>,
    /// Whether servers behind `wall = "network"` are kept from reaching each other.
    pub isolated: bool,
    /// Where the HTTP API listens, if it should.
    pub api: Option<SocketAddr>,
}

impl Default for Host {
    fn default() -> Self {
        let subnet = Subnet { first: Ipv4Addr::new(10, 213, 0, 0), bits: 16 };
        Self { subnet, macvlan: None, gateway: None, isolated: true, api: None }
    }
}

/// How far a server is kept apart. Each level has what those before it have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wall {
    /// A user of its own, if the daemon is root; no new privileges, a filter of system calls.
    #[default]
    Process,
    /// And control groups: memory, processes and processor shares are limited and counted.
    Cgroup,
    /// And mounts and process ids of its own: it sees the machine's files, and its changes are its own.
    Files,
    /// And a network of its own, with an address of its own.
    Network,
}

impl Wall {
    /// The word in the file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Cgroup => "cgroup",
            Self::Files => "files",
            Self::Network => "network",
        }
    }

    /// The wall of that word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        let all = [Self::Process, Self::Cgroup, Self::Files, Self::Network];
        all.into_iter().find(|it| it.word() == word)
    }
}

/// How a server tells that it is ready.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ready {
    /// It answers a status query.
    pub query: Option<Query>,
    /// This port is bound.
    pub port: Option<u16>,
    /// A line of its output holds this text.
    pub log: Option<String>,
    /// It says so by the Agones SDK.
    pub sdk: bool,
    /// Time that it has for it.
    #[serde(skip_serializing)]
    pub timeout: Option<Span>,
}

impl Ready {
    /// The ways that are named.
    fn ways(&self) -> usize {
        usize::from(self.query.is_some())
            + usize::from(self.port.is_some())
            + usize::from(self.log.is_some())
            + usize::from(self.sdk)
    }
}

/// What becomes of a server that has ended by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Started again unless it ended with code 0.
    #[default]
    OnFailure,
    /// Started again.
    Always,
    /// Left as it is.
    Never,
}

/// What a server may use, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory, files that it writes within its walls included.
    pub memory: Option<Bytes>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// What it may have written at one time: from `wall = "files"` on everywhere, before in its home; it is
    /// memory. Without root the bytes of each of its files.
    pub disk: Option<Bytes>,
    /// Output in one second; a server that writes more waits.
    pub log: Option<Bytes>,
}

/// Which processors, and how much of them beside others. There is no upper limit: one that is reached
/// takes whole ticks away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cpu {
    /// The processors that it may run on.
    pub cores: Option<Cores>,
    /// Its part beside others when a processor is short, 1 to 10,000; 100 is what others have.
    pub weight: Option<u32>,
    /// Before all ordinary threads (`SCHED_RR`), with this priority of 1 to 99.
    pub realtime: Option<u8>,
}

/// One kind of server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// What it is called; of several, with a number behind it.
    pub name: String,
    /// How many.
    pub count: Option<u32>,
    /// Program and arguments; `{name}`, `{index}`, `{port}` and `{address}` are filled in.
    pub command: Vec<String>,
    /// Where it is started; else in its home.
    pub dir: Option<PathBuf>,
    /// Variables besides HOME, PATH, USER and LANG; of the daemon's own it gets none.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The port on which players find it.
    pub port: Option<u16>,
    /// The walls.
    #[serde(default)]
    pub wall: Wall,
    /// When it is ready; else when its port is bound, and without a port at once.
    #[serde(default)]
    pub ready: Ready,
    /// When it is started again.
    #[serde(default)]
    pub restart: Restart,
    /// It is started when somebody wants one, not before.
    #[serde(default)]
    pub on_demand: bool,
    /// Time to end after SIGTERM.
    pub stop_grace: Option<Span>,
    /// What it may use.
    #[serde(default)]
    pub limits: Limits,
    /// Where it computes.
    #[serde(default)]
    pub cpu: Cpu,
    /// Folders of the machine that it may change within its walls, from `wall = "files"` on.
    #[serde(default)]
    pub writable: Vec<PathBuf>,
    /// The filter of system calls.
    #[serde(default)]
    pub seccomp: Seccomp,
    /// That it is made for Agones, and what Agones would be told of it.
    pub agones: Option<Agones>,
}

/// Which filter of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Seccomp {
    /// Refuses what changes the machine, looks into other processes or makes new walls.
    #[default]
    Default,
    /// None: for programs of 32 bits.
    Off,
}

/// Reads a fleet's file, or one of Agones if it ends in `.yaml` or `.yml`; `wall` is what servers of that one
/// get if it does not say.
///
/// # Errors
/// What is wrong with it.
pub fn read(path: &std::path::Path, wall: Wall) -> Result<Fleet, FleetError> {
    let failed = |error| FleetError::File { path: path.to_owned(), error };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        let what = format!("{}: a fleet's file has {FILE_BYTES_MAX} bytes at most", path.display());
        return Err(FleetError::Form(what));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let is_yaml = path.extension().is_some_and(|it| it == "yaml" || it == "yml");
    let fleet = if is_yaml { crate::agones::parse(&text, wall) } else { parse(&text) };
    #[cfg(target_os = "linux")]
    let fleet = fleet.and_then(|it| it.check_here().map(|()| it));
    fleet.map_err(|error| match error {
        FleetError::Form(what) => FleetError::Form(format!("{}: {what}", path.display())),
        other => other,
    })
}

/// Reads a fleet.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Fleet, FleetError> {
    let fleet: Fleet =
        toml::from_str(text).map_err(|error| FleetError::Form(form::explain(text, &error)))?;
    fleet.check()?;
    Ok(fleet)
}

impl Fleet {
    /// With addresses from another subnet than its file says.
    ///
    /// # Errors
    /// If it has fewer than there are servers.
    pub fn over(mut self, subnet: Subnet) -> Result<Self, FleetError> {
        self.host.subnet = subnet;
        self.check()?;
        Ok(self)
    }

    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<(), FleetError> {
        let host = |key, what: String| Err(FleetError::Host { key, what });
        if self.server.is_empty() {
            let what = "no server: write a table that begins with [[server]]".to_owned();
            return Err(FleetError::Form(what));
        }
        let (mut all, mut names) = (0_u32, BTreeSet::new());
        for server in &self.server {
            server.check()?;
            all = all.saturating_add(server.count.unwrap_or(1));
            // More than the most there are is refused below.
            for name in server.names().take(SERVERS_MAX as usize) {
                if let Some(name) = names.replace(name) {
                    let what = format!("is used twice: two servers would be called `{name}`");
                    return Err(server.wrong("name", what));
                }
            }
        }
        if all > SERVERS_MAX {
            return host("server", format!("{all} servers: {SERVERS_MAX} are the most"));
        }
        self.check_ports()?;
        // Every server has a number, and an address goes with it, whatever its wall.
        let is_networked = self.server.iter().any(|it| it.wall == Wall::Network);
        if is_networked && all > self.host.subnet.servers() {
            let subnet = self.host.subnet;
            let what = format!(
                "{subnet} has {} addresses for servers, and {all} are needed, one for each server of \
                 the fleet: write fewer bits",
                subnet.servers()
            );
            return host("subnet", what);
        }
        if let Some(api) = self.host.api
            && !api.ip().is_loopback()
        {
            let what =
                format!("{api}: the API has no TLS: listen on 127.0.0.1 and put a proxy before it");
            return host("api", what);
        }
        Ok(())
    }
}

impl Server {
    fn wrong(&self, key: &'static str, what: String) -> FleetError {
        FleetError::Wrong { name: self.name.clone(), key, what }
    }

    fn check(&self) -> Result<(), FleetError> {
        let wrong = |key, what: &str| Err(self.wrong(key, what.to_owned()));
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = !self.name.is_empty()
            && self.name.len() <= NAME_CHARS_MAX
            && self.name.chars().all(is_plain)
            && self.name.starts_with(|c: char| c.is_ascii_lowercase());
        if !is_name {
            let what = format!("1 to {NAME_CHARS_MAX} of a-z, 0-9 and -, a letter first");
            return Err(self.wrong("name", what));
        }
        if self.command.first().is_none_or(String::is_empty) {
            return wrong("command", "is empty: write [\"program\", \"argument\"]");
        }
        if self.count.is_some_and(|count| count == 0 || count > SERVERS_MAX) {
            return Err(self.wrong("count", format!("1 to {SERVERS_MAX}")));
        }
        if self.ready.ways() > 1 {
            return wrong("ready", "name one of query, port, log and sdk");
        }
        if self.ready.query.is_some() && self.port.is_none() {
            return wrong("port", "is missing: the status query is sent there");
        }
        if self.ready.log.as_ref().is_some_and(String::is_empty) {
            return wrong("ready", "`log` is empty: every line would do");
        }
        if let Some(agones) = &self.agones {
            agones.check(self.port).map_err(|(key, what)| self.wrong(key, what))?;
        }
        self.check_words()?;
        self.check_port()?;
        self.check_limits()
    }

    /// What Agones would be told of it, if it is made for Agones: those that say that they are ready by its
    /// SDK are.
    #[must_use]
    pub fn sdk(&self) -> Option<Agones> {
        self.agones.clone().or_else(|| self.ready.sdk.then(Agones::default))
    }

    /// Servers that share a network need ports of their own.
    fn check_port(&self) -> Result<(), FleetError> {
        let count = self.count.unwrap_or(1);
        let Some(port) = self.port else { return Ok(()) };
        if port == 0 {
            return Err(self.wrong("port", "1 to 65535".to_owned()));
        }
        if self.wall == Wall::Network || count == 1 {
            return Ok(());
        }
        if u32::from(port) + count > 65_536 {
            return Err(self.wrong("port", format!("{count} ports from {port} on end above 65535")));
        }
        let takes_it = |text: &String| text.contains("{port}");
        // One that speaks the SDK can read its port there.
        let is_told = self.sdk().is_some();
        if !is_told && !self.command.iter().any(takes_it) && !self.env.values().any(takes_it) {
            let what = format!(
                "{count} servers share the machine's network, and nothing tells them apart: write \
                 {{port}} into `command` (each gets the next one from {port} on), or wall = \"network\""
            );
            return Err(self.wrong("port", what));
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), FleetError> {
        let wrong = |key, what: &str| Err(self.wrong(key, what.to_owned()));
        let (limits, cpu) = (&self.limits, &self.cpu);
        if limits.memory.is_some() && self.wall < Wall::Cgroup {
            return wrong("limits.memory", "takes wall = \"cgroup\" or a higher one");
        }
        if cpu.weight.is_some() && self.wall < Wall::Cgroup {
            return wrong("cpu.weight", "takes wall = \"cgroup\" or a higher one");
        }
        if !self.writable.is_empty() && self.wall < Wall::Files {
            return wrong("writable", "takes wall = \"files\" or a higher one");
        }
        if self.writable.iter().any(|it| !it.is_absolute() || it.parent().is_none()) {
            return wrong("writable", "folders as absolute paths, and not / itself");
        }
        if cpu.weight.is_some_and(|weight| !(1..=10_000).contains(&weight)) {
            return wrong("cpu.weight", "1 to 10000; 100 is what others have");
        }
        if cpu.realtime.is_some_and(|priority| !(1..=99).contains(&priority)) {
            return wrong("cpu.realtime", "a priority of 1 to 99");
        }
        if limits.pids == Some(0) {
            return wrong("limits.pids", "1 at least");
        }
        Ok(())
    }

    /// What the servers of this table are called.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let one = self.count.is_none().then(|| self.name.clone());
        let many = (1..=self.count.unwrap_or(0)).map(|number| format!("{}-{number}", self.name));
        one.into_iter().chain(many)
    }
}

#[cfg(test)]
mod tests;
