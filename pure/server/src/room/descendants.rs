//! Matches that matches make, counted by the one that they go back to: it was made by an RPC or a hook, and
//! all that its callbacks make, and the callbacks of these, are its descendants; and what handlers make of events
//! that any of them tells of (`resources::Spent::ancestor`). So a match that makes one in each tick, as do those
//! that it makes, has a bound of its own, and neither takes all places of its room nor, with what they cost to
//! make, the ticks of the matches beside it.
//!
//! Data in: matches of this room that are made and end. Data out: the setting that says no. Each room counts
//! its own. Not here: how many one call may make (`resources::Spent`), and all of a room (`authoritative`).

use std::collections::BTreeMap;

use event::Now;
use uuid::Uuid;

/// What goes back to one match.
#[derive(Debug, Default)]
struct Family {
    /// Of this room, running now.
    alive: usize,
    /// The second, of the node's clock, in which so many were made here.
    second: u64,
    made: usize,
}

/// By the match that they go back to. What is kept is bounded by the matches that run, and by what a room
/// makes in a second.
#[derive(Debug, Default)]
pub(super) struct Descendants {
    families: BTreeMap<Uuid, Family>,
    second: u64,
}

impl Descendants {
    /// One more descendant of `ancestor`, of at most `alive_max` in this room and `per_s` a second; or the
    /// setting that forbids it, with its value for this room.
    pub(super) fn make(
        &mut self,
        now: Now,
        ancestor: Uuid,
        (alive_max, per_s): (usize, usize),
    ) -> Result<(), (&'static str, usize)> {
        let second = now.mono_ns / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.families.retain(|_, family| family.alive > 0);
        }
        let family = self.families.entry(ancestor).or_default();
        if family.second != second {
            (family.second, family.made) = (second, 0);
        }
        if family.alive >= alive_max {
            return Err(("match.descendants_max / engine.rooms", alive_max));
        }
        if family.made >= per_s {
            return Err(("match.descendants_per_s", per_s));
        }
        family.alive += 1;
        family.made += 1;
        Ok(())
    }

    /// One of them has ended, or has not come to run.
    pub(super) fn ended(&mut self, ancestor: Uuid) {
        let Some(family) = self.families.get_mut(&ancestor) else {
            unreachable!("a descendant of {ancestor} ends that was not counted")
        };
        assert!(family.alive > 0, "more descendants of {ancestor} end than were made");
        family.alive -= 1;
    }
}

#[cfg(test)]
mod tests {
    use event::Now;
    use uuid::Uuid;

    use super::Descendants;

    fn at(second: u64) -> Now {
        Now { mono_ns: second * 1_000_000_000 + 7, ..Now::default() }
    }

    #[test]
    fn each_ancestor_has_its_own_bound() {
        let (mut all, limits) = (Descendants::default(), (2, 100));
        let [one, other] = [1, 2].map(Uuid::from_u128);
        let full = Err(("match.descendants_max / engine.rooms", 2));
        for _ in 0..2 {
            assert_eq!(all.make(at(1), one, limits), Ok(()));
        }
        assert_eq!(all.make(at(1), one, limits), full);
        assert_eq!(all.make(at(9), one, limits), full, "they still run");
        assert_eq!(all.make(at(9), other, limits), Ok(()));
        all.ended(one);
        assert_eq!(all.make(at(9), one, limits), Ok(()));
    }

    /// Matches that end as soon as they are made cost the making.
    #[test]
    fn and_makes_so_many_a_second() {
        let (mut all, limits) = (Descendants::default(), (100, 2));
        let one = Uuid::from_u128(1);
        for second in 5..8 {
            for _ in 0..2 {
                assert_eq!(all.make(at(second), one, limits), Ok(()));
                all.ended(one);
            }
            let refused = all.make(at(second), one, limits);
            assert_eq!(refused, Err(("match.descendants_per_s", 2)));
        }
        // Whoever has made none for a second is forgotten.
        assert_eq!(all.make(at(9), Uuid::from_u128(2), limits), Ok(()));
        assert_eq!(all.families.len(), 1);
    }
}
