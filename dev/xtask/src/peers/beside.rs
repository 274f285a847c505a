//! The processor time of a server's database: of a process and all below it, those included that have
//! ended and been waited for. Linux only, from `/proc`; elsewhere there is nothing to read.
//!
//! Source: proc_pid_stat(5).

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;

/// Length of the ticks that `/proc` counts: 100 a second for every program on Linux.
const TICK_MS: u64 = 10;

/// How often it is read.
const EVERY: Duration = Duration::from_millis(500);

/// Does something, and meanwhile reads what the process that a file names has used: seconds since
/// 1970 and processor seconds. Without a file nothing is read.
///
/// # Errors
/// If what was done fails, or the process is not there at the start.
pub fn watch(
    pid_file: Option<&Path>,
    what: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<[f64; 2]>> {
    let Some(pid_file) = pid_file else { return what().map(|()| Vec::new()) };
    let mut samples = vec![[now_s(), cpu_s(pid_file)?]];
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(move || {
            let mut samples = Vec::new();
            while is_done.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                // One that is gone meanwhile ends the samples; the server will have failed too.
                let Ok(used_s) = cpu_s(pid_file) else { break };
                samples.push([now_s(), used_s]);
            }
            samples
        });
        let result = what();
        drop(done);
        samples.extend(watcher.join().unwrap_or_default());
        result.map(|()| samples)
    })
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// Seconds used until now by the process that a file names in its first line, and all below it.
///
/// # Errors
/// If the file names no process that is there.
fn cpu_s(pid_file: &Path) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(pid_file)
        .with_context(|| format!("beside: {}", pid_file.display()))?;
    let first = text.lines().next().unwrap_or("").trim();
    let top: u32 = first.parse().with_context(|| format!("{}: `{first}`", pid_file.display()))?;
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").context("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may be gone by now; its parent has its time.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        all.extend(parse(pid, &stat));
    }
    let ticks = below(top, &all).with_context(|| format!("beside: no process {top}"))?;
    Ok(Duration::from_millis(ticks * TICK_MS).as_secs_f64())
}

struct Process {
    pid: u32,
    parent: u32,
    /// Its own, and of its children that it has waited for.
    ticks: u64,
}

fn parse(pid: u32, stat: &str) -> Option<Process> {
    // The name in brackets may hold spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|it| it.parse::<u64>()).sum::<Result<_, _>>();
    Some(Process { pid, parent: fields.get(1)?.parse().ok()?, ticks: ticks.ok()? })
}

/// Ticks of a process and all below it; none if it is not there.
fn below(top: u32, all: &[Process]) -> Option<u64> {
    let own = all.iter().find(|process| process.pid == top)?.ticks;
    let children = all.iter().filter(|process| process.parent == top && process.pid != top);
    Some(own + children.filter_map(|child| below(child.pid, all)).sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::{Process, below, cpu_s, parse, watch};

    #[test]
    fn a_line_of_proc_is_read() {
        let stat = "7 (a b) c) S 3 7 7 0 -1 4194560 100 0 0 0 11 12 13 14 20 0 1 0 5 6 7";
        let it = parse(7, stat).unwrap();
        assert_eq!((it.pid, it.parent, it.ticks), (7, 3, 50));
        assert!(parse(7, "").is_none() && parse(7, "7 (a) S 3").is_none());
    }

    #[test]
    fn all_below_count() {
        let process = |pid, parent, ticks| Process { pid, parent, ticks };
        let all = [process(1, 0, 1_000), process(5, 1, 1), process(6, 5, 10), process(7, 6, 100)];
        assert_eq!(below(5, &all), Some(111));
        assert_eq!(below(8, &all), None);
    }

    #[test]
    fn this_process_is_found() {
        let file = std::env::temp_dir().join(format!("throng-beside-{}", std::process::id()));
        std::fs::write(&file, format!("{}\nmore\n", std::process::id())).unwrap();
        let samples = watch(Some(&file), || Ok(())).unwrap();
        assert!(samples[0][0] > 1e9 && samples.is_sorted(), "{samples:?}");
        assert!(watch(None, || Ok(())).unwrap().is_empty());
        assert!(watch(Some(&file), || anyhow::bail!("no")).is_err());
        std::fs::write(&file, "none\n").unwrap();
        assert!(cpu_s(&file).is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(cpu_s(&file).is_err());
    }
}
