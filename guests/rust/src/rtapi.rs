//! The messages of Nakama's socket, and the envelope of each. Made by `cargo xtask docs` from the server's tables. Change them, not this file.

use std::collections::BTreeMap;

use crate::api::{Notification, Rpc};
use crate::message::{Bytes, Timestamp, envelope, messages};

messages! {
    /// A channel that was joined. Answers `ChannelJoin`.
    Channel {
        /// The channel.
        id: String = "id",
        /// Who was there already.
        presences: Vec<UserPresence> = "presences",
        /// The receiver in the channel.
        own: Option<UserPresence> = "self",
        /// Name of the room, for a room.
        room_name: String = "room_name",
        /// The group, for a group.
        group_id: String = "group_id",
        /// The smaller user id, for a direct channel.
        user_id_one: String = "user_id_one",
        /// The greater user id, for a direct channel.
        user_id_two: String = "user_id_two",
    }
    /// Joins a channel.
    ChannelJoin {
        /// Name of the room, or id of the group or user.
        target: String = "target",
        /// 1 room, 2 direct, 3 group.
        kind: i32 = "type",
        /// Whether messages are stored; unset means yes.
        persistence: Option<bool> = "persistence",
        /// Whether others do not see the joiner; unset means no.
        hidden: Option<bool> = "hidden",
    }
    /// Leaves a channel.
    ChannelLeave {
        /// The channel.
        channel_id: String = "channel_id",
    }
    /// Something said in a channel.
    ChannelMessage {
        /// The channel.
        channel_id: String = "channel_id",
        /// The message.
        message_id: String = "message_id",
        /// 0 for what users say, else an event of the channel; always set.
        code: Option<i32> = "code",
        /// The user who sent it.
        sender_id: String = "sender_id",
        /// The sender's name.
        username: String = "username",
        /// JSON text.
        content: String = "content",
        /// When it was sent.
        create_time: Option<Timestamp> = "create_time",
        /// When it was last changed.
        update_time: Option<Timestamp> = "update_time",
        /// Whether it is stored; always set.
        persistent: Option<bool> = "persistent",
        /// Name of the room, for a room.
        room_name: String = "room_name",
        /// The group, for a group.
        group_id: String = "group_id",
        /// The smaller user id, for a direct channel.
        user_id_one: String = "user_id_one",
        /// The greater user id, for a direct channel.
        user_id_two: String = "user_id_two",
    }
    /// Answers `ChannelMessageSend`, `ChannelMessageUpdate`, `ChannelMessageRemove`.
    ChannelMessageAck {
        /// The channel.
        channel_id: String = "channel_id",
        /// The message.
        message_id: String = "message_id",
        /// As in `ChannelMessage`.
        code: Option<i32> = "code",
        /// The sender's name.
        username: String = "username",
        /// When it was sent.
        create_time: Option<Timestamp> = "create_time",
        /// When it was last changed.
        update_time: Option<Timestamp> = "update_time",
        /// Whether it is stored.
        persistent: Option<bool> = "persistent",
        /// Name of the room, for a room.
        room_name: String = "room_name",
        /// The group, for a group.
        group_id: String = "group_id",
        /// The smaller user id, for a direct channel.
        user_id_one: String = "user_id_one",
        /// The greater user id, for a direct channel.
        user_id_two: String = "user_id_two",
    }
    /// Takes back what was said.
    ChannelMessageRemove {
        /// The channel.
        channel_id: String = "channel_id",
        /// The message.
        message_id: String = "message_id",
    }
    /// Says something.
    ChannelMessageSend {
        /// The channel.
        channel_id: String = "channel_id",
        /// JSON text of an object.
        content: String = "content",
    }
    /// Changes what was said.
    ChannelMessageUpdate {
        /// The channel.
        channel_id: String = "channel_id",
        /// The message.
        message_id: String = "message_id",
        /// JSON text of an object.
        content: String = "content",
    }
    /// Who came and went.
    ChannelPresenceEvent {
        /// The channel.
        channel_id: String = "channel_id",
        /// Who came.
        joins: Vec<UserPresence> = "joins",
        /// Who went.
        leaves: Vec<UserPresence> = "leaves",
        /// Name of the room, for a room.
        room_name: String = "room_name",
        /// The group, for a group.
        group_id: String = "group_id",
        /// The smaller user id, for a direct channel.
        user_id_one: String = "user_id_one",
        /// The greater user id, for a direct channel.
        user_id_two: String = "user_id_two",
    }
    /// Something cannot be done.
    Error {
        /// One of `error_code`.
        code: i32 = "code",
        /// For people.
        message: String = "message",
        /// Details.
        context: BTreeMap<String, String> = "context",
    }
    /// A match that was joined. Answers `MatchCreate` and `MatchJoin`.
    Match {
        /// The match.
        match_id: String = "match_id",
        /// Whether a script on the server runs it.
        authoritative: bool = "authoritative",
        /// What the listing shows of it.
        label: Option<String> = "label",
        /// Members at this moment.
        size: i32 = "size",
        /// Who was there already.
        presences: Vec<UserPresence> = "presences",
        /// The receiver in the match.
        own: Option<UserPresence> = "self",
    }
    /// Creates a relayed match and joins it.
    MatchCreate {
        /// The same name gives the same match; empty for a new one.
        name: String = "name",
    }
    /// What a member or the server sends to a match.
    MatchData {
        /// The match.
        match_id: String = "match_id",
        /// The sender; unset for the server.
        presence: Option<UserPresence> = "presence",
        /// What the game means by it.
        op_code: i64 = "op_code",
        /// The payload.
        data: Bytes = "data",
        /// Copied from the sender; all is reliable here.
        reliable: bool = "reliable",
    }
    /// Sends to a match. Never answered.
    MatchDataSend {
        /// The match.
        match_id: String = "match_id",
        /// What the game means by it.
        op_code: i64 = "op_code",
        /// The payload.
        data: Bytes = "data",
        /// Whom a relayed match delivers to; none for all others.
        presences: Vec<UserPresence> = "presences",
        /// A wish that is passed on.
        reliable: bool = "reliable",
    }
    /// Joins a match by its id or by a token of the matchmaker.
    MatchJoin {
        /// The match; this or the token.
        match_id: Option<String> = "match_id",
        /// Made by the matchmaker.
        token: Option<String> = "token",
        /// For the match's script.
        metadata: BTreeMap<String, String> = "metadata",
    }
    /// Leaves a match.
    MatchLeave {
        /// The match.
        match_id: String = "match_id",
    }
    /// Who came and went.
    MatchPresenceEvent {
        /// The match.
        match_id: String = "match_id",
        /// Who came.
        joins: Vec<UserPresence> = "joins",
        /// Who went.
        leaves: Vec<UserPresence> = "leaves",
    }
    /// Looks for opponents.
    MatchmakerAdd {
        /// Players needed, the asker among them.
        min_count: i32 = "min_count",
        /// Players wanted at most.
        max_count: i32 = "max_count",
        /// Condition on the others' properties.
        query: String = "query",
        /// The asker's properties.
        string_properties: BTreeMap<String, String> = "string_properties",
        /// The asker's properties.
        numeric_properties: BTreeMap<String, f64> = "numeric_properties",
        /// The number of players must be divisible by it.
        count_multiple: Option<i32> = "count_multiple",
    }
    /// Opponents were found.
    MatchmakerMatched {
        /// The ticket that is fulfilled.
        ticket: String = "ticket",
        /// The match to join; this or the token.
        match_id: Option<String> = "match_id",
        /// To join with.
        token: Option<String> = "token",
        /// All who were matched.
        users: Vec<MatchmakerUser> = "users",
        /// The receiver among them.
        own: Option<MatchmakerUser> = "self",
    }
    /// One who was matched.
    MatchmakerUser {
        /// Who.
        presence: Option<UserPresence> = "presence",
        /// With which party, if any.
        party_id: String = "party_id",
        /// What was given with the ticket.
        string_properties: BTreeMap<String, String> = "string_properties",
        /// What was given with the ticket.
        numeric_properties: BTreeMap<String, f64> = "numeric_properties",
    }
    /// Stops looking.
    MatchmakerRemove {
        /// The ticket to give back.
        ticket: String = "ticket",
    }
    /// Answers `MatchmakerAdd`.
    MatchmakerTicket {
        /// Names the search.
        ticket: String = "ticket",
    }
    /// Notifications for the receiver.
    Notifications {
        /// In the order they were made.
        notifications: Vec<Notification> = "notifications",
    }
    /// A party that was created or joined. Answers `PartyCreate`.
    Party {
        /// The party.
        party_id: String = "party_id",
        /// Whether anybody may join unasked.
        open: bool = "open",
        /// Whether listings leave it out.
        hidden: bool = "hidden",
        /// Members at most.
        max_size: i32 = "max_size",
        /// The receiver in the party.
        own: Option<UserPresence> = "self",
        /// Who leads it.
        leader: Option<UserPresence> = "leader",
        /// All members.
        presences: Vec<UserPresence> = "presences",
        /// JSON text for listings.
        label: String = "label",
    }
    /// Lets one in who asked.
    PartyAccept {
        /// The party.
        party_id: String = "party_id",
        /// Whom.
        presence: Option<UserPresence> = "presence",
    }
    /// Ends a party; tells its members so.
    PartyClose {
        /// The party.
        party_id: String = "party_id",
    }
    /// Creates a party and leads it.
    PartyCreate {
        /// Whether anybody may join unasked.
        open: bool = "open",
        /// Members at most.
        max_size: i32 = "max_size",
        /// JSON text for listings.
        label: String = "label",
        /// Whether listings leave it out.
        hidden: bool = "hidden",
    }
    /// What a member sends to the party.
    PartyData {
        /// The party.
        party_id: String = "party_id",
        /// The sender.
        presence: Option<UserPresence> = "presence",
        /// What the game means by it.
        op_code: i64 = "op_code",
        /// The payload.
        data: Bytes = "data",
    }
    /// Sends to the party.
    PartyDataSend {
        /// The party.
        party_id: String = "party_id",
        /// What the game means by it.
        op_code: i64 = "op_code",
        /// The payload.
        data: Bytes = "data",
    }
    /// Joins, or asks to join.
    PartyJoin {
        /// The party.
        party_id: String = "party_id",
    }
    /// Who wants to join. Answers `PartyJoinRequestList`, or comes unasked.
    PartyJoinRequest {
        /// The party.
        party_id: String = "party_id",
        /// Who.
        presences: Vec<UserPresence> = "presences",
    }
    /// Asks who wants to join.
    PartyJoinRequestList {
        /// The party.
        party_id: String = "party_id",
    }
    /// There is a new leader.
    PartyLeader {
        /// The party.
        party_id: String = "party_id",
        /// Who.
        presence: Option<UserPresence> = "presence",
    }
    /// Leaves a party.
    PartyLeave {
        /// The party.
        party_id: String = "party_id",
    }
    /// Looks for opponents for the whole party.
    PartyMatchmakerAdd {
        /// The party.
        party_id: String = "party_id",
        /// Players needed.
        min_count: i32 = "min_count",
        /// Players wanted at most.
        max_count: i32 = "max_count",
        /// Condition on the others' properties.
        query: String = "query",
        /// The party's properties.
        string_properties: BTreeMap<String, String> = "string_properties",
        /// The party's properties.
        numeric_properties: BTreeMap<String, f64> = "numeric_properties",
        /// The number of players must be divisible by it.
        count_multiple: Option<i32> = "count_multiple",
    }
    /// Stops looking.
    PartyMatchmakerRemove {
        /// The party.
        party_id: String = "party_id",
        /// The ticket to give back.
        ticket: String = "ticket",
    }
    /// Answers `PartyMatchmakerAdd`; told to the other members, too.
    PartyMatchmakerTicket {
        /// The party.
        party_id: String = "party_id",
        /// Names the search.
        ticket: String = "ticket",
    }
    /// Who came and went.
    PartyPresenceEvent {
        /// The party.
        party_id: String = "party_id",
        /// Who came.
        joins: Vec<UserPresence> = "joins",
        /// Who went.
        leaves: Vec<UserPresence> = "leaves",
    }
    /// Makes another member the leader.
    PartyPromote {
        /// The party.
        party_id: String = "party_id",
        /// Whom.
        presence: Option<UserPresence> = "presence",
    }
    /// Removes a member, or refuses one who asked.
    PartyRemove {
        /// The party.
        party_id: String = "party_id",
        /// Whom.
        presence: Option<UserPresence> = "presence",
    }
    /// Changes the party; tells its members so.
    PartyUpdate {
        /// The party.
        party_id: String = "party_id",
        /// JSON text for listings.
        label: String = "label",
        /// Whether anybody may join unasked.
        open: bool = "open",
        /// Whether listings leave it out.
        hidden: bool = "hidden",
    }
    /// Asks whether the other side is alive.
    Ping {
    }
    /// Answers `Ping`.
    Pong {
    }
    /// Who of those followed is online. Answers `StatusFollow`.
    Status {
        /// Those online.
        presences: Vec<UserPresence> = "presences",
    }
    /// Wants to hear when users come and go.
    StatusFollow {
        /// Whom, by id.
        user_ids: Vec<String> = "user_ids",
        /// Whom, by name.
        usernames: Vec<String> = "usernames",
    }
    /// Who came online and went offline.
    StatusPresenceEvent {
        /// Who came, or changed status.
        joins: Vec<UserPresence> = "joins",
        /// Who went, or had the former status.
        leaves: Vec<UserPresence> = "leaves",
    }
    /// No longer wants to hear of users.
    StatusUnfollow {
        /// Whom.
        user_ids: Vec<String> = "user_ids",
    }
    /// Sets the own status.
    StatusUpdate {
        /// The text; unset goes offline.
        status: Option<String> = "status",
    }
    /// Names a stream.
    Stream {
        /// The kind of stream.
        mode: i32 = "mode",
        /// Usually an id.
        subject: String = "subject",
        /// Usually another id.
        subcontext: String = "subcontext",
        /// Text that tells it from others.
        label: String = "label",
    }
    /// What a script sends to a stream.
    StreamData {
        /// The stream.
        stream: Option<Stream> = "stream",
        /// The sender, if a user.
        sender: Option<UserPresence> = "sender",
        /// Text, not base64.
        data: String = "data",
        /// All is reliable here.
        reliable: bool = "reliable",
    }
    /// Who came and went.
    StreamPresenceEvent {
        /// The stream.
        stream: Option<Stream> = "stream",
        /// Who came.
        joins: Vec<UserPresence> = "joins",
        /// Who went.
        leaves: Vec<UserPresence> = "leaves",
    }
    /// One session of one user somewhere.
    UserPresence {
        /// The user.
        user_id: String = "user_id",
        /// The socket.
        session_id: String = "session_id",
        /// The user's name.
        username: String = "username",
        /// In channels: whether messages are stored.
        persistence: bool = "persistence",
        /// In status messages: what the user set.
        status: Option<String> = "status",
    }
}

