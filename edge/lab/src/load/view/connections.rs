//! Connections and handshakes as people read them: what stands in no operation's service time.
//!
//! In: a [`Summary`]. Out: names with their texts, for the terminal and the report alike; none without
//! TLS, whose times are worth a line.

use crate::load::result::Summary;
use crate::measure::number::{group, time};
use crate::measure::percentiles::Percentiles;

/// Name and text of each line.
pub(super) fn rows(summary: &Summary) -> Vec<(&'static str, String)> {
    let Some(tls) = &summary.connections.tls else { return Vec::new() };
    let connect = &summary.connections.connect;
    let trust = summary.settings.tls.as_ref().map_or("", |it| &it.trust);
    let (full, resumed) = (group(tls.full), group(tls.resumed));
    vec![
        ("Connections of TCP", slowness(connect)),
        (
            "Handshakes of TLS",
            format!("{}; {full} full, {resumed} resumed", slowness(&tls.handshake)),
        ),
        ("TLS", format!("{}; {trust}", tls.protocol)),
    ]
}

/// How many, and how long they took.
fn slowness(times: &Percentiles) -> String {
    let most = match times.p99() {
        Some(ns) => format!("p99 {}", time(ns)),
        None => format!("slowest {}", time(times.max_ns)),
    };
    format!("{}, p50 {}, {most}", group(times.count), time(times.p50_ns))
}

#[cfg(test)]
mod tests {
    use super::rows;
    use crate::load::result::Summary;
    use crate::load::result::summary::TlsSummary;
    use crate::measure::percentiles::Percentiles;

    #[test]
    fn handshakes_are_told_where_there_were_any() {
        let mut summary = Summary::default();
        assert!(rows(&summary).is_empty());
        let times = |count| Percentiles {
            count,
            p50_ns: 2_000_000,
            max_ns: 3_000_000,
            ..Percentiles::default()
        };
        summary.connections.connect = times(6);
        summary.connections.tls = Some(TlsSummary {
            handshake: times(5),
            full: 4,
            resumed: 1,
            protocol: "TLS 1.3 X".to_owned(),
        });
        let text: Vec<String> =
            rows(&summary).into_iter().map(|(name, text)| format!("{name}: {text}")).collect();
        assert_eq!(
            text[1],
            "Handshakes of TLS: 5, p50 2.00 ms, slowest 3.00 ms; 4 full, 1 resumed"
        );
    }
}
