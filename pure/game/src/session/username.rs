//! A user's name in a token. Whoever has a session shares it: the core's claims, the presences in
//! rooms and matches.
//!
//! Not here: what a name may be (`account`).

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The name, cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Username(Arc<str>);

impl Username {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same memory, for a [`crate::guest::Presence`].
    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl From<&str> for Username {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl Deref for Username {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for Username {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Debug for Username {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Username {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
