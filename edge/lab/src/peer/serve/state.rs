//! What the server's threads share: who is connected, which sessions are open, who said wrong tokens,
//! what was counted.
//!
//! In: comings and goings. Out: shares of what is bounded, sessions by their number, counts. Locks are
//! held for moments, and never while anything is sent.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use event::{Allowed, Attempts, Now, client_bits};

use super::super::gone::random;
use super::super::protocol::{Refusal, Service, is_same_token};
use super::ServeOptions;
use super::flow::Flow;
use super::shares::{Full, Share, Shares};

/// Bytes of messages and of flows' buffers that are in memory at once, at most; those up to
/// [`SMALL_BYTES`] do not count.
const MESSAGES_BYTES_MAX: u64 = 256 << 20;
/// Of them one client's: a neighbour always finds the other half.
const CLIENT_BYTES_MAX: u64 = MESSAGES_BYTES_MAX / 2;
/// Bytes of a message that every connection may have.
pub(super) const SMALL_BYTES: usize = 64 << 10;
/// Wrong tokens of a client within so long; then none is looked at for as long. That is more than a
/// person mistypes, and leaves 14,400 a day to a program that guesses.
const WRONG_TOKENS: Allowed = Allowed { failures: 10, period_s: 60 };
/// How often one kind of refusal is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What happens, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A session was opened.
    Began {
        /// By whom.
        peer: IpAddr,
        /// Their version.
        version: String,
    },
    /// It ended.
    Ended {
        /// Whose.
        peer: IpAddr,
        /// Why: their own word, or `vanished`.
        why: String,
        /// Datagrams that came of it.
        datagrams: u64,
        /// Messages that came of it.
        messages: u64,
        /// Bytes of its flow, in either direction.
        flow_bytes: u64,
    },
    /// Somebody was refused; told once a second of each kind at most.
    Refused {
        /// Who.
        peer: IpAddr,
        /// Why.
        why: String,
    },
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Sessions that were opened.
    pub sessions: u64,
    /// Sessions whose other end vanished.
    pub vanished: u64,
    /// Messages sent back.
    pub messages: u64,
    /// Datagrams sent back.
    pub datagrams: u64,
    /// HTTP requests answered.
    pub requests: u64,
    /// Frames of WebSocket answered.
    pub frames: u64,
    /// Flows that were begun.
    pub flows: u64,
    /// Those of them that were kept off one processor: they burn time, or are sent small pieces.
    pub flows_kept_off: u64,
    /// Bytes of flows, in either direction.
    pub flow_bytes: u64,
    /// Flows refused for what they asked, or because there were too many.
    pub refused_flows: u64,
    /// Turned away at a limit.
    pub refused_busy: u64,
    /// Refused for their token.
    pub refused_token: u64,
    /// Refused without a look at their token: too many wrong ones came from there.
    pub refused_guessing: u64,
    /// Flows ended because they did not begin, carried nothing, or lasted too long.
    pub flows_overdue: u64,
    /// Refused for their version.
    pub refused_version: u64,
    /// Refused for what they said, or did not say in time.
    pub refused_form: u64,
    /// Datagrams without a session, or of another address than the session's, not answered.
    pub datagrams_foreign: u64,
    /// Datagrams that the system did not take back.
    pub datagrams_unsent: u64,
}

/// An open session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) service: Service,
    pub(super) number: u64,
    pub(super) peer: IpAddr,
    pub(super) datagrams: AtomicU64,
    pub(super) messages: AtomicU64,
    pub(super) is_over: AtomicBool,
    /// What it asked for, if it is a flow's.
    pub(super) flow: OnceLock<Arc<Flow>>,
}

