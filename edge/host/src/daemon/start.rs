//! Starting one server, waiting for its end, and taking away what is left then: all in one thread of its
//! own.
//!
//! In: an [`Order`]. Out: events. What a wall needs of the machine (groups, a network) is made here; what
//! concerns the process itself, it does itself (`crate::child`).

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use engine::Namespace;
use engine::walls::{Apart, unshare};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};

use super::Event;
use super::plan::{LOG_BYTES_PER_S, MARK, Plan};
use crate::fleet::Wall;
use crate::groups::Groups;
use crate::logs::{self, Reader};
use crate::net::Network;
use crate::process::{self, Identity};
use crate::sdk::desk::Desk;
use crate::sdk::{Listeners, Open, Sdk};
use crate::state::make_closed;

/// Stack of a server's threads.
pub(super) const STACK_BYTES: usize = 256 << 10;
/// Bytes of what a start that failed has to say.
const REPORT_BYTES_MAX: u64 = 4_096;
/// Time in which a server's processes have to be gone once they were killed.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// What is to be started, and with what.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) index: usize,
    pub(super) round: u64,
    pub(super) plan: Plan,
    pub(super) folder: PathBuf,
    pub(super) hidden: PathBuf,
    pub(super) user: Option<u32>,
    pub(super) groups: Option<Groups>,
    pub(super) network: Option<Network>,
    pub(super) child: Vec<OsString>,
    pub(super) events: Sender<Event>,
    pub(super) sdk: Sdk,
    pub(super) desk: Arc<Desk>,
    /// Where the SDK is to listen for it; 0 is any free port.
    pub(super) doors: (u16, u16),
}

/// A server that has begun.
struct Begun {
    child: Child,
    identity: Identity,
    namespace: Option<Namespace>,
    open: Open,
    doors: (u16, u16),
}

/// A process that can be signalled, and is never mistaken for another one.
#[derive(Clone, Debug)]
pub(crate) struct Alive {
    pub(super) identity: Identity,
    handle: Arc<OwnedFd>,
}

impl Alive {
    /// The process that has this number now; its parent must not have waited for it, or it must be known
    /// to be the one that is meant.
    fn of(pid: u32) -> io::Result<Self> {
        let handle = pidfd_open(number(pid)?, PidfdFlags::empty())?;
        let identity = Identity::of(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { identity, handle: Arc::new(handle) })
    }

    /// Sends a signal; to one that has ended, none.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&*self.handle, signal);
    }
}

fn number(pid: u32) -> io::Result<Pid> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Starts a server and stays until nothing is left of it.
pub(super) fn run(order: &Order) {
    let (index, round) = (order.index, order.round);
    let tell = |event| {
        // A daemon that has ended needs to know nothing.
        let _ = order.events.send(event);
    };
    match order.start() {
        Err(error) => {
            order.sweep(None);
            tell(Event::Refused { index, round, error });
        }
        Ok(Begun { mut child, identity, namespace, open, doors }) => {
            let probe = order.probe(namespace.as_ref()).ok();
            drop(namespace);
            tell(Event::Started { index, round, probe, doors });
            until_ended(&child);
            let used = order.groups.as_ref().map(|it| it.used(&order.plan.name));
            drop(open);
            order.sweep(Some(identity));
            // Only now: while it is not waited for, its number is nobody else's.
            let status = child.wait().ok();
            tell(Event::Exited { index, round, status, used: used.unwrap_or_default() });
        }
    }
}

/// Goes on with a server that an earlier daemon started. A thread waits for its end.
/// Whether the SDK is where the server knows it to be is told with it.
pub(super) fn adopt(
    order: Order,
    identity: Identity,
) -> io::Result<(Alive, Option<UdpSocket>, bool)> {
    let alive = Alive::of(identity.pid)?;
    if alive.identity != identity {
        return Err(io::ErrorKind::NotFound.into());
    }
    order.make_folder()?;
    order.copy_output()?;
    let namespace = match &order.network {
        Some(network) => {
            // The file may say otherwise now than when its link was made.
            network.isolate(order.plan.slot).map_err(io::Error::other)?;
            Some(Namespace::of_process(identity.pid).map_err(io::Error::other)?)
        }
        None => None,
    };
    let probe = order.probe(namespace.as_ref()).ok();
    // A server that does not speak it can go on without.
    let open = order.open(namespace.as_ref()).ok();
    let is_open = open.is_some();
    let handle = Arc::clone(&alive.handle);
    let builder = std::thread::Builder::new().name(format!("s {}", order.plan.name));
    builder.stack_size(STACK_BYTES).spawn(move || {
        let mut ends = [PollFd::new(&*handle, PollFlags::IN)];
        while matches!(poll(&mut ends, None), Err(rustix::io::Errno::INTR)) {}
        let used = order.groups.as_ref().map(|it| it.used(&order.plan.name));
        drop(open);
        order.sweep(Some(identity));
        let (index, round, used) = (order.index, order.round, used.unwrap_or_default());
        let _ = order.events.send(Event::Exited { index, round, status: None, used });
    })?;
    Ok((alive, probe, is_open))
}

