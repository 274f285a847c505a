//! Functions that give back what they are given, beside what is read and made from outside; and what becomes of a call
//! where memory ends.

use std::cell::Cell;

use bytes::Bytes;
use event::Random;
use game::guest::HostError;
use game::host::{RunResult, Unmetered};
use game::value::Value;
use mlua::{Lua, MultiValue, Value as LuaValue};
use smallvec::{SmallVec, smallvec};

use super::{Arguments, Native, function};
use crate::tests::{goes_round_in_a_coroutine, nested, wild};
use crate::{from_lua_counted, to_lua};

thread_local! {
    /// Members that were left out of the last argument.
    static LEFT_OUT: Cell<usize> = const { Cell::new(0) };
}

/// Gives back its arguments, or why they cannot be read.
#[derive(Clone, Copy, Debug)]
struct Echo {
    /// Says nothing where the first argument is true.
    may_wait: bool,
}

impl Native for Echo {
    fn call(self, _: &Lua, arguments: &Arguments<'_>) -> Option<RunResult> {
        if self.may_wait && arguments.count() > 0 && arguments.is_true(0) {
            return None;
        }
        let read = |index| {
            let (value, left_out) = arguments.read(index, &Unmetered)?;
            LEFT_OUT.set(left_out);
            Ok(value)
        };
        let values: Result<SmallVec<_>, crate::ConvertError> =
            (0..arguments.count()).map(read).collect();
        Some(values.map_err(|error| HostError::new(error.to_string())))
    }
}

/// As text, so that NaN is like itself and the order of members counts.
fn shown(lua: &Lua, value: &LuaValue) -> String {
    // Outside of tables, mlua keeps whole numbers that no double has.
    let value: LuaValue = lua.load("return ...").call(value).unwrap();
    format!("{:?}", from_lua_counted(lua, &value, &Unmetered))
}

#[test]
fn arguments_are_read_and_results_made_as_from_outside() {
    let lua = Lua::new();
    let echo = function(&lua, Echo { may_wait: false }).unwrap();
    let mut random = Random::from_number(5);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let depth = random.below(5);
        let value: LuaValue = lua.load("return ...").call(wild(&lua, &mut random, depth)).unwrap();
        let (is_done, found) = echo.call::<(bool, LuaValue)>(&value).unwrap();
        match from_lua_counted(&lua, &value, &Unmetered) {
            Ok((expected, left_out)) => {
                assert!(is_done, "{value:?}");
                let made = to_lua(&lua, &expected).unwrap();
                assert_eq!(shown(&lua, &found), shown(&lua, &made));
                assert_eq!(LEFT_OUT.get(), left_out);
                good += 1;
            }
            Err(error) => {
                assert!(!is_done);
                assert_eq!(found.to_string().unwrap(), error.to_string());
                bad += 1;
            }
        }
    }
    assert!(good > 5_000 && bad > 1_000, "{good} {bad}");
}

#[test]
fn as_many_results_come_back_as_there_are() {
    let lua = Lua::new();
    lua.globals().set("echo", function(&lua, Echo { may_wait: true }).unwrap()).unwrap();
    for (call, expected) in [
        ("echo()", "true"),
        ("echo(nil)", "true nil"),
        ("echo(true, 1)", ""),
        ("echo(false, 1)", "true false 1"),
        ("echo(1, true)", "true 1 true"),
        ("echo({1, 2})", "true table"),
        ("echo(coroutine.create(print))", "false cannot convert a thread"),
        ("echo(vector.create(1, 2, 3))", "false cannot convert a vector"),
        ("echo({ buffer.create(1) })", "false cannot convert a buffer"),
        ("echo({ { [{}] = 1 } })", "false cannot convert a table"),
        ("echo(newproxy())", "false cannot convert a userdata"),
        ("select('#', echo(unpack({}, 1, 200)))", "201"),
    ] {
        let text = format!(
            "local all = {{ {call} }}
            for at = 1, select('#', {call}) do
                all[at] = type(all[at]) == 'table' and 'table' or tostring(all[at])
            end
            return table.concat(all, ' ')"
        );
        assert_eq!(lua.load(text).eval::<String>().unwrap(), expected, "{call}");
    }
}

#[test]
fn functions_run_within_a_coroutine() {
    let lua = Lua::new();
    lua.globals().set("echo", function(&lua, Echo { may_wait: false }).unwrap()).unwrap();
    goes_round_in_a_coroutine(&lua, "select(2, echo(select(2, echo(t))))");
}

thread_local! {
    /// Texts of [`Large`] that are alive.
    static ALIVE: Cell<i32> = const { Cell::new(0) };
}

struct Text([u8; 1_000]);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
    }
}

/// Gives back one large value.
#[derive(Clone, Copy, Debug)]
struct Large;

impl Native for Large {
    fn call(self, _: &Lua, _: &Arguments<'_>) -> Option<RunResult> {
        let text = |_| {
            ALIVE.set(ALIVE.get() + 1);
            Value::List(vec![Value::Bytes(Bytes::from_owner(Text([b'a'; 1_000]))), nested(20)])
        };
        Some(Ok(smallvec![Value::List((0..50).map(text).collect())]))
    }
}

#[test]
fn a_vm_without_memory_says_so_and_nothing_is_lost() {
    let lua = Lua::new();
    let large = function(&lua, Large).unwrap();
    large.call::<MultiValue>(()).unwrap();
    let (mut refused, mut made) = (0, 0);
    for spare in (0..200_000).step_by(1_500) {
        lua.gc_collect().unwrap();
        lua.gc_collect().unwrap();
        lua.set_memory_limit(lua.used_memory() + spare).unwrap();
        match large.call::<MultiValue>(()) {
            Ok(values) => {
                assert_eq!(values.len(), 2);
                made += 1;
            }
            Err(error) => {
                assert!(matches!(error, mlua::Error::MemoryError(_)), "{error:?}");
                refused += 1;
            }
        }
        lua.set_memory_limit(0).unwrap();
        assert_eq!(
            ALIVE.get(),
            0,
            "what the frame owned is dropped when an error of Luau leaves it"
        );
        let sum: u32 = lua.load("return 1 + 1").eval().unwrap();
        assert_eq!(sum, 2);
    }
    assert!(refused > 10 && made > 10, "{refused} {made}");
}
