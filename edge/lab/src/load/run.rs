//! One run: starts the server if asked to, and runs the generator on a thread of its own, or
//! several in processes of their own. `collect` adds up what they tell.

pub(crate) mod collect;
mod here;
mod kinds;
mod metrics;
mod plan;
mod workers;

use std::sync::Arc;

use collect::{Collector, ServerWatch};
use here::Here;
use metrics::MetricsWatch;
pub use plan::{Plan, RunError, Share, TARGETS_MAX, check};
use plan::{check_players, dials, generator_settings};
use workers::Workers;

use crate::doctor::{Tree, facts};
use crate::load::generator::Command;
use crate::load::result::summary::ServerEnd;
use crate::load::result::{Summary, Watch, notes};
use crate::load::scenario::program::compile;
use crate::measure::environment::Environment;
use crate::measure::hlog::Intervals;
use crate::measure::process::{SampleError, Watched};
use crate::measure::processors::{Realtime, Unbind, cpus, pin_thread};
use crate::measure::server::Server;
use crate::measure::target::Target;

/// A run that has ended.
pub struct Finished {
    /// Its figures.
    pub summary: Summary,
    /// Its histograms, second by second.
    pub intervals: Intervals,
}

/// Runs a plan. `watch` is told every second, and may ask to end the counted time by returning
/// `false`.
///
/// # Errors
/// When the run could not begin or its generator failed; failures of the server are part of the
/// result.
pub fn run(plan: &Plan, watch: Watch<'_>) -> Result<Finished, RunError> {
    let run_number = plan::unix_now().subsec_nanos() ^ std::process::id().rotate_left(16);
    // Everything that can be wrong with the request is found before a server is started.
    check(plan)?;
    // Before this process binds itself to a processor, and before a server is at work.
    let environment = Environment { peer: plan.peer.clone(), ..Environment::read() };
    let _unbind = Unbind::later();
    let places = cpus();
    let pin = plan.pin.or_else(|| places.last().copied().filter(|_| places.len() > 1));
    // A server that is started inherits it.
    let realtime = plan.realtime.then(Realtime::begin).transpose()?;
    let mut server =
        plan.server.as_deref().map(|command| start_server(plan, command, pin)).transpose()?;
    drop(realtime);
    let targets = match &mut server {
        Some(server) => vec![server.wait(&plan.stop, &mut |text| (plan.say)(text))?],
        None => plan.targets.iter().map(Target::reach).collect::<Result<Vec<_>, _>>()?,
    };
    let mut watched = match &server {
        Some(server) => Watched::group(server.pid()),
        None => Watched::Named(plan.server_pids.clone()),
    };
    let (pids, before) = (watched.pids(), watched.sample().map_err(|it| sample_error(plan, it))?);
    if let Some(cpu) = pin {
        pin_thread(cpu)?;
    }
    let program = Arc::new(compile(&plan.scenario, &dials(plan, &targets, run_number))?);
    let settings = generator_settings(plan, &targets, run_number, None)?;
    let mut collector = Collector::new(plan, &targets, &program, &settings, pin);
    collector.summary.environment = environment;
    collector.summary.generator.processors = processors_of(plan, places.len());
    collector.server = (!watched.is_empty()).then(|| ServerWatch::new(watched, before));
    let metrics = server.as_ref().filter(|_| program.flies()).map(Server::metrics);
    collector.metrics = metrics.map(MetricsWatch::new);
    if plan.processes > 1 {
        let urls: Vec<_> = targets.iter().map(|target| target.url.as_str()).collect();
        let workers = Workers::start(plan, run_number, &urls)?;
        workers.drive(&mut collector, watch)?;
    } else {
        let generator = Here::start(plan, program.clone(), settings, pin)?;
        collector.summary.settings.driver = generator.running.driver().to_string();
        generator.post(Command::Begin);
        let is_finished = || generator.running.is_finished(generator.id);
        let ask_to_finish = || generator.post(Command::Finish);
        let done = collector.collect(&generator.events, is_finished, ask_to_finish, watch);
        generator.running.join()?;
        done?;
    }
    collector.finish(&program.ops, program.match_ops.iter().any(Option::is_some));
    let ended = server.as_mut().and_then(Server::ended_by_itself);
    collector.summary.server_ended = ended.map(|it| Box::new(ServerEnd::of(it)));
    let online = facts::online(&Tree::here());
    let places_of_run = notes::Places { own: &places, online: &online, pin };
    collector.summary.notes = notes::notes(&targets, &places_of_run, &pids);
    let of_result = notes::notes_of(&collector.summary, !pids.is_empty());
    collector.summary.notes.extend(of_result);
    collector.summary.ended = notes::stopped(&collector.summary).unwrap_or_default();
    Ok(Finished { summary: collector.summary, intervals: collector.intervals })
}

/// Runs one worker's share of a plan: records go out as lines, commands come in as lines.
///
/// # Errors
/// When its generator could not begin or failed.
pub fn work(plan: &Plan, share: &Share) -> Result<(), RunError> {
    let reach = |url: &String| Target::parse(url, &plan.stop)?.reach();
    let targets = share.urls.iter().map(reach).collect::<Result<Vec<_>, _>>()?;
    let players = plan.players.unwrap_or(plan.scenario.players);
    check_players(players, share.count)?;
    let places = cpus();
    let pin = plan.pin.or_else(|| {
        // The first processor is the server's, if there is more than one.
        let own = places.get(1..).filter(|own| !own.is_empty())?;
        own.get(usize::from(share.count - 1 - share.index) % own.len()).copied()
    });
    let program = Arc::new(compile(&plan.scenario, &dials(plan, &targets, share.run_number))?);
    let settings = generator_settings(plan, &targets, share.run_number, Some(share))?;
    let generator = Here::start(plan, program, settings, pin)?;
    let driver = generator.running.driver().to_string();
    workers::serve(generator, &driver)
}

/// A process that somebody named is told apart from one that the run has started.
fn sample_error(plan: &Plan, error: SampleError) -> RunError {
    match error {
        SampleError::Gone { pid } if plan.server_pids.contains(&pid) => RunError::NoProcess { pid },
        other => RunError::Sample(other),
    }
}

/// How many processors the generator's processes can use at once, as [`work`] binds them.
fn processors_of(plan: &Plan, places: usize) -> u32 {
    let own = if plan.pin.is_some() { 1 } else { places.saturating_sub(1).max(1) };
    u32::from(plan.processes.max(1)).min(u32::try_from(own).unwrap_or(u32::MAX))
}

/// Starts the server on the processors that the generator does not use.
fn start_server(plan: &Plan, command: &str, pin: Option<usize>) -> Result<Server, RunError> {
    let others: Vec<usize> = cpus().into_iter().filter(|cpu| Some(*cpu) != pin).collect();
    if let Some(cpu) = others.first() {
        pin_thread(*cpu)?;
    }
    let Some(target) = plan.targets.first() else { return Err(RunError::Targets { count: 0 }) };
    let log = plan.server_log.as_deref();
    Ok(Server::start(command, (target, plan.is_target_given), log)?)
}
