//! This end's threads: connected, started, asked what they have done, joined.
//!
//! In: a plan and a session. Out: a beat to begin stretches with, lanes to read, and why a thread ended
//! before its time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::lanes::{Datagrams, LOOK, Streams, first_datagram, receive_datagrams, receiver, setup};
use super::meter::{Beat, Lane, Stage, Worker};
use super::pace::Pace;
use super::plan::Plan;
use super::run::ask;
use super::tcp_info::TcpInfo;
use super::words::Protocol;
use super::work::Work;
use crate::load::FlowConnection;
use crate::measure::percentiles::Times;
use crate::measure::processors::pin_thread;
use crate::peer::control::{Control, Dial, greet};
use crate::peer::gone::Gone;
use crate::peer::protocol::{BEAT, HEAD_BYTES, Hello, Role, Service};

/// How often the first datagram of a socket is sent until it comes back.
const AGAIN: Duration = Duration::from_millis(150);
/// How long datagrams may take that were under way, or in a socket, when the last was sent.
const DRAIN_MAX: Duration = Duration::from_millis(600);

/// Connections, or sockets of datagrams.
pub(super) enum Connected {
    Tcp(Vec<Arc<TcpStream>>),
    Udp(Vec<UdpSocket>, u64),
}

/// This end's threads.
pub(super) struct Threads {
    pub(super) beat: Arc<Beat>,
    pub(super) lanes: Vec<Arc<Lane>>,
    handles: Vec<JoinHandle<()>>,
    failures: Receiver<Gone>,
    /// Sockets that the server sends to as long as it hears from them, with what they say.
    heard: Vec<(UdpSocket, [u8; HEAD_BYTES])>,
    heard_at: Option<Instant>,
    /// Of TCP.
    streams: Vec<Arc<TcpStream>>,
    /// What TCP knew when the counted time began, and what became of each connection in it.
    from: Vec<TcpInfo>,
    counted: Vec<FlowConnection>,
}

impl Threads {
    /// Makes all connections, or finds out that datagrams come through.
    pub(super) fn connect(
        plan: &Plan,
        dial: Dial<'_>,
        control: &mut Control,
    ) -> Result<Connected, Gone> {
        let count = plan.connections();
        match plan.protocol {
            Protocol::Tcp => {
                let mut streams = Vec::new();
                for _ in 0..count {
                    // The other end hears that this one is there, however long it takes.
                    control.turn()?;
                    if plan.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    streams.push(Arc::new(stream(dial, control.session)?));
                }
                Ok(Connected::Tcp(streams))
            }
            Protocol::Udp => {
                let mut sockets = Vec::new();
                for lane in 0..count {
                    if plan.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    sockets.push(socket(dial, control, (u64::from(lane), plan.is_back))?);
                }
                ask(control, "open\n", "opened", dial.patience())?;
                Ok(Connected::Udp(sockets, control.session))
            }
        }
    }

    /// Starts the threads; they wait for the first stretch.
    pub(super) fn start(plan: &Plan, connected: Connected) -> std::io::Result<Self> {
        let (told, failures) = channel();
        let mut threads = Self {
            beat: Arc::new(Beat::new()),
            lanes: Vec::new(),
            handles: Vec::new(),
            failures,
            heard: heard(plan, &connected)?,
            heard_at: None,
            streams: match &connected {
                Connected::Tcp(streams) => streams.clone(),
                Connected::Udp(..) => Vec::new(),
            },
            from: Vec::new(),
            counted: Vec::new(),
        };
        let parts: Vec<Part> = match connected {
            Connected::Tcp(streams) => {
                let each = usize::try_from(plan.per_thread).unwrap_or(1).max(1);
                streams.chunks(each).map(|it| Part::Tcp(it.to_vec())).collect()
            }
            Connected::Udp(sockets, session) => {
                sockets.into_iter().map(|socket| Part::Udp(socket, session)).collect()
            }
        };
        for ((index, part), core) in parts.into_iter().enumerate().zip(plan.cores()) {
            let lane = Arc::new(Lane::default());
            let worker = Worker::new(threads.beat.clone(), lane.clone());
            let told = told.clone();
            let thread = std::thread::Builder::new().name(format!("flow-{index}"));
            let plan = plan.clone();
            let live = move || {
                let mut worker = worker;
                let pinned = core.map_or(Ok(()), pin_thread);
                let pinned = pinned.map_err(|error| Gone::Network(std::io::Error::other(error)));
                let lived = pinned.and_then(|()| part.live(&plan, &mut worker));
                let is_over = worker.look() == Stage::Over;
                // Whoever asked may have stopped asking.
                let _ = match lived {
                    Err(gone) => told.send(gone),
                    Ok(()) if !is_over => told.send(Gone::Closed),
                    Ok(()) => Ok(()),
                };
            };
            threads.handles.push(thread.spawn(live)?);
            threads.lanes.push(lane);
        }
        Ok(threads)
    }

    /// Says to a server that sends datagrams that this end is there; to be called several times a
    /// second.
    pub(super) fn say_here(&mut self) {
        if self.heard.is_empty() || self.heard_at.is_some_and(|at| at.elapsed() < BEAT) {
            return;
        }
        self.heard_at = Some(Instant::now());
        for (socket, first) in &self.heard {
            // One that is lost is followed by others.
            let _ = socket.send(first);
        }
    }

