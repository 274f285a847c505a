//! A worker thread: owns a database connection and a script VM, and may block on both.
//!
//! There are five kinds, one struct. The *batcher* takes the API calls that are waiting, and RPC functions
//! that are quick and write (`batched`), runs them in one transaction, commits once and then answers
//! each: the group commit needs no timer. A
//! *caller* takes one RPC at a time, in turns with what is left of calls that waited (`turns`), and answers it
//! at once, unless it has written: then the answer waits, while further quick calls run and what they write
//! gathers, until all of it is committed and the disk has it. A call of guest code that waits for another thread is put aside, and others run
//! meanwhile (`waiting`). The *hasher* runs calls that carry a password, which take a third of a second
//! each, one at a time, and what matches want that takes long: hashes, and SQL of their own. A *companion*
//! is a caller that shares a core's thread: it runs calls that are known to be quick, in slices, and has
//! what keeps a thread done by others. The thread of *events* runs their handlers, one at a time, for nobody who
//! waits, and before them rules of the zone. What deliberately is not here: sockets, matches.

mod again;
mod batched;
mod companion;
mod events;
mod hooks;
mod host;
mod queues;
mod rules;
mod shipped;
mod spent;
mod turns;
mod waiting;
mod weight;

use std::collections::VecDeque;
use std::sync::Arc;

use event::{CallTime, ConnId, Handler, Input, Now, Output, ThreadId};
use game::api::{self, Effect};
use game::db::DbError;
use game::error::{ApiError, Code};
use game::guest::{
    GuestCall, GuestVersion, HostError, Retired, Returned, ScriptError, ScriptFailure,
};
use game::session::{Claims, Signer};

use crate::fair::FairQueue;
use crate::guests::{Guests, Instance, NewGuests};
use crate::limit_log::LimitLog;
use crate::mail::{
    Address, Asker, BatcherMail, CallerMail, CoreMail, Done, EventsMail, Format, HasherMail,
    HeldVersion, Holds, HookStep, HostReturn, Job, Line, LoaderMail, Mail, News, Outcome,
    Post as _, Queue, RoomIndex, RoomMail, RpcJob, Topology, Used, Work, WorkerAddress, ZoneAsk,
    ZoneMail,
};
use crate::resources::{Resources, ThreadContext};
use crate::retry_queue::RetryQueue;
use crate::settings::Settings;
use crate::stats::WorkerStats;
use again::Again;
use batched::Left;
use events::EventQueue;
use hooks::Then;
use queues::Guesses;
use shipped::Task;
use spent::Unanswered;
use turns::Turns;
use waiting::{Guest, Origin, WaitingCalls};

/// For how long a caller keeps answers that wait for the disk before it begins another call,
/// nanoseconds: time for some dozens of calls that write to share one wait.
const PARKED_NS_MAX: u64 = 2_000_000;

/// A function of guest code as logs have it: its name, and the version that ran.
type Named<'a> = (&'a str, GuestVersion);

