//! A session's datagrams without a socket: what is to be sent, and what comes of what came. The time is an
//! argument, from any beginning.

use std::time::Duration;

use serde::Deserialize;
use uuid::Uuid;
use wire::datagram::{
    BODY_BYTES_MAX, Head, KEY_BYTES, Key, Kind, MatchData, TOKEN_BYTES, Unreadable, VERSION, Window,
};
use wire::hex;

use crate::MatchMessage;

/// So often something is sent.
const PROBE: Duration = Duration::from_secs(1);
/// After so long without an answer the way is looked for again.
const SILENT: Duration = Duration::from_secs(3);
/// Padding of a probe on a way that stands: as many bytes as a challenge needs, if the address has changed.
const SHORT_PROBE_BYTES: usize = TOKEN_BYTES;

/// What the server tells a session that asks (docs/datagrams.md).
#[derive(Clone, Debug, Deserialize)]
pub struct Grant {
    /// Of the form.
    pub version: u8,
    /// Where to send; empty for where the socket is connected to.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The session's number, in hexadecimal.
    pub id: String,
    /// The key, in hexadecimal.
    pub key: String,
}

/// What comes of a datagram.
#[derive(Debug, Default)]
pub struct Heard {
    /// A message of a match.
    pub message: Option<MatchMessage>,
    /// What is to be sent at once.
    pub answer: Option<Vec<u8>>,
}

/// The same, of what is read where it lies.
#[derive(Debug)]
pub struct Opened<'a> {
    /// How many of the server's datagrams are known by this one to be missing; -1 if it was one of those itself.
    pub missing: i64,
    /// A message of a match, or why it cannot be read.
    pub message: Option<Result<MatchData<'a>, Unreadable>>,
    /// What is to be sent at once.
    pub answer: Option<Vec<u8>>,
}

/// The datagrams of a session.
#[derive(Debug)]
pub struct Datagrams {
    id: u64,
    key: Key,
    sequence: u32,
    window: Window,
    heard: Option<Duration>,
    due: Duration,
    is_open: bool,
}

impl Datagrams {
    /// Those of a grant; none if it is of another version, or malformed.
    #[must_use]
    pub fn new(grant: &Grant) -> Option<Self> {
        let id: [u8; 8] = hex::decode(grant.id.as_bytes())?.try_into().ok()?;
        let key: [u8; KEY_BYTES] = hex::decode(grant.key.as_bytes())?.try_into().ok()?;
        (grant.version == VERSION).then(|| Self {
            id: u64::from_le_bytes(id),
            key: Key::new(&key),
            sequence: 0,
            window: Window::default(),
            heard: None,
            due: Duration::ZERO,
            is_open: false,
        })
    }

    /// Whether the server believes our address, as far as can be known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// When [`Self::due`] has something again.
    #[must_use]
    pub fn next_due(&self) -> Duration {
        self.due
    }

    /// What is to be sent by now: a sign of life, or if nothing has come for long, the way anew.
    pub fn due(&mut self, now: Duration) -> Option<Vec<u8>> {
        if now < self.due {
            return None;
        }
        self.due = now + PROBE;
        self.is_open &= self.heard.is_some_and(|heard| now.saturating_sub(heard) <= SILENT);
        let padding = if self.is_open { SHORT_PROBE_BYTES } else { BODY_BYTES_MAX };
        self.seal(Kind::Probe, &[0; BODY_BYTES_MAX][..padding])
    }

    /// A message to a match, as bytes to send; none if it does not fit.
    pub fn message(&mut self, match_id: &str, op_code: i32, data: &[u8]) -> Option<Vec<u8>> {
        let (uuid, node) = match_id.split_once('.')?;
        let match_uuid = Uuid::try_parse(uuid).ok()?.into_bytes();
        let is_authoritative = !node.is_empty();
        let mut body = Vec::new();
        let message = MatchData { match_uuid, is_authoritative, op_code, sender: None, data };
        message.encode(&mut body).then(|| self.seal(Kind::ClientData, &body))?
    }

    /// Takes what came. What is not the server's, or came already, is nothing.
    pub fn heard(&mut self, now: Duration, datagram: &[u8]) -> Heard {
        let Some(Opened { message, answer, .. }) = self.open(now, datagram) else {
            return Heard::default();
        };
        Heard { message: message.and_then(Result::ok).map(of), answer }
    }

    /// The same without a copy of the message; none if the datagram is nothing.
    pub fn open<'a>(&mut self, now: Duration, datagram: &'a [u8]) -> Option<Opened<'a>> {
        let (head, body) = self.key.open(datagram).ok()?;
        let newest = self.window.acks().newest;
        if head.kind.is_from_client() || self.window.take(head.sequence).is_err() {
            return None;
        }
        let missing = (i64::from(head.sequence) - i64::from(newest) - 1).max(-1);
        self.heard = Some(now);
        if head.kind == Kind::Challenge {
            let answer = body.get(..TOKEN_BYTES).and_then(|token| self.seal(Kind::Proof, token));
            return Some(Opened { missing, message: None, answer });
        }
        self.is_open = true;
        let message = (head.kind == Kind::ServerData).then(|| MatchData::decode(body));
        Some(Opened { missing, message, answer: None })
    }

    /// The session's number, as it stands in each of its datagrams.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// None when all numbers are used up.
    fn seal(&mut self, kind: Kind, body: &[u8]) -> Option<Vec<u8>> {
        self.sequence = self.sequence.checked_add(1)?;
        let head = Head { kind, id: self.id, sequence: self.sequence, acks: self.window.acks() };
        let mut bytes = Vec::new();
        self.key.seal(&head, body, &mut bytes);
        Some(bytes)
    }
}

