//! `stream_*`: what scripts name streams, sessions and messages with, and what they are told. Who is in
//! a stream its room knows ([`CommonHost::stream`]).
//!
//! Source: Nakama 3.40, `server/runtime_lua_nakama.go`, for arguments, texts and the members of
//! results.

use std::sync::Arc;

use uuid::Uuid;
use wire::nakama::Envelope;
use wire::nakama::realtime::{Message, StreamData};

use super::Args;
use super::accounts::member;
use super::declare::{Table, ValueType, wrong_answer};
use super::json::encode_for;
use super::read::{Arg, FilledId, Read, Record, filled_id};
use crate::guest::{Answer, Ask, CommonHost, HostError, Reply};
use crate::nearest::did_you_mean;
use crate::node::Nodes;
use crate::stream::{
    Payer, STREAM_LABEL_BYTES_MAX, STREAM_STATUS_BYTES_MAX, SessionId, StreamAnswer, StreamId,
    StreamMessage, StreamMeta, StreamPresence, StreamRequest, no_session,
};
use crate::value::Value;

/// What a stream is named with.
const FIELDS: [&str; 4] = ["mode", "subject", "subcontext", "label"];

/// A stream: `{ mode, subject?, subcontext?, label? }`.
#[derive(Clone, Copy)]
pub(super) struct Stream;

/// A stream.
pub(super) const fn stream() -> Arg<Stream> {
    Arg::new(ValueType::Table, Stream)
}

impl Read for Stream {
    type Value<'a> = StreamId;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<StreamId, HostError> {
        let value = args.value(index);
        let Value::Map(members) = value else { return Err(args.mismatch(index, "table")) };
        let wrong = |what: &str| args.wrong(index, what);
        // Nakama passes over what it does not know. A slip of the finger would make one stream of many.
        let names = members.iter().filter_map(|(name, _)| std::str::from_utf8(name).ok());
        for name in names.filter(|name| !FIELDS.contains(name)) {
            let meant = did_you_mean(name, FIELDS);
            if !meant.is_empty() {
                return Err(wrong(&format!("stream has no {name}{meant}")));
            }
        }
        let part = |name: &str| value.member(name).filter(|part| !matches!(part, Value::Nil));
        let mode = match part("mode") {
            None => 0,
            Some(mode @ (Value::Int(_) | Value::Float(_))) => {
                let mode = mode.as_int().and_then(|mode| u8::try_from(mode).ok());
                mode.ok_or_else(|| wrong("stream mode must be a number from 0 to 255"))?
            }
            Some(_) => return Err(wrong("stream mode must be a number")),
        };
        let text = |name: &str| match part(name) {
            None => Ok(None),
            Some(part) => {
                let text = part.as_str();
                text.map(Some).ok_or_else(|| wrong(&format!("stream {name} must be a string")))
            }
        };
        let id = |name: &str| {
            let id = text(name)?.map(Uuid::try_parse).transpose();
            let wrong = |_| wrong(&format!("stream {name} must be a valid identifier"));
            id.map(Option::unwrap_or_default).map_err(wrong)
        };
        let (subject, subcontext) = (id("subject")?, id("subcontext")?);
        let label = text("label")?.unwrap_or_default();
        if label.len() > STREAM_LABEL_BYTES_MAX {
            let most = format!("stream label must be at most {STREAM_LABEL_BYTES_MAX} bytes");
            return Err(wrong(&most));
        }
        Ok(StreamId { mode, subject, subcontext, label: Arc::from(label) })
    }
}

/// The id of a user.
pub(super) const fn user() -> Arg<FilledId> {
    filled_id("expects user id", "expects valid user id")
}

/// The id of a session.
pub(super) const fn session() -> Arg<FilledId> {
    filled_id("expects session id", "expects valid session id")
}

/// The session of a presence `{ user_id, session_id }`, the first argument.
pub(super) fn kicked(args: &Args<'_>, presence: &Value) -> Result<SessionId, HostError> {
    let id = |name: &str| {
        let id = presence.member(name).and_then(Value::as_str);
        id.and_then(|id| Uuid::try_parse(id).ok())
            .filter(|id| !id.is_nil())
            .ok_or_else(|| args.wrong(0, &format!("expects each presence to have a valid {name}")))
    };
    Ok(SessionId { user_id: id("user_id")?, session_id: id("session_id")? })
}

/// What there is to know of a session in a stream, from the arguments behind the fourth.
pub(super) fn meta(
    args: &Args<'_>,
    is_hidden: bool,
    is_persistent: bool,
    status: &str,
) -> Result<StreamMeta, HostError> {
    if status.len() > STREAM_STATUS_BYTES_MAX {
        let most = format!("expects status to be at most {STREAM_STATUS_BYTES_MAX} bytes");
        return Err(args.wrong(5, &most));
    }
    Ok(StreamMeta { is_hidden, is_persistent, status: status.into() })
}

