//! Relayed matches: members talk to each other through the server, which knows no rules.
//! Source: Nakama 3.40, `server/pipeline_match.go`.

use std::sync::Arc;

use event::Now;
use game::directory::DirectoryEvent;
use game::guest::Broadcast;
use game::match_id::MatchId;
use uuid::Uuid;
use wire::nakama::realtime::{Match, Message, error_code};

use super::flow::Flow;
use super::{Room, presences_without, take_leavers};
use crate::frames;
use crate::group::Group;
use crate::mail::{MatchInput, Member, Then};

/// A relayed match: it lives as long as it has members.
#[derive(Debug)]
pub(super) struct Relayed {
    /// `<uuid>.`
    text: String,
    /// With what each of them sends.
    pub(super) members: Group<Flow>,
    /// What all of them send together.
    all: Flow,
}

/// What a message counts beside its data, about as much as its frame has.
const MESSAGE_BYTES: u64 = 128;
/// All members of a match together may send as much as so many of them, before messages give way.
const SENDERS_AT_ONCE: u64 = 2;

impl Room {
    /// `match_create`: makes the match, or joins the one that has the name already.
    pub(super) fn relayed_create(&mut self, now: Now, member: &Member, cid: &str, id: MatchId) {
        let is_new = self.relayed_enter(now, member, id);
        self.relayed_answer(member, cid, id, is_new, true);
        if is_new {
            self.relayed_joined(member, id);
        }
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
        if !by_token && !self.relayed.contains_key(&id.uuid) {
            let frame =
                frames::error(member.format, cid, error_code::MATCH_NOT_FOUND, "Match not found");
            return self.outbox.one(member, frame, Then::Answered);
        }
        let is_new = self.relayed_enter(now, member, id);
        self.relayed_answer(member, cid, id, is_new, false);
        if is_new {
            self.relayed_joined(member, id);
        }
    }

    /// Adds a member, of whom nobody is told yet; returns whether he is new.
    fn relayed_enter(&mut self, now: Now, member: &Member, id: MatchId) -> bool {
        let is_new_match = !self.relayed.contains_key(&id.uuid);
        let relayed = self.relayed.entry(id.uuid).or_insert_with(|| Relayed {
            text: id.text(""),
            members: Group::default(),
            all: Flow::default(),
        });
        let session_id = member.presence.session_id;
        let is_member = relayed.members.has(session_id);
        if !is_member {
            relayed.members.put(member.clone(), Flow::default());
            *self.relayed_of.entry(member.presence.user_id).or_default() += 1;
            self.stats.presences.up();
        }
        let size = relayed.members.len();
        if is_new_match {
            self.stats.relayed_matches.up();
            self.change(|version| DirectoryEvent::MatchCreated {
                id,
                version,
                handler_name: Arc::from(""),
                tick_rate_hz: 0,
                label: Arc::from(""),
                size: 1,
                create_time_ms: now.unix_ms,
            });
        } else if !is_member {
            self.resized(id, size);
        }
        self.joined(session_id, id);
        !is_member
    }

    /// Tells all members of a new one, him too. After his answer: clients look at events of a
    /// match only when they have been told that they are in it.
    fn relayed_joined(&mut self, member: &Member, id: MatchId) {
        let Some(relayed) = self.relayed.get(&id.uuid) else { return };
        let joins = std::slice::from_ref(&member.presence);
        let make = frames::match_presences(&relayed.text);
        let told = self.outbox.presences(relayed.members.members(), (joins, &[]), make);
        self.stats.presence_event_count.add(told);
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
        let Some(relayed) = self.relayed.get(&id.uuid) else { return };
        let left_out = if is_new { member.presence.session_id } else { Uuid::nil() };
        let presences = presences_without(&relayed.members, left_out);
        let size = if counts_all { relayed.members.len() } else { presences.len() };
        let answer = Match {
            match_id: relayed.text.clone(),
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
        let Some(relayed) = self.relayed.get_mut(&input.id.uuid) else {
            return self.stats.match_messages_unroutable.up();
        };
        let Some(sender) = relayed.members.get_mut(input.session_id) else {
            return self.stats.match_messages_unroutable.up();
        };
        let bytes = MESSAGE_BYTES + input.data.len() as u64;
        let bytes_max = self.settings.matches.relayed_bytes_per_s;
        let all_max = bytes_max.saturating_mul(SENDERS_AT_ONCE);
        let is_excess = [
            relayed.all.is_excess(now, bytes, all_max),
            sender.meta.is_excess(now, bytes, bytes_max),
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
        let relayed = &*relayed;
        let make = |format| frames::match_data(format, &relayed.text, &message);
        let delivered = if input.to.is_empty() {
            let is_other = |member: &&Member| member.presence.session_id != input.session_id;
            self.outbox.many_then(relayed.members.members().filter(is_other), then, make)
        } else {
            let to = relayed.members.among(&input.to).map(|joined| &joined.member);
            self.outbox.many_then(to, then, make)
        };
        self.stats.match_messages_delivered.add(delivered);
    }

    /// Members go (their sessions, sorted); the others are told, the last one closes the match.
    pub(super) fn relayed_leave(&mut self, sessions: &[Uuid], id: MatchId) {
        let Some(relayed) = self.relayed.get_mut(&id.uuid) else { return };
        let leavers = take_leavers(&mut relayed.members, sessions);
        if leavers.is_empty() {
            return;
        }
        for leaver in &leavers {
            self.stats.presences.down();
            if let Some(count) = self.relayed_of.get_mut(&leaver.user_id) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.relayed_of.remove(&leaver.user_id);
                }
            }
        }
        if relayed.members.is_empty() {
            self.relayed.remove(&id.uuid);
            self.stats.relayed_matches.down();
            return self.ended(id);
        }
        let make = frames::match_presences(&relayed.text);
        let told = self.outbox.presences(relayed.members.members(), (&[], &leavers), make);
        self.stats.presence_event_count.add(told);
        let size = relayed.members.len();
        self.resized(id, size);
    }
}
