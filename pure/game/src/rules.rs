//! Rules of the zone that scripts may define, and the form in which they hear of what has happened.
//!
//! A rule is a function that a module registers, such as `register_zone_score`. It is called with all that has
//! happened for it in a tick, and with what the server would do about that; it returns the same, changed or not
//! (`{ tick, tick_rate, side, pilots | hits | kills }`). Data in and out: [`Value`]s. What is deliberately not
//! here: what a rule means for the zone (`server::zone`), and when it is asked.

use bytes::Bytes;

use crate::guest::Presence;
use crate::value::Value;

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneRule {
    /// Where, and with which ship, pilots come.
    Spawn,
    /// What hits cost.
    Hit,
    /// What it means that a ship was shot down.
    Score,
}

/// What a script is told whose rule returns something else.
pub const WRONG_RESULT: &str =
    "a rule of the zone returns the zone that it was given, changed or not, or nothing";

impl ZoneRule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Spawn, Self::Hit, Self::Score];

    /// The name under which scripts register it: in Lua behind `register_`.
    #[must_use]
    pub const fn handler(self) -> &'static str {
        match self {
            Self::Spawn => "zone_spawn",
            Self::Hit => "zone_hit",
            Self::Score => "zone_score",
        }
    }

    /// The member of the argument, and of what is returned, that lists what has happened.
    #[must_use]
    pub const fn list(self) -> &'static str {
        match self {
            Self::Spawn => "pilots",
            Self::Hit => "hits",
            Self::Score => "kills",
        }
    }

    /// The rule that is registered under this name.
    #[must_use]
    pub fn named(handler: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.handler() == handler)
    }
}

/// A table with these members.
#[must_use]
pub fn table<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    let named = |(name, value): (&'static str, Value)| (Bytes::from_static(name.as_bytes()), value);
    Value::Map(members.into_iter().map(named).collect())
}

/// Who steers a ship, as rules see it: `{ user_id, session_id, username }`; nil of a ship without a pilot.
#[must_use]
pub fn pilot(presence: Option<&Presence>) -> Value {
    presence.map_or(Value::Nil, |it| table(of_pilot(it)))
}

/// The members of [`pilot`].
#[must_use]
pub fn of_pilot(presence: &Presence) -> [(&'static str, Value); 3] {
    [
        ("user_id", Value::text(presence.user_id.to_string())),
        ("session_id", Value::text(presence.session_id.to_string())),
        ("username", Value::text(&*presence.username)),
    ]
}
