//! What a call knows about its caller, on its way into Lua: the arguments from which the prelude
//! makes the `context` table. Made anew for every call, because scripts may change it and walk it
//! with `pairs`.

use game::guest::CallContext;
use mlua::{IntoLua as _, Lua, Table, Value as LuaValue};
use uuid::Uuid;

/// The prelude's arguments `mode, user_id, username, vars, expiry, session_id, lang, ip, port,
/// headers, query_params`.
pub(crate) type ContextArgs = (
    &'static str,
    LuaValue,
    LuaValue,
    LuaValue,
    LuaValue,
    LuaValue,
    LuaValue,
    LuaValue,
    LuaValue,
    LuaValue,
    LuaValue,
);

pub(crate) fn args(lua: &Lua, context: &CallContext) -> mlua::Result<ContextArgs> {
    let has_user = context.user_id.is_some();
    Ok((
        context.execution_mode,
        id(lua, context.user_id)?,
        text(lua, context.username.as_deref())?,
        if has_user { pairs(lua, &context.vars)? } else { LuaValue::Nil },
        match context.user_session_exp {
            Some(expiry) if has_user => number(expiry),
            _ => LuaValue::Nil,
        },
        id(lua, context.session_id)?,
        text(lua, context.lang.as_deref())?,
        text(lua, context.client_ip.as_deref())?,
        text(lua, context.client_port.as_deref())?,
        lists(lua, &context.headers)?,
        lists(lua, &context.query_params)?,
    ))
}

/// A count or time as Lua's number.
pub(crate) fn number(number: u64) -> LuaValue {
    LuaValue::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// An id as text.
pub(crate) fn id(lua: &Lua, id: Option<Uuid>) -> mlua::Result<LuaValue> {
    let Some(id) = id else { return Ok(LuaValue::Nil) };
    let mut buffer = Uuid::encode_buffer();
    Ok(LuaValue::String(lua.create_string(&*id.hyphenated().encode_lower(&mut buffer))?))
}

/// Text, or nil.
pub(crate) fn text(lua: &Lua, text: Option<&str>) -> mlua::Result<LuaValue> {
    text.map_or(Ok(LuaValue::Nil), |text| Ok(LuaValue::String(lua.create_string(text)?)))
}

/// A table of texts by name; nil when there is none.
pub(crate) fn pairs(lua: &Lua, pairs: &[(String, String)]) -> mlua::Result<LuaValue> {
    if pairs.is_empty() { Ok(LuaValue::Nil) } else { table(lua, pairs)?.into_lua(lua) }
}

/// A table of texts by name.
pub(crate) fn table(lua: &Lua, pairs: &[(String, String)]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, pairs.len())?;
    for (name, value) in pairs {
        table.raw_set(name.as_str(), value.as_str())?;
    }
    Ok(table)
}

/// A table of lists of texts by name; nil when there is none.
fn lists(lua: &Lua, lists: &[(String, Vec<String>)]) -> mlua::Result<LuaValue> {
    if lists.is_empty() {
        return Ok(LuaValue::Nil);
    }
    let table = lua.create_table_with_capacity(0, lists.len())?;
    for (name, values) in lists {
        let list = lua.create_table_with_capacity(values.len(), 0)?;
        for value in values {
            list.raw_push(value.as_str())?;
        }
        table.raw_set(name.as_str(), list)?;
    }
    Ok(LuaValue::Table(table))
}
