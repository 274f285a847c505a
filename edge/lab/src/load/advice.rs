//! What a result means for the person in front of it: why a run has shown nothing, what cures an
//! error, and what to do when the generator was in the way.
//!
//! In: a [`Summary`], or one of its errors. Out: sentences for a terminal or a report. Nothing is
//! measured or decided here but by what the summary says.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::process::ExitStatus;

use super::limit::setting_in;
use super::process::may_run_on;
use super::record::STOPPED;
use super::summary::{ErrorSummary, Summary};
use super::table::group;
use super::target::Target;

/// Characters of an error's example that are printed, at most.
const EXAMPLE_CHARS_MAX: usize = 200;

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

/// Beginning of an error's kind, text that its example contains, cure. The first that fits is
/// taken.
const CURES: &[(&str, &str, &str)] = &[
    (
        "status 401",
        "Server key",
        "name the server's key with --server-key KEY (socket.server_key; `defaultkey` by default)",
    ),
    (
        "status 401",
        "HTTP key",
        "name the server's key for HTTP calls with --http-key KEY (runtime.http_key)",
    ),
    (
        "status 401",
        "Auth token",
        "the session's token was refused: tokens expire (session.token_expiry_sec), and \
         `renew_every` in the scenario has to be shorter than that",
    ),
    (
        "status 401",
        "",
        "the server refuses the credentials: --server-key KEY or --http-key KEY names others",
    ),
    (
        "status 404",
        "RPC function",
        "the server has no RPC of this id: load the module that registers it (scenarios/modules has them; \
         throng serve --runtime.path DIR), or name another with --rpc ID",
    ),
    (
        "status 404",
        "",
        "the server does not know this path: wrong port in --target, or another kind of server? \
         `throng load scenarios` says what each scenario needs",
    ),
    ("status 400", "HTTPS", TLS),
    ("status 400", "https", TLS),
    ("status 400", "SSL", TLS),
    (
        "status 429",
        "",
        "the server limits how often one address may ask: lift that limit for the run",
    ),
    (
        "status 500",
        "",
        "the server failed: its log says why (an error in a script, or in its database)",
    ),
    (
        "status 50",
        "",
        "the server, or a proxy before it, cannot take this load or is not ready: fewer players or \
         a lower rate, and look at its log",
    ),
    ("not HTTP", "SSH-", "an SSH server listens there: wrong port in --target"),
    ("not HTTP", "\u{15}\u{3}", TLS),
    (
        "not HTTP",
        "",
        "what listens there does not speak HTTP/1.1: wrong port in --target, or a TLS port?",
    ),
    ("bytes that nobody asked for", "SSH-", "an SSH server listens there: wrong port in --target"),
    (
        "bytes that nobody asked for",
        "",
        "what listens there speaks before it is asked, or twice: wrong port in --target?",
    ),
    (
        "idle connection closed",
        "",
        "harmless: the server closes connections between two requests, and new ones are made; it \
         costs both sides a connection each time",
    ),
    (
        "connection refused",
        "",
        "nothing listened there then: the server had ended, or its queue of new connections was \
         full; its log says which",
    ),
    (
        "connect: refused",
        "",
        "nothing listened there then: the server had ended, or its queue of new connections was \
         full; its log says which",
    ),
    (
        "connect: no local port",
        "",
        "widen net.ipv4.ip_local_port_range, or spread the players over several addresses",
    ),
    ("connect: no open file", "", "raise `ulimit -n`, or share the players with --processes N"),
    (
        "connect: address unreachable",
        "",
        "the network has no way to that address any more: look at the route, or at --target",
    ),
    (
        "connect: timed out",
        "",
        "the server does not accept fast enough (net.core.somaxconn, a full table of connections): \
         a longer --ramp, or fewer players",
    ),
    (
        "connection",
        "",
        "the server hung up: it ended, hit a limit of connections, or timed the connection out; \
         its log says which",
    ),
    (
        "time-out",
        "",
        "the server stands still or is too slow for this load: fewer players or a lower rate, or a \
         longer `timeout` in the scenario",
    ),
    (
        "answer lacks the expected text",
        "",
        "the server answered something else than the scenario wants: compare the example with its \
         `contains` (`throng load scenarios NAME` prints it)",
    ),
    (
        "answer lacks the header",
        "",
        "the scenario's `required` names the headers that an answer must have",
    ),
    (
        "answer has no",
        "",
        "the answer has another form than the scenario wants: compare the example with its \
         `capture`",
    ),
    (
        "handshake refused",
        "",
        "there is no WebSocket at this path, or the token was refused: `throng load scenarios` \
         says what each scenario needs",
    ),
    (
        "players were not ready in time",
        "",
        "a longer --ramp, or fewer players; the other errors say what held them up",
    ),
    (
        "server does not read",
        "",
        "the server does not take what it is sent: fewer players or a lower rate",
    ),
];

