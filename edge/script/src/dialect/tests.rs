//! The translation's cases, and programs made by chance that run both ways.

use mlua::{Lua, Value};

use super::{Reads, Trouble, Work, translate};

/// What a text, run as Luau, returns as text; `!` and the message for an error.
fn run(text: &str) -> String {
    let translated = match translate(text.as_bytes(), false, &mut Work::unbounded()) {
        Ok(translated) => translated.text,
        Err(Trouble::Syntax(error)) => return format!("!{}: {}", error.line, error.message),
        Err(trouble) => return format!("!{trouble:?}"),
    };
    let lines = |text: &[u8]| memchr::memchr_iter(b'\n', text).count();
    assert_eq!(lines(&translated), text.replace("\r\n", "\n").matches('\n').count(), "{text}");
    let shown = String::from_utf8_lossy(&translated).into_owned();
    let lua = Lua::new();
    match lua.load(translated).set_name("=t").eval::<Value>() {
        Ok(value) => value.to_string().unwrap(),
        Err(error) => format!("!{error}\n{shown}"),
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "cases")]
fn jumps_go_where_they_lead() {
    for (text, wanted) in [
        (
            "local s = 0 for i = 1, 5 do if i == 3 then goto continue end s = s + i ::continue:: end return s",
            "12",
        ),
        (
            "local s = 0 for i = 1, 5 do for j = 1, 5 do if j > i then goto next end s = s + 1 end ::next:: end return s",
            "15",
        ),
        ("local i = 0 ::top:: i = i + 1 if i < 10 then goto top end return i", "10"),
        (
            "local i = 0 ::top:: i = i + 1 local j = i * 2 if j < 10 then goto top end return j",
            "10",
        ),
        (
            "for i = 1, 3 do for j = 1, 3 do if i * j == 4 then goto done end end end do return 'no' end ::done:: return 'yes'",
            "yes",
        ),
        (
            "local i = 0 repeat i = i + 1 if i == 2 then goto continue end local x = i ::continue:: until i > 4 return i",
            "!1: <goto continue> at line 1 jumps into the scope of local 'x'",
        ),
        (
            "local i = 0 repeat i = i + 1 if i == 2 then goto continue end i = i + 1 ::continue:: until i > 4 return i",
            "6",
        ),
        (
            "local i = 0 repeat ::again:: i = i + 1 local x = i if x == 2 then goto again end until x > 4 return i",
            "5",
        ),
        (
            "local s = '' for i = 1, 3 do ::again:: s = s .. i if #s == 2 then goto again end if i == 3 then break end end return s",
            "1223",
        ),
        (
            "local function f(n) ::top:: if n == 0 then return 'end' end n = n - 1 goto top end return f(5)",
            "end",
        ),
        ("goto a ::b:: do return 'b' end ::a:: goto b", "b"),
        ("do goto l3; ::l3:: end return 1", "1"),
        (
            "local t = {} for i = 1, 3 do local k = i t[i] = function() return k end if k == 2 then goto continue end ::continue:: end return t[1]() + t[2]() + t[3]()",
            "6",
        ),
        (
            "do local a = {} local i = 1 ::l1:: do local x = i if i > 3 then goto l2 end a[i] = function() return x end i = i + 1 goto l1 end ::l2:: return a[1]() + a[2]() + a[3]() end",
            "6",
        ),
        ("goto missing", "!1: no visible label 'missing' for goto at line 1"),
        ("goto l1; do ::l1:: end", "!1: no visible label 'l1' for goto at line 1"),
        ("::l1:: ::l1::", "!1: label 'l1' already defined"),
        (
            "goto l1; local aa ::l1:: ::l2:: print(3)",
            "!1: <goto l1> at line 1 jumps into the scope of local 'aa'",
        ),
        (
            "local n = 0 while true do n = n + 1 if n > 3 then break end do goto continue end ::continue:: end return n",
            "4",
        ),
        ("while true do do break end end return 'out'", "out"),
        ("while true do if true then break ; local x end end return 1", "1"),
        ("break", "!syntax error: t:1: break statement must be inside a loop"),
        ("::a:: break", "!1: break outside a loop"),
        ("local x = 0\ngoto\nskip\nx = 1\n::\nskip\n::\nreturn x", "0"),
        // Into the middle of what is jumped back to, and overlapping ways.
        (
            "local s, n = '', 0 goto mid ::top:: s = s .. 't' ::mid:: s = s .. 'm' n = n + 1 if n < 3 then goto top end return s",
            "mtmtm",
        ),
        (
            "local s, n = '', 0 if n == 0 then goto b end ::a:: s = s .. 'a' if n > 2 then goto c end ::b:: s = s .. 'b' n = n + 1 goto a ::c:: return s",
            "bababa",
        ),
        (
            "local s = '' do goto one end s = 'x' ::two:: s = s .. '2' goto three ::one:: s = s .. '1' goto two ::three:: return s",
            "12",
        ),
        // To the end of a block, past a local that a loop behind it uses.
        (
            "local s = 0 do if s > 0 then goto done end local x = 0 ::top:: x = x + 1 s = s + x if x < 3 then goto top end ::done:: end return s",
            "6",
        ),
        (
            "local s = 0 do if s == 0 then goto done end local x = 0 ::top:: x = x + 1 s = s + x if x < 3 then goto top end ::done:: ::also:: end return s",
            "0",
        ),
        (
            "local s = 0 do local x = 0 ::top:: x = x + 1 s = s + x if x > 2 then goto done end local y = x for _ = 1, 2 do s = s + y if y == 2 then goto done end goto top end ::done:: end return s",
            "6",
        ),
    ] {
        let answer = run(text);
        assert!(
            answer.starts_with(wanted) && (wanted.starts_with('!') || answer == wanted),
            "{text}\n{answer}"
        );
    }
}

