//! The ring driver: io_uring with registered files, multishot receives into one ring of buffers,
//! and one system call a turn, which submits everything and waits.
//!
//! Decides nothing: see `net`. A connection's slot and file live until the kernel holds no
//! operation of it (`Conn::kernel` says which it does), so a completion never finds a stranger.
//!
//! Unsafe code here submits operations; what keeps each sound is one rule: memory that an operation
//! names (a pinned output segment, an address, the wake-up counter, receive buffers) stays where
//! it is until that operation's completion. Dropping the driver waits for the last of them.

mod accepts;
mod buffers;
pub(crate) mod probe;

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use event::CloseReason;
use io_uring::squeue::Entry;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::event::EventfdFlags;

use self::accepts::Accepts;
use self::buffers::BufferRing;
use crate::conns::Phase;
use crate::counters::Count;
use crate::driver::Driver;
use crate::limits::Limits;
use crate::mailbox::Wake;
use crate::net::Net;
use crate::reactor::Reactor;

/// Operations prepared between two submissions; more are submitted in between.
const SUBMISSIONS: u32 = 2_048;
/// Completions that the kernel keeps ready; more wait in its own list, and are counted.
const COMPLETIONS: u32 = 16_384;
const BUFFER_GROUP: u16 = 0;
/// Completions for which a gathering wait ends early.
const GATHERED_MAX: usize = 64;
/// Files that are not connections of a handler: accepted and at once refused.
const SPARE_FILES: u32 = 64;
/// The name of a socket that does not exist yet.
const NO_FILE: u32 = u32::MAX;

/// A connection's `kernel` bits: operations that are outstanding, and what has been done.
const RECEIVE: u8 = 1;
const SEND: u8 = 2;
const SHUTDOWN: u8 = 4;
const CONNECT: u8 = 8;
const CANCEL_ALL: u8 = 16;
const CANCEL_RECEIVE: u8 = 32;
const CLOSE: u8 = 64;
const SHUT: u8 = 128;

/// What an operation's `user_data` says: the operation above, the slot (or number) below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Receive,
    Send,
    Accept,
    Wake,
    Shutdown,
    Socket,
    Connect,
    CancelAll,
    CancelReceive,
    Close,
    /// Nobody waits for it.
    Ignored,
}

const TAGS: [Tag; 11] = [
    Tag::Receive,
    Tag::Send,
    Tag::Accept,
    Tag::Wake,
    Tag::Shutdown,
    Tag::Socket,
    Tag::Connect,
    Tag::CancelAll,
    Tag::CancelReceive,
    Tag::Close,
    Tag::Ignored,
];

impl Tag {
    #[inline]
    fn with(self, number: u32) -> u64 {
        u64::from(self as u8) << 32 | u64::from(number)
    }

    /// The reverse of [`Self::with`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the two halves apart")]
    fn split(user_data: u64) -> (Self, u32) {
        (TAGS[(user_data >> 32) as usize], user_data as u32)
    }
}

/// A completion, copied out of the ring.
#[derive(Clone, Copy, Debug)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// Wakes the thread that waits in a ring: a counter that the ring reads.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?))
    }
}

impl Wake for Bell {
    fn wake(&self) {
        if let Err(error) = rustix::io::write(&self.0, &1_u64.to_ne_bytes()) {
            tracing::error!(%error, "cannot wake a thread");
        }
    }
}

/// The driver. Fields that the kernel may write to come after the ring, so that they go later.
pub(crate) struct Uring {
    ring: IoUring,
    buffers: BufferRing,
    accepts: Accepts,
    addresses: BTreeMap<u32, Box<socket2::SockAddr>>,
    bell: Arc<Bell>,
    bell_count: Box<u64>,
    no_delay: Box<libc::c_int>,
    completions: Vec<Completion>,
    /// Operations whose last completion has not come.
    outstanding: u64,
    is_bell_armed: bool,
    accepts_cancelled: bool,
}

