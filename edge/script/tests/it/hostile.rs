//! Scripts that want to stall, starve or crash the server. None may take much longer than its
//! budget, and the next call must find everything in order.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use game::guest::{CallId, GuestCall, MatchContext, Reply, ScriptFailure, Scripts as _, Step};
use game::value::Value;

use crate::host::{TestDispatcher, TestHost};
use crate::straight::{Straight as _, StraightMatch as _};
use script::budget::{GuestLimits, VmMemory};
use script::{LuaLimits, LuaScripts, Sources};

use crate::{context, load_with, roomy, run_on, scripts_of, tight};

/// Far above the budget of 20 ms: the machine may be busy, but nothing may hang.
const PATIENCE: Duration = Duration::from_secs(5);

fn ends(body: &str, limits: GuestLimits) -> (ScriptFailure, String, String) {
    let start = Instant::now();
    let mut host = TestHost::default();
    let mut scripts = scripts_of(
        &format!("if payload == 'ping' then return 'pong' end\n{body}"),
        limits,
        &mut host,
    );
    let answer = scripts.rpc(&mut host, &context(), "test", b"");
    let Err(error) = answer else { panic!("{body} ends well") };
    assert!(start.elapsed() < PATIENCE, "{body} took {:?}", start.elapsed());
    let again = scripts.rpc(&mut host, &context(), "test", b"ping").unwrap();
    assert_eq!(again.unwrap()[..], *b"pong", "after {body}");
    (error.kind, error.message, error.location)
}

#[test]
fn endless_scripts_run_out_of_time() {
    for body in [
        "while true do end",
        "repeat until false",
        "for i = 1, 1e18 do local x = i end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(error, 'x') end",
        "local function f() return f() end while true do pcall(f) end",
        "local function f() pcall(f) f() end f()",
        "xpcall(function() while true do end end, function() while true do end end)",
        "while true do xpcall(error, function() error('again') end) end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end",
        "error(setmetatable({}, {__tostring = function() while true do end end}))",
        "error(setmetatable({}, {__index = function() while true do end end}))",
        "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
        "table.sort({3, 2, 1, 5, 4}, function() while true do end end)",
        "while true do table.sort({3, 2, 1}) end",
        "string.gsub(('a'):rep(1000), 'a', function() while true do end end)",
        "(('a'):rep(30000)):find(('a-'):rep(20) .. 'b')",
        "(('a'):rep(40)):find(('a?'):rep(40) .. ('a'):rep(40) .. 'b')",
        "(('a'):rep(200000)):gsub('.-.-.-b', 'x')",
        "while true do nk.uuid_v4() end",
        "while true do nk.json_decode('[1]') end",
        "while true do pcall(nk.json_encode, print) end",
        "while true do nk.logger_info('x') break end while true do local s = ('x'):rep(1000) end",
        "while true do loadstring('return 1') end",
        "while true do collectgarbage('count') end",
        "local t = {} for i = 1, 1e18 do t[i % 10] = i end",
    ] {
        let (kind, message, location) = ends(body, tight());
        assert_eq!(kind, ScriptFailure::OutOfTime, "{body}: {message}");
        assert_eq!(location, "m.lua:2", "{body}");
        assert_eq!(message, "m.lua:2: script used up its 20 ms (runtime.call_budget_ms)");
    }
}

#[test]
fn greedy_scripts_run_out_of_memory() {
    for body in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return ('x'):rep(2^30)",
        "return table.concat({('x'):rep(5e6), ('x'):rep(5e6), ('x'):rep(5e6)})",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "return table.create(2^26)",
        "return (('x'):rep(8e6)):gsub('x', 'yyyyyyyy')",
        "local t = {} while true do t[#t + 1] = function() return t end end",
        "return nk.base16_encode(('x'):rep(7e6))",
    ] {
        let (kind, message, location) = ends(body, roomy());
        assert_eq!(kind, ScriptFailure::OutOfMemory, "{body}: {message}");
        assert_eq!(location, "m.lua:2", "{body}");
        assert_eq!(
            message,
            "m.lua:2: script used up its 16777216 bytes (runtime.memory_max_bytes)"
        );
    }
}

