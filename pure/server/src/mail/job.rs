//! Work of cores for workers and the lister, and what comes of it. No behaviour here, but for where
//! work goes and how much it is.

use std::sync::Arc;

use bytes::Bytes;
use event::{CallTime, ConnId, ThreadId};
use game::api::{Answer, ApiCall, CallLane};
use game::error::ApiError;
use game::guest::{CallContext, Callee, GuestVersion, ScriptError, ScriptFailure};
use game::session::Claims;
use uuid::Uuid;
use wire::nakama::{Envelope, Format};

use super::SessionAddress;
use crate::limits::slot_of;

/// Between whom workers are fair: a user or address of this core, a match of this room.
pub type Line = (ThreadId, u32);

/// A function of the scripts, as a core keeps records of it. What is learnt of it counts for one version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its place among the core's records (`limits`).
    pub slot: u16,
    /// The version that the core knew when it handed the call out.
    pub version: GuestVersion,
}

/// Where a job went, so that the core can count what waits where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// To the batcher.
    Batcher,
    /// The same, of an RPC function that runs in the batch.
    Batched {
        /// As of a caller.
        function: Function,
    },
    /// To the caller with this index. `closes`: nobody may wait behind it there.
    Caller {
        /// Which caller.
        index: usize,
        /// Whether the call may take long.
        closes: bool,
        /// Whether it counts as one of its user's while it waits for another thread.
        keeps: bool,
        /// What callers that had it before could do of it.
        tried: Tried,
        /// The function that is called.
        function: Function,
    },
    /// To the core's companion.
    Companion {
        /// As of the caller.
        function: Function,
    },
    /// It was at a caller or a companion, and waits for another thread, or for its next slice: nobody
    /// waits behind it there.
    Waiting {
        /// As of the caller.
        function: Function,
        /// As of the caller.
        keeps: bool,
    },
    /// To the thread that hashes passwords.
    Hasher,
    /// To the thread that lists matches.
    Lister,
    /// To the thread that loads modules again.
    Loader,
}

impl Queue {
    /// What callers that had it before could do of it.
    pub(crate) fn tried(self) -> Tried {
        match self {
            Self::Caller { tried, .. } => tried,
            _ => Tried::No,
        }
    }
}

/// What callers could do of a call that has come back from one whose scripts' memory is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tried {
    /// It has not come back.
    #[default]
    No,
    /// It has, and has not begun.
    GivenBack,
    /// It has, and had begun; nothing of it has happened.
    Begun,
}

/// Work for a worker.
#[derive(Debug)]
pub struct Job {
    /// Which worker has it; comes back in [`Done`].
    pub queue: Queue,
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
    /// Whose it is.
    pub(crate) fn line(&self) -> Line {
        (self.address.core.thread(), self.group)
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
    /// The next step of an API call that has hooks.
    Hooked(Box<HookedCall>),
    /// The before-hook of a realtime message.
    Before(Box<BeforeMessage>),
    /// The after-hook of a realtime message; nobody waits for it.
    After(Box<AfterMessage>),
    /// The scripts' shutdown function.
    Shutdown,
    /// Loading the modules again.
    Reload,
}

impl Work {
    /// Who does it: guest code is not for the batcher, where others wait behind it (but for what its core
    /// knows to be quick), and neither are passwords and listings. Where a caller has to be chosen, it is
    /// the first.
    #[must_use]
    pub fn queue(&self) -> Queue {
        match self {
            Self::Api(call) => match call.lane() {
                // Not where sockets are: a listing may be dear.
                CallLane::Core => Queue::Lister,
                CallLane::Read | CallLane::Write => Queue::Batcher,
                CallLane::Slow => Queue::Hasher,
            },
            Self::FindUsers { .. } => Queue::Batcher,
            Self::Reload => Queue::Loader,
            Self::Hooked(hooked) if hooked.step == HookStep::Call => match hooked.call.lane() {
                // The lister answers calls alone, and a caller lists as well.
                CallLane::Core => self.caller(),
                CallLane::Read | CallLane::Write => Queue::Batcher,
                CallLane::Slow => Queue::Hasher,
            },
            Self::Rpc(_) | Self::Hooked(_) | Self::Before(_) | Self::After(_) | Self::Shutdown => {
                self.caller()
            }
        }
    }

    fn caller(&self) -> Queue {
        // Whoever hands it out knows the version.
        let function = Function { slot: self.function(), version: GuestVersion::default() };
        Queue::Caller { index: 0, closes: false, keeps: false, tried: Tried::No, function }
    }

