//! What a call of guest code comes to when it runs for a while: its end, or something that it waits
//! for ([`Step`]). What is waited for ([`Ask`]) and what comes of it ([`Answer`]) is plain data, so
//! that it can be posted to another thread, or one day to another node.
//!
//! ```text
//! Scripts::call ──▶ Step::Done                      the call is over
//!              ├──▶ Step::Waits(ask) ─ somebody does it ─▶ Scripts::resume(answer) ──▶ Step …
//!              │                     └ nobody does it ──▶ Scripts::cancel
//!              └──▶ Step::Paused ─ others have had their turn ─▶ Scripts::go_on ──▶ Step …
//! ```
//!
//! Not here: who does it (`pure/server`), and how a language keeps a call that waits (`edge/script`).

use bytes::Bytes;

use super::{HostError, ScriptError};
use crate::fetch::{FetchAnswer, FetchFailed, FetchRequest};
use crate::host::Returns;
use crate::stream::{StreamAnswer, StreamId, StreamRequest};
use crate::value::Value;

/// The number of a call among those of one thread's [`Scripts`](super::Scripts); its owner chooses
/// it, and never the same one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// How far a call of guest code has come.
#[derive(Debug)]
#[must_use = "a call that waits is to be resumed, gone on with, or cancelled"]
pub enum Step<T> {
    /// It is over: with what it returned, or with its error.
    Done(Result<T, ScriptError>),
    /// It waits for this.
    Waits(Ask),
    /// It waits for nothing, but has had its slice of a thread that it shares with others' sockets.
    Paused,
}

impl<T> Step<T> {
    /// The same with another result.
    pub fn map<U>(self, with: impl FnOnce(T) -> Result<U, ScriptError>) -> Step<U> {
        match self {
            Self::Done(result) => Step::Done(result.and_then(with)),
            Self::Waits(ask) => Step::Waits(ask),
            Self::Paused => Step::Paused,
        }
    }
}

/// What a call waits for.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Ask {
    /// A match of `module` that begins with `params`: [`Reply::Text`], its id `<uuid>.<node>`.
    MatchCreate { module: String, params: Value },
    /// What a match says to `data`: [`Reply::Text`].
    MatchSignal { match_id: String, data: Bytes },
    /// A wish for a stream that is answered ([`StreamRequest::is_answered`]): [`Reply::Stream`].
    Stream { stream: StreamId, request: StreamRequest },
    /// An answer of another server: [`Reply::Fetched`].
    Fetch(Box<FetchRequest>),
    /// A function of the host table as a whole, for a thread that has what this one has not, such as
    /// a connection to the database, or time: [`Reply::Returns`].
    Run { function: &'static str, values: Vec<Value>, allowance: Allowance },
}

/// What a call may still use, for a function that runs on another thread for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Milliseconds of its budget.
    pub time_ms: u32,
    /// Bytes of its memory.
    pub memory_bytes: usize,
}

/// What comes of an [`Ask`], if it is not refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Of a match.
    Text(Bytes),
    /// Of a stream.
    Stream(StreamAnswer),
    /// Of another server.
    Fetched(Box<FetchAnswer>),
    /// Of a function of the host table: what it returned, and how much of the call's time it used, in
    /// steps of about a nanosecond.
    #[allow(missing_docs, reason = "the text names the fields")]
    Returns { returns: Returns, steps: u64 },
}

/// What a call that waited is resumed with.
pub type Answer = Result<Reply, HostError>;

impl Reply {
    /// What a call is told of its request to another server.
    ///
    /// # Errors
    /// [`HostError`] with the request's text.
    pub fn fetched(result: Result<FetchAnswer, FetchFailed>) -> Answer {
        result
            .map(|answer| Self::Fetched(Box::new(answer)))
            .map_err(|FetchFailed(text)| HostError::new(text))
    }
}
