//! A player's side in Rust: log in, open a socket, call functions, be in matches, and send and get what may be
//! lost by datagram (docs/datagrams.md). Blocking, one thread, no TLS: for bots, tools, and games that have a loop
//! of their own.
//!
//! ```no_run
//! # fn main() -> Result<(), client::ClientError> {
//! let server = client::Server::new("127.0.0.1:7350", "defaultkey");
//! let token = server.authenticate_device("a device of 10 letters or more", "ada")?;
//! let mut client = client::Client::connect(&server, &token)?;
//! client.open_datagrams()?;
//! client.join_match("…")?;
//! client.send_losable("…", 2, b"where I am");
//! while let Some(message) = client.next(std::time::Duration::from_millis(50))? {
//!     println!("opcode {}: {} bytes", message.op_code, message.data.len());
//! }
//! # Ok(()) }
//! ```
//!
//! Data in: bytes of a TCP connection and of a UDP socket. Data out: messages of matches, in the order in which
//! they come. What is deliberately not here: what matches say (`world` reads the zone's packets), reconnecting, and
//! calls of the API but the two that a player begins with.

#![forbid(unsafe_code)]

mod datagrams;
mod http;
mod socket;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;
use wire::nakama::Envelope;
use wire::nakama::realtime::{self, Message};

pub use datagrams::{Datagrams, Grant, Opened};
pub use http::Server;
use socket::Socket;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// Messages that wait to be taken by [`Client::next`]; of more the oldest are dropped.
const WAITING_MAX: usize = 4_096;

/// Why something did not work.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The system says no.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server says no: its code and text.
    #[error("{text} (code {code})")]
    Refused {
        /// Of the protocol.
        code: i32,
        /// The server's words.
        text: String,
    },
    /// The server says what this does not understand.
    #[error("the server does not speak as expected: {0}")]
    Protocol(String),
    /// Nothing came in time.
    #[error("no answer within {} s", ANSWER.as_secs())]
    Late,
    /// The socket is closed, with the server's words.
    #[error("the socket is closed: {0}")]
    Closed(String),
}

/// A message of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchMessage {
    /// The uuid with which the match's id begins.
    pub match_uuid: String,
    /// The opcode.
    pub op_code: i64,
    /// The sender's user id, unless it is the server.
    pub sender: Option<String>,
    /// The payload.
    pub data: Vec<u8>,
    /// Whether it came by datagram.
    pub by_datagram: bool,
}

/// A session.
pub struct Client {
    socket: Socket,
    server: SocketAddr,
    way: Option<(UdpSocket, Datagrams)>,
    began: Instant,
    calls: u64,
    waiting: VecDeque<MatchMessage>,
    answers: VecDeque<Envelope>,
}

impl Client {
    /// Opens a socket for who has this token.
    ///
    /// # Errors
    /// [`ClientError`]: nobody listens, or the token does not count.
    pub fn connect(server: &Server, token: &str) -> Result<Self, ClientError> {
        let socket = Socket::open(server, token)?;
        Ok(Self {
            server: socket.peer()?,
            socket,
            way: None,
            began: Instant::now(),
            calls: 0,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
        })
    }

