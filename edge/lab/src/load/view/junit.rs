//! What became of runs, for CI: JUnit XML.
//!
//! In: results with the verdicts that stand in them. Out: the file's text.

use std::fmt::Write as _;

use super::advice::failure;
use crate::load::result::Summary;
use crate::measure::text::escape;

/// What became of runs as JUnit XML: a suite each, a test case for every condition, and one for
/// the run itself, which fails when nothing was answered.
#[must_use]
pub fn junit(runs: &[&Summary]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for summary in runs {
        // Writing to a String cannot fail.
        let _ = suite(&mut xml, summary);
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn suite(xml: &mut String, summary: &Summary) -> std::fmt::Result {
    let reason = failure(summary);
    let mut cases = vec![("the run is answered", reason.as_deref())];
    cases.extend(summary.expectations.iter().map(|verdict| {
        (verdict.condition.as_str(), Some(verdict.found.as_str()).filter(|_| !verdict.holds))
    }));
    let suite = escape(&summary.scenario);
    writeln!(
        xml,
        "<testsuite name=\"throng load {suite}\" tests=\"{}\" failures=\"{}\" time=\"{:.3}\">",
        cases.len(),
        cases.iter().filter(|(_, failure)| failure.is_some()).count(),
        summary.counted_s
    )?;
    for (name, failure) in cases {
        write!(xml, "  <testcase classname=\"{suite}\" name=\"{}\"", escape(name))?;
        match failure {
            None => writeln!(xml, "/>")?,
            Some(found) => {
                let found = escape(found);
                writeln!(xml, "><failure message=\"{found}\"/></testcase>")?;
            }
        }
    }
    writeln!(xml, "</testsuite>")
}

#[cfg(test)]
mod tests {
    use super::junit;
    use crate::load::result::Summary;
    use crate::load::result::expect::Verdict;
    use crate::load::result::summary::OpSummary;

    #[test]
    fn junit_names_what_failed() {
        let verdict = |condition: &str, holds| Verdict {
            condition: condition.to_owned(),
            holds,
            found: "rpc.response_p99 is 25.0 ms".to_owned(),
        };
        let op =
            OpSummary { name: "rpc".to_owned(), counted: true, done: 9, ..OpSummary::default() };
        let summary = Summary {
            headline: "rpc".to_owned(),
            counted_s: 1.0,
            ops: vec![op],
            expectations: vec![
                verdict("rpc.response_p99 < 20ms", false),
                verdict("errors < 10", true),
            ],
            ..Summary::default()
        };
        let xml = junit(&[&summary, &Summary::default()]);
        assert!(xml.contains("tests=\"3\" failures=\"1\""), "{xml}");
        assert!(xml.contains("tests=\"1\" failures=\"1\""), "{xml}");
        assert!(xml.contains("rpc.response_p99 &lt; 20ms"), "{xml}");
        assert!(xml.contains("<failure message=\"rpc.response_p99 is 25.0 ms\"/>"), "{xml}");
    }
}
