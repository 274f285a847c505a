//! gRPC as its clients see it: calls from the same table as REST, with the same limits, and what
//! becomes of who is slow, idle, or floods. The client here writes its frames by hand; the real one
//! is in dev/e2e/grpc.

use event::{CloseReason, ThreadId};
use server::core::GRPC;
use wire::nakama::api::{
    Account, AccountDevice, AuthenticateDeviceRequest, ListMatchesRequest, MatchList, Rpc, Session,
    decode_protobuf, encode,
};
use wire::nakama::{Format, ProtoMessage};

use crate::rig::{Client, Plan, Rig, request, server_key};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const ECHO: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload) return payload end, 'echo')";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// A header field that nobody keeps.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| {
        let len = text.len();
        let mut bytes = match u8::try_from(len).unwrap_or(u8::MAX) {
            short @ 0..0x7f => vec![short],
            _ => {
                let (low, high) = ((len - 0x7f) & 0x7f, (len - 0x7f) >> 7);
                vec![0x7f, u8::try_from(low).unwrap() | 0x80, u8::try_from(high).unwrap()]
            }
        };
        bytes.extend_from_slice(text.as_bytes());
        bytes
    };
    [vec![0], text(name), text(value)].concat()
}

fn head(method: &str, authorization: &str) -> Vec<u8> {
    let fields = [("authorization", authorization)];
    head_with(method, if authorization.is_empty() { &[] } else { &fields })
}

fn head_with(method: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let path = format!("/nakama.api.Nakama/{method}");
    let mut block = b"\x83\x86".to_vec();
    block.extend(literal(":path", &path));
    block.extend(literal("content-type", "application/grpc"));
    block.extend(fields.iter().flat_map(|(name, value)| literal(name, value)));
    block
}

/// What became of a call: the code, the message or the text of the error.
#[derive(Debug)]
struct Ended {
    stream: u32,
    code: i32,
    text: String,
    message: Vec<u8>,
}

/// A connection of gRPC.
struct Caller<'a> {
    rig: &'a Rig,
    client: Client,
    next: u32,
}

impl<'a> Caller<'a> {
    fn new(rig: &'a Rig) -> Self {
        Self::from(rig, [10, 0, 0, 1])
    }

    fn from(rig: &'a Rig, peer: [u8; 4]) -> Self {
        let client = rig.open_at(0, GRPC, peer);
        rig.bytes(client, PREFACE);
        // SETTINGS, WINDOW_UPDATE, and the acknowledgement.
        assert!(rig.take(client).ends_with(b"\0\0\0\x04\x01\0\0\0\0"));
        Self { rig, client, next: 1 }
    }

    /// A call's bytes on the next stream.
    fn bytes(&mut self, method: &str, authorization: &str, message: &[u8]) -> Vec<u8> {
        self.bytes_behind(&head(method, authorization), message)
    }

