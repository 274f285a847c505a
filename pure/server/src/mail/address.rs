//! Who is who, and how mail gets to whom it is meant for. An [`Address`] names a thread together
//! with the type of mail that its kind takes; mail is sealed into the one type that the engine
//! carries, [`Mail`], with its address only, and opened in the handler of that kind. So mail of
//! another kind does not compile, and no handler has a case for mail that is not its own.
//!
//! An address names a node too, and means the same on all of them. Mail to a thread of another node is
//! handed to this node's gate, sealed and as it is: only there it is written as bytes.
//!
//! Addresses are made in one place, [`Topology::new`]; the wiring starts each thread under its own.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

use event::{ConnId, Output, Random, ThreadId};
use game::match_id::MatchId;
use game::node::{Incarnation, NodeId, Nodes};
use game::stream::StreamId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;
use world::Saved;

use super::{
    Asker, BatcherMail, CallerMail, CoreMail, EventsMail, Fetched, GateMail, HasherMail, Job,
    ListerMail, LoaderMail, News, Parcel, RoomMail, RoomRequest, ZoneMail,
};

/// A thread of some node that takes mail of type `M`.
///
/// ```
/// use server::mail::{CoreMail, RoomMail, Topology};
/// let topology = Topology::new(1, 1, 1);
/// topology.cores[0].seal(&topology, CoreMail::WakeUp);
/// ```
///
/// What is meant for a core cannot be posted to a room:
///
/// ```compile_fail
/// use server::mail::{CoreMail, RoomMail, Topology};
/// let topology = Topology::new(1, 1, 1);
/// topology.rooms[0].seal(&topology, CoreMail::WakeUp);
/// ```
pub struct Address<M> {
    node: NodeId,
    thread: ThreadId,
    mail: PhantomData<fn(M)>,
}

impl<M> Address<M> {
    fn new(node: NodeId, thread: u16) -> Self {
        Self { node, thread: ThreadId(thread), mail: PhantomData }
    }

    /// The number that the engine of its node has for the thread.
    #[must_use]
    pub fn thread(self) -> ThreadId {
        self.thread
    }

    /// The node.
    #[must_use]
    pub fn node(self) -> NodeId {
        self.node
    }
}

impl<M: ThreadMail> Address<M> {
    /// Mail to this thread as the engine carries it, and where it goes: to the thread, or to the gate
    /// of the node that `topology` is of, if the thread is of another one.
    #[must_use]
    pub fn seal(self, topology: &Topology, mail: M) -> (ThreadId, Mail) {
        if self.node == topology.here {
            return (self.thread, mail.seal());
        }
        let Self { node, thread, .. } = self;
        topology.gate.thread_and(GateMail::Parcel(Box::new(Parcel {
            node,
            thread,
            mail: mail.seal(),
        })))
    }

    /// What was posted to this thread, as mail of its kind.
    ///
    /// # Panics
    /// When the wiring has started another kind of thread under this address.
    #[must_use]
    pub fn open(self, mail: Mail) -> M {
        match M::open(mail) {
            Ok(mail) => mail,
            Err(other) => panic!(
                "thread {} was started under another kind's address: it was posted {}",
                self.thread.0,
                other.kind()
            ),
        }
    }
}

// Derived, they would ask the same of the type of mail.
impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Address<M> {}

impl<M> PartialEq for Address<M> {
    fn eq(&self, other: &Self) -> bool {
        (self.node, self.thread) == (other.node, other.thread)
    }
}

impl<M> Eq for Address<M> {}

impl<M> PartialOrd for Address<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Address<M> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.node, self.thread).cmp(&(other.node, other.thread))
    }
}

impl<M> fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.node, self.thread).fmt(f)
    }
}

impl<M> Serialize for Address<M> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.node, self.thread.0).serialize(to)
    }
}

impl<'de, M> Deserialize<'de> for Address<M> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <(NodeId, u16)>::deserialize(from).map(|(node, thread)| Self::new(node, thread))
    }
}

impl<M> From<Address<M>> for ThreadId {
    fn from(address: Address<M>) -> Self {
        address.thread
    }
}

/// Where a session's socket is: enough to send to it from any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionAddress {
    /// The core that owns the socket.
    pub core: Address<CoreMail>,
    /// The connection on that core.
    #[serde(with = "conn")]
    pub conn: ConnId,
}

/// Connections as numbers.
pub(super) mod conn {
    use event::ConnId;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(in crate::mail) fn serialize<S: Serializer>(
        conn: &ConnId,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        (conn.slot, conn.generation).serialize(to)
    }

