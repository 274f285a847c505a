//! Facts about a machine that several checks need, and that a result keeps of it: each is read in
//! one way, here.
//!
//! Source: proc(5), cgroups(7), Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of Linux.

use super::tree::{Read, Tree, Unread};

/// Groups between a process and the root, at most.
const GROUPS_DEEP_MAX: usize = 32;

/// `net.core.somaxconn` as a file.
pub(super) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// A setting of the kernel as text; empty where there is none.
pub(crate) fn sysctl(tree: &Tree, name: &str) -> String {
    tree.text_or_empty(&sysctl_path(name))
}

/// The first number of the lines that follow a name in a file of `name: value` lines.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(':'))
    })?;
    line.split_once(':').map(|(_, value)| value.trim())
}

/// Kilobytes of a line of `/proc/meminfo`.
pub(crate) fn memory_kb(meminfo: &str, name: &str) -> Option<u64> {
    field(meminfo, name)?.split(' ').next()?.parse().ok()
}

/// `0-2,5` as numbers; none of what is no list.
pub(crate) fn list(text: &str) -> Option<Vec<usize>> {
    /// Processors of one machine, at most.
    const CPUS_MAX: usize = 8_192;
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        cpus.extend(first..=last.min(CPUS_MAX));
    }
    Some(cpus)
}

/// The processors that the machine has; empty where that cannot be read.
/// Source: Documentation/admin-guide/cputopology.rst of Linux.
pub(crate) fn online(tree: &Tree) -> Vec<usize> {
    list(&tree.text_or_empty("/sys/devices/system/cpu/online")).unwrap_or_default()
}

/// The word in brackets of `always [madvise] never`, else the whole text.
pub(super) fn chosen(text: &str) -> &str {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(word, _)| word)
}

/// The frequency governor of each processor; empty where frequencies are not this system's to choose.
pub(super) fn governors(tree: &Tree) -> Vec<(usize, String)> {
    let of = |cpu: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        tree.text(&path).ok().flatten().map(|text| (cpu, text))
    };
    online(tree).into_iter().filter_map(of).collect()
}

/// The governor of the first processor that has one.
pub(crate) fn governor(tree: &Tree) -> String {
    governors(tree).into_iter().next().map(|it| it.1).unwrap_or_default()
}

pub(super) const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";

/// The clock source in use.
pub(crate) fn clock(tree: &Tree) -> String {
    tree.text_or_empty(&format!("{CLOCK}/current_clocksource"))
}

/// Weaknesses of the processor and what the kernel does about each, in the order of their names.
pub(crate) fn vulnerabilities(tree: &Tree) -> Vec<(String, String)> {
    const FOLDER: &str = "/sys/devices/system/cpu/vulnerabilities";
    let state = |name: String| {
        let state = tree.text_or_empty(&format!("{FOLDER}/{name}"));
        (name, state)
    };
    tree.names(FOLDER).into_iter().map(state).collect()
}

/// Those that cost something: a mitigation is on.
pub(crate) fn mitigations(tree: &Tree) -> Vec<String> {
    let all = vulnerabilities(tree).into_iter();
    all.filter(|it| it.1.starts_with("Mitigation")).map(|it| it.0).collect()
}

/// The soft and hard value of a limit of this process, `u64::MAX` if it is unlimited.
/// Source: proc_pid_limits(5).
pub(crate) fn process_limit(tree: &Tree, name: &str) -> Read<(u64, u64)> {
    const PATH: &str = "/proc/self/limits";
    let Some(text) = tree.text(PATH)? else { return Ok(None) };
    let Some(line) = text.lines().find_map(|line| line.strip_prefix(name)) else {
        return Ok(None);
    };
    let mut values = line.split_ascii_whitespace().map(|word| match word {
        "unlimited" => Some(u64::MAX),
        word => word.parse().ok(),
    });
    match (values.next().flatten(), values.next().flatten()) {
        (Some(soft), Some(hard)) => Ok(Some((soft, hard))),
        _ => Err(Unread::new(PATH, format!("`{name}{line}` is not understood"))),
    }
}

/// A folder of a control group that this process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) folder: String,
    /// Whether it is of the unified hierarchy.
    pub(super) is_v2: bool,
}

/// The groups that bound this process for a controller, from its own up to the root. Where the
/// controller is on the old hierarchy, that is it; hybrid systems have both.
pub(super) fn groups(tree: &Tree, controller: &str) -> Vec<Group> {
    let own = tree.text_or_empty("/proc/self/cgroup");
    let mounts = tree.text_or_empty("/proc/self/mountinfo");
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (names, path) = (parts.next()?, parts.next()?);
            wanted(names).then_some(path)
        })
    };
    let has = |names: &str| names.split(',').any(|name| name == controller);
    let mount_of = |is_v2: bool| {
        mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut before = before.split(' ').skip(3);
            let (root, point) = (before.next()?, before.next()?);
            let mut after = after.splitn(3, ' ');
            let (kind, options) = (after.next()?, after.nth(1)?);
            let is_it = if is_v2 { kind == "cgroup2" } else { kind == "cgroup" && has(options) };
            is_it.then_some((root, point))
        })
    };
    let old = path_of(&has).zip(mount_of(false)).map(|it| (it, false));
    let new = path_of(&|names| names.is_empty()).zip(mount_of(true)).map(|it| (it, true));
    let Some(((path, (root, point)), is_v2)) = old.or(new) else { return Vec::new() };
    // Without a namespace of its own a container sees the host's path, which is not mounted.
    let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
    let mut below = below.trim_matches('/');
    let mut found = Vec::new();
    for _ in 0..GROUPS_DEEP_MAX {
        let folder = format!("{point}/{below}");
        let folder = folder.trim_end_matches('/').to_owned();
        if tree.exists(&folder) {
            found.push(Group { folder, is_v2 });
        }
        if below.is_empty() {
            break;
        }
        below = below.rsplit_once('/').map_or("", |it| it.0);
    }
    found
}

