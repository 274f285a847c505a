//! `throng load`: virtual players against a server, ours or anybody's.
//!
//! Reads flags into a [`lab::load::Plan`], shows how the run goes, and prints and writes its
//! result. What is measured and how is `lab`'s.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lab::load::scenario::{BUILT_IN, Scenario, Span, built_in, parse};
use lab::load::{Plan, Second, Stage, Target};

const EXAMPLES: &str = "\
Examples:
  throng load plaintext --target http://127.0.0.1:7450 --saturate --pipeline 16
  throng load rpc-lua --target http://127.0.0.1:7350 --rate 2000 --duration 60s
  throng load match --players 1000 --rate 2 --server-pid 4711
  throng load register --saturate --server 'throng serve'
  throng load my-scenario.toml --set rpc=my_function

In the open loop (the default) operations begin on a schedule, whatever the server does, and each is
timed from its intended start too. --saturate is the closed loop: it finds throughput, and its times
say nothing about what users feel.";

/// The subcommand's flags.
pub fn command() -> Command {
    let scenarios: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    Command::new("load")
        .about("Put virtual players on a server and measure what they get and what they cost")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("scenario")
                .value_name("SCENARIO")
                .required(true)
                .help(format!("A file, or one of: {}", scenarios.join(", "))),
        )
        .arg(
            value("target", "URL", "Where the server listens, http://host:port")
                .default_value("http://127.0.0.1:7350"),
        )
        .arg(value("players", "N", "Virtual players").value_parser(value_parser!(u32)))
        .arg(
            value(
                "rate",
                "R",
                "Operations a second: of all players, or of each, as the scenario says",
            )
            .value_parser(value_parser!(f64)),
        )
        .arg(value("duration", "TIME", "How long is counted").default_value("10s"))
        .arg(value("warmup", "TIME", "How long load runs before that").default_value("2s"))
        .arg(value("ramp", "TIME", "Time over which the players come"))
        .arg(
            Arg::new("saturate")
                .long("saturate")
                .action(ArgAction::SetTrue)
                .help("Closed loop: each operation begins when the last is answered"),
        )
        .arg(value("pipeline", "N", "HTTP requests in one write").value_parser(value_parser!(u16)))
        .arg(value("rpc", "ID", "The RPC function called; as --set rpc=ID"))
        .arg(
            value("set", "NAME=VALUE", "Sets a variable of the scenario").action(ArgAction::Append),
        )
        .arg(value("server-key", "KEY", "Server key").default_value("defaultkey"))
        .arg(value("http-key", "KEY", "HTTP key").default_value("defaulthttpkey"))
        .arg(
            value("server-pid", "PID", "Measure the CPU and memory of this process")
                .value_parser(value_parser!(u32)),
        )
        .arg(
            value("server", "COMMAND", "Start this server on another processor, and end it")
                .conflicts_with("server-pid"),
        )
        .arg(
            value("pin", "CPU", "Processor of the generator; the last one by default")
                .value_parser(value_parser!(usize)),
        )
        .arg(
            value("driver", "WORD", "How the generator asks the kernel for I/O")
                .value_parser(["auto", "uring", "poll"])
                .default_value("auto"),
        )
        .arg(
            value("seed", "N", "Of arrivals, think times and weights; random by default")
                .value_parser(value_parser!(u64)),
        )
        .arg(value("json", "FILE", "Write the result as JSON").value_parser(value_parser!(PathBuf)))
}

fn value(name: &'static str, form: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(form).help(help)
}

/// Runs the subcommand.
///
/// # Errors
/// When the run could not begin, its generator failed, or a file cannot be written.
pub fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let plan = plan(matches)?;
    let mut screen = Screen;
    let summary = lab::load::run(&plan, &mut |stage, second| {
        screen.show(stage, second);
        true
    })?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(lab::load::text(&summary).as_bytes())?;
    if let Some(path) = matches.get_one::<PathBuf>("json") {
        let json = serde_json::to_vec_pretty(&summary)?;
        std::fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn plan(matches: &ArgMatches) -> anyhow::Result<Plan> {
    let word = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let span = |name: &str| -> anyhow::Result<Span> {
        word(name).parse().with_context(|| format!("--{name}"))
    };
    let mut vars = BTreeMap::new();
    for pair in matches.get_many::<String>("set").into_iter().flatten() {
        let (name, value) = pair.split_once('=').context("--set wants NAME=VALUE")?;
        vars.insert(name.to_owned(), value.to_owned());
    }
    if let Some(rpc) = matches.get_one::<String>("rpc") {
        vars.insert("rpc".to_owned(), rpc.clone());
    }
    Ok(Plan {
        scenario: scenario(word("scenario"))?,
        target: Target::parse(word("target"))?,
        players: matches.get_one("players").copied(),
        rate: matches.get_one("rate").copied(),
        saturate: matches.get_flag("saturate"),
        duration: span("duration")?,
        warm_up: span("warmup")?,
        ramp: matches.contains_id("ramp").then(|| span("ramp")).transpose()?,
        pipeline: matches.get_one("pipeline").copied(),
        server_key: word("server-key").to_owned(),
        http_key: word("http-key").to_owned(),
        vars,
        server_pid: matches.get_one("server-pid").copied(),
        server: matches.get_one("server").cloned(),
        pin: matches.get_one("pin").copied(),
        driver: word("driver").parse()?,
        seed: matches.get_one("seed").copied(),
    })
}

fn scenario(name: &str) -> anyhow::Result<Scenario> {
    if let Some(text) = built_in(name) {
        return Ok(parse(text)?);
    }
    let text = std::fs::read_to_string(name).with_context(|| {
        format!("`{name}` is neither a built-in scenario nor a file; see `throng load --help`")
    })?;
    parse(&text).with_context(|| name.to_owned())
}

/// How the run goes, a line a second on the standard error.
struct Screen;

impl Screen {
    #[expect(clippy::unused_self, reason = "becomes the live screen")]
    fn show(&mut self, stage: Stage, second: &Second) {
        let done: u64 = second.ops.iter().map(|op| op.done).sum();
        let p99_ns = second.ops.iter().map(|op| op.p99_ns).max().unwrap_or(0);
        // Nobody reads it: the result is what counts.
        let _ = writeln!(
            std::io::stderr().lock(),
            "{:>7.1} s  {:<12} players {:>6}  done {:>9}  p99 {:>8.2} ms  errors {:>5}  cpu {:>3.0} %  server {:>3.0} %",
            second.at_s,
            stage.word(),
            second.players,
            done,
            std::time::Duration::from_nanos(p99_ns).as_secs_f64() * 1e3,
            second.errors,
            second.generator_cpu * 100.0,
            second.server_cpu * 100.0,
        );
    }
}
