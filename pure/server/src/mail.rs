//! What threads post to each other: a type of mail for each kind of thread, which is all that its
//! handler has to deal with. Who is posted to, and how, is in `address`; work and what comes of it,
//! in `job`. No behaviour here.
//!
//! ```text
//! core ── Jobs, Job ──▶ worker, lister ── Done ──▶ core
//! core ── Requests ──▶ room ── Deliver, Forward ──▶ core
//! worker, room ── Create, Signal, Cancel, TakeBack ──▶ room, core ── Answer ──▶ worker, room
//! room ── Chase, Zone ──▶ room      the wiring ── Zone ──▶ room      room ── Zone ──▶ batcher ── Zone ──▶ room
//! room ── Directory ──▶ every thread that lists        worker, room ── Sessions ──▶ every core
//! worker, room ── Notify, Streams ──▶ room             worker, room ── Cache ──▶ worker, room
//! core, worker, room ── Events, Rule ──▶ thread of events ── Zone ──▶ room     the network ── Fetched ──▶ worker, room
//! loader ── Guests ──▶ worker, room, then core ── Holds, Retired, Spent, Took ──▶ loader      a signal ── Signal ──▶ loader
//! core, worker, room ── Parcel, Directory, Cache, Sessions ──▶ gate ── to other nodes, and from them
//! a transport ── Letter, Node ──▶ gate ── Nodes ──▶ every thread
//! ```
//!
//! What may go to another node is plain data that can be written as bytes (`serde`); what of a kind of
//! mail never does is marked to be skipped, and comes last: who reads counts the others only. How it is
//! written, and what of it another node believes, is `gate`'s.

mod address;
mod host_call;
mod job;
mod zone;

use std::sync::Arc;

use bytes::Bytes;
use event::{ConnId, ThreadId};
use game::api::Disconnect;
use game::cache::CacheChange;
use game::directory::DirectoryEvent;
use game::events::{Cause, EventJob};
use game::fetch::{FetchAnswer, FetchFailed};
use game::guest::{FollowWish, GuestVersion, JoinRequest, Presence, Retired};
use game::match_id::MatchId;
use game::node::NodeId;
use game::notifications::Sent;
use game::plain;
use game::session::Revocation;
use game::stream::{StreamAnswer, StreamId, StreamRequest};
use game::value::Value;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use uuid::Uuid;
pub use wire::nakama::Format;

use crate::gate::NodeNews;
use crate::guests::NewGuests;
use crate::hooks::Hooks;

pub use address::{Address, Mail, Peer, SessionAddress, ThreadMail, Topology, WorkerAddress};
pub(crate) use address::{Crossing, Post};
pub(crate) use host_call::weight_rows;
pub use host_call::{Asker, HostCall, HostReturn};
pub use job::Line;
pub use job::{
    AfterMessage, BeforeMessage, Done, Function, HookStep, HookedCall, Job, Outcome, Queue, RpcJob,
    Tried, Used, Work,
};
pub use zone::{RoomIndex, ZoneAck, ZoneAsk, ZoneDone, ZoneMail, ZoneSave, ZoneShow, ZoneTick};

/// What cores take.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum CoreMail {
    /// From workers and rooms: look into the mailbox, something was posted without waking.
    WakeUp,
    /// From rooms: frames to send, in order.
    Deliver(Vec<Delivery>),
    /// From a room: this request is done there and goes on to the next room, unless the session has
    /// ended meanwhile.
    Forward(Box<RoomRequest>),
    /// From workers and the lister: finished jobs, in the order in which they came.
    #[serde(skip)]
    Done(Vec<Done>),
    /// From workers and rooms, to every core: tokens that count no more, sockets that are to be
    /// closed.
    #[serde(skip)]
    Sessions(Arc<SessionChanges>),
    /// From a room: the highest tick rate of its matches; 0 when it has none.
    #[serde(skip)]
    TickRate { room: Address<RoomMail>, tick_rate_hz: u8 },
    /// From a room: no match is left, and the zone is on the disk if its home is there.
    #[serde(skip)]
    Drained,
    /// From the gate: a node has come or gone.
    #[serde(skip)]
    Nodes(Arc<Topology>),
    /// From the loader: every worker and room has a new version of the guest code, with these hooks.
    #[serde(skip)]
    Guests(Arc<Hooks>),
}

