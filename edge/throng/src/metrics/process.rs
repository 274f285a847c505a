//! The process's own numbers, from /proc, under the names that all programs use.
//!
//! Source: "Process metrics", prometheus.io/docs/instrumenting/writing_clientlibs; proc(5). A file
//! that cannot be read leaves its samples out.

use super::{Kind, Sample};

/// Adds CPU time, memory, threads and open files.
pub(super) fn samples(out: &mut Vec<Sample>) {
    if let Ok(stat) = std::fs::read_to_string("/proc/self/stat") {
        out.extend(from_stat(&stat, rustix::param::clock_ticks_per_second()));
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        let help = "Open files and sockets.";
        out.push(Sample::gauge("process_open_fds", help, files.count() as u64));
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if let Some(max) = limit.current {
        let help = "Open files and sockets that the system allows.";
        out.push(Sample::gauge("process_max_fds", help, max));
    }
    let help = "Log lines that were dropped because the destination did not take them.";
    out.push(Sample::counter("log_lines_dropped", help, crate::logs::dropped_lines()));
}

/// Reads the fields of /proc/self/stat that stand after the program's name, which may hold spaces
/// and brackets.
fn from_stat(stat: &str, ticks_per_s: u64) -> Vec<Sample> {
    // Positions in proc(5), counted from 1; the first field after the name is the third.
    const FIRST: usize = 3;
    let Some((_, rest)) = stat.rsplit_once(')') else { return Vec::new() };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |position: usize| fields.get(position - FIRST)?.parse::<u64>().ok();
    let page_bytes = rustix::param::page_size() as u64;
    let mut out = Vec::new();
    if let (Some(user), Some(system)) = (field(14), field(15)) {
        let ticks = Sample::counter("", "", user.saturating_add(system)).value;
        let per_s = Sample::counter("", "", ticks_per_s.max(1)).value;
        out.push(Sample {
            name: "process_cpu_seconds_total".into(),
            suffix: "",
            help: "CPU time of the process, user and system, in seconds.",
            kind: Kind::Counter,
            labels: Vec::new(),
            value: ticks / per_s,
        });
    }
    if let Some(threads) = field(20) {
        out.push(Sample::gauge("process_threads", "Threads.", threads));
    }
    if let Some(bytes) = field(23) {
        out.push(Sample::gauge("process_virtual_memory_bytes", "Address space, in bytes.", bytes));
    }
    if let Some(pages) = field(24) {
        let bytes = pages.saturating_mul(page_bytes);
        out.push(Sample::gauge("process_resident_memory_bytes", "Memory in use, in bytes.", bytes));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_read_past_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 77 4096 3 0";
        for name in ["throng", "a b", "a) b (c)"] {
            let samples = from_stat(&format!("42 ({name}) {rest}"), 100);
            let values: Vec<_> = samples.iter().map(|s| (&*s.name, s.value)).collect();
            let page = Sample::gauge("", "", rustix::param::page_size() as u64).value;
            assert_eq!(
                values,
                [
                    ("process_cpu_seconds_total", 2.0),
                    ("process_threads", 9.0),
                    ("process_virtual_memory_bytes", 4096.0),
                    ("process_resident_memory_bytes", 3.0 * page),
                ],
                "{name}"
            );
        }
    }

    #[test]
    fn a_cut_line_is_no_panic() {
        let line = "42 (throng) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 77 4096 3 0";
        for end in 0..line.len() {
            let _ = from_stat(&line[..end], 0);
        }
    }

    #[test]
    fn this_process_has_numbers() {
        let mut out = Vec::new();
        samples(&mut out);
        for name in ["process_resident_memory_bytes", "process_open_fds", "process_max_fds"] {
            assert!(out.iter().any(|s| s.name == name && s.value > 0.0), "{name}");
        }
    }
}
