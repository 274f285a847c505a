//! Datagrams of the rig: what a core is told of as if it had come from an address, and what it has sent.

use std::net::SocketAddr;

use event::{Datagrams, Input, SocketId, ThreadId};

use super::Rig;

/// A datagram that a core has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) core: u16,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Rig {
    /// A datagram comes to a core's socket, and all threads do what comes of it.
    pub(crate) fn datagram(&self, core: u16, from: SocketAddr, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let datagrams = Datagrams::one(SocketId(0), from, 0, &mut bytes);
        self.input(ThreadId(core), Input::Datagrams(datagrams));
        self.settle();
    }

    /// What was sent since the last look.
    pub(crate) fn datagrams(&self) -> Vec<Sent> {
        self.world.datagrams.borrow_mut().drain(..).collect()
    }
}
