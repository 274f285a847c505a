//! Notifications, over REST and over sockets alike. Declarations only.
//!
//! Source: nakama-common, `api/api.proto`, field for field.

use crate::nakama::Timestamp;
use crate::nakama::message::messages;

messages! {
    /// One notification.
    Notification {
        /// Names it.
        1 id: String,
        /// What it is about.
        2 subject: String,
        /// JSON text of an object.
        3 content: String,
        /// The game's, or negative for the server's.
        4 code: i32,
        /// The user who caused it.
        5 sender_id: String,
        /// When it was made.
        6 create_time: Option<Timestamp>,
        /// Whether it is kept until it is deleted.
        7 persistent: bool,
    }

    /// Asks for a page of the caller's notifications that are kept.
    ListNotificationsRequest {
        /// How many at most, 1–100; unset means 1.
        1 limit: Option<i32>,
        /// Where the last page ended, however long ago.
        2 cacheable_cursor: String,
    }

    /// A page of notifications.
    NotificationList {
        /// The oldest first.
        1 notifications: Vec<Notification>,
        /// Asks for those behind this page, also for those that are not made yet. Always there.
        2 cacheable_cursor: String,
    }

    /// Deletes notifications of the caller.
    DeleteNotificationsRequest {
        /// Their ids; those of none, and of other users' notifications, are passed over.
        1 ids: Vec<String>,
    }
}
