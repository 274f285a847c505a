//! `throng load scenarios`: what the built-in scenarios do and need, and their files.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use lab::load::did_you_mean;
use lab::load::scenario::{BUILT_IN, Pace, Scenario, built_in, parse};

/// The file of one scenario, or the table of all.
///
/// # Errors
/// When there is no scenario of this name.
pub(super) fn text(name: Option<&String>) -> anyhow::Result<String> {
    let Some(name) = name else { return table() };
    let file = built_in(name).with_context(|| {
        let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        let meant = did_you_mean(name, known.iter().copied());
        format!("there is no scenario `{name}`: {}{meant}", known.join(", "))
    })?;
    Ok(file.to_owned())
}

fn table() -> anyhow::Result<String> {
    let mut out = String::new();
    writeln!(
        out,
        "{:<13} {:>7}  {:<14} {:>4}  what players do",
        "name", "players", "rate", "ramp"
    )?;
    for (_, toml) in BUILT_IN {
        let scenario = parse(toml)?;
        writeln!(
            out,
            "{:<13} {:>7}  {:<14} {:>4}  {}",
            scenario.name,
            scenario.players,
            rate(&scenario),
            ramp(scenario.ramp.0),
            scenario.title
        )?;
        writeln!(out, "{:<14}needs {}", "", scenario.needs)?;
        for (name, value) in &scenario.vars {
            writeln!(out, "{:<14}--set {name}={value}", "")?;
        }
    }
    out.push_str(
        "\nrate: operations a second, of all players together or of each; --rate\n\
         ramp: time over which the players come, 0 as fast as the server takes them; --ramp\n\
         --set: the scenario's variables and their values\n\
         `throng load scenarios NAME` prints the file, to copy and edit.\n",
    );
    Ok(out)
}

fn rate(scenario: &Scenario) -> String {
    let paces = scenario.sessions.iter().filter(|session| !session.repeated.is_empty());
    let pace = paces.map(|session| session.pace).find(|pace| *pace != Pace::None);
    match (scenario.rate, pace) {
        (Some(rate), Some(Pace::Player)) => format!("{rate}/s of each"),
        (Some(rate), Some(_)) => format!("{rate}/s of all"),
        _ => "–".to_owned(),
    }
}

fn ramp(ramp: Duration) -> String {
    if ramp.is_zero() { "0".to_owned() } else { format!("{ramp:?}") }
}