impl Uring {
    /// Sets up a ring for the calling thread, and for no other.
    pub(crate) fn new(
        bell: Arc<Bell>,
        listeners: Vec<TcpListener>,
        limits: &mut Limits,
    ) -> io::Result<Self> {
        let ring = probe::build_ring(SUBMISSIONS, COMPLETIONS)?;
        let spare =
            SPARE_FILES + u32::try_from(listeners.len() * accepts::PER_LISTENER).unwrap_or(0);
        let files = files_max().min(limits.connections_max.saturating_add(spare)).max(spare + 1);
        ring.submitter().register_files_sparse(files)?;
        if limits.connections_max > files - spare {
            tracing::info!(
                connections_max = files - spare,
                "fewer connections than wished: the limit of open files (ulimit -n, LimitNOFILE= \
                 of systemd) also bounds the files of each thread's ring"
            );
            limits.connections_max = files - spare;
        }
        let buffers = BufferRing::new(limits.receive_buffers, limits.receive_buffer_bytes)?;
        buffers.register(&ring.submitter(), BUFFER_GROUP)?;
        Ok(Self {
            ring,
            buffers,
            accepts: Accepts::new(listeners),
            addresses: BTreeMap::new(),
            bell,
            bell_count: Box::new(0),
            no_delay: Box::new(1),
            completions: Vec::with_capacity(COMPLETIONS as usize),
            outstanding: 0,
            is_bell_armed: false,
            accepts_cancelled: false,
        })
    }

