//! RPCs and hooks: registration, contexts, results and errors.

use game::guest::{CallContext, Callee, ScriptFailure, Scripts as _};
use game::host::json;
use game::value::Value;
use script::LoadError;
use uuid::Uuid;

use crate::host::TestHost;
use crate::straight::Straight as _;
use crate::{context, load, run, run_on};

#[test]
fn results_and_errors_follow_the_original() {
    for (body, wanted) in [
        ("return payload", ""),
        ("return 'a', 'b'", "b"),
        ("", "-"),
        ("return nil", "-"),
        (
            "return {}",
            "!13 Runtime function returned invalid data - only allowed one return value of type String/Byte.",
        ),
        (
            "return 5",
            "!13 Runtime function returned invalid data - only allowed one return value of type String/Byte.",
        ),
        ("error('broken')", "!13 broken"),
        ("error('broken', 0)", "!13 broken"),
        ("error({'no', 3})", "!3 no"),
        ("error({message = 'no', code = 5})", "!5 no"),
        ("error({'only text'})", "!13 only text"),
        ("error({'odd', 99})", "!13 odd"),
        ("error({5, 7})", "!7 5"),
        ("local x = nil; return x.y", "!13 attempt to index nil with 'y'"),
        (
            "return nk.no_such_function()",
            "!13 attempt to call a nil value (field 'no_such_function')",
        ),
        (
            "return nk.leaderboard_create('x')",
            "!13 nk.leaderboard_create is not implemented in throng yet",
        ),
        ("local ok, text = pcall(nk.leaderboard_create, 'x'); return type(text)", "string"),
        (
            "local ok, text = pcall(function() nk.json_decode('{') end); return text:match('^m.lua:1: not a valid JSON string') or text",
            "m.lua:1: not a valid JSON string",
        ),
        (
            "nk.register_rpc(function() end, 'late')",
            "!13 register_rpc can only be called while modules are loaded",
        ),
    ] {
        assert_eq!(run(body), wanted, "{body}");
    }
}

#[test]
fn an_error_tells_the_log_file_and_line() {
    let mut host = TestHost::default();
    for (body, location) in [
        ("\n\nerror('x')", "m.lua:3"),
        ("\nerror({'x', 3})", "m.lua:2"),
        ("\nnk.json_decode('{')", "m.lua:2"),
        ("\nlocal function f() error({'x', 3}) end\n f()", "m.lua:2"),
    ] {
        let error = run_on(body, "", &mut host).unwrap_err();
        assert_eq!((error.location.as_str(), error.kind), (location, ScriptFailure::Raised));
        assert!(!error.message.contains("m.lua"), "{}", error.message);
    }
}

#[test]
fn unknown_ids_are_not_found_and_case_does_not_matter() {
    let mut host = TestHost::default();
    let text = "require('nakama').register_rpc(function(_, p) return p end, 'Echo_One')";
    let mut scripts = load(&[("a.lua", text)], &mut host).unwrap();
    assert_eq!(scripts.registered().rpc, ["echo_one"]);
    assert_eq!(
        scripts.rpc(&mut host, &context(), "ECHO_one", b"\xff\0x").unwrap().unwrap()[..],
        *b"\xff\0x"
    );
    let error = scripts.rpc(&mut host, &context(), "other", b"").unwrap_err();
    assert_eq!((error.kind, error.code), (ScriptFailure::NotFound, 5));
}

/// A context with all that there is.
fn full_context(execution_mode: &'static str) -> CallContext {
    CallContext {
        execution_mode,
        user_id: Some(Uuid::from_u128(1)),
        username: Some("ann".into()),
        vars: vec![("k".into(), "v".into())],
        user_session_exp: Some(1_700_000_060),
        session_id: Some(Uuid::from_u128(2)),
        lang: Some("en".into()),
        client_ip: Some("127.0.0.1".into()),
        client_port: Some("5".into()),
        headers: [("Accept", "a"), ("Accept", "b")].into_iter().collect(),
        query_params: [("q", "1")].into_iter().collect(),
    }
}

