//! What one client is told, and when: the nearest first, within its bytes, newest state only.
//!
//! A viewer follows its ship. Entities within a radius are ranked by distance into **tiers**, each
//! with a period. Of each entity a viewer keeps an accumulator, to which every tick adds a step, the
//! larger the shorter its tier's period, and which a record empties: it is due when the period has
//! passed, and the longer it has waited, in periods, the more urgent it is. The most urgent are sent
//! until the bytes of the packet are used up.
//!
//! For each entity a viewer keeps 32 bits: in which of the last 32 ticks it was sent. The ticks
//! that the client has acknowledged are 32 bits too; both together tell the newest record that the
//! client has for certain, which is the baseline. A loss needs no care: what was lost is no
//! baseline, and its entity becomes urgent as any other.
//!
//! **A client that is slow has one packet in flight.** How many may be is what its best round trip
//! needs; when its packets come back later than that, by [`SLOW_TICKS`], it is one. Nothing is ever
//! queued: when there is room again, a packet is made of what is newest then. What has been on its
//! way for twice the last round trip and [`SLOW_TICKS`] is taken for lost.
//!
//! Over a stream ([`Viewer::over_stream`]) a packet is late rather than lost, and every further one
//! would only wait behind it: so nothing is taken for lost there, and a client that says nothing any
//! more is sent one packet in 32 ticks. What is deliberately not here: sockets, sequence numbers of
//! datagrams, keys.

use crate::fanout::Fanout;
use crate::frames::Frames;
use crate::ids::EntityId;
use crate::packet::{
    RECORD_BYTES_MAX, Summary, Update, put_head, put_summaries, put_update, put_varint,
};
use crate::space::BIN_SIDE;

/// Entities that a viewer knows at one time; of more the nearest.
pub const KNOWN_MAX: usize = 4_096;
/// The largest radius in bins.
pub const RADIUS_BINS_MAX: u16 = 32;
/// Summaries in a packet.
pub const SUMMARIES_MAX: usize = 64;
/// A round trip longer than the best by more than this makes a client slow, in ticks.
pub const SLOW_TICKS: u32 = 4;
/// Ticks between two looks around, an eighth of all viewers in each.
const LOOK_TICKS: u8 = 8;
/// Ticks for which an entity that left the radius stays known.
const LINGER_TICKS: u8 = 24;
/// Ticks between two summaries of one bin, at best.
const SUMMARY_TICKS: u32 = 20;
/// Ticks after which the best round trip counts as one longer, so that a path may change.
const ROUND_TRIP_TICKS: u32 = 256;
/// In place of ticks away: the client is being told that the entity is out of sight.
const LEAVING: u8 = u8::MAX;
/// An accumulator that is full: to be sent before all others.
const URGENT: u8 = u8::MAX;
/// An accumulator of who is due. Periods that divide it are kept to the tick.
const DUE: u8 = 20;
/// Of who is to be told gone, at least: before those who are due, and at first behind the nearest once these have waited
/// for a tick, so that they need not wait for all of thousands who go at once, when their bins become summaries. A tick
/// adds one, so that each is told in the end, however full packets are.
const GONE: u8 = 2 * DUE - 1;
/// What a tick adds for who has been told gone: that is said again after three ticks.
const GONE_STEP: u8 = 7;
/// Bytes of a packet before its records: its head, and their number.
const HEAD_BYTES: usize = 13;
/// Accumulators are told apart in so many ways when the most urgent are chosen.
const SCORES: usize = 64;

/// What viewers are told, in order of distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// How far a viewer sees, in bins, at most [`RADIUS_BINS_MAX`].
    pub radius_bins: u16,
    /// Of each of the first three tiers: how many entities it and those before it have.
    pub ranks: [usize; 3],
    /// Of each tier, the last one without an end: ticks from one record of an entity to the next,
    /// 1 to 20; those that do not divide 20 are a little shorter than they say.
    pub periods: [u8; 4],
    /// Whether the last tier is told as summaries of bins instead.
    pub has_summaries: bool,
}

impl Default for Interest {
    /// At 20 Hz: 32 at 20 Hz, up to 128 at 10, up to 512 at 5, the rest at 1.
    fn default() -> Self {
        Self::of_near(32)
    }
}

impl Interest {
    /// So many in each tick, up to four times as many in every second, up to sixteen times as many in every
    /// fourth, the rest in every twentieth.
    #[must_use]
    pub fn of_near(near: usize) -> Self {
        let ranks = [1, 4, 16].map(|times: usize| near.saturating_mul(times));
        Self { radius_bins: 8, ranks, periods: [1, 2, 4, 20], has_summaries: false }
    }
}

