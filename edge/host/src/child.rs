//! From the daemon's program to the server's, in one process: the walls are put up one by one, then the
//! server's program takes the process over. The daemon starts its own program again for it, because what
//! happens here concerns the whole process, and only one with a single thread may do it.
//!
//! In: a [`Spec`] as JSON on the standard input. Out: nothing, or why it failed, on the standard output,
//! which closes when the server's program begins. Not here: networks and process ids, which are walls of
//! the thread that starts this process (`daemon::start`).

mod files;
mod seccomp;

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, setrlimit, setsid, umask};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

pub(crate) use files::HOME;

/// Bytes of a spec: a fleet's file, once.
const SPEC_BYTES_MAX: u64 = 2 << 20;
/// Open files that a server may have.
const OPEN_FILES: u64 = 65_536;
/// Who may do what with files that the walls are made of, and with those that the server makes: whatever
/// holds of the shell that started the daemon. Of a server's own files others have nothing.
const WALLS_MASK: Mode = Mode::from_raw_mode(0o022);
const SERVER_MASK: Mode = Mode::from_raw_mode(0o027);

/// What the process is to become.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Where it starts.
    pub(crate) dir: PathBuf,
    /// Its user and group; none where the daemon may not choose.
    pub(crate) id: Option<u32>,
    /// Files that a process joins its groups by.
    pub(crate) groups: Vec<PathBuf>,
    pub(crate) files: Option<Files>,
    /// Of a server that shares the machine's files.
    pub(crate) home: Option<Home>,
    /// Bytes of each of its files, where no disk of its own counts them.
    pub(crate) file_bytes: Option<u64>,
    pub(crate) cores: Vec<usize>,
    pub(crate) realtime: Option<u8>,
    /// Processes of its user, where no group counts them.
    pub(crate) processes: Option<u32>,
    pub(crate) is_filtered: bool,
    /// A named pipe.
    pub(crate) log: PathBuf,
}

/// A file system of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Files {
    /// Where it is mounted: empty, and of this server alone.
    pub(crate) folder: PathBuf,
    /// Bytes that may be written.
    pub(crate) bytes: u64,
    /// Folders that become the server's.
    pub(crate) writable: Vec<PathBuf>,
    /// The daemon's folder, which is not to be seen.
    pub(crate) hidden: PathBuf,
}

/// A home of a bounded size, and nothing else, of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Home {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Bytes that may be written.
    pub(crate) bytes: u64,
}

/// Why a server's program did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("{what}: {error}")]
    System { what: String, error: io::Error },
    #[error("the daemon's words: {0}")]
    Spec(#[from] serde_json::Error),
    #[error(
        "cpu.realtime: {0}; kernels with CONFIG_RT_GROUP_SCHED give it to no group of version 2: wall = \
         \"process\", which has none, or no cpu.realtime"
    )]
    Realtime(String),
    #[error("the filter of system calls: {0}")]
    Filter(String),
    #[error("`writable` holds more than {0} files")]
    Entries(u64),
}

/// What was tried, for an error of the system.
pub(super) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, ChildError>;
}

impl<T, E: Into<io::Error>> Tried<T> for Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, ChildError> {
        self.map_err(|error| ChildError::System { what: what(), error: error.into() })
    }
}

/// Becomes the server that is described on the standard input. Returns only if that failed, after it has
/// said why on the standard output.
#[must_use]
pub fn become_server() -> u8 {
    // The pipe to the daemon, which the server's program must not inherit.
    let Ok(report) = io::stdout().as_fd().try_clone_to_owned() else { return 1 };
    let Err(error) = becoming();
    let _ = File::from(report).write_all(error.to_string().as_bytes());
    1
}

