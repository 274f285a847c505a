//! The table is whole, and its rows have the form that the reference page and `throng check` rely
//! on.

use std::collections::BTreeSet;

use super::AREAS;
use crate::host::{Args, FunctionKind, HostLane, Need, Unmetered, ValueType, find, functions};
use crate::value::Value;

/// The names in Nakama's Lua module. Source: nakama 3.40, `server/runtime_lua_nakama.go`, `Loader`.
const NAKAMAS: &str = include_str!("../../../testdata/nakama_lua_functions.txt");

/// What Nakama has for Go only, and the rules of the zone.
const OURS: &[&str] = &[
    "register_event",
    "register_event_session_end",
    "register_event_session_start",
    "register_zone_hit",
    "register_zone_score",
    "register_zone_spawn",
];

#[test]
fn the_table_has_every_function_of_nakama() {
    let wanted: BTreeSet<&str> = NAKAMAS.lines().chain(OURS.iter().copied()).collect();
    let known: BTreeSet<&str> = functions().map(|function| function.name).collect();
    let missing: Vec<_> = wanted.difference(&known).collect();
    let unknown: Vec<_> = known.difference(&wanted).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
}

#[test]
fn every_area_is_sorted_and_every_name_is_found_once() {
    let mut names = Vec::new();
    for area in AREAS {
        for pair in area.functions.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
        for function in area.functions {
            assert_eq!(find(function.name).unwrap().name, function.name);
            names.push(function.name);
        }
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a name stands in two areas");
    assert!(find("no_such_function").is_none());
}

#[test]
fn signatures_follow_from_the_rows() {
    for (name, wanted) in [
        ("localcache_clear", "()"),
        ("uuid_v4", "() -> id: string"),
        ("base64_encode", "(bytes: string, padding?: boolean = true) -> text: string"),
        ("localcache_get", "(key: string, default?: any = nil) -> value: any"),
        ("sql_query", "(query: string, params?: list = {}) -> rows: list"),
        (
            "authenticate_email",
            "(email?: string, password: string, username?: string, create?: boolean = true) -> \
             user_id: string, username: string, created: boolean",
        ),
        (
            "storage_list",
            "(user_id?: string, collection?: string, limit?: number = 100, cursor?: string, \
             caller_id?: string) -> objects: list, cursor?: string",
        ),
        ("register_rpc", "(fn: function, id: string)"),
    ] {
        assert_eq!(find(name).unwrap().doc().unwrap().signature(), wanted, "{name}");
    }
}

#[test]
fn comments_are_a_meaning_and_an_example() {
    let doc = find("storage_read").unwrap().doc().unwrap();
    assert_eq!(
        doc.meaning(),
        "Reads objects by `{ collection, key, user_id? }`; without a user they are the system's. What \
         is not there is left out. `value` is a table, times are unix seconds."
    );
    assert_eq!(
        doc.example(),
        "local found = nk.storage_read({\n  \
         { collection = \"scores\", key = \"best\", user_id = context.user_id },\n\
         })\n\
         local best = found[1] and found[1].value.points or 0"
    );
}

#[test]
fn every_function_that_works_is_described() {
    for function in functions() {
        let name = function.name;
        let Some(doc) = function.doc() else {
            assert_eq!(function.kind, FunctionKind::Missing, "{name}");
            assert!(function.arguments().is_empty(), "{name}");
            continue;
        };
        let meaning = doc.meaning();
        assert!(meaning.ends_with('.'), "{name}: {meaning}");
        assert!(meaning.starts_with(char::is_uppercase), "{name}: {meaning}");
        assert!(doc.example().contains(&format!("nk.{name}")), "{name}: {}", doc.example());
        let names: BTreeSet<&str> = doc.arguments.iter().map(|argument| argument.name).collect();
        assert_eq!(names.len(), doc.arguments.len(), "{name}: an argument's name stands twice");
    }
}

/// The reference says of every argument whether it may be nil, and that is how it is read.
#[test]
fn what_a_row_says_of_nil_is_so() {
    for function in functions() {
        let arguments = function.arguments();
        let values = vec![Value::Nil; arguments.len()];
        let args = Args { function: function.name, values: &values, meter: &Unmetered };
        for (argument, is_taken) in arguments.iter().zip((function.takes_nil)(&args)) {
            let may_be_nil =
                argument.need != Need::Required || argument.value_type == ValueType::Any;
            assert_eq!(is_taken, may_be_nil, "{}: {argument}", function.name);
        }
    }
    // As Nakama 3.40, `server/runtime_lua_nakama.go`, reads them.
    let need = |name| find(name).unwrap().arguments()[0].need;
    assert_eq!(["users_get_id", "accounts_get_id"].map(need), [Need::OrEmpty; 2]);
    let refusing = ["storage_read", "storage_write", "notifications_send", "users_ban_id"];
    assert_eq!(refusing.map(need), [Need::Required; 4]);
}

/// Where a function runs follows from its mark; what it may use follows from the mark too, by its
/// type.
#[test]
fn lanes_are_what_functions_wait_for() {
    let of = |lane| -> Vec<&str> {
        let there = functions().filter(|it| matches!(it.kind, FunctionKind::Built(_)));
        there.filter(|it| it.lane == lane).map(|it| it.name).collect()
    };
    assert_eq!(
        of(HostLane::Hash),
        ["bcrypt_compare", "bcrypt_hash", "authenticate_email", "link_email"]
    );
    assert_eq!(of(HostLane::Slow), ["sql_exec", "sql_query"]);
    let shared = ["localcache_clear", "localcache_delete", "localcache_put"];
    assert_eq!(of(HostLane::Shared), shared);
    assert_eq!(of(HostLane::Network), ["http_request"]);
    assert_eq!(
        of(HostLane::Room),
        [
            "match_create",
            "match_signal",
            "stream_count",
            "stream_user_get",
            "stream_user_join",
            "stream_user_list",
            "stream_user_update"
        ]
    );
    for name in of(HostLane::Read) {
        assert!(
            name.contains("_get_") || name.contains("_list") || name.contains("_read"),
            "{name}"
        );
    }
    for name in of(HostLane::Here) {
        let of_rows = ["account", "users_", "friend", "wallet", "storage_", "notification", "sql_"];
        assert!(!of_rows.iter().any(|of_row| name.starts_with(of_row)), "{name} has no mark");
    }
}

#[test]
fn what_refuses_mixed_tables_is_marked() {
    let params = &find("match_create").unwrap().arguments()[1];
    assert!(params.mixed.is_some() && params.need == Need::Optional);
}
