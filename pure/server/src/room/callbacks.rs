//! Callbacks of authoritative matches, one at a time. One that needs what this thread has not (`asks`)
//! waits: the room goes on with other matches, and what comes for this one waits behind it, in order
//! and bounded ([`Queue`]).
//!
//! In: a [`Callback`] that is to be played, and answers to one that waits. Out: what its dispatcher was
//! asked for, before each wait and at its end, and what those are told who wait for it. Not here: what a
//! match is and who is in it (`authoritative`).

use std::collections::VecDeque;

use bytes::Bytes;
use event::{Now, TimerId};
use game::guest::{
    Answer, JoinRequest, JoinVerdict, MatchCall, MatchContext, MatchMessage, MatchReturned,
    MatchScript, Presence, PresenceReason, ScriptError, Step,
};
use game::value::Value;
use uuid::Uuid;
use wire::nakama::realtime::error_code;

use super::Room;
use super::asks::Asked;
use super::authoritative::Match;
use super::host::{Effects, RoomHost};
use crate::frames;
use crate::mail::{Member, RoomAnswer, RoomError, Then, Waiter};
use crate::resources::{Spent, shortened};
use crate::settings::MatchSettings;

/// The part of a match that its callbacks need.
pub(super) struct Running {
    pub(super) script: Box<dyn MatchScript>,
    pub(super) context: MatchContext,
    pub(super) tick: i64,
}

/// A callback with what it is told, and who waits for its end.
#[derive(Debug)]
pub(super) enum Callback {
    /// `match_init`.
    Init { params: Value, creator: Waiter },
    /// `match_join_attempt`.
    Attempt(Box<Attempt>),
    /// `match_join`.
    Join([(Presence, PresenceReason); 1]),
    /// `match_leave`.
    Leave(Vec<(Presence, PresenceReason)>),
    /// `match_loop`. While it waits for its turn it has no messages: the match still takes them.
    Loop(Vec<MatchMessage>),
    /// `match_signal`.
    Signal { data: Bytes, from: Waiter },
    /// `match_terminate`.
    Terminate { grace_s: u32 },
}

/// Somebody wants to join.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) member: Member,
    pub(super) cid: String,
    pub(super) request: Box<JoinRequest>,
    /// Whether the socket has closed since.
    pub(super) is_gone: bool,
}

impl Callback {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Init { .. } => "match_init",
            Self::Attempt(_) => "match_join_attempt",
            Self::Join(_) => "match_join",
            Self::Leave(_) => "match_leave",
            Self::Loop(_) => "match_loop",
            Self::Signal { .. } => "match_signal",
            Self::Terminate { .. } => "match_terminate",
        }
    }

    /// Who waits for its end, if a script does.
    pub(super) fn asker(&self) -> Option<Waiter> {
        match self {
            Self::Signal { from, .. } | Self::Init { creator: from, .. } => Some(*from),
            _ => None,
        }
    }

    /// As the script is told it.
    fn call(&self) -> MatchCall<'_> {
        match self {
            Self::Init { params, .. } => MatchCall::Init { params },
            Self::Attempt(attempt) => MatchCall::JoinAttempt(&attempt.request),
            Self::Join(presences) => MatchCall::Presences { joined: true, presences },
            Self::Leave(presences) => MatchCall::Presences { joined: false, presences },
            Self::Loop(messages) => MatchCall::Loop(messages),
            Self::Signal { data, .. } => MatchCall::Signal(data),
            Self::Terminate { grace_s } => MatchCall::Terminate { grace_s: *grace_s },
        }
    }
}

/// A callback that has begun.
pub(super) struct Begun {
    pub(super) callback: Callback,
    pub(super) effects: Effects,
    pub(super) spent: Spent,
    /// When it has waited for too long in all; `None` while it has not waited.
    pub(super) until: Option<Now>,
}

/// A callback that waits.
pub(super) struct Waiting {
    pub(super) begun: Begun,
    /// What for.
    pub(super) asked: Asked,
    pub(super) timer: TimerId,
}

