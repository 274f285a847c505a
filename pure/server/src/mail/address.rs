//! Who is who, and how mail gets to whom it is meant for. An [`Address`] names a thread together
//! with the type of mail that its kind takes; mail is sealed into the one type that the engine
//! carries, [`Mail`], with its address only, and opened in the handler of that kind. So mail of
//! another kind does not compile, and no handler has a case for mail that is not its own.
//!
//! Addresses are made in one place, [`Topology::new`]; the wiring starts each thread under its own.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

use event::{ConnId, Output, ThreadId};
use uuid::Uuid;

use super::{
    BatcherMail, CallerMail, CoreMail, EventsMail, HasherMail, Job, ListerMail, News, RoomMail,
    RoomRequest,
};

/// A thread that takes mail of type `M`.
///
/// ```
/// use server::mail::{CoreMail, RoomMail, Topology};
/// let topology = Topology::new(1, 1, 1);
/// topology.cores[0].seal(CoreMail::WakeUp);
/// ```
///
/// What is meant for a core cannot be posted to a room:
///
/// ```compile_fail
/// use server::mail::{CoreMail, RoomMail, Topology};
/// let topology = Topology::new(1, 1, 1);
/// topology.rooms[0].seal(CoreMail::WakeUp);
/// ```
pub struct Address<M> {
    thread: ThreadId,
    mail: PhantomData<fn(M)>,
}

impl<M> Address<M> {
    fn new(thread: u16) -> Self {
        Self { thread: ThreadId(thread), mail: PhantomData }
    }

    /// The engine's number of the thread.
    #[must_use]
    pub fn thread(self) -> ThreadId {
        self.thread
    }
}

impl<M: ThreadMail> Address<M> {
    /// Mail to this thread as the engine carries it, and where it goes.
    #[must_use]
    pub fn seal(self, mail: M) -> (ThreadId, Mail) {
        (self.thread, mail.seal())
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
        self.thread == other.thread
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
        self.thread.cmp(&other.thread)
    }
}

impl<M> fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thread.fmt(f)
    }
}

impl<M> From<Address<M>> for ThreadId {
    fn from(address: Address<M>) -> Self {
        address.thread
    }
}

/// Where a session's socket is: enough to send to it from any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionAddress {
    /// The core that owns the socket.
    pub core: Address<CoreMail>,
    /// The connection on that core.
    pub conn: ConnId,
}

/// A worker of any kind, for what all of them take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerAddress {
    /// [`Topology::batcher`].
    Batcher(Address<BatcherMail>),
    /// One of [`Topology::callers`].
    Caller(Address<CallerMail>),
    /// [`Topology::hasher`].
    Hasher(Address<HasherMail>),
    /// [`Topology::events`].
    Events(Address<EventsMail>),
}

impl WorkerAddress {
    /// The engine's number of the thread.
    #[must_use]
    pub fn thread(self) -> ThreadId {
        match self {
            Self::Batcher(to) => to.thread,
            Self::Caller(to) => to.thread,
            Self::Hasher(to) => to.thread,
            Self::Events(to) => to.thread,
        }
    }

    /// As [`Address::seal`].
    #[must_use]
    pub fn seal(self, news: News) -> (ThreadId, Mail) {
        match self {
            Self::Batcher(to) => to.seal(BatcherMail::News(news)),
            Self::Caller(to) => to.seal(CallerMail::News(news)),
            Self::Hasher(to) => to.seal(HasherMail::News(news)),
            Self::Events(to) => to.seal(EventsMail::News(news)),
        }
    }
}

/// Which threads there are. The same on every thread, fixed at start.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Threads with sockets.
    pub cores: Vec<Address<CoreMail>>,
    /// Threads with matches and presences; at least one.
    pub rooms: Vec<Address<RoomMail>>,
    /// The thread that lists matches.
    pub lister: Address<ListerMail>,
    /// The thread that answers API calls in database batches.
    pub batcher: Address<BatcherMail>,
    /// Threads that run RPC functions and hooks.
    pub callers: Vec<Address<CallerMail>>,
    /// The thread that hashes passwords.
    pub hasher: Address<HasherMail>,
    /// The thread that runs the handlers of events; none, if the scripts have none.
    pub events: Option<Address<EventsMail>>,
}

impl Topology {
    /// So many cores, rooms and callers, and one of each other kind but that of events. Threads are
    /// numbered from 0 in this order: cores, rooms, lister, workers.
    ///
    /// # Panics
    /// Without rooms, or when the numbers do not suffice.
    #[must_use]
    pub fn new(cores: u16, rooms: u16, callers: u16) -> Self {
        assert!(rooms > 0, "a match has to live somewhere");
        let lister = cores + rooms;
        let batcher = lister + 1;
        let hasher = batcher + 1 + callers;
        Self {
            cores: (0..cores).map(Address::new).collect(),
            rooms: (cores..lister).map(Address::new).collect(),
            lister: Address::new(lister),
            batcher: Address::new(batcher),
            callers: (batcher + 1..hasher).map(Address::new).collect(),
            hasher: Address::new(hasher),
            events: None,
        }
    }

