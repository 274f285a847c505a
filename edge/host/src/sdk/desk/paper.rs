//! What a server has written down by the SDK: labels, annotations, counters, lists, players; and the rules
//! for them.
//!
//! In: one call each. Out: the answer, or why it is refused; after a refusal everything is as it was. Not
//! here: states and health. Refusals are in the words of Agones 1.61 (pkg/sdkserver/sdkserver.go).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::messages::{
    self, Bool, CounterStatus, CounterUpdate, Empty, GameServer, ListStatus, ObjectMeta, Spec,
    Status,
};
use super::{Code, Refusal, Troubles, Who};
use crate::fleet::sdk::{
    Agones, Counter, LABEL_CHARS_MAX, LIST_VALUES_MAX, List, METADATA_MAX, VALUE_BYTES_MAX,
    is_label,
};
use crate::view;

/// What keys that a server sets begin with. Source: Agones 1.61, pkg/sdkserver.
const PREFIX: &str = "agones.dev/sdk-";
/// Bytes of everything that a server has written down: a picture of it is sent whole at every change.
const PAPER_BYTES_MAX: usize = 256 << 10;
/// Bytes of it that are shown.
const SHOWN_BYTES: usize = 6 << 10;

type Answer<T> = Result<T, Refusal>;

/// The players of a server that tracks them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Players {
    pub(crate) capacity: i64,
    /// In the order in which they came.
    pub(crate) ids: Vec<String>,
}

impl Players {
    pub(crate) fn count(&self) -> i64 {
        whole(self.ids.len())
    }
}

/// What a server has written down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Paper {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    counters: BTreeMap<String, Counter>,
    lists: BTreeMap<String, List>,
    players: Option<Players>,
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn refused<T>(message: String) -> Answer<T> {
    Err(Refusal::new(Code::Unknown, message))
}

fn full<T>() -> Answer<T> {
    let message = format!("a server's data have {PAPER_BYTES_MAX} bytes at most");
    Err(Refusal::new(Code::ResourceExhausted, message))
}

fn too_long<T>(what: &str) -> Answer<T> {
    let message = format!("{what}: {VALUE_BYTES_MAX} bytes are the most");
    Err(Refusal::new(Code::InvalidArgument, message))
}

impl Paper {
    /// As the file says.
    pub(super) fn new(settings: &Agones) -> Self {
        let players = settings.players;
        Self {
            labels: settings.labels.clone(),
            annotations: settings.annotations.clone(),
            counters: settings.counters.clone(),
            lists: settings.lists.clone(),
            players: players.map(|it| Players { capacity: it.into(), ids: Vec::new() }),
        }
    }

    /// Whether there is room for so many bytes more.
    fn has_room(&self, more: usize) -> bool {
        let pairs = self.labels.iter().chain(&self.annotations);
        let pairs: usize = pairs.map(|(key, value)| key.len() + value.len()).sum();
        let lists: usize = self.lists.values().flat_map(|it| &it.values).map(String::len).sum();
        let players: usize = self.players.iter().flat_map(|it| &it.ids).map(String::len).sum();
        pairs + lists + players + more <= PAPER_BYTES_MAX
    }

    pub(super) fn set_label(&mut self, key: &str, value: String) -> Answer<Empty> {
        if !value.is_empty() && !is_label(&value) {
            let message = format!(
                "label `{key}`: `{value}`: a label has {LABEL_CHARS_MAX} letters, digits and -_. at \
                 most, letters or digits at both ends"
            );
            return Err(Refusal::new(Code::InvalidArgument, message));
        }
        let has_room = self.has_room(key.len() + value.len());
        set(&mut self.labels, has_room, key, value)
    }

    pub(super) fn set_annotation(&mut self, key: &str, value: String) -> Answer<Empty> {
        if value.len() > VALUE_BYTES_MAX {
            return too_long("an annotation");
        }
        let has_room = self.has_room(key.len() + value.len());
        set(&mut self.annotations, has_room, key, value)
    }

