//! Kinds of errors: what went wrong, as a cause that code can tell and as the text that people read.
//!
//! In: what the generator met. Out: keys of the record's errors. What cures a cause is told where
//! people look.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::short;

/// What went wrong.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A status that the step does not expect.
    Status(u16),
    /// What came is not HTTP.
    NotHttp,
    /// What came is not WebSocket.
    NotWebSocket,
    /// The answer to the handshake was another status.
    Handshake(u16),
    /// Bytes that nobody asked for.
    Unasked,
    /// A kept-alive connection was closed between two requests.
    IdleClosed,
    /// Nothing listened.
    ConnectRefused,
    /// No connection in time.
    ConnectTimedOut,
    /// No way to the address.
    ConnectUnreachable,
    /// No local port left.
    NoLocalPort,
    /// No open file left.
    NoFile,
    /// TLS: the certificate is of nobody whom the generator trusts.
    TlsUnknownIssuer,
    /// TLS: the certificate is of another name than the target's.
    TlsWrongName,
    /// TLS: the certificate is not valid any more, or not yet.
    TlsExpired,
    /// TLS: something else is wrong with the certificate.
    TlsCertificate,
    /// TLS: the server speaks something else.
    TlsNotSpoken,
    /// TLS: no version or cipher in common.
    TlsIncompatible,
    /// TLS: the server refuses with an alert.
    TlsAlert,
    /// TLS: the connection was closed within the handshake.
    TlsClosed,
    /// TLS: no end of the handshake in time.
    TlsTimedOut,
    /// TLS failed in another way.
    Tls,
    /// A connection could not be made for another reason.
    Connect,
    /// A connection ended without the player's wish.
    Closed,
    /// The server does not take what it is sent.
    NotReading,
    /// No answer in time.
    TimeOut,
    /// The answer lacks a text.
    LacksText,
    /// The answer lacks a header.
    LacksHeader,
    /// The answer lacks a value that was to be captured.
    LacksValue,
    /// The answer to a frame is an error.
    Envelope,
    /// A data file had no row left for a player.
    NoRow,
    /// Players did not become ready.
    NotReady,
    /// The scenario ended the run.
    Stopped,
    /// The run ended because the server was gone.
    ServerGone,
    /// Anything else; also in results of older versions.
    #[default]
    Other,
}

impl Cause {
    /// Whether nobody misses anything for it: a server may close a connection between two requests.
    #[must_use]
    pub fn is_harmless(self) -> bool {
        self == Self::IdleClosed
    }
}

/// A kind of error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// What went wrong.
    pub cause: Cause,
    /// What people read, cut to `KIND_BYTES_MAX`.
    pub text: Cow<'static, str>,
}

impl Kind {
    /// A kind whose text says more than its cause.
    pub(crate) fn new(cause: Cause, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        if short(&text).len() == text.len() {
            return Self { cause, text };
        }
        Self { cause, text: Cow::Owned(short(&text).to_owned()) }
    }

    /// Of a cause that its text says all about, or of none that is told apart.
    pub(crate) const fn of(cause: Cause, text: &'static str) -> Self {
        Self { cause, text: Cow::Borrowed(text) }
    }

    /// A refused request or handshake: its status, with the limit that the body names.
    pub(crate) fn refused(cause: Cause, body: &str) -> Self {
        let (what, status) = match cause {
            Cause::Handshake(status) => ("handshake refused: status", status),
            Cause::Status(status) => ("status", status),
            _ => ("refused", 0),
        };
        Self::new(cause, super::limit::refused(what, status, body))
    }
}

/// Beyond the kinds that are told apart.
pub(crate) const OTHER: Kind = Kind::of(Cause::Other, "other");