fn becoming() -> Result<Infallible, ChildError> {
    let mut text = String::new();
    let mut words = io::stdin().lock().take(SPEC_BYTES_MAX);
    words.read_to_string(&mut text).tried(|| "the daemon's words".to_owned())?;
    let spec: Spec = serde_json::from_str(&text)?;
    umask(WALLS_MASK);
    // Of a session of its own, so that what a terminal sends the daemon is not sent to it.
    setsid().tried(|| "setsid".to_owned())?;
    for group in &spec.groups {
        std::fs::write(group, "0").tried(|| group.display().to_string())?;
    }
    let log = File::options().read(true).write(true).open(&spec.log);
    let log = log.tried(|| spec.log.display().to_string())?;
    let errors = log.try_clone().tried(|| "the log".to_owned())?;
    processors(&spec)?;
    rlimits(&spec)?;
    if let Some(files) = &spec.files {
        files::wall_in(files, &spec.name, spec.id)?;
    }
    if let (Some(home), Some(id)) = (&spec.home, spec.id) {
        files::bound(home, id)?;
    }
    std::env::set_current_dir(&spec.dir).tried(|| format!("dir {}", spec.dir.display()))?;
    if let Some(id) = spec.id {
        drop_rights(id)?;
    }
    rustix::thread::set_no_new_privs(true).tried(|| "no_new_privs".to_owned())?;
    if spec.is_filtered {
        seccomp::apply()?;
    }
    let [program, args @ ..] = &*spec.argv else {
        let error = io::Error::from(io::ErrorKind::InvalidInput);
        return Err(ChildError::System { what: "command".to_owned(), error });
    };
    umask(SERVER_MASK);
    // The daemon closes its own files by itself, but not those that it was started with.
    engine::walls::close_on_exec().tried(|| "open files".to_owned())?;
    let envs = spec.env.iter().map(|(name, value)| (name, value));
    let error = Command::new(program)
        .args(args)
        .env_clear()
        .envs(envs)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .exec();
    Err(ChildError::System { what: program.clone(), error })
}

fn processors(spec: &Spec) -> Result<(), ChildError> {
    if !spec.cores.is_empty() {
        let mut set = CpuSet::new();
        for core in &spec.cores {
            set.set(*core);
        }
        sched_setaffinity(None, &set).tried(|| format!("cpu.cores {:?}", spec.cores))?;
    }
    let Some(priority) = spec.realtime else { return Ok(()) };
    // By chrt of util-linux: no crate here wraps the system call. Source: sched(7), chrt(1).
    let pid = std::process::id().to_string();
    let output = Command::new("chrt")
        .args(["--rr", "--pid", &priority.to_string(), &pid])
        .stdin(Stdio::null())
        .output()
        .tried(|| "chrt".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    Err(ChildError::Realtime(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn rlimits(spec: &Spec) -> Result<(), ChildError> {
    let set = |resource, value: u64, name: &str| {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit).tried(|| name.to_owned())
    };
    set(Resource::Core, 0, "RLIMIT_CORE")?;
    let most = |resource, value: u64| {
        rustix::process::getrlimit(resource).maximum.map_or(value, |it| it.min(value))
    };
    set(Resource::Nofile, most(Resource::Nofile, OPEN_FILES), "RLIMIT_NOFILE")?;
    if let Some(bytes) = spec.file_bytes {
        set(Resource::Fsize, most(Resource::Fsize, bytes), "RLIMIT_FSIZE")?;
    }
    // It counts all processes of a user, so that only a server with a user of its own can have it.
    if let (Some(processes), Some(_)) = (spec.processes, spec.id) {
        set(Resource::Nproc, u64::from(processes), "RLIMIT_NPROC")?;
    }
    Ok(())
}

/// Another user, no other groups, and no way to any capability. Source: capabilities(7).
fn drop_rights(id: u32) -> Result<(), ChildError> {
    use rustix::process::{Gid, Uid};
    use rustix::thread::{
        CapabilitySet, remove_capability_from_bounding_set, set_thread_groups, set_thread_res_gid,
        set_thread_res_uid,
    };
    for capability in CapabilitySet::all().iter() {
        // A kernel that does not know it does not give it.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[]).tried(|| "setgroups".to_owned())?;
    set_thread_res_gid(gid, gid, gid).tried(|| format!("setresgid {id}"))?;
    set_thread_res_uid(uid, uid, uid).tried(|| format!("setresuid {id}"))
}
