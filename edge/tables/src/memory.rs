//! Luau's categories of memory: what a VM takes is counted with the category that is set when it is taken, until it is
//! free again. A coroutine has the category that was set when it was made, for itself, its stack and all that it takes.
//!
//! Not here: which category is whose.
//!
//! Source: luau 0.740, `VM/src/lapi.cpp`, `lua_setmemcat`, `lua_totalbytes`; `VM/src/lstate.cpp`, `luaE_newthread`.

use mlua::{Lua, ffi};

/// Categories of a VM; those from here on it has no place for. As in `edge/script/luau/small_states.h`.
pub const CATEGORIES: u8 = 64;

/// Sets the category of what is taken outside of coroutines from now on, and of coroutines that are made. Returns
/// what is taken with it, bytes, as [`category_bytes`] does.
///
/// # Panics
/// There is no such category.
pub fn set_category(lua: &Lua, category: u8) -> usize {
    assert!(category < CATEGORIES, "no category {category}");
    // SAFETY: the VM is locked here, and Luau has a place for this category.
    lua.exec_raw_lua(|raw| unsafe {
        ffi::lua_setmemcat(raw.state(), category.into());
        ffi::lua_totalbytes(raw.state(), category.into())
    })
}

/// What is taken with this category, bytes: all but what is free again.
///
/// # Panics
/// There is no such category.
#[must_use]
pub fn category_bytes(lua: &Lua, category: u8) -> usize {
    assert!(category < CATEGORIES, "no category {category}");
    // SAFETY: the VM is locked here, and Luau has a place for this category.
    lua.exec_raw_lua(|raw| unsafe { ffi::lua_totalbytes(raw.state(), category.into()) })
}

#[cfg(test)]
mod tests {
    use super::CATEGORIES;

    /// Luau looks for no category beyond its own places, of which this header says how many there are.
    #[test]
    fn luau_has_a_place_for_every_category() {
        let header = include_str!("../../script/luau/small_states.h");
        let line = format!("#define LUA_MEMORY_CATEGORIES {CATEGORIES}\n");
        assert!(header.contains(&line), "no {line}");
    }
}
