//! The door to guest code: what the server asks of scripts ([`Scripts`], [`MatchScript`]), and
//! what running scripts may ask of the server ([`Host`], which the host table in `crate::host` is
//! written against). `edge/script` implements the first two, `pure/server` the last.
//!
//! A call runs on one thread, in pieces: until it ends, or waits for something ([`Step`]). While it
//! waits others run. A piece never outlives the `&mut dyn Host` that it was lent.

mod wait;

use std::collections::BTreeMap;

use bytes::Bytes;
use event::{Now, Random};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use thiserror::Error;

use crate::api::Style;
use crate::db::{Database, MayConflict};
use crate::directory::Directory;
use crate::events::Event;
use crate::fetch::Principal;
use crate::host::{Args, HostFunction, Meter};
use crate::node::NodeId;
use crate::notifications::Sent;
use crate::pairs::Pairs;
use crate::stream::{StreamId, StreamRequest};
use crate::value::Value;

pub use wait::{Allowance, Answer, Ask, CallId, Reply, Step};

/// A version of the modules: each loading of their folder has a number of its own, from 1. A call runs on
/// the version on which it began, a match on that which made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestVersion(pub u32);

impl GuestVersion {
    /// What the server started with.
    pub const FIRST: Self = Self(1);

    /// The number of the next loading.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl std::fmt::Display for GuestVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A user's presence in a match or stream, as scripts see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Presence {
    /// The user's id.
    pub user_id: uuid::Uuid,
    /// The socket's session id.
    pub session_id: uuid::Uuid,
    /// The user's name when the session token was made.
    #[serde(with = "crate::plain::text")]
    pub username: std::sync::Arc<str>,
    /// Where the socket is.
    pub node: NodeId,
}

/// Why presences came or went; the number is what scripts see as `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PresenceReason {
    /// Not known.
    Unknown = 0,
    /// Joined.
    Join = 1,
    /// Changed its status.
    Update = 2,
    /// Left by itself or was kicked.
    Leave = 3,
    /// The socket closed.
    Disconnect = 4,
}

/// What a call knows about its caller; becomes the script's `context` table. Absent fields are
/// absent there too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallContext {
    /// `rpc`, `before`, `after`, `match`, `match_create`, `run_once`, …
    pub execution_mode: &'static str,
    /// The calling user, if a user calls.
    pub user_id: Option<uuid::Uuid>,
    /// The calling user's name.
    pub username: Option<String>,
    /// The session variables of the caller's token.
    pub vars: Vec<(String, String)>,
    /// When the caller's token expires, unix seconds.
    pub user_session_exp: Option<u64>,
    /// The socket's session id, for calls that came over a socket.
    pub session_id: Option<uuid::Uuid>,
    /// The socket's language.
    pub lang: Option<String>,
    /// The caller's address, without the port.
    pub client_ip: Option<String>,
    /// The caller's port.
    pub client_port: Option<String>,
    /// Request headers, canonical names, for HTTP calls.
    pub headers: Pairs,
    /// Query parameters, for HTTP calls.
    pub query_params: Pairs,
}

/// What a match's callbacks know besides their arguments.
#[derive(Clone, Debug)]
pub struct MatchContext {
    /// `<uuid>.<node>`.
    pub match_id: String,
    /// The label at the moment.
    pub label: String,
    /// Ticks a second; 0 before `match_init` has told.
    pub tick_rate_hz: u8,
}

/// Where a script failed, and how: everything that its author needs to find the line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct ScriptError {
    /// gRPC code 1–16: the script's own, else 13.
    pub code: u8,
    /// The text for the client, without file and line.
    pub message: String,
    /// Module, line and, if wanted, the traceback; for the log and for budget errors.
    pub location: String,
    /// Why it ended.
    pub kind: ScriptFailure,
}

/// Kinds of failure, each with its own counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScriptFailure {
    /// The script raised an error, or returned the wrong thing.
    Raised,
    /// It used up its time budget.
    OutOfTime,
    /// It used up its memory budget.
    OutOfMemory,
    /// There is no such function or module.
    NotFound,
    /// What it waited for did not come in time, or nobody is there any more who could take it up.
    Cancelled,
    /// It was ended while it waited, for what calls of its user or address held: they had too much of the memory.
    Shed,
}