    /// The same with a thread for the handlers of events, behind all others.
    #[must_use]
    pub fn with_events(&self) -> Self {
        Self { events: Some(Address::new(self.hasher.thread.0 + 1)), ..self.clone() }
    }

    /// The room on which the group with this id lives. Every bit of the id counts, because ids of
    /// users and matches made by other programs need not be random in any part.
    #[must_use]
    pub fn room_of(&self, id: Uuid) -> Address<RoomMail> {
        let (high, low) = id.as_u64_pair();
        let mixed = (high ^ low.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.rooms[usize::try_from(mixed).unwrap_or(0) % self.rooms.len()]
    }

    /// All workers, by their numbers. They and the rooms have scripts, and so a replica of the cache and one of the
    /// directory.
    pub fn workers(&self) -> impl Iterator<Item = WorkerAddress> + '_ {
        let callers = self.callers.iter().map(|to| WorkerAddress::Caller(*to));
        let last = [WorkerAddress::Hasher(self.hasher)];
        let last = last.into_iter().chain(self.events.map(WorkerAddress::Events));
        [WorkerAddress::Batcher(self.batcher)].into_iter().chain(callers).chain(last)
    }

    /// The numbers of all threads with scripts: rooms, then workers.
    pub fn scripted(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let rooms = self.rooms.iter().map(|room| room.thread);
        rooms.chain(self.workers().map(WorkerAddress::thread))
    }

    /// The numbers of all threads, from 0.
    pub fn everybody(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let cores = self.cores.iter().map(|core| core.thread);
        let rooms = self.rooms.iter().map(|room| room.thread);
        let workers = self.workers().map(WorkerAddress::thread);
        cores.chain(rooms).chain([self.lister.thread]).chain(workers)
    }
}

/// The type of mail of one kind of thread.
pub trait ThreadMail: Seal {}

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
}

impl Mail {
    /// The jobs of a core's mail; the mail as it was, if it is of something else.
    pub(crate) fn into_jobs(self) -> Result<Vec<Job>, Self> {
        match self.0 {
            Sealed::Batcher(BatcherMail::Jobs(jobs)) => Ok(jobs),
            Sealed::Caller(CallerMail::Job(job))
            | Sealed::Hasher(HasherMail::Job(job))
            | Sealed::Lister(ListerMail::Job(job)) => Ok(vec![*job]),
            other => Err(Self(other)),
        }
    }

    /// What sessions want of a room, and which, of mail to thread `to`; the mail as it was, if it is
    /// of something else.
    pub(crate) fn into_requests(
        self,
        to: ThreadId,
    ) -> Result<(Address<RoomMail>, Vec<RoomRequest>), Self> {
        match self.0 {
            Sealed::Room(RoomMail::Requests(requests)) => Ok((Address::new(to.0), requests)),
            other => Err(Self(other)),
        }
    }

    /// Whether it does its work by waking.
    pub(crate) fn is_wake_up(&self) -> bool {
        matches!(self.0, Sealed::Core(CoreMail::WakeUp))
    }
}

/// Posting to an address.
pub(crate) trait Post {
    /// As [`Output::mail`].
    fn post<M: ThreadMail>(&mut self, to: Address<M>, mail: M);

    /// As [`Output::mail_lazy`].
    fn post_lazy<M: ThreadMail>(&mut self, to: Address<M>, mail: M);
}

impl Post for Output<Mail> {
    fn post<M: ThreadMail>(&mut self, to: Address<M>, mail: M) {
        let (to, mail) = to.seal(mail);
        self.mail(to, mail);
    }

    fn post_lazy<M: ThreadMail>(&mut self, to: Address<M>, mail: M) {
        let (to, mail) = to.seal(mail);
        self.mail_lazy(to, mail);
    }
}

#[cfg(test)]
mod tests {
    use event::ThreadId;

    use super::{CoreMail, Topology};

    #[test]
    fn threads_are_numbered_in_the_order_in_which_they_are_listed() {
        let topology = Topology::new(2, 3, 4).with_events();
        let numbers = topology.everybody().map(|thread| thread.0);
        // Cores, rooms, lister, batcher, callers, hasher, events.
        assert!(numbers.eq(0..13));
        assert!(topology.scripted().eq(topology.everybody().filter(|thread| {
            let cores = topology.cores.iter().map(|core| core.thread());
            cores.chain([topology.lister.thread()]).all(|other| other != *thread)
        })));
    }

    #[test]
    fn what_is_sealed_with_an_address_is_opened_with_it() {
        let topology = Topology::new(1, 1, 1);
        let (to, mail) = topology.cores[0].seal(CoreMail::WakeUp);
        assert_eq!((to, mail.kind()), (ThreadId(0), "wake-up"));
        assert!(matches!(topology.cores[0].open(mail), CoreMail::WakeUp));
    }

    #[test]
    #[should_panic(expected = "thread 1 was started under another kind's address")]
    fn a_thread_that_is_wired_wrong_does_not_go_on() {
        let topology = Topology::new(1, 1, 1);
        let (_, mail) = topology.cores[0].seal(CoreMail::WakeUp);
        drop(topology.rooms[0].open(mail));
    }
}
