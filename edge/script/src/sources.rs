//! The modules of a folder: read and compiled once, then shared by all threads and matches. A
//! module's name is its path without `.lua` and with dots for slashes.
//!
//! Nothing is run here, and nothing is read again later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use game::guest::Finding;
use mlua::chunk::Compiler;
use thiserror::Error;

use crate::budget;
use crate::content::ContentHash;
use crate::dialect::{self, CallNames, Functions, Trouble, Work};
use crate::library::Mentions;
use crate::lint;

/// Modules of one folder.
const MODULES_MAX: usize = 4_096;

/// Bytes of one module's text.
const MODULE_BYTES_MAX: u64 = 4 << 20;

/// What Luau's compiler, which cannot be interrupted, takes for a byte, about.
const COMPILER_NS_PER_BYTE: usize = 100;

/// How deeply folders may be nested; also ends a circle of symbolic links.
const FOLDER_DEPTH_MAX: usize = 16;

/// Why the modules cannot be loaded; the server does not start.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not Lua.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// Path below the modules folder.
        file: String,
        /// Line from 1; 0 if unknown.
        line: u32,
        /// The compiler's text.
        message: String,
    },
    /// A module failed when it was run at start.
    #[error("{location}: {message}")]
    Run {
        /// `file:line`, or the module's file.
        location: String,
        /// The error's text.
        message: String,
    },
    /// Two files have one module name.
    #[error("{first} and {second} are both module {name}")]
    Twice {
        /// The module's name.
        name: String,
        /// One file.
        first: String,
        /// The other.
        second: String,
    },
    /// A limit.
    #[error("{path}: {what} is above {max}")]
    TooLarge {
        /// File or folder.
        path: PathBuf,
        /// What was counted.
        what: &'static str,
        /// The limit.
        max: u64,
    },
    /// The Lua VM itself could not be set up.
    #[error("cannot set up Lua: {0}")]
    Lua(#[from] mlua::Error),
}

/// One compiled module.
#[derive(Debug)]
pub(crate) struct Module {
    /// Path below the folder, as errors show it.
    pub(crate) file: String,
    /// Luau bytecode.
    pub(crate) code: Vec<u8>,
    /// What its lines call, for errors.
    pub(crate) calls: CallNames,
    /// What its functions read of their parameters.
    pub(crate) functions: Functions,
    /// What its text says of the libraries.
    pub(crate) mentions: Mentions,
    /// What its text says, for warnings.
    pub(crate) facts: lint::ModuleFacts,
}

/// All modules, ready to be run by any number of VMs on any thread.
#[derive(Debug, Default)]
pub struct Sources {
    pub(crate) modules: BTreeMap<String, Module>,
    /// Whether tables remember the order of their keys (`runtime.lua_insertion_order`).
    pub(crate) ordered: bool,
    /// Whether some VM has taken on `run_once`.
    pub(crate) ran_once: AtomicBool,
    content: ContentHash,
    /// Files in the folder that Nakama would run as modules and that are not run here: the
    /// first [`OTHERS_NAMED_MAX`] of so many.
    others: (Vec<PathBuf>, usize),
}

/// Files in other languages that are told by name: whoever keeps their packages in the folder has
/// thousands.
const OTHERS_NAMED_MAX: usize = 8;
/// Endings of Nakama's other modules, JavaScript and Go plugins, and the one that other programs give
/// to Luau.
const OTHER_LANGUAGES: [&str; 3] = ["js", "so", "luau"];

/// How modules and our own Lua code are compiled: optimised, with line numbers and names.
pub(crate) fn compiler() -> Compiler {
    Compiler::new().set_optimization_level(1).set_debug_level(1)
}

impl Sources {
    /// Reads and compiles every `.lua` file below `folder`. A folder that does not exist has none.
    ///
    /// # Errors
    /// [`LoadError`], never its variant `Run`.
    pub fn read(folder: &Path) -> Result<Self, LoadError> {
        Self::default().and_read(folder)
    }

