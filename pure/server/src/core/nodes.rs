//! Other nodes, as a core has to do with them: what its sessions have there, and what becomes of it when a
//! node comes or goes.
//!
//! Who waits for an answer of a node that is gone gets an error; a session that may have been in a match or
//! stream there, or have followed somebody, is closed with a reason, because nobody is left to say who else
//! was in it: its client connects anew. Users whose home has begun anew are told to it, with their statuses.
//! What sessions want of a node that is away is refused at once.
//!
//! Data in: what is asked of rooms, and [`crate::mail::CoreMail::Nodes`]. Data out: errors, closes, requests.
//! Not here: which room a group lives on (`mail::Topology`), who says which nodes live, and what rooms forget
//! of them (`room::nodes`).

use std::collections::BTreeMap;
use std::sync::Arc;

use event::{ConnId, Now, Output};
use game::node::NodeId;
use smallvec::SmallVec;
use wire::nakama::realtime::error_code;

use super::socket::{Far, Waiting};
use super::{Core, State};
use crate::mail::{AWAY, Address, Format, Mail, Member, RoomMail, RoomRequest, Topology};

/// Why a socket is closed that had something on a node that is gone (RFC 6455 §7.4.1: going away).
const GONE: (u16, &str) = (1001, "a node of the cluster is gone");

/// What sessions have on other nodes, by their slots: nothing, on a node that is alone.
#[derive(Debug, Default)]
pub(super) struct Abroad {
    /// Statuses of users whose home is on another node; `None` of who does not appear online.
    statuses: BTreeMap<u32, Option<Box<str>>>,
    /// Nodes where a session may be in a match or stream, or follow somebody.
    parts: BTreeMap<u32, SmallVec<[NodeId; 2]>>,
}

impl Abroad {
    pub(super) fn forget(&mut self, slot: u32) {
        self.statuses.remove(&slot);
        self.parts.remove(&slot);
    }

    /// A node where a message was has answered it, or handed it on.
    pub(super) fn note_answered(&mut self, conn: ConnId, far: &Far) {
        if let Some(node) = far.at.filter(|_| far.enters) {
            self.note_part(conn.slot, node);
        }
    }

    fn note_part(&mut self, slot: u32, node: NodeId) {
        let parts = self.parts.entry(slot).or_default();
        if !parts.contains(&node) {
            parts.push(node);
        }
    }
}

impl Core {
    /// A session's status is told to its user's home. If that is on another node it is kept, too.
    pub(super) fn note_status(
        &mut self,
        conn: ConnId,
        home: Address<RoomMail>,
        status: Option<&str>,
    ) {
        if !self.topology.is_here(home) {
            self.abroad.statuses.insert(conn.slot, status.map(Box::from));
        }
    }

    /// What waits for the answer of a room. `enters`: the session may be in something there then.
    pub(super) fn waiting_at(&self, room: Address<RoomMail>, cid: &str, enters: bool) -> Waiting {
        let mut waiting = Waiting::for_room();
        waiting.goes_to(&self.topology, room, cid, enters);
        waiting
    }

    /// A request goes on to another room.
    pub(super) fn note_forward(&mut self, room: Address<RoomMail>, request: &RoomRequest) {
        let (member, cid, enters) = match request {
            RoomRequest::StatusFollow(follow) => (&follow.member, &follow.cid, true),
            RoomRequest::StatusUnfollow { member, cid, .. } => (member, cid, false),
            RoomRequest::Stream(wish) => {
                return wish.member.iter().for_each(|member| self.note_wanted(room, member));
            }
            _ => return,
        };
        let Some(cid) = cid else {
            // A script wants it, and the session waits for nothing.
            if enters {
                self.note_wanted(room, member);
            }
            return;
        };
        if let Some(place) = self.conns.get_mut(member.address.conn.slot as usize)
            && let State::Socket(session) = &mut place.state
            && let Some(waiting) = &mut session.waiting
        {
            if let Some(far) = &waiting.far {
                self.abroad.note_answered(member.address.conn, far);
            }
            waiting.goes_to(&self.topology, room, cid, enters);
        }
    }

