//! What the generator makes of servers that fail, close, refuse and come back: nothing that was due
//! may vanish, and nobody may be blamed for what he did not do.

use event::ConnectFailure;

use super::{Act, MS, OK, ONE_GET, S, World};
use crate::load::record::{OpRecord, Record, Stage};

const LOGIN_AND_GET: &str = "name='a'\ntitle='a'\nplayers=10\nrate=100\n[[session]]\nname='s'\nprocess='constant'\n\
                             [[session.first]]\nop='login'\nget='/login'\n[[session.loop]]\n\
                             op='get'\nget='/x'\n";

/// All ends of operations that were due.
fn ends(op: &OpRecord) -> u64 {
    op.done + op.failed + op.missed + op.unanswered
}

fn answer(now_ns: u64, bytes: &[u8]) -> Vec<Act> {
    vec![Act::Answer { at_ns: now_ns + MS, bytes: bytes.to_vec() }]
}

fn errors_of(total: &Record) -> Vec<&str> {
    total.errors.keys().map(|(_, kind)| &*kind.text).collect()
}

#[test]
fn beats_never_vanish_whatever_the_server_does() {
    type Fate<'a> = (&'a str, Option<(Result<(), ConnectFailure>, u64)>, bool);
    // From the sixth second on: what becomes of connecting, but for one attempt in seven, and
    // whether what stands is closed.
    let fates: [Fate<'_>; 6] = [
        ("refuses late", Some((Err(ConnectFailure::Refused), 700 * MS)), false),
        ("refuses", Some((Err(ConnectFailure::Refused), 20_000)), true),
        ("does not answer to connecting", None, true),
        ("accepts late", Some((Ok(()), 700 * MS)), true),
        ("accepts and closes", Some((Ok(()), 20_000)), true),
        ("is silent", Some((Ok(()), 20_000)), false),
    ];
    for text in [LOGIN_AND_GET, ONE_GET] {
        for (fate, connect, closes) in fates {
            for beat in ["round", "step"] {
                let text = text.replace("name='s'", &format!("name='s'\nbeat='{beat}'"));
                let mut server = |now_ns, _, _: &[u8]| match (now_ns < 6 * S, closes) {
                    (true, _) => answer(now_ns, OK),
                    (false, true) => vec![Act::Close { at_ns: now_ns + MS }],
                    (false, false) => Vec::new(),
                };
                let change = |settings: &mut super::Settings| {
                    settings.players = 100;
                    settings.rate = Some(100.0);
                    settings.timeout_ns = 3 * S / 2;
                };
                let mut world = World::new(&text, change, &mut server);
                let connects = |now_ns: u64| match now_ns {
                    _ if now_ns < 6 * S || (now_ns / MS).is_multiple_of(7) => {
                        Some((Ok(()), 20_000))
                    }
                    _ => connect,
                };
                world.connect = &connects;
                let (total, _) = world.run();
                let get = total.ops.last().unwrap();
                // 100 a second for 10 s.
                assert!((990..=1_000).contains(&ends(get)), "{fate}, {beat}: {}", ends(get));
                assert!((480..=510).contains(&get.done), "{fate}, {beat}: {} done", get.done);
            }
        }
    }
}

