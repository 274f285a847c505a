//! What there is to know of a match besides its size, and the fields that queries see of it. Who tells of the match
//! makes it; the replicas of all threads share it, fields and all, because a node may have a million matches.
//!
//! To another node it goes without its fields: who applies it first there makes them anew. Not here: which matches there
//! are (`directory.rs`), and what a query does with fields.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::plain;
use crate::query::Fields;

/// What a match is.
#[derive(Debug, Serialize, Deserialize)]
pub struct MatchInfo {
    /// The script's module; empty for relayed matches.
    #[serde(with = "plain::text")]
    pub handler_name: Arc<str>,
    /// Ticks a second, 1–60; 0 for relayed matches.
    pub tick_rate_hz: u8,
    /// Up to 2,048 bytes, JSON by convention; empty for relayed matches.
    pub label: Box<str>,
    /// Unix milliseconds.
    pub create_time_ms: u64,
    #[serde(skip)]
    fields: OnceLock<Fields>,
}

/// Fields follow from the rest.
impl PartialEq for MatchInfo {
    fn eq(&self, other: &Self) -> bool {
        let Self { handler_name, tick_rate_hz, label, create_time_ms, fields: _ } = self;
        *handler_name == other.handler_name
            && *tick_rate_hz == other.tick_rate_hz
            && *label == other.label
            && *create_time_ms == other.create_time_ms
    }
}

impl Eq for MatchInfo {}

impl MatchInfo {
    /// Of an authoritative match.
    pub fn authoritative(
        handler_name: Arc<str>,
        tick_rate_hz: u8,
        label: &str,
        create_time_ms: u64,
    ) -> Self {
        let (label, fields) = (Box::from(label), OnceLock::new());
        Self { handler_name, tick_rate_hz, label, create_time_ms, fields }
    }

    /// Of a relayed match.
    pub fn relayed(create_time_ms: u64) -> Self {
        Self::authoritative(Arc::from(""), 0, "", create_time_ms)
    }

    /// The same with another label.
    #[must_use]
    pub fn with_label(&self, label: &str) -> Self {
        let handler_name = Arc::clone(&self.handler_name);
        Self::authoritative(handler_name, self.tick_rate_hz, label, self.create_time_ms)
    }

    /// What queries see, made at the first call; `node` is the name of the one on which it lives.
    pub(super) fn fields(&self, node: &str) -> &Fields {
        self.fields.get_or_init(|| self.make_fields(node))
    }

    /// The same, if any directory has made them.
    pub(super) fn known_fields(&self) -> Option<&Fields> {
        self.fields.get()
    }

    fn make_fields(&self, node: &str) -> Fields {
        let mut fields = Fields::default();
        fields.add_keyword("node", node);
        fields.add_keyword("label_string", &self.label);
        fields.add_keyword("handler_name", &self.handler_name);
        fields.add_number("tick_rate", f64::from(self.tick_rate_hz));
        #[expect(clippy::cast_precision_loss, reason = "exact for 285,000 years")]
        fields.add_number("create_time", self.create_time_ms as f64);
        fields.add_date_ms("create_time", self.create_time_ms);
        // A label that is no JSON object is found as a whole only; the parser need not look.
        if self.label.starts_with(|first: char| first == '{' || first.is_ascii_whitespace())
            && let Ok(json @ serde_json::Value::Object(_)) = serde_json::from_str(&self.label)
        {
            fields.add_json("label", &json);
        }
        fields.seal();
        fields
    }
}
