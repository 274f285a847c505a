//! Chat: channels and what is said in them. Declarations only; see the table in the parent module for directions.
//!
//! Source: the socket protocol of Nakama 3.40, field for field.

use crate::nakama::Timestamp;
use crate::nakama::message::messages;
use crate::nakama::realtime::UserPresence;

messages! {
    derive(Clone, PartialEq, prost::Message);

    /// A channel that was joined. Answers [`ChannelJoin`].
    Channel {
        /// The channel.
        #[prost(string, tag = "1")]
        id: String,
        /// Who was there already.
        #[prost(message, repeated, tag = "2")]
        presences: Vec<UserPresence>,
        /// The receiver in the channel.
        #[prost(message, optional, tag = "3")]
        own: Option<UserPresence> = "self",
        /// Name of the room, for a room.
        #[prost(string, tag = "4")]
        room_name: String,
        /// The group, for a group.
        #[prost(string, tag = "5")]
        group_id: String,
        /// The smaller user id, for a direct channel.
        #[prost(string, tag = "6")]
        user_id_one: String,
        /// The greater user id, for a direct channel.
        #[prost(string, tag = "7")]
        user_id_two: String,
    }

    /// Joins a channel.
    ChannelJoin {
        /// Name of the room, or id of the group or user.
        #[prost(string, tag = "1")]
        target: String,
        /// 1 room, 2 direct, 3 group.
        #[prost(int32, tag = "2")]
        kind: i32 = "type",
        /// Whether messages are stored; unset means yes.
        #[prost(message, optional, tag = "3")]
        persistence: Option<bool>,
        /// Whether others do not see the joiner; unset means no.
        #[prost(message, optional, tag = "4")]
        hidden: Option<bool>,
    }

    /// Leaves a channel.
    ChannelLeave {
        /// The channel.
        #[prost(string, tag = "1")]
        channel_id: String,
    }

    /// Something said in a channel.
    ChannelMessage {
        /// The channel.
        #[prost(string, tag = "1")]
        channel_id: String,
        /// The message.
        #[prost(string, tag = "2")]
        message_id: String,
        /// 0 for what users say, else an event of the channel; always set.
        #[prost(message, optional, tag = "3")]
        code: Option<i32>,
        /// The user who sent it.
        #[prost(string, tag = "4")]
        sender_id: String,
        /// The sender's name.
        #[prost(string, tag = "5")]
        username: String,
        /// JSON text.
        #[prost(string, tag = "6")]
        content: String,
        /// When it was sent.
        #[prost(message, optional, tag = "7")]
        create_time: Option<Timestamp>,
        /// When it was last changed.
        #[prost(message, optional, tag = "8")]
        update_time: Option<Timestamp>,
        /// Whether it is stored; always set.
        #[prost(message, optional, tag = "9")]
        persistent: Option<bool>,
        /// Name of the room, for a room.
        #[prost(string, tag = "10")]
        room_name: String,
        /// The group, for a group.
        #[prost(string, tag = "11")]
        group_id: String,
        /// The smaller user id, for a direct channel.
        #[prost(string, tag = "12")]
        user_id_one: String,
        /// The greater user id, for a direct channel.
        #[prost(string, tag = "13")]
        user_id_two: String,
    }

    /// Answers [`ChannelMessageSend`], [`ChannelMessageUpdate`], [`ChannelMessageRemove`].
    ChannelMessageAck {
        /// The channel.
        #[prost(string, tag = "1")]
        channel_id: String,
        /// The message.
        #[prost(string, tag = "2")]
        message_id: String,
        /// As in [`ChannelMessage`].
        #[prost(message, optional, tag = "3")]
        code: Option<i32>,
        /// The sender's name.
        #[prost(string, tag = "4")]
        username: String,
        /// When it was sent.
        #[prost(message, optional, tag = "5")]
        create_time: Option<Timestamp>,
        /// When it was last changed.
        #[prost(message, optional, tag = "6")]
        update_time: Option<Timestamp>,
        /// Whether it is stored.
        #[prost(message, optional, tag = "7")]
        persistent: Option<bool>,
        /// Name of the room, for a room.
        #[prost(string, tag = "8")]
        room_name: String,
        /// The group, for a group.
        #[prost(string, tag = "9")]
        group_id: String,
        /// The smaller user id, for a direct channel.
        #[prost(string, tag = "10")]
        user_id_one: String,
        /// The greater user id, for a direct channel.
        #[prost(string, tag = "11")]
        user_id_two: String,
    }

    /// Says something.
    ChannelMessageSend {
        /// The channel.
        #[prost(string, tag = "1")]
        channel_id: String,
        /// JSON text of an object.
        #[prost(string, tag = "2")]
        content: String,
    }

    /// Changes what was said.
    ChannelMessageUpdate {
        /// The channel.
        #[prost(string, tag = "1")]
        channel_id: String,
        /// The message.
        #[prost(string, tag = "2")]
        message_id: String,
        /// JSON text of an object.
        #[prost(string, tag = "3")]
        content: String,
    }

    /// Takes back what was said.
    ChannelMessageRemove {
        /// The channel.
        #[prost(string, tag = "1")]
        channel_id: String,
        /// The message.
        #[prost(string, tag = "2")]
        message_id: String,
    }

    /// Who came and went.
    ChannelPresenceEvent {
        /// The channel.
        #[prost(string, tag = "1")]
        channel_id: String,
        /// Who came.
        #[prost(message, repeated, tag = "2")]
        joins: Vec<UserPresence>,
        /// Who went.
        #[prost(message, repeated, tag = "3")]
        leaves: Vec<UserPresence>,
        /// Name of the room, for a room.
        #[prost(string, tag = "4")]
        room_name: String,
        /// The group, for a group.
        #[prost(string, tag = "5")]
        group_id: String,
        /// The smaller user id, for a direct channel.
        #[prost(string, tag = "6")]
        user_id_one: String,
        /// The greater user id, for a direct channel.
        #[prost(string, tag = "7")]
        user_id_two: String,
    }
}
