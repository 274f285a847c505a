//! The rig: every thread's handler with its mailbox, run to rest one after the other; time moves
//! only when a test says so. Mailboxes can be declared full, connections closed, clocks turned.

mod bytes;
mod datagrams;
mod peer;
mod settings;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use event::{CloseReason, ConnId, Handler, Input, ListenerId, Now, Op, Output, Random, ThreadId};
use game::db::Database;
use game::guest::HostSettings;
use game::node::Nodes;
use script::{LuaLimits, LuaScripts, Sources};
use server::core::Core;
use server::hooks::Hooks;
use server::lister::Lister;
use server::mail::{Address, Mail, ThreadMail, Topology};
use server::resources::{LoadingHost, Resources, ThreadContext};
use server::room::Room;
use server::settings::Settings;
use server::stats::{
    CoreStats, GateStats, ListerStats, LoaderStats, RoomStats, Sample, WorkerStats,
};
use server::worker::Worker;
use store::Store;

use crate::clock::WorkerClock;
use crate::cluster::{Letter, Post, add_gate, salt};
use crate::disk::{Disk, OnDisk};
use crate::network::Network;
use crate::spent::loader;

pub(crate) use bytes::{close_frame, member, request, server_key, text_frame, upgrade};
pub(crate) use datagrams::Sent;
pub(crate) use peer::{Peer, ask, at, body};
pub(crate) use settings::settings;

pub(crate) const UNIX_MS: u64 = 1_700_000_000_000;
/// More than a small call takes in a debug build.
pub(crate) const SLICE_US: u32 = 5_000;
/// Enough for a few modules.
pub(crate) const SMALL_BYTES: usize = 8 << 20;
/// Turns until everything must be at rest.
const TURNS_MAX: usize = 10_000;

pub(crate) type Boxed = Box<dyn Handler<Mail = Mail>>;

/// One thread: its handler is taken out while it runs.
struct Thread {
    handler: RefCell<Option<Boxed>>,
    mail: RefCell<VecDeque<Mail>>,
    refused: RefCell<VecDeque<(ThreadId, Mail)>>,
    wake_ns: Cell<Option<u64>>,
    wakes: Cell<u64>,
    is_full: Cell<bool>,
    is_frozen: Cell<bool>,
    is_stopped: Cell<bool>,
}

struct World {
    threads: Vec<Thread>,
    now: Cell<Now>,
    sent: RefCell<BTreeMap<Client, Vec<u8>>>,
    closed: RefCell<BTreeSet<Client>>,
    /// Connections that are not read from just now.
    paused: RefCell<BTreeSet<Client>>,
    /// Connections that have not taken what was sent, and how much all have not.
    behind: RefCell<BTreeSet<Client>>,
    /// Connections of which a core wants to hear when all is taken.
    to_tell: RefCell<BTreeSet<Client>>,
    unsent: Cell<u64>,
    /// Datagrams that were sent.
    datagrams: RefCell<Vec<Sent>>,
    /// How much mail of each kind was posted to each thread.
    posted: RefCell<BTreeMap<(ThreadId, &'static str), u64>>,
}

/// A connection as its client has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Client {
    pub(crate) core: u16,
    pub(crate) conn: ConnId,
}

/// The server.
pub(crate) struct Rig {
    world: Rc<World>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) core_stats: Vec<Arc<CoreStats>>,
    pub(crate) room_stats: Vec<Arc<RoomStats>>,
    pub(crate) worker_stats: Vec<Arc<WorkerStats>>,
    pub(crate) lister_stats: Arc<ListerStats>,
    pub(crate) loader_stats: Arc<LoaderStats>,
    pub(crate) gate_stats: Arc<GateStats>,
    /// What leaves for other nodes.
    pub(crate) letters: Receiver<Letter>,
    slots: Cell<u32>,
    pub(crate) machine: Machine,
}

/// What is around the server.
#[derive(Default)]
pub(crate) struct Machine {
    clock: WorkerClock,
    /// What scripts ask other servers.
    pub(crate) network: Network,
}

