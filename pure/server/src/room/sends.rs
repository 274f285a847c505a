//! What scripts send to streams in a second, weighed by how many members get it: by the call that sends
//! and by the user who made that call, or by all matches of the room whose callback it is, together. So
//! whoever has scripts send to large streams again and again is stopped before the others of the room and
//! of the cores wait for it.
//!
//! Data in: who pays, and how much it was. Data out: the setting that says no. Not here: sending.

use std::collections::BTreeMap;

use event::Now;
use game::node::NodeId;
use game::stream::Payer;
use uuid::Uuid;

use crate::settings::LimitSettings;

/// A call: the node and the thread that run it, and its number there.
type Call = (NodeId, u16, u64);

fn call_of(payer: Payer) -> Call {
    (payer.node, payer.thread, payer.call)
}

/// The room whose match it is.
fn room_of(payer: Payer) -> (NodeId, u16) {
    (payer.node, payer.thread)
}

/// Deliveries of this second. What is kept of it is bounded by what a room gets done in a second.
#[derive(Debug, Default)]
pub(super) struct Sends {
    second: u64,
    of_calls: BTreeMap<Call, u64>,
    of_users: BTreeMap<Uuid, u64>,
    /// Of all matches of a room: its node and thread.
    of_rooms: BTreeMap<(NodeId, u16), u64>,
    callbacks: u64,
}

impl Sends {
    /// Who pays for a callback of a match: itself, and all matches of this room together.
    pub(super) fn callback(&mut self, (node, thread): (NodeId, u16)) -> Payer {
        self.callbacks += 1;
        Payer { user_id: None, node, thread, call: self.callbacks, is_match: true }
    }

    /// The setting by which nothing more may be sent on this account in this second, and its value.
    pub(super) fn refusal(
        &mut self,
        now: Now,
        payer: Payer,
        limits: &LimitSettings,
    ) -> Option<(&'static str, u32)> {
        let second = now.mono_ns / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.of_calls.clear();
            self.of_users.clear();
            self.of_rooms.clear();
        }
        let of_call = self.of_calls.get(&call_of(payer)).copied().unwrap_or(0);
        let of_user = payer.user_id.and_then(|id| self.of_users.get(&id)).copied().unwrap_or(0);
        let room = payer.is_match.then(|| self.of_rooms.get(&room_of(payer)));
        let of_room = room.flatten().copied().unwrap_or(0);
        let (call_max, user_max) =
            (limits.stream_deliveries_per_call, limits.stream_deliveries_per_user_per_s);
        let room_max = limits.stream_deliveries_of_matches_per_s;
        let is_met = |count: u64, max: u32| max > 0 && count >= u64::from(max);
        if is_met(of_call, call_max) {
            Some(("limit.stream_deliveries_per_call", call_max))
        } else if is_met(of_user, user_max) {
            Some(("limit.stream_deliveries_per_user_per_s", user_max))
        } else if is_met(of_room, room_max) {
            Some(("limit.stream_deliveries_of_matches_per_s", room_max))
        } else {
            None
        }
    }

    /// So many members were sent something. A message that nobody gets counts, too.
    pub(super) fn note(&mut self, payer: Payer, count: u64) {
        let count = count.max(1);
        *self.of_calls.entry(call_of(payer)).or_default() += count;
        if let Some(user_id) = payer.user_id {
            *self.of_users.entry(user_id).or_default() += count;
        }
        if payer.is_match {
            *self.of_rooms.entry(room_of(payer)).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use event::Now;
    use game::node::{NodeId, Nodes};
    use game::stream::Payer;
    use uuid::Uuid;

    use super::Sends;
    use crate::settings::LimitSettings;

    #[test]
    fn calls_and_users_pay_for_themselves_each_second() {
        let limits = LimitSettings {
            stream_deliveries_per_call: 10,
            stream_deliveries_per_user_per_s: 15,
            ..LimitSettings::default()
        };
        let (mut sends, now) = (Sends::default(), Now::default());
        let of = |user: u128, call| Payer {
            user_id: (user > 0).then(|| Uuid::from_u128(user)),
            node: NodeId::default(),
            thread: 3,
            call,
            is_match: false,
        };
        let by = |sends: &mut Sends, now, payer| sends.refusal(now, payer, &limits);
        // What begins below the limit is sent to all.
        sends.note(of(1, 1), 12);
        let of_call = Some(("limit.stream_deliveries_per_call", 10));
        assert_eq!(by(&mut sends, now, of(1, 1)), of_call);
        assert_eq!(by(&mut sends, now, Payer { thread: 4, ..of(1, 1) }), None, "another call");
        let node = Nodes::default().here();
        let elsewhere = Payer { node, ..of(1, 1) };
        assert_eq!(by(&mut sends, now, elsewhere), None, "the same numbers on another node");
        sends.note(of(1, 2), 3);
        let of_user = Some(("limit.stream_deliveries_per_user_per_s", 15));
        assert_eq!(by(&mut sends, now, of(1, 3)), of_user);
        // Neighbours pay nothing, with a user or without.
        assert_eq!(by(&mut sends, now, of(2, 4)), None);
        assert_eq!(by(&mut sends, now, of(0, 5)), None);
        (0..10).for_each(|_| sends.note(of(0, 5), 0));
        assert_eq!(by(&mut sends, now, of(0, 5)), of_call, "what nobody gets costs, too");
        let later = now.after_ms(1_000);
        assert_eq!(by(&mut sends, later, of(1, 1)), None);
        let off = LimitSettings {
            stream_deliveries_per_call: 0,
            stream_deliveries_per_user_per_s: 0,
            stream_deliveries_of_matches_per_s: 0,
            ..LimitSettings::default()
        };
        sends.note(of(1, 1), 1_000);
        assert_eq!(sends.refusal(later, of(1, 1), &off), None);
    }

    #[test]
    fn all_matches_of_a_room_pay_together() {
        let limits = LimitSettings {
            stream_deliveries_per_call: 10,
            stream_deliveries_of_matches_per_s: 25,
            ..LimitSettings::default()
        };
        let (mut sends, now, node) = (Sends::default(), Now::default(), NodeId::default());
        for _ in 0..3 {
            let callback = sends.callback((node, 1));
            assert_eq!(sends.refusal(now, callback, &limits), None);
            sends.note(callback, 9);
        }
        let refused = Some(("limit.stream_deliveries_of_matches_per_s", 25));
        let next = sends.callback((node, 1));
        assert_eq!(sends.refusal(now, next, &limits), refused);
        // Those of another room, and calls that are no match's, pay nothing for it.
        let elsewhere = sends.callback((node, 2));
        assert_eq!(sends.refusal(now, elsewhere, &limits), None);
        assert_eq!(sends.refusal(now, Payer { is_match: false, ..next }, &limits), None);
        assert_eq!(sends.refusal(now.after_ms(1_000), next, &limits), None);
    }
}
