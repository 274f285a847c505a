//! Errors of guest code by the version of the modules that ran, of one thread.
//!
//! Not here: which versions there are (`loader`). As many are told apart as can be in use at once; the place of one that is
//! long gone is a later one's.

use game::guest::GuestVersion;

use super::Counter;
use crate::loader::OLDER_VERSIONS_MAX;

/// The version that serves, and those that are older.
const VERSIONS: usize = OLDER_VERSIONS_MAX + 1;

/// How often functions of each version have failed: all errors but those that a game words itself, with a code of its own.
#[derive(Debug, Default)]
pub struct VersionErrors([(Counter, Counter); VERSIONS]);

impl VersionErrors {
    /// A function of this version has failed.
    pub(crate) fn note(&self, version: GuestVersion) {
        let number = u64::from(version.0);
        let place = usize::try_from(version.0).unwrap_or_default() % VERSIONS;
        let Some((of, count)) = self.0.get(place) else { return };
        if of.read() != number {
            count.set(0);
            of.set(number);
        }
        count.up();
    }

    /// Versions of which something has failed, and how often.
    pub fn read(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.0.iter().map(|(of, count)| (of.read(), count.read()));
        counts.filter(|(of, _)| *of > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart_and_old_ones_make_room() {
        let errors = VersionErrors::default();
        let last = u32::try_from(VERSIONS).unwrap();
        for version in [1, 2, 2, last] {
            errors.note(GuestVersion(version));
        }
        let sorted = || {
            let mut all: Vec<_> = errors.read().collect();
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(), [(1, 1), (2, 2), (u64::from(last), 1)]);
        errors.note(GuestVersion(1 + last));
        assert_eq!(sorted(), [(2, 2), (u64::from(last), 1), (u64::from(last) + 1, 1)]);
    }
}