/// How many threads, which modules, which settings.
pub(crate) struct Plan<'a> {
    pub(crate) cores: u16,
    pub(crate) rooms: u16,
    pub(crate) callers: u16,
    /// Whether each core has a companion; calls there have slices of [`SLICE_US`].
    pub(crate) companions: bool,
    /// Whether there is a thread that loads modules: then VMs of the batcher and of companions have
    /// [`SMALL_BYTES`], and it makes them anew.
    pub(crate) loader: bool,
    /// Whether VMs of all other threads have [`SMALL_BYTES`], too.
    pub(crate) small: bool,
    pub(crate) modules: &'a [(&'a str, &'a str)],
    /// Modules that companions do not run, as if they were in another language than Lua.
    pub(crate) elsewhere: &'a [(&'a str, &'a str)],
    pub(crate) tune: fn(&mut Settings),
    /// Where the database is; in memory, which needs no syncing, if none is given.
    pub(crate) disk: Option<Arc<Disk>>,
    /// The cluster; without it the node is alone.
    pub(crate) nodes: Option<Nodes>,
    /// The database, if it is another node's, too.
    pub(crate) store: Option<&'a Store>,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self {
            cores: 1,
            rooms: 1,
            callers: 1,
            companions: false,
            loader: false,
            small: false,
            modules: &[],
            elsewhere: &[],
            tune: |_| {},
            disk: None,
            nodes: None,
            store: None,
        }
    }
}

impl Plan<'_> {
    fn topology(&self, nodes: &Nodes) -> Topology {
        let threads = (self.cores, self.rooms, self.callers);
        if self.companions {
            Topology::with_companions(nodes.clone(), threads)
        } else {
            Topology::of_node(nodes.clone(), threads)
        }
    }

    fn connect(&self, store: &Store) -> Box<dyn Database + Send> {
        let db = store.connect().unwrap();
        match self.disk.clone() {
            Some(disk) => Box::new(OnDisk { db, disk, is_dirty: false, waited_us: 0 }),
            None => Box::new(db),
        }
    }
}

impl World {
    fn new(handlers: Vec<Boxed>) -> Self {
        Self {
            threads: handlers.into_iter().map(thread).collect(),
            now: Cell::new(Now { mono_ns: 0, unix_ms: UNIX_MS }),
            sent: RefCell::default(),
            closed: RefCell::default(),
            paused: RefCell::default(),
            behind: RefCell::default(),
            to_tell: RefCell::default(),
            unsent: Cell::new(0),
            datagrams: RefCell::default(),
            posted: RefCell::default(),
        }
    }

    fn post(&self, from: ThreadId, to: ThreadId, mail: Mail) {
        let thread = &self.threads[usize::from(to.0)];
        *self.posted.borrow_mut().entry((to, mail.kind())).or_default() += 1;
        if thread.is_full.get() {
            let from = &self.threads[usize::from(from.0)];
            from.refused.borrow_mut().push_back((to, mail));
        } else {
            thread.mail.borrow_mut().push_back(mail);
        }
    }

    /// Gives a thread one input and does what it asks for.
    fn handle(&self, id: u16, input: Input<'_, Mail>) {
        let thread = &self.threads[usize::from(id)];
        if thread.is_stopped.get() {
            return;
        }
        let mut out = Output::default();
        out.set_unsent(self.unsent.get());
        let mut handler = thread.handler.borrow_mut().take().unwrap();
        handler.handle(self.now.get(), input, &mut out);
        *thread.handler.borrow_mut() = Some(handler);
        if let Some(wish) = out.take_wake() {
            thread.wake_ns.set(wish);
        }
        let (ops, arena) = out.parts();
        for op in ops {
            self.apply(id, op, arena);
        }
    }

