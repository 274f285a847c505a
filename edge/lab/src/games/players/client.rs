//! What every player is, whatever the game.

use super::seen::PlayerSeen;
use crate::measure::arrivals::Stream;

/// Datagrams that a player wants sent, in order.
#[derive(Debug, Default)]
pub(crate) struct Out(pub(crate) Vec<Vec<u8>>);

impl Out {
    pub(super) fn send(&mut self, bytes: Vec<u8>) {
        self.0.push(bytes);
    }
}

/// One player. Times are nanoseconds since 1970 by the kernel's clock, which also notes when datagrams come.
pub(crate) trait Client: Send {
    /// It is due: sends what it sends at its rate, or asks again to be let in. Nanoseconds until it is due
    /// again.
    fn beat(&mut self, due_ns: u64, stream: &mut Stream, out: &mut Out) -> u64;

    /// A datagram came.
    fn take(&mut self, bytes: &[u8], at_ns: u64, seen: &mut PlayerSeen, out: &mut Out);

    /// Whether it is where it can see what there is to see.
    fn is_in(&self) -> bool;

    /// It goes.
    fn leave(&mut self, out: &mut Out);
}

/// Nanoseconds until a player who has just sent sends again: a part of the distance more or less, so that
/// no player keeps step with the ticks.
pub(super) fn next_ns(period_ns: u64, stream: &mut Stream) -> u64 {
    stream.between_ns(period_ns / 2, period_ns + period_ns / 2).max(1)
}

/// How long an answer is waited for before one asks again to be let in.
pub(super) const ASK_AGAIN_NS: u64 = 500_000_000;
