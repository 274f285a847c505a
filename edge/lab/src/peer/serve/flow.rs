//! The server's end of a flow: what a session has asked for, and the threads that receive or send for
//! it.
//!
//! Connections of TCP are lanes of the threads that serve them anyway; each socket that sends datagrams
//! has a socket here, at the same port and connected to it, with a thread. In: lines of a session (see
//! `flow::words`), its connections, the first datagrams of each of its sockets. Out: what was received
//! or sent, stretch by stretch.
//!
//! Bounded: flows at once, in all and of one client; how long one may take to begin, and carry nothing;
//! threads and sockets (each takes a place of a connection); bytes of a call, and in memory; processor
//! time burned for each datagram, behind everybody else's and not on every processor; the processors that
//! senders of small pieces may have, all but one; datagrams a second, as bits on a wire.

mod ask;
mod datagrams;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use self::ask::ask;
use self::datagrams::{Datagrams, connected};
use super::super::protocol::{Refusal, Reply};
use super::STACK_BYTES;
use super::connection::IDLE_MAX;
use super::datagrams::answer_waiting;
use super::shares::Share;
use super::state::{Session, State, held};
use crate::flow::lanes::{Streams, lane_of};
use crate::flow::machine::Machine;
use crate::flow::meter::{Beat, Lane, Stage, Worker, totals};
use crate::flow::pace::Pace;
use crate::flow::plan::BACK_MAX;
use crate::flow::tcp_info::TcpInfo;
use crate::flow::words::{self, Asked, Protocol, Totals};
use crate::flow::work::Work;
use crate::load::FlowConnection;
use crate::measure::processors::{give_way, leave_one, pin_thread};

/// How long a flow may take to begin when it has been asked for, and besides for each of its connections
/// or sockets, which are made one after the other over a path that may be long.
const BEGIN_MAX: Duration = Duration::from_secs(5);
const BEGIN_EACH: Duration = Duration::from_millis(250);
/// How long lanes may take to note that a stretch has begun.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long datagrams may take that were under way, or in a socket, when the last was sent.
const DRAIN_MAX: Duration = Duration::from_millis(800);
/// How long a socket may take to be opened in its style.
const OPEN_MAX: Duration = Duration::from_secs(1);
/// How often it is looked at whether they have come.
const LOOK: Duration = Duration::from_millis(5);

/// What is said to who goes on with a flow that has ended.
const OVER: Refusal = Refusal::Asked("the flow has ended: open a session for another");

