//! One player: an account, an HTTP connection, and sockets (`socket`). He asks without waiting for
//! each answer, notes what he asked, and knows of everything he wrote whether it was acknowledged.

use std::collections::VecDeque;

use base64::Engine as _;
use serde_json::{Value, json};

use super::guest::{COLLECTION, DEEDS, Look, Op};
use super::socket::Socket;
use super::world::{NAMES, world};
use crate::rig::{Client, request, server_key};

/// Requests that a player sends ahead of their answers.
const AHEAD_MAX: usize = 3;
/// Streams have a few names, so that players meet.
pub(crate) const STREAMS: u32 = 3;
/// Sockets that a player has.
const SOCKETS_MAX: usize = 2;

/// What became of something that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody has said: it may have happened or not.
    Unknown,
    /// It was acknowledged.
    Kept,
    /// It was refused.
    Refused,
}

/// One thing written, all or none of it.
#[derive(Debug)]
pub(crate) struct Deed {
    pub(crate) user_id: String,
    /// Keys of objects, each used once.
    pub(crate) keys: Vec<String>,
    /// An entry of the wallet, used once.
    pub(crate) entry: Option<String>,
    pub(crate) fate: Fate,
}

/// What players know of each other.
#[derive(Default)]
pub(crate) struct Crowd {
    pub(crate) users: Vec<String>,
    /// Ids of matches that somebody has made.
    pub(crate) matches: Vec<String>,
    pub(crate) deeds: Vec<Deed>,
    /// Tokens whose logout was acknowledged.
    pub(crate) revoked: Vec<String>,
    /// Who is in which stream, as scripts see it at the end.
    pub(crate) looks: Vec<Look>,
    serial: u32,
}

impl Crowd {
    pub(crate) fn serial(&mut self) -> u32 {
        self.serial += 1;
        self.serial
    }

    /// Notes what is about to be asked; returns its number.
    fn deed(&mut self, user_id: &str, keys: Vec<String>, entry: Option<String>) -> usize {
        self.deeds.push(Deed { user_id: user_id.to_owned(), keys, entry, fate: Fate::Unknown });
        self.deeds.len() - 1
    }

    pub(crate) fn set_fate(&mut self, deeds: &[usize], fate: Fate) {
        for deed in deeds {
            self.deeds[*deed].fate = fate;
        }
        if fate == Fate::Kept {
            world().count(|happened| happened.kept += deeds.len() as u64);
        }
    }

    fn keys(&mut self) -> Vec<String> {
        (0..=world().below(2)).map(|_| format!("k{}", self.serial())).collect()
    }

    /// A program, and the deeds in it.
    pub(crate) fn program(&mut self, user_id: &str) -> (Vec<Op>, Vec<usize>) {
        let world = world();
        let (mut ops, mut deeds) = (Vec::new(), Vec::new());
        for _ in 0..=world.below(2) {
            let known = self.matches.len();
            ops.push(match world.below(17) {
                0..=3 => {
                    let keys = self.keys();
                    deeds.push(self.deed(user_id, keys.clone(), None));
                    Op::Write(keys)
                }
                4..=6 => {
                    let entry = format!("c{}", self.serial());
                    deeds.push(self.deed(user_id, Vec::new(), Some(entry.clone())));
                    Op::Pay(entry)
                }
                7 => Op::Slow,
                8 if world.once_in(3) => Op::Fail,
                9..=12 if known > 0 => {
                    let id =
                        self.matches[world.below(u32::try_from(known).unwrap()) as usize].clone();
                    let key = format!("k{}", self.serial());
                    deeds.push(self.deed(user_id, vec![key.clone()], None));
                    Op::Signal(id, format!("{user_id} {key}"))
                }
                13..=15 => Op::Fetch(format!("http://a.example/{}", self.serial())),
                _ => Op::Create,
            });
        }
        (ops, deeds)
    }

