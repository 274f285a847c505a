//! The ring driver: io_uring with registered files, multishot receives into one ring of buffers,
//! and one system call a turn, which submits everything and waits.
//!
//! Decides nothing: see the crate `reactor`. A connection's slot and file live until the kernel holds
//! no operation of it (`Conn::kernel` says which it does), so a completion never finds a stranger.
//!
//! Unsafe code here submits operations; what keeps each sound is one rule: memory that an operation
//! names (pinned output, an address, the wake-up counter, receive buffers) stays where
//! it is until that operation's completion. Dropping the driver waits for the last of them.

mod accepts;
pub(crate) mod buffers;
mod completions;
mod gather;
pub(crate) mod probe;
mod tags;

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use event::{ConnectFailure, Now};
use io_uring::squeue::Entry;
use io_uring::{IoUring, cqueue, opcode, types};
use reactor::{Count, Driver, Limits, NO_FILE, Net, Phase, Reactor, Receive};
use rustix::event::EventfdFlags;

use self::accepts::Accepts;
use self::buffers::BufferRing;
use self::completions::{Completion, Completions};
use self::gather::Gather;
use self::tags::Tag;
use crate::clock::Clock;
use crate::mailbox::Wake;
use crate::port::Ports;

/// Operations prepared between two submissions; more are submitted in between. Both rings are gone
/// through from end to end, so that larger ones only take more of the processor's cache.
const SUBMISSIONS: u32 = 512;
/// Completions that the kernel keeps ready; more wait in its own list, and are counted.
const COMPLETIONS: u32 = 4_096;
const BUFFER_GROUP: u16 = 0;
/// Completions for which a coalescing wait ends early.
const GATHERED_MAX: usize = 64;
/// Files that are not connections of a handler: accepted and at once refused.
const SPARE_FILES: u32 = 64;

/// A connection's `kernel` bits: operations that are outstanding, and what has been done.
const RECEIVE: u16 = 1;
const SEND: u16 = 2;
const SHUTDOWN: u16 = 4;
/// Making the socket, or connecting it.
const CONNECT: u16 = 8;
/// Cancels of all that is outstanding, when it is released.
const CANCEL: u16 = 16;
const CANCEL_RECEIVE: u16 = 32;
const CLOSE: u16 = 64;
/// The sending side was shut down.
const SHUT: u16 = 128;
const WATCH: u16 = 256;
/// The receive that is outstanding brings whatever comes, not one piece.
const MANY: u16 = 512;
/// What was outstanding is being taken back.
const RELEASING: u16 = 1_024;
/// All that the kernel may hold of a connection.
const BUSY: u16 = RECEIVE | SEND | SHUTDOWN | CONNECT | CANCEL | CANCEL_RECEIVE | CLOSE | WATCH;

/// Wakes the thread that waits in a ring: a counter that the ring reads.
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?))
    }
}

impl Wake for EventFd {
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
    addresses: BTreeMap<u32, Box<(socket2::SockAddr, Option<socket2::SockAddr>)>>,
    /// Of sends of several pieces, where these are.
    gathers: BTreeMap<u32, Box<Gather>>,
    eventfd: Arc<EventFd>,
    eventfd_count: Box<u64>,
    one: Box<libc::c_int>,
    completions: Completions,
    /// Receive buffers that completions hold which are not delivered.
    buffers_waiting: u32,
    clock: Clock,
    /// Operations whose last completion has not come.
    outstanding: u64,
    is_bell_armed: bool,
    accepts_cancelled: bool,
    ports: Ports,
    /// Of each, whether the ring watches it.
    watched: Vec<bool>,
}