#[test]
fn a_server_that_is_gone_ends_the_run_and_one_that_comes_back_does_not() {
    use crate::load::record::kind::Cause;
    for (outage_ns, failure, is_gone) in [
        (60 * S, ConnectFailure::Refused, true),
        (60 * S, ConnectFailure::Unreachable, true),
        (3 * S / 2, ConnectFailure::Refused, false),
        // What this machine lacks is not the server's death.
        (60 * S, ConnectFailure::NoFiles, false),
    ] {
        let is_out = |now_ns: u64| (6 * S..6 * S + outage_ns).contains(&now_ns);
        let mut server = |now_ns, _, _: &[u8]| {
            if is_out(now_ns) {
                vec![Act::Close { at_ns: now_ns + MS }]
            } else {
                answer(now_ns, OK)
            }
        };
        let change = |settings: &mut super::Settings| {
            settings.players = 10;
            settings.rate = Some(100.0);
            settings.counted_ns = 30 * S;
        };
        let mut world = World::new(ONE_GET, change, &mut server);
        let connect = |now_ns| Some((if is_out(now_ns) { Err(failure) } else { Ok(()) }, 20_000));
        world.connect = &connect;
        world.play();
        let ended = world.stages.iter().find(|it| it.0 == Stage::Drain).unwrap().1;
        let kinds: Vec<Cause> = world.total.errors.keys().map(|(_, kind)| kind.cause).collect();
        assert_eq!(kinds.contains(&Cause::ServerGone), is_gone, "{failure:?}: {kinds:?}");
        assert_eq!(world.told.contains(&"stopped"), is_gone, "{:?}", world.told);
        // Begun at 1 s, gone at 6 s, noted when the next request of each was due, and 2 s later over.
        let wanted = if is_gone { 8 * S..9 * S } else { 31 * S..31 * S + MS };
        assert!(wanted.contains(&ended), "{failure:?}, {outage_ns}: {ended}");
        assert!(world.total.ops[0].done >= 490, "{}", world.total.ops[0].done);
    }
}

#[test]
fn reasons_beyond_those_that_are_told_apart_are_not_called_by_another_ones_name() {
    let mut server = |now_ns, slot: u32, _: &[u8]| {
        let head = format!("HTTP/1.1 {} X\r\nContent-Length: 0\r\n\r\n", 400 + slot % 150);
        answer(now_ns, head.as_bytes())
    };
    let change = |settings: &mut super::Settings| settings.players = 150;
    let (total, _) = World::new(LOGIN_AND_GET, change, &mut server).run();
    assert_eq!(total.lacking.values().sum::<u64>(), 150);
    assert!(total.lacking.contains_key("other reasons"), "{:?}", total.lacking);
}

#[test]
fn every_request_of_a_write_that_was_missed_counts() {
    let mut server = |now_ns, _, bytes: &[u8]| {
        let count = bytes.windows(3).filter(|it| it == b"GET").count();
        if now_ns < 6 * S { answer(now_ns, &OK.repeat(count)) } else { Vec::new() }
    };
    let change = |settings: &mut super::Settings| {
        settings.players = 10;
        settings.rate = Some(800.0);
        settings.timeout_ns = 30 * S;
    };
    let text = ONE_GET.replace("rate=", "pipeline=8\nrate=");
    let (total, _) = World::new(&text, change, &mut server).run();
    let get = &total.ops[0];
    // 1,000 writes of eight each.
    assert!(ends(get).abs_diff(8_000) <= 200, "{}", ends(get));
    assert!(get.response.histogram().unwrap().len().abs_diff(8_000) <= 200);
}

#[test]
fn steps_and_rounds_that_were_missed_are_of_the_operations_that_were_due() {
    let two = "[[session.loop]]\nop='one'\nget='/1'\n[[session.loop]]\nthink='10ms'\n\
               [[session.loop]]\nop='two'\nget='/2'\n";
    for (beat, per_op) in [("step", 250), ("round", 500)] {
        let text = format!(
            "name='a'\ntitle='a'\nplayers=10\nrate=100\n[[session]]\nname='s'\nprocess='constant'\nbeat='{beat}'\n{two}"
        );
        let mut server = |now_ns, _, _: &[u8]| {
            if now_ns < 6 * S { answer(now_ns, OK) } else { Vec::new() }
        };
        let change = |settings: &mut super::Settings| settings.timeout_ns = 30 * S;
        let (total, _) = World::new(&text, change, &mut server).run();
        for op in &total.ops {
            assert!(op.missed.abs_diff(per_op) <= 15, "{beat}: {} missed", op.missed);
        }
        let sum: u64 = total.ops.iter().map(ends).sum();
        let due = if beat == "step" { 1_000 } else { 2_000 };
        assert!(sum.abs_diff(due) <= 25, "{beat}: {sum}");
    }
}

