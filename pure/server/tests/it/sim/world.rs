//! The threads with their mailboxes, the connections, the time, and what happens to them: on one node, or
//! on two with links between their gates, which may be late and keep their order, until a node is lost.
//!
//! Out of here handlers are called as the engine would: a turn is mail, what came of connections, what
//! was refused, who is gone, the wake-up, the end (`event::Handler`). A thread that waits for another
//! one, or for the database, lets others run from within its turn.

mod happened;
mod nodes;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Arguments;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use event::{
    CallClock, CallTime, CloseReason, ConnId, Handler, Input, ListenerId, Now, Op, Output, Random,
    ThreadId, Urgency,
};
use server::mail::{CallerMail, Mail, News};
use server::settings::Settings;
use server::stats::Sample;
use store::Store;

pub(crate) use self::happened::Happened;
pub(crate) use self::nodes::NAMES;
use self::nodes::{Carried, Node, Stats, topology};
use super::play::{Broken, Profile};
use crate::network::{Network, Request};
use crate::rig::{Client, UNIX_MS, settings};

/// Turns of others from within one turn, while its thread waits.
const DEPTH_MAX: usize = 6;

type Boxed = Box<dyn Handler<Mail = Mail>>;

thread_local! {
    static WORLD: RefCell<Weak<World>> = const { RefCell::new(Weak::new()) };
}

/// The world that is played on this thread: databases and guests are `Send`, and it is not.
pub(crate) fn world() -> Rc<World> {
    WORLD.with_borrow(Weak::upgrade).unwrap()
}

/// The same, for what may be dropped after the world.
pub(crate) fn if_played(act: impl FnOnce(&World)) {
    if let Some(world) = WORLD.with_borrow(Weak::upgrade) {
        act(&world);
    }
}

/// What the kernel tells of a connection.
enum Event {
    Opened,
    Bytes(Vec<u8>),
    Eof,
}

/// One thread: its handler is taken out while it runs.
struct Thread {
    handler: RefCell<Option<Boxed>>,
    mail: RefCell<VecDeque<Mail>>,
    refused: RefCell<VecDeque<(ThreadId, Mail)>>,
    events: RefCell<VecDeque<(ConnId, Event)>>,
    /// Connections that are to be told closed, or, without a reason, that all is sent.
    put_off: RefCell<VecDeque<(ConnId, Option<CloseReason>)>>,
    wake_ns: Cell<Option<u64>>,
    is_awake: Cell<bool>,
    full_until_ns: Cell<u64>,
}

impl Thread {
    fn next_mail(&self) -> Option<Mail> {
        self.mail.borrow_mut().pop_front()
    }
}

/// A connection as the kernel has it.
#[derive(Default)]
struct Conn {
    sent: Vec<u8>,
    /// The server has closed it; its client has.
    is_closed: bool,
    is_left: bool,
    /// Its node is: nobody says why.
    is_lost: bool,
}

/// A match that runs, and where.
pub(crate) struct Owned {
    pub(crate) thread: u16,
    pub(crate) is_running: bool,
}

/// All of it.
pub(crate) struct World {
    pub(crate) profile: Profile,
    pub(crate) store: Store,
    settings: Arc<Settings>,
    nodes: Vec<Node>,
    /// By the nodes from which and to which.
    links: RefCell<BTreeMap<(usize, usize), VecDeque<Carried>>>,
    random: RefCell<Random>,
    threads: Vec<Thread>,
    now: Cell<Now>,
    conns: RefCell<BTreeMap<Client, Conn>>,
    /// Slots to be taken again, by core, and how many there are.
    free: RefCell<Vec<Client>>,
    slots: Cell<u32>,
    /// The threads that run just now, each from within the one before.
    running: RefCell<Vec<u16>>,
    is_healed: Cell<bool>,
    /// Whether nothing is on its way from before it was healed.
    pub(crate) is_settled: Cell<bool>,
    /// A call in the batch has used up its slice, and is to be undone.
    pub(crate) is_slice_over: Cell<bool>,
    /// Whether some connection may write to the database.
    pub(crate) is_db_locked: Cell<bool>,
    /// Authoritative matches that run.
    pub(crate) matches: RefCell<BTreeMap<String, Owned>>,
    /// Kinds of mail that were refused.
    refused_kinds: RefCell<BTreeSet<&'static str>>,
    pub(crate) happened: Cell<Happened>,
    /// What guests ask other servers.
    pub(crate) network: Network,
    /// What has happened, if somebody wants to know.
    pub(crate) told: RefCell<Vec<String>>,
}

