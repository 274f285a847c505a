//! What one receiver of match messages has got, sender by sender: lost, late, doubled.
//!
//! Numbers count per sender and audience from 0; receivers accept any number as the first one,
//! because they may have joined later.

use crate::load::scenario::Audience;
use crate::load::scenario::mark::NUMBER_MASK;

/// Senders that one receiver follows, and itself; beyond, deliveries are timed but not followed, and
/// counted. A little more than the largest match of the benchmark (1,000 players), 24 bytes each.
pub(crate) const SENDERS_MAX: usize = 1_024;

/// What a delivery was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The next one, or the first.
    InOrder,
    /// The next but so many.
    After {
        /// How many are missing for now.
        skipped: u32,
    },
    /// One that was missing.
    Late,
    /// One that came already, or is too old to tell.
    Doubled,
    /// More senders than are followed.
    Untracked,
}

/// What one receiver has got, by sender and audience.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Ordered by sender and audience.
    streams: Vec<Stream>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    sender: u32,
    to_all: bool,
    last: u32,
    /// Bit n: the message `last - n` has come.
    seen: u64,
}

impl Inbox {
    /// Takes note of a delivery.
    pub(crate) fn take(&mut self, sender: u32, to: Audience, number: u32) -> Arrival {
        let to_all = to == Audience::All;
        let place = self
            .streams
            .binary_search_by_key(&(sender, to_all), |stream| (stream.sender, stream.to_all));
        let stream = match place {
            Ok(place) => &mut self.streams[place],
            Err(_) if self.streams.len() >= SENDERS_MAX => return Arrival::Untracked,
            Err(place) => {
                self.streams.insert(place, Stream { sender, to_all, last: number, seen: 1 });
                return Arrival::InOrder;
            }
        };
        let ahead = number.wrapping_sub(stream.last) & NUMBER_MASK;
        let behind = stream.last.wrapping_sub(number) & NUMBER_MASK;
        if ahead != 0 && ahead <= NUMBER_MASK / 2 {
            stream.seen = stream.seen.checked_shl(ahead).unwrap_or(0) | 1;
            stream.last = number;
            if ahead == 1 { Arrival::InOrder } else { Arrival::After { skipped: ahead - 1 } }
        } else if behind >= 64 || stream.seen & (1 << behind) != 0 {
            Arrival::Doubled
        } else {
            stream.seen |= 1 << behind;
            Arrival::Late
        }
    }

    /// Expects a message from now on, so that it is missed also when it would be the first one.
    pub(crate) fn expect(&mut self, sender: u32, to: Audience, number: u32) {
        let key = (sender, to == Audience::All);
        let place = self.streams.binary_search_by_key(&key, |it| (it.sender, it.to_all));
        if let Err(place) = place
            && self.streams.len() < SENDERS_MAX
        {
            let last = number.wrapping_sub(1) & NUMBER_MASK;
            self.streams.insert(place, Stream { sender, to_all: key.1, last, seen: 1 });
        }
    }

    /// The senders followed, with the number of the last message of each.
    pub(crate) fn last_of_each(&self) -> impl Iterator<Item = (u32, Audience, u32)> {
        self.streams.iter().map(|it| {
            (it.sender, if it.to_all { Audience::All } else { Audience::Sender }, it.last)
        })
    }

    /// Forgets everything: the player has left its match.
    pub(crate) fn clear(&mut self) {
        self.streams.clear();
    }
}

/// How many messages `newest` is ahead of `last`.
pub(crate) fn numbers_between(last: u32, newest: u32) -> u32 {
    let ahead = newest.wrapping_sub(last) & NUMBER_MASK;
    if ahead <= NUMBER_MASK / 2 { ahead } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Inbox, NUMBER_MASK, SENDERS_MAX};
    use crate::load::scenario::Audience::{All, Sender};

    #[test]
    fn deliveries_are_told_apart() {
        let mut inbox = Inbox::default();
        let next = |inbox: &mut Inbox, number| inbox.take(7, All, number & NUMBER_MASK);
        let start = NUMBER_MASK - 2;
        for (ahead, wanted) in [
            (0, Arrival::InOrder),
            (1, Arrival::InOrder),
            (2, Arrival::InOrder),
            (3, Arrival::InOrder), // Wrapped.
            (3, Arrival::Doubled),
            (6, Arrival::After { skipped: 2 }),
            (5, Arrival::Late),
            (5, Arrival::Doubled),
            (4, Arrival::Late),
            (7, Arrival::InOrder),
            (107, Arrival::After { skipped: 99 }),
            (44, Arrival::Late),
            (43, Arrival::Doubled), // Too old to tell.
        ] {
            assert_eq!(next(&mut inbox, start.wrapping_add(ahead)), wanted, "{ahead}");
        }
        assert_eq!(inbox.take(7, Sender, 0), Arrival::InOrder);
        assert_eq!(inbox.last_of_each().count(), 2);
        inbox.expect(7, Sender, 9);
        assert_eq!(inbox.take(7, Sender, 1), Arrival::InOrder);
        inbox.expect(6, Sender, 0);
        assert_eq!(inbox.last_of_each().next(), Some((6, Sender, NUMBER_MASK)));
        assert_eq!(inbox.take(6, Sender, 2), Arrival::After { skipped: 2 });
        for sender in (8..2_000).rev() {
            inbox.take(sender, All, 0);
        }
        assert_eq!(inbox.take(3_000, All, 0), Arrival::Untracked);
        assert_eq!(inbox.take(1_999, All, 1), Arrival::InOrder);
        assert_eq!(inbox.last_of_each().count(), SENDERS_MAX);
    }
}
