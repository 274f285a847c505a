//! throng: the command line. Reads what is asked for and hands it to one wiring file per
//! subcommand.
//!
//! Exit codes: 0 done or stopped by a signal, 1 could not do it, 2 asked for wrongly (a flag, an
//! option, a contradiction), 3 ended five seconds after `shutdown_grace_sec` because threads hung,
//! 128 + n ended at once by a second signal n. `load`, `ping`, `flow` and `compare run`
//! differ: a signal n ends them with 128 + n, because the result is not the one that was asked for.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "a binary has no outside; `pub` says what a module offers")]

/// Everything here is many small objects of short life on few threads.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

mod check;
mod cli;
mod compare;
mod config;
mod doctor;
mod echo;
mod flow;
mod host;
mod keys;
mod load;
mod logs;
mod measured;
mod memory;
mod metrics;
mod nofile;
mod options;
mod ping;
mod reference;
mod serve;
mod side_by_side;
mod signals;

use std::io::Write as _;
use std::process::ExitCode;

use cli::{Asked, ConfigArgs, Form};
use config::{Config, Driver, Effective, Level};

const EXIT_FAILED: u8 = 1;
const EXIT_WRONG: u8 = 2;
/// Threads had not ended five seconds after the grace of a shutdown; the log names them.
const EXIT_HUNG: u8 = 3;

fn main() -> ExitCode {
    if let Some(code) = host::become_server() {
        return ExitCode::from(code);
    }
    abort_on_panic();
    let asked = match cli::parse(std::env::args_os()) {
        Ok(asked) => asked,
        Err(error) => error.exit(),
    };
    match asked {
        Asked::Serve(args) => with_config(args, |_, config| {
            let _logs = logs::start(&config.logger)?;
            for notice in &config.notices {
                match notice.level {
                    Level::Note => tracing::info!("{}", notice.text),
                    Level::Warn => tracing::warn!("{}", notice.text),
                    Level::Error => tracing::error!("{}", notice.text),
                }
            }
            // The ring keeps its sockets in a table of its own, which this limit does not touch.
            let files = engine::raise_file_limit();
            if config.engine.driver == Driver::Poll
                && let Some(text) = nofile::shortage(config.engine.connections_max, files)
            {
                tracing::warn!("{text}");
            }
            serve::run(config).map_err(|error| match nofile::of_failed_start(files) {
                Some(text) => error.context(text),
                None => error,
            })
        }),
        Asked::Check { args, strict } => {
            with_config(args, |values, config| check::run(values, &config, strict))
        }
        Asked::Echo(options) => ended(
            logs::start(&logs::TERMINAL).map_err(Into::into).and_then(|_logs| echo::run(options)),
        ),
        Asked::Load(args) => match logs::start(&logs::QUIET).map_err(Into::into) {
            Ok(_logs) => ExitCode::from(load::run(&args)),
            Err(error) => ended(Err(error)),
        },
        Asked::Compare(args) => code_of(compare::run(&args)),
        Asked::Doctor(args) => code_of(doctor::run(&args)),
        Asked::Ping(args) => code_of(ping::run(&args)),
        Asked::Flow(args) => code_of(flow::run(&args)),
        Asked::Host(args) => code_of(host::run(&args)),
        Asked::Options { markdown: true, .. } => printed(Ok(reference::markdown())),
        Asked::Options { word, .. } => printed(reference::text(&word)),
        Asked::Keys => ended(keys::print()),
        Asked::Calls { word, form } => printed(match form {
            Form::Text => reference::calls::text(&word),
            Form::Markdown => Ok(reference::calls::markdown()),
            Form::Json => Ok(reference::json::calls()),
        }),
        Asked::Functions { word, language, form } => printed(match form {
            Form::Text => reference::functions::text(language, &word),
            Form::Markdown => Ok(reference::functions::markdown(language)),
            Form::Json => Ok(reference::json::host_functions()),
        }),
    }
}

/// Prints a page of reference.
fn printed(page: anyhow::Result<String>) -> ExitCode {
    ended(page.and_then(|page| Ok(std::io::stdout().lock().write_all(page.as_bytes())?)))
}

/// A panic is a mistake of ours: the state behind it cannot be trusted, so the process ends and its
/// supervisor starts a new one. (Scripts' own errors unwind too, but those are no panics.)
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// Loads the configuration and goes on with it, or says everything that is wrong with it.
fn with_config(
    args: ConfigArgs,
    then: impl FnOnce(&Effective, Config) -> anyhow::Result<()>,
) -> ExitCode {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    match config::load(&args.files, args.flags, cpus) {
        Ok(values) => ended(then(&values, Config::new(&values))),
        Err(problems) => {
            for problem in &problems {
                complain(problem);
            }
            ExitCode::from(EXIT_WRONG)
        }
    }
}

fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // `throng options | head` has read all that it wanted.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format_args!("{error:#}"));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Likewise of a command with exit codes of its own.
fn code_of(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => ended(Err(error)),
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// One line to the standard error; if even that is closed, the exit code has to do.
fn complain(what: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "throng: {what}");
}