#[test]
fn what_luau_reads_differently_reads_as_in_lua() {
    for (text, wanted) in [
        (";;; local a = 1;; ; return a;", "1"),
        (
            "local continue = 1 continue = continue + 1 local type = 2 type = 3 return continue + type",
            "5",
        ),
        (
            "local export, const, typeof = 1, 2, 3 export = 2 const = 3 return export + const + typeof",
            "8",
        ),
        ("local f = tostring\nlocal a = f\n(5)\nreturn a", "5"),
        ("local f = tostring -- why\n  -- not\n(7) return 1", "1"),
        ("local t = {f = tostring} return t.f\n  (7)", "7"),
        (
            "local a = tostring(1)\n(tostring)(2)",
            "!2: ambiguous syntax (function call x new statement)",
        ),
        ("local a = tostring(1);\n(tostring)(2) return a", "1"),
        ("return '\\x41\\z \\u{41}\\300\\65\\q'", "x41z u{41},Aq"),
        ("return 'a\\\nb'", "a\nb"),
        ("return #[[\r\n1\r\n2]]", "3"),
        ("return [==[a]]]=]b]==] .. [[c]]", "a]]]=]bc"),
        ("--[==[ x ]] \n ]==] return 1 --[[ y", "!2: unfinished long comment"),
        ("--[==[ x ]] \n ]==] return 1 --[ y", "1"),
        ("#!/usr/bin/lua\nreturn 3", "3"),
        ("\u{feff}return 4", "4"),
        ("return 0xFF+1e2+.5+3.+0x1", "359.5"),
        ("return 5or 6", "5"),
        ("local function f(...) return arg.n .. arg[1] end return f('a', nil)", "2a"),
        ("local function f(...) local arg = {...} return #arg end return f(1, 2)", "2"),
        (
            "local function f(a, ...) return function() return arg[a] end end return f(2, 7, 8)()",
            "8",
        ),
        ("return (function(...) return select('#', ...) end)(1, 2, 3)", "3"),
        ("local a <const> = 1", "!1: "),
        ("x += 1", "!1: '=' expected near '+'"),
        ("return ...", ""),
        ("function f() return ... end", "!1: cannot use '...' outside a vararg function"),
        ("x = = 1", "!1: expression expected near '='"),
        ("\n\nif x then", "!3: 'end' expected near end of file"),
        ("x = 'abc", "!1: unfinished string"),
        ("x = `a`", "!1: unexpected symbol near '`'"),
        ("return return", "!1: expression expected near 'return'"),
        ("return 1 x = 2", "!1: 'end' expected near 'x'"),
        ("local t = {1, 2; 3, a = 4, ['b'] = 5, f = function() end,} return #t + t.a + t.b", "12"),
        ("local s = 'x' return s:rep(3):upper() .. ('y'):rep(2) .. #'abc'", "XXXyy3"),
        (
            "local a = {} function a.b() return 1 end function a:c(x) return self == a and x end return a:c(a.b()) .. a.b'' .. a.b{}",
            "111",
        ),
        ("return -2^2 + (not nil and 1 or 2)", "-3"),
    ] {
        let answer = run(text);
        let fits = if wanted.ends_with(": ") {
            answer.starts_with(wanted)
        } else {
            answer == wanted || (wanted.is_empty() && answer == "nil")
        };
        assert!(fits, "{text}\n{answer}");
    }
}

