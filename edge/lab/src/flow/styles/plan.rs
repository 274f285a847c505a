//! What a comparison of styles is asked for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::datagram::{BATCH_MAX, DATAGRAM_BYTES_MAX, SendStyle, Style};

use super::result::Path;

/// Source ports, at most.
pub const FLOWS_MAX: u16 = 1_024;
/// Rounds, at most.
pub const ROUNDS_MAX: u32 = 1_000;
/// Time of one measurement: from this on the counts of processor time mean something.
const SPAN_MIN: Duration = Duration::from_millis(100);
const SPAN_MAX: Duration = Duration::from_hours(1);
/// Work for each datagram, at most: between two batches of merged ones a receiver is asked how it does.
const WORK_MAX: Duration = Duration::from_micros(100);
/// How long a receiver lets more come, at most.
const GATHER_MAX: Duration = Duration::from_millis(10);

/// A comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Each measurement takes so long, and a tenth more before it counts.
    pub span: Duration,
    /// How often everything is measured.
    pub rounds: u32,
    /// Bytes of a datagram.
    pub bytes: usize,
    /// Source ports where there are many.
    pub flows: u16,
    /// Datagrams that a flow sends together, where there is one and where there are many.
    pub bursts: [usize; 2],
    /// Datagrams a second that are sent; none is as many as can be.
    pub rate: Option<f64>,
    /// Processor time that the receiver burns for each datagram.
    pub work: Duration,
    /// How long styles of many a call let more come once they had to wait.
    pub gather: Duration,
    /// Pieces that such styles take with one call.
    pub batch: usize,
    /// Receive buffer that sockets are given, as far as the system lets them.
    pub buffer_bytes: usize,
    /// Where.
    pub paths: Vec<Path>,
    /// Styles of receiving; the first is what the others are compared with.
    pub styles: Vec<Style>,
    /// Styles of sending, likewise.
    pub send_styles: Vec<SendStyle>,
    /// Becomes true when somebody wants it to end.
    pub stop: Arc<AtomicBool>,
}

/// Why it cannot be done so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Too short, or longer than anybody waits.
    #[error("a measurement takes 100 ms to 1 h, not {0:?}")]
    Span(Duration),
    /// None, or too many.
    #[error("{0} rounds: 1 to {ROUNDS_MAX}")]
    Rounds(u32),
    /// Larger than there are.
    #[error("{0} bytes: a datagram has {DATAGRAM_BYTES_MAX} at most")]
    Bytes(usize),
    /// None, or too many.
    #[error("{0} flows: 1 to {FLOWS_MAX}")]
    Flows(u16),
    /// None, or too many.
    #[error("{0} datagrams together: 1 to {BATCH_MAX}")]
    Batch(usize),
    /// Nothing would come.
    #[error("--rate has to be above 0")]
    Rate,
    /// More than a receiver is to burn.
    #[error("--work burns 100 µs for each datagram at most")]
    Work,
    /// Longer than a datagram should wait.
    #[error("--gather waits 10 ms at most")]
    Gather,
    /// There is nothing to do.
    #[error("nothing to compare: name a style")]
    Nothing,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            span: Duration::from_secs(5),
            rounds: 3,
            bytes: 64,
            flows: 64,
            bursts: [64, 1],
            rate: None,
            work: Duration::ZERO,
            gather: Duration::from_micros(50),
            batch: 64,
            buffer_bytes: 4 << 20,
            paths: Path::ALL.to_vec(),
            styles: Style::ALL.to_vec(),
            send_styles: SendStyle::ALL.to_vec(),
            stop: Arc::default(),
        }
    }
}

impl Plan {
    /// Whether it can be done.
    ///
    /// # Errors
    /// What is wrong with it, the first thing.
    pub fn check(&self) -> Result<(), PlanError> {
        if !(SPAN_MIN..=SPAN_MAX).contains(&self.span) {
            return Err(PlanError::Span(self.span));
        }
        if !(1..=ROUNDS_MAX).contains(&self.rounds) {
            return Err(PlanError::Rounds(self.rounds));
        }
        if self.bytes > DATAGRAM_BYTES_MAX {
            return Err(PlanError::Bytes(self.bytes));
        }
        if !(1..=FLOWS_MAX).contains(&self.flows) {
            return Err(PlanError::Flows(self.flows));
        }
        let [one, many] = self.bursts;
        for together in [self.batch, one, many] {
            if !(1..=BATCH_MAX).contains(&together) {
                return Err(PlanError::Batch(together));
            }
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return Err(PlanError::Rate);
        }
        if self.work > WORK_MAX {
            return Err(PlanError::Work);
        }
        if self.gather > GATHER_MAX {
            return Err(PlanError::Gather);
        }
        if self.paths.is_empty() || (self.styles.is_empty() && self.send_styles.is_empty()) {
            return Err(PlanError::Nothing);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Plan, PlanError};

    #[test]
    fn what_cannot_be_done_is_said() {
        assert_eq!(Plan::default().check(), Ok(()));
        let ms = Duration::from_millis;
        let it = Plan::default;
        for (plan, error) in [
            (Plan { span: ms(99), ..it() }, PlanError::Span(ms(99))),
            (Plan { rounds: 0, ..it() }, PlanError::Rounds(0)),
            (Plan { bytes: 65_508, ..it() }, PlanError::Bytes(65_508)),
            (Plan { flows: 0, ..it() }, PlanError::Flows(0)),
            (Plan { batch: 0, ..it() }, PlanError::Batch(0)),
            (Plan { bursts: [1, 1_025], ..it() }, PlanError::Batch(1_025)),
            (Plan { rate: Some(0.0), ..it() }, PlanError::Rate),
            (Plan { work: ms(1), ..it() }, PlanError::Work),
            (Plan { gather: ms(11), ..it() }, PlanError::Gather),
            (Plan { paths: vec![], ..it() }, PlanError::Nothing),
            (Plan { styles: vec![], send_styles: vec![], ..it() }, PlanError::Nothing),
        ] {
            assert_eq!(plan.check(), Err(error));
        }
    }
}
