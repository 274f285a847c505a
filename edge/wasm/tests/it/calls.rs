//! What a call is given and gives, what guests find of the host, and which modules are refused.

use std::sync::Arc;

use game::guest::{CallId, GuestCall, Returned, Scripts as _, Step};
use game::value::Value;
use wasm::{LoadError, Modules, WasmScripts};

use crate::guest::Part::{Int, List, Text};
use crate::guest::{encode, guest, guest_with, text_of};
use crate::host::TestHost;
use crate::{begin, context, ended, load, load_with, roomy, rpc, tight};

/// Gives the last `bytes` bytes of the call.
fn last(bytes: usize) -> String {
    format!(
        "(call $give (i32.sub (i32.add (i32.const 4096) (local.get $length)) (i32.const {bytes}))
         (i32.const {bytes})) (i32.const 0)"
    )
}

/// Calls the host with the first of the data, and gives its first result.
const FIRST_RESULT: &str = "
    (local.set $n (call $call {0}))
    (call $take (i32.const 8192) (local.get $n))
    (call $give (i32.const 8198) (i32.sub (local.get $n) (i32.const 6)))
    (i32.const 0)";

/// The same, and gives its refusal.
pub(crate) const REFUSAL: &str = "
    (local.set $n (call $call {0}))
    (call $take (i32.const 8192) (local.get $n))
    (if (i32.ne (i32.load8_u (i32.const 8192)) (i32.const 1)) (then (unreachable)))
    (call $give (i32.const 8193) (i32.sub (local.get $n) (i32.const 1)))
    (i32.const 0)";

#[test]
fn an_rpc_is_called_in_any_case_and_answers() {
    let mut host = TestHost::default();
    let mut scripts = load(&guest(&[], &last(5 + 7)), &mut host);
    assert_eq!(scripts.registered().rpc, ["test"]);
    assert_eq!(scripts.registered().modules, ["game.wasm"]);
    for _ in 0..10 {
        assert_eq!(rpc(&mut scripts, &mut host), Ok(Some("payload".to_owned())));
    }
    let missing = GuestCall::Rpc { id: "other", payload: b"" };
    let error = ended(scripts.call(&mut host, CallId(1), &context(), missing)).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (5, "RPC function not found"));
}

#[test]
fn a_function_fails_with_its_own_code_and_text_and_its_instance_stays() {
    let mut host = TestHost::default();
    let refusal = List(&[Int(9), Text("not today")]);
    let mut scripts = load(&guest(&[refusal], "(call $give {0}) (i32.const 1)"), &mut host);
    for _ in 0..2 {
        let error = rpc(&mut scripts, &mut host).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (9, "not today"));
    }
}

#[test]
fn an_rpc_gives_text_or_nothing() {
    let mut host = TestHost::default();
    let mut scripts = load(
        &guest(
            &[],
            "(i32.store8 (i32.const 0) (i32.const 0)) (call $give (i32.const 0) (i32.const 1)) (i32.const 0)",
        ),
        &mut host,
    );
    assert_eq!(rpc(&mut scripts, &mut host), Ok(None));
    for (data, text) in [
        (Int(1), "only allowed one return value of type string"),
        (List(&[]), "only allowed one return value of type string"),
    ] {
        let mut scripts = load(&guest(&[data], "(call $give {0}) (i32.const 0)"), &mut host);
        let error = rpc(&mut scripts, &mut host).unwrap_err();
        assert!(error.message.contains(text), "{}", error.message);
    }
    let mut scripts = load(&guest(&[], "(i32.const 0)"), &mut host);
    let error = rpc(&mut scripts, &mut host).unwrap_err();
    assert_eq!(error.message, "throng.give: a value ends too early");
}

#[test]
fn functions_of_the_table_are_called_by_name() {
    let mut host = TestHost::default();
    let call = List(&[Text("base64_encode"), Text("hi")]);
    let mut scripts = load(&guest(&[call], FIRST_RESULT), &mut host);
    assert_eq!(rpc(&mut scripts, &mut host), Ok(Some("aGk=".to_owned())));
    let line = List(&[Text("logger_info"), Text("hello")]);
    let mut scripts =
        load(&guest(&[line], &format!("(drop (call $call {{0}})) {}", last(12))), &mut host);
    assert!(rpc(&mut scripts, &mut host).is_ok());
    assert_eq!(host.logs, ["Info hello"]);
}

