//! Ids of matches and parties: text in, [`MatchId`] or [`PartyId`] out, and back.
//!
//! Source: nakama 3.40, `<uuid>.` for relayed matches (trailing dot), `<uuid>.<node>` for
//! authoritative ones and for parties. Ids of nodes that the cluster does not have, and of those
//! that are away, name nothing that can be found, so they are an error of their own. Which thread
//! owns an id is not decided here.

use std::fmt;

use event::Random;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::node::{NodeId, Nodes};

/// A match. Orders by uuid; the same uuid may name a relayed and an authoritative match, which are
/// different, as are those of a node's different lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MatchId {
    /// The id without its node part.
    pub uuid: Uuid,
    /// Where a script runs the match; `None` of one that the server only relays.
    pub node: Option<NodeId>,
}

/// A party of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartyId(pub Uuid);

/// Why a text names no match, or no party of this node.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MatchIdError {
    /// No uuid, or no dot behind it. Clients are told code 3, `Invalid match ID`.
    #[error("match id invalid")]
    Malformed,
    /// A well-formed id of a node that is away, or that there is not. Clients are told code 4,
    /// `Match not found`.
    #[error("match not found")]
    OtherNode,
}

impl MatchId {
    /// A relayed match.
    pub fn relayed(uuid: Uuid) -> Self {
        Self { uuid, node: None }
    }

    /// The relayed match of that name: the same on every node and at any time (uuid version 5
    /// in the DNS namespace).
    pub fn named(name: &str) -> Self {
        Self::relayed(Uuid::new_v5(&Uuid::NAMESPACE_DNS, name.as_bytes()))
    }

    /// An authoritative match of a node.
    pub fn authoritative(uuid: Uuid, node: NodeId) -> Self {
        Self { uuid, node: Some(node) }
    }

    /// A fresh authoritative match of a node.
    pub fn fresh(random: &mut Random, node: NodeId) -> Self {
        Self::authoritative(fresh(random), node)
    }

    /// Whether the server runs the match, by a script or as the zone; else it only relays.
    pub fn is_authoritative(self) -> bool {
        self.node.is_some()
    }

    /// Reads `<uuid>.` or `<uuid>.<node>`.
    ///
    /// # Errors
    /// [`MatchIdError`]: the text is no id, or is that of a node that is away or that there is not.
    pub fn parse(text: &str, nodes: &Nodes) -> Result<Self, MatchIdError> {
        let (uuid, name) = split(text)?;
        if name.is_empty() {
            return Ok(Self::relayed(uuid));
        }
        let node = nodes.named(name).filter(|node| nodes.is_living(*node));
        node.map(|node| Self::authoritative(uuid, node)).ok_or(MatchIdError::OtherNode)
    }

    /// The id as clients see it.
    pub fn text(self, nodes: &Nodes) -> String {
        self.id_text(nodes).text()
    }

    /// The id as clients see it, to be written without an allocation.
    pub fn display(self, nodes: &Nodes) -> impl fmt::Display {
        self.id_text(nodes)
    }

    fn id_text(self, nodes: &Nodes) -> IdText<'_> {
        IdText { uuid: self.uuid, node: self.node.map_or("", |node| nodes.name_of(node)) }
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
        IdText { uuid: self.0, node }.text()
    }
}

struct IdText<'a> {
    uuid: Uuid,
    node: &'a str,
}

impl IdText<'_> {
    /// Written for each message of a match, so without the machinery of formatting.
    fn text(&self) -> String {
        let mut text = String::with_capacity(Hyphenated::LENGTH + 1 + self.node.len());
        text.push_str(self.uuid.as_hyphenated().encode_lower(&mut [0; Hyphenated::LENGTH]));
        text.push('.');
        text.push_str(self.node);
        text
    }
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
    use crate::node::{Incarnation, Nodes};
    use event::Random;

    const ID: &str = "4ec4f126-3f9d-11e7-84ef-b7c182b36521";

    #[test]
    fn texts_and_what_they_name() {
        let mut nodes = Nodes::new(&["n1", "n2", "n3"], "n1", Incarnation(1)).unwrap();
        assert!(nodes.set(nodes.named("n3").unwrap(), Incarnation(5)));
        let cases = [
            (format!("{ID}."), Ok(false)),
            (format!("{ID}.n1"), Ok(true)),
            (format!("{ID}.n2"), Err(MatchIdError::OtherNode)),
            (format!("{ID}.n3"), Ok(true)),
            (format!("{ID}.n1.x"), Err(MatchIdError::OtherNode)),
            (ID.to_owned(), Err(MatchIdError::Malformed)),
            (String::new(), Err(MatchIdError::Malformed)),
            (".".to_owned(), Err(MatchIdError::Malformed)),
            (".n1".to_owned(), Err(MatchIdError::Malformed)),
            (format!("{}.n1", &ID[1..]), Err(MatchIdError::Malformed)),
            ("zz.n1".to_owned(), Err(MatchIdError::Malformed)),
        ];
        for (text, expected) in cases {
            let parsed = MatchId::parse(&text, &nodes);
            assert_eq!(parsed.map(MatchId::is_authoritative), expected, "{text}");
            if let Ok(id) = parsed {
                assert_eq!(id.text(&nodes), text);
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
        let (a, b) = (PartyId::fresh(&mut random), PartyId::fresh(&mut random));
        assert_ne!(a, b);
        assert_eq!(a.0.get_version_num(), 4);
        // The well-known example of RFC 9562, appendix A.4.
        assert_eq!(
            MatchId::named("www.example.com").text(&Nodes::default()),
            "2ed6657d-e927-568b-95e1-2665a8aea6a2."
        );
    }
}
