//! The libraries as Nakama's scripts know them, where Luau's differ or where their loops would not
//! end with the call's budget: patterns, `string.format`, `load`, `table.sort` and what Lua 5.1 has
//! and Luau has not. The Rust half is here, the Lua half in `library.lua`, which runs before the
//! prelude in every VM, save those of matches whose modules name none of its functions: there each
//! has a stand-in, because most matches need few of them, and a thousand matches are a thousand VMs. So a match's VM that
//! cannot come to `bit32` and `utf8` is without them.
//!
//! What is left to Luau is bounded by the size of its arguments, a nanosecond or few for each byte
//! or element, and those are bounded by the VM's memory.
//!
//! Source: nakama 3.40, `internal/gopher-lua/{baselib,stringlib,tablelib,mathlib}.go`.

mod format;
mod pattern;

use std::collections::BTreeSet;

use memchr::memmem;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaString, MultiValue, Table, Value as LuaValue};

use crate::budget;
use crate::dialect::{self, Kind, Trouble as Refusal, Work};
use crate::sources::{Sources, compile_text};
use crate::vm::Part;
use pattern::{Capture, Matcher, Trouble};

/// Bytes of a text given to `load` and `loadstring`; the compiler cannot be interrupted.
const LOAD_BYTES_MAX: usize = 256 * 1024;

/// Bytes that such a text may have in Luau: jumps take more there. The compiler takes about 0.1 s
/// for so much.
const TRANSLATED_BYTES_MAX: usize = 4 * LOAD_BYTES_MAX;

/// The functions that `library.lua` and the prelude put in Luau's place, or beside Luau's.
const NAMES: [&str; 19] = [
    "concat",
    "date",
    "find",
    "format",
    "gfind",
    "gmatch",
    "gsub",
    "load",
    "loadstring",
    "lower",
    "match",
    "module",
    "print",
    "random",
    "randomseed",
    "rep",
    "sort",
    "time",
    "upper",
];

/// Both libraries that a VM can be without, and what finds a global that the text does not name. (`load` and `module` find
/// them, too, and are among [`NAMES`].)
const FINDERS: [&str; 5] = ["_G", "bit32", "getfenv", "package", "utf8"];

/// What a module's text says of the libraries.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    /// Whether it names any function of `library.lua`, or requires a module that it does not name.
    library: bool,
    /// Whether it could come to `bit32` or `utf8`.
    seldom: bool,
    /// The modules that it requires by name.
    requires: Vec<String>,
}

impl Mentions {
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut mentions = Self::default();
        let Ok((text, tokens)) = dialect::tokens(text) else {
            return Self { library: true, seldom: true, ..mentions };
        };
        let text_of = |index: usize| {
            let token: Option<&dialect::Token> = tokens.get(index);
            let bytes = token.and_then(|it| text.get(it.start..it.end)).unwrap_or_default();
            (token.map(|it| it.kind), std::str::from_utf8(bytes).unwrap_or_default())
        };
        for index in 0..tokens.len() {
            match text_of(index) {
                (Some(Kind::Name), "require") => {
                    let has_bracket = text_of(index + 1).1 == "(";
                    let at = if has_bracket { index + 2 } else { index + 1 };
                    // `require("a" .. b)` names none.
                    let is_whole = !has_bracket || text_of(at + 1).1 == ")";
                    match text_of(at) {
                        (Some(Kind::Text), name) if is_whole && !name.contains(['[', '\\']) => {
                            mentions.requires.push(name.trim_matches(['"', '\'']).to_owned());
                        }
                        _ => mentions.library = true,
                    }
                }
                (Some(Kind::Name), name) if NAMES.contains(&name) => mentions.library = true,
                (Some(Kind::Name), name) if FINDERS.contains(&name) => mentions.seldom = true,
                _ => (),
            }
        }
        mentions
    }
}

/// What a VM is to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// All that `library.lua` has, and not stand-ins for it.
    pub(crate) is_whole: bool,
    /// `bit32` and `utf8`, of 3 KB.
    pub(crate) has_seldom: bool,
}

impl Extent {
    pub(crate) const WHOLE: Self = Self { is_whole: true, has_seldom: true };