/// What `match_init` returned. The caller checks tick rate (1–60) and label (≤ 2,048 bytes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchInit {
    /// Ticks a second as the script gave it.
    pub tick_rate_hz: i64,
    /// The label as the script gave it.
    pub label: String,
}

/// Who asks to join a match, for `match_join_attempt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The user.
    pub presence: Presence,
    /// What the client sent along.
    pub metadata: Vec<(String, String)>,
    /// The session variables of the client's token.
    pub vars: Vec<(String, String)>,
    /// When the client's token expires, unix seconds.
    pub user_session_exp: u64,
    /// The client's address, without the port.
    pub client_ip: Option<String>,
    /// The client's port.
    pub client_port: Option<String>,
}

/// What `match_join_attempt` returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinVerdict {
    /// Whether the user may join.
    pub allow: bool,
    /// The text for a refused user; empty for none.
    pub reason: String,
}

/// One message waiting for `match_loop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchMessage {
    /// Who sent it.
    pub sender: Presence,
    /// The client's opcode.
    pub op_code: i64,
    /// The payload, decoded.
    pub data: Bytes,
    /// The client's reliable flag.
    pub reliable: bool,
    /// When it was received, unix milliseconds.
    pub receive_time_ms: u64,
}

/// A module version's registered entry points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Lower-case RPC ids.
    pub rpc: Vec<String>,
    /// Lower-case message or call names with a before-hook (realtime ones start with `rt:`).
    pub before: Vec<String>,
    /// The same for after-hooks.
    pub after: Vec<String>,
    /// Those of the above, as `rpc <id>`, `before <name>` or `after <name>`, in a language whose calls do not
    /// give their thread back within a slice.
    pub blocking: Vec<String>,
    /// Other registrations, by name: `matchmaker_matched`, `shutdown`, `storage_index:<name>`, …
    pub events: Vec<String>,
    /// Loaded modules in order of loading.
    pub modules: Vec<String>,
    /// Where functions are defined: `rpc <id>`, `before <name>`, `after <name>` or `<event>`, and
    /// `<file>:<line>`. For messages; what cannot be told is missing.
    pub locations: Vec<(String, String)>,
    /// What the modules' author should hear before a player does.
    pub findings: Vec<Finding>,
}

impl Registered {
    /// All of it is in a language that blocks.
    pub fn block_all(&mut self) {
        let kinds = [("rpc", &self.rpc), ("before", &self.before), ("after", &self.after)];
        let named = |(kind, ids): (&str, &Vec<String>)| {
            ids.iter().map(|id| format!("{kind} {id}")).collect::<Vec<_>>()
        };
        self.blocking = kinds.into_iter().flat_map(named).collect();
    }
}

/// One thing about the modules that their author should know. The modules have loaded all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is certain to fail when it is run; else it may be meant.
    pub is_certain: bool,
    /// File and line, what is wrong, and what to do.
    pub text: String,
}

/// The guest code of one thread. Made by `edge/script`, one for every room and worker thread that
/// runs scripts; the instances share nothing but the source text.
pub trait Scripts {
    /// What the modules registered.
    fn registered(&self) -> &Registered;

    /// How a hook sees messages.
    fn hook_form(&self, _hook: Callee<'_>) -> HookForm {
        HookForm::default()
    }

    /// Whether a call of this function can begin without making first what takes long to make. To be asked where
    /// others wait for the thread: there nothing is made, and a call for which there is no room is run elsewhere.
    fn has_room(&self, _callee: Callee<'_>) -> bool {
        true
    }

