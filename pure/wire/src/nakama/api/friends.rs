//! Friends. Declarations only.
//!
//! Source: nakama-common, `api/api.proto`, field for field.

use super::User;
use crate::nakama::Timestamp;
use crate::nakama::message::messages;

messages! {
    /// Invites users, or accepts their invitations.
    AddFriendsRequest {
        /// Their ids.
        1 ids: Vec<String>,
        /// Their names.
        2 usernames: Vec<String>,
        /// JSON text of an object that only the caller will see.
        3 metadata: String,
    }

    /// Ends friendships, takes back and declines invitations, and lifts blocks.
    DeleteFriendsRequest {
        /// The users' ids.
        1 ids: Vec<String>,
        /// The users' names.
        2 usernames: Vec<String>,
    }

    /// Blocks users.
    BlockFriendsRequest {
        /// Their ids.
        1 ids: Vec<String>,
        /// Their names.
        2 usernames: Vec<String>,
    }

    /// Asks for a page of the caller's friends, invitations and blocks.
    ListFriendsRequest {
        /// How many at most, 1–1,000; unset means 1,000.
        1 limit: Option<i32>,
        /// Only those with this state, 0–3.
        2 state: Option<i32>,
        /// Where the last page ended.
        3 cursor: String,
    }

    /// A user with whom the caller has to do.
    Friend {
        /// Who.
        1 user: Option<User>,
        /// 0 a friend, 1 invited by the caller, 2 who invited the caller, 3 blocked by the caller.
        2 state: Option<i32>,
        /// When the state last changed.
        3 update_time: Option<Timestamp>,
        /// JSON text of an object that only the caller sees.
        4 metadata: String,
    }

    /// A page of friends.
    FriendList {
        /// Ordered by state, then the oldest first.
        1 friends: Vec<Friend>,
        /// For the next page; empty on the last one.
        2 cursor: String,
    }

    /// Asks for a page of the friends of the caller's friends.
    ListFriendsOfFriendsRequest {
        /// How many at most, 1–100; unset means 10.
        1 limit: Option<i32>,
        /// Where the last page ended.
        2 cursor: String,
    }

    /// A friend of a friend.
    FriendOfFriend in FriendsOfFriendsList {
        /// The id of the friend.
        1 referrer: String,
        /// Whose friend this user is.
        2 user: Option<User>,
    }

    /// A page of friends of friends.
    FriendsOfFriendsList {
        /// Those who are not friends themselves. A page may have fewer than were asked for.
        1 friends_of_friends: Vec<FriendOfFriend>,
        /// For the next page; empty on the last one.
        2 cursor: String,
    }
}
