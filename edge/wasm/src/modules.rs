//! The modules of a folder: each `*.wasm` in it is compiled once, then shared by all threads and matches, and by
//! the versions in which its bytes are the same. Nothing is run here.
//!
//! A module's version is the beginning of its file's hash, so that what an error tells of can be found
//! again.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use samepage::{Image, Instances};
use script::ContentHash;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use wasmtime::{Config, Engine, InstancePre, Linker};
use wire::hex;

use crate::failure::STACK_BYTES_MAX;
use crate::instance::State;
use crate::ticker::Ticker;
use crate::{imports, wasi};

/// Bytes of a module's file: compiling takes about a second for each MiB.
const MODULE_BYTES_MAX: u64 = 64 << 20;

/// Modules of one folder.
const MODULES_MAX: usize = 64;

/// The end of a module's name.
const ENDING: &str = "wasm";

/// Bytes of a file's hash that are its version in errors.
const VERSION_BYTES: usize = 4;

/// Why modules cannot be loaded; the server does not start.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A file or the folder cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no module that can run here.
    #[error("{name}: {what}")]
    Wrong {
        /// Its file.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// It failed when it was started.
    #[error("{0}")]
    Run(String),
    /// WebAssembly itself could not be set up.
    #[error("cannot set up WebAssembly: {0}")]
    Engine(String),
}

/// One module, compiled.
pub(crate) struct Module {
    /// `game.wasm@1a2b3c4d`: file and version, as errors show them.
    pub(crate) title: String,
    /// Its file.
    pub(crate) file: String,
    /// Whether an instance has done what is to be done once: in each version anew.
    pub(crate) ran_once: AtomicBool,
    /// Of its file.
    hash: Sha256Hash,
    prepared: InstancePre<State>,
    instances: Instances,
    /// What its matches have alike when they have begun: the first one's memory.
    image: Arc<OnceLock<Image>>,
    /// Whether the log says that they have nothing alike, and why.
    pub(crate) told_unshared: AtomicBool,
    ticker: Arc<Ticker>,
}

type Sha256Hash = [u8; 32];

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").field("title", &self.title).finish_non_exhaustive()
    }
}

impl Module {
    pub(crate) fn engine(&self) -> &Engine {
        self.instances.engine()
    }

    pub(crate) fn instances(&self) -> &Instances {
        &self.instances
    }

    pub(crate) fn image(&self) -> &OnceLock<Image> {
        &self.image
    }

    pub(crate) fn prepared(&self) -> &InstancePre<State> {
        &self.prepared
    }

    pub(crate) fn ticker(&self) -> &Ticker {
        &self.ticker
    }
}

/// All modules of a folder, ready to be started on any thread.
#[derive(Debug, Default)]
pub struct Modules {
    pub(crate) modules: Vec<Arc<Module>>,
    content: ContentHash,
    compiled_count: usize,
}

impl Modules {
    /// Compiles every `*.wasm` that lies in `folder` itself, in the order of their names, but those whose bytes
    /// `before` has compiled.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn read(folder: &Path, before: &Self) -> Result<Self, LoadError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| LoadError::Read { path, source }
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
            let path = entry.map_err(unreadable(folder))?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) && path.is_file() {
                paths.push(path);
            }
        }
        paths.sort();
        if paths.len() > MODULES_MAX {
            let what = format!("more than {MODULES_MAX} modules");
            return Err(LoadError::Wrong { name: folder.display().to_string(), what });
        }
        let mut files = Vec::new();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::metadata(&path).map_err(unreadable(&path))?.len();
            if bytes > MODULE_BYTES_MAX {
                let what = format!("larger than {MODULE_BYTES_MAX} bytes");
                return Err(LoadError::Wrong { name, what });
            }
            let bytes = std::fs::read(&path).map_err(unreadable(&path))?;
            files.push((name, bytes));
        }
        Self::compile(files, before)
    }

    /// Compiles modules of these names and bytes, but those whose bytes `before` has compiled.
    ///
    /// # Errors
    /// [`LoadError::Wrong`], [`LoadError::Engine`].
    pub fn compile(files: Vec<(String, Vec<u8>)>, before: &Self) -> Result<Self, LoadError> {
        if files.is_empty() {
            return Ok(Self::default());
        }
        let (instances, ticker) = before.instances()?;
        let engine = instances.engine();
        let mut all = Self::default();
        for (file, bytes) in files {
            let wrong = |error: wasmtime::Error| LoadError::Wrong {
                name: file.clone(),
                what: format!("{error:#}"),
            };
            let hash = Sha256Hash::from(Sha256::digest(&bytes));
            let (prepared, image) = match before.modules.iter().find(|known| known.hash == hash) {
                Some(known) => (known.prepared.clone(), Arc::clone(&known.image)),
                None => {
                    all.compiled_count += 1;
                    let compiled = wasmtime::Module::new(engine, &bytes).map_err(wrong)?;
                    (prepare(engine, &compiled).map_err(wrong)?, Arc::default())
                }
            };
            all.content.add(&file, &bytes);
            let version = hex::encode(hash.get(..VERSION_BYTES).unwrap_or(&hash));
            all.modules.push(Arc::new(Module {
                title: format!("{file}@{version}"),
                file,
                ran_once: AtomicBool::new(false),
                hash,
                prepared,
                instances: instances.clone(),
                image,
                told_unshared: AtomicBool::new(false),
                ticker: Arc::clone(&ticker),
            }));
        }
        Ok(all)
    }

    /// What compiles the modules that come after these, and moves their epochs on: theirs, if there are any, because
    /// compiled code is its engine's.
    fn instances(&self) -> Result<(Instances, Arc<Ticker>), LoadError> {
        if let Some(module) = self.modules.first() {
            return Ok((module.instances.clone(), Arc::clone(&module.ticker)));
        }
        let broken = |error: &dyn std::fmt::Display| LoadError::Engine(format!("{error:#}"));
        let instances = Instances::new(&mut config()).map_err(|error| broken(&error))?;
        let ticker = Ticker::start(instances.engine().clone()).map_err(|error| broken(&error))?;
        Ok((instances, Arc::new(ticker)))
    }

    /// How many of them were compiled: the others are those of the modules before.
    #[must_use]
    pub fn compiled_count(&self) -> usize {
        self.compiled_count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Their files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(|module| module.file.as_str())
    }

    /// A hash of their files.
    #[must_use]
    pub fn content(&self) -> &ContentHash {
        &self.content
    }
}

/// What compilers for wasip1 use of WebAssembly, and nothing else.
fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.max_wasm_stack(STACK_BYTES_MAX);
    config.concurrency_support(false);
    config.wasm_backtrace_max_frames(std::num::NonZeroUsize::new(32));
    config.wasm_memory64(false);
    config.wasm_multi_memory(false);
    config.wasm_relaxed_simd(false);
    config
}

/// Binds what the module imports.
fn prepare(engine: &Engine, module: &wasmtime::Module) -> wasmtime::Result<InstancePre<State>> {
    let mut linker = Linker::new(engine);
    imports::bind(&mut linker)?;
    wasi::bind(&mut linker, module)?;
    linker.instantiate_pre(module)
}