impl World {
    pub(crate) fn new(seed: u64, profile: Profile) -> Rc<Self> {
        let mut settings = settings();
        profile.tune(&mut settings);
        let (settings, store) = (Arc::new(settings), Store::open_in_memory().unwrap());
        let (mut nodes, mut threads) = (Vec::new(), Vec::new());
        for (index, name) in NAMES.into_iter().enumerate().take(usize::from(profile.nodes)) {
            let topology = topology(&profile, index, 1);
            let base = u16::try_from(threads.len()).unwrap();
            let last = topology.gate().map(ThreadId::from).or(topology.everybody().last());
            threads.extend((0..=last.unwrap().0).map(|_| thread()));
            let stats = RefCell::new(Stats::new(&profile, &topology));
            let (topology, life) = (RefCell::new(topology), Cell::new(1));
            nodes.push(Node { name, base, topology, stats, life, is_alive: Cell::new(true) });
        }
        let world = Rc::new(Self {
            profile,
            store,
            settings,
            nodes,
            links: RefCell::default(),
            random: RefCell::new(Random::from_number(seed)),
            threads,
            now: Cell::new(Now { mono_ns: 0, unix_ms: UNIX_MS }),
            conns: RefCell::default(),
            free: RefCell::default(),
            slots: Cell::new(0),
            running: RefCell::default(),
            is_healed: Cell::new(false),
            is_settled: Cell::new(false),
            is_slice_over: Cell::new(false),
            is_db_locked: Cell::new(false),
            matches: RefCell::default(),
            refused_kinds: RefCell::default(),
            happened: Cell::default(),
            network: Network::default(),
            told: RefCell::default(),
        });
        WORLD.with_borrow_mut(|current| *current = Rc::downgrade(&world));
        (0..world.nodes.len()).for_each(|index| world.start(index));
        if let [one, other] = &world.nodes[..] {
            world.let_know(0, other);
            world.let_know(1, one);
        }
        world
    }

    /// How many nodes live.
    pub(crate) fn living(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_alive.get()).count()
    }

    pub(crate) fn now(&self) -> Now {
        self.now.get()
    }

    pub(crate) fn below(&self, end: u32) -> u32 {
        self.random.borrow_mut().below(end)
    }

    /// Whether it happens, once in `times`.
    pub(crate) fn once_in(&self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// Whether something goes wrong, once in `times`; never if that is 0, nor in a healed world.
    pub(crate) fn fails(&self, times: u32) -> bool {
        times > 0 && !self.is_healed.get() && self.once_in(times)
    }

    pub(crate) fn is_broken(&self, how: Broken, times: u32) -> bool {
        self.profile.broken == Some(how) && self.once_in(times)
    }

    pub(crate) fn heal(&self) {
        self.is_healed.set(true);
        self.threads.iter().for_each(|thread| thread.full_until_ns.set(0));
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.is_healed.get()
    }

    /// Everybody looks into his mailbox, though nothing in it is urgent.
    pub(crate) fn wake_all(&self) {
        self.threads.iter().for_each(|thread| thread.is_awake.set(true));
    }

    pub(crate) fn count(&self, up: impl FnOnce(&mut Happened)) {
        let mut happened = self.happened.get();
        up(&mut happened);
        self.happened.set(happened);
    }

    pub(crate) fn tell(&self, what: Arguments<'_>) {
        if !self.profile.is_loud && !self.profile.is_recorded {
            return;
        }
        let us = self.now.get().mono_ns / 1_000;
        let depth = self.running.borrow().len();
        let line = format!("{us:>9} µs {:depth$}{what}", "");
        if self.profile.is_loud {
            eprintln!("{line}");
        }
        self.told.borrow_mut().push(line);
    }

    /// The thread that runs just now.
    pub(crate) fn current(&self) -> u16 {
        *self.running.borrow().last().unwrap()
    }

    pub(crate) fn was_refused(&self, kind: &str) -> bool {
        self.refused_kinds.borrow().contains(kind)
    }

    /// A counter by name, of all threads that have it.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let of = |samples: Vec<Sample>| -> u64 {
            samples.iter().filter(|sample| sample.name == name).map(|sample| sample.value).sum()
        };
        let of_node = |node: &Node| {
            let Stats { cores, rooms, workers, lister, loader, gate } = &*node.stats.borrow();
            cores.iter().map(|stats| of(stats.samples())).sum::<u64>()
                + rooms.iter().map(|stats| of(stats.samples())).sum::<u64>()
                + workers.iter().map(|stats| of(stats.samples())).sum::<u64>()
                + of(lister.samples())
                + of(loader.samples())
                + of(gate.samples())
        };
        self.nodes.iter().map(of_node).sum()
    }

    /// How much mail lies about.
    pub(crate) fn mails(&self) -> usize {
        let of = |thread: &Thread| thread.mail.borrow().len() + thread.refused.borrow().len();
        self.threads.iter().map(of).sum::<usize>()
            + self.links.borrow().values().map(VecDeque::len).sum::<usize>()
    }
}