    fn apply(&self, id: u16, op: Op<Mail>, arena: &[u8]) {
        let client = |conn| Client { core: id, conn };
        let send = |conn, bytes: &[u8]| {
            if !self.closed.borrow().contains(&client(conn)) {
                let mut sent = self.sent.borrow_mut();
                sent.entry(client(conn)).or_default().extend_from_slice(bytes);
            }
        };
        match op {
            Op::Send { conn, range } => send(conn, &arena[range]),
            Op::SendShared { conn, bytes } => send(conn, &bytes),
            Op::OfferShared { conn, bytes } if !self.behind.borrow().contains(&client(conn)) => {
                send(conn, &bytes);
            }
            Op::Close { conn } | Op::Abort { conn } => {
                self.closed.borrow_mut().insert(client(conn));
            }
            Op::Reading { conn, on } => {
                let mut paused = self.paused.borrow_mut();
                if on {
                    paused.remove(&client(conn))
                } else {
                    paused.insert(client(conn))
                };
            }
            Op::TellWhenSent { conn } => {
                self.to_tell.borrow_mut().insert(client(conn));
            }
            Op::SendDatagram { to, range, .. } => {
                let bytes = arena[range].to_vec();
                self.datagrams.borrow_mut().push(Sent { core: id, to, bytes });
            }
            Op::Mail { to, mail, .. } => self.post(ThreadId(id), to, mail),
            Op::Stop => self.threads[usize::from(id)].is_stopped.set(true),
            _ => {}
        }
    }

    /// One turn, in the engine's order; tells whether there was anything to do.
    fn turn(&self, id: u16) -> bool {
        let thread = &self.threads[usize::from(id)];
        if thread.is_frozen.get() {
            return false;
        }
        let mut was_busy = false;
        let waiting = thread.refused.borrow().len();
        for _ in 0..waiting {
            let Some((to, mail)) = thread.refused.borrow_mut().pop_front() else { break };
            self.handle(id, Input::Refused { to, mail });
            was_busy = true;
        }
        let behind = self.behind.borrow().clone();
        let is_taken = |client: &Client| client.core == id && !behind.contains(client);
        let taken: Vec<Client> = self.to_tell.borrow_mut().extract_if(.., is_taken).collect();
        for client in taken {
            self.handle(id, Input::Sent { conn: client.conn });
            was_busy = true;
        }
        let waiting = thread.mail.borrow().len();
        for _ in 0..waiting {
            let Some(mail) = thread.mail.borrow_mut().pop_front() else { break };
            self.handle(id, Input::Mail(mail));
            was_busy = true;
        }
        if thread.wake_ns.get().is_some_and(|due_ns| due_ns <= self.now.get().mono_ns) {
            thread.wake_ns.set(None);
            thread.wakes.set(thread.wakes.get() + 1);
            self.handle(id, Input::Wake);
            was_busy = true;
        }
        if was_busy {
            self.handle(id, Input::TurnEnd);
        }
        was_busy
    }

    fn settle(&self) {
        for _ in 0..TURNS_MAX {
            let ids = 0..u16::try_from(self.threads.len()).unwrap();
            if ids.filter(|id| self.turn(*id)).count() == 0 {
                return;
            }
        }
        panic!("the threads do not come to rest");
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(&Plan::default())
    }

