//! Authoritative matches: a script decides. Source: Nakama 3.40,
//! `server/match_handler.go`, `server/runtime_lua_match_core.go`.
//!
//! What is here: what a match is, who is in it, when it ticks and how it ends. How its callbacks are
//! played, one at a time, is in `callbacks`. What a callback sends is collected while it runs and leaves
//! when it waits or returns. An error ends the match and closes its players' sockets; nil ends it quietly.

use std::sync::Arc;

use bytes::Bytes;
use event::Now;
use game::directory::{DirectoryEvent, MatchInfo};
use game::events::Cause;
use game::guest::{
    Broadcast, GuestVersion, JoinRequest, MatchContext, MatchInit, MatchMessage, Presence,
    PresenceReason, ScriptError, ScriptFailure, check_label,
};
use game::match_id::MatchId;
use game::stream::{Payer, StreamMeta};
use uuid::Uuid;
use wire::nakama::realtime::{self, Message, error_code};

use super::callbacks::{Attempt, Callback, Queue, Running, Waiting};
use super::host::{Effects, RoomHost};
use super::inbox::Inbox;
use super::registry::{Key, Known};
use super::streams::told;
use super::{Due, Room};
use crate::frames::{self, OfMatch};
use crate::group::GroupMember;
use crate::mail::{CloseCause, MatchInput, Member, NewMatch, RoomAnswer, RoomError, Then, Waiter};
use crate::resources::{Spent, shortened};

/// Ticks a second that `match_init` may ask for.
pub(super) const TICK_RATE_HZ_MAX: i64 = 60;

/// Matches of one rate tick in this many groups, spread over the period.
const PHASES: u64 = 4;

/// The next moment after `ns` at which matches of this period tick. Few phases instead of one for
/// every match: a room that runs five ticks in a row finds its caches warm, and wakes each core
/// once for all of them (clearly less CPU at 20 matches of 10 Hz, 2026-11, no record kept).
fn in_phase(ns: u64, period_ns: u64) -> u64 {
    ns.next_multiple_of((period_ns / PHASES).max(1))
}

/// An authoritative match.
pub(super) struct Match {
    id: MatchId,
    pub(super) module: Arc<str>,
    /// The version of the guest code that made it, and runs it to its end.
    pub(super) version: GuestVersion,
    /// `None` while one of its callbacks runs.
    pub(super) running: Option<Running>,
    /// Its callback that waits.
    pub(super) waiting: Option<Waiting>,
    /// What has come since.
    pub(super) queue: Queue,
    /// Whether `match_init` has returned; before, nobody finds it.
    is_open: bool,
    /// Whose it is.
    cause: Cause,
    inbox: Inbox,
    /// Those who left and whom the script has not been told about yet.
    pub(super) left: Vec<(Presence, PresenceReason)>,
    tick_rate_hz: u8,
    period_ns: u64,
    due: Now,
    empty_since: Option<Now>,
}

impl Match {
    /// Whether what comes for it has to wait.
    pub(super) fn is_busy(&self) -> bool {
        self.waiting.is_some() || !self.queue.is_empty()
    }

    /// Whose matches those are that it makes.
    pub(super) fn cause(&self) -> Cause {
        behind(self.cause, self.id.uuid)
    }

    /// Who wants to join, and has not been answered.
    pub(super) fn joiners(&self) -> impl Iterator<Item = &Member> {
        let waiting = self.waiting.iter().map(|waiting| &waiting.begun.callback);
        waiting.chain(self.queue.iter()).filter_map(|callback| match callback {
            Callback::Attempt(attempt) => Some(&attempt.member),
            _ => None,
        })
    }
}

/// What comes of a match, if that is what it goes back to itself.
fn behind(cause: Cause, uuid: Uuid) -> Cause {
    Cause { ancestor: Some(cause.ancestor.unwrap_or(uuid)), ..cause }
}

