//! The files of a result: written whole or not at all, to places that were tried before the run.
//!
//! Each file is first written beside its place under another name and renamed when all are
//! complete, so that neither a full disk nor a killed process leaves half a result. Two runs that
//! write to one folder at the same time are not kept apart.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The files of `--out`; the last one is the one that matters most.
pub const NAMES: [&str; 4] = ["result.hlog", "series.csv", "report.html", "result.json"];

/// A folder that can be written to; the folders that had to be made for it go again when this is
/// dropped and nothing has been written to them.
pub struct Claim {
    /// The deepest first.
    made: Vec<PathBuf>,
}

impl Claim {
    /// Makes the folder if need be, and tries to write to it.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn folder(path: &Path) -> anyhow::Result<Self> {
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let missing = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        let claim = Self { made: missing };
        fs::create_dir_all(path).with_context(|| format!("--out {}", path.display()))?;
        for name in NAMES {
            try_file(&path.join(name)).context("--out")?;
        }
        Ok(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        for folder in &self.made {
            // Succeeds only with a folder that is empty.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Whether a file can be made at this place; what stands there stays.
///
/// # Errors
/// When it cannot.
pub fn try_file(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(!path.is_dir(), "{} is a folder", path.display());
    let part = part(path);
    File::create(&part).with_context(|| format!("{} cannot be written", path.display()))?;
    fs::remove_file(&part).with_context(|| part.display().to_string())
}

/// Writes all files, or none of them; the last one is the one that matters most.
///
/// # Errors
/// When one cannot be written; what stood there before stands there still.
pub fn write(files: &[(PathBuf, Vec<u8>)]) -> anyhow::Result<()> {
    let written = files.iter().enumerate().try_for_each(|(index, (path, bytes))| {
        let mut file = File::create(part(path))?;
        file.write_all(bytes)?;
        // Some disks say only now that they are full. This takes a while on a busy one, and the
        // other files can be made again from the last.
        if index + 1 == files.len() { file.sync_all() } else { Ok(()) }
    });
    if let Err(error) = written {
        for (path, _) in files {
            // What was not made need not go.
            let _ = fs::remove_file(part(path));
        }
        let names: Vec<_> = files.iter().map(|(path, _)| path.display().to_string()).collect();
        return Err(error).context(format!("nothing was written: {}", names.join(", ")));
    }
    let renamed = files.iter().try_for_each(|(path, _)| {
        fs::rename(part(path), path).with_context(|| path.display().to_string())
    });
    if renamed.is_err() {
        for (path, _) in files {
            // Those that have been renamed are not there any more.
            let _ = fs::remove_file(part(path));
        }
    }
    renamed
}

/// The name of a file that is not complete.
fn part(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::{Claim, try_file, write};

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("throng-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_folder_that_stays_empty_goes_again() {
        let top = folder("claim");
        fs::create_dir(&top).unwrap();
        let claims = [top.join("a/b"), top.join("a/c")].map(|path| Claim::folder(&path).unwrap());
        fs::write(top.join("a/c/x"), "x").unwrap();
        drop(claims);
        assert!(!top.join("a/b").exists() && top.join("a/c/x").exists());
        fs::write(top.join("file"), "x").unwrap();
        assert!(Claim::folder(&top.join("file")).is_err());
        fs::create_dir_all(top.join("d/report.html")).unwrap();
        assert!(Claim::folder(&top.join("d")).is_err());
        assert!(Claim::folder(&top.join("file/below")).is_err());
        assert!(try_file(&top.join("a")).is_err() && try_file(&top.join("no/x")).is_err());
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn all_files_are_written_or_none() {
        let top = folder("write");
        fs::create_dir(&top).unwrap();
        let (one, two) = (top.join("one"), top.join("two"));
        write(&[(one.clone(), b"1".to_vec()), (two.clone(), b"2".to_vec())]).unwrap();
        let bad = top.join("no/three");
        assert!(write(&[(one.clone(), b"new".to_vec()), (bad, b"3".to_vec())]).is_err());
        assert_eq!(fs::read(&one).unwrap(), b"1");
        assert_eq!(fs::read_dir(&top).unwrap().count(), 2);
        let taken = top.join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(write(&[(taken, b"3".to_vec()), (two, b"4".to_vec())]).is_err());
        assert_eq!(fs::read_dir(&top).unwrap().count(), 3, "no part stays behind");
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn a_full_disk_leaves_the_old_result() {
        // /dev/full is a disk that is always full; it cannot be beside a file, so the part is it.
        let top = folder("full");
        fs::create_dir(&top).unwrap();
        let result = top.join("result.json");
        fs::write(&result, "old").unwrap();
        std::os::unix::fs::symlink("/dev/full", top.join("result.json.part")).unwrap();
        let error = write(&[(result.clone(), vec![b'x'; 100_000])]).unwrap_err();
        assert!(format!("{error:#}").contains("No space left"), "{error:#}");
        assert_eq!(fs::read(&result).unwrap(), b"old");
        assert_eq!(fs::read_dir(&top).unwrap().count(), 1);
        fs::remove_dir_all(top).unwrap();
    }
}
