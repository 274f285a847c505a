//! What belongs to no room: errors, pings, RPCs, notifications, status, and streams of scripts. Declarations only; see the table in the
//! parent module for directions.
//!
//! Source: the socket protocol of Nakama 3.40, field for field.

use std::collections::BTreeMap;

#[cfg(doc)]
use super::error_code;
use crate::nakama::api::Notification;
use crate::nakama::message::messages;

messages! {
    /// One session of one user somewhere.
    UserPresence {
        /// The user.
        1 user_id: String,
        /// The socket.
        2 session_id: String,
        /// The user's name.
        3 username: String,
        /// In channels: whether messages are stored.
        4 persistence: bool,
        /// In status messages: what the user set.
        5 status: Option<String>,
    }

    /// Something cannot be done.
    Error {
        /// One of [`error_code`].
        1 code: i32,
        /// For people.
        2 message: String,
        /// Details.
        3 context: BTreeMap<String, String>,
    }

    /// Notifications for the receiver.
    Notifications {
        /// In the order they were made.
        1 notifications: Vec<Notification>,
    }

    /// Who of those followed is online. Answers [`StatusFollow`].
    Status {
        /// Those online.
        1 presences: Vec<UserPresence>,
    }

    /// Wants to hear when users come and go.
    StatusFollow {
        /// Whom, by id.
        1 user_ids: Vec<String>,
        /// Whom, by name.
        2 usernames: Vec<String>,
    }

    /// Who came online and went offline.
    StatusPresenceEvent {
        /// Who came, or changed status.
        2 joins: Vec<UserPresence>,
        /// Who went, or had the former status.
        3 leaves: Vec<UserPresence>,
    }

    /// No longer wants to hear of users.
    StatusUnfollow {
        /// Whom.
        1 user_ids: Vec<String>,
    }

    /// Sets the own status.
    StatusUpdate {
        /// The text; unset goes offline.
        1 status: Option<String>,
    }

    /// Names a stream.
    Stream {
        /// The kind of stream.
        1 mode: i32,
        /// Usually an id.
        2 subject: String,
        /// Usually another id.
        3 subcontext: String,
        /// Text that tells it from others.
        4 label: String,
    }

    /// What a script sends to a stream.
    StreamData {
        /// The stream.
        1 stream: Option<Stream>,
        /// The sender, if a user.
        2 sender: Option<UserPresence>,
        /// Text, not base64.
        3 data: String,
        /// All is reliable here.
        4 reliable: bool,
    }

    /// Who came and went.
    StreamPresenceEvent {
        /// The stream.
        1 stream: Option<Stream>,
        /// Who came.
        2 joins: Vec<UserPresence>,
        /// Who went.
        3 leaves: Vec<UserPresence>,
    }

    /// Asks whether the other side is alive.
    Ping {
    }

    /// Answers [`Ping`].
    Pong {
    }
}
