//! The calls of Nakama's API that throng has. Made by `cargo xtask docs` from the server's tables. Change them, not this file.

/// Gives each call of the API to a macro: its name, the names of the two functions of
/// [`Initializer`](crate::Initializer) for hooks, its request and its answer, if it has them.
#[macro_export]
macro_rules! every_call {
    ($with:ident) => {
        $with! {
            /// Logs in by the id of a device, and makes the account if there is none.
            AuthenticateDevice before_authenticate_device after_authenticate_device (AuthenticateDeviceRequest) (Session);
            /// Logs in by an id that the game made up, and makes the account if there is none.
            AuthenticateCustom before_authenticate_custom after_authenticate_custom (AuthenticateCustomRequest) (Session);
            /// Logs in by email address, or by username, and password; makes the account if there is none with that address.
            AuthenticateEmail before_authenticate_email after_authenticate_email (AuthenticateEmailRequest) (Session);
            /// Gives new tokens for a refresh token.
            SessionRefresh before_session_refresh after_session_refresh (SessionRefreshRequest) (Session);
            /// Ends the session of a token, of a refresh token, or all of the caller's.
            SessionLogout before_session_logout after_session_logout (SessionLogoutRequest) ();
            /// The caller's account.
            GetAccount before_get_account after_get_account () (Account);
            /// Changes fields of the caller's account.
            UpdateAccount before_update_account after_update_account (UpdateAccountRequest) ();
            /// Deletes the caller's account and all that belongs to it.
            DeleteAccount before_delete_account after_delete_account () ();
            /// Links a custom id to the caller's account.
            LinkCustom before_link_custom after_link_custom (AccountCustom) ();
            /// Links a device to the caller's account.
            LinkDevice before_link_device after_link_device (AccountDevice) ();
            /// Links an email address and a password to the caller's account.
            LinkEmail before_link_email after_link_email (AccountEmail) ();
            /// Takes the custom id off the caller's account.
            UnlinkCustom before_unlink_custom after_unlink_custom (AccountCustom) ();
            /// Takes a device off the caller's account.
            UnlinkDevice before_unlink_device after_unlink_device (AccountDevice) ();
            /// Takes the email address off the caller's account.
            UnlinkEmail before_unlink_email after_unlink_email (AccountEmail) ();
            /// Users by their ids and names.
            GetUsers before_get_users after_get_users (GetUsersRequest) (Users);
            /// Invites users, and accepts the invitations of those who have invited the caller.
            AddFriends before_add_friends after_add_friends (AddFriendsRequest) ();
            /// Ends friendships, takes back and declines invitations, and lifts blocks.
            DeleteFriends before_delete_friends after_delete_friends (DeleteFriendsRequest) ();
            /// Blocks users: what was between them and the caller ends, and they cannot invite.
            BlockFriends before_block_friends after_block_friends (BlockFriendsRequest) ();
            /// A page of the caller's friends, invitations and blocks.
            ListFriends before_list_friends after_list_friends (ListFriendsRequest) (FriendList);
            /// A page of the friends of the caller's friends.
            ListFriendsOfFriends before_list_friends_of_friends after_list_friends_of_friends (ListFriendsOfFriendsRequest) (FriendsOfFriendsList);
            /// A page of the caller's notifications that are kept. A cursor is good for ever: with the last one a client asks for what has come since.
            ListNotifications before_list_notifications after_list_notifications (ListNotificationsRequest) (NotificationList);
            /// Deletes notifications of the caller.
            DeleteNotifications before_delete_notifications after_delete_notifications (DeleteNotificationsRequest) ();
            /// Tells the handlers of the scripts of something that has happened. Nobody waits for them, and nobody is told whether there are any.
            Event before_event after_event (Event) ();
            /// Objects by collection, key and owner.
            ReadStorageObjects before_read_storage_objects after_read_storage_objects (ReadStorageObjectsRequest) (StorageObjects);
            /// Writes objects of the caller, all or none.
            WriteStorageObjects before_write_storage_objects after_write_storage_objects (WriteStorageObjectsRequest) (StorageObjectAcks);
            /// Deletes objects of the caller, all or none.
            DeleteStorageObjects before_delete_storage_objects after_delete_storage_objects (DeleteStorageObjectsRequest) ();
            /// A page of a collection: of one owner, or of everybody's public objects.
            ListStorageObjects before_list_storage_objects after_list_storage_objects (ListStorageObjectsRequest) (StorageObjectList);
            /// Running matches.
            ListMatches before_list_matches after_list_matches (ListMatchesRequest) (MatchList);
        }
    };
}
