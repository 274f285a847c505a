//! The readiness driver: asks the poller which sockets are ready, then reads and writes them with
//! ordinary calls. Portable; the side of every comparison, and the oracle of the ring driver.
//!
//! Decides nothing: see the crate `reactor`. Registered level-triggered, one receive of one buffer
//! for each event. A connection that is to receive one piece is read without asking the poller.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use event::{ConnId, ListenerId, Now};
use polling::{Event, Events, PollMode, Poller};
use reactor::{Conn, Count, Driver, Limits, Net, Phase, Reactor, Receive, Scarce};
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock::Clock;
use crate::mailbox::Wake;
use crate::port::Ports;

/// Connections taken from one listener in one turn.
const ACCEPTS_PER_TURN_MAX: usize = 64;
/// Pieces of output that one system call takes: as many as a queue offers at once.
const SLICES_MAX: usize = reactor::PINNED_MAX;
/// Keys from here on are listeners; slots of connections are far below.
const LISTENER_KEY: usize = usize::MAX / 2;
/// Keys from here on are sockets for datagrams.
const PORT_KEY: usize = LISTENER_KEY + (1 << 20);

/// A conn's `kernel` bits of this driver: what the poller has been told, and what the socket has.
const WANTS_READ: u16 = 1;
const WANTS_WRITE: u16 = 2;
const REGISTERED: u16 = 4;
const SHUT: u16 = 8;
const BLOCKED: u16 = 16;
/// It is in the list of those who are read without an event.
const DIRECT: u16 = 32;

/// The driver, with all sockets of its thread.
pub(crate) struct Poll {
    poller: Arc<Poller>,
    events: Events,
    /// What the poller told and is not delivered: the poller is asked again when nothing is left.
    ready: VecDeque<Ready>,
    /// Who is to receive one piece in the next turn.
    direct: Vec<Ready>,
    listeners: Vec<TcpListener>,
    accepting: bool,
    ports: Ports,
    /// The poller watches them.
    are_ports_watched: bool,
    sockets: Vec<Option<TcpStream>>,
    buffer: Vec<u8>,
    /// A file that is given up to accept one more connection when there are no more.
    reserve: Option<File>,
    clock: Clock,
}

/// Something to look at.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Listener(usize),
    /// A connection with what the poller says of it; only if it is still the same.
    Conn {
        conn: ConnId,
        readable: bool,
        writable: bool,
        is_dead: bool,
    },
    /// A connection that is to receive one piece.
    Piece {
        conn: ConnId,
    },
}

impl Wake for Poller {
    fn wake(&self) {
        if let Err(error) = self.notify() {
            tracing::error!(%error, "cannot wake a thread");
        }
    }
}

impl Poll {
    pub(crate) fn new(
        poller: Arc<Poller>,
        listeners: Vec<TcpListener>,
        ports: Ports,
        limits: &Limits,
        clock: Clock,
    ) -> io::Result<Self> {
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        Ok(Self {
            poller,
            events: Events::new(),
            ready: VecDeque::new(),
            direct: Vec::new(),
            listeners,
            accepting: false,
            ports,
            are_ports_watched: false,
            sockets: Vec::new(),
            buffer: vec![0; limits.receive_buffer_bytes.max(1) as usize],
            reserve: reserve(),
            clock,
        })
    }