    /// Begins a call under a number of its own, and runs it until it ends or waits. One that has no
    /// function ends with [`ScriptFailure::NotFound`]; of an event that nobody handles nothing comes.
    fn call(
        &mut self,
        host: &mut dyn Host,
        id: CallId,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Step<Returned>;

    /// Goes on with a call that waits.
    ///
    /// # Panics
    /// No such call waits.
    fn resume(&mut self, host: &mut dyn Host, id: CallId, answer: Answer) -> Step<Returned>;

    /// Goes on with a call that is paused ([`Step::Paused`]).
    ///
    /// # Panics
    /// No such call is, or none ever is in this language.
    fn go_on(&mut self, _host: &mut dyn Host, id: CallId) -> Step<Returned> {
        unreachable!("{id:?} is not paused")
    }

    /// Ends a call that waits or is paused: nothing more of it runs. Of one that does not wait nothing happens.
    fn cancel(&mut self, id: CallId);

    /// Where a call stands that waits or is paused, `file:line`, for the log of one that is ended there; empty
    /// in a language that does not say.
    fn location(&self, _id: CallId) -> String {
        String::new()
    }

    /// What calls that wait have to give back of the memory that they share, so that others have enough: bytes as
    /// [`Self::weight_bytes`] counts them, 0 if they hold no more than they may. To be asked when a call has begun
    /// to wait, and again when calls have been ended for it; to find it out may collect what is garbage. Of several
    /// languages, each with memory of its own, it is that of one, and the next time of the next.
    fn excess_bytes(&mut self) -> usize {
        0
    }

    /// What a call that waits has taken of that memory, bytes, 0 if it has other memory, as one in another language
    /// than that which [`Self::excess_bytes`] has found to hold too much. All calls of one who pays
    /// for them ([`Host::payer`]) hold together no more than that, but for what is said in `docs/lua/waiting.md`;
    /// which of them has how much of it is a guess. What they dropped while they ran is included.
    fn weight_bytes(&self, _id: CallId) -> usize {
        0
    }

    /// What runs calls, once they have used up its memory on a thread that is not to be kept by making it
    /// anew. It is given once; no call may begin here any more, and those that wait or are paused
    /// end with an error when they are gone on with. Where a language makes it anew by itself, or needs
    /// nothing of the kind, there is never any.
    fn take_spent(&mut self) -> Option<Retired> {
        None
    }

    /// Whether the call that has used that up found nearly all of it used: then others have taken most of it.
    fn is_spent_by_others(&self) -> bool {
        false
    }

    /// What calls have left behind that takes long to free, where others wait for the thread: for another one.
    fn take_left(&mut self) -> Option<Retired> {
        None
    }

    /// Loads `module` for a match, in a VM of its own; [`MatchCall::Init`] is to be called first.
    ///
    /// # Errors
    /// [`ScriptError`], with [`ScriptFailure::NotFound`] when there is no such module.
    fn match_new(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
    ) -> Result<Box<dyn MatchScript>, ScriptError>;
}

/// Guest code that its thread is done with. To free it may take longer than others on that thread are to
/// wait, so that another one does it.
pub struct Retired(#[expect(dead_code, reason = "to be dropped")] Box<dyn Send>);

impl Retired {
    /// What ran there.
    #[must_use]
    pub fn new(what: impl Send + 'static) -> Self {
        Self(Box::new(what))
    }
}

impl std::fmt::Debug for Retired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Retired").finish_non_exhaustive()
    }
}

/// What is registered under this name, whose case does not count, and the name as it was registered. Guests' names
/// of calls, messages and events are registered in small letters.
#[must_use]
pub fn in_any_case<'a, T>(names: &'a BTreeMap<String, T>, name: &str) -> Option<(&'a str, &'a T)> {
    let small = || names.get_key_value(&name.to_lowercase());
    names.get_key_value(name).or_else(small).map(|(name, found)| (name.as_str(), found))
}