impl Room {
    /// Makes a match of `module` and begins its `match_init`. The creator is answered when that is over:
    /// with the match's id `<uuid>.<node>`, listed already, or with the text that its script sees.
    pub(super) fn create_match(
        &mut self,
        now: Now,
        uuid: Uuid,
        creator: Waiter,
        NewMatch { cause, module, params }: NewMatch,
    ) {
        if self.matches.contains_key(&uuid) {
            let text = "there is one of that id";
            return self.answer(creator, Err(RoomError::Failed(text.to_owned())));
        }
        let id = MatchId::authoritative(uuid, self.me.node());
        let match_id = id.text(&self.topology.nodes);
        let context = MatchContext { match_id, label: String::new(), tick_rate_hz: 0 };
        let script = match self.check_room(now, cause) {
            Err(text) => return self.answer(creator, Err(RoomError::Failed(text))),
            Ok(()) => {
                // Nor does a callback of another match run while the module is loaded.
                self.is_in_callback = true;
                self.resources.guest_version = self.guest_version;
                let mut scripts = self.scripts.take();
                let spent = Spent::of(Payer::default(), behind(cause, uuid));
                let mut host = RoomHost::new(self, now, None, spent);
                let script =
                    scripts.as_mut().map(|scripts| scripts.match_new(&mut host, &context, &module));
                self.scripts = scripts;
                self.is_in_callback = false;
                script
            }
        };
        let script = match script {
            Some(Ok(script)) => script,
            Some(Err(error)) => {
                self.give_back_room(cause);
                let text = self.say_unmade((&module, self.guest_version), &shortened(error));
                return self.answer(creator, Err(RoomError::Failed(text)));
            }
            None => unreachable!("a module creates a match while it loads"),
        };
        let begun = Match {
            id,
            module: module.into(),
            version: self.guest_version,
            running: Some(Running { script, context, tick: 0 }),
            waiting: None,
            queue: Queue::default(),
            is_open: false,
            cause,
            inbox: Inbox::default(),
            left: Vec::new(),
            tick_rate_hz: 0,
            period_ns: 0,
            due: now,
            empty_since: Some(now),
        };
        self.matches.insert(uuid, begun);
        self.run(now, uuid, Callback::Init { params, creator });
        self.settle(now, uuid);
    }

    /// `match_init` has returned: the match is listed, and ticks. Gives its id for its creator; if it
    /// cannot be as the script wants it, it ends.
    pub(super) fn open_match(
        &mut self,
        now: Now,
        uuid: Uuid,
        init: &MatchInit,
    ) -> Result<RoomAnswer, RoomError> {
        let rate = u8::try_from(init.tick_rate_hz).ok();
        let rate = rate.filter(|_| (1..=TICK_RATE_HZ_MAX).contains(&init.tick_rate_hz));
        let wrong = match (rate, check_label(&init.label)) {
            (None, _) => {
                "match_init returned unexpected second value, must be a tick rate between \
                          1 and 60"
                    .to_owned()
            }
            (Some(_), Err(error)) => error.message,
            (Some(tick_rate_hz), Ok(())) => {
                return Ok(RoomAnswer::Text(self.start_match(
                    now,
                    uuid,
                    tick_rate_hz,
                    &init.label,
                )));
            }
        };
        self.end_match(uuid, None);
        Err(RoomError::Failed(wrong))
    }

    fn start_match(&mut self, now: Now, uuid: Uuid, tick_rate_hz: u8, label: &str) -> Bytes {
        let Some(found) = self.matches.get_mut(&uuid) else { unreachable!("match {uuid} is gone") };
        let Some(running) = &mut found.running else { unreachable!("a callback of it runs") };
        assert!(!found.is_open, "match {uuid} begins twice");
        label.clone_into(&mut running.context.label);
        running.context.tick_rate_hz = tick_rate_hz;
        let text = running.context.match_id.clone();
        let period_ns = 1_000_000_000 / u64::from(tick_rate_hz);
        let due = Now { mono_ns: in_phase(now.mono_ns + period_ns, period_ns), ..now };
        (found.is_open, found.tick_rate_hz, found.period_ns) = (true, tick_rate_hz, period_ns);
        found.due = due;
        found.empty_since = Some(now);
        let (id, module) = (found.id, found.module.clone());
        let info = Arc::new(MatchInfo::authoritative(module, tick_rate_hz, label, now.unix_ms));
        self.change(|version| DirectoryEvent::MatchCreated { id, version, info, size: 0 });
        self.timers.arm(due, Due::Tick(uuid));
        self.rates[usize::from(tick_rate_hz)] += 1;
        self.tell_tick_rate();
        self.stats.authoritative_matches.up();
        text.into()
    }

