//! Two nodes in one process, with the bytes of their gates between them: a client of one plays in a match on
//! the other, follows a user of the other, and is logged out from there; then one of them goes, and begins
//! anew. The transport is made up: it keeps order, and loses everything when a node goes.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use event::{CloseReason, Handler, Input, Now, Output};
use game::match_id::MatchId;
use game::node::{Incarnation, NodeId, Nodes};
use server::gate::{Gate, NodeNews, Way};
use server::mail::{GateMail, Mail, Topology};
use server::stats::GateStats;
use store::Store;
use uuid::Uuid;

use crate::rig::{Boxed, Client, Plan, Rig, member, request};

const NAMES: [&str; 2] = ["node1", "node2"];

/// Repeats what it is told.
const ARENA: &str = "local nk = require('nakama')
    local M = {}
    function M.match_init(context, params) return {}, 10, 'label' end
    function M.match_join_attempt(context, dispatcher, tick, state, presence)
        if presence.username == 'slow' then nk.match_signal(state.next, 'x') end
        return state, true
    end
    function M.match_join(context, dispatcher, tick, state, presences) return state end
    function M.match_leave(context, dispatcher, tick, state, presences) return state end
    function M.match_loop(context, dispatcher, tick, state, messages)
        for _, message in ipairs(messages) do
            dispatcher.broadcast_message(message.op_code, message.data, nil, message.sender)
        end
        return state
    end
    function M.match_terminate(context, dispatcher, tick, state) return state end
    function M.match_signal(context, dispatcher, tick, state, data)
        if data:sub(1, 5) == 'next ' then state.next = data:sub(6) end
        return state, 'told ' .. data
    end
    return M";

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload) return nk.match_create('arena', {}) end, 'create')
    nk.register_rpc(function(context, payload)
        local id, data = payload:match('^(%S+) (.*)$')
        local ok, text = pcall(nk.match_signal, id, data)
        return text
    end, 'signal')
    nk.register_rpc(function(context, payload) nk.session_disconnect(payload) end, 'disconnect')
    nk.register_rpc(function(context, payload) nk.localcache_put('key', payload) end, 'put')
    nk.register_rpc(function(context, payload) return nk.localcache_get('key') or 'none' end, 'get')
    nk.register_rpc(function(context, payload)
        return tostring(nk.stream_user_join(context.user_id, context.session_id,
            {mode = 100, label = payload}, false, false, ''))
    end, 'enter')
    nk.register_rpc(function(context, payload)
        nk.stream_send({mode = 100, label = payload}, 'hello')
        return tostring(nk.stream_count({mode = 100, label = payload}))
    end, 'say')";

/// Each life of each node draws other numbers.
pub(crate) fn salt(nodes: &Nodes) -> u64 {
    let (here, life) = (nodes.here(), nodes.incarnation(nodes.here()));
    u64::from(here.number()) << 48 | u64::from(life.0) << 16
}

/// The gate, if there are other nodes.
pub(crate) fn add_gate(
    handlers: &mut Vec<Boxed>,
    topology: &Arc<Topology>,
    way: Post,
    stats: &Arc<GateStats>,
) {
    let Some(gate) = topology.gate() else { return };
    // The thread of events has a number, whether there is one or not.
    handlers.resize_with(usize::from(gate.thread().0), || Box::new(Nobody));
    handlers.push(Box::new(Gate::new(topology.clone(), Box::new(way), stats.clone())));
}

/// What a gate has for another node: bytes, or that it wants to part with it.
pub(crate) type Letter = (NodeId, Option<Vec<u8>>);

pub(crate) struct Post(pub(crate) Sender<Letter>);

impl Way for Post {
    fn send(&mut self, to: NodeId, letter: Vec<u8>) {
        self.0.send((to, Some(letter))).unwrap();
    }

    fn part(&mut self, from: NodeId) {
        self.0.send((from, None)).unwrap();
    }
}

/// In the place of a thread that there is not.
struct Nobody;

