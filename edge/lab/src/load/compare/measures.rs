//! Figures of one run that comparisons are about; none where the run has nothing to say.

use super::Summary;
use crate::load::summary::float;

/// Players from which on the growth of memory is theirs, and not that of pools and caches.
const PLAYERS_MIN: u32 = 500;

/// None if the server was not measured, or used too little to be measured.
pub(crate) fn ops_per_cpu_s(summary: &Summary) -> Option<f64> {
    summary.server.map(|it| it.ops_per_cpu_s).filter(|it| *it > 0.0)
}

/// Resident memory at the end.
pub(crate) fn memory(summary: &Summary) -> Option<f64> {
    summary.server.map(|it| float(it.resident_end_bytes)).filter(|it| *it > 0.0)
}

/// Growth of resident memory while the players came, by player.
pub(crate) fn memory_of_player(summary: &Summary) -> Option<f64> {
    let it = summary.server?;
    let players = summary.settings.players;
    let grown = float(it.resident_ready_bytes.saturating_sub(it.resident_before_bytes));
    (players >= PLAYERS_MIN && grown > 0.0).then(|| grown / f64::from(players))
}

/// Of all operations that count, a second.
pub(crate) fn answered_per_s(summary: &Summary) -> Option<f64> {
    (summary.counted_s > 0.0).then(|| float(summary.done()) / summary.counted_s)
}

/// Of the headline operation, from the intended start.
pub(crate) fn response_p99(summary: &Summary) -> Option<f64> {
    let op = summary.headline_op().filter(|op| op.response.count > 0)?;
    Some(float(op.response.p99_ns))
}

/// In the whole run; every run has it.
#[expect(clippy::unnecessary_wraps, reason = "as the others")]
pub(crate) fn errors(summary: &Summary) -> Option<f64> {
    Some(float(summary.errors.iter().map(|error| error.count).sum()))
}
