//! Which row of each data file a player has.
//!
//! In: who the player is, and in which of the run's processes. Out: the numbers of its rows. No two
//! players of a run, in whichever processes they are, get the same row of a file that has one for
//! each.

use super::Generator;
use crate::load::scenario::data::Pick;
use crate::load::scenario::program::Source;
use crate::measure::arrivals::Stream;

impl Generator {
    /// The rows of the player that comes as this one of its process, with this number in the run;
    /// or the place of a file that has none left for it.
    pub(super) fn rows_of(&mut self, order: u32, number: u32) -> Result<Box<[u32]>, usize> {
        let program = self.program.clone();
        let share = self.settings.share;
        let place = if self.settings.phases.is_empty() {
            u64::from(number)
        } else {
            share.place(u64::from(order))
        };
        let mut rows = Vec::with_capacity(program.data.len());
        for (index, source) in program.data.iter().enumerate() {
            rows.push(match source.pick {
                Pick::Player => source.own_row(place).ok_or(index)?,
                Pick::Turn | Pick::Random => self.fresh_row(index, source, (number, 0)),
            });
        }
        Ok(rows.into_boxed_slice())
    }

    /// Gives the player another row of each file whose rows go from round to round.
    pub(super) fn renew_rows(&mut self, index: usize) {
        let program = self.program.clone();
        for (place, source) in program.data.iter().enumerate() {
            if source.pick == Pick::Player {
                continue;
            }
            let player = &self.players[index];
            let row = self.fresh_row(place, source, (player.number, player.round));
            if let Some(slot) = self.players[index].rows.get_mut(place) {
                *slot = row;
            }
        }
    }

    fn fresh_row(&mut self, index: usize, source: &Source, (number, round): (u32, u32)) -> u32 {
        let rows = u64::from(source.table.rows().max(1));
        if source.pick == Pick::Random {
            // By who asks and when, not by who was served first.
            let file = u64::try_from(index).unwrap_or(0);
            let mut stream =
                Stream::new(!self.settings.seed ^ file, u64::from(number) << 32 | u64::from(round));
            return stream.below(source.table.rows().max(1));
        }
        let Some(turn) = self.turns.get_mut(index) else { return 0 };
        let place = self.settings.share.place(*turn) % rows;
        *turn += 1;
        u32::try_from(place).unwrap_or(0)
    }
}

/// Which one of the run's processes this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Counted from 0.
    pub(crate) index: u16,
    pub(crate) count: u16,
}

impl Share {
    /// The only process.
    pub(crate) const WHOLE: Self = Self { index: 0, count: 1 };

    /// The place in the whole run of what is this one in the process.
    fn place(self, order: u64) -> u64 {
        order.saturating_mul(u64::from(self.count)).saturating_add(u64::from(self.index))
    }
}

impl Source {
    /// The row of the player at this place of the run.
    fn own_row(&self, place: u64) -> Option<u32> {
        let rows = u64::from(self.table.rows().max(1));
        let row = if self.wrap { place % rows } else { place };
        u32::try_from(row).ok().filter(|row| u64::from(*row) < rows)
    }
}
