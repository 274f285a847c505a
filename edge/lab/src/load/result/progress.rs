//! How a run goes while it lasts: the result so far, lent to whoever shows it.

use std::collections::BTreeMap;

use super::{Second, Summary};
use crate::load::record::kind::Kind;
use crate::load::record::{ErrorCount, Record, Stage};

/// How a run goes, told every second.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    /// Where it is.
    pub stage: Stage,
    /// Seconds since that began.
    pub stage_s: f64,
    /// The second that has just ended.
    pub second: &'a Second,
    /// All seconds, the last one too.
    pub history: &'a [Second],
    /// Operations in the order of [`Second::ops`].
    pub op_names: &'a [String],
    /// Beside them: whether it counts and is what the run is about, not preparation.
    pub is_loop_op: &'a [bool],
    /// Whether the server's process is sampled.
    pub has_server: bool,
    /// Errors so far, by operation (its place in `op_names`) and kind.
    pub errors: &'a BTreeMap<(u16, Kind), ErrorCount>,
    /// What the counted time has brought so far.
    pub(crate) total: &'a Record,
    /// What was asked for stands in its settings; its figures come at the end.
    pub summary: &'a Summary,
}

/// Is told how a run goes; `false` ends the counted time.
pub type Watch<'a> = &'a mut dyn FnMut(&Progress<'_>) -> bool;

impl Progress<'_> {
    /// The place of the operation with this name.
    pub(crate) fn op(&self, name: &str) -> Option<usize> {
        self.op_names.iter().position(|it| it == name)
    }

    /// The place of the operation that the headline is about.
    pub(crate) fn headline(&self) -> Option<usize> {
        self.op(&self.summary.headline)
    }

    /// Seconds that have been counted.
    #[must_use]
    pub fn counted_s(&self) -> f64 {
        let is_counted = |it: &&Second| it.stage == Stage::Counted;
        self.history.iter().filter(is_counted).fold(0.0, |sum, it| sum + it.length_s)
    }
}
