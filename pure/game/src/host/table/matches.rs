//! Matches, sessions, status and streams.

use super::{built, missing};
use crate::host::{HostFunction, matches, system};

pub(super) const ROWS: &[HostFunction] = &[
    built(
        "match_create",
        matches::match_create,
        "(module: string, params?: table) -> match_id: string",
        "Starts a match of this module and calls its `match_init` with `params`.",
        "local match_id = nk.match_create(\"tic_tac_toe\", { seats = 2 })\nreturn match_id",
    ),
    built(
        "match_get",
        matches::match_get,
        "(match_id: string) -> match: table",
        "A running match as `match_list` shows it, or nil.",
        "local found = nk.match_get(nk.match_create(\"tic_tac_toe\", nil))",
    ),
    built(
        "match_list",
        matches::match_list,
        "(limit?: number = 1, authoritative?: boolean, label?: string, min_size?: number, \
         max_size?: number, query?: string) -> matches: list",
        "Running matches: `match_id`, `authoritative`, `label`, `size`, `tick_rate`, `handler_name`. \
         nil leaves a condition out. See [matches](matches.md) for the query language.",
        "local found = nk.match_list(10, true, nil, nil, 1, \"+label.open:1\")",
    ),
    built(
        "match_signal",
        matches::match_signal,
        "(match_id: string, data?: string) -> answer: string",
        "Calls `match_signal` of a running match and waits for its text.",
        "return nk.match_signal(nk.match_create(\"tic_tac_toe\", nil), \"who plays?\")",
    ),
    built(
        "session_disconnect",
        system::session_disconnect,
        "(session_id: string, reason?: number = 0)",
        "Closes a socket. Its token stays valid.",
        "if context.session_id then nk.session_disconnect(context.session_id) end",
    ),
    built(
        "session_logout",
        system::session_logout,
        "(user_id: string, token?: string, refresh_token?: string)",
        "Takes tokens out of use: these, or all of the user.",
        "nk.session_logout(context.user_id)",
    ),
    missing("status_follow"),
    missing("status_unfollow"),
    missing("stream_close"),
    missing("stream_count"),
    missing("stream_send"),
    missing("stream_send_raw"),
    missing("stream_user_get"),
    missing("stream_user_join"),
    missing("stream_user_kick"),
    missing("stream_user_leave"),
    missing("stream_user_list"),
    missing("stream_user_update"),
];
