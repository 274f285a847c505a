//! The table of a thread's connections: slots with generations, what is known of each, and which of
//! it is legal together. About 50 bytes for an idle one; queues and held input exist only while
//! there is something in them.
//!
//! What happens to a connection is decided in `net` and `reactor`; what the kernel does for it, in
//! a driver.

use event::{CloseReason, ConnId};

use crate::outgoing::Outgoing;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
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

impl Phase {
    /// The whole life of a connection: what may follow.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use Phase::{Connecting, Dying, Flushing, Free, Gone, Lingering, Open};
        match self {
            Free => matches!(next, Connecting | Open),
            Connecting => matches!(next, Open | Dying),
            Open => matches!(next, Flushing | Dying),
            Flushing => matches!(next, Lingering | Dying),
            Lingering => next == Dying,
            Dying => next == Gone,
            Gone => next == Free,
        }
    }

    /// What may be there in a phase: output queued, input held, the peer's end seen, and a place
    /// among those who wait for their turn to receive.
    fn may_have(self) -> May {
        let none = May { out: false, held: false, eof: false, hungry: false };
        match self {
            Self::Free | Self::Connecting | Self::Gone => none,
            Self::Open => May { out: true, held: true, eof: true, hungry: true },
            Self::Flushing => May { out: true, eof: true, hungry: true, ..none },
            Self::Lingering => May { hungry: true, ..none },
            Self::Dying => May { out: true, eof: true, ..none },
        }
    }
}

/// A row of the table of legal states.
struct May {
    out: bool,
    held: bool,
    eof: bool,
    hungry: bool,
}

/// Input that came while reading was stopped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
    /// How much of `bytes` the handler has had.
    pub(crate) told: usize,
    pub(crate) eof: bool,
}

/// The name of a socket that does not exist yet.
pub const NO_FILE: u32 = u32::MAX;

/// One connection.
#[derive(Debug)]
pub struct Conn {
    pub(crate) generation: u32,
    /// The driver's name for the socket; [`NO_FILE`] as long as there is none.
    pub file: u32,
    /// Which operations the kernel holds: bits that only the driver knows.
    pub kernel: u16,
    pub(crate) output_max: u32,
    /// How long the peer may take too little of the output.
    pub(crate) patience_ms: u32,
    phase: Phase,
    pub(crate) reason: CloseReason,
    /// The driver is to look at it at the end of the turn.
    pub(crate) dirty: bool,
    /// The handler wants no input.
    pub(crate) reading_off: bool,
    /// The engine takes no input because too much output is waiting.
    pub(crate) reading_paused: bool,
    /// It sends more than others: read from piece by piece and by turns (`fair`).
    pub(crate) has_flooded: bool,
    /// Receives in a row that filled their buffer.
    pub(crate) full_pieces: u8,
    /// It waits for its turn to receive one piece.
    pub(crate) hungry: bool,
    /// It may receive one piece.
    pub(crate) granted: bool,
    /// The peer will send no more.
    pub(crate) eof: bool,
    /// It is in the list of connections whose held input may be told.
    pub(crate) resuming: bool,
    /// What is still to be sent, if anything.
    pub out: Option<Box<Outgoing>>,
    pub(crate) held: Option<Box<Held>>,
}

impl Conn {
    fn free() -> Self {
        Self {
            generation: 0,
            file: NO_FILE,
            kernel: 0,
            output_max: 0,
            patience_ms: u32::MAX,
            phase: Phase::Free,
            reason: CloseReason::Asked,
            dirty: false,
            reading_off: false,
            reading_paused: false,
            has_flooded: false,
            full_pieces: 0,
            hungry: false,
            granted: false,
            eof: false,
            resuming: false,
            out: None,
            held: None,
        }
    }

    /// Where it is in its life.
    #[inline]
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Goes on to another phase, which must be one that may follow.
    pub(crate) fn become_phase(&mut self, next: Phase) {
        assert!(self.phase.may_become(next), "{:?} becomes {next:?}", self.phase);
        self.phase = next;
    }

    /// Whether input may be given to the handler as it comes.
    #[inline]
    #[must_use]
    pub fn is_reading(&self) -> bool {
        !self.reading_off && !self.reading_paused && self.held.is_none()
    }

    /// Whether the driver should be receiving.
    #[inline]
    #[must_use]
    pub fn wants_input(&self) -> bool {
        match self.phase {
            Phase::Open => !self.eof && self.is_reading(),
            Phase::Flushing | Phase::Lingering => !self.eof,
            Phase::Free | Phase::Connecting | Phase::Dying | Phase::Gone => false,
        }
    }