#[test]
fn what_the_host_refuses_is_told_and_the_guest_goes_on() {
    for (call, told) in [
        (
            List(&[Text("base64_encode"), List(&[])]),
            "bad argument #1 to base64_encode (string expected, got table)",
        ),
        (List(&[Text("storage_write"), Text("all")]), "bad argument #1 to storage_write"),
        (List(&[Text("storage_write")]), "bad argument #1 to storage_write"),
        (
            List(&[Text("leaderboard_create")]),
            "nk.leaderboard_create is not implemented in throng yet",
        ),
        (List(&[Text("register_rpc")]), "register_rpc is not for modules in WebAssembly"),
        (List(&[Text("reboot")]), "there is no function reboot"),
        // A handle of a match is nothing outside of its callbacks.
        (List(&[Text("broadcast_message"), Int(1)]), "match stopped"),
        (List(&[Text("broadcast_message"), Text("1")]), "expects the op code to be a number"),
        (List(&[Text("match_kick"), Int(1)]), "expects a list of presences or nil"),
        (
            List(&[Text("match_kick"), List(&[Text("ann")])]),
            "expects each presence to have a valid session id",
        ),
        (List(&[Text("match_label_update"), Int(1)]), "expects the label to be a string"),
    ] {
        let mut host = TestHost::default();
        let mut scripts = load(&guest(&[call], REFUSAL), &mut host);
        let text = rpc(&mut scripts, &mut host).unwrap().unwrap();
        assert!(text.starts_with(told), "{text}");
    }
}

#[test]
fn hooks_get_and_give_values() {
    let mut host = TestHost::default();
    // The request is the last value of the call: a map of one name and one text, of 1 + 4 + 5 + 7 bytes.
    let mut scripts = load(&before(&guest(&[], &last(17))), &mut host);
    assert_eq!(scripts.registered().before, ["t"]);
    let places = [("before t".to_owned(), "game.wasm".to_owned())];
    assert_eq!(scripts.registered().locations, places);
    let request = Value::Map(vec![("k".into(), Value::text("yy"))]);
    let call = GuestCall::Before { id: "t", request: request.clone() };
    match scripts.call(&mut host, CallId(1), &context(), call) {
        Step::Done(Ok(Returned::Before(Some(given)))) => assert_eq!(given, request),
        other => panic!("{other:?}"),
    }
}

/// The same guest with a before-hook in the place of its RPC function, in as many bytes.
fn before(text: &str) -> String {
    let register =
        |kind, name| text_of(&encode(&List(&[Text("register"), Text(kind), Text(name)])));
    let (old, new) = (register("rpc", "Test"), register("before", "T"));
    assert_eq!(old.len(), new.len());
    text.replace(&old, &new)
}

#[test]
fn what_a_guest_prints_is_logged_by_lines() {
    let wasi = r#"(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))"#;
    let body = format!(
        "(i32.store (i32.const 16) (i32.const 256)) (i32.store (i32.const 20) (i32.const 8))
        (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 32)))
        (drop (call $write (i32.const 2) (i32.const 16) (i32.const 1) (i32.const 32)))
        (if (i32.ne (i32.load (i32.const 32)) (i32.const 8)) (then (unreachable)))
        {}",
        last(12)
    );
    let text = guest_with(&[], &body, "(data (i32.const 256) \"one\\0atwo\\0a\")");
    let text = text.replacen("(memory", &format!("{wasi} (memory"), 1);
    let mut host = TestHost::default();
    let mut scripts = load(&text, &mut host);
    assert!(rpc(&mut scripts, &mut host).is_ok());
    assert_eq!(host.logs, ["Info one", "Info two", "Warn one", "Warn two"]);
}

fn refusal(text: &str) -> String {
    match load_with(text, tight(), &mut TestHost::default()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("loaded"),
    }
}

#[test]
fn modules_that_cannot_run_here_are_refused_in_words() {
    let good = guest(&[], "(i32.const 0)");
    let version = good.replace("(result i32) (i32.const 1))", "(result i32) (i32.const 2))");
    assert!(
        refusal(&version).contains("speaks version 2 of the convention"),
        "{}",
        refusal(&version)
    );
    let nameless = good.replace("throng_version", "other");
    assert!(
        refusal(&nameless)
            .contains("exports no function throng_version() -> i32: is it built with")
    );
    let wrong = good.replace("\"throng_call\"", "\"call\"");
    assert!(refusal(&wrong).contains("exports no function throng_call(i32) -> i32"));
    let bare = good.replace("(memory (export \"memory\") 2)", "(memory 2)");
    assert!(refusal(&bare).contains("exports no memory"));
    let foreign = good.replacen("(memory", "(import \"env\" \"sock_open\" (func)) (memory", 1);
    assert!(refusal(&foreign).contains("env::sock_open"), "{}", refusal(&foreign));
    let files = vec![("game.wasm".to_owned(), b"no module".to_vec())];
    let error =
        Modules::compile(files, &Modules::default()).err().map(|error| error.to_string()).unwrap();
    assert!(error.starts_with("game.wasm: "), "{error}");
}