    /// Prepares an operation; submits what is prepared when there is no room for it.
    #[inline]
    fn push(&mut self, entry: Entry, tag: Tag, number: u32) {
        let entry = entry.user_data(tag.with(number));
        self.outstanding += 1;
        loop {
            // SAFETY: the memory that the operation names outlives it, by the rule of the module.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            if self.ring.submit().is_err() {
                // The kernel wants its completions taken first.
                self.reap();
            }
        }
    }

    /// Takes over what the kernel has completed.
    #[inline]
    fn reap(&mut self) {
        for entry in self.ring.completion() {
            let (result, flags) = (entry.result(), entry.flags());
            self.completions.push(Completion { user_data: entry.user_data(), result, flags });
            if !cqueue::more(flags) {
                self.outstanding -= 1;
            }
        }
    }

    /// Submits and waits for `want` completions, at most `patience`.
    fn enter(&mut self, want: usize, patience: Option<Duration>) -> io::Result<()> {
        let result = match patience {
            None => self.ring.submitter().submit_and_wait(want),
            Some(patience) => {
                let patience = types::Timespec::from(patience);
                let args = types::SubmitArgs::new().timespec(&patience);
                self.ring.submitter().submit_with_args(want, &args)
            }
        };
        self.reap();
        match result {
            Ok(_) => Ok(()),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn complete<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, done: Completion) {
        let (tag, number) = Tag::split(done.user_data);
        match tag {
            Tag::Receive => self.received(reactor, number, done),
            Tag::Send => sent(&mut reactor.net, number, done.result),
            Tag::Accept => self.accepted(reactor, number, done.result),
            Tag::Wake => self.is_bell_armed = false,
            Tag::Shutdown => ended(&mut reactor.net, number, SHUTDOWN),
            Tag::Socket => made(&mut reactor.net, number, done.result),
            Tag::Connect => {
                self.addresses.remove(&number);
                reactor.net.conns.at(number).kernel &= !CONNECT;
                if done.result == 0 {
                    reactor.on_connected(number);
                } else {
                    let error = io::Error::from_raw_os_error(-done.result);
                    reactor.net.fail(number, crate::connect::failed(&error));
                }
                reactor.net.touch(number);
            }
            Tag::CancelAll => ended(&mut reactor.net, number, CANCEL_ALL),
            Tag::CancelReceive => ended(&mut reactor.net, number, CANCEL_RECEIVE),
            Tag::Close => reactor.net.on_released(number),
            Tag::Ignored => {}
        }
    }

    #[inline]
    fn received<M: Send + 'static>(
        &mut self,
        reactor: &mut Reactor<M>,
        slot: u32,
        done: Completion,
    ) {
        if !cqueue::more(done.flags) {
            reactor.net.conns.at(slot).kernel &= !RECEIVE;
            reactor.net.touch(slot);
        }
        let buffer = cqueue::buffer_select(done.flags);
        match usize::try_from(done.result) {
            Ok(0) => reactor.on_eof(slot),
            Ok(len) => {
                if let Some(id) = buffer {
                    reactor.on_bytes(slot, self.buffers.filled(id, len));
                }
            }
            Err(_) if done.result == -libc::ENOBUFS => {
                reactor.net.counters.add(Count::BufferShortages, 1);
                // From now on one buffer at a time: a few that send without end would take all of
                // them again, with 32 each, and those that come last in the turn never had one.
                reactor.net.floods(slot);
            }
            Err(_) if is_again(done.result) => {}
            Err(_) => reactor.net.fail(slot, CloseReason::Reset),
        }
        if let Some(id) = buffer {
            self.buffers.give_back(id);
        }
    }

    fn accepted<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, index: u32, result: i32) {
        let (listener, peer) = self.accepts.disarm(index);
        let Ok(file) = u32::try_from(result) else {
            let error = io::Error::from_raw_os_error(-result);
            if result != -libc::ECANCELED && !crate::poll::concerns_one_peer(&error) {
                reactor.net.pause_accepting(&error);
            }
            return;
        };
        if reactor.on_accepted(listener, peer, file).is_none() {
            self.push(opcode::Close::new(types::Fixed(file)).build(), Tag::Ignored, 0);
        }
    }

    /// Prepares what one connection wants now.
    #[inline]
    fn work_off<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let state = net.conns.at(slot);
        match state.phase {
            Phase::Free | Phase::Gone => return,
            Phase::Connecting => return self.connect(net, slot),
            Phase::Dying => return self.release(net, slot),
            Phase::Open | Phase::Flushing => {}
            Phase::Lingering => {
                if state.kernel & (SHUTDOWN | SHUT) == 0 {
                    state.kernel |= SHUTDOWN | SHUT;
                    let file = types::Fixed(state.file);
                    self.push(
                        opcode::Shutdown::new(file, libc::SHUT_WR).build(),
                        Tag::Shutdown,
                        slot,
                    );
                }
            }
        }
        let state = net.conns.at(slot);
        let file = types::Fixed(state.file);
        if state.kernel & SEND == 0
            && let Some(bytes) = state.out.as_mut().and_then(|out| out.pin())
        {
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let entry =
                opcode::Send::new(file, bytes.as_ptr(), len).flags(libc::MSG_NOSIGNAL).build();
            state.kernel |= SEND;
            self.push(entry, Tag::Send, slot);
        }
        let wants_input = state.wants_input();
        if wants_input && state.kernel & RECEIVE == 0 {
            state.kernel |= RECEIVE;
            // A multishot receive takes up to 32 buffers before a stop reaches it.
            let entry = if state.has_flooded {
                let bytes = net.limits.receive_buffer_bytes;
                opcode::Recv::new(file, std::ptr::null_mut(), bytes)
                    .buf_group(BUFFER_GROUP)
                    .build()
                    .flags(io_uring::squeue::Flags::BUFFER_SELECT)
            } else {
                opcode::RecvMulti::new(file, BUFFER_GROUP).build()
            };
            self.push(entry, Tag::Receive, slot);
        } else if !wants_input && state.kernel & (RECEIVE | CANCEL_RECEIVE) == RECEIVE {
            state.kernel |= CANCEL_RECEIVE;
            let entry = opcode::AsyncCancel::new(Tag::Receive.with(slot)).build();
            self.push(entry, Tag::CancelReceive, slot);
        }
    }

    /// Makes an outgoing connection: a socket first, then its option and its address.
    fn connect<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let Some((to, _)) = net.connecting.get(&slot).copied() else { return };
        let state = net.conns.at(slot);
        if state.kernel & CONNECT != 0 {
            return;
        }
        let is_new = !self.addresses.contains_key(&slot);
        let address = self.addresses.entry(slot).or_insert_with(|| Box::new(to.into()));
        state.kernel |= CONNECT;
        if is_new {
            state.file = NO_FILE;
            let domain = i32::from(address.family());
            let entry = opcode::Socket::new(domain, libc::SOCK_STREAM, 0)
                .file_index(Some(types::DestinationSlot::auto_target()))
                .build();
            return self.push(entry, Tag::Socket, slot);
        }
        let file = types::Fixed(state.file);
        let connect = opcode::Connect::new(file, address.as_ptr().cast(), address.len()).build();
        let value = (&raw const *self.no_delay).cast();
        let no_delay = opcode::SetSockOpt::new(
            file,
            libc::IPPROTO_TCP.unsigned_abs(),
            libc::TCP_NODELAY.unsigned_abs(),
            value,
            4,
        );
        // Not before Linux 6.7; without it small messages may wait for an acknowledgement.
        self.push(no_delay.build(), Tag::Ignored, 0);
        self.push(connect, Tag::Connect, slot);
    }

    /// Takes back what the kernel holds of a lost connection, then closes it.
    fn release<M>(&mut self, net: &mut Net<M>, slot: u32) {
        const BUSY: u8 = RECEIVE | SEND | SHUTDOWN | CONNECT | CANCEL_ALL | CANCEL_RECEIVE;
        let state = net.conns.at(slot);
        if state.phase == Phase::Dying && state.kernel & (BUSY | CLOSE) == 0 {
            self.addresses.remove(&slot);
            let is_made = state.file != NO_FILE;
            if is_made {
                state.kernel |= CLOSE;
                let entry = opcode::Close::new(types::Fixed(state.file)).build();
                return self.push(entry, Tag::Close, slot);
            }
            return net.on_released(slot);
        }
        let is_cancellable = state.kernel & (RECEIVE | SEND | CONNECT) != 0;
        if is_cancellable && state.kernel & CANCEL_ALL == 0 && state.file != NO_FILE {
            // One by one and by name: cancelling "all of this file" makes the kernel look through
            // every operation of the ring (measured: 2.5 ms at 4,000 connections).
            let kernel = state.kernel;
            state.kernel |= CANCEL_ALL;
            let mut told_by = Tag::CancelAll;
            for (bit, tag) in [(RECEIVE, Tag::Receive), (SEND, Tag::Send), (CONNECT, Tag::Connect)]
            {
                if kernel & bit != 0 {
                    self.push(opcode::AsyncCancel::new(tag.with(slot)).build(), told_by, slot);
                    told_by = Tag::Ignored;
                }
            }
        }
    }

    fn reconcile_accepts<M>(&mut self, net: &Net<M>) {
        if net.wants_accept() {
            while let Some((index, entry)) = self.accepts.arm() {
                self.push(entry, Tag::Accept, index);
            }
        } else if !net.accepting && !self.accepts_cancelled {
            self.accepts_cancelled = true;
            for entry in self.accepts.cancels() {
                self.push(entry, Tag::Ignored, 0);
            }
        }
        if self.accepts_cancelled && self.accepts.are_idle() {
            self.accepts.close();
        }
    }

    fn arm_bell(&mut self) {
        if !std::mem::replace(&mut self.is_bell_armed, true) {
            let count = (&raw mut *self.bell_count).cast();
            let fd = types::Fd(self.bell.0.as_raw_fd());
            self.push(opcode::Read::new(fd, count, 8).build(), Tag::Wake, 0);
        }
    }
}