    fn bytes_behind(&mut self, head: &[u8], message: &[u8]) -> Vec<u8> {
        let stream = self.next;
        self.next += 2;
        let len = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0], &len[..], message].concat();
        let mut bytes = frame(1, 0x4, stream, head);
        for piece in body.chunks(16_000) {
            bytes.extend(frame(0, 0, stream, piece));
        }
        bytes.extend(frame(0, 0x1, stream, b""));
        bytes
    }

    fn send(&mut self, method: &str, authorization: &str, message: &[u8]) {
        let bytes = self.bytes(method, authorization, message);
        self.rig.bytes(self.client, &bytes);
    }

    fn send_with(&mut self, method: &str, fields: &[(&str, &str)], message: &[u8]) {
        let bytes = self.bytes_behind(&head_with(method, fields), message);
        self.rig.bytes(self.client, &bytes);
    }

    fn call<Q: ProtoMessage>(&mut self, method: &str, authorization: &str, request: &Q) -> Ended {
        let mut message = Vec::new();
        encode(&mut message, request, Format::Protobuf);
        self.send(method, authorization, &message);
        self.ended().pop().unwrap()
    }

    /// What has ended, in order.
    fn ended(&self) -> Vec<Ended> {
        let bytes = self.rig.take(self.client);
        let (mut rest, mut messages, mut ended) = (&bytes[..], Vec::new(), Vec::new());
        while !rest.is_empty() {
            let len = 9 + u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
            let (one, behind) = rest.split_at(len);
            rest = behind;
            let stream = u32::from_be_bytes(one[5..9].try_into().unwrap());
            match one[3] {
                0 => messages.push((stream, one[9..].to_vec())),
                1 if one[4] & 1 != 0 => {
                    let data: Vec<u8> = messages
                        .extract_if(.., |(of, _)| *of == stream)
                        .flat_map(|(_, data)| data)
                        .collect();
                    let code = field(&one[9..], "grpc-status").unwrap().parse().unwrap();
                    let text = field(&one[9..], "grpc-message").unwrap_or_default();
                    let message = data.get(5..).unwrap_or_default().to_vec();
                    ended.push(Ended { stream, code, text, message });
                }
                _ => {}
            }
        }
        ended
    }
}

/// The value of a field that is written in full.
fn field(block: &[u8], name: &str) -> Option<String> {
    let at = block.windows(name.len()).position(|window| window == name.as_bytes())?;
    let (len, rest) = block[at + name.len()..].split_first()?;
    Some(String::from_utf8(rest[..usize::from(*len)].to_vec()).unwrap())
}

fn device(id: &str) -> AuthenticateDeviceRequest {
    let account = AccountDevice { id: id.to_owned(), ..AccountDevice::default() };
    AuthenticateDeviceRequest { account: Some(account), ..AuthenticateDeviceRequest::default() }
}

fn bearer(caller: &mut Caller<'_>, id: &str) -> String {
    let ended = caller.call("AuthenticateDevice", &server_key(), &device(id));
    assert_eq!((ended.code, &*ended.text), (0, ""));
    let session: Session = decode_protobuf(&ended.message).unwrap();
    format!("Bearer {}", session.token)
}

#[test]
fn calls_are_those_of_rest() {
    let rig = Rig::with(&Plan { modules: &[("echo.lua", ECHO)], ..Plan::default() });
    let mut caller = Caller::new(&rig);
    let bearer = bearer(&mut caller, "device-of-ada");
    let ended = caller.call("GetAccount", &bearer, &wire::nakama::api::Empty {});
    let account: Account = decode_protobuf(&ended.message).unwrap();
    assert_eq!((ended.code, ended.stream), (0, 3));
    assert_eq!(account.devices[0].id, "device-of-ada");
    let rest = rig.http(rig.open(0), "GET /v2/account", &bearer, "");
    let id = account.user.unwrap().id;
    assert!(rest.contains(&id), "{rest}");
    // On the lister's thread, and on a caller's.
    let ended = caller.call("ListMatches", &bearer, &ListMatchesRequest::default());
    assert_eq!(decode_protobuf(&ended.message), Ok(MatchList::default()));
    let rpc = Rpc { id: "Echo".into(), payload: "ö".into(), http_key: String::new() };
    let ended = caller.call("RpcFunc", &bearer, &rpc);
    assert_eq!(decode_protobuf(&ended.message), Ok(Rpc { payload: "ö".into(), ..Rpc::default() }));
    let by_key = Rpc { http_key: "httpkey".into(), ..rpc };
    assert_eq!(caller.call("RpcFunc", "", &by_key).code, 0);
    // The same counters, whichever way a call came.
    let accounts = rig.core_stats[0].calls.all().find(|(name, _)| *name == "GetAccount").unwrap();
    assert_eq!((accounts.1.count.read(), accounts.1.errors.read()), (2, 0));
    let rpcs = rig.core_stats[0].calls.all().find(|(name, _)| *name == "Rpc").unwrap();
    assert_eq!(rpcs.1.count.read(), 2);
}

