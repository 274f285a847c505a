//! Every call of Nakama's API, one row each: what it does, its routes, what is in the body of a
//! request (`*` is all of it), what a caller has to show, where it runs, request and answer, and
//! the function that does it. A row may say that the answer can be `large`, and how many `rows` of
//! the database the call is (1, if it does not say).
//!
//! To add a call: its messages (a file of `wire::nakama::api`), its function (a file beside this
//! one), its row here in place of its name in the second list, a request for the tests
//! (`call/tests.rs`), and its SQL in `schema` if it needs a table; then `cargo xtask docs`. Routing,
//! hooks, limits, metrics, gRPC and `docs/api.md` follow.
//!
//! Source: Nakama 3.40, `apigrpc/apigrpc.proto`, `server/runtime.go`.

use std::borrow::Cow;

use wire::nakama::Format;
use wire::nakama::api::{
    Account, AccountCustom, AccountDevice, AccountEmail, AddFriendsRequest,
    AuthenticateCustomRequest, AuthenticateDeviceRequest, AuthenticateEmailRequest,
    BlockFriendsRequest, DeleteFriendsRequest, DeleteNotificationsRequest,
    DeleteStorageObjectsRequest, Empty, Event, FriendList, FriendsOfFriendsList, GetUsersRequest,
    ListFriendsOfFriendsRequest, ListFriendsRequest, ListMatchesRequest, ListNotificationsRequest,
    ListStorageObjectsRequest, MatchList, NotificationList, ReadStorageObjectsRequest, Session,
    SessionLogoutRequest, SessionRefreshRequest, StorageObjectAcks, StorageObjectList,
    StorageObjects, UpdateAccountRequest, Users, WriteStorageObjectsRequest,
};

use super::call::{
    Auth, Built, CallLane, CallRow, HttpRoute, Parts, Style, answer_form, answered, body, calls,
    form, is_large, message, reformed, rows,
};
use super::route::not_built;
use super::run::Cx;
use super::{account, events, friends, login, matches, notifications, storage};
use crate::error::ApiError;
use crate::value::Value;