#[test]
fn two_modules_are_one_game_and_the_first_has_a_name_that_both_have() {
    let mut host = TestHost::default();
    let bytes = wat::parse_str(guest(&[], &last(12))).unwrap();
    let files = vec![("a.wasm".to_owned(), bytes.clone()), ("b.wasm".to_owned(), bytes)];
    let modules = Arc::new(Modules::compile(files, &Modules::default()).unwrap());
    assert_eq!(modules.files().collect::<Vec<_>>(), ["a.wasm", "b.wasm"]);
    let limits = roomy();
    let memory = Arc::clone(&limits.memory);
    let mut scripts = WasmScripts::load(modules, limits, &mut host).unwrap();
    let [first, second] = scripts.registered().findings.as_slice() else { panic!() };
    assert!(
        first.text.contains("the RPC test is registered again: the one in a.wasm runs"),
        "{}",
        first.text
    );
    assert!(second.text.contains("the match test"), "{}", second.text);
    assert!(ended(begin(&mut scripts, &mut host, 1, b"payload")).is_ok());
    assert!(memory.bytes() >= 2 * 2 * 65_536, "{}", memory.bytes());
    drop(scripts);
    assert_eq!((memory.bytes(), memory.match_bytes()), (0, 0));
}

#[test]
fn a_folder_is_read_in_the_order_of_names_and_nothing_else_in_it() {
    let folder = std::env::temp_dir().join(format!("throng-wasm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bytes = wat::parse_str(guest(&[], "(i32.const 0)")).unwrap();
    for file in ["b.wasm", "a.wasm"] {
        std::fs::write(folder.join(file), &bytes).unwrap();
    }
    std::fs::write(folder.join("c.lua"), "").unwrap();
    let none = Modules::default();
    let modules = Modules::read(&folder, &none).unwrap();
    assert_eq!(modules.files().collect::<Vec<_>>(), ["a.wasm", "b.wasm"]);
    std::fs::write(folder.join("c.wasm"), "broken").unwrap();
    assert!(
        matches!(Modules::read(&folder, &none), Err(LoadError::Wrong { name, .. }) if name == "c.wasm")
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_has_not_changed_is_not_compiled_again_and_each_version_runs_by_itself() {
    let mut host = TestHost::default();
    let bytes = |number: u32| {
        let body = format!("(drop (i32.const {number})) {}", last(5 + 7));
        wat::parse_str(guest(&[], &body)).unwrap()
    };
    let [same, old, new] = [1, 2, 3].map(bytes);
    let files = |other: &[u8]| {
        vec![("a.wasm".to_owned(), same.clone()), ("b.wasm".to_owned(), other.to_vec())]
    };
    let first = Modules::compile(files(&old), &Modules::default()).unwrap();
    let second = Modules::compile(files(&new), &first).unwrap();
    let third = Modules::compile(files(&new), &second).unwrap();
    let compiled = [&first, &second, &third].map(Modules::compiled_count);
    assert_eq!(compiled, [2, 1, 0]);
    // A name says nothing: only the bytes do.
    let renamed = vec![("a.wasm".to_owned(), new.clone()), ("c.wasm".to_owned(), same.clone())];
    let fourth = Modules::compile(renamed, &third).unwrap();
    assert_eq!(fourth.compiled_count(), 0);
    let hashes = [&first, &second, &third, &fourth].map(|it| it.content().short());
    assert!(hashes[0] != hashes[1] && hashes[1] == hashes[2] && hashes[2] != hashes[3]);
    // The versions before may go.
    drop((first, second, third));
    let mut scripts = WasmScripts::load(Arc::new(fourth), roomy(), &mut host).unwrap();
    assert_eq!(rpc(&mut scripts, &mut host), Ok(Some("payload".to_owned())));
}

#[test]
fn an_endless_loop_in_code_of_a_version_before_is_stopped() {
    let mut host = TestHost::default();
    let spin = guest(&[], "(loop $on (br $on)) (i32.const 0)");
    let files = || vec![("game.wasm".to_owned(), wat::parse_str(&spin).unwrap())];
    let first = Modules::compile(files(), &Modules::default()).unwrap();
    let second = Modules::compile(files(), &first).unwrap();
    drop(first);
    let mut scripts = WasmScripts::load(Arc::new(second), tight(), &mut host).unwrap();
    let error = rpc(&mut scripts, &mut host).unwrap_err();
    assert!(error.message.contains("50 ms (runtime.call_budget_ms)"), "{}", error.message);
}