    pub(crate) fn with(plan: &Plan<'_>) -> Self {
        let mut settings = settings();
        (plan.tune)(&mut settings);
        let settings = Arc::new(settings);
        let (cores, rooms) = (plan.cores, plan.rooms);
        let own = plan.store.is_none().then(|| Store::open_in_memory().unwrap());
        let store = plan.store.or(own.as_ref()).unwrap();
        let [sources, of_companions] = plan.sources();
        let machine = Machine::default();
        let nodes = plan.nodes.clone().unwrap_or_else(|| Nodes::alone(&settings.node));
        let salt = plan.nodes.as_ref().map_or(0, salt);
        let random = |id: ThreadId| Random::from_number(salt + u64::from(id.0) + 100);
        let connect = || plan.connect(store);
        let topology = plan.topology(&nodes);
        let base = topology.clone();
        let context = |id: ThreadId| {
            let limits = plan.limits(&base, id);
            let is_companion = base.companions.iter().any(|one| one.thread() == id);
            let sources = if is_companion { &of_companions } else { &sources };
            context((&nodes, id, random(id), &machine, limits), &settings, connect(), sources)
        };
        let (topology, contexts, hooks) = contexts(topology, plan.loader, context);
        let core_stats: Vec<Arc<CoreStats>> = (0..cores).map(|_| Arc::default()).collect();
        let room_stats: Vec<Arc<RoomStats>> = (0..rooms).map(|_| Arc::default()).collect();
        let worker_stats: Vec<Arc<WorkerStats>> =
            (0..plan.callers + cores + 3).map(|_| Arc::default()).collect();
        let lister_stats: Arc<ListerStats> = Arc::default();
        let mut contexts = contexts.into_iter();
        let loader_stats: Arc<LoaderStats> = Arc::default();
        let (gate_stats, (to_letters, letters)) = (Arc::<GateStats>::default(), channel());
        let world = Rc::new({
            let mut handlers: Vec<Boxed> = Vec::new();
            for (id, stats) in topology.cores.iter().zip(&core_stats) {
                let random = Random::from_number(salt + u64::from(id.thread().0) + 1);
                let (topology, settings) = (topology.clone(), settings.clone());
                let hooks = hooks.clone();
                let core = Core::new(*id, topology, settings, stats.clone(), random, hooks);
                handlers.push(Box::new(core));
            }
            for (id, stats) in topology.rooms.iter().zip(&room_stats) {
                let (topology, settings) = (topology.clone(), settings.clone());
                let context = contexts.next().unwrap();
                handlers.push(Box::new(Room::new(*id, topology, settings, stats.clone(), context)));
            }
            let lister = Lister::new(topology.clone(), settings.clone(), lister_stats.clone());
            handlers.push(Box::new(lister));
            for (id, stats) in topology.workers().zip(&worker_stats) {
                let (topology, settings) = (topology.clone(), settings.clone());
                let context = contexts.next().unwrap();
                let worker = Worker::new(id, topology, settings, stats.clone(), context);
                handlers.push(Box::new(worker));
            }
            if plan.loader {
                handlers.push(loader(&topology, &settings, &sources, &loader_stats));
            }
            add_gate(&mut handlers, &topology, Post(to_letters), &gate_stats);
            World::new(handlers)
        });
        Self {
            world,
            topology,
            core_stats,
            room_stats,
            worker_stats,
            lister_stats,
            loader_stats,
            gate_stats,
            letters,
            slots: Cell::new(0),
            machine,
        }
    }

    /// From now on the wall clock of workers moves by so much whenever somebody looks: every call
    /// seems to have taken that long.
    pub(crate) fn set_look_ms(&self, ms: u64) {
        self.set_waited_ms(ms, 0);
    }

    /// The same, and for so much of it the thread was blocked.
    pub(crate) fn set_blocked_ms(&self, look_ms: u64, blocked_ms: u64) {
        self.set_waited_ms(look_ms, 0);
        self.machine.clock.blocked_ms.store(blocked_ms, Ordering::Relaxed);
    }

    /// The same, of which the thread waited so much for a processor.
    pub(crate) fn set_waited_ms(&self, look_ms: u64, waited_ms: u64) {
        self.machine.clock.look_ms.store(look_ms, Ordering::Relaxed);
        self.machine.clock.waited_ms.store(waited_ms, Ordering::Relaxed);
    }

    pub(crate) fn settle(&self) {
        self.world.settle();
    }

    /// Lets time pass, from one wake-up to the next.
    pub(crate) fn advance(&self, ms: u64) {
        let target = self.world.now.get().after_ms(ms);
        loop {
            self.settle();
            let now = self.world.now.get();
            let runs = |thread: &&Thread| !thread.is_stopped.get() && !thread.is_frozen.get();
            let wishes = self.world.threads.iter().filter(runs);
            let next = wishes.filter_map(|thread| thread.wake_ns.get()).min();
            match next.filter(|due_ns| *due_ns <= target.mono_ns) {
                Some(due_ns) => {
                    let unix_ms = UNIX_MS + due_ns / 1_000_000;
                    self.world.now.set(Now { mono_ns: due_ns.max(now.mono_ns), unix_ms });
                }
                None => break,
            }
        }
        self.world.now.set(target);
    }

    /// Declares a thread's mailbox full, or empty again.
    pub(crate) fn set_full(&self, thread: impl Into<ThreadId>, is_full: bool) {
        self.world.threads[usize::from(thread.into().0)].is_full.set(is_full);
    }

