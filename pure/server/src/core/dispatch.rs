//! Who does a call, and who has to wait: the core's side of the queues.
//!
//! API calls go to the batcher, listings to the lister, passwords to the hasher; each of these is
//! fair between users by itself. RPC functions and hooks go to the callers, where a call cannot be
//! stopped for the sake of another one, but for those that are known to be quick. So what waits for callers
//! waits here, a line for each user, and the lines take turns; which calls may go to which caller is in `callers`.

use std::sync::Arc;

use event::Output;
use game::error::ApiError;

use super::callers::Callers;
use super::{Core, State};
use crate::fair::Turn;
use crate::hooks::Hooks;
use crate::limits::{Class, Functions, Limit, SHARED};
use crate::mail::{
    CallerMail, Done, Function, HasherMail, Job, ListerMail, LoaderMail, Mail, Outcome, Post as _,
    Queue, Work,
};

/// Of the passwords that may wait one user or address has this part at most, so that nobody keeps
/// all others from logging in.
const PASSWORD_SHARES: u32 = 4;
/// A function joins the batch if its calls need this part of a slice on the mean.
const SLICE_PARTS: u32 = 4;
/// How often it is looked whether time alone lets waiting calls go.
const LOOK_AGAIN_NS: u64 = 100_000_000;

/// The record of the function that a call at the callers, or on its way there, is for.
fn function_of(job: &Job) -> u16 {
    match job.queue {
        Queue::Caller { function, .. }
        | Queue::Companion { function }
        | Queue::Waiting { function, .. }
        | Queue::Batched { function } => function.slot,
        Queue::Batcher | Queue::Hasher | Queue::Lister | Queue::Loader => 0,
    }
}

impl Core {
    /// Hands work to whoever does it, or refuses it.
    pub(super) fn job(&mut self, job: Job, out: &mut Output<Mail>) -> Result<(), ApiError> {
        let queue = self.queue_of(&job);
        if let Some(limit) = self.limit_met(&job, queue) {
            return Err(match &job.caller {
                Some(claims) => self.limited(limit, format_args!("user {}", claims.user_id)),
                None => self.limited(limit, "a client without a user"),
            });
        }
        self.hand_out(Job { queue, ..job }, out);
        Ok(())
    }

    /// A call that was taken comes back from where it cannot be done, for a caller. It had its place among those
    /// that wait, so that no limit stands against it.
    pub(super) fn job_again(&mut self, job: Job, out: &mut Output<Mail>) {
        let mut queue = job.work.queue();
        if let Queue::Caller { tried, .. } = &mut queue {
            *tried = job.queue.tried();
        }
        self.count_in(job.group);
        self.hand_to_caller(Job { queue, ..job }, out);
    }

    /// One more job of this group is under way.
    fn count_in(&mut self, group: u32) {
        self.jobs_waiting += 1;
        self.stats.jobs_waiting.set(self.jobs_waiting);
        self.groups.get(group).waiting += 1;
    }

    fn hand_out(&mut self, mut job: Job, out: &mut Output<Mail>) {
        self.count_in(job.group);
        let group = self.groups.get(job.group);
        match job.queue {
            Queue::Batcher | Queue::Batched { .. } => self.jobs.push(job),
            Queue::Hasher => {
                self.passwords_waiting += 1;
                group.passwords = group.passwords.saturating_add(1);
                out.post(&self.topology, self.topology.hasher, HasherMail::Job(Box::new(job)));
            }
            Queue::Lister => {
                group.listings = group.listings.saturating_add(1);
                out.post(&self.topology, self.topology.lister, ListerMail::Job(Box::new(job)));
            }
            Queue::Loader => match self.topology.loader {
                Some(to) => out.post(&self.topology, to, LoaderMail::Job(Box::new(job))),
                None => unreachable!("modules are loaded again where nobody does that"),
            },
            Queue::Companion { .. } | Queue::Waiting { .. } => {
                unreachable!("no work begins by waiting, and where it is run is decided here")
            }
            Queue::Caller { .. } => {
                if let Some(companion) = self.companion
                    && self.is_for_companion(&job)
                {
                    self.callers.begin_at_companion();
                    let group = self.groups.get(job.group);
                    group.at_callers = group.at_callers.saturating_add(1);
                    job.queue = Queue::Companion { function: self.function(function_of(&job)) };
                    out.post(&self.topology, companion, CallerMail::Job(Box::new(job)));
                    return;
                }
                self.hand_to_caller(job, out);
            }
        }
    }

