//! The rows of Nakama's options that throng does not obey: a configuration that was written for
//! Nakama starts, and a warning says what has no effect and what stands in its place. Only where a
//! start without the feature would expose players does it fail.
//!
//! Source: the structs and constructors of heroiclabs/nakama server/config.go, 3.40.

use super::{Unbuilt, Why, Why::Missing, Why::Pointless, Why::Unsafe};

const fn row(name: &'static str, default: &'static str, why: Why) -> Unbuilt {
    Unbuilt { name, default, why }
}

const ROTATION: Why = Missing("log rotation is", "use logrotate with copytruncate");
const BUFFERS: Why = Pointless("buffers grow and shrink with the traffic");
const TLS: Why =
    Unsafe("TLS is", "put a proxy such as nginx or Caddy in front, and remove this option");
const POSTGRES: Why = Missing("PostgreSQL is", "the database is SQLite, in `data_dir`");
const POOL: Why = Pointless("`engine.workers` and `runtime.memory_max_bytes` size the scripts");
const FROZEN: Why = Pointless("globals in JavaScript are read-only for calls");
const EVENTS: Why =
    Pointless("handlers of events run one after the other on a thread of their own");
const AT_ONCE: Why =
    Pointless("joins and signals that wait have limits of their own, and nothing else is queued");
const MATCHMAKER: Why = Missing(
    "the matchmaker is",
    "an RPC that calls `nk.match_list` and `nk.match_create` finds players a match",
);
const PARTIES: Why = Missing("parties are", "");
const LEADERBOARDS: Why = Missing("leaderboards are", "scores can be kept in storage objects");
const CONSOLE: Why = Missing(
    "the console is",
    "`metrics.prometheus_port` serves numbers, and the data lies in `data_dir`",
);
const CLUSTER: Why = Missing("clustering is", "one process serves all players");
const SOCIAL: Why = Missing(
    "authentication with this provider is",
    "players log in by device, custom id or e-mail",
);
const IAP: Why = Missing("purchase validation is", "do not sell yet");
const SATORI: Why = Missing("the Satori client is", "");
const MFA: Why = Missing("multi-factor authentication is", "");