impl Uring {
    /// Sets up a ring for the calling thread, and for no other.
    pub(crate) fn new(
        eventfd: Arc<EventFd>,
        listeners: Vec<TcpListener>,
        ports: Ports,
        limits: &mut Limits,
        clock: Clock,
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
            gathers: BTreeMap::new(),
            eventfd,
            eventfd_count: Box::new(0),
            one: Box::new(1),
            completions: Completions::default(),
            buffers_waiting: 0,
            clock,
            outstanding: 0,
            is_bell_armed: false,
            accepts_cancelled: false,
            watched: ports.sockets().map(|_| false).collect(),
            ports,
        })
    }

    /// Prepares an operation; submits what is prepared when there is no room for it.
    ///
    /// # Safety
    /// The memory that the operation names must stay where it is until its completion.
    #[inline]
    unsafe fn push(&mut self, entry: Entry, tag: Tag, number: u32) {
        let entry = entry.user_data(tag.with(number));
        self.outstanding += 1;
        loop {
            // SAFETY: promised by the caller.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            if self.ring.submit().is_err() {
                // The kernel wants its completions taken first.
                self.reap();
            }
        }
    }

    /// As [`Self::push`], for operations that name no memory.
    #[inline]
    fn push_plain(&mut self, plain: Plain, tag: Tag, number: u32) {
        let entry = plain.entry();
        // SAFETY: the operation names no memory.
        unsafe { self.push(entry, tag, number) }
    }

    /// Takes over what the kernel has completed.
    #[inline]
    fn reap(&mut self) {
        self.completions.close_up();
        for entry in self.ring.completion() {
            let (result, flags) = (entry.result(), entry.flags());
            self.completions.push(Completion { user_data: entry.user_data(), result, flags });
            self.buffers_waiting += u32::from(cqueue::buffer_select(flags).is_some());
            if !cqueue::more(flags) {
                assert!(self.outstanding > 0, "a completion of nothing");
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
        let net = &mut reactor.net;
        match tag {
            Tag::Receive => self.received(reactor, number, done),
            Tag::Send => self.sent(net, number, done.result),
            Tag::Accept => self.accepted(reactor, number, done.result),
            Tag::Wake => self.is_bell_armed = false,
            Tag::Shutdown => ended(net, number, SHUTDOWN),
            Tag::Watch => watched(net, number, done),
            Tag::Socket => made(net, number, done.result),
            Tag::Connect => {
                ended(net, number, CONNECT);
                self.addresses.remove(&number);
                if done.result == 0 {
                    reactor.on_connected(number);
                } else {
                    net.on_connect_failed(number, failed(done.result));
                }
            }
            Tag::Cancel => ended(net, number, CANCEL),
            Tag::CancelReceive => ended(net, number, CANCEL_RECEIVE),
            Tag::Close => {
                ended(net, number, CLOSE);
                self.released(net, number);
            }
            Tag::Readable => {
                self.watched[number as usize] = false;
                self.ports.is_readable(number as usize);
            }
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
        let state = reactor.net.conns.at(slot);
        debug_assert!(state.kernel & RECEIVE != 0, "a receive that was not armed");
        if !cqueue::more(done.flags) {
            state.kernel &= !(RECEIVE | MANY);
            reactor.net.touch(slot);
        }
        let buffer = cqueue::buffer_select(done.flags);
        match usize::try_from(done.result) {
            Ok(0) => reactor.on_eof(slot),
            Ok(len) => {
                assert!(buffer.is_some(), "bytes without a buffer");
                let Some(id) = buffer else { return };
                reactor.on_bytes(slot, self.buffers.filled(id, len));
            }
            Err(_) if done.result == -libc::ENOBUFS => reactor.net.on_shortage(slot),
            Err(_) if is_again(done.result) => {}
            Err(_) => reactor.net.on_reset(slot),
        }
        if let Some(id) = buffer {
            self.buffers_waiting -= 1;
            self.buffers.give_back(id);
        }
    }

    #[inline]
    fn sent<M>(&mut self, net: &mut Net<M>, slot: u32, result: i32) {
        let state = net.conns.at(slot);
        debug_assert!(state.kernel & SEND != 0, "a send that was not made");
        state.kernel &= !SEND;
        assert!(state.out.is_some(), "a queue goes while the kernel reads it");
        let Some(out) = &mut state.out else { return };
        if out.is_gathered() {
            self.gathers.remove(&slot);
        }
        out.unpin();
        let is_dying = state.phase() == Phase::Dying;
        match usize::try_from(result) {
            Ok(bytes) => net.on_sent(slot, bytes),
            Err(_) if is_again(result) => net.on_send_blocked(slot),
            Err(_) => net.on_reset(slot),
        }
        if is_dying {
            net.touch(slot);
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
            self.push_plain(Plain::Close(file), Tag::Ignored, 0);
        }
    }

    /// Prepares what one connection wants now.
    #[inline]
    fn work_off<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let state = net.conns.at(slot);
        match state.phase() {
            Phase::Free | Phase::Gone => return,
            Phase::Connecting => return self.connect(net, slot),
            Phase::Dying => return self.release(net, slot),
            Phase::Open | Phase::Flushing => {}
            Phase::Lingering => {
                if state.kernel & SHUT == 0 {
                    state.kernel |= SHUTDOWN | SHUT;
                    let file = state.file;
                    self.push_plain(Plain::ShutDown(file), Tag::Shutdown, slot);
                }
            }
        }
        self.send(net, slot);
        self.receive(net, slot);
        let state = net.conns.at(slot);
        if state.wants_watch() && state.kernel & WATCH == 0 {
            state.kernel |= WATCH;
            let file = state.file;
            self.push_plain(Plain::Watch(file), Tag::Watch, slot);
        }
    }

    #[inline]
    fn send<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let turn = net.turn();
        let state = net.conns.at(slot);
        if state.kernel & SEND != 0 {
            return;
        }
        let file = types::Fixed(state.file);
        let Some(out) = &mut state.out else { return };
        let mut offered = out.pin(turn);
        let entry = if offered.len() > 1 {
            let gather = Box::new(Gather::new(offered));
            let gather = self.gathers.entry(slot).insert_entry(gather).into_mut();
            opcode::SendMsg::new(file, gather.header())
                .flags(libc::MSG_NOSIGNAL.unsigned_abs())
                .build()
        } else {
            let Some(bytes) = offered.next() else { return };
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            opcode::Send::new(file, bytes.as_ptr(), len).flags(libc::MSG_NOSIGNAL).build()
        };
        state.kernel |= SEND;
        // SAFETY: the queue keeps pinned bytes where they are, and lives as long as the send: a
        // connection is released when SEND is gone. A gather lives until `sent`, in its box.
        unsafe { self.push(entry, Tag::Send, slot) };
    }

    #[inline]
    fn receive<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let wish = net.receive_wish(slot);
        let state = net.conns.at(slot);
        let file = state.file;
        let is_armed = state.kernel & RECEIVE != 0;
        // A receive of one piece that is armed stays: it brings one piece at most.
        let is_unwanted = wish == Receive::No && (state.kernel & MANY != 0 || !state.wants_input());
        if is_armed {
            if is_unwanted && state.kernel & CANCEL_RECEIVE == 0 {
                state.kernel |= CANCEL_RECEIVE;
                let target = Tag::Receive.with(slot);
                self.push_plain(Plain::Cancel(target), Tag::CancelReceive, slot);
            }
            return;
        }
        match wish {
            Receive::No => {}
            Receive::One => {
                state.kernel |= RECEIVE;
                let bytes = net.limits.receive_buffer_bytes;
                self.push_plain(Plain::ReceiveOne(file, bytes), Tag::Receive, slot);
            }
            Receive::Many => {
                state.kernel |= RECEIVE | MANY;
                self.push_plain(Plain::ReceiveMany(file), Tag::Receive, slot);
            }
        }
    }

    /// Makes an outgoing connection: a socket first, then its option and its address.
    fn connect<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let (from, to) = (net.connects_from(slot), net.connects_to(slot));
        let state = net.conns.at(slot);
        if state.kernel & CONNECT != 0 {
            return;
        }
        let is_new = !self.addresses.contains_key(&slot);
        let address = self
            .addresses
            .entry(slot)
            .or_insert_with(|| Box::new((to.into(), from.map(crate::connect::source))));
        state.kernel |= CONNECT;
        if is_new {
            let domain = i32::from(address.0.family());
            return self.push_plain(Plain::Socket(domain), Tag::Socket, slot);
        }
        let file = types::Fixed(state.file);
        let (to, from) = &**address;
        let connect = opcode::Connect::new(file, to.as_ptr().cast(), to.len()).build();
        let value = (&raw const *self.one).cast();
        let bind = from.as_ref().map(|from| {
            let level = libc::IPPROTO_IP.unsigned_abs();
            let name = libc::IP_BIND_ADDRESS_NO_PORT.unsigned_abs();
            let no_port = opcode::SetSockOpt::new(file, level, name, value, 4).build();
            // Not before Linux 6.11; without it the system chooses the address.
            [no_port, opcode::Bind::new(file, from.as_ptr().cast(), from.len()).build()]
        });
        let no_delay = opcode::SetSockOpt::new(
            file,
            libc::IPPROTO_TCP.unsigned_abs(),
            libc::TCP_NODELAY.unsigned_abs(),
            value,
            4,
        );
        // SAFETY: the options' value lives as long as the ring, in its box; the address until
        // CONNECT is gone, both in their box. The option is not known before Linux 6.7; without it small
        // messages may wait for an acknowledgement.
        unsafe {
            self.push(no_delay.build(), Tag::Ignored, 0);
            for entry in bind.into_iter().flatten() {
                // In this order, and all before connecting.
                self.push(entry.flags(io_uring::squeue::Flags::IO_HARDLINK), Tag::Ignored, 0);
            }
            self.push(connect, Tag::Connect, slot);
        }
    }

    /// Takes back what the kernel holds of a lost connection, then closes it.
    fn release<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let state = net.conns.at(slot);
        if state.kernel & BUSY == 0 {
            if state.file == NO_FILE {
                return self.released(net, slot);
            }
            state.kernel |= CLOSE;
            let file = state.file;
            return self.push_plain(Plain::Close(file), Tag::Close, slot);
        }
        let taken_back = [
            (RECEIVE, Tag::Receive),
            (SEND, Tag::Send),
            (CONNECT, Tag::Connect),
            (WATCH, Tag::Watch),
        ];
        // A socket that is being made cannot be taken back, and takes no time.
        let is_held = |bit| state.kernel & bit != 0 && (bit != CONNECT || state.file != NO_FILE);
        let held = taken_back.map(|(bit, tag)| is_held(bit).then_some(tag));
        if state.kernel & RELEASING != 0 || held.iter().all(Option::is_none) {
            return;
        }
        // One by one and by name: cancelling "all of this file" makes the kernel look through
        // every operation of the ring (it grows with the connections).
        state.kernel |= CANCEL | RELEASING;
        let mut told_by = Tag::Cancel;
        for tag in held.into_iter().flatten() {
            self.push_plain(Plain::Cancel(tag.with(slot)), told_by, slot);
            told_by = Tag::Ignored;
        }
    }

    /// The kernel holds nothing of a connection any more.
    fn released<M>(&mut self, net: &mut Net<M>, slot: u32) {
        self.addresses.remove(&slot);
        assert!(!self.gathers.contains_key(&slot), "released while the kernel reads");
        net.on_released(slot);
    }

    fn reconcile_accepts<M>(&mut self, net: &Net<M>) {
        if net.wants_accept() {
            while let Some((index, entry)) = self.accepts.arm() {
                // SAFETY: the place for the address is in a box that lives until no accept is
                // outstanding.
                unsafe { self.push(entry, Tag::Accept, index) };
            }
        } else if net.has_stopped_accepting() && !self.accepts_cancelled {
            self.accepts_cancelled = true;
            for fd in self.accepts.files() {
                self.push_plain(Plain::CancelAll(fd), Tag::Ignored, 0);
            }
        }
        if self.accepts_cancelled && self.accepts.are_idle() {
            self.accepts.close();
        }
    }

    /// Sends datagrams; watches for more until the thread stops.
    fn reconcile_ports<M>(&mut self, net: &mut Net<M>) {
        self.ports.send(net);
        if net.is_stopping() {
            return self.ports.stop(net);
        }
        for index in 0..self.watched.len() {
            if !std::mem::replace(&mut self.watched[index], true) {
                let file = self.ports.sockets().nth(index).map(|socket| socket.as_raw_fd());
                let (Some(file), Ok(number)) = (file, u32::try_from(index)) else { continue };
                self.push_plain(Plain::Readable(file), Tag::Readable, number);
            }
        }
    }

    fn arm_bell(&mut self) {
        if !std::mem::replace(&mut self.is_bell_armed, true) {
            let count = (&raw mut *self.eventfd_count).cast();
            let fd = types::Fd(self.eventfd.0.as_raw_fd());
            let entry = opcode::Read::new(fd, count, 8).build();
            // SAFETY: the counter lives as long as the ring, in its box.
            unsafe { self.push(entry, Tag::Wake, 0) };
        }
    }
}