    /// `match_init` has failed. Gives what the creator's script sees.
    pub(super) fn abandon_match(&mut self, id: Uuid, error: &ScriptError) -> String {
        let found = self.matches.get(&id).map(|found| (found.module.clone(), found.version));
        let (module, version) = found.unwrap_or_default();
        self.end_match(id, None);
        self.say_unmade((&module, version), error)
    }

    fn say_unmade(
        &mut self,
        (module, version): (&str, GuestVersion),
        error: &ScriptError,
    ) -> String {
        if error.kind == ScriptFailure::NotFound {
            return format!("not found: no module \"{module}\" returns the callbacks of a match");
        }
        self.count_failure(error, version);
        if self.resources.script_log.has_room_for_failure() {
            let (location, version) = (&error.location, version.0);
            tracing::error!(module, location, version, "match_init failed: {error}");
        }
        error.to_string()
    }

    /// Whether one more match may run, which is theirs: it is counted then.
    fn check_room(&mut self, now: Now, cause: Cause) -> Result<(), String> {
        let (settings, rooms) = (&self.settings.matches, self.topology.rooms.len());
        let matches_max = settings.count_max.div_ceil(rooms);
        if self.matches.len() >= matches_max {
            self.stats.matches_refused.up();
            return Err(format!("{matches_max} run already (match.matches_max / engine.rooms)"));
        }
        let [per_user, per_address] =
            [settings.per_user_max, settings.per_address_max].map(|max| max.div_ceil(rooms));
        if let Err((setting, max)) = self.owners.check(cause.payer, (per_user, per_address)) {
            self.stats.matches_of_one_refused.up();
            let whose = cause.payer.principal;
            self.limit_log.hit(now, setting, format_args!("matches for {whose} are not made"));
            return Err(format!("{max} of the same run already ({setting} / engine.rooms)"));
        }
        if let Some(ancestor) = cause.ancestor {
            let limits = (settings.descendants_max.div_ceil(rooms), settings.descendants_per_s);
            self.descendants.make(now, ancestor, limits).map_err(|(setting, max)| {
                self.stats.match_descendants_refused.up();
                format!("what a match makes, and what these make, may be {max} ({setting})")
            })?;
        }
        self.owners.made(cause.payer);
        Ok(())
    }

    /// A match of theirs has ended, or has not come to run.
    fn give_back_room(&mut self, cause: Cause) {
        self.owners.ended(cause.payer);
        cause.ancestor.into_iter().for_each(|ancestor| self.descendants.ended(ancestor));
    }

    pub(super) fn authoritative_join(
        &mut self,
        now: Now,
        (member, cid): (Member, String),
        id: MatchId,
        request: Box<JoinRequest>,
    ) {
        if self.is_zone(id.uuid) {
            return self.zone_join(now, (member, cid), id, &request);
        }
        let session_id = member.presence.session_id;
        if !self.matches.contains_key(&id.uuid) {
            let text = "Match not found";
            let frame = frames::error(member.format, &cid, error_code::MATCH_NOT_FOUND, text);
            return self.outbox.one(&member, frame, Then::Answered);
        }
        if self.streams.find(&id.into(), session_id).is_some() {
            return self.join_answer(&member, &cid, id, None);
        }
        if self.joining.contains_key(&session_id) {
            // Cores of this node ask for one match at a time; what other nodes do is not ours to assert.
            let text = "Match join rejected";
            let code = error_code::MATCH_JOIN_REJECTED;
            let frame = frames::error(member.format, &cid, code, text);
            return self.outbox.one(&member, frame, Then::Answered);
        }
        self.joining.insert(session_id, id.uuid);
        let attempt = Box::new(Attempt { member, cid, request, is_gone: false });
        self.arrive(now, id.uuid, Callback::Attempt(attempt));
    }