    /// A program that mostly writes, for the functions that are for that, and the deeds in it.
    fn deed_program(&mut self, user_id: &str) -> (Vec<Op>, Vec<usize>) {
        let world = world();
        if world.once_in(20) {
            return self.program(user_id);
        }
        let (mut ops, mut deeds) = (Vec::new(), Vec::new());
        for _ in 0..=world.below(3) {
            ops.push(match world.below(12) {
                0..=3 => {
                    let keys = self.keys();
                    deeds.push(self.deed(user_id, keys.clone(), None));
                    Op::Write(keys)
                }
                4..=8 => {
                    let entry = format!("c{}", self.serial());
                    deeds.push(self.deed(user_id, Vec::new(), Some(entry.clone())));
                    Op::Pay(entry)
                }
                9 if world.once_in(4) => Op::Fail,
                _ => {
                    let label = format!("stream{}", world.below(STREAMS));
                    Op::Say(label, format!("said{}", self.serial()))
                }
            });
        }
        (ops, deeds)
    }

    /// A program that does something with streams, for a socket.
    pub(crate) fn stream_program(&mut self) -> Vec<Op> {
        let world = world();
        let mut op = || {
            let label = format!("stream{}", world.below(STREAMS));
            match world.below(12) {
                0..=4 => Op::Join(label, world.once_in(4)),
                5 => Op::Update(label, world.once_in(2)),
                6..=7 => Op::Leave(label),
                8 => Op::Kick(label),
                9 if world.once_in(2) => Op::Close(label),
                10 => Op::Slow,
                _ => Op::Say(label, format!("said{}", self.serial())),
            }
        };
        (0..=world.below(2)).map(|_| op()).collect()
    }

    /// What a program has returned: the id of a match, if it made one.
    pub(crate) fn note_match(&mut self, text: &str) {
        let is_id = text.split_once('.').is_some_and(|(_, node)| NAMES.contains(&node));
        if is_id && !self.matches.contains(&text.into()) {
            self.matches.push(text.to_owned());
        }
    }
}

/// A request that waits for its answer.
#[derive(Debug)]
enum Ask {
    Login,
    Write(usize),
    Program(Vec<usize>),
    Look,
    Logout(String),
    /// With a token that counts no more.
    Revoked,
}

/// An HTTP connection.
struct Http {
    client: Client,
    asked: VecDeque<Ask>,
    bytes: Vec<u8>,
}

/// One player.
pub(crate) struct Player {
    name: String,
    pub(crate) user_id: Option<String>,
    token: Option<String>,
    http: Option<Http>,
    pub(crate) sockets: Vec<Socket>,
}

impl Player {
    pub(crate) fn new(number: u32) -> Self {
        let name = format!("player{number}");
        Self { name, user_id: None, token: None, http: None, sockets: Vec::new() }
    }

    /// Does one thing or another.
    pub(crate) fn act(&mut self, crowd: &mut Crowd) {
        let world = world();
        self.read(crowd);
        if world.fails(world.profile.vanishes) {
            return self.vanish();
        }
        let token = self.token.clone();
        match (world.below(10), token) {
            (0..=3, _) | (_, None) => self.ask(crowd),
            (4, Some(token)) if self.sockets.len() < SOCKETS_MAX => {
                let user_id = self.user_id.clone().unwrap();
                self.sockets.push(Socket::open(&token, &user_id, crowd.serial()));
            }
            _ if self.sockets.is_empty() => self.ask(crowd),
            _ => {
                let count = u32::try_from(self.sockets.len()).unwrap();
                self.sockets[world.below(count) as usize].act(crowd);
            }
        }
    }

    /// A connection is gone, without a word or with one.
    fn vanish(&mut self) {
        let world = world();
        if !self.sockets.is_empty() && world.once_in(2) {
            let count = u32::try_from(self.sockets.len()).unwrap();
            let socket = &mut self.sockets[world.below(count) as usize];
            match world.below(3) {
                0 => socket.say_goodbye(),
                1 => socket.half_close(),
                _ => {
                    socket.leave();
                    self.sockets.retain(|socket| !socket.is_over());
                }
            }
        } else if let Some(http) = self.http.take() {
            world.tell(format_args!("{} vanishes", self.name));
            world.count(|happened| happened.vanished += 1);
            world.leave(http.client);
        }
    }