/// A match that signals another one, and waits for its answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Signaller {
    /// The match.
    pub id: Uuid,
    /// Who waits for the end of the `match_signal` that it plays, if it plays one.
    pub plays: Option<Waiter>,
}

/// A search for matches that wait for each other in a circle, along what each waits for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Chase {
    /// The match that has begun to wait, and its question.
    pub by: Signaller,
    /// Its question.
    pub from: Waiter,
    /// The question of the match before, if one has been looked at.
    pub before: Option<Waiter>,
    /// Whether each match that was looked at waits for one that plays its signal: then the one that has
    /// begun to wait is what closes the circle.
    pub is_nested: bool,
    /// Of all of them the match with the largest id, and its question.
    pub last: (Uuid, Waiter),
    /// Matches that may be looked at yet.
    pub steps_left: u8,
}

/// An authoritative match to be.
#[derive(Debug)]
pub struct NewMatch {
    /// Whose it is.
    pub cause: Cause,
    /// The module whose functions are its callbacks.
    pub module: String,
    /// What `match_init` gets.
    pub params: Value,
}

/// What rooms take.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum RoomMail {
    /// From a core: what the sessions of one turn want, in order.
    Requests(Vec<RoomRequest>),
    /// From workers and rooms: signal an authoritative match. `by`: the match that waits for it.
    Signal {
        from: Waiter,
        by: Option<Box<Signaller>>,
        id: Uuid,
        #[serde(with = "plain::bytes")]
        data: Bytes,
    },
    /// From rooms: whoever signals this match has given up waiting; the signal is not to be played.
    TakeBack { from: Waiter, id: Uuid },
    /// From rooms: a match waits for one that waits for the match `id`: do they wait for each other in a
    /// circle?
    Chase { id: Uuid, chase: Box<Chase> },
    /// From a room: what became of a `Create` or `Signal`, or of a wish for a stream; from a core, if
    /// that was for a session that has ended. `node`: which says so.
    Answer { node: NodeId, request: u64, outcome: Result<RoomAnswer, RoomError> },
    /// From workers and other rooms: notifications for the sockets of its users.
    Notify(Vec<Sent>),
    /// From workers and other rooms: what scripts want of streams, in order.
    Streams(Vec<StreamMail>),
    /// From workers and rooms: create an authoritative match.
    #[serde(skip)]
    Create { from: Waiter, id: Uuid, new: Box<NewMatch> },
    /// From workers and rooms: whoever asked to create this match has given up waiting; end it.
    #[serde(skip)]
    Cancel { id: Uuid },
    /// From other rooms: matches and online users changed, all of a turn. It waits until its
    /// receiver wakes for something else, so that it must be small.
    #[serde(skip)]
    Directory(Arc<[DirectoryEvent]>),
    /// From workers and other rooms: the scripts' cache changed, all of a turn.
    #[serde(skip)]
    Cache(Arc<[CacheChange]>),
    /// From workers: what came of functions that matches wait for.
    #[serde(skip)]
    Returned(Vec<HostReturn>),
    /// From outside: what came of a request to another server that a match waits for.
    #[serde(skip)]
    Fetched(Box<Fetched>),
    /// From a core, while stopping: end your matches within the grace, save the zone, and tell this core.
    #[serde(skip)]
    Drain { core: Address<CoreMail> },
    /// From the gate: a node has come or gone.
    #[serde(skip)]
    Nodes(Arc<Topology>),
    /// From rooms of this node, and from the wiring: of the zone.
    #[serde(skip)]
    Zone(ZoneMail),
    /// From the loader: a new version of the guest code.
    #[serde(skip)]
    Guests(Box<NewGuests>),
}

/// What the batcher takes.
#[derive(Debug)]
pub enum BatcherMail {
    /// From a core: all API calls of one turn.
    Jobs(Vec<Job>),
    /// From workers and rooms: functions that guests wait for, all of one turn.
    Calls(Vec<HostCall>),
    /// From the zone's home: a part of it that is to be kept.
    Zone(Box<ZoneSave>),
    /// What it has to know besides.
    News(News),
}

