//! `throng host game`: the reference server, which computes as a game does and has no game.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command, value_parser};
use engine::DriverChoice;
use lab::games::reference::{Options, Server, ServerError};
use lab::measure::Span;

use crate::measured::value;
use crate::signals::StopSignals;
use crate::{EXIT_WRONG, complain};

const AFTER: &str = "\
It sends nobody a snapshot who has not shown that he is where he says. Who asks for its status
learns how many of its ticks were late, which `throng host ps` shows.

A fleet of them:
  [[server]]
  name = \"game\"
  command = [\"throng\", \"host\", \"game\", \"--address\", \"{address}\", \"--port\", \"{port}\"]
  port = 28000
  ready = { query = \"throng\" }

Exit codes: 0 stopped. 1: could not do it. 2: asked for wrongly.";

/// The subcommand.
pub(super) fn command() -> Command {
    let number = |name, form, help, usual| {
        value(name, form, help).default_value(usual).value_parser(value_parser!(u32))
    };
    Command::new("game")
        .about("A game server of our own, to measure with: snapshots at a rate, work for each tick")
        .after_help(AFTER)
        .arg(
            value("address", "IP", "Where it takes datagrams")
                .default_value("127.0.0.1")
                .value_parser(value_parser!(IpAddr)),
        )
        .arg(port())
        .arg(number("tick", "HZ", "Ticks a second", "60"))
        .arg(value("work", "TIME", "Processor time that each tick takes").default_value("200us"))
        .arg(number("bytes", "BYTES", "Of a snapshot for one player", "2000"))
        .arg(number("players", "N", "Players at one time", "16"))
}

fn port() -> Arg {
    value("port", "PORT", "Likewise; 0 lets the system choose")
        .required(true)
        .value_parser(value_parser!(u16))
}

/// Runs it until it is told to stop. The exit code.
pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let stop = StopSignals::catch()?;
    let options = match options(matches) {
        Ok(options) => options,
        Err(error) => {
            complain(&format_args!("{error:#}"));
            return Ok(EXIT_WRONG);
        }
    };
    let ip = matches.get_one("address").copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let port = matches.get_one::<u16>("port").copied().unwrap_or_default();
    let server = match Server::start((ip, port).into(), DriverChoice::Auto, options) {
        Err(ServerError::Options(what)) => {
            complain(&what);
            return Ok(EXIT_WRONG);
        }
        other => other?,
    };
    tracing::info!("a game at {}", server.address());
    stop.wait()?;
    server.stop()?;
    Ok(0)
}

fn options(matches: &ArgMatches) -> anyhow::Result<Options> {
    let usual = Options::default();
    let number = |name, usual| matches.get_one::<u32>(name).copied().unwrap_or(usual);
    let work = matches.get_one::<String>("work");
    let work = work.map(|it| it.parse::<Span>()).transpose().context("--work")?;
    Ok(Options {
        tick_hz: number("tick", usual.tick_hz),
        work: work.map_or(Duration::ZERO, |it| it.0),
        snapshot_bytes: usize::try_from(number("bytes", 2_000)).context("--bytes")?,
        players_max: number("players", usual.players_max),
    })
}
