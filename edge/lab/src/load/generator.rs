//! The generator: a handler that is many virtual players.
//!
//! In: what the engine tells of connections and time. Out: requests and frames, and once a second
//! a [`Record`] to the main thread. It never blocks: when the main thread does not keep up, the
//! record goes on growing and is handed over later.
//!
//! Split by concern: `schedule` decides when what begins and ends, `missed` counts what should have
//! begun and did not, `rows` says who has which row of a data file, `steps` does the steps of a session, `tls` seals what is sent and opens what comes, `http` and `socket` read what comes back.

mod http;
pub(crate) mod inbox;
mod missed;
pub(crate) mod player;
mod rows;
mod schedule;
mod socket;
mod source;
mod steps;
#[cfg(test)]
mod tests;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Instant;

pub(crate) use rows::Share;
use schedule::Ending;
pub(crate) use source::Source;
pub(crate) use tls::TlsClient;

use rustls::pki_types::ServerName;

use event::{CloseReason, ConnId, ConnectFailure, Handler, Input, Now, Output, Random, Timers};
use wire::http1::{Limits, ResponseDecoder};

use crate::load::generator::player::{Doing, Link, Player};
use crate::load::record::kind::{Cause, Kind};
use crate::load::record::{ERROR_KINDS_MAX, NO_OP, Record, STOPPED, Stage, short};
use crate::load::scenario::mark::SENDER_MASK;
use crate::load::scenario::program::Program;
use crate::load::scenario::{OnError, Phase};

/// Connections that are being made at once, and players that prepare themselves at once when they
/// come without a ramp.
pub(crate) const CONNECTS_MAX: u32 = 256;
/// Virtual players of one thread, at most.
pub(crate) const PLAYERS_MAX: u32 = 1 << 20;
/// How long a run goes on in which not a single player gets ready.
const GIVE_UP_NS: u64 = 10_000_000_000;
/// How long players that are not ready may hold up the counted time, after the ramp and after the
/// last one that did become ready.
const RAMP_PATIENCE_NS: u64 = 60_000_000_000;
/// How long a player waits before it begins again after a failure.
const RESTART_NS: u64 = 1_000_000_000;
/// How long a player waits before it connects again within its loop.
const RECONNECT_NS: u64 = 100_000_000;
/// Why players are not ready beyond [`ERROR_KINDS_MAX`] reasons.
const OTHER_REASONS: &str = "other reasons";
const CONNECT_TIMED_OUT: Kind = Kind::of(Cause::ConnectTimedOut, "connect: timed out");
const HANDSHAKE_TIMED_OUT: Kind = Kind::of(Cause::TlsTimedOut, "TLS: handshake timed out");
const CLOSED_IN_HANDSHAKE: Kind =
    Kind::of(Cause::TlsClosed, "TLS: connection closed within the handshake");
const CLOSED: Kind = Kind::of(Cause::Closed, "connection closed by the server");
/// What one answer may have.
const ANSWER_LIMITS: Limits =
    Limits { head_bytes_max: 16 << 10, headers_max: 64, body_bytes_max: 4 << 20 };

/// What the main thread may tell a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Begin.
    Begin,
    /// All generators of the run are ready: the warm-up begins.
    Go,
    /// End the counted time now.
    Finish,
}

/// What a generator tells the main thread.
#[derive(Debug)]
pub(crate) enum Event {
    /// All players have come, or will not; waits for [`Command::Go`] if it is to.
    Ready,
    /// A stage begins now.
    Stage(Stage),
    /// A failure ends the run, as its step says; other generators of the run are to end too.
    Stopped,
    /// What was recorded in one stretch.
    Record(Box<Record>),
    /// Nothing more comes.
    Done,
}

