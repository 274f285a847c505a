//! What rooms say to each other about the zone. Plain data; one mail to a room and tick of each kind.
//!
//! ```text
//! wiring ── Begin ──▶ home ── Tick ──▶ rooms with cells ── Border ──▶ rooms with cells near them
//!                      ▲ ▲                    └── Done ──▶ home
//!                      │ └─── Shown ── rooms with viewers ◀── Show ── home
//!                      ├─ Saved ── batcher ◀── ZoneSave ── home
//!                      └─ Ruled ── thread of events ◀── ZoneAsk ── home
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use game::match_id::MatchId;
use game::rules::ZoneRule;
use game::value::Value;
use uuid::Uuid;
use world::{
    Border, CellId, Entity, EntityId, Interest, Orders, Published, Report, Resend, Saved, Tree,
};

use super::Member;

/// A room of this node by its place in [`super::Topology::rooms`].
pub type RoomIndex = u16;

/// What rooms take of the zone.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum ZoneMail {
    /// From the wiring to the room that the match's id leads to, once: the zone stands from now on.
    /// `saved`: what it goes on with.
    Begin { id: Uuid, saved: Option<Box<Saved>> },
    /// From the home to each room with cells: a tick may be computed.
    Tick(Box<ZoneTick>),
    /// From a cell to one on another room.
    Border(Box<Border>),
    /// From a room with cells to the home: a cell has computed its tick.
    Done(Box<ZoneDone>),
    /// From the home to a room with viewers, when all cells are done and the room has told what it was
    /// shown before.
    Show(Box<ZoneShow>),
    /// From that room: its viewers have been told. `cost_ns`: what that kept the thread.
    Shown { room: RoomIndex, cost_ns: u64 },
    /// From the batcher to the home: what was to be written is on the disk, or could not be written.
    /// `write`: of which [`ZoneSave`].
    Saved { write: u64, is_kept: bool },
    /// From the thread of events to the home: what a rule has returned, `None` if it failed. `number`: of which
    /// [`ZoneAsk`].
    Ruled { rule: ZoneRule, number: u64, returned: Option<Box<Value>> },
}

/// What a rule of scripts is asked.
#[derive(Debug)]
pub struct ZoneAsk {
    /// Who is answered.
    pub home: RoomIndex,
    /// Which rule.
    pub rule: ZoneRule,
    /// Counts what the home has asked.
    pub number: u64,
    /// What it is given ([`game::rules`]).
    pub argument: Value,
}

/// A part of the zone that the batcher is to keep.
#[derive(Debug)]
pub struct ZoneSave {
    /// Who is told.
    pub home: RoomIndex,
    /// Counts what the home has written. A part with a lower number than another one before it is not written:
    /// it was given up.
    pub write: u64,
    /// 0: a snapshot, in place of all that is kept; else which part behind it.
    pub number: u32,
    /// Its bytes ([`Saved`]).
    pub part: Vec<u8>,
}

/// A tick for the cells of one room.
#[derive(Debug)]
pub struct ZoneTick {
    /// Where the zone's home is.
    pub home: RoomIndex,
    /// Which, and who comes and goes.
    pub orders: Orders,
    /// The tree that holds in it.
    pub tree: Arc<Tree>,
    /// On which room each cell of this tree and of the next lives.
    pub rooms: Arc<BTreeMap<CellId, RoomIndex>>,
    /// A cell that begins with the next tick.
    pub starts: Option<CellId>,
    /// For the one cell with which the zone begins: what is in it.
    pub begins: Option<Vec<Entity>>,
    /// What pilots want of ships in these cells, to be heard before the tick.
    pub controls: Vec<Resend>,
}

/// What a cell has computed.
#[derive(Debug)]
pub struct ZoneDone {
    /// Where it lives.
    pub room: RoomIndex,
    /// What it shows.
    pub published: Published,
    /// What it cost.
    pub report: Report,
    /// What it gives away for a snapshot of the zone, if the tick is one that is saved.
    pub saved: Option<Vec<u8>>,
}

/// What a session has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneAck {
    /// The newest tick, and which of the 32 before it.
    pub ticks: (u32, u32),
    /// Whether it said so by datagram, and is sent packets so.
    pub by_datagram: bool,
}

/// A tick for the viewers of one room, and what has changed of them since the last one.
#[derive(Debug)]
pub struct ZoneShow {
    /// Where the zone's home is.
    pub home: RoomIndex,
    /// What all cells show.
    pub cells: Arc<[Published]>,
    /// What viewers are told of it.
    pub interest: Interest,
    /// The match.
    pub id: MatchId,
    /// Whose packets are written here from now on, and which ship each follows.
    pub comes: Vec<(Member, EntityId)>,
    /// Sessions whose packets are not any more.
    pub goes: Vec<Uuid>,
    /// What each session acknowledged.
    pub acks: Vec<(Uuid, ZoneAck)>,
}