/// How much of the processors a control group leaves this process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quota {
    /// The file that says so.
    pub(super) path: String,
    /// Microseconds of processor time in each period.
    pub(super) quota_us: f64,
    pub(super) period_us: f64,
}

impl Quota {
    /// Processors' worth of time.
    pub(super) fn processors(&self) -> f64 {
        self.quota_us / self.period_us
    }
}

/// The tightest quota of all groups above this process; none where there is none.
pub(super) fn quota(tree: &Tree) -> Option<Quota> {
    let of = |group: Group| {
        let folder = group.folder;
        let (path, quota, period) = if group.is_v2 {
            let path = format!("{folder}/cpu.max");
            let text = tree.text_or_empty(&path);
            let (quota, period) = text.split_once(' ')?;
            (path, quota.to_owned(), period.to_owned())
        } else {
            let path = format!("{folder}/cpu.cfs_quota_us");
            let period = tree.text_or_empty(&format!("{folder}/cpu.cfs_period_us"));
            (path.clone(), tree.text_or_empty(&path), period)
        };
        // `max` and -1 are no quota.
        let (quota_us, period_us): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
        (quota_us > 0.0 && period_us > 0.0).then_some(Quota { path, quota_us, period_us })
    };
    let all = groups(tree, "cpu").into_iter().filter_map(of);
    all.min_by(|a, b| a.processors().total_cmp(&b.processors()))
}

/// The quota in words; empty where there is none.
pub(crate) fn quota_text(tree: &Tree) -> String {
    quota(tree).map(|it| quota_words(&it)).unwrap_or_default()
}

pub(super) fn quota_words(it: &Quota) -> String {
    format!("{:.2} processors ({} of {} µs)", it.processors(), it.quota_us, it.period_us)
}

/// `net.ipv4.ip_local_port_range`: the first and the last.
pub(super) fn local_ports(tree: &Tree) -> Read<(u64, u64)> {
    const NAME: &str = "net.ipv4.ip_local_port_range";
    let path = sysctl_path(NAME);
    let Some(text) = tree.text(&path)? else { return Ok(None) };
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => Ok(Some((first, last))),
        _ => Err(Unread::new(&path, format!("`{text}` is no range"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Quota, chosen, field, groups, list, quota};
    use crate::doctor::tests::Recorded;

    #[test]
    fn lists_fields_and_choices_are_read() {
        assert_eq!(list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!((list("0"), list(""), list("a-b")), (Some(vec![0]), None, None));
        let text = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz\nmodel name\t: B\n";
        assert_eq!(field(text, "model name"), Some("A CPU @ 3 GHz"));
        assert_eq!((field(text, "flags"), field(text, "model")), (None, None));
        assert_eq!((chosen("always [madvise] never"), chosen("cubic")), ("madvise", "cubic"));
    }

    #[test]
    fn quotas_are_found_in_both_hierarchies_and_above() {
        let v2 = "/proc/self/cgroup\n\t0::/a/b\n/proc/self/mountinfo\n\t\
                  31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                  /sys/fs/cgroup/a/cpu.max\n\t50000 100000\n\
                  /sys/fs/cgroup/a/b/cpu.max\n\tmax 100000\n";
        let recorded = Recorded::of("v2", v2);
        let tree = recorded.tree();
        let folders: Vec<_> = groups(&tree, "cpu").into_iter().map(|it| it.folder).collect();
        assert_eq!(folders, ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        let path = "/sys/fs/cgroup/a/cpu.max".to_owned();
        assert_eq!(quota(&tree), Some(Quota { path, quota_us: 50_000.0, period_us: 100_000.0 }));
        let hybrid = "/proc/self/cgroup\n\t4:cpu,cpuacct:/docker/x\n\t0::/\n/proc/self/mountinfo\n\t\
                      32 31 0:29 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\t\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      /sys/fs/cgroup/cpu/cpu.cfs_quota_us\n\t-1\n\
                      /sys/fs/cgroup/cpu/cpu.cfs_period_us\n\t100000\n\
                      /sys/fs/cgroup/unified/x\n\t1\n";
        let recorded = Recorded::of("hybrid", hybrid);
        let tree = recorded.tree();
        assert_eq!(quota(&tree), None);
        let group = |controller| groups(&tree, controller).into_iter().map(|it| it.folder).next();
        assert_eq!(group("cpu").as_deref(), Some("/sys/fs/cgroup/cpu"));
        // A controller of neither is that of the unified hierarchy, if of any.
        assert_eq!(group("memory").as_deref(), Some("/sys/fs/cgroup/unified"));
    }
}