impl<M: Send + 'static> Driver<M> for Uring {
    type Error = io::Error;

    fn wait(
        &mut self,
        net: &mut Net<M>,
        patience: Option<Duration>,
        coalesce: bool,
    ) -> io::Result<Now> {
        self.arm_bell();
        if self.ring.submission().cq_overflow() {
            net.counters.add(Count::CompletionOverflows, 1);
        }
        net.counters.add(Count::SystemCalls, 1);
        // Some may have been taken over while operations were pushed.
        let want = if coalesce { GATHERED_MAX } else { 1 };
        let has_more = !self.completions.is_empty() || self.ports.have_untold();
        self.enter(want, if has_more { Some(Duration::ZERO) } else { patience })?;
        Ok(self.clock.now())
    }

    fn deliver(&mut self, reactor: &mut Reactor<M>) {
        while !reactor.net.is_turn_spent()
            && let Some(done) = self.completions.pop()
        {
            self.complete(reactor, done);
        }
        self.buffers.commit();
    }

    fn deliver_datagrams(&mut self, reactor: &mut Reactor<M>) {
        let is_behind = Driver::<M>::has_more(self);
        self.ports.deliver(reactor, is_behind);
    }

    fn has_more(&self) -> bool {
        !self.completions.is_empty()
    }

    fn reconcile(&mut self, net: &mut Net<M>) {
        self.reconcile_accepts(net);
        self.reconcile_ports(net);
        let free = u32::from(net.limits.receive_buffers).saturating_sub(self.buffers_waiting);
        net.limit_pieces(free);
        net.work_off_dirty(|net, slot| self.work_off(net, slot));
    }

    fn trim_memory(&mut self) {
        allocator::trim();
    }
}

