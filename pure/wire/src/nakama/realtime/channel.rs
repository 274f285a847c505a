//! Chat: channels and what is said in them. Declarations only; see the table in the
//! parent module for directions.
//!
//! Source: the socket protocol of Nakama 3.40, field for field.

use crate::nakama::Timestamp;
use crate::nakama::message::messages;
use crate::nakama::realtime::UserPresence;

messages! {
    /// A channel that was joined. Answers [`ChannelJoin`].
    Channel {
        /// The channel.
        1 id: String,
        /// Who was there already.
        2 presences: Vec<UserPresence>,
        /// The receiver in the channel.
        3 own: Option<UserPresence> = "self",
        /// Name of the room, for a room.
        4 room_name: String,
        /// The group, for a group.
        5 group_id: String,
        /// The smaller user id, for a direct channel.
        6 user_id_one: String,
        /// The greater user id, for a direct channel.
        7 user_id_two: String,
    }

    /// Joins a channel.
    ChannelJoin {
        /// Name of the room, or id of the group or user.
        1 target: String,
        /// 1 room, 2 direct, 3 group.
        2 kind: i32 = "type",
        /// Whether messages are stored; unset means yes.
        3 persistence: Option<bool>,
        /// Whether others do not see the joiner; unset means no.
        4 hidden: Option<bool>,
    }

    /// Leaves a channel.
    ChannelLeave {
        /// The channel.
        1 channel_id: String,
    }

    /// Something said in a channel.
    ChannelMessage {
        /// The channel.
        1 channel_id: String,
        /// The message.
        2 message_id: String,
        /// 0 for what users say, else an event of the channel; always set.
        3 code: Option<i32>,
        /// The user who sent it.
        4 sender_id: String,
        /// The sender's name.
        5 username: String,
        /// JSON text.
        6 content: String,
        /// When it was sent.
        7 create_time: Option<Timestamp>,
        /// When it was last changed.
        8 update_time: Option<Timestamp>,
        /// Whether it is stored; always set.
        9 persistent: Option<bool>,
        /// Name of the room, for a room.
        10 room_name: String,
        /// The group, for a group.
        11 group_id: String,
        /// The smaller user id, for a direct channel.
        12 user_id_one: String,
        /// The greater user id, for a direct channel.
        13 user_id_two: String,
    }

    /// Answers [`ChannelMessageSend`], [`ChannelMessageUpdate`], [`ChannelMessageRemove`].
    ChannelMessageAck {
        /// The channel.
        1 channel_id: String,
        /// The message.
        2 message_id: String,
        /// As in [`ChannelMessage`].
        3 code: Option<i32>,
        /// The sender's name.
        4 username: String,
        /// When it was sent.
        5 create_time: Option<Timestamp>,
        /// When it was last changed.
        6 update_time: Option<Timestamp>,
        /// Whether it is stored.
        7 persistent: Option<bool>,
        /// Name of the room, for a room.
        8 room_name: String,
        /// The group, for a group.
        9 group_id: String,
        /// The smaller user id, for a direct channel.
        10 user_id_one: String,
        /// The greater user id, for a direct channel.
        11 user_id_two: String,
    }

    /// Says something.
    ChannelMessageSend {
        /// The channel.
        1 channel_id: String,
        /// JSON text of an object.
        2 content: String,
    }

    /// Changes what was said.
    ChannelMessageUpdate {
        /// The channel.
        1 channel_id: String,
        /// The message.
        2 message_id: String,
        /// JSON text of an object.
        3 content: String,
    }

    /// Takes back what was said.
    ChannelMessageRemove {
        /// The channel.
        1 channel_id: String,
        /// The message.
        2 message_id: String,
    }

    /// Who came and went.
    ChannelPresenceEvent {
        /// The channel.
        1 channel_id: String,
        /// Who came.
        2 joins: Vec<UserPresence>,
        /// Who went.
        3 leaves: Vec<UserPresence>,
        /// Name of the room, for a room.
        4 room_name: String,
        /// The group, for a group.
        5 group_id: String,
        /// The smaller user id, for a direct channel.
        6 user_id_one: String,
        /// The greater user id, for a direct channel.
        7 user_id_two: String,
    }
}
