//! The thread and its REST, over real connections; gRPC is met by the released clients (dev/e2e/host).

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::desk::{Desk, Who, Word};
use super::{Listeners, Open, Sdk};
use crate::daemon::Event;
use crate::fleet::sdk::{Agones, Counter, List};

struct Rig {
    port: u16,
    desk: Arc<Desk>,
    events: Receiver<Event>,
    _sdk: Sdk,
    open: Option<Open>,
}

fn rig() -> Rig {
    let (sender, events) = channel();
    let settings = Agones {
        counters: [("rooms".to_owned(), Counter { count: 1, capacity: 10 })].into(),
        lists: [("players".to_owned(), List { capacity: 10, values: Vec::new() })].into(),
        ..Agones::default()
    };
    let desk = Arc::new(Desk::new(0, settings, sender));
    let ports = vec![("default".to_owned(), 7_000)];
    let who = Who {
        name: "a".to_owned(),
        address: "127.0.0.1".to_owned(),
        ports,
        created_s: 1_700_000_000,
    };
    desk.begin(1, who);
    let sdk = Sdk::start().unwrap();
    let listeners = Listeners::open(0, 0).unwrap();
    let port = listeners.ports().unwrap().1;
    let open = sdk.open(0, 1, Arc::clone(&desk), None, listeners);
    Rig { port, desk, events, _sdk: sdk, open: Some(open) }
}

impl Rig {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = self.connect();
        let len = body.len();
        let head = format!("Host: a\r\nConnection: close\r\nContent-Length: {len}\r\n");
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
    }
}

/// A line of a watch, which comes in chunks.
fn line(stream: &mut TcpStream) -> Value {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    loop {
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some(at) = text.find("{\"result\"")
            && text.ends_with('\n')
        {
            return serde_json::from_str(&text[at..]).unwrap();
        }
    }
}

#[test]
fn rest_is_as_the_reference_has_it() {
    let rig = rig();
    assert_eq!(rig.ask("POST", "/ready", "{}"), (200, json!({})));
    assert!(matches!(
        rig.events.recv_timeout(Duration::from_secs(30)),
        Ok(Event::Wanted { index: 0, round: 1 })
    ));
    let (status, server) = rig.ask("GET", "/gameserver", "");
    assert_eq!(status, 200);
    assert_eq!(server["status"]["state"], "RequestReady");
    assert_eq!(server["status"]["ports"], json!([{ "name": "default", "port": 7_000 }]));
    assert_eq!(server["status"]["players"], Value::Null);
    assert_eq!(server["status"]["addresses"], json!([]));
    assert_eq!(server["object_meta"]["creation_timestamp"], "1700000000");
    assert_eq!(server["object_meta"]["deletion_timestamp"], "0");
    let health = json!({ "disabled": false, "period_seconds": 5, "failure_threshold": 3,
        "initial_delay_seconds": 5 });
    assert_eq!(server["spec"]["health"], health);
    let label = json!({ "key": "mode", "value": "ctf" }).to_string();
    assert_eq!(rig.ask("PUT", "/metadata/label", &label), (200, json!({})));
    assert_eq!(
        rig.ask("PATCH", "/v1beta1/counters/rooms", "{\"countDiff\":\"2\"}").1,
        json!({ "name": "rooms", "count": "3", "capacity": "10" })
    );
    assert_eq!(
        rig.ask("POST", "/v1beta1/lists/players:addValue", "{\"value\":\"p 1\"}").1,
        json!({ "name": "players", "capacity": "10", "values": ["p 1"] })
    );
    let changed = rig.ask("PATCH", "/v1beta1/lists/players", "{\"capacity\":5}").1;
    assert_eq!(changed["capacity"], "5");
    let code = |method, path, body| {
        let (status, body) = rig.ask(method, path, body);
        assert!(body["message"].is_string() && body["details"] == json!([]), "{body}");
        (status, body["code"].as_i64().unwrap())
    };
    assert_eq!(code("GET", "/v1beta1/counters/x", ""), (500, 2));
    assert_eq!(code("PATCH", "/v1beta1/counters/rooms", "{\"count\":11}"), (500, 2));
    assert_eq!(code("GET", "/alpha/player/count", ""), (500, 2));
    assert_eq!(code("POST", "/health", ""), (400, 3));
    assert_eq!(code("POST", "/ready", "{"), (400, 3));
    assert_eq!(code("PUT", "/metadata/label", "{\"key\":1}"), (400, 3));
    assert_eq!(code("GET", "/ready", ""), (501, 12));
    assert_eq!(code("GET", "/nothing", ""), (404, 5));
    assert_eq!(code("POST", "/v1beta1/lists/players:x", ""), (404, 5));
    assert_eq!(code("PUT", "/metadata/label", &" ".repeat(70_000)), (400, 3));
}

#[test]
fn who_watches_is_told_of_changes_until_the_server_ends() {
    let mut rig = rig();
    let mut stream = rig.connect();
    write!(stream, "GET /watch/gameserver HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(line(&mut stream)["result"]["status"]["state"], "Scheduled");
    rig.desk.set_word(Word::Ready);
    assert_eq!(line(&mut stream)["result"]["status"]["state"], "Ready");
    rig.open = None;
    let mut rest = Vec::new();
    // Whichever way it ends.
    let _ = stream.read_to_end(&mut rest);
    assert!(TcpStream::connect(("127.0.0.1", rig.port)).is_err(), "nobody listens any more");
}

#[test]
fn a_server_has_so_many_connections_and_watches() {
    let rig = rig();
    let mut streams: Vec<TcpStream> = (0..16).map(|_| rig.connect()).collect();
    for stream in &mut streams {
        write!(stream, "GET /watch/gameserver HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        line(stream);
    }
    let mut more = rig.connect();
    // Closed without a word, or reset because of what it said.
    let _ = write!(more, "GET /gameserver HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut answer = Vec::new();
    let _ = more.read_to_end(&mut answer);
    assert!(answer.is_empty());
    assert_eq!(rig.desk.view().unwrap().refused, 1);
}
