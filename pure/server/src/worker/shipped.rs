//! Functions of the host table that guests on other threads wait for ([`HostCall`]). The batcher runs
//! them in the transaction of its batch, beside the calls of clients: one that fails is undone alone,
//! and all of them are answered once they are committed and on the disk. The hasher and the callers
//! run what may take long, one at a time; such a call commits by itself.
//!
//! Not here: guests, and how they wait.

use event::{Now, ThreadId};
use game::db::{Database, MayConflict as _};
use game::guest::{Answer, Ask, CommonHost, Dispatcher, Host, HostError};
use game::host::{Args, Ran, Remaining};
use game::stream::{StreamId, StreamRequest};

use super::Worker;
use crate::mail::{Asker, HostCall, HostReturn, Job, Line, WorkerAddress, ZoneSave};
use crate::resources::{Resources, Spent, from_resources};

/// What waits for a worker: a core's job, or a function for a guest's call.
#[derive(Debug)]
pub(super) enum Task {
    Job(Job),
    Call(HostCall),
    Zone(Box<ZoneSave>),
}

impl Task {
    /// Whose it is.
    pub(super) fn line(&self) -> Line {
        match self {
            Self::Job(job) => job.line(),
            Self::Call(call) => call.line,
            // Nobody's: it takes turns with users.
            Self::Zone(_) => (ThreadId(u16::MAX), 0),
        }
    }

    /// About how much work it is for the database.
    pub(super) fn weight_rows(&self) -> usize {
        match self {
            Self::Job(job) => job.work.weight_rows(),
            Self::Call(call) => call.weight_rows(),
            Self::Zone(save) => 1 + save.part.len() / ROW_BYTES,
        }
    }
}

/// Of a part of the zone so many bytes are as much work as a row, or less: a page of SQLite.
const ROW_BYTES: usize = 4_096;

/// The host of one function that a guest on another thread waits for.
struct ShippedHost<'a> {
    now: Now,
    resources: &'a mut Resources,
    spent: Spent,
    commits: bool,
}

/// Why what only a guest's own thread can do is not done here: no row of the table does.
const ELSEWHERE: &str = "not possible on this thread";

impl Host for ShippedHost<'_> {
    fn db(&mut self) -> &mut dyn Database {
        &mut *self.resources.db
    }

    fn commits(&self) -> bool {
        self.commits
    }
}

impl CommonHost for ShippedHost<'_> {
    from_resources!(resources);

    fn ask(&mut self, _ask: Ask) -> Answer {
        Err(HostError::new(ELSEWHERE))
    }

    fn stream(&mut self, _stream: &StreamId, _request: StreamRequest) -> Result<(), HostError> {
        Err(HostError::new(ELSEWHERE))
    }

    fn dispatcher(&mut self) -> Option<&mut dyn Dispatcher> {
        None
    }
}

impl Worker {
    /// Runs what waits for this worker.
    pub(super) fn run_task(&mut self, now: Now, task: Task) {
        match task {
            Task::Job(job) => self.run(now, job),
            Task::Call(call) => self.run_call(now, call),
            Task::Zone(save) => self.keep_zone(save),
        }
    }

    /// Keeps a part of the zone; its home is told with all else of this turn.
    fn keep_zone(&mut self, save: Box<ZoneSave>) {
        if save.write < self.zone_write {
            // Its home has given it up, and a snapshot that came behind it is written.
            return;
        }
        self.zone_write = save.write;
        let kept = game::zone::keep(
            &mut *self.resources.db,
            self.topology.nodes.name(),
            save.number,
            &save.part,
        );
        if let Err(error) = &kept {
            if error.is_conflict() && self.again.has_tries_left() {
                self.resources.db.note_retry();
                return self.again.put(Task::Zone(save));
            }
            tracing::error!("the zone is not saved: {error}");
        }
        self.zone_saved.push((save.home, save.write, kept.is_ok()));
    }

    /// Runs a function for a guest's call; it is answered with all else of this turn.
    pub(super) fn run_call(&mut self, now: Now, call: HostCall) {
        self.stats.host_calls.up();
        let meter = Remaining::new(call.allowance);
        let args = Args { function: call.function.name, values: &call.values, meter: &meter };
        let commits = !matches!(self.me, WorkerAddress::Batcher(_));
        debug_assert!(!commits || !self.resources.db.in_transaction(), "it commits by itself");
        let resources = &mut self.resources;
        let mut host = ShippedHost { now, resources, spent: call.spent, commits };
        let result = match call.function.begin(&mut host, &args) {
            Ok(Ran::Returned(returns)) => Ok(returns),
            Ok(Ran::Waits(_)) => Err(HostError::new(ELSEWHERE)),
            Err(error) => Err(error),
        };
        let spent = host.spent;
        if let Err(error) = &result {
            if !commits && error.is_conflict() && self.again.has_tries_left() {
                self.resources.db.note_retry();
                return self.again.put(Task::Call(call));
            }
            self.stats.host_calls_failed.up();
        }
        let returned = HostReturn { number: call.number, result, steps: meter.used_steps(), spent };
        self.give_back(call.from, returned);
    }

    /// Keeps what came of a function until the commit.
    fn give_back(&mut self, to: Asker, returned: HostReturn) {
        match self.returned.iter_mut().find(|(asker, _)| *asker == to) {
            Some((_, list)) => list.push(returned),
            None => self.returned.push((to, vec![returned])),
        }
    }
}
