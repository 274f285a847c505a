//! What `/metrics` shows of each API call, under Nakama's names: `AuthenticateDevice_count`,
//! `_errors`, `_recv_bytes`, `_sent_bytes` and `_latency_ms`, and `overall_latency_ms` for all
//! together. A call is there once it has been called, as in Nakama; RPC functions are `Rpc_…`.
//!
//! Waiting times are in seconds in spite of the name: so is what Nakama's timers show (tally, the
//! library that it counts with). They are histograms here and summaries there; sum and count are the
//! same in both.
//!
//! Source: Nakama 3.40, `server/metrics.go`.

use std::borrow::Cow;
use std::sync::Arc;

use server::stats::{CallCounters, CoreStats};

use super::times::TimesSum;
use crate::metrics::Sample;

/// The counters of one call, of all cores.
#[derive(Clone, Debug, Default)]
struct Sum {
    count: u64,
    errors: u64,
    recv_bytes: u64,
    sent_bytes: u64,
    latency: TimesSum,
}

impl Sum {
    fn add(&mut self, counters: &CallCounters) {
        self.count += counters.count.read();
        self.errors += counters.errors.read();
        self.recv_bytes += counters.recv_bytes.read();
        self.sent_bytes += counters.sent_bytes.read();
        self.latency.add(&counters.latency);
    }
}

/// The samples of all calls that have been called.
pub(super) fn samples(cores: &[Arc<CoreStats>], out: &mut Vec<Sample>) {
    let mut sums: Vec<(&'static str, Sum)> = Vec::new();
    let mut overall = Sum::default();
    for core in cores {
        for (index, (name, counters)) in core.calls.all().enumerate() {
            if index == sums.len() {
                sums.push((name, Sum::default()));
            }
            if let Some((_, sum)) = sums.get_mut(index) {
                sum.add(counters);
            }
            overall.add(counters);
        }
    }
    let help = "How long clients waited for answers of the API, seconds.";
    overall.latency.samples("overall_latency_ms".to_owned(), help, out);
    for (name, sum) in sums.iter().filter(|(_, sum)| sum.count > 0) {
        let counter = |what: &str, help, value| Sample {
            name: Cow::Owned(format!("{name}_{what}")),
            ..Sample::counter("", help, value)
        };
        out.push(counter("count", "Answers of this call.", sum.count));
        out.push(counter("errors", "Answers of this call that are errors.", sum.errors));
        out.push(counter("recv_bytes", "Bytes of this call's requests.", sum.recv_bytes));
        out.push(counter("sent_bytes", "Bytes of this call's answers.", sum.sent_bytes));
        let help = "How long clients waited for this call, seconds.";
        sum.latency.samples(format!("{name}_latency_ms"), help, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;

    #[test]
    fn calls_are_shown_once_they_are_called_and_summed_over_cores() {
        let cores: Vec<Arc<CoreStats>> = vec![Arc::default(), Arc::default()];
        for core in &cores {
            let (_, device) =
                core.calls.all().find(|(name, _)| *name == "AuthenticateDevice").unwrap();
            device.count.up();
            device.latency.counts[3].up();
            device.latency.sum_us.add(1_500);
        }
        let mut registry = Registry::new("nakama", "n", "");
        registry.add(move |out| samples(&cores, out));
        let page = registry.render();
        for line in [
            "# TYPE nakama_AuthenticateDevice_count counter",
            "nakama_AuthenticateDevice_count{node_name=\"n\"} 2",
            "nakama_AuthenticateDevice_errors{node_name=\"n\"} 0",
            "# TYPE nakama_AuthenticateDevice_latency_ms histogram",
            "nakama_AuthenticateDevice_latency_ms_bucket{node_name=\"n\",le=\"0.001\"} 0",
            "nakama_AuthenticateDevice_latency_ms_bucket{node_name=\"n\",le=\"0.002\"} 2",
            "nakama_AuthenticateDevice_latency_ms_bucket{node_name=\"n\",le=\"+Inf\"} 2",
            "nakama_AuthenticateDevice_latency_ms_sum{node_name=\"n\"} 0.003",
            "nakama_AuthenticateDevice_latency_ms_count{node_name=\"n\"} 2",
            "nakama_overall_latency_ms_count{node_name=\"n\"} 2",
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
        assert!(!page.contains("GetAccount"));
    }
}
