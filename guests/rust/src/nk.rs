//! The server's functions. Names, arguments and results are those of the reference, docs/lua/functions.md:
//! every function there is called with [`call`]; those that games use most have a name here.

use crate::{Result, Value, wire};

/// Calls a function of the server with these arguments. It may wait meanwhile, and other calls run.
///
/// # Errors
/// The server refuses: what it says.
pub fn call(name: &str, arguments: &[Value]) -> Result<Vec<Value>> {
    wire::host_call(name, arguments)
}

/// The same for a function with one result.
///
/// # Errors
/// As [`call`].
pub fn call_one(name: &str, arguments: &[Value]) -> Result<Value> {
    Ok(call(name, arguments)?.into_iter().next().unwrap_or_default())
}

/// Writes objects to storage: maps with `collection`, `key`, `user_id`, `value`, `version` and permissions.
///
/// # Errors
/// As [`call`].
pub fn storage_write(objects: Vec<Value>) -> Result<Value> {
    call_one("storage_write", &[objects.into()])
}

/// Reads objects of storage: maps with `collection`, `key` and `user_id`.
///
/// # Errors
/// As [`call`].
pub fn storage_read(objects: Vec<Value>) -> Result<Value> {
    call_one("storage_read", &[objects.into()])
}

/// Starts a match of this name; gives its id.
///
/// # Errors
/// As [`call`].
pub fn match_create(name: &str, params: Value) -> Result<String> {
    let id = call_one("match_create", &[name.into(), params])?;
    Ok(id.as_str().unwrap_or_default().to_owned())
}

/// Writes a line to the server's log.
pub fn log_info(text: &str) {
    // Lines beyond the server's limit are left out there, and counted.
    let _ = call("logger_info", &[text.into()]);
}

/// True in the first instance of the process that asks: the place for what is done once at start.
pub fn run_once() -> bool {
    call_one("run_once", &[]).is_ok_and(|first| first == Value::Bool(true))
}
