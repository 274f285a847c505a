//! Groups in folders that only look like the kernel's.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::Groups;
use crate::fleet::{Cpu, Limits};

/// A folder that is gone when the test is done.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("throng-host-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn limits() -> (Limits, Cpu) {
    let limits =
        Limits { memory: Some("64M".parse().unwrap()), pids: Some(9), disk: None, log: None };
    let cpu = Cpu { cores: Some("0".parse().unwrap()), weight: Some(200), realtime: None };
    (limits, cpu)
}

#[test]
fn version_2_is_used_where_it_has_the_controllers() {
    let folder = Folder::new("v2");
    fs::write(folder.0.join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
    let mounts = format!("30 1 0:26 / {} rw - cgroup2 cgroup2 rw\n", folder.0.display());
    let groups = Groups::find("tag", &mounts).unwrap();
    let (limits, cpu) = limits();
    let joins = groups.make("a", &limits, &cpu).unwrap();
    assert_eq!(joins, [folder.0.join("tag/a/cgroup.procs")]);
    assert_eq!(folder.read("cgroup.subtree_control"), "+cpu +cpuset +memory +pids");
    assert_eq!(folder.read("tag/a/memory.max"), "67108864");
    assert_eq!(folder.read("tag/a/pids.max"), "9");
    assert_eq!(folder.read("tag/a/cpu.weight"), "200");
    assert_eq!(folder.read("tag/a/cpuset.cpus"), "0");
    fs::write(folder.0.join("tag/a/memory.events"), "max 3\noom 1\noom_kill 2\n").unwrap();
    fs::write(folder.0.join("tag/a/pids.events"), "max 7\n").unwrap();
    fs::write(folder.0.join("tag/a/cpu.stat"), "usage_usec 1500\nuser_usec 9\n").unwrap();
    fs::write(folder.0.join("tag/a/cgroup.procs"), "12\n34\n").unwrap();
    let used = groups.used("a");
    assert_eq!((used.out_of_memory, used.refused_pids, used.cpu.as_micros()), (2, 7, 1_500));
    assert_eq!((groups.pids("a"), groups.servers()), (vec![12, 34], vec!["a".to_owned()]));
}

#[test]
fn the_hybrid_has_controllers_in_version_1() {
    let folder = Folder::new("hybrid");
    let mut mounts = String::new();
    for name in ["cpu,cpuacct", "memory", "pids", "cpuset"] {
        let path = folder.0.join(name);
        fs::create_dir_all(&path).unwrap();
        let path = path.display();
        writeln!(mounts, "31 1 0:27 / {path} rw - cgroup cgroup rw,{name}").unwrap();
    }
    fs::create_dir_all(folder.0.join("unified")).unwrap();
    fs::write(folder.0.join("unified/cgroup.controllers"), "hugetlb\n").unwrap();
    let path = folder.0.display();
    writeln!(mounts, "32 1 0:28 / {path}/unified rw - cgroup2 cgroup2 rw").unwrap();
    fs::write(folder.0.join("cpuset/cpuset.cpus"), "0-1\n").unwrap();
    fs::write(folder.0.join("cpuset/cpuset.mems"), "0\n").unwrap();
    let groups = Groups::find("tag", &mounts).unwrap();
    let (limits, mut cpu) = limits();
    assert_eq!(groups.make("a", &limits, &cpu).unwrap().len(), 5);
    assert_eq!(folder.read("memory/tag/a/memory.limit_in_bytes"), "67108864");
    assert_eq!(folder.read("cpu,cpuacct/tag/a/cpu.shares"), "2048");
    assert_eq!(folder.read("cpuset/tag/cpuset.cpus"), "0-1");
    assert_eq!(folder.read("cpuset/tag/a/cpuset.mems"), "0");
    assert_eq!(folder.read("cpuset/tag/a/cpuset.cpus"), "0");
    // A group of version 1 has no realtime: who asks for it is not in one.
    cpu.realtime = Some(1);
    let joins = groups.make("b", &limits, &cpu).unwrap();
    assert!(!joins.iter().any(|it| it.starts_with(folder.0.join("cpu,cpuacct"))), "{joins:?}");
}

#[test]
fn without_hierarchies_there_are_none() {
    assert!(Groups::find("tag", "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n").is_none());
}
