//! The functions of the host that are no rows of the table: what a module registers when it starts, and the
//! dispatcher of a match. Arguments are those of Nakama's, with presences as lists
//! `[user id, session id, name]`, or session ids alone where only they count.
//!
//! Source: nakama 3.40, `server/runtime_lua_match_core.go`, for the dispatcher.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use game::guest::{Broadcast, Dispatcher, HostError, Presence};
use game::host::Returns;
use game::node::NodeId;
use game::value::Value;
use script::lend;
use smallvec::{SmallVec, smallvec};
use uuid::Uuid;
use wasmtime::Result;

use crate::failure::Stop;
use crate::instance::State;

/// What one module may register.
const REGISTERED_MAX: usize = 4_096;

/// Bytes of a name that is registered.
const NAME_BYTES_MAX: usize = 256;

/// Presences of one call; no match has more members.
const PRESENCES_MAX: usize = 100_000;

/// What is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Rpc,
    Before,
    After,
    Event,
    Match,
}

impl Kind {
    /// How many there are.
    pub(crate) const COUNT: usize = 5;

    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "rpc" => Self::Rpc,
            "before" => Self::Before,
            "after" => Self::After,
            "event" => Self::Event,
            "match" => Self::Match,
            _ => return None,
        })
    }
}

type Outcome = std::result::Result<Returns, HostError>;

/// Runs a function of this file; `None` if it is not one.
///
/// # Errors
/// The guest breaks the convention.
pub(crate) fn run(state: &mut State, name: &str, values: &[Value]) -> Result<Option<Outcome>> {
    let nothing = |result: std::result::Result<(), HostError>| result.map(|()| Returns::new());
    Ok(Some(match name {
        "register" => return register(state, values).map(|()| Some(Ok(Returns::new()))),
        "run_once" => {
            let is_first = !state.module.ran_once.swap(true, Relaxed);
            Ok(smallvec![Value::Bool(is_first)])
        }
        "broadcast_message" => nothing(broadcast(false, values)),
        "broadcast_message_deferred" => nothing(broadcast(true, values)),
        "match_kick" => nothing(kick(values)),
        "match_label_update" => nothing(label_update(values)),
        _ => return Ok(None),
    }))
}

/// `register(kind, name)`: only while the module starts.
fn register(state: &mut State, values: &[Value]) -> Result<()> {
    let [kind, name] = values else {
        return Err(Stop::wrong("register: expects a kind and a name"));
    };
    let Some(kind) = kind.as_str().and_then(Kind::of) else {
        return Err(Stop::wrong("register: expects rpc, before, after, event or match"));
    };
    let name = name.as_str().filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX);
    let Some(name) = name else {
        return Err(Stop::wrong(format!("register: expects a name of 1-{NAME_BYTES_MAX} bytes")));
    };
    let Some(registered) = &mut state.registering else {
        return Err(Stop::wrong("register: only while the module starts"));
    };
    if registered.len() >= REGISTERED_MAX {
        return Err(Stop::wrong(format!("register: more than {REGISTERED_MAX} functions")));
    }
    // Names of matches are the game's own; of all else case does not count.
    let name = if kind == Kind::Match { name.to_owned() } else { name.to_lowercase() };
    registered.push((kind, name));
    Ok(())
}

/// Lends the dispatcher of the running match.
fn dispatch(
    call: impl FnOnce(&mut dyn Dispatcher) -> std::result::Result<(), HostError>,
) -> std::result::Result<(), HostError> {
    let stopped = || Err(HostError::new("match stopped"));
    let result = lend::host(|host| match host.dispatcher() {
        Some(dispatcher) => call(dispatcher),
        None => stopped(),
    });
    result.unwrap_or_else(stopped)
}

/// An argument that is neither missing nor nil.
fn given(values: &[Value], index: usize) -> Option<&Value> {
    values.get(index).filter(|value| !matches!(value, Value::Nil))
}

fn broadcast(deferred: bool, values: &[Value]) -> std::result::Result<(), HostError> {
    let wrong = HostError::new;
    let op_code = given(values, 0).and_then(Value::as_int);
    let op_code = op_code.ok_or_else(|| wrong("expects the op code to be a number"))?;
    let data = match given(values, 1) {
        None => Bytes::new(),
        Some(Value::Bytes(data)) => data.clone(),
        Some(_) => return Err(wrong("expects data to be a string or nil")),
    };
    let to = given(values, 2).map(sessions).transpose()?;
    let sender = given(values, 3).map(sender).transpose()?;
    let reliable = match given(values, 4) {
        None => true,
        Some(Value::Bool(reliable)) => *reliable,
        Some(_) => return Err(wrong("expects reliable to be a boolean")),
    };
    let message = Broadcast { op_code, data, to, sender, reliable, deferred };
    dispatch(|dispatcher| dispatcher.broadcast(message))
}

fn uuid_of(value: Option<&Value>) -> Option<Uuid> {
    value.and_then(Value::as_str).and_then(|text| Uuid::try_parse(text).ok())
}

/// The sessions of a list of presences or session ids.
fn sessions(list: &Value) -> std::result::Result<SmallVec<[Uuid; 8]>, HostError> {
    let Value::List(list) = list else {
        return Err(HostError::new("expects a list of presences or nil"));
    };
    if list.len() > PRESENCES_MAX {
        return Err(HostError::new("too many presences"));
    }
    let session = |presence: &Value| match presence {
        Value::List(parts) => uuid_of(parts.get(1)),
        id => uuid_of(Some(id)),
    };
    let found: Option<_> = list.iter().map(session).collect();
    found.ok_or_else(|| HostError::new("expects each presence to have a valid session id"))
}

fn sender(presence: &Value) -> std::result::Result<Presence, HostError> {
    let wrong = || HostError::new("expects sender to be a presence");
    let Value::List(parts) = presence else { return Err(wrong()) };
    let name = parts.get(2).and_then(Value::as_str);
    Ok(Presence {
        user_id: uuid_of(parts.first()).ok_or_else(wrong)?,
        session_id: uuid_of(parts.get(1)).ok_or_else(wrong)?,
        username: Arc::from(name.ok_or_else(wrong)?),
        // Who gets the message is not told of a node.
        node: NodeId::default(),
    })
}

fn kick(values: &[Value]) -> std::result::Result<(), HostError> {
    let Some(list) = given(values, 0) else { return Ok(()) };
    let sessions = sessions(list)?;
    dispatch(|dispatcher| {
        dispatcher.kick(&sessions);
        Ok(())
    })
}

fn label_update(values: &[Value]) -> std::result::Result<(), HostError> {
    let label = given(values, 0).and_then(Value::as_str);
    let label = label.ok_or_else(|| HostError::new("expects the label to be a string"))?;
    dispatch(|dispatcher| dispatcher.label_update(label))
}
