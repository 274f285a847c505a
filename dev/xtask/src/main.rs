//! Every chore of this repository: `cargo xtask ci`, `attack`, `tidy`, `docs`.
//!
//! What is deliberately not here: anything that ships. Data comes in from the working tree and
//! from the tools that are called; it goes out as lines on the terminal and an exit code.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "a program has no outside; `pub` says what a module offers")]

mod ci;
mod docs;
mod repository;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Every chore of throng.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that must hold before a change is taken, with a summary
    #[command(after_help = "Examples:\n  cargo xtask ci\n  cargo xtask ci --only fmt,clippy\n  \
                            cargo xtask ci --skip e2e")]
    Ci {
        /// Run these steps only; `e2e` is both e2e-uring and e2e-poll
        #[arg(long, value_delimiter = ',', value_name = "STEP,…")]
        only: Vec<String>,
        /// Leave these steps out
        #[arg(long, value_delimiter = ',', value_name = "STEP,…")]
        skip: Vec<String>,
    },
    /// Attack a release build, with a well-behaved neighbour beside each case whose waits count
    Attack,
    /// Check the laws that no compiler checks: arrows between crates, file sizes, promises
    Tidy,
    /// Write the pages that are made from code: docs/configuration.md, docs/result.schema.json
    Docs {
        /// Only tell whether they are current
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Ci { only, skip } => ci::run(&only, &skip),
        Chore::Attack => ci::run(&["attack".to_owned()], &[]),
        Chore::Tidy => tidy::run(),
        Chore::Docs { check: false } => docs::write().map(|()| true),
        Chore::Docs { check: true } => docs::check(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The names of the chores, for the promises in SPEC.md.
fn chores() -> Vec<String> {
    use clap::CommandFactory as _;
    Cli::command().get_subcommands().map(|chore| chore.get_name().to_owned()).collect()
}
