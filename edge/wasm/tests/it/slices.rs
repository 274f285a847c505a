//! Calls where others wait for the thread: in slices on a core, in no more than one in the batch, with instances
//! that are made before, and what is left of them for others to free.

use game::guest::{Ask, CallId, Callee, Returned, ScriptFailure, Scripts as _, Step};
use script::budget::GuestLimits;
use wasm::{WasmLimits, WasmScripts};

use crate::guest::Part::{List, Text};
use crate::guest::{guest, guest_with};
use crate::host::TestHost;
use crate::{begin, ended, modules, roomy};

/// On a core.
fn core(guest: GuestLimits) -> WasmLimits {
    WasmLimits { guest, slice_us: Some(200), is_renewed_elsewhere: true }
}

fn load(text: &str, limits: WasmLimits, host: &mut TestHost) -> WasmScripts {
    WasmScripts::load(modules(text).unwrap(), limits, host).unwrap()
}

/// Computes for some hundred milliseconds at least if the payload ends with `!`, and gives nothing.
fn works(work: &str) -> String {
    format!(
        "(if (i32.eq (i32.load8_u (i32.add (i32.const 4095) (local.get $length))) (i32.const 33))
            (then (local.set $n (i32.const 0))
                (loop $more {work}
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $more (i32.lt_u (local.get $n) (global.get $turns))))))
         (i32.store8 (i32.const 0) (i32.const 0)) (call $give (i32.const 0) (i32.const 1)) (i32.const 0)"
    )
}

fn turns(count: u32) -> String {
    format!("(global $turns i32 (i32.const {count}))")
}

/// Goes on with a call until it is over; says how often it was paused.
fn finish(
    scripts: &mut WasmScripts,
    host: &mut TestHost,
    (id, mut step): (u64, Step<Returned>),
) -> (u32, Step<Returned>) {
    let mut pauses = 0;
    while let Step::Paused = step {
        pauses += 1;
        step = scripts.go_on(host, CallId(id));
    }
    (pauses, step)
}

#[test]
fn a_call_that_computes_for_long_goes_on_in_slices_beside_others() {
    // Plain turns, copies in one piece, and functions of the host: what the clock is not asked for by itself.
    for (work, count) in [
        ("", 50_000_000),
        ("(memory.fill (i32.const 8192) (i32.const 1) (i32.const 100000))", 20_000),
        ("(drop (call $call {0}))", 100_000),
        ("(call $nothing)", 20_000_000),
    ] {
        let mut host = TestHost::default();
        let fields = format!("{} (func $nothing)", turns(count));
        let text = guest_with(&[List(&[Text("base64_encode"), Text("hi")])], &works(work), &fields);
        let mut scripts = load(&text, core(roomy()), &mut host);
        assert_eq!(
            ended(begin(&mut scripts, &mut host, 1, b"")),
            Ok(None),
            "a quick one is not paused"
        );
        let step = begin(&mut scripts, &mut host, 2, b"!");
        assert!(matches!(step, Step::Paused), "{work}: {step:?}");
        assert!(scripts.has_room(Callee::Rpc("test")));
        assert_eq!(
            ended(begin(&mut scripts, &mut host, 3, b"")),
            Ok(None),
            "another one has its turn"
        );
        let (pauses, step) = finish(&mut scripts, &mut host, (2, step));
        assert_eq!(ended(step), Ok(None), "{work}");
        assert!(pauses > 3, "{work}: {pauses}");
    }
}

#[test]
fn where_all_instances_are_in_use_there_is_no_room_until_one_is_free() {
    let mut host = TestHost::default();
    let text = guest_with(&[], &works(""), &turns(5_000_000));
    let mut scripts = load(&text, core(roomy()), &mut host);
    let steps: Vec<_> = (1..=2).map(|id| (id, begin(&mut scripts, &mut host, id, b"!"))).collect();
    assert!(steps.iter().all(|(_, step)| matches!(step, Step::Paused)));
    assert!(!scripts.has_room(Callee::Rpc("test")) && !scripts.has_room(Callee::Rpc("TEST")));
    assert!(scripts.has_room(Callee::Rpc("other")) && scripts.has_room(Callee::Before("test")));
    for step in steps {
        assert_eq!(ended(finish(&mut scripts, &mut host, step).1), Ok(None));
        assert!(scripts.has_room(Callee::Rpc("test")));
    }
    assert!(scripts.take_left().is_none() && scripts.take_spent().is_none());
}

