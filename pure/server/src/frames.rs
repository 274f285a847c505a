//! Realtime messages as ready WebSocket frames: encoded once per format, however many sockets get
//! them. The only decoding is of our own frames, for hooks.

use bytes::Bytes;
use game::guest::{Broadcast, Presence};
use game::match_id::MatchId;
use game::node::{NodeId, Nodes};
use smallvec::SmallVec;
use uuid::Uuid;
use uuid::fmt::Hyphenated;
use wire::datagram;
use wire::nakama::realtime::{self, Message};
use wire::nakama::{
    DecodeError, Envelope, Sender, api, encode_match_data_json, encode_match_data_protobuf,
};
use wire::websocket as ws;

use crate::mail::{Address, CoreMail, Delivery, Format, Member, Then};

/// Those who have come or gone in one presence event; when they are more, there are several.
pub(crate) const PRESENCES_PER_EVENT_MAX: usize = 256;

/// Turns a presence into its wire form.
pub(crate) fn user_presence(presence: &Presence) -> realtime::UserPresence {
    realtime::UserPresence {
        user_id: presence.user_id.to_string(),
        session_id: presence.session_id.to_string(),
        username: presence.username.to_string(),
        ..Default::default()
    }
}

/// An event or answer as a frame.
pub(crate) fn frame(format: Format, cid: &str, message: Option<Message>) -> Bytes {
    encoded(format, &Envelope { cid: cid.to_owned(), message })
}

/// An envelope as a frame, for those that are written in more than one format.
pub(crate) fn encoded(format: Format, envelope: &Envelope) -> Bytes {
    framed(format, 256, |payload| match format {
        Format::Json => envelope.encode_json(payload),
        Format::Protobuf => envelope.encode_protobuf(payload),
    })
}

/// A message of a match as a frame: straight from its parts, because this is the hot path. Nothing is
/// allocated but the frame.
pub(crate) fn match_data(format: Format, match_id: &str, message: &Broadcast) -> Bytes {
    let (mut user, mut session) = ([0; Hyphenated::LENGTH], [0; Hyphenated::LENGTH]);
    let sender = message.sender.as_ref().map(|sender| Sender {
        user_id: sender.user_id.as_hyphenated().encode_lower(&mut user),
        session_id: sender.session_id.as_hyphenated().encode_lower(&mut session),
        username: &sender.username,
    });
    let (op_code, data, reliable) = (message.op_code, &message.data[..], message.reliable);
    let encode = match format {
        Format::Json => encode_match_data_json,
        Format::Protobuf => encode_match_data_protobuf,
    };
    let bytes = 340 + data.len().div_ceil(3) * 4;
    framed(format, bytes, |payload| encode(payload, match_id, sender, op_code, data, reliable))
}

/// A message of a match as the body of a datagram, if it fits and is of this node. What is reliable has none.
fn datagram_body(of: &OfMatch<'_>) -> Option<Bytes> {
    let (here, message) = (of.datagrams_of?, of.message);
    if message.reliable || of.id.node.is_some_and(|node| node != here) {
        return None;
    }
    let sender = message.sender.as_ref().map(|sender| datagram::Sender {
        user_id: sender.user_id.into_bytes(),
        session_id: sender.session_id.into_bytes(),
        username: &sender.username,
    });
    let body = datagram::MatchData {
        match_uuid: of.id.uuid.into_bytes(),
        is_authoritative: of.id.is_authoritative(),
        op_code: i32::try_from(message.op_code).ok()?,
        sender,
        data: &message.data,
    };
    let mut bytes = Vec::with_capacity(64 + message.data.len());
    body.encode(&mut bytes).then(|| Bytes::from(bytes))
}

/// The match that the body of a datagram names; `here` is this node.
pub(crate) fn match_of(message: &datagram::MatchData<'_>, here: NodeId) -> MatchId {
    let uuid = Uuid::from_bytes(message.match_uuid);
    if message.is_authoritative {
        MatchId::authoritative(uuid, here)
    } else {
        MatchId::relayed(uuid)
    }
}

/// The body of a datagram that was made here, as a frame.
pub(crate) fn of_datagram(format: Format, body: &Bytes, nodes: &Nodes) -> Bytes {
    let Ok(message) = datagram::MatchData::decode(body) else {
        unreachable!("a body of {} bytes that was made here cannot be read", body.len())
    };
    let sender = message.sender.map(|sender| Presence {
        user_id: Uuid::from_bytes(sender.user_id),
        session_id: Uuid::from_bytes(sender.session_id),
        username: sender.username.into(),
        node: nodes.here(),
    });
    let broadcast = Broadcast {
        op_code: i64::from(message.op_code),
        data: body.slice_ref(message.data),
        to: None,
        sender,
        reliable: false,
        deferred: false,
    };
    match_data(format, &match_of(&message, nodes.here()).text(nodes), &broadcast)
}

/// An error answer, or an error event when `cid` is empty.
pub(crate) fn error(format: Format, cid: &str, code: i32, message: &str) -> Bytes {
    let error = realtime::Error { code, message: message.to_owned(), ..Default::default() };
    frame(format, cid, Some(Message::Error(error)))
}

/// A notification of the server's own, which is not stored (as Nakama's,
/// `server/session_registry.go`).
pub(crate) fn notification(format: Format, code: i32, subject: &str) -> Bytes {
    let notification = api::Notification {
        subject: subject.to_owned(),
        content: "{}".to_owned(),
        code,
        ..Default::default()
    };
    let notifications = realtime::Notifications { notifications: vec![notification] };
    frame(format, "", Some(Message::Notifications(notifications)))
}

