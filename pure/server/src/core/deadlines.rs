//! When connections are looked at: one deadline for each at most, in 20 bytes.
//!
//! A binary heap by time, and for each slot where its deadline is in it, so that a deadline is moved
//! without looking for it. `event::Timers` names every timer anew and carries what it is for; that
//! is three times as much for each idle socket.

use event::Now;

/// The place of a slot that has no deadline.
const NOWHERE: u32 = u32::MAX;

/// The deadlines of a table of connections.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: Vec<Deadline>,
    /// Places in `heap`, by slot.
    places: Vec<u32>,
    /// Counts what was armed; wraps.
    serial: u32,
}

/// Earlier ones are less; of the same moment, those that were armed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Deadline {
    due_ns: u64,
    serial: u32,
    slot: u32,
}

impl Deadlines {
    /// Sets the deadline of a slot, in place of the one it had.
    pub(super) fn arm(&mut self, due: Now, slot: u32) {
        self.serial = self.serial.wrapping_add(1);
        let deadline = Deadline { due_ns: due.mono_ns, serial: self.serial, slot };
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, NOWHERE);
        }
        match self.place_of(slot) {
            Some(place) => {
                self.heap[place] = deadline;
                self.settle(place);
            }
            None => {
                self.heap.push(deadline);
                self.settle(self.heap.len() - 1);
            }
        }
    }

    /// Takes the deadline of a slot back, if it has one.
    pub(super) fn disarm(&mut self, slot: u32) {
        let Some(place) = self.place_of(slot) else { return };
        self.places[slot as usize] = NOWHERE;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.settle(place);
        }
    }

    /// Takes out the earliest slot that is due.
    pub(super) fn pop_due(&mut self, now: Now) -> Option<u32> {
        let first = self.heap.first().filter(|first| first.due_ns <= now.mono_ns)?.slot;
        self.disarm(first);
        Some(first)
    }

    /// When the earliest is due, in nanoseconds of [`Now::mono_ns`].
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.first().map(|first| first.due_ns)
    }

    fn place_of(&self, slot: u32) -> Option<usize> {
        let place = self.places.get(slot as usize).filter(|place| **place != NOWHERE)?;
        Some(*place as usize)
    }

    /// Moves what is at a place up or down to where it belongs.
    fn settle(&mut self, mut place: usize) {
        let moved = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= moved {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        loop {
            let left = 2 * place + 1;
            let children = left..(left + 2).min(self.heap.len());
            let Some(child) = children.min_by_key(|child| self.heap[*child]) else { break };
            if moved <= self.heap[child] {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, moved);
    }

    fn put(&mut self, place: usize, deadline: Deadline) {
        self.heap[place] = deadline;
        self.places[deadline.slot as usize] = u32::try_from(place).unwrap_or(NOWHERE);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use event::{Now, Random};

    use super::Deadlines;

    #[test]
    fn slots_come_in_the_order_of_their_deadlines() {
        let start = Now::default();
        let mut deadlines = Deadlines::default();
        for (slot, due_ms) in [(3, 20), (7, 10), (0, 5), (9, 10), (3, 15)] {
            deadlines.arm(start.after_ms(due_ms), slot);
        }
        deadlines.disarm(0);
        deadlines.disarm(1_000);
        assert_eq!(deadlines.next_ns(), Some(10_000_000));
        assert_eq!(deadlines.pop_due(start.after_ms(9)), None);
        let late = start.after_ms(15);
        let due: Vec<u32> = std::iter::from_fn(|| deadlines.pop_due(late)).collect();
        assert_eq!(due, [7, 9, 3]);
        assert_eq!(deadlines.next_ns(), None);
    }

    #[test]
    fn any_order_of_arming_and_disarming_keeps_the_order() {
        let mut random = Random::from_seed([7; 32]);
        let (mut deadlines, mut model) = (Deadlines::default(), BTreeMap::new());
        for step in 0..20_000_u32 {
            let (slot, due_ms) = (random.below(200), u64::from(random.below(1_000)));
            match random.below(4) {
                0 => {
                    deadlines.disarm(slot);
                    model.retain(|_, armed| *armed != slot);
                }
                1 => {
                    let due = model.first_key_value().filter(|((due, _), _)| *due <= due_ms);
                    let due = due.map(|(key, slot)| (*key, *slot));
                    due.and_then(|(key, _)| model.remove(&key));
                    let now = Now::default().after_ms(due_ms);
                    assert_eq!(deadlines.pop_due(now), due.map(|(_, slot)| slot), "{step}");
                }
                _ => {
                    model.retain(|_, armed| *armed != slot);
                    model.insert((due_ms, step), slot);
                    deadlines.arm(Now::default().after_ms(due_ms), slot);
                }
            }
            let next = model.first_key_value().map(|((due_ms, _), _)| due_ms * 1_000_000);
            assert_eq!(deadlines.next_ns(), next, "{step}");
        }
    }
}
