//! Control groups: what a server may use, what it has used, and a handle on all of its processes.
//!
//! Both forms of them: version 2, and the hybrid in which the controllers stand in hierarchies of
//! version 1 while version 2 has none but gives `cgroup.kill` and times. A server has a folder of the
//! same name in each. Never a quota of processor time: one that is used up takes whole ticks away.
//!
//! In: what mountinfo says, and limits. Out: files that a process joins by, and counts. Source:
//! cgroups(7), the kernel's Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fleet::{Cpu, Limits};

/// Times that a group is tried to be removed while its processes end, and the time between.
const REMOVALS_MAX: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// A group cannot be made or limited.
#[derive(Debug, thiserror::Error)]
#[error("control groups: {path}: {error}")]
pub(crate) struct GroupError {
    path: String,
    error: io::Error,
}

/// The hierarchies, and the folder in each that is this daemon's.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// The daemon's folder.
    tag: String,
    /// Where version 2 is mounted.
    unified: Option<PathBuf>,
    /// Where each controller's hierarchy is, of either version.
    controllers: BTreeMap<&'static str, Controller>,
}

#[derive(Clone, Debug)]
struct Controller {
    root: PathBuf,
    is_unified: bool,
}

/// What a group has used and refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// Processor time.
    pub(crate) cpu: Duration,
    /// Memory now, in bytes.
    pub(crate) memory: Option<u64>,
    /// Processes that the kernel has ended because the memory was at its limit.
    pub(crate) out_of_memory: u64,
    /// Processes that were refused.
    pub(crate) refused_pids: u64,
}

const CONTROLLERS: &[&str] = &["cpu", "cpuacct", "cpuset", "memory", "pids"];

impl Groups {
    /// The hierarchies of this machine. `None` if there are none to be used.
    pub(crate) fn here(tag: &str) -> Option<Self> {
        Self::find(tag, &fs::read_to_string("/proc/self/mountinfo").ok()?)
    }

    fn find(tag: &str, mountinfo: &str) -> Option<Self> {
        let mut groups = Self { tag: tag.to_owned(), unified: None, controllers: BTreeMap::new() };
        for line in mountinfo.lines() {
            let Some((front, back)) = line.split_once(" - ") else { continue };
            let Some(point) = front.split(' ').nth(4) else { continue };
            let mut back = back.split(' ');
            match (back.next(), back.nth(1)) {
                (Some("cgroup2"), _) => groups.unified = Some(point.into()),
                (Some("cgroup"), Some(options)) => {
                    for name in CONTROLLERS {
                        if options.split(',').any(|word| word == *name) {
                            let found = Controller { root: point.into(), is_unified: false };
                            groups.controllers.insert(name, found);
                        }
                    }
                }
                _ => {}
            }
        }
        if let Some(root) = &groups.unified {
            let there = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            for name in
                CONTROLLERS.iter().filter(|it| there.split_whitespace().any(|has| has == **it))
            {
                let found = Controller { root: root.clone(), is_unified: true };
                groups.controllers.entry(name).or_insert(found);
            }
        }
        let is_any = groups.unified.is_some() || !groups.controllers.is_empty();
        is_any.then_some(groups)
    }

