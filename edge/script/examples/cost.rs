//! What calls into Lua cost: `cargo run --release -p script --example cost`.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a tool for developers")]

#[path = "../tests/it/host.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod host;
#[path = "../tests/it/straight.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod straight;

use std::sync::Arc;

use game::guest::{CallContext, MatchContext, MatchMessage, Presence};
use game::node::NodeId;
use game::value::Value;
use host::{TestDispatcher, TestHost};
use script::{LuaLimits, LuaScripts, Sources};
use straight::{Straight as _, StraightMatch as _};
use uuid::Uuid;

// The server's own, as it decides what small blocks cost.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

const MODULES: [(&str, &str); 2] = [
    (
        "bench.lua",
        "local nk = require('nakama')
        nk.register_rpc(function(context, payload) return payload end, 'echo')
        nk.register_rpc(function(context, payload)
            local x = 0
            for i = 1, 1000000 do x = x + i % 7 end
            return tostring(x)
        end, 'loop')
        local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
        nk.register_rpc(function() return tostring(fib(24)) end, 'fib')
        nk.register_rpc(function() for i = 1, 1000 do nk.time() end end, 'time')
        nk.register_rpc(function() for i = 1, 1000 do nk.logger_info('a line of a script') end end, 'log')
        nk.register_rpc(function(context, payload)
            return nk.json_encode(nk.json_decode(payload))
        end, 'echo_json')
        nk.register_rpc(function(context, payload)
            for i = 1, 1000 do nk.json_decode(payload) end
        end, 'decode')
        nk.register_rpc(function(context, payload)
            local value = nk.json_decode(payload)
            for i = 1, 1000 do nk.json_encode(value) end
        end, 'encode')
        nk.register_rpc(function()
            for i = 1, 1000 do nk.json_encode({a = i, b = {1, 2, 3}, c = 'text'}) end
        end, 'json')
        nk.register_rpc(function()
            local list = {}
            for i = 1, 10000 do
                local t = {x = i, y = 2, name = 'a'}
                t.z = t.x + t.y
                list[#list + 1] = t
            end
            local sum = 0
            for _, t in ipairs(list) do for _, v in pairs(t) do if v ~= 'a' then sum = sum + v end end end
            return tostring(sum)
        end, 'tables')
        nk.register_rpc(function()
            for i = 1, 1000 do string.find('a line of some text', '(%w+) of (%w+)') end
        end, 'find')
        nk.register_rpc(function()
            for i = 1, 1000 do string.find('a line of some text', 'text', 1, true) end
        end, 'plain')
        nk.register_rpc(function()
            for i = 1, 1000 do string.gsub('a line of some text', '%w+', 'x') end
        end, 'gsub')
        nk.register_rpc(function()
            for i = 1, 1000 do string.format('%d of %s', i, 'text') end
        end, 'format')
        nk.register_rpc(function()
            local t = {} for i = 1, 1000 do t[i] = i * 7919 % 1000 end table.sort(t)
        end, 'sort')
        nk.register_rpc(function()
            local t = {} for i = 1, 1000 do t[i] = i * 7919 % 1000 end
            table.sort(t, function(a, b) return a > b end)
        end, 'order')
        nk.register_rpc(function() for i = 1, 1000 do math.random(1, 6) end end, 'random')
        nk.register_rpc(function()
            local state = { players = {}, board = {}, turn = 1 }
            for i = 1, 1000 do
                local id = 'player' .. i % 20
                if state.players[id] then
                    state.players[id] = nil
                else
                    state.players[id] = { id = id, x = i, y = 0, score = 0 }
                end
                local message = { turn = i, moves = {} }
                for key, player in pairs(state.players) do
                    player.x = player.x + 1
                    message.moves[#message.moves + 1] = { id = key, x = player.x }
                end
                state.board[i % 9 + 1] = 'X'
                nk.json_encode(message)
            end
        end, 'game')",
    ),
    (
        "arena.lua",
        "local M = {}
        function M.match_init(context, params) return {}, 10, '{}' end
        function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
        function M.match_join(context, dispatcher, tick, state, presences) return state end
        function M.match_leave(context, dispatcher, tick, state, presences) return state end
        function M.match_loop(context, dispatcher, tick, state, messages)
            for _, message in ipairs(messages) do
                if message.op_code == 1 then
                    dispatcher.broadcast_message(1, message.data, {message.sender})
                elseif message.op_code == 2 then
                    dispatcher.broadcast_message(2, message.data)
                end
            end
            if tick < 0 then
                for i = 1, 1000 do dispatcher.broadcast_message(2, 'a payload of 35 characters for all.') end
            end
            return state
        end
        function M.match_terminate(context, dispatcher, tick, state, grace_seconds) return state end
        function M.match_signal(context, dispatcher, tick, state, data) return state, data end
        return M",
    ),
];

/// The payload of scenarios/rpc-json.toml.
const JSON: &[u8] = br#"{"player":"fox-21","items":[{"id":471,"count":3},{"id":4712,"count":1}],"position":[12.5,-3.25,100]}"#;

/// This thread's CPU time, seconds: the machine has other things to do.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU nanoseconds of one `work`, the best of five runs.
fn measure(name: &str, count: u32, per: u32, mut work: impl FnMut()) {
    if std::env::args().nth(1).is_some_and(|wanted| !name.starts_with(&wanted)) {
        return;
    }
    let mut best_ns = f64::INFINITY;
    for _ in 0..5 {
        let start_s = cpu_s();
        for _ in 0..count {
            work();
        }
        best_ns = best_ns.min((cpu_s() - start_s) * 1e9 / f64::from(count * per));
    }
    println!("{name:32} {best_ns:>12.0} ns");
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4
}

fn main() {
    let mut host = TestHost { dispatcher: Some(TestDispatcher::default()), ..TestHost::default() };
    let sources = Arc::new(Sources::from_texts(MODULES).unwrap());
    let mut scripts =
        LuaScripts::load(Arc::clone(&sources), LuaLimits::default(), &mut host).unwrap();
    let bare = CallContext { execution_mode: "rpc", ..CallContext::default() };
    let full = CallContext {
        execution_mode: "rpc",
        user_id: Some(Uuid::from_u128(1)),
        username: Some("someuser".into()),
        user_session_exp: Some(1_700_000_000),
        client_ip: Some("127.0.0.1".into()),
        client_port: Some("50000".into()),
        ..CallContext::default()
    };
    let http = CallContext {
        headers: ["Accept", "Accept-Encoding", "Authorization", "Content-Type", "User-Agent"]
            .map(|name| (name, "some value of it"))
            .into_iter()
            .collect(),
        ..full.clone()
    };
    for (name, context) in
        [("echo, bare", &bare), ("echo, user", &full), ("echo, user + headers", &http)]
    {
        measure(name, 50_000, 1, || {
            scripts.rpc(&mut host, context, "echo", b"a payload of some bytes").unwrap();
        });
    }
    measure("echo of JSON", 50_000, 1, || {
        scripts.rpc(&mut host, &http, "echo_json", JSON).unwrap();
    });
    for name in ["encode", "decode"] {
        measure(&format!("{name}, one of 1000"), 50, 1_000, || {
            scripts.rpc(&mut host, &bare, name, JSON).unwrap();
        });
    }
    for (name, per) in [
        ("loop", 1_000_000),
        ("fib", 150_049),
        ("time", 1_000),
        ("log", 1_000),
        ("json", 1_000),
        ("find", 1_000),
        ("plain", 1_000),
        ("gsub", 1_000),
        ("format", 1_000),
        ("sort", 1_000),
        ("order", 1_000),
        ("random", 1_000),
    ] {
        measure(&format!("{name}, one of {per}"), if per > 10_000 { 1 } else { 50 }, per, || {
            scripts.rpc(&mut host, &bare, name, b"").unwrap();
            host.logs.clear();
        });
    }
    let sources = Arc::new(Sources::new(true).and_texts(MODULES).unwrap());
    let mut ordered = LuaScripts::load(sources, LuaLimits::default(), &mut host).unwrap();
    for (name, per) in [("tables", 10_000), ("game", 1_000)] {
        for (kind, scripts) in [("", &mut scripts), (" in order", &mut ordered)] {
            measure(&format!("{name}{kind}, one of {per}"), 20, per, || {
                scripts.rpc(&mut host, &bare, name, b"").unwrap();
            });
        }
    }
    measure_matches(&mut scripts, &mut host);
}

const MATCHES: u32 = 1_000;

fn measure_matches(scripts: &mut LuaScripts, host: &mut TestHost) {
    let context = MatchContext { match_id: "m.n".into(), label: "{}".into(), tick_rate_hz: 10 };
    let before_kb = resident_kb();
    let start_s = cpu_s();
    let mut matches: Vec<_> = (0..MATCHES)
        .map(|_| scripts.match_start(host, &context, "arena", Value::Nil).unwrap().0)
        .collect();
    println!(
        "a match: {:.0} us to make, {} KB resident, {} KB by Lua's count",
        (cpu_s() - start_s) * 1e6 / f64::from(MATCHES),
        (resident_kb() - before_kb) / u64::from(MATCHES),
        matches[0].memory_bytes() / 1024,
    );
    let running = &mut matches[0];
    measure("empty tick", 10_000, 1, || {
        running.tick(host, &context, 1, &[]).unwrap();
    });
    measure("broadcast", 50, 1_000, || {
        running.tick(host, &context, -1, &[]).unwrap();
    });
    let message = |op_code| MatchMessage {
        sender: Presence {
            user_id: Uuid::from_u128(1),
            session_id: Uuid::from_u128(2),
            username: "someuser".into(),
            node: NodeId::default(),
        },
        op_code,
        data: "a payload of 35 characters for all.".into(),
        reliable: true,
        receive_time_ms: 1_700_000_000_000,
    };
    for op_code in [0, 1, 2] {
        let messages = vec![message(op_code); 20];
        measure(&format!("message of opcode {op_code}, of 20"), 1_000, 20, || {
            running.tick(host, &context, 1, &messages).unwrap();
        });
    }
}
