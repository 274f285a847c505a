//! `sql_exec` and `sql_query`: a script's own statements. Values are bound as they are; what a
//! statement may use is limited where it runs ([`crate::db::GuestBudget`]).

use bytes::Bytes;

use super::{Args, Returns, one, system::int};
use crate::db::{Cell, Param, Row};
use crate::guest::{Host, HostError};
use crate::value::Value;

pub(super) fn sql_exec(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let sql = args.filled_text(0, "expects query string")?;
    let params = params(args)?;
    let count = host
        .db()
        .guest_execute(&sql, &params)
        .map_err(|error| HostError::new(format!("sql exec error: {error}")))?;
    one(int(count))
}

pub(super) fn sql_query(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let sql = args.filled_text(0, "expects query string")?;
    let params = params(args)?;
    let mut rows = Vec::new();
    host.db()
        .guest_query(&sql, &params, &mut |row| rows.push(read(row)))
        .map_err(|error| HostError::new(format!("sql query error: {error}")))?;
    one(Value::List(rows))
}

fn params<'a>(args: &Args<'a>) -> Result<Vec<Param<'a>>, HostError> {
    let wrong = || args.wrong(1, "expects a list of params as a table");
    let items = args.list(1).map_err(|_| wrong())?;
    items
        .iter()
        .map(|item| match item {
            Value::Nil => Ok(Param::Null),
            Value::Bool(flag) => Ok(Param::Int(i64::from(*flag))),
            Value::Int(number) => Ok(Param::Int(*number)),
            Value::Float(number) => Ok(Param::Real(*number)),
            Value::Bytes(bytes) => {
                Ok(std::str::from_utf8(bytes).map_or(Param::Blob(bytes), Param::Text))
            }
            Value::List(_) | Value::Map(_) => Err(wrong()),
        })
        .collect()
}

fn read(row: &dyn Row) -> Value {
    let mut members = Vec::with_capacity(row.width());
    for column in 0..row.width() {
        let value = match row.cell(column) {
            Cell::Null => Value::Nil,
            Cell::Int(number) => Value::Int(number),
            Cell::Real(number) => Value::Float(number),
            Cell::Text(text) => Value::text(text),
            Cell::Blob(blob) => Value::Bytes(blob.into()),
        };
        members.push((Bytes::copy_from_slice(row.name(column).as_bytes()), value));
    }
    Value::Map(members)
}
