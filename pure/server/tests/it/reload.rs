//! Versions of the guest code on threads that work: calls and matches that are under way, hooks that come
//! and go, and what was learnt of functions. Who makes versions is tested beside `server::loader`.

use std::sync::Arc;

use event::{Input, Random, ThreadId};
use game::guest::GuestVersion;
use script::Sources;
use server::guests::NewGuests;
use server::hooks::Hooks;
use server::mail::{Asker, CoreMail, News, RoomMail};
use store::Store;

use crate::rig::{Plan, Rig, context, settings};
use crate::spent::limits;

impl Rig {
    /// A version of the modules for one thread, as the loader hands it out.
    pub(crate) fn version(
        &self,
        (number, modules): (u32, &[(&str, &str)]),
        thread: ThreadId,
    ) -> (Box<NewGuests>, Hooks) {
        let settings = settings();
        let sources = Arc::new(Sources::from_texts(modules.iter().copied()).unwrap());
        let limits = limits(&self.topology, thread, self.topology.loader.is_some());
        let what = (&self.topology.nodes, thread, Random::from_number(7), &self.machine, limits);
        let db = Box::new(Store::open_in_memory().unwrap().connect().unwrap());
        let mut made = context(what, &settings, db, &sources);
        let version = GuestVersion(number);
        let hooks = Hooks::new(made.scripts.registered()).of_version(version);
        let said = made.resources.take_said();
        (Box::new(NewGuests { version, scripts: made.scripts, said }), hooks)
    }

    /// Workers and rooms take a version of the modules; cores do not know of it yet. Gives what they are to
    /// be told.
    fn hand_over(&self, number: u32, modules: &[(&str, &str)]) -> CoreMail {
        let mut hooks = Hooks::default();
        for thread in self.topology.scripted() {
            let new;
            (new, hooks) = self.version((number, modules), thread);
            let (to, mail) = match self.topology.asker(thread).unwrap() {
                Asker::Worker(worker) => worker.seal(&self.topology, News::Guests(new)),
                Asker::Room(room) => room.seal(&self.topology, RoomMail::Guests(new)),
            };
            self.input(to, Input::Mail(mail));
        }
        CoreMail::Guests(Arc::new(hooks))
    }

    /// All threads take a version of the modules, one after the other.
    fn reload(&self, number: u32, modules: &[(&str, &str)]) {
        let CoreMail::Guests(hooks) = self.hand_over(number, modules) else { return };
        for core in self.topology.cores.clone() {
            self.mail(core, CoreMail::Guests(Arc::clone(&hooks)));
        }
        self.settle();
    }
}

