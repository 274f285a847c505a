//! What is worth a line in the log and what is not: a limit that is hit a thousand times a second
//! is said once a second. Decides only; whoever asks writes the line. Owned by one thread, or
//! behind a lock.
//!
//! Data comes in as the moment and the kind of the event, and goes out as how many events of that
//! kind the line stands for.

use crate::Now;

/// How long a kind is quiet after a line, nanoseconds.
const QUIET_NS: u64 = 1_000_000_000;

/// Kinds that are told apart. Kinds are texts of the program, so there are a few dozen; should
/// there be more, the last of them share their second.
const KINDS_MAX: usize = 64;

/// Lets one event of each kind through a second.
#[derive(Debug, Default)]
pub struct OncePerSecond {
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    name: &'static str,
    quiet_until_ns: u64,
    unsaid: u64,
}

impl OncePerSecond {
    /// Counts an event. `Some` when it is to be logged: how many events of its kind have not been
    /// since the line before, which this line stands for as well.
    #[must_use]
    pub fn note(&mut self, now: Now, kind: &'static str) -> Option<u64> {
        let known = self.kinds.iter().position(|known| known.name == kind);
        let at = match known {
            Some(at) => at,
            None if self.kinds.len() == KINDS_MAX => KINDS_MAX - 1,
            None => {
                self.kinds.push(Kind { name: kind, quiet_until_ns: 0, unsaid: 0 });
                self.kinds.len() - 1
            }
        };
        let found = self.kinds.get_mut(at)?;
        if now.mono_ns < found.quiet_until_ns {
            found.unsaid += 1;
            return None;
        }
        found.quiet_until_ns = now.mono_ns.saturating_add(QUIET_NS);
        Some(std::mem::take(&mut found.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::OncePerSecond;
    use crate::Now;

    #[test]
    fn each_kind_is_said_once_a_second_with_what_was_not_said() {
        let mut once = OncePerSecond::default();
        let said = (0..2_500).filter_map(|ms| {
            let _ = once.note(Now::default().after_ms(ms), "another");
            once.note(Now::default().after_ms(ms), "one").map(|unsaid| (ms, unsaid))
        });
        assert_eq!(said.collect::<Vec<_>>(), [(0, 0), (1_000, 999), (2_000, 999)]);
    }

    #[test]
    fn kinds_are_bounded() {
        let mut once = OncePerSecond::default();
        for name in (0..100).map(|id| &*format!("kind {id}").leak()) {
            let _ = once.note(Now::default(), name);
        }
        assert_eq!(once.kinds.len(), super::KINDS_MAX);
        // Those for which there is no room share the second of the last that has some.
        let later = Now::default().after_ms(1_000);
        assert_eq!(once.note(later, "kind 62"), Some(0));
        assert_eq!(once.note(later, "yet another"), Some(36));
        assert_eq!(once.note(later, "kind 63"), None);
    }
}
