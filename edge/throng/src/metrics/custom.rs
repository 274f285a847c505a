//! Scripts' own metrics: counters, gauges and timers that modules name and tag as they like, shown
//! with the prefix `metrics.custom_prefix` beside the server's.
//!
//! Whatever scripts name, the page stays one that Prometheus reads: names and tags are cleaned, a
//! name keeps the kind that it had first, and there are at most `metrics.custom_scope_limit` series
//! (a name with its tags). What is beyond is counted and said in the log, not kept.
//!
//! One map behind a lock, which is held for a look-up; a scrape takes the list of series and reads
//! them outside of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use event::{Now, OncePerSecond};
use game::guest::{Metric, MetricKind};

use super::{Kind, Sample};

/// Labels that every sample has already; a tag of that name gets a prefix.
const COMMON_LABELS: [&str; 2] = ["node_name", "namespace"];

/// All series of this process.
#[derive(Debug)]
pub struct CustomMetrics {
    prefix: String,
    series_max: usize,
    table: Mutex<Table>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    series: BTreeMap<Key, Arc<Series>>,
    /// The kind of every name on the page.
    families: BTreeMap<String, MetricKind>,
    said: OncePerSecond,
}

type Key = (String, Vec<(String, String)>);

/// Written under the table's lock, read by a scrape without it.
#[derive(Debug)]
struct Series {
    key: Key,
    kind: MetricKind,
    /// The bits of a double: the value, or the sum of a timer.
    value: AtomicU64,
    /// How often a timer was recorded.
    count: AtomicU64,
}

impl CustomMetrics {
    /// An empty table. `prefix` begins every name; at most `series_max` series are kept.
    pub fn new(prefix: &str, series_max: usize) -> Self {
        Self {
            prefix: prefix.to_owned(),
            series_max,
            table: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Takes a change. A counter never falls: negative steps are refused, as is what is not finite.
    pub fn apply(&self, now: Now, metric: &Metric<'_>) {
        let falls = metric.kind != MetricKind::Gauge && metric.value < 0.0;
        if falls || !metric.value.is_finite() {
            self.refused.fetch_add(1, Relaxed);
            return;
        }
        let key = self.key(metric);
        // Whoever panicked has left whole series behind.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match table.series.get(&key) {
            Some(series) if series.kind == metric.kind => Ok(series.clone()),
            Some(_) => Err("a metric of a script changed its kind"),
            None => table.add(key, metric.kind, self.series_max),
        };
        match known {
            Ok(series) => series.apply(metric.value),
            Err(why) => {
                self.refused.fetch_add(1, Relaxed);
                if let Some(unsaid) = table.said.note(now, why) {
                    tracing::warn!(
                        metric = metric.name,
                        unsaid,
                        "{why}, it is not kept; metrics.custom_scope_limit is {} (said once a second)",
                        self.series_max
                    );
                }
            }
        }
    }

    fn key(&self, metric: &Metric<'_>) -> Key {
        let mut labels: Vec<(String, String)> = Vec::with_capacity(metric.tags.len());
        for (name, value) in metric.tags {
            let mut name = cleaned(name);
            if COMMON_LABELS.contains(&&*name) || !name.starts_with(|c: char| !c.is_ascii_digit()) {
                name.insert_str(0, "tag_");
            }
            if labels.iter().all(|(known, _)| *known != name) {
                labels.push((name, value.clone()));
            }
        }
        labels.sort_unstable();
        (format!("{}_{}", self.prefix, cleaned(metric.name)), labels)
    }

    /// The page's part.
    pub fn samples(&self, out: &mut Vec<Sample>) {
        let series: Vec<Arc<Series>> = {
            let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            table.series.values().cloned().collect()
        };
        out.push(Sample::gauge(
            "custom_metrics",
            "Series of scripts' metrics.",
            series.len() as u64,
        ));
        let help = "Values of scripts' metrics that were not kept: too many series \
                    (metrics.custom_scope_limit), another kind than before, a counter that falls.";
        out.push(Sample::counter("custom_metrics_refused", help, self.refused.load(Relaxed)));
        for one in series {
            one.samples(out);
        }
    }
}

impl Table {
    fn add(
        &mut self,
        key: Key,
        kind: MetricKind,
        series_max: usize,
    ) -> Result<Arc<Series>, &'static str> {
        if self.series.len() >= series_max {
            return Err("scripts have too many metrics");
        }
        let names = page_names(&key.0, kind);
        if names.iter().flatten().any(|name| self.families.get(name).is_some_and(|k| *k != kind)) {
            return Err("a metric of a script changed its kind");
        }
        self.families.extend(names.into_iter().flatten().map(|name| (name, kind)));
        let series = Arc::new(Series {
            key: key.clone(),
            kind,
            value: AtomicU64::new(0),
            count: AtomicU64::new(0),
        });
        self.series.insert(key, series.clone());
        Ok(series)
    }
}

