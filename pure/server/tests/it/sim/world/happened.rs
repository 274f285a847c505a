//! What a seed has come to, in numbers: the world counts, and `play` asks whether enough of each has happened.

/// How often what happened: a seed that nothing happens in checks little.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Happened {
    pub(crate) turns: u64,
    pub(crate) refused: u64,
    pub(crate) db_faults: u64,
    pub(crate) db_stalls: u64,
    pub(crate) guests_stopped: u64,
    pub(crate) gave_up: u64,
    pub(crate) waited: u64,
    pub(crate) matches_waited: u64,
    /// Answers of other servers.
    pub(crate) fetched: u64,
    pub(crate) silences: u64,
    pub(crate) fetched_late: u64,
    pub(crate) interleaved: u64,
    pub(crate) spent_callers: u64,
    pub(crate) vanished: u64,
    pub(crate) answers: u64,
    pub(crate) kept: u64,
    /// Sessions that are in streams at the end.
    pub(crate) in_streams: u64,
    pub(crate) nodes_lost: u64,
    /// Letters that one node has read of another one.
    pub(crate) letters: u64,
    /// Functions that ran in the batch, and that were undone there.
    pub(crate) batched: u64,
    pub(crate) undone: u64,
    /// Ticks of zones; guests made anew because their memory was used up, and versions that served.
    pub(crate) zone_ticks: u64,
    pub(crate) zones_restored: u64,
    pub(crate) loaded: [u64; 2],
}