/// What is asked of a stream, if scripts may ask it.
fn ask(host: &dyn CommonHost, stream: StreamId, request: StreamRequest) -> Result<Ask, HostError> {
    stream.kind(host.directory().nodes()).check(&request)?;
    Ok(Ask::Stream { stream, request })
}

/// Wants something of a stream of which no answer comes, if scripts may.
fn want(
    host: &mut dyn CommonHost,
    stream: &StreamId,
    request: StreamRequest,
) -> Result<(), HostError> {
    stream.kind(host.directory().nodes()).check(&request)?;
    host.stream(stream, request)
}

/// What a stream's room says.
fn answer_of(answer: Answer) -> Result<StreamAnswer, HostError> {
    match answer? {
        Reply::Stream(answer) => Ok(answer),
        Reply::Text(_) | Reply::Fetched(_) | Reply::Returns { .. } => Err(wrong_answer()),
    }
}

/// The refusal of something that names a session, the second argument; `what` names others.
fn refusal(args: &Args<'_>, error: &HostError, what: &str) -> HostError {
    if *error == no_session() {
        return args.wrong(1, &error.message);
    }
    HostError::new(format!("{what}: {error}"))
}

const JOIN_FAILED: &str = "stream user join failed";
const UPDATE_FAILED: &str = "stream user update failed";

pub(super) fn join(
    host: &dyn CommonHost,
    args: &Args<'_>,
    stream: StreamId,
    (session, meta): (SessionId, StreamMeta),
) -> Result<Ask, HostError> {
    let asked = ask(host, stream, StreamRequest::Join(session, meta));
    asked.map_err(|error| refusal(args, &error, JOIN_FAILED))
}

/// Whether the session is new there.
pub(super) fn joined(
    _: &mut dyn CommonHost,
    args: &Args<'_>,
    answer: Answer,
) -> Result<bool, HostError> {
    match answer_of(answer).map_err(|error| refusal(args, &error, JOIN_FAILED))? {
        StreamAnswer::IsNew(is_new) => Ok(is_new),
        StreamAnswer::Done | StreamAnswer::Count(_) | StreamAnswer::Found(_) => Err(wrong_answer()),
    }
}

pub(super) fn update(
    host: &dyn CommonHost,
    args: &Args<'_>,
    stream: StreamId,
    (session, meta): (SessionId, StreamMeta),
) -> Result<Ask, HostError> {
    let asked = ask(host, stream, StreamRequest::Update(session, meta));
    asked.map_err(|error| refusal(args, &error, UPDATE_FAILED))
}

pub(super) fn updated(
    _: &mut dyn CommonHost,
    args: &Args<'_>,
    answer: Answer,
) -> Result<(), HostError> {
    answer_of(answer).map(drop).map_err(|error| refusal(args, &error, UPDATE_FAILED))
}

pub(super) fn leave(
    host: &mut dyn CommonHost,
    stream: &StreamId,
    session: SessionId,
    what: &str,
) -> Result<(), HostError> {
    let left = want(host, stream, StreamRequest::Leave(session));
    left.map_err(|error| HostError::new(format!("stream user {what} failed: {error}")))
}

pub(super) fn find(
    host: &dyn CommonHost,
    stream: StreamId,
    session: SessionId,
) -> Result<Ask, HostError> {
    ask(host, stream, StreamRequest::Find(session))
}

/// What there is to know of the session.
pub(super) fn found(
    _: &mut dyn CommonHost,
    _: &Args<'_>,
    answer: Answer,
) -> Result<Option<Table>, HostError> {
    let StreamAnswer::Found(found) = answer_of(answer)? else { return Err(wrong_answer()) };
    let value = |one: StreamPresence| {
        let StreamMeta { is_hidden, is_persistent, status } = one.meta;
        Table(Value::Map(vec![
            member("hidden", Value::Bool(is_hidden)),
            member("persistence", Value::Bool(is_persistent)),
            member("username", Value::text(&*one.presence.username)),
            member("status", Value::text(status)),
        ]))
    };
    Ok(found.into_iter().next().map(value))
}

pub(super) fn list(
    host: &dyn CommonHost,
    args: &Args<'_>,
    stream: StreamId,
    (hidden, visible): (bool, bool),
) -> Result<Ask, HostError> {
    let bytes_max = args.meter.bytes_left();
    ask(host, stream, StreamRequest::List { hidden, visible, bytes_max })
}

