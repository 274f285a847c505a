//! Events: what clients and scripts say has happened, and the beginning and end of sessions, for handlers
//! in scripts (`register_event` and its like). Nobody waits for a handler: events wait for a thread of
//! their own, in a queue that forgets what it has no room for (`server::worker`).
//!
//! Source: Nakama 3.40, `server/runtime_event.go`, `server/runtime_go.go`, where handlers are written in
//! Go alone.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;
use wire::nakama::api;

use crate::fetch::FetchPayer;
use crate::guest::CallContext;
use crate::value::Value;

/// Which handler an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// Of a client or a script.
    Custom,
    /// A socket has opened.
    SessionStart,
    /// A socket has closed.
    SessionEnd,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Custom, Self::SessionStart, Self::SessionEnd];

    /// The name under which scripts register its handler, behind `register_`.
    #[must_use]
    pub const fn handler(self) -> &'static str {
        match self {
            Self::Custom => "event",
            Self::SessionStart => "event_session_start",
            Self::SessionEnd => "event_session_end",
        }
    }
}

/// What has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What kind of thing.
    pub name: String,
    /// What else is to be known of it.
    pub properties: BTreeMap<String, String>,
    /// When, unix seconds, if whoever says so knows.
    pub timestamp_s: Option<i64>,
    /// Whether a client says so.
    pub is_external: bool,
}

/// An event on its way to its handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventJob {
    /// Which handler.
    pub kind: EventKind,
    /// What has happened.
    pub event: Event,
    /// To whom; no user if a script says so.
    pub context: CallContext,
    /// What it goes back to, if a script says so: whose matches those are that its handler makes.
    pub cause: Option<Cause>,
}

/// What a call of a script goes back to: whose matches those are that it makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// For whom they are made: the caller of the first call, also behind matches and events.
    pub payer: FetchPayer,
    /// The match that they are descendants of, if one of its callbacks comes in between.
    pub ancestor: Option<Uuid>,
}

/// What a pair of texts takes besides them, bytes.
const PAIR_BYTES: usize = 64;

fn pair_bytes(name: &str, value: &str) -> usize {
    PAIR_BYTES + name.len() + value.len()
}

impl EventJob {
    /// About how many bytes it takes while it waits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let context = &self.context;
        let variables = context.vars.iter().map(|(name, value)| pair_bytes(name, value));
        let texts = [&context.username, &context.lang, &context.client_ip, &context.client_port];
        let texts = texts.into_iter().flatten().map(String::len);
        let pairs = [&context.headers, &context.query_params].map(|pairs| pairs.packed().len());
        size_of::<Self>() + self.event.bytes() + variables.chain(texts).chain(pairs).sum::<usize>()
    }
}

impl Event {
    /// The beginning of a session, at this unix second.
    #[must_use]
    pub fn session_start(unix_s: u64) -> Self {
        let timestamp_s = i64::try_from(unix_s).ok();
        Self { name: "session_start".to_owned(), timestamp_s, ..Self::default() }
    }

    /// The end of a session, with the reason that its client was told, if any.
    #[must_use]
    pub fn session_end(unix_s: u64, reason: &str) -> Self {
        let properties = BTreeMap::from([("reason".to_owned(), reason.to_owned())]);
        let timestamp_s = i64::try_from(unix_s).ok();
        Self { name: "session_end".to_owned(), properties, timestamp_s, is_external: false }
    }

    /// About how many bytes it takes while it waits, without what is known of its user.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |(name, value): (&String, &String)| pair_bytes(name, value);
        PAIR_BYTES + self.name.len() + self.properties.iter().map(of).sum::<usize>()
    }

    /// As handlers see it: `{ name, properties, timestamp, external }`.
    #[must_use]
    pub fn value(&self) -> Value {
        let member = |name: &'static str, value| (Bytes::from_static(name.as_bytes()), value);
        let text = |(name, value): (&String, &String)| {
            (Bytes::from(name.clone()), Value::text(value.clone()))
        };
        Value::Map(vec![
            member("name", Value::text(&*self.name)),
            member("properties", Value::Map(self.properties.iter().map(text).collect())),
            member("timestamp", self.timestamp_s.map_or(Value::Nil, Value::Int)),
            member("external", Value::Bool(self.is_external)),
        ])
    }
}

impl From<&api::Event> for Event {
    fn from(event: &api::Event) -> Self {
        Self {
            name: event.name.clone(),
            properties: event.properties.clone(),
            timestamp_s: event.timestamp.map(|time| time.seconds),
            is_external: true,
        }
    }
}
