//! Ids of matches and parties: text in, [`MatchId`] or [`PartyId`] out, and back.
//!
//! Source: nakama 3.40, `<uuid>.` for relayed matches (trailing dot), `<uuid>.<node>` for
//! authoritative ones and for parties. Ids of other nodes parse, but name nothing that can be
//! found here, so they are an error of their own. Which thread owns an id is not decided here.

use std::fmt;

use event::Random;
use thiserror::Error;
use uuid::Uuid;

/// A match of this node. Orders by uuid; the same uuid may name a relayed and an authoritative
/// match, which are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatchId {
    /// The id without its node part.
    pub uuid: Uuid,
    /// Whether a script runs the match; else the server only relays.
    pub authoritative: bool,
}

/// A party of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartyId(pub Uuid);

/// Why a text names no match or party of this node.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MatchIdError {
    /// No uuid, or no dot behind it. Clients are told code 3, `Invalid match ID`.
    #[error("match id invalid")]
    Malformed,
    /// A well-formed id of another node. Clients are told code 4, `Match not found`.
    #[error("match not found")]
    OtherNode,
}

impl MatchId {
    /// A fresh relayed match without a name.
    pub fn relayed(random: &mut Random) -> Self {
        Self { uuid: fresh(random), authoritative: false }
    }

    /// The relayed match of that name: the same on every node and at any time (uuid version 5
    /// in the DNS namespace).
    pub fn named(name: &str) -> Self {
        let uuid = Uuid::new_v5(&Uuid::NAMESPACE_DNS, name.as_bytes());
        Self { uuid, authoritative: false }
    }

    /// A fresh authoritative match.
    pub fn authoritative(random: &mut Random) -> Self {
        Self { uuid: fresh(random), authoritative: true }
    }

    /// Reads `<uuid>.` or `<uuid>.<node>`, where `node` is this node's name.
    ///
    /// # Errors
    /// [`MatchIdError`]: the text is no id, or is another node's.
    pub fn parse(text: &str, node: &str) -> Result<Self, MatchIdError> {
        let (uuid, node_part) = split(text)?;
        if node_part.is_empty() {
            return Ok(Self { uuid, authoritative: false });
        }
        if node_part != node {
            return Err(MatchIdError::OtherNode);
        }
        Ok(Self { uuid, authoritative: true })
    }

    /// The id as clients see it.
    pub fn text(self, node: &str) -> String {
        self.display(node).to_string()
    }

    /// The id as clients see it, to be written without an allocation.
    pub fn display(self, node: &str) -> impl fmt::Display {
        IdText { uuid: self.uuid, node: if self.authoritative { node } else { "" } }
    }
}

impl PartyId {
    /// A fresh party.
    pub fn fresh(random: &mut Random) -> Self {
        Self(fresh(random))
    }

    /// Reads `<uuid>.<node>`, where `node` is this node's name.
    ///
    /// # Errors
    /// [`MatchIdError`]: the text is no id (clients are told `Invalid party ID`), or is another
    /// node's, as one without a node part is.
    pub fn parse(text: &str, node: &str) -> Result<Self, MatchIdError> {
        let (uuid, node_part) = split(text)?;
        if node_part == node { Ok(Self(uuid)) } else { Err(MatchIdError::OtherNode) }
    }

    /// The id as clients see it.
    pub fn text(self, node: &str) -> String {
        IdText { uuid: self.0, node }.to_string()
    }
}

struct IdText<'a> {
    uuid: Uuid,
    node: &'a str,
}

impl fmt::Display for IdText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.uuid.as_hyphenated(), self.node)
    }
}

fn fresh(random: &mut Random) -> Uuid {
    uuid::Builder::from_random_bytes(random.bytes()).into_uuid()
}

/// The node part may itself hold dots: only the first one divides.
fn split(text: &str) -> Result<(Uuid, &str), MatchIdError> {
    let (uuid, node) = text.split_once('.').ok_or(MatchIdError::Malformed)?;
    let uuid = Uuid::try_parse(uuid).map_err(|_| MatchIdError::Malformed)?;
    Ok((uuid, node))
}

#[cfg(test)]
mod tests {
    use super::{MatchId, MatchIdError, PartyId};
    use event::Random;

    const ID: &str = "4ec4f126-3f9d-11e7-84ef-b7c182b36521";

    #[test]
    fn texts_and_what_they_name() {
        let cases = [
            (format!("{ID}."), Ok(false)),
            (format!("{ID}.n1"), Ok(true)),
            (format!("{ID}.n2"), Err(MatchIdError::OtherNode)),
            (format!("{ID}.n1.x"), Err(MatchIdError::OtherNode)),
            (ID.to_owned(), Err(MatchIdError::Malformed)),
            (String::new(), Err(MatchIdError::Malformed)),
            (".".to_owned(), Err(MatchIdError::Malformed)),
            (".n1".to_owned(), Err(MatchIdError::Malformed)),
            (format!("{}.n1", &ID[1..]), Err(MatchIdError::Malformed)),
            ("zz.n1".to_owned(), Err(MatchIdError::Malformed)),
        ];
        for (text, expected) in cases {
            let parsed = MatchId::parse(&text, "n1");
            assert_eq!(parsed.map(|id| id.authoritative), expected, "{text}");
            if let Ok(id) = parsed {
                assert_eq!(id.text("n1"), text);
            }
        }
    }

    #[test]
    fn parties_need_the_node() {
        assert_eq!(PartyId::parse(&format!("{ID}."), "n1"), Err(MatchIdError::OtherNode));
        assert_eq!(PartyId::parse("x", "n1"), Err(MatchIdError::Malformed));
        let text = format!("{ID}.n1");
        assert_eq!(PartyId::parse(&text, "n1").unwrap().text("n1"), text);
    }

    #[test]
    fn fresh_ids_differ_and_named_ones_do_not() {
        let mut random = Random::from_number(1);
        let (a, b) = (MatchId::relayed(&mut random), MatchId::relayed(&mut random));
        assert_ne!(a, b);
        assert_eq!(a.uuid.get_version_num(), 4);
        assert!(MatchId::authoritative(&mut random).authoritative);
        assert_ne!(PartyId::fresh(&mut random), PartyId::fresh(&mut random));
        // The well-known example of RFC 9562, appendix A.4.
        assert_eq!(
            MatchId::named("www.example.com").text("n1"),
            "2ed6657d-e927-568b-95e1-2665a8aea6a2."
        );
    }
}
