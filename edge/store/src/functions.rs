//! SQL functions that scripts get in place of SQLite's. A function is one step of SQLite's virtual
//! machine and cannot be stopped, and SQLite's `instr`, `replace` and `trim` compare every place of
//! one text with every place of another: with two texts of a megabyte that is minutes. These take
//! time in proportion to their arguments. What cannot be had in that way is refused by name
//! ([`REFUSED`]).

use std::borrow::Cow;
use std::collections::BTreeSet;

use memchr::memmem;
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};

/// Functions that scripts may not call: the time of the first three grows with the square of their
/// arguments, and the last opens files.
pub(crate) const REFUSED: &[&str] = &["json_patch", "jsonb_patch", "unhex", "load_extension"];

/// Bytes of a pattern of LIKE and GLOB: each place of the text is compared with all of it.
pub(crate) const PATTERN_BYTES_MAX: i32 = 128;

/// Takes the place of SQLite's functions on a connection of scripts.
pub(crate) fn replace_slow(conn: &Connection) -> Result<(), rusqlite::Error> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    conn.create_scalar_function("instr", 2, flags, instr)?;
    conn.create_scalar_function("replace", 3, flags, replace)?;
    let trims = [("trim", true, true), ("ltrim", true, false), ("rtrim", false, true)];
    for (name, left, right) in trims {
        conn.create_scalar_function(name, 2, flags, move |context| trim(context, left, right))?;
    }
    Ok(())
}

/// The arguments, unless one of them is NULL: then the result is.
fn texts<'a, const N: usize>(context: &'a Context<'_>) -> Option<[Cow<'a, [u8]>; N]> {
    let mut texts: [Cow<'_, [u8]>; N] = std::array::from_fn(|_| Cow::Borrowed(&[][..]));
    for (index, text) in texts.iter_mut().enumerate() {
        *text = match context.get_raw(index) {
            ValueRef::Null => return None,
            ValueRef::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
            ValueRef::Real(number) => Cow::Owned(format!("{number:?}").into_bytes()),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cow::Borrowed(bytes),
        };
    }
    Some(texts)
}

fn text(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "what SQLite calls may fail")]
fn instr(context: &Context<'_>) -> rusqlite::Result<Option<i64>> {
    let Some([hay, needle]) = texts(context) else { return Ok(None) };
    let Some(at) = memmem::find(&hay, &needle) else { return Ok(Some(0)) };
    let before = hay.get(..at).unwrap_or_default();
    let are_blobs = (0..2).all(|index| matches!(context.get_raw(index), ValueRef::Blob(_)));
    // Of text characters are counted: all bytes but those that go on with one.
    let count = if are_blobs { at } else { before.iter().filter(|b| **b & 0xc0 != 0x80).count() };
    Ok(Some(i64::try_from(count).unwrap_or(i64::MAX).saturating_add(1)))
}

fn replace(context: &Context<'_>) -> rusqlite::Result<Value> {
    let Some([hay, needle, with]) = texts(context) else { return Ok(Value::Null) };
    if needle.is_empty() {
        return Ok(text(&hay));
    }
    let finder = memmem::Finder::new(&*needle);
    let found: Vec<usize> = finder.find_iter(&hay).collect();
    let bytes = hay.len() + found.len() * with.len();
    if bytes > LENGTH_MAX {
        return Err(rusqlite::Error::UserFunctionError("replace makes too long a text".into()));
    }
    let mut made = Vec::with_capacity(bytes);
    let mut from = 0;
    for at in found {
        made.extend_from_slice(hay.get(from..at).unwrap_or_default());
        made.extend_from_slice(&with);
        from = at + needle.len();
    }
    made.extend_from_slice(hay.get(from..).unwrap_or_default());
    Ok(text(&made))
}

/// Bytes that `replace` may make; SQLite refuses less than this afterwards if a connection's limit
/// is lower.
const LENGTH_MAX: usize = 64 << 20;

#[expect(clippy::unnecessary_wraps, reason = "what SQLite calls may fail")]
fn trim(context: &Context<'_>, left: bool, right: bool) -> rusqlite::Result<Value> {
    let Some([hay, set]) = texts(context) else { return Ok(Value::Null) };
    let (hay, set) = (String::from_utf8_lossy(&hay), String::from_utf8_lossy(&set));
    let set: BTreeSet<char> = set.chars().collect();
    let mut kept = &*hay;
    if left {
        kept = kept.trim_start_matches(|letter| set.contains(&letter));
    }
    if right {
        kept = kept.trim_end_matches(|letter| set.contains(&letter));
    }
    Ok(Value::Text(kept.to_owned()))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::replace_slow;

    /// What an expression is, as SQLite quotes it.
    fn value(conn: &Connection, expression: &str) -> String {
        let sql = format!("SELECT quote({expression})");
        conn.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn they_answer_as_sqlites_do() {
        let (plain, ours) =
            (Connection::open_in_memory().unwrap(), Connection::open_in_memory().unwrap());
        replace_slow(&ours).unwrap();
        for expression in [
            "instr('hallo', 'l')",
            "instr('äöü', 'ü')",
            "instr('abc', '')",
            "instr('abc', 'x')",
            "instr(x'00ff01', x'01')",
            "instr(12345, 34)",
            "instr(NULL, 'a')",
            "instr('', 'a')",
            "replace('banana', 'an', 'X')",
            "replace('banana', '', 'X')",
            "replace('aaa', 'aa', 'b')",
            "replace('abc', 'b', NULL)",
            "replace(1234, 3, 'x')",
            "trim('xxabcxx', 'x')",
            "ltrim('äxä', 'ä')",
            "rtrim('abcba', 'ab')",
            "trim('abc', '')",
            "trim('  a ')",
            "trim(NULL, 'a')",
        ] {
            assert_eq!(value(&ours, expression), value(&plain, expression), "{expression}");
        }
    }

    #[test]
    fn long_texts_take_no_longer_than_their_length() {
        let conn = Connection::open_in_memory().unwrap();
        replace_slow(&conn).unwrap();
        // With SQLite's own each of these takes minutes.
        for expression in [
            "instr(hex(zeroblob(500000)), hex(zeroblob(250000)) || 'x')",
            "length(replace(hex(zeroblob(500000)), hex(zeroblob(250000)) || 'x', 'y'))",
            "length(trim(hex(zeroblob(500000)), hex(randomblob(500000)) || '0'))",
        ] {
            assert!(!value(&conn, expression).is_empty());
        }
    }
}
