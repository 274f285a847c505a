//! The thread of events: what has happened waits here for its handler, and nobody for that. When too
//! much waits, what comes is forgotten and counted, as in Nakama. Users take turns, and one of them has
//! a part of the queue at most, in number and in bytes, so that one who tells of a thousand things a second is heard of as
//! often as all others, and takes nobody's place.
//!
//! Source: Nakama 3.40, `server/runtime_event.go`.

use std::collections::BTreeMap;

use event::Now;
use game::events::{EventJob, EventKind};
use game::guest::{GuestCall, Returned, ScriptError};
use uuid::Uuid;

use super::hooks::Then;
use super::{Named, Worker, hooks};
use crate::fair::FairQueue;

/// Of the events that may wait one user has this part at most.
const USER_SHARES: usize = 64;

/// Bytes of all events that wait.
const BYTES_MAX: usize = 64 << 20;

/// What waits, a line for each user and one for scripts.
#[derive(Debug)]
pub(super) struct EventQueue {
    queue: FairQueue<Uuid, EventJob>,
    len_max: usize,
    bytes: usize,
    /// Of those of whom something waits.
    bytes_of: BTreeMap<Uuid, usize>,
    dropped_count: u64,
}

impl EventQueue {
    pub(super) fn new(len_max: usize) -> Self {
        let queue = FairQueue::default();
        Self { queue, len_max, bytes: 0, bytes_of: BTreeMap::new(), dropped_count: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many had no room, since the start.
    pub(super) fn dropped_count(&self) -> u64 {
        self.dropped_count
    }

    /// Takes an event, if there is room for it.
    fn push(&mut self, job: EventJob) -> bool {
        let user_id = job.context.user_id;
        let bytes = job.bytes();
        let key = user_id.unwrap_or_default();
        let waiting = self.bytes_of.get(&key).copied().unwrap_or(0);
        // One event has room, however large.
        let is_within_share = user_id.is_none()
            || waiting == 0
            || (self.queue.len_of(key) < self.len_max / USER_SHARES
                && waiting + bytes <= BYTES_MAX / USER_SHARES);
        let has_room =
            self.queue.len() < self.len_max && is_within_share && self.bytes + bytes <= BYTES_MAX;
        if has_room {
            self.bytes += bytes;
            self.bytes_of.insert(key, waiting + bytes);
            self.queue.push(key, job);
        } else {
            self.dropped_count += 1;
        }
        has_room
    }

    fn pop(&mut self) -> Option<EventJob> {
        let job = self.queue.pop()?;
        let (key, bytes) = (job.context.user_id.unwrap_or_default(), job.bytes());
        self.bytes -= bytes;
        if let Some(waiting) = self.bytes_of.get_mut(&key) {
            *waiting -= bytes;
            if *waiting == 0 {
                self.bytes_of.remove(&key);
            }
        }
        Some(job)
    }
}

impl Worker {
    /// Takes what has happened, of which this thread alone knows whether there is a handler: others do not run all
    /// languages.
    pub(super) fn take_in_events(&mut self, now: Now, jobs: Vec<EventJob>) {
        let handled: Vec<EventKind> = crate::hooks::handled(self.guests.registered()).collect();
        for job in jobs.into_iter().filter(|job| handled.contains(&job.kind)) {
            let user_id = job.context.user_id;
            if !self.events.push(job) {
                let who = user_id.map_or_else(|| "a script".into(), |id| format!("user {id}"));
                let what = format_args!("an event of {who} is dropped: too many wait");
                self.limit_log.hit(now, "runtime.event_queue_size", what);
            }
        }
        self.stats.events_waiting.set(self.events.queue.len() as u64);
    }

    /// Lets the handler of the next event hear of it.
    pub(super) fn run_event(&mut self, now: Now) {
        let Some(EventJob { kind, event, context, cause }) = self.events.pop() else { return };
        self.stats.events_waiting.set(self.events.queue.len() as u64);
        let (name, value) = (kind.handler(), event.value());
        self.stats.event_count.up();
        let call = GuestCall::Event { name, argument: value };
        self.begin(now, (None, Then::Event(cause)), (name, &context), call);
    }

    /// A handler has heard of its event.
    pub(super) fn event_ended(
        &mut self,
        (name, version): Named<'_>,
        result: Result<Returned, ScriptError>,
    ) {
        if let Err(error) = result {
            self.stats.event_errors.up();
            if hooks::is_meant(&error) {
                tracing::debug!(
                    name,
                    code = error.code,
                    location = self.place("", name, &error),
                    version = version.0,
                    "the handler of an event ended: {error}"
                );
            } else if let Some(location) = self.failed("", (name, version), &error) {
                tracing::warn!(
                    name,
                    location,
                    version = version.0,
                    "the handler of an event failed: {error}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use game::events::{Event, EventJob, EventKind};
    use game::guest::CallContext;
    use uuid::Uuid;

    use super::EventQueue;

    fn job(user: u128, name: &str) -> EventJob {
        let user_id = (user > 0).then(|| Uuid::from_u128(user));
        let event = Event { name: name.to_owned(), ..Event::default() };
        EventJob {
            kind: EventKind::Custom,
            event,
            context: CallContext { user_id, ..CallContext::default() },
            cause: None,
        }
    }

    #[test]
    fn one_user_has_a_share_and_takes_turns() {
        let mut queue = EventQueue::new(256);
        for number in 0..10 {
            assert_eq!(queue.push(job(1, &number.to_string())), number < 4);
        }
        assert!(queue.push(job(2, "of two")) && queue.push(job(0, "of a script")));
        assert_eq!(queue.dropped_count(), 6);
        let order: Vec<String> =
            std::iter::from_fn(|| queue.pop()).map(|it| it.event.name).collect();
        assert_eq!(order, ["0", "of two", "of a script", "1", "2", "3"]);
        assert!(queue.is_empty() && queue.bytes == 0 && queue.bytes_of.is_empty());
    }

    #[test]
    fn one_user_s_large_events_leave_room_for_others() {
        let mut queue = EventQueue::new(65_536);
        let large = "x".repeat(250_000);
        let taken = (0..300).filter(|_| queue.push(job(1, &large))).count();
        assert_eq!(taken, 4, "a mebibyte");
        for user in 2..=60 {
            assert!(queue.push(job(user, &large)), "{user}");
        }
        let larger = "x".repeat(2 << 20);
        assert!(queue.push(job(61, &larger)) && !queue.push(job(61, "")));
    }

    /// An event without a word is as large as the variables of its session.
    #[test]
    fn what_is_known_of_the_user_counts() {
        let mut queue = EventQueue::new(65_536);
        let vars: Vec<_> = (0..450).map(|number| (number.to_string(), String::new())).collect();
        let of = |user| {
            let mut job = job(user, "");
            job.context.vars = vars.clone();
            job
        };
        let taken = (0..300).filter(|_| queue.push(of(1))).count();
        assert!((30..38).contains(&taken), "{taken}: a mebibyte of some 30,000 bytes each");
        assert!(queue.push(of(2)));
        while queue.pop().is_some() {}
        assert!(queue.bytes == 0 && queue.bytes_of.is_empty());
    }

    #[test]
    fn all_together_have_a_limit_of_events_and_of_bytes() {
        let mut queue = EventQueue::new(64);
        for user in 1..=70 {
            assert_eq!(queue.push(job(user, "")), user <= 64, "{user}");
        }
        assert!(!queue.push(job(0, "")));
        let mut queue = EventQueue::new(1_000);
        let large = "x".repeat(1 << 20);
        let taken = (0..70).filter(|_| queue.push(job(0, &large))).count();
        assert_eq!(taken, 63);
    }
}
