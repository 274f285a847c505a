//! A game server that speaks the Agones SDK by the released client for Rust: it makes every call there is, says what it
//! saw, and fails loudly. Started by `throng host` from agones.test.mjs, as the servers beside.

#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::time::Duration;

use agones::errors::Error;
use agones::{GameServer, Sdk};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);
/// Codes of gRPC: what Agones refuses nearly everything with, and what it says of a bad label.
const UNKNOWN: i32 = 2;
const INVALID_ARGUMENT: i32 = 3;

fn say(line: &str) {
    println!("conformance: {line}");
}

fn refused<T: Debug>(answer: Result<T, Error>, code: i32, part: &str) {
    let Err(Error::Rpc(status)) = &answer else { panic!("not refused: {answer:?}") };
    assert_eq!(status.code() as i32, code, "{status}");
    assert!(status.message().contains(part), "{status}");
}

/// Pictures in the order in which they come.
struct Watch(UnboundedReceiver<GameServer>);

impl Watch {
    async fn begin(sdk: &mut Sdk) -> Self {
        let mut stream = sdk.watch_gameserver().await.unwrap();
        let (sender, pictures) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(picture)) = stream.message().await {
                if sender.send(picture).is_err() {
                    return;
                }
            }
        });
        Self(pictures)
    }

    /// The next picture that is so.
    async fn when(&mut self, is_so: impl Fn(&GameServer) -> bool) -> GameServer {
        loop {
            let next = timeout(PATIENCE, self.0.recv()).await.expect("no such picture");
            let picture = next.expect("the watch ended");
            if is_so(&picture) {
                return picture;
            }
        }
    }

    async fn state(&mut self, wanted: &str) -> GameServer {
        self.when(|it| it.status.as_ref().is_some_and(|it| it.state == wanted)).await
    }
}

fn label<'a>(picture: &'a GameServer, key: &str) -> &'a str {
    picture.object_meta.as_ref().and_then(|it| it.labels.get(key)).map_or("", |it| it)
}

fn annotation<'a>(picture: &'a GameServer, key: &str) -> &'a str {
    picture.object_meta.as_ref().and_then(|it| it.annotations.get(key)).map_or("", |it| it)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut told_to_end = signal(SignalKind::terminate()).unwrap();
    let mut sdk = Sdk::new(None, None).await.unwrap();
    let health = sdk.health_check();
    let signs = tokio::spawn(async move {
        while health.send(()).await.is_ok() {
            sleep(Duration::from_millis(500)).await;
        }
    });
    let mut watch = Watch::begin(&mut sdk).await;
    itself(&mut sdk).await;
    metadata(&mut sdk, &mut watch).await;
    counters(&sdk).await;
    lists(&sdk).await;
    players(&sdk).await;
    say("written");
    sdk.ready().await.unwrap();
    watch.state("Ready").await;
    say("ready");
    let given = watch.state("Allocated").await;
    assert_eq!((label(&given, "map"), annotation(&given, "session")), ("dm1", "players a, b"));
    assert!(annotation(&given, "agones.dev/last-allocated").starts_with("20"), "{given:?}");
    say("allocated");
    sdk.reserve(Duration::from_secs(1)).await.unwrap();
    watch.state("Reserved").await;
    watch.state("Ready").await;
    say("reserved");
    sdk.allocate().await.unwrap();
    watch.state("Allocated").await;
    assert!(!signs.is_finished(), "the stream of health has ended");
    sdk.shutdown().await.unwrap();
    told_to_end.recv().await;
    say("told to end");
}

async fn itself(sdk: &mut Sdk) {
    let it = sdk.get_gameserver().await.unwrap();
    let (meta, status) = (it.object_meta.unwrap(), it.status.unwrap());
    assert_eq!((&*meta.name, &*meta.namespace, &*status.state), ("rust", "default", "Scheduled"));
    assert_eq!(it.spec.unwrap().health.unwrap().period_seconds, 2);
    let ports: Vec<&str> = status.ports.iter().map(|it| &*it.name).collect();
    assert_eq!(ports, ["default"]);
    assert!(status.address.parse::<std::net::Ipv4Addr>().is_ok(), "{}", status.address);
}

async fn metadata(sdk: &mut Sdk, watch: &mut Watch) {
    sdk.set_label("mode", "ctf").await.unwrap();
    sdk.set_annotation("note", "any text: ü").await.unwrap();
    let marked = watch.when(|it| annotation(it, "agones.dev/sdk-note") == "any text: ü").await;
    assert_eq!(label(&marked, "agones.dev/sdk-mode"), "ctf");
    refused(sdk.set_label("a b", "c").await, INVALID_ARGUMENT, "");
}

async fn counters(sdk: &Sdk) {
    let mut beta = sdk.beta().clone();
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 1);
    beta.increment_counter("rooms", 4).await.unwrap();
    beta.decrement_counter("rooms", 2).await.unwrap();
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 3);
    refused(beta.increment_counter("rooms", 8).await, UNKNOWN, "out of range");
    beta.set_counter_capacity("rooms", 20).await.unwrap();
    beta.set_counter_count("rooms", 20).await.unwrap();
    assert_eq!(beta.get_counter_count("rooms").await.unwrap(), 20);
    assert_eq!(beta.get_counter_capacity("rooms").await.unwrap(), 20);
    refused(beta.get_counter_count("none").await, UNKNOWN, "counter not found");
}

async fn lists(sdk: &Sdk) {
    let mut beta = sdk.beta().clone();
    beta.append_list_value("players", "p1").await.unwrap();
    beta.append_list_value("players", "p2").await.unwrap();
    refused(beta.append_list_value("players", "p1").await, UNKNOWN, "already exists");
    assert_eq!(beta.get_list_values("players").await.unwrap(), ["p0", "p1", "p2"]);
    beta.delete_list_value("players", "p0").await.unwrap();
    assert_eq!(beta.get_list_length("players").await.unwrap(), 2);
    assert!(beta.list_contains("players", "p2").await.unwrap());
    beta.set_list_capacity("players", 2).await.unwrap();
    assert_eq!(beta.get_list_capacity("players").await.unwrap(), 2);
    refused(beta.append_list_value("players", "p3").await, UNKNOWN, "out of range");
    refused(beta.set_list_capacity("players", 1_001).await, UNKNOWN, "[0,1000]");
    refused(beta.delete_list_value("players", "p9").await, UNKNOWN, "not found");
}

async fn players(sdk: &Sdk) {
    let mut alpha = sdk.alpha().clone();
    alpha.set_player_capacity(2).await.unwrap();
    assert_eq!(alpha.get_player_capacity().await.unwrap(), 2);
    assert!(alpha.player_connect("a").await.unwrap());
    assert!(!alpha.player_connect("a").await.unwrap());
    assert!(alpha.player_connect("b").await.unwrap());
    refused(alpha.player_connect("c").await, UNKNOWN, "at capacity");
    assert!(alpha.is_player_connected("b").await.unwrap());
    assert!(alpha.player_disconnect("b").await.unwrap());
    assert!(!alpha.player_disconnect("b").await.unwrap());
    assert_eq!(alpha.get_player_count().await.unwrap(), 1);
    assert_eq!(alpha.get_connected_players().await.unwrap(), ["a"]);
}