    /// Waits until nothing more comes.
    pub(super) fn drain(&self) {
        let deadline = Instant::now() + DRAIN_MAX;
        while self.lanes.iter().any(|it| !it.is_idle()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Why a thread has ended before its time, if one has.
    pub(super) fn failure(&self) -> Option<Gone> {
        self.failures.try_recv().ok()
    }

    /// What TCP knows of the connections now; notes it at both ends of the counted time.
    pub(super) fn infos(&mut self, before: Stage, stage: Stage) -> Vec<TcpInfo> {
        let infos: Vec<TcpInfo> =
            self.streams.iter().map(|it| TcpInfo::of(it).unwrap_or_default()).collect();
        if before != stage && stage == Stage::Counted {
            self.from.clone_from(&infos);
        } else if before == Stage::Counted {
            // Also within the counted time: what is known when it ends before its time.
            self.counted =
                infos.iter().zip(&self.from).map(|(now, then)| now.since(then)).collect();
        }
        infos
    }

    /// What became of the connections in the counted time.
    pub(super) fn connections(&mut self) -> Vec<FlowConnection> {
        std::mem::take(&mut self.counted)
    }

    /// How long calls took since this was last asked.
    pub(super) fn take_times(&self) -> Times {
        let mut all = Times::default();
        for lane in &self.lanes {
            all.add(&lane.take_times());
        }
        all
    }

    /// Waits for all threads, which have to have been told that it is over.
    pub(super) fn join(&mut self) {
        for handle in self.handles.drain(..) {
            // A panic ends the process.
            let _ = handle.join();
        }
    }
}

impl Drop for Threads {
    /// A run that ends early leaves nobody sending.
    fn drop(&mut self) {
        self.beat.begin(u32::MAX, Stage::Over);
        self.join();
    }
}

/// A thread's part.
enum Part {
    Tcp(Vec<Arc<TcpStream>>),
    Udp(UdpSocket, u64),
}

impl Part {
    /// Sends or receives until the flow is over.
    fn live(self, plan: &Plan, worker: &mut Worker) -> Result<(), Gone> {
        let rate = plan.rate_of_each(plan.threads());
        let bytes = usize::try_from(plan.bytes).unwrap_or(0);
        match self {
            Self::Tcp(streams) => {
                let mut streams = Streams::new(streams, bytes).map_err(Gone::Network)?;
                if plan.is_back { streams.receive(worker) } else { streams.send(worker, rate) }
            }
            Self::Udp(socket, session) if plan.is_back => {
                let opened = receiver(plan.style, socket, setup(plan.bytes, plan.work));
                let style = plan.style.name();
                let mut receiver =
                    opened.map_err(|error| Gone::Style { flag: "--style", style, error })?;
                let received =
                    receive_datagrams(&mut *receiver, worker, session, Work::of(plan.work));
                received.map_err(Gone::Network)
            }
            Self::Udp(socket, session) => {
                let opened = Datagrams::open(socket, plan.send_style, session, bytes);
                let style = plan.send_style.name();
                let datagrams =
                    opened.map_err(|error| Gone::Style { flag: "--send-style", style, error })?;
                datagrams.send(worker, Pace::new(rate))
            }
        }
    }
}

/// The sockets that say where they are, if the server is to send datagrams to them.
fn heard(
    plan: &Plan,
    connected: &Connected,
) -> std::io::Result<Vec<(UdpSocket, [u8; HEAD_BYTES])>> {
    match connected {
        Connected::Udp(sockets, session) if plan.is_back => (0..)
            .zip(sockets)
            .map(|(lane, it)| Ok((it.try_clone()?, first_datagram(*session, lane, true))))
            .collect(),
        Connected::Udp(..) | Connected::Tcp(_) => Ok(Vec::new()),
    }
}

fn stream(dial: Dial<'_>, session: u64) -> Result<TcpStream, Gone> {
    let stream = dial.connect()?;
    let hello = Hello {
        service: Service::Flow,
        role: Role::Tcp,
        token: None,
        session: Some(session),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    greet(&stream, &hello, dial.patience())?;
    // A flow is written as a plain program writes it: small pieces may go together.
    stream.set_nodelay(false).map_err(Gone::Network)?;
    Ok(stream)
}

/// A socket whose first datagram has come back: so the server knows where this lane's come from, and
/// this end that they come through.
fn socket(
    dial: Dial<'_>,
    control: &mut Control,
    (lane, is_back): (u64, bool),
) -> Result<UdpSocket, Gone> {
    let any: IpAddr = match dial.addr {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(Gone::Network)?;
    let connected = socket.connect(dial.addr);
    connected.map_err(|error| Gone::connecting((dial.addr, dial.timeout), true, error))?;
    socket.set_read_timeout(Some(AGAIN)).map_err(Gone::Network)?;
    socket.set_write_timeout(Some(LOOK)).map_err(Gone::Network)?;
    let first = first_datagram(control.session, lane, is_back);
    let patience = dial.patience();
    let mut answer = [0; 64];
    while !patience.is_up() {
        patience.go_on()?;
        control.turn()?;
        match socket.send(&first).and_then(|_| socket.recv(&mut answer)) {
            Ok(len) if answer[..len] == first => return Ok(socket),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return Err(Gone::PortClosed);
            }
            // Not yet, or something of the network that may pass.
            Ok(_) | Err(_) => {}
        }
    }
    Err(Gone::Swallowed(dial.timeout))
}
