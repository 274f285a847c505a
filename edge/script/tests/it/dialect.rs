//! What Lua 5.1 modules rely on.

use crate::run;
#[test]
fn globals_of_lua_5_1_are_there_and_dangerous_ones_are_not() {
    for name in [
        "assert",
        "error",
        "getmetatable",
        "ipairs",
        "loadstring",
        "next",
        "pairs",
        "pcall",
        "print",
        "rawequal",
        "rawget",
        "rawset",
        "require",
        "select",
        "setmetatable",
        "tonumber",
        "tostring",
        "type",
        "unpack",
        "xpcall",
        "string.gfind",
        "table.getn",
        "table.maxn",
        "table.foreach",
        "math.pow",
        "math.mod",
        "math.log10",
        "bit32.band",
        "os.time",
        "os.date",
        "os.clock",
        "os.difftime",
        "package.loaded",
        "getfenv",
        "setfenv",
    ] {
        assert_ne!(run(&format!("return type({name})")), "nil", "{name}");
    }
    for name in [
        "io",
        "debug",
        "coroutine",
        "os.execute",
        "os.getenv",
        "os.exit",
        "package.loadlib",
        "buffer",
        "vector",
        "table.move",
        "string.split",
    ] {
        assert_eq!(run(&format!("return type({name})")), "nil", "{name}");
    }
}

#[test]
fn old_idioms_work() {
    for (body, wanted) in [
        ("return tostring(unpack({1, 2, 3}))", "1"),
        ("local function f(...) return select('#', ...) .. '' end return f(nil, nil)", "2"),
        ("return tostring(10 / 2) .. tostring(3.5) .. tostring(2^53)", "53.59007199254740992"),
        ("return tostring(#'abc') .. ('x'):rep(3)", "3xxx"),
        ("local s = 0 for w in ('a b c'):gmatch('%a') do s = s + 1 end return tostring(s)", "3"),
        ("return (string.gsub('hello', 'l', {l = 'L'}))", "heLLo"),
        ("return tostring(loadstring('return 1 + 1')())", "2"),
        ("local f, e = loadstring('x =') return tostring(f) .. type(e)", "nilstring"),
        ("return os.date('!%Y-%m-%d', 86400) .. os.time()", "1970-01-021700000000"),
        ("return os.date('!%Y')", "2023"),
        ("return tostring(os.time({year = 1970, month = 1, day = 2, hour = 0}))", "86400"),
        ("return string.format('%5.2f|%d|%s|%q', 1.5, 3, 'x', 'y')", " 1.50|3|x|\"y\""),
        ("return tostring(table.concat({1, 2}, ','))", "1,2"),
        ("local ok, e = pcall(error, {1}) return type(e)", "table"),
        (
            "local ok, e = xpcall(function() error('a', 0) end, function(m) return m .. 'b' end) return e",
            "ab",
        ),
        ("return tostring(string.find('abc', 'b', 1, true))", "2"),
        (
            "local a, b = string.find(('a'):rep(5000) .. 'xyz' , ('a'):rep(900) .. 'x') return a .. ' ' .. b",
            "4101 5001",
        ),
        (
            "local a = string.find(('a'):rep(5000), ('b'):rep(900), -3, true) return tostring(a)",
            "nil",
        ),
        ("return tostring(require('nakama') == nk)", "true"),
        ("local t = {10, 20, 30, nil} return tostring(table.getn(t))", "3"),
    ] {
        assert_eq!(run(body), wanted, "{body}");
    }
}

#[test]
fn case_is_unicodes() {
    for (body, wanted) in [
        ("return ('ÄRGER Łódź 42'):lower()", "ärger łódź 42"),
        ("return string.upper('ärger łódź 42')", "ÄRGER ŁÓDŹ 42"),
        ("return ('straße'):upper()", "STRAßE"),
        ("return ('a\\255Ä'):lower() == 'a\\255ä' and 'kept' or 'lost'", "kept"),
        ("return string.upper(12) .. string.lower('ASCII')", "12ascii"),
        ("return tostring(pcall(string.lower, {}))", "false"),
    ] {
        assert_eq!(run(body), wanted, "{body}");
    }
}

#[test]
fn a_forgotten_local_is_a_global() {
    assert_eq!(run("forgotten = 1 forgotten = forgotten + 1 return tostring(forgotten)"), "2");
}
