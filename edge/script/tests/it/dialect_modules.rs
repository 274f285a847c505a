//! Modules as people write them for Nakama (`tests/modules`): all load in one server, and each
//! says "ok" to an RPC of its name.

use std::path::Path;
use std::sync::Arc;

use game::guest::{MatchContext, Scripts as _};
use game::value::Value;
use script::{LuaScripts, Sources};

use crate::host::{TestDispatcher, TestHost};
use crate::straight::{Straight as _, StraightMatch as _};
use crate::{context, load_with, roomy, run};

#[test]
fn modules_in_the_style_of_nakama_load_and_run() {
    load_and_run(false);
}

#[test]
fn they_do_so_with_ordered_tables() {
    load_and_run(true);
}

fn load_and_run(ordered: bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules");
    let sources = Arc::new(Sources::new(ordered).and_read(&folder).unwrap());
    let mut host = TestHost { dispatcher: Some(TestDispatcher::default()), ..TestHost::default() };
    let mut scripts = LuaScripts::load(Arc::clone(&sources), roomy().into(), &mut host).unwrap();
    let names = scripts.registered().rpc.clone();
    assert!(names.len() >= 20, "{names:?}");
    let mut failed = Vec::new();
    for name in &names {
        match scripts.rpc(&mut host, &context(), name, b"") {
            Ok(Some(answer)) if answer[..] == *b"ok" => {}
            other => failed.push(format!("{name}: {other:?}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let context = MatchContext { match_id: "m".into(), label: String::new(), tick_rate_hz: 5 };
    let (mut lobby, init) = scripts.match_start(&mut host, &context, "lobby", Value::Nil).unwrap();
    assert_eq!((init.tick_rate_hz, &*init.label), (5, "{\"mode\":\"casual\",\"open\":1}"));
    for tick in 1..=51 {
        assert_eq!(lobby.tick(&mut host, &context, tick, &[]).unwrap(), tick <= 50);
    }
}

#[test]
fn matches_may_lack_what_has_an_obvious_default() {
    let mut host = TestHost { dispatcher: Some(TestDispatcher::default()), ..TestHost::default() };
    let context = MatchContext { match_id: "m".into(), label: String::new(), tick_rate_hz: 5 };
    let text = "return {
        match_init = function(_, params) return {n = params[2] .. params[3][5]}, 5, params[2] end,
        match_loop = function(_, _, _, state) return state end,
    }";
    let mut scripts = load_with(&[("m.lua", text)], roomy(), &mut host).unwrap();
    let list = |items: &[Value]| Value::List(items.to_vec());
    let inner = list(&[Value::Nil, Value::Nil, Value::Nil, Value::Nil, Value::text("X")]);
    let params = list(&[Value::Nil, Value::text("two"), inner]);
    let (mut running, init) = scripts.match_start(&mut host, &context, "m", params).unwrap();
    assert_eq!(&*init.label, "two");
    assert!(running.tick(&mut host, &context, 1, &[]).unwrap());
    assert_eq!(running.signal(&mut host, &context, 2, b"hello").unwrap().unwrap()[..], *b"");
    assert!(running.terminate(&mut host, &context, 3, 5).unwrap());

    let text = "return {match_init = function() return {}, 5, '' end}";
    let mut scripts = load_with(&[("m.lua", text)], roomy(), &mut host).unwrap();
    let error = scripts.match_start(&mut host, &context, "m", Value::Nil).err().unwrap();
    assert_eq!(error.message, "match_loop not found or not a function");
}

#[test]
fn what_would_get_lost_is_said() {
    for (body, wanted) in [
        ("return nk.match_create('arena', {1, 2})", "00000000-"),
        ("return nk.match_create('arena', {[5] = 'X', name = 'n'})", "!13 bad argument #2"),
        ("return nk.match_create('arena')", "00000000-"),
        ("return tostring(#nk.match_list())", "0"),
        ("return tostring(#nk.match_list(10, true))", "0"),
    ] {
        let answer = run(body);
        assert!(answer.starts_with(wanted), "{body}: {answer}");
    }
    let mut host = TestHost::default();
    crate::run_on("return nk.json_encode({1, 2, name = 'x'})", "", &mut host).unwrap();
    assert!(host.logs.iter().all(|line| line.contains("1 named members are left out")));
}
