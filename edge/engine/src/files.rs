//! The process's limit of open files: raised as far as it may be, and what it leaves for
//! connections.

/// Raises the process's limit of open files as far as it may, and returns the one that then holds;
/// `None` for no limit. Every socket counts on the readiness driver; on the ring it bounds the
/// registered files of each thread. A refusal leaves what held before.
///
/// Source: getrlimit(2); systems start programs with a low soft limit because of select(2).
#[cfg(unix)]
#[must_use]
pub fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current == limit.maximum || setrlimit(Resource::Nofile, raised).is_err() {
        return limit.current;
    }
    limit.maximum
}

/// Files besides the clients' sockets: database, logs, listeners, eventfds.
const OTHER_FILES: u64 = 256;

/// How many connections each of `threads` may hold without the ring, so that the process has open
/// files left for everything else.
pub(crate) fn connections_by_files(threads: usize) -> u32 {
    #[cfg(unix)]
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    let files = None;
    share(files, threads)
}

/// The part of each of `threads` of so many files.
fn share(files: Option<u64>, threads: usize) -> u32 {
    let Some(files) = files else { return u32::MAX };
    let others = OTHER_FILES.min(files / 4);
    let each = (files - others) / u64::try_from(threads.max(1)).unwrap_or(u64::MAX);
    u32::try_from(each).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{connections_by_files, raise_file_limit, share};

    #[test]
    fn threads_share_the_files_that_are_left_for_connections() {
        for (files, threads, each) in [
            (Some(20_256), 2, 10_000),
            (Some(20_256), 0, 20_000),
            (Some(1_000), 1, 750),
            (Some(0), 3, 0),
            (Some(u64::MAX), 1, u32::MAX),
            (None, 4, u32::MAX),
        ] {
            assert_eq!(share(files, threads), each, "{files:?} files, {threads} threads");
        }
        assert!(connections_by_files(2) <= connections_by_files(1));
    }

    #[test]
    fn the_file_limit_is_raised_as_far_as_it_goes() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        let lower = Rlimit { current: Some(maximum.unwrap_or(1 << 20) - 1), maximum };
        setrlimit(Resource::Nofile, lower).unwrap();
        let raised = raise_file_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!((raised, raised), (limit.maximum, limit.current));
    }
}
