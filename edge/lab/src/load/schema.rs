//! The JSON Schema of `result.json`, made from the types that write it, so that it cannot differ
//! from them; `cargo xtask docs` keeps it as docs/result.schema.json for those who read results.
//!
//! Source: JSON Schema, draft 2020-12.

use super::summary::{RESULT_VERSION, Summary};

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
    use crate::load::summary::{OpSummary, Second, SecondOp, ServerCost, Summary};

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
}
