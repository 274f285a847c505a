//! TLS between the engine's bytes and the decoders: handshakes, what is sent and what comes.
//!
//! In: bytes as they are on the wire. Out: bytes of HTTP and WebSocket, and, once for each
//! connection, how long its handshake took and whether it resumed a session. A player whose target
//! is http:// has no session here, and its bytes pass by.
//!
//! Each player keeps its own sessions: its first connection is a full handshake, later ones resume,
//! as a client's do. A player that comes in the place of another begins anew.

use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::{ConnId, Output};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup};

use super::Command;
use crate::measure::tls::{TlsChoice, TlsError, client, protocol};

/// Tickets of TLS 1.3 that a player keeps, at most; the oldest go. Each is good for one connection, and
/// OpenSSL gives two with a full handshake and none with a resumed one.
const TICKETS_MAX: usize = 4;

/// What connections have in common.
#[derive(Clone, Debug)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    kept: Arc<Kept>,
}

impl TlsClient {
    /// # Errors
    /// As [`client`].
    pub(crate) fn new(choice: &TlsChoice) -> Result<Self, TlsError> {
        let kept = Arc::new(Kept::default());
        let mut config = client(choice)?;
        if choice.resumes {
            config.resumption = Resumption::store(kept.clone());
        }
        Ok(Self { config: Arc::new(config), kept })
    }
}

/// The sessions of all players.
#[derive(Default)]
pub(super) struct Tls {
    client: Option<TlsClient>,
    /// By player; those without TLS have none.
    sessions: Vec<Option<Box<ClientConnection>>>,
    /// Reused: what is to be sent before it is sealed.
    plain: Vec<u8>,
}

/// What has come over one connection.
pub(super) struct Opened {
    /// The handshake is over with this.
    pub(super) is_secured: bool,
    /// The server has said that nothing more comes.
    pub(super) is_closed: bool,
    pub(super) error: Option<rustls::Error>,
}

/// What a handshake has come to.
pub(super) struct Secured<'a>(&'a ClientConnection);

impl Secured<'_> {
    /// It resumed a session of the same player.
    pub(super) fn is_resumed(&self) -> bool {
        matches!(self.0.handshake_kind(), Some(HandshakeKind::Resumed))
    }

    /// Version and cipher, for people.
    pub(super) fn protocol(&self) -> String {
        protocol(self.0)
    }
}

impl Tls {
    pub(super) fn new(client: Option<TlsClient>) -> Self {
        Self { client, ..Self::default() }
    }

    /// Begins a handshake.
    pub(super) fn begin(
        &mut self,
        (index, conn): (usize, ConnId),
        name: &ServerName<'static>,
        out: &mut Output<Command>,
    ) -> Result<(), rustls::Error> {
        let Some(client) = &self.client else {
            return Err(rustls::Error::General("no configuration".to_owned()));
        };
        client.kept.lock().player = index;
        let mut session = Box::new(ClientConnection::new(client.config.clone(), name.clone())?);
        // A write is bounded by the scenario, and is sealed and handed over at once.
        session.set_buffer_limit(None);
        flush(&mut session, conn, out);
        if self.sessions.len() <= index {
            self.sessions.resize_with(index + 1, || None);
        }
        self.sessions[index] = Some(session);
        Ok(())
    }

    /// Whether the player's connection is TLS.
    pub(super) fn has(&self, index: usize) -> bool {
        matches!(self.sessions.get(index), Some(Some(_)))
    }

    /// Sends what `encode` appends, sealed if the connection is TLS.
    pub(super) fn send_with<R>(
        &mut self,
        (index, conn): (usize, ConnId),
        out: &mut Output<Command>,
        encode: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        let Some(Some(session)) = self.sessions.get_mut(index) else {
            return out.send_with(conn, encode);
        };
        self.plain.clear();
        let result = encode(&mut self.plain);
        // Without a limit of its buffer it takes all.
        let _ = session.writer().write_all(&self.plain);
        flush(session, conn, out);
        result
    }

