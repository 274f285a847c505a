//! Events through Lua: what scripts say, and what their handlers are given.

use game::events::{Event, EventKind};
use game::guest::{CallContext, GuestCall, Returned, Scripts as _};
use game::rules::{ZoneRule, table};
use game::value::Value;

use crate::host::TestHost;
use crate::straight::Straight as _;
use crate::{load, run, run_on};

#[test]
fn what_scripts_say() {
    let mut host = TestHost::default();
    run_on("nk.event('a', { x = 'y' }, 1700000000, true) nk.event('b')", "", &mut host).unwrap();
    let [first, second] = &host.events[..] else { panic!("{:?}", host.events) };
    assert_eq!((&*first.name, &*first.properties["x"]), ("a", "y"));
    assert_eq!((first.timestamp_s, first.is_external), (Some(1_700_000_000), true));
    assert_eq!(*second, Event { name: "b".to_owned(), ..Event::default() });
    for (body, refusal) in [
        ("nk.event('')", "!13 bad argument #1 to event (expects name string)"),
        ("nk.event('a', 1)", "!13 bad argument #2 to event (table expected)"),
        (
            "nk.event('a', { 'x' })",
            "!13 bad argument #2 to event (properties keys must be strings)",
        ),
        (
            "nk.event('a', { x = 1 })",
            "!13 bad argument #2 to event (properties values must be strings)",
        ),
        (
            "nk.event('a', nil, 0)",
            "!13 bad argument #3 to event (timestamp must be numeric UTC seconds when provided)",
        ),
    ] {
        assert_eq!(run(body), refusal, "{body}");
    }
}

#[test]
fn what_handlers_are_given() {
    let module = "local nk = require('nakama')
        nk.register_event_session_end(function(context, event)
            nk.logger_info(context.execution_mode .. event.name .. event.properties.reason
                .. event.timestamp .. tostring(event.external))
        end)
        nk.register_event(function(context, event)
            nk.logger_info(event.name .. tostring(event.timestamp) .. type(event.properties))
        end)";
    let mut host = TestHost::default();
    let mut scripts = load(&[("m.lua", module)], &mut host).unwrap();
    assert_eq!(scripts.registered().events, ["event", "event_session_end"]);
    let context = CallContext { execution_mode: "event", ..CallContext::default() };
    let custom = Event { name: "custom".to_owned(), ..Event::default() };
    for (kind, event) in [
        (EventKind::SessionEnd, Event::session_end(1_700_000_000, "gone")),
        (EventKind::Custom, custom),
        // Without a handler nothing happens.
        (EventKind::SessionStart, Event::session_start(1)),
    ] {
        scripts.event(&mut host, &context, kind.handler(), event.value()).unwrap();
    }
    scripts.event(&mut host, &context, "shutdown", Value::Nil).unwrap();
    assert_eq!(host.logs, ["Info eventsession_endgone1700000000false", "Info customniltable"]);
}

#[test]
fn what_rules_of_the_zone_are_given_and_return() {
    let module = "local nk = require('nakama')
        nk.register_zone_spawn(function(context, zone)
            zone.pilots[1].x = zone.side / 2 + #context.execution_mode
            return zone
        end)
        nk.register_zone_hit(function() end)
        nk.register_zone_score(function() return 'nothing' end)";
    let mut host = TestHost::default();
    let mut scripts = load(&[("m.lua", module)], &mut host).unwrap();
    assert_eq!(scripts.registered().events, ["zone_hit", "zone_score", "zone_spawn"]);
    let zone = || {
        let pilot = table([("x", Value::Float(1.5)), ("username", Value::text("ada"))]);
        table([("side", Value::Int(512)), ("pilots", Value::List(vec![pilot]))])
    };
    let mut ask = |rule: ZoneRule| {
        let name = rule.handler();
        let context = CallContext { execution_mode: name, ..CallContext::default() };
        scripts.run(&mut host, &context, GuestCall::Event { name, argument: zone() })
    };
    let Ok(Returned::Rule(Some(ruled))) = ask(ZoneRule::Spawn) else { panic!("no table") };
    let Some(Value::List(pilots)) = ruled.member("pilots") else { panic!("{ruled:?}") };
    assert_eq!(pilots[0].member("x").and_then(Value::as_int), Some(256 + 10));
    assert_eq!(pilots[0].member("username").and_then(Value::as_str), Some("ada"));
    assert_eq!(ask(ZoneRule::Hit), Ok(Returned::Rule(None)));
    let refusal = ask(ZoneRule::Score).unwrap_err();
    assert!(refusal.message.contains("returns the zone that it was given"), "{refusal:?}");
}
