//! The fast paths of JSON beside the slow ones, on random values and texts; and what happens where memory, depth, size or
//! the meter's patience end.

use std::cell::Cell;

use event::Random;
use game::guest::HostError;
use game::host::{Meter, Unmetered, json};
use game::value::{DEPTH_MAX, Value};
use mlua::{Function, Lua, LuaString, Value as LuaValue};

use super::{FAST_BYTES, Metering, WRITTEN, json_decode, json_encode};
use crate::tests::{goes_round_in_a_coroutine, nested, plain, wild};
use crate::{TABLE_STEPS, from_lua, from_lua_counted, to_lua};

thread_local! {
    /// Questions that a [`Patient`] still answers, and how many of them there are.
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    static ALIVE: Cell<i32> = const { Cell::new(0) };
    /// Steps that were paid for.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// A meter that knows when it ends.
struct Patient;

impl Patient {
    fn ask() -> Result<(), HostError> {
        let left = LEFT.get().checked_sub(1).ok_or_else(|| HostError::new("refused"))?;
        LEFT.set(left);
        Ok(())
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
    }
}

impl Meter for Patient {
    fn spend(&self, steps: u32) -> Result<(), HostError> {
        STEPS.set(STEPS.get() + u64::from(steps));
        Self::ask()
    }
    fn hold(&self, _bytes: usize) -> Result<(), HostError> {
        Self::ask()
    }
    fn time_left_ms(&self) -> u32 {
        u32::MAX
    }
    fn keeps_others_waiting(&self) -> bool {
        false
    }
}

impl Metering for Patient {
    type Meter<'a> = Self;

    fn meter(_lua: &Lua) -> Self {
        ALIVE.set(ALIVE.get() + 1);
        Self
    }
}

/// The result of a fast path, `None` where it leaves the argument to the slow one.
fn fast(path: &Function, argument: &LuaValue) -> mlua::Result<Option<LuaValue>> {
    let (is_done, result) = path.call::<(Option<bool>, LuaValue)>(argument)?;
    assert!(is_done.unwrap_or(true) && (is_done.is_some() || result.is_nil()));
    Ok(is_done.map(|_| result))
}

fn text(value: &LuaValue) -> Vec<u8> {
    let LuaValue::String(text) = value else { unreachable!("{value:?} is no text") };
    text.as_bytes().to_vec()
}

/// The value as the VM has it: outside of tables, mlua keeps whole numbers that no double has.
fn in_lua(lua: &Lua, value: &LuaValue) -> LuaValue {
    lua.load("return ...").call(value).unwrap()
}

/// The slow path.
fn encode(lua: &Lua, value: &LuaValue) -> Option<(Vec<u8>, usize)> {
    let (value, left_out) = from_lua_counted(lua, value, &Unmetered).ok()?;
    Some((json::encode(&value).ok()?, left_out))
}

/// Without what has no fast path: holes in lists, and numbers that JSON has not.
fn simple(value: Value) -> Value {
    match value {
        Value::Float(number) if !number.is_finite() => Value::Int(7),
        Value::Nil => Value::Bool(true),
        Value::List(items) => Value::List(items.into_iter().map(simple).collect()),
        Value::Map(members) => {
            Value::Map(members.into_iter().map(|(name, member)| (name, simple(member))).collect())
        }
        scalar => scalar,
    }
}

#[test]
fn what_the_fast_path_writes_is_what_the_slow_one_writes() {
    let lua = Lua::new();
    let path = json_encode::<Patient>(&lua).unwrap();
    let mut random = Random::from_number(3);
    let (mut written, mut left) = (0, 0);
    for _ in 0..20_000 {
        let depth = random.below(5);
        let value = in_lua(&lua, &wild(&lua, &mut random, depth));
        match fast(&path, &value).unwrap() {
            Some(found) => {
                assert_eq!(Some((text(&found), 0)), encode(&lua, &value), "{value:?}");
                written += 1;
            }
            None => left += 1,
        }
    }
    assert!(written > 4_000 && left > 4_000, "{written} {left}");
    for _ in 0..5_000 {
        let depth = random.below(5);
        let value = in_lua(&lua, &to_lua(&lua, &simple(plain(&mut random, depth))).unwrap());
        let found = fast(&path, &value).unwrap().expect("simple values have a fast path");
        assert_eq!(Some((text(&found), 0)), encode(&lua, &value));
    }
    assert_eq!(ALIVE.get(), 0);
}

#[test]
fn what_the_fast_path_reads_is_what_the_slow_one_reads() {
    let lua = Lua::new();
    let path = json_decode::<Patient>(&lua).unwrap();
    let mut random = Random::from_number(4);
    let odd: [&[u8]; 8] =
        [b"\"", b"\\u00e4", b"[", b"}", b"null", b"1e999", b"\xff", b",\"x\":[{}]"];
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let depth = random.below(5);
        let value = simple(plain(&mut random, depth));
        let mut written = json::encode(&value).unwrap();
        if random.below(3) == 0 {
            let at = random.below(u32::try_from(written.len()).unwrap() + 1) as usize;
            let end = (at + random.below(3) as usize).min(written.len());
            written.splice(at..end, odd[random.below(8) as usize].iter().copied());
        }
        let argument = LuaValue::String(lua.create_string(&written).unwrap());
        let expected = json::decode(&written).ok().map(|value| to_lua(&lua, &value).unwrap());
        let found = fast(&path, &argument).unwrap();
        let plain = |value: &LuaValue| {
            let read = from_lua(&lua, &in_lua(&lua, value), &Unmetered).unwrap();
            String::from_utf8(json::encode(&read).unwrap()).unwrap()
        };
        let shown = written.escape_ascii();
        assert_eq!(found.as_ref().map(plain), expected.as_ref().map(plain), "{shown}");
        *if found.is_some() { &mut good } else { &mut bad } += 1;
    }
    assert!(good > 10_000 && bad > 3_000, "{good} {bad}");
}

