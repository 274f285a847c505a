//! The zone as a match of this room, and the room as one of those that compute it.
//!
//! The match is listed, joined and left as others are, over the same streams. Its members are hidden from
//! each other, because a snapshot says who is in sight, and because a thousand who come would be told of
//! to a thousand each. Messages to it are packets of `world`, snapshots are messages of it that who is
//! behind does not get.
//!
//! Data in: [`ZoneMail`] of other rooms, requests of sessions, the time. Data out: frames, mail. What is
//! deliberately not here: what the zone does (`crate::zone`).

use std::sync::Arc;

use bytes::Bytes;
use event::Now;
use game::directory::{DirectoryEvent, MatchInfo};
use game::guest::{Broadcast, JoinRequest, PresenceReason};
use game::match_id::MatchId;
use game::stream::StreamMeta;
use uuid::Uuid;
use wire::nakama::realtime::{Match, Message, error_code};
use world::Saved;

use super::registry::{Key, Known};
use super::{Due, Room};
use crate::frames::{self, OfMatch};
use crate::group::GroupMember;
use crate::mail::{BatcherMail, EventsMail, MatchInput, Member, RoomMail, Then, ZoneMail};
use crate::zone::{Around, CONTROLS, Home, Packet, Zone};

/// What listings find the zone by: `+label.kind:zone`.
const LABEL: &str = r#"{"kind":"zone"}"#;

impl Room {
    /// Whether the match is the zone, and this room its home.
    pub(super) fn is_zone(&self, id: Uuid) -> bool {
        let home = self.zone.as_ref().and_then(|zone| zone.home.as_ref());
        home.is_some_and(|home| home.id.uuid == id)
    }

    /// Takes mail of the zone.
    pub(super) fn zone_mail(&mut self, now: Now, mail: ZoneMail) {
        if let ZoneMail::Begin { id, saved } = mail {
            return self.zone_begin(now, id, saved.map(|saved| *saved));
        }
        self.with_zone(|zone, around| zone.take(now, mail, around));
        self.zone_goes_on(now);
    }

    /// The zone stands from now on.
    fn zone_begin(&mut self, now: Now, uuid: Uuid, saved: Option<Saved>) {
        let id = MatchId::authoritative(uuid, self.me.node());
        let (Some(settings), Some(zone)) = (&self.settings.world, &mut self.zone) else {
            unreachable!("a zone begins where no settings are")
        };
        assert!(zone.home.is_none(), "the zone begins twice");
        let match_id = id.text(&self.topology.nodes);
        let tick_rate_hz = settings.tick_rate_hz;
        let rooms = u16::try_from(self.topology.rooms.len()).unwrap_or(u16::MAX);
        let tick = saved.as_ref().map(|saved| saved.tick);
        let home = Home::new(now, id, (zone.me(), rooms), (settings.clone(), saved));
        let (bots, away) = (home.bots(), home.away());
        match tick {
            Some(tick) => tracing::info!(%match_id, bots, away, tick, "the zone goes on"),
            None => tracing::info!(%match_id, bots, "the zone stands"),
        }
        zone.home = Some(home);
        self.zone_guests();
        self.stats.authoritative_matches.up();
        self.rates[usize::from(tick_rate_hz)] += 1;
        self.tell_tick_rate();
        let info = MatchInfo::authoritative(Arc::from(""), tick_rate_hz, LABEL, now.unix_ms);
        let info = Arc::new(info);
        self.change(|version| DirectoryEvent::MatchCreated { id, version, info, size: 0 });
        self.zone_goes_on(now);
    }

    /// The server stops: a zone whose home is here is saved as it is now.
    pub(super) fn zone_stop(&mut self, now: Now) {
        let Some(home) = self.zone.as_mut().and_then(|zone| zone.home.as_mut()) else { return };
        home.stop(now);
        self.zone_timer.take().and_then(|timer| self.timers.disarm(timer));
        self.zone_goes_on(now);
    }

    /// Whether the server may end for what is here of the zone.
    pub(super) fn is_zone_kept(&self) -> bool {
        self.zone.as_ref().and_then(|zone| zone.home.as_ref()).is_none_or(Home::is_kept)
    }

    /// A tick is due.
    pub(super) fn zone_tick(&mut self, now: Now) {
        self.zone_timer = None;
        self.with_zone(|zone, around| zone.tick(now, around));
        self.zone_goes_on(now);
    }

