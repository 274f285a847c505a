//! The flags of `throng ping` and `throng ping serve`, and their help. Letters are PsPing's, so that
//! `-h` is the histogram and help is `--help` alone.

use std::net::IpAddr;

use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};

use crate::measured::{SAY_TOKEN, families, flag, tls_args, token_arg, value};

const EXAMPLES: &str = "\
Examples:
  throng ping serve --port 9500                            the other end
  throng ping 127.0.0.1:9500 -n 2s -i 1ms -l 64            TCP round trips, one a millisecond
  throng ping 127.0.0.1:9500 --udp --streams 8 -l 64,256,1k
  throng ping 127.0.0.1:7450 --udp --plain                 to throng echo --udp, or any that echoes
  throng ping game.example:7350 --connect -n 20            no throng needed there
  throng ping http://game.example:7350/healthcheck --expect 'p99 < 20ms' --out today
  throng ping https://game.example/healthcheck             the handshake of TLS stands apart
  throng ping game.example --icmp

Pings begin on schedule, whether the ones before are answered or not, and are timed from their
intended start (response time) and from when they were sent (service time). -i 0 sends back to back:
a closed loop, whose times say nothing about users. docs/ping.md tells how to read the output.

Exit codes: 0 done; 1 something failed, or an expectation did not hold; 2 asked for wrongly;
128 + n ended by signal n. What was measured until then is kept.";

const SERVE: &str = "\
Examples:
  throng ping serve
  THRONG_TOKEN=s3cret throng ping serve --address 0.0.0.0

It answers TCP and UDP round trips, connects, HTTP and WebSocket, and the flows of `throng flow`,
on one port until it is stopped (Ctrl-C), and then says what it has counted. To listen wider than
loopback it wants a token, which clients say with --token or THRONG_TOKEN. The token travels as it
is: use one for nothing else.";

/// The subcommand.
pub fn command() -> Command {
    Command::new("ping")
        .about("Time round trips, connects and requests: latency with a histogram")
        .after_help(EXAMPLES)
        .args_conflicts_with_subcommands(true)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .arg(help())
        .subcommand(serve())
        .arg(
            Arg::new("target")
                .value_name("TARGET")
                .help("HOST:PORT, a URL (http://, https://, ws://, wss://), or HOST with --icmp"),
        )
        .args(kinds())
        .group(ArgGroup::new("kind").args(["udp", "connect", "http", "ws", "icmp"]))
        .next_help_heading("Pings")
        .args(pings())
        .next_help_heading("Where and how")
        .args(places())
        .args(tls_args())
        .next_help_heading("Result")
        .args(results())
}

fn help() -> Arg {
    Arg::new("help").long("help").action(ArgAction::Help).help("Print help")
}

fn kinds() -> [Arg; 6] {
    [
        flag("udp", "UDP round trips; TCP round trips by default"),
        flag(
            "plain",
            "With --udp: to any server that sends datagrams back, such as throng echo --udp",
        )
        .requires("udp"),
        flag("connect", "Time to connect by TCP, to any server"),
        flag("http", "HTTP requests on a kept connection, to any server: GET, with -l POST"),
        flag("ws", "WebSocket pings, to any server; above 125 bytes messages that it sends back"),
        flag("icmp", "ICMP echoes, where this user may send them"),
    ]
}

fn pings() -> [Arg; 8] {
    [
        value("number", "N|TIME", "Pings of each stream, or for how long: 2000, 10s [5s]").short('n'),
        value("interval", "TIME", "Between intended starts: 1ms, 0.5 (seconds); 0 is back to back [10ms, to any server 100ms]")
            .short('i'),
        value("size", "BYTES[,…]", "Bytes of each ping: 64, 1k, 10m; several are taken in turn [64; --ws, --icmp 32]")
            .short('l')
            .value_delimiter(','),
        value("warmup", "N|TIME", "Pings of each stream that come before and do not count [5]").short('w'),
        value("streams", "N", "Streams at once, each a thread with a connection of its own [1]")
            .value_parser(value_parser!(u16).range(1..=i64::from(lab::ping::STREAMS_MAX))),
        flag("poisson", "Starts at random distances, as independent users come"),
        value("seed", "N", "Of --poisson; random by default").value_parser(value_parser!(u64)),
        value("timeout", "TIME", "Silence after which the other end is gone, and an answer lost [1500ms]"),
    ]
}

fn places() -> [Arg; 7] {
    let [ipv4, ipv6] = families();
    [
        ipv4,
        ipv6,
        token_arg(SAY_TOKEN),
        flag("busy-poll", "Wait without sleeping: takes a processor for each stream"),
        value("pin", "CPU", "Processor of the streams").value_parser(value_parser!(usize)),
        flag("realtime", "Streams before all ordinary threads (SCHED_FIFO; takes CAP_SYS_NICE)"),
        value("peer", "TEXT", "What is measured, kept in the result"),
    ]
}

fn results() -> [Arg; 4] {
    let [out, json, expect] = crate::measured::args("'p99 < 1ms', 'lost == 0'");
    let histogram = value(
        "histogram",
        "N|BOUNDS",
        "Buckets of the histogram, or their bounds: 0.05,0.1,1 (ms) [20]",
    );
    [histogram.short('h'), out, json, expect]
}

fn serve() -> Command {
    let number = |name, default, help| {
        value(name, "N", help)
            .default_value(default)
            .value_parser(value_parser!(u32).range(1..=10_000))
    };
    Command::new("serve")
        .about("Answer every kind of ping and flow on one port, until interrupted")
        .after_help(SERVE)
        .disable_help_flag(true)
        .arg(help())
        .arg(
            value("address", "IP", "Address to listen on")
                .default_value("127.0.0.1")
                .value_parser(value_parser!(IpAddr)),
        )
        .arg(
            value("port", "PORT", "Port for TCP and UDP; 0 lets the system choose")
                .default_value("9500")
                .value_parser(value_parser!(u16)),
        )
        .arg(token_arg("What clients have to say; needed to listen wider than loopback"))
        .arg(number("connections", "512", "Connections in all"))
        .arg(number("per-address", "128", "Connections of one address, or one /64 of IPv6"))
        .arg(number(
            "flows",
            "8",
            "Flows at once, of everybody; one address has all but one at most",
        ))
        .arg(
            value(
                "send-rate",
                "RATE",
                "Datagrams that one flow is sent at most, with their headers on Ethernet, where it asks \
                 for them",
            )
            .default_value("1Gb"),
        )
        .arg(flag(
            "xdp",
            "Receive flows by AF_XDP for who asks: a program stands before the interface meanwhile, and \
             some drivers reset theirs when one comes",
        ))
}
