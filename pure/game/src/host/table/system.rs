//! Logs, time, the process-wide cache, SQL, and what speaks to the machine.

use super::{built, missing};
use crate::host::{HostFunction, cron, events, machine, sql, system};

pub(super) const ROWS: &[HostFunction] = &[
    built(
        "cron_next",
        cron::cron_next,
        "(schedule: string, after: number) -> time: number",
        "When a schedule is due next after a time, both in unix seconds, UTC.",
        "return tostring(nk.cron_next(\"0 0 * * 1\", 1700000000)) -- the next Monday, midnight",
    ),
    built(
        "cron_prev",
        cron::cron_prev,
        "(schedule: string, before: number) -> time: number",
        "When a schedule was due last before a time, both in unix seconds, UTC.",
        "return tostring(nk.cron_prev(\"@daily\", 1700000000))",
    ),
    built(
        "event",
        events::event,
        "(name: string, properties?: table, timestamp?: number, external?: boolean = false)",
        "Tells the handler that `register_event` registered of something that has happened: names and values \
         of the properties are strings, the time is in unix seconds. The call goes on at once; what the \
         queue has no room for is forgotten (`runtime.event_queue_size`).",
        "nk.event(\"level_up\", { level = \"4\" }, nil)",
    ),
    built(
        "file_read",
        machine::file_read,
        "(path: string) -> content: string",
        "A file below `runtime.path`, of at most 16 MiB. What lies outside is an error, also by way \
         of a link.",
        "local ok, words = pcall(nk.file_read, \"words.txt\")\n\
         if ok then nk.logger_info(#words) end",
    ),
    built(
        "get_config",
        machine::get_config,
        "() -> config: table",
        "Settings of this server by Nakama's names: `name`, `shutdown_grace_sec`, `logger`, `session`, \
         `socket`, `runtime`. Keys are left out: with them a script could log in as anybody.",
        "return nk.get_config().name",
    ),
    missing("get_satori"),
    missing("http_request"),
    built(
        "localcache_clear",
        system::localcache_clear,
        "()",
        "Empties the cache.",
        "nk.localcache_clear()",
    ),
    built(
        "localcache_delete",
        system::localcache_delete,
        "(key: string)",
        "Removes an entry of the cache; an unknown key is no error.",
        "nk.localcache_delete(\"today\")",
    ),
    built(
        "localcache_get",
        system::localcache_get,
        "(key: string, default?: any = nil) -> value: any",
        "An entry of the cache that all scripts of this server share, or `default`.",
        "local visits = nk.localcache_get(\"visits\", 0)",
    ),
    built(
        "localcache_put",
        system::localcache_put,
        "(key: string, value: any, ttl_sec?: number = 0)",
        "Puts a value into the cache that all scripts of this server share; it is gone after a \
         restart. With 0 seconds it stays until there is no room.",
        "nk.localcache_put(\"today\", { event = \"double coins\" }, 3600)",
    ),
    built(
        "logger_debug",
        system::logger_debug,
        "(message: string) -> message: string",
        "Logs a line at level debug (`logger.level`).",
        "nk.logger_debug(\"payload: \" .. payload)",
    ),
    built(
        "logger_error",
        system::logger_error,
        "(message: string) -> message: string",
        "Logs a line at level error.",
        "nk.logger_error(\"the shop is empty\")",
    ),
    built(
        "logger_info",
        system::logger_info,
        "(message: string) -> message: string",
        "Logs a line at level info. `print` does the same.",
        "nk.logger_info(string.format(\"%s plays\", context.username))",
    ),
    built(
        "logger_warn",
        system::logger_warn,
        "(message: string) -> message: string",
        "Logs a line at level warn.",
        "nk.logger_warn(\"the shop is nearly empty\")",
    ),
    built(
        "metrics_counter_add",
        machine::metrics_counter_add,
        "(name: string, tags?: table, delta: number)",
        "Adds to a counter that `/metrics` shows as `nakama_custom_<name>`. Tags are labels: take them \
         from a small set, never ids of users; `metrics.custom_scope_limit` bounds them.",
        "nk.metrics_counter_add(\"kills\", { weapon = \"bow\" }, 1)",
    ),
    built(
        "metrics_gauge_set",
        machine::metrics_gauge_set,
        "(name: string, tags?: table, value: number)",
        "Sets a number that rises and falls, shown as `nakama_custom_<name>`.",
        "nk.metrics_gauge_set(\"shop_stock\", { item = \"sword\" }, 12)",
    ),
    built(
        "metrics_timer_record",
        machine::metrics_timer_record,
        "(name: string, tags?: table, time_ns: number)",
        "Records how long something took, in nanoseconds; shown in seconds as \
         `nakama_custom_<name>_sum` and `_count`.",
        "nk.metrics_timer_record(\"round\", nil, 95 * 1000000000)",
    ),
    built(
        "sql_exec",
        sql::sql_exec,
        "(statement: string, params?: list = {}) -> count: number",
        "Runs an SQL statement of SQLite with `?1`, `?2`, … as parameters; returns how many rows it \
         changed. It is a transaction of its own, and is undone if it goes beyond its budget \
         (`runtime.sql_*`). The server's own tables can be read, without passwords, and not \
         changed, unless `runtime.sql_write_own_tables` is set; there are no temporary tables.",
        "nk.sql_exec(\"CREATE TABLE IF NOT EXISTS visits (name TEXT PRIMARY KEY, count INTEGER)\", {})\n\
         local count = nk.sql_exec(\"INSERT INTO visits VALUES (?1, 1)\"\n  \
         .. \" ON CONFLICT DO UPDATE SET count = count + 1\", { context.username })",
    ),
    built(
        "sql_query",
        sql::sql_query,
        "(query: string, params?: list = {}) -> rows: list",
        "Runs an SQL query of SQLite; returns a table of columns for each row, within \
         `runtime.sql_rows_max` and `runtime.sql_answer_max_bytes`. \
         Columns of ids (declared `BYTEA` or `UUID`) come out as the ids' text; comparisons by `=`, \
         `<>` and `IN` with the text of an id find them. Of an expression an id \
         comes out as 16 bytes (`nk.uuid_bytes_to_string`), and a join of ids with texts finds nothing.",
        "local rows = nk.sql_query(\"SELECT username FROM users ORDER BY username LIMIT 10\", {})\n\
         for _, row in ipairs(rows) do nk.logger_info(row.username) end",
    ),
    built(
        "time",
        system::time,
        "(date?: table) -> time_ms: number",
        "Unix time in milliseconds: now, or of a date with `year`, `month`, `day`, and maybe `hour`, \
         `min`, `sec`, `msec`, in UTC.",
        "local age_ms = nk.time() - nk.time({ year = 2024, month = 1, day = 1 })",
    ),
];