    pub(in crate::mail) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<ConnId, D::Error> {
        let (slot, generation) = <(u32, u32)>::deserialize(from)?;
        Ok(ConnId { slot, generation })
    }
}

/// A worker of any kind, for what all of them take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerAddress {
    /// [`Topology::batcher`].
    Batcher(Address<BatcherMail>),
    /// One of [`Topology::callers`] or [`Topology::companions`].
    Caller(Address<CallerMail>),
    /// [`Topology::hasher`].
    Hasher(Address<HasherMail>),
    /// [`Topology::events`].
    Events(Address<EventsMail>),
}

impl WorkerAddress {
    /// The number that the engine of its node has for the thread.
    #[must_use]
    pub fn thread(self) -> ThreadId {
        match self {
            Self::Batcher(to) => to.thread,
            Self::Caller(to) => to.thread,
            Self::Hasher(to) => to.thread,
            Self::Events(to) => to.thread,
        }
    }

    /// The node.
    #[must_use]
    pub fn node(self) -> NodeId {
        match self {
            Self::Batcher(to) => to.node,
            Self::Caller(to) => to.node,
            Self::Hasher(to) => to.node,
            Self::Events(to) => to.node,
        }
    }

    /// As [`Address::seal`].
    #[must_use]
    pub fn seal(self, topology: &Topology, news: News) -> (ThreadId, Mail) {
        match self {
            Self::Batcher(to) => to.seal(topology, BatcherMail::News(news)),
            Self::Caller(to) => to.seal(topology, CallerMail::News(news)),
            Self::Hasher(to) => to.seal(topology, HasherMail::News(news)),
            Self::Events(to) => to.seal(topology, EventsMail::News(news)),
        }
    }
}

/// How many threads with sockets, and how many rooms, another node has: all of it that mail is posted to
/// without having come from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Threads with sockets, numbered from 0.
    pub cores: u16,
    /// Rooms, numbered behind them; at least one.
    pub rooms: u16,
}

/// Where mail to other nodes goes.
#[derive(Clone, Copy, Debug)]
struct Gate(Address<GateMail>);

impl Gate {
    fn thread_and(self, mail: GateMail) -> (ThreadId, Mail) {
        (self.0.thread, mail.seal())
    }
}

/// Which threads this node has, and which nodes there are beside it. The same on every thread. The
/// threads are fixed at start; when a node comes or goes, the gate mails every thread a new one.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The cluster's nodes, and which of them this is.
    pub nodes: Nodes,
    here: NodeId,
    gate: Gate,
    /// By the node's number; nothing of this node, and of those that are away.
    peers: Vec<Option<Peer>>,
    /// Threads with sockets.
    pub cores: Vec<Address<CoreMail>>,
    /// This node's threads with matches and presences; at least one.
    pub rooms: Vec<Address<RoomMail>>,
    /// The thread that lists matches.
    pub lister: Address<ListerMail>,
    /// The thread that answers API calls in database batches.
    pub batcher: Address<BatcherMail>,
    /// Threads that run RPC functions and hooks.
    pub callers: Vec<Address<CallerMail>>,
    /// For each core the caller that shares its thread, for functions that are known to be quick; none
    /// at all, if calls are run on threads of their own.
    pub companions: Vec<Address<CallerMail>>,
    /// The thread that hashes passwords.
    pub hasher: Address<HasherMail>,
    /// The thread that runs the handlers of events; none, if the scripts have none.
    pub events: Option<Address<EventsMail>>,
    /// The thread that loads modules again; none where nobody does.
    pub loader: Option<Address<LoaderMail>>,
}

impl Topology {
    /// So many cores, rooms and callers, and one of each other kind but companions and that of events.
    /// Threads are numbered from 0 in this order: cores, rooms, lister, workers.
    ///
    /// # Panics
    /// Without rooms, or when the numbers do not suffice.
    #[must_use]
    pub fn new(cores: u16, rooms: u16, callers: u16) -> Self {
        Self::of_node(Nodes::default(), (cores, rooms, callers))
    }

    /// The same of a node of a cluster.
    ///
    /// # Panics
    /// As [`Self::new`].
    #[must_use]
    pub fn of_node(nodes: Nodes, threads: (u16, u16, u16)) -> Self {
        Self::numbered(nodes, threads, 0)
    }

