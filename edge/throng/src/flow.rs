//! `throng flow`: what a path carries, and what that costs at both ends.
//!
//! From flags to a plan, and from a result to what is printed and written. What is measured and how is
//! `lab`'s; the other end is `throng ping serve`. `throng flow styles` (`styles`) needs none.

mod flags;
mod styles;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::ArgMatches;
use lab::flow::{Mapping, Plan, PlanError, Protocol, Rate, SendStyle, Style};
use lab::load::expect::Condition;
use lab::load::{Finished, Stage, Summary};
use lab::measure::Span;
use lab::ping::{Kind, Place, Size};

use crate::load::{Interrupt, files};
use crate::measured::{self, Places};

pub use flags::command;

/// The port of `throng ping serve` where none is said.
const PORT: u16 = 9500;

/// Runs the subcommand. The exit code.
///
/// # Errors
/// What kept it from being done, in words for whoever typed it.
pub fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("styles", matches)) => styles::run(matches),
        _ => flow(matches),
    }
}

fn flow(matches: &ArgMatches) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let asked = plan(matches, &interrupt).and_then(|plan| {
        let conditions = conditions(matches)?;
        plan.check()?;
        Ok((plan, conditions, Ntttcp::of(matches)?))
    });
    let (plan, conditions, ntttcp) = match asked {
        Ok(asked) => asked,
        Err(error) => return Ok(measured::not_begun(&error, &interrupt)),
    };
    let places = Places::claim(matches)?;
    if let Some(it) = &ntttcp {
        files::try_file(&it.path).context("--ntttcp")?;
    }
    let ran = lab::flow::run(&plan, &mut |progress| {
        if progress.second.stage == Stage::Counted {
            // If nobody reads it, the result is what counts.
            let _ = writeln!(std::io::stderr().lock(), "{}", lab::flow::line(progress));
        }
        interrupt.signal().is_none()
    });
    let Finished { mut summary, intervals } = match measured::finished(ran, &interrupt)? {
        Ok(finished) => finished,
        Err(code) => return Ok(code),
    };
    summary.expectations = conditions.iter().map(|it| it.check(&summary)).collect();
    let besides = ntttcp.iter().map(|it| it.file(&summary)).collect();
    places.write(&summary, &intervals, besides)?;
    places.tell(&summary, &lab::flow::text(&summary))?;
    Ok(measured::code(&summary, &interrupt))
}

/// `--ntttcp`.
struct Ntttcp {
    path: PathBuf,
    is_json: bool,
}

impl Ntttcp {
    fn of(matches: &ArgMatches) -> anyhow::Result<Option<Self>> {
        let Some(path) = matches.get_one::<PathBuf>("ntttcp").cloned() else { return Ok(None) };
        let is_json = match path.extension().and_then(|it| it.to_str()) {
            Some("json") => true,
            Some("xml") => false,
            _ => anyhow::bail!("--ntttcp {}: FILE.xml or FILE.json", path.display()),
        };
        Ok(Some(Self { path, is_json }))
    }

    fn file(&self, summary: &Summary) -> (PathBuf, Vec<u8>) {
        let text = if self.is_json {
            lab::flow::ntttcp_json(summary)
        } else {
            lab::flow::ntttcp_xml(summary)
        };
        (self.path.clone(), text.into_bytes())
    }
}

fn conditions(matches: &ArgMatches) -> anyhow::Result<Vec<Condition>> {
    let texts = matches.get_many::<String>("expect").into_iter().flatten();
    let read = texts.map(|text| text.parse::<Condition>());
    read.collect::<Result<_, _>>().context("--expect")
}

/// A time as NTttcp has it, in seconds, or with a unit.
fn time(matches: &ArgMatches, name: &str, usual: Duration) -> anyhow::Result<Duration> {
    let Some(text) = matches.get_one::<String>(name) else { return Ok(usual) };
    let is_bare = text.ends_with(|c: char| c.is_ascii_digit());
    let with_unit = if is_bare { format!("{text}s") } else { text.clone() };
    let span: Span = with_unit.parse().with_context(|| format!("--{name}"))?;
    Ok(span.0)
}

/// Threads and their processors, and where they send to.
fn mappings(matches: &ArgMatches) -> anyhow::Result<(Vec<Mapping>, Option<String>)> {
    let texts = matches.get_many::<String>("map").into_iter().flatten();
    let read: Result<Vec<Mapping>, PlanError> = texts.map(|text| text.parse()).collect();
    let mut mappings = read.context("-m")?;
    if mappings.is_empty() {
        mappings.push(Mapping { threads: 1, core: None, host: None });
    }
    let mut hosts = mappings.iter().filter_map(|it| it.host.clone());
    let host = hosts.next();
    if let (Some(one), Some(other)) = (&host, hosts.find(|it| Some(it) != host.as_ref())) {
        return Err(PlanError::Hosts(one.clone(), other).into());
    }
    Ok((mappings, host))
}

