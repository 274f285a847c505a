//! Every chore of this repository: `cargo xtask ci`, `attack`, `claims`, `peers`,
//! `before`, `growth`, `guests`, `walls`, `zone`, `profile`, `tidy`, `docs`.
//!
//! What is deliberately not here: anything that ships. Data comes in from the working tree and
//! from the tools that are called; it goes out as lines on the terminal and an exit code.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "a program has no outside; `pub` says what a module offers")]

mod ci;
mod claims;
mod docs;
mod peers;
mod repository;
mod sdk;
mod spec;
mod tidy;

use std::path::PathBuf;
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
    /// Run every command of SPEC.md, in order, and tell which promises hold on this machine
    #[command(after_help = CLAIMS_HELP)]
    Claims {
        /// Only rows that hold this text in the promise or in a command
        #[arg(long, value_delimiter = ',', value_name = "TEXT,…")]
        only: Vec<String>,
        /// Measuring commands for a second, judged by nothing but errors: whether they still run
        #[arg(long)]
        quick: bool,
        /// Only print the commands
        #[arg(long)]
        list: bool,
        /// This program instead of a release build
        #[arg(long, value_name = "FILE")]
        throng: Option<PathBuf>,
    },
    /// Measure throng beside other servers, in the same rounds under the same generator
    #[command(after_help = PEERS_HELP)]
    Peers {
        /// Rows to measure, all by default (see --list)
        #[arg(value_name = "ROW")]
        rows: Vec<String>,
        /// The other servers; else the file that THRONG_PEERS names; without one throng runs alone
        #[arg(long, value_name = "FILE")]
        with: Option<PathBuf>,
        /// Rounds of every row; 5 by default, and 1 of rows that take minutes
        #[arg(long, value_name = "N")]
        rounds: Option<usize>,
        /// Seconds that are counted in each run; 5 to 200 by default, as the row says
        #[arg(long, value_name = "SECONDS")]
        duration: Option<u32>,
        /// Where table.md and runs.jsonl.gz go; rows that are there and not measured now stay
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Fail unless it holds of every row: 'ratio >= 0.75', the median ratio to the best other
        #[arg(long, value_name = "CONDITION", value_parser = peers::expectation)]
        expect: Option<f64>,
        /// Measure throng alone, and compare its rows with this one, round by round; --expect is of that then
        #[arg(long, value_name = "ROW", conflicts_with = "with")]
        against: Option<String>,
        /// Only print the rows
        #[arg(long)]
        list: bool,
        /// Only print the table of the records in this folder
        #[arg(long, value_name = "DIR")]
        table: Option<PathBuf>,
        /// This program instead of a release build
        #[arg(long, value_name = "FILE")]
        throng: Option<PathBuf>,
        /// More arguments for `throng load`, of every run
        #[arg(last = true, value_name = "ARGUMENT")]
        load: Vec<String>,
    },
    /// Compare an older build with today's, both at once: shows changes of one or two per cent
    #[command(after_help = BEFORE_HELP)]
    Before {
        /// The older program
        #[arg(value_name = "FILE")]
        before: PathBuf,
        /// Rows to measure, all by default
        #[arg(value_name = "ROW")]
        rows: Vec<String>,
        /// Rounds of every row, 6 by default
        #[arg(long, value_name = "N")]
        rounds: Option<usize>,
        /// Where table.md and runs.jsonl.gz go
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Fail unless it holds of every row: 'ratio >= 0.97', the median of after to before
        #[arg(long, value_name = "CONDITION", value_parser = peers::expectation)]
        expect: Option<f64>,
        /// This program instead of a release build
        #[arg(long, value_name = "FILE")]
        throng: Option<PathBuf>,
    },
    /// Measure what an operation costs as there are more connections, matches, users, processors
    Growth {
        /// Curves to measure, all by default: connections, matches, users, processors
        #[arg(value_name = "CURVE")]
        curves: Vec<String>,
        /// Rounds of every curve, 3 by default
        #[arg(long, value_name = "N")]
        rounds: Option<usize>,
        /// Where table.md, runs.jsonl.gz and the pictures go; curves that are not measured now stay
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// This program instead of a release build
        #[arg(long, value_name = "FILE")]
        throng: Option<PathBuf>,
    },
    /// Measure the example game in every language: RPC calls, and the memory of matches
    Guests {
        /// Rounds of every row, 3 by default
        #[arg(long, value_name = "N")]
        rounds: Option<usize>,
        /// Seconds that are counted in each run, 5 by default
        #[arg(long, value_name = "SECONDS")]
        duration: Option<u32>,
        /// Where table.md and runs.jsonl.gz go
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// This program instead of a release build
        #[arg(long, value_name = "FILE")]
        throng: Option<PathBuf>,
    },
    /// Measure how many game servers this machine carries, behind two walls, and what the walls cost
    #[command(after_help = WALLS_HELP)]
    Walls {
        /// Servers of scenarios/host, all by default: game, teeworlds, openarena
        #[arg(value_name = "SERVER")]
        servers: Vec<String>,
        /// How often every number is measured, 3 by default
        #[arg(long, value_name = "N")]
        repeats: Option<usize>,
        /// For how long, 15s by default
        #[arg(long, value_name = "TIME")]
        span: Option<String>,
        /// Where table.md, runs.jsonl.gz and the pictures go; servers that are not measured now stay
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Measure nothing: write the table and the pictures of the records that are there
        #[arg(long)]
        table: bool,
        /// This program instead of a release build
        #[arg(long, value_name = "FILE")]
        throng: Option<PathBuf>,
    },
    /// Measure the zone in each of its scenarios, and as there are more pilots
    Zone {
        /// Scenarios to measure, all by default: S1, S2, S8, S2-one-cell, circle, circle-fixed, S3, S3-udp, S4, S5, illyriad-like, and with more or fewer pilots crowd-udp/1600, spread-udp/1400, spread/250, crowd/250, spread/4000, crowd/4000
        #[arg(value_name = "SCENARIO")]
        cases: Vec<String>,
        /// Rounds of them, each scenario once in each
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: usize,
        /// Where table.md, runs.jsonl.gz and partition.svg go; runs are added to those that are there
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Drop the runs of these scenarios that are there
        #[arg(long)]
        anew: bool,
        /// Measure nothing: write the table and the picture of the records that are there
        #[arg(long)]
        table: bool,
        /// This program instead of a release build
        #[arg(long, value_name = "FILE")]
        throng: Option<PathBuf>,
    },
    /// Sample where a server's processor time goes under a row's load, with perf
    Profile {
        /// The row (cargo xtask peers --list)
        #[arg(value_name = "ROW")]
        row: String,
        /// The server, throng by default; others are of the file of peers
        #[arg(long, value_name = "NAME")]
        who: Option<String>,
        /// The other servers; else the file that THRONG_PEERS names
        #[arg(long, value_name = "FILE")]
        with: Option<PathBuf>,
        /// Seconds that are counted
        #[arg(long, value_name = "SECONDS")]
        duration: Option<u32>,
        /// This program instead of a release build
        #[arg(long, value_name = "FILE")]
        throng: Option<PathBuf>,
        /// More arguments for `throng load`
        #[arg(last = true, value_name = "ARGUMENT")]
        load: Vec<String>,
    },
    /// Check the laws that no compiler checks: arrows between crates, file sizes, promises
    Tidy,
    /// Write the files that are made from code: pages of docs/, and the SDKs' messages, hooks and functions in guests/
    Docs {
        /// Only tell whether they are current
        #[arg(long)]
        check: bool,
    },
}

