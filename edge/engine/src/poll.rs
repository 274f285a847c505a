//! The readiness driver: asks the poller which sockets are ready, then reads and writes them with
//! ordinary calls. Portable; the side of every comparison, and the oracle of the ring driver.
//!
//! Decides nothing: see `net`. Registered level-triggered, one receive for each event, so a
//! flooding connection gets one buffer a turn like everybody else.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use event::{CloseReason, ListenerId};
use polling::{Event, Events, PollMode, Poller};
use socket2::{Domain, Protocol, Socket, Type};

use crate::conns::{Conn, Phase};
use crate::counters::Count;
use crate::driver::Driver;
use crate::mailbox::Wake;
use crate::net::{Net, Scarce};
use crate::reactor::Reactor;

/// One receive takes at most this much.
const RECEIVE_BYTES: usize = 64 << 10;
/// Connections taken from one listener in one turn.
const ACCEPTS_PER_TURN_MAX: usize = 64;
/// Sends on one connection in one turn; what is left waits for the socket to be writable.
const SENDS_PER_TURN_MAX: usize = 16;
/// Keys from here on are listeners; slots of connections are far below.
const LISTENER_KEY: usize = usize::MAX / 2;

/// A conn's `kernel` bits of this driver: what the poller has been told, and what the socket has.
const WANTS_READ: u8 = 1;
const WANTS_WRITE: u8 = 2;
const REGISTERED: u8 = 4;
const SHUT: u8 = 8;
const BLOCKED: u8 = 16;

/// The driver, with all sockets of its thread.
pub(crate) struct Poll {
    poller: Arc<Poller>,
    events: Events,
    ready: Vec<Event>,
    listeners: Vec<TcpListener>,
    accepting: bool,
    sockets: Vec<Option<TcpStream>>,
    buffer: Vec<u8>,
    /// A file that is given up to accept one more connection when there are no more.
    reserve: Option<File>,
}

impl Wake for Poller {
    fn wake(&self) {
        if let Err(error) = self.notify() {
            tracing::error!(%error, "cannot wake a thread");
        }
    }
}

impl Poll {
    pub(crate) fn new(poller: Arc<Poller>, listeners: Vec<TcpListener>) -> io::Result<Self> {
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        Ok(Self {
            poller,
            events: Events::new(),
            ready: Vec::new(),
            listeners,
            accepting: false,
            sockets: Vec::new(),
            buffer: vec![0; RECEIVE_BYTES],
            reserve: reserve(),
        })
    }

