//! `throng flow styles`: the ways to receive and send datagrams side by side.
//!
//! From flags to a plan, and from a result to a table, files and a page; what is measured and how is
//! `lab::flow::styles`'s.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use engine::datagram::{SendStyle, Style};
use lab::flow::styles::{self, FLOWS_MAX, Path, Plan, ROUNDS_MAX, StylesResult};
use lab::measure::Span;
use lab::ping::Size;

use crate::load::Interrupt;
use crate::measured::value;
use crate::side_by_side::{self, Compared};

const EXAMPLES: &str = "\
Examples:
  throng flow styles --out results/styles
  throng flow styles -t 1s --rounds 5 --path loopback --style recv,mmsg,gro
  throng flow styles --work 200ns -l 200

Every style is measured in turn, round after round, over loopback and over a veth pair between two
network namespaces that it makes and that go with it (this takes root). The sender has one
processor, the receiver another. What is not possible here is a row that says why.
docs/flow-styles.md tells how to read the table.

Exit codes: 0 done; 1 nothing could be measured; 2 asked for wrongly; 128 + n ended by signal n.
What was measured until then is kept.";

/// The subcommand.
pub(super) fn command() -> Command {
    Command::new("styles")
        .about("Compare the ways to receive and send datagrams: sockets, offload, io_uring, AF_XDP")
        .after_help(EXAMPLES)
        .args(measurements())
        .args(receivers())
        .args(choices())
        .arg(
            value("out", "DIR", "Write result.json, series.csv and report.html there")
                .value_parser(value_parser!(PathBuf)),
        )
}

fn measurements() -> [Arg; 6] {
    [
        value("time", "TIME", "Length of each measurement; a tenth more comes before [5s]")
            .short('t'),
        value("rounds", "N", "How often everything is measured")
            .default_value("3")
            .value_parser(value_parser!(u32).range(1..=i64::from(ROUNDS_MAX))),
        value("size", "BYTES", "Bytes of a datagram: 64, 1k [64]").short('l'),
        value("flows", "N", "Source ports where there are many; 1 leaves that part out")
            .default_value("64")
            .value_parser(value_parser!(u16).range(1..=i64::from(FLOWS_MAX))),
        value(
            "burst",
            "N[,N]",
            "Datagrams of a flow that are sent together: of one, of many [64,1]",
        ),
        value("rate", "N", "Datagrams a second; as many as can be by default")
            .value_parser(value_parser!(f64)),
    ]
}

fn receivers() -> [Arg; 4] {
    [
        value("work", "TIME", "Processor time that the receiver burns for each datagram [0s]"),
        value(
            "gather",
            "TIME",
            "How long styles of many a call let more come once they had to wait [50us]",
        ),
        value("batch", "N", "Pieces that such styles take with one call")
            .default_value("64")
            .value_parser(value_parser!(u16).range(1..=1_024)),
        value(
            "buffer",
            "BYTES",
            "Receive buffer of the sockets, as far as the system gives it [4m]",
        ),
    ]
}

fn choices() -> [Arg; 3] {
    let list = |name, help: String| {
        value(name, "NAME[,…]", "").value_delimiter(',').action(ArgAction::Append).help(help)
    };
    [
        list("path", format!("Where: {} [all]", Path::ALL.map(Path::name).join(", "))),
        list("style", format!("Receiving by: {} [all]", Style::ALL.map(Style::name).join(", "))),
        list(
            "send-style",
            format!(
                "Sending by: {}, or none [all]",
                SendStyle::ALL.map(SendStyle::name).join(", ")
            ),
        ),
    ]
}

/// Runs it. The exit code.
///
/// # Errors
/// When the result cannot be written.
pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let checked = |matches: &ArgMatches, interrupt: &Interrupt| {
        let plan = plan(matches, interrupt)?;
        plan.check()?;
        Ok(plan)
    };
    side_by_side::run(matches, checked, |plan: &Plan, tell| Ok(styles::run(plan, tell)?))
}

impl Compared for StylesResult {
    fn csv(&self) -> String {
        styles::csv(self)
    }

    fn report(&self) -> String {
        styles::report(self)
    }

    fn text(&self) -> String {
        styles::text(self)
    }

    fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.rounds.is_empty())
    }
}

