//! The callers as one core sees them: what each has to do, and which call may go to which.
//!
//! A call cannot be stopped for the sake of another one, and nobody knows beforehand how long it
//! takes. So it is decided by what users and functions took before, and by what runs just now:
//!
//! * A user whose calls were fast of late may have several at the callers, one behind the other. How many
//!   calls stand there, of all users, is bounded by what they may take together (5 ms, and the last one may be
//!   longer), and not by their number alone. Behind that bound the users take turns. So quick calls are posted
//!   by the hundred, and such as take some milliseconds one at a time.
//! * Behind a call of anybody else nobody waits: its caller gets nothing more until it is done.
//!   Such calls of one user hold half of the callers at most.
//! * Calls that may be slow leave one caller free, all together: those of users with a slow call of
//!   late, of functions that are slow on the mean, of functions of which nothing is known, of
//!   functions of which several calls were long in the last minute, and of those of which a call is
//!   running for longer than a fast one takes. So many accounts with one slow call each hold up each
//!   other, and whoever calls the same functions; for other functions one caller is left.
//! * First calls of users, of functions that are quick, leave one caller free too, but only of each
//!   other: a slow call of somebody else does not keep new users waiting.
//! * Calls of one function go to the last caller that has none of them only if one was answered
//!   just now: a function that is busy and quick uses all callers, and when several of its calls
//!   turn slow together in a quiet moment, they are behind one another and not side by side.
//!
//! What calls take of a user who was slow before is put down to that user, and not to the function: so one
//! user makes no function slow for the others. Where many users have made one slow, whose calls are never long
//! and were fast for somebody a while ago, calls of users whose own were fast may go one at a time to the
//! caller that is left free.
//!
//! A call that waits for a room or another server gives its caller back, and others run meanwhile; what is
//! left of it its caller runs in turns with theirs (`worker::waiting`). One of a user or function that is slow
//! counts as one of its user's at the callers all the same: so as many such calls of a user are under way as
//! may run, and not sixteen, each of which would go on in another one's way. And such calls never go to the last
//! caller: so what is left of them, however many wait, leaves one free. If what such a call asks of another
//! server comes back here as a call of the same user, that one may wait for it, until the request's time is over.
//!
//! With a single caller (`engine.workers` 1) there is none to leave free: then all wait for the
//! call that runs, and a call that waits counts nowhere.
//!
//! A caller whose scripts' memory is used up gives calls back that have come behind the one that did it, which is answered
//! when it has another VM (`worker::spent`): to such a one nothing more is posted until it answers, but for one call in
//! 100 ms, and it is not the caller that calls which may be slow leave free. New users wait for it no more than for
//! somebody's slow call.
//!
//! What that does not promise: of functions that were quick for a minute, calls of users who were
//! fast may still turn slow at all callers in the same moment: one function right after a fast
//! answer of it, several functions, or one when another one's slow call holds the other callers.
//! Then all are held, for as long as these calls take: once by calls of one function side by side,
//! twice by calls of it one at a time; then it is known, for 64 times as long, at most a minute. What
//! was posted behind a call within 5 ms, before it was seen to be slow, waits for it: 256 calls at most, of
//! functions of which no two calls took more than 2 ms for 64 times as long as they all did, or a minute
//! (`limits::Functions::may_take_us`). And what
//! functions wait for besides (a room, the database's one writer) is not divided here: nor does it count
//! in what users and functions took, because others make it long (`event::CallTime`,
//! `game::db::Database::waited_us`). A call that waits for its turn to write keeps its caller meanwhile,
//! and is one that runs for longer than a fast one takes.
//!
//! Before all that comes the core's **companion**, a caller on the core's own thread, where it has one: a
//! call of a function that is known to be quick, or of such a hook of an API call, goes there, whoever
//! calls, unless the user was slow of late or so many are there that the core is at its limit. It costs no
//! wake-up, and no other thread. A function is known to be quick after 16 calls that took less than 250 µs and
//! needed neither the database nor a caller (`limits::Functions`). What turns out long there goes on in
//! slices, and if it needs more than a few of them the function is not quick for a second, or a minute if it happens
//! again: until then its calls go to the callers, as those of unknown ones do.
//!
//! Of other cores' calls a core knows nothing, so that all this holds for each core by itself.

