//! Relayed matches: members talk to each other through the server, which knows no rules.
//! Source: Nakama 3.40, `server/pipeline_match.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::Now;
use game::directory::DirectoryEvent;
use game::guest::Broadcast;
use game::match_id::MatchId;
use uuid::Uuid;
use wire::nakama::realtime::{Match, Message, error_code};

use super::{Room, presences_without, take_leavers};
use crate::frames;
use crate::mail::{MatchInput, Member, Then};

/// A relayed match: it lives as long as it has members.
#[derive(Debug)]
pub(super) struct Relayed {
    /// `<uuid>.`
    text: String,
    members: Vec<Member>,
    /// What members send, by session, and all of them together under the nil id.
    flows: BTreeMap<Uuid, Flow>,
}

/// How much is sent, second by second.
#[derive(Debug, Default)]
struct Flow {
    second: u64,
    bytes: u64,
    /// It was too much in the second before.
    was_excess: bool,
}

impl Flow {
    /// Counts a message; tells whether it is too much, now or in the second before.
    fn is_excess(&mut self, now: Now, bytes: u64, bytes_per_s: u64) -> bool {
        let second = now.mono_ns / 1_000_000_000;
        if second != self.second {
            self.was_excess = self.bytes > bytes_per_s && second == self.second + 1;
            (self.second, self.bytes) = (second, 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.was_excess || self.bytes > bytes_per_s
    }
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
            members: Vec::new(),
            flows: BTreeMap::new(),
        });
        let session_id = member.presence.session_id;
        let is_member = relayed.members.iter().any(|other| other.presence.session_id == session_id);
        if !is_member {
            relayed.members.push(member.clone());
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
        let told = self.outbox.presences(&relayed.text, &relayed.members, joins, &[]);
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

    /// Whether a message is more than its sender, or all members together, may send before members
    /// who are behind get it no more: a flood is its sender's fault, not that of who reads slowly.
    fn relayed_excess(&mut self, now: Now, input: &MatchInput) -> Then {
        let Some(relayed) = self.relayed.get_mut(&input.id.uuid) else { return Then::Nothing };
        let bytes = MESSAGE_BYTES + input.data.len() as u64;
        let bytes_max = self.settings.matches.relayed_bytes_per_s;
        let mut is_excess =
            |id, bytes_max| relayed.flows.entry(id).or_default().is_excess(now, bytes, bytes_max);
        let is_all = is_excess(Uuid::nil(), bytes_max.saturating_mul(SENDERS_AT_ONCE));
        if !is_excess(input.session_id, bytes_max) && !is_all {
            return Then::Nothing;
        }
        self.stats.relayed_messages_excess.up();
        let what = "a relayed match is flooded, members who are behind get part of it";
        self.limit_log.hit(now, "match.relayed_bytes_per_sec", what);
        Then::DropIfBehind
    }

    /// `match_data_send`: to all others, or to those listed, who may include the sender.
    pub(super) fn relayed_data(&mut self, now: Now, input: &MatchInput) {
        let sender = self.relayed.get(&input.id.uuid).and_then(|relayed| {
            relayed.members.iter().find(|member| member.presence.session_id == input.session_id)
        });
        let Some(sender) = sender else {
            return self.stats.match_messages_unroutable.up();
        };
        let sender = sender.presence.clone();
        let then = self.relayed_excess(now, input);
        let Some(relayed) = self.relayed.get(&input.id.uuid) else { return };
        let message = Broadcast {
            op_code: input.op_code,
            data: input.data.clone(),
            to: None,
            sender: Some(sender),
            reliable: input.reliable,
            deferred: false,
        };
        let to = relayed.members.iter().filter(|member| {
            let session_id = member.presence.session_id;
            if input.to.is_empty() {
                session_id != input.session_id
            } else {
                input.to.contains(&session_id)
            }
        });
        let make = |format| frames::match_data(format, &relayed.text, &message);
        let delivered = self.outbox.many_then(to, then, make);
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
            relayed.flows.remove(&leaver.session_id);
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
        let told = self.outbox.presences(&relayed.text, &relayed.members, &[], &leavers);
        self.stats.presence_event_count.add(told);
        let size = relayed.members.len();
        self.resized(id, size);
    }
}
