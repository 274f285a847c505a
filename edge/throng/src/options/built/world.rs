//! The rows of `world.*`: the zone.

use super::{number, row};
use crate::options::{Kind, Opt};

/// A row that Nakama has not.
const fn ours(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Opt {
    row(name, kind, default, help).ours()
}

/// The options of the zone.
pub(super) const ROWS: &[Opt] = &[
    ours(
        "world.enabled",
        Kind::Switch,
        "false",
        "Have a zone: a world of ships that is one authoritative match, computed by all room threads \
         together. It stands when the server does; listings find it by the query `+label.kind:zone`.",
    ),
    ours(
        "world.page",
        Kind::Switch,
        "false",
        "Serve a page at `/zone/` in which a person pilots a ship; `?key=…` is `socket.server_key`, if that is \
         not the default one.",
    ),
    ours(
        "world.tick_rate_hz",
        number(1, 60, "Hz"),
        "20",
        "Ticks in a second of the zone. With too much to do, time goes slower, down to a tenth.",
    ),
    ours(
        "world.side_m",
        number(256, 65_536, "m"),
        "4096",
        "Side of the square world, rounded up to a multiple of 64 m.",
    ),
    ours(
        "world.seed",
        number(0, u32::MAX as u64, ""),
        "1",
        "Where ships appear, and what bots do: the same with the same seed and the same joins.",
    ),
    ours(
        "world.bots",
        number(0, 60_000, "ships"),
        "0",
        "Ships that fly and shoot without a player.",
    ),
    ours(
        "world.players_max",
        number(1, 5_000, "sessions"),
        "1000",
        "Sessions that steer a ship at one time. One more waits in line.",
    ),
    ours(
        "world.waiting_max",
        number(0, 5_000, "sessions"),
        "1000",
        "Sessions that wait in line to be let in, while `world.players_max` are in the zone or it has too much to \
         do. One more is refused.",
    ),
    ours(
        "world.ships_per_user",
        number(0, 5_000, "sessions"),
        "4",
        "Sessions of one user that steer a ship, wait for one, or left in the last 128 ticks. One more is \
         refused. 0 turns the limit off.",
    ),
    ours(
        "world.ships_per_address",
        number(0, 5_000, "sessions"),
        "64",
        "The same of one address that is not in `limit.exempt_addresses`. 0 turns the limit off.",
    ),
    ours(
        "world.partition",
        Kind::Choice(&["dynamic", "static"]),
        "dynamic",
        "How the world is divided among `engine.rooms`: by what its parts cost, following ships as they move \
         (dynamic), or into as many equal parts as there are rooms, for good (static), to see what the first is \
         worth.",
    ),
    ours(
        "world.cells_permille",
        number(1, 900, "‰"),
        "700",
        "Of a tick's time, what one of `engine.rooms` may use to compute its parts of the world before it gives \
         some to another, in thousandths. Less leaves its matches more time.",
    ),
    ours(
        "world.near_ships",
        number(1, 4_096, "ships"),
        "32",
        "The nearest ships, of which a client is told in each tick; up to four times as many follow in every \
         second tick, up to sixteen times as many in every fourth, the rest in every twentieth, as \
         `world.packet_max_bytes` allows.",
    ),
    ours(
        "world.packet_max_bytes",
        number(128, 16_384, "bytes"),
        "1200",
        "Bytes of a snapshot, before it is put into a message. What a client is told in a tick has to fit; \
         what is near and what has waited longest comes first.",
    ),
    ours(
        "world.snapshot_interval_ms",
        number(0, 60_000, "ms"),
        "1000",
        "How often the zone is saved to the database, so that it goes on when the server starts again, however it \
         ended: who is in it and their scores are as they were, ships where the last snapshot has them. One more is \
         written when the server is told to end. 0 saves nothing, and gives up what was saved.",
    ),
    ours(
        "world.return_s",
        number(0, 3_600, "s"),
        "60",
        "For how long a ship waits for its pilot when the zone goes on after a start, in time of the zone; then it \
         goes. A user who joins before gets the ship back.",
    ),
    ours(
        "world.rules_wait_ms",
        number(10, 10_000, "ms"),
        "250",
        "How long the zone waits for what a rule of a module says (`nk.register_zone_spawn`, `nk.register_zone_hit`, \
         `nk.register_zone_score`); then it goes on by its own rules. It ticks on meanwhile.",
    ),
];
