//! Names for those who give none: ten letters that look random and are the user's id in disguise.
//!
//! Why: an index of names is a tree in which every registration touches a random page, much of
//! what registering a device costs. A name that can be turned back into its id needs no index: the
//! user is found among the ids. So only names that somebody chose are indexed, and
//! `users.generated` is 1 for the others.
//!
//! The disguise is a bijection between 57 bits of the id (41 of its time, 16 of its randomness) and
//! numbers below 2⁵⁷, which ten letters of 52 can just hold. It hides nothing: ids and times of
//! registration are public anyway.
//!
//! No two users have one name, although no index says so:
//!
//! * Two generated ones: the rest of the id of a user without a name follows from these 57 bits
//!   ([`own_id`]), so that the same name would be the same id, of which the table has one.
//! * A generated and a chosen one: whoever chooses or makes a name looks whether the other kind has it.
//!   Both may do so at once only in the moment in which the name is made, which the name tells: near
//!   that it cannot be chosen ([`is_being_made`]; one name of ten letters in 300,000).

use event::Now;
use uuid::Uuid;

/// Letters of a name.
pub(crate) const LETTERS: usize = 10;

const ALPHABET: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const BITS: u32 = 57;
const MASK: u64 = (1 << BITS) - 1;
/// 2020-01-01, unix milliseconds; 41 bits of milliseconds last from here to 2089.
const EPOCH_MS: u64 = 1_577_836_800_000;
const TIME_BITS: u32 = 41;
/// Bits of a version 7 id behind those that its name stands for.
const REST_BITS: u32 = 58;
/// For how long before and after it is made a name cannot be chosen, milliseconds: more than a
/// transaction takes, and clocks of servers differ.
const MAKING_MS: u64 = 3_600_000;

/// Odd, hence invertible modulo 2⁵⁷; the digits of the golden ratio and of √2, which are as good
/// as any.
const FACTORS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0x6a09_e667_f3bc_c909, 0x9e37_79b9_7f4a_7c15];

/// The id that has the name of this one in common with no other that this function gives.
pub(crate) fn own_id(id: Uuid) -> Uuid {
    let (high, low) = id.as_u64_pair();
    let rest = scramble(scramble(bits(id)));
    Uuid::from_u64_pair(high, (low >> REST_BITS << REST_BITS) | rest)
}

/// Whether somebody may be given this name by now, and nobody can see it yet.
pub(crate) fn is_being_made(name: &str, now: Now) -> bool {
    let made_ms = |(first, _): (Uuid, Uuid)| first.as_u64_pair().0 >> 16;
    ids(name).map(made_ms).is_some_and(|at| at.abs_diff(now.unix_ms) <= MAKING_MS)
}

/// The name of an id.
pub(crate) fn name(id: Uuid) -> [u8; LETTERS] {
    let mut number = scramble(bits(id));
    std::array::from_fn(|_| {
        let letter = usize::try_from(number % 52).unwrap_or(0);
        number /= 52;
        ALPHABET[letter]
    })
}

/// The first and the last id that have this name; `None` if no id has it.
pub(crate) fn ids(name: &str) -> Option<(Uuid, Uuid)> {
    if name.len() != LETTERS {
        return None;
    }
    let mut number: u64 = 0;
    for letter in name.bytes().rev() {
        let value = match letter {
            b'a'..=b'z' => letter - b'a',
            b'A'..=b'Z' => letter - b'A' + 26,
            _ => return None,
        };
        number = number * 52 + u64::from(value);
    }
    if number > MASK {
        return None;
    }
    let bits = uncover(number);
    let unix_ms = (bits >> 16) + EPOCH_MS;
    // The layout of version 7 ids: 48 bits of time, 4 of version, 12 random, 2 of variant, 62
    // random.
    let (random_a, random_b) = ((bits >> 4) & 0xfff, bits & 0xf);
    let high = u128::from((unix_ms << 16) | 0x7000 | random_a) << 64;
    let low = (0b10 << 62) | (random_b << REST_BITS);
    let first = high | u128::from(low);
    Some((Uuid::from_u128(first), Uuid::from_u128(first | ((1 << REST_BITS) - 1))))
}

/// Whether an id can be found by its name: only version 7 ids of the years 2020–2089 can.
pub(crate) fn is_found(id: Uuid) -> bool {
    let name = name(id);
    std::str::from_utf8(&name)
        .ok()
        .and_then(ids)
        .is_some_and(|(first, last)| (first..=last).contains(&id))
}

/// The bits of an id that its name stands for.
fn bits(id: Uuid) -> u64 {
    let (high, low) = id.as_u64_pair();
    let time = (high >> 16).wrapping_sub(EPOCH_MS) & ((1 << TIME_BITS) - 1);
    (time << 16) | ((high & 0xfff) << 4) | ((low >> REST_BITS) & 0xf)
}

