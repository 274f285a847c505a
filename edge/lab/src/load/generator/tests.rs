//! The generator against made-up servers, in made-up time: a run of a minute takes milliseconds,
//! and is the same every time.

mod arrivals;
mod hardship;
mod rows;
mod tls;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use event::{ConnId, ConnectFailure, Handler, Input, Now, Op, Output};

use super::{Command, Event, Generator, Node, Settings, Share};
use crate::load::record::{Record, Stage};
use crate::load::scenario::data::table_of;
use crate::load::scenario::program::{Dials, Program, compile};
use crate::load::scenario::{Scenario, built_in, parse};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// What a made-up server does with the bytes of one connection: answers and when they arrive.
enum Act {
    Answer { at_ns: u64, bytes: Vec<u8> },
    Close { at_ns: u64 },
}

type Server<'a> = dyn FnMut(u64, u32, &[u8]) -> Vec<Act> + 'a;

enum Happening {
    Command(Command),
    Connected(u64),
    Failed(u64, ConnectFailure),
    Bytes(u32, Vec<u8>),
    Eof(u32),
    Wake,
}

struct World<'a> {
    generator: Generator,
    events: Receiver<Event>,
    queue: BTreeMap<(u64, u64), Happening>,
    serial: u64,
    conns: u32,
    server: &'a mut Server<'a>,
    /// What becomes of an attempt to connect at this moment, and how long it takes; `None` is no
    /// answer at all.
    connect: &'a Connect<'a>,
    /// How late wake-ups come.
    wake_late_ns: u64,
    total: Record,
    stages: Vec<(Stage, u64)>,
    told: Vec<&'static str>,
}

type Connect<'a> = dyn Fn(u64) -> Option<(Result<(), ConnectFailure>, u64)> + 'a;

impl<'a> World<'a> {
    fn new(text: &str, change: impl FnOnce(&mut Settings), server: &'a mut Server<'a>) -> Self {
        let scenario = scenario(text);
        let program = Arc::new(program(text));
        let mut settings = Settings {
            nodes: vec![Node {
                addr: "127.0.0.1:1".parse().unwrap(),
                host: "h".to_owned(),
                tls_name: None,
            }],
            tls: None,
            source: super::Source::default(),
            first_sender: 0,
            players: scenario.players,
            first_number: 0,
            players_all: scenario.players,
            share: Share::WHOLE,
            rate: scenario.rate,
            rate_end: None,
            saturate: false,
            has_clock: false,
            waits_for_go: false,
            ramp_ns: 0,
            warm_up_ns: 0,
            counted_ns: 10 * S,
            timeout_ns: 10 * S,
            phases: scenario.phases,
            run_tag: 7,
            seed: 1,
        };
        change(&mut settings);
        settings.players_all = settings.players;
        let (sender, events) = sync_channel(64);
        Self {
            total: Record::new(Stage::Counted, program.ops.len(), 0),
            generator: Generator::new(program, settings, sender),
            events,
            queue: BTreeMap::new(),
            serial: 0,
            conns: 0,
            server,
            connect: &|_| Some((Ok(()), 20_000)),
            wake_late_ns: 0,
            stages: Vec::new(),
            told: Vec::new(),
        }
    }

    fn at(&mut self, at_ns: u64, what: Happening) {
        self.serial += 1;
        self.queue.insert((at_ns, self.serial), what);
    }

    /// Runs until the generator stops; returns what it recorded.
    fn run(mut self) -> (Record, Vec<(Stage, u64)>) {
        self.play();
        (self.total, self.stages)
    }