    /// What was agreed on with the player's server.
    pub(super) fn secured(&self, index: usize) -> Option<Secured<'_>> {
        Some(Secured(self.sessions.get(index)?.as_ref()?))
    }

    /// Opens what has come; the plain bytes are appended to `opened`.
    pub(super) fn open(
        &mut self,
        (index, conn): (usize, ConnId),
        mut bytes: &[u8],
        opened: &mut Vec<u8>,
        out: &mut Output<Command>,
    ) -> Option<Opened> {
        let session = self.sessions.get_mut(index)?.as_mut()?;
        if let Some(client) = &self.client {
            client.kept.lock().player = index;
        }
        let was_handshaking = session.is_handshaking();
        let (mut error, mut is_closed) = (None, false);
        while !bytes.is_empty() && error.is_none() {
            match session.read_tls(&mut bytes) {
                Ok(1..) => {}
                // What stands behind the server's last word.
                Ok(0) => break,
                Err(full) => {
                    error = Some(rustls::Error::General(full.to_string()));
                    break;
                }
            }
            match session.process_new_packets() {
                Ok(state) => is_closed |= state.peer_has_closed(),
                Err(it) => error = Some(it),
            }
            take_plain(session, opened);
        }
        // Answers of the handshake, and an alert when something is wrong.
        flush(session, conn, out);
        let is_secured = was_handshaking && !session.is_handshaking();
        Some(Opened { is_secured, is_closed, error })
    }

    /// Says that nothing more is sent.
    pub(super) fn say_goodbye(
        &mut self,
        (index, conn): (usize, ConnId),
        out: &mut Output<Command>,
    ) {
        if let Some(Some(session)) = self.sessions.get_mut(index) {
            session.send_close_notify();
            flush(session, conn, out);
        }
    }

    /// Forgets the player's connection, but not what resumes it.
    pub(super) fn forget(&mut self, index: usize) {
        if let Some(session) = self.sessions.get_mut(index) {
            *session = None;
        }
    }

    /// Another player comes in this place.
    pub(super) fn arrives(&mut self, index: usize) {
        if let Some(client) = &self.client
            && let Some(slot) = client.kept.lock().of.get_mut(index)
        {
            *slot = None;
        }
    }
}

/// Sends what the session has to send.
fn flush(session: &mut ClientConnection, conn: ConnId, out: &mut Output<Command>) {
    out.send_with(conn, |bytes| {
        while session.wants_write() {
            // A `Vec` takes everything.
            if !matches!(session.write_tls(bytes), Ok(1..)) {
                return;
            }
        }
    });
}

fn take_plain(session: &mut ClientConnection, opened: &mut Vec<u8>) {
    let mut reader = session.reader();
    loop {
        let count = match reader.fill_buf() {
            Ok([]) | Err(_) => return,
            Ok(bytes) => {
                opened.extend_from_slice(bytes);
                bytes.len()
            }
        };
        reader.consume(count);
    }
}

/// What is kept of players to resume their sessions with. One generator is one thread: the lock is
/// never waited for.
#[derive(Default)]
struct Kept(Mutex<KeptOf>);

#[derive(Default)]
struct KeptOf {
    /// Whose connection is at work.
    player: usize,
    of: Vec<Option<Box<Session>>>,
}

/// One player's.
#[derive(Default)]
struct Session {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// The newest at the end.
    tls13: Vec<Tls13ClientSessionValue>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, KeptOf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept of the player at work.
    fn with<R>(&self, what: impl FnOnce(&mut Session) -> R) -> R {
        let mut kept = self.lock();
        let player = kept.player;
        if kept.of.len() <= player {
            kept.of.resize_with(player + 1, || None);
        }
        what(kept.of[player].get_or_insert_default())
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets stand in it.
        out.write_str("Kept")
    }
}

impl ClientSessionStore for Kept {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.with(|it| it.group = Some(group));
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.with(|it| it.group)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.with(|it| it.tls12 = Some(value));
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.with(|it| it.tls12.clone())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.with(|it| it.tls12 = None);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.with(|it| {
            if it.tls13.len() >= TICKETS_MAX {
                it.tls13.remove(0);
            }
            it.tls13.push(value);
        });
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.with(|it| it.tls13.pop())
    }
}
