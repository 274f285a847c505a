//! Scripts that loop, grow, recurse and lie: each is stopped with its error, and the next call is as if
//! nothing had happened.

use game::guest::ScriptFailure;
use game::guest::ScriptFailure::{OutOfMemory, OutOfTime, Raised};

use crate::host::TestHost;
use crate::{bundle_of, load_with, roomy, rpc, tight};

/// Runs `body` under these limits, then a harmless call on the same instance.
fn outcome(body: &str, limits: script::budget::GuestLimits) -> (ScriptFailure, String) {
    let mut host = TestHost::default();
    let text = bundle_of(&format!("if (payload === 'hello') return payload;\n{body}"));
    let mut scripts = load_with(&text, limits, &mut host).unwrap();
    let error = rpc(&mut scripts, &mut host, "test", "").unwrap_err();
    let next = rpc(&mut scripts, &mut host, "test", "hello");
    assert_eq!(next, Ok(Some("hello".to_owned())), "{body}");
    (error.kind, error.message)
}

#[test]
fn what_never_ends_is_stopped() {
    for body in [
        "for (;;);",
        "for (;;) { try { for (;;); } catch (e) {} }",
        "try { for (;;); } finally { for (;;); }",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
        "/(.*)*b/.test('a'.repeat(4000))",
        "var g = function* () { for (;;) yield 1; }; for (var x of g());",
        "(async function () { for (;;) await null; })()",
        "new Proxy({}, { get: function () { for (;;); } }).x",
        "JSON.stringify({ toJSON: function () { for (;;); } })",
        "nk.localcachePut('k', { get a() { for (;;); } })",
        "({ toString: function () { for (;;); } }) + ''",
        // Of which a turn is dear, so that few turns are too many.
        "var list = new Array(1 << 18).fill(1); for (;;) JSON.stringify(list)",
        "var text = JSON.stringify(new Array(1 << 18).fill(1)); for (;;) JSON.parse(text)",
        "var view = new Uint8Array(1 << 22); for (;;) view.fill(1).reverse()",
        "var text = 'x'.repeat(1 << 22); for (;;) text.toUpperCase()",
        "for (;;) nk.sha256Hash('x'.repeat(1 << 20))",
    ] {
        let (kind, message) = outcome(body, tight());
        assert_eq!(kind, OutOfTime, "{body}: {message}");
        assert!(message.contains("50 ms (runtime.call_budget_ms)"), "{body}: {message}");
    }
    // The engine names the line where the function begins.
    let (_, message) = outcome("for (;;);", tight());
    assert!(message.starts_with("index.js:1: "), "{message}");
}

/// Each of a thousand chains ran on until it was asked on its own, which is once in 10,000 turns.
#[test]
fn chains_of_promises_end_together_with_their_budget() {
    let mut host = TestHost::default();
    let text = bundle_of(
        "if (payload === 'turns') return String(nk.localcacheGet('turns'));
        var turns = 0;
        var chain = function () {
            turns += 1;
            if (turns % 1000 === 0) nk.localcachePut('turns', turns);
            Promise.resolve().then(chain);
        };
        for (var i = 0; i < 1000; i++) chain();
        return 'x';",
    );
    let mut scripts = load_with(&text, tight(), &mut host).unwrap();
    let error = rpc(&mut scripts, &mut host, "test", "").unwrap_err();
    assert_eq!(error.kind, OutOfTime, "{}", error.message);
    let turns = rpc(&mut scripts, &mut host, "test", "turns").unwrap().unwrap();
    let turns: u64 = turns.parse().unwrap();
    assert!((1_000..5_000_000).contains(&turns), "{turns} turns in a budget of 50 ms");
}

