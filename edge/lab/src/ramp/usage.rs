//! What servers have used of the machine, from outside: `/proc` of all processes of their sessions.
//!
//! In: the first process of each. Out: numbers since it began. Source: proc_pid_stat(5), proc_pid_status(5),
//! proc_pid_smaps(5), the kernel's Documentation/scheduler/sched-stats.rst.

use std::collections::BTreeMap;
use std::fs;

/// Processes that are looked at, at most.
const PROCESSES_MAX: usize = 100_000;

/// What one server has used until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Time on a processor, and time ready for one without having one, of the threads that are.
    pub(super) ran_ns: u64,
    pub(super) waited_ns: u64,
    /// Times that a thread was taken off its processor.
    pub(super) preempted: u64,
    pub(super) processes: u32,
    /// In use; a page that several share counts for each its part, where the system tells.
    pub(super) memory_bytes: u64,
}

/// Of servers whose first processes these are, in this order: each leads a session of its own.
pub(super) fn of(leaders: &[u32], with_memory: bool) -> Vec<Usage> {
    let mut sessions: BTreeMap<u32, Usage> =
        leaders.iter().map(|it| (*it, Usage::default())).collect();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids.take(PROCESSES_MAX) {
        let Some(usage) = session(pid).and_then(|it| sessions.get_mut(&it)) else { continue };
        usage.processes += 1;
        add_threads(pid, usage);
        if with_memory {
            usage.memory_bytes += memory(pid);
        }
    }
    leaders.iter().map(|it| sessions.get(it).copied().unwrap_or_default()).collect()
}

/// Field 6. The name in parentheses may hold anything, so that fields are counted from its end.
fn session(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(3)?.parse().ok()
}

fn add_threads(pid: u32, usage: &mut Usage) {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads.map(|it| it.path()) {
        let text = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
        let mut words = text.split_ascii_whitespace().map(|it| it.parse().unwrap_or(0));
        usage.ran_ns += words.next().unwrap_or(0);
        usage.waited_ns += words.next().unwrap_or(0);
        let text = fs::read_to_string(thread.join("status")).unwrap_or_default();
        let line = text.lines().find_map(|it| it.strip_prefix("nonvoluntary_ctxt_switches:"));
        usage.preempted += line.and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0);
    }
}

fn memory(pid: u32) -> u64 {
    let kib = |file: &str, name: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        let line = text.lines().find_map(|it| it.strip_prefix(name)?.split_whitespace().next());
        line?.parse::<u64>().ok()
    };
    kib("smaps_rollup", "Pss:").or_else(|| kib("status", "VmRSS:")).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::of;

    /// The session is one that the test begins: that of the test itself may be out of sight, as in a container.
    #[test]
    fn a_session_counts_as_one() {
        let script = "echo; while read _; do :; done";
        let mut server = Command::new("setsid")
            .args(["sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        server.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let [usage, nobody] = of(&[server.id(), u32::MAX], true)[..] else { panic!() };
        drop(server.stdin.take());
        server.wait().unwrap();
        assert_eq!(usage.processes, 1, "{usage:?}");
        assert!(usage.ran_ns > 0 && usage.memory_bytes > 0, "{usage:?}");
        assert_eq!(nobody, super::Usage::default());
    }
}
