//! `throng host ramp`: how many servers does this machine carry?
//!
//! From flags and a fleet's file to a plan and a daemon that starts and stops servers; from a result to
//! what is printed and written. What is measured, and how, is `lab::ramp`'s.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{ArgAction, ArgMatches, Command, value_parser};
use host::ramp::Chosen;
use host::{Daemon, Options};
use lab::measure::{Intervals, Span};
use lab::ramp::{Gate, Plan, RampResult};

use super::CHILD;
use super::run::folder;
use crate::load::Interrupt;
use crate::load::files::{self, Claim};
use crate::measured::{flag, value};
use crate::{EXIT_FAILED, EXIT_WRONG, complain};

/// The daemon's folder, unless one is named: not that of the fleets that this machine runs.
const FOLDER: &str = "/run/throng-ramp";

const AFTER: &str = "\
Servers of the file are started one after the other: 1, 2, 4, 8, 12 … until no gate holds, with
players of ours on each. Then every number is measured again, in an order drawn from --seed. One
server alone is measured before and after each: steps between which the machine changed are
discarded and measured again.

Who plays is what `ready` says: query = \"throng\" (throng host game) and \"teeworlds\" have players
of ours; \"quake3\" and \"a2s\" have the server's own bots (--bots N waits for them) and are asked for
their status.

A gate is what has to hold of every server in every repeat, besides that no player is lost:
  lateness_p99, lateness_p999   how late snapshots were, against each player's own schedule:
                                10% of a tick, 2ms
  transaction_p99               a command through the simulation and back (throng)
  status_p99                    a status query and its answer
  gaps, missed, ticks_late      parts of all snapshots, ticks
  runqueue_wait                 part of the time that a server waited for a processor
A limit may be counted from what one server alone has: 'lateness_p99 <= alone + 10%'.
Those of 10 % and 25 % of a tick, by themselves and above it, are told in any case.

Examples:
  throng host ramp scenarios/host/game.toml --gate 'lateness_p99 <= 10%' --out DIR
  throng host ramp scenarios/host/game.toml --cores 0 --realtime --price 0.10 --out DIR
  throng host ramp scenarios/host/openarena.toml --bots 8 --tick 50ms --gate 'status_p99 <= 10%' --out DIR

Exit codes: 0 done. 1: it ended early, or the gate does not hold of one server. 2: asked for
wrongly. 128 + n: ended by signal n; what was measured until then is kept.";

/// The subcommand.
pub(super) fn command() -> Command {
    let number = |name, form, help| value(name, form, help).value_parser(value_parser!(u32));
    Command::new("ramp")
        .about("Add servers with players on each until a gate fails: how many does this machine carry?")
        .after_help(AFTER)
        .arg(
            clap::Arg::new("fleet")
                .value_name("FLEET.toml")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The servers; their `count` does not matter here"),
        )
        .arg(value("gate", "CONDITION", "What has to hold [lateness_p99 <= 10%; teeworlds: alone + 10%; else status_p99]"))
        .arg(
            value("out", "DIR", "Write result.json, result.hlog, series.csv and report.html there")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(value("server", "NAME", "Which table of the file, if it has several; the others run beside"))
        .arg(super::flags::subnet())
        .arg(super::flags::folder(FOLDER))
        .arg(number("most", "N", "Servers, at most [256]"))
        .arg(
            value("steps", "N[,…]", "Measure these numbers of servers, all of them")
                .value_delimiter(',')
                .value_parser(value_parser!(u32)),
        )
        .arg(number("repeats", "N", "How often every number is measured [3]"))
        .arg(value("span", "TIME", "Time that counts of each step [20s]"))
        .arg(value("control", "TIME", "And of each control between [10s]"))
        .arg(value("warm-up", "TIME", "Time before it in which all play [3s]"))
        .arg(number("players", "N", "Players of ours on each server [12]"))
        .arg(number("bots", "N", "Players that each server has to tell of before it counts [0]"))
        .arg(
            value("rate", "HZ", "Datagrams a second of each player [30; teeworlds 50]")
                .value_parser(value_parser!(f64)),
        )
        .arg(value("tick", "TIME", "Length of a tick, of servers that do not say it"))
        .arg(
            value("seed", "N", "Of the order of repeats, and of what players do [1]")
                .value_parser(value_parser!(u64)),
        )
        .arg(value("threads", "N", "Threads that play [1]").value_parser(value_parser!(usize)))
        .arg(
            value("cores", "N[,…]", "Processors of those threads; servers have theirs by cpu.cores")
                .value_delimiter(',')
                .value_parser(value_parser!(usize)),
        )
        .arg(flag("realtime", "Let players go before all ordinary threads, so that they are not late"))
        .arg(
            value("drift", "PERCENT", "Of a tick by which controls may differ [2]")
                .value_parser(value_parser!(f64)),
        )
        .arg(
            value("late", "PERCENT", "Of a tick by which players may send late themselves [10]")
                .value_parser(value_parser!(f64)),
        )
        .arg(
            value("steal", "PERCENT", "Of the processors that a host may take from this machine [0.5]")
                .value_parser(value_parser!(f64)),
        )
        .arg(
            value("price", "AMOUNT", "What an hour of this machine costs, for the cost of a player")
                .value_parser(value_parser!(f64)),
        )
        .arg(
            value("watts", "IDLE,BUSY", "Of one processor, for the model of power [0.45,2.02]")
                .value_delimiter(',')
                .action(ArgAction::Set)
                .value_parser(value_parser!(f64)),
        )
}

/// Runs it. The exit code.
pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let (plan, chosen) = match asked(matches, &interrupt) {
        Ok(asked) => asked,
        Err(error) => {
            complain(&format_args!("{error:#}"));
            return Ok(EXIT_WRONG);
        }
    };
    // What cannot be written is found out before the run, not after it.
    let out: Option<&PathBuf> = matches.get_one("out");
    let _claim = out.map(|it| Claim::folder(it)).transpose()?;
    let (result, intervals) = measure(&plan, chosen, folder(matches))?;
    if let Some(out) = out {
        write(out, &result, &intervals)?;
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(lab::ramp::text(&result).as_bytes())?;
    if let Some(out) = out {
        writeln!(stdout, "report: {}", out.join("report.html").display())?;
    }
    Ok(code(&result, &interrupt))
}

/// With a daemon of its own, in a thread.
fn measure(plan: &Plan, chosen: Chosen, own: PathBuf) -> anyhow::Result<(RampResult, Intervals)> {
    // A refusal leaves what held before, which does for some servers.
    let _ = engine::raise_file_limit();
    let child = std::iter::once("/proc/self/exe").chain(CHILD).map(Into::into).collect();
    let mut servers = chosen.servers(&own);
    let options = Options { fleet: chosen.fleet, folder: own, child, keeps: false };
    let mut daemon = Daemon::new(options)?;
    daemon.hold();
    let stopper = daemon.stopper();
    let thread = std::thread::Builder::new().name("daemon".to_owned()).spawn(move || {
        daemon.run(|line| {
            if line.contains(": failed") {
                tell(line);
            }
        });
    })?;
    let ran = lab::ramp::run(plan, &mut servers, &mut tell);
    stopper.stop();
    // It has taken everything down by then.
    let ended = thread.join();
    anyhow::ensure!(
        ended.is_ok(),
        "the daemon has panicked: `throng host clean` takes down what is left"
    );
    Ok(ran?)
}

/// If nobody reads it, the result is what counts.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn write(out: &Path, result: &RampResult, intervals: &Intervals) -> anyhow::Result<()> {
    let written = [
        ("series.csv", lab::ramp::csv(result).into_bytes()),
        ("report.html", lab::ramp::report(result).into_bytes()),
        ("result.hlog", intervals.log_of_ramp(result)),
        ("result.json", lab::measure::json(result)?),
    ];
    files::write(&written.map(|(name, bytes)| (out.join(name), bytes)))
}

