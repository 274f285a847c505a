//! Whether the generator itself was in the way, so that the figures must not be believed.
//!
//! In: the figures of a finished run. Out: reasons, none when the figures may be believed.

use super::summary::Summary;
use crate::measure::number::seconds;

/// Lateness of sending at p99, by the generator's own fault, above which the generator counts as
/// behind, unless it is below 1 % of the response time's p99.
pub(crate) const LATENESS_NS_MAX: u64 = 1_000_000;

impl Summary {
    /// Finds out whether the generator was in the way.
    pub(super) fn judge(&mut self) {
        let mut reasons = Vec::new();
        let behind_ns = self.generator.behind.p99_ns;
        let response_ns = self.headline_op().map_or(0, |op| op.response.p99_ns);
        if behind_ns > LATENESS_NS_MAX && behind_ns > response_ns / 100 {
            let ms = seconds(behind_ns) * 1e3;
            reasons.push(format!("1 % of all operations were sent {ms:.1} ms late or later"));
        }
        let share = self.generator.cpu_share / f64::from(self.generator.processors.max(1));
        if share > 0.95 && !self.settings.saturate {
            let percent = share * 100.0;
            reasons.push(format!("the generator's processor was full: {percent:.0} %"));
        }
        self.invalid = reasons;
    }
}

#[cfg(test)]
mod tests {
    use crate::load::result::summary::Summary;

    #[test]
    fn processes_that_share_a_processor_fill_it_together() {
        for (processors, is_full) in [(1, true), (2, false)] {
            let mut summary = Summary::default();
            summary.settings.processes = 2;
            summary.generator.processors = processors;
            summary.generator.cpu_share = 0.99;
            summary.judge();
            assert_eq!(!summary.invalid.is_empty(), is_full, "{processors}");
        }
    }
}
