//! Streams: which there are, and what scripts may want of one. A stream is a group of sessions with a
//! name of four parts; notifications, statuses and matches are streams of the server's own.
//!
//! Data in: what the functions `stream_*` were called with (`host::streams`). Data out: a
//! [`StreamRequest`] for the room that [`StreamId::home`] maps to, and its [`StreamAnswer`]. What
//! deliberately is not here: who is in a stream, and what its members are sent (`server::room`).
//!
//! Source: Nakama 3.40, `server/tracker.go`, `server/stream_manager.go`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::nakama::{Envelope, realtime};

use crate::guest::{HostError, Presence};
use crate::node::{NodeId, Nodes};

/// Bytes of a stream's label.
pub const STREAM_LABEL_BYTES_MAX: usize = 256;

/// Bytes that a presence takes as a script's table, about.
pub const PRESENCE_BYTES: usize = 512;

/// Bytes of a member's status in a stream of a script.
pub const STREAM_STATUS_BYTES_MAX: usize = 2_048;

/// What names a stream. The order is that of its parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId {
    /// The kind of stream: below 8 they are the server's, others are for scripts to choose.
    pub mode: u8,
    /// Mostly the id of what it is about; zero for none.
    pub subject: Uuid,
    /// Another id; zero for none.
    pub subcontext: Uuid,
    /// Text, at most [`STREAM_LABEL_BYTES_MAX`].
    #[serde(with = "crate::plain::text")]
    pub label: Arc<str>,
}

/// Whose a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// All sockets of a user.
    Notifications(Uuid),
    /// The sockets of a user that appear online.
    Status(Uuid),
    /// The players of a relayed match.
    Relayed(Uuid),
    /// The players of an authoritative match.
    Authoritative(Uuid),
    /// Of chat or parties, which throng does not have yet.
    Missing,
    /// Of the scripts, who say who is in it.
    Scripts,
}

impl StreamId {
    /// Whose it is. Those of the server have no parts but those that name a user or match.
    #[must_use]
    pub fn kind(&self, nodes: &Nodes) -> StreamKind {
        if matches!(self.mode, 2 | 3 | 4 | 7) {
            return StreamKind::Missing;
        }
        let is_labelled = match self.mode {
            6 => self.node(nodes).is_some(),
            _ => self.label.is_empty(),
        };
        if !self.subcontext.is_nil() || !is_labelled {
            return StreamKind::Scripts;
        }
        match self.mode {
            0 => StreamKind::Notifications(self.subject),
            1 => StreamKind::Status(self.subject),
            5 => StreamKind::Relayed(self.subject),
            6 => StreamKind::Authoritative(self.subject),
            _ => StreamKind::Scripts,
        }
    }

    /// The node that it is of by its name: that of an authoritative match.
    #[must_use]
    pub fn node(&self, nodes: &Nodes) -> Option<NodeId> {
        if self.mode == 6 { nodes.named(&self.label) } else { None }
    }

    /// The id that decides on which thread it lives. What is about a user or match lives where that
    /// does; what is about nothing, anywhere, always the same.
    #[must_use]
    pub fn home(&self) -> Uuid {
        if !self.subject.is_nil() {
            return self.subject;
        }
        // FNV-1a (the function is not secret: who chooses names may gather streams on one thread).
        let bytes = self.subcontext.as_bytes().iter().chain(self.label.as_bytes());
        let hash = std::iter::once(&self.mode)
            .chain(bytes)
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Uuid::from_u64_pair(hash, 0)
    }

    /// As clients see it: ids that are zero are left out.
    #[must_use]
    pub fn message(&self) -> realtime::Stream {
        let text = |id: Uuid| if id.is_nil() { String::new() } else { id.to_string() };
        realtime::Stream {
            mode: i32::from(self.mode),
            subject: text(self.subject),
            subcontext: text(self.subcontext),
            label: self.label.to_string(),
        }
    }
}

/// What there is to know of a session in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamMeta {
    /// Whether others are not told of it; it is told of them all the same.
    pub is_hidden: bool,
    /// What clients are told as `persistence`; it means something in chat alone.
    pub is_persistent: bool,
    /// Any text, at most [`STREAM_STATUS_BYTES_MAX`].
    pub status: Box<str>,
}