#[test]
fn each_answer_to_a_failure_does_what_it_says() {
    for (on_error, logins, gets, last_stage_s, told) in [
        ("continue", 1..=1, 9..=10, 11, false),
        ("restart", 5..=6, 5..=10, 11, false),
        ("leave", 1..=1, 2..=2, 4, false),
        ("stop", 1..=1, 2..=2, 4, true),
    ] {
        let text = format!("{LOGIN_AND_GET}on_error='{on_error}'\n");
        let (mut login_count, mut get_count) = (0, 0);
        let mut server = |now_ns, _, bytes: &[u8]| {
            if bytes.starts_with(b"GET /login") {
                login_count += 1;
                return answer(now_ns, OK);
            }
            get_count += 1;
            // Every second one fails.
            let is_bad = get_count % 2 == 0;
            let bad = b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n";
            answer(now_ns, if is_bad { bad } else { OK })
        };
        let change = |settings: &mut super::Settings| {
            settings.players = 1;
            settings.rate = Some(1.0);
        };
        let mut world = World::new(&text, change, &mut server);
        world.play();
        let (stage, at_ns) = *world.stages.last().unwrap();
        let is_stopped = world.told.contains(&"stopped");
        drop(world);
        assert!(logins.contains(&login_count), "{on_error}: {login_count} logins");
        assert!(gets.contains(&get_count), "{on_error}: {get_count} gets");
        assert_eq!((stage, is_stopped), (Stage::Done, told), "{on_error}");
        assert!((at_ns / S).abs_diff(last_stage_s) <= 1, "{on_error}: {at_ns}");
    }
}

#[test]
fn a_connection_that_is_refused_is_tried_again_without_logging_in_again() {
    let mut logins = 0;
    let mut server = |now_ns, _, bytes: &[u8]| {
        logins += u32::from(bytes.starts_with(b"GET /login"));
        // The server is away from second 4 to 6.
        if (4 * S..6 * S).contains(&now_ns) {
            return vec![Act::Close { at_ns: now_ns + MS }];
        }
        answer(now_ns, OK)
    };
    let mut world = World::new(LOGIN_AND_GET, |_| {}, &mut server);
    world.connect = &|now_ns| {
        let is_away = (4 * S..6 * S).contains(&now_ns);
        Some((if is_away { Err(ConnectFailure::Refused) } else { Ok(()) }, 20_000))
    };
    let (total, _) = world.run();
    assert_eq!(logins, 10);
    let get = &total.ops[1];
    assert!((985..=1_000).contains(&ends(get)) && get.missed == 0, "{}", ends(get));
    // What was due meanwhile was done later, and says so.
    let response = get.response.histogram().unwrap();
    assert!(response.count_between(S, 3 * S) >= 80, "{}", response.count_between(S, 3 * S));
}

#[test]
fn a_late_beat_does_not_shorten_the_time_to_connect() {
    // Away for three seconds, with a time-out of one; then connecting takes 300 ms.
    let mut server = |now_ns, _, _: &[u8]| {
        let is_away = (4 * S..7 * S).contains(&now_ns);
        if is_away { vec![Act::Close { at_ns: now_ns + MS }] } else { answer(now_ns, OK) }
    };
    let change = |settings: &mut super::Settings| settings.timeout_ns = S;
    let mut world = World::new(LOGIN_AND_GET, change, &mut server);
    world.connect = &|now_ns| match now_ns / S {
        0..4 => Some((Ok(()), 20_000)),
        4..7 => None,
        _ => Some((Ok(()), 300 * MS)),
    };
    let (total, _) = world.run();
    let get = &total.ops[1];
    assert!(get.done + get.failed >= 980 && get.failed <= 60, "{} of {}", get.done, ends(get));
    assert!(
        total
            .errors
            .keys()
            .any(|(_, kind)| kind.cause == crate::load::record::kind::Cause::ConnectTimedOut)
    );
}