/// Mail.
impl World {
    /// The node of a thread.
    fn node_of(&self, id: u16) -> &Node {
        self.nodes.iter().rfind(|node| node.base <= id).unwrap()
    }

    /// `to` is a thread of the node of `from`.
    fn post(&self, from: u16, to: ThreadId, mail: Mail, urgency: Urgency) -> Result<(), Mail> {
        let to = self.misrouted(from, to);
        let receiver = &self.threads[usize::from(self.node_of(from).base + to.0)];
        let sender = &self.threads[usize::from(from)];
        let is_behind = sender.refused.borrow().iter().any(|(other, _)| *other == to);
        let waiting = receiver.mail.borrow().len();
        let is_full = self.now.get().mono_ns < receiver.full_until_ns.get()
            || waiting >= self.profile.mail_max;
        if is_behind || is_full {
            self.tell(format_args!("{from} → {}: {} refused", to.0, mail.kind()));
            self.count(|happened| happened.refused += 1);
            self.refused_kinds.borrow_mut().insert(mail.kind());
            // Whose mailbox is full has something to do.
            receiver.is_awake.set(true);
            return Err(mail);
        }
        self.tell(format_args!("{from} → {}: {}", to.0, mail.kind()));
        receiver.mail.borrow_mut().push_back(mail);
        if urgency == Urgency::Wake || (waiting + 1) * 4 >= self.profile.mail_max {
            receiver.is_awake.set(true);
        }
        Ok(())
    }

    fn post_or_refuse(&self, from: u16, to: ThreadId, mail: Mail, urgency: Urgency) {
        let Some(mail) = self.misplaced(from, to, mail) else { return };
        let mail = self.said_again((from, to), mail, urgency);
        if let Err(mail) = self.post(from, to, mail, urgency)
            && !self.is_broken(Broken::DropsRefused, 2)
        {
            self.threads[usize::from(from)].refused.borrow_mut().push_back((to, mail));
        }
    }

    /// An answer of another server comes, of whichever, or none: the request has failed, or the server says
    /// nothing. Some that are given up are answered all the same.
    fn answer_a_request(&self) {
        if (self.once_in(2) || self.network.len() == 0)
            && let Some(late) = self.network.take_given_up()
        {
            self.count(|happened| happened.fetched_late += 1);
            return drop(self.post_outcome(&late, Ok("too late")));
        }
        let count = self.network.len();
        if count == 0 {
            return;
        }
        let request = self.network.take(self.below(u32::try_from(count).unwrap()) as usize);
        if self.fails(self.profile.silences) {
            self.count(|happened| happened.silences += 1);
            self.tell(format_args!("nobody answers {request:?}"));
            return self.network.silence(request);
        }
        let result = if self.fails(5) { Err("made up") } else { Ok(request.url.as_str()) };
        if self.post_outcome(&request, result).is_err() {
            return self.network.put_back(request);
        }
        self.count(|happened| happened.fetched += 1);
    }

