//! What `/proc` says of a process that is not ours to wait for: whether it is still the same, what it
//! has used, which ports it holds.
//!
//! In: files of `/proc`. Out: numbers; `None` of a process that has ended. Source: proc_pid_stat(5),
//! proc_pid_status(5), the kernel's Documentation/scheduler/sched-stats.rst, proc_pid_net(5).

use std::fs;
use std::io::Read as _;
use std::time::Duration;

/// SIGTERM's bit in the masks of `/proc/PID/status`.
const TERM_BIT: u64 = 1 << 14;
/// State of a TCP socket that listens. Source: the kernel's include/net/tcp_states.h.
const LISTENING: &str = "0A";
/// Processes that are looked at, at most: all that there can be. Source: proc_sys_kernel(5), `pid_max`.
const PROCESSES_MAX: usize = 4 << 20;
/// Bytes of a process's variables that are read. The process says itself where they are and how many
/// (prctl(2), `PR_SET_MM_MAP`); execve(2) takes no more, three quarters of 8 MiB.
const VARIABLES_BYTES_MAX: u64 = 6 << 20;

/// One process for good: numbers are given again, moments of a start are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Identity {
    /// Its number.
    pub(crate) pid: u32,
    /// When it started, in ticks of the kernel's clock since the machine's start.
    pub(crate) start: u64,
}

impl Identity {
    /// The process that has this number now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, start: fields(pid)?.start })
    }

    /// Whether it still runs. One that has ended and is not yet waited for does not.
    pub(crate) fn is_alive(self) -> bool {
        fields(self.pid).is_some_and(|it| it.start == self.start && !it.is_ended)
    }
}

struct Fields {
    session: u64,
    start: u64,
    cpu_ticks: u64,
    is_ended: bool,
}

fn fields(pid: u32) -> Option<Fields> {
    fields_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may hold anything, so that fields are counted from its end.
fn fields_of(stat: &str) -> Option<Fields> {
    let (_, rest) = stat.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number = |field: usize| words.get(field - 3)?.parse::<u64>().ok();
    let is_ended = matches!(*words.first()?, "Z" | "X" | "x");
    let (session, start) = (number(6)?, number(22)?);
    Some(Fields { session, start, cpu_ticks: number(14)? + number(15)?, is_ended })
}

/// Which start of the machine this is.
pub(crate) fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Processor time of a process, its ended threads included.
pub(crate) fn cpu(pid: u32) -> Option<Duration> {
    let ticks = fields(pid)?.cpu_ticks;
    let hz = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / hz)))
}

/// Memory of a process that is in use, in bytes.
pub(crate) fn memory(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}

/// Time that the threads of these processes have waited for a processor, all together.
pub(crate) fn waited(pids: &[u32]) -> Duration {
    let mut nanos = 0_u64;
    for pid in pids {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            nanos += text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        }
    }
    Duration::from_nanos(nanos)
}

/// Whether SIGTERM would end a process, were it an ordinary one. The first process of its own process
/// ids is sent only what it handles: it would never learn of the signal.
pub(crate) fn ignores_term(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    mask.is_some_and(|mask| mask & TERM_BIT == 0)
}

/// Whether a port is bound in a process's network, by UDP or by a TCP socket that listens; if an owner
/// is given, by a socket of that user.
pub(crate) fn is_bound(pid: u32, port: u16, owner: Option<u32>) -> bool {
    [("udp", false), ("udp6", false), ("tcp", true), ("tcp6", true)].iter().any(|(kind, is_tcp)| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{kind}")).unwrap_or_default();
        has_socket(&text, port, owner, *is_tcp)
    })
}

fn has_socket(table: &str, port: u16, owner: Option<u32>, is_tcp: bool) -> bool {
    let wanted = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, uid, ..] = &*words else { return false };
        let is_owner = owner.is_none_or(|owner| uid.parse() == Ok(owner));
        local.ends_with(&wanted) && is_owner && (!is_tcp || *state == LISTENING)
    })
}

/// The user of a process.
pub(crate) fn user(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().next()?.parse().ok()
}

/// All processes.
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.parse().ok()).take(PROCESSES_MAX)
}

/// The running processes of the session that a process began. That process may have ended: its number is
/// nobody else's while others of its session are left.
pub(crate) fn of_session(first: Identity) -> Vec<u32> {
    if fields(first.pid).is_some_and(|it| it.start != first.start) {
        return Vec::new();
    }
    let is_of = |it: &Fields| !it.is_ended && it.session == u64::from(first.pid);
    all().filter(|pid| fields(*pid).as_ref().is_some_and(is_of)).collect()
}

/// The running processes that were started with this variable. Of users that are not ours nothing is known.
pub(crate) fn with_variable(name: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{name}={value}");
    let is_of = |pid: &u32| {
        let mut variables = Vec::new();
        // Who has ended has none, or half of them: it is nobody who must be found.
        let _ = fs::File::open(format!("/proc/{pid}/environ"))
            .and_then(|file| file.take(VARIABLES_BYTES_MAX).read_to_end(&mut variables));
        variables.split(|byte| *byte == 0).any(|it| it == wanted.as_bytes())
    };
    all().filter(is_of).collect()
}

/// The running processes of a user.
pub(crate) fn of_user(user: u32) -> Vec<u32> {
    let is_of = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // Who has ended and is not waited for can do nothing, and cannot be ended again.
        let has_ended = text.lines().any(|line| line.starts_with("State:\tZ"));
        let ids = text.lines().find_map(|line| line.strip_prefix("Uid:"));
        !has_ended && ids.and_then(|it| it.split_whitespace().next()?.parse().ok()) == Some(user)
    };
    all().filter(is_of).collect()
}

#[cfg(test)]
mod tests {
    use super::{Identity, fields_of, has_socket};

    #[test]
    fn a_process_is_known_again() {
        let ours = Identity::of(std::process::id()).unwrap();
        assert!(ours.is_alive());
        assert!(!Identity { start: ours.start + 1, ..ours }.is_alive());
        let stat = "7 (a) b) c) S 4 5 6 7 8 9 10 11 12 13 20 30 16 17 18 19 20 21 4242 23 24";
        let fields = fields_of(stat).unwrap();
        assert_eq!((fields.start, fields.cpu_ticks, fields.is_ended), (4_242, 50, false));
        assert_eq!(fields.session, 6);
        assert!(fields_of("7 (a) Z 1").is_none());
    }

    #[test]
    fn sockets_are_found_by_port_and_user() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
            1: 00000000:6D38 00000000:0000 07 00000000:00000000 00:00000000 00000000  1001  0 5\n\
            2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 6\n\
            3: 0100007F:0050 0100007F:9999 01 00000000:00000000 00:00000000 00000000  0  0 7\n";
        assert!(has_socket(table, 27_960, None, false));
        assert!(has_socket(table, 27_960, Some(1_001), false));
        assert!(!has_socket(table, 27_960, Some(7), false));
        assert!(has_socket(table, 22, None, true));
        assert!(!has_socket(table, 80, None, true));
        assert!(!has_socket(table, 27_961, None, false));
    }
}