use std::collections::VecDeque;

use event::Now;

use crate::fair::FairQueue;
use crate::limits::{Class, FAST_NS_MAX, Functions};
use crate::mail::Job;

/// Calls that a core posts to one caller ahead of its answers.
const AHEAD_MAX: usize = 256;
/// No more are posted once those that are there take so long, as far as is known: then a neighbour's call
/// waits for so much and one call, however many others wait to be posted.
const AHEAD_US_MAX: u64 = 5_000;
/// A caller that has calls and gives no answer for so long gets no more while others do.
const STALLED_NS: u64 = 5_000_000;
/// So long after a caller has given a call back it gets no more, unless it has answered one: it cannot run any
/// until its scripts have memory again, of which other cores' callers hear nothing.
const FULL_NS: u64 = 100_000_000;
/// After so long its answers are taken for lost: longer than any call may take.
const LOST_NS: u64 = 1_200_000_000_000;

/// Calls at a companion, beyond which more go to the callers: as many as it runs in two turns or three.
const COMPANION_CALLS_MAX: usize = 128;
/// Of these, of one user or address.
const COMPANION_CALLS_OF_ONE_MAX: u16 = 64;

/// What one core has at the callers, and what waits for them.
pub(super) struct Callers {
    queues: Vec<CallerQueue>,
    /// Calls at the companion; `None` without one.
    at_companion: Option<usize>,
    /// How long the functions took.
    pub(super) functions: Functions,
    /// Of calls that may be fast.
    pub(super) quick: FairQueue<u32, Job>,
    /// Of users, or of functions, that were slow of late.
    pub(super) slow: FairQueue<u32, Job>,
    pub(super) is_slows_turn: bool,
    /// When it is next looked whether time alone lets waiting calls go.
    pub(super) look_ns: u64,
}

/// One caller.
#[derive(Clone, Debug)]
struct CallerQueue {
    /// The functions of the calls that are there and what each may take, microseconds, in their order: the
    /// first one runs.
    calls: VecDeque<(u16, u32)>,
    /// What they may take together.
    ahead_us: u64,
    closed_by: Option<Class>,
    /// When it last began or answered something.
    progress_ns: u64,
    /// Until then it has no memory for calls, as far as is known.
    full_until_ns: u64,
}

impl CallerQueue {
    /// How long its first call has been running; 0 if it has none.
    fn runs_for_ns(&self, now: Now) -> u64 {
        if self.calls.is_empty() { 0 } else { now.mono_ns.saturating_sub(self.progress_ns) }
    }

    fn is_full(&self, now: Now) -> bool {
        now.mono_ns < self.full_until_ns
    }

    fn takes_more(&self, now: Now) -> bool {
        let runs_for_ns = self.runs_for_ns(now);
        let is_tried = self.full_until_ns == 0 || !self.is_full(now) && self.calls.is_empty();
        let has_room = self.closed_by.is_none()
            && is_tried
            && self.calls.len() < AHEAD_MAX
            && self.ahead_us < AHEAD_US_MAX;
        has_room && runs_for_ns <= STALLED_NS || runs_for_ns > LOST_NS
    }
}

impl Callers {
    /// So many callers, and with or without a companion.
    pub(super) fn new(count: usize, has_companion: bool) -> Self {
        let queue = || CallerQueue {
            calls: VecDeque::with_capacity(AHEAD_MAX),
            ahead_us: 0,
            closed_by: None,
            progress_ns: 0,
            full_until_ns: 0,
        };
        Self {
            queues: std::iter::repeat_with(queue).take(count).collect(),
            at_companion: has_companion.then_some(0),
            functions: Functions::default(),
            quick: FairQueue::default(),
            slow: FairQueue::default(),
            is_slows_turn: false,
            look_ns: 0,
        }
    }

