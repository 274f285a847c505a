//! Random values and tables, read and made here and, member by member, through mlua's safe functions; and what
//! happens where memory, depth or numbers end.

use std::cell::Cell;

use bytes::Bytes;
use event::Random;
use game::guest::HostError;
use game::host::{Meter, Unmetered};
use game::pairs::Pairs;
use game::value::{TABLE_DEPTH_MAX, Value};
use mlua::{Function, Lua, LuaString, MultiValue, Table, Value as LuaValue};

use super::{
    ConvertError, LIST_INDEX_MAX, List, Member, TABLE_STEPS, VALUE_STEPS, VALUES_MAX, from_lua,
    from_lua_counted, named, to_lua,
};

/// Counts what it is asked for, and refuses after so many questions.
struct Counting {
    steps: Cell<u64>,
    bytes: Cell<usize>,
    questions_left: Cell<u32>,
}

impl Counting {
    fn new(questions: u32) -> Self {
        Self { steps: Cell::new(0), bytes: Cell::new(0), questions_left: Cell::new(questions) }
    }

    fn ask(&self) -> Result<(), HostError> {
        let left = self.questions_left.get().checked_sub(1);
        self.questions_left.set(left.unwrap_or(0));
        left.map(drop).ok_or_else(|| HostError::new("refused"))
    }

    fn counted(&self) -> (u64, usize, u32) {
        (self.steps.get(), self.bytes.get(), self.questions_left.get())
    }
}

impl Meter for Counting {
    fn spend(&self, steps: u32) -> Result<(), HostError> {
        self.steps.set(self.steps.get() + u64::from(steps));
        self.ask()
    }
    fn hold(&self, bytes: usize) -> Result<(), HostError> {
        self.bytes.set(self.bytes.get() + bytes);
        self.ask()
    }
    fn time_left_ms(&self) -> u32 {
        u32::MAX
    }
    fn keeps_others_waiting(&self) -> bool {
        false
    }
}

/// The same as [`from_lua_counted`] by mlua's safe functions, and with no limit but that on holes.
fn read(
    value: &LuaValue,
    meter: &dyn Meter,
    (depth_left, left_out): (usize, &mut usize),
) -> Result<Value, ConvertError> {
    let bytes = |text: &mlua::LuaString| -> Result<Bytes, ConvertError> {
        meter.hold(text.as_bytes().len())?;
        Ok(Bytes::copy_from_slice(&text.as_bytes()))
    };
    let table = match value {
        LuaValue::Nil => return Ok(Value::Nil),
        LuaValue::Boolean(flag) => return Ok(Value::Bool(*flag)),
        LuaValue::Integer(number) => return Ok(Value::Int(*number)),
        LuaValue::Number(0.0) => return Ok(Value::Int(0)),
        LuaValue::Number(number) => return Ok(Value::Float(*number)),
        LuaValue::String(text) => return Ok(Value::Bytes(bytes(text)?)),
        LuaValue::Function(function) => {
            return Ok(Value::text(format!("function: {:p}", function.to_pointer())));
        }
        LuaValue::Table(table) => table,
        LuaValue::Error(_) => return Err(ConvertError::Kind("userdata")),
        other => return Err(ConvertError::Kind(other.type_name())),
    };
    let depth_left = depth_left.checked_sub(1).ok_or(ConvertError::Deep)?;
    let (mut list, mut members) = (List::default(), Vec::new());
    meter.spend(TABLE_STEPS)?;
    meter.hold(table.raw_len() * size_of::<Value>())?;
    for pair in table.pairs::<LuaValue, LuaValue>() {
        let (key, member) = pair?;
        meter.spend(VALUE_STEPS)?;
        if let LuaValue::Integer(index @ 1..LIST_INDEX_MAX) = key {
            let member = read(&member, meter, (depth_left, left_out))?;
            list.add(usize::try_from(index).unwrap(), member);
            continue;
        }
        meter.hold(size_of::<(Bytes, Value)>())?;
        let name = match &key {
            LuaValue::String(text) => bytes(text)?,
            LuaValue::Integer(number) => Bytes::from(number.to_string()),
            LuaValue::Number(number) => Bytes::from(number.to_string()),
            LuaValue::Boolean(flag) => Bytes::from(flag.to_string()),
            LuaValue::Error(_) => return Err(ConvertError::Kind("userdata")),
            other => return Err(ConvertError::Kind(other.type_name())),
        };
        members.push((name, read(&member, meter, (depth_left, left_out))?));
    }
    if list.is_empty() {
        return Ok(Value::Map(members));
    }
    *left_out += members.len();
    if list.holes() > VALUES_MAX {
        return Err(ConvertError::Large);
    }
    meter.hold(list.holes() * size_of::<Value>())?;
    Ok(Value::List(list.whole()))
}

