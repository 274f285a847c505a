//! What no run can mean, although it has the form of a scenario: said with its place, its value
//! and what to write instead.
//!
//! In: a scenario as it was written. Out: the first mistake. What only shows when steps are put
//! together (names that nobody sets, say) is found there.

use super::{mistake, steps_of};
use crate::load::scenario::data::{DATA_FILES_MAX, Pick};
use crate::load::scenario::{Scenario, ScenarioError, StepForm, Think};

/// Players that arrive a second, at most: more than one thread can make come.
const ARRIVALS_MAX: f64 = 1_000_000.0;

/// # Errors
/// [`ScenarioError::Meaning`] with the first thing that cannot be meant so.
pub(super) fn check(scenario: &Scenario) -> Result<(), ScenarioError> {
    if scenario.rate_end.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
        return Err(mistake("rate_end", "is not above zero"));
    }
    if scenario.rate_end.is_some() && scenario.rate.is_none() {
        return Err(mistake("rate_end", "there is no `rate` that it could begin with"));
    }
    if scenario.rate_end.is_some() && !scenario.phases.is_empty() {
        let what = "with phases a rate is of each player and stays; let `arrivals` rise from phase to phase";
        return Err(mistake("rate_end", what));
    }
    // TOML has `nan` and `inf` too.
    if let Some(rate) = scenario.rate.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
        let what = format!("{rate} is not above zero; leave it out for a loop without a pace");
        return Err(mistake("rate", what));
    }
    if scenario.timeout.0.is_zero() {
        let what = "0 would fail every operation: write a time above zero, or leave it out for 10s";
        return Err(mistake("timeout", what));
    }
    data(scenario)?;
    for session in &scenario.sessions {
        let place = format!("session `{}`", session.name);
        if session.renew_every.is_some_and(|every| every.0.is_zero()) {
            let what = "`renew_every` is above zero: nothing else would ever be done";
            return Err(mistake(&place, what));
        }
        let flies = steps_of(session).any(|form| form.zone_fly.is_some());
        if session.ping_every.is_some() && flies {
            let what = "`ping_every` is JSON, and sockets of the zone's pilots speak protobuf: leave it \
                        out, a snapshot comes in each tick";
            return Err(mistake(&place, what));
        }
        let joins = steps_of(session).position(|form| form.zone_join == Some(true));
        let asks = steps_of(session).position(|form| form.zone_datagrams == Some(true));
        if asks.is_some() && (joins.is_none() || joins > asks) {
            let what = "`zone_datagrams` is for who has a ship: write it behind `zone_join`";
            return Err(mistake(&place, what));
        }
        for (index, form) in steps_of(session).enumerate() {
            let name = form.op.clone().unwrap_or_else(|| format!("step {}", index + 1));
            step(&format!("{place}, {name}"), form)?;
        }
    }
    for phase in &scenario.phases {
        if !(0.0..=ARRIVALS_MAX).contains(&phase.arrivals) {
            let what =
                format!("`arrivals = {}`: write 0 to {ARRIVALS_MAX} a second", phase.arrivals);
            return Err(mistake(&format!("phase `{}`", phase.name), what));
        }
    }
    Ok(())
}

/// What is said of data files.
fn data(scenario: &Scenario) -> Result<(), ScenarioError> {
    if scenario.data.len() > DATA_FILES_MAX {
        return Err(mistake("data", format!("more than {DATA_FILES_MAX} files")));
    }
    for (index, data) in scenario.data.iter().enumerate() {
        let place = format!("data `{}`", data.name);
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if data.name.is_empty() || !data.name.chars().all(is_letter) {
            return Err(mistake(&place, "a `name` has letters, digits, `_` and `-`"));
        }
        if scenario.data[..index].iter().any(|other| other.name == data.name) {
            return Err(mistake(&place, "another file has this `name`"));
        }
        let start = format!("{}.", data.name);
        if let Some(name) = scenario.vars.keys().find(|name| name.starts_with(&start)) {
            return Err(mistake(
                &place,
                format!("the variable `{name}` reads like a column of it"),
            ));
        }
        if data.wrap && data.pick != Pick::Player {
            let what =
                "`wrap` is for `pick = \"player\"`: in turn and at random rows are used again";
            return Err(mistake(&place, what));
        }
    }
    Ok(())
}

fn step(place: &str, form: &StepForm) -> Result<(), ScenarioError> {
    // Source: RFC 9110, section 15.
    if let Some(status) = form.expect.iter().find(|status| !(100..=599).contains(*status)) {
        let what = format!("`expect = [{status}]` is no status of HTTP: write 100 to 599");
        return Err(mistake(place, what));
    }
    if let Some(Think::Between { min, max }) = form.think
        && min > max
    {
        let what = format!(
            "`think`: min {:?} is longer than max {:?}; write the shorter one as `min`",
            min.0, max.0
        );
        return Err(mistake(place, what));
    }
    let targets = [
        ("get", &form.get),
        ("post", &form.post),
        ("put", &form.put),
        ("delete", &form.delete),
        ("connect", &form.connect),
    ];
    for (key, target) in targets {
        // What a variable begins with is known only when it is filled in.
        if let Some(target) = target
            && !target.starts_with('/')
            && !target.starts_with("${")
        {
            let what = format!(
                "`{key} = {target:?}` is a path on the server and begins with `/`; the server \
                 itself is named by --target"
            );
            return Err(mistake(place, what));
        }
    }
    Ok(())
}
