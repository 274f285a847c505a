//! Authoritative matches: a script decides. Source: Nakama 3.40,
//! `server/match_handler.go`, `server/runtime_lua_match_core.go`.
//!
//! One callback at a time: joins, leaves, signals and ticks of a match never overlap, because its
//! room runs them one after the other. What a callback sends is collected while it runs and leaves
//! when it returns. An error ends the match and closes its players' sockets; nil ends it quietly.

use std::sync::Arc;

use bytes::Bytes;
use event::Now;
use game::directory::DirectoryEvent;
use game::guest::{
    Broadcast, JoinRequest, JoinVerdict, MatchCall, MatchContext, MatchMessage, MatchReturned,
    MatchScript, Presence, PresenceReason, ScriptError, ScriptFailure, Step, check_label,
};
use game::match_id::MatchId;
use game::stream::StreamMeta;
use game::value::Value;
use uuid::Uuid;
use wire::nakama::realtime::{self, Message, error_code};

use super::Room;
use super::host::{Effects, RoomHost};
use super::inbox::Inbox;
use super::registry::{Key, Known};
use super::streams::told;
use crate::frames;
use crate::group::GroupMember;
use crate::mail::{MatchInput, Member, RoomError, Then};

/// Ticks a second that `match_init` may ask for.
pub(super) const TICK_RATE_HZ_MAX: i64 = 60;
/// Callbacks that may run inside one another, because each signals the next match: every one of
/// them takes its part of the thread's stack.
const CALLBACKS_NESTED_MAX: usize = 8;
/// What the sockets of a failed match are told.
const MATCH_FAILED: &str = "server-side session disconnect";

/// Matches of one rate tick in this many groups, spread over the period.
const PHASES: u64 = 4;

/// The next moment after `ns` at which matches of this period tick. Few phases instead of one for
/// every match: a room that runs five ticks in a row finds its caches warm, and wakes each core
/// once for all of them (clearly less CPU at 20 matches of 10 Hz, 2026-11, no record kept).
fn in_phase(ns: u64, period_ns: u64) -> u64 {
    ns.next_multiple_of((period_ns / PHASES).max(1))
}

/// A running authoritative match.
pub(super) struct Match {
    id: MatchId,
    module: Arc<str>,
    /// `None` while one of its callbacks runs.
    running: Option<Running>,
    inbox: Inbox,
    /// Those who left and whom the script has not been told about yet.
    left: Vec<(Presence, PresenceReason)>,
    tick_rate_hz: u8,
    period_ns: u64,
    due: Now,
    empty_since: Option<Now>,
}

/// What came of a callback: it does not wait, because it asks its host ([`Host::ask`]).
///
/// [`Host::ask`]: game::guest::Host::ask
fn done(step: Step<MatchReturned>) -> Result<MatchReturned, ScriptError> {
    match step {
        Step::Done(result) => result,
        Step::Waits(ask) => unreachable!("a callback waits for {ask:?}"),
    }
}

/// The part of a match that its callbacks need.
struct Running {
    script: Box<dyn MatchScript>,
    context: MatchContext,
    tick: i64,
}