    /// Whether a call of this function goes to the companion, of a user of that class who has so many at
    /// the callers.
    pub(super) fn is_for_companion(
        &self,
        now: Now,
        function: u16,
        (user, at_callers): (Class, u16),
    ) -> bool {
        self.at_companion.is_some_and(|calls| calls < COMPANION_CALLS_MAX)
            && user != Class::Slow
            && at_callers < COMPANION_CALLS_OF_ONE_MAX
            && self.functions.is_for_core(now, function)
    }

    /// One more call is at the companion.
    pub(super) fn begin_at_companion(&mut self) {
        let Some(calls) = &mut self.at_companion else { unreachable!("there is no companion") };
        *calls += 1;
    }

    /// One less is.
    pub(super) fn end_at_companion(&mut self) {
        let Some(calls) = &mut self.at_companion else { unreachable!("there is no companion") };
        assert!(*calls > 0, "a companion has answered more than it was asked");
        *calls -= 1;
    }

    /// Whether calls are at callers: then answers may lie in the mailbox.
    pub(super) fn is_busy(&self) -> bool {
        self.queues.iter().any(|queue| !queue.calls.is_empty())
    }

    /// How many calls wait here.
    pub(super) fn waiting(&self) -> usize {
        self.quick.len() + self.slow.len()
    }

    /// Whether any caller takes more.
    pub(super) fn has_open(&self, now: Now) -> bool {
        self.queues.iter().any(|queue| queue.takes_more(now))
    }

    /// The class of a call of this function, by a user of that class.
    pub(super) fn class(&self, now: Now, function: u16, user: Class) -> Class {
        match self.functions.class(now, function, user) {
            Class::Slow => Class::Slow,
            class if self.is_slow_by_others(function, class) => class,
            _ if self.runs_long(now, function) => Class::Unknown,
            class => class,
        }
    }

    /// Whether a call of this class may go, of a user who has so many at the callers.
    pub(super) fn may_go(&self, now: Now, class: Class, at_callers: u16) -> bool {
        let has_share = at_callers < self.share();
        match class {
            Class::Fast(calls_max) => at_callers < calls_max,
            Class::New => {
                has_share && self.leaves_one_free(|queue| queue.closed_by == Some(Class::New))
            }
            Class::Unknown | Class::Slow => {
                let may_be_slow = |queue: &CallerQueue| {
                    queue.closed_by.is_some()
                        || queue.is_full(now)
                        || queue.runs_for_ns(now) > FAST_NS_MAX
                };
                has_share && self.leaves_one_free(may_be_slow)
            }
        }
    }

    /// The caller for a call of this function and class that may go: the one with the least to do.
    pub(super) fn place(&self, now: Now, function: u16, class: Class) -> Option<usize> {
        let has_it = |queue: &CallerQueue| queue.calls.iter().any(|call| call.0 == function);
        let any = self.queues.len() == 1
            || self.is_slow_by_others(function, class)
            || self.functions.was_fast_just_now(now, function)
            || self.queues.iter().filter(|queue| !has_it(queue)).count() > 1;
        // What is left of a slow call when it has waited runs where it began.
        let kept_free = usize::from(class == Class::Slow && self.queues.len() > 1);
        let queues = self.queues[..self.queues.len() - kept_free].iter().enumerate();
        queues
            .filter(|(_, queue)| queue.takes_more(now) && (any || has_it(queue)))
            .min_by_key(|(_, queue)| (queue.ahead_us, queue.calls.len()))
            .map(|(index, _)| index)
    }

