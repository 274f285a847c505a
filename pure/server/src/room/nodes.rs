//! What a room does when another node comes or goes. Who was there leaves everything here, with the events
//! that those who stay are told, and is waited for no more; what callbacks wait for there they are told is
//! not; and who comes is told of all that lives here.
//!
//! Data in: [`crate::mail::RoomMail::Nodes`]. Data out: what follows from it, as from sockets that close. Not
//! here: what lived there, which is gone. No group moves because a node does: it begins anew when its home
//! has.

use std::collections::BTreeSet;
use std::sync::Arc;

use event::Now;
use game::directory::DirectoryEvent;
use uuid::Uuid;

use super::Room;
use super::authoritative::Match;
use crate::mail::{Member, Topology};

impl Room {
    /// Other nodes live from now on.
    pub(super) fn nodes_changed(&mut self, now: Now, topology: Arc<Topology>) {
        let before = std::mem::replace(&mut self.topology, topology);
        let nodes = &self.topology.nodes;
        let has_come = nodes.living().any(|node| !before.nodes.is_living(node));
        let has_gone = before.nodes.living().any(|node| !nodes.is_living(node));
        self.resources.nodes_changed(nodes);
        self.outbox.retain(|core| nodes.is_living(core.node()));
        if has_gone {
            self.sessions_gone(now);
            self.matches.values_mut().for_each(|found| {
                let nodes = &self.topology.nodes;
                found.queue.retain_signals(|from| nodes.is_living(from.who.node()));
            });
            self.lose_answers(now);
        }
        if has_come {
            self.retell();
        }
    }

    /// Nobody is left to say that these sessions have ended.
    fn sessions_gone(&mut self, now: Now) {
        let joiners = self.matches.values().flat_map(Match::joiners);
        let is_gone = |member: &&Member| !self.topology.nodes.is_living(member.address.core.node());
        let gone = self.streams.everybody().chain(joiners).filter(is_gone);
        let gone: BTreeSet<(Uuid, Uuid)> =
            gone.map(|Member { presence, .. }| (presence.session_id, presence.user_id)).collect();
        self.closed(now, &mut gone.into_iter().collect());
    }

    /// Tells all directories again of what lives here: to most of them it is no news.
    fn retell(&mut self) {
        let listed = self.resources.directory.told_by(self.me.node());
        let is_mine =
            |one: &&game::directory::Listed| self.topology.room_of_match(one.id) == self.me;
        for one in listed.filter(is_mine).cloned().collect::<Vec<_>>() {
            self.change(|version| DirectoryEvent::MatchCreated {
                id: one.id,
                version,
                info: one.info,
                size: one.size,
            });
        }
        self.resources.directory.retell_online();
    }
}
