//! What callbacks of matches wait for: a match is made or signalled, wherever it lives, a stream of
//! another room says something, another server answers, or a worker runs a function for it that this
//! thread must not wait for.
//! The question goes to who can do it as mail with a number; the answer comes back with the number, and
//! the callback goes on. A question to a match of the same room takes the same way, so that neighbours
//! are served in between.
//!
//! In: what a callback waits for ([`Room::ask`]), answers ([`Room::answered`]), and the questions of
//! others. Nobody waits forever: a question is given up in time ([`Question::due`]), a callback that has waited
//! for `runtime.call_wait_max_ms` in all is cancelled, and matches that wait for one another in a circle
//! are told so ([`Room::chase`]). Not here: callbacks (`callbacks`).

use bytes::Bytes;
use event::Now;
use game::fetch::{FetchRequest, Principal};
use game::guest::{Answer, Ask, HostError, Reply, ScriptError, ScriptFailure};
use game::match_id::MatchId;
use game::node::NodeId;
use game::stream::{StreamId, StreamRequest};
use uuid::Uuid;

use super::callbacks::{Begun, Callback, Waiting};
use super::{Due, Room};
use crate::mail::{
    AWAY, Asker, Chase, Fetched, HostCall, HostReturn, NewMatch, RoomAnswer, RoomError, RoomMail,
    Signaller, StreamMail, Waiter,
};
use crate::question::Question;

/// Matches, each of which waits for the next one, that are looked at for a circle. A longer circle ends
/// when the first of them loses its patience.
const CHASE_MAX: u8 = 64;

/// A question that was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    request: u64,
    question: Question,
}

/// A request to another server.
#[derive(Debug)]
pub(super) struct Fetch {
    number: u64,
    of: Uuid,
    request: Box<FetchRequest>,
}

impl Room {
    /// Asks for what a callback waits for. What is known at once comes as the error.
    pub(super) fn ask(
        &mut self,
        now: Now,
        id: Uuid,
        begun: &mut Begun,
        ask: Ask,
    ) -> Result<Asked, Answer> {
        match ask {
            Ask::MatchCreate { module, params } => {
                let created_max = self.settings.matches.created_per_call_max;
                begun.spent.create(created_max, &mut self.resources).map_err(Err)?;
                let bytes = self.resources.random.bytes();
                let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
                let new = MatchId::authoritative(uuid, self.me.node());
                let (asked, from) = self.number(Question::Creation(new));
                let made = Box::new(NewMatch { cause: begun.spent.cause(), module, params });
                let mail = RoomMail::Create { from, id: uuid, new: made };
                self.post_to_match(new, mail);
                Ok(asked)
            }
            Ask::MatchSignal { match_id, data } => {
                let to = MatchId::parse(&match_id, &self.topology.nodes);
                let to = to.map_err(|error| Err(HostError::new(error.to_string())))?;
                if to.uuid == id {
                    return Err(Question::Signal(to).answer(Err(RoomError::Circle)));
                }
                let (asked, from) = self.number(Question::Signal(to));
                let by = Signaller { id, plays: begun.callback.asker() };
                let by = Some(Box::new(by));
                let mail = RoomMail::Signal { from, by, id: to.uuid, data };
                self.post_to_match(to, mail);
                Ok(asked)
            }
            Ask::Stream { stream, request } => self.ask_stream(now, begun, stream, request),
            Ask::Fetch(request) => {
                self.resources.network().map_err(Err)?;
                let (asked, Waiter { request: number, .. }) = self.number(Question::Fetch);
                self.fetches.push(Fetch { number, of: id, request });
                Ok(asked)
            }
            Ask::Run { function, values, allowance } => {
                let Some(function) = game::host::find(function) else {
                    unreachable!("a script calls {function}, which is no function")
                };
                let (asked, Waiter { who: from, request: number }) = self.number(Question::Run);
                let line = (self.me.thread(), line_of(id));
                let spent = begun.spent;
                self.calls.push(HostCall {
                    from,
                    number,
                    line,
                    function,
                    values,
                    allowance,
                    spent,
                });
                Ok(asked)
            }
        }
    }

