//! Names the function in "attempt to call a nil value": Luau does not, but the translation knows
//! what each line of a module calls.

use std::sync::Arc;

use mlua::{Function, Lua, LuaString, Value as LuaValue};

use crate::sources::Sources;

/// `name_callee(text)`: the text with the name, if it is known.
pub(crate) fn function(lua: &Lua, sources: Arc<Sources>) -> mlua::Result<Function> {
    lua.create_function(move |lua, text: LuaString| {
        let text = text.to_string_lossy();
        let named = missing(lua, &sources, &text).map(|names| format!("{text} ({names})"));
        Ok(named.unwrap_or(text))
    })
}

/// What the line that `text` begins with calls and is not there.
fn missing(lua: &Lua, sources: &Sources, text: &str) -> Option<String> {
    let (place, _) = text.split_once(": ")?;
    let (file, line) = place.rsplit_once(':')?;
    let module = sources.module_of(file)?;
    module.calls.missing(line.parse().ok()?, |path, global| {
        if global { exists(lua, path) } else { is_of_nakama(path) }
    })
}

/// Whether a local by the name that everybody gives to the module "nakama" leads to a function.
fn is_of_nakama(path: &[String]) -> bool {
    let [module, name] = path else { return false };
    module == "nk" && (game::host::find(name).is_some() || name.starts_with("register_"))
}

/// Whether the globals lead to something by these names.
fn exists(lua: &Lua, path: &[String]) -> bool {
    let mut at = LuaValue::Table(lua.globals());
    for name in path {
        let LuaValue::Table(table) = &at else { return false };
        let Ok(inner) = table.get::<LuaValue>(name.as_str()) else { return false };
        at = inner;
    }
    !at.is_nil()
}