#[test]
fn what_is_no_text_is_left_to_the_slow_path() {
    let lua = Lua::new();
    let decode = json_decode::<Patient>(&lua).unwrap();
    let encode = json_encode::<Patient>(&lua).unwrap();
    for argument in [LuaValue::Nil, LuaValue::Integer(1), to_lua(&lua, &nested(2)).unwrap()] {
        assert!(fast(&decode, &argument).unwrap().is_none());
    }
    assert!(decode.call::<Option<bool>>(()).unwrap().is_none());
    assert!(encode.call::<Option<bool>>(()).unwrap().is_none());
    // What is passed beyond the argument is left alone.
    let (is_done, found) = decode.call::<(bool, LuaValue)>(("[null]", "x", 3)).unwrap();
    assert_eq!((is_done, from_lua(&lua, &found, &Unmetered)), (true, Ok(Value::Map(Vec::new()))));
    let (is_done, found) = encode.call::<(bool, LuaString)>(("a", "x", 3)).unwrap();
    assert_eq!((is_done, &*found.as_bytes()), (true, &b"\"a\""[..]));
    let (is_done, found) = decode.call::<(bool, LuaValue)>("null").unwrap();
    assert!(is_done && found.is_nil());
}

#[test]
fn depth_and_size_end_the_fast_path() {
    let lua = Lua::new();
    let path = json_encode::<Patient>(&lua).unwrap();
    let back = json_decode::<Patient>(&lua).unwrap();
    let is_fast = |value: &LuaValue| fast(&path, value).unwrap().is_some();
    assert!(is_fast(&to_lua(&lua, &nested(DEPTH_MAX)).unwrap()));
    assert!(!is_fast(&to_lua(&lua, &nested(DEPTH_MAX + 1)).unwrap()));
    for (levels, is_read) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false)] {
        let written = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let argument = LuaValue::String(lua.create_string(written).unwrap());
        assert_eq!(fast(&back, &argument).unwrap().is_some(), is_read);
    }
    for made in [
        "local t = {} t[1] = t return t",
        "local t = {} t.t = t return t",
        "local t, inner = {}, {}
        for i = 1, 1000 do inner[i] = i end
        for i = 1, 1100 do t[i] = inner end
        return t",
        "local t = {} for i = 1, 10000 do t['name' .. i] = false end return t",
        "return { a = string.rep('a', 64 * 1024) }",
        "return { string.rep('a', 40 * 1024), string.rep('a', 40 * 1024) }",
    ] {
        assert!(!is_fast(&lua.load(made).eval().unwrap()), "{made}");
    }
    for (bytes, is_small) in [(FAST_BYTES, true), (FAST_BYTES + 1, false)] {
        let text = "\u{1}".repeat(bytes);
        assert_eq!(is_fast(&LuaValue::String(lua.create_string(text).unwrap())), is_small);
        let text = format!("{}{}", " ".repeat(bytes - 1), 1);
        let argument = LuaValue::String(lua.create_string(text).unwrap());
        assert_eq!(fast(&back, &argument).unwrap().is_some(), is_small);
    }
    assert!(WRITTEN.take().capacity() <= FAST_BYTES, "no thread keeps a large text's room");
}