    /// All connections are gone.
    pub(crate) fn leave(&mut self) {
        self.http.take().into_iter().for_each(|http| world().leave(http.client));
        self.sockets.drain(..).for_each(|mut socket| socket.leave());
    }

    fn ask(&mut self, crowd: &mut Crowd) {
        let world = world();
        if self.http.as_ref().is_some_and(|http| http.asked.len() >= AHEAD_MAX) {
            return;
        }
        let (Some(token), Some(user_id)) = (self.token.clone(), self.user_id.clone()) else {
            let is_asked = |http: &Http| http.asked.iter().any(|ask| matches!(ask, Ask::Login));
            if !self.http.as_ref().is_some_and(is_asked) {
                let line = format!("POST /v2/account/authenticate/device?username={}", self.name);
                let body = format!("{{\"id\":\"device-of-{}\"}}", self.name);
                self.send(Ask::Login, &request(&line, &server_key(), &body));
            }
            return;
        };
        let auth = format!("Bearer {token}");
        match world.below(10) {
            0..=2 => {
                let keys = crowd.keys();
                let object =
                    |key: &String| json!({"collection": COLLECTION, "key": key, "value": "{}"});
                let objects: Vec<Value> = keys.iter().map(object).collect();
                let body = json!({ "objects": objects }).to_string();
                let deed = crowd.deed(&user_id, keys, None);
                self.send(Ask::Write(deed), &request("PUT /v2/storage", &auth, &body));
            }
            3..=6 => {
                let ((program, deeds), id) = if world.once_in(2) {
                    (crowd.program(&user_id), "run".to_owned())
                } else {
                    (crowd.deed_program(&user_id), format!("deed{}", world.below(DEEDS)))
                };
                let body = serde_json::to_string(&program).unwrap();
                let line = format!("POST /v2/rpc/{id}?unwrap");
                self.send(Ask::Program(deeds), &request(&line, &auth, &body));
            }
            7 => self.send(Ask::Look, &request("GET /v2/match", &auth, "")),
            8 if world.once_in(2) => {
                let body = json!({ "token": token }).to_string();
                self.token = None;
                let line = "POST /v2/session/logout";
                self.send(Ask::Logout(token), &request(line, &auth, &body));
            }
            9 if !crowd.revoked.is_empty() => self.ask_revoked(crowd),
            _ => self.send(Ask::Look, &request("GET /v2/account", &auth, "")),
        }
    }

    /// Asks with a token of somebody who has logged out.
    fn ask_revoked(&mut self, crowd: &Crowd) {
        let count = u32::try_from(crowd.revoked.len()).unwrap();
        let token = &crowd.revoked[world().below(count) as usize];
        let request = request("GET /v2/account", &format!("Bearer {token}"), "");
        self.send(Ask::Revoked, &request);
    }

    /// Asks with all tokens of those who have logged out, on some core.
    pub(crate) fn probe_revoked(&mut self, crowd: &Crowd) {
        for token in &crowd.revoked {
            let request = request("GET /v2/account", &format!("Bearer {token}"), "");
            self.send(Ask::Revoked, &request);
        }
    }

    fn send(&mut self, ask: Ask, request: &[u8]) {
        let world = world();
        world.tell(format_args!("{} asks {ask:?}", self.name));
        let http = self.http.get_or_insert_with(|| Http {
            client: world.connect(),
            asked: VecDeque::new(),
            bytes: Vec::new(),
        });
        http.asked.push_back(ask);
        world.send(http.client, request);
    }

    /// Reads what has come on all connections.
    pub(crate) fn read(&mut self, crowd: &mut Crowd) {
        self.read_http(crowd);
        self.sockets.iter_mut().for_each(|socket| socket.read(crowd));
        self.sockets.retain(|socket| !socket.is_over());
    }