fn code(result: &RampResult, interrupt: &Interrupt) -> u8 {
    if let Some((name, code)) = interrupt.signal() {
        complain(&format_args!("ended by {name}"));
        return code;
    }
    if !result.ended.is_empty() {
        complain(&result.ended);
        return EXIT_FAILED;
    }
    if result.gates.first().is_none_or(|it| it.servers == 0) {
        complain(&"the gate does not hold of the fewest servers that were measured");
        return EXIT_FAILED;
    }
    0
}

fn asked(matches: &ArgMatches, interrupt: &Interrupt) -> anyhow::Result<(Plan, Chosen)> {
    let fleet = super::run::read(matches)??;
    let number = |name: &str| matches.get_one::<u32>(name).copied();
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let most = number("most").unwrap_or(256);
    let chosen = Chosen::of(fleet, word("server"), most)?;
    let usual = Plan::usual(chosen.query);
    let span = |name: &str, usual| match word(name) {
        Some(text) => text.parse::<Span>().map(|it| it.0).with_context(|| format!("--{name}")),
        None => Ok(usual),
    };
    let list = |name: &str| matches.get_many::<f64>(name).map(|it| it.copied().collect::<Vec<_>>());
    let watts = list("watts").map(|it| match *it {
        [idle, busy] => Ok([idle, busy]),
        _ => anyhow::bail!("--watts: IDLE,BUSY of one processor, such as 0.45,2.02"),
    });
    let part = |name: &str, usual| matches.get_one::<f64>(name).map_or(usual, |it| it / 100.0);
    let plan = Plan {
        server: chosen.name.clone(),
        wall: chosen.wall.word().to_owned(),
        players: number("players").unwrap_or(usual.players),
        bots: number("bots").unwrap_or(usual.bots),
        rate_hz: matches.get_one("rate").copied().unwrap_or(usual.rate_hz),
        tick: word("tick").map(str::parse::<Span>).transpose().context("--tick")?.map(|it| it.0),
        gate: word("gate")
            .map(str::parse::<Gate>)
            .transpose()
            .context("--gate")?
            .unwrap_or(usual.gate),
        span: span("span", usual.span)?,
        control: span("control", usual.control)?,
        warm_up: span("warm-up", usual.warm_up)?,
        repeats: number("repeats").unwrap_or(usual.repeats),
        most,
        steps: matches.get_many("steps").map(|it| it.copied().collect()).unwrap_or_default(),
        seed: matches.get_one("seed").copied().unwrap_or(usual.seed),
        threads: matches.get_one("threads").copied().unwrap_or(usual.threads),
        cores: matches.get_many("cores").map(|it| it.copied().collect()).unwrap_or_default(),
        is_realtime: matches.get_flag("realtime"),
        drift: part("drift", usual.drift),
        late: part("late", usual.late),
        steal: part("steal", usual.steal),
        price: matches.get_one("price").copied(),
        watts: watts.transpose()?,
        stop: interrupt.is_set.clone(),
        query: usual.query,
        patience: usual.patience,
    };
    plan.check()?;
    Ok((plan, chosen))
}