    fn accept<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, listener: usize) {
        let id = u16::try_from(listener).unwrap_or(u16::MAX);
        if self.reserve.is_none() {
            self.reserve = reserve();
        }
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            let Some(socket) = self.listeners.get(listener) else { return };
            if !reactor.net.wants_accept() {
                return;
            }
            reactor.net.counters.add(Count::SystemCalls, 1);
            match socket.accept() {
                Ok((stream, peer)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    // The slot is known before the handler hears of it only to the reactor, so
                    // the socket is put there after; operations wait for the end of the turn.
                    if let Some(slot) = reactor.on_accepted(ListenerId(id), peer, 0) {
                        self.keep(slot, stream);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if concerns_one_peer(&error) => {}
                Err(error) if is_out_of_files(&error) && self.reserve.take().is_some() => {
                    // Nobody is left hanging: accepted with the file kept for that, and closed.
                    let accepted = socket.accept();
                    let is_refused = accepted.is_ok();
                    drop(accepted);
                    self.reserve = reserve();
                    if !is_refused {
                        return;
                    }
                    reactor.net.refuse_accept(Scarce::Files);
                }
                Err(error) => return reactor.net.pause_accepting(&error),
            }
        }
    }

    fn keep(&mut self, slot: u32, stream: TcpStream) {
        let index = slot as usize;
        if self.sockets.len() <= index {
            self.sockets.resize_with(index + 1, || None);
        }
        let before = self.sockets[index].replace(stream);
        assert!(before.is_none(), "slot {slot} has a socket already");
    }

    /// The socket of a connection that has one: all but those that are Connecting or Dying.
    fn socket(&mut self, slot: u32) -> &mut TcpStream {
        let socket = self.sockets.get_mut(slot as usize).and_then(Option::as_mut);
        assert!(socket.is_some(), "slot {slot} has no socket");
        let Some(socket) = socket else { unreachable!("looked at just now") };
        socket
    }

    /// Receives one buffer full at most; says whether there is room for more this turn.
    fn receive<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, slot: u32) {
        if !reactor.net.conns.at(slot).wants_input() {
            return;
        }
        // These bytes may come because of an answer that another thread gave after posting to this
        // one, and after the mail was looked at.
        reactor.take_mail();
        if reactor.net.is_turn_over() || !reactor.net.conns.at(slot).wants_input() {
            // Level-triggered: it is told again.
            return reactor.net.touch(slot);
        }
        reactor.net.counters.add(Count::SystemCalls, 1);
        let received = {
            let socket = self.sockets[slot as usize].as_mut();
            assert!(socket.is_some(), "slot {slot} has no socket");
            let Some(socket) = socket else { return };
            socket.read(&mut self.buffer)
        };
        match received {
            Ok(0) => reactor.on_eof(slot),
            Ok(len) => reactor.on_bytes(slot, &mut self.buffer[..len]),
            Err(error) if is_transient(&error) => reactor.net.on_nothing(slot),
            Err(_) => reactor.net.on_reset(slot),
        }
        // What it wants of the poller may have changed.
        reactor.net.touch(slot);
    }

    /// The socket is ready for sending, or its connecting has come to an end.
    fn writable<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, slot: u32) {
        let phase = reactor.net.conns.at(slot).phase();
        if matches!(phase, Phase::Free | Phase::Dying | Phase::Gone) {
            return;
        }
        reactor.net.conns.at(slot).kernel &= !BLOCKED;
        if phase != Phase::Connecting {
            return reactor.net.touch(slot);
        }
        let socket = self.socket(slot);
        match (socket.take_error(), socket.peer_addr()) {
            (Ok(None), Ok(_)) => reactor.on_connected(slot),
            (Ok(None), Err(error)) if error.kind() == ErrorKind::NotConnected => {}
            (Ok(Some(error)) | Err(error), _) | (_, Err(error)) => {
                reactor.net.on_connect_failed(slot, crate::connect::failed(&error));
            }
        }
    }

    fn start_connecting<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let (from, to) = (net.connects_from(slot), net.connects_to(slot));
        net.counters.add(Count::SystemCalls, 4);
        let begun = (|| {
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(true)?;
            if let Some(from) = from {
                bind(&socket, &crate::connect::source(from))?;
            }
            match socket.connect(&to.into()) {
                Err(error) if !is_in_progress(&error) => Err(error),
                _ => Ok(TcpStream::from(socket)),
            }
        })();
        match begun {
            Ok(stream) => {
                net.conns.at(slot).kernel |= BLOCKED;
                self.keep(slot, stream);
            }
            Err(error) => net.on_connect_failed(slot, crate::connect::failed(&error)),
        }
    }

    /// Offers the socket what is queued. What it does not take waits until it is writable.
    fn send<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let turn = net.turn();
        let state = net.conns.at(slot);
        let may_send = matches!(state.phase(), Phase::Open | Phase::Flushing);
        if state.kernel & BLOCKED != 0 || !may_send {
            return;
        }
        let Some(out) = &mut state.out else { return };
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let offered = out.pin(turn);
        let mut bytes = 0;
        for (place, piece) in slices.iter_mut().zip(offered) {
            *place = IoSlice::new(piece);
            bytes += piece.len();
            count += 1;
        }
        assert!(count > 0, "a queue is not empty");
        let result = self.socket(slot).write_vectored(&slices[..count]);
        let Some(out) = &mut net.conns.at(slot).out else { return };
        out.unpin();
        net.counters.add(Count::SystemCalls, 1);
        match result {
            Ok(sent) => {
                if sent < bytes {
                    net.conns.at(slot).kernel |= BLOCKED;
                }
                net.on_sent(slot, sent);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                net.conns.at(slot).kernel |= BLOCKED;
                net.on_send_blocked(slot);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => net.touch(slot),
            Err(_) => net.on_reset(slot),
        }
    }

    fn work_off<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let is_new = self.sockets.get(slot as usize).is_none_or(Option::is_none);
        if net.conns.at(slot).phase() == Phase::Connecting && is_new {
            self.start_connecting(net, slot);
        }
        self.send(net, slot);
        let state = net.conns.at(slot);
        match state.phase() {
            Phase::Free | Phase::Gone => return,
            Phase::Dying => return self.release(net, slot),
            Phase::Lingering if state.kernel & SHUT == 0 => {
                state.kernel |= SHUT;
                // It fails when the peer has reset the connection; reading will tell.
                let _ = self.socket(slot).shutdown(std::net::Shutdown::Write);
                net.counters.add(Count::SystemCalls, 1);
            }
            Phase::Connecting | Phase::Open | Phase::Flushing | Phase::Lingering => {}
        }
        let receive = net.receive_wish(slot);
        if receive == Receive::One {
            let conn = net.conns.id(slot);
            let state = net.conns.at(slot);
            if state.kernel & DIRECT == 0 {
                state.kernel |= DIRECT;
                self.direct.push(Ready::Piece { conn });
            }
        }
        self.register(net, slot, receive);
    }

    /// Tells the poller what the connection waits for, if that has changed.
    fn register<M>(&mut self, net: &mut Net<M>, slot: u32, receive: Receive) {
        let Some(Some(stream)) = self.sockets.get(slot as usize) else {
            assert!(net.conns.at(slot).phase() == Phase::Dying, "slot {slot} has no socket");
            return;
        };
        let state = net.conns.at(slot);
        let wanted = wanted(state, receive);
        if state.kernel & (WANTS_READ | WANTS_WRITE | REGISTERED) == wanted {
            return;
        }
        let event = Event::new(slot as usize, wanted & WANTS_READ != 0, wanted & WANTS_WRITE != 0);
        let result = if state.kernel & REGISTERED != 0 {
            self.poller.modify_with_mode(stream, event, PollMode::Level)
        } else {
            // SAFETY: the socket stays in `sockets` until `release` has deleted it here.
            unsafe { self.poller.add_with_mode(stream, event, PollMode::Level) }
        };
        state.kernel = (state.kernel & !(WANTS_READ | WANTS_WRITE)) | wanted;
        net.counters.add(Count::SystemCalls, 1);
        if result.is_err() {
            state.kernel &= !REGISTERED;
            net.on_reset(slot);
        }
    }

    fn release<M>(&mut self, net: &mut Net<M>, slot: u32) {
        if let Some(stream) = self.sockets.get_mut(slot as usize).and_then(Option::take) {
            if net.conns.at(slot).kernel & REGISTERED != 0 {
                // Closing the socket below would do as well on every system but one or two.
                let _ = self.poller.delete(&stream);
            }
            net.counters.add(Count::SystemCalls, 2);
        }
        net.conns.at(slot).kernel = 0;
        net.on_released(slot);
    }

    fn reconcile_listeners<M>(&mut self, net: &Net<M>) {
        let wanted = net.wants_accept();
        if wanted == self.accepting {
            return;
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            let result = if wanted {
                let event = Event::readable(LISTENER_KEY + index);
                // SAFETY: listeners are deleted from the poller before they are dropped, here.
                unsafe { self.poller.add_with_mode(listener, event, PollMode::Level) }
            } else {
                self.poller.delete(listener)
            };
            if let Err(error) = result {
                tracing::error!(%error, "cannot register a listener");
            }
        }
        self.accepting = wanted;
        if net.has_stopped_accepting() {
            self.listeners.clear();
        }
    }

    /// Sends datagrams; watches for more until the thread stops.
    fn reconcile_ports<M>(&mut self, net: &mut Net<M>) {
        self.ports.send(net);
        let wanted = !net.is_stopping();
        if wanted == self.are_ports_watched {
            return;
        }
        for (index, socket) in self.ports.sockets().enumerate() {
            let result = if wanted {
                let event = Event::readable(PORT_KEY + index);
                // SAFETY: they live as long as the driver, and are deleted from the poller here, or
                // by the system when a thread that has failed closes them.
                unsafe { self.poller.add_with_mode(socket, event, PollMode::Level) }
            } else {
                self.poller.delete(socket)
            };
            if let Err(error) = result {
                tracing::error!(%error, "cannot register a socket for datagrams");
            }
        }
        self.are_ports_watched = wanted;
        if !wanted {
            self.ports.stop(net);
        }
    }
}

