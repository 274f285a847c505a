//! `throng serve`: wires the engine, the handlers, the database and the scripts together.
//!
//! Data comes in as the checked configuration. Threads are numbered in this order: cores, rooms,
//! the batcher, the callers; [`server::mail::Topology`] tells every handler which is which.

mod gauges;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use engine::{Engine, Running, Start, ThreadPlan};
use event::{Random, ThreadId};
use game::guest::HostSettings;
use script::{LuaLimits, LuaScripts, Sources};
use server::core::Core;
use server::mail::{Mail, Topology};
use server::room::{Kit, Room};
use server::settings::Settings;
use server::worker::Worker;
use store::Store;

use crate::config::Config;
use crate::signals::StopSignals;
use gauges::Gauges;

/// How often is looked whether the cores have ended.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// What every thread is built from.
#[derive(Clone)]
struct Parts {
    topology: Arc<Topology>,
    settings: Arc<Settings>,
    host: Arc<HostSettings>,
    sources: Arc<Sources>,
    limits: LuaLimits,
    store: Store,
}

/// Runs the server until it is told to stop.
///
/// # Errors
/// Whatever keeps it from starting, in words for the operator.
pub fn run(config: Config) -> anyhow::Result<()> {
    let stop = StopSignals::catch().context("cannot catch signals")?;
    let listeners = engine::listen(config.listen, config.engine.cores).with_context(|| {
        format!("cannot listen on {} (`socket.address`, `socket.port`)", config.listen)
    })?;
    let bound = match listeners.first() {
        Some(listener) => listener.local_addr().context("cannot read the listener's address")?,
        None => config.listen,
    };
    let parts = parts(&config)?;
    let gauges = Gauges::new(&config.engine);
    let engine = threads(&config, &parts, &gauges, listeners)?;
    let running = Arc::new(engine.start().context("cannot start the engine (`engine.driver`)")?);
    let _metrics = gauges.serve(&config, &running)?;
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
    finish(running, &parts.topology)
}

/// Loads everything that threads are built from; the first mistake stops the start.
fn parts(config: &Config) -> anyhow::Result<Parts> {
    let settings = Arc::new(config.settings());
    let sources = load_modules(config)?;
    for module in sources.modules() {
        tracing::info!(module, "loaded");
    }
    let store = Store::open(&config.data_dir).with_context(|| {
        format!("cannot open the database in {} (`data_dir`)", config.data_dir.display())
    })?;
    let ids = |from: usize, count: usize| -> Vec<ThreadId> {
        (from..from + count).filter_map(|id| u16::try_from(id).ok()).map(ThreadId).collect()
    };
    let (cores, rooms) = (config.engine.cores, config.engine.rooms);
    let topology = Topology {
        cores: ids(0, cores),
        rooms: ids(cores, rooms),
        batcher: ids(cores + rooms, 1)[0],
        callers: ids(cores + rooms + 1, config.engine.workers),
    };
    let host = HostSettings {
        node: settings.node.clone(),
        env: settings.runtime.env.clone(),
        version: settings.version.clone(),
        session: settings.session.clone(),
    };
    let limits = lua_limits(config);
    Ok(Parts {
        topology: Arc::new(topology),
        settings,
        host: Arc::new(host),
        sources: Arc::new(sources),
        limits,
        store,
    })
}

fn load_modules(config: &Config) -> anyhow::Result<Sources> {
    let path = &config.runtime.path;
    if !path.is_dir() && !config.runtime.path_given {
        return Ok(Sources::default());
    }
    Sources::read(path)
        .with_context(|| format!("cannot load modules from {} (`runtime.path`)", path.display()))
}

fn lua_limits(config: &Config) -> LuaLimits {
    LuaLimits {
        call_budget_ms: config.runtime.call_budget_ms,
        call_memory_bytes_max: config.runtime.memory_bytes_max,
        callback_budget_ms: config.matches.callback_budget_ms,
        match_memory_bytes_max: config.matches.memory_bytes_max,
    }
}

