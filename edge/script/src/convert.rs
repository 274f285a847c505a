//! Lua values to the host's [`Value`]s and back. A table with an array part becomes a list, any
//! other a map; what has no plain data (functions, userdata) is an error, as are tables that are
//! nested too deeply or too large.

use bytes::Bytes;
use game::guest::HostError;
use game::host::Meter;
use game::value::{DEPTH_MAX, Value};
use mlua::{Lua, Value as LuaValue};
use thiserror::Error;

/// Values in one conversion, those in tables counted wherever they appear: a table that holds
/// itself a thousand times over must not become a billion values.
const VALUES_MAX: usize = 1_000_000;

/// Bytes of all strings of one conversion.
const BYTES_MAX: usize = 64 << 20;

/// Why a Lua value cannot leave the VM.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ConvertError {
    #[error("cannot convert a {0}")]
    Kind(&'static str),
    #[error("table nested deeper than {DEPTH_MAX} levels")]
    Deep,
    #[error("value larger than {VALUES_MAX} elements or {BYTES_MAX} bytes")]
    Large,
    #[error("{0}")]
    Lua(String),
    #[error(transparent)]
    Budget(#[from] HostError),
}

impl From<mlua::Error> for ConvertError {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error.to_string())
    }
}

/// Steps that the conversion of one value costs, strings' bytes not counted.
const VALUE_STEPS: u32 = 50;

struct Reader<'a> {
    values_left: usize,
    bytes_left: usize,
    meter: &'a dyn Meter,
}

/// The plain data of a Lua value, paid for with `meter`.
pub(crate) fn from_lua(value: &LuaValue, meter: &dyn Meter) -> Result<Value, ConvertError> {
    Reader { values_left: VALUES_MAX, bytes_left: BYTES_MAX, meter }.read(value, DEPTH_MAX)
}

impl Reader<'_> {
    fn read(&mut self, value: &LuaValue, depth_left: usize) -> Result<Value, ConvertError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(ConvertError::Large)?;
        Ok(match value {
            LuaValue::Nil => Value::Nil,
            LuaValue::Boolean(flag) => Value::Bool(*flag),
            LuaValue::Integer(number) => Value::Int(*number),
            LuaValue::Number(number) => Value::Float(*number),
            LuaValue::String(text) => Value::Bytes(self.bytes(&text.as_bytes())?),
            LuaValue::Table(table) => {
                let depth_left = depth_left.checked_sub(1).ok_or(ConvertError::Deep)?;
                self.table(table, depth_left)?
            }
            other => return Err(ConvertError::Kind(other.type_name())),
        })
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<Bytes, ConvertError> {
        self.bytes_left = self.bytes_left.checked_sub(bytes.len()).ok_or(ConvertError::Large)?;
        self.meter.hold(bytes.len())?;
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn table(&mut self, table: &mlua::Table, depth_left: usize) -> Result<Value, ConvertError> {
        let length = table.raw_len();
        if length > 0 {
            let length_max = length.min(self.values_left);
            self.meter.hold(length_max * size_of::<Value>())?;
            let mut items = Vec::with_capacity(length_max);
            for index in 1..=length {
                self.meter.spend(VALUE_STEPS)?;
                let item: LuaValue = table.raw_get(index)?;
                items.push(self.read(&item, depth_left)?);
            }
            return Ok(Value::List(items));
        }
        let mut members = Vec::new();
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (name, member) = pair?;
            self.meter.hold(size_of::<(Bytes, Value)>())?;
            self.meter.spend(VALUE_STEPS)?;
            let name = match &name {
                LuaValue::String(text) => self.bytes(&text.as_bytes())?,
                LuaValue::Integer(number) => Bytes::from(number.to_string()),
                LuaValue::Number(number) => Bytes::from(number.to_string()),
                LuaValue::Boolean(flag) => {
                    Bytes::from_static(if *flag { b"true" } else { b"false" })
                }
                other => return Err(ConvertError::Kind(other.type_name())),
            };
            members.push((name, self.read(&member, depth_left)?));
        }
        Ok(Value::Map(members))
    }
}

/// The Lua value of plain data. The data comes from the host, so its depth is bounded already.
pub(crate) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Nil => LuaValue::Nil,
        Value::Bool(flag) => LuaValue::Boolean(*flag),
        Value::Int(number) => LuaValue::Integer(*number),
        Value::Float(number) => LuaValue::Number(*number),
        Value::Bytes(bytes) => LuaValue::String(lua.create_string(bytes)?),
        Value::List(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                table.raw_set(index + 1, to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Map(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for (name, member) in members {
                table.raw_set(lua.create_string(name)?, to_lua(lua, member)?)?;
            }
            LuaValue::Table(table)
        }
    })
}
