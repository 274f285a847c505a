//! `notification_*` and `notifications_*` for scripts.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`, for arguments, texts and the members of
//! results, which differ from function to function there.

use std::collections::BTreeMap;

use event::Random;
use uuid::Uuid;

use super::Args;
use super::accounts::{committed, member, seconds, table};
use super::declare::ValueType;
use super::friends::{PageOf, next_page};
use super::read::{Arg, ENTRIES_MAX, FilledUtf8, Read, Record, filled_text};
use super::wallet::object_text;
use crate::guest::{Host, HostError};
use crate::notifications::{self, Draft, Notification, Update};
use crate::storage::SCRIPT_BYTES_MAX;
use crate::value::Value;

/// What refusals call an id.
const UUID: &str = "UUID";

/// The codes that scripts may use.
fn is_allowed(code: i64) -> bool {
    code > 0 || (-2_000..=-1_000).contains(&code)
}

/// Keeps and shows notifications, as one.
pub(super) fn send(host: &mut dyn Host, what: &str, drafts: Vec<Draft>) -> Result<(), HostError> {
    let bytes = drafts.iter().map(|draft| draft.subject.len() + draft.content.len()).sum();
    host.may_notify(drafts.len(), bytes)?;
    let now = host.now();
    let mut random = Random::from_seed(host.random().fork());
    let sent =
        committed(host, what, |db| notifications::send(db, now, &mut random, drafts.clone()))?;
    host.notify(sent);
    Ok(())
}

/// What a notification is about, in a line.
pub(super) const fn subject() -> Arg<FilledUtf8> {
    filled_text("expects subject to be a non-empty string")
}

/// What a notification holds, as JSON text.
#[derive(Clone, Copy)]
pub(super) struct Content;

/// What a notification holds.
pub(super) const fn content() -> Arg<Content> {
    Arg::new(ValueType::Table, Content)
}

impl Read for Content {
    type Value<'a> = String;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<String, HostError> {
        let value @ (Value::Map(_) | Value::List(_)) = args.value(index) else {
            return Err(args.wrong(index, "table expected"));
        };
        object_text(value, "content", args.meter).map_err(|what| args.wrong(index, &what))
    }
}

/// The code of a notification.
#[derive(Clone, Copy)]
pub(super) struct NotificationCode;

/// The code of a notification.
pub(super) const fn code() -> Arg<NotificationCode> {
    Arg::new(ValueType::Number, NotificationCode)
}

impl Read for NotificationCode {
    type Value<'a> = i32;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<i32, HostError> {
        let code = Some(args.int(index)?).filter(|code| is_allowed(*code));
        code.and_then(|code| i32::try_from(code).ok())
            .ok_or_else(|| args.wrong(index, "expects code number to be a positive integer"))
    }
}

/// The content among the members of a record; `None` when it is missing.
fn content_of(record: &Record<'_>) -> Result<Option<String>, HostError> {
    let Some(value) = record.member("content") else { return Ok(None) };
    if !matches!(value, Value::Map(_) | Value::List(_)) {
        return Err(record.wrong("expects content to be a table"));
    }
    object_text(value, "content", record.meter()).map(Some).map_err(|what| record.wrong(&what))
}

fn draft(record: &Record<'_>) -> Result<Draft, HostError> {
    let code = match record.member("code") {
        None => None,
        Some(value @ (Value::Int(_) | Value::Float(_))) => value.as_int(),
        Some(_) => return Err(record.wrong("expects code to be number")),
    };
    let code = code.filter(|code| is_allowed(*code)).and_then(|code| i32::try_from(code).ok());
    let is_persistent = match record.member("persistent") {
        None => false,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => return Err(record.wrong("expects persistent to be boolean")),
    };
    let subject = record.text("subject")?.filter(|text| !text.is_empty());
    let missing = |what: &str| record.wrong(&format!("expects {what}"));
    Ok(Draft {
        to: Some(
            record
                .id("user_id", UUID)?
                .filter(|id| !id.is_nil())
                .ok_or_else(|| missing("user_id to be provided and be a valid UUID"))?,
        ),
        subject: subject
            .ok_or_else(|| missing("subject to be provided and to be non-empty"))?
            .to_owned(),
        content: content_of(record)?
            .ok_or_else(|| missing("content to be provided and be valid JSON"))?,
        code: code.ok_or_else(|| missing("code to be provided and be a number above 0"))?,
        sender: record.id("sender_id", UUID)?.filter(|id| !id.is_nil()),
        is_persistent,
    })
}

pub(super) fn send_all(host: &mut dyn Host, records: &[Record<'_>]) -> Result<(), HostError> {
    let drafts = records.iter().map(draft).collect::<Result<Vec<_>, _>>()?;
    send(host, "failed to send notifications", drafts)
}

pub(super) fn list(
    host: &mut dyn Host,
    user_id: Uuid,
    limit: usize,
    cursor: &str,
) -> Result<PageOf, HostError> {
    let list = committed(host, "failed to list notifications", |db| {
        notifications::list(db, user_id, (limit, cursor), SCRIPT_BYTES_MAX)
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
    let rows = rows.collect();
    Ok((rows, next_page(if list.has_more { list.cursor } else { String::new() })))
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

pub(super) fn by_ids(
    host: &mut dyn Host,
    ids: &[Uuid],
    user_id: Option<Uuid>,
) -> Result<Vec<Value>, HostError> {
    let found = committed(host, "failed to get notifications", |db| {
        notifications::by_ids(db, user_id, ids)
    })?;
    found.iter().map(value_of).collect()
}

pub(super) fn delete(
    host: &mut dyn Host,
    ids: &[Uuid],
    user_id: Option<Uuid>,
) -> Result<(), HostError> {
    committed(host, "failed to delete notifications", |db| match user_id {
        Some(user_id) => notifications::delete(db, user_id, ids),
        None => notifications::delete_any(db, ids),
    })?;
    Ok(())
}

/// Refuses too many records, which are the first argument.
fn records_max(args: &Args<'_>, records: &[Record<'_>]) -> Result<(), HostError> {
    if records.len() > ENTRIES_MAX { Err(args.wrong(0, "too many ids")) } else { Ok(()) }
}

pub(super) fn delete_of_users(
    host: &mut dyn Host,
    args: &Args<'_>,
    records: &[Record<'_>],
) -> Result<(), HostError> {
    records_max(args, records)?;
    let mut by_user: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
    for record in records {
        let user_id = record.id("user_id", UUID)?.unwrap_or_default();
        by_user.entry(user_id).or_default().extend(record.id("notification_id", UUID)?);
    }
    committed(host, "failed to delete notifications", |db| {
        by_user.iter().try_for_each(|(user_id, ids)| notifications::delete(db, *user_id, ids))
    })?;
    Ok(())
}

pub(super) fn update(
    host: &mut dyn Host,
    args: &Args<'_>,
    records: &[Record<'_>],
) -> Result<(), HostError> {
    records_max(args, records)?;
    let filled = |record: &Record<'_>, name: &str| match record.text(name)? {
        Some("") => Err(record.wrong(&format!("expects {name} to be a non-empty string"))),
        text => Ok(text.map(str::to_owned)),
    };
    let update = |record: &Record<'_>| {
        Ok::<_, HostError>(Update {
            id: record.id("id", UUID)?.unwrap_or_default(),
            subject: filled(record, "subject")?,
            content: content_of(record)?,
            sender: record.id("sender", UUID)?,
        })
    };
    let updates = records.iter().map(update).collect::<Result<Vec<_>, _>>()?;
    committed(host, "failed to update notifications", |db| notifications::update(db, &updates))?;
    Ok(())
}
