//! `cargo xtask profile`: where the processor time of a server goes in a row, by stages and by
//! functions, from samples of its stacks while the row's load runs.
//!
//! What is deliberately not here: what the load is (`rows`) and how it is run (the module above).
//! In: the stacks that perf(1) took, and the result of the run for the cost of an operation. Out: a
//! table in Markdown. The sampling itself costs some per cent, and a kernel whose functions cannot be
//! read shows as one stage.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::plan::{self, Server};
use super::{Bench, Request, table};

/// Samples a second of processor time.
const SAMPLES_PER_S: u32 = 5_000;
/// Functions that are named.
const FUNCTIONS_MAX: usize = 25;

/// What a kernel's function somewhere in a stack says of it: the first that fits.
const KERNEL_STAGES: &[(&str, &[&str])] = &[
    ("kernel: waking a thread", &["try_to_wake_up", "__wake_up_common"]),
    ("kernel: the peer's half of loopback", &["net_rx_action", "__napi_poll", "process_backlog"]),
    ("kernel: receiving", &["io_recv", "tcp_recvmsg", "sock_recvmsg", "__sys_recvfrom"]),
    ("kernel: sending", &["io_send", "io_sendmsg", "tcp_sendmsg", "sock_sendmsg", "__sys_sendto"]),
    ("kernel: disk", &["do_fsync", "vfs_write", "ksys_pwrite64", "ext4_file_write_iter"]),
    ("kernel: sleeping", &["schedule", "do_nanosleep"]),
    ("kernel: memory", &["exc_page_fault", "asm_exc_page_fault", "do_mmap", "do_munmap"]),
];
const KERNEL_REST: &str = "kernel: rings, polling, timers, entry";

/// What the beginning of a function's own name says.
const USER_STAGES: &[(&str, &[&str])] = &[
    ("HTTP", &["wire::http1", "httparse", "<wire::http1", "wire::query"]),
    ("WebSocket", &["wire::websocket"]),
    (
        "Nakama's messages",
        &[
            "wire::nakama",
            "<wire::nakama",
            "serde",
            "<serde",
            "sonic",
            "<sonic",
            "prost",
            "<prost",
            "base64",
            "itoa",
        ],
    ),
    ("engine", &["engine::", "reactor::", "event::", "<engine", "<reactor", "io_uring"]),
    ("server", &["server::", "<server", "game::", "<game"]),
    ("scripts", &["lua", "script::", "<script", "mlua", "Luau"]),
    (
        "database",
        &[
            "sqlite", "store::", "<store", "pcache", "btree", "rusqlite", "walFrame", "walIndex",
            "walWrite", "pager",
        ],
    ),
    ("memory", &["malloc", "_int_", "cfree", "mi_", "_mi_", "__libc_malloc", "realloc"]),
    ("copying", &["__mem", "memcpy", "memmove"]),
];
const USER_REST: &str = "other functions of the process";

/// What to profile.
pub struct Wish {
    /// The row.
    pub row: String,
    /// The server; throng if none is named.
    pub who: Option<String>,
    /// How it is measured; `rows` is not looked at.
    pub ask: Request,
}

/// One sample: the thread, and the functions of its stack from the innermost.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sample {
    thread: String,
    /// With whether it is the kernel's.
    stack: Vec<(String, bool)>,
}

/// Runs the row's load against a server whose stacks are sampled, and prints the table.
///
/// # Errors
/// If there is no such row or server, perf is missing, or the run fails.
pub fn run(wish: &Wish) -> anyhow::Result<bool> {
    let row = *plan::rows(std::slice::from_ref(&wish.row))?.first().context("name a row")?;
    let bench = Bench::new(&wish.ask, &[row])?;
    let who = wish.who.as_deref().unwrap_or(plan::THRONG);
    let servers = bench.servers(row, &super::peers_of(&wish.ask)?);
    let Some(server) = servers.into_iter().find(|server| server.name == who) else {
        bail!("{who} takes no part in {}", row.name);
    };
    let data = bench.scratch.join("perf.data");
    let sampled = format!(
        "perf record --quiet --event cpu-clock --freq {SAMPLES_PER_S} --call-graph fp \
         --output '{}' -- {}",
        data.display(),
        server.start
    );
    let record = bench.measure(row, &Server { start: sampled, ..server })?;
    let each_ns = table::per_cpu_second(&record.result).map(|per_s| 1e9 / per_s);
    let samples = read(&data)?;
    let _ = std::fs::remove_file(&data);
    print!("{}", page(who, &record.result, row.title, each_ns, &samples));
    bench.clean();
    Ok(true)
}