/// Nakama's options that throng does not obey.
pub const UNBUILT: &[Unbuilt] = &[
    row("logger.rotation", "false", ROTATION),
    row("logger.max_size", "100", ROTATION),
    row("logger.max_age", "0", ROTATION),
    row("logger.max_backups", "0", ROTATION),
    row("logger.local_time", "false", ROTATION),
    row("logger.compress", "false", ROTATION),
    row("metrics.reporting_freq_sec", "60", Pointless("metrics are read when they are asked for")),
    row("session.single_match", "false", Missing("the limit to one match per user is", "")),
    row("session.single_party", "false", PARTIES),
    row("session.single_session", "false", Missing("the limit to one session per user is", "")),
    row("socket.protocol", "tcp", Pointless("`socket.address` decides between IPv4 and IPv6")),
    row("socket.read_buffer_size_bytes", "4096", BUFFERS),
    row("socket.write_buffer_size_bytes", "4096", BUFFERS),
    row(
        "socket.ping_backoff_threshold",
        "20",
        Pointless("any message from a client postpones its next ping"),
    ),
    row("socket.ssl_certificate", "", TLS),
    row("socket.ssl_private_key", "", TLS),
    row("database.address", "root@localhost:26257", POSTGRES),
    row("database.conn_max_lifetime_ms", "3600000", POSTGRES),
    row("database.max_open_conns", "100", POSTGRES),
    row("database.max_idle_conns", "100", POSTGRES),
    row("database.dns_scan_interval_sec", "60", POSTGRES),
    row("runtime.min_count", "0", POOL),
    row("runtime.max_count", "0", POOL),
    row("runtime.call_stack_size", "0", POOL),
    row("runtime.registry_size", "0", POOL),
    row("runtime.lua_min_count", "16", POOL),
    row("runtime.lua_max_count", "48", POOL),
    row("runtime.lua_call_stack_size", "128", POOL),
    row("runtime.lua_registry_size", "512", POOL),
    row("runtime.read_only_globals", "true", Pointless("modules share read-only globals")),
    row("runtime.lua_read_only_globals", "true", Pointless("modules share read-only globals")),
    row("runtime.js_min_count", "16", POOL),
    row("runtime.js_max_count", "32", POOL),
    row("runtime.js_read_only_globals", "true", FROZEN),
    row("runtime.event_queue_workers", "8", EVENTS),
    row("match.call_queue_size", "128", AT_ONCE),
    row(
        "match.join_marker_deadline_ms",
        "15000",
        Pointless("a player who was let in has joined at once"),
    ),
    row("match.label_update_interval_ms", "1000", Pointless("new labels are listed at once")),
    row("matchmaker.max_tickets", "3", MATCHMAKER),
    row("matchmaker.interval_sec", "15", MATCHMAKER),
    row("matchmaker.max_intervals", "2", MATCHMAKER),
    row("matchmaker.rev_precision", "false", MATCHMAKER),
    row("matchmaker.rev_threshold", "1", MATCHMAKER),
    row("tracker.event_queue_size", "1024", Pointless("presences are kept by the threads' mail")),
    row("party.label_update_interval_ms", "1000", PARTIES),
    row("party.idle_check_interval_ms", "30000", PARTIES),
    row("leaderboard.blacklist_rank_cache", "", LEADERBOARDS),
    row("leaderboard.callback_queue_size", "65536", LEADERBOARDS),
    row("leaderboard.callback_queue_workers", "8", LEADERBOARDS),
    row("leaderboard.rank_cache_workers", "1", LEADERBOARDS),
    row("storage.disable_index_only", "false", Missing("storage indexes are", "")),
    row("console.port", "7351", CONSOLE),
    row("console.address", "", CONSOLE),
    row("console.username", "admin", CONSOLE),
    row("console.password", "password", CONSOLE),
    row("console.signing_key", "defaultsigningkey", CONSOLE),
    row("console.token_expiry_sec", "86400", CONSOLE),
    row("console.max_message_size_bytes", "4194304", CONSOLE),
    row("console.read_timeout_ms", "10000", CONSOLE),
    row("console.write_timeout_ms", "60000", CONSOLE),
    row("console.idle_timeout_ms", "300000", CONSOLE),
    row("console.disable_display_name_search", "false", CONSOLE),
    row("console.mfa.storage_encryption_key", "the-key-has-to-be-32-bytes-long!", MFA),
    row("console.mfa.admin_account_enabled", "false", MFA),
    row("mfa.storage_encryption_key", "the-key-has-to-be-32-bytes-long!", MFA),
    row("mfa.admin_account_enabled", "false", MFA),
    row("google_auth.credentials_json", "", SOCIAL),
    row("social.steam.publisher_key", "", SOCIAL),
    row("social.steam.app_id", "0", SOCIAL),
    row("social.facebook_instant_game.app_secret", "", SOCIAL),
    row("social.facebook_limited_login.app_id", "", SOCIAL),
    row("social.apple.bundle_id", "", SOCIAL),
    row("iap.apple.shared_password", "", IAP),
    row("iap.apple.notifications_endpoint_id", "", IAP),
    row("iap.google.client_email", "", IAP),
    row("iap.google.private_key", "", IAP),
    row("iap.google.notifications_endpoint_id", "", IAP),
    row("iap.google.refund_check_period_min", "0", IAP),
    row("iap.google.package_name", "", IAP),
    row("iap.huawei.public_key", "", IAP),
    row("iap.huawei.client_id", "", IAP),
    row("iap.huawei.client_secret", "", IAP),
    row("iap.facebook_instant.app_secret", "", IAP),
    row("iap.samsung.package_name", "", IAP),
    row("satori.url", "", SATORI),
    row("satori.api_key_name", "", SATORI),
    row("satori.api_key", "", SATORI),
    row("satori.signing_key", "", SATORI),
    row("satori.server_key", "", SATORI),
    row("satori.cache_enabled", "false", SATORI),
    row("satori.cache_disabled", "false", SATORI),
    row("satori.cache_mode", "context", SATORI),
    row("satori.cache_ttl_sec", "300", SATORI),
    row("satori.http_timeout_ms", "10000", SATORI),
    row("satori.retry_count", "0", SATORI),
    // Of the commercial edition.
    row("cluster.*", "", CLUSTER),
];