/// The names that a series has on the page: a timer has two.
fn page_names(name: &str, kind: MetricKind) -> [Option<String>; 2] {
    match kind {
        MetricKind::Counter | MetricKind::Gauge => [Some(name.to_owned()), None],
        MetricKind::Timer => [Some(format!("{name}_sum")), Some(format!("{name}_count"))],
    }
}

impl Series {
    fn apply(&self, value: f64) {
        let before = f64::from_bits(self.value.load(Relaxed));
        let after = if self.kind == MetricKind::Gauge { value } else { before + value };
        self.value.store(after.to_bits(), Relaxed);
        self.count.store(self.count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "Prometheus numbers are doubles")]
    fn samples(&self, out: &mut Vec<Sample>) {
        let value = f64::from_bits(self.value.load(Relaxed));
        let count = self.count.load(Relaxed) as f64;
        let kind = if self.kind == MetricKind::Gauge { Kind::Gauge } else { Kind::Counter };
        let values = [value, count];
        for (name, value) in page_names(&self.key.0, self.kind).into_iter().flatten().zip(values) {
            let labels = self.key.1.iter();
            out.push(Sample {
                name: name.into(),
                suffix: "",
                help: "Made by a script.",
                kind,
                labels: labels.map(|(name, value)| (name.clone().into(), value.clone())).collect(),
                value,
            });
        }
    }
}

/// Letters, digits and underscores; anything else becomes an underscore.
fn cleaned(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;

    fn page(metrics: &Arc<CustomMetrics>) -> String {
        let mut registry = Registry::new("nakama", "n1", "");
        let metrics = metrics.clone();
        registry.add(move |out| metrics.samples(out));
        registry.render()
    }

    fn apply(
        metrics: &CustomMetrics,
        kind: MetricKind,
        name: &str,
        tags: &[(&str, &str)],
        value: f64,
    ) {
        let tags: Vec<_> = tags.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        metrics.apply(Now::default(), &Metric { kind, name, tags: &tags, value });
    }

    #[test]
    fn values_add_up_and_the_page_stays_readable() {
        let metrics = Arc::new(CustomMetrics::new("custom", 100));
        for _ in 0..2 {
            apply(&metrics, MetricKind::Counter, "kills", &[("map", "a\"b\nc")], 3.0);
            apply(&metrics, MetricKind::Gauge, "load-1", &[], 0.5);
            apply(&metrics, MetricKind::Timer, "turn", &[("1st", "x")], 0.25);
        }
        apply(&metrics, MetricKind::Counter, "kills", &[("node_name", "forged")], 1.0);
        // Refused: falls, is nothing, has another kind, also by the name of a timer's part.
        apply(&metrics, MetricKind::Counter, "kills", &[], -1.0);
        apply(&metrics, MetricKind::Gauge, "load-1", &[], f64::NAN);
        apply(&metrics, MetricKind::Gauge, "kills", &[], 1.0);
        apply(&metrics, MetricKind::Counter, "turn_count", &[], 1.0);
        let page = page(&metrics);
        for line in [
            "nakama_custom_kills{node_name=\"n1\",map=\"a\\\"b\\nc\"} 6\n",
            "nakama_custom_kills{node_name=\"n1\",tag_node_name=\"forged\"} 1\n",
            "# TYPE nakama_custom_kills counter\n",
            "nakama_custom_load_1{node_name=\"n1\"} 0.5\n",
            "nakama_custom_turn_sum{node_name=\"n1\",tag_1st=\"x\"} 0.5\n",
            "nakama_custom_turn_count{node_name=\"n1\",tag_1st=\"x\"} 2\n",
            "nakama_custom_metrics{node_name=\"n1\"} 4\n",
            "nakama_custom_metrics_refused{node_name=\"n1\"} 4\n",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    }

    #[test]
    fn a_script_that_makes_a_tag_of_every_user_is_stopped_at_the_limit() {
        let metrics = Arc::new(CustomMetrics::new("custom", 10));
        for user in 0..1_000 {
            apply(&metrics, MetricKind::Counter, "logins", &[("user", &user.to_string())], 1.0);
            apply(&metrics, MetricKind::Gauge, &format!("gauge {user}"), &[], 1.0);
        }
        let page = page(&metrics);
        assert_eq!(page.matches("\nnakama_custom_logins{").count(), 5, "{page}");
        assert!(page.contains("nakama_custom_metrics_refused{node_name=\"n1\"} 1990\n"), "{page}");
        // Those that are known go on.
        apply(&metrics, MetricKind::Counter, "logins", &[("user", "0")], 1.0);
        assert!(super::tests::page(&metrics).contains("user=\"0\"} 2\n"));
    }
}
