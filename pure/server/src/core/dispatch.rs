//! Who does a call, and who has to wait: the core's side of the lanes.
//!
//! API calls go to the batcher, listings to the lister, passwords to the hasher; each of these is
//! fair between users by itself. RPC functions and hooks go to the callers, where a call cannot be
//! stopped for the sake of another one. So what waits for callers waits here, a line for each user,
//! and the lines take turns:
//!
//! * A user whose calls were fast of late may have several at the callers, one behind the other.
//! * Behind a call of anybody else nobody waits: its caller gets nothing more until it is done.
//!   Such calls of one user hold half of the callers at most.
//! * Users with a slow call of late, and users of functions that are slow of late, leave one caller
//!   free, all together; so do users who call a function of which nothing is known yet either. So
//!   many accounts with one slow call each hold up each other, and users of whom and of whose
//!   function nothing is known; whoever is known to be fast, or calls a function that is, has one
//!   caller left. With a single caller (`engine.workers` 1) there is none to leave free: then all
//!   wait for the call that runs.
//!
//! What that does not promise: a user who was fast for a while and a function that was fast on the
//! mean may still turn slow. Then they delay, for as long as the call takes, what was posted behind
//! them within 5 ms, or take the last caller until it is done. And what functions wait for besides
//! (a room, the database's one writer) is not divided here.
//!
//! Of other cores' calls a core knows nothing, so that all this holds for each core by itself.

use event::{Now, Output};
use game::error::ApiError;

use super::{Core, State};
use crate::fair::{FairQueue, Turn};
use crate::limits::{Class, Functions, Limit, SHARED};
use crate::mail::{Done, Job, Lane, Mail, Work};

/// Calls that a core posts to one caller ahead of its answers.
const AHEAD_MAX: u32 = 256;
/// A caller that has calls and gives no answer for so long gets no more while others do.
const STALLED_NS: u64 = 5_000_000;
/// After so long its answers are taken for lost: longer than any call may take.
const LOST_NS: u64 = 1_200_000_000_000;
/// Of the passwords that may wait one user or address has this part at most, so that nobody keeps
/// all others from logging in.
const PASSWORD_SHARES: u32 = 4;
/// How often it is looked whether time alone lets waiting calls go.
const LOOK_AGAIN_NS: u64 = 100_000_000;

/// What one core has at the callers, and what waits for them.
pub(super) struct Callers {
    lanes: Vec<CallerLane>,
    /// How long the functions took.
    functions: Functions,
    /// Of calls that may be fast.
    quick: FairQueue<u32, Job>,
    /// Of users, or of functions, that were slow of late.
    slow: FairQueue<u32, Job>,
    is_slows_turn: bool,
    /// When it is next looked whether time alone lets waiting calls go.
    look_ns: u64,
}

/// One caller.
#[derive(Clone, Debug, Default)]
struct CallerLane {
    under_way: u32,
    closed_by: Option<Class>,
    /// When it last began or answered something.
    progress_ns: u64,
}

impl Callers {
    pub(super) fn new(count: usize) -> Self {
        Self {
            lanes: vec![CallerLane::default(); count],
            functions: Functions::default(),
            quick: FairQueue::default(),
            slow: FairQueue::default(),
            is_slows_turn: false,
            look_ns: 0,
        }
    }

    /// Whether calls are at callers: then answers may lie in the mailbox.
    pub(super) fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| lane.under_way > 0)
    }

    /// How many calls wait here.
    fn waiting(&self) -> usize {
        self.quick.len() + self.slow.len()
    }

    /// How many callers calls of one user may keep from others.
    fn share(&self) -> u16 {
        u16::try_from(self.lanes.len() / 2).unwrap_or(u16::MAX).max(1)
    }

    /// The caller with the least to do among those that take more.
    fn open(&self, now: Now) -> Option<usize> {
        let takes_more = |lane: &CallerLane| {
            let silent_ns = now.mono_ns.saturating_sub(lane.progress_ns);
            let is_stalled = lane.under_way > 0 && silent_ns > STALLED_NS;
            let is_lost = lane.under_way > 0 && silent_ns > LOST_NS;
            let is_free = lane.closed_by.is_none() && lane.under_way < AHEAD_MAX && !is_stalled;
            is_free || is_lost
        };
        let open = self.lanes.iter().enumerate().filter(|(_, lane)| takes_more(lane));
        open.min_by_key(|(_, lane)| lane.under_way).map(|(index, _)| index)
    }

    /// Whether one more call that is slow, or may well be, may run.
    fn has_room_for_slow(&self) -> bool {
        let may_be_slow =
            |lane: &&CallerLane| matches!(lane.closed_by, Some(Class::Slow | Class::Unknown));
        let slow = self.lanes.iter().filter(may_be_slow).count();
        slow < self.lanes.len().saturating_sub(1).max(1)
    }

    /// Whether a call of this class may go, of a user who has so many at the callers.
    fn may_go(&self, class: Class, at_callers: u16) -> bool {
        match class {
            Class::Fast(calls_max) => at_callers < calls_max,
            Class::New => at_callers < self.share(),
            Class::Unknown | Class::Slow => at_callers < self.share() && self.has_room_for_slow(),
        }
    }
}

