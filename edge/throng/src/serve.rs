//! `throng serve`: wires the engine, the handlers, the database and the scripts together.
//!
//! Data comes in as the checked configuration. Threads are numbered in this order: cores, rooms,
//! the lister, the batcher, the callers, the cores' companions if there are scripts for them, the hasher,
//! and the thread of events if scripts handle any;
//! [`server::mail::Topology`] tells every handler which is which.

mod gauges;
mod languages;
mod machine;
mod network;
mod sql;
mod watchdog;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use engine::{CompanionPlan, Engine, Running, Start, ThreadPlan};
use event::{Now, Random, ThreadId};
use game::db::Database as _;
use game::guest::{Finding, HostSettings, Registered};
use game::node::Nodes;
use game::session::{Revocations, stored};
use javascript::{Bundle, JsLimits, JsScripts};
use script::budget::VmMemory;
use script::{LuaLimits, LuaScripts, Sources, ThreadClock};
use server::core::Core;
use server::hooks::{self, Hooks};
use server::lister::Lister;
use server::mail::{Address, CoreMail, Mail, Topology, WorkerAddress};
use server::resources::{LoadingHost, Resources, ThreadContext};
use server::room::Room;
use server::settings::Settings;
use server::stats::WorkerStats;
use server::worker::Worker;
use store::{Store, StoreSettings};
use wasm::{Modules, WasmLimits, WasmScripts};

use crate::config::Config;
use crate::memory;
use crate::metrics::CustomMetrics;
use crate::signals::StopSignals;
use gauges::Gauges;
use languages::{Language, Languages};
use machine::ScriptMachine;
use network::Network;
use sql::SqlBudgets;

/// How often is looked whether the cores have ended.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// Lines about modules that the log gets at start.
const FINDINGS_LOGGED_MAX: usize = 20;

/// What every thread is built from.
struct Parts {
    topology: Arc<Topology>,
    settings: Arc<Settings>,
    host: Arc<HostSettings>,
    sources: Arc<Sources>,
    bundle: Arc<Bundle>,
    wasm: Arc<Modules>,
    limits: LuaLimits,
    store: Store,
    machine: ScriptMachine,
    sql: SqlBudgets,
    /// Requests of scripts to other servers, if there may be any.
    network: Option<Network>,
    /// What was revoked before this process began.
    revoked: Revocations,
}

impl Parts {
    /// What every handler is given, with its own counters.
    fn shared<T>(&self, stats: &Arc<T>) -> (Arc<Topology>, Arc<Settings>, Arc<T>) {
        (self.topology.clone(), self.settings.clone(), stats.clone())
    }

    /// A database connection and the modules, loaded, for one thread.
    fn context(&self, thread: ThreadId) -> anyhow::Result<ThreadContext> {
        let connect = |budget| {
            self.store.connect_with(budget).context("cannot open another database connection")
        };
        // The hasher runs the statements of matches.
        let is_hasher = self.topology.hasher.thread() == thread;
        let is_room = self.topology.rooms.iter().any(|room| room.thread() == thread);
        let is_companion = self.topology.companions.iter().any(|one| one.thread() == thread);
        let is_shared = is_room || is_hasher || is_companion;
        let running = if is_shared { self.sql.room } else { self.sql.caller };
        let slice_us = is_companion.then_some(self.settings.runtime.core_slice_us);
        let db = connect(self.sql.loading)?;
        let random = fresh_random()?;
        let host = self.host.clone();
        let clocks = (Box::new(unix_ms), Box::new(ThreadClock::default()));
        let me = (&self.topology.nodes, thread.0);
        let mut resources = Resources::new(me, Box::new(db), random, host, clocks.0, clocks.1);
        resources.machine = Box::new(self.machine.clone());
        resources.fetch = self.network.as_ref().map(|network| Box::new(network.door(thread)) as _);
        let mut host = LoadingHost::new(Now { mono_ns: 0, unix_ms: unix_ms() }, &mut resources);
        let mut languages: Vec<Language> = Vec::new();
        // Companions run what can give their thread back within a slice, which is Lua alone.
        if !self.wasm.is_empty() && !is_companion {
            let wasm = WasmScripts::load(self.wasm.clone(), wasm_limits(&self.limits), &mut host)
                .context("cannot start the modules in WebAssembly (`runtime.path`)")?;
            languages.push(("WebAssembly", Box::new(wasm)));
        }
        let limits = LuaLimits { slice_us, ..self.limits.clone() };
        let lua = LuaScripts::load(self.sources.clone(), limits, &mut host)
            .context("cannot load the modules (`runtime.path`)")?;
        languages.push(("Lua", Box::new(lua)));
        if self.bundle.file().is_some() && !is_companion {
            let limits = js_limits(&self.limits);
            let javascript = JsScripts::load(self.bundle.clone(), limits, &mut host)
                .context("cannot load the JavaScript (`runtime.js_entrypoint`)")?;
            languages.push(("JavaScript", Box::new(javascript)));
        }
        let scripts = Box::new(Languages::new(languages));
        // What modules have written and read while they loaded they may tell of later, by themselves.
        resources.db.sync();
        resources.db = Box::new(connect(running)?);
        Ok(ThreadContext { scripts, resources })
    }
}