    /// Whether the driver should watch for a reset though it does not receive.
    #[inline]
    #[must_use]
    pub fn wants_watch(&self) -> bool {
        self.phase == Phase::Open && !self.wants_input()
    }

    /// Bytes that wait to be sent.
    #[inline]
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.out.as_ref().map_or(0, |out| out.unsent())
    }

    /// Stops the process if the connection is in a state that must not be: see [`Phase`].
    pub fn assert_legal(&self) {
        let may = self.phase.may_have();
        let phase = self.phase;
        assert!(may.out || self.out.is_none(), "{phase:?} has output");
        assert!(may.held || self.held.is_none(), "{phase:?} holds input");
        assert!(may.eof || !self.eof, "{phase:?} has seen the end");
        assert!(may.hungry || !self.granted, "{phase:?} may receive");
        assert!(self.unsent() > 0 || self.out.is_none(), "an empty queue is kept");
        assert!(!self.granted || self.has_flooded, "only who floods needs a turn");
        assert!(!(self.granted && self.hungry), "waits for the turn that it has");
        if let Some(held) = &self.held {
            assert!(held.told < held.bytes.len() || held.eof, "nothing is held");
        }
        let is_paused = self.reading_paused && phase == Phase::Open;
        assert!(!is_paused || self.out.is_some(), "paused, and nothing is unsent");
    }
}

/// All connections of a thread.
#[derive(Debug, Default)]
pub struct Conns {
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
    #[must_use]
    pub fn open(&self) -> u32 {
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
        let conn = &mut self.slots[slot as usize];
        conn.output_max = output_max;
        conn.become_phase(phase);
        let generation = conn.generation;
        self.open += 1;
        Some(ConnId { slot, generation })
    }

    /// Gives a slot back; its id is never used again.
    pub(crate) fn give_back(&mut self, slot: u32) {
        let conn = &mut self.slots[slot as usize];
        conn.become_phase(Phase::Free);
        conn.assert_legal();
        let generation = conn.generation.wrapping_add(1);
        // The lists that it is on still name the slot, and must not name it twice.
        let dirty = conn.dirty;
        let (hungry, resuming) = (conn.hungry, conn.resuming);
        *conn = Conn { generation, dirty, hungry, resuming, ..Conn::free() };
        self.free.push(slot);
        self.open -= 1;
    }

    /// The connection in a slot, which the driver or the engine names and so must exist.
    #[inline]
    pub fn at(&mut self, slot: u32) -> &mut Conn {
        &mut self.slots[slot as usize]
    }

    /// The connection that a handler names, if it is still the same.
    #[inline]
    pub(crate) fn named(&mut self, id: ConnId) -> Option<&mut Conn> {
        let conn = self.slots.get_mut(id.slot as usize)?;
        (conn.generation == id.generation && conn.phase != Phase::Free).then_some(conn)
    }

    /// The name of the connection in a slot.
    #[inline]
    #[must_use]
    pub fn id(&self, slot: u32) -> ConnId {
        ConnId { slot, generation: self.slots[slot as usize].generation }
    }

    /// Slots that are taken.
    #[must_use]
    pub fn taken(&self) -> Vec<u32> {
        let slots = (0..).zip(&self.slots);
        slots.filter(|(_, conn)| conn.phase != Phase::Free).map(|(slot, _)| slot).collect()
    }

    /// Whether a list names just the slots that know themselves to be in it, and each once.
    pub(crate) fn are_listed<'a>(
        &self,
        list: impl Iterator<Item = &'a u32>,
        is_in: impl Fn(&Conn) -> bool,
    ) -> bool {
        let mut named = 0;
        let know = list.inspect(|_| named += 1).all(|slot| is_in(&self.slots[*slot as usize]));
        know && named == self.slots.iter().filter(|conn| is_in(conn)).count()
    }

    /// All slots, taken or not.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Conn> {
        self.slots.iter()
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
        conns.at(first.slot).become_phase(Phase::Dying);
        conns.at(first.slot).become_phase(Phase::Gone);
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

    #[test]
    #[should_panic(expected = "Open becomes Gone")]
    fn a_phase_is_not_skipped() {
        let mut conns = Conns::new(1);
        let conn = conns.take(Phase::Open, 1).unwrap();
        conns.at(conn.slot).become_phase(Phase::Gone);
    }

    #[test]
    #[should_panic(expected = "Lingering holds input")]
    fn a_state_that_must_not_be_is_found() {
        let mut conns = Conns::new(1);
        let conn = conns.take(Phase::Open, 1).unwrap();
        let conn = conns.at(conn.slot);
        conn.become_phase(Phase::Flushing);
        conn.become_phase(Phase::Lingering);
        conn.held = Some(Box::default());
        conn.assert_legal();
    }
}
