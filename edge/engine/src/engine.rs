//! Threads: how they are planned, started, told to stop, counted and waited for.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use event::{Handler, Now, ThreadId, Urgency};
use polling::Poller;
use reactor::{Companion, Counters, Limits, Plain, Process, Reactor, Scarce};
use socket2::SockRef;

use crate::choice::{DriverChoice, Missing, probe};
use crate::clock::Clock;
use crate::files::connections_by_files;
use crate::mailbox::{Bed, Exchange, Mailbox, Parker, Place, Wake};
use crate::poll::Poll;
use crate::port::Ports;
#[cfg(target_os = "linux")]
use crate::uring::{EventFd, Uring};

/// Mail that a thread's mailbox holds unless its plan says otherwise.
const MAILBOX_MAX: usize = 16_384;

/// What a handler is built from, on its own thread.
pub struct Start {
    /// The thread it runs on.
    pub thread: ThreadId,
    /// The time at the start.
    pub now: Now,
}

/// Builds a handler on its thread, so that it may own what cannot move between threads.
type Build<M> = Box<dyn FnOnce(Start) -> Box<dyn Handler<Mail = M>> + Send>;

/// What kind of thread it is.
pub enum ThreadKind {
    /// Owns sockets and never blocks.
    Core {
        /// What it accepts from, in the order of `ListenerId`; may be empty.
        listeners: Vec<TcpListener>,
        /// Bound sockets for datagrams, in the order of `SocketId`; may be empty.
        sockets: Vec<UdpSocket>,
    },
    /// Owns no socket and may block.
    Plain,
}

impl ThreadKind {
    fn is_core(&self) -> bool {
        matches!(self, Self::Core { .. })
    }
}

/// One thread of an engine.
pub struct ThreadPlan<M> {
    /// Its name, for people and debuggers; systems show 15 bytes of it.
    pub name: String,
    /// What kind it is.
    pub kind: ThreadKind,
    /// The processor it is to run on, counted from 0; `None` for any.
    pub pin: Option<usize>,
    /// Mail it can have waiting; more is refused, and its sender told.
    pub mailbox_max: usize,
    /// Limits of its connections; core threads only.
    pub limits: Limits,
    build: Build<M>,
    /// Threads of the engine that share the process's open files.
    threads_with_sockets: usize,
}

impl<M> ThreadPlan<M> {
    /// A core thread that accepts from `listeners`.
    pub fn core<H, B>(name: impl Into<String>, listeners: Vec<TcpListener>, build: B) -> Self
    where
        H: Handler<Mail = M> + 'static,
        B: FnOnce(Start) -> H + Send + 'static,
    {
        Self::new(name.into(), ThreadKind::Core { listeners, sockets: Vec::new() }, build)
    }

    /// The same core thread with bound sockets for datagrams (see [`crate::bind_udp`]). A plain
    /// thread owns no sockets, and stays as it is.
    #[must_use]
    pub fn with_sockets(mut self, bound: Vec<UdpSocket>) -> Self {
        if let ThreadKind::Core { sockets, .. } = &mut self.kind {
            *sockets = bound;
        }
        self
    }

    /// A plain thread.
    pub fn plain<H, B>(name: impl Into<String>, build: B) -> Self
    where
        H: Handler<Mail = M> + 'static,
        B: FnOnce(Start) -> H + Send + 'static,
    {
        Self::new(name.into(), ThreadKind::Plain, build)
    }

    fn new<H, B>(name: String, kind: ThreadKind, build: B) -> Self
    where
        H: Handler<Mail = M> + 'static,
        B: FnOnce(Start) -> H + Send + 'static,
    {
        let build: Build<M> = Box::new(|start| Box::new(build(start)));
        let limits = Limits::default();
        Self {
            name,
            kind,
            pin: None,
            mailbox_max: MAILBOX_MAX,
            limits,
            build,
            threads_with_sockets: 1,
        }
    }
}

/// A second handler on a core's thread ([`reactor::Companion`]): a thread to all others, with a number
/// and a mailbox of its own.
pub struct CompanionPlan<M> {
    /// Its name, for people; no system shows it.
    pub name: String,
    /// Mail it can have waiting; more is refused, and its sender told.
    pub mailbox_max: usize,
    /// How long it may keep the core in one turn before it begins something else, microseconds. What it
    /// has begun by then it ends.
    pub turn_us: u32,
    build: Build<M>,
}

