//! From flags to runs: one for each scenario and each depth of `--pipeline`, all checked before the
//! first one begins.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail, ensure};
use clap::ArgMatches;
use clap::parser::ValueSource;
use lab::load::expect::Condition;
use lab::load::scenario::{BUILT_IN, Pace, SCENARIO_BYTES_MAX, Scenario, Span, built_in, parse};
use lab::load::{Plan, Share, Target, TlsChoice, did_you_mean};

use crate::measured::tls_choice;

/// The file under `--out` with the output of a server that is started.
pub(super) const SERVER_LOG: &str = "server.log";

/// One run.
#[derive(Clone)]
pub(super) struct Job {
    /// What it is called while several run in turn.
    pub(super) name: String,
    pub(super) plan: Plan,
    pub(super) conditions: Vec<Condition>,
    /// Where its files go.
    pub(super) folder: Option<PathBuf>,
}

impl Job {
    /// Where the output of a server that is started is kept.
    pub(super) fn log(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|it| it.join(SERVER_LOG))
    }
}

/// All runs of a command line, in their order.
///
/// # Errors
/// When something was asked for wrongly.
pub(super) fn jobs(matches: &ArgMatches, stop: &Arc<AtomicBool>) -> anyhow::Result<Vec<Job>> {
    let names: Vec<&String> = matches.get_many("scenario").into_iter().flatten().collect();
    let depths: Vec<u16> = matches.get_many("pipeline").into_iter().flatten().copied().collect();
    let is_sweep = depths.len() > 1;
    let depths: Vec<Option<u16>> =
        if depths.is_empty() { vec![None] } else { depths.into_iter().map(Some).collect() };
    let given = matches.get_many::<String>("expect").into_iter().flatten();
    let given: Vec<Condition> = given
        .map(|text| text.parse().with_context(|| format!("--expect '{text}'")))
        .collect::<Result<_, _>>()?;
    let out: Option<&PathBuf> = matches.get_one("out");
    let has_server = matches.contains_id("server");
    let mut jobs: Vec<Job> = Vec::new();
    for name in &names {
        let scenario = scenario(name)?;
        let told = format!("scenario `{}`", scenario.name);
        ensure!(
            !jobs.iter().any(|job| job.plan.scenario.name == scenario.name),
            "{told} is given twice"
        );
        check_flags(matches, &scenario).with_context(|| told.clone())?;
        let own = conditions(scenario.thresholds.iter()).with_context(|| told.clone())?;
        for condition in &own {
            ensure!(
                condition.fits(&scenario),
                "threshold `{}`: {}",
                condition.text,
                condition.misfit(&scenario)
            );
        }
        let fitting = given.iter().filter(|condition| condition.fits(&scenario)).cloned();
        let conditions: Vec<_> = own.into_iter().chain(fitting).collect();
        for condition in conditions.iter().filter(|_| matches.get_flag("saturate")) {
            if let Some(why) = condition.needs_schedule(&scenario) {
                bail!("{told}: `{}`: {why}", condition.text);
            }
        }
        let place = match out {
            Some(out) if names.len() > 1 => Some(out.join(part(&scenario.name)?)),
            _ => out.cloned(),
        };
        for depth in &depths {
            let mut folder = place.clone();
            let mut name = scenario.name.clone();
            if let Some(depth) = depth.filter(|_| is_sweep) {
                folder = folder.map(|folder| folder.join(format!("pipeline-{depth}")));
                name = format!("{name}, {depth} in a write");
            }
            let plan = Plan {
                pipeline: *depth,
                server_log: folder.as_ref().filter(|_| has_server).map(|it| it.join(SERVER_LOG)),
                worker_args: vec!["--job".to_owned(), jobs.len().to_string()],
                stop: stop.clone(),
                ..plan(matches, scenario.clone(), stop)?
            };
            lab::load::check(&plan).with_context(|| told.clone())?;
            jobs.push(Job { name, plan, conditions: conditions.clone(), folder });
        }
    }
    for condition in &given {
        ensure!(
            jobs.iter().any(|job| condition.fits(&job.plan.scenario)),
            "--expect '{}': {}",
            condition.text,
            misfits(condition, &jobs)
        );
    }
    let has_json = matches.contains_id("json");
    ensure!(jobs.len() == 1 || !has_json, "--json takes one run's result: use --out DIR");
    Ok(jobs)
}

