//! The server's end of a flow: what a session has asked for, and the threads that receive or send for
//! it.
//!
//! Connections of TCP are lanes of the threads that serve them anyway; each socket that sends datagrams
//! has a socket here, at the same port and connected to it, with a thread. In: lines of a session (see
//! `flow::words`), its connections, the first datagrams of each of its sockets. Out: what was received
//! or sent, stretch by stretch.
//!
//! Bounded: flows at once, threads and sockets (each takes a place of a connection), bytes of a call,
//! processor time burned for each datagram.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::datagram::{Setup, Style};
use socket2::{Domain, Socket, Type};

use super::super::protocol::{Refusal, Reply};
use super::STACK_BYTES;
use super::datagrams::answer_waiting;
use super::state::{FlowPlace, Place, Session, State, held};
use crate::flow::lanes::{Streams, receive_datagrams};
use crate::flow::machine::Machine;
use crate::flow::meter::{Beat, Lane, Stage, Worker, totals};
use crate::flow::plan::{BUFFER_BYTES_MAX, CONNECTIONS_MAX, DATAGRAM_BYTES, WORK_MAX};
use crate::flow::tcp_info::TcpInfo;
use crate::flow::words::{self, Asked, Protocol, Totals};
use crate::flow::work::Work;
use crate::load::FlowConnection;
use crate::measure::processors::{cpus, pin_thread};

/// How long lanes may take to note that a stretch has begun.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long datagrams may take that were under way, or in a socket, when the last was sent.
const DRAIN_MAX: Duration = Duration::from_millis(800);
/// How long a socket may take to be opened in its style.
const OPEN_MAX: Duration = Duration::from_secs(1);
/// Of what a style takes from the kernel at once, at most.
const PIECE_BYTES: usize = 1 << 16;
/// How often it is looked at whether they have come.
const LOOK: Duration = Duration::from_millis(5);

/// What is said to who asks for more than there may be.
const NOT_SOUND: Refusal = Refusal::Asked(
    "a flow has 1 to 512 connections, 16 MiB in a call, 65,507 bytes in a datagram, 1 ms of work for \
     each, and datagrams come to the server alone",
);

/// A flow.
pub(super) struct Flow {
    asked: Asked,
    beat: Arc<Beat>,
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Connections that this end sends on, with what TCP knew when the counted time began, and what
    /// became of them in it.
    senders: Mutex<Vec<SentOn>>,
    /// Where the datagrams of each lane come from.
    peers: Mutex<Vec<Option<SocketAddr>>>,
    /// The last stretch, and whether its stage is another one than before.
    stretch: Mutex<(u32, Stage)>,
    bytes: AtomicU64,
    _place: FlowPlace,
}