/// What callers take.
#[derive(Debug)]
pub enum CallerMail {
    /// From a core: one call, alone, so that its answer need not wait for others. To its companion too.
    Job(Box<Job>),
    /// From a room: a function that a guest waits for, and that may take long.
    Call(Box<HostCall>),
    /// What it has to know besides.
    News(News),
}

/// What the hasher takes.
#[derive(Debug)]
pub enum HasherMail {
    /// From a core: one call with a password.
    Job(Box<Job>),
    /// From workers and rooms: a function that hashes a password, for a guest that waits.
    Call(Box<HostCall>),
    /// What it has to know besides.
    News(News),
}

/// What the thread of events takes.
#[derive(Debug)]
pub enum EventsMail {
    /// From cores, workers and rooms: what has happened.
    Events(Vec<EventJob>),
    /// From the zone's home: what a rule of scripts is asked.
    Rule(Box<ZoneAsk>),
    /// What it has to know besides.
    News(News),
}

/// What every worker takes besides its work.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum News {
    /// From a room: what became of a `Create` or `Signal`, or of a wish for a stream; from a core, if
    /// that was for a session that has ended. `node`: which says so.
    Answer { node: NodeId, request: u64, outcome: Result<RoomAnswer, RoomError> },
    /// As [`RoomMail::Directory`].
    #[serde(skip)]
    Directory(Arc<[DirectoryEvent]>),
    /// As [`RoomMail::Cache`].
    #[serde(skip)]
    Cache(Arc<[CacheChange]>),
    /// As [`RoomMail::Nodes`].
    #[serde(skip)]
    Nodes(Arc<Topology>),
    /// From workers: what came of functions that its guests wait for.
    #[serde(skip)]
    Returned(Vec<HostReturn>),
    /// From outside: what came of a request to another server that one of them waits for.
    #[serde(skip)]
    Fetched(Box<Fetched>),
    /// As [`RoomMail::Guests`].
    #[serde(skip)]
    Guests(Box<NewGuests>),
    /// From the loader, to a caller whose scripts' memory is used up: its modules do not load once more. It is
    /// tried again.
    #[serde(skip)]
    NoGuests,
}

/// What came of a request to another server ([`game::fetch::Fetch`]).
#[derive(Debug)]
pub struct Fetched {
    /// Under which its guest waits: the request's ticket.
    pub number: u64,
    /// The answer, or the text for the script.
    pub result: Result<FetchAnswer, FetchFailed>,
}

/// What the lister takes.
#[derive(Debug)]
pub enum ListerMail {
    /// From a core: one listing.
    Job(Box<Job>),
    /// As [`RoomMail::Directory`].
    Directory(Arc<[DirectoryEvent]>),
    /// As [`RoomMail::Nodes`].
    Nodes(Arc<Topology>),
}

/// What the loader takes.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum LoaderMail {
    /// From a core: somebody who has the key wants the modules loaded again.
    Job(Box<Job>),
    /// From outside: a signal wants the same.
    Signal,
    /// From the wiring, once: look at the folder, and load it when it has changed.
    Watch,
    /// From workers and rooms: what they hold, when they have taken a version and when they have dropped
    /// an older one.
    Holds(Box<Holds>),
    /// From workers and rooms: what they run no more.
    Retired(Retired),
    /// From the batcher, companions and callers: calls have used up the memory of their newest version. They run no
    /// calls until they have another instance of it.
    Spent { worker: WorkerAddress, version: GuestVersion, what: Retired },
    /// From a core: calls begin on this version.
    Took { core: Address<CoreMail>, version: GuestVersion },
}

/// The versions of the guest code that one thread holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Which thread.
    pub thread: ThreadId,
    /// Where calls and matches begin.
    pub newest: GuestVersion,
    /// The others.
    pub older: Vec<HeldVersion>,
}

/// An older version that a thread still holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldVersion {
    /// Which.
    pub version: GuestVersion,
    /// Calls that are not over.
    pub calls: usize,
    /// Matches that run.
    pub matches: usize,
    /// The first few of them, with their modules.
    pub named: Vec<(Uuid, Arc<str>)>,
}

