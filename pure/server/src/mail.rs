//! What threads post to each other, and who is who. The only coupling between cores, rooms and
//! workers. No behaviour here.
//!
//! ```text
//! core ── Jobs, Job ──▶ worker ── Done ──▶ core        core ── Ask ──▶ room ── Deliver ──▶ core
//! worker ── Create, Signal, Cancel ──▶ room ── Answer ──▶ worker
//! room ── Directory ──▶ every thread that lists        worker, room ── Sever ──▶ every core
//! worker, room ── Notify ──▶ room                     core, worker, room ── Events ──▶ thread of events
//! ```

use std::sync::Arc;

use bytes::Bytes;
use event::{ConnId, ThreadId};
use game::api::{Answer, ApiCall, CallLane, Disconnect};
use game::cache::CacheChange;
use game::directory::DirectoryEvent;
use game::error::ApiError;
use game::events::Job as EventJob;
use game::guest::{CallContext, JoinRequest, Presence, ScriptError, ScriptFailure};
use game::match_id::MatchId;
use game::notifications::Sent;
use game::session::{Claims, Revocation};
use game::value::Value;
use smallvec::SmallVec;
use uuid::Uuid;
use wire::nakama::Envelope;
pub use wire::nakama::Format;

use crate::limits::slot_of;

/// Which threads there are. The same on every thread, fixed at start.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Threads with sockets.
    pub cores: Vec<ThreadId>,
    /// Threads with matches and presences.
    pub rooms: Vec<ThreadId>,
    /// The thread that answers API calls in database batches.
    pub batcher: ThreadId,
    /// Threads that run RPC functions and hooks.
    pub callers: Vec<ThreadId>,
    /// The thread that hashes passwords.
    pub hasher: ThreadId,
    /// The thread that lists matches.
    pub lister: ThreadId,
    /// The thread that runs the handlers of events; none, if the scripts have none.
    pub events: Option<ThreadId>,
}

impl Topology {
    /// The room on which the group with this id lives. Every bit of the id counts, because ids of
    /// users and matches made by other programs need not be random in any part.
    #[must_use]
    pub fn room_of(&self, id: Uuid) -> ThreadId {
        let (high, low) = id.as_u64_pair();
        let mixed = (high ^ low.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let index = usize::try_from(mixed).unwrap_or(0) % self.rooms.len().max(1);
        self.rooms.get(index).copied().unwrap_or(ThreadId(0))
    }

    /// The same with a thread for the handlers of events, behind all others.
    #[must_use]
    pub fn with_events(&self) -> Self {
        let last = self.everybody().max().unwrap_or(ThreadId(0));
        Self { events: Some(ThreadId(last.0 + 1)), ..self.clone() }
    }

    /// All threads.
    pub fn everybody(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.cores.iter().copied().chain(self.listers())
    }

    /// Every thread with scripts: those that keep a replica of the cache.
    pub fn scripted(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let rest = self.callers.iter().chain([&self.hasher]).chain(&self.events);
        self.rooms.iter().chain([&self.batcher]).chain(rest).copied()
    }

    /// Every thread that keeps a replica of the directory.
    pub fn listers(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.scripted().chain([self.lister])
    }
}

/// Where a session's socket is: enough to send to it from any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionAddress {
    /// The core that owns the socket.
    pub core: ThreadId,
    /// The connection on that core.
    pub conn: ConnId,
}

/// A session as rooms know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub presence: Presence,
    /// Where its socket is.
    pub address: SessionAddress,
    /// How it wants its messages.
    pub format: Format,
}

