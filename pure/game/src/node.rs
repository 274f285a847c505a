//! Nodes: the servers of one cluster, by name, and which of them live.
//!
//! Which names there are is configuration, the same on every node, so that all of them number the
//! names alike and a [`NodeId`] means the same everywhere. Which of them live, and in which
//! [`Incarnation`], is news ([`Nodes::set`]). What deliberately is not here: what threads a node has
//! (`server::mail::Topology`), and who finds out that a node is gone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Nodes of one cluster.
pub const NODES_MAX: usize = 256;

/// A node in one of its lives. Two bytes, because it stands in every address.
///
/// Of the incarnation a byte is kept, which is 0 of a node that is away alone: nothing that names a
/// life outlives 254 further ones. Mail between nodes has the whole of it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct NodeId {
    number: u8,
    life: u8,
}

/// The how manieth start of a node: a newer one replaces the older. 0 is none.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Incarnation(pub u32);

/// What is wrong with the names of a cluster.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NodesError {
    /// More than [`NODES_MAX`].
    #[error("a cluster has at most {NODES_MAX} nodes, and {0} are named")]
    TooMany(usize),
    /// Two nodes would be one.
    #[error("the node {0:?} is named twice")]
    Twice(String),
    /// This node is not one of them.
    #[error("this node, {0:?}, is not one of the cluster's")]
    NotNamed(String),
    /// This node would be away.
    #[error("the first incarnation of a node is 1, and this one's is 0")]
    NotBegun,
}

/// What is known of a node's lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Life {
    /// The newest one; it is known of a node that is away, too, so that no older one comes back.
    newest: Incarnation,
    is_away: bool,
}

impl Life {
    fn present(self) -> Incarnation {
        if self.is_away { Incarnation::default() } else { self.newest }
    }
}

/// All nodes of the cluster, and which of them this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// By number, sorted.
    names: Arc<[Arc<str>]>,
    here: u8,
    /// By number.
    lives: Vec<Life>,
}

impl NodeId {
    /// The same node in another life.
    fn at(self, life: Incarnation) -> Self {
        let from_one = life.0.checked_sub(1).map(|life| life % u32::from(u8::MAX) + 1);
        let life = from_one.and_then(|life| u8::try_from(life).ok()).unwrap_or(0);
        Self { life, ..self }
    }

    /// The place of its name among the cluster's.
    #[must_use]
    pub fn number(self) -> u8 {
        self.number
    }
}

impl Nodes {
    /// A node that is alone.
    #[must_use]
    pub fn alone(name: &str) -> Self {
        let life = Life { newest: Incarnation(1), is_away: false };
        Self { names: [name.into()].into(), here: 0, lives: vec![life] }
    }

    /// This node of a cluster, all others of which are away.
    ///
    /// # Errors
    /// [`NodesError`]: the names cannot be those of a cluster.
    pub fn new(names: &[&str], here: &str, life: Incarnation) -> Result<Self, NodesError> {
        if names.len() > NODES_MAX {
            return Err(NodesError::TooMany(names.len()));
        }
        if life == Incarnation::default() {
            return Err(NodesError::NotBegun);
        }
        let mut names = names.to_vec();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(NodesError::Twice(twice[0].to_owned()));
        }
        let place = names.binary_search(&here).ok().and_then(|place| u8::try_from(place).ok());
        let here = place.ok_or_else(|| NodesError::NotNamed(here.to_owned()))?;
        let mut lives = vec![Life::default(); names.len()];
        lives[usize::from(here)].newest = life;
        Ok(Self { names: names.into_iter().map(Arc::from).collect(), here, lives })
    }

    /// This node.
    #[must_use]
    pub fn here(&self) -> NodeId {
        self.of(self.here)
    }

    /// This node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name_of(self.here())
    }

    /// Whether that is this node, in this life.
    #[must_use]
    pub fn is_here(&self, node: NodeId) -> bool {
        node == self.here()
    }

    /// Whether there are other nodes, away or not.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.names.len() == 1
    }

    /// The name of a node, whatever its life; empty, if there is no such node.
    #[must_use]
    pub fn name_of(&self, node: NodeId) -> &str {
        self.names.get(usize::from(node.number)).map_or("", |name| name)
    }

    /// The node with that name in its present life; one that is away too.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<NodeId> {
        let is_it = |other: &Arc<str>| **other == *name;
        let place = self.names.iter().position(is_it)?;
        u8::try_from(place).ok().map(|number| self.of(number))
    }

    /// All nodes in their present lives, by number; those that are away too.
    pub fn all(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..=u8::MAX).take(self.names.len()).map(|number| self.of(number))
    }

    /// All of which this node is not one.
    pub fn others(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.all().filter(|node| node.number != self.here)
    }

    /// All that live, this one among them.
    pub fn living(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.all().filter(|node| self.is_living(*node))
    }

    /// Whether a node lives, and this is its present life.
    #[must_use]
    pub fn is_living(&self, node: NodeId) -> bool {
        let life = self.incarnation(node);
        life != Incarnation(0) && node == node.at(life)
    }

    /// The present incarnation of a node, whichever its id names; 0 of one that is away.
    #[must_use]
    pub fn incarnation(&self, node: NodeId) -> Incarnation {
        self.lives.get(usize::from(node.number)).copied().unwrap_or_default().present()
    }

    /// A node lives from now on in this incarnation; 0 is that it is away. Tells whether that is
    /// news: an incarnation that is not newer than all before is not, nor is anything of this node or of
    /// one that is not named. So a node that others have taken for gone has to begin anew.
    pub fn set(&mut self, node: NodeId, life: Incarnation) -> bool {
        if node.number == self.here {
            return false;
        }
        let Some(known) = self.lives.get_mut(usize::from(node.number)) else { return false };
        if life == Incarnation::default() {
            let was_here = known.present() != life;
            known.is_away = true;
            return was_here;
        }
        let is_news = life > known.newest;
        if is_news {
            *known = Life { newest: life, is_away: false };
        }
        is_news
    }

    fn of(&self, number: u8) -> NodeId {
        let node = NodeId { number, life: 0 };
        node.at(self.incarnation(node))
    }
}

