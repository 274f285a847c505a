//! What a call knows about its caller, on its way into Lua. The `context` table is made anew for
//! every call, because scripts may change it and walk it with `pairs`; of a function that names only some of its
//! members (`dialect::Reads`) only those are made, and none for one that never names it.
//!
//! Here too: texts packed for the prelude of matches.

use game::guest::CallContext;
use game::pairs;
use mlua::{Lua, Table, Value as LuaValue};
use smallvec::SmallVec;
use tables::Member;
use uuid::Uuid;

use crate::dialect::Reads;

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
}

/// What is the same in the contexts of all calls of a VM.
#[derive(Debug)]
pub(crate) struct Contexts {
    /// The table of the settings for scripts.
    pub(crate) env: Table,
    pub(crate) node: String,
    pub(crate) version: String,
}

/// Members of a context, at most.
const MEMBERS: usize = 14;

impl Contexts {
    /// The context of a call, as far as it is read.
    pub(crate) fn of(
        &self,
        lua: &Lua,
        context: &CallContext,
        reads: &Reads,
    ) -> mlua::Result<LuaValue> {
        if !reads.is_any() {
            return Ok(LuaValue::Nil);
        }
        let mut ids = [Uuid::encode_buffer(); 2];
        let [user_id, session_id] = &mut ids;
        let mut members = SmallVec::<[(&'static str, Member<'_>); MEMBERS]>::new();
        let mut add = |name: &'static str, member| {
            if reads.has(name.as_bytes()) {
                members.push((name, member));
            }
        };
        add("env", Member::Shared);
        add("execution_mode", Member::Text(context.execution_mode.as_bytes()));
        add("node", Member::Text(self.node.as_bytes()));
        add("version", Member::Text(self.version.as_bytes()));
        add("headers", Member::Lists(&context.headers));
        add("query_params", Member::Lists(&context.query_params));
        if let Some(id) = context.user_id {
            add("user_id", Member::Text(id.hyphenated().encode_lower(user_id).as_bytes()));
            let username = context.username.as_deref().unwrap_or("");
            add("username", Member::Text(username.as_bytes()));
            if let Some(expiry) = context.user_session_exp {
                #[allow(clippy::cast_precision_loss, reason = "Lua's numbers are doubles")]
                add("user_session_exp", Member::Number(expiry as f64));
            }
            if !context.vars.is_empty() {
                add("vars", Member::Texts(&context.vars));
            }
        }
        if let Some(id) = context.session_id {
            add("session_id", Member::Text(id.hyphenated().encode_lower(session_id).as_bytes()));
            add("lang", Member::Text(context.lang.as_deref().unwrap_or("").as_bytes()));
        }
        for (name, text) in
            [("client_ip", &context.client_ip), ("client_port", &context.client_port)]
        {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                add(name, Member::Text(text.as_bytes()));
            }
        }
        tables::named(lua, &self.env, &members)
    }
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
