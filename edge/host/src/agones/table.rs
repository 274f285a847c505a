//! A table of a YAML file from which keys are taken one by one, so that what is left is known.
//!
//! In: a value. Out: typed values, and for each key that nobody took a line. Source of quantities:
//! kubernetes.io, Quantity.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::fleet::FleetError;

/// Why a field is not done, where there is more to say than that it is not.
const REASONS: &[(&str, &str)] = &[
    ("affinity", "there is one machine"),
    ("allocationOverflow", "a fleet has no more servers than it says"),
    ("eviction", "nothing evicts a server"),
    ("immutableReplicas", "nothing changes the number but the file"),
    ("initContainers", "a server is one program"),
    ("livenessProbe", "health is the SDK's"),
    ("nodeName", "there is one machine"),
    ("nodeSelector", "there is one machine"),
    ("priorities", "the first that is ready is given away"),
    ("readinessProbe", "it is ready when it says so by the SDK"),
    ("scheduling", "there is one machine"),
    ("securityContext", "its wall says what it may"),
    ("serviceAccountName", "there is no Kubernetes to ask"),
    ("strategy", "a changed file holds for servers that are started after it"),
    ("tolerations", "there is one machine"),
    ("volumeMounts", "files of the machine are where they are"),
    ("volumes", "files of the machine are where they are"),
];

/// A table with its place in the file.
pub(super) struct Table {
    pub(super) path: String,
    map: Map<String, Value>,
    /// Keys that were looked for and are not there.
    absent: Vec<String>,
}

impl Table {
    pub(super) fn new(path: String, value: Value) -> Result<Self, FleetError> {
        match value {
            Value::Object(map) => Ok(Self { path, map, absent: Vec::new() }),
            Value::Null => Ok(Self { path, map: Map::new(), absent: Vec::new() }),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(FleetError::Form(format!("{path}: has to be a table")))
            }
        }
    }

    fn below(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn wrong(&self, key: &str, what: &str) -> FleetError {
        FleetError::Form(format!("{}: {what}", self.below(key)))
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        let value = self.map.remove(key);
        if value.is_none() {
            self.absent.push(key.to_owned());
        }
        value.filter(|it| !it.is_null())
    }

    /// An empty one if there is none.
    pub(super) fn table(&mut self, key: &str) -> Result<Self, FleetError> {
        let value = self.take(key).unwrap_or_default();
        Self::new(self.below(key), value)
    }

    pub(super) fn tables(&mut self, key: &str) -> Result<Vec<Self>, FleetError> {
        let all = match self.take(key) {
            None => Vec::new(),
            Some(Value::Array(all)) => all,
            Some(_) => return Err(self.wrong(key, "has to be a list")),
        };
        let path = self.below(key);
        let all = all.into_iter().enumerate();
        all.map(|(at, it)| Self::new(format!("{path}[{at}]"), it)).collect()
    }

    /// A text, or a number or a truth value as it would be written.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, FleetError> {
        self.take(key).map(|it| self.plain(key, it)).transpose()
    }

    fn plain(&self, key: &str, value: Value) -> Result<String, FleetError> {
        match value {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(is) => Ok(is.to_string()),
            Value::Null => Ok(String::new()),
            Value::Array(_) | Value::Object(_) => Err(self.wrong(key, "has to be a text")),
        }
    }

    pub(super) fn number(&mut self, key: &str) -> Result<Option<i64>, FleetError> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) if number >= 0 => Ok(Some(number)),
                Some(_) | None => Err(self.wrong(key, "has to be a number, 0 or more")),
            },
        }
    }

    pub(super) fn port(&mut self, key: &str) -> Result<Option<u16>, FleetError> {
        let Some(number) = self.number(key)? else { return Ok(None) };
        match u16::try_from(number) {
            Ok(port) if port > 0 => Ok(Some(port)),
            Ok(_) | Err(_) => Err(self.wrong(key, "a port: 1 to 65535")),
        }
    }

    pub(super) fn texts(&mut self, key: &str) -> Result<Vec<String>, FleetError> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(all)) => all.into_iter().map(|it| self.plain(key, it)).collect(),
            Some(_) => Err(self.wrong(key, "has to be a list of texts")),
        }
    }

    pub(super) fn pairs(&mut self, key: &str) -> Result<BTreeMap<String, String>, FleetError> {
        let table = self.table(key)?;
        let all = table.map.clone().into_iter();
        all.map(|(name, it)| Ok((name.clone(), table.plain(&name, it)?))).collect()
    }

    pub(super) fn typed<T: DeserializeOwned + Default>(
        &mut self,
        key: &str,
    ) -> Result<T, FleetError> {
        let Some(value) = self.take(key) else { return Ok(T::default()) };
        serde_json::from_value(value).map_err(|error| self.wrong(key, &error.to_string()))
    }

    /// Names what nobody has taken.
    pub(super) fn rest(self, notes: &mut Vec<String>) {
        for key in self.map.keys().filter(|key| !self.map[*key].is_null()) {
            let reason = REASONS.iter().find(|(name, _)| name == key);
            let why = reason.map_or("is not done here", |it| it.1);
            let absent = self.absent.iter().map(String::as_str);
            let meant = wire::nearest::did_you_mean(key, absent.filter(|_| reason.is_none()));
            notes.push(format!("{}: {why}{meant}", self.below(key)));
        }
    }
}

/// A number with a unit of Kubernetes: `500m`, `2`, `1.5`, `64Mi`, `1G`, `1e3`.
pub(super) fn quantity(text: &str) -> Option<f64> {
    const UNITS: &[(&str, f64)] = &[
        ("Ki", 1_024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
    ];
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (number, factor) =
        unit.map_or((text, 1.0), |(unit, factor)| (text.trim_end_matches(unit), *factor));
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit());
    let number: f64 = number.parse().ok().filter(|_| is_plain)?;
    Some(number * factor)
}

/// A number of bytes.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let number = quantity(text).filter(|it| (1.0..1e15).contains(it))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    let whole = number.round() as u64;
    Some(whole)
}