    fn play(&mut self) {
        self.at(S, Happening::Command(Command::Begin));
        let mut out = Output::default();
        for _ in 0..20_000_000_u32 {
            let ((now_ns, _), what) =
                self.queue.pop_first().expect("the generator sleeps for ever");
            let now = Now { mono_ns: now_ns, unix_ms: 0 };
            let conn = |slot| ConnId { slot, generation: 0 };
            let stops = match &what {
                Happening::Command(command) => self.input(now, Input::Mail(*command), &mut out),
                Happening::Connected(token) => {
                    self.conns += 1;
                    let conn = conn(self.conns);
                    self.input(now, Input::Connected { conn, token: *token }, &mut out)
                }
                Happening::Failed(token, cause) => {
                    let failed = Input::ConnectFailed { token: *token, failure: *cause };
                    self.input(now, failed, &mut out)
                }
                Happening::Bytes(slot, bytes) => {
                    let bytes = &mut bytes.clone()[..];
                    self.input(now, Input::Bytes { conn: conn(*slot), bytes }, &mut out)
                }
                Happening::Eof(slot) => self.input(now, Input::Eof { conn: conn(*slot) }, &mut out),
                Happening::Wake => self.input(now, Input::Wake, &mut out),
            };
            if stops || self.input(now, Input::TurnEnd, &mut out) {
                return;
            }
        }
        panic!("the run does not end");
    }

    /// Gives one input and does what comes out; `true` when it stops.
    fn input(&mut self, now: Now, input: Input<'_, Command>, out: &mut Output<Command>) -> bool {
        self.generator.handle(now, input, out);
        if let Some(wake) = out.take_wake() {
            self.queue.retain(|_, what| !matches!(what, Happening::Wake));
            if let Some(at_ns) = wake {
                let late_ns = self.wake_late_ns;
                self.at(at_ns.max(now.mono_ns) + late_ns, Happening::Wake);
            }
        }
        let mut stops = false;
        let (ops, arena) = out.parts();
        let ops: Vec<_> = ops.collect();
        let sends: VecDeque<_> = ops
            .iter()
            .filter_map(|op| match op {
                Op::Send { conn, range } => Some((conn.slot, arena[range.clone()].to_vec())),
                _ => None,
            })
            .collect();
        out.reset();
        for op in ops {
            match op {
                Op::Connect { token, .. } => match (self.connect)(now.mono_ns) {
                    Some((Ok(()), after_ns)) => {
                        self.at(now.mono_ns + after_ns, Happening::Connected(token));
                    }
                    Some((Err(cause), after_ns)) => {
                        self.at(now.mono_ns + after_ns, Happening::Failed(token, cause));
                    }
                    None => {}
                },
                Op::Stop => stops = true,
                _ => {}
            }
        }
        for (slot, bytes) in sends {
            for act in (self.server)(now.mono_ns, slot, &bytes) {
                match act {
                    Act::Answer { at_ns, bytes } => self.at(at_ns, Happening::Bytes(slot, bytes)),
                    Act::Close { at_ns } => self.at(at_ns, Happening::Eof(slot)),
                }
            }
        }
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Stage(stage) => self.stages.push((stage, now.mono_ns)),
                Event::Record(record) => {
                    for op in 0..record.ops.len() {
                        self.total.add_op(op, &record);
                    }
                    self.total.add_rest(&record, record.stage == Stage::Counted);
                    self.total.ready = self.total.ready.max(record.ready);
                    self.total.lacking.extend(record.lacking);
                }
                Event::Ready => self.told.push("ready"),
                Event::Stopped => self.told.push("stopped"),
                Event::Done => {}
            }
        }
        stops
    }
}

/// A scenario whose data files have ten rows each.
fn scenario(text: &str) -> Scenario {
    let mut scenario = parse(text).unwrap();
    let rows = (0..10).map(|id| format!("{id},\"u\"\"{id}\"\"\"\n"));
    let rows = format!("id,name\n{}", rows.collect::<String>());
    for data in &mut scenario.data {
        data.table = table_of("csv", &rows);
    }
    scenario
}

fn program(text: &str) -> Program {
    let scenario = scenario(text);
    let dials = Dials {
        hosts: vec!["h".to_owned()],
        server_key: "s".to_owned(),
        http_key: "k".to_owned(),
        run: "r".to_owned(),
        vars: BTreeMap::new(),
        pipeline: scenario.pipeline,
    };
    compile(&scenario, &dials).unwrap()
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

const ONE_GET: &str = "name='a'\ntitle='a'\nplayers=1\nrate=1000\n[[session]]\nname='s'\nprocess='constant'\n\
                       [[session.loop]]\nop='get'\nget='/x'\n";

/// A server that needs 1 ms for an answer and stands still for the first second of every ten.
fn stalling(now_ns: u64) -> u64 {
    let done_ns = now_ns + MS;
    if done_ns % (10 * S) < S { done_ns - done_ns % (10 * S) + S } else { done_ns }
}

#[test]
fn the_rate_counts_requests_and_not_writes() {
    for pipeline in [1, 4] {
        let text = format!("pipeline={pipeline}\n{ONE_GET}");
        let mut server = |now_ns, _, bytes: &[u8]| {
            let requests = bytes.windows(4).filter(|it| it == b"\r\n\r\n").count();
            vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.repeat(requests) }]
        };
        let change = |settings: &mut Settings| settings.players = 10;
        let (total, _) = World::new(&text, change, &mut server).run();
        let done = total.ops[0].done;
        assert!((9_950..=10_050).contains(&done), "{pipeline} in a write: {done}");
    }
}

