//! What users are told.

use super::built;
use crate::host::{HostFunction, notifications};

pub(super) const ROWS: &[HostFunction] = &[
    built(
        "notification_send",
        notifications::notification_send,
        "(user_id: string, subject: string, content: table, code: number, sender_id?: string, \
         persistent?: boolean = false)",
        "Shows a user a notification on all its sockets. A persistent one is kept until it is deleted, so \
         that the user finds it when it lists them. The code is the game's: above 0, or from -2000 to \
         -1000.",
        "nk.notification_send(context.user_id, \"You have won\", { coins = 100 }, 1, nil, true)",
    ),
    built(
        "notification_send_all",
        notifications::notification_send_all,
        "(subject: string, content: table, code: number, persistent?: boolean = false)",
        "Shows a notification on every socket. A persistent one is kept for all users that there are, once \
         for all of them: whoever deletes it no longer sees it.",
        "nk.notification_send_all(\"A new season begins\", { season = 4 }, 2, true)",
    ),
    built(
        "notifications_delete",
        notifications::notifications_delete,
        "(notifications: list)",
        "Deletes notifications of users: each is `{ user_id, notification_id }`. Unknown ones are passed \
         over.",
        "nk.notification_send(context.user_id, \"Hello\", {}, 1, nil, true)\n\
         local kept = nk.notifications_list(context.user_id, 1)\n\
         nk.notifications_delete({ { user_id = context.user_id, notification_id = kept[1].id } })",
    ),
    built(
        "notifications_delete_id",
        notifications::notifications_delete_id,
        "(ids: list, user_id?: string)",
        "Deletes notifications, those of one user or whosever they are. What is for everybody goes for \
         everybody without a user, and for this user alone with one.",
        "nk.notification_send(context.user_id, \"Hello\", {}, 1, nil, true)\n\
         local kept = nk.notifications_list(context.user_id, 1)\n\
         nk.notifications_delete_id({ kept[1].id }, context.user_id)",
    ),
    built(
        "notifications_get_id",
        notifications::notifications_get_id,
        "(ids: list, user_id?: string) -> notifications: list",
        "Kept notifications by their ids, those of one user or whosever they are: `{ id, user_id, subject, \
         content, code, create_time, persistent, sender_id }`. The content is a table; of what is for \
         everybody the user is id zero.",
        "nk.notification_send(context.user_id, \"Hello\", { coins = 1 }, 1, nil, true)\n\
         local kept = nk.notifications_list(context.user_id, 1)\n\
         local found = nk.notifications_get_id({ kept[1].id })\n\
         nk.logger_info(found[1].content.coins)",
    ),
    built(
        "notifications_list",
        notifications::notifications_list,
        "(user_id: string, limit?: number = 100, cursor?: string) \
         -> notifications: list, cursor: string",
        "What is kept for a user, the oldest first, 1 to 1,000 at a time: `{ id, subject, content, code, \
         senderId, persistent, createTime }`. The content is JSON text, and the names are spelled like \
         this, as in Nakama. The cursor asks for the next page; nil on the last one.",
        "local kept, cursor = nk.notifications_list(context.user_id, 10)\n\
         for _, one in ipairs(kept) do nk.logger_info(one.subject) end",
    ),
    built(
        "notifications_send",
        notifications::notifications_send,
        "(notifications: list)",
        "Sends several at once, all or none: each is `{ user_id, subject, content, code, sender_id?, \
         persistent? }`, as in `notification_send`.",
        "nk.notifications_send({\n  \
         { user_id = context.user_id, subject = \"Hello\", content = { coins = 1 }, code = 1 },\n  \
         { user_id = context.user_id, subject = \"Again\", content = {}, code = 2, persistent = true },\n\
         })",
    ),
    built(
        "notifications_update",
        notifications::notifications_update,
        "(updates: list)",
        "Changes kept notifications: each is `{ id, subject?, content?, sender? }`. Sockets are not told. \
         Unknown ones are passed over.",
        "nk.notification_send(context.user_id, \"Hello\", {}, 1, nil, true)\n\
         local kept = nk.notifications_list(context.user_id, 1)\n\
         nk.notifications_update({ { id = kept[1].id, content = { seen = true } } })",
    ),
];