    /// Puts it into the mailbox of who asked, as if he had posted it to himself.
    fn post_outcome(&self, request: &Request, result: Result<&str, &str>) -> Result<(), Mail> {
        let mut of = request.clone();
        if self.is_broken(Broken::MisplacesAnswers, 4) {
            of.ticket = of.ticket.saturating_sub(1);
        }
        let node = &self.nodes[of.node];
        let (to, mail) = of.outcome(&node.topology.borrow(), result);
        self.post(node.base + of.thread.0, to, mail, Urgency::Wake)
    }

    /// In a world that is broken so, an answer goes to another call than the one that waits for it, or
    /// to none; and a match does not hear of what was done for it.
    fn misplaced(&self, from: u16, to: ThreadId, mail: Mail) -> Option<Mail> {
        let topology = self.node_of(from).topology.borrow();
        let is_room = topology.rooms.iter().any(|room| room.thread() == to);
        if is_room && mail.kind() == "nodes" && self.profile.broken == Some(Broken::KeepsTheGone) {
            // From the first loss on no room hears of nodes any more.
            return (self.happened.get().nodes_lost == 0).then_some(mail);
        }
        if is_room && mail.kind() == "returned" && self.is_broken(Broken::ForgetsMatches, 4) {
            return None;
        }
        let mut callers = topology.callers.iter();
        let caller =
            callers.find(|caller| caller.thread() == to).filter(|_| mail.kind() == "answer");
        let Some(caller) = caller else { return Some(mail) };
        if self.is_broken(Broken::ForgetsCalls, 4) {
            return None;
        }
        if !self.is_broken(Broken::MisplacesAnswers, 4) {
            return Some(mail);
        }
        Some(match caller.open(mail) {
            CallerMail::News(News::Answer { node, request, outcome }) => {
                let request = request.saturating_sub(1);
                caller.seal(&topology, CallerMail::News(News::Answer { node, request, outcome })).1
            }
            other => caller.seal(&topology, other).1,
        })
    }

    /// In a world that is broken so, what calls in the batch say is said again, as it would be if a call
    /// that was undone had been heard.
    fn said_again(&self, (from, to): (u16, ThreadId), mail: Mail, urgency: Urgency) -> Mail {
        let node = self.node_of(from);
        let topology = node.topology.borrow();
        let is_batcher = from == node.base + topology.batcher.thread().0;
        let room = topology.rooms.iter().find(|room| room.thread() == to);
        let room = room.filter(|_| is_batcher && mail.kind() == "streams");
        let Some(room) = room.filter(|_| self.is_broken(Broken::TellsUndone, 2)) else {
            return mail;
        };
        let mail = room.open(mail);
        let bytes = postcard::to_allocvec(&mail).unwrap();
        let again = room.seal(&topology, postcard::from_bytes(&bytes).unwrap()).1;
        let _ = self.post(from, to, again, urgency);
        room.seal(&topology, mail).1
    }

    /// In a world that is broken so, mail for a room goes to another one.
    fn misrouted(&self, from: u16, to: ThreadId) -> ThreadId {
        let topology = self.node_of(from).topology.borrow();
        let rooms = &topology.rooms;
        let index = rooms.iter().position(|room| room.thread() == to);
        match index {
            Some(index) if self.is_broken(Broken::Misroutes, 20) => {
                rooms[(index + 1) % rooms.len()].thread()
            }
            _ => to,
        }
    }

    /// Somebody's mailbox is full for a while.
    pub(crate) fn fill_a_mailbox(&self) {
        let index = self.below(u32::try_from(self.threads.len()).unwrap());
        let until_ns = self.now.get().mono_ns + u64::from(self.below(6_000)) * 1_000;
        self.threads[index as usize].full_until_ns.set(until_ns);
        self.tell(format_args!("the mailbox of {index} is full until {} µs", until_ns / 1_000));
    }
}

