//! How the host table's names are spelled in JavaScript, and where Nakama's JavaScript differs from its
//! Lua: in the order of arguments, and in what results look like. What is not listed here follows from
//! the table: `storage_list` is `storageList`, several results are an object with their names, and the
//! names of members change their spelling, but not those inside of [`USER_DATA`].
//!
//! Source: nakama-common, `index.d.ts`; nakama 3.40, `server/runtime_javascript_nakama.go`.

use std::collections::HashMap;
use std::sync::OnceLock;

use game::host::{FunctionKind, HostFunction, functions};

/// Arguments and members that are the game's own: what is in them is handed on as it is.
const USER_DATA: &[&str] = &[
    "changes",
    "changeset",
    "claims",
    "content",
    "default",
    "headers",
    "metadata",
    "params",
    "previous",
    "properties",
    "rows",
    "tags",
    "updated",
    "value",
    "vars",
    "wallet",
];

/// Functions of Nakama's Lua that its JavaScript has in the language itself, or not at all.
const LUA_ONLY: &[&str] = &[
    "get_config",
    "json_decode",
    "json_encode",
    "logger_debug",
    "logger_error",
    "logger_info",
    "logger_warn",
    "time",
    "uuid_bytes_to_string",
    "uuid_string_to_bytes",
];

/// Whether Lua alone has a function of this name.
pub(crate) fn is_of_lua(name: &str) -> bool {
    LUA_ONLY.contains(&name)
}

/// Whether an argument or member of this name is the game's own.
pub(crate) fn is_user_data(name: &str) -> bool {
    USER_DATA.binary_search(&name).is_ok()
}

/// The same of a result; `changes` is what became of wallets there.
pub(crate) fn is_users_result(name: &str) -> bool {
    name != "changes" && is_user_data(name)
}

/// What a function's results become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Nothing, the one result, or an object with the names of several.
    Plain,
    /// Bytes, as an `ArrayBuffer`.
    Bytes,
    /// An object with these names, also for a single result.
    Named(&'static [&'static str]),
    /// An account, or a list of them, without the fields of its user.
    Account,
}

/// A function as JavaScript sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) function: &'static HostFunction,
    pub(crate) name: &'static str,
    /// For each argument in JavaScript which one it is in the table, from 0; empty if they are the same.
    pub(crate) order: &'static [usize],
    pub(crate) shape: Shape,
}

impl Binding {
    /// Whether it works.
    pub(crate) fn is_built(&self) -> bool {
        matches!(self.function.kind, FunctionKind::Built(_))
    }
}

/// Names that are not spelled as the table's.
fn spelled(name: &str) -> Option<&'static str> {
    Some(match name {
        "base64url_decode" => "base64UrlDecode",
        "base64url_encode" => "base64UrlEncode",
        "link_gamecenter" => "linkGameCenter",
        "unlink_gamecenter" => "unlinkGameCenter",
        "uuid_v4" => "uuidv4",
        _ => return None,
    })
}

fn shape(name: &str) -> Shape {
    match name {
        "base16_decode"
        | "base64_decode"
        | "base64url_decode"
        | "hmac_sha256_hash"
        | "rsa_sha256_hash"
        | "secure_random_bytes" => Shape::Bytes,
        "account_get_id" | "accounts_get_id" => Shape::Account,
        "authenticate_token_generate" => Shape::Named(&["token", "exp"]),
        "friends_of_friends_list" => Shape::Named(&["friendsOfFriends", "cursor"]),
        "http_request" => Shape::Named(&["code", "headers", "body"]),
        "multi_update" => Shape::Named(&["storageWriteAcks", "walletUpdateAcks"]),
        "sql_exec" => Shape::Named(&["rowsAffected"]),
        _ => Shape::Plain,
    }
}

fn order(name: &str) -> &'static [usize] {
    match name {
        // (userId, username, displayName, timezone, location, langTag, avatarUrl, metadata)
        "account_update_id" => &[0, 2, 3, 4, 5, 6, 7, 1],
        _ => &[],
    }
}

/// The function of this name in JavaScript; `None` if Nakama has none.
pub(crate) fn find(name: &str) -> Option<&'static Binding> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Binding>> = OnceLock::new();
    let by_name = || bindings().iter().map(|binding| (binding.name, binding)).collect();
    BY_NAME.get_or_init(by_name).get(name).copied()
}

/// The function of this name in the table; `None` if JavaScript has none of the kind.
pub(crate) fn of_table(name: &str) -> Option<&'static Binding> {
    bindings().iter().find(|binding| binding.function.name == name)
}

/// All of them, in the order of the table.
pub(crate) fn bindings() -> &'static [Binding] {
    static ALL: OnceLock<Vec<Binding>> = OnceLock::new();
    ALL.get_or_init(|| all().collect())
}

fn all() -> impl Iterator<Item = Binding> {
    let wanted = |function: &&HostFunction| {
        !matches!(function.kind, FunctionKind::Language(_)) && !is_of_lua(function.name)
    };
    functions().filter(wanted).map(|function| {
        let camel = || &*String::leak(camel_case(function.name));
        let name = spelled(function.name).unwrap_or_else(camel);
        Binding { function, name, order: order(function.name), shape: shape(function.name) }
    })
}

/// `user_id` as `userId`.
pub(crate) fn camel_case(snake: &str) -> String {
    let mut camel = String::with_capacity(snake.len());
    let mut is_upper = false;
    for letter in snake.chars() {
        if letter == '_' {
            is_upper = true;
        } else if std::mem::take(&mut is_upper) {
            camel.push(letter.to_ascii_uppercase());
        } else {
            camel.push(letter);
        }
    }
    camel
}

/// `userId` as `user_id`.
pub(crate) fn snake_case(camel: &str) -> String {
    let mut snake = String::with_capacity(camel.len() + 4);
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for (snake, camel) in
            [("user_id", "userId"), ("sha256_hash", "sha256Hash"), ("avatar_url", "avatarUrl")]
        {
            assert_eq!(camel_case(snake), camel);
            assert_eq!(snake_case(camel), snake);
        }
        assert!(USER_DATA.is_sorted());
        assert!(find("storageList").is_some() && find("uuidv4").is_some());
        assert!(find("json_encode").is_none() && find("registerRpc").is_none());
    }
}
