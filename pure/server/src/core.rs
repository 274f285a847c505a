//! A core thread: connections, requests, sessions. It parses and routes, asks workers and rooms
//! for everything else, and never runs guest code or touches the database.
//!
//! Bytes come in through [`Input::Bytes`]; one request or message of a connection is handled at a
//! time, in order, and what arrives behind it waits in its backlog (as in Nakama 3.40,
//! `server/session_ws.go`). Answers leave
//! through [`Output`]; jobs and requests are collected over a turn and posted in one mail each.

mod access;
mod answers;
mod backlog;
mod callers;
mod datagrams;
mod deadlines;
mod dispatch;
mod grpc;
mod hooks;
mod http;
mod lifetime;
mod limits;
mod messages;
mod nodes;
mod packing;
mod places;
mod requests;
mod socket;
mod zone_page;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use event::{ConnId, Handler, Input, ListenerId, Now, Output, Random, ThreadId};
use game::events::EventJob;
use game::session::{Revocations, Signer};

use crate::hooks::Hooks;
use crate::limit_log::LimitLog;
use crate::limits::Groups;
use crate::mail::{
    Address, BatcherMail, CallerMail, CoreMail, EventsMail, Job, Mail, Member, Post as _,
    RoomError, RoomMail, RoomRequest, SessionAddress, Topology,
};
use crate::retry_queue::{RetryQueue, say_refused};
use crate::settings::Settings;
use crate::stats::CoreStats;
use backlog::Backlog;
use grpc::Grpc;
use http::Http;
use socket::Session;

/// The handler of a core thread.
pub struct Core {
    me: Address<CoreMail>,
    topology: Arc<Topology>,
    settings: Arc<Settings>,
    stats: Arc<CoreStats>,
    signer: Signer,
    revocations: Revocations,
    random: Random,
    hooks: Arc<Hooks>,
    conns: Vec<Slot>,
    conns_open: usize,
    /// Where the sockets of a session and of a user are.
    places: places::Places,
    abroad: nodes::Abroad,
    deadlines: deadlines::Deadlines,
    /// The `Date` header's value and the second it is for.
    date: (u64, [u8; 29]),
    /// Headers of every answer, ready to send.
    fixed_headers: Vec<u8>,
    limits: wire::http1::Limits,
    /// Unmasked payloads and encoded frames, reused.
    scratch: Vec<u8>,
    packing: packing::Packing,
    windows: grpc::Windows,
    /// API calls of this turn.
    jobs: Vec<Job>,
    /// Requests of this turn, a list for each room of this node, and for each of another one that was
    /// asked something; with whether one of them is worth waking for.
    room_requests: Vec<(Address<RoomMail>, Vec<RoomRequest>, bool)>,
    /// Events of this turn.
    events: Vec<EventJob>,
    callers: callers::Callers,
    /// The caller that shares this thread.
    companion: Option<Address<CallerMail>>,
    jobs_waiting: u64,
    passwords_waiting: u32,
    /// Users and addresses, and what each has and does.
    groups: Groups,
    datagrams: datagrams::Peers,
    /// When the input that is being handled came.
    now: Now,
    /// The fastest tick of each room.
    tick_rates: BTreeMap<Address<RoomMail>, u8>,
    stopping: Option<lifetime::Stopping>,
    retries: RetryQueue,
    limit_log: LimitLog,
    /// When it may next be said that nobody's X-Forwarded-For is believed.
    proxies_said_ns: u64,
    /// Counts turns, so that each connection gets its share of one.
    turn: u32,
    /// Connections with input that had to wait for another turn, in the order of their turns.
    backlogs: VecDeque<ConnId>,
}

/// What a client is told that the server or a script disconnects, whatever the cause: Nakama
/// says no more either (3.40, `server/session_registry.go`).
const SERVER_SIDE: &str = "server-side session disconnect";

/// The listener of gRPC, where there is one; the other is of HTTP/1.1 and WebSocket.
pub const GRPC: ListenerId = ListenerId(1);

/// Messages to matches are handed on this many times a tick: at 10 Hz they coalesce for 4 ms, at
/// 60 Hz for 0.7 ms.
const COALESCED_PER_TICK: u64 = 25;

