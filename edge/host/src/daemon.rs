//! The daemon: one thread that owns what is known of all servers and decides, and for each server a
//! thread that starts it and waits for its end.
//!
//! In: events of those threads, questions of people, the clock. Out: servers that run as the fleet's file
//! says, answers, and a folder from which the next daemon knows them again. Not here: how a server is
//! started (`start`), what becomes of it (`one`), what an earlier daemon left (`recover`).

mod answer;
mod one;
mod plan;
mod recover;
mod start;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::api::Question;
use crate::fleet::{Fleet, Subnet, Wall};
use crate::groups::{Groups, Used};
use crate::logs::Noticed;
use crate::net::Network;
use crate::sdk::Sdk;
use crate::state::Folder;
use crate::view::Machine;
use one::One;
use start::Alive;

/// How often servers that start or stop are looked at.
const SOON: Duration = Duration::from_millis(50);
/// How often all others are.
const SELDOM: Duration = Duration::from_secs(1);
/// How old numbers may be that are shown.
const FRESH: Duration = Duration::from_millis(900);
/// How often numbers are taken that nobody asks for, so that who does is told of the last seconds.
const SAMPLED: Duration = Duration::from_secs(10);
/// Servers that are being started at one time: a start is mostly the kernel's work, and each takes the
/// same locks there.
const STARTS_MAX: usize = 8;

/// What a daemon is to do.
#[derive(Debug)]
pub struct Options {
    /// The servers.
    pub fleet: Fleet,
    /// Its folder: [`crate::FOLDER`], or another for another daemon beside it.
    pub folder: PathBuf,
    /// The program and its arguments that call [`crate::become_server`].
    pub child: Vec<OsString>,
    /// Whether servers go on when the daemon is told to end, for the next one.
    pub keeps: bool,
}

/// Why a daemon cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The folder.
    #[error("{0}")]
    Folder(String),
    /// A wall takes root.
    #[error(
        "server `{name}`: wall = \"{wall}\" takes root: start this as root, or write wall = \"process\", \
         which needs none"
    )]
    Root {
        /// The first server that has it.
        name: String,
        /// The wall.
        wall: &'static str,
    },
    /// This machine has no control groups that can be written.
    #[error("wall = \"{0}\": no control groups are mounted here: see cgroups(7)")]
    NoGroups(&'static str),
    /// The servers' network.
    #[error("the servers' network ({subnet}): {error}")]
    Network {
        /// The fleet's subnet.
        subnet: String,
        /// What failed.
        error: engine::NamespaceError,
    },
    /// Somebody has those addresses.
    #[error(
        "[host] subnet {subnet}: {taken}, so that these servers would not be reached, or others: {cure}"
    )]
    Taken {
        /// The fleet's subnet.
        subnet: Subnet,
        /// Who.
        taken: String,
        /// What to write.
        cure: String,
    },
    /// Its sockets.
    #[error("{what}: {error}")]
    Listen {
        /// Which.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
}

/// What the daemon's thread is told.
#[derive(Debug)]
pub(crate) enum Event {
    /// A server's process is there.
    Spawned { index: usize, round: u64, alive: Alive },
    /// Its program has begun.
    Started { index: usize, round: u64, probe: Option<std::net::UdpSocket>, doors: (u16, u16) },
    /// It did not come to that.
    Refused { index: usize, round: u64, error: String },
    /// Something in its output.
    Noticed { index: usize, round: u64, noticed: Noticed },
    /// It has ended, and nothing is left of it; without a status if it was adopted.
    Exited { index: usize, round: u64, status: Option<ExitStatus>, used: Used },
    /// It wants something, by the SDK.
    Wanted { index: usize, round: u64 },
    /// Somebody wants something.
    Asked(Question),
    /// The daemon is to end.
    Stop,
    /// It is to end, and its servers are to go on.
    Leave,
}