/// The process died when memory ran out while a text was compiled.
#[test]
fn code_is_made_from_texts_while_modules_load_and_not_later() {
    let made = "var kept = eval, all = Function('return this')();
        function InitModule(ctx, logger, nk, initializer) { initializer.registerRpc('test', test); }
        function test() { return String(all === globalThis && kept('1') === 1); }";
    let mut host = TestHost::default();
    let mut scripts = load_with(made, tight(), &mut host).unwrap();
    let error = rpc(&mut scripts, &mut host, "test", "").unwrap_err();
    assert!(error.message.contains("code cannot be made from text"), "{}", error.message);
    for body in [
        "eval('1')",
        "(0, eval)('1')",
        "new Function('return 1')",
        "(function () {}).constructor('return 1')",
        "(async function () {}).constructor('return 1')",
        "(function* () {}).constructor('return 1')",
        "Reflect.construct(Function, ['return 1'])",
        "Object.getPrototypeOf(async function () {}).constructor('return 1')",
    ] {
        let (kind, message) = outcome(body, roomy());
        assert_eq!(kind, Raised, "{body}");
        assert!(message.contains("code cannot be made from text"), "{body}: {message}");
    }
    for (body, text) in [
        ("((1n << 100000n) - 1n).toString()", "too many digits"),
        ("'\\u0301\\u0323'.repeat(30000).normalize()", "too long"),
    ] {
        let (_, message) = outcome(body, roomy());
        assert!(message.contains(text), "{body}: {message}");
    }
}

#[test]
fn what_grows_is_stopped() {
    for body in [
        "var all = []; for (;;) all.push(new Array(1000).fill(1))",
        "new Uint8Array(1 << 30)",
        "'x'.repeat(1 << 28)",
        "var o = {}; for (var i = 0;; i++) o['key' + i] = i",
        "var m = new Map(); for (var i = 0;; i++) m.set(i, {})",
        "Array.from({ length: 1e9 })",
        "var s = new Set(); for (;;) s.add(Symbol())",
    ] {
        let (kind, message) = outcome(body, roomy());
        assert_eq!(kind, OutOfMemory, "{body}: {message}");
        assert!(message.contains("(runtime.memory_max_bytes)"), "{body}: {message}");
    }
}

/// Memory that runs out at any point of a script leaves the VM whole: the process goes on, and so does the next
/// call. The steps are odd, so that it is another allocation that fails each time.
#[test]
fn memory_may_run_out_anywhere() {
    let body = "var o = {}, all = [], m = new Map(); \
        for (var i = 0;; i++) { \
            o['key' + i] = { a: i, self: null }; o['key' + i].self = o; \
            all.push(function () { return all; }, 'x' + i, [i, [i]]); \
            m.set('k' + i, new Uint8Array(i % 64)); \
            if (i % 50 === 0) JSON.parse(JSON.stringify(all)), all.concat(all).map(String), /a(b)?/.exec('ab' + i); \
            if (i % 70 === 0) { class A { #p = i; get p() { return this.#p; } } new A().p; } \
            Promise.resolve(i).then(String); \
        }";
    for step in 0..50 {
        let memory_max_bytes = (2 << 20) + step * 3_001;
        let (kind, message) =
            outcome(body, script::budget::GuestLimits { memory_max_bytes, ..roomy() });
        assert_eq!(kind, OutOfMemory, "{memory_max_bytes}: {message}");
    }
}

/// Cycles that calls leave behind do not fill the memory.
#[test]
fn garbage_is_collected_between_calls() {
    let mut host = TestHost::default();
    let text =
        bundle_of("for (var i = 0; i < 20000; i++) { var o = { i: i }; o.self = o; } return 'ok';");
    let mut scripts = load_with(&text, roomy(), &mut host).unwrap();
    for _ in 0..40 {
        assert_eq!(rpc(&mut scripts, &mut host, "test", ""), Ok(Some("ok".to_owned())));
    }
}

#[test]
fn what_is_too_deep_or_too_long_is_an_error() {
    for body in [
        "(function f() { return f() + 1; })()",
        "JSON.parse('['.repeat(100000))",
        "var a = []; for (var i = 0; i < 100000; i++) a = [a]; JSON.stringify(a)",
        "var s = 'x'; for (;;) s += s",
        "new RegExp('('.repeat(100000))",
        "var p = {}; for (var i = 0; i < 100000; i++) p = new Proxy(p, {}); p.x",
    ] {
        let (kind, message) = outcome(body, roomy());
        assert!(matches!(kind, Raised | OutOfMemory), "{body}: {kind:?} {message}");
    }
}

