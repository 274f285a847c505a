//! A client's side of datagrams: what it is told over its socket, seals and opens.

use std::net::SocketAddr;

use serde_json::Value;
use wire::datagram::{BODY_BYTES_MAX, Head, KEY_BYTES, Key, Kind, MatchData, TOKEN_BYTES, Window};
use wire::hex;

use super::{Client, Rig, Sent};

/// A session with a key.
pub(crate) struct Peer {
    core: u16,
    pub(crate) grant: Value,
    pub(crate) key: Key,
    pub(crate) id: u64,
    pub(crate) from: SocketAddr,
    pub(crate) sequence: u32,
    window: Window,
}

/// A place of a client's.
pub(crate) fn at(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

/// What a session is answered that asks.
pub(crate) fn ask(rig: &Rig, client: Client) -> Vec<String> {
    rig.say(client, r#"{"cid":"5","rpc":{"id":"throng_datagrams"}}"#)
}

impl Peer {
    pub(crate) fn new(rig: &Rig, client: Client, port: u16) -> Self {
        let frames = ask(rig, client);
        let frames = frames.iter().filter_map(|it| serde_json::from_str(it).ok());
        let frame = frames.into_iter().find(|it: &Value| it["cid"] == "5").unwrap();
        let payload = frame["rpc"]["payload"].as_str().unwrap_or_else(|| panic!("{frame}"));
        let grant: Value = serde_json::from_str(payload).unwrap();
        let bytes = |name: &str| hex::decode(grant[name].as_str().unwrap().as_bytes()).unwrap();
        let key: [u8; KEY_BYTES] = bytes("key").try_into().unwrap();
        Self {
            core: client.core,
            key: Key::new(&key),
            id: u64::from_le_bytes(bytes("id").try_into().unwrap()),
            grant,
            from: at(port),
            sequence: 0,
            window: Window::default(),
        }
    }

    /// The bytes of the next datagram.
    pub(crate) fn sealed(&mut self, kind: Kind, body: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        let acks = self.window.acks();
        let head = Head { kind, id: self.id, sequence: self.sequence, acks };
        let mut bytes = Vec::new();
        self.key.seal(&head, body, &mut bytes);
        bytes
    }

    pub(crate) fn send(&mut self, rig: &Rig, kind: Kind, body: &[u8]) {
        let bytes = self.sealed(kind, body);
        rig.datagram(self.core, self.from, &bytes);
    }

    /// Asks whether there is a way, with as many bytes as there may be.
    pub(crate) fn probe(&mut self, rig: &Rig) {
        self.send(rig, Kind::Probe, &[0; BODY_BYTES_MAX]);
    }

    /// Answers a challenge that came to `port`.
    pub(crate) fn prove(&mut self, rig: &Rig) {
        let challenge = self.heard(rig);
        let (head, body) = challenge.first().unwrap_or_else(|| panic!("no challenge"));
        assert_eq!(head.kind, Kind::Challenge);
        self.send(rig, Kind::Proof, &body[..TOKEN_BYTES]);
        assert_eq!(self.kinds(rig), [Kind::Alive]);
    }

    /// The same, from nothing.
    pub(crate) fn believed(rig: &Rig, client: Client, port: u16) -> Self {
        let mut peer = Self::new(rig, client, port);
        peer.probe(rig);
        peer.prove(rig);
        peer
    }

    /// What came since the last look; each has to be for this session, new, and at its place.
    pub(crate) fn heard(&mut self, rig: &Rig) -> Vec<(Head, Vec<u8>)> {
        let sent = rig.datagrams().into_iter();
        let at_home = sent.inspect(|sent| assert_eq!((sent.core, sent.to), (self.core, self.from)));
        let sent: Vec<Sent> = at_home.collect();
        sent.iter().map(|sent| self.open(sent)).collect()
    }

    /// Takes what was sent, to wherever.
    pub(crate) fn open(&mut self, sent: &Sent) -> (Head, Vec<u8>) {
        let (head, body) = self.key.open(&sent.bytes).unwrap();
        assert_eq!(head.id, self.id);
        self.window.take(head.sequence).unwrap();
        (head, body.to_vec())
    }

    pub(crate) fn kinds(&mut self, rig: &Rig) -> Vec<Kind> {
        self.heard(rig).into_iter().map(|(head, _)| head.kind).collect()
    }

    /// Sends a message to a match; the id as clients have it.
    pub(crate) fn say(&mut self, rig: &Rig, match_id: &str, op_code: i32, data: &[u8]) {
        self.send(rig, Kind::ClientData, &body(match_id, op_code, data));
    }
}

/// The body of a message of a client's.
pub(crate) fn body(match_id: &str, op_code: i32, data: &[u8]) -> Vec<u8> {
    let (uuid, node) = match_id.split_once('.').unwrap();
    let message = MatchData {
        match_uuid: uuid::Uuid::try_parse(uuid).unwrap().into_bytes(),
        is_authoritative: !node.is_empty(),
        op_code,
        sender: None,
        data,
    };
    let mut body = Vec::new();
    assert!(message.encode(&mut body));
    body
}