impl<M: Send + 'static> Driver<M> for Uring {
    fn wait(
        &mut self,
        reactor: &mut Reactor<M>,
        patience: Option<Duration>,
        gather: bool,
    ) -> io::Result<()> {
        self.arm_bell();
        if self.ring.submission().cq_overflow() {
            reactor.net.counters.add(Count::CompletionOverflows, 1);
        }
        reactor.net.counters.add(Count::SystemCalls, 1);
        // Some may have been taken over while operations were pushed.
        let want = if gather { GATHERED_MAX } else { 1 };
        self.enter(want, if self.completions.is_empty() { patience } else { Some(Duration::ZERO) })
    }

    fn deliver(&mut self, reactor: &mut Reactor<M>) {
        let mut completions = std::mem::take(&mut self.completions);
        for done in completions.drain(..) {
            self.complete(reactor, done);
        }
        self.buffers.commit();
        completions.append(&mut self.completions);
        self.completions = completions;
    }

    fn reconcile(&mut self, reactor: &mut Reactor<M>) {
        self.reconcile_accepts(&reactor.net);
        reactor.net.work_off_dirty(|net, slot| self.work_off(net, slot));
    }
}

impl Drop for Uring {
    /// Takes back everything that the kernel still holds. If it does not let go, which would be
    /// the kernel's mistake, the process ends: freed memory would be written to.
    fn drop(&mut self) {
        /// Rounds of cancelling and waiting 10 ms each.
        const ROUNDS_MAX: usize = 500;
        for _ in 0..ROUNDS_MAX {
            if self.outstanding == 0 {
                return;
            }
            let everything = types::CancelBuilder::any().all();
            self.push(opcode::AsyncCancel2::new(everything).build(), Tag::Ignored, 0);
            if let Err(error) = self.enter(1, Some(Duration::from_millis(10))) {
                tracing::error!(%error, "cannot take memory back from the kernel");
                break;
            }
            self.completions.clear();
        }
        tracing::error!(outstanding = self.outstanding, "the kernel does not give memory back");
        std::process::abort();
    }
}