/// Modules that say which version they are.
fn modules(word: &str, more: &str) -> [(&'static str, String); 2] {
    let arena = format!(
        "local M = {{}}
        function M.match_init() return {{}}, 10, '' end
        function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
        function M.match_join(context, dispatcher, tick, state) return state end
        function M.match_leave(context, dispatcher, tick, state) return state end
        function M.match_loop(context, dispatcher, tick, state) return state end
        function M.match_terminate(context, dispatcher, tick, state) return state end
        function M.match_signal(context, dispatcher, tick, state, data)
            if data == 'end' then return nil end
            return state, '{word}'
        end
        return M"
    );
    let rpcs = format!(
        "local nk = require('nakama')
        nk.register_rpc(function() return nk.match_create('arena', nil) end, 'create')
        nk.register_rpc(function(_, id) return '{word} hears ' .. nk.match_signal(id, 'x') end, 'ask')
        nk.register_rpc(function(_, payload) return '{word}' end, 'word')
        {more}"
    );
    [("arena.lua", arena), ("rpcs.lua", rpcs)]
}

fn texts<'a>(modules: &'a [(&'static str, String); 2]) -> [(&'a str, &'a str); 2] {
    [0, 1].map(|at| (modules[at].0, modules[at].1.as_str()))
}

fn rig(more: &str, companions: bool) -> Rig {
    let modules = modules("one", more);
    let modules = &texts(&modules)[..];
    Rig::with(&Plan { callers: 2, companions, modules, ..Plan::default() })
}

fn reload(rig: &Rig, number: u32, word: &str, more: &str) {
    rig.reload(number, &texts(&modules(word, more)));
}

#[test]
fn a_call_that_waits_ends_on_the_version_on_which_it_began() {
    let rig = rig("", false);
    let old = rig.rpc("create", "");
    let room = rig.topology.rooms[0];
    rig.freeze(room, true);
    let waits = rig.send_rpc(None, "ask", &old);
    rig.settle();
    assert_eq!(rig.stat("calls_waiting_now"), 1);
    let modules = modules("two", "");
    for thread in rig.topology.scripted().filter(|thread| *thread != room.thread()) {
        let (new, _) = rig.version((2, &texts(&modules)), thread);
        let asker = rig.topology.asker(thread).unwrap();
        let Asker::Worker(worker) = asker else { panic!("the room is frozen") };
        let (to, mail) = worker.seal(&rig.topology, News::Guests(new));
        rig.post(to, mail);
    }
    rig.settle();
    assert_eq!(rig.rpc("word", ""), "two");
    assert_eq!((rig.stat("calls_waiting_now"), rig.body(waits).as_str()), (1, ""));
    rig.freeze(room, false);
    rig.settle();
    assert_eq!(rig.body(waits), "one hears one");
}

#[test]
fn a_match_runs_to_its_end_on_the_version_that_made_it() {
    let rig = rig("", false);
    let old = rig.rpc("create", "");
    reload(&rig, 2, "two", "");
    let new = rig.rpc("create", "");
    assert_eq!([rig.rpc("ask", &old), rig.rpc("ask", &new)], ["two hears one", "two hears two"]);
    reload(&rig, 3, "three", "");
    assert_eq!(rig.rpc("ask", &old), "three hears one");
}

#[test]
fn nothing_that_was_learnt_of_a_function_counts_for_another_version() {
    let rig = rig("", true);
    let is_on_core = |word: &str| {
        let before = rig.stat("calls_on_cores");
        assert_eq!(rig.rpc("word", ""), word);
        rig.stat("calls_on_cores") > before
    };
    (0..16).for_each(|_| assert!(!is_on_core("one")));
    assert!(is_on_core("one"));
    // One is on its way to the companion by what its core knew.
    let companion = rig.topology.companions[0];
    rig.freeze(companion, true);
    let under_way = rig.send_rpc(None, "word", "");
    rig.freeze(companion, false);
    reload(&rig, 2, "two", "");
    assert_eq!(rig.body(under_way), "two", "by a caller, of the new version");
    assert_eq!(rig.stat("calls_given_back"), 1);
    (0..15).for_each(|_| assert!(!is_on_core("two")));
    (0..2).for_each(|_| _ = is_on_core("two"));
    assert!(is_on_core("two"), "it is known by its own calls");
}

#[test]
fn while_cores_know_the_version_before_a_call_goes_to_a_caller_and_back_no_more() {
    let rig = rig("", true);
    (0..17).for_each(|_| assert_eq!(rig.rpc("word", ""), "one"));
    assert_eq!(rig.stat("calls_on_cores"), 1);
    let CoreMail::Guests(hooks) = rig.hand_over(2, &texts(&modules("two", ""))) else {
        panic!("hooks")
    };
    (0..5).for_each(|_| assert_eq!(rig.rpc("word", ""), "two"));
    assert_eq!((rig.stat("calls_on_cores"), rig.stat("calls_given_back")), (1, 1));
    rig.mail(rig.topology.cores[0], CoreMail::Guests(hooks));
    assert_eq!(rig.rpc("word", ""), "two");
}

#[test]
fn a_hook_that_the_new_version_has_not_lets_the_call_through() {
    let hooks = "nk.register_req_before(function() return nil end, 'DeleteStorageObjects')
        nk.register_req_before(function(_, request) error('no') end, 'UpdateAccount')
        nk.register_req_after(function() error('no') end, 'UpdateAccount')
        nk.register_rt_before(function() error('no') end, 'StatusUpdate')
        nk.register_rt_after(function() error('no') end, 'StatusUpdate')";
    let rig = rig(hooks, false);
    let (_, token) = rig.login("ann");
    let bearer = format!("Bearer {token}");
    let update = || rig.http(rig.open(0), "PUT /v2/account", &bearer, r#"{"display_name":"x"}"#);
    let socket = rig.socket(0, &token, "");
    let status = || rig.say(socket, r#"{"cid":"1","status_update":{"status":"x"}}"#).concat();
    assert!(update().contains(" 500 ") && status().contains("error"));
    // Its core still sends both to their hooks.
    let told = rig.hand_over(2, &texts(&modules("two", "")));
    assert!(update().contains(" 200 "), "{}", update());
    assert!(!status().contains("error"));
    assert_eq!(rig.stat("overall_before_errors"), 2);
    rig.mail(rig.topology.cores[0], told);
    assert!(update().contains(" 200 ") && !status().contains("error"));
    // And the other way round.
    reload(&rig, 3, "three", hooks);
    assert!(update().contains(" 500 ") && status().contains("error"));
}
