//! `throng load`: virtual players against a server, ours or anybody's.
//!
//! Runs what `jobs` makes of the flags, shows how each run goes, and prints and writes its result.
//! What is measured and how is `lab`'s.

pub mod files;
mod find;
mod flags;
mod jobs;
mod metrics;
mod scenarios;

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::ArgMatches;
use lab::load::screen::{self, Live, Look};
use lab::load::{Finished, Intervals, Progress, Second, Stage, Summary, advice};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use files::Claim;
pub use flags::command;
use jobs::Job;

use crate::{EXIT_FAILED, EXIT_WRONG, compare, complain, is_closed_pipe, measured};

/// How long a run goes on in which the players come and get nothing but errors.
const HOPELESS_S: f64 = 3.0;

/// Runs the subcommand and says what went wrong. The exit code.
pub fn run(matches: &ArgMatches) -> u8 {
    let code = match matches.subcommand() {
        Some(("table", matches)) => compare::table(matches).map(|()| 0),
        Some(("find", matches)) => find::find(matches),
        Some(("schema", _)) => print(&lab::load::schema()).map(|()| 0),
        Some(("scenarios", matches)) => match scenarios::text(matches.get_one("name")) {
            Ok(text) => print(&text).map(|()| 0),
            Err(error) => Ok(wrong(&error)),
        },
        _ => match matches.get_one::<String>("worker") {
            Some(share) => work(matches, share).map(|()| 0),
            None => all(matches),
        },
    };
    match code {
        Ok(code) => code,
        // `throng load … | head` has read all that it wanted; files have been written.
        Err(error) if is_closed_pipe(&error) => 0,
        Err(error) => {
            complain(&format_args!("{error:#}"));
            EXIT_FAILED
        }
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

fn wrong(error: &anyhow::Error) -> u8 {
    complain(&format_args!("{error:#}"));
    EXIT_WRONG
}

/// One of several processes of a run.
fn work(matches: &ArgMatches, share: &str) -> anyhow::Result<()> {
    // The terminal's ^C reaches workers too, and so may what ends the controller (`timeout`, a
    // service manager, a terminal that is closed); it is the controller that tells them when to
    // end, and its own end does too.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let share = jobs::worker_share(share).context("--worker")?;
    let jobs = jobs::jobs(matches, &Arc::default())?;
    let index = matches.get_one("job").copied().unwrap_or(0_usize);
    let job = jobs.get(index).context("--job")?;
    Ok(lab::load::work(&job.plan, &share)?)
}

/// The signals that ask to end.
pub struct Interrupt {
    pub is_set: Arc<AtomicBool>,
    /// Place in [`SIGNALS`] of the last one.
    which: Arc<AtomicUsize>,
}

/// Signals that end the runs, so that what was measured is kept and a server that was started does
/// not stay behind.
const SIGNALS: [(i32, &str, u8); 3] =
    [(SIGINT, "SIGINT", 130), (SIGTERM, "SIGTERM", 143), (SIGHUP, "SIGHUP", 129)];

impl Interrupt {
    /// Catches them from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch() -> std::io::Result<Self> {
        let caught = Self { is_set: Arc::default(), which: Arc::default() };
        for (place, (signal, ..)) in SIGNALS.into_iter().enumerate() {
            // `nohup` has its reasons.
            if signal == SIGHUP && is_hangup_ignored() {
                continue;
            }
            signal_hook::flag::register_usize(signal, caught.which.clone(), place)?;
            signal_hook::flag::register(signal, caught.is_set.clone())?;
        }
        Ok(caught)
    }

    /// Name and exit code of the signal, once one has come.
    pub fn signal(&self) -> Option<(&'static str, u8)> {
        let (_, name, code) = *SIGNALS.get(self.which.load(Ordering::Relaxed))?;
        self.is_set.load(Ordering::Relaxed).then_some((name, code))
    }
}

/// Whether this process was started with SIGHUP ignored. Source: proc_pid_status(5), `SigIgn`.
pub fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

/// All runs of the command line, one after the other. The exit code.
fn all(matches: &ArgMatches) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let jobs = match jobs::jobs(matches, &interrupt.is_set) {
        Ok(jobs) => jobs,
        Err(error) => return Ok(measured::not_begun(&error, &interrupt)),
    };
    // What cannot be written is found out before the run, not after it.
    let folders = jobs.iter().filter_map(|job| job.folder.as_deref());
    let _claims = folders.map(Claim::folder).collect::<anyhow::Result<Vec<_>>>()?;
    for flag in ["json", "junit"] {
        if let Some(path) = matches.get_one::<PathBuf>(flag) {
            files::try_file(path).with_context(|| format!("--{flag}"))?;
        }
    }
    let mut runner = Runner::new(matches)?;
    let mut begun = 0;
    let mut done: Vec<Summary> = Vec::new();
    let mut not_begun: Vec<Summary> = Vec::new();
    let mut failures: Vec<String> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        if interrupt.signal().is_some() {
            break;
        }
        begun = index + 1;
        let name = &job.name;
        if jobs.len() > 1 {
            let place = format!("run {begun} of {}: {name}", jobs.len());
            // If nobody reads it, the result is what counts.
            let _ = writeln!(std::io::stderr().lock(), "{place}");
        }
        match runner.one(job, &interrupt) {
            Ok(it) => {
                failures.extend(failure(&it).map(|reason| format!("{name}: {reason}")));
                done.push(it);
            }
            Err(_) if interrupt.signal().is_some() => break,
            Err(error) if jobs.len() == 1 && is_closed_pipe(&error) => return Err(error),
            Err(error) => {
                let ended = format!("could not begin: {error:#}");
                let scenario = job.plan.scenario.name.clone();
                not_begun.push(Summary { scenario, ended, ..Summary::default() });
                if jobs.len() == 1 {
                    failures.push(format!("{error:#}"));
                } else {
                    complain(&format_args!("{name}: {error:#}"));
                    failures.push(format!("{name}: {error:#}"));
                }
            }
        }
    }
    write_files(matches, &done, &not_begun)?;
    if jobs.len() > 1 && !done.is_empty() {
        print(&lab::load::overview(&done))?;
    }
    Ok(last_line(&interrupt, (begun, jobs.len()), &failures))
}