/// The wall clock.
fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Runs the server until it is told to stop.
///
/// # Errors
/// Whatever keeps it from starting, in words for the operator.
pub fn run(mut config: Config) -> anyhow::Result<()> {
    let (listeners, bound) =
        listen(config.listen, config.engine.cores, ["socket.address", "socket.port"], "")?;
    let mut listeners: Vec<_> = listeners.into_iter().map(|listener| vec![listener]).collect();
    if let Some(address) = config.grpc {
        let settings = ["socket.address", "socket.grpc_port"];
        let (grpc, bound) = listen(address, config.engine.cores, settings, GRPC_CURE)?;
        listeners.iter_mut().zip(grpc).for_each(|(of_core, listener)| of_core.push(listener));
        config.grpc = Some(bound);
        config.socket.grpc_port = Some(bound.port());
    }
    let mut gauges = Gauges::new(&config.engine, custom_metrics(&config));
    let mut parts = parts(&config, &gauges.custom)?;
    gauges.store = parts.store.stats();
    gauges.sources = parts.sources.clone();
    if let Some(network) = &parts.network {
        gauges.fetch = network.stats();
    }
    gauges.bundle = parts.bundle.clone();
    gauges.wasm = parts.wasm.clone();
    gauges.memory = parts.limits.memory.clone();
    let contexts = contexts(&mut parts)?;
    let engine = threads(&config, &parts, (contexts, &gauges), listeners)?;
    // Not before the modules are loaded: until then a signal ends the process by itself.
    let stop = StopSignals::catch().context("cannot catch signals")?;
    let running = Arc::new(engine.start().context("cannot start the engine (`engine.driver`)")?);
    if let Some(network) = &parts.network {
        network.connect(&running, &parts.topology);
    }
    if config.world.is_some() {
        let (home, mail) = parts.topology.begin_zone(&mut fresh_random()?);
        let posted = running.post(home, mail);
        anyhow::ensure!(posted.is_ok(), "the zone does not begin: its room has ended");
    }
    let (core_stats, room_stats) = (gauges.cores.clone(), gauges.rooms.clone());
    let _metrics = gauges.serve(&config, &running)?;
    if let Some(grpc) = config.grpc {
        tracing::info!("gRPC on {grpc}");
    }
    tracing::info!(
        node = config.name,
        cores = config.engine.cores,
        rooms = config.engine.rooms,
        callers = config.engine.workers,
        data_dir = %config.data_dir.display(),
        "listening on http://{bound}"
    );
    let signal = stop.wait().context("cannot wait for a second signal")?;
    tracing::info!(
        signal = signal.name(),
        grace_s = config.shutdown_grace_s,
        "stopping: no new connections; a second signal ends at once"
    );
    if let Some(network) = &parts.network {
        network.stop();
    }
    let watched = watchdog::Watched {
        running: Arc::downgrade(&running),
        cores: core_stats,
        rooms: room_stats,
    };
    let grace = Duration::from_secs(u64::from(config.shutdown_grace_s));
    watchdog::start(grace, watched, crate::EXIT_HUNG).context("cannot watch over the end")?;
    finish(running, &parts.topology)
}

/// What else to do where gRPC cannot listen.
const GRPC_CURE: &str = "; gRPC wants it, one below `socket.port` unless `socket.grpc_port` says \
     otherwise: who needs no gRPC may switch it off with --socket.grpc false";