/// That no scenario has the operation of a condition.
fn misfits(condition: &Condition, jobs: &[Job]) -> String {
    let mut all: Vec<String> =
        jobs.iter().map(|job| condition.misfit(&job.plan.scenario)).collect();
    // Of each depth of --pipeline.
    all.dedup();
    all.join("; ")
}

/// `index/count/run/url`, as a controller writes it.
pub(super) fn worker_share(text: &str) -> Option<Share> {
    let mut parts = text.splitn(4, '/');
    Some(Share {
        index: parts.next()?.parse().ok()?,
        count: parts.next()?.parse().ok().filter(|count| *count > 0)?,
        run_number: u32::from_str_radix(parts.next()?, 16).ok()?,
        urls: parts.next()?.split(',').map(str::to_owned).collect(),
    })
}

/// Whether the flags that were given say something to this scenario.
fn check_flags(matches: &ArgMatches, scenario: &Scenario) -> anyhow::Result<()> {
    let is_http = |step: &lab::load::scenario::StepForm| {
        step.get.is_some() || step.post.is_some() || step.put.is_some() || step.delete.is_some()
    };
    let mut loops = scenario.sessions.iter().filter(|session| !session.repeated.is_empty());
    let has_pace = loops.clone().any(|session| session.pace != Pace::None);
    ensure!(has_pace || !matches.contains_id("rate"), "it has no paced loop, which --rate changes");
    ensure!(
        has_pace || !matches.contains_id("rate-end"),
        "it has no paced loop, which --rate-end changes"
    );
    ensure!(
        !(matches.get_flag("saturate") && matches.contains_id("rate-end")),
        "--saturate has no rate that could rise: leave one of them out"
    );
    let has_loop = loops.clone().next().is_some();
    ensure!(
        has_loop || !matches.get_flag("saturate"),
        "it has no loop, which --saturate could drive: leave --saturate out"
    );
    ensure!(
        !(matches.get_flag("saturate") && matches.contains_id("rate")),
        "--saturate begins each operation when the last is answered, and --rate on a schedule: \
         leave one of them out"
    );
    ensure!(
        loops.any(|session| session.repeated.iter().any(is_http))
            || !matches.contains_id("pipeline"),
        "it has no HTTP request in its loop, which --pipeline repeats"
    );
    let has_rpc = scenario.vars.contains_key("rpc");
    ensure!(has_rpc || !matches.contains_id("rpc"), "it has no variable `rpc`, which --rpc sets");
    Ok(())
}

/// The name of a scenario as the name of a folder.
fn part(name: &str) -> anyhow::Result<&str> {
    let mut parts = Path::new(name).components();
    let is_plain = matches!(parts.next(), Some(Component::Normal(it)) if it == OsStr::new(name));
    ensure!(is_plain && parts.next().is_none(), "`{name}` cannot be a folder under --out");
    Ok(name)
}

fn conditions<'a>(texts: impl Iterator<Item = &'a String>) -> anyhow::Result<Vec<Condition>> {
    texts.map(|text| text.parse().map_err(anyhow::Error::from)).collect()
}

/// What is asked for of TLS, which some target has to speak then.
fn tls(matches: &ArgMatches, targets: &[Target]) -> anyhow::Result<TlsChoice> {
    let is_spoken = targets.iter().any(|it| it.tls_name.is_some());
    tls_choice(matches, is_spoken, "no --target begins with https://")
}

fn targets(matches: &ArgMatches, stop: &AtomicBool) -> anyhow::Result<Vec<Target>> {
    let urls = matches.get_many::<String>("target").into_iter().flatten();
    urls.map(|url| Target::parse(url, stop)).collect::<Result<_, _>>().context("--target")
}

