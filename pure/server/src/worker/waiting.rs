//! Calls of guest code: begun, kept while they wait for somebody else, gone on with when the answer
//! comes, ended. While one waits, its thread runs others, and its core counts it as no call of the
//! thread's any more ([`Outcome::Waits`]). What has been
//! answered goes on at the end of the turn: one piece of a user, then one of the next, for some milliseconds
//! or for one piece that takes longer; on a caller one piece in a turn, and jobs that have come have their turns
//! between (`turns`). So pieces as long as their budget do not stand in a row before a neighbour's call.
//!
//! ```text
//! begin ─▶ step ─▶ Done ──▶ `hooks`: what is to be done with what was returned
//!            ▲└──▶ Waits ─▶ a question to a room, a function for a worker, a request to another server:
//!            │                   │   asked when what the call wrote is on the disk
//!            └──── News ◀────────┘   or nothing for as long as questions wait, or calls at all
//! ```
//!
//! Each question has a number of its own, so that an answer that comes too late is nobody's. How many
//! calls may wait, in all and of one user, and for how long, are settings; who is refused sees an error
//! in the script. Not here: what rooms do (`room`), and how a language keeps a call (`edge/script`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{Now, Output, ThreadId};
use game::error::Code;
use game::events::Cause;
use game::fetch::{FetchPayer, FetchRequest, Principal};
use game::guest::{
    Answer, Ask, CallContext, CallId, GuestCall, HostError, Reply, Returned, ScriptError,
    ScriptFailure, Scripts, Step,
};
use game::match_id::MatchId;
use game::node::NodeId;
use game::session::Claims;
use game::stream::Payer;

use super::Worker;
use super::batched::Slice;
use super::hooks::Then;
use super::host::{WorkerHost, payer};
use super::spent::Unanswered;
use crate::counts::one_less;
use crate::fair::FairQueue;
use crate::guests::Instance;
use crate::mail::{
    AWAY, Address, Asker, CoreMail, Fetched, Format, HostCall, HostReturn, Job, Line, Mail,
    NewMatch, Outcome, Queue, RoomAnswer, RoomError, RoomMail, SessionAddress, SessionChanges,
    StreamMail, Topology, Used, Waiter, Work, WorkerAddress,
};
use crate::question::Question;
use crate::resources::{Resources, Spent};
use crate::settings::Settings;

/// For so long a turn goes on with calls that have been answered, milliseconds: as long as answers wait for
/// one another. One more piece may begin within it.
pub(super) const PIECES_MS_MAX: u64 = 2;

/// This part of the places is kept for users and addresses of whom no call waits on this thread.
const KEPT_PART: usize = 8;

/// Whose call it is and where its answer goes: a [`Job`] without its work.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) queue: Queue,
    pub(super) address: SessionAddress,
    pub(super) stream: u32,
    pub(super) format: Format,
    pub(super) caller: Option<Arc<Claims>>,
    pub(super) group: u32,
    pub(super) client: u128,
    /// What its guest has used in pieces that are over and that its core has not heard of.
    pub(super) before: Used,
}

impl Origin {
    pub(super) fn of(job: Job) -> (Work, Self) {
        let Job { queue, address, stream, format, work, caller, group, client } = job;
        let before = Used::default();
        (work, Self { queue, address, stream, format, caller, group, client, before })
    }

    pub(super) fn job(self, work: Work) -> Job {
        let Self { queue, address, stream, format, caller, group, client, .. } = self;
        Job { queue, address, stream, format, work, caller, group, client }
    }

    /// A job for the same one.
    pub(super) fn again(&self, work: Work) -> Job {
        let Self { queue, address, stream, format, group, client, .. } = *self;
        let caller = self.caller.clone();
        Job { queue, address, stream, format, work, caller, group, client }
    }

    pub(super) fn line(&self) -> Line {
        (self.address.core.thread(), self.group)
    }
}

