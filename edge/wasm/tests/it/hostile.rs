//! Guests that mean harm: each gets an error that names what it ran into, and the next call finds a whole
//! instance.

use game::guest::{ScriptFailure, Scripts as _};

use crate::guest::Part::{Int, List, Text};
use crate::guest::{guest, guest_with};
use crate::host::TestHost;
use crate::{begin, ended, load_with, modules, roomy, rpc, tight};

/// Does harm if the payload ends with `!`, and gives nothing else.
fn harm(body: &str) -> String {
    format!(
        "(if (i32.eq (i32.load8_u (i32.add (i32.const 4095) (local.get $length))) (i32.const 33)) (then {body}))
         (i32.store8 (i32.const 0) (i32.const 0)) (call $give (i32.const 0) (i32.const 1)) (i32.const 0)"
    )
}

#[test]
fn a_loop_that_never_ends_is_stopped_and_named() {
    let text = guest_with(&[], &harm("(call $spin)"), "(func $spin (loop (br 0)))");
    let mut host = TestHost::default();
    let modules = modules(&text).unwrap();
    let limits = tight();
    let memory = limits.memory.clone();
    let mut scripts = wasm::WasmScripts::load(modules, limits, &mut host).unwrap();
    for _ in 0..2 {
        let error = ended(begin(&mut scripts, &mut host, 1, b"!")).unwrap_err();
        assert_eq!(error.kind, ScriptFailure::OutOfTime);
        let (module, rest) = error.message.split_once(": ").unwrap();
        assert_eq!(module.len(), "game.wasm@01234567".len(), "{module}");
        assert_eq!(rest, "spin: script used up its 50 ms (runtime.call_budget_ms)");
        assert!(error.location.starts_with(&format!("{module}: spin\n")), "{}", error.location);
        assert_eq!(rpc(&mut scripts, &mut host), Ok(None));
    }
    assert_eq!(memory.rebuilt_count(), 2);
}

#[test]
fn memory_without_end_is_refused_and_named() {
    let bomb = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) (unreachable)";
    let mut host = TestHost::default();
    let mut scripts = load_with(&guest(&[], &harm(bomb)), tight(), &mut host).unwrap();
    let error = ended(begin(&mut scripts, &mut host, 1, b"!")).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
    assert!(
        error.message.ends_with("script used up its 16777216 bytes (runtime.memory_max_bytes)"),
        "{}",
        error.message
    );
    assert_eq!(rpc(&mut scripts, &mut host), Ok(None));
    // One that takes the refusal as an answer lives on, within its bounds.
    let modest = bomb.replace("(unreachable)", "");
    let mut scripts = load_with(&guest(&[], &harm(&modest)), tight(), &mut host).unwrap();
    assert_eq!(ended(begin(&mut scripts, &mut host, 1, b"!")), Ok(None));
}

#[test]
fn a_module_that_begins_too_large_is_refused() {
    for large in [
        "(memory (export \"memory\") 1000)",
        "(memory (export \"memory\") 2) (table 10000000 funcref)",
    ] {
        let text = guest(&[], "(i32.const 0)").replace("(memory (export \"memory\") 2)", large);
        let error = load_with(&text, tight(), &mut TestHost::default()).err().unwrap().to_string();
        assert!(error.contains("16777216 bytes (runtime.memory_max_bytes)"), "{error}");
    }
}

#[test]
fn deep_recursion_ends_in_an_error() {
    let text = guest_with(&[], &harm("(call $deep)"), "(func $deep (call $deep))");
    let mut host = TestHost::default();
    let mut scripts = load_with(&text, roomy(), &mut host).unwrap();
    let error = ended(begin(&mut scripts, &mut host, 1, b"!")).unwrap_err();
    assert!(error.message.ends_with(": deep: stack overflow (524288 bytes)"), "{}", error.message);
    assert_eq!(rpc(&mut scripts, &mut host), Ok(None));
}

/// What a guest is told that does this.
fn told(body: &str, imports: &str) -> String {
    let register = List(&[Text("register"), Text("rpc"), Text("late")]);
    let text = guest(&[register, Int(7), List(&[Int(7)])], &harm(body));
    let text = text.replacen("(memory", &format!("{imports} (memory"), 1);
    let mut host = TestHost::default();
    let mut scripts = load_with(&text, tight(), &mut host).unwrap();
    let error = ended(begin(&mut scripts, &mut host, 1, b"!")).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::Raised);
    // Whoever comes next finds an instance that knows nothing of it.
    assert_eq!(rpc(&mut scripts, &mut host), Ok(None));
    error.message
}

