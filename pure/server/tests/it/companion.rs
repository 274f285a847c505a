//! Calls that are run on the thread of their core: which go there, what becomes of those that turn out
//! long, or that need the database, and that others go on meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use event::{Input, ThreadId};
use game::guest::{
    Answer, CallContext, CallId, Callee, GuestCall, Host, MatchContext, MatchScript, Registered,
    Retired, Returned, ScriptError, Scripts, Step,
};
use script::Sources;
use server::mail::{Asker, CoreMail, News};
use server::settings::Settings;

use crate::rig::{Plan, Rig, server_key};

const MODULE: &str = r#"
local nk = require("nakama")
nk.register_rpc(function(_, payload) return payload end, "echo")
nk.register_rpc(function(_, payload)
  local sum = 0
  for i = 1, tonumber(payload) do sum = sum + i end
  return tostring(sum)
end, "count")
nk.register_rpc(function(_, payload)
  for _ = 1, 3 do nk.json_decode(payload) end
  return "decoded"
end, "decode")
nk.register_rpc(function(_, payload)
  if payload == "" then return "nothing" end
  nk.storage_write({{ collection = "c", key = payload, value = { k = payload } }})
  return nk.storage_read({{ collection = "c", key = payload }})[1].value.k
end, "keep")
nk.register_rpc(function(_, payload)
  return payload == "" and "nobody" or nk.match_signal(payload, "x")
end, "ask")
"#;

impl Plan<'_> {
    /// The modules, and those of companions.
    pub(crate) fn sources(&self) -> [Arc<Sources>; 2] {
        let of = |modules: &[_]| Arc::new(Sources::from_texts(modules.iter().copied()).unwrap());
        [of(&[self.modules, self.elsewhere].concat()), of(self.modules)]
    }
}

fn rig() -> Rig {
    Rig::with(&Plan {
        callers: 2,
        companions: true,
        modules: &[("m.lua", MODULE)],
        ..Plan::default()
    })
}

/// Calls until the function is known to be quick.
fn learn(rig: &Rig, id: &str, payload: &str) {
    let before = rig.stat("calls_on_cores");
    (0..16).for_each(|_| drop(rig.rpc(id, payload)));
    assert_eq!(rig.stat("calls_on_cores"), before, "{id} is not known yet");
}

/// Whether the next call of it is run on its core.
fn is_on_core(rig: &Rig, id: &str, (payload, answer): (&str, &str)) -> bool {
    let before = rig.stat("calls_on_cores");
    assert_eq!(rig.rpc(id, payload), answer);
    rig.stat("calls_on_cores") > before
}

#[test]
fn a_function_that_is_known_to_be_quick_is_run_on_its_core() {
    let rig = rig();
    learn(&rig, "echo", "a");
    assert!(is_on_core(&rig, "echo", ("b", "b")));
    // One that took a millisecond elsewhere is not.
    rig.set_look_ms(1);
    learn(&rig, "count", "3");
    assert!(!is_on_core(&rig, "count", ("3", "6")));
    rig.set_look_ms(0);
    // A name that nobody has defined is no quick function.
    (0..20).for_each(|_| assert!(rig.rpc("none", "").contains("not found")));
    assert_eq!(rig.stat("calls_on_cores"), 1);
}

#[test]
fn a_call_that_turns_out_long_goes_on_in_slices_beside_others_and_the_next_ones_are_elsewhere() {
    let rig = rig();
    learn(&rig, "echo", "a");
    learn(&rig, "count", "3");
    assert!(is_on_core(&rig, "count", ("4", "10")));
    let long = rig.send_rpc(None, "count", "3000000");
    let (core, companion) = (rig.topology.cores[0], rig.topology.companions[0]);
    rig.turn(companion);
    // Another one is begun there, until the first has had too many slices.
    let beside = rig.send_rpc(None, "count", "4");
    rig.turn(companion);
    rig.turn(core);
    assert_eq!((rig.body(beside).as_str(), rig.body(long).as_str()), ("10", ""));
    (0..4).for_each(|_| rig.turn(companion));
    let other = rig.send_rpc(None, "count", "3");
    rig.turn(companion);
    rig.turn(core);
    assert_eq!((rig.stat("calls_given_back"), rig.stat("calls_on_cores")), (1, 3));
    let quick = rig.send_rpc(None, "echo", "quick");
    rig.turn(companion);
    rig.turn(core);
    assert_eq!((rig.body(quick).as_str(), rig.body(long).as_str()), ("quick", ""));
    rig.settle();
    assert_eq!(
        (rig.body(long).as_str(), rig.body(other).as_str()),
        ("4500001500000", "6"),
        "each has its answer"
    );
    assert!(rig.stat("calls_paused") > 2);
    assert_eq!((rig.stat("calls_given_back"), rig.stat("jobs_waiting")), (1, 0));
    // For a second it is not quick.
    (0..20).for_each(|_| assert!(!is_on_core(&rig, "count", ("3", "6"))));
    assert!(is_on_core(&rig, "echo", ("b", "b")), "which is another function");
    rig.advance(1_000);
    assert!(is_on_core(&rig, "count", ("3", "6")));
    // For a minute, if that happens again.
    let long = rig.send_rpc(None, "count", "3000000");
    rig.settle();
    assert_eq!(rig.body(long), "4500001500000");
    rig.advance(30_000);
    (0..20).for_each(|_| assert!(!is_on_core(&rig, "count", ("3", "6"))));
    rig.advance(30_000);
    assert!(is_on_core(&rig, "count", ("3", "6")));
}

