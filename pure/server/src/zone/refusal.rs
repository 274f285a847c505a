//! Why the zone's home does not let somebody in, or does not heed a packet.
//!
//! Data in: nothing. Data out: texts for clients and the log, and the setting that moves a limit. What is
//! deliberately not here: when that is so (`home`).

use world::Malformed;

/// Packets of one pilot that are read in a tick.
pub(super) const INPUTS_PER_TICK_MAX: u8 = 4;

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// As many are in it as may be, and wait.
    #[error("the zone is full (world.players_max), and so is the line (world.waiting_max)")]
    Full,
    /// It has too much to do, nothing else helps, and as many wait as may.
    #[error("the zone lets nobody in just now, and the line is full (world.waiting_max)")]
    Closed,
    /// One user's sessions steer as many ships as they may.
    #[error("too many ships of one user (world.ships_per_user)")]
    User,
    /// One address's do.
    #[error("too many ships of one address (world.ships_per_address)")]
    Address,
}

impl Refusal {
    /// The setting that moves the limit.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Full => "world.players_max",
            Self::Closed => "world.waiting_max",
            Self::User => "world.ships_per_user",
            Self::Address => "world.ships_per_address",
        }
    }
}

/// Why a packet was not heeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unheard {
    /// The session has no ship.
    #[error("no ship")]
    NoShip,
    /// More packets than a tick has use for.
    #[error("more than {INPUTS_PER_TICK_MAX} packets in a tick")]
    TooMany,
    /// Bytes that are none.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}