/// The envelope in a frame that was made here.
pub(crate) fn envelope(format: Format, frame: &[u8]) -> Result<Envelope, DecodeError> {
    // Servers do not mask: the header is 2, 4 or 10 bytes (RFC 6455 §5.2).
    let header = match frame.get(1) {
        Some(127) => 10,
        Some(126) => 4,
        _ => 2,
    };
    let payload = frame.get(header..).unwrap_or_default();
    match format {
        Format::Json => Envelope::decode_json(payload),
        Format::Protobuf => Envelope::decode_protobuf(payload),
    }
}

/// A frame of what `write` appends, about so many bytes. It keeps no more memory than it has bytes,
/// because it may have to wait for a slow reader.
fn framed(format: Format, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let opcode = match format {
        Format::Json => ws::Opcode::Text,
        Format::Protobuf => ws::Opcode::Binary,
    };
    let mut frame = Vec::with_capacity(bytes);
    ws::encode_with(&mut frame, opcode, write);
    Bytes::from(frame.into_boxed_slice())
}

/// A message of a match, for some of its members.
pub(crate) struct OfMatch<'a> {
    /// The match.
    pub(crate) id: MatchId,
    /// Its id as clients see it.
    pub(crate) text: &'a str,
    /// The message.
    pub(crate) message: &'a Broadcast,
    /// This node, if its sessions may have datagrams.
    pub(crate) datagrams_of: Option<NodeId>,
}

/// Frames collected for each core, posted in one mail a turn.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    cores: Vec<(Address<CoreMail>, Vec<Delivery>)>,
}

impl Outbox {
    /// Adds a frame for one socket.
    pub(crate) fn one(&mut self, to: &Member, frame: Bytes, then: Then) {
        let core = self.core(to.address.core);
        core.push(Delivery { frame, to: SmallVec::from_slice(&[to.address.conn]), then });
    }

    /// Adds a frame for many sockets, made at most once for each format. Returns for how many.
    pub(crate) fn many_then<'a>(
        &mut self,
        to: impl Iterator<Item = &'a Member> + Clone,
        then: Then,
        mut make: impl FnMut(Format) -> Bytes,
    ) -> u64 {
        let mut count = 0;
        for format in [Format::Json, Format::Protobuf] {
            let mut frame: Option<Bytes> = None;
            let mut last = None;
            for member in to.clone().filter(|member| member.format == format) {
                count += 1;
                let frame = frame.get_or_insert_with(|| make(format));
                self.add(&mut last, member, (frame, then));
            }
        }
        count
    }

    /// Adds a message of a match for many members: what need not come as the body of a datagram, which
    /// their cores send so, or make a frame of. Returns for how many.
    pub(crate) fn of_match<'a>(
        &mut self,
        to: impl Iterator<Item = &'a Member> + Clone,
        of: &OfMatch<'_>,
        then: Then,
    ) -> u64 {
        let make = |format| match_data(format, of.text, of.message);
        let (Some(body), Some(here)) = (datagram_body(of), of.datagrams_of) else {
            return self.many_then(to, then, make);
        };
        let by_datagram = Then::ByDatagram { drops: then == Then::DropIfBehind };
        let is_here = move |member: &&Member| member.address.core.node() == here;
        let (mut count, mut last) = (0, None);
        for member in to.clone().filter(is_here) {
            count += 1;
            self.add(&mut last, member, (&body, by_datagram));
        }
        count + self.many_then(to.filter(move |member| !is_here(member)), then, make)
    }

    /// Adds one of the receivers of a frame; `last` is where the one before was added.
    fn add(
        &mut self,
        last: &mut Option<(Address<CoreMail>, usize)>,
        member: &Member,
        (frame, then): (&Bytes, Then),
    ) {
        // Members of a match mostly share a core: append to the delivery just made.
        let core = self.core(member.address.core);
        match *last {
            Some((id, index)) if id == member.address.core => {
                core[index].to.push(member.address.conn);
            }
            _ => {
                *last = Some((member.address.core, core.len()));
                let to = SmallVec::from_slice(&[member.address.conn]);
                core.push(Delivery { frame: frame.clone(), to, then });
            }
        }
    }

    /// Forgets cores that nothing is sent to any more, and what was collected for them.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(Address<CoreMail>) -> bool) {
        self.cores.retain(|(core, _)| is_kept(*core));
    }

    /// Takes everything collected.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (Address<CoreMail>, Vec<Delivery>)> + '_ {
        let filled = self.cores.iter_mut().filter(|(_, deliveries)| !deliveries.is_empty());
        filled.map(|(core, deliveries)| (*core, std::mem::take(deliveries)))
    }

    fn core(&mut self, id: Address<CoreMail>) -> &mut Vec<Delivery> {
        let index = self.cores.iter().position(|(core, _)| *core == id).unwrap_or_else(|| {
            self.cores.push((id, Vec::new()));
            self.cores.len() - 1
        });
        &mut self.cores[index].1
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, Message, envelope, frame, realtime};

    #[test]
    fn frames_of_every_header_size_read_back() {
        for format in [Format::Json, Format::Protobuf] {
            for bytes in [0, 1, 100, 126, 1_000, 65_535, 70_000] {
                let payload = "x".repeat(bytes);
                let rpc = realtime::Rpc { id: "f".into(), payload, ..Default::default() };
                let message = Some(Message::Rpc(rpc));
                let read = envelope(format, &frame(format, "7", message.clone())).unwrap();
                assert_eq!((read.cid.as_str(), &read.message), ("7", &message), "{bytes}");
            }
        }
    }
}
