//! `throng load`: virtual players against a server, ours or anybody's.
//!
//! Reads flags into a [`lab::load::Plan`], shows how the run goes, and prints and writes its
//! result. What is measured and how is `lab`'s.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lab::load::compare::{self, Run};
use lab::load::expect::{Condition, Verdict};
use lab::load::scenario::{BUILT_IN, Scenario, Span, built_in, parse};
use lab::load::screen::{self, Live, Look};
use lab::load::{Finished, Plan, Progress, Share, Summary, Target};
use signal_hook::consts::{SIGINT, SIGTERM};

const EXAMPLES: &str = "\
Examples:
  throng load plaintext --target http://127.0.0.1:7450 --saturate --pipeline 16
  throng load rpc-lua --target http://127.0.0.1:7350 --rate 2000 --duration 60s
  throng load match --players 1000 --rate 2 --server-pid 4711
  throng load register --saturate --server 'throng serve'
  throng load my-scenario.toml --set rpc=my_function --out results/today
  throng load rpc-lua --expect 'rpc.response_p99 < 20ms' --expect 'errors == 0'
  throng load table ours=results/today nakama=results/nakama

In the open loop (the default) operations begin on a schedule, whatever the server does, and each is
timed from its intended start too. --saturate is the closed loop: it finds throughput, and its times
say nothing about what users feel.";

