//! Parties. Declarations only; see the table in the
//! parent module for directions.
//!
//! Source: the socket protocol of Nakama 3.40, field for field.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::nakama::message::messages;
use crate::nakama::realtime::UserPresence;

messages! {
    /// A party that was created or joined. Answers [`PartyCreate`].
    Party {
        /// The party.
        1 party_id: String,
        /// Whether anybody may join unasked.
        2 open: bool,
        /// Whether listings leave it out.
        3 hidden: bool,
        /// Members at most.
        4 max_size: i32,
        /// The receiver in the party.
        5 own: Option<UserPresence> = "self",
        /// Who leads it.
        6 leader: Option<UserPresence>,
        /// All members.
        7 presences: Vec<UserPresence>,
        /// JSON text for listings.
        8 label: String,
    }

    /// Creates a party and leads it.
    PartyCreate {
        /// Whether anybody may join unasked.
        1 open: bool,
        /// Members at most.
        2 max_size: i32,
        /// JSON text for listings.
        3 label: String,
        /// Whether listings leave it out.
        4 hidden: bool,
    }

    /// Joins, or asks to join.
    PartyJoin {
        /// The party.
        1 party_id: String,
    }

    /// Leaves a party.
    PartyLeave {
        /// The party.
        1 party_id: String,
    }

    /// Makes another member the leader.
    PartyPromote {
        /// The party.
        1 party_id: String,
        /// Whom.
        2 presence: Option<UserPresence>,
    }

    /// There is a new leader.
    PartyLeader {
        /// The party.
        1 party_id: String,
        /// Who.
        2 presence: Option<UserPresence>,
    }

    /// Lets one in who asked.
    PartyAccept {
        /// The party.
        1 party_id: String,
        /// Whom.
        2 presence: Option<UserPresence>,
    }

    /// Removes a member, or refuses one who asked.
    PartyRemove {
        /// The party.
        1 party_id: String,
        /// Whom.
        2 presence: Option<UserPresence>,
    }

    /// Ends a party; tells its members so.
    PartyClose {
        /// The party.
        1 party_id: String,
    }

    /// Asks who wants to join.
    PartyJoinRequestList {
        /// The party.
        1 party_id: String,
    }

    /// Who wants to join. Answers [`PartyJoinRequestList`], or comes unasked.
    PartyJoinRequest {
        /// The party.
        1 party_id: String,
        /// Who.
        2 presences: Vec<UserPresence>,
    }

    /// Looks for opponents for the whole party.
    PartyMatchmakerAdd {
        /// The party.
        1 party_id: String,
        /// Players needed.
        2 min_count: i32,
        /// Players wanted at most.
        3 max_count: i32,
        /// Condition on the others' properties.
        4 query: String,
        /// The party's properties.
        5 string_properties: BTreeMap<String, String>,
        /// The party's properties.
        6 numeric_properties: BTreeMap<String, f64>,
        /// The number of players must be divisible by it.
        7 count_multiple: Option<i32>,
    }

    /// Stops looking.
    PartyMatchmakerRemove {
        /// The party.
        1 party_id: String,
        /// The ticket to give back.
        2 ticket: String,
    }

    /// Answers [`PartyMatchmakerAdd`]; told to the other members, too.
    PartyMatchmakerTicket {
        /// The party.
        1 party_id: String,
        /// Names the search.
        2 ticket: String,
    }

    /// What a member sends to the party.
    PartyData {
        /// The party.
        1 party_id: String,
        /// The sender.
        2 presence: Option<UserPresence>,
        /// What the game means by it.
        3 op_code: i64,
        /// The payload.
        4 data: Bytes,
    }

    /// Sends to the party.
    PartyDataSend {
        /// The party.
        1 party_id: String,
        /// What the game means by it.
        2 op_code: i64,
        /// The payload.
        3 data: Bytes,
    }

    /// Who came and went.
    PartyPresenceEvent {
        /// The party.
        1 party_id: String,
        /// Who came.
        2 joins: Vec<UserPresence>,
        /// Who went.
        3 leaves: Vec<UserPresence>,
    }

    /// Changes the party; tells its members so.
    PartyUpdate {
        /// The party.
        1 party_id: String,
        /// JSON text for listings.
        2 label: String,
        /// Whether anybody may join unasked.
        3 open: bool,
        /// Whether listings leave it out.
        4 hidden: bool,
    }
}
