//! Threads that the kernel runs before all ordinary ones, so that on a busy machine what is due is
//! not late. Not here: who should be one.

use std::io;

/// Above all ordinary threads, below what an administrator has put higher.
const PRIORITY: libc::c_int = 1;

/// Makes the calling thread, and what it starts from now on, a realtime one (`SCHED_FIFO`), or an
/// ordinary one again. Source: sched(7).
///
/// # Errors
/// When the system does not allow it: it takes `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO` above 0.
pub fn set_realtime(is_on: bool) -> io::Result<()> {
    let (policy, sched_priority) =
        if is_on { (libc::SCHED_FIFO, PRIORITY) } else { (libc::SCHED_OTHER, 0) };
    let param = libc::sched_param { sched_priority };
    // SAFETY: `param` lives as long as the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
