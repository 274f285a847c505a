//! What this process may do: io_uring, realtime scheduling, and what the kernel offers it.
//!
//! On this machine the ring is tried out; of a recorded one the settings are judged.
//!
//! Source: Documentation/admin-guide/sysctl/kernel.rst of Linux, seccomp(2), sched(7),
//! capabilities(7), random(4).

use super::facts::{self, sysctl_path};
use super::tree::Tree;
use super::{Finding, Group};
use crate::measure::number::group;

/// Bit of `CAP_SYS_NICE`.
const CAP_SYS_NICE: u32 = 23;
/// Bits from which on keys can be made without waiting.
const ENTROPY_LEAST: u64 = 200;
const STATUS: &str = "/proc/self/status";

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    vec![ring(tree), realtime(tree), entropy(tree)]
}

fn ring(tree: &Tree) -> Finding {
    let path = sysctl_path("kernel.io_uring_disabled");
    let why = "registered I/O: without io_uring the engine asks for readiness and moves each message \
               with calls of its own, which costs more processor time a message";
    let finding = Finding::of("io-uring", Group::Permissions, format!("{path}, {STATUS}"), why);
    // Absent before Linux 6.6, which has no such switch.
    let setting = match tree.number(&path) {
        Ok(number) => number.unwrap_or(0),
        Err(unread) => return finding.unread(&unread),
    };
    let status = tree.text_or_empty(STATUS);
    let is_filtered = facts::field(&status, "Seccomp") == Some("2");
    let open = "sysctl -w kernel.io_uring_disabled=0 # a decision about security";
    let unwall = "docker run --security-opt seccomp=PROFILE.json … # one that allows io_uring_setup, \
                  io_uring_enter and io_uring_register";
    let cure = if setting > 0 { open } else { unwall };
    if tree.is_here {
        return match engine::probe() {
            Ok(()) => finding.ok("it runs"),
            Err(missing) => finding.warn(missing.to_string()).cured_by(cure),
        };
    }
    match (setting, is_filtered) {
        (0, false) => finding.ok("allowed"),
        (0, true) => {
            finding.warn("a seccomp filter is in force, which may refuse it").cured_by(cure)
        }
        (1, _) => finding.warn("only for privileged processes").cured_by(cure),
        _ => finding.warn("switched off").cured_by(cure),
    }
}

fn realtime(tree: &Tree) -> Finding {
    let why = "SCHED_FIFO keeps a server's ticks, and a generator's times, free of other programs; \
               --realtime of throng load needs it";
    let finding =
        Finding::of("realtime", Group::Permissions, format!("/proc/self/limits, {STATUS}"), why);
    let status = tree.text_or_empty(STATUS);
    let capable = facts::field(&status, "CapEff")
        .and_then(|it| u64::from_str_radix(it, 16).ok())
        .is_some_and(|it| it & (1 << CAP_SYS_NICE) != 0);
    // With groups of realtime threads (RT_GROUP_SCHED) a group's own share may be none.
    let groups = facts::groups(tree, "cpu").into_iter();
    let mut shares = groups.map(|it| format!("{}/cpu.rt_runtime_us", it.folder));
    let no_share = shares.find(|path| tree.text_or_empty(path) == "0");
    let limit = facts::process_limit(tree, "Max realtime priority");
    finding.over(limit, "not told", |it, (soft, _)| {
        if let Some(path) = no_share {
            return it
                .warn("the control group's share is 0")
                .cured_by(format!("echo 950000 > {path}"));
        }
        match (capable, soft) {
            (true, _) => it.ok("allowed (CAP_SYS_NICE)"),
            (false, 1..) => it.ok(format!("allowed up to priority {soft}")),
            (false, 0) => it.warn("not allowed").cured_by(
                "setcap cap_sys_nice+ep $(command -v throng) # or ulimit -r 10 as root; of a container \
                 --cap-add SYS_NICE",
            ),
        }
    })
}

fn entropy(tree: &Tree) -> Finding {
    const PATH: &str = "/proc/sys/kernel/random/entropy_avail";
    let why = "randomness for keys, tokens and TLS; old kernels wait for it after the start";
    let finding = Finding::of("entropy", Group::Permissions, PATH, why);
    finding.over(tree.number(PATH), "not told", |it, bits| {
        it.warn_if(bits < ENTROPY_LEAST, format!("{} bits", group(bits)))
            .cured_by("apt-get install rng-tools # virtual machines: a virtio-rng device")
    })
}