    fn read_http(&mut self, crowd: &mut Crowd) {
        let Some(mut http) = self.http.take() else { return };
        if world().is_lost(http.client) {
            return world().leave(http.client);
        }
        http.bytes.extend(world().take(http.client));
        while let Some((status, body)) = take_answer(&mut http.bytes) {
            let Some(ask) = http.asked.pop_front() else {
                panic!("{} is answered {status} to nothing: {body}", self.name);
            };
            self.answered(ask, status, &body, crowd);
        }
        if world().is_closed(http.client) {
            let Http { asked, bytes, .. } = &http;
            assert!(
                asked.is_empty() && bytes.is_empty(),
                "{} is closed with {asked:?} unanswered",
                self.name
            );
            return world().leave(http.client);
        }
        self.http = Some(http);
    }

    fn answered(&mut self, ask: Ask, status: u16, body: &str, crowd: &mut Crowd) {
        let (world, name) = (world(), &self.name);
        world.tell(format_args!("{name} is answered {status} to {ask:?}"));
        world.count(|happened| happened.answers += 1);
        let is_known = matches!(status, 200 | 401 | 429 | 500 | 503 | 504);
        assert!(is_known, "{name} is answered {status} to {ask:?}: {body}");
        match ask {
            Ask::Login if status == 200 => self.logged_in(body, crowd),
            Ask::Write(deed) => {
                let fate = match status {
                    200 => Fate::Kept,
                    // With hooks it ran at a caller, where answers fail together: some of what they
                    // are about may have been committed before the rest failed (`game::db`).
                    500 if world.profile.has_hooks => Fate::Unknown,
                    _ => Fate::Refused,
                };
                crowd.set_fate(&[deed], fate);
            }
            Ask::Program(deeds) => match status {
                200 => {
                    crowd.note_match(body);
                    crowd.set_fate(&deeds, Fate::Kept);
                }
                // It has not begun. Where it has, some of it may have happened.
                401 | 429 | 503 => crowd.set_fate(&deeds, Fate::Refused),
                _ => {}
            },
            Ask::Logout(token) if status == 200 => crowd.revoked.push(token),
            Ask::Revoked if matches!(status, 401 | 200) => {
                // To a full mailbox of a core the news comes later, and behind what it refused before.
                let was_refused = ["sessions", "done"].iter().any(|kind| world.was_refused(kind));
                let is_refused = was_refused && !world.is_healed();
                // What one node says the other one hears later.
                let is_on_its_way = world.profile.nodes > 1 && !world.is_settled.get();
                let is_late = status == 200 && (is_refused || is_on_its_way);
                assert!(status == 401 || is_late, "who has logged out is answered {status}");
            }
            Ask::Login | Ask::Look | Ask::Logout(_) | Ask::Revoked => {}
        }
    }

    fn logged_in(&mut self, body: &str, crowd: &mut Crowd) {
        let json: Value = serde_json::from_str(body).unwrap();
        let token = json["token"].as_str().unwrap().to_owned();
        let claims = token.split('.').nth(1).unwrap();
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        let id = claims["uid"].as_str().unwrap().to_owned();
        if let Some(known) = &self.user_id {
            assert_eq!(*known, id, "{} has two accounts", self.name);
        } else {
            crowd.users.push(id.clone());
        }
        self.user_id = Some(id);
        self.token = Some(token);
    }

    /// What he still waits for.
    pub(crate) fn waits_for(&self) -> String {
        let http = self.http.iter().map(|http| format!("{:?}", http.asked));
        let http = http.filter(|asked| asked != "[]");
        http.chain(self.sockets.iter().filter_map(Socket::waits_for)).collect()
    }
}

/// Takes one whole answer: status and body.
fn take_answer(bytes: &mut Vec<u8>) -> Option<(u16, String)> {
    let head_len = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..head_len]).unwrap().to_ascii_lowercase();
    let status = head[9..12].parse().unwrap();
    let length = head
        .split("content-length: ")
        .nth(1)
        .map_or("0", |rest| rest.split("\r\n").next().unwrap());
    let end = head_len + length.parse::<usize>().unwrap();
    if bytes.len() < end {
        return None;
    }
    let body = String::from_utf8(bytes[head_len..end].to_vec()).unwrap();
    bytes.drain(..end);
    Some((status, body))
}
