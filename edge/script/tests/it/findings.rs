//! What authors are told about modules that load and would fail in the middle of a call.

use game::guest::Scripts as _;

use crate::host::TestHost;
use crate::{load_with, roomy};

/// A match module with all callbacks but the given ones, returned as a table.
fn handler(without: &[&str]) -> String {
    let names = [
        "match_init",
        "match_join_attempt",
        "match_join",
        "match_leave",
        "match_loop",
        "match_terminate",
        "match_signal",
    ];
    let names = names.iter().filter(|name| !without.contains(name));
    let functions: Vec<String> =
        names.map(|name| format!("function M.{name}(a, b) return a end")).collect();
    format!("local M = {{}}\n{}\nreturn M", functions.join("\n"))
}

/// The findings, those that are certain with an exclamation mark.
fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let mut host = TestHost::default();
    let scripts = load_with(files, roomy(), &mut host).unwrap();
    let shown = scripts.registered().findings.iter();
    shown.map(|it| format!("{}{}", if it.is_certain { "!" } else { "" }, it.text)).collect()
}

/// The findings of an RPC module with these lines.
fn of_lines(lines: &str) -> Vec<String> {
    let text =
        format!("local nk = require(\"nakama\")\nnk.register_rpc(function() end, \"x\")\n{lines}");
    findings(&[("a.lua", &text)])
}

#[test]
fn functions_that_are_not_built_and_typos_are_named_with_their_places() {
    for (lines, wanted) in [
        ("nk.json_encode({})", &[][..]),
        (
            "function f() nk.group_create('x') end",
            &["a.lua:3: nk.group_create is not built yet: calling it is an error"],
        ),
        (
            "local request = nk.group_create",
            &["a.lua:3: nk.group_create is not built yet: calling it is an error"],
        ),
        (
            "function f() nk[\"group_create\"]() end\nfunction g() nk.group_create {} end\n\
             function h() nk.group_create() end function i() nk.group_create() end\n\
             function j() nk.group_create() end",
            &["a.lua:3: nk.group_create is not built yet: calling it is an error (also a.lua:4, \
               a.lua:5, 2 more)"],
        ),
        (
            "function f() return nk.json_encod({}) end",
            &["!a.lua:3: nk.json_encod: Nakama has no such function; did you mean `json_encode`?"],
        ),
        ("if nk.frobnicate then end", &["a.lua:3: nk.frobnicate: Nakama has no such function"]),
        (
            "function f() return nk:json_encode({}) end",
            &["a.lua:3: nk:json_encode is written with a colon, which passes `nk` as the first \
               argument: write nk.json_encode"],
        ),
        // Aliases of all kinds.
        (
            "local n = nk function f() n.group_create() end",
            &["a.lua:3: nk.group_create is not built yet: calling it is an error"],
        ),
        (
            "local a, m = 1, require 'nakama' function f() m.group_create() end",
            &["a.lua:3: nk.group_create is not built yet: calling it is an error"],
        ),
        (
            "local send = require('nakama').group_create",
            &["a.lua:3: nk.group_create is not built yet: calling it is an error"],
        ),
        (
            "local m = m or require('nakama') function f() m.group_create() end",
            &["a.lua:3: nk.group_create is not built yet: calling it is an error"],
        ),
        // What only looks like it.
        ("-- nk.group_create()\nlocal s = 'nk.group_create()' .. [[nk.group_create()]]", &[]),
        ("local o = { nk = {} } function f() o.nk.group_create() end", &[]),
        ("function nk.mine() end function f() nk.mine() end nk.own = 1 g = nk.own", &[]),
        ("local nk2 = { x = 1 } function f() return nk2.group_create end", &[]),
        ("local m = require('nakama') m = { } function f() return m.group_create end", &[]),
    ] {
        assert_eq!(of_lines(lines), wanted, "{lines}");
    }
}

#[test]
fn match_modules_are_looked_at() {
    let whole = handler(&[]);
    let create = |name: &str| {
        format!("local nk = require('nakama')\nfunction f() nk.match_create('{name}', {{}}) end")
    };
    let colon = whole.replace("M.match_init(a, b)", "M:match_init(a, b)");
    for (files, wanted) in [
        (vec![("m.lua", whole.clone()), ("r.lua", create("m"))], &[][..]),
        (
            vec![("m.lua", handler(&["match_signal"])), ("r.lua", create("m"))],
            &["m.lua: lacks match_signal, which Nakama asks for: signals are answered with an \
               empty text"],
        ),
        (
            vec![("m.lua", handler(&["match_leave", "match_terminate"]))],
            &[
                "m.lua: lacks match_leave, match_terminate, which Nakama asks for: joins are let in, \
               the state stays as it is",
            ],
        ),
        (
            vec![("m.lua", handler(&["match_loop"])), ("r.lua", create("m"))],
            &["!m.lua: no match can run with this module: it lacks match_loop"],
        ),
        (
            vec![("m.lua", colon)],
            &["m.lua: match_init takes 3 arguments and is given 2: is it written with a colon \
               instead of a point?"],
        ),
        (
            vec![
                ("m.lua", whole.clone()),
                ("r.lua", create("m").replace("'m'", "'arena_' .. mode")),
                ("s.lua", create("m").replace("'m'", "('arena_'):rep(2)")),
            ],
            &[],
        ),
        (
            vec![("arena.lua", whole.clone()), ("r.lua", create("arean"))],
            &["!r.lua:2: nk.match_create: there is no module \"arean\"; did you mean `arena`?"],
        ),
        (
            vec![("r.lua", create("r"))],
            &["!r.lua:2: nk.match_create: the module \"r\" returns no table with match_init and \
               the other callbacks"],
        ),
        (
            vec![("m.lua", whole.replace(" return a ", " dispatcher.broadcast(1) "))],
            &["!m.lua:2: dispatcher.broadcast: a dispatcher has no such function; did you mean \
               `broadcast_message`? (also m.lua:3, m.lua:4, 4 more)"],
        ),
        (
            vec![("m.lua", whole.replacen(" return a ", " dispatcher:match_kick({}) ", 1))],
            &["!m.lua:2: dispatcher:match_kick is written with a colon, which passes the \
               dispatcher as the first argument: write dispatcher.match_kick"],
        ),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|(f, text)| (*f, text.as_str())).collect();
        assert_eq!(findings(&files), wanted, "{files:?}");
    }
}