fn plan(matches: &ArgMatches, interrupt: &Interrupt) -> anyhow::Result<Plan> {
    let usual = Plan::default();
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let span = |name: &str, usual| match word(name) {
        Some(text) => text.parse::<Span>().map(|it| it.0).with_context(|| format!("--{name}")),
        None => Ok(usual),
    };
    let size = |name: &str, usual| match word(name) {
        Some(text) => {
            let size = text.parse::<Size>().with_context(|| format!("--{name}"))?;
            usize::try_from(size.0).context("--size")
        }
        None => Ok(usual),
    };
    Ok(Plan {
        span: span("time", usual.span)?,
        rounds: matches.get_one("rounds").copied().unwrap_or(usual.rounds),
        bytes: size("size", usual.bytes)?,
        flows: matches.get_one("flows").copied().unwrap_or(usual.flows),
        bursts: word("burst").map_or(Ok(usual.bursts), bursts)?,
        rate: matches.get_one("rate").copied(),
        work: span("work", usual.work)?,
        gather: span("gather", usual.gather)?,
        batch: matches.get_one::<u16>("batch").map_or(usual.batch, |it| usize::from(*it)),
        buffer_bytes: size("buffer", usual.buffer_bytes)?,
        paths: list(matches, "path", usual.paths, |text| {
            let found = Path::ALL.into_iter().find(|it| it.name() == text);
            found.with_context(|| format!("{text:?}: expected loopback or veth"))
        })?,
        styles: list(matches, "style", usual.styles, |text| Ok(Style::from_str(text)?))?,
        send_styles: match word("send-style") {
            Some("none") => Vec::new(),
            _ => list(matches, "send-style", usual.send_styles, |text| {
                Ok(SendStyle::from_str(text)?)
            })?,
        },
        stop: interrupt.is_set.clone(),
    })
}

/// One number, or one for one flow and one for many.
fn bursts(text: &str) -> anyhow::Result<[usize; 2]> {
    let (one, many) = text.split_once(',').unwrap_or((text, text));
    let read = |text: &str| text.parse().with_context(|| format!("--burst {text:?}"));
    Ok([read(one)?, read(many)?])
}

/// The names of a flag, each once, in their order.
fn list<T: PartialEq>(
    matches: &ArgMatches,
    name: &str,
    usual: Vec<T>,
    read: impl Fn(&str) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let Some(texts) = matches.get_many::<String>(name) else { return Ok(usual) };
    let mut found = Vec::new();
    for text in texts {
        let it = read(text).with_context(|| format!("--{name}"))?;
        ensure!(!found.contains(&it), "--{name}: {text} twice");
        found.push(it);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::datagram::{SendStyle, Style};
    use lab::flow::styles::{Path, Plan};

    use super::{Interrupt, command, plan};

    fn of(line: &str) -> Result<Plan, String> {
        let matches =
            command().try_get_matches_from(line.split(' ')).map_err(|it| it.to_string())?;
        let interrupt = Interrupt::catch().unwrap();
        let plan = plan(&matches, &interrupt).map_err(|error| format!("{error:#}"))?;
        plan.check().map_err(|error| error.to_string())?;
        Ok(plan)
    }

    #[test]
    fn flags_become_a_plan() {
        let plan = of("styles -t 1s -l 1k --rounds 5 --work 200ns --burst 8 --rate 1000 \
                       --style recv,uring-gro --style xdp --path veth --send-style none"
            .replace("                       ", "")
            .as_str())
        .unwrap();
        assert_eq!((plan.span, plan.bytes, plan.rounds), (Duration::from_secs(1), 1_024, 5));
        assert_eq!((plan.work, plan.bursts), (Duration::from_nanos(200), [8, 8]));
        assert_eq!(plan.styles, [Style::Recv, Style::UringGro, Style::Xdp]);
        assert_eq!(
            (plan.paths, plan.send_styles, plan.rate),
            (vec![Path::Veth], vec![], Some(1e3))
        );
        let plan = of("styles --send-style gso,one --burst 64,2").unwrap();
        assert_eq!(plan.send_styles, [SendStyle::Gso, SendStyle::One]);
        assert_eq!((plan.bursts, plan.styles.len()), ([64, 2], 7));
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, part) in [
            ("styles -t 5", "not a length of time"),
            ("styles -t 5ms", "100 ms to 1 h"),
            ("styles -l 64k", "65507 at most"),
            ("styles --rounds 0", "1..=1000"),
            ("styles --style recv,telepathy", "expected one of recv, epoll"),
            ("styles --style recv,recv", "recv twice"),
            ("styles --path moon", "expected loopback or veth"),
            ("styles --burst 0", "0 datagrams together"),
            ("styles --burst a,1", "--burst"),
            ("styles --rate 0", "above 0"),
            ("styles --work 1s", "100 µs for each"),
        ] {
            let error = of(line).err().unwrap_or_default();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
