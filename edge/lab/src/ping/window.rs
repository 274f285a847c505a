//! The pings that are under way, and those whose answer might come once more.
//!
//! In: what was sent, and numbers of answers as they come. Out: which ping an answer belongs to,
//! whether it came again, after a later one, or belongs to none; at the end, which were never
//! answered. Nothing is lost before the end: an answer that comes late is an answer.

use std::collections::VecDeque;

/// Pings that are remembered, at most, answered or not: answers to older ones are foreign.
const REMEMBERED_MAX: usize = 1 << 16;

/// A ping that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// When it was to begin.
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    /// Its size's place.
    pub(super) op: u16,
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The first to this ping; `is_late` when one to a later ping came before.
    First { sent: Sent, is_late: bool },
    /// A further one.
    Again,
    /// To nothing that is remembered.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// Not waited for any more.
    GivenUp,
    Answered,
}

/// Pings of one stream, by the numbers that they carry.
#[derive(Debug, Default)]
pub(super) struct Window {
    slots: VecDeque<(Sent, State)>,
    /// Number of the first of them.
    first: u64,
    /// Number of the first that may be waited for.
    oldest: u64,
    waiting: usize,
    /// The highest number that was answered, and one more.
    answered_to: u64,
    /// Given up one after the other, without an answer between.
    given_up_in_a_row: u64,
    /// Forgotten without an answer.
    forgotten: u64,
}

impl Window {
    /// The number that the next ping will have.
    pub(super) fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Takes note of a ping: it has the number of [`Self::next`].
    pub(super) fn sent(&mut self, sent: Sent) {
        if self.slots.len() >= REMEMBERED_MAX
            && let Some((_, state)) = self.slots.pop_front()
        {
            self.first += 1;
            self.forgotten += u64::from(state != State::Answered);
            self.waiting -= usize::from(state == State::Waiting);
        }
        self.slots.push_back((sent, State::Waiting));
        self.waiting += 1;
    }

    /// How many are waited for.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many were given up since the last answer.
    pub(super) fn given_up_in_a_row(&self) -> u64 {
        self.given_up_in_a_row
    }

    /// Takes note of an answer.
    pub(super) fn answered(&mut self, number: u64) -> Answer {
        let place = number.checked_sub(self.first).and_then(|it| usize::try_from(it).ok());
        let Some((sent, state)) = place.and_then(|it| self.slots.get_mut(it)) else {
            return Answer::Foreign;
        };
        if *state == State::Answered {
            return Answer::Again;
        }
        self.waiting -= usize::from(*state == State::Waiting);
        *state = State::Answered;
        self.given_up_in_a_row = 0;
        let is_late = number + 1 < self.answered_to;
        self.answered_to = self.answered_to.max(number + 1);
        Answer::First { sent: *sent, is_late }
    }

    /// Gives up what was sent before `ns`.
    pub(super) fn give_up_before(&mut self, ns: u64) {
        self.oldest = self.oldest.max(self.first);
        while let Ok(place) = usize::try_from(self.oldest - self.first)
            && let Some((sent, state)) = self.slots.get_mut(place)
            && (*state != State::Waiting || sent.sent_ns < ns)
        {
            if *state == State::Waiting {
                *state = State::GivenUp;
                self.waiting -= 1;
                self.given_up_in_a_row += 1;
            }
            self.oldest += 1;
        }
    }

    /// Those that were never answered and are remembered, and how many besides were forgotten.
    /// Begins anew; numbers go on.
    pub(super) fn take_unanswered(&mut self) -> (Vec<Sent>, u64) {
        let open = self.slots.iter().filter(|(_, state)| *state != State::Answered);
        let open = open.map(|(sent, _)| *sent).collect();
        self.first = self.next();
        self.slots.clear();
        self.waiting = 0;
        self.given_up_in_a_row = 0;
        (open, std::mem::take(&mut self.forgotten))
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, REMEMBERED_MAX, Sent, Window};

    fn sent(sent_ns: u64) -> Sent {
        Sent { due_ns: sent_ns, sent_ns, op: 0 }
    }

    fn window(count: u64) -> Window {
        let mut window = Window::default();
        for number in 0..count {
            assert_eq!(window.next(), number);
            window.sent(sent(number * 10));
        }
        window
    }

    #[test]
    fn lost_doubled_and_late_answers_are_told_apart() {
        let mut window = window(5);
        let first = |it: u64, is_late| Answer::First { sent: sent(it * 10), is_late };
        for (number, wanted) in [
            (0, first(0, false)),
            (2, first(2, false)),
            (2, Answer::Again),
            (1, first(1, true)),
            (1, Answer::Again),
            (9, Answer::Foreign),
            (4, first(4, false)),
        ] {
            assert_eq!(window.answered(number), wanted, "{number}");
        }
        assert_eq!(window.waiting(), 1);
        assert_eq!(window.take_unanswered(), (vec![sent(30)], 0));
        // What comes after all is of another time.
        assert_eq!((window.next(), window.answered(3)), (5, Answer::Foreign));
    }

    #[test]
    fn what_is_given_up_may_be_answered_still() {
        let mut window = window(5);
        window.answered(1);
        window.give_up_before(25);
        assert_eq!((window.waiting(), window.given_up_in_a_row()), (2, 2));
        assert!(matches!(window.answered(0), Answer::First { is_late: true, .. }));
        assert_eq!((window.waiting(), window.given_up_in_a_row()), (2, 0));
        assert_eq!(window.take_unanswered().0.len(), 3);
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost_from_the_count() {
        let count = REMEMBERED_MAX as u64 + 1_000;
        let mut window = window(count);
        assert_eq!(window.waiting(), REMEMBERED_MAX);
        let answered = (0..count).filter(|it| window.answered(*it) != Answer::Foreign).count();
        assert_eq!((answered, window.waiting()), (REMEMBERED_MAX, 0));
        assert_eq!(window.take_unanswered(), (Vec::new(), 1_000));
    }
}
