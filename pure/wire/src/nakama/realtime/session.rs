//! What belongs to no room: errors, pings, RPCs, notifications, status, and streams of scripts. Declarations only; see the table in the parent module for directions.
//!
//! Source: the socket protocol of Nakama 3.40, field for field.

use std::collections::BTreeMap;

#[cfg(doc)]
use super::error_code;
use crate::nakama::Timestamp;
use crate::nakama::message::messages;

messages! {
    derive(Clone, PartialEq, prost::Message);

    /// One session of one user somewhere.
    UserPresence {
        /// The user.
        #[prost(string, tag = "1")]
        user_id: String,
        /// The socket.
        #[prost(string, tag = "2")]
        session_id: String,
        /// The user's name.
        #[prost(string, tag = "3")]
        username: String,
        /// In channels: whether messages are stored.
        #[prost(bool, tag = "4")]
        persistence: bool,
        /// In status messages: what the user set.
        #[prost(message, optional, tag = "5")]
        status: Option<String>,
    }

    /// Something cannot be done.
    Error {
        /// One of [`error_code`].
        #[prost(int32, tag = "1")]
        code: i32,
        /// For people.
        #[prost(string, tag = "2")]
        message: String,
        /// Details.
        #[prost(btree_map = "string, string", tag = "3")]
        context: BTreeMap<String, String>,
    }

    /// Notifications for the receiver.
    Notifications {
        /// In the order they were made.
        #[prost(message, repeated, tag = "1")]
        notifications: Vec<Notification>,
    }

    /// One notification.
    Notification {
        /// Names it.
        #[prost(string, tag = "1")]
        id: String,
        /// What it is about.
        #[prost(string, tag = "2")]
        subject: String,
        /// JSON text.
        #[prost(string, tag = "3")]
        content: String,
        /// The game's, or negative for the server's.
        #[prost(int32, tag = "4")]
        code: i32,
        /// The user who caused it.
        #[prost(string, tag = "5")]
        sender_id: String,
        /// When it was made.
        #[prost(message, optional, tag = "6")]
        create_time: Option<Timestamp>,
        /// Whether it is stored until deleted.
        #[prost(bool, tag = "7")]
        persistent: bool,
    }

    /// Calls a function of a script, and answers.
    Rpc {
        /// The function.
        #[prost(string, tag = "1")]
        id: String,
        /// Any text, usually JSON.
        #[prost(string, tag = "2")]
        payload: String,
        /// The key of calls without a user.
        #[prost(string, tag = "3")]
        http_key: String,
    }

    /// Who of those followed is online. Answers [`StatusFollow`].
    Status {
        /// Those online.
        #[prost(message, repeated, tag = "1")]
        presences: Vec<UserPresence>,
    }

    /// Wants to hear when users come and go.
    StatusFollow {
        /// Whom, by id.
        #[prost(string, repeated, tag = "1")]
        user_ids: Vec<String>,
        /// Whom, by name.
        #[prost(string, repeated, tag = "2")]
        usernames: Vec<String>,
    }

    /// Who came online and went offline.
    StatusPresenceEvent {
        /// Who came, or changed status.
        #[prost(message, repeated, tag = "2")]
        joins: Vec<UserPresence>,
        /// Who went, or had the former status.
        #[prost(message, repeated, tag = "3")]
        leaves: Vec<UserPresence>,
    }

    /// No longer wants to hear of users.
    StatusUnfollow {
        /// Whom.
        #[prost(string, repeated, tag = "1")]
        user_ids: Vec<String>,
    }

    /// Sets the own status.
    StatusUpdate {
        /// The text; unset goes offline.
        #[prost(message, optional, tag = "1")]
        status: Option<String>,
    }

    /// Names a stream.
    Stream {
        /// The kind of stream.
        #[prost(int32, tag = "1")]
        mode: i32,
        /// Usually an id.
        #[prost(string, tag = "2")]
        subject: String,
        /// Usually another id.
        #[prost(string, tag = "3")]
        subcontext: String,
        /// Text that tells it from others.
        #[prost(string, tag = "4")]
        label: String,
    }

    /// What a script sends to a stream.
    StreamData {
        /// The stream.
        #[prost(message, optional, tag = "1")]
        stream: Option<Stream>,
        /// The sender, if a user.
        #[prost(message, optional, tag = "2")]
        sender: Option<UserPresence>,
        /// Text, not base64.
        #[prost(string, tag = "3")]
        data: String,
        /// All is reliable here.
        #[prost(bool, tag = "4")]
        reliable: bool,
    }

    /// Who came and went.
    StreamPresenceEvent {
        /// The stream.
        #[prost(message, optional, tag = "1")]
        stream: Option<Stream>,
        /// Who came.
        #[prost(message, repeated, tag = "2")]
        joins: Vec<UserPresence>,
        /// Who went.
        #[prost(message, repeated, tag = "3")]
        leaves: Vec<UserPresence>,
    }

    /// Asks whether the other side is alive.
    Ping {
    }

    /// Answers [`Ping`].
    Pong {
    }
}
