//! What one call does to globals, libraries, `nk` and `package` is gone in the next; what a module
//! keeps in its own locals stays.

use game::guest::MatchContext;
use game::value::Value;

use crate::host::TestHost;
use crate::straight::{Straight as _, StraightMatch as _};
use crate::{context, load_with, roomy};

/// Runs `act` in one call and `look` in two: in the same call behind `act`, and in the next.
fn here_and_later(before: &str, act: &str, look: &str) -> (String, String) {
    let text = format!(
        "local nk = require('nakama') {before}
        nk.register_rpc(function(context, payload)
            local function look() {look} end
            if payload == 'act' then {act} end
            return look()
        end, 'test')"
    );
    let mut host = TestHost::default();
    let mut scripts = load_with(&[("m.lua", &text)], roomy(), &mut host).unwrap();
    let mut call = |payload: &[u8]| match scripts.rpc(&mut host, &context(), "test", payload) {
        Ok(answer) => String::from_utf8_lossy(&answer.unwrap_or_default()).into_owned(),
        Err(error) => format!("!{}", error.message),
    };
    (call(b"act"), call(b""))
}

#[test]
fn a_call_changes_the_world_for_itself_only() {
    for (act, look, here, later) in [
        ("tostring = function() return 'x' end", "return tostring(1)", "x", "1"),
        ("_G.ipairs = function() return 'x' end", "return tostring((ipairs({})))", "x", "func"),
        ("rawset(_G, 'ipairs', tostring)", "return tostring((ipairs('x')))", "x", "!"),
        ("forgotten = 1 forgotten = forgotten + 1", "return tostring(forgotten)", "2", "nil"),
        ("pairs = nil unset = 1 unset = nil", "return tostring(unset)", "nil", "nil"),
        ("string.twice = function(s) return s .. s end", "return ('a'):twice()", "aa", "!"),
        (
            "function string.twice(s) return s .. s end",
            "return tostring(string.twice)",
            "func",
            "nil",
        ),
        ("math.random = function() return 7 end", "return tostring(math.random(1, 1))", "7", "1"),
        ("table.concat = type", "return table.concat({'a'})", "table", "a"),
        ("os.time = function() return 7 end", "return tostring(os.time() == 7)", "true", "false"),
        ("string = {rep = function() return 'x' end}", "return string.rep('a', 2)", "x", "aa"),
        ("nk.uuid_v4 = function() return 'x' end", "return tostring(#nk.uuid_v4())", "1", "36"),
        ("nk.mine = function() return 'x' end", "return tostring(nk.mine)", "func", "nil"),
        (
            "package.loaded.nakama = {uuid_v4 = function() return 'x' end}",
            "return tostring(#require('nakama').uuid_v4())",
            "1",
            "36",
        ),
        (
            "package.preload.fake = function() return 'x' end",
            "return tostring(select(2, pcall(require, 'fake')))",
            "x",
            "module fake not found",
        ),
        ("setfenv(look, {tostring = function() return 'x' end})", "return tostring(1)", "x", "1"),
        ("collectgarbage('stop')", "return tostring(collectgarbage('count') > 0)", "true", "true"),
    ] {
        let (was_here, was_later) = here_and_later("", act, look);
        assert!(was_here.starts_with(here), "{act}: {was_here}");
        assert!(was_later.starts_with(later), "{act}, later: {was_later}");
    }
}

#[test]
fn the_environment_of_a_function_of_a_module_comes_back() {
    let before = "local function kept() return tostring(1) end";
    let act = "setfenv(kept, {tostring = function() return 'x' end})";
    assert_eq!(here_and_later(before, act, "return kept()"), ("x".into(), "1".into()));
}

#[test]
fn modules_keep_what_is_theirs_and_extend_libraries_while_they_load() {
    let before = "
        local count, list = 0, {}
        function string.twice(text) return text .. text end
        math.half = function(number) return number / 2 end
        shared = {1, 2, 3}
        function helper() count = count + 1 list[#list + 1] = count return #list end";
    let look = "local sum = 0 for _, number in ipairs(shared) do sum = sum + number end
        for _, number in pairs(shared) do sum = sum + number end
        return ('a'):twice() .. string.twice('b') .. math.half(4) .. helper() .. sum";
    assert_eq!(here_and_later(before, "", look), ("aabb2112".into(), "aabb2212".into()));
    let (here, _) = here_and_later("shared = {}", "shared.x = 1", "return 'x'");
    assert!(here.contains("readonly"), "{here}");
    let (here, _) = here_and_later("", "context.env.MODE = 'x'", "return 'x'");
    assert!(here.contains("readonly"), "{here}");
    let strict = "setmetatable(_G, {
        __newindex = function(t, name) error('global ' .. name) end,
        __index = function(t, name) error('no ' .. name) end})";
    let look = "return select(2, pcall(function() return unknown end)) .. tostring(1)";
    assert_eq!(here_and_later(strict, "", look).1, "m.lua:3: no unknown1");
}

#[test]
fn a_module_that_is_loaded_in_a_callback_stays() {
    let late = "function from_late() return 'late' end function string.late() return 's' end
        return {number = 5}";
    let arena = "local M = {}
        function M.match_init(c, p) return {}, 10, '' end
        M.match_join_attempt, M.match_join, M.match_leave = print, print, print
        M.match_loop, M.match_terminate = print, print
        function M.match_signal(c, d, t, s, data)
            if data == 'load' then require('late') leaked = 1 end
            local number = package.loaded.late and require('late').number
            return s, tostring(from_late and from_late()) .. tostring(string.late and ('').late())
                .. tostring(number) .. tostring(leaked)
        end
        return M";
    let mut host = TestHost::default();
    let files = [("arena.lua", arena), ("late.lua", late)];
    let mut scripts = load_with(&files, roomy(), &mut host).unwrap();
    let context = MatchContext { match_id: "m".into(), label: String::new(), tick_rate_hz: 10 };
    let mut running = scripts.match_start(&mut host, &context, "arena", Value::Nil).unwrap().0;
    let mut signal = |data: &[u8]| {
        let answer = running.signal(&mut host, &context, 1, data).unwrap().unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert_eq!(signal(b""), "nilnilnilnil");
    assert_eq!(signal(b"load"), "lates51");
    assert_eq!(signal(b""), "lates5nil");
}

#[test]
fn the_methods_of_strings_do_not_lead_behind_the_seal() {
    for (act, look) in [
        ("getmetatable('').__index.leak = 1", "return tostring(string.leak)"),
        (
            "rawset(getmetatable('').__index, 'upper', function() return 'x' end)",
            "return (('a'):upper() == 'x') and 'leak' or 'nil'",
        ),
        (
            "setmetatable(getmetatable('').__index, {__index = {leak = 1}})",
            "return tostring(string.leak or ('').leak)",
        ),
        (
            "getmetatable(getmetatable('').__index).__index = function() return 1 end",
            "return tostring(string.leak or ('').leak)",
        ),
    ] {
        let (_, later) = here_and_later("", &format!("pcall(function() {act} end)"), look);
        assert_eq!(later, "nil", "{act}");
    }
}