/// Of a few turns, each of which computes in a function of the host's for longer than a slice.
#[test]
fn a_call_of_long_functions_of_the_host_is_paused_between_them() {
    let rig = rig();
    learn(&rig, "decode", "[1]");
    let numbers = format!("[{}1]", "1,".repeat(100_000));
    assert!(is_on_core(&rig, "decode", (&numbers, "decoded")));
    assert!(rig.stat("calls_paused") > 0);
}

/// As one does that is inside a function of the host's for long.
#[test]
fn a_call_that_cannot_be_interrupted_is_the_last_one_there() {
    let rig = rig();
    learn(&rig, "echo", "a");
    let clients: Vec<_> = (0..3).map(|_| rig.send_rpc(None, "echo", "x")).collect();
    rig.set_look_ms(10);
    rig.turn(rig.topology.companions[0]);
    rig.set_look_ms(0);
    rig.settle();
    assert!(clients.into_iter().all(|client| rig.body(client) == "x"));
    let counted = ["calls_on_cores", "calls_overran", "calls_given_back", "calls_paused"];
    assert_eq!(counted.map(|name| rig.stat(name)), [1, 1, 2, 0]);
    (0..20).for_each(|_| assert!(!is_on_core(&rig, "echo", ("b", "b"))));
    rig.advance(1_000);
    assert!(is_on_core(&rig, "echo", ("b", "b")));
}

/// It had been taken before, so that nothing that has come meanwhile is in its way.
#[test]
fn a_call_that_is_given_back_is_not_refused_however_many_wait() {
    let modules =
        &[("m.lua", MODULE), ("end.lua", "require('nakama').register_shutdown(function() end)")];
    let tune: fn(&mut Settings) = |settings| {
        settings.shutdown_grace_s = 5;
        settings.limits.calls_waiting = 2;
    };
    let rig = Rig::with(&Plan { callers: 2, companions: true, modules, tune, ..Plan::default() });
    learn(&rig, "count", "3");
    let long = rig.send_rpc(None, "count", "3000000");
    (0..4).for_each(|_| rig.turn(rig.topology.companions[0]));
    let other = rig.send_rpc(None, "count", "3");
    // The function for the end of the scripts is run however many wait, and is one more.
    rig.freeze(rig.topology.companions[0], true);
    rig.stop(rig.topology.cores[0]);
    rig.settle();
    rig.freeze(rig.topology.companions[0], false);
    rig.settle();
    let answers = [rig.body(long), rig.body(other)];
    assert_eq!(answers, ["4500001500000", "6"]);
    assert_eq!(rig.stat("calls_given_back"), 1);
}

#[test]
fn what_needs_the_database_is_done_elsewhere_and_then_so_is_the_function() {
    let rig = rig();
    learn(&rig, "keep", "");
    assert!(is_on_core(&rig, "keep", ("", "nothing")));
    let before = rig.stat("host_calls");
    assert!(is_on_core(&rig, "keep", ("key", "key")));
    assert_eq!(rig.stat("host_calls") - before, 2, "both are asked of others");
    (0..20).for_each(|_| assert!(!is_on_core(&rig, "keep", ("", "nothing"))));
    // One that writes each time never was.
    let rig = self::rig();
    (0..20).for_each(|_| assert!(!is_on_core(&rig, "keep", ("key", "key"))));
    assert_eq!(rig.stat("host_calls"), 0);
}

