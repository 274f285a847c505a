//! A connection that never waits, once it stands: what is to be sent lies in a buffer until the kernel
//! takes it, what has come is lent with the moment at which it came.
//!
//! Over TLS what is sent is sealed, and what comes is opened, on the way; the handshake is waited for,
//! and timed apart. Bytes of the traffic are those inside.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use super::super::plan::Plan;
use super::{Clock, Gone, Traffic, would_wait};
use crate::load::record::tls;
use crate::load::view::advice::cure_of;
use crate::measure::text::one_line;
use crate::measure::tls::protocol;
use crate::peer::patience::Patience;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Likewise within a handshake.
const HANDSHAKE_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    session: Option<Box<ClientConnection>>,
    /// What is to be sent.
    pub(super) out: Vec<u8>,
    sent: usize,
    until: usize,
    inbox: Vec<u8>,
    traffic: Traffic,
}

/// Connects, with the time that it took in `traffic`.
pub(super) fn connect(plan: &Plan, clock: Clock, traffic: &mut Traffic) -> Result<TcpStream, Gone> {
    let from_ns = clock.now();
    let stream = plan.patience().connect(plan.place.addr, plan.needs_server())?;
    traffic.connecting.connect.record(clock.now() - from_ns, 1);
    stream.set_nodelay(true).map_err(Gone::Network)?;
    Ok(stream)
}

impl Wire {
    /// Of a connection whose opening words have been exchanged.
    pub(super) fn new(stream: TcpStream, traffic: Traffic) -> Result<Self, Gone> {
        stream.set_nonblocking(true).map_err(Gone::Network)?;
        let inbox = vec![0; READ_BYTES];
        Ok(Self { stream, session: None, out: Vec::new(), sent: 0, until: 0, inbox, traffic })
    }

    /// Connects, and agrees on keys where TLS is spoken, with the times of both in `traffic`.
    pub(super) fn connect(
        plan: &Plan,
        config: Option<&Arc<ClientConfig>>,
        clock: Clock,
        traffic: &mut Traffic,
    ) -> Result<Self, Gone> {
        let mut wire = Self::new(connect(plan, clock, traffic)?, Traffic::default())?;
        if let (Some(config), Some(name)) = (config, &plan.place.tls_name) {
            let from_ns = clock.now();
            let session = handshake(&wire.stream, config, name, plan.patience())?;
            let connecting = &mut traffic.connecting;
            connecting.handshake.record(clock.now() - from_ns, 1);
            if matches!(session.handshake_kind(), Some(HandshakeKind::Resumed)) {
                connecting.resumed += 1;
            } else {
                connecting.full += 1;
            }
            if connecting.protocol.is_empty() {
                connecting.protocol = protocol(&session);
            }
            wire.session = Some(session);
        }
        Ok(wire)
    }

    pub(super) fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags) {
        let out = if self.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
        (self.stream.as_fd(), PollFlags::IN | out)
    }

    /// Waits for what [`Self::waits_on`] says, but not for longer than a look.
    pub(super) fn wait(&self, patience: Patience<'_>) -> Result<bool, Gone> {
        let (fd, flags) = self.waits_on();
        patience.wait(fd, flags)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.session.as_ref().map_or(self.sent < self.until, |it| it.wants_write())
    }

    /// Begins to send the first `len` bytes of `out`; when that was.
    pub(super) fn begin(&mut self, clock: Clock, len: usize) -> Result<u64, Gone> {
        (self.sent, self.until) = (0, len.min(self.out.len()));
        let sent_ns = clock.now();
        if let (Some(session), Some(plain)) = (&mut self.session, self.out.get(..self.until)) {
            // Without a limit of its buffer it takes all.
            session.writer().write_all(plain).map_err(Gone::of)?;
            self.traffic.sent_bytes += plain.len() as u64;
        }
        self.go_on()?;
        Ok(sent_ns)
    }

    pub(super) fn go_on(&mut self) -> Result<(), Gone> {
        if let Some(session) = &mut self.session {
            return flush(session, &self.stream);
        }
        while let Some(rest) = self.out.get(self.sent..self.until).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(len) => {
                    self.sent += len;
                    self.traffic.sent_bytes += len as u64;
                }
                Err(error) if would_wait(&error) => break,
                Err(error) => return Err(Gone::of(error)),
            }
        }
        Ok(())
    }

    /// What has come, and when; nothing if nothing has.
    pub(super) fn read(&mut self, clock: Clock) -> Result<Option<(&[u8], u64)>, Gone> {
        let read = match &mut self.session {
            Some(session) => open(session, &self.stream, &mut self.inbox)?,
            None => match self.stream.read(&mut self.inbox) {
                Ok(len) => Some(len),
                Err(error) if would_wait(&error) => None,
                Err(error) => return Err(Gone::of(error)),
            },
        };
        match read {
            None => Ok(None),
            Some(0) => Err(Gone::Closed),
            Some(len) => {
                let at_ns = clock.now();
                self.traffic.received_bytes += len as u64;
                Ok(self.inbox.get(..len).map(|bytes| (bytes, at_ns)))
            }
        }
    }

    /// Counts what came about before.
    pub(super) fn add_traffic(&mut self, traffic: Traffic) {
        self.traffic = traffic;
    }

    pub(super) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}

