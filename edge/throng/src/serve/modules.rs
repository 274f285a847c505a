//! The modules: read and compiled once for each version ([`Code`]), and run once for each thread with
//! scripts ([`Maker`]).
//!
//! Data comes in as the folder `runtime.path`; out go instances, and what the modules' author should know.
//! Not here: when a version is loaded (`serve` at start, `reload` later), and which threads there are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use event::{Now, ThreadId};
use game::guest::{Finding, GuestVersion, HostSettings, Registered, Scripts};
use javascript::{Bundle, JsScripts};
use script::budget::{GuestLimits, VmMemory};
use script::{ContentHash, LuaLimits, LuaScripts, Renewal, Sources, ThreadClock};
use server::hooks;
use server::loader::Edition;
use server::mail::Topology;
use server::resources::{LoadingHost, Resources};
use server::settings::Settings;
use store::Store;
use wasm::{Modules, WasmLimits, WasmScripts};

use super::languages::{Language, Languages};
use super::machine::ScriptMachine;
use super::sql::SqlBudgets;
use super::{fresh_random, unix_ms};
use crate::config::{Config, RuntimeConfig};
use crate::memory;

/// Lines about modules that the log gets when they are loaded.
const FINDINGS_LOGGED_MAX: usize = 20;

/// One version of the modules, compiled. What was compiled is shared by its copies.
#[derive(Clone)]
pub(super) struct Code {
    /// Its number, and a hash of its files.
    pub(super) edition: Edition,
    sources: Arc<Sources>,
    bundle: Arc<Bundle>,
    wasm: Arc<Modules>,
}

impl Code {
    /// Reads and compiles the folder; of WebAssembly, what is not in the version before.
    ///
    /// # Errors
    /// In words for the operator.
    pub(super) fn read(
        config: &RuntimeConfig,
        version: GuestVersion,
        before: Option<&Self>,
    ) -> anyhow::Result<Self> {
        let code = Self::compile(config, version, before);
        // A compiler uses tens of megabytes, of which nobody but this thread would ever have anything again.
        allocator::trim();
        code
    }

    fn compile(
        config: &RuntimeConfig,
        version: GuestVersion,
        before: Option<&Self>,
    ) -> anyhow::Result<Self> {
        let path = &config.path;
        let sources = load_lua(config)?;
        let bundle = Bundle::read(path, &config.js_entrypoint).with_context(|| {
            format!("cannot load JavaScript from {} (`runtime.js_entrypoint`)", path.display())
        })?;
        let wasm = if path.is_dir() {
            let before = before.map(|code| Arc::clone(&code.wasm)).unwrap_or_default();
            Modules::read(path, &before).with_context(|| {
                format!(
                    "cannot load modules in WebAssembly from {} (`runtime.path`)",
                    path.display()
                )
            })?
        } else {
            Modules::default()
        };
        let mut all = ContentHash::default();
        [sources.content(), &bundle.content(), wasm.content()].iter().for_each(|it| all.join(it));
        let edition = Edition { version, hash: all.short() };
        let (sources, bundle, wasm) = (Arc::new(sources), Arc::new(bundle), Arc::new(wasm));
        Ok(Self { edition, sources, bundle, wasm })
    }

    /// Says how much of the WebAssembly had to be compiled.
    pub(super) fn log_compiled(&self) {
        let (compiled, all) = (self.wasm.compiled_count(), self.wasm.files().count());
        if all > 0 {
            let version = self.edition.version.0;
            tracing::info!(version, "{compiled} of {all} modules in WebAssembly were compiled");
        }
    }

    /// The modules that were found.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.sources.names().chain(self.bundle.file()).chain(self.wasm.files())
    }

    /// What their text alone says to their author: for modules that do not load.
    pub(super) fn findings_of_text(&self) -> Vec<Finding> {
        certain_first(self.sources.findings())
    }

    /// What the modules' author should know, the certain failures first: what was found in them, hooks
    /// that never run, and files that Nakama would run and this server does not.
    pub(super) fn findings(&self, registered: &Registered, maker: &Maker) -> Vec<Finding> {
        const WHY: &str = "not run: Lua is, one file of JavaScript (`runtime.js_entrypoint`), and WebAssembly \
             (*.wasm) that lies in `runtime.path` itself";
        let (named, count) = self.sources.others();
        let bundle = self.bundle.file().map(Path::new);
        let is_bundle = |path: &&PathBuf| bundle.is_some_and(|file| path.ends_with(file));
        let why = |path: &Path| {
            let is_luau = path.extension().is_some_and(|ending| ending == "luau");
            if is_luau { "not run: name it .lua" } else { WHY }
        };
        let mut lines: Vec<String> = named
            .iter()
            .filter(|path| !is_bundle(path))
            .map(|path| format!("{} is {}", path.display(), why(path)))
            .collect();
        if count > named.len() {
            lines.push(format!("{} more files are {WHY}", count - named.len()));
        }
        let Settings { shutdown_grace_s, world, .. } = &*maker.settings;
        lines.extend(hooks::warnings(registered, (*shutdown_grace_s, world.is_some())));
        let asks = self.sources.calls_of("http_request");
        if let (false, Some(first)) = (maker.is_fetch_enabled, asks.first()) {
            let more = match asks.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            lines.push(format!(
                "{first}: nk.http_request is an error as long as `fetch.enabled` is false; whom it may ask then \
                 is said by `fetch.allow` and `fetch.networks`{more}"
            ));
        }
        let mut found = registered.findings.clone();
        found.extend(lines.into_iter().map(|text| Finding { is_certain: false, text }));
        certain_first(found)
    }
}