calls! {
    built {
        "Sessions" {
            /// Logs in by the id of a device, and makes the account if there is none.
            AuthenticateDevice [POST "/v2/account/authenticate/device"] body(account)
                ServerKey Write AuthenticateDeviceRequest => Session, login::device;
            /// Logs in by an id that the game made up, and makes the account if there is none.
            AuthenticateCustom [POST "/v2/account/authenticate/custom"] body(account)
                ServerKey Write AuthenticateCustomRequest => Session, login::custom;
            /// Logs in by email address, or by username, and password; makes the account if there
            /// is none with that address.
            AuthenticateEmail [POST "/v2/account/authenticate/email"] body(account)
                ServerKey Slow AuthenticateEmailRequest => Session, login::email;
            /// Gives new tokens for a refresh token.
            SessionRefresh [POST "/v2/account/session/refresh"] body(*)
                ServerKey Write SessionRefreshRequest => Session, login::refresh;
            /// Ends the session of a token, of a refresh token, or all of the caller's.
            SessionLogout [POST "/v2/session/logout"] body(*)
                Bearer Write SessionLogoutRequest => Empty, login::log_out;
        }
        "Accounts and users" {
            /// The caller's account.
            GetAccount [GET "/v2/account"] body()
                Bearer Read Empty => Account, account::get;
            /// Changes fields of the caller's account.
            UpdateAccount [PUT "/v2/account"] body(*)
                Bearer Write UpdateAccountRequest => Empty, account::update;
            /// Deletes the caller's account and all that belongs to it.
            DeleteAccount [DELETE "/v2/account"] body()
                Bearer Write Empty => Empty, account::delete { rows account::rows };
            /// Links a custom id to the caller's account.
            LinkCustom [POST "/v2/account/link/custom"] body(*)
                Bearer Write AccountCustom => Empty, account::link_custom;
            /// Links a device to the caller's account.
            LinkDevice [POST "/v2/account/link/device"] body(*)
                Bearer Write AccountDevice => Empty, account::link_device;
            /// Links an email address and a password to the caller's account.
            LinkEmail [POST "/v2/account/link/email"] body(*)
                Bearer Slow AccountEmail => Empty, account::link_email;
            /// Takes the custom id off the caller's account.
            UnlinkCustom [POST "/v2/account/unlink/custom"] body(*)
                Bearer Write AccountCustom => Empty, account::unlink_custom;
            /// Takes a device off the caller's account.
            UnlinkDevice [POST "/v2/account/unlink/device"] body(*)
                Bearer Write AccountDevice => Empty, account::unlink_device;
            /// Takes the email address off the caller's account.
            UnlinkEmail [POST "/v2/account/unlink/email"] body(*)
                Bearer Write AccountEmail => Empty, account::unlink_email;
            /// Users by their ids and names.
            GetUsers [GET "/v2/user"] body()
                Bearer Read GetUsersRequest => Users, account::users
                { large, rows account::users_rows };
        }
        "Friends" {
            /// Invites users, and accepts the invitations of those who have invited the caller.
            AddFriends [POST "/v2/friend"] body()
                Bearer Write AddFriendsRequest => Empty, friends::add { rows friends::add_rows };
            /// Ends friendships, takes back and declines invitations, and lifts blocks.
            DeleteFriends [DELETE "/v2/friend"] body()
                Bearer Write DeleteFriendsRequest => Empty, friends::delete
                { rows friends::delete_rows };
            /// Blocks users: what was between them and the caller ends, and they cannot invite.
            BlockFriends [POST "/v2/friend/block"] body()
                Bearer Write BlockFriendsRequest => Empty, friends::block
                { rows friends::block_rows };
            /// A page of the caller's friends, invitations and blocks.
            ListFriends [GET "/v2/friend"] body()
                Bearer Read ListFriendsRequest => FriendList, friends::list
                { large, rows friends::list_rows };
            /// A page of the friends of the caller's friends.
            ListFriendsOfFriends [GET "/v2/friend/friends"] body()
                Bearer Read ListFriendsOfFriendsRequest => FriendsOfFriendsList,
                friends::list_of_friends { large, rows friends::list_of_friends_rows };
        }
        "Notifications" {
            /// A page of the caller's notifications that are kept. A cursor is good for ever: with the
            /// last one a client asks for what has come since.
            ListNotifications [GET "/v2/notification"] body()
                Bearer Read ListNotificationsRequest => NotificationList, notifications::list
                { large };
            /// Deletes notifications of the caller.
            DeleteNotifications [DELETE "/v2/notification"] body()
                Bearer Write DeleteNotificationsRequest => Empty, notifications::delete
                { rows notifications::delete_rows };
        }
        "Events" {
            /// Tells the handlers of the scripts of something that has happened. Nobody waits for them,
            /// and nobody is told whether there are any.
            Event [POST "/v2/event"] body(*)
                Bearer Read Event => Empty, events::event;
        }
        "Storage" {
            /// Objects by collection, key and owner.
            ReadStorageObjects [POST "/v2/storage"] body(*)
                Bearer Read ReadStorageObjectsRequest => StorageObjects, storage::read
                { large, rows storage::read_rows };
            /// Writes objects of the caller, all or none.
            WriteStorageObjects [PUT "/v2/storage"] body(*)
                Bearer Write WriteStorageObjectsRequest => StorageObjectAcks, storage::write
                { rows storage::write_rows };
            /// Deletes objects of the caller, all or none.
            DeleteStorageObjects [PUT "/v2/storage/delete"] body(*)
                Bearer Write DeleteStorageObjectsRequest => Empty, storage::delete
                { rows storage::delete_rows };
            /// A page of a collection: of one owner, or of everybody's public objects.
            ListStorageObjects
                [GET "/v2/storage/{collection}", GET "/v2/storage/{collection}/{user_id}"] body()
                Bearer Read ListStorageObjectsRequest => StorageObjectList, storage::list
                { large };
        }
        "Matches" {
            /// Running matches.
            ListMatches [GET "/v2/match"] body()
                Bearer Core ListMatchesRequest => MatchList, matches::list { large };
        }
    }
    not_built {
        "Apple accounts are" {
            AuthenticateApple [POST "/v2/account/authenticate/apple"];
            LinkApple [POST "/v2/account/link/apple"];
            UnlinkApple [POST "/v2/account/unlink/apple"];
        }
        "Facebook accounts are" {
            AuthenticateFacebook [POST "/v2/account/authenticate/facebook"];
            LinkFacebook [POST "/v2/account/link/facebook"];
            UnlinkFacebook [POST "/v2/account/unlink/facebook"];
        }
        "Facebook Instant Game accounts are" {
            AuthenticateFacebookInstantGame [POST "/v2/account/authenticate/facebookinstantgame"];
            LinkFacebookInstantGame [POST "/v2/account/link/facebookinstantgame"];
            UnlinkFacebookInstantGame [POST "/v2/account/unlink/facebookinstantgame"];
        }
        "Game Center accounts are" {
            AuthenticateGameCenter [POST "/v2/account/authenticate/gamecenter"];
            LinkGameCenter [POST "/v2/account/link/gamecenter"];
            UnlinkGameCenter [POST "/v2/account/unlink/gamecenter"];
        }
        "Google accounts are" {
            AuthenticateGoogle [POST "/v2/account/authenticate/google"];
            LinkGoogle [POST "/v2/account/link/google"];
            UnlinkGoogle [POST "/v2/account/unlink/google"];
        }
        "Steam accounts are" {
            AuthenticateSteam [POST "/v2/account/authenticate/steam"];
            LinkSteam [POST "/v2/account/link/steam"];
            UnlinkSteam [POST "/v2/account/unlink/steam"];
        }
        "importing friends is" {
            ImportFacebookFriends [POST "/v2/friend/facebook"];
            ImportSteamFriends [POST "/v2/friend/steam"];
        }
        "groups are" {
            AddGroupUsers [POST "/v2/group/{group_id}/add"];
            BanGroupUsers [POST "/v2/group/{group_id}/ban"];
            CreateGroup [POST "/v2/group"];
            DeleteGroup [DELETE "/v2/group/{group_id}"];
            DemoteGroupUsers [POST "/v2/group/{group_id}/demote"];
            JoinGroup [POST "/v2/group/{group_id}/join"];
            KickGroupUsers [POST "/v2/group/{group_id}/kick"];
            LeaveGroup [POST "/v2/group/{group_id}/leave"];
            ListGroupUsers [GET "/v2/group/{group_id}/user"];
            ListGroups [GET "/v2/group"];
            ListUserGroups [GET "/v2/user/{user_id}/group"];
            PromoteGroupUsers [POST "/v2/group/{group_id}/promote"];
            UpdateGroup [PUT "/v2/group/{group_id}"];
        }
        "leaderboards are" {
            DeleteLeaderboardRecord [DELETE "/v2/leaderboard/{leaderboard_id}"];
            ListLeaderboardRecords [GET "/v2/leaderboard/{leaderboard_id}"];
            ListLeaderboardRecordsAroundOwner
                [GET "/v2/leaderboard/{leaderboard_id}/owner/{owner_id}"];
            WriteLeaderboardRecord [POST "/v2/leaderboard/{leaderboard_id}"];
        }
        "tournaments are" {
            DeleteTournamentRecord [DELETE "/v2/tournament/{tournament_id}"];
            JoinTournament [POST "/v2/tournament/{tournament_id}/join"];
            ListTournamentRecords [GET "/v2/tournament/{tournament_id}"];
            ListTournamentRecordsAroundOwner
                [GET "/v2/tournament/{tournament_id}/owner/{owner_id}"];
            ListTournaments [GET "/v2/tournament"];
            WriteTournamentRecord
                [POST "/v2/tournament/{tournament_id}", PUT "/v2/tournament/{tournament_id}"];
        }
        "party listing is" {
            ListParties [GET "/v2/party"];
        }
        "the matchmaker is" {
            GetMatchmakerStats [GET "/v2/matchmaker/stats"];
        }
        "chat is" {
            ListChannelMessages [GET "/v2/channel/{channel_id}"];
        }
        "purchase validation is" {
            ValidatePurchaseApple [POST "/v2/iap/purchase/apple"];
            ValidatePurchaseFacebookInstant [POST "/v2/iap/purchase/facebookinstant"];
            ValidatePurchaseGoogle [POST "/v2/iap/purchase/google"];
            ValidatePurchaseHuawei [POST "/v2/iap/purchase/huawei"];
            ValidatePurchaseSamsung [POST "/v2/iap/purchase/samsung"];
        }
        "subscription validation is" {
            GetSubscription [GET "/v2/iap/subscription/{product_id}"];
            ListSubscriptions [POST "/v2/iap/subscription"];
            ValidateSubscriptionApple [POST "/v2/iap/subscription/apple"];
            ValidateSubscriptionGoogle [POST "/v2/iap/subscription/google"];
        }
    }
}