/// A listener for each core, and where they listen.
fn listen(
    address: SocketAddr,
    count: usize,
    settings: [&str; 2],
    more: &str,
) -> anyhow::Result<(Vec<TcpListener>, SocketAddr)> {
    let listeners = engine::listen(address, count).map_err(|error| {
        let why = cannot_listen(address, settings, &error);
        anyhow::anyhow!("{why}{more}")
    })?;
    let bound = match listeners.first() {
        Some(listener) => listener.local_addr().context("cannot read the listener's address")?,
        None => address,
    };
    Ok((listeners, bound))
}

/// Why there is no listener, and what to do about it.
fn cannot_listen(
    listen: SocketAddr,
    [address, port]: [&str; 2],
    error: &io::Error,
) -> anyhow::Error {
    let cure = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "; another program listens there (`ss -ltnp` names it): stop it, or choose another \
             port with --{port}"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "; ports below 1024 need a privilege (CAP_NET_BIND_SERVICE): choose a higher one with \
             --{port}"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("; this machine has no such address: --{address} 0.0.0.0 takes all that it has")
        }
        _ => String::new(),
    };
    anyhow::anyhow!("cannot listen on {listen} (`{address}`, `{port}`): {error}{cure}")
}

/// Loads everything that threads are built from; the first mistake stops the start.
fn parts(config: &Config, metrics: &Arc<CustomMetrics>) -> anyhow::Result<Parts> {
    let settings = Arc::new(config.settings());
    let sources = load_modules(config)?;
    let bundle = load_bundle(config)?;
    let wasm = load_wasm(config)?;
    for module in sources.names().chain(bundle.file()).chain(wasm.files()) {
        tracing::info!(module, "found");
    }
    let opening = StoreSettings { check: config.check, ..StoreSettings::default() };
    let store = Store::open_with(&config.data_dir, &opening).with_context(|| {
        format!("cannot open the database in {} (`data_dir`)", config.data_dir.display())
    })?;
    let now = Now { mono_ns: 0, unix_ms: unix_ms() };
    let mut db = store.connect()?;
    let revoked = stored::load(&mut db, now, settings.session.lifetime_s())
        .context("cannot read which tokens are revoked")?;
    db.sync();
    Ok(Parts {
        topology: Arc::new(topology(config, &sources)),
        host: Arc::new(host_settings(&settings)),
        settings,
        sources: Arc::new(sources),
        bundle: Arc::new(bundle),
        wasm: Arc::new(wasm),
        limits: lua_limits(config),
        store,
        machine: ScriptMachine::new(config, metrics.clone()),
        sql: SqlBudgets::new(config),
        network: Network::start(config)?,
        revoked,
    })
}

fn custom_metrics(config: &Config) -> Arc<CustomMetrics> {
    let metrics = &config.metrics;
    Arc::new(CustomMetrics::new(&metrics.custom_prefix, metrics.custom_series_max))
}

/// The threads that the settings ask for, all of which are bounded by far less than there are numbers.
fn topology(config: &Config, sources: &Sources) -> Topology {
    let engine = &config.engine;
    let count = |threads: usize| u16::try_from(threads).unwrap_or(u16::MAX / 4);
    let threads = (count(engine.cores), count(engine.rooms), count(engine.workers));
    let runs_on_cores = config.runtime.core_slice_us > 0;
    let nodes = Nodes::alone(&config.name);
    if runs_on_cores && sources.names().next().is_some() {
        Topology::with_companions(nodes, threads)
    } else {
        Topology::of_node(nodes, threads)
    }
}

fn host_settings(settings: &Settings) -> HostSettings {
    HostSettings {
        node: settings.node.clone(),
        env: settings.runtime.env.clone(),
        version: settings.version.clone(),
        log_lines_max: settings.runtime.log_lines_max,
        session: settings.session.clone(),
    }
}

fn load_modules(config: &Config) -> anyhow::Result<Sources> {
    let path = &config.runtime.path;
    if !path.is_dir() {
        if config.runtime.path_given {
            anyhow::bail!("{} (`runtime.path`) is not a folder", path.display());
        }
        tracing::info!(
            "no modules: there is no folder {}; Lua files put there are loaded at the next start",
            path.display()
        );
        return Ok(Sources::default());
    }
    Sources::new(config.runtime.insertion_order)
        .and_read(path)
        .with_context(|| format!("cannot load modules from {} (`runtime.path`)", path.display()))
}

