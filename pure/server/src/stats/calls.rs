//! What a core counts of each API call: how often, how often with an error, bytes, and how long its
//! clients waited, from the turn in which a request was whole to the turn in which it was answered.
//! RPC functions over HTTP are one more call.
//!
//! Made for every row of `game::api::ROWS`, so that a call has its metrics with its row. Names on
//! `/metrics` are the wiring's.

use event::Now;
use game::api::{CALLS_COUNT, CallId};

use super::{Counter, Times};

/// The place of RPC functions over HTTP.
const RPC: usize = CALLS_COUNT;

/// A call, or an RPC, as a place among the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted(usize);

impl Counted {
    pub(crate) const RPC: Self = Self(RPC);
}

impl From<CallId> for Counted {
    fn from(id: CallId) -> Self {
        Self(id as usize)
    }
}

/// The counters of all calls.
#[derive(Debug)]
pub struct CallStats(Box<[CallCounters]>);

/// The counters of one call.
#[derive(Debug, Default)]
pub struct CallCounters {
    /// Answers.
    pub count: Counter,
    /// Answers with a status of 400 or above.
    pub errors: Counter,
    /// Bytes of requests' bodies.
    pub recv_bytes: Counter,
    /// Bytes of answers' bodies.
    pub sent_bytes: Counter,
    /// Answers by waiting time.
    pub latency: Times,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metered {
    pub(crate) call: Counted,
    pub(crate) began: Now,
    pub(crate) recv_bytes: usize,
}

impl Default for CallStats {
    fn default() -> Self {
        Self(std::iter::repeat_with(CallCounters::default).take(CALLS_COUNT + 1).collect())
    }
}

impl CallStats {
    /// The counters of every call in the order of the table, with its name; of RPCs last.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &CallCounters)> {
        let names = game::api::ROWS.iter().map(|row| row.name).chain(["Rpc"]);
        names.zip(&*self.0)
    }

    /// A request is answered.
    pub(crate) fn note(&self, now: Now, request: Metered, status: u16, sent_bytes: usize) {
        let Some(counters) = self.0.get(request.call.0) else { return };
        let us = now.mono_ns.saturating_sub(request.began.mono_ns) / 1_000;
        counters.count.up();
        if status >= 400 {
            counters.errors.up();
        }
        counters.recv_bytes.add(request.recv_bytes as u64);
        counters.sent_bytes.add(sent_bytes as u64);
        counters.latency.note(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_under_its_name() {
        let stats = CallStats::default();
        let began = Now { mono_ns: 1_000_000, unix_ms: 1 };
        for (call, after_us, status) in [
            (Counted::from(CallId::AuthenticateDevice), 200, 200),
            (Counted::from(CallId::AuthenticateDevice), 201, 401),
            (Counted::RPC, 60_000_000, 200),
        ] {
            let now = Now { mono_ns: began.mono_ns + after_us * 1_000, unix_ms: 1 };
            stats.note(now, Metered { call, began, recv_bytes: 3 }, status, 5);
        }
        let find = |name| stats.all().find(|(it, _)| *it == name).unwrap().1;
        let device = find("AuthenticateDevice");
        assert_eq!((device.count.read(), device.errors.read()), (2, 1));
        assert_eq!((device.recv_bytes.read(), device.sent_bytes.read()), (6, 10));
        assert_eq!((device.latency.sum_us.read(), device.latency.counts[0].read()), (401, 1));
        assert_eq!(device.latency.counts[1].read(), 1);
        assert_eq!(find("Rpc").latency.counts.last().unwrap().read(), 1);
        assert_eq!(find("GetAccount").count.read(), 0);
        assert_eq!(stats.all().count(), CALLS_COUNT + 1);
    }
}