/// Which function is called, of those that are called where others wait for the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee<'a> {
    /// The RPC function of this id.
    Rpc(&'a str),
    /// The before-hook of this name.
    Before(&'a str),
    /// The after-hook of this name.
    After(&'a str),
}

/// How a hook sees messages, and what it looks at: what it does not need not be made for it, and may be
/// [`Value::Nil`] in its [`GuestCall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookForm {
    /// With zero fields, and how names are spelled.
    pub style: Style,
    /// Whether it reads anything of the answer, for an after-hook.
    pub reads_answer: bool,
    /// Whether it reads anything of the request.
    pub reads_request: bool,
}

impl Default for HookForm {
    fn default() -> Self {
        Self { style: Style::SNAKE, reads_answer: true, reads_request: true }
    }
}

/// What is called of the guest code of a thread.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum GuestCall<'a> {
    /// The RPC function `id` with what the client sent.
    Rpc { id: &'a str, payload: &'a [u8] },
    /// The before-hook `id` with the request's JSON form.
    Before { id: &'a str, request: Value },
    /// The after-hook `id`; its result does not reach the client.
    After { id: &'a str, answer: Value, request: Value },
    /// What is registered for something that has happened, such as `shutdown`,
    /// [`crate::events::EventKind::handler`] or [`crate::rules::ZoneRule::handler`], with what is to be known of it.
    Event { name: &'a str, argument: Value },
}

/// What came of a [`GuestCall`].
#[derive(Clone, Debug, PartialEq)]
pub enum Returned {
    /// Of an RPC function: its answer, if it has one.
    Rpc(Option<Bytes>),
    /// Of a before-hook: the request that takes its place; `None` refuses it.
    Before(Option<Value>),
    /// Of a rule of the zone: what it was given, changed or not; `None` leaves it as it was.
    Rule(Option<Value>),
    /// Of an after-hook or an event.
    Nothing,
}

/// One running authoritative match. An error of a callback ends it and closes its players' sockets.
/// Dispatcher calls made inside go to [`CommonHost::dispatcher`].
pub trait MatchScript {
    /// Begins a callback and runs it until it ends or waits.
    ///
    /// # Panics
    /// Another one waits: callbacks of a match never overlap.
    fn call(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        call: MatchCall<'_>,
    ) -> Step<MatchReturned>;

    /// Goes on with the callback that waits.
    ///
    /// # Panics
    /// None does.
    fn resume(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        answer: Answer,
    ) -> Step<MatchReturned>;

    /// Where the callback that waits stands, as [`Scripts::location`]; empty if none waits.
    fn location(&self) -> String {
        String::new()
    }

    /// Memory of this match's VM, bytes, for metrics.
    fn memory_bytes(&self) -> usize;
}

/// A callback of a match.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum MatchCall<'a> {
    /// `match_init`, once and first.
    Init { params: &'a Value },
    /// `match_join_attempt`.
    JoinAttempt(&'a JoinRequest),
    /// `match_join` (`joined` true) or `match_leave`.
    Presences { joined: bool, presences: &'a [(Presence, PresenceReason)] },
    /// `match_loop`.
    Loop(&'a [MatchMessage]),
    /// `match_signal`.
    Signal(&'a [u8]),
    /// `match_terminate`.
    Terminate { grace_s: u32 },
}

/// What came of a [`MatchCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchReturned {
    /// Of `match_init`.
    Init(MatchInit),
    /// Of `match_join_attempt`.
    Verdict(JoinVerdict),
    /// Of `match_signal`: the text for the caller.
    Signal(Bytes),
    /// Of the others: the match goes on.
    GoesOn,
    /// It returned nil: the match ends quietly.
    Ends,
}

/// Why a host function refused; becomes an error in the script.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct HostError {
    /// The text that the script sees.
    pub message: String,
    is_conflict: bool,
}

impl HostError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_conflict: false }
    }

    /// The same where another writer was in the way.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_conflict: true }
    }
}

impl MayConflict for HostError {
    fn is_conflict(&self) -> bool {
        self.is_conflict
    }
}

/// How bad a log line of a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For developers.
    Debug,
    /// Normal.
    Info,
    /// Somebody should look.
    Warn,
    /// Something failed.
    Error,
}

/// What a running script may ask of the server. Implemented by `pure/server` for workers and for
/// rooms; the functions of `crate::host` are written against it: those whose row has no mark of the
/// database against [`CommonHost`] alone.
pub trait Host: CommonHost {
    /// The thread's database connection.
    fn db(&mut self) -> &mut dyn Database;

