//! What a daemon has to know again: a folder that one daemon at a time holds, and in it a folder for each
//! server with its record.
//!
//! In: records. Out: files that are there whole or not at all, and the same records after the daemon was
//! killed. The folder's path also gives the tag, by which everything that the daemon makes is known to be
//! its own: groups, links, users.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::fleet::Wall;
use crate::process::Identity;
use crate::view::State;

/// Users of servers begin here, 1,024 for each tag: above what systems give to people, services and
/// containers, and below 2³¹. Source: systemd.io/UIDS-GIDS.
const FIRST_USER: u32 = 2_000_000_000;
const TAGS: u32 = 100_000;
const USERS: u32 = 1_024;
/// Bytes of a folder's path: with its socket's name behind it as many as a socket may have. Source: unix(7).
const FOLDER_BYTES_MAX: usize = SOCKET_PATH_BYTES - "/control".len();
const SOCKET_PATH_BYTES: usize = 107;

/// What is kept of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    /// Which start of the machine it was.
    pub(crate) boot: String,
    /// Its number among those of the daemon: user, address and link come from it.
    pub(crate) slot: u32,
    /// Its own address, behind a wall of network.
    #[serde(default)]
    pub(crate) address: Option<Ipv4Addr>,
    /// Its process, once there is one.
    pub(crate) identity: Option<Identity>,
    pub(crate) state: State,
    /// Its wall: groups and links are looked for by it.
    pub(crate) wall: Wall,
    /// The description that it was started from, to be compared.
    pub(crate) description: String,
    pub(crate) restarts: u32,
    /// Where the SDK listens for it, and what it has said there.
    #[serde(default)]
    pub(crate) sdk_ports: Option<(u16, u16)>,
    #[serde(default)]
    pub(crate) sdk: Option<crate::sdk::desk::Paper>,
}

/// A daemon's folder, held.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// The number behind all names.
    number: u32,
    /// Held until the process ends.
    _lock: File,
}

/// Why the folder cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("{0}: another daemon holds it; `throng host ps` shows its servers")]
    Held(PathBuf),
    #[error("{path}: {error}")]
    System { path: PathBuf, error: io::Error },
    #[error(
        "{0}: is not empty, or somebody else's, and no daemon's: name another folder with --folder; \
         what is in a daemon's folder goes with it"
    )]
    NotOurs(PathBuf),
    #[error(
        "{0}: a daemon's folder has letters, digits and /._- in its path, and {FOLDER_BYTES_MAX} of them at \
         most, as that of its socket in it may have {SOCKET_PATH_BYTES}: name a shorter one with --folder"
    )]
    Path(PathBuf),
    #[error(
        "{0}: takes root; as another user name a folder of your own, --folder DIR, and wall = \"process\" in \
         the file: all other walls take root"
    )]
    Denied(PathBuf),
}

/// Whether a folder has such a path.
fn is_plain(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    bytes.len() <= FOLDER_BYTES_MAX && bytes.iter().all(|byte| is_plain(*byte))
}

/// How many servers run that a daemon has left; none if one may not look.
pub(crate) fn left(folder: &Path) -> usize {
    let boot = crate::process::boot();
    let runs = |it: &Record| it.boot == boot && it.identity.is_some_and(|it| it.is_alive());
    records(folder).iter().filter_map(|(_, it)| it.as_ref()).filter(|it| runs(it)).count()
}

