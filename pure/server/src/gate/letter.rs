//! Mail as bytes, and back: a version, between which lives of which nodes, and what is said, by serde's
//! derive in the format of postcard 1 (<https://postcard.jamesmunns.com/wire-format>).
//!
//! Bytes in, mail out, or an error: never a panic, and never more memory than some tens of times the
//! letter, which is bounded. Lists are not reserved for by what they claim, values of scripts have a depth,
//! and what stays on its node has no number by which it could be read. Not here: whether a node may say
//! what it says (`check`).

use std::sync::Arc;

use event::ThreadId;
use game::cache::CacheChange;
use game::directory::DirectoryEvent;
use game::node::{Incarnation, NodeId, Nodes};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::mail::{
    Address, CoreMail, Crossing, Mail, News, RoomMail, SessionChanges, WorkerAddress,
};

/// Bytes of one letter: some more than one call of a script may send to streams or put into the cache.
/// Longer lists are several letters.
pub const LETTER_BYTES_MAX: usize = 32 << 20;

/// The version of what follows. Nodes of one cluster have the same.
const VERSION: u8 = 2;

/// Why a letter is not taken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LetterError {
    /// Of a life that is over, or for one. That is nobody's fault.
    #[error("it is of or for a life of a node that is over")]
    Late,
    /// Longer than [`LETTER_BYTES_MAX`].
    #[error("{0} bytes, at most {LETTER_BYTES_MAX}")]
    TooLong(usize),
    /// Of another version of throng.
    #[error("its version is {0:?}, and {VERSION} is spoken here")]
    Version(Option<u8>),
    /// Bytes that no node writes.
    #[error("it is no mail: {0}")]
    Malformed(String),
    /// For a thread that there is not, or about what its sender has no say in.
    #[error("its node may not say that, or not to that thread")]
    NotAllowed,
}

/// Between which lives a letter is. In full, because an address has a byte of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    from: (u8, Incarnation),
    to: (u8, Incarnation),
}

impl Head {
    /// Between the present lives of two nodes.
    pub(super) fn of(nodes: &Nodes, from: NodeId, to: NodeId) -> Self {
        let life = |node: NodeId| (node.number(), nodes.incarnation(node));
        Self { from: life(from), to: life(to) }
    }
}

/// What a letter says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Body {
    /// For a core.
    Core(Address<CoreMail>, CoreMail),
    /// For a room.
    Room(Address<RoomMail>, RoomMail),
    /// For a worker.
    Worker(WorkerAddress, News),
    /// For all threads that list.
    Directory(#[serde(with = "game::plain::list")] Arc<[DirectoryEvent]>),
    /// For all threads with scripts.
    Cache(#[serde(with = "game::plain::list")] Arc<[CacheChange]>),
    /// For all cores.
    Sessions(SessionChanges),
}

impl Body {
    /// Mail for a thread of another node.
    ///
    /// # Errors
    /// It is of a kind that stays on its node; says which.
    pub(super) fn of(node: NodeId, thread: ThreadId, mail: Mail) -> Result<Self, &'static str> {
        Ok(match mail.into_crossing(node, thread)? {
            Crossing::Core(to, mail) => Self::Core(to, mail),
            Crossing::Room(to, mail) => Self::Room(to, mail),
            Crossing::Worker(to, news) => Self::Worker(to, news),
        })
    }

    /// The first and the second half of a list; the list as it was, if it cannot be parted.
    fn halves(self) -> Result<[Self; 2], Self> {
        fn part<T>(mut list: Vec<T>) -> Result<[Vec<T>; 2], Vec<T>> {
            if list.len() < 2 {
                return Err(list);
            }
            let second = list.split_off(list.len() / 2);
            Ok([list, second])
        }
        match self {
            Self::Core(to, CoreMail::Deliver(list)) => {
                let make = |list| Self::Core(to, CoreMail::Deliver(list));
                part(list).map(|halves| halves.map(make)).map_err(make)
            }
            Self::Room(to, RoomMail::Requests(list)) => {
                let make = |list| Self::Room(to, RoomMail::Requests(list));
                part(list).map(|halves| halves.map(make)).map_err(make)
            }
            Self::Room(to, RoomMail::Notify(list)) => {
                let make = |list| Self::Room(to, RoomMail::Notify(list));
                part(list).map(|halves| halves.map(make)).map_err(make)
            }
            Self::Room(to, RoomMail::Streams(list)) => {
                let make = |list| Self::Room(to, RoomMail::Streams(list));
                part(list).map(|halves| halves.map(make)).map_err(make)
            }
            Self::Directory(events) if events.len() > 1 => {
                let (first, second) = events.split_at(events.len() / 2);
                Ok([first, second].map(|half| Self::Directory(half.into())))
            }
            Self::Cache(changes) if changes.len() > 1 => {
                let (first, second) = changes.split_at(changes.len() / 2);
                Ok([first, second].map(|half| Self::Cache(half.into())))
            }
            whole => Err(whole),
        }
    }
}

/// Writes what is to be said: in several pieces, in order, if it is too long for a letter. Returns how
/// many pieces are too long all the same, and are not there.
pub(super) fn write(body: Body, pieces: &mut Vec<Vec<u8>>) -> u64 {
    let bytes = match postcard::to_stdvec(&body) {
        Ok(bytes) => bytes,
        Err(error) => unreachable!("mail that may leave its node is not to be written: {error}"),
    };
    if bytes.len() <= LETTER_BYTES_MAX - HEAD_BYTES {
        pieces.push(bytes);
        return 0;
    }
    match body.halves() {
        Ok(halves) => halves.into_iter().map(|half| write(half, pieces)).sum(),
        Err(_) => 1,
    }
}

/// Bytes of a version and a head: two numbers of one byte, two of five, and the version.
const HEAD_BYTES: usize = 13;

/// A letter.
pub(super) fn with_head(head: Head, body: &[u8]) -> Vec<u8> {
    let mut letter = Vec::with_capacity(HEAD_BYTES + body.len());
    letter.push(VERSION);
    let mut letter = match postcard::to_extend(&head, letter) {
        Ok(letter) => letter,
        Err(error) => unreachable!("four numbers are not to be written: {error}"),
    };
    letter.extend_from_slice(body);
    letter
}

/// The head of a letter, and what follows.
///
/// # Errors
/// [`LetterError`].
pub(super) fn head(letter: &[u8]) -> Result<(Head, &[u8]), LetterError> {
    if letter.len() > LETTER_BYTES_MAX {
        return Err(LetterError::TooLong(letter.len()));
    }
    match letter.split_first() {
        Some((&VERSION, rest)) => {
            postcard::take_from_bytes(rest).map_err(|error| malformed(&error))
        }
        other => Err(LetterError::Version(other.map(|(version, _)| *version))),
    }
}

/// What a letter says.
///
/// # Errors
/// [`LetterError::Malformed`].
pub(super) fn body(bytes: &[u8]) -> Result<Body, LetterError> {
    let (body, rest) = postcard::take_from_bytes(bytes).map_err(|error| malformed(&error))?;
    if !rest.is_empty() {
        return Err(LetterError::Malformed("it goes on behind its end".to_owned()));
    }
    Ok(body)
}

fn malformed(error: &postcard::Error) -> LetterError {
    LetterError::Malformed(error.to_string())
}
