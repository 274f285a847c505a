//! Datagrams beside sockets: a session asks for them over its socket, by the RPC [`RPC_ID`], and is told a
//! port, a number and a key. From then on it may send messages of matches so, and is sent those that need not
//! come, at an address that has proved to be its own (`peer`). The form is `wire::datagram`'s.
//!
//! Each core has a port of its own: so the kernel brings every datagram to the core that has the session.
//! They end with the session, with a newer grant, and when its token is revoked.
//!
//! Data in: [`event::Datagrams`], deliveries of rooms. Data out: requests to rooms, datagrams, frames for who
//! takes no datagrams. Nothing here waits, and what cannot be sent is dropped and counted. Not here: what
//! matches send (`room`), and in which order anything comes: a datagram waits for no message of its socket.

mod addresses;
mod peer;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use event::{ConnId, Datagrams, Now, Output, SocketId};
use game::session::Revocation;
use serde::Serialize;
use wire::datagram::{self, Head, KEY_BYTES, Key, Kind, MatchData};
use wire::hex;
use wire::nakama::realtime::{self, Message, error_code};

use super::socket::{Session, Step};
use super::{Core, State};
use crate::frames;
use crate::mail::{Delivery, Format, Mail, MatchInput, RoomRequest};
use addresses::Addresses;
use peer::{Peer, Reply};

/// The RPC by which a session asks. It is the server's own, and comes before one of the modules.
pub(super) const RPC_ID: &str = "throng_datagrams";
/// The message whose hooks datagrams would pass by.
const MATCH_DATA: &str = "match_data_send";
/// The one socket for datagrams of a core.
const SOCKET: SocketId = SocketId(0);

/// What a session is told. Numbers and keys are hexadecimal, in the order in which they are sent.
#[derive(Serialize)]
struct Grant<'a> {
    version: u8,
    host: &'a str,
    port: u16,
    id: String,
    key: String,
    bytes_max: usize,
    idle_ms: u64,
}

/// The sessions of a core that have datagrams.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: Vec<Option<Box<Peer>>>,
    free: Vec<u32>,
    /// By the slot of the connection.
    places: BTreeMap<u32, u32>,
    addresses: Addresses,
    buffer: Vec<u8>,
}

impl Peers {
    /// A session has datagrams from now on; gives the number by which it is named.
    fn begin(&mut self, conn: ConnId, key: Key, salt: u32) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            u32::try_from(self.peers.len() - 1).unwrap_or(u32::MAX)
        });
        // Whose number it was before is told apart by the salt.
        let id = u64::from(salt) << 32 | u64::from(place);
        let before = self.places.insert(conn.slot, place);
        assert!(before.is_none(), "two keys of one session");
        self.peers[place as usize] = Some(Box::new(Peer::new(id, conn, key)));
        id
    }

    fn end(&mut self, slot: u32) -> Option<Box<Peer>> {
        let place = self.places.remove(&slot)?;
        self.free.push(place);
        self.peers.get_mut(place as usize)?.take()
    }

    /// The one of that number.
    fn named(&mut self, id: u64) -> Option<&mut Peer> {
        let place = usize::try_from(id & u64::from(u32::MAX)).ok()?;
        let peer = self.peers.get_mut(place)?.as_deref_mut()?;
        (peer.id == id).then_some(peer)
    }

    /// Whether this comes from where the session that it names is, and is little: it counts for no address.
    fn is_own(&mut self, now: Now, from: SocketAddr, head: &Head) -> bool {
        self.named(head.id).is_some_and(|peer| peer.is_own(now, from))
    }

    fn of(&mut self, conn: ConnId) -> Option<&mut Peer> {
        let place = *self.places.get(&conn.slot)?;
        let peer = self.peers.get_mut(place as usize)?.as_deref_mut()?;
        (peer.conn == conn).then_some(peer)
    }
}