#[test]
fn connecting_is_not_the_generators_own_lateness() {
    let once = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let mut server = |now_ns, _, _: &[u8]| answer(now_ns, once);
    let mut world = World::new(LOGIN_AND_GET, |_| {}, &mut server);
    world.connect = &|_| Some((Ok(()), 5 * MS));
    let (total, _) = world.run();
    assert!(total.errors.is_empty() && total.ops[1].done >= 980, "{:?}", total.errors);
    let behind = total.own.behind.histogram().unwrap();
    assert!(behind.value_at_quantile(0.99) < MS, "{}", behind.value_at_quantile(0.99));
    // The user has waited for it all the same.
    let response = total.ops[1].response.histogram().unwrap();
    assert!((5 * MS..7 * MS).contains(&response.value_at_quantile(0.5)));
}

#[test]
fn late_sending_is_seen_also_where_every_operation_connects_first() {
    let closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    for answered in [OK, &closing[..]] {
        for late_ns in [0, 3 * MS] {
            let mut server = |now_ns, _, _: &[u8]| answer(now_ns, answered);
            let change = |settings: &mut super::Settings| settings.rate = Some(50.0);
            let mut world = World::new(ONE_GET, change, &mut server);
            world.wake_late_ns = late_ns;
            let (total, _) = world.run();
            let behind_ns = total.own.behind.histogram().unwrap().value_at_quantile(0.99);
            assert_eq!(behind_ns >= 3 * MS, late_ns > 0, "{behind_ns}");
            assert!(total.ops[0].done > 400, "{}", total.ops[0].done);
        }
    }
}

#[test]
fn a_refusal_that_closes_is_one_error() {
    let bad = b"HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let mut asked = 0_u32;
    let mut server = |now_ns: u64, _, _: &[u8]| {
        asked += 1;
        if asked.is_multiple_of(3) {
            let close = Act::Close { at_ns: now_ns + 2 * MS };
            return answer(now_ns, bad).into_iter().chain([close]).collect();
        }
        answer(now_ns, OK)
    };
    let (total, _) = World::new(LOGIN_AND_GET, |_| {}, &mut server).run();
    assert!(errors_of(&total).iter().all(|kind| *kind == "status 503"), "{:?}", total.errors);
    assert!(total.ops[1].failed > 300);
}

#[test]
fn thinking_past_the_beat_is_not_slowness() {
    // A beat a second; thoughts of 0.2 to 1.6 s. Then the server stands still for ten seconds.
    let text = "name='a'\ntitle='a'\nplayers=20\nrate=20\n[[session]]\nname='s'\nprocess='constant'\n\
                [[session.loop]]\nop='get'\nget='/x'\n[[session.loop]]\n\
                think={ min='200ms', max='1600ms' }\n";
    for stalls in [false, true] {
        let mut server = |now_ns, _, _: &[u8]| {
            let done_ns = now_ns + MS;
            let is_still = stalls && (20 * S..30 * S).contains(&done_ns);
            vec![Act::Answer { at_ns: if is_still { 30 * S } else { done_ns }, bytes: OK.to_vec() }]
        };
        let change = |settings: &mut super::Settings| {
            settings.counted_ns = 60 * S;
            settings.timeout_ns = 30 * S;
        };
        let (total, _) = World::new(text, change, &mut server).run();
        let response = total.ops[0].response.histogram().unwrap();
        let slow = response.count_between(5 * MS, u64::MAX);
        // Of a stall, what was due in it and what it pushed back are slow.
        assert!(if stalls { slow > 100 } else { slow == 0 }, "stalls {stalls}: {slow} slow");
        assert!(response.max() < if stalls { 11 * S } else { 5 * MS }, "{}", response.max());
    }
}

