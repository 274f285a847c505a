//! Values on their way into a match's Lua: presences and messages as one packed string, because every string that
//! crosses the border on its own costs 0.1 to 0.2 us, and what comes alone.
//!
//! Not here: what is packed, and in which order (`matches`, and the prelude's parts for matches).

use game::pairs;
use mlua::{Lua, Value as LuaValue};
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
