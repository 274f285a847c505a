//! Lua values to the host's [`Value`]s and back. A table with a positive whole number among its keys
//! becomes a list up to the greatest of them, holes are nil; any other table becomes a map. A function
//! becomes the text that `tostring` makes of it; userdata is an error, as are tables that are nested
//! too deeply or too large.
//!
//! ```text
//! from_lua   a table on the VM's stack ─▶ walked with lua_rawiter ─▶ Value    no frame: nothing there raises an error
//! to_lua     Value ─▶ lua_createtable, lua_rawset ─▶ a table                 one protected frame for the whole of it
//! ```
//!
//! Through mlua each member is a frame of its own, or a reference that is made and given back: a dozen
//! times what the member costs. For the same reason here: functions that Lua calls with plain data (`native`), JSON
//! without values between (`json`), and what a VM takes for whom ([`set_category`]).
//! Not here: what becomes of the values, and the memory and time that a
//! conversion may take, which its [`Meter`] knows.
//!
//! A crate of its own because Luau's stack is reached by `unsafe` functions of C. What holds for all of
//! them here: errors of Luau are C++ exceptions, and leave our frames as they leave mlua's own. Where one
//! can be raised within mlua's protected frame (`push`) only borrowed data is on the frames in between; where data is
//! half made (`Reader`), no function is called that can raise one; what functions of C own while they push is dropped
//! (`native`, `json`).
//!
//! Source: nakama 3.40, `server/runtime_lua_context.go`, `RuntimeLuaConvertLuaValue`; luau 0.740,
//! `VM/src/lapi.cpp`.

#![allow(unsafe_code, reason = "members of tables are read and made on Luau's own stack")]

mod json;
mod memory;
mod native;

use std::ffi::{c_int, c_void};
use std::slice;

use bytes::Bytes;
use game::guest::HostError;
use game::host::Meter;
use game::pairs::Pairs;
use game::value::{TABLE_DEPTH_MAX, Value};
use mlua::{IntoLua as _, Lua, Table, Value as LuaValue, ffi, lua_State};
use thiserror::Error;

pub use crate::json::{Metering, json_decode, json_encode};
pub use crate::memory::{CATEGORIES, category_bytes, set_category};
pub use crate::native::{Arguments, Native, function};

/// Values in one conversion, those in tables counted wherever they appear: a table that holds
/// itself a thousand times over must not become a billion values.
const VALUES_MAX: usize = 1_000_000;

/// Bytes of all strings of one conversion.
const BYTES_MAX: usize = 64 << 20;

/// Why a Lua value cannot leave the VM.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConvertError {
    /// Userdata, a coroutine, or another thing that is no data.
    #[error("cannot convert a {0}")]
    Kind(&'static str),
    /// Tables within tables.
    #[error("table nested deeper than {TABLE_DEPTH_MAX} levels")]
    Deep,
    /// Too many values, or too long strings.
    #[error("value larger than {VALUES_MAX} elements or {BYTES_MAX} bytes")]
    Large,
    /// The VM has no room.
    #[error("{0}")]
    Lua(String),
    /// The meter refused.
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

/// Steps that the walk through one table costs besides: far more than it takes, so that a call's clock is looked at
/// after every few tables: nobody tells how many empty slots `lua_rawiter` passes over, and those of a table that was
/// emptied can take half a millisecond.
const TABLE_STEPS: u32 = 2_048;

/// Keys from here on are names, not places in a list. Source: gopher-lua, `MaxArrayIndex`.
const LIST_INDEX_MAX: i64 = 67_108_864;

struct Reader<'a> {
    values_left: usize,
    bytes_left: usize,
    unnamed_count: usize,
    meter: &'a dyn Meter,
}

/// The plain data of a Lua value, paid for with `meter`.
///
/// # Errors
/// [`ConvertError`].
pub fn from_lua(lua: &Lua, value: &LuaValue, meter: &dyn Meter) -> Result<Value, ConvertError> {
    from_lua_counted(lua, value, meter).map(|(value, _)| value)
}

