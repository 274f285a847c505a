//! The memory of all VMs together, beside the language that shares it.

use std::sync::Arc;

use game::guest::{MatchContext, MatchScript, Scripts};
use script::budget::{GuestLimits, VmMemory};
use script::{LuaScripts, Sources};

use crate::host::TestHost;
use crate::{load_with, roomy};

const LUA: &str = "local M = {}
    function M.match_init() return {}, 10, '' end
    M.match_join_attempt, M.match_join, M.match_leave = print, print, print
    M.match_loop, M.match_terminate, M.match_signal = print, print, print
    return M";

const JAVASCRIPT: &str = "
    function begin() { return { state: {}, tickRate: 10, label: '' }; }
    function other(ctx, logger, nk, dispatcher, tick, state) { return { state: state }; }
    function InitModule(ctx, logger, nk, initializer) {
        initializer.registerMatch('js', {
            matchInit: begin, matchJoinAttempt: other, matchJoin: other, matchLeave: other,
            matchLoop: other, matchTerminate: other, matchSignal: other,
        });
    }";

/// Begins matches until one is refused.
fn fill(scripts: &mut dyn Scripts, module: &str) -> (Vec<Box<dyn MatchScript>>, String) {
    let context = MatchContext { match_id: "m".into(), label: String::new(), tick_rate_hz: 10 };
    let mut running = Vec::new();
    loop {
        match scripts.match_new(&mut TestHost::default(), &context, module) {
            Ok(made) if running.len() < 1_000 => running.push(made),
            Ok(_) => panic!("a thousand matches fit"),
            Err(refused) => return (running, refused.message),
        }
    }
}

#[test]
fn lua_and_javascript_have_one_bound_together() {
    let mut host = TestHost::default();
    let memory = Arc::new(VmMemory::new(8 << 20));
    let limits = GuestLimits { memory: Arc::clone(&memory), ..GuestLimits::default() };
    let sources = Arc::new(Sources::from_texts([("lua.lua", LUA)]).unwrap());
    let mut lua = LuaScripts::load(sources, limits.into(), &mut host).unwrap();
    let limits = GuestLimits { memory: Arc::clone(&memory), ..roomy() };
    let mut javascript = load_with(JAVASCRIPT, limits, &mut host).unwrap();
    let of_calls = memory.bytes();
    assert!(of_calls > lua.memory_bytes(), "both are counted: {of_calls}");

    // What matches in Lua hold is not there for any in JavaScript.
    let (of_lua, refused) = fill(&mut lua, "lua");
    assert!(refused.ends_with("of 8388608 bytes (runtime.all_memory_max_bytes)"), "{refused}");
    let (none, refused) = fill(&mut javascript, "js");
    assert!(refused.ends_with("of 8388608 bytes (runtime.all_memory_max_bytes)"), "{refused}");
    assert!(of_lua.len() > 2 && none.is_empty(), "{} and {}", of_lua.len(), none.len());
    let alone = of_lua.len();
    drop(of_lua);
    assert_eq!((memory.bytes(), memory.match_bytes()), (of_calls, 0));

    // Nor the other way round.
    let of_javascript = fill(&mut javascript, "js").0;
    let beside = fill(&mut lua, "lua").0;
    assert!(of_javascript.len() > 2 && beside.len() < alone, "{} of {alone}", beside.len());
    assert!(memory.match_bytes() > 0 && memory.bytes() <= 8 << 20);
    drop((of_javascript, beside));
    assert_eq!((memory.bytes(), memory.match_bytes()), (of_calls, 0));
}