    /// Adds an allowed member: it gets its answer, all members see it join, then the script hears.
    /// In this order, because clients look at events of a match only when they have been told that
    /// they are in it. The script is told without a reason, as Nakama does (3.40,
    /// `match_handler.go`: `QueueJoinAttempt`).
    pub(super) fn enter(&mut self, now: Now, uuid: Uuid, attempt: &Attempt) {
        let Attempt { member, cid, is_gone, .. } = attempt;
        let Some(found) = self.matches.get_mut(&uuid).filter(|_| !is_gone) else { return };
        self.joining.remove(&member.presence.session_id);
        found.empty_since = None;
        let id = found.id;
        let key = Key::from(id);
        self.join(now, &key, member, StreamMeta::default());
        self.join_answer(member, cid, id, Some(self.streams.count(&key) - 1));
        self.tell(now, &key, told(member, StreamMeta::default()).as_slice(), &[]);
        let joined = [(member.presence.clone(), PresenceReason::Unknown)];
        self.run(now, uuid, Callback::Join(joined));
    }

    /// The answer to `match_join`: without the joiner if he is new (`others` of them), else with
    /// everybody.
    fn join_answer(&mut self, member: &Member, cid: &str, id: MatchId, others: Option<usize>) {
        let Some(found) = self.matches.get(&id.uuid) else { return };
        let Some(running) = &found.running else { return };
        let session_id = member.presence.session_id;
        let left_out = if others.is_some() { session_id } else { Uuid::nil() };
        let size = others.unwrap_or(self.streams.count(&id.into()));
        let answer = realtime::Match {
            match_id: running.context.match_id.clone(),
            authoritative: true,
            label: Some(running.context.label.clone()),
            size: i32::try_from(size).unwrap_or(i32::MAX),
            presences: self.presences_without(&id.into(), left_out),
            own: Some(frames::user_presence(&member.presence)),
        };
        let frame = frames::frame(member.format, cid, Some(Message::Match(answer)));
        self.outbox.one(member, frame, Then::Answered);
    }

    /// A session that wants to join is gone.
    pub(super) fn forget_joiner(&mut self, id: Uuid, session_id: Uuid) {
        let Some(found) = self.matches.get_mut(&id) else { return };
        found.queue.forget_joiner(session_id);
        if let Some(Waiting { begun, .. }) = &mut found.waiting
            && let Callback::Attempt(attempt) = &mut begun.callback
            && attempt.member.presence.session_id == session_id
        {
            attempt.is_gone = true;
        }
    }

    /// Players are gone; the script is to be told, by [`Room::settle`].
    pub(super) fn note_left(
        &mut self,
        id: Uuid,
        left: &[GroupMember<Known>],
        reason: PresenceReason,
    ) {
        if self.is_zone(id) {
            return self.zone_left(left, reason);
        }
        let Some(found) = self.matches.get_mut(&id) else { return };
        found.left.extend(left.iter().map(|joined| (joined.member.presence.clone(), reason)));
    }

    /// `match_data_send`: waits for the next tick.
    pub(super) fn authoritative_data(&mut self, now: Now, input: &MatchInput) {
        if self.is_zone(input.id.uuid) {
            return self.zone_data(now, input);
        }
        let Some(found) = self.matches.get_mut(&input.id.uuid) else {
            return self.stats.match_messages_unroutable.up();
        };
        let Some(sender) = self.streams.find(&input.id.into(), input.session_id) else {
            return self.stats.match_messages_unroutable.up();
        };
        let message = MatchMessage {
            sender: sender.member.presence.clone(),
            op_code: input.op_code,
            data: input.data.clone(),
            reliable: input.reliable,
            receive_time_ms: input.receive_time_ms,
        };
        if !found.inbox.push(message, self.settings.matches.input_queue_size) {
            let (match_id, module) = (found.id.uuid, &found.module);
            let what = format_args!("messages to match {match_id} of {module} are dropped");
            self.limit_log.hit(now, "match.input_queue_size", what);
            self.stats.match_input_dropped.up();
        }
    }