#[test]
fn refusals_carry_codes_and_texts() {
    let rig = Rig::new();
    let mut caller = Caller::new(&rig);
    let empty = wire::nakama::api::Empty {};
    for (method, authorization, code, text) in [
        ("Healthcheck", "", 0, ""),
        ("GetAccount", "", 16, "Auth token required"),
        ("GetAccount", "Bearer x", 16, "Auth token invalid"),
        ("AuthenticateDevice", "", 16, "Server key required"),
        ("RpcFunc", "", 16, "Auth token or HTTP key required"),
        ("CreateGroup", "", 12, "CreateGroup: groups are not implemented in throng yet"),
        ("Nothing", "", 12, "unknown method Nothing for service nakama.api.Nakama"),
    ] {
        let ended = caller.call(method, authorization, &empty);
        assert_eq!((ended.code, &*ended.text), (code, text), "{method}");
    }
    let invalid = caller.call("AuthenticateDevice", &server_key(), &device("short"));
    assert_eq!(invalid.code, 3, "{}", invalid.text);
    caller.send("GetAccount", "", b"\xff\xff\xff");
    let unread = caller.ended().remove(0);
    assert_eq!(unread.code, 13);
    assert!(unread.text.starts_with("grpc: error unmarshalling request: "), "{}", unread.text);
    caller.send("RpcFunc", "", &vec![0; 262_145]);
    assert_eq!(caller.ended()[0].code, 8);
    assert!(!rig.is_closed(caller.client));
}

#[test]
fn limits_of_users_and_addresses_hold() {
    let rig = Rig::with(&Plan {
        tune: |settings| {
            settings.limits.requests_per_user_per_s = 2;
            settings.limits.connections_per_address = 1;
            settings.limits.exempt_addresses = Vec::new();
        },
        ..Plan::default()
    });
    let mut caller = Caller::new(&rig);
    let bearer = bearer(&mut caller, "device-of-ada");
    let calls = |caller: &mut Caller<'_>| {
        caller.call("GetAccount", &bearer, &wire::nakama::api::Empty {}).code
    };
    assert_eq!([0; 3].map(|_| calls(&mut caller)), [0, 0, 8]);
    // They count together with those over HTTP.
    let answer = rig.http(rig.open_from(0, [10, 0, 0, 2]), "GET /v2/account", &bearer, "");
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert_eq!(rig.stat("limited_requests_per_user"), 2);
    let second = rig.open_at(0, GRPC, [10, 0, 0, 1]);
    let told = String::from_utf8_lossy(&rig.take(second)).into_owned();
    assert!(told.contains("limit.connections_per_address"), "{told}");
    assert!(rig.is_closed(second));
}

#[test]
fn a_connection_has_a_hundred_streams() {
    let rig = Rig::new();
    let (mut caller, mut other) = (Caller::new(&rig), Caller::from(&rig, [10, 0, 0, 9]));
    let bearer = bearer(&mut caller, "device-of-ada");
    rig.freeze(rig.topology.batcher, true);
    let many: Vec<u8> = (0..103).flat_map(|_| caller.bytes("GetAccount", &bearer, b"")).collect();
    rig.bytes(caller.client, &many);
    assert_eq!(rig.stat("grpc_streams_refused"), 3);
    assert_eq!(rig.stat("jobs_waiting"), 100);
    // Who takes calls back gets no others worked on meanwhile.
    for stream in (3..23).step_by(2) {
        rig.bytes(caller.client, &frame(3, 0, stream, &[0, 0, 0, 8]));
    }
    caller.send("GetAccount", &bearer, b"");
    assert_eq!((rig.stat("grpc_streams_refused"), rig.stat("grpc_cancelled")), (4, 10));
    assert_eq!(other.call("Healthcheck", "", &wire::nakama::api::Empty {}).code, 0);
    rig.freeze(rig.topology.batcher, false);
    rig.settle();
    assert_eq!(caller.ended().len(), 90);
    assert_eq!(rig.stat("jobs_waiting"), 0);
    caller.send("GetAccount", &bearer, b"");
    assert_eq!(caller.ended()[0].code, 0);
}

