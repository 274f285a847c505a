//! The arguments of one call of a host function, and what all kinds of them are read with (`read`):
//! Nakama's checks and error texts. No conversion of a script's own values here.

use std::borrow::Cow;

use uuid::Uuid;

use super::Meter;
use crate::guest::{Host, HostError};
use crate::value::Value;

/// The arguments of one call. Indices count from 0, argument numbers in texts from 1.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    /// The function's name, for error texts.
    pub function: &'static str,
    /// What the script passed, trailing nils included.
    pub values: &'a [Value],
    /// What the call may still use.
    pub meter: &'a dyn Meter,
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values = &self.values;
        f.debug_struct("Args").field("function", &self.function).field("values", values).finish()
    }
}

static NIL: Value = Value::Nil;

impl<'a> Args<'a> {
    /// The argument; nil when it was not passed.
    pub fn value(&self, index: usize) -> &'a Value {
        self.values.get(index).unwrap_or(&NIL)
    }

    /// Whether the argument is nil or was not passed.
    pub fn is_nil(&self, index: usize) -> bool {
        matches!(self.value(index), Value::Nil)
    }

    /// The error for a wrong argument.
    pub fn wrong(&self, index: usize, what: &str) -> HostError {
        HostError::new(format!("bad argument #{} to {} ({what})", index + 1, self.function))
    }

    /// Pays for a result of about so many bytes, before it is made from bytes of the arguments.
    ///
    /// # Errors
    /// Time or memory of the call are used up.
    pub fn produce(&self, bytes: usize) -> Result<(), HostError> {
        self.meter.hold(bytes)?;
        self.meter.spend(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// For what is slow on purpose, as password hashing is: it cannot be interrupted, and in a
    /// match it would stop all matches of the room. Nobody waits for what was written meanwhile.
    ///
    /// # Errors
    /// Others wait for this thread.
    pub fn slowly(&self, host: &mut dyn Host) -> Result<(), HostError> {
        if !self.meter.keeps_others_waiting() {
            host.db().rest(true);
            return Ok(());
        }
        Err(HostError::new(format!(
            "{} takes longer than a match may keep its neighbours waiting: call it from an RPC \
             function",
            self.function
        )))
    }

    pub(super) fn mismatch(&self, index: usize, wanted: &str) -> HostError {
        self.wrong(index, &format!("{wanted} expected, got {}", type_name(self.value(index))))
    }

    /// A string, or a number as its text.
    ///
    /// # Errors
    /// `string expected, got …`.
    pub fn bytes(&self, index: usize) -> Result<Cow<'a, [u8]>, HostError> {
        match self.value(index) {
            Value::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Value::Int(number) => Ok(Cow::Owned(number.to_string().into_bytes())),
            Value::Float(number) => Ok(Cow::Owned(number.to_string().into_bytes())),
            _ => Err(self.mismatch(index, "string")),
        }
    }

    /// A string that is not empty; `what` is the text of the refusal of an empty one.
    ///
    /// # Errors
    /// `string expected, got …`, or `what`.
    pub fn filled(&self, index: usize, what: &str) -> Result<Cow<'a, [u8]>, HostError> {
        let bytes = self.bytes(index)?;
        if bytes.is_empty() { Err(self.wrong(index, what)) } else { Ok(bytes) }
    }

    /// A string that is valid UTF-8, or a number as its text.
    ///
    /// # Errors
    /// `string expected, got …`, `expects UTF-8 text`.
    pub fn text(&self, index: usize) -> Result<Cow<'a, str>, HostError> {
        match self.bytes(index)? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        }
        .ok_or_else(|| self.wrong(index, "expects UTF-8 text"))
    }

    /// A whole number; a fraction is cut off, as Nakama does.
    ///
    /// # Errors
    /// `number expected, got …`.
    #[allow(clippy::cast_possible_truncation, reason = "cutting off is the point; `as` saturates")]
    pub fn int(&self, index: usize) -> Result<i64, HostError> {
        match self.value(index) {
            Value::Int(number) => Ok(*number),
            Value::Float(number) => Ok(*number as i64),
            _ => Err(self.mismatch(index, "number")),
        }
    }

    /// Any number.
    ///
    /// # Errors
    /// `number expected, got …`.
    #[expect(clippy::cast_precision_loss, reason = "a script's numbers are doubles")]
    pub fn float(&self, index: usize) -> Result<f64, HostError> {
        match self.value(index) {
            Value::Float(number) => Ok(*number),
            _ => self.int(index).map(|number| number as f64),
        }
    }

    /// An id as text; `what` is the refusal's text.
    ///
    /// # Errors
    /// `string expected, got …`, or `what`.
    pub fn uuid(&self, index: usize, what: &str) -> Result<Uuid, HostError> {
        let text = self.text(index)?;
        Uuid::try_parse(&text).map_err(|_| self.wrong(index, what))
    }

    /// The elements of a table with an array part; none for nil and for the empty table.
    ///
    /// # Errors
    /// `table expected, got …`.
    pub fn list(&self, index: usize) -> Result<&'a [Value], HostError> {
        match self.value(index) {
            Value::List(items) => Ok(items),
            Value::Nil => Ok(&[]),
            Value::Map(members) if members.is_empty() => Ok(&[]),
            _ => Err(self.mismatch(index, "table")),
        }
    }
}

/// The name of a value's type as Lua says it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Bool(_) => "boolean",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Bytes(_) => "string",
        Value::List(_) | Value::Map(_) => "table",
    }
}