pub(super) struct State {
    pub(super) options: ServeOptions,
    tell: Box<dyn Fn(&Happening) + Send + Sync>,
    is_over: AtomicBool,
    began: Instant,
    sessions: RwLock<HashMap<u64, Arc<Session>>>,
    connections: Arc<Shares>,
    pub(super) flows: Arc<Shares>,
    /// Flows whose frames are taken from an interface: of an interface there can be one.
    pub(super) by_frames: Arc<Shares>,
    bytes: Arc<Shares>,
    wrong_tokens: Mutex<Attempts>,
    counts: Mutex<Counts>,
    /// Sent back; apart, because it is counted for each.
    pub(super) datagrams: AtomicU64,
    /// Likewise.
    pub(super) messages: AtomicU64,
    told: Mutex<HashMap<&'static str, Instant>>,
}

/// What cannot be poisoned: a panic ends the process.
pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn new(options: ServeOptions, tell: Box<dyn Fn(&Happening) + Send + Sync>) -> Self {
        let (connections, each) = (options.connections_max, options.per_address_max);
        let flows = u64::from(options.flows_max);
        Self {
            tell,
            is_over: AtomicBool::new(false),
            began: Instant::now(),
            sessions: RwLock::default(),
            connections: Shares::new(connections.into(), each.into()),
            // Whoever has all but one leaves one to a neighbour.
            flows: Shares::new(flows, flows.saturating_sub(1).max(1)),
            by_frames: Shares::new(1, 1),
            bytes: Shares::new(MESSAGES_BYTES_MAX, CLIENT_BYTES_MAX),
            wrong_tokens: Mutex::new(Attempts::new(WRONG_TOKENS)),
            counts: Mutex::default(),
            datagrams: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            told: Mutex::default(),
            options,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Asks all threads to end, and waits for those of connections.
    pub(super) fn stop(&self, wait: Duration) {
        self.is_over.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + wait;
        while !self.connections.is_free() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let (datagrams, messages) = (&self.datagrams, &self.messages);
        Counts {
            datagrams: datagrams.load(Ordering::Relaxed),
            messages: messages.load(Ordering::Relaxed),
            ..*held(&self.counts)
        }
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut held(&self.counts));
    }

    pub(super) fn tell(&self, happening: &Happening) {
        (self.tell)(happening);
    }

    /// Says that somebody was refused, unless the same has just been said.
    pub(super) fn tell_refusal(&self, kind: &'static str, peer: IpAddr, why: &str) {
        let now = Instant::now();
        let mut told = held(&self.told);
        let is_fresh = told.get(kind).is_none_or(|at| now.duration_since(*at) >= TELL_EVERY);
        if is_fresh {
            told.insert(kind, now);
            drop(told);
            self.tell(&Happening::Refused { peer, why: why.to_owned() });
        }
    }

    /// A place for a connection, or for a socket of a flow; none at a limit.
    pub(super) fn place(&self, peer: IpAddr) -> Option<Share> {
        let place = self.connections.take(peer, 1).ok()?;
        self.count(|it| it.connections += 1);
        Some(place)
    }

    /// Whether this address may do what takes the token, if there is one.
    pub(super) fn admit(&self, peer: IpAddr, said: &str) -> Result<(), Refusal> {
        let Some(own) = &self.options.token else { return Ok(()) };
        // Whoever says none does not guess.
        if said.is_empty() {
            return Err(Refusal::Token);
        }
        let mono_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = Now { mono_ns, unix_ms: 0 };
        // 0 would be nobody.
        let client = client_bits(peer).max(1);
        let mut wrong_tokens = held(&self.wrong_tokens);
        if let Some(wait_s) = wrong_tokens.locked_s(now, client) {
            return Err(Refusal::Guessing { wait_s });
        }
        if is_same_token(own, said) {
            return Ok(());
        }
        wrong_tokens.fail(now, client);
        Err(Refusal::Token)
    }

    /// Opens a session, with a number that nobody can guess.
    pub(super) fn open(&self, peer: IpAddr, service: Service) -> Arc<Session> {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        let mut number = u64::from_ne_bytes(random());
        while sessions.contains_key(&number) {
            number = u64::from_ne_bytes(random());
        }
        let session = Arc::new(Session {
            service,
            number,
            peer,
            datagrams: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            flow: OnceLock::new(),
        });
        sessions.insert(number, session.clone());
        session
    }

    pub(super) fn close(&self, session: &Session) {
        session.is_over.store(true, Ordering::Relaxed);
        if let Some(flow) = session.flow.get() {
            flow.end();
        }
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).remove(&session.number);
    }

    /// The session of this number, if this address has opened it.
    pub(super) fn session(&self, number: u64, peer: IpAddr) -> Option<Arc<Session>> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&number).filter(|it| it.peer == peer).cloned()
    }

    /// Takes memory for a message or a flow's buffers; given back when the share is dropped.
    pub(super) fn room(&self, peer: IpAddr, bytes: usize) -> Result<Share, Full> {
        let bytes = if bytes <= SMALL_BYTES { 0 } else { bytes };
        self.bytes.take(peer, u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::super::ServeOptions;
    use super::{CLIENT_BYTES_MAX, Full, Refusal, SMALL_BYTES, Service, State, WRONG_TOKENS};

    pub(in super::super) fn state() -> Arc<State> {
        with_token(None)
    }

    fn with_token(token: Option<&str>) -> Arc<State> {
        let options = ServeOptions {
            address: ([127, 0, 0, 1], 0).into(),
            token: token.map(str::to_owned),
            connections_max: 3,
            per_address_max: 2,
            flows_max: 2,
            send_bits_max: 1e9,
            takes_frames: false,
        };
        Arc::new(State::new(options, Box::new(|_| {})))
    }

    fn ip(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn places_are_bounded_in_all_and_by_client() {
        let state = state();
        let one = state.place("2001:db8::1".parse().unwrap());
        let two = state.place("2001:db8::2".parse().unwrap());
        assert!(one.is_some() && two.is_some());
        assert!(state.place("2001:db8::3".parse().unwrap()).is_none(), "a /64 is one client");
        let three = state.place(ip(2));
        assert!(three.is_some() && state.place(ip(3)).is_none());
        drop(one);
        assert!(state.place(ip(3)).is_some());
    }

    #[test]
    fn a_neighbour_always_finds_a_flow() {
        let state = state();
        let one = state.flows.take(ip(1), 1);
        assert_eq!(state.flows.take(ip(1), 1).err(), Some(Full::Own));
        assert!(one.is_ok() && state.flows.take(ip(2), 1).is_ok());
    }

    #[test]
    fn a_session_is_its_addresss_and_memory_is_bounded() {
        let state = state();
        let session = state.open(ip(1), Service::Ping);
        assert!(state.session(session.number, ip(1)).is_some());
        assert!(state.session(session.number, ip(2)).is_none());
        state.close(&session);
        assert!(state.session(session.number, ip(1)).is_none());
        // One client has half, a neighbour the other, and small ones have room besides.
        let half = usize::try_from(CLIENT_BYTES_MAX).unwrap();
        let first = state.room(ip(1), half);
        assert_eq!(state.room(ip(1), SMALL_BYTES + 1).err(), Some(Full::Own));
        let second = state.room(ip(2), half);
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(state.room(ip(3), SMALL_BYTES + 1).err(), Some(Full::All));
        assert!(state.room(ip(3), SMALL_BYTES).is_ok());
        drop(first);
        assert!(state.room(ip(3), SMALL_BYTES + 1).is_ok());
    }

    #[test]
    fn whoever_guesses_waits_and_a_neighbour_does_not() {
        let state = with_token(Some("right"));
        for _ in 0..WRONG_TOKENS.failures {
            assert_eq!(state.admit(ip(1), ""), Err(Refusal::Token), "no guess");
        }
        for guess in 0..WRONG_TOKENS.failures {
            assert_eq!(state.admit(ip(1), "wrong"), Err(Refusal::Token), "{guess}");
        }
        for said in ["wrong", "right"] {
            let refused = state.admit(ip(1), said);
            assert!(matches!(refused, Err(Refusal::Guessing { wait_s: 1..=60 })), "{refused:?}");
        }
        assert_eq!(state.admit(ip(2), "right"), Ok(()));
    }
}