#[test]
fn a_stall_shows_in_the_response_time_and_not_in_the_closed_loop() {
    for (saturate, slowest_ms) in [(false, 850..=950), (true, 1..=2)] {
        let mut server =
            |now_ns, _, _: &[u8]| vec![Act::Answer { at_ns: stalling(now_ns), bytes: OK.to_vec() }];
        let change = |settings: &mut Settings| {
            settings.players = if saturate { 1 } else { 100 };
            settings.saturate = saturate;
            settings.counted_ns = 60 * S;
        };
        let (total, _) = World::new(ONE_GET, change, &mut server).run();
        let op = &total.ops[0];
        let times = if saturate { &op.service } else { &op.response };
        let p99_ms = times.histogram().unwrap().value_at_quantile(0.99) / MS;
        assert!(slowest_ms.contains(&p99_ms), "saturate {saturate}: p99 {p99_ms} ms");
        if !saturate {
            assert!((59_900..=60_100).contains(&(op.done + op.missed)), "{} done", op.done);
            // The requests that were sent into the stall saw it; those that were due meanwhile
            // and could not be sent did not, which is what the response time is for.
            let service = op.service.histogram().unwrap();
            assert!(service.count_between(100 * MS, u64::MAX) <= 700);
        }
        assert!(total.errors.is_empty(), "{:?}", total.errors);
    }
}

#[test]
fn operations_unanswered_at_the_end_count_as_slow_as_they_were() {
    let mut server = |now_ns: u64, _, _: &[u8]| {
        // Never answers again after five seconds.
        let late = now_ns > 6 * S;
        if late { vec![] } else { vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.to_vec() }] }
    };
    let change = |settings: &mut Settings| {
        settings.players = 10;
        settings.rate = Some(100.0);
        settings.timeout_ns = 30 * S;
    };
    let (total, _) = World::new(ONE_GET, change, &mut server).run();
    let op = &total.ops[0];
    assert_eq!(op.unanswered + op.failed, 10);
    assert!((480..=500).contains(&op.missed), "{} missed", op.missed);
    let response = op.response.histogram().unwrap();
    assert_eq!(response.len(), op.done + op.missed + 10);
    assert!(response.max() >= 30 * S);
    assert!((4 * S..=6 * S).contains(&response.value_at_quantile(0.98)));
}

#[test]
fn answers_may_come_in_any_pieces() {
    let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    for (answer, pieces) in [(OK, 1), (OK, OK.len()), (&answer[..], 1), (&answer[..], answer.len())]
    {
        for split in 0..answer.len() {
            let mut server = |now_ns, _, _: &[u8]| {
                let parts: Vec<&[u8]> = if pieces > 1 {
                    answer.chunks(1).collect()
                } else {
                    vec![&answer[..split], &answer[split..]]
                };
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                parts
                    .map(|part| Act::Answer { at_ns: now_ns + MS / 5, bytes: part.to_vec() })
                    .collect()
            };
            let change = |settings: &mut Settings| {
                settings.players = 2;
                settings.saturate = true;
                settings.counted_ns = 3 * MS;
            };
            let (total, _) = World::new(ONE_GET, change, &mut server).run();
            assert!(
                total.ops[0].done > 5 && total.errors.is_empty(),
                "{split}: {:?}",
                total.errors
            );
            if pieces > 1 {
                break;
            }
        }
    }
}

