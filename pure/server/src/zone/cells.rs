//! The cells of the zone that live on one room: each computes a tick as soon as it has its orders and has
//! heard of the tick before from all cells near it.
//!
//! Data in: ticks of the home, and borders of cells elsewhere. Data out: borders for cells elsewhere, and
//! what each cell has done, for the home. What is deliberately not here: the rules (`world::Cell`), and who
//! decides which cell lives where (`world::Balance`).

use std::collections::BTreeMap;
use std::sync::Arc;

use event::CallClock;
use world::{Border, Cell, CellId, Report, Stepped};

use crate::mail::{RoomIndex, ZoneDone, ZoneMail, ZoneTick};

/// See the module.
pub(super) struct Cells {
    me: RoomIndex,
    cells: BTreeMap<CellId, Cell>,
    /// Where each cell lives, by the newest tick.
    rooms: Arc<BTreeMap<CellId, RoomIndex>>,
    home: RoomIndex,
    /// Borders for cells whose first tick the home has not told of yet. Not more than a tick's: cells
    /// elsewhere go no further without this room.
    early: Vec<Border>,
}

impl Cells {
    pub(super) fn new(me: RoomIndex) -> Self {
        Self { me, cells: BTreeMap::new(), rooms: Arc::default(), home: me, early: Vec::new() }
    }

    /// A tick may be computed.
    pub(super) fn tick(
        &mut self,
        tick: ZoneTick,
        clock: &mut dyn CallClock,
        out: &mut Vec<(RoomIndex, ZoneMail)>,
    ) {
        let ZoneTick { home, orders, tree, rooms, starts, begins, controls } = tick;
        (self.home, self.rooms) = (home, rooms);
        let mine = |id: &CellId| self.rooms.get(id) == Some(&self.me);
        if let Some(own) = begins {
            let mut first = tree.cells().map(|(id, _)| id).filter(mine);
            let (Some(id), None) = (first.next(), first.next()) else {
                unreachable!("a zone begins with one cell")
            };
            self.cells.insert(id, Cell::new(id, orders.tick, None, tree.clone()).with(own));
        }
        for send in controls {
            if let Some(cell) = self.cells.get_mut(&send.to) {
                cell.control(send.id, send.wanted);
            }
        }
        self.cells.values_mut().for_each(|cell| cell.order(orders.clone()));
        if let Some(id) = starts.filter(mine) {
            let cell = Cell::new(id, orders.tick + 1, Some(tree), orders.next);
            self.cells.insert(id, cell);
        }
        for border in std::mem::take(&mut self.early) {
            if let Some(cell) = self.cells.get_mut(&border.to) {
                cell.tell(border);
            }
        }
        self.run(clock, out);
    }

    /// A cell elsewhere tells one of these what it sees.
    pub(super) fn tell(
        &mut self,
        border: Border,
        clock: &mut dyn CallClock,
        out: &mut Vec<(RoomIndex, ZoneMail)>,
    ) {
        match self.cells.get_mut(&border.to) {
            Some(cell) => cell.tell(border),
            None => self.early.push(border),
        }
        self.run(clock, out);
    }

    /// Computes whatever can be.
    fn run(&mut self, clock: &mut dyn CallClock, out: &mut Vec<(RoomIndex, ZoneMail)>) {
        while let Some(id) = self.cells.iter().find(|(_, cell)| cell.is_ready()).map(|(id, _)| *id)
        {
            let Some(cell) = self.cells.get_mut(&id) else { unreachable!("{id:?} is gone") };
            clock.begin();
            let Stepped { published, borders, columns, rows, is_retired, saved } = cell.step();
            let cpu_ns = u64::from(clock.spent().kept_us) * 1_000;
            if is_retired {
                self.cells.remove(&id);
            }
            for border in borders {
                let Some(room) = self.rooms.get(&border.to) else {
                    unreachable!("{:?} lives nowhere", border.to)
                };
                if *room != self.me {
                    out.push((*room, ZoneMail::Border(Box::new(border))));
                } else if let Some(cell) = self.cells.get_mut(&border.to) {
                    cell.tell(border);
                }
            }
            let report = Report { cell: id, cpu_ns, columns, rows };
            let done = ZoneDone { room: self.me, published, report, saved };
            out.push((self.home, ZoneMail::Done(Box::new(done))));
        }
    }
}
