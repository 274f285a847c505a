//! The tables, as numbered steps from nothing to now. The store runs, in one transaction each, the
//! steps that its `schema_version` does not list yet; a step that has been released is never
//! changed, a new one is added.
//!
//! The SQL is common to SQLite and PostgreSQL but for one suffix, [`CLUSTERED`], which a store that
//! does not know it takes off, and one id, [`NOBODY`]. Texts are compared byte by byte (PostgreSQL:
//! collation `C`). Ids are 16-byte blobs, times unix milliseconds, booleans 0 and 1.
//!
//! The cost of registering a device decides the shape: a row of `users`, which grows at its end
//! because ids begin with the time, and one of `user_device`. The devices of a user are listed in
//! `users.devices` too, so that no third tree is needed to find them; emails and custom ids are
//! indexed only where there is one, and names only where somebody has chosen one: those made for
//! nameless users (`generated` is 1) can be turned back into ids (`account/generated_name.rs`).

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Counts from 1, without gaps.
    pub version: i64,
    /// What it brings, for the log and for `schema_version`.
    pub name: &'static str,
    /// Statements in order.
    pub sql: &'static [&'static str],
}

/// [`NOBODY`], for statements that are put together while compiling.
macro_rules! nobody {
    () => {
        "x'00000000000000000000000000000000'"
    };
}
pub(crate) use nobody;

/// Which objects are in the index `storage_listing`: those of users, and those of nobody's that
/// clients may read. SQLite takes the index for a query that says this, or one half of it, in
/// literals. It is a part of step 8 and so never changes: another condition is another macro, and
/// another step.
macro_rules! is_indexed {
    () => {
        concat!("(read > 1 OR user_id <> ", $crate::schema::nobody!(), ")")
    };
}
pub(crate) use is_indexed;

/// The id of nobody in statements, as SQLite writes it; PostgreSQL says `decode('00…', 'hex')`.
pub const NOBODY: &str = nobody!();

/// SQLite's suffix for tables that are stored in their primary key's tree; no meaning is lost
/// where it is taken off.
pub const CLUSTERED: &str = " WITHOUT ROWID";

/// The table of the steps that have been run. Made by the store before it looks at them.
pub const SCHEMA_VERSION: &str = "CREATE TABLE IF NOT EXISTS schema_version (
    version BIGINT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    applied_ms BIGINT NOT NULL
)";

/// Columns that scripts read as NULL, with their tables: a script that puts a client's text into a
/// statement must not give hashes away, and no rule of a game needs them.
pub const SECRETS: &[(&str, &str)] = &[("users", "password")];

/// All steps, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "accounts and storage", sql: ACCOUNTS_AND_STORAGE },
    Migration { version: 2, name: "wallet ledger", sql: WALLET_LEDGER },
    Migration { version: 3, name: "revoked tokens", sql: REVOKED_TOKENS },
    Migration { version: 4, name: "friends", sql: FRIENDS },
    Migration { version: 5, name: "notifications", sql: NOTIFICATIONS },
    Migration { version: 6, name: "turns", sql: TURNS },
    Migration { version: 7, name: "zone", sql: ZONE },
    Migration { version: 8, name: "private objects of nobody", sql: PRIVATE_OF_NOBODY },
];

const ACCOUNTS_AND_STORAGE: &[&str] = &[
    "CREATE TABLE users (
        id BYTEA PRIMARY KEY NOT NULL,
        username TEXT NOT NULL,
        create_time BIGINT NOT NULL,
        update_time BIGINT NOT NULL,
        generated BIGINT,
        devices TEXT,
        custom_id TEXT,
        email TEXT,
        password TEXT,
        display_name TEXT,
        avatar_url TEXT,
        lang_tag TEXT,
        location TEXT,
        timezone TEXT,
        metadata TEXT,
        wallet TEXT,
        verify_time BIGINT,
        disable_time BIGINT
    ) WITHOUT ROWID",
    "CREATE UNIQUE INDEX users_username ON users (username) WHERE generated IS NULL",
    "CREATE UNIQUE INDEX users_custom_id ON users (custom_id) WHERE custom_id IS NOT NULL",
    "CREATE UNIQUE INDEX users_email ON users (email) WHERE email IS NOT NULL",
    "CREATE TABLE user_device (
        id TEXT PRIMARY KEY NOT NULL,
        user_id BYTEA NOT NULL
    ) WITHOUT ROWID",
    "CREATE TABLE storage (
        user_id BYTEA NOT NULL,
        collection TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        version TEXT NOT NULL,
        read BIGINT NOT NULL,
        write BIGINT NOT NULL,
        create_time BIGINT NOT NULL,
        update_time BIGINT NOT NULL,
        PRIMARY KEY (user_id, collection, key)
    ) WITHOUT ROWID",
    "CREATE INDEX storage_listing ON storage (collection, read, key, user_id)",
];