#[test]
fn the_context_shows_what_the_call_knows() {
    let mut host = TestHost::default();
    let full = full_context("rpc");
    let text = "local nk = require('nakama') nk.register_rpc(function(c) return nk.json_encode(c) end, 'c')";
    let mut scripts = load(&[("a.lua", text)], &mut host).unwrap();
    let mut shown = |context: &CallContext| {
        let answer = scripts.rpc(&mut host, context, "c", b"").unwrap().unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    };
    assert_eq!(
        shown(&full),
        "{\"client_ip\":\"127.0.0.1\",\"client_port\":\"5\",\"env\":{\"MODE\":\"test\"},\
         \"execution_mode\":\"rpc\",\"headers\":{\"Accept\":[\"a\",\"b\"]},\"lang\":\"en\",\
         \"node\":\"node1\",\"query_params\":{\"q\":[\"1\"]},\
         \"session_id\":\"00000000-0000-0000-0000-000000000002\",\
         \"user_id\":\"00000000-0000-0000-0000-000000000001\",\"user_session_exp\":1700000060,\
         \"username\":\"ann\",\"vars\":{\"k\":\"v\"},\"version\":\"0.0.0\"}"
    );
    assert_eq!(
        shown(&context()),
        "{\"env\":{\"MODE\":\"test\"},\"execution_mode\":\"rpc\",\"headers\":{},\"node\":\"node1\",\
         \"query_params\":{},\"version\":\"0.0.0\"}"
    );
}

#[test]
fn a_context_of_any_size_arrives_whole() {
    let mut host = TestHost::default();
    let text = "local nk = require('nakama') nk.register_rpc(function(c)
            local n = 0
            for name, list in pairs(c.query_params) do
                for _, value in ipairs(list) do
                    n = n + 1
                    if value ~= 'v' .. name then error(name .. value) end
                end
            end
            return n .. ' ' .. #c.headers.h .. ' ' .. (c.vars and c.vars.k or '')
        end, 'c')";
    let mut scripts = load(&[("a.lua", text)], &mut host).unwrap();
    for count in [0, 1, 48, 49, 50, 99, 100, 101, 199, 200, 201, 999] {
        let full = CallContext {
            execution_mode: "rpc",
            user_id: Some(Uuid::from_u128(1)),
            vars: vec![("k".into(), "v".into())],
            headers: [("h", "1"), ("h", "2")].into_iter().collect(),
            query_params: (0..2 * count)
                .map(|n| n / 2)
                .map(|n| (n.to_string(), format!("v{n}")))
                .collect(),
            ..CallContext::default()
        };
        let answer = scripts.rpc(&mut host, &full, "c", b"").unwrap().unwrap();
        assert_eq!(answer, format!("{} 2 v", 2 * count));
    }
}

#[test]
fn hooks_change_refuse_and_watch() {
    let mut host = TestHost::default();
    let text = "local nk = require('nakama')
        nk.register_req_before(function(c, p) p.username = 'x' return p end, 'AuthenticateDevice')
        nk.register_rt_before(function(c, p) return nil end, 'MatchCreate')
        nk.register_req_after(function(c, out, req) nk.logger_info(out.a .. req.b) end, 'GetUsers')
        nk.register_shutdown(function(c) nk.logger_info(c.execution_mode) end)
        nk.register_storage_index('index')";
    let mut scripts = load(&[("a.lua", text)], &mut host).unwrap();
    let registered = scripts.registered();
    assert_eq!(registered.before, ["authenticatedevice", "rt:matchcreate"]);
    assert_eq!(registered.after, ["getusers"]);
    assert_eq!(registered.events, ["shutdown", "storage_index:index"]);
    let place = |what: &str, line| (what.to_owned(), format!("a.lua:{line}"));
    let places = [
        place("before authenticatedevice", 2),
        place("before rt:matchcreate", 3),
        place("after getusers", 4),
        place("shutdown", 5),
    ];
    assert_eq!(registered.locations, places);
    let map = |key: &'static str, text: &str| Value::Map(vec![(key.into(), Value::text(text))]);
    let before = scripts.before(&mut host, &context(), "authenticatedevice", map("id", "d"));
    let changed = before.unwrap().unwrap();
    assert_eq!(changed.member("username").unwrap().as_str(), Some("x"));
    assert_eq!(changed.member("id").unwrap().as_str(), Some("d"));
    let refused = scripts.before(&mut host, &context(), "rt:matchcreate", Value::Nil).unwrap();
    assert_eq!(refused, None);
    scripts.after(&mut host, &context(), "getusers", map("a", "1"), map("b", "2")).unwrap();
    let context = CallContext { execution_mode: "shutdown", ..CallContext::default() };
    scripts.event(&mut host, &context, "shutdown", Value::Nil).unwrap();
    scripts.event(&mut host, &context, "tournament_end", Value::Nil).unwrap();
    assert_eq!(host.logs, ["Info 12", "Info shutdown"]);
}

