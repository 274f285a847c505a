//! Query strings and path parameters: names and values, decoded.
//!
//! Nothing is allocated for values without escapes. Tolerates what Nakama's clients send: a
//! trailing `&`, empty pairs. A `?` within the query is part of a value (RFC 3986 section 3.4). In: the query as it stands in the request target, without
//! its leading `?`. Out: decoded pairs, or typed values by name.
//!
//! Source: WHATWG URL standard, application/x-www-form-urlencoded; Nakama 3.40's REST gateway for
//! the forms of typed values.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use crate::excerpt::excerpt;
use crate::nakama::json::same_name;

/// Pairs in one query, at most; more are refused.
pub const QUERY_PAIRS_MAX: usize = 1_024;

/// What is wrong with a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryStringError {
    /// A `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("malformed escape in the query or path")]
    Escape,
    /// More than [`QUERY_PAIRS_MAX`] pairs.
    #[error("more than {QUERY_PAIRS_MAX} query parameters")]
    TooMany,
    /// A single value given more than once.
    #[error("too many values for field {name:?}: {count}")]
    Repeated {
        /// The field.
        name: &'static str,
        /// How often it was given.
        count: usize,
    },
    /// A value that is not of the field's type.
    #[error("parsing field {name:?}: {value:?} is not {wanted}")]
    Value {
        /// The field.
        name: &'static str,
        /// What was given, at most 64 characters of it.
        value: String,
        /// What was expected, say `a bool`.
        wanted: &'static str,
    },
}

/// A checked query. Names are given to the accessors in snake_case, and found also in
/// lowerCamelCase. Unknown names are ignored.
#[derive(Clone, Copy, Debug)]
pub struct QueryString<'a> {
    raw: &'a str,
}

impl<'a> QueryString<'a> {
    /// Checks `raw`, the part of a request target behind its first `?`.
    ///
    /// # Errors
    /// [`QueryStringError::Escape`], [`QueryStringError::TooMany`].
    pub fn parse(raw: &'a str) -> Result<Self, QueryStringError> {
        let query = Self { raw };
        if query.raw_pairs().count() > QUERY_PAIRS_MAX {
            return Err(QueryStringError::TooMany);
        }
        for (name, value) in query.raw_pairs() {
            decode(name, true)?;
            decode(value, true)?;
        }
        Ok(query)
    }

    /// All pairs in order, decoded. A name without `=` has the value "".
    pub fn iter(self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        self.raw_pairs().filter_map(|(name, value)| {
            // Both were decoded once already, by `parse`.
            Some((decode(name, true).ok()?, decode(value, true).ok()?))
        })
    }

