//! What a script that runs on a room may ask for: [`RoomHost`] is lent to it for one callback.
//!
//! A room never waits for another thread: matches are created and signalled here and now when they
//! live on this room; what would need another room says so.

use event::Now;
use game::db::Database;
use game::guest::{
    Answer, Ask, Broadcast, CommonHost, Dispatcher, Host, HostError, Reply, check_label,
};
use game::match_id::MatchId;
use game::stream::{StreamId, StreamRequest, no_session};
use game::value::Value;
use uuid::Uuid;

use super::Room;
use crate::mail::{RoomError, StreamMail};
use crate::resources::{Spent, from_resources};
use crate::settings::MatchSettings;

/// Sessions to be removed, and how many of the callback's messages they still get.
pub(super) type Kicks = Vec<(usize, Vec<Uuid>)>;

/// What the dispatcher of one callback was asked for.
#[derive(Debug)]
pub(super) struct Effects {
    messages: Vec<Broadcast>,
    deferred: Vec<Broadcast>,
    deferred_max: usize,
    /// Of all messages together.
    bytes_left: usize,
    /// Whether a message was refused because of its bytes.
    pub(super) is_full: bool,
    kicks: Kicks,
    label: Option<String>,
}

impl Effects {
    pub(super) fn new(settings: &MatchSettings) -> Self {
        Self {
            messages: Vec::new(),
            deferred: Vec::new(),
            deferred_max: settings.deferred_queue_size,
            bytes_left: settings.broadcast_bytes_max,
            is_full: false,
            kicks: Vec::new(),
            label: None,
        }
    }

    /// Messages in the order of sending; kicks, each behind so many of them; the new label.
    pub(super) fn into_parts(mut self) -> (Vec<Broadcast>, Kicks, Option<String>) {
        self.messages.append(&mut self.deferred);
        (self.messages, self.kicks, self.label)
    }
}

/// Messages that one callback may send; more is an error in the script.
const BROADCASTS_PER_CALLBACK_MAX: usize = 65_536;

impl Dispatcher for Effects {
    fn broadcast(&mut self, mut message: Broadcast) -> Result<(), HostError> {
        // Sorted, because members are looked up in it: both may be many.
        if let Some(to) = &mut message.to {
            to.sort_unstable();
            to.dedup();
        }
        let Some(bytes_left) = self.bytes_left.checked_sub(message.data.len()) else {
            self.is_full = true;
            return Err(HostError::new(
                "too many bytes of message broadcasts per callback (match.broadcast_bytes_max)",
            ));
        };
        if message.deferred {
            if self.deferred.len() >= self.deferred_max {
                return Err(HostError::new("too many deferred message broadcasts per tick"));
            }
            self.deferred.push(message);
        } else {
            if self.messages.len() >= BROADCASTS_PER_CALLBACK_MAX {
                return Err(HostError::new("too many message broadcasts per tick"));
            }
            self.messages.push(message);
        }
        self.bytes_left = bytes_left;
        Ok(())
    }

    fn kick(&mut self, sessions: &[Uuid]) {
        let mut sessions = sessions.to_vec();
        sessions.sort_unstable();
        self.kicks.push((self.messages.len(), sessions));
    }

    fn label_update(&mut self, label: &str) -> Result<(), HostError> {
        check_label(label)?;
        self.label = Some(label.to_owned());
        Ok(())
    }
}

/// The host of one callback on a room.
pub(super) struct RoomHost<'a> {
    room: &'a mut Room,
    now: Now,
    effects: Option<&'a mut Effects>,
    /// What this callback has had so far.
    spent: Spent,
}

impl<'a> RoomHost<'a> {
    pub(super) fn new(room: &'a mut Room, now: Now, effects: Option<&'a mut Effects>) -> Self {
        let payer = room.sends.callback(room.me.thread().0);
        Self { room, now, effects, spent: Spent::of(payer) }
    }
}

/// Why a stream that answers cannot be asked.
const ELSEWHERE: &str = "functions of streams that answer reach, from a match callback, only \
     streams and users of the same room: call them from an RPC function, choose the match's id as \
     the stream's subject, or set engine.rooms to 1";

impl RoomHost<'_> {
    fn match_create(&mut self, module: &str, params: Value) -> Answer {
        let created_max = self.room.settings.matches.created_per_call_max;
        self.spent.create(created_max, &mut self.room.resources)?;
        // An id that lives here: with r rooms, r tries on average.
        let id = loop {
            let id =
                uuid::Builder::from_random_bytes(self.room.resources.random.bytes()).into_uuid();
            if self.room.topology.room_of(id) == self.room.me {
                break id;
            }
        };
        let created = self.room.create_match(self.now, id, module, params);
        created.map(|id| Reply::Text(id.into())).map_err(HostError::new)
    }

    fn match_signal(&mut self, match_id: &str, data: &[u8]) -> Answer {
        let id = MatchId::parse(match_id, &self.room.settings.node)
            .map_err(|error| HostError::new(error.to_string()))?;
        if self.room.topology.room_of(id.uuid) != self.room.me {
            return Err(HostError::new(
                "match_signal from a match callback reaches only matches of the same room: \
                 signal from an RPC function, or set engine.rooms to 1",
            ));
        }
        let answer = self.room.signal(self.now, id.uuid, data);
        answer.map(Reply::Text).map_err(RoomError::of_signal)
    }

    fn ask_stream(&mut self, stream: &StreamId, request: StreamRequest) -> Answer {
        self.spent.stream(request.bytes(), &mut self.room.resources)?;
        let (topology, me) = (&self.room.topology, self.room.me);
        if topology.room_of(stream.home()) != me {
            return Err(HostError::new(ELSEWHERE));
        }
        let mut member = None;
        if let Some(session) = request.joiner() {
            member = self.room.member_of(session);
            if member.is_none() {
                let is_known = topology.room_of(session.user_id) == me;
                return Err(if is_known { no_session() } else { HostError::new(ELSEWHERE) });
            }
        }
        self.room.stream(self.now, stream, request, member).map(Reply::Stream)
    }
}

impl Host for RoomHost<'_> {
    fn db(&mut self) -> &mut dyn Database {
        &mut *self.room.resources.db
    }
}

impl CommonHost for RoomHost<'_> {
    from_resources!(room.resources);

    fn ask(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::MatchCreate { module, params } => self.match_create(&module, params),
            Ask::MatchSignal { match_id, data } => self.match_signal(&match_id, &data),
            Ask::Stream { stream, request } => self.ask_stream(&stream, request),
            Ask::Fetch(_) => {
                self.room.resources.network()?;
                Err(HostError::new(
                    "not possible in a match, whose neighbours would wait: call it from an RPC function",
                ))
            }
            Ask::Run { function, .. } => {
                Err(HostError::new(format!("{function}: not possible here")))
            }
        }
    }

    fn stream(&mut self, stream: &StreamId, mut request: StreamRequest) -> Result<(), HostError> {
        self.spent.pays(&mut request);
        debug_assert!(!request.is_answered(), "{request:?} is asked");
        self.spent.stream(request.bytes(), &mut self.room.resources)?;
        if self.room.topology.room_of(stream.home()) == self.room.me {
            return self.room.stream(self.now, stream, request, None).map(drop);
        }
        let stream = stream.clone();
        let mail = StreamMail { stream, request, member: None, reply: None };
        self.room.resources.post_stream(mail);
        Ok(())
    }

    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        self.effects.as_deref_mut().map(|effects| effects as &mut dyn Dispatcher)
    }
}