#[test]
fn modules_that_do_nothing_are_named() {
    const RPC: &str = "require('nakama').register_rpc(function() end, 'x')";
    let forgotten = handler(&[]).replace("\nreturn M", "");
    for (text, wanted) in [
        (RPC, &[][..]),
        ("local nk = require('nakama') local r = nk.register_rpc r(function() end, 'x')", &[]),
        ("return {}", &[]),
        ("helper = function() end", &[]),
        ("function helper() end", &[]),
        ("require('nakama').run_once(function() end)", &[]),
        ("local nk = require('nakama') nk.localcache_put('a', 1)", &[]),
        ("if true then return 1 end", &[]),
        (
            &forgotten,
            &["m.lua: registers nothing and returns nothing: is `return M` missing at its end?"],
        ),
        (
            "local nk = require('nakama')\nlocal function f() return 1 end nk.logger_info('hi')",
            &[
                "m.lua: registers nothing and returns nothing: it can be removed, or a registration \
               or `return` is missing",
            ],
        ),
        (
            "local t = { a = 1 } return",
            &[
                "m.lua: registers nothing and returns nothing: it can be removed, or a registration \
               or `return` is missing",
            ],
        ),
    ] {
        assert_eq!(findings(&[("m.lua", text)]), wanted, "{text}");
    }
    let late = "function f() return require('shpo') end";
    let wanted = ["a.lua:1: there is no module \"shpo\" to require; did you mean `shop`?"];
    assert_eq!(findings(&[("a.lua", late), ("shop.lua", "return {}")]), wanted);
}

#[test]
fn what_is_registered_twice_is_named_with_both_places() {
    const RPC: &str = "local nk = require('nakama')\nnk.register_rpc(function() end, 'Score')";
    for (files, wanted) in [
        (&[("a.lua", RPC)][..], &[][..]),
        (
            &[
                ("a.lua", RPC),
                ("b.lua", "\n\nrequire('nakama').register_rpc(function() end, 'score')"),
            ],
            &[
                "b.lua:3: the RPC score is registered again (case does not count): a.lua:2 never runs",
            ],
        ),
        (
            &[(
                "a.lua",
                "local nk = require('nakama')\nnk.register_req_before(function() end, 'GetUsers')\n\
                 nk.register_req_before(function() end, 'getusers')\n\
                 nk.register_req_after(function() end, 'GetUsers')\n\
                 nk.register_shutdown(function() end)\nnk.register_shutdown(function() end)\n\
                 local function f() end nk.register_rpc(f, 'f') nk.register_rpc(f, 'F')",
            )],
            &[
                "a.lua:3: the before-hook of getusers is registered again (case does not count): a.lua:2 never runs",
                "a.lua:6: register_shutdown is registered again (case does not count): a.lua:5 never runs",
            ],
        ),
    ] {
        assert_eq!(findings(files), wanted);
    }
}

/// Whatever they call it.
#[test]
fn the_dispatcher_of_a_callback_is_known_by_its_place() {
    let of = |callback: &str| {
        let text = format!(
            "{}\nlocal M = {{}}\n{callback}\nreturn M",
            handler(&[]).replace("return M", "")
        );
        let mut found = findings(&[("m.lua", &text)]);
        found.retain(|it| it.contains("dispatcher"));
        found
    };
    let wrong = "!m.lua:11: dispatcher.broadcst_message: a dispatcher has no such function; did you \
                 mean `broadcast_message`?";
    let colon = "!m.lua:11: dispatcher:match_kick is written with a colon, which passes the \
                 dispatcher as the first argument: write dispatcher.match_kick";
    let head = "function M.match_loop(c, d, t, s, m)";
    for (callback, wanted) in [
        (
            format!("{head} d.broadcst_message(1, 'x') d:match_kick({{}}) return s end"),
            &[wrong, colon][..],
        ),
        (format!("{head} if t then helper(d, s) end d.broadcst_message(1) return s end"), &[wrong]),
        (
            "M.match_leave = function(_, d, t, s, m) d.broadcst_message(1) return s end".into(),
            &[wrong],
        ),
        // Something else of that name, or another function.
        (format!("{head} local d = {{}} d.broadcst_message(1) return s end"), &[]),
        (format!("{head} for _, d in ipairs(m) do d.broadcst_message(1) end return s end"), &[]),
        (format!("{head} f(function(a, d) d.broadcst_message(1) end) return s end"), &[]),
        (format!("{head} s, d = d, s d.broadcst_message(1) return s end"), &[]),
        (format!("{head} return s end function M.x(d) d.broadcst_message(1) end"), &[]),
        ("function M.match_init(c, d) d.broadcst_message(1) end".into(), &[]),
        ("function M.other(c, d, t) d.broadcst_message(1) end".into(), &[]),
    ] {
        assert_eq!(of(&callback), wanted, "{callback}");
    }
}
