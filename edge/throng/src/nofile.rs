//! The limit of open files: every socket may count as one, and the usual limit of 1,024 is a
//! leftover from `select`, so the process takes what it may have, and says when that is too little.
//!
//! What is deliberately not here: raising it, which the engine does.

/// Files besides the clients' sockets: database, logs, listeners, eventfds.
const OTHER_FILES: u64 = 256;

/// A line for the operator if so many connections do not fit; `limit` is from
/// [`engine::raise_file_limit`].
pub fn shortage(connections_max: usize, limit: Option<u64>) -> Option<String> {
    let (limit, wanted) = (limit?, (connections_max as u64).saturating_add(OTHER_FILES));
    (limit < wanted).then(|| {
        format!(
            "the limit of open files is {limit}, `engine.connections_max` needs {wanted}: raise it \
             (`ulimit -Hn`, LimitNOFILE= in systemd, --ulimit nofile in Docker) or lower the option"
        )
    })
}

/// With fewer files even a server without clients may not start: a database connection takes two, each
/// thread one or two more, and the ring wants a table of its own of that size.
const START_FILES_MIN: u64 = 256;

/// What an operator should know of a start that failed with such a limit: what was refused says
/// often no more than that a file cannot be opened.
pub fn of_failed_start(limit: Option<u64>) -> Option<String> {
    let limit = limit.filter(|limit| *limit < START_FILES_MIN)?;
    Some(format!(
        "the limit of open files is {limit}, and a start may need {START_FILES_MIN}: raise it first \
         (`ulimit -Hn`, LimitNOFILE= in systemd, --ulimit nofile in Docker)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_fails_for_want_of_files_only_with_few() {
        assert!(of_failed_start(Some(64)).is_some_and(|line| line.contains("files is 64")));
        assert_eq!((of_failed_start(Some(1024)), of_failed_start(None)), (None, None));
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
