//! The settings of a server under test, which a plan may change.

use game::session::SessionSettings;
use server::settings::{
    AnswerSettings, LimitSettings, MatchSettings, RuntimeSettings, Settings, SocketSettings,
};

pub(crate) fn settings() -> Settings {
    Settings {
        node: "node1".into(),
        version: "0.0.0".into(),
        shutdown_grace_s: 0,
        session: SessionSettings {
            encryption_key: "key".into(),
            refresh_encryption_key: "refresh".into(),
            token_expiry_s: 3_600,
            refresh_token_expiry_s: 7_200,
        },
        single_socket: false,
        socket: SocketSettings {
            server_key: "defaultkey".into(),
            message_bytes_max: 4_096,
            request_bytes_max: 262_144,
            outgoing_queue_size: 64,
            ping_period_ms: 15_000,
            pong_wait_ms: 25_000,
            close_ack_wait_ms: 2_000,
            read_timeout_ms: 10_000,
            write_wait_ms: 5_000,
            write_timeout_ms: 10_000,
            grpc_port: Some(7_349),
            idle_timeout_ms: 60_000,
            response_headers: Vec::new(),
            proxy_count: 0,
        },
        matches: MatchSettings {
            input_queue_size: 128,
            join_attempt_queue_size: 4,
            signal_queue_size: 4,
            deferred_queue_size: 128,
            broadcast_bytes_max: 1 << 20,
            created_per_call_max: 3,
            descendants_max: 16,
            descendants_per_s: 8,
            empty_s_max: 0,
            count_max: 1_000,
            per_user_max: 100,
            per_address_max: 100,
            relayed_bytes_per_s: 65_536,
            list_steps_max: 10_000_000,
        },
        runtime: RuntimeSettings {
            http_key: "httpkey".into(),
            reload_key: "a key of 20 letters".into(),
            env: Vec::new(),
            log_lines_max: 5,
            call_wait_max_ms: 60_000,
            waiting_calls_max: 64,
            waiting_calls_per_user: 16,
            core_slice_us: 200,
            batch_slice_us: 0,
            event_queue_size: 128,
        },
        limits: LimitSettings::default(),
        answers: AnswerSettings { bytes_max: 1 << 20, unsent_bytes_max: 4 << 20 },
        datagrams: None,
        world: None,
    }
}