    pub(super) fn counter(&self, name: &str) -> Answer<messages::Counter> {
        match self.counters.get(name) {
            Some(it) => {
                let (count, capacity) = (it.count, it.capacity);
                Ok(messages::Counter { name: name.to_owned(), count, capacity })
            }
            None => refused(format!("counter not found: {name}")),
        }
    }

    pub(super) fn update_counter(&mut self, it: CounterUpdate) -> Answer<messages::Counter> {
        if it.count.is_none() && it.capacity.is_none() && it.count_diff == 0 {
            return refused(format!(
                "invalid argument. Malformed CounterUpdateRequest: {}",
                it.name
            ));
        }
        let Some(counter) = self.counters.get_mut(&it.name) else {
            return refused(format!("counter not found: {}", it.name));
        };
        let mut new = *counter;
        if let Some(capacity) = it.capacity.map(|it| it.value) {
            if capacity < 0 {
                return refused(format!(
                    "out of range. Capacity must be greater than or equal to 0. Found Capacity: {capacity}"
                ));
            }
            new.capacity = capacity;
            // A count above is cut when the change is made.
            new.count = new.count.min(capacity);
        }
        if it.count.is_some() || it.count_diff != 0 {
            let count = it.count.map_or(new.count, |it| it.value).saturating_add(it.count_diff);
            if !(0..=new.capacity).contains(&count) {
                return refused(format!(
                    "out of range. Count must be within range [0,Capacity]. Found Count: {count}, \
                     Capacity: {}",
                    new.capacity
                ));
            }
            new.count = count;
        }
        *counter = new;
        self.counter(&it.name)
    }

    pub(super) fn list(&self, name: &str) -> Answer<messages::List> {
        match self.lists.get(name) {
            Some(it) => {
                let (capacity, values) = (it.capacity, it.values.clone());
                Ok(messages::List { name: name.to_owned(), capacity, values })
            }
            None => refused(format!("list not found: {name}")),
        }
    }

    /// Without a mask it is the capacity that is meant, as Agones takes it; its own client for Node sends
    /// none.
    pub(super) fn update_list(
        &mut self,
        it: messages::List,
        fields: &[String],
    ) -> Answer<messages::List> {
        if let Some(field) =
            fields.iter().find(|it| !matches!(&***it, "capacity" | "values" | "name"))
        {
            let message =
                format!("invalid argument. Field Mask Path(s): {field} are invalid for List");
            return Err(Refusal::new(Code::InvalidArgument, message));
        }
        let is_meant = |field: &str| fields.iter().any(|it| it == field);
        let Some(list) = self.lists.get(&it.name) else {
            return refused(format!("not found. {} List not found", it.name));
        };
        let mut new = list.clone();
        if fields.is_empty() || is_meant("capacity") {
            if !(0..=whole(LIST_VALUES_MAX)).contains(&it.capacity) {
                return refused(format!(
                    "out of range. Capacity must be within range [0,{LIST_VALUES_MAX}]. Found Capacity: {}",
                    it.capacity
                ));
            }
            new.capacity = it.capacity;
        }
        if is_meant("values") {
            if it.values.iter().any(|value| value.len() > VALUE_BYTES_MAX) {
                return too_long("a value");
            }
            if !self.has_room(it.values.iter().map(String::len).sum()) {
                return full();
            }
            new.values.clear();
            for value in it.values.into_iter().take(LIST_VALUES_MAX) {
                if !new.values.contains(&value) {
                    new.values.push(value);
                }
            }
        }
        new.values.truncate(usize::try_from(new.capacity).unwrap_or(0));
        self.lists.insert(it.name.clone(), new);
        self.list(&it.name)
    }