#[test]
fn what_servers_do_wrong_is_counted_by_kind_and_the_run_goes_on() {
    let close = |at_ns| Act::Close { at_ns };
    type Answer<'a> = &'a dyn Fn(u64) -> Vec<Act>;
    let cases: [(&str, Answer<'_>); 6] = [
        ("status 503", &|at_ns| {
            let bytes = b"HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\nbusy".to_vec();
            vec![Act::Answer { at_ns, bytes }]
        }),
        ("not HTTP", &|at_ns| vec![Act::Answer { at_ns, bytes: b"garbage\r\n\r\n".to_vec() }]),
        ("connection closed", &|at_ns| vec![close(at_ns)]),
        ("connection closed by the server within an answer", &|at_ns| {
            vec![Act::Answer { at_ns, bytes: OK[..20].to_vec() }, close(at_ns)]
        }),
        ("bytes that nobody asked for", &|at_ns| {
            vec![Act::Answer { at_ns, bytes: [OK, b"HTTP/1.1 200 OK"].concat() }]
        }),
        ("time-out", &|_| vec![]),
    ];
    for (kind, answer) in cases {
        let mut asked = 0_u32;
        let mut server = |now_ns, _, _: &[u8]| {
            asked += 1;
            // Every third answer is wrong.
            if asked.is_multiple_of(3) {
                return answer(now_ns + MS);
            }
            vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.to_vec() }]
        };
        let change = |settings: &mut Settings| {
            settings.players = 2;
            settings.rate = Some(20.0);
            settings.timeout_ns = S;
        };
        let (total, _) = World::new(ONE_GET, change, &mut server).run();
        let op = &total.ops[0];
        let found: u64 = total
            .errors
            .iter()
            .filter(|((_, found), _)| found.text.starts_with(kind))
            .map(|(_, error)| error.count)
            .sum();
        assert!(found >= 8, "{kind}: {:?}", total.errors);
        assert!(op.done >= 16, "{kind}: {} done", op.done);
        if !kind.starts_with("bytes") {
            assert_eq!(op.done + op.failed + op.unanswered, op.started, "{kind}");
        }
    }
}

#[test]
fn a_run_without_a_single_ready_player_is_given_up() {
    let text = "name='a'\ntitle='a'\nplayers=3\n[[session]]\nname='s'\nprocess='constant'\n[[session.first]]\n\
                op='login'\nget='/l'\n[[session.loop]]\nop='get'\nget='/x'\n";
    let mut server = |now_ns, _, _: &[u8]| {
        let bytes = b"HTTP/1.1 401 X\r\nServer: made up\r\nContent-Length: 0\r\n\r\n".to_vec();
        vec![Act::Answer { at_ns: now_ns + MS, bytes }]
    };
    let (total, stages) = World::new(text, |_| {}, &mut server).run();
    let kinds: Vec<_> = total.errors.keys().map(|(_, kind)| &*kind.text).collect();
    assert_eq!(kinds, ["status 401", "no player became ready: the run ends"]);
    let (last, at_ns) = *stages.last().unwrap();
    assert!(last == Stage::Done && (11 * S..=23 * S).contains(&at_ns), "{stages:?}");
}

#[test]
fn refused_connections_are_counted_and_tried_again() {
    let mut server = |_, _, _: &[u8]| vec![];
    let change = |settings: &mut Settings| settings.players = 3;
    for (cause, wanted) in [
        (ConnectFailure::Refused, "connect: refused"),
        (ConnectFailure::TimedOut, "connect: timed out"),
        (ConnectFailure::Unreachable, "connect: address unreachable"),
        (ConnectFailure::NoLocalPort, "connect: no local port left (net.ipv4.ip_local_port_range)"),
        (ConnectFailure::NoFiles, "connect: no open file left (ulimit -n)"),
        (ConnectFailure::NoSlot, "connect: the generator has no connection left"),
        (ConnectFailure::Other { errno: 13 }, "connect: error 13 of the system"),
    ] {
        let mut world = World::new(ONE_GET, change, &mut server);
        let connect = move |_| Some((Err(cause), 20_000));
        world.connect = &connect;
        let (total, stages) = world.run();
        let kinds: Vec<_> = total.errors.keys().map(|(_, kind)| &*kind.text).collect();
        assert_eq!(kinds, [wanted]);
        let count = total.errors.values().next().unwrap().count;
        assert!((20..=40).contains(&count), "{count}");
        assert_eq!(stages.last().unwrap().0, Stage::Done);
    }
}