/// The handler of a worker thread.
pub struct Worker {
    me: WorkerAddress,
    /// It shares a core's thread, whose sockets wait while it works.
    is_companion: bool,
    topology: Arc<Topology>,
    settings: Arc<Settings>,
    stats: Arc<WorkerStats>,
    guests: Guests,
    resources: Resources,
    signer: Signer,
    /// Calls of its scripts that wait for others.
    waiting: WaitingCalls,
    /// Calls that wait for their next slice of a core; each has one in its turn.
    paused: VecDeque<Guest>,
    /// Answers of this turn that wait for the disk.
    done: Vec<(Address<CoreMail>, Vec<Done>)>,
    /// Since when the first of them waits; it counts for callers only.
    waits_since_ns: Option<u64>,
    /// What came of functions that guests on other threads wait for, in this turn.
    returned: Vec<(Asker, Vec<HostReturn>)>,
    /// What the answers' calls want besides, once they are durable.
    effects: Vec<Effect>,
    /// Whom to tell what became of which part of the zone, when all of this turn is on the disk.
    zone_saved: Vec<(RoomIndex, u64, bool)>,
    /// What the zone asks rules, and what they have returned in this turn.
    rules: VecDeque<ZoneAsk>,
    ruled: Vec<(RoomIndex, ZoneMail)>,
    /// The newest part of the zone that was written, as its home counts them.
    zone_write: u64,
    /// Other mail of this turn.
    mails: Vec<(ThreadId, Mail)>,
    /// Cores with answers in their mailbox that they have not been woken for.
    to_wake: Vec<Address<CoreMail>>,
    jobs_in_batch: u64,
    /// What the call of guest code that runs has used, but for its time.
    used: Used,
    /// How long its database connection had waited when that call began.
    db_waited_us: u64,
    /// Jobs as they came.
    incoming: VecDeque<Task>,
    /// On a caller, whether these or calls that have been answered are next.
    turns: Turns,
    /// Jobs that take turns, because there are too many for one batch.
    queue: FairQueue<Line, Task>,
    /// Of the batcher's jobs those that are much work; they have batches of their own.
    heavy: FairQueue<Line, Task>,
    /// Whether heavy jobs are next, at the batcher; at the thread of events, handlers and not rules.
    is_others_turn: bool,
    /// What has happened and its handler has not heard of.
    events: EventQueue,
    guesses: Guesses,
    /// Calls that another writer was in the way of.
    again: Again,
    /// Whether cores may not know of all that is revoked, because a node has gone.
    rereads_revoked: bool,
    /// Functions that do not run in the batch, or on this core, for a while.
    left: Left,
    /// On a caller, the call that has used up the memory of its scripts.
    unanswered: Option<Unanswered>,
    /// The modules do not load once more for it.
    has_no_guests: bool,
    retries: RetryQueue,
    limit_log: LimitLog,
}

impl Worker {
    /// A worker with nothing to do.
    #[must_use]
    pub fn new(
        me: WorkerAddress,
        topology: Arc<Topology>,
        settings: Arc<Settings>,
        stats: Arc<WorkerStats>,
        context: ThreadContext,
    ) -> Self {
        let signer = Signer::new(&settings.session);
        let mut resources = context.resources;
        resources.directory.set_list_steps_max(settings.matches.list_steps_max);
        let is_companion = topology.core_of(me).is_some();
        if matches!(me, WorkerAddress::Caller(_)) && !is_companion {
            resources.db.group_commits();
        }
        Self {
            me,
            is_companion,
            incoming: VecDeque::new(),
            turns: Turns::default(),
            queue: FairQueue::default(),
            heavy: FairQueue::default(),
            is_others_turn: false,
            events: EventQueue::new(settings.runtime.event_queue_size),
            guesses: Guesses::new(&settings.limits),
            again: Again::default(),
            rereads_revoked: false,
            left: Left::default(),
            unanswered: None,
            has_no_guests: false,
            topology,
            stats,
            guests: Guests::new(context.scripts),
            resources,
            signer,
            waiting: WaitingCalls::default(),
            paused: VecDeque::new(),
            done: Vec::new(),
            returned: Vec::new(),
            waits_since_ns: None,
            effects: Vec::new(),
            zone_saved: Vec::new(),
            rules: VecDeque::new(),
            ruled: Vec::new(),
            zone_write: 0,
            mails: Vec::new(),
            to_wake: Vec::new(),
            jobs_in_batch: 0,
            used: Used::default(),
            db_waited_us: 0,
            retries: RetryQueue::default(),
            limit_log: LimitLog::default(),
            settings,
        }
    }