const TLS: &str = "that is a TLS port, and TLS is not spoken here: name the server's plain port";

/// What cures an error of this kind: the setting that the server names, or general advice; none where nothing general can be said.
#[must_use]
pub fn cure(error: &ErrorSummary) -> Option<Cow<'static, str>> {
    if let Some(setting) = setting_in(&error.kind) {
        return Some(Cow::Owned(format!(
            "the server has met its limit `{setting}`: raise that setting for the run, or ask for \
             less: fewer players, a lower rate"
        )));
    }
    let fits = |(kind, part, _): &&(&str, &str, &str)| {
        error.kind.starts_with(kind) && error.example.contains(part)
    };
    CURES.iter().find(fits).map(|(_, _, cure)| Cow::Borrowed(*cure))
}

/// Text of a stranger as one line for a terminal: as it is, but control characters and what cannot
/// be seen escaped, and cut.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (index, c) in text.trim_end().chars().enumerate() {
        if index == EXAMPLE_CHARS_MAX {
            line.push('…');
            break;
        }
        if "\"'\\".contains(c) {
            line.push(c);
        } else {
            line.extend(c.escape_debug());
        }
    }
    line
}

/// Why a run has failed, in one line: the scenario stopped it, or nothing was answered as it should
/// be. None for a run whose figures mean something.
#[must_use]
pub fn failure(summary: &Summary) -> Option<String> {
    if let Some(reason) = stopped(summary) {
        return Some(reason);
    }
    if is_answered(summary) {
        return None;
    }
    let mut reason = if summary.counted_s > 0.0 {
        "nothing was answered as the scenario wants".to_owned()
    } else if summary.errors.is_empty() && !summary.ended.is_empty() {
        summary.ended.clone()
    } else if summary.errors.is_empty() {
        "the run ended before anything was counted".to_owned()
    } else {
        "no player became ready".to_owned()
    };
    // What can be cured says more than what came of it.
    let curable = summary.errors.iter().find(|error| cure(error).is_some());
    if let Some(error) = curable.or(summary.errors.first()) {
        let op = if error.op == "-" { String::new() } else { format!("{}: ", error.op) };
        let _ = write!(reason, ": {} times {op}{}", group(error.count), one_line(&error.kind));
    }
    Some(reason)
}

/// Whether anything that counts was answered in the counted time.
pub(crate) fn is_answered(summary: &Summary) -> bool {
    summary.counted_s > 0.0 && summary.done() > 0
}

/// Why a scenario's `on_error = "stop"` ended the run, if it did.
pub(crate) fn stopped(summary: &Summary) -> Option<String> {
    let error = summary.errors.iter().find(|error| error.kind == STOPPED)?;
    Some(format!("{STOPPED}: {}", one_line(&error.example)))
}

