//! The command line: subcommands, flags and their help. The flags of `serve` and `check` are the
//! option table's rows.
//!
//! What is deliberately not here: what the values mean (`config.rs`) and what the commands do.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::config::Driver;
use crate::config::source::{Given, Source};
use crate::options::{BUILT, Kind, Opt, Origin, UNBUILT};
use crate::reference::functions::Language;

/// What the command line asks for.
pub enum Asked {
    /// `throng serve`.
    Serve(ConfigArgs),
    /// `throng check`; `strict` lets it fail for warnings.
    Check { args: ConfigArgs, strict: bool },
    /// `throng echo`.
    Echo(EchoOptions),
    /// `throng load`.
    Load(ArgMatches),
    /// `throng doctor`.
    Doctor(ArgMatches),
    /// `throng compare`.
    Compare(ArgMatches),
    /// `throng ping`.
    Ping(ArgMatches),
    /// `throng flow`.
    Flow(ArgMatches),
    /// `throng host`.
    Host(ArgMatches),
    /// `throng options`.
    Options {
        /// A word of their names; empty for all.
        word: String,
        markdown: bool,
    },
    /// `throng keys`.
    Keys,
    /// `throng calls`; `word` is a part of a name, "" for all.
    Calls { word: String, form: Form },
    /// `throng functions`; `word` is a part of a name, "" for all.
    Functions { word: String, language: Language, form: Form },
}

/// How a table is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For a terminal.
    Text,
    /// A page of `docs/`.
    Markdown,
    /// For programs.
    Json,
}

impl Form {
    fn of(args: &ArgMatches) -> Self {
        if args.get_flag("json") {
            Self::Json
        } else if args.get_flag("markdown") {
            Self::Markdown
        } else {
            Self::Text
        }
    }
}

/// Where the configuration comes from.
pub struct ConfigArgs {
    /// `--config`, in order.
    pub files: Vec<PathBuf>,
    /// The options given as flags.
    pub flags: Vec<Given>,
}

/// Options of `throng echo`.
#[derive(Clone, Debug)]
pub struct EchoOptions {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on; 0 lets the system choose.
    pub port: u16,
    /// How the kernel is asked for I/O.
    pub driver: Driver,
    /// Threads, at least 1.
    pub cores: usize,
    /// Whether each thread is bound to a CPU of its own.
    pub pin: bool,
    /// Whether datagrams are answered at the same port.
    pub udp: bool,
}

const ABOUT: &str = "throng runs multiplayer games at the limit of the machine.";

const EXAMPLES: &str = "\
Examples:
  throng serve                                     game backend on 127.0.0.1:7350, data in ./data
  throng serve --config game.yaml --socket.port 8000
  throng check --config game.yaml                  is this configuration right?
  throng options                                   every option, with its default and range
  throng functions storage                         what scripts may call, with examples
  throng calls storage                             what clients may call: routes and messages
  throng echo --port 7450                          what can this machine do at most?
  throng load rpc-lua --server 'throng serve --runtime.path scenarios/modules'
                                                   virtual players against a server
  throng ping 127.0.0.1:9500 --udp                 how long is the way there and back?
  throng flow 127.0.0.1:9500 --udp                 how much goes through, and what does it cost?
  throng flow styles                               how are datagrams best received here?
  throng host run fleet.toml                       many game servers, each in its own walls
  throng doctor                                    is this machine set up for it?
  throng compare results/before results/after      what changed, and is it more than noise?";

const SERVE_EXAMPLES: &str = "\
Examples:
  throng serve
  throng serve --data_dir /var/lib/throng --config game.yaml --config secrets.yaml
  throng serve --socket.address 0.0.0.0 --session.token_expiry_sec 7200

Options stand in a YAML file (`socket: {port: 7350}`) or on the command line (`--socket.port
7350`). Later files win over earlier ones, the command line wins over files. Environment variables
are not read. The names are Nakama's, and its configuration files work as they are: for an option
that has no effect here (a database address, say) a warning says what stands in its place. Modules
are read from `data_dir`/modules at the start.

Stop it with SIGTERM or Ctrl-C: matches get `shutdown_grace_sec` to end. A second signal stops it at
once.";

const CHECK_EXAMPLES: &str = "\
Examples:
  throng check --config game.yaml
  throng check --runtime.path my-modules --strict

