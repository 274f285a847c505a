//! `throng serve`: wires the engine, the handlers, the database and the scripts together.
//!
//! Data comes in as the checked configuration. Threads are numbered in this order: cores, rooms,
//! the lister, the batcher, the callers, the cores' companions and the thread of events if there is a folder
//! of modules, with the hasher between them, and the loader;
//! [`server::mail::Topology`] tells every handler which is which.

mod datagrams;
mod gauges;
mod languages;
mod machine;
mod modules;
mod network;
mod reload;
mod sql;
mod watchdog;
mod zone;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use engine::{CompanionPlan, Engine, Running, Start, ThreadPlan};
use event::{Now, Random, ThreadId};
use game::db::Database as _;
use game::guest::{Finding, GuestVersion, HostSettings};
use game::node::Nodes;
use game::session::{Revocations, stored};
use server::core::Core;
use server::hooks::Hooks;
use server::lister::Lister;
use server::loader::Loader;
use server::mail::{Address, CoreMail, LoaderMail, Mail, Topology, WorkerAddress};
use server::resources::ThreadContext;
use server::room::Room;
use server::settings::Settings;
use server::stats::WorkerStats;
use server::worker::Worker;
use store::{Store, StoreSettings};

use crate::config::Config;
use crate::metrics::CustomMetrics;
use crate::signals::StopSignals;
use gauges::Gauges;
use machine::ScriptMachine;
use modules::{Code, Maker, NO_CONNECTION};
use network::Network;
use reload::Folder;
use sql::SqlBudgets;

/// How often is looked whether the cores have ended.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// What every thread is built from.
struct Parts {
    maker: Arc<Maker>,
    /// The modules that the server starts with.
    code: Code,
    /// Requests of scripts to other servers, if there may be any.
    network: Option<Network>,
    /// What was revoked before this process began.
    revoked: Revocations,
    /// What the zone goes on with, if one was saved.
    saved_zone: Option<world::Saved>,
}

impl Parts {
    fn topology(&self) -> &Arc<Topology> {
        &self.maker.topology
    }

    /// What every handler is given, with its own counters.
    fn shared<T>(&self, stats: &Arc<T>) -> (Arc<Topology>, Arc<Settings>, Arc<T>) {
        (self.maker.topology.clone(), self.maker.settings.clone(), stats.clone())
    }

