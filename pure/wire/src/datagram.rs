//! Game datagrams: the form in which a session sends and gets match data beside its socket, where a
//! message that is lost is better than one that is late. Version 1, byte by byte in docs/datagrams.md.
//!
//! ```text
//! kind 1 | id 8 | sequence 4 | acknowledged 4 | bits 4 | body 0–1,163 | tag 16
//! ```
//!
//! All numbers are little-endian. The tag is the first half of HMAC-SHA-256 (RFC 2104, section 5; RFC
//! 4868) over all that stands before it, by a key that the session got over its socket. The kind tells the
//! direction, too, so that nothing can be sent back to who made it. Not encrypted, on purpose: a game's
//! state is known to the player who is sent it, every language has this function, and sending one number
//! twice by mistake gives no key away, as it would with most ciphers.
//!
//! What is deliberately not here: who has which key, which address is believed (`server::core::datagrams`),
//! and sockets. Bytes come in as a slice, are looked at ([`peek`]), then opened ([`Key::open`]); datagrams go
//! out by appending to a buffer ([`Key::seal`]). [`Window`] tells which numbers came, [`MatchData`] is the
//! body of the kind that carries something.

mod message;
#[cfg(test)]
mod tests;
mod window;

use hmac::Mac as _;
use thiserror::Error;

pub use message::{MatchData, Sender};
pub use window::{Acks, Stale, Window};

use crate::mac;

/// The version of the form that is written here.
pub const VERSION: u8 = 1;
/// Bytes of the longest datagram: IPv6 carries it everywhere (1,280 bytes with its headers, RFC 8200
/// section 5), whatever tunnel it goes through.
pub const BYTES_MAX: usize = 1_200;
/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;
/// Bytes before the body.
pub const HEAD_BYTES: usize = 21;
/// Bytes of the shortest datagram.
pub const BYTES_MIN: usize = HEAD_BYTES + TAG_BYTES;
/// Bytes of the longest body.
pub const BODY_BYTES_MAX: usize = BYTES_MAX - BYTES_MIN;
/// Bytes with which a challenge and its proof begin; what follows is padding.
pub const TOKEN_BYTES: usize = 8;

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From a client: is there a way? The body is padding.
    Probe,
    /// From a client: the token of a challenge, from the address that was challenged; then padding.
    Proof,
    /// From a client: match data.
    ClientData,
    /// From the server: a token that the client is to send back; then padding.
    Challenge,
    /// From the server: the way is there; the answer to a probe or a proof. No body.
    Alive,
    /// From the server: match data.
    ServerData,
}

impl Kind {
    const ALL: [(u8, Self); 6] = [
        (1, Self::Probe),
        (2, Self::Proof),
        (3, Self::ClientData),
        (0x81, Self::Challenge),
        (0x82, Self::Alive),
        (0x83, Self::ServerData),
    ];

    fn byte(self) -> u8 {
        match self {
            Self::Probe => 1,
            Self::Proof => 2,
            Self::ClientData => 3,
            Self::Challenge => 0x81,
            Self::Alive => 0x82,
            Self::ServerData => 0x83,
        }
    }

    /// Whether it is sent by clients.
    #[must_use]
    pub fn is_from_client(self) -> bool {
        self.byte() < 0x80
    }
}

/// What stands before the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the datagram is for.
    pub kind: Kind,
    /// Whose it is: the number that the server has given to the session.
    pub id: u64,
    /// Its number: 1 and more, none twice by the same side with one key.
    pub sequence: u32,
    /// What came of the other side.
    pub acks: Acks,
}

/// Why bytes are no datagram that may be believed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unreadable {
    /// Too short, too long, or of no kind that there is.
    #[error("no datagram of version {VERSION}")]
    Malformed,
    /// Not by who has the key.
    #[error("the tag is wrong")]
    Forged,
}

/// The head of what may be a datagram. Nothing of it may be believed before [`Key::open`].
///
/// # Errors
/// [`Unreadable::Malformed`].
pub fn peek(datagram: &[u8]) -> Result<Head, Unreadable> {
    if !(BYTES_MIN..=BYTES_MAX).contains(&datagram.len()) {
        return Err(Unreadable::Malformed);
    }
    let mut rest = datagram;
    let [kind] = take(&mut rest)?;
    let kind = Kind::ALL.iter().find(|(byte, _)| *byte == kind).ok_or(Unreadable::Malformed)?.1;
    let id = u64::from_le_bytes(take(&mut rest)?);
    let [sequence, newest, bits] = [take(&mut rest)?, take(&mut rest)?, take(&mut rest)?];
    Ok(Head {
        kind,
        id,
        sequence: u32::from_le_bytes(sequence),
        acks: Acks { newest: u32::from_le_bytes(newest), bits: u32::from_le_bytes(bits) },
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Unreadable> {
    let (first, more) = rest.split_first_chunk().ok_or(Unreadable::Malformed)?;
    *rest = more;
    Ok(*first)
}

/// The key of a session.
#[derive(Clone, Debug)]
pub struct Key(mac::Key);

impl Key {
    /// A key of secret bytes.
    #[must_use]
    pub fn new(secret: &[u8; KEY_BYTES]) -> Self {
        Self(mac::Key::new(secret))
    }

    /// Appends a datagram. A body that does not fit is our own mistake.
    pub fn seal(&self, head: &Head, body: &[u8], to: &mut Vec<u8>) {
        assert!(body.len() <= BODY_BYTES_MAX, "a body of {} bytes", body.len());
        assert!(head.sequence > 0, "the number 0 is no datagram's");
        let start = to.len();
        to.push(head.kind.byte());
        to.extend_from_slice(&head.id.to_le_bytes());
        for number in [head.sequence, head.acks.newest, head.acks.bits] {
            to.extend_from_slice(&number.to_le_bytes());
        }
        to.extend_from_slice(body);
        let mut mac = self.0.begin();
        mac.update(&to[start..]);
        to.extend_from_slice(&mac.finalize().into_bytes()[..TAG_BYTES]);
    }

    /// The head and the body, if this key has sealed them. Takes the same time for every wrong tag.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn open<'a>(&self, datagram: &'a [u8]) -> Result<(Head, &'a [u8]), Unreadable> {
        let head = peek(datagram)?;
        let (sealed, tag) =
            datagram.split_last_chunk::<TAG_BYTES>().ok_or(Unreadable::Malformed)?;
        let mut mac = self.0.begin();
        mac.update(sealed);
        mac.verify_truncated_left(tag).map_err(|_| Unreadable::Forged)?;
        let body = sealed.get(HEAD_BYTES..).ok_or(Unreadable::Malformed)?;
        Ok((head, body))
    }
}