struct SentOn {
    stream: Arc<TcpStream>,
    from: TcpInfo,
    counted: Option<FlowConnection>,
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// Answers a line of a session that is a flow's.
pub(super) fn answer(
    stream: &mut TcpStream,
    state: &Arc<State>,
    session: &Session,
    said: &str,
) -> std::io::Result<()> {
    let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
    let answer = match (word, session.flow.get()) {
        ("flow", None) => match ask(state, session, rest) {
            Ok(lanes) => format!("ready lanes={lanes}\n"),
            Err(refusal) => refused(state, session, &refusal),
        },
        ("open", Some(flow)) => match Flow::open(flow, stream.local_addr()?, state, session) {
            Ok(lanes) => format!("opened lanes={lanes}\n"),
            Err(refusal) => refused(state, session, &refusal),
        },
        ("begin", Some(flow)) => match words::read_begin(rest) {
            Some((number, stage)) => flow.begin(number, stage),
            None => return Ok(()),
        },
        ("end", Some(flow)) => flow.finish(),
        // What a newer client says besides can be left out.
        _ => return Ok(()),
    };
    stream.write_all(answer.as_bytes())
}

fn refused(state: &State, session: &Session, refusal: &Refusal) -> String {
    state.count(|it| it.refused_flows += 1);
    state.tell_refusal(refusal.word(), session.peer, &refusal.to_string());
    format!("no {} {refusal}\n", refusal.word())
}

/// Takes what a session asks for, if it may be had. How many lanes it is to have.
fn ask(state: &Arc<State>, session: &Session, line: &str) -> Result<u32, Refusal> {
    let asked = Asked::read(line).ok_or(NOT_SOUND)?;
    let [least, most] = match asked.protocol {
        Protocol::Tcp => [1, BUFFER_BYTES_MAX],
        Protocol::Udp => DATAGRAM_BYTES,
    };
    let is_sound = (1..=CONNECTIONS_MAX).contains(&asked.lanes)
        && (least..=most).contains(&asked.bytes)
        && asked.work <= WORK_MAX
        && !(asked.protocol == Protocol::Udp && asked.is_back);
    if !is_sound {
        return Err(NOT_SOUND);
    }
    let style = asked.style.parse::<Style>();
    if asked.protocol == Protocol::Udp && style.is_err() {
        return Err(Refusal::Service(format!("--style {}", asked.style)));
    }
    if let Some(core) = asked.core.filter(|core| !cpus().contains(core)) {
        return Err(Refusal::Busy(format!("the server may not use processor {core}")));
    }
    let options = &state.options;
    // Its control connection has a place already.
    let most = options.per_address_max.min(options.connections_max).saturating_sub(1);
    if asked.lanes > most {
        return Err(Refusal::Busy(format!(
            "{} connections are too many: one address may have {most} beside the session's \
             (--per-address, --connections)",
            asked.lanes
        )));
    }
    let place = State::flow_place(state).ok_or_else(|| {
        let most = options.flows_max;
        Refusal::Busy(format!("{most} flows at once are the most (--flows): try again later"))
    })?;
    let lanes = asked.lanes;
    let peers = if asked.protocol == Protocol::Udp { lanes } else { 0 };
    let flow = Flow {
        asked,
        beat: Arc::new(Beat::new()),
        lanes: Mutex::default(),
        senders: Mutex::default(),
        peers: Mutex::new(vec![None; usize::try_from(peers).unwrap_or(0)]),
        stretch: Mutex::new((0, Stage::Open)),
        bytes: AtomicU64::new(0),
        _place: place,
    };
    // Another thread cannot have set it: this is the session's.
    let _ = session.flow.set(Arc::new(flow));
    state.count(|it| it.flows += 1);
    Ok(lanes)
}

/// A connection's part of a flow.
pub(super) struct FlowLane {
    flow: Arc<Flow>,
    lane: Arc<Lane>,
}

impl Flow {
    /// A place for one more connection; none of datagrams, and beyond what was asked for.
    pub(super) fn lane(self: &Arc<Self>) -> Option<FlowLane> {
        if self.asked.protocol != Protocol::Tcp {
            return None;
        }
        let lane = self.add_lane()?;
        Some(FlowLane { flow: self.clone(), lane })
    }

    fn add_lane(&self) -> Option<Arc<Lane>> {
        let mut lanes = held(&self.lanes);
        if lanes.len() >= usize::try_from(self.asked.lanes).unwrap_or(0) {
            return None;
        }
        let lane = Arc::new(Lane::default());
        lanes.push(lane.clone());
        Some(lane)
    }

    /// Takes note of where a lane's datagrams come from: of the first that said so.
    pub(super) fn comes_from(&self, lane: u64, peer: SocketAddr) {
        let at = usize::try_from(lane).unwrap_or(usize::MAX);
        if let Some(place) = held(&self.peers).get_mut(at) {
            place.get_or_insert(peer);
        }
    }

    /// Whether anything has come of late.
    pub(super) fn is_moving(&self) -> bool {
        !self.asked.is_back && held(&self.lanes).iter().any(|lane| !lane.is_idle())
    }

