//! A server's own view of the files: the machine's, with its changes in an overlay that is memory of a
//! bounded size and goes with the process. Of a server that shares the machine's files the home alone is
//! such memory.
//!
//! What is left out of the view: other servers' files and the daemon's, devices but the harmless ones,
//! `/run`, `/tmp` and `/sys` of the machine. File systems besides the root are there, to read only.
//! Everything is mounted in a namespace of the process, so that nothing is left when it ends.
//!
//! Source: mount_namespaces(7), pivot_root(2), the kernel's Documentation/filesystems/overlayfs.rst and
//! tmpfs.rst.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use engine::walls::{Apart, Mount, mount, unmount, unshare};
use rustix::process::pivot_root;

use super::{ChildError, Files, Home, Tried as _};

/// Where a server's home is within its walls.
pub(crate) const HOME: &str = "/run/home";

/// Files and folders in `writable`, which all change their owner.
const ENTRIES_MAX: u64 = 200_000;
/// Bytes of a disk for each file and folder on it: their names and owners are the kernel's memory, which
/// its size does not count.
const BYTES_PER_ENTRY: u64 = 4_096;
/// Files and folders that the smallest disk has room for.
const ENTRIES_LEAST: u64 = 1_024;

/// Devices that a server gets.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// File systems that hold no files of the machine.
const PSEUDO: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];

/// Puts memory of a bounded size over the home of a server that shares the machine's files, and over the place of
/// shared memory. Nobody else sees it there, and it goes with the process, as does what it shares by IPC.
pub(super) fn bound(home: &Home, id: u32) -> Result<(), ChildError> {
    unshare(Apart::Mounts).tried(|| "unshare of mounts".to_owned())?;
    // What the machine mounts and takes away later is so for the server, too.
    mount(Mount::Following, Path::new("/")).tried(|| "mounts of its own".to_owned())?;
    let (bytes, entries) = (home.bytes, entries(home.bytes));
    tmpfs(&home.path, &format!("size={bytes},nr_inodes={entries},mode=700"))?;
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        made("tmpfs", shared, &format!("size={bytes},nr_inodes={entries},mode=1777"), false)?;
    }
    chown(&home.path, Some(id), Some(id)).tried(|| home.path.display().to_string())
}

/// Files and folders on a disk of so many bytes.
fn entries(bytes: u64) -> u64 {
    ENTRIES_LEAST + bytes / BYTES_PER_ENTRY
}

/// Puts the process into its own view.
pub(super) fn wall_in(files: &Files, name: &str, id: Option<u32>) -> Result<(), ChildError> {
    unshare(Apart::Files).tried(|| "unshare of mounts".to_owned())?;
    mount(Mount::Private, Path::new("/")).tried(|| "mounts of its own".to_owned())?;
    let mounted = fs::read_to_string("/proc/self/mountinfo").tried(|| "mountinfo".to_owned())?;
    let (disk, root) = (files.folder.join("disk"), files.folder.join("root"));
    overlay(files, &disk, &root, id)?;
    for point in others(&mounted, &files.hidden) {
        read_only(Path::new(&point), &inside(&root, &point))?;
    }
    system(&root)?;
    for (from, to) in [("tmp", "/tmp"), ("tmp", "/var/tmp"), ("shm", "/dev/shm"), ("home", HOME)] {
        let to = inside(&root, to);
        folder(&to)?;
        bind(&disk.join(from), &to)?;
    }
    let hidden = inside(&root, &files.hidden);
    if hidden.exists() {
        tmpfs(&hidden, "size=4k,mode=000")?;
    }
    rustix::system::sethostname(name.as_bytes()).tried(|| "sethostname".to_owned())?;
    std::env::set_current_dir(&root).tried(|| root.display().to_string())?;
    // The old root comes to lie over the new one, and is taken away. Source: pivot_root(2), NOTES.
    pivot_root(".", ".").tried(|| "pivot_root".to_owned())?;
    unmount(Path::new(".")).tried(|| "the old root".to_owned())?;
    std::env::set_current_dir("/").tried(|| "/".to_owned())?;
    if let Some(id) = id {
        let mut left = ENTRIES_MAX;
        for path in &files.writable {
            give(path, id, &mut left)?;
        }
    }
    Ok(())
}

/// A path of the machine as it is called below the new root.
fn inside(root: &Path, path: impl AsRef<Path>) -> PathBuf {
    root.join(path.as_ref().strip_prefix("/").unwrap_or(path.as_ref()))
}

