//! Authoritative matches of this room by whom they were made for: the user of the call that made one, and the
//! address that it came from. What a match makes, also by way of events, is counted to whom the match was made
//! for (`game::events::Cause`). So nobody takes all places of a room by calls that make matches. Calls by the
//! HTTP key, and what modules do by themselves, are nobody's.
//!
//! Data in: matches that are made and end. Data out: the setting that says no. Not here: what goes back to one
//! match (`descendants`), and all of a room (`authoritative`).

use std::collections::BTreeMap;

use game::fetch::{FetchPayer, Principal};

use crate::counts::one_less;

/// How many run, of each who has any: no more entries than twice the matches of the room.
#[derive(Debug, Default)]
pub(super) struct Owners {
    alive: BTreeMap<Principal, u32>,
}

/// To whom a match is counted.
fn owners(payer: FetchPayer) -> impl Iterator<Item = Principal> {
    let user = Some(payer.principal).filter(|principal| matches!(principal, Principal::User(_)));
    user.into_iter().chain(payer.client.map(Principal::Address))
}

impl Owners {
    /// Whether one more may be made, of so many in this room for a user and for an address; or the setting
    /// that forbids it, with its value for this room.
    pub(super) fn check(
        &self,
        payer: FetchPayer,
        (per_user, per_address): (usize, usize),
    ) -> Result<(), (&'static str, usize)> {
        for owner in owners(payer) {
            let (setting, max) = match owner {
                Principal::Address(_) => ("match.matches_per_address_max", per_address),
                _ => ("match.matches_per_user_max", per_user),
            };
            if self.alive.get(&owner).is_some_and(|alive| *alive as usize >= max) {
                return Err((setting, max));
            }
        }
        Ok(())
    }

    /// One more is made.
    pub(super) fn made(&mut self, payer: FetchPayer) {
        owners(payer).for_each(|owner| *self.alive.entry(owner).or_default() += 1);
    }

    /// One of them has ended, or has not come to run.
    pub(super) fn ended(&mut self, payer: FetchPayer) {
        for owner in owners(payer) {
            let was_counted = one_less(&mut self.alive, &owner);
            assert!(was_counted, "a match of {owner} ends that was not counted");
        }
    }
}

#[cfg(test)]
mod tests {
    use game::fetch::{FetchPayer, Principal};
    use uuid::Uuid;

    use super::Owners;

    const LIMITS: (usize, usize) = (2, 3);
    const USER: Result<(), (&str, usize)> = Err(("match.matches_per_user_max", 2));
    const ADDRESS: Result<(), (&str, usize)> = Err(("match.matches_per_address_max", 3));

    fn user(number: u128, client: Option<u128>) -> FetchPayer {
        FetchPayer { principal: Principal::User(Uuid::from_u128(number)), client }
    }

    fn make(owners: &mut Owners, payer: FetchPayer) -> Result<(), (&'static str, usize)> {
        owners.check(payer, LIMITS)?;
        owners.made(payer);
        Ok(())
    }

    #[test]
    fn each_user_and_each_address_has_a_bound() {
        let mut owners = Owners::default();
        let (ann, bob) = (user(1, Some(7)), user(2, Some(7)));
        let nobody = FetchPayer::from(Principal::Address(7));
        assert_eq!([ann, ann].map(|who| make(&mut owners, who)), [Ok(()); 2]);
        assert_eq!(make(&mut owners, ann), USER);
        assert_eq!(make(&mut owners, user(1, Some(8))), USER, "from wherever the user comes");
        assert_eq!(make(&mut owners, bob), Ok(()));
        assert_eq!([bob, nobody].map(|who| make(&mut owners, who)), [ADDRESS; 2]);
        assert_eq!(make(&mut owners, user(2, None)), Ok(()), "an exempt address has no bound");
        owners.ended(ann);
        assert_eq!(make(&mut owners, nobody), Ok(()));
        for who in [ann, bob, nobody, user(2, None)] {
            owners.ended(who);
        }
        assert_eq!(owners.alive.len(), 0, "who has none is forgotten");
    }

    #[test]
    fn the_operators_own_have_none() {
        let mut owners = Owners::default();
        for _ in 0..100 {
            assert_eq!(make(&mut owners, FetchPayer::default()), Ok(()));
        }
        assert_eq!(owners.alive.len(), 0);
    }
}