    /// What this module and those that it requires may come to.
    pub(crate) fn of(sources: &Sources, module: &str) -> Self {
        let mut extent = Self { is_whole: false, has_seldom: false };
        let mut seen = BTreeSet::from([module]);
        let mut next = vec![module];
        while let Some(name) = next.pop() {
            // `require` finds a library before a module of its name.
            extent.has_seldom |= FINDERS.contains(&name);
            let Some(module) = sources.modules.get(name) else { continue };
            if module.mentions.library {
                return Self::WHOLE;
            }
            extent.has_seldom |= module.mentions.seldom;
            let requires = module.mentions.requires.iter().map(String::as_str);
            next.extend(requires.filter(|name| seen.insert(name)));
        }
        extent
    }
}

/// Puts the libraries in place, or stand-ins that load them when they are called first.
pub(crate) fn open(lua: &Lua, native: &Table, whole: bool) -> mlua::Result<()> {
    let globals = lua.globals();
    globals.raw_set("_VERSION", "Lua 5.1")?;
    let string: Table = globals.get("string")?;
    string.raw_remove("split")?;
    native.raw_set("lower", string.get::<Function>("lower")?)?;
    // Not in 5.1; its loop in C cannot be interrupted.
    globals.get::<Table>("table")?.raw_remove("move")?;
    let math: Table = globals.get("math")?;
    math.raw_set("mod", math.get::<Function>("fmod")?)?;
    if whole {
        load_library(lua, native, None)
    } else {
        Part::StandIns.load(lua)?.call::<()>(native)
    }
}

/// Runs `library.lua`, with `globals` in the globals' place if they are given.
pub(crate) fn load_library(lua: &Lua, native: &Table, globals: Option<Table>) -> mlua::Result<()> {
    let ours = lua.create_table()?;
    ours.raw_set("find", lua.create_function(find)?)?;
    ours.raw_set("match", lua.create_function(find_captures)?)?;
    ours.raw_set("step", lua.create_function(step)?)?;
    ours.raw_set("gsub", lua.create_function(gsub)?)?;
    ours.raw_set("format", lua.create_function(string_format)?)?;
    for name in ["load_text", "map_case", "now_ms", "print"] {
        ours.raw_set(name, native.get::<Function>(name)?)?;
    }
    let library = Part::Library.load(lua)?;
    if let Some(globals) = globals {
        library.set_environment(globals)?;
    }
    library.call::<()>((ours, native.get::<Function>("part")?))
}

/// Makes `pairs` follow the order of keys; last, because it replaces what all others use.
pub(crate) fn keep_order(lua: &Lua) -> mlua::Result<()> {
    Part::Ordered.load(lua)?.call::<()>(())
}

/// A text or a number as text, as Lua's functions take them.
fn text_of(lua: &Lua, value: &LuaValue) -> mlua::Result<Option<LuaString>> {
    match value {
        LuaValue::String(text) => Ok(Some(text.clone())),
        LuaValue::Integer(_) | LuaValue::Number(_) => lua.coerce_string(value.clone()),
        _ => Ok(None),
    }
}

/// What the Lua half raises as an error: false and a text.
fn refused(lua: &Lua, text: &str) -> mlua::Result<MultiValue> {
    let text = LuaValue::String(lua.create_string(text)?);
    Ok(MultiValue::from_iter([LuaValue::Boolean(false), text]))
}

fn wrong_argument(lua: &Lua, index: u8, name: &str, value: &LuaValue) -> mlua::Result<MultiValue> {
    let got = if value.is_nil() { "no value" } else { value.type_name() };
    refused(lua, &format!("bad argument #{index} to '{name}' (string expected, got {got})"))
}

fn trouble(lua: &Lua, trouble: Trouble) -> mlua::Result<MultiValue> {
    match trouble {
        Trouble::Pattern(text) => refused(lua, text),
        Trouble::Budget(error) => Err(error),
    }
}

/// Where a search begins, from 0; past the end there is nothing to find.
fn begin(length: usize, init: Option<f64>) -> Option<usize> {
    #[allow(clippy::cast_possible_truncation, reason = "Lua cuts off; `as` saturates")]
    let init = init.unwrap_or(1.0) as i64;
    let length_i64 = i64::try_from(length).unwrap_or(i64::MAX);
    let from = if init < 0 { (length_i64 + init).max(0) } else { (init - 1).max(0) };
    usize::try_from(from).ok().filter(|from| *from <= length)
}

fn capture_values(
    lua: &Lua,
    subject: &[u8],
    captures: &[Capture],
    out: &mut MultiValue,
) -> mlua::Result<()> {
    for capture in captures {
        out.push_back(match *capture {
            Capture::Place(place) => number(place),
            Capture::Text(from, to) => {
                LuaValue::String(lua.create_string(subject.get(from..to).unwrap_or_default())?)
            }
        });
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "no string has 2^53 bytes")]
fn number(place: usize) -> LuaValue {
    LuaValue::Number(place as f64)
}