impl Room {
    /// Makes a match of `module`; returns its id `<uuid>.<node>`, listed already.
    ///
    /// The error is the text that the creating script sees.
    pub(super) fn create_match(
        &mut self,
        now: Now,
        uuid: Uuid,
        module: &str,
        params: Value,
    ) -> Result<String, String> {
        self.check_room()?;
        let id = MatchId { uuid, authoritative: true };
        let text = id.text(&self.settings.node);
        let Some(mut scripts) = self.scripts.take() else {
            return Err("error creating match: not possible inside match_init".to_owned());
        };
        let mut context =
            MatchContext { match_id: text.clone(), label: String::new(), tick_rate_hz: 0 };
        let mut host = RoomHost::new(self, now, None);
        let made = scripts.match_new(&mut host, &context, module).and_then(|mut script| {
            let init = MatchCall::Init { params: &params };
            Ok((done(script.call(&mut host, &context, 0, init))?, script))
        });
        self.scripts = Some(scripts);
        let (returned, script) = made.map_err(|error| {
            if error.kind == ScriptFailure::NotFound {
                return "error creating match: not found".to_owned();
            }
            self.count_failure(&error);
            tracing::error!(module, location = error.location, "match_init failed: {error}");
            format!("error creating match: {error}")
        })?;
        let MatchReturned::Init(init) = returned else {
            unreachable!("match_init returned {returned:?}")
        };
        let rate = u8::try_from(init.tick_rate_hz).ok();
        let Some(tick_rate_hz) =
            rate.filter(|_| (1..=TICK_RATE_HZ_MAX).contains(&init.tick_rate_hz))
        else {
            return Err("error creating match: match_init returned unexpected second value, must \
                        be a tick rate between 1 and 60"
                .to_owned());
        };
        check_label(&init.label).map_err(|error| format!("error creating match: {error}"))?;
        context.label = init.label;
        context.tick_rate_hz = tick_rate_hz;
        let period_ns = 1_000_000_000 / u64::from(tick_rate_hz);
        let due = Now { mono_ns: in_phase(now.mono_ns + period_ns, period_ns), ..now };
        let (module, label): (Arc<str>, Arc<str>) = (module.into(), context.label.as_str().into());
        self.change(|version| DirectoryEvent::MatchCreated {
            id,
            version,
            handler_name: module.clone(),
            tick_rate_hz,
            label,
            size: 0,
            create_time_ms: now.unix_ms,
        });
        self.matches.insert(
            uuid,
            Match {
                id,
                module,
                running: Some(Running { script, context, tick: 0 }),
                inbox: Inbox::default(),
                left: Vec::new(),
                tick_rate_hz,
                period_ns,
                due,
                empty_since: Some(now),
            },
        );
        self.ticks.arm(due, uuid);
        self.rates[usize::from(tick_rate_hz)] += 1;
        self.tell_tick_rate();
        self.stats.authoritative_matches.up();
        Ok(text)
    }

    /// Whether one more match may run.
    fn check_room(&self) -> Result<(), String> {
        let matches_max = self.settings.matches.count_max.div_ceil(self.topology.rooms.len());
        if self.matches.len() < matches_max {
            return Ok(());
        }
        self.stats.matches_refused.up();
        Err(format!(
            "error creating match: {matches_max} run already (match.matches_max / engine.rooms)"
        ))
    }

    /// `match_signal` from a script.
    pub(super) fn signal(&mut self, now: Now, id: Uuid, data: &[u8]) -> Result<Bytes, RoomError> {
        match self.matches.get(&id) {
            None => return Err(RoomError::NotFound),
            Some(found) if found.running.is_none() => return Err(RoomError::Busy),
            Some(_) if self.callbacks_running >= CALLBACKS_NESTED_MAX => {
                let text = format!(
                    "match_signal inside match_signal goes {CALLBACKS_NESTED_MAX} deep at most"
                );
                return Err(RoomError::Failed(text));
            }
            Some(_) => {}
        }
        match self.call(now, (id, "match_signal"), MatchCall::Signal(data)) {
            Some(MatchReturned::Signal(text)) => Ok(text),
            _ => Err(RoomError::Failed("match stopped".to_owned())),
        }
    }

    pub(super) fn authoritative_join(
        &mut self,
        now: Now,
        member: &Member,
        cid: &str,
        id: MatchId,
        request: &JoinRequest,
    ) {
        let session_id = member.presence.session_id;
        if !self.matches.contains_key(&id.uuid) {
            let frame =
                frames::error(member.format, cid, error_code::MATCH_NOT_FOUND, "Match not found");
            return self.outbox.one(member, frame, Then::Answered);
        }
        if self.streams.find(&id.into(), session_id).is_some() {
            return self.join_answer(member, cid, id, None);
        }
        let call = MatchCall::JoinAttempt(request);
        match self.call(now, (id.uuid, "match_join_attempt"), call) {
            Some(MatchReturned::Verdict(JoinVerdict { allow: true, .. })) => {
                self.enter(now, member, cid, id);
            }
            refused => {
                let reason = match refused {
                    Some(MatchReturned::Verdict(verdict)) => verdict.reason,
                    _ => String::new(),
                };
                let text = if reason.is_empty() { "Match join rejected" } else { &reason };
                let frame =
                    frames::error(member.format, cid, error_code::MATCH_JOIN_REJECTED, text);
                self.outbox.one(member, frame, Then::Answered);
            }
        }
    }

