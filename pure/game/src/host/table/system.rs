//! Logs, time, the process-wide cache, SQL, and what speaks to the machine.

use bytes::Bytes;

use crate::events::Event;
use crate::guest::{LogLevel, MetricKind};
use crate::host::declare::{Need, Table, Text, ValueType, functions};
use crate::host::read::{
    filled, filled_text, flag, float, int, int_or, optional, shown_as, string, strings, value,
    within_or,
};
use crate::host::{cron, events, http, machine, sql, system};
use crate::value::Value;

functions! {
    ROWS(host, args) {
        /// When a schedule is due next after a time, both in unix seconds, UTC.
        /// ```lua
        /// return tostring(nk.cron_next("0 0 * * 1", 1700000000)) -- the next Monday, midnight
        /// ```
        built cron_next(schedule: filled_text("expects cron string"), after: int()) -> (time: i64)
            = cron::next(args, &schedule, after);
        /// When a schedule was due last before a time, both in unix seconds, UTC.
        /// ```lua
        /// return tostring(nk.cron_prev("@daily", 1700000000))
        /// ```
        built cron_prev(schedule: filled_text("expects cron string"), before: int()) -> (time: i64)
            = cron::prev(args, &schedule, before);
        /// Tells the handler that `register_event` registered of something that has happened: names
        /// and values of the properties are strings, the time is in unix seconds. The call goes on
        /// at once; what the queue has no room for is forgotten (`runtime.event_queue_size`).
        /// ```lua
        /// nk.event("level_up", { level = "4" }, nil)
        /// ```
        built event(
            name: filled_text("expects name string"), properties: strings(events::PROPERTIES),
            timestamp: optional(int()), external: flag(false),
        ) = {
            let timestamp_s = events::timestamp(args, timestamp)?;
            let name = name.into_owned();
            host.event(Event { name, properties, timestamp_s, is_external: external });
            Ok(())
        };
        /// A file below `runtime.path`, of at most 16 MiB. What lies outside is an error, also by
        /// way of a link.
        /// ```lua
        /// local ok, words = pcall(nk.file_read, "words.txt")
        /// if ok then nk.logger_info(#words) end
        /// ```
        built file_read(path: filled_text("expects relative path string")) -> (content: Bytes)
            = host.machine().file_read(&path, args.meter);
        /// Settings of this server by Nakama's names: `name`, `shutdown_grace_sec`, `logger`,
        /// `session`, `socket`, `runtime`. Keys are left out: with them a script could log in as
        /// anybody.
        /// ```lua
        /// return nk.get_config().name
        /// ```
        built get_config() -> (config: Table) = Ok(Table(host.machine().config()));
        missing get_satori;
        /// Asks another server over HTTP and returns the status, the headers and the content of its
        /// answer; what keeps it from answering is an error. The call [waits](waiting.md) meanwhile, and others
        /// run. Headers are a table from a name to a text, of the answer too: of one that comes several times
        /// the last. The method is one of `get`, `post`, `put`,
        /// `patch`, `delete`, `head`; the timeout counts everything, redirects included. `insecure`
        /// does not check the server's certificate, if `fetch.insecure` is set. Off unless
        /// `fetch.enabled` is set; which servers may be asked, and how much, is said by `fetch.*`: one on the same
        /// machine by `--fetch.enabled true --fetch.allow 127.0.0.1:9000 --fetch.networks 127.0.0.0/8`, say, where
        /// `fetch.allow` takes the place of what it allows otherwise. A timeout that is not above 0 is the default.
        /// ```lua
        /// local headers = { ["Content-Type"] = "application/json", ["Accept"] = "application/json" }
        /// local content = nk.json_encode({ player = context.username })
        /// local ok, code, _, answer =
        ///   pcall(nk.http_request, "https://api.example.com/welcome", "post", headers, content, 2000)
        /// if ok and code == 200 then return answer end
        /// ```
        asks [network] http_request(
            url: filled_text("expects URL string"), method: http::method(),
            headers: http::headers(), content: optional(string()), timeout_ms: int_or(http::TIMEOUT_MS),
            insecure: flag(false),
        ) -> (code: i64, headers: Table, content: Bytes)
            = Ok(http::request(http::Wanted {
                url, method, headers, content, timeout_ms, is_insecure: insecure,
            })) => http::answered;
        /// Empties the cache.
        /// ```lua
        /// nk.localcache_clear()
        /// ```
        built [shares] localcache_clear() = { system::cache_clear(host); Ok(()) };
        /// Removes an entry of the cache; an unknown key is no error.
        /// ```lua
        /// nk.localcache_delete("today")
        /// ```
        built [shares] localcache_delete(key: filled_text("expects key string"))
            = system::cache_delete(host, &key);
        /// An entry of the cache that all scripts of this server share, or `default`.
        /// ```lua
        /// local visits = nk.localcache_get("visits", 0)
        /// ```
        built localcache_get(
            key: filled_text("expects key string"), default: value().when_nil(Need::OrNil),
        ) -> (value: Value)
            = Ok(system::cache_get(host, &key, default));
        /// Puts a value into the cache that all scripts of this server share; it is gone after a
        /// restart. With 0 seconds it stays until there is no room.
        /// ```lua
        /// nk.localcache_put("today", { event = "double coins" }, 3600)
        /// ```
        built [shares] localcache_put(
            key: filled_text("expects key string"), value: value(),
            ttl_sec: within_or::<u64>(0, 0, i64::MAX, "ttl must be 0 or more"),
        )
            = system::cache_put(host, &key, value, ttl_sec);
        /// Logs a line at level debug (`logger.level`).
        /// ```lua
        /// nk.logger_debug("payload: " .. payload)
        /// ```
        built logger_debug(message: filled("expects message string")) -> (message: Text)
            = Ok(system::log(host, LogLevel::Debug, args.value(0), &message));
        /// Logs a line at level error.
        /// ```lua
        /// nk.logger_error("the shop is empty")
        /// ```
        built logger_error(message: filled("expects message string")) -> (message: Text)
            = Ok(system::log(host, LogLevel::Error, args.value(0), &message));
        /// Logs a line at level info. `print` does the same.
        /// ```lua
        /// nk.logger_info(string.format("%s plays", context.username))
        /// ```
        built logger_info(message: filled("expects message string")) -> (message: Text)
            = Ok(system::log(host, LogLevel::Info, args.value(0), &message));
        /// Logs a line at level warn.
        /// ```lua
        /// nk.logger_warn("the shop is nearly empty")
        /// ```
        built logger_warn(message: filled("expects message string")) -> (message: Text)
            = Ok(system::log(host, LogLevel::Warn, args.value(0), &message));
        /// Adds to a counter that `/metrics` shows as `nakama_custom_<name>`. Tags are labels: take
        /// them from a small set, never ids of users; `metrics.custom_scope_limit` bounds them.
        /// ```lua
        /// nk.metrics_counter_add("kills", { weapon = "bow" }, 1)
        /// ```
        built metrics_counter_add(
            name: filled_text("expects a name"), tags: strings(machine::TAGS), delta: float(),
        )
            = machine::record(host, MetricKind::Counter, &name, &tags, delta.trunc());
        /// Sets a number that rises and falls, shown as `nakama_custom_<name>`.
        /// ```lua
        /// nk.metrics_gauge_set("shop_stock", { item = "sword" }, 12)
        /// ```
        built metrics_gauge_set(
            name: filled_text("expects a name"), tags: strings(machine::TAGS), value: float(),
        )
            = machine::record(host, MetricKind::Gauge, &name, &tags, value);
        /// Records how long something took, in nanoseconds; shown in seconds as
        /// `nakama_custom_<name>_sum` and `_count`.
        /// ```lua
        /// nk.metrics_timer_record("round", nil, 95 * 1000000000)
        /// ```
        built metrics_timer_record(
            name: filled_text("expects a name"), tags: strings(machine::TAGS), time_ns: float(),
        )
            = machine::record(host, MetricKind::Timer, &name, &tags, time_ns / machine::NS_PER_S);
        /// Runs an SQL statement of SQLite with `?1`, `?2`, … as parameters; returns how many rows
        /// it changed. It is a transaction of its own, and is undone if it goes beyond its budget
        /// (`runtime.sql_*`). The server's own tables can be read, without passwords, and not
        /// changed, unless `runtime.sql_write_own_tables` is set; there are no temporary tables.
        /// ```lua
        /// nk.sql_exec("CREATE TABLE IF NOT EXISTS visits (name TEXT PRIMARY KEY, count INTEGER)", {})
        /// local count = nk.sql_exec("INSERT INTO visits VALUES (?1, 1)"
        ///   .. " ON CONFLICT DO UPDATE SET count = count + 1", { context.username })
        /// ```
        built [slow] sql_exec(
            statement: filled_text("expects query string"), params: sql::params(),
        ) -> (count: u64)
            = sql::execute(host, &statement, params);
        /// Runs an SQL query of SQLite; returns a table of columns for each row, within
        /// `runtime.sql_rows_max` and `runtime.sql_answer_max_bytes`. Columns of ids (declared
        /// `BYTEA` or `UUID`) come out as the ids' text; comparisons by `=`, `<>` and `IN` with the
        /// text of an id find them, those by `<>` without an index. Of an expression an id comes out
        /// as 16 bytes (`nk.uuid_bytes_to_string`), and a join of ids with texts finds nothing.
        /// ```lua
        /// local rows = nk.sql_query("SELECT username FROM users ORDER BY username LIMIT 10", {})
        /// for _, row in ipairs(rows) do nk.logger_info(row.username) end
        /// ```
        built [slow] sql_query(
            query: filled_text("expects query string"), params: sql::params(),
        ) -> (rows: Vec<Value>)
            = sql::query(host, &query, params);
        /// Unix time in milliseconds: now, or of a date with `year`, `month`, `day`, and maybe
        /// `hour`, `min`, `sec`, `msec`, in UTC.
        /// ```lua
        /// local age_ms = nk.time() - nk.time({ year = 2024, month = 1, day = 1 })
        /// ```
        built time(date: shown_as(ValueType::Table).or_nil()) -> (time_ms: i64)
            = system::time(host, args, date);
    }
}