    /// A frozen thread does nothing; its mail waits.
    pub(crate) fn freeze(&self, thread: impl Into<ThreadId>, is_frozen: bool) {
        self.world.threads[usize::from(thread.into().0)].is_frozen.set(is_frozen);
    }

    pub(crate) fn posted(&self, to: impl Into<ThreadId>, kind: &'static str) -> u64 {
        self.world.posted.borrow().get(&(to.into(), kind)).copied().unwrap_or(0)
    }

    pub(crate) fn wakes(&self, thread: impl Into<ThreadId>) -> u64 {
        self.world.threads[usize::from(thread.into().0)].wakes.get()
    }

    pub(crate) fn is_stopped(&self, thread: impl Into<ThreadId>) -> bool {
        self.world.threads[usize::from(thread.into().0)].is_stopped.get()
    }

    /// One input, and the end of the turn, without running anybody else.
    pub(crate) fn input(&self, thread: ThreadId, input: Input<'_, Mail>) {
        self.world.handle(thread.0, input);
        self.world.handle(thread.0, Input::TurnEnd);
    }

    /// The same of one mail.
    pub(crate) fn mail<M: ThreadMail>(&self, to: Address<M>, mail: M) {
        let (to, mail) = to.seal(&self.topology, mail);
        self.input(to, Input::Mail(mail));
    }

    /// Puts mail into a thread's mailbox; nobody runs.
    pub(crate) fn post(&self, to: ThreadId, mail: Mail) {
        self.world.post(to, to, mail);
    }

    /// Takes all mail that waits for a thread, most likely a frozen one.
    pub(crate) fn take_mail(&self, thread: impl Into<ThreadId>) -> Vec<Mail> {
        let thread = &self.world.threads[usize::from(thread.into().0)];
        thread.mail.borrow_mut().drain(..).collect()
    }

    /// One turn of one thread.
    pub(crate) fn turn(&self, thread: impl Into<ThreadId>) {
        self.world.turn(thread.into().0);
    }

    pub(crate) fn stop(&self, thread: impl Into<ThreadId>) {
        self.input(thread.into(), Input::Stop);
    }

    pub(crate) fn open(&self, core: u16) -> Client {
        self.open_from(core, [127, 0, 0, 1])
    }

    pub(crate) fn open_from(&self, core: u16, peer: [u8; 4]) -> Client {
        self.open_at(core, ListenerId(0), peer)
    }

    pub(crate) fn open_at(&self, core: u16, listener: ListenerId, peer: [u8; 4]) -> Client {
        let slot = self.slots.replace(self.slots.get() + 1);
        let client = Client { core, conn: ConnId { slot, generation: 0 } };
        let peer = (peer, 5_000).into();
        self.input(ThreadId(core), Input::Opened { conn: client.conn, listener, peer });
        client
    }

    /// Bytes from a client, and what comes of them.
    pub(crate) fn bytes(&self, client: Client, bytes: &[u8]) {
        self.bytes_only(client, bytes);
        self.settle();
    }

    /// Bytes from a client; nobody but its core runs.
    pub(crate) fn bytes_only(&self, client: Client, bytes: &[u8]) {
        let bytes = &mut bytes.to_vec()[..];
        self.input(ThreadId(client.core), Input::Bytes { conn: client.conn, bytes });
    }

    pub(crate) fn eof(&self, client: Client) {
        self.input(ThreadId(client.core), Input::Eof { conn: client.conn });
        self.settle();
    }

    /// The connection is gone.
    pub(crate) fn closed(&self, client: Client, reason: CloseReason) {
        self.closed_only(client, reason);
        self.settle();
    }

    /// The connection is gone; nobody but its core runs.
    pub(crate) fn closed_only(&self, client: Client, reason: CloseReason) {
        self.world.closed.borrow_mut().insert(client);
        let input = Input::Closed { conn: client.conn, reason };
        self.input(ThreadId(client.core), input);
    }

    /// Whether the server has closed it.
    pub(crate) fn is_closed(&self, client: Client) -> bool {
        self.world.closed.borrow().contains(&client)
    }

