//! What waits for rules of scripts, a line for each rule, and how long the zone waits for them.
//!
//! Of each rule one question is under way at a time, about all that has come for it since the one before, up to a
//! bound. What has waited for `world.rules_wait_ms` to be asked of, or for an answer since, is done by the zone's own rules, and so
//! is all that comes while an answer is overdue, and for a while after a rule has failed: a second, twice as long for each failure behind
//! another. So a rule costs no tick anything, whatever it does.
//!
//! Data in: what has happened, answers. Data out: questions, and what is to be done without a rule. What is
//! deliberately not here: what rules decide (`home::rules`), and who runs them (`worker::rules`).

use std::collections::VecDeque;

use game::rules::ZoneRule;
use world::mix;

/// Pilots of one question, and those who wait for the next.
const PILOTS_ASKED_MAX: usize = 64;
const PILOTS_WAITING_MAX: usize = 1_024;
/// Hits of one question, and those that wait for the next.
const HITS_MAX: usize = 256;
/// Kills of one question, and those that wait for the next.
const KILLS_ASKED_MAX: usize = 64;
const KILLS_WAITING_MAX: usize = 256;
/// Behind a failure a rule is not asked for so long; doubled for each one behind another, so often at most.
const REST_NS: u64 = 1_000_000_000;
const REST_DOUBLED_MAX: u32 = 6;
/// An answer that is overdue is not waited for any longer than this: the question was lost on its way.
const LOST_NS: u64 = 60_000_000_000;

/// What waits for one rule.
#[derive(Debug)]
pub(super) struct Line<T> {
    /// Of one question, and of what waits for the next one.
    items_max: usize,
    waiting_max: usize,
    /// Whether a module has registered the rule.
    is_there: bool,
    /// Since when each waits.
    waiting: VecDeque<(u64, T)>,
    asked: Option<Asked<T>>,
    /// The question whose answer is overdue, and when it is not waited for any more.
    overdue: Option<(u64, u64)>,
    failures: u32,
    rests_until_ns: u64,
    /// What could not wait, because as much as may waited, since it was asked for.
    left_out: u64,
}

/// A question that is under way.
#[derive(Debug)]
struct Asked<T> {
    number: u64,
    since_ns: u64,
    /// Whether modules have had a new version since: its failure is none of the rule's that there is now.
    is_of_before: bool,
    items: Vec<T>,
}

impl<T> Line<T> {
    pub(super) fn new(rule: ZoneRule) -> Self {
        let (items_max, waiting_max) = match rule {
            ZoneRule::Spawn => (PILOTS_ASKED_MAX, PILOTS_WAITING_MAX),
            ZoneRule::Hit => (HITS_MAX, HITS_MAX),
            ZoneRule::Score => (KILLS_ASKED_MAX, KILLS_WAITING_MAX),
        };
        Self {
            items_max,
            waiting_max,
            is_there: false,
            waiting: VecDeque::new(),
            asked: None,
            overdue: None,
            failures: 0,
            rests_until_ns: 0,
            left_out: 0,
        }
    }

    /// Modules have a new version, with this rule or without. What the one before is asked it may answer; nothing waits
    /// for it if it is late.
    pub(super) fn register(&mut self, is_there: bool) {
        (self.is_there, self.failures, self.rests_until_ns) = (is_there, 0, 0);
        self.overdue = None;
        if let Some(asked) = &mut self.asked {
            asked.is_of_before = true;
        }
    }

    /// Whether modules have this rule.
    pub(super) const fn is_registered(&self) -> bool {
        self.is_there
    }

    /// Whether what happens now waits for the rule.
    pub(super) fn is_on(&self, now_ns: u64) -> bool {
        self.is_there && self.overdue.is_none() && now_ns >= self.rests_until_ns
    }

    /// How many more may wait.
    fn room(&self) -> usize {
        self.waiting_max - self.waiting.len()
    }

    /// As much as this has happened in a tick: who comes first when there is not room for all is somebody else in
    /// each tick.
    pub(super) fn take_turns<I>(&self, tick: u32, all: &mut [I]) {
        if all.len() > self.room() {
            let first = mix(u64::from(tick)) % all.len() as u64;
            all.rotate_left(usize::try_from(first).unwrap_or(0));
        }
    }

    /// Something has happened.
    ///
    /// # Errors
    /// It is given back if it does not wait for the rule.
    pub(super) fn push(&mut self, now_ns: u64, item: T) -> Result<(), T> {
        if !self.is_on(now_ns) {
            return Err(item);
        }
        if self.room() == 0 {
            self.left_out += 1;
            return Err(item);
        }
        self.waiting.push_back((now_ns, item));
        Ok(())
    }

