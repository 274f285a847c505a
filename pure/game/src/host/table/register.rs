//! What a module registers while it loads.

use super::own;
use crate::host::HostFunction;

pub(super) const ROWS: &[HostFunction] = &[
    own(
        "get_context",
        "() -> context: table",
        "The context outside of any call: environment, node and version.",
        "local nk = require(\"nakama\")\nnk.logger_info(nk.get_context().node)",
    ),
    own(
        "register_event",
        "(fn: function)",
        "Runs `fn(context, event)` for each event of clients and of `nk.event`, some time after it: `{ name, \
         properties, timestamp, external }`. The context has the user of a client's event. Handlers run \
         one after the other on a thread of their own. Nakama has this for Go only.",
        "local nk = require(\"nakama\")\n\
         nk.register_event(function(context, event)\n  \
         nk.logger_info(event.name .. \" \" .. (event.properties.level or \"\"))\n\
         end)",
    ),
    own(
        "register_event_session_end",
        "(fn: function)",
        "Runs `fn(context, event)` after each socket that closes, as `register_event` does: the event's name \
         is `session_end`, its property `reason` what the client was told.",
        "local nk = require(\"nakama\")\n\
         nk.register_event_session_end(function(context, event)\n  \
         nk.logger_info(context.username .. \" left: \" .. event.properties.reason)\n\
         end)",
    ),
    own(
        "register_event_session_start",
        "(fn: function)",
        "Runs `fn(context, event)` after each socket that opens, as `register_event` does: the event's name \
         is `session_start`.",
        "local nk = require(\"nakama\")\n\
         nk.register_event_session_start(function(context, event)\n  \
         nk.logger_info(context.username .. \" is here since \" .. event.timestamp)\n\
         end)",
    ),
    own(
        "register_leaderboard_reset",
        "(fn: function)",
        "Kept for modules that call it. Leaderboards are not built yet, so `fn` never runs.",
        "local nk = require(\"nakama\")\nnk.register_leaderboard_reset(function(context) end)",
    ),
    own(
        "register_matchmaker_matched",
        "(fn: function)",
        "Kept for modules that call it. The matchmaker is not built yet, so `fn` never runs.",
        "local nk = require(\"nakama\")\nnk.register_matchmaker_matched(function(context, entries) end)",
    ),
    own(
        "register_req_after",
        "(fn: function, call: string)",
        "Runs `fn(context, answer, request)` after each API call of this name, such as \
         `AuthenticateDevice`. The client's answer has left before; errors only reach the log.",
        "local nk = require(\"nakama\")\n\
         local function greet(context, answer, request)\n  \
         if answer.created then nk.logger_info(\"a new player\") end\n\
         end\n\
         nk.register_req_after(greet, \"AuthenticateDevice\")",
    ),
    own(
        "register_req_before",
        "(fn: function, call: string)",
        "Runs `fn(context, request)` before each API call of this name. Return the request, changed \
         or not, to let it pass; return nil to refuse it.",
        "local nk = require(\"nakama\")\n\
         local function only_short_names(context, request)\n  \
         if #(request.display_name or \"\") > 20 then error({ \"name too long\", 3 }) end\n  \
         return request\n\
         end\n\
         nk.register_req_before(only_short_names, \"UpdateAccount\")",
    ),
    own(
        "register_rpc",
        "(fn: function, id: string)",
        "Makes `fn(context, payload)` callable by clients under this id, in any case. It returns the \
         answer's text, or nothing; SDKs parse it as JSON.",
        "local nk = require(\"nakama\")\n\
         nk.register_rpc(function(context, payload) return payload end, \"echo\")",
    ),
    own(
        "register_rt_after",
        "(fn: function, message: string)",
        "Runs `fn(context, answer, message)` after each socket message of this name, such as \
         `MatchJoin`.",
        "local nk = require(\"nakama\")\n\
         nk.register_rt_after(function(context, answer, message)\n  \
         nk.logger_info(context.username .. \" joined\")\n\
         end, \"MatchJoin\")",
    ),
    own(
        "register_rt_before",
        "(fn: function, message: string)",
        "Runs `fn(context, message)` before each socket message of this name. Return the message to \
         let it pass; nil refuses it and closes the socket.",
        "local nk = require(\"nakama\")\n\
         nk.register_rt_before(function(context, message) return message end, \"MatchCreate\")",
    ),
    own(
        "register_shutdown",
        "(fn: function)",
        "Runs `fn(context)` when the server stops, if `shutdown_grace_sec` is above 0.",
        "local nk = require(\"nakama\")\n\
         nk.register_shutdown(function(context) nk.logger_info(\"good night\") end)",
    ),
    own(
        "register_storage_index",
        "(name: string, collection: string, key?: string, fields: list, sortable_fields?: list, \
         max_entries: number, index_only?: boolean = false)",
        "Kept for modules that call it. Storage indexes are not built yet: nothing is indexed.",
        "local nk = require(\"nakama\")\n\
         nk.register_storage_index(\"by_level\", \"heroes\", nil, { \"level\" }, nil, 1000, false)",
    ),
    own(
        "register_storage_index_filter",
        "(index: string, fn: function)",
        "Kept for modules that call it. Storage indexes are not built yet, so `fn` never runs.",
        "local nk = require(\"nakama\")\n\
         nk.register_storage_index_filter(\"by_level\", function(context, object) return true end)",
    ),
    own(
        "register_tournament_end",
        "(fn: function)",
        "Kept for modules that call it. Tournaments are not built yet, so `fn` never runs.",
        "local nk = require(\"nakama\")\nnk.register_tournament_end(function(context) end)",
    ),
    own(
        "register_tournament_reset",
        "(fn: function)",
        "Kept for modules that call it. Tournaments are not built yet, so `fn` never runs.",
        "local nk = require(\"nakama\")\nnk.register_tournament_reset(function(context) end)",
    ),
    own(
        "run_once",
        "(fn: function)",
        "Runs `fn(context)` at once, but only in the first of the server's Lua machines: the place to \
         write what the game needs into the database.",
        "local nk = require(\"nakama\")\n\
         nk.run_once(function(context) nk.logger_info(\"started\") end)",
    ),
];