/// A call of guest code under way.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) id: CallId,
    /// On which it began, and ends.
    pub(super) instance: Instance,
    /// Nobody waits for an event's handler.
    pub(super) origin: Option<Origin>,
    /// What is to be done when it is over.
    pub(super) then: Then,
    /// What it has had of what is counted by the call.
    spent: Spent,
    /// Who pays for what it asks of other servers, and for the memory that it holds while it waits.
    pub(super) payer: FetchPayer,
    /// Of `runtime.call_wait_max_ms`, what is left.
    wait_left_ms: u64,
    /// Which host it asked last over HTTP, for the log.
    asked_host: String,
    /// Where it runs in the batch, what it has there.
    pub(super) slice: Option<Slice>,
    /// How many slices of a core it has had.
    pub(super) slices: u32,
    /// Whether it has used up a memory that is made anew.
    pub(super) has_spent: bool,
    /// Whether it has besides changed nothing that outlives that.
    pub(super) may_begin_again: bool,
    /// What it is called, for logs.
    pub(super) name: String,
}

/// A question that nobody has been asked yet.
#[derive(Debug)]
enum Unasked {
    Room((ThreadId, Mail)),
    Run(HostCall),
    Fetch(FetchPayer, Box<FetchRequest>),
}

/// A call that waits.
#[derive(Debug)]
struct Waiting {
    guest: Guest,
    question: Question,
    since: Now,
    due: Now,
}

/// The calls of one thread that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingCalls {
    /// By the number of their question.
    calls: BTreeMap<u64, Waiting>,
    due: BTreeSet<(u64, u64)>,
    /// How many of each user or address, handlers of events that are about a user included.
    of_payer: BTreeMap<Principal, u32>,
    /// How many of each address for which limits of addresses hold, whoever calls from there.
    of_client: BTreeMap<u128, u32>,
    /// Numbers of questions, and of calls.
    last_question: u64,
    last_call: u64,
    /// Questions of this turn, by their numbers.
    unasked: Vec<(u64, Unasked)>,
    /// Calls to go on with, and what with; who pays for them take turns.
    answered: FairQueue<Principal, (Guest, Answer)>,
}

impl WaitingCalls {
    /// Whether calls are to be gone on with at once.
    pub(super) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// When the next one has waited long enough, nanoseconds.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.due.first().map(|(due_ns, _)| *due_ns)
    }

    /// The calls of this instance that wait, by the numbers of their questions, the oldest first.
    pub(super) fn of_instance(&self, of: Instance) -> impl Iterator<Item = (u64, &Guest)> {
        let calls = self.calls.iter().map(|(number, waiting)| (*number, &waiting.guest));
        calls.filter(move |(_, guest)| guest.instance == of)
    }

    /// Those of it that have been answered and wait for their turn to go on.
    pub(super) fn answered_of(&self, of: Instance) -> impl Iterator<Item = &Guest> {
        self.answered.iter().map(|(guest, _)| guest).filter(move |guest| guest.instance == of)
    }

    /// What the call that waits for this question is called.
    pub(super) fn name(&self, number: u64) -> Option<&str> {
        self.calls.get(&number).map(|waiting| &*waiting.guest.name)
    }

    fn put(&mut self, number: u64, waiting: Waiting) {
        let FetchPayer { principal, client } = waiting.guest.payer;
        *self.of_payer.entry(principal).or_default() += 1;
        if let Some(client) = client {
            *self.of_client.entry(client).or_default() += 1;
        }
        self.due.insert((waiting.due.mono_ns, number));
        let other = self.calls.insert(number, waiting);
        assert!(other.is_none(), "two calls wait for question {number}");
    }

    fn take(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.calls.remove(&number)?;
        let was_due = self.due.remove(&(waiting.due.mono_ns, number));
        assert!(was_due, "question {number} has no deadline");
        let FetchPayer { principal, client } = waiting.guest.payer;
        let was_counted = one_less(&mut self.of_payer, &principal)
            && client.is_none_or(|client| one_less(&mut self.of_client, &client));
        assert!(was_counted, "question {number} was not counted");
        Some(waiting)
    }

    /// A call has been answered, or will not be.
    fn answer(&mut self, guest: Guest, answer: Answer) {
        self.answered.push(guest.payer.principal, (guest, answer));
    }

    /// How many have a place: they wait, or for their turn to go on.
    fn places(&self) -> usize {
        self.calls.len() + self.answered.len()
    }

    /// The same of one user or address.
    fn places_of(&self, payer: Principal) -> usize {
        let waiting = self.of_payer.get(&payer).copied().unwrap_or(0);
        waiting as usize + self.answered.len_of(payer)
    }

    /// Whether neither this user or address has a place, nor a call that waits another user of its address.
    fn is_new(&self, payer: FetchPayer) -> bool {
        let has_none = |client| !self.of_client.contains_key(&client);
        self.places_of(payer.principal) == 0 && payer.client.is_none_or(has_none)
    }
}

