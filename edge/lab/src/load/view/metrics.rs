//! A run while it lasts, in the text format of Prometheus.
//!
//! In: its progress. Out: the page. Serving it is the caller's.
//!
//! Source: Prometheus, "Exposition formats", text format 0.0.4.

use std::fmt::Write as _;

use crate::load::result::Progress;
use crate::measure::number::float;

/// The page.
#[must_use]
pub fn prometheus(progress: &Progress<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, progress);
    out
}

fn write_all(out: &mut String, progress: &Progress<'_>) -> std::fmt::Result {
    let (second, summary) = (progress.second, progress.summary);
    head(out, "run", "gauge", "1; its labels say what runs and where it is.")?;
    writeln!(
        out,
        "throng_load_run{{scenario=\"{}\",target=\"{}\",stage=\"{}\"}} 1",
        label(&summary.scenario),
        label(&summary.settings.target),
        progress.stage.word(),
    )?;
    for (name, help, value) in [
        ("players", "Players that are present.", f64::from(second.players)),
        ("players_ready", "Players that have become ready.", f64::from(second.ready)),
        ("connections", "Connections open.", f64::from(second.connections)),
        ("sockets", "WebSockets open.", f64::from(second.sockets)),
        (
            "generator_cpu",
            "Processors that the generator used in the last second.",
            second.generator_cpu,
        ),
        (
            "server_cpu",
            "Processors that the server used; 0 if it is not measured.",
            second.server_cpu,
        ),
    ] {
        head(out, name, "gauge", help)?;
        writeln!(out, "throng_load_{name} {value}")?;
    }
    let sum =
        |bytes: fn(&crate::load::Second) -> u64| float(progress.history.iter().map(bytes).sum());
    for (name, help, value) in [
        ("sent_bytes_total", "Bytes to the server.", sum(|it| it.sent_bytes)),
        ("received_bytes_total", "Bytes from the server.", sum(|it| it.received_bytes)),
    ] {
        head(out, name, "counter", help)?;
        writeln!(out, "throng_load_{name} {value}")?;
    }
    let connecting = &progress.total.connecting;
    head(out, "tls_handshakes_total", "counter", "Handshakes of TLS by kind.")?;
    for (kind, count) in [("full", connecting.full), ("resumed", connecting.resumed)] {
        writeln!(out, "throng_load_tls_handshakes_total{{kind=\"{kind}\"}} {count}")?;
    }
    operations(out, progress)?;
    head(out, "errors_total", "counter", "Errors by operation and kind.")?;
    for ((op, kind), error) in progress.errors {
        let op = progress.op_names.get(usize::from(*op)).map_or("-", |name| name);
        let (op, kind) = (label(op), label(&kind.text));
        writeln!(out, "throng_load_errors_total{{op=\"{op}\",kind=\"{kind}\"}} {}", error.count)?;
    }
    Ok(())
}

fn operations(out: &mut String, progress: &Progress<'_>) -> std::fmt::Result {
    head(out, "answered_total", "counter", "Operations answered as they should be.")?;
    for (place, name) in progress.op_names.iter().enumerate() {
        let done: u64 =
            progress.history.iter().filter_map(|it| it.ops.get(place)).map(|it| it.done).sum();
        writeln!(out, "throng_load_answered_total{{op=\"{}\"}} {done}", label(name))?;
    }
    let help = "Times of the last second, from the intended start in the open loop; quantile 1 is the slowest.";
    head(out, "time_seconds", "gauge", help)?;
    for (name, op) in progress.op_names.iter().zip(&progress.second.ops) {
        let name = label(name);
        for (quantile, ns) in [
            ("0.5", op.p50_ns),
            ("0.9", op.p90_ns),
            ("0.95", op.p95_ns),
            ("0.99", op.p99_ns),
            ("0.999", op.p999_ns),
            ("1", op.max_ns),
        ] {
            let seconds = float(ns) / 1e9;
            writeln!(
                out,
                "throng_load_time_seconds{{op=\"{name}\",quantile=\"{quantile}\"}} {seconds}"
            )?;
        }
    }
    Ok(())
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# HELP throng_load_{name} {help}\n# TYPE throng_load_{name} {kind}")
}

/// What may stand as a label's value.
fn label(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn what_a_server_says_cannot_leave_its_label() {
        assert_eq!(label("a\"} 1\nb\\\u{1b}"), "a\\\"} 1\\nb\\\\");
    }
}
