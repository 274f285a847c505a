//! The flags of `throng load` and their help. What they mean for a run is told in `jobs`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};
use lab::load::scenario::{BUILT_IN, parse};

use crate::measured::tls_args;

const EXAMPLES: &str = "\
Examples:
  throng load rpc-lua --server 'throng serve --runtime.path scenarios/modules'
  throng load ccu register authenticate rpc-lua match --out results/today \\
      --server 'throng serve --runtime.path scenarios/modules'
  throng load authenticate --target http://127.0.0.1:7350 --rate 2000 --duration 60s
  throng load register --players 1000 --rate 200 --server-pid 4711
  throng load plaintext --server 'throng echo' --saturate --pipeline 1,4,16
  throng load ccu --target https://game.example --server-key KEY
  throng load my-scenario.toml --set item=sword --expect 'buy.response_p99 < 20ms'
  throng load scenarios rpc-lua > my-scenario.toml
  throng compare nakama=results/nakama ours=results/today

In the open loop (the default) operations begin on a schedule, whatever the server does, and each
is timed from its intended start too. --saturate is the closed loop: it finds throughput, and its
times say nothing about what users feel.

--ramp is the scenario's by default (match: 5 s; the other built-in ones: 0). With 0 the players
come as fast as the server takes them, 256 at a time. The warm-up begins when all are ready.

Several scenarios run one after the other, each with a server of its own if there is a --server,
and their tables come at the end. A data folder is the same for all of them: what one has written,
the next one finds.

Exit codes:
  0         all went well
  1         an expectation failed, nothing was answered, not all players became ready, the server
            of --server ended by itself, the scenario stopped the run, or the run could not begin
  2         asked for wrongly: a flag, a scenario, an expectation
  129, 130, 143  ended by SIGHUP, ^C or SIGTERM; what was measured until then is printed and
            written";

/// The subcommand's flags.
pub fn command() -> Command {
    let command = Command::new("load")
        .about("Put virtual players on a server and measure what they get and what they cost")
        .after_help(after_help())
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .subcommand(find())
        .subcommand(crate::compare::table_command())
        .subcommand(scenarios())
        .subcommand(Command::new("schema").about("Print the JSON Schema of result.json"))
        .arg(scenario_arg());
    run_args(command)
}

fn scenario_arg() -> Arg {
    Arg::new("scenario")
        .value_name("SCENARIO")
        .num_args(1..)
        .required(true)
        .help("Scenario files, or names of built-in ones (see below); several run in turn")
}

/// The flags of a run.
fn run_args(command: Command) -> Command {
    result_args(generator_args(server_args(scenario_args(load_args(command)))))
}

fn after_help() -> String {
    let mut text = String::from("Built-in scenarios (more: throng load scenarios):\n");
    for (name, toml) in BUILT_IN {
        let title = parse(toml).map(|scenario| scenario.title).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<13} {title}");
    }
    text.push_str("\nMetrics of --expect and of thresholds:\n");
    text.push_str(&lab::load::metrics_help());
    text.push('\n');
    text.push_str(EXAMPLES);
    text
}

fn find() -> Command {
    let command = Command::new("find")
        .about("Find the highest rate at which all expectations hold")
        .arg(scenario_arg())
        .arg(value("to", "R", "The highest rate that is tried").value_parser(value_parser!(f64)))
        .arg(
            value("within", "PERCENT", "How near the rate that does not hold has to be")
                .default_value("5")
                .value_parser(value_parser!(f64)),
        )
        .after_help(FIND);
    run_args(command)
}

const FIND: &str = "\
Example:
  throng load find rpc-lua --expect 'response_p99 < 20ms' --players 500 \\
      --server 'throng serve --runtime.path scenarios/modules'

