//! The messages of Nakama's API, of those calls that throng has. Made by `cargo xtask docs` from the server's tables. Change them, not this file.

use std::collections::BTreeMap;

use crate::message::{Timestamp, messages};

messages! {
    /// An account as its owner sees it.
    Account {
        /// The public part.
        user: Option<User> = "user",
        /// JSON text of an object.
        wallet: String = "wallet",
        /// Linked address.
        email: String = "email",
        /// Linked devices.
        devices: Vec<AccountDevice> = "devices",
        /// Linked id.
        custom_id: String = "custom_id",
        /// When the address was verified.
        verify_time: Option<Timestamp> = "verify_time",
        /// When the account was banned.
        disable_time: Option<Timestamp> = "disable_time",
    }
    /// An id that the game made up.
    AccountCustom {
        /// 6–128 bytes.
        id: String = "id",
        /// Variables for the session.
        vars: BTreeMap<String, String> = "vars",
    }
    /// The id of a device.
    AccountDevice {
        /// 10–128 bytes.
        id: String = "id",
        /// Variables for the session.
        vars: BTreeMap<String, String> = "vars",
    }
    /// Email address and password.
    AccountEmail {
        /// 10–255 bytes.
        email: String = "email",
        /// At least 8 characters.
        password: String = "password",
        /// Variables for the session.
        vars: BTreeMap<String, String> = "vars",
    }
    /// Invites users, or accepts their invitations.
    AddFriendsRequest {
        /// Their ids.
        ids: Vec<String> = "ids",
        /// Their names.
        usernames: Vec<String> = "usernames",
        /// JSON text of an object that only the caller will see.
        metadata: String = "metadata",
    }
    /// Logs in by an id that the game made up.
    AuthenticateCustomRequest {
        /// The id.
        account: Option<AccountCustom> = "account",
        /// Whether an account may be made; unset means yes.
        create: Option<bool> = "create",
        /// For a new account; empty for a random one.
        username: String = "username",
    }
    /// Logs in by the id of a device.
    AuthenticateDeviceRequest {
        /// The id.
        account: Option<AccountDevice> = "account",
        /// Whether an account may be made; unset means yes.
        create: Option<bool> = "create",
        /// For a new account; empty for a random one.
        username: String = "username",
    }
    /// Logs in by email address and password, or by username and password.
    AuthenticateEmailRequest {
        /// Address and password; without an address the username is looked for.
        account: Option<AccountEmail> = "account",
        /// Whether an account may be made; unset means yes.
        create: Option<bool> = "create",
        /// For a new account, or who logs in.
        username: String = "username",
    }
    /// Blocks users.
    BlockFriendsRequest {
        /// Their ids.
        ids: Vec<String> = "ids",
        /// Their names.
        usernames: Vec<String> = "usernames",
    }
    /// Ends friendships, takes back and declines invitations, and lifts blocks.
    DeleteFriendsRequest {
        /// The users' ids.
        ids: Vec<String> = "ids",
        /// The users' names.
        usernames: Vec<String> = "usernames",
    }
    /// Deletes notifications of the caller.
    DeleteNotificationsRequest {
        /// Their ids; those of none, and of other users' notifications, are passed over.
        ids: Vec<String> = "ids",
    }
    /// One object to delete.
    DeleteStorageObjectId {
        /// Its collection.
        collection: String = "collection",
        /// Its key.
        key: String = "key",
        /// What its version must be; empty for any.
        version: String = "version",
    }
    /// Deletes objects of the caller, all or none.
    DeleteStorageObjectsRequest {
        /// The objects, at most 1,000.
        object_ids: Vec<DeleteStorageObjectId> = "object_ids",
    }
    /// Nothing: the request of calls that need none, and the answer of those that give none.
    Empty {
    }
    /// Something that has happened, for handlers in scripts.
    Event {
        /// What kind it is.
        name: String = "name",
        /// What else is to be known of it.
        properties: BTreeMap<String, String> = "properties",
        /// When it happened.
        timestamp: Option<Timestamp> = "timestamp",
        /// Whether a client says so; whatever is sent, handlers see true.
        external: bool = "external",
    }
    /// A user with whom the caller has to do.
    Friend {
        /// Who.
        user: Option<User> = "user",
        /// 0 a friend, 1 invited by the caller, 2 who invited the caller, 3 blocked by the caller.
        state: Option<i32> = "state",
        /// When the state last changed.
        update_time: Option<Timestamp> = "update_time",
        /// JSON text of an object that only the caller sees.
        metadata: String = "metadata",
    }
    /// A page of friends.
    FriendList {
        /// Ordered by state, then the oldest first.
        friends: Vec<Friend> = "friends",
        /// For the next page; empty on the last one.
        cursor: String = "cursor",
    }
    /// A page of friends of friends.
    FriendsOfFriendsList {
        /// Those who are not friends themselves. A page may have fewer than were asked for.
        friends_of_friends: Vec<FriendOfFriend> = "friends_of_friends",
        /// For the next page; empty on the last one.
        cursor: String = "cursor",
    }
    /// A friend of a friend.
    FriendOfFriend {
        /// The id of the friend.
        referrer: String = "referrer",
        /// Whose friend this user is.
        user: Option<User> = "user",
    }
    /// Asks for users; unknown ones are left out.
    GetUsersRequest {
        /// Their ids.
        ids: Vec<String> = "ids",
        /// Their names.
        usernames: Vec<String> = "usernames",
        /// Their ids with Facebook; no account has one yet.
        facebook_ids: Vec<String> = "facebook_ids",
    }
    /// Asks for a page of the friends of the caller's friends.
    ListFriendsOfFriendsRequest {
        /// How many at most, 1–100; unset means 10.
        limit: Option<i32> = "limit",
        /// Where the last page ended.
        cursor: String = "cursor",
    }
    /// Asks for a page of the caller's friends, invitations and blocks.
    ListFriendsRequest {
        /// How many at most, 1–1,000; unset means 1,000.
        limit: Option<i32> = "limit",
        /// Only those with this state, 0–3.
        state: Option<i32> = "state",
        /// Where the last page ended.
        cursor: String = "cursor",
    }
    /// Asks for matches.
    ListMatchesRequest {
        /// How many at most, 1–100; unset means 10.
        limit: Option<i32> = "limit",
        /// Whether a script runs them; unset means both kinds.
        authoritative: Option<bool> = "authoritative",
        /// Their label.
        label: Option<String> = "label",
        /// Members at least.
        min_size: Option<i32> = "min_size",
        /// Members at most.
        max_size: Option<i32> = "max_size",
        /// What their labels must match.
        query: Option<String> = "query",
    }
    /// Asks for a page of the caller's notifications that are kept.
    ListNotificationsRequest {
        /// How many at most, 1–100; unset means 1.
        limit: Option<i32> = "limit",
        /// Where the last page ended, however long ago.
        cacheable_cursor: String = "cacheable_cursor",
    }
    /// Asks for a page of a collection.
    ListStorageObjectsRequest {
        /// The owner; empty for everybody's public objects.
        user_id: String = "user_id",
        /// The collection.
        collection: String = "collection",
        /// How many at most, 1–100; unset means 1.
        limit: Option<i32> = "limit",
        /// Where the last page ended.
        cursor: String = "cursor",
    }
    /// A match in a listing.
    Match {
        /// The match.
        match_id: String = "match_id",
        /// Whether a script on the server runs it.
        authoritative: bool = "authoritative",
        /// What the script wants shown; set for authoritative matches.
        label: Option<String> = "label",
        /// Members at this moment.
        size: i32 = "size",
        /// Ticks a second, of authoritative matches.
        tick_rate: i32 = "tick_rate",
        /// The script that runs it.
        handler_name: String = "handler_name",
    }
    /// A listing of matches.
    MatchList {
        /// As many as asked for.
        matches: Vec<Match> = "matches",
    }
    /// One notification.
    Notification {
        /// Names it.
        id: String = "id",
        /// What it is about.
        subject: String = "subject",
        /// JSON text of an object.
        content: String = "content",
        /// The game's, or negative for the server's.
        code: i32 = "code",
        /// The user who caused it.
        sender_id: String = "sender_id",
        /// When it was made.
        create_time: Option<Timestamp> = "create_time",
        /// Whether it is kept until it is deleted.
        persistent: bool = "persistent",
    }
    /// A page of notifications.
    NotificationList {
        /// The oldest first.
        notifications: Vec<Notification> = "notifications",
        /// Asks for those behind this page, also for those that are not made yet. Always there.
        cacheable_cursor: String = "cacheable_cursor",
    }
    /// Which object is meant.
    ReadStorageObjectId {
        /// Its collection.
        collection: String = "collection",
        /// Its key.
        key: String = "key",
        /// Its owner; empty for the system's objects.
        user_id: String = "user_id",
    }
    /// Asks for objects.
    ReadStorageObjectsRequest {
        /// The objects, at most 1,000.
        object_ids: Vec<ReadStorageObjectId> = "object_ids",
    }
    /// Calls a function of a script, and answers: over gRPC and sockets.
    Rpc {
        /// The function.
        id: String = "id",
        /// Any text, usually JSON.
        payload: String = "payload",
        /// The key of calls without a user.
        http_key: String = "http_key",
    }
    /// Both tokens of a session. Answers every authentication and refresh.
    Session {
        /// Whether the account is new.
        created: bool = "created",
        /// For requests and the socket; a JWT.
        token: String = "token",
        /// For a new session when the other token has expired; a JWT.
        refresh_token: String = "refresh_token",
    }
    /// Ends a session; with neither token, all of the caller's.
    SessionLogoutRequest {
        /// The session token.
        token: String = "token",
        /// The refresh token.
        refresh_token: String = "refresh_token",
    }
    /// Asks for a new session.
    SessionRefreshRequest {
        /// The refresh token.
        token: String = "token",
        /// Variables for the new session, in place of the old ones if there are any.
        vars: BTreeMap<String, String> = "vars",
    }
    /// An object.
    StorageObject {
        /// Its collection.
        collection: String = "collection",
        /// Its key.
        key: String = "key",
        /// Its owner; the nil id for the system.
        user_id: String = "user_id",
        /// JSON text of an object.
        value: String = "value",
        /// Changes with the value.
        version: String = "version",
        /// Who may read: 0 nobody, 1 the owner, 2 everybody.
        permission_read: i32 = "permission_read",
        /// Who may write: 0 nobody, 1 the owner.
        permission_write: i32 = "permission_write",
        /// When it was first written.
        create_time: Option<Timestamp> = "create_time",
        /// When it was last written.
        update_time: Option<Timestamp> = "update_time",
    }
    /// What was written.
    StorageObjectAck {
        /// Its collection.
        collection: String = "collection",
        /// Its key.
        key: String = "key",
        /// The version now.
        version: String = "version",
        /// Its owner.
        user_id: String = "user_id",
        /// When it was first written.
        create_time: Option<Timestamp> = "create_time",
        /// When it was last written.
        update_time: Option<Timestamp> = "update_time",
    }
    /// What was written, in the order of the request.
    StorageObjectAcks {
        /// One for each object.
        acks: Vec<StorageObjectAck> = "acks",
    }
    /// A page of a collection.
    StorageObjectList {
        /// In the order of their keys.
        objects: Vec<StorageObject> = "objects",
        /// For the next page; empty on the last one.
        cursor: String = "cursor",
    }
    /// Objects that were asked for, those that there are and that the caller may read.
    StorageObjects {
        /// In no particular order.
        objects: Vec<StorageObject> = "objects",
    }
    /// Changes the own account; an empty text clears a field.
    UpdateAccountRequest {
        /// 1–128 bytes.
        username: Option<String> = "username",
        /// For others to see.
        display_name: Option<String> = "display_name",
        /// A picture.
        avatar_url: Option<String> = "avatar_url",
        /// Language, as BCP 47 has it.
        lang_tag: Option<String> = "lang_tag",
        /// Anything.
        location: Option<String> = "location",
        /// Anything.
        timezone: Option<String> = "timezone",
    }
    /// A user as others see them.
    User {
        /// A UUID.
        id: String = "id",
        /// Unique.
        username: String = "username",
        /// For others to see.
        display_name: String = "display_name",
        /// A picture.
        avatar_url: String = "avatar_url",
        /// Language, as BCP 47 has it.
        lang_tag: String = "lang_tag",
        /// Anything.
        location: String = "location",
        /// Anything.
        timezone: String = "timezone",
        /// JSON text of an object.
        metadata: String = "metadata",
        /// Linked account.
        facebook_id: String = "facebook_id",
        /// Linked account.
        google_id: String = "google_id",
        /// Linked account.
        gamecenter_id: String = "gamecenter_id",
        /// Linked account.
        steam_id: String = "steam_id",
        /// Whether the user has set a status.
        online: bool = "online",
        /// Number of friends.
        edge_count: i32 = "edge_count",
        /// When the account was made.
        create_time: Option<Timestamp> = "create_time",
        /// When it was last changed.
        update_time: Option<Timestamp> = "update_time",
        /// Linked account.
        facebook_instant_game_id: String = "facebook_instant_game_id",
        /// Linked account.
        apple_id: String = "apple_id",
    }
    /// Several users.
    Users {
        /// In no particular order.
        users: Vec<User> = "users",
    }
    /// One object to write.
    WriteStorageObject {
        /// Its collection, 1–128 bytes.
        collection: String = "collection",
        /// Its key, 1–128 bytes.
        key: String = "key",
        /// JSON text of an object.
        value: String = "value",
        /// What its version must be; `*` for no object, empty for whatever is there.
        version: String = "version",
        /// Who may read: 0 nobody, 1 the owner, 2 everybody; unset means 1.
        permission_read: Option<i32> = "permission_read",
        /// Who may write: 0 nobody, 1 the owner; unset means 1.
        permission_write: Option<i32> = "permission_write",
    }
    /// Writes objects of the caller, all or none.
    WriteStorageObjectsRequest {
        /// The objects, at most 1,000.
        objects: Vec<WriteStorageObject> = "objects",
    }
}
