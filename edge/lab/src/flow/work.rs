//! Processor time that is burned for each datagram, as a game would use it on what it has received.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::measure::number::float;

/// Steps of one trial, and trials: the fastest one was disturbed least.
const STEPS: u64 = 1 << 18;
const TRIALS: u32 = 9;

/// A fixed number of steps, each of which needs the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    steps: u64,
}

impl Work {
    /// Finds out how many steps take so long on this processor; none for no time.
    pub(crate) fn of(span: Duration) -> Self {
        if span.is_zero() {
            return Self { steps: 0 };
        }
        let steps = float(STEPS) * span.as_secs_f64() / fastest().as_secs_f64().max(1e-9);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let steps = steps.round().max(1.0) as u64;
        Self { steps }
    }

    /// Takes the time.
    #[inline]
    pub(crate) fn burn(self) {
        let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..self.steps {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}

/// How long [`STEPS`] take when nothing disturbs them. Found out once: whoever asks for work time and again
/// does not take that of others by asking.
fn fastest() -> Duration {
    static FASTEST: OnceLock<Duration> = OnceLock::new();
    let trial = |_| {
        let began = Instant::now();
        Work { steps: STEPS }.burn();
        began.elapsed()
    };
    *FASTEST.get_or_init(|| (0..TRIALS).map(trial).min().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Work;

    #[test]
    fn more_time_is_more_steps() {
        assert_eq!(Work::of(Duration::ZERO).steps, 0);
        let (short, long) =
            (Work::of(Duration::from_nanos(200)).steps, Work::of(Duration::from_micros(20)).steps);
        // A hundredfold, but for how busy the machine is.
        assert!(short >= 1 && long > 10 * short && long < 1_000 * short, "{short} {long}");
    }
}
