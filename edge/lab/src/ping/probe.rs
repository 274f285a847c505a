//! What a stream asks, and how it knows the answer: one file for each kind.
//!
//! In: a number and a size. Out: bytes for the kernel, and numbers of what was answered with the
//! moment at which the kernel handed the answer over. When to ask is the stream's affair.

mod connect;
mod datagram;
mod http;
mod icmp;
mod message;
mod wire;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::PollFlags;
use rustls::ClientConfig;

use super::plan::{Kind, Plan};
use crate::load::record::ConnectingRecord;
pub(super) use crate::peer::gone::{Gone, random, would_wait};
use crate::peer::patience::Patience;

/// The run's clock: nanoseconds since it was made, the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) number: u64,
    pub(super) at_ns: u64,
    /// The status, of an HTTP answer that is an error.
    pub(super) bad_status: Option<u16>,
}

/// What a kind of ping can do. All calls but those of the constructors return at once.
pub(super) trait Probe {
    /// What to wait on, and for what.
    fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags);
    /// Pings that may be under way at once.
    fn waiting_max(&self) -> usize;
    /// Whether bytes of the last ping are still to be handed to the kernel: until then no other
    /// begins.
    fn has_unsent(&self) -> bool {
        false
    }
    /// Begins a ping; returns when its first byte was handed over.
    fn begin(&mut self, clock: Clock, number: u64, size: u32) -> Result<u64, Gone>;
    /// Hands over more of it.
    fn go_on(&mut self) -> Result<(), Gone> {
        Ok(())
    }
    /// Takes what has come. Whether anything came, if only a part of an answer.
    fn receive(&mut self, clock: Clock, answers: &mut Vec<Answered>) -> Result<bool, Gone>;
    /// Bytes sent and received since the last call, and times of connections that were made.
    fn take_traffic(&mut self) -> Traffic;
}

/// What a probe has moved.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) connecting: ConnectingRecord,
    /// The `Server` header of the first answer.
    pub(super) server: String,
}

/// What all streams know when they begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    pub(super) plan: &'a Plan,
    /// Of kinds that have one.
    pub(super) session: u64,
    pub(super) clock: Clock,
    /// Where TLS is spoken.
    pub(super) tls: Option<&'a Arc<ClientConfig>>,
}

impl Start<'_> {
    /// Bytes of the largest ping.
    fn largest(&self) -> usize {
        let largest = self.plan.sizes.iter().max().copied().unwrap_or(0);
        usize::try_from(largest).unwrap_or(0)
    }
}

/// Makes ready what the plan asks for: connects where there is a connection.
pub(super) fn probe(start: Start<'_>) -> Result<Box<dyn Probe>, Gone> {
    Ok(match start.plan.kind {
        Kind::Tcp => Box::new(message::Message::connect(start)?),
        Kind::Ws => Box::new(message::Socket::connect(start)?),
        Kind::Http => Box::new(http::Http::connect(start)?),
        Kind::Connect => Box::new(connect::Connect::new(start)?),
        Kind::Udp => Box::new(datagram::Datagram::connect(start)?),
        Kind::Icmp => Box::new(icmp::Icmp::open(start)?),
    })
}

impl Plan {
    /// How long a stream waits for a connection, or an answer of its beginning, from now on.
    fn patience(&self) -> Patience<'_> {
        Patience::new(self.timeout, &self.stop)
    }

    /// Why no connection could be made to where pings go.
    pub(super) fn unreachable(&self, error: std::io::Error) -> Gone {
        Gone::connecting((self.place.addr, self.timeout), self.needs_server(), error)
    }
}