impl Core {
    /// Gives a session a key for datagrams; one that it had before counts no more.
    pub(super) fn grant_datagrams(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: &str,
        out: &mut Output<Mail>,
    ) -> Step {
        if self.are_datagrams_hooked() {
            let text = "no datagrams: the modules have a hook of match_data_send, which they would pass by";
            let error = (error_code::RUNTIME_FUNCTION_EXCEPTION, text);
            self.reply_error(conn, session.format, cid, error, out);
            return Step::Refused;
        }
        self.end_datagrams(conn.slot);
        let secret: [u8; KEY_BYTES] = self.random.bytes();
        let salt = u32::from_le_bytes(self.random.bytes());
        let id = self.datagrams.begin(conn, Key::new(&secret), salt);
        self.stats.datagram_sessions.up();
        let settings = self.settings.datagrams.as_ref();
        let index = self.topology.cores.iter().position(|core| *core == self.me);
        let port = index.and_then(|index| settings?.ports.get(index).copied());
        let grant = Grant {
            version: datagram::VERSION,
            host: settings.map_or("", |settings| &settings.host),
            port: port.unwrap_or(0),
            id: hex::encode(&id.to_le_bytes()),
            key: hex::encode(&secret),
            bytes_max: datagram::BYTES_MAX,
            idle_ms: settings.map_or(0, |settings| settings.idle_ms),
        };
        let payload = serde_json::to_string(&grant).unwrap_or_default();
        let rpc = realtime::Rpc { id: RPC_ID.to_owned(), payload, ..Default::default() };
        self.reply(conn, &frames::frame(session.format, cid, Some(Message::Rpc(rpc))), out);
        Step::Done
    }

    /// Whether the modules want to see what sessions send to matches.
    fn are_datagrams_hooked(&self) -> bool {
        self.hooks.has_realtime
            && (self.hooks.is_before(MATCH_DATA) || self.hooks.is_after(MATCH_DATA))
    }

    /// A session has no datagrams any more, if it had some.
    pub(super) fn end_datagrams(&mut self, slot: u32) {
        let Some(peer) = self.datagrams.end(slot) else { return };
        self.stats.datagram_sessions.down();
        if peer.has_path() {
            self.stats.datagram_paths.down();
        }
    }

    /// Tokens count no more: nor do the keys that were given to their sessions.
    pub(super) fn end_datagrams_of_revoked(&mut self, revocation: &Revocation) {
        let (Revocation::Token { user_id, .. }
        | Revocation::User { user_id, .. }
        | Revocation::Deleted { user_id, .. }
        | Revocation::Banned { user_id }
        | Revocation::Unbanned { user_id }) = revocation;
        if self.settings.datagrams.is_none() {
            return;
        }
        for conn in self.open_sockets(*user_id, Session::user_id) {
            let session = self.open_session(conn.slot).map(|(_, session)| session.claims.clone());
            if session.is_some_and(|claims| self.revocations.is_revoked(&claims)) {
                self.end_datagrams(conn.slot);
            }
        }
    }

    /// Datagrams of one sender, whoever that is.
    pub(super) fn hear_datagrams(
        &mut self,
        now: Now,
        datagrams: Datagrams<'_>,
        out: &mut Output<Mail>,
    ) {
        let from = datagrams.from;
        let Some(settings) = &self.settings.datagrams else { return };
        if !may_be_somewhere(from) {
            return self.stats.datagrams_malformed.add(datagrams.count());
        }
        let (client, per_s) =
            (self.settings.limits.client(from.ip().to_canonical()), settings.per_address_per_s);
        for bytes in datagrams {
            let head = datagram::peek(bytes);
            let is_taken = client.is_none_or(|client| {
                head.as_ref().is_ok_and(|head| self.datagrams.is_own(now, from, head))
                    || self.datagrams.addresses.take(now, client, per_s, &mut self.random)
            });
            if !is_taken {
                self.stats.limited_datagrams_per_address.up();
                let what = format_args!("datagrams of address {} are dropped", from.ip());
                self.limit_log.hit(now, "datagram.per_address_per_s", what);
                continue;
            }
            match head {
                Ok(Head { id, .. }) => self.hear_datagram(now, from, (id, bytes), out),
                Err(_) => self.stats.datagrams_malformed.up(),
            }
        }
    }

    fn hear_datagram(
        &mut self,
        now: Now,
        from: SocketAddr,
        (id, bytes): (u64, &[u8]),
        out: &mut Output<Mail>,
    ) {
        let (stats, settings) = (&self.stats, self.settings.datagrams.as_ref());
        let Some(peer) = self.datagrams.named(id) else { return stats.datagrams_unknown.up() };
        if !peer.may_look(now, from) {
            return stats.limited_datagrams_per_session.up();
        }
        let Ok((head, body)) = peer.key.open(bytes) else { return stats.datagrams_forged.up() };
        if !head.kind.is_from_client() {
            return stats.datagrams_malformed.up();
        }
        if peer.take(now, &head).is_err() {
            return stats.datagrams_stale.up();
        }
        if !peer.heeded.take(now, settings.map_or(0, |settings| settings.per_session_per_s)) {
            return stats.limited_datagrams_per_session.up();
        }
        stats.datagrams_heard.up();
        let (conn, had_path) = (peer.conn, peer.has_path());
        let reply = peer.hear(now, (from, bytes.len()), (head.kind, body), &mut self.random);
        if !had_path && peer.has_path() {
            stats.datagram_paths.up();
        }
        match reply {
            None => {}
            Some(Reply::Alive) => self.send_datagram(now, conn, (from, Kind::Alive, &[]), out),
            Some(Reply::Challenge { token, body_bytes }) => {
                self.stats.datagram_challenges.up();
                let mut body = [0; datagram::BODY_BYTES_MAX];
                body[..token.len()].copy_from_slice(&token);
                let body = &body[..body_bytes.max(token.len())];
                self.send_datagram(now, conn, (from, Kind::Challenge, body), out);
            }
        }
        if head.kind == Kind::ClientData && !self.match_datagram(now, conn, body) {
            self.stats.datagram_messages_refused.up();
        }
    }

