//! One session's datagrams: which came already, and to which address may be sent.
//!
//! Whoever has the key may say where it is, and could name a stranger. So an address is believed when it has
//! sent back a token that was sent to it, as in QUIC (RFC 9000, section 8), and until then is sent less than
//! has come from it. While a new one is tried, the one that is believed is sent to. One that nothing is heard
//! from, or that acknowledges nothing, is believed no more: what it was to get goes over the socket.
//!
//! Data in: heads and bodies whose tag is right, the time. Data out: what is to be answered. Not here:
//! other sessions, limits of addresses, counters.

use std::net::SocketAddr;

use event::{ConnId, Now, Random};
use wire::datagram::{BYTES_MAX, BYTES_MIN, Head, Key, Kind, Stale, TOKEN_BYTES, Window};

/// How long nothing that is sent may be acknowledged, milliseconds. Clients say what came once a second.
const DEAF_MS: u64 = 5_000;
/// Between two challenges of one session, milliseconds.
const CHALLENGE_MS: u64 = 100;
/// Datagrams in a second that are looked at from where the session is not believed to be: enough for one
/// that has moved, too few to make hashing dear.
const STRANGE_PER_S_MAX: u32 = 64;
/// Datagrams of a session in a second that are looked at without counting for its address: as many as a client
/// sends that steers at 60 Hz.
const OWN_PER_S_MAX: u32 = 64;
/// Bytes of the shortest challenge.
const CHALLENGE_BYTES: usize = BYTES_MIN + TOKEN_BYTES;

/// So many in each second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    second: u64,
    count: u32,
}

impl Rate {
    /// One more, if it is not beyond so many; 0 is off.
    pub(super) fn take(&mut self, now: Now, per_s: u32) -> bool {
        let second = now.mono_ns / 1_000_000_000;
        if second != self.second {
            *self = Self { second, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        per_s == 0 || self.count <= per_s
    }
}

/// An address that is believed.
#[derive(Debug)]
struct Path {
    to: SocketAddr,
    heard: Now,
}

/// An address that is to prove itself.
#[derive(Debug)]
struct Trial {
    to: SocketAddr,
    token: [u8; TOKEN_BYTES],
    /// Bytes that came from it, and that it was sent.
    came: usize,
    sent: usize,
}

/// What is to be sent because of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Alive,
    /// With so many bytes of body.
    Challenge {
        token: [u8; TOKEN_BYTES],
        body_bytes: usize,
    },
}

/// See the module.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: u64,
    pub(super) conn: ConnId,
    pub(super) key: Key,
    window: Window,
    /// The number of the last one that was sent.
    sequence: u32,
    acknowledged: u32,
    /// Since when nothing was acknowledged of what was sent.
    waits_since: Option<Now>,
    path: Option<Path>,
    trial: Option<Trial>,
    challenged: Option<Now>,
    pub(super) heeded: Rate,
    strange: Rate,
    own: Rate,
}

impl Peer {
    pub(super) fn new(id: u64, conn: ConnId, key: Key) -> Self {
        Self {
            id,
            conn,
            key,
            window: Window::default(),
            sequence: 0,
            acknowledged: 0,
            waits_since: None,
            path: None,
            trial: None,
            challenged: None,
            heeded: Rate::default(),
            strange: Rate::default(),
            own: Rate::default(),
        }
    }

    /// Whether there is an address that is believed.
    pub(super) fn has_path(&self) -> bool {
        self.path.is_some()
    }

    fn is_believed(&self, from: SocketAddr) -> bool {
        self.path.as_ref().is_some_and(|path| path.to == from)
    }

    /// Whether what claims to be of this session is looked at without counting for its address: it is from where the
    /// session is believed to be, port and all, and there is not much of it. So whoever forges that address, or shares
    /// it, and uses its part up takes no controls of a session away.
    pub(super) fn is_own(&mut self, now: Now, from: SocketAddr) -> bool {
        self.is_believed(from) && self.own.take(now, OWN_PER_S_MAX)
    }

    /// Whether what claims to be of this session is looked at.
    pub(super) fn may_look(&mut self, now: Now, from: SocketAddr) -> bool {
        self.is_believed(from) || self.strange.take(now, STRANGE_PER_S_MAX)
    }

    /// Notes a datagram whose tag is right.
    ///
    /// # Errors
    /// [`Stale`]: it came already, or is too late.
    pub(super) fn take(&mut self, now: Now, head: &Head) -> Result<(), Stale> {
        self.window.take(head.sequence)?;
        let newest = head.acks.newest;
        // Numbers that were not sent yet nobody has got.
        if newest > self.acknowledged && newest <= self.sequence {
            self.acknowledged = newest;
            self.waits_since = (newest < self.sequence).then_some(now);
        }
        Ok(())
    }

