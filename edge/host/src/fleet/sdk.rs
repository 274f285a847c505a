//! What a server's table says for the Agones SDK: what an Agones `GameServer` says of health, counters,
//! lists, players and metadata.
//!
//! In: the table `agones` of a server. Out: the same as types, with Agones' defaults. Not here: what becomes
//! of it while a server runs. Source: agones.dev/site/docs/reference/gameserver.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lab::measure::Span;
use serde::{Deserialize, Serialize};

/// Values of a list, and players: what Agones allows.
pub const LIST_VALUES_MAX: usize = 1_000;
/// Labels and annotations of the file and of the SDK, each.
pub const METADATA_MAX: usize = 64;
/// Counters and lists that a server may declare, each.
pub const KEYS_MAX: usize = 64;
/// Letters of a label, or of the name in a key. Source: kubernetes.io, Labels and Selectors.
pub const LABEL_CHARS_MAX: usize = 63;
/// Bytes of an annotation, of a value in a list and of a player's id.
pub const VALUE_BYTES_MAX: usize = 4_096;
/// Ports that a server may name.
pub const PORTS_MAX: usize = 16;

/// What an Agones `GameServer` says besides.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agones {
    /// How it tells that it is well.
    pub health: Health,
    /// Its counters at the start, by name.
    pub counters: BTreeMap<String, Counter>,
    /// Its lists at the start, by name.
    pub lists: BTreeMap<String, List>,
    /// How many players it may have at the start; players are tracked if it is given.
    pub players: Option<u32>,
    /// Its labels at the start.
    pub labels: BTreeMap<String, String>,
    /// Its annotations at the start.
    pub annotations: BTreeMap<String, String>,
    /// What the SDK calls its namespace; `default` else.
    pub namespace: Option<String>,
    /// Its ports by name, `port` among them; without names it is `default`.
    pub ports: Vec<Port>,
    /// Where the SDK listens in a network of its own; 9357 and 9358 else.
    pub grpc_port: Option<u16>,
    /// Likewise, for REST.
    pub http_port: Option<u16>,
}

/// A port with its name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// As the SDK tells it.
    pub name: String,
    /// Of the first server of its table; where servers share a network, of the others it is higher.
    pub port: u16,
}

/// How a server tells that it is well: by calling `Health()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// It does not.
    pub disabled: bool,
    /// Time after its start in which nobody looks; 5 s else.
    pub initial_delay: Option<Span>,
    /// Time between two looks, and the time that a call holds; 5 s else.
    pub period: Option<Span>,
    /// Looks in a row without a call before it counts as unhealthy; 3 else.
    pub failures: Option<u32>,
}

impl Health {
    /// [`Health::initial_delay`], or Agones' default.
    #[must_use]
    pub fn initial_delay(&self) -> Duration {
        self.initial_delay.map_or(Duration::from_secs(5), |it| it.0)
    }

    /// [`Health::period`], or Agones' default.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period.map_or(Duration::from_secs(5), |it| it.0)
    }

    /// [`Health::failures`], or Agones' default; 1 at least.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures.unwrap_or(3).max(1)
    }
}

/// A counter: 0 ≤ count ≤ capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counter {
    /// Now.
    pub count: i64,
    /// At most.
    pub capacity: i64,
}

/// A list of different values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct List {
    /// Values at most; [`LIST_VALUES_MAX`] is the most.
    pub capacity: i64,
    /// Its values.
    pub values: Vec<String>,
}

/// Whether Kubernetes takes a text as a label's value, or as the name in a key. Source: kubernetes.io,
/// Labels and Selectors.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LABEL_CHARS_MAX
        && text.chars().all(|c| is_end(c) || "-_.".contains(c))
        && text.starts_with(is_end)
        && text.ends_with(is_end)
}

/// Whether it is a key: a name, which may have a domain before it.
#[must_use]
pub fn is_key(text: &str) -> bool {
    let (domain, name) = text.split_once('/').map_or((None, text), |(a, b)| (Some(a), b));
    let is_domain = |it: &str| {
        it.len() <= 253 && it.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
    };
    is_label(name) && domain.is_none_or(|it| !it.is_empty() && is_domain(it))
}