    /// How much could not wait, because as much as may waited, since this was asked last.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// What the rule is to be asked of now, if anything, in a question of this number.
    pub(super) fn ask(&mut self, now_ns: u64, number: u64) -> Option<&[T]> {
        if self.asked.is_some() || self.waiting.is_empty() || !self.is_on(now_ns) {
            return None;
        }
        let count = self.waiting.len().min(self.items_max);
        let items = self.waiting.drain(..count).map(|(_, item)| item).collect();
        let asked = Asked { number, since_ns: now_ns, is_of_before: false, items };
        let asked = self.asked.insert(asked);
        Some(&asked.items)
    }

    /// What has waited for long enough, and whether an answer is overdue from now on.
    pub(super) fn take_overdue(&mut self, now_ns: u64, wait_ns: u64) -> (Vec<T>, bool) {
        self.overdue = self.overdue.filter(|(_, until_ns)| now_ns < *until_ns);
        let is_late = |since_ns: u64| now_ns.saturating_sub(since_ns) >= wait_ns;
        let asked = self.asked.take_if(|asked| is_late(asked.since_ns));
        let is_overdue = asked.is_some();
        let mut items = Vec::new();
        if let Some(asked) = asked {
            if !asked.is_of_before {
                self.overdue = Some((asked.number, now_ns + LOST_NS));
            }
            items = asked.items;
        }
        let is_on = self.is_on(now_ns);
        while let Some((_, item)) = self.waiting.pop_front_if(|it| !is_on || is_late(it.0)) {
            items.push(item);
        }
        (items, is_overdue)
    }

    /// An answer has come, or the news that the rule failed; gives what it is about, nothing if that was not waited
    /// for any more.
    pub(super) fn answered(
        &mut self,
        now_ns: u64,
        (number, has_failed): (u64, bool),
    ) -> Option<Vec<T>> {
        let asked = self.asked.take_if(|asked| asked.number == number);
        let overdue = self.overdue.take_if(|(late, _)| *late == number);
        let is_of_now = asked.as_ref().is_some_and(|asked| !asked.is_of_before);
        if is_of_now && !has_failed {
            self.failures = 0;
        } else if is_of_now || overdue.is_some() {
            // One that answers too late has failed as well.
            let doubled = self.failures.min(REST_DOUBLED_MAX);
            self.rests_until_ns = now_ns + (REST_NS << doubled);
            self.failures = self.failures.saturating_add(1);
        }
        asked.map(|asked| asked.items)
    }
}

#[cfg(test)]
mod tests {
    use super::{LOST_NS, Line, REST_NS, ZoneRule};

    const WAIT_NS: u64 = 250_000_000;

    fn line() -> Line<u32> {
        let mut line = Line::new(ZoneRule::Score);
        line.register(true);
        line
    }

    #[test]
    fn one_question_at_a_time_has_all_that_came_up_to_a_bound() {
        let mut line = line();
        assert_eq!(line.ask(0, 1), None, "nothing has happened");
        for item in 0..100 {
            line.push(5, item).unwrap();
        }
        assert_eq!(line.ask(5, 1).map(<[u32]>::len), Some(64));
        assert_eq!(line.ask(5, 2), None, "one is under way");
        assert_eq!(line.answered(6, (9, false)), None, "another question");
        assert_eq!(line.answered(6, (1, false)).unwrap(), (0..64).collect::<Vec<_>>());
        assert_eq!(line.ask(6, 2).unwrap(), (64..100).collect::<Vec<_>>());
        let taken = (0..400).filter(|item| line.push(7, *item).is_ok()).count();
        assert_eq!((taken, line.take_left_out(), line.take_left_out()), (256, 400 - 256, 0));
        line.register(false);
        assert_eq!((line.push(8, 1), line.take_left_out()), (Err(1), 0), "none is asked");
    }

    #[test]
    fn where_there_is_not_room_for_all_it_is_others_who_have_none_in_each_tick() {
        let line = line();
        let first_of = |tick, count: u32| {
            let mut all: Vec<u32> = (0..count).collect();
            line.take_turns(tick, &mut all);
            all[0]
        };
        assert!((0..50).all(|tick| first_of(tick, 256) == 0), "there is room");
        let had_none = (0..50).filter(|tick| (1..400 - 255).contains(&first_of(*tick, 400)));
        assert!((5..45).contains(&had_none.count()), "the lowest has room in some ticks");
    }