/// An operation that names no memory.
#[derive(Clone, Copy, Debug)]
enum Plain {
    /// Receives whatever comes into the ring's buffers, as it comes.
    ReceiveMany(u32),
    /// Receives once, into one of the ring's buffers, so many bytes at most.
    ReceiveOne(u32, u32),
    ShutDown(u32),
    /// Tells when both directions are dead.
    Watch(u32),
    /// Tells once when a file, which is not registered, can be read, or at once if it can.
    Readable(RawFd),
    Close(u32),
    /// A new socket of a family.
    Socket(i32),
    /// Takes an operation back, by its name.
    Cancel(u64),
    /// Takes back all operations on a file.
    CancelAll(RawFd),
    /// Takes back all operations of the ring.
    CancelEverything,
}

impl Plain {
    #[inline]
    fn entry(self) -> Entry {
        match self {
            Self::ReceiveMany(file) => {
                opcode::RecvMulti::new(types::Fixed(file), BUFFER_GROUP).build()
            }
            Self::ReceiveOne(file, bytes) => {
                opcode::Recv::new(types::Fixed(file), std::ptr::null_mut(), bytes)
                    .buf_group(BUFFER_GROUP)
                    .build()
                    .flags(io_uring::squeue::Flags::BUFFER_SELECT)
            }
            Self::ShutDown(file) => {
                opcode::Shutdown::new(types::Fixed(file), libc::SHUT_WR).build()
            }
            // Edge-triggered and again and again: the end of the peer's sending alone also makes it
            // complete, and is no reason to ask anew. Errors and hang-ups need not be named.
            Self::Watch(file) => opcode::PollAdd::new(types::Fixed(file), 0).multi(true).build(),
            Self::Readable(fd) => {
                let events = u32::from(libc::POLLIN.unsigned_abs());
                opcode::PollAdd::new(types::Fd(fd), events).build()
            }
            Self::Close(file) => opcode::Close::new(types::Fixed(file)).build(),
            Self::Socket(domain) => opcode::Socket::new(domain, libc::SOCK_STREAM, 0)
                .file_index(Some(types::DestinationSlot::auto_target()))
                .build(),
            Self::Cancel(user_data) => opcode::AsyncCancel::new(user_data).build(),
            Self::CancelAll(fd) => {
                opcode::AsyncCancel2::new(types::CancelBuilder::fd(types::Fd(fd)).all()).build()
            }
            Self::CancelEverything => {
                opcode::AsyncCancel2::new(types::CancelBuilder::any().all()).build()
            }
        }
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
            self.push_plain(Plain::CancelEverything, Tag::Ignored, 0);
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

/// What was watched for, or less, or the end of watching.
fn watched<M>(net: &mut Net<M>, slot: u32, done: Completion) {
    if !cqueue::more(done.flags) {
        ended(net, slot, WATCH);
    }
    let dead = i32::from(libc::POLLERR | libc::POLLHUP);
    if done.result > 0 && done.result & dead != 0 {
        net.on_hang_up(slot);
    }
}

/// The socket of an outgoing connection exists, or cannot.
fn made<M>(net: &mut Net<M>, slot: u32, result: i32) {
    ended(net, slot, CONNECT);
    match u32::try_from(result) {
        Ok(file) => net.conns.at(slot).file = file,
        Err(_) => net.on_connect_failed(slot, failed(result)),
    }
}

/// An operation of a connection has come to its end.
fn ended<M>(net: &mut Net<M>, slot: u32, bit: u16) {
    let state = net.conns.at(slot);
    assert!(state.kernel & bit != 0, "operation {bit} of slot {slot} ended twice");
    state.kernel &= !bit;
    net.touch(slot);
}

fn failed(result: i32) -> ConnectFailure {
    crate::connect::failed(&io::Error::from_raw_os_error(-result))
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