    /// Each kind opens mail of its own.
    fn mail(&mut self, now: Now, mail: Mail, out: &mut Output<Mail>) {
        match self.me {
            WorkerAddress::Batcher(me) => match me.open(mail) {
                BatcherMail::Jobs(jobs) => {
                    jobs.into_iter().for_each(|job| self.take_in(Task::Job(job)));
                }
                BatcherMail::Calls(calls) => {
                    calls.into_iter().for_each(|call| self.take_in(Task::Call(call)));
                }
                BatcherMail::Zone(save) => self.take_in(Task::Zone(save)),
                BatcherMail::News(news) => self.news(now, news),
            },
            WorkerAddress::Caller(me) if self.is_companion => match me.open(mail) {
                CallerMail::Job(job) => self.run_on_core(now, *job),
                CallerMail::Call(_) => unreachable!("nobody has a companion do what may take long"),
                CallerMail::News(news) => self.news(now, news),
            },
            WorkerAddress::Caller(me) => match me.open(mail) {
                CallerMail::Job(job) => self.come(now, Task::Job(*job), out),
                CallerMail::Call(call) => self.come(now, Task::Call(*call), out),
                CallerMail::News(news) => self.news(now, news),
            },
            WorkerAddress::Hasher(me) => match me.open(mail) {
                HasherMail::Job(job) => self.queue.push(job.line(), Task::Job(*job)),
                HasherMail::Call(call) => self.queue.push(call.line, Task::Call(*call)),
                HasherMail::News(news) => self.news(now, news),
            },
            WorkerAddress::Events(me) => match me.open(mail) {
                EventsMail::Events(jobs) => self.take_in_events(now, jobs),
                EventsMail::Rule(ask) => self.take_in_rule(*ask),
                EventsMail::News(news) => self.news(now, news),
            },
        }
    }

    fn news(&mut self, now: Now, news: News) {
        match news {
            News::Directory(events) => {
                events.iter().for_each(|event| self.resources.directory.apply(event));
            }
            News::Cache(changes) => changes.iter().for_each(|one| self.resources.cache.apply(one)),
            News::Nodes(topology) => self.nodes_changed(now, topology),
            News::Answer { node, request, outcome } => {
                self.room_answered(now, (node, request), outcome);
            }
            News::Returned(list) => list.into_iter().for_each(|one| self.returned(now, one)),
            News::Fetched(fetched) => self.fetched(now, *fetched),
            News::Guests(new) => self.take_guests(now, *new),
            News::NoGuests => {
                self.has_no_guests = !self.guests.is_ready();
                self.answer_now(now);
            }
        }
        // There may be much of it, and a call before it may have written.
        self.resources.db.rest(false);
    }

    /// Calls begin on a new version of the guest code, or on another instance of the same. What was learnt
    /// of functions was of the version before.
    fn take_guests(&mut self, now: Now, new: NewGuests) {
        let NewGuests { version, scripts, said } = new;
        if !self.guests.wants(version) {
            // Mail that was refused comes late, and meanwhile the next version has come.
            return self.tell_held(Some(Retired::new(scripts)));
        }
        self.resources.say(said);
        if version != self.guests.version() {
            self.left = Left::default();
        }
        let retired = self.guests.take_on(version, scripts);
        self.tell_held(retired);
        self.has_no_guests = false;
        self.answer_now(now);
        self.end_piled_up(now);
    }

    /// Tells the loader which versions this thread holds, and gives it what it holds no more.
    fn tell_held(&mut self, retired: Option<Retired>) {
        let Some(loader) = self.topology.loader else { return };
        if let Some(retired) = retired {
            self.mails.push(loader.seal(&self.topology, LoaderMail::Retired(retired)));
        }
        let older = self.guests.older().map(|(version, calls)| HeldVersion {
            version,
            calls,
            ..HeldVersion::default()
        });
        let (thread, newest) = (self.me.thread(), self.guests.version());
        let holds = Holds { thread, newest, older: older.collect() };
        self.mails.push(loader.seal(&self.topology, LoaderMail::Holds(Box::new(holds))));
    }

    /// A call is over that began on this instance.
    fn call_ended(&mut self, instance: Instance) {
        if let Some(retired) = self.guests.end(instance) {
            self.tell_held(Some(retired));
        }
    }