/// Agrees on keys with the server of this name.
fn handshake(
    mut stream: &TcpStream,
    config: &Arc<ClientConfig>,
    name: &ServerName<'static>,
    patience: Patience<'_>,
) -> Result<Box<ClientConnection>, Gone> {
    let session = ClientConnection::new(config.clone(), name.clone());
    let mut session = Box::new(session.map_err(|error| refused(&error, &[]))?);
    // A write is bounded by the size of a ping, and is sealed and handed over at once.
    session.set_buffer_limit(None);
    let mut bytes = [0; HANDSHAKE_BYTES];
    flush(&mut session, stream)?;
    while session.is_handshaking() {
        let out = if session.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
        if !patience.wait(stream, PollFlags::IN | out)? {
            if patience.is_up() {
                return Err(Gone::Tls(format!(
                    "TLS: the server does not answer the handshake within {} s: does that port speak \
                     TLS?",
                    patience.timeout().as_secs_f32()
                )));
            }
            continue;
        }
        flush(&mut session, stream)?;
        match stream.read(&mut bytes) {
            Ok(0) => {
                let text =
                    "TLS: the server hung up within the handshake: does that port speak TLS?";
                return Err(Gone::Tls(text.to_owned()));
            }
            Ok(len) => {
                let fed = feed(&mut session, &bytes[..len]);
                // Answers of the handshake, and an alert when something is wrong.
                let flushed = flush(&mut session, stream);
                fed.map_err(|error| refused(&error, &bytes[..len])).and(flushed)?;
            }
            Err(error) if would_wait(&error) => {}
            Err(error) => return Err(Gone::of(error)),
        }
    }
    Ok(session)
}

/// Gives the session what has come.
fn feed(session: &mut ClientConnection, mut bytes: &[u8]) -> Result<(), rustls::Error> {
    while !bytes.is_empty() {
        match session.read_tls(&mut bytes) {
            Ok(1..) => session.process_new_packets()?,
            // What stands behind the server's last word.
            Ok(0) => return Ok(()),
            Err(full) => return Err(rustls::Error::General(full.to_string())),
        };
    }
    Ok(())
}

/// What is wrong, and what cures it.
fn refused(error: &rustls::Error, bytes: &[u8]) -> Gone {
    let (kind, example) = tls::of(error, bytes);
    let cure = cure_of(kind.cause, &example).unwrap_or("look at the server's log");
    Gone::Tls(format!("{} ({}): {cure}", kind.text, one_line(&example)))
}

/// Hands over what the session has to send, as far as the kernel takes it.
fn flush(session: &mut ClientConnection, mut stream: &TcpStream) -> Result<(), Gone> {
    while session.wants_write() {
        match session.write_tls(&mut stream) {
            Ok(_) => {}
            Err(error) if would_wait(&error) => return Ok(()),
            Err(error) => return Err(Gone::of(error)),
        }
    }
    Ok(())
}

/// Opens what has come into `inbox`: how many bytes, 0 at the server's last word; none if nothing has.
fn open(
    session: &mut ClientConnection,
    mut stream: &TcpStream,
    inbox: &mut [u8],
) -> Result<Option<usize>, Gone> {
    loop {
        // What came behind a handshake, or in one piece with the last.
        match session.reader().read(inbox) {
            Ok(len) => return Ok(Some(len)),
            Err(error) if would_wait(&error) => {}
            // The connection ended without that word: somebody may have cut it.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(Gone::Reset),
            Err(error) => return Err(Gone::of(error)),
        }
        match session.read_tls(&mut stream) {
            Ok(_) => {}
            Err(error) if would_wait(&error) => return Ok(None),
            Err(error) => return Err(Gone::of(error)),
        }
        session.process_new_packets().map_err(|error| refused(&error, &[]))?;
        // Keys may change.
        flush(session, stream)?;
    }
}
