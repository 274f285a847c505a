//! `throng ping`: round trips, connects and requests, timed one by one; and `throng ping serve`, which
//! answers them.
//!
//! From flags to a plan, and from a result to what is printed and written. What is measured and how
//! is `lab`'s.

mod flags;
mod serve;

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::ArgMatches;
use lab::load::expect::Condition;
use lab::load::{Finished, Stage, screen};
use lab::measure::Span;
use lab::ping::{Amount, Buckets, Interval, Kind, Place, Plan, Process, Size};

use crate::load::Interrupt;
use crate::measured::{self, Places};

pub use flags::command;

/// Runs the subcommand. The exit code.
///
/// # Errors
/// What kept it from being done, in words for whoever typed it.
pub fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("serve", matches)) => serve::run(matches),
        _ => ping(matches),
    }
}

fn ping(matches: &ArgMatches) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let asked = plan(matches, &interrupt).and_then(|plan| {
        let conditions = conditions(matches, &plan)?;
        plan.check()?;
        Ok((plan, conditions))
    });
    let (plan, conditions) = match asked {
        Ok(asked) => asked,
        Err(error) => return Ok(measured::not_begun(&error, &interrupt)),
    };
    let places = Places::claim(matches)?;
    let ran = lab::ping::run(&plan, &mut |progress| {
        if progress.second.stage == Stage::Counted {
            // If nobody reads it, the result is what counts.
            let _ = writeln!(std::io::stderr().lock(), "{}", screen::line(progress));
        }
        interrupt.signal().is_none()
    });
    let Finished { mut summary, intervals } = match measured::finished(ran, &interrupt)? {
        Ok(finished) => finished,
        Err(code) => return Ok(code),
    };
    summary.expectations = conditions.iter().map(|it| it.check(&summary)).collect();
    places.write(&summary, &intervals, Vec::new())?;
    places.tell(&summary, &lab::ping::text(&summary))?;
    Ok(measured::code(&summary, &interrupt))
}

fn conditions(matches: &ArgMatches, plan: &Plan) -> anyhow::Result<Vec<Condition>> {
    let texts = matches.get_many::<String>("expect").into_iter().flatten();
    let ops = plan.operations();
    let read = texts.map(|text| lab::ping::condition(text, plan.is_closed(), &ops));
    read.collect::<Result<_, _>>().context("--expect")
}

fn kind(matches: &ArgMatches, target: &str) -> Kind {
    let kinds = [
        ("udp", Kind::Udp),
        ("connect", Kind::Connect),
        ("http", Kind::Http),
        ("ws", Kind::Ws),
        ("icmp", Kind::Icmp),
    ];
    let named = kinds.into_iter().find(|(flag, _)| matches.get_flag(flag)).map(|(_, kind)| kind);
    named.unwrap_or(match target {
        it if it.starts_with("http://") || it.starts_with("https://") => Kind::Http,
        it if it.starts_with("ws://") || it.starts_with("wss://") => Kind::Ws,
        _ => Kind::Tcp,
    })
}

