//! What a call knows about its caller, on its way into Lua. The `context` table is made anew for
//! every call, because scripts may change it and walk it with `pairs`; of a function that names only some of its
//! members (`dialect::Reads`) only those are made, and none for one that never names it.
//!
//! Data in: what the server knows of a call, and what is read of it. Data out: a table of Lua, or nil.

use game::guest::CallContext;
use mlua::{Lua, Table, Value as LuaValue};
use smallvec::SmallVec;
use tables::Member;
use uuid::Uuid;

use crate::dialect::Reads;

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
