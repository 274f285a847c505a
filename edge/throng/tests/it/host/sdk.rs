//! The Agones SDK as servers meet it under `throng host`: small servers that speak its REST by hand. The
//! released clients are met in dev/e2e/agones.test.mjs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::server::{say, stay};
use super::{Fleet, PATIENCE, is_root};

/// Time that a neighbour may have to wait, as everywhere.
const WAIT_MAX: Duration = Duration::from_millis(250);

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// One call; nothing if nobody answers.
fn call(port: u16, method: &str, path: &str, body: &str) -> Option<Value> {
    let mut stream = connect(port).ok()?;
    let len = body.len();
    let head = format!("Host: a\r\nConnection: close\r\nContent-Length: {len}\r\n");
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

/// The server's own port of the SDK.
fn own_port() -> u16 {
    std::env::var("AGONES_SDK_HTTP_PORT").unwrap().parse().unwrap()
}

fn must(method: &str, path: &str, body: &str) -> Value {
    let answer = call(own_port(), method, path, body);
    answer.unwrap_or_else(|| panic!("{method} {path}: no answer"))
}

/// What the servers of these tests do, by the words after `sdk`.
pub(super) fn serve(words: &[&str]) {
    match words {
        ["obeys"] => obeys(),
        ["silent"] => {
            must("POST", "/ready", "{}");
            stay()
        }
        ["looks", port] => {
            let seen = call(port.parse().unwrap(), "GET", "/gameserver", "");
            say(&format!("looked: {seen:?}"));
            stay()
        }
        ["floods"] => floods(),
        other => panic!("{other:?}"),
    }
}

/// Is well, says that it is ready, and does what a label tells it.
fn obeys() {
    std::thread::spawn(|| {
        loop {
            must("POST", "/health", "{}");
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    must("PATCH", "/v1beta1/counters/rooms", "{\"countDiff\":\"1\"}");
    must("PUT", "/metadata/label", "{\"key\":\"mode\",\"value\":\"ctf\"}");
    must("POST", "/ready", "{}");
    let mut stream = connect(own_port()).unwrap();
    stream.set_read_timeout(None).unwrap();
    write!(stream, "GET /watch/gameserver HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut done = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        // Lines between are the lengths of chunks.
        let picture: Value = serde_json::from_str(&line).unwrap_or_default();
        let Some(server) = picture.get("result") else { continue };
        let order = server["object_meta"]["labels"]["do"].as_str().unwrap_or_default().to_owned();
        say(&format!("state {} do={order}", server["status"]["state"]));
        if order == done {
            continue;
        }
        done = order;
        match &*done {
            "ready" => must("POST", "/ready", "{}"),
            "reserve" => must("POST", "/reserve", "{\"seconds\":\"1\"}"),
            "shutdown" => must("POST", "/shutdown", "{}"),
            "keep" => continue,
            other => panic!("{other}"),
        };
    }
    stay()
}

/// As many connections as it gets, each with as many calls as go through.
fn floods() {
    say("up");
    let text = "POST /allocate HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}".repeat(100);
    for _ in 0..32 {
        let text = text.clone();
        std::thread::spawn(move || {
            loop {
                let Ok(mut stream) = connect(own_port()) else { continue };
                let mut reader = stream.try_clone().unwrap();
                std::thread::spawn(move || {
                    let mut bytes = [0; 4_096];
                    while reader.read(&mut bytes).is_ok_and(|len| len > 0) {}
                });
                while stream.write_all(text.as_bytes()).is_ok() {}
            }
        });
    }
    stay()
}

fn fleet_yaml(name: &str, wall: &str) -> String {
    // The command of a list in TOML does in YAML, too.
    format!(
        "apiVersion: agones.dev/v1\nkind: Fleet\nmetadata: {{ name: {name} }}\nspec:\n  replicas: 2\n  \
         template:\n    metadata: {{ annotations: {{ throng.dev/wall: {wall} }} }}\n    spec:\n      \
         ports: [{{ name: game, portPolicy: Passthrough }}]\n      \
         health: {{ initialDelaySeconds: 1, periodSeconds: 2, failureThreshold: 3 }}\n      \
         counters: {{ rooms: {{ count: 1, capacity: 10 }} }}\n      scheduling: Packed\n      \
         template:\n        spec:\n          containers:\n          - image: example.com/a:1\n            \
         name: a\n            command: [SERVER 'sdk', 'obeys']\n"
    )
}

#[test]
fn a_server_of_agones_lives_its_whole_life_here() {
    if !is_root() {
        return;
    }
    for wall in ["network", "process"] {
        let (name, text) = (format!("agones-{wall}"), fleet_yaml("gs", wall));
        let mut fleet = Fleet::run_as("yaml", &name, &text, &["--subnet", "10.177.50.0/24"]);
        let said = fleet.line_with("image: example.com/a:1 is not run");
        assert!(said.contains("/bin/sh of this machine"), "{said}");
        fleet.line_with("scheduling: there is one machine");
        for _ in 0..2 {
            fleet.line_with(": ready at ");
        }
        let one = fleet.status("gs-1");
        let sdk = &one["sdk"];
        assert_eq!(
            (&sdk["state"], &sdk["counters"]["rooms"]["count"]),
            (&"Ready".into(), &2.into())
        );
        assert_eq!(sdk["labels"]["agones.dev/sdk-mode"], "ctf", "{one}");
        // Given away, with what it is to be told; of itself ready again.
        let given = fleet.ask(&["allocate", "gs", "--label", "do=ready", "--json"]);
        let given: Value = serde_json::from_str(&given.out).unwrap();
        assert_eq!((&given["name"], &given["state"]), (&"gs-1".into(), &"allocated".into()));
        assert!(given["sdk"]["annotations"]["agones.dev/last-allocated"].is_string(), "{given}");
        fleet.when("gs-1", |it| it["state"] == "ready" && it["sdk"]["state"] == "Ready");
        let log = fleet.ask(&["logs", "gs-1"]).out;
        assert!(log.contains("state \"Allocated\" do=ready"), "{log}");
        // Set aside for a second, and ready again.
        fleet.ask(&["allocate", "gs-1", "--label", "do=reserve"]);
        fleet.line_with("gs-1: reserved");
        fleet.when("gs-1", |it| it["state"] == "ready");
        // It ends itself, and a fleet has as many as before.
        fleet.ask(&["allocate", "gs-1", "--label", "do=shutdown"]);
        let again = fleet.when("gs-1", |it| it["restarts"] == 1 && it["state"] == "ready");
        assert_eq!(again["sdk"]["labels"]["do"], Value::Null, "{again}");
        assert_eq!(fleet.status("gs-2")["restarts"], 0);
        fleet.ends();
    }
}

#[test]
fn one_that_gives_no_sign_of_health_is_started_again() {
    let text = "[[server]]\nname = 'a'\ncommand = [SERVER 'sdk', 'silent']\n\
        ready = { sdk = true }\nagones.health = { initial_delay = '1s', period = '1s', failures = 2 }\n";
    let mut fleet = Fleet::run("unhealthy", text);
    fleet.line_with("a: ready");
    let line = fleet.line_with("a: failed: unhealthy: no Health() at 2 looks");
    assert!(line.contains("is started again"), "{line}");
    fleet.line_with("a: ready");
    fleet.signal(Signal::INT);
}

#[test]
fn one_on_demand_is_started_when_somebody_wants_it() {
    let text = "[[server]]\nname = 'a'\ncount = 2\ncommand = [SERVER 'sdk', 'obeys']\n\
        ready = { sdk = true }\nagones.counters.rooms = { capacity = 9 }\non_demand = true\n\
        restart = 'always'\n";
    let mut fleet = Fleet::run("demand", text);
    fleet.line_with("a-1: stopped");
    let keep = ["allocate", "a", "--label", "do=keep"];
    assert!(fleet.ask(&keep).out.starts_with("a-1 "));
    assert!(fleet.ask(&keep).out.starts_with("a-2 "));
    assert!(fleet.ask(&keep).err.contains("no server is ready"));
    // One that has ended itself waits to be wanted again.
    assert_eq!(fleet.ask(&["stop", "a-2"]).code, Some(0));
    let ended = fleet.ask(&["allocate", "a", "--label", "do=shutdown"]).out;
    assert!(ended.starts_with("a-2 "), "{ended}");
    let status = fleet.when("a-2", |it| it["state"] == "stopped" && it["pid"] == Value::Null);
    assert_eq!(status["what"], "ended by its own Shutdown()");
    fleet.signal(Signal::INT);
}

#[test]
fn what_was_said_by_the_sdk_outlives_the_daemon() {
    if !is_root() {
        return;
    }
    let text = |wall| {
        format!(
            "[host]\nsubnet = '10.177.41.0/24'\n\
             [[server]]\nname = 'a'\ncommand = [SERVER 'sdk', 'obeys']\nwall = '{wall}'\n\
             ready = {{ sdk = true }}\nagones.counters.rooms = {{ capacity = 9 }}\n\
             agones.health = {{ period = '1s', failures = 60 }}\n"
        )
    };
    for wall in ["network", "process"] {
        let mut fleet = Fleet::run(&format!("sdk-kept-{wall}"), &text(wall));
        fleet.line_with("a: ready");
        fleet.ask(&["allocate", "a", "--label", "do=keep"]);
        fleet.signal(Signal::KILL);
        let _ = fleet.child.wait();
        fleet.again(&[]);
        fleet.line_with("1 server goes on");
        let status = fleet.status("a");
        assert_eq!(
            (&status["state"], &status["sdk"]["state"]),
            (&"allocated".into(), &"Allocated".into())
        );
        assert_eq!(status["sdk"]["counters"]["rooms"]["count"], 1, "{status}");
        assert_eq!(status["sdk"]["labels"]["do"], "keep", "{status}");
        fleet.ends();
    }
}

#[test]
fn nobody_else_comes_to_a_servers_sdk() {
    if !is_root() {
        return;
    }
    let text = "[[server]]\nname = 'a'\ncommand = [SERVER 'sdk', 'silent']\nready = { sdk = true }\n\
        agones.health.disabled = true\n";
    let mut fleet = Fleet::run("sdk-own", text);
    fleet.line_with("a: ready");
    let pid = fleet.status("a")["pid"].as_u64().unwrap();
    let environ = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let port = environ.split('\0').find_map(|it| it.strip_prefix("AGONES_SDK_HTTP_PORT=")).unwrap();
    // Root may, as everywhere.
    let seen = call(port.parse().unwrap(), "GET", "/gameserver", "").unwrap();
    assert_eq!(seen["object_meta"]["name"], "a");
    let spy = format!("[[server]]\nname = 'b'\ncommand = [SERVER 'sdk', 'looks', '{port}']\n");
    let mut other = Fleet::run("sdk-spy", &spy);
    other.line_with("b: ready");
    let since = Instant::now();
    while !other.ask(&["logs", "b"]).out.contains("looked: None") {
        assert!(since.elapsed() < PATIENCE, "{}", other.ask(&["logs", "b"]).out);
    }
    let sdk = &fleet.status("a")["sdk"];
    assert_eq!(
        (&sdk["strangers"], &sdk["refused"], &sdk["waited"]),
        (&1.into(), &0.into(), &0.into())
    );
    other.ends();
    fleet.ends();
}

#[test]
fn one_that_floods_its_sdk_is_alone_with_it() {
    if !is_root() {
        return;
    }
    let text = "[[server]]\nname = 'good'\ncommand = [SERVER 'sdk', 'obeys']\nready = { sdk = true }\n\
        agones.counters.rooms = { capacity = 9 }\nagones.health = { period = '2s' }\n\
        cpu.weight = 1000\nwall = 'cgroup'\n\
        [[server]]\nname = 'bad'\ncommand = [SERVER 'sdk', 'floods']\nwall = 'cgroup'\n\
        cpu.weight = 10\n";
    let mut fleet = Fleet::run("sdk-flood", text);
    fleet.line_with("good: ready");
    fleet.line_with("bad: allocated");
    fleet.when("bad", |it| it["sdk"]["waited"].as_u64() > Some(1_000));
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let since = Instant::now();
        assert_eq!(fleet.ask(&["ps", "--json"]).code, Some(0));
        longest = longest.max(since.elapsed());
    }
    eprintln!("ps beside a flood: {longest:?} at most");
    // A debug build with other tests beside; dev/e2e/attack/host.test.mjs looks at a release build.
    assert!(longest < 4 * WAIT_MAX, "{longest:?}");
    let good = fleet.status("good");
    assert_eq!((&good["state"], &good["restarts"]), (&"ready".into(), &0.into()), "{good}");
    let bad = fleet.status("bad");
    assert!(bad["sdk"]["refused"].as_u64() > Some(0), "{bad}");
    assert_eq!(bad["state"], "allocated", "what it called was done, at the rate of one: {bad}");
    fleet.ends();
}