    /// Adds an allowed member: it gets its answer, all members see it join, then the script hears.
    /// In this order, because clients look at events of a match only when they have been told that
    /// they are in it. The script is told without a reason, as Nakama does (3.40,
    /// `match_handler.go`: `QueueJoinAttempt`).
    fn enter(&mut self, now: Now, member: &Member, cid: &str, id: MatchId) {
        let Some(found) = self.matches.get_mut(&id.uuid) else {
            let frame =
                frames::error(member.format, cid, error_code::MATCH_NOT_FOUND, "Match not found");
            return self.outbox.one(member, frame, Then::Answered);
        };
        found.empty_since = None;
        let key = Key::from(id);
        self.join(now, &key, member, StreamMeta::default());
        self.join_answer(member, cid, id, Some(self.streams.count(&key) - 1));
        self.tell(now, &key, told(member, &StreamMeta::default()).as_slice(), &[]);
        let joined = [(member.presence.clone(), PresenceReason::Unknown)];
        self.tell_presences(now, id.uuid, true, &joined);
        self.tell_left(now, id.uuid);
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

    /// Players are gone; the script is to be told, by [`Room::tell_left`].
    pub(super) fn note_left(
        &mut self,
        id: Uuid,
        left: &[GroupMember<Known>],
        reason: PresenceReason,
    ) {
        let Some(found) = self.matches.get_mut(&id) else { return };
        found.left.extend(left.iter().map(|joined| (joined.member.presence.clone(), reason)));
    }

    /// Runs `match_leave` for those who left since, until nobody is left to tell about: the
    /// callback itself may kick.
    pub(super) fn tell_left(&mut self, now: Now, id: Uuid) {
        while let Some(found) = self.matches.get_mut(&id) {
            let left = std::mem::take(&mut found.left);
            if left.is_empty() {
                return;
            }
            self.tell_presences(now, id, false, &left);
        }
    }

    fn tell_presences(
        &mut self,
        now: Now,
        id: Uuid,
        joined: bool,
        presences: &[(Presence, PresenceReason)],
    ) {
        let callback = if joined { "match_join" } else { "match_leave" };
        self.call(now, (id, callback), MatchCall::Presences { joined, presences });
    }

    /// `match_data_send`: waits for the next tick.
    pub(super) fn authoritative_data(&mut self, now: Now, input: &MatchInput) {
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

    /// Runs `match_loop` and arms the next tick; a tick that is late is skipped, not piled up.
    pub(super) fn tick(&mut self, now: Now, id: Uuid) {
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
        if self.call(now, (id, "match_loop"), MatchCall::Loop(&messages)).is_none() {
            return;
        }
        self.tell_left(now, id);
        let Some(found) = self.matches.get_mut(&id) else { return };
        found.inbox.reuse(messages);
        found.due.mono_ns += found.period_ns;
        if found.due.mono_ns <= now.mono_ns {
            let late_ns = now.mono_ns - found.due.mono_ns;
            self.stats.match_ticks_skipped.add(late_ns / found.period_ns + 1);
            found.due.mono_ns = in_phase(now.mono_ns + found.period_ns, found.period_ns);
        }
        self.ticks.arm(found.due, id);
    }

    /// `match_terminate`, while the server stops.
    pub(super) fn terminate(&mut self, now: Now, id: Uuid, grace_s: u32) {
        self.call(now, (id, "match_terminate"), MatchCall::Terminate { grace_s });
    }

    /// Runs one callback and then does what it asked for. `None`: the match is over, or was not
    /// there; callers need not care which.
    fn call(
        &mut self,
        now: Now,
        (id, name): (Uuid, &'static str),
        call: MatchCall<'_>,
    ) -> Option<MatchReturned> {
        let found = self.matches.get_mut(&id)?;
        let mut running = found.running.take()?;
        let mut effects = Effects::new(&self.settings.matches);
        let result = {
            self.callbacks_running += 1;
            let mut host = RoomHost::new(self, now, Some(&mut effects));
            let is_tick = matches!(call, MatchCall::Loop(_));
            let Running { script, context, tick } = &mut running;
            let result = done(script.call(&mut host, context, *tick, call));
            if is_tick && result.is_ok() {
                *tick += 1;
            }
            result
        };
        self.callbacks_running -= 1;
        let found = self.matches.get_mut(&id)?;
        found.running = Some(running);
        if effects.is_full {
            self.stats.match_broadcasts_refused.up();
            let what = format_args!("match {id} of {} may not send more at once", found.module);
            self.limit_log.hit(now, "match.broadcast_bytes_max", what);
        }
        self.apply(now, id, effects);
        match result {
            Ok(MatchReturned::Ends) => {
                self.say_ended(id, name);
                self.end_match(id, None);
                None
            }
            Ok(returned) => Some(returned),
            Err(error) => {
                self.end_match(id, Some(&error));
                None
            }
        }
    }

    /// A callback returned nil. That is how a match ends itself in `match_loop` and
    /// `match_terminate`; elsewhere, and before anything has happened, it is rather a mistake.
    fn say_ended(&self, id: Uuid, callback: &'static str) {
        let Some(found) = self.matches.get(&id) else { return };
        let tick = found.running.as_ref().map_or(0, |running| running.tick);
        let is_usual = callback == "match_terminate" || (callback == "match_loop" && tick > 1);
        let (module, players) = (&found.module, self.streams.count(&Key::Authoritative(id)));
        if is_usual {
            tracing::debug!(match_id = %id, %module, players, "match ended: {callback} returned nil");
        } else {
            tracing::info!(
                match_id = %id, %module, players,
                "match ended: {callback} returned nil instead of the state (if that is not meant, \
                 its `return state` is missing)"
            );
        }
    }

    /// Does what a callback asked for, in order; the deferred broadcasts last.
    fn apply(&mut self, now: Now, id: Uuid, effects: Effects) {
        let (messages, kicks, label) = effects.into_parts();
        if let Some(label) = label
            && let Some(found) = self.matches.get_mut(&id)
            && let Some(running) = &mut found.running
        {
            running.context.label.clone_from(&label);
            let match_id = found.id;
            let label = Arc::from(label);
            self.change(|version| DirectoryEvent::Relabelled { id: match_id, version, label });
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
        let match_id = &running.context.match_id;
        let make = |format| frames::match_data(format, match_id, message);
        let Some(players) = self.streams.get(&Key::Authoritative(id)) else { return };
        let delivered = match &message.to {
            None => self.outbox.many(players.members.members(), make),
            Some(to) => {
                let to = players.members.among(to).map(|joined| &joined.member);
                self.outbox.many(to, make)
            }
        };
        self.stats.match_messages_delivered.add(delivered);
    }

    /// Ends a match: quietly, or with an error, which also closes its players' sockets.
    pub(super) fn end_match(&mut self, id: Uuid, error: Option<&ScriptError>) {
        let Some(ended) = self.matches.remove(&id) else { return };
        self.stats.authoritative_matches.down();
        if let Some(count) = self.rates.get_mut(usize::from(ended.tick_rate_hz)) {
            *count = count.saturating_sub(1);
        }
        self.tell_tick_rate();
        let players = self.streams.close(&Key::Authoritative(id));
        self.ended(ended.id);
        if let Some(error) = error {
            self.count_failure(error);
            tracing::error!(
                match_id = %ended.id.uuid, module = %ended.module, location = error.location,
                players = players.len(),
                "a match callback failed, the match is stopped: {error}"
            );
            for member in players.members() {
                self.outbox.one(member, Bytes::new(), Then::Close(MATCH_FAILED));
            }
        }
    }

    fn count_failure(&mut self, error: &ScriptError) {
        match error.kind {
            ScriptFailure::OutOfTime => self.stats.match_out_of_time.up(),
            ScriptFailure::OutOfMemory => self.stats.match_out_of_memory.up(),
            ScriptFailure::Raised | ScriptFailure::NotFound | ScriptFailure::Cancelled => {}
        }
        self.stats.match_errors.up();
    }
}