/// What is not read is not made; nobody can tell. Beside each function stands the same one on a line with
/// another function: of that nothing is known, and all is made for it.
#[test]
fn functions_see_all_that_they_look_at() {
    let full = full_context("after");
    let bare = CallContext { execution_mode: "after", ..CallContext::default() };
    let answer = json::decode(br#"{"token":"t","list":[1,{"a":null}],"created":true}"#).unwrap();
    let request = json::decode(br#"{"account":{"id":"d"},"username":"u"}"#).unwrap();
    for function in [
        "(c, s, r) say('nothing') end",
        "(c) say(c.user_id, c.username, c.client_ip, c.client_port, c.lang, c.session_id) end",
        "(c) say(c.env, c.execution_mode, c.node, c.version, c.user_session_exp) end",
        "(c) say(c.vars, c.headers, c.query_params, c.nothing) end",
        "(c) c.user_id = 'x' c.new = 'y' say(c.user_id, c.new, c.username) end",
        "(c) c.headers.new = 'c' say(c.headers) end",
        "(c, s) say(c, s) end",
        "(c, s) say(s.token, s.list, s.created, s.nothing) end",
        "(c, s) s.token = nil say(s.token, s.list) end",
        "(c, s, r) say(r) end",
        "(c, s, r) say(r.account.id, s.list[2]) end",
        "(c, ...) say(...) end",
        "(c, ...) say(select('#', ...)) end",
        "(c, ...) say(arg) end",
        "(...) local c, s, r = ... say(c, s, r) end",
        "(c, s, r, none) say(none, r.username) end",
        "(c, s, s) say(s) end",
        "(c) local seen = {} for name, it in pairs(c) do seen[name] = it end say(seen) end",
        "() say('no parameters') end",
        "(arg, ...) say(arg.user_id, ...) end",
        "(arg, ...) say(arg) end",
        "(c, arg)\nlocal function inner(...) say(arg, ...) end\ninner(1) end",
        "\n(c, s)\nsay(c.user_id, s) end",
    ] {
        let text = format!(
            "local nk = require('nakama')
            local function say(...) nk.logger_info(nk.json_encode({{ n = select('#', ...), ... }})) end
            nk.register_req_after(function{function}, 'GetUsers')
            local _ = function() end nk.register_req_after(function{function}, 'GetAccount')"
        );
        let mut host = TestHost::default();
        let mut scripts = load(&[("a.lua", &*text)], &mut host).unwrap();
        for context in [&full, &bare] {
            for id in ["getusers", "getaccount"] {
                scripts.after(&mut host, context, id, answer.clone(), request.clone()).unwrap();
            }
            let [.., known, unknown] = host.logs.as_slice() else { panic!("{function}") };
            assert_eq!(known, unknown, "{function}");
        }
    }
}

/// The same of RPC functions, whose payload is a string.
#[test]
fn rpc_functions_see_all_that_they_look_at() {
    let full = CallContext { user_id: Some(Uuid::from_u128(1)), ..context() };
    for function in [
        "(c, p) return 'nothing' end",
        "(c, p) return p end",
        "(c, p) return tostring(p.nothing) end",
        "(c, p) return p:upper() end",
        "(_, p) return p.upper(p) end",
        "(...) return (select(2, ...)) end",
        "(c) return c.user_id or 'nobody' end",
    ] {
        let text = format!(
            "local nk = require('nakama')
            nk.register_rpc(function{function}, 'known')
            local _ = function() end nk.register_rpc(function{function}, 'unknown')"
        );
        let mut host = TestHost::default();
        let mut scripts = load(&[("a.lua", &*text)], &mut host).unwrap();
        let mut answer = |id| scripts.rpc(&mut host, &full, id, b"payload").unwrap().unwrap();
        assert_eq!(answer("known"), answer("unknown"), "{function}");
    }
}

/// Of an after-hook, what it reads of the answer and of the request.
#[test]
fn hooks_say_what_they_look_at() {
    let mut host = TestHost::default();
    let text = "local nk, unread = require('nakama'), function(c, s, r) end
        nk.register_req_after(function(c, s, r) end, 'A')
        nk.register_req_after(function(c, s, r) return r.x end, 'B')
        nk.register_req_after(function(c, s) return s end, 'C')
        nk.register_req_after(nk.logger_info, 'D')
        nk.register_req_before(function(c, r) return nil end, 'A')
        nk.register_req_before(function(c, r) return r end, 'B')
        local maker = loadstring([[return function(c, s, r) return s end]], 'a.lua')
        nk.register_req_after(maker(), 'E')
        local named = loadstring('\\n\\nreturn ' .. '\\n' .. 'function(c, s, r) return r end', '@b.lua')
        nk.register_req_after(named(), 'F')";
    let second = "\n\n\nlocal f = function(c, s, r) end
        local nk, m = require('nakama'), {}
        local function g(c, s, r) return r end nk.register_req_after(g, 'G')
        function m.h(c, s, r) return r end nk.register_req_after(m.h, 'H')
        local
        function i(c, s, r) return r end nk.register_req_after(i, 'I')
        nk.register_req_after(function
        (c, s, r) return r end, 'K')";
    let scripts = load(&[("a.lua", text), ("b.lua", second)], &mut host).unwrap();
    let reads = |hook| {
        let form = scripts.hook_form(hook);
        (form.reads_answer, form.reads_request)
    };
    assert_eq!(reads(Callee::After("a")), (false, false));
    assert_eq!(reads(Callee::After("b")), (false, true));
    assert_eq!(reads(Callee::After("c")), (true, false));
    assert_eq!(reads(Callee::After("d")), (true, true), "a function of the host");
    assert_eq!(reads(Callee::Before("a")), (false, false));
    assert_eq!(reads(Callee::Before("b")), (false, true));
    for id in ["g", "h", "i", "k"] {
        assert_eq!(reads(Callee::After(id)), (false, true), "{id}");
    }
    assert_eq!(reads(Callee::After("e")), (true, true), "a text of that name");
    assert_eq!(reads(Callee::After("f")), (true, true), "a text of another module's name");
}

#[test]
fn broken_modules_do_not_load_and_say_where() {
    let mut host = TestHost::default();
    for (files, wanted) in [
        (&[("dir/bad.lua", "local x =\n=")] as &[_], "dir/bad.lua:2: "),
        (&[("a.lua", "\n\nerror('boom')")], "a.lua:3: boom"),
        (&[("a.lua", "\nrequire('nothing')")], "a.lua:2: module nothing not found"),
        (
            &[("a.lua", "require('b')"), ("b.lua", "require('a')")],
            "b.lua:1: loop or previous error loading module: a",
        ),
        (
            &[("a.lua", "\nwhile true do end")],
            "a.lua:2: script used up its 200 ms (runtime.load_budget_ms)",
        ),
        (
            &[("a.lua", "require('nakama').register_rpc(nil, 'x')")],
            "a.lua:1: bad argument #1 to register_rpc (function expected, got nil)",
        ),
    ] {
        let error = load(files, &mut host).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
    let twice = load(&[("a/b.lua", ""), ("a.b.lua", "")], &mut host).unwrap_err();
    assert!(matches!(twice, LoadError::Twice { .. }));
}

#[test]
fn run_once_runs_in_one_vm_of_all() {
    let mut host = TestHost::default();
    let text = "local nk = require('nakama') nk.run_once(function(c) nk.logger_info(c.execution_mode) end)";
    let sources = std::sync::Arc::new(script::Sources::from_texts([("a.lua", text)]).unwrap());
    for _ in 0..3 {
        script::LuaScripts::load(sources.clone(), crate::tight().into(), &mut host).unwrap();
    }
    assert_eq!(host.logs, ["Info run_once"]);
}

#[test]
fn a_stacktrace_is_shown_only_when_asked_for() {
    let mut host = TestHost::default();
    let text = "require('nakama').register_rpc(function() error('x') end, 'x')";
    let limits = script::LuaLimits { stacktrace: true, ..crate::tight().into() };
    let mut scripts = crate::load_with(&[("a.lua", text)], limits, &mut host).unwrap();
    let error = scripts.rpc(&mut host, &context(), "x", b"").unwrap_err();
    assert!(
        error.message.starts_with("a.lua:1: x\nstack traceback:\na.lua:1"),
        "{}",
        error.message
    );
}
