//! Ids in scripts' SQL. The tables hold ids as 16 bytes, scripts that were written for PostgreSQL
//! know them as text: where a statement compares something with the text of an id, the comparison
//! is made to find the bytes as well, so that both `users.id` and a script's own column of texts
//! are found.
//!
//! Rewritten are `=`, `==`, `<>`, `!=` with a parameter or a literal on their right, and lists of
//! `IN`; a cast `::uuid` behind a parameter or literal makes it the bytes. Not touched: assignments,
//! values of INSERT, other comparisons. What comes out of a query is `sql_query`'s matter.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use uuid::Uuid;

use crate::db::Param;

/// A statement, rewritten, and the ids that its further parameters hold, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub(super) sql: String,
    pub(super) ids: Vec<Uuid>,
}

/// What binds closer than a comparison: an operand before it is part of a longer expression, which
/// is compared as it stands.
const BINDS_CLOSER: &[&str] =
    &["||", "->", "+", "-", "*", "/", "%", "&", "|", "<", "<=", ">", ">=", "collate", "::"];

/// The id that a text is, if it has the form in which ids are written.
fn id_of(text: &str) -> Option<Uuid> {
    if text.len() == uuid::fmt::Hyphenated::LENGTH { Uuid::try_parse(text).ok() } else { None }
}

/// `None` when there is nothing to rewrite.
pub(super) fn rewrite(sql: &str, params: &[Param<'_>]) -> Option<Rewritten> {
    let is_id = |param: &Param<'_>| matches!(param, Param::Text(text) if id_of(text).is_some());
    // The shortest literal of an id is 38 bytes.
    let may_hold_literal = sql.len() > 38 && sql.contains('\'');
    if !may_hold_literal && !params.iter().any(is_id) {
        return None;
    }
    let mut writer =
        Writer { sql, params, tokens: tokens(sql), ids: Vec::new(), at: BTreeMap::new() };
    let edits = writer.edits()?;
    if writer.ids.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(sql.len() + 64);
    let mut done = 0;
    for edit in edits {
        out.push_str(sql.get(done..edit.start).unwrap_or_default());
        out.push_str(&edit.text);
        done = edit.end;
    }
    out.push_str(sql.get(done..).unwrap_or_default());
    Some(Rewritten { sql: out, ids: writer.ids })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    /// `'…'`.
    Literal,
    /// `$1`, `?1`, `?`.
    Param,
    Symbol,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

/// A piece of the statement and what stands in its place.
struct Edit {
    start: usize,
    end: usize,
    text: String,
}

/// The statement's tokens; comments and blanks are left out.
fn tokens(sql: &str) -> Vec<Token> {
    let bytes = sql.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        let until = |found: Option<usize>, after: usize| found.map_or(rest.len(), |n| n + after);
        let find = |text: &[u8]| rest.windows(text.len()).position(|window| window == text);
        let length_while =
            |keep: fn(&u8) -> bool| 1 + rest.iter().skip(1).take_while(|byte| keep(byte)).count();
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let (kind, length) = match byte {
            _ if byte.is_ascii_whitespace() => (None, 1),
            b'-' if rest.starts_with(b"--") => (None, until(find(b"\n"), 1)),
            b'/' if rest.starts_with(b"/*") => (None, until(find(b"*/"), 2)),
            b'\'' => (Some(Kind::Literal), quoted(rest, b'\'')),
            b'"' => (Some(Kind::Word), quoted(rest, b'"')),
            b'`' => (Some(Kind::Word), quoted(rest, b'`')),
            b'[' => (Some(Kind::Word), until(find(b"]"), 1)),
            b'$' | b'?' => (Some(Kind::Param), length_while(is_word)),
            _ if is_word(&byte) => (Some(Kind::Word), length_while(is_word)),
            _ => {
                let two = [&b"=="[..], b"<>", b"!=", b"<=", b">=", b"||", b"::", b"->"];
                let is_two = two.iter().any(|symbol| rest.starts_with(symbol));
                (Some(Kind::Symbol), if is_two { 2 } else { 1 })
            }
        };
        tokens.extend(kind.map(|kind| Token { kind, start: at, end: at + length }));
        at += length;
    }
    tokens
}

/// The length of a quoted piece; its quote is doubled within.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        at += 1;
        if byte == quote {
            if rest.get(at) != Some(&quote) {
                return at;
            }
            at += 1;
        }
    }
    at
}

struct Writer<'a> {
    sql: &'a str,
    params: &'a [Param<'a>],
    tokens: Vec<Token>,
    ids: Vec<Uuid>,
    /// The number of the parameter that holds an id.
    at: BTreeMap<Uuid, usize>,
}

