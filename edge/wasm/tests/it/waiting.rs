//! Calls that wait: each is put aside with its instance, and others run meanwhile on the same thread.

use std::collections::VecDeque;
use std::sync::Arc;

use game::guest::{
    Ask, CallId, GuestCall, HostError, Reply, Returned, ScriptFailure, Scripts as _, Step,
};
use script::budget::GuestLimits;
use wasm::{Modules, WasmScripts};

use crate::guest::Part::{List, Text};
use crate::guest::guest;
use crate::host::TestHost;
use crate::{begin, context, ended, load, load_with, roomy, tight};

/// Signals a match, and gives what it answers, or the refusal; counts its calls in memory behind that.
fn signaller() -> String {
    guest(
        &[List(&[Text("match_signal"), Text("id"), Text("hello")])],
        "(i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 1)))
        (local.set $n (call $call {0}))
        (call $take (i32.const 8192) (local.get $n))
        (if (i32.load8_u (i32.const 8192))
            (then (call $give (i32.const 8193) (i32.sub (local.get $n) (i32.const 1))))
            (else (call $give (i32.const 8198) (i32.sub (local.get $n) (i32.const 6)))))
        ;; Another call in the same instance would be seen here.
        (if (i32.ne (i32.load (i32.const 512)) (i32.const 1)) (then (unreachable)))
        (i32.store (i32.const 512) (i32.const 0))
        (i32.const 0)",
    )
}

fn asks(step: &Step<Returned>) {
    assert!(
        matches!(step, Step::Waits(Ask::MatchSignal { data, .. }) if data == "hello"),
        "{step:?}"
    );
}

fn answer(text: &str) -> Result<Reply, HostError> {
    Ok(Reply::Text(text.to_owned().into()))
}

fn resume(scripts: &mut WasmScripts, host: &mut TestHost, id: u64, text: &str) -> String {
    ended(scripts.resume(host, CallId(id), answer(text))).unwrap().unwrap()
}

#[test]
fn calls_wait_side_by_side_each_in_an_instance_of_its_own() {
    let mut host = TestHost::default();
    let mut scripts = load(&signaller(), &mut host);
    for id in 0..20 {
        asks(&begin(&mut scripts, &mut host, id, b""));
    }
    for id in (0..20).rev() {
        assert_eq!(
            resume(&mut scripts, &mut host, id, &format!("answer {id}")),
            format!("answer {id}")
        );
    }
    asks(&begin(&mut scripts, &mut host, 30, b""));
    let refused = scripts.resume(&mut host, CallId(30), Err(HostError::new("match busy")));
    assert_eq!(ended(refused), Ok(Some("failed to signal match: match busy".to_owned())));
}

#[test]
fn a_call_that_is_cancelled_leaves_nothing() {
    let mut host = TestHost::default();
    let mut scripts = load(&signaller(), &mut host);
    asks(&begin(&mut scripts, &mut host, 1, b""));
    scripts.cancel(CallId(1));
    scripts.cancel(CallId(1));
    asks(&begin(&mut scripts, &mut host, 2, b""));
    assert_eq!(resume(&mut scripts, &mut host, 2, "later"), "later");
    // With calls that wait still, too.
    asks(&begin(&mut scripts, &mut host, 3, b""));
    drop(scripts);
}

#[test]
fn time_that_passes_while_a_call_waits_is_not_its_own() {
    let text = signaller().replace(";; Another", "(call $work) ;; Another").replacen(
        "(memory",
        "(func $work (local $i i32)
            (loop $more (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $more (i32.lt_u (local.get $i) (i32.const 1000)))))
         (memory",
        1,
    );
    let mut host = TestHost::default();
    let mut scripts = load_with(&text, tight(), &mut host).unwrap();
    asks(&begin(&mut scripts, &mut host, 1, b""));
    // Another call of the thread uses up more than the budget of the one that waits.
    let spin = guest(&[], "(loop (br 0)) (i32.const 0)");
    let mut other =
        load_with(&spin, GuestLimits { call_budget_ms: 100, ..tight() }, &mut host).unwrap();
    let error = ended(begin(&mut other, &mut host, 2, b"")).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfTime);
    assert_eq!(resume(&mut scripts, &mut host, 1, "in time"), "in time");
}

#[test]
fn calls_that_wait_share_the_memory_of_their_thread() {
    let mut host = TestHost::default();
    let limits = GuestLimits { memory_max_bytes: 1 << 20, ..roomy() };
    let mut scripts = load_with(&signaller(), limits, &mut host).unwrap();
    let refused = (0..100).find_map(|id| match begin(&mut scripts, &mut host, id, b"") {
        Step::Waits(_) | Step::Paused => None,
        Step::Done(result) => Some((id, result.unwrap_err())),
    });
    let (count, error) = refused.unwrap();
    assert!((3..8).contains(&count), "{count}");
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
    let told = format!(
        "script used up its 1048576 bytes (runtime.memory_max_bytes), of which calls that wait hold {}",
        count * BYTES_EACH
    );
    assert!(error.message.ends_with(&told), "{}", error.message);
    assert_eq!(resume(&mut scripts, &mut host, 0, "first"), "first");
    asks(&begin(&mut scripts, &mut host, 200, b""));
}

