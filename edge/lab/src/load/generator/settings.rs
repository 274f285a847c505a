//! How one generator is to run: what the plan of a run says of it. Read by all parts, changed by
//! none.

use std::net::SocketAddr;

use rustls::pki_types::ServerName;

use super::{Share, Source, TlsClient};
use crate::load::scenario::Phase;
use crate::load::scenario::mark::SENDER_MASK;

/// How one generator is to run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where the servers listen: the player with number n goes to node n modulo their count.
    pub(crate) nodes: Vec<Node>,
    /// For the nodes that want TLS.
    pub(crate) tls: Option<TlsClient>,
    /// Where connections come from.
    pub(crate) source: Source,
    /// Players of this generator, and the number of its first one in the run.
    pub(crate) players: u32,
    pub(crate) first_number: u32,
    /// What stands for the first player in match messages, which have 24 bits for it.
    pub(crate) first_sender: u32,
    /// Players of the whole run, which share a rate.
    pub(crate) players_all: u32,
    /// Which of the run's processes this is.
    pub(crate) share: Share,
    pub(crate) rate: Option<f64>,
    /// What it becomes, evenly, until the counted time ends.
    pub(crate) rate_end: Option<f64>,
    pub(crate) saturate: bool,
    /// Whether the machine's clock may be read: tests make up their time.
    pub(crate) has_clock: bool,
    /// One of several generators: the warm-up begins on command.
    pub(crate) waits_for_go: bool,
    pub(crate) ramp_ns: u64,
    pub(crate) warm_up_ns: u64,
    pub(crate) counted_ns: u64,
    pub(crate) timeout_ns: u64,
    pub(crate) phases: Vec<Phase>,
    /// Low bits of the run's number, in match messages.
    pub(crate) run_tag: u16,
    pub(crate) seed: u64,
}

impl Settings {
    /// Players come and go all the time, instead of coming once and staying.
    pub(super) fn has_phases(&self) -> bool {
        !self.phases.is_empty()
    }

    /// What stands for a player in match messages.
    pub(super) fn sender_of(&self, number: u32) -> u32 {
        let order = number.wrapping_sub(self.first_number);
        self.first_sender.wrapping_add(order) & SENDER_MASK
    }

    /// The place of the server that a player uses.
    pub(super) fn node_index(&self, number: u32) -> usize {
        number as usize % self.nodes.len()
    }

    /// That server.
    pub(super) fn node(&self, number: u32) -> &Node {
        &self.nodes[self.node_index(number)]
    }
}

/// One server of several that are measured as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) addr: SocketAddr,
    /// For the `Host` header.
    pub(crate) host: String,
    /// Whose certificate it is to have, if it speaks TLS.
    pub(crate) tls_name: Option<ServerName<'static>>,
}
