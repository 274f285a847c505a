//! `throng ping serve`: answers every kind of ping and of flow on one port, until it is told to stop.
//!
//! TCP and UDP share the port. A connection begins with a line of the protocol (see `protocol`), or
//! speaks HTTP; each has a thread that waits in read(2), which is as fast as a plain server gets.
//! Datagrams are answered by one thread, and only those of an open session, to the address that
//! opened it by TCP: so an answer is never longer than its question, nor sent to anybody who has
//! not proved where he is. Datagrams of a flow have sockets of their own at the same port, connected
//! to their senders, and a thread each.
//!
//! In: an address, limits and a token. Out: what happens, told as it does, and counts at the end.
//! Everything is bounded: connections (sockets of a flow's datagrams count as such), flows at once and
//! bytes in memory, each in all and of one client; wrong tokens of a client; time for a first line and
//! for a flow to begin; silence. Whoever has taken all that one client may leaves something to the next.

mod connection;
mod datagrams;
mod flow;
mod http;
mod shares;
mod state;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use state::State;
pub use state::{Counts, Happening};

/// Bytes of an HTTP body or a message of WebSocket, at most.
pub(crate) const BODY_BYTES_MAX: u32 = 1 << 20;
/// How often waiting threads look whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long connections may take to end when the server stops.
const END_MAX: Duration = Duration::from_secs(1);
/// Ports that are tried when the system chooses one for TCP that is taken for UDP.
const TRIES_MAX: u32 = 16;
/// Stack of a connection's thread in bytes: its buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;
/// Pause when the system has no open file or thread left.
const BREATH: Duration = Duration::from_millis(20);

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where; port 0 lets the system choose.
    pub address: SocketAddr,
    /// What clients have to say; needed to listen wider than loopback.
    pub token: Option<String>,
    /// Connections in all.
    pub connections_max: u32,
    /// Connections of one address of IPv4, or one /64 of IPv6.
    pub per_address_max: u32,
    /// Flows at once, of everybody; one address may have all but one of them.
    pub flows_max: u32,
    /// Bits a second of datagrams that one flow is sent at most.
    pub send_bits_max: f64,
    /// Whether flows may be received by AF_XDP, which puts a program before the interface for as long.
    pub takes_frames: bool,
}

/// Why it does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Nobody may reach it without proving anything.
    #[error(
        "{0} can be reached by others: give --token TOKEN (or THRONG_TOKEN in the environment), \
         which clients then have to say, or listen on 127.0.0.1"
    )]
    Open(IpAddr),
    /// Not a token.
    #[error(
        "a token is one word of 1 to {} visible ASCII characters",
        super::protocol::TOKEN_BYTES_MAX
    )]
    Token,
    /// The port is taken.
    #[error(
        "{protocol} port {address} is taken by another program (`ss -lnp` tells which): end it, or \
         name another port with --port"
    )]
    Taken {
        /// TCP or UDP.
        protocol: &'static str,
        /// Asked for.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("cannot listen on {address}: {error} (--address, --port)")]
    Listen {
        /// Asked for.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// No thread.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    socket: UdpSocket,
    address: SocketAddr,
    state: Arc<State>,
}

impl Server {
    /// Listens; connections wait until [`Self::run`].
    ///
    /// # Errors
    /// When the address is not this machine's, or taken, or would be open to everybody.
    pub fn bind(
        options: ServeOptions,
        tell: impl Fn(&Happening) + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        let ip = options.address.ip();
        if !ip.is_loopback() && options.token.is_none() {
            return Err(ServeError::Open(ip));
        }
        if options.token.as_deref().is_some_and(|it| !super::protocol::is_token(it)) {
            return Err(ServeError::Token);
        }
        let (listener, socket, address) = listen(options.address)?;
        let state = Arc::new(State::new(options, Box::new(tell)));
        Ok(Self { listener, socket, address, state })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `is_over` says so. Its counts.
    ///
    /// # Errors
    /// When no thread can be started at the beginning.
    pub fn run(self, is_over: impl Fn() -> bool) -> Result<Counts, ServeError> {
        let Self { listener, socket, state, .. } = self;
        let of_datagrams = state.clone();
        let datagrams = std::thread::Builder::new()
            .name("ping-datagrams".to_owned())
            .spawn(move || {
                datagrams::answer(&socket, &of_datagrams);
                socket
            })
            .map_err(ServeError::Thread)?;
        while !is_over() {
            if is_waiting(&listener) {
                accept(&listener, &state);
            }
        }
        drop(listener);
        state.stop(END_MAX);
        // It has looked by now. Only now is its socket closed: a client that sends until the end
        // hears from its session why it ends, and not from the system that nobody listens.
        drop(datagrams.join());
        Ok(state.counts())
    }
}

/// Both sockets at one port.
fn listen(address: SocketAddr) -> Result<(TcpListener, UdpSocket, SocketAddr), ServeError> {
    let wrong = |protocol, address, error: std::io::Error| match error.kind() {
        ErrorKind::AddrInUse => ServeError::Taken { protocol, address },
        _ => ServeError::Listen { address, error },
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let listener = TcpListener::bind(address).map_err(|it| wrong("TCP", address, it))?;
        let bound = listener.local_addr().map_err(|it| wrong("TCP", address, it))?;
        listener.set_nonblocking(true).map_err(|it| wrong("TCP", bound, it))?;
        match UdpSocket::bind(bound) {
            Ok(socket) => {
                let looks = socket.set_read_timeout(Some(LOOK));
                looks.map_err(|it| wrong("UDP", bound, it))?;
                // Only now: who else had the port has been found out. Programs of the same user may
                // share it from here on, as the sockets of flows do (socket(7)).
                let shared = rustix::net::sockopt::set_socket_reuseport(&socket, true);
                shared.map_err(|it| wrong("UDP", bound, it.into()))?;
                return Ok((listener, socket, bound));
            }
            // The system chose a port that is free for TCP alone.
            Err(error)
                if address.port() == 0
                    && error.kind() == ErrorKind::AddrInUse
                    && tries < TRIES_MAX => {}
            Err(error) => return Err(wrong("UDP", bound, error)),
        }
    }
}

/// Waits a moment for a connection.
fn is_waiting(listener: &TcpListener) -> bool {
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(LOOK.as_nanos()).unwrap_or(0) };
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    let (stream, peer) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error)
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) =>
        {
            return;
        }
        Err(_) => {
            // No open file left, most likely: some connection has to end first.
            state.count(|it| it.refused_busy += 1);
            std::thread::sleep(BREATH);
            return;
        }
    };
    let Some(place) = state.place(peer.ip()) else {
        connection::turn_away(stream, state, peer);
        return;
    };
    let of_connection = state.clone();
    let thread = std::thread::Builder::new().name("ping-peer".to_owned()).stack_size(STACK_BYTES);
    let started = thread.spawn(move || connection::serve(stream, peer, &of_connection, place));
    if started.is_err() {
        // The connection is closed with what could not be started.
        state.count(|it| it.refused_busy += 1);
        std::thread::sleep(BREATH);
    }
}
