//! Storage objects.

use super::{built, missing, own};
use crate::host::{HostFunction, storage};

pub(super) const ROWS: &[HostFunction] = &[
    built(
        "storage_delete",
        storage::storage_delete,
        "(ids: list)",
        "Deletes objects, all or none. Each id is `{ collection, key, user_id?, version? }`. An object \
         that is not there is an error.",
        "local id = { collection = \"scores\", key = \"best\", user_id = context.user_id }\n\
         if #nk.storage_read({ id }) > 0 then nk.storage_delete({ id }) end",
    ),
    missing("storage_index_list"),
    built(
        "storage_list",
        storage::storage_list,
        "(user_id?: string, collection: string, limit?: number = 100, cursor?: string, \
         caller_id?: string) -> objects: list, cursor: string",
        "Objects of a collection: of one user, or of everybody if `user_id` is nil. The cursor asks \
         for the next page; nil on the last one. With `caller_id` permissions count.",
        "local objects, cursor = nk.storage_list(nil, \"scores\", 10)\n\
         for _, object in ipairs(objects) do nk.logger_info(object.key) end",
    ),
    built(
        "storage_read",
        storage::storage_read,
        "(ids: list) -> objects: list",
        "Reads objects by `{ collection, key, user_id? }`; without a user they are the system's. What \
         is not there is left out. `value` is a table, times are unix seconds.",
        "local found = nk.storage_read({\n  \
         { collection = \"scores\", key = \"best\", user_id = context.user_id },\n\
         })\n\
         local best = found[1] and found[1].value.points or 0",
    ),
    built(
        "storage_write",
        storage::storage_write,
        "(objects: list) -> acks: list",
        "Writes objects, all or none: `{ collection, key, value, user_id?, version?, \
         permission_read? = 1, permission_write? = 1 }`. `value` is a table. With `version` the write \
         fails if the object changed meanwhile; `\"*\"` demands that there is none yet.",
        "local acks = nk.storage_write({\n  \
         { collection = \"scores\", key = \"best\", user_id = context.user_id, value = { points = 7 } },\n\
         })\n\
         return acks[1].version",
    ),
    own(
        "storage_write_retry",
        "(ids: list, update: function, retries_max: number) -> acks: list",
        "Reads objects as `storage_read` does, gives them to `update(objects)` and writes what it \
         returns as `storage_write` does. If an object has changed meanwhile, it begins again, 0 to 10 \
         times; return the objects with their `version`, else the last write wins.",
        "local nk = require(\"nakama\")\n\
         local function visit(context)\n  \
         local id = { collection = \"stats\", key = \"visits\" }\n  \
         nk.storage_write_retry({ id }, function(objects)\n    \
         local object = objects[1] or { collection = id.collection, key = id.key, value = {}, version = \"*\" }\n    \
         object.value.count = (object.value.count or 0) + 1\n    \
         return { object }\n  \
         end, 5)\n\
         end\n\
         nk.register_rpc(visit, \"visit\")",
    ),
];
