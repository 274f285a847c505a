//! Answers that wait for their client: for its windows, or for the kernel to take what was sent before.
//! What of them one connection and one address may have, so that nobody takes a core's part of
//! `limit.unsent_max_bytes` from the others; and whether a client takes what waits.
//!
//! Behind proxies (`socket.proxy_count`) a connection is the proxy's, and no address is counted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use event::{Now, Output, Progress};
use game::error::{ApiError, Code};
use wire::http2::Connection;

use super::Grpc;
use crate::core::Core;
use crate::core::answers::{LARGE_BYTES_MIN, full};
use crate::core::backlog::UNTAKEN_BYTES_MAX;
use crate::mail::Mail;
use crate::stats::{CoreStats, Counter};

/// One connection's part of what may wait on a core.
const CONNECTION_PART: u64 = 8;
/// The part of all connections of an address.
const ADDRESS_PART: u64 = 4;

/// What waits for each address that is counted and has connections.
#[derive(Default)]
pub(in crate::core) struct Windows {
    addresses: BTreeMap<u128, Arc<Counter>>,
}

impl Windows {
    fn of(&mut self, client: u128, stats: &CoreStats) -> Arc<Counter> {
        // Addresses go that have no connection any more.
        if self.addresses.len() as u64 > 2 * stats.grpc_connections.read() {
            self.addresses.retain(|_, bytes| Arc::strong_count(bytes) > 1);
        }
        self.addresses.entry(client).or_default().clone()
    }
}

/// What waits for one connection. Its sums lose it when it is dropped.
pub(super) struct Waiting {
    /// What of it stands in the sums.
    bytes: u64,
    address: Option<Arc<Counter>>,
    progress: Progress,
    stats: Arc<CoreStats>,
}

impl Waiting {
    /// Brings the sums up to what waits.
    pub(super) fn recount(&mut self, now: Now, patience_ms: u64, connection: &Connection) {
        let bytes = connection.unwritten_bytes() as u64;
        for sum in [Some(&self.stats.grpc_unwritten_bytes), self.address.as_deref()] {
            let Some(sum) = sum else { continue };
            sum.take(self.bytes);
            sum.add(bytes);
        }
        self.bytes = bytes;
        // From when it begins to wait.
        let _ = self.is_stalled(now, patience_ms, connection);
    }

    /// Whether the client has taken too little for so long.
    pub(super) fn is_stalled(
        &mut self,
        now: Now,
        patience_ms: u64,
        connection: &Connection,
    ) -> bool {
        let bytes = (connection.unwritten_bytes() as u64, connection.taken_bytes());
        if bytes.0 == 0 {
            self.progress = Progress::default();
            return false;
        }
        self.progress.is_stalled(now.mono_ns, patience_ms.saturating_mul(1_000_000), bytes)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stats.grpc_unwritten_bytes.take(self.bytes);
        if let Some(sum) = &self.address {
            sum.take(self.bytes);
        }
    }
}

impl Core {
    /// What waits for a new connection: nothing.
    pub(super) fn grpc_waiting(&mut self, peer: SocketAddr) -> Waiting {
        let ip = peer.ip().to_canonical();
        let client = self.settings.limits.client(ip);
        let counted = client.filter(|_| self.settings.socket.proxy_count == 0);
        let address = counted.map(|client| self.windows.of(client, &self.stats));
        let stats = self.stats.clone();
        Waiting { bytes: 0, address, progress: Progress::default(), stats }
    }

    /// Whether another answer may wait. An answer to who has left none is never too large, and a small
    /// one is refused to nobody else than who has left others.
    pub(super) fn grpc_may_wait(
        &mut self,
        now: Now,
        grpc: &Grpc,
        bytes: usize,
        out: &Output<Mail>,
    ) -> Result<(), ApiError> {
        let waiting = grpc.connection.unwritten_bytes();
        let has_much = waiting > UNTAKEN_BYTES_MAX;
        if has_much && self.is_full(now, 0, out) {
            return Err(full());
        }
        let core_max = self.settings.answers.unsent_bytes_max;
        let is_beyond = |waiting: u64, part: u64| waiting + bytes as u64 > core_max / part;
        let of_address = grpc.waiting.address.as_ref().map_or(0, |sum| sum.read());
        let is_noticed = of_address > 0 && (waiting > 0 || bytes >= LARGE_BYTES_MIN);
        let who = if has_much && is_beyond(waiting as u64, CONNECTION_PART) {
            "this connection"
        } else if is_noticed && is_beyond(of_address, ADDRESS_PART) {
            "this address"
        } else {
            return Ok(());
        };
        self.stats.grpc_answers_refused.up();
        let text = format!("too many answers of {who} wait to be taken (limit.unsent_max_bytes)");
        let what = format_args!("{} is refused answers over gRPC: {text}", grpc.peer);
        self.limit_log.hit(now, "limit.unsent_max_bytes", what);
        Err(ApiError::new(Code::ResourceExhausted, text))
    }
}