impl<M> CompanionPlan<M> {
    /// A companion whose turns last for so many microseconds.
    pub fn new<H, B>(name: impl Into<String>, turn_us: u32, build: B) -> Self
    where
        H: Handler<Mail = M> + 'static,
        B: FnOnce(Start) -> H + Send + 'static,
    {
        let build: Build<M> = Box::new(|start| Box::new(build(start)));
        Self { name: name.into(), mailbox_max: MAILBOX_MAX, turn_us, build }
    }
}

/// A companion on its way to its thread.
struct Passenger<M> {
    me: ThreadId,
    turn_us: u32,
    build: Build<M>,
}

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `--driver uring` on a machine that has not what it needs.
    #[error("the driver uring was asked for, but {0}")]
    Missing(#[source] Missing),
    /// More threads than can be numbered.
    #[error("{threads} threads are too many: at most {} can be numbered", u16::MAX)]
    Threads {
        /// How many were planned.
        threads: usize,
    },
    /// The system refused something that a thread needs.
    #[error("cannot start thread {name}: {error}")]
    Thread {
        /// The thread's name.
        name: String,
        /// What the system said.
        error: io::Error,
    },
}

/// A thread came to a bad end.
#[derive(Debug, thiserror::Error)]
pub enum ThreadFailed {
    /// Its driver failed.
    #[error("thread {name} failed: {error}")]
    Driver {
        /// The thread's name.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// It panicked; the message is in the log.
    #[error("thread {name} panicked")]
    Panicked {
        /// The thread's name.
        name: String,
    },
}

/// Threads that share one type of mail, before they run.
pub struct Engine<M> {
    choice: DriverChoice,
    plans: Vec<Plan<M>>,
}

/// What has a number in an engine.
enum Plan<M> {
    Thread(ThreadPlan<M>),
    /// With the thread that hosts it.
    Companion(ThreadId, CompanionPlan<M>),
}

impl<M: Send + 'static> Engine<M> {
    /// An engine without threads.
    #[must_use]
    pub fn new(choice: DriverChoice) -> Self {
        Self { choice, plans: Vec::new() }
    }

    /// Adds a thread. Ids count up from 0; the 65,536th cannot be started.
    pub fn add(&mut self, plan: ThreadPlan<M>) -> ThreadId {
        self.number(Plan::Thread(plan))
    }

    /// Adds a second handler to a core's thread. It is numbered as threads are.
    ///
    /// # Panics
    /// `core` is no core's thread, or has a companion already.
    pub fn add_companion(&mut self, core: ThreadId, plan: CompanionPlan<M>) -> ThreadId {
        let host = self.plans.get(usize::from(core.0));
        let is_core = matches!(host, Some(Plan::Thread(host)) if host.kind.is_core());
        assert!(is_core, "thread {} has no turns to share", core.0);
        let is_second = |plan: &Plan<M>| matches!(plan, Plan::Companion(of, _) if *of == core);
        assert!(!self.plans.iter().any(is_second), "thread {} has a companion", core.0);
        self.number(Plan::Companion(core, plan))
    }

    fn number(&mut self, plan: Plan<M>) -> ThreadId {
        let id = u16::try_from(self.plans.len()).unwrap_or(u16::MAX);
        self.plans.push(plan);
        ThreadId(id)
    }

    /// Starts all threads, and logs which driver was taken and why.
    ///
    /// # Errors
    /// When the driver that was asked for is not to be had, or the system refuses a thread, a ring
    /// or a poller; threads that were started before are stopped again.
    pub fn start(self) -> Result<Running<M>, StartError> {
        if self.plans.len() > usize::from(u16::MAX) {
            return Err(StartError::Threads { threads: self.plans.len() });
        }
        let driver = choose(self.choice)?;
        let clock = Clock::start();
        let mut boxes = Vec::with_capacity(self.plans.len());
        let mut hosts: Vec<Host<M>> = Vec::with_capacity(self.plans.len());
        let mut threads = Vec::with_capacity(self.plans.len());
        for (id, plan) in (0..).map(ThreadId).zip(self.plans) {
            let (host, thread) = match plan {
                Plan::Thread(plan) => {
                    let sleeper = Sleeper::new(&plan, driver)
                        .map_err(|error| StartError::Thread { name: plan.name.clone(), error })?;
                    boxes.push(Mailbox::new(plan.mailbox_max, sleeper.waker()));
                    let name = plan.name.clone();
                    hosts.push(Host { me: id, plan, sleeper, passenger: None });
                    (id, name)
                }
                Plan::Companion(core, CompanionPlan { name, mailbox_max, turn_us, build }) => {
                    let host = hosts.iter_mut().find(|host| host.me == core);
                    let Some(host) = host else { unreachable!("looked at when it was added") };
                    boxes.push(Mailbox::new(mailbox_max, host.sleeper.waker()));
                    host.passenger = Some(Passenger { me: id, turn_us, build });
                    (core, name)
                }
            };
            threads.push(Thread { name: thread, host, handle: None });
        }
        let exchange = Arc::new(Exchange { boxes });
        let mut running = Running { driver, exchange: exchange.clone(), threads };
        let cores = hosts.iter().filter(|host| host.plan.kind.is_core()).count();
        for mut host in hosts {
            host.plan.threads_with_sockets = cores;
            let home = Home { exchange: exchange.clone(), clock };
            let (id, name) = (host.me, host.plan.name.clone());
            match spawn(host, home) {
                Ok(handle) => running.threads[usize::from(id.0)].handle = Some(handle),
                Err(error) => {
                    running.stop();
                    return Err(StartError::Thread { name, error });
                }
            }
        }
        Ok(running)
    }
}

