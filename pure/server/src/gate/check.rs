//! Whether a node may say what it says: to which threads, in which words, and of whom. Mail of this node's
//! own threads is not looked at; that of others must not bring a thread into a state that it takes for
//! impossible, nor speak for a third node.
//!
//! A node speaks for its own sessions, matches and cache entries, and to any thread that there is of the kind
//! that the mail is for. What it says of ours (that a socket gets a frame, a token counts no more) is
//! believed: nodes of a cluster trust each other with their users. Addresses to answer to may be of any
//! node, because questions are passed on; of this one, the thread has to be there.

use event::Now;
use game::directory::DirectoryEvent;
use game::node::NodeId;

use super::letter::Body;
use crate::mail::{
    Address, Asker, Chase, CoreMail, Member, News, Reply, RoomMail, RoomRequest, StreamMail, Then,
    Topology, Waiter, WorkerAddress,
};

/// How far another node's clock may be ahead, milliseconds: stamps of the cache pull all clocks along.
const AHEAD_MS: u64 = 60_000;

/// Who says something, to whom, and when.
pub(super) struct Check<'a> {
    pub(super) topology: &'a Topology,
    pub(super) from: NodeId,
    pub(super) now: Now,
}

impl Check<'_> {
    pub(super) fn is_allowed(&self, body: &Body) -> bool {
        match body {
            Body::Core(to, mail) => self.topology.cores.contains(to) && self.core_mail(mail),
            Body::Room(to, mail) => self.topology.rooms.contains(to) && self.room_mail(mail),
            // Whether it is one to what was asked, who has asked knows (`question`).
            Body::Worker(to, News::Answer { node, .. }) => {
                *node == self.from && self.is_worker(*to)
            }
            Body::Worker(..) => false,
            Body::Directory(events) => events.iter().all(|event| self.event(event)),
            Body::Cache(changes) => {
                let until_ms = self.now.unix_ms.saturating_add(AHEAD_MS);
                changes.iter().all(|change| change.is_of(self.from, until_ms))
            }
            Body::Sessions(_) => true,
        }
    }

    fn core_mail(&self, mail: &CoreMail) -> bool {
        match mail {
            CoreMail::WakeUp => true,
            // Bodies of datagrams are read by who is sure that they were made here.
            CoreMail::Deliver(all) => {
                all.iter().all(|delivery| !matches!(delivery.then, Then::ByDatagram { .. }))
            }
            // On its way by way of the core that has the session.
            CoreMail::Forward(request) => self.request(request, self.topology.nodes.here()),
            CoreMail::Done(_)
            | CoreMail::Sessions(_)
            | CoreMail::TickRate { .. }
            | CoreMail::Drained
            | CoreMail::Nodes(_)
            | CoreMail::Guests(_) => false,
        }
    }

    fn room_mail(&self, mail: &RoomMail) -> bool {
        match mail {
            RoomMail::Requests(all) => all.iter().all(|request| self.request(request, self.from)),
            RoomMail::Streams(all) => all.iter().all(|wish| self.wish(wish, self.from)),
            RoomMail::Signal { from, by, .. } => {
                let plays = by.as_ref().and_then(|by| by.plays);
                self.waiter(*from) && self.reply(plays)
            }
            RoomMail::TakeBack { from, .. } => self.waiter(*from),
            RoomMail::Chase { chase, .. } => {
                let Chase { by, from, before, last, .. } = **chase;
                [Some(from), by.plays, before, Some(last.1)].iter().all(|who| self.reply(*who))
            }
            RoomMail::Answer { node, .. } => *node == self.from,
            RoomMail::Notify(_) => true,
            RoomMail::Create { .. }
            | RoomMail::Cancel { .. }
            | RoomMail::Directory(_)
            | RoomMail::Cache(_)
            | RoomMail::Returned(_)
            | RoomMail::Fetched(_)
            | RoomMail::Drain { .. }
            | RoomMail::Nodes(_)
            | RoomMail::Zone(_)
            | RoomMail::Guests(_) => false,
        }
    }

    /// What a session of node `of` wants.
    fn request(&self, request: &RoomRequest, of: NodeId) -> bool {
        match request {
            RoomRequest::Opened { member, .. }
            | RoomRequest::MatchCreate { member, .. }
            | RoomRequest::MatchJoin { member, .. }
            | RoomRequest::MatchLeave { member, .. }
            | RoomRequest::StatusUpdate { member, .. }
            | RoomRequest::StatusUnfollow { member, .. } => self.member(member, of),
            RoomRequest::StatusFollow(follow) => self.member(&follow.member, of),
            RoomRequest::Stream(wish) => wish.member.is_some() && self.wish(wish, of),
            RoomRequest::Closed { .. } | RoomRequest::MatchData(_) => true,
        }
    }

    fn wish(&self, StreamMail { member, reply, .. }: &StreamMail, of: NodeId) -> bool {
        member.as_ref().is_none_or(|member| self.member(member, of)) && self.reply(*reply)
    }

    fn member(&self, member: &Member, of: NodeId) -> bool {
        member.presence.node == of
            && member.address.core.node() == of
            && self.topology.is_core(member.address.core)
    }

    fn reply(&self, reply: Reply) -> bool {
        reply.is_none_or(|waiter| self.waiter(waiter))
    }

    fn waiter(&self, Waiter { who, .. }: Waiter) -> bool {
        let is_thread = match who {
            Asker::Worker(to) => self.is_worker(to),
            Asker::Room(to) => self.topology.rooms.contains(&to),
        };
        is_thread || !self.topology.nodes.is_here(who.node())
    }

    fn is_worker(&self, to: WorkerAddress) -> bool {
        self.topology.workers().any(|worker| worker == to)
    }

    /// News of a match that lives there, or of who is online by the word of a room there.
    fn event(&self, event: &DirectoryEvent) -> bool {
        let is_room = |thread| {
            self.topology
                .rooms_at(self.from)
                .any(|room: Address<RoomMail>| room.thread().0 == thread)
        };
        event.is_of(self.from, is_room)
    }
}