    /// A function that a callback waits for has run elsewhere.
    pub(super) fn returned(&mut self, now: Now, returned: HostReturn) {
        let HostReturn { number, result, spent, steps } = returned;
        let Some((id, mut begun, Asked { question, .. })) = self.take_asker(number) else { return };
        assert!(matches!(question, Question::Run), "a function has run for {question:?}");
        begun.spent = spent;
        let answer = result.map(|returns| Reply::Returns { returns, steps });
        self.go_on(now, id, begun, Some(answer));
        self.settle(now, id);
    }

    /// Another server has answered, or has not.
    pub(super) fn fetched(&mut self, now: Now, Fetched { number, result }: Fetched) {
        let Some((id, begun, Asked { question, .. })) = self.take_asker(number) else { return };
        assert!(matches!(question, Question::Fetch), "a server has answered {question:?}");
        self.go_on(now, id, begun, Some(Reply::fetched(result)));
        self.settle(now, id);
    }

    /// Makes the requests of callbacks that wait. What they wrote before is on the disk.
    pub(super) fn start_fetches(&mut self) {
        for Fetch { number, of, request } in std::mem::take(&mut self.fetches) {
            self.resources.start_fetch(number, Principal::Match(of).into(), *request);
        }
    }

    /// A question about a stream; what this room knows is answered at once.
    fn ask_stream(
        &mut self,
        now: Now,
        begun: &mut Begun,
        stream: StreamId,
        mut request: StreamRequest,
    ) -> Result<Asked, Answer> {
        begun.spent.pays(&mut request);
        begun.spent.stream(request.bytes(), &mut self.resources).map_err(Err)?;
        let member = request.joiner().map(|session| self.member_of(session));
        let is_near = match &member {
            None => true,
            Some(joiner) => {
                joiner.as_ref().is_some_and(|joiner| self.topology.is_here(joiner.address.core))
            }
        };
        if is_near && self.topology.room_of_stream(&stream) == self.me {
            let answer = self.stream(now, &stream, request, member.flatten());
            return Err(answer.map(Reply::Stream));
        }
        let is_joined = request.joiner().is_some();
        let mut mail = StreamMail { stream, request, member: None, reply: None };
        let room = mail.room(&self.topology);
        let home = self.topology.room_of_stream(&mail.stream);
        if !self.topology.is_reachable(room) || !self.topology.is_reachable(home) {
            return Err(Err(HostError::new(AWAY)));
        }
        let (asked, from) = self.number(Question::Stream { node: room.node(), is_joined });
        mail.reply = Some(from);
        self.mails.push(room.seal(&self.topology, RoomMail::Streams(vec![mail])));
        Ok(asked)
    }

    fn waiter(&self, request: u64) -> Waiter {
        Waiter { who: Asker::Room(self.me), request }
    }

    /// Gives a question its number.
    fn number(&mut self, question: Question) -> (Asked, Waiter) {
        self.requests += 1;
        let request = self.requests;
        (Asked { request, question }, self.waiter(request))
    }

    /// A callback waits from now on.
    pub(super) fn wait(&mut self, now: Now, id: Uuid, mut begun: Begun, asked: Asked) {
        let wait_max_ms = self.settings.runtime.call_wait_max_ms;
        let until = *begun.until.get_or_insert(now.after_ms(u64::from(wait_max_ms)));
        let due = asked.question.due(now, until);
        let Some(found) = self.matches.get_mut(&id) else {
            unreachable!("match {id} ended inside a callback")
        };
        let timer = self.timers.arm(due, Due::Patience(id));
        found.waiting = Some(Waiting { begun, asked, timer });
        let other = self.asks.insert(asked.request, id);
        assert!(other.is_none(), "two questions with one number");
        self.stats.match_callbacks_waited.up();
        self.stats.match_callbacks_waiting.up();
    }