    /// To a caller, or into its user's line for them.
    fn hand_to_caller(&mut self, mut job: Job, out: &mut Output<Mail>) {
        // What may go goes: whoever waits could not.
        if !self.has_line(job.group)
            && let Some((index, class)) = self.place_for(&job)
        {
            self.post_call(&mut job, index, class);
            let caller = self.topology.callers[index];
            out.post(&self.topology, caller, CallerMail::Job(Box::new(job)));
        } else {
            // One user has one line, so that its calls stay in order.
            let is_slow = self.callers.slow.contains(job.group);
            let Callers { slow, quick, .. } = &mut self.callers;
            let queue = if is_slow { slow } else { quick };
            queue.push(job.group, job);
            self.stats.calls_waiting.set(self.callers.waiting() as u64);
        }
    }

    /// Who is to do it: a quick function that writes runs in the batch, where one commit is for all.
    fn queue_of(&mut self, job: &Job) -> Queue {
        let queue = job.work.queue();
        match (&job.work, queue) {
            (Work::Rpc(_), Queue::Caller { function, .. })
                if self.joins_batch(job, function.slot) =>
            {
                Queue::Batched { function: self.function(function.slot) }
            }
            _ => queue,
        }
    }

    /// A function of the version that this core knows.
    fn function(&self, slot: u16) -> Function {
        Function { slot, version: self.hooks.version }
    }

    /// Whether a call of this function may keep the batch waiting. Not one whose language gives no thread
    /// back, as on a core; not that of a user who was slow in this function, and not before an earlier one
    /// of the same user, which waits for a caller. Who was slow in another one may: what a function costs
    /// the batch when it turns slow is the same whoever calls it (`CallersOnly`), and who has not been
    /// heard of may as well.
    fn joins_batch(&mut self, job: &Job, function: u16) -> bool {
        let (now, functions) = (self.now, &self.callers.functions);
        let computed_us_max = self.settings.runtime.batch_slice_us / SLICE_PARTS;
        computed_us_max > 0
            && functions.writes(function)
            && self.hooks.may_run_on_core(&job.work)
            && functions.is_quick(now, function, computed_us_max)
            && !self.has_line(job.group)
            && !self.groups.get(job.group).was_slow_in(now, function)
    }