impl Order {
    fn start(&self) -> Result<Begun, String> {
        let said = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| format!("{what}: {error}")
        };
        // What an earlier start of it left would be in the way.
        self.sweep(None);
        self.make_folder().map_err(said("its folder"))?;
        logs::make_pipe(&self.folder.join("pipe"), self.user).map_err(said("its pipe"))?;
        let groups = match &self.groups {
            Some(groups) => {
                let (limits, cpu) = (&self.plan.server.limits, &self.plan.server.cpu);
                groups.make(&self.plan.name, limits, cpu).map_err(|error| error.to_string())?
            }
            None => Vec::new(),
        };
        let namespace = match (&self.network, self.plan.address) {
            (Some(network), Some(address)) => {
                let namespace = Namespace::new().map_err(|error| error.to_string())?;
                let attached = network.attach(&namespace, self.plan.slot, address);
                attached.map_err(|error| error.to_string())?;
                Some(namespace)
            }
            _ => None,
        };
        let (open, doors) = self.open(namespace.as_ref()).map_err(said("the SDK's ports"))?;
        let spec = self.plan.spec(&self.folder, &self.hidden, self.user, groups, doors);
        let spec = serde_json::to_vec(&spec).map_err(|error| error.to_string())?;
        let mut child = self.spawn(namespace.as_ref())?;
        let begun = self.begin(&mut child, &spec);
        let identity = match begun {
            Ok((identity, report)) if report.is_empty() => identity,
            Ok((_, report)) => {
                let _ = child.wait();
                return Err(report);
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error.to_string());
            }
        };
        if let Err(error) = self.copy_output() {
            self.sweep(Some(identity));
            let _ = child.wait();
            return Err(said("its output")(error));
        }
        Ok(Begun { child, identity, namespace, open, doors })
    }

    /// Has the SDK listen in the server's network. Where others are in it, too, only the server's user may
    /// come; without root they all are of one.
    fn open(&self, namespace: Option<&Namespace>) -> io::Result<(Open, (u16, u16))> {
        let (grpc, http) = self.doors;
        let listeners = match namespace {
            Some(namespace) => {
                namespace.within(|| Listeners::open(grpc, http)).map_err(io::Error::other)?
            }
            None => Listeners::open(grpc, http),
        }?;
        let doors = listeners.ports()?;
        let user = self.user.filter(|_| namespace.is_none());
        let desk = Arc::clone(&self.desk);
        Ok((self.sdk.open(self.index, self.round, desk, user, listeners), doors))
    }

    /// Its folder, closed to others; and of a server that shares the machine's files the home in it.
    fn make_folder(&self) -> io::Result<()> {
        use std::fs::{Permissions, set_permissions};
        use std::os::unix::fs::{PermissionsExt as _, chown};
        make_closed(&self.folder)?;
        set_permissions(&self.folder, Permissions::from_mode(0o700))?;
        if self.plan.server.wall >= Wall::Files {
            return Ok(());
        }
        let home = self.folder.join("home");
        make_closed(&home)?;
        set_permissions(&home, Permissions::from_mode(0o700))?;
        let Some(user) = self.user else { return Ok(()) };
        chown(&home, Some(user), Some(user))?;
        // The way there: to be passed by this server, not to be read.
        chown(&self.folder, None, Some(user))?;
        set_permissions(&self.folder, Permissions::from_mode(0o710))?;
        for folder in [Some(&*self.hidden), self.folder.parent()].into_iter().flatten() {
            set_permissions(folder, Permissions::from_mode(0o711))?;
        }
        Ok(())
    }

    /// The process, in its walls of network and process ids, which are a thread's to give.
    fn spawn(&self, namespace: Option<&Namespace>) -> Result<Child, String> {
        let spawn = || {
            if let Some(namespace) = namespace {
                namespace.enter().map_err(|error| error.to_string())?;
            }
            if self.plan.server.wall >= Wall::Files {
                let made = unshare(Apart::Processes);
                made.map_err(|error| format!("unshare of process ids: {error}"))?;
            }
            let [program, args @ ..] = &*self.child else { return Err("no program".to_owned()) };
            Command::new(program)
                .args(args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| format!("{}: {error}", program.display()))
        };
        std::thread::scope(|scope| {
            let thread = scope.spawn(spawn);
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Tells the process what to become. What it says before it does: nothing, or why it cannot.
    fn begin(&self, child: &mut Child, spec: &[u8]) -> io::Result<(Identity, String)> {
        let alive = Alive::of(child.id())?;
        let identity = alive.identity;
        let (index, round) = (self.index, self.round);
        let _ = self.events.send(Event::Spawned { index, round, alive });
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(spec)?;
        }
        let mut report = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(REPORT_BYTES_MAX).read_to_end(&mut report)?;
        }
        Ok((identity, String::from_utf8_lossy(&report).into_owned()))
    }

    fn copy_output(&self) -> io::Result<()> {
        let rate = self.plan.server.limits.log.map_or(LOG_BYTES_PER_S, |it| it.0);
        let reader = Reader::open(&self.folder, rate, self.plan.server.ready.log.clone())?;
        let (events, index, round) = (self.events.clone(), self.index, self.round);
        let builder = std::thread::Builder::new().name(format!("l {}", self.plan.name));
        let run = move || {
            reader.run(|noticed| {
                let _ = events.send(Event::Noticed { index, round, noticed });
            });
        };
        builder.stack_size(STACK_BYTES).spawn(run).map(drop)
    }

    /// A socket in the server's network, for its port.
    fn probe(&self, namespace: Option<&Namespace>) -> io::Result<UdpSocket> {
        let port = self.plan.port.ok_or(io::ErrorKind::NotFound)?;
        let address = self.plan.address.unwrap_or(Ipv4Addr::LOCALHOST);
        let open = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect((address, port))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        match namespace {
            Some(namespace) => namespace.within(open).map_err(io::Error::other)?,
            None => open(),
        }
    }

    /// Ends what is left of a server's processes, and takes its groups and its link away. Of one that was
    /// started, with its first process.
    fn sweep(&self, first: Option<Identity>) {
        let (groups, user) = (self.groups.as_ref(), self.user);
        Left { name: &self.plan.name, folder: &self.folder, groups, user, first }.sweep();
        if let Some(network) = &self.network {
            network.detach(self.plan.slot);
        }
    }
}