/// The record of the function that a call at the callers, or on its way there, is for.
fn function_of(job: &Job) -> u16 {
    match job.lane {
        Lane::Caller { function, .. } => function,
        Lane::Batcher | Lane::Hasher | Lane::Lister => 0,
    }
}

impl Core {
    /// Hands work to whoever does it, or refuses it.
    pub(super) fn job(&mut self, job: Job, out: &mut Output<Mail>) -> Result<(), ApiError> {
        let lane = job.work.lane();
        if let Some(limit) = self.limit_met(&job, lane) {
            return Err(match &job.caller {
                Some(claims) => self.limited(limit, format_args!("user {}", claims.user_id)),
                None => self.limited(limit, "a client without a user"),
            });
        }
        self.jobs_waiting += 1;
        self.stats.jobs_waiting.set(self.jobs_waiting);
        let group = self.groups.get(job.group);
        group.waiting += 1;
        let mut job = Job { lane, ..job };
        match lane {
            Lane::Batcher => self.jobs.push(job),
            Lane::Hasher => {
                self.passwords_waiting += 1;
                group.passwords = group.passwords.saturating_add(1);
                out.mail(self.topology.hasher, Mail::Job(Box::new(job)));
            }
            Lane::Lister => {
                group.listings = group.listings.saturating_add(1);
                out.mail(self.topology.lister, Mail::Job(Box::new(job)));
            }
            Lane::Caller { .. } => {
                // What may go goes: whoever waits could not.
                if !self.has_line(job.group)
                    && let Some((index, class)) = self.place_for(&job)
                {
                    self.post_call(&mut job, index, class);
                    out.mail(self.topology.callers[index], Mail::Job(Box::new(job)));
                } else {
                    // One user has one line, so that its calls stay in order.
                    let is_slow = self.callers.slow.contains(job.group);
                    let Callers { slow, quick, .. } = &mut self.callers;
                    let queue = if is_slow { slow } else { quick };
                    queue.push(job.group, job);
                    self.stats.calls_waiting.set(self.callers.waiting() as u64);
                }
            }
        }
        Ok(())
    }

    /// The limit that stands against one more job, if one does.
    fn limit_met(&mut self, job: &Job, lane: Lane) -> Option<Limit> {
        let limits = &self.settings.limits;
        // What ends the scripts is run however much they have to do.
        if matches!(job.work, Work::Shutdown) {
            return None;
        }
        let waiting = u32::try_from(self.jobs_waiting).unwrap_or(u32::MAX);
        if Limit::CallsWaiting.is_met(limits, waiting) {
            return Some(Limit::CallsWaiting);
        }
        if lane == Lane::Hasher {
            let one_client = job.group != SHARED && (job.caller.is_some() || job.client != 0);
            let own = if one_client { self.groups.get(job.group).passwords.into() } else { 0_u32 };
            let waiting = self.passwords_waiting.max(own.saturating_mul(PASSWORD_SHARES));
            if Limit::PasswordsWaiting.is_met(limits, waiting) {
                return Some(Limit::PasswordsWaiting);
            }
        }
        if job.group == SHARED {
            return None;
        }
        let group = self.groups.get(job.group);
        if lane == Lane::Lister && Limit::ListingsPerUser.is_met(limits, group.listings.into()) {
            return Some(Limit::ListingsPerUser);
        }
        let of_group = match &job.caller {
            Some(_) => Limit::CallsWaitingPerUser,
            None if job.client != 0 => Limit::CallsWaitingPerAddress,
            None => return None,
        };
        of_group.is_met(limits, group.waiting).then_some(of_group)
    }

    fn has_line(&self, group: u32) -> bool {
        self.callers.quick.contains(group) || self.callers.slow.contains(group)
    }

    /// Where a call of this user may go just now.
    fn place_for(&mut self, job: &Job) -> Option<(usize, Class)> {
        let record = self.groups.get(job.group);
        let (user, at_callers) = (record.class(self.now), record.at_callers);
        let class = self.callers.functions.class(function_of(job), user);
        let may_go = job.group == SHARED || self.callers.may_go(class, at_callers);
        may_go.then(|| self.callers.open(self.now)).flatten().map(|index| (index, class))
    }

    fn post_call(&mut self, job: &mut Job, index: usize, class: Class) {
        let lane = &mut self.callers.lanes[index];
        if lane.under_way == 0 {
            lane.progress_ns = self.now.mono_ns;
        }
        lane.under_way += 1;
        let closes = !matches!(class, Class::Fast(_));
        if closes {
            lane.closed_by = Some(class);
        }
        let group = self.groups.get(job.group);
        group.at_callers = group.at_callers.saturating_add(1);
        job.lane = Lane::Caller { index, closes, function: function_of(job) };
    }