/// Rows are listed by user, newest first, and found by their id when their metadata changes.
const WALLET_LEDGER: &[&str] = &[
    "CREATE TABLE wallet_ledger (
        id BYTEA NOT NULL,
        user_id BYTEA NOT NULL,
        changeset TEXT NOT NULL,
        metadata TEXT NOT NULL,
        create_time BIGINT NOT NULL,
        update_time BIGINT NOT NULL,
        PRIMARY KEY (user_id, create_time, id),
        FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
    ) WITHOUT ROWID",
    "CREATE UNIQUE INDEX wallet_ledger_id ON wallet_ledger (id)",
];

/// See `session::stored`. Of users whose account is gone too: hence no reference to `users`.
const REVOKED_TOKENS: &[&str] = &[
    "CREATE TABLE revocation (
        user_id BYTEA NOT NULL,
        token_id BYTEA NOT NULL,
        issued_until BIGINT NOT NULL,
        until_s BIGINT NOT NULL,
        PRIMARY KEY (user_id, token_id)
    ) WITHOUT ROWID",
    "CREATE INDEX revocation_until_s ON revocation (until_s)",
    "CREATE TABLE token_life (
        id BIGINT PRIMARY KEY NOT NULL,
        lifetime_s BIGINT NOT NULL,
        former_s BIGINT NOT NULL,
        generated_s BIGINT NOT NULL
    )",
    "INSERT INTO token_life (id, lifetime_s, former_s, generated_s) VALUES (1, 0, 0, 0)",
    "CREATE INDEX users_banned ON users (disable_time) WHERE disable_time IS NOT NULL",
];

/// See `friends`. Lists go by state and position, which is the time when the edge was made, those of
/// friends of friends by state and id; whoever is deleted is found by `friend_of`. `edge_count` counts a user's rows.
const FRIENDS: &[&str] = &[
    "CREATE TABLE friend (
        user_id BYTEA NOT NULL,
        friend_id BYTEA NOT NULL,
        state BIGINT NOT NULL,
        position BIGINT NOT NULL,
        update_time BIGINT NOT NULL,
        metadata TEXT NOT NULL,
        PRIMARY KEY (user_id, friend_id)
    ) WITHOUT ROWID",
    "CREATE INDEX friend_listing ON friend (user_id, state, position, friend_id)",
    "CREATE INDEX friend_state ON friend (user_id, state, friend_id)",
    "CREATE INDEX friend_of ON friend (friend_id)",
    "ALTER TABLE users ADD COLUMN edge_count BIGINT",
];

/// See `notifications`. Ids rise, so that lists go by them; those of user zero are for everybody, and
/// `notification_hidden` says who has deleted which of these. What one user causes another to be told
/// is found by its sender.
const NOTIFICATIONS: &[&str] = &[
    "CREATE TABLE notification (
        user_id BYTEA NOT NULL,
        id BYTEA NOT NULL,
        sender_id BYTEA,
        code BIGINT NOT NULL,
        subject TEXT NOT NULL,
        content TEXT NOT NULL,
        create_time BIGINT NOT NULL,
        PRIMARY KEY (user_id, id)
    ) WITHOUT ROWID",
    "CREATE UNIQUE INDEX notification_id ON notification (id)",
    "CREATE INDEX notification_sender ON notification (sender_id, user_id, code) \
        WHERE sender_id IS NOT NULL",
    "CREATE TABLE notification_hidden (
        user_id BYTEA NOT NULL,
        id BYTEA NOT NULL,
        PRIMARY KEY (user_id, id)
    ) WITHOUT ROWID",
];

/// Rows that are locked by who has to take turns with all others that do the same, where no row of a
/// user's stands for it.
const TURNS: &[&str] = &[
    "CREATE TABLE writer_turn (
        name TEXT PRIMARY KEY NOT NULL
    ) WITHOUT ROWID",
    "INSERT INTO writer_turn (name) VALUES ('notifications')",
];

/// See `zone`.
const ZONE: &[&str] = &["CREATE TABLE zone_part (
        node TEXT NOT NULL,
        number BIGINT NOT NULL,
        bytes BYTEA NOT NULL,
        PRIMARY KEY (node, number)
    )"];

/// Objects of nobody's that scripts alone may read have no row in the index: scripts list them as
/// the table has them (`storage::list`), and one with a random key changes a page less.
const PRIVATE_OF_NOBODY: &[&str] = &[
    "DROP INDEX storage_listing",
    concat!(
        "CREATE INDEX storage_listing ON storage (collection, read, key, user_id) WHERE ",
        is_indexed!()
    ),
];

#[cfg(test)]
mod tests {
    use super::{CLUSTERED, MIGRATIONS};

    #[test]
    fn versions_count_from_one_and_statements_are_single() {
        for (expected, migration) in (1..).zip(MIGRATIONS) {
            assert_eq!(migration.version, expected);
            for sql in migration.sql {
                assert!(!sql.contains(';'), "{sql}");
                assert!(!sql.contains(CLUSTERED) || sql.ends_with(CLUSTERED), "{sql}");
            }
        }
    }
}