    /// Takes a callback that waits, which is to go on, or to end.
    pub(super) fn take_waiting(&mut self, waiting: Waiting) -> (Begun, Asked) {
        let Waiting { begun, asked, timer } = waiting;
        self.timers.disarm(timer);
        let known = self.asks.remove(&asked.request);
        assert!(known.is_some(), "a callback waits for nothing");
        self.stats.match_callbacks_waiting.down();
        (begun, asked)
    }

    /// Who waits for the answer to a question; nobody, if it was given up.
    fn take_asker(&mut self, request: u64) -> Option<(Uuid, Begun, Asked)> {
        let Some(id) = self.asks.get(&request).copied() else {
            self.stats.late_answers.up();
            return None;
        };
        let waiting = self.matches.get_mut(&id).and_then(|found| found.waiting.take());
        let Some(waiting) = waiting else { unreachable!("match {id} waits for nothing") };
        let (begun, asked) = self.take_waiting(waiting);
        assert_eq!(asked.request, request, "match {id} waits for something else");
        Some((id, begun, asked))
    }

    /// An answer has come. One that nobody waits for any more is of no use.
    pub(super) fn answered(
        &mut self,
        now: Now,
        (node, request): (NodeId, u64),
        outcome: Result<RoomAnswer, RoomError>,
    ) {
        let asker = self.asks.get(&request).and_then(|id| self.matches.get(id)?.waiting.as_ref());
        let nodes = (self.me.node(), node);
        if asker.is_some_and(|waiting| !waiting.asked.question.takes(nodes, &outcome)) {
            // It was not asked there, whatever another node says.
            return self.stats.late_answers.up();
        }
        let Some((id, begun, asked)) = self.take_asker(request) else { return };
        if outcome.as_ref().is_err_and(RoomError::leaves_question) {
            self.take_back(asked);
        }
        self.go_on(now, id, begun, Some(asked.question.answer(outcome)));
        self.settle(now, id);
    }

    /// A node has gone: what was asked there is not answered any more, nor may what was asked by way of
    /// any other node.
    pub(super) fn lose_answers(&mut self, now: Now) {
        let nodes = &self.topology.nodes;
        let lost = |id: &Uuid| {
            let asked = self.matches.get(id)?.waiting.as_ref()?.asked;
            Some((asked.request, asked.question.lost(nodes)?))
        };
        let lost: Vec<(u64, RoomError)> = self.asks.values().filter_map(lost).collect();
        for (request, why) in lost {
            self.answered(now, (self.me.node(), request), Err(why));
        }
    }

    /// A callback has waited for too long for an answer, or in all.
    pub(super) fn lose_patience(&mut self, now: Now, id: Uuid) {
        let waiting = self.matches.get_mut(&id).and_then(|found| found.waiting.take());
        let Some(waiting) = waiting else { unreachable!("match {id} waits for nothing") };
        let (begun, asked) = self.take_waiting(waiting);
        self.take_back(asked);
        if begun.until.is_some_and(|until| until.mono_ns <= now.mono_ns) {
            let wait_max_ms = self.settings.runtime.call_wait_max_ms;
            let mut error = waited_too_long(&begun.callback, asked.question, wait_max_ms);
            let running = self.matches.get(&id).and_then(|found| found.running.as_ref());
            error.location = running.map_or_else(String::new, |it| it.script.location());
            return self.fail(id, begun.callback, &error);
        }
        self.go_on(now, id, begun, Some(asked.question.answer(Err(RoomError::Silent))));
        self.settle(now, id);
    }

    /// Nobody will take up the answer to a question.
    pub(super) fn take_back(&mut self, asked: Asked) {
        let Asked { request, question } = asked;
        if question == Question::Fetch {
            self.fetches.retain(|fetch| fetch.number != request);
            self.resources.cancel_fetch(request);
        }
        let mail = question.take_back(self.waiter(request), &self.topology);
        self.mails.extend(mail);
    }

