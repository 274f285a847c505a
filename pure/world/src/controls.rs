//! Controls on their way from pilots to whichever cell owns their ships.
//!
//! A pilot's session stays where it is while its ship crosses cells. What the pilot wants goes to
//! the cell that last showed the ship, and is kept until a cell shows that the ship follows it. When
//! another cell shows the ship, all that is kept goes there; a cell takes each number once and in
//! order, and a ship takes what waits for its tick with it, so nothing is lost and nothing is done
//! twice.
//!
//! What is deliberately not here: how controls are written (`packet`), and who may steer what.

use std::collections::{BTreeMap, VecDeque};

use crate::entity::Numbered;
use crate::ids::EntityId;
use crate::mail::Published;
use crate::tree::CellId;

/// Controls of a pilot that no cell has shown to be followed; the oldest give way.
pub const UNACKNOWLEDGED_MAX: usize = 32;

/// A control for a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resend {
    /// Which cell.
    pub to: CellId,
    /// Whose ship.
    pub id: EntityId,
    /// What.
    pub wanted: Numbered,
}

#[derive(Debug, Default)]
struct Pilot {
    /// Who showed the ship last, and its epoch there.
    owner: Option<(CellId, u32)>,
    unacknowledged: VecDeque<Numbered>,
}

/// All pilots of one thread of connections.
#[derive(Debug, Default)]
pub struct Controls {
    pilots: BTreeMap<EntityId, Pilot>,
    /// Controls that gave way to newer ones before a cell followed them.
    pub dropped_count: u64,
}

impl Controls {
    /// A pilot has come to steer a ship.
    pub fn join(&mut self, id: EntityId) {
        self.pilots.entry(id).or_default();
    }

    /// A pilot has gone.
    pub fn leave(&mut self, id: EntityId) {
        self.pilots.remove(&id);
    }

    /// A pilot wants something. Tells to which cell that goes now; none of who is not a pilot, of
    /// what is not newer than what came before, and while nobody has shown the ship.
    pub fn steer(&mut self, id: EntityId, wanted: Numbered) -> Option<Resend> {
        let pilot = self.pilots.get_mut(&id)?;
        if pilot.unacknowledged.back().is_some_and(|last| last.seq >= wanted.seq) {
            return None;
        }
        pilot.unacknowledged.push_back(wanted);
        if pilot.unacknowledged.len() > UNACKNOWLEDGED_MAX {
            pilot.unacknowledged.pop_front();
            self.dropped_count += 1;
        }
        let (to, _) = pilot.owner?;
        Some(Resend { to, id, wanted })
    }

    /// A cell shows its ships. Adds to `out` what it has to be told.
    pub fn published(&mut self, published: &Published, out: &mut Vec<Resend>) {
        for row in &published.rows {
            let Some(pilot) = self.pilots.get_mut(&row.id) else { continue };
            let seq = row.control_seq;
            while pilot.unacknowledged.front().is_some_and(|it| it.seq <= seq) {
                pilot.unacknowledged.pop_front();
            }
            if pilot.owner.is_some_and(|(_, epoch)| epoch >= row.epoch) {
                continue;
            }
            pilot.owner = Some((published.cell, row.epoch));
            let resend =
                |wanted: &Numbered| Resend { to: published.cell, id: row.id, wanted: *wanted };
            out.extend(pilot.unacknowledged.iter().map(resend));
        }
    }
}