/// What is known of the brackets around a token.
#[derive(Clone, Copy, Default)]
struct Bracket {
    /// They list the values of an IN.
    is_list: bool,
    /// They are within `SET …` of an UPDATE.
    in_set: bool,
}

impl Writer<'_> {
    fn text(&self, at: Option<usize>) -> &str {
        let token = at.and_then(|at| self.tokens.get(at));
        token.and_then(|token| self.sql.get(token.start..token.end)).unwrap_or_default()
    }

    fn is(&self, at: Option<usize>, word: &str) -> bool {
        self.text(at).eq_ignore_ascii_case(word)
    }

    /// What to change, in order; `None` if a parameter has a name that is no number, which is
    /// refused where it is bound.
    fn edits(&mut self) -> Option<Vec<Edit>> {
        let mut edits = Vec::new();
        let mut brackets = vec![Bracket::default()];
        let mut numbers_max = 0;
        for at in 0..self.tokens.len() {
            let Token { kind, start, end } = self.tokens[at];
            let before = at.checked_sub(1);
            let inner = brackets.last().copied().unwrap_or_default();
            match kind {
                Kind::Word | Kind::Symbol => {
                    let is_list = self.is(before, "in");
                    match &*self.text(Some(at)).to_ascii_lowercase() {
                        "(" => brackets.push(Bracket { is_list, in_set: false }),
                        ")" if brackets.len() > 1 => drop(brackets.pop()),
                        word => {
                            let in_set = match word {
                                "set" => true,
                                "where" | "from" | "returning" | ";" => false,
                                _ => inner.in_set,
                            };
                            if let Some(last) = brackets.last_mut() {
                                last.in_set = in_set;
                            }
                        }
                    }
                }
                Kind::Param => {
                    let number: usize = match self.text(Some(at)).get(1..) {
                        None | Some("") => numbers_max + 1,
                        Some(digits) => digits.parse().ok()?,
                    };
                    numbers_max = numbers_max.max(number);
                    let param = number.checked_sub(1).and_then(|index| self.params.get(index));
                    let id = match param {
                        Some(Param::Text(text)) => id_of(text),
                        _ => None,
                    };
                    // Numbered in one way, because the further parameters are.
                    let own = format!("?{number}");
                    self.operand(at, (own, id), inner, &mut edits);
                }
                Kind::Literal => {
                    let own = self.sql.get(start..end).unwrap_or_default().to_owned();
                    let id = own.get(1..own.len().saturating_sub(1)).and_then(id_of);
                    if id.is_some() {
                        self.operand(at, (own, id), inner, &mut edits);
                    }
                }
            }
        }
        Some(edits)
    }

    /// Writes one operand, and the comparison before it if there is one.
    fn operand(
        &mut self,
        at: usize,
        (own, id): (String, Option<Uuid>),
        inner: Bracket,
        edits: &mut Vec<Edit>,
    ) {
        let Token { start, end, .. } = self.tokens[at];
        let mut edit = Edit { start, end, text: own };
        if let Some(id) = id {
            let before = at.checked_sub(1);
            let is_cast = self.is(Some(at + 1), "::") && self.is(Some(at + 2), "uuid");
            let compared = match self.text(before) {
                "=" | "==" => Some("IN"),
                "<>" | "!=" => Some("NOT IN"),
                _ => None,
            };
            let first = |text: &str| matches!(text, "(" | ",");
            let last = |text: &str| matches!(text, "," | ")");
            let behind = self.text(Some(if is_cast { at + 3 } else { at + 1 }));
            let is_listed = inner.is_list && first(self.text(before)) && last(behind);
            let is_assigned = inner.in_set
                && at
                    .checked_sub(3)
                    .is_some_and(|at| self.text(Some(at)) == "," || self.is(Some(at), "set"));
            if is_cast {
                edit.end = self.tokens.get(at + 2).map_or(end, |token| token.end);
            }
            let is_part = BINDS_CLOSER.iter().any(|word| behind.eq_ignore_ascii_case(word));
            if let Some(operator) = compared.filter(|_| !is_assigned && !is_part) {
                edit.text = format!("({}, {})", edit.text, self.bytes(id));
                if let Some(symbol) = before.and_then(|at| self.tokens.get(at)) {
                    let text = format!(" {operator} ");
                    edits.push(Edit { start: symbol.start, end: symbol.end, text });
                }
            } else if is_listed {
                edit.text = format!("{}, {}", edit.text, self.bytes(id));
            } else if is_cast {
                edit.text = self.bytes(id);
            }
        }
        edits.push(edit);
    }

    /// The bytes of an id, as a further parameter.
    fn bytes(&mut self, id: Uuid) -> String {
        let next = self.params.len() + self.ids.len() + 1;
        let number = *self.at.entry(id).or_insert(next);
        if number == next {
            self.ids.push(id);
        }
        let mut text = String::from("?");
        // Writing to a String cannot fail.
        let _ = write!(text, "{number}");
        text
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Param, rewrite};

    const ID: &str = "00000000-0000-4000-8000-000000000009";

    /// `#` stands for the id.
    #[test]
    fn comparisons_with_ids_find_their_bytes_too() {
        let params = [Param::Text(ID), Param::Int(3), Param::Text(ID)];
        for (sql, wanted) in [
            (
                "SELECT 1 FROM users WHERE id = $1 AND n = $2",
                "SELECT 1 FROM users WHERE id  IN  (?1, ?4) AND n = ?2",
            ),
            ("SELECT 1 WHERE u.id=$1", "SELECT 1 WHERE u.id IN (?1, ?4)"),
            ("SELECT 1 WHERE id != ?3", "SELECT 1 WHERE id  NOT IN  (?3, ?4)"),
            (
                "SELECT 1 WHERE id = ? AND n = ? AND m <> ?",
                "SELECT 1 WHERE id  IN  (?1, ?4) AND n = ?2 AND m  NOT IN  (?3, ?4)",
            ),
            ("SELECT 1 WHERE id IN ($1, $2,$3)", "SELECT 1 WHERE id IN (?1, ?4, ?2,?3, ?4)"),
            ("SELECT 1 WHERE id = $1::UUID", "SELECT 1 WHERE id  IN  (?1, ?4)"),
            ("INSERT INTO t VALUES ($1::uuid, $3)", "INSERT INTO t VALUES (?4, ?3)"),
            (
                "UPDATE t SET owner = $1, n = $2, other = $3 WHERE owner = $1",
                "UPDATE t SET owner = ?1, n = ?2, other = ?3 WHERE owner  IN  (?1, ?4)",
            ),
            (
                "UPDATE t SET n = (SELECT n FROM s WHERE s.id = $1), m = CASE WHEN id = $3 THEN 1 END",
                "UPDATE t SET n = (SELECT n FROM s WHERE s.id  IN  (?1, ?4)), m = CASE WHEN id  IN  (?3, ?4) THEN 1 END",
            ),
            (
                "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET owner = $1 WHERE t.id = $3",
                "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET owner = ?1 WHERE t.id  IN  (?3, ?4)",
            ),
            ("SELECT 1 WHERE id = '#'", "SELECT 1 WHERE id  IN  ('#', ?4)"),
            // Part of a longer expression.
            (
                "SELECT 1 WHERE key = $1 || ':score' AND owner = $3",
                "SELECT 1 WHERE key = ?1 || ':score' AND owner  IN  (?3, ?4)",
            ),
            ("SELECT 1 WHERE key = $1 COLLATE NOCASE", "-"),
            ("SELECT 1 WHERE key = '#' || $2", "-"),
            // Nothing to do: quoted, commented, other comparisons, plain values.
            ("SELECT '= $1', \"= $1\" -- id = $1\n /* id = $1 */ WHERE x = $2", "-"),
            ("SELECT 1 WHERE id >= $1 AND id <= $3", "-"),
            ("INSERT INTO t VALUES ($1, $3)", "-"),
            ("SELECT f($1, $3), [= $1], `= $1`", "-"),
            ("SELECT 1 WHERE 'it''s = $1' = n", "-"),
            ("SELECT 1 WHERE id = $name", "-"),
            ("'", "-"),
            ("SELECT 1 WHERE id = '#", "-"),
            ("", "-"),
        ] {
            let rewritten = rewrite(&sql.replace('#', ID), &params);
            let text = rewritten.as_ref().map_or("-", |rewritten| &*rewritten.sql);
            assert_eq!(text, wanted.replace('#', ID), "{sql}");
            if let Some(rewritten) = rewritten {
                assert_eq!(rewritten.ids, [Uuid::try_parse(ID).unwrap()], "{sql}");
            }
        }
        assert_eq!(rewrite("SELECT 1 WHERE name = $1", &[Param::Text("ann")]), None);
    }

    #[test]
    fn no_text_breaks_the_reader() {
        let text = format!("a = $1 ['\"`--/*:: in ( ?,'{ID}') set b <> ?2 é ;");
        let params = [Param::Text(ID)];
        for start in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            for end in (start..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let _ = rewrite(&text[start..end], &params);
            }
        }
    }
}