    /// A call goes there. Gives whether nothing more does until it is done.
    pub(super) fn begin(&mut self, now: Now, index: usize, function: u16, class: Class) -> bool {
        let may_take_us = self.functions.may_take_us(now, function);
        let queue = &mut self.queues[index];
        if queue.calls.is_empty() {
            queue.progress_ns = now.mono_ns;
        }
        queue.calls.push_back((function, may_take_us));
        queue.ahead_us += u64::from(may_take_us);
        let closes = !matches!(class, Class::Fast(_));
        if closes {
            queue.closed_by = Some(class);
        }
        closes
    }

    /// Whether a call of this class counts as one of its user's while it waits for another thread.
    pub(super) fn keeps_place(&self, class: Class) -> bool {
        class == Class::Slow && self.queues.len() > 1
    }

    /// A call is done, or could not be posted.
    pub(super) fn end(&mut self, now: Now, index: usize, function: u16, closes: bool) {
        let Some(queue) = self.queues.get_mut(index) else { return };
        // The first one, unless it could not be posted.
        let at = queue.calls.iter().position(|call| call.0 == function);
        if let Some((_, may_take_us)) = at.and_then(|at| queue.calls.remove(at)) {
            queue.ahead_us -= u64::from(may_take_us);
        }
        queue.progress_ns = now.mono_ns;
        if closes {
            queue.closed_by = None;
        }
    }

    /// A caller has given a call back, for want of memory, or has run one.
    pub(super) fn note_full(&mut self, now: Now, index: usize, is_full: bool) {
        if let Some(queue) = self.queues.get_mut(index) {
            queue.full_until_ns = if is_full { now.mono_ns.saturating_add(FULL_NS) } else { 0 };
        }
    }