/// How one generator is to run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where the servers listen: the player with number n goes to node n modulo their count.
    pub(crate) nodes: Vec<Node>,
    /// For the nodes that want TLS.
    pub(crate) tls: Option<TlsClient>,
    /// Where connections come from.
    pub(crate) source: Source,
    /// Players of this generator, and the number of its first one in the run.
    pub(crate) players: u32,
    pub(crate) first_number: u32,
    /// What stands for the first player in match messages, which have 24 bits for it.
    pub(crate) first_sender: u32,
    /// Players of the whole run, which share a rate.
    pub(crate) players_all: u32,
    /// Which of the run's processes this is.
    pub(crate) share: Share,
    pub(crate) rate: Option<f64>,
    /// What it becomes, evenly, until the counted time ends.
    pub(crate) rate_end: Option<f64>,
    pub(crate) saturate: bool,
    /// Whether the machine's clock may be read: tests make up their time.
    pub(crate) has_clock: bool,
    /// One of several generators: the warm-up begins on command.
    pub(crate) waits_for_go: bool,
    pub(crate) ramp_ns: u64,
    pub(crate) warm_up_ns: u64,
    pub(crate) counted_ns: u64,
    pub(crate) timeout_ns: u64,
    pub(crate) phases: Vec<Phase>,
    /// Low bits of the run's number, in match messages.
    pub(crate) run_tag: u16,
    pub(crate) seed: u64,
}

impl Settings {
    /// What stands for a player in match messages.
    fn sender_of(&self, number: u32) -> u32 {
        let order = number.wrapping_sub(self.first_number);
        self.first_sender.wrapping_add(order) & SENDER_MASK
    }
}

/// One server of several that are measured as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) addr: SocketAddr,
    /// For the `Host` header.
    pub(crate) host: String,
    /// Whose certificate it is to have, if it speaks TLS.
    pub(crate) tls_name: Option<ServerName<'static>>,
}

/// Many virtual players on one thread.
pub(crate) struct Generator {
    program: Arc<Program>,
    settings: Settings,
    players: Vec<Player>,
    /// Beside `players`: their connections.
    links: Vec<Link>,
    /// Beside `players` too, where connections are TLS.
    tls: tls::Tls,
    /// By connection slot: its generation and player.
    conns: Vec<Option<(u32, u32)>>,
    timers: Timers<u32>,
    random: Random,
    record: Record,
    events: SyncSender<Event>,
    stage: Stage,
    /// When the stage ends by itself.
    stage_until_ns: u64,
    start_ns: u64,
    /// Of the input that is being handled.
    now_ns: u64,
    schedule: schedule::Schedule,
    connecting: u32,
    connections: u32,
    sockets: u32,
    present: u32,
    ready: u32,
    /// Players that have left before they were ready.
    gone: u32,
    /// Players that prepare themselves for the first time just now.
    preparing: u32,
    /// Why players that are not ready failed: what `Player::failure` points to.
    failures: Vec<String>,
    busy: u32,
    last_response: http::LastResponse,
    /// Reused buffers: a frame's payload, a text to send.
    scratch: Vec<u8>,
    text: Vec<u8>,
    /// CLOCK_MONOTONIC minus the engine's time: makes stamps of several processes comparable.
    mono_offset_ns: u64,
    clock: Option<(Instant, u64)>,
    /// Rows that have been given out of each data file.
    turns: Box<[u64]>,
    /// The server's name has been recorded.
    knows_server: bool,
    /// The version of TLS has.
    knows_protocol: bool,
}

impl Handler for Generator {
    type Mail = Command;

