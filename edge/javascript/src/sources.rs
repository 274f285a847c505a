//! The bundle of a folder: read once, then shared by all threads and matches. Nothing is run here.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use heap::Code;
use script::ContentHash;
use thiserror::Error;

/// Bytes of a bundle's text.
const BUNDLE_BYTES_MAX: u64 = 4 << 20;

/// The bundle's file, if no setting names another one.
const ENTRYPOINT: &str = "index.js";

/// Why the bundle cannot be loaded; the server does not start.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file lies outside of the folder, or is no text.
    #[error("{path}: {what}")]
    Wrong {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It failed when it was run at start.
    #[error("{location}: {message}")]
    Run {
        /// `file:line`, or the file.
        location: String,
        /// The error's text.
        message: String,
    },
    /// The VM itself could not be set up.
    #[error("cannot set up JavaScript: {0}")]
    Vm(#[from] rquickjs::Error),
}

/// The bundle, ready to be run by any number of VMs on any thread.
#[derive(Debug, Default)]
pub struct Bundle {
    /// Path below the folder, as errors show it, and text; `None` if there is no bundle.
    pub(crate) code: Option<(String, String)>,
    /// The same as bytecode, from the first VM on.
    pub(crate) compiled: OnceLock<Code>,
    /// What the first VM's `InitModule` registered, as JSON: see `register.js`.
    pub(crate) plan: OnceLock<String>,
}

impl Bundle {
    /// Reads the file `entrypoint` of `folder`, or its `index.js` if there is one and none is named.
    ///
    /// # Errors
    /// [`LoadError::Read`], [`LoadError::Wrong`].
    pub fn read(folder: &Path, entrypoint: &str) -> Result<Self, LoadError> {
        let name = if entrypoint.is_empty() { ENTRYPOINT } else { entrypoint };
        let path = folder.join(name);
        let wrong = |what: String| LoadError::Wrong { path: path.clone(), what };
        if entrypoint.is_empty() && !path.is_file() {
            return Ok(Self::default());
        }
        if Path::new(name).components().any(|part| !matches!(part, std::path::Component::Normal(_)))
        {
            return Err(wrong("not below `runtime.path`".to_owned()));
        }
        let unreadable = |source| LoadError::Read { path: path.clone(), source };
        let bytes = std::fs::metadata(&path).map_err(unreadable)?.len();
        if bytes > BUNDLE_BYTES_MAX {
            return Err(wrong(format!("larger than {BUNDLE_BYTES_MAX} bytes")));
        }
        let text = String::from_utf8(std::fs::read(&path).map_err(unreadable)?);
        let text = text.map_err(|_| wrong("not UTF-8".to_owned()))?;
        Ok(Self::from_text(name, &text))
    }

    /// A bundle of this text, say in a test.
    #[must_use]
    pub fn from_text(file: &str, text: &str) -> Self {
        Self { code: Some((file.to_owned(), text.to_owned())), ..Self::default() }
    }

    /// Its file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.code.as_ref().map(|(file, _)| file.as_str())
    }

    /// A hash of its file.
    #[must_use]
    pub fn content(&self) -> ContentHash {
        let mut content = ContentHash::default();
        if let Some((file, text)) = &self.code {
            content.add(file, text.as_bytes());
        }
        content
    }
}
