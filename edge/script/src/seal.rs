//! What one call does to globals, libraries, `nk` and `package`, the next one does not see. The work
//! is done in `seal.lua`; here is when: sealed at the end of the start, cleaned after a call that
//! wrote, which costs a call that did not write one look at a flag. While a call waits, what it wrote is
//! set aside: others do not see it, and it finds it again.

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
    /// What calls that wait need; a match has none.
    aside: Option<Aside>,
    /// Says that a module begins (1) or ends (-1) loading in the middle of a call.
    pub(crate) load: Function,
    /// Whether the running call has written to what is sealed.
    is_touched: Arc<AtomicBool>,
}

/// Takes away what a call has written, and puts it back.
#[derive(Debug)]
struct Aside {
    take: Function,
    put_back: Function,
}

impl Seal {
    /// To be made before anybody can change the libraries.
    pub(crate) fn new(lua: &Lua, calls_wait: bool) -> mlua::Result<Self> {
        let chunk = Part::Seal.load(lua)?;
        let is_touched = Arc::new(AtomicBool::new(false));
        let touches = Arc::clone(&is_touched);
        let touched = lua.create_function(move |_, ()| {
            touches.store(true, Relaxed);
            Ok(())
        })?;
        let seals = chunk.call::<Table>(touched)?;
        let aside = if calls_wait {
            Some(Aside { take: seals.get("set_aside")?, put_back: seals.get("put_back")? })
        } else {
            None
        };
        Ok(Self {
            close: RefCell::new(Some(seals.get("seal")?)),
            clean: seals.get("clean")?,
            aside,
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

    /// Takes away what the call that begins to wait has written, if it has.
    pub(crate) fn set_aside(&self, lua: &Lua) -> mlua::Result<Option<Table>> {
        let Some(aside) = self.aside.as_ref().filter(|_| self.is_touched.load(Relaxed)) else {
            return Ok(None);
        };
        let kept = aside.take.call(())?;
        self.is_touched.store(false, Relaxed);
        lua.globals().set_safeenv(true);
        Ok(Some(kept))
    }

    /// Gives a call that goes on what it has written.
    pub(crate) fn put_back(&self, kept: &Table) -> mlua::Result<()> {
        self.aside.as_ref().map_or(Ok(()), |aside| aside.put_back.call(kept))
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
