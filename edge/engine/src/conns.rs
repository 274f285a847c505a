//! The table of a thread's connections: slots with generations, and what is known of each. About
//! 50 bytes for an idle one; queues and held input exist only while there is something in them.
//!
//! What happens to a connection is decided in `reactor`; what the kernel does for it, in a driver.

use event::{CloseReason, ConnId};

use crate::outgoing::Outgoing;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody has the slot.
    Free,
    /// An outgoing connection is being made.
    Connecting,
    /// Both sides may speak (or the peer has said all it has to say).
    Open,
    /// The handler has closed it; what was queued is still being sent. Input is thrown away.
    Flushing,
    /// Everything is sent and our side shut down; the peer's end is waited for.
    Lingering,
    /// Lost or aborted: the driver takes back what the kernel has, and closes.
    Dying,
    /// The driver is done; the handler is still to be told.
    Gone,
}

/// Input that came while reading was stopped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
    /// How much of `bytes` the handler has had.
    pub(crate) told: usize,
    pub(crate) eof: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) generation: u32,
    /// The driver's name for the socket.
    pub(crate) file: u32,
    pub(crate) output_max: u32,
    /// How long the peer may take too little of the output.
    pub(crate) patience_ms: u32,
    pub(crate) phase: Phase,
    pub(crate) reason: CloseReason,
    /// Which operations the kernel holds: bits that only the driver knows.
    pub(crate) kernel: u8,
    /// The driver is to look at it at the end of the turn.
    pub(crate) dirty: bool,
    /// The handler wants no input.
    pub(crate) reading_off: bool,
    /// The engine takes no input because too much output is waiting.
    pub(crate) reading_paused: bool,
    /// Reading was stopped, or a receive found no free buffer: it is read from piece by piece, so
    /// that what comes before a stop takes effect is one piece, until a piece leaves room in its
    /// buffer. Only the ring receives many pieces at once.
    pub(crate) has_flooded: bool,
    /// The peer will send no more.
    pub(crate) eof: bool,
    /// It is in the list of connections whose held input may be told.
    pub(crate) resuming: bool,
    pub(crate) out: Option<Box<Outgoing>>,
    pub(crate) held: Option<Box<Held>>,
}

impl Conn {
    fn free() -> Self {
        Self {
            generation: 0,
            file: 0,
            output_max: 0,
            patience_ms: u32::MAX,
            phase: Phase::Free,
            reason: CloseReason::Asked,
            kernel: 0,
            dirty: false,
            reading_off: false,
            reading_paused: false,
            has_flooded: false,
            eof: false,
            resuming: false,
            out: None,
            held: None,
        }
    }

    /// Whether input may be given to the handler as it comes.
    #[inline]
    pub(crate) fn is_reading(&self) -> bool {
        !self.reading_off && !self.reading_paused && self.held.is_none()
    }

    /// Whether the driver should be receiving.
    #[inline]
    pub(crate) fn wants_input(&self) -> bool {
        match self.phase {
            Phase::Open => !self.eof && self.is_reading(),
            Phase::Flushing | Phase::Lingering => !self.eof,
            Phase::Free | Phase::Connecting | Phase::Dying | Phase::Gone => false,
        }
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.out.as_ref().map_or(0, |out| out.unsent())
    }
}

/// All connections of a thread.
#[derive(Debug, Default)]
pub(crate) struct Conns {
    slots: Vec<Conn>,
    free: Vec<u32>,
    open: u32,
    max: u32,
}

impl Conns {
    pub(crate) fn new(max: u32) -> Self {
        Self { max, ..Self::default() }
    }

    /// How many slots there are, taken or not.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// How many slots are taken.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Takes a slot; `None` when the thread has as many connections as it may.
    pub(crate) fn take(&mut self, phase: Phase, output_max: u32) -> Option<ConnId> {
        if self.open >= self.max {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Conn::free());
                slot
            }
        };
        let conn = self.slots.get_mut(slot as usize)?;
        let generation = conn.generation;
        *conn = Conn { generation, output_max, phase, ..Conn::free() };
        self.open += 1;
        Some(ConnId { slot, generation })
    }

    /// Gives a slot back; its id is never used again.
    pub(crate) fn give_back(&mut self, slot: u32) {
        let Some(conn) = self.slots.get_mut(slot as usize) else { return };
        assert!(conn.phase != Phase::Free, "slot {slot} is free already");
        let generation = conn.generation.wrapping_add(1);
        *conn = Conn { generation, ..Conn::free() };
        self.free.push(slot);
        self.open -= 1;
    }

    /// The connection in a slot, which the driver or the engine names and so must exist.
    #[inline]
    pub(crate) fn at(&mut self, slot: u32) -> &mut Conn {
        &mut self.slots[slot as usize]
    }

    /// The connection that a handler names, if it is still the same.
    #[inline]
    pub(crate) fn named(&mut self, id: ConnId) -> Option<&mut Conn> {
        let conn = self.slots.get_mut(id.slot as usize)?;
        (conn.generation == id.generation && conn.phase != Phase::Free).then_some(conn)
    }

    #[inline]
    pub(crate) fn id(&self, slot: u32) -> ConnId {
        ConnId { slot, generation: self.slots[slot as usize].generation }
    }

    /// Slots that are taken.
    pub(crate) fn taken(&self) -> Vec<u32> {
        let slots = (0..).zip(&self.slots);
        slots.filter(|(_, conn)| conn.phase != Phase::Free).map(|(slot, _)| slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Conn, Conns, Phase};

    #[test]
    fn a_slot_taken_again_has_another_name() {
        let mut conns = Conns::new(2);
        let first = conns.take(Phase::Open, 1).unwrap();
        let second = conns.take(Phase::Open, 1).unwrap();
        assert_eq!(conns.take(Phase::Open, 1), None);
        conns.give_back(first.slot);
        let third = conns.take(Phase::Connecting, 1).unwrap();
        assert_eq!((third.slot, third.generation), (first.slot, first.generation + 1));
        assert!(conns.named(first).is_none() && conns.named(third).is_some());
        assert_eq!((conns.open(), conns.taken()), (2, vec![first.slot, second.slot]));
    }

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Conn>() <= 64, "{} bytes", size_of::<Conn>());
    }
}