#[test]
fn wrong_places_and_lengths_stop_the_guest() {
    for (body, error) in [
        (
            "(drop (call $call (i32.const -1) (i32.const 1)))",
            "throng.call: 1 bytes at 4294967295 do not lie in the memory",
        ),
        (
            "(drop (call $call (i32.const 0) (i32.const -1)))",
            "throng.call: 4294967295 bytes at 0 do not lie",
        ),
        (
            "(drop (call $call (i32.const 131072) (i32.const 1)))",
            "throng.call: 1 bytes at 131072 do not lie",
        ),
        ("(drop (call $call (i32.const 0) (i32.const 0)))", "throng.call: a value ends too early"),
        ("(drop (call $call {1}))", "throng.call: no list of a name and arguments"),
        ("(drop (call $call {2}))", "throng.call: the name is no text"),
        ("(drop (call $call {0}))", "register: only while the module starts"),
        (
            "(call $take (i32.const 0) (i32.const 9))",
            "throng.take: 9 bytes are asked for, 0 are there",
        ),
        (
            "(call $take (i32.const -4) (i32.const 9))",
            "throng.take: 9 bytes at 4294967292 do not lie",
        ),
        (
            "(call $give (i32.const 4096) (i32.const -9))",
            "throng.give: 4294967287 bytes at 4096 do not lie",
        ),
        ("(unreachable)", "wasm `unreachable` instruction executed"),
        ("(drop (i32.load (i32.const -8)))", "out of bounds memory access"),
        ("(drop (i32.div_s (local.get $n) (local.get $n)))", "integer divide by zero"),
    ] {
        let told = told(body, "");
        assert!(told.contains(error), "{body}: {told}");
    }
}

#[test]
fn wrong_places_and_lengths_of_wasi_stop_the_guest() {
    let wasi = |name: &str, parameters: &str| {
        format!(
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func $wasi (param {parameters}) (result i32)))"
        )
    };
    for (name, parameters, arguments) in [
        ("args_sizes_get", "i32 i32", "(i32.const -2) (i32.const 0)"),
        ("environ_sizes_get", "i32 i32", "(i32.const 0) (i32.const 131070)"),
        ("clock_time_get", "i32 i64 i32", "(i32.const 0) (i64.const 0) (i32.const -1)"),
        ("clock_res_get", "i32 i32", "(i32.const 0) (i32.const -1)"),
        ("random_get", "i32 i32", "(i32.const 16) (i32.const 131072)"),
        ("fd_fdstat_get", "i32 i32", "(i32.const 0) (i32.const -1)"),
        ("fd_write", "i32 i32 i32 i32", "(i32.const 1) (i32.const -8) (i32.const 1) (i32.const 0)"),
        (
            "fd_write",
            "i32 i32 i32 i32",
            "(i32.const 1) (i32.const 4096) (i32.const 1) (i32.const 0)",
        ),
        (
            "poll_oneoff",
            "i32 i32 i32 i32",
            "(i32.const -8) (i32.const 0) (i32.const 1) (i32.const 0)",
        ),
        (
            "poll_oneoff",
            "i32 i32 i32 i32",
            "(i32.const 65536) (i32.const -1) (i32.const 1) (i32.const 0)",
        ),
    ] {
        let told = told(&format!("(drop (call $wasi {arguments}))"), &wasi(name, parameters));
        assert!(told.contains("do not lie in the memory"), "{name}: {told}");
    }
    let exit = "(import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))";
    let told = told("(call $exit (i32.const 3))", exit);
    assert!(told.ends_with("the guest has ended itself with code 3"), "{told}");
}

