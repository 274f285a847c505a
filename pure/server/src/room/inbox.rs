//! Messages to a match that wait for its next tick, bounded, and fair when there are too many: then
//! the user with the most waiting messages loses the newest of them, so that one who floods the
//! match takes nothing from those who do not. Order stays the order of arrival.
//!
//! While there is room nobody is counted: a message costs a push. Not here: who may send.

use std::collections::BTreeMap;

use bytes::Bytes;
use game::guest::MatchMessage;
use uuid::Uuid;

/// The messages of one match.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    messages: Vec<MatchMessage>,
    /// Kept from the first message on for which there was no room until the tick.
    crowd: Option<Crowd>,
}

/// Who has what in a full inbox.
#[derive(Debug, Default)]
struct Crowd {
    /// Places in `messages` by user, in order.
    places: BTreeMap<Uuid, Vec<usize>>,
    /// Whether the message at a place was dropped since: taking it out would move all behind it.
    is_dropped: Vec<bool>,
    dropped: usize,
}

impl Crowd {
    fn of(messages: &[MatchMessage]) -> Self {
        let mut crowd = Self::default();
        messages.iter().for_each(|message| crowd.add(message.sender.user_id));
        crowd
    }

    fn add(&mut self, user_id: Uuid) {
        self.places.entry(user_id).or_default().push(self.is_dropped.len());
        self.is_dropped.push(false);
    }

    /// The place of the message that goes for one of `user_id`; `None` if that one goes itself.
    fn drop_for(&mut self, user_id: Uuid) -> Option<usize> {
        let own = self.places.get(&user_id).map_or(0, Vec::len);
        let (_, most) = self.places.iter_mut().max_by_key(|(_, places)| places.len())?;
        if most.len() <= own {
            return None;
        }
        let place = most.pop()?;
        self.is_dropped[place] = true;
        self.dropped += 1;
        Some(place)
    }
}

impl Inbox {
    /// Takes a message; at most `messages_max` wait. Tells whether all could stay.
    pub(super) fn push(&mut self, message: MatchMessage, messages_max: usize) -> bool {
        if self.crowd.is_none() && self.messages.len() < messages_max {
            self.messages.push(message);
            return true;
        }
        let crowd = self.crowd.get_or_insert_with(|| Crowd::of(&self.messages));
        let user_id = message.sender.user_id;
        let Some(place) = crowd.drop_for(user_id) else { return false };
        self.messages[place].data = Bytes::new();
        crowd.add(user_id);
        self.messages.push(message);
        if crowd.dropped >= messages_max {
            self.sweep();
            self.crowd = Some(Crowd::of(&self.messages));
        }
        false
    }

    /// Takes all messages out.
    pub(super) fn take(&mut self) -> Vec<MatchMessage> {
        self.sweep();
        std::mem::take(&mut self.messages)
    }

    /// Gives the memory of a list that was taken back, unless messages came in meanwhile.
    pub(super) fn reuse(&mut self, mut messages: Vec<MatchMessage>) {
        if self.messages.is_empty() {
            messages.clear();
            self.messages = messages;
        }
    }

    /// Takes out what was dropped.
    fn sweep(&mut self) {
        let Some(crowd) = self.crowd.take() else { return };
        let mut is_dropped = crowd.is_dropped.into_iter();
        self.messages.retain(|_| !is_dropped.next().unwrap_or(false));
    }
}

#[cfg(test)]
mod tests {
    use game::guest::{MatchMessage, Presence};
    use game::node::NodeId;
    use uuid::Uuid;

    use super::Inbox;

    fn message(user: u8, op_code: i64) -> MatchMessage {
        let id = Uuid::from_u128(u128::from(user));
        let (username, node) = ("x".into(), NodeId::default());
        let sender = Presence { user_id: id, session_id: id, username, node };
        let data = vec![user].into();
        MatchMessage { sender, op_code, data, reliable: true, receive_time_ms: 0 }
    }

    fn taken(inbox: &mut Inbox) -> Vec<(u8, i64)> {
        inbox.take().iter().map(|message| (message.data[0], message.op_code)).collect()
    }

    #[test]
    fn who_floods_loses() {
        let mut inbox = Inbox::default();
        // One sends 1,000, two others 3 each in between; there is room for 10.
        let mut lost = 0;
        for at in 0..1_000 {
            lost += u32::from(!inbox.push(message(1, at), 10));
            if at % 400 == 0 {
                lost += u32::from(!inbox.push(message(2, at), 10));
                lost += u32::from(!inbox.push(message(3, at), 10));
            }
        }
        let of_first = [(1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (1, 3)];
        let of_rest = [(2, 400), (3, 400), (2, 800), (3, 800)];
        assert_eq!(taken(&mut inbox), [&of_first[..], &of_rest[..]].concat());
        assert_eq!(lost, 1_006 - 10);
        assert!(inbox.push(message(1, 7), 10));
        assert_eq!(taken(&mut inbox), [(1, 7)]);
    }

    #[test]
    fn what_was_dropped_is_bounded() {
        let mut inbox = Inbox::default();
        for at in 0..10 {
            inbox.push(message(1, at), 10);
        }
        for user in 2..=250 {
            inbox.push(message(user, 0), 10);
            assert!(inbox.messages.len() <= 20);
        }
        assert_eq!(inbox.take().len(), 10);
    }
}