/// How many calls there are: [`CallId`]s are below it.
pub const CALLS_COUNT: usize = BUILT.len() + NOT_BUILT.len();

/// Calls carry passwords and tokens, so that only their names are for logs.
impl std::fmt::Debug for ApiCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.row().name)
    }
}

impl CallId {
    /// Its row.
    pub fn row(self) -> &'static CallRow {
        &ROWS[self as usize]
    }
}

impl ApiCall {
    /// Its row.
    pub fn row(&self) -> &'static CallRow {
        self.id().row()
    }

    /// The name of its hooks and metrics.
    pub fn name(&self) -> &'static str {
        self.row().name
    }

    /// What the caller has to show.
    pub fn auth(&self) -> Auth {
        self.row().built.as_ref().map_or(Auth::Bearer, |built| built.auth)
    }

    /// Where it runs.
    pub fn lane(&self) -> CallLane {
        self.row().built.as_ref().map_or(CallLane::Write, |built| built.lane)
    }

    /// Whether its answer can be large ([`Built::is_large`]).
    pub fn may_be_large(&self) -> bool {
        self.row().built.as_ref().is_some_and(|built| built.is_large)
    }

    /// Whether a before-hook has a request to return; without one, what it returns does not
    /// matter, as in Nakama.
    pub fn has_form(&self) -> bool {
        self.row().built.as_ref().is_some_and(|built| !built.request.fields.is_empty())
    }
}
