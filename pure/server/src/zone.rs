//! The part of the zone that a room has: some of its cells, some of its viewers, and on one room its
//! home, where it is a match that clients find, join and steer.
//!
//! ```text
//!  join, controls ──▶ Home ── Tick ──▶ Cells … Cells ── Done ──▶ Home ── Show ──▶ Viewers … Viewers ──▶ frames
//!                                        └── Border ─▲
//! ```
//!
//! Who computes a ship and who tells a client of it are two questions with two answers: cells are spread
//! over rooms by space and cost (`world::Balance`), viewers by number. What one part says to another is a
//! [`ZoneMail`], also within a room, so that a zone on one room and one on many are the same. Borders and
//! reports come from cells; a tick is released when all cells have done the one before it.
//!
//! What is deliberately not here: what a ship is and does (`world`), sessions and streams (`room::zone`),
//! and threads.

mod cells;
mod feed;
mod home;
mod refusal;
mod rules;
mod saving;
mod viewers;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use event::{CallClock, Now};

use crate::mail::{RoomIndex, ZoneMail};
use crate::settings::WorldSettings;
use crate::stats::RoomStats;

pub(crate) use home::Home;
pub(crate) use viewers::{Packet, Viewers};

/// Opcodes of match data are the kinds of packets (docs/world/protocol.md).
pub(crate) const CONTROLS: i64 = world::FromClient::KIND as i64;

/// What a room has of the zone.
pub(crate) struct Zone {
    me: RoomIndex,
    /// Where the match is, if it is here.
    pub(crate) home: Option<Home>,
    cells: cells::Cells,
    pub(crate) viewers: Viewers,
}

/// What the room that hosts a part of the zone lends it.
pub(crate) struct Around<'a> {
    pub(crate) clock: &'a mut dyn CallClock,
    pub(crate) stats: &'a RoomStats,
    /// What is for other rooms.
    pub(crate) posts: &'a mut Vec<(RoomIndex, ZoneMail)>,
}

impl Zone {
    /// The part of a room, by its index among all rooms of the node.
    pub(crate) fn new(me: RoomIndex, settings: &WorldSettings) -> Self {
        Self { me, home: None, cells: cells::Cells::new(me), viewers: Viewers::new(settings) }
    }

    /// The room's index.
    pub(crate) fn me(&self) -> RoomIndex {
        self.me
    }

    /// Takes mail, and all that comes of it here. `Begin` is the room's: it makes the home.
    pub(crate) fn take(&mut self, now: Now, mail: ZoneMail, around: &mut Around<'_>) {
        let mut queue = VecDeque::from([mail]);
        let mut out = Vec::new();
        while let Some(mail) = queue.pop_front() {
            match mail {
                ZoneMail::Begin { .. } => unreachable!("a zone begins at its room alone"),
                ZoneMail::Tick(tick) => self.cells.tick(*tick, around.clock, &mut out),
                ZoneMail::Border(border) => self.cells.tell(*border, around.clock, &mut out),
                ZoneMail::Done(done) => self.home().done(now, *done, around.stats, &mut out),
                ZoneMail::Show(show) => self.viewers.show(*show, around.clock),
                ZoneMail::Shown { room, cost_ns } => {
                    self.home().shown(now, (room, cost_ns), &mut out);
                }
                ZoneMail::Saved { write, is_kept } => {
                    self.home().saved(write, is_kept, around.stats);
                }
                ZoneMail::Ruled { rule, number, returned } => {
                    self.home().ruled(now, (rule, number), returned.as_deref(), around.stats);
                }
            }
            for (room, mail) in out.drain(..) {
                if room == self.me {
                    queue.push_back(mail);
                } else {
                    around.posts.push((room, mail));
                }
            }
        }
    }

    /// The time has come that [`Home::due`] told.
    pub(crate) fn tick(&mut self, now: Now, around: &mut Around<'_>) {
        let mut out = Vec::new();
        self.home().tick(now, around.stats, &mut out);
        for (room, mail) in out {
            if room == self.me {
                self.take(now, mail, around);
            } else {
                around.posts.push((room, mail));
            }
        }
    }

    /// Writes packets of some viewers. Tells whether all of the room's have been told of a tick by now, also if
    /// the next one is to be told already.
    pub(crate) fn write(
        &mut self,
        now: Now,
        around: &mut Around<'_>,
        packets: &mut Vec<Packet>,
    ) -> bool {
        let told = self.viewers.write(around.clock, around.stats, packets);
        let Some((home, cost_ns)) = told else { return false };
        let shown = ZoneMail::Shown { room: self.me, cost_ns };
        if home == self.me {
            self.take(now, shown, around);
        } else {
            around.posts.push((home, shown));
        }
        true
    }

    fn home(&mut self) -> &mut Home {
        let Some(home) = &mut self.home else {
            unreachable!("mail for the zone's home at room {}", self.me)
        };
        home
    }
}
