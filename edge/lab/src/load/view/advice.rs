//! What a result means for the person in front of it: why a run has shown nothing, what cures an
//! error, and what to do when the generator was in the way.
//!
//! In: a [`Summary`], or one of its errors. Out: sentences for a terminal or a report. Nothing is
//! measured or decided here but by what the summary says.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::load::record::kind::Cause;
use crate::load::record::limit::setting_in;
use crate::load::result::Summary;
use crate::load::result::notes::{is_answered, stopped};
use crate::load::result::summary::ErrorSummary;
use crate::load::result::validity::GENERATOR;
use crate::measure::number::group;
use crate::measure::text::one_line;

/// Cause of an error, text that its example contains, cure. The first that fits is taken.
const CURES: &[(Cause, &str, &str)] = &[
    (
        Cause::Status(401),
        "Server key",
        "name the server's key with --server-key KEY (socket.server_key; `defaultkey` by default)",
    ),
    (
        Cause::Status(401),
        "HTTP key",
        "name the server's key for HTTP calls with --http-key KEY (runtime.http_key)",
    ),
    (
        Cause::Status(401),
        "Auth token",
        "the session's token was refused: tokens expire (session.token_expiry_sec), and \
         `renew_every` in the scenario has to be shorter than that",
    ),
    (
        Cause::Status(401),
        "",
        "the server refuses the credentials: --server-key KEY or --http-key KEY names others",
    ),
    (
        Cause::Status(404),
        "RPC function",
        "the server has no RPC of this id: load the module that registers it (scenarios/modules has them; \
         throng serve --runtime.path DIR), or name another with --rpc ID",
    ),
    (
        Cause::Status(404),
        "",
        "the server does not know this path: wrong port in --target, or another kind of server? \
         `throng load scenarios` says what each scenario needs",
    ),
    (Cause::Status(400), "HTTPS", TLS),
    (Cause::Status(400), "https", TLS),
    (Cause::Status(400), "SSL", TLS),
    (
        Cause::Status(400),
        "",
        "the server does not take what the scenario sends, and its answer says why: of a built-in one \
         `throng load scenarios NAME > my.toml` and change what it sends",
    ),
    (
        Cause::Status(429),
        "",
        "the server limits how often one address may ask: lift that limit for the run",
    ),
    (
        Cause::Status(500),
        "",
        "the server failed: its log says why (an error in a script, or in its database); the log of one that \
         --server starts is kept with --out DIR",
    ),
    (Cause::NotHttp, "SSH-", "an SSH server listens there: wrong port in --target"),
    (Cause::NotHttp, "\u{15}\u{3}", TLS),
    (
        Cause::NotHttp,
        "",
        "what listens there does not speak HTTP/1.1: wrong port in --target, or a TLS port (https://)?",
    ),
    (Cause::Unasked, "SSH-", "an SSH server listens there: wrong port in --target"),
    (
        Cause::Unasked,
        "",
        "what listens there speaks before it is asked, or twice: wrong port in --target?",
    ),
    (
        Cause::IdleClosed,
        "",
        "harmless: the server closes connections between two requests, and new ones are made; it \
         costs both sides a connection each time",
    ),
    (
        Cause::ConnectRefused,
        "",
        "nothing listened there then: the server had ended, or its queue of new connections was \
         full; its log says which",
    ),
    (
        Cause::NoLocalPort,
        "",
        "widen net.ipv4.ip_local_port_range, or spread the players over several addresses",
    ),
    (Cause::NoFile, "", "raise `ulimit -n`, or share the players with --processes N"),
    (
        Cause::TlsUnknownIssuer,
        "",
        "nobody whom this machine trusts has signed the server's certificate: name its authority with \
         --tls-ca FILE (of a self-signed one, the certificate itself), or take any with --tls-insecure",
    ),
    (
        Cause::TlsWrongName,
        "",
        "name the server as its certificate does (the error says which names that has; \
         /etc/hosts can give an address such a name), or take any with --tls-insecure",
    ),
    (
        Cause::TlsExpired,
        "",
        "renew the server's certificate, or look at this machine's clock; --tls-insecure takes it as \
         it is",
    ),
    (
        Cause::TlsCertificate,
        "CaUsedAsEndEntity",
        "the certificate is that of an authority (CA:TRUE), as `openssl req -x509` makes them, and no \
         server's: make it with -addext basicConstraints=critical,CA:FALSE, or --tls-insecure",
    ),
    (
        Cause::TlsCertificate,
        "BadSignature",
        "the authority that is trusted has the name of the one that signed the server's certificate, and \
         another key: name the right one with --tls-ca FILE",
    ),
    (
        Cause::TlsCertificate,
        "",
        "the server's certificate cannot be checked: look at it with `openssl s_client -connect \
         HOST:PORT`, or take any with --tls-insecure",
    ),
    (
        Cause::TlsNotSpoken,
        "",
        "that port does not speak TLS: http:// or ws:// names the other, or name the TLS port",
    ),
    (
        Cause::TlsIncompatible,
        "",
        "the server wants a version older than TLS 1.2, or ciphers that are not safe any more: its \
         configuration says which",
    ),
    (
        Cause::TlsAlert,
        "",
        "the server has ended the handshake: its log says why (a name that it does not have, a \
         certificate that it wants of clients, no HTTP/1.1)",
    ),
    (
        Cause::TlsClosed,
        "",
        "the server hung up before TLS was agreed on: a port that does not speak it (http://), or too \
         many connections; its log says which",
    ),
    (
        Cause::TlsTimedOut,
        "",
        "the server does not answer the handshake: a port that does not speak TLS (http://), or too \
         many at once: a longer --ramp, or fewer players",
    ),
    (
        Cause::ConnectUnreachable,
        "",
        "the network has no way to that address any more: look at the route, or at --target",
    ),
    (
        Cause::ConnectTimedOut,
        "",
        "the server does not accept fast enough (net.core.somaxconn, a full table of connections): \
         a longer --ramp, or fewer players",
    ),
    (
        Cause::Closed,
        "",
        "the server hung up: it ended, hit a limit of connections, or timed the connection out; \
         its log says which",
    ),
    (
        Cause::TimeOut,
        "no datagram from",
        "UDP does not come through from there: a firewall, or the server names another address or port than it has \
         (datagram.port, datagram.public_port, datagram.public_address)",
    ),
    (
        Cause::TimeOut,
        "",
        "the server stands still or is too slow for this load: fewer players or a lower rate, or a \
         longer `timeout` in the scenario",
    ),
    (
        Cause::Other,
        "names are not asked for",
        "start the server with its IP address as --datagram.public_address for the run, or with an empty one: then \
         datagrams go to the address of --target",
    ),
    (
        Cause::Other,
        "is of another family",
        "name the server's address of that family in --target, or start it with one of this family as \
         --datagram.public_address, or with an empty one",
    ),
    (
        Cause::LacksText,
        "",
        "the server answered something else than the scenario wants: compare the example with its \
         `contains` (`throng load scenarios NAME` prints it)",
    ),
    (
        Cause::LacksHeader,
        "",
        "the scenario's `required` names the headers that an answer must have",
    ),
    (
        Cause::Envelope,
        "RPC function not found",
        "the server has no RPC of this id: that of datagrams it has with --datagram.enabled true; others come with the \
         module that registers them (scenarios/modules; throng serve --runtime.path DIR)",
    ),
    (
        Cause::LacksValue,
        "{}",
        "the server answered that there is none: `throng load scenarios` says what it must have (of a zone, \
         --world.enabled true)",
    ),
    (
        Cause::LacksValue,
        "",
        "the answer has another form than the scenario wants: compare the example with its \
         `capture`",
    ),
    (
        Cause::NoRow,
        "",
        "more players came than the data file has rows: a longer file, fewer `arrivals`, or \
         `wrap = true`",
    ),
    (Cause::NotReady, "", "a longer --ramp, or fewer players"),
    (
        Cause::ServerGone,
        "",
        "its log says why it ended; a run goes on over an outage in which connections can be made again \
         within 2 s",
    ),
    (
        Cause::NotReading,
        "",
        "the server does not take what it is sent: fewer players or a lower rate",
    ),
];

