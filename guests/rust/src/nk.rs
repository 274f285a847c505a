//! The server's functions. Names, arguments and results are those of the reference, docs/lua/functions.md, and what each
//! does is said there with an example: all that work have a name here, and [`call`] calls any by its name.
//!
//! A string may be text or bytes; what is optional is nil if it is `None`. Tables are [`Value`]s: a row of accounts,
//! users, objects, matches or friends is read as a message with [`ApiMessage::read`](crate::ApiMessage::read), as in
//! `api::Account::read(&nk::account_get_id(id)?)`.

mod functions;

use crate::{Error, Result, Value, wire};

pub use functions::*;

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

/// Text or bytes.
pub trait Text: Into<Value> {}

impl Text for &str {}
impl Text for String {}
impl Text for &String {}
impl Text for &[u8] {}

/// A number.
pub trait Number: Into<Value> {}

impl Number for i64 {}
impl Number for i32 {}
impl Number for u32 {}
impl Number for f64 {}

/// What a function gives.
trait Outcome: Sized {
    fn of(value: Value) -> Result<Self>;
}

fn wrong<T>(value: &Value, wanted: &str) -> Result<T> {
    Err(Error::from(format!("the server has given {value:?}, which is no {wanted}")))
}

impl Outcome for Value {
    fn of(value: Value) -> Result<Self> {
        Ok(value)
    }
}

impl Outcome for bool {
    fn of(value: Value) -> Result<Self> {
        value.as_bool().map_or_else(|| wrong(&value, "boolean"), Ok)
    }
}

impl Outcome for i64 {
    fn of(value: Value) -> Result<Self> {
        value.as_int().map_or_else(|| wrong(&value, "whole number"), Ok)
    }
}

impl Outcome for Vec<u8> {
    fn of(value: Value) -> Result<Self> {
        if let Value::Bytes(bytes) = value { Ok(bytes) } else { wrong(&value, "string") }
    }
}

impl Outcome for String {
    fn of(value: Value) -> Result<Self> {
        value.as_str().map_or_else(|| wrong(&value, "text"), |text| Ok(text.to_owned()))
    }
}

impl Outcome for Vec<Value> {
    fn of(value: Value) -> Result<Self> {
        match value {
            Value::List(items) => Ok(items),
            Value::Map(members) if members.is_empty() => Ok(Vec::new()),
            other => wrong(&other, "list"),
        }
    }
}

impl<T: Outcome> Outcome for Option<T> {
    fn of(value: Value) -> Result<Self> {
        if value == Value::Nil { Ok(None) } else { T::of(value).map(Some) }
    }
}

/// Declares functions of the server.
macro_rules! server_functions {
    ($(
        #[doc = $doc:literal]
        $name:ident($($argument:ident: $type:ty),*) -> ($($result:ty),*);
    )+) => {
        $(
            #[doc = $doc]
            ///
            /// # Errors
            /// The server refuses: what it says.
            #[allow(clippy::too_many_arguments, clippy::let_unit_value, unused_parens, reason = "as the server's function")]
            pub fn $name($($argument: $type),*) -> $crate::Result<($($result),*)> {
                let results = $crate::nk::call(stringify!($name), &[$($argument.into()),*])?;
                #[allow(unused_mut, unused_variables, reason = "functions without results")]
                let mut results = results.into_iter();
                let outcome = ($(<$result as $crate::nk::Outcome>::of(results.next().unwrap_or_default())?),*);
                Ok(outcome)
            }
        )+
    };
}

use server_functions;

/// Writes a line to the server's log.
pub fn log_info(text: &str) {
    // Lines beyond the server's limit are left out there, and counted.
    let _ = logger_info(text);
}

/// True in the first instance of the process that asks: the place for what is done once at start.
pub fn run_once() -> bool {
    call_one("run_once", &[]).is_ok_and(|first| first == Value::Bool(true))
}