const CLAIMS_HELP: &str = "\
Promises of figures are for a quiet machine with two processors or more: run nothing beside them. With
--quick they say nothing about figures. Rows that need other servers are not run unless THRONG_PEERS
names them (cargo xtask peers --help).";

const BEFORE_HELP: &str = "\
Both servers share one processor, and both generators another: run nothing beside them.

Examples:
  git worktree add ../old 36a7175 && (cd ../old && cargo build --release)
  cargo xtask before ../old/target/release/throng --expect 'ratio >= 0.97'
  cargo xtask before ../old/target/release/throng rpc-lua match --rounds 10 --out results/limits";

const WALLS_HELP: &str = "\
Needs root, and the Debian packages teeworlds-server and openarena-server. Players are on the machine that they
measure: run nothing beside it. The servers have users of their own, who have to reach the program.

Example:
  install target/release/throng /usr/local/bin && cargo xtask walls --throng /usr/local/bin/throng --out results/host";

const PEERS_HELP: &str = "\
The file of other servers, TOML:
  [[peer]]
  name = 'nginx'
  rows = ['http']                    # http, websocket, nakama, or names of rows
  start = 'nginx -p . -c nginx.conf' # in the foreground, run in the folder of the file
  target = 'http://127.0.0.1:7501'
  before = 'make a fresh database'   # optional, before each start
  beside = 'db/postmaster.pid'       # optional: its database's process, whose CPU is told too
  load = ['--set', 'path=/']         # optional, more for `throng load`
  about = '1.22, Debian'             # optional, kept in the records