/// Multiplications carry upwards, shifts bring the top down again.
fn scramble(bits: u64) -> u64 {
    let mut mixed = bits;
    for factor in FACTORS {
        mixed = mixed.wrapping_mul(factor) & MASK;
        mixed ^= mixed >> 29;
    }
    mixed
}

/// The inverse of [`scramble`]: shifting by more than half the bits undoes itself.
fn uncover(number: u64) -> u64 {
    let mut mixed = number;
    for factor in FACTORS.into_iter().rev() {
        mixed ^= mixed >> 29;
        mixed = mixed.wrapping_mul(inverse(factor)) & MASK;
    }
    mixed
}

/// The inverse modulo 2⁶⁴ of an odd number, by Newton's method: right to 3 bits at first, and to
/// twice as many after every step.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use event::{Now, Random};

    use super::{MAKING_MS, ids, is_being_made, is_found, name, own_id};

    #[test]
    fn names_lead_back_to_their_ids() {
        let mut random = Random::from_number(1);
        let mut names = std::collections::BTreeSet::new();
        let starts = [super::EPOCH_MS, 1_767_323_045_000, super::EPOCH_MS + (1 << 41) - 1];
        for number in 0..3_000_usize {
            let now = Now { mono_ns: 0, unix_ms: starts[number % 3] };
            let id = crate::session::new_id(now, &mut random);
            let name = String::from_utf8(name(id).to_vec()).unwrap();
            assert!(name.bytes().all(|letter| letter.is_ascii_alphabetic()), "{name}");
            let (first, last) = ids(&name).unwrap();
            assert!(first <= id && id <= last && is_found(id), "{name} {id}");
            assert_eq!(first.as_u128() >> 58, last.as_u128() >> 58);
            names.insert(name);
        }
        // 3,000 ids of three milliseconds: some share their 16 random bits, most do not.
        assert!(names.len() > 2_900, "{}", names.len());
    }

    #[test]
    fn one_name_is_one_id() {
        let mut random = Random::from_number(3);
        let now = Now { mono_ns: 0, unix_ms: 1_767_323_045_000 };
        let mut ids_of = std::collections::BTreeMap::new();
        let mut shared = 0;
        // Of one millisecond, so that many share their 16 bits.
        for _ in 0..2_000 {
            let drawn = crate::session::new_id(now, &mut random);
            let id = own_id(drawn);
            assert_eq!((name(id), own_id(id)), (name(drawn), id));
            assert!(is_found(id) && id.get_version_num() == 7);
            let before = ids_of.insert(name(id), id);
            assert!(before.is_none_or(|before| before == id));
            shared += usize::from(before.is_some());
        }
        assert!(shared > 0, "so that it was tried");
    }

    #[test]
    fn a_name_cannot_be_chosen_while_it_is_made() {
        let mut random = Random::from_number(4);
        let made = Now { mono_ns: 0, unix_ms: 1_767_323_045_000 };
        let name = name(crate::session::new_id(made, &mut random));
        let name = std::str::from_utf8(&name).unwrap();
        let at = |unix_ms| is_being_made(name, Now { mono_ns: 0, unix_ms });
        let (first, last) = (made.unix_ms - MAKING_MS, made.unix_ms + MAKING_MS);
        assert_eq!([first - 1, first, last, last + 1].map(at), [false, true, true, false]);
        assert!(!is_being_made("ann", made) && !is_being_made("ZZZZZZZZZZ", made));
    }

    #[test]
    fn neighbours_look_nothing_alike() {
        let mut random = Random::from_number(2);
        let mut same_count = 0;
        for unix_ms in 0..1_000 {
            let now = Now { mono_ns: 0, unix_ms: 1_767_323_045_000 + unix_ms };
            let pair =
                [now, now.after_ms(1)].map(|now| name(crate::session::new_id(now, &mut random)));
            same_count += pair[0].iter().zip(pair[1]).filter(|(a, b)| **a == *b).count();
        }
        // One letter in 52 is the same by chance: 192 of 10,000.
        assert!((100..300).contains(&same_count), "{same_count}");
    }

    #[test]
    fn other_names_and_ids_stand_for_themselves() {
        for name in ["", "short", "elevenchars", "with space", "abcdefghi1", "ZZZZZZZZZZ", "äöüßé"]
        {
            assert_eq!(ids(name), None, "{name}");
        }
        assert!(!is_found(uuid::Uuid::nil()));
        assert!(!is_found(uuid::Uuid::from_u128(u128::MAX)));
        let mut random = Random::from_number(1);
        let before = Now { mono_ns: 0, unix_ms: super::EPOCH_MS - 1 };
        assert!(!is_found(crate::session::new_id(before, &mut random)));
    }
}
