//! A pilot of the zone over datagrams: flies in a circle, shoots now and then, and prints once a second what it sees.
//!
//! ```text
//! throng serve --world.enabled true --world.bots 200 --datagram.enabled true
//! cargo run -p client --example pilot -- 127.0.0.1:7350 10
//! ```
//!
//! Arguments: where the server is, for how many seconds to fly, and the server's key. With `--lose 20` a fifth of
//! what comes by datagram is thrown away, as a bad network would.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use client::{Client, Server};
use world::{Control, FromClient, Kill, News, Place, Score, Snapshot, View, Welcome};

/// Between two controls.
const STEER: Duration = Duration::from_millis(50);
/// Controls that are sent again with each new one, so that a lost datagram loses none.
const AGAIN: usize = 4;

struct Pilot {
    client: Client,
    match_id: String,
    view: View,
    ship: Option<Welcome>,
    controls: Vec<Control>,
    seq: u32,
    by_datagram: u32,
    over_socket: u32,
    thrown_away: u32,
    lose_percent: u32,
}

fn main() -> anyhow::Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut lose_percent = 0;
    if let Some(at) = words.iter().position(|word| word == "--lose") {
        lose_percent = words.get(at + 1).context("--lose PERCENT")?.parse()?;
        words.drain(at..at + 2);
    }
    let word = |at: usize, usual: &str| words.get(at).cloned().unwrap_or_else(|| usual.to_owned());
    let server = Server::new(&word(0, "127.0.0.1:7350"), &word(2, "defaultkey"));
    let seconds: u64 =
        word(1, "10").parse().context("the second argument is a number of seconds")?;
    let name = format!("pilot-{}", std::process::id());
    let token = server.authenticate_device(&format!("device-of-{name}"), &name)?;
    let matches = server.list_matches(&token, "+label.kind:zone")?;
    let match_id = matches.into_iter().next().context("no zone: --world.enabled true")?;
    let mut client = Client::connect(&server, &token)?;
    match client.open_datagrams() {
        Ok(()) => println!("datagrams come through"),
        Err(error) => println!("no datagrams ({error}): everything goes over the socket"),
    }
    client.join_match(&match_id)?;
    let pilot = Pilot {
        client,
        match_id,
        view: View::default(),
        ship: None,
        controls: Vec::new(),
        seq: 0,
        by_datagram: 0,
        over_socket: 0,
        thrown_away: 0,
        lose_percent,
    };
    pilot.fly(Duration::from_secs(seconds))
}

impl Pilot {
    fn fly(mut self, time: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        let (mut steer, mut tell) = (begin, begin + Duration::from_secs(1));
        while begin.elapsed() < time {
            let now = Instant::now();
            if now >= steer {
                steer = now + STEER;
                self.steer()?;
            }
            if now >= tell {
                tell += Duration::from_secs(1);
                self.tell();
            }
            if let Some(message) = self.client.next(steer.saturating_duration_since(now))? {
                self.hear(&message)?;
            }
        }
        self.tell();
        self.client.leave_match(&self.match_id).context("cannot leave the zone")
    }

    /// Says what came and what the ship is to do.
    fn steer(&mut self) -> anyhow::Result<()> {
        self.seq += 1;
        self.controls.push(Control { turn: 6, thrust: 2, fire: self.seq.is_multiple_of(16) });
        if self.controls.len() > AGAIN {
            self.controls.remove(0);
        }
        let count = u32::try_from(self.controls.len())?;
        let controls = self.controls.clone();
        let packet = FromClient { ack: self.view.ack(), first_seq: self.seq + 1 - count, controls };
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        self.client.send_losable(&self.match_id, FromClient::KIND.into(), &bytes)?;
        Ok(())
    }

    fn hear(&mut self, message: &client::MatchMessage) -> anyhow::Result<()> {
        match message.data.first().copied() {
            Some(Snapshot::KIND) if message.by_datagram => {
                self.by_datagram += 1;
                if (self.by_datagram * self.lose_percent) % 100 < self.lose_percent {
                    self.thrown_away += 1;
                    return Ok(());
                }
                self.view.take(&message.data)?;
            }
            Some(Snapshot::KIND) => {
                self.over_socket += 1;
                self.view.take(&message.data)?;
            }
            Some(Welcome::KIND) => self.ship = Some(Welcome::decode(&message.data)?),
            Some(Place::KIND) => println!("{:?}", Place::decode(&message.data)?),
            Some(News::KIND) => {
                for Kill { victim_name, by_name, text, .. } in News::decode(&message.data)?.kills {
                    println!("{} was shot down by {} {text}", known(&victim_name), known(&by_name));
                }
            }
            Some(Score::KIND) => println!("{:?}", Score::decode(&message.data)?),
            kind => println!("a packet of kind {kind:?}"),
        }
        Ok(())
    }

    fn tell(&self) {
        let known = self.ship.and_then(|ship| self.view.get(ship.ship.slot));
        let place = known.map(|known| known.newest().1).map_or_else(
            || "not there yet".to_owned(),
            |own| {
                format!(
                    "at {:.1} m east, {:.1} m north",
                    f64::from(own.x) / 256.0,
                    f64::from(own.y) / 256.0
                )
            },
        );
        println!(
            "tick {}: {place}; {} ships in sight; {} snapshots by datagram ({} thrown away), {} over the \
             socket; control {} of {} followed",
            self.view.tick().unwrap_or(0),
            self.view.in_sight(),
            self.by_datagram,
            self.thrown_away,
            self.over_socket,
            self.view.control_seq(),
            self.seq,
        );
    }
}

/// A ship without a pilot has no name.
fn known(name: &str) -> &str {
    if name.is_empty() { "a bot" } else { name }
}
