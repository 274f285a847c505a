//! Datagrams of a core thread: which of those that came are told, and what waits to be sent until
//! the turn's end. Whatever has no room is dropped and counted; nothing is closed, held back or
//! waited for because of a datagram.
//!
//! In come pieces of a driver's ([`Reactor::on_datagrams`]) and a handler's operations; out go inputs,
//! and an [`Outbox`] for each socket, which the driver offers to the kernel once a turn.

use std::net::SocketAddr;

use event::{Datagrams, Input, SocketId};

use crate::counters::Count;
use crate::fair::INPUT_COST;
use crate::net::Net;
use crate::reactor::Reactor;
use crate::stop::Stage;

/// Datagrams of one bundle: as many as the kernel cuts one piece into. Source: `UDP_MAX_SEGMENTS` in
/// the kernel's linux/udp.h, 64 before Linux 6.9.
const BUNDLE_MAX: u16 = 64;
/// Bytes of one bundle: what one piece may have over IPv4, 65,535 less two headers.
const BUNDLE_BYTES_MAX: u32 = 65_507;
/// What a datagram that waits costs besides its bytes: about what is kept of it here, and in the kernel.
const DATAGRAM_COST: u64 = 64;
/// Memory of an outbox that is kept for the next turn.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Datagrams to one address, one behind the other and all of one size but for the last, which may be
/// shorter: what a kernel takes as one piece and cuts up itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle<'a> {
    /// Where they go.
    pub to: SocketAddr,
    /// How many they are, 1 to 64.
    pub count: u16,
    /// Bytes of each but the last; of one datagram, all.
    pub segment: u16,
    /// All bytes, at most 65,507; none is one datagram of no bytes.
    pub bytes: &'a [u8],
}

impl Bundle<'_> {
    /// The same datagrams: as they are, or each a bundle of its own.
    pub fn pieces(self, are_whole: bool) -> impl Iterator<Item = Self> {
        let segment = if are_whole { self.bytes.len() } else { usize::from(self.segment) };
        let none = self.bytes.is_empty().then_some(self);
        let (whole, to) = (are_whole.then_some(self), self.to);
        let some = self.bytes.chunks(segment.max(1)).map(move |bytes| {
            let segment = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
            whole.unwrap_or(Bundle { to, count: 1, segment, bytes })
        });
        none.into_iter().chain(some)
    }
}

/// What is known of a bundle; its bytes lie behind those of the one before.
#[derive(Clone, Copy, Debug)]
struct Queued {
    to: SocketAddr,
    bytes: u32,
    segment: u16,
    count: u16,
}

impl Queued {
    /// Whether one more datagram goes with these.
    fn takes(&self, to: SocketAddr, len: u16) -> bool {
        let is_full_so_far = self.bytes == u32::from(self.segment) * u32::from(self.count);
        // One of no bytes could not be told from none.
        is_full_so_far
            && (1..=self.segment).contains(&len)
            && self.count < BUNDLE_MAX
            && self.bytes + u32::from(len) <= BUNDLE_BYTES_MAX
            && self.to == to
    }
}

/// What one socket is to send at the end of the turn.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    bundles: Vec<Queued>,
    datagrams: u64,
}

impl Outbox {
    /// Whether there is nothing to send.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bundles.is_empty()
    }

    /// What is to be sent, in order.
    pub fn bundles(&self) -> impl Iterator<Item = Bundle<'_>> {
        let mut rest = &*self.bytes;
        self.bundles.iter().map(move |kept| {
            let (bytes, after) = rest.split_at(kept.bytes as usize);
            rest = after;
            Bundle { to: kept.to, count: kept.count, segment: kept.segment, bytes }
        })
    }

    fn cost(&self) -> u64 {
        self.bytes.len() as u64 + self.datagrams * DATAGRAM_COST
    }

    /// Adds a datagram of 65,507 bytes at most.
    pub fn push(&mut self, to: SocketAddr, datagram: &[u8]) {
        assert!(datagram.len() <= BUNDLE_BYTES_MAX as usize, "longer than a datagram can be");
        let len = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(datagram);
        self.datagrams += 1;
        match self.bundles.last_mut() {
            Some(last) if last.takes(to, len) => {
                last.bytes += u32::from(len);
                last.count += 1;
            }
            _ => {
                self.bundles.push(Queued { to, bytes: u32::from(len), segment: len, count: 1 });
            }
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bundles.clear();
        self.datagrams = 0;
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.bundles.shrink_to(KEPT_BYTES_MAX / size_of::<Queued>());
    }
}

/// What became of an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Datagrams that the kernel has taken, and their bytes.
    pub datagrams: u64,
    /// See above.
    pub bytes: u64,
    /// Datagrams that it has not: no room, or nowhere to go.
    pub refused: u64,
}