#[test]
fn a_call_may_wait_for_a_room_there() {
    let rig = rig();
    learn(&rig, "ask", "");
    assert!(is_on_core(&rig, "ask", ("", "nobody")));
    let refused = rig.rpc("ask", "nobody");
    assert!(refused.contains("match id"), "{refused}");
    let id = uuid::Uuid::nil();
    let refused = rig.rpc("ask", &format!("{id}.node"));
    assert!(refused.contains("match not found"), "{refused}");
    assert_eq!((rig.stat("calls_on_cores"), rig.stat("jobs_waiting")), (2, 0));
}

/// More than one address may have there go to the callers, and all are answered.
#[test]
fn one_address_has_so_many_on_its_core_and_no_more() {
    let rig = rig();
    learn(&rig, "echo", "a");
    let clients: Vec<_> = (0..150).map(|_| rig.send_rpc(None, "echo", "x")).collect();
    rig.settle();
    assert!(clients.into_iter().all(|client| rig.body(client) == "x"));
    assert_eq!(rig.stat("calls_on_cores"), 64);
    assert!(is_on_core(&rig, "echo", ("b", "b")));
}

const HOOKS: &str = r#"
local nk = require("nakama")
local function count(vars)
  for _ = 1, tonumber(vars and vars.count or "0") do end
end
nk.register_req_before(function(_, request) count(request.account.vars) return request end, "AuthenticateDevice")
nk.register_req_after(function(_, session, request)
  assert(session.token)
  if request.account.vars and request.account.vars.keep then
    nk.storage_write({{ collection = "c", key = "k", value = {} }})
  end
end, "AuthenticateDevice")
"#;

/// Logs in, and tells how many of the call's two hooks were run on its core.
fn hooks_on_core(rig: &Rig, vars: &str) -> u64 {
    let (before, client) = (rig.stat("calls_on_cores"), rig.open(0));
    let body = format!(r#"{{"id":"device-of-somebody","vars":{vars}}}"#);
    let answer = rig.http(client, "POST /v2/account/authenticate/device", &server_key(), &body);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("token"), "{answer}");
    rig.stat("calls_on_cores") - before
}

