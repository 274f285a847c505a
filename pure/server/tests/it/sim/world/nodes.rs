//! Nodes and what is between them: a link from each gate to the other one, which may be late, keeps its
//! order, and ends in the news that its node is gone. A node that is lost loses its threads, mailboxes and
//! connections; it begins anew with nothing but the database.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use event::{Random, ThreadId};
use game::guest::{GuestVersion, HostSettings};
use game::node::{Incarnation, NodeId, Nodes};
use game::session::Revocations;
use server::core::Core;
use server::gate::{Gate, NodeNews, Way};
use server::guests::NewGuests;
use server::hooks::Hooks;
use server::lister::Lister;
use server::loader::{Edition, Library, Loader};
use server::mail::{GateMail, LoaderMail, Topology};
use server::resources::{Resources, Said, ThreadContext};
use server::room::Room;
use server::stats::{CoreStats, GateStats, ListerStats, LoaderStats, RoomStats, WorkerStats};
use server::worker::Worker;
use world::Saved;

use super::super::db::Faulty;
use super::super::guest::Guests;
use super::super::play::Profile;
use super::{Boxed, Clock, World, world};

/// A node: a part of the threads.
pub(super) struct Node {
    pub(super) name: &'static str,
    /// The number of its first thread among those of all nodes.
    pub(super) base: u16,
    /// As its threads begin with it.
    pub(super) topology: RefCell<Arc<Topology>>,
    pub(super) stats: RefCell<Stats>,
    pub(super) life: Cell<u32>,
    pub(super) is_alive: Cell<bool>,
}

/// What is on its way from one node to another: letters, and the news that it lives or is gone.
pub(super) enum Carried {
    Letter(NodeId, Vec<u8>),
    News(NodeNews),
}

pub(super) struct Stats {
    pub(super) cores: Vec<Arc<CoreStats>>,
    pub(super) rooms: Vec<Arc<RoomStats>>,
    pub(super) workers: Vec<Arc<WorkerStats>>,
    pub(super) lister: Arc<ListerStats>,
    pub(super) loader: Arc<LoaderStats>,
    pub(super) gate: Arc<GateStats>,
}

impl Stats {
    pub(super) fn new(profile: &Profile, topology: &Topology) -> Self {
        Self {
            cores: (0..profile.cores).map(|_| Arc::default()).collect(),
            rooms: (0..profile.rooms).map(|_| Arc::default()).collect(),
            workers: topology.workers().map(|_| Arc::default()).collect(),
            lister: Arc::default(),
            loader: Arc::default(),
            gate: Arc::default(),
        }
    }
}

/// Names of nodes.
pub(crate) const NAMES: [&str; 2] = ["node1", "node2"];

pub(super) fn topology(profile: &Profile, index: usize, life: u32) -> Arc<Topology> {
    let nodes = match profile.nodes {
        1 => Nodes::alone(NAMES[0]),
        _ => Nodes::new(&NAMES, NAMES[index], Incarnation(life)).unwrap(),
    };
    let threads = (profile.cores, profile.rooms, profile.callers);
    Arc::new(Topology::of_node(nodes, threads).with_loader())
}

/// Nodes, and what is between them.
impl World {
    pub(super) fn news_of(&self, node: &Node, is_alive: bool) -> NodeNews {
        let peer = is_alive.then(|| node.topology.borrow().as_peer());
        NodeNews { name: node.name.to_owned(), life: Incarnation(node.life.get()), peer }
    }

    pub(super) fn put(&self, from: usize, to: usize, what: Carried) {
        if from != to && self.nodes[to].is_alive.get() {
            self.links.borrow_mut().entry((from, to)).or_default().push_back(what);
        }
    }

