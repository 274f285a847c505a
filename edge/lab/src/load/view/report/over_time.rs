//! A run over time as charts need it: as many points as can be seen, what did not count, axes with
//! the time of day, and what jumps from second to second by the way it is measured made smooth.

use crate::load::record::Stage;
use crate::load::result::{STRETCH_S_MIN, Second};
use crate::measure::chart::{Axis, Shade, clock, minutes};

/// Points of a line over time, at most; longer runs are thinned by taking the worst of several.
const POINTS_MAX: usize = 300;
/// Seconds whose mean is drawn of a processor: the kernel counts its time in steps of 10 ms, and
/// not at the moment at which a second ends.
pub(super) const SMOOTH_S: f64 = 5.0;

/// Joins neighbours of one stage in long runs: sums become rates, the worst times stay.
pub(super) fn thin<'a>(series: impl IntoIterator<Item = &'a Second>) -> Vec<Second> {
    let whole = series.into_iter().filter(|second| second.length_s > STRETCH_S_MIN);
    let whole: Vec<&Second> = whole.collect();
    let chunk = whole.len().div_ceil(POINTS_MAX).max(1);
    let stages = whole.chunk_by(|one, next| one.stage == next.stage);
    stages.flat_map(|stage| stage.chunks(chunk)).map(join).collect()
}

fn join(chunk: &[&Second]) -> Second {
    let [before @ .., last] = chunk else { return Second::default() };
    let mut joined = (*last).clone();
    let mean = |cpu: fn(&Second) -> f64| {
        let (sum, length_s) = chunk.iter().fold((0.0, 0.0), |(sum, length_s), it| {
            (sum + cpu(it) * it.length_s, length_s + it.length_s)
        });
        sum / length_s
    };
    (joined.server_cpu, joined.generator_cpu) =
        (mean(|it| it.server_cpu), mean(|it| it.generator_cpu));
    for second in before {
        joined.length_s += second.length_s;
        joined.errors = joined.errors.saturating_add(second.errors);
        joined.sent_bytes = joined.sent_bytes.saturating_add(second.sent_bytes);
        joined.received_bytes = joined.received_bytes.saturating_add(second.received_bytes);
        joined.errors_by.extend(&second.errors_by);
        if let (Some(mine), Some(theirs)) = (&mut joined.zone, &second.zone) {
            mine.join(theirs);
        }
        for (mine, theirs) in joined.ops.iter_mut().zip(&second.ops) {
            mine.done = mine.done.saturating_add(theirs.done);
            mine.started = mine.started.saturating_add(theirs.started);
            for (mine, theirs) in [
                (&mut mine.p50_ns, theirs.p50_ns),
                (&mut mine.p90_ns, theirs.p90_ns),
                (&mut mine.p95_ns, theirs.p95_ns),
                (&mut mine.p99_ns, theirs.p99_ns),
                (&mut mine.p999_ns, theirs.p999_ns),
                (&mut mine.max_ns, theirs.max_ns),
            ] {
                *mine = (*mine).max(theirs);
            }
        }
    }
    joined
}

/// The seconds from the first to the last in which something happened.
pub(super) fn while_it_happens(seconds: &[Second], happens: impl Fn(&Second) -> bool) -> &[Second] {
    let first = seconds.iter().position(&happens).unwrap_or(0);
    let end = seconds.iter().rposition(happens).map_or(0, |last| last + 1);
    seconds.get(first..end).unwrap_or_default()
}

/// A value of every second, at its end, and at the beginning of the first.
pub(super) fn points_over(seconds: &[Second], value: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    let start = seconds.first().map(|first| (begin(first), value(first)));
    start.into_iter().chain(seconds.iter().map(|second| (second.at_s, value(second)))).collect()
}

/// Likewise, of every second the mean of the [`SMOOTH_S`] around it.
pub(super) fn smooth_points(seconds: &[Second], value: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    let mean = |at: &Second| {
        let middle = |it: &Second| it.at_s - it.length_s / 2.0;
        let near = |it: &&Second| (middle(it) - middle(at)).abs() <= SMOOTH_S / 2.0;
        let (sum, length_s) =
            seconds.iter().filter(near).fold((0.0, 0.0), |(sum, length_s), it| {
                (sum + value(it) * it.length_s, length_s + it.length_s)
            });
        sum / length_s
    };
    points_over(seconds, mean)
}

fn begin(second: &Second) -> f64 {
    second.at_s - second.length_s
}

/// The time that charts show, and how it is told.
pub(super) struct Time {
    /// Seconds since the run began.
    from: f64,
    until: f64,
    /// When it began; 0 if that is not known.
    unix_ms: u64,
    /// Whether only some stages count.
    is_shaded: bool,
}

impl Time {
    pub(super) fn of(seconds: &[Second], unix_ms: u64) -> Self {
        let until = seconds.last().map_or(1.0, |second| second.at_s);
        Self { from: 0.0, until, unix_ms, is_shaded: true }
    }

    /// Of operations that are done once: their figures are of all stages.
    pub(super) fn of_what_counts_always(self) -> Self {
        Self { is_shaded: false, ..self }
    }

