//! `throng host paths`: what it costs to give a server a network of its own.
//!
//! From flags to a plan, and from a result to what is printed and written; what is measured is `lab::paths`'s.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{ArgAction, ArgMatches, Command, value_parser};
use lab::measure::Span;
use lab::paths::{Path, PathsResult, Plan};
use lab::ping::{Interval, Size};

use crate::load::Interrupt;
use crate::measured::value;
use crate::side_by_side::{self, Compared};

const AFTER: &str = "\
Round trips of UDP at each size, then TCP and UDP as fast as they go, over each path in turn:
  loopback      both on this host
  wire          a cable (a veth pair) to a machine whose network the server has: native
  macvlan       a network of the server's own, beside that machine's interface
  bridge        one behind a bridge of that machine's
  translation   one behind its address translation; takes nft or iptables
All but loopback are network namespaces that it makes, which takes root, and that go with it. What
is not possible here is a row that says why.

Examples:
  throng host paths --out DIR
  throng host paths --interval 0 --path wire,macvlan,bridge

Exit codes: 0 done; 1 nothing could be measured; 2 asked for wrongly; 128 + n ended by signal n.
What was measured until then is kept.";

/// The subcommand.
pub(super) fn command() -> Command {
    let list = |name, form, help: String| {
        value(name, form, "").value_delimiter(',').action(ArgAction::Append).help(help)
    };
    Command::new("paths")
        .about("Compare the ways to a server: same host, macvlan, bridge, address translation")
        .after_help(AFTER)
        .arg(
            value("out", "DIR", "Write result.json, series.csv and report.html there")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(list(
            "path",
            "NAME[,…]",
            format!("Which: {} [all]", Path::ALL.map(Path::name).join(", ")),
        ))
        .arg(list("size", "BYTES[,…]", "Bytes of a datagram [64,256,1k]".to_owned()).short('l'))
        .arg(
            value("streams", "N", "Pings at one time")
                .default_value("8")
                .value_parser(value_parser!(u16)),
        )
        .arg(
            value("interval", "TIME", "Between the pings of each; 0 is back to back [10ms]")
                .short('i'),
        )
        .arg(value("time", "TIME", "Of each size and flow [5s]").short('t'))
        .arg(
            value("rounds", "N", "How often everything is measured")
                .default_value("3")
                .value_parser(value_parser!(u32)),
        )
}

/// Runs it. The exit code.
pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let checked = |matches: &ArgMatches, interrupt: &Interrupt| {
        let plan = plan(matches, interrupt)?;
        plan.check()?;
        let is_root = rustix::process::geteuid().is_root();
        anyhow::ensure!(
            is_root || plan.paths == [Path::Loopback],
            "takes root, as it makes networks: without it there is --path loopback"
        );
        Ok(plan)
    };
    side_by_side::run(matches, checked, |plan: &Plan, tell| Ok(lab::paths::run(plan, tell)?))
}

impl Compared for PathsResult {
    fn csv(&self) -> String {
        lab::paths::csv(self)
    }

    fn report(&self) -> String {
        lab::paths::report(self)
    }

    fn text(&self) -> String {
        lab::paths::text(self)
    }

    fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.rounds.is_empty())
    }
}

fn plan(matches: &ArgMatches, interrupt: &Interrupt) -> anyhow::Result<Plan> {
    let usual = Plan::default();
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let words = |name: &str| matches.get_many::<String>(name).into_iter().flatten();
    let mut paths = Vec::new();
    for text in words("path") {
        let path = Path::ALL.into_iter().find(|it| it.name() == text);
        let names = Path::ALL.map(Path::name).join(", ");
        let path = path.with_context(|| format!("--path: {text:?}: expected one of {names}"))?;
        anyhow::ensure!(!paths.contains(&path), "--path: {text} twice");
        paths.push(path);
    }
    let sizes = words("size").map(|text| text.parse::<Size>().map(|it| it.0));
    let sizes: Vec<u32> = sizes.collect::<Result<_, _>>().context("--size")?;
    let interval =
        word("interval").map(str::parse::<Interval>).transpose().context("--interval")?;
    let span = word("time").map(str::parse::<Span>).transpose().context("--time")?;
    Ok(Plan {
        paths: if paths.is_empty() { usual.paths } else { paths },
        sizes: if sizes.is_empty() { usual.sizes } else { sizes },
        streams: matches.get_one("streams").copied().unwrap_or(usual.streams),
        interval: interval.map_or(usual.interval, |it| it.0),
        span: span.map_or(usual.span, |it| it.0),
        rounds: matches.get_one("rounds").copied().unwrap_or(usual.rounds),
        stop: interrupt.is_set.clone(),
    })
}
