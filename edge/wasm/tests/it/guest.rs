//! Guests of tests: a module that registers the RPC function and the match `test`, and runs a text in
//! WebAssembly for every call. It has the call at 4,096 when the text runs, with its length in `$length`;
//! `$n` is a local of its own.

use std::fmt::Write as _;

/// Where data of a test is laid, one behind the other.
pub(crate) const DATA_AT: usize = 1_024;

/// A value in the convention's bytes.
pub(crate) enum Part<'a> {
    Int(i64),
    Text(&'a str),
    List(&'a [Part<'a>]),
}

use Part::{List, Text};

pub(crate) fn encode(part: &Part<'_>) -> Vec<u8> {
    let count = |count: usize| u32::try_from(count).unwrap().to_le_bytes();
    match part {
        Part::Int(number) => [&[3][..], &number.to_le_bytes()].concat(),
        Text(text) => [&[5][..], &count(text.len()), text.as_bytes()].concat(),
        List(items) => {
            let length = count(items.len());
            let items: Vec<u8> = items.iter().flat_map(encode).collect();
            [&[6][..], &length, &items].concat()
        }
    }
}

/// Bytes as they stand in a text of WebAssembly.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("\\{byte:02x}"))
}

/// A guest that runs `body` for every call but its first, with these data at hand: `{0}` in the body is
/// where the first of them lies and its length, `(i32.const …) (i32.const …)`.
pub(crate) fn guest(data: &[Part<'_>], body: &str) -> String {
    guest_with(data, body, "")
}

/// The same with more fields of the module.
pub(crate) fn guest_with(data: &[Part<'_>], body: &str, fields: &str) -> String {
    let registered = [
        List(&[Text("register"), Text("rpc"), Text("Test")]),
        List(&[Text("register"), Text("match"), Text("test")]),
    ];
    let mut at = DATA_AT;
    let (mut segments, mut places) = (String::new(), Vec::new());
    for part in registered.iter().chain(data) {
        let bytes = encode(part);
        writeln!(segments, "(data (i32.const {at}) \"{}\")", text_of(&bytes)).unwrap();
        places.push(format!("(i32.const {at}) (i32.const {})", bytes.len()));
        at += bytes.len();
    }
    assert!(at < 4_096, "too many data for a test");
    let mut body = body.to_owned();
    for (index, place) in places.iter().skip(2).enumerate() {
        body = body.replace(&format!("{{{index}}}"), place);
    }
    format!(
        r#"(module
        (import "throng" "call" (func $call (param i32 i32) (result i32)))
        (import "throng" "take" (func $take (param i32 i32)))
        (import "throng" "give" (func $give (param i32 i32)))
        (memory (export "memory") 2)
        {segments}
        (func (export "throng_version") (result i32) (i32.const 1))
        (func (export "throng_call") (param $length i32) (result i32)
            (local $n i32)
            (call $take (i32.const 4096) (local.get $length))
            (if (i32.eq (i32.load8_u (i32.const 4106)) (i32.const 105)) (then
                (drop (call $call {first}))
                (drop (call $call {second}))
                (i32.store8 (i32.const 0) (i32.const 0))
                (call $give (i32.const 0) (i32.const 1))
                (return (i32.const 0))))
            {body})
        {fields})"#,
        first = places[0],
        second = places[1],
    )
}
