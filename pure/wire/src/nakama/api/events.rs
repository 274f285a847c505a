//! Events for the game's own handlers. Declarations only.
//!
//! Source: nakama-common, `api/api.proto`, field for field.

use std::collections::BTreeMap;

use crate::nakama::Timestamp;
use crate::nakama::message::messages;

messages! {
    /// Something that has happened, for handlers in scripts.
    Event {
        /// What kind it is.
        1 name: String,
        /// What else is to be known of it.
        2 properties: BTreeMap<String, String>,
        /// When it happened.
        3 timestamp: Option<Timestamp>,
        /// Whether a client says so; whatever is sent, handlers see true.
        4 external: bool,
    }
}