    /// The limit that stands against one more job, if one does.
    fn limit_met(&mut self, job: &Job, queue: Queue) -> Option<Limit> {
        let limits = &self.settings.limits;
        // What ends the scripts, or a call that has happened, is run however much there is to do.
        if job.work.is_owed() {
            return None;
        }
        let waiting = u32::try_from(self.jobs_waiting).unwrap_or(u32::MAX);
        if Limit::CallsWaiting.is_met(limits, waiting) {
            return Some(Limit::CallsWaiting);
        }
        if queue == Queue::Hasher {
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
        if queue == Queue::Lister && Limit::ListingsPerUser.is_met(limits, group.listings.into()) {
            return Some(Limit::ListingsPerUser);
        }
        let of_group = match &job.caller {
            Some(_) => Limit::CallsWaitingPerUser,
            None if job.client != 0 => Limit::CallsWaitingPerAddress,
            None => return None,
        };
        of_group.is_met(limits, group.waiting).then_some(of_group)
    }

    /// Whether a call is run on this thread.
    fn is_for_companion(&mut self, job: &Job) -> bool {
        let record = self.groups.get(job.group);
        let user = match job.group {
            SHARED => (Class::Unknown, 0),
            _ => (record.class(self.now), record.at_callers),
        };
        self.callers.is_for_companion(self.now, function_of(job), user)
            && self.hooks.may_run_on_core(&job.work)
    }

    fn has_line(&self, group: u32) -> bool {
        self.callers.quick.contains(group) || self.callers.slow.contains(group)
    }

    /// Where a call of this user may go just now.
    fn place_for(&mut self, job: &Job) -> Option<(usize, Class)> {
        let (now, function) = (self.now, function_of(job));
        let record = self.groups.get(job.group);
        let class = self.callers.class(now, function, record.class(now));
        let may_go = job.group == SHARED || self.callers.may_go(now, class, record.at_callers);
        let place = may_go.then(|| self.callers.place(now, function, class)).flatten();
        place.map(|index| (index, class))
    }

    fn post_call(&mut self, job: &mut Job, index: usize, class: Class) {
        let slot = function_of(job);
        let closes = self.callers.begin(self.now, index, slot, class);
        let keeps = self.callers.keeps_place(class);
        let group = self.groups.get(job.group);
        group.at_callers = group.at_callers.saturating_add(1);
        let tried = job.queue.tried();
        job.queue = Queue::Caller { index, closes, keeps, tried, function: self.function(slot) };
    }

    /// A worker has answered, or its mailbox was full, or its call waits for another thread: then the
    /// job is not done, but no caller's any more.
    pub(super) fn job_done(&mut self, done: &Done) {
        let now = self.now;
        let group = self.groups.get(done.group);
        if !matches!(done.outcome, Outcome::Waits) {
            self.jobs_waiting = self.jobs_waiting.saturating_sub(1);
            self.stats.jobs_waiting.set(self.jobs_waiting);
            group.waiting = group.waiting.saturating_sub(1);
        }
        match done.queue {
            Queue::Batcher | Queue::Loader => {}
            Queue::Batched { function } => {
                self.note_given_back(function, done);
                self.note_used(function, done);
            }
            Queue::Hasher => {
                self.passwords_waiting = self.passwords_waiting.saturating_sub(1);
                group.passwords = group.passwords.saturating_sub(1);
            }
            Queue::Lister => group.listings = group.listings.saturating_sub(1),
            Queue::Caller { index, closes, keeps, function, .. } => {
                if !keeps || !matches!(done.outcome, Outcome::Waits) {
                    group.at_callers = group.at_callers.saturating_sub(1);
                }
                // Names that nobody has defined would make slow functions that share their place,
                // and whoever calls them, look fast.
                if !done.is_of_no_function() {
                    self.note_used(function, done);
                }
                self.callers.end(now, index, function.slot, closes);
                // One that is refused for want of modules has used nothing, and tells nothing.
                if done.is_given_back() || done.used.is_some() {
                    self.callers.note_full(now, index, done.is_given_back());
                }
            }
            Queue::Companion { function } => {
                group.at_callers = group.at_callers.saturating_sub(1);
                self.callers.end_at_companion();
                self.note_given_back(function, done);
                if !done.is_of_no_function() {
                    self.note_used(function, done);
                }
            }
            // What it took since it was gone on with.
            Queue::Waiting { function, keeps } => {
                group.at_callers = group.at_callers.saturating_sub(u16::from(keeps));
                self.note_used(function, done);
            }
        }
    }

    /// A function of this version is for callers alone for a while, if a call of it was given back.
    fn note_given_back(&mut self, function: Function, done: &Done) {
        let needs_caller = matches!(done.outcome, Outcome::NeedsCaller(_));
        if needs_caller && function.version == self.hooks.version {
            self.callers.functions.note_needs_caller(self.now, function.slot);
        }
    }

    /// Learns of a function, unless that was one of another version, and of who called it, from what a
    /// call has used. How long calls of a user take who was slow before is put down to the user alone: such
    /// calls are dealt with by that. Not where one stayed in the batch, which takes them, and where a slice
    /// bounds what one counts.
    fn note_used(&mut self, function: Function, done: &Done) {
        let Some(used) = done.used else { return };
        let user = match done.group {
            SHARED => None,
            group => Some(self.groups.get(group)),
        };
        let is_of_slow = user.as_ref().is_some_and(|user| user.class(self.now) == Class::Slow);
        let is_given_back = done.is_given_back();
        let stayed_in_batch = matches!(done.queue, Queue::Batched { .. }) && !is_given_back;
        if function.version == self.hooks.version {
            let is_over = !is_given_back && !matches!(done.outcome, Outcome::Waits);
            let functions = &mut self.callers.functions;
            if is_of_slow && !stayed_in_batch {
                functions.note_of_slow_user(self.now, function.slot, used);
            } else {
                functions.note(self.now, function.slot, used, is_over);
            }
        }
        if let Some(user) = user {
            user.note_cost(self.now, function.slot, used.time.kept_us / 1_000);
        }
    }

    /// Every worker and room has a new version of the guest code: calls of this core see its hooks from
    /// now on, and nothing is known of its functions.
    pub(super) fn take_hooks(&mut self, hooks: Arc<Hooks>, out: &mut Output<Mail>) {
        let version = hooks.version;
        assert!(version > self.hooks.version, "version {version} comes late");
        self.hooks = hooks;
        self.callers.functions = Functions::default();
        if let Some(loader) = self.topology.loader {
            out.post(&self.topology, loader, LoaderMail::Took { core: self.me, version });
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
        while self.callers.has_open(self.now)
            && let Some((mut job, index, class)) = self.next_call()
        {
            if self.is_for_nobody(&job) {
                self.stats.dropped_calls.up();
                self.jobs_waiting = self.jobs_waiting.saturating_sub(1);
                let group = self.groups.get(job.group);
                group.waiting = group.waiting.saturating_sub(1);
                continue;
            }
            self.post_call(&mut job, index, class);
            out.post(&self.topology, self.topology.callers[index], CallerMail::Job(Box::new(job)));
        }
        self.stats.jobs_waiting.set(self.jobs_waiting);
        self.stats.calls_waiting.set(self.callers.waiting() as u64);
    }

    /// The next call that may go, and where. Slow users and others take turns too: to have looked in vain is
    /// no turn, so that behind a slow call that has run the others come first, however often it was looked.
    fn next_call(&mut self) -> Option<(Job, usize, Class)> {
        let is_slows_turn = self.callers.is_slows_turn;
        // A line that is in the wrong queue by now changes over when it is met: the last look finds
        // what the one before has brought.
        let next = [is_slows_turn, !is_slows_turn, is_slows_turn]
            .into_iter()
            .find_map(|is_slow| self.next_call_of(is_slow));
        if let Some((.., class)) = next {
            self.callers.is_slows_turn = class != Class::Slow;
        }
        next
    }

    fn next_call_of(&mut self, is_slow: bool) -> Option<(Job, usize, Class)> {
        let queue = if is_slow { &mut self.callers.slow } else { &mut self.callers.quick };
        let mut queue = std::mem::take(queue);
        let (callers, groups, now) = (&self.callers, &mut self.groups, self.now);
        let (mut moved, mut found) = (Vec::new(), None);
        let turn = |key, job: &Job| {
            let (group, function) = (groups.get(key), function_of(job));
            let class = callers.class(now, function, group.class(now));
            if (class == Class::Slow) != is_slow {
                return Turn::Leave;
            }
            let may_go = key == SHARED || callers.may_go(now, class, group.at_callers);
            let place = may_go.then(|| callers.place(now, function, class)).flatten();
            found = place.map(|index| (index, class));
            if found.is_some() { Turn::Take } else { Turn::Skip }
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
        let (index, class) = found?;
        job.map(|job| (job, index, class))
    }

    /// Whether the connection that waits for it is gone.
    fn is_for_nobody(&self, job: &Job) -> bool {
        if matches!(job.work, Work::After(_)) || job.work.is_owed() {
            return false;
        }
        let conn = job.address.conn;
        let slot = self.conns.get(conn.slot as usize);
        let is_there = slot.is_some_and(|slot| {
            slot.generation == conn.generation
                && matches!(slot.state, State::Http(_) | State::Socket(_) | State::Grpc(_))
        });
        !is_there
    }
}
