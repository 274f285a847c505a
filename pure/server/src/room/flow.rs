//! How much somebody sends, second by second: what members who are behind need not get is decided by
//! it. Not here: what it is that is counted.

use event::Now;

/// How much is sent, second by second. Every member of every stream has one: it is small.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Times two, and one more if it was too much in the second before.
    second_and_excess: u32,
    amount: u32,
}

impl Flow {
    /// Counts so much more; tells whether it is too much, now or in the second before. More than
    /// 4,294,967,295 a second is never too much.
    pub(super) fn is_excess(&mut self, now: Now, amount: u64, per_s_max: u64) -> bool {
        // 31 bits: 68 years.
        let second = (now.mono_ns / 1_000_000_000) & u64::from(u32::MAX >> 1);
        let second = u32::try_from(second).unwrap_or_default();
        let known = self.second_and_excess >> 1;
        if second != known {
            let was_excess = u64::from(self.amount) > per_s_max && second == known + 1;
            *self = Self { second_and_excess: second << 1 | u32::from(was_excess), amount: 0 };
        }
        self.amount = self.amount.saturating_add(u32::try_from(amount).unwrap_or(u32::MAX));
        self.second_and_excess & 1 == 1 || u64::from(self.amount) > per_s_max
    }
}
