//! Memory: huge pages, swap, what is left of the machine's and the control group's.
//!
//! Source: Documentation/admin-guide/mm/transhuge.rst and sysctl/vm.rst of Linux, cgroups(7).

use super::facts::{self, sysctl_path};
use super::tree::{Read, Tree, Unread};
use super::{Change, Finding, Group};
use crate::measure::number::{bytes, float};

const MEMINFO: &str = "/proc/meminfo";
/// Part of all memory that should be free for a burst of players.
const FREE_LEAST: f64 = 0.1;
/// Inclination to swap from which on idle players' memory goes to the disk.
const SWAPPINESS_MAX: u64 = 10;

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    vec![huge_pages(tree), swap(tree), free(tree), group_limit(tree)]
}

fn huge_pages(tree: &Tree) -> Finding {
    const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let why = "with `always` the kernel gives pages of 2 MiB unasked: many small servers take more \
               memory, and compacting it stalls them for milliseconds";
    let finding = Finding::of("huge-pages", Group::Memory, PATH, why);
    finding.over(tree.text(PATH), "this kernel has none", |it, text| {
        let now = facts::chosen(&text);
        it.warn_if(now == "always", now)
            .cured_by(format!("echo madvise > {PATH}"))
            .with([Change { path: PATH.to_owned(), value: "madvise".to_owned() }])
    })
}

fn meminfo(tree: &Tree, names: [&str; 2]) -> Read<[u64; 2]> {
    let Some(text) = tree.text(MEMINFO)? else { return Ok(None) };
    let of = |name| {
        let kb = facts::memory_kb(&text, name);
        kb.map(|kb| kb.saturating_mul(1_024))
            .ok_or_else(|| Unread::new(MEMINFO, format!("it has no {name}")))
    };
    Ok(Some([of(names[0])?, of(names[1])?]))
}

fn swap(tree: &Tree) -> Finding {
    let path = sysctl_path("vm.swappiness");
    let why = "a page that was swapped out stalls whoever touches it for as long as the disk takes: a \
               tick that touches an idle player's memory waits";
    let finding = Finding::of("swap", Group::Memory, format!("{MEMINFO}, {path}"), why);
    let inclination = match tree.number(&path) {
        Ok(number) => number.unwrap_or(60),
        Err(unread) => return finding.unread(&unread),
    };
    finding.over(meminfo(tree, ["SwapTotal", "SwapFree"]), "not told", |it, [all, free]| {
        if all == 0 {
            return it.ok("none");
        }
        let used = all.saturating_sub(free);
        let value = format!("{} of {} used, swappiness {inclination}", bytes(used), bytes(all));
        it.warn_if(inclination > SWAPPINESS_MAX || used > all / 20, value)
            .cured_by("sysctl -w vm.swappiness=10 # or swapoff -a, where memory suffices")
            .with(
                (inclination > SWAPPINESS_MAX)
                    .then(|| Change { path: path.clone(), value: SWAPPINESS_MAX.to_string() }),
            )
    })
}

fn free(tree: &Tree) -> Finding {
    let why = "memory that a burst of players can take at once; without it the kernel looks for pages \
               while they wait, and then ends a server";
    let finding = Finding::of("memory-free", Group::Memory, MEMINFO, why);
    finding.over(meminfo(tree, ["MemTotal", "MemAvailable"]), "not told", |it, [all, free]| {
        it.warn_if(
            float(free) < FREE_LEAST * float(all),
            format!("{} of {}", bytes(free), bytes(all)),
        )
        .cured_by("ps aux --sort -rss | head # shows who has it: fewer servers, or more memory")
    })
}

fn group_limit(tree: &Tree) -> Finding {
    let why = "what the control group may hold; at the limit the kernel ends a server of it";
    let of = |group: facts::Group| {
        let (most, used) = if group.is_v2 {
            ("memory.max", "memory.current")
        } else {
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
        };
        let path = format!("{}/{most}", group.folder);
        let most: u64 = tree.text_or_empty(&path).parse().ok()?;
        let used: u64 = tree.text_or_empty(&format!("{}/{used}", group.folder)).parse().ok()?;
        // The old hierarchy writes "no limit" as nearly 2^63.
        (most < 1 << 60).then_some((most, used, path))
    };
    let tightest = facts::groups(tree, "memory").into_iter().filter_map(of).min_by_key(|it| it.0);
    let source = tightest.as_ref().map_or("/proc/self/cgroup", |it| &it.2);
    let finding = Finding::of("memory-limit", Group::Memory, source, why);
    match &tightest {
        None => finding.none("no limit"),
        // What is used contains files that can be dropped, so that a little below is ordinary.
        Some((most, used, path)) => finding
            .warn_if(
                float(*used) > (1.0 - FREE_LEAST) * float(*most),
                format!("{} of {} used", bytes(*used), bytes(*most)),
            )
            .cured_by(format!(
                "echo {} > {path} # docker update --memory NEW NAME",
                most.saturating_mul(2)
            )),
    }
}