fn load_bundle(config: &Config) -> anyhow::Result<Bundle> {
    let (path, entrypoint) = (&config.runtime.path, &config.runtime.js_entrypoint);
    Bundle::read(path, entrypoint).with_context(|| {
        format!("cannot load JavaScript from {} (`runtime.js_entrypoint`)", path.display())
    })
}

fn load_wasm(config: &Config) -> anyhow::Result<Modules> {
    let path = &config.runtime.path;
    if !path.is_dir() {
        return Ok(Modules::default());
    }
    Modules::read(path).with_context(|| {
        format!("cannot load modules in WebAssembly from {} (`runtime.path`)", path.display())
    })
}

/// What the modules' author should know, the certain failures first: what was found in them, hooks
/// that never run, and files that Nakama would run and this server does not.
fn findings(parts: &Parts, registered: &Registered) -> Vec<Finding> {
    const WHY: &str = "not run: Lua is, one file of JavaScript (`runtime.js_entrypoint`), and WebAssembly (*.wasm) \
         that lies in `runtime.path` itself";
    let (named, count) = parts.sources.others();
    let bundle = parts.bundle.file().map(Path::new);
    let is_bundle = |path: &&std::path::PathBuf| bundle.is_some_and(|file| path.ends_with(file));
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
    lines.extend(hooks::warnings(registered, parts.settings.shutdown_grace_s));
    let mut found = registered.findings.clone();
    found.extend(lines.into_iter().map(|text| Finding { is_certain: false, text }));
    certain_first(found)
}

fn certain_first(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by_key(|finding| !finding.is_certain);
    found
}

/// Logs what the modules' author should know; a large project must not bury the other lines.
fn warn(findings: &[Finding]) {
    for finding in findings.iter().take(FINDINGS_LOGGED_MAX) {
        tracing::warn!("{}", finding.text);
    }
    if let Some(more @ 1..) = findings.len().checked_sub(FINDINGS_LOGGED_MAX) {
        tracing::warn!("{more} more warnings about modules: `throng check` prints them all");
    }
}

fn lua_limits(config: &Config) -> LuaLimits {
    LuaLimits {
        call_budget_ms: config.runtime.call_budget_ms,
        memory_max_bytes: config.runtime.memory_bytes_max,
        callback_budget_ms: config.matches.callback_budget_ms,
        match_memory_max_bytes: config.matches.memory_bytes_max,
        load_budget_ms: config.runtime.load_budget_ms,
        stacktrace: config.runtime.stacktrace,
        slice_us: None,
        memory: Arc::new(VmMemory::new(match config.runtime.all_memory_bytes_max {
            0 => memory::of_machine_bytes() / 2,
            bytes => bytes,
        })),
    }
}

/// The same for WebAssembly.
fn wasm_limits(limits: &LuaLimits) -> WasmLimits {
    WasmLimits {
        call_budget_ms: limits.call_budget_ms,
        memory_max_bytes: limits.memory_max_bytes,
        callback_budget_ms: limits.callback_budget_ms,
        match_memory_max_bytes: limits.match_memory_max_bytes,
        load_budget_ms: limits.load_budget_ms,
        memory: Arc::clone(&limits.memory),
    }
}

/// The same for JavaScript.
fn js_limits(limits: &LuaLimits) -> JsLimits {
    JsLimits {
        call_budget_ms: limits.call_budget_ms,
        memory_max_bytes: limits.memory_max_bytes,
        callback_budget_ms: limits.callback_budget_ms,
        match_memory_max_bytes: limits.match_memory_max_bytes,
        load_budget_ms: limits.load_budget_ms,
        memory: Arc::clone(&limits.memory),
    }
}

