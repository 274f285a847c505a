//! Axes: their range, marks at round places, and how those are written.

/// Labels on an axis, about.
const TICKS: usize = 6;
/// Length of a time axis in seconds from which on it is told in minutes.
const MINUTES_FROM_S: f64 = 180.0;

/// One axis: its range, marks and how they are written.
pub(crate) struct Axis {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) ticks: Vec<Tick>,
}

/// A mark on an axis.
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
    /// Stands below the label, if there is something.
    pub(crate) below: String,
}

impl Tick {
    pub(crate) fn new(at: f64, label: String) -> Self {
        // Without the sign of a nought.
        Self { at: at + 0.0, label, below: String::new() }
    }
}

impl Axis {
    /// From 0 to at least `max`, at round numbers.
    pub(crate) fn linear(max: f64, write: impl Fn(f64) -> String) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let step = nice_step(max);
        let count = (max / step).ceil();
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= count + 0.5 {
            ticks.push(Tick::new(at * step, write(at * step)));
            at += 1.0;
        }
        Self { min: 0.0, max: count * step, ticks }
    }

    /// From `min` to `max` exactly, in seconds, at round ones or minutes or hours between.
    pub(crate) fn seconds(min: f64, max: f64) -> Self {
        let max = if max > min { max } else { min + 1.0 };
        let step = time_step(max - min);
        let is_long = Self::is_in_minutes(max - min);
        let mut ticks = Vec::new();
        let mut at = (min / step).ceil() * step;
        while at <= max && ticks.len() <= 4 * TICKS {
            // Sums of tenths are not round.
            let round = (at * 1e6).round() / 1e6;
            let label = if is_long { minutes(at) } else { format!("{}", round + 0.0) };
            ticks.push(Tick::new(at, label));
            at += step;
        }
        Self { min, max, ticks }
    }

    /// Whether so many seconds are told in minutes.
    pub(crate) fn is_in_minutes(range_s: f64) -> bool {
        range_s > MINUTES_FROM_S
    }

    /// Adds the time of day to an axis whose nought is `unix_ms` milliseconds after 1970, UTC: where a
    /// second has several marks, below the first one.
    pub(crate) fn with_clock(mut self, unix_ms: u64) -> Self {
        let mut last = String::new();
        for tick in &mut self.ticks {
            let told = clock(unix_ms, tick.at);
            if told != last {
                tick.below.clone_from(&told);
                last = told;
            }
        }
        self
    }

    /// A logarithmic axis around 10^`min` to 10^`max`, from one round number to another; values
    /// are exponents. Every power of ten has a label, and on short axes its double and its half.
    pub(crate) fn powers(min: f64, max: f64, write: impl Fn(f64) -> String) -> Self {
        const ROUND: [f64; 3] = [0.0, std::f64::consts::LOG10_2, 1.0 - std::f64::consts::LOG10_2]; // 1, 2, 5
        let places = |from: f64, until: f64| {
            let mut places = Vec::new();
            let mut power = from.floor();
            while power <= until.ceil() {
                places.extend(ROUND.map(|part| power + part));
                power += 1.0;
            }
            places
        };
        const SMALL: f64 = 1e-6;
        let around = places(min - 1.0, max + 1.0);
        let start = around.iter().rev().find(|at| **at <= min + SMALL).copied().unwrap_or(min);
        let end = around.iter().find(|at| **at >= max - SMALL && **at > start + SMALL);
        let end = end.copied().unwrap_or(max + 1.0);
        let is_short = end - start < 2.2;
        let is_tick = |at: &f64| {
            let is_power = (at - at.round()).abs() < SMALL;
            (is_power || is_short) && (start - SMALL..=end + SMALL).contains(at)
        };
        let ticks = around.into_iter().filter(is_tick);
        Self {
            min: start,
            max: end,
            ticks: ticks.map(|at| Tick::new(at, write(10_f64.powf(at)))).collect(),
        }
    }

    pub(super) fn share(&self, value: f64) -> f64 {
        ((value - self.min) / (self.max - self.min)).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, so that about [`TICKS`] steps make `range`.
#[expect(clippy::cast_precision_loss, reason = "a small constant")]
fn nice_step(range: f64) -> f64 {
    let rough = range / TICKS as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// Likewise of time: what is longer than ten seconds is told in parts of minutes and hours.
#[expect(clippy::cast_precision_loss, reason = "a small constant")]
fn time_step(range: f64) -> f64 {
    const STEPS: [f64; 14] = [
        10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
        21_600.0, 86_400.0,
    ];
    let rough = range / TICKS as f64;
    let step = if rough <= 5.0 { None } else { STEPS.into_iter().find(|step| *step >= rough) };
    step.unwrap_or_else(|| nice_step(range))
}

/// Seconds as minutes, or as hours: `2:30`, `1:02:30`.
pub(crate) fn minutes(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "clamped")]
    let whole = seconds.clamp(-1e9, 1e9).round() as i64;
    let sign = if whole < 0 { "-" } else { "" };
    let whole = whole.unsigned_abs();
    let (hours, minutes, seconds) = (whole / 3_600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{sign}{minutes}:{seconds:02}"),
        _ => format!("{sign}{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// The time of day, `seconds` after a moment that lies `unix_ms` milliseconds after 1970. UTC.
pub(crate) fn clock(unix_ms: u64, seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "clamped")]
    let moved_ms = (seconds.clamp(-1e9, 1e9) * 1e3).round() as i64;
    let whole = unix_ms.saturating_add_signed(moved_ms) / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", whole / 3_600, whole / 60 % 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use super::{Axis, clock, minutes, nice_step};

    #[test]
    fn axes_have_round_numbers() {
        for (range, step) in [(10.0, 2.0), (7.0, 2.0), (1_000.0, 200.0), (0.6, 0.1), (31.0, 10.0)] {
            assert!((nice_step(range) - step).abs() < step * 1e-9, "{range}: {}", nice_step(range));
        }
        let axis = Axis::linear(700.0, |value| format!("{value}"));
        assert!((axis.max - 800.0).abs() < 1e-9);
        assert_eq!(axis.ticks.len(), 5);
        assert_eq!(Axis::linear(f64::NAN, |_| String::new()).ticks.len(), 6);
    }

    #[test]
    fn time_is_told_in_seconds_or_minutes_and_by_the_clock() {
        let labels = |axis: Axis| -> Vec<String> {
            axis.ticks.into_iter().map(|tick| format!("{} {}", tick.label, tick.below)).collect()
        };
        // 2026-11-22 05:49:01.5 UTC.
        let unix_ms = 1_795_326_541_500;
        assert_eq!(
            labels(Axis::seconds(-3.0, 9.0).with_clock(unix_ms)),
            ["-2 05:48:59", "0 05:49:01", "2 05:49:03", "4 05:49:05", "6 05:49:07", "8 05:49:09",]
        );
        assert_eq!(
            labels(Axis::seconds(0.0, 1.1).with_clock(unix_ms)),
            ["0 05:49:01", "0.2 ", "0.4 ", "0.6 05:49:02", "0.8 ", "1 "]
        );
        let long = labels(Axis::seconds(0.0, 640.0));
        assert_eq!(long, ["0:00 ", "2:00 ", "4:00 ", "6:00 ", "8:00 ", "10:00 "]);
        assert_eq!((&*minutes(3_750.0), &*clock(0, -1.0)), ("1:02:30", "00:00:00"));
        assert!(Axis::seconds(0.0, 1e300).ticks.len() < 100);
    }
}