/// What an instance of a guest of these tests takes: two pages, and what is taken for the rest.
const BYTES_EACH: u64 = 2 * 65_536 + 65_536;

/// Takes so many pages before it does what others do, if the payload ends with `!`; traps where they are not to be had.
fn taking(pages: u32, text: &str) -> String {
    let takes = format!(
        "(if (i32.eq (i32.load8_u (i32.add (i32.const 4095) (local.get $length))) (i32.const 33))
            (then (if (i32.eq (memory.grow (i32.const {pages})) (i32.const -1)) (then (unreachable)))))
         (i32.store (i32.const 512)"
    );
    text.replacen("(i32.store (i32.const 512)", &takes, 1)
}

/// Ends calls that wait, the first of them first, until they hold no more than they may: what its thread does.
fn make_room(scripts: &mut WasmScripts, waiting: &mut VecDeque<u64>) {
    let mut excess = scripts.excess_bytes();
    while excess > 0 {
        let id = CallId(waiting.pop_front().unwrap());
        excess = excess.saturating_sub(scripts.weight_bytes(id));
        scripts.cancel(id);
    }
    assert_eq!(scripts.excess_bytes(), 0);
}

#[test]
fn calls_that_wait_give_back_what_is_more_than_half_so_that_the_next_one_finds_room() {
    let mut host = TestHost::default();
    let limits = GuestLimits { memory_max_bytes: 4 << 20, ..roomy() };
    // One in ten takes a MiB more, and has it while it waits.
    let mut scripts = load_with(&taking(16, &signaller()), limits, &mut host).unwrap();
    let mut waiting = VecDeque::new();
    for id in 0..100 {
        let payload: &[u8] = if id % 10 == 9 { b"!" } else { b"" };
        asks(&begin(&mut scripts, &mut host, id, payload));
        waiting.push_back(id);
        let bytes = scripts.weight_bytes(CallId(id)) as u64;
        assert_eq!(bytes, BYTES_EACH + if id % 10 == 9 { 1 << 20 } else { 0 });
        make_room(&mut scripts, &mut waiting);
        let held: usize = waiting.iter().map(|id| scripts.weight_bytes(CallId(*id))).sum();
        assert!(held <= 2 << 20, "{held}");
    }
    assert!(waiting.len() > 4, "{waiting:?}");
    // What goes on, or is gone, weighs nothing.
    let first = waiting.pop_front().unwrap();
    assert_eq!(resume(&mut scripts, &mut host, first, "whole"), "whole");
    assert_eq!(scripts.weight_bytes(CallId(first)), 0);
    while let Some(id) = waiting.pop_front() {
        assert_eq!(resume(&mut scripts, &mut host, id, "whole"), "whole");
    }
    assert_eq!(scripts.excess_bytes(), 0);
}

#[test]
fn instances_that_are_kept_for_calls_to_come_leave_room_for_those_of_other_modules() {
    let mut host = TestHost::default();
    let limits = GuestLimits { memory_max_bytes: 8 << 20, ..roomy() };
    let memory = limits.memory.clone();
    let large = taking(16, &signaller());
    let small = signaller().replace("Test", "Else").replace("\\54\\65\\73\\74", "\\45\\6c\\73\\65");
    let files = [("large.wasm", large), ("small.wasm", small)];
    let files = files.map(|(file, text)| (file.to_owned(), wat::parse_str(text).unwrap()));
    let modules = Modules::compile(files.into(), &Modules::default()).unwrap();
    let mut scripts = WasmScripts::load(Arc::new(modules), limits, &mut host).unwrap();
    for id in 0..3 {
        asks(&begin(&mut scripts, &mut host, id, b"!"));
        assert_eq!(scripts.excess_bytes(), 0, "{id}");
    }
    (0..3).for_each(|id| drop(resume(&mut scripts, &mut host, id, "over")));
    assert!(memory.bytes() > 3 << 20, "they are kept while there is room");
    // Small ones wait until more than half is held, and those that are kept are let go, all but one.
    let mut next = 10;
    while scripts.excess_bytes() == 0 {
        let small = GuestCall::Rpc { id: "else", payload: b"" };
        asks(&scripts.call(&mut host, CallId(next), &context(), small));
        next += 1;
    }
    let held = (next - 10) * BYTES_EACH;
    assert!((3 << 20..4 << 20).contains(&held), "{held}");
    assert!(memory.bytes() < 6 << 20, "{}", memory.bytes());
}