/// Steps of about a nanosecond for a linear pass over `bytes`.
fn linear(bytes: usize) -> mlua::Result<()> {
    budget::spend(u32::try_from(bytes / 4).unwrap_or(u32::MAX))
}

type Search = (LuaValue, LuaValue, Option<f64>, LuaValue);

/// `string.find`: first and last place, and the captures.
fn find(lua: &Lua, (subject, pattern, init, plain): Search) -> mlua::Result<MultiValue> {
    let Some(text) = text_of(lua, &subject)? else {
        return wrong_argument(lua, 1, "find", &subject);
    };
    let Some(wanted) = text_of(lua, &pattern)? else {
        return wrong_argument(lua, 2, "find", &pattern);
    };
    let (subject, pattern) = (text.as_bytes(), wanted.as_bytes());
    let nothing = || Ok(MultiValue::from_iter([LuaValue::Nil]));
    let Some(from) = begin(subject.len(), init) else { return nothing() };
    let is_plain = !matches!(plain, LuaValue::Nil | LuaValue::Boolean(false));
    if is_plain || pattern::is_plain(&pattern) {
        linear(subject.len().saturating_add(pattern.len()))?;
        let found = memmem::find(subject.get(from..).unwrap_or_default(), &pattern);
        let Some(at) = found.map(|at| from + at) else { return nothing() };
        return Ok(MultiValue::from_iter([number(at + 1), number(at + pattern.len())]));
    }
    let mut matcher = Matcher::new(&subject, &pattern);
    match matcher.find(from).and_then(|found| Ok((found, matcher.captures(None)?))) {
        Ok((Some((start, end)), captures)) => {
            let mut out = MultiValue::from_iter([number(start + 1), number(end)]);
            capture_values(lua, &subject, &captures, &mut out)?;
            Ok(out)
        }
        Ok((None, _)) => nothing(),
        Err(error) => trouble(lua, error),
    }
}

/// `string.match`.
fn find_captures(
    lua: &Lua,
    (subject, pattern, init): (LuaValue, LuaValue, Option<f64>),
) -> mlua::Result<MultiValue> {
    let Some(text) = text_of(lua, &subject)? else {
        return wrong_argument(lua, 1, "match", &subject);
    };
    let Some(wanted) = text_of(lua, &pattern)? else {
        return wrong_argument(lua, 2, "match", &pattern);
    };
    let (subject, pattern) = (text.as_bytes(), wanted.as_bytes());
    let mut out = MultiValue::new();
    let Some(from) = begin(subject.len(), init) else {
        out.push_back(LuaValue::Nil);
        return Ok(out);
    };
    let mut matcher = Matcher::new(&subject, &pattern);
    let found = matcher.find(from);
    match found.and_then(|found| found.map(|it| matcher.captures(Some(it))).transpose()) {
        Ok(Some(captures)) => capture_values(lua, &subject, &captures, &mut out)?,
        Ok(None) => out.push_back(LuaValue::Nil),
        Err(error) => return trouble(lua, error),
    }
    Ok(out)
}

/// One match of `gmatch` or `gsub`, from byte `from` (counted from 0) on: where it begins and ends,
/// counted from 0, and its captures, the whole match if there are none.
fn step(
    lua: &Lua,
    (subject, pattern, from): (LuaString, LuaString, usize),
) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let mut matcher = Matcher::new(&subject, &pattern);
    let found = matcher.find(from);
    let captured = found.and_then(|found| {
        found.map(|it| matcher.captures(Some(it)).map(|captures| (it, captures))).transpose()
    });
    match captured {
        Ok(Some(((start, end), captures))) => {
            let mut out = MultiValue::from_iter([number(start), number(end)]);
            capture_values(lua, &subject, &captures, &mut out)?;
            Ok(out)
        }
        Ok(None) => Ok(MultiValue::from_iter([LuaValue::Nil])),
        Err(error) => trouble(lua, error),
    }
}