/// Says what kept the runs from being all well, if anything did. The exit code.
fn last_line(interrupt: &Interrupt, (begun, of): (usize, usize), failures: &[String]) -> u8 {
    if let Some((name, code)) = interrupt.signal() {
        let runs = if of > 1 { format!(" in run {begun} of {of}") } else { String::new() };
        complain(&format_args!("ended by {name}{runs}"));
        return code;
    }
    match failures {
        [] => return 0,
        [one] => complain(one),
        several => {
            complain(&format_args!("{} of {of} runs failed: {}", several.len(), several[0]));
        }
    }
    EXIT_FAILED
}

/// Why a run is not all well.
fn failure(done: &Summary) -> Option<String> {
    let failed = done.expectations.iter().filter(|verdict| !verdict.holds).count();
    let of = done.expectations.len();
    advice::failure(done)
        .or_else(|| (failed > 0).then(|| format!("{failed} of {of} expectations failed")))
}

/// Does runs, and shows how they go.
struct Runner {
    page: Option<metrics::Page>,
    is_fast_to_fail: bool,
}

impl Runner {
    fn new(matches: &ArgMatches) -> anyhow::Result<Self> {
        let address = matches.get_one::<SocketAddr>("metrics");
        let page = address.map(|address| metrics::Page::serve(*address)).transpose()?;
        Ok(Self { page, is_fast_to_fail: matches.get_flag("fail-fast") })
    }

