//! Namespaces and mounts of the calling thread or process: what a program that starts others in walls of
//! their own needs, and neither std nor rustix gives as safe calls.
//!
//! In: paths and flags. Out: what the system says. Not here: which walls, and in what order.
//!
//! Source: unshare(2), mount(2), umount2(2).

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
    /// Another folder or file.
    Bind(&'a Path),
    /// What is mounted there may only be read from now on; it was bound before.
    ReadOnly,
    /// What is mounted there and below is no longer told to other namespaces, nor theirs to this one.
    Private,
}

/// Mounts something, in the calling thread's namespace.
///
/// # Errors
/// As the system says; for a path with a zero byte.
pub fn mount(what: Mount<'_>, at: &Path) -> io::Result<()> {
    let plain = libc::MS_NOSUID | libc::MS_NODEV;
    let (source, kind, flags, options) = match what {
        Mount::New { kind, options, is_executable: true } => {
            (kind.as_bytes(), kind, plain, options)
        }
        Mount::New { kind, options, is_executable: false } => {
            (kind.as_bytes(), kind, plain | libc::MS_NOEXEC, options)
        }
        Mount::Bind(from) => (from.as_os_str().as_bytes(), "", libc::MS_BIND, ""),
        Mount::ReadOnly => {
            let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID;
            (&b""[..], "", flags, "")
        }
        Mount::Private => (&b""[..], "", libc::MS_REC | libc::MS_PRIVATE, ""),
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