#[test]
fn players_of_phases_come_do_their_session_and_go() {
    let text = "name='a'\ntitle='a'\n[[phase]]\nduration='5s'\narrivals=10\n[[phase]]\nduration='5s'\n\
                arrivals=20\nprocess='poisson'\n[[session]]\nname='s'\nprocess='constant'\nweight=3\n[[session.first]]\n\
                op='get'\nget='/${player}'\n[[session.first]]\nthink='100ms'\n[[session.last]]\n\
                op='bye'\nget='/bye'\n[[session]]\nname='t'\nprocess='constant'\n[[session.first]]\nop='other'\nget='/o'\n";
    let mut server =
        |now_ns, _, _: &[u8]| vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.to_vec() }];
    let (total, stages) = World::new(text, |_| {}, &mut server).run();
    let done: Vec<_> = total.ops.iter().map(|op| op.done).collect();
    assert_eq!(done[0], done[1], "{done:?}");
    assert!((120..=180).contains(&(done[0] + done[2])), "{done:?}");
    assert!((2..=5).contains(&(done[0] / done[2])), "{done:?}");
    assert!(total.errors.is_empty(), "{:?}", total.errors);
    assert_eq!(stages.last().unwrap().0, Stage::Done);
}

#[test]
fn all_beats_together_are_even() {
    let mut times = Vec::new();
    let mut server = |now_ns, _, _: &[u8]| {
        times.push(now_ns);
        vec![Act::Answer { at_ns: now_ns + MS, bytes: OK.to_vec() }]
    };
    let change = |settings: &mut Settings| {
        settings.players = 50;
        settings.rate = Some(500.0);
        settings.counted_ns = 2 * S;
    };
    World::new(ONE_GET, change, &mut server).run();
    assert!((990..=1_010).contains(&times.len()), "{}", times.len());
    assert!(times.windows(2).all(|pair| (MS..=3 * MS).contains(&(pair[1] - pair[0]))));
}

#[test]
fn independent_players_do_not_keep_step_with_a_server_that_ticks() {
    // Answers come with the next tick of a tenth of a second; each player asks twenty times a second.
    for (process, is_locked) in [("process='constant'\n", true), ("", false)] {
        let text = ONE_GET.replace("process='constant'\n", &format!("pace='player'\n{process}"));
        let mut server = |now_ns: u64, _, _: &[u8]| {
            let tick_ns = 100 * MS;
            vec![Act::Answer { at_ns: (now_ns / tick_ns + 1) * tick_ns, bytes: OK.to_vec() }]
        };
        let change = |settings: &mut Settings| {
            settings.players = 5;
            settings.rate = Some(2.0);
            settings.counted_ns = 60 * S;
        };
        let (total, _) = World::new(&text, change, &mut server).run();
        let response = total.ops[0].response.histogram().unwrap();
        let waits = response.iter_recorded().count();
        assert_eq!(waits <= 10, is_locked, "{process}: {waits} waits of {}", response.len());
    }
}

#[test]
fn a_rate_may_rise_while_it_is_counted() {
    for (from, until, wanted) in
        [(100.0, 500.0, [140, 220, 300, 380, 460]), (500.0, 100.0, [460, 380, 300, 220, 140])]
    {
        let mut times = Vec::new();
        let mut server = |now_ns: u64, _, _: &[u8]| {
            times.push(now_ns - S);
            vec![Act::Answer { at_ns: now_ns + MS / 10, bytes: OK.to_vec() }]
        };
        let change = |settings: &mut Settings| {
            settings.players = 50;
            settings.rate = Some(from);
            settings.rate_end = Some(until);
            settings.warm_up_ns = S;
        };
        World::new(ONE_GET, change, &mut server).run();
        // Fifths of the ten seconds that are counted, after one of warm-up.
        let found = [0_u64, 1, 2, 3, 4].map(|fifth| {
            let (start, end) = (S + fifth * 2 * S, S + (fifth + 1) * 2 * S);
            times.iter().filter(|at| (start..end).contains(*at)).count() / 2
        });
        for (found, wanted) in found.into_iter().zip(wanted) {
            assert!(
                found.abs_diff(wanted) <= wanted / 8,
                "{from} to {until}: {found} for {wanted}"
            );
        }
    }
}