envelope! {
    Channel(Channel) "channel",
    ChannelJoin(ChannelJoin) "channel_join",
    ChannelLeave(ChannelLeave) "channel_leave",
    ChannelMessage(ChannelMessage) "channel_message",
    ChannelMessageAck(ChannelMessageAck) "channel_message_ack",
    ChannelMessageSend(ChannelMessageSend) "channel_message_send",
    ChannelMessageUpdate(ChannelMessageUpdate) "channel_message_update",
    ChannelMessageRemove(ChannelMessageRemove) "channel_message_remove",
    ChannelPresenceEvent(ChannelPresenceEvent) "channel_presence_event",
    Error(Error) "error",
    Match(Match) "match",
    MatchCreate(MatchCreate) "match_create",
    MatchData(MatchData) "match_data",
    MatchDataSend(MatchDataSend) "match_data_send",
    MatchJoin(MatchJoin) "match_join",
    MatchLeave(MatchLeave) "match_leave",
    MatchPresenceEvent(MatchPresenceEvent) "match_presence_event",
    MatchmakerAdd(MatchmakerAdd) "matchmaker_add",
    MatchmakerMatched(MatchmakerMatched) "matchmaker_matched",
    MatchmakerRemove(MatchmakerRemove) "matchmaker_remove",
    MatchmakerTicket(MatchmakerTicket) "matchmaker_ticket",
    Notifications(Notifications) "notifications",
    Rpc(Rpc) "rpc",
    Status(Status) "status",
    StatusFollow(StatusFollow) "status_follow",
    StatusPresenceEvent(StatusPresenceEvent) "status_presence_event",
    StatusUnfollow(StatusUnfollow) "status_unfollow",
    StatusUpdate(StatusUpdate) "status_update",
    StreamData(StreamData) "stream_data",
    StreamPresenceEvent(StreamPresenceEvent) "stream_presence_event",
    Ping(Ping) "ping",
    Pong(Pong) "pong",
    Party(Party) "party",
    PartyCreate(PartyCreate) "party_create",
    PartyJoin(PartyJoin) "party_join",
    PartyLeave(PartyLeave) "party_leave",
    PartyPromote(PartyPromote) "party_promote",
    PartyLeader(PartyLeader) "party_leader",
    PartyAccept(PartyAccept) "party_accept",
    PartyRemove(PartyRemove) "party_remove",
    PartyClose(PartyClose) "party_close",
    PartyJoinRequestList(PartyJoinRequestList) "party_join_request_list",
    PartyJoinRequest(PartyJoinRequest) "party_join_request",
    PartyMatchmakerAdd(PartyMatchmakerAdd) "party_matchmaker_add",
    PartyMatchmakerRemove(PartyMatchmakerRemove) "party_matchmaker_remove",
    PartyMatchmakerTicket(PartyMatchmakerTicket) "party_matchmaker_ticket",
    PartyData(PartyData) "party_data",
    PartyDataSend(PartyDataSend) "party_data_send",
    PartyPresenceEvent(PartyPresenceEvent) "party_presence_event",
    PartyUpdate(PartyUpdate) "party_update",
}
