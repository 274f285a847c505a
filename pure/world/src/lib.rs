//! One seamless zone that is larger than a core: entities, cells and their borders, hand-over, and
//! when to split or merge.
//!
//! ```text
//!             Orders                    Published                    packets
//! Director ───────────▶ Cell … Cell ───────────────▶ fan-out ───────────────▶ clients
//!     ▲                  └─Border─▲                      controls ◀───────────────┘
//!     └───── Report ─────────┘
//! ```
//!
//! [`Frames`] are what all viewers see of a tick, a [`Viewer`] chooses what its client is told, a
//! [`View`] is what that client knows; [`Overload`] says what is done when there is too much to do.
//!
//! The simulation is partitioned by space ([`Cell`], [`Tree`]), what clients are sent by viewer; so
//! a crowd in one cell still occupies every core with what costs most. Everything is a plain struct
//! that owns its state and is told what happens, so that a whole zone plays from a seed in one
//! thread (`tests/it`), and a partitioned world is the same as one that is computed in one cell,
//! hash for hash.
//!
//! What is deliberately not here: threads, sockets, clocks, and any idea of the backend around it.

#![forbid(unsafe_code)]

mod admission;
mod audit;
mod balance;
mod cell;
mod controls;
mod director;
mod entity;
mod fanout;
mod frames;
mod ids;
mod interest;
mod mail;
mod near;
mod news;
mod overload;
mod packet;
mod record;
mod saved;
mod score;
mod space;
mod tree;
mod view;

pub use admission::Admission;
pub use audit::{Fault, Ledger, Sums, tiles};
pub use balance::{Balance, Rates};
pub use cell::{AHEAD_TICKS_MAX, BAND, Cell, CellCounters, KEEP, REACH, Stepped, owner};
pub use controls::{Controls, Resend, UNACKNOWLEDGED_MAX};
pub use director::{Director, Released, Settings};
pub use entity::{
    CONTROLS_MAX, Control, DOWN_TICKS, Downed, Effects, Entity, HEALTH_FULL, Hit, Numbered, RANGE,
    SHOT_DAMAGE, SPEED_MAX, Seen, Spawn, Struck, direction,
};
pub use fanout::Fanout;
pub use frames::Frames;
pub use ids::{EntityId, Slots, mix};
pub use interest::{Interest, KNOWN_MAX, RADIUS_BINS_MAX, SLOW_TICKS, SUMMARIES_MAX, Told, Viewer};
pub use mail::{Border, Orders, Published, Report, Ruling, Shown};
pub use near::Near;
pub use news::{Kill, News};
pub use overload::{Bounds, Load, Overload, RoomLoad, Steps, Taken};
pub use packet::{
    AGE_MAX, FromClient, Malformed, Place, RECORD_BYTES_MAX, Snapshot, Summary, Update, Welcome,
    delta,
};
pub use record::{COORDINATE_END, Record};
pub use saved::{Damaged, Drone, Event, Pilot, Saved};
pub use score::Score;
pub use space::{Area, Axis, BIN_SIDE, BINS_MAX, Point, UNITS_PER_METRE, units};
pub use tree::{CELL_SIDE_MIN, CELLS_MAX, CellId, Change, Refused, Tree};
pub use view::{Applied, BadPacket, Known, View};