    /// No modules yet; those that [`Sources::and_read`] adds are translated so that `pairs` follows
    /// the order in which keys were first set, if `ordered`.
    #[must_use]
    pub fn new(ordered: bool) -> Self {
        Self { ordered, ..Self::default() }
    }

    /// As [`Sources::read`], with the choice made in [`Sources::new`].
    ///
    /// # Errors
    /// As [`Sources::read`].
    pub fn and_read(self, folder: &Path) -> Result<Self, LoadError> {
        let mut files = Vec::new();
        let mut sources = self;
        if folder.exists() {
            walk(folder, FOLDER_DEPTH_MAX, &mut files, &mut sources.others)?;
        }
        for path in files {
            let text = read_file(&path)?;
            let below = path.strip_prefix(folder).unwrap_or(&path);
            sources.add(&below.to_string_lossy().replace('\\', "/"), &text)?;
        }
        Ok(sources)
    }

    /// Compiles modules given as (path below the folder, text), say in a test.
    ///
    /// # Errors
    /// [`LoadError::Syntax`], [`LoadError::Twice`].
    pub fn from_texts<'a>(
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, LoadError> {
        Self::default().and_texts(texts)
    }

    /// As [`Sources::from_texts`], with the choice made in [`Sources::new`].
    ///
    /// # Errors
    /// As [`Sources::from_texts`].
    pub fn and_texts<'a>(
        self,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, LoadError> {
        let mut sources = self;
        for (file, text) in texts {
            sources.add(file, text.as_bytes())?;
        }
        Ok(sources)
    }

    /// The modules' names, sorted: the order in which they are run.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    /// Files in the folder that Nakama would run, in languages that are not run here yet:
    /// the first few, and how many there are.
    #[must_use]
    pub fn others(&self) -> (&[PathBuf], usize) {
        (&self.others.0, self.others.1)
    }

    /// A hash of their files.
    #[must_use]
    pub fn content(&self) -> &ContentHash {
        &self.content
    }

    /// What their text alone says to their author: for modules that do not load, because
    /// `Registered` has more of those that do.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        lint::findings(&self.facts(), None)
    }

    /// Where modules call a function of `nk`, `file:line`, in the order of the files.
    #[must_use]
    pub fn calls_of(&self, function: &str) -> Vec<String> {
        let facts = self.facts();
        facts.iter().flat_map(|(_, file, facts)| facts.calls_of(file, function)).collect()
    }

    /// Name, file and facts of every module, sorted by name.
    pub(crate) fn facts(&self) -> Vec<(&str, &str, &lint::ModuleFacts)> {
        let modules = self.modules.iter();
        modules.map(|(name, it)| (name.as_str(), it.file.as_str(), &it.facts)).collect()
    }

    /// The module of a file.
    pub(crate) fn module_of(&self, file: &str) -> Option<&Module> {
        self.modules.get(&name_of(file)).filter(|module| module.file == file)
    }

    fn add(&mut self, file: &str, text: &[u8]) -> Result<(), LoadError> {
        self.content.add(file, text);
        let name = name_of(file);
        let compiled = compile_text(text, self.ordered, Work::unbounded());
        let Compiled { code, calls, functions } = compiled.map_err(|trouble| match trouble {
            Trouble::Syntax(dialect::SyntaxError { line, message }) => {
                LoadError::Syntax { file: file.to_owned(), line, message }
            }
            Trouble::TooLong(max) => {
                let (path, what) = (PathBuf::from(file), "size in Luau");
                LoadError::TooLarge { path, what, max: max as u64 }
            }
            Trouble::Budget(error) => LoadError::Lua(error),
        })?;
        let (mentions, facts) = (Mentions::of(text), lint::read(text));
        let file_name = file.to_owned();
        let module = Module { file: file_name, code, calls, functions, mentions, facts };
        match self.modules.insert(name.clone(), module) {
            None => Ok(()),
            Some(first) => {
                Err(LoadError::Twice { name, first: first.file, second: file.to_owned() })
            }
        }
    }
}

