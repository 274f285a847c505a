//! Listing matches, and RPCs. Declarations only.
//!
//! Source: nakama-common, `api/api.proto`, field for field.

use crate::nakama::message::messages;

messages! {
    /// Asks for matches.
    ListMatchesRequest {
        /// How many at most, 1–100; unset means 10.
        1 limit: Option<i32>,
        /// Whether a script runs them; unset means both kinds.
        2 authoritative: Option<bool>,
        /// Their label.
        3 label: Option<String>,
        /// Members at least.
        4 min_size: Option<i32>,
        /// Members at most.
        5 max_size: Option<i32>,
        /// What their labels must match.
        6 query: Option<String>,
    }

    /// A match in a listing.
    Match {
        /// The match.
        1 match_id: String,
        /// Whether a script on the server runs it.
        2 authoritative: bool,
        /// What the script wants shown; set for authoritative matches.
        3 label: Option<String>,
        /// Members at this moment.
        4 size: i32,
        /// Ticks a second, of authoritative matches.
        5 tick_rate: i32,
        /// The script that runs it.
        6 handler_name: String,
    }

    /// A listing of matches.
    MatchList {
        /// As many as asked for.
        1 matches: Vec<Match>,
    }

    /// Calls a function of a script, and answers: over gRPC and sockets.
    Rpc {
        /// The function.
        1 id: String,
        /// Any text, usually JSON.
        2 payload: String,
        /// The key of calls without a user.
        3 http_key: String,
    }
}