/// Takes the ring where that is possible and wished, and says so.
fn choose(choice: DriverChoice) -> Result<DriverChoice, StartError> {
    let driver = match (choice, probe()) {
        (DriverChoice::Poll, _) => {
            tracing::info!(driver = "poll", "readiness polling was asked for");
            DriverChoice::Poll
        }
        (DriverChoice::Auto | DriverChoice::Uring, Ok(())) => {
            tracing::info!(driver = "uring", "the kernel has what the ring needs");
            DriverChoice::Uring
        }
        (DriverChoice::Auto, Err(missing)) => {
            tracing::info!(driver = "poll", %missing, "readiness polling instead of the ring");
            DriverChoice::Poll
        }
        (DriverChoice::Uring, Err(missing)) => return Err(StartError::Missing(missing)),
    };
    Ok(driver)
}

/// What a thread sleeps on; made before any thread runs, so that all can wake all.
enum Sleeper {
    #[cfg(target_os = "linux")]
    Ring(Arc<EventFd>),
    Poller(Arc<Poller>),
    Parker(Arc<Parker>),
}

impl Sleeper {
    fn new<M>(plan: &ThreadPlan<M>, driver: DriverChoice) -> io::Result<Self> {
        match (&plan.kind, driver) {
            (ThreadKind::Plain, _) => Ok(Self::Parker(Arc::default())),
            #[cfg(target_os = "linux")]
            (ThreadKind::Core { .. }, DriverChoice::Uring) => {
                Ok(Self::Ring(Arc::new(EventFd::new()?)))
            }
            (ThreadKind::Core { .. }, _) => Ok(Self::Poller(Arc::new(Poller::new()?))),
        }
    }

    /// What wakes the thread, for each of its mailboxes.
    fn waker(&self) -> Box<dyn Wake> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Ring(eventfd) => Box::new(eventfd.clone()),
            Self::Poller(poller) => Box::new(poller.clone()),
            Self::Parker(parker) => Box::new(parker.clone()),
        }
    }
}

/// A thread that is about to be started.
struct Host<M> {
    me: ThreadId,
    plan: ThreadPlan<M>,
    sleeper: Sleeper,
    passenger: Option<Passenger<M>>,
}

/// Where in the process a thread belongs.
struct Home<M> {
    exchange: Arc<Exchange<M>>,
    clock: Clock,
}

/// Starts one thread and waits until it has what it needs of the system.
fn spawn<M: Send + 'static>(
    host: Host<M>,
    home: Home<M>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let (ready, is_ready) = mpsc::sync_channel(1);
    let name = host.plan.name.clone();
    let handle = std::thread::Builder::new().name(name).spawn(move || {
        pin(&host.plan);
        let result = run(host, home, &ready);
        if let Err(error) = &result {
            tracing::error!(%error, "a thread failed");
        }
        result
    })?;
    if is_ready.recv().is_err() {
        // It ended before it was ready: the reason is what it returns.
        let ended = handle.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        return Err(ended.err().unwrap_or_else(|| io::Error::other("it ended at once")));
    }
    Ok(handle)
}