    /// Packets of some more viewers.
    pub(super) fn zone_write(&mut self, now: Now) {
        let mut packets = Vec::new();
        self.zone_writes = false;
        self.zone_has_told |= self.with_zone(|zone, around| zone.write(now, around, &mut packets));
        let Some(zone) = &self.zone else { return };
        let Some(id) = zone.viewers.id else { unreachable!("a tick is told that was not shown") };
        let (text, datagrams_of) = (id.text(&self.topology.nodes), self.datagrams_of());
        for Packet { to, bytes } in packets {
            let of = OfMatch { id, text: &text, message: &message(bytes), datagrams_of };
            self.outbox.of_match(std::iter::once(&to), &of, Then::DropIfBehind);
        }
        self.zone_goes_on(now);
    }

    /// Sends what the home has to tell single clients, and arms what the zone waits for.
    fn zone_goes_on(&mut self, now: Now) {
        self.zone_packets();
        self.zone_save();
        self.zone_rules(now);
        let Some(zone) = &self.zone else { return };
        if zone.viewers.has_more() && !self.zone_writes {
            self.zone_writes = true;
            self.timers.arm(now, Due::Viewers);
        }
        let due = zone.home.as_ref().and_then(Home::due);
        if let Some(due) = due.filter(|_| self.zone_timer.is_none()) {
            self.zone_timer = Some(self.timers.arm(due, Due::Zone));
        }
    }

    /// Who waited is told that it is let in, or its place in the line; who flies, its score and news.
    fn zone_packets(&mut self) {
        let Some(home) = self.zone.as_mut().and_then(|zone| zone.home.as_mut()) else { return };
        let (packets, id) = (home.take_packets(), home.id);
        if let Some((news, pilots)) = home.take_news() {
            // Who is behind misses it.
            let (match_id, news) = (id.text(&self.topology.nodes), message(news));
            let make = |format| frames::match_data(format, &match_id, &news);
            self.stats.zone_news.add(self.outbox.many_then(pilots, Then::DropIfBehind, make));
        }
        for Packet { to, bytes } in packets {
            let match_id = id.text(&self.topology.nodes);
            let frame = frames::match_data(to.format, &match_id, &message(bytes));
            self.outbox.one(&to, frame, Then::Nothing);
        }
        self.zone_counts();
    }

    /// What of the zone is to be kept goes to who keeps it.
    fn zone_save(&mut self) {
        let home = self.zone.as_mut().and_then(|zone| zone.home.as_mut());
        let Some(save) = home.and_then(Home::take_save) else { return };
        let mail = BatcherMail::Zone(Box::new(save));
        self.mails.push(self.topology.batcher.seal(&self.topology, mail));
    }

    /// What rules of scripts are to be asked goes to the thread that runs them.
    fn zone_rules(&mut self, now: Now) {
        let Some(home) = self.zone.as_mut().and_then(|zone| zone.home.as_mut()) else { return };
        if let Some(complaint) = home.take_complaint() {
            self.limit_log.note(now, "zone rules", complaint);
        }
        for ask in home.take_asks() {
            let Some(events) = self.topology.events else {
                unreachable!("modules with rules on a server without a thread for them")
            };
            self.mails.push(events.seal(&self.topology, EventsMail::Rule(Box::new(ask))));
        }
    }

    /// Modules have a new version.
    pub(super) fn zone_guests(&mut self) {
        let home = self.zone.as_mut().and_then(|zone| zone.home.as_mut());
        // Without the thread of events nobody runs a rule.
        let scripts = self.scripts.as_ref().filter(|_| self.topology.events.is_some());
        if let (Some(home), Some(scripts)) = (home, scripts) {
            home.register(scripts.registered(), self.guest_version);
            let rules = home.rules_text();
            if !rules.is_empty() {
                let version = self.guest_version.0;
                tracing::info!(rules, version, "modules decide in the zone");
            }
        }
    }

    fn zone_counts(&self) {
        let Some(home) = self.zone.as_ref().and_then(|zone| zone.home.as_ref()) else { return };
        let (players, waiting) = home.counts();
        self.stats.zone_players.set(players);
        self.stats.zone_waiting.set(waiting);
        self.stats.zone_away.set(home.away() as u64);
    }

