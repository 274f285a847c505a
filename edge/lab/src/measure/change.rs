//! By how much a figure has changed between two sets of measurements, and within which bounds: the
//! interval that says whether it has changed at all.
//!
//! The ratio of the two geometric means, with the 99 % confidence interval of Welch and Student over
//! the logarithms: figures are positive, change by factors, and scatter more where they are larger.
//! It needs no equal variances and no equal numbers, and is wide where there are few. 99 and not
//! 95 % because a comparison tells several figures: of twenty that did not change, one in five
//! comparisons would name one.
//!
//! Not here: where the values come from. Neighbouring stretches of one run resemble each other, so
//! that an interval of them is too narrow; who uses it so has to say so.
//!
//! Source: B. L. Welch, "The generalization of Student's problem when several different population
//! variances are involved", Biometrika 34 (1947).

use super::number::float;

/// Part of all intervals that hold the true ratio.
const CONFIDENCE: f64 = 0.99;
/// A change below this is none, however narrow the interval: the layout of code, or the room's
/// temperature, makes as much.
const CHANGE_LEAST: f64 = 0.01;
/// Degrees of freedom beyond which the distribution is no longer told apart from its limit.
const FREEDOM_MAX: f64 = 1_000.0;

/// What changed, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// After divided by before.
    pub(crate) ratio: f64,
    /// The bounds of the ratio.
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Change {
    /// Of measurements before and after; none of fewer than two on a side, or where one is not
    /// above 0.
    pub(crate) fn of(before: &[f64], after: &[f64]) -> Option<Self> {
        let (before, after) = (Logs::of(before)?, Logs::of(after)?);
        let difference = after.mean - before.mean;
        let (b, a) = (before.variance / before.count, after.variance / after.count);
        let error = (a + b).sqrt();
        let half = if error > 0.0 {
            let freedom = (a + b).powi(2)
                / (a.powi(2) / (after.count - 1.0) + b.powi(2) / (before.count - 1.0));
            student(freedom) * error
        } else {
            0.0
        };
        let change = Self {
            ratio: difference.exp(),
            lowest: (difference - half).exp(),
            highest: (difference + half).exp(),
        };
        change.ratio.is_finite().then_some(change)
    }

    /// Whether it is more than noise.
    pub(crate) fn is_real(&self) -> bool {
        let is_apart = self.lowest > 1.0 || self.highest < 1.0;
        is_apart && (self.ratio - 1.0).abs() >= CHANGE_LEAST
    }
}

struct Logs {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Logs {
    fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 || values.iter().any(|it| !it.is_finite() || *it <= 0.0) {
            return None;
        }
        let count = float(values.len() as u64);
        let logs = || values.iter().map(|it| it.ln());
        let mean = logs().sum::<f64>() / count;
        let squares: f64 = logs().map(|it| (it - mean).powi(2)).sum();
        Some(Self { count, mean, variance: squares / (count - 1.0) })
    }
}

/// The value that Student's t exceeds in size with 1 − [`CONFIDENCE`].
///
/// With t = √ν · tan φ the density becomes cos^(ν−1) φ, so that the share within ±t is one area
/// under it divided by another, and needs no gamma function.
fn student(freedom: f64) -> f64 {
    const STEPS: u32 = 4_096;
    let freedom = freedom.clamp(1.0, FREEDOM_MAX);
    let width = std::f64::consts::FRAC_PI_2 / f64::from(STEPS);
    let density = |step: u32| (f64::from(step) * width).cos().max(0.0).powf(freedom - 1.0);
    let areas: Vec<f64> =
        (0..STEPS).map(|it| f64::midpoint(density(it), density(it + 1))).collect();
    let wanted = CONFIDENCE * areas.iter().sum::<f64>();
    let mut sum = 0.0;
    for (step, area) in (0..STEPS).zip(&areas) {
        if sum + area >= wanted {
            let part = (wanted - sum) / area;
            return freedom.sqrt() * ((f64::from(step) + part) * width).tan();
        }
        sum += area;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use event::Random;

    use super::{Change, student};

    /// About normal, with a mean of 0 and a deviation of 1.
    fn normal(rng: &mut Random) -> f64 {
        (0..12)
            .map(|_| f64::from(u32::try_from(rng.u64() >> 32).unwrap()) / 4_294_967_296.0)
            .sum::<f64>()
            - 6.0
    }

    fn rounds(rng: &mut Random, count: usize, mean: f64, spread: f64) -> Vec<f64> {
        (0..count).map(|_| mean * (1.0 + spread * normal(rng))).collect()
    }

    #[test]
    fn students_t_is_that_of_the_tables() {
        for (freedom, wanted) in [
            (1.0, 63.657),
            (2.0, 9.925),
            (3.0, 5.841),
            (4.0, 4.604),
            (8.0, 3.355),
            (30.0, 2.750),
            (1e9, 2.581),
        ] {
            let t = student(freedom);
            assert!((t / wanted - 1.0).abs() < 1e-3, "{freedom}: {t}");
        }
    }

    #[test]
    fn what_did_not_change_is_noise_and_what_did_is_found() {
        for (count, spread) in [(3, 0.02), (5, 0.02), (5, 0.3), (10, 0.05)] {
            let mut called = 0;
            for seed in 0..300 {
                let mut rng = Random::from_number(seed);
                let (one, other) =
                    (rounds(&mut rng, count, 5.0, spread), rounds(&mut rng, count, 5.0, spread));
                called += u32::from(Change::of(&one, &other).unwrap().is_real());
            }
            assert!(called <= 9, "{count} rounds of ±{spread}: {called} of 300");
        }
        for (count, spread, least) in [(5, 0.01, 295), (5, 0.02, 285), (10, 0.04, 285)] {
            let mut found = 0;
            let mut held = 0;
            for seed in 0..300 {
                let mut rng = Random::from_number(seed);
                let (one, other) =
                    (rounds(&mut rng, count, 5.0, spread), rounds(&mut rng, count, 5.5, spread));
                let change = Change::of(&one, &other).unwrap();
                found += i32::from(change.is_real() && change.ratio > 1.0);
                held += i32::from((change.lowest..=change.highest).contains(&1.1));
            }
            assert!(found >= least, "{count} rounds of ±{spread}: {found} of 300");
            assert!(held >= 291, "{count} rounds of ±{spread}: {held} of 300");
        }
    }

    #[test]
    fn few_values_and_noughts_say_nothing() {
        assert_eq!(Change::of(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(Change::of(&[1.0, 2.0], &[0.0, 2.0]), None);
        assert_eq!(Change::of(&[1.0, f64::NAN], &[1.0, 2.0]), None);
        let same = Change::of(&[2.0, 2.0], &[2.0, 2.0]).unwrap();
        assert!((same.ratio - 1.0).abs() < 1e-12 && !same.is_real());
        // Without any spread a change of a thousandth is none, and one of a tenth is one.
        assert!(!Change::of(&[2.0, 2.0], &[2.002, 2.002]).unwrap().is_real());
        assert!(Change::of(&[2.0, 2.0], &[2.2, 2.2]).unwrap().is_real());
    }
}