/// The machine's files with a layer of memory over them.
fn overlay(files: &Files, disk: &Path, root: &Path, id: Option<u32>) -> Result<(), ChildError> {
    folder(disk)?;
    folder(root)?;
    let given = if files.writable.is_empty() { 0 } else { ENTRIES_MAX };
    let entries = entries(files.bytes) + given;
    tmpfs(disk, &format!("size={},nr_inodes={entries},mode=755", files.bytes))?;
    for (name, mode) in
        [("upper", 0o755), ("work", 0o755), ("home", 0o700), ("tmp", 0o1777), ("shm", 0o1777)]
    {
        let path = disk.join(name);
        folder(&path)?;
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&path, mode).tried(|| path.display().to_string())?;
    }
    if let Some(id) = id {
        chown(disk.join("home"), Some(id), Some(id)).tried(|| "home".to_owned())?;
    }
    // Who gives a whole folder to the server copies owners, not contents.
    let more = if files.writable.is_empty() { "" } else { ",metacopy=on" };
    let (upper, work) = (disk.join("upper"), disk.join("work"));
    let layers =
        format!("lowerdir=/,upperdir={},workdir={}{more}", upper.display(), work.display());
    made("overlay", root, &layers, true)
}

/// `/proc`, `/dev`, `/sys` and `/run`, as much of them as programs look for.
fn system(root: &Path) -> Result<(), ChildError> {
    let at = |path: &str| inside(root, path);
    made("proc", &at("/proc"), "", false)?;
    tmpfs(&at("/dev"), "size=64k,mode=755")?;
    for name in DEVICES {
        let to = at("/dev").join(name);
        fs::write(&to, "").tried(|| to.display().to_string())?;
        bind(&Path::new("/dev").join(name), &to)?;
        mount(Mount::Device, &to).tried(|| to.display().to_string())?;
    }
    for (name, to) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        let from = at("/dev").join(name);
        symlink(format!("/proc/self/{to}"), &from).tried(|| from.display().to_string())?;
    }
    tmpfs(&at("/sys"), "size=64k,mode=755")?;
    // Run-time libraries count processors there.
    let processors = "/sys/devices/system/cpu";
    folder(&at(processors))?;
    read_only(Path::new(processors), &at(processors))?;
    let names = fs::canonicalize("/etc/resolv.conf").ok().filter(|path| path.starts_with("/run"));
    tmpfs(&at("/run"), "size=64k,mode=755")?;
    if let Some(path) = names
        && let Some(parent) = path.parent()
    {
        folder(&at(&parent.to_string_lossy()))?;
        let to = at(&path.to_string_lossy());
        fs::copy(&path, &to).tried(|| path.display().to_string())?;
    }
    Ok(())
}

/// Where other file systems of the machine are mounted. Source: proc_pid_mountinfo(5).
fn others(mountinfo: &str, hidden: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for line in mountinfo.lines() {
        let mut words = line.split(' ');
        let point = words.nth(4).unwrap_or("/").replace("\\040", " ");
        let kind = words.skip_while(|word| *word != "-").nth(1).unwrap_or("");
        let is_apart = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"]
            .iter()
            .any(|it| Path::new(&point).starts_with(it));
        let is_hidden = Path::new(&point).starts_with(hidden);
        if point != "/" && !is_apart && !is_hidden && !PSEUDO.contains(&kind) {
            all.push(point);
        }
    }
    all
}

fn folder(path: &Path) -> Result<(), ChildError> {
    fs::create_dir_all(path).tried(|| path.display().to_string())
}

fn tmpfs(to: &Path, options: &str) -> Result<(), ChildError> {
    made("tmpfs", to, options, true)
}

fn made(kind: &str, to: &Path, options: &str, is_executable: bool) -> Result<(), ChildError> {
    mount(Mount::New { kind, options, is_executable }, to)
        .tried(|| format!("{kind} on {}", to.display()))
}

fn bind(from: &Path, to: &Path) -> Result<(), ChildError> {
    mount(Mount::Bind(from), to).tried(|| format!("{} on {}", from.display(), to.display()))
}

fn read_only(from: &Path, to: &Path) -> Result<(), ChildError> {
    bind(from, to)?;
    mount(Mount::ReadOnly, to).tried(|| format!("{} to read only", to.display()))
}

/// Makes a folder and all in it the server's. Links are changed, not followed.
fn give(path: &Path, id: u32, left: &mut u64) -> Result<(), ChildError> {
    let tried = |error: io::Error| ChildError::System { what: path.display().to_string(), error };
    *left = left.checked_sub(1).ok_or(ChildError::Entries(ENTRIES_MAX))?;
    lchown(path, Some(id), Some(id)).map_err(tried)?;
    if !fs::symlink_metadata(path).map_err(tried)?.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(tried)? {
        give(&entry.map_err(tried)?.path(), id, left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::others;

    #[test]
    fn other_file_systems_are_found() {
        let mounts = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            23 22 0:5 / /proc rw - proc proc rw\n\
            24 22 8:1 / /srv/my\\040games rw,relatime shared:1 - xfs /dev/sda1 rw\n\
            25 22 0:9 / /run/netns rw - ext4 /dev/vda rw\n\
            26 22 0:9 / /mnt/memory rw - tmpfs tmpfs rw\n\
            27 22 0:9 / /var/lib/x/servers/a rw - ext4 /dev/vdb rw\n";
        assert_eq!(others(mounts, Path::new("/var/lib/x")), ["/srv/my games"]);
    }
}