/// What the core knows of one connection.
#[derive(Default)]
struct Slot {
    generation: u32,
    /// The record of the address that the connection counts for; none for sockets.
    address: u32,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Free,
    Http(Box<Http>),
    Socket(Box<Session>),
    Grpc(Box<Grpc>),
    /// Closed by us; what the peer still sends is ignored.
    Closing,
}

impl Core {
    /// A core with no connections.
    #[must_use]
    pub fn new(
        me: Address<CoreMail>,
        topology: Arc<Topology>,
        settings: Arc<Settings>,
        stats: Arc<CoreStats>,
        random: Random,
        hooks: Arc<Hooks>,
    ) -> Self {
        let signer = Signer::new(&settings.session);
        let companion = topology.companion_of(me);
        let callers = callers::Callers::new(topology.callers.len(), companion.is_some());
        let room_requests = topology.rooms.iter().map(|room| (*room, Vec::new(), false)).collect();
        let limits = wire::http1::Limits {
            body_bytes_max: settings.socket.request_bytes_max,
            ..Default::default()
        };
        Self {
            me,
            signer,
            revocations: Revocations::default(),
            random,
            hooks,
            conns: Vec::new(),
            conns_open: 0,
            places: places::Places::default(),
            abroad: nodes::Abroad::default(),
            deadlines: deadlines::Deadlines::default(),
            date: (u64::MAX, [0; 29]),
            fixed_headers: answers::fixed_headers(&settings),
            limits,
            scratch: Vec::new(),
            packing: packing::Packing::default(),
            windows: grpc::Windows::default(),
            jobs: Vec::new(),
            room_requests,
            events: Vec::new(),
            callers,
            companion,
            jobs_waiting: 0,
            passwords_waiting: 0,
            groups: Groups::default(),
            datagrams: datagrams::Peers::default(),
            now: Now::default(),
            tick_rates: BTreeMap::new(),
            stopping: None,
            retries: RetryQueue::default(),
            limit_log: LimitLog::default(),
            proxies_said_ns: 0,
            turn: 0,
            backlogs: VecDeque::new(),
            topology,
            settings,
            stats,
        }
    }

    /// The same with what was revoked before this process began.
    #[must_use]
    pub fn with_revocations(mut self, revocations: Revocations) -> Self {
        self.revocations = revocations;
        self.tell_revocations();
        self
    }

    fn opened(
        &mut self,
        now: Now,
        conn: ConnId,
        (listener, peer): (ListenerId, std::net::SocketAddr),
        out: &mut Output<Mail>,
    ) {
        let index = conn.slot as usize;
        if index >= self.conns.len() {
            self.conns.resize_with(index + 1, Slot::default);
        }
        let slot = &mut self.conns[index];
        slot.generation = conn.generation;
        slot.state = State::Closing;
        self.conns_open += 1;
        match self.admit_connection(conn, peer) {
            limits::Admission::Open => {}
            limits::Admission::Refused(error) if listener == GRPC => {
                return self.refuse_grpc(conn, &error, out);
            }
            limits::Admission::Refused(error) => {
                return self.refuse_connection(now, conn, &error, out);
            }
            limits::Admission::Dropped => return out.abort(conn),
        }
        let backlog = Backlog::new(self.stats.clone());
        if listener == GRPC {
            return self.grpc_opened(now, conn, (peer, backlog), out);
        }
        self.put(conn, State::Http(Box::new(Http::new(now, peer, backlog))));
        self.arm(now.after_ms(self.settings.socket.read_timeout_ms), conn);
    }

    /// The connection's state, taken out so that it can be worked on beside the core; put back
    /// with [`Core::put`]. `Free` if the connection is gone.
    fn take(&mut self, conn: ConnId) -> State {
        match self.conns.get_mut(conn.slot as usize) {
            Some(slot) if slot.generation == conn.generation => std::mem::take(&mut slot.state),
            _ => State::Free,
        }
    }

    fn put(&mut self, conn: ConnId, state: State) {
        if let Some(slot) = self.conns.get_mut(conn.slot as usize)
            && slot.generation == conn.generation
        {
            slot.state = state;
        }
    }