/// Turns, and the time.
impl World {
    /// Gives a thread one input and does what it asks for.
    fn handle(&self, id: u16, input: Input<'_, Mail>) {
        let thread = &self.threads[usize::from(id)];
        let mut out = Output::default();
        let mut handler = thread.handler.borrow_mut().take().unwrap();
        self.running.borrow_mut().push(id);
        handler.handle(self.now.get(), input, &mut out);
        self.running.borrow_mut().pop();
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
        match op {
            Op::Send { conn, range } => self.sends(Client { core: id, conn }, &arena[range]),
            Op::SendShared { conn, bytes } | Op::OfferShared { conn, bytes } => {
                self.sends(Client { core: id, conn }, &bytes);
            }
            Op::Close { conn } | Op::Abort { conn } => {
                let mut conns = self.conns.borrow_mut();
                let Some(closed) = conns.get_mut(&Client { core: id, conn }) else { return };
                if !closed.is_closed && !closed.is_left {
                    let told = (conn, Some(CloseReason::Asked));
                    self.threads[usize::from(id)].put_off.borrow_mut().push_back(told);
                }
                closed.is_closed = true;
            }
            Op::TellWhenSent { conn } => {
                self.threads[usize::from(id)].put_off.borrow_mut().push_back((conn, None));
            }
            Op::Mail { to, mail, urgency } => self.post_or_refuse(id, to, mail, urgency),
            Op::Stop => panic!("thread {id} stops"),
            // Nothing is ever behind, and nothing coalesces.
            Op::Reading { .. }
            | Op::OutputMax { .. }
            | Op::OutputPatience { .. }
            | Op::Coalesce { .. }
            | Op::SendDatagram { .. }
            | Op::Connect { .. }
            | Op::CancelConnect { .. }
            | Op::StopAccepting => {}
        }
    }

    /// One turn, in the engine's order. Who does not find all of its mail yet hears nothing of its
    /// connections either: what others posted before a client was answered is seen before the
    /// client's next request.
    fn turn(&self, id: u16) {
        let thread = &self.threads[usize::from(id)];
        self.count(|happened| happened.turns += 1);
        let waiting = thread.mail.borrow().len();
        let taken = if waiting > 1 && self.fails(3) { self.part_of(waiting) } else { waiting };
        let mut was_busy = taken > 0;
        for _ in 0..taken {
            let Some(mail) = thread.next_mail() else { break };
            self.handle(id, Input::Mail(mail));
        }
        let events = thread.events.borrow().len();
        let events = if taken < waiting {
            0
        } else if events > 1 && self.fails(4) {
            self.part_of(events)
        } else {
            events
        };
        for _ in 0..events {
            was_busy = true;
            let Some((conn, event)) = thread.events.borrow_mut().pop_front() else { break };
            self.kernel_tells(id, conn, event);
        }
        let refused = thread.refused.borrow().len();
        for _ in 0..refused {
            was_busy = true;
            let Some((to, mail)) = thread.refused.borrow_mut().pop_front() else { break };
            self.handle(id, Input::Refused { to, mail });
        }
        was_busy |= self.tell_put_off(id);
        if thread.wake_ns.get().is_some_and(|due_ns| due_ns <= self.now.get().mono_ns) {
            was_busy = true;
            thread.wake_ns.set(None);
            self.handle(id, Input::Wake);
        }
        if was_busy {
            self.handle(id, Input::TurnEnd);
        }
        let has_mail = !thread.mail.borrow().is_empty();
        thread.is_awake.set(has_mail);
    }

    /// At least one, and at most all.
    fn part_of(&self, all: usize) -> usize {
        1 + self.below(u32::try_from(all).unwrap()) as usize
    }

    fn kernel_tells(&self, id: u16, conn: ConnId, event: Event) {
        let is_closed =
            self.conns.borrow().get(&Client { core: id, conn }).is_none_or(|conn| conn.is_closed);
        match event {
            Event::Opened => {
                let peer = ([127, 0, 0, 1], 5_000).into();
                self.handle(id, Input::Opened { conn, listener: ListenerId(0), peer });
            }
            // Nobody is told what comes after the end.
            Event::Bytes(_) | Event::Eof if is_closed => {}
            Event::Bytes(mut bytes) => self.handle(id, Input::Bytes { conn, bytes: &mut bytes }),
            Event::Eof => self.handle(id, Input::Eof { conn }),
        }
    }

