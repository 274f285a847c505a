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

use super::lanes::{Datagrams, LOOK, Streams};
use super::meter::{Beat, Lane, Stage, Worker};
use super::plan::Plan;
use super::run::ask;
use super::tcp_info::TcpInfo;
use super::words::Protocol;
use crate::load::FlowConnection;
use crate::measure::percentiles::Times;
use crate::measure::processors::pin_thread;
use crate::peer::control::{Control, Dial, greet};
use crate::peer::gone::Gone;
use crate::peer::protocol::{Hello, Role, Service, datagram_head, read_datagram};

/// How often the first datagram of a socket is sent until it comes back.
const AGAIN: Duration = Duration::from_millis(150);

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
                    sockets.push(socket(dial, control, u64::from(lane))?);
                }
                ask(control, "open\n", "opened", plan.timeout)?;
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
            streams: match &connected {
                Connected::Tcp(streams) => streams.clone(),
                Connected::Udp(..) => Vec::new(),
            },
            from: Vec::new(),
            counted: Vec::new(),
        };
        let rate = plan.rate_of_each(plan.threads());
        let (bytes, is_back) = (usize::try_from(plan.bytes).unwrap_or(0), plan.is_back);
        let parts: Vec<Part> = match connected {
            Connected::Tcp(streams) => {
                let each = usize::try_from(plan.per_thread).unwrap_or(1).max(1);
                streams.chunks(each).map(|it| Part::Tcp(it.to_vec())).collect()
            }
            Connected::Udp(sockets, session) => sockets
                .into_iter()
                .map(|socket| {
                    Part::Udp(Datagrams { socket, style: plan.send_style, session, bytes })
                })
                .collect(),
        };
        for ((index, part), core) in parts.into_iter().enumerate().zip(plan.cores()) {
            let lane = Arc::new(Lane::default());
            let worker = Worker::new(threads.beat.clone(), lane.clone());
            let told = told.clone();
            let thread = std::thread::Builder::new().name(format!("flow-{index}"));
            let live = move || {
                let mut worker = worker;
                let pinned = core.map_or(Ok(()), pin_thread);
                let pinned = pinned.map_err(|error| Gone::Network(std::io::Error::other(error)));
                let lived = pinned.and_then(|()| match part {
                    Part::Tcp(streams) => {
                        let mut streams = Streams::new(streams, bytes).map_err(Gone::Network)?;
                        if is_back {
                            streams.receive(&mut worker)
                        } else {
                            streams.send(&mut worker, rate)
                        }
                    }
                    Part::Udp(datagrams) => datagrams.send(&mut worker, rate),
                });
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
    Udp(Datagrams),
}

fn stream(dial: Dial<'_>, session: u64) -> Result<TcpStream, Gone> {
    let mut stream = dial.connect()?;
    let hello = Hello {
        service: Service::Flow,
        role: Role::Tcp,
        token: None,
        session: Some(session),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    greet(&mut stream, &hello, dial.timeout)?;
    // A flow is written as a plain program writes it: small pieces may go together.
    stream.set_nodelay(false).map_err(Gone::Network)?;
    Ok(stream)
}

/// A socket whose first datagram has come back: so the server knows where this lane's come from, and
/// this end that they come through.
fn socket(dial: Dial<'_>, control: &mut Control, lane: u64) -> Result<UdpSocket, Gone> {
    let any: IpAddr = match dial.addr {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(Gone::Network)?;
    let connected = socket.connect(dial.addr);
    connected.map_err(|error| Gone::connecting((dial.addr, dial.timeout), true, error))?;
    socket.set_read_timeout(Some(AGAIN)).map_err(Gone::Network)?;
    socket.set_write_timeout(Some(LOOK)).map_err(Gone::Network)?;
    let head = datagram_head(control.session, lane);
    let deadline = Instant::now() + dial.timeout;
    let mut answer = [0; 64];
    while Instant::now() < deadline {
        control.turn()?;
        match socket.send(&head).and_then(|_| socket.recv(&mut answer)) {
            Ok(len) if read_datagram(&answer[..len]) == Some((control.session, lane)) => {
                return Ok(socket);
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return Err(Gone::PortClosed);
            }
            // Not yet, or something of the network that may pass.
            Ok(_) | Err(_) => {}
        }
    }
    Err(Gone::Swallowed(dial.timeout))
}