    /// Whether the server reads from it.
    pub(crate) fn is_read(&self, client: Client) -> bool {
        !self.world.paused.borrow().contains(&client)
    }

    /// Declares that a client has not taken what was sent before.
    pub(crate) fn set_behind(&self, client: Client) {
        self.world.behind.borrow_mut().insert(client);
    }

    /// Lets a client take what was sent until now, and declares that it takes no more.
    pub(crate) fn take_once(&self, client: Client) {
        self.world.behind.borrow_mut().remove(&client);
        self.turn(ThreadId(client.core));
        self.set_behind(client);
        self.settle();
    }

    /// Declares how much all clients have not taken.
    pub(crate) fn set_unsent(&self, bytes: u64) {
        self.world.unsent.set(bytes);
    }

    /// What was sent to a client since the last look.
    pub(crate) fn take(&self, client: Client) -> Vec<u8> {
        self.world.sent.borrow_mut().remove(&client).unwrap_or_default()
    }

    /// Begins an RPC of a user, or of somebody with the HTTP key.
    pub(crate) fn begin_rpc(&self, token: Option<&str>, id: &str, payload: &str) -> Client {
        let client = self.send_rpc(token, id, payload);
        self.settle();
        client
    }

    /// The same; nobody but the core runs.
    pub(crate) fn send_rpc(&self, token: Option<&str>, id: &str, payload: &str) -> Client {
        let client = self.open(0);
        let (line, auth) = match token {
            Some(token) => (format!("POST /v2/rpc/{id}?unwrap"), format!("Bearer {token}")),
            None => (format!("POST /v2/rpc/{id}?http_key=httpkey&unwrap"), String::new()),
        };
        self.bytes_only(client, &request(&line, &auth, payload));
        client
    }

    /// The body of an answer, empty if there is none yet.
    pub(crate) fn body(&self, client: Client) -> String {
        let text = self.text(client);
        text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    pub(crate) fn text(&self, client: Client) -> String {
        String::from_utf8(self.take(client)).unwrap()
    }

    /// Sends a request and returns the whole answer.
    pub(crate) fn http(&self, client: Client, line: &str, auth: &str, body: &str) -> String {
        self.bytes(client, &request(line, auth, body));
        self.text(client)
    }

    /// Registers a device; returns its user id and session token.
    pub(crate) fn login(&self, name: &str) -> (String, String) {
        let client = self.open(0);
        let line = format!("POST /v2/account/authenticate/device?username={name}");
        let body = format!("{{\"id\":\"device-of-{name}\"}}");
        let answer = self.http(client, &line, &server_key(), &body);
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        let token = json["token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        let claims = token.split('.').nth(1).unwrap();
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        self.closed(client, CloseReason::Peer);
        (claims["uid"].as_str().unwrap().to_owned(), token)
    }

    /// Opens a socket; `query` begins with `&` or is empty.
    pub(crate) fn socket(&self, core: u16, token: &str, query: &str) -> Client {
        self.socket_with(core, token, query, "")
    }

    /// Opens a socket with more header lines.
    pub(crate) fn socket_with(&self, core: u16, token: &str, query: &str, more: &str) -> Client {
        let client = self.open(core);
        self.bytes_only(client, &upgrade(&format!("{token}{query}"), more));
        let answer = self.take(client);
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
        self.settle();
        client
    }

    /// Sends a message; returns the frames that came to this client since the last look.
    pub(crate) fn say(&self, client: Client, json: &str) -> Vec<String> {
        self.bytes(client, &text_frame(json));
        self.frames(client)
    }

    /// Sends a message; nobody but its core runs.
    pub(crate) fn say_only(&self, client: Client, json: &str) {
        self.bytes_only(client, &text_frame(json));
    }

    /// The frames since the last look: text as it is, others as `<opcode> <payload>`.
    pub(crate) fn frames(&self, client: Client) -> Vec<String> {
        let bytes = self.take(client);
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while let [first, second, tail @ ..] = rest {
            let (len, tail) = match second {
                126 => (usize::from(tail[0]) << 8 | usize::from(tail[1]), &tail[2..]),
                127 => panic!("too long for a test"),
                len => (usize::from(*len), tail),
            };
            let payload = String::from_utf8_lossy(&tail[..len]).into_owned();
            frames.push(match first & 0x0f {
                1 => payload,
                8 => {
                    let code = tail.get(..2).map_or(0, |c| u16::from_be_bytes([c[0], c[1]]));
                    format!("close {code} {}", String::from_utf8_lossy(&tail[2..len]))
                }
                opcode => format!("{opcode} {payload}"),
            });
            rest = &tail[len..];
        }
        frames
    }

    /// Calls an RPC function by the HTTP key; returns the unwrapped answer.
    pub(crate) fn rpc(&self, id: &str, payload: &str) -> String {
        let client = self.open(0);
        let line = format!("POST /v2/rpc/{id}?http_key=httpkey&unwrap");
        let answer = self.http(client, &line, "", payload);
        self.closed(client, CloseReason::Peer);
        answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}")).1.to_owned()
    }

    /// A counter by name, summed over all threads that have it.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let of = |samples: Vec<Sample>| -> u64 {
            samples.iter().filter(|sample| sample.name == name).map(|sample| sample.value).sum()
        };
        let cores = self.core_stats.iter().map(|stats| of(stats.samples())).sum::<u64>();
        let rooms = self.room_stats.iter().map(|stats| of(stats.samples())).sum::<u64>();
        let lister = of(self.lister_stats.samples());
        lister
            + of(self.loader_stats.samples())
            + of(self.gate_stats.samples())
            + cores
            + rooms
            + self.worker_stats.iter().map(|stats| of(stats.samples())).sum::<u64>()
    }
}