    /// Only that in which something happened, if it is less than half of all: what players do once
    /// they do while they come.
    pub(super) fn around(self, seconds: &[Second], happens: impl Fn(&Second) -> bool) -> Self {
        let seconds = while_it_happens(seconds, happens);
        let (Some(first), Some(last)) = (seconds.first(), seconds.last()) else { return self };
        let (from, until) = (begin(first).max(self.from), last.at_s);
        if until - from < (self.until - self.from) / 2.0 {
            Self { from, until, ..self }
        } else {
            self
        }
    }

    /// Those of the seconds that lie in it.
    pub(super) fn of_it<'a>(&self, seconds: &'a [Second]) -> &'a [Second] {
        while_it_happens(seconds, |it| it.at_s > self.from && begin(it) < self.until)
    }

    pub(super) fn axis(&self) -> Axis {
        let axis = Axis::seconds(self.from, self.until);
        if self.unix_ms > 0 { axis.with_clock(self.unix_ms) } else { axis }
    }

    pub(super) fn name(&self) -> &'static str {
        match (self.unix_ms > 0, self.is_long()) {
            (true, true) => "minutes, and the time of day (UTC)",
            (true, false) => "seconds, and the time of day (UTC)",
            (false, true) => "minutes",
            (false, false) => "seconds",
        }
    }

    /// A moment, as it stands at the pointer.
    pub(super) fn tell(&self, at: f64) -> String {
        let mut text = elapsed(at, self.is_long());
        if self.unix_ms > 0 {
            text = format!("{text}, {} UTC", clock(self.unix_ms, at));
        }
        text
    }

    fn is_long(&self) -> bool {
        Axis::is_in_minutes(self.until - self.from)
    }

    /// What did not count.
    pub(super) fn shades(&self, seconds: &[Second]) -> Vec<Shade> {
        let stages = seconds.chunk_by(|one, next| one.stage == next.stage);
        let shade = |stage: &[Second]| {
            let (first, last) = (stage.first()?, stage.last()?);
            let (from, until) = (begin(first).max(self.from), last.at_s.min(self.until));
            let is_shade = self.is_shaded && first.stage != Stage::Counted && until > from;
            is_shade.then(|| Shade { from, until, name: first.stage.word() })
        };
        stages.filter_map(shade).collect()
    }
}

/// Seconds since something, with tenths where they are not whole.
pub(super) fn elapsed(at: f64, is_long: bool) -> String {
    if is_long {
        return minutes(at);
    }
    let text = format!("{:.1}", at + 0.0);
    format!("{} s", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::{Time, smooth_points, thin};
    use crate::load::record::Stage;
    use crate::load::result::{Second, SecondOp};

    fn seconds(count: u32, stage: impl Fn(u32) -> Stage) -> Vec<Second> {
        let second = |at: u32| Second {
            at_s: f64::from(at) + 1.0,
            length_s: 1.0,
            stage: stage(at),
            ops: vec![SecondOp { done: 1, p90_ns: u64::from(at), ..SecondOp::default() }],
            received_bytes: 7,
            ..Second::default()
        };
        (0..count).map(second).collect()
    }

    #[test]
    fn long_runs_keep_their_sums_and_the_worst_times_and_never_join_stages() {
        let all = seconds(1_000, |at| if at < 333 { Stage::Ramp } else { Stage::Counted });
        let thinned = thin(&all);
        assert!((250..=310).contains(&thinned.len()), "{}", thinned.len());
        assert_eq!(thinned.iter().map(|it| it.ops[0].done).sum::<u64>(), 1_000);
        assert_eq!(thinned.iter().map(|it| it.received_bytes).sum::<u64>(), 7_000);
        assert_eq!(thinned.iter().map(|it| it.ops[0].p90_ns).max(), Some(999));
        let ramp_s: f64 =
            thinned.iter().filter(|it| it.stage == Stage::Ramp).map(|it| it.length_s).sum();
        assert!((ramp_s - 333.0).abs() < 1e-9, "{ramp_s}");
    }

    #[test]
    fn a_processor_is_drawn_as_a_mean_of_seconds() {
        let mut all = seconds(20, |_| Stage::Counted);
        for (at, second) in all.iter_mut().enumerate() {
            second.server_cpu = [0.4, 0.6][at % 2];
        }
        let points = smooth_points(&all, |it| it.server_cpu);
        assert_eq!(points.len(), 21);
        let inner = &points[3..18];
        assert!(inner.iter().all(|(_, cpu)| (cpu - 0.5).abs() < 0.03), "{points:?}");
    }

    #[test]
    fn charts_of_what_happens_once_show_when_it_does() {
        let mut all = seconds(60, |at| if at < 10 { Stage::Ramp } else { Stage::Counted });
        for second in &mut all[10..] {
            second.ops[0].done = 0;
        }
        let happens = |it: &Second| it.ops[0].done > 0;
        let time = Time::of(&all, 0).around(&all, happens);
        assert!((time.from, time.until) == (0.0, 10.0), "{} {}", time.from, time.until);
        assert_eq!(time.of_it(&all).len(), 10);
        let shades = time.shades(time.of_it(&all));
        assert_eq!((shades.len(), shades[0].name), (1, "players come"));
        all[45].ops[0].done = 1;
        let time = Time::of(&all, 0).around(&all, happens);
        // It begins with the first second, because half of all the time is shown then.
        assert!((time.until - 60.0).abs() < 1e-9, "{}", time.until);
    }
}