/// The subcommand's flags.
pub fn command() -> Command {
    let scenarios: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let command = Command::new("load")
        .about("Put virtual players on a server and measure what they get and what they cost")
        .after_help(EXAMPLES)
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .subcommand(
            Command::new("table")
                .about("Lay several runs side by side, in the rows of Nakama's benchmark page")
                .arg(Arg::new("runs").value_name("[NAME=]DIR").num_args(1..).required(true).help(
                    "Folders that --out wrote, or result files; several of one NAME are \
                             rounds: their median and range",
                ))
                .arg(
                    value("html", "FILE", "Write the comparison as one HTML file with charts")
                        .value_parser(value_parser!(PathBuf)),
                ),
        )
        .subcommand(Command::new("schema").about("Print the JSON Schema of result.json"))
        .arg(
            Arg::new("scenario")
                .value_name("SCENARIO")
                .required(true)
                .help(format!("A scenario file, or one of: {}", scenarios.join(", "))),
        )
        .arg(
            value("target", "URL", "Where the server listens, http://host:port; again: more nodes")
                .action(ArgAction::Append)
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
        .arg(
            value("pipeline", "N[,N…]", "HTTP requests in one write; several: a run for each")
                .value_delimiter(',')
                .value_parser(value_parser!(u16).range(1..=1024)),
        )
        .arg(value("rpc", "ID", "The RPC function called; as --set rpc=ID"))
        .arg(
            value("set", "NAME=VALUE", "Sets a variable of the scenario").action(ArgAction::Append),
        )
        .arg(value("server-key", "KEY", "Server key").default_value("defaultkey"))
        .arg(value("http-key", "KEY", "HTTP key").default_value("defaulthttpkey"));
    machine_args(output_args(command))
}

/// What is measured beside the players, and where the generator runs.
fn machine_args(command: Command) -> Command {
    command
        .arg(
            value(
                "server-pid",
                "PID",
                "Measure the CPU and memory of this process; again: of more",
            )
            .action(ArgAction::Append)
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
            value("processes", "N", "Share the players among processes, for more sockets")
                .value_parser(value_parser!(u16).range(1..=256)),
        )
        .arg(value("worker", "SHARE", "What the controller of several processes says").hide(true))
        .arg(
            value("driver", "WORD", "How the generator asks the kernel for I/O")
                .value_parser(["auto", "uring", "poll"])
                .default_value("auto"),
        )
        .arg(
            value("seed", "N", "Of arrivals, think times and weights; random by default")
                .value_parser(value_parser!(u64)),
        )
}

/// What becomes of the result.
fn output_args(command: Command) -> Command {
    command
        .arg(
            value("out", "DIR", "Write result.json, result.hlog, series.csv and report.html there")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(value(
            "peer",
            "TEXT",
            "What is measured, kept in the result: 'Nakama 3.40, PostgreSQL 15'",
        ))
        .arg(
            value("expect", "CONDITION", "Exit with 1 unless it holds: 'rpc.response_p99 < 20ms'")
                .action(ArgAction::Append),
        )
        .arg(
            value("junit", "FILE", "Write what became of the expectations as JUnit XML")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(value("json", "FILE", "Write the result as JSON").value_parser(value_parser!(PathBuf)))
}

fn value(name: &'static str, form: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(form).help(help)
}

/// Runs the subcommand. Whether all expectations hold.
///
/// # Errors
/// When the run could not begin, its generator failed, or a file cannot be written.
pub fn run(matches: &ArgMatches) -> anyhow::Result<bool> {
    if let Some(("table", matches)) = matches.subcommand() {
        return table(matches).map(|()| true);
    }
    if let Some(("schema", _)) = matches.subcommand() {
        std::io::stdout().lock().write_all(lab::load::schema().as_bytes())?;
        return Ok(true);
    }
    let plan = plan(matches)?;
    if let Some(share) = matches.get_one::<String>("worker") {
        lab::load::work(&plan, &worker_share(share).context("--worker")?)?;
        return Ok(true);
    }
    // Found out before the run, not after it.
    let conditions = conditions(matches, &plan.scenario)?;
    let folder = matches.get_one::<PathBuf>("out");
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let depths: Vec<u16> = matches.get_many("pipeline").into_iter().flatten().copied().collect();
    if depths.len() < 2 {
        return one_run(matches, &plan, &conditions, folder, &stop);
    }
    anyhow::ensure!(plan.processes == 1, "several depths of --pipeline need --processes 1");
    // A sweep: a run for each depth, then all of them in one table.
    let mut holds = true;
    let mut runs = Vec::new();
    for depth in depths {
        let plan = Plan { pipeline: Some(depth), ..plan.clone() };
        let folder = folder.map(|folder| folder.join(format!("pipeline-{depth}")));
        holds &= one_run(matches, &plan, &conditions, folder.as_ref(), &stop)?;
        let Some(folder) = folder else { continue };
        let text = std::fs::read(folder.join("result.json"))?;
        runs.push((format!("{depth} in a write"), serde_json::from_slice::<Summary>(&text)?));
    }
    print_table(&runs).map(|()| holds)
}

fn one_run(
    matches: &ArgMatches,
    plan: &Plan,
    conditions: &[Condition],
    folder: Option<&PathBuf>,
    stop: &AtomicBool,
) -> anyhow::Result<bool> {
    let mut screen = Screen::default();
    let finished = lab::load::run(plan, &mut |progress| {
        screen.show(progress);
        !stop.load(Ordering::Relaxed)
    })?;
    let summary = &finished.summary;
    let verdicts: Vec<Verdict> = conditions.iter().map(|it| it.check(summary)).collect();
    if let Some(folder) = folder {
        write_files(folder, &finished)?;
    }
    if let Some(path) = matches.get_one::<PathBuf>("json") {
        write(path, &serde_json::to_vec_pretty(summary)?)?;
    }
    if let Some(path) = matches.get_one::<PathBuf>("junit") {
        write(path, lab::load::expect::junit(summary, &verdicts).as_bytes())?;
    }
    let mut stdout = std::io::stdout().lock();
    if stdout.is_terminal() {
        // Apart from the screen above it.
        writeln!(stdout)?;
    }
    stdout.write_all(lab::load::text(summary).as_bytes())?;
    if let Some(folder) = folder {
        writeln!(stdout, "report: {}", folder.join("report.html").display())?;
    }
    for verdict in &verdicts {
        let word = if verdict.holds { "ok    " } else { "FAILED" };
        writeln!(stdout, "{word} {}: {}", verdict.condition, verdict.found)?;
    }
    anyhow::ensure!(summary.counted_s > 0.0, "the run ended before anything was counted");
    Ok(verdicts.iter().all(|verdict| verdict.holds))
}

/// `index/count/run/url`, as a controller writes it.
fn worker_share(text: &str) -> Option<Share> {
    let mut parts = text.splitn(4, '/');
    Some(Share {
        index: parts.next()?.parse().ok()?,
        count: parts.next()?.parse().ok().filter(|count| *count > 0)?,
        run_number: u32::from_str_radix(parts.next()?, 16).ok()?,
        urls: parts.next()?.split(',').map(str::to_owned).collect(),
    })
}

fn conditions(matches: &ArgMatches, scenario: &Scenario) -> anyhow::Result<Vec<Condition>> {
    let given = matches.get_many::<String>("expect").into_iter().flatten();
    let texts = scenario.thresholds.iter().chain(given);
    texts.map(|text| text.parse().map_err(anyhow::Error::from)).collect()
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

fn write_files(folder: &Path, finished: &Finished) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let summary = &finished.summary;
    let ops: Vec<&str> = summary.ops.iter().map(|op| op.name.as_str()).collect();
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(summary.started_unix_s);
    let comment = format!("throng load {}, nanoseconds", summary.scenario);
    write(&folder.join("result.json"), &serde_json::to_vec_pretty(summary)?)?;
    write(&folder.join("result.hlog"), &finished.intervals.log(&ops, started, &comment))?;
    write(&folder.join("series.csv"), lab::load::csv(summary).as_bytes())?;
    write(&folder.join("report.html"), lab::load::html(summary).as_bytes())
}

/// `throng load table DIR…`.
fn table(matches: &ArgMatches) -> anyhow::Result<()> {
    let page = matches.get_one::<PathBuf>("html");
    let page_folder = page.map(|page| folder_of(page)).transpose()?;
    let mut runs = Vec::new();
    for given in matches.get_many::<String>("runs").into_iter().flatten() {
        let (name, place) = match given.split_once('=') {
            Some((name, place)) => (name.to_owned(), Path::new(place)),
            None => (String::new(), Path::new(given)),
        };
        let file = if place.is_dir() { place.join("result.json") } else { place.to_owned() };
        let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
        let summary: Summary =
            serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        let fallback = place.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = if name.is_empty() { fallback.unwrap_or_default() } else { name };
        let report = page_folder.as_ref().and_then(|folder| report_link(folder, &file));
        runs.push(Run { name, summary, report });
    }
    if let Some(page) = page {
        write(page, lab::load::comparison(&runs).as_bytes())?;
    }
    std::io::stdout().lock().write_all(compare::markdown(&runs).as_bytes())?;
    Ok(())
}

/// The folder that a file lies or will lie in, absolute.
fn folder_of(file: &Path) -> anyhow::Result<PathBuf> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    folder.canonicalize().with_context(|| folder.display().to_string())
}

/// The link from a page in `folder` to the report beside a result, if there is one.
fn report_link(folder: &Path, result: &Path) -> Option<String> {
    let report = result.canonicalize().ok()?.with_file_name("report.html");
    // Only a result that has its usual name has a report beside it that is its own.
    let is_own = result.file_name().is_some_and(|name| name == "result.json");
    (is_own && report.is_file()).then(|| compare::relative(folder, &report)).flatten()
}

fn print_table(runs: &[(String, Summary)]) -> anyhow::Result<()> {
    let run = |(name, summary)| {
        let (name, summary) = (String::clone(name), Summary::clone(summary));
        Run { name, summary, report: None }
    };
    let runs: Vec<Run> = runs.iter().map(|(name, summary)| run((name, summary))).collect();
    std::io::stdout().lock().write_all(compare::markdown(&runs).as_bytes())?;
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
    let targets = matches.get_many::<String>("target").into_iter().flatten();
    Ok(Plan {
        scenario: scenario(word("scenario"))?,
        targets: targets.map(|url| Target::parse(url)).collect::<Result<_, _>>()?,
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
        server_pids: matches.get_many("server-pid").into_iter().flatten().copied().collect(),
        server: matches.get_one("server").cloned(),
        pin: matches.get_one("pin").copied(),
        driver: word("driver").parse()?,
        seed: matches.get_one("seed").copied(),
        processes: matches.get_one("processes").copied().unwrap_or(1),
        peer: word("peer").to_owned(),
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
