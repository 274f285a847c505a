//! Which row of each data file a player has.
//!
//! In: who the player is, and in which of the run's processes. Out: the numbers of its rows. No two
//! players of a run, in whichever processes they are, get the same row of a file that has one for
//! each.

use std::sync::Arc;

use super::Settings;
use super::player::Player;
use crate::load::scenario::data::Pick;
use crate::load::scenario::program::{Program, Source};
use crate::measure::arrivals::Stream;

/// Who has which rows.
#[derive(Debug)]
pub(super) struct Rows {
    settings: Arc<Settings>,
    program: Arc<Program>,
    /// Rows that have been given out of each data file.
    turns: Box<[u64]>,
}

impl Rows {
    pub(super) fn new(settings: Arc<Settings>, program: Arc<Program>) -> Self {
        let turns = vec![0; program.data.len()].into_boxed_slice();
        Self { settings, program, turns }
    }

    /// The rows of the player that comes as this one of its process, with this number in the run;
    /// or the name of a file that has none left for it.
    pub(super) fn first(&mut self, order: u32, number: u32) -> Result<Box<[u32]>, String> {
        let place = if self.settings.has_phases() {
            self.settings.share.place(u64::from(order))
        } else {
            u64::from(number)
        };
        let mut rows = Vec::with_capacity(self.turns.len());
        for (turn, (index, source)) in self.turns.iter_mut().zip((0..).zip(&self.program.data)) {
            rows.push(match source.pick {
                Pick::Player => source.own_row(place).ok_or_else(|| source.name.clone())?,
                Pick::Turn => source.row_in_turn(turn, self.settings.share),
                Pick::Random => source.random_row((self.settings.seed, index), (number, 0)),
            });
        }
        Ok(rows.into_boxed_slice())
    }

    /// Gives the player another row of each file whose rows go from round to round.
    pub(super) fn renew(&mut self, player: &mut Player) {
        let who = (player.number, player.round);
        let sources = (0..).zip(&self.program.data);
        for ((turn, row), (index, source)) in
            self.turns.iter_mut().zip(&mut player.rows).zip(sources)
        {
            *row = match source.pick {
                Pick::Player => continue,
                Pick::Turn => source.row_in_turn(turn, self.settings.share),
                Pick::Random => source.random_row((self.settings.seed, index), who),
            };
        }
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

    /// The next row of those that this process has given out so many of.
    fn row_in_turn(&self, given: &mut u64, share: Share) -> u32 {
        let place = share.place(*given) % u64::from(self.table.rows().max(1));
        *given += 1;
        u32::try_from(place).unwrap_or(0)
    }

    /// A row of the file at this place, by who asks and when, not by who was served first.
    fn random_row(&self, (seed, index): (u64, u64), (number, round): (u32, u32)) -> u32 {
        let who = u64::from(number) << 32 | u64::from(round);
        Stream::new(!seed ^ index, who).below(self.table.rows().max(1))
    }
}