/// One thing posted from one thread to another.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Mail {
    /// Core to the batcher: all API calls of one turn.
    Jobs(Vec<Job>),
    /// Core to a caller, the hasher or the lister: one call, alone, so that its answer need not wait
    /// for others.
    Job(Box<Job>),
    /// Worker to core: finished jobs, in the order in which they came.
    Done(Vec<Done>),
    /// Worker or room to core: look into the mailbox, something was posted without waking.
    Look,
    /// Core to room: what the sessions of one turn want, in order.
    Requests(Vec<RoomRequest>),
    /// Room to core: frames to send, in order.
    Deliver(Vec<Delivery>),
    /// Worker to room: create an authoritative match.
    Create { ask: u64, from: ThreadId, id: Uuid, module: String, params: Value },
    /// Worker to room: signal an authoritative match.
    Signal { ask: u64, from: ThreadId, id: Uuid, data: Bytes },
    /// Worker to room: whoever asked to create this match has given up waiting; end it.
    Cancel { id: Uuid },
    /// Room to worker: what became of a `Create` or `Signal`.
    Answer { ask: u64, outcome: Result<Bytes, RoomError> },
    /// Room to listers: matches and online users changed, all of a turn. It waits until its receiver
    /// wakes for something else, so that it must be small.
    Directory(Arc<[DirectoryEvent]>),
    /// Any thread to listers: the scripts' cache changed, all of a turn.
    Cache(Arc<[CacheChange]>),
    /// Worker or room to every core: tokens that count no more, sockets that are to be closed.
    Sever(Arc<Severed>),
    /// Worker or room to room: notifications for the sockets of its users.
    Notify(Vec<Sent>),
    /// Core, worker or room to the thread of events: what has happened.
    Events(Vec<EventJob>),
    /// Room to core: this wish is done here and goes on to the next room, unless the session has
    /// ended meanwhile.
    Forward(Box<RoomRequest>),
    /// Room to core: the highest tick rate of its matches; 0 when it has none.
    TickRate { room: ThreadId, tick_rate_hz: u8 },
    /// Core to room, while stopping: end your matches within the grace, and tell this core.
    Drain { core: ThreadId },
    /// Room to core: no match is left.
    Drained,
}

/// What the calls of one turn have cut off, in the order in which cores deal with it. One mail to
/// each core, however much it is.
#[derive(Debug, Default)]
pub struct Severed {
    /// What tokens count no more, or again.
    pub revocations: Vec<Revocation>,
    /// Sessions whose sockets are to be closed. Every core gets them all and has some.
    pub sessions: Vec<Uuid>,
    /// Users all of whose sockets are to be closed, and why.
    pub users: Vec<(Uuid, Disconnect)>,
}

impl Severed {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.revocations.is_empty() && self.sessions.is_empty() && self.users.is_empty()
    }
}

/// Where a job went, so that the core can count what waits where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// To the batcher.
    Batcher,
    /// To the caller with this index. `closes`: nobody may wait behind it there.
    Caller {
        /// Which caller.
        index: usize,
        /// Whether the call may take long.
        closes: bool,
        /// The core's record of the function that is called (`limits`).
        function: u16,
    },
    /// To the thread that hashes passwords.
    Hasher,
    /// To the thread that lists matches.
    Lister,
}

/// Work for a worker.
#[derive(Debug)]
pub struct Job {
    /// Which worker has it; comes back in [`Done`].
    pub lane: Queue,
    /// Who wants the answer.
    pub address: SessionAddress,
    /// Which of its calls, where it may have several: the stream of gRPC. Comes back in [`Done`].
    pub stream: u32,
    /// How the answer to an API call is to be written.
    pub format: Format,
    /// What to do.
    pub work: Work,
    /// Who calls, if a user calls.
    pub caller: Option<Arc<Claims>>,
    /// The core's record of who is charged for it (`limits`); comes back in [`Done`].
    pub group: u32,
    /// The client's address as a number, if limits of addresses hold for it, else 0.
    pub client: u128,
}

impl Job {
    /// Between whom workers are fair: the core's user or address.
    pub(crate) fn line(&self) -> (ThreadId, u32) {
        (self.address.core, self.group)
    }
}

/// What a worker can do.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Work {
    /// An API call.
    Api(Box<ApiCall>),
    /// An RPC function.
    Rpc(Box<RpcJob>),
    /// Find users for `status_follow`.
    FindUsers { ids: Vec<Uuid>, usernames: Vec<String> },
    /// An API call with hooks around it.
    HookedApi(Box<HookedCall>),
    /// The before-hook of a realtime message.
    Before(Box<BeforeMessage>),
    /// The after-hook of a realtime message; nobody waits for it.
    After(Box<AfterMessage>),
    /// The scripts' shutdown function.
    Shutdown,
}

