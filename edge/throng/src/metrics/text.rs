//! The Prometheus text format, version 0.0.4.
//!
//! Source: "Text-based format", prometheus.io/docs/instrumenting/exposition_formats. Samples come
//! in, in any order; they go out grouped by name, in order of first appearance.

use std::fmt::Write as _;

use super::{Kind, Sample};

/// Writes the page. `common` labels stand on every sample but those of the process.
pub(super) fn write(prefix: &str, common: &[(&str, String)], samples: &[Sample]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut groups: std::collections::BTreeMap<&str, Vec<&Sample>> =
        std::collections::BTreeMap::new();
    for sample in samples {
        if seen.insert(&*sample.name) {
            names.push(&sample.name);
        }
        groups.entry(&sample.name).or_default().push(sample);
    }
    let mut page = String::new();
    for name in names {
        let Some(group) = groups.get(name) else { continue };
        let plain = name.starts_with("process_");
        let full =
            if plain || prefix.is_empty() { name.to_owned() } else { format!("{prefix}_{name}") };
        let common = if plain { &[][..] } else { common };
        family(&mut page, &full, common, group);
    }
    page
}

fn family(page: &mut String, name: &str, common: &[(&str, String)], group: &[&Sample]) {
    let Some(first) = group.first() else { return };
    let kind = match first.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let help = first.help.replace('\\', "\\\\").replace('\n', "\\n");
    // Writing to a String cannot fail.
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for sample in group {
        page.push_str(name);
        page.push_str(sample.suffix);
        let own = sample.labels.iter().map(|(label, value)| (&**label, value));
        let labels = common.iter().map(|(label, value)| (*label, value)).chain(own);
        let mut open = '{';
        for (label, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(page, "{open}{label}=\"{value}\"");
            open = ',';
        }
        page.push_str(if open == ',' { "} " } else { " " });
        page.push_str(&number(sample.value));
        page.push('\n');
    }
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_families() {
        let samples = [
            Sample::counter("overall_count", "Requests and messages.", 7).with("core", "0"),
            Sample::gauge("sessions", "Open sockets.", 2),
            Sample::counter("overall_count", "other words", 8).with("core", "1"),
            Sample { value: 0.5, ..Sample::gauge("load", "A \\ back\nslash.", 0) },
            Sample::counter("process_x", "Without prefix.", 1),
            Sample::gauge("odd", "Odd label.", 0).with("l", "a\"b\\c\nd"),
        ];
        let common = [("node_name", "n1".to_owned())];
        let wanted = "\
# HELP nakama_overall_count Requests and messages.
# TYPE nakama_overall_count counter
nakama_overall_count{node_name=\"n1\",core=\"0\"} 7
nakama_overall_count{node_name=\"n1\",core=\"1\"} 8
# HELP nakama_sessions Open sockets.
# TYPE nakama_sessions gauge
nakama_sessions{node_name=\"n1\"} 2
# HELP nakama_load A \\\\ back\\nslash.
# TYPE nakama_load gauge
nakama_load{node_name=\"n1\"} 0.5
# HELP process_x Without prefix.
# TYPE process_x counter
process_x 1
# HELP nakama_odd Odd label.
# TYPE nakama_odd gauge
nakama_odd{node_name=\"n1\",l=\"a\\\"b\\\\c\\nd\"} 0
";
        assert_eq!(write("nakama", &common, &samples), wanted);
        assert!(write("", &[], &samples).contains("\nsessions 2\n"));
    }

    #[test]
    fn numbers_are_written_in_full() {
        for (value, text) in [
            (0.0, "0"),
            (1e15, "1000000000000000"),
            (-2.5, "-2.5"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
