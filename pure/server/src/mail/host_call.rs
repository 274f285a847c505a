//! Functions of the host table that one thread runs for a guest's call on another: what is asked for,
//! and what comes of it. Plain data; no behaviour here, but for where it goes and how much it is.
//!
//! ```text
//! worker, room ── Calls, Call ──▶ batcher, hasher, caller ── Returned ──▶ worker, room
//! ```

use event::ThreadId;
use game::guest::{Allowance, HostError};
use game::host::{HostFunction, HostLane, Returns};
use game::node::NodeId;
use game::value::Value;
use serde::{Deserialize, Serialize};

use super::{
    Address, BatcherMail, CallerMail, Fetched, HasherMail, Line, Mail, News, RoomMail, Topology,
    WorkerAddress,
};
use crate::resources::Spent;

/// Bytes of arguments that are as much work as a row.
const ROW_BYTES: usize = 1_024;

/// A function of the host table, to be run for the call of a guest that waits for it.
#[derive(Debug)]
pub struct HostCall {
    /// Who waits.
    pub from: Asker,
    /// The number under which it does; comes back in [`HostReturn`].
    pub number: u64,
    /// Whose it is, for fairness: a thread's user, address or match.
    pub line: Line,
    /// The function.
    pub function: &'static HostFunction,
    /// Its arguments.
    pub values: Vec<Value>,
    /// What the guest's call may still use.
    pub allowance: Allowance,
    /// What it has had of what is counted by the call.
    pub spent: Spent,
}

/// What came of a [`HostCall`]. What it wrote is durable.
#[derive(Debug)]
pub struct HostReturn {
    /// The call's.
    pub number: u64,
    /// What the function returned.
    pub result: Result<Returns, HostError>,
    /// How much of its time the call has used, in steps of about a nanosecond.
    pub steps: u64,
    /// The call's, with what it has had since.
    pub spent: Spent,
}

/// A thread on which guests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asker {
    /// Their calls.
    Worker(WorkerAddress),
    /// Their matches.
    Room(Address<RoomMail>),
}

impl Asker {
    /// The node.
    pub(crate) fn node(self) -> NodeId {
        match self {
            Self::Worker(to) => to.node(),
            Self::Room(to) => to.node(),
        }
    }

    /// What came of its calls, as mail.
    pub(crate) fn seal(self, topology: &Topology, returned: Vec<HostReturn>) -> (ThreadId, Mail) {
        match self {
            Self::Worker(to) => to.seal(topology, News::Returned(returned)),
            Self::Room(to) => to.seal(topology, RoomMail::Returned(returned)),
        }
    }

    /// What came of one of its requests to other servers, as mail.
    #[must_use]
    pub fn seal_fetched(self, topology: &Topology, fetched: Fetched) -> (ThreadId, Mail) {
        match self {
            Self::Worker(to) => to.seal(topology, News::Fetched(Box::new(fetched))),
            Self::Room(to) => to.seal(topology, RoomMail::Fetched(Box::new(fetched))),
        }
    }
}

impl HostCall {
    /// About how much work it is for the database ([`weight_rows`]).
    pub(crate) fn weight_rows(&self) -> usize {
        weight_rows(&self.values)
    }
}

/// About how much work a function with these arguments is for the database, in rows: those of its
/// lists, and one for each KiB.
pub(crate) fn weight_rows(values: &[Value]) -> usize {
    let rows = |value: &Value| match value {
        Value::List(items) => items.len(),
        _ => 0,
    };
    let rows: usize = values.iter().map(rows).sum();
    let bytes: usize = values.iter().map(bytes_of).sum();
    (rows + bytes / ROW_BYTES).max(1)
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Nil | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.iter().map(bytes_of).sum(),
        Value::Map(members) => {
            members.iter().map(|(name, value)| name.len() + bytes_of(value)).sum()
        }
    }
}

impl Topology {
    /// The calls of one turn as mail to whoever runs them: what needs the database to the batcher, all
    /// in one mail; what takes long to a thread that may.
    #[must_use]
    pub fn seal_calls(&self, calls: Vec<HostCall>) -> Vec<(ThreadId, Mail)> {
        let mut mails = Vec::new();
        let mut batched = Vec::with_capacity(calls.len());
        for call in calls {
            match call.function.lane {
                HostLane::Here
                | HostLane::Shared
                | HostLane::Room
                | HostLane::Network
                | HostLane::Read
                | HostLane::Write => {
                    batched.push(call);
                }
                HostLane::Hash => mails.push(self.seal_to_hasher(call)),
                HostLane::Slow => mails.push(self.seal_slow(call)),
            }
        }
        if !batched.is_empty() {
            mails.push(self.batcher.seal(self, BatcherMail::Calls(batched)));
        }
        mails
    }

    /// All matches of a room take turns as one with those who log in: else each of many matches would
    /// be as much to wait for as all of these.
    fn seal_to_hasher(&self, mut call: HostCall) -> (ThreadId, Mail) {
        if let Asker::Room(room) = call.from {
            call.line = (room.thread(), 0);
        }
        self.hasher.seal(self, HasherMail::Call(Box::new(call)))
    }

    /// What matches want goes to the hasher: cores do not know of it, and so would place users' calls
    /// behind it if it were with a caller. What a call wants goes to one caller for each who calls, so that
    /// who asks much keeps one of them from its work.
    fn seal_slow(&self, call: HostCall) -> (ThreadId, Mail) {
        if matches!(call.from, Asker::Room(_)) {
            return self.seal_to_hasher(call);
        }
        let (ThreadId(thread), number) = call.line;
        let at = (usize::from(thread) + number as usize) % self.callers.len().max(1);
        match self.callers.get(at) {
            Some(caller) => caller.seal(self, CallerMail::Call(Box::new(call))),
            None => self.seal_to_hasher(call),
        }
    }
}
