//! Storage objects.

use crate::host::declare::functions;
use crate::host::read::{function, id_or_none, int, list, records, text_or_empty, within_or};
use crate::host::storage;
use crate::storage::{Caller, LIST_LIMIT_MAX, Listing};
use crate::value::Value;

functions! {
    ROWS(host, args) {
        /// Deletes objects, all or none. Each id is `{ collection, key, user_id?, version? }`. An
        /// object that is not there is an error.
        /// ```lua
        /// local id = { collection = "scores", key = "best", user_id = context.user_id }
        /// if #nk.storage_read({ id }) > 0 then nk.storage_delete({ id }) end
        /// ```
        built [writes] storage_delete(ids: records("expects a valid set of object IDs"))
            = storage::delete(host, &ids);
        missing storage_index_list;
        /// Objects of a collection: of one user, or of everybody if `user_id` is nil; `limit` of them,
        /// 1 to 100 (more counts as 100). The cursor asks for the next page; nil on the last one. With
        /// `caller_id` permissions count.
        /// ```lua
        /// local objects, cursor = nk.storage_list(nil, "scores", 10)
        /// for _, object in ipairs(objects) do nk.logger_info(object.key) end
        /// ```
        built [reads] storage_list(
            user_id: id_or_none("expects empty or a valid user ID"),
            collection: text_or_empty(),
            limit: within_or::<usize>(100, 0, i64::MAX, "limit must not be negative"),
            cursor: text_or_empty(),
            caller_id: id_or_none("expects caller ID to be empty or a valid identifier"),
        ) -> (objects: Vec<Value>, cursor: Option<String>) = {
            let (collection, cursor) = (collection.into_owned(), cursor.into_owned());
            let limit = LIST_LIMIT_MAX.min(limit);
            // With a caller's permissions, too: whose cursor it is only the script knows.
            let passed_over_max = usize::MAX;
            let listing = Listing { collection, user_id, limit, cursor, passed_over_max };
            storage::list(host, caller_id.map_or(Caller::Script, Caller::User), &listing)
        };
        /// Reads objects by `{ collection, key, user_id? }`; without a user they are the system's.
        /// What is not there is left out. `value` is a table, times are unix seconds.
        /// ```lua
        /// local found = nk.storage_read({
        ///   { collection = "scores", key = "best", user_id = context.user_id },
        /// })
        /// local best = found[1] and found[1].value.points or 0
        /// ```
        built [reads] storage_read(ids: records("expects a valid set of keys")) -> (objects: Vec<Value>)
            = storage::read(host, &ids);
        /// Writes objects, all or none: `{ collection, key, value, user_id?, version?,
        /// permission_read? = 1, permission_write? = 1 }`. `value` is a table. With `version` the
        /// write fails if the object changed meanwhile; `"*"` demands that there is none yet.
        /// ```lua
        /// local acks = nk.storage_write({
        ///   { collection = "scores", key = "best", user_id = context.user_id, value = { points = 7 } },
        /// })
        /// return acks[1].version
        /// ```
        built [writes] storage_write(objects: records("expects a valid set of data")) -> (acks: Vec<Value>)
            = storage::write(host, &objects);
        /// Reads objects as `storage_read` does, gives them to `update(objects)` and writes what it
        /// returns as `storage_write` does. If an object has changed meanwhile, it begins again, 0
        /// to 10 times; return the objects with their `version`, else the last write wins.
        /// ```lua
        /// local nk = require("nakama")
        /// local function visit(context)
        ///   local id = { collection = "stats", key = "visits" }
        ///   nk.storage_write_retry({ id }, function(objects)
        ///     local object = objects[1] or { collection = id.collection, key = id.key, value = {}, version = "*" }
        ///     object.value.count = (object.value.count or 0) + 1
        ///     return { object }
        ///   end, 5)
        /// end
        /// nk.register_rpc(visit, "visit")
        /// ```
        language storage_write_retry(
            ids: list(), update: function(), retries_max: int(),
        ) -> (acks: Vec<Value>);
    }
}