/// The same as [`to_lua`] by mlua's safe functions.
fn make(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::List(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                table.raw_set(index + 1, make(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Map(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for (name, member) in members {
                table.raw_set(lua.create_string(name)?, make(lua, member)?)?;
            }
            LuaValue::Table(table)
        }
        scalar => to_lua(lua, scalar)?,
    })
}

fn text(random: &mut Random) -> Bytes {
    let kinds: [&[u8]; 6] = [b"", b"id", b"a\0b", b"\xff\xfe", "\u{e4}".as_bytes(), b"12"];
    match random.below(8) {
        at @ 0..6 => Bytes::from_static(kinds[at as usize]),
        6 => Bytes::from(vec![b'x'; 300]),
        _ => Bytes::from(random.below(1000).to_string()),
    }
}

fn float(random: &mut Random) -> f64 {
    let odd = [
        0.0,
        -0.0,
        0.5,
        -1.0,
        1e300,
        9_007_199_254_740_993.0,
        9_223_372_036_854_775_807.0,
        -9_223_372_036_854_775_808.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        67_108_863.0,
        67_108_864.0,
        5e-324,
    ];
    odd[random.below(14) as usize]
}

pub(crate) fn plain(random: &mut Random, depth: u32) -> Value {
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 => Value::Nil,
        1 => Value::Bool(random.below(2) == 0),
        2 => Value::Int(i64::from_le_bytes(random.bytes()) >> random.below(64)),
        3 => Value::Float(float(random)),
        4 => Value::Bytes(text(random)),
        5 => Value::List((0..random.below(6)).map(|_| plain(random, depth - 1)).collect()),
        _ => {
            let members = (0..random.below(6)).map(|_| (text(random), plain(random, depth - 1)));
            Value::Map(members.collect())
        }
    }
}

/// A value as scripts make them: with holes, with keys of all kinds, with what is no data.
pub(crate) fn wild(lua: &Lua, random: &mut Random, depth: u32) -> LuaValue {
    if depth == 0 || random.below(3) == 0 {
        return match random.below(40) {
            0 => LuaValue::Function(lua.globals().get("print").unwrap()),
            1 => LuaValue::Table(lua.globals().get("string").unwrap()),
            2 => LuaValue::Thread(lua.create_thread(lua.globals().get("print").unwrap()).unwrap()),
            3 => LuaValue::Vector(mlua::Vector::new(1.0, 2.0, 3.0)),
            4 => LuaValue::Error(Box::new(mlua::Error::runtime("an error"))),
            _ => to_lua(lua, &plain(random, 0)).unwrap(),
        };
    }
    let table = lua.create_table().unwrap();
    for index in 1..=random.below(8) {
        let key = match random.below(10) {
            0..5 => LuaValue::Integer(i64::from(index)),
            5 => LuaValue::Integer(i64::from(random.below(60))),
            6 => wild(lua, random, 0),
            7 => LuaValue::Boolean(random.below(2) == 0),
            _ => LuaValue::String(lua.create_string(text(random)).unwrap()),
        };
        if !key.is_nil() && !matches!(key, LuaValue::Number(number) if number.is_nan()) {
            table.raw_set(key, wild(lua, random, depth - 1)).unwrap();
        }
    }
    LuaValue::Table(table)
}

/// As text, so that NaN is like itself and the order of members counts.
fn shown(result: &Result<(Value, usize), ConvertError>) -> String {
    format!("{result:?}")
}

fn top(lua: &Lua) -> i32 {
    // SAFETY: it counts.
    unsafe { mlua::ffi::lua_gettop(lua.state()) }
}

