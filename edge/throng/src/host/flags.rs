//! The flags of `throng host`, and its help.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};
use host::fleet::Subnet;

const EXAMPLES: &str = r#"A fleet is a file:

  [[server]]
  name = "arena"
  count = 2
  command = ["/usr/games/openarena-server", "+set", "dedicated", "1", "+set", "net_port", "27960",
             "+map", "oa_dm1"]
  port = 27960                 # both insist on it: the wall gives each an address of its own
  wall = "network"
  ready = { query = "quake3" } # or { port = 27960 }, { log = "a text" }, { sdk = true }

A GameServer or Fleet of Agones is one, too: throng host run gameserver.yaml; every server finds the Agones SDK.

Walls, each with those before it:
  process   its own user, no capabilities, a filter of system calls (without root: your user)
  cgroup    limits of memory and processes, shares of processors               takes root
  files     its own view of the files, changes of its own, own process ids     takes root
  network   its own network and address                                        takes root

Examples:
  throng host run fleet.toml      start it, in the foreground; Ctrl-C takes everything down
  throng host ps                  every server: state, address, players, CPU, what happened to it
  throng host logs arena-1
  throng host allocate arena      one that is ready, for a match
  throng host stop arena-1
  throng host stop --all          all of them, and the daemon
  throng host ramp game.toml      how many of them does this machine carry?
  throng host paths               what does a network of its own cost a server?

Without root, --folder names a folder of your own. The guide is docs/host.md."#;

const RUN: &str = "\
The daemon stays in the foreground. SIGINT and SIGTERM take everything down: processes, groups,
mounts, networks. With --keep they leave the servers running, and the next `throng host run` goes on
with them, as it does after a kill -9. SIGHUP, of a terminal that goes away, always leaves them.
What an earlier daemon left and the file does not name is ended and removed, and nothing else.

Exit codes: 0 taken down. 1: could not do it. 2: the file is wrong.";

/// The flag of everything that has to do with a daemon.
pub(super) fn folder(usual: &'static str) -> Arg {
    Arg::new("folder")
        .long("folder")
        .value_name("DIR")
        .default_value(usual)
        .value_parser(value_parser!(PathBuf))
        .help("The daemon's folder: socket, records and logs; a daemon for each")
}

/// The subcommand.
pub fn command() -> Command {
    Command::new("host")
        .about("Run dedicated game servers, many on one machine, each in its own walls (Linux)")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run())
        .subcommands(asking())
        .subcommands(measuring())
}

/// What asks a daemon, or looks at what one has left.
fn asking() -> Vec<Command> {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let name = |help: &'static str| Arg::new("name").value_name("NAME").help(help);
    let pairs = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("KEY=VALUE").action(ArgAction::Append).help(help)
    };
    let json = || flag("json", "As JSON, what the HTTP API gives");
    let all = [
        Command::new("ps").about("Every server, and what happened to it").arg(json()),
        Command::new("top")
            .about("The same as a live screen, the busiest first; q ends it")
            .arg(flag("once", "One picture over a second, and an end")),
        Command::new("logs")
            .about("The last lines that a server has printed")
            .arg(name("The server").required(true))
            .arg(
                Arg::new("lines")
                    .long("lines")
                    .short('n')
                    .value_name("N")
                    .default_value("100")
                    .value_parser(value_parser!(usize))
                    .help("How many"),
            ),
        Command::new("stop")
            .about("Stop a server, or all of a table, or everything")
            .arg(name("The server, or its table in the file"))
            .arg(flag("all", "All of them, and the daemon").conflicts_with("name")),
        Command::new("start")
            .about("Start again what was stopped or has failed")
            .arg(name("The server, or its table in the file").required(true)),
        Command::new("allocate")
            .about("Give away a server that is ready; waits while one is being started")
            .arg(name("The server, or its table in the file; else any"))
            .arg(pairs("label", "A label that it is told by the SDK; may be repeated"))
            .arg(pairs("annotation", "An annotation, likewise"))
            .arg(json()),
        Command::new("clean")
            .about("Remove what a daemon left that was killed, its servers included"),
    ];
    all.into_iter().map(|it| it.arg(folder(host::FOLDER))).collect()
}

/// What measures is Linux's as a whole; elsewhere nothing else of it is there.
#[cfg(target_os = "linux")]
fn measuring() -> [Command; 3] {
    [super::ramp::command(), super::paths::command(), super::game::command()]
}

/// Likewise.
#[cfg(not(target_os = "linux"))]
fn measuring() -> [Command; 0] {
    []
}

/// The flag by which two daemons stand side by side, whatever their files say. Files of Agones cannot say it.
pub(super) fn subnet() -> Arg {
    Arg::new("subnet")
        .long("subnet")
        .value_name("NETWORK")
        .value_parser(value_parser!(Subnet))
        .help("Where servers behind wall = \"network\" have their addresses from, instead of [host] subnet")
}

fn run() -> Command {
    Command::new("run")
        .about("Start a fleet and look after it")
        .after_help(RUN)
        .arg(
            Arg::new("fleet")
                .value_name("FLEET.toml")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The servers; or .yaml, a GameServer or Fleet of Agones"),
        )
        .arg(subnet())
        .arg(folder(host::FOLDER))
        .arg(
            Arg::new("keep")
                .long("keep")
                .action(ArgAction::SetTrue)
                .help("Leave the servers running when this ends"),
        )
}
