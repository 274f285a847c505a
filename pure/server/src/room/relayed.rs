//! Relayed matches: members talk to each other through the server, which knows no rules.
//! Source: Nakama 3.40, `server/pipeline_match.go`.

use event::Now;
use game::guest::Broadcast;
use game::match_id::MatchId;
use game::stream::StreamMeta;
use uuid::Uuid;
use wire::nakama::realtime::{Match, Message, error_code};

use super::Room;
use super::registry::{Key, Stream};
use super::streams::told;
use crate::frames::{self, OfMatch};
use crate::mail::{MatchInput, Member, Then};

/// What a message counts beside its data, about as much as its frame has.
const MESSAGE_BYTES: u64 = 128;
/// All members of a match together may send as much as so many of them, before messages give way.
const SENDERS_AT_ONCE: u64 = 2;

impl Room {
    /// `match_create`: makes the match, or joins the one that has the name already.
    pub(super) fn relayed_create(&mut self, now: Now, member: &Member, cid: &str, id: MatchId) {
        self.relayed_enter(now, member, cid, id, true);
    }

    /// `match_join` by id or by a matchmaker's token.
    pub(super) fn relayed_join(
        &mut self,
        now: Now,
        member: &Member,
        cid: &str,
        id: MatchId,
        by_token: bool,
    ) {
        if !by_token && self.streams.get(&id.into()).is_none() {
            let frame =
                frames::error(member.format, cid, error_code::MATCH_NOT_FOUND, "Match not found");
            return self.outbox.one(member, frame, Then::Answered);
        }
        self.relayed_enter(now, member, cid, id, false);
    }

    /// Adds a member; then all members are told of it, itself too. After its answer: clients look at
    /// events of a match only when they have been told that they are in it.
    fn relayed_enter(
        &mut self,
        now: Now,
        member: &Member,
        cid: &str,
        id: MatchId,
        counts_all: bool,
    ) {
        let key = Key::from(id);
        let is_new = self.streams.find(&key, member.presence.session_id).is_none();
        if is_new {
            self.join(now, &key, member, StreamMeta::default());
        }
        self.relayed_answer(member, cid, id, is_new, counts_all);
        if is_new {
            let joins = told(member, StreamMeta::default());
            self.tell(now, &key, joins.as_slice(), &[]);
        }
    }

    /// The answer: a new member finds only the others in it, one who was there already himself
    /// too. `counts_all` makes the size that of the match, whoever is listed.
    fn relayed_answer(
        &mut self,
        member: &Member,
        cid: &str,
        id: MatchId,
        is_new: bool,
        counts_all: bool,
    ) {
        let left_out = if is_new { member.presence.session_id } else { Uuid::nil() };
        let presences = self.presences_without(&id.into(), left_out);
        let size = if counts_all { self.streams.count(&id.into()) } else { presences.len() };
        let answer = Match {
            match_id: id.text(&self.topology.nodes),
            size: i32::try_from(size).unwrap_or(i32::MAX),
            presences,
            own: Some(frames::user_presence(&member.presence)),
            ..Default::default()
        };
        let frame = frames::frame(member.format, cid, Some(Message::Match(answer)));
        self.outbox.one(member, frame, Then::Answered);
    }

    /// `match_data_send`: to all others, or to those listed, who may include the sender. When it is
    /// more than its sender, or all members together, may send, members who are behind do not get it:
    /// a flood is its sender's fault, not that of who reads slowly.
    pub(super) fn relayed_data(&mut self, now: Now, input: &MatchInput) {
        let datagrams_of = self.datagrams_of();
        let Some(Stream { members, sent }) = self.streams.get_mut(&input.id.into()) else {
            return self.stats.match_messages_unroutable.up();
        };
        let Some(sender) = members.get_mut(input.session_id) else {
            return self.stats.match_messages_unroutable.up();
        };
        let bytes = MESSAGE_BYTES + input.data.len() as u64;
        let bytes_max = self.settings.matches.relayed_bytes_per_s;
        let all_max = bytes_max.saturating_mul(SENDERS_AT_ONCE);
        let is_excess = [
            sent.is_excess(now, bytes, all_max),
            sender.meta.sent.is_excess(now, bytes, bytes_max),
        ];
        let mut then = Then::Nothing;
        if is_excess.contains(&true) {
            then = Then::DropIfBehind;
            self.stats.relayed_messages_excess.up();
            let what = "a relayed match is flooded, members who are behind get part of it";
            self.limit_log.hit(now, "match.relayed_bytes_per_sec", what);
        }
        let message = Broadcast {
            op_code: input.op_code,
            data: input.data.clone(),
            to: None,
            sender: Some(sender.member.presence.clone()),
            reliable: input.reliable,
            deferred: false,
        };
        let (members, match_id) = (&*members, input.id.text(&self.topology.nodes));
        let of = OfMatch { id: input.id, text: &match_id, message: &message, datagrams_of };
        let delivered = if input.to.is_empty() {
            let is_other = |member: &&Member| member.presence.session_id != input.session_id;
            self.outbox.of_match(members.members().filter(is_other), &of, then)
        } else {
            let to = members.among(&input.to).map(|joined| &joined.member);
            self.outbox.of_match(to, &of, then)
        };
        self.stats.match_messages_delivered.add(delivered);
    }
}
