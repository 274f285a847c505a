//! Functions of ours that Lua code calls with plain data, and that answer with plain data or an error's text.
//!
//! ```text
//! f(arguments) ─▶ read where they lie on the stack ─▶ Native::call ─▶ true, results   put onto the stack
//!                                                                 └▶ false, text
//! ```
//!
//! They are functions of C. Through mlua an argument would be a reference that is made and given back, and a table among
//! the results a protected frame of its own. Not here: what the functions do, and who raises the error (the prelude, which knows whose line it is).
//!
//! What holds for a function of C: an error of Luau (no memory) may leave its frame as a C++ exception where results
//! are pushed. The frame unwinds, so what it owns is dropped; nothing is borrowed from others there. A panic of ours would
//! leave Luau's own state as it was in the call: it ends the process, by the program's hook.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::{mem, ptr};

use game::host::{Meter, RunResult};
use game::value::Value;
use mlua::{Function, Lua, ffi, lua_State};

use crate::{ConvertError, Found, Reader, look, push, push_text};

/// What a function is: the same for all calls, and without anything to drop.
pub trait Native: Copy + Send + 'static {
    /// Does what it does. `None` if there is no result yet: then it returns nothing. It runs nothing in the VM: what
    /// mlua takes for the running thread is the one that called from outside.
    fn call(self, lua: &Lua, arguments: &Arguments<'_>) -> Option<RunResult>;
}

/// What a function was called with, as it lies on the stack.
#[derive(Debug)]
pub struct Arguments<'a> {
    state: *mut lua_State,
    count: usize,
    of: PhantomData<&'a Lua>,
}

impl Arguments<'_> {
    /// How many there are, those that are nil among them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the one at `index`, from 0, is true itself.
    #[must_use]
    pub fn is_true(&self, index: usize) -> bool {
        // SAFETY: the arguments stay where they are for as long as the call runs.
        matches!(unsafe { look(self.state, self.place(index)) }, Found::Flag(true))
    }

    /// The plain data of the one at `index`, from 0, paid for with `meter`; and how many members were left out: those
    /// with names in tables that became lists.
    ///
    /// # Errors
    /// [`ConvertError`].
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, index: usize, meter: &dyn Meter) -> Result<(Value, usize), ConvertError> {
        let mut reader = Reader::new(meter);
        // SAFETY: there is an argument at this place of a thread that runs nothing but this call.
        let value = unsafe { reader.at(self.state, self.place(index)) }?;
        Ok((value, reader.unnamed_count))
    }

    fn place(&self, index: usize) -> c_int {
        assert!(index < self.count, "argument {index} of {}", self.count);
        c_int::try_from(index).map_or(c_int::MAX, |index| index + 1)
    }
}

/// A function that Lua code can call: returns true and the results, false and the error's text, or nothing.
///
/// # Errors
/// The VM has no memory for it.
pub fn function<N: Native>(lua: &Lua, native: N) -> mlua::Result<Function> {
    const { assert!(mem::align_of::<N>() <= 8, "as the memory of userdata is") };
    // SAFETY: within the protected frame: the memory is as large as it was asked for, and the function's alone.
    unsafe {
        lua.exec_raw((), |state| {
            let memory = ffi::lua_newuserdatatagged(state, size_of::<N>(), 0);
            memory.cast::<N>().write(native);
            ffi::lua_pushcclosurek(state, called::<N>, ptr::null(), 1, None);
        })
    }
}

unsafe extern "C-unwind" fn called<N: Native>(state: *mut lua_State) -> c_int {
    // SAFETY: Luau calls it with the thread that runs, one of a VM of mlua's, whose stack holds the arguments; its upvalue
    // is what `function` has put there.
    unsafe {
        let native = *ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast::<N>();
        let count = usize::try_from(ffi::lua_gettop(state)).unwrap_or(0);
        let arguments = Arguments { state, count, of: PhantomData };
        let Some(result) = native.call(Lua::get_or_init_from_ptr(state), &arguments) else {
            return 0;
        };
        match result {
            Ok(values) => {
                let room = c_int::try_from(values.len()).unwrap_or(c_int::MAX).saturating_add(1);
                ffi::lua_rawcheckstack(state, room);
                ffi::lua_pushboolean(state, 1);
                for value in &values {
                    push(state, value);
                }
                room
            }
            Err(error) => {
                ffi::lua_rawcheckstack(state, 2);
                ffi::lua_pushboolean(state, 0);
                push_text(state, error.message.as_bytes());
                2
            }
        }
    }
}

#[cfg(test)]
mod tests;