/// As [`from_lua`], and how many members were left out: those with names in tables that became
/// lists.
///
/// # Errors
/// [`ConvertError`].
pub fn from_lua_counted(
    lua: &Lua,
    value: &LuaValue,
    meter: &dyn Meter,
) -> Result<(Value, usize), ConvertError> {
    let mut reader = Reader::new(meter);
    let value = reader.outermost(lua, value)?;
    Ok((value, reader.unnamed_count))
}

/// What is at a place of the stack. Texts and names are lent by the VM, and good while the value is there.
enum Found<'a> {
    Nil,
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(&'a [u8]),
    Table,
    Function(*const c_void),
    Other,
}

/// A number as mlua takes it apart: what is whole and fits is whole, negative zero is not.
fn number<'a>(number: f64) -> Found<'a> {
    #[allow(clippy::cast_possible_truncation, reason = "it is looked whether that is the number")]
    let whole = number as i64;
    #[allow(clippy::cast_precision_loss, reason = "the same")]
    let is_whole = (whole as f64).to_bits() == number.to_bits() && whole != i64::MAX;
    if is_whole { Found::Whole(whole) } else { Found::Number(number) }
}

/// What is at `index` of the stack.
///
/// # Safety
/// `state` is a thread of a VM that nobody else uses meanwhile, `index` is within its stack, and what is
/// there stays there for as long as what is returned is used.
unsafe fn look<'a>(state: *mut lua_State, index: c_int) -> Found<'a> {
    // SAFETY: these read what is at the index, and raise no error. `lua_tolstring` makes no text of a
    // number, as it is asked for texts only; its bytes are the collector's, which leaves alone what is on
    // the stack.
    unsafe {
        match ffi::lua_type(state, index) {
            ffi::LUA_TNIL => Found::Nil,
            ffi::LUA_TBOOLEAN => Found::Flag(ffi::lua_toboolean(state, index) != 0),
            ffi::LUA_TNUMBER => number(ffi::lua_tonumber(state, index)),
            ffi::LUA_TINTEGER => {
                Found::Whole(ffi::lua_tointeger64(state, index, std::ptr::null_mut()))
            }
            ffi::LUA_TSTRING => {
                let mut length = 0;
                let bytes = ffi::lua_tolstring(state, index, &raw mut length);
                Found::Text(slice::from_raw_parts(bytes.cast(), length))
            }
            ffi::LUA_TTABLE => Found::Table,
            ffi::LUA_TFUNCTION => Found::Function(ffi::lua_topointer(state, index)),
            _ => Found::Other,
        }
    }
}

/// Room on the stack that one level of a table takes: its key, its member, and what a look at an odd value
/// needs.
const LEVEL_SLOTS: c_int = 5;

impl<'a> Reader<'a> {
    fn new(meter: &'a dyn Meter) -> Self {
        Self { values_left: VALUES_MAX, bytes_left: BYTES_MAX, unnamed_count: 0, meter }
    }

    /// A value that is nobody's member. A table is put on the stack, which is left as it was.
    fn outermost(&mut self, lua: &Lua, value: &LuaValue) -> Result<Value, ConvertError> {
        let LuaValue::Table(table) = value else {
            return self.scalar(match value {
                LuaValue::Nil => Found::Nil,
                LuaValue::Boolean(flag) => Found::Flag(*flag),
                LuaValue::Integer(number) => Found::Whole(*number),
                LuaValue::Number(number) => Found::Number(*number),
                LuaValue::String(text) => return self.scalar(Found::Text(&text.as_bytes())),
                LuaValue::Function(function) => Found::Function(function.to_pointer()),
                // To Lua it is.
                LuaValue::Error(_) => return Err(ConvertError::Kind("userdata")),
                other => return Err(ConvertError::Kind(other.type_name())),
            });
        };
        lua.exec_raw_lua(|raw| {
            let state = raw.state();
            // SAFETY: the VM is locked here, by whoever runs or by us, and the room is asked for. What is above `top` is
            // this function's, whatever became of it.
            unsafe {
                room(state)?;
                let top = ffi::lua_gettop(state);
                table.push_into_stack(raw)?;
                let value = self.outer_table(state);
                ffi::lua_settop(state, top);
                value
            }
        })
    }