    fn tell_put_off(&self, id: u16) -> bool {
        let thread = &self.threads[usize::from(id)];
        let mut was_busy = false;
        let all = std::mem::take(&mut *thread.put_off.borrow_mut());
        for (conn, reason) in all {
            let client = Client { core: id, conn };
            if !self.conns.borrow().contains_key(&client) {
                continue;
            }
            if thread.events.borrow().iter().any(|(other, _)| *other == conn) {
                thread.put_off.borrow_mut().push_back((conn, reason));
                continue;
            }
            was_busy = true;
            let Some(reason) = reason else {
                self.handle(id, Input::Sent { conn });
                continue;
            };
            self.handle(id, Input::Closed { conn, reason });
            let is_left = {
                let mut conns = self.conns.borrow_mut();
                let gone = conns.get_mut(&client).unwrap();
                gone.is_closed = true;
                gone.is_left
            };
            // What a client has not read yet it may still read.
            if is_left {
                self.conns.borrow_mut().remove(&client);
            }
            let next = ConnId { generation: conn.generation + 1, ..conn };
            self.free.borrow_mut().push(Client { core: id, conn: next });
        }
        was_busy
    }

    fn is_runnable(&self, thread: &Thread) -> bool {
        let is_due = thread.wake_ns.get().is_some_and(|due_ns| due_ns <= self.now.get().mono_ns);
        let has_mail = !thread.mail.borrow().is_empty();
        thread.handler.borrow().is_some()
            && (is_due
                || thread.is_awake.get() && has_mail
                || !thread.events.borrow().is_empty()
                || !thread.refused.borrow().is_empty()
                || !thread.put_off.borrow().is_empty())
    }

    /// A turn of one of those who have something to do; `false` if nobody has.
    pub(crate) fn run_somebody(&self) -> bool {
        let ids = (0_u16..).zip(&self.threads);
        let ready: Vec<u16> =
            ids.filter(|(_, thread)| self.is_runnable(thread)).map(|(id, _)| id).collect();
        // What is between nodes comes when it comes.
        let is_carried = !self.links.borrow().is_empty() && (ready.is_empty() || self.once_in(4));
        if is_carried && self.carry() {
            return true;
        }
        let has_requests = self.network.len() > 0 || self.network.given_up() > 0;
        let count = u32::try_from(ready.len()).unwrap() + u32::from(has_requests);
        if count == 0 {
            return false;
        }
        match ready.get(self.below(count) as usize) {
            Some(id) => self.turn(*id),
            None => self.answer_a_request(),
        }
        true
    }

    pub(crate) fn pass(&self, ns: u64) {
        let Now { mono_ns, .. } = self.now.get();
        let mono_ns = mono_ns + ns;
        self.now.set(Now { mono_ns, unix_ms: UNIX_MS + mono_ns / 1_000_000 });
    }

    /// Lets time pass to the next wake-up; `false` if there is none until then.
    pub(crate) fn pass_to_wake(&self, until_ns: u64) -> bool {
        let idle = self.threads.iter().filter(|thread| thread.handler.borrow().is_some());
        let next = idle.filter_map(|thread| thread.wake_ns.get()).min();
        let Some(due_ns) = next.filter(|due_ns| *due_ns <= until_ns) else { return false };
        self.pass(due_ns.saturating_sub(self.now.get().mono_ns));
        true
    }

    /// The thread that runs waits for something outside, and the others go on.
    pub(crate) fn stall(&self) {
        if self.is_healed.get() {
            return;
        }
        let is_deep = self.running.borrow().len() >= DEPTH_MAX;
        for _ in 0..self.below(12) {
            if self.once_in(4) {
                self.pass(u64::from(self.below(4_000)) * 1_000);
            } else if !is_deep {
                self.run_somebody();
            }
        }
    }
}

/// Connections, from the clients' side.
impl World {
    fn sends(&self, to: Client, bytes: &[u8]) {
        let mut conns = self.conns.borrow_mut();
        let Some(conn) = conns.get_mut(&to) else { return };
        if conn.is_closed || conn.is_left {
            return;
        }
        let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
        if self.profile.broken == Some(Broken::HidesPresences)
            && has(b"stream_presence_event")
            && self.once_in(4)
        {
            return;
        }
        conn.sent.extend_from_slice(bytes);
        if self.is_broken(Broken::AnswersTwice, 30) {
            conn.sent.extend_from_slice(bytes);
        }
    }