#[test]
fn who_leaves_leaves_nothing() {
    let rig = Rig::new();
    let mut caller = Caller::new(&rig);
    let bearer = bearer(&mut caller, "device-of-ada");
    rig.freeze(rig.topology.batcher, true);
    caller.send("GetAccount", &bearer, b"");
    rig.closed(caller.client, CloseReason::Peer);
    rig.freeze(rig.topology.batcher, false);
    rig.settle();
    for name in ["grpc_connections", "grpc_unwritten_bytes", "jobs_waiting", "input_bytes_waiting"]
    {
        assert_eq!(rig.stat(name), 0, "{name}");
    }
    // Who sends no more is answered before it is closed.
    let mut caller = Caller::new(&rig);
    rig.freeze(rig.topology.batcher, true);
    caller.send("GetAccount", &bearer, b"");
    rig.eof(caller.client);
    assert!(!rig.is_closed(caller.client));
    rig.freeze(rig.topology.batcher, false);
    rig.settle();
    assert_eq!(caller.ended()[0].code, 0);
    assert!(rig.is_closed(caller.client));
}

#[test]
fn who_is_slow_or_idle_is_let_go() {
    let rig = Rig::new();
    let mut caller = Caller::new(&rig);
    // A request whose body never comes: its stream ends, the connection does not.
    rig.bytes(caller.client, &frame(1, 0x4, 1, &head("GetAccount", "")));
    caller.next = 3;
    rig.advance(20_000);
    assert_eq!(rig.stat("grpc_closed_slow"), 1);
    assert_eq!(caller.call("Healthcheck", "", &wire::nakama::api::Empty {}).code, 0);
    // A frame that never ends.
    rig.bytes(caller.client, &frame(0, 0, 1, &[0; 100])[..50]);
    rig.advance(20_000);
    assert!(rig.is_closed(caller.client));
    assert_eq!(rig.stat("grpc_closed_slow"), 2);
    let silent = rig.open_at(0, GRPC, [10, 0, 0, 1]);
    rig.advance(20_000);
    assert!(rig.is_closed(silent), "not even a preface");
    let caller = Caller::new(&rig);
    rig.advance(50_000);
    assert!(!rig.is_closed(caller.client));
    rig.advance(20_000);
    let told = String::from_utf8_lossy(&rig.take(caller.client)).into_owned();
    assert!(rig.is_closed(caller.client) && told.contains("socket.idle_timeout_ms"), "{told}");
    assert_eq!(rig.stat("grpc_connections"), 0);
}

#[test]
fn answers_wait_for_windows_and_not_for_ever() {
    let rig = Rig::with(&Plan { modules: &[("echo.lua", ECHO)], ..Plan::default() });
    let mut caller = Caller::new(&rig);
    rig.bytes(caller.client, &frame(4, 0, 0, &[0, 4, 0, 0, 0, 100]));
    let payload = "x".repeat(50_000);
    let rpc = Rpc { id: "echo".into(), payload, http_key: "httpkey".into() };
    let mut message = Vec::new();
    encode(&mut message, &rpc, Format::Protobuf);
    caller.send("RpcFunc", "", &message);
    let waits = rig.stat("grpc_unwritten_bytes");
    assert!((49_000..51_000).contains(&waits), "{waits}");
    rig.bytes(caller.client, &frame(8, 0, 1, &1_000_u32.to_be_bytes()));
    assert_eq!(rig.stat("grpc_unwritten_bytes"), waits - 1_000);
    rig.advance(30_000);
    assert_eq!((rig.stat("grpc_unwritten_bytes"), rig.stat("grpc_closed_stalled")), (0, 1));
    assert!(rig.is_closed(caller.client));
    // As a client that does not read: the next request waits until the kernel has taken the answers.
    let mut caller = Caller::new(&rig);
    rig.set_behind(caller.client);
    rig.bytes(caller.client, &frame(4, 0, 0, &[0, 4, 0, 0x10, 0, 0]));
    rig.bytes(caller.client, &frame(8, 0, 0, &(1_u32 << 20).to_be_bytes()));
    for _ in 0..4 {
        caller.send("RpcFunc", "", &message);
    }
    assert_eq!(caller.ended().len(), 2, "what is beyond 64 KiB waits");
    rig.take_once(caller.client);
    rig.take_once(caller.client);
    rig.settle();
    assert!(!caller.ended().is_empty());
}