    fn handle(&mut self, now: Now, input: Input<'_, Command>, out: &mut Output<Command>) {
        if self.stage == Stage::Done {
            return;
        }
        self.now_ns = now.mono_ns;
        match input {
            Input::Bytes { conn, bytes } => self.bytes(now.mono_ns, conn, bytes, out),
            Input::TurnEnd => self.turn_end(now.mono_ns, out),
            Input::Wake => self.wake(now.mono_ns, out),
            Input::Connected { conn, token } => self.connected(now.mono_ns, conn, token, out),
            Input::ConnectFailed { token, failure } => {
                self.connect_failed(now.mono_ns, token, failure, out);
            }
            Input::Closed { conn, reason } => self.closed(now.mono_ns, conn, reason, out),
            Input::Eof { conn } => self.eof(now.mono_ns, conn, out),
            Input::Mail(Command::Begin) => self.begin(now.mono_ns, out),
            Input::Mail(Command::Go) => self.go(now.mono_ns, out),
            Input::Mail(Command::Finish) | Input::Stop => self.finish_early(now.mono_ns, out),
            // A generator accepts nothing, posts nothing and does not ask when bytes have left.
            Input::Opened { .. }
            | Input::Sent { .. }
            | Input::Datagram { .. }
            | Input::Refused { .. } => {}
        }
    }
}

impl Generator {
    pub(crate) fn new(
        program: Arc<Program>,
        settings: Settings,
        events: SyncSender<Event>,
    ) -> Self {
        let schedule = schedule::Schedule::new(&settings, &program);
        let ops_count = program.ops.len();
        Self {
            random: Random::from_number(settings.seed),
            schedule,
            record: Record::new(Stage::Ramp, ops_count, 0),
            players: Vec::new(),
            links: Vec::new(),
            conns: Vec::new(),
            timers: Timers::default(),
            events,
            stage: Stage::Ramp,
            stage_until_ns: u64::MAX,
            start_ns: 0,
            now_ns: 0,
            connecting: 0,
            connections: 0,
            sockets: 0,
            present: 0,
            ready: 0,
            gone: 0,
            preparing: 0,
            failures: Vec::new(),
            busy: 0,
            last_response: http::LastResponse::default(),
            scratch: Vec::new(),
            text: Vec::new(),
            mono_offset_ns: 0,
            clock: None,
            turns: vec![0; program.data.len()].into_boxed_slice(),
            tls: tls::Tls::new(settings.tls.clone()),
            knows_server: false,
            knows_protocol: false,
            program,
            settings,
        }
    }

    /// Takes the machine's clock as the base of time stamps, so that several processes agree.
    pub(super) fn read_machine_clock(&mut self, now_ns: u64) {
        if !self.settings.has_clock {
            return;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let mono_ns = seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0);
        self.mono_offset_ns = mono_ns.saturating_sub(now_ns);
        self.clock = Some((Instant::now(), now_ns));
    }

    /// How long the turn that began at `now_ns` has lasted until now; 0 without the machine's clock.
    fn turn_ns(&self, now_ns: u64) -> u64 {
        let Some((clock, base_ns)) = self.clock else { return 0 };
        let elapsed_ns = u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        base_ns.saturating_add(elapsed_ns).saturating_sub(now_ns)
    }

    /// How late the player's operation is by the generator's own fault.
    fn behind_ns(&self, now_ns: u64, index: usize) -> u64 {
        let player = &self.players[index];
        let could_ns = player.intended_ns.max(player.ready_ns);
        now_ns.saturating_sub(could_ns) + self.turn_ns(now_ns)
    }

    /// The player of a connection, unless it has another one by now.
    fn player_of(&self, conn: ConnId) -> Option<usize> {
        let (generation, player) = (*self.conns.get(conn.slot as usize)?)?;
        (generation == conn.generation).then_some(player as usize)
    }

    fn connected(&mut self, now_ns: u64, conn: ConnId, token: u64, out: &mut Output<Command>) {
        let Some(index) = self.attempt_of(token) else {
            out.abort(conn);
            return;
        };
        self.connections += 1;
        let took_ns = now_ns.saturating_sub(self.players[index].sent_ns);
        self.record.connecting.connect.record(took_ns, 1);
        let slot = conn.slot as usize;
        if self.conns.len() <= slot {
            self.conns.resize(slot + 1, None);
        }
        self.conns[slot] = Some((conn.generation, u32::try_from(index).unwrap_or(u32::MAX)));
        self.players[index].conn = Some(conn);
        if !self.secure(now_ns, (index, conn), out) {
            self.linked(now_ns, index, out);
        }
    }

