//! Where in an answer a captured value stands: keys of JSON objects, joined by dots; ` > ` goes
//! on in JSON that stands as text in a string, as payloads of RPC answers do.

use serde_json::Value;

/// `token`, `match.match_id`, `payload > match_id`.
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

    /// The value in `json`: a string without its quotes, anything else as JSON.
    pub(crate) fn find(&self, json: &[u8]) -> Option<Box<str>> {
        let mut value: Value = serde_json::from_slice(json).ok()?;
        for (index, level) in self.levels.iter().enumerate() {
            if index > 0 {
                value = serde_json::from_str(value.as_str()?).ok()?;
            }
            for key in level {
                value = value.get_mut(&**key)?.take();
            }
        }
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.into()),
            other => Some(other.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn values_are_found() {
        for (path, json, wanted) in [
            ("token", r#"{"token":"a.b"}"#, Some("a.b")),
            ("match.match_id", r#"{"cid":"1","match":{"match_id":"m"}}"#, Some("m")),
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
