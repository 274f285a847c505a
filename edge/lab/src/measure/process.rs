//! What a process has used, from `/proc`: CPU, memory, threads. Linux only; elsewhere there is
//! nothing to read, and the figures are missing.

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
    /// No such process, or no `/proc`.
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
/// When the process is gone.
pub fn sample(pid: u32) -> Result<ProcessSample, SampleError> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_err(|error| SampleError::Read { pid, error })?;
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(4_096);
    parse(&text, rustix::param::clock_ticks_per_second(), page_bytes)
        .ok_or(SampleError::Form { pid })
}

/// What several processes have used together.
///
/// # Errors
/// When one of them is gone.
pub(crate) fn sample_all(pids: &[u32]) -> Result<ProcessSample, SampleError> {
    let mut all = ProcessSample::default();
    for pid in pids {
        let one = sample(*pid)?;
        all.user += one.user;
        all.system += one.system;
        all.resident_bytes += one.resident_bytes;
        all.threads += one.threads;
    }
    Ok(all)
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

    use super::{ProcessSample, own_cpu, parse, sample, sample_all};

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
    fn own_process_is_seen() {
        let own = sample(std::process::id()).unwrap();
        assert!(own.resident_bytes > 0 && own.threads > 0);
        assert!(own_cpu() > Duration::ZERO);
        assert!(sample(u32::MAX).is_err());
        let me = std::process::id();
        let (one, two) = (sample_all(&[me]).unwrap(), sample_all(&[me, me]).unwrap());
        assert!(two.threads > one.threads && two.resident_bytes > one.resident_bytes);
        assert!(sample_all(&[me, u32::MAX]).is_err());
    }
}