/// Tells a daemon to end, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// Takes everything down, unless the daemon keeps its servers; then [`Daemon::run`] returns.
    pub fn stop(&self) {
        // One that has ended already has nothing to be told.
        let _ = self.0.send(Event::Stop);
    }

    /// Leaves all servers running for the next daemon; then [`Daemon::run`] returns.
    pub fn leave(&self) {
        let _ = self.0.send(Event::Leave);
    }
}

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    folder: Folder,
    servers: Vec<One>,
    groups: Option<Groups>,
    network: Option<Network>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    sdk: Sdk,
    child: Vec<OsString>,
    is_root: bool,
    keeps: bool,
    /// Everything is being taken down.
    is_ending: bool,
    sampled: Option<Instant>,
    /// Busy and all time of the processors at the last sample, in ticks.
    ticks: (u64, u64),
    machine: Machine,
    /// Who waits for a server to become ready.
    waiting: Vec<answer::Waiting>,
    api: Option<SocketAddr>,
    found: recover::Found,
}

impl Daemon {
    /// Looks at what an earlier daemon left, adopts what goes on, removes the rest, and gets ready to
    /// start the others.
    ///
    /// # Errors
    /// When another daemon holds the folder; when a wall cannot be had here.
    pub fn new(options: Options) -> Result<Self, HostError> {
        let is_root = rustix::process::geteuid().is_root();
        let highest = options.fleet.server.iter().max_by_key(|it| it.wall);
        let wall = highest.map_or(Wall::Process, |it| it.wall);
        if !is_root && let Some(server) = highest.filter(|it| it.wall > Wall::Process) {
            let (name, wall) = (server.name.clone(), wall.word());
            return Err(HostError::Root { name, wall });
        }
        let folder =
            Folder::hold(&options.folder).map_err(|it| HostError::Folder(it.to_string()))?;
        let groups = is_root.then(|| Groups::here(&folder.tag())).flatten();
        if groups.is_none() && wall >= Wall::Cgroup {
            return Err(HostError::NoGroups(wall.word()));
        }
        let network = Network::new(&folder.tag(), &options.fleet.host);
        if wall == Wall::Network {
            refuse_clash(&network)?;
        }
        let network = is_root.then_some(network);
        let (sender, events) = channel();
        let (plans, found) =
            recover::recover(&folder, groups.as_ref(), network.as_ref(), &options.fleet);
        if let Some(network) = network.as_ref().filter(|_| wall == Wall::Network) {
            let subnet = options.fleet.host.subnet.to_string();
            network.set_up().map_err(|error| HostError::Network { subnet, error })?;
        }
        let listen = |what: &str, error| HostError::Listen { what: what.to_owned(), error };
        let api = options.fleet.host.api;
        let api =
            api.map(|it| crate::api::listen_tcp(&folder.path, it, sender.clone())).transpose();
        let api = api.map_err(|error| listen("[host] api", error))?;
        crate::api::listen(&folder.path, sender.clone())
            .map_err(|error| listen("the control socket", error))?;
        let sdk = Sdk::start().map_err(|error| listen("the SDK's thread", error))?;
        let servers = plans.into_iter().enumerate();
        let disk = |plan: &plan::Plan| is_root.then(|| plan.home(&folder.server(&plan.name)));
        let servers = servers.map(|(index, (plan, record))| {
            let disk = disk(&plan);
            One::new(index, plan, record, disk, &sender)
        });
        let servers = servers.collect();
        let mut daemon = Self {
            folder,
            servers,
            groups,
            network,
            sender,
            events,
            sdk,
            child: options.child,
            is_root,
            keeps: options.keeps,
            is_ending: false,
            sampled: None,
            ticks: (0, 0),
            machine: Machine::default(),
            waiting: Vec::new(),
            api,
            found,
        };
        daemon.adopt();
        Ok(daemon)
    }

