//! What the handlers need to know before they start: the limits, keys and intervals, already
//! checked by the wiring (`edge/throng/src/config.rs`), named as Nakama's options are.

use event::Network;
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
    /// `limit.*`.
    pub limits: LimitSettings,
    /// `limit.answer_*` and `limit.unsent_*`.
    pub answers: AnswerSettings,
    /// `datagram.*`, if sessions may have datagrams (`datagram.enabled`).
    pub datagrams: Option<DatagramSettings>,
    /// `world.*`, if there is to be a zone (`world.enabled`).
    pub world: Option<WorldSettings>,
}

/// `datagram.*`: datagrams beside sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramSettings {
    /// `datagram.public_address`: where clients send to; empty is the host that they have reached already.
    pub host: String,
    /// The port of each core, as clients reach it.
    pub ports: Vec<u16>,
    /// `datagram.per_session_per_s`: heeded of one session; 0 is off.
    pub per_session_per_s: u32,
    /// `datagram.per_address_per_s`: looked at of one address that is not in `limit.exempt_addresses`; 0 is
    /// off.
    pub per_address_per_s: u32,
    /// `datagram.idle_ms`: how long an address counts that nothing is heard from.
    pub idle_ms: u64,
}

/// `world.*`: the zone.
#[derive(Clone, Debug)]
pub struct WorldSettings {
    /// `world.tick_rate_hz`: ticks of a second of the world, 1–60.
    pub tick_rate_hz: u8,
    /// `world.side_m`, in bins of 64 m: 4–1,024.
    pub bins: u16,
    /// `world.seed`: where ships appear, and what bots do.
    pub seed: u64,
    /// `world.bots`: ships without a player; with `players_max` at most 65,536.
    pub bots: u32,
    /// `world.players_max`: sessions that are in it at one time.
    pub players_max: u32,
    /// `world.waiting_max`: sessions that wait to be let in.
    pub waiting_max: u32,
    /// `world.ships_per_user`: of these, of one user; 0 is off.
    pub ships_per_user: u32,
    /// `world.ships_per_address`: of one address that is not in `limit.exempt_addresses`; 0 is off.
    pub ships_per_address: u32,
    /// `world.partition`: whether cells stay as they are cut when the zone begins, one for each room.
    pub is_partition_static: bool,
    /// `world.cells_permille`: of a tick's time, what a room may use for cells before it gives some away.
    pub cells_permille: u16,
    /// `world.near_ships`: the nearest ships, of which a client is told in each tick.
    pub near_ships: usize,
    /// `world.packet_max_bytes`: of one snapshot, at least 128.
    pub packet_bytes_max: usize,
    /// `world.snapshot_interval_ms`: how old where ships are is at most after a restart; 0: nothing is saved.
    pub snapshot_interval_ms: u32,
    /// `world.return_s`: for how long ships wait for their pilots after a restart, in time of the world.
    pub return_s: u32,
    /// `world.rules_wait_ms`: how long the zone waits for what a rule of scripts says.
    pub rules_wait_ms: u32,
    /// `world.page`: whether the page to fly is served.
    pub page: bool,
}

/// What answers may cost.
#[derive(Clone, Debug)]
pub struct AnswerSettings {
    /// `limit.answer_max_bytes`: of one answer to a client.
    pub bytes_max: usize,
    /// `limit.unsent_max_bytes`: of everything that clients have not taken yet, on one core.
    pub unsent_bytes_max: u64,
}

