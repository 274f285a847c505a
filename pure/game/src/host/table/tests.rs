//! The form of the rows: what the reference page and `throng check` rely on.

use super::AREAS;
use crate::host::{Kind, find, functions};

/// The types that a signature may name.
const TYPES: &[&str] = &["any", "boolean", "function", "list", "number", "string", "table", "nil"];

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

/// What is wrong with `name: type`, `name?: type` or `name?: type = default`.
fn wrong_part(part: &str) -> Option<String> {
    let Some((name, rest)) = part.split_once(": ") else {
        return Some(format!("`{part}` has no type"));
    };
    let kind = rest.split(" = ").next().unwrap_or(rest);
    let name = name.strip_suffix('?').unwrap_or(name);
    let is_name = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !is_name {
        return Some(format!("`{name}` is no name"));
    }
    (!TYPES.contains(&kind)).then(|| format!("`{kind}` is none of {TYPES:?}"))
}

/// What is wrong with a signature.
fn wrong_signature(signature: &str) -> Option<String> {
    let (arguments, results) = match signature.split_once(" -> ") {
        Some((arguments, results)) => (arguments, results),
        None => (signature, ""),
    };
    let Some(arguments) = arguments.strip_prefix('(').and_then(|it| it.strip_suffix(')')) else {
        return Some("no parentheses".to_owned());
    };
    let parts = arguments.split(", ").chain(results.split(", "));
    parts.filter(|part| !part.is_empty()).find_map(wrong_part)
}

#[test]
fn signatures_are_read_strictly() {
    for (signature, is_right) in [
        ("()", true),
        ("() -> id: string", true),
        ("(a: string, b?: table = {}) -> c: list, d: number", true),
        ("(a string)", false),
        ("(a: text)", false),
        ("a: string", false),
        ("(A: string)", false),
    ] {
        assert_eq!(wrong_signature(signature).is_none(), is_right, "{signature}");
    }
}

#[test]
fn every_function_that_works_is_described() {
    for function in functions() {
        let name = function.name;
        let Some(doc) = function.doc() else {
            assert_eq!(function.kind, Kind::Missing, "{name}");
            continue;
        };
        assert_eq!(wrong_signature(doc.signature), None, "{name}");
        assert!(doc.meaning.ends_with('.'), "{name}: {}", doc.meaning);
        assert!(doc.meaning.starts_with(char::is_uppercase), "{name}: {}", doc.meaning);
        assert!(doc.example.contains(&format!("nk.{name}")), "{name}: {}", doc.example);
    }
}
