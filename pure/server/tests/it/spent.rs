//! VMs of the batcher, of companions and of callers whose memory calls use up: calls go to other callers until the loader
//! has made another one, each is answered once, and nobody who serves loads modules. When the loader makes one is
//! tested beside `server::loader`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use event::{Random, ThreadId};
use game::guest::GuestVersion;
use script::budget::GuestLimits;
use script::{LuaLimits, Renewal, Sources};
use server::guests::NewGuests;
use server::loader::{Edition, Library, Loader};
use server::mail::{Address, CallerMail, LoaderMail, News, Topology};
use server::settings::Settings;
use server::stats::LoaderStats;
use store::Store;

use crate::rig::{Boxed, Machine, Plan, Rig, SLICE_US, SMALL_BYTES, context, request, server_key};

/// Makes instances of one version for the threads of a rig.
struct Shelf {
    topology: Arc<Topology>,
    settings: Arc<Settings>,
    sources: Arc<Sources>,
    version: GuestVersion,
}

/// The thread that loads modules: always the same.
pub(crate) fn loader(
    topology: &Arc<Topology>,
    settings: &Arc<Settings>,
    sources: &Arc<Sources>,
    stats: &Arc<LoaderStats>,
) -> Boxed {
    let shelf = Shelf {
        topology: topology.clone(),
        settings: settings.clone(),
        sources: sources.clone(),
        version: GuestVersion::FIRST,
    };
    let first = Edition { version: GuestVersion::FIRST, hash: String::new() };
    Box::new(Loader::new(topology.clone(), stats.clone(), (Box::new(shelf), first)))
}

impl Library for Shelf {
    fn look(&mut self) -> u64 {
        0
    }

    fn read(&mut self, version: GuestVersion) -> Result<Edition, String> {
        Ok(Edition { version, hash: String::new() })
    }

    fn instance(&mut self, version: GuestVersion, thread: ThreadId) -> Result<NewGuests, String> {
        let limits = limits(&self.topology, thread, true);
        let random = Random::from_number(u64::from(thread.0));
        // Modules that load ask nobody.
        let machine = Machine::default();
        let what = (&self.topology.nodes, thread, random, &machine, limits);
        let db = Box::new(Store::open_in_memory().unwrap().connect().unwrap());
        let mut made = context(what, &self.settings, db, &self.sources);
        let said = made.resources.take_said();
        Ok(NewGuests { version, scripts: made.scripts, said })
    }

    fn serves(&mut self, version: GuestVersion) {
        self.version = version;
    }
}

/// What scripts on this thread may use.
pub(crate) fn limits(topology: &Topology, id: ThreadId, has_loader: bool) -> LuaLimits {
    let is_companion = topology.companions.iter().any(|one| one.thread() == id);
    let is_small = has_loader && (is_companion || topology.batcher.thread() == id);
    let is_caller = topology.callers.iter().any(|one| one.thread() == id);
    let renewal = match (is_small, has_loader && is_caller) {
        (true, _) => Renewal::ElsewhereAtOnce,
        (_, true) => Renewal::Elsewhere,
        _ => Renewal::Here,
    };
    let roomy = GuestLimits::default();
    // A debug build on a busy machine is slow: budgets are tested elsewhere.
    let guest = GuestLimits {
        call_budget_ms: 10_000,
        callback_budget_ms: 10_000,
        memory_max_bytes: if is_small { SMALL_BYTES } else { roomy.memory_max_bytes },
        ..roomy
    };
    // What uses memory up is not to have run out of its time before, however busy the machine is.
    let slice_us = is_companion.then_some(if has_loader { 2_000_000 } else { SLICE_US });
    LuaLimits { slice_us, renewal, ..guest.into() }
}

impl Plan<'_> {
    /// What scripts of this thread may use.
    pub(crate) fn limits(&self, topology: &Topology, id: ThreadId) -> LuaLimits {
        let mut limits = limits(topology, id, self.loader);
        if self.small {
            limits.guest.memory_max_bytes = SMALL_BYTES;
        }
        limits
    }
}