impl Poll {
    fn look<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, ready: Ready) {
        match ready {
            Ready::Listener(listener) => self.accept(reactor, listener),
            Ready::Piece { conn } => {
                if reactor.net.conns.id(conn.slot) == conn {
                    reactor.net.conns.at(conn.slot).kernel &= !DIRECT;
                    self.receive(reactor, conn.slot);
                }
            }
            Ready::Conn { conn, readable, writable, is_dead } => {
                if reactor.net.conns.id(conn.slot) != conn {
                    return;
                }
                let asked = reactor.net.conns.at(conn.slot).kernel;
                if writable {
                    self.writable(reactor, conn.slot);
                }
                if readable && asked & WANTS_READ != 0 {
                    self.receive(reactor, conn.slot);
                } else if asked & WANTS_READ == 0 && is_dead {
                    // Both directions are dead and nobody reads: without this it would be told
                    // again and again.
                    reactor.net.on_hang_up(conn.slot);
                }
            }
        }
    }
}

impl<M: Send + 'static> Driver<M> for Poll {
    type Error = io::Error;

    fn wait(
        &mut self,
        net: &mut Net<M>,
        mut patience: Option<Duration>,
        coalesce: bool,
    ) -> io::Result<Now> {
        if let (true, Some(nap)) = (coalesce, patience) {
            net.counters.add(Count::SystemCalls, 1);
            std::thread::sleep(nap);
            patience = Some(Duration::ZERO);
        }
        if !self.direct.is_empty() || self.ports.have_untold() {
            patience = Some(Duration::ZERO);
        }
        // What was told and is not delivered would be told again.
        if self.ready.is_empty() {
            self.events.clear();
            net.counters.add(Count::SystemCalls, 1);
            match self.poller.wait(&mut self.events, patience) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in self.events.iter() {
                if event.key < LISTENER_KEY {
                    let slot = u32::try_from(event.key).unwrap_or(u32::MAX);
                    let is_dead = event.is_interrupt() || event.is_err() == Some(true);
                    let (readable, writable) = (event.readable, event.writable);
                    let conn = net.conns.id(slot);
                    self.ready.push_back(Ready::Conn { conn, readable, writable, is_dead });
                } else if event.key < PORT_KEY {
                    self.ready.push_back(Ready::Listener(event.key - LISTENER_KEY));
                } else {
                    self.ports.is_readable(event.key - PORT_KEY);
                }
            }
        }
        // Behind what came by itself: that is of connections that do not flood.
        self.ready.extend(self.direct.drain(..));
        Ok(self.clock.now())
    }

    fn deliver(&mut self, reactor: &mut Reactor<M>) {
        while !reactor.net.is_turn_spent()
            && let Some(ready) = self.ready.pop_front()
        {
            self.look(reactor, ready);
        }
    }

    fn deliver_datagrams(&mut self, reactor: &mut Reactor<M>) {
        let is_behind = Driver::<M>::has_more(self);
        self.ports.deliver(reactor, is_behind);
    }

    fn has_more(&self) -> bool {
        !self.ready.is_empty() || !self.direct.is_empty()
    }

    fn reconcile(&mut self, net: &mut Net<M>) {
        self.reconcile_listeners(net);
        self.reconcile_ports(net);
        net.work_off_dirty(|net, slot| self.work_off(net, slot));
    }

    fn trim_memory(&mut self) {
        allocator::trim();
    }
}