#[inline]
fn sent<M>(net: &mut Net<M>, slot: u32, result: i32) {
    let state = net.conns.at(slot);
    state.kernel &= !SEND;
    if let Some(out) = &mut state.out {
        out.unpin();
    }
    match usize::try_from(result) {
        Ok(bytes) => net.on_sent(slot, bytes),
        Err(_) if is_again(result) => net.touch(slot),
        Err(_) => net.fail(slot, CloseReason::Reset),
    }
    if net.conns.at(slot).phase == Phase::Dying {
        net.touch(slot);
    }
}

/// The socket of an outgoing connection exists, or cannot.
fn made<M>(net: &mut Net<M>, slot: u32, result: i32) {
    let state = net.conns.at(slot);
    state.kernel &= !CONNECT;
    match u32::try_from(result) {
        Ok(file) => state.file = file,
        Err(_) => {
            let error = io::Error::from_raw_os_error(-result);
            net.fail(slot, crate::connect::failed(&error));
        }
    }
    net.touch(slot);
}

fn ended<M>(net: &mut Net<M>, slot: u32, bit: u8) {
    net.conns.at(slot).kernel &= !bit;
    net.touch(slot);
}

/// Results that say nothing about the connection.
fn is_again(result: i32) -> bool {
    [-libc::ECANCELED, -libc::EAGAIN, -libc::EINTR].contains(&result)
}

/// Errors of waiting that only mean "nothing yet" or "take your completions first".
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
    error.raw_os_error().is_some_and(|errno| passing.contains(&errno))
}

/// How many files may be registered with one ring: the process's limit of open files.
fn files_max() -> u32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(u32::MAX >> 1, |max| u32::try_from(max).unwrap_or(u32::MAX >> 1)).min(1 << 20)
}
