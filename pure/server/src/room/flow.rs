//! How much somebody sends, second by second: what members who are behind need not get is decided by
//! it. Not here: what it is that is counted.

use event::Now;

use crate::group::Meta;

/// How much is sent, second by second.
#[derive(Debug, Default)]
pub(super) struct Flow {
    second: u64,
    amount: u64,
    /// It was too much in the second before.
    was_excess: bool,
}

impl Flow {
    /// Counts so much more; tells whether it is too much, now or in the second before.
    pub(super) fn is_excess(&mut self, now: Now, amount: u64, per_s_max: u64) -> bool {
        let second = now.mono_ns / 1_000_000_000;
        if second != self.second {
            self.was_excess = self.amount > per_s_max && second == self.second + 1;
            (self.second, self.amount) = (second, 0);
        }
        self.amount = self.amount.saturating_add(amount);
        self.was_excess || self.amount > per_s_max
    }
}

/// Of a member of a relayed match, of whom everybody is told.
impl Meta for Flow {
    fn is_hidden(&self) -> bool {
        false
    }
}