/// Who is in it.
pub(super) fn listed(
    host: &mut dyn CommonHost,
    args: &Args<'_>,
    answer: Answer,
) -> Result<Vec<Value>, HostError> {
    let StreamAnswer::Found(found) = answer_of(answer)? else { return Err(wrong_answer()) };
    args.produce(found.iter().map(StreamPresence::bytes).sum())?;
    let nodes = host.directory().nodes();
    let value = |StreamPresence { presence, meta }| {
        Value::Map(vec![
            member("user_id", Value::text(presence.user_id.to_string())),
            member("session_id", Value::text(presence.session_id.to_string())),
            member("node", Value::text(nodes.name_of(presence.node))),
            member("hidden", Value::Bool(meta.is_hidden)),
            member("persistence", Value::Bool(meta.is_persistent)),
            member("username", Value::text(&*presence.username)),
            member("status", Value::text(meta.status)),
        ])
    };
    Ok(found.into_iter().map(value).collect())
}

pub(super) fn count(host: &dyn CommonHost, stream: StreamId) -> Result<Ask, HostError> {
    ask(host, stream, StreamRequest::Count)
}

/// How many are in it.
pub(super) fn counted(
    _: &mut dyn CommonHost,
    _: &Args<'_>,
    answer: Answer,
) -> Result<u64, HostError> {
    match answer_of(answer)? {
        StreamAnswer::Count(count) => Ok(count),
        StreamAnswer::Done | StreamAnswer::IsNew(_) | StreamAnswer::Found(_) => Err(wrong_answer()),
    }
}

pub(super) fn close(host: &mut dyn CommonHost, stream: &StreamId) -> Result<(), HostError> {
    want(host, stream, StreamRequest::Close)
}

/// The sessions of presences, the third argument; none of them is everybody. Those of a node that there
/// is not are nobody's.
fn receivers(
    args: &Args<'_>,
    presences: &[Record<'_>],
    nodes: &Nodes,
) -> Result<Option<Vec<Uuid>>, HostError> {
    if presences.is_empty() {
        return Ok(None);
    }
    let text = |presence: &Record<'_>, name: &str, wrong: &str| match presence.member(name) {
        None => Ok(None),
        Some(value) => {
            let text = value.as_str().map(|text| Some(text.to_owned()));
            text.ok_or_else(|| args.wrong(2, wrong))
        }
    };
    let mut sessions = Vec::with_capacity(presences.len());
    for presence in presences {
        let id = text(presence, "session_id", "presence session id must be a string")?;
        let of_node = text(presence, "node", "presence node must be a string")?;
        let wrong = |_| args.wrong(2, "presence session id must be a valid identifier");
        let id = id.map(|id| Uuid::try_parse(&id)).transpose().map_err(wrong)?;
        if of_node.is_none_or(|other| other.is_empty() || nodes.named(&other).is_some()) {
            sessions.extend(id);
        }
    }
    sessions.sort_unstable();
    sessions.dedup();
    Ok(Some(sessions))
}

/// Sends text as `stream_data`, which has no sender.
pub(super) fn send(
    host: &mut dyn CommonHost,
    args: &Args<'_>,
    stream: &StreamId,
    (data, presences, is_reliable): (String, &[Record<'_>], bool),
) -> Result<(), HostError> {
    let to = receivers(args, presences, host.directory().nodes())?;
    let bytes = data.len() + stream.label.len();
    let stream_name = Some(stream.message());
    let message = StreamData { stream: stream_name, data, reliable: is_reliable, sender: None };
    let envelope = Envelope { cid: String::new(), message: Some(Message::StreamData(message)) };
    let payer = Payer::default();
    let message = Box::new(StreamMessage { envelope, bytes, to, is_reliable, payer });
    want(host, stream, StreamRequest::Send(message))
}

/// Sends any message that a server may send.
pub(super) fn send_raw(
    host: &mut dyn CommonHost,
    args: &Args<'_>,
    stream: &StreamId,
    (envelope, presences, is_reliable): (&Value, &[Record<'_>], bool),
) -> Result<(), HostError> {
    let wrong =
        |what: &str, error: &dyn std::fmt::Display| args.wrong(1, &format!("{what}: {error}"));
    let json = encode_for(envelope, args.meter)
        .map_err(|error| wrong("failed to convert envelope", &error))?;
    let envelope =
        Envelope::decode_json(&json).map_err(|error| wrong("not a valid envelope", &error))?;
    let to = receivers(args, presences, host.directory().nodes())?;
    let (bytes, payer) = (json.len(), Payer::default());
    let message = Box::new(StreamMessage { envelope, bytes, to, is_reliable, payer });
    want(host, stream, StreamRequest::Send(message))
}