/// The samples of a file, in perf-script(1)'s words.
fn read(data: &Path) -> anyhow::Result<Vec<Sample>> {
    let mut command = Command::new("perf");
    command.args(["script", "--fields", "comm,ip,sym,dso", "--input"]).arg(data);
    let output = command.output().context("perf cannot be run (Debian: linux-perf)")?;
    if !output.status.success() {
        bail!("perf script: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Blocks of lines: a thread's name, then a function a line: `ip name (object)`.
fn parse(text: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.trim().is_empty());
        let Some(thread) = lines.next() else { continue };
        let stack: Vec<_> = lines.filter_map(function).collect();
        if !stack.is_empty() {
            samples.push(Sample { thread: thread.trim().to_owned(), stack });
        }
    }
    samples
}

fn function(line: &str) -> Option<(String, bool)> {
    let (_, rest) = line.trim().split_once(' ')?;
    let (name, object) = rest.rsplit_once(" (")?;
    let is_kernel = object.starts_with("[kernel") || object.starts_with("[guest.kernel");
    Some((name.split("+0x").next().unwrap_or(name).to_owned(), is_kernel))
}

/// The stage that a sample belongs to.
fn stage(sample: &Sample) -> &'static str {
    let Some((inner, is_kernel)) = sample.stack.first() else { return USER_REST };
    if !is_kernel {
        let fits = |names: &&[&str]| names.iter().any(|name| inner.starts_with(name));
        return USER_STAGES.iter().find(|(_, names)| fits(names)).map_or(USER_REST, |it| it.0);
    }
    let kernel = || sample.stack.iter().take_while(|(_, is_kernel)| *is_kernel);
    let fits = |names: &&[&str]| kernel().any(|(name, _)| names.contains(&name.as_str()));
    KERNEL_STAGES.iter().find(|(_, names)| fits(names)).map_or(KERNEL_REST, |it| it.0)
}

fn page(
    who: &str,
    result: &serde_json::Value,
    title: &str,
    each_ns: Option<f64>,
    samples: &[Sample],
) -> String {
    let share = |count: u32| f64::from(count) / u32::try_from(samples.len()).map_or(1.0, f64::from);
    let commit = result.pointer("/environment/commit").and_then(serde_json::Value::as_str);
    let mut text = format!(
        "{who} ({}), {title}: {} samples",
        commit.filter(|_| who == plan::THRONG).unwrap_or("its own build"),
        samples.len()
    );
    if let Some(each_ns) = each_ns {
        let _ = write!(text, ", {each_ns:.0} ns an operation while it is sampled");
    }
    text.push_str("\n\n| stage | share | ns an operation |\n|---|---:|---:|\n");
    for (name, count) in counted(samples.iter().map(|it| stage(it).to_owned())) {
        let ns =
            each_ns.map_or("–".to_owned(), |each_ns| format!("{:.0}", share(count) * each_ns));
        let _ = writeln!(text, "| {name} | {:.1} % | {ns} |", 100.0 * share(count));
    }
    text.push_str("\n| thread | share |\n|---|---:|\n");
    for (name, count) in counted(samples.iter().map(|it| it.thread.clone())) {
        let _ = writeln!(text, "| {name} | {:.1} % |", 100.0 * share(count));
    }
    text.push_str("\n| function itself | share |\n|---|---:|\n");
    let functions = samples.iter().filter_map(|it| it.stack.first());
    let functions = counted(functions.map(|(name, _)| name.replace('|', "\\|")));
    for (name, count) in functions.into_iter().take(FUNCTIONS_MAX) {
        let _ = writeln!(text, "| `{name}` | {:.1} % |", 100.0 * share(count));
    }
    text
}

/// How often each comes, the most frequent first.
fn counted(names: impl Iterator<Item = String>) -> Vec<(String, u32)> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_insert(0_u32) += 1);
    let mut counts: Vec<(String, u32)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::{KERNEL_REST, page, parse, stage};

    const SCRIPT: &str = "\
echo-0
\tffffffff81 tcp_ack+0x12 ([kernel.kallsyms])
\tffffffff82 net_rx_action+0x1 ([kernel.kallsyms])
\tffffffff83 io_send+0x1 ([kernel.kallsyms])
\t    55a4 main (/usr/bin/throng)

echo-0
\tffffffff81 tcp_sendmsg_locked+0x12 ([kernel.kallsyms])
\tffffffff83 io_send+0x1 ([kernel.kallsyms])

room-0
\t    55a4 wire::http1::head::request+0x3 (/usr/bin/throng)
\tffffffff83 io_send+0x1 ([kernel.kallsyms])

echo-0
\tffffffff81 read_tsc ([kernel.kallsyms])
";

    #[test]
    fn samples_are_told_apart() {
        let samples = parse(SCRIPT);
        let stages: Vec<_> = samples.iter().map(stage).collect();
        let wanted =
            ["kernel: the peer's half of loopback", "kernel: sending", "HTTP", KERNEL_REST];
        assert_eq!(stages, wanted);
        let text = page("throng", &serde_json::Value::Null, "a row", Some(400.0), &samples);
        assert!(text.contains("| HTTP | 25.0 % | 100 |"), "{text}");
        assert!(text.contains("| echo-0 | 75.0 % |"), "{text}");
    }
}