    /// Received or sent until now, of lanes that have ended.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends all lanes.
    pub(super) fn end(&self) {
        self.beat.begin(u32::MAX, Stage::Over);
    }

    /// Opens the sockets of all lanes whose first datagrams have come. How many those are.
    fn open(
        flow: &Arc<Self>,
        local: SocketAddr,
        state: &Arc<State>,
        session: &Session,
    ) -> Result<usize, Refusal> {
        let peers = std::mem::take(&mut *held(&flow.peers));
        let system = |what: &str, error: std::io::Error| {
            Refusal::Busy(format!("the server cannot {what}: {error}"))
        };
        let mut count = 0;
        for peer in peers.into_iter().flatten() {
            let Some(place) = State::place(state, peer.ip()) else {
                return Err(Refusal::Busy("too many connections (--per-address)".to_owned()));
            };
            let Some(lane) = flow.add_lane() else { break };
            let socket = connected(local, peer).map_err(|it| system("share its port", it))?;
            answer_waiting(&socket, state);
            socket.set_nonblocking(false).map_err(|it| system("set up a socket", it))?;
            let (opened, is_open) = channel();
            let datagrams = Datagrams {
                flow: flow.clone(),
                lane,
                socket,
                session: session.number,
                state: state.clone(),
                _place: place,
            };
            std::thread::Builder::new()
                .name("flow-datagrams".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || datagrams.receive(&opened))
                .map_err(|it| system("start a thread", it))?;
            // A style may not exist there, or not be permitted: its thread says so.
            is_open
                .recv_timeout(OPEN_MAX)
                .unwrap_or_else(|_| Err("it does not open".to_owned()))
                .map_err(|why| Refusal::Busy(format!("--style {}: {why}", flow.asked.style)))?;
            count += 1;
        }
        Ok(count)
    }

    /// Begins a stretch. What was done until then.
    fn begin(&self, number: u32, stage: Stage) -> String {
        let before = {
            let mut stretch = held(&self.stretch);
            // Whoever counts backwards is told what there is.
            if number <= stretch.0 {
                return self.told(number).line("at", number);
            }
            std::mem::replace(&mut *stretch, (number, stage))
        };
        self.beat.begin(number, stage);
        let is_other = before.1 != stage;
        if is_other {
            self.mark_senders(before.1, stage);
        }
        let machine = if is_other { Machine::read() } else { None };
        Totals { machine, ..self.told(number) }.line("at", number)
    }

    /// Notes what TCP knows at both ends of the counted time.
    fn mark_senders(&self, before: Stage, stage: Stage) {
        for sender in &mut *held(&self.senders) {
            let Some(info) = TcpInfo::of(&sender.stream) else { continue };
            if stage == Stage::Counted {
                sender.from = info;
            } else if before == Stage::Counted {
                sender.counted = Some(info.since(&sender.from));
            }
        }
    }

    /// What was done when a stretch began.
    fn told(&self, number: u32) -> Totals {
        let lanes = held(&self.lanes).clone();
        let mut told = totals(&lanes, number, PATIENCE);
        let infos: Vec<TcpInfo> =
            held(&self.senders).iter().filter_map(|it| TcpInfo::of(&it.stream)).collect();
        told.add_tcp(&infos);
        told
    }

    /// Ends the flow. What was done in all, and what became of each connection that this end sent on.
    fn finish(&self) -> String {
        let lanes = held(&self.lanes).clone();
        let deadline = Instant::now() + DRAIN_MAX;
        let is_drained = self.asked.is_back || self.asked.protocol == Protocol::Tcp;
        while !is_drained && lanes.iter().any(|it| !it.is_idle()) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        let mut lines = String::new();
        for sender in &*held(&self.senders) {
            lines.push_str(&words::connection(&sender.counted.unwrap_or_default()));
        }
        let last = {
            let mut stretch = held(&self.stretch);
            *stretch = (stretch.0.saturating_add(1), Stage::Over);
            stretch.0
        };
        self.beat.begin(last, Stage::Over);
        lines.push_str(&self.told(last).line("ended", last));
        lines
    }