    /// Carries something of what is on its way, to the gate; `false` if nothing is.
    pub(super) fn carry(&self) -> bool {
        let mut links = self.links.borrow_mut();
        links.retain(|_, link| !link.is_empty());
        let Some(count) = u32::try_from(links.len()).ok().filter(|count| *count > 0) else {
            return false;
        };
        let index = self.below(count) as usize;
        let ((from, to), link) = links.iter_mut().nth(index).unwrap();
        for _ in 0..self.part_of(link.len()) {
            let Some(what) = link.pop_front() else { break };
            let mail = match what {
                Carried::Letter(from, bytes) => GateMail::Letter { from, bytes },
                Carried::News(news) => GateMail::Node(Box::new(news)),
            };
            self.tell(format_args!("from node {from} to node {to}: {}", kind(&mail)));
            self.count(|happened| happened.letters += 1);
            self.put_at_gate(*to, mail);
        }
        true
    }

    fn put_at_gate(&self, index: usize, mail: GateMail) -> u16 {
        let node = &self.nodes[index];
        let topology = node.topology.borrow();
        let (to, mail) = topology.gate().unwrap().seal(&topology, mail);
        let id = node.base + to.0;
        let gate = &self.threads[usize::from(id)];
        gate.mail.borrow_mut().push_back(mail);
        gate.is_awake.set(true);
        id
    }

    /// Some node is gone, with all that it has not said, and some of what is on its way.
    pub(crate) fn lose_a_node(&self) {
        let index = self.below(2) as usize;
        if self.living() < 2 || self.is_db_locked.get() {
            return;
        }
        let node = &self.nodes[index];
        self.tell(format_args!("{} is lost", node.name));
        self.count(|happened| happened.nodes_lost += 1);
        node.is_alive.set(false);
        let ids = node.base..self.nodes.get(index + 1).map_or(self.end(), |next| next.base);
        for id in ids.clone() {
            let thread = &self.threads[usize::from(id)];
            let gone = thread.handler.borrow_mut().take();
            drop(gone);
            thread.mail.borrow_mut().clear();
            thread.refused.borrow_mut().clear();
            thread.events.borrow_mut().clear();
            thread.put_off.borrow_mut().clear();
            thread.wake_ns.set(None);
            thread.is_awake.set(false);
        }
        self.network.lose(index);
        *node.stats.borrow_mut() = Stats::new(&self.profile, &node.topology.borrow());
        self.free.borrow_mut().retain(|client| !ids.contains(&client.core));
        for (client, conn) in &mut *self.conns.borrow_mut() {
            if ids.contains(&client.core) {
                (conn.is_closed, conn.is_lost) = (true, true);
                conn.sent.clear();
            }
        }
        let mut links = self.links.borrow_mut();
        links.remove(&(1 - index, index));
        if let Some(link) = links.get_mut(&(index, 1 - index))
            && self.once_in(2)
        {
            let kept = self.below(u32::try_from(link.len() + 1).unwrap());
            link.truncate(kept as usize);
        }
        drop(links);
        self.put(index, 1 - index, Carried::News(self.news_of(node, false)));
    }

    fn end(&self) -> u16 {
        u16::try_from(self.threads.len()).unwrap()
    }

    /// The modules of some node are to be loaded again.
    pub(crate) fn reload(&self) {
        let index = self.below(u32::try_from(self.nodes.len()).unwrap()) as usize;
        let node = &self.nodes[index];
        if !node.is_alive.get() {
            return;
        }
        let topology = node.topology.borrow();
        let (to, mail) = topology.loader.unwrap().seal(&topology, LoaderMail::Signal);
        let loader = &self.threads[usize::from(node.base + to.0)];
        loader.mail.borrow_mut().push_back(mail);
        loader.is_awake.set(true);
    }

