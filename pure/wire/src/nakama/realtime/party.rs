//! Parties. Declarations only; see the table in the parent module for directions.
//!
//! Source: the socket protocol of Nakama 3.40, field for field.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::nakama::message::messages;
use crate::nakama::realtime::UserPresence;

messages! {
    derive(Clone, PartialEq, prost::Message);

    /// A party that was created or joined. Answers [`PartyCreate`].
    Party {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Whether anybody may join unasked.
        #[prost(bool, tag = "2")]
        open: bool,
        /// Whether listings leave it out.
        #[prost(bool, tag = "3")]
        hidden: bool,
        /// Members at most.
        #[prost(int32, tag = "4")]
        max_size: i32,
        /// The receiver in the party.
        #[prost(message, optional, tag = "5")]
        own: Option<UserPresence> = "self",
        /// Who leads it.
        #[prost(message, optional, tag = "6")]
        leader: Option<UserPresence>,
        /// All members.
        #[prost(message, repeated, tag = "7")]
        presences: Vec<UserPresence>,
        /// JSON text for listings.
        #[prost(string, tag = "8")]
        label: String,
    }

    /// Creates a party and leads it.
    PartyCreate {
        /// Whether anybody may join unasked.
        #[prost(bool, tag = "1")]
        open: bool,
        /// Members at most.
        #[prost(int32, tag = "2")]
        max_size: i32,
        /// JSON text for listings.
        #[prost(string, tag = "3")]
        label: String,
        /// Whether listings leave it out.
        #[prost(bool, tag = "4")]
        hidden: bool,
    }

    /// Joins, or asks to join.
    PartyJoin {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
    }

    /// Leaves a party.
    PartyLeave {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
    }

    /// Makes another member the leader.
    PartyPromote {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Whom.
        #[prost(message, optional, tag = "2")]
        presence: Option<UserPresence>,
    }

    /// There is a new leader.
    PartyLeader {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Who.
        #[prost(message, optional, tag = "2")]
        presence: Option<UserPresence>,
    }

    /// Lets one in who asked.
    PartyAccept {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Whom.
        #[prost(message, optional, tag = "2")]
        presence: Option<UserPresence>,
    }

    /// Removes a member, or refuses one who asked.
    PartyRemove {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Whom.
        #[prost(message, optional, tag = "2")]
        presence: Option<UserPresence>,
    }

    /// Ends a party; tells its members so.
    PartyClose {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
    }

    /// Asks who wants to join.
    PartyJoinRequestList {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
    }

    /// Who wants to join. Answers [`PartyJoinRequestList`], or comes unasked.
    PartyJoinRequest {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Who.
        #[prost(message, repeated, tag = "2")]
        presences: Vec<UserPresence>,
    }

    /// Looks for opponents for the whole party.
    PartyMatchmakerAdd {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Players needed.
        #[prost(int32, tag = "2")]
        min_count: i32,
        /// Players wanted at most.
        #[prost(int32, tag = "3")]
        max_count: i32,
        /// Condition on the others' properties.
        #[prost(string, tag = "4")]
        query: String,
        /// The party's properties.
        #[prost(btree_map = "string, string", tag = "5")]
        string_properties: BTreeMap<String, String>,
        /// The party's properties.
        #[prost(btree_map = "string, double", tag = "6")]
        numeric_properties: BTreeMap<String, f64>,
        /// The number of players must be divisible by it.
        #[prost(message, optional, tag = "7")]
        count_multiple: Option<i32>,
    }

    /// Stops looking.
    PartyMatchmakerRemove {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// The ticket to give back.
        #[prost(string, tag = "2")]
        ticket: String,
    }

    /// Answers [`PartyMatchmakerAdd`]; told to the other members, too.
    PartyMatchmakerTicket {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Names the search.
        #[prost(string, tag = "2")]
        ticket: String,
    }

    /// What a member sends to the party.
    PartyData {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// The sender.
        #[prost(message, optional, tag = "2")]
        presence: Option<UserPresence>,
        /// What the game means by it.
        #[prost(int64, tag = "3")]
        op_code: i64,
        /// The payload.
        #[prost(bytes = "bytes", tag = "4")]
        data: Bytes,
    }

    /// Sends to the party.
    PartyDataSend {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// What the game means by it.
        #[prost(int64, tag = "2")]
        op_code: i64,
        /// The payload.
        #[prost(bytes = "bytes", tag = "3")]
        data: Bytes,
    }

    /// Who came and went.
    PartyPresenceEvent {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// Who came.
        #[prost(message, repeated, tag = "2")]
        joins: Vec<UserPresence>,
        /// Who went.
        #[prost(message, repeated, tag = "3")]
        leaves: Vec<UserPresence>,
    }

    /// Changes the party; tells its members so.
    PartyUpdate {
        /// The party.
        #[prost(string, tag = "1")]
        party_id: String,
        /// JSON text for listings.
        #[prost(string, tag = "2")]
        label: String,
        /// Whether anybody may join unasked.
        #[prost(bool, tag = "3")]
        open: bool,
        /// Whether listings leave it out.
        #[prost(bool, tag = "4")]
        hidden: bool,
    }
}
