//! What the generator remembers of one virtual player: where it stands in its session, what it
//! waits for, and the few values it has captured. Some 2 KB each, histograms not counted. Its
//! connection is in `links`.

use event::TimerId;

use super::inbox::Inbox;
use super::turn::Moment;
use super::zone::Pilot;
use crate::load::scenario::program::{Program, SessionPlan, Step};
use crate::load::scenario::{Process, Think};
use crate::measure::arrivals::Stream;

/// What the player is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Doing {
    /// Has not come yet, or has left.
    #[default]
    Absent,
    /// Waits for its timer, or for nothing.
    Waiting,
    /// Has an operation to do as soon as its connection stands.
    Connecting,
    /// An operation is under way.
    Busy,
}

/// What answers the operation under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Expecting {
    /// HTTP responses.
    #[default]
    Responses,
    /// The answer to the handshake.
    Upgrade,
    /// The envelope with this number.
    Cid(u32),
    /// The next binary frame, of this number.
    Echo(u64),
    /// The next data frame, whatever it says.
    Frame,
    /// The match message of this number, back from the match.
    Delivery(u32),
    /// A ship in the zone.
    Welcome,
    /// Datagrams that come through.
    Way,
}

/// One virtual player.
#[derive(Debug, Default)]
pub(super) struct Player {
    /// Its number in the run.
    pub(super) number: u32,
    pub(super) session: u16,
    /// The step it is at.
    pub(super) step: u16,
    pub(super) doing: Doing,
    pub(super) expecting: Expecting,
    /// Answers that the operation under way still lacks.
    pub(super) left: u16,
    /// Has reached its loop, or its place to hold, once.
    pub(super) is_ready: bool,
    /// The intended time of this step has been taken already.
    pub(super) is_intended: bool,
    /// The step is a think time, and under way.
    pub(super) is_thinking: bool,
    /// Prepares itself for the first time: has a place in the door.
    pub(super) is_preparing: bool,
    /// How often in a row it was told to try again.
    pub(super) retries: u8,
    /// Its last failure before it was ready, by its place in the recorder's list, from 1 on.
    pub(super) failure: u16,
    pub(super) timer: Option<TimerId>,
    pub(super) intended_ns: u64,
    pub(super) sent_ns: u64,
    /// From when on the step could begin: the intended time of steps without a beat.
    pub(super) ready_ns: u64,
    /// How late the operation began to connect by the generator's own fault.
    pub(super) connect_behind_ns: u64,
    /// When the next paced beat is due; 0 before the first.
    pub(super) beat_ns: u64,
    /// When the next beat could begin if the server took no time: the end of the think times that
    /// belong to the beats before. A player that thinks past its beat is not late.
    pub(super) free_ns: u64,
    /// When the loop began, and when `first` was last done.
    pub(super) loop_ns: u64,
    pub(super) renewed_ns: u64,
    /// Rounds begun in this session, and in all.
    pub(super) rounds: u32,
    pub(super) round: u32,
    pub(super) cid: u32,
    /// The ping under way: its number, and when it was sent.
    pub(super) ping: Option<(u32, u64)>,
    pub(super) next_ping_ns: u64,
    /// Match messages sent, by audience.
    pub(super) numbers: [u32; 2],
    /// Its beats, think times and waits.
    pub(super) random: Stream,
    pub(super) captured: Box<[Box<str>]>,
    /// Its row of each data file.
    pub(super) rows: Box<[u32]>,
    pub(super) inbox: Inbox,
    /// Its ship in the zone, and what it sees from there.
    pub(super) pilot: Option<Box<Pilot>>,
}

impl Player {
    /// What it does.
    pub(super) fn plan<'a>(&self, program: &'a Program) -> &'a SessionPlan {
        &program.sessions[usize::from(self.session)]
    }

    /// The step it is at; none at the end of its session.
    pub(super) fn step_of<'a>(&self, program: &'a Program) -> Option<&'a Step> {
        self.plan(program).steps.get(usize::from(self.step))
    }

    /// The operation of that step, if it has one.
    pub(super) fn op(&self, program: &Program) -> Option<u16> {
        self.step_of(program)?.op
    }

    pub(super) fn is_in_loop(&self, plan: &SessionPlan) -> bool {
        (plan.loop_start..plan.loop_end).contains(&self.step)
    }

    /// Whether it does its loop once more when it is at the loop's end.
    pub(super) fn goes_round_again(&self, at: Moment, plan: &SessionPlan) -> bool {
        let is_over = plan.rounds.is_some_and(|rounds| self.rounds >= rounds)
            || plan.lasts_ns.is_some_and(|lasts_ns| at.now_ns - self.loop_ns >= lasts_ns);
        !is_over && !at.is_over()
    }

    /// The step is done; the next one could begin now.
    pub(super) fn go_on(&mut self, now_ns: u64) {
        self.step += 1;
        self.is_intended = false;
        self.ready_ns = now_ns;
    }

    /// Begins to think; returns until when.
    #[expect(clippy::cast_precision_loss, reason = "think times are below 2^53 ns")]
    pub(super) fn think(&mut self, think: Think) -> u64 {
        let think_ns = match think {
            Think::Fixed(span) => span.ns(),
            Think::Random { mean } => self.random.gap_ns(Process::Poisson, mean.ns() as f64),
            Think::Between { min, max } => self.random.between_ns(min.ns(), max.ns()),
        };
        self.free_ns = self.free_ns.saturating_add(think_ns);
        (self.is_thinking, self.is_intended) = (true, false);
        self.ready_ns = self.intended_ns.saturating_add(think_ns);
        self.ready_ns
    }

    /// Begins its session from the start, as soon as `ready_ns`.
    pub(super) fn begin_again(&mut self, ready_ns: u64) {
        self.step = 0;
        self.rounds = 0;
        self.loop_ns = 0;
        self.is_thinking = false;
        self.retries = 0;
        self.ready_ns = ready_ns;
    }

    /// Whether an operation is under way that this answers.
    pub(super) fn awaits(&self, what: Expecting) -> bool {
        self.doing == Doing::Busy && self.expecting == what
    }
}

#[cfg(test)]
mod tests {
    use super::Player;
    use crate::load::generator::links::Link;

    #[test]
    fn a_player_is_small() {
        // With a token of 400 bytes, a match id, and ten senders of 16 bytes: far below 4 KB.
        assert!(size_of::<Player>() <= 320, "{}", size_of::<Player>());
        assert!(size_of::<Link>() <= 128, "{}", size_of::<Link>());
    }
}