    /// Calls an RPC function; gives its payload.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn rpc(&mut self, id: &str, payload: &str) -> Result<String, ClientError> {
        let (id, payload) = (id.to_owned(), payload.to_owned());
        let call = realtime::Rpc { id, payload, ..Default::default() };
        match self.call(Message::Rpc(call))? {
            Some(Message::Rpc(answer)) => Ok(answer.payload),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// Enters a match.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn join_match(&mut self, match_id: &str) -> Result<(), ClientError> {
        let match_id = Some(match_id.to_owned());
        let join = realtime::MatchJoin { match_id, ..Default::default() };
        match self.call(Message::MatchJoin(join))? {
            Some(Message::Match(_)) => Ok(()),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// Leaves it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn leave_match(&mut self, match_id: &str) -> Result<(), ClientError> {
        let leave = realtime::MatchLeave { match_id: match_id.to_owned() };
        self.call(Message::MatchLeave(leave)).map(drop)
    }

    /// Asks for datagrams, and waits until they come through.
    ///
    /// # Errors
    /// [`ClientError`]; everything still goes over the socket.
    pub fn open_datagrams(&mut self) -> Result<(), ClientError> {
        let grant: Grant = serde_json::from_str(&self.rpc("throng_datagrams", "")?)
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let to = match &*grant.host {
            "" => SocketAddr::new(self.server.ip(), grant.port),
            host => (host, grant.port).to_socket_addrs()?.next().ok_or(ClientError::Late)?,
        };
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let udp = UdpSocket::bind(any)?;
        udp.connect(to)?;
        udp.set_nonblocking(true)?;
        let datagrams = Datagrams::new(&grant).ok_or_else(|| {
            ClientError::Protocol(format!("a grant of version {}", grant.version))
        })?;
        self.way = Some((udp, datagrams));
        let until = Instant::now() + ANSWER;
        while !self.has_datagrams() {
            if Instant::now() >= until {
                self.way = None;
                return Err(ClientError::Late);
            }
            self.wait(Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Whether datagrams come through, as far as can be known.
    #[must_use]
    pub fn has_datagrams(&self) -> bool {
        self.way.as_ref().is_some_and(|(_, datagrams)| datagrams.is_open())
    }

    /// Sends a message to a match over the socket.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn send(&mut self, match_id: &str, op_code: i64, data: &[u8]) -> Result<(), ClientError> {
        let data = data.to_vec().into();
        let match_id = match_id.to_owned();
        let send = realtime::MatchDataSend {
            match_id,
            op_code,
            data,
            reliable: true,
            ..Default::default()
        };
        let message = Some(Message::MatchDataSend(send));
        self.socket.send(&Envelope { cid: String::new(), message })
    }

    /// Sends a message to a match that may be lost: by datagram if those come through and it fits, else over the
    /// socket.
    ///
    /// # Errors
    /// [`ClientError`], of the socket: what a datagram meets on its way nobody hears of.
    pub fn send_losable(
        &mut self,
        match_id: &str,
        op_code: i32,
        data: &[u8],
    ) -> Result<(), ClientError> {
        if let Some((udp, datagrams)) = self.way.as_mut().filter(|(_, way)| way.is_open())
            && let Some(datagram) = datagrams.message(match_id, op_code, data)
        {
            // A full or refusing socket has lost it, as the way may.
            let _ = udp.send(&datagram);
            return Ok(());
        }
        self.send(match_id, op_code.into(), data)
    }

    /// The next message of a match, if one comes within this time.
    ///
    /// # Errors
    /// [`ClientError`]: the socket is closed, or says what cannot be read.
    pub fn next(&mut self, within: Duration) -> Result<Option<MatchMessage>, ClientError> {
        let until = Instant::now() + within;
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(Some(message));
            }
            let left = until.saturating_duration_since(Instant::now());
            self.wait(left)?;
            if self.waiting.is_empty() && left.is_zero() {
                return Ok(None);
            }
        }
    }

    fn call(&mut self, message: Message) -> Result<Option<Message>, ClientError> {
        self.calls += 1;
        let cid = self.calls.to_string();
        self.socket.send(&Envelope { cid: cid.clone(), message: Some(message) })?;
        let until = Instant::now() + ANSWER;
        loop {
            while let Some(answer) = self.answers.pop_front() {
                match answer.message {
                    _ if answer.cid != cid => {}
                    Some(Message::Error(realtime::Error { code, message: text, .. })) => {
                        return Err(ClientError::Refused { code, text });
                    }
                    message => return Ok(message),
                }
            }
            if Instant::now() >= until {
                return Err(ClientError::Late);
            }
            self.wait(Duration::from_millis(100))?;
        }
    }

    /// Waits for so long at most until something comes, and takes all that is there.
    fn wait(&mut self, within: Duration) -> Result<(), ClientError> {
        let now = self.began.elapsed();
        let mut within = within;
        if let Some((udp, datagrams)) = &mut self.way {
            if let Some(datagram) = datagrams.due(now) {
                let _ = udp.send(&datagram);
            }
            within = within.min(datagrams.next_due().saturating_sub(now));
        }
        let timeout = Timespec::try_from(within).ok();
        let mut fds = vec![PollFd::new(self.socket.stream(), PollFlags::IN)];
        fds.extend(self.way.as_ref().map(|(udp, _)| PollFd::new(udp, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ClientError::Io(error.into())),
        }
        self.take_datagrams();
        for envelope in self.socket.take()? {
            match envelope.message {
                Some(Message::MatchData(data)) => self.keep(MatchMessage {
                    match_uuid: data.match_id.split('.').next().unwrap_or_default().to_owned(),
                    op_code: data.op_code,
                    sender: data.presence.map(|presence| presence.user_id),
                    data: data.data.to_vec(),
                    by_datagram: false,
                }),
                _ if envelope.cid.is_empty() => {}
                _ => self.answers.push_back(envelope),
            }
        }
        Ok(())
    }

    fn take_datagrams(&mut self) {
        let mut buffer = [0; wire::datagram::BYTES_MAX + 1];
        let now = self.began.elapsed();
        let mut came = Vec::new();
        if let Some((udp, datagrams)) = &mut self.way {
            // One that is refused or torn is a lost one; what the socket cannot give now comes later.
            while let Ok(len) = udp.recv(&mut buffer) {
                let heard = datagrams.heard(now, buffer.get(..len).unwrap_or_default());
                came.extend(heard.message);
                if let Some(answer) = heard.answer {
                    let _ = udp.send(&answer);
                }
            }
        }
        came.into_iter().for_each(|message| self.keep(message));
    }

    fn keep(&mut self, message: MatchMessage) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(message);
    }
}

fn unexpected(message: Option<&Message>) -> ClientError {
    ClientError::Protocol(format!("answered {}", message.map_or("nothing", Message::name)))
}