impl Agones {
    /// What the types cannot say: the key that is wrong, and why.
    pub(super) fn check(&self, port: Option<u16>) -> Result<(), (&'static str, String)> {
        self.check_counts()?;
        for (key, map) in
            [("agones.labels", &self.labels), ("agones.annotations", &self.annotations)]
        {
            if map.len() > METADATA_MAX {
                return Err((key, format!("{METADATA_MAX} are the most")));
            }
            let is_annotation = key == "agones.annotations";
            for (name, value) in map {
                let is_value = if is_annotation {
                    value.len() <= VALUE_BYTES_MAX
                } else {
                    value.is_empty() || is_label(value)
                };
                if !is_key(name) || !is_value {
                    let what = format!("`{name}` = `{value}`: Kubernetes would not take it");
                    return Err((key, what));
                }
            }
        }
        let numbers: BTreeSet<u16> = self.ports.iter().map(|it| it.port).collect();
        let names: BTreeSet<&str> = self.ports.iter().map(|it| &*it.name).collect();
        if self.ports.len() > PORTS_MAX {
            return Err(("agones.ports", format!("{PORTS_MAX} are the most")));
        }
        if numbers.len() < self.ports.len() || names.len() < self.ports.len() {
            return Err(("agones.ports", "each has a name and a number of its own".to_owned()));
        }
        if numbers.contains(&0) {
            return Err(("agones.ports", "1 to 65535".to_owned()));
        }
        if !numbers.is_empty() && port.is_none_or(|port| !numbers.contains(&port)) {
            return Err(("agones.ports", "`port` has to be one of them".to_owned()));
        }
        if self.grpc_port == Some(0) || self.http_port == Some(0) || self.doors_are_one() {
            return Err((
                "agones.grpc_port",
                "it and http_port: 1 to 65535, not the same".to_owned(),
            ));
        }
        Ok(())
    }

    fn doors_are_one(&self) -> bool {
        let (grpc, http) = self.doors();
        grpc == http
    }

    /// Where gRPC and REST listen in a network of its own. Source: Agones 1.61, `sdkServer`.
    #[must_use]
    pub fn doors(&self) -> (u16, u16) {
        (self.grpc_port.unwrap_or(9_357), self.http_port.unwrap_or(9_358))
    }

    fn check_counts(&self) -> Result<(), (&'static str, String)> {
        if self.counters.len() > KEYS_MAX || self.lists.len() > KEYS_MAX {
            return Err((
                "agones.counters",
                format!("{KEYS_MAX}, and as many lists, are the most"),
            ));
        }
        for (name, it) in &self.counters {
            if !is_label(name) || !(0..=it.capacity).contains(&it.count) {
                let what = format!("`{name}`: letters and digits; 0 <= count <= capacity");
                return Err(("agones.counters", what));
            }
        }
        for (name, it) in &self.lists {
            let capacity = usize::try_from(it.capacity).ok().filter(|it| *it <= LIST_VALUES_MAX);
            let is_room = capacity.is_some_and(|most| it.values.len() <= most);
            let different: BTreeSet<&String> = it.values.iter().collect();
            let is_small = it.values.iter().all(|it| it.len() <= VALUE_BYTES_MAX);
            if !is_label(name) || !is_room || !is_small || different.len() < it.values.len() {
                let what = format!(
                    "`{name}`: a capacity of 0 to {LIST_VALUES_MAX}, and different values, no more \
                     than that"
                );
                return Err(("agones.lists", what));
            }
        }
        if self.players.is_some_and(|it| it as usize > LIST_VALUES_MAX) {
            return Err(("agones.players", format!("0 to {LIST_VALUES_MAX}")));
        }
        if self.health.period.is_some_and(|it| it.0 < Duration::from_secs(1)) {
            return Err(("agones.health", "period: 1s at least".to_owned()));
        }
        Ok(())
    }
}