#[test]
fn hooks_of_calls_are_run_there_as_well_each_for_itself() {
    let modules = [("m.lua", MODULE), ("hooks.lua", HOOKS)];
    let plan = Plan { callers: 2, companions: true, modules: &modules, ..Plan::default() };
    let rig = Rig::with(&plan);
    (0..16).for_each(|_| assert_eq!(hooks_on_core(&rig, "{}"), 0, "not known yet"));
    assert_eq!(hooks_on_core(&rig, "{}"), 2);
    // A before-hook that has had its slice goes on there in slices; the next ones are elsewhere.
    assert_eq!(hooks_on_core(&rig, r#"{"count":"3000000"}"#), 2);
    assert!(rig.stat("calls_paused") > 2);
    assert_eq!(hooks_on_core(&rig, "{}"), 1, "the after-hook is another function");
    // One that has written is none of those that need no database.
    assert_eq!(hooks_on_core(&rig, r#"{"keep":"1"}"#), 1);
    assert_eq!(hooks_on_core(&rig, "{}"), 0);
    assert_eq!(rig.stat("jobs_waiting"), 0);
}

/// Guest code with room for a call only while there is said to be some, and for so many calls that wait or are paused,
/// which all weigh as much: as of a language that has few instances. Without room, a call that is cancelled takes the
/// last of them.
struct Narrow {
    scripts: Box<dyn Scripts + Send>,
    has_room: Arc<AtomicBool>,
    kept: BTreeSet<CallId>,
    kept_max: usize,
    is_spent: bool,
}

impl Narrow {
    fn note(&mut self, id: CallId, step: Step<Returned>) -> Step<Returned> {
        match step {
            Step::Done(_) => self.kept.remove(&id),
            Step::Waits(_) | Step::Paused => self.kept.insert(id),
        };
        step
    }
}

impl Scripts for Narrow {
    fn registered(&self) -> &Registered {
        self.scripts.registered()
    }

    fn has_room(&self, callee: Callee<'_>) -> bool {
        callee != Callee::Rpc("echo") || self.has_room.load(Relaxed)
    }

    fn call(
        &mut self,
        host: &mut dyn Host,
        id: CallId,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Step<Returned> {
        let step = self.scripts.call(host, id, context, call);
        self.note(id, step)
    }

    fn resume(&mut self, host: &mut dyn Host, id: CallId, answer: Answer) -> Step<Returned> {
        let step = self.scripts.resume(host, id, answer);
        self.note(id, step)
    }

    fn go_on(&mut self, host: &mut dyn Host, id: CallId) -> Step<Returned> {
        let step = self.scripts.go_on(host, id);
        self.note(id, step)
    }

    fn cancel(&mut self, id: CallId) {
        self.kept.remove(&id);
        self.is_spent |= !self.has_room.load(Relaxed);
        self.scripts.cancel(id);
    }

    fn take_spent(&mut self) -> Option<Retired> {
        std::mem::take(&mut self.is_spent).then(|| Retired::new(()))
    }

    fn excess_bytes(&mut self) -> usize {
        self.kept.len().saturating_sub(self.kept_max)
    }

    fn weight_bytes(&self, id: CallId) -> usize {
        usize::from(self.kept.contains(&id))
    }

    fn match_new(
        &mut self,
        _: &mut dyn Host,
        _: &MatchContext,
        _: &str,
    ) -> Result<Box<dyn MatchScript>, ScriptError> {
        unreachable!("no room runs it")
    }
}

impl Rig {
    /// Another version of the modules, which is narrow on one thread. Gives whether calls have room there.
    pub(crate) fn narrow(
        &self,
        modules: &[(&str, &str)],
        (narrow, kept_max): (ThreadId, usize),
    ) -> Arc<AtomicBool> {
        let has_room = Arc::new(AtomicBool::new(true));
        let mut hooks = None;
        for thread in self.topology.scripted() {
            let Some(Asker::Worker(worker)) = self.topology.asker(thread) else { continue };
            let (mut new, of_version) = self.version((2, modules), thread);
            if narrow == thread {
                let (scripts, has_room) = (new.scripts, Arc::clone(&has_room));
                let kept = BTreeSet::new();
                new.scripts =
                    Box::new(Narrow { scripts, has_room, kept, kept_max, is_spent: false });
            }
            hooks = Some(Arc::new(of_version));
            let (to, mail) = worker.seal(&self.topology, News::Guests(new));
            self.input(to, Input::Mail(mail));
        }
        self.mail(self.topology.cores[0], CoreMail::Guests(hooks.unwrap()));
        self.settle();
        has_room
    }
}

#[test]
fn a_call_for_which_there_is_no_room_goes_to_a_caller_and_its_function_is_no_worse_for_it() {
    let rig = rig();
    let has_room =
        rig.narrow(&[("m.lua", MODULE)], (rig.topology.companions[0].thread(), usize::MAX));
    learn(&rig, "echo", "a");
    learn(&rig, "count", "3");
    assert!(is_on_core(&rig, "echo", ("b", "b")));
    has_room.store(false, Relaxed);
    for given_back in 1..=3 {
        assert!(!is_on_core(&rig, "echo", ("c", "c")));
        assert_eq!(rig.stat("calls_given_back"), given_back);
    }
    assert!(is_on_core(&rig, "count", ("3", "6")), "there is room for others");
    has_room.store(true, Relaxed);
    assert!(is_on_core(&rig, "echo", ("d", "d")), "it is not sent away");
    assert_eq!(rig.stat("jobs_waiting"), 0);
}

/// There is room for one that waits or is paused.
#[test]
fn what_paused_calls_hold_costs_nobody_else_a_call() {
    let rig = rig();
    let (companion, room) = (rig.topology.companions[0], rig.topology.rooms[0]);
    rig.narrow(&[("m.lua", MODULE)], (companion.thread(), 1));
    learn(&rig, "count", "3");
    learn(&rig, "ask", "");
    rig.freeze(room, true);
    let long = rig.send_rpc(None, "count", "3000000");
    rig.turn(companion);
    let waits = rig.send_rpc(None, "ask", &format!("{}.node1", uuid::Uuid::nil()));
    rig.turn(companion);
    let stat = |name| rig.stat(name);
    assert_eq!(["calls_paused", "calls_waiting_now"].map(stat), [3, 1]);
    rig.freeze(room, false);
    rig.settle();
    assert_eq!((rig.body(long).as_str(), rig.stat("waiting_calls_ended")), ("4500001500000", 0));
    assert!(rig.body(waits).contains("match not found"));
}
