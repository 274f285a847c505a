//! Threads that the kernel runs before all ordinary ones, so that on a busy machine what is due is
//! not late. Not here: who should be one.

use std::io;
use std::process::Command;

/// Above all ordinary threads, below what an administrator has put higher.
const PRIORITY: &str = "1";

/// Makes the calling thread, and what it starts from now on, a realtime one (`SCHED_FIFO`), or an
/// ordinary one again. By `chrt` of util-linux, which every Debian has: the system call is not worth
/// unsafe code outside the drivers. Source: sched(7), chrt(1).
///
/// # Errors
/// When the system does not allow it (it takes `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO` above 0),
/// or there is no `chrt`.
pub fn set_realtime(is_on: bool) -> io::Result<()> {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let (policy, priority) = if is_on { ("--fifo", PRIORITY) } else { ("--other", "0") };
    let output = Command::new("chrt").args([policy, "--pid", priority, &thread]).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::new(io::ErrorKind::PermissionDenied, said))
}

#[cfg(test)]
mod tests {
    use super::set_realtime;

    #[test]
    fn an_ordinary_thread_may_stay_one() {
        // Whether it may become a realtime one is the machine's to say.
        if set_realtime(true).is_ok() {
            set_realtime(false).unwrap();
        }
        set_realtime(false).unwrap();
    }
}