    pub(super) fn add_value(&mut self, name: &str, value: String) -> Answer<messages::List> {
        let has_room = self.has_room(value.len());
        let Some(list) = self.lists.get_mut(name) else {
            return refused(format!("list not found: {name}"));
        };
        let (capacity, size) = (list.capacity, list.values.len());
        if whole(size) >= capacity {
            return refused(format!(
                "out of range. No available capacity. Current Capacity: {capacity}, List Size: {size}"
            ));
        }
        if list.values.contains(&value) {
            return refused(format!("already exists. Value: {value} already in List: {name}"));
        }
        if value.len() > VALUE_BYTES_MAX {
            return too_long("a value");
        }
        if !has_room {
            return full();
        }
        list.values.push(value);
        self.list(name)
    }

    pub(super) fn remove_value(&mut self, name: &str, value: &str) -> Answer<messages::List> {
        let Some(list) = self.lists.get_mut(name) else {
            return refused(format!("list not found: {name}"));
        };
        let Some(at) = list.values.iter().position(|it| it == value) else {
            return refused(format!("not found. Value: {value} not found in List: {name}"));
        };
        list.values.remove(at);
        self.list(name)
    }

    /// The players, if they are tracked.
    pub(super) fn tracked(&self) -> Answer<&Players> {
        match &self.players {
            Some(players) => Ok(players),
            None => refused("PlayerTracking not enabled".to_owned()),
        }
    }

    fn tracked_mut(&mut self) -> Answer<&mut Players> {
        self.tracked()?;
        Ok(self.players.get_or_insert_default())
    }

    pub(super) fn connect_player(&mut self, id: String) -> Answer<Bool> {
        let has_room = self.has_room(id.len());
        let players = self.tracked_mut()?;
        if players.ids.contains(&id) {
            return Ok(Bool { bool: false });
        }
        if players.count() >= players.capacity.min(whole(LIST_VALUES_MAX)) {
            return refused("players are already at capacity".to_owned());
        }
        if id.len() > VALUE_BYTES_MAX {
            return too_long("a player's id");
        }
        if !has_room {
            return full();
        }
        players.ids.push(id);
        Ok(Bool { bool: true })
    }

    pub(super) fn disconnect_player(&mut self, id: &str) -> Answer<Bool> {
        let players = self.tracked_mut()?;
        let at = players.ids.iter().position(|it| it == id);
        if let Some(at) = at {
            players.ids.remove(at);
        }
        Ok(Bool { bool: at.is_some() })
    }

    pub(super) fn set_player_capacity(&mut self, capacity: i64) -> Answer<Empty> {
        self.tracked_mut()?.capacity = capacity.max(0);
        Ok(Empty {})
    }

    /// What Agones calls a `GameServer`.
    pub(super) fn game_server(
        &self,
        who: &Who,
        settings: &Agones,
        state: &str,
        version: u64,
    ) -> GameServer {
        let seconds = |time: std::time::Duration| i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        let health = messages::Health {
            disabled: settings.health.disabled,
            period_seconds: seconds(settings.health.period()),
            failure_threshold: i32::try_from(settings.health.failures()).unwrap_or(i32::MAX),
            initial_delay_seconds: seconds(settings.health.initial_delay()),
        };
        let meta = ObjectMeta {
            name: who.name.clone(),
            namespace: settings.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            uid: format!("{}-{}", who.name, who.created_s),
            resource_version: version.to_string(),
            generation: 1,
            creation_timestamp: who.created_s,
            deletion_timestamp: 0,
            annotations: self.annotations.clone(),
            labels: self.labels.clone(),
        };
        let counter = |it: &Counter| CounterStatus { count: it.count, capacity: it.capacity };
        let list = |it: &List| ListStatus { capacity: it.capacity, values: it.values.clone() };
        let ports = who.ports.iter();
        let status = Status {
            state: state.to_owned(),
            address: who.address.clone(),
            addresses: Vec::new(),
            ports: ports
                .map(|(name, port)| messages::Port { name: name.clone(), port: i32::from(*port) })
                .collect(),
            players: self.players.as_ref().map(|it| messages::Players {
                count: it.count(),
                capacity: it.capacity,
                ids: it.ids.clone(),
            }),
            counters: self.counters.iter().map(|(name, it)| (name.clone(), counter(it))).collect(),
            lists: self.lists.iter().map(|(name, it)| (name.clone(), list(it))).collect(),
        };
        let spec = Spec { health: Some(health) };
        GameServer { object_meta: Some(meta), spec: Some(spec), status: Some(status) }
    }

