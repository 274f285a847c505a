//! Who may receive how much: so that a connection that sends without end, or a thousand of them,
//! delay a quiet neighbour by a turn or two and not by their number.
//!
//! A turn is bounded (`Limits::turn_bytes`): what the kernel brought beyond it waits for the next, in
//! order. A connection that fills its receive buffer twice in a row has *flooded*: from then on it
//! is given one piece at a time, in turns with all others that flood, which have half of a turn
//! together; a piece that fills less than a quarter of its buffer ends that. All others are
//! received from as their bytes come. Who met a shortage of receive buffers goes first.
//! Datagrams have a bound of their own (`datagrams`).
//!
//! A turn ends early when a connection is sent more than it may have unsent, so that the kernel is
//! offered it. Of turns behind each other so many do, at most ([`EARLY_MAX`]): the next tells all that it
//! may, or one client whose answers are large would keep everybody's datagrams, mail and bytes waiting
//! for as long as it likes.

use std::collections::VecDeque;

use crate::counters::Count;
use crate::net::Net;

/// A connection has caught up when a piece fills less than this part of its buffer.
const CAUGHT_UP_PART: usize = 4;

/// What one input costs besides its bytes: so that a turn of 256 KiB tells 1,024 at most.
pub(crate) const INPUT_COST: u64 = 256;
/// Turns behind each other that end early, at most.
pub(crate) const EARLY_MAX: u8 = 3;
/// Receives in a row that fill their buffer, from which on a connection floods.
const FULL_PIECES: u8 = 2;

/// How a connection is to be received from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// Not now.
    No,
    /// One buffer full, once.
    One,
    /// Whatever comes, as it comes.
    Many,
}

/// Who waits to receive a piece.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Who met a shortage of buffers.
    starved: VecDeque<u32>,
    hungry: VecDeque<u32>,
    /// Pieces that may still be given this turn.
    left: u32,
    /// What has been told this turn.
    spent: u64,
    /// Whether the turn is to end, whatever has been spent.
    is_over: bool,
    /// Turns before this one that ended so, behind each other.
    early: u8,
}

impl Turns {
    pub(crate) fn is_waiting(&self) -> bool {
        !self.starved.is_empty() || !self.hungry.is_empty()
    }

    /// Who waits, in any order.
    pub(crate) fn in_line(&self) -> impl Iterator<Item = &u32> {
        self.starved.iter().chain(&self.hungry)
    }

    /// Ends the turn as soon as may be, unless too many have ended so: the kernel is to be offered what
    /// was queued.
    pub(crate) fn end_early(&mut self) {
        self.is_over = self.early < EARLY_MAX;
    }
}

impl<M> Net<M> {
    pub(crate) fn begin_turns(&mut self) {
        let pieces = self.limits.turn_bytes / 2 / self.limits.receive_buffer_bytes.max(1);
        self.turns.left = pieces.max(1);
        self.turns.spent = 0;
        let was_early = std::mem::take(&mut self.turns.is_over);
        self.turns.early = if was_early { self.turns.early + 1 } else { 0 };
        self.datagrams_spent = 0;
    }

    /// For drivers with a pool of receive buffers: gives no more pieces this turn than leave half of
    /// the `free` ones to the others.
    pub fn limit_pieces(&mut self, free: u32) {
        self.turns.left = self.turns.left.min((free / 2).max(1));
    }

    /// Whether this turn has told as much as it may: a driver keeps the rest for the next.
    #[inline]
    #[must_use]
    pub fn is_turn_spent(&self) -> bool {
        self.turns.spent >= u64::from(self.limits.turn_bytes) || self.turns.is_over
    }

    #[inline]
    pub(crate) fn spend(&mut self, cost: u64) {
        self.turns.spent += cost;
    }

    /// What the kernel brings and what was held back are each told under a bound of their own: or
    /// the one would wait for ever on a thread that always has mail, and the other on one that the
    /// kernel always brings enough.
    pub(crate) fn spend_anew(&mut self) {
        self.turns.spent = 0;
    }

    /// Whether the turn is to end before anything more is told, mail included.
    #[must_use]
    pub fn is_turn_over(&self) -> bool {
        self.turns.is_over
    }

    /// How the connection is to be received from now. One that floods is put in line, if it is not.
    #[inline]
    pub fn receive_wish(&mut self, slot: u32) -> Receive {
        let state = self.conns.at(slot);
        if !state.wants_input() {
            return Receive::No;
        }
        if !state.has_flooded {
            return Receive::Many;
        }
        if state.granted {
            return Receive::One;
        }
        if !std::mem::replace(&mut state.hungry, true) {
            self.turns.hungry.push_back(slot);
        }
        Receive::No
    }

    /// From now on the connection is given one piece at a time.
    pub(crate) fn floods(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.conns.at(slot).has_flooded, true) {
            self.counters.add(Count::Flooding, 1);
        }
    }

    /// From now on the connection may be given several again.
    pub(crate) fn floods_no_more(&mut self, slot: u32) {
        if std::mem::take(&mut self.conns.at(slot).has_flooded) {
            self.counters.subtract(Count::Flooding, 1);
        }
    }

    /// A receive has brought `len` bytes.
    #[inline]
    pub(crate) fn note_piece(&mut self, slot: u32, len: usize) {
        let buffer_bytes = self.limits.receive_buffer_bytes as usize;
        let is_full = len >= buffer_bytes;
        let state = self.conns.at(slot);
        state.granted = false;
        if is_full {
            state.full_pieces = state.full_pieces.saturating_add(1);
            if state.full_pieces >= FULL_PIECES {
                self.floods(slot);
            }
        } else {
            state.full_pieces = 0;
            if len < buffer_bytes / CAUGHT_UP_PART {
                // Little was left for this buffer and nothing for a further one. A piece that is
                // only just short is a flood's as well, and would let it have many at once again.
                self.floods_no_more(slot);
            }
        }
    }

    /// A receive of one piece found nothing: the connection waits for bytes like any other.
    pub fn on_nothing(&mut self, slot: u32) {
        self.note_piece(slot, 0);
        self.touch(slot);
    }

    /// A receive found no free buffer. The connection is first in line for the next.
    pub fn on_shortage(&mut self, slot: u32) {
        self.counters.add(Count::BufferShortages, 1);
        let state = self.conns.at(slot);
        state.granted = false;
        if !std::mem::replace(&mut state.hungry, true) {
            self.turns.starved.push_back(slot);
        }
        self.floods(slot);
        self.touch(slot);
    }

    /// Gives the next in line its turn, if there is one left.
    pub(crate) fn grant(&mut self) -> Option<u32> {
        while self.turns.left > 0 {
            let slot = self.turns.starved.pop_front().or_else(|| self.turns.hungry.pop_front())?;
            let state = self.conns.at(slot);
            assert!(state.hungry, "in line, and does not know");
            state.hungry = false;
            if state.has_flooded && state.wants_input() && !state.granted {
                state.granted = true;
                self.turns.left -= 1;
                return Some(slot);
            }
        }
        None
    }
}
