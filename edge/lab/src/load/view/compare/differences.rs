//! In what the machines and programs of several runs differ: it comes before the figures, because a
//! change of the figures may be a change of that.
//!
//! Values that change by themselves (the load before, packets dropped since the start) are not told;
//! of checks that count such things, a change of the verdict is.

use super::Run;
use crate::doctor::Check;
use crate::measure::environment::Environment;

/// Kinds of what differs between runs that are told of one thing, at most.
const VALUES_MAX: usize = 8;
/// Rows of an environment that differ from run to run by themselves, or are told check by check.
const VOLATILE: [&str; 2] = ["Load before", "Doctor"];
/// What is not known of a run.
const UNKNOWN: &str = "not known";

/// Name, and value by value the runs that have it, of everything that is not the same in all runs.
pub(crate) fn differences(runs: &[Run]) -> Vec<(String, String)> {
    all(runs).into_iter().filter(|it| it.is_different).map(|it| (it.name, it.text)).collect()
}

/// What is the same in all runs.
pub(crate) fn common(runs: &[Run]) -> Vec<(String, String)> {
    let same = all(runs).into_iter().filter(|it| !it.is_different && !it.is_check);
    same.map(|it| (it.name, it.text)).collect()
}

struct Fact {
    name: String,
    text: String,
    is_different: bool,
    is_check: bool,
}

fn all(runs: &[Run]) -> Vec<Fact> {
    let tables: Vec<_> =
        runs.iter().map(|run| (&*run.name, run.summary.environment.rows())).collect();
    let mut facts = Vec::new();
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in tables.iter().flat_map(|(_, rows)| rows) {
        if !names.contains(name) && !VOLATILE.contains(name) {
            names.push(name);
        }
    }
    for name in names {
        let values = tables.iter().map(|(run, rows)| {
            let row = rows.iter().find(|row| row.0 == name);
            (*run, row.map_or(UNKNOWN.to_owned(), |it| it.1.clone()))
        });
        facts.push(tell(name.to_owned(), values, false));
    }
    let targets = runs.iter().map(|run| (&*run.name, host(&run.summary.settings.target)));
    facts.push(tell("Target".to_owned(), targets, false));
    let environments = || runs.iter().map(|run| (&*run.name, &run.summary.environment));
    let mut ids: Vec<&str> = Vec::new();
    for check in environments().flat_map(|it| &it.1.checks) {
        if !ids.contains(&&*check.id) {
            ids.push(&check.id);
        }
    }
    // Results of older versions have no checks at all, which is no difference of the machine.
    for id in ids {
        let has_checks = environments().filter(|it| !it.1.checks.is_empty());
        let values = has_checks.map(|(run, it)| (run, of_check(it, id)));
        facts.push(tell(format!("doctor: {id}"), values, true));
    }
    facts
}

/// Hosts of targets without their ports, which servers that are started choose anew each time.
fn host(targets: &str) -> String {
    let host = |target: &str| {
        let address = target.split_once("://").map_or(target, |it| it.1);
        let address = address.split('/').next().unwrap_or_default();
        // Of IPv6 in brackets, or without a port, all of it.
        let is_port = |port: &str| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
        let split = address.rsplit_once(':');
        let bare = split.filter(|it| is_port(it.1) && (!it.0.contains(':') || it.0.ends_with(']')));
        bare.map_or(address, |it| it.0).to_owned()
    };
    targets.split(", ").map(host).collect::<Vec<_>>().join(", ")
}

fn of_check(environment: &Environment, id: &str) -> String {
    let Some(check) = environment.checks.iter().find(|it| it.id == id) else {
        return "not looked at".to_owned();
    };
    let verdict = check.verdict.word();
    if Check::is_steady(check) {
        format!("{} ({verdict})", check.value)
    } else {
        verdict.to_owned()
    }
}

/// Value and the names of the runs that have it, in order.
fn tell<'a>(
    name: String,
    of_runs: impl Iterator<Item = (&'a str, String)>,
    is_check: bool,
) -> Fact {
    let mut values: Vec<(String, Vec<&str>)> = Vec::new();
    for (run, value) in of_runs {
        let at = values.iter().position(|known| known.0 == value).unwrap_or_else(|| {
            values.push((value, Vec::new()));
            values.len() - 1
        });
        if !values[at].1.contains(&run) {
            values[at].1.push(run);
        }
    }
    let text = match &*values {
        [(value, _)] => value.clone(),
        _ => {
            let told = values.iter().take(VALUES_MAX);
            let told = told.map(|(value, runs)| format!("{}: {value}", runs.join(", ")));
            let more = if values.len() > VALUES_MAX { "; …" } else { "" };
            format!("{}{more}", told.collect::<Vec<_>>().join("; "))
        }
    };
    Fact { name, text, is_different: values.len() > 1, is_check }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn hosts_have_no_ports() {
        for (target, wanted) in [
            ("http://127.0.0.1:7350", "127.0.0.1"),
            ("10.9.1.2:9500", "10.9.1.2"),
            ("https://game.example/x, http://b:1", "game.example, b"),
            ("http://[::1]:80", "[::1]"),
            ("::1", "::1"),
            ("", ""),
        ] {
            assert_eq!(host(target), wanted);
        }
    }
}