/// The names of all servers that have a folder there, with the records of those that have a readable one.
fn records(folder: &Path) -> Vec<(String, Option<Record>)> {
    let servers = folder.join("servers");
    let Ok(entries) = fs::read_dir(&servers) else { return Vec::new() };
    let names = entries.flatten().filter_map(|it| it.file_name().into_string().ok());
    let mut all: Vec<_> = names
        .map(|name| {
            let text = fs::read(servers.join(&name).join("record.json")).unwrap_or_default();
            (name, serde_json::from_slice(&text).ok())
        })
        .collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

/// Whether a folder that is there is a daemon's of this user, or empty and this user's.
fn is_ours(path: &Path) -> io::Result<bool> {
    let found = fs::metadata(path)?;
    let is_mine = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    Ok(is_mine && (path.join("lock").is_file() || fs::read_dir(path)?.next().is_none()))
}

/// Makes a folder, unless it is there, that nobody else may enter: whatever the daemon was told by the shell
/// that started it (umask).
pub(crate) fn make_closed(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

impl Folder {
    /// Makes it, and holds it.
    pub(crate) fn hold(path: &Path) -> Result<Self, FolderError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => FolderError::Denied(path.to_owned()),
            _ => FolderError::System { path: path.to_owned(), error },
        };
        // Before it is made, so that none stays behind.
        let whole = std::path::absolute(path).map_err(failed)?;
        if !is_plain(&whole) {
            return Err(FolderError::Path(whole));
        }
        // Everything in it is taken away in the end: never what was there before.
        if path.exists() {
            if !is_ours(path).map_err(failed)? {
                return Err(FolderError::NotOurs(path.to_owned()));
            }
        } else {
            make_closed(path).map_err(failed)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        }
        let path = path.canonicalize().map_err(failed)?;
        if !is_plain(&path) {
            return Err(FolderError::Path(path));
        }
        let failed = |error| FolderError::System { path: path.clone(), error };
        let lock = File::options().create(true).append(true).mode(0o600).open(path.join("lock"));
        let lock = lock.map_err(failed)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(FolderError::Held(path));
        }
        make_closed(&path.join("servers")).map_err(failed)?;
        let number = fold(path.as_os_str().as_encoded_bytes()) % TAGS;
        Ok(Self { path, number, _lock: lock })
    }

    /// What the names of groups and links begin with; at most nine letters.
    pub(crate) fn tag(&self) -> String {
        format!("thr{:05}", self.number)
    }

    /// The user of a slot.
    pub(crate) fn user(&self, slot: u32) -> u32 {
        FIRST_USER + self.number * USERS + slot.min(USERS - 1)
    }

    /// A server's folder.
    pub(crate) fn server(&self, name: &str) -> PathBuf {
        self.path.join("servers").join(name)
    }

    pub(crate) fn write(&self, record: &Record) -> io::Result<()> {
        let folder = self.server(&record.name);
        make_closed(&folder)?;
        let text = serde_json::to_vec(record)?;
        let new = folder.join("record.new");
        let mut file =
            File::options().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        fs::rename(new, folder.join("record.json"))
    }

    /// The names of all that have a folder, with the records of those that have a readable one.
    pub(crate) fn records(&self) -> Vec<(String, Option<Record>)> {
        records(&self.path)
    }

    /// Takes a server's folder away.
    pub(crate) fn forget(&self, name: &str) {
        let _ = fs::remove_dir_all(self.server(name));
    }

    /// Takes everything away, and itself.
    pub(crate) fn remove(&self) {
        for name in ["servers", "control", "token", "lock"] {
            let path = self.path.join(name);
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
        let _ = fs::remove_dir(&self.path);
    }
}

/// A number from a path that is the same in every version. Source: FNV-1a, RFC 9923.
fn fold(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::{Folder, FolderError, Record};
    use crate::fleet::Wall;
    use crate::view::State;

    #[test]
    fn a_folder_is_held_by_one_and_remembers() {
        let path = std::env::temp_dir().join(format!("throng-host-state-{}", std::process::id()));
        let folder = Folder::hold(&path).unwrap();
        assert!(matches!(Folder::hold(&path), Err(FolderError::Held(_))));
        let record = Record {
            name: "a-1".to_owned(),
            boot: "b".to_owned(),
            slot: 3,
            address: None,
            identity: None,
            state: State::Ready,
            wall: Wall::Cgroup,
            description: "{}".to_owned(),
            restarts: 2,
            sdk_ports: Some((9_357, 9_358)),
            sdk: None,
        };
        folder.write(&record).unwrap();
        std::fs::create_dir_all(folder.server("broken")).unwrap();
        let records = folder.records();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].1.as_ref().unwrap().slot, 3);
        assert!(records[1].1.is_none());
        assert_eq!(folder.tag().len(), 8);
        assert!(folder.user(0) >= 2_000_000_000 && folder.user(5) == folder.user(0) + 5);
        folder.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_is_too_long_for_its_socket_is_not_made() {
        let base = std::env::temp_dir().join(format!("throng-host-long-{}", std::process::id()));
        let path = base.join("x".repeat(100));
        let refused = Folder::hold(&path).err().unwrap().to_string();
        assert!(refused.contains("99 of them at most") && refused.contains("107"), "{refused}");
        assert!(!base.exists());
        assert_eq!(super::left(&base), 0);
    }

    #[test]
    fn a_folder_with_something_in_it_is_not_taken() {
        let path = std::env::temp_dir().join(format!("throng-host-mine-{}", std::process::id()));
        std::fs::create_dir_all(path.join("servers/mine")).unwrap();
        let refused = Folder::hold(&path).err().unwrap();
        assert!(matches!(refused, FolderError::NotOurs(_)), "{refused}");
        assert!(path.join("servers/mine").exists());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
