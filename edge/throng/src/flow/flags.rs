//! The flags of `throng flow`, and their help. Letters are NTttcp's where it has them.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};

use crate::measured::{SAY_TOKEN, families, flag, token_arg, value};

const EXAMPLES: &str = "\
Examples:
  throng ping serve --address 10.0.0.2 --port 9500         the other end (with THRONG_TOKEN=…)
  throng flow 10.0.0.2:9500                                one connection of TCP for ten seconds
  throng flow 10.0.0.2:9500 -m '4,*' -P 2 -l 64k -t 30s    four threads with two connections each
  throng flow -m 2,0,10.0.0.2 -m 2,1,10.0.0.2 -t 60        threads on processors 0, 1 (NTttcp)
  throng flow 10.0.0.2:9500 --reverse                      the other end sends
  throng flow 10.0.0.2:9500 --udp -l 1200 --rate 20kpps    datagrams: lost, doubled, reordered
  throng flow 10.0.0.2:9500 --udp --reverse --rate 200Mb   datagrams from the other end
  throng flow 10.0.0.2:9500 --udp --work 200ns             a receiver that does something for each
  throng flow 10.0.0.2:9500 --udp --style gro --send-style gso
  throng flow styles                                       all of these styles side by side
  throng flow 10.0.0.2:9500 --expect 'goodput > 9Gb' --expect 'retransmits < 100' --out today

The headline is what the receiver got (goodput); what the sender gave its kernel stands beside it.
-W and -C come before and after what is counted. docs/flow.md tells how to read the output.

Exit codes: 0 done; 1 something failed, or an expectation did not hold; 2 asked for wrongly;
128 + n ended by signal n. What was measured until then is kept.";

/// The subcommand.
pub fn command() -> Command {
    Command::new("flow")
        .about("Measure throughput and what it costs: goodput, CPU a byte, losses")
        .after_help(EXAMPLES)
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommand(super::styles::command())
        .arg(
            Arg::new("target")
                .value_name("TARGET")
                .help("HOST:PORT of `throng ping serve`; of -m's address it is 9500"),
        )
        .next_help_heading("What is carried")
        .args(carried())
        .next_help_heading("By whom")
        .args(threads())
        .next_help_heading("Where and how")
        .args(places())
        .next_help_heading("Result")
        .args(crate::measured::args("'goodput > 9Gb', 'loss < 1 %', 'cpu_per_byte < 0.5ns'"))
        .arg(
            value("ntttcp", "FILE", "Write what NTttcp for Linux would: FILE.xml or FILE.json")
                .value_parser(value_parser!(PathBuf)),
        )
}

fn carried() -> [Arg; 10] {
    [
        value("time", "TIME", "What is counted: 10s, or seconds [10s]").short('t'),
        value("warmup", "TIME", "What comes before and is not counted [1s]").short('W'),
        value("cooldown", "TIME", "What comes after and is not counted [200ms]").short('C'),
        value("size", "BYTES", "Bytes of each call that sends, or of each datagram [128k, 1200]")
            .short('l'),
        flag("udp", "Datagrams with numbers; a stream of TCP by default").short('u'),
        flag("reverse", "The other end sends and this one receives").short('R'),
        value(
            "rate",
            "RATE",
            "All together: 500Mb (bits a second), 20kpps (datagrams a second) [as fast as can be]",
        ),
        value(
            "style",
            "STYLE",
            "How datagrams are received: recv, epoll, mmsg, gro, uring, uring-gro, xdp [recv]",
        ),
        value("send-style", "STYLE", "How datagrams are sent: one, mmsg, gso, uring [one]"),
        value(
            "work",
            "TIME",
            "Processor time that the receiver burns for each datagram: 200ns [0]",
        ),
    ]
}

fn threads() -> [Arg; 3] {
    [
        value(
            "map",
            "THREADS,CORE[,ADDRESS]",
            "Threads on a processor, * for any; several times for several [1,*]",
        )
        .short('m')
        .action(ArgAction::Append),
        value("connections", "N", "Connections of each thread (TCP) [1]")
            .short('P')
            .value_parser(value_parser!(u32).range(1..=i64::from(lab::flow::PER_THREAD_MAX))),
        value("remote-core", "CPU", "Processor of the threads at the other end")
            .value_parser(value_parser!(usize)),
    ]
}

fn places() -> [Arg; 5] {
    let [ipv4, ipv6] = families();
    [
        ipv4,
        ipv6,
        token_arg(SAY_TOKEN),
        value("timeout", "TIME", "Silence after which the other end is gone [1500ms]"),
        value("peer", "TEXT", "What is measured, kept in the result"),
    ]
}