#[test]
fn nesting_is_limited() {
    for text in
        ["(", "{", "f(", "function() return ", "do ", "while x do ", "if x then ", "-", "t["]
    {
        let _ = run(&format!("return {}", text.repeat(100_000)));
        let _ = run(&text.repeat(100_000));
    }
    assert_eq!(run(&format!("return {}1{}", "(".repeat(60), ")".repeat(60))), "1");
    assert_eq!(run(&format!("return {}1", "1 .. ".repeat(150))).len(), 151);
}

/// What is read of each parameter of the function that begins on line 1, and of one argument more: `-` for
/// nothing, `*` for the whole, else names; nothing where it is not known.
fn reads(text: &str) -> String {
    let translated = translate(text.as_bytes(), false, &mut Work::unbounded()).unwrap();
    let Some(parameters) = translated.functions.on(1) else { return String::new() };
    let count = parameters.named.len() + 1;
    let shown = (0..count).map(|place| match parameters.reads(place) {
        Reads::Nothing => "-".to_owned(),
        Reads::Members(names) => {
            let names = names.iter().map(|name| String::from_utf8_lossy(name).into_owned());
            names.collect::<Vec<_>>().join("+")
        }
        Reads::Whole => "*".to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_a_function_reads_of_its_parameters_is_known() {
    for (text, wanted) in [
        ("f = function(a, b, c) end", "- - - -"),
        ("f = function(a, b) return b end", "- * -"),
        ("function f(a) return a.x, a.y, a.x end", "x+y -"),
        ("local function f(a) return a.x(a.y):z() end", "x+y -"),
        ("function f(a) return a['x'] end", "* -"),
        ("function f(a) return a:x() end", "* -"),
        ("function f(a) a.x.y = 1 end", "x -"),
        ("function f(a) a = 1 end", "* -"),
        ("function f(a) g { a = 1, b = { a } } end", "* -"),
        ("function f(a) g { a = 1 } end", "- -"),
        ("function f(a) local a = 1 return a end", "- -"),
        ("function f(a) local a = a.x return a end", "x -"),
        ("function f(a) do local a = 1 end return a end", "* -"),
        ("function f(a) for a = 1, 2 do g(a) end end", "- -"),
        ("function f(a) for _, b in pairs(a) do end end", "* -"),
        ("function f(a) repeat local a = 1 until a end", "- -"),
        ("function f(a) function a.g() end end", ""),
        ("function f(a)\nfunction a.g() end end", "g -"),
        ("function f(a)\nfunction a.b:g() end end", "b -"),
        ("function f(a)\nlocal function a() end a() end", "- -"),
        ("function f(a)\nreturn function(b) return a end end", "* -"),
        ("function f(a)\nreturn function(a) return a end end", "- -"),
        ("function f(a, a) return a end", "- * -"),
        ("function f(a, ...) end", "- -"),
        ("function f(a, ...) return ... end", "- *"),
        ("function f(a, ...) return #arg end", "- *"),
        ("function f(a, ...)\nreturn function() return arg end end", "- *"),
        ("function f(arg, ...) return ... end", "- *"),
        ("function f(arg, ...) return arg.x, ... end", "* *"),
        ("function f(arg, ...) return arg end", "- *"),
        ("function f(arg)\nlocal function g(...) return ... end end", "- -"),
        ("function f(arg)\nlocal function g(...) return arg, ... end return arg.x end", "* -"),
        ("function f(arg)\nlocal function g(...) return arg end end", "- -"),
        ("function m.f(a) end", "- -"),
        ("function m:f(a) return self.x end", "x - -"),
        ("function m:f(a) return self end", "* - -"),
        ("f = function(a) goto b ::c:: do return a.x end ::b:: goto c end", "x -"),
        ("f, g = function(a) end, function(a) return a end", ""),
        ("f = g(function(a) end, function(a, b) end)", ""),
        ("function\nf(a)\nend", "- -"),
        ("local\nfunction f(a) end", ""),
        (
            "function f(a) return a.a, a.b, a.c, a.d, a.e, a.f, a.g, a.h, a.i, a.j, a.k, a.l, a.m, a.n, a.o, a.p end",
            "a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p -",
        ),
        (
            "function f(a) return a.a, a.b, a.c, a.d, a.e, a.f, a.g, a.h, a.i, a.j, a.k, a.l, a.m, a.n, a.o, a.p, a.q end",
            "* -",
        ),
    ] {
        assert_eq!(reads(text), wanted, "{text}");
    }
}