    /// The same where each core has a companion, numbered behind the callers.
    ///
    /// # Panics
    /// As [`Self::new`].
    #[must_use]
    pub fn with_companions(nodes: Nodes, threads: (u16, u16, u16)) -> Self {
        Self::numbered(nodes, threads, threads.0)
    }

    fn numbered(nodes: Nodes, (cores, rooms, callers): (u16, u16, u16), companions: u16) -> Self {
        assert!(rooms > 0, "a match has to live somewhere");
        let lister = cores + rooms;
        let batcher = lister + 1;
        let first_companion = batcher + 1 + callers;
        let hasher = first_companion + companions;
        let here = nodes.here();
        Self {
            cores: (0..cores).map(|core| Address::new(here, core)).collect(),
            rooms: (cores..lister).map(|room| Address::new(here, room)).collect(),
            lister: Address::new(here, lister),
            batcher: Address::new(here, batcher),
            callers: (batcher + 1..first_companion).map(|to| Address::new(here, to)).collect(),
            companions: (first_companion..hasher).map(|to| Address::new(here, to)).collect(),
            hasher: Address::new(here, hasher),
            events: None,
            loader: None,
            // Behind the thread of events and the loader, whether they are there or not.
            gate: Gate(Address::new(here, hasher + 3)),
            peers: vec![None; nodes.all().count()],
            here,
            nodes,
        }
    }

    /// The same with a thread that loads modules again, behind all others.
    #[must_use]
    pub fn with_loader(&self) -> Self {
        let last = self.events.map_or(self.hasher.thread, Address::thread);
        Self { loader: Some(Address::new(self.here, last.0 + 1)), ..self.clone() }
    }

    /// The same with a thread for the handlers of events, behind all workers.
    ///
    /// # Panics
    /// There is a loader, which has that number.
    #[must_use]
    pub fn with_events(&self) -> Self {
        assert!(self.loader.is_none(), "the thread of events is numbered before the loader");
        let events = Some(Address::new(self.here, self.hasher.thread.0 + 1));
        Self { events, ..self.clone() }
    }

    /// The same after a node has come in a new incarnation, with these threads, or has gone.
    /// `None` if that is no news ([`Nodes::set`]).
    #[must_use]
    pub fn with_node(&self, node: NodeId, life: Incarnation, peer: Option<Peer>) -> Option<Self> {
        let mut topology = self.clone();
        let life = if peer.is_some_and(|peer| peer.rooms > 0) { life } else { Incarnation(0) };
        if !topology.nodes.set(node, life) {
            return None;
        }
        topology.peers[usize::from(node.number())] = peer.filter(|_| life != Incarnation(0));
        Some(topology)
    }

    /// The core whose thread a worker shares, if it does.
    #[must_use]
    pub fn core_of(&self, worker: WorkerAddress) -> Option<Address<CoreMail>> {
        let WorkerAddress::Caller(me) = worker else { return None };
        let index = self.companions.iter().position(|companion| *companion == me)?;
        self.cores.get(index).copied()
    }

    /// The companion of a core.
    pub(crate) fn companion_of(&self, core: Address<CoreMail>) -> Option<Address<CallerMail>> {
        let index = self.cores.iter().position(|other| *other == core)?;
        self.companions.get(index).copied()
    }

    /// What other nodes have to know of this one's threads.
    #[must_use]
    pub fn as_peer(&self) -> Peer {
        let count = |threads: usize| u16::try_from(threads).unwrap_or(u16::MAX);
        Peer { cores: count(self.cores.len()), rooms: count(self.rooms.len()) }
    }

    /// Whether a thread is one of this node's.
    #[must_use]
    pub fn is_here<M>(&self, address: Address<M>) -> bool {
        address.node == self.here
    }

    /// Whether that is a core, of this node or of another one that lives.
    #[must_use]
    pub fn is_core(&self, address: Address<CoreMail>) -> bool {
        if self.is_here(address) {
            return self.cores.contains(&address);
        }
        self.peer(address.node).is_some_and(|peer| address.thread.0 < peer.cores)
    }

    /// Whether mail may reach a thread: whether its node lives.
    #[must_use]
    pub fn is_reachable<M>(&self, address: Address<M>) -> bool {
        self.is_here(address) || self.nodes.is_living(address.node)
    }

    /// The gate, if there are other nodes.
    #[must_use]
    pub fn gate(&self) -> Option<Address<GateMail>> {
        (!self.nodes.is_alone()).then_some(self.gate.0)
    }

