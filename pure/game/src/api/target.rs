//! A request's target taken apart: the path's segments and the query's parameters, by the rules of
//! fact sheet A.3.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::error::ApiError;

/// Most query parameters of a request; a request head of 5 KiB cannot hold many more.
const PARAMS_MAX: usize = 2_048;

/// Path segments, percent-decoded.
pub(super) type Segments<'a> = SmallVec<[Cow<'a, str>; 6]>;

/// Most segments of a path: no route has more than five.
const SEGMENTS_MAX: usize = 6;

/// Path and query of a request target; a fragment is not looked for.
pub(super) fn split(target: &str) -> (&str, &str) {
    target.split_once('?').unwrap_or((target, ""))
}

/// The segments of a path, without the leading slash. `None` when there are too many for any route.
pub(super) fn segments(path: &str) -> Result<Option<Segments<'_>>, ApiError> {
    let Some(path) = path.strip_prefix('/') else { return Ok(None) };
    if path.bytes().filter(|byte| *byte == b'/').count() >= SEGMENTS_MAX {
        return Ok(None);
    }
    path.split('/').map(|segment| decode(segment, false)).collect::<Result<_, _>>().map(Some)
}

/// The parameters of a query string in order.
#[derive(Debug)]
pub(super) struct Params<'a>(SmallVec<[(Cow<'a, str>, Cow<'a, str>); 4]>);

impl<'a> Params<'a> {
    /// Parses what follows the question mark; empty parts, as of a trailing `&`, are passed over.
    pub(super) fn parse(query: &'a str) -> Result<Self, ApiError> {
        let mut params = SmallVec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            if params.len() == PARAMS_MAX {
                return Err(ApiError::invalid("too many query parameters"));
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            params.push((decode(name, true)?, decode(value, true)?));
        }
        Ok(Self(params))
    }

    /// All values of `name`, which is given in snake case and found in camel case too.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(given, _)| is_name(given, name)).map(|(_, value)| &**value)
    }

    /// The only value of `name`.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() {
            return Err(ApiError::invalid(format!("too many values for field \"{name}\"")));
        }
        Ok(first)
    }

    /// The only value of `name` as a boolean.
    pub(super) fn bool(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.text(name)? {
            None => Ok(None),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Some(true)),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Some(false)),
            Some(other) => Err(unparsable(name, other)),
        }
    }

    /// The only value of `name` as a 32-bit whole number.
    pub(super) fn int(&self, name: &str) -> Result<Option<i32>, ApiError> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        value.parse().map(Some).map_err(|_| unparsable(name, value))
    }

    /// Every parameter with all its values, in the order of first appearance.
    pub(super) fn grouped(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in &self.0 {
            match groups.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(value.to_string()),
                None => groups.push((name.to_string(), vec![value.to_string()])),
            }
        }
        groups
    }
}

fn unparsable(name: &str, value: &str) -> ApiError {
    ApiError::invalid(format!("parsing field \"{name}\": invalid value {value:?}"))
}

/// Whether `given` is `snake` or its camelCase.
fn is_name(given: &str, snake: &str) -> bool {
    if given == snake {
        return true;
    }
    let mut given = given.bytes();
    let mut raise = false;
    for byte in snake.bytes() {
        if byte == b'_' {
            raise = true;
            continue;
        }
        let expected = if raise { byte.to_ascii_uppercase() } else { byte };
        raise = false;
        if given.next() != Some(expected) {
            return false;
        }
    }
    given.next().is_none()
}

/// Percent-decodes, and in queries turns `+` into a space.
pub(super) fn decode(text: &str, is_query: bool) -> Result<Cow<'_, str>, ApiError> {
    if !text.bytes().any(|byte| byte == b'%' || (is_query && byte == b'+')) {
        return Ok(Cow::Borrowed(text));
    }
    let bad = || ApiError::invalid("Bad Request");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let high = rest.next().and_then(hex).ok_or_else(bad)?;
                let low = rest.next().and_then(hex).ok_or_else(bad)?;
                bytes.push(high << 4 | low);
            }
            b'+' if is_query => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| bad())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::{Params, decode, segments, split};

    #[test]
    fn queries_by_the_rules_of_the_gateway() {
        let query = "ids=a&ids=b%2Cc&maxSize=3&create=True&name=x+y%26&empty=&&flag&";
        let params = Params::parse(query).unwrap();
        assert_eq!(params.all("ids").collect::<Vec<_>>(), ["a", "b,c"]);
        assert_eq!(params.int("max_size").unwrap(), Some(3));
        assert_eq!(params.int("min_size").unwrap(), None);
        assert_eq!(params.bool("create").unwrap(), Some(true));
        assert_eq!(params.text("name").unwrap(), Some("x y&"));
        assert_eq!(params.text("empty").unwrap(), Some(""));
        assert_eq!(params.text("flag").unwrap(), Some(""));
        assert_eq!(params.text("max").unwrap(), None);
        assert!(params.text("ids").is_err());
        assert!(params.bool("name").is_err() && params.bool("empty").is_err());
        assert!(params.int("name").is_err() && params.int("empty").is_err());
        assert_eq!(params.grouped()[0], ("ids".into(), vec!["a".into(), "b,c".into()]));
    }

    #[test]
    fn percent_signs_must_be_right() {
        for (raw, expected) in
            [("a%20b", Some("a b")), ("%", None), ("%4", None), ("%zz", None), ("%ff", None)]
        {
            assert_eq!(decode(raw, true).ok().as_deref(), expected, "{raw}");
        }
        assert_eq!(decode("a+b", false).unwrap(), "a+b");
        assert_eq!(split("/v2/account?"), ("/v2/account", ""));
        assert_eq!(segments("/a/b%2Fc").unwrap().unwrap().to_vec(), ["a", "b/c"]);
        assert!(segments("*").unwrap().is_none());
        assert!(segments("/1/2/3/4/5/6/7").unwrap().is_none());
    }
}
