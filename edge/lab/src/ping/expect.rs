//! Conditions on a ping: those of `throng load`, and a bare percentile (`p99 < 1ms`), which is of the
//! time that the headline tells: response time in the open loop, service time in the closed one.

use crate::load::expect::{BadCondition, Condition};

/// Reads a condition.
///
/// # Errors
/// As for [`Condition`]; of a name that neither grammar has, what `load`'s says.
pub fn condition(text: &str, is_closed: bool, ops: &[String]) -> Result<Condition, BadCondition> {
    let condition = match text.parse::<Condition>() {
        Err(BadCondition::Metric { metric, meant }) => {
            let kind = if is_closed { "service" } else { "response" };
            Condition::of_metric(text, &format!("{kind}_{metric}")).map_err(
                |error| match error {
                    // As it was written, not as it was taken.
                    BadCondition::Metric { .. } => BadCondition::Metric { metric, meant },
                    other => other,
                },
            )?
        }
        read => read?,
    };
    match condition.operation() {
        Some(op) if !ops.iter().any(|known| known == op) => {
            Err(BadCondition::Operation { op: op.to_owned(), known: ops.join(", ") })
        }
        _ => Ok(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::condition;
    use crate::load::{OpSummary, Percentiles, Summary};

    #[test]
    fn a_bare_percentile_is_of_the_headlines_time() {
        let times = |p99_ns| Percentiles { count: 100, p99_ns, ..Percentiles::default() };
        let op = OpSummary {
            name: "udp 64 B".to_owned(),
            counted: true,
            done: 100,
            response: times(2_000_000),
            service: times(1_000_000),
            ..OpSummary::default()
        };
        let summary = Summary { headline: op.name.clone(), ops: vec![op], ..Summary::default() };
        let ops = ["udp 64 B".to_owned()];
        for (text, is_closed, holds) in [
            ("p99 < 1500us", false, false),
            ("p99 < 1500us", true, true),
            ("udp 64 B.p99 <= 2ms", false, true),
            ("service_p99 < 1500us", false, true),
        ] {
            let verdict = condition(text, is_closed, &ops).unwrap().check(&summary);
            assert_eq!((verdict.holds, &*verdict.condition), (holds, text), "{}", verdict.found);
        }
        for (text, part) in [
            ("p98 < 1ms", "no metric `p98`"),
            ("udp 65 B.p99 < 1ms", "`udp 65 B` is not measured"),
            ("p99 < 1", "which is a time"),
            ("p99", "not a condition"),
        ] {
            let error = condition(text, false, &ops).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
