//! How many datagrams came from each address in this second, before anything of them is believed: so a flood
//! costs a look and no hash.
//!
//! Addresses can be forged at will, so that no record may be made for each: they share places, by a secret
//! number, so that nobody can choose to share one with somebody else.

use event::{Now, Random};

use super::peer::Rate;

/// Addresses that are told apart, about.
const PLACES: usize = 1 << 14;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    secret: [u64; 2],
    places: Vec<Rate>,
}

impl Addresses {
    /// One more of a client ([`event::client_bits`]), if it is not beyond so many in a second.
    pub(super) fn take(&mut self, now: Now, client: u128, per_s: u32, random: &mut Random) -> bool {
        if per_s == 0 {
            return true;
        }
        if self.places.is_empty() {
            self.secret = [random.u64() | 1, random.u64()];
            self.places.resize(PLACES, Rate::default());
        }
        let place = self.place(client);
        self.places.get_mut(place).is_none_or(|rate| rate.take(now, per_s))
    }

    fn place(&self, client: u128) -> usize {
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0);
        let [factor, addend] = self.secret;
        let stir = |bits: u64| (bits ^ bits >> 32).wrapping_mul(factor);
        let mixed = stir(stir(half(client >> 64) ^ addend) ^ half(client));
        usize::try_from(stir(mixed) >> 32).unwrap_or(0) % PLACES
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use event::{Now, Random};

    use super::Addresses;

    #[test]
    fn each_address_has_its_share_of_every_second() {
        let (mut addresses, mut random) = (Addresses::default(), Random::from_number(1));
        let mut taken = |ms, client| {
            let now = Now::default().after_ms(ms);
            (0..100).filter(|_| addresses.take(now, client, 30, &mut random)).count()
        };
        assert_eq!([taken(0, 1), taken(0, 2), taken(999, 1), taken(1_000, 1)], [30, 30, 0, 30]);
        let now = Now::default();
        assert!((0..100).all(|_| addresses.take(now, 9, 0, &mut random)), "0 is off");
    }

    #[test]
    fn places_are_spread() {
        let (mut addresses, mut random) = (Addresses::default(), Random::from_number(2));
        addresses.take(Now::default(), 0, 1, &mut random);
        for shift in [0, 8, 64] {
            let places: BTreeSet<usize> =
                (0..4_096_u128).map(|client| addresses.place(client << shift)).collect();
            assert!(places.len() > 3_000, "{} places at {shift}", places.len());
        }
    }
}
