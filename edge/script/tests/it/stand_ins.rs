//! A match whose modules name none of the libraries' functions that differ from Luau's begins without
//! them, and is small; who finds one without its name gets it all the same.

use game::guest::{MatchContext, MatchScript, ScriptFailure};
use game::value::Value;

use crate::host::TestHost;
use crate::straight::{Straight as _, StraightMatch as _};
use crate::{load_with, tight};

/// What an empty match may hold by Lua's count; what is resident is more, and bounded by
/// dev/e2e/attack/memory.test.mjs. Some 2 KiB are for waiting: the coroutine and what yields it.
const EMPTY_MATCH_BYTES_MAX: usize = 84 * 1024;

const EMPTY: &str = "local M = {}
    function M.match_init(context, params) return {}, 10, '' end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state) return state end
    M.match_leave, M.match_loop, M.match_terminate = M.match_join, M.match_join, M.match_join
    function M.match_signal(context, dispatcher, tick, state, data) return state, data end
    return M";

fn context() -> MatchContext {
    MatchContext { match_id: "m.n".into(), label: String::new(), tick_rate_hz: 10 }
}

/// A match whose signals run `body`, with `nk`, `whole` and `data` in scope; `before` runs while it loads.
fn open(before: &str, body: &str, host: &mut TestHost) -> Box<dyn MatchScript> {
    open_beside(&[], (before, body), host)
}

/// The same beside other modules.
fn open_beside(
    others: &[(&str, &str)],
    (before, body): (&str, &str),
    host: &mut TestHost,
) -> Box<dyn MatchScript> {
    let text = format!(
        "local nk = require('nakama') {before}
        local M = {{}}
        function M.match_init() return {{}}, 10, '' end
        function M.match_loop(c, d, t, state) return state end
        function M.match_signal(c, d, t, state, data) {body}\nend
        return M"
    );
    let modules = [&[("m.lua", text.as_str())], others].concat();
    let mut scripts = load_with(&modules, tight(), host).unwrap();
    scripts.match_start(host, &context(), "m", Value::Nil).unwrap().0
}

fn signal(running: &mut dyn MatchScript, host: &mut TestHost) -> String {
    match running.signal(host, &context(), 1, b"data") {
        Ok(answer) => String::from_utf8_lossy(&answer.unwrap_or_default()).into_owned(),
        Err(error) => format!("!{}", error.message),
    }
}

#[test]
fn an_empty_match_is_small() {
    let mut host = TestHost::default();
    let mut scripts = load_with(&[("m.lua", EMPTY)], tight(), &mut host).unwrap();
    let mut running = scripts.match_start(&mut host, &context(), "m", Value::Nil).unwrap().0;
    let bytes = running.memory_bytes();
    assert!(bytes < EMPTY_MATCH_BYTES_MAX, "{bytes}");
    running.tick(&mut host, &context(), 1, &[]).unwrap();
    let bytes = running.memory_bytes();
    assert!(bytes < EMPTY_MATCH_BYTES_MAX, "after a tick: {bytes}");
}

#[test]
fn libraries_that_a_module_could_come_to_are_there() {
    for (before, body, expected) in [
        ("", "return state, bit32.band(12, 10) .. ''", "8"),
        ("", "return state, utf8.len('ä') .. ''", "1"),
        ("", "return state, _G['bit' .. '32'].bor(1, 2) .. ''", "3"),
        ("", "return state, getfenv(0)['utf' .. '8'].len('äb') .. ''", "2"),
        ("local bits = require('bit32')", "return state, bits.band(12, 10) .. ''", "8"),
        ("", "return state, package.loaded['bit' .. '32'].band(6, 3) .. ''", "2"),
        ("", "return state, loadstring('return bit' .. '32.band(5, 4) .. 1')()", "41"),
        ("local other = require('ot' .. 'her')", "return state, other .. ''", "2"),
        ("local other = require('other')", "return state, other .. ''", "2"),
        ("local text = require('utf8')", "return state, text.len('ä') .. ''", "1"),
        // A game's own stands behind the library of its name.
        ("local bits = require('bit32')", "return state, tostring(bits.own)", "nil"),
        (
            "local globals = require('_G')",
            "return state, globals['bit' .. '32'].bor(1, 2) .. ''",
            "3",
        ),
    ] {
        let mut host = TestHost::default();
        let mut running = open_beside(
            &[
                ("other.lua", "return bit32.band(2, 3)"),
                ("bit32.lua", "return { own = true }"),
                ("_G.lua", "return { own = true }"),
            ],
            (before, body),
            &mut host,
        );
        assert_eq!(signal(&mut *running, &mut host), expected, "{body}");
    }
    // What comes to neither is smaller without them.
    let bytes_of = |body: &str| {
        let mut host = TestHost::default();
        open("", body, &mut host).memory_bytes()
    };
    let (without, with) =
        (bytes_of("return state, data"), bytes_of("return state, bit32 and data"));
    assert!(without + 2_000 < with, "{without} {with}");
}

