//! The body of a datagram that carries something: one message of a match, as short as may be.
//!
//! ```text
//! flags 1 | match 16 | opcode 4 | [user 16 | session 16 | length of the name 1 | name] | data
//! ```
//!
//! A match is named by the first part of its id, sixteen bytes in place of 37 letters, and a flag for the
//! part behind the dot. What does not fit (an opcode of more than 32 bits, a name of more than 255 bytes,
//! data for more than one datagram) goes over the socket.

use super::{BODY_BYTES_MAX, Unreadable, take};

/// The server runs the match: its id ends with the server's name. Else the server only relays it.
const IS_AUTHORITATIVE: u8 = 1;
/// A player's presence follows the opcode.
const HAS_SENDER: u8 = 2;

/// A message of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchData<'a> {
    /// The uuid with which the match's id begins, its bytes in the order of its digits.
    pub match_uuid: [u8; 16],
    /// Whether the server runs the match.
    pub is_authoritative: bool,
    /// The opcode.
    pub op_code: i32,
    /// Who has sent it, if the server says so; clients do not.
    pub sender: Option<Sender<'a>>,
    /// The payload.
    pub data: &'a [u8],
}

/// A player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender<'a> {
    /// The user's id.
    pub user_id: [u8; 16],
    /// The session's.
    pub session_id: [u8; 16],
    /// The user's name.
    pub username: &'a str,
}

impl MatchData<'_> {
    /// Bytes of data that fit into one datagram without a sender.
    pub const DATA_BYTES_MAX: usize = BODY_BYTES_MAX - 21;

    /// Appends the body, if it fits.
    #[must_use]
    pub fn encode(&self, to: &mut Vec<u8>) -> bool {
        let name = self.sender.map(|sender| (u8::try_from(sender.username.len()), sender));
        let of_sender = name.map_or(0, |(_, sender)| 33 + sender.username.len());
        if 21 + of_sender + self.data.len() > BODY_BYTES_MAX {
            return false;
        }
        let authoritative = if self.is_authoritative { IS_AUTHORITATIVE } else { 0 };
        let sender = if self.sender.is_some() { HAS_SENDER } else { 0 };
        let start = to.len();
        to.push(authoritative | sender);
        to.extend_from_slice(&self.match_uuid);
        to.extend_from_slice(&self.op_code.to_le_bytes());
        if let Some((length, sender)) = name {
            let Ok(length) = length else {
                to.truncate(start);
                return false;
            };
            to.extend_from_slice(&sender.user_id);
            to.extend_from_slice(&sender.session_id);
            to.push(length);
            to.extend_from_slice(sender.username.as_bytes());
        }
        to.extend_from_slice(self.data);
        true
    }
}

impl<'a> MatchData<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Unreadable::Malformed`].
    pub fn decode(body: &'a [u8]) -> Result<Self, Unreadable> {
        let mut rest = body;
        let [flags] = take(&mut rest)?;
        if flags & !(IS_AUTHORITATIVE | HAS_SENDER) != 0 {
            return Err(Unreadable::Malformed);
        }
        let match_uuid = take(&mut rest)?;
        let op_code = i32::from_le_bytes(take(&mut rest)?);
        let sender = if flags & HAS_SENDER == 0 {
            None
        } else {
            let (user_id, session_id) = (take(&mut rest)?, take(&mut rest)?);
            let [length] = take(&mut rest)?;
            let (name, data) =
                rest.split_at_checked(usize::from(length)).ok_or(Unreadable::Malformed)?;
            rest = data;
            let username = std::str::from_utf8(name).map_err(|_| Unreadable::Malformed)?;
            Some(Sender { user_id, session_id, username })
        };
        let is_authoritative = flags & IS_AUTHORITATIVE != 0;
        Ok(Self { match_uuid, is_authoritative, op_code, sender, data: rest })
    }
}