The search begins with --rate (or the scenario's), doubles it until an expectation does not hold
or more than 1 % of what was due could not be sent, and then halves the gap. A run ends as soon as
an expectation cannot hold any more. A rate that does not hold while the generator was in the way
(INVALID) is tried once more. If it does not hold again, the limit was not found: the last line
says so, and the exit code is 1. With --out each run has a folder, DIR/rate-R, and DIR/find.json
says what was tried.";

fn scenarios() -> Command {
    Command::new("scenarios")
        .about("List the built-in scenarios, or print one as a file to copy and edit")
        .arg(Arg::new("name").value_name("NAME").help("Prints this one's TOML file"))
}

/// How much load.
fn load_args(command: Command) -> Command {
    command
        .next_help_heading("Load")
        .arg(
            value("players", "N", "Virtual players; the scenario's number by default")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            value(
                "rate",
                "R",
                "Operations a second (a write of N requests every N/R seconds), of all players or of \
                 each, as the scenario says; its own rate by default",
            )
            // Refused with what it has to be, and not as an unknown flag.
            .allow_negative_numbers(true)
            .value_parser(value_parser!(f64)),
        )
        .arg(
            value(
                "rate-end",
                "R",
                "What the rate becomes, evenly, until the counted time ends; the scenario's by \
                 default, else it stays",
            )
            .allow_negative_numbers(true)
            .value_parser(value_parser!(f64)),
        )
        .arg(value("duration", "TIME", "How long is counted").default_value("10s"))
        .arg(
            value("warmup", "TIME", "How long load runs before that; with phases 0 by default")
                .default_value("2s"),
        )
        .arg(value(
            "ramp",
            "TIME",
            "Time over which the players come; the scenario's by default, and 0 is as fast as the \
             server takes them",
        ))
        .arg(
            Arg::new("saturate")
                .long("saturate")
                .action(ArgAction::SetTrue)
                .help("Closed loop: each operation begins when the last is answered; not with --rate"),
        )
        .arg(
            value("pipeline", "N[,N…]", "HTTP requests in one write; several: a run for each")
                .value_delimiter(',')
                .value_parser(value_parser!(u16).range(1..=1024)),
        )
        .arg(
            value("seed", "N", "Of arrivals, think times and weights; random by default")
                .value_parser(value_parser!(u64)),
        )
}

/// What changes in the scenario.
fn scenario_args(command: Command) -> Command {
    command
        .next_help_heading("Scenario")
        .arg(value("rpc", "ID", "The RPC function called; as --set rpc=ID"))
        .arg(
            value("set", "NAME=VALUE", "Sets a variable of the scenario").action(ArgAction::Append),
        )
}

/// What is measured.
fn server_args(command: Command) -> Command {
    command
        .next_help_heading("Server")
        .arg(
            value(
                "target",
                "URL",
                "Where the server listens, http://host:port, or https://host:port for TLS and wss; if it is not given and --server is, \
                 the address that the server prints; again: more nodes, which share the players",
            )
            .action(ArgAction::Append)
            .default_value("http://127.0.0.1:7350"),
        )
        .arg(
            value("server", "COMMAND", "Start this server on another processor, and end it")
                .conflicts_with("server-pid"),
        )
        .arg(
            value(
                "server-pid",
                "PID",
                "Measure the CPU and memory of this process; again: of more",
            )
            .action(ArgAction::Append)
            .value_parser(value_parser!(u32)),
        )
        .args(tls_args())
        .arg(value(
            "peer",
            "TEXT",
            "What is measured, kept in the result: 'Nakama 3.40, PostgreSQL 15'",
        ))
        .arg(value("server-key", "KEY", "Server key").default_value("defaultkey"))
        .arg(value("http-key", "KEY", "HTTP key").default_value("defaulthttpkey"))
}

/// Where and how the generator runs.
fn generator_args(command: Command) -> Command {
    command
        .next_help_heading("Generator")
        .arg(
            value("pin", "CPU", "Processor of the generator; the last one by default")
                .value_parser(value_parser!(usize)),
        )
        .arg(
            value("processes", "N", "Share the players among processes, for more sockets")
                .value_parser(value_parser!(u16).range(1..=256)),
        )
        .arg(
            value("driver", "WORD", "How the generator asks the kernel for I/O")
                .value_parser(["auto", "uring", "poll"])
                .default_value("auto"),
        )
        .arg(Arg::new("realtime").long("realtime").action(ArgAction::SetTrue).help(
            "Run the generator, and the server of --server, before all ordinary threads \
                 (SCHED_FIFO; takes CAP_SYS_NICE), where a busy machine makes it late",
        ))
        .arg(
            value(
                "bind",
                "ADDRESS",
                "Local address of the connections; the system's choice by default, and over \
                 loopback one of 127/8 for every 8,000 players",
            )
            .value_parser(value_parser!(std::net::IpAddr)),
        )
        .arg(value("worker", "SHARE", "What the controller of several processes says").hide(true))
        .arg(
            value("job", "INDEX", "Which of the command line's runs a worker belongs to")
                .value_parser(value_parser!(usize))
                .default_value("0")
                .hide(true),
        )
}

/// What becomes of the result.
fn result_args(command: Command) -> Command {
    command
        .next_help_heading("Result")
        .arg(
            value(
                "out",
                "DIR",
                "Write result.json, result.hlog, series.csv and report.html there, and what the server \
                 of --server prints as server.log; of several scenarios into DIR/NAME",
            )
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            value("expect", "CONDITION", "Exit with 1 unless it holds: 'rpc.response_p99 < 20ms'")
                .action(ArgAction::Append),
        )
        .arg(
            Arg::new("fail-fast")
                .long("fail-fast")
                .action(ArgAction::SetTrue)
                .help("End the run as soon as one of the expectations cannot hold any more"),
        )
        .arg(
            value(
                "metrics",
                "ADDRESS",
                "Serve the run's figures for Prometheus while it lasts: 127.0.0.1:9464",
            )
            .value_parser(value_parser!(std::net::SocketAddr)),
        )
        .arg(
            value("junit", "FILE", "Write what became of the expectations as JUnit XML")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            value("json", "FILE", "Write the result of one run as JSON")
                .value_parser(value_parser!(PathBuf)),
        )
}

fn value(name: &'static str, form: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(form).help(help)
}

#[cfg(test)]
mod tests {
    use lab::load::scenario::{BUILT_IN, parse};

    #[test]
    fn help_says_the_truth_about_ramps() {
        for (name, toml) in BUILT_IN {
            let seconds = parse(toml).unwrap().ramp.0.as_secs();
            assert_eq!(seconds, if *name == "match" { 5 } else { 0 }, "{name}");
        }
    }

    #[test]
    fn help_fits_a_terminal_and_names_all_scenarios() {
        let text = super::after_help();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(BUILT_IN.iter().all(|(name, _)| text.contains(&format!("\n  {name} "))));
    }
}