/// What a packet holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Records of entities.
    pub records: u32,
    /// Entities that went out of sight.
    pub gone: u32,
    /// Summaries of bins.
    pub summaries: u32,
}

/// The entities that a client knows, or is being told of: columns by rising slot.
#[derive(Clone, Debug, Default)]
struct Table {
    slots: Vec<u32>,
    generations: Vec<u32>,
    /// Bit `i`: sent `i` ticks ago.
    sent: Vec<u32>,
    /// What each tick adds to `urgency`, by tier.
    steps: Vec<u8>,
    /// The accumulator: from [`DUE`] on it may be sent.
    urgency: Vec<u8>,
    /// Ticks outside the radius, or [`LEAVING`].
    away: Vec<u8>,
}

/// Who is sent: all above a score, and some of just that score.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    score: usize,
    /// So many have that score, of whom `room` from this one on are sent, round the end. In turns: else those who stand
    /// last would never be, where all have waited for as long as is counted.
    count: usize,
    first: usize,
    room: usize,
}

impl Chosen {
    /// How far the one at this place among those of just the score is behind the first one.
    fn behind(&self, at: usize) -> usize {
        if at >= self.first { at - self.first } else { at + self.count - self.first }
    }
}

/// One client's view, at the thread that writes its packets.
#[derive(Clone, Debug)]
pub struct Viewer {
    id: EntityId,
    /// Where it looks from: its ship's place, also when that is gone.
    eye: (i32, i32),
    bytes_max: usize,
    is_over_stream: bool,
    tick: Option<u32>,
    table: Table,
    /// Bit `i`: a packet was sent `i` ticks ago; and which of them are acknowledged.
    packets: u32,
    acked: u32,
    /// Which are taken for lost; an acknowledgement still counts.
    lost: u32,
    /// Ticks from a packet to its acknowledgement: of the last one, or longer if one is later than
    /// that; as the last one told; the best.
    round_trip: u32,
    round_trip_told: u32,
    round_trip_best: u32,
    /// Bytes of a record of late, in 16ths.
    record_bytes: usize,
    summary_from: u32,
    /// From this slot on those come first who are as urgent as the last one that has room.
    turn: u32,
}

impl Viewer {
    /// A client that follows a ship and is sent at most `bytes_max` bytes a tick, at least 128.
    #[must_use]
    pub fn new(id: EntityId, bytes_max: usize) -> Self {
        Self {
            id,
            eye: (0, 0),
            bytes_max: bytes_max.max(128),
            is_over_stream: false,
            tick: None,
            table: Table::default(),
            packets: 0,
            acked: 0,
            lost: 0,
            round_trip: 0,
            round_trip_told: 32,
            round_trip_best: u32::MAX,
            record_bytes: 16 * 16,
            summary_from: 0,
            turn: 0,
        }
    }

    /// The same, whose packets come in order over a connection.
    #[must_use]
    pub fn over_stream(self) -> Self {
        Self { is_over_stream: true, ..self }
    }

    /// From now on packets of at most `bytes_max` bytes, at least 128, come over a connection, or by
    /// datagram, where they may be lost.
    pub fn goes_over(&mut self, is_stream: bool, bytes_max: usize) {
        (self.is_over_stream, self.bytes_max) = (is_stream, bytes_max.max(128));
    }

    /// How many entities the client knows or is told of.
    #[must_use]
    pub fn known_count(&self) -> usize {
        self.table.slots.len()
    }

