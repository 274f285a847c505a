//! The rows of `datagram.*`: datagrams beside sockets.

use super::{number, row};
use crate::options::{Kind, Opt};

/// A row that Nakama has not.
const fn ours(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Opt {
    row(name, kind, default, help).ours()
}

/// The options of datagrams.
pub(super) const ROWS: &[Opt] = &[
    ours(
        "datagram.enabled",
        Kind::Switch,
        "false",
        "Let sessions send and get match data by UDP beside their socket, where what is lost is better than \
         what is late. A session asks for it by the RPC `throng_datagrams` over its socket; see \
         docs/datagrams.md.",
    ),
    ours(
        "datagram.port",
        number(0, 65_535, ""),
        "7352",
        "UDP port of the first core, at `socket.address`; each further one of `engine.cores` has the next. 0 \
         takes free ones.",
    ),
    ours(
        "datagram.public_address",
        Kind::Host,
        "",
        "Host or address that clients are told to send to. Empty: the one at which they have reached the \
         server already.",
    ),
    ours(
        "datagram.public_port",
        number(0, 65_535, ""),
        "0",
        "The first port as clients reach it, where something translates ports. 0: as `datagram.port`.",
    ),
    ours(
        "datagram.idle_ms",
        number(2_000, 600_000, "ms"),
        "15000",
        "How long nothing may be heard from a client's address. Then it is sent nothing more by datagram, until \
         it has proved its address again.",
    ),
    ours(
        "datagram.per_session_per_s",
        number(0, 1_000_000, "datagrams"),
        "512",
        "Datagrams of one session that are heeded in a second. More are dropped. 0 turns the limit off.",
    ),
    ours(
        "datagram.per_address_per_s",
        number(0, 10_000_000, "datagrams"),
        "20000",
        "Datagrams from one address that is not in `limit.exempt_addresses` that are looked at in a second, by \
         each core; the first 64 of each session from where it has proved to be do not count. More are dropped. \
         0 turns the limit off.",
    ),
];
