//! What the server's threads share: who is connected, which sessions are open, what was counted.
//!
//! In: comings and goings. Out: places for connections, sessions by their number, counts. Locks are
//! held for moments, and never while anything is sent.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::super::gone::random;
use super::super::protocol::Service;
use super::ServeOptions;
use super::flow::Flow;

/// Bytes of messages that are in memory at once, at most; messages up to [`SMALL_BYTES`] do not count.
const MESSAGES_BYTES_MAX: usize = 256 << 20;
/// Bytes of a message that every connection may have.
pub(super) const SMALL_BYTES: usize = 64 << 10;
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
    /// Bytes of flows, in either direction.
    pub flow_bytes: u64,
    /// Flows refused for what they asked, or because there were too many.
    pub refused_flows: u64,
    /// Turned away at a limit.
    pub refused_busy: u64,
    /// Refused for their token.
    pub refused_token: u64,
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
    sessions: RwLock<HashMap<u64, Arc<Session>>>,
    by_address: Mutex<HashMap<IpAddr, u32>>,
    counts: Mutex<Counts>,
    /// Sent back; apart, because it is counted for each.
    pub(super) datagrams: AtomicU64,
    /// Likewise.
    pub(super) messages: AtomicU64,
    message_bytes: AtomicUsize,
    /// At this moment.
    flows: AtomicU32,
    told: Mutex<HashMap<&'static str, Instant>>,
}

/// What cannot be poisoned: a panic ends the process.
pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn new(options: ServeOptions, tell: Box<dyn Fn(&Happening) + Send + Sync>) -> Self {
        Self {
            options,
            tell,
            is_over: AtomicBool::new(false),
            sessions: RwLock::default(),
            by_address: Mutex::default(),
            counts: Mutex::default(),
            datagrams: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            message_bytes: AtomicUsize::new(0),
            flows: AtomicU32::new(0),
            told: Mutex::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Asks all threads to end, and waits for those of connections.
    pub(super) fn stop(&self, wait: Duration) {
        self.is_over.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + wait;
        while !held(&self.by_address).is_empty() && Instant::now() < deadline {
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

    /// A place for a connection; none at a limit.
    pub(super) fn place(state: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let mut by_address = held(&state.by_address);
        let all: u32 = by_address.values().sum();
        let own = by_address.get(&peer).copied().unwrap_or(0);
        if all >= state.options.connections_max || own >= state.options.per_address_max {
            return None;
        }
        by_address.insert(peer, own + 1);
        drop(by_address);
        state.count(|it| it.connections += 1);
        Some(Place { state: state.clone(), peer })
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

    /// A place for a flow; none at the limit.
    pub(super) fn flow_place(state: &Arc<Self>) -> Option<FlowPlace> {
        let before = state.flows.fetch_add(1, Ordering::Relaxed);
        let place = FlowPlace(state.clone());
        (before < state.options.flows_max).then_some(place)
    }

    /// Takes memory for a message; given back when the room is dropped. None when there is none.
    pub(super) fn room(&self, bytes: usize) -> Option<Room<'_>> {
        let bytes = if bytes <= SMALL_BYTES { 0 } else { bytes };
        let before = self.message_bytes.fetch_add(bytes, Ordering::Relaxed);
        let room = Room { state: self, bytes };
        (before + bytes <= MESSAGES_BYTES_MAX).then_some(room)
    }
}

/// Memory of messages and of flows.
pub(super) struct Room<'a> {
    state: &'a State,
    bytes: usize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.state.message_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A flow's place; free again when it is dropped.
pub(super) struct FlowPlace(Arc<State>);

impl Drop for FlowPlace {
    fn drop(&mut self) {
        self.0.flows.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection's place among those of its address; free again when it is dropped.
pub(super) struct Place {
    state: Arc<State>,
    peer: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_address = held(&self.state.by_address);
        if let Some(own) = by_address.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                by_address.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use super::super::ServeOptions;
    use super::{MESSAGES_BYTES_MAX, SMALL_BYTES, Service, State};

    pub(in super::super) fn state() -> Arc<State> {
        let options = ServeOptions {
            address: ([127, 0, 0, 1], 0).into(),
            token: None,
            connections_max: 3,
            per_address_max: 2,
            flows_max: 2,
        };
        Arc::new(State::new(options, Box::new(|_| {})))
    }

    fn ip(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn places_are_bounded_in_all_and_by_address() {
        let state = state();
        let one = State::place(&state, ip(1));
        let two = State::place(&state, ip(1));
        assert!(one.is_some() && two.is_some() && State::place(&state, ip(1)).is_none());
        let three = State::place(&state, ip(2));
        assert!(three.is_some() && State::place(&state, ip(3)).is_none());
        drop(one);
        assert!(State::place(&state, ip(3)).is_some());
        drop((two, three));
        assert!(state.by_address.lock().unwrap().is_empty());
    }

    #[test]
    fn flows_are_bounded() {
        let state = state();
        let [one, two, three] = [(); 3].map(|()| State::flow_place(&state));
        assert!(one.is_some() && two.is_some() && three.is_none());
        drop(one);
        assert!(State::flow_place(&state).is_some());
    }

    #[test]
    fn a_session_is_its_addresss_and_memory_is_bounded() {
        let state = state();
        let session = state.open(ip(1), Service::Ping);
        assert!(state.session(session.number, ip(1)).is_some());
        assert!(state.session(session.number, ip(2)).is_none());
        state.close(&session);
        assert!(state.session(session.number, ip(1)).is_none());
        let all = state.room(MESSAGES_BYTES_MAX);
        assert!(all.is_some() && state.room(SMALL_BYTES + 1).is_none());
        assert!(state.room(SMALL_BYTES).is_some());
        drop(all);
        assert!(state.room(SMALL_BYTES + 1).is_some());
    }
}
