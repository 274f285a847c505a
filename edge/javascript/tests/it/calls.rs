//! RPC functions and hooks: what they see, what they return, what becomes of their errors.

use std::sync::Arc;

use game::guest::{CallContext, CallId, Callee, GuestCall, Returned, ScriptFailure, Scripts as _};
use game::host::json;
use game::rules::{ZoneRule, table};
use game::value::Value;
use javascript::{Bundle, JsScripts};
use uuid::Uuid;

use crate::host::TestHost;
use crate::{ended, load, roomy, rpc, run, run_on};

/// As TypeScript and rollup make it for Nakama: functions at the top level, ES5, and a line at the end
/// that keeps `InitModule` from being left out.
const BUNDLE: &str = r"
'use strict';
var rpcEcho = function (ctx, logger, nk, payload) { return payload; };
function rpcWho(ctx, logger, nk, payload) {
    return JSON.stringify([ctx.userId, ctx.username, ctx.vars, ctx.executionMode, ctx.env, ctx.headers]);
}
var beforeAuth = function (ctx, logger, nk, data) {
    if (data.username === 'refused') { return null; }
    if (data.username === 'broken') { throw { message: 'no such name', code: 3 }; }
    data.username = data.username.toUpperCase();
    return data;
};
function afterAuth(ctx, logger, nk, out, request) { logger.info('%s %d', out.token, request.create ? 1 : 0); }
function shutdown(ctx, logger, nk) { logger.info('good night'); }
function InitModule(ctx, logger, nk, initializer) {
    initializer.registerRpc('Echo', rpcEcho);
    initializer.registerRpc('who', rpcWho);
    initializer.registerBeforeAuthenticateDevice(beforeAuth);
    initializer.registerAfterAuthenticateDevice(afterAuth);
    initializer.registerRtBefore('MatchCreate', beforeAuth);
    initializer.registerShutdown(shutdown);
    logger.withField('a', 'b').info('ready %v', { x: 1 });
}
// Reference InitModule to avoid it getting removed on build
!InitModule && InitModule.bind(null);
";

#[test]
fn a_bundle_for_nakama_loads_unchanged() {
    let mut host = TestHost::default();
    let mut scripts = load(BUNDLE, &mut host);
    let registered = scripts.registered();
    assert_eq!(registered.rpc, ["echo", "who"]);
    assert_eq!(registered.before, ["authenticatedevice", "rt:matchcreate"]);
    assert_eq!(registered.after, ["authenticatedevice"]);
    assert_eq!(registered.events, ["shutdown"]);
    assert_eq!(registered.modules, ["index.js"]);
    let place = ("before authenticatedevice".to_owned(), "index.js:7".to_owned());
    assert!(registered.locations.contains(&place), "{:?}", registered.locations);
    assert_eq!(host.logs, ["Info ready {\"x\":1} a=b"]);
    let answer = rpc(&mut scripts, &mut host, "ECHO", "{\"ä\":1}");
    assert_eq!(answer, Ok(Some("{\"ä\":1}".to_owned())));
    let error = rpc(&mut scripts, &mut host, "missing", "").unwrap_err();
    assert_eq!(error.kind, ScriptFailure::NotFound);
}

#[test]
fn the_context_tells_who_calls() {
    let mut host = TestHost::default();
    let mut scripts = load(BUNDLE, &mut host);
    let context = CallContext {
        execution_mode: "rpc",
        user_id: Some(Uuid::max()),
        username: Some("ann".to_owned()),
        vars: vec![("__proto__".to_owned(), "v".to_owned())],
        user_session_exp: Some(7),
        client_ip: Some("127.0.0.1".to_owned()),
        ..CallContext::default()
    };
    let call = GuestCall::Rpc { id: "who", payload: b"" };
    let Returned::Rpc(Some(answer)) =
        ended(scripts.call(&mut host, CallId(1), &context, call)).unwrap()
    else {
        panic!("no answer")
    };
    let expected = format!(
        "[\"{}\",\"ann\",{{\"__proto__\":\"v\"}},\"rpc\",{{\"MODE\":\"test\"}},{{}}]",
        Uuid::max()
    );
    assert_eq!(answer, expected);
}