    /// The room on which the group with this id lives, on whichever node. That of a node that is away
    /// is where it would live: no home moves because a node goes or comes.
    #[must_use]
    pub fn room_of(&self, id: Uuid) -> Address<RoomMail> {
        if self.nodes.is_alone() { self.room_here(id) } else { self.room_at(self.home_of(id), id) }
    }

    /// The room of a match: on the node that its id names, or, of one that is only relayed, where its id
    /// says.
    #[must_use]
    pub fn room_of_match(&self, id: MatchId) -> Address<RoomMail> {
        id.node.map_or_else(|| self.room_of(id.uuid), |node| self.room_at(node, id.uuid))
    }

    /// The mail that makes the zone stand, and the room that it goes to: the one that the id of the zone's
    /// match leads to. `saved`: what it goes on with. For the wiring, once.
    #[must_use]
    pub fn begin_zone(&self, random: &mut Random, saved: Option<Saved>) -> (ThreadId, Mail) {
        let id = MatchId::fresh(random, self.here);
        let saved = saved.map(Box::new);
        self.room_of_match(id).seal(self, RoomMail::Zone(ZoneMail::Begin { id: id.uuid, saved }))
    }

    /// The room of a stream: that of the match that it is of, or where its name says.
    #[must_use]
    pub fn room_of_stream(&self, stream: &StreamId) -> Address<RoomMail> {
        let home = stream.home();
        let node = stream.node(&self.nodes);
        node.map_or_else(|| self.room_of(home), |node| self.room_at(node, home))
    }

    /// All rooms of all nodes that are not away.
    pub fn all_rooms(&self) -> impl Iterator<Item = Address<RoomMail>> + '_ {
        let others = self.nodes.others().flat_map(|node| self.rooms_at(node));
        self.rooms.iter().copied().chain(others)
    }

    /// The rooms of another node; none of one that is away.
    pub fn rooms_at(&self, node: NodeId) -> impl Iterator<Item = Address<RoomMail>> + use<> {
        let Peer { cores, rooms } = self.peer(node).unwrap_or_default();
        (cores..cores.saturating_add(rooms)).map(move |room| Address::new(node, room))
    }

    fn peer(&self, node: NodeId) -> Option<Peer> {
        let peer = self.peers.get(usize::from(node.number())).copied().flatten();
        peer.filter(|_| self.nodes.is_living(node))
    }

    fn room_here(&self, id: Uuid) -> Address<RoomMail> {
        self.rooms[mixed(id) % self.rooms.len()]
    }

    fn room_at(&self, node: NodeId, id: Uuid) -> Address<RoomMail> {
        if node == self.here {
            return self.room_here(id);
        }
        match self.peer(node) {
            Some(Peer { cores, rooms }) => {
                let index = u16::try_from(mixed(id) % usize::from(rooms)).unwrap_or(0);
                Address::new(node, cores.saturating_add(index))
            }
            // Of a life that has ended: nothing reaches it.
            None => Address::new(node, 0),
        }
    }

    /// By the highest score of all names (rendezvous hashing; Thaler and Ravishankar, 1998), so that
    /// one name more takes its share of each of the others and moves nothing between them.
    fn home_of(&self, id: Uuid) -> NodeId {
        let (high, low) = id.as_u64_pair();
        let score = |node: &NodeId| {
            let name = self.nodes.name_of(*node).bytes();
            // FNV-1a over the name, from where the id has brought it.
            let hash = name.fold(high ^ low.rotate_left(32), |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
        };
        self.nodes.all().max_by_key(score).unwrap_or(self.here)
    }

    /// All workers, by their numbers. They and the rooms have scripts, and so a replica of the cache and one of the
    /// directory.
    pub fn workers(&self) -> impl Iterator<Item = WorkerAddress> + '_ {
        let callers = self.callers.iter().chain(&self.companions);
        let callers = callers.map(|to| WorkerAddress::Caller(*to));
        let last = [WorkerAddress::Hasher(self.hasher)];
        let last = last.into_iter().chain(self.events.map(WorkerAddress::Events));
        [WorkerAddress::Batcher(self.batcher)].into_iter().chain(callers).chain(last)
    }

    /// The numbers of all threads with scripts: rooms, then workers.
    pub fn scripted(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let rooms = self.rooms.iter().map(|room| room.thread);
        rooms.chain(self.workers().map(WorkerAddress::thread))
    }

    /// The thread with scripts under this number; `None` if that is no such thread.
    #[must_use]
    pub fn asker(&self, thread: ThreadId) -> Option<Asker> {
        let rooms = self.rooms.iter().map(|room| (room.thread, Asker::Room(*room)));
        let workers = self.workers().map(|worker| (worker.thread(), Asker::Worker(worker)));
        rooms.chain(workers).find(|(number, _)| *number == thread).map(|(_, asker)| asker)
    }

    /// The numbers of all threads, from 0.
    pub fn everybody(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let cores = self.cores.iter().map(|core| core.thread);
        let rooms = self.rooms.iter().map(|room| room.thread);
        let workers = self.workers().map(WorkerAddress::thread);
        let loader = self.loader.map(Address::thread);
        cores.chain(rooms).chain([self.lister.thread]).chain(workers).chain(loader)
    }
}

