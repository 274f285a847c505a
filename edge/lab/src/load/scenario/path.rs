//! Where in an answer a captured value stands: keys of JSON objects and places in arrays, counted from
//! 0, joined by dots; ` > ` goes on in JSON that stands as text in a string, as payloads of RPC answers do.

use serde_json::Value;

/// Bytes of a captured value, at most: every player keeps its own.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 10;

/// `token`, `match.match_id`, `matches.0.match_id`, `payload > match_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Keys, level by level of text.
    levels: Vec<Vec<Box<str>>>,
    /// As written, for messages.
    pub(crate) text: Box<str>,
}

impl Path {
    /// Reads a path; every text is one.
    pub(crate) fn parse(text: &str) -> Self {
        let level = |part: &str| {
            part.trim().split('.').filter(|key| !key.is_empty()).map(Into::into).collect()
        };
        Self { levels: text.split('>').map(level).collect(), text: text.into() }
    }

    /// The value in `json`: a string without its quotes, anything else as JSON. None also for one of
    /// more than [`VALUE_BYTES_MAX`].
    pub(crate) fn find(&self, json: &[u8]) -> Option<Box<str>> {
        let mut value: Value = serde_json::from_slice(json).ok()?;
        for (index, level) in self.levels.iter().enumerate() {
            if index > 0 {
                value = serde_json::from_str(value.as_str()?).ok()?;
            }
            for key in level {
                let place = key.parse::<usize>().ok().filter(|_| value.is_array());
                value = match place {
                    Some(place) => value.get_mut(place)?.take(),
                    None => value.get_mut(&**key)?.take(),
                };
            }
        }
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text,
            other => other.to_string(),
        };
        (text.len() <= VALUE_BYTES_MAX).then(|| text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn a_server_cannot_make_every_player_keep_a_book() {
        for (bytes, is_found) in [(16 << 10, true), ((16 << 10) + 1, false)] {
            let json = format!("{{\"token\":\"{}\"}}", "x".repeat(bytes));
            assert_eq!(Path::parse("token").find(json.as_bytes()).is_some(), is_found);
        }
    }

    #[test]
    fn values_are_found() {
        for (path, json, wanted) in [
            ("token", r#"{"token":"a.b"}"#, Some("a.b")),
            ("match.match_id", r#"{"cid":"1","match":{"match_id":"m"}}"#, Some("m")),
            ("matches.1.id", r#"{"matches":[{"id":"a"},{"id":"b"}]}"#, Some("b")),
            ("matches.2.id", r#"{"matches":[{"id":"a"}]}"#, None),
            ("a.1", r#"{"a":{"1":"b"}}"#, Some("b")),
            ("payload > match_id", r#"{"payload":"{\"match_id\":\"m.n\"}"}"#, Some("m.n")),
            ("payload >", r#"{"payload":"\"m.n\""}"#, Some("m.n")),
            ("count", r#"{"count":3}"#, Some("3")),
            ("", r#""x""#, Some("x")),
            ("token", r#"{"token":null}"#, None),
            ("token", r#"{"tok":"a"}"#, None),
            ("token", "half {", None),
            ("payload > a", r#"{"payload":3}"#, None),
        ] {
            assert_eq!(
                Path::parse(path).find(json.as_bytes()).as_deref(),
                wanted,
                "{path} in {json}"
            );
        }
    }
}
