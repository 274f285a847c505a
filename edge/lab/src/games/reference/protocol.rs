//! What players and the reference server say to each other, a datagram each, numbers with the lowest byte
//! first.
//!
//! ```text
//! player → server                              server → player
//! hello    (padded)                            welcome  token, nanoseconds of a tick; or full
//! command  token, number, anything             snapshot tick, last command taken, part, parts, anything
//! leave    token
//! status   (padded)                            told     what it counted
//! ```
//!
//! Who asks without a token sends as many bytes as it is answered at least, and only who has a token is
//! sent snapshots: a forged sender gets no more than its forger has sent.

/// What every datagram begins with, before its kind.
const MAGIC: [u8; 4] = *b"thrG";
/// Bytes of what is asked without a token.
pub(crate) const ASK_BYTES: usize = 64;
/// Bytes of a datagram that carries a part of a snapshot, at most: what passes everywhere in one piece.
pub(crate) const PART_BYTES_MAX: usize = 1_200;
/// Bytes of a snapshot, at most.
pub const SNAPSHOT_BYTES_MAX: usize = 64 * PART_BYTES_MAX;
/// Bytes of a command, at least and at most.
pub(crate) const COMMAND_BYTES: [usize; 2] = [17, 1_200];

/// Bytes of a snapshot's part before what is anything.
pub(crate) const PART_HEAD_BYTES: usize = 19;

const HELLO: u8 = 1;
const COMMAND: u8 = 2;
const LEAVE: u8 = 3;
const STATUS: u8 = 4;
const WELCOME: u8 = 5;
const FULL: u8 = 6;
const SNAPSHOT: u8 = 7;
const TOLD: u8 = 8;

/// From a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FromPlayer {
    Hello,
    Command { token: u64, number: u32 },
    Leave { token: u64 },
    Status,
}

/// From the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FromServer {
    Welcome { token: u64, tick_ns: u64 },
    Full,
    Snapshot(Part),
    Told(Told),
}

/// A part of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Ticks since the simulation began, those that were left out counted.
    pub(crate) tick: u64,
    /// The player's last command that the simulation has taken; 0 for none.
    pub(crate) taken: u32,
    /// From 0.
    pub(crate) part: u8,
    pub(crate) parts: u8,
}

/// What a server has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Nanoseconds from one tick to the next.
    pub tick_ns: u64,
    /// Players on it.
    pub players: u32,
    /// And how many may be.
    pub players_max: u32,
    /// Ticks that were due.
    pub due: u64,
    /// Of them those that began more than a tenth of a tick after their time.
    pub late: u64,
    /// And those that were left out, because the one before had not ended when the next was due.
    pub missed: u64,
}

struct Writer(Vec<u8>);

impl Writer {
    fn of(kind: u8) -> Self {
        let mut bytes = Vec::with_capacity(ASK_BYTES);
        bytes.extend(MAGIC);
        bytes.push(kind);
        Self(bytes)
    }

    fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn padded(mut self, bytes: usize) -> Vec<u8> {
        self.0.resize(bytes.max(self.0.len()), 0);
        self.0
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn u8(&mut self) -> Option<u8> {
        let (number, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*number)
    }
}

fn open(bytes: &[u8]) -> Option<(u8, Reader<'_>)> {
    let (kind, rest) = bytes.strip_prefix(&MAGIC)?.split_first()?;
    Some((*kind, Reader(rest)))
}

/// Asks to play.
pub(crate) fn hello() -> Vec<u8> {
    Writer::of(HELLO).padded(ASK_BYTES)
}

/// Asks for what was counted.
pub(crate) fn status() -> Vec<u8> {
    Writer::of(STATUS).padded(ASK_BYTES)
}

/// A command of so many bytes.
pub(crate) fn command(token: u64, number: u32, bytes: usize) -> Vec<u8> {
    Writer::of(COMMAND).u64(token).u32(number).padded(bytes)
}

/// Says that one goes.
pub(crate) fn leave(token: u64) -> Vec<u8> {
    Writer::of(LEAVE).u64(token).padded(0)
}

pub(crate) fn welcome(token: u64, tick_ns: u64) -> Vec<u8> {
    Writer::of(WELCOME).u64(token).u64(tick_ns).padded(0)
}

pub(crate) fn full() -> Vec<u8> {
    Writer::of(FULL).padded(0)
}

/// Writes a part's head over the first bytes of `room`.
pub(crate) fn write_part(room: &mut [u8], part: Part) {
    let Some(head) = room.first_chunk_mut::<PART_HEAD_BYTES>() else { return };
    let mut bytes = Writer::of(SNAPSHOT).u64(part.tick).u32(part.taken).padded(0);
    bytes.extend([part.part, part.parts]);
    for (to, from) in head.iter_mut().zip(bytes) {
        *to = from;
    }
}

pub(crate) fn told(told: &Told) -> Vec<u8> {
    let writer = Writer::of(TOLD).u64(told.tick_ns).u32(told.players).u32(told.players_max);
    writer.u64(told.due).u64(told.late).u64(told.missed).padded(0)
}

/// Reads what a player sent.
pub(crate) fn from_player(bytes: &[u8]) -> Option<FromPlayer> {
    let (kind, mut rest) = open(bytes)?;
    let is_padded = bytes.len() >= ASK_BYTES;
    match kind {
        HELLO if is_padded => Some(FromPlayer::Hello),
        STATUS if is_padded => Some(FromPlayer::Status),
        COMMAND => Some(FromPlayer::Command { token: rest.u64()?, number: rest.u32()? }),
        LEAVE => Some(FromPlayer::Leave { token: rest.u64()? }),
        _ => None,
    }
}

/// Reads what a server sent.
pub(crate) fn from_server(bytes: &[u8]) -> Option<FromServer> {
    let (kind, mut rest) = open(bytes)?;
    match kind {
        WELCOME => Some(FromServer::Welcome { token: rest.u64()?, tick_ns: rest.u64()? }),
        FULL => Some(FromServer::Full),
        SNAPSHOT => {
            let (tick, taken) = (rest.u64()?, rest.u32()?);
            Some(FromServer::Snapshot(Part { tick, taken, part: rest.u8()?, parts: rest.u8()? }))
        }
        TOLD => Some(FromServer::Told(Told {
            tick_ns: rest.u64()?,
            players: rest.u32()?,
            players_max: rest.u32()?,
            due: rest.u64()?,
            late: rest.u64()?,
            missed: rest.u64()?,
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ASK_BYTES, FromPlayer, FromServer, PART_HEAD_BYTES, Part, Told, command, from_player,
        from_server, full, hello, leave, status, told, welcome, write_part,
    };

    #[test]
    fn what_is_written_is_read_and_nothing_shorter() {
        let asked = [
            (hello(), FromPlayer::Hello, ASK_BYTES),
            (status(), FromPlayer::Status, ASK_BYTES),
            (command(7, 9, 100), FromPlayer::Command { token: 7, number: 9 }, 17),
            (leave(7), FromPlayer::Leave { token: 7 }, 13),
        ];
        for (bytes, wanted, needed) in asked {
            assert_eq!(from_player(&bytes), Some(wanted));
            assert!((0..needed).all(|cut| from_player(&bytes[..cut]).is_none()), "{wanted:?}");
            assert_eq!(from_server(&bytes), None);
        }
        let part = Part { tick: 1 << 40, taken: 3, part: 1, parts: 2 };
        let mut snapshot = vec![0; 100];
        write_part(&mut snapshot, part);
        let counted = Told { tick_ns: 5, players: 1, players_max: 2, due: 9, late: 4, missed: 3 };
        let said = [
            (welcome(3, 4), FromServer::Welcome { token: 3, tick_ns: 4 }, 21),
            (full(), FromServer::Full, 5),
            (snapshot, FromServer::Snapshot(part), PART_HEAD_BYTES),
            (told(&counted), FromServer::Told(counted), 45),
        ];
        for (bytes, wanted, needed) in said {
            assert_eq!(from_server(&bytes), Some(wanted));
            assert!((0..needed).all(|cut| from_server(&bytes[..cut]).is_none()), "{wanted:?}");
            assert_eq!(from_player(&bytes), None);
        }
        // Nobody is answered more than he sent.
        assert!(told(&counted).len() <= ASK_BYTES && welcome(3, 4).len() <= ASK_BYTES);
    }
}
