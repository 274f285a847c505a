//! Matches and the matchmaker. Declarations only; see the table in the parent module for directions.
//!
//! Source: the socket protocol of Nakama 3.40, field for field.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::nakama::message::messages;
use crate::nakama::realtime::UserPresence;

messages! {
    derive(Clone, PartialEq, prost::Message);

    /// A match that was joined. Answers [`MatchCreate`] and [`MatchJoin`].
    Match {
        /// The match.
        #[prost(string, tag = "1")]
        match_id: String,
        /// Whether a script on the server runs it.
        #[prost(bool, tag = "2")]
        authoritative: bool,
        /// What the listing shows of it.
        #[prost(message, optional, tag = "3")]
        label: Option<String>,
        /// Members at this moment.
        #[prost(int32, tag = "4")]
        size: i32,
        /// Who was there already.
        #[prost(message, repeated, tag = "5")]
        presences: Vec<UserPresence>,
        /// The receiver in the match.
        #[prost(message, optional, tag = "6")]
        own: Option<UserPresence> = "self",
    }

    /// Creates a relayed match and joins it.
    MatchCreate {
        /// The same name gives the same match; empty for a new one.
        #[prost(string, tag = "1")]
        name: String,
    }

    /// What a member or the server sends to a match.
    MatchData {
        /// The match.
        #[prost(string, tag = "1")]
        match_id: String,
        /// The sender; unset for the server.
        #[prost(message, optional, tag = "2")]
        presence: Option<UserPresence>,
        /// What the game means by it.
        #[prost(int64, tag = "3")]
        op_code: i64,
        /// The payload.
        #[prost(bytes = "bytes", tag = "4")]
        data: Bytes,
        /// Copied from the sender; all is reliable here.
        #[prost(bool, tag = "5")]
        reliable: bool,
    }

    /// Sends to a match. Never answered.
    MatchDataSend {
        /// The match.
        #[prost(string, tag = "1")]
        match_id: String,
        /// What the game means by it.
        #[prost(int64, tag = "2")]
        op_code: i64,
        /// The payload.
        #[prost(bytes = "bytes", tag = "3")]
        data: Bytes,
        /// Whom a relayed match delivers to; none for all others.
        #[prost(message, repeated, tag = "4")]
        presences: Vec<UserPresence>,
        /// A wish that is passed on.
        #[prost(bool, tag = "5")]
        reliable: bool,
    }

    /// Joins a match by its id or by a token of the matchmaker.
    MatchJoin {
        /// The match; this or the token.
        #[prost(string, optional, tag = "1")]
        match_id: Option<String>,
        /// Made by the matchmaker.
        #[prost(string, optional, tag = "2")]
        token: Option<String>,
        /// For the match's script.
        #[prost(btree_map = "string, string", tag = "3")]
        metadata: BTreeMap<String, String>,
    }

    /// Leaves a match.
    MatchLeave {
        /// The match.
        #[prost(string, tag = "1")]
        match_id: String,
    }

    /// Who came and went.
    MatchPresenceEvent {
        /// The match.
        #[prost(string, tag = "1")]
        match_id: String,
        /// Who came.
        #[prost(message, repeated, tag = "2")]
        joins: Vec<UserPresence>,
        /// Who went.
        #[prost(message, repeated, tag = "3")]
        leaves: Vec<UserPresence>,
    }

    /// Looks for opponents.
    MatchmakerAdd {
        /// Players needed, the asker among them.
        #[prost(int32, tag = "1")]
        min_count: i32,
        /// Players wanted at most.
        #[prost(int32, tag = "2")]
        max_count: i32,
        /// Condition on the others' properties.
        #[prost(string, tag = "3")]
        query: String,
        /// The asker's properties.
        #[prost(btree_map = "string, string", tag = "4")]
        string_properties: BTreeMap<String, String>,
        /// The asker's properties.
        #[prost(btree_map = "string, double", tag = "5")]
        numeric_properties: BTreeMap<String, f64>,
        /// The number of players must be divisible by it.
        #[prost(message, optional, tag = "6")]
        count_multiple: Option<i32>,
    }

    /// Opponents were found.
    MatchmakerMatched {
        /// The ticket that is fulfilled.
        #[prost(string, tag = "1")]
        ticket: String,
        /// The match to join; this or the token.
        #[prost(string, optional, tag = "2")]
        match_id: Option<String>,
        /// To join with.
        #[prost(string, optional, tag = "3")]
        token: Option<String>,
        /// All who were matched.
        #[prost(message, repeated, tag = "4")]
        users: Vec<MatchmakerUser>,
        /// The receiver among them.
        #[prost(message, optional, tag = "5")]
        own: Option<MatchmakerUser> = "self",
    }

    /// One who was matched.
    MatchmakerUser {
        /// Who.
        #[prost(message, optional, tag = "1")]
        presence: Option<UserPresence>,
        /// With which party, if any.
        #[prost(string, tag = "2")]
        party_id: String,
        /// What was given with the ticket.
        #[prost(btree_map = "string, string", tag = "5")]
        string_properties: BTreeMap<String, String>,
        /// What was given with the ticket.
        #[prost(btree_map = "string, double", tag = "6")]
        numeric_properties: BTreeMap<String, f64>,
    }

    /// Stops looking.
    MatchmakerRemove {
        /// The ticket to give back.
        #[prost(string, tag = "1")]
        ticket: String,
    }

    /// Answers [`MatchmakerAdd`].
    MatchmakerTicket {
        /// Names the search.
        #[prost(string, tag = "1")]
        ticket: String,
    }
}
