//! What a script that runs on a room may ask for at once: [`RoomHost`] is lent to it for one piece of a
//! callback. What needs another thread, or a callback of a match, it has to wait for (`asks`).

use event::Now;
use game::db::Database;
use game::guest::{
    Answer, Ask, Broadcast, CommonHost, Dispatcher, Host, HostError, Reply, check_label,
};
use game::host::{Args, HostLane, Remaining};
use game::stream::{StreamId, StreamRequest};
use uuid::Uuid;

use super::Room;
use crate::mail::StreamMail;
use crate::resources::{CANNOT_WAIT, Spent, from_resources};
use crate::settings::MatchSettings;

/// Sessions to be removed, and how many of the callback's messages they still get.
pub(super) type Kicks = Vec<(usize, Vec<Uuid>)>;

/// What the dispatcher of one callback was asked for.
#[derive(Debug)]
pub(super) struct Effects {
    messages: Vec<Broadcast>,
    /// How many were taken away already.
    sent: usize,
    deferred: Vec<Broadcast>,
    deferred_max: usize,
    /// Of all messages together.
    bytes_left: usize,
    /// Whether a message was refused because of its bytes.
    is_full: bool,
    kicks: Kicks,
    label: Option<String>,
}

impl Effects {
    pub(super) fn new(settings: &MatchSettings) -> Self {
        Self {
            messages: Vec::new(),
            sent: 0,
            deferred: Vec::new(),
            deferred_max: settings.deferred_queue_size,
            bytes_left: settings.broadcast_bytes_max,
            is_full: false,
            kicks: Vec::new(),
            label: None,
        }
    }

    /// What there is to do now: messages in the order of sending; kicks, each behind so many of them;
    /// the new label. When the callback `is_over`, the deferred messages come last.
    pub(super) fn take(&mut self, is_over: bool) -> (Vec<Broadcast>, Kicks, Option<String>) {
        self.sent += self.messages.len();
        let mut messages = std::mem::take(&mut self.messages);
        if is_over {
            messages.append(&mut self.deferred);
        }
        (messages, std::mem::take(&mut self.kicks), self.label.take())
    }

    /// Whether a message was refused since the last look, because of its bytes.
    pub(super) fn take_fullness(&mut self) -> bool {
        std::mem::take(&mut self.is_full)
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
            if self.sent + self.messages.len() >= BROADCASTS_PER_CALLBACK_MAX {
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
    pub(super) fn new(
        room: &'a mut Room,
        now: Now,
        effects: Option<&'a mut Effects>,
        spent: Spent,
    ) -> Self {
        Self { room, now, effects, spent }
    }

    /// What the callback has had so far.
    pub(super) fn into_spent(self) -> Spent {
        self.spent
    }
}

impl Host for RoomHost<'_> {
    fn db(&mut self) -> &mut dyn Database {
        &mut *self.room.resources.db
    }
}

impl CommonHost for RoomHost<'_> {
    from_resources!(room.resources);

    /// What cannot be left runs here, as long as others wait for nothing but it.
    fn ask(&mut self, ask: Ask) -> Answer {
        let Ask::Run { function, values, allowance } = ask else {
            return Err(HostError::new(CANNOT_WAIT));
        };
        let Some(function) = game::host::find(function) else {
            unreachable!("a script calls {function}, which is no function")
        };
        if !matches!(function.lane, HostLane::Read | HostLane::Write) {
            return Err(HostError::new(CANNOT_WAIT));
        }
        let meter = Remaining::new(allowance);
        let args = Args { function: function.name, values: &values, meter: &meter };
        let returns = function.run(self, &args)?;
        Ok(Reply::Returns { returns, steps: meter.used_steps() })
    }

    fn stream(&mut self, stream: &StreamId, mut request: StreamRequest) -> Result<(), HostError> {
        self.spent.pays(&mut request);
        debug_assert!(!request.is_answered(), "{request:?} is asked");
        self.spent.stream(request.bytes(), &mut self.room.resources)?;
        if self.room.topology.room_of_stream(stream) == self.room.me {
            return self.room.stream(self.now, stream, request, None).map(drop);
        }
        let mail = StreamMail { stream: stream.clone(), request, member: None, reply: None };
        self.room.resources.post_stream(mail);
        Ok(())
    }

    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        self.effects.as_deref_mut().map(|effects| effects as &mut dyn Dispatcher)
    }
}