/// A session in a stream, as scripts see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPresence {
    /// Who it is.
    pub presence: Presence,
    /// What there is to know of it here.
    pub meta: StreamMeta,
}

/// What a script wants of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StreamRequest {
    /// Takes a session in, unless it is; it is told with [`StreamAnswer::IsNew`].
    Join(SessionId, StreamMeta),
    /// The same, or changes what there is to know of it.
    Update(SessionId, StreamMeta),
    /// Takes a session out. Nobody who is not there is no error.
    Leave(SessionId),
    /// What there is to know of a session: [`StreamAnswer::Found`], with one at most.
    Find(SessionId),
    /// Who is in it, of the hidden and of the others.
    List {
        /// Whether the hidden are wanted.
        hidden: bool,
        /// Whether the others are.
        visible: bool,
        /// How much the script can pay for: what is more is refused before it is copied. Each counts
        /// [`PRESENCE_BYTES`] and its status.
        bytes_max: usize,
    },
    /// How many are in it, hidden or not.
    Count,
    /// Takes everybody out; nobody is told.
    Close,
    /// Sends to members.
    Send(Box<StreamMessage>),
}

/// A user's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionId {
    /// The user.
    pub user_id: Uuid,
    /// The session, which has to be the user's.
    pub session_id: Uuid,
}

/// Who pays for what a script sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payer {
    /// The user who calls the script, if one does.
    pub user_id: Option<Uuid>,
    /// The node that runs it.
    pub node: NodeId,
    /// The number of the thread there.
    pub thread: u16,
    /// The number of the call on that thread.
    pub call: u64,
    /// Whether it is a callback of a match: those of all matches of that room pay together, too.
    pub is_match: bool,
}

/// What a script sends to the members of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamMessage {
    /// What they get: `stream_data`, or anything that a server may send.
    #[serde(with = "crate::plain::envelope")]
    pub envelope: Envelope,
    /// About so many bytes.
    pub bytes: usize,
    /// Sessions, sorted and each once; `None` is all members. Those who are no members are left out.
    pub to: Option<Vec<Uuid>>,
    /// If not, members who are behind do not get it.
    pub is_reliable: bool,
    /// On whose account. Filled in by the thread that runs the script.
    pub payer: Payer,
}

/// What comes of a [`StreamRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamAnswer {
    /// It is done, or will be.
    Done,
    /// Whether the session was not in it before.
    IsNew(bool),
    /// How many are in it.
    Count(u64),
    /// Sessions that are in it.
    Found(Vec<StreamPresence>),
}

impl StreamPresence {
    /// About how many bytes it takes as a script's table.
    #[must_use]
    pub fn bytes(&self) -> usize {
        PRESENCE_BYTES + self.meta.status.len()
    }
}

impl StreamRequest {
    /// Whether its answer says anything: others need nobody to wait for them.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        match self {
            Self::Join(..) | Self::Update(..) | Self::Find(_) | Self::List { .. } | Self::Count => {
                true
            }
            Self::Leave(_) | Self::Close | Self::Send(_) => false,
        }
    }

    /// The session that is to be in the stream, and has to be looked for where its user is known.
    #[must_use]
    pub fn joiner(&self) -> Option<SessionId> {
        match self {
            Self::Join(session, _) | Self::Update(session, _) => Some(*session),
            Self::Leave(_)
            | Self::Find(_)
            | Self::List { .. }
            | Self::Count
            | Self::Close
            | Self::Send(_) => None,
        }
    }

    /// About how many bytes it holds while it is under way.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Join(_, meta) | Self::Update(_, meta) => meta.status.len(),
            Self::Send(message) => {
                message.bytes + message.to.as_ref().map_or(0, |to| to.len() * size_of::<Uuid>())
            }
            Self::Leave(_) | Self::Find(_) | Self::List { .. } | Self::Count | Self::Close => 0,
        }
    }
}