    /// The node that was lost begins anew. What is revoked it reads when the other one knows of it.
    pub(crate) fn begin_anew(&self) {
        let Some(index) = self.nodes.iter().position(|node| !node.is_alive.get()) else { return };
        let (node, other) = (&self.nodes[index], &self.nodes[1 - index]);
        self.tell(format_args!("{} begins anew", node.name));
        node.life.set(node.life.get() + 1);
        *node.topology.borrow_mut() = topology(&self.profile, index, node.life.get());
        node.is_alive.set(true);
        self.put(1 - index, index, Carried::News(self.news_of(other, true)));
        // Nothing of the former life is behind this.
        while let Some(what) = self.next_of((index, 1 - index)) {
            self.put_at_gate(
                1 - index,
                match what {
                    Carried::Letter(from, bytes) => GateMail::Letter { from, bytes },
                    Carried::News(news) => GateMail::Node(Box::new(news)),
                },
            );
        }
        self.let_know(1 - index, node);
        self.start(index);
    }

    /// Lets the gate of a node know that another node lives: before that one reads what is revoked, or
    /// anything is, since what is revoked here later has to be told to it.
    pub(super) fn let_know(&self, index: usize, node: &Node) {
        let news = GateMail::Node(Box::new(self.news_of(node, true)));
        let gate = self.put_at_gate(index, news);
        while !self.threads[usize::from(gate)].mail.borrow().is_empty() {
            self.turn(gate);
        }
    }

    fn next_of(&self, link: (usize, usize)) -> Option<Carried> {
        self.links.borrow_mut().get_mut(&link)?.pop_front()
    }

    /// The threads of a node begin.
    pub(super) fn start(&self, index: usize) {
        let node = &self.nodes[index];
        let revoked = revoked(self);
        let handlers =
            handlers(self, index, &node.topology.borrow(), &node.stats.borrow(), &revoked);
        for (handler, thread) in handlers.into_iter().zip(&self.threads[usize::from(node.base)..]) {
            *thread.handler.borrow_mut() = handler;
        }
        if self.profile.has_zone {
            let seed = self.profile.ids ^ u64::from(node.life.get());
            let mut db = self.store.connect().unwrap();
            let parts = game::zone::kept(&mut db, node.name).unwrap();
            let bins = self.settings.world.as_ref().map_or(0, |settings| settings.bins);
            // Whenever a node was killed, what it had kept is whole.
            let saved = (!parts.is_empty()).then(|| Saved::restore(&parts, bins).unwrap());
            if let Some(saved) = &saved {
                let (ships, tick) = (saved.entities.len(), saved.tick);
                self.tell(format_args!("{ships} ships go on behind tick {tick}"));
                self.count(|happened| happened.zones_restored += 1);
            }
            let topology = node.topology.borrow();
            let (home, mail) = topology.begin_zone(&mut Random::from_number(seed), saved);
            let home = &self.threads[usize::from(node.base + home.0)];
            home.mail.borrow_mut().push_back(mail);
            home.is_awake.set(true);
        }
    }
}

fn kind(mail: &GateMail) -> &'static str {
    if let GateMail::Letter { .. } = mail { "a letter" } else { "news" }
}

fn revoked(world: &World) -> Revocations {
    let mut db = world.store.connect().unwrap();
    let lifetime_s = world.settings.session.lifetime_s();
    game::session::stored::load(&mut db, world.now(), lifetime_s).unwrap()
}

/// The way of a node's gate.
struct Link(usize);

impl Way for Link {
    fn send(&mut self, to: NodeId, letter: Vec<u8>) {
        let world = world();
        let from = world.nodes[self.0].topology.borrow().nodes.here();
        world.put(self.0, usize::from(to.number()), Carried::Letter(from, letter));
    }

    fn part(&mut self, from: NodeId) {
        panic!("node {} cannot read what node {} says", self.0, from.number());
    }
}

/// The versions of the guests that are there; some do not load.
struct Modules(BTreeSet<GuestVersion>);

impl Library for Modules {
    fn look(&mut self) -> u64 {
        0
    }

    fn read(&mut self, version: GuestVersion) -> Result<Edition, String> {
        if world().fails(4) {
            return Err("made up".to_owned());
        }
        self.0.insert(version);
        Ok(Edition { version, hash: String::new() })
    }