    fn bytes(&mut self, now: Now, conn: ConnId, bytes: &[u8], out: &mut Output<Mail>) {
        match self.take(conn) {
            State::Http(http) => self.http_bytes(now, conn, http, bytes, out),
            State::Socket(session) => self.socket_bytes(now, conn, session, bytes, out),
            State::Grpc(grpc) => self.grpc_bytes(now, conn, grpc, bytes, out),
            other => self.put(conn, other),
        }
    }

    fn address(&self, conn: ConnId) -> SessionAddress {
        SessionAddress { core: self.me, conn }
    }

    /// A request of a session to the room where the group lives.
    fn request_room(&mut self, room: Address<RoomMail>, request: RoomRequest) {
        // A message to an authoritative match waits for the next tick anyway.
        let is_urgent =
            !matches!(&request, RoomRequest::MatchData(input) if input.id.is_authoritative());
        match self.room_requests.iter_mut().find(|(id, ..)| *id == room) {
            Some((_, requests, urgent)) => {
                *urgent |= is_urgent;
                requests.push(request);
            }
            // Of another node, and the first to it since it began.
            None => self.room_requests.push((room, vec![request], is_urgent)),
        }
    }

    fn mail(&mut self, now: Now, mail: CoreMail, out: &mut Output<Mail>) {
        match mail {
            CoreMail::Deliver(deliveries) => {
                for delivery in deliveries {
                    self.deliver(now, delivery, out);
                }
            }
            CoreMail::Done(list) => {
                for done in list {
                    self.done(now, done, out);
                }
            }
            CoreMail::Sessions(session_changes) => self.change_sessions(now, &session_changes, out),
            CoreMail::Forward(request) => self.forward(*request, out),
            CoreMail::Drained => self.room_drained(now, out),
            CoreMail::TickRate { room, tick_rate_hz } => {
                self.tick_rate_changed(room, tick_rate_hz, out);
            }
            CoreMail::Nodes(topology) => self.nodes_changed(now, topology, out),
            CoreMail::Guests(hooks) => self.take_hooks(hooks, out),
            // It did its work by waking us.
            CoreMail::WakeUp => {}
        }
    }

    /// Lets messages to matches coalesce for a small part of the fastest tick: they wait for it
    /// anyway.
    fn tick_rate_changed(
        &mut self,
        room: Address<RoomMail>,
        tick_rate_hz: u8,
        out: &mut Output<Mail>,
    ) {
        self.tick_rates.insert(room, tick_rate_hz);
        let fastest_hz = self.tick_rates.values().copied().max().unwrap_or(0).max(1);
        out.coalesce(1_000_000_000 / u64::from(fastest_hz) / COALESCED_PER_TICK);
    }

    /// What the replica of revocations holds. They are alike on all cores, so one tells of them.
    fn tell_revocations(&self) {
        if self.topology.cores.first() == Some(&self.me) {
            self.stats.revocations.set(self.revocations.len() as u64);
            self.stats.revocations_forgotten.set(self.revocations.forgotten_count());
            self.stats.banned_users.set(self.revocations.banned_count() as u64);
        }
    }

    fn turn_end(&mut self, now: Now, out: &mut Output<Mail>) {
        self.refuse_unreachable(now, out);
        if !self.jobs.is_empty() {
            let jobs = BatcherMail::Jobs(std::mem::take(&mut self.jobs));
            out.post(&self.topology, self.topology.batcher, jobs);
        }
        for (room, requests, urgent) in &mut self.room_requests {
            if requests.is_empty() {
                continue;
            }
            let mail = RoomMail::Requests(std::mem::take(requests));
            if std::mem::take(urgent) {
                out.post(&self.topology, *room, mail);
            } else {
                out.post_lazy(&self.topology, *room, mail);
            }
        }
        if !self.events.is_empty()
            && let Some(to) = self.topology.events
        {
            out.post(&self.topology, to, EventsMail::Events(std::mem::take(&mut self.events)));
        }
        self.turn = self.turn.wrapping_add(1);
        self.stats.limit_groups.set(self.groups.len() as u64);
        self.stats.limit_groups_overflow.set(self.groups.overflow_count);
        self.arm_wake(now, out);
    }

