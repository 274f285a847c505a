//! `sql_exec` and `sql_query`: a script's own statements. Values are bound as they are, but for ids
//! that are compared (`ids`); columns that are declared for ids ([`Row::is_id`]) come out as the
//! ids' text. What a statement may use is limited where it runs ([`crate::db::GuestBudget`]).

mod ids;

use bytes::Bytes;
use uuid::Uuid;

use super::Args;
use super::declare::{Need, ValueType};
use super::read::{Arg, Read};
use crate::db::{Cell, Param, Row};
use crate::guest::{Host, HostError};
use crate::value::Value;

pub(super) fn execute(
    host: &mut dyn Host,
    statement: &str,
    params: Vec<Param<'_>>,
) -> Result<u64, HostError> {
    let rewritten = ids::rewrite(statement, &params);
    let (statement, params) = with_ids(statement, params, rewritten.as_ref());
    host.db()
        .guest_execute(statement, &params)
        .map_err(|error| HostError::new(format!("sql exec error: {error}")))
}

pub(super) fn query(
    host: &mut dyn Host,
    query: &str,
    params: Vec<Param<'_>>,
) -> Result<Vec<Value>, HostError> {
    let rewritten = ids::rewrite(query, &params);
    let (query, params) = with_ids(query, params, rewritten.as_ref());
    let mut rows = Vec::new();
    let mut id_columns: Option<Vec<bool>> = None;
    host.db()
        .guest_query(query, &params, &mut |row| {
            let columns = 0..row.width();
            let are_ids =
                id_columns.get_or_insert_with(|| columns.map(|at| row.is_id(at)).collect());
            rows.push(read(row, are_ids));
        })
        .map_err(|error| HostError::new(format!("sql query error: {error}")))?;
    Ok(rows)
}

/// The parameters of a statement; nil is none.
#[derive(Clone, Copy)]
pub(super) struct Params;

/// The parameters of a statement.
pub(super) const fn params() -> Arg<Params> {
    Arg::new(ValueType::List, Params).when_nil(Need::OrEmpty)
}

impl Read for Params {
    type Value<'a> = Vec<Param<'a>>;

    fn read<'a>(&self, args: &Args<'a>, index: usize) -> Result<Vec<Param<'a>>, HostError> {
        let wrong = || args.wrong(index, "expects a list of params as a table");
        let param = |item: &'a Value| match item {
            Value::Nil => Ok(Param::Null),
            Value::Bool(flag) => Ok(Param::Int(i64::from(*flag))),
            Value::Int(number) => Ok(Param::Int(*number)),
            Value::Float(number) => Ok(Param::Real(*number)),
            Value::Bytes(bytes) => {
                Ok(std::str::from_utf8(bytes).map_or(Param::Blob(bytes), Param::Text))
            }
            Value::List(_) | Value::Map(_) => Err(wrong()),
        };
        args.list(index).map_err(|_| wrong())?.iter().map(param).collect()
    }
}

/// The statement and its parameters, those of its ids behind the script's.
fn with_ids<'a>(
    sql: &'a str,
    mut params: Vec<Param<'a>>,
    rewritten: Option<&'a ids::Rewritten>,
) -> (&'a str, Vec<Param<'a>>) {
    let Some(rewritten) = rewritten else { return (sql, params) };
    params.extend(rewritten.ids.iter().map(|id| Param::Blob(id.as_bytes())));
    (&rewritten.sql, params)
}

fn read(row: &dyn Row, are_ids: &[bool]) -> Value {
    let mut members = Vec::with_capacity(row.width());
    for (column, is_id) in are_ids.iter().enumerate() {
        let value = match row.cell(column) {
            Cell::Null => Value::Nil,
            Cell::Int(number) => Value::Int(number),
            Cell::Real(number) => Value::Float(number),
            Cell::Text(text) => Value::text(text),
            Cell::Blob(blob) => match Uuid::from_slice(&blob) {
                Ok(id) if *is_id => Value::text(id.to_string()),
                _ => Value::Bytes(blob.into()),
            },
        };
        members.push((Bytes::copy_from_slice(row.name(column).as_bytes()), value));
    }
    Value::Map(members)
}
