//! One socket of a player: what it asked, in order; what it believes of matches, of streams, and of users
//! whom it follows; what it has heard from whom.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wire::websocket as ws;

use super::guest::Op;
use super::player::{Crowd, Fate, STREAMS};
use super::world::world;
use crate::rig::{Client, close_frame, text_frame, upgrade};

/// Messages that a socket sends ahead of their answers.
const AHEAD_MAX: usize = 4;
/// What is said to streams at the end.
pub(crate) const PROBE: &str = "probe";
/// Relayed matches have a few names, so that players meet.
const NAMES: u32 = 3;

/// A message that waits for its answer.
#[derive(Debug)]
enum Want {
    Enter,
    Leave(String),
    Status,
    Follow(Vec<String>),
    Unfollow(Vec<String>),
    Program(Vec<usize>),
    /// Which session it is.
    Me,
    Streams,
    Ping,
    /// Joins again, to see who is there.
    ProbeMatch(String),
    /// Follows again, to see who is online.
    ProbeUser(String),
    /// Runs a program at the end, of which something is to be learned.
    ProbeStreams(Vec<Op>),
}

/// How far its end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is open, or about to be.
    None,
    /// The client has said that it goes.
    Said,
    /// The server has said why it closes.
    Told,
    /// It is closed.
    Over,
}

/// One socket.
pub(crate) struct Socket {
    client: Client,
    user_id: String,
    /// Names it in what it sends.
    number: u32,
    is_upgraded: bool,
    end: End,
    bytes: Vec<u8>,
    asked: VecDeque<(u32, Want)>,
    cids: u32,
    /// What it was told is its session.
    session_id: Option<String>,
    /// Who is in its matches, as far as it knows.
    pub(crate) matches: BTreeMap<String, BTreeSet<String>>,
    follows: BTreeSet<String>,
    /// Who of those is online: user, session, and status.
    online: BTreeMap<(String, String), String>,
    /// Who is in its streams, by what it was told since it came itself.
    pub(crate) streams: BTreeMap<String, BTreeSet<String>>,
    /// What it has heard in streams, with their names.
    pub(crate) said: BTreeSet<(String, String)>,
    sent: u32,
    /// The last number heard in each match from each socket.
    heard: BTreeMap<(String, u32), u32>,
}

