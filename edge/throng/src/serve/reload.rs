//! What the loader's thread (`server::loader`) asks of the machine: a look at the folder of the modules,
//! and the next version of what is in it.
//!
//! Not here: when that is done, and who is told.

use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::ThreadId;
use game::guest::GuestVersion;
use server::guests::NewGuests;
use server::loader::{Edition, Library};

use super::modules::{Code, Maker, warn};
use crate::config::RuntimeConfig;

/// Files that a look counts; a folder with more is looked at in part.
const FILES_LOOKED_AT_MAX: usize = 65_536;

/// How deeply a look goes into folders, as deep as modules may lie.
const FOLDER_DEPTH_MAX: usize = 16;

/// How often files that change while they are read are read again.
const READS_MAX: usize = 4;

/// The folder of the modules.
pub(super) struct Folder {
    config: RuntimeConfig,
    maker: Arc<Maker>,
    /// What serves.
    serving: Code,
    /// What was read last, if it loads and does not serve yet; and whether its author has been told about it.
    next: Option<(Code, bool)>,
}

impl Folder {
    /// The folder from which this code was read, and run for all threads.
    pub(super) fn new(config: RuntimeConfig, maker: Arc<Maker>, serving: Code) -> Self {
        Self { config, maker, serving, next: None }
    }
}

impl Library for Folder {
    fn look(&mut self) -> u64 {
        look(&self.config.path)
    }

    fn read(&mut self, version: GuestVersion) -> Result<Edition, String> {
        self.next = None;
        let path = &self.config.path;
        if !path.is_dir() {
            return Err(format!("{} (`runtime.path`) is not a folder", path.display()));
        }
        for _ in 0..READS_MAX {
            let before = look(path);
            let code = Code::read(&self.config, version, Some(&self.serving));
            // Half of a new version and half of the one before is none.
            if look(path) == before {
                let code = code.map_err(|error| format!("{error:#}"))?;
                code.log_compiled();
                let edition = code.edition.clone();
                self.next = Some((code, false));
                return Ok(edition);
            }
        }
        Err(format!("the files in {} go on changing", path.display()))
    }

    fn instance(&mut self, version: GuestVersion, thread: ThreadId) -> Result<NewGuests, String> {
        let mut is_known = true;
        let (code, is_told) = match &mut self.next {
            Some((code, is_told)) if code.edition.version == version => (&*code, is_told),
            // Who wrote it was told when it was new.
            _ if self.serving.edition.version == version => (&self.serving, &mut is_known),
            _ => return Err(format!("version {version} has not been read")),
        };
        let (scripts, mut resources) = match self.maker.instance(code, thread) {
            Ok(made) => made,
            Err(error) => {
                // The error is one line of one module: what else stands in the text is better known now.
                warn(&code.findings_of_text());
                return Err(format!("{error:#}"));
            }
        };
        if !std::mem::replace(is_told, true) {
            warn(&code.findings(scripts.registered(), &self.maker));
        }
        let said = resources.take_said();
        Ok(NewGuests { version, scripts, said })
    }

    fn serves(&mut self, version: GuestVersion) {
        if let Some((code, _)) = self.next.take_if(|(code, _)| code.edition.version == version) {
            self.serving = code;
        }
        self.next = None;
    }
}

/// Names, sizes and times of the files below a folder as one number, which is the same only within a
/// process; what cannot be read is left out.
fn look(folder: &Path) -> u64 {
    let mut seen = Seen { hash: DefaultHasher::new(), left: FILES_LOOKED_AT_MAX };
    seen.folder(folder, FOLDER_DEPTH_MAX);
    seen.hash.finish()
}

struct Seen {
    hash: DefaultHasher,
    left: usize,
}

impl Seen {
    fn folder(&mut self, folder: &Path, depth_left: usize) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).take(self.left).collect();
        paths.sort();
        for path in paths {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            if metadata.is_dir() {
                if depth_left > 0 {
                    self.folder(&path, depth_left - 1);
                }
            } else {
                self.file(&path, &metadata);
            }
        }
    }

    fn file(&mut self, path: &Path, metadata: &Metadata) {
        (path, metadata.len(), metadata.modified().ok()).hash(&mut self.hash);
    }
}

#[cfg(test)]
mod tests {
    use super::look;

    #[test]
    fn a_look_sees_new_changed_renamed_and_missing_files() {
        let root = std::env::temp_dir().join(format!("throng-look-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        let mut seen = vec![look(&root)];
        let mut changes = |change: &dyn Fn()| {
            change();
            let now = look(&root);
            assert_eq!(now, look(&root), "nothing has changed since");
            assert!(!seen.contains(&now), "{seen:?}");
            seen.push(now);
        };
        changes(&|| std::fs::write(root.join("a/b/one.lua"), "return 1").unwrap());
        changes(&|| std::fs::write(root.join("two.lua"), "return 22").unwrap());
        changes(&|| std::fs::write(root.join("two.lua"), "return 2").unwrap());
        changes(&|| std::fs::rename(root.join("two.lua"), root.join("three.lua")).unwrap());
        changes(&|| {
            let file = std::fs::File::options().write(true).open(root.join("three.lua")).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
            file.set_modified(time).unwrap();
        });
        std::fs::remove_file(root.join("three.lua")).unwrap();
        assert_eq!(look(&root), seen[1], "as it was before");
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(look(&root), seen[0], "a folder that is away has no files");
    }
}
