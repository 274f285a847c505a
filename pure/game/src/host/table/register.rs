//! What a module registers while it loads.

use crate::host::declare::{Table, functions};
use crate::host::read::{flag, function, int, list, some_text, text};

functions! {
    ROWS(host, args) {
        /// The context outside of any call: environment, node and version.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.logger_info(nk.get_context().node)
        /// ```
        language get_context() -> (context: Table);
        /// Runs `fn(context, event)` for each event of clients and of `nk.event`, some time after
        /// it: `{ name, properties, timestamp, external }`. The context has the user of a client's
        /// event. Handlers run one after the other on a thread of their own. Nakama has this for Go
        /// only.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_event(function(context, event)
        ///   nk.logger_info(event.name .. " " .. (event.properties.level or ""))
        /// end)
        /// ```
        language register_event(fn: function());
        /// Runs `fn(context, event)` after each socket that closes, as `register_event` does: the
        /// event's name is `session_end`, its property `reason` what the client was told.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_event_session_end(function(context, event)
        ///   nk.logger_info(context.username .. " left: " .. event.properties.reason)
        /// end)
        /// ```
        language register_event_session_end(fn: function());
        /// Runs `fn(context, event)` after each socket that opens, as `register_event` does: the
        /// event's name is `session_start`.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_event_session_start(function(context, event)
        ///   nk.logger_info(context.username .. " is here since " .. event.timestamp)
        /// end)
        /// ```
        language register_event_session_start(fn: function());
        /// Kept for modules that call it. Leaderboards are not built yet, so `fn` never runs.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_leaderboard_reset(function(context) end)
        /// ```
        language register_leaderboard_reset(fn: function());
        /// Kept for modules that call it. The matchmaker is not built yet, so `fn` never runs.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_matchmaker_matched(function(context, entries) end)
        /// ```
        language register_matchmaker_matched(fn: function());
        /// Runs `fn(context, answer, request)` after each API call of this name, such as
        /// `AuthenticateDevice`. The client's answer has left before; errors only reach the log.
        /// ```lua
        /// local nk = require("nakama")
        /// local function greet(context, answer, request)
        ///   if answer.created then nk.logger_info("a new player") end
        /// end
        /// nk.register_req_after(greet, "AuthenticateDevice")
        /// ```
        language register_req_after(fn: function(), call: text());
        /// Runs `fn(context, request)` before each API call of this name. Return the request,
        /// changed or not, to let it pass; return nil to refuse it.
        /// ```lua
        /// local nk = require("nakama")
        /// local function only_short_names(context, request)
        ///   if #(request.display_name or "") > 20 then error({ "name too long", 3 }) end
        ///   return request
        /// end
        /// nk.register_req_before(only_short_names, "UpdateAccount")
        /// ```
        language register_req_before(fn: function(), call: text());
        /// Makes `fn(context, payload)` callable by clients under this id, in any case. It returns
        /// the answer's text, or nothing; SDKs parse it as JSON.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_rpc(function(context, payload) return payload end, "echo")
        /// ```
        language register_rpc(fn: function(), id: text());
        /// Runs `fn(context, answer, message)` after each socket message of this name, such as
        /// `MatchJoin`.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_rt_after(function(context, answer, message)
        ///   nk.logger_info(context.username .. " joined")
        /// end, "MatchJoin")
        /// ```
        language register_rt_after(fn: function(), message: text());
        /// Runs `fn(context, message)` before each socket message of this name. Return the message
        /// to let it pass; nil refuses it and closes the socket.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_rt_before(function(context, message) return message end, "MatchCreate")
        /// ```
        language register_rt_before(fn: function(), message: text());
        /// Runs `fn(context)` when the server stops, if `shutdown_grace_sec` is above 0.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_shutdown(function(context) nk.logger_info("good night") end)
        /// ```
        language register_shutdown(fn: function());
        /// Kept for modules that call it. Storage indexes are not built yet: nothing is indexed.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_storage_index("by_level", "heroes", nil, { "level" }, nil, 1000, false)
        /// ```
        language register_storage_index(
            name: text(), collection: text(), key: some_text(), fields: list(),
            sortable_fields: list().or_nil(), max_entries: int(), index_only: flag(false),
        );
        /// Kept for modules that call it. Storage indexes are not built yet, so `fn` never runs.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_storage_index_filter("by_level", function(context, object) return true end)
        /// ```
        language register_storage_index_filter(index: text(), fn: function());
        /// Kept for modules that call it. Tournaments are not built yet, so `fn` never runs.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_tournament_end(function(context) end)
        /// ```
        language register_tournament_end(fn: function());
        /// Kept for modules that call it. Tournaments are not built yet, so `fn` never runs.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_tournament_reset(function(context) end)
        /// ```
        language register_tournament_reset(fn: function());
        /// Decides what hits in the zone cost: `fn(context, zone)` is given `zone.hits`, each `{ tick,
        /// victim, by, victim_ship, by_ship, shots, damage }`, of a tick in which a pilot's ship was hit or
        /// hit another one, and returns `zone` with other `damage` (0–15; a whole ship has 15), or
        /// nil. [Rules of the zone](../world/rules.md) can be in every language.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_zone_hit(function(context, zone)
        ///   for _, hit in ipairs(zone.hits) do
        ///     hit.damage = hit.shots * 5
        ///   end
        ///   return zone
        /// end)
        /// ```
        language register_zone_hit(fn: function());
        /// Decides what it means in the zone that pilots' ships were shot down, or shot others down:
        /// `fn(context, zone)` is given `zone.kills`, each `{ tick, victim, by, victim_ship, by_ship,
        /// points, victim_points, respawn_ms, text }`, and returns `zone` with others of the last four, or
        /// nil. [Rules of the zone](../world/rules.md) can be in every language.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_zone_score(function(context, zone)
        ///   for _, kill in ipairs(zone.kills) do
        ///     if kill.victim then kill.points = 10 end
        ///     kill.respawn_ms = 1000
        ///   end
        ///   return zone
        /// end)
        /// ```
        language register_zone_score(fn: function());
        /// Decides where pilots who join the zone appear: `fn(context, zone)` is given `zone.pilots`,
        /// each `{ user_id, session_id, username, x, y, heading, health }`, and returns `zone` with others
        /// of the last four, or nil. Metres from a corner, degrees to the left of east, 1–15.
        /// [Rules of the zone](../world/rules.md) can be in every language.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.register_zone_spawn(function(context, zone)
        ///   for _, pilot in ipairs(zone.pilots) do
        ///     pilot.x, pilot.y = zone.side / 2, zone.side / 2
        ///   end
        ///   return zone
        /// end)
        /// ```
        language register_zone_spawn(fn: function());
        /// Runs `fn(context)` at once, but only in the first of the server's Lua machines: the
        /// place to write what the game needs into the database. Modules are loading then, so that
        /// `fn` can neither make a match nor ask another server: the first call that needs it can.
        /// ```lua
        /// local nk = require("nakama")
        /// nk.run_once(function(context) nk.logger_info("started") end)
        /// ```
        language run_once(fn: function());
    }
}
