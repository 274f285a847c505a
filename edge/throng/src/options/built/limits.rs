//! The rows of `limit.*`: what clients may take.

use super::{MIB, number, row};
use crate::options::{Entry, Kind, Opt};

/// What clients may take.
pub(super) const ROWS: &[Opt] = &[
    row(
        "limit.requests_per_user_per_s",
        number(0, 10_000_000, "requests"),
        "10000",
        "HTTP requests and socket messages of one user in a second, on each of \
         `engine.cores`. A second's worth may come at once; more are refused with 429, \
         or an error on the socket. 0 is off.",
    )
    .ours(),
    row(
        "limit.requests_per_address_per_s",
        number(0, 10_000_000, "requests"),
        "100000",
        "The same for one address, or one /64 of IPv6. 0 is off.",
    )
    .ours(),
    row(
        "limit.sockets_per_user",
        number(0, 1_000_000, "sockets"),
        "32",
        "Open sockets of one user, on each of `engine.cores`. One more is refused with \
         429. 0 is off.",
    )
    .ours(),
    row(
        "limit.sockets_per_address",
        number(0, 16_000_000, "sockets"),
        "10000",
        "The same for one address, or one /64 of IPv6. 0 is off.",
    )
    .ours(),
    row(
        "limit.connections_per_address",
        number(0, 16_000_000, "connections"),
        "10000",
        "Open connections of one address, or one /64 of IPv6, that are no sockets, on each of \
         `engine.cores`. One more is answered with 429 and closed. It holds only while \
         `socket.proxy_count` is 0: a proxy's connections are not one client's. 0 is off.",
    )
    .ours(),
    row(
        "limit.calls_waiting",
        number(1, 1_000_000, "calls"),
        "16384",
        "Calls of everybody that wait for an answer of the workers, on each of \
         `engine.cores`. One more is refused with 503.",
    )
    .ours(),
    row(
        "limit.calls_waiting_per_user",
        number(0, 1_000_000, "calls"),
        "256",
        "Calls of one user among them. One more is refused with 429. 0 is off.",
    )
    .ours(),
    row(
        "limit.calls_waiting_per_address",
        number(0, 1_000_000, "calls"),
        "4096",
        "Calls of one address among them, of those that name no user: logins, and RPC \
         calls by the HTTP key. 0 is off.",
    )
    .ours(),
    row(
        "limit.listings_per_user",
        number(0, 1_000_000, "listings"),
        "4",
        "Match listings of one user that wait or run at one time. One more is refused \
         with 429. 0 is off.",
    )
    .ours(),
    row(
        "limit.passwords_waiting",
        number(1, 1_000_000, "passwords"),
        "128",
        "Passwords of everybody that wait to be hashed, on each of `engine.cores`; one \
         takes some 50 ms. One more is refused with 503, and so is what one user or address has \
         waiting beyond a quarter of them.",
    )
    .ours(),
    row(
        "limit.relayed_matches_per_user",
        number(0, 1_000_000, "matches"),
        "64",
        "Relayed matches that the sessions of one user are in, on each of \
         `engine.rooms`. One more is an error on the socket. 0 is off.",
    )
    .ours(),
    row(
        "limit.presences_per_session",
        number(0, 1_000_000, "matches and streams"),
        "256",
        "Matches and streams of scripts that one session is in, on each of `engine.rooms`. One \
         more is an error on the socket, or in the script. 0 is off.",
    )
    .ours(),
    row(
        "limit.streams_per_user",
        number(0, 1_000_000, "streams"),
        "1024",
        "Streams of scripts that the sessions of one user are in, counted for each session, on each \
         of `engine.rooms`. One more is an error in the script. 0 is off.",
    )
    .ours(),
    row(
        "limit.presences_per_stream",
        number(0, 10_000_000, "sessions"),
        "65536",
        "Sessions in one stream of a script. One more is an error in the script. 0 is off.",
    )
    .ours(),
    row(
        "limit.stream_events_per_s",
        number(0, 1_000_000, "presences"),
        "256",
        "Presences of which the members of one stream of a script are told each second. Beyond it, \
         members who have not read what came before are not told, instead of being closed for it. \
         0 is off.",
    )
    .ours(),
    row(
        "limit.stream_deliveries_per_call",
        number(0, 100_000_000, "members"),
        "8192",
        "Members who get what one call of a script sends to streams within a second, on each of \
         `engine.rooms`. When it is reached, what more the call sends is not sent. 0 is off.",
    )
    .ours(),
    row(
        "limit.stream_deliveries_per_user_per_s",
        number(0, 100_000_000, "members"),
        "16384",
        "The same for all calls of one user together.",
    )
    .ours(),
    row(
        "limit.stream_deliveries_of_matches_per_s",
        number(0, 100_000_000, "members"),
        "16384",
        "The same for all callbacks of the matches of one of `engine.rooms` together. What matches send \
         to their own players by their dispatcher is no part of it.",
    )
    .ours(),
    row(
        "limit.password_attempts_per_account",
        number(0, 1_000_000, "attempts"),
        "5",
        "Wrong passwords for one account within `limit.password_lockout_account_sec`; \
         then its passwords are not looked at for that long. 0 is off.",
    )
    .ours(),
    row(
        "limit.password_lockout_account_sec",
        number(1, 31_536_000, "s"),
        "60",
        "See `limit.password_attempts_per_account`.",
    )
    .ours(),
    row(
        "limit.password_attempts_per_address",
        number(0, 1_000_000, "attempts"),
        "10",
        "Wrong passwords from one address, or one /64 of IPv6, within \
         `limit.password_lockout_address_sec`; then no password from there is looked at \
         for that long. 0 is off.",
    )
    .ours(),
    row(
        "limit.password_lockout_address_sec",
        number(1, 31_536_000, "s"),
        "600",
        "See `limit.password_attempts_per_address`.",
    )
    .ours(),
    row(
        "limit.exempt_addresses",
        Kind::List(Entry::Network),
        "127.0.0.0/8,::1",
        "Addresses, or networks, for which no limit of an address holds: those of the operator's \
         own proxies and load generators. Callers (`engine.workers`) are shared between them and others \
         all the same.",
    )
    .ours(),
    row(
        "limit.answer_max_bytes",
        number(64 * 1024, 1024 * MIB, "bytes"),
        "4194304",
        "Largest answer to a client. A larger one is refused with code 8; a page of a storage \
         listing ends before, with a cursor.",
    )
    .ours(),
    row(
        "limit.unsent_max_bytes",
        number(MIB, 1024 * 1024 * MIB, "bytes"),
        "268435456",
        "Bytes that clients have not taken yet, in equal parts on each of `engine.cores`. Above, \
         answers of 16 KiB and more are refused with 503, and clients who are behind and are sent \
         more are closed. Over gRPC a connection may have an eighth of a core's part, and an address \
         a quarter.",
    )
    .ours(),
];