    fn instance(&mut self, version: GuestVersion, thread: ThreadId) -> Result<NewGuests, String> {
        assert!(self.0.contains(&version), "version {version} is forgotten, or was not read");
        let world = world();
        if world.fails(8) {
            return Err("made up".to_owned());
        }
        world.tell(format_args!("version {version} is made for {}", thread.0));
        let scripts = Box::new(Guests::new(world.profile.has_hooks));
        Ok(NewGuests { version, scripts, said: Said::default() })
    }

    fn serves(&mut self, version: GuestVersion) {
        self.0.retain(|one| *one == version);
    }
}

/// All handlers of a node, by their numbers; none for a thread that there is not.
fn handlers(
    played: &World,
    index: usize,
    topology: &Arc<Topology>,
    stats: &Stats,
    revoked: &Revocations,
) -> Vec<Option<Boxed>> {
    let World { profile, settings, store, network, .. } = played;
    let life = u64::from(topology.nodes.incarnation(topology.nodes.here()).0) - 1;
    let salt = profile.ids ^ ((index as u64) << 32) ^ (life << 40);
    let host = Arc::new(HostSettings {
        node: NAMES[index].to_owned(),
        env: Vec::new(),
        version: settings.version.clone(),
        log_lines_max: 5,
        session: settings.session.clone(),
    });
    let random = |id: ThreadId, of: u64| Random::from_number(salt ^ (u64::from(id.0) << 8) ^ of);
    let context = |id: ThreadId| {
        let db = Box::new(Faulty::new(store.connect().unwrap()));
        let unix_ms = Box::new(|| world().now().unix_ms);
        let (random, clock) = (random(id, 1), Box::<Clock>::default());
        let mut resources =
            Resources::new((&topology.nodes, id.0), db, random, host.clone(), unix_ms, clock);
        resources.fetch = Some(network.door(index, id));
        ThreadContext { scripts: Box::new(Guests::new(profile.has_hooks)), resources }
    };
    let hooks = Arc::new(Hooks::new(&Guests::new(profile.has_hooks).registered));
    let mut handlers: Vec<Option<Boxed>> = Vec::new();
    for (id, stats) in topology.cores.iter().zip(&stats.cores) {
        let (topology, settings, random) =
            (topology.clone(), settings.clone(), random(id.thread(), 0));
        let core = Core::new(*id, topology, settings, stats.clone(), random, hooks.clone());
        handlers.push(Some(Box::new(core.with_revocations(revoked.clone()))));
    }
    for (id, stats) in topology.rooms.iter().zip(&stats.rooms) {
        let context = context(id.thread());
        let (topology, settings) = (topology.clone(), settings.clone());
        let room = Room::new(*id, topology, settings, stats.clone(), context);
        handlers.push(Some(Box::new(room)));
    }
    let lister = Lister::new(topology.clone(), settings.clone(), stats.lister.clone());
    handlers.push(Some(Box::new(lister)));
    for (id, stats) in topology.workers().zip(&stats.workers) {
        let context = context(id.thread());
        let (topology, settings) = (topology.clone(), settings.clone());
        let worker = Worker::new(id, topology, settings, stats.clone(), context);
        handlers.push(Some(Box::new(worker)));
    }
    if let Some(loader) = topology.loader {
        handlers.resize_with(usize::from(loader.thread().0), || None);
        let (topology, stats) = (topology.clone(), stats.loader.clone());
        let first = Edition { version: GuestVersion::FIRST, hash: String::new() };
        let library = Box::new(Modules(BTreeSet::from([GuestVersion::FIRST])));
        handlers.push(Some(Box::new(Loader::new(topology, stats, (library, first)))));
    }
    if let Some(gate) = topology.gate() {
        handlers.resize_with(usize::from(gate.thread().0), || None);
        let gate = Gate::new(topology.clone(), Box::new(Link(index)), stats.gate.clone());
        handlers.push(Some(Box::new(gate)));
    }
    handlers
}
