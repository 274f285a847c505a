//! A room thread: the realtime groups. Each match and each user's presence lives on exactly one
//! room, found from its id ([`crate::mail::Topology::room_of`]).
//!
//! What is deliberately not here: sockets (cores own them) and accounts (workers). Wants of
//! sessions come in as [`RoomRequest`]s, frames leave as [`crate::mail::Delivery`]s, one mail per core
//! and turn. Guest code runs here, under the budgets that `edge/script` enforces.

mod asks;
mod authoritative;
mod callbacks;
mod descendants;
mod flow;
mod host;
mod inbox;
mod nodes;
mod owners;
mod registry;
mod relayed;
mod sends;
mod status;
mod stream_requests;
mod streams;
mod zone;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use event::{Handler, Input, Now, Output, ThreadId, TimerId, Timers};
use game::directory::{DirectoryEvent, RoomKey, Version};
use game::guest::{GuestVersion, PresenceReason, Retired, Scripts};
use game::match_id::MatchId;
use game::node::NodeId;
use game::stream::StreamPresence;
use uuid::Uuid;
use wire::nakama::realtime::error_code;

use self::asks::Fetch;
use self::callbacks::Callback;
use self::descendants::Descendants;

use self::owners::Owners;
use self::registry::{Key, Streams};
use crate::frames::Outbox;
use crate::guests::NewGuests;
use crate::limit_log::LimitLog;
use crate::mail::{
    Address, CoreMail, EventsMail, GateMail, HeldVersion, Holds, HostCall, ListerMail, LoaderMail,
    Mail, Member, News, Post as _, RoomMail, RoomRequest, Then, Topology,
};
use crate::resources::{Resources, ThreadContext};
use crate::retry_queue::RetryQueue;
use crate::settings::Settings;
use crate::stats::RoomStats;
use crate::zone::Zone;

/// Pages of online users after which those who keep replicas are woken to take them. With a million
/// users online a page is 8 KB.
const PAGES_UNSEEN_MAX: usize = 256;

/// Matches of an older version that are named to whoever asks what holds it; the others are counted.
const HOLDERS_NAMED_MAX: usize = 4;

/// The handler of a room thread.
pub struct Room {
    me: Address<RoomMail>,
    topology: Arc<Topology>,
    settings: Arc<Settings>,
    stats: Arc<RoomStats>,
    /// `None` while it makes a match.
    scripts: Option<Box<dyn Scripts + Send>>,
    /// The version of these, on which matches are made.
    guest_version: GuestVersion,
    /// Whether the loader is to hear which versions matches hold.
    tells_held: bool,
    resources: Resources,
    /// Who is in what; the players of these matches, too.
    streams: Streams,
    /// Its part of the zone, if the node has one.
    zone: Option<Box<Zone>>,
    /// When the zone's next tick is due, if its home is here.
    zone_timer: Option<TimerId>,
    /// Whether packets of the zone's viewers are about to be written.
    zone_writes: bool,
    /// Whether all viewers here have been told of a tick of the zone in this turn.
    zone_has_told: bool,
    matches: BTreeMap<Uuid, authoritative::Match>,
    /// Those of them that callbacks of matches asked for.
    descendants: Descendants,
    /// For whom they were made.
    owners: Owners,
    /// Who has come into streams of scripts in this turn, of whom their members are to be told.
    arrivals: BTreeMap<Key, Vec<StreamPresence>>,
    /// What scripts send to streams, on whose account.
    sends: sends::Sends,
    timers: Timers<Due>,
    /// Matches that have callbacks to play which have waited for their turn.
    ready: VecDeque<Uuid>,
    /// Which match each session that wants to join one waits for.
    joining: BTreeMap<Uuid, Uuid>,
    /// Which match waits for the answer to each question.
    asks: BTreeMap<u64, Uuid>,
    /// Counts questions.
    requests: u64,
    /// Functions that callbacks wait for and that no worker has been posted yet.
    calls: Vec<HostCall>,
    /// Requests to other servers that have not been made yet.
    fetches: Vec<Fetch>,
    outbox: Outbox,
    /// Counts this room's directory changes.
    version: u64,
    /// Changes of matches of this turn, already applied here.
    changes: Vec<DirectoryEvent>,
    /// Pages of online users that were posted since listers were last woken for them.
    pages_unseen: usize,
    /// Other mail of this turn.
    mails: Vec<(ThreadId, Mail)>,
    /// How many matches tick at each rate; the highest one in use was told to the cores.
    rates: [u32; 61],
    told_rate_hz: u8,
    /// Cores with frames in their mailbox that they have not been woken for.
    to_wake: Vec<Address<CoreMail>>,
    /// Set once the server stops: when the matches' grace is over.
    grace_ends: Option<Now>,
    /// Cores that wait to hear that no match is left, and that the zone is kept.
    drain_for: Vec<Address<CoreMail>>,
    /// Whether a piece of a callback runs just now.
    is_in_callback: bool,
    retries: RetryQueue,
    limit_log: LimitLog,
}