#[test]
fn nothing_of_the_machine_is_there() {
    for (name, parameters, arguments, number) in [
        (
            "path_open",
            "i32 i32 i32 i32 i32 i64 i64 i32 i32",
            "(i32.const 3) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 0)",
            52,
        ),
        ("sock_accept", "i32 i32 i32", "(i32.const 3) (i32.const 0) (i32.const 0)", 52),
        ("fd_prestat_get", "i32 i32", "(i32.const 3) (i32.const 0)", 8),
        (
            "fd_write",
            "i32 i32 i32 i32",
            "(i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0)",
            8,
        ),
        (
            "fd_write",
            "i32 i32 i32 i32",
            "(i32.const 1) (i32.const 0) (i32.const -1) (i32.const 0)",
            28,
        ),
        (
            "poll_oneoff",
            "i32 i32 i32 i32",
            "(i32.const 0) (i32.const 0) (i32.const -1) (i32.const 0)",
            28,
        ),
    ] {
        let import = format!(
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func $wasi (param {parameters}) (result i32)))"
        );
        let body = format!(
            "(if (i32.ne (call $wasi {arguments}) (i32.const {number})) (then (unreachable)))"
        );
        let text = guest(&[], &harm(&body)).replacen("(memory", &format!("{import} (memory"), 1);
        let mut host = TestHost::default();
        let mut scripts = load_with(&text, tight(), &mut host).unwrap();
        assert_eq!(ended(begin(&mut scripts, &mut host, 1, b"!")), Ok(None), "{name}");
    }
}

#[test]
fn a_guest_that_sleeps_finds_its_own_clock_ahead_and_keeps_nobody() {
    let imports = "
        (import \"wasi_snapshot_preview1\" \"poll_oneoff\" (func $poll (param i32 i32 i32 i32) (result i32)))
        (import \"wasi_snapshot_preview1\" \"clock_time_get\" (func $time (param i32 i64 i32) (result i32)))";
    // An hour, of the monotonic clock.
    let body = "
        (i32.store (i32.const 65552) (i32.const 1))
        (i64.store (i32.const 65560) (i64.const 3600000000000))
        (if (call $poll (i32.const 65536) (i32.const 66000) (i32.const 1) (i32.const 67000)) (then (unreachable)))
        (if (i32.ne (i32.load (i32.const 67000)) (i32.const 1)) (then (unreachable)))
        (if (call $time (i32.const 1) (i64.const 0) (i32.const 67000)) (then (unreachable)))
        (if (i64.ne (i64.load (i32.const 67000)) (i64.const 3600000000001)) (then (unreachable)))
        (if (call $time (i32.const 0) (i64.const 0) (i32.const 67000)) (then (unreachable)))
        (if (i64.ne (i64.load (i32.const 67000)) (i64.const 1700000000123000000)) (then (unreachable)))";
    let text = guest(&[], &harm(body)).replacen("(memory", &format!("{imports} (memory"), 1);
    let mut host = TestHost::default();
    let mut scripts = load_with(&text, tight(), &mut host).unwrap();
    assert_eq!(ended(begin(&mut scripts, &mut host, 1, b"!")), Ok(None));
}

#[test]
fn a_start_is_bounded_too() {
    let spin = guest(&[], "(i32.const 0)")
        .replace("(i32.store8 (i32.const 0) (i32.const 0))", "(loop (br 0))");
    let limits = script::budget::GuestLimits { load_budget_ms: 50, ..tight() };
    let error = load_with(&spin, limits, &mut TestHost::default()).err().unwrap().to_string();
    assert!(error.ends_with("script used up its 50 ms (runtime.load_budget_ms)"), "{error}");
    let many = guest(&[List(&[Text("register"), Text("rpc"), Text("more")])], "(i32.const 0)")
        .replace(
            "(i32.store8 (i32.const 0) (i32.const 0))",
            "(loop (drop (call $call {0})) (br 0))",
        );
    let at = crate::guest::encode(&List(&[Text("register"), Text("rpc"), Text("Test")])).len()
        + crate::guest::encode(&List(&[Text("register"), Text("match"), Text("test")])).len();
    let length = crate::guest::encode(&List(&[Text("register"), Text("rpc"), Text("more")])).len();
    let place = format!("(i32.const {}) (i32.const {length})", crate::guest::DATA_AT + at);
    let error = load_with(&many.replace("{0}", &place), tight(), &mut TestHost::default());
    let error = error.err().unwrap().to_string();
    assert!(error.contains("register: more than 4096 functions"), "{error}");
}

#[test]
fn what_is_never_taken_is_gone_with_the_next_call() {
    let call = List(&[Text("uuid_v4")]);
    let mut host = TestHost::default();
    let text = guest(&[call], &harm("(loop (drop (call $call {0})) (br 0))"));
    let mut scripts = load_with(&text, tight(), &mut host).unwrap();
    let error = ended(begin(&mut scripts, &mut host, 1, b"!")).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfTime);
    assert_eq!(rpc(&mut scripts, &mut host), Ok(None));
    assert!(scripts.registered().findings.is_empty());
}
