//! Runs a call against the database: what the functions of the table share. See the rules about
//! batches in [`super`].

use event::{Now, Random};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::nakama::Format;

use super::call::{Auth, CallLane};
use super::table::ApiCall;
use crate::db::Database;
use crate::directory::Directory;
use crate::error::{ApiError, Code};
use crate::events::EventJob;
use crate::notifications::Sent;
use crate::session::{Claims, Revocation, Signer};

/// What a call may look at and use, lent by its thread.
pub struct Cx<'a> {
    /// The time.
    pub now: Now,
    /// The thread's randomness.
    pub random: &'a mut Random,
    /// The thread's connection.
    pub db: &'a mut dyn Database,
    /// The keys.
    pub signer: &'a Signer,
    /// The thread's replica, for listing matches and for who is online.
    pub directory: &'a Directory,
    /// How the answer is to be written.
    pub format: Format,
    /// How many bytes an answer may have.
    pub answer_bytes_max: usize,
    /// Whom the session token names, for calls that ask for one.
    pub caller: Option<&'a Claims>,
    /// What the call wants done once its answer is durable; empty to begin with.
    pub effects: Vec<Effect>,
    /// As [`Answer::session`]; `None` to begin with.
    pub session: Option<Box<Claims>>,
}

impl<'a> Cx<'a> {
    /// Whoever calls.
    pub(super) fn caller(&self) -> Result<&'a Claims, ApiError> {
        self.caller.ok_or_else(|| ApiError::new(Code::Unauthenticated, "Auth token required"))
    }

    /// The user who calls.
    pub(super) fn user_id(&self) -> Result<Uuid, ApiError> {
        Ok(self.caller()?.user_id)
    }

    /// Lets sockets have notifications once the answer is durable.
    pub(super) fn notify(&mut self, sent: Vec<Sent>) {
        self.effects.extend(sent.into_iter().map(Effect::Notify));
    }
}

/// A limit of a request, or an error that names its range.
pub(super) fn limit(given: Option<i32>, default: i32, max: usize) -> Result<usize, ApiError> {
    let limit = usize::try_from(given.unwrap_or(default)).unwrap_or(0);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    Err(ApiError::invalid(format!("Invalid limit - limit must be between 1 and {max}.")))
}

/// What a successful call gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The body, in the format that was asked for.
    pub body: Vec<u8>,
    /// What is to be done once the answer is durable.
    pub effects: Vec<Effect>,
    /// What the session's token says that the answer holds, of a call that begins or renews one.
    pub session: Option<Box<Claims>>,
}

/// Something that a call wants of the rest of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Every core's [`crate::session::Revocations`] are to take this.
    Revoke(Revocation),
    /// All of a user's sockets are to be closed.
    Disconnect {
        /// Whose.
        user_id: Uuid,
        /// Why.
        cause: Disconnect,
    },
    /// Sockets are to have notifications.
    Notify(Sent),
    /// A handler of the scripts is to hear of an event.
    Event(Box<EventJob>),
}

/// Why a user's sockets are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disconnect {
    /// The account is gone.
    Deleted,
    /// The user was banned; it is told so first (as in Nakama).
    Banned,
}

/// Runs `call`. Its caller must be given where [`ApiCall::auth`] asks for one. A call of
/// [`CallLane::Slow`] must be run with no transaction open.
///
/// # Errors
/// [`ApiError`], to be answered as it is. Nothing that this call wrote remains then.
pub fn run(mut cx: Cx<'_>, call: &ApiCall) -> Result<Answer, ApiError> {
    let is_slow = call.lane() == CallLane::Slow;
    debug_assert!(!is_slow || !cx.db.in_transaction(), "a hash inside a transaction");
    if call.auth() == Auth::Bearer {
        cx.caller()?;
    }
    let body = call.run(&mut cx)?;
    if body.len() > cx.answer_bytes_max && call.may_be_large() {
        return Err(ApiError::answer_too_large(cx.answer_bytes_max));
    }
    Ok(Answer { body, effects: cx.effects, session: cx.session })
}