    #[test]
    fn what_waits_for_too_long_is_given_back_and_nothing_waits_meanwhile() {
        let mut line = line();
        line.push(0, 1).unwrap();
        assert!(line.ask(0, 1).is_some());
        line.push(WAIT_NS / 2, 2).unwrap();
        assert_eq!(line.take_overdue(WAIT_NS - 1, WAIT_NS), (vec![], false));
        // With the answer overdue, what waits behind it does not wait for one either.
        assert_eq!(line.take_overdue(WAIT_NS, WAIT_NS), (vec![1, 2], true));
        assert_eq!(line.push(WAIT_NS, 3), Err(3));
        // It comes all the same: the rule was too slow, and rests.
        assert_eq!(line.answered(2 * WAIT_NS, (1, false)), None);
        assert_eq!(line.push(2 * WAIT_NS + REST_NS - 1, 4), Err(4));
        assert_eq!(line.push(2 * WAIT_NS + REST_NS, 5), Ok(()));
    }

    /// Each answer takes 150 ms, and something happens in each tick.
    #[test]
    fn a_rule_that_answers_in_time_is_not_late_however_much_happens_meanwhile() {
        let mut line = line();
        let (mut due_ns, mut asked) = (u64::MAX, 0);
        for tick in 0..200 {
            let now_ns = tick * 50_000_000;
            assert_eq!(line.take_overdue(now_ns, WAIT_NS), (vec![], false), "tick {tick}");
            if now_ns >= due_ns {
                assert!(line.answered(now_ns, (asked, false)).is_some());
                due_ns = u64::MAX;
            }
            line.push(now_ns, 1).unwrap();
            if line.ask(now_ns, tick).is_some() {
                (due_ns, asked) = (now_ns + 150_000_000, tick);
            }
        }
        assert!(asked > 190);
    }

    #[test]
    fn what_the_version_before_does_is_not_held_against_a_new_one() {
        let mut line = line();
        line.push(0, 1).unwrap();
        line.ask(0, 1).unwrap();
        line.register(true);
        assert_eq!(line.answered(1, (1, true)), Some(vec![1]));
        assert!(line.is_on(1), "the one before has failed");
        line.push(1, 2).unwrap();
        line.ask(1, 2).unwrap();
        assert_eq!(line.take_overdue(1 + WAIT_NS, WAIT_NS), (vec![2], true));
        line.register(true);
        assert!(line.is_on(1 + WAIT_NS), "nothing waits for its answer");
        assert_eq!(line.answered(2 * WAIT_NS, (2, false)), None);
        assert!(line.is_on(2 * WAIT_NS));
        line.push(2 * WAIT_NS, 3).unwrap();
        line.ask(2 * WAIT_NS, 3).unwrap();
        line.register(true);
        assert_eq!(line.take_overdue(3 * WAIT_NS, WAIT_NS), (vec![3], true));
        assert!(line.is_on(3 * WAIT_NS));
    }

    #[test]
    fn a_rule_that_fails_rests_twice_as_long_each_time_and_a_new_version_does_not() {
        let mut line = line();
        let mut now_ns = 0;
        for rest in [1, 2, 4, 8, 16, 32, 64, 64] {
            line.push(now_ns, 1).unwrap();
            line.ask(now_ns, now_ns).unwrap();
            assert_eq!(line.answered(now_ns, (now_ns, true)), Some(vec![1]));
            assert!(!line.is_on(now_ns + rest * REST_NS - 1), "{rest}");
            now_ns += rest * REST_NS;
            assert!(line.is_on(now_ns), "{rest}");
        }
        line.push(now_ns, 1).unwrap();
        line.ask(now_ns, 1).unwrap();
        line.answered(now_ns, (1, true));
        line.register(true);
        assert!(line.is_on(now_ns));
        line.push(now_ns, 2).unwrap();
        line.register(false);
        assert_eq!(line.take_overdue(now_ns, WAIT_NS), (vec![2], false), "no such rule any more");
    }

    #[test]
    fn a_question_that_is_lost_is_not_waited_for_without_end() {
        let mut line = line();
        line.push(0, 1).unwrap();
        assert!(line.ask(0, 1).is_some());
        assert_eq!(line.take_overdue(WAIT_NS, WAIT_NS), (vec![1], true));
        line.take_overdue(WAIT_NS + LOST_NS - 1, WAIT_NS);
        assert!(!line.is_on(WAIT_NS + LOST_NS - 1));
        line.take_overdue(WAIT_NS + LOST_NS, WAIT_NS);
        assert!(line.is_on(WAIT_NS + LOST_NS));
    }
}
