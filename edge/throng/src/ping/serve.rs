//! `throng ping serve`: says where it listens, what happens, and at the end what it has counted.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use clap::ArgMatches;
use lab::flow::Rate;
use lab::measure::count_of;
use lab::ping::{Counts, Happening, ServeError, ServeOptions, Server};

use crate::load::Interrupt;
use crate::measured::token;
use crate::{EXIT_WRONG, complain};

/// Serves until a signal comes. The exit code.
pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let ip = matches.get_one("address").copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let port: u16 = matches.get_one("port").copied().unwrap_or(9500);
    let options = ServeOptions {
        address: (ip, port).into(),
        token: token(matches),
        connections_max: matches.get_one("connections").copied().unwrap_or(512),
        per_address_max: matches.get_one("per-address").copied().unwrap_or(128),
        flows_max: matches.get_one("flows").copied().unwrap_or(8),
        takes_frames: matches.get_flag("xdp"),
        send_bits_max: match send_rate(matches) {
            Ok(bits) => bits,
            Err(error) => {
                complain(&format_args!("--send-rate: {error:#}"));
                return Ok(EXIT_WRONG);
            }
        },
    };
    let server = match Server::bind(options, |happening| say(&told(happening))) {
        Ok(server) => server,
        Err(error @ (ServeError::Open(_) | ServeError::Token)) => {
            complain(&error);
            return Ok(EXIT_WRONG);
        }
        Err(error) => return Err(error.into()),
    };
    say(&format!("listening on {} (TCP and UDP)", server.address()));
    let counts = server.run(|| interrupt.signal().is_some())?;
    let name = interrupt.signal().map_or("", |(name, _)| name);
    say(&format!("stopped by {name}; {}", summary(&counts)));
    Ok(0)
}

/// Bits a second.
fn send_rate(matches: &ArgMatches) -> anyhow::Result<f64> {
    let text = matches.get_one::<String>("send-rate").map_or("1Gb", String::as_str);
    match text.parse()? {
        Rate::Bits(bits) => Ok(bits),
        Rate::Datagrams(_) => anyhow::bail!("`{text}` is not of bits: write 500Mb"),
    }
}

/// If nobody reads it, it is served all the same.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn told(happening: &Happening) -> String {
    match happening {
        Happening::Began { peer, version } => format!("{peer} began (throng {version})"),
        Happening::Ended { peer, why, datagrams, messages, flow_bytes } => match flow_bytes {
            0 => {
                let messages = count_of(*messages, "message");
                format!("{peer} ended: {why}; {messages}, {}", count_of(*datagrams, "datagram"))
            }
            bytes => format!("{peer} ended: {why}; a flow of {}", count_of(*bytes, "byte")),
        },
        Happening::Refused { peer, why } => format!("{peer} refused: {why}"),
    }
}

/// What was counted, without what never happened.
fn summary(counts: &Counts) -> String {
    // How many, of what (none where the words do not change with the number), and what of them.
    let all = [
        (counts.connections, "connection", ""),
        (counts.sessions, "session", ""),
        (counts.vanished, "", "of them vanished"),
        (counts.messages, "message", ""),
        (counts.datagrams, "datagram", ""),
        (counts.requests, "HTTP request", ""),
        (counts.frames, "frame", ""),
        (counts.flows, "flow", ""),
        (counts.flows_kept_off, "flow", "kept off one processor"),
        (counts.flow_bytes, "byte", "of flows"),
        (counts.refused_flows, "flow", "refused"),
        (counts.flows_overdue, "flow", "ended by the server"),
        (counts.refused_busy, "", "turned away at a limit"),
        (counts.refused_token, "", "refused for their token"),
        (counts.refused_guessing, "", "refused without a look at their token"),
        (counts.refused_version, "", "refused for their version"),
        (counts.refused_form, "", "refused for what they said"),
        (counts.datagrams_foreign, "datagram", "of nobody, not answered"),
        (counts.datagrams_unsent, "datagram", "that could not be sent back"),
    ];
    let tell = |(count, one, what): (u64, &str, &str)| {
        let count = if one.is_empty() { count.to_string() } else { count_of(count, one) };
        format!("{count} {what}").trim_end().to_owned()
    };
    let told: Vec<String> = all.into_iter().filter(|it| it.0 > 0).map(tell).collect();
    if told.is_empty() { "nobody came".to_owned() } else { told.join(", ") }
}

#[cfg(test)]
mod tests {
    use lab::ping::Counts;

    use super::summary;

    #[test]
    fn only_what_happened_is_told() {
        assert_eq!(summary(&Counts::default()), "nobody came");
        let counts = Counts { connections: 2, refused_token: 1, ..Counts::default() };
        assert_eq!(summary(&counts), "2 connections, 1 refused for their token");
        let one = Counts { flows: 1, flows_overdue: 1, flow_bytes: 1, ..Counts::default() };
        assert_eq!(summary(&one), "1 flow, 1 byte of flows, 1 flow ended by the server");
    }
}