#[test]
fn tables_are_read_as_through_mlua() {
    let lua = Lua::new();
    let mut random = Random::from_number(1);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let depth = random.below(5);
        let value = wild(&lua, &mut random, depth);
        let questions = if random.below(4) == 0 { random.below(20) } else { u32::MAX };
        let (ours, theirs) = (Counting::new(questions), Counting::new(questions));
        let mut left_out = 0;
        let expected = read(&value, &theirs, (TABLE_DEPTH_MAX, &mut left_out));
        let expected = expected.map(|value| (value, left_out));
        let top = top(&lua);
        let found = from_lua_counted(&lua, &value, &ours);
        assert_eq!(shown(&found), shown(&expected));
        assert_eq!(ours.counted(), theirs.counted());
        assert_eq!(self::top(&lua), top, "the stack is as it was");
        *if found.is_ok() { &mut good } else { &mut bad } += 1;
    }
    assert!(good > 5_000 && bad > 1_000, "{good} {bad}");
}

#[test]
fn tables_are_made_as_through_mlua() {
    let lua = Lua::new();
    let mut random = Random::from_number(2);
    // Every key and member in the order of `pairs`, with its type, and the length.
    let show = lua.load(
        "local function show(it)
            if type(it) ~= 'table' then return type(it) .. ' ' .. tostring(it) end
            local parts = {}
            for key, member in pairs(it) do parts[#parts + 1] = show(key) .. '=' .. show(member) end
            return #it .. '{' .. table.concat(parts, ',') .. '}'
        end
        return show",
    );
    let show: Function = show.eval().unwrap();
    for round in 0..20_000 {
        if round % 100 == 0 {
            // Not in between: members that are nil go with their places when it pleases the collector, which
            // changes the order.
            lua.gc_collect().unwrap();
            lua.gc_stop();
        }
        let depth = random.below(5);
        let value = plain(&mut random, depth);
        let shown = |it: LuaValue| show.call::<mlua::LuaString>(it).unwrap().as_bytes().to_vec();
        let (ours, theirs) = (to_lua(&lua, &value).unwrap(), make(&lua, &value).unwrap());
        assert!(shown(ours) == shown(theirs), "{value:?}");
    }
}

#[test]
fn members_of_all_kinds_are_there_and_one_table_is_shared() {
    let lua = Lua::new();
    let shared = lua.create_table().unwrap();
    let (pairs, texts) = (Pairs::default(), [("k".to_owned(), "v".to_owned())]);
    let made = named(
        &lua,
        &shared,
        &[
            ("text", Member::Text(b"a\0b")),
            ("number", Member::Number(1.5)),
            ("texts", Member::Texts(&texts)),
            ("lists", Member::Lists(&pairs)),
            ("shared", Member::Shared),
        ],
    );
    let LuaValue::Table(made) = made.unwrap() else { panic!("no table") };
    assert_eq!(made.get::<LuaString>("text").unwrap().as_bytes(), b"a\0b");
    assert_eq!(made.get::<f64>("number").unwrap().to_bits(), 1.5_f64.to_bits());
    assert_eq!(made.get::<Table>("texts").unwrap().get::<String>("k").unwrap(), "v");
    assert!(made.get::<Table>("lists").unwrap().is_empty());
    assert_eq!(made.get::<Table>("shared").unwrap(), shared);
    assert_eq!(made.pairs::<String, LuaValue>().count(), 5);
    assert!(named(&lua, &shared, &[]).unwrap().as_table().unwrap().is_empty());
}

#[test]
fn names_that_come_again_have_lists() {
    let lua = Lua::new();
    let shared = lua.create_table().unwrap();
    let lists = |lua: &Lua, pairs: &Pairs| -> mlua::Result<LuaValue> {
        let made = named(lua, &shared, &[("it", Member::Lists(pairs))])?;
        made.as_table().unwrap().get("it")
    };
    let given = [("a", "1"), ("", ""), ("b", "2"), ("a", "3"), ("b", ""), ("a", "x")];
    let made = lists(&lua, &given.into_iter().collect()).unwrap();
    let texts = |name: &str| {
        let list: Vec<String> = made.as_table().unwrap().get(name).unwrap();
        list
    };
    assert_eq!(texts("a"), ["1", "3", "x"]);
    assert_eq!((texts("b"), texts("")), (vec!["2".to_owned(), String::new()], vec![String::new()]));
    assert_eq!(made.as_table().unwrap().pairs::<String, Table>().count(), 3);
    let many: Pairs = (0..4_000).map(|at| ((at % 700).to_string(), "text")).collect();
    let made = lists(&lua, &many).unwrap();
    assert_eq!(made.as_table().unwrap().get::<Table>("10").unwrap().raw_len(), 6);
    assert!(lists(&lua, &Pairs::default()).unwrap().as_table().unwrap().is_empty());
    lua.gc_collect().unwrap();
    lua.set_memory_limit(lua.used_memory() + 10_000).unwrap();
    assert!(matches!(lists(&lua, &many), Err(mlua::Error::MemoryError(_))));
}

/// So many lists, one in the other.
pub(crate) fn nested(levels: usize) -> Value {
    (1..levels).fold(Value::List(Vec::new()), |inner, _| Value::List(vec![inner]))
}

#[test]
fn depth_is_limited() {
    let lua = Lua::new();
    let back = |levels| from_lua(&lua, &to_lua(&lua, &nested(levels)).unwrap(), &Unmetered);
    // An empty table is a map.
    assert!(back(TABLE_DEPTH_MAX).is_ok());
    assert_eq!(back(TABLE_DEPTH_MAX + 1), Err(ConvertError::Deep));
    let itself = lua.create_table().unwrap();
    itself.set(1, &itself).unwrap();
    let found = from_lua(&lua, &LuaValue::Table(itself), &Unmetered);
    assert_eq!(found, Err(ConvertError::Deep));
}

#[test]
fn sizes_are_limited() {
    let lua = Lua::new();
    let wide: Table = lua
        .load(
            "local t, inner = {}, {}
            for i = 1, 1000 do inner[i] = i end
            for i = 1, 1100 do t[i] = inner end
            return t",
        )
        .eval()
        .unwrap();
    assert_eq!(from_lua(&lua, &LuaValue::Table(wide), &Unmetered), Err(ConvertError::Large));
    let long: Table = lua
        .load("local s = string.rep('a', 1024 * 1024) local t = {} for i = 1, 65 do t[i] = s end return t")
        .eval()
        .unwrap();
    assert_eq!(from_lua(&lua, &LuaValue::Table(long), &Unmetered), Err(ConvertError::Large));
}

#[test]
fn a_vm_without_memory_says_so_wherever_it_ends() {
    let lua = Lua::new();
    let value = Value::Map(
        (0..50)
            .map(|at| {
                let inner = vec![Value::text("a".repeat(1000)), nested(20), Value::Int(at)];
                (Bytes::from(at.to_string()), Value::List(inner))
            })
            .collect(),
    );
    to_lua(&lua, &value).unwrap();
    let (mut refused, mut made) = (0, 0);
    for spare in (0..200_000).step_by(1_500) {
        lua.gc_collect().unwrap();
        lua.gc_collect().unwrap();
        lua.set_memory_limit(lua.used_memory() + spare).unwrap();
        match to_lua(&lua, &value) {
            Ok(_) => made += 1,
            Err(error) => {
                assert!(matches!(error, mlua::Error::MemoryError(_)), "{error:?}");
                refused += 1;
            }
        }
        lua.set_memory_limit(0).unwrap();
        let sum: u32 = lua.load("return 1 + 1").eval().unwrap();
        assert_eq!(sum, 2);
    }
    assert!(refused > 10 && made > 10, "{refused} {made}");
}

/// A table goes through `back`, an expression over `t`, a hundred times in turns with who resumes the coroutine.
pub(crate) fn goes_round_in_a_coroutine(lua: &Lua, back: &str) {
    let text = format!(
        "local co = coroutine.wrap(function(t)
            for _ = 1, 100 do t = {back} coroutine.yield() end
            return t.list[3][2] .. #t.list
        end)
        local answer
        repeat answer = co({{ list = {{ 1, 2, {{ 'a', 'b' }} }}, name = 'x' }}) until answer
        return answer"
    );
    assert_eq!(lua.load(text).eval::<String>().unwrap(), "b3");
}

#[test]
fn values_are_read_and_made_within_a_coroutine() {
    let lua = Lua::new();
    let back = lua.create_function(|lua, values: MultiValue| {
        let value = from_lua(lua, &values[0], &Unmetered).unwrap();
        to_lua(lua, &value)
    });
    lua.globals().set("back", back.unwrap()).unwrap();
    goes_round_in_a_coroutine(&lua, "back(t)");
}