    /// A tick is due.
    pub(super) fn tick(&mut self, now: Now, id: Uuid) {
        let Some(found) = self.matches.get(&id) else { return };
        if found.is_busy() {
            return self.arrive(now, id, Callback::Loop(Vec::new()));
        }
        self.play_tick(now, id);
        self.settle(now, id);
    }

    /// Runs `match_loop` with what has come in since the last one.
    pub(super) fn play_tick(&mut self, now: Now, id: Uuid) {
        let Some(found) = self.matches.get_mut(&id) else { return };
        let messages = found.inbox.take();
        let empty_s_max = self.settings.matches.empty_s_max;
        if self.streams.get(&Key::Authoritative(id)).is_none() {
            let since = *found.empty_since.get_or_insert(now);
            if empty_s_max > 0 && now.ms_since(since) >= empty_s_max * 1_000 {
                return self.end_match(id, None);
            }
        }
        self.stats.match_ticks.up();
        self.run(now, id, Callback::Loop(messages));
    }

    /// `match_loop` has returned: arms the next tick. Those that it is too late for are skipped, not
    /// piled up.
    pub(super) fn end_tick(&mut self, now: Now, id: Uuid, messages: Vec<MatchMessage>) {
        let Some(found) = self.matches.get_mut(&id) else { return };
        if let Some(running) = &mut found.running {
            running.tick += 1;
        }
        found.inbox.reuse(messages);
        found.due.mono_ns += found.period_ns;
        if found.due.mono_ns <= now.mono_ns {
            let late_ns = now.mono_ns - found.due.mono_ns;
            self.stats.match_ticks_skipped.add(late_ns / found.period_ns + 1);
            found.due.mono_ns = in_phase(now.mono_ns + found.period_ns, found.period_ns);
        }
        self.timers.arm(found.due, Due::Tick(id));
    }

    /// A callback returned nil. That is how a match ends itself in `match_loop` and
    /// `match_terminate`; elsewhere, and before anything has happened, it is rather a mistake.
    pub(super) fn say_ended(&mut self, id: Uuid, callback: &'static str) {
        let Some(found) = self.matches.get(&id) else { return };
        let tick = found.running.as_ref().map_or(0, |running| running.tick);
        let is_usual = callback == "match_terminate" || (callback == "match_loop" && tick > 1);
        let (module, version) = (&found.module, found.version.0);
        let players = self.streams.count(&Key::Authoritative(id));
        if is_usual {
            tracing::debug!(
                match_id = %id, %module, version, players, "match ended: {callback} returned nil"
            );
        } else if self.resources.script_log.has_room_for_failure() {
            tracing::info!(
                match_id = %id, %module, version, players,
                "match ended: {callback} returned nil instead of the state (if that is not meant, \
                 its `return state` is missing)"
            );
        }
    }