/// Waits for the end of a process, which has its number still.
fn until_ended(child: &Child) {
    let Ok(pid) = number(child.id()) else { return };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
}

/// What may be left of a server whose first process has ended, or is to end with the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left<'a> {
    pub(super) name: &'a str,
    pub(super) folder: &'a Path,
    pub(super) groups: Option<&'a Groups>,
    pub(super) user: Option<u32>,
    /// Its first process, if one is known.
    pub(super) first: Option<Identity>,
}

impl Left<'_> {
    /// Its processes, by whatever they can be known: a user of its own, groups; without those its session,
    /// and a variable that its processes were given.
    fn processes(&self) -> Vec<u32> {
        let mut left = match self.user {
            Some(user) => process::of_user(user),
            None => process::with_variable(MARK, &self.folder.to_string_lossy()),
        };
        left.extend(self.first.map_or_else(Vec::new, process::of_session));
        left.extend(self.groups.map_or_else(Vec::new, |it| it.pids(self.name)));
        left
    }

    /// Ends all of them, and removes its groups.
    pub(super) fn sweep(&self) {
        let since = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let left = self.processes();
            if left.is_empty() || since.elapsed() > KILL_PATIENCE {
                break;
            }
            if let Some(groups) = self.groups {
                groups.kill(self.name);
            }
            for pid in left {
                if let Ok(pid) = number(pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        if let Some(groups) = self.groups {
            groups.remove(self.name);
        }
    }
}