    fn run(&mut self, now: Now, job: Job) {
        let calls_scripts =
            |work: &Work| !matches!(work, Work::Hooked(hooked) if hooked.step == HookStep::Call);
        if self.is_caller() && !self.guests.is_ready() && calls_scripts(&job.work) {
            return self.run_at_another(job);
        }
        // Of others than callers nobody asks how long they took.
        if matches!(self.me, WorkerAddress::Caller(_)) {
            self.begin_call_time();
        }
        self.used = Used::default();
        let (work, origin) = Origin::of(job);
        let (caller, format) = (origin.caller.as_deref(), origin.format);
        let outcome = match work {
            Work::Api(call) => match self.api(now, &call, caller, format) {
                Err(error) if self.runs_again(&error) => {
                    return self.again.put(Task::Job(origin.job(Work::Api(call))));
                }
                result => Outcome::Api(result),
            },
            Work::FindUsers { ids, usernames } => {
                let found = game::user::users(&mut *self.resources.db, &ids, &usernames);
                let ids = found.map(|users| users.iter().map(|user| user.id).collect());
                Outcome::Users(ids.map_err(|_| ApiError::internal("Could not look up users.")))
            }
            Work::Rpc(call) if matches!(origin.queue, Queue::Batched { .. }) => {
                return self.run_batched(now, origin, call);
            }
            Work::Rpc(call) => return self.rpc(now, origin, call),
            Work::Hooked(hooked) => return self.hook_step(now, origin, *hooked),
            Work::Before(hook) => return self.before_message(now, origin, *hook),
            Work::After(hook) => return self.after_message(now, origin, *hook),
            Work::Shutdown => return self.shutdown(now, origin),
            Work::Reload => unreachable!("no worker loads modules"),
        };
        self.finish(&origin, outcome);
    }

    /// A job is done.
    fn finish(&mut self, origin: &Origin, mut outcome: Outcome) {
        let is_caller = matches!(self.me, WorkerAddress::Caller(_));
        if is_caller && self.commit().is_err() {
            fail(&mut outcome);
        }
        let used = is_caller.then(|| self.used_now(origin.before));
        let to = (origin.queue, origin.address.conn, origin.stream, used);
        self.answer((origin.address.core, origin.group), to, outcome);
    }

    /// A call, or a piece of one, begins.
    fn begin_call_time(&mut self) {
        self.resources.call_clock.begin();
        self.db_waited_us = self.resources.db.waited_us();
    }

    /// What the call of guest code that runs has used, and what it had before. That it waited for
    /// another writer or for the disk does not make it slow: so much others did, maybe on purpose. What it
    /// computed counts at any rate, also what it computed meanwhile.
    fn used_now(&mut self, before: Used) -> Used {
        let CallTime { kept_us, computed_us } = self.resources.call_clock.spent();
        let waited_us = self.resources.db.waited_us().saturating_sub(self.db_waited_us);
        let waited_us = u32::try_from(waited_us).unwrap_or(u32::MAX);
        let kept_us = kept_us.saturating_sub(waited_us).max(computed_us);
        let used = self.used;
        Used {
            time: CallTime {
                kept_us: kept_us.saturating_add(before.time.kept_us),
                computed_us: computed_us.saturating_add(before.time.computed_us),
            },
            database: used.database | before.database,
            writes: used.writes | before.writes,
            needs_caller: used.needs_caller | before.needs_caller,
        }
    }

    /// Keeps an answer until the commit.
    fn answer(
        &mut self,
        (core, group): (Address<CoreMail>, u32),
        (queue, conn, stream, used): (Queue, ConnId, u32, Option<Used>),
        outcome: Outcome,
    ) {
        let done = Done { queue, conn, stream, group, used, outcome };
        match self.done.iter_mut().find(|(to, _)| *to == core) {
            Some((_, list)) => list.push(done),
            None => self.done.push((core, vec![done])),
        }
    }

