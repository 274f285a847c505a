//! What a process has used, from `/proc`: CPU, memory, threads. Linux only; elsewhere there is
//! nothing to read, and the figures are missing.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// What one process has used until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// CPU time in user mode, all threads, also ended ones; in steps of 10 ms.
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Threads now.
    pub threads: u32,
}

impl ProcessSample {
    /// User and system time together.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// Why there is no sample.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// No such process.
    #[error("there is no process {pid}")]
    Gone {
        /// Which.
        pid: u32,
    },
    /// It cannot be read, or there is no `/proc`.
    #[error("process {pid}: {error}")]
    Read {
        /// Which.
        pid: u32,
        /// What the system said.
        error: std::io::Error,
    },
    /// Not the form of proc(5).
    #[error("process {pid}: /proc/{pid}/stat is not understood")]
    Form {
        /// Which.
        pid: u32,
    },
}

/// Reads what process `pid` has used.
///
/// # Errors
/// When the process is gone; one that has ended is, also while nobody has waited for it.
pub fn sample(pid: u32) -> Result<ProcessSample, SampleError> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| {
        // Its folder may be there when it is opened, and gone when it is read.
        let is_gone = error.kind() == std::io::ErrorKind::NotFound
            || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error());
        let is_gone = is_gone && std::path::Path::new("/proc/self").exists();
        if is_gone { SampleError::Gone { pid } } else { SampleError::Read { pid, error } }
    })?;
    if has_ended(&text) {
        return Err(SampleError::Gone { pid });
    }
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(4_096);
    parse(&text, rustix::param::clock_ticks_per_second(), page_bytes)
        .ok_or(SampleError::Form { pid })
}

/// The processes of group `group`, as a server and what it has started are; what has left it is
/// not in it. Source: proc_pid_stat(5), field 5.
fn members(group: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let is_member = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = text.rsplit_once(')').map_or("", |it| it.1);
        let is_of_it = rest.split_ascii_whitespace().nth(2).map(str::parse) == Some(Ok(group));
        is_of_it && !has_ended(&text)
    };
    pids.filter(is_member).collect()
}

/// Processes that are sampled as one server.
#[derive(Debug)]
pub(crate) enum Watched {
    /// Those that were named; all have to live.
    Named(Vec<u32>),
    /// All of the group that a started server leads: its database and its workers count. Of those
    /// that have ended, what they had used when they were last seen.
    Group { leader: u32, seen: BTreeMap<u32, ProcessSample> },
}

impl Watched {
    /// The group that process `leader` leads.
    pub(crate) fn group(leader: u32) -> Self {
        Self::Group { leader, seen: BTreeMap::new() }
    }

    /// Whether there is nothing to sample.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Named(pids) if pids.is_empty())
    }

    /// Processes of it now, the first of a group its leader.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match self {
            Self::Named(pids) => pids.clone(),
            Self::Group { leader, .. } => {
                let mut pids = members(*leader);
                pids.sort_by_key(|pid| (pid != leader, *pid));
                pids
            }
        }
    }

    /// What they have used together until now.
    ///
    /// # Errors
    /// When one that was named is gone, or all of a group.
    pub(crate) fn sample(&mut self) -> Result<ProcessSample, SampleError> {
        let pids = self.pids();
        let (leader, seen) = match self {
            Self::Named(pids) => return sample_all(pids),
            Self::Group { leader, seen } => (*leader, seen),
        };
        if pids.is_empty() {
            return sample(leader);
        }
        for it in seen.values_mut() {
            (it.resident_bytes, it.threads) = (0, 0);
        }
        // One may end between the two looks.
        seen.extend(pids.into_iter().filter_map(|pid| Some((pid, sample(pid).ok()?))));
        Ok(sum(seen.values()))
    }
}

/// What several processes have used together.
///
/// # Errors
/// When one of them is gone.
pub(crate) fn sample_all(pids: &[u32]) -> Result<ProcessSample, SampleError> {
    let all = pids.iter().map(|pid| sample(*pid)).collect::<Result<Vec<_>, _>>()?;
    Ok(sum(all.iter()))
}

