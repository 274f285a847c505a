//! A pilot of the zone in Rust, by the crate `client`, on both drivers: what may be lost comes and goes by
//! datagram, of which some is thrown away; and everything over the socket where the server has no datagrams.

use std::process::Command;
use std::time::{Duration, Instant};

use client::{Client, MatchMessage, Server};
use world::{Control, FromClient, Snapshot, View, Welcome};

use super::ping::Process;
use super::process::Folder;

/// Longer than any of it takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn server(folder: &Folder, more: &[&str]) -> (Process, Server) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
    command
        .args(["serve", "--data_dir", folder.0.to_str().unwrap(), "--logger.format", "text"])
        .args(["--socket.port", "0", "--socket.address", "127.0.0.1", "--socket.grpc", "false"])
        .args(["--world.enabled", "true", "--world.side_m", "256", "--world.bots", "40"])
        .args(more);
    let mut process = Process::of(command);
    let line = process.line_with("listening on http://");
    let address = line.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
    (process, Server::new(address, "defaultkey"))
}

struct Pilot {
    client: Client,
    id: String,
    view: View,
    ship: Option<Welcome>,
    seq: u32,
    by_datagram: u32,
    over_socket: u32,
}

impl Pilot {
    fn join(server: &Server, mut client: Client, token: &str) -> Self {
        let matches = server.list_matches(token, "+label.kind:zone").unwrap();
        let id = matches.first().unwrap().clone();
        client.join_match(&id).unwrap();
        let view = View::default();
        Self { client, id, view, ship: None, seq: 0, by_datagram: 0, over_socket: 0 }
    }

    fn hear(&mut self, message: &MatchMessage) {
        match message.data[0] {
            Welcome::KIND => self.ship = Some(Welcome::decode(&message.data).unwrap()),
            Snapshot::KIND => {
                let count =
                    if message.by_datagram { &mut self.by_datagram } else { &mut self.over_socket };
                *count += 1;
                // One in five is lost.
                if message.by_datagram && count.is_multiple_of(5) {
                    return;
                }
                self.view.take(&message.data).unwrap();
                self.seq += 1;
                let controls = vec![Control { turn: 4, thrust: 2, fire: false }];
                let packet = FromClient { ack: self.view.ack(), first_seq: self.seq, controls };
                let mut bytes = Vec::new();
                packet.encode(&mut bytes);
                self.client.send_losable(&self.id, FromClient::KIND.into(), &bytes).unwrap();
            }
            _ => {}
        }
    }

    /// Flies until so many controls are followed.
    fn fly(&mut self, controls: u32) {
        let until = Instant::now() + PATIENCE;
        while self.view.control_seq() < controls {
            assert!(Instant::now() < until, "control {} of {controls}", self.view.control_seq());
            if let Some(message) = self.client.next(Duration::from_millis(100)).unwrap() {
                self.hear(&message);
            }
        }
        let ship = self.ship.unwrap().ship;
        let own = self.view.get(ship.slot).unwrap().newest().1;
        assert!(own.vx != 0 || own.vy != 0, "it flies: {own:?}");
        assert!(self.view.in_sight() > 20, "{} in sight", self.view.in_sight());
    }
}

#[test]
fn a_pilot_in_rust_flies_by_datagram_on_both_drivers() {
    for driver in ["auto", "poll"] {
        let folder = Folder::new(&format!("datagrams-{driver}"));
        let on = ["--datagram.enabled", "true", "--datagram.port", "0", "--engine.driver", driver];
        let (_process, server) = server(&folder, &[&on[..], &["--engine.cores", "2"]].concat());
        let token = server.authenticate_device("device-of-a-pilot", "pilot").unwrap();
        let mut client = Client::connect(&server, &token).unwrap();
        client.open_datagrams().unwrap();
        assert!(client.has_datagrams());
        let mut pilot = Pilot::join(&server, client, &token);
        pilot.fly(40);
        let (by_datagram, over_socket) = (pilot.by_datagram, pilot.over_socket);
        assert!(by_datagram > 40 && over_socket < 5, "{driver}: {by_datagram} {over_socket}");
        pilot.client.leave_match(&pilot.id).unwrap();
    }
}

#[test]
fn without_datagrams_everything_goes_over_the_socket() {
    let folder = Folder::new("no-datagrams");
    let (_process, server) = server(&folder, &[]);
    let token = server.authenticate_device("device-of-a-pilot", "pilot").unwrap();
    let mut client = Client::connect(&server, &token).unwrap();
    let error = client.open_datagrams().unwrap_err().to_string();
    assert!(error.contains("RPC function not found"), "{error}");
    let mut pilot = Pilot::join(&server, client, &token);
    pilot.fly(20);
    assert_eq!(pilot.by_datagram, 0);
}

/// The zone is large, so that it takes longer to begin than a client takes to ask.
#[test]
fn a_server_that_listens_lists_its_zone() {
    let folder = Folder::new("zone-stands");
    // Of a setting that is given twice the last counts.
    let (_process, server) = server(&folder, &["--world.side_m", "8192", "--world.bots", "20000"]);
    let token = server.authenticate_device("device-of-the-first", "first").unwrap();
    let matches = server.list_matches(&token, "+label.kind:zone").unwrap();
    assert_eq!(matches.len(), 1);
}
