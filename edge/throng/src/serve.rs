//! `throng serve`: wires the engine, the handlers, the database and the scripts together.

use anyhow::Context as _;

use crate::config::Config;
use crate::metrics::{MetricsServer, Registry, Sample};
use crate::signals::StopSignals;

/// Runs the server until it is told to stop.
///
/// # Errors
/// Whatever keeps it from starting, in words for the operator.
pub fn run(config: Config) -> anyhow::Result<()> {
    let stop = StopSignals::catch().context("cannot catch signals")?;
    let _settings = config.settings();
    tracing::info!(
        cores = config.engine.cores,
        rooms = config.engine.rooms,
        workers = config.engine.workers,
        pin = config.engine.pin,
        connections_max = config.engine.connections_max,
        driver = config.engine.driver.word(),
        data_dir = %config.data_dir.display(),
        listen = %config.listen,
        call_budget_ms = config.runtime.call_budget_ms,
        memory_bytes_max = config.runtime.memory_bytes_max,
        callback_budget_ms = config.matches.callback_budget_ms,
        match_memory_bytes_max = config.matches.memory_bytes_max,
        "not wired yet: nothing listens but the metrics"
    );
    let _metrics = metrics(&config)?;
    let signal = stop.wait().context("cannot wait for a second signal")?;
    tracing::info!(signal = signal.name(), "stopped");
    Ok(())
}

/// Starts the metrics port, if it is asked for.
fn metrics(config: &Config) -> anyhow::Result<Option<MetricsServer>> {
    let Some(listen) = config.metrics.listen else { return Ok(None) };
    let mut registry =
        Registry::new(&config.metrics.prefix, &config.name, &config.metrics.namespace);
    let (version, help) = (env!("CARGO_PKG_VERSION"), "Always 1; the version is a label.");
    registry.add(move |out| out.push(Sample::gauge("build", help, 1).with("version", version)));
    let server = MetricsServer::start(listen, registry)
        .with_context(|| format!("cannot serve metrics on {listen} (`metrics.address`)"))?;
    tracing::info!("metrics on http://{}/metrics", server.address());
    Ok(Some(server))
}

/// Loads the modules as `run` would, and tells what they register, a line each.
///
/// # Errors
/// The first module that cannot be loaded.
pub fn check_modules(config: &Config) -> anyhow::Result<Vec<String>> {
    let path = &config.runtime.path;
    if !path.is_dir() {
        if config.runtime.path_given {
            anyhow::bail!("{} (`runtime.path`) is not a folder", path.display());
        }
        return Ok(vec![format!("modules: none, there is no folder {}", path.display())]);
    }
    Ok(vec![format!("modules: {}", path.display())])
}