    /// The value at `index` of the stack, which is left as it was.
    ///
    /// # Safety
    /// As for [`look`].
    unsafe fn at(&mut self, state: *mut lua_State, index: c_int) -> Result<Value, ConvertError> {
        // SAFETY: it stays there while it is looked at, and the room for a table's copy is asked for.
        unsafe {
            match look(state, index) {
                Found::Table => {
                    room(state)?;
                    let top = ffi::lua_gettop(state);
                    ffi::lua_pushvalue(state, index);
                    let value = self.outer_table(state);
                    ffi::lua_settop(state, top);
                    value
                }
                Found::Other => Err(kind(state, index)),
                found => self.scalar(found),
            }
        }
    }

    /// The table on top of the stack, which is nobody's member.
    ///
    /// # Safety
    /// As for [`Self::table`].
    unsafe fn outer_table(&mut self, state: *mut lua_State) -> Result<Value, ConvertError> {
        self.values_left -= 1;
        // SAFETY: as the caller says.
        unsafe { self.table(state, TABLE_DEPTH_MAX - 1) }
    }

    /// The value on top of the stack, a member of a table.
    ///
    /// # Safety
    /// There is one.
    unsafe fn member(
        &mut self,
        state: *mut lua_State,
        depth_left: usize,
    ) -> Result<Value, ConvertError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(ConvertError::Large)?;
        // SAFETY: the value stays on top while it is looked at.
        match unsafe { look(state, -1) } {
            Found::Table => {
                let depth_left = depth_left.checked_sub(1).ok_or(ConvertError::Deep)?;
                // SAFETY: the table is on top.
                unsafe { self.table(state, depth_left) }
            }
            // SAFETY: as above.
            Found::Other => Err(unsafe { kind(state, -1) }),
            found => self.scalar(found),
        }
    }

    /// What is neither a table nor without a value of ours.
    fn scalar(&mut self, found: Found<'_>) -> Result<Value, ConvertError> {
        Ok(match found {
            Found::Flag(flag) => Value::Bool(flag),
            Found::Whole(number) => Value::Int(number),
            Found::Number(0.0) => Value::Int(0),
            Found::Number(number) => Value::Float(number),
            Found::Function(pointer) => Value::text(format!("function: {pointer:p}")),
            Found::Text(text) => Value::Bytes(self.bytes(text)?),
            Found::Nil => Value::Nil,
            Found::Table | Found::Other => unreachable!("the caller has seen to it"),
        })
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<Bytes, ConvertError> {
        self.bytes_left = self.bytes_left.checked_sub(bytes.len()).ok_or(ConvertError::Large)?;
        self.meter.hold(bytes.len())?;
        Ok(Bytes::copy_from_slice(bytes))
    }

    /// The table on top of the stack. What is put above it is left there when there is an error.
    ///
    /// # Safety
    /// There is one.
    unsafe fn table(
        &mut self,
        state: *mut lua_State,
        depth_left: usize,
    ) -> Result<Value, ConvertError> {
        self.meter.spend(TABLE_STEPS)?;
        let mut list = List::default();
        let mut members = Vec::new();
        // SAFETY: the table is on top, and the room for key and member is asked for.
        let expected = unsafe {
            room(state)?;
            ffi::lua_objlen(state, -1).min(self.values_left)
        };
        self.meter.hold(expected * size_of::<Value>())?;
        list.items.reserve_exact(expected);
        let mut next = 0;
        loop {
            // SAFETY: the table is on top again: key and member are taken away below. Nobody changes it
            // meanwhile, as no Lua code runs; and `lua_rawiter` raises no error.
            next = unsafe { ffi::lua_rawiter(state, -1, next) };
            if next < 0 {
                break;
            }
            self.meter.spend(VALUE_STEPS)?;
            // SAFETY: the key lies below the member, and both stay while they are looked at.
            unsafe {
                match look(state, -2) {
                    Found::Whole(index @ 1..LIST_INDEX_MAX) => {
                        let member = self.member(state, depth_left)?;
                        list.add(usize::try_from(index).unwrap_or(usize::MAX), member);
                    }
                    key => {
                        self.meter.hold(size_of::<(Bytes, Value)>())?;
                        let name = self.name(&key).ok_or_else(|| kind(state, -2))??;
                        members.push((name, self.member(state, depth_left)?));
                    }
                }
                ffi::lua_settop(state, -3);
            }
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

    /// A key as a name; `None` if it cannot be one.
    fn name(&mut self, key: &Found<'_>) -> Option<Result<Bytes, ConvertError>> {
        Some(match key {
            Found::Text(text) => self.bytes(text),
            Found::Whole(number) => Ok(Bytes::from(number.to_string())),
            Found::Number(number) => Ok(Bytes::from(number.to_string())),
            Found::Flag(true) => Ok(Bytes::from_static(b"true")),
            Found::Flag(false) => Ok(Bytes::from_static(b"false")),
            Found::Nil | Found::Table | Found::Function(_) | Found::Other => return None,
        })
    }
}

/// Asks for room on the stack, for one level of a table.
///
/// # Safety
/// As for [`look`].
unsafe fn room(state: *mut lua_State) -> mlua::Result<()> {
    // SAFETY: it says by its result that there is none, and raises no error.
    if unsafe { ffi::lua_checkstack(state, LEVEL_SLOTS) } == 0 {
        return Err(mlua::Error::StackError);
    }
    Ok(())
}

/// Why what is at `index` of the stack cannot be converted.
///
/// # Safety
/// As for [`look`].
unsafe fn kind(state: *mut lua_State, index: c_int) -> ConvertError {
    // SAFETY: it reads what is there.
    ConvertError::Kind(match unsafe { ffi::lua_type(state, index) } {
        ffi::LUA_TNIL => "nil",
        ffi::LUA_TBOOLEAN => "boolean",
        ffi::LUA_TLIGHTUSERDATA => "lightuserdata",
        ffi::LUA_TTABLE => "table",
        ffi::LUA_TFUNCTION => "function",
        ffi::LUA_TTHREAD => "thread",
        ffi::LUA_TVECTOR => "vector",
        ffi::LUA_TBUFFER => "buffer",
        _ => "userdata",
    })
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
///
/// # Errors
/// The VM has no memory for it.
pub fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Nil => LuaValue::Nil,
        Value::Bool(flag) => LuaValue::Boolean(*flag),
        Value::Int(number) => LuaValue::Integer(*number),
        Value::Float(number) => LuaValue::Number(*number),
        Value::Bytes(bytes) => LuaValue::String(lua.create_string(bytes)?),
        Value::List(_) | Value::Map(_) => {
            // SAFETY: what is on our frames while it runs is borrowed, and it leaves one value there.
            unsafe { lua.exec_raw((), |state| push(state, value)) }?
        }
    })
}

