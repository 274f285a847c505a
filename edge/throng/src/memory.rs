//! How much memory there is for the process: the machine's, or its control group's if that is
//! less. Not what is free just now.
//!
//! Source: Linux `proc_meminfo(5)`, and `Documentation/admin-guide/cgroup-v2.rst` for `memory.max`.

/// What is assumed where nothing tells: a small machine.
const UNKNOWN_BYTES: usize = 2 << 30;

/// Bytes that the process may count on.
pub(crate) fn of_machine_bytes() -> usize {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    bytes(&read("/proc/meminfo"), &read("/sys/fs/cgroup/memory.max"))
}

fn bytes(meminfo: &str, group_max: &str) -> usize {
    let total_kib = meminfo.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<usize>().ok()
    });
    let total = total_kib.map_or(UNKNOWN_BYTES, |kib| kib.saturating_mul(1024));
    // `max` stands for no limit.
    group_max.trim().parse().map_or(total, |group: usize| group.min(total))
}

#[cfg(test)]
mod tests {
    use super::{UNKNOWN_BYTES, bytes};

    #[test]
    fn the_lesser_of_machine_and_group_counts() {
        let meminfo = "MemTotal:       24000000 kB\nMemFree:  1 kB\n";
        for (meminfo, group, wanted) in [
            (meminfo, "max\n", 24_576_000_000),
            (meminfo, "", 24_576_000_000),
            (meminfo, "1048576\n", 1_048_576),
            ("", "", UNKNOWN_BYTES),
        ] {
            assert_eq!(bytes(meminfo, group), wanted);
        }
    }
}
