//! The `dispatcher` of a match: arguments are read straight from JavaScript, without a detour through
//! `Value`s, because `broadcastMessage` is what a busy match does most.
//!
//! Source: nakama 3.40, `server/runtime_javascript_match_core.go`.

use std::sync::Arc;

use bytes::Bytes;
use game::guest::{Broadcast, Dispatcher, HostError, Presence};
use game::node::NodeId;
use rquickjs::function::{Opt, Rest};
use rquickjs::{Ctx, Exception, Function, Object, Value as JsValue};
use script::lend;
use smallvec::SmallVec;
use uuid::Uuid;

use crate::convert;

/// Presences of one call; no match has more members.
const PRESENCES_MAX: usize = 100_000;

type Sessions = SmallVec<[Uuid; 8]>;

/// What is wrong with an argument; or an exception is pending.
enum Wrong {
    Type(&'static str),
    Thrown(rquickjs::Error),
}

impl From<rquickjs::Error> for Wrong {
    fn from(error: rquickjs::Error) -> Self {
        Self::Thrown(error)
    }
}

/// The dispatcher's functions.
pub(crate) fn make(ctx: Ctx<'_>) -> rquickjs::Result<Object<'_>> {
    let dispatcher = Object::new(ctx.clone())?;
    dispatcher.set("broadcastMessage", Function::new(ctx.clone(), broadcast_now)?)?;
    dispatcher.set("broadcastMessageDeferred", Function::new(ctx.clone(), broadcast_later)?)?;
    dispatcher.set("matchKick", Function::new(ctx.clone(), kick)?)?;
    dispatcher.set("matchLabelUpdate", Function::new(ctx, label_update)?)?;
    Ok(dispatcher)
}

/// Lends the dispatcher of the running match.
fn dispatch(
    ctx: &Ctx<'_>,
    call: impl FnOnce(&mut dyn Dispatcher) -> Result<(), HostError>,
) -> rquickjs::Result<()> {
    let stopped = || Err(HostError::new("match stopped"));
    let result = lend::host(|host| match host.dispatcher() {
        Some(dispatcher) => call(dispatcher),
        None => stopped(),
    });
    let result = result.unwrap_or_else(stopped);
    result.map_err(|error| Exception::throw_message(ctx, &error.message))
}

fn broadcast_now<'js>(ctx: Ctx<'js>, args: Rest<JsValue<'js>>) -> rquickjs::Result<()> {
    broadcast(&ctx, false, &args.0)
}

fn broadcast_later<'js>(ctx: Ctx<'js>, args: Rest<JsValue<'js>>) -> rquickjs::Result<()> {
    broadcast(&ctx, true, &args.0)
}

fn broadcast<'js>(ctx: &Ctx<'js>, deferred: bool, args: &[JsValue<'js>]) -> rquickjs::Result<()> {
    match read_broadcast(deferred, args) {
        Ok(message) => dispatch(ctx, |dispatcher| dispatcher.broadcast(message)),
        Err(wrong) => Err(thrown(ctx, wrong)),
    }
}

fn thrown(ctx: &Ctx<'_>, wrong: Wrong) -> rquickjs::Error {
    match wrong {
        Wrong::Type(text) => Exception::throw_type(ctx, text),
        Wrong::Thrown(error) => error,
    }
}

/// An argument that is neither missing nor null.
fn given<'a, 'js>(args: &'a [JsValue<'js>], index: usize) -> Option<&'a JsValue<'js>> {
    args.get(index).filter(|value| !value.is_null() && !value.is_undefined())
}

#[expect(clippy::cast_possible_truncation, reason = "Nakama cuts off too; `as` saturates")]
fn read_broadcast(deferred: bool, args: &[JsValue<'_>]) -> Result<Broadcast, Wrong> {
    let op_code = given(args, 0).and_then(JsValue::as_number);
    let op_code = op_code.ok_or(Wrong::Type("expects the op code to be a number"))? as i64;
    let data = match given(args, 1) {
        None => Bytes::new(),
        Some(data) => match data.as_string() {
            Some(text) => text.to_string()?.into(),
            None => convert::binary(data)?
                .ok_or(Wrong::Type("expects data to be an ArrayBuffer, a string or nil"))?
                .into(),
        },
    };
    let to = given(args, 2).map(sessions).transpose()?;
    let sender = given(args, 3).map(read_sender).transpose()?;
    let reliable = match given(args, 4) {
        None => true,
        Some(flag) => flag.as_bool().ok_or(Wrong::Type("expects reliable to be a boolean"))?,
    };
    Ok(Broadcast { op_code, data, to, sender, reliable, deferred })
}

/// The session ids of a list of presences.
fn sessions(list: &JsValue<'_>) -> Result<Sessions, Wrong> {
    let wrong = Wrong::Type("expects an array of presences or nil");
    let Some(list) = list.as_array() else { return Err(wrong) };
    let length = convert::length(list.as_object())?;
    if length.is_none_or(|length| length > PRESENCES_MAX) {
        return Err(Wrong::Type("too many presences"));
    }
    let mut sessions = Sessions::new();
    for presence in list.iter::<JsValue<'_>>() {
        let presence = presence?;
        let Some(presence) = presence.as_object() else { return Err(wrong) };
        let found = uuid_of(presence, "sessionId")?;
        sessions.push(found.ok_or(Wrong::Type("expects each presence to have a valid sessionId"))?);
    }
    Ok(sessions)
}

fn uuid_of(presence: &Object<'_>, name: &str) -> Result<Option<Uuid>, Wrong> {
    Ok(text_of(presence, name)?.and_then(|text| Uuid::try_parse(&text).ok()))
}

fn text_of(presence: &Object<'_>, name: &str) -> Result<Option<String>, Wrong> {
    let value: JsValue<'_> = presence.get(name)?;
    Ok(value.as_string().map(rquickjs::String::to_string).transpose()?)
}

fn read_sender(presence: &JsValue<'_>) -> Result<Presence, Wrong> {
    let object = presence.as_object().ok_or(Wrong::Type("expects sender to be a presence"))?;
    let user_id = uuid_of(object, "userId")?;
    let session_id = uuid_of(object, "sessionId")?;
    let username = text_of(object, "username")?;
    Ok(Presence {
        user_id: user_id.ok_or(Wrong::Type("expects presence to have a valid userId"))?,
        session_id: session_id.ok_or(Wrong::Type("expects presence to have a valid sessionId"))?,
        username: Arc::from(username.ok_or(Wrong::Type("expects username to be a string"))?),
        // Who gets the message is not told of a node.
        node: NodeId::default(),
    })
}

fn kick<'js>(ctx: Ctx<'js>, presences: Opt<JsValue<'js>>) -> rquickjs::Result<()> {
    let given = presences.0.filter(|value| !value.is_null() && !value.is_undefined());
    let Some(list) = given else { return Ok(()) };
    let sessions = sessions(&list).map_err(|wrong| thrown(&ctx, wrong))?;
    dispatch(&ctx, |dispatcher| {
        dispatcher.kick(&sessions);
        Ok(())
    })
}

fn label_update<'js>(ctx: Ctx<'js>, label: Opt<JsValue<'js>>) -> rquickjs::Result<()> {
    let label = label.0.as_ref().and_then(JsValue::as_string);
    let Some(label) = label else {
        return Err(Exception::throw_type(&ctx, "expects the label to be a string"));
    };
    let label = label.to_string()?;
    dispatch(&ctx, |dispatcher| dispatcher.label_update(&label))
}
