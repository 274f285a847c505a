//! The table of players: who is there, who is ready, who has an operation under way, and whose timer
//! goes off when. What a player does next is decided elsewhere.

use std::ops::{Index, IndexMut};

use event::{Now, Timers};

use super::player::{Doing, Player};
use super::stages::Census;

/// All players of a generator, by their place.
#[derive(Debug, Default)]
pub(super) struct Players {
    list: Vec<Player>,
    /// Places of players that have left.
    free: Vec<u32>,
    timers: Timers<u32>,
    present: u32,
    ready: u32,
    gone: u32,
    preparing: u32,
    busy: u32,
    last_ready_ns: u64,
}

impl Index<usize> for Players {
    type Output = Player;

    fn index(&self, index: usize) -> &Player {
        &self.list[index]
    }
}

impl IndexMut<usize> for Players {
    fn index_mut(&mut self, index: usize) -> &mut Player {
        &mut self.list[index]
    }
}

impl Players {
    /// Places that are or were a player's.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn all(&self) -> &[Player] {
        &self.list
    }

    /// Those that are there.
    pub(super) fn present(&self) -> u32 {
        self.present
    }

    /// Those that prepare themselves for the first time just now.
    pub(super) fn preparing(&self) -> u32 {
        self.preparing
    }

    /// How many there are of each kind; connections are told elsewhere.
    pub(super) fn census(&self) -> Census {
        Census {
            present: self.present,
            ready: self.ready,
            gone: self.gone,
            busy: self.busy,
            last_ready_ns: self.last_ready_ns,
            ..Census::default()
        }
    }

    /// A player comes; returns its place.
    pub(super) fn arrives(&mut self, player: Player) -> usize {
        self.present += 1;
        self.preparing += u32::from(player.is_preparing);
        match self.free.pop() {
            Some(place) => {
                self.list[place as usize] = player;
                place as usize
            }
            None => {
                self.list.push(player);
                self.list.len() - 1
            }
        }
    }

    /// A player leaves for good. Its place may be another's if it is `free` then.
    pub(super) fn leaves(&mut self, index: usize, is_free: bool) {
        self.settle(index);
        self.leave_door(index);
        let player = &mut self.list[index];
        self.gone += u32::from(!std::mem::replace(&mut player.is_ready, true));
        player.doing = Doing::Absent;
        if let Some(timer) = player.timer.take() {
            self.timers.disarm(timer);
        }
        self.present -= 1;
        if is_free {
            self.free.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// The player has reached its loop, or its place to hold.
    pub(super) fn becomes_ready(&mut self, now_ns: u64, index: usize) {
        if std::mem::replace(&mut self.list[index].is_ready, true) {
            return;
        }
        self.leave_door(index);
        self.ready += 1;
        self.last_ready_ns = now_ns;
    }

    /// Takes a place among those who prepare themselves, for a player that begins its preparation
    /// again; `false` when there is none. Those who have not tried yet come first, because they need
    /// no timer.
    pub(super) fn enters_door(&mut self, index: usize, is_full: bool) -> bool {
        let player = &mut self.list[index];
        if player.is_ready || player.is_preparing || player.step != 0 {
            return true;
        }
        if !is_full {
            player.is_preparing = true;
            self.preparing += 1;
        }
        !is_full
    }

    /// The player does not prepare itself any more, for good or for now.
    pub(super) fn leave_door(&mut self, index: usize) {
        if std::mem::take(&mut self.list[index].is_preparing) {
            self.preparing -= 1;
        }
    }

    /// An operation is under way, which so many answers end.
    pub(super) fn begin(&mut self, index: usize, answers: u16) {
        let player = &mut self.list[index];
        player.left = answers;
        player.doing = Doing::Busy;
        self.busy += 1;
    }

    /// The operation under way is over, one way or the other.
    pub(super) fn settle(&mut self, index: usize) {
        let player = &mut self.list[index];
        if player.doing == Doing::Busy {
            self.busy -= 1;
        }
        player.doing = Doing::Waiting;
        player.left = 0;
        player.is_intended = false;
    }

    /// Arms the player's timer. It never goes off in the same turn: a player that has always
    /// something to do would keep the thread for itself.
    pub(super) fn wait_until(&mut self, now_ns: u64, index: usize, due_ns: u64) {
        let who = u32::try_from(index).unwrap_or(u32::MAX);
        let timer = self.timers.arm(at(due_ns.max(now_ns + 1)), who);
        if let Some(old) = self.list[index].timer.replace(timer) {
            self.timers.disarm(old);
        }
    }

    /// The next player whose timer has gone off.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<usize> {
        let index = self.timers.pop_due(at(now_ns))? as usize;
        self.list[index].timer = None;
        Some(index)
    }

    /// When the next timer goes off.
    pub(super) fn next_ns(&self) -> u64 {
        self.timers.next_ns().unwrap_or(u64::MAX)
    }
}

fn at(mono_ns: u64) -> Now {
    Now { mono_ns, unix_ms: 0 }
}