/// `fill` keeps so many megabytes of its VM's memory, of which a small one has eight, `fill_all` all of it; `ask` waits for a room, which has no
/// such match. Each megabyte is one string, unlike the others and made in one piece: when garbage is collected
/// depends on the time that Luau's collector measures, and a busy machine's garbage used memory up too early.
const MODULE: &str = "
local nk = require('nakama')
local kept = {}
local function fill(_, payload)
  for i = 1, tonumber(payload) or 0 do kept[#kept + 1] = string.rep('x', 1000000 + #kept) end
  return tostring(#kept)
end
nk.register_rpc(fill, 'fill')
nk.register_rpc(function(_, payload)
  -- Some ten kilobytes each, and no garbage.
  for i = 1, tonumber(payload) or 0 do kept[#kept + 1] = table.create(640, true) end
  return tostring(#kept)
end, 'keep')
nk.register_rpc(function(_, payload)
  while payload ~= '' do kept[#kept + 1] = string.rep('x', 10000) .. #kept end
  return 'nothing'
end, 'fill_all')
nk.register_rpc(function(_, payload) return payload end, 'echo')
nk.register_rpc(function(_, payload)
  if payload == '' then return 'nobody' end
  local ok, why = pcall(nk.match_signal, payload, 'x')
  return tostring(why)
end, 'ask')
nk.register_rpc(function(_, payload)
  if payload == 'save' then fill(nil, 20) end
  nk.storage_write({{ collection = 'c', key = payload, value = {} }})
  return tostring(#kept)
end, 'save')
";

fn rig() -> Rig {
    // What uses memory up is not to have run out of its time before, however busy the machine is.
    let tune: fn(&mut Settings) = |settings| settings.runtime.batch_slice_us = 2_000_000;
    let modules = &[("m.lua", MODULE)];
    Rig::with(&Plan {
        callers: 2,
        companions: true,
        loader: true,
        modules,
        tune,
        ..Plan::default()
    })
}

/// Calls until the functions are known to be quick.
fn learn(rig: &Rig) {
    for (id, payload) in [("fill", "0"), ("echo", "a"), ("ask", "")] {
        (0..16).for_each(|_| drop(rig.rpc(id, payload)));
    }
    assert_eq!((rig.stat("calls_on_cores"), rig.rpc("echo", "b").as_str()), (0, "b"));
    assert_eq!(rig.stat("calls_on_cores"), 1);
}

/// Keeps a megabyte a call where calls of it run, until one has met the end of that memory. Gives what that one returned.
fn fill_up(rig: &Rig, loader: Address<LoaderMail>) -> String {
    for _ in 0..8 {
        let kept = rig.rpc("fill", "1");
        if rig.posted(loader, "spent") == 1 {
            return kept;
        }
    }
    unreachable!("the memory is not used up");
}

const NO_MATCH: &str = "00000000-0000-0000-0000-000000000000.node1";

#[test]
fn a_core_whose_memory_is_used_up_has_calls_run_elsewhere_until_it_has_another_vm() {
    let rig = rig();
    learn(&rig);
    let loader = rig.topology.loader.unwrap();
    rig.freeze(loader, true);
    // One waits for a room there when another one uses the memory up, and one is on its way.
    rig.freeze(rig.topology.rooms[0], true);
    let waits = rig.send_rpc(None, "ask", NO_MATCH);
    rig.settle();
    let on_core = rig.stat("calls_on_cores");
    let kept = fill_up(&rig, loader);
    let on_core = rig.stat("calls_on_cores") - on_core;
    let before = (rig.stat("calls_given_back"), rig.stat("calls_on_cores"));
    let behind = rig.send_rpc(None, "echo", "behind");
    rig.settle();
    // The call that met the end has begun again elsewhere; the one behind it does not begin here.
    assert_eq!((kept.as_str(), rig.body(behind).as_str()), ("1", "behind"));
    assert!(on_core > 4, "only {on_core} calls kept what filled it");
    let after = (rig.stat("calls_given_back"), rig.stat("calls_on_cores"));
    assert_eq!(after, (before.0 + 1, before.1));
    // What waited ends when it is answered.
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    let lost = rig.body(waits);
    assert!(lost.contains("used up by another call while this one waited"), "{lost}");
    // Nobody loads but the loader, whose turn has not come.
    assert_eq!((rig.rpc("echo", "c").as_str(), rig.stat("calls_on_cores")), ("c", before.1));
    rig.freeze(loader, false);
    rig.settle();
    assert_eq!((rig.stat("scripts_renewed"), rig.stat("scripts_missing")), (1, 0));
    // A function of which a call was given back is for callers for a second.
    rig.advance(1_000);
    (0..16).for_each(|_| drop(rig.rpc("echo", "d")));
    let before = rig.stat("calls_on_cores");
    assert_eq!((rig.rpc("echo", "e").as_str(), rig.stat("calls_on_cores")), ("e", before + 1));
    assert_eq!(rig.stat("jobs_waiting"), 0);
}

/// As a call in WebAssembly does that waits, if it has the last instance of its module.
#[test]
fn what_a_call_takes_along_that_is_cancelled_is_made_anew_as_well() {
    let rig = rig();
    let (loader, companion) = (rig.topology.loader.unwrap(), rig.topology.companions[0]);
    // It knows of no other version.
    rig.freeze(loader, true);
    let has_room = rig.narrow(&[("m.lua", MODULE)], (companion.thread(), 0));
    learn(&rig);
    rig.freeze(rig.topology.rooms[0], true);
    has_room.store(false, Relaxed);
    let waits = rig.send_rpc(None, "ask", NO_MATCH);
    rig.settle();
    assert!(rig.body(waits).contains("ended while it waited"), "{}", rig.body(waits));
    assert_eq!((rig.stat("waiting_calls_ended"), rig.posted(loader, "spent")), (1, 1));
}

#[test]
fn a_function_that_uses_the_memory_up_again_and_again_has_it_after_pauses_only() {
    let rig = rig();
    learn(&rig);
    for renewed in 1..=3 {
        // It is not known to be quick, nor on the core, for a second and then for a minute.
        rig.advance(61_000);
        (0..17).for_each(|_| drop(rig.rpc("fill", "0")));
        let spent = rig.posted(rig.topology.loader.unwrap(), "spent");
        for _ in 0..8 {
            let kept = rig.rpc("fill", "1");
            assert!(kept.parse::<u32>().is_ok(), "{kept}");
        }
        rig.settle();
        assert_eq!(rig.posted(rig.topology.loader.unwrap(), "spent"), spent + 1);
        rig.advance(64_000);
        assert_eq!(rig.stat("scripts_renewed"), renewed);
    }
}

#[test]
fn a_batch_whose_memory_is_used_up_goes_on_without_calls_of_scripts() {
    let rig = rig();
    (0..20).for_each(|at| drop(rig.rpc("save", &at.to_string())));
    let batched = rig.stat("rpc_batched");
    assert!(batched > 0);
    rig.freeze(rig.topology.loader.unwrap(), true);
    let (fills, behind) =
        (rig.send_rpc(None, "save", "save"), rig.send_rpc(None, "save", "behind"));
    rig.settle();
    assert_eq!(rig.body(fills), "20", "it has begun again at a caller");
    let kept = rig.body(behind);
    assert!(kept == "0" || kept == "20", "{kept} at one of two callers");
    assert_eq!(rig.stat("rpc_batched"), batched);
    rig.freeze(rig.topology.loader.unwrap(), false);
    rig.advance(1_000);
    assert_eq!(rig.stat("scripts_renewed"), 1);
    (0..20).for_each(|at| drop(rig.rpc("save", &format!("again {at}"))));
    assert!(rig.stat("rpc_batched") > batched + 1);
}

/// Hooks that keep a megabyte where they run, if the login asks for it, and say what they do.
const HOOKS: &str = r#"
local nk = require("nakama")
local kept = {}
local function keep(vars, what)
  if not vars or not vars[what] then return end
  nk.event(what, {}, nil)
  kept[#kept + 1] = string.rep("x", 1000000 + #kept)
end
nk.register_req_before(function(_, request) keep(request.account.vars, "before") return request end, "AuthenticateDevice")
nk.register_req_after(function(_, session, request)
  assert(session.token)
  keep(request.account.vars, "after")
end, "AuthenticateDevice")
nk.register_event(function(_, event) nk.logger_info("heard " .. event.name) end)
"#;

#[test]
fn hooks_on_a_core_whose_memory_is_used_up_are_done_once_elsewhere() {
    for what in ["before", "after"] {
        let modules = &[("hooks.lua", HOOKS)];
        let rig = Rig::with(&Plan {
            callers: 2,
            companions: true,
            loader: true,
            modules,
            ..Plan::default()
        });
        let loader = rig.topology.loader.unwrap();
        let log_in = |vars: &str| {
            let client = rig.open(0);
            let body = format!(r#"{{"id":"device-of-somebody","vars":{vars}}}"#);
            let to = "POST /v2/account/authenticate/device";
            let answer = rig.http(client, to, &server_key(), &body);
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("token"), "{answer}");
        };
        // Until both hooks are known to be quick.
        (0..17).for_each(|_| log_in("{}"));
        rig.freeze(loader, true);
        let mut logins = 0;
        while rig.posted(loader, "spent") == 0 {
            log_in(&format!(r#"{{"{what}":"1"}}"#));
            logins += 1;
            assert!(logins < 20, "the memory is not used up");
        }
        rig.settle();
        // The after-hook behind a before-hook that was given back does not begin there.
        let given_back = if what == "before" { 2 } else { 1 };
        assert_eq!(rig.stat("calls_given_back"), given_back, "{what}");
        assert_eq!(rig.stat("event_count"), logins, "each is heard of once");
        let hooks = ["overall_before_count", "overall_after_count"].map(|name| rig.stat(name));
        assert_eq!(hooks, [17 + logins; 2], "{what}");
        let failed = ["overall_before_errors", "overall_after_errors"].map(|name| rig.stat(name));
        assert_eq!(failed, [0; 2], "{what}");
        assert_eq!(rig.stat("jobs_waiting"), 0);
    }
}

/// What lasts is not done twice.
#[test]
fn a_call_on_a_core_that_has_changed_what_all_threads_share_ends_where_the_memory_does() {
    let module = r#"
local nk = require("nakama")
local kept = {}
nk.register_rpc(function(_, payload)
  for i = 1, tonumber(payload) or 0 do
    if #kept == 5 then nk.localcache_put("a", "b") end
    kept[#kept + 1] = string.rep("x", 1000000 + #kept)
  end
  return tostring(#kept)
end, "fill")
"#;
    let modules = &[("m.lua", module)];
    let plan = Plan { callers: 2, companions: true, loader: true, modules, ..Plan::default() };
    let rig = Rig::with(&plan);
    (0..16).for_each(|_| drop(rig.rpc("fill", "0")));
    let answered: Vec<String> = (0..5).map(|_| rig.rpc("fill", "1")).collect();
    assert_eq!(answered, ["1", "2", "3", "4", "5"], "on the core");
    let last = rig.rpc("fill", "4");
    assert!(last.contains("runtime.memory_max_bytes"), "{last}");
    assert_eq!(rig.stat("calls_given_back"), 0);
}

/// A server with so many cores and callers, whose callers have little memory.
fn callers(cores: u16, callers: u16) -> Rig {
    let modules = &[("m.lua", MODULE)];
    Rig::with(&Plan { cores, callers, small: true, loader: true, modules, ..Plan::default() })
}

#[test]
fn nobody_waits_at_a_caller_whose_memory_is_used_up_but_who_did_it() {
    let rig = callers(1, 2);
    for (id, payload) in [("fill_all", ""), ("echo", "a")] {
        (0..16).for_each(|_| drop(rig.rpc(id, payload)));
    }
    let loader = rig.topology.loader.unwrap();
    let freeze = |is_frozen| {
        rig.topology.callers.iter().for_each(|caller| rig.freeze(*caller, is_frozen));
    };
    rig.freeze(loader, true);
    freeze(true);
    let fills = rig.send_rpc(None, "fill_all", "x");
    let behind: Vec<_> = (0..8).map(|_| rig.send_rpc(None, "echo", "behind")).collect();
    freeze(false);
    rig.settle();
    let answers: Vec<String> = behind.into_iter().map(|client| rig.body(client)).collect();
    assert_eq!(answers, ["behind"; 8]);
    let given_back = rig.stat("calls_given_back");
    assert!(given_back > 0, "none was posted behind it");
    assert_eq!((rig.posted(loader, "spent"), rig.body(fills).as_str()), (1, ""));
    // Nothing more goes there, but for a look now and then.
    (0..20).for_each(|_| assert_eq!(rig.rpc("echo", "b"), "b"));
    assert_eq!(rig.stat("calls_given_back"), given_back);
    rig.advance(2_000);
    rig.freeze(loader, false);
    rig.settle();
    let error = rig.body(fills);
    assert!(error.contains("runtime.memory_max_bytes"), "{error}");
    let counted = ["scripts_renewed", "scripts_missing", "jobs_waiting", "rpc_out_of_memory"];
    assert_eq!(counted.map(|name| rig.stat(name)), [1, 0, 0, 1]);
}

#[test]
fn calls_wait_for_memory_where_no_caller_has_any_on_every_core() {
    let rig = callers(2, 1);
    let loader = rig.topology.loader.unwrap();
    rig.freeze(loader, true);
    let fills = rig.begin_rpc(None, "fill_all", "x");
    let here = rig.begin_rpc(None, "echo", "here");
    let there = rig.open(1);
    rig.bytes(there, &request("POST /v2/rpc/echo?http_key=httpkey&unwrap", "", "there"));
    rig.advance(1_000);
    assert_eq!([fills, here, there].map(|client| rig.body(client)), [""; 3]);
    // Of the other core's call the caller is asked now and then.
    let asked = rig.stat("calls_given_back");
    assert!((5..=12).contains(&asked), "{asked} times in a second");
    rig.freeze(loader, false);
    rig.settle();
    assert!(rig.body(fills).contains("runtime.memory_max_bytes"));
    assert_eq!(rig.body(here), "here");
    rig.advance(100);
    assert_eq!(rig.body(there), "there");
    assert_eq!(rig.stat("jobs_waiting"), 0);
}

/// As when the modules do not load once more.
#[test]
fn who_has_used_a_callers_memory_up_is_told_when_there_will_be_none_for_a_while() {
    let rig = callers(1, 2);
    let (loader, caller) = (rig.topology.loader.unwrap(), rig.topology.callers[0]);
    (0..16).for_each(|_| drop(rig.rpc("echo", "a")));
    let (_, token) = rig.login("somebody");
    rig.freeze(loader, true);
    let fills = rig.begin_rpc(None, "fill_all", "x");
    assert_eq!((rig.posted(loader, "spent"), rig.body(fills).as_str()), (1, ""));
    rig.mail(caller, CallerMail::News(News::NoGuests));
    rig.settle();
    assert!(rig.body(fills).contains("runtime.memory_max_bytes"));
    // One that may be slow leaves the other caller free, and is told after two looks.
    let may_be_slow = rig.begin_rpc(Some(&token), "ask", "");
    assert_eq!(rig.body(may_be_slow), "");
    assert_eq!(rig.rpc("echo", "a"), "a", "quick ones go to the other caller");
    rig.advance(100);
    let refusal = rig.body(may_be_slow);
    assert!(refusal.contains("the modules do not load once more"), "{refusal}");
    assert_eq!(rig.stat("calls_without_modules"), 1);
    rig.freeze(loader, false);
    rig.settle();
    assert_eq!((rig.stat("scripts_renewed"), rig.stat("scripts_missing")), (1, 0));
    assert_eq!(rig.rpc("ask", ""), "nobody");
}

#[test]
fn a_call_for_which_others_left_no_memory_at_a_caller_begins_again_at_another_one_or_when_there_is_one()
 {
    let rig = callers(1, 2);
    let loader = rig.topology.loader.unwrap();
    (0..16).for_each(|_| drop(rig.rpc("keep", "0")));
    rig.freeze(loader, true);
    let mut kept = 0;
    for spent in [1, 2] {
        while rig.posted(loader, "spent") < spent {
            let client = rig.begin_rpc(None, "keep", "10");
            kept += 10;
            let body = rig.body(client);
            if spent == 1 && rig.posted(loader, "spent") == 1 {
                assert_eq!(body, "10", "it has begun again at the other one");
                kept = 10;
            } else if spent == 2 && rig.posted(loader, "spent") == 2 {
                assert_eq!(body, "", "no caller has memory");
                rig.freeze(loader, false);
                rig.settle();
                rig.advance(100);
                assert_eq!(rig.body(client), "10", "it has begun again when there was some");
            } else {
                assert_eq!(body, kept.to_string());
            }
            assert!(kept < 1_000, "the memory is not used up");
        }
    }
    let counted = ["scripts_renewed", "jobs_waiting", "rpc_out_of_memory", "rpc_errors"];
    assert_eq!(counted.map(|name| rig.stat(name)), [2, 0, 0, 0]);
}

#[test]
fn a_call_that_meets_the_end_at_a_second_caller_as_well_ends() {
    let rig = callers(1, 2);
    let (loader, callers) = (rig.topology.loader.unwrap(), &rig.topology.callers);
    (0..16).for_each(|_| drop(rig.rpc("keep", "0")));
    rig.freeze(loader, true);
    let freeze = |is_frozen| callers.iter().for_each(|caller| rig.freeze(*caller, is_frozen));
    for _ in 0..138 {
        freeze(true);
        let both = [(); 2].map(|()| rig.send_rpc(None, "keep", "5"));
        freeze(false);
        rig.settle();
        let kept = both.map(|client| rig.body(client));
        assert_eq!(kept[0], kept[1], "one at each");
    }
    assert_eq!(rig.posted(loader, "spent"), 0);
    let twice = rig.begin_rpc(None, "keep", "200");
    assert_eq!((rig.posted(loader, "spent"), rig.body(twice).as_str()), (2, ""));
    rig.freeze(loader, false);
    rig.settle();
    assert!(rig.body(twice).contains("runtime.memory_max_bytes"));
    let counted = ["scripts_renewed", "jobs_waiting", "rpc_out_of_memory", "calls_given_back"];
    assert_eq!(counted.map(|name| rig.stat(name)), [2, 0, 1, 1]);
}