    fn api(
        &mut self,
        now: Now,
        call: &api::ApiCall,
        caller: Option<&Claims>,
        format: Format,
    ) -> Result<api::Answer, ApiError> {
        self.stats.api_count.up();
        let cx = api::Cx {
            now,
            random: &mut self.resources.random,
            db: &mut *self.resources.db,
            signer: &self.signer,
            directory: &self.resources.directory,
            format,
            answer_bytes_max: self.settings.answers.bytes_max,
            caller,
            effects: Vec::new(),
            session: None,
        };
        let mut result = api::run(cx, call);
        match &mut result {
            Ok(answer) => {
                self.effects.append(&mut answer.effects);
            }
            Err(_) => self.stats.api_errors.up(),
        }
        result
    }

    fn rpc(&mut self, now: Now, origin: Origin, call: Box<RpcJob>) {
        let of = GuestCall::Rpc { id: &call.id, payload: &call.payload };
        let kept = (Some(origin), Then::AnswerRpc);
        match self.begin_anywhere(now, kept, (&call.id, &call.context), of) {
            Some((origin, _)) => self.run_elsewhere(origin, Work::Rpc(call)),
            None => self.stats.rpc_count.up(),
        }
    }

    /// What an RPC function has returned, as its client gets it.
    fn rpc_result(
        &mut self,
        (id, version): Named<'_>,
        result: Result<Returned, ScriptError>,
    ) -> Result<Option<bytes::Bytes>, ScriptError> {
        let is_meant = matches!(&result, Err(error) if hooks::is_meant(error));
        let bytes_max = self.settings.answers.bytes_max;
        let result = result.and_then(|returned| match returned {
            Returned::Rpc(Some(answer)) if answer.len() > bytes_max => {
                Err(answer_too_large(bytes_max))
            }
            Returned::Rpc(answer) => Ok(answer),
            other => unreachable!("an RPC function returned {other:?}"),
        });
        if let Err(error) = &result {
            self.stats.rpc_errors.up();
            match error.kind {
                ScriptFailure::OutOfTime => self.stats.rpc_out_of_time.up(),
                ScriptFailure::OutOfMemory => self.stats.rpc_out_of_memory.up(),
                ScriptFailure::Raised
                | ScriptFailure::NotFound
                | ScriptFailure::Cancelled
                | ScriptFailure::Shed => {}
            }
            // Where it is from is looked for only if that is logged: who refuses may do so often.
            if is_meant {
                tracing::debug!(
                    id,
                    location = self.place("rpc", id, error),
                    version = version.0,
                    "rpc answered: {error}"
                );
            } else if error.kind != ScriptFailure::NotFound
                && let Some(location) = self.failed("rpc", (id, version), error)
            {
                tracing::warn!(id, location, version = version.0, "rpc failed: {error}");
            }
        }
        result
    }

    /// One commit for all jobs of the batch, and the disk has it. If it fails, none of them has
    /// happened.
    fn finish_batch(&mut self, now: Now) {
        let committed = self.commit();
        let grouped = self.resources.db.commit_group();
        if grouped.is_err() {
            self.stats.db_commit_errors.up();
        }
        if committed.is_err() || grouped.is_err() {
            self.lose_batch();
            self.ask_nobody(now);
        }
        self.waits_since_ns = None;
        self.resources.db.sync();
    }

    /// Whether answers that wait for the disk are to leave before another call runs: one that may be slow, or
    /// any once they have waited for [`PARKED_NS_MAX`].
    fn is_release_due(&self, now: Now, may_be_slow: bool) -> bool {
        let waits_ns = |since_ns| now.mono_ns.saturating_sub(since_ns);
        let is_due = |since_ns| may_be_slow || waits_ns(since_ns) >= PARKED_NS_MAX;
        self.waits_since_ns.is_some_and(is_due)
    }

    /// A caller's job is done, or a piece of one. Its answer leaves now, not after the jobs behind it, unless it
    /// has written, or seen what is not on the disk yet: then it waits for the disk with those of the
    /// next calls. The core is woken, or else it looks by itself, or is woken at the end of the turn.
    fn finish_call(&mut self, now: Now, wake: bool, out: &mut Output<Mail>) {
        self.resources.db.rest(false);
        if self.resources.db.is_synced() {
            self.finish_batch(now);
            self.post(now, out, wake);
        } else {
            self.waits_since_ns.get_or_insert(now.mono_ns);
        }
    }