impl Handler for Nobody {
    type Mail = Mail;

    fn handle(&mut self, _now: Now, _input: Input<'_, Mail>, _out: &mut Output<Mail>) {}
}

struct Cluster {
    store: Store,
    nodes: [Option<Rig>; 2],
    lives: [u32; 2],
}

fn begin(store: &Store, index: usize, life: u32) -> Rig {
    Rig::with(&Plan {
        rooms: 2,
        modules: &[("arena.lua", ARENA), ("rpcs.lua", RPCS)],
        nodes: Some(Nodes::new(&NAMES, NAMES[index], Incarnation(life)).unwrap()),
        store: Some(store),
        ..Plan::default()
    })
}

impl Cluster {
    fn new() -> Self {
        let store = Store::open_in_memory().unwrap();
        let nodes = [0, 1].map(|index| Some(begin(&store, index, 1)));
        let cluster = Self { store, nodes, lives: [1, 1] };
        [0, 1].into_iter().for_each(|index| cluster.tell_of(index));
        cluster.settle();
        cluster
    }

    fn node(&self, index: usize) -> &Rig {
        self.nodes[index].as_ref().unwrap()
    }

    /// The other node hears that this one lives, or does not.
    fn tell_of(&self, index: usize) {
        let peer = self.nodes[index].as_ref().map(|rig| rig.topology.as_peer());
        let life = Incarnation(self.lives[index]);
        let news = NodeNews { name: NAMES[index].to_owned(), life, peer };
        let Some(other) = &self.nodes[1 - index] else { return };
        other.mail(other.topology.gate().unwrap(), GateMail::Node(Box::new(news)));
    }

    /// A node is gone with everything that it had on the way, and the other one hears of it.
    fn lose(&mut self, index: usize) {
        self.nodes[index] = None;
        self.tell_of(index);
        self.settle();
    }

    /// A node begins anew; both hear of each other.
    fn begin_anew(&mut self, index: usize) {
        self.lives[index] += 1;
        self.nodes[index] = Some(begin(&self.store, index, self.lives[index]));
        [0, 1].into_iter().for_each(|index| self.tell_of(index));
        self.settle();
    }

    /// Carries letters until there are none.
    fn settle(&self) {
        loop {
            self.nodes.iter().flatten().for_each(Rig::settle);
            let mut is_done = true;
            for rig in self.nodes.iter().flatten() {
                let from = rig.topology.nodes.here();
                for (to, letter) in rig.letters.try_iter() {
                    is_done = false;
                    let Some(bytes) = letter else {
                        panic!("{} wants to part with the other one", rig.topology.nodes.name());
                    };
                    let Some(other) = &self.nodes[usize::from(to.number())] else { continue };
                    other.mail(other.topology.gate().unwrap(), GateMail::Letter { from, bytes });
                }
            }
            if is_done {
                return;
            }
        }
    }

    fn advance(&self, ms: u64) {
        for _ in 0..ms / 10 {
            self.nodes.iter().flatten().for_each(|rig| rig.advance(10));
            self.settle();
        }
    }

    fn player(&self, index: usize, name: &str) -> Player {
        let (user_id, token) = self.node(index).login(name);
        let client = self.node(index).socket(0, &token, "&status=true");
        self.settle();
        Player { index, client, user_id, token }
    }

    /// Who is named so and has that node as home; the first name that does.
    fn player_of(&self, index: usize, home: usize, name: &str) -> Player {
        (0..99)
            .map(|number| self.player(index, &format!("{name}{number}")))
            .find(|player| self.home(player.user_id.parse().unwrap()) == home)
            .unwrap()
    }

    fn home(&self, id: Uuid) -> usize {
        usize::from(self.node(0).topology.room_of(id).node().number())
    }

    fn frames(&self, player: &Player) -> Vec<String> {
        self.node(player.index).frames(player.client)
    }

    fn say(&self, player: &Player, json: &str) -> Vec<String> {
        self.node(player.index).say_only(player.client, json);
        self.settle();
        self.frames(player)
    }

