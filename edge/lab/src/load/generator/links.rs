//! Players' connections: who has which, from the attempt to connect through TLS to HTTP or
//! WebSocket, and the way onto and off the wire. What is said over them is decided elsewhere.

use std::sync::Arc;

use event::{ConnId, Output};
use wire::http1::ResponseDecoder;
use wire::websocket::{self, Role};

use super::tls::{Opened, Secured, Tls};
use super::{Command, Settings};

/// Bytes of one message from the server, at most.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// How far a player's connection is.
#[derive(Debug, Default)]
pub(super) enum Link {
    /// No connection.
    #[default]
    None,
    /// TCP is being connected.
    Connecting,
    /// TCP stands, and TLS is being agreed on.
    Securing,
    /// Speaks HTTP.
    Http {
        decoder: ResponseDecoder,
        /// Part of a response has come.
        is_partial: bool,
    },
    /// Asked for a socket with this key.
    Upgrading { decoder: ResponseDecoder, key: [u8; 16] },
    /// Speaks WebSocket.
    Socket(websocket::Decoder),
}

/// One player's.
#[derive(Debug, Default)]
struct Slot {
    link: Link,
    conn: Option<ConnId>,
    /// Rises with every attempt to connect, so that a late answer is told from a fresh one. Goes on
    /// when another player comes in this place.
    attempt: u32,
}

/// All players' connections.
pub(super) struct Links {
    settings: Arc<Settings>,
    /// By player.
    slots: Vec<Slot>,
    /// By connection slot: its generation and player.
    conns: Vec<Option<(u32, u32)>>,
    tls: Tls,
    connecting: u32,
    connections: u32,
    sockets: u32,
}