fn plan(matches: &ArgMatches, scenario: Scenario, stop: &AtomicBool) -> anyhow::Result<Plan> {
    let word = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let span = |name: &str| -> anyhow::Result<Span> {
        // Nothing is nothing in every unit, and the help says 0.
        if word(name) == "0" {
            return Ok(Span::default());
        }
        word(name).parse().with_context(|| format!("--{name}"))
    };
    let rate: Option<f64> = matches.get_one("rate").copied();
    ensure!(rate.is_none_or(|rate| rate > 0.0 && rate.is_finite()), "--rate is above zero");
    let rate_end: Option<f64> = matches.get_one("rate-end").copied();
    ensure!(rate_end.is_none_or(|rate| rate > 0.0 && rate.is_finite()), "--rate-end is above zero");
    let has_rate = rate.is_some() || scenario.rate.is_some();
    ensure!(
        rate_end.is_none() || has_rate && scenario.phases.is_empty(),
        "--rate-end: there is no rate that it could begin with: give --rate (with phases it is \
         `arrivals` that rise)"
    );
    let server_pids: Vec<u32> =
        matches.get_many("server-pid").into_iter().flatten().copied().collect();
    for (index, pid) in server_pids.iter().enumerate() {
        let is_again = server_pids[..index].contains(pid);
        ensure!(!is_again, "--server-pid {pid} is named twice: what it uses would count twice");
    }
    let targets = targets(matches, stop)?;
    let tls = tls(matches, &targets)?;
    let duration = span("duration")?;
    ensure!(!duration.0.is_zero(), "--duration 0 counts nothing: give a time above zero");
    let is_typed = matches.value_source("warmup") == Some(ValueSource::CommandLine);
    // With phases players come from the first moment on, and the file says what happens when.
    let warm_up =
        if scenario.phases.is_empty() || is_typed { span("warmup")? } else { Span::default() };
    let phases_s: f64 = scenario.phases.iter().map(|it| it.duration.0.as_secs_f64()).sum();
    ensure!(
        scenario.phases.is_empty() || warm_up.0.as_secs_f64() < phases_s,
        "--warmup {} leaves nothing to count of phases of {phases_s} s",
        word("warmup")
    );
    Ok(Plan {
        scenario,
        targets,
        tls,
        is_target_given: matches.value_source("target") == Some(ValueSource::CommandLine),
        players: matches.get_one("players").copied(),
        rate,
        rate_end,
        saturate: matches.get_flag("saturate"),
        duration,
        warm_up,
        ramp: matches.contains_id("ramp").then(|| span("ramp")).transpose()?,
        pipeline: None,
        server_key: word("server-key").to_owned(),
        http_key: word("http-key").to_owned(),
        vars: vars(matches)?,
        server_pids,
        server: matches.get_one("server").cloned(),
        pin: matches.get_one("pin").copied(),
        bind: matches.get_one("bind").copied(),
        realtime: matches.get_flag("realtime"),
        driver: word("driver").parse()?,
        seed: matches.get_one("seed").copied(),
        processes: matches.get_one("processes").copied().unwrap_or(1),
        peer: word("peer").to_owned(),
        worker_args: Vec::new(),
        server_log: None,
        say: |text| {
            // If nobody reads it, the run is what counts.
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        },
        stop: Arc::default(),
    })
}

fn vars(matches: &ArgMatches) -> anyhow::Result<BTreeMap<String, String>> {
    let mut vars = BTreeMap::new();
    for pair in matches.get_many::<String>("set").into_iter().flatten() {
        let (name, value) = pair.split_once('=').context("--set wants NAME=VALUE")?;
        vars.insert(name.to_owned(), value.to_owned());
    }
    if let Some(rpc) = matches.get_one::<String>("rpc") {
        vars.insert("rpc".to_owned(), rpc.clone());
    }
    Ok(vars)
}

