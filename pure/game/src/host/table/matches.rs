//! Matches, sessions and status.

use bytes::Bytes;

use crate::directory::ListFilter;
use crate::host::declare::{Table, functions};
use crate::host::read::{
    filled_id, filled_text, ids, int_or, optional, some_text, string, text, within_or,
};
use crate::host::{matches, system};
use crate::value::Value;

functions! {
    ROWS(host, args) {
        /// Starts a match of this module and calls its `match_init` with `params`.
        /// ```lua
        /// local match_id = nk.match_create("tic_tac_toe", { seats = 2 })
        /// return match_id
        /// ```
        asks [room] match_create(
            module: filled_text("expects module name"), params: matches::params(),
        ) -> (match_id: String)
            = Ok(matches::create(module, params)) => matches::created;
        /// A running match as `match_list` shows it, or nil.
        /// ```lua
        /// local found = nk.match_get(nk.match_create("tic_tac_toe", nil))
        /// ```
        built match_get(match_id: text()) -> (found: Option<Table>)
            = matches::get(host.directory(), &match_id);
        /// Running matches: `match_id`, `authoritative`, `label`, `size`, `tick_rate`,
        /// `handler_name`. nil leaves a condition out. See [matches](matches.md) for the query
        /// language.
        /// ```lua
        /// local found = nk.match_list(10, true, nil, nil, 1, "+label.open:1")
        /// ```
        built match_list(
            limit: int_or(1),
            authoritative: matches::flag("expects authoritative true/false or nil"),
            label: matches::text("expects label string or nil"),
            min_size: matches::size("expects minimum size number or nil"),
            max_size: matches::size("expects maximum size number or nil"),
            query: matches::text("expects query string or nil"),
        ) -> (matches: Vec<Value>) = {
            let limit = matches::limit(limit)?;
            let filter = ListFilter { limit, authoritative, label, min_size, max_size, query };
            matches::list(host.directory(), &filter)
        };
        /// Calls `match_signal` of a running match and waits for its text.
        /// ```lua
        /// return nk.match_signal(nk.match_create("tic_tac_toe", nil), "who plays?")
        /// ```
        asks [room] match_signal(
            match_id: text(), data: optional(string()),
        ) -> (answer: Bytes)
            = Ok(matches::signal(match_id, data)) => matches::signalled;
        /// Closes a socket. Its token stays valid.
        /// ```lua
        /// if context.session_id then nk.session_disconnect(context.session_id) end
        /// ```
        built session_disconnect(
            session_id: filled_id("expects session id", "expects valid session id"),
            reason: within_or::<usize>(0, 0, 4, "invalid disconnect reason, must be a value 0-4"),
        )
            = system::disconnect(host, session_id, reason);
        /// Takes tokens out of use: these, or all of the user.
        /// ```lua
        /// nk.session_logout(context.user_id)
        /// ```
        built [writes] session_logout(
            user_id: filled_id("expects user id", "expects valid user id"), token: some_text(),
            refresh_token: some_text(),
        )
            = system::log_out(host, user_id, token.as_deref(), refresh_token.as_deref());
        /// Lets a session hear of the status of users from now on, as if its client had asked: by the
        /// status presence events that come next. A session or a user that is not there is ignored.
        /// ```lua
        /// local friend = "e4c7b6a0-6a3f-4b6e-9d5b-3f6d0f4a1c11"
        /// if context.session_id then nk.status_follow(context.session_id, { friend }) end
        /// ```
        built status_follow(
            session_id: filled_id("expects session id", "expects valid session id"), user_ids: ids(),
        )
            = system::follow(host, session_id, user_ids.clone(), true);
        /// Ends what `status_follow` or the client began.
        /// ```lua
        /// local friend = "e4c7b6a0-6a3f-4b6e-9d5b-3f6d0f4a1c11"
        /// if context.session_id then nk.status_unfollow(context.session_id, { friend }) end
        /// ```
        built status_unfollow(
            session_id: filled_id("expects session id", "expects valid session id"), user_ids: ids(),
        )
            = system::follow(host, session_id, user_ids.clone(), false);
    }
}