fn threads(
    config: &Config,
    parts: &Parts,
    gauges: &Gauges,
    listeners: Vec<std::net::TcpListener>,
) -> anyhow::Result<Engine<Mail>> {
    let mut engine = Engine::new(config.engine.driver.choice());
    let per_core = config.engine.connections_max.div_ceil(config.engine.cores);
    for (index, (listener, stats)) in listeners.into_iter().zip(&gauges.cores).enumerate() {
        let (parts, stats, random) = (parts.clone(), stats.clone(), fresh_random()?);
        let build = move |start: Start<Mail>| {
            Core::new(start.thread, parts.topology, parts.settings, stats, random)
        };
        let mut plan = ThreadPlan::core(format!("core-{index}"), vec![listener], build);
        plan.pin = config.engine.pin.then_some(index);
        plan.mailbox_max = 65_536;
        plan.limits.connections_max = u32::try_from(per_core).unwrap_or(u32::MAX);
        engine.add(plan);
    }
    for (index, stats) in gauges.rooms.iter().enumerate() {
        let (parts, stats) = (parts.clone(), stats.clone());
        let kit = kit_builder(&parts)?;
        let build = move |start: Start<Mail>| {
            Room::new(start.thread, parts.topology, parts.settings, stats, kit())
        };
        engine.add(ThreadPlan::plain(format!("room-{index}"), build));
    }
    for (index, stats) in gauges.workers.iter().enumerate() {
        let (parts, stats) = (parts.clone(), stats.clone());
        let kit = kit_builder(&parts)?;
        let build = move |start: Start<Mail>| {
            let ask = start.ask.unwrap_or_else(|| Box::new(server::worker::NoAsk));
            Worker::new(start.thread, parts.topology, parts.settings, stats, kit(), ask)
        };
        let name = if index == 0 { "batcher".to_owned() } else { format!("caller-{}", index - 1) };
        engine.add(ThreadPlan::plain(name, build));
    }
    Ok(engine)
}

/// Checks here, on the main thread, that a thread's connection and scripts can be made, and makes
/// them there: a Lua VM stays on the thread where it was born.
fn kit_builder(parts: &Parts) -> anyhow::Result<impl FnOnce() -> Kit + Send + 'static> {
    let random = fresh_random()?;
    let db = parts.store.connect().context("cannot open another database connection")?;
    let scripts = LuaScripts::new(parts.sources.clone(), parts.limits.clone(), parts.host.clone())
        .context("cannot load the modules (`runtime.path`)")?;
    let host = parts.host.clone();
    Ok(move || Kit { scripts: Box::new(scripts), db: Box::new(db), random, host })
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
    topology.cores.iter().for_each(|core| running.stop_thread(*core));
    while !topology.cores.iter().all(|core| running.is_finished(*core)) {
        std::thread::sleep(STOP_LOOK);
    }
    running.stop();
    let Some(running) = Arc::into_inner(running) else { return Ok(()) };
    running.join().context("the server failed")?;
    tracing::info!("stopped");
    Ok(())
}

/// Loads the modules as `run` would, and tells what they register, a line each.
///
/// # Errors
/// The first module that cannot be loaded.
pub fn check_modules(config: &Config) -> anyhow::Result<Vec<String>> {
    let path = &config.runtime.path;
    let sources = Arc::new(load_modules(config)?);
    let settings = config.settings();
    let host = HostSettings {
        node: settings.node.clone(),
        env: settings.runtime.env.clone(),
        version: settings.version.clone(),
        session: settings.session.clone(),
    };
    let scripts = LuaScripts::new(sources, lua_limits(config), Arc::new(host))?;
    let registered = game::guest::Scripts::registered(&scripts);
    let mut lines = vec![format!("modules: {} from {}", registered.modules.len(), path.display())];
    lines.extend(registered.rpc.iter().map(|id| format!("  rpc {id}")));
    lines.extend(registered.before.iter().map(|id| format!("  before {id}")));
    lines.extend(registered.after.iter().map(|id| format!("  after {id}")));
    Ok(lines)
}
