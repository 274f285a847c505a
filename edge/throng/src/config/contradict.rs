//! Options that are right one by one and wrong together.
//!
//! What is deliberately not here: each option's own range, which stands in the table. Values come
//! in checked; what goes out names both options and where each was set.

use super::Effective;
use super::source::{Clash, Problem};

/// What may wait for one socket that does not read, in bytes.
const QUEUE_BYTES_MAX: u64 = 256 << 20;

/// Every contradiction.
pub(super) fn clashes(values: &Effective) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut clash = |first: &'static str, second: &'static str, clash| {
        let (first_from, second_from) = (values.source(first), values.source(second));
        found.push(Problem::Clash { first, first_from, second, second_from, clash });
    };
    let (key, refresh) = ("session.encryption_key", "session.refresh_encryption_key");
    if values.text(key) == values.text(refresh) {
        clash(key, refresh, Clash::SameKeys);
    }
    let (pong, ping) = ("socket.pong_wait_ms", "socket.ping_period_ms");
    if values.number::<u64>(pong) <= values.number::<u64>(ping) {
        clash(pong, ping, Clash::PongBeforePing);
    }
    let (api, metrics) = ("socket.port", "metrics.prometheus_port");
    let port: u16 = values.number(api);
    // On different addresses the same port would do, but scrapers and people would mix them up.
    if port != 0 && port == values.number::<u16>(metrics) {
        clash(api, metrics, Clash::SamePort { port });
    }
    let (grpc, grpc_port) = ("socket.grpc_port", super::grpc_port(values));
    if values.switch("socket.grpc") && grpc_port != 0 {
        if grpc_port == port {
            clash(api, grpc, Clash::SamePort { port });
        }
        if grpc_port == values.number::<u16>(metrics) {
            clash(grpc, metrics, Clash::SamePort { port: grpc_port });
        }
    }
    let (queue, message) = ("socket.outgoing_queue_size", "socket.max_message_size_bytes");
    let bytes = values.number::<u64>(queue).saturating_mul(values.number(message));
    if bytes > QUEUE_BYTES_MAX {
        clash(queue, message, Clash::QueueBytes { bytes, bytes_max: QUEUE_BYTES_MAX });
    }
    if !values.switch("logger.stdout") && values.text("logger.file").is_empty() {
        clash("logger.stdout", "logger.file", Clash::NoLog);
    }
    found
}
