//! What the handlers need to know before they start: the limits, keys and intervals, already
//! checked by the wiring (`edge/throng/src/config.rs`), named as the original's options are.

use game::session::SessionSettings;

/// Settings of cores, rooms and workers. Units are in the names; defaults are set by the wiring.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `name`, 1–16 characters: the node part of match ids.
    pub node: String,
    /// The program's version, for scripts and the `Server` header.
    pub version: String,
    /// `shutdown_grace_sec`: how long matches may take to end after SIGTERM; 0 ends them at once.
    pub shutdown_grace_s: u32,
    /// `session.*`: keys and lifetimes.
    pub session: SessionSettings,
    /// `session.single_socket`: a new socket closes the user's older ones.
    pub single_socket: bool,
    /// `socket.*`.
    pub socket: SocketSettings,
    /// `match.*`.
    pub matches: MatchSettings,
    /// `runtime.*`.
    pub runtime: RuntimeSettings,
}

/// `socket.*`.
#[derive(Clone, Debug)]
pub struct SocketSettings {
    /// `socket.server_key`.
    pub server_key: String,
    /// `socket.max_message_size_bytes`: of one WebSocket message from a client.
    pub message_bytes_max: usize,
    /// `socket.max_request_size_bytes`: of one HTTP request body.
    pub request_bytes_max: usize,
    /// `socket.outgoing_queue_size`: messages of `message_bytes_max` that may wait for a client
    /// that does not read; the limit is their product in bytes.
    pub outgoing_queue_size: usize,
    /// `socket.ping_period_ms`.
    pub ping_period_ms: u64,
    /// `socket.pong_wait_ms`.
    pub pong_wait_ms: u64,
    /// `socket.close_ack_wait_ms`.
    pub close_ack_wait_ms: u64,
    /// `socket.read_timeout_ms`: for one HTTP request to arrive in full.
    pub read_timeout_ms: u64,
    /// `socket.idle_timeout_ms`: of a kept-alive HTTP connection.
    pub idle_timeout_ms: u64,
    /// `socket.response_headers`: `Name: value`, added to every HTTP answer.
    pub response_headers: Vec<(String, String)>,
    /// `socket.proxy_count`: how many entries of X-Forwarded-For, from the right, are trusted.
    pub proxy_count: usize,
}

/// `match.*`.
#[derive(Clone, Debug)]
pub struct MatchSettings {
    /// `match.input_queue_size`: messages waiting for a tick.
    pub input_queue_size: usize,
    /// `match.deferred_queue_size`.
    pub deferred_queue_size: usize,
    /// `match.max_empty_sec`; 0 is off.
    pub empty_s_max: u64,
    /// `match.matches_max`: authoritative ones, of all rooms together.
    pub count_max: usize,
}

/// `runtime.*`.
#[derive(Clone, Debug)]
pub struct RuntimeSettings {
    /// `runtime.http_key`.
    pub http_key: String,
    /// `runtime.env`.
    pub env: Vec<(String, String)>,
}