#[test]
fn poisson_beats_of_all_players_are_as_many_and_as_irregular_as_they_should_be() {
    let text = ONE_GET.replace("process='constant'\n", "");
    let mut times = Vec::new();
    let mut server = |now_ns: u64, _, _: &[u8]| {
        times.push(now_ns);
        vec![Act::Answer { at_ns: now_ns + MS / 10, bytes: OK.to_vec() }]
    };
    let change = |settings: &mut Settings| {
        settings.players = 50;
        settings.rate = Some(500.0);
    };
    let (total, _) = World::new(&text, change, &mut server).run();
    let op = &total.ops[0];
    assert!((4_800..=5_200).contains(&(op.done + op.missed)), "{} {}", op.done, op.missed);
    // Of exponential gaps one in e is longer than the mean.
    let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 2 * MS).count();
    assert!((1_700..=2_000).contains(&long), "{long} of {}", times.len());
}

/// Matches in which every player is alone: every tenth echo comes twice, every seventh is lost, and
/// the first one of each player too. What is sent last comes when it is nearly too late. The first
/// three to join find their match full. Meanwhile dead, it hangs up on whoever says something.
fn match_server(dead_ns: std::ops::Range<u64>) -> impl FnMut(u64, u32, &[u8]) -> Vec<Act> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use wire::http1;
    use wire::websocket::{self, Message, Opcode, Role};
    let mut sockets: BTreeMap<u32, websocket::Decoder> = BTreeMap::new();
    let (mut echoes, mut joins) = (0_u32, 0_u32);
    move |now_ns: u64, slot: u32, bytes: &[u8]| {
        if dead_ns.contains(&now_ns) {
            return vec![Act::Close { at_ns: now_ns + 1 }];
        }
        let mut answer = Vec::new();
        let mut rest = bytes;
        if let Some(decoder) = sockets.get_mut(&slot) {
            let mut scratch = Vec::new();
            while let Ok(Some(message)) = decoder.next(&mut rest, &mut scratch) {
                let Message::Text(text) = message else { continue };
                let json: serde_json::Value = serde_json::from_str(text).unwrap();
                let reply = match &json["match_data_send"] {
                    serde_json::Value::Null if json["match_join"].is_object() && joins < 3 => {
                        joins += 1;
                        let error = r#""error":{"code":5,"message":"match full"}"#;
                        format!("{{\"cid\":{},{error}}}", json["cid"])
                    }
                    serde_json::Value::Null => {
                        let key = if json["ping"].is_object() { "pong" } else { "match" };
                        format!("{{\"cid\":{},\"{key}\":{{}}}}", json["cid"])
                    }
                    data => {
                        assert_eq!(data["match_id"], "m.n");
                        let payload = STANDARD.decode(data["data"].as_str().unwrap()).unwrap();
                        let is_echo = data["op_code"] == "1";
                        assert_eq!(payload.len(), if is_echo { 44 } else { 35 });
                        echoes += u32::from(is_echo);
                        if is_echo && (echoes <= 5 || echoes.is_multiple_of(7)) {
                            continue;
                        }
                        format!("{{\"match_data\":{data}}}")
                    }
                };
                let is_twice = reply.contains("match_data") && echoes.is_multiple_of(10);
                for _ in 0..=u32::from(is_twice) {
                    websocket::encode(&mut answer, Opcode::Text, reply.as_bytes());
                }
            }
        } else {
            let mut decoder = http1::Decoder::new();
            let limits = http1::Limits::default();
            let request = decoder.next(&mut rest, &limits).unwrap().unwrap();
            if request.upgrade.is_some() {
                assert!(request.target.query.contains("token=t.o.k"), "{}", request.target.query);
                websocket::accept(&mut answer, &request, &[]).unwrap();
                sockets.insert(slot, websocket::Decoder::new(Role::Server, 4_096));
            } else {
                let body = if request.target.path.contains("rpc") {
                    assert_eq!(request.header("authorization"), Some(&b"Bearer t.o.k"[..]));
                    "{\"payload\":\"{\\\"match_id\\\":\\\"m.n\\\"}\"}"
                } else {
                    "{\"token\":\"t.o.k\"}"
                };
                let head = http1::ResponseHead::new(200, "", http1::Connection::KeepAlive);
                http1::respond(&mut answer, &head, body.as_bytes(), &http1::date(0));
            }
        }
        // From the 20th second on the server lags, and more so with every message.
        let lag_ns = now_ns.saturating_sub(20 * S) * 2;
        vec![Act::Answer { at_ns: now_ns + 2 * MS + lag_ns, bytes: answer }]
    }
}