impl Worker {
    /// Begins a call of guest code that no core runs, and that ends where it began.
    pub(super) fn begin(
        &mut self,
        now: Now,
        kept: (Option<Origin>, Then),
        named: (&str, &CallContext),
        call: GuestCall<'_>,
    ) {
        assert!(!self.is_companion, "a core is to run what none may");
        let (guest, step) = self.first_piece(now, kept, named, call);
        self.step(now, guest, step);
    }

    /// Begins a call of guest code. One on a core, or at a caller whose memory others have taken, that in its first piece
    /// meets the end of that is given back, with nothing of it done, to be run by a caller ([`Worker::run_elsewhere`]).
    #[must_use]
    pub(super) fn begin_anywhere(
        &mut self,
        now: Now,
        kept: (Option<Origin>, Then),
        named: (&str, &CallContext),
        call: GuestCall<'_>,
    ) -> Option<(Origin, Then)> {
        let told = self.resources.told();
        let (guest, step) = self.first_piece(now, kept, named, call);
        if guest.begins_again(&step) {
            if self.is_companion {
                self.note_overrun(now, &guest);
            }
            self.resources.untell(told);
            self.call_ended(guest.instance);
            return guest.origin.map(|origin| (origin, guest.then));
        }
        self.step(now, guest, step);
        None
    }

    fn first_piece(
        &mut self,
        now: Now,
        (origin, then): (Option<Origin>, Then),
        (name, context): (&str, &CallContext),
        call: GuestCall<'_>,
    ) -> (Guest, Step<Returned>) {
        let mut guest = self.guest(origin, then, (name, context));
        let id = guest.id;
        let step =
            self.piece(now, &mut guest, |scripts, host| scripts.call(host, id, context, call));
        (guest, step)
    }

    /// A call that is about to begin.
    pub(super) fn guest(
        &mut self,
        origin: Option<Origin>,
        then: Then,
        (name, context): (&str, &CallContext),
    ) -> Guest {
        self.waiting.last_call += 1;
        let id = CallId(self.waiting.last_call);
        let wait_left_ms = u64::from(self.settings.runtime.call_wait_max_ms);
        let of = Payer {
            user_id: context.user_id,
            node: self.topology.nodes.here(),
            thread: self.me.thread().0,
            call: id.0,
            is_match: false,
        };
        let payer = payer(&self.settings, context, origin.as_ref());
        let cause = match then {
            Then::Event(Some(cause)) => cause,
            // Without a user an RPC has the HTTP key, which is the operator's.
            Then::AnswerRpc if context.user_id.is_none() => Cause::default(),
            _ => Cause { payer, ancestor: None },
        };
        let spent = Spent::of(of, cause);
        let name = name.to_owned();
        let instance = self.guests.begin();
        let asked_host = String::new();
        Guest {
            id,
            instance,
            origin,
            then,
            spent,
            payer,
            wait_left_ms,
            asked_host,
            slice: None,
            slices: 0,
            has_spent: false,
            may_begin_again: false,
            name,
        }
    }