/// The name of a file's module.
fn name_of(file: &str) -> String {
    file.strip_suffix(".lua").unwrap_or(file).replace('/', ".")
}

/// A script's text for Luau, and what is known of it.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// Luau bytecode.
    pub(crate) code: Vec<u8>,
    calls: CallNames,
    functions: Functions,
}

/// Compiles a script's text. One that is no Lua 5.1 may still be Luau: it runs as it is then.
///
/// # Errors
/// Line and reason, as Lua 5.1 sees it; or the text grows above what `work` allows, or the running
/// call's time is over.
pub(crate) fn compile_text(
    text: &[u8],
    ordered: bool,
    mut work: Work,
) -> Result<Compiled, Trouble> {
    // As instructions these would not be the ones that know of the order.
    let ours: &[&str] =
        if ordered { &["getmetatable", "next", "pairs", "setmetatable"] } else { &[] };
    let compiler = compiler().set_mutable_globals(ours.iter().copied());
    let pay = |text: &[u8]| {
        let cost_ns = text.len().saturating_mul(COMPILER_NS_PER_BYTE);
        budget::spend(u32::try_from(cost_ns).unwrap_or(u32::MAX)).map_err(Trouble::Budget)
    };
    match dialect::translate(text, ordered, &mut work) {
        Ok(translated) => {
            pay(&translated.text)?;
            let code = compiler.compile(&translated.text).map_err(|error| syntax(&error))?;
            Ok(Compiled { code, calls: translated.calls, functions: translated.functions })
        }
        Err(Trouble::Syntax(error)) => {
            pay(text)?;
            let code = compiler.compile(text).map_err(|_| error)?;
            Ok(Compiled { code, ..Compiled::default() })
        }
        Err(trouble) => Err(trouble),
    }
}

/// The compiler says `syntax error: :12: text`.
fn syntax(error: &mlua::Error) -> dialect::SyntaxError {
    let text = match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let place = text.trim_start_matches("syntax error: ").trim_start_matches(':').split_once(": ");
    let (line, message) = match place {
        Some((line, rest)) => line.parse().map_or((0, text.as_str()), |line| (line, rest)),
        None => (0, text.as_str()),
    };
    dialect::SyntaxError { line, message: message.to_owned() }
}

fn walk(
    folder: &Path,
    depth_left: usize,
    files: &mut Vec<PathBuf>,
    others: &mut (Vec<PathBuf>, usize),
) -> Result<(), LoadError> {
    let unreadable = |source| LoadError::Read { path: folder.to_owned(), source };
    let too_large = |what, max| LoadError::TooLarge { path: folder.to_owned(), what, max };
    let mut entries = std::fs::read_dir(folder)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            let depth_left = depth_left.checked_sub(1);
            let depth_left =
                depth_left.ok_or_else(|| too_large("nesting", FOLDER_DEPTH_MAX as u64))?;
            walk(&path, depth_left, files, others)?;
            continue;
        }
        let ends_with = |wanted: &str| path.extension().is_some_and(|it| it == wanted);
        if ends_with("lua") {
            if files.len() >= MODULES_MAX {
                return Err(too_large("number of modules", MODULES_MAX as u64));
            }
            files.push(path);
        } else if OTHER_LANGUAGES.iter().any(|language| ends_with(language)) {
            let (named, count) = others;
            *count += 1;
            if named.len() < OTHERS_NAMED_MAX {
                named.push(path);
            }
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Vec<u8>, LoadError> {
    let unreadable = |source| LoadError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > MODULE_BYTES_MAX {
        let what = "size in bytes";
        return Err(LoadError::TooLarge { path: path.to_owned(), what, max: MODULE_BYTES_MAX });
    }
    std::fs::read(path).map_err(unreadable)
}