/// What is due for a match.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// Its next tick.
    Tick(Uuid),
    /// The end of its callback's patience.
    Patience(Uuid),
    /// The zone's next tick.
    Zone,
    /// Packets of some more of the zone's viewers.
    Viewers,
}

impl Room {
    /// A room with nothing in it.
    #[must_use]
    pub fn new(
        me: Address<RoomMail>,
        topology: Arc<Topology>,
        settings: Arc<Settings>,
        stats: Arc<RoomStats>,
        context: ThreadContext,
    ) -> Self {
        let mut resources = context.resources;
        resources.directory.set_list_steps_max(settings.matches.list_steps_max);
        let index = topology.rooms.iter().take_while(|room| **room != me).count();
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        let zone = settings.world.as_ref().map(|settings| Box::new(Zone::new(index, settings)));
        Self {
            me,
            topology,
            streams: Streams::new(stats.clone()),
            stats,
            scripts: Some(context.scripts),
            guest_version: GuestVersion::FIRST,
            tells_held: false,
            resources,
            settings,
            zone,
            zone_timer: None,
            zone_writes: false,
            zone_has_told: false,
            matches: BTreeMap::new(),
            descendants: Descendants::default(),
            owners: Owners::default(),
            arrivals: BTreeMap::new(),
            sends: sends::Sends::default(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            joining: BTreeMap::new(),
            asks: BTreeMap::new(),
            requests: 0,
            calls: Vec::new(),
            fetches: Vec::new(),
            outbox: Outbox::default(),
            version: 0,
            changes: Vec::new(),
            pages_unseen: 0,
            mails: Vec::new(),
            rates: [0; 61],
            told_rate_hz: 0,
            to_wake: Vec::new(),
            grace_ends: None,
            drain_for: Vec::new(),
            is_in_callback: false,
            retries: RetryQueue::default(),
            limit_log: LimitLog::default(),
        }
    }

    /// This node, if its sessions may have datagrams (`frames::OfMatch`).
    fn datagrams_of(&self) -> Option<NodeId> {
        self.settings.datagrams.as_ref().map(|_| self.me.node())
    }

    fn mail(&mut self, now: Now, mail: RoomMail) {
        match mail {
            RoomMail::Requests(requests) => self.requests(now, requests),
            RoomMail::Create { from, id, new } => self.create_match(now, id, from, *new),
            RoomMail::Signal { from, by, id, data } => {
                self.signal(now, (id, by.map(|by| *by)), from, data);
            }
            RoomMail::TakeBack { from, id } => self.taken_back(id, from),
            RoomMail::Chase { id, chase } => self.chased(*chase, id),
            RoomMail::Answer { node, request, outcome } => {
                self.answered(now, (node, request), outcome);
            }
            RoomMail::Cancel { id } if self.matches.contains_key(&id) => {
                if self.resources.script_log.has_room_for_failure() {
                    tracing::warn!(match_id = %id, "ended: its creator had given up waiting");
                }
                self.end_match(id, None);
            }
            RoomMail::Directory(events) => {
                events.iter().for_each(|event| self.resources.directory.apply(event));
            }
            RoomMail::Cache(changes) => {
                changes.iter().for_each(|one| self.resources.cache.apply(one));
            }
            RoomMail::Notify(sent) => self.notify(sent),
            RoomMail::Returned(returns) => {
                returns.into_iter().for_each(|returned| self.returned(now, returned));
            }
            RoomMail::Fetched(fetched) => self.fetched(now, *fetched),
            RoomMail::Streams(wishes) => {
                wishes.into_iter().for_each(|wish| self.stream_mail(now, wish));
            }
            RoomMail::Drain { core } => self.drain(now, core),
            RoomMail::Nodes(topology) => self.nodes_changed(now, topology),
            RoomMail::Zone(mail) => self.zone_mail(now, mail),
            RoomMail::Guests(new) => self.take_guests(*new),
            // It was never made, or has ended.
            RoomMail::Cancel { .. } => {}
        }
    }

    /// Matches are made of a new version of the guest code; those that run hold theirs.
    fn take_guests(&mut self, new: NewGuests) {
        let NewGuests { version, scripts, said } = new;
        let before = self.guest_version;
        assert!(version > before, "version {version} comes after version {before}");
        self.resources.say(said);
        let Some(before) = self.scripts.replace(scripts) else {
            unreachable!("mail in the middle of making a match")
        };
        (self.guest_version, self.tells_held) = (version, true);
        self.zone_guests();
        if let Some(loader) = self.topology.loader {
            let retired = LoaderMail::Retired(Retired::new(before));
            self.mails.push(loader.seal(&self.topology, retired));
        }
    }

    /// Tells the loader which versions matches hold, after a new one has come or a match of an older one
    /// has ended.
    fn tell_held(&mut self) {
        let Some(loader) = self.topology.loader.filter(|_| self.tells_held) else { return };
        self.tells_held = false;
        let mut older: BTreeMap<GuestVersion, HeldVersion> = BTreeMap::new();
        for (id, found) in &self.matches {
            if found.version != self.guest_version {
                let version = found.version;
                let held = older
                    .entry(version)
                    .or_insert_with(|| HeldVersion { version, ..HeldVersion::default() });
                held.matches += 1;
                if held.named.len() < HOLDERS_NAMED_MAX {
                    held.named.push((*id, found.module.clone()));
                }
            }
        }
        let (thread, newest) = (self.me.thread(), self.guest_version);
        let holds = Holds { thread, newest, older: older.into_values().collect() };
        self.mails.push(loader.seal(&self.topology, LoaderMail::Holds(Box::new(holds))));
    }

    /// Requests in their order; sockets that closed one behind the other, together.
    fn requests(&mut self, now: Now, requests: Vec<RoomRequest>) {
        let mut closed = Vec::new();
        for request in requests {
            if let RoomRequest::Closed { session_id, user_id } = request {
                closed.push((session_id, user_id));
                continue;
            }
            if !closed.is_empty() {
                self.closed(now, &mut closed);
            }
            // By far the most frequent: not moved once more.
            match &request {
                RoomRequest::MatchData(input) => self.match_data(now, input),
                _ => self.request(now, request),
            }
        }
        self.closed(now, &mut closed);
    }

    fn request(&mut self, now: Now, request: RoomRequest) {
        match request {
            RoomRequest::MatchData(input) => self.match_data(now, &input),
            RoomRequest::Opened { member, status } => self.opened(now, &member, status),
            RoomRequest::Closed { session_id, user_id } => {
                self.closed(now, &mut vec![(session_id, user_id)]);
            }
            RoomRequest::MatchCreate { member, cid, id } => {
                if self.may_enter(now, &member, &cid, id) {
                    self.relayed_create(now, &member, &cid, id);
                }
            }
            RoomRequest::MatchJoin { member, cid, id, by_token, request } => {
                match (self.may_enter(now, &member, &cid, id), id.is_authoritative()) {
                    (false, _) => {}
                    (true, true) => self.authoritative_join(now, (member, cid), id, request),
                    (true, false) => self.relayed_join(now, &member, &cid, id, by_token),
                }
            }
            RoomRequest::MatchLeave { member, cid, id } => {
                let session = [member.presence.session_id];
                self.leave(now, &id.into(), &session, PresenceReason::Leave);
                self.outbox.one(
                    &member,
                    crate::frames::frame(member.format, &cid, None),
                    Then::Answered,
                );
            }
            RoomRequest::StatusUpdate { member, cid, status } => {
                self.status_update(now, &member, &cid, status);
            }
            RoomRequest::StatusFollow(follow) => self.status_follow(*follow),
            RoomRequest::StatusUnfollow { member, cid, users } => {
                self.status_unfollow(member, cid, users);
            }
            RoomRequest::Stream(wish) => self.stream_mail(now, *wish),
        }
    }

    fn match_data(&mut self, now: Now, input: &crate::mail::MatchInput) {
        self.stats.match_messages_received.up();
        if input.id.is_authoritative() {
            self.authoritative_data(now, input);
        } else {
            self.relayed_data(now, input);
        }
    }

    /// Whether a session may enter another match; if not, it is answered.
    fn may_enter(&mut self, now: Now, member: &Member, cid: &str, id: MatchId) -> bool {
        let Err(text) = self.may_join(now, &id.into(), member) else { return true };
        let frame = crate::frames::error(member.format, cid, error_code::BAD_INPUT, &text);
        self.outbox.one(member, frame, Then::Answered);
        false
    }

    /// Sockets have closed: (session, user) of each; leaves the list empty. When thousands go at
    /// once, each stream hears of all of its own in one event instead of each of each.
    fn closed(&mut self, now: Now, closed: &mut Vec<(Uuid, Uuid)>) {
        let mut leavers: BTreeMap<Key, Vec<Uuid>> = BTreeMap::new();
        for (session_id, user_id) in closed.drain(..) {
            leavers.entry(Key::User(user_id)).or_default().push(session_id);
            if let Some(id) = self.joining.remove(&session_id) {
                self.forget_joiner(id, session_id);
            }
            for key in self.streams.forget(session_id) {
                leavers.entry(key).or_default().push(session_id);
            }
        }
        for (key, sessions) in leavers {
            self.leave(now, &key, &sessions, PresenceReason::Disconnect);
        }
    }

    /// Tells the cores how fast the fastest match ticks, when that changes.
    fn tell_tick_rate(&mut self) {
        let fastest = self.rates.iter().rposition(|count| *count > 0).unwrap_or(0);
        let tick_rate_hz = u8::try_from(fastest).unwrap_or(u8::MAX);
        if self.told_rate_hz != tick_rate_hz {
            self.told_rate_hz = tick_rate_hz;
            let mail = || CoreMail::TickRate { room: self.me, tick_rate_hz };
            let seal = |core: &Address<CoreMail>| core.seal(&self.topology, mail());
            self.mails.extend(self.topology.cores.iter().map(seal));
        }
    }

    /// What tells it from other rooms of all nodes.
    fn key(&self) -> RoomKey {
        RoomKey { node: self.me.node(), thread: self.me.thread().0 }
    }

    /// A change of a match that everybody who lists must hear of. `make` is given its version.
    fn change(&mut self, make: impl FnOnce(Version) -> DirectoryEvent) {
        self.version += 1;
        let event = make(Version { node: self.me.node(), number: self.version });
        self.resources.directory.apply(&event);
        self.changes.push(event);
    }

    fn resized(&mut self, id: MatchId, size: usize) {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.change(|version| DirectoryEvent::Resized { id, version, size });
    }

    fn ended(&mut self, id: MatchId) {
        self.change(|version| DirectoryEvent::Ended { id, version });
    }

    /// Every core asks; the matches are told once, every core is answered.
    fn drain(&mut self, now: Now, core: Address<CoreMail>) {
        self.drain_for.push(core);
        if self.grace_ends.is_none() {
            let grace_s = self.settings.shutdown_grace_s;
            self.grace_ends = Some(now.after_ms(u64::from(grace_s) * 1_000));
            self.zone_stop(now);
            let ids: Vec<Uuid> = self.matches.keys().copied().collect();
            for id in ids {
                if grace_s == 0 {
                    self.end_match(id, None);
                } else {
                    self.arrive(now, id, Callback::Terminate { grace_s });
                }
            }
        }
    }

    /// Tells the cores that wait for it that no match is left, and that the zone is kept: the last match may
    /// have ended by its grace, by itself, or by what it was answered.
    fn tell_if_drained(&mut self) {
        if self.matches.is_empty() && self.is_zone_kept() {
            let seal = |core: Address<CoreMail>| core.seal(&self.topology, CoreMail::Drained);
            self.mails.extend(self.drain_for.drain(..).map(seal));
        }
    }

    /// When the grace of matches that still run is over.
    fn grace_ends(&self) -> Option<Now> {
        self.grace_ends.filter(|_| !self.matches.is_empty())
    }

    /// One due tick a call, and one callback that has waited for its turn: between two matches the mailbox
    /// is looked at and what they said goes out, so that a slow match delays its neighbours by its own
    /// budget at most.
    fn wake(&mut self, now: Now, out: &mut Output<Mail>) {
        self.retries.post_due(now, out);
        if self.grace_ends().is_some_and(|ends| now >= ends) {
            let ids: Vec<Uuid> = self.matches.keys().copied().collect();
            ids.into_iter().for_each(|id| self.end_match(id, None));
        } else {
            self.play_ready(now);
            match self.timers.pop_due(now) {
                Some(Due::Tick(id)) => self.tick(now, id),
                Some(Due::Patience(id)) => self.lose_patience(now, id),
                Some(Due::Zone) => self.zone_tick(now),
                Some(Due::Viewers) => self.zone_write(now),
                None => {}
            }
        }
    }

    /// Posts what has become of matches and online users. Listers need not wake for it, save now and
    /// then: the pages that they have not seen are kept as they were.
    fn tell_listers(&mut self, out: &mut Output<Mail>) {
        let matches = self.changes.len();
        self.changes.extend(self.resources.directory.take_online_changes(self.key()));
        if self.changes.is_empty() {
            return;
        }
        self.pages_unseen += self.changes.len() - matches;
        let is_urgent = self.pages_unseen > PAGES_UNSEEN_MAX;
        if is_urgent {
            self.pages_unseen = 0;
        }
        let changes: Arc<[DirectoryEvent]> = self.changes.drain(..).collect();
        let mut tell = |(to, mail)| {
            if is_urgent { out.mail(to, mail) } else { out.mail_lazy(to, mail) }
        };
        for room in self.topology.rooms.iter().filter(|room| **room != self.me) {
            tell(room.seal(&self.topology, RoomMail::Directory(changes.clone())));
        }
        for worker in self.topology.workers() {
            tell(worker.seal(&self.topology, News::Directory(changes.clone())));
        }
        tell(self.topology.lister.seal(&self.topology, ListerMail::Directory(changes.clone())));
        if let Some(gate) = self.topology.gate() {
            out.post(&self.topology, gate, GateMail::Directory(changes));
        }
    }

    /// Posts what the turn has brought. Answers to workers come after the directory, so that
    /// whoever is told of a match finds it listed. While more ticks are due, cores are not woken
    /// for every one of them. A tick of the zone that all have been told of is none of these: where telling takes longer
    /// than a tick, there is always a next one.
    fn flush(&mut self, now: Now, out: &mut Output<Mail>) {
        // One wait for the disk for all that callbacks have written in this turn, before anybody
        // hears of it.
        self.resources.db.sync();
        self.tell_arrivals(now);
        self.tell_if_drained();
        self.tell_held();
        let has_told = std::mem::take(&mut self.zone_has_told);
        let is_due = |due_ns| due_ns <= now.mono_ns;
        let is_more_due = !has_told && self.timers.next_ns().is_some_and(is_due);
        self.tell_listers(out);
        self.resources.post_cache(self.me.thread(), &self.topology, out);
        self.stats.script_log_dropped.set(self.resources.script_log.dropped_count);
        self.stats.match_creates_refused.set(self.resources.refused.creates);
        self.stats.cut_offs_refused.set(self.resources.refused.cut_offs);
        self.stats.localcache_refused.set(self.resources.cache.refused_count());
        self.stats.notifications_refused.set(self.resources.refused.notifications);
        self.stats.stream_calls_refused.set(self.resources.refused.streams);
        self.stats.notifications_forgotten.set(self.resources.notifications_forgotten);
        self.stats.dropped_events.set(self.resources.refused.events);
        self.resources.post_session_changes(&self.topology, out);
        if let Some((to, jobs)) = self.resources.take_events(&self.topology) {
            out.post(&self.topology, to, EventsMail::Events(jobs));
        }
        for (room, sent) in self.resources.take_notices(&self.topology) {
            if room == self.me {
                self.notify(sent);
            } else {
                out.post(&self.topology, room, RoomMail::Notify(sent));
            }
        }
        for (room, wishes) in self.resources.take_streams(&self.topology) {
            out.post(&self.topology, room, RoomMail::Streams(wishes));
        }
        for (core, deliveries) in self.outbox.take() {
            let mail = CoreMail::Deliver(deliveries);
            // The gate is woken anyway.
            if is_more_due && self.topology.is_here(core) {
                out.post_lazy(&self.topology, core, mail);
                if !self.to_wake.contains(&core) {
                    self.to_wake.push(core);
                }
            } else {
                self.to_wake.retain(|waking| *waking != core);
                out.post(&self.topology, core, mail);
            }
        }
        if !is_more_due {
            for core in self.to_wake.drain(..) {
                out.post(&self.topology, core, CoreMail::WakeUp);
            }
        }
        for (to, mail) in self.mails.drain(..) {
            out.mail(to, mail);
        }
        for (to, mail) in self.topology.seal_calls(std::mem::take(&mut self.calls)) {
            out.mail(to, mail);
        }
        self.start_fetches();
        self.retries.hold_back(now, out, &self.stats.dropped_mail);
        let grace_ends = self.grace_ends().map(|ends| ends.mono_ns);
        let ready = (!self.ready.is_empty()).then_some(now.mono_ns);
        let next = [ready, self.timers.next_ns(), grace_ends, self.retries.due_ns()];
        out.wake_at(next.into_iter().flatten().min());
    }
}

impl Handler for Room {
    type Mail = Mail;

    fn handle(&mut self, now: Now, input: Input<'_, Mail>, out: &mut Output<Mail>) {
        self.resources.script_log.turn(now);
        match input {
            Input::Mail(mail) => self.mail(now, self.me.open(mail)),
            Input::Wake => self.wake(now, out),
            Input::TurnEnd => self.flush(now, out),
            // Sessions wait for answers, and replicas for news.
            Input::Refused { to, mail } => {
                let counters = (&self.stats.refused_mail, &self.stats.dropped_mail);
                self.retries.given_back(now, (to, mail), counters, &mut self.limit_log);
            }
            Input::Stop => out.stop(),
            // A room has no sockets.
            event::of_sockets!() => {}
        }
    }
}

fn count_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
