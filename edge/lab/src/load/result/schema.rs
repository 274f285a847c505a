//! The JSON Schema of `result.json`, made from the types that write it, so that it cannot differ
//! from them; `cargo xtask docs` keeps it as docs/result.schema.json for those who read results.
//!
//! Source: JSON Schema, draft 2020-12.

use crate::load::result::summary::{RESULT_VERSION, Summary};

/// The schema as JSON text.
#[must_use]
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Summary);
    schema
        .insert("title".to_owned(), format!("throng load result, version {RESULT_VERSION}").into());
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::schema;
    use crate::load::result::summary::{OpSummary, ServerCost, Summary};
    use crate::load::result::{Second, SecondOp};
    use crate::measure::json;
    use crate::measure::percentiles::CurvePoint;

    /// Properties of one object in the schema.
    fn properties<'a>(schema: &'a Value, name: &str) -> &'a serde_json::Map<String, Value> {
        let at = if name.is_empty() { "/properties" } else { &format!("/$defs/{name}/properties") };
        schema.pointer(at).and_then(Value::as_object).unwrap()
    }

    #[test]
    fn every_field_that_is_written_is_described() {
        let schema: Value = serde_json::from_str(&schema()).unwrap();
        let result = serde_json::to_value(Summary {
            ops: vec![OpSummary::default()],
            server: Some(ServerCost::default()),
            series: vec![Second { ops: vec![SecondOp::default()], ..Second::default() }],
            ..Summary::default()
        });
        let result = result.unwrap();
        for (name, at) in [
            ("", ""),
            ("Settings", "/settings"),
            ("Environment", "/environment"),
            ("OpSummary", "/ops/0"),
            ("Percentiles", "/ops/0/service"),
            ("ServerCost", "/server"),
            ("Second", "/series/0"),
            ("SecondOp", "/series/0/ops/0"),
        ] {
            let described = properties(&schema, name);
            for field in result.pointer(at).and_then(Value::as_object).unwrap().keys() {
                let is_described = described
                    .get(field)
                    .is_some_and(|it| it.get("description").is_some_and(Value::is_string));
                assert!(is_described, "{name}.{field}");
            }
        }
    }

    #[test]
    fn results_of_older_versions_are_read() {
        let summary = Summary {
            ops: vec![OpSummary::default()],
            series: vec![Second { ops: vec![SecondOp::default()], ..Second::default() }],
            ..Summary::default()
        };
        let mut old = serde_json::to_value(&summary).unwrap();
        for (at, fields) in [
            ("", &["expectations", "series_unix_ms"][..]),
            ("/series/0/ops/0", &["started", "p90_ns", "p95_ns", "p999_ns"][..]),
        ] {
            let object = old.pointer_mut(at).and_then(Value::as_object_mut).unwrap();
            for field in fields {
                assert!(object.remove(*field).is_some(), "{field}");
            }
        }
        assert_eq!(old.pointer("/series/0/stage"), Some(&"players come".into()));
        let read: Summary = serde_json::from_value(old).unwrap();
        assert_eq!(read.series, summary.series);
    }

    #[test]
    fn long_lists_have_a_line_each_and_nothing_is_changed() {
        let second = Second { heat: vec![(1, 2), (3, 4)], ..Second::default() };
        let second = Second { ops: vec![SecondOp::default(); 2], ..second };
        let op = OpSummary { curve: vec![CurvePoint::default(); 3], ..OpSummary::default() };
        let summary = Summary {
            scenario: "a \"series\"\n".to_owned(),
            ops: vec![op.clone(), op],
            series: vec![second; 5],
            ..Summary::default()
        };
        let text = String::from_utf8(json(&summary).unwrap()).unwrap();
        let same = serde_json::to_value(&summary).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), same);
        let lines = |start: &str| text.lines().filter(|it| it.trim().starts_with(start)).count();
        assert_eq!((lines("{\"at_s\""), lines("{\"quantile\"")), (5, 6), "{text}");
        assert_eq!((lines("\"scenario\""), lines("\"p99_ns\"")), (1, 9), "{text}");
        assert!(text.contains("\"errors\": [],") && text.ends_with("]\n}\n"), "{text}");
    }
}