    /// Who pays for what a call holds while it waits: it counts with what else waits of theirs. Of
    /// [`Principal::Server`] each call stands for itself.
    fn payer(&self) -> Principal {
        Principal::Server
    }

    /// Whether a function commits what it wrote before it returns. Else whoever lent this host does, for
    /// several calls at once, and answers them then.
    fn commits(&self) -> bool {
        true
    }

    /// Hears that another writer was in the way of a function, where the host commits and so tries again.
    fn meets_writer(&mut self) {}

    /// For how long the call may compute, microseconds, if that is less than its language allows all
    /// calls. What is stopped then its author never sees.
    fn slice_us(&self) -> Option<u32> {
        None
    }

    /// Hears of each function of the table before it runs.
    ///
    /// # Errors
    /// [`HostError`]: it cannot run here. What becomes of the call is the host's business then.
    fn begins(&mut self, _function: &HostFunction, _args: &Args<'_>) -> Result<(), HostError> {
        Ok(())
    }

    /// Hears of a call whose language may keep the thread for longer than a slice, before anything of it
    /// runs.
    ///
    /// # Errors
    /// [`HostError`]: not on this thread.
    fn keeps_thread(&mut self) -> Result<(), HostError> {
        Ok(())
    }
}

/// What a script wants a session to follow.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FollowWish {
    /// Who follows.
    pub session_id: uuid::Uuid,
    /// Whose status it is told of.
    pub users: Vec<uuid::Uuid>,
    /// Whether from now on, or no more.
    pub follows: bool,
}

/// The part of [`Host`] that is at hand on every thread: all but the database.
pub trait CommonHost {
    /// The time.
    fn now(&self) -> Now;
    /// The thread's randomness.
    fn random(&mut self) -> &mut Random;
    /// Settings that scripts may see.
    fn settings(&self) -> &HostSettings;
    /// What all matches are at the moment.
    fn directory(&self) -> &Directory;
    /// The thread's share of the process-wide cache of `localcache_*`.
    fn cache(&mut self) -> &mut crate::cache::Cache;
    /// What scripts may have of the machine.
    fn machine(&self) -> &dyn Machine;
    /// A log line of the script.
    fn log(&mut self, level: LogLevel, text: &str);
    /// Does what a call would wait for, and keeps the thread until it is done; for calls that cannot
    /// wait where they are.
    ///
    /// # Errors
    /// [`HostError`] with Nakama's texts, or that it is not possible here.
    fn ask(&mut self, ask: Ask) -> Answer;
    /// Wants something of a stream of which no answer comes ([`StreamRequest::is_answered`]). It
    /// happens in the order of these calls, when the call ends or before it waits.
    ///
    /// # Errors
    /// [`HostError`]: a limit.
    fn stream(&mut self, stream: &StreamId, request: StreamRequest) -> Result<(), HostError>;
    /// To be asked before `count` sessions, tokens or users are cut off or followed by the four functions
    /// below: every core hears of each of them.
    ///
    /// # Errors
    /// [`HostError`]: this call has had too many.
    fn may_cut_off(&mut self, count: usize) -> Result<(), HostError>;
    /// Closes a session's socket with a reason. Unknown sessions are ignored.
    fn session_disconnect(&mut self, session_id: uuid::Uuid, reason: &str);
    /// Lets a session follow users, or not any more. Unknown sessions and users are ignored.
    fn status_follow(&mut self, wish: FollowWish);
    /// Lets every core know what is revoked; it is in the database already.
    fn revoke(&mut self, revocation: crate::session::Revocation);
    /// Closes all sockets of a user who was deleted or banned.
    fn user_disconnect(&mut self, user_id: uuid::Uuid, cause: crate::api::Disconnect);
    /// To be asked before `count` notifications with so many bytes of text are sent: they wait for the
    /// end of the call in the server's memory, not in the script's.
    ///
    /// # Errors
    /// [`HostError`]: this call has sent too many.
    fn may_notify(&mut self, count: usize, bytes: usize) -> Result<(), HostError>;
    /// Shows notifications to sockets; those that are to be kept are in the database already.
    fn notify(&mut self, sent: Vec<Sent>);
    /// Hands an event to the handlers of the scripts. What there is no room for is forgotten, and
    /// counted.
    fn event(&mut self, event: Event);
    /// The dispatcher of the match whose callback is running; `None` outside of matches.
    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher>;
}

