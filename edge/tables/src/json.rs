//! The fast path of `json_encode` and `json_decode`, as functions of C, without the host's values between: text is written
//! from what is on the VM's stack, and what a text was taken apart into is put onto it.
//!
//! ```text
//! json_encode  a value on the stack ─▶ walked with lua_rawiter ─▶ text         of what is simple
//! json_decode  text ─▶ game::host::json::tokens ─▶ lua_createtable, lua_rawset
//! ```
//!
//! Simple is a flag, a finite number, a string, a list whose items come in order and without holes, a table whose keys
//! are all strings; of a text of 64 KiB at most, so that little is held outside the VM, and nobody waits for it. All else (mixed
//! tables, numbers for names, functions, what is too deep or too large, what the meter refuses) is left to
//! [`from_lua`](crate::from_lua) and `game::host::json`, which know the rules and word the refusals.
//! Not here: how numbers and strings are written.
//!
//! What holds for a function of C: an error of Luau (no memory) leaves its frame as a C++ exception, by which what it
//! owns is dropped, as these frames unwind. It may do so where a value is pushed; nothing half made is held there. A panic of
//! ours would leave Luau's own state as it was in the call: it ends the process, by the program's hook.

use std::cell::Cell;
use std::ffi::c_int;

use game::host::Meter;
use game::host::json::{self, Token};
use game::value::DEPTH_MAX;
use mlua::{Function, Lua, ffi, lua_State};
use smallvec::SmallVec;

use crate::{Found, TABLE_STEPS, look, new_table, push_text, room};

/// Steps that one value costs: as much as to read it and to write it.
const VALUE_STEPS: u32 = crate::VALUE_STEPS + json::VALUE_STEPS;

/// Bytes of a text, from which on it is left to the slow path, which lets writers go on meanwhile.
const FAST_BYTES: usize = 64 * 1024;

/// Bytes that a member of a table adds to its name: two quotes, a colon, a comma.
const MEMBER_BYTES: usize = 4;

/// Whose memory and time the functions here take.
pub trait Metering: 'static {
    /// Knows it of the running call. It runs nothing in the VM: what it is asked about lies on its stack.
    type Meter<'a>: Meter;

    /// That of what runs in `lua`.
    fn meter(lua: &Lua) -> Self::Meter<'_>;
}

/// A function that returns true and the JSON text of its argument if that is simple, else nothing.
///
/// # Errors
/// The VM has no memory for it.
pub fn json_encode<M: Metering>(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: it keeps to what holds for functions of C (above).
    unsafe { lua.create_c_function(encode::<M>) }
}

/// A function that returns true and the value of its argument, a JSON text, or nothing if it is none.
///
/// # Errors
/// The VM has no memory for it.
pub fn json_decode<M: Metering>(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: as above.
    unsafe { lua.create_c_function(decode::<M>) }
}

unsafe extern "C-unwind" fn encode<M: Metering>(state: *mut lua_State) -> c_int {
    // SAFETY: Luau calls it with the thread that runs, whose stack holds the arguments and has room for twenty values;
    // the VM is one of mlua's.
    unsafe {
        let meter = M::meter(Lua::get_or_init_from_ptr(state));
        ffi::lua_settop(state, 1);
        let mut out = WRITTEN.take();
        out.clear();
        let mut writer = Writer { meter: &meter, out: &mut out };
        let is_written = writer.member(state, DEPTH_MAX).is_some();
        if is_written {
            ffi::lua_pushboolean(state, 1);
            push_text(state, &out);
        }
        if out.capacity() <= FAST_BYTES {
            WRITTEN.set(out);
        }
        if is_written { 2 } else { 0 }
    }
}

unsafe extern "C-unwind" fn decode<M: Metering>(state: *mut lua_State) -> c_int {
    // SAFETY: as in `encode`. The text stays on the stack, below what is made of it.
    unsafe {
        let meter = M::meter(Lua::get_or_init_from_ptr(state));
        ffi::lua_settop(state, 1);
        let Found::Text(text) = look(state, 1) else { return 0 };
        if text.len() > FAST_BYTES {
            return 0;
        }
        let Ok(tokens) = json::tokens(text, &meter) else { return 0 };
        ffi::lua_pushboolean(state, 1);
        push_token(state, &tokens, 0);
        2
    }
}

