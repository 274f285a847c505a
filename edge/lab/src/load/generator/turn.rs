//! What every part of the generator gets of the turn that is under way: when it is, where the run
//! is, what it records, and where bytes and wishes go; and what the run is to know of it afterwards.

use event::Output;

use super::Command;
use super::clock::Clock;
use super::recorder::Recorder;
use crate::load::record::Stage;

/// When something happens, and where the run is then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The engine's time.
    pub(super) now_ns: u64,
    pub(super) stage: Stage,
    /// When the stage ends by itself.
    pub(super) stage_until_ns: u64,
}

impl Moment {
    /// Whether nothing new is to begin any more.
    pub(super) fn is_over(self) -> bool {
        self.stage >= Stage::Drain
    }
}

/// One turn.
pub(super) struct Turn<'a> {
    pub(super) at: Moment,
    pub(super) clock: &'a Clock,
    pub(super) recorder: &'a mut Recorder,
    pub(super) out: &'a mut Output<Command>,
    pub(super) news: News,
}

/// What the run is to know of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// A failure ends the run, as its step says.
    pub(super) is_stopping: bool,
    /// A match message has come: more may be on their way.
    pub(super) has_delivery: bool,
}