It prints the options in force, what the modules register, and what is odd about either. Exit code
2: an option is wrong. 1: a module does not load, or a line in it is certain to fail when it is
run, such as a call of a function that there is not. 0 with warnings: what may be meant, such as a
function that throng does not have yet; with --strict these are failures as well.";

/// Reads the command line; `--help`, `--version` and mistakes end as errors that clap prints.
///
/// # Errors
/// What clap has to say, with its exit code.
pub fn parse<I, T>(args: I) -> Result<Asked, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = command().try_get_matches_from(args)?;
    match matches.subcommand() {
        Some(("serve", args)) => Ok(Asked::Serve(config_args(args))),
        Some(("check", args)) => {
            Ok(Asked::Check { args: config_args(args), strict: args.get_flag("strict") })
        }
        Some(("echo", args)) => Ok(Asked::Echo(echo_options(args))),
        Some(("load", args)) => Ok(Asked::Load(args.clone())),
        Some(("doctor", args)) => Ok(Asked::Doctor(args.clone())),
        Some(("compare", args)) => Ok(Asked::Compare(args.clone())),
        Some(("ping", args)) => Ok(Asked::Ping(args.clone())),
        Some(("flow", args)) => Ok(Asked::Flow(args.clone())),
        Some(("host", args)) => Ok(Asked::Host(args.clone())),
        Some(("options", args)) => Ok(Asked::Options {
            word: args.get_one::<String>("word").cloned().unwrap_or_default(),
            markdown: args.get_flag("markdown"),
        }),
        Some(("keys", _)) => Ok(Asked::Keys),
        Some(("calls", args)) => Ok(Asked::Calls {
            word: args.get_one::<String>("word").cloned().unwrap_or_default(),
            form: Form::of(args),
        }),
        Some(("functions", args)) => Ok(Asked::Functions {
            word: args.get_one::<String>("word").cloned().unwrap_or_default(),
            language: if args.get_flag("javascript") {
                Language::JavaScript
            } else {
                Language::Lua
            },
            form: Form::of(args),
        }),
        _ => Err(command().error(clap::error::ErrorKind::MissingSubcommand, "no command given")),
    }
}

/// The whole command line.
pub fn command() -> Command {
    Command::new("throng")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(with_options(
            Command::new("serve")
                .about("Run a game backend that speaks the Nakama client protocol")
                .after_help(SERVE_EXAMPLES),
        ))
        .subcommand(with_options(
            Command::new("check")
                .about("Check the configuration and the modules; starts nothing")
                .after_help(CHECK_EXAMPLES)
                .arg(flag("strict", "Fail for warnings as well")),
        ))
        .subcommand(echo())
        .subcommand(crate::load::command())
        .subcommand(crate::doctor::command())
        .subcommand(crate::compare::command())
        .subcommand(crate::ping::command())
        .subcommand(crate::flow::command())
        .subcommand(crate::host::command())
        .subcommands(references())
}

/// What prints pages of reference.
fn references() -> [Command; 4] {
    [
        Command::new("options")
            .about("Print every option with its default, range and meaning")
            .after_help("Examples:\n  throng options\n  throng options fetch")
            .arg(Arg::new("word").value_name("WORD").help(
                "Only options with this word in their name, or, if there is none, in their meaning",
            ))
            .arg(flag("markdown", "As Markdown, the source of docs/configuration.md")),
        Command::new("keys")
            .about("Print a configuration file with fresh keys")
            .after_help("Example:\n  throng keys > keys.yaml && throng serve --config keys.yaml"),
        Command::new("calls")
            .about("Print the calls of the API: routes, requests, answers")
            .after_help("Examples:\n  throng calls\n  throng calls storage")
            .arg(
                Arg::new("word").value_name("WORD").help("Only calls with this word in their name"),
            )
            .arg(flag("markdown", "As Markdown, the source of docs/api.md"))
            .arg(
                flag(
                    "json",
                    "As JSON, for programs: every call, and all messages with their fields",
                )
                .conflicts_with_all(["markdown", "word"]),
            ),
        Command::new("functions")
            .about("Print what modules may call: arguments, results, examples in Lua")
            .after_help(
                "Examples:\n  throng functions\n  throng functions storage_write\n  \
                     throng functions --javascript storageWrite",
            )
            .arg(Arg::new("word").value_name("WORD").help(
                "Only functions with this word in their name, or, if there is none, in \
                             their meaning",
            ))
            .arg(flag("javascript", "Under the names that they have in JavaScript"))
            .arg(flag(
                "markdown",
                "As Markdown, the source of functions.md in docs/lua, docs/javascript",
            ))
            .arg(
                flag(
                    "json",
                    "As JSON, for programs: every function with its arguments and results",
                )
                .conflicts_with_all(["markdown", "javascript", "word"]),
            ),
    ]
}