/// Likewise of requests that `throng ping` sends, which has neither a scenario nor players: taken before
/// the others.
const OF_PING: &[(Cause, &str, &str)] = &[
    (
        Cause::Status(401),
        "",
        "the server wants to know who asks: of `throng ping serve` say its token with --token or \
         THRONG_TOKEN; of another server name a path in TARGET that needs none",
    ),
    (
        Cause::Status(403),
        "",
        "the server does not let this machine ask for that path: name another in TARGET",
    ),
    (
        Cause::Status(404),
        "",
        "the server does not know this path: name another in TARGET (http://HOST:PORT/PATH), or another \
         port",
    ),
    (
        Cause::Status(405),
        "",
        "the path does not take this method: a ping is a GET, and with -l a POST",
    ),
    (Cause::Status(413), "", "the server does not take so much at once: a smaller -l"),
    (
        Cause::Status(400),
        "",
        "a TLS port? begin TARGET with https://; else the server's log says why",
    ),
    (
        Cause::Status(429),
        "",
        "the server limits how often one address may ask: a longer --interval, or fewer --streams",
    ),
];
/// Of the statuses from 501 to 509, of a ping.
const PING_NOT_READY: &str = "the server, or a proxy before it, is not ready or has too much to do: a longer \
         --interval, or fewer --streams, and look at its log";