    fn send_datagram(
        &mut self,
        now: Now,
        conn: ConnId,
        (to, kind, body): (SocketAddr, Kind, &[u8]),
        out: &mut Output<Mail>,
    ) {
        let mut buffer = std::mem::take(&mut self.datagrams.buffer);
        if let Some(peer) = self.datagrams.of(conn)
            && let Some(head) = peer.next(now, kind)
        {
            buffer.clear();
            peer.key.seal(&head, body, &mut buffer);
            out.send_datagram(SOCKET, to, &buffer);
        }
        self.datagrams.buffer = buffer;
    }

    /// A message to a match; tells whether it is heeded.
    fn match_datagram(&mut self, now: Now, conn: ConnId, body: &[u8]) -> bool {
        let Ok(message) = MatchData::decode(body) else { return false };
        if message.sender.is_some() || self.are_datagrams_hooked() {
            return false;
        }
        let session = match self.take(conn) {
            State::Socket(session) => session,
            other => {
                self.put(conn, other);
                return false;
            }
        };
        let is_admitted = session.closing.is_none() && self.admit_message(&session).is_ok();
        if is_admitted {
            self.stats.datagram_messages.up();
            let id = frames::match_of(&message, self.me.node());
            let input = MatchInput {
                session_id: session.session_id,
                id,
                op_code: i64::from(message.op_code),
                data: Bytes::copy_from_slice(message.data),
                to: smallvec::SmallVec::new(),
                reliable: false,
                by_datagram: true,
                receive_time_ms: now.unix_ms,
            };
            let request = RoomRequest::MatchData(Box::new(input));
            self.request_room(self.topology.room_of_match(id), request);
        }
        self.put(conn, State::Socket(session));
        is_admitted
    }

    /// A message of a match that need not come: by datagram to who takes some, else over the socket.
    pub(super) fn deliver_by_datagram(
        &mut self,
        now: Now,
        delivery: &Delivery,
        drops: bool,
        out: &mut Output<Mail>,
    ) {
        let (body, mut frames) = (&delivery.frame, [None, None]);
        let idle_ms = self.settings.datagrams.as_ref().map_or(0, |settings| settings.idle_ms);
        for conn in &delivery.to {
            let conn = *conn;
            let Some(slot) = self.conns.get(conn.slot as usize) else { continue };
            let State::Socket(session) = &slot.state else { continue };
            if slot.generation != conn.generation || session.closing.is_some() {
                continue;
            }
            let format = session.format;
            if let Some(to) = self.way_to(now, conn, idle_ms) {
                self.stats.datagram_messages_sent.up();
                self.send_datagram(now, conn, (to, Kind::ServerData, body), out);
                continue;
            }
            self.stats.datagram_messages_over_socket.up();
            let frame = &mut frames[usize::from(format == Format::Protobuf)];
            let make = || frames::of_datagram(format, body, &self.topology.nodes);
            let frame = frame.get_or_insert_with(make).clone();
            self.stats.overall_message_sent_bytes.add(frame.len() as u64);
            if drops {
                out.offer_shared(conn, frame);
            } else {
                out.send_shared(conn, frame);
            }
        }
    }

    /// The address at which a session takes datagrams just now.
    fn way_to(&mut self, now: Now, conn: ConnId, idle_ms: u64) -> Option<SocketAddr> {
        let peer = self.datagrams.of(conn).filter(|peer| peer.has_path())?;
        let way = peer.way(now, idle_ms);
        if way.is_none() {
            self.stats.datagram_paths.down();
            self.stats.datagram_paths_lost.up();
        }
        way
    }
}

/// Whether somebody may be there: one machine, at a port.
fn may_be_somewhere(from: SocketAddr) -> bool {
    let ip = from.ip().to_canonical();
    let is_one = !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::from([255; 4]);
    is_one && from.port() > 0
}