    /// Whether it is done however much waits, and whoever is gone: what it belongs to has happened.
    pub(crate) fn is_owed(&self) -> bool {
        match self {
            Self::Hooked(hooked) => matches!(hooked.step, HookStep::After(_)),
            Self::Shutdown => true,
            _ => false,
        }
    }
}

impl Work {
    /// About how much work it is for the database ([`ApiCall::weight_rows`]).
    pub(crate) fn weight_rows(&self) -> usize {
        match self {
            Self::Api(call) => call.weight_rows(),
            Self::FindUsers { ids, usernames } => ids.len() + usernames.len(),
            Self::Hooked(hooked) if hooked.step == HookStep::Call => hooked.call.weight_rows(),
            Self::Rpc(_)
            | Self::Hooked(_)
            | Self::Before(_)
            | Self::After(_)
            | Self::Shutdown
            | Self::Reload => 1,
        }
    }

    /// Which function of the scripts it calls, if it may run where others wait for the thread.
    pub(crate) fn callee(&self) -> Option<Callee<'_>> {
        match self {
            Self::Rpc(job) => Some(Callee::Rpc(&job.id)),
            Self::Hooked(hooked) => match hooked.step {
                HookStep::Before => Some(Callee::Before(hooked.call.name())),
                HookStep::After(_) => Some(Callee::After(hooked.call.name())),
                HookStep::Call => None,
            },
            _ => None,
        }
    }

    /// What function of the scripts it calls, as a place among the core's records.
    fn function(&self) -> u16 {
        match self {
            Self::Rpc(job) => slot_of(0, &job.id),
            Self::Hooked(hooked) => {
                let kind = match hooked.step {
                    HookStep::Before => 1,
                    HookStep::After(_) => 5,
                    HookStep::Call => 6,
                };
                slot_of(kind, hooked.call.name())
            }
            Self::Before(job) => slot_of(2, name_of(&job.request)),
            Self::After(job) => slot_of(3, name_of(&job.request)),
            Self::Shutdown => slot_of(4, ""),
            Self::Api(_) | Self::FindUsers { .. } | Self::Reload => 0,
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
    /// Whether there is an after-hook.
    pub after: bool,
    /// What is to be done now.
    pub step: HookStep,
}

/// A step of an API call that has hooks. Each is a job of its own, for the thread that is there for
/// such work, so that hooks keep nobody's transaction open, and calls share theirs.
#[derive(Clone, Debug, PartialEq)]
pub enum HookStep {
    /// The before-hook.
    Before,
    /// The call itself.
    Call,
    /// The after-hook, once this answer is durable.
    After(Answer),
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
    pub queue: Queue,
    /// Whose job it was.
    pub conn: ConnId,
    /// The job's.
    pub stream: u32,
    /// The job's.
    pub group: u32,
    /// What a caller's call of a function has used; nothing where none has run.
    pub used: Option<Used>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What a call of a function of the scripts has used, or a piece of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Of its thread's time.
    pub time: CallTime,
    /// It has called a function that needs the database.
    pub database: bool,
    /// It has called a function that changes the database.
    pub writes: bool,
    /// It can only be done by a caller: it had more than a slice of a core, waited for another thread, hashed, ran SQL of its own, wrote
    /// much at once or what all threads share, or its language does not give the thread back within a slice.
    pub needs_caller: bool,
}

impl Done {
    /// Whether nothing was called, because there is no function of that name.
    pub(crate) fn is_of_no_function(&self) -> bool {
        matches!(&self.outcome, Outcome::Rpc(Err(error)) if error.kind == ScriptFailure::NotFound)
    }

    /// Whether it was not done where it was, and a caller is to do it.
    pub(crate) fn is_given_back(&self) -> bool {
        matches!(self.outcome, Outcome::NeedsCaller(_) | Outcome::Crowded(_))
    }
}

/// What came of a job.
#[derive(Debug)]
pub enum Outcome {
    /// Of [`Work::Api`] and of the last step of [`Work::Hooked`].
    Api(Result<Answer, ApiError>),
    /// Of [`Work::Hooked`]: the next step, to be handed to whoever does it.
    Next(Box<Job>),
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
    /// Of [`Work::Rpc`] on a companion or in the batch, or a hook of [`Work::Hooked`] on a companion, where it
    /// cannot be done: nothing of it has happened, and a caller is to do it.
    NeedsCaller(Box<Job>),
    /// The same, because there is no room for it just now: of its function that says nothing. From a caller: the
    /// memory of its scripts is used up, and another one is to run it.
    Crowded(Box<Job>),
    /// The job is not done: its function waits for another thread, or on a companion for its next
    /// slice, and the caller is free for others.
    Waits,
}
