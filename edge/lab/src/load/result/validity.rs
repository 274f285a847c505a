//! Whether the figures may be believed: they must not be when the generator itself was in the way, and those
//! of the zone neither when it did not do what it was asked for (`zone`).
//!
//! Every stage that a figure comes from is judged: the counted time for the operations of the loop,
//! the time in which the players came for what they did once. In the closed loop nothing is due, so
//! that there is no lateness. A 99th percentile is only judged, and only judged by, where there are
//! enough values to tell it (`measure::percentiles`): of ten pings it is the slowest one, and one of ten
//! is late on every machine at times.
//!
//! In: the figures of a finished run. Out: reasons, none when the figures may be believed.

use super::summary::Summary;
use crate::measure::number::{float, time};
use crate::measure::percentiles::Percentiles;

/// Lateness at p99, by the generator's own fault, above which it was in the way whatever it measured.
pub(crate) const LATENESS_NS_MAX: u64 = 1_000_000;
/// Lateness of a ping at p99 that is within what the program says that it adds: round trips of one
/// machine take some tens of microseconds, of which a hundredth is shorter than a call of the system.
const PING_NS_MIN: u64 = 5_000;
/// Likewise as a share of the time that is reported, at p99.
const LATENESS_SHARE_MAX: f64 = 0.01;
/// Share of its processors above which it could not have done more.
const CPU_SHARE_MAX: f64 = 0.95;
/// Share of a stage that it may spend in long turns: what becomes due in them is late, and beyond
/// this the 99th percentile is of them.
const STALLED_SHARE_MAX: f64 = 0.01;

/// How reasons begin that are the generator's.
pub(crate) const GENERATOR: &str = "the generator was in the way: ";

/// What the generator did in one stage.
struct Stage<'a> {
    /// Before what is said of it.
    prefix: &'static str,
    seconds: f64,
    cpu_share: f64,
    stalled_s: f64,
    turn_ns_max: u64,
    behind: &'a Percentiles,
    /// Lateness up to which nothing is said.
    behind_ns_min: u64,
    /// The shortest 99th percentile that comes from it; none where there are too few values.
    p99_ns: Option<u64>,
    /// What was to be done had its time; else everything came as fast as it could.
    is_scheduled: bool,
}

impl Summary {
    /// Finds out whether the figures may be believed.
    pub(super) fn judge(&mut self) {
        let processors = f64::from(self.generator.processors.max(1));
        let mut reasons = Vec::new();
        for stage in self.stages() {
            stage.judge(processors, &mut reasons);
        }
        let own = reasons.into_iter().map(|it| format!("{GENERATOR}{it}"));
        let of_zone = self.zone.iter().flat_map(|it| it.invalid());
        self.invalid = own.chain(of_zone).collect();
    }

    fn stages(&self) -> [Stage<'_>; 2] {
        let p99_ns = |setup: bool| {
            let ops = self.ops.iter().filter(|op| op.counted && op.setup == setup);
            ops.filter_map(|op| op.response.p99()).min()
        };
        let (own, ramp) = (&self.generator, &self.generator.ramp);
        let counted = Stage {
            prefix: "",
            seconds: self.counted_s,
            cpu_share: own.cpu_share,
            stalled_s: own.stalled_s,
            turn_ns_max: own.turn_ns_max,
            behind: &own.behind,
            p99_ns: p99_ns(false).filter(|_| !self.settings.is_closed()),
            behind_ns_min: if self.ping.is_some() { PING_NS_MIN } else { 0 },
            is_scheduled: !self.settings.saturate,
        };
        let setup_ns = p99_ns(true);
        let ramp = Stage {
            prefix: "while the players came, ",
            seconds: ramp.seconds,
            cpu_share: ramp.cpu_share,
            stalled_s: ramp.stalled_s,
            turn_ns_max: ramp.turn_ns_max,
            behind: &ramp.behind,
            behind_ns_min: 0,
            p99_ns: setup_ns,
            is_scheduled: setup_ns.is_some() && self.settings.ramp_s > 0.0,
        };
        [counted, ramp]
    }
}