/// Of players that were not ready where other errors are known.
const HELD_UP: &str = "the other errors say what held the players up";

/// Of the statuses from 501 to 509.
const NOT_READY: &str = "the server, or a proxy before it, cannot take this load or is not ready: fewer players or \
         a lower rate, and look at its log";
/// Of a handshake, whatever its status.
const NO_SOCKET: &str = "there is no WebSocket at this path, or the token was refused: `throng load scenarios` \
         says what each scenario needs";

const TLS: &str = "that is a TLS port: begin --target with https://";

/// What cures an error of this kind in such a run: the setting that the server names, or general advice;
/// none where nothing general can be said. Options that it names are those of the run's own command.
#[must_use]
pub fn cure(error: &ErrorSummary, summary: &Summary) -> Option<Cow<'static, str>> {
    if summary.ping.is_some() {
        let own = of(OF_PING, error.cause, &error.example).or(match error.cause {
            Cause::Status(501..=509) => Some(PING_NOT_READY),
            _ => None,
        });
        return own.or_else(|| cure_of(error.cause, &error.example)).map(Cow::Borrowed);
    }
    if let Some(setting) = setting_in(&error.kind) {
        return Some(Cow::Owned(format!(
            "the server has met its limit `{setting}`: raise that setting for the run, or ask for \
             less: fewer players, a lower rate"
        )));
    }
    // More time does not help against a request that fails.
    if error.cause == Cause::NotReady
        && summary.errors.iter().any(|other| other.cause != Cause::NotReady)
    {
        return Some(Cow::Borrowed(HELD_UP));
    }
    let cure = cure_of(error.cause, &error.example).or(match error.cause {
        Cause::Status(501..=509) => Some(NOT_READY),
        Cause::Handshake(_) => Some(NO_SOCKET),
        _ => None,
    });
    cure.map(Cow::Borrowed)
}

/// What is known to cure errors of this cause, with such an example.
pub(crate) fn cure_of(cause: Cause, example: &str) -> Option<&'static str> {
    of(CURES, cause, example)
}

