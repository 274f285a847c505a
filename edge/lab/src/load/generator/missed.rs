//! Beats that were due in the counted time and did not happen, because the operation before was
//! not answered, or the player had no connection: each counts as at least as slow as it is by then.
//! Without this the slowest operations of all would be missing from the distribution.

use super::beats::Beats;
use super::player::{Doing, Player};
use super::recorder::Recorder;
use super::turn::Moment;
use crate::load::scenario::Beat;
use crate::load::scenario::program::{Program, SessionPlan};

/// Missed beats of one player that are told apart; more of them are recorded in so many groups.
const GROUPS_MAX: u64 = 1_000;

/// Counts those of these players, at the end of the counted time.
pub(super) fn count(
    at: Moment,
    players: &[Player],
    (program, beats): (&Program, &Beats),
    recorder: &mut Recorder,
) {
    for player in players {
        let plan = player.plan(program);
        if let Some(interval_ns) = beats.interval_ns(at, plan) {
            Missed { at, plan, recorder }.count(player, interval_ns);
        }
    }
}

/// What is missed of one plan.
struct Missed<'a> {
    at: Moment,
    plan: &'a SessionPlan,
    recorder: &'a mut Recorder,
}

impl Missed<'_> {
    /// Of one player, with a beat in these distances.
    fn count(&mut self, player: &Player, interval_ns: u64) {
        let plan = self.plan;
        // Its beats go on while it prepares itself anew, until its last round is done.
        let is_over = player.step > plan.loop_end
            || (player.step == plan.loop_end && !player.goes_round_again(self.at, plan));
        if player.doing == Doing::Absent || player.beat_ns == 0 || is_over {
            return;
        }
        let in_loop = player.is_in_loop(plan);
        let mut step = if in_loop { player.step } else { plan.loop_start };
        let next_ns = player.beat_ns.max(player.free_ns);
        let is_pending = in_loop
            && player.is_intended
            && matches!(player.doing, Doing::Waiting | Doing::Connecting);
        if is_pending {
            // A beat that has been taken, and whose operation has not begun.
            let due_ns = player.intended_ns;
            if plan.beat == Beat::Round && step == plan.loop_start {
                self.rounds((due_ns, u64::MAX));
            } else {
                self.step(step, (due_ns, u64::MAX));
            }
            step = if step + 1 < plan.loop_end { step + 1 } else { plan.loop_start };
        }
        match plan.beat {
            Beat::Round => self.rounds((next_ns, interval_ns)),
            Beat::Step => self.steps(step, (next_ns, interval_ns)),
        }
    }

    /// Rounds that were due from a moment on, in these distances: each is one operation of every
    /// step. Only the first step has a time at which it was due.
    fn rounds(&mut self, (due_ns, every_ns): (u64, u64)) {
        let Some(count) = beats_between(due_ns, every_ns, self.at.now_ns) else { return };
        let plan = self.plan;
        let mut steps = steps_with_op(plan, plan.loop_start..plan.loop_end);
        if let Some(first) = steps.next() {
            self.step(first, (due_ns, every_ns));
        }
        for step in steps {
            let Some(step) = plan.steps.get(usize::from(step)) else { continue };
            self.recorder.missed(step.op, count * u64::from(step.ops_at_once()));
        }
    }

    /// Steps that were due in turns, from `step` on.
    fn steps(&mut self, step: u16, (due_ns, every_ns): (u64, u64)) {
        let plan = self.plan;
        let turn = (step..plan.loop_end).chain(plan.loop_start..step);
        let steps: Vec<u16> = steps_with_op(plan, turn).collect();
        let turn_ns = every_ns.saturating_mul(steps.len() as u64);
        for (place, step) in (0..).zip(steps) {
            let first_ns = due_ns.saturating_add(every_ns.saturating_mul(place));
            self.step(step, (first_ns, turn_ns));
        }
    }

    /// One step that was due from a moment on, in these distances.
    fn step(&mut self, step: u16, (due_ns, every_ns): (u64, u64)) {
        let now_ns = self.at.now_ns;
        let Some(count) = beats_between(due_ns, every_ns, now_ns) else { return };
        let Some(step) = self.plan.steps.get(usize::from(step)) else { return };
        let at_once = u64::from(step.ops_at_once());
        self.recorder.missed(step.op, count * at_once);
        let groups = count.min(GROUPS_MAX);
        for group in 0..groups {
            let (from, until) = (count * group / groups, count * (group + 1) / groups);
            let late_ns = now_ns - due_ns - from.saturating_mul(every_ns);
            self.recorder.missed_by(step.op, (until - from) * at_once, late_ns);
        }
    }
}

fn steps_with_op(
    plan: &SessionPlan,
    steps: impl Iterator<Item = u16>,
) -> impl Iterator<Item = u16> {
    steps.filter(|step| plan.steps.get(usize::from(*step)).is_some_and(|it| it.op.is_some()))
}

/// How many beats lie before `now_ns`; none is `None`.
fn beats_between(due_ns: u64, every_ns: u64, now_ns: u64) -> Option<u64> {
    let behind_ns = now_ns.checked_sub(due_ns).filter(|behind_ns| *behind_ns > 0)?;
    Some((behind_ns - 1) / every_ns.max(1) + 1)
}

#[cfg(test)]
mod tests {
    use super::beats_between;

    #[test]
    fn beats_are_counted_up_to_but_without_now() {
        for (due_ns, every_ns, now_ns, wanted) in [
            (10, 5, 10, None),
            (11, 5, 10, None),
            (10, 5, 11, Some(1)),
            (10, 5, 15, Some(1)),
            (10, 5, 16, Some(2)),
            (10, u64::MAX, 1 << 60, Some(1)),
            (0, 0, 3, Some(3)),
        ] {
            assert_eq!(beats_between(due_ns, every_ns, now_ns), wanted, "{due_ns} {every_ns}");
        }
    }
}