/// `string.gsub` with a text to put in: the new text and how many were replaced.
fn gsub(
    lua: &Lua,
    (subject, pattern, with, most): (LuaString, LuaString, LuaString, f64),
) -> mlua::Result<MultiValue> {
    let (subject, pattern, with) = (subject.as_bytes(), pattern.as_bytes(), with.as_bytes());
    let mut matcher = Matcher::new(&subject, &pattern);
    let anchored = pattern.first() == Some(&b'^');
    let (mut out, mut from, mut count) = (Vec::new(), 0, 0_usize);
    #[allow(clippy::cast_precision_loss, reason = "no string has 2^53 places")]
    while (count as f64) < most && from <= subject.len() {
        let (start, end) = match matcher.find(from) {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(error) => return trouble(lua, error),
        };
        out.extend_from_slice(subject.get(from..start).unwrap_or_default());
        count += 1;
        if let Err(error) = replacement(&matcher, &subject, &with, (start, end), &mut out) {
            return trouble(lua, error);
        }
        budget::spend(u32::try_from(with.len() / 2 + 20).unwrap_or(u32::MAX))?;
        budget::check_bytes(lua, out.len())?;
        from = end;
        if end == start {
            out.extend(subject.get(end));
            from += 1;
        }
        if anchored {
            break;
        }
    }
    out.extend_from_slice(subject.get(from.min(subject.len())..).unwrap_or_default());
    budget::check_bytes(lua, out.len().saturating_mul(2))?;
    let text = LuaValue::String(lua.create_string(&out)?);
    Ok(MultiValue::from_iter([text, number(count)]))
}

/// Writes `with`, its `%0` to `%9` replaced; other percent signs stay, as for gopher-lua.
fn replacement(
    matcher: &Matcher<'_>,
    subject: &[u8],
    with: &[u8],
    (start, end): (usize, usize),
    out: &mut Vec<u8>,
) -> Result<(), Trouble> {
    let mut rest = with;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        let sign = rest.get(at + 1).copied();
        rest = rest.get(at + 2..).unwrap_or_default();
        match sign {
            Some(b'%') | None => out.push(b'%'),
            Some(b'0') => out.extend_from_slice(subject.get(start..end).unwrap_or_default()),
            Some(digit) if digit.is_ascii_digit() => {
                let captures = matcher.captures(Some((start, end)))?;
                match captures.get(usize::from(digit - b'1')) {
                    Some(&Capture::Text(from, to)) => {
                        out.extend_from_slice(subject.get(from..to).unwrap_or_default());
                    }
                    Some(Capture::Place(place)) => {
                        out.extend_from_slice(place.to_string().as_bytes());
                    }
                    None => return Err(Trouble::Pattern("invalid capture index")),
                }
            }
            Some(other) => out.extend_from_slice(&[b'%', other]),
        }
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// `string.format`: the text, or false and an error's.
fn string_format(lua: &Lua, mut values: MultiValue) -> mlua::Result<MultiValue> {
    let first = values.pop_front().unwrap_or(LuaValue::Nil);
    let Some(wanted) = text_of(lua, &first)? else {
        return wrong_argument(lua, 1, "format", &first);
    };
    linear(wanted.as_bytes().len())?;
    let text = format::format(lua, &wanted.as_bytes(), &values)?;
    Ok(MultiValue::from_iter([LuaValue::String(lua.create_string(&text)?)]))
}

/// The function behind `load` and `loadstring`.
pub(crate) fn loader(lua: &Lua, ordered: bool) -> mlua::Result<Function> {
    lua.create_function(move |lua, (text, name)| load(lua, &text, &name, ordered))
}

/// `loadstring`: a function, or nil and what is wrong with the text.
fn load(
    lua: &Lua,
    text: &LuaString,
    name: &LuaString,
    ordered: bool,
) -> mlua::Result<(Option<Function>, Option<String>)> {
    if text.as_bytes().len() > LOAD_BYTES_MAX {
        return Ok((None, Some(format!("text is above {LOAD_BYTES_MAX} bytes"))));
    }
    let shown = name.to_string_lossy();
    let shown = shown.trim_start_matches(['=', '@']);
    let code = match compile_text(&text.as_bytes(), ordered, Work::new(TRANSLATED_BYTES_MAX)) {
        Ok(compiled) => compiled.code,
        Err(Refusal::Budget(error)) => return Err(error),
        Err(Refusal::TooLong(max)) => {
            return Ok((None, Some(format!("text is above {max} bytes in Luau"))));
        }
        Err(Refusal::Syntax(error)) => {
            return Ok((None, Some(format!("{shown}:{}: {}", error.line, error.message))));
        }
    };
    let chunk = lua.load(code).set_mode(ChunkMode::Binary).set_name(format!("={shown}"));
    Ok((Some(chunk.into_function()?), None))
}