/// What to do when the generator was in the way, and what its figures are still good for.
pub(crate) fn mending(summary: &Summary) -> Vec<String> {
    let settings = &summary.settings;
    let processors = summary.environment.processors.max(1);
    let processes = usize::from(settings.processes.max(1));
    let less = if settings.rate.is_some() {
        "fewer players or a lower rate (--players, --rate)"
    } else {
        "fewer players (--players)"
    };
    let mut lines = Vec::new();
    if processors == 1 {
        lines.push(
            "this machine has one processor for server and generator, so each waits for the \
             other: measure from another machine"
                .to_owned(),
        );
        lines.push(format!("or {less}, until this line goes away"));
    } else {
        lines.push(format!("{less}, until this line goes away"));
        if processes + 1 < processors {
            let most = processors - 1;
            lines.push(format!("or --processes N, up to {most}: they share the players"));
        }
        lines.push(
            "or a quiet processor for the generator: --pin CPU, with the server and all other \
             programs on others (--server 'COMMAND' keeps the server off it)"
                .to_owned(),
        );
    }
    lines.push(
        "until then times are too high, never too low; counts, errors and operations per \
         CPU-second of the server may be used"
            .to_owned(),
    );
    lines
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

#[cfg(test)]
mod tests {
    use super::{cure, failure, mending, notes_of, one_line};
    use crate::load::record::STOPPED;
    use crate::load::summary::{ErrorSummary, OpSummary, Summary};

    fn error(kind: &str, example: &str) -> ErrorSummary {
        ErrorSummary {
            op: "rpc".to_owned(),
            kind: kind.to_owned(),
            count: 3,
            example: example.to_owned(),
        }
    }

    #[test]
    fn errors_have_cures() {
        for (kind, example, part) in [
            ("status 401", "{\"message\":\"Server key invalid\"}", "--server-key"),
            ("status 401", "{\"message\":\"HTTP key invalid\"}", "--http-key"),
            ("status 401", "{\"message\":\"Auth token invalid\"}", "renew_every"),
            ("status 401", "no", "--server-key KEY or --http-key"),
            ("status 404", "RPC function not found", "--rpc"),
            ("status 404", "<html>", "wrong port"),
            ("status 400", "Client sent an HTTP request to an HTTPS server.", "TLS"),
            ("status 500", "attempt to index nil", "log"),
            ("status 503", "", "lower rate"),
            ("status 429: limit.calls_waiting_per_user", "", "limit.calls_waiting_per_user"),
            ("error 0: too many requests (limit.a_b is 1)", "", "`limit.a_b`"),
            ("handshake refused: status 429: limit.sockets_per_user", "", "sockets_per_user"),
            ("not HTTP: malformed start line", "SSH-2.0-OpenSSH", "SSH server"),
            ("not HTTP: malformed start line", "\u{15}\u{3}\u{1}\0\u{2}", "TLS"),
            ("not HTTP: malformed start line", "220 mail", "HTTP/1.1"),
            ("connection refused or failed", "", "its log"),
            ("connect: refused", "", "its log"),
            ("connect: no open file left (ulimit -n)", "", "--processes"),
            ("connect: no local port left (…)", "", "ip_local_port_range"),
            ("connection closed within an answer", "", "hung up"),
            ("connection reset by the server", "", "hung up"),
            ("idle connection closed by the server", "", "harmless"),
            ("time-out", "no answer within 10 s", "timeout"),
        ] {
            let found = cure(&error(kind, example)).unwrap_or_default();
            assert!(found.contains(part), "{kind}: {found}");
        }
        assert_eq!(cure(&error("something new", "")), None);
    }

    #[test]
    fn examples_are_printed_as_they_are() {
        for (text, wanted) in [
            ("{\"a\":\"it's \\ é 漢\"}", "{\"a\":\"it's \\ é 漢\"}"),
            ("a\r\nb\u{1b}[2J\u{0}", "a\\r\\nb\\u{1b}[2J\\0"),
            ("\u{202e}left\u{fffd}", "\\u{202e}left\u{fffd}"),
            ("the end\n", "the end"),
        ] {
            assert_eq!(one_line(text), wanted);
        }
        assert_eq!(one_line(&"é".repeat(300)), format!("{}…", "é".repeat(200)));
    }

    #[test]
    fn a_run_that_shows_nothing_says_why() {
        let mut summary = Summary::default();
        assert!(failure(&summary).is_some_and(|it| it.contains("before anything was counted")));
        let ended = "could not begin: nothing listens".to_owned();
        let not_begun = Summary { ended: ended.clone(), ..Summary::default() };
        assert_eq!(failure(&not_begun), Some(ended));
        summary.errors = vec![error("odd", ""), error("status 401", "Server key invalid")];
        let reason = failure(&summary).unwrap_or_default();
        assert_eq!(reason, "no player became ready: 3 times rpc: status 401");
        summary.counted_s = 1.0;
        assert!(failure(&summary).is_some_and(|it| it.starts_with("nothing was answered")));
        summary.ops.push(OpSummary { counted: true, done: 1, ..OpSummary::default() });
        assert_eq!(failure(&summary), None);
        summary.errors.push(error(STOPPED, "rpc: connection reset"));
        assert!(
            failure(&summary).is_some_and(|it| it.ends_with("\"stop\"): rpc: connection reset"))
        );
    }

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

    #[test]
    fn what_to_do_depends_on_the_machine() {
        let mut summary = Summary::default();
        for (processors, has_pin, has_processes) in
            [(1, false, false), (2, true, false), (8, true, true)]
        {
            summary.environment.processors = processors;
            let text = mending(&summary).join("\n");
            assert_eq!(text.contains("--pin"), has_pin, "{text}");
            assert_eq!(text.contains("--processes"), has_processes, "{text}");
            assert!(text.contains("per CPU-second"), "{text}");
        }
    }
}