impl Stage<'_> {
    fn judge(&self, processors: f64, reasons: &mut Vec<String>) {
        let prefix = self.prefix;
        if let (Some(p99_ns), Some(behind_ns)) = (self.p99_ns, self.behind.p99())
            && behind_ns > self.behind_ns_min
            && (behind_ns > LATENESS_NS_MAX
                || float(behind_ns) > float(p99_ns) * LATENESS_SHARE_MAX)
        {
            let percent = 100.0 * float(behind_ns) / float(p99_ns.max(1));
            reasons.push(format!(
                "{prefix}1 % of all operations were sent {} late or later, {percent:.0} % of the 99th \
                 percentile that is told of them ({})",
                time(behind_ns),
                time(p99_ns),
            ));
        }
        let share = self.cpu_share / processors;
        if self.is_scheduled && share > CPU_SHARE_MAX {
            let percent = share * 100.0;
            reasons.push(format!("{prefix}the generator's processor was full: {percent:.0} %"));
        }
        let stalled = self.stalled_s / self.seconds.max(1e-9);
        if self.is_scheduled && self.p99_ns.is_some() && stalled > STALLED_SHARE_MAX {
            reasons.push(format!(
                "{prefix}{:.0} % of the time was in turns of its loop of more than 1 ms, the longest \
                 of {}, in which nothing else was sent",
                stalled * 100.0,
                time(self.turn_ns_max),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::load::PingSummary;
    use crate::load::result::summary::{OpSummary, Summary};
    use crate::measure::percentiles::Percentiles;

    fn times(p99_ns: u64) -> Percentiles {
        Percentiles { count: 1_000, p99_ns, ..Percentiles::default() }
    }

    fn op(setup: bool, p99_ns: u64) -> OpSummary {
        OpSummary { counted: true, setup, response: times(p99_ns), ..OpSummary::default() }
    }

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

    #[test]
    fn a_millisecond_or_a_hundredth_of_lateness_is_too_much() {
        const MS: u64 = 1_000_000;
        for (behind_ns, p99_ns, is_invalid) in [
            (MS + 1, 1_000 * MS, true),
            (MS / 5, 2 * MS, true),
            (MS, 100 * MS, false),
            (MS / 100, 2 * MS, false),
        ] {
            for setup in [false, true] {
                let mut summary = Summary { ops: vec![op(setup, p99_ns)], ..Summary::default() };
                let own = &mut summary.generator;
                let behind = if setup { &mut own.ramp.behind } else { &mut own.behind };
                *behind = times(behind_ns);
                summary.judge();
                let found = summary.invalid.join("; ");
                assert_eq!(!found.is_empty(), is_invalid, "{behind_ns} of {p99_ns}: {found}");
                assert_eq!(found.contains(": while the players came"), is_invalid && setup);
                // In the closed loop nothing is due.
                summary.settings.saturate = true;
                summary.judge();
                assert_eq!(!summary.invalid.is_empty(), is_invalid && setup, "{setup}");
            }
        }
    }

    #[test]
    fn a_ping_may_be_late_by_what_it_says_that_it_adds() {
        for (behind_ns, is_ping, is_invalid) in
            [(5_000, true, false), (5_001, true, true), (5_000, false, true)]
        {
            let mut summary = Summary { ops: vec![op(false, 50_000)], ..Summary::default() };
            summary.ping = is_ping.then(Default::default);
            summary.generator.behind = times(behind_ns);
            summary.judge();
            assert_eq!(!summary.invalid.is_empty(), is_invalid, "{behind_ns}");
        }
    }

    #[test]
    fn ten_pings_are_too_few_to_judge_by() {
        for (count, is_invalid) in [(10, false), (99, false), (100, true)] {
            let few = |ns| Percentiles { count, ..times(ns) };
            let op = OpSummary { response: few(50_000), ..op(false, 0) };
            let mut summary = Summary { ops: vec![op], counted_s: 1.0, ..Summary::default() };
            summary.ping = Some(PingSummary::default());
            summary.generator.behind = few(5_000_000);
            summary.judge();
            assert_eq!(!summary.invalid.is_empty(), is_invalid, "{count}");
        }
    }

    #[test]
    fn the_shortest_percentile_that_is_told_is_what_lateness_is_compared_with() {
        let ops = vec![op(false, 100_000_000), op(false, 1_000_000), op(true, 1)];
        let mut summary = Summary { ops, ..Summary::default() };
        summary.generator.behind = times(50_000);
        summary.judge();
        let found = summary.invalid.join("; ");
        assert!(
            found.contains("50.0 µs late or later, 5 % of") && found.contains("1.00 ms"),
            "{found}"
        );
    }

    #[test]
    fn long_turns_are_too_much_when_they_are_a_hundredth_of_the_time() {
        for (stalled_s, is_invalid) in [(0.09, false), (0.11, true)] {
            let ops = vec![op(false, 1_000_000)];
            let mut summary = Summary { ops, counted_s: 10.0, ..Summary::default() };
            summary.generator.stalled_s = stalled_s;
            summary.generator.turn_ns_max = 60_000_000;
            summary.judge();
            assert_eq!(!summary.invalid.is_empty(), is_invalid, "{stalled_s}");
            let found = summary.invalid.join("; ");
            assert_eq!(found.contains("the longest of 60.0 ms"), is_invalid, "{found}");
        }
    }
}