    /// When calls that wait are looked at again because a caller that has given calls back may have memory, nanoseconds.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let until = self.queues.iter().map(|queue| queue.full_until_ns).filter(|ns| *ns > 0).min();
        until.filter(|_| self.waiting() > 0).map(|until_ns| until_ns.max(self.look_ns))
    }

    /// Whether one more caller of this kind leaves one that is not.
    fn leaves_one_free(&self, is_such: impl Fn(&CallerQueue) -> bool) -> bool {
        let such = self.queues.iter().filter(|queue| is_such(queue)).count();
        such < self.queues.len().saturating_sub(1).max(1)
    }

    /// Whether this is a call of a function that is slow, by a user to whom it is not.
    fn is_slow_by_others(&self, function: u16, class: Class) -> bool {
        class == Class::New && self.functions.is_slow(function)
    }

    /// How many callers calls of one user may keep from others.
    fn share(&self) -> u16 {
        u16::try_from(self.queues.len() / 2).unwrap_or(u16::MAX).max(1)
    }

    /// Whether a call of this function is running for longer than a fast one takes.
    fn runs_long(&self, now: Now, function: u16) -> bool {
        let runs_it =
            |queue: &CallerQueue| queue.calls.front().is_some_and(|call| call.0 == function);
        self.queues.iter().any(|queue| runs_it(queue) && queue.runs_for_ns(now) > FAST_NS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use event::{CallTime, Now};

    use super::{AHEAD_MAX, Callers};
    use crate::limits::Class;
    use crate::mail::Used;

    const FUNCTION: u16 = 7;
    const OTHER: u16 = 8;

    /// Of both functions, as many calls as the mean needs, each of that many microseconds.
    fn callers(count: usize, function_us: u32, other_us: u32) -> (Callers, Now) {
        let (mut callers, now) = (Callers::new(count, false), Now::default().after_ms(1_000));
        for _ in 0..8 {
            note(&mut callers, now, FUNCTION, function_us);
            note(&mut callers, now, OTHER, other_us);
        }
        (callers, now)
    }

    fn note(callers: &mut Callers, now: Now, function: u16, kept_us: u32) {
        let time = CallTime { kept_us, computed_us: kept_us };
        callers.functions.note(now, function, Used { time, ..Used::default() }, true);
    }

    /// Posts one; gives where.
    fn post(callers: &mut Callers, now: Now, function: u16) -> Option<usize> {
        let class = Class::Fast(32);
        let index = callers.place(now, function, class)?;
        assert!(!callers.begin(now, index, function, class));
        Some(index)
    }

    fn post_all(callers: &mut Callers, now: Now, function: u16) -> usize {
        std::iter::from_fn(|| post(callers, now, function)).count()
    }

    #[test]
    fn calls_are_posted_ahead_until_they_take_some_milliseconds_together() {
        for (each_us, posted) in [(10, AHEAD_MAX), (100, 50), (1_500, 4), (4_900, 1), (12_000, 1)] {
            let (mut callers, now) = callers(1, each_us, each_us);
            assert_eq!(post_all(&mut callers, now, FUNCTION), posted, "{each_us}");
            // Each answer makes room for the next.
            callers.end(now, 0, FUNCTION, false);
            assert_eq!(post_all(&mut callers, now, FUNCTION), 1, "{each_us}");
            (0..posted).for_each(|_| callers.end(now, 0, FUNCTION, false));
            assert!(!callers.is_busy() && callers.queues[0].ahead_us == 0);
        }
    }

    #[test]
    fn quick_calls_go_where_the_least_time_stands() {
        let (mut callers, now) = callers(2, 4_000, 50);
        assert_eq!(post(&mut callers, now, FUNCTION), Some(0));
        assert!((0..79).all(|_| post(&mut callers, now, OTHER) == Some(1)));
        // What a function has taken since then changes nothing of what was posted before.
        note(&mut callers, now, FUNCTION, 0);
        callers.end(now, 0, FUNCTION, false);
        assert_eq!(callers.queues[0].ahead_us, 0);
        assert_eq!(post(&mut callers, now, OTHER), Some(0));
    }

    #[test]
    fn one_without_memory_is_not_left_free_by_slow_calls_and_keeps_no_new_user_waiting() {
        let (mut callers, now) = callers(2, 10, 10);
        callers.note_full(now, 0, true);
        let may_go = |callers: &Callers, class| callers.may_go(now, class, 0);
        assert!(!may_go(&callers, Class::Slow) && !may_go(&callers, Class::Unknown));
        assert!(may_go(&callers, Class::New) && may_go(&callers, Class::Fast(32)));
        assert_eq!(callers.place(now, FUNCTION, Class::New), Some(1));
        callers.note_full(now, 0, false);
        assert!(may_go(&callers, Class::Slow));
    }

    /// However many quick calls are between.
    #[test]
    fn a_function_with_dear_calls_now_and_then_is_posted_one_call_at_a_time() {
        let (mut callers, now) = callers(1, 10, 10);
        note(&mut callers, now, FUNCTION, 12_000);
        (0..100).for_each(|_| note(&mut callers, now, FUNCTION, 10));
        assert_eq!(post_all(&mut callers, now, OTHER), AHEAD_MAX);
        (0..AHEAD_MAX).for_each(|_| callers.end(now, 0, OTHER, false));
        assert!(post_all(&mut callers, now, FUNCTION) > 200, "a hiccup");
        (0..AHEAD_MAX).for_each(|_| callers.end(now, 0, FUNCTION, false));
        // Four together are remembered for 64 times what all of them took.
        (0..3).for_each(|_| note(&mut callers, now, FUNCTION, 12_000));
        let (last, after) = (now.after_ms(4 * 768 - 1), now.after_ms(4 * 768));
        (0..100).for_each(|_| note(&mut callers, last, FUNCTION, 10));
        assert_eq!(post_all(&mut callers, last, FUNCTION), 1);
        callers.end(last, 0, FUNCTION, false);
        (0..100).for_each(|_| note(&mut callers, after, FUNCTION, 10));
        assert!(post_all(&mut callers, after, FUNCTION) > 200);
    }
}