/// What instances are made from, whatever the version. Shared by the start and the loader.
pub(super) struct Maker {
    pub(super) topology: Arc<Topology>,
    pub(super) settings: Arc<Settings>,
    pub(super) host: Arc<HostSettings>,
    /// `fetch.enabled`.
    pub(super) is_fetch_enabled: bool,
    /// What calls may use; with the memory of the VMs of all versions.
    pub(super) limits: GuestLimits,
    /// `runtime.lua_api_stacktrace`.
    pub(super) stacktrace: bool,
    pub(super) store: Store,
    pub(super) machine: ScriptMachine,
    pub(super) sql: SqlBudgets,
}

impl Maker {
    /// The modules, run for one thread, and what they had to work with: with a database connection that
    /// has the budget of modules that load.
    ///
    /// # Errors
    /// In words for the operator.
    pub(super) fn instance(
        &self,
        code: &Code,
        thread: ThreadId,
    ) -> anyhow::Result<(Box<dyn Scripts + Send>, Resources)> {
        let is_companion = self.topology.companions.iter().any(|one| one.thread() == thread);
        let slice_us = is_companion.then_some(self.settings.runtime.core_slice_us);
        // There sockets or a transaction would wait for modules that load, and here other calls.
        let is_renewed_elsewhere = is_companion || self.topology.batcher.thread() == thread;
        let is_caller = self.topology.callers.iter().any(|one| one.thread() == thread);
        let renewal = match (is_renewed_elsewhere, is_caller) {
            (true, _) => Renewal::ElsewhereAtOnce,
            (_, true) => Renewal::Elsewhere,
            _ => Renewal::Here,
        };
        let db = self.store.connect_with(self.sql.loading).context(NO_CONNECTION)?;
        let random = fresh_random()?;
        let host = self.host.clone();
        let clocks = (Box::new(unix_ms), Box::new(ThreadClock::default()));
        let me = (&self.topology.nodes, thread.0);
        let mut resources = Resources::new(me, Box::new(db), random, host, clocks.0, clocks.1);
        resources.machine = Box::new(self.machine.clone());
        resources.guest_version = code.edition.version;
        let mut host = LoadingHost::new(Now { mono_ns: 0, unix_ms: unix_ms() }, &mut resources);
        let mut languages: Vec<Language> = Vec::new();
        if !code.wasm.is_empty() {
            let limits = WasmLimits { guest: self.limits.clone(), slice_us, is_renewed_elsewhere };
            let wasm = WasmScripts::load(code.wasm.clone(), limits, &mut host)
                .context("cannot start the modules in WebAssembly (`runtime.path`)")?;
            languages.push(("WebAssembly", Box::new(wasm)));
        }
        let (guest, stacktrace) = (self.limits.clone(), self.stacktrace);
        let limits = LuaLimits { guest, stacktrace, slice_us, renewal };
        let lua = LuaScripts::load(code.sources.clone(), limits, &mut host)
            .context("cannot load the modules (`runtime.path`)")?;
        languages.push(("Lua", Box::new(lua)));
        // Companions run what can give their thread back within a slice, which JavaScript cannot.
        if code.bundle.file().is_some() && !is_companion {
            let limits = self.limits.clone();
            let javascript = JsScripts::load(code.bundle.clone(), limits, &mut host)
                .context("cannot load the JavaScript (`runtime.js_entrypoint`)")?;
            languages.push(("JavaScript", Box::new(javascript)));
        }
        // What modules have written and read while they loaded they may tell of later, by themselves.
        resources.db.sync();
        Ok((Box::new(Languages::new(languages)), resources))
    }
}

/// Why a thread has no database.
pub(super) const NO_CONNECTION: &str = "cannot open another database connection";

fn load_lua(config: &RuntimeConfig) -> anyhow::Result<Sources> {
    let path = &config.path;
    if !path.is_dir() {
        if config.path_given {
            anyhow::bail!("{} (`runtime.path`) is not a folder", path.display());
        }
        tracing::info!(
            "no modules: there is no folder {}; what is put there is loaded at the next start, or at SIGHUP",
            path.display()
        );
        return Ok(Sources::default());
    }
    Sources::new(config.insertion_order)
        .and_read(path)
        .with_context(|| format!("cannot load modules from {} (`runtime.path`)", path.display()))
}

fn certain_first(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by_key(|finding| !finding.is_certain);
    found
}

/// Logs what the modules' author should know; a large project must not bury the other lines.
pub(super) fn warn(findings: &[Finding]) {
    for finding in findings.iter().take(FINDINGS_LOGGED_MAX) {
        tracing::warn!("{}", finding.text);
    }
    if let Some(more @ 1..) = findings.len().checked_sub(FINDINGS_LOGGED_MAX) {
        tracing::warn!("{more} more warnings about modules: `throng check` prints them all");
    }
}

/// What guest code may use, in each of the languages.
pub(super) fn guest_limits(config: &Config) -> GuestLimits {
    GuestLimits {
        call_budget_ms: config.runtime.call_budget_ms,
        memory_max_bytes: config.runtime.memory_bytes_max,
        callback_budget_ms: config.matches.callback_budget_ms,
        match_memory_max_bytes: config.matches.memory_bytes_max,
        load_budget_ms: config.runtime.load_budget_ms,
        memory: Arc::new(VmMemory::new(match config.runtime.all_memory_bytes_max {
            0 => memory::of_machine_bytes() / 2,
            bytes => bytes,
        })),
    }
}