    fn commit(&mut self) -> Result<(), DbError> {
        let jobs = std::mem::take(&mut self.jobs_in_batch);
        if self.resources.db.in_transaction() {
            self.stats.db_commits.up();
            self.stats.db_commits_saved.add(jobs.saturating_sub(1));
            // Why is in the log already: the database says it, once a second.
            self.resources.db.commit().inspect_err(|_| {
                self.effects.clear();
                self.stats.db_commit_errors.up();
            })?;
        } else {
            let _ = self.resources.db.end_reading();
        }
        // They show when the answers leave.
        for effect in self.effects.drain(..) {
            let resources = &mut self.resources;
            match effect {
                Effect::Revoke(revocation) => {
                    resources.session_changes.revocations.push(revocation);
                }
                Effect::Disconnect { user_id, cause } => {
                    resources.session_changes.users.push((user_id, cause));
                }
                Effect::Notify(sent) => resources.notify(sent),
                Effect::Event(job) => resources.event(*job),
            }
        }
        Ok(())
    }

    /// Nothing of what is to be answered has happened.
    fn lose_batch(&mut self) {
        self.effects.clear();
        self.resources.say_nothing();
        self.done.iter_mut().flat_map(|(_, list)| list).for_each(|done| fail(&mut done.outcome));
        self.zone_saved.iter_mut().for_each(|(.., is_kept)| *is_kept = false);
        self.lose_rules();
        let returned = self.returned.iter_mut().flat_map(|(_, list)| list);
        returned.for_each(|returned| returned.result = Err(HostError::new(DATABASE_ERROR)));
    }

    /// What the replicas hold. They are alike on all threads, so one tells of them.
    fn tell_replicas(&self) {
        if !matches!(self.me, WorkerAddress::Batcher(_)) {
            return;
        }
        let (stats, cache, directory) =
            (&self.stats, &self.resources.cache, &self.resources.directory);
        stats.localcache_entries.set(cache.len() as u64);
        stats.localcache_bytes.set(cache.bytes() as u64);
        stats.localcache_evicted.set(cache.evicted_count());
        stats.directory_matches.set(directory.len() as u64);
        stats.directory_online_sessions.set(directory.online_sessions_count() as u64);
        let counters = directory.counters();
        stats.directory_matches_refused.set(counters.matches_refused_count);
        stats.directory_online_refused.set(counters.online_refused_count);
        stats.directory_events_stale.set(counters.events_stale_count);
        stats.directory_label_values_skipped.set(counters.label_values_skipped_count);
    }