impl Links {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            tls: Tls::new(settings.tls.clone()),
            settings,
            slots: Vec::new(),
            conns: Vec::new(),
            connecting: 0,
            connections: 0,
            sockets: 0,
        }
    }

    /// Those that are being made.
    pub(super) fn connecting(&self) -> u32 {
        self.connecting
    }

    /// Those that stand.
    pub(super) fn connections(&self) -> u32 {
        self.connections
    }

    /// Those of them that are sockets.
    pub(super) fn sockets(&self) -> u32 {
        self.sockets
    }

    /// A player comes in this place.
    pub(super) fn arrives(&mut self, index: usize) {
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, Slot::default);
        }
        self.tls.arrives(index);
    }

    pub(super) fn link(&self, index: usize) -> &Link {
        &self.slots[index].link
    }

    pub(super) fn link_mut(&mut self, index: usize) -> &mut Link {
        &mut self.slots[index].link
    }

    pub(super) fn conn(&self, index: usize) -> Option<ConnId> {
        self.slots.get(index)?.conn
    }

    pub(super) fn is_socket(&self, index: usize) -> bool {
        matches!(self.slots[index].link, Link::Socket(_))
    }

    /// Whether the player's connection is TLS.
    pub(super) fn has_tls(&self, index: usize) -> bool {
        self.tls.has(index)
    }

    /// The player of a connection, unless it has another one by now.
    pub(super) fn owner(&self, conn: ConnId) -> Option<usize> {
        let (generation, player) = (*self.conns.get(conn.slot as usize)?)?;
        (generation == conn.generation).then_some(player as usize)
    }

    /// The player that waits for this attempt to connect.
    pub(super) fn waits_for(&self, token: u64) -> Option<usize> {
        let (index, attempt) = (usize::try_from(token & 0xffff_ffff).ok()?, token >> 32);
        let slot = self.slots.get(index)?;
        let is_waiting = matches!(slot.link, Link::Connecting);
        (is_waiting && u64::from(slot.attempt) == attempt).then_some(index)
    }

    /// Begins to connect the player with this number.
    pub(super) fn connect(&mut self, index: usize, number: u32, out: &mut Output<Command>) {
        let slot = &mut self.slots[index];
        slot.attempt = slot.attempt.wrapping_add(1);
        slot.link = Link::Connecting;
        self.connecting += 1;
        let token = u64::from(slot.attempt) << 32 | index as u64;
        let to = self.settings.node(number).addr;
        let from = self.settings.source.of(number, to);
        // No longer than the engine's own limit, which is the run's time-out.
        out.connect_from(from, to, token, u32::MAX);
    }

    /// The attempt has failed.
    pub(super) fn connect_failed(&mut self, index: usize) {
        self.connecting -= 1;
        self.slots[index].link = Link::None;
    }

    /// TCP stands.
    pub(super) fn connected(&mut self, index: usize, conn: ConnId) {
        self.connections += 1;
        let slot = conn.slot as usize;
        if self.conns.len() <= slot {
            self.conns.resize(slot + 1, None);
        }
        self.conns[slot] = Some((conn.generation, u32::try_from(index).unwrap_or(u32::MAX)));
        self.slots[index].conn = Some(conn);
    }

    /// Begins TLS if the player's target wants it; `false` if it does not.
    pub(super) fn secure(
        &mut self,
        index: usize,
        number: u32,
        out: &mut Output<Command>,
    ) -> Result<bool, rustls::Error> {
        let slot = &mut self.slots[index];
        let (Some(conn), Some(name)) = (slot.conn, &self.settings.node(number).tls_name) else {
            return Ok(false);
        };
        slot.link = Link::Securing;
        self.tls.begin((index, conn), name, out).map(|()| true)
    }

    /// What was agreed on, when TLS stands.
    pub(super) fn secured(&self, index: usize) -> Option<Secured<'_>> {
        self.tls.secured(index)
    }

    /// The player's connection can be used.
    pub(super) fn speaks_http(&mut self, index: usize) {
        self.connecting -= 1;
        self.slots[index].link =
            Link::Http { decoder: ResponseDecoder::default(), is_partial: false };
    }

    /// A socket has been asked for.
    pub(super) fn upgrades(&mut self, index: usize, key: [u8; 16]) {
        self.slots[index].link = Link::Upgrading { decoder: ResponseDecoder::default(), key };
    }

    /// It has become one.
    pub(super) fn speaks_websocket(&mut self, index: usize) {
        self.sockets += 1;
        let decoder = websocket::Decoder::new(Role::Client, MESSAGE_BYTES_MAX);
        self.slots[index].link = Link::Socket(decoder);
    }

    /// The way onto the player's connection.
    pub(super) fn to<'a>(&'a mut self, index: usize, out: &'a mut Output<Command>) -> Sink<'a> {
        Sink { conn: self.conn(index), tls: &mut self.tls, index, out }
    }

    /// Opens what has come over TLS; the plain bytes are appended to `opened`.
    pub(super) fn open(
        &mut self,
        (index, conn): (usize, ConnId),
        bytes: &[u8],
        opened: &mut Vec<u8>,
        out: &mut Output<Command>,
    ) -> Option<Opened> {
        self.tls.open((index, conn), bytes, opened, out)
    }

    /// Closes the player's connection in order, after what has been sent.
    pub(super) fn close(&mut self, index: usize, out: &mut Output<Command>) {
        if let Some(conn) = self.take_conn(index) {
            self.tls.say_goodbye((index, conn), out);
            out.close(conn);
        }
    }

    /// Gives up the player's connection; `false` if there is none.
    pub(super) fn forget(&mut self, index: usize, out: &mut Output<Command>) -> bool {
        match std::mem::take(&mut self.slots[index].link) {
            Link::None => return false,
            Link::Connecting | Link::Securing => self.connecting -= 1,
            Link::Socket(_) => self.sockets -= 1,
            Link::Http { .. } | Link::Upgrading { .. } => {}
        }
        self.tls.forget(index);
        if let Some(conn) = self.take_conn(index) {
            out.abort(conn);
        }
        true
    }

    /// The player's connection, which is not the player's any more.
    fn take_conn(&mut self, index: usize) -> Option<ConnId> {
        let conn = self.slots[index].conn.take()?;
        self.connections -= 1;
        if let Some(slot) = self.conns.get_mut(conn.slot as usize) {
            *slot = None;
        }
        Some(conn)
    }
}

/// The way onto one player's connection.
pub(super) struct Sink<'a> {
    /// None swallows what is sent.
    conn: Option<ConnId>,
    tls: &'a mut Tls,
    index: usize,
    out: &'a mut Output<Command>,
}

impl Sink<'_> {
    /// Sends what `encode` appends, sealed if the connection is TLS; returns how many bytes it was
    /// before that.
    pub(super) fn send_with(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let Some(conn) = self.conn else { return 0 };
        self.tls.send_with((self.index, conn), self.out, |bytes| {
            let start = bytes.len();
            encode(bytes);
            bytes.len() - start
        })
    }
}