fn wanted(state: &Conn, receive: Receive) -> u16 {
    let is_connecting = state.phase() == Phase::Connecting;
    let waits_to_send = state.kernel & BLOCKED != 0 && (state.unsent() > 0 || is_connecting);
    REGISTERED
        | if receive == Receive::Many { WANTS_READ } else { 0 }
        | if waits_to_send { WANTS_WRITE } else { 0 }
}

/// A file that costs nothing but its number.
fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Whether the process, or the system, may have no more open files (accept(2)).
fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let scarce = [Errno::MFILE, Errno::NFILE];
    scarce.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
        || error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error())
}

/// Whether an accept failed because of the connection it would have brought: it was gone before,
/// or a firewall forbids it (accept(2)). The next may be fine.
pub(crate) fn concerns_one_peer(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [
        Errno::AGAIN,
        Errno::INTR,
        Errno::CONNABORTED,
        Errno::PROTO,
        Errno::PERM,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTUNREACH,
        Errno::OPNOTSUPP,
        Errno::TIMEDOUT,
    ];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Binds a socket to a local address, and leaves its port to connect(2) where the system can.
fn bind(socket: &Socket, from: &socket2::SockAddr) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let (on, bytes) = (1_i32, libc::socklen_t::try_from(size_of::<i32>()).unwrap_or(4));
        let (fd, value) = (std::os::fd::AsRawFd::as_raw_fd(socket), (&raw const on).cast());
        let (level, name) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
        // SAFETY: `value` points to an int that lives, of as many bytes as are told. A refusal
        // leaves the port to bind(2), which is as good with few connections.
        let _ = unsafe { libc::setsockopt(fd, level, name, value, bytes) };
    }
    socket.bind(from)
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use rustix::io::Errno;

    use super::{concerns_one_peer, is_out_of_files};

    #[test]
    fn errors_of_accepting_are_told_apart() {
        for (errno, is_peers, is_files) in [
            (Errno::CONNABORTED, true, false),
            (Errno::PERM, true, false),
            (Errno::TIMEDOUT, true, false),
            (Errno::MFILE, false, true),
            (Errno::NFILE, false, true),
            (Errno::INVAL, false, false),
            (Errno::NOMEM, false, false),
        ] {
            let error = Error::from_raw_os_error(errno.raw_os_error());
            let found = (concerns_one_peer(&error), is_out_of_files(&error));
            assert_eq!(found, (is_peers, is_files), "{errno:?}");
        }
    }
}
