//! Outgoing connections in the making: where to, for whom, until when, and by what name they can be
//! taken back. Each has one outcome: it stands, or it failed.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use event::{AttemptId, ConnectFailure, Now, TimerId, Timers};

/// One attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    id: AttemptId,
    from: Option<IpAddr>,
    to: SocketAddr,
    /// The handler's.
    pub(crate) token: u64,
    deadline: TimerId,
    /// Why it failed, once it has; the driver may still be taking it back.
    pub(crate) failure: Option<ConnectFailure>,
}

/// What is asked for with `Output::connect`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) id: AttemptId,
    pub(crate) from: Option<IpAddr>,
    pub(crate) to: SocketAddr,
    pub(crate) token: u64,
}

/// The attempts of a thread, by the slot of the connection-to-be.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    by_slot: BTreeMap<u32, Attempt>,
    by_id: BTreeMap<AttemptId, u32>,
    deadlines: Timers<u32>,
}

impl Attempts {
    pub(crate) fn begin(&mut self, slot: u32, wish: Wish, due: Now) {
        let Wish { id, from, to, token } = wish;
        let deadline = self.deadlines.arm(due, slot);
        let attempt = Attempt { id, from, to, token, deadline, failure: None };
        let before = self.by_slot.insert(slot, attempt);
        assert!(before.is_none(), "slot {slot} is connecting already");
        let before = self.by_id.insert(id, slot);
        assert!(before.is_none(), "attempt {} is made twice", id.0);
    }

    /// Where the connection-to-be in `slot` goes.
    pub(crate) fn to(&self, slot: u32) -> SocketAddr {
        self.by_slot[&slot].to
    }

    /// The local address that was asked for, if one was.
    pub(crate) fn from(&self, slot: u32) -> Option<IpAddr> {
        self.by_slot[&slot].from
    }

    /// The slot of an attempt that has not come to an end.
    pub(crate) fn slot(&self, id: AttemptId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// Notes why the attempt in `slot` failed: the first reason stands.
    pub(crate) fn fail(&mut self, slot: u32, failure: ConnectFailure) {
        if let Some(attempt) = self.by_slot.get_mut(&slot) {
            attempt.failure.get_or_insert(failure);
        }
    }

    /// Takes the attempt in `slot`, if there is one: it has come to an end.
    pub(crate) fn end(&mut self, slot: u32) -> Option<Attempt> {
        let attempt = self.by_slot.remove(&slot)?;
        self.by_id.remove(&attempt.id);
        self.deadlines.disarm(attempt.deadline);
        Some(attempt)
    }

    /// When the next deadline is due.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.deadlines.next_ns()
    }

    /// The next attempt whose time is up.
    pub(crate) fn pop_due(&mut self, now: Now) -> Option<u32> {
        self.deadlines.pop_due(now)
    }
}