impl StreamKind {
    /// Whether scripts may want this of such a stream.
    ///
    /// # Errors
    /// [`HostError`]: it is filled by the server, or not there yet.
    pub fn check(self, request: &StreamRequest) -> Result<(), HostError> {
        use StreamRequest as Wanted;
        match (self, request) {
            (Self::Missing, _) => {
                let text = "streams of chat and parties are not implemented in throng yet";
                Err(HostError::new(text))
            }
            (Self::Scripts, _)
            | (_, Wanted::Find(_) | Wanted::List { .. } | Wanted::Count | Wanted::Send(_))
            | (Self::Status(_), Wanted::Join(..) | Wanted::Update(..) | Wanted::Leave(_))
            | (Self::Relayed(_) | Self::Authoritative(_), Wanted::Leave(_)) => Ok(()),
            (
                Self::Notifications(_)
                | Self::Status(_)
                | Self::Relayed(_)
                | Self::Authoritative(_),
                Wanted::Join(..) | Wanted::Update(..) | Wanted::Leave(_) | Wanted::Close,
            ) => Err(self.is_the_servers()),
        }
    }

    /// What is refused of streams that the server fills itself, and what else may be done.
    #[must_use]
    pub fn is_the_servers(self) -> HostError {
        HostError::new(match self {
            Self::Notifications(_) => {
                "streams of mode 0, which is that of a stream without a mode, are filled by the server with \
                 the sockets of a user: they can be listed, counted and sent to; your own have modes from 8"
            }
            Self::Status(_) => {
                "streams of mode 1 are filled by the server with the sockets of a user that appear online: \
                 their status can be set by a session of that user, and they can be listed, counted and \
                 sent to; your own have modes from 8"
            }
            Self::Relayed(_) | Self::Authoritative(_) | Self::Missing | Self::Scripts => {
                "streams of modes 5 and 6 are filled by the server with the players of a match: these can be \
                 taken out, listed, counted and sent to; your own have modes from 8"
            }
        })
    }
}

/// What a script is told that asks for more members than it can pay for.
#[must_use]
pub fn too_many_members() -> HostError {
    HostError::new(
        "the list of members takes more memory or time than this call has left: stream_count says how \
         many they are, stream_user_get finds one",
    )
}

/// What a script is told of a session that is not there (Nakama 3.40, `server/stream_manager.go`).
#[must_use]
pub fn no_session() -> HostError {
    HostError::new("session id does not exist")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::{StreamId, StreamKind};
    use crate::node::Nodes;

    fn stream(mode: u8, subject: u128, label: &str) -> StreamId {
        let (subject, subcontext) = (Uuid::from_u128(subject), Uuid::nil());
        StreamId { mode, subject, subcontext, label: Arc::from(label) }
    }

    #[test]
    fn streams_of_the_server_are_named_by_what_they_are_about() {
        let id = Uuid::from_u128(7);
        for (stream, kind) in [
            (stream(0, 7, ""), StreamKind::Notifications(id)),
            (stream(1, 7, ""), StreamKind::Status(id)),
            (stream(1, 7, "more"), StreamKind::Scripts),
            (stream(2, 0, "room"), StreamKind::Missing),
            (stream(5, 7, ""), StreamKind::Relayed(id)),
            (stream(6, 7, "node1"), StreamKind::Authoritative(id)),
            (stream(6, 7, "node2"), StreamKind::Scripts),
            (stream(8, 7, ""), StreamKind::Scripts),
        ] {
            assert_eq!(stream.kind(&Nodes::alone("node1")), kind, "{stream:?}");
        }
    }

    #[test]
    fn a_stream_lives_with_its_subject_or_where_its_name_says() {
        assert_eq!(stream(9, 7, "a").home(), stream(200, 7, "b").home());
        let homes = ["a", "b", "c"].map(|label| stream(9, 0, label).home());
        assert!(homes[0] != homes[1] && homes[1] != homes[2] && homes[0] != homes[2]);
        assert_ne!(stream(9, 0, "a").home(), stream(10, 0, "a").home());
        let wire = stream(9, 0, "a").message();
        assert_eq!((wire.mode, &*wire.subject, &*wire.label), (9, "", "a"));
    }
}