fn of(message: MatchData<'_>) -> MatchMessage {
    MatchMessage {
        match_uuid: Uuid::from_bytes(message.match_uuid).to_string(),
        op_code: message.op_code.into(),
        sender: message.sender.map(|sender| Uuid::from_bytes(sender.user_id).to_string()),
        data: message.data.to_vec(),
        by_datagram: true,
    }
}

#[cfg(test)]
mod tests {
    use wire::datagram::Acks;

    use super::*;

    fn grant() -> Grant {
        Grant {
            version: VERSION,
            host: String::new(),
            port: 1,
            id: "0100000000000000".into(),
            key: "07".repeat(32),
        }
    }

    fn server(kind: Kind, sequence: u32, body: &[u8]) -> Vec<u8> {
        let head = Head { kind, id: 1, sequence, acks: Acks::default() };
        let mut bytes = Vec::new();
        Key::new(&[7; KEY_BYTES]).seal(&head, body, &mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> (Kind, u32, usize) {
        let (head, body) = Key::new(&[7; KEY_BYTES]).open(bytes).unwrap();
        (head.kind, head.sequence, body.len())
    }

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_way_is_looked_for_found_kept_and_looked_for_again() {
        let mut all = Datagrams::new(&grant()).unwrap();
        assert_eq!(read(&all.due(S).unwrap()), (Kind::Probe, 1, BODY_BYTES_MAX));
        assert!(all.due(S).is_none());
        let heard = all.heard(S, &server(Kind::Challenge, 1, b"12345678 and padding"));
        assert_eq!(read(&heard.answer.unwrap()), (Kind::Proof, 2, 8));
        assert!(!all.is_open() && heard.message.is_none());
        all.heard(S, &server(Kind::Alive, 2, b""));
        assert!(all.is_open());
        assert_eq!(read(&all.due(2 * S).unwrap()), (Kind::Probe, 3, 8));
        assert_eq!((all.due(3 * S).is_some(), all.is_open()), (true, true));
        assert_eq!(read(&all.due(5 * S).unwrap()), (Kind::Probe, 5, BODY_BYTES_MAX));
        assert!(!all.is_open());
    }

    #[test]
    fn messages_go_and_come_once() {
        let mut all = Datagrams::new(&grant()).unwrap();
        let id = "5a0e8b1c-0000-4000-8000-000000000001.nakama";
        let bytes = all.message(id, 2, b"hello").unwrap();
        assert_eq!(read(&bytes), (Kind::ClientData, 1, 21 + 5));
        assert!(
            all.message(id, 2, &[0; 1_143]).is_none() && all.message("no id", 2, b"").is_none()
        );
        let (_, body) = Key::new(&[7; KEY_BYTES]).open(&bytes).unwrap();
        let back = server(Kind::ServerData, 9, body);
        let message = all.heard(S, &back).message.unwrap();
        assert_eq!(format!("{}.nakama", message.match_uuid), id);
        assert_eq!(
            (message.op_code, &*message.data, message.by_datagram),
            (2, &b"hello"[..], true)
        );
        assert!(all.heard(S, &back).message.is_none(), "a copy");
        assert!(all.heard(S, &bytes).message.is_none(), "one's own");
        assert!(all.heard(S, b"noise").answer.is_none());
        let (head, ()) =
            Key::new(&[7; KEY_BYTES]).open(&all.due(S).unwrap()).map(|it| (it.0, ())).unwrap();
        assert_eq!(head.acks.newest, 9);
    }

    #[test]
    fn what_is_missing_is_told_by_what_comes_behind_it() {
        let mut all = Datagrams::new(&grant()).unwrap();
        let mut missing = |sequence, body: &[u8]| {
            let bytes = server(Kind::ServerData, sequence, body);
            all.open(S, &bytes).map(|opened| (opened.missing, opened.message.unwrap().is_ok()))
        };
        let whole = [&[0; 17][..], &5_i32.to_le_bytes()].concat();
        assert_eq!(missing(1, &whole), Some((0, true)));
        assert_eq!(missing(5, &whole), Some((3, true)));
        assert_eq!(missing(3, &[0xff]), Some((-1, false)), "late, and no message");
        assert_eq!(missing(3, &whole), None, "a copy");
        assert_eq!(missing(6, &whole), Some((0, true)));
    }

    #[test]
    fn grants_of_another_form_are_none() {
        for (version, id, key) in [(2, "01", "07"), (1, "01", "07"), (1, "0100000000000000", "zz")]
        {
            let grant = Grant { version, id: id.into(), key: key.into(), ..grant() };
            assert!(Datagrams::new(&grant).is_none());
        }
    }
}