/// An RPC over gRPC whose answer is as long as its payload, of the HTTP key.
fn echo(bytes: usize) -> Vec<u8> {
    let rpc = Rpc { id: "echo".into(), payload: "x".repeat(bytes), http_key: "httpkey".into() };
    let mut message = Vec::new();
    encode(&mut message, &rpc, Format::Protobuf);
    message
}

/// A window of nothing for every answer.
fn close_windows(caller: &Caller<'_>) {
    caller.rig.bytes(caller.client, &frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
}

#[test]
fn one_stuck_answer_is_dropped_and_the_others_go_on() {
    let rig = Rig::with(&Plan { modules: &[("echo.lua", ECHO)], ..Plan::default() });
    let mut caller = Caller::new(&rig);
    close_windows(&caller);
    caller.send("RpcFunc", "", &echo(1_000));
    for _ in 0..30 {
        let stream = caller.next;
        caller.send("RpcFunc", "", &echo(20_000));
        rig.advance(1_000);
        rig.bytes(caller.client, &frame(8, 0, 0, &20_100_u32.to_be_bytes()));
        rig.bytes(caller.client, &frame(8, 0, stream, &20_100_u32.to_be_bytes()));
    }
    assert!(!rig.is_closed(caller.client));
    assert_eq!((rig.stat("grpc_answers_stalled"), rig.stat("grpc_closed_stalled")), (1, 0));
}

#[test]
fn answers_behind_closed_windows_leave_the_core_to_others() {
    const MIB: u64 = 1 << 20;
    let plan = Plan {
        modules: &[("echo.lua", ECHO)],
        tune: |settings| {
            settings.answers.unsent_bytes_max = 4 << 20;
            settings.limits.exempt_addresses = Vec::new();
        },
        ..Plan::default()
    };
    let rig = Rig::with(&plan);
    // An eighth for a connection, a quarter for an address, and an answer.
    let mut hostile: Vec<Caller<'_>> = (0..4).map(|_| Caller::new(&rig)).collect();
    for (index, caller) in hostile.iter_mut().enumerate() {
        close_windows(caller);
        for _ in 0..8 {
            caller.send("RpcFunc", "", &echo(100_000));
        }
        let waits = rig.stat("grpc_unwritten_bytes");
        let most = (index as u64 + 1) * MIB / 2;
        assert!(waits <= most.min(MIB) && waits > most.min(MIB) - 110_000, "{index}: {waits}");
    }
    assert_eq!(rig.stat("grpc_answers_refused"), 32 - 10);
    let refused = hostile[0].ended().pop().unwrap();
    assert!(refused.code == 8 && refused.text.contains("limit.unsent_max_bytes"), "{refused:?}");
    // Another address is answered much, and this one little.
    let mut other = Caller::from(&rig, [10, 0, 0, 2]);
    other.send("RpcFunc", "", &echo(60_000));
    assert_eq!(other.ended()[0].code, 0);
    let mut same = Caller::new(&rig);
    same.send("RpcFunc", "", &echo(60_000));
    same.send("RpcFunc", "", &echo(10_000));
    assert_eq!(same.ended().iter().map(|ended| ended.code).collect::<Vec<_>>(), [8, 0]);
    assert_eq!(rig.stat("answers_refused"), 0);
    for caller in &hostile {
        rig.closed(caller.client, CloseReason::Peer);
    }
    assert_eq!(rig.stat("grpc_unwritten_bytes"), 0);
    let mut same = Caller::new(&rig);
    same.send("RpcFunc", "", &echo(60_000));
    assert_eq!(same.ended()[0].code, 0, "what waited for its address is given back");
}

#[test]
fn a_turn_compresses_so_much() {
    let rig = Rig::with(&Plan { modules: &[("echo.lua", ECHO)], ..Plan::default() });
    let mut caller = Caller::new(&rig);
    rig.bytes(caller.client, &frame(4, 0, 0, &[0, 4, 0, 0x10, 0, 0]));
    rig.bytes(caller.client, &frame(8, 0, 0, &(1_u32 << 24).to_be_bytes()));
    for (count, packed) in [(1, 1), (3, 2)] {
        rig.freeze(rig.topology.callers[0], true);
        for _ in 0..count {
            caller.send_with("RpcFunc", &[("grpc-accept-encoding", "gzip")], &echo(100_000));
        }
        rig.freeze(rig.topology.callers[0], false);
        rig.settle();
        let bytes = rig.take(caller.client).len();
        let plain = (count - packed) * 100_000;
        assert!(bytes > plain && bytes < plain + 10_000, "{count}: {bytes}");
    }
    assert_eq!(rig.stat("answers_not_packed"), 1);
}

#[test]
fn floods_and_strangers_are_told() {
    let rig = Rig::new();
    let caller = Caller::new(&rig);
    let pings: Vec<u8> = (0..1_100).flat_map(|_| frame(6, 0, 0, b"12345678")).collect();
    rig.bytes(caller.client, &pings);
    assert!(rig.is_closed(caller.client));
    assert_eq!(rig.stat("grpc_closed_flooding"), 1);
    let (http, tls) = (rig.open_at(0, GRPC, [1; 4]), rig.open_at(0, GRPC, [1; 4]));
    rig.bytes(http, &request("GET /", "", ""));
    let answer = rig.text(http);
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("socket.port"), "{answer}");
    let length = answer.split("Content-Length: ").nth(1).unwrap().split('\r').next().unwrap();
    assert!(answer.split("\r\n\r\n").nth(1).unwrap().len().to_string() == length);
    rig.bytes(tls, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03");
    assert!(rig.is_closed(http) && rig.is_closed(tls));
    assert_eq!(rig.stat("grpc_connections"), 0);
}

#[test]
fn a_stop_lets_calls_end() {
    let rig = Rig::new();
    let mut caller = Caller::new(&rig);
    let bearer = bearer(&mut caller, "device-of-ada");
    let idle = Caller::new(&rig);
    rig.freeze(rig.topology.batcher, true);
    caller.send("GetAccount", &bearer, b"");
    rig.stop(ThreadId(0));
    rig.advance(100);
    assert!(rig.is_closed(idle.client) && !rig.is_closed(caller.client));
    rig.freeze(rig.topology.batcher, false);
    rig.settle();
    assert_eq!(caller.ended()[0].code, 0);
    assert!(rig.is_closed(caller.client));
}

/// Else whoever leaves holds its address's share until it counts as stalled.
#[test]
fn what_waits_for_windows_goes_with_the_client() {
    let rig = Rig::with(&Plan { modules: &[("echo.lua", ECHO)], ..Plan::default() });
    let mut caller = Caller::new(&rig);
    close_windows(&caller);
    caller.send("RpcFunc", "", &echo(50_000));
    assert!(rig.stat("grpc_unwritten_bytes") > 49_000);
    rig.eof(caller.client);
    rig.settle();
    assert!(rig.is_closed(caller.client));
    assert_eq!(rig.stat("grpc_unwritten_bytes"), 0);
}