fn run<M: Send + 'static>(host: Host<M>, home: Home<M>, ready: &SyncSender<()>) -> io::Result<()> {
    let Host { me, plan, sleeper, passenger } = host;
    let clock = home.clock;
    let start = Start { thread: me, now: clock.now() };
    let process: Rc<dyn Process<M>> = Rc::new(Place::new(home.exchange.clone(), me));
    let (listeners, sockets) = match plan.kind {
        ThreadKind::Core { listeners, sockets } => (listeners, sockets),
        ThreadKind::Plain => (Vec::new(), Vec::new()),
    };
    let ports = u16::try_from(sockets.len()).map_err(io::Error::other)?;
    for listener in &listeners {
        // Connections inherit it (tcp(7)).
        SockRef::from(listener).set_tcp_nodelay(true)?;
    }
    let build = |start| {
        // The receiver waits for this and nothing else.
        let _ = ready.send(());
        (plan.build)(start)
    };
    let mut limits = plan.limits;
    match sleeper {
        Sleeper::Parker(parker) => {
            let mut plain = Plain::new(process, Rc::new(Bed { parker, clock }));
            plain.run(build(start));
            Ok(())
        }
        Sleeper::Poller(poller) => {
            let driver = Poll::new(poller, listeners, Ports::open(sockets)?, &limits, clock)?;
            let files = connections_by_files(plan.threads_with_sockets);
            limits.connections_max = limits.connections_max.min(files);
            let bounded_by = scarce(&plan.limits, &limits);
            let handler = build(start);
            let companion = passenger.map(|passenger| board(passenger, &home));
            let reactor = Reactor::new(handler, clock.now(), limits, bounded_by, process);
            reactor::run(reactor.with_sockets(ports).with_companion(companion), driver)
        }
        #[cfg(target_os = "linux")]
        Sleeper::Ring(eventfd) => {
            let driver = Uring::new(eventfd, listeners, Ports::open(sockets)?, &mut limits, clock)?;
            let bounded_by = scarce(&plan.limits, &limits);
            let handler = build(start);
            let companion = passenger.map(|passenger| board(passenger, &home));
            let reactor = Reactor::new(handler, clock.now(), limits, bounded_by, process);
            reactor::run(reactor.with_sockets(ports).with_companion(companion), driver)
        }
    }
}

/// Builds a companion on the thread of its core.
fn board<M: Send + 'static>(passenger: Passenger<M>, home: &Home<M>) -> Companion<M> {
    let Passenger { me, turn_us, build } = passenger;
    let Home { exchange, clock } = home;
    let handler = build(Start { thread: me, now: clock.now() });
    let process = Rc::new(Place::new(exchange.clone(), me));
    let bed = Bed { parker: Arc::default(), clock: *clock };
    Companion::new(handler, process, Rc::new(bed), u64::from(turn_us) * 1_000)
}

/// What bounds the connections of a thread that may have fewer than were wished for.
fn scarce(wished: &Limits, given: &Limits) -> Scarce {
    if given.connections_max < wished.connections_max { Scarce::Files } else { Scarce::Connections }
}

/// Binds the calling thread to its processor, where the system can; a failure costs speed only.
#[cfg(target_os = "linux")]
fn pin<M>(plan: &ThreadPlan<M>) {
    let Some(cpu) = plan.pin else { return };
    let mut set = rustix::thread::CpuSet::new();
    let result = if cpu < rustix::thread::CpuSet::MAX_CPU {
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set)
    } else {
        Err(rustix::io::Errno::INVAL)
    };
    if let Err(error) = result {
        tracing::warn!(thread = plan.name, cpu, %error, "cannot pin a thread to its processor");
    }
}

#[cfg(not(target_os = "linux"))]
fn pin<M>(plan: &ThreadPlan<M>) {
    if plan.pin.is_some() {
        tracing::warn!(thread = plan.name, "threads cannot be pinned on this system");
    }
}

/// What has a number: a thread, or a companion.
struct Thread {
    name: String,
    /// The thread that it runs on: itself, or its core's.
    host: ThreadId,
    /// Until it has been waited for; a companion is not waited for by itself.
    handle: Option<JoinHandle<io::Result<()>>>,
}

/// What one thread has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCounters {
    /// The thread.
    pub thread: ThreadId,
    /// Its name.
    pub name: String,
    /// Its counters as of its last turn.
    pub counters: Counters,
    /// Mail that waits in its mailbox now.
    pub mail_waiting: usize,
    /// Mail that its mailbox holds at most.
    pub mailbox_max: usize,
}

/// An engine whose threads run. Dropping it stops nothing: the threads go on.
pub struct Running<M> {
    driver: DriverChoice,
    exchange: Arc<Exchange<M>>,
    threads: Vec<Thread>,
}