fn scenario(name: &str) -> anyhow::Result<Scenario> {
    if let Some(text) = built_in(name) {
        return Ok(parse(text)?);
    }
    let mut text = String::new();
    // One byte more than may be, so that a longer one is refused and not cut.
    let most = SCENARIO_BYTES_MAX as u64 + 1;
    let read = File::open(name).and_then(|file| file.take(most).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let meant = did_you_mean(name, BUILT_IN.iter().map(|it| it.0));
            bail!(
                "`{name}` is neither a built-in scenario (`throng load scenarios`) nor a \
                 file{meant}"
            );
        }
        read => read.with_context(|| name.to_owned())?,
    };
    let mut scenario = parse(&text).with_context(|| name.to_owned())?;
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    scenario.read_data(folder).with_context(|| name.to_owned())?;
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Job, jobs, part, worker_share};

    fn of(line: &str) -> Result<Vec<Job>, String> {
        let words = line.split(' ').filter(|word| !word.is_empty());
        let matches =
            super::super::command().try_get_matches_from(words).map_err(|it| it.to_string())?;
        jobs(&matches, &Arc::default()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn every_scenario_and_depth_is_a_run_with_a_folder_of_its_own() {
        for (line, wanted) in [
            ("load ccu --out r", &[("ccu", "r")][..]),
            ("load ccu match --out r", &[("ccu", "r/ccu"), ("match", "r/match")]),
            (
                "load plaintext --pipeline 1,16 --out r",
                &[
                    ("plaintext, 1 in a write", "r/pipeline-1"),
                    ("plaintext, 16 in a write", "r/pipeline-16"),
                ],
            ),
            (
                "load plaintext json --pipeline 4 --out r",
                &[("plaintext", "r/plaintext"), ("json", "r/json")],
            ),
            (
                "load plaintext json --pipeline 1,4 --out r",
                &[
                    ("plaintext, 1 in a write", "r/plaintext/pipeline-1"),
                    ("plaintext, 4 in a write", "r/plaintext/pipeline-4"),
                    ("json, 1 in a write", "r/json/pipeline-1"),
                    ("json, 4 in a write", "r/json/pipeline-4"),
                ],
            ),
        ] {
            let jobs = of(line).unwrap();
            let found: Vec<_> = jobs
                .iter()
                .map(|job| (&*job.name, job.folder.as_ref().unwrap().to_str().unwrap()))
                .collect();
            assert_eq!(found, wanted, "{line}");
            for (index, job) in jobs.iter().enumerate() {
                assert_eq!(job.plan.worker_args, ["--job", &index.to_string()]);
            }
        }
    }

    #[test]
    fn mistakes_name_the_scenario() {
        for (line, part) in [
            ("load nothing", "`nothing` is neither"),
            ("load /dev/zero", "larger than"),
            ("load ccu --server-pid 7 --server-pid 7", "named twice"),
            ("load ccu ccu", "`ccu` is given twice"),
            ("load rpc-lua ccu --rpc x", "scenario `ccu`: it has no variable `rpc`"),
            ("load rpc-lua match --set size=1", "scenario `rpc-lua`: "),
            ("load register ccu --rate 5", "scenario `ccu`: it has no paced loop"),
            ("load register ws-echo --pipeline 5", "scenario `ws-echo`: it has no HTTP request"),
            ("load ccu match --json x", "--json takes one run"),
            (
                "load ccu match --expect rpc.rate>1",
                "`match` has no operation `rpc`, but authenticate",
            ),
            ("load ccu --expect rate", "not a condition"),
            ("load ccu --target wss://a", "https://host:port (sockets are"),
            ("load ccu --target https://", "is not a target"),
            ("load ccu --tls-insecure", "--tls-insecure: no --target begins with https://"),
            ("load ccu --target http://127.0.0.1 --tls-ca a", "--tls-ca: no --target begins"),
            ("load ccu --tls-fresh", "--tls-fresh: no --target"),
            (
                "load ccu --target https://127.0.0.1 --tls-ca a --tls-insecure",
                "cannot be used with",
            ),
            ("load ccu --target https://127.0.0.1 --tls-ca /nowhere/a", "/nowhere/a: No such file"),
            ("load register --rate 0", "--rate is above zero"),
            ("load ccu --duration 5", "--duration"),
            ("load ccu --duration 1000h", "--duration: `1000h` is too long: 720 h"),
            ("load ccu --duration 0s", "--duration 0 counts nothing"),
            ("load ccu --saturate", "scenario `ccu`: it has no loop"),
            ("load register --saturate --rate 5", "leave one of them out"),
            ("load regsiter", "did you mean `register`?"),
            ("load register --expect response_p99<20", "is a time"),
        ] {
            let Err(error) = of(line) else { panic!("taken: {line}") };
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn phases_begin_at_once_unless_a_warm_up_is_asked_for() {
        let toml = "name='p'\ntitle='p'\n[[phase]]\nduration='5s'\narrivals=1\n[[session]]\n\
                    name='s'\n[[session.loop]]\nop='o'\nget='/'\n";
        let path = std::env::temp_dir().join(format!("throng-phases-{}.toml", std::process::id()));
        std::fs::write(&path, toml).unwrap();
        let load = |flags: &str| of(&format!("load {}{flags}", path.display()));
        let warm_up_s = |flags| load(flags).unwrap()[0].plan.warm_up.0.as_secs();
        assert_eq!((warm_up_s(""), warm_up_s(" --warmup 2s")), (0, 2));
        let error = load(" --warmup 5s").err().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("--warmup 5s leaves nothing to count of phases of 5 s"), "{error}");
        assert_eq!(of("load register").unwrap()[0].plan.warm_up.0.as_secs(), 2);
    }

    #[test]
    fn a_data_file_lies_beside_its_scenario_and_has_a_row_for_each_player() {
        let folder = std::env::temp_dir().join(format!("throng-data-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let toml = |players: u32, more: &str| {
            format!(
                "name='d'\ntitle='d'\nplayers={players}\n{more}[[data]]\nname='users'\n\
                 file='users.csv'\n[[session]]\nname='s'\n[[session.loop]]\nop='o'\n\
                 get='/${{users.id}}'\n"
            )
        };
        let load = || of(&format!("load {}/d.toml", folder.display())).map(|_| ());
        let phase = |arrivals| format!("[[phase]]\nduration='10s'\narrivals={arrivals}\n");
        write("d.toml", &toml(3, ""));
        let lacking = load().unwrap_err();
        write("users.csv", "id\na\nb\n");
        let short = load().unwrap_err();
        let mut found = vec![lacking, short];
        for (players, more) in [(2, ""), (1, &*phase(0.2)), (1, &*phase(0.3))] {
            write("d.toml", &toml(players, more));
            found.push(load().err().unwrap_or_default());
        }
        write("users.csv", "id\na\nb,c\n");
        found.push(load().unwrap_err());
        std::fs::remove_dir_all(&folder).unwrap();
        for (found, wanted) in found.iter().zip([
            "users.csv: No such file",
            "3 players, and users.csv has 2 rows, of which each gets one: a longer file, at most 2",
            "",
            "",
            "3 players, and users.csv has 2 rows",
            "users.csv, line 3, column 2: the row has 2 values and the first line 1",
        ]) {
            assert_eq!(found.is_empty(), wanted.is_empty(), "{found}");
            assert!(found.contains(wanted), "{found}");
        }
    }

    #[test]
    fn an_expectation_holds_for_the_scenarios_that_have_its_operation() {
        let jobs = of("load ccu rpc-lua --expect rpc.rate>1 --expect errors==0").unwrap();
        assert_eq!(jobs.iter().map(|job| job.conditions.len()).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn only_a_plain_name_is_a_folder() {
        assert!(part("rpc-lua").is_ok());
        for name in ["", "..", ".", "a/b", "/a", "a/"] {
            assert!(part(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_share_is_read_as_it_was_written() {
        let share = worker_share("1/2/ff/http://a:1").unwrap();
        assert_eq!(
            (share.index, share.count, share.run_number, share.urls.join(",").as_str()),
            (1, 2, 255, "http://a:1")
        );
        for text in ["", "1", "1/0/f/u", "1/2/g/u", "1/2/f"] {
            assert!(worker_share(text).is_none(), "{text}");
        }
    }
}