/// What has come for a match while one of its callbacks waited.
#[derive(Debug, Default)]
pub(super) struct Queue {
    callbacks: VecDeque<Callback>,
    attempts: usize,
    signals: usize,
    /// Whether the room has the match on its list of those that have something to play.
    is_listed: bool,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.callbacks.is_empty()
    }

    /// Takes a callback; gives it back, with the setting, when too many of its kind wait. Of ticks
    /// and terminations one waits at most.
    fn push(
        &mut self,
        callback: Callback,
        settings: &MatchSettings,
    ) -> Result<(), (Callback, &'static str)> {
        match &callback {
            Callback::Attempt(_) if self.attempts >= settings.join_attempt_queue_size => {
                return Err((callback, "match.join_attempt_queue_size"));
            }
            Callback::Signal { .. } if self.signals >= settings.signal_queue_size => {
                return Err((callback, "match.signal_queue_size"));
            }
            Callback::Attempt(_) => self.attempts += 1,
            Callback::Signal { .. } => self.signals += 1,
            Callback::Loop(_) | Callback::Terminate { .. } => {}
            Callback::Init { .. } | Callback::Join(_) | Callback::Leave(_) => {
                unreachable!("{} waits for no turn", callback.name())
            }
        }
        self.callbacks.push_back(callback);
        Ok(())
    }

    fn pop(&mut self) -> Option<Callback> {
        let callback = self.callbacks.pop_front()?;
        match &callback {
            Callback::Attempt(_) => self.attempts -= 1,
            Callback::Signal { .. } => self.signals -= 1,
            _ => {}
        }
        Some(callback)
    }

    /// Takes out the attempt of a session.
    pub(super) fn forget_joiner(&mut self, session_id: Uuid) {
        self.callbacks.retain(|callback| {
            let is_gone = matches!(callback, Callback::Attempt(attempt)
                if attempt.member.presence.session_id == session_id);
            self.attempts -= usize::from(is_gone);
            !is_gone
        });
    }

    /// Takes out a signal whose sender waits no more.
    pub(super) fn forget_signal(&mut self, sender: Waiter) {
        self.callbacks.retain(|callback| {
            let is_gone = matches!(callback, Callback::Signal { from, .. } if *from == sender);
            self.signals -= usize::from(is_gone);
            !is_gone
        });
    }

    /// Forgets signals whose senders are not to be answered.
    pub(super) fn retain_signals(&mut self, is_kept: impl Fn(Waiter) -> bool) {
        self.callbacks.retain(|callback| {
            let is_gone = matches!(callback, Callback::Signal { from, .. } if !is_kept(*from));
            self.signals -= usize::from(is_gone);
            !is_gone
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Callback> {
        self.callbacks.iter()
    }

    /// All that waits, when the match has ended.
    pub(super) fn take_all(&mut self) -> VecDeque<Callback> {
        std::mem::take(&mut self.callbacks)
    }
}

impl Room {
    /// Plays a callback of a match, or puts it behind what is to be played before.
    pub(super) fn arrive(&mut self, now: Now, id: Uuid, callback: Callback) {
        let Some(found) = self.matches.get_mut(&id) else {
            return self.refuse(callback, &RoomError::NotFound);
        };
        if !found.is_busy() {
            self.run(now, id, callback);
            return self.settle(now, id);
        }
        let Err((callback, setting)) = found.queue.push(callback, &self.settings.matches) else {
            return;
        };
        let what = format_args!("a {} of match {id} of {}", callback.name(), found.module);
        self.limit_log.hit(now, setting, format_args!("{what} is refused"));
        self.stats.match_calls_refused.up();
        self.refuse(callback, &RoomError::Full);
    }

    /// Tells a match of which no callback waits who has left since, so that no callback finds a player
    /// in it who is not, and lists it if there is more to play.
    pub(super) fn settle(&mut self, now: Now, id: Uuid) {
        while let Some(found) = self.matches.get_mut(&id)
            && found.waiting.is_none()
        {
            let left = std::mem::take(&mut found.left);
            if left.is_empty() {
                if !found.queue.is_empty() && !found.queue.is_listed {
                    found.queue.is_listed = true;
                    self.ready.push_back(id);
                }
                return;
            }
            self.run(now, id, Callback::Leave(left));
        }
    }

    /// Plays one callback of one match: one a turn, so that what has gathered in a queue delays
    /// neighbours by one budget at most.
    pub(super) fn play_ready(&mut self, now: Now) {
        let Some(id) = self.ready.pop_front() else { return };
        let Some(found) = self.matches.get_mut(&id) else { return };
        found.queue.is_listed = false;
        if found.waiting.is_some() {
            return;
        }
        match found.queue.pop() {
            Some(Callback::Loop(_)) => self.play_tick(now, id),
            Some(callback) => self.run(now, id, callback),
            None => {}
        }
        self.settle(now, id);
    }

    /// Runs a callback of a match of which none runs or waits.
    pub(super) fn run(&mut self, now: Now, id: Uuid, callback: Callback) {
        let effects = Effects::new(&self.settings.matches);
        let payer = self.sends.callback((self.me.node(), self.me.thread().0));
        let cause = self.matches.get(&id).map(Match::cause).unwrap_or_default();
        let spent = Spent::of(payer, cause);
        let begun = Begun { callback, effects, spent, until: None };
        self.go_on(now, id, begun, None);
    }

    /// Runs a callback, from its beginning or an answer, to its end or the next answer that it has to
    /// wait for.
    pub(super) fn go_on(
        &mut self,
        now: Now,
        id: Uuid,
        mut begun: Begun,
        mut answer: Option<Answer>,
    ) {
        loop {
            let Some(found) = self.matches.get_mut(&id) else {
                return self.refuse(begun.callback, &RoomError::NotFound);
            };
            assert!(found.waiting.is_none(), "two callbacks of match {id} at a time");
            let Some(mut running) = found.running.take() else {
                unreachable!("{} of match {id} inside a callback", begun.callback.name())
            };
            self.resources.guest_version = found.version;
            let step = self.run_piece(now, &mut running, &mut begun, answer.take());
            let Some(found) = self.matches.get_mut(&id) else {
                unreachable!("match {id} ended inside a callback")
            };
            found.running = Some(running);
            self.apply(now, id, &mut begun.effects, matches!(step, Step::Done(_)));
            match step {
                Step::Done(result) => return self.finish(now, id, begun.callback, result),
                Step::Paused => {
                    unreachable!("a room has no sockets that its matches could hold up")
                }
                Step::Waits(ask) => match self.ask(now, id, &mut begun, ask) {
                    Err(known) => answer = Some(known),
                    Ok(asked) => return self.wait(now, id, begun, asked),
                },
            }
        }
    }

    fn run_piece(
        &mut self,
        now: Now,
        running: &mut Running,
        begun: &mut Begun,
        answer: Option<Answer>,
    ) -> Step<MatchReturned> {
        self.is_in_callback = true;
        // `match_init` has no players to say anything to.
        let has_dispatcher = !matches!(begun.callback, Callback::Init { .. });
        let effects = has_dispatcher.then_some(&mut begun.effects);
        let mut host = RoomHost::new(self, now, effects, begun.spent);
        let Running { script, context, tick } = running;
        let step = match answer {
            None => script.call(&mut host, context, *tick, begun.callback.call()),
            Some(answer) => script.resume(&mut host, context, answer),
        };
        begun.spent = host.into_spent();
        self.is_in_callback = false;
        step
    }

    /// What follows from a callback that is over.
    fn finish(
        &mut self,
        now: Now,
        id: Uuid,
        callback: Callback,
        result: Result<MatchReturned, ScriptError>,
    ) {
        let returned = match result {
            Ok(MatchReturned::Ends) => {
                self.say_ended(id, callback.name());
                self.end_match(id, None);
                return self.refuse(callback, &stopped());
            }
            Ok(returned) => returned,
            Err(error) => return self.fail(id, callback, &shortened(error)),
        };
        match (callback, returned) {
            (Callback::Init { creator, .. }, MatchReturned::Init(init)) => {
                let made = self.open_match(now, id, &init);
                self.answer(creator, made);
            }
            (Callback::Attempt(attempt), MatchReturned::Verdict(verdict)) => {
                self.judge(now, id, &attempt, &verdict);
            }
            (Callback::Loop(messages), _) => self.end_tick(now, id, messages),
            (Callback::Signal { from, .. }, MatchReturned::Signal(text)) => {
                self.answer(from, Ok(RoomAnswer::Text(text)));
            }
            (Callback::Join(_) | Callback::Leave(_) | Callback::Terminate { .. }, _) => {}
            (callback, returned) => unreachable!("{} returned {returned:?}", callback.name()),
        }
    }

    /// A callback has failed: the match ends, and who waited for the callback is told.
    pub(super) fn fail(&mut self, id: Uuid, callback: Callback, error: &ScriptError) {
        if let Callback::Init { creator, .. } = callback {
            let text = self.abandon_match(id, error);
            return self.answer(creator, Err(RoomError::Failed(text)));
        }
        self.end_match(id, Some(error));
        self.refuse(callback, &stopped());
    }

    /// Who waits for a callback is told that nothing comes of it.
    pub(super) fn refuse(&mut self, callback: Callback, why: &RoomError) {
        match callback {
            Callback::Attempt(attempt) => {
                let (code, text) = match why {
                    RoomError::NotFound => (error_code::MATCH_NOT_FOUND, "Match not found"),
                    RoomError::Full => (error_code::MATCH_JOIN_REJECTED, MATCH_BUSY),
                    RoomError::Silent | RoomError::Circle | RoomError::Failed(_) => {
                        (error_code::MATCH_JOIN_REJECTED, JOIN_REJECTED)
                    }
                };
                self.reject(&attempt, code, text);
            }
            Callback::Signal { from, .. } => self.answer(from, Err(why.clone())),
            Callback::Init { creator, .. } => {
                self.answer(creator, Err(RoomError::Failed("match stopped".to_owned())));
            }
            Callback::Join(_)
            | Callback::Leave(_)
            | Callback::Loop(_)
            | Callback::Terminate { .. } => {}
        }
    }

    /// What the script says of somebody who wants to join.
    fn judge(&mut self, now: Now, id: Uuid, attempt: &Attempt, verdict: &JoinVerdict) {
        if verdict.allow {
            return self.enter(now, id, attempt);
        }
        let text = if verdict.reason.is_empty() { JOIN_REJECTED } else { &verdict.reason };
        self.reject(attempt, error_code::MATCH_JOIN_REJECTED, text);
    }

    /// Somebody who wanted to join is not in the match.
    fn reject(&mut self, attempt: &Attempt, code: i32, text: &str) {
        if attempt.is_gone {
            return;
        }
        let Attempt { member, cid, .. } = attempt;
        self.joining.remove(&member.presence.session_id);
        let frame = frames::error(member.format, cid, code, text);
        self.outbox.one(member, frame, Then::Answered);
    }

    /// Tells who waits for something that it is done, or why not.
    pub(super) fn answer(&mut self, waiter: Waiter, outcome: Result<RoomAnswer, RoomError>) {
        self.mails.push(waiter.answer(&self.topology, outcome));
    }
}

/// What a client is told who joins while too many others wait for the match's script.
const MATCH_BUSY: &str = "Match busy";
const JOIN_REJECTED: &str = "Match join rejected";

/// What is told of a match that ended before it could answer.
pub(super) fn stopped() -> RoomError {
    RoomError::Failed("match stopped".to_owned())
}