fn with_options(command: Command) -> Command {
    let files = Arg::new("config")
        .long("config")
        .value_name("FILE.yaml")
        .action(ArgAction::Append)
        .value_parser(value_parser!(PathBuf))
        .help("Configuration file; may be given several times, later files win");
    let built = BUILT.iter().map(option_arg);
    // Known flags that are not obeyed are taken, so that the message can say why.
    let unbuilt = unbuilt_names().map(|name| value_arg(name).action(ArgAction::Append).hide(true));
    command.args_override_self(true).next_line_help(true).arg(files).args(built).args(unbuilt)
}

/// The options that are not obeyed and can be flags: whole sections cannot.
fn unbuilt_names() -> impl Iterator<Item = &'static str> {
    UNBUILT.iter().map(|opt| opt.name).filter(|name| !name.ends_with('*'))
}

fn value_arg(name: &'static str) -> Arg {
    Arg::new(name).long(name).num_args(1)
}

fn option_arg(opt: &'static Opt) -> Arg {
    let arg = value_arg(opt.name)
        .value_name(opt.kind.placeholder())
        .help_heading(heading(opt))
        .help(short_help(opt))
        .long_help(long_help(opt));
    let arg = match opt.short {
        Some(flag) => arg.visible_alias(flag),
        None => arg,
    };
    match opt.kind {
        Kind::List(_) => arg.action(ArgAction::Append),
        // As Nakama's flags: `--logger.stdout` alone is true.
        Kind::Switch => arg.num_args(0..=1).default_missing_value("true"),
        _ => arg,
    }
}

fn heading(opt: &Opt) -> String {
    match opt.section() {
        "" => "Process".to_owned(),
        section => format!("{section}.*"),
    }
}

fn short_help(opt: &Opt) -> String {
    let first = opt.help.split_inclusive(". ").next().unwrap_or(opt.help);
    format!("{} [{}]", first.trim_end().trim_end_matches('.'), opt.default_text())
}

fn long_help(opt: &Opt) -> String {
    let (help, default, form) = (opt.help, opt.default_text(), opt.kind.describe());
    let remark = match opt.origin {
        Origin::Original => String::new(),
        Origin::Differs(how) => format!(" Differs from Nakama: {how}."),
        Origin::Ours => " Not in Nakama.".to_owned(),
    };
    format!("{help}\nDefault: {default}. Form: {form}.{remark}")
}