    /// Packets on their way: sent, not acknowledged, none later acknowledged, not taken for lost.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.on_their_way().count_ones()
    }

    /// The bits of packets on their way.
    fn on_their_way(&self) -> u32 {
        // After the newest acknowledged one: lower bits.
        let newer = 1_u32.checked_shl(self.acked.trailing_zeros()).map_or(u32::MAX, |bit| bit - 1);
        self.packets & newer & !self.lost
    }

    /// How many packets may be on their way.
    #[must_use]
    pub fn window(&self) -> u32 {
        match self.round_trip_best {
            u32::MAX => 1 + SLOW_TICKS,
            best if self.round_trip > best + SLOW_TICKS => 1,
            best => best + SLOW_TICKS,
        }
    }

    /// The client acknowledges a tick, and those before it whose bits are set. What was never
    /// sent, or is too old to matter, is no matter.
    pub fn ack(&mut self, (newest, bits): (u32, u32)) {
        let Some(age) = self.tick.and_then(|tick| tick.checked_sub(newest)) else { return };
        if age >= 32 {
            return;
        }
        let named = 1_u64 << age | u64::from(bits) << (age + 1);
        let named = u32::try_from(named & u64::from(u32::MAX)).unwrap_or(0) & self.packets;
        if named & !self.acked & 1 << age != 0 {
            (self.round_trip, self.round_trip_told) = (age, age);
            self.round_trip_best = self.round_trip_best.min(age).max(1);
        }
        self.acked |= named;
    }

    /// Appends the packet of the newest tick. None if too many packets are on their way.
    pub fn packet(
        &mut self,
        frames: &Frames,
        interest: &Interest,
        fanout: &mut Fanout,
        out: &mut Vec<u8>,
    ) -> Option<Told> {
        let tick = frames.tick();
        let is_first = self.tick.is_none();
        let passed = tick - self.tick.unwrap_or(tick);
        self.tick = Some(tick);
        self.pass(passed);
        if tick.is_multiple_of(ROUND_TRIP_TICKS) {
            self.round_trip_best = self.round_trip_best.saturating_add(1);
        }
        if self.in_flight() >= self.window() {
            let waited = self.on_their_way().ilog2();
            if self.is_over_stream || waited <= 2 * self.round_trip_told + SLOW_TICKS {
                // What is late by more than was known is not over sooner than it has lasted.
                self.round_trip = self.round_trip.max(waited);
                return None;
            }
            self.lost |= self.on_their_way();
        }
        fanout.begin(frames);
        let look = u32::from(LOOK_TICKS);
        if is_first || (tick + self.id.slot).is_multiple_of(look) || passed >= look {
            self.look(frames, interest, fanout);
        }
        let chosen = self.choose();
        let start = out.len();
        put_head(tick, frames.tau_permille(), frames.control_seq(self.id.slot), out);
        let count_at = out.len();
        out.extend([0x80, 0]);
        assert_eq!(out.len() - start, HEAD_BYTES, "what stands before the records");
        let (mut told, gone_bytes, is_cut) = self.write(frames, fanout, chosen, start, out);
        let count = told.records + told.gone;
        out[count_at] = (count & 0x7f) as u8 | 0x80;
        out[count_at + 1] = (count >> 7 & 0x7f) as u8;
        let bytes = out.len() - start;
        if told.records > 0 {
            let each = 16 * (bytes - HEAD_BYTES - gone_bytes) / told.records as usize;
            self.record_bytes = ((self.record_bytes * 7 + each) / 8).max(16);
        }
        if is_cut {
            // Records stand by slot, so it is always the last slots that a full packet leaves out, however
            // urgent they are. Fewer are chosen next, so that they are not left out again and again.
            self.record_bytes += self.record_bytes / 8;
        }
        let summaries = self.summarise(frames, interest, self.bytes_max.saturating_sub(bytes));
        told.summaries = u32::try_from(summaries.len()).unwrap_or(0);
        put_summaries(&summaries, out);
        self.packets |= 1;
        Some(told)
    }

    fn pass(&mut self, ticks: u32) {
        let shift = |bits: u32| bits.checked_shl(ticks).unwrap_or(0);
        (self.packets, self.acked) = (shift(self.packets), shift(self.acked));
        self.lost = shift(self.lost);
        for sent in &mut self.table.sent {
            *sent = shift(*sent);
        }
        for _ in 0..ticks.min(u32::from(DUE)) {
            for (urgency, step) in self.table.urgency.iter_mut().zip(&self.table.steps) {
                *urgency = urgency.saturating_add(*step);
            }
        }
    }

    /// Looks around: who is near, in which tier; who comes into sight, who leaves it.
    fn look(&mut self, frames: &Frames, interest: &Interest, fanout: &mut Fanout) {
        if frames.has(self.id) {
            let own = frames.record(self.id.slot, 0);
            self.eye = (own.x, own.y);
        }
        let radius = i32::from(interest.radius_bins.min(RADIUS_BINS_MAX)) * (BIN_SIDE >> 2);
        let stays = radius + radius / 10;
        let square = |reach: i32| (reach >> 4).unsigned_abs().pow(2);
        let Fanout { marks, distances, near, .. } = fanout;
        near.clear();
        for one in frames.around(self.eye.0, self.eye.1, stays) {
            let (dx, dy) = ((one.x - self.eye.0) >> 4, (one.y - self.eye.1) >> 4);
            let distance = dx.unsigned_abs().pow(2) + dy.unsigned_abs().pow(2);
            if distance <= square(stays) {
                near.push((one.slot, distance));
            }
        }
        let ends = tiers(near, distances, interest);
        for (slot, distance) in near.iter() {
            marks[*slot as usize] = distance + 1;
        }
        let enters = square(radius).min(ends[3]);
        self.table.retain_seen(frames, self.acked, (marks, enters), &ends, interest);
        near.retain(|(slot, distance)| {
            std::mem::take(&mut marks[*slot as usize]) > 0 && *distance <= enters
        });
        if !near.is_empty() {
            near.sort_unstable();
            self.table.enter(frames, near, &ends, interest);
        }
    }

    /// Who is sent.
    fn choose(&mut self) -> Chosen {
        if let Ok(own) = self.table.slots.binary_search(&self.id.slot) {
            self.table.urgency[own] = URGENT;
        }
        // Two rows, taken in turns: most have the same score, and a count waits for the one before.
        let mut counts = [[0_u32; SCORES]; 2];
        let (pairs, rest) = self.table.urgency.as_chunks::<2>();
        for [one, other] in pairs {
            counts[0][score(*one)] += 1;
            counts[1][score(*other)] += 1;
        }
        rest.iter().for_each(|urgency| counts[0][score(*urgency)] += 1);
        let mut room = 16 * self.records_end().saturating_sub(HEAD_BYTES) / self.record_bytes;
        for at in (score(DUE)..SCORES).rev() {
            let count = (counts[0][at] + counts[1][at]) as usize;
            if count >= room {
                let before = self.table.slots.partition_point(|slot| *slot < self.turn);
                let urgency = self.table.urgency.iter().take(before);
                let first = urgency.filter(|urgency| score(**urgency) == at).count();
                return Chosen { score: at, count, first, room };
            }
            room -= count;
        }
        Chosen { score: score(DUE), count: usize::MAX, first: 0, room: usize::MAX }
    }

    /// Bytes of a packet from which on no record is begun: room for one more, and for the count of
    /// summaries.
    fn records_end(&self) -> usize {
        self.bytes_max.saturating_sub(RECORD_BYTES_MAX + 1)
    }

    /// Appends the records of those who are chosen. Tells how many bytes are of those who have gone, and
    /// whether some had no room.
    fn write(
        &mut self,
        frames: &Frames,
        fanout: &mut Fanout,
        chosen: Chosen,
        start: usize,
        out: &mut Vec<u8>,
    ) -> (Told, usize, bool) {
        let (mut told, mut gone_bytes, mut next) = (Told::default(), 0, 0);
        let mut alike = 0;
        let full = start + self.records_end();
        for index in 0..self.table.slots.len() {
            let score = score(self.table.urgency[index]);
            if score < chosen.score {
                continue;
            }
            if score == chosen.score {
                alike += 1;
                let behind = chosen.behind(alike - 1);
                if behind >= chosen.room {
                    continue;
                }
                if behind + 1 == chosen.room {
                    self.turn = self.table.slots[index] + 1;
                }
            }
            if out.len() > full {
                return (told, gone_bytes, true);
            }
            let (slot, generation) = (self.table.slots[index], self.table.generations[index]);
            let is_leaving = self.table.away[index] == LEAVING;
            if is_leaving || !frames.has(EntityId { slot, generation }) {
                if !is_leaving {
                    (self.table.away[index], self.table.sent[index]) = (LEAVING, 0);
                }
                self.table.steps[index] = GONE_STEP;
                let from = out.len();
                put_varint(slot - next, out);
                put_update(&Update::Gone, out);
                gone_bytes += out.len() - from;
                told.gone += 1;
            } else {
                let age = (self.table.sent[index] & self.acked).trailing_zeros() & 31;
                let Some(record) = fanout.record(frames, slot, age) else { continue };
                put_varint(slot - next, out);
                out.extend_from_slice(record);
                told.records += 1;
            }
            self.table.sent[index] |= 1;
            self.table.urgency[index] = 0;
            next = slot + 1;
        }
        (told, gone_bytes, false)
    }

    /// Bins beyond what is told one by one: some in each packet, so that each comes once in
    /// [`SUMMARY_TICKS`] if there is room.
    fn summarise(&mut self, frames: &Frames, interest: &Interest, room: usize) -> Vec<Summary> {
        let tick = frames.tick() + self.id.slot;
        let has_room = room / 12;
        if !interest.has_summaries || !tick.is_multiple_of(SUMMARY_TICKS / 4) || has_room == 0 {
            return Vec::new();
        }
        let count = SUMMARIES_MAX.min(has_room);
        let summaries: Vec<_> = frames.summaries(self.summary_from).take(count).collect();
        let last = summaries.last().filter(|_| summaries.len() == count);
        self.summary_from = last.map_or(0, |last| last.bin + 1);
        summaries
    }
}