    fn accept<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, listener: usize) {
        let Ok(id) = u16::try_from(listener) else { return };
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
        self.sockets[index] = Some(stream);
    }

    fn receive<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, slot: u32) {
        if !reactor.net.conns.at(slot).wants_input() {
            return;
        }
        let Some(Some(stream)) = self.sockets.get_mut(slot as usize) else { return };
        reactor.net.counters.add(Count::SystemCalls, 1);
        match stream.read(&mut self.buffer) {
            Ok(0) => {
                reactor.on_eof(slot);
                reactor.net.touch(slot);
            }
            Ok(len) => {
                // These bytes may have come after the mail was looked at, because of an answer
                // that another thread gave after posting to this one.
                reactor.take_mail();
                reactor.on_bytes(slot, &self.buffer[..len]);
            }
            Err(error) if is_transient(&error) => {}
            Err(_) => reactor.net.fail(slot, CloseReason::Reset),
        }
    }

    /// The socket is ready for sending, or its connecting has come to an end.
    fn writable<M: Send + 'static>(&mut self, reactor: &mut Reactor<M>, slot: u32) {
        let Some(Some(stream)) = self.sockets.get(slot as usize) else { return };
        let state = reactor.net.conns.at(slot);
        state.kernel &= !BLOCKED;
        if state.phase != Phase::Connecting {
            return reactor.net.touch(slot);
        }
        match (stream.take_error(), stream.peer_addr()) {
            (Ok(None), Ok(_)) => reactor.on_connected(slot),
            (Ok(None), Err(error)) if error.kind() == ErrorKind::NotConnected => {}
            (Ok(Some(error)) | Err(error), _) | (_, Err(error)) => {
                reactor.net.fail(slot, crate::connect::failed(&error));
            }
        }
    }

    fn start_connecting<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let Some((to, _)) = net.connecting.get(&slot).copied() else { return };
        net.counters.add(Count::SystemCalls, 4);
        let begun = (|| {
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(true)?;
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
            Err(error) => net.fail(slot, crate::connect::failed(&error)),
        }
    }

    /// Sends what is queued until the socket has had enough.
    fn send<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let Some(Some(stream)) = self.sockets.get_mut(slot as usize) else { return };
        for _ in 0..SENDS_PER_TURN_MAX {
            let state = net.conns.at(slot);
            if state.kernel & BLOCKED != 0 || !matches!(state.phase, Phase::Open | Phase::Flushing)
            {
                return;
            }
            let Some(out) = &mut state.out else { return };
            let Some(bytes) = out.pin() else { return };
            let len = bytes.len();
            let result = stream.write(bytes);
            out.unpin();
            net.counters.add(Count::SystemCalls, 1);
            match result {
                Ok(sent) => {
                    if sent < len {
                        net.conns.at(slot).kernel |= BLOCKED;
                    }
                    net.on_sent(slot, sent);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => state.kernel |= BLOCKED,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => net.fail(slot, CloseReason::Reset),
            }
        }
        let state = net.conns.at(slot);
        if state.unsent() > 0 {
            state.kernel |= BLOCKED;
        }
    }

    fn work_off<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let phase = net.conns.at(slot).phase;
        if phase == Phase::Connecting && self.sockets.get(slot as usize).is_none_or(Option::is_none)
        {
            self.start_connecting(net, slot);
        }
        self.send(net, slot);
        let state = net.conns.at(slot);
        match state.phase {
            Phase::Free | Phase::Gone => return,
            Phase::Dying => return self.release(net, slot),
            Phase::Lingering if state.kernel & SHUT == 0 => {
                state.kernel |= SHUT;
                if let Some(Some(stream)) = self.sockets.get(slot as usize) {
                    // It fails when the peer has reset the connection; reading will tell.
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    net.counters.add(Count::SystemCalls, 1);
                }
            }
            Phase::Connecting | Phase::Open | Phase::Flushing | Phase::Lingering => {}
        }
        self.register(net, slot);
    }

    /// Tells the poller what the connection waits for, if that has changed.
    fn register<M>(&mut self, net: &mut Net<M>, slot: u32) {
        let Some(Some(stream)) = self.sockets.get(slot as usize) else { return };
        let state = net.conns.at(slot);
        let wanted = wanted(state);
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
            net.fail(slot, CloseReason::Reset);
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
        if !net.accepting {
            self.listeners.clear();
        }
    }
}

impl<M: Send + 'static> Driver<M> for Poll {
    fn wait(
        &mut self,
        reactor: &mut Reactor<M>,
        mut patience: Option<Duration>,
        gather: bool,
    ) -> io::Result<()> {
        if let (true, Some(nap)) = (gather, patience) {
            reactor.net.counters.add(Count::SystemCalls, 1);
            std::thread::sleep(nap);
            patience = Some(Duration::ZERO);
        }
        self.events.clear();
        reactor.net.counters.add(Count::SystemCalls, 1);
        match self.poller.wait(&mut self.events, patience) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        self.ready.clear();
        self.ready.extend(self.events.iter());
        Ok(())
    }

    fn deliver(&mut self, reactor: &mut Reactor<M>) {
        let ready = std::mem::take(&mut self.ready);
        for event in &ready {
            if event.key >= LISTENER_KEY {
                self.accept(reactor, event.key - LISTENER_KEY);
                continue;
            }
            let Ok(slot) = u32::try_from(event.key) else { continue };
            let asked = reactor.net.conns.at(slot).kernel;
            if event.writable {
                self.writable(reactor, slot);
            }
            if event.readable && asked & WANTS_READ != 0 {
                self.receive(reactor, slot);
            } else if asked & WANTS_READ == 0
                && reactor.net.conns.at(slot).phase != Phase::Connecting
                && (event.is_interrupt() || event.is_err() == Some(true))
            {
                // Both directions are dead and nobody reads: without this it would be told again
                // and again.
                reactor.net.fail(slot, CloseReason::Reset);
            }
        }
        self.ready = ready;
    }

    fn reconcile(&mut self, reactor: &mut Reactor<M>) {
        self.reconcile_listeners(&reactor.net);
        reactor.net.work_off_dirty(|net, slot| self.work_off(net, slot));
    }
}

fn wanted(state: &Conn) -> u8 {
    let waits_to_send =
        state.kernel & BLOCKED != 0 && (state.unsent() > 0 || state.phase == Phase::Connecting);
    REGISTERED
        | if state.wants_input() { WANTS_READ } else { 0 }
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
