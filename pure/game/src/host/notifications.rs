//! `notification_*` and `notifications_*` for scripts.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`, for arguments, texts and the members of
//! results, which differ from function to function there.

use std::borrow::Cow;
use std::collections::BTreeMap;

use event::Random;
use uuid::Uuid;

use super::accounts::{durably, member, seconds, table};
use super::friends::{limit, page_of};
use super::storage::{Item, items};
use super::wallet::object_text;
use super::{Args, Returns, none, one};
use crate::guest::{Host, HostError};
use crate::notifications::{self, Draft, LIST_LIMIT_MAX, Notification, Update};
use crate::storage::SCRIPT_BYTES_MAX;
use crate::value::Value;

/// Ids of one call; more are an error.
const IDS_MAX: usize = 1_000;

/// The codes that scripts may use.
fn is_allowed(code: i64) -> bool {
    code > 0 || (-2_000..=-1_000).contains(&code)
}

/// Keeps and shows notifications, as one.
fn send(host: &mut dyn Host, what: &str, drafts: Vec<Draft>) -> Result<Returns, HostError> {
    let bytes = drafts.iter().map(|draft| draft.subject.len() + draft.content.len()).sum();
    host.may_notify(drafts.len(), bytes)?;
    let now = host.now();
    let mut random = Random::from_seed(host.random().fork());
    let sent = durably(host, what, |db| notifications::send(db, now, &mut random, drafts))?;
    host.notify(sent);
    none()
}

fn subject(args: &Args<'_>, index: usize) -> Result<String, HostError> {
    args.filled_text(index, "expects subject to be a non-empty string").map(Cow::into_owned)
}

fn content(args: &Args<'_>, index: usize) -> Result<String, HostError> {
    if !matches!(args.value(index), Value::Map(_) | Value::List(_)) {
        return Err(args.wrong(index, "table expected"));
    }
    object_text(args.value(index), "content", args.meter).map_err(|what| args.wrong(index, &what))
}

fn code(args: &Args<'_>, index: usize) -> Result<i32, HostError> {
    let code = Some(args.int(index)?).filter(|code| is_allowed(*code));
    code.and_then(|code| i32::try_from(code).ok())
        .ok_or_else(|| args.wrong(index, "expects code number to be a positive integer"))
}

pub(super) fn notification_send(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    const WRONG_SENDER: &str =
        "expects sender_id to either be not set, empty string or a valid UUID";
    let draft = Draft {
        to: Some(args.uuid(0, "expects user_id to be a valid UUID")?),
        subject: subject(args, 1)?,
        content: content(args, 2)?,
        code: code(args, 3)?,
        sender: args.uuid_or_nil(4, WRONG_SENDER)?.filter(|id| !id.is_nil()),
        is_persistent: args.bool_or(5, false)?,
    };
    send(host, "failed to send notifications", vec![draft])
}

pub(super) fn notification_send_all(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let draft = Draft {
        to: None,
        subject: subject(args, 0)?,
        content: content(args, 1)?,
        code: code(args, 2)?,
        sender: None,
        is_persistent: args.bool_or(3, false)?,
    };
    send(host, "failed to send notification", vec![draft])
}

/// An id among the members of an item; `None` when it is missing.
fn id(item: &Item<'_>, name: &str) -> Result<Option<Uuid>, HostError> {
    let wrong = || item.wrong(&format!("expects {name} to be a valid UUID"));
    item.text(name)?.map(|text| Uuid::try_parse(text).map_err(|_| wrong())).transpose()
}

/// The content among the members of an item; `None` when it is missing.
fn item_content(item: &Item<'_>) -> Result<Option<String>, HostError> {
    let Some(value) = item.member("content") else { return Ok(None) };
    if !matches!(value, Value::Map(_) | Value::List(_)) {
        return Err(item.wrong("expects content to be a table"));
    }
    object_text(value, "content", item.meter()).map(Some).map_err(|what| item.wrong(&what))
}

fn draft(item: &Item<'_>) -> Result<Draft, HostError> {
    let code = match item.member("code") {
        None => None,
        Some(value @ (Value::Int(_) | Value::Float(_))) => value.as_int(),
        Some(_) => return Err(item.wrong("expects code to be number")),
    };
    let code = code.filter(|code| is_allowed(*code)).and_then(|code| i32::try_from(code).ok());
    let is_persistent = match item.member("persistent") {
        None => false,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => return Err(item.wrong("expects persistent to be boolean")),
    };
    let subject = item.text("subject")?.filter(|text| !text.is_empty());
    let missing = |what: &str| item.wrong(&format!("expects {what}"));
    Ok(Draft {
        to: Some(
            id(item, "user_id")?
                .filter(|id| !id.is_nil())
                .ok_or_else(|| missing("user_id to be provided and be a valid UUID"))?,
        ),
        subject: subject
            .ok_or_else(|| missing("subject to be provided and to be non-empty"))?
            .to_owned(),
        content: item_content(item)?
            .ok_or_else(|| missing("content to be provided and be valid JSON"))?,
        code: code.ok_or_else(|| missing("code to be provided and be a number above 0"))?,
        sender: id(item, "sender_id")?.filter(|id| !id.is_nil()),
        is_persistent,
    })
}

