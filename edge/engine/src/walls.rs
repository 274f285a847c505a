//! Namespaces and mounts of the calling thread or process: what a program that starts others in walls of
//! their own needs, and neither std nor rustix gives as safe calls.
//!
//! In: paths and flags. Out: what the system says. Not here: which walls, and in what order.
//!
//! Source: unshare(2), mount(2), umount2(2), close_range(2).

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::thread::UnshareFlags;

/// Kinds of namespaces, to be had anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Mounts, IPC and the host's name, of the calling thread; of a process that has one thread, of it.
    Files,
    /// Mounts and IPC, likewise.
    Mounts,
    /// Process ids, of what the calling thread starts from now on.
    Processes,
}

/// Gives the calling thread namespaces of its own.
///
/// # Errors
/// Without the right to (`CAP_SYS_ADMIN`).
pub fn unshare(apart: Apart) -> io::Result<()> {
    let flags = match apart {
        Apart::Files => UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS,
        Apart::Mounts => UnshareFlags::NEWNS | UnshareFlags::NEWIPC,
        Apart::Processes => UnshareFlags::NEWPID,
    };
    // SAFETY: only the table of open files (CLONE_FILES) must stay shared, and no flag unshares it.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

/// What is mounted, or how a mount is changed.
#[derive(Clone, Copy, Debug)]
pub enum Mount<'a> {
    /// A file system that is made for it, with its options.
    New {
        /// Its kind, such as `tmpfs`.
        kind: &'a str,
        /// As in mount(8), after `-o`; may be empty.
        options: &'a str,
        /// Whether programs may be started from it. Devices and changes of the user never work.
        is_executable: bool,
    },
    /// Another folder or file, with what holds of it where it comes from.
    Bind(&'a Path),
    /// What is mounted there may only be read from now on, holds no devices and changes no user; programs
    /// may be started from it if they might before. It was bound before.
    ReadOnly,
    /// What is mounted there is a device: no program, and nobody's way to another user. It was bound before.
    Device,
    /// What is mounted there and below is no longer told to other namespaces, nor theirs to this one.
    Private,
    /// Nor told to others, but theirs to this one.
    Following,
}

/// Mounts something, in the calling thread's namespace.
///
/// # Errors
/// As the system says; for a path with a zero byte.
pub fn mount(what: Mount<'_>, at: &Path) -> io::Result<()> {
    let plain = libc::MS_NOSUID | libc::MS_NODEV;
    let again = libc::MS_REMOUNT | libc::MS_BIND;
    let (source, kind, flags, options) = match what {
        Mount::New { kind, options, is_executable: true } => {
            (kind.as_bytes(), kind, plain, options)
        }
        Mount::New { kind, options, is_executable: false } => {
            (kind.as_bytes(), kind, plain | libc::MS_NOEXEC, options)
        }
        Mount::Bind(from) => (from.as_os_str().as_bytes(), "", libc::MS_BIND, ""),
        Mount::ReadOnly => {
            // What is not said again, a remount takes away. Source: mount(2), MS_REMOUNT.
            let held = rustix::fs::statvfs(at)?.f_flag;
            let is_noexec = held.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
            let programs = if is_noexec { libc::MS_NOEXEC } else { 0 };
            (&b""[..], "", again | libc::MS_RDONLY | plain | programs, "")
        }
        Mount::Device => (&b""[..], "", again | libc::MS_NOSUID | libc::MS_NOEXEC, ""),
        Mount::Private => (&b""[..], "", libc::MS_REC | libc::MS_PRIVATE, ""),
        Mount::Following => (&b""[..], "", libc::MS_REC | libc::MS_SLAVE, ""),
    };
    let (source, kind) = (CString::new(source)?, CString::new(kind)?);
    let (options, at) = (CString::new(options)?, CString::new(at.as_os_str().as_bytes())?);
    // SAFETY: four texts that end with a zero byte and outlive the call; the kernel only reads them.
    let done = unsafe {
        let options = options.as_ptr().cast();
        libc::mount(source.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, options)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes away what is mounted there and below, once nobody uses it any more.
///
/// # Errors
/// As the system says; for a path with a zero byte.
pub fn unmount(at: &Path) -> io::Result<()> {
    let at = CString::new(at.as_os_str().as_bytes())?;
    // SAFETY: a text that ends with a zero byte and outlives the call; the kernel only reads it.
    let done = unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets what this process becomes have none of its open files but the first three: those as well that it was
/// itself started with.
///
/// # Errors
/// As the system says.
pub fn close_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: numbers alone; no file is closed before this process becomes another program.
    let done = unsafe {
        let flags = libc::CLOSE_RANGE_CLOEXEC;
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags)
    };
    if done == 0 {
        return Ok(());
    }
    // Linux before 5.11 does not know the call, or not the flag.
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|it| it.parse::<libc::c_int>().ok());
        if let Some(number) = number.filter(|it| *it > 2) {
            // SAFETY: a flag of a file is set; if it has been closed meanwhile, nothing happens.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Apart, Mount, mount, unshare};

    /// What holds of the mount at a path, as the calling thread sees it. Source: proc_pid_mountinfo(5).
    fn flags(at: &Path) -> Vec<String> {
        let text = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let at = at.to_str().unwrap();
        // The last one lies on top.
        let line = text.lines().rfind(|line| line.split(' ').nth(4) == Some(at)).unwrap();
        line.split(' ').nth(5).unwrap().split(',').map(str::to_owned).collect()
    }

    /// A thread of its own, so that no other test is in its namespace.
    fn apart(work: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                if let Err(error) = unshare(Apart::Mounts) {
                    eprintln!("skipped: {error}");
                    return;
                }
                mount(Mount::Private, Path::new("/")).unwrap();
                work();
            });
            thread.join().unwrap();
        });
    }

    #[test]
    fn what_is_bound_to_read_only_keeps_what_was_forbidden() {
        let folder = std::env::temp_dir().join(format!("throng-walls-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        for path in [&from, &to] {
            std::fs::create_dir_all(path).unwrap();
        }
        apart(|| {
            for (is_executable, wanted) in [(false, true), (true, false)] {
                mount(Mount::New { kind: "tmpfs", options: "size=64k", is_executable }, &from)
                    .unwrap();
                mount(Mount::Bind(&from), &to).unwrap();
                mount(Mount::ReadOnly, &to).unwrap();
                let flags = flags(&to);
                let has = |word: &str| flags.iter().any(|it| it == word);
                assert!(has("ro") && has("nosuid") && has("nodev"), "{flags:?}");
                assert_eq!(has("noexec"), wanted, "{flags:?}");
            }
        });
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_device_works_and_is_nothing_else() {
        let path = std::env::temp_dir().join(format!("throng-null-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        apart(|| {
            mount(Mount::Bind(Path::new("/dev/null")), &path).unwrap();
            mount(Mount::Device, &path).unwrap();
            let flags = flags(&path);
            assert!(flags.contains(&"noexec".to_owned()), "{flags:?}");
            std::fs::write(&path, "away").unwrap();
        });
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        std::fs::remove_file(&path).unwrap();
    }
}