thread_local! {
    /// What texts are written into.
    static WRITTEN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Writes what is simple. `None` leaves it to the slow path, whatever the reason: that one will find it again.
struct Writer<'a> {
    meter: &'a dyn Meter,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    /// The table on top of the stack. What is put above it is left there where it is not simple.
    ///
    /// # Safety
    /// There is one, of a VM that nobody else uses meanwhile.
    unsafe fn table(&mut self, state: *mut lua_State, depth_left: usize) -> Option<()> {
        let depth_left = depth_left.checked_sub(1)?;
        self.meter.spend(TABLE_STEPS).ok()?;
        // SAFETY: the table is on top; key and member lie above it until they are taken away.
        unsafe {
            room(state).ok()?;
            let first = ffi::lua_rawiter(state, -1, 0);
            if first < 0 {
                self.out.extend_from_slice(b"{}");
                return Some(());
            }
            match look(state, -2) {
                Found::Whole(1) => self.list(state, first, depth_left),
                Found::Text(_) => {
                    ffi::lua_settop(state, -3);
                    self.map(state, depth_left)
                }
                _ => None,
            }
        }
    }

    /// # Safety
    /// As for [`Self::table`]; its first key and member are above it.
    unsafe fn list(
        &mut self,
        state: *mut lua_State,
        first: c_int,
        depth_left: usize,
    ) -> Option<()> {
        let (mut next, mut index) = (first, 1);
        self.out.push(b'[');
        while next >= 0 {
            // SAFETY: key and member are on top.
            unsafe {
                if !matches!(look(state, -2), Found::Whole(at) if at == index) {
                    return None;
                }
                if index > 1 {
                    self.out.push(b',');
                }
                self.member(state, depth_left)?;
                ffi::lua_settop(state, -3);
                next = ffi::lua_rawiter(state, -1, next);
            }
            index += 1;
        }
        self.out.push(b']');
        Some(())
    }

    /// # Safety
    /// As for [`Self::table`].
    unsafe fn map(&mut self, state: *mut lua_State, depth_left: usize) -> Option<()> {
        // Of each member its name, which the table keeps where it is, and from where `lua_rawiter` comes to it.
        let mut names: SmallVec<[(&[u8], c_int); 16]> = SmallVec::new();
        let (mut next, mut bytes) = (0, self.out.len());
        loop {
            // SAFETY: the table is on top; key and member are taken away at once.
            unsafe {
                let from = next;
                next = ffi::lua_rawiter(state, -1, from);
                if next < 0 {
                    break;
                }
                let Found::Text(name) = look(state, -2) else { return None };
                bytes += name.len() + MEMBER_BYTES;
                if bytes > FAST_BYTES {
                    return None;
                }
                names.push((name, from));
                ffi::lua_settop(state, -3);
            }
            self.meter.spend(json::VALUE_STEPS).ok()?;
        }
        names.sort_unstable();
        self.out.push(b'{');
        for (place, (name, from)) in names.into_iter().enumerate() {
            if place > 0 {
                self.out.push(b',');
            }
            json::write_text(name, self.out, self.meter).ok()?;
            self.out.push(b':');
            // SAFETY: the table is on top and nobody has changed it.
            unsafe {
                ffi::lua_rawiter(state, -1, from);
                self.member(state, depth_left)?;
                ffi::lua_settop(state, -3);
            }
        }
        self.out.push(b'}');
        Some(())
    }

    /// # Safety
    /// A member is on top.
    unsafe fn member(&mut self, state: *mut lua_State, depth_left: usize) -> Option<()> {
        self.meter.spend(VALUE_STEPS).ok()?;
        if self.out.len() > FAST_BYTES {
            return None;
        }
        // SAFETY: it stays on top while it is looked at.
        match unsafe { look(state, -1) } {
            Found::Flag(flag) => self.out.extend_from_slice(if flag { b"true" } else { b"false" }),
            Found::Whole(number) => json::write_whole(number, self.out).ok()?,
            // Negative zero is written without its sign.
            Found::Number(0.0) => json::write_whole(0, self.out).ok()?,
            Found::Number(number) => json::write_float(number, self.out).ok()?,
            Found::Text(text) if self.out.len() + text.len() <= FAST_BYTES => {
                json::write_text(text, self.out, self.meter).ok()?;
            }
            // SAFETY: the table is on top.
            Found::Table => return unsafe { self.table(state, depth_left) },
            Found::Text(_) | Found::Nil | Found::Function(_) | Found::Other => return None,
        }
        Some(())
    }
}

/// Puts the value that begins at `at` on top of the stack. Where the next one begins.
///
/// # Safety
/// Within a protected call, as it raises errors of Luau.
unsafe fn push_token(state: *mut lua_State, tokens: &[Token<'_>], at: usize) -> usize {
    let mut next = at + 1;
    #[allow(clippy::cast_precision_loss, reason = "Lua's numbers are doubles")]
    // SAFETY: as the caller says; room is asked for with each table.
    unsafe {
        match &tokens[at] {
            Token::Nil => ffi::lua_pushnil(state),
            Token::Flag(flag) => ffi::lua_pushboolean(state, (*flag).into()),
            Token::Whole(number) => ffi::lua_pushnumber(state, *number as f64),
            Token::Number(number) => ffi::lua_pushnumber(state, *number),
            Token::Text(text) => push_text(state, text.as_bytes()),
            Token::List(count) => {
                new_table(state, *count, 0);
                for index in (1..).take(*count) {
                    next = push_token(state, tokens, next);
                    ffi::lua_rawseti(state, -2, index);
                }
            }
            Token::Map(count) => {
                new_table(state, 0, *count);
                for _ in 0..*count {
                    next = push_token(state, tokens, next);
                    next = push_token(state, tokens, next);
                    ffi::lua_rawset(state, -3);
                }
            }
        }
    }
    next
}

#[cfg(test)]
mod tests;