    /// The player's connection can be used.
    fn linked(&mut self, now_ns: u64, index: usize, out: &mut Output<Command>) {
        self.connecting -= 1;
        // The time that connecting took was not the generator's.
        self.players[index].ready_ns = now_ns;
        self.links[index] = Link::Http { decoder: ResponseDecoder::default(), is_partial: false };
        self.players[index].doing = Doing::Waiting;
        self.advance(now_ns, index, out);
    }

    /// The player that waits for this attempt to connect.
    fn attempt_of(&self, token: u64) -> Option<usize> {
        let (index, attempt) = (usize::try_from(token & 0xffff_ffff).ok()?, token >> 32);
        let player = self.players.get(index)?;
        let is_waiting = matches!(self.links[index], Link::Connecting);
        (is_waiting && u64::from(player.attempt) == attempt).then_some(index)
    }

    fn connect_failed(
        &mut self,
        now_ns: u64,
        token: u64,
        cause: ConnectFailure,
        out: &mut Output<Command>,
    ) {
        if let Some(index) = self.attempt_of(token) {
            self.connecting -= 1;
            self.links[index] = Link::None;
            self.fail(now_ns, index, &connect_failure(cause), String::new, out);
        }
    }

    fn closed(
        &mut self,
        now_ns: u64,
        conn: ConnId,
        reason: CloseReason,
        out: &mut Output<Command>,
    ) {
        let Some(index) = self.player_of(conn) else { return };
        let kind = match reason {
            CloseReason::Reset => Kind::of(Cause::Closed, "connection reset by the server"),
            CloseReason::OutputLimit => {
                Kind::of(Cause::NotReading, "server does not read: output limit")
            }
            _ => CLOSED,
        };
        self.lost(now_ns, index, &kind, out);
    }

    fn eof(&mut self, now_ns: u64, conn: ConnId, out: &mut Output<Command>) {
        let Some(index) = self.player_of(conn) else {
            out.abort(conn);
            return;
        };
        // Over TLS the end of a connection is no end of an answer: anybody can cut one off.
        // Source: RFC 9112, section 9.8.
        self.ended(now_ns, index, !self.tls.has(index), out);
    }

    /// The server sends nothing more; `is_whole` if what it has sent is all that it wanted to.
    fn ended(&mut self, now_ns: u64, index: usize, is_whole: bool, out: &mut Output<Command>) {
        if is_whole && self.finish_response(now_ns, index, out) {
            return;
        }
        self.lost(now_ns, index, &CLOSED, out);
    }

    /// The connection of a player is gone without its wish.
    fn lost(&mut self, now_ns: u64, index: usize, kind: &Kind, out: &mut Output<Command>) {
        self.lost_saying(now_ns, index, (kind, String::new()), out);
    }

    /// The same, with an example of what is wrong.
    fn lost_saying(
        &mut self,
        now_ns: u64,
        index: usize,
        (kind, example): (&Kind, String),
        out: &mut Output<Command>,
    ) {
        let was_securing = matches!(self.links[index], Link::Securing);
        let was_socket = matches!(self.links[index], Link::Socket(_));
        let is_within = match &self.links[index] {
            Link::Http { is_partial, .. } => *is_partial,
            _ => false,
        };
        self.drop_link(index, out);
        let is_busy = self.players[index].doing == Doing::Busy;
        if was_securing && kind.cause == Cause::Closed {
            self.fail(now_ns, index, &CLOSED_IN_HANDSHAKE, || kind.text.clone().into_owned(), out);
        } else if is_busy || was_socket || was_securing {
            let kind = if is_within {
                Kind::new(kind.cause, format!("{} within an answer", kind.text))
            } else {
                kind.clone()
            };
            self.fail(now_ns, index, &kind, || example, out);
        } else if !matches!(kind.cause, Cause::Closed | Cause::NotReading) {
            self.record.error(NO_OP, kind, || example);
        } else {
            // A kept-alive connection between two requests: servers may close it. The next
            // request makes a new one.
            let kind = Kind::of(Cause::IdleClosed, "idle connection closed by the server");
            self.record.error(NO_OP, &kind, String::new);
        }
    }