impl Work {
    /// Who does it: guest code is not for the batcher, where others wait behind it, and neither
    /// are passwords and listings. Where a caller has to be chosen, it is the first.
    #[must_use]
    pub fn lane(&self) -> Queue {
        match self {
            Self::Api(call) => match call.lane() {
                // Not where sockets are: a listing may be dear.
                CallLane::Core => Queue::Lister,
                CallLane::Read | CallLane::Write => Queue::Batcher,
                CallLane::Slow => Queue::Hasher,
            },
            Self::FindUsers { .. } => Queue::Batcher,
            Self::HookedApi(job) if job.call.lane() == CallLane::Slow => Queue::Hasher,
            Self::Rpc(_)
            | Self::HookedApi(_)
            | Self::Before(_)
            | Self::After(_)
            | Self::Shutdown => {
                Queue::Caller { index: 0, closes: false, function: self.function() }
            }
        }
    }
}

impl Work {
    /// About how much work it is for the database ([`ApiCall::weight_rows`]).
    pub(crate) fn weight_rows(&self) -> usize {
        match self {
            Self::Api(call) => call.weight_rows(),
            Self::FindUsers { ids, usernames } => ids.len() + usernames.len(),
            Self::Rpc(_)
            | Self::HookedApi(_)
            | Self::Before(_)
            | Self::After(_)
            | Self::Shutdown => 1,
        }
    }

    /// What function of the scripts it calls, as a place among the core's records.
    fn function(&self) -> u16 {
        match self {
            Self::Rpc(job) => slot_of(0, &job.id),
            Self::HookedApi(job) => slot_of(1, job.call.name()),
            Self::Before(job) => slot_of(2, name_of(&job.request)),
            Self::After(job) => slot_of(3, name_of(&job.request)),
            Self::Shutdown => slot_of(4, ""),
            Self::Api(_) | Self::FindUsers { .. } => 0,
        }
    }
}

/// The name of a realtime message.
fn name_of(request: &Envelope) -> &'static str {
    request.message.as_ref().map_or("", |message| message.name())
}

/// A call of an RPC function.
#[derive(Debug)]
pub struct RpcJob {
    /// Lower-cased id.
    pub id: String,
    /// The payload as the function sees it.
    pub payload: Bytes,
    /// Everything else that it sees.
    pub context: CallContext,
}

/// An API call whose name has hooks.
#[derive(Debug)]
pub struct HookedCall {
    /// What the client wants.
    pub call: ApiCall,
    /// What the hooks see of the caller.
    pub context: CallContext,
    /// Whether there is a before-hook.
    pub before: bool,
    /// Whether there is an after-hook.
    pub after: bool,
}

/// A realtime message on its way to its before-hook.
#[derive(Debug)]
pub struct BeforeMessage {
    /// The message.
    pub request: Envelope,
    /// What the hook sees of the sender.
    pub context: CallContext,
}

/// A realtime message that was handled, on its way to its after-hook.
#[derive(Debug)]
pub struct AfterMessage {
    /// The message.
    pub request: Envelope,
    /// The frame that answered it, if one did.
    pub answer: Option<Bytes>,
    /// How the answer is encoded.
    pub format: Format,
    /// What the hook sees of the sender.
    pub context: CallContext,
}

/// A finished job.
#[derive(Debug)]
pub struct Done {
    /// Which worker had it.
    pub lane: Queue,
    /// Whose job it was.
    pub conn: ConnId,
    /// The job's.
    pub stream: u32,
    /// The job's.
    pub group: u32,
    /// How long the worker was at it, milliseconds.
    pub took_ms: u32,
    /// What came of it.
    pub outcome: Outcome,
}