pub(super) fn notifications_send(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let items = items(args, 0, "expects a valid set of notifications")?;
    let drafts = items.iter().map(draft).collect::<Result<Vec<_>, _>>()?;
    send(host, "failed to send notifications", drafts)
}

pub(super) fn notifications_list(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let user_id = args.uuid(0, "expects user_id to be a valid uuid")?;
    let limit = limit(args, 1, 100, LIST_LIMIT_MAX)?;
    let cursor = args.text_or_nil(2)?.unwrap_or_default();
    let list = durably(host, "failed to list notifications", |db| {
        notifications::list(db, user_id, (limit, &cursor), SCRIPT_BYTES_MAX)
    })?;
    // Their names and the text of the content are Nakama's; `notifications_get_id` has others.
    let rows = list.notifications.into_iter().map(|one| {
        Value::Map(vec![
            member("id", Value::text(one.id.to_string())),
            member("subject", Value::text(one.subject)),
            member("content", Value::text(one.content)),
            member("code", Value::Int(one.code.into())),
            member(
                "senderId",
                Value::text(one.sender.map(|id| id.to_string()).unwrap_or_default()),
            ),
            member("persistent", Value::Bool(true)),
            member("createTime", seconds(one.create_time_ms)),
        ])
    });
    let cursor = if list.has_more { list.cursor } else { String::new() };
    Ok(page_of(Value::List(rows.collect()), cursor))
}

/// The ids in a list argument.
fn ids(args: &Args<'_>, index: usize) -> Result<Vec<Uuid>, HostError> {
    let items = args.list(index).map_err(|_| args.wrong(index, "invalid notification ids list"))?;
    if items.len() > IDS_MAX {
        return Err(args.wrong(index, "too many ids"));
    }
    let id = |item: &Value| item.as_str().and_then(|id| Uuid::try_parse(id).ok());
    let wrong = || args.wrong(index, "each notification id must be a valid id");
    items.iter().map(|item| id(item).ok_or_else(wrong)).collect()
}

fn value_of(one: &Notification) -> Result<Value, HostError> {
    let content = table(&one.content, || format!("content of notification {}", one.id))?;
    let mut members = vec![
        member("id", Value::text(one.id.to_string())),
        member("user_id", Value::text(one.user_id.unwrap_or_default().to_string())),
        member("subject", Value::text(&*one.subject)),
        member("content", content),
        member("code", Value::Int(one.code.into())),
        member("create_time", seconds(one.create_time_ms)),
        member("persistent", Value::Bool(true)),
    ];
    if let Some(sender) = one.sender {
        members.push(member("sender_id", Value::text(sender.to_string())));
    }
    Ok(Value::Map(members))
}

pub(super) fn notifications_get_id(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let ids = ids(args, 0)?;
    let user_id = args.uuid_or_nil(1, "expects user_id to be a valid UUID")?;
    let found = durably(host, "failed to get notifications", |db| {
        notifications::by_ids(db, user_id, &ids)
    })?;
    one(Value::List(found.iter().map(value_of).collect::<Result<_, _>>()?))
}

pub(super) fn notifications_delete_id(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let ids = ids(args, 0)?;
    let user_id = args.uuid_or_nil(1, "expects user_id to be a valid UUID")?;
    durably(host, "failed to delete notifications", |db| match user_id {
        Some(user_id) => notifications::delete(db, user_id, &ids),
        None => notifications::delete_any(db, &ids),
    })?;
    none()
}

pub(super) fn notifications_delete(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let items = items(args, 0, "expects a valid set of notifications")?;
    if items.len() > IDS_MAX {
        return Err(args.wrong(0, "too many ids"));
    }
    let mut by_user: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
    for item in &items {
        let user_id = id(item, "user_id")?.unwrap_or_default();
        by_user.entry(user_id).or_default().extend(id(item, "notification_id")?);
    }
    durably(host, "failed to delete notifications", |db| {
        by_user.iter().try_for_each(|(user_id, ids)| notifications::delete(db, *user_id, ids))
    })?;
    none()
}

pub(super) fn notifications_update(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let items = items(args, 0, "expects a valid set of data")?;
    if items.len() > IDS_MAX {
        return Err(args.wrong(0, "too many ids"));
    }
    let filled = |item: &Item<'_>, name: &str| match item.text(name)? {
        Some("") => Err(item.wrong(&format!("expects {name} to be a non-empty string"))),
        text => Ok(text.map(str::to_owned)),
    };
    let update = |item: &Item<'_>| {
        Ok::<_, HostError>(Update {
            id: id(item, "id")?.unwrap_or_default(),
            subject: filled(item, "subject")?,
            content: item_content(item)?,
            sender: id(item, "sender")?,
        })
    };
    let updates = items.iter().map(update).collect::<Result<Vec<_>, _>>()?;
    durably(host, "failed to update notifications", |db| notifications::update(db, &updates))?;
    none()
}