impl<M: Send + 'static> Running<M> {
    /// Which driver the core threads run on: never `Auto`.
    #[must_use]
    pub fn driver(&self) -> DriverChoice {
        self.driver
    }

    /// Gives every thread `Input::Stop`. Each ends when its handler says so; a companion is told when its
    /// core has ended.
    pub fn stop(&self) {
        for mailbox in &self.exchange.boxes {
            mailbox.stop();
        }
    }

    /// Gives one thread `Input::Stop`, for stopping in an order. Companions end with their cores.
    pub fn stop_thread(&self, thread: ThreadId) {
        if let Some(mailbox) = self.exchange.mailbox(thread) {
            mailbox.stop();
        }
    }

    /// Whether a thread has ended, well or badly. A thread that was never there has.
    #[must_use]
    pub fn is_finished(&self, thread: ThreadId) -> bool {
        let host = self.threads.get(usize::from(thread.0)).map(|thread| thread.host);
        let host = host.and_then(|host| self.threads.get(usize::from(host.0)));
        let handle = host.and_then(|host| host.handle.as_ref());
        handle.is_none_or(JoinHandle::is_finished)
    }

    /// Posts mail from outside the engine's threads, and wakes the receiver.
    ///
    /// # Errors
    /// Gives the mail back when the mailbox is full or its thread has ended.
    pub fn post(&self, to: ThreadId, mail: M) -> Result<(), M> {
        let Some(mailbox) = self.exchange.mailbox(to) else { return Err(mail) };
        mailbox.post(mail, Urgency::Wake)?;
        mailbox.wake();
        Ok(())
    }

    /// What every thread has counted.
    #[must_use]
    pub fn counters(&self) -> Vec<ThreadCounters> {
        let threads = (0..).zip(self.threads.iter().zip(&self.exchange.boxes));
        threads
            .map(|(id, (thread, mailbox))| ThreadCounters {
                thread: ThreadId(id),
                name: thread.name.clone(),
                counters: mailbox.counters(),
                mail_waiting: mailbox.len(),
                mailbox_max: mailbox.capacity(),
            })
            .collect()
    }

    /// Waits until all threads have ended; does not ask them to.
    ///
    /// # Errors
    /// The first thread, by number, that came to a bad end.
    pub fn join(mut self) -> Result<(), ThreadFailed> {
        self.wait()
    }

    /// As [`Self::join`], and what the threads have counted can be asked for afterwards.
    ///
    /// # Errors
    /// The first thread, by number, that came to a bad end.
    pub fn wait(&mut self) -> Result<(), ThreadFailed> {
        let mut first = Ok(());
        for thread in &mut self.threads {
            let Some(handle) = thread.handle.take() else { continue };
            let name = thread.name.clone();
            let ended = match handle.join() {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => ThreadFailed::Driver { name, error },
                Err(_) => ThreadFailed::Panicked { name },
            };
            if first.is_ok() {
                first = Err(ended);
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use event::{Handler, Input, Now, Output};
    use reactor::{Limits, Scarce};

    use super::{Engine, StartError, ThreadPlan, scarce};
    use crate::choice::DriverChoice;

    struct Nobody;

    impl Handler for Nobody {
        type Mail = ();

        fn handle(&mut self, _: Now, _: Input<'_, ()>, _: &mut Output<()>) {}
    }

    #[test]
    fn more_threads_than_have_numbers_are_refused() {
        let mut engine = Engine::new(DriverChoice::Poll);
        let last = (0..65_536).map(|_| engine.add(ThreadPlan::plain("", |_| Nobody))).last();
        assert_eq!(last.map(|id| id.0), Some(u16::MAX));
        let started = engine.start().map(|_| ());
        assert!(matches!(started, Err(StartError::Threads { threads: 65_536 })), "{started:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_processor_that_cannot_be_is_no_reason_to_fail() {
        let mut plan = ThreadPlan::plain("", |_| Nobody);
        plan.pin = Some(rustix::thread::CpuSet::MAX_CPU);
        super::pin(&plan);
    }

    #[test]
    fn files_are_scarce_when_fewer_connections_are_given_than_wished_for() {
        let limits = |connections_max| Limits { connections_max, ..Limits::default() };
        for (wished, given, are_files) in [(7, 6, true), (7, 7, false), (7, 8, false)] {
            let bounded_by = scarce(&limits(wished), &limits(given));
            assert_eq!(matches!(bounded_by, Scarce::Files), are_files, "{given} of {wished}");
        }
    }
}
