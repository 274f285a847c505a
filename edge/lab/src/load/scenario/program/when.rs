//! Steps that are done only with certain values of the scenario's variables, so that `--set` chooses between two ways of
//! doing the same.
//!
//! In: a scenario as it was written, and what was set. Out: the same without the steps that are not done.

use std::collections::{BTreeMap, BTreeSet};

use super::{mistake, steps_of};
use crate::load::scenario::{Scenario, ScenarioError};

/// The scenario with the steps that are done.
///
/// # Errors
/// A condition asks for what is no variable, or a variable that steps ask for has a value that none of them knows: a
/// misspelt one would leave them out in silence.
pub(super) fn taken(
    scenario: &Scenario,
    set: &BTreeMap<String, String>,
) -> Result<Scenario, ScenarioError> {
    let mut taken = scenario.clone();
    let value_of = |name: &String| set.get(name).or_else(|| scenario.vars.get(name));
    let steps = scenario.sessions.iter().flat_map(steps_of);
    let conditions: BTreeSet<_> = steps.flat_map(|step| &step.when).collect();
    for (name, _) in &conditions {
        let (Some(own), Some(value)) = (scenario.vars.get(*name), value_of(name)) else {
            let what = "`when` asks for a variable of the scenario: write it into `[vars]`";
            return Err(mistake(name, what));
        };
        let asked = conditions.iter().filter(|(asked, _)| asked == name).map(|(_, value)| *value);
        let known: BTreeSet<_> = asked.chain([own]).collect();
        if !known.contains(value) {
            let known: Vec<_> = known.into_iter().map(String::as_str).collect();
            let what = format!("`{value}` is none of {}", known.join(", "));
            return Err(mistake(&format!("--set {name}"), what));
        }
    }
    for session in &mut taken.sessions {
        for steps in [&mut session.first, &mut session.repeated, &mut session.last] {
            steps
                .retain(|step| step.when.iter().all(|(name, value)| value_of(name) == Some(value)));
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::taken;
    use crate::load::scenario::{Scenario, parse};

    fn scenario(when: &str) -> Scenario {
        let text = format!(
            "name='a'\ntitle='a'\n[vars]\nway='one'\n[[session]]\nname='s'\n[[session.loop]]\nop='always'\nget='/'\n\
             [[session.loop]]\nop='sometimes'\nget='/'\nwhen={when}\n"
        );
        parse(&text).unwrap()
    }

    /// The operations that are done with this value, or what is wrong.
    fn ops(when: &str, way: Option<&str>) -> Result<Vec<String>, String> {
        let set = way.map(|way| ("way".to_owned(), way.to_owned())).into_iter().collect();
        let taken = taken(&scenario(when), &set).map_err(|error| error.to_string())?;
        Ok(taken.sessions[0].repeated.iter().filter_map(|step| step.op.clone()).collect())
    }

    #[test]
    fn a_step_is_done_with_the_value_that_it_asks_for() {
        let (one, both) =
            (vec!["always".to_owned()], vec!["always".to_owned(), "sometimes".to_owned()]);
        assert_eq!(ops("{ way='other' }", None), Ok(one.clone()));
        assert_eq!(ops("{ way='other' }", Some("other")), Ok(both.clone()));
        assert_eq!(ops("{ way='one' }", None), Ok(both));
        assert_eq!(ops("{ way='other' }", Some("one")), Ok(one));
    }

    #[test]
    fn a_value_that_no_step_knows_is_no_silence() {
        let error = ops("{ way='other' }", Some("otter")).unwrap_err();
        assert!(error.contains("--set way") && error.contains("none of one, other"), "{error}");
        let error = ops("{ wey='other' }", None).unwrap_err();
        assert!(error.contains("wey") && error.contains("[vars]"), "{error}");
    }
}