impl<M> Net<M> {
    /// Queues a datagram, unless it has no room.
    pub(crate) fn send_datagram(&mut self, socket: SocketId, to: SocketAddr, datagram: &[u8]) {
        let Some(outbox) = self.outboxes.get_mut(usize::from(socket.0)) else {
            self.counters.add(Count::Misdirected, 1);
            return;
        };
        let len = datagram.len() as u64;
        let is_long = len > u64::from(self.limits.datagram_bytes_max.min(BUNDLE_BYTES_MAX));
        let cost = outbox.cost() + len + DATAGRAM_COST;
        if is_long || cost > u64::from(self.limits.datagram_queue_bytes) {
            self.counters.add(Count::DatagramsOutDropped, 1);
            self.tell_unsent(is_long);
        } else {
            outbox.push(to, datagram);
        }
    }

    fn tell_unsent(&mut self, is_long: bool) {
        let (kind, limit) = if is_long {
            ("datagram_bytes_max", self.limits.datagram_bytes_max)
        } else {
            ("datagram_queue_bytes", self.limits.datagram_queue_bytes)
        };
        if let Some(unsaid) = self.said.note(self.now, kind) {
            tracing::warn!(
                unsaid,
                limit,
                "datagrams are not sent: a thread's limit {kind} is reached (said once a second)"
            );
        }
    }

    /// How many sockets for datagrams the thread has.
    #[must_use]
    pub fn sockets(&self) -> u16 {
        u16::try_from(self.outboxes.len()).unwrap_or(u16::MAX)
    }

    /// What a socket is to send. The driver offers it to the kernel at the turn's end, without
    /// waiting, and then says what became of it: [`Self::on_datagrams_offered`].
    #[must_use]
    pub fn outbox(&self, socket: SocketId) -> &Outbox {
        &self.outboxes[usize::from(socket.0)]
    }

    /// The kernel was offered all that the socket had to send, and has let go of it.
    pub fn on_datagrams_offered(&mut self, socket: SocketId, taken: Taken) {
        let outbox = &mut self.outboxes[usize::from(socket.0)];
        let told = taken.datagrams + taken.refused;
        assert_eq!(told, outbox.datagrams, "datagrams that were to be sent are sent or refused");
        outbox.clear();
        self.counters.add(Count::DatagramsOut, taken.datagrams);
        self.counters.add(Count::DatagramBytesOut, taken.bytes);
        self.counters.add(Count::DatagramsOutRefused, taken.refused);
    }

    /// The driver has taken datagrams from the kernel that cannot be told: they do not fit, or have
    /// no sender.
    pub fn on_datagrams_unreadable(&mut self, count: u64) {
        self.counters.add(Count::DatagramsInDropped, count);
    }

    /// The kernel has dropped datagrams before the thread took them.
    pub fn on_datagrams_lost(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.counters.add(Count::DatagramsLost, count);
        if let Some(unsaid) = self.said.note(self.now, "datagrams lost") {
            tracing::warn!(
                count,
                unsaid,
                "datagrams are lost: a socket was full, because its thread is too slow for them or \
                 net.core.rmem_max too small (said once a second)"
            );
        }
    }

    /// Whether this turn has told as many datagrams as it may: the driver leaves the rest for the
    /// next.
    #[inline]
    #[must_use]
    pub fn are_datagrams_spent(&self) -> bool {
        self.datagrams_spent >= u64::from(self.limits.datagram_turn_bytes) || self.is_turn_over()
    }

    /// Whether the thread is being stopped: nothing more is received for the handler.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stage != Stage::Running
    }
}

impl<M: Send + 'static> Reactor<M> {
    /// A reactor whose thread has so many sockets for datagrams.
    #[must_use]
    pub fn with_sockets(mut self, count: u16) -> Self {
        self.net.outboxes.resize_with(usize::from(count), Outbox::default);
        self
    }

    /// Datagrams arrived, of any length.
    pub fn on_datagrams(&mut self, datagrams: Datagrams<'_>) {
        let net = &mut self.net;
        assert!(datagrams.socket.0 < net.sockets(), "datagrams on a socket that is not there");
        net.datagrams_spent += datagrams.count() * INPUT_COST + datagrams.bytes();
        let (fit, longer) = datagrams.without_longer(net.limits.datagram_bytes_max);
        net.counters.add(Count::DatagramsInDropped, longer);
        let Some(fit) = fit else { return };
        if net.is_stopping() {
            net.counters.add(Count::DatagramsInDropped, fit.count());
            return;
        }
        net.counters.add(Count::DatagramsIn, fit.count());
        net.counters.add(Count::DatagramBytesIn, fit.bytes());
        self.handle(Input::Datagrams(fit));
    }
}