/// What the gate takes.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum GateMail {
    /// From any thread: mail for a thread of another node.
    Parcel(Box<Parcel>),
    /// From rooms: as [`RoomMail::Directory`], for every thread of every other node that lists.
    Directory(Arc<[DirectoryEvent]>),
    /// From workers and rooms: as [`RoomMail::Cache`], for every thread of every other node with scripts.
    Cache(Arc<[CacheChange]>),
    /// From workers and rooms: as [`CoreMail::Sessions`], for every core of every other node.
    Sessions(Arc<SessionChanges>),
    /// From a transport: what has come from a node.
    Letter { from: NodeId, bytes: Vec<u8> },
    /// From who knows: a node lives, or is gone.
    Node(Box<NodeNews>),
}

/// Mail for a thread of another node.
#[derive(Debug)]
pub struct Parcel {
    /// The node, in the life that is meant.
    pub node: NodeId,
    /// The thread there.
    pub thread: ThreadId,
    /// As the thread is to get it.
    pub mail: Mail,
}

/// What the calls of one turn do to sessions, in the order in which cores deal with it. One mail to
/// each core, however much it is; every core gets all of it and has some of the sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionChanges {
    /// What tokens count no more, or again.
    pub revocations: Vec<Revocation>,
    /// Who is to follow whom, or no more.
    pub follows: Vec<FollowWish>,
    /// Sessions whose sockets are to be closed.
    pub sessions: Vec<Uuid>,
    /// Users all of whose sockets are to be closed, and why.
    pub users: Vec<(Uuid, Disconnect)>,
}

impl SessionChanges {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { revocations, follows, sessions, users } = self;
        revocations.is_empty() && follows.is_empty() && sessions.is_empty() && users.is_empty()
    }
}

/// A session as rooms know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who it is.
    pub presence: Presence,
    /// Where its socket is.
    pub address: SessionAddress,
    /// How it wants its messages.
    #[serde(with = "format")]
    pub format: Format,
}

/// What a session wants of a room. Those with a `cid` are answered with exactly one
/// [`Delivery`] whose `answers` is set.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum RoomRequest {
    /// A socket opened, or the room has begun anew since; with the status text of who appears online.
    Opened { member: Member, status: Option<Box<str>> },
    /// A socket closed: leave everything.
    Closed { session_id: Uuid, user_id: Uuid },
    /// `match_create`, already with its id.
    MatchCreate { member: Member, cid: String, id: MatchId },
    /// `match_join`. `by_token`: the match is made by its first joiner.
    MatchJoin {
        member: Member,
        cid: String,
        id: MatchId,
        by_token: bool,
        request: Box<JoinRequest>,
    },
    /// `match_leave`.
    MatchLeave { member: Member, cid: String, id: MatchId },
    /// `match_data_send`; never answered.
    MatchData(Box<MatchInput>),
    /// `status_update`; `None` goes offline.
    StatusUpdate { member: Member, cid: String, status: Option<String> },
    /// `status_follow`: passed from room to room ([`CoreMail::Forward`]) until `users` is empty, then
    /// answered.
    StatusFollow(Box<Follow>),
    /// `status_unfollow`, passed on the same way.
    StatusUnfollow { member: Member, cid: Option<String>, users: Vec<Uuid> },
    /// A script takes the session into a stream: passed on from the room of its user to that of the
    /// stream.
    Stream(Box<StreamMail>),
}

/// What a script wants of a stream.
#[derive(Debug, Serialize, Deserialize)]
pub struct StreamMail {
    /// The stream.
    pub stream: StreamId,
    /// What of it.
    pub request: StreamRequest,
    /// The session that is to join, once the room of its user has found it.
    pub member: Option<Member>,
    /// Who waits for the answer, if anybody does.
    pub reply: Reply,
}

/// Who waits for a room's answer, and the number of what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The thread.
    pub who: Asker,
    /// Comes back in the answer.
    pub request: u64,
}

impl Waiter {
    /// The answer, and where it goes.
    #[must_use]
    pub fn answer(
        self,
        topology: &Topology,
        outcome: Result<RoomAnswer, RoomError>,
    ) -> (ThreadId, Mail) {
        let (node, request) = (topology.nodes.here(), self.request);
        match self.who {
            Asker::Worker(to) => to.seal(topology, News::Answer { node, request, outcome }),
            Asker::Room(to) => to.seal(topology, RoomMail::Answer { node, request, outcome }),
        }
    }
}

/// Who waits for an answer, if anybody does.
pub type Reply = Option<Waiter>;