/// A member of a table that [`named`] makes.
#[derive(Clone, Copy, Debug)]
pub enum Member<'a> {
    /// A string.
    Text(&'a [u8]),
    /// A number.
    Number(f64),
    /// A table of strings by name.
    Texts(&'a [(String, String)]),
    /// A table of lists: of each name its texts, in the order in which they come.
    Lists(&'a Pairs),
    /// The table that is there already.
    Shared,
}

/// A table with these members, of which one may be a table that is there already. Through mlua each would cost
/// 0.1 to 0.2 us.
///
/// # Errors
/// The VM has no memory for it.
pub fn named(
    lua: &Lua,
    shared: &Table,
    members: &[(&'static str, Member<'_>)],
) -> mlua::Result<LuaValue> {
    let fill = |state: *mut lua_State| {
        // SAFETY: within the protected call, where `shared` is the one value on the stack; the room is asked for
        // with each table. The new one takes its place. Borrowed data needs no dropping.
        unsafe {
            new_table(state, 0, members.len());
            for (name, member) in members {
                push_text(state, name.as_bytes());
                match member {
                    Member::Text(text) => push_text(state, text),
                    Member::Number(number) => ffi::lua_pushnumber(state, *number),
                    Member::Texts(pairs) => push_texts(state, pairs),
                    Member::Lists(pairs) => push_lists(state, pairs),
                    Member::Shared => ffi::lua_pushvalue(state, 1),
                }
                ffi::lua_rawset(state, -3);
            }
            ffi::lua_replace(state, 1);
        }
    };
    // SAFETY: what is on our frames while it runs is borrowed, and it leaves one value there.
    unsafe { lua.exec_raw(shared, fill) }
}

/// A table of texts by name.
///
/// # Errors
/// The VM has no memory for it.
pub fn texts(lua: &Lua, pairs: &[(String, String)]) -> mlua::Result<LuaValue> {
    // SAFETY: what is on our frames while it runs is borrowed, and it leaves one value there.
    unsafe { lua.exec_raw((), |state| push_texts(state, pairs)) }
}

/// Puts a table of texts by name on top of the stack.
///
/// # Safety
/// As for [`push`].
unsafe fn push_texts(state: *mut lua_State, pairs: &[(String, String)]) {
    // SAFETY: within the protected call, and the room for name and text is asked for with the table.
    unsafe {
        new_table(state, 0, pairs.len());
        for (name, text) in pairs {
            push_text(state, name.as_bytes());
            push_text(state, text.as_bytes());
            ffi::lua_rawset(state, -3);
        }
    }
}

/// Puts a table of lists on top of the stack: of each name its texts, in the order in which they come.
///
/// # Safety
/// As for [`push`].
unsafe fn push_lists(state: *mut lua_State, pairs: &Pairs) {
    // SAFETY: within the protected call, and the room for name, list and text is asked for with the table.
    // An iterator over the pairs has nothing to drop.
    unsafe {
        new_table(state, 0, pairs.count());
        for (name, text) in pairs.iter() {
            push_text(state, name);
            ffi::lua_pushvalue(state, -1);
            if ffi::lua_rawget(state, -3) == ffi::LUA_TNIL {
                ffi::lua_settop(state, -2);
                ffi::lua_createtable(state, 1, 0);
                push_text(state, text);
                ffi::lua_rawseti(state, -2, 1);
                ffi::lua_rawset(state, -3);
            } else {
                let next = ffi::lua_objlen(state, -1) + 1;
                push_text(state, text);
                ffi::lua_rawseti(state, -2, next.cast_signed() as ffi::lua_Integer);
                ffi::lua_settop(state, -3);
            }
        }
    }
}

/// Puts a value on top of the stack.
///
/// # Safety
/// As for [`look`]. It is within a protected call or a function of C, as it raises errors of Luau: no memory, no
/// room on the stack. So nothing half made may be on the frames here.
unsafe fn push(state: *mut lua_State, value: &Value) {
    #[allow(clippy::cast_precision_loss, reason = "Lua's numbers are doubles")]
    // SAFETY: within a protected call, and the room is asked for below.
    unsafe {
        match value {
            Value::Nil => ffi::lua_pushnil(state),
            Value::Bool(flag) => ffi::lua_pushboolean(state, (*flag).into()),
            Value::Int(number) => ffi::lua_pushnumber(state, *number as f64),
            Value::Float(number) => ffi::lua_pushnumber(state, *number),
            Value::Bytes(bytes) => push_text(state, bytes),
            Value::List(items) => {
                new_table(state, items.len(), 0);
                for (item, index) in items.iter().zip(1..) {
                    push(state, item);
                    ffi::lua_rawseti(state, -2, index);
                }
            }
            Value::Map(members) => {
                new_table(state, 0, members.len());
                for (name, member) in members {
                    push_text(state, name);
                    push(state, member);
                    ffi::lua_rawset(state, -3);
                }
            }
        }
    }
}

/// Puts a string on top of the stack.
///
/// # Safety
/// As for [`push`].
unsafe fn push_text(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: the bytes are copied.
    unsafe { ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len()) };
}

/// Puts an empty table with room for so many members on top of the stack, and asks for the room that a key and
/// a member take.
///
/// # Safety
/// As for [`push`].
unsafe fn new_table(state: *mut lua_State, items: usize, names: usize) {
    let (items, names) = (c_int::try_from(items), c_int::try_from(names));
    let (items, names) = (items.unwrap_or(c_int::MAX), names.unwrap_or(c_int::MAX));
    // SAFETY: as the caller says; larger tables than Luau has are an error that it raises.
    unsafe {
        ffi::lua_rawcheckstack(state, LEVEL_SLOTS);
        ffi::lua_createtable(state, items, names);
    }
}

#[cfg(test)]
mod tests;