    fn call(&self, index: usize, line: &str, auth: &str, body: &str) -> String {
        let rig = self.node(index);
        let client = rig.open(0);
        rig.bytes_only(client, &request(line, auth, body));
        self.settle();
        let answer = rig.text(client);
        rig.closed(client, CloseReason::Peer);
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn rpc(&self, index: usize, id: &str, payload: &str) -> String {
        self.call(index, &format!("POST /v2/rpc/{id}?http_key=httpkey&unwrap"), "", payload)
    }

    fn rpc_of(&self, player: &Player, id: &str, payload: &str) -> Vec<String> {
        self.say(player, &format!(r#"{{"cid":"5","rpc":{{"id":"{id}","payload":"{payload}"}}}}"#))
    }

    /// A relayed match that lives on that node: its name and its id.
    fn relayed_on(&self, home: usize) -> (String, String) {
        let named = (0..).map(|number| format!("name{number}"));
        let mut ids = named.map(|name| (MatchId::named(&name), name));
        let (id, name) = ids.find(|(id, _)| self.home(id.uuid) == home).unwrap();
        (name, format!("{}.", id.uuid))
    }
}

struct Player {
    index: usize,
    client: Client,
    user_id: String,
    token: String,
}

fn with(frames: &[String], texts: &[&str]) -> usize {
    frames.iter().filter(|frame| texts.iter().all(|text| frame.contains(text))).count()
}

fn join(id: &str) -> String {
    format!(r#"{{"cid":"7","match_join":{{"match_id":"{id}"}}}}"#)
}

fn leave(id: &str) -> String {
    format!(r#"{{"cid":"8","match_leave":{{"match_id":"{id}"}}}}"#)
}

fn data(id: &str, text: &str) -> String {
    format!(
        r#"{{"match_data_send":{{"match_id":"{id}","op_code":"2","data":"{text}","presences":[]}}}}"#
    )
}

fn create(name: &str) -> String {
    format!(r#"{{"cid":"1","match_create":{{"name":"{name}"}}}}"#)
}

fn follow(users: &[&Player]) -> String {
    let ids: Vec<&str> = users.iter().map(|user| user.user_id.as_str()).collect();
    format!(r#"{{"cid":"9","status_follow":{{"user_ids":["{}"]}}}}"#, ids.join("\",\""))
}

fn status(text: &str) -> String {
    format!(r#"{{"cid":"4","status_update":{{"status":"{text}"}}}}"#)
}

#[test]
fn a_client_of_one_node_plays_in_a_match_with_scripts_on_the_other() {
    let cluster = Cluster::new();
    let (ada, bob) = (cluster.player(0, "ada"), cluster.player(1, "bob"));
    let id = cluster.rpc(1, "create", "");
    assert_eq!(id.split_once('.').unwrap().1, "node2");
    // Both list it at once.
    let list = |index, player: &Player| {
        let auth = format!("Bearer {}", player.token);
        cluster.call(index, "GET /v2/match?authoritative=true&limit=9", &auth, "")
    };
    assert!(list(0, &ada).contains(&id) && list(1, &bob).contains(&id));
    assert_eq!(with(&cluster.say(&bob, &join(&id)), &["\"size\":0", "label"]), 0);
    let joined = cluster.say(&ada, &join(&id));
    assert_eq!(with(&joined, &["\"cid\":\"7\",\"match\"", "bob"]), 1, "{joined:?}");
    assert_eq!(with(&cluster.frames(&bob), &["joins", "ada"]), 1);
    assert_eq!(cluster.say(&ada, &data(&id, "aGk=")), [""; 0]);
    cluster.advance(200);
    assert_eq!(with(&cluster.frames(&ada), &["match_data", "aGk=", "ada"]), 1);
    assert_eq!(with(&cluster.frames(&bob), &["match_data", "aGk=", "ada"]), 1);
    assert_eq!(cluster.say(&bob, &data(&id, "aG8=")), [""; 0]);
    cluster.advance(200);
    assert_eq!(with(&cluster.frames(&ada), &["match_data", "aG8=", "bob"]), 1);
    // A function on one node signals a match on the other.
    assert_eq!(cluster.rpc(0, "signal", &format!("{id} x")), "told x");
    assert_eq!(with(&cluster.say(&ada, &leave(&id)), &["\"cid\":\"8\""]), 1);
    assert_eq!(with(&cluster.frames(&bob), &["leaves", "ada"]), 1);
    assert_eq!(cluster.node(0).stat("node_letters_refused"), 0);
}

#[test]
fn a_client_of_one_node_plays_in_a_relayed_match_on_the_other() {
    let cluster = Cluster::new();
    let (ada, bob) = (cluster.player(0, "ada"), cluster.player(1, "bob"));
    for home in [0, 1] {
        let (name, id) = cluster.relayed_on(home);
        assert_eq!(with(&cluster.say(&ada, &create(&name)), &[&id, "joins"]), 1);
        assert_eq!(with(&cluster.say(&bob, &join(&id)), &["\"cid\":\"7\",\"match\"", "ada"]), 1);
        assert_eq!(with(&cluster.frames(&ada), &["joins", "bob"]), 1);
        cluster.say(&ada, &data(&id, "aGk="));
        assert_eq!(with(&cluster.frames(&bob), &["match_data", "aGk=", "ada"]), 1);
        cluster.say(&bob, &data(&id, "aG8="));
        assert_eq!(with(&cluster.frames(&ada), &["match_data", "aG8=", "bob"]), 1);
    }
    // Its socket closes: it leaves everything, wherever that is.
    cluster.node(0).closed(ada.client, CloseReason::Peer);
    cluster.settle();
    assert_eq!(with(&cluster.frames(&bob), &["match_presence_event", "leaves", "ada"]), 2);
}

#[test]
fn a_client_of_one_node_follows_users_of_the_other() {
    let cluster = Cluster::new();
    let ada = cluster.player(0, "ada");
    // Wherever their homes are.
    let (near, far) = (cluster.player_of(1, 0, "near"), cluster.player_of(1, 1, "far"));
    cluster.say(&far, &status("before"));
    let followed = cluster.say(&ada, &follow(&[&near, &far]));
    assert_eq!(with(&followed, &["\"cid\":\"9\"", "near", "far", "before"]), 1, "{followed:?}");
    for user in [&near, &far] {
        cluster.say(user, &status("busy"));
        assert_eq!(with(&cluster.frames(&ada), &["joins", "busy"]), 1);
        cluster.node(1).closed(user.client, CloseReason::Peer);
        cluster.settle();
        assert_eq!(with(&cluster.frames(&ada), &["leaves", "busy"]), 1);
    }
}

#[test]
fn sessions_are_ended_from_the_other_node() {
    let cluster = Cluster::new();
    let ada = cluster.player(0, "ada");
    let (name, _) = cluster.relayed_on(1);
    let own = member(&cluster.say(&ada, &create(&name)).join(""), "session_id");
    cluster.rpc(1, "disconnect", &own);
    assert_eq!(with(&cluster.frames(&ada), &["close 1000"]), 1);
    let account = |index| {
        let auth = format!("Bearer {}", ada.token);
        cluster.call(index, "GET /v2/account", &auth, "")
    };
    assert!(account(0).contains("ada") && account(1).contains("ada"));
    let body = format!(r#"{{"token":"{}"}}"#, ada.token);
    let auth = format!("Bearer {}", ada.token);
    cluster.call(1, "POST /v2/session/logout", &auth, &body);
    for index in [0, 1] {
        let refused = account(index);
        assert!(refused.contains("token invalid"), "{refused}");
    }
}

#[test]
fn streams_and_the_cache_are_the_same_on_both() {
    let cluster = Cluster::new();
    cluster.rpc(0, "put", "told");
    assert_eq!(cluster.rpc(1, "get", ""), "told");
    let players = [cluster.player_of(0, 0, "ada"), cluster.player_of(0, 1, "eve")];
    for (player, label) in players.iter().flat_map(|player| ["a", "b", "c"].map(|it| (player, it)))
    {
        let entered = cluster.rpc_of(player, "enter", label);
        assert_eq!(with(&entered, &["\"payload\":\"true\""]), 1, "{entered:?}");
    }
    for label in ["a", "b", "c"] {
        assert_eq!(cluster.rpc(1, "say", label), "2");
        for player in &players {
            assert_eq!(with(&cluster.frames(player), &["stream_data", "hello", label]), 1);
        }
    }
}

#[test]
fn who_was_on_a_node_that_goes_leaves_and_who_had_something_there_is_told() {
    let mut cluster = Cluster::new();
    let [ada, eve, ida] = ["ada", "eve", "ida"].map(|name| cluster.player_of(0, 0, name));
    let bob = cluster.player_of(1, 0, "bob");
    let ((here, here_id), (there, _)) = (cluster.relayed_on(0), cluster.relayed_on(1));
    for player in [&ada, &bob] {
        cluster.say(player, &create(&here));
    }
    cluster.say(&ada, &follow(&[&bob]));
    cluster.say(&eve, &create(&there));
    let theirs = cluster.rpc(1, "create", "");
    assert_eq!(cluster.rpc(1, "put", "theirs"), "");
    assert_eq!(cluster.rpc(0, "get", ""), "theirs");
    for player in [&ada, &ida] {
        cluster.frames(player);
    }
    // On the way when the node goes: a join, and a signal by a function.
    cluster.node(0).say_only(ida.client, &join(&theirs));
    let caller = cluster.node(0).open(0);
    let line = "POST /v2/rpc/signal?http_key=httpkey&unwrap";
    cluster.node(0).bytes(caller, &request(line, "", &format!("{theirs} x")));
    assert_eq!(cluster.node(0).text(caller), "");
    cluster.lose(1);

    let heard = cluster.frames(&ada);
    assert_eq!(with(&heard, &["match_presence_event", &here_id, "leaves", "bob"]), 1, "{heard:?}");
    assert_eq!(with(&heard, &["status_presence_event", "leaves", "bob"]), 1, "{heard:?}");
    assert_eq!(with(&heard, &["close"]), 0, "all that it had is here");
    let told = cluster.frames(&eve);
    assert_eq!(with(&told, &["close 1001 a node of the cluster is gone"]), 1, "{told:?}");
    let told = cluster.frames(&ida);
    assert_eq!((with(&told, &["\"cid\":\"7\"", "is away"]), told.len()), (1, 1), "{told:?}");
    assert!(cluster.node(0).text(caller).ends_with("match not found"));
    assert_eq!(with(&cluster.say(&ida, &join(&theirs)), &["Match not found"]), 1);
    assert_eq!(with(&cluster.say(&ida, &create(&there)), &["is away"]), 1);
    assert_eq!(cluster.rpc(0, "get", ""), "none");
    let auth = format!("Bearer {}", ada.token);
    let listed = cluster.call(0, "GET /v2/match?limit=9", &auth, "");
    assert!(listed.contains(&here_id) && !listed.contains(&theirs), "{listed}");
    assert_eq!(cluster.node(0).stat("closed_with_node"), 1);
}

#[test]
fn who_follows_somebody_on_a_node_that_goes_before_the_rest_is_followed_is_told() {
    let mut cluster = Cluster::new();
    let ada = cluster.player_of(0, 0, "ada");
    // Their homes are asked in this order.
    let (far, near) = (cluster.player_of(0, 1, "far"), cluster.player_of(0, 0, "near"));
    let slow = cluster.node(0).topology.room_of(near.user_id.parse().unwrap());
    cluster.node(0).freeze(slow, true);
    assert_eq!(with(&cluster.say(&ada, &follow(&[&far, &near])), &["cid"]), 0);
    cluster.lose(1);
    cluster.begin_anew(1);
    cluster.node(0).freeze(slow, false);
    cluster.settle();
    let told = cluster.frames(&ada);
    assert_eq!(with(&told, &["close 1001 a node of the cluster is gone"]), 1, "{told:?}");
}

#[test]
fn a_node_that_begins_anew_is_told_of_all_and_has_nothing_of_its_former_life() {
    let mut cluster = Cluster::new();
    let (ada, eve) = (cluster.player_of(0, 1, "ada"), cluster.player_of(0, 0, "eve"));
    let bob = cluster.player(1, "bob");
    let ((here, here_id), (there, there_id)) = (cluster.relayed_on(0), cluster.relayed_on(1));
    cluster.say(&ada, &status("kept"));
    cluster.say(&eve, &create(&here));
    let former = cluster.rpc(1, "create", "");
    cluster.say(&bob, &join(&here_id));
    let from = cluster.node(1).topology.nodes.here();
    // What the old life still says, and is carried too late.
    cluster.node(1).say_only(bob.client, &data(&here_id, "aGk="));
    cluster.node(1).settle();
    let late: Vec<_> = cluster.node(1).letters.try_iter().collect();
    assert!(!late.is_empty());
    cluster.lose(1);
    cluster.begin_anew(1);
    cluster.frames(&eve);
    let gate = cluster.node(0).topology.gate().unwrap();
    for (_, bytes) in late {
        let bytes = bytes.unwrap();
        cluster.node(0).mail(gate, GateMail::Letter { from, bytes });
    }
    cluster.settle();
    assert!(cluster.node(0).stat("node_letters_late") > 0);
    assert_eq!(cluster.frames(&eve), [""; 0]);

    let zoe = cluster.player(1, "zoe");
    let followed = cluster.say(&zoe, &follow(&[&ada]));
    assert_eq!(with(&followed, &["ada", "kept"]), 1, "{followed:?}");
    let auth = format!("Bearer {}", zoe.token);
    let listed = cluster.call(1, "GET /v2/match?limit=9", &auth, "");
    assert!(listed.contains(&here_id) && !listed.contains(&former), "{listed}");
    assert_eq!(with(&cluster.say(&zoe, &join(&former)), &["Match not found"]), 1);
    assert_eq!(with(&cluster.say(&zoe, &join(&there_id)), &["Match not found"]), 1);
    // A match with that name begins anew, and both are in it.
    assert_eq!(with(&cluster.say(&zoe, &create(&there)), &["joins"]), 1);
    assert_eq!(with(&cluster.say(&eve, &create(&there)), &["\"match\"", "zoe"]), 1);
    assert_eq!(with(&cluster.frames(&zoe), &["joins", "eve"]), 1);
}

#[test]
fn a_join_that_waits_for_its_match_is_forgotten_with_its_node() {
    let mut cluster = Cluster::new();
    let first = cluster.rpc(0, "create", "");
    let room = |cluster: &Cluster, id: &str| {
        let topology = &cluster.node(0).topology;
        topology.room_of_match(MatchId::parse(id, &topology.nodes).unwrap())
    };
    let is_elsewhere = |id: &String| room(&cluster, id) != room(&cluster, &first);
    let second = (0..30).map(|_| cluster.rpc(0, "create", "")).find(is_elsewhere).unwrap();
    cluster.rpc(0, "signal", &format!("{first} next {second}"));
    let slow = cluster.player(1, "slow");
    let frozen = room(&cluster, &second);
    cluster.node(0).freeze(frozen, true);
    cluster.say(&slow, &join(&first));
    cluster.lose(1);
    cluster.node(0).freeze(frozen, false);
    cluster.advance(200);
    let ada = cluster.player(0, "ada");
    let joined = cluster.say(&ada, &join(&first));
    assert_eq!(with(&joined, &["\"cid\":\"7\",\"match\""]), 1, "{joined:?}");
    assert_eq!(with(&joined, &["slow"]), 0, "{joined:?}");
    assert_eq!(cluster.node(0).stat("presences"), 1);
}