    /// Gives up the player's connection, if there is one, because something went wrong: what was
    /// on its way over a socket is cut off.
    fn drop_link(&mut self, index: usize, out: &mut Output<Command>) {
        if matches!(self.links[index], Link::Socket(_)) {
            self.record.deliveries.cut_off += self.under_way_to(index, false);
        }
        self.forget_link(index, out);
    }

    /// Gives up the player's connection, if there is one.
    fn forget_link(&mut self, index: usize, out: &mut Output<Command>) {
        match std::mem::take(&mut self.links[index]) {
            Link::None => return,
            Link::Connecting | Link::Securing => self.connecting -= 1,
            Link::Socket(_) => self.sockets -= 1,
            Link::Http { .. } | Link::Upgrading { .. } => {}
        }
        let player = &mut self.players[index];
        player.ping = None;
        player.inbox.clear();
        self.tls.forget(index);
        if let Some(conn) = self.take_conn(index) {
            out.abort(conn);
        }
    }

    /// The player's connection, which is not the player's any more.
    fn take_conn(&mut self, index: usize) -> Option<ConnId> {
        let conn = self.players[index].conn.take()?;
        self.connections -= 1;
        if let Some(slot) = self.conns.get_mut(conn.slot as usize) {
            *slot = None;
        }
        Some(conn)
    }

    /// The operation under way, or the one that was about to begin, has failed: counts it and does
    /// what the step says.
    fn fail(
        &mut self,
        now_ns: u64,
        index: usize,
        kind: &Kind,
        example: impl FnOnce() -> String,
        out: &mut Output<Command>,
    ) {
        let program = self.program.clone();
        let player = &self.players[index];
        let plan = &program.sessions[usize::from(player.session)];
        let step = plan.steps.get(usize::from(player.step));
        let op = step.and_then(|step| step.op).unwrap_or(NO_OP);
        let was_busy = player.doing == Doing::Busy;
        let in_loop = (plan.loop_start..plan.loop_end).contains(&player.step);
        let failed = match was_busy {
            true => u64::from(player.left.max(1)),
            // What was due in the loop when the counted time ended has been counted as missed.
            false if in_loop && self.stage >= Stage::Drain => 0,
            false => step.map_or(1, |step| u64::from(step.ops_at_once())),
        };
        if let Some(record) = self.record.op(op) {
            record.failed += failed;
        }
        self.record_ending(now_ns, index, failed, Ending::Failed);
        self.record.error(op, kind, example);
        self.remember_failure(index, op, &kind.text);
        self.settle(index);
        let policy = step.map_or(OnError::Restart, |step| step.on_error);
        let lost_socket = matches!(self.links[index], Link::None)
            && (player_socket(plan, self.players[index].step));
        match policy {
            OnError::Stop => {
                if self.stage < Stage::Drain {
                    let name = program.ops.get(usize::from(op)).map_or("-", |op| &op.name);
                    self.record.error(NO_OP, &STOPPED, || format!("{name}: {}", kind.text));
                }
                self.tell(Event::Stopped);
                self.finish_early(now_ns, out);
            }
            OnError::Leave => self.leave(index, out),
            OnError::Continue if !lost_socket => {
                let wait_ns = match self.links[index] {
                    Link::None if was_busy => RECONNECT_NS,
                    _ if was_busy => 0,
                    // Not even sent: a server that is not there is not to be flooded.
                    _ => RESTART_NS,
                };
                let player = &mut self.players[index];
                player.step += 1;
                player.ready_ns = now_ns + wait_ns;
                self.wait_until(index, now_ns + wait_ns);
            }
            OnError::Continue | OnError::Restart | OnError::Auto => {
                self.restart(now_ns, index, out);
            }
        }
    }