/// Luau does not collect because memory is short: the collector has to have kept up.
#[test]
fn garbage_beside_much_that_lives_is_no_lack_of_memory() {
    let mut host = TestHost::default();
    for live_tables in [100, 10_000, 20_000, 50_000] {
        let body = format!(
            "local live = {{}} for i = 1, {live_tables} do live[i] = {{ i }} end
            local s = 0 for i = 1, 100000 do s = s + #{{ i, i, i, i }} end
            for i = 1, 2000 do s = s + #('x'):rep(4096 + i) end
            return tostring(#live)"
        );
        let mut scripts = scripts_of(&body, roomy(), &mut host);
        for _ in 0..3 {
            let answer = scripts.rpc(&mut host, &context(), "test", b"");
            let answer = answer.unwrap_or_else(|error| panic!("{live_tables}: {error}"));
            assert_eq!(answer.unwrap(), live_tables.to_string());
        }
    }
}

#[test]
fn what_cannot_be_interrupted_is_bounded() {
    let mut host = TestHost::default();
    for (body, wanted) in [
        // Plain searches are quadratic in C.
        ("local a = ('a'):rep(4e6) return tostring(a:find(('a'):rep(2e6) .. 'b', 1, true))", "nil"),
        ("local a = ('a'):rep(4e6) return tostring(a:find(('a'):rep(2e6) .. 'b'))", "nil"),
        // A table that holds itself many times over.
        ("local t = {1} for i = 1, 40 do t = {t, t} end return nk.json_encode(t)", "!used up"),
        ("local t = {} t.t = t return nk.json_encode(t)", "!nested deeper"),
        ("local t = {} t[1] = t return nk.json_encode(t)", "!nested deeper"),
        ("return nk.json_decode(('['):rep(1e6))", "!not a valid JSON string"),
        ("return tostring(#{unpack({}, 1, 1e7)})", "!too many results"),
        ("return ('x'):byte(1, 1e9) and tostring(select('#', (('x'):rep(1e6)):byte(1, -1)))", "!"),
        ("local function f() return 1 + f() end return f()", "!stack overflow"),
        ("local function f(s) return (s:gsub('.', f)) end return f('aa')", "!stack overflow"),
        ("local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x", "!loop"),
        ("local f, e = loadstring(('x = '):rep(1e5)) error(e)", "!above"),
        ("return tostring(loadstring(('('):rep(5e4)))", "nil"),
        ("return tostring(loadstring('return x' .. ('.a'):rep(1e5)))", "nil"),
        (
            "local t = {} for i = 1, 150 do t[i] = 'goto a' .. i .. ' ' end local jumps = table.concat(t) \
             local labels = jumps:gsub('goto (%w+)', '::%1:: x()') \
             local f, e = loadstring(('do ' .. jumps .. labels .. jumps .. 'x() end '):rep(40)) error(e)",
            "!bytes in Luau",
        ),
        ("return tostring(loadstring('\\27Lua'))", "nil"),
        ("return string.format('%99999d', 1)", "!"),
        ("return coroutine.wrap(function() while true do end end)()", "!attempt to index nil"),
        ("error()", "!nil"),
        ("error(nil)", "!nil"),
        ("error(print)", "!function"),
    ] {
        let start = Instant::now();
        let answer = match run_on(body, "", &mut host) {
            Ok(answer) => answer.unwrap_or_default(),
            Err(error) => format!("!{}", error.message),
        };
        assert!(start.elapsed() < PATIENCE, "{body} took {:?}", start.elapsed());
        let fits = match wanted.strip_prefix('!') {
            Some(part) => answer.contains(part),
            None => answer == wanted,
        };
        assert!(fits, "{body}: {answer}");
    }
}

#[test]
fn a_vm_that_stays_full_is_made_anew() {
    let mut host = TestHost::default();
    let text = "local nk, kept = require('nakama'), {}
        nk.register_rpc(function() while true do kept[#kept + 1] = {} end end, 'fill')
        nk.register_rpc(function() return tostring(#kept) end, 'count')";
    let sources = Arc::new(Sources::from_texts([("m.lua", text)]).unwrap());
    let memory: Arc<VmMemory> = Arc::default();
    let limits = GuestLimits { memory: memory.clone(), ..roomy() };
    let mut scripts = LuaScripts::load(sources.clone(), limits.into(), &mut host).unwrap();
    let error = scripts.rpc(&mut host, &context(), "fill", b"").unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
    // By the call that used it up, and not by the next one.
    assert!(scripts.memory_bytes() > 0 && scripts.take_spent().is_none());
    let count = scripts.rpc(&mut host, &context(), "count", b"").unwrap().unwrap();
    assert_eq!((count.as_ref(), memory.rebuilt_count()), (&b"0"[..], 1));
    assert_eq!((memory.bytes(), memory.match_bytes()), (scripts.memory_bytes(), 0));
    drop(scripts);
    assert_eq!(memory.bytes(), 0);
}

/// Where nobody may wait for the modules to load.
#[test]
fn a_vm_that_stays_full_is_given_away_where_others_make_it_anew() {
    let mut host = TestHost::default();
    let text = "local nk, kept = require('nakama'), {}
        nk.register_rpc(function() while true do kept[#kept + 1] = {} end end, 'fill')
        nk.register_rpc(function() return ('x'):rep(1e9) end, 'much')
        nk.register_rpc(function(_, id) return nk.match_signal(id, '') end, 'ask')";
    let memory: Arc<VmMemory> = Arc::default();
    let guest = GuestLimits { memory: memory.clone(), ..roomy() };
    let limits = LuaLimits { renewal: script::Renewal::ElsewhereAtOnce, ..guest.into() };
    let mut scripts = load_with(&[("m.lua", text)], limits, &mut host).unwrap();
    let ask = GuestCall::Rpc { id: "ask", payload: b"00000000-0000-0000-0000-000000000000.n" };
    let waits = CallId(7);
    let step = scripts.call(&mut host, waits, &context(), ask);
    assert!(matches!(step, Step::Waits(_)), "{step:?}");
    // What is not kept leaves the VM as it was.
    let error = scripts.rpc(&mut host, &context(), "much", b"").unwrap_err();
    assert!(error.kind == ScriptFailure::OutOfMemory && scripts.take_spent().is_none());
    let error = scripts.rpc(&mut host, &context(), "fill", b"").unwrap_err();
    assert_eq!((error.kind, memory.rebuilt_count()), (ScriptFailure::OutOfMemory, 1));
    let spent = scripts.take_spent();
    assert!(spent.is_some() && scripts.take_spent().is_none() && memory.bytes() > 0);
    // Whoever frees it is no longer this thread.
    std::thread::spawn(move || drop(spent)).join().unwrap();
    assert_eq!(memory.bytes(), 0);
    let step = scripts.resume(&mut host, waits, Ok(Reply::Text(b"late".as_slice().into())));
    let Step::Done(Err(error)) = step else { panic!("{step:?}") };
    assert!(error.message.contains("runtime.memory_max_bytes"), "{error}");
}

/// Where others wait for this thread, but not within microseconds.
#[test]
fn garbage_is_collected_before_a_vm_is_given_away_unless_nobody_may_wait_for_that() {
    let text = "local nk, kept = require('nakama'), {}
        local function fill(list) while true do list[#list + 1] = {} end end
        nk.register_rpc(function() fill({}) end, 'waste')
        nk.register_rpc(function() fill(kept) end, 'fill')";
    for (renewal, gives_garbage_away) in
        [(script::Renewal::Elsewhere, false), (script::Renewal::ElsewhereAtOnce, true)]
    {
        let mut host = TestHost::default();
        let limits = LuaLimits { renewal, ..roomy().into() };
        let mut scripts = load_with(&[("m.lua", text)], limits, &mut host).unwrap();
        let error = scripts.rpc(&mut host, &context(), "waste", b"").unwrap_err();
        assert_eq!(error.kind, ScriptFailure::OutOfMemory);
        assert_eq!(scripts.take_spent().is_some(), gives_garbage_away, "{renewal:?}");
        if !gives_garbage_away {
            let error = scripts.rpc(&mut host, &context(), "fill", b"").unwrap_err();
            assert_eq!(error.kind, ScriptFailure::OutOfMemory);
            assert!(scripts.take_spent().is_some());
        }
        let error = scripts.rpc(&mut host, &context(), "waste", b"").unwrap_err();
        assert!(error.message.contains("runtime.memory_max_bytes"), "{error}");
    }
}

#[test]
fn a_match_that_misbehaves_ends_alone() {
    let mut host = TestHost::default();
    let text = "local M = {}
        function M.match_init(c, p) return {}, 10, '' end
        function M.match_join_attempt(c, d, t, s) return s, true end
        function M.match_join(c, d, t, s) return s end
        function M.match_leave(c, d, t, s) return s end
        function M.match_terminate(c, d, t, s) return s end
        function M.match_signal(c, d, t, s) return s end
        function M.match_loop(c, d, t, s)
            if t == 1 then while true do end end
            if t == 2 then
                while true do s[#s + 1] = {} end
            end
            return s
        end
        return M";
    // Long enough to fill the memory on a busy machine.
    let limits = GuestLimits { callback_budget_ms: 500, ..roomy() };
    let mut scripts = load_with(&[("m.lua", text)], limits, &mut host).unwrap();
    host.dispatcher = Some(TestDispatcher::default());
    let context = MatchContext { match_id: "m".into(), label: String::new(), tick_rate_hz: 10 };
    let mut new =
        |host: &mut TestHost| scripts.match_start(host, &context, "m", Value::Nil).unwrap().0;
    let (mut bad, mut good) = (new(&mut host), new(&mut host));
    let error = bad.tick(&mut host, &context, 1, &[]).unwrap_err();
    assert_eq!(error.message, "m.lua:9: script used up its 500 ms (match.callback_budget_ms)");
    let error = bad.tick(&mut host, &context, 2, &[]).unwrap_err();
    assert_eq!(
        error.message,
        "m.lua:11: script used up its 8388608 bytes (match.memory_max_bytes)"
    );
    assert!(good.tick(&mut host, &context, 3, &[]).unwrap());
    drop(bad);
    assert!(good.tick(&mut host, &context, 4, &[]).unwrap());
}

#[test]
fn a_busy_machine_costs_a_script_nothing() {
    // Other threads use the processors up; the script itself needs far less than its budget.
    let limits = GuestLimits { call_budget_ms: 200, ..tight() };
    let mut host = TestHost::default();
    let text = "require('nakama').register_rpc(function()
            local x = 0 for i = 1, 200000 do x = x + i end return 'done'
        end, 'work')";
    let mut scripts = load_with(&[("m.lua", text)], limits, &mut host).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let answer = scripts.rpc(&mut host, &context(), "work", b"");
        stop.store(true, Relaxed);
        assert_eq!(answer.unwrap().unwrap()[..], *b"done");
    });
}

#[test]
fn garbage_does_not_count_as_used_up() {
    let mut host = TestHost::default();
    for (body, wanted) in [
        ("for i = 1, 300 do local s = ('x'):rep(1000000) end return 'done'", "done"),
        ("for i = 1, 300 do local t = table.create(100000, i) end return 'done'", "done"),
        ("for i = 1, 100000 do local t = {i, {i}} end return 'done'", "done"),
        (
            "local s = ('x'):rep(1000000) for i = 1, 50 do s = s:upper() s = s:lower() end return 'done'",
            "done",
        ),
    ] {
        let answer = run_on(body, "", &mut host).unwrap();
        assert_eq!(answer.unwrap(), wanted, "{body}");
    }
}

#[test]
fn scripts_can_move_to_the_thread_that_runs_them() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<LuaScripts>();
    is_shared::<Sources>();
}

/// Of cost 10: it takes longer than the whole budget of 20 ms.
const SLOW_HASH: &str = "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy";

#[test]
fn hashing_passwords_is_paid_for() {
    let body = format!("while true do nk.bcrypt_compare('{SLOW_HASH}', 'wrong') end");
    let (kind, message, _) = ends(&body, tight());
    assert_eq!(kind, ScriptFailure::OutOfTime, "{message}");
    let body = format!("return tostring(nk.bcrypt_compare('{SLOW_HASH}', 'wrong'))");
    let answer = run_on(&body, "", &mut TestHost::default()).unwrap();
    assert_eq!(answer.as_deref(), Some("false"));
}

/// Its room does not: another thread hashes.
#[test]
fn a_match_waits_for_a_passwords_hash() {
    for call in [
        "nk.bcrypt_hash('x')".to_owned(),
        format!("nk.bcrypt_compare('{SLOW_HASH}', 'x')"),
        "nk.authenticate_email('a@b.cc', 'password')".to_owned(),
        "nk.authenticate_email('', 'password', 'name')".to_owned(),
        "nk.link_email('00000000-0000-4000-8000-000000000001', 'a@b.cc', 'password')".to_owned(),
    ] {
        let text = format!(
            "local nk, M = require('nakama'), {{}}
            function M.match_init(c, p) return {{}}, 10, select(2, pcall(function() {call} end)) end
            M.match_join_attempt, M.match_join, M.match_leave = print, print, print
            M.match_terminate, M.match_signal, M.match_loop = print, print, print
            return M"
        );
        let mut host = TestHost::default();
        let mut scripts = load_with(&[("m.lua", &text)], roomy(), &mut host).unwrap();
        let context = MatchContext { match_id: "m".into(), label: String::new(), tick_rate_hz: 10 };
        let made = game::guest::Scripts::match_new(&mut scripts, &mut host, &context, "m");
        let mut running = made.unwrap();
        let init = game::guest::MatchCall::Init { params: &Value::Nil };
        let step = running.call(&mut host, &context, 0, init);
        let game::guest::Step::Waits(game::guest::Ask::Run { function, .. }) = step else {
            panic!("{call}: {step:?}")
        };
        assert!(call.contains(function), "{call}: {function}");
    }
}

#[test]
fn a_call_that_blocks_uses_its_time_up() {
    // The thread sleeps in the host: no CPU time passes.
    let mut host = TestHost { log_takes: Duration::from_millis(100), ..TestHost::default() };
    let mut scripts = scripts_of("while true do nk.logger_info('x') end", tight(), &mut host);
    let start = Instant::now();
    let error = scripts.rpc(&mut host, &context(), "test", b"").unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfTime, "{error}");
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn what_a_call_holds_outside_its_vm_counts() {
    // Each fits into the VM once, and not twice or thrice.
    for body in [
        "nk.base16_encode(('x'):rep(5e6))",
        "nk.base64_encode(('x'):rep(6e6))",
        "nk.json_decode('[' .. ('1,'):rep(4e5) .. '1]')",
        "nk.json_encode(('\\1'):rep(2200000))",
        "nk.localcache_put('k', ('x'):rep(9e6))",
    ] {
        let (kind, message, _) = ends(body, roomy());
        assert_eq!(kind, ScriptFailure::OutOfMemory, "{body}: {message}");
    }
}

#[test]
fn what_a_call_leaves_is_not_the_next_ones_end() {
    let body = "if payload == 'fill' then
            local t = {}
            repeat t[#t + 1] = ('x'):rep(20000 - #t)
            until collectgarbage('count') * 1024 > 16 * 2^20 - 40000
            return 'full'
        end
        local text = ''
        for i = 1, 100 do text = text .. ('y'):rep(100) end
        return tostring(#text)";
    let mut host = TestHost::default();
    let mut scripts = scripts_of(body, roomy(), &mut host);
    for _ in 0..10 {
        for (payload, expected) in [(&b"fill"[..], "full"), (b"", "10000")] {
            let answer = scripts.rpc(&mut host, &context(), "test", payload).unwrap();
            assert_eq!(answer.unwrap()[..], *expected.as_bytes());
        }
    }
}

/// A match that takes a mebibyte more at every tick.
const GROWING: &str = "local M = {}
    function M.match_init() return {}, 10, '' end
    M.match_join_attempt, M.match_join, M.match_leave = print, print, print
    M.match_terminate, M.match_signal = print, print
    function M.match_loop(c, d, t, s)
        s[#s + 1] = ('x'):rep(2^20 - 100 + t)
        return s
    end
    return M";

#[test]
fn all_vms_together_have_a_limit() {
    let limits = GuestLimits { memory: Arc::new(VmMemory::new(6 << 20)), ..roomy() };
    let mut host = TestHost::default();
    let mut scripts = load_with(&[("m.lua", GROWING)], limits, &mut host).unwrap();
    let context = MatchContext { match_id: "m".into(), label: String::new(), tick_rate_hz: 10 };
    let mut running = Vec::new();
    let refused = loop {
        match scripts.match_start(&mut host, &context, "m", Value::Nil) {
            Ok((made, _)) if running.len() < 1_000 => running.push(made),
            Ok(_) => panic!("a thousand matches fit"),
            Err(refused) => break refused.message,
        }
    };
    assert!(refused.contains("(runtime.all_memory_max_bytes)"), "{refused}");
    // What ends makes room, for a match that grows as for a new one; each has 8 MiB of its own.
    running.drain(1..);
    let error = (0..8).find_map(|tick| running[0].tick(&mut host, &context, tick, &[]).err());
    let error = error.unwrap();
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
    assert!(error.message.ends_with("(runtime.all_memory_max_bytes)"), "{error}");
    running.clear();
    assert!(scripts.match_start(&mut host, &context, "m", Value::Nil).is_ok());
}

#[test]
fn an_empty_match_is_small() {
    let mut host = TestHost::default();
    let mut scripts = load_with(&[("m.lua", GROWING)], roomy(), &mut host).unwrap();
    let context = MatchContext { match_id: "m".into(), label: String::new(), tick_rate_hz: 10 };
    let made = scripts.match_start(&mut host, &context, "m", Value::Nil).unwrap().0;
    assert!(made.memory_bytes() < 150 * 1024, "{}", made.memory_bytes());
}