#[test]
fn the_meter_may_refuse_at_any_question() {
    let lua = Lua::new();
    let paths = (json_encode::<Patient>(&lua).unwrap(), json_decode::<Patient>(&lua).unwrap());
    let written = r#"{"a":[1,2.5,true,"text"],"b":{"c":"\u00e4"}}"#;
    let argument = LuaValue::String(lua.create_string(written).unwrap());
    let value = fast(&paths.1, &argument).unwrap().unwrap();
    for (path, argument) in [(&paths.0, &value), (&paths.1, &argument)] {
        let mut questions = 0;
        loop {
            LEFT.set(questions);
            let is_done = fast(path, argument).unwrap().is_some();
            LEFT.set(u32::MAX);
            if is_done {
                break;
            }
            questions += 1;
        }
        assert!((8..60).contains(&questions), "{questions}");
        assert!(fast(path, argument).unwrap().is_some());
    }
}

#[test]
fn tables_that_were_emptied_are_paid_for() {
    let lua = Lua::new();
    let path = json_encode::<Patient>(&lua).unwrap();
    let value = lua.load("local t, l = {}, {} for i = 1, 100 do l[i] = t end return l");
    assert!(fast(&path, &value.eval().unwrap()).unwrap().is_some());
    assert!(STEPS.get() > 101 * u64::from(TABLE_STEPS), "{}", STEPS.get());
}

#[test]
fn a_vm_without_memory_says_so_and_nothing_is_lost() {
    let lua = Lua::new();
    let paths = (json_encode::<Patient>(&lua).unwrap(), json_decode::<Patient>(&lua).unwrap());
    let list = format!("[{}]", vec![r#"{"text":"a long one","list":[1,2,3]}"#; 1_000].join(","));
    let argument = LuaValue::String(lua.create_string(list).unwrap());
    let value = fast(&paths.1, &argument).unwrap().unwrap();
    for (path, argument) in [(&paths.0, &value), (&paths.1, &argument)] {
        let (mut refused, mut done) = (0, 0);
        for spare in (0..700_000).step_by(5_000) {
            lua.gc_collect().unwrap();
            lua.gc_collect().unwrap();
            lua.set_memory_limit(lua.used_memory() + spare).unwrap();
            match fast(path, argument) {
                Ok(found) => done += u32::from(found.is_some()),
                Err(error) => {
                    assert!(matches!(error, mlua::Error::MemoryError(_)), "{error:?}");
                    refused += 1;
                }
            }
            lua.set_memory_limit(0).unwrap();
            // What the frame held is dropped when an error of Luau leaves it.
            assert_eq!(ALIVE.get(), 0);
        }
        assert!(refused > 2 && done > 10, "{refused} {done}");
    }
}

#[test]
fn the_fast_paths_run_within_a_coroutine() {
    let lua = Lua::new();
    lua.globals().set("encode", json_encode::<Patient>(&lua).unwrap()).unwrap();
    lua.globals().set("decode", json_decode::<Patient>(&lua).unwrap()).unwrap();
    goes_round_in_a_coroutine(&lua, "select(2, decode(select(2, encode(t))))");
}
