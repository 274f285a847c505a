//! Processors: clocks, frequency, sleep, mitigations, and what others take of them (a quota, the
//! host, other programs).
//!
//! Source: Documentation/admin-guide/pm/{cpufreq,cpuidle}.rst, hw-vuln, timekeeping in
//! Documentation/virt of Linux, Documentation/accounting/psi.rst, cgroups(7), proc(5).

use super::facts;
use super::tree::{Read, Tree, Unread};
use super::{Change, Finding, Group};
use crate::measure::number::{float, group};

const CPU: &str = "/sys/devices/system/cpu";
/// Leaving a state of sleep may take so long, in µs: a hundredth of a tick at 100 Hz.
const WAKE_US_MAX: u64 = 100;
/// Shares from which on others are felt.
const STEAL_MAX: f64 = 0.01;
const THROTTLED_MAX: f64 = 0.001;
const PRESSURE_MAX: f64 = 20.0;
/// Clock sources that are read without a call of the kernel.
const QUICK_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    vec![
        processors(tree),
        clock(tree),
        governor(tree),
        idle(tree),
        mitigations(tree),
        quota(tree),
        throttling(tree),
        steal(tree),
        pressure(tree),
        nodes(tree),
    ]
}

fn processors(tree: &Tree) -> Finding {
    const PATH: &str = "/proc/self/status";
    let why = "a game server and the kernel's share of its network take a processor each; with one \
               they wait for each other";
    let finding = Finding::of("processors", Group::Processors, PATH, why);
    let machine = facts::online(tree).len();
    let read: Read<usize> = tree.text(PATH).and_then(|text| {
        let Some(text) = text else { return Ok(None) };
        let allowed = facts::field(&text, "Cpus_allowed_list").and_then(facts::list);
        let allowed = allowed.ok_or_else(|| Unread::new(PATH, "no Cpus_allowed_list"))?;
        Ok(Some(allowed.len()))
    });
    let smt = tree.text_or_empty(&format!("{CPU}/smt/active"));
    finding.over(read, "not told", |it, allowed| {
        let usable = allowed.min(machine.max(1));
        let smt = if smt == "1" { ", two to a core (SMT)" } else { "" };
        it.warn_if(usable < 2, format!("{usable} of {machine}{smt}"))
            .cured_by("taskset -c 0-7 COMMAND # docker update --cpuset-cpus 0-7 NAME")
    })
}

fn clock(tree: &Tree) -> Finding {
    let path = format!("{}/current_clocksource", facts::CLOCK);
    let why = "a server asks for the time with every message; a slow clock source makes each of them \
               a call of the kernel or an access of a device";
    let finding = Finding::of("clock-source", Group::Processors, &*path, why);
    let available = tree.text_or_empty(&format!("{}/available_clocksource", facts::CLOCK));
    finding.over(tree.text(&path), "not told", |it, now| {
        let is_quick = QUICK_CLOCKS.contains(&&*now);
        let cure = if available.split(' ').any(|it| it == "tsc") {
            format!("echo tsc > {path}")
        } else {
            "# tsc=reliable on the kernel's command line, if the processor's clock is invariant"
                .to_owned()
        };
        it.warn_if(!is_quick, now).cured_by(if is_quick { String::new() } else { cure })
    })
}

fn governor(tree: &Tree) -> Finding {
    let why = "a governor that saves power lowers the frequency between ticks, so that each tick \
               begins on a slow processor";
    let path = format!("{CPU}/cpu*/cpufreq/scaling_governor");
    let finding = Finding::of("governor", Group::Processors, path, why);
    let all = facts::governors(tree);
    let Some((first, name)) = all.first() else {
        return finding.none("frequencies are not this system's to choose");
    };
    // In their active mode these drivers call it powersave when the processor chooses by itself.
    let driver = tree.text_or_empty(&format!("{CPU}/cpu{first}/cpufreq/scaling_driver"));
    let chooses = ["intel_pstate", "amd-pstate-epp"].contains(&&*driver);
    let is_slow = |name: &str| match name {
        "performance" | "schedutil" => false,
        "powersave" => !chooses,
        _ => true,
    };
    let slow: Vec<usize> = all.iter().filter(|it| is_slow(&it.1)).map(|it| it.0).collect();
    let value = match slow.len() {
        0 => format!("{name} ({driver})"),
        count if count == all.len() => format!("{} on all processors ({driver})", all[0].1),
        count => format!("slow on {count} of {} processors ({driver})", all.len()),
    };
    finding
        .warn_if(!slow.is_empty(), value)
        .cured_by(format!("echo performance | tee {CPU}/cpu*/cpufreq/scaling_governor"))
        .with(slow.into_iter().map(|cpu| Change {
            path: format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"),
            value: "performance".to_owned(),
        }))
}