fn config_args(matches: &ArgMatches) -> ConfigArgs {
    let names = BUILT.iter().map(|opt| opt.name).chain(unbuilt_names());
    let flags = names.filter_map(|name| {
        let items: Vec<String> = matches.get_many::<String>(name)?.cloned().collect();
        Some(Given { name: name.to_owned(), items, from: Source::Flag })
    });
    ConfigArgs {
        flags: flags.collect(),
        files: matches.get_many("config").map(|files| files.cloned().collect()).unwrap_or_default(),
    }
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn echo() -> Command {
    let arg = |name, value, default, help| {
        Arg::new(name).long(name).value_name(value).default_value(default).help(help)
    };
    Command::new("echo")
        .about("Run a bare echo server on the engine: what can this machine do at most?")
        .after_help(
            "Examples:\n  throng echo --port 7450\n  throng echo --driver poll\n  \
             wrk -c 64 -t 1 -d 10 http://127.0.0.1:7450/plaintext\n  \
             throng echo --udp & throng ping 127.0.0.1:7450 --udp --plain\n\n\
             GET /plaintext and GET /json by the TechEmpower rules; a WebSocket on /ws sends every \
             message back, one on /room to all who are there (64 KiB at most).\n\n\
             With --udp each datagram goes back to its sender from the same port, as it is. Not answered: \
             senders at this port's number, at ports below 1,024 (on loopback only at 7, 13, 17, 19 and \
             37), and addresses of nobody or many, because they would answer in turn or are forged. \
             How many were received, answered and lost is said at the end.",
        )
        .arg(
            arg("address", "IP", "127.0.0.1", "Address to listen on")
                .value_parser(value_parser!(IpAddr)),
        )
        .arg(
            arg("port", "PORT", "7450", "Port to listen on; 0 lets the system choose")
                .value_parser(value_parser!(u16)),
        )
        .arg(
            arg("driver", "WORD", "auto", "How the kernel is asked for I/O")
                .value_parser(["auto", "uring", "poll"]),
        )
        .arg(
            arg("cores", "N", "1", "Threads, 1 to 256")
                .value_parser(value_parser!(u16).range(1..=256)),
        )
        .arg(flag("pin", "Bind each thread to a CPU of its own"))
        .arg(flag("udp", "Answer datagrams too, at the same port"))
}

fn echo_options(matches: &ArgMatches) -> EchoOptions {
    let word = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    EchoOptions {
        address: matches
            .get_one("address")
            .copied()
            .unwrap_or(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)),
        port: matches.get_one("port").copied().unwrap_or_default(),
        driver: Driver::from_word(word("driver")),
        cores: matches.get_one::<u16>("cores").copied().unwrap_or(1).into(),
        pin: matches.get_flag("pin"),
        udp: matches.get_flag("udp"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_sound() {
        command().debug_assert();
    }

    /// clap breaks lines at 100 columns; what is longer and stands within a paragraph that was broken by
    /// hand is broken twice.
    #[test]
    fn help_is_not_broken_twice() {
        fn look(command: &Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = help.lines().collect();
            for pair in lines.windows(2) {
                let is_long = pair[0].chars().count() > 100;
                assert!(!is_long || pair[1].is_empty(), "{path}: {}", pair[0]);
            }
            command.get_subcommands().for_each(|it| look(it, &path));
        }
        look(&command(), "");
    }

    fn flags(line: &str) -> Vec<(String, Vec<String>)> {
        match parse(line.split(' ')) {
            Ok(Asked::Serve(args)) => args.flags.into_iter().map(|g| (g.name, g.items)).collect(),
            Ok(_) => panic!("not serve: {line}"),
            Err(error) => panic!("{line}: {error}"),
        }
    }

    #[test]
    fn flags_take_the_dotted_names() {
        for (line, wanted) in [
            ("throng serve", &[][..]),
            ("throng serve --socket.port 1", &[("socket.port", &["1"][..])]),
            ("throng serve --socket.port=1", &[("socket.port", &["1"])]),
            ("throng serve --socket.port 1 --socket.port 2", &[("socket.port", &["2"])]),
            (
                "throng serve --runtime.env A=1 --runtime.env B=2",
                &[("runtime.env", &["A=1", "B=2"])],
            ),
            ("throng serve --watch", &[("runtime.watch", &["true"])]),
            ("throng serve --runtime.watch=false", &[("runtime.watch", &["false"])]),
            ("throng serve --logger.stdout", &[("logger.stdout", &["true"])]),
            ("throng serve --logger.stdout false", &[("logger.stdout", &["false"])]),
            (
                "throng serve --logger.stdout=f --name x",
                &[("name", &["x"]), ("logger.stdout", &["f"])],
            ),
            ("throng serve --matchmaker.interval_sec 30", &[("matchmaker.interval_sec", &["30"])]),
        ] {
            let wanted: Vec<_> = wanted
                .iter()
                .map(|(name, items)| {
                    (name.to_string(), items.iter().map(ToString::to_string).collect::<Vec<_>>())
                })
                .collect();
            assert_eq!(flags(line), wanted, "{line}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, part) in [
            ("throng serve --socket.prot 1", "--socket.port"),
            ("throng sevre", "serve"),
            ("throng serve --socket.port", "PORT|N|value is required"),
            ("throng echo --driver epoll", "auto, uring, poll"),
            ("throng echo --cores 0", "1..=256"),
        ] {
            let error = match parse(line.split(' ')) {
                Ok(_) => panic!("taken: {line}"),
                Err(error) => error.to_string(),
            };
            assert!(part.split('|').any(|part| error.contains(part)), "{line}: {error}");
        }
    }

    #[test]
    fn echo_has_defaults() {
        let Ok(Asked::Echo(echo)) = parse(["throng", "echo"]) else { panic!("not echo") };
        assert_eq!((echo.address.to_string(), echo.port), ("127.0.0.1".to_owned(), 7450));
        assert_eq!(echo.driver, Driver::Auto);
        assert_eq!((echo.cores, echo.pin, echo.udp), (1, false, false));
    }
}