/// What scripts may have of the machine: implemented at the edge, because nothing in here opens a
/// file or is read by another thread.
pub trait Machine {
    /// The bytes of a file below the folder of the modules.
    ///
    /// # Errors
    /// [`HostError`]: there is no such file, it lies outside, or it does not fit into what `meter`
    /// has left.
    fn file_read(&self, path: &str, meter: &dyn Meter) -> Result<Bytes, HostError>;
    /// The settings that are no secret, under Nakama's names.
    fn config(&self) -> Value;
    /// Takes a value of a script's metric. What cannot be kept is counted there.
    fn record(&self, now: Now, metric: &Metric<'_>);
}

/// A machine that has nothing, for tests and simulations.
#[derive(Clone, Copy, Debug)]
pub struct NoMachine;

impl Machine for NoMachine {
    fn file_read(&self, _path: &str, _meter: &dyn Meter) -> Result<Bytes, HostError> {
        Err(HostError::new("failed to open file: there are no files here"))
    }

    fn config(&self) -> Value {
        Value::Map(Vec::new())
    }

    fn record(&self, _now: Now, _metric: &Metric<'_>) {}
}

/// What a metric of a script does with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Adds them up.
    Counter,
    /// Shows the last one.
    Gauge,
    /// Adds up seconds, and how often.
    Timer,
}

/// One value of a script's metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric<'a> {
    /// What to do with it.
    pub kind: MetricKind,
    /// As the script names it: any text, at most 128 bytes.
    pub name: &'a str,
    /// Names and values of tags: any texts of at most 128 bytes, at most 16 of them.
    pub tags: &'a [(String, String)],
    /// What to add or set; seconds for a timer. Any number.
    pub value: f64,
}

/// Most bytes of a match's label.
pub const LABEL_BYTES_MAX: usize = 2_048;

/// Refuses a label that is too long.
///
/// # Errors
/// [`HostError`] `match label too long, must be 0-2048 bytes`.
pub fn check_label(label: &str) -> Result<(), HostError> {
    if label.len() > LABEL_BYTES_MAX {
        let text = format!("match label too long, must be 0-{LABEL_BYTES_MAX} bytes");
        return Err(HostError::new(text));
    }
    Ok(())
}

/// The dispatcher of a running match. Effects are kept in order and sent when the callback ends.
pub trait Dispatcher {
    /// Sends `data` to members. `to` `None` is all, an empty list nobody; those who are not
    /// members are left out.
    ///
    /// # Errors
    /// [`HostError`] `match stopped`, or too many deferred messages.
    fn broadcast(&mut self, message: Broadcast) -> Result<(), HostError>;
    /// Removes members.
    fn kick(&mut self, sessions: &[uuid::Uuid]);
    /// Changes the label.
    ///
    /// # Errors
    /// As [`check_label`].
    fn label_update(&mut self, label: &str) -> Result<(), HostError>;
}

/// One message of a match to its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broadcast {
    /// The opcode.
    pub op_code: i64,
    /// The payload.
    pub data: Bytes,
    /// Session ids to send to; `None` for all members.
    pub to: Option<SmallVec<[uuid::Uuid; 8]>>,
    /// Who appears as the sender; `None` for the server.
    pub sender: Option<Presence>,
    /// The reliable flag of the message.
    pub reliable: bool,
    /// Sent when the callback ends, after those that are not deferred.
    pub deferred: bool,
}

/// Settings that host functions need.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// `name`: the node's.
    pub node: String,
    /// `runtime.env`, parsed.
    pub env: Vec<(String, String)>,
    /// The version of this program.
    pub version: String,
    /// `runtime.log_lines_per_second_max`: of the scripts of one thread.
    pub log_lines_max: u32,
    /// For `authenticate_token_generate`.
    pub session: crate::session::SessionSettings,
}
