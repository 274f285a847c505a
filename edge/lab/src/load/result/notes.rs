//! What a reader of a result should know besides its figures: where the two sides ran, what did not
//! happen, who ended the run.

use std::process::ExitStatus;

use super::summary::Summary;
use crate::load::record::STOPPED;
use crate::measure::number::group;
use crate::measure::processors::may_run_on;
use crate::measure::target::Target;
use crate::measure::text::one_line;

/// What a reader should know of how it was run, besides [`notes`]; `is_sampled` says whether the
/// server's processes were to be measured.
pub(crate) fn notes_of(summary: &Summary, is_sampled: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if summary.settings.is_free {
        notes.push(FREE_LOOP.to_owned());
    }
    if summary.turned_away > 0 {
        let count = group(summary.turned_away);
        notes.push(format!(
            "{count} players were due and did not come, because `players_max` was reached: the \
             server got less load than the phases say"
        ));
    }
    for op in summary.ops.iter().filter(|op| op.counted && !op.setup) {
        let due = op.done + op.failed + op.missed + op.unanswered;
        if op.missed > due / 100 {
            let (missed, due) = (group(op.missed), group(due));
            notes.push(format!(
                "the rate was not reached: {missed} of {due} {} that were due could not be sent, \
                 because the ones before were not answered in time: the server is at its limit, or \
                 there are too few players for this rate",
                op.name
            ));
        }
    }
    if is_sampled && summary.server.is_none() && summary.counted_s > 0.0 {
        notes.push(
            "a process of the server was gone at an edge of the counted time, so that its CPU and \
             memory are not known"
                .to_owned(),
        );
    }
    notes
}

/// What a scenario's loop without a pace means for its figures.
const FREE_LOOP: &str = "the loop has no pace: each round begins when the last one is \
                                    done, so that a slow server is asked less often and times say \
                                    nothing about users; `rate` in the scenario, or --rate, makes \
                                    it an open loop";

/// Why a scenario's `on_error = "stop"` ended the run, if it did.
pub(crate) fn stopped(summary: &Summary) -> Option<String> {
    let error = summary.errors.iter().find(|error| error.kind == STOPPED)?;
    Some(format!("{STOPPED}: {}", one_line(&error.example)))
}

/// What a reader should know about where the two sides ran, and whether the server lived. The
/// processors are those that this process had before it bound itself to one.
pub(crate) fn notes(
    targets: &[Target],
    (processors, pin): (&[usize], Option<usize>),
    server_pids: &[u32],
    ended: Option<ExitStatus>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let is_local = targets.iter().any(|it| it.addr.ip().is_loopback()) || !server_pids.is_empty();
    if is_local && processors.len() == 1 {
        notes.push(
            "server and generator share this machine's only processor: each slows the other, and \
             times contain both"
                .to_owned(),
        );
    } else if let Some(cpu) = pin
        && server_pids.iter().any(|pid| may_run_on(*pid, cpu))
    {
        let other = processors.iter().find(|other| **other != cpu).unwrap_or(&cpu);
        notes.push(format!(
            "the server may run on the generator's processor {cpu}, where each slows the other: \
             bind it to others (`taskset -c {other} …`), or let --server 'COMMAND' start it"
        ));
    }
    if let Some(status) = ended {
        notes.push(format!("the server ended during the run ({status})"));
    }
    notes
}

/// Whether anything that counts was answered in the counted time.
pub(crate) fn is_answered(summary: &Summary) -> bool {
    summary.counted_s > 0.0 && summary.done() > 0
}

#[cfg(test)]
mod tests {
    use super::notes_of;
    use crate::load::result::summary::{OpSummary, Summary};

    #[test]
    fn what_did_not_happen_is_told() {
        let mut summary = Summary::default();
        assert!(notes_of(&summary, true).is_empty());
        summary.counted_s = 1.0;
        summary.turned_away = 1_200;
        summary.settings.is_free = true;
        let op = OpSummary { name: "rpc".to_owned(), counted: true, ..OpSummary::default() };
        summary.ops = vec![OpSummary { done: 200, missed: 2, ..op.clone() }];
        assert!(!notes_of(&summary, true).join("\n").contains("not reached"));
        summary.ops = vec![OpSummary { done: 200, missed: 1_800, ..op }];
        let notes = notes_of(&summary, true).join("\n");
        for part in ["1,200 players were due", "no pace", "was gone", "1,800 of 2,000 rpc"] {
            assert!(notes.contains(part), "{notes}");
        }
        assert!(!notes_of(&summary, false).join("\n").contains("was gone"));
    }
}