fn five_players(settings: &mut Settings) {
    settings.players = 5;
    settings.rate = Some(20.0);
    settings.counted_ns = 20 * S;
}

#[test]
fn matches_are_played_by_the_scenario_and_accounted_for() {
    let mut server = match_server(0..0);
    // Counted to the message, which random beats would not let.
    let even = "pace = \"player\"\nprocess = \"constant\"";
    let text = &built_in("match").unwrap().replace("pace = \"player\"", even);
    let (total, _) = World::new(text, five_players, &mut server).run();
    let it = &total.deliveries;
    assert!(total.errors.is_empty(), "{:?}", total.errors);
    assert!((990..=1_010).contains(&it.sent[0]) && (990..=1_010).contains(&it.sent[1]), "{it:?}");
    assert_eq!(it.received[0] + u64::try_from(it.lost).unwrap(), it.sent[0], "{it:?}");
    assert!((130..=150).contains(&it.lost), "{it:?}");
    assert_eq!(it.cut_off, 0);
    assert!(it.doubled >= 90 && it.reordered == 0 && it.foreign == 0, "{it:?}");
    let program = program(text);
    let ping = total.op_of(program.ping_op.unwrap());
    assert!(ping.done >= 5 && ping.done == ping.started, "{ping:?}");
    let setup: Vec<_> = total.ops[..4].iter().map(|op| (op.done, op.retried)).collect();
    assert_eq!(setup, [(5, 0), (8, 0), (8, 0), (5, 3)], "authenticate, find_match, connect, join");
    let echo = total.op_of(program.match_ops[0].unwrap());
    assert_eq!(echo.service.histogram().unwrap().value_at_quantile(0.5) / MS, 2);
}

#[test]
fn what_was_on_its_way_when_connections_ended_is_cut_off_and_not_forgotten() {
    let mut server = match_server(10 * S..11 * S);
    let text = built_in("match").unwrap();
    let (total, _) = World::new(text, five_players, &mut server).run();
    let it = &total.deliveries;
    assert!((1..=20).contains(&it.cut_off), "{it:?}");
    for audience in 0..2 {
        assert!(it.sent[audience] > 800 && it.received[audience] < it.sent[audience], "{it:?}");
    }
    let sent: u64 = it.sent.iter().sum();
    let received: u64 = it.received.iter().sum();
    assert_eq!(received + u64::try_from(it.lost).unwrap() + it.cut_off, sent, "{it:?}");
}

#[test]
fn what_was_on_its_way_when_a_player_gave_up_waiting_is_cut_off_too() {
    let mut server = match_server(0..0);
    let change = |settings: &mut Settings| {
        five_players(settings);
        settings.saturate = true;
        settings.timeout_ns = S;
    };
    let (total, _) = World::new(built_in("match").unwrap(), change, &mut server).run();
    let it = &total.deliveries;
    // Each echo that never comes is waited for until its time is over.
    let timed_out = total.errors.iter().filter(|((_, kind), _)| kind.text == "time-out");
    let timed_out: u64 = timed_out.map(|(_, error)| error.count).sum();
    assert!(timed_out > 10, "{:?}", total.errors);
    let sent: u64 = it.sent.iter().sum();
    let received: u64 = it.received.iter().sum();
    assert_eq!(received + u64::try_from(it.lost).unwrap() + it.cut_off, sent, "{it:?}");
}

impl Record {
    fn op_of(&self, op: u16) -> &crate::load::record::OpRecord {
        &self.ops[usize::from(op)]
    }
}