    /// A handle to end it by.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Lets no server begin before somebody asks for it.
    pub fn hold(&mut self) {
        let now = Instant::now();
        self.servers.iter_mut().for_each(|one| one.stop(now));
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Where its HTTP API listens.
    #[must_use]
    pub fn api(&self) -> Option<SocketAddr> {
        self.api
    }

    /// What it found when it started, in words; nothing if there was nothing.
    #[must_use]
    pub fn found(&self) -> Option<String> {
        self.found.text()
    }

    /// Servers of the fleet.
    #[must_use]
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// Runs until it is told to end and everything is taken down. `say` is told in a line what becomes of
    /// each server.
    pub fn run(mut self, mut say: impl FnMut(&str)) {
        loop {
            let now = Instant::now();
            self.tick(now);
            self.servers.iter_mut().filter_map(|it| it.news(now)).for_each(|line| say(&line));
            if self.is_ending && self.servers.iter().all(One::is_over) {
                break;
            }
            let pause = if self.servers.iter().any(One::is_hurried) { SOON } else { SELDOM };
            match self.events.recv_timeout(pause) {
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // What else has come is handled before everybody is looked at again.
            while let Ok(event) = self.events.try_recv() {
                self.handle(event);
            }
            if self.is_ending && self.keeps {
                // The socket tells that nobody is there; everything else is the next one's.
                let _ = std::fs::remove_file(self.folder.path.join("control"));
                if let Some(line) = self.leaves() {
                    say(&line);
                }
                return;
            }
        }
        self.take_down();
    }

    /// What runs on, and how one comes back to it; nothing if nothing does.
    fn leaves(&self) -> Option<String> {
        let left = self.servers.iter().filter(|it| it.has_process()).count();
        let (servers, verb) = (crate::view::servers(left), if left == 1 { "runs" } else { "run" });
        let path = &self.folder.path;
        let folder = if path == Path::new(crate::FOLDER) {
            String::new()
        } else {
            format!(" --folder {}", path.display())
        };
        (left > 0).then(|| {
            format!(
                "{servers} {verb} on: `throng host run{folder} FLEET.toml` goes on with them, \
                 `throng host clean{folder}` removes them"
            )
        })
    }

    /// The last of it.
    fn take_down(&self) {
        if let Some(network) = &self.network {
            network.clean(&[]);
        }
        if let Some(groups) = &self.groups {
            groups.remove_all();
        }
        self.folder.remove();
    }

    fn handle(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Asked(question) => self.answer(question, now),
            Event::Stop => self.end(now),
            Event::Leave => {
                // Not if it takes everything down already.
                self.keeps |= !self.is_ending;
                self.end(now);
            }
            Event::Spawned { index, round, alive } => {
                let Some(one) = self.servers.get_mut(index).filter(|it| it.round == round) else {
                    return;
                };
                one.spawned(alive, now);
                self.remember(index);
            }
            Event::Started { index, round, probe, doors } => {
                let Some(one) = self.servers.get_mut(index).filter(|it| it.round == round) else {
                    return;
                };
                one.started(probe, doors, now);
                self.remember(index);
            }
            Event::Refused { index, round, error } => {
                if let Some(one) = self.servers.get_mut(index).filter(|it| it.round == round) {
                    one.refused(error, now);
                }
                self.remember(index);
            }
            Event::Wanted { index, round } => {
                let Some(one) = self.servers.get_mut(index).filter(|it| it.round == round) else {
                    return;
                };
                one.heard(now);
                self.remember(index);
            }
            Event::Noticed { index, round, noticed } => {
                if let Some(one) = self.servers.get_mut(index).filter(|it| it.round == round) {
                    one.noticed(noticed, now);
                }
                self.remember(index);
            }
            Event::Exited { index, round, status, used } => {
                if let Some(one) = self.servers.get_mut(index).filter(|it| it.round == round) {
                    one.exited(status, used, now);
                }
                self.remember(index);
            }
        }
    }

    /// Looks at all servers: who is due for something?
    fn tick(&mut self, now: Instant) {
        let mut starting = self.servers.iter().filter(|it| it.is_being_started()).count();
        for index in 0..self.servers.len() {
            let Some(one) = self.servers.get_mut(index) else { continue };
            if !self.is_ending && starting < STARTS_MAX && one.wants_start(now) {
                one.begin(now);
                starting += 1;
                self.start(index);
                continue;
            }
            let before = one.state();
            one.look(now, self.groups.as_ref());
            if one.state() != before || one.owes_record(now) {
                self.remember(index);
            }
        }
        self.serve_waiting(now);
        self.sample(now, SAMPLED);
    }

    /// What a thread that starts or adopts a server has to know.
    fn order(&self, index: usize, one: &One) -> start::Order {
        start::Order {
            index,
            round: one.round,
            plan: one.plan.clone(),
            folder: self.folder.server(&one.plan.name),
            hidden: self.folder.path.clone(),
            user: self.is_root.then(|| self.folder.user(one.plan.slot)),
            groups: self.groups.clone().filter(|_| one.plan.server.wall >= Wall::Cgroup),
            network: self.network.clone().filter(|_| one.plan.server.wall == Wall::Network),
            child: self.child.clone(),
            events: self.sender.clone(),
            sdk: self.sdk.clone(),
            desk: Arc::clone(&one.desk),
            doors: one.doors(),
        }
    }

    /// Starts a server in a thread of its own.
    fn start(&mut self, index: usize) {
        self.remember(index);
        let Some(one) = self.servers.get(index) else { return };
        let order = self.order(index, one);
        let (events, round) = (self.sender.clone(), one.round);
        let name = format!("s {}", one.plan.name);
        let spawned = std::thread::Builder::new()
            .name(name)
            .stack_size(start::STACK_BYTES)
            .spawn(move || start::run(&order));
        if let Err(error) = spawned {
            let error = format!("no thread: {error}");
            let _ = events.send(Event::Refused { index, round, error });
        }
    }

    /// Goes on with the servers that an earlier daemon left running.
    fn adopt(&mut self) {
        for index in 0..self.servers.len() {
            let Some(one) = self.servers.get(index) else { continue };
            let Some(identity) = one.adopting() else { continue };
            let adopted = start::adopt(self.order(index, one), identity);
            let Some(one) = self.servers.get_mut(index) else { continue };
            match adopted {
                Ok((alive, probe, is_open)) => one.adopted(alive, probe, is_open, Instant::now()),
                Err(error) => one.refused(format!("not adopted: {error}"), Instant::now()),
            }
        }
    }

    /// Keeps what the next daemon has to know.
    fn remember(&self, index: usize) {
        let Some(one) = self.servers.get(index) else { return };
        // Without it the server is not known again, and is ended by the next daemon: nothing is lost
        // that somebody could be told here.
        let _ = self.folder.write(&one.record());
    }

    /// Takes everything down, or leaves it to the next.
    fn end(&mut self, now: Instant) {
        self.is_ending = true;
        if !self.keeps {
            for one in &mut self.servers {
                one.stop(now);
            }
        }
    }
}

/// Before anything is made or taken away.
fn refuse_clash(network: &Network) -> Result<(), HostError> {
    let Some((taken, free)) = network.clash() else { return Ok(()) };
    let cure = match free {
        Some(free) => format!("nobody here uses {free}: write it there, or --subnet {free}"),
        None => "write another, or --subnet".to_owned(),
    };
    Err(HostError::Taken { subnet: network.subnet(), taken: taken.to_string(), cure })
}

/// Takes away what a daemon left that was killed. What was found, in words.
///
/// # Errors
/// When a daemon holds the folder.
pub fn clean(folder: &Path) -> Result<Option<String>, HostError> {
    if !folder.exists() {
        return Ok(None);
    }
    let folder = Folder::hold(folder).map_err(|it| HostError::Folder(it.to_string()))?;
    let is_root = rustix::process::geteuid().is_root();
    let groups = is_root.then(|| Groups::here(&folder.tag())).flatten();
    let network = is_root.then(|| Network::new(&folder.tag(), &crate::fleet::Host::default()));
    let empty =
        Fleet { host: crate::fleet::Host::default(), server: Vec::new(), notes: Vec::new() };
    let (_, found) = recover::recover(&folder, groups.as_ref(), network.as_ref(), &empty);
    if let Some(groups) = &groups {
        groups.remove_all();
    }
    folder.remove();
    Ok(found.text())
}