    /// A script has the session enter something in this room.
    fn note_wanted(&mut self, room: Address<RoomMail>, member: &Member) {
        if !self.topology.is_here(room) {
            self.abroad.note_part(member.address.conn.slot, room.node());
        }
    }

    /// A request of this message to another node is not answered there. Tells whether the session waits for
    /// that.
    pub(super) fn forget_far(&mut self, conn: ConnId, cid: &str) -> bool {
        let Some(place) = self.conns.get_mut(conn.slot as usize) else { return false };
        let State::Socket(session) = &mut place.state else { return false };
        let Some(waiting) = &mut session.waiting else { return false };
        waiting.far.take_if(|far| far.at.is_some() && far.cid == cid).is_some()
    }

    /// Other nodes live from now on.
    pub(super) fn nodes_changed(
        &mut self,
        now: Now,
        topology: Arc<Topology>,
        out: &mut Output<Mail>,
    ) {
        let before = std::mem::replace(&mut self.topology, topology);
        // What has not left yet is refused, and not answered for who is gone.
        self.refuse_unreachable(now, out);
        for (conn, format, cid) in self.waits_for_gone() {
            let bytes = out.unsent();
            self.reply_error(conn, format, &cid, (error_code::RUNTIME_EXCEPTION, AWAY), out);
            self.answered(now, conn, out.unsent() - bytes, out);
        }
        let nodes = &self.topology.nodes;
        let is_gone = |parts: &SmallVec<_>| parts.iter().any(|node| !nodes.is_living(*node));
        let tied = self.abroad.parts.iter().filter(|(_, parts)| is_gone(parts));
        for slot in tied.map(|(slot, _)| *slot).collect::<Vec<u32>>() {
            let Some((conn, _)) = self.open_session(slot) else {
                unreachable!("a session that has ended is in something on another node");
            };
            self.stats.closed_with_node.up();
            self.close_socket(now, conn, GONE.0, GONE.1, out);
        }
        self.tell_new_homes(&before);
    }

    /// Sessions whose message is at a room of a node that is gone.
    fn waits_for_gone(&mut self) -> Vec<(ConnId, Format, String)> {
        let nodes = &self.topology.nodes;
        let is_gone = |far: &mut Box<Far>| far.at.is_some_and(|node| !nodes.is_living(node));
        let waiting = (0..).zip(&mut self.conns).filter_map(|(slot, place)| {
            let State::Socket(session) = &mut place.state else { return None };
            let far = session.waiting.as_mut()?.far.take_if(is_gone)?;
            Some((ConnId { slot, generation: place.generation }, session.format, far.cid))
        });
        waiting.collect()
    }

    /// Tells nodes that have come of the sessions whose users' home they are.
    fn tell_new_homes(&mut self, before: &Topology) {
        let homeless = self.abroad.statuses.iter().filter_map(|(slot, status)| {
            let Some((conn, session)) = self.open_session(*slot) else {
                unreachable!("a session that has ended has a status on another node");
            };
            let home = self.topology.room_of(session.user_id());
            let is_new = self.topology.is_reachable(home) && !before.is_reachable(home);
            let opened = || RoomRequest::Opened {
                member: self.member(conn, session),
                status: status.clone(),
            };
            is_new.then(|| (home, opened()))
        });
        for (home, opened) in homeless.collect::<Vec<_>>() {
            self.request_room(home, opened);
        }
    }

    /// Refuses what was asked in this turn of rooms whose node is away: nobody is there to answer. Who
    /// is refused may have asked more, which is looked at then.
    pub(super) fn refuse_unreachable(&mut self, now: Now, out: &mut Output<Mail>) {
        if self.room_requests.len() == self.topology.rooms.len() {
            return;
        }
        let topology = Arc::clone(&self.topology);
        while let Some(place) =
            self.room_requests.iter().position(|(room, ..)| !topology.is_reachable(*room))
        {
            let (room, requests, _) = self.room_requests.swap_remove(place);
            for request in requests {
                self.request_refused(now, room, request, out);
            }
        }
    }
}