    /// Does what a callback has asked for, in order; the deferred broadcasts when it is over.
    pub(super) fn apply(&mut self, now: Now, id: Uuid, effects: &mut Effects, is_over: bool) {
        if effects.take_fullness() {
            self.stats.match_broadcasts_refused.up();
            let module = self.matches.get(&id).map(|found| found.module.clone());
            let module = module.unwrap_or_default();
            let what = format_args!("match {id} of {module} may not send more at once");
            self.limit_log.hit(now, "match.broadcast_bytes_max", what);
        }
        let (messages, kicks, label) = effects.take(is_over);
        if let Some(label) = label
            && let Some(found) = self.matches.get_mut(&id)
            && let Some(running) = &mut found.running
        {
            running.context.label.clone_from(&label);
            let id = found.id;
            // More than the directory lists are never begun (`match.matches_max`).
            if let Some(listed) = self.resources.directory.find(&id) {
                let info = Arc::new(listed.info.with_label(&label));
                self.change(|version| DirectoryEvent::Relabelled { id, version, info });
            }
        }
        let mut messages = messages.iter();
        let mut sent = 0;
        for (at, kicked) in kicks {
            messages.by_ref().take(at - sent).for_each(|message| self.broadcast(id, message));
            sent = at;
            self.take_out(now, &Key::Authoritative(id), &kicked, PresenceReason::Leave);
        }
        messages.for_each(|message| self.broadcast(id, message));
    }

    fn broadcast(&mut self, id: Uuid, message: &Broadcast) {
        let Some(found) = self.matches.get(&id) else { return };
        let Some(running) = &found.running else { return };
        let of = OfMatch {
            id: found.id,
            text: &running.context.match_id,
            message,
            datagrams_of: self.datagrams_of(),
        };
        let Some(players) = self.streams.get(&Key::Authoritative(id)) else { return };
        let delivered = match &message.to {
            None => self.outbox.of_match(players.members.members(), &of, Then::Nothing),
            Some(to) => {
                let to = players.members.among(to).map(|joined| &joined.member);
                self.outbox.of_match(to, &of, Then::Nothing)
            }
        };
        self.stats.match_messages_delivered.add(delivered);
    }

    /// Ends a match: quietly, or with an error, which also closes its players' sockets. Who waits for
    /// something of it is told.
    pub(super) fn end_match(&mut self, id: Uuid, error: Option<&ScriptError>) {
        let Some(mut ended) = self.matches.remove(&id) else { return };
        self.give_back_room(ended.cause);
        self.tells_held |= ended.version != self.guest_version;
        let version = ended.version.0;
        if ended.is_open {
            self.stats.authoritative_matches.down();
            if let Some(count) = self.rates.get_mut(usize::from(ended.tick_rate_hz)) {
                *count = count.saturating_sub(1);
            }
            self.tell_tick_rate();
            self.ended(ended.id);
        }
        let players = self.streams.close(&Key::Authoritative(id));
        if let Some(error) = error {
            self.count_failure(error, ended.version);
            if self.resources.script_log.has_room_for_failure() {
                tracing::error!(
                    match_id = %ended.id.uuid, module = %ended.module, location = error.location, version,
                    players = players.len(),
                    "a match callback failed, the match is stopped: {error}"
                );
            }
            for member in players.members() {
                self.outbox.one(member, Bytes::new(), Then::Close(CloseCause::MatchFailed));
            }
        }
        if let Some(waiting) = ended.waiting {
            let (begun, asked) = self.take_waiting(waiting);
            self.take_back(asked);
            if error.is_none() && self.resources.script_log.has_room_for_failure() {
                tracing::warn!(
                    match_id = %ended.id.uuid, module = %ended.module, version,
                    callback = begun.callback.name(),
                    "a match is ended while a callback of it waits: nothing more of it is run"
                );
            }
            self.refuse(begun.callback, &super::callbacks::stopped());
        }
        for callback in ended.queue.take_all() {
            self.refuse(callback, &RoomError::NotFound);
        }
    }

    pub(super) fn count_failure(&mut self, error: &ScriptError, version: GuestVersion) {
        self.stats.guest_errors.note(version);
        match error.kind {
            ScriptFailure::OutOfTime => self.stats.match_out_of_time.up(),
            ScriptFailure::OutOfMemory => self.stats.match_out_of_memory.up(),
            ScriptFailure::Cancelled => self.stats.match_waits_cancelled.up(),
            ScriptFailure::Raised | ScriptFailure::NotFound => {}
            ScriptFailure::Shed => unreachable!("a callback of a match gives way to nobody"),
        }
        self.stats.match_errors.up();
    }
}
