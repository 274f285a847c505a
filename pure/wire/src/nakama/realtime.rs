//! The messages of the socket. One struct each, in the order of the protocol; [`Message`] is any of
//! them. All are here, also those whose features are not built, so that they can be told from
//! rubbish and answered.
//!
//! Field names and numbers are the protocol's. Where Rust has a word taken, the field is called
//! otherwise: `own` for `self`, `kind` for `type`.

mod channel;
mod matches;
mod party;
mod session;

pub use super::api::Rpc;
pub use channel::*;
pub use matches::*;
pub use party::*;
pub use session::*;

/// Values of [`Error::code`].
pub mod error_code {
    /// Trouble on the server's side. Left out in JSON.
    pub const RUNTIME_EXCEPTION: i32 = 0;
    /// A message that clients do not send.
    pub const UNRECOGNIZED_PAYLOAD: i32 = 1;
    /// An envelope without message.
    pub const MISSING_PAYLOAD: i32 = 2;
    /// A message with a value that cannot be.
    pub const BAD_INPUT: i32 = 3;
    /// No such match.
    pub const MATCH_NOT_FOUND: i32 = 4;
    /// The match does not want the player.
    pub const MATCH_JOIN_REJECTED: i32 = 5;
    /// No such function in the scripts.
    pub const RUNTIME_FUNCTION_NOT_FOUND: i32 = 6;
    /// A function of the scripts failed.
    pub const RUNTIME_FUNCTION_EXCEPTION: i32 = 7;
}

/// The one table of messages: number in protobuf, variant and struct, name in JSON, and whether
/// clients may send it.
macro_rules! table {
    ($( $tag:tt $message:ident $name:literal $from:ident; )*) => {
        /// Any message.
        #[derive(Clone, PartialEq, prost::Oneof)]
        pub enum Message {
            $(
                #[doc = concat!("`", $name, "`")]
                #[prost(message, tag = $tag)]
                $message($message),
            )*
        }

        /// Places in [`NAMES`].
        enum Index {
            $( $message, )*
        }

        /// All names in JSON, in the order of their numbers.
        pub const NAMES: &[&str] = &[$( $name ),*];

        impl Message {
            /// The name in JSON.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$message(_) => $name, )*
                }
            }

            /// Whether clients may send this message.
            #[must_use]
            pub fn is_from_client(&self) -> bool {
                match self {
                    $( Self::$message(_) => table!(@ $from), )*
                }
            }

            /// The place of `name` in [`NAMES`]; `None` when it is spelled otherwise.
            pub(super) fn index_of(name: &str) -> Option<usize> {
                match name {
                    $( $name => Some(Index::$message as usize), )*
                    _ => None,
                }
            }

            /// Reads the message whose name is at `index` of [`NAMES`]; `null` is no message.
            pub(super) fn read<'de, A: serde::de::MapAccess<'de>>(
                index: usize,
                map: &mut A,
            ) -> Result<Option<Self>, A::Error> {
                $(
                    if index == Index::$message as usize {
                        return Ok(map.next_value::<Option<$message>>()?.map(Self::$message));
                    }
                )*
                Ok(None)
            }

            /// Writes the message as an entry of the envelope.
            pub(super) fn write(&self, envelope: &mut $crate::nakama::field::Object<'_>) {
                match self {
                    $( Self::$message(message) => {
                        envelope.field(concat!("\"", $name, "\":"), message, true);
                    } )*
                }
            }

            /// Whether clients may send the message at `index` of [`NAMES`].
            pub const FROM_CLIENT: &'static [bool] = &[$( table!(@ $from) ),*];

            /// The declarations of all messages, in the order of their numbers.
            pub const INFOS: &'static [$crate::nakama::MessageInfo] =
                &[$( <$message as $crate::nakama::ProtoMessage>::INFO ),*];
        }
    };
    (@ client) => { true };
    (@ server) => { false };
}

table! {
    "2" Channel "channel" server;
    "3" ChannelJoin "channel_join" client;
    "4" ChannelLeave "channel_leave" client;
    "5" ChannelMessage "channel_message" server;
    "6" ChannelMessageAck "channel_message_ack" server;
    "7" ChannelMessageSend "channel_message_send" client;
    "8" ChannelMessageUpdate "channel_message_update" client;
    "9" ChannelMessageRemove "channel_message_remove" client;
    "10" ChannelPresenceEvent "channel_presence_event" server;
    "11" Error "error" server;
    "12" Match "match" server;
    "13" MatchCreate "match_create" client;
    "14" MatchData "match_data" server;
    "15" MatchDataSend "match_data_send" client;
    "16" MatchJoin "match_join" client;
    "17" MatchLeave "match_leave" client;
    "18" MatchPresenceEvent "match_presence_event" server;
    "19" MatchmakerAdd "matchmaker_add" client;
    "20" MatchmakerMatched "matchmaker_matched" server;
    "21" MatchmakerRemove "matchmaker_remove" client;
    "22" MatchmakerTicket "matchmaker_ticket" server;
    "23" Notifications "notifications" server;
    "24" Rpc "rpc" client;
    "25" Status "status" server;
    "26" StatusFollow "status_follow" client;
    "27" StatusPresenceEvent "status_presence_event" server;
    "28" StatusUnfollow "status_unfollow" client;
    "29" StatusUpdate "status_update" client;
    "30" StreamData "stream_data" server;
    "31" StreamPresenceEvent "stream_presence_event" server;
    "32" Ping "ping" client;
    "33" Pong "pong" client;
    "34" Party "party" server;
    "35" PartyCreate "party_create" client;
    "36" PartyJoin "party_join" client;
    "37" PartyLeave "party_leave" client;
    "38" PartyPromote "party_promote" client;
    "39" PartyLeader "party_leader" server;
    "40" PartyAccept "party_accept" client;
    "41" PartyRemove "party_remove" client;
    "42" PartyClose "party_close" client;
    "43" PartyJoinRequestList "party_join_request_list" client;
    "44" PartyJoinRequest "party_join_request" server;
    "45" PartyMatchmakerAdd "party_matchmaker_add" client;
    "46" PartyMatchmakerRemove "party_matchmaker_remove" client;
    "47" PartyMatchmakerTicket "party_matchmaker_ticket" server;
    "48" PartyData "party_data" server;
    "49" PartyDataSend "party_data_send" client;
    "50" PartyPresenceEvent "party_presence_event" server;
    "51" PartyUpdate "party_update" client;
}