    /// What is to be answered to a datagram of so many bytes that was taken.
    pub(super) fn hear(
        &mut self,
        now: Now,
        (from, bytes): (SocketAddr, usize),
        (kind, body): (Kind, &[u8]),
        random: &mut Random,
    ) -> Option<Reply> {
        if let Some(path) = self.path.as_mut().filter(|path| path.to == from) {
            path.heard = now;
            return (kind != Kind::ClientData).then_some(Reply::Alive);
        }
        if self.trial.as_ref().is_none_or(|trial| trial.to != from) {
            let token = random.bytes();
            self.trial = Some(Trial { to: from, token, came: 0, sent: 0 });
        }
        let trial = self.trial.as_mut()?;
        trial.came = trial.came.saturating_add(bytes);
        if kind == Kind::Proof && body.starts_with(&trial.token) && trial.sent > 0 {
            self.path = Some(Path { to: from, heard: now });
            self.trial = None;
            self.waits_since = None;
            return Some(Reply::Alive);
        }
        // The first address proves that whole datagrams come through; one that follows it may be found by any.
        if self.path.is_none() && bytes < BYTES_MAX {
            return None;
        }
        let room = (trial.came - trial.sent).min(BYTES_MAX);
        let is_soon = |at: Now| now.ms_since(at) < CHALLENGE_MS;
        if room < CHALLENGE_BYTES || self.challenged.is_some_and(is_soon) {
            return None;
        }
        trial.sent += room;
        self.challenged = Some(now);
        Some(Reply::Challenge { token: trial.token, body_bytes: room - BYTES_MIN })
    }

    /// Where to send now. An address that is not believed any more is given up.
    pub(super) fn way(&mut self, now: Now, idle_ms: u64) -> Option<SocketAddr> {
        let path = self.path.as_ref()?;
        let is_idle = now.ms_since(path.heard) >= idle_ms;
        let is_deaf = self.waits_since.is_some_and(|since| now.ms_since(since) >= DEAF_MS);
        if is_idle || is_deaf || self.sequence == u32::MAX {
            self.path = None;
            self.waits_since = None;
            return None;
        }
        Some(path.to)
    }

    /// The head of the next datagram; none when all numbers are used up.
    pub(super) fn next(&mut self, now: Now, kind: Kind) -> Option<Head> {
        self.sequence = self.sequence.checked_add(1)?;
        self.waits_since.get_or_insert(now);
        Some(Head { kind, id: self.id, sequence: self.sequence, acks: self.window.acks() })
    }
}

#[cfg(test)]
mod tests {
    use wire::datagram::{Acks, KEY_BYTES};

    use super::*;

    fn peer() -> Peer {
        Peer::new(1, ConnId { slot: 0, generation: 0 }, Key::new(&[0; KEY_BYTES]))
    }

    fn at(ms: u64) -> Now {
        Now::default().after_ms(ms)
    }