    fn worker(&self, lane: &Arc<Lane>) -> Worker {
        // A processor that has gone since it was asked for is no reason to end.
        let _ = self.asked.core.map(pin_thread);
        Worker::new(self.beat.clone(), lane.clone())
    }

    fn add_bytes(&self, state: &State, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        state.count(|it| it.flow_bytes = it.flow_bytes.saturating_add(bytes));
    }
}

impl FlowLane {
    /// Carries the connection's part until the flow is over.
    pub(super) fn carry(
        self,
        mut stream: TcpStream,
        state: &State,
        session: u64,
    ) -> std::io::Result<()> {
        let flow = &self.flow;
        let bytes = usize::try_from(flow.asked.bytes).unwrap_or(0);
        let Some(_room) = state.room(bytes) else {
            state.count(|it| it.refused_busy += 1);
            let refusal = Refusal::Busy("no memory for so long buffers (-l)".to_owned());
            return stream.write_all(refusal.line().as_bytes());
        };
        stream.write_all(Reply::line(session).as_bytes())?;
        // A flow is written as a plain program writes it: small pieces may go together.
        stream.set_nodelay(false)?;
        let stream = Arc::new(stream);
        if flow.asked.is_back {
            let from = TcpInfo::default();
            let sender = SentOn { stream: stream.clone(), from, counted: None };
            held(&flow.senders).push(sender);
        }
        let mut worker = flow.worker(&self.lane);
        let mut streams = Streams::new(vec![stream], bytes)?;
        // The other end's going away is the session's affair.
        let _ = if flow.asked.is_back {
            streams.send(&mut worker, flow.asked.rate)
        } else {
            streams.receive(&mut worker)
        };
        flow.add_bytes(state, worker.tally.bytes);
        Ok(())
    }
}

/// A lane of datagrams.
struct Datagrams {
    flow: Arc<Flow>,
    lane: Arc<Lane>,
    socket: UdpSocket,
    session: u64,
    state: Arc<State>,
    _place: Place,
}

impl Datagrams {
    fn receive(self, opened: &Sender<Result<(), String>>) {
        let Self { flow, lane, socket, session, state, _place } = self;
        let mut worker = flow.worker(&lane);
        let bytes = usize::try_from(flow.asked.bytes).unwrap_or(0);
        let setup = Setup { datagram_bytes_max: bytes, ..Setup::default() };
        let style: Style = flow.asked.style.parse().unwrap_or(Style::Recv);
        let work = Work::of(flow.asked.work);
        // Styles of many at once have room for so many pieces, which may hold merged ones.
        let is_single = matches!(style, Style::Recv | Style::Epoll);
        let room = state.room(if is_single { bytes } else { setup.batch * PIECE_BYTES });
        // Whoever waits for it may have stopped waiting.
        match style.open(socket, &setup) {
            Ok(_) if room.is_none() => {
                let _ = opened.send(Err("no memory for so many".to_owned()));
            }
            Ok(mut receiver) => {
                let _ = opened.send(Ok(()));
                // What the system says of one lane stands in its counts: it has got nothing more.
                let _ = receive_datagrams(&mut *receiver, &mut worker, session, work);
            }
            Err(error) => {
                let _ = opened.send(Err(error.to_string()));
            }
        }
        flow.add_bytes(&state, worker.tally.bytes);
    }
}

/// A socket at a port that others have too, which gets what comes from one sender alone. Source:
/// socket(7), `SO_REUSEPORT`; of connected sockets the kernel prefers the one whose peer it is.
fn connected(local: SocketAddr, peer: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
    socket.set_reuse_port(true)?;
    socket.bind(&local.into())?;
    socket.connect(&peer.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
