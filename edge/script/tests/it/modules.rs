//! The example modules and those of the load scenarios: they load, and play.

use std::path::Path;
use std::sync::Arc;

use game::guest::{JoinRequest, MatchContext, MatchMessage, MatchScript, Presence, PresenceReason};
use game::node::NodeId;
use game::value::Value;
use script::{LuaLimits, LuaScripts, Sources};
use uuid::Uuid;

use crate::context;
use crate::host::{TestDispatcher, TestHost};
use crate::straight::{Straight as _, StraightMatch as _};

fn examples(host: &mut TestHost) -> LuaScripts {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = Vec::new();
    for folder in ["examples", "scenarios/modules"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // Beside them are folders with examples in other languages.
            if path.extension().is_none_or(|ending| ending != "lua") {
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            texts.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
    let texts = texts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let sources = Sources::from_texts(texts).unwrap();
    host.dispatcher = Some(TestDispatcher { keep: true, ..TestDispatcher::default() });
    LuaScripts::load(Arc::new(sources), LuaLimits::default(), host).unwrap()
}

fn presence(number: u128) -> Presence {
    let user_id = Uuid::from_u128(number);
    let node = NodeId::default();
    Presence { user_id, session_id: user_id, username: "player".into(), node }
}

fn start(module: &str, host: &mut TestHost) -> (Box<dyn MatchScript>, MatchContext) {
    let mut scripts = examples(host);
    let mut context =
        MatchContext { match_id: "m.node1".into(), label: String::new(), tick_rate_hz: 0 };
    let (running, init) = scripts.match_start(host, &context, module, Value::Nil).unwrap();
    context.label = init.label;
    (running, context)
}

fn join(
    running: &mut dyn MatchScript,
    context: &MatchContext,
    number: u128,
    host: &mut TestHost,
) -> bool {
    let request = JoinRequest {
        presence: presence(number),
        metadata: Vec::new(),
        vars: Vec::new(),
        user_session_exp: 0,
        client_ip: None,
        client_port: None,
    };
    let verdict = running.join_attempt(host, context, 0, &request).unwrap().unwrap();
    if verdict.allow {
        let joined = [(presence(number), PresenceReason::Join)];
        assert!(running.presences(host, context, 0, true, &joined).unwrap());
    }
    verdict.allow
}

fn message(number: u128, op_code: i64, data: &'static str) -> MatchMessage {
    MatchMessage {
        sender: presence(number),
        op_code,
        data: data.into(),
        reliable: true,
        receive_time_ms: 0,
    }
}

/// What was sent since the last look: opcode, text, and to how many (`None` is all).
fn sent(host: &mut TestHost) -> Vec<(i64, String, Option<usize>)> {
    let sent = std::mem::take(&mut host.dispatcher.as_mut().unwrap().sent);
    let text = |data: &[u8]| String::from_utf8(data.to_vec()).unwrap();
    sent.iter().map(|b| (b.op_code, text(&b.data), b.to.as_ref().map(|to| to.len()))).collect()
}

#[test]
fn echo_echoes_and_the_benchmark_makes_its_match() {
    let mut host = TestHost::default();
    let mut scripts = examples(&mut host);
    let answer = scripts.rpc(&mut host, &context(), "echo", b"hello").unwrap();
    assert_eq!(answer.unwrap()[..], *b"hello");
    let answer = scripts.rpc(&mut host, &context(), "bench_find_match", b"").unwrap().unwrap();
    assert_eq!(answer[..], *br#"{"match_id":"00000000-0000-4000-8000-000000000001.node1"}"#);
    assert_eq!(host.created[0].0, "bench_match");
    let sized = scripts.rpc(&mut host, &context(), "bench_find_match", br#"{"group":50}"#);
    assert!(sized.unwrap().is_some());
    assert!(format!("{:?}", host.created[1].1).contains("50"), "{:?}", host.created[1]);
    let mut made = || {
        let taken = scripts.rpc(&mut host, &context(), "bench_take_seat", br#"{"group":2}"#);
        assert!(taken.unwrap().is_some());
        host.created.len()
    };
    assert_eq!([made(), made(), made(), made(), made()], [3, 3, 4, 4, 5], "a match for every two");
}

/// As many as were asked for, and each part once.
#[test]
fn the_bank_makes_its_accounts() {
    let store = store::Store::open_in_memory().unwrap();
    let mut host = TestHost { real_db: Some(store.connect().unwrap()), ..TestHost::default() };
    let mut scripts = examples(&mut host);
    let mut call = |id: &str, payload: &str| {
        let answer = scripts.rpc(&mut host, &context(), id, payload.as_bytes()).unwrap();
        String::from_utf8_lossy(&answer.unwrap()).into_owned()
    };
    // Five parts of two are ten.
    for (part, made) in [(0, 2), (1, 2), (2, 2), (3, 1), (4, 0), (3, 0)] {
        let wish = format!(r#"{{"accounts":7,"parts":5,"part":{part}}}"#);
        assert_eq!(call("bench_transfer_fill", &wish), format!(r#"{{"made":{made}}}"#), "{part}");
    }
    let total = call("bench_transfer_total", "");
    assert!(total.contains(r#""accounts":7"#) && total.contains(r#""coins":7000"#), "{total}");
}

#[test]
fn the_benchmark_match_echoes_broadcasts_fills_up_and_ends() {
    let mut host = TestHost::default();
    let (mut running, context) = start("bench_match", &mut host);
    let allowed = (1..=11).filter(|number| join(&mut *running, &context, *number, &mut host));
    assert_eq!(allowed.count(), 10);
    let messages = [message(1, 1, "a"), message(1, 2, "b"), message(1, 3, "c")];
    assert!(running.tick(&mut host, &context, 1, &messages).unwrap());
    assert_eq!(sent(&mut host), [(1, "a".into(), Some(1)), (2, "b".into(), None)]);
    let gone: Vec<_> = (1..=10).map(|n| (presence(n), PresenceReason::Leave)).collect();
    assert!(running.presences(&mut host, &context, 1, false, &gone).unwrap());
    let ticks = (2..1_000).take_while(|t| running.tick(&mut host, &context, *t, &[]).unwrap());
    assert_eq!(ticks.count(), 99);
}

#[test]
fn tic_tac_toe_is_played_to_the_end() {
    let mut host = TestHost::default();
    let (mut running, context) = start("tic_tac_toe", &mut host);
    assert_eq!(context.label, r#"{"game":"tic_tac_toe","open":1}"#);
    assert!(join(&mut *running, &context, 1, &mut host));
    assert!(join(&mut *running, &context, 2, &mut host));
    assert!(!join(&mut *running, &context, 3, &mut host), "it is full");
    assert_eq!(host.dispatcher.as_ref().unwrap().labels, [r#"{"game":"tic_tac_toe","open":0}"#]);
    assert_eq!(sent(&mut host)[0].0, 1);
    let mut play = |number, cell| {
        let messages = [message(number, 4, cell)];
        assert!(running.tick(&mut host, &context, 1, &messages).unwrap());
        sent(&mut host).remove(0)
    };
    for (number, cell, wanted) in [
        (2, r#"{"cell":1}"#, r#"{"reason":"it is not your turn"}"#),
        (1, "nonsense", r#"{"reason":"cell must be a whole number from 1 to 9"}"#),
        (1, r#"{"cell":1.5}"#, r#"{"reason":"cell must be a whole number from 1 to 9"}"#),
        (1, r#"{"cell":1}"#, r#"{"board":["X","","","","","","","",""],"turn":"O"}"#),
        (2, r#"{"cell":1}"#, r#"{"reason":"this cell is taken"}"#),
        (2, r#"{"cell":4}"#, r#"{"board":["X","","","O","","","","",""],"turn":"X"}"#),
        (1, r#"{"cell":2}"#, r#"{"board":["X","X","","O","","","","",""],"turn":"O"}"#),
        (2, r#"{"cell":5}"#, r#"{"board":["X","X","","O","O","","","",""],"turn":"X"}"#),
        (
            1,
            r#"{"cell":3}"#,
            r#"{"board":["X","X","X","O","O","","","",""],"turn":"O","winner":"X"}"#,
        ),
        (2, r#"{"cell":6}"#, r#"{"reason":"the game is not running"}"#),
    ] {
        assert_eq!(play(number, cell).1, wanted);
    }
}

#[test]
fn a_player_who_thinks_too_long_loses() {
    let mut host = TestHost::default();
    let (mut running, context) = start("tic_tac_toe", &mut host);
    join(&mut *running, &context, 1, &mut host);
    join(&mut *running, &context, 2, &mut host);
    sent(&mut host);
    for tick in 0..100 {
        assert!(running.tick(&mut host, &context, tick, &[]).unwrap());
    }
    let done = sent(&mut host);
    assert_eq!((done.len(), done[0].0), (1, 3));
    assert!(done[0].1.contains(r#""winner":"O""#));
}