    /// Mail to the room of a match.
    fn post_to_match(&mut self, id: MatchId, mail: RoomMail) {
        self.mails.push(self.topology.room_of_match(id).seal(&self.topology, mail));
    }

    /// Somebody signals a match of this room, perhaps the match `by`.
    pub(super) fn signal(
        &mut self,
        now: Now,
        (id, by): (Uuid, Option<Signaller>),
        from: Waiter,
        data: Bytes,
    ) {
        let begin = |by: Signaller| Chase {
            by,
            from,
            before: None,
            is_nested: true,
            last: (by.id, from),
            steps_left: CHASE_MAX,
        };
        if let Some(busy) = by.and_then(|by| self.chase(begin(by), id)) {
            assert_eq!(
                busy, from,
                "another one is told only when the circle is known to be closed"
            );
            return self.answer(from, Err(RoomError::Circle));
        }
        self.arrive(now, id, Callback::Signal { data, from });
    }

    /// Whether match `id` waits for the match that has begun to wait, which waits for it: then gives whose
    /// question of the circle is not answered. If it waits for yet another match, that one is asked the same.
    ///
    /// Of matches that wait in a circle the last one to do so finds all others waiting, so that one of them is
    /// always told. Where each plays the signal of the one before, it is this last one. Where two signal each
    /// other at once, both find the circle, and both must find the same one: that with the largest id.
    fn chase(&mut self, mut chase: Chase, id: Uuid) -> Option<Waiter> {
        let waiting = self.matches.get(&id)?.waiting.as_ref()?;
        if id == chase.by.id {
            // The circle is closed, if the one that it began at waits for the same still.
            return (waiting.asked.request == chase.from.request).then_some(chase.last.1);
        }
        let target = waiting.asked.question.target()?;
        let own = self.waiter(waiting.asked.request);
        let plays = waiting.begun.callback.asker();
        chase.is_nested &= chase.before.is_none_or(|before| plays == Some(before));
        if id > chase.last.0 {
            chase.last = (id, own);
        }
        chase.before = Some(own);
        if target.uuid == chase.by.id {
            self.stats.match_circles.up();
            let is_nested = chase.is_nested && chase.by.plays == Some(own);
            if is_nested || chase.last.1 == chase.from {
                return Some(chase.from);
            }
            // Another one is not told for a match that may have given up by now.
            let chase = Box::new(chase);
            self.post_to_match(target, RoomMail::Chase { id: target.uuid, chase });
            return None;
        }
        if let Some(steps_left) = chase.steps_left.checked_sub(1) {
            let chase = Box::new(Chase { steps_left, ..chase });
            self.post_to_match(target, RoomMail::Chase { id: target.uuid, chase });
        }
        None
    }

    /// As [`Self::chase`], for a question that waits elsewhere.
    pub(super) fn chased(&mut self, chase: Chase, id: Uuid) {
        if let Some(busy) = self.chase(chase, id) {
            self.answer(busy, Err(RoomError::Circle));
        }
    }

    /// A signal that waits for its turn is not to be played any more.
    pub(super) fn taken_back(&mut self, id: Uuid, from: Waiter) {
        if let Some(found) = self.matches.get_mut(&id) {
            found.queue.forget_signal(from);
        }
    }
}

/// Which matches of a room take turns with one another at workers.
fn line_of(id: Uuid) -> u32 {
    let (_, low) = id.as_u64_pair();
    u32::try_from(low & u64::from(u32::MAX)).unwrap_or(0)
}

fn waited_too_long(callback: &Callback, question: Question, wait_max_ms: u32) -> ScriptError {
    let (name, what) = (callback.name(), question.what());
    ScriptError {
        code: 13,
        message: format!(
            "{name} waited for {wait_max_ms} ms, at last for {what} (runtime.call_wait_max_ms)"
        ),
        location: String::new(),
        kind: ScriptFailure::Cancelled,
    }
}