fn of(cures: &[(Cause, &str, &'static str)], cause: Cause, example: &str) -> Option<&'static str> {
    let fits = |it: &&(Cause, &str, &'static str)| it.0 == cause && example.contains(it.1);
    cures.iter().find(fits).map(|(_, _, cure)| *cure)
}

/// Why a run has failed, in one line: the scenario stopped it, its server ended, nothing was answered
/// as it should be, or players were missing. None for a run whose figures mean what was asked for.
#[must_use]
pub fn failure(summary: &Summary) -> Option<String> {
    if let Some(ended) = &summary.server_ended {
        return Some(ended.text());
    }
    if let Some(reason) = stopped(summary) {
        return Some(reason);
    }
    if is_answered(summary) {
        return missing(summary);
    }
    let mut reason = if summary.counted_s > 0.0 {
        match (&summary.ping, &summary.flow) {
            (Some(_), _) => "nothing was answered".to_owned(),
            (_, Some(_)) => "nothing was carried".to_owned(),
            (None, None) => "nothing was answered as the scenario wants".to_owned(),
        }
    } else if (summary.ping.is_some() || summary.flow.is_some()) && !summary.ended.is_empty() {
        return Some(summary.ended.clone());
    } else if summary.errors.is_empty() && !summary.ended.is_empty() {
        summary.ended.clone()
    } else if summary.errors.is_empty() {
        "the run ended before anything was counted".to_owned()
    } else {
        "no player became ready".to_owned()
    };
    // What can be cured says more than what came of it.
    let curable = summary.errors.iter().find(|error| cure(error, summary).is_some());
    if let Some(error) = curable.or(summary.errors.first()) {
        let op = if error.op == "-" { String::new() } else { format!("{}: ", error.op) };
        let _ = write!(reason, ": {} times {op}{}", group(error.count), one_line(&error.kind));
    }
    Some(reason)
}

/// Who was not there when the counted time began.
pub(crate) fn missing(summary: &Summary) -> Option<String> {
    summary.ramp.as_ref()?.text(summary.settings.players)
}

/// What to do when the generator was in the way, and what its figures are still good for.
pub(crate) fn mending(summary: &Summary) -> Vec<String> {
    if summary.ping.is_some() {
        return mending_of_ping(summary);
    }
    if summary.zone.is_some() && !summary.invalid.iter().any(|it| it.starts_with(GENERATOR)) {
        let text = "fewer pilots (--players), or more processors for the server (engine.rooms)";
        return vec![text.to_owned()];
    }
    if summary.flow.is_some() {
        let text =
            "a lower --rate, or more threads on more processors (-m), until this line goes away";
        return vec![text.to_owned()];
    }
    let settings = &summary.settings;
    let environment = &summary.environment;
    // Results of older versions know only those that the command might use.
    let processors = match environment.processors_online {
        0 => environment.processors.max(1),
        online => online,
    };
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
    if !settings.realtime {
        lines.push(
            "or --realtime, where the machine is busy with other things: the generator, and a server \
             that it starts, run before all ordinary threads"
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

/// Likewise of a ping, whose streams are threads.
fn mending_of_ping(summary: &Summary) -> Vec<String> {
    let mut lines = vec![
        "a longer --interval, or fewer --streams, until this line goes away".to_owned(),
        "or --pin CPU, with the server and all other programs on other processors".to_owned(),
    ];
    if !summary.settings.realtime {
        lines.push(
            "or --realtime, where the machine is busy with other things: the streams run before all \
             ordinary threads"
                .to_owned(),
        );
    }
    lines.push(
        "until then response times are too high, never too low; service times may be used"
            .to_owned(),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::{cure, failure, mending};
    use crate::load::PingSummary;
    use crate::load::record::STOPPED;
    use crate::load::record::kind::Cause;
    use crate::load::result::summary::{ErrorSummary, OpSummary, ServerEnd, Summary};
    use crate::load::result::{Lacking, Ramp};

    fn error(cause: Cause, kind: &str, example: &str) -> ErrorSummary {
        ErrorSummary {
            op: "rpc".to_owned(),
            cause,
            kind: kind.to_owned(),
            count: 3,
            example: example.to_owned(),
        }
    }

    fn cures(errors: &[(Cause, &str, &str, &str)]) {
        for (cause, kind, example, part) in errors {
            let found = cure(&error(*cause, kind, example), &Summary::default());
            let found = found.unwrap_or_default();
            assert!(found.contains(part), "{kind}: {found}");
        }
    }

    #[test]
    fn errors_have_cures() {
        cures(&[
            (
                Cause::Status(401),
                "status 401",
                "{\"message\":\"Server key invalid\"}",
                "--server-key",
            ),
            (Cause::Status(401), "status 401", "{\"message\":\"HTTP key invalid\"}", "--http-key"),
            (
                Cause::Status(401),
                "status 401",
                "{\"message\":\"Auth token invalid\"}",
                "renew_every",
            ),
            (Cause::Status(401), "status 401", "no", "--server-key KEY or --http-key"),
            (Cause::Status(404), "status 404", "RPC function not found", "--rpc"),
            (Cause::Status(404), "status 404", "<html>", "wrong port"),
            (
                Cause::Status(400),
                "status 400",
                "Client sent an HTTP request to an HTTPS server.",
                "TLS",
            ),
            (Cause::Status(500), "status 500", "attempt to index nil", "log"),
            (Cause::Status(503), "status 503", "", "lower rate"),
            (
                Cause::Status(429),
                "status 429: limit.calls_waiting_per_user",
                "",
                "limit.calls_waiting_per_user",
            ),
            (Cause::Envelope, "error 0: too many requests (limit.a_b is 1)", "", "`limit.a_b`"),
            (
                Cause::Handshake(429),
                "handshake refused: status 429: limit.sockets_per_user",
                "",
                "sockets_per_user",
            ),
            (Cause::NotHttp, "not HTTP: malformed start line", "SSH-2.0-OpenSSH", "SSH server"),
            (Cause::NotHttp, "not HTTP: malformed start line", "\u{15}\u{3}\u{1}\0\u{2}", "TLS"),
            (Cause::NotHttp, "not HTTP: malformed start line", "220 mail", "HTTP/1.1"),
            (Cause::Closed, "connection refused or failed", "", "its log"),
            (Cause::ConnectRefused, "connect: refused", "", "its log"),
            (Cause::NoFile, "connect: no open file left (ulimit -n)", "", "--processes"),
            (Cause::NoLocalPort, "connect: no local port left (…)", "", "ip_local_port_range"),
            (Cause::Closed, "connection closed within an answer", "", "hung up"),
            (Cause::Closed, "connection reset by the server", "", "hung up"),
            (Cause::IdleClosed, "idle connection closed by the server", "", "harmless"),
            (Cause::TimeOut, "time-out", "no answer within 10 s", "timeout"),
            (Cause::Other, "datagrams that cannot be used", "names are not asked for", "address"),
            (Cause::Other, "datagrams that cannot be used", "is of another family", "family"),
        ]);
        assert_eq!(cure(&error(Cause::Other, "something new", ""), &Summary::default()), None);
    }

    #[test]
    fn errors_of_tls_have_cures() {
        cures(&[
            (Cause::TlsUnknownIssuer, "TLS: certificate of an unknown issuer", "", "--tls-ca"),
            (Cause::TlsWrongName, "TLS: certificate of another name", "", "as its certificate"),
            (Cause::TlsExpired, "TLS: certificate has expired", "", "clock"),
            (
                Cause::TlsCertificate,
                "TLS: …",
                "it is an authority's own (CaUsedAsEndEntity)",
                "CA:FALSE",
            ),
            (Cause::TlsCertificate, "TLS: …", "", "s_client"),
            (Cause::TlsCertificate, "TLS: …", "BadSignature", "another key"),
            (
                Cause::TlsNotSpoken,
                "TLS: the server answers in plain HTTP",
                "HTTP/1.1 400",
                "http://",
            ),
            (Cause::TlsIncompatible, "TLS: …", "", "TLS 1.2"),
            (Cause::TlsAlert, "TLS: …", "", "its log"),
            (Cause::TlsClosed, "TLS: …", "", "hung up"),
            (Cause::TlsTimedOut, "TLS: handshake timed out", "", "http://"),
        ]);
    }

    #[test]
    fn a_pings_cure_names_its_own_options() {
        let ping = Summary { ping: Some(PingSummary::default()), ..Summary::default() };
        let statuses = [400, 401, 403, 404, 405, 413, 429, 500, 501, 502, 503, 509];
        let foreign =
            ["--server-key", "--http-key", "--rpc", "--target", "scenario", "players", "--ramp"];
        for status in statuses {
            let text = format!("status {status}");
            let found = cure(&error(Cause::Status(status), &text, ""), &ping).unwrap_or_default();
            assert!(!found.is_empty(), "{status}");
            assert!(!foreign.iter().any(|it| found.contains(it)), "{status}: {found}");
        }
        let of = |status| cure(&error(Cause::Status(status), "", ""), &ping).unwrap_or_default();
        assert!(of(401).contains("--token") && of(404).contains("TARGET"));
        assert!(of(503).contains("--interval"));
    }

    #[test]
    fn players_that_other_errors_hold_up_need_no_longer_ramp() {
        let late = error(Cause::NotReady, "players were not ready in time", "");
        let mut summary = Summary { errors: vec![late.clone()], ..Summary::default() };
        let of = |summary: &Summary| cure(&late, summary).unwrap_or_default().into_owned();
        assert!(of(&summary).contains("--ramp"));
        summary.errors.push(error(Cause::Status(404), "status 404", "RPC function not found"));
        assert_eq!(of(&summary), super::HELD_UP);
    }

    #[test]
    fn a_request_that_is_refused_is_the_scenarios_to_change() {
        let refused = error(Cause::Status(400), "status 400", "{\"message\":\"bad id\"}");
        let found = cure(&refused, &Summary::default());
        assert!(found.is_some_and(|it| it.contains("NAME > my.toml")));
    }

    #[test]
    fn a_run_that_shows_nothing_says_why() {
        let mut summary = Summary::default();
        assert!(failure(&summary).is_some_and(|it| it.contains("before anything was counted")));
        let ended = "could not begin: nothing listens".to_owned();
        let not_begun = Summary { ended: ended.clone(), ..Summary::default() };
        assert_eq!(failure(&not_begun), Some(ended));
        summary.errors = vec![
            error(Cause::Other, "odd", ""),
            error(Cause::Status(401), "status 401", "Server key invalid"),
        ];
        let reason = failure(&summary).unwrap_or_default();
        assert_eq!(reason, "no player became ready: 3 times rpc: status 401");
        summary.counted_s = 1.0;
        assert!(failure(&summary).is_some_and(|it| it.starts_with("nothing was answered")));
        summary.ops.push(OpSummary { counted: true, done: 1, ..OpSummary::default() });
        assert_eq!(failure(&summary), None);
        let lacking = Lacking { reason: "login: status 500".to_owned(), players: 2 };
        summary.settings.players = 3;
        summary.ramp = Some(Ramp { ready: 1, lacking: vec![lacking], ..Ramp::default() });
        assert!(failure(&summary).is_some_and(|it| it.starts_with("1 of 3 players became ready")));
        let end = ServerEnd {
            after_s: 3.04,
            how: "signal 9, SIGKILL".to_owned(),
            ..ServerEnd::default()
        };
        let dead = Summary { server_ended: Some(Box::new(end)), ..summary.clone() };
        let wanted = "the server ended after 3.0 s (signal 9, SIGKILL)";
        assert_eq!(failure(&dead).as_deref(), Some(wanted));
        summary.ramp = None;
        summary.errors.push(error(Cause::Stopped, &STOPPED.text, "rpc: connection reset"));
        assert!(
            failure(&summary).is_some_and(|it| it.ends_with("\"stop\"): rpc: connection reset"))
        );
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