impl Default for Nodes {
    /// A node that is alone and has Nakama's default name, `nakama`.
    fn default() -> Self {
        Self::alone("nakama")
    }
}

#[cfg(test)]
mod tests {
    use super::{Incarnation, Nodes, NodesError};

    #[test]
    fn all_nodes_number_the_names_alike() {
        let [a, b] = ["a", "b"].map(|here| Nodes::new(&["b", "a"], here, Incarnation(7)).unwrap());
        assert_eq!((a.name(), b.name()), ("a", "b"));
        assert_eq!(a.here().number(), b.named("a").unwrap().number());
        assert_ne!(a.here(), b.named("a").unwrap(), "b does not know that it lives");
        assert_eq!(a.named("c"), None);
        assert_eq!(a.others().map(|node| a.name_of(node)).collect::<Vec<_>>(), ["b"]);
        assert!(!a.is_alone() && Nodes::alone("x").is_alone());
        let refused = |names: &[&str]| Nodes::new(names, "a", Incarnation(1)).unwrap_err();
        assert_eq!(refused(&["a", "a"]), NodesError::Twice("a".into()));
        assert_eq!(refused(&["b"]), NodesError::NotNamed("a".into()));
        assert_eq!(refused(&["b"; 257]), NodesError::TooMany(257));
        assert_eq!(Nodes::new(&["a"], "a", Incarnation(0)), Err(NodesError::NotBegun));
    }

    #[test]
    fn a_newer_life_replaces_the_older_and_none_comes_back() {
        let mut nodes = Nodes::new(&["a", "b"], "a", Incarnation(1)).unwrap();
        let away = nodes.named("b").unwrap();
        assert!(!nodes.is_living(away) && nodes.is_living(nodes.here()));
        assert!(nodes.set(away, Incarnation(2)));
        let second = nodes.named("b").unwrap();
        assert!(nodes.is_living(second) && !nodes.is_living(away));
        assert!(!nodes.set(second, Incarnation(2)) && !nodes.set(second, Incarnation(1)));
        assert!(nodes.set(second, Incarnation(3)));
        let third = nodes.named("b").unwrap();
        assert!(nodes.is_living(third) && !nodes.is_living(second));
        assert!(nodes.set(third, Incarnation(0)) && !nodes.set(third, Incarnation(0)));
        assert!(!nodes.is_living(third) && nodes.incarnation(third) == Incarnation(0));
        assert!(!nodes.set(third, Incarnation(3)), "a life that is over does not come back");
        assert!(nodes.set(third, Incarnation(4)) && !nodes.is_living(third));
        assert!(!nodes.set(nodes.here(), Incarnation(9)), "who this is, it knows itself");
        assert_eq!(nodes.name_of(second), "b");
    }

    #[test]
    fn no_life_looks_like_none() {
        let mut nodes = Nodes::new(&["a", "b"], "a", Incarnation(256)).unwrap();
        assert!(nodes.is_living(nodes.here()));
        let away = nodes.named("b").unwrap();
        for life in 1..1_000 {
            let before = nodes.named("b").unwrap();
            assert!(nodes.set(away, Incarnation(life)));
            let now = nodes.named("b").unwrap();
            assert!(nodes.is_living(now) && now != away && now != before, "life {life}");
            assert!(!nodes.is_living(away), "life {life} is that of who is away");
        }
    }
}