    /// Lends the scripts what they may ask for, for a piece of a call.
    pub(super) fn piece(
        &mut self,
        now: Now,
        guest: &mut Guest,
        run: impl FnOnce(&mut dyn Scripts, &mut WorkerHost<'_>) -> Step<Returned>,
    ) -> Step<Returned> {
        self.resources.guest_version = guest.instance.version;
        let (resources, spent) = (&mut self.resources, &mut guest.spent);
        let (used, slice) = (&mut self.used, guest.slice.as_mut());
        let is_batched = slice.is_some();
        let payer = guest.payer.principal;
        let mut host = WorkerHost { now, payer, resources, spent, used, slice };
        let step = run(self.guests.of(guest.instance), &mut host);
        if !is_batched && self.resources.db.in_transaction() {
            // Cannot be: host functions close their own. Left open it would lock everybody out.
            let (name, version) = (&guest.name, guest.instance.version.0);
            tracing::error!(name, version, "a script left a transaction open; it was rolled back");
            let _ = self.resources.db.rollback();
        }
        self.clear_up(now, guest);
        step
    }

    /// A piece of a call has run: it is over, or it waits.
    fn step(&mut self, now: Now, mut guest: Guest, mut step: Step<Returned>) {
        loop {
            let ask = match step {
                Step::Done(result) => {
                    if self.is_companion {
                        self.note_overrun(now, &guest);
                    }
                    if guest.has_spent && self.is_caller() {
                        return self.answer_later(now, guest, result);
                    }
                    return self.ended(guest, result);
                }
                Step::Waits(ask) => ask,
                Step::Paused => return self.pause(guest),
            };
            let answer = match self.question(&mut guest, ask) {
                Ok(asked) => return self.park(now, guest, asked),
                Err(refusal) => Err(refusal),
            };
            let id = guest.id;
            step = self.piece(now, &mut guest, |scripts, host| scripts.resume(host, id, answer));
        }
    }

    /// Makes a question of what a call asks, if one more may wait.
    fn question(&mut self, guest: &mut Guest, ask: Ask) -> Result<(u64, Question), HostError> {
        self.check_places(guest)?;
        let number = self.waiting.last_question + 1;
        let (me, topology, resources) = (self.me, &self.topology, &mut self.resources);
        let (question, unasked) = match ask {
            Ask::Run { function, values, allowance } => {
                let Some(function) = game::host::find(function) else {
                    return Err(HostError::new(format!("no function {function}")));
                };
                let line = guest.origin.as_ref().map_or((me.thread(), 0), Origin::line);
                let (from, spent) = (Asker::Worker(me), guest.spent);
                let call = HostCall { from, number, line, function, values, allowance, spent };
                (Question::Run, Unasked::Run(call))
            }
            Ask::Fetch(request) => {
                resources.network()?;
                request.host().clone_into(&mut guest.asked_host);
                (Question::Fetch, Unasked::Fetch(guest.payer, request))
            }
            ask => {
                let from = Waiter { who: Asker::Worker(me), request: number };
                let spent = &mut guest.spent;
                let (question, mail) =
                    room_question(from, topology, &self.settings, resources, spent, ask)?;
                (question, Unasked::Room(mail))
            }
        };
        self.waiting.last_question = number;
        self.waiting.unasked.push((number, unasked));
        Ok((number, question))
    }

    /// Whether one more call may wait here, and one more of this user.
    fn check_places(&mut self, guest: &Guest) -> Result<(), HostError> {
        let (all_max, of_one_max) =
            (self.settings.runtime.waiting_calls_max, self.settings.runtime.waiting_calls_per_user);
        if self.waiting.places() >= all_max {
            self.stats.waiting_calls_refused.up();
            return Err(HostError::new(format!(
                "{all_max} calls of this thread wait already (runtime.waiting_calls_max)"
            )));
        }
        let kept = all_max / KEPT_PART;
        let open = all_max - kept;
        if self.waiting.places() >= open && !self.waiting.is_new(guest.payer) {
            self.stats.waiting_calls_refused.up();
            return Err(HostError::new(format!(
                "{open} calls of this thread wait already, and {kept} places are kept for users and \
                 addresses of whom none waits (runtime.waiting_calls_max {all_max})"
            )));
        }
        let payer = guest.payer.principal;
        let is_one = payer != Principal::Server;
        if is_one && self.waiting.places_of(payer) >= of_one_max as usize {
            self.stats.waiting_calls_refused.up();
            return Err(HostError::new(format!(
                "{of_one_max} calls of this user or address wait already (runtime.waiting_calls_per_user)"
            )));
        }
        Ok(())
    }

    /// Keeps a call until it is answered. Its core hears, once, that its thread is free for others.
    fn park(&mut self, now: Now, mut guest: Guest, (number, question): (u64, Question)) {
        // What it takes to find that out is this call's.
        let (instance, excess_bytes) = (guest.instance, self.excess_bytes(guest.instance));
        self.leave_place(&mut guest);
        let due = question.due(now, now.after_ms(guest.wait_left_ms));
        self.waiting.put(number, Waiting { guest, question, since: now, due });
        self.stats.calls_suspended.up();
        self.stats.calls_waiting_now.set(self.waiting.len() as u64);
        if excess_bytes > 0 {
            self.make_room(now, instance, excess_bytes);
        }
    }

    /// Tells the core, once, that a call keeps nobody waiting where it is; or notes what it has used so far.
    pub(super) fn leave_place(&mut self, guest: &mut Guest) {
        let Some(origin) = &mut guest.origin else { return };
        match origin.queue {
            Queue::Caller { function, .. } | Queue::Companion { function } => {
                let keeps = matches!(origin.queue, Queue::Caller { keeps: true, .. });
                // The rest is told at the end.
                let before = std::mem::take(&mut origin.before);
                let used = Some(Used { needs_caller: true, ..self.used_now(before) });
                let to = (origin.queue, origin.address.conn, origin.stream, used);
                let line = (origin.address.core, origin.group);
                origin.queue = Queue::Waiting { function, keeps };
                self.answer(line, to, Outcome::Waits);
            }
            // Between two waits it computes, too.
            Queue::Waiting { .. } => origin.before = self.used_now(origin.before),
            Queue::Batcher
            | Queue::Batched { .. }
            | Queue::Hasher
            | Queue::Lister
            | Queue::Loader => {}
        }
    }

    /// Asks what calls wait for. What they wrote before is on the disk.
    pub(super) fn ask(&mut self, out: &mut Output<Mail>) {
        let mut calls = Vec::new();
        for (number, unasked) in std::mem::take(&mut self.waiting.unasked) {
            match unasked {
                Unasked::Room((to, mail)) => out.mail(to, mail),
                Unasked::Run(call) => calls.push(call),
                Unasked::Fetch(payer, request) => {
                    self.resources.start_fetch(number, payer, *request);
                }
            }
        }
        for (to, mail) in self.topology.seal_calls(calls) {
            out.mail(to, mail);
        }
    }

    /// A room has answered.
    pub(super) fn room_answered(
        &mut self,
        now: Now,
        (node, number): (NodeId, u64),
        outcome: Result<RoomAnswer, RoomError>,
    ) {
        let nodes = (self.topology.nodes.here(), node);
        let takes = |waiting: &Waiting| waiting.question.takes(nodes, &outcome);
        let is_awaited = self.waiting.calls.get(&number).is_some_and(takes);
        let Some(waiting) = is_awaited.then(|| self.unpark(now, number)).flatten() else {
            // Too late: the question was given up. Or it was not asked there, whatever another node says.
            return self.stats.late_answers.up();
        };
        let Waiting { guest, question, .. } = waiting;
        if outcome.as_ref().is_err_and(RoomError::leaves_question) {
            self.take_back(number, question);
        }
        self.waiting.answer(guest, question.answer(outcome));
    }

    /// Another thread has run a function.
    pub(super) fn returned(&mut self, now: Now, returned: HostReturn) {
        let HostReturn { number, result, steps, spent } = returned;
        let Some(Waiting { mut guest, question, .. }) = self.unpark(now, number) else {
            return self.stats.late_answers.up();
        };
        assert_eq!(question, Question::Run, "a thread has run what it was not asked");
        guest.spent = spent;
        self.waiting.answer(guest, result.map(|returns| Reply::Returns { returns, steps }));
    }

    /// Another server has answered, or has not.
    pub(super) fn fetched(&mut self, now: Now, Fetched { number, result }: Fetched) {
        let Some(Waiting { guest, question, .. }) = self.unpark(now, number) else {
            return self.stats.late_answers.up();
        };
        assert_eq!(question, Question::Fetch, "a server has answered what it was not asked");
        self.waiting.answer(guest, Reply::fetched(result));
    }

    /// Takes out a call that waits no more, and counts for how long it did.
    fn unpark(&mut self, now: Now, number: u64) -> Option<Waiting> {
        let mut waiting = self.waiting.take(number)?;
        self.stats.calls_waiting_now.set(self.waiting.len() as u64);
        let waited_ms = now.ms_since(waiting.since);
        waiting.guest.wait_left_ms = waiting.guest.wait_left_ms.saturating_sub(waited_ms);
        Some(waiting)
    }

    /// Runs the next piece of a call: with the answer that it waits for, or, if it is paused, without one.
    pub(super) fn go_on(&mut self, now: Now, mut guest: Guest, answer: Option<Answer>) {
        let queue = guest.origin.as_ref().map(|origin| origin.queue);
        // Of a companion's calls one that has been spared.
        if matches!(queue, Some(Queue::Waiting { .. } | Queue::Companion { .. })) {
            self.begin_call_time();
        }
        self.used = Used::default();
        let id = guest.id;
        let step = self.piece(now, &mut guest, |scripts, host| match answer {
            Some(answer) => scripts.resume(host, id, answer),
            None => scripts.go_on(host, id),
        });
        self.step(now, guest, step);
    }

    /// Goes on with calls that have been answered, who pays for them in turns, until others are to have the
    /// thread; on a caller in turns with jobs. Gives whether the turn goes on in the next one.
    pub(super) fn run_answered(&mut self, now: Now, out: &mut Output<Mail>) -> bool {
        if self.is_caller() {
            return self.run_in_turns(now, out);
        }
        let began_ms = (self.resources.unix_ms)();
        while self.run_next_answered(now) {
            if (self.resources.unix_ms)().saturating_sub(began_ms) >= PIECES_MS_MAX {
                break;
            }
        }
        false
    }

    /// Goes on with the next one, if there is one.
    pub(super) fn run_next_answered(&mut self, now: Now) -> bool {
        let Some((guest, answer)) = self.waiting.answered.pop() else { return false };
        self.go_on(now, guest, Some(answer));
        true
    }

    /// What calls have written is not committed: their questions are not asked, and they end. They were
    /// told that it is written, so that they could still say so.
    pub(super) fn ask_nobody(&mut self, now: Now) {
        for (number, _) in std::mem::take(&mut self.waiting.unasked) {
            if let Some(Waiting { guest, .. }) = self.unpark(now, number) {
                self.cancel(now, guest, super::script_error(Code::Internal, super::DATABASE_ERROR));
            }
        }
    }

    /// Other nodes live from now on: who waits for an answer of one that has gone is told so.
    pub(super) fn nodes_changed(&mut self, now: Now, topology: Arc<Topology>) {
        let before = std::mem::replace(&mut self.topology, topology);
        let topology = Arc::clone(&self.topology);
        self.resources.nodes_changed(&topology.nodes);
        if before.nodes.living().all(|node| topology.nodes.is_living(node)) {
            return;
        }
        self.rereads_revoked = matches!(self.me, WorkerAddress::Batcher(_));
        let waiting = self.waiting.calls.iter();
        let lost = waiting.filter_map(|(number, waiting)| {
            Some((*number, waiting.question.lost(&topology.nodes)?))
        });
        for (number, why) in lost.collect::<Vec<_>>() {
            if let Some(Waiting { guest, question, .. }) = self.unpark(now, number) {
                self.waiting.answer(guest, question.answer(Err(why)));
            }
        }
    }

    /// What a node that is gone has revoked, and acknowledged, it may have told nobody: the database knows.
    pub(super) fn reread_revoked(&mut self) {
        if !self.rereads_revoked {
            return;
        }
        match game::session::stored::all(&mut *self.resources.db) {
            Ok(revocations) => {
                self.rereads_revoked = false;
                let session_changes =
                    Arc::new(SessionChanges { revocations, ..SessionChanges::default() });
                let topology = &self.topology;
                let seal = |core: &Address<CoreMail>| {
                    core.seal(topology, CoreMail::Sessions(Arc::clone(&session_changes)))
                };
                self.mails.extend(topology.cores.iter().map(seal));
            }
            // It is tried again in the next turn.
            Err(error) => tracing::error!("cannot read which tokens are revoked: {error}"),
        }
    }

    /// Ends what has waited for too long: the question, or with `runtime.call_wait_max_ms` the call.
    pub(super) fn expire(&mut self, now: Now) {
        while let Some(&(due_ns, number)) = self.waiting.due.first()
            && due_ns <= now.mono_ns
            && let Some(Waiting { guest, question, .. }) = self.unpark(now, number)
        {
            self.take_back(number, question);
            if guest.wait_left_ms > 0 {
                self.waiting.answer(guest, question.answer(Err(RoomError::Silent)));
            } else {
                self.stats.calls_waited_too_long.up();
                let wait_max_ms = self.settings.runtime.call_wait_max_ms;
                let message = format!(
                    "waited for {wait_max_ms} ms, at last for {} (runtime.call_wait_max_ms)",
                    question.what()
                );
                let location = self.waits_at(&guest, question);
                let (code, kind) = (4, ScriptFailure::Cancelled);
                self.cancel(now, guest, ScriptError { code, message, location, kind });
            }
        }
    }

    /// Where a call waits, for the log alone: `file:line`, and which host it asks.
    fn waits_at(&mut self, guest: &Guest, question: Question) -> String {
        let place = self.guests.of(guest.instance).location(guest.id);
        match question {
            Question::Fetch => {
                format!("{place} (asks {})", guest.asked_host).trim_start().to_owned()
            }
            _ => place,
        }
    }

    /// Ends a call that waits for this question, with an error; nobody is to answer it.
    pub(super) fn end_waiting(&mut self, now: Now, number: u64, error: ScriptError) {
        let Some(Waiting { guest, question, .. }) = self.unpark(now, number) else { return };
        let unasked = self.waiting.unasked.len();
        self.waiting.unasked.retain(|(unasked, _)| *unasked != number);
        // Of what nobody was asked there is nothing to take back.
        if self.waiting.unasked.len() == unasked {
            self.take_back(number, question);
        }
        self.cancel(now, guest, error);
    }

    /// Nobody will take up the answer to a question.
    fn take_back(&mut self, number: u64, question: Question) {
        if question == Question::Fetch {
            self.waiting.unasked.retain(|(unasked, _)| *unasked != number);
            self.resources.cancel_fetch(number);
        }
        let from = Waiter { who: Asker::Worker(self.me), request: number };
        self.mails.extend(question.take_back(from, &self.topology));
    }

    /// Ends a call that waits, with an error.
    fn cancel(&mut self, now: Now, mut guest: Guest, error: ScriptError) {
        self.begin_call_time();
        self.used = Used::default();
        self.guests.of(guest.instance).cancel(guest.id);
        self.clear_up(now, &mut guest);
        self.ended(guest, Err(error));
    }

    /// A call is over: what is left of its job is done, and answered.
    pub(super) fn ended(&mut self, guest: Guest, result: Result<Returned, ScriptError>) {
        let Guest { instance, origin, then, name, .. } = guest;
        self.call_ended(instance);
        self.then((origin, (&name, instance.version)), then, result);
    }

    /// Ends all calls that wait, because the thread does.
    pub(super) fn cancel_all(&mut self) {
        for (number, waiting) in std::mem::take(&mut self.waiting.calls) {
            let Guest { id, instance, name, .. } = waiting.guest;
            self.guests.of(instance).cancel(id);
            if waiting.question == Question::Fetch {
                self.resources.cancel_fetch(number);
            }
            let version = instance.version.0;
            tracing::warn!(name, version, "a call that waited is cancelled: the server stops");
        }
        let answered = std::iter::from_fn(|| self.waiting.answered.pop()).map(|(guest, _)| guest);
        let paused = std::mem::take(&mut self.paused).into_iter();
        if let Some(Unanswered { guest, .. }) = self.unanswered.take() {
            let version = guest.instance.version.0;
            tracing::warn!(guest.name, version, "a call is not answered: the server stops");
        }
        for Guest { id, instance, name, .. } in paused.chain(answered) {
            self.guests.of(instance).cancel(id);
            let version = instance.version.0;
            tracing::warn!(name, version, "a call that waited is cancelled: the server stops");
        }
        self.waiting.due.clear();
        self.waiting.of_payer.clear();
        self.waiting.of_client.clear();
        self.waiting.unasked.clear();
    }
}

/// Makes a question to a room of what a call asks.
fn room_question(
    from: Waiter,
    topology: &Topology,
    settings: &Settings,
    resources: &mut Resources,
    spent: &mut Spent,
    ask: Ask,
) -> Result<(Question, (ThreadId, Mail)), HostError> {
    Ok(match ask {
        Ask::MatchCreate { module, params } => {
            spent.create(settings.matches.created_per_call_max, resources)?;
            let id = uuid::Builder::from_random_bytes(resources.random.bytes()).into_uuid();
            let match_id = MatchId::authoritative(id, topology.nodes.here());
            let room = topology.room_of_match(match_id);
            let new = Box::new(NewMatch { cause: spent.cause(), module, params });
            let mail = RoomMail::Create { from, id, new };
            (Question::Creation(match_id), room.seal(topology, mail))
        }
        Ask::MatchSignal { match_id, data } => {
            let to = MatchId::parse(&match_id, &topology.nodes)
                .map_err(|error| HostError::new(error.to_string()))?;
            let mail = RoomMail::Signal { from, by: None, id: to.uuid, data };
            (Question::Signal(to), topology.room_of_match(to).seal(topology, mail))
        }
        Ask::Stream { stream, request } => {
            spent.stream(request.bytes(), resources)?;
            let mail = StreamMail { stream, request, member: None, reply: Some(from) };
            let (room, home) = (mail.room(topology), topology.room_of_stream(&mail.stream));
            if !topology.is_reachable(room) || !topology.is_reachable(home) {
                return Err(HostError::new(AWAY));
            }
            let is_joined = mail.request.joiner().is_some();
            let question = Question::Stream { node: room.node(), is_joined };
            (question, room.seal(topology, RoomMail::Streams(vec![mail])))
        }
        Ask::Fetch(_) | Ask::Run { .. } => return Err(HostError::new("no room does that")),
    })
}