    fn kernel_event(&self, client: Client, event: Event) {
        if self.is_lost(client) {
            return;
        }
        let thread = &self.threads[usize::from(client.core)];
        thread.events.borrow_mut().push_back((client.conn, event));
    }

    /// A client connects to some core.
    pub(crate) fn connect(&self) -> Client {
        let alive: Vec<&Node> = self.nodes.iter().filter(|node| node.is_alive.get()).collect();
        let node = match alive.len() {
            1 => alive[0],
            count => alive[self.below(u32::try_from(count).unwrap()) as usize],
        };
        let core = u16::try_from(self.below(u32::from(self.profile.cores))).unwrap();
        let core = node.base + core;
        let mut free = self.free.borrow_mut();
        let client = match free.iter().position(|client| client.core == core) {
            Some(index) => free.swap_remove(index),
            None => {
                let slot = self.slots.replace(self.slots.get() + 1);
                Client { core, conn: ConnId { slot, generation: 0 } }
            }
        };
        self.conns.borrow_mut().insert(client, Conn::default());
        self.kernel_event(client, Event::Opened);
        client
    }

    /// A client sends, in one piece or in two.
    pub(crate) fn send(&self, client: Client, bytes: &[u8]) {
        if bytes.len() > 1 && self.once_in(5) {
            let (head, tail) = bytes.split_at(self.part_of(bytes.len() - 1));
            self.kernel_event(client, Event::Bytes(head.to_vec()));
            return self.kernel_event(client, Event::Bytes(tail.to_vec()));
        }
        self.kernel_event(client, Event::Bytes(bytes.to_vec()));
    }

    /// What was sent to a client since the last look.
    pub(crate) fn take(&self, client: Client) -> Vec<u8> {
        let mut conns = self.conns.borrow_mut();
        conns.get_mut(&client).map(|conn| std::mem::take(&mut conn.sent)).unwrap_or_default()
    }

    /// Whether the server has closed it.
    pub(crate) fn is_closed(&self, client: Client) -> bool {
        self.conns.borrow().get(&client).is_none_or(|conn| conn.is_closed)
    }

    /// Whether its node is gone: then nobody has said anything.
    pub(crate) fn is_lost(&self, client: Client) -> bool {
        self.conns.borrow().get(&client).is_some_and(|conn| conn.is_lost)
    }

    /// A client sends no more, and waits for the end.
    pub(crate) fn eof(&self, client: Client) {
        self.kernel_event(client, Event::Eof);
    }

    /// A client is gone. If the server has closed already, it has been told, or will be.
    pub(crate) fn leave(&self, client: Client) {
        let mut conns = self.conns.borrow_mut();
        let Some(conn) = conns.get_mut(&client) else { return };
        conn.is_left = true;
        if conn.is_closed {
            let thread = &self.threads[usize::from(client.core)];
            let told =
                thread.put_off.borrow().iter().any(|(id, why)| *id == client.conn && why.is_some());
            if !told {
                conns.remove(&client);
            }
            return;
        }
        conn.is_closed = true;
        if !self.is_broken(Broken::HidesLeavers, 2) {
            let told = (client.conn, Some(CloseReason::Reset));
            self.threads[usize::from(client.core)].put_off.borrow_mut().push_back(told);
        }
    }
}

/// How long calls take: as long as others ran meanwhile.
#[derive(Default)]
struct Clock(Now);

impl CallClock for Clock {
    fn begin(&mut self) {
        self.0 = world().now();
    }

    fn spent(&mut self) -> CallTime {
        let kept_ms = u32::try_from(world().now().ms_since(self.0)).unwrap();
        CallTime { kept_us: kept_ms * 1_000, computed_us: 0 }
    }
}

fn thread() -> Thread {
    Thread {
        handler: RefCell::new(None),
        mail: RefCell::default(),
        refused: RefCell::default(),
        events: RefCell::default(),
        put_off: RefCell::default(),
        wake_ns: Cell::new(None),
        is_awake: Cell::new(false),
        full_until_ns: Cell::new(0),
    }
}