#[test]
fn hooks_change_refuse_and_fail() {
    let mut host = TestHost::default();
    let mut scripts = load(BUNDLE, &mut host);
    let mut before = |name: &str| {
        let text = format!("{{\"username\":\"{name}\",\"create\":true}}");
        let request = json::decode(text.as_bytes()).unwrap();
        let call = GuestCall::Before { id: "authenticatedevice", request };
        ended(scripts.call(&mut host, CallId(1), &CallContext::default(), call))
    };
    let Ok(Returned::Before(Some(changed))) = before("ann") else { panic!("refused") };
    assert_eq!(json::encode(&changed).unwrap(), br#"{"create":true,"username":"ANN"}"#);
    assert_eq!(before("refused"), Ok(Returned::Before(None)));
    let error = before("broken").unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (3, "no such name"));

    let value = |text: &str| json::decode(text.as_bytes()).unwrap();
    let (answer, request) = (value(r#"{"token":"t"}"#), value(r#"{"create":true}"#));
    let call = GuestCall::After { id: "authenticatedevice", answer, request };
    let after = scripts.call(&mut host, CallId(1), &CallContext::default(), call);
    assert_eq!(ended(after), Ok(Returned::Nothing));
    assert_eq!(host.logs.last().unwrap(), "Info t 1");
    assert!(scripts.hook_form(Callee::Before("authenticatedevice")).style.zeros);
}

#[test]
fn errors_carry_code_message_and_place() {
    for (body, expected) in [
        ("throw new Error('broken')", "!13 Error: broken"),
        ("throw { message: 'mine', code: 5 }", "!5 mine"),
        ("throw { message: 'mine', code: 99 }", "!13 mine"),
        ("throw 'text'", "!13 text"),
        ("var e = new Error('mine'); e.code = 7; throw e", "!7 mine"),
        ("null.foo", "!13 TypeError: cannot read property 'foo' of null"),
        (
            "return 7",
            "!13 Runtime function returned invalid data - only allowed one return value of type \
             string.",
        ),
        ("return undefined", "-"),
        ("return null", "-"),
    ] {
        assert_eq!(run(body), expected, "{body}");
    }
    let mut host = TestHost::default();
    let text = "function f() {\n  throw new Error('x');\n}\nfunction t() {\n  f();\n}\n\
                function InitModule(a, b, c, i) { i.registerRpc('t', t); }";
    let mut scripts = load(text, &mut host);
    let error = rpc(&mut scripts, &mut host, "t", "").unwrap_err();
    assert!(error.location.starts_with("at f (index.js:2:"), "{}", error.location);
    assert!(error.location.contains("index.js:5:"), "{}", error.location);
    assert!(!error.location.contains("throng"), "{}", error.location);
}

/// The first VM runs `InitModule`, the others find functions by their global names; closures make them
/// run it, too.
#[test]
fn init_module_runs_once_if_everything_has_a_global_name() {
    let count = |register: &str| {
        let text = format!(
            "function named() {{ return 'named'; }}\n\
             function InitModule(ctx, logger, nk, initializer) {{\n\
               logger.info('init'); var text = 'closure';\n\
               initializer.registerRpc('t', {register});\n}}"
        );
        let bundle = Arc::new(Bundle::from_text("index.js", &text));
        let mut host = TestHost::default();
        let answers: Vec<_> = (0..3)
            .map(|_| {
                let mut scripts = JsScripts::load(bundle.clone(), roomy(), &mut host).unwrap();
                assert_eq!(scripts.registered().rpc, ["t"]);
                rpc(&mut scripts, &mut host, "t", "").unwrap().unwrap()
            })
            .collect();
        (answers, host.logs.len())
    };
    assert_eq!(count("named"), (vec!["named".to_owned(); 3], 1));
    assert_eq!(count("function () { return text; }"), (vec!["closure".to_owned(); 3], 3));
    assert_eq!(count("() => text"), (vec!["closure".to_owned(); 3], 3));
}

#[test]
fn a_bundle_that_does_not_load_says_where() {
    let mut host = TestHost::default();
    for (text, expected) in [
        (
            "function InitModule() {\n  nothing();\n}",
            "index.js:2: ReferenceError: nothing is not defined",
        ),
        (
            "var x = 1;",
            "index.js: Error: InitModule function not found. Function must be defined at top level.",
        ),
        ("function (", "index.js:1: SyntaxError: function name expected"),
    ] {
        let error = crate::load_with(text, roomy(), &mut host).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}

#[test]
fn what_a_call_does_to_globals_no_other_sees() {
    for body in [
        "Array.prototype.map = null",
        "Object.prototype.evil = 1",
        "Array = null",
        "test = null",
        "globalThis.leak = 1",
        "JSON.parse = null",
        "nk.storageRead = null",
        "logger.info = null",
        "ctx.env.MODE = 'x'",
        "String.prototype.trim = 1",
    ] {
        let answer = run(&format!("'use strict'; {body}; return 'possible'"));
        assert!(answer.starts_with("!13 TypeError"), "{body}: {answer}");
    }
    // What belongs to the call alone it may change.
    assert_eq!(run("ctx.userId = 'x'; var a = []; a.foo = 1; return ctx.userId + a.foo"), "x1");
}

#[test]
fn async_functions_end_with_the_call() {
    let mut host = TestHost::default();
    let text = "async function t(ctx, logger, nk, payload) {\n\
                  await null;\n  if (payload === 'fail') throw { message: 'no', code: 9 };\n\
                  if (payload === 'never') await new Promise(function () {});\n  return 'later';\n}\n\
                function InitModule(a, b, c, i) { i.registerRpc('t', t); }";
    let mut scripts = load(text, &mut host);
    assert_eq!(rpc(&mut scripts, &mut host, "t", ""), Ok(Some("later".to_owned())));
    assert_eq!(rpc(&mut scripts, &mut host, "t", "fail").unwrap_err().code, 9);
    let error = rpc(&mut scripts, &mut host, "t", "never").unwrap_err();
    assert_eq!(error.message, "the promise that was returned is never settled");
}

#[test]
fn the_logger_formats() {
    let mut host = TestHost::default();
    run_on(
        "logger.warn('%s has %d of %v%%', 'ann', 3, {a: [1]}); logger.debug('100%'); \
         logger.error('x', 1); logger.withFields({a: '1', b: '2'}).info('%s'); \
         try { logger.info(7) } catch (e) { logger.info(e.message) }",
        &mut host,
    );
    let expected = [
        "Warn ann has 3 of {\"a\":[1]}%",
        "Debug 100%",
        "Error x 1",
        "Info %s a=1 b=2",
        "Info invalid format argument: must be a string",
    ];
    assert_eq!(host.logs, expected);
}

#[test]
fn what_rules_of_the_zone_are_given_and_return() {
    let bundle = r"
function spawn(ctx, logger, nk, zone) {
    zone.pilots[0].x = zone.side / 2 + ctx.executionMode.length + zone.tickRate;
    zone.pilots[0].userId = zone.pilots[0].userId + '!';
    return zone;
}
function hit() {}
function score() { return [1]; }
function InitModule(ctx, logger, nk, initializer) {
    initializer.registerZoneSpawn(spawn);
    initializer.registerZoneHit(hit);
    initializer.registerZoneScore(score);
}
";
    let mut host = TestHost::default();
    let mut scripts = load(bundle, &mut host);
    assert_eq!(scripts.registered().events, ["zone_hit", "zone_score", "zone_spawn"]);
    let mut ask = |rule: ZoneRule| {
        let pilot = table([("x", Value::Float(1.5)), ("user_id", Value::text("ada"))]);
        let pilots = Value::List(vec![pilot]);
        let zone = [("side", Value::Int(512)), ("tick_rate", Value::Int(20)), ("pilots", pilots)];
        let context = CallContext { execution_mode: rule.handler(), ..CallContext::default() };
        let call = GuestCall::Event { name: rule.handler(), argument: table(zone) };
        ended(scripts.call(&mut host, CallId(1), &context, call))
    };
    let Ok(Returned::Rule(Some(zone))) = ask(ZoneRule::Spawn) else { panic!("no zone") };
    let Some(Value::List(pilots)) = zone.member("pilots") else { panic!("{zone:?}") };
    assert_eq!(pilots[0].member("x").and_then(Value::as_int), Some(256 + 10 + 20));
    assert_eq!(pilots[0].member("user_id").and_then(Value::as_str), Some("ada!"));
    assert_eq!(ask(ZoneRule::Hit), Ok(Returned::Rule(None)));
    let refusal = ask(ZoneRule::Score).unwrap_err();
    assert!(refusal.message.contains("returns the zone that it was given"), "{refusal:?}");
}
