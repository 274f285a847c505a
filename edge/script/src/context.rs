//! What a call knows about its caller, on its way into Lua. The `context` table is made anew for
//! every call, because scripts may change it and walk it with `pairs`; the prelude makes it from
//! one packed string, because every string that crosses the border on its own costs 0.1 to 0.2 µs.
//!
//! The form: texts with their length before them as 4 bytes, little-endian: user id, name, session
//! id, language, address, port (empty for none); then names and values of the session variables,
//! whose number is an argument of its own. Headers and query parameters, of which there are more and a name may
//! come twice, are tables already (`tables::lists`).

use game::guest::CallContext;
use game::pairs::{self, PAIRS_MAX, Pairs};
use mlua::{Lua, Table, Value as LuaValue};
use uuid::Uuid;

/// Memory that is kept from one call to the next.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Packs texts for the prelude.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    bytes: Vec<u8>,
}

impl Packer {
    pub(crate) fn start(&mut self) -> &mut Self {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A text with its length.
    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Self {
        pairs::pack(&mut self.bytes, text);
        self
    }

    /// An id as 36 characters.
    pub(crate) fn id(&mut self, id: Uuid) -> &mut Self {
        let mut buffer = Uuid::encode_buffer();
        self.bytes.extend_from_slice(id.hyphenated().encode_lower(&mut buffer).as_bytes());
        self
    }

    /// A number as a double, as Lua has it.
    pub(crate) fn number(&mut self, number: f64) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A whole number of 4 bytes.
    pub(crate) fn whole(&mut self, number: u32) -> &mut Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn byte(&mut self, byte: u8) -> &mut Self {
        self.bytes.push(byte);
        self
    }

    fn id_text(&mut self, id: Option<Uuid>) -> &mut Self {
        let mut buffer = Uuid::encode_buffer();
        let text = id.map_or("", |id| id.hyphenated().encode_lower(&mut buffer));
        self.text(text.as_bytes())
    }
}

/// The prelude's arguments `packed, expiry, var_count, headers, params`; nil and zero when there is nothing to
/// say.
pub(crate) type ContextArgs = (LuaValue, LuaValue, usize, LuaValue, LuaValue);

pub(crate) fn args(
    lua: &Lua,
    packer: &mut Packer,
    context: &CallContext,
) -> mlua::Result<ContextArgs> {
    let CallContext { headers, query_params, .. } = context;
    let vars = if context.user_id.is_some() { context.vars.as_slice() } else { &[] };
    if context.user_id.is_none()
        && context.client_ip.is_none()
        && headers.is_empty()
        && query_params.is_empty()
    {
        return Ok((LuaValue::Nil, LuaValue::Nil, 0, LuaValue::Nil, LuaValue::Nil));
    }
    let expiry = match context.user_session_exp {
        Some(expiry) if context.user_id.is_some() => number(expiry),
        _ => LuaValue::Nil,
    };
    packer.start().id_text(context.user_id);
    packer.text(context.username.as_deref().unwrap_or("").as_bytes());
    packer.id_text(context.session_id);
    for text in [&context.lang, &context.client_ip, &context.client_port] {
        packer.text(text.as_deref().unwrap_or("").as_bytes());
    }
    let vars = vars.get(..PAIRS_MAX as usize).unwrap_or(vars);
    for (name, value) in vars {
        packer.text(name.as_bytes()).text(value.as_bytes());
    }
    let packed = LuaValue::String(lua.create_string(packer.bytes())?);
    let lists = |pairs: &Pairs| {
        if pairs.is_empty() { Ok(LuaValue::Nil) } else { tables::lists(lua, pairs) }
    };
    Ok((packed, expiry, vars.len(), lists(headers)?, lists(query_params)?))
}

/// A count or time as Lua's number.
pub(crate) fn number(number: u64) -> LuaValue {
    LuaValue::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// An id as text.
pub(crate) fn id(lua: &Lua, id: Uuid) -> mlua::Result<LuaValue> {
    let mut buffer = Uuid::encode_buffer();
    Ok(LuaValue::String(lua.create_string(&*id.hyphenated().encode_lower(&mut buffer))?))
}

/// Text, or nil.
pub(crate) fn text(lua: &Lua, text: Option<&str>) -> mlua::Result<LuaValue> {
    text.map_or(Ok(LuaValue::Nil), |text| Ok(LuaValue::String(lua.create_string(text)?)))
}

/// A table of texts by name.
pub(crate) fn table(lua: &Lua, pairs: &[(String, String)]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, pairs.len())?;
    for (name, value) in pairs {
        table.raw_set(name.as_str(), value.as_str())?;
    }
    Ok(table)
}