#[test]
fn an_endless_call_is_stopped_by_its_budget_in_its_own_code_and_the_last_instance_is_renewed_elsewhere()
 {
    let mut host = TestHost::default();
    let body = works("(call $spin)");
    let fields = format!("{} (func $spin (loop (br 0)))", turns(1));
    let text = guest_with(&[], &body, &fields);
    let limits = GuestLimits { call_budget_ms: 20, ..roomy() };
    let mut scripts = load(&text, core(limits), &mut host);
    for time in 1..=2 {
        assert!(scripts.has_room(Callee::Rpc("test")) && scripts.take_spent().is_none());
        let step = begin(&mut scripts, &mut host, time, b"!");
        let (pauses, step) = finish(&mut scripts, &mut host, (time, step));
        let error = ended(step).unwrap_err();
        assert_eq!(error.kind, ScriptFailure::OutOfTime);
        assert!(error.message.contains("spin: script used up its 20 ms"), "{}", error.message);
        assert!(pauses > 1, "{pauses}");
        assert!(scripts.take_left().is_some() && scripts.take_left().is_none());
    }
    assert!(!scripts.has_room(Callee::Rpc("test")));
    assert!(scripts.take_spent().is_some() && scripts.take_spent().is_none());
    // Whoever calls all the same is told.
    let error = ended(begin(&mut scripts, &mut host, 9, b"")).unwrap_err();
    assert!(error.message.contains("no instance of the module is left"), "{}", error.message);
}

#[test]
fn a_paused_call_that_is_cancelled_is_left_for_another_thread() {
    let mut host = TestHost::default();
    let text = guest_with(&[], &works(""), &turns(50_000_000));
    let mut scripts = load(&text, core(roomy()), &mut host);
    assert!(matches!(begin(&mut scripts, &mut host, 1, b"!"), Step::Paused));
    scripts.cancel(CallId(1));
    let left = scripts.take_left().unwrap();
    std::thread::spawn(move || drop(left)).join().unwrap();
    assert!(scripts.has_room(Callee::Rpc("test")) && scripts.take_spent().is_none());
    assert_eq!(ended(begin(&mut scripts, &mut host, 2, b"")), Ok(None));
    assert!(matches!(begin(&mut scripts, &mut host, 3, b"!"), Step::Paused));
    scripts.cancel(CallId(3));
    assert!(!scripts.has_room(Callee::Rpc("test")) && scripts.take_spent().is_some());
}

#[test]
fn a_module_of_which_there_is_room_for_one_instance_has_one() {
    let mut host = TestHost::default();
    let text = guest_with(&[], &works(""), &turns(50_000_000));
    let limits = GuestLimits { memory_max_bytes: 200_000, ..roomy() };
    let mut scripts = load(&text, core(limits), &mut host);
    assert!(matches!(begin(&mut scripts, &mut host, 1, b"!"), Step::Paused));
    assert!(!scripts.has_room(Callee::Rpc("test")));
}

#[test]
fn what_needs_the_database_is_asked_of_others_on_a_core() {
    let read = List(&[Text("storage_read"), List(&[])]);
    let text = guest(
        &[read],
        "(drop (call $call {0})) (i32.store8 (i32.const 0) (i32.const 0)) (call $give (i32.const 0) (i32.const 1)) (i32.const 0)",
    );
    let mut host = TestHost::default();
    let mut scripts = load(&text, core(roomy()), &mut host);
    let step = begin(&mut scripts, &mut host, 1, b"");
    assert!(matches!(step, Step::Waits(Ask::Run { function: "storage_read", .. })), "{step:?}");
    // In the batch it is done where it is.
    let limits = WasmLimits { slice_us: None, ..core(roomy()) };
    let mut scripts = load(&text, limits, &mut host);
    assert_eq!(ended(begin(&mut scripts, &mut host, 1, b"")), Ok(None));
}