/// Every bit of the id counts, because ids of users and matches made by other programs need not be
/// random in any part.
fn mixed(id: Uuid) -> usize {
    let (high, low) = id.as_u64_pair();
    let mixed = (high ^ low.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(mixed).unwrap_or(0)
}

/// The type of mail of one kind of thread.
pub trait ThreadMail: Seal {}

/// Mail that may go to another node, and where to.
#[derive(Debug)]
pub(crate) enum Crossing {
    /// For a core.
    Core(Address<CoreMail>, CoreMail),
    /// For a room.
    Room(Address<RoomMail>, RoomMail),
    /// For a worker.
    Worker(WorkerAddress, News),
}

/// Not to be named elsewhere: without an address nobody seals mail.
mod seal {
    use super::Mail;

    pub trait Seal: Sized {
        fn seal(self) -> Mail;
        fn open(mail: Mail) -> Result<Self, Mail>;
    }
}
use seal::Seal;

/// Mail of any kind, as the engine carries it; made with [`Address::seal`] alone.
#[derive(Debug)]
pub struct Mail(Sealed);

/// One variant for each kind of thread.
macro_rules! kinds_of_threads {
    ($($kind:ident($mail:ty)),* $(,)?) => {
        #[derive(Debug)]
        enum Sealed {
            $($kind($mail),)*
        }

        $(
            impl ThreadMail for $mail {}

            impl Seal for $mail {
                fn seal(self) -> Mail {
                    Mail(Sealed::$kind(self))
                }

                fn open(mail: Mail) -> Result<Self, Mail> {
                    match mail.0 {
                        Sealed::$kind(mail) => Ok(mail),
                        other => Err(Mail(other)),
                    }
                }
            }
        )*

        impl Mail {
            /// What it is, for logs.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match &self.0 {
                    $(Sealed::$kind(mail) => mail.kind(),)*
                }
            }
        }
    };
}

kinds_of_threads! {
    Core(CoreMail),
    Room(RoomMail),
    Batcher(BatcherMail),
    Caller(CallerMail),
    Hasher(HasherMail),
    Events(EventsMail),
    Lister(ListerMail),
    Gate(GateMail),
    Loader(LoaderMail),
}

impl Mail {
    /// What a worker was told besides its work.
    #[cfg(test)]
    pub(crate) fn news(&self) -> Option<&News> {
        match &self.0 {
            Sealed::Batcher(BatcherMail::News(news))
            | Sealed::Caller(CallerMail::News(news))
            | Sealed::Hasher(HasherMail::News(news))
            | Sealed::Events(EventsMail::News(news)) => Some(news),
            Sealed::Batcher(
                BatcherMail::Jobs(_) | BatcherMail::Calls(_) | BatcherMail::Zone(_),
            )
            | Sealed::Caller(CallerMail::Job(_) | CallerMail::Call(_))
            | Sealed::Hasher(HasherMail::Job(_) | HasherMail::Call(_))
            | Sealed::Events(EventsMail::Events(_) | EventsMail::Rule(_))
            | Sealed::Core(_)
            | Sealed::Room(_)
            | Sealed::Lister(_)
            | Sealed::Loader(_)
            | Sealed::Gate(_) => None,
        }
    }

    /// What came of a request to another server, of mail that tells of one.
    #[must_use]
    pub fn into_fetched(self) -> Option<Fetched> {
        match self.0 {
            Sealed::Room(RoomMail::Fetched(fetched))
            | Sealed::Batcher(BatcherMail::News(News::Fetched(fetched)))
            | Sealed::Caller(CallerMail::News(News::Fetched(fetched)))
            | Sealed::Hasher(HasherMail::News(News::Fetched(fetched)))
            | Sealed::Events(EventsMail::News(News::Fetched(fetched))) => Some(*fetched),
            _ => None,
        }
    }

