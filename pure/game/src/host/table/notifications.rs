//! What users are told.

use crate::host::declare::functions;
use crate::host::notifications::{self, code, content, subject};
use crate::host::read::{flag, id, id_or_none, ids_or, limit, records, text_or_empty};
use crate::notifications::{Draft, LIST_LIMIT_MAX};
use crate::value::Value;

functions! {
    ROWS(host, args) {
        /// Shows a user a notification on all its sockets. A persistent one is kept until it is
        /// deleted, so that the user finds it when it lists them. The code is the game's: above 0,
        /// or from -2000 to -1000.
        /// ```lua
        /// nk.notification_send(context.user_id, "You have won", { coins = 100 }, 1, nil, true)
        /// ```
        built [writes] notification_send(
            user_id: id("expects user_id to be a valid UUID"), subject: subject(),
            content: content(), code: code(),
            sender_id: id_or_none("expects sender_id to either be not set, empty string or a valid UUID"),
            persistent: flag(false),
        ) = {
            let (to, subject) = (Some(user_id), subject.into_owned());
            let sender = sender_id.filter(|id| !id.is_nil());
            let draft = Draft { to, subject, content, code, sender, is_persistent: persistent };
            notifications::send(host, "failed to send notifications", vec![draft])
        };
        /// Shows a notification on every socket. A persistent one is kept for all users that there
        /// are, once for all of them: whoever deletes it no longer sees it.
        /// ```lua
        /// nk.notification_send_all("A new season begins", { season = 4 }, 2, true)
        /// ```
        built [writes] notification_send_all(
            subject: subject(), content: content(), code: code(), persistent: flag(false),
        ) = {
            let (to, sender, subject) = (None, None, subject.into_owned());
            let draft = Draft { to, subject, content, code, sender, is_persistent: persistent };
            notifications::send(host, "failed to send notification", vec![draft])
        };
        /// Deletes notifications of users: each is `{ user_id, notification_id }`. Unknown ones are
        /// passed over.
        /// ```lua
        /// nk.notification_send(context.user_id, "Hello", {}, 1, nil, true)
        /// local kept = nk.notifications_list(context.user_id, 1)
        /// nk.notifications_delete({ { user_id = context.user_id, notification_id = kept[1].id } })
        /// ```
        built [writes] notifications_delete(notifications: records("expects a valid set of notifications"))
            = notifications::delete_of_users(host, args, &notifications);
        /// Deletes notifications, those of one user or whosever they are. What is for everybody
        /// goes for everybody without a user, and for this user alone with one.
        /// ```lua
        /// nk.notification_send(context.user_id, "Hello", {}, 1, nil, true)
        /// local kept = nk.notifications_list(context.user_id, 1)
        /// nk.notifications_delete_id({ kept[1].id }, context.user_id)
        /// ```
        built [writes] notifications_delete_id(
            ids: ids_or("invalid notification ids list", "each notification id must be a valid id"),
            user_id: id_or_none("expects user_id to be a valid UUID"),
        )
            = notifications::delete(host, &ids, user_id);
        /// Kept notifications by their ids, those of one user or whosever they are: `{ id, user_id,
        /// subject, content, code, create_time, persistent, sender_id }`. The content is a table;
        /// of what is for everybody the user is id zero.
        /// ```lua
        /// nk.notification_send(context.user_id, "Hello", { coins = 1 }, 1, nil, true)
        /// local kept = nk.notifications_list(context.user_id, 1)
        /// local found = nk.notifications_get_id({ kept[1].id })
        /// nk.logger_info(found[1].content.coins)
        /// ```
        built [reads] notifications_get_id(
            ids: ids_or("invalid notification ids list", "each notification id must be a valid id"),
            user_id: id_or_none("expects user_id to be a valid UUID"),
        ) -> (notifications: Vec<Value>)
            = notifications::by_ids(host, &ids, user_id);
        /// What is kept for a user, the oldest first, 1 to 1,000 at a time: `{ id, subject,
        /// content, code, senderId, persistent, createTime }`. The content is JSON text, and the
        /// names are spelled like this, as in Nakama. The cursor asks for the next page; nil on the
        /// last one.
        /// ```lua
        /// local kept, cursor = nk.notifications_list(context.user_id, 10)
        /// for _, one in ipairs(kept) do nk.logger_info(one.subject) end
        /// ```
        built [reads] notifications_list(
            user_id: id("expects user_id to be a valid uuid"), limit: limit(100, LIST_LIMIT_MAX),
            cursor: text_or_empty(),
        ) -> (notifications: Vec<Value>, cursor: Option<String>)
            = notifications::list(host, user_id, limit, &cursor);
        /// Sends several at once, all or none: each is `{ user_id, subject, content, code,
        /// sender_id?, persistent? }`, as in `notification_send`.
        /// ```lua
        /// nk.notifications_send({
        ///   { user_id = context.user_id, subject = "Hello", content = { coins = 1 }, code = 1 },
        ///   { user_id = context.user_id, subject = "Again", content = {}, code = 2, persistent = true },
        /// })
        /// ```
        built [writes] notifications_send(notifications: records("expects a valid set of notifications"))
            = notifications::send_all(host, &notifications);
        /// Changes kept notifications: each is `{ id, subject?, content?, sender? }`. Sockets are
        /// not told. Unknown ones are passed over.
        /// ```lua
        /// nk.notification_send(context.user_id, "Hello", {}, 1, nil, true)
        /// local kept = nk.notifications_list(context.user_id, 1)
        /// nk.notifications_update({ { id = kept[1].id, content = { seen = true } } })
        /// ```
        built [writes] notifications_update(updates: records("expects a valid set of data"))
            = notifications::update(host, args, &updates);
    }
}