/// What each thread with scripts works with, and which names have hooks; there is one thread more if the
/// scripts handle events, and one behind it that loads them if that is wanted.
fn contexts(
    mut topology: Topology,
    has_loader: bool,
    context: impl Fn(ThreadId) -> ThreadContext,
) -> (Arc<Topology>, Vec<ThreadContext>, Arc<Hooks>) {
    let mut contexts: Vec<ThreadContext> = topology.scripted().map(&context).collect();
    let hooks = Hooks::new(contexts[0].scripts.registered());
    if hooks.has_events() {
        topology = topology.with_events();
        contexts.extend(topology.events.map(|events| context(events.thread())));
    }
    if has_loader {
        topology = topology.with_loader();
    }
    (Arc::new(topology), contexts, Arc::new(hooks))
}

fn thread(handler: Boxed) -> Thread {
    Thread {
        handler: RefCell::new(Some(handler)),
        mail: RefCell::default(),
        refused: RefCell::default(),
        wake_ns: Cell::new(None),
        wakes: Cell::new(0),
        is_full: Cell::new(false),
        is_frozen: Cell::new(false),
        is_stopped: Cell::new(false),
    }
}

pub(crate) fn context(
    (nodes, id, random, machine, limits): (&Nodes, ThreadId, Random, &Machine, LuaLimits),
    settings: &Settings,
    db: Box<dyn Database + Send>,
    sources: &Arc<Sources>,
) -> ThreadContext {
    let host = Arc::new(HostSettings {
        node: settings.node.clone(),
        env: Vec::new(),
        version: settings.version.clone(),
        log_lines_max: settings.runtime.log_lines_max,
        session: settings.session.clone(),
    });
    let Machine { clock, network } = machine;
    let (look_ms, passed_ms) = (clock.look_ms.clone(), AtomicU64::new(0));
    let wall =
        move || UNIX_MS + passed_ms.fetch_add(look_ms.load(Ordering::Relaxed), Ordering::Relaxed);
    let (wall, call_clock) = (Box::new(wall), Box::new(clock.clone()));
    let mut resources = Resources::new((nodes, id.0), db, random, host, wall, call_clock);
    resources.fetch = Some(network.door(0, id));
    let mut host = LoadingHost::new(Now { mono_ns: 0, unix_ms: UNIX_MS }, &mut resources);
    let scripts = LuaScripts::load(sources.clone(), limits, &mut host).unwrap();
    ThreadContext { scripts: Box::new(scripts), resources }
}