Examples:
  cargo xtask peers --with peers.toml --out results/peers
  cargo xtask peers plaintext-16 ws-64 --with peers.toml --rounds 1 --duration 1
  cargo xtask peers register rpc-lua --with peers.toml -- --seed 7
  cargo xtask peers register-hooked-max rpc-write-max --against register-max
  cargo xtask peers --table results/peers";

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does a chore. Tells whether all that it checks holds.
fn run(chore: Chore) -> anyhow::Result<bool> {
    match chore {
        Chore::Ci { only, skip } => ci::run(&only, &skip),
        Chore::Attack => ci::run(&["attack".to_owned()], &[]),
        Chore::Claims { only, quick, list, throng } => {
            claims::run(&claims::Request { only, quick, list, throng })
        }
        Chore::Peers {
            rows,
            with,
            rounds,
            duration,
            out,
            expect,
            against,
            list,
            table,
            throng,
            load,
        } => peers::run(&peers::Request {
            rows,
            with,
            rounds,
            duration_s: duration,
            out,
            expect,
            against,
            list,
            table,
            throng,
            load,
        }),
        Chore::Before { before, rows, rounds, out, expect, throng } => {
            let ask = peers::before::Request { before, rows, rounds, out, expect, throng };
            peers::before::run(&ask)
        }
        Chore::Growth { curves, rounds, out, throng } => {
            peers::growth::run(&peers::growth::Request { curves, rounds, out, throng })
        }
        Chore::Guests { rounds, duration, out, throng } => {
            let ask = peers::guests::Request { rounds, duration_s: duration, out, throng };
            peers::guests::run(&ask)
        }
        Chore::Walls { servers, repeats, span, out, table, throng } => {
            let ask = peers::walls::Request { servers, repeats, span, out, table, throng };
            peers::walls::run(&ask)
        }
        Chore::Zone { cases, rounds, out, anew, table, throng } => {
            peers::zone::run(&peers::zone::Request {
                cases,
                rounds,
                is_anew: anew,
                is_table: table,
                out,
                throng,
            })
        }
        Chore::Profile { row, who, with, duration, throng, load } => {
            let ask =
                peers::Request { with, duration_s: duration, throng, load, ..Default::default() };
            peers::profile::run(&peers::profile::Wish { row, who, ask })
        }
        Chore::Tidy => tidy::run(),
        Chore::Docs { check: false } => docs::write().map(|()| true),
        Chore::Docs { check: true } => docs::check(),
    }
}

/// The names of the chores, for the promises in SPEC.md.
fn chores() -> Vec<String> {
    use clap::CommandFactory as _;
    Cli::command().get_subcommands().map(|chore| chore.get_name().to_owned()).collect()
}