    /// All values of `name`.
    pub fn list(self, name: &'static str) -> impl Iterator<Item = Cow<'a, str>> {
        self.iter().filter(move |(found, _)| same_name(name, found)).map(|(_, value)| value)
    }

    /// Whether `name` is there, with any value or none.
    #[must_use]
    pub fn has(self, name: &'static str) -> bool {
        self.list(name).next().is_some()
    }

    /// The only value of `name`; "" is a value.
    ///
    /// # Errors
    /// [`QueryStringError::Repeated`].
    pub fn text(self, name: &'static str) -> Result<Option<Cow<'a, str>>, QueryStringError> {
        let mut values = self.list(name);
        let value = values.next();
        match values.count() {
            0 => Ok(value),
            more => Err(QueryStringError::Repeated { name, count: more + 1 }),
        }
    }

    /// The bool `name`, in one of Go's twelve spellings.
    ///
    /// # Errors
    /// [`QueryStringError::Repeated`], [`QueryStringError::Value`].
    pub fn bool(self, name: &'static str) -> Result<Option<bool>, QueryStringError> {
        self.typed(name, "a bool", parse_bool)
    }

    /// The integer `name`.
    ///
    /// # Errors
    /// [`QueryStringError::Repeated`], [`QueryStringError::Value`].
    pub fn int32(self, name: &'static str) -> Result<Option<i32>, QueryStringError> {
        self.typed(name, "a 32-bit integer", |text| text.parse().ok())
    }

    /// The integer `name`.
    ///
    /// # Errors
    /// [`QueryStringError::Repeated`], [`QueryStringError::Value`].
    pub fn int64(self, name: &'static str) -> Result<Option<i64>, QueryStringError> {
        self.typed(name, "a 64-bit integer", |text| text.parse().ok())
    }

    fn typed<T>(
        self,
        name: &'static str,
        wanted: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, QueryStringError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let value = parse(&text);
        if value.is_none() {
            return Err(QueryStringError::Value { name, value: excerpt(&text).to_owned(), wanted });
        }
        Ok(value)
    }

    fn raw_pairs(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.raw
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }
}

/// A bool as Go's `strconv.ParseBool` reads it.
#[must_use]
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// One parameter of a path, percent-decoded; `+` stays.
///
/// # Errors
/// [`QueryStringError::Escape`].
pub fn decode_path(raw: &str) -> Result<Cow<'_, str>, QueryStringError> {
    decode(raw, false)
}

fn decode(raw: &str, plus_is_space: bool) -> Result<Cow<'_, str>, QueryStringError> {
    let has_plus = plus_is_space && raw.contains('+');
    if !has_plus && !raw.contains('%') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut rest = raw.as_bytes();
    while let Some(at) = memchr::memchr(b'%', rest) {
        match &rest[at + 1..] {
            [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = after;
            }
            _ => return Err(QueryStringError::Escape),
        }
    }
    let spaced = if has_plus { Cow::Owned(raw.replace('+', " ")) } else { Cow::Borrowed(raw) };
    let decoded =
        percent_decode(spaced.as_bytes()).decode_utf8().map_err(|_| QueryStringError::Escape)?;
    Ok(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(raw: &str) -> String {
        let Ok(query) = QueryString::parse(raw) else { return "error".to_owned() };
        query.iter().map(|(name, value)| [&name, "=", &value, ";"].concat()).collect()
    }

    #[test]
    fn pairs_are_decoded() {
        for (raw, expected) in [
            ("", ""),
            ("?", "?=;"),
            ("&", ""),
            ("create=true&", "create=true;"),
            ("title=who+are+you?", "title=who are you?;"),
            ("a?b=c?&d=?", "a?b=c?;d=?;"),
            ("a=1&&b=2", "a=1;b=2;"),
            ("a&b=&=c", "a=;b=;=c;"),
            ("a=b=c", "a=b=c;"),
            ("a=x%20y+z&%61=%2B%26%3d", "a=x y z;a=+&=;"),
            ("n=%C3%A9%e2%82%ac", "n=é€;"),
            ("n=%", "error"),
            ("n=%4", "error"),
            ("n=%4g", "error"),
            ("%zz=1", "error"),
            ("n=%ff", "error"),
            ("n=%C3", "error"),
        ] {
            assert_eq!(pairs(raw), expected, "{raw}");
        }
        assert_eq!(pairs(&"a&".repeat(QUERY_PAIRS_MAX)).len(), 3 * QUERY_PAIRS_MAX);
        assert_eq!(pairs(&"a&".repeat(QUERY_PAIRS_MAX + 1)), "error");
    }

    #[test]
    fn values_have_types_and_two_spellings_of_names() {
        let query = QueryString::parse(
            "userIds=a&user_ids=b&create=True&limit=10&limit=11&min_size=x&cursor=&maxSize=-3&sync=",
        )
        .unwrap();
        assert_eq!(query.list("user_ids").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(query.bool("create"), Ok(Some(true)));
        assert_eq!(query.bool("absent"), Ok(None));
        assert_eq!(query.text("cursor"), Ok(Some(Cow::Borrowed(""))));
        assert_eq!(query.int32("max_size"), Ok(Some(-3)));
        assert_eq!(query.int64("max_size"), Ok(Some(-3)));
        assert_eq!(
            query.int32("limit"),
            Err(QueryStringError::Repeated { name: "limit", count: 2 })
        );
        assert!(query.has("cursor") && !query.has("curso"));
        for error in [query.int32("min_size").unwrap_err(), query.bool("sync").unwrap_err()] {
            assert!(matches!(error, QueryStringError::Value { .. }), "{error}");
        }
        let error = QueryString::parse("limit=9999999999").unwrap().int32("limit").unwrap_err();
        assert_eq!(
            error.to_string(),
            "parsing field \"limit\": \"9999999999\" is not a 32-bit integer"
        );
    }

    #[test]
    fn bools_are_go_s() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(text), Some(true));
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(text), Some(false));
        }
        for text in ["", "yes", "tRUE", " true", "2"] {
            assert_eq!(parse_bool(text), None);
        }
    }

    #[test]
    fn paths_keep_the_plus() {
        assert_eq!(decode_path("2...room%20a+b").unwrap(), "2...room a+b");
        assert_eq!(decode_path("%2"), Err(QueryStringError::Escape));
    }
}
