//! What scenarios become, and what cannot be meant.

use super::{Dials, EMPTY, Filling, StepKind, compile};
use crate::load::scenario::data::table_of;
use crate::load::scenario::{BUILT_IN, built_in, parse};

fn dials() -> Dials {
    Dials {
        hosts: vec!["h:1".to_owned(), "i".to_owned()],
        server_key: "defaultkey".to_owned(),
        http_key: "k".to_owned(),
        run: "r".to_owned(),
        vars: std::collections::BTreeMap::default(),
        pipeline: 2,
    }
}

#[test]
fn built_in_scenarios_can_be_run() {
    for (name, text) in BUILT_IN {
        let scenario = parse(text).unwrap();
        if let Err(error) = compile(&scenario, &dials()) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn a_request_is_written_as_clients_write_it() {
    let text = "name='a'\ntitle='a'\n[[session]]\nname='s'\n[[session.loop]]\nop='o'\n\
                post='/x?'\nauth='server-key'\nbody='{}'\nheaders={ A='b' }\n";
    let program = compile(&parse(text).unwrap(), &dials()).unwrap();
    let StepKind::Http(step) = &program.sessions[0].steps[0].kind else { panic!("not http") };
    let wanted = "POST /x? HTTP/1.1\r\nHost: h:1\r\nAuthorization: Basic ZGVmYXVsdGtleTo=\r\n\
                  A: b\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(step.requests[0].whole.as_deref(), Some(wanted.repeat(2).as_bytes()));
    let wanted = wanted.replace("h:1", "i");
    assert_eq!(step.requests[1].whole.as_deref(), Some(wanted.repeat(2).as_bytes()));
    assert_eq!(step.requests.len(), 2);
}

#[test]
fn pilots_fly_as_a_word_says_and_send_no_pings_in_json() {
    let session = |ping: &str, word: &str| {
        format!(
            "name='a'\ntitle='a'\n[[session]]\nname='s'\n{ping}[[session.first]]\nop='find'\nget='/'\n\
             capture={{ match='id' }}\n[[session.first]]\nop='join'\nzone_join=true\n\
             [[session.loop]]\nop='steer'\nzone_fly='{word}'\n"
        )
    };
    let program = compile(&parse(&session("", "converge")).unwrap(), &dials()).unwrap();
    assert!(program.flies());
    for (ping, word, wanted) in [
        ("", "apart", "`zone_fly` is one of spread, fast, crowd, converge, circle, not `apart`"),
        ("ping_every='1s'\n", "crowd", "`ping_every` is JSON"),
    ] {
        let error = compile(&parse(&session(ping, word)).unwrap(), &dials()).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let asks = "[[session.first]]\nop='ask'\nzone_datagrams=true\n";
    let program = |text: &str| compile(&parse(text).unwrap(), &dials());
    let behind =
        session("", "crowd").replace("[[session.loop]]", &format!("{asks}[[session.loop]]"));
    assert!(!program(&session("", "crowd")).unwrap().has_datagrams());
    assert!(program(&behind).unwrap().has_datagrams());
    let before =
        session("", "crowd").replacen("[[session.first]]", &format!("{asks}[[session.first]]"), 1);
    let error = program(&before).unwrap_err().to_string();
    assert!(error.contains("write it behind `zone_join`"), "{error}");
    let alone = session("", "crowd").replace("capture={ match='id' }\n", "");
    let error = compile(&parse(&alone).unwrap(), &dials()).unwrap_err();
    assert!(error.to_string().contains("no step captures `match`"), "{error}");
}

#[test]
fn a_retry_goes_back_to_an_earlier_step() {
    let program = compile(&parse(built_in("match").unwrap()).unwrap(), &dials()).unwrap();
    let steps = &program.sessions[0].steps;
    let from: Vec<_> = steps.iter().map(|step| step.retry.as_ref().map(|it| it.from)).collect();
    assert_eq!(from, [None, None, None, Some(1), None, None]);
}

#[test]
fn rates_that_cannot_be_meant_are_mistakes() {
    let session = "[[session]]\nname='s'\n[[session.loop]]\nop='o'\nget='/'\n";
    let phase = |arrivals| format!("[[phase]]\nduration='5s'\narrivals={arrivals}\n");
    for (text, is_good) in [
        ("rate=0.5\n".to_owned(), true),
        ("rate=0.0\n".to_owned(), false),
        ("rate=-1.0\n".to_owned(), false),
        ("rate=nan\n".to_owned(), false),
        ("rate=inf\n".to_owned(), false),
        ("timeout='0s'\n".to_owned(), false),
        (phase("0.0"), true),
        (phase("-1.0"), false),
        (phase("nan"), false),
        (phase("inf"), false),
        (phase("1e9"), false),
    ] {
        let scenario = parse(&format!("name='a'\ntitle='a'\n{text}{session}")).unwrap();
        assert_eq!(compile(&scenario, &dials()).is_ok(), is_good, "{text}");
    }
}

#[test]
fn a_write_is_no_longer_than_a_connection_may_have_waiting() {
    // Two requests stand in one write.
    for (bytes, is_good) in [(500_000, true), (600_000, false)] {
        let text = "name='a'\ntitle='a'\n[vars]\nb='x'\n[[session]]\nname='s'\n\
                    [[session.loop]]\nop='o'\npost='/'\nbody='${b}${player}'\n";
        let mut dials = dials();
        dials.vars.insert("b".to_owned(), "x".repeat(bytes));
        assert_eq!(compile(&parse(text).unwrap(), &dials).is_ok(), is_good, "{bytes}");
    }
}

#[test]
fn a_variable_that_is_a_number_stays_one() {
    let scenario = parse(built_in("transfer").unwrap()).unwrap();
    for (value, is_good) in
        [("1.5", true), ("2", true), ("1,5", false), ("", false), ("inf", false)]
    {
        let mut dials = dials();
        dials.vars.insert("skew".to_owned(), value.to_owned());
        let compiled = compile(&scenario, &dials).map_err(|error| error.to_string());
        let wanted = format!("--set skew: `{value}` is no number, as the scenario's own value is");
        match compiled {
            Ok(_) => assert!(is_good, "{value}"),
            Err(text) => assert!(!is_good && text.contains(&wanted), "{value}: {text}"),
        }
    }
}

#[test]
fn a_loop_without_a_pace_is_known() {
    for (name, wanted) in BUILT_IN.iter().map(|it| (it.0, false)).chain([("free", true)]) {
        let free =
            "name='a'\ntitle='a'\n[[session]]\nname='s'\n[[session.loop]]\nop='o'\nget='/'\n";
        let scenario = parse(built_in(name).unwrap_or(free)).unwrap();
        let program = compile(&scenario, &dials()).unwrap();
        assert_eq!(program.has_free_loop(scenario.rate), wanted, "{name}");
        let has_loop = scenario.sessions.iter().any(|it| !it.repeated.is_empty());
        assert_eq!(program.has_free_loop(None), has_loop, "{name}");
    }
}

#[test]
fn mistakes_are_named() {
    let head = "name='a'\ntitle='a'\n[[session]]\nname='s'\n";
    for (rest, part) in [
        ("", "has 0 steps"),
        ("[[session.loop]]\nop='o'\nget='/${x}'", "nothing sets `${x}`"),
        ("[[session.loop]]\nget='/'", "lacks `op`"),
        ("[[session.loop]]\nop='o'\nget='/'\npost='/'", "exactly one of"),
        ("[[session.loop]]\nop='o'\nget='/'\nauth='token'", "nothing sets `${token}`"),
        ("[[session.first]]\nop='o'\nget='/'\n[[session.loop]]\nop='o'\nget='/'", "another"),
        ("renew_every='0s'\n[[session.loop]]\nop='o'\nget='/'", "`renew_every`"),
        ("[[session.loop]]\nop='o'\nsend_binary=7", "8 to"),
        ("[[session.loop]]\nop='o'\nget='/'\nheaders={ 'a b'='c' }", "`a b`"),
        ("[[session.loop]]\nop='o'\nmatch_send={op_code=1,size=9,to='all'}", "characters"),
        ("[[session.loop]]\nop='o'\nget='/'\nretry={on='a',from='p'}", "earlier step"),
        ("[[session.loop]]\nop='o'\nget='/'\nretry={on=''}", "wants a text"),
        ("[[session.loop]]\nop='o'\nsend='x'\nretry={on='a'}", "wants a text"),
        ("[[session.loop]]\nop='o'\nget='/'\nexpect=[2000]", "`expect = [2000]` is no status"),
        ("[[session.loop]]\nop='o'\nget='/'\nexpect=[200, 99]", "`expect = [99]` is no status"),
        ("[[session.loop]]\nthink={min='3s',max='1s'}", "min 3s is longer than max 1s"),
        ("[[session.loop]]\nop='o'\nget='x'", "`get = \"x\"` is a path"),
        ("[[session.loop]]\nop='o'\npost=''", "`post = \"\"` is a path"),
        ("[[session.loop]]\nop='o'\nconnect='ws'", "session `s`, o: `connect = \"ws\"`"),
    ] {
        let error = compile(&parse(&format!("{head}{rest}")).unwrap(), &dials()).unwrap_err();
        assert!(error.to_string().contains(part), "{rest}: {error}");
    }
}

#[test]
fn what_is_compared_with_answers_is_filled_in_before_the_run() {
    let text = |rest: &str| {
        let head = "name='a'\ntitle='a'\n[vars]\nword='sword'\n[[session]]\nname='s'\n";
        format!("{head}[[session.loop]]\nop='o'\nget='/'\ncapture={{c='c'}}\n{rest}")
    };
    for (rest, at) in [
        ("contains='a ${word} of ${run}'", "the a sword of r"),
        ("retry={on='a ${word} of ${run}'}", "the a sword of r"),
    ] {
        let program = compile(&parse(&text(rest)).unwrap(), &dials()).unwrap();
        let step = &program.sessions[0].steps[0];
        let StepKind::Http(http) = &step.kind else { panic!("not http") };
        let finder = http.contains.as_ref().or(step.retry.as_ref().map(|retry| &retry.on));
        assert_eq!(finder.unwrap().find(at.as_bytes()), Some(4), "{rest}");
    }
    for (rest, part) in [
        ("contains='${player}'", "`contains = \"${player}\"` would differ by player or round"),
        ("contains='${c}'", "only variables and ${run} can stand there"),
        ("retry={on='${round}'}", "`retry.on = \"${round}\"` would differ"),
        ("contains='${wrod}'", "nothing sets `${wrod}`"),
    ] {
        let error = compile(&parse(&text(rest)).unwrap(), &dials()).unwrap_err();
        assert!(error.to_string().contains(part), "{rest}: {error}");
    }
}

#[test]
fn headers_are_filled_in() {
    let text = "name='a'\ntitle='a'\n[vars]\nv='w'\n[[session]]\nname='s'\n[[session.first]]\n\
                op='o'\nget='/'\nheaders={ A='${v}-${player}', B='${v}' }\n[[session.loop]]\n\
                op='p'\nconnect='/ws'\nheaders={ C='${v}' }\n";
    let program = compile(&parse(text).unwrap(), &dials()).unwrap();
    let StepKind::Http(http) = &program.sessions[0].steps[0].kind else { panic!("not http") };
    let mut head = Vec::new();
    http.requests[0].head.fill(&mut head, &Filling { player: 7, ..EMPTY });
    assert_eq!(head, b"GET / HTTP/1.1\r\nHost: h:1\r\nA: w-7\r\nB: w\r\n\r\n");
    let StepKind::Connect { extra, .. } = &program.sessions[0].steps[1].kind else { panic!() };
    assert_eq!(&**extra, b"C: w\r\n");
    let error = compile(&parse(&text.replace("C='${v}'", "C='${round}'")).unwrap(), &dials());
    assert!(error.unwrap_err().to_string().contains("headers of `connect`"));
}

#[test]
fn a_beat_counts_for_the_requests_of_one_write() {
    for (steps, wanted) in [
        ("[[session.loop]]\nop='o'\nget='/'\n", 2),
        ("[[session.loop]]\nop='o'\nsend_binary=8\nawait='echo'\n", 1),
        ("[[session.first]]\nop='o'\nget='/'\n[[session.loop]]\nop='p'\nsend='x'\n", 1),
    ] {
        let text = format!("name='a'\ntitle='a'\n[[session]]\nname='s'\n{steps}");
        let program = compile(&parse(&text).unwrap(), &dials()).unwrap();
        assert_eq!(program.sessions[0].beat_requests, wanted, "{steps}");
    }
}

#[test]
fn data_files_that_cannot_be_meant_are_mistakes() {
    let session = "[[session]]\nname='s'\n[[session.loop]]\nop='o'\n";
    for (rest, step, part) in [
        ("name='d'", "post='/${d.id}'\nheaders={A='${d.name}'}\nbody='${d.text}'", ""),
        ("name='d'", "get='/${d.name:url}'", ""),
        ("name='d'\npick='turn'", "get='/'", ""),
        (
            "name='d'",
            "get='/${d.name}'",
            "f.csv, line 3, column `name`: that cannot stand in a path",
        ),
        ("name='d'", "connect='/${d.name}'", "write `:url`"),
        (
            "name='d'",
            "get='/'\nheaders={A='${d.text}'}",
            "f.csv, line 4, column `text`: no control",
        ),
        ("name='d'", "get='/${d.nam}'", "f.csv has no column `nam`; did you mean `name`?"),
        ("name='d e'", "get='/'", "data `d e`: a `name` has letters"),
        ("name='d'\n[[data]]\nfile='g.csv'\nname='d'", "get='/'", "another file has this `name`"),
        ("name='v'", "get='/'", "the variable `v.x` reads like a column"),
        ("name='d'\npick='random'\nwrap=true", "get='/'", "`wrap` is for"),
        ("name='d'", "get='/'\ncontains='${d.id}'", "would differ by player"),
    ] {
        let text = format!(
            "name='a'\ntitle='a'\n[vars]\n'v.x'='1'\n[[data]]\nfile='f.csv'\n{rest}\n{session}{step}"
        );
        let mut scenario = parse(&text).unwrap();
        for data in &mut scenario.data {
            data.table = table_of("csv", "id,name,text\n1,a,b\n2,c d,e\n3,f,\"g\nh\"\n");
        }
        match compile(&scenario, &dials()) {
            Ok(_) => assert_eq!(part, "", "{rest} {step}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!part.is_empty() && error.contains(part), "{rest} {step}: {error}");
            }
        }
    }
}

/// What a step would have captured that is left out is captured by nobody.
#[test]
fn a_value_of_a_step_that_is_left_out_is_nobodys() {
    let text = "name='a'\ntitle='a'\n[vars]\nway='one'\n[[session]]\nname='s'\n[[session.first]]\nop='o'\n\
                get='/'\ncapture={ x='y' }\nwhen={ way='other' }\n[[session.loop]]\nop='p'\nget='/${x}'\n";
    let scenario = parse(text).unwrap();
    let error = compile(&scenario, &dials()).unwrap_err().to_string();
    assert!(error.contains('x'), "{error}");
    let mut dials = dials();
    dials.vars.insert("way".to_owned(), "other".to_owned());
    assert_eq!(compile(&scenario, &dials).unwrap().captured_count, 1);
}