impl StreamMail {
    /// The room that deals with it first.
    #[must_use]
    pub fn room(&self, topology: &Topology) -> Address<RoomMail> {
        match (self.request.joiner(), &self.member) {
            (Some(session), None) => topology.room_of(session.user_id),
            _ => topology.room_of_stream(&self.stream),
        }
    }

    /// What is told to who waits for it when it cannot be done.
    pub(crate) fn refusal(
        &self,
        topology: &Topology,
        error: RoomError,
    ) -> Option<(ThreadId, Mail)> {
        Some(self.reply?.answer(topology, Err(error)))
    }
}

/// A message of a client to its match.
#[derive(Debug, Serialize, Deserialize)]
pub struct MatchInput {
    /// The sender's session.
    pub session_id: Uuid,
    /// The match.
    pub id: MatchId,
    /// The opcode.
    pub op_code: i64,
    /// The payload, decoded.
    #[serde(with = "plain::bytes")]
    pub data: Bytes,
    /// Sessions to send to, for relayed matches, sorted and each once; empty for all others.
    #[serde(with = "plain::list")]
    pub to: SmallVec<[Uuid; 2]>,
    /// The client's flag.
    pub reliable: bool,
    /// Whether it came by datagram.
    pub by_datagram: bool,
    /// When it came, unix milliseconds.
    pub receive_time_ms: u64,
}

/// A `status_follow` on its way through the rooms.
#[derive(Debug, Serialize, Deserialize)]
pub struct Follow {
    /// Who follows.
    pub member: Member,
    /// The request's; none if a script wants it, and nobody is answered.
    pub cid: Option<String>,
    /// Whom to follow, still to be looked at.
    pub users: Vec<Uuid>,
    /// Who of those already looked at is online, with the status text.
    pub found: Vec<(Presence, String)>,
}

/// A WebSocket frame for one or more sockets of one core.
#[derive(Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// Header and payload, ready to send.
    #[serde(with = "plain::bytes")]
    pub frame: Bytes,
    /// To whom.
    #[serde(with = "conns")]
    pub to: SmallVec<[ConnId; 2]>,
    /// What the receivers' state machines should do besides sending.
    pub then: Then,
}

/// What follows a delivered frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    /// Nothing: it is an event.
    Nothing,
    /// Nothing either. It is about users, and older than nothing that the session has been told: it waits
    /// behind the answer that several rooms give to a `status_follow`.
    NewsOfUsers,
    /// Nothing either, and a receiver who is behind does not get it.
    DropIfBehind,
    /// It answers the request that the session is waiting for.
    Answered,
    /// The session's socket closes after it.
    Close(CloseCause),
    /// Nothing, and it is no frame but the body of a datagram ([`wire::datagram::MatchData`]): for who takes
    /// none it becomes a frame, which a receiver who is behind does not get if `drops`. Of this node alone.
    ByDatagram {
        /// Whether a frame is dropped.
        drops: bool,
    },
}

/// Why a room has a socket closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CloseCause {
    /// The user has another socket now.
    Replaced,
    /// Its match has failed.
    MatchFailed,
}

impl CloseCause {
    /// What the client is told.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            // Nakama says no more either (3.40, `server/session_registry.go`).
            Self::Replaced | Self::MatchFailed => "server-side session disconnect",
        }
    }
}

/// Formats as numbers.
mod format {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::Format;

    pub(super) fn serialize<S: Serializer>(format: &Format, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(*format == Format::Protobuf)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Format, D::Error> {
        let is_protobuf = bool::deserialize(from)?;
        Ok(if is_protobuf { Format::Protobuf } else { Format::Json })
    }
}

/// Connections as pairs of numbers.
mod conns {
    use event::ConnId;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use smallvec::SmallVec;

    type Conns = SmallVec<[ConnId; 2]>;

