//! Who has a caller next: a job that has come, or a call that waited and has been answered. A job is run as
//! it comes, unless calls have been answered; then jobs wait in their order, and the two kinds take turns, one
//! job or one piece of a call in a turn of the thread, so that what each has to say leaves behind it and mail
//! is seen between; only jobs that have written are joined by the next ones, for one wait for the disk. Next is
//! who has had less time of late. So neither stands behind all that there is of the other: not the answer that
//! a call waits for behind every call that comes, nor a neighbour's call behind pieces of others.
//!
//! Not here: which of the answered ones is next (`waiting`), and which jobs come (`core::callers`).

use event::{Now, Output};

use super::shipped::Task;
use super::waiting::PIECES_MS_MAX;
use super::{PARKED_NS_MAX, Worker};
use crate::mail::{Mail, Queue, WorkerAddress};

/// How far one kind may be ahead of the other, milliseconds: as long as one call that is not slow. Who once
/// took longer is not made to wait for as long again.
const LEAD_MS_MAX: i64 = 16;

/// Which kind is next.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// How much longer than jobs answered calls had the thread while both waited for it.
    lead_ms: i64,
    /// Of kinds that had as much, the other one is next.
    was_answered: bool,
    /// Since when turns have gone on in the next one.
    goes_on_since_ns: Option<u64>,
}

impl Turns {
    fn is_answereds(&self) -> bool {
        self.lead_ms < 0 || self.lead_ms == 0 && !self.was_answered
    }

    fn note(&mut self, is_answered: bool, took_ms: u64) {
        let took_ms = i64::try_from(took_ms).unwrap_or(LEAD_MS_MAX).min(2 * LEAD_MS_MAX);
        let more_ms = if is_answered { took_ms } else { -took_ms };
        self.lead_ms = (self.lead_ms + more_ms).clamp(-LEAD_MS_MAX, LEAD_MS_MAX);
        self.was_answered = is_answered;
    }
}

impl Worker {
    /// Whether this is a caller with a thread of its own.
    pub(super) fn is_caller(&self) -> bool {
        matches!(self.me, WorkerAddress::Caller(_)) && !self.is_companion
    }

    /// Something to do for a caller has come.
    pub(super) fn come(&mut self, now: Now, task: Task, out: &mut Output<Mail>) {
        let has_others = !self.incoming.is_empty() || self.waiting.has_answered();
        if has_others || self.is_release_due(now, may_be_slow(&task)) {
            self.incoming.push_back(task);
        } else {
            self.run_task(now, task);
            self.finish_call(now, false, out);
        }
    }

    /// Runs one job that has come, or one piece of a call that has been answered, and jobs behind it while
    /// what was written waits for the disk with what the next ones write. Gives whether the turn goes on in the
    /// next one: then cores are woken behind the last one.
    pub(super) fn run_in_turns(&mut self, now: Now, out: &mut Output<Mail>) -> bool {
        let began_ms = (self.resources.unix_ms)();
        let mut has_run = self.run_next(now, out);
        while has_run
            && self.waits_since_ns.is_some()
            && (self.resources.unix_ms)().saturating_sub(began_ms) < PIECES_MS_MAX
        {
            has_run = self.run_next(now, out);
        }
        let has_more = !self.incoming.is_empty() || self.waiting.has_answered();
        let since_ns = *self.turns.goes_on_since_ns.get_or_insert(now.mono_ns);
        let is_late = now.mono_ns.saturating_sub(since_ns) >= PARKED_NS_MAX;
        // Nobody finds the database locked between two turns.
        let goes_on = has_run && has_more && !is_late && self.waits_since_ns.is_none();
        if !goes_on {
            self.turns.goes_on_since_ns = None;
        }
        goes_on
    }

    fn run_next(&mut self, now: Now, out: &mut Output<Mail>) -> bool {
        let has_answered = self.waiting.has_answered();
        let both_wait = has_answered && !self.incoming.is_empty();
        if !both_wait {
            self.turns.lead_ms = 0;
        }
        let is_slow = self.incoming.front().is_some_and(may_be_slow);
        let gathers = both_wait && !is_slow && self.waits_since_ns.is_some();
        let is_answereds = has_answered && !gathers && (!both_wait || self.turns.is_answereds());
        // A piece may take long.
        if self.is_release_due(now, is_answereds || is_slow) {
            // What is to leave before leaves with this turn.
            return false;
        }
        let began_ms = (self.resources.unix_ms)();
        if is_answereds {
            self.run_next_answered(now);
        } else {
            let Some(task) = self.incoming.pop_front() else { return false };
            self.run_task(now, task);
        }
        self.finish_call(now, is_answereds, out);
        if both_wait {
            let took_ms = (self.resources.unix_ms)().saturating_sub(began_ms);
            self.turns.note(is_answereds, took_ms);
        }
        true
    }
}

/// Whether nobody's answer is to wait for the end of it.
fn may_be_slow(task: &Task) -> bool {
    match task {
        Task::Job(job) => matches!(job.queue, Queue::Caller { closes: true, .. }),
        Task::Call(_) | Task::Zone(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;

    /// Which kinds have so many turns, if a job takes so long and a piece so long.
    fn turns(jobs_ms: u64, answered_ms: u64, count: usize) -> Vec<bool> {
        let mut turns = Turns::default();
        let next = || {
            let is_answereds = turns.is_answereds();
            turns.note(is_answereds, if is_answereds { answered_ms } else { jobs_ms });
            is_answereds
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn kinds_that_take_as_long_alternate() {
        assert_eq!(turns(0, 0, 4), [true, false, true, false]);
        assert_eq!(turns(12, 12, 4), [true, false, true, false]);
    }

    #[test]
    fn who_takes_longer_is_less_often_next() {
        assert_eq!(turns(1, 4, 10).iter().filter(|is_answereds| **is_answereds).count(), 2);
        // But who took very long is next after a while.
        let long = turns(4, 2_000, 12);
        assert_eq!(long.iter().filter(|is_answereds| **is_answereds).count(), 3, "{long:?}");
        let long = turns(2_000, 4, 12);
        assert_eq!(long.iter().filter(|is_answereds| !**is_answereds).count(), 3, "{long:?}");
    }
}