/// Accumulators as they are told apart: [`DUE`] is where a score begins.
fn score(urgency: u8) -> usize {
    usize::from(urgency) * SCORES / 256
}

/// The squares of the distances at which the tiers end, the last at the end of what may be known.
fn tiers(near: &[(u32, u32)], distances: &mut Vec<u32>, interest: &Interest) -> [u32; 4] {
    distances.clear();
    distances.extend(near.iter().map(|(_, distance)| *distance));
    let known_max = if interest.has_summaries { interest.ranks[2] } else { KNOWN_MAX };
    let mut ends = [u32::MAX; 4];
    let mut part = &mut distances[..];
    // From the outermost in: each look is at what the last one left.
    for (end, rank) in ends.iter_mut().zip([&interest.ranks[..], &[known_max]].concat()).rev() {
        if rank > 0 && rank < part.len() {
            let (_, last, _) = part.select_nth_unstable(rank - 1);
            *end = *last;
            part = &mut part[..rank];
        }
    }
    ends
}

/// What a tick adds to the accumulator of who is this far away.
fn step(distance: u32, ends: &[u32; 4], interest: &Interest) -> u8 {
    let tier = ends[..3].iter().take_while(|end| distance > **end).count();
    DUE.div_ceil(interest.periods[tier].clamp(1, DUE))
}

