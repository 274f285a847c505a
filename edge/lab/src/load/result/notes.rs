//! What a reader of a result should know besides its figures: where the two sides ran, what did not
//! happen, who ended the run.

use super::summary::Summary;
use crate::load::record::kind::Cause;
use crate::load::record::{SERVER_GONE, STOPPED, TURN_NS_LONG};
use crate::measure::number::{group, share, time};
use crate::measure::processors::may_run_on;
use crate::measure::target::Target;
use crate::measure::text::one_line;

/// A server or generator that uses less of one processor has waited for something else.
const BUSY_SHARE: f64 = 0.7;

/// What a reader should know of how it was run, besides [`notes`]; `is_sampled` says whether the
/// server's processes were to be measured.
pub(crate) fn notes_of(summary: &Summary, is_sampled: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if summary.settings.tls.as_ref().is_some_and(|it| it.insecure) {
        notes.push(INSECURE.to_owned());
    }
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
    // One that is gone is not at a limit.
    let is_gone = summary.errors.iter().any(|error| error.cause == Cause::ServerGone);
    let reaches = summary.server_ended.is_none() && !is_gone;
    for op in summary.ops.iter().filter(|op| reaches && op.counted && !op.setup) {
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
    notes.extend(turn_note(summary));
    notes.extend(idle_note(summary));
    if let Some(server) = &summary.server
        && server.wall_s < summary.counted_s / 2.0
    {
        notes.push(format!(
            "the server's processor time is that of {:.1} s, not of all that was counted: what is said of it \
             per second of processor is an estimate",
            server.wall_s
        ));
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

/// One long turn is no hundredth of all operations, but it may be the slowest of them.
fn turn_note(summary: &Summary) -> Option<String> {
    let turn_ns = summary.generator.turn_ns_max;
    let ops = summary.ops.iter().filter(|op| op.counted && !op.setup);
    let slowest_ns = ops.map(|op| op.response.max_ns).filter(|ns| *ns > 0).min()?;
    let is_long = turn_ns > TURN_NS_LONG && turn_ns > slowest_ns / 100;
    (is_long && !summary.settings.is_closed()).then(|| {
        format!(
            "the generator once was at one turn of its loop for {}: the slowest times may be its own",
            time(turn_ns)
        )
    })
}

/// In a closed loop somebody is at a limit. Whoever believes that it is the server quotes the wrong figure.
fn idle_note(summary: &Summary) -> Option<String> {
    let server = summary.server.as_ref()?;
    let of_server = (server.user_s + server.system_s) / server.wall_s.max(f64::MIN_POSITIVE);
    let shares = [of_server, summary.generator.cpu_share];
    let is_idle = summary.settings.saturate && shares.iter().all(|one| *one < BUSY_SHARE);
    is_idle.then(|| {
        let [server, generator] = shares.map(share);
        format!(
            "the server used {server} of one processor and the generator {generator}: something else kept \
             operations from being more, such as the disk, other programs, or too few players"
        )
    })
}

/// What `--tls-insecure` means for who was measured.
pub(crate) const INSECURE: &str = "certificates were not checked (--tls-insecure): whoever is between \
                                   the two may have answered, and what checking costs is in no time";

/// What a scenario's loop without a pace means for its figures.
const FREE_LOOP: &str = "the loop has no pace: each round begins when the last one is \
                                    done, so that a slow server is asked less often and times say \
                                    nothing about users; `rate` in the scenario, or --rate, makes \
                                    it an open loop";

/// Why the generator ended the run before its time, if it did: a scenario's `on_error = "stop"`, or
/// nobody was there any more.
pub(crate) fn stopped(summary: &Summary) -> Option<String> {
    [STOPPED, SERVER_GONE].iter().find_map(|kind| {
        let error = summary.errors.iter().find(|error| error.cause == kind.cause)?;
        Some(format!("{}: {}", kind.text, one_line(&error.example)))
    })
}

/// Where a run could run: processors are those that this process had before it bound itself to one.
pub(crate) struct Places<'a> {
    /// That the command may use.
    pub(crate) own: &'a [usize],
    /// That the machine has.
    pub(crate) online: &'a [usize],
    /// The generator's, if it bound itself to one.
    pub(crate) pin: Option<usize>,
}

/// What a reader should know about where the two sides ran.
pub(crate) fn notes(targets: &[Target], places: &Places<'_>, server_pids: &[u32]) -> Vec<String> {
    let is_local = targets.iter().any(|it| it.addr.ip().is_loopback()) || !server_pids.is_empty();
    let shares = |cpu: usize| server_pids.iter().any(|pid| may_run_on(*pid, cpu));
    let note = is_local.then(|| place_note(places, !server_pids.is_empty(), shares)).flatten();
    note.into_iter().collect()
}

/// Of a server on a machine that has room for one of the two.
const ONE_PROCESSOR: &str = "server and generator share this machine's only processor: each slows \
                             the other, and times contain both";

/// What a reader should know about a server of which only the address is known.
pub(crate) fn of_address(ip: std::net::IpAddr, places: &Places<'_>) -> Vec<String> {
    let is_shared = ip.is_loopback() && places.online.len() <= 1;
    is_shared.then(|| ONE_PROCESSOR.to_owned()).into_iter().collect()
}

/// Whether a server on this machine is in the generator's way; `shares` says whether it may run on a
/// processor, as far as its processes are known.
fn place_note(
    places: &Places<'_>,
    is_known: bool,
    shares: impl Fn(usize) -> bool,
) -> Option<String> {
    if places.online.len() <= 1 {
        return Some(ONE_PROCESSOR.to_owned());
    }
    // Bound by whoever started the command counts as much as by ourselves.
    let only = match places.own {
        [only] => Some(*only),
        _ => None,
    };
    let cpu = places.pin.or(only)?;
    let other = places.online.iter().find(|other| **other != cpu).unwrap_or(&cpu);
    if shares(cpu) {
        let cure = match only {
            Some(_) => format!(
                "bind it to others (`taskset -c {other} …`); with --server give this command two \
                 processors (`taskset -c {other},{cpu} …`)"
            ),
            None => format!(
                "bind it to others (`taskset -c {other} …`), or let --server 'COMMAND' start it"
            ),
        };
        return Some(format!(
            "the server may run on the generator's processor {cpu}, where each slows the other: {cure}"
        ));
    }
    (only.is_some() && !is_known).then(|| {
        format!(
            "this command may use processor {cpu} only (taskset, or a container's limit); whether the \
             server runs there too is not known: --server-pid PID tells"
        )
    })
}

/// Whether anything that counts was answered in the counted time.
pub(crate) fn is_answered(summary: &Summary) -> bool {
    summary.counted_s > 0.0 && summary.done() > 0
}

#[cfg(test)]
mod tests {
    use super::{Places, notes_of, place_note};
    use crate::load::record::kind::Cause;
    use crate::load::result::summary::{ErrorSummary, OpSummary, ServerCost, Summary, TlsAsked};

    #[test]
    fn what_did_not_happen_is_told() {
        let mut summary = Summary::default();
        assert!(notes_of(&summary, true).is_empty());
        summary.counted_s = 1.0;
        summary.turned_away = 1_200;
        summary.settings.is_free = true;
        summary.settings.tls = Some(TlsAsked { insecure: true, ..TlsAsked::default() });
        let op = OpSummary { name: "rpc".to_owned(), counted: true, ..OpSummary::default() };
        summary.ops = vec![OpSummary { done: 200, missed: 2, ..op.clone() }];
        assert!(!notes_of(&summary, true).join("\n").contains("not reached"));
        summary.ops = vec![OpSummary { done: 200, missed: 1_800, ..op }];
        let notes = notes_of(&summary, true).join("\n");
        for part in [
            "--tls-insecure",
            "1,200 players were due",
            "no pace",
            "was gone",
            "1,800 of 2,000 rpc",
        ] {
            assert!(notes.contains(part), "{notes}");
        }
        assert!(!notes_of(&summary, false).join("\n").contains("was gone"));
        let ended = Summary { server_ended: Some(Box::default()), ..summary.clone() };
        assert!(!notes_of(&ended, false).join("\n").contains("at its limit"));
        let cause = Cause::ServerGone;
        summary.errors.push(ErrorSummary { cause, ..ErrorSummary::default() });
        assert!(!notes_of(&summary, false).join("\n").contains("at its limit"));
    }

    #[test]
    fn a_closed_loop_in_which_nobody_is_busy_is_told() {
        let told = |saturate, server, generator| {
            let mut summary = Summary::default();
            summary.settings.saturate = saturate;
            summary.server =
                Some(ServerCost { user_s: server, wall_s: 1.0, ..ServerCost::default() });
            summary.generator.cpu_share = generator;
            notes_of(&summary, true).join("\n")
        };
        let note = told(true, 0.45, 0.04);
        assert!(note.contains("45") && note.contains("something else"), "{note}");
        for busy in [told(true, 0.97, 0.04), told(true, 0.45, 0.99), told(false, 0.1, 0.1)] {
            assert!(!busy.contains("something else"), "{busy}");
        }
    }

    #[test]
    fn a_generator_that_was_bound_is_told_from_one_that_shares_its_processor() {
        let told = |own: &[usize], online: &[usize], pin, servers: &[usize]| {
            let places = Places { own, online, pin };
            place_note(&places, !servers.is_empty(), |cpu| servers.contains(&cpu))
        };
        // `taskset -c 1 throng load …` beside a server on processor 0.
        assert_eq!(told(&[1], &[0, 1], None, &[0]), None);
        let shared = told(&[1], &[0, 1], None, &[0, 1]).unwrap();
        assert!(shared.contains("generator's processor 1") && shared.contains("-c 0"), "{shared}");
        let unknown = told(&[1], &[0, 1], None, &[]).unwrap();
        assert!(
            unknown.contains("processor 1 only") && unknown.contains("--server-pid"),
            "{unknown}"
        );
        assert_eq!(told(&[0, 1], &[0, 1], Some(1), &[0]), None);
        assert!(told(&[0, 1], &[0, 1], Some(1), &[1]).is_some_and(|it| it.contains("--server")));
        assert!(told(&[0], &[0], None, &[]).is_some_and(|it| it.contains("only processor")));
    }
}
