//! `sql_exec` and `sql_query`: a script's own statements. Values are bound as they are; what a
//! query returns is limited, so that one statement cannot fill the memory.

use bytes::Bytes;

use super::{Args, Returns, one, system::int};
use crate::db::{Cell, Param, Row};
use crate::guest::{Host, HostError};
use crate::value::Value;

/// Rows of one `sql_query`; more are an error.
const ROWS_MAX: usize = 10_000;

/// Bytes of text and blobs of one `sql_query`; more are an error.
const ANSWER_BYTES_MAX: usize = 16 << 20;

pub(super) fn sql_exec(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let sql = args.filled_text(0, "expects query string")?;
    let params = params(args)?;
    let count = host
        .db()
        .execute(&sql, &params)
        .map_err(|error| HostError::new(format!("sql exec error: {error}")))?;
    one(int(count))
}

pub(super) fn sql_query(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let sql = args.filled_text(0, "expects query string")?;
    let params = params(args)?;
    let mut rows = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    host.db()
        .query(&sql, &params, &mut |row| {
            count += 1;
            if count <= ROWS_MAX && bytes <= ANSWER_BYTES_MAX {
                rows.push(read(row, &mut bytes));
            }
        })
        .map_err(|error| HostError::new(format!("sql query error: {error}")))?;
    if count > ROWS_MAX {
        return Err(HostError::new(format!("sql query error: more than {ROWS_MAX} rows")));
    }
    if bytes > ANSWER_BYTES_MAX {
        return Err(HostError::new(format!("sql query error: more than {ANSWER_BYTES_MAX} bytes")));
    }
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

fn read(row: &dyn Row, bytes: &mut usize) -> Value {
    let mut members = Vec::with_capacity(row.width());
    for column in 0..row.width() {
        let value = match row.cell(column) {
            Cell::Null => Value::Nil,
            Cell::Int(number) => Value::Int(number),
            Cell::Real(number) => Value::Float(number),
            Cell::Text(text) => Value::text(text),
            Cell::Blob(blob) => Value::Bytes(blob.into()),
        };
        if let Value::Bytes(text) = &value {
            *bytes += text.len();
        }
        members.push((Bytes::copy_from_slice(row.name(column).as_bytes()), value));
    }
    Value::Map(members)
}