fn plan(matches: &ArgMatches, interrupt: &Interrupt) -> anyhow::Result<Plan> {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let target =
        word("target").context("no target: throng ping HOST:PORT, or throng ping serve")?;
    let kind = kind(matches, target);
    let place = Place::parse(target, kind, measured::family(matches), &interrupt.is_set)?;
    let amount: Amount = word("number").unwrap_or("5s").parse().context("-n")?;
    ensure!(
        !matches!(amount, Amount::Count(0) | Amount::Time(Duration::ZERO)),
        "-n 0 counts nothing"
    );
    let warm_up: Amount = word("warmup").unwrap_or("5").parse().context("-w")?;
    let interval = match word("interval") {
        Some(text) => text.parse::<Interval>().context("-i")?.0,
        None => kind.usual_interval(),
    };
    let sizes = matches.get_many::<String>("size").into_iter().flatten();
    let sizes = sizes.map(|text| text.parse::<Size>().map(|it| it.0));
    let mut sizes: Vec<u32> = sizes.collect::<Result<_, _>>().context("-l")?;
    if sizes.is_empty() {
        sizes.push(kind.usual_size());
    }
    let buckets = word("histogram").map(str::parse::<Buckets>).transpose().context("-h")?;
    let timeout: Span = word("timeout").unwrap_or("1500ms").parse().context("--timeout")?;
    ensure!(!timeout.0.is_zero(), "--timeout 0 waits for nothing");
    let token = measured::said_token(matches)?;
    let why_not = "TARGET does not begin with https:// or wss://";
    let tls = measured::tls_choice(matches, place.tls_name.is_some(), why_not)?;
    Ok(Plan {
        kind,
        is_plain: matches.get_flag("plain"),
        place,
        amount,
        warm_up,
        sizes,
        interval,
        arrivals: if matches.get_flag("poisson") { Process::Poisson } else { Process::Constant },
        streams: matches.get_one("streams").copied().unwrap_or(1),
        buckets: buckets.unwrap_or_default(),
        token,
        tls,
        timeout: timeout.0,
        busy_poll: matches.get_flag("busy-poll"),
        pin: matches.get_one("pin").copied(),
        realtime: matches.get_flag("realtime"),
        seed: matches.get_one("seed").copied(),
        peer: word("peer").unwrap_or_default().to_owned(),
        stop: interrupt.is_set.clone(),
    })
}

#[cfg(test)]
mod tests {
    use lab::ping::{Amount, Kind, Plan};

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
    fn pspings_letters_and_long_names_say_the_same() {
        let letters = of("ping 127.0.0.1:9 -4 -n 2s -i 1ms -l 64,1k -w 10 -h 0.1,1 --udp").unwrap();
        let names =
            of("ping 127.0.0.1:9 --ipv4 --number 2s --interval 1ms --size 64,1k --warmup 10 \
                        --histogram 0.1,1 --udp"
                .replace("                        ", "")
                .as_str())
            .unwrap();
        assert_eq!(format!("{letters:?}"), format!("{names:?}"));
        assert_eq!((letters.kind, letters.warm_up), (Kind::Udp, Amount::Count(10)));
        assert_eq!((&*letters.sizes, letters.interval.as_micros()), (&[64, 1_024][..], 1_000));
        assert!(of("ping 127.0.0.1:9 -i 0").unwrap().is_closed());
        assert_eq!(of("ping http://127.0.0.1:9/a").unwrap().kind, Kind::Http);
        assert_eq!(of("ping wss://127.0.0.1:9/a --tls-insecure").unwrap().kind, Kind::Ws);
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, part) in [
            ("ping", "no target"),
            ("ping 127.0.0.1", "write HOST:PORT"),
            ("ping 127.0.0.1:9 -n 2x", "neither a count nor a time"),
            ("ping 127.0.0.1:9 -n 0", "counts nothing"),
            ("ping 127.0.0.1:9 -l 8", "-l 8: tcp takes 16"),
            ("ping 127.0.0.1:9 --udp -l 64k", "udp takes 16 to 65507"),
            ("ping 127.0.0.1:9 --connect -l 64", "leave --size out"),
            ("ping 127.0.0.1:9 --udp --http", "cannot be used with"),
            ("ping 127.0.0.1:9 --plain", "--udp"),
            ("ping 127.0.0.1:9 -h 1", "rising bounds"),
            ("ping 127.0.0.1:9 --streams 65", "1..=64"),
            ("ping 127.0.0.1:9 --token a,b\u{1}", "visible ASCII"),
            ("ping 127.0.0.1:9 -6", "no address of IPv6"),
            ("ping http://127.0.0.1:9 --tls-fresh", "does not begin with https:// or wss://"),
            ("ping https://127.0.0.1:9 --tls-ca /nowhere/a", "/nowhere/a: No such file"),
            ("ping wss://127.0.0.1:9 --tls-ca a --tls-insecure", "cannot be used with"),
        ] {
            let error = of(line).err().unwrap_or_default();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