impl AnswerSettings {
    /// Unsent bytes beyond which the engine closes an HTTP connection. It is never met: the next
    /// request waits until earlier answers are taken (`core::backlog`), and one more answer fits,
    /// even if every byte of it is escaped in JSON, as text of scripts may be (`\\u0000`, RFC 8259 §7).
    #[must_use]
    pub fn http_unsent_bytes_max(&self) -> u32 {
        const BESIDE: usize = 1 << 20;
        let bytes = self.bytes_max.saturating_mul(6).saturating_add(BESIDE);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
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
    /// `socket.write_wait_ms`: how long a WebSocket client may take too little of what is sent.
    pub write_wait_ms: u32,
    /// `socket.write_timeout_ms`: how long a gRPC client may keep the window of an answer closed.
    pub write_timeout_ms: u64,
    /// The port of gRPC, if there is one: for telling clients that came to the other.
    pub grpc_port: Option<u16>,
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
    /// `match.join_attempt_queue_size`: joins of a match that wait because one of its callbacks does.
    pub join_attempt_queue_size: usize,
    /// `match.signal_queue_size`: the same of signals.
    pub signal_queue_size: usize,
    /// `match.deferred_queue_size`.
    pub deferred_queue_size: usize,
    /// `match.broadcast_bytes_max`: payloads that one callback may send.
    pub broadcast_bytes_max: usize,
    /// `match.max_empty_sec`; 0 is off.
    pub empty_s_max: u64,
    /// `match.relayed_bytes_per_sec`: of one sender in a relayed match, before its messages give
    /// way at members who are behind.
    pub relayed_bytes_per_s: u64,
    /// `match.matches_max`: authoritative ones, of all rooms together.
    pub count_max: usize,
    /// `match.matches_per_user_max`: of these, made for one user.
    pub per_user_max: usize,
    /// `match.matches_per_address_max`: of these, made for one address, its users' included.
    pub per_address_max: usize,
    /// `match.list_steps_max`: what one listing may cost, very roughly in nanoseconds.
    pub list_steps_max: u64,
    /// `match.created_per_call_max`: matches that one RPC, hook or callback may create.
    pub created_per_call_max: usize,
    /// `match.descendants_max`: matches that go back to one match, of all rooms together.
    pub descendants_max: usize,
    /// `match.descendants_per_s`: of these, made in a second, of one room.
    pub descendants_per_s: usize,
}

/// `runtime.*`.
#[derive(Clone, Debug)]
pub struct RuntimeSettings {
    /// `runtime.http_key`.
    pub http_key: String,
    /// `runtime.reload_key`; empty: nobody may.
    pub reload_key: String,
    /// `runtime.env`.
    pub env: Vec<(String, String)>,
    /// `runtime.log_lines_per_second_max`: of the scripts of one thread.
    pub log_lines_max: u32,
    /// `runtime.call_wait_max_ms`: for so long a call may wait for other threads, in all.
    pub call_wait_max_ms: u32,
    /// `runtime.waiting_calls_max`: calls of one thread that may wait.
    pub waiting_calls_max: usize,
    /// `runtime.waiting_calls_per_user`: of these, of one user or address.
    pub waiting_calls_per_user: u32,
    /// `runtime.core_slice_us`: for so long a call may compute on a core's thread before its sockets have
    /// their turn, microseconds; 0 if no call runs there.
    pub core_slice_us: u32,
    /// `runtime.batch_slice_us`: for so long an RPC function may compute in the batcher's transaction; 0
    /// keeps all of them out of it.
    pub batch_slice_us: u32,
    /// `runtime.event_queue_size`: events that may wait for their handlers.
    pub event_queue_size: usize,
}

/// `limit.*`: what one client may take. 0 turns a limit off. Every core counts for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// `limit.requests_per_user_per_s`: HTTP requests and socket messages; a second's worth may
    /// come at once.
    pub requests_per_user_per_s: u32,
    /// `limit.requests_per_address_per_s`.
    pub requests_per_address_per_s: u32,
    /// `limit.sockets_per_user`: open at one time.
    pub sockets_per_user: u32,
    /// `limit.sockets_per_address`.
    pub sockets_per_address: u32,
    /// `limit.connections_per_address`: that are no sockets; off if there are proxies.
    pub connections_per_address: u32,
    /// `limit.calls_waiting`: of everybody, that workers have not answered.
    pub calls_waiting: u32,
    /// `limit.calls_waiting_per_user`.
    pub calls_waiting_per_user: u32,
    /// `limit.calls_waiting_per_address`: calls without a user.
    pub calls_waiting_per_address: u32,
    /// `limit.listings_per_user`: match listings that wait or run.
    pub listings_per_user: u32,
    /// `limit.passwords_waiting`: of everybody, to be hashed.
    pub passwords_waiting: u32,
    /// `limit.relayed_matches_per_user`: that the user's sessions are in.
    pub relayed_matches_per_user: u32,
    /// `limit.presences_per_session`: matches and streams of one room that a session is in.
    pub presences_per_session: u32,
    /// `limit.streams_per_user`: of one room that the user's sessions are in.
    pub streams_per_user: u32,
    /// `limit.presences_per_stream`: sessions in a stream of a script.
    pub presences_per_stream: u32,
    /// `limit.stream_events_per_s`: presences of which the members of one stream are told, before those
    /// who are behind are not.
    pub stream_events_per_s: u32,
    /// `limit.stream_deliveries_per_call`: members that get what one call of a script sends, in a second.
    pub stream_deliveries_per_call: u32,
    /// `limit.stream_deliveries_per_user_per_s`: of all calls of a user.
    pub stream_deliveries_per_user_per_s: u32,
    /// `limit.stream_deliveries_of_matches_per_s`: of all callbacks of the matches of a room.
    pub stream_deliveries_of_matches_per_s: u32,
    /// `limit.password_attempts_per_account`: wrong ones, within the lockout time.
    pub password_attempts_per_account: u32,
    /// `limit.password_lockout_account_sec`.
    pub password_lockout_account_s: u32,
    /// `limit.password_attempts_per_address`.
    pub password_attempts_per_address: u32,
    /// `limit.password_lockout_address_sec`.
    pub password_lockout_address_s: u32,
    /// `limit.exempt_addresses`: no limit of an address holds for these.
    pub exempt_addresses: Vec<Network>,
}

impl Default for LimitSettings {
    /// What the option table says, for tests.
    fn default() -> Self {
        Self {
            requests_per_user_per_s: 10_000,
            requests_per_address_per_s: 100_000,
            sockets_per_user: 32,
            sockets_per_address: 10_000,
            connections_per_address: 10_000,
            calls_waiting: 16_384,
            calls_waiting_per_user: 256,
            calls_waiting_per_address: 4_096,
            listings_per_user: 4,
            passwords_waiting: 128,
            relayed_matches_per_user: 64,
            presences_per_session: 256,
            streams_per_user: 1_024,
            presences_per_stream: 65_536,
            stream_events_per_s: 256,
            stream_deliveries_per_call: 8_192,
            stream_deliveries_per_user_per_s: 16_384,
            stream_deliveries_of_matches_per_s: 16_384,
            password_attempts_per_account: 5,
            password_lockout_account_s: 60,
            password_attempts_per_address: 10,
            password_lockout_address_s: 600,
            exempt_addresses: ["127.0.0.0/8", "::1"]
                .into_iter()
                .filter_map(Network::parse)
                .collect(),
        }
    }
}

impl LimitSettings {
    /// Whether limits of addresses hold for this one.
    #[must_use]
    pub fn is_limited(&self, address: std::net::IpAddr) -> bool {
        !self.exempt_addresses.iter().any(|network| network.contains(address))
    }

    /// The number of an address ([`event::client_bits`]) that limits hold for.
    #[must_use]
    pub fn client(&self, address: std::net::IpAddr) -> Option<u128> {
        self.is_limited(address).then(|| event::client_bits(address))
    }
}