    fn address(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    fn hear(
        peer: &mut Peer,
        ms: u64,
        port: u16,
        bytes: usize,
        kind: Kind,
        body: &[u8],
    ) -> Option<Reply> {
        let mut random = Random::from_number(ms);
        peer.hear(at(ms), (address(port), bytes), (kind, body), &mut random)
    }

    /// Believed at this port.
    fn believed(port: u16) -> Peer {
        let mut peer = peer();
        prove(&mut peer, 0, port, BYTES_MAX);
        peer
    }

    fn prove(peer: &mut Peer, ms: u64, port: u16, bytes: usize) {
        let reply = hear(peer, ms, port, bytes, Kind::Probe, &[]);
        let Some(Reply::Challenge { token, body_bytes }) = reply else { panic!("{reply:?}") };
        assert!(body_bytes + BYTES_MIN <= bytes);
        let proof = hear(peer, ms + 1, port, 45, Kind::Proof, &token);
        assert_eq!(proof, Some(Reply::Alive));
    }

    #[test]
    fn an_address_is_believed_when_it_has_answered() {
        let mut peer = peer();
        assert_eq!(peer.way(at(0), 10_000), None);
        // Short ones prove nothing, and a proof before any challenge is none.
        assert_eq!(hear(&mut peer, 0, 1, BYTES_MAX - 1, Kind::Probe, &[]), None);
        assert_eq!(hear(&mut peer, 0, 1, 45, Kind::Proof, &[0; 8]), None);
        let reply = hear(&mut peer, 0, 1, BYTES_MAX, Kind::Probe, &[]);
        let Some(Reply::Challenge { token, body_bytes }) = reply else { panic!("{reply:?}") };
        assert_eq!(body_bytes, BYTES_MAX - BYTES_MIN);
        // Another address cannot answer for it, nor can a wrong token.
        assert_eq!(hear(&mut peer, 1, 2, 45, Kind::Proof, &token), None);
        assert!(!peer.has_path());
        prove(&mut peer, 200, 1, BYTES_MAX);
        assert_eq!(peer.way(at(300), 10_000), Some(address(1)));
        assert_eq!(hear(&mut peer, 301, 1, 45, Kind::Probe, &[]), Some(Reply::Alive));
        assert_eq!(hear(&mut peer, 301, 1, 45, Kind::ClientData, &[]), None);
    }

    #[test]
    fn one_that_has_moved_is_challenged_and_the_old_address_stays_until_then() {
        let mut peer = believed(1);
        // As many bytes as a challenge has are there with the second.
        assert_eq!(hear(&mut peer, 200, 2, 40, Kind::ClientData, &[]), None);
        let reply = hear(&mut peer, 210, 2, 40, Kind::ClientData, &[]);
        let Some(Reply::Challenge { token, body_bytes }) = reply else { panic!("{reply:?}") };
        assert_eq!(body_bytes + BYTES_MIN, 80);
        assert_eq!(peer.way(at(211), 10_000), Some(address(1)));
        assert_eq!(hear(&mut peer, 220, 2, 45, Kind::Proof, &token), Some(Reply::Alive));
        assert_eq!(peer.way(at(221), 10_000), Some(address(2)));
    }

    #[test]
    fn no_address_is_sent_more_than_came_from_it() {
        let mut random = Random::from_number(3);
        let (mut peer, mut came, mut sent) = (believed(1), [0_usize; 4], [0_usize; 4]);
        for step in 0..20_000 {
            let port = 2 + u16::try_from(random.below(3)).unwrap();
            let bytes = BYTES_MIN + random.below(1_163) as usize;
            came[usize::from(port) - 2] += bytes;
            let reply = hear(&mut peer, 200 + step * 20, port, bytes, Kind::ClientData, &[]);
            if let Some(Reply::Challenge { body_bytes, .. }) = reply {
                sent[usize::from(port) - 2] += body_bytes + BYTES_MIN;
            }
            assert!(sent.iter().zip(came).all(|(sent, came)| *sent <= came));
        }
        assert!(sent[0] > 0 && peer.way(at(201), 10_000) == Some(address(1)));
    }

    #[test]
    fn challenges_are_rare() {
        let mut peer = peer();
        let all = (0..1_000).filter(|ms| {
            hear(&mut peer, *ms, (ms % 7) as u16, BYTES_MAX, Kind::Probe, &[]).is_some()
        });
        assert_eq!(all.count(), 10);
    }

    #[test]
    fn who_is_silent_or_acknowledges_nothing_is_believed_no_more() {
        let mut peer = believed(1);
        assert_eq!(peer.way(at(9_999), 10_000), Some(address(1)));
        assert_eq!(peer.way(at(10_001), 10_000), None);
        assert!(!peer.has_path());

        let mut peer = believed(1);
        let head = |sequence, newest| Head {
            kind: Kind::Probe,
            id: 1,
            sequence,
            acks: Acks { newest, bits: 0 },
        };
        for (ms, sequence, newest) in [(1_000, 1, 0), (4_000, 2, 1), (8_000, 3, 9)] {
            assert!(peer.next(at(ms), Kind::ServerData).is_some());
            assert!(peer.take(at(ms), &head(sequence, newest)).is_ok());
            assert_eq!(hear(&mut peer, ms, 1, 45, Kind::Probe, &[]), Some(Reply::Alive));
            assert_eq!(peer.way(at(ms), 10_000), Some(address(1)), "{ms}");
        }
        // The number 9 was never sent: nothing is acknowledged since 4,000.
        assert_eq!(peer.way(at(9_000), 10_000), None);
        assert!(peer.take(at(9_000), &head(3, 3)).is_err(), "a number twice");
    }

    #[test]
    fn numbers_end() {
        let mut peer = believed(1);
        peer.sequence = u32::MAX - 1;
        assert!(peer.next(at(5), Kind::ServerData).is_some());
        assert_eq!((peer.way(at(5), 10_000), peer.next(at(5), Kind::ServerData)), (None, None));
    }
}
