//! Where facts about a machine are read: the files of this one, or a tree of files that was recorded
//! on another.
//!
//! In: absolute paths, as they are on the machine. Out: their text. What is not there is `None`,
//! because most machines lack most things; what is there and cannot be read is an error. Nothing is
//! written here.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::ethtool::Settings;

/// Names of a folder that are looked at, at most: `/proc/irq` of a large machine has some thousands.
const NAMES_MAX: usize = 65_536;

/// A machine as files.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    /// Whether it is the machine that this runs on, which can be asked what no file says.
    pub(super) is_here: bool,
}

/// Something that is there and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct Unread {
    /// As on the machine.
    pub path: String,
    /// What the system said, or what is odd about the text.
    pub why: String,
}

impl Unread {
    pub(super) fn new(path: &str, why: impl ToString) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

/// What was read, if it is there.
pub(super) type Read<T> = Result<Option<T>, Unread>;

impl Tree {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        Self { root: PathBuf::from("/"), is_here: true }
    }

    /// One that was recorded: `root` holds its `proc` and `sys`, and in `ethtool/IF/` what
    /// `ethtool -k`, `-l`, `-g` and `-c` printed, as `features`, `channels`, `rings`, `coalescing`.
    #[must_use]
    pub fn recorded(root: &Path) -> Self {
        Self { root: root.to_owned(), is_here: false }
    }

    /// Where a file of the machine lies.
    pub(super) fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file without the white space around it.
    pub(super) fn text(&self, path: &str) -> Read<String> {
        match fs::read(self.place(path)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(Unread::new(path, error)),
        }
    }

    /// The same where it makes no difference why it is missing.
    pub(crate) fn text_or_empty(&self, path: &str) -> String {
        self.text(path).ok().flatten().unwrap_or_default()
    }

    /// A file that holds a number.
    pub(super) fn number(&self, path: &str) -> Read<u64> {
        let Some(text) = self.text(path)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Unread::new(path, format!("`{text}` is no number")))
    }

    /// The names in a folder, in order; none where there is no such folder.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.place(path)).into_iter().flatten().flatten();
        let names = entries.take(NAMES_MAX).map(|it| it.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        // By number where there is one: cpu2 before cpu10.
        names.sort_by_key(|name| {
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            (digits.parse::<u64>().unwrap_or(0), name.clone())
        });
        names
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.place(path)).is_ok()
    }

    /// The last part of what a link leads to.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let to = fs::read_link(self.place(path)).ok()?;
        to.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// What the driver of a network interface says.
    pub(super) fn ethtool(&self, interface: &str) -> Settings {
        if self.is_here {
            return Settings::here(interface);
        }
        let text = |name: &str| self.text_or_empty(&format!("/ethtool/{interface}/{name}"));
        Settings::printed(&text("features"), &text("channels"), &text("rings"))
            .with_coalescing(&text("coalescing"))
    }
}

/// Whether the thing does not exist here, as drivers say that too. Files of sysfs answer EINVAL and
/// EOPNOTSUPP where the device lacks what they are about.
fn is_absence(error: &std::io::Error) -> bool {
    let by_kind = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::IsADirectory];
    let by_number = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NODEV, Errno::NXIO];
    let number = Errno::from_io_error(error);
    by_kind.contains(&error.kind()) || number.is_some_and(|it| by_number.contains(&it))
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use crate::doctor::tests::Recorded;

    #[test]
    fn what_is_missing_is_none_and_what_is_odd_an_error() {
        let recorded = Recorded::of(
            "tree",
            "/a/number\n\t17\n/a/word\n\tword\n/a/cpu10/x\n\t1\n/a/cpu2/x\n\t1\n",
        );
        let tree = recorded.tree();
        assert_eq!(tree.number("/a/number"), Ok(Some(17)));
        assert_eq!(tree.number("/a/none"), Ok(None));
        assert_eq!(tree.number("/a/number/below"), Ok(None));
        assert!(tree.number("/a/word").is_err_and(|it| it.to_string().contains("`word`")));
        assert_eq!(tree.names("/a"), ["number", "word", "cpu2", "cpu10"]);
        assert!(tree.names("/no").is_empty() && !tree.exists("/no") && tree.exists("/a"));
        assert!(Tree::here().text_or_empty("/proc/sys/kernel/osrelease").contains('.'));
    }
}