#[test]
fn what_is_full_is_tried_again_and_is_no_error() {
    let full = b"HTTP/1.1 409 X\r\nContent-Length: 10\r\n\r\nmatch full";
    let text = "name='a'\ntitle='a'\nplayers=4\n[[session]]\nname='s'\nprocess='constant'\n[[session.first]]\n\
                op='login'\nget='/login'\n[[session.first]]\nop='find'\nget='/find'\n\
                [[session.first]]\nop='join'\nget='/join'\n\
                retry={ on='match full', from='find' }\n[[session.loop]]\nop='get'\nget='/x'\n";
    // Full three times for each; or for ever, which is a failure in the end.
    for (refusals, wanted) in [(12, [4, 16, 4]), (u32::MAX, [0, 0, 0])] {
        let mut joins = 0;
        let mut server = |now_ns, _, bytes: &[u8]| {
            if bytes.starts_with(b"GET /join") && joins < refusals {
                joins += 1;
                return answer(now_ns, full);
            }
            answer(now_ns, OK)
        };
        let change = |settings: &mut super::Settings| {
            settings.saturate = true;
            settings.counted_ns = 50 * MS;
            // None gets ready: time for a hundred attempts.
            settings.ramp_ns = if refusals == u32::MAX { 30 * S } else { 0 };
        };
        let (total, _) = World::new(text, change, &mut server).run();
        let [login, find, join] = [&total.ops[0], &total.ops[1], &total.ops[2]];
        if refusals == 12 {
            assert!(total.errors.is_empty(), "{:?}", total.errors);
            assert_eq!([login.done, find.done, join.done], wanted);
            assert_eq!((join.retried, join.failed, join.started), (12, 0, 16));
        } else {
            assert!((4..=12).contains(&join.failed), "{} failed", join.failed);
            assert!(join.retried >= 100 * join.failed, "{} tried again", join.retried);
            assert_eq!(join.done + join.failed + join.retried + join.unanswered, join.started);
            assert!(errors_of(&total).contains(&"status 409"));
        }
    }
}

#[test]
fn the_same_step_again_is_still_the_same_intention() {
    let full = b"HTTP/1.1 429 X\r\nContent-Length: 4\r\n\r\nbusy";
    let text = format!("{LOGIN_AND_GET}retry={{ on='busy' }}\n");
    let mut asked = 0_u32;
    let mut server = |now_ns, _, bytes: &[u8]| {
        asked += u32::from(bytes.starts_with(b"GET /x"));
        answer(now_ns, if asked.is_multiple_of(10) && asked > 0 { full } else { OK })
    };
    let (total, _) = World::new(&text, |_| {}, &mut server).run();
    let get = &total.ops[1];
    assert!(get.retried > 90 && get.failed == 0 && total.errors.is_empty(), "{:?}", total.errors);
    assert!((985..=1_001).contains(&ends(get)), "{}", ends(get));
    // One in ten has waited 50 to 250 ms for its second try.
    let response = get.response.histogram().unwrap();
    assert!(response.count_between(50 * MS, S) >= 90);
    assert!(get.service.histogram().unwrap().max() < 2 * MS);
}

#[test]
fn players_that_did_not_become_ready_are_told_with_the_reason() {
    let refused = b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n";
    let mut places = 0;
    let mut server = |now_ns, _, bytes: &[u8]| {
        // 600 may log in; nobody else.
        if bytes.starts_with(b"GET /login") {
            places += 1;
            return answer(now_ns, if places <= 600 { OK } else { refused });
        }
        answer(now_ns, OK)
    };
    let change = |settings: &mut super::Settings| {
        settings.players = 1_000;
        settings.counted_ns = S;
    };
    let (total, stages) = World::new(LOGIN_AND_GET, change, &mut server).run();
    let lacking: Vec<_> = total.lacking.iter().map(|(it, count)| (it.as_str(), *count)).collect();
    assert_eq!((total.ready, lacking), (600, vec![("login: status 503", 400)]));
    let missing =
        total.errors.iter().find(|((_, kind), _)| kind.text.contains("not ready in time"));
    assert_eq!(missing.unwrap().1.count, 400);
    // A minute of patience after the last one, who came in the first second.
    let (_, warm_up_ns) = stages[1];
    assert!((60 * S..64 * S).contains(&warm_up_ns), "{stages:?}");
}