fn idle(tree: &Tree) -> Finding {
    let folder = format!("{CPU}/cpu0/cpuidle");
    let why = "a processor that sleeps deeply takes as long to wake up when a packet comes";
    let finding = Finding::of("idle-states", Group::Processors, &*folder, why);
    let mut deepest: Option<(u64, String)> = None;
    for state in tree.names(&folder).into_iter().filter(|it| it.starts_with("state")) {
        let read = |file: &str| tree.number(&format!("{folder}/{state}/{file}"));
        match (read("latency"), read("disable")) {
            (Ok(Some(us)), Ok(disabled)) if disabled.unwrap_or(0) == 0 => {
                let name = tree.text_or_empty(&format!("{folder}/{state}/name"));
                if deepest.as_ref().is_none_or(|it| it.0 < us) {
                    deepest = Some((us, name));
                }
            }
            (Err(unread), _) | (_, Err(unread)) => return finding.unread(&unread),
            // Switched off, or without a latency.
            (Ok(_), Ok(_)) => {}
        }
    }
    let Some((us, name)) = deepest else {
        return finding.none("no states of sleep here: the host decides");
    };
    finding
        .warn_if(us > WAKE_US_MAX, format!("{name}: {} µs to wake up", group(us)))
        .cured_by(format!("cpupower idle-set -D {WAKE_US_MAX} # costs power"))
}

fn mitigations(tree: &Tree) -> Finding {
    let why = "what guards against leaks between programs makes calls of the kernel dearer, page \
               tables of their own (PTI) and IBRS the most: figures of two machines only compare with \
               the same ones";
    let path = format!("{CPU}/vulnerabilities");
    let finding = Finding::of("mitigations", Group::Processors, &*path, why);
    let all = facts::vulnerabilities(tree);
    if all.is_empty() {
        return finding.none("not told");
    }
    let dear: Vec<String> = all
        .iter()
        .filter_map(|(name, state)| {
            let is_dear = state.contains("PTI")
                || name == "retbleed" && state.starts_with("Mitigation: IBRS");
            is_dear.then(|| format!("{name}: {}", state.trim_start_matches("Mitigation: ")))
        })
        .collect();
    let on = facts::mitigations(tree);
    if dear.is_empty() {
        let value = if on.is_empty() { "none on".to_owned() } else { on.join(", ") };
        return finding.ok(value);
    }
    finding.warn(dear.join("; ")).cured_by(
        "# mitigations=off on the kernel's command line, only where no foreign code runs; a newer \
         processor needs neither",
    )
}

fn quota(tree: &Tree) -> Finding {
    let why = "a quota stops the whole server for the rest of its period once it is used up: whole \
               ticks are lost. Weights and sets of processors bound it without that";
    let quota = facts::quota(tree);
    let source = quota.as_ref().map_or("/proc/self/cgroup", |it| &it.path);
    let finding = Finding::of("cpu-quota", Group::Processors, source, why);
    match &quota {
        None => finding.ok("none"),
        Some(it) => {
            finding.warn(facts::quota_words(it)).cured_by(if it.path.ends_with("cpu.max") {
                format!(
                    "echo max > {} # docker update --cpu-quota -1 NAME; of a pod: no CPU limit",
                    it.path
                )
            } else {
                format!(
                    "echo -1 > {} # docker update --cpu-quota -1 NAME; of a pod: no CPU limit",
                    it.path
                )
            })
        }
    }
}

fn throttling(tree: &Tree) -> Finding {
    let why = "periods in which a quota has stopped the processes of this control group: each one is \
               a stall that players feel";
    // The group with the quota counts; without one the group's own file says nothing.
    let files = facts::groups(tree, "cpu").into_iter().map(|it| format!("{}/cpu.stat", it.folder));
    let mut worst: Option<(u64, u64, String)> = None;
    for path in files {
        let text = tree.text_or_empty(&path);
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse::<u64>().ok()
        };
        if let (Some(periods @ 1..), Some(throttled)) = (value("nr_periods"), value("nr_throttled"))
            && worst.as_ref().is_none_or(|it| it.0 < throttled)
        {
            worst = Some((throttled, periods, path));
        }
    }
    let source = worst.as_ref().map_or("/proc/self/cgroup", |it| &it.2);
    let finding = Finding::of("throttling", Group::Processors, source, why);
    match &worst {
        None => finding.none("no quota has been in force"),
        Some((throttled, periods, _)) => finding
            .warn_if(
                float(*throttled) > THROTTLED_MAX * float(*periods),
                format!("{} of {} periods", group(*throttled), group(*periods)),
            )
            .cured_by("# take the quota away (see cpu-quota), or give it more processors"),
    }
}