    /// Keeps the reason for which a player is not ready, for the word at the end of the ramp.
    fn remember_failure(&mut self, index: usize, op: u16, kind: &str) {
        if self.players[index].is_ready || self.stage != Stage::Ramp {
            return;
        }
        let op = self.program.ops.get(usize::from(op)).map_or("-", |op| &op.name);
        let mut reason = format!("{op}: {}", short(kind));
        if self.failures.len() + 1 >= ERROR_KINDS_MAX {
            let is_known = self.failures.contains(&reason);
            reason = if is_known { reason } else { OTHER_REASONS.to_owned() };
        }
        let known = self.failures.iter().position(|it| *it == reason);
        let place = known.unwrap_or_else(|| {
            self.failures.push(reason);
            self.failures.len() - 1
        });
        self.players[index].failure = u16::try_from(place + 1).unwrap_or(0);
    }

    /// The operation under way is over, one way or the other.
    fn settle(&mut self, index: usize) {
        let player = &mut self.players[index];
        if player.doing == Doing::Busy {
            self.busy -= 1;
        }
        player.doing = Doing::Waiting;
        player.left = 0;
        player.is_intended = false;
    }

    fn turn_end(&mut self, now_ns: u64, out: &mut Output<Command>) {
        self.arrivals(now_ns, out);
        let turn_ns = self.turn_ns(now_ns);
        self.record.own.turn(turn_ns);
        self.set_wake(out);
    }

    /// Hands the record over; keeps it when the main thread is behind, unless it must go now.
    fn hand_over(&mut self, now_ns: u64, must_go: bool) {
        self.record.until_ns = now_ns;
        self.record.players = self.record.players.max(self.present);
        self.record.ready = self.ready;
        self.record.connections = self.connections;
        self.record.sockets = self.sockets;
        let fresh = Record::new(self.stage, self.program.ops.len(), now_ns);
        let full = Box::new(std::mem::replace(&mut self.record, fresh));
        if must_go {
            self.tell(Event::Record(full));
        } else if let Err(TrySendError::Full(Event::Record(full))) =
            self.events.try_send(Event::Record(full))
        {
            self.record = *full;
        }
    }

    /// Tells the main thread something that must not be lost; it drains the queue in time.
    fn tell(&self, event: Event) {
        // An error means that nobody listens any more: then there is nothing to tell.
        drop(self.events.send(event));
    }
}

/// What an attempt to connect came to, with the limit that was hit if it is one.
fn connect_failure(cause: ConnectFailure) -> Kind {
    let (cause, text) = match cause {
        ConnectFailure::Refused => (Cause::ConnectRefused, "connect: refused"),
        ConnectFailure::TimedOut => return CONNECT_TIMED_OUT,
        ConnectFailure::Unreachable => (Cause::ConnectUnreachable, "connect: address unreachable"),
        ConnectFailure::NoLocalPort => {
            (Cause::NoLocalPort, "connect: no local port left (net.ipv4.ip_local_port_range)")
        }
        ConnectFailure::NoFiles => (Cause::NoFile, "connect: no open file left (ulimit -n)"),
        ConnectFailure::NoSlot => (Cause::Connect, "connect: the generator has no connection left"),
        ConnectFailure::Cancelled | ConnectFailure::Shutdown => {
            (Cause::Connect, "connect: given up")
        }
        ConnectFailure::Other { errno } => {
            return Kind::new(Cause::Connect, format!("connect: error {errno} of the system"));
        }
    };
    Kind::of(cause, text)
}

/// Whether the step at `step` needs a socket that an earlier step has opened.
fn player_socket(plan: &crate::load::scenario::program::SessionPlan, step: u16) -> bool {
    use crate::load::scenario::program::StepKind;
    let is_connect = |kind: &StepKind| matches!(kind, StepKind::Connect { .. });
    let before = plan.steps.iter().take(usize::from(step));
    before.rev().any(|step| is_connect(&step.kind)) || plan.steps.get(usize::from(step)).is_none()
}
