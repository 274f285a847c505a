//! The server's functions by name. Made by `cargo xtask docs` from the server's tables. Change them, not this file.

use super::{Number, Text, server_functions};
use crate::Value;

server_functions! {
    /// When a schedule is due next after a time, both in unix seconds, UTC.
    cron_next(schedule: impl Text, after: impl Number) -> (i64);
    /// When a schedule was due last before a time, both in unix seconds, UTC.
    cron_prev(schedule: impl Text, before: impl Number) -> (i64);
    /// Tells the handler that `register_event` registered of something that has happened: names and values of the properties are strings, the time is in unix seconds. The call goes on at once; what the queue has no room for is forgotten (`runtime.event_queue_size`).
    event(name: impl Text, properties: Option<Value>, timestamp: Option<i64>, external: Option<bool>) -> ();
    /// A file below `runtime.path`, of at most 16 MiB. What lies outside is an error, also by way of a link.
    file_read(path: impl Text) -> (Vec<u8>);
    /// Settings of this server by Nakama's names: `name`, `shutdown_grace_sec`, `logger`, `session`, `socket`, `runtime`. Keys are left out: with them a script could log in as anybody.
    get_config() -> (Value);
    /// Asks another server over HTTP and returns the status, the headers and the content of its answer; what keeps it from answering is an error. The call waits meanwhile, and others run. Headers are a table from a name to a text, of the answer too: of one that comes several times the last. The method is one of `get`, `post`, `put`, `patch`, `delete`, `head`; the timeout counts everything, redirects included. `insecure` does not check the server's certificate, if `fetch.insecure` is set. Off unless `fetch.enabled` is set; which servers may be asked, and how much, is said by `fetch.*`: one on the same machine by `--fetch.enabled true --fetch.allow 127.0.0.1:9000 --fetch.networks 127.0.0.0/8`, say, where `fetch.allow` takes the place of what it allows otherwise. A timeout that is not above 0 is the default.
    http_request(url: impl Text, method: impl Text, headers: Option<Value>, content: Option<&str>, timeout_ms: Option<i64>, insecure: Option<bool>) -> (i64, Value, Vec<u8>);
    /// Empties the cache.
    localcache_clear() -> ();
    /// Removes an entry of the cache; an unknown key is no error.
    localcache_delete(key: impl Text) -> ();
    /// An entry of the cache that all scripts of this server share, or `default`.
    localcache_get(key: impl Text, default: Option<Value>) -> (Value);
    /// Puts a value into the cache that all scripts of this server share; it is gone after a restart. With 0 seconds it stays until there is no room.
    localcache_put(key: impl Text, value: Value, ttl_sec: Option<i64>) -> ();
    /// Logs a line at level debug (`logger.level`).
    logger_debug(message: impl Text) -> (Vec<u8>);
    /// Logs a line at level error.
    logger_error(message: impl Text) -> (Vec<u8>);
    /// Logs a line at level info. `print` does the same.
    logger_info(message: impl Text) -> (Vec<u8>);
    /// Logs a line at level warn.
    logger_warn(message: impl Text) -> (Vec<u8>);
    /// Adds to a counter that `/metrics` shows as `nakama_custom_<name>`. Tags are labels: take them from a small set, never ids of users; `metrics.custom_scope_limit` bounds them.
    metrics_counter_add(name: impl Text, tags: Option<Value>, delta: impl Number) -> ();
    /// Sets a number that rises and falls, shown as `nakama_custom_<name>`.
    metrics_gauge_set(name: impl Text, tags: Option<Value>, value: impl Number) -> ();
    /// Records how long something took, in nanoseconds; shown in seconds as `nakama_custom_<name>_sum` and `_count`.
    metrics_timer_record(name: impl Text, tags: Option<Value>, time_ns: impl Number) -> ();
    /// Runs an SQL statement of SQLite with `?1`, `?2`, … as parameters; returns how many rows it changed. It is a transaction of its own, and is undone if it goes beyond its budget (`runtime.sql_*`). The server's own tables can be read, without passwords, and not changed, unless `runtime.sql_write_own_tables` is set; there are no temporary tables.
    sql_exec(statement: impl Text, params: Option<Vec<Value>>) -> (i64);
    /// Runs an SQL query of SQLite; returns a table of columns for each row, within `runtime.sql_rows_max` and `runtime.sql_answer_max_bytes`. Columns of ids (declared `BYTEA` or `UUID`) come out as the ids' text; comparisons by `=`, `<>` and `IN` with the text of an id find them, those by `<>` without an index. Of an expression an id comes out as 16 bytes (`nk.uuid_bytes_to_string`), and a join of ids with texts finds nothing.
    sql_query(query: impl Text, params: Option<Vec<Value>>) -> (Vec<Value>);
    /// Unix time in milliseconds: now, or of a date with `year`, `month`, `day`, and maybe `hour`, `min`, `sec`, `msec`, in UTC.
    time(date: Option<Value>) -> (i64);
    /// Bytes of hexadecimal text.
    base16_decode(text: impl Text) -> (Vec<u8>);
    /// Bytes as lower-case hexadecimal text.
    base16_encode(bytes: impl Text) -> (String);
    /// Bytes of base64 text, with or without padding.
    base64_decode(text: impl Text) -> (Vec<u8>);
    /// Bytes as base64 text.
    base64_encode(bytes: impl Text, padding: Option<bool>) -> (String);
    /// Bytes of base64 text in the alphabet for URLs, with or without padding.
    base64url_decode(text: impl Text) -> (Vec<u8>);
    /// Bytes as base64 text in the alphabet for URLs.
    base64url_encode(bytes: impl Text, padding: Option<bool>) -> (String);
    /// The value of JSON text. Text that is not JSON is an error: catch it with `pcall` where a client sent it.
    json_decode(text: impl Text) -> (Value);
    /// A value as JSON text. Tables with the keys 1, 2, 3, … become arrays, others objects; an empty table is `{}`.
    json_encode(value: Value) -> (Vec<u8>);
    /// An id of 16 bytes as text.
    uuid_bytes_to_string(bytes: impl Text) -> (String);
    /// An id as 16 bytes.
    uuid_string_to_bytes(id: impl Text) -> (Vec<u8>);
    /// A new random id.
    uuid_v4() -> (String);
    /// Reads what the function for encrypting wrote. It cannot tell whether the text was changed on its way.
    aes128_decrypt(sealed: impl Text, key: impl Text) -> (Vec<u8>);
    /// AES-128 in CFB mode with a random start; the key has 16 bytes. The text is padded with spaces to a multiple of 4.
    aes128_encrypt(text: impl Text, key: impl Text) -> (Vec<u8>);
    /// Reads what the function for encrypting wrote. It cannot tell whether the text was changed on its way.
    aes256_decrypt(sealed: impl Text, key: impl Text) -> (Vec<u8>);
    /// AES-256 in CFB mode with a random start; the key has 32 bytes. The text is padded with spaces to a multiple of 4.
    aes256_encrypt(text: impl Text, key: impl Text) -> (Vec<u8>);
    /// Whether a hash of `bcrypt_hash` is of this text. Slow on purpose: a call pays for it with its budget; a match's callback waits for it, in turns with all other hashes.
    bcrypt_compare(hash: impl Text, plain: impl Text) -> (bool);
    /// A bcrypt hash of cost 13. Slow on purpose: a call pays for it with its budget; a match's callback waits for it, in turns with all other hashes.
    bcrypt_hash(plain: impl Text) -> (String);
    /// HMAC-SHA256, as 32 raw bytes.
    hmac_sha256_hash(input: impl Text, key: impl Text) -> (Vec<u8>);
    /// A signed JSON Web Token. The algorithm is `HS256`, or `RS256` with a private key as PEM.
    jwt_generate(algorithm: impl Text, key: impl Text, claims: Value) -> (String);
    /// MD5, as hexadecimal text. Not for secrets.
    md5_hash(input: impl Text) -> (String);
    /// The RSA signature of `input` (PKCS #1 v1.5, SHA-256), as raw bytes. The key is a private key as PEM, of at most 4,096 bits.
    rsa_sha256_hash(input: impl Text, key: impl Text) -> (Vec<u8>);
    /// Random bytes that nobody can guess.
    secure_random_bytes(count: impl Number) -> (Vec<u8>);
    /// SHA-256, as hexadecimal text.
    sha256_hash(input: impl Text) -> (String);
    /// Deletes an account with everything that belongs to it, and ends its sessions.
    account_delete_id(user_id: impl Text, recorded: Option<bool>) -> ();
    /// The account of a user: `user_id`, `username`, `display_name`, `metadata`, … and `wallet`, `email`, `devices`, `custom_id`. An unknown id is an error.
    account_get_id(user_id: impl Text) -> (Value);
    /// Changes what is not nil. `metadata` replaces the former one.
    account_update_id(user_id: impl Text, metadata: Option<Value>, username: Option<&str>, display_name: Option<&str>, timezone: Option<&str>, location: Option<&str>, lang_tag: Option<&str>, avatar_url: Option<&str>) -> ();
    /// The accounts of these ids; unknown ones are left out.
    accounts_get_id(user_ids: Option<Vec<Value>>, device_ids: Option<Vec<Value>>) -> (Vec<Value>);
    /// The user with this custom id, made if there is none and `create` says so.
    authenticate_custom(id: impl Text, username: Option<&str>, create: Option<bool>) -> (String, String, bool);
    /// The user of this device, made if there is none and `create` says so.
    authenticate_device(id: impl Text, username: Option<&str>, create: Option<bool>) -> (String, String, bool);
    /// The user with this e-mail address and password, made if there is none and `create` says so. Without an address the username is looked up.
    authenticate_email(email: Option<&str>, password: impl Text, username: Option<&str>, create: Option<bool>) -> (String, String, bool);
    /// A session token for a user, without any check. `expires` is in unix seconds; 0 is the configured life. The values of `vars` are strings.
    authenticate_token_generate(user_id: impl Text, username: Option<&str>, expires: Option<i64>, vars: Option<Value>) -> (String, i64);
    /// Lets a user log in with this custom id.
    link_custom(user_id: impl Text, id: impl Text) -> ();
    /// Lets a user log in from this device.
    link_device(user_id: impl Text, id: impl Text) -> ();
    /// Lets a user log in with this e-mail address and password.
    link_email(user_id: impl Text, email: impl Text, password: impl Text) -> ();
    /// Removes the custom id. The last way to log in cannot be removed.
    unlink_custom(user_id: impl Text, id: Option<&str>) -> ();
    /// Removes a device. The last way to log in cannot be removed.
    unlink_device(user_id: impl Text, id: impl Text) -> ();
    /// Removes e-mail address and password. The last way to log in cannot be removed.
    unlink_email(user_id: impl Text, email: Option<&str>) -> ();
    /// Bans users: their sessions end and they cannot log in.
    users_ban_id(user_ids: Vec<Value>) -> ();
    /// What a user has to do with others: rows as of `friends_list`, in no particular order. Those with whom the user has nothing to do are left out.
    users_get_friend_status(user_id: impl Text, ids: Vec<Value>) -> (Vec<Value>);
    /// The users with these ids; unknown ones are left out.
    users_get_id(user_ids: Option<Vec<Value>>, facebook_ids: Option<Vec<Value>>) -> (Vec<Value>);
    /// Up to so many users, 0 to 1,000, picked at random.
    users_get_random(count: Option<i64>) -> (Vec<Value>);
    /// The users with these names; unknown ones are left out.
    users_get_username(usernames: Vec<Value>) -> (Vec<Value>);
    /// Lifts bans.
    users_unban_id(user_ids: Vec<Value>) -> ();
    /// Changes accounts, storage objects and wallets in one transaction, all or none. An account is `{ user_id, metadata?, username?, display_name?, timezone?, location?, lang_tag?, avatar_url? }`; the others are as in `storage_write`, `storage_delete` and `wallets_update`. Returns what was written and how wallets changed, or nil for none.
    multi_update(accounts: Option<Vec<Value>>, storage_writes: Option<Vec<Value>>, storage_deletes: Option<Vec<Value>>, wallets: Option<Vec<Value>>, update_ledger: Option<bool>) -> (Option<Vec<Value>>, Option<Vec<Value>>);
    /// Kept changes of a user's wallet, newest first: `id`, `user_id`, `changeset`, `metadata`, `create_time`, `update_time`. The cursor asks for the next page; it is empty on the last one.
    wallet_ledger_list(user_id: impl Text, limit: Option<i64>, cursor: Option<&str>) -> (Vec<Value>, String);
    /// Lays `metadata` over the metadata of a kept change, member by member. An unknown id is an error.
    wallet_ledger_update(item_id: impl Text, metadata: Value) -> (Value);
    /// Adds whole numbers to a user's wallet, all or none. A result below 0 is an error. With `update_ledger` the change is kept in the ledger, with `metadata`.
    wallet_update(user_id: impl Text, changes: Value, metadata: Option<Value>, update_ledger: Option<bool>) -> (Value, Value);
    /// Changes wallets of several users in one transaction, all or none: each update is `{ user_id, changeset, metadata? }`, each answer `{ user_id, updated, previous }`. Unknown users are passed over.
    wallets_update(updates: Vec<Value>, update_ledger: Option<bool>) -> (Vec<Value>);
    /// Deletes objects, all or none. Each id is `{ collection, key, user_id?, version? }`. An object that is not there is an error.
    storage_delete(ids: Vec<Value>) -> ();
    /// Objects of a collection: of one user, or of everybody if `user_id` is nil; `limit` of them, 1 to 100 (more counts as 100). The cursor asks for the next page; nil on the last one. With `caller_id` permissions count.
    storage_list(user_id: Option<&str>, collection: Option<&str>, limit: Option<i64>, cursor: Option<&str>, caller_id: Option<&str>) -> (Vec<Value>, Option<String>);
    /// Reads objects by `{ collection, key, user_id? }`; without a user they are the system's. What is not there is left out. `value` is a table, times are unix seconds.
    storage_read(ids: Vec<Value>) -> (Vec<Value>);
    /// Writes objects, all or none: `{ collection, key, value, user_id?, version?, permission_read? = 1, permission_write? = 1 }`. `value` is a table. With `version` the write fails if the object changed meanwhile; `"*"` demands that there is none yet.
    storage_write(objects: Vec<Value>) -> (Vec<Value>);
    /// Starts a match of this module and calls its `match_init` with `params`.
    match_create(module: impl Text, params: Option<Value>) -> (String);
    /// A running match as `match_list` shows it, or nil.
    match_get(match_id: impl Text) -> (Value);
    /// Running matches: `match_id`, `authoritative`, `label`, `size`, `tick_rate`, `handler_name`. nil leaves a condition out. See matches for the query language.
    match_list(limit: Option<i64>, authoritative: Option<bool>, label: Option<&str>, min_size: Option<i64>, max_size: Option<i64>, query: Option<&str>) -> (Vec<Value>);
    /// Calls `match_signal` of a running match and waits for its text.
    match_signal(match_id: impl Text, data: Option<&str>) -> (Vec<u8>);
    /// Closes a socket. Its token stays valid.
    session_disconnect(session_id: impl Text, reason: Option<i64>) -> ();
    /// Takes tokens out of use: these, or all of the user.
    session_logout(user_id: impl Text, token: Option<&str>, refresh_token: Option<&str>) -> ();
    /// Lets a session hear of the status of users from now on, as if its client had asked: by the status presence events that come next. A session or a user that is not there is ignored.
    status_follow(session_id: impl Text, user_ids: Vec<Value>) -> ();
    /// Ends what `status_follow` or the client began.
    status_unfollow(session_id: impl Text, user_ids: Vec<Value>) -> ();
    /// Takes everybody out of a stream; nobody is told. Those of the server cannot be closed.
    stream_close(stream: Value) -> ();
    /// How many sessions are in a stream, hidden ones too.
    stream_count(stream: Value) -> (i64);
    /// Sends text to the members of a stream, or to those of these presences who are members. Clients get it as `stream_data`. Of what is not reliable nobody gets anything who is behind with reading.
    stream_send(stream: Value, data: impl Text, presences: Option<Vec<Value>>, reliable: Option<bool>) -> ();
    /// As `stream_send`, with any message that a server may send a client, as in the JSON form of the protocol.
    stream_send_raw(stream: Value, envelope: Value, presences: Option<Vec<Value>>, reliable: Option<bool>) -> ();
    /// What there is to know of a session in a stream: `{ hidden, persistence, username, status }`, or nil.
    stream_user_get(user_id: impl Text, session_id: impl Text, stream: Value) -> (Value);
    /// Takes a session of a user into a stream, until it leaves or its socket closes; true if it was not in it. Members are told by a `stream_presence_event`, of hidden ones nobody. For a function that is called over a socket, `context.session_id` is that socket's.
    stream_user_join(user_id: impl Text, session_id: impl Text, stream: Value, hidden: Option<bool>, persistence: Option<bool>, status: Option<&str>) -> (bool);
    /// As `stream_user_leave`, of a presence `{ user_id, session_id }`.
    stream_user_kick(presence: Value, stream: Value) -> ();
    /// Takes a session out of a stream; the others are told, unless it was hidden. Nothing happens if it is not in it.
    stream_user_leave(user_id: impl Text, session_id: impl Text, stream: Value) -> ();
    /// Who is in a stream, in the order of joining: `{ user_id, session_id, node, hidden, persistence, username, status }`. Of the server's own, mode 0 with a user as its subject lists all sockets of the user, mode 1 those that appear online.
    stream_user_list(stream: Value, include_hidden: Option<bool>, include_not_hidden: Option<bool>) -> (Vec<Value>);
    /// As `stream_user_join`, and changes what there is to know of a session that is in the stream: members are told of the former presence as one that leaves, and of the new one as one that joins.
    stream_user_update(user_id: impl Text, session_id: impl Text, stream: Value, hidden: Option<bool>, persistence: Option<bool>, status: Option<&str>) -> ();
    /// Shows a user a notification on all its sockets. A persistent one is kept until it is deleted, so that the user finds it when it lists them. The code is the game's: above 0, or from -2000 to -1000.
    notification_send(user_id: impl Text, subject: impl Text, content: Value, code: impl Number, sender_id: Option<&str>, persistent: Option<bool>) -> ();
    /// Shows a notification on every socket. A persistent one is kept for all users that there are, once for all of them: whoever deletes it no longer sees it.
    notification_send_all(subject: impl Text, content: Value, code: impl Number, persistent: Option<bool>) -> ();
    /// Deletes notifications of users: each is `{ user_id, notification_id }`. Unknown ones are passed over.
    notifications_delete(notifications: Vec<Value>) -> ();
    /// Deletes notifications, those of one user or whosever they are. What is for everybody goes for everybody without a user, and for this user alone with one.
    notifications_delete_id(ids: Vec<Value>, user_id: Option<&str>) -> ();
    /// Kept notifications by their ids, those of one user or whosever they are: `{ id, user_id, subject, content, code, create_time, persistent, sender_id }`. The content is a table; of what is for everybody the user is id zero.
    notifications_get_id(ids: Vec<Value>, user_id: Option<&str>) -> (Vec<Value>);
    /// What is kept for a user, the oldest first, 1 to 1,000 at a time: `{ id, subject, content, code, senderId, persistent, createTime }`. The content is JSON text, and the names are spelled like this, as in Nakama. The cursor asks for the next page; nil on the last one.
    notifications_list(user_id: impl Text, limit: Option<i64>, cursor: Option<&str>) -> (Vec<Value>, Option<String>);
    /// Sends several at once, all or none: each is `{ user_id, subject, content, code, sender_id?, persistent? }`, as in `notification_send`.
    notifications_send(notifications: Vec<Value>) -> ();
    /// Changes kept notifications: each is `{ id, subject?, content?, sender? }`. Sockets are not told. Unknown ones are passed over.
    notifications_update(updates: Vec<Value>) -> ();
    /// Replaces what a user keeps of another one: of a friend, an invitation or a block. Only that user sees it.
    friend_metadata_update(user_id: impl Text, friend_id: impl Text, metadata: Value) -> ();
    /// Invites users on behalf of one, or accepts their invitations. Unknown users, and those with a block between them, are passed over.
    friends_add(user_id: impl Text, username: impl Text, ids: Option<Vec<Value>>, usernames: Option<Vec<Value>>, metadata: Option<Value>) -> ();
    /// Blocks users on behalf of one: what was between them ends, and they cannot invite.
    friends_block(user_id: impl Text, username: impl Text, ids: Option<Vec<Value>>, usernames: Option<Vec<Value>>) -> ();
    /// Ends friendships, takes back and declines invitations, and lifts the user's blocks.
    friends_delete(user_id: impl Text, username: impl Text, ids: Option<Vec<Value>>, usernames: Option<Vec<Value>>) -> ();
    /// A user's friends, invitations and blocks, 1 to 1,000 at a time: `{ user, state, update_time, metadata }`, by state and then the oldest first. A state is 0 for a friend, 1 for who is invited, 2 for who has invited the user, 3 for who is blocked. The cursor asks for the next page; nil on the last one.
    friends_list(user_id: impl Text, limit: Option<i64>, state: Option<i64>, cursor: Option<&str>) -> (Vec<Value>, Option<String>);
    /// Friends of a user's friends who are not friends themselves, 1 to 100 at a time: `{ referrer, user }` with the friend's id. A page may have fewer than were asked for; there are more while there is a cursor.
    friends_of_friends_list(user_id: impl Text, limit: Option<i64>, cursor: Option<&str>) -> (Vec<Value>, Option<String>);
}