    /// A mailbox was full: whoever waits for the answer is told instead of left hanging.
    fn refused(&mut self, now: Now, to: ThreadId, mail: Mail, out: &mut Output<Mail>) {
        self.stats.refused_mail.up();
        say_refused(&mut self.limit_log, now, to, &mail);
        let mail = match mail.into_jobs() {
            Ok(jobs) => {
                for job in jobs {
                    self.job_refused(now, job, out);
                }
                return;
            }
            Err(mail) => mail,
        };
        match mail.into_requests(to, &self.topology) {
            Ok((room, requests)) => {
                for request in requests {
                    self.request_refused(now, room, request, out);
                }
            }
            Err(mail) => self.keep(now, (to, mail)),
        }
    }

    /// What a room must hear of sooner or later.
    fn keep(&mut self, now: Now, mail: (ThreadId, Mail)) {
        self.retries.keep_or_count(now, mail, &self.stats.dropped_mail);
    }

    /// Posts again what met a full mailbox.
    fn post_retries(&mut self, now: Now, out: &mut Output<Mail>) {
        for (to, mail) in self.retries.take_due(now) {
            match mail.into_requests(to, &self.topology) {
                Ok((room, requests)) => {
                    for request in requests {
                        self.request_if_open(room, request, out);
                    }
                }
                Err(mail) => out.mail(to, mail),
            }
        }
    }

    /// A request that was under way for a while. Of a session that has ended rooms must hear nothing
    /// but that: they have been told, or will be.
    fn request_if_open(
        &mut self,
        room: Address<RoomMail>,
        request: RoomRequest,
        out: &mut Output<Mail>,
    ) {
        let is_late = match &request {
            RoomRequest::Closed { .. } => false,
            RoomRequest::StatusFollow(follow) => !self.is_open(&follow.member),
            RoomRequest::Opened { member, .. } | RoomRequest::StatusUnfollow { member, .. } => {
                !self.is_open(member)
            }
            RoomRequest::Stream(wish) => {
                let is_late = !wish.member.as_ref().is_some_and(|member| self.is_open(member));
                if is_late
                    && let Some((to, mail)) = wish.refusal(&self.topology, RoomError::NotFound)
                {
                    out.mail(to, mail);
                }
                is_late
            }
            _ => true,
        };
        if !is_late {
            self.note_forward(room, &request);
            self.request_room(room, request);
        }
    }

    fn is_open(&self, member: &Member) -> bool {
        let conn = member.address.conn;
        self.open_session(conn.slot).is_some_and(|(id, session)| {
            id == conn && session.session_id == member.presence.session_id
        })
    }

    /// A request of several rooms, for the next one.
    fn forward(&mut self, request: RoomRequest, out: &mut Output<Mail>) {
        if let RoomRequest::Stream(wish) = &request {
            return self.request_if_open(wish.room(&self.topology), request, out);
        }
        let next = match &request {
            RoomRequest::StatusFollow(follow) => follow.users.first(),
            RoomRequest::StatusUnfollow { users, .. } => users.first(),
            _ => None,
        };
        if let Some(room) = next.map(|id| self.topology.room_of(*id)) {
            self.request_if_open(room, request, out);
        }
    }
}

impl Handler for Core {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        self.now = now;
        match input {
            Input::Bytes { conn, bytes } => self.bytes(now, conn, bytes, out),
            Input::Mail(mail) => self.mail(now, self.me.open(mail), out),
            Input::TurnEnd => self.turn_end(now, out),
            Input::Opened { conn, listener, peer } => {
                self.opened(now, conn, (listener, peer), out);
            }
            Input::Eof { conn } => self.eof(now, conn, out),
            Input::Closed { conn, reason, .. } => self.closed(now, conn, reason, out),
            Input::Wake => self.wake(now, out),
            Input::Refused { to, mail } => self.refused(now, to, mail, out),
            Input::Stop => self.stop(now, out),
            Input::Sent { conn } => self.all_taken(now, conn, out),
            Input::Datagrams(all) => self.hear_datagrams(now, all, out),
            Input::Connected { .. } | Input::ConnectFailed { .. } => {}
        }
    }
}
