//! What the generator remembers of one virtual player: where it stands in its session, what it
//! waits for, and the few values it has captured. Some 2 KB each, histograms not counted.

use event::{ConnId, TimerId};
use wire::http1::ResponseDecoder;
use wire::websocket;

use crate::load::generator::inbox::Inbox;
use crate::measure::arrivals::Stream;

/// The player's connection, kept apart from the rest so that a response that is lent from it does
/// not lock the player.
#[derive(Debug, Default)]
pub(crate) enum Link {
    /// No connection.
    #[default]
    None,
    /// TCP is being connected.
    Connecting,
    /// TCP stands, and TLS is being agreed on.
    Securing,
    /// Speaks HTTP.
    Http {
        decoder: ResponseDecoder,
        /// Part of a response has come.
        is_partial: bool,
    },
    /// Asked for a socket with this key.
    Upgrading { decoder: ResponseDecoder, key: [u8; 16] },
    /// Speaks WebSocket.
    Socket(websocket::Decoder),
}

/// What the player is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Has not come yet, or has left.
    #[default]
    Absent,
    /// Waits for its timer, or for nothing.
    Waiting,
    /// Has an operation to do as soon as its connection stands.
    Connecting,
    /// An operation is under way.
    Busy,
}

/// What answers the operation under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expecting {
    /// HTTP responses.
    #[default]
    Responses,
    /// The answer to the handshake.
    Upgrade,
    /// The envelope with this number.
    Cid(u32),
    /// The next binary frame, of this number.
    Echo(u64),
    /// The next data frame, whatever it says.
    Frame,
    /// The match message of this number, back from the match.
    Delivery(u32),
}

/// One virtual player.
#[derive(Debug, Default)]
pub(crate) struct Player {
    /// Its number in the run.
    pub(crate) number: u32,
    pub(crate) session: u16,
    /// The step it is at.
    pub(crate) step: u16,
    pub(crate) doing: Doing,
    pub(crate) expecting: Expecting,
    /// Answers that the operation under way still lacks.
    pub(crate) left: u16,
    /// Has reached its loop, or its place to hold, once.
    pub(crate) is_ready: bool,
    /// The intended time of this step has been taken already.
    pub(crate) is_intended: bool,
    /// The step is a think time, and under way.
    pub(crate) is_thinking: bool,
    /// Prepares itself for the first time: has a place in the door.
    pub(crate) is_preparing: bool,
    /// How often in a row it was told to try again.
    pub(crate) retries: u8,
    /// Its last failure before it was ready, by its place in the generator's list, from 1 on.
    pub(crate) failure: u16,
    pub(crate) conn: Option<ConnId>,
    /// Rises with every attempt to connect, so that a late answer is told from a fresh one.
    pub(crate) attempt: u32,
    pub(crate) timer: Option<TimerId>,
    pub(crate) intended_ns: u64,
    pub(crate) sent_ns: u64,
    /// From when on the step could begin: the intended time of steps without a beat.
    pub(crate) ready_ns: u64,
    /// How late the operation began to connect by the generator's own fault.
    pub(crate) connect_behind_ns: u64,
    /// When the next paced beat is due; 0 before the first.
    pub(crate) beat_ns: u64,
    /// When the next beat could begin if the server took no time: the end of the think times that
    /// belong to the beats before. A player that thinks past its beat is not late.
    pub(crate) free_ns: u64,
    /// When the loop began, and when `first` was last done.
    pub(crate) loop_ns: u64,
    pub(crate) renewed_ns: u64,
    /// Rounds begun in this session, and in all.
    pub(crate) rounds: u32,
    pub(crate) round: u32,
    pub(crate) cid: u32,
    /// The ping under way: its number, and when it was sent.
    pub(crate) ping: Option<(u32, u64)>,
    pub(crate) next_ping_ns: u64,
    /// Match messages sent, by audience.
    pub(crate) numbers: [u32; 2],
    /// Its beats, think times and waits.
    pub(crate) random: Stream,
    pub(crate) captured: Box<[Box<str>]>,
    /// Its row of each data file.
    pub(crate) rows: Box<[u32]>,
    pub(crate) inbox: Inbox,
}

#[cfg(test)]
mod tests {
    use super::{Link, Player};

    #[test]
    fn a_player_is_small() {
        // With a token of 400 bytes, a match id, and ten senders of 16 bytes: far below 4 KB.
        assert!(size_of::<Player>() <= 320, "{}", size_of::<Player>());
        assert!(size_of::<Link>() <= 128, "{}", size_of::<Link>());
    }
}
