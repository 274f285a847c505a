//! Why a request of a script has no answer, in words for its author. Who may be shown the text is
//! the script's choice, so that it holds neither addresses that a name leads to nor paths.

use std::sync::{Mutex, PoisonError};

use crate::target::{BadUrl, Target};

/// What a request waits for. Hosts are named as its script, or a redirect, named them.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Phase {
    #[default]
    #[error("its turn (fetch.requests_max, fetch.requests_per_host)")]
    Turn,
    #[error("the addresses of {0}")]
    Name(String),
    #[error("a connection to {0}")]
    Connection(String),
    #[error("TLS with {0}")]
    Tls(String),
    #[error("{0} to answer")]
    Answer(String),
    #[error("the rest of the answer of {0}")]
    Content(String),
}

/// The [`Phase`] of a request, for whoever ends it when its time is over.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<Phase>);

impl Progress {
    pub(crate) fn set(&self, phase: Phase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    pub(crate) fn take(&self) -> Phase {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Why a request was not made, or came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Url(#[from] BadUrl),
    #[error("{host} may not be reached: fetch.allow does not name it{more}")]
    NotAllowed { host: String, more: &'static str },
    #[error("{host} may not be reached: fetch.deny names it")]
    Denied { host: String },
    #[error(
        "{host} may not be reached: it has {what}, and fetch.networks does not name its network"
    )]
    Address { host: String, what: &'static str },
    #[error("header {name:?}: {why}")]
    Header { name: String, why: &'static str },
    #[error("the request has more than {most} headers or {bytes} bytes of them, which is fixed")]
    Headers { most: usize, bytes: usize },
    #[error("insecure requests are off (fetch.insecure)")]
    Insecure,
    #[error("a timeout of {wanted_ms} ms is more than fetch.timeout_max_ms, {most_ms}")]
    LongTimeout { wanted_ms: u64, most_ms: u64 },
    #[error("{bytes} bytes of content are more than fetch.request_max_bytes, {most}")]
    RequestTooLarge { bytes: usize, most: usize },

    #[error("redirected more than {most} times (fetch.redirects_max)")]
    Redirects { most: u32 },
    #[error("redirected from https to http: {host} (fetch.downgrade)")]
    Downgrade { host: String },
    #[error("redirected without a Location that could be read")]
    NoLocation,
    #[error("redirected: {0}")]
    BadRedirect(BadUrl),
    #[error("redirected from {from}: {error}")]
    Redirected { from: String, error: Box<Self> },

    #[error("too many requests of {payer}: {most} at one time (fetch.requests_per_user)")]
    PerUser { payer: String, most: usize },
    #[error("too many requests of this address: {most} at one time (fetch.requests_per_address)")]
    PerAddress { most: usize },
    #[error("too many requests: {most} wait already (fetch.waiting_max)")]
    Waiting { most: usize },
    #[error("too many requests to {host}: {most} at one time (fetch.requests_per_host)")]
    PerHost { host: String, most: usize },

    #[error("the answer has more than {most} bytes (fetch.answer_max_bytes)")]
    AnswerTooLarge { most: usize },
    #[error("all requests together have more than {most} bytes (fetch.memory_max_bytes)")]
    Memory { most: usize },

    #[error("no answer within {timeout_ms} ms: waited for {phase}")]
    TimedOut { timeout_ms: u64, phase: Phase },
    #[error("no answer: waited {timeout_ms} ms for {phase} (fetch.connect_timeout_ms)")]
    NoConnection { timeout_ms: u64, phase: Phase },

    #[error("no address for {host}: {why}")]
    NoAddress { host: String, why: String },
    #[error("cannot connect to {host}: {why}")]
    Connect { host: String, why: String },
    #[error("no TLS with {host}: {why}")]
    Tls { host: String, why: String },
    #[error("{host}: {why}")]
    Http { host: String, why: String },
    #[error("the server is stopping")]
    Stopping,
}

/// Which counter an error belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Refused,
    Limited,
    TooLarge,
    TimedOut,
    Failed,
}

impl FetchError {
    /// The error of a hop to which that host has sent the request, if one has.
    pub(crate) fn redirected(self, from: Option<&Target>) -> Self {
        match from {
            Some(from) => Self::Redirected { from: from.to_string(), error: Box::new(self) },
            None => self,
        }
    }

    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Redirected { error, .. } => error.class(),
            Self::Url(_)
            | Self::NotAllowed { .. }
            | Self::Denied { .. }
            | Self::Address { .. }
            | Self::Header { .. }
            | Self::Headers { .. }
            | Self::Insecure
            | Self::LongTimeout { .. }
            | Self::Redirects { .. }
            | Self::Downgrade { .. }
            | Self::NoLocation
            | Self::BadRedirect(_) => Class::Refused,
            Self::PerUser { .. }
            | Self::PerAddress { .. }
            | Self::Waiting { .. }
            | Self::PerHost { .. } => Class::Limited,
            Self::RequestTooLarge { .. } | Self::AnswerTooLarge { .. } | Self::Memory { .. } => {
                Class::TooLarge
            }
            Self::TimedOut { .. } | Self::NoConnection { .. } => Class::TimedOut,
            Self::NoAddress { .. }
            | Self::Connect { .. }
            | Self::Tls { .. }
            | Self::Http { .. }
            | Self::Stopping => Class::Failed,
        }
    }
}
