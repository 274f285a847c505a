//! Streams through Lua: how arguments are read, and what is handed over.

use game::stream::{StreamMessage, StreamRequest};
use uuid::Uuid;

use crate::host::TestHost;
use crate::run_on;

const ANN: &str = "00000000-0000-0000-0000-00000000000a";

/// The answer of a function that has an id, `ann`, and a stream, `s`, in scope.
fn run(body: &str, host: &mut TestHost) -> String {
    let body = format!("local ann, s = '{ANN}', {{ mode = 100, label = 'x' }} {body}");
    match run_on(&body, "", host) {
        Ok(answer) => answer.unwrap_or_default(),
        Err(error) => format!("!{}", error.message),
    }
}

#[test]
fn arguments_are_checked() {
    for (body, wanted) in [
        ("nk.stream_count()", "!bad argument #1 to stream_count (table expected, got nil)"),
        (
            "nk.stream_count({ mode = 'a' })",
            "!bad argument #1 to stream_count (stream mode must be a number)",
        ),
        (
            "nk.stream_count({ mode = 256 })",
            "!bad argument #1 to stream_count (stream mode must be a number from 0 to 255)",
        ),
        (
            "nk.stream_count({ mode = 9, subject = 'x' })",
            "!bad argument #1 to stream_count (stream subject must be a valid identifier)",
        ),
        (
            "nk.stream_count({ mode = 9, subcontext = 1 })",
            "!bad argument #1 to stream_count (stream subcontext must be a string)",
        ),
        (
            "nk.stream_count({ mode = 9, label = ('x'):rep(257) })",
            "!bad argument #1 to stream_count (stream label must be at most 256 bytes)",
        ),
        (
            "nk.stream_count({ mode = 9, lable = 'x' })",
            "!bad argument #1 to stream_count (stream has no lable; did you mean `label`?)",
        ),
        ("return '' .. nk.stream_count({ mode = 9, title = 'unlike any' })", "3"),
        (
            "nk.stream_user_join('', ann, s)",
            "!bad argument #1 to stream_user_join (expects user id)",
        ),
        (
            "nk.stream_user_join(ann, 'x', s)",
            "!bad argument #2 to stream_user_join (expects valid session id)",
        ),
        (
            "nk.stream_user_join(ann, ann, s, false, true, ('x'):rep(2049))",
            "!bad argument #6 to stream_user_join (expects status to be at most 2048 bytes)",
        ),
        (
            "nk.stream_user_join('00000000-0000-0000-0000-000000000000', ann, s)",
            "!bad argument #2 to stream_user_join (session id does not exist)",
        ),
        (
            "nk.stream_user_kick({ user_id = ann }, s)",
            "!bad argument #1 to stream_user_kick (expects each presence to have a valid session_id)",
        ),
        (
            "nk.stream_send(s, 'x', { { session_id = 'x' } })",
            "!bad argument #3 to stream_send (presence session id must be a valid identifier)",
        ),
        (
            "nk.stream_send(s, 'x', { 1 })",
            "!bad argument #3 to stream_send (expects a valid set of presences)",
        ),
        (
            "nk.stream_send_raw(s, { nonsense = {} })",
            "!bad argument #2 to stream_send_raw (not a valid envelope: ",
        ),
    ] {
        let answer = run(body, &mut TestHost::default());
        assert!(answer.starts_with(wanted), "{body}: {answer}");
    }
}

#[test]
fn results_are_nakamas() {
    for (body, wanted) in [
        ("return tostring(nk.stream_user_join(ann, ann, s))", "true"),
        ("return tostring(nk.stream_user_update(ann, ann, s))", "nil"),
        ("return tostring(nk.stream_count(s))", "3"),
        ("return tostring(#nk.stream_user_list(s))", "0"),
        (
            "local one = nk.stream_user_list(s, false)[1]
             return one.username .. one.node .. one.status .. tostring(one.hidden)
                 .. tostring(one.persistence) .. #one.user_id .. #one.session_id",
            "annnode1busytruefalse3636",
        ),
        (
            "local one = nk.stream_user_get(ann, ann, s)
             return one.username .. one.status .. tostring(one.hidden) .. tostring(one.persistence)",
            "annbusytruefalse",
        ),
        ("nk.stream_close(s) nk.stream_user_leave(ann, ann, s)", ""),
        ("nk.stream_user_kick({ user_id = ann, session_id = ann, node = 'node1' }, s)", ""),
    ] {
        assert_eq!(run(body, &mut TestHost::default()), wanted, "{body}");
    }
}

#[test]
fn what_is_sent_is_handed_over() {
    let mut host = TestHost::default();
    let body = "nk.stream_send(s, 'hi')
        nk.stream_send({ mode = 9, subject = ann }, 'some',
            { { session_id = ann }, { session_id = ann, node = 'other' } }, false)
        nk.stream_send_raw(s, { cid = '5', match_data = { match_id = 'm.', op_code = 1, data = 'aGk=' } })";
    assert_eq!(run(body, &mut host), "");
    let sent: Vec<&StreamMessage> = host
        .streams
        .iter()
        .map(|(_, request)| match request {
            StreamRequest::Send(message) => &**message,
            other => panic!("{other:?}"),
        })
        .collect();
    let text = |message: &StreamMessage| {
        let mut json = Vec::new();
        message.envelope.encode_json(&mut json);
        String::from_utf8(json).unwrap()
    };
    assert_eq!(
        text(sent[0]),
        r#"{"stream_data":{"stream":{"mode":100,"label":"x"},"data":"hi","reliable":true}}"#
    );
    assert_eq!((&sent[0].to, sent[0].is_reliable), (&None, true));
    assert_eq!(
        text(sent[1]),
        format!(r#"{{"stream_data":{{"stream":{{"mode":9,"subject":"{ANN}"}},"data":"some"}}}}"#)
    );
    assert_eq!((&sent[1].to, sent[1].is_reliable), (&Some(vec![Uuid::from_u128(10)]), false));
    assert_eq!(
        text(sent[2]),
        r#"{"cid":"5","match_data":{"match_id":"m.","op_code":"1","data":"aGk="}}"#
    );
}