    fn post(&mut self, now: Now, out: &mut Output<Mail>, wake: bool) {
        self.resources.post_cache(self.me.thread(), &self.topology, out);
        self.stats.script_log_dropped.set(self.resources.script_log.dropped_count);
        self.stats.match_creates_refused.set(self.resources.refused.creates);
        self.stats.cut_offs_refused.set(self.resources.refused.cut_offs);
        self.stats.localcache_refused.set(self.resources.cache.refused_count());
        self.stats.notifications_refused.set(self.resources.refused.notifications);
        self.stats.stream_calls_refused.set(self.resources.refused.streams);
        self.stats.notifications_forgotten.set(self.resources.notifications_forgotten);
        self.stats.dropped_events.set(self.resources.refused.events + self.events.dropped_count());
        self.resources.post_session_changes(&self.topology, out);
        match self.resources.take_events(&self.topology) {
            Some((to, jobs)) if self.me == WorkerAddress::Events(to) => {
                self.take_in_events(now, jobs);
            }
            Some((to, jobs)) => out.post(&self.topology, to, EventsMail::Events(jobs)),
            None => {}
        }
        for (room, sent) in self.resources.take_notices(&self.topology) {
            out.post(&self.topology, room, RoomMail::Notify(sent));
        }
        for (room, streams) in self.resources.take_streams(&self.topology) {
            out.post(&self.topology, room, RoomMail::Streams(streams));
        }
        for (home, write, is_kept) in self.zone_saved.drain(..) {
            let room = self.topology.rooms[usize::from(home)];
            out.post(&self.topology, room, RoomMail::Zone(ZoneMail::Saved { write, is_kept }));
        }
        for (home, mail) in self.ruled.drain(..) {
            let room = self.topology.rooms[usize::from(home)];
            out.post(&self.topology, room, RoomMail::Zone(mail));
        }
        // Behind what calls wanted of streams before they asked.
        for (to, mail) in self.mails.drain(..) {
            out.mail(to, mail);
        }
        self.ask(out);
        for (asker, list) in self.returned.drain(..) {
            let (to, mail) = asker.seal(&self.topology, list);
            out.mail(to, mail);
        }
        for (core, list) in self.done.drain(..) {
            if wake {
                out.post(&self.topology, core, CoreMail::Done(list));
            } else {
                out.post_lazy(&self.topology, core, CoreMail::Done(list));
                if !self.to_wake.contains(&core) {
                    self.to_wake.push(core);
                }
            }
        }
        self.retries.hold_back(now, out, &self.stats.dropped_mail);
    }
}

impl Handler for Worker {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        self.resources.script_log.turn(now);
        match input {
            Input::Mail(mail) => self.mail(now, mail, out),
            Input::TurnEnd => {
                let goes_on = self.run_answered(now, out);
                self.run_waiting(now);
                if goes_on {
                    return out.wake_at(Some(now.mono_ns));
                }
                self.finish_batch(now);
                self.post(now, out, true);
                self.tell_replicas();
                for core in self.to_wake.drain(..) {
                    out.post(&self.topology, core, CoreMail::WakeUp);
                }
                let more = self.has_more().then_some(now.mono_ns);
                let next = [more, self.retries.due_ns(), self.waiting.due_ns()];
                out.wake_at(next.into_iter().flatten().min());
            }
            Input::Wake => {
                self.retries.post_due(now, out);
                self.expire(now);
            }
            // Sessions wait for answers, and replicas for news.
            Input::Refused { to, mail } => {
                let counters = (&self.stats.refused_mail, &self.stats.dropped_mail);
                self.retries.given_back(now, (to, mail), counters, &mut self.limit_log);
            }
            Input::Stop => {
                self.cancel_all();
                out.stop();
            }
            // A worker has no sockets.
            event::of_sockets!() => {}
        }
    }
}

/// What is said when the database did not keep what a call has done.
const DATABASE_ERROR: &str = "database error";

/// What is answered when the database did not keep what a call has done.
fn fail(outcome: &mut Outcome) {
    let text = DATABASE_ERROR;
    match outcome {
        Outcome::Api(_) | Outcome::Next(_) => {
            *outcome = Outcome::Api(Err(ApiError::internal(text)));
        }
        Outcome::Users(result) => *result = Err(ApiError::internal(text)),
        Outcome::Rpc(result) => *result = Err(script_error(Code::Internal, text)),
        Outcome::Before(result) => *result = Err(script_error(Code::Internal, text)),
        // Nobody is answered.
        Outcome::Waits | Outcome::After | Outcome::Shutdown => {}
        // It has not happened anyway.
        Outcome::NeedsCaller(_) | Outcome::Crowded(_) => {}
    }
}

/// What is said of a function that answers with more than a client may get at once.
fn answer_too_large(bytes_max: usize) -> ScriptError {
    let error = ApiError::answer_too_large(bytes_max);
    script_error(error.code, &error.message)
}

/// An error of the server's in a script's place.
fn script_error(code: Code, message: &str) -> ScriptError {
    ScriptError {
        code: u8::try_from(code.number()).unwrap_or(13),
        message: message.to_owned(),
        location: String::new(),
        kind: ScriptFailure::Raised,
    }
}
