//! Changing what a check found, and putting it back.
//!
//! Only values in files of `/proc/sys` and `/sys` are written, each read before and noted in a record
//! *before* it is written, so that whatever happens the record knows more than was done, never less.
//! [`undo`] puts back what still is as it was left, in the reverse order; what somebody has changed
//! since is left alone. Such values last until the next start of the machine; a record of an earlier
//! start has nothing to put back.
//!
//! In: findings and a file for the record. Out: what was done. No commands are run.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::facts::chosen;
use super::tree::Tree;
use super::{Change, Finding};

/// The form of the record.
const VERSION: u32 = 1;
/// Bytes of a record that is read, at most.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Why nothing, or not everything, could be done.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The record cannot be read or written; without one nothing is changed.
    #[error("the record {path}: {error}")]
    Record {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The record is none of ours.
    #[error("the record {path} is not understood: {error}")]
    Form {
        /// Its file.
        path: PathBuf,
        /// What is odd.
        error: String,
    },
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Was {
    /// The check that asked for it.
    pub id: String,
    /// The file.
    pub path: String,
    /// What stood there.
    pub before: String,
    /// What was written.
    pub after: String,
    /// Start of the machine (`/proc/sys/kernel/random/boot_id`).
    boot: String,
    /// Network namespace, in which interfaces and most of `net.*` are.
    namespace: String,
}

impl Was {
    /// Whether each network namespace has its own.
    fn is_of_namespace(&self) -> bool {
        ["/proc/sys/net/", "/sys/class/net/"].iter().any(|root| self.path.starts_with(root))
    }
}

/// A change that was tried.
#[derive(Debug)]
pub struct Applied {
    /// What.
    pub change: Was,
    /// What the system said, if it refused.
    pub error: Option<io::Error>,
}

/// What became of a change when it was to be put back.
#[derive(Debug)]
pub enum Undone {
    /// The old value stands there again.
    Restored(Was),
    /// It stood there already.
    Already(Was),
    /// Somebody has written this since: left alone.
    ChangedSince(Was, String),
    /// The machine has been started since, which has put it back.
    OtherStart(Was),
    /// It was made in another network namespace; still in the record.
    OtherNamespace(Was),
    /// It could not be written; still in the record.
    Failed(Was, io::Error),
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    version: u32,
    changes: Vec<Was>,
}

impl Record {
    fn read(path: &Path) -> Result<Self, ChangeError> {
        let failed = |error| ChangeError::Record { path: path.to_owned(), error };
        let form = |error: String| ChangeError::Form { path: path.to_owned(), error };
        match fs::metadata(path) {
            Ok(it) if it.len() > RECORD_BYTES_MAX => {
                return Err(form("it is too large".to_owned()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { version: VERSION, changes: Vec::new() });
            }
            Err(error) => return Err(failed(error)),
        }
        let bytes = fs::read(path).map_err(failed)?;
        let record: Self =
            serde_json::from_slice(&bytes).map_err(|error| form(error.to_string()))?;
        if record.version != VERSION {
            return Err(form(format!("version {}, not {VERSION}", record.version)));
        }
        // Who can write the record cannot thereby write other files as whoever undoes it.
        let is_ours = |path: &str| {
            ["/proc/sys/", "/sys/"].iter().any(|folder| path.starts_with(folder))
                && !path.split('/').any(|part| part == "..")
        };
        if let Some(other) = record.changes.iter().find(|it| !is_ours(&it.path)) {
            return Err(form(format!("{} is not in /proc/sys or /sys", other.path)));
        }
        Ok(record)
    }

    /// Written whole or not at all; an empty one goes.
    fn write(&self, path: &Path) -> Result<(), ChangeError> {
        let write = || -> io::Result<()> {
            if self.changes.is_empty() {
                return match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                };
            }
            if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
                fs::create_dir_all(folder)?;
            }
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(".part");
            let part = path.with_file_name(name);
            let mut file = File::create(&part)?;
            file.write_all(&serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
            file.sync_all()?;
            fs::rename(&part, path)
        };
        write().map_err(|error| ChangeError::Record { path: path.to_owned(), error })
    }
}

fn boot(tree: &Tree) -> String {
    tree.text_or_empty("/proc/sys/kernel/random/boot_id")
}

fn namespace(tree: &Tree) -> String {
    tree.link("/proc/self/ns/net").unwrap_or_default()
}

/// The value of a file, as it is compared and written back.
fn value(tree: &Tree, path: &str) -> String {
    let text = tree.text_or_empty(path);
    chosen(&text).split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a change would write what stands there.
pub(super) fn is_in_force(tree: &Tree, change: &Change) -> bool {
    value(tree, &change.path) == change.value
}

fn write_value(tree: &Tree, path: &str, text: &str) -> io::Result<()> {
    // One call of write(2), without making a file where there is none.
    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(tree.place(path))?
        .write_all(text.as_bytes())
}

/// Does what is safe about the warnings, and keeps a record of it.
///
/// # Errors
/// When the record cannot be read or written: then the change that it was for is not made.
pub fn apply(
    tree: &Tree,
    findings: &[Finding],
    record_path: &Path,
) -> Result<Vec<Applied>, ChangeError> {
    let mut record = Record::read(record_path)?;
    let (boot, namespace) = (boot(tree), namespace(tree));
    let mut applied = Vec::new();
    for (finding, wanted) in
        findings.iter().flat_map(|it| it.changes.iter().map(move |to| (it, to)))
    {
        let change = Was {
            id: finding.check.id.clone(),
            path: wanted.path.clone(),
            before: value(tree, &wanted.path),
            after: wanted.value.clone(),
            boot: boot.clone(),
            namespace: namespace.clone(),
        };
        record.changes.push(change.clone());
        record.write(record_path)?;
        let error = write_value(tree, &change.path, &change.after).err();
        if error.is_some() {
            record.changes.pop();
        } else if let Some(last) = record.changes.last_mut() {
            // The kernel rounds numbers and writes masks in a form of its own: what stands there now
            // is what will tell whether somebody has changed it since.
            last.after = value(tree, &change.path);
        }
        record.write(record_path)?;
        applied.push(Applied { change, error });
    }
    Ok(applied)
}

/// Puts back what the record says, the last change first. What could not be put back stays in it.
///
/// # Errors
/// When the record cannot be read or written.
pub fn undo(tree: &Tree, record_path: &Path) -> Result<Vec<Undone>, ChangeError> {
    let record = Record::read(record_path)?;
    let (boot, namespace) = (boot(tree), namespace(tree));
    let put_back = |it: Was| {
        if it.boot != boot {
            return Undone::OtherStart(it);
        }
        if it.namespace != namespace && it.is_of_namespace() {
            return Undone::OtherNamespace(it);
        }
        let now = value(tree, &it.path);
        if now == it.before {
            return Undone::Already(it);
        }
        if now != it.after {
            return Undone::ChangedSince(it, now);
        }
        match write_value(tree, &it.path, &it.before) {
            Ok(()) => Undone::Restored(it),
            Err(error) => Undone::Failed(it, error),
        }
    };
    let undone: Vec<Undone> = record.changes.into_iter().rev().map(put_back).collect();
    let left = undone.iter().rev().filter_map(|it| match it {
        Undone::OtherNamespace(was) | Undone::Failed(was, _) => Some(was.clone()),
        Undone::Restored(_)
        | Undone::Already(_)
        | Undone::ChangedSince(..)
        | Undone::OtherStart(_) => None,
    });
    Record { version: VERSION, changes: left.collect() }.write(record_path)?;
    Ok(undone)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Undone, apply, undo};
    use crate::doctor::tests::Recorded;
    use crate::doctor::{Finding, examine};

    const TREE: &str = "/proc/sys/net/core/somaxconn\n\t128\n\
                        /proc/sys/net/core/rmem_max\n\t212992\n\
                        /proc/sys/net/core/wmem_max\n\t8388608\n\
                        /sys/kernel/mm/transparent_hugepage/enabled\n\t[always] madvise never\n\
                        /proc/sys/kernel/random/boot_id\n\tone\n\
                        /proc/self/ns/net\n\t-> net:[1]\n";

    fn warned(findings: &[Finding]) -> Vec<&str> {
        findings.iter().filter(|it| !it.changes.is_empty()).map(|it| &*it.check.id).collect()
    }

    #[test]
    fn what_is_changed_can_be_put_back_and_what_others_changed_is_left() {
        let recorded = Recorded::of("change", TREE);
        let (tree, record) = (recorded.tree(), recorded.path("state/doctor.json"));
        let read = |path: &str| tree.text_or_empty(path);
        let findings = examine(&tree);
        assert_eq!(warned(&findings), ["listen-backlog", "receive-buffer-max", "huge-pages"]);
        let applied = apply(&tree, &findings, &record).unwrap();
        assert!(applied.iter().all(|it| it.error.is_none()), "{applied:?}");
        assert_eq!(read("/proc/sys/net/core/somaxconn"), "4096");
        assert_eq!(read("/sys/kernel/mm/transparent_hugepage/enabled"), "madvise");
        // What is as it should be is not touched, and a second time there is nothing to do.
        assert_eq!(read("/proc/sys/net/core/wmem_max"), "8388608");
        assert!(apply(&tree, &examine(&tree), &record).unwrap().is_empty());
        fs::write(recorded.path("proc/sys/net/core/rmem_max"), "1\n").unwrap();
        let undone = undo(&tree, &record).unwrap();
        let [Undone::Restored(first), Undone::ChangedSince(_, now), Undone::Restored(_)] = &*undone
        else {
            panic!("{undone:?}")
        };
        assert_eq!((&*first.before, &**now), ("always", "1"));
        assert_eq!(read("/sys/kernel/mm/transparent_hugepage/enabled"), "always");
        assert_eq!(read("/proc/sys/net/core/somaxconn"), "128");
        assert!(!record.exists(), "an empty record goes");
        assert!(undo(&tree, &record).unwrap().is_empty());
    }

    #[test]
    fn another_start_has_put_it_back_and_another_namespace_is_none_of_ours() {
        let recorded = Recorded::of("start", TREE);
        let (tree, record) = (recorded.tree(), recorded.path("doctor.json"));
        apply(&tree, &examine(&tree), &record).unwrap();
        fs::remove_file(recorded.path("proc/self/ns/net")).unwrap();
        std::os::unix::fs::symlink("net:[2]", recorded.path("proc/self/ns/net")).unwrap();
        let undone = undo(&tree, &record).unwrap();
        let [Undone::Restored(shared), Undone::OtherNamespace(_), Undone::OtherNamespace(_)] =
            &*undone
        else {
            panic!("{undone:?}")
        };
        assert!(shared.path.ends_with("transparent_hugepage/enabled"), "the whole machine's");
        assert!(record.exists());
        fs::write(recorded.path("proc/sys/kernel/random/boot_id"), "two").unwrap();
        let undone = undo(&tree, &record).unwrap();
        assert!(undone.len() == 2 && undone.iter().all(|it| matches!(it, Undone::OtherStart(_))));
        assert!(!record.exists());
        assert_eq!(tree.text_or_empty("/proc/sys/net/core/somaxconn"), "4096");
    }

    #[test]
    fn without_a_record_nothing_is_changed() {
        let recorded = Recorded::of("no-record", TREE);
        let tree = recorded.tree();
        fs::write(recorded.path("file"), "{}").unwrap();
        for path in ["file/below.json", "file"] {
            assert!(apply(&tree, &examine(&tree), &recorded.path(path)).is_err(), "{path}");
        }
        assert_eq!(tree.text_or_empty("/proc/sys/net/core/somaxconn"), "128");
    }

    #[test]
    fn a_record_names_no_files_but_those_that_are_changed() {
        let recorded = Recorded::of("foreign", TREE);
        let (tree, record) = (recorded.tree(), recorded.path("doctor.json"));
        apply(&tree, &examine(&tree), &record).unwrap();
        let text = fs::read_to_string(&record).unwrap();
        for path in ["/etc/passwd", "/sys/../etc/passwd", "proc/sys/net/core/somaxconn"] {
            fs::write(&record, text.replacen("/proc/sys/net/core/somaxconn", path, 1)).unwrap();
            let refused = undo(&tree, &record).unwrap_err().to_string();
            assert!(refused.contains("is not in /proc/sys or /sys"), "{refused}");
        }
        assert_eq!(tree.text_or_empty("/proc/sys/net/core/somaxconn"), "4096");
    }

    #[test]
    fn what_is_refused_is_told_and_not_in_the_record() {
        let recorded = Recorded::of("refused", TREE);
        let (tree, record) = (recorded.tree(), recorded.path("doctor.json"));
        let mut findings = examine(&tree);
        findings.retain(|it| it.check.id == "listen-backlog");
        findings[0].changes[0].path = "/proc/sys/no/such".to_owned();
        let applied = apply(&tree, &findings, &record).unwrap();
        assert!(applied.len() == 1 && applied[0].error.is_some() && !record.exists());
    }
}