#[test]
fn functions_that_a_module_does_not_name_are_there() {
    for (before, body, expected) in [
        ("", "return state, string['fo' .. 'rmat']('%d %s', 7, nil)", "7 nil"),
        ("", "return state, (('xay')['fi' .. 'nd']('xay', 'a')) .. ''", "2"),
        ("", "return state, (string['gs' .. 'ub']('aXb', '%u', {X = 1}))", "a1b"),
        ("", "return state, string['low' .. 'er']('ÄB') .. string['upp' .. 'er']('äb')", "äbÄB"),
        (
            "",
            "for w in string['gma' .. 'tch']('a b', '%a') do state[#state + 1] = w end
            return state, state[1] .. state[2]",
            "ab",
        ),
        (
            "",
            "local t = {2, 1} table['so' .. 'rt'](t) return state, table['con' .. 'cat'](t)",
            "12",
        ),
        (
            "",
            "return state, type(math['ran' .. 'dom'](3)) .. type(os['ti' .. 'me']())",
            "numbernumber",
        ),
        ("", "return state, _G['load' .. 'string']('return ...')(data)", "data"),
        ("", "return state, tostring(_G['lo' .. 'ad'](7 .. ''))", "nil"),
        // Not what the script puts in their places, before the first is called.
        (
            "",
            "tostring, type, error = nil, nil, nil return state, string['fo' .. 'rmat']('%d', 7)",
            "7",
        ),
        (
            "local s = {} for key, value in pairs(string) do s[key] = value end",
            "return state, s['re' .. 'p']('a', 3)",
            "aaa",
        ),
        (
            "string['fo' .. 'rmat'] = function() return 'mine' end",
            "return state, string['fo' .. 'rmat']('%d', 7)",
            "mine",
        ),
        (
            "",
            "local f = string['fo' .. 'rmat'] f('') return state, tostring(getfenv(f) == _G)",
            "true",
        ),
        ("", "return state, tostring(pcall(string['re' .. 'p'], 'a', 1e10))", "false"),
        ("", "return state, tostring(string.split) .. tostring(table.move)", "nilnil"),
    ] {
        let mut host = TestHost::default();
        let mut running = open(before, body, &mut host);
        assert_eq!(signal(&mut *running, &mut host), expected, "{body}");
    }
}

#[test]
fn what_stand_ins_raise_and_set_is_where_the_script_calls() {
    for (body, expected) in [
        (
            "local ok, why = pcall(function() string['re' .. 'p']('a', 1e10) end) return state, why",
            "m.lua:5: resulting string too large",
        ),
        (
            "local ok, why = pcall(function() table['so' .. 'rt'](7) end) return state, why",
            "m.lua:5: bad argument #1 to 'sort' (table expected, got number)",
        ),
        (
            "local ok, why = pcall(function()
                for w in string['gma' .. 'tch']('a b', '%') do return w end
            end) return state, why",
            "m.lua:6: malformed pattern (ends with '%')",
        ),
        (
            "local f = function() _G['mod' .. 'ule']('mine') inside = 7 end f()
            return state, tostring(mine and mine.inside) .. tostring(inside)",
            "7nil",
        ),
    ] {
        let mut host = TestHost::default();
        let mut running = open("", body, &mut host);
        assert_eq!(signal(&mut *running, &mut host), expected, "{body}");
    }
}

#[test]
fn stand_ins_are_bounded_as_the_functions_are() {
    for body in [
        "local a = string['re' .. 'p']('a', 30000)
            string['fi' .. 'nd'](a, '.-.-.-b')",
        "string['gs' .. 'ub'](string['re' .. 'p']('a', 200000), '.-.-.-b', 'x')",
    ] {
        let mut host = TestHost::default();
        let mut running = open("", body, &mut host);
        let error = running.signal(&mut host, &context(), 1, b"").unwrap_err();
        assert_eq!(error.kind, ScriptFailure::OutOfTime, "{body}: {}", error.message);
    }
}

#[test]
fn what_a_call_leaves_is_gone_after_a_stand_in_too() {
    let body = "local was = tostring(leak) leak = 1 string['up' .. 'per']('a') leak = 2
        return state, was";
    let mut host = TestHost::default();
    let mut running = open("", body, &mut host);
    assert_eq!(signal(&mut *running, &mut host), "nil");
    assert_eq!(signal(&mut *running, &mut host), "nil");
}

#[test]
fn a_module_that_is_required_may_name_them() {
    let mut host = TestHost::default();
    let files = [
        (
            "m.lua",
            "local M, other = {}, require('other')
            function M.match_init() return {}, 10, '' end
            function M.match_loop(c, d, t, state) return state end
            function M.match_signal(c, d, t, state) return state, other(7) end
            return M",
        ),
        (
            "other.lua",
            "local text = require 'string' return function(x) return text.format('%d', x) end",
        ),
    ];
    let mut scripts = load_with(&files, tight(), &mut host).unwrap();
    let mut running = scripts.match_start(&mut host, &context(), "m", Value::Nil).unwrap().0;
    assert_eq!(signal(&mut *running, &mut host), "7");
    assert!(running.memory_bytes() > EMPTY_MATCH_BYTES_MAX);
}
