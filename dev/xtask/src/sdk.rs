//! The parts of the SDKs in `guests/` that are made from the server's tables: messages, hooks with them, and what
//! functions there are, for Go (`sdk::go`) and Rust (`sdk::rust`).
//!
//! In: what `throng calls --json` and `throng functions --json` print. Out: the text of a file. What is deliberately not
//! here: anything that a table could say.

pub mod go;
pub mod rust;

use anyhow::Context as _;
use serde::Deserialize;

/// The first line of every file that is made, after the sign of a comment.
const MADE: &str =
    "Made by `cargo xtask docs` from the server's tables. Change them, not this file.";

/// What `throng calls --json` prints.
#[derive(Deserialize)]
struct Table {
    calls: Vec<Call>,
    realtime: Vec<Entry>,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    /// Of those that are built.
    doc: Option<String>,
    request: Option<Reference>,
    response: Option<Reference>,
}

/// What an envelope of the socket may hold.
#[derive(Deserialize)]
struct Entry {
    name: String,
    message: Reference,
}

/// A message that is meant.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Reference {
    /// `api` or `rtapi`.
    package: String,
    name: String,
}

#[derive(Deserialize)]
struct Message {
    package: String,
    name: String,
    doc: String,
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    doc: String,
    #[serde(rename = "type")]
    kind: Kind,
    /// The name of the choice of which it is one.
    choice: Option<String>,
}

/// The type of a field.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Bool,
    Int32,
    Int64,
    Double,
    Text,
    Bytes,
    Time,
    Message(Option<Reference>),
    Optional(Box<Kind>),
    List(Box<Kind>),
    Map(Box<Kind>),
}

impl Kind {
    /// The message in it, if there is one.
    fn message(&self) -> Option<&Reference> {
        match self {
            Self::Message(message) => message.as_ref(),
            Self::Optional(inner) | Self::List(inner) | Self::Map(inner) => inner.message(),
            _ => None,
        }
    }
}

/// One of what `throng functions --json` prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Function {
    name: String,
    doc: Option<String>,
    #[serde(default)]
    arguments: Vec<Argument>,
    #[serde(default)]
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    is_required: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    #[serde(rename = "type")]
    kind: String,
    may_be_nil: bool,
    is_text: bool,
}

impl Table {
    fn read(json: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(json).context("the table of calls")
    }

    /// The messages of a package, in the order of their names.
    fn package(&self, package: &str) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.package == package)
    }

    /// The calls that are built.
    fn built(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.doc.is_some())
    }
}

/// A name in snake_case as CamelCase.
fn camel(name: &str) -> String {
    let mut camel = String::new();
    let mut is_first = true;
    for letter in name.chars() {
        match letter {
            '_' => is_first = true,
            letter if is_first => {
                camel.extend(letter.to_uppercase());
                is_first = false;
            }
            letter => camel.push(letter),
        }
    }
    camel
}

/// A name in CamelCase as snake_case.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Documentation without links, which are those of the server's own pages and items.
fn plain(doc: &str) -> String {
    let mut rest = doc;
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once('[') {
        let Some((text, behind)) = after.split_once(']') else { break };
        plain.push_str(before);
        plain.push_str(text);
        let target = behind.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(behind, |(_, behind)| behind);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_their_case() {
        assert_eq!(camel("user_id_one"), "UserIdOne");
        assert_eq!(snake("ListFriendsOfFriends"), "list_friends_of_friends");
    }

    #[test]
    fn links_are_left_out() {
        assert_eq!(
            plain("as [`Rpc`], see [the page](a.md#b), or [1"),
            "as `Rpc`, see the page, or [1"
        );
    }
}
