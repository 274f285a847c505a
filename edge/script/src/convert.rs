//! Lua values to the host's [`Value`]s and back. A table with a positive whole number among its keys
//! becomes a list up to the greatest of them, holes are nil; any other table becomes a map. A function
//! becomes the text that `tostring` makes of it; userdata is an error, as are tables that are nested
//! too deeply or too large.
//!
//! Source: nakama 3.40, `server/runtime_lua_context.go`, `RuntimeLuaConvertLuaValue`.

use bytes::Bytes;
use game::guest::HostError;
use game::host::Meter;
use game::value::{TABLE_DEPTH_MAX, Value};
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
    #[error("table nested deeper than {TABLE_DEPTH_MAX} levels")]
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

/// Keys from here on are names, not places in a list. Source: gopher-lua, `MaxArrayIndex`.
const LIST_INDEX_MAX: i64 = 67_108_864;

struct Reader<'a> {
    values_left: usize,
    bytes_left: usize,
    unnamed_count: usize,
    meter: &'a dyn Meter,
}

/// The plain data of a Lua value, paid for with `meter`.
pub(crate) fn from_lua(value: &LuaValue, meter: &dyn Meter) -> Result<Value, ConvertError> {
    from_lua_counted(value, meter).map(|(value, _)| value)
}

/// As [`from_lua`], and how many members were left out: those with names in tables that became
/// lists.
pub(crate) fn from_lua_counted(
    value: &LuaValue,
    meter: &dyn Meter,
) -> Result<(Value, usize), ConvertError> {
    let (values_left, bytes_left) = (VALUES_MAX, BYTES_MAX);
    let mut reader = Reader { values_left, bytes_left, unnamed_count: 0, meter };
    let value = reader.read(value, TABLE_DEPTH_MAX)?;
    Ok((value, reader.unnamed_count))
}

impl Reader<'_> {
    fn read(&mut self, value: &LuaValue, depth_left: usize) -> Result<Value, ConvertError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(ConvertError::Large)?;
        Ok(match value {
            LuaValue::Nil => Value::Nil,
            LuaValue::Boolean(flag) => Value::Bool(*flag),
            LuaValue::Integer(number) => Value::Int(*number),
            LuaValue::Number(0.0) => Value::Int(0),
            LuaValue::Number(number) => Value::Float(*number),
            LuaValue::String(text) => Value::Bytes(self.bytes(&text.as_bytes())?),
            LuaValue::Table(table) => {
                let depth_left = depth_left.checked_sub(1).ok_or(ConvertError::Deep)?;
                self.table(table, depth_left)?
            }
            LuaValue::Function(function) => {
                Value::text(format!("function: {:p}", function.to_pointer()))
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
        let mut list = List::default();
        let mut members = Vec::new();
        let expected = table.raw_len().min(self.values_left);
        self.meter.hold(expected * size_of::<Value>())?;
        list.items.reserve_exact(expected);
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, member) = pair?;
            self.meter.spend(VALUE_STEPS)?;
            if let LuaValue::Integer(index @ 1..LIST_INDEX_MAX) = key {
                let member = self.read(&member, depth_left)?;
                list.add(usize::try_from(index).unwrap_or(usize::MAX), member);
                continue;
            }
            self.meter.hold(size_of::<(Bytes, Value)>())?;
            let name = match &key {
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
        if list.is_empty() {
            return Ok(Value::Map(members));
        }
        self.unnamed_count += members.len();
        let holes = list.holes();
        self.values_left = self.values_left.checked_sub(holes).ok_or(ConvertError::Large)?;
        self.meter.hold(holes * size_of::<Value>())?;
        Ok(Value::List(list.whole()))
    }
}

/// A list while its members come: those in order, and those after a hole.
#[derive(Default)]
struct List {
    items: Vec<Value>,
    /// Index from 1.
    others: Vec<(usize, Value)>,
}

impl List {
    fn add(&mut self, index: usize, value: Value) {
        if index == self.items.len() + 1 {
            self.items.push(value);
        } else {
            self.others.push((index, value));
        }
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.others.is_empty()
    }

    /// How many members are nil up to the last.
    fn holes(&self) -> usize {
        let last = self.others.iter().map(|(index, _)| *index).max().unwrap_or(0);
        last.saturating_sub(self.items.len() + self.others.len())
    }

    fn whole(mut self) -> Vec<Value> {
        self.others.sort_by_key(|(index, _)| *index);
        for (index, value) in self.others {
            self.items.resize(index - 1, Value::Nil);
            self.items.push(value);
        }
        self.items
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