/// What each thread with scripts works with, and which names have hooks. Only now is known whether there
/// are handlers of events, for which there is one thread more.
fn contexts(parts: &mut Parts) -> anyhow::Result<(Vec<ThreadContext>, Arc<Hooks>)> {
    let contexts: anyhow::Result<Vec<ThreadContext>> =
        parts.topology.scripted().map(|thread| parts.context(thread)).collect();
    // The error is one line of one module: what else stands in the text is better known now.
    let mut contexts = contexts.inspect_err(|_| warn(&certain_first(parts.sources.findings())))?;
    let hooks = hooks_of(&contexts, parts);
    if hooks.has_events() {
        let topology = parts.topology.with_events();
        contexts.extend(topology.events.map(|events| parts.context(events.thread())).transpose()?);
        parts.topology = Arc::new(topology);
    }
    Ok((contexts, Arc::new(hooks)))
}

fn threads(
    config: &Config,
    parts: &Parts,
    ((contexts, hooks), gauges): ((Vec<ThreadContext>, Arc<Hooks>), &Gauges),
    listeners: Vec<Vec<TcpListener>>,
) -> anyhow::Result<Engine<Mail>> {
    let mut contexts = contexts.into_iter();
    let mut context = || contexts.next().context("fewer threads with modules than planned");
    let mut engine = Engine::new(config.engine.driver.choice());
    let per_core = config.engine.connections_max.div_ceil(config.engine.cores);
    let Topology { cores, rooms, lister, .. } = &*parts.topology;
    let of_cores = cores.iter().zip(listeners).zip(&gauges.cores);
    for (index, ((me, of_core), stats)) in of_cores.enumerate() {
        let me = *me;
        let (topology, settings, stats) = parts.shared(stats);
        let random = fresh_random()?;
        let (hooks, revoked) = (hooks.clone(), parts.revoked.clone());
        let build = move |_: Start<Mail>| {
            Core::new(me, topology, settings, stats, random, hooks).with_revocations(revoked)
        };
        let mut plan = ThreadPlan::core(format!("core-{index}"), of_core, build);
        plan.pin = config.engine.pin.then_some(index);
        plan.mailbox_max = 65_536;
        plan.limits.stall_ms = config.write_timeout_ms;
        plan.limits.output_bytes_max = config.answers.http_unsent_bytes_max();
        plan.limits.output_total_max = config.answers.unsent_bytes_max;
        plan.limits.connections_max = u32::try_from(per_core).unwrap_or(u32::MAX);
        add(&mut engine, me, plan)?;
    }
    for (index, (me, stats)) in rooms.iter().zip(&gauges.rooms).enumerate() {
        let (topology, settings, stats) = parts.shared(stats);
        let (me, context) = (*me, context()?);
        let build = move |_: Start<Mail>| Room::new(me, topology, settings, stats, context);
        add(&mut engine, me, ThreadPlan::plain(format!("room-{index}"), build))?;
    }
    let (me, (topology, settings, stats)) = (*lister, parts.shared(&gauges.lister));
    let build = move |_: Start<Mail>| Lister::new(topology, settings, stats);
    add(&mut engine, me, ThreadPlan::plain("lister", build))?;
    let stats = gauges.workers.iter().chain([&gauges.events]);
    for (me, stats) in parts.topology.workers().zip(stats) {
        match parts.topology.core_of(me) {
            None => add(&mut engine, me.thread(), worker(parts, stats, context()?, me))?,
            Some(core) => add_companion(&mut engine, parts, (stats, context()?), (me, core))?,
        }
    }
    Ok(engine)
}

/// Adds the thread that others will post to under this number.
fn add(
    engine: &mut Engine<Mail>,
    thread: impl Into<ThreadId>,
    plan: ThreadPlan<Mail>,
) -> anyhow::Result<()> {
    let name = plan.name.clone();
    let (added, thread) = (engine.add(plan), thread.into());
    anyhow::ensure!(added == thread, "thread {} ({name}) was to be {}", added.0, thread.0);
    Ok(())
}

/// Adds the worker that shares a core's thread.
fn add_companion(
    engine: &mut Engine<Mail>,
    parts: &Parts,
    (stats, context): (&Arc<WorkerStats>, ThreadContext),
    (me, core): (WorkerAddress, Address<CoreMail>),
) -> anyhow::Result<()> {
    let (topology, settings, stats) = parts.shared(stats);
    let turn_us = settings.runtime.core_slice_us;
    let name = format!("companion-{}", core.thread().0);
    let build = move |_: Start<Mail>| Worker::new(me, topology, settings, stats, context);
    let added = engine.add_companion(core.thread(), CompanionPlan::new(name, turn_us, build));
    let thread = me.thread();
    anyhow::ensure!(added == thread, "companion {} was to be {}", added.0, thread.0);
    Ok(())
}