impl Table {
    /// Gives all that are still seen their tiers, and lets go who is gone or far. Marks of those
    /// who are known are cleared.
    fn retain_seen(
        &mut self,
        frames: &Frames,
        acked: u32,
        (marks, enters): (&mut [u32], u32),
        ends: &[u32; 4],
        interest: &Interest,
    ) {
        let mut kept = 0;
        for index in 0..self.slots.len() {
            let (slot, generation) = (self.slots[index], self.generations[index]);
            let is_there = frames.has(EntityId { slot, generation });
            let mark = if is_there { marks[slot as usize] } else { 0 };
            let is_seen = mark > 0 && mark - 1 <= ends[3];
            let mut away = self.away[index];
            let mut sent = self.sent[index];
            if away == LEAVING {
                // Who comes back is new to a client that may have let it go.
                if sent & acked != 0 || mark > 0 && mark - 1 <= enters {
                    continue;
                }
            } else if is_seen {
                marks[slot as usize] = 0;
                away = 0;
                self.steps[index] = step(mark - 1, ends, interest);
            } else {
                away = away.saturating_add(LOOK_TICKS);
                if is_there {
                    marks[slot as usize] = 0;
                }
                if !is_there || away > LINGER_TICKS {
                    (away, sent) = (LEAVING, 0);
                    self.steps[index] = 1;
                    self.urgency[index] = self.urgency[index].max(GONE);
                }
            }
            (self.slots[kept], self.generations[kept]) = (slot, generation);
            (self.sent[kept], self.away[kept]) = (sent, away);
            (self.steps[kept], self.urgency[kept]) = (self.steps[index], self.urgency[index]);
            kept += 1;
        }
        self.truncate(kept);
    }

    /// Merges in who comes into sight, by rising slot.
    fn enter(&mut self, frames: &Frames, new: &[(u32, u32)], ends: &[u32; 4], interest: &Interest) {
        // The same slot may still be leaving as somebody else: the new one takes its place.
        let old = std::mem::take(self);
        let mut index = 0;
        for &(slot, distance) in new {
            while index < old.slots.len() && old.slots[index] < slot {
                self.push_from(&old, index);
                index += 1;
            }
            if old.slots.get(index) == Some(&slot) {
                index += 1;
            }
            let Some(generation) = frames.generation(slot) else { continue };
            self.slots.push(slot);
            self.generations.push(generation);
            self.sent.push(0);
            let step = step(distance, ends, interest);
            self.steps.push(step);
            // As if it had waited for twelve ticks: the nearest first.
            self.urgency.push(step.saturating_mul(12).max(DUE));
            self.away.push(0);
        }
        (index..old.slots.len()).for_each(|index| self.push_from(&old, index));
    }

    fn push_from(&mut self, old: &Self, index: usize) {
        self.slots.push(old.slots[index]);
        self.generations.push(old.generations[index]);
        self.sent.push(old.sent[index]);
        self.steps.push(old.steps[index]);
        self.urgency.push(old.urgency[index]);
        self.away.push(old.away[index]);
    }

    fn truncate(&mut self, count: usize) {
        self.slots.truncate(count);
        self.generations.truncate(count);
        self.sent.truncate(count);
        self.steps.truncate(count);
        self.urgency.truncate(count);
        self.away.truncate(count);
    }
}