    /// Each hierarchy once.
    fn roots(&self) -> Vec<&Path> {
        let all = self.controllers.values().map(|it| &*it.root);
        let mut all: Vec<&Path> = all.chain(self.unified.as_deref()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn folder(&self, controller: &str, server: &str) -> Option<(PathBuf, bool)> {
        let found = self.controllers.get(controller)?;
        Some((found.root.join(&self.tag).join(server), found.is_unified))
    }

    /// Makes a server's groups and limits them. The files by which a process joins.
    pub(crate) fn make(
        &self,
        server: &str,
        limits: &Limits,
        cpu: &Cpu,
    ) -> Result<Vec<PathBuf>, GroupError> {
        self.enable()?;
        let mut joins = Vec::new();
        for root in self.roots() {
            let is = |name: &str| self.controllers.get(name).is_some_and(|it| it.root == root);
            // In version 1 a group has realtime only if some is taken from others, so who asks for it
            // stays where it is.
            if is("cpu") && Some(root) != self.unified.as_deref() && cpu.realtime.is_some() {
                continue;
            }
            if is("cpuset") && Some(root) != self.unified.as_deref() && cpu.cores.is_none() {
                continue;
            }
            let folder = root.join(&self.tag).join(server);
            make(&folder)?;
            joins.push(folder.join("cgroup.procs"));
        }
        self.limit(server, limits, cpu)?;
        Ok(joins)
    }

    /// The daemon's own folders, whose children may have controllers.
    fn enable(&self) -> Result<(), GroupError> {
        for root in self.roots() {
            make(&root.join(&self.tag))?;
        }
        if let Some(cpuset) = self.controllers.get("cpuset").filter(|it| !it.is_unified) {
            // A new group has neither processors nor memory until it is given some.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let above = read(&cpuset.root.join(file));
                write(&cpuset.root.join(&self.tag).join(file), above.trim())?;
            }
        }
        let Some(unified) = &self.unified else { return Ok(()) };
        let ours = self.controllers.iter().filter(|(_, it)| it.is_unified);
        let wanted: Vec<String> = ours.map(|(name, _)| format!("+{name}")).collect();
        if !wanted.is_empty() {
            for folder in [unified.clone(), unified.join(&self.tag)] {
                write(&folder.join("cgroup.subtree_control"), &wanted.join(" "))?;
            }
        }
        Ok(())
    }

    fn limit(&self, server: &str, limits: &Limits, cpu: &Cpu) -> Result<(), GroupError> {
        let set = |controller: &str, old: &str, new: &str, value: String| {
            let Some((folder, is_unified)) = self.folder(controller, server) else {
                let error = io::Error::new(io::ErrorKind::Unsupported, "no such controller here");
                return Err(GroupError { path: controller.to_owned(), error });
            };
            write(&folder.join(if is_unified { new } else { old }), &value)
        };
        if let Some(bytes) = limits.memory {
            set("memory", "memory.limit_in_bytes", "memory.max", bytes.0.to_string())?;
            // Without swap there is no such file, and nothing to limit.
            let _ = set("memory", "memory.memsw.limit_in_bytes", "memory.swap.max", {
                let is_unified = self.controllers.get("memory").is_some_and(|it| it.is_unified);
                if is_unified { "0".to_owned() } else { bytes.0.to_string() }
            });
        }
        if let Some(pids) = limits.pids {
            set("pids", "pids.max", "pids.max", pids.to_string())?;
        }
        if let Some(weight) = cpu.weight {
            let is_unified = self.controllers.get("cpu").is_some_and(|it| it.is_unified);
            // 100 of version 2 are 1,024 of version 1.
            let value = if is_unified { weight } else { (weight * 1_024 / 100).max(2) };
            if cpu.realtime.is_none() || is_unified {
                set("cpu", "cpu.shares", "cpu.weight", value.to_string())?;
            }
        }
        if let Some(cores) = &cpu.cores {
            if let Some((folder, false)) = self.folder("cpuset", server)
                && let Some(above) = folder.parent()
            {
                write(&folder.join("cpuset.mems"), read(&above.join("cpuset.mems")).trim())?;
            }
            set("cpuset", "cpuset.cpus", "cpuset.cpus", cores.to_string())?;
        }
        Ok(())
    }

    /// What a server's groups have counted.
    pub(crate) fn used(&self, server: &str) -> Used {
        let file = |controller: &str, old: &str, new: &str| {
            let (folder, is_unified) = self.folder(controller, server)?;
            fs::read_to_string(folder.join(if is_unified { new } else { old })).ok()
        };
        let count = |text: Option<String>, name: &str| {
            let text: String = text?;
            text.lines().find_map(|it| it.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        // Version 2 counts time without a controller.
        let unified = self.unified.as_ref().map(|root| root.join(&self.tag).join(server));
        let unified = unified.and_then(|it| fs::read_to_string(it.join("cpu.stat")).ok());
        let cpu = count(unified, "usage_usec ").map(Duration::from_micros).or_else(|| {
            let text = file("cpuacct", "cpuacct.usage", "cpu.stat")?;
            text.trim().parse().ok().map(Duration::from_nanos)
        });
        Used {
            cpu: cpu.unwrap_or_default(),
            memory: file("memory", "memory.usage_in_bytes", "memory.current")
                .and_then(|text| text.trim().parse().ok()),
            out_of_memory: count(
                file("memory", "memory.oom_control", "memory.events"),
                "oom_kill ",
            )
            .unwrap_or(0),
            refused_pids: count(file("pids", "pids.events", "pids.events"), "max ").unwrap_or(0),
        }
    }

    /// All processes of a server.
    pub(crate) fn pids(&self, server: &str) -> Vec<u32> {
        let Some(root) = self.roots().first().copied().or(self.unified.as_deref()) else {
            return Vec::new();
        };
        let root = self.unified.as_deref().unwrap_or(root);
        let text = read(&root.join(&self.tag).join(server).join("cgroup.procs"));
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Ends all processes of a server. Whether the kernel does it at once; else the caller has to, one by
    /// one.
    pub(crate) fn kill(&self, server: &str) -> bool {
        let Some(root) = &self.unified else { return false };
        fs::write(root.join(&self.tag).join(server).join("cgroup.kill"), "1").is_ok()
    }

    /// Removes a server's groups, which must be about to be empty.
    pub(crate) fn remove(&self, server: &str) {
        for root in self.roots() {
            remove(&root.join(&self.tag).join(server));
        }
    }

    /// Servers that have groups.
    pub(crate) fn servers(&self) -> Vec<String> {
        let mut all = Vec::new();
        for root in self.roots() {
            let Ok(entries) = fs::read_dir(root.join(&self.tag)) else { continue };
            let folders = entries.flatten().filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
            all.extend(folders.filter_map(|it| it.file_name().into_string().ok()));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Removes the daemon's own folders, which must be empty.
    pub(crate) fn remove_all(&self) {
        for root in self.roots() {
            let _ = fs::remove_dir(root.join(&self.tag));
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn write(path: &Path, value: &str) -> Result<(), GroupError> {
    let failed = |error| GroupError { path: format!("{} = {value}", path.display()), error };
    fs::write(path, value).map_err(failed)
}

fn make(path: &Path) -> Result<(), GroupError> {
    // Whatever the shell says that started the daemon (umask), nobody else makes groups in it.
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(GroupError { path: path.display().to_string(), error })
        }
        _ => Ok(()),
    }
}

/// A group whose last process is ending is busy for a moment.
fn remove(path: &Path) {
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(REMOVAL_PAUSE);
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests;
