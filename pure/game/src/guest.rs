//! The door to guest code: what the server asks of scripts ([`Scripts`], [`MatchScript`]), and
//! what running scripts may ask of the server ([`Host`], which the host table in `crate::host` is
//! written against). `edge/script` implements the first two, `pure/server` the last.
//!
//! Everything here runs on one thread: a script never outlives the `&mut dyn Host` it was lent.

use bytes::Bytes;
use event::{Now, Random};
use smallvec::SmallVec;
use thiserror::Error;

use crate::api::Style;
use crate::db::Database;
use crate::directory::Directory;
use crate::events::Event;
use crate::host::Meter;
use crate::notifications::Sent;
use crate::pairs::Pairs;
use crate::stream::{StreamAnswer, StreamId, StreamRequest};
use crate::value::Value;

/// A user's presence in a match or stream, as scripts see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Presence {
    /// The user's id.
    pub user_id: uuid::Uuid,
    /// The socket's session id.
    pub session_id: uuid::Uuid,
    /// The user's name when the session token was made.
    pub username: std::sync::Arc<str>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Other registrations, by name: `matchmaker_matched`, `shutdown`, `storage_index:<name>`, …
    pub events: Vec<String>,
    /// Loaded modules in order of loading.
    pub modules: Vec<String>,
    /// Where hooks and events are defined: `before <name>`, `after <name>` or `<event>`, and
    /// `<file>:<line>`. For messages; what cannot be told is missing.
    pub locations: Vec<(String, String)>,
    /// What the modules' author should hear before a player does.
    pub findings: Vec<Finding>,
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

    /// How hooks in this language see messages: with zero fields, and how names are spelled.
    fn form_style(&self) -> Style {
        Style::SNAKE
    }

    /// Runs an RPC function. `None` is an empty answer.
    ///
    /// # Errors
    /// [`ScriptError`], with [`ScriptFailure::NotFound`] when the id is not registered.
    fn rpc(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        id: &str,
        payload: &[u8],
    ) -> Result<Option<Bytes>, ScriptError>;

    /// Runs a before-hook on the request's JSON form; `None` means that the request is refused.
    ///
    /// # Errors
    /// [`ScriptError`].
    fn before(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        id: &str,
        payload: Value,
    ) -> Result<Option<Value>, ScriptError>;

    /// Runs an after-hook; its result does not reach the client.
    ///
    /// # Errors
    /// [`ScriptError`], for the log.
    fn after(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        id: &str,
        answer: Value,
        request: Value,
    ) -> Result<(), ScriptError>;

    /// Runs the function that is registered for something that has happened, such as `shutdown` or
    /// [`crate::events::EventKind::handler`], with what is to be known of it; nothing, if there is none.
    ///
    /// # Errors
    /// [`ScriptError`], for the log.
    fn event(
        &mut self,
        host: &mut dyn Host,
        context: &CallContext,
        name: &str,
        argument: Value,
    ) -> Result<(), ScriptError>;

    /// Makes a match of `module` in a VM of its own and runs `match_init`.
    ///
    /// # Errors
    /// [`ScriptError`], with [`ScriptFailure::NotFound`] when there is no such module.
    fn match_new(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
        params: Value,
    ) -> Result<(Box<dyn MatchScript>, MatchInit), ScriptError>;
}

/// One running authoritative match. In every method `Ok(None)` (or `Ok(false)`) means that the
/// callback returned nil: the match ends quietly. An error ends it and closes its players' sockets.
/// Dispatcher calls made inside go to [`Host::dispatcher`].
pub trait MatchScript {
    /// `match_join_attempt`.
    ///
    /// # Errors
    /// [`ScriptError`].
    fn join_attempt(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        request: &JoinRequest,
    ) -> Result<Option<JoinVerdict>, ScriptError>;

    /// `match_join` (`joined` true) or `match_leave`.
    ///
    /// # Errors
    /// [`ScriptError`].
    fn presences(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        joined: bool,
        presences: &[(Presence, PresenceReason)],
    ) -> Result<bool, ScriptError>;

    /// `match_loop`.
    ///
    /// # Errors
    /// [`ScriptError`].
    fn tick(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        messages: &[MatchMessage],
    ) -> Result<bool, ScriptError>;

    /// `match_signal`; the inner option is the text for the caller.
    ///
    /// # Errors
    /// [`ScriptError`].
    fn signal(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        data: &[u8],
    ) -> Result<Option<Bytes>, ScriptError>;

    /// `match_terminate`.
    ///
    /// # Errors
    /// [`ScriptError`].
    fn terminate(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        grace_s: u32,
    ) -> Result<bool, ScriptError>;

    /// Memory of this match's VM, bytes, for metrics.
    fn memory_bytes(&self) -> usize;
}

/// Why a host function refused; becomes an error in the script.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct HostError {
    /// The text that the script sees.
    pub message: String,
}

impl HostError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
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
    /// Creates an authoritative match; returns its id `<uuid>.<node>`.
    ///
    /// # Errors
    /// [`HostError`] with Nakama's texts.
    fn match_create(&mut self, module: &str, params: Value) -> Result<String, HostError>;
    /// Signals a match and waits for its answer.
    ///
    /// # Errors
    /// [`HostError`]: `match not found`, `match busy`, or the callback's own.
    fn match_signal(&mut self, match_id: &str, data: Bytes) -> Result<Bytes, HostError>;
    /// Wants something of a stream, and waits if its answer says anything
    /// ([`StreamRequest::is_answered`]); else it happens in the order of these calls, when the call
    /// ends or before the next one that waits.
    ///
    /// # Errors
    /// [`HostError`]: a limit, or [`crate::stream::no_session`].
    fn stream(
        &mut self,
        stream: &StreamId,
        request: StreamRequest,
    ) -> Result<StreamAnswer, HostError>;
    /// To be asked before `count` sessions, tokens or users are cut off by the three functions
    /// below: every core hears of each of them.
    ///
    /// # Errors
    /// [`HostError`]: this call has cut off too many.
    fn may_cut_off(&mut self, count: usize) -> Result<(), HostError>;
    /// Closes a session's socket with a reason. Unknown sessions are ignored.
    fn session_disconnect(&mut self, session_id: uuid::Uuid, reason: &str);
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