    pub(super) fn serialize<S: Serializer>(conns: &Conns, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(conns.iter().map(|conn| (conn.slot, conn.generation)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Conns, D::Error> {
        let conns = Vec::<(u32, u32)>::deserialize(from)?.into_iter();
        Ok(conns.map(|(slot, generation)| ConnId { slot, generation }).collect())
    }
}

/// What a room has done for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoomAnswer {
    /// The id of a match, or what its script says.
    Text(#[serde(with = "plain::bytes")] Bytes),
    /// Of a stream.
    Stream(StreamAnswer),
}

/// What is told to who asks for something that lives on a node that is away.
pub(crate) const AWAY: &str = "the node that this lives on is away";

/// Why a room could not do what a worker asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoomError {
    /// No such match, or session.
    NotFound,
    /// It has not answered in time.
    Silent,
    /// As many signals, or joins, wait for the match as may.
    Full,
    /// The match waits for the one that asks.
    Circle,
    /// Anything else, as the script should see it.
    Failed(String),
}

impl RoomError {
    /// Whether what was asked may still lie there.
    pub(crate) fn leaves_question(&self) -> bool {
        matches!(self, Self::Silent | Self::Circle)
    }
}

impl CoreMail {
    /// Its kind, for logs.
    fn kind(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::WakeUp => "wake-up",
            Self::Deliver(_) => "deliver",
            Self::Sessions(_) => "sessions",
            Self::Forward(_) => "forward",
            Self::TickRate { .. } => "tick rate",
            Self::Drained => "drained",
            Self::Nodes(_) => "nodes",
            Self::Guests(_) => "guests",
        }
    }
}

impl RoomMail {
    fn kind(&self) -> &'static str {
        match self {
            Self::Requests(_) => "requests",
            Self::Create { .. } => "create",
            Self::Signal { .. } => "signal",
            Self::Cancel { .. } => "cancel",
            Self::TakeBack { .. } => "take back",
            Self::Chase { .. } => "chase",
            Self::Answer { .. } => "answer",
            Self::Directory(_) => "directory",
            Self::Cache(_) => "cache",
            Self::Notify(_) => "notify",
            Self::Streams(_) => "streams",
            Self::Returned(_) => "returned",
            Self::Fetched(_) => "fetched",
            Self::Drain { .. } => "drain",
            Self::Nodes(_) => "nodes",
            Self::Zone(_) => "zone",
            Self::Guests(_) => "guests",
        }
    }
}

impl BatcherMail {
    fn kind(&self) -> &'static str {
        match self {
            Self::Jobs(_) => "jobs",
            Self::Calls(_) => "calls",
            Self::Zone(_) => "zone",
            Self::News(news) => news.kind(),
        }
    }
}

impl CallerMail {
    fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Call(_) => "call",
            Self::News(news) => news.kind(),
        }
    }
}

impl HasherMail {
    fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Call(_) => "call",
            Self::News(news) => news.kind(),
        }
    }
}

impl EventsMail {
    fn kind(&self) -> &'static str {
        match self {
            Self::Events(_) => "events",
            Self::Rule(_) => "rule",
            Self::News(news) => news.kind(),
        }
    }
}

impl News {
    fn kind(&self) -> &'static str {
        match self {
            Self::Directory(_) => "directory",
            Self::Cache(_) => "cache",
            Self::Nodes(_) => "nodes",
            Self::Answer { .. } => "answer",
            Self::Returned(_) => "returned",
            Self::Fetched(_) => "fetched",
            Self::Guests(_) => "guests",
            Self::NoGuests => "no_guests",
        }
    }
}

impl LoaderMail {
    fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Signal => "signal",
            Self::Watch => "watch",
            Self::Holds(_) => "holds",
            Self::Retired(_) => "retired",
            Self::Spent { .. } => "spent",
            Self::Took { .. } => "took",
        }
    }
}

impl ListerMail {
    fn kind(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Directory(_) => "directory",
            Self::Nodes(_) => "nodes",
        }
    }
}

impl GateMail {
    fn kind(&self) -> &'static str {
        match self {
            Self::Parcel(_) => "parcel",
            Self::Directory(_) => "directory",
            Self::Cache(_) => "cache",
            Self::Sessions(_) => "sessions",
            Self::Letter { .. } => "letter",
            Self::Node(_) => "node",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CoreMail, Mail};

    /// A core's mailbox has room for 65,536.
    #[test]
    fn mail_is_no_larger_than_its_largest_kind() {
        assert!(size_of::<Option<Mail>>() <= 96, "{} bytes", size_of::<Option<Mail>>());
        assert!(size_of::<CoreMail>() <= 32, "{} bytes", size_of::<CoreMail>());
    }
}