    /// One run: shows how it goes and writes its files. `is_over_when_lost` ends it when an
    /// expectation cannot hold any more.
    fn measure(
        &mut self,
        job: &Job,
        interrupt: &Interrupt,
        is_over_when_lost: bool,
    ) -> anyhow::Result<Summary> {
        let mut screen = Screen::default();
        let mut is_hopeless = false;
        let mut lost: Option<String> = None;
        if let Some(folder) = &job.folder {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let Finished { mut summary, intervals } = lab::load::run(&job.plan, &mut |progress| {
            screen.show(progress);
            if let Some(page) = &self.page {
                page.renew(lab::load::prometheus(progress));
            }
            is_hopeless |= gets_only_errors(progress);
            if is_over_when_lost && lost.is_none() {
                let condition = job.conditions.iter().find(|it| it.is_lost(progress));
                lost = condition.map(|it| it.text.clone());
            }
            !is_hopeless && lost.is_none() && interrupt.signal().is_none()
        })?;
        let is_short = summary.counted_s + 0.01 < summary.settings.planned_s;
        match interrupt.signal() {
            Some((name, _)) if is_short => summary.ended = format!("interrupted ({name})"),
            None if is_hopeless && summary.ended.is_empty() => {
                summary.ended = format!("nothing but errors for {HOPELESS_S:.0} s");
            }
            None if is_short && summary.ended.is_empty() => {
                let tell = |text: String| format!("`{text}` could not hold any more");
                summary.ended = lost.map(tell).unwrap_or_default();
            }
            _ => {}
        }
        summary.expectations = job.conditions.iter().map(|it| it.check(&summary)).collect();
        if let Some(folder) = &job.folder {
            files::write(&result_files(folder, &summary, &intervals)?)?;
        }
        Ok(summary)
    }

    /// One run, and its result on the standard output.
    fn one(&mut self, job: &Job, interrupt: &Interrupt) -> anyhow::Result<Summary> {
        let done = self.measure(job, interrupt, self.is_fast_to_fail)?;
        let mut stdout = std::io::stdout().lock();
        if stdout.is_terminal() {
            // Apart from the screen above it.
            writeln!(stdout)?;
        }
        stdout.write_all(lab::load::text(&done).as_bytes())?;
        if let Some(folder) = &job.folder {
            writeln!(stdout, "report: {}", folder.join("report.html").display())?;
        }
        for verdict in &done.expectations {
            let word = if verdict.holds { "ok    " } else { "FAILED" };
            writeln!(stdout, "{word} {}: {}", verdict.condition, verdict.found)?;
        }
        Ok(done)
    }
}

/// Whether the players come and nothing succeeds, or have come and nothing of what they came for
/// has ever succeeded: going on would show nothing else.
fn gets_only_errors(progress: &Progress<'_>) -> bool {
    let is_ramp = progress.stage == Stage::Ramp;
    let since = progress.history.iter().filter(|it| is_ramp == (it.stage == Stage::Ramp));
    let length_s: f64 = since.clone().map(|second| second.length_s).sum();
    let is_wanted = |op: usize| is_ramp || progress.is_loop_op.get(op) == Some(&true);
    let is_done = |second: &Second| {
        second.ops.iter().enumerate().any(|(op, it)| it.done > 0 && is_wanted(op))
    };
    let has_wanted = is_ramp || progress.is_loop_op.contains(&true);
    has_wanted
        && length_s >= HOPELESS_S - 0.01
        && since.clone().any(|second| second.errors > 0)
        && !progress.history.iter().any(is_done)
}

/// The files of `--out`.
pub fn result_files(
    folder: &Path,
    summary: &Summary,
    intervals: &Intervals,
) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let ops: Vec<&str> = summary.ops.iter().map(|op| op.name.as_str()).collect();
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(summary.started_unix_s);
    let comment = format!("throng {} {}, nanoseconds", summary.command, summary.scenario);
    let texts = [
        intervals.log(&ops, started, &comment),
        lab::load::csv(summary).into_bytes(),
        lab::load::html(summary).into_bytes(),
        lab::load::json(summary)?,
    ];
    Ok(files::NAMES.into_iter().map(|name| folder.join(name)).zip(texts).collect())
}

/// `--json` and `--junit`; a run that could not begin has failed too.
fn write_files(
    matches: &ArgMatches,
    done: &[Summary],
    not_begun: &[Summary],
) -> anyhow::Result<()> {
    let mut files = Vec::new();
    if let (Some(path), [done]) = (matches.get_one::<PathBuf>("json"), done) {
        files.push((path.clone(), lab::load::json(done)?));
    }
    if let Some(path) = matches.get_one::<PathBuf>("junit") {
        let runs: Vec<&Summary> = done.iter().chain(not_begun).collect();
        files.push((path.clone(), lab::load::junit(&runs).into_bytes()));
    }
    files::write(&files)
}

/// Shows how the run goes: a screen that renews itself on a terminal, else a line a second.
#[derive(Default)]
struct Screen {
    live: Live,
}

impl Screen {
    fn show(&mut self, progress: &Progress<'_>) {
        let text = match Look::of_stderr() {
            Some(look) => self.live.renew(progress, look),
            None => screen::line(progress) + "\n",
        };
        // If nobody reads it, the result is what counts.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}