#[test]
fn as_long_as_players_become_ready_the_ramp_goes_on() {
    // One login at a time, 80 ms each: 1,500 players take two minutes.
    let mut free_ns = 0;
    let mut server = |now_ns: u64, _, bytes: &[u8]| {
        if bytes.starts_with(b"GET /login") {
            free_ns = now_ns.max(free_ns) + 80 * MS;
            return vec![Act::Answer { at_ns: free_ns, bytes: OK.to_vec() }];
        }
        answer(now_ns, OK)
    };
    let change = |settings: &mut super::Settings| {
        settings.players = 1_500;
        settings.timeout_ns = 30 * S;
        settings.counted_ns = S;
    };
    let (total, _) = World::new(LOGIN_AND_GET, change, &mut server).run();
    assert!(total.errors.is_empty() && total.lacking.is_empty(), "{:?}", total.errors);
    assert_eq!(total.ops[0].done, 1_500);
}

#[test]
fn a_generator_whose_players_have_all_left_does_not_keep_the_others_waiting() {
    let bad = b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n";
    let text = LOGIN_AND_GET.replace("get='/login'", "get='/login'\non_error='leave'");
    let mut server = |now_ns, _, _: &[u8]| answer(now_ns, bad);
    let change = |settings: &mut super::Settings| settings.waits_for_go = true;
    let mut world = World::new(&text, change, &mut server);
    world.play();
    assert!(world.told.contains(&"ready"), "{:?}", world.told);
}

#[test]
fn nothing_begins_when_the_counted_time_is_over() {
    let mut last_ns = 0;
    let mut server = |now_ns, slot, _: &[u8]| {
        last_ns = now_ns;
        match now_ns > 9 * S {
            // One answer takes its time, so that the others have time for mischief.
            true if slot == 1 => vec![Act::Answer { at_ns: 14 * S, bytes: OK.to_vec() }],
            // They begin their sessions anew.
            true => vec![Act::Close { at_ns: now_ns + MS }],
            false => answer(now_ns, OK),
        }
    };
    let text = format!("{LOGIN_AND_GET}on_error='restart'\n");
    let (_, stages) = World::new(&text, |_| {}, &mut server).run();
    let (_, drain_ns) = *stages.iter().find(|(stage, _)| *stage == Stage::Drain).unwrap();
    assert!(last_ns <= drain_ns && stages.last().unwrap().1 >= 14 * S, "{last_ns} {stages:?}");
}

#[test]
fn a_player_that_is_never_done_does_not_stop_the_others() {
    let text = "name='a'\ntitle='a'\nplayers=2\n[[session]]\nname='idle'\nprocess='constant'\ncount=1\npace='none'\n\
                [[session.loop]]\nthink='0s'\n[[session]]\nname='s'\nprocess='constant'\npace='none'\n[[session.loop]]\n\
                op='get'\nget='/x'\n";
    let mut server =
        |now_ns, _, _: &[u8]| vec![Act::Answer { at_ns: now_ns + 20_000, bytes: OK.to_vec() }];
    let change = |settings: &mut super::Settings| settings.counted_ns = MS / 5;
    let (total, _) = World::new(text, change, &mut server).run();
    assert!((7..=10).contains(&total.ops[0].done), "{}", total.ops[0].done);
}

#[test]
fn a_limit_of_the_server_is_named() {
    let body = r#"{"code":8,"message":"too many requests (limit.requests_per_user_per_s is 5)"}"#;
    let length = body.len();
    let refusal = format!("HTTP/1.1 429 X\r\nContent-Length: {length}\r\n\r\n{body}");
    let mut server = |now_ns, _, _: &[u8]| answer(now_ns, refusal.as_bytes());
    let (total, _) = World::new(ONE_GET, |_| {}, &mut server).run();
    let named = "status 429: limit.requests_per_user_per_s";
    assert!(errors_of(&total).iter().all(|kind| *kind == named), "{:?}", total.errors);
    assert!(!total.errors.is_empty());
}
