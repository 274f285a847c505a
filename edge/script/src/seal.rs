//! What one call does to globals, libraries, `nk` and `package`, the next one does not see. The work
//! is done in `seal.lua`; here is when: sealed at the end of the start, cleaned after a call that
//! wrote, which costs a call that did not write one look at a flag.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use mlua::{Function, Lua, LuaString, Table};

use crate::vm::Part;

/// The seal of one VM.
#[derive(Debug)]
pub(crate) struct Seal {
    /// Until it has been called: what it needs is thrown away then.
    close: RefCell<Option<Function>>,
    clean: Function,
    /// Says that a module begins (1) or ends (-1) loading in the middle of a call.
    pub(crate) load: Function,
    /// Whether the running call has written to what is sealed.
    is_touched: Arc<AtomicBool>,
}

impl Seal {
    /// To be made before anybody can change the libraries.
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Self> {
        let chunk = Part::Seal.load(lua)?;
        let is_touched = Arc::new(AtomicBool::new(false));
        let touches = Arc::clone(&is_touched);
        let touched = lua.create_function(move |_, ()| {
            touches.store(true, Relaxed);
            Ok(())
        })?;
        let seals = chunk.call::<Table>(touched)?;
        Ok(Self {
            close: RefCell::new(Some(seals.get("seal")?)),
            clean: seals.get("clean")?,
            load: seals.get("load")?,
            is_touched,
        })
    }

    /// Seals globals and libraries, and the `others`.
    pub(crate) fn close(&self, lua: &Lua, others: &Table) -> mlua::Result<()> {
        if let Some(close) = self.close.take() {
            close.call::<()>(others)?;
        }
        if let Some(methods) = lua.type_metatable::<LuaString>() {
            methods.set_readonly(true);
        }
        // Lets compiled code use library functions without looking for them.
        lua.globals().set_safeenv(true);
        Ok(())
    }

    /// Throws away what the call that is over has written.
    pub(crate) fn clean(&self, lua: &Lua) -> mlua::Result<()> {
        if !self.is_touched.load(Relaxed) {
            return Ok(());
        }
        self.clean.call::<()>(())?;
        self.is_touched.store(false, Relaxed);
        // `getfenv` and `setfenv` take it back.
        lua.globals().set_safeenv(true);
        Ok(())
    }
}
