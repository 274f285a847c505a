//! The viewers of the zone on one room: what each client is told of a tick, and in which bytes.
//!
//! A room writes packets of some viewers at a time, so that the matches beside it have their turns in
//! between, and says when all are written: only then is it shown the next tick, the newest one by then.
//! Nothing waits for a client either: `world::Viewer` has a packet on its way or a few, and makes the next
//! one of what is newest when it may.
//!
//! Data in: ticks of the home. Data out: packets, each with whom it is for. What is deliberately not here:
//! frames (`room::zone`), and what is chosen (`world::Viewer`).

use std::collections::BTreeMap;
use std::ops::Bound;

use event::CallClock;
use game::match_id::MatchId;
use uuid::Uuid;
use wire::datagram::MatchData;
use world::{EntityId, Fanout, Frames, Interest, Viewer};

use crate::mail::{Member, RoomIndex, ZoneShow};
use crate::settings::WorldSettings;
use crate::stats::RoomStats;

/// Viewers whose packets are written before others of the room have their turn.
const VIEWERS_PER_TURN: usize = 128;

/// A snapshot for one client.
pub(crate) struct Packet {
    pub(crate) to: Member,
    pub(crate) bytes: Vec<u8>,
}

struct Seat {
    member: Member,
    ship: EntityId,
    viewer: Viewer,
}

/// A tick that viewers are being told of.
struct Told {
    home: RoomIndex,
    interest: Interest,
    /// The last session that was.
    last: Option<Uuid>,
    cost_ns: u64,
}

/// See the module.
pub(crate) struct Viewers {
    packet_bytes_max: usize,
    frames: Frames,
    fanout: Fanout,
    seats: BTreeMap<Uuid, Seat>,
    told: Option<Told>,
    /// The match; none before a tick is shown.
    pub(crate) id: Option<MatchId>,
    buffer: Vec<u8>,
}

impl Viewers {
    pub(super) fn new(settings: &WorldSettings) -> Self {
        Self {
            packet_bytes_max: settings.packet_bytes_max,
            frames: Frames::new(settings.bins),
            fanout: Fanout::default(),
            seats: BTreeMap::new(),
            told: None,
            id: None,
            buffer: Vec::new(),
        }
    }

    /// Whether packets of a tick are still to be written.
    pub(crate) fn has_more(&self) -> bool {
        self.told.is_some()
    }

    /// A tick is to be told.
    pub(super) fn show(&mut self, show: ZoneShow, clock: &mut dyn CallClock) {
        assert!(self.told.is_none(), "a tick is shown before the last one was told");
        clock.begin();
        for session_id in show.goes {
            self.seats.remove(&session_id);
        }
        for (member, ship) in show.comes {
            let viewer = Viewer::new(ship, self.packet_bytes_max).over_stream();
            self.seats.insert(member.presence.session_id, Seat { member, ship, viewer });
        }
        for (session_id, ack) in show.acks {
            if let Some(seat) = self.seats.get_mut(&session_id) {
                let room = if ack.by_datagram { MatchData::DATA_BYTES_MAX } else { usize::MAX };
                let bytes_max = self.packet_bytes_max.min(room);
                seat.viewer.goes_over(!ack.by_datagram, bytes_max);
                seat.viewer.ack(ack.ticks);
            }
        }
        self.id = Some(show.id);
        self.frames.publish(&show.cells);
        let (home, interest) = (show.home, show.interest);
        let cost_ns = u64::from(clock.spent().kept_us) * 1_000;
        self.told = Some(Told { home, interest, last: None, cost_ns });
    }

    /// Writes packets of some viewers; when those of all are written, gives the home and what that cost.
    pub(super) fn write(
        &mut self,
        clock: &mut dyn CallClock,
        stats: &RoomStats,
        packets: &mut Vec<Packet>,
    ) -> Option<(RoomIndex, u64)> {
        let told = self.told.as_mut()?;
        clock.begin();
        let from = told.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut written = 0;
        for (session_id, seat) in self.seats.range_mut((from, Bound::Unbounded)) {
            if written == VIEWERS_PER_TURN {
                break;
            }
            (told.last, written) = (Some(*session_id), written + 1);
            // Before its ship is there, a client has nowhere to look from; after it, nothing to see.
            if !self.frames.has(seat.ship) {
                continue;
            }
            self.buffer.clear();
            let (frames, fanout) = (&self.frames, &mut self.fanout);
            match seat.viewer.packet(frames, &told.interest, fanout, &mut self.buffer) {
                Some(said) => {
                    stats.zone_packets.up();
                    stats.zone_updates.add(u64::from(said.records));
                    packets.push(Packet { to: seat.member.clone(), bytes: self.buffer.clone() });
                }
                None => stats.zone_packets_held.up(),
            }
        }
        told.cost_ns += u64::from(clock.spent().kept_us) * 1_000;
        if written == VIEWERS_PER_TURN {
            return None;
        }
        let ended = self.told.take()?;
        Some((ended.home, ended.cost_ns))
    }
}