fn worker(
    parts: &Parts,
    stats: &Arc<WorkerStats>,
    context: ThreadContext,
    me: WorkerAddress,
) -> ThreadPlan<Mail> {
    let (topology, settings, stats) = parts.shared(stats);
    let name = match me {
        WorkerAddress::Batcher(_) => "batcher".to_owned(),
        WorkerAddress::Caller(caller) => {
            let index = topology.callers.iter().take_while(|other| **other != caller).count();
            format!("caller-{index}")
        }
        WorkerAddress::Hasher(_) => "hasher".to_owned(),
        WorkerAddress::Events(_) => "events".to_owned(),
    };
    let build = move |start: Start<Mail>| {
        Worker::new(me, topology, settings, stats, context).with_requester(start.requester)
    };
    ThreadPlan::plain(name, build)
}

/// Which names have hooks: the same on all threads. What is odd about the modules is told.
fn hooks_of(contexts: &[ThreadContext], parts: &Parts) -> Hooks {
    let Some(context) = contexts.first() else { return Hooks::default() };
    let registered = context.scripts.registered();
    warn(&findings(parts, registered));
    Hooks::new(registered)
}

/// Randomness from the operating system.
fn fresh_random() -> anyhow::Result<Random> {
    let mut seed = [0; 32];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .context("the system has no randomness")?;
    Ok(Random::from_seed(seed))
}

/// Cores first, so that what they still want of rooms and workers is done; then the rest.
fn finish(running: Arc<Running<Mail>>, topology: &Topology) -> anyhow::Result<()> {
    topology.cores.iter().for_each(|core| running.stop_thread(core.thread()));
    while !topology.cores.iter().all(|core| running.is_finished(core.thread())) {
        std::thread::sleep(STOP_LOOK);
    }
    running.stop();
    while !topology.everybody().all(|thread| running.is_finished(thread)) {
        std::thread::sleep(STOP_LOOK);
    }
    let Some(running) = Arc::into_inner(running) else { return Ok(()) };
    running.join().context("the server failed")?;
    tracing::info!("stopped");
    Ok(())
}

/// What a check finds in the modules.
pub struct Checked {
    /// What they register, a line each.
    pub lines: Vec<String>,
    /// What their author should know.
    pub findings: Vec<Finding>,
    /// The first module that fails while it loads; the findings are of the text alone then.
    pub failed: Option<anyhow::Error>,
}

/// Loads the modules as `run` would.
///
/// # Errors
/// A file that cannot be read or is no Lua, and whatever keeps a check from being made.
pub fn check_modules(config: &Config) -> anyhow::Result<Checked> {
    let path = &config.runtime.path;
    let settings = config.settings();
    let sources = load_modules(config)?;
    let parts = Parts {
        topology: Arc::new(topology(config, &sources)),
        host: Arc::new(host_settings(&settings)),
        settings: Arc::new(settings),
        sources: Arc::new(sources),
        bundle: Arc::new(load_bundle(config)?),
        wasm: Arc::new(load_wasm(config)?),
        limits: lua_limits(config),
        // A check changes nothing: what modules write while they load goes to a scratch database.
        store: Store::open_in_memory()?,
        machine: ScriptMachine::new(config, custom_metrics(config)),
        sql: SqlBudgets::new(config),
        network: None,
        revoked: Revocations::default(),
    };
    let (bundle, wasm) = (parts.bundle.file(), parts.wasm.files());
    let count = parts.sources.names().chain(bundle).chain(wasm).count();
    let mut lines = vec![format!("modules: {count} from {}", path.display())];
    let context = match parts.context(ThreadId(0)) {
        Ok(context) => context,
        Err(failed) => {
            let findings = certain_first(parts.sources.findings());
            return Ok(Checked { lines, findings, failed: Some(failed) });
        }
    };
    let registered = context.scripts.registered();
    lines.extend(registered.rpc.iter().map(|id| format!("  rpc {id}")));
    lines.extend(registered.before.iter().map(|id| format!("  before {id}")));
    lines.extend(registered.after.iter().map(|id| format!("  after {id}")));
    Ok(Checked { lines, findings: findings(&parts, registered), failed: None })
}
