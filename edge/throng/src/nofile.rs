//! The limit of open files: every socket may count as one, and the usual limit of 1,024 is a
//! leftover from `select`, so the process takes what it may have.
//!
//! What is deliberately not here: raising the hard limit, which only the administrator can.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files besides the clients' sockets: database, logs, listeners, eventfds.
const OTHER_FILES: u64 = 256;

/// Raises the soft limit to the hard one; returns the limit that then holds, `None` for no limit.
pub fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current == limit.maximum || setrlimit(Resource::Nofile, raised).is_err() {
        // Refused: what holds still holds, and `shortage` tells.
        return limit.current;
    }
    limit.maximum
}

/// A line for the operator if so many connections do not fit; `limit` is from [`raise`].
pub fn shortage(connections_max: usize, limit: Option<u64>) -> Option<String> {
    let (limit, wanted) = (limit?, (connections_max as u64).saturating_add(OTHER_FILES));
    (limit < wanted).then(|| {
        format!(
            "the limit of open files is {limit}, `engine.connections_max` needs {wanted}: raise it \
             (`ulimit -Hn`, LimitNOFILE= in systemd, --ulimit nofile in Docker) or lower the option"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let limit = raise();
        assert_eq!(limit, getrlimit(Resource::Nofile).maximum);
        assert_eq!(limit, getrlimit(Resource::Nofile).current);
    }

    #[test]
    fn a_shortage_names_the_option() {
        for (connections, limit, short) in [
            (100, None, false),
            (100, Some(1024), false),
            (768, Some(1024), false),
            (769, Some(1024), true),
            (usize::MAX, Some(u64::MAX - 1), true),
        ] {
            let line = shortage(connections, limit);
            assert_eq!(line.is_some(), short, "{connections} {limit:?}");
            assert!(line.is_none_or(|line| line.contains("`engine.connections_max`")));
        }
    }
}