    /// A worker has answered, or its mailbox was full.
    pub(super) fn job_done(&mut self, done: &Done) {
        self.jobs_waiting = self.jobs_waiting.saturating_sub(1);
        self.stats.jobs_waiting.set(self.jobs_waiting);
        let now = self.now;
        let group = self.groups.get(done.group);
        group.waiting = group.waiting.saturating_sub(1);
        match done.lane {
            Lane::Batcher => {}
            Lane::Hasher => {
                self.passwords_waiting = self.passwords_waiting.saturating_sub(1);
                group.passwords = group.passwords.saturating_sub(1);
            }
            Lane::Lister => group.listings = group.listings.saturating_sub(1),
            Lane::Caller { index, closes, function } => {
                group.at_callers = group.at_callers.saturating_sub(1);
                // Names that nobody has defined would make slow functions that share their place,
                // and whoever calls them, look fast.
                if !done.is_of_no_function() {
                    self.callers.functions.note_cost(function, done.took_ms);
                    if done.group != SHARED {
                        group.note_cost(now, done.took_ms);
                    }
                }
                let Some(lane) = self.callers.lanes.get_mut(index) else { return };
                lane.under_way = lane.under_way.saturating_sub(1);
                lane.progress_ns = now.mono_ns;
                if closes {
                    lane.closed_by = None;
                }
            }
        }
    }

    /// Looks now and then whether waiting calls may go of which no answer tells: what was slow is
    /// forgotten with time. To be called while calls are under way.
    pub(super) fn post_waiting_in_time(&mut self, out: &mut Output<Mail>) {
        if self.now.mono_ns >= self.callers.look_ns {
            self.callers.look_ns = self.now.mono_ns.saturating_add(LOOK_AGAIN_NS);
            self.post_waiting(out);
        }
    }

    /// Hands waiting calls to callers that take more, the users in turns. Calls whose client is
    /// gone are dropped.
    pub(super) fn post_waiting(&mut self, out: &mut Output<Mail>) {
        if self.callers.waiting() == 0 {
            return;
        }
        while let Some(index) = self.callers.open(self.now)
            && let Some(mut job) = self.next_call()
        {
            if self.is_for_nobody(&job) {
                self.stats.dropped_calls.up();
                self.jobs_waiting = self.jobs_waiting.saturating_sub(1);
                let group = self.groups.get(job.group);
                group.waiting = group.waiting.saturating_sub(1);
                continue;
            }
            let user = self.groups.get(job.group).class(self.now);
            let class = self.callers.functions.class(function_of(&job), user);
            self.post_call(&mut job, index, class);
            out.mail(self.topology.callers[index], Mail::Job(Box::new(job)));
        }
        self.stats.jobs_waiting.set(self.jobs_waiting);
        self.stats.calls_waiting.set(self.callers.waiting() as u64);
    }

    /// The next call that may go. Slow users and others take turns too.
    fn next_call(&mut self) -> Option<Job> {
        self.callers.is_slows_turn = !self.callers.is_slows_turn;
        let is_slows_turn = self.callers.is_slows_turn;
        // A line that is in the wrong queue by now changes over when it is met: the last look finds
        // what the one before has brought.
        [is_slows_turn, !is_slows_turn, is_slows_turn]
            .into_iter()
            .find_map(|is_slow| self.next_call_of(is_slow))
    }

    fn next_call_of(&mut self, is_slow: bool) -> Option<Job> {
        let queue = if is_slow { &mut self.callers.slow } else { &mut self.callers.quick };
        let mut queue = std::mem::take(queue);
        let (callers, groups, now) = (&self.callers, &mut self.groups, self.now);
        let mut moved = Vec::new();
        let turn = |key, job: &Job| {
            let group = groups.get(key);
            let class = callers.functions.class(function_of(job), group.class(now));
            if (class == Class::Slow) != is_slow {
                Turn::Leave
            } else if key == SHARED || callers.may_go(class, group.at_callers) {
                Turn::Take
            } else {
                Turn::Skip
            }
        };
        let job = queue.pop_where(turn, |key, line| moved.push((key, line)));
        let (own, other) = if is_slow {
            (&mut self.callers.slow, &mut self.callers.quick)
        } else {
            (&mut self.callers.quick, &mut self.callers.slow)
        };
        *own = queue;
        for (key, line) in moved {
            line.into_iter().for_each(|job| other.push(key, job));
        }
        job
    }

    /// Whether the connection that waits for it is gone.
    fn is_for_nobody(&self, job: &Job) -> bool {
        if matches!(job.work, Work::After(_) | Work::Shutdown) {
            return false;
        }
        let conn = job.address.conn;
        let slot = self.conns.get(conn.slot as usize);
        let is_there = slot.is_some_and(|slot| {
            slot.generation == conn.generation
                && matches!(slot.state, State::Http(_) | State::Socket(_))
        });
        !is_there
    }
}