    /// A database connection and the modules, loaded, for one thread.
    fn context(&self, thread: ThreadId) -> anyhow::Result<ThreadContext> {
        let Maker { topology, store, sql, .. } = &*self.maker;
        // The hasher runs the statements of matches.
        let is_hasher = topology.hasher.thread() == thread;
        let is_room = topology.rooms.iter().any(|room| room.thread() == thread);
        let is_companion = topology.companions.iter().any(|one| one.thread() == thread);
        let running = if is_room || is_hasher || is_companion { sql.room } else { sql.caller };
        let (scripts, mut resources) = self.maker.instance(&self.code, thread)?;
        resources.db = Box::new(store.connect_with(running).context(NO_CONNECTION)?);
        resources.fetch = self.network.as_ref().map(|network| Box::new(network.door(thread)) as _);
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
    let sockets = datagrams::bind(&mut config)?;
    let mut gauges = Gauges::new(&config.engine, custom_metrics(&config));
    let parts = parts(&config, &gauges.custom)?;
    gauges.store = parts.maker.store.stats();
    gauges.memory = parts.maker.limits.memory.clone();
    if let Some(network) = &parts.network {
        gauges.fetch = network.stats();
    }
    let contexts = contexts(&parts)?;
    let engine = threads(&config, &parts, (contexts, &gauges), (listeners, sockets))?;
    let Parts { maker, code, network, saved_zone, .. } = parts;
    let topology = &maker.topology;
    // Threads hold what they run, and the loader what serves; once that is another version nothing of this
    // one is to stay.
    drop(code);
    let running = Arc::new(engine.start().context("cannot start the engine (`engine.driver`)")?);
    if let Some(network) = &network {
        network.connect(&running, topology);
    }
    if config.runtime.watch {
        tell_loader(&running, topology, LoaderMail::Watch);
    }
    if config.world.is_some() {
        let (home, mail) = topology.begin_zone(&mut fresh_random()?, saved_zone);
        let posted = running.post(home, mail);
        anyhow::ensure!(posted.is_ok(), "the zone does not begin: its room has ended");
    }
    let (core_stats, room_stats) = (gauges.cores.clone(), gauges.rooms.clone());
    let _metrics = gauges.serve(&config, &running)?;
    if config.world.is_some() {
        zone::wait_until_it_stands(&room_stats)?;
    }
    // Not before modules are loaded and the zone stands: until then a signal ends the process by itself.
    let stop = StopSignals::catch_with_reload().context("cannot catch signals")?;
    if let Some(grpc) = config.grpc {
        tracing::info!("gRPC on {grpc}");
    }
    tracing::info!(
        node = config.name,
        cores = config.engine.cores,
        rooms = config.engine.rooms,
        workers = config.engine.workers,
        data_dir = %config.data_dir.display(),
        "listening on http://{bound}"
    );
    let reload = || tell_loader(&running, topology, LoaderMail::Signal);
    let signal = stop.wait_and(reload).context("cannot wait for a second signal")?;
    tracing::info!(
        signal = signal.name(),
        grace_s = config.shutdown_grace_s,
        "stopping: no new connections; a second signal ends at once"
    );
    if let Some(network) = &network {
        network.stop();
    }
    let watched = watchdog::Watched {
        running: Arc::downgrade(&running),
        cores: core_stats,
        rooms: room_stats,
    };
    let grace = Duration::from_secs(u64::from(config.shutdown_grace_s));
    watchdog::start(grace, watched, crate::EXIT_HUNG).context("cannot watch over the end")?;
    finish(running, topology)
}

/// Tells the thread that loads modules what comes from outside of the engine.
fn tell_loader(running: &Running<Mail>, topology: &Topology, mail: LoaderMail) {
    let Some(loader) = topology.loader else { return };
    let (to, mail) = loader.seal(topology, mail);
    if let Err(mail) = running.post(to, mail) {
        tracing::warn!("the loader has too much to do: a {} is lost", mail.kind());
    }
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
    let code = Code::read(&config.runtime, GuestVersion::FIRST, None)?;
    for module in code.files() {
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
    let saved_zone = match &config.world {
        Some(world) => zone::saved(&mut db, world, config)?,
        None => None,
    };
    db.sync();
    let maker = Maker {
        topology: Arc::new(topology(config)),
        host: Arc::new(host_settings(&settings)),
        settings,
        is_fetch_enabled: config.fetch.enabled,
        limits: modules::guest_limits(config),
        stacktrace: config.runtime.stacktrace,
        store,
        machine: ScriptMachine::new(config, metrics.clone()),
        sql: SqlBudgets::new(config),
    };
    Ok(Parts {
        maker: Arc::new(maker),
        code,
        network: Network::start(config)?,
        revoked,
        saved_zone,
    })
}

fn custom_metrics(config: &Config) -> Arc<CustomMetrics> {
    let metrics = &config.metrics;
    Arc::new(CustomMetrics::new(&metrics.custom_prefix, metrics.custom_series_max))
}

/// The threads that the settings ask for, all of which are bounded by far less than there are numbers.
/// Where there is a folder of modules there are threads for all that a later version of them may want.
fn topology(config: &Config) -> Topology {
    let engine = &config.engine;
    let count = |threads: usize| u16::try_from(threads).unwrap_or(u16::MAX / 4);
    let threads = (count(engine.cores), count(engine.rooms), count(engine.workers));
    let has_modules = config.runtime.path.is_dir();
    let nodes = Nodes::alone(&config.name);
    let topology = if config.runtime.core_slice_us > 0 && has_modules {
        Topology::with_companions(nodes, threads)
    } else {
        Topology::of_node(nodes, threads)
    };
    let topology = if has_modules { topology.with_events() } else { topology };
    topology.with_loader()
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

/// What each thread with scripts works with, and which names have hooks.
fn contexts(parts: &Parts) -> anyhow::Result<(Vec<ThreadContext>, Arc<Hooks>)> {
    let contexts: anyhow::Result<Vec<ThreadContext>> =
        parts.topology().scripted().map(|thread| parts.context(thread)).collect();
    // The error is one line of one module: what else stands in the text is better known now.
    let contexts = contexts.inspect_err(|_| modules::warn(&parts.code.findings_of_text()))?;
    let hooks = hooks_of(&contexts, parts);
    Ok((contexts, Arc::new(hooks)))
}

fn threads(
    config: &Config,
    parts: &Parts,
    ((contexts, hooks), gauges): ((Vec<ThreadContext>, Arc<Hooks>), &Gauges),
    (listeners, sockets): (Vec<Vec<TcpListener>>, Vec<UdpSocket>),
) -> anyhow::Result<Engine<Mail>> {
    let mut contexts = contexts.into_iter();
    let mut context = || contexts.next().context("fewer threads with modules than planned");
    let mut engine = Engine::new(config.engine.driver.choice());
    let per_core = config.engine.connections_max.div_ceil(config.engine.cores);
    let Topology { cores, rooms, lister, .. } = &**parts.topology();
    let of_cores = cores.iter().zip(listeners).zip(&gauges.cores);
    let mut sockets = sockets.into_iter();
    for (index, ((me, of_core), stats)) in of_cores.enumerate() {
        let me = *me;
        let (topology, settings, stats) = parts.shared(stats);
        let random = fresh_random()?;
        let (hooks, revoked) = (hooks.clone(), parts.revoked.clone());
        let build = move |_: Start| {
            Core::new(me, topology, settings, stats, random, hooks).with_revocations(revoked)
        };
        let mut plan = ThreadPlan::core(format!("core-{index}"), of_core, build)
            .with_sockets(sockets.next().into_iter().collect());
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
        let build = move |_: Start| Room::new(me, topology, settings, stats, context);
        add(&mut engine, me, ThreadPlan::plain(format!("room-{index}"), build))?;
    }
    let (me, (topology, settings, stats)) = (*lister, parts.shared(&gauges.lister));
    let build = move |_: Start| Lister::new(topology, settings, stats);
    add(&mut engine, me, ThreadPlan::plain("lister", build))?;
    let stats = gauges.workers.iter().chain([&gauges.events]);
    for (me, stats) in parts.topology().workers().zip(stats) {
        match parts.topology().core_of(me) {
            None => add(&mut engine, me.thread(), worker(parts, stats, context()?, me))?,
            Some(core) => add_companion(&mut engine, parts, (stats, context()?), (me, core))?,
        }
    }
    add_loader(&mut engine, config, parts, gauges)?;
    Ok(engine)
}

/// Adds the thread that loads the modules again.
fn add_loader(
    engine: &mut Engine<Mail>,
    config: &Config,
    parts: &Parts,
    gauges: &Gauges,
) -> anyhow::Result<()> {
    let me = parts.topology().loader.context("a server without a loader")?;
    let (topology, _, stats) = parts.shared(&gauges.loader);
    let (runtime, maker) = (config.runtime.clone(), Arc::clone(&parts.maker));
    let folder = Folder::new(runtime, maker, parts.code.clone());
    let edition = parts.code.edition.clone();
    let build = move |_: Start| Loader::new(topology, stats, (Box::new(folder), edition));
    add(engine, me, ThreadPlan::plain("loader".to_owned(), build))
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
    let build = move |_: Start| Worker::new(me, topology, settings, stats, context);
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
    let build = move |_: Start| Worker::new(me, topology, settings, stats, context);
    ThreadPlan::plain(name, build)
}

/// Which names have hooks: the same on all threads. What is odd about the modules is told.
fn hooks_of(contexts: &[ThreadContext], parts: &Parts) -> Hooks {
    let Some(context) = contexts.first() else { return Hooks::default() };
    let registered = context.scripts.registered();
    modules::warn(&parts.code.findings(registered, &parts.maker));
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
    let settings = Arc::new(config.settings());
    let code = Code::read(&config.runtime, GuestVersion::FIRST, None)?;
    let maker = Maker {
        topology: Arc::new(topology(config)),
        host: Arc::new(host_settings(&settings)),
        settings,
        is_fetch_enabled: config.fetch.enabled,
        limits: modules::guest_limits(config),
        stacktrace: config.runtime.stacktrace,
        // A check changes nothing: what modules write while they load goes to a scratch database.
        store: Store::open_in_memory()?,
        machine: ScriptMachine::new(config, custom_metrics(config)),
        sql: SqlBudgets::new(config),
    };
    let mut lines = vec![format!("modules: {} from {}", code.files().count(), path.display())];
    let scripts = match maker.instance(&code, ThreadId(0)) {
        Ok((scripts, _)) => scripts,
        Err(failed) => {
            let findings = code.findings_of_text();
            return Ok(Checked { lines, findings, failed: Some(failed) });
        }
    };
    let registered = scripts.registered();
    lines.extend(registered.rpc.iter().map(|id| format!("  rpc {id}")));
    lines.extend(registered.before.iter().map(|id| format!("  before {id}")));
    lines.extend(registered.after.iter().map(|id| format!("  after {id}")));
    Ok(Checked { lines, findings: code.findings(registered, &maker), failed: None })
}