/// What the engine does in one piece on arrays without elements is bounded by their length.
#[test]
fn lengths_without_elements_are_refused() {
    for body in [
        "new Array(4e9).join('')",
        "new Array(4e9).indexOf(1)",
        "new Array(4e9).sort()",
        "new Array(4e9).reverse()",
        "new Array(4e9).forEach(function () {})",
        "Array.prototype.indexOf.call({ length: 1e15 }, 3)",
        "Array.prototype.lastIndexOf.call({ length: 1e15 }, 3)",
        "Array.prototype.slice.call({ length: 1e15 })",
        "Array.prototype.unshift.call({ length: 1e15 }, 3)",
        "[].concat(new Array(4e9))",
        "[new Array(4e9)].flat()",
        "String(new Array(4e9))",
        "var a = []; a.length = 4e9; a.splice(0, 1)",
        "Array.prototype.map.apply({ length: 2e9 }, [function () {}])",
        "new Set(new Array(4e9))",
        "new WeakSet(new Array(4e9))",
        "var a = [], i = a.values(); a.length = 4e9; new Set(i)",
        "var i = 0; Array.prototype.indexOf.call({ get length() { return i++ ? 1e15 : 0; } }, 3)",
        "var i = 0; var list = Object.create({ get length() { return i++ ? 1e15 : 0; } }); \
         Array.prototype.indexOf.call(list, 3)",
        "var i = 0; Array.prototype.indexOf.call({ length: { valueOf: function () { return i++ ? 1e15 : 0; } } }, 3)",
        "var i = 0; var list = new Proxy({}, { get: function () { return i++ ? 1e15 : 0; } }); \
         Array.prototype.indexOf.call(list, 3)",
        "var i = 0; var list = new Proxy([], { get: function () { return i++ ? 1e15 : 0; } }); \
         Array.prototype.indexOf.call(list, 3)",
        "var f = function () {}; Object.defineProperty(f, 'length', { value: 1e15 }); Array.prototype.indexOf.call(f, 3)",
        "[1].flatMap(function () { return new Array(4e9); })",
        "[[new Array(4e9)]].flat(2)",
        "var late = [], early = []; \
         Object.defineProperty(early, 0, { get: function () { late.length = 4e9; } }); [].concat(early, late)",
        "JSON.stringify({}, new Array(4e9))",
        "String.raw({ raw: { length: 1e15 } })",
        "new Array(4e9).values().drop(4e9).next()",
        "new Set([1]).isSupersetOf({ size: 1, has: Boolean, keys: Array.prototype.values.bind({ length: 1e15 }) })",
    ] {
        let (kind, message) = outcome(body, tight());
        assert!(matches!(kind, Raised | OutOfTime), "{body}: {kind:?} {message}");
    }
}

/// A search of a long text in another one is quadratic.
#[test]
fn searches_are_bounded() {
    for body in [
        "('a'.repeat(1 << 20)).indexOf('a'.repeat(1 << 19) + 'b')",
        "('a'.repeat(1 << 20)).lastIndexOf('b' + 'a'.repeat(1 << 19))",
        "('a'.repeat(1 << 20)).includes('a'.repeat(1 << 19) + 'b')",
        "('a'.repeat(1 << 20)).split('a'.repeat(1 << 19) + 'b')",
        "('a'.repeat(1 << 20)).replaceAll('a'.repeat(1 << 19) + 'b', '')",
        "('a'.repeat(1 << 20)).replace('a'.repeat(1 << 19) + 'b', '')",
        "('a'.repeat(1 << 20)).indexOf({ toString: function () { return 'a'.repeat(1 << 19) + 'b'; } })",
        "var i = 0; String.prototype.indexOf.call({ toString: function () { \
         return i++ ? 'a'.repeat(1 << 20) : ''; } }, 'a'.repeat(1 << 19) + 'b') + x",
        "new Array(1 << 18).fill('a'.repeat(1 << 20) + 'b').indexOf('a'.repeat(1 << 20) + 'c')",
    ] {
        let (kind, message) = outcome(body, tight());
        assert!(matches!(kind, Raised | OutOfTime), "{body}: {kind:?} {message}");
    }
}
