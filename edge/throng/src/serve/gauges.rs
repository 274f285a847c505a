//! What `/metrics` shows of a running server: the counters of all handlers and threads, summed
//! over threads of a kind, and the engine's own by thread.

mod calls;
mod map;
mod times;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{COUNTERS, Running};
use fetch::FetchStats;
use script::budget::VmMemory;
use server::mail::Mail;
use server::stats::{
    CoreStats, ListerStats, LoaderStats, RoomStats, Sample as Counted, WorkerStats,
};

use store::StoreStats;

use crate::config::{Config, EngineConfig};
use crate::metrics::{CustomMetrics, MetricsServer, Registry, Sample};

/// The counters of every handler, shared with it.
pub(super) struct Gauges {
    pub(super) cores: Vec<Arc<CoreStats>>,
    pub(super) rooms: Vec<Arc<RoomStats>>,
    /// The batcher first, then the callers, then the companions of cores, then the hasher.
    pub(super) workers: Vec<Arc<WorkerStats>>,
    pub(super) lister: Arc<ListerStats>,
    /// Of the thread of events, which need not be there.
    pub(super) events: Arc<WorkerStats>,
    /// Scripts' own.
    pub(super) custom: Arc<CustomMetrics>,
    /// The database's, once it is open.
    pub(super) store: Arc<StoreStats>,
    /// Of requests of scripts to other servers, if there may be any.
    pub(super) fetch: Arc<FetchStats>,
    /// What the VMs of all modules hold.
    pub(super) memory: Arc<VmMemory>,
    /// Of the thread that loads modules again.
    pub(super) loader: Arc<LoaderStats>,
}

impl Gauges {
    pub(super) fn new(engine: &EngineConfig, custom: Arc<CustomMetrics>) -> Self {
        Self {
            cores: (0..engine.cores).map(|_| Arc::default()).collect(),
            rooms: (0..engine.rooms).map(|_| Arc::default()).collect(),
            workers: (0..engine.workers + engine.cores + 2).map(|_| Arc::default()).collect(),
            lister: Arc::default(),
            events: Arc::default(),
            custom,
            store: Arc::default(),
            fetch: Arc::default(),
            memory: Arc::default(),
            loader: Arc::default(),
        }
    }

    /// Starts the metrics port, if it is asked for.
    pub(super) fn serve(
        self,
        config: &Config,
        running: &Arc<Running<Mail>>,
    ) -> anyhow::Result<Option<MetricsServer>> {
        let Some(listen) = config.metrics.listen else { return Ok(None) };
        let mut registry =
            Registry::new(&config.metrics.prefix, &config.name, &config.metrics.namespace);
        let (version, help) = (env!("CARGO_PKG_VERSION"), "Always 1; the version is a label.");
        registry.add(move |out| out.push(Sample::gauge("build", help, 1).with("version", version)));
        if let Some(world) = &config.world {
            let (rooms, tick_rate_hz) = (self.rooms.clone(), world.tick_rate_hz);
            let (of_json, html) = (rooms.clone(), "text/html; charset=utf-8");
            registry.add_page(("/zone", html), move || map::page(&rooms, tick_rate_hz));
            registry.add_page(("/zone.json", "application/json"), move || map::json(&of_json));
        }
        registry.add(move |out| {
            sum(self.cores.iter().map(|stats| stats.samples()), "core", out);
            calls::samples(&self.cores, out);
            sum(self.rooms.iter().map(|stats| stats.samples()), "room", out);
            times::zone(&self.rooms, out);
            let workers = self.workers.iter().chain([&self.events]);
            sum(workers.map(|stats| stats.samples()), "worker", out);
            sum([self.lister.samples()].into_iter(), "lister", out);
            let store = self.store.samples().into_iter();
            out.extend(store.map(|one| Sample::counter(one.name, one.help, one.value)));
            for one in self.fetch.samples() {
                let sample = if one.rises { Sample::counter } else { Sample::gauge };
                out.push(sample(one.name, one.help, one.value));
            }
            sum([self.loader.samples()].into_iter(), "loader", out);
            scripts(&self.memory, out);
            let of_matches = self.rooms.iter().flat_map(|stats| stats.guest_errors.read());
            let of_calls = self.workers.iter().chain([&self.events]);
            let of_calls = of_calls.flat_map(|stats| stats.guest_errors.read());
            guest_errors(of_matches.chain(of_calls), out);
        });
        registry.add(move |out| self.custom.samples(out));
        // Weak, so that the last owner can join the threads while the port still answers.
        let running = Arc::downgrade(running);
        registry.add(move |out| {
            let Some(running) = running.upgrade() else { return };
            for thread in running.counters() {
                for info in COUNTERS {
                    let value = thread.counters.value(info.count);
                    let sample = if info.gauge { Sample::gauge } else { Sample::counter };
                    let sample = sample(info.name, info.help, value);
                    out.push(sample.with("thread", thread.name.clone()));
                }
            }
        });
        let settings = ["metrics.address", "metrics.prometheus_port"];
        let server = MetricsServer::start(listen, registry)
            .map_err(|error| super::cannot_listen(listen, settings, &error))?;
        tracing::info!("metrics on http://{}/metrics", server.address());
        Ok(Some(server))
    }
}

/// What has failed of each version of the modules.
fn guest_errors(threads: impl Iterator<Item = (u64, u64)>, out: &mut Vec<Sample>) {
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for (version, count) in threads {
        *sums.entry(version).or_default() += count;
    }
    let help = "Calls and callbacks of scripts that failed, by the version of the modules; without those that a script \
                refused with a code of its own.";
    for (version, count) in sums {
        let sample = Sample::counter("guest_errors", help, count);
        out.push(sample.with("version", version.to_string()));
    }
}

/// What the scripts' VMs hold.
fn scripts(memory: &VmMemory, out: &mut Vec<Sample>) {
    let (of_all, of_matches) = (memory.bytes(), memory.match_bytes());
    let rebuilt = memory.rebuilt_count();
    let help = "Memory of all VMs of scripts, bytes.";
    out.push(Sample::gauge("scripts_memory_bytes", help, of_all as u64));
    let help = "Memory of the VMs of matches, bytes.";
    out.push(Sample::gauge("match_memory_bytes", help, of_matches as u64));
    let help = "VMs thrown away because a script left them without memory.";
    out.push(Sample::counter("scripts_rebuilt", help, rebuilt));
}

/// Adds up the counters of threads of one kind. Names that more than one kind has are told apart
/// by the label `kind`.
fn sum(threads: impl Iterator<Item = Vec<Counted>>, kind: &'static str, out: &mut Vec<Sample>) {
    let mut sums: Vec<Counted> = Vec::new();
    for samples in threads {
        if sums.is_empty() {
            sums = samples;
            continue;
        }
        for (sum, sample) in sums.iter_mut().zip(samples) {
            sum.value += sample.value;
        }
    }
    for counted in sums {
        let sample = if counted.rises { Sample::counter } else { Sample::gauge };
        out.push(sample(counted.name, counted.help, counted.value).with("kind", kind));
    }
}
