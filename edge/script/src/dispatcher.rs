//! The `dispatcher` of a match: arguments are read straight from Lua, without a detour through
//! `Value`s, because `broadcast_message` is what a busy match does most.
//!
//! Every function returns nil, or the text of the error that the prelude raises.
//!
//! Source: nakama 3.40, `server/runtime_lua_match_core.go`.

use std::sync::Arc;

use bytes::Bytes;
use game::guest::{Broadcast, Dispatcher, HostError, Presence};
use game::node::NodeId;
use mlua::{Function, Lua, LuaString, Table, Value as LuaValue};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::lend;

/// Presences of one call; no match has more members.
const PRESENCES_MAX: usize = 100_000;

type Sessions = SmallVec<[Uuid; 8]>;

/// An error's text, without the function's name.
struct Wrong(u8, &'static str);

/// The function behind one of the dispatcher's.
///
/// # Errors
/// There is none of that name.
pub(crate) fn function(lua: &Lua, name: &str) -> mlua::Result<Function> {
    match name {
        "broadcast_message" => lua.create_function(|_, args| Ok(broadcast(false, args))),
        "broadcast_message_deferred" => lua.create_function(|_, args| Ok(broadcast(true, args))),
        "match_kick" => lua.create_function(|_, presences: LuaValue| Ok(kick(&presences))),
        "match_label_update" => lua.create_function(|_, label: LuaValue| Ok(label_update(&label))),
        _ => Err(mlua::Error::runtime(format!("no native function {name}"))),
    }
}

/// Lends the dispatcher of the running match.
fn dispatch(call: impl FnOnce(&mut dyn Dispatcher) -> Result<(), HostError>) -> Option<String> {
    let stopped = || Some("match stopped".to_owned());
    lend::host(|host| match host.dispatcher() {
        Some(dispatcher) => call(dispatcher).err().map(|error| error.message),
        None => stopped(),
    })
    .unwrap_or_else(stopped)
}

type BroadcastArgs = (LuaValue, LuaValue, LuaValue, LuaValue, LuaValue);

fn broadcast(deferred: bool, args: BroadcastArgs) -> Option<String> {
    let name = if deferred { "broadcast_message_deferred" } else { "broadcast_message" };
    let message = match read_broadcast(deferred, &args) {
        Ok(message) => message,
        Err(wrong) => return Some(wrong.text(name)),
    };
    dispatch(|dispatcher| dispatcher.broadcast(message))
}

impl Wrong {
    fn text(&self, name: &str) -> String {
        format!("bad argument #{} to {name} ({})", self.0, self.1)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "Nakama cuts off too; `as` saturates")]
fn read_broadcast(deferred: bool, args: &BroadcastArgs) -> Result<Broadcast, Wrong> {
    let (op_code, data, presences, sender, reliable) = args;
    let op_code = match op_code {
        LuaValue::Integer(number) => *number,
        LuaValue::Number(number) => *number as i64,
        _ => return Err(Wrong(1, "number expected")),
    };
    let data = match data {
        LuaValue::Nil => Bytes::new(),
        LuaValue::String(text) => Bytes::copy_from_slice(&text.as_bytes()),
        _ => return Err(Wrong(2, "expects data to be a string or nil")),
    };
    let to = match presences {
        LuaValue::Nil => None,
        LuaValue::Table(list) => Some(sessions(list, 3)?),
        _ => return Err(Wrong(3, "table expected")),
    };
    let sender = match sender {
        LuaValue::Nil => None,
        LuaValue::Table(presence) => Some(read_sender(presence)?),
        _ => return Err(Wrong(4, "table expected")),
    };
    let reliable = match reliable {
        LuaValue::Nil => true,
        LuaValue::Boolean(flag) => *flag,
        _ => return Err(Wrong(5, "boolean expected")),
    };
    Ok(Broadcast { op_code, data, to, sender, reliable, deferred })
}

/// The session ids of a list of presences. Any keys will do, as in Nakama.
fn sessions(list: &Table, argument: u8) -> Result<Sessions, Wrong> {
    let mut sessions = Sessions::new();
    let mut wrong = None;
    let walked = list.for_each(|_: LuaValue, presence: LuaValue| {
        let found = match &presence {
            LuaValue::Table(presence) => uuid_of(presence, "session_id"),
            _ => None,
        };
        match found {
            Some(session) if sessions.len() < PRESENCES_MAX => sessions.push(session),
            Some(_) => wrong = Some(Wrong(argument, "too many presences")),
            None if matches!(presence, LuaValue::Table(_)) => {
                let text = "expects each presence to have a valid session_id";
                wrong = Some(Wrong(argument, text));
            }
            None => wrong = Some(Wrong(argument, "expects a valid set of presences")),
        }
        Ok(())
    });
    match wrong {
        Some(wrong) => Err(wrong),
        None if walked.is_err() => Err(Wrong(argument, "expects a valid set of presences")),
        None => Ok(sessions),
    }
}

fn uuid_of(presence: &Table, field: &str) -> Option<Uuid> {
    let text: LuaString = presence.raw_get(field).ok()?;
    Uuid::try_parse_ascii(&text.as_bytes()).ok()
}

fn read_sender(presence: &Table) -> Result<Presence, Wrong> {
    let user_id =
        uuid_of(presence, "user_id").ok_or(Wrong(4, "expects presence to have a valid user_id"))?;
    let session_id = uuid_of(presence, "session_id")
        .ok_or(Wrong(4, "expects presence to have a valid session_id"))?;
    let username = match presence.raw_get::<LuaString>("username") {
        Ok(name) => Arc::from(name.to_string_lossy()),
        Err(_) => return Err(Wrong(4, "expects username to be string")),
    };
    // Who gets the message is not told of a node.
    Ok(Presence { user_id, session_id, username, node: NodeId::default() })
}

fn kick(presences: &LuaValue) -> Option<String> {
    let sessions = match presences {
        LuaValue::Nil => return None,
        LuaValue::Table(list) => sessions(list, 1),
        _ => Err(Wrong(1, "table expected")),
    };
    match sessions {
        Ok(sessions) => dispatch(|dispatcher| {
            dispatcher.kick(&sessions);
            Ok(())
        }),
        Err(wrong) => Some(wrong.text("match_kick")),
    }
}

fn label_update(label: &LuaValue) -> Option<String> {
    let LuaValue::String(label) = label else {
        return Some(Wrong(1, "string expected").text("match_label_update"));
    };
    let Ok(label) = label.to_str() else {
        return Some(Wrong(1, "expects UTF-8 text").text("match_label_update"));
    };
    dispatch(|dispatcher| dispatcher.label_update(&label))
}
