//! Calls that wait: each is put aside with its instance, and others run meanwhile on the same thread.

use game::guest::{Ask, CallId, HostError, Reply, Returned, ScriptFailure, Scripts as _, Step};
use script::budget::GuestLimits;
use wasm::WasmScripts;

use crate::guest::Part::{List, Text};
use crate::guest::guest;
use crate::host::TestHost;
use crate::{begin, ended, load, load_with, roomy, tight};

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
    assert!(error.message.contains("(runtime.memory_max_bytes)"), "{}", error.message);
    assert_eq!(resume(&mut scripts, &mut host, 0, "first"), "first");
    asks(&begin(&mut scripts, &mut host, 200, b""));
}
