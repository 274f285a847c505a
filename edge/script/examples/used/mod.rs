//! What this process has in use, for the programs of all languages that tell what calls and matches cost. Not what
//! a guest has asked for: its language counts that.

/// Bytes of memory that the process has in use. Pages that nobody has written to since they were shared (a module
/// of all instances, say) count once (`Pss` of proc_pid_smaps(5)), and not for each as in the resident set.
pub(crate) fn used_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}
