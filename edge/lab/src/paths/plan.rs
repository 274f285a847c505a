//! What a comparison of paths is asked for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::place::Path;

/// Sizes, at most.
const SIZES_MAX: usize = 8;
/// Bytes of a ping: as few as carry its number, and as many as pass in one piece.
const SIZE_BYTES: [u32; 2] = [16, 1_400];
/// Pings at one time, at most.
const STREAMS_MAX: u16 = 64;
/// Times that everything is measured, at most.
const ROUNDS_MAX: u32 = 100;

/// A comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which, in the order in which they are told.
    pub paths: Vec<Path>,
    /// Bytes of a ping.
    pub sizes: Vec<u32>,
    /// Pings at one time.
    pub streams: u16,
    /// Between the pings of one; nought is back to back.
    pub interval: Duration,
    /// Length of each measurement.
    pub span: Duration,
    /// How often everything is measured.
    pub rounds: u32,
    /// Ends it when it is set; what was measured until then is kept.
    pub stop: Arc<AtomicBool>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            paths: Path::ALL.to_vec(),
            sizes: vec![64, 256, 1_024],
            streams: 8,
            interval: Duration::from_millis(10),
            span: Duration::from_secs(5),
            rounds: 3,
            stop: Arc::default(),
        }
    }
}

/// Why it cannot be done so.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: {what}")]
pub struct PlanError {
    /// The flag.
    pub flag: &'static str,
    /// What is wrong, and what to write.
    pub what: String,
}

impl Plan {
    /// What is wrong with it.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), PlanError> {
        let wrong = |flag, what: String| Err(PlanError { flag, what });
        if self.sizes.is_empty() || self.sizes.len() > SIZES_MAX {
            return wrong("size", format!("1 to {SIZES_MAX} sizes"));
        }
        let [least, most] = SIZE_BYTES;
        if let Some(size) = self.sizes.iter().find(|it| !(least..=most).contains(*it)) {
            return wrong(
                "size",
                format!("{size}: {least} to {most} bytes, which pass in one piece"),
            );
        }
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return wrong("streams", format!("1 to {STREAMS_MAX}"));
        }
        if !(Duration::from_millis(200)..=Duration::from_mins(10)).contains(&self.span) {
            return wrong("time", "200ms to 10m".to_owned());
        }
        if self.interval > self.span {
            return wrong("interval", "no longer than --time".to_owned());
        }
        if !(1..=ROUNDS_MAX).contains(&self.rounds) {
            return wrong("rounds", format!("1 to {ROUNDS_MAX}"));
        }
        Ok(())
    }
}
