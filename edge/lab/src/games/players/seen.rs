//! What players have seen of a server, and what the thread that plays them knows of itself.

use super::schedule::{Counts, Schedule};
use crate::games::query::Info;
use crate::measure::percentiles::Times;

/// What one player sees.
#[derive(Debug, Default)]
pub(crate) struct PlayerSeen {
    /// Its snapshots.
    pub(crate) schedule: Schedule,
    /// From a command to the first snapshot that shows it.
    pub(crate) transactions: Times,
    /// Commands that were sent, and those that no snapshot showed while they were waited for.
    pub(crate) commands: u64,
    pub(crate) unanswered: u64,
    /// From a status query to its answer.
    pub(crate) status: Times,
    /// Queries that were sent, and not answered.
    pub(crate) asked: u64,
    pub(crate) silent: u64,
    /// The last answer.
    pub(crate) info: Option<Info>,
    /// Why it cannot play, if the server said so.
    pub(crate) refused: Option<&'static str>,
    pub(crate) is_counting: bool,
}

impl PlayerSeen {
    pub(crate) fn begin(&mut self) {
        self.schedule.begin();
        self.transactions = Times::default();
        self.status = Times::default();
        (self.commands, self.unanswered, self.asked, self.silent) = (0, 0, 0, 0);
        self.is_counting = true;
    }

    /// Adds what was seen since [`PlayerSeen::begin`].
    pub(crate) fn end(&mut self, into: &mut ServerSeen) {
        self.is_counting = false;
        let Counts { snapshots, missed, gaps, left_out } = self.schedule.end(&mut into.lateness);
        into.snapshots += snapshots;
        into.missed += missed;
        into.gaps += gaps;
        into.left_out += left_out;
        into.tick_ns = into.tick_ns.max(self.schedule.tick_ns());
        into.transactions.add(&std::mem::take(&mut self.transactions));
        into.status.add(&std::mem::take(&mut self.status));
        into.commands += self.commands;
        into.unanswered += self.unanswered;
        into.asked += self.asked;
        into.silent += self.silent;
    }
}

/// What all players of one server have seen in a stretch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerSeen {
    pub(crate) name: String,
    /// Players who were to play, and those who did not at the end.
    pub(crate) players: u32,
    pub(crate) lost: u32,
    /// Why one of them did not, if the server said so.
    pub(crate) refused: Option<&'static str>,
    /// Nanoseconds of a tick, as the server says; 0 if nobody knows.
    pub(crate) tick_ns: u64,
    pub(crate) lateness: Times,
    pub(crate) transactions: Times,
    pub(crate) status: Times,
    pub(crate) snapshots: u64,
    pub(crate) missed: u64,
    pub(crate) gaps: u64,
    pub(crate) left_out: u64,
    pub(crate) commands: u64,
    pub(crate) unanswered: u64,
    pub(crate) asked: u64,
    pub(crate) silent: u64,
    /// What it said of itself last before the stretch, and last in it.
    pub(crate) told: [Option<Info>; 2],
}

/// What the thread that plays knows of itself in a stretch.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorSeen {
    /// How much later than intended something was sent.
    pub(crate) late: Times,
    /// How much later than it came something was read.
    pub(crate) behind: Times,
    /// Processor time.
    pub(crate) cpu_ns: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// What the kernel did not take.
    pub(crate) unsent: u64,
}

impl GeneratorSeen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.late.add(&other.late);
        self.behind.add(&other.behind);
        self.cpu_ns += other.cpu_ns;
        self.sent += other.sent;
        self.received += other.received;
        self.unsent += other.unsent;
    }
}