fn plan(matches: &ArgMatches, interrupt: &Interrupt) -> anyhow::Result<Plan> {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let (mappings, host) = mappings(matches)?;
    let is_udp = matches.get_flag("udp");
    let target = match (word("target"), host) {
        (Some(target), _) => target.to_owned(),
        (None, Some(host)) if host.contains(':') && !host.starts_with('[') => {
            format!("[{host}]:{PORT}")
        }
        (None, Some(host)) => format!("{host}:{PORT}"),
        (None, None) => anyhow::bail!(
            "no target: throng flow HOST:PORT; at the other end `throng ping serve` answers"
        ),
    };
    let place = Place::parse(&target, Kind::Tcp, measured::family(matches), &interrupt.is_set)?;
    let usual = if is_udp { "1200" } else { "128k" };
    let size: Size = word("size").unwrap_or(usual).parse().context("-l")?;
    let rate = word("rate").map(str::parse::<Rate>).transpose().context("--rate")?;
    if !is_udp {
        for name in ["style", "send-style", "work"] {
            ensure!(word(name).is_none(), "--{name} is of datagrams: with --udp");
        }
    }
    let timeout = time(matches, "timeout", Duration::from_millis(1_500))?;
    ensure!(!timeout.is_zero(), "--timeout 0 waits for nothing");
    Ok(Plan {
        protocol: if is_udp { Protocol::Udp } else { Protocol::Tcp },
        place,
        is_back: matches.get_flag("reverse"),
        mappings,
        per_thread: matches.get_one("connections").copied().unwrap_or(1),
        bytes: size.0,
        rate,
        counted: time(matches, "time", Duration::from_secs(10))?,
        warm_up: time(matches, "warmup", Duration::from_secs(1))?,
        cool_down: time(matches, "cooldown", Duration::from_millis(200))?,
        remote_core: matches.get_one("remote-core").copied(),
        work: time(matches, "work", Duration::ZERO)?,
        style: word("style").map_or(Ok(Style::Recv), str::parse).context("--style")?,
        send_style: word("send-style")
            .map_or(Ok(SendStyle::One), str::parse)
            .context("--send-style")?,
        token: measured::said_token(matches)?,
        timeout,
        peer: word("peer").unwrap_or_default().to_owned(),
        stop: interrupt.is_set.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lab::flow::{Plan, Protocol, Rate};

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
    fn ntttcps_letters_and_long_names_say_the_same() {
        let letters =
            of("flow 127.0.0.1:9 -4 -m 4,*,127.0.0.1 -t 30 -W 2 -C 1 -l 64k -P 2").unwrap();
        let names =
            of("flow 127.0.0.1:9 --ipv4 --map 4,*,127.0.0.1 --time 30s --warmup 2s --cooldown 1s \
                        --size 64k --connections 2"
                .replace("                        ", "")
                .as_str())
            .unwrap();
        assert_eq!(format!("{letters:?}"), format!("{names:?}"));
        assert_eq!((letters.threads(), letters.connections(), letters.bytes), (4, 8, 65_536));
        assert_eq!(letters.counted, Duration::from_secs(30));
        let by_map = of("flow -m 1,0,127.0.0.1 -m 2,*,127.0.0.1").unwrap();
        assert_eq!((&*by_map.place.text, by_map.threads()), ("127.0.0.1:9500", 3));
        let udp = of("flow 127.0.0.1:9 -u --rate 20kpps --work 200ns").unwrap();
        assert_eq!(
            (udp.protocol, udp.rate, udp.bytes),
            (Protocol::Udp, Some(Rate::Datagrams(2e4)), 1_200)
        );
        assert_eq!(udp.work, Duration::from_nanos(200));
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, part) in [
            ("flow", "no target"),
            ("flow 127.0.0.1", "write HOST:PORT"),
            ("flow 127.0.0.1:9 -t x", "not a length of time"),
            ("flow 127.0.0.1:9 -t 0", "100 ms at least"),
            ("flow 127.0.0.1:9 -m 0,*", "1 to 64 threads"),
            ("flow 127.0.0.1:9 -m 64,* -P 64", "512 in all"),
            ("flow 127.0.0.1:9 -m 1,9999", "there is no processor 9999"),
            ("flow 127.0.0.1:9 -m all", "is not a mapping"),
            ("flow -m 1,*,a -m 1,*,b", "two receivers"),
            ("flow 127.0.0.1:9 --rate 10", "is not a rate"),
            ("flow 127.0.0.1:9 --rate 10kpps", "no datagrams"),
            ("flow 127.0.0.1:9 --work 1us", "with --udp"),
            ("flow 127.0.0.1:9 -u -R -t 10m", "10 min at most"),
            ("flow 127.0.0.1:9 -u -P 2", "leave out --udp"),
            ("flow 127.0.0.1:9 -u -l 64k", "udp takes 16 to 65507"),
            ("flow 127.0.0.1:9 -u --work 2ms", "1 ms for each"),
            ("flow 127.0.0.1:9 -u --style smoke", "no style is called \"smoke\""),
            ("flow 127.0.0.1:9 -u -m 2,* --style xdp", "one thread (-m 1,*)"),
            ("flow 127.0.0.1:9 -l 17m", "tcp takes 1 to 16777216"),
        ] {
            let error = of(line).err().unwrap_or_default();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