impl Socket {
    pub(crate) fn open(token: &str, user_id: &str, number: u32) -> Self {
        let world = world();
        let client = world.connect();
        let online = if world.once_in(2) { "&status=true" } else { "" };
        world.tell(format_args!("s{number} opens at {client:?}"));
        world.send(client, &upgrade(&format!("{token}{online}"), ""));
        Self {
            client,
            user_id: user_id.to_owned(),
            number,
            is_upgraded: false,
            end: End::None,
            bytes: Vec::new(),
            asked: VecDeque::new(),
            cids: 0,
            session_id: None,
            matches: BTreeMap::new(),
            follows: BTreeSet::new(),
            online: BTreeMap::new(),
            streams: BTreeMap::new(),
            said: BTreeSet::new(),
            sent: 0,
            heard: BTreeMap::new(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end == End::Over
    }

    /// Whether it is in use.
    pub(crate) fn is_open(&self) -> bool {
        self.is_upgraded && self.end == End::None
    }

    pub(crate) fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    pub(crate) fn waits_for(&self) -> Option<String> {
        let waits = self.end == End::None && !self.asked.is_empty();
        waits.then(|| format!("s{}: {:?} {:?}", self.number, self.end, self.asked))
    }

    /// Says something, or nothing if it has said enough.
    pub(crate) fn act(&mut self, crowd: &mut Crowd) {
        let world = world();
        if !self.is_open() || self.asked.len() >= AHEAD_MAX {
            return;
        }
        match world.below(25) {
            0..=2 => {
                let name = format!("name{}", world.below(NAMES));
                self.ask(Want::Enter, &json!({"match_create": {"name": name}}));
            }
            3..=6 if !crowd.matches.is_empty() => {
                let count = u32::try_from(crowd.matches.len()).unwrap();
                let id = &crowd.matches[world.below(count) as usize];
                self.ask(Want::Enter, &json!({"match_join": {"match_id": id}}));
            }
            7 => {
                if let Some(id) = self.some_match() {
                    let text = json!({"match_leave": {"match_id": id}});
                    self.ask(Want::Leave(id), &text);
                }
            }
            8..=11 => self.say_data(),
            12 => {
                let status = format!("status{}", crowd.serial());
                let status = if world.once_in(4) { Value::Null } else { status.into() };
                self.ask(Want::Status, &json!({"status_update": {"status": status}}));
            }
            13..=15 => self.follow(crowd),
            16 => {
                if let Some(user) = self.follows.first().cloned() {
                    let text = json!({"status_unfollow": {"user_ids": [user]}});
                    self.ask(Want::Unfollow(vec![user]), &text);
                }
            }
            17..=18 => {
                let (program, deeds) = crowd.program(&self.user_id.clone());
                let payload = serde_json::to_string(&program).unwrap();
                let text = json!({"rpc": {"id": "run", "payload": payload}});
                self.ask(Want::Program(deeds), &text);
            }
            19..=23 if self.session_id.is_none() => self.run(Want::Me, &[Op::Me]),
            19..=23 => self.run(Want::Streams, &crowd.stream_program()),
            _ => self.ask(Want::Ping, &json!({"ping": {}})),
        }
    }

    /// Has a program run.
    fn run(&mut self, want: Want, program: &[Op]) {
        let payload = serde_json::to_string(program).unwrap();
        self.ask(want, &json!({"rpc": {"id": "run", "payload": payload}}));
    }

    /// Follows one other user, or all of them.
    fn follow(&mut self, crowd: &Crowd) {
        let world = world();
        let others: Vec<&String> = crowd.users.iter().filter(|id| **id != self.user_id).collect();
        if others.is_empty() {
            return;
        }
        let users: Vec<String> = if world.once_in(2) {
            others.into_iter().cloned().collect()
        } else {
            let count = u32::try_from(others.len()).unwrap();
            vec![others[world.below(count) as usize].clone()]
        };
        let text = json!({"status_follow": {"user_ids": users}});
        self.ask(Want::Follow(users), &text);
    }

    fn some_match(&self) -> Option<String> {
        let count = u32::try_from(self.matches.len()).unwrap();
        self.matches.keys().nth(world().below(count) as usize).cloned()
    }

    fn say_data(&mut self) {
        let Some(id) = self.some_match() else { return };
        self.sent += 1;
        let data = STANDARD.encode(format!("{} {}", self.number, self.sent));
        let text = json!({"match_data_send": {"match_id": id, "op_code": "1", "data": data}});
        world().send(self.client, &text_frame(&text.to_string()));
    }

    fn ask(&mut self, want: Want, text: &Value) {
        self.cids += 1;
        world().tell(format_args!("s{} asks {} {want:?}", self.number, self.cids));
        let mut text = text.clone();
        text["cid"] = self.cids.to_string().into();
        self.asked.push_back((self.cids, want));
        world().send(self.client, &text_frame(&text.to_string()));
    }

    /// Asks the server again for everything that it believes.
    pub(crate) fn probe(&mut self) {
        let matches: Vec<String> = self.matches.keys().cloned().collect();
        matches.into_iter().for_each(|id| self.probe_match(id));
        self.follows.clone().into_iter().for_each(|user| self.probe_user(user));
        if self.session_id.is_none() {
            self.run(Want::Me, &[Op::Me]);
        }
    }

    /// Asks who is in which stream, and says something to all who are.
    pub(crate) fn probe_streams(&mut self) {
        for number in 0..STREAMS {
            let label = format!("stream{number}");
            let program = vec![Op::Say(label.clone(), PROBE.to_owned()), Op::Look(label)];
            self.probe_stream(program);
        }
    }

    fn probe_stream(&mut self, program: Vec<Op>) {
        let text = program.clone();
        self.run(Want::ProbeStreams(program), &text);
    }

    fn probe_match(&mut self, id: String) {
        let text = json!({"match_join": {"match_id": id}});
        self.ask(Want::ProbeMatch(id), &text);
    }

    fn probe_user(&mut self, user: String) {
        let text = json!({"status_follow": {"user_ids": [user]}});
        self.ask(Want::ProbeUser(user), &text);
    }

    /// Sends a close frame.
    pub(crate) fn say_goodbye(&mut self) {
        if self.is_open() {
            world().tell(format_args!("s{} says goodbye", self.number));
            self.end = End::Said;
            world().send(self.client, &close_frame());
        }
    }

    /// Sends no more, and says so by the transport alone.
    pub(crate) fn half_close(&mut self) {
        if self.end == End::None {
            world().tell(format_args!("s{} half-closes", self.number));
            self.end = End::Said;
            world().eof(self.client);
        }
    }

    /// Is gone.
    pub(crate) fn leave(&mut self) {
        if self.end != End::Over {
            world().tell(format_args!("s{} is gone", self.number));
            world().count(|happened| happened.vanished += 1);
            world().leave(self.client);
            self.end = End::Over;
        }
    }

    /// Reads what has come.
    pub(crate) fn read(&mut self, crowd: &mut Crowd) {
        if self.is_over() {
            return;
        }
        if world().is_lost(self.client) {
            return self.leave();
        }
        self.bytes.extend(world().take(self.client));
        if !self.is_upgraded && !self.read_upgrade() {
            return;
        }
        while let Some((opcode, payload)) = take_frame(&mut self.bytes) {
            self.frame(opcode, &payload, crowd);
        }
        if world().is_closed(self.client) {
            let why = format!("s{}, which waits for {:?}", self.number, self.asked);
            assert!(self.end != End::None, "nobody tells why {why} is closed");
            assert!(self.bytes.is_empty(), "part of a frame to {why}");
            self.leave();
        }
    }

    /// Whether it is let in.
    fn read_upgrade(&mut self) -> bool {
        let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(head_len) = end.map(|at| at + 4) else {
            if world().is_closed(self.client) {
                assert!(self.end == End::Said, "s{} is closed without an answer", self.number);
                self.leave();
            }
            return false;
        };
        if !self.bytes.starts_with(b"HTTP/1.1 101 ") {
            // Who has logged out meanwhile is not let in.
            assert!(self.bytes.starts_with(b"HTTP/1.1 401 "), "{:?}", self.bytes);
            self.leave();
            return false;
        }
        self.bytes.drain(..head_len);
        self.is_upgraded = true;
        true
    }

    fn frame(&mut self, opcode: u8, payload: &[u8], crowd: &mut Crowd) {
        assert!(self.end != End::Told, "s{} hears more after the end", self.number);
        match opcode {
            1 => {
                let text = String::from_utf8_lossy(payload);
                world().tell(format_args!("s{} hears {text}", self.number));
                let message: Value = serde_json::from_slice(payload).unwrap();
                self.message(&message, crowd);
            }
            8 => {
                let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
                world().tell(format_args!("s{} is told {reason:?} and closed", self.number));
                if self.end != End::Said {
                    assert!(!reason.is_empty(), "s{} is closed without a reason", self.number);
                    world().send(self.client, &close_frame());
                }
                self.end = End::Told;
            }
            9 => {
                let mut pong = Vec::new();
                ws::encode_masked(&mut pong, ws::Opcode::Pong, payload, [1, 2, 3, 4]);
                world().send(self.client, &pong);
            }
            _ => panic!("s{} hears a frame {opcode}", self.number),
        }
    }

    fn message(&mut self, message: &Value, crowd: &mut Crowd) {
        if let Some(cid) = message["cid"].as_str() {
            let next = self.asked.pop_front();
            let Some((expected, want)) = next else {
                panic!("s{} is answered to nothing: {message}", self.number);
            };
            assert_eq!(cid, expected.to_string(), "s{}: {want:?}: {message}", self.number);
            world().count(|happened| happened.answers += 1);
            return self.answered(want, message, crowd);
        }
        if let Some(event) = message.get("match_presence_event") {
            let id = event["match_id"].as_str().unwrap();
            let Some(members) = self.matches.get_mut(id) else {
                panic!("s{} is told of {id}, which it is not in: {message}", self.number);
            };
            for gone in sessions(&event["leaves"]) {
                members.remove(&gone);
            }
            members.extend(sessions(&event["joins"]));
        } else if let Some(event) = message.get("status_presence_event") {
            for gone in presences(&event["leaves"]) {
                self.online.remove(&(text(gone, "user_id"), text(gone, "session_id")));
            }
            self.note_online(&event["joins"]);
        } else if let Some(data) = message.get("match_data") {
            self.hear_data(data);
        } else if let Some(event) = message.get("stream_presence_event") {
            self.note_stream(event);
        } else if let Some(data) = message.get("stream_data") {
            let (label, said) = (text(&data["stream"], "label"), text(data, "data"));
            let is_new = self.said.insert((label, said));
            assert!(is_new, "s{} hears twice: {data}", self.number);
        } else {
            // Told before the end by a server that has one socket for each user.
            assert!(message.get("notifications").is_some(), "s{}: {message}", self.number);
        }
    }

    fn note_online(&mut self, joins: &Value) {
        for joined in presences(joins) {
            let user = text(joined, "user_id");
            if self.follows.contains(&user) {
                let session = text(joined, "session_id");
                self.online.insert((user, session), text(joined, "status"));
            }
        }
    }

    /// Who has come and gone. When that is the socket itself, it begins anew: it may have been out without
    /// a word.
    fn note_stream(&mut self, event: &Value) {
        let members = self.streams.entry(text(&event["stream"], "label")).or_default();
        let (joins, leaves) = (sessions(&event["joins"]), sessions(&event["leaves"]));
        let is_own =
            |all: &BTreeSet<String>| self.session_id.as_ref().is_some_and(|id| all.contains(id));
        if is_own(&joins) && !is_own(&leaves) {
            members.clear();
        }
        members.retain(|id| !leaves.contains(id));
        members.extend(joins);
    }

    fn hear_data(&mut self, data: &Value) {
        let id = text(data, "match_id");
        assert!(self.matches.contains_key(&id), "s{} hears of {id}: {data}", self.number);
        let said = STANDARD.decode(text(data, "data")).unwrap();
        let said = String::from_utf8(said).unwrap();
        let (speaker, number) = said.split_once(' ').unwrap();
        let (speaker, number) = (speaker.parse().unwrap(), number.parse::<u32>().unwrap());
        let last = self.heard.insert((id, speaker), number).unwrap_or(0);
        assert!(number > last, "s{} hears {number} of s{speaker} after {last}", self.number);
    }

    fn answered(&mut self, want: Want, message: &Value, crowd: &mut Crowd) {
        let error = message.get("error");
        // It has not begun. Where it has, some of it may have happened.
        let busy = |error: &Value| text(error, "message").starts_with("the server is busy");
        let is_busy = error.is_some_and(busy);
        match want {
            Want::Enter if error.is_none() => {
                let id = text(&message["match"], "match_id");
                let own = text(&message["match"]["self"], "session_id");
                let session_id = self.session_id.get_or_insert_with(|| own.clone());
                assert_eq!(*session_id, own, "s{} has two sessions", self.number);
                let mut members: BTreeSet<String> = sessions(&message["match"]["presences"]);
                members.insert(own);
                self.matches.insert(id, members);
            }
            Want::Leave(id) if error.is_none() => {
                self.matches.remove(&id);
            }
            Want::Follow(users) if error.is_none() => {
                self.online.retain(|(user, _), _| !users.contains(user));
                self.follows.extend(users);
                self.note_online(&message["status"]["presences"]);
            }
            Want::Unfollow(users) if error.is_none() => {
                self.follows.retain(|user| !users.contains(user));
                self.online.retain(|(user, _), _| !users.contains(user));
            }
            Want::Program(deeds) if error.is_none() => {
                crowd.note_match(message["rpc"]["payload"].as_str().unwrap_or_default());
                crowd.set_fate(&deeds, Fate::Kept);
            }
            Want::Program(deeds) if is_busy => crowd.set_fate(&deeds, Fate::Refused),
            Want::Me if error.is_none() => {
                self.session_id = Some(text(&message["rpc"], "payload"));
            }
            Want::ProbeStreams(program) if is_busy => self.probe_stream(program),
            Want::ProbeStreams(program) => {
                assert!(error.is_none(), "s{}: {program:?}: {message}", self.number);
                let look = serde_json::from_str(message["rpc"]["payload"].as_str().unwrap());
                crowd.looks.push(look.unwrap());
            }
            Want::Me if world().is_healed() => self.run(Want::Me, &[Op::Me]),
            Want::ProbeMatch(id) if is_busy => self.probe_match(id),
            Want::ProbeUser(user) if is_busy => self.probe_user(user),
            Want::ProbeMatch(id) => self.match_probed(&id, message),
            Want::ProbeUser(user) => {
                assert!(error.is_none(), "s{}: {message}", self.number);
                let found = presences(&message["status"]["presences"]);
                let found: BTreeMap<_, _> = found
                    .map(|one| ((user.clone(), text(one, "session_id")), text(one, "status")))
                    .collect();
                let believed = self.online.iter().filter(|((id, _), _)| *id == user);
                let believed = believed.map(|(key, status)| (key.clone(), status.clone()));
                assert_eq!(believed.collect::<BTreeMap<_, _>>(), found, "s{}", self.number);
            }
            Want::Enter
            | Want::Leave(_)
            | Want::Status
            | Want::Follow(_)
            | Want::Unfollow(_)
            | Want::Program(_)
            | Want::Me
            | Want::Streams
            | Want::Ping => {}
        }
    }

    /// The server says who is in a match: that is what the socket believes. Nobody is told of the end
    /// of a match that has scripts (as in Nakama).
    fn match_probed(&mut self, id: &str, message: &Value) {
        let number = self.number;
        let Some(error) = message.get("error") else {
            let found = sessions(&message["match"]["presences"]);
            assert_eq!(self.matches[id], found, "s{number} in {id}");
            return;
        };
        let is_gone = text(error, "message") == "Match not found" && !id.ends_with('.');
        let runs = world().matches.borrow().contains_key(id);
        assert!(is_gone && !runs, "s{number} believes to be in {id}: {message}");
        self.matches.remove(id);
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn presences(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn sessions(list: &Value) -> BTreeSet<String> {
    presences(list).map(|presence| text(presence, "session_id")).collect()
}

/// Takes one whole frame: opcode and payload.
fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (opcode, second) = (bytes.first()? & 0x0f, *bytes.get(1)?);
    let (head_len, len) = match second {
        126 => (4, usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]))),
        127 => panic!("too long for a player"),
        len => (2, usize::from(len)),
    };
    let payload = bytes.get(head_len..head_len + len)?.to_vec();
    bytes.drain(..head_len + len);
    Some((opcode, payload))
}