fn steal(tree: &Tree) -> Finding {
    const PATH: &str = "/proc/stat";
    let why = "time in which this machine wanted to run and its host ran others: ticks are late, and no \
               program in here can help it";
    let finding = Finding::of("steal", Group::Processors, PATH, why);
    let read: Read<(u64, u64)> = tree.text(PATH).and_then(|text| {
        let Some(text) = text else { return Ok(None) };
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
        let times: Vec<u64> =
            line.unwrap_or_default().split_ascii_whitespace().flat_map(str::parse).collect();
        let odd = || Unread::new(PATH, "its line of all processors is not understood");
        let stolen = *times.get(7).ok_or_else(odd)?;
        // Time of guests is contained in that of users.
        Ok(Some((stolen, times[..8].iter().fold(0, |sum, it| it.saturating_add(sum)))))
    });
    finding.over(read, "not told", |it, (stolen, all)| {
        let share = float(stolen) / float(all.max(1));
        it.warn_if(share > STEAL_MAX, format!("{:.2} % since the start", 100.0 * share)).cured_by(
            "# another host, or a machine with processors of its own (the cloud's dedicated kinds)",
        )
    })
}

fn pressure(tree: &Tree) -> Finding {
    const PATH: &str = "/proc/pressure/cpu";
    let why = "share of the last minute in which something that wanted a processor had to wait: other \
               programs on this machine";
    let finding = Finding::of("cpu-pressure", Group::Processors, PATH, why);
    let read: Read<f64> = tree.text(PATH).and_then(|text| {
        let Some(text) = text else { return Ok(None) };
        let value = text.split_ascii_whitespace().find_map(|it| it.strip_prefix("avg60="));
        let value = value.and_then(|it| it.parse().ok());
        value.map(Some).ok_or_else(|| Unread::new(PATH, "it has no avg60"))
    });
    finding.over(read, "this kernel does not measure it (psi=1)", |it, percent| {
        it.warn_if(percent > PRESSURE_MAX, format!("{percent:.0} % of the last minute"))
            .cured_by("top -o %CPU # shows what else runs: end or move it")
    })
}

fn nodes(tree: &Tree) -> Finding {
    const FOLDER: &str = "/sys/devices/system/node";
    let why = "memory and cards of the other node are farther away: a server that stays on its card's \
               node has shorter and steadier ticks";
    let finding = Finding::of("numa", Group::Processors, FOLDER, why);
    let is_node =
        |name: &String| name.strip_prefix("node").is_some_and(|it| it.parse::<u32>().is_ok());
    let nodes: Vec<String> = tree.names(FOLDER).into_iter().filter(is_node).collect();
    if nodes.len() < 2 {
        return finding.none("one node");
    }
    let status = tree.text_or_empty("/proc/self/status");
    let allowed =
        facts::field(&status, "Cpus_allowed_list").and_then(facts::list).unwrap_or_default();
    let has_ours = |node: &&String| {
        let cpus = facts::list(&tree.text_or_empty(&format!("{FOLDER}/{node}/cpulist")));
        cpus.unwrap_or_default().iter().any(|cpu| allowed.contains(cpu))
    };
    let ours = nodes.iter().filter(has_ours).count();
    let card = super::interface::interfaces(tree).into_iter().find_map(|name| {
        let path = format!("{}/{name}/device/numa_node", super::interface::CLASS);
        let node: i64 = tree.text_or_empty(&path).parse().ok()?;
        (node >= 0).then_some((name, node))
    });
    let (near, node) = match &card {
        Some((name, node)) => (format!("; {name} is at node {node}"), *node),
        None => (String::new(), 0),
    };
    let balancing = facts::sysctl(tree, "kernel.numa_balancing");
    let moves = if balancing == "1" { ", and the kernel moves its pages about" } else { "" };
    finding
        .warn_if(
            ours > 1,
            format!("this process may use {ours} of {} nodes{moves}{near}", nodes.len()),
        )
        .cured_by(format!(
            "numactl --cpunodebind={node} --membind={node} COMMAND; sysctl -w \
             kernel.numa_balancing=0"
        ))
}