    /// The jobs of a core's mail; the mail as it was, if it is of something else.
    pub(crate) fn into_jobs(self) -> Result<Vec<Job>, Self> {
        match self.0 {
            Sealed::Batcher(BatcherMail::Jobs(jobs)) => Ok(jobs),
            Sealed::Caller(CallerMail::Job(job))
            | Sealed::Hasher(HasherMail::Job(job))
            | Sealed::Lister(ListerMail::Job(job))
            | Sealed::Loader(LoaderMail::Job(job)) => Ok(vec![*job]),
            other => Err(Self(other)),
        }
    }

    /// What sessions want of a room, and which, of mail to thread `to`; the mail as it was, if it is
    /// of something else.
    pub(crate) fn into_requests(
        self,
        to: ThreadId,
        topology: &Topology,
    ) -> Result<(Address<RoomMail>, Vec<RoomRequest>), Self> {
        match self.0 {
            Sealed::Room(RoomMail::Requests(requests)) => {
                Ok((Address::new(topology.here, to.0), requests))
            }
            Sealed::Gate(GateMail::Parcel(parcel)) => match *parcel {
                Parcel { node, thread, mail: Self(Sealed::Room(RoomMail::Requests(requests))) } => {
                    Ok((Address::new(node, thread.0), requests))
                }
                other => Err(Self(Sealed::Gate(GateMail::Parcel(Box::new(other))))),
            },
            other => Err(Self(other)),
        }
    }

    /// What of it may go to a thread of another node.
    ///
    /// # Errors
    /// It stays on its node, as work and news of its threads do; says what it is.
    pub(crate) fn into_crossing(
        self,
        node: NodeId,
        ThreadId(thread): ThreadId,
    ) -> Result<Crossing, &'static str> {
        let kind = self.kind();
        let (to, news) = match self.0 {
            Sealed::Core(
                mail @ (CoreMail::WakeUp | CoreMail::Deliver(_) | CoreMail::Forward(_)),
            ) => return Ok(Crossing::Core(Address::new(node, thread), mail)),
            Sealed::Room(
                mail @ (RoomMail::Requests(_)
                | RoomMail::Signal { .. }
                | RoomMail::TakeBack { .. }
                | RoomMail::Chase { .. }
                | RoomMail::Answer { .. }
                | RoomMail::Notify(_)
                | RoomMail::Streams(_)),
            ) => return Ok(Crossing::Room(Address::new(node, thread), mail)),
            Sealed::Batcher(BatcherMail::News(news @ News::Answer { .. })) => {
                (WorkerAddress::Batcher(Address::new(node, thread)), news)
            }
            Sealed::Caller(CallerMail::News(news @ News::Answer { .. })) => {
                (WorkerAddress::Caller(Address::new(node, thread)), news)
            }
            Sealed::Hasher(HasherMail::News(news @ News::Answer { .. })) => {
                (WorkerAddress::Hasher(Address::new(node, thread)), news)
            }
            Sealed::Events(EventsMail::News(news @ News::Answer { .. })) => {
                (WorkerAddress::Events(Address::new(node, thread)), news)
            }
            _ => return Err(kind),
        };
        Ok(Crossing::Worker(to, news))
    }

    /// Whether it does its work by waking.
    pub(crate) fn is_wake_up(&self) -> bool {
        matches!(self.0, Sealed::Core(CoreMail::WakeUp))
    }
}

/// Posting to an address.
pub(crate) trait Post {
    /// As [`Output::mail`].
    fn post<M: ThreadMail>(&mut self, topology: &Topology, to: Address<M>, mail: M);

    /// As [`Output::mail_lazy`]; the gate wakes for nothing of its own, so it is woken.
    fn post_lazy<M: ThreadMail>(&mut self, topology: &Topology, to: Address<M>, mail: M);
}

impl Post for Output<Mail> {
    fn post<M: ThreadMail>(&mut self, topology: &Topology, to: Address<M>, mail: M) {
        let (to, mail) = to.seal(topology, mail);
        self.mail(to, mail);
    }

    fn post_lazy<M: ThreadMail>(&mut self, topology: &Topology, to: Address<M>, mail: M) {
        let is_here = topology.is_here(to);
        let (to, mail) = to.seal(topology, mail);
        if is_here { self.mail_lazy(to, mail) } else { self.mail(to, mail) }
    }
}

#[cfg(test)]
mod tests;
