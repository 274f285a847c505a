//! Matches and the matchmaker. Declarations only; see the table in the
//! parent module for directions.
//!
//! Source: the socket protocol of Nakama 3.40, field for field.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::nakama::message::messages;
use crate::nakama::realtime::UserPresence;

messages! {
    /// A match that was joined. Answers [`MatchCreate`] and [`MatchJoin`].
    Match {
        /// The match.
        1 match_id: String,
        /// Whether a script on the server runs it.
        2 authoritative: bool,
        /// What the listing shows of it.
        3 label: Option<String>,
        /// Members at this moment.
        4 size: i32,
        /// Who was there already.
        5 presences: Vec<UserPresence>,
        /// The receiver in the match.
        6 own: Option<UserPresence> = "self",
    }

    /// Creates a relayed match and joins it.
    MatchCreate {
        /// The same name gives the same match; empty for a new one.
        1 name: String,
    }

    /// What a member or the server sends to a match.
    MatchData {
        /// The match.
        1 match_id: String,
        /// The sender; unset for the server.
        2 presence: Option<UserPresence>,
        /// What the game means by it.
        3 op_code: i64,
        /// The payload.
        4 data: Bytes,
        /// Copied from the sender; all is reliable here.
        5 reliable: bool,
    }

    /// Sends to a match. Never answered.
    MatchDataSend {
        /// The match.
        1 match_id: String,
        /// What the game means by it.
        2 op_code: i64,
        /// The payload.
        3 data: Bytes,
        /// Whom a relayed match delivers to; none for all others.
        4 presences: Vec<UserPresence>,
        /// A wish that is passed on.
        5 reliable: bool,
    }

    /// Joins a match by its id or by a token of the matchmaker.
    MatchJoin {
        /// The match; this or the token.
        1 match_id: Option<String> as oneof(id),
        /// Made by the matchmaker.
        2 token: Option<String> as oneof(id),
        /// For the match's script.
        3 metadata: BTreeMap<String, String>,
    }

    /// Leaves a match.
    MatchLeave {
        /// The match.
        1 match_id: String,
    }

    /// Who came and went.
    MatchPresenceEvent {
        /// The match.
        1 match_id: String,
        /// Who came.
        2 joins: Vec<UserPresence>,
        /// Who went.
        3 leaves: Vec<UserPresence>,
    }

    /// Looks for opponents.
    MatchmakerAdd {
        /// Players needed, the asker among them.
        1 min_count: i32,
        /// Players wanted at most.
        2 max_count: i32,
        /// Condition on the others' properties.
        3 query: String,
        /// The asker's properties.
        4 string_properties: BTreeMap<String, String>,
        /// The asker's properties.
        5 numeric_properties: BTreeMap<String, f64>,
        /// The number of players must be divisible by it.
        6 count_multiple: Option<i32>,
    }

    /// Opponents were found.
    MatchmakerMatched {
        /// The ticket that is fulfilled.
        1 ticket: String,
        /// The match to join; this or the token.
        2 match_id: Option<String> as oneof(id),
        /// To join with.
        3 token: Option<String> as oneof(id),
        /// All who were matched.
        4 users: Vec<MatchmakerUser>,
        /// The receiver among them.
        5 own: Option<MatchmakerUser> = "self",
    }

    /// One who was matched.
    MatchmakerUser in MatchmakerMatched {
        /// Who.
        1 presence: Option<UserPresence>,
        /// With which party, if any.
        2 party_id: String,
        /// What was given with the ticket.
        5 string_properties: BTreeMap<String, String>,
        /// What was given with the ticket.
        6 numeric_properties: BTreeMap<String, f64>,
    }

    /// Stops looking.
    MatchmakerRemove {
        /// The ticket to give back.
        1 ticket: String,
    }

    /// Answers [`MatchmakerAdd`].
    MatchmakerTicket {
        /// Names the search.
        1 ticket: String,
    }
}