    /// Players and how many there may be: tracked ones, else the list or the counter of that name.
    pub(super) fn players(&self) -> Option<(u32, u32)> {
        let number = |it: i64| u32::try_from(it.max(0)).unwrap_or(u32::MAX);
        let list = || self.lists.get("players").map(|it| (whole(it.values.len()), it.capacity));
        let counter = || self.counters.get("players").map(|it| (it.count, it.capacity));
        let tracked = self.players.as_ref().map(|it| (it.count(), it.capacity));
        let (count, capacity) = tracked.or_else(list).or_else(counter)?;
        Some((number(count), number(capacity)))
    }

    /// What is shown of it: the first of everything, so that a thousand servers are shown in one answer.
    pub(super) fn view(&self, state: &str, troubles: Troubles) -> view::Sdk {
        let mut room = Room { bytes: SHOWN_BYTES, not_shown: 0 };
        let mut lists = BTreeMap::new();
        for (name, it) in &self.lists {
            lists.insert(name.clone(), room.values(it.capacity, &it.values));
        }
        view::Sdk {
            state: state.to_owned(),
            labels: room.pairs(&self.labels),
            annotations: room.pairs(&self.annotations),
            counters: self.counters.clone(),
            lists,
            players: self.players.as_ref().map(|it| room.values(it.capacity, &it.ids)),
            not_shown: room.not_shown,
            waited: troubles.waited,
            refused: troubles.refused,
            strangers: troubles.strangers,
        }
    }
}

/// Room for what is shown.
struct Room {
    bytes: usize,
    not_shown: u64,
}

impl Room {
    /// Whether a text has room, as JSON writes it: some letters take six.
    fn has(&mut self, text: &str) -> bool {
        let cost = |byte: u8| if byte < 0x20 || byte == b'"' || byte == b'\\' { 6 } else { 1 };
        let all: usize = text.bytes().map(cost).sum();
        let left = self.bytes.checked_sub(all + 4);
        self.not_shown += u64::from(left.is_none());
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    fn pairs(&mut self, pairs: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let all = pairs.iter().filter(|(key, value)| self.has(key) && self.has(value));
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn values(&mut self, capacity: i64, values: &[String]) -> view::Values {
        let shown = values.iter().filter(|it| self.has(it)).cloned().collect();
        view::Values { count: u64::try_from(values.len()).unwrap_or(0), capacity, values: shown }
    }
}

/// Sets a label or an annotation, below the SDK's prefix.
fn set(
    map: &mut BTreeMap<String, String>,
    has_room: bool,
    key: &str,
    value: String,
) -> Answer<Empty> {
    let name = format!("sdk-{key}");
    if key.is_empty() || !is_label(&name) {
        let message = format!(
            "metadata `{key}`: a key has {} letters, digits and -_. at most, one of the first two at \
             its end",
            LABEL_CHARS_MAX - 4
        );
        return Err(Refusal::new(Code::InvalidArgument, message));
    }
    let key = format!("{PREFIX}{key}");
    if !has_room {
        return full();
    }
    if map.len() >= METADATA_MAX && !map.contains_key(&key) {
        let message = format!("{METADATA_MAX} labels, and as many annotations, are the most");
        return Err(Refusal::new(Code::ResourceExhausted, message));
    }
    map.insert(key, value);
    Ok(Empty {})
}