fn sum<'a>(samples: impl Iterator<Item = &'a ProcessSample>) -> ProcessSample {
    let mut all = ProcessSample::default();
    for one in samples {
        all.user += one.user;
        all.system += one.system;
        all.resident_bytes += one.resident_bytes;
        all.threads += one.threads;
    }
    all
}

/// Whether a process has ended and its parent has not looked yet: it has no memory any more, which is
/// not the same as none. Source: proc_pid_stat(5), field 3.
fn has_ended(text: &str) -> bool {
    let rest = text.rsplit_once(')').map_or("", |it| it.1);
    matches!(rest.split_ascii_whitespace().next(), Some("Z" | "X"))
}

/// Fields of proc_pid_stat(5): 14 utime, 15 stime, 20 num_threads, 24 rss. The name in brackets
/// may contain anything, so the fields are counted from its end.
fn parse(text: &str, ticks_per_s: u64, page_bytes: u64) -> Option<ProcessSample> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let time = |ticks: u64| Duration::from_nanos(ticks * (1_000_000_000 / ticks_per_s.max(1)));
    Some(ProcessSample {
        user: time(field(14)?),
        system: time(field(15)?),
        threads: u32::try_from(field(20)?).ok()?,
        resident_bytes: field(24)? * page_bytes,
    })
}

/// CPU time that this process has used, finer than [`sample`]'s.
pub(crate) fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Resident memory of this process in bytes; 0 where it cannot be read.
pub(crate) fn own_resident_bytes() -> u64 {
    sample(std::process::id()).map_or(0, |sample| sample.resident_bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ProcessSample, SampleError, Watched, own_cpu, parse, sample, sample_all};

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "71 (a) b (c) S 1 71 71 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 9 0 5 6 7 18446744073709551615";
        let wanted = ProcessSample {
            user: Duration::from_millis(2_500),
            system: Duration::from_millis(500),
            resident_bytes: 7 * 4_096,
            threads: 9,
        };
        assert_eq!(parse(text, 100, 4_096), Some(wanted));
        for cut in 0..text.len() - 21 {
            assert_ne!(parse(&text[..cut], 100, 4_096), Some(wanted));
        }
    }

    #[test]
    fn what_a_server_has_started_counts_as_its_own() {
        use std::os::unix::process::CommandExt as _;
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & sleep 60 & read _"])
            .stdin(std::process::Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut watched = Watched::group(shell.id());
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while watched.pids().len() < 3 && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!((watched.pids().len(), watched.pids()[0]), (3, shell.id()));
        // One that is about to become another program has no memory for a moment.
        let is_counted = |watched: &mut Watched| {
            let (alone, all) = (sample(shell.id()).unwrap(), watched.sample().unwrap());
            all.threads >= 3 && all.resident_bytes > alone.resident_bytes
        };
        while !is_counted(&mut watched) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(is_counted(&mut watched));
        for pid in watched.pids().into_iter().rev() {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        shell.wait().unwrap();
    }

    #[test]
    fn what_has_ended_has_no_memory_to_tell_of() {
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let mut watched = Watched::group(ended.id());
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        // Nobody has waited for it: it stands in /proc still.
        while sample(ended.id()).is_ok() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(matches!(sample(ended.id()), Err(SampleError::Gone { .. })));
        assert!(watched.sample().is_err());
        ended.wait().unwrap();
    }

    #[test]
    fn own_process_is_seen() {
        let own = sample(std::process::id()).unwrap();
        assert!(own.resident_bytes > 0 && own.threads > 0);
        assert!(own_cpu() > Duration::ZERO);
        let used = || engine::thread_usage().map(|it| it.user + it.system).unwrap();
        let before = used();
        assert!(before <= used() && before <= own_cpu());
        assert!(sample(u32::MAX).is_err());
        let me = std::process::id();
        let (one, two) = (sample_all(&[me]).unwrap(), sample_all(&[me, me]).unwrap());
        assert!(two.threads > one.threads && two.resident_bytes > one.resident_bytes);
        assert!(sample_all(&[me, u32::MAX]).is_err());
    }
}