    fn with_zone<R>(&mut self, act: impl FnOnce(&mut Zone, &mut Around<'_>) -> R) -> R {
        let Some(zone) = &mut self.zone else { unreachable!("mail of a zone that is not there") };
        let mut posts = Vec::new();
        let (clock, stats) = (&mut *self.resources.call_clock, &*self.stats);
        let done = act(zone, &mut Around { clock, stats, posts: &mut posts });
        for (room, mail) in posts {
            let to = self.topology.rooms[usize::from(room)];
            self.mails.push(to.seal(&self.topology, RoomMail::Zone(mail)));
        }
        done
    }

    /// `match_join` of the zone: the answer, then the packet that says which ship is the client's, or which
    /// place in the line.
    pub(super) fn zone_join(
        &mut self,
        now: Now,
        (member, cid): (Member, String),
        id: MatchId,
        request: &JoinRequest,
    ) {
        let (key, session_id) = (Key::from(id), member.presence.session_id);
        if self.streams.find(&key, session_id).is_some() {
            return self.zone_answer(&member, &cid, id);
        }
        let address = request.client_ip.as_ref().and_then(|text| text.parse().ok());
        let address = address.and_then(|it| self.settings.limits.client(it));
        let Some(home) = self.zone.as_mut().and_then(|zone| zone.home.as_mut()) else { return };
        let packet = match home.enter(&member, address) {
            Ok(packet) => packet,
            Err(refusal) => {
                self.stats.zone_joins_refused.up();
                self.limit_log.hit(now, refusal.setting(), refusal);
                let code = error_code::MATCH_JOIN_REJECTED;
                let frame = frames::error(member.format, &cid, code, &refusal.to_string());
                return self.outbox.one(&member, frame, Then::Answered);
            }
        };
        let meta = StreamMeta { is_hidden: true, ..StreamMeta::default() };
        self.join(now, &key, &member, meta);
        self.zone_counts();
        self.zone_answer(&member, &cid, id);
        // Else it comes when a rule has said where.
        let Some(packet) = packet else { return };
        if packet.first() == Some(&world::Place::KIND) {
            self.stats.zone_joins_waited.up();
        }
        let data = message(packet);
        let match_id = id.text(&self.topology.nodes);
        let frame = frames::match_data(member.format, &match_id, &data);
        self.outbox.one(&member, frame, Then::Nothing);
    }

    /// The answer lists nobody but the client itself.
    fn zone_answer(&mut self, member: &Member, cid: &str, id: MatchId) {
        let answer = Match {
            match_id: id.text(&self.topology.nodes),
            authoritative: true,
            label: Some(LABEL.to_owned()),
            size: i32::try_from(self.streams.count(&id.into())).unwrap_or(i32::MAX),
            presences: Vec::new(),
            own: Some(frames::user_presence(&member.presence)),
        };
        let frame = frames::frame(member.format, cid, Some(Message::Match(answer)));
        self.outbox.one(member, frame, Then::Answered);
    }

    /// `match_data_send` to the zone. What is no packet costs nobody but its sender.
    pub(super) fn zone_data(&mut self, now: Now, input: &MatchInput) {
        let Some(home) = self.zone.as_mut().and_then(|zone| zone.home.as_mut()) else { return };
        let heard = if input.op_code == CONTROLS {
            let by_datagram = input.by_datagram;
            home.hear(input.session_id, &input.data, by_datagram).map_err(|error| error.to_string())
        } else {
            Err(format!("opcode {} is none of the zone's", input.op_code))
        };
        match heard {
            Ok(()) => self.stats.zone_inputs.up(),
            Err(text) => {
                self.stats.zone_inputs_refused.up();
                let what = format_args!("a packet of a zone's client is not heeded: {text}");
                self.limit_log.note(now, "zone input", what);
            }
        }
    }

    /// Sessions are gone from the zone.
    pub(super) fn zone_left(&mut self, left: &[GroupMember<Known>], reason: PresenceReason) {
        let Some(home) = self.zone.as_mut().and_then(|zone| zone.home.as_mut()) else { return };
        for joined in left {
            let wants = reason == PresenceReason::Leave;
            home.leave(joined.member.presence.session_id, wants);
        }
        self.zone_counts();
    }
}

/// A packet as match data of the server's own, with its kind as the opcode.
fn message(bytes: Vec<u8>) -> Broadcast {
    let Some(kind) = bytes.first().copied() else { unreachable!("a packet without a kind") };
    Broadcast {
        op_code: i64::from(kind),
        data: Bytes::from(bytes),
        to: None,
        sender: None,
        reliable: false,
        deferred: false,
    }
}