impl Done {
    /// Whether nothing was called, because there is no function of that name.
    pub(crate) fn is_of_no_function(&self) -> bool {
        matches!(&self.outcome, Outcome::Rpc(Err(error)) if error.kind == ScriptFailure::NotFound)
    }
}

/// What came of a job.
#[derive(Debug)]
pub enum Outcome {
    /// Of [`Work::Api`] and [`Work::HookedApi`].
    Api(Result<Answer, ApiError>),
    /// Of [`Work::Rpc`]; `None` is an empty answer.
    Rpc(Result<Option<Bytes>, ScriptError>),
    /// Of [`Work::FindUsers`].
    Users(Result<Vec<Uuid>, ApiError>),
    /// Of [`Work::Before`]: the message as it is to be handled, the same kind as before; `None`
    /// refuses it.
    Before(Result<Option<Box<Envelope>>, ScriptError>),
    /// Of [`Work::After`].
    After,
    /// Of [`Work::Shutdown`].
    Shutdown,
}

/// What a session wants of a room. Those with a `cid` are answered with exactly one
/// [`Delivery`] whose `answers` is set.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum RoomRequest {
    /// A socket opened; `online` when it asked to appear online.
    Opened { member: Member, online: bool },
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
    /// `status_follow`: passed from room to room ([`Mail::Forward`]) until `users` is empty, then
    /// answered.
    StatusFollow(Box<Follow>),
    /// `status_unfollow`, passed on the same way.
    StatusUnfollow { member: Member, cid: String, users: Vec<Uuid> },
}

/// A message of a client to its match.
#[derive(Debug)]
pub struct MatchInput {
    /// The sender's session.
    pub session_id: Uuid,
    /// The match.
    pub id: MatchId,
    /// The opcode.
    pub op_code: i64,
    /// The payload, decoded.
    pub data: Bytes,
    /// Sessions to send to, for relayed matches; empty for all others.
    pub to: SmallVec<[Uuid; 2]>,
    /// The client's flag.
    pub reliable: bool,
    /// When it came, unix milliseconds.
    pub receive_time_ms: u64,
}

/// A `status_follow` on its way through the rooms.
#[derive(Debug)]
pub struct Follow {
    /// Who follows.
    pub member: Member,
    /// The request's.
    pub cid: String,
    /// Whom to follow, still to be looked at.
    pub users: Vec<Uuid>,
    /// Who of those already looked at is online, with the status text.
    pub found: Vec<(Presence, String)>,
}

/// A WebSocket frame for one or more sockets of one core.
#[derive(Debug)]
pub struct Delivery {
    /// Header and payload, ready to send.
    pub frame: Bytes,
    /// To whom.
    pub to: SmallVec<[ConnId; 2]>,
    /// What the receivers' state machines should do besides sending.
    pub then: Then,
}

/// What follows a delivered frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing: it is an event.
    Nothing,
    /// Nothing either, and a receiver who is behind does not get it.
    DropIfBehind,
    /// It answers the request that the session is waiting for.
    Answered,
    /// The session's socket closes after it, with this text as the reason.
    Close(&'static str),
}

/// Why a room could not do what a worker asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomError {
    /// No such match.
    NotFound,
    /// Too many signals are waiting.
    Busy,
    /// Anything else, as the script should see it.
    Failed(String),
}

impl Mail {
    /// Its kind, for logs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Jobs(_) => "jobs",
            Self::Job(_) => "job",
            Self::Done(_) => "done",
            Self::Look => "look",
            Self::Requests(_) => "requests",
            Self::Deliver(_) => "deliver",
            Self::Create { .. } => "create",
            Self::Signal { .. } => "signal",
            Self::Cancel { .. } => "cancel",
            Self::Answer { .. } => "answer",
            Self::Directory(_) => "directory",
            Self::Cache(_) => "cache",
            Self::Sever(_) => "sever",
            Self::Notify(_) => "notify",
            Self::Events(_) => "events",
            Self::Forward(_) => "forward",
            Self::TickRate { .. } => "tick rate",
            Self::Drain { .. } => "drain",
            Self::Drained => "drained",
        }
    }
}