/// A flow.
pub(super) struct Flow {
    asked: Asked,
    /// Of each lane of datagrams that this end sends.
    pace: Pace,
    /// For each datagram that this end receives. Found out once, by a thread that gives way to nobody.
    work: Work,
    beat: Arc<Beat>,
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Connections that this end sends on, with what TCP knew when the counted time began, and what
    /// became of them in it.
    senders: Mutex<Vec<SentOn>>,
    /// Where the datagrams of each lane come from, and when the last one did.
    peers: Mutex<Vec<Option<(SocketAddr, Instant)>>>,
    /// The last stretch, and whether its stage is another one than before.
    stretch: Mutex<(u32, Stage)>,
    bytes: AtomicU64,
    /// Whose it is.
    peer: IpAddr,
    asked_at: Instant,
    begun_at: OnceLock<Instant>,
    /// When it was last seen to carry anything.
    moved_at: Mutex<Instant>,
    /// Its place among all flows, until it has ended.
    place: Mutex<Option<Share>>,
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
            Ok(ready) => ready,
            Err(refusal) => refused(state, session, &refusal),
        },
        ("open", Some(flow)) => match Flow::open(flow, stream.local_addr()?, state, session) {
            Ok(lanes) => format!("opened lanes={lanes}\n"),
            Err(refusal) => refused(state, session, &refusal),
        },
        ("begin", Some(flow)) => match words::read_begin(rest) {
            Some((number, stage @ (Stage::WarmUp | Stage::Counted | Stage::CoolDown))) => {
                flow.begin(number, stage)
            }
            // Neither says that anything is sent.
            Some((_, Stage::Open | Stage::Over)) | None => return Ok(()),
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
    pub(super) fn comes_from(&self, number: u64, peer: SocketAddr) {
        let at = usize::try_from(lane_of(number)).unwrap_or(usize::MAX);
        if let Some(place) = held(&self.peers).get_mut(at) {
            let known = place.get_or_insert((peer, Instant::now()));
            if known.0 == peer {
                known.1 = Instant::now();
            }
        }
    }

    /// Whether anything has come of late.
    pub(super) fn is_moving(&self) -> bool {
        !self.asked.is_back && held(&self.lanes).iter().any(|lane| !lane.is_idle())
    }

    /// Why the server ends it, if it does: it keeps others from a place and does nothing with it.
    pub(super) fn overdue(&self) -> Option<String> {
        let stage = held(&self.stretch).1;
        match stage {
            Stage::Open => {
                let most = BEGIN_MAX + BEGIN_EACH * self.asked.lanes;
                let is_late = self.asked_at.elapsed() > most;
                is_late.then(|| format!("the flow did not begin within {} s", most.as_secs_f32()))
            }
            Stage::WarmUp | Stage::Counted | Stage::CoolDown => {
                let is_bounded = self.asked.protocol == Protocol::Udp && self.asked.is_back;
                let is_long = |it: &Instant| it.elapsed() > BACK_MAX + PATIENCE + DRAIN_MAX;
                if is_bounded && self.begun_at.get().is_some_and(is_long) {
                    let most = BACK_MAX.as_secs() / 60;
                    return Some(format!("the server sends datagrams for {most} min at most"));
                }
                let mut moved_at = held(&self.moved_at);
                if held(&self.lanes).iter().any(|lane| !lane.is_idle()) {
                    *moved_at = Instant::now();
                }
                let is_late = moved_at.elapsed() > IDLE_MAX;
                is_late.then(|| format!("the flow carried nothing for {} s", IDLE_MAX.as_secs()))
            }
            Stage::Over => None,
        }
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
        if held(&flow.stretch).1 == Stage::Over {
            return Err(OVER);
        }
        let peers = std::mem::take(&mut *held(&flow.peers));
        let system = |what: &str, error: std::io::Error| {
            Refusal::Busy(format!("the server cannot {what}: {error}"))
        };
        let mut count = 0;
        for (peer, heard_at) in peers.into_iter().flatten() {
            let Some(place) = state.place(peer.ip()) else {
                return Err(Refusal::Busy("too many connections (--per-address)".to_owned()));
            };
            let Some(lane) = flow.add_lane() else { break };
            let socket = connected(local, peer).map_err(|it| system("share its port", it))?;
            answer_waiting(&socket, state);
            socket.set_nonblocking(false).map_err(|it| system("set up a socket", it))?;
            let timeout = socket.set_write_timeout(Some(super::LOOK));
            timeout.map_err(|it| system("set up a socket", it))?;
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
                .spawn(move || datagrams.carry(&opened, heard_at))
                .map_err(|it| system("start a thread", it))?;
            // A style may not exist there, or not be permitted: its thread says so.
            is_open
                .recv_timeout(OPEN_MAX)
                .unwrap_or_else(|_| Err("a socket does not open in its style".to_owned()))
                .map_err(Refusal::Busy)?;
            count += 1;
        }
        Ok(count)
    }

    /// Begins a stretch. What was done until then.
    fn begin(&self, number: u32, stage: Stage) -> String {
        let before = {
            let mut stretch = held(&self.stretch);
            // Whoever counts backwards, or goes on behind the end, is told what there is.
            if number <= stretch.0 || stretch.1 == Stage::Over {
                return self.told(number).line("at", number);
            }
            std::mem::replace(&mut *stretch, (number, stage))
        };
        if before.1 == Stage::Open {
            let _ = self.begun_at.set(Instant::now());
            *held(&self.moved_at) = Instant::now();
        }
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
        // Its place is somebody else's from now on, however long its session lasts.
        drop(held(&self.place).take());
        lines.push_str(&self.told(last).line("ended", last));
        lines
    }

    fn worker(&self, lane: &Arc<Lane>) -> Worker {
        // Whoever burns time on behalf of a stranger does it behind all others.
        if self.asked.burns() {
            give_way();
        }
        // Small pieces take all the processors that they get: one is left to those who ping.
        if self.asked.sends_small() {
            leave_one();
        }
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
        // The lane's end is told however this ends.
        let mut worker = flow.worker(&self.lane);
        let bytes = usize::try_from(flow.asked.bytes).unwrap_or(0);
        let Ok(_room) = state.room(flow.peer, bytes) else {
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
