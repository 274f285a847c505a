//! What the network stack has counted since the machine started: drops, retransmissions, memory of
//! sockets. A small share of drops is ordinary; each check says from where on it is not.
//!
//! Source: Documentation/networking/snmp_counter.rst, scaling.rst and
//! Documentation/admin-guide/sysctl/net.rst of Linux, proc(5).

use super::facts::{self, sysctl_path};
use super::tree::{Read, Tree, Unread};
use super::{Change, Finding, Group};
use crate::measure::number::{bytes, float, group};

/// Checks whose values change by themselves.
pub(super) const VOLATILE: [&str; 15] = [
    "open-files-machine",
    "conntrack",
    "udp-drops",
    "listen-drops",
    "softnet-drops",
    "retransmissions",
    "socket-memory",
    "nic-drops",
    "accelerated-path",
    "steal",
    "throttling",
    "cpu-pressure",
    "swap",
    "memory-free",
    "entropy",
];

/// Bytes of a page of memory, in which the kernel counts sockets' memory.
const PAGE_BYTES: u64 = 4_096;

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    vec![
        udp_drops(tree),
        listen_drops(tree),
        softnet_drops(tree),
        retransmissions(tree),
        socket_memory(tree),
        busy_poll(tree),
    ]
}

/// A counter of a file like `/proc/net/snmp`: a line of names, a line of values, each with a head.
fn counter(text: &str, head: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(head)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|it| it == name)?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// Two counters that are told together, from one file or two.
fn counters(
    tree: &Tree,
    [(part_path, part_head, part), (all_path, all_head, all)]: [(&str, &str, &str); 2],
) -> Read<(u64, u64)> {
    let Some(text) = tree.text(part_path)? else { return Ok(None) };
    let of_all = tree.text(all_path)?.unwrap_or_default();
    match (counter(&text, part_head, part), counter(&of_all, all_head, all)) {
        (Some(part), Some(all)) => Ok(Some((part, all))),
        _ => Err(Unread::new(part_path, format!("it has no {part} or {all}"))),
    }
}

/// A share, as it is told: counts first, because few of few mean little.
fn share(part: u64, all: u64, of: &str) -> String {
    format!("{} of {} {of}", group(part), group(all))
}

/// Whether more than one of `each` was hit, and more than a few.
fn is_often(part: u64, all: u64, each: u64) -> bool {
    part > 10 && part.saturating_mul(each) > all
}

const SNMP: &str = "/proc/net/snmp";
const NETSTAT: &str = "/proc/net/netstat";

/// The command that raises those of the settings that are lower, or, where all are in force already, what
/// else there is to do: the counters are those since the start, and may be of before.
fn raise(tree: &Tree, wanted: &[(&str, u64)], besides: &str) -> String {
    let is_low = |(name, value): &&(&str, u64)| {
        tree.number(&sysctl_path(name)).ok().flatten().is_none_or(|now| now < *value)
    };
    let low: Vec<String> =
        wanted.iter().filter(is_low).map(|(name, value)| format!("{name}={value}")).collect();
    if low.is_empty() {
        let names: Vec<&str> = wanted.iter().map(|it| it.0).collect();
        return format!("# {} would do: set already; {besides}", names.join(", "));
    }
    format!("sysctl -w {} # {besides}", low.join(" "))
}

fn udp_drops(tree: &Tree) -> Finding {
    let why = "datagrams that came and found their socket's buffer full: players' input that was lost \
               on the last metre";
    let finding = Finding::of("udp-drops", Group::Network, SNMP, why);
    let read = counters(tree, [(SNMP, "Udp", "RcvbufErrors"), (SNMP, "Udp", "InDatagrams")]);
    finding.over(read, "no counters", |it, (dropped, taken)| {
        let all = taken.saturating_add(dropped);
        it.warn_if(is_often(dropped, all, 1_000), share(dropped, all, "datagrams dropped"))
            .cured_by(raise(
                tree,
                &[("net.core.rmem_max", 4_194_304), ("net.core.rmem_default", 1_048_576)],
                "ss -uamp tells whose socket still drops (d)",
            ))
    })
}

fn listen_drops(tree: &Tree) -> Finding {
    let why = "attempts to connect that were dropped because the server's queue was full: players who \
               waited a second or more";
    let finding = Finding::of("listen-drops", Group::Network, NETSTAT, why);
    let read = counters(tree, [(NETSTAT, "TcpExt", "ListenDrops"), (SNMP, "Tcp", "PassiveOpens")]);
    finding.over(read, "no counters", |it, (dropped, taken)| {
        let all = taken.saturating_add(dropped);
        it.warn_if(is_often(dropped, all, 10_000), share(dropped, all, "connections dropped"))
            .cured_by(raise(
                tree,
                &[("net.core.somaxconn", 4_096)],
                "and a longer backlog in the server",
            ))
    })
}

fn softnet_drops(tree: &Tree) -> Finding {
    const PATH: &str = "/proc/net/softnet_stat";
    const NAME: &str = "net.core.netdev_max_backlog";
    const SET: u64 = 16_384;
    let why = "packets that a processor had no room for between the card and the protocols; with RPS, \
               veth and containers all packets pass here";
    let finding = Finding::of("softnet-drops", Group::Network, PATH, why);
    let read = tree.text(PATH).and_then(|text| {
        let Some(text) = text else { return Ok(None) };
        let (mut seen, mut dropped) = (0_u64, 0_u64);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace().map(|it| u64::from_str_radix(it, 16));
            let (Some(Ok(one)), Some(Ok(two))) = (words.next(), words.next()) else {
                return Err(Unread::new(PATH, format!("`{line}` is not understood")));
            };
            seen = seen.saturating_add(one);
            dropped = dropped.saturating_add(two);
        }
        Ok(Some((seen, dropped)))
    });
    let backlog = tree.number(&sysctl_path(NAME)).ok().flatten();
    finding.over(read, "no counters", |it, (seen, dropped)| {
        let all = seen.saturating_add(dropped);
        let bad = is_often(dropped, all, 100_000);
        let it = it.warn_if(bad, share(dropped, all, "packets dropped")).cured_by(raise(
            tree,
            &[(NAME, SET)],
            "spread packets over more processors (rss, rps)",
        ));
        match backlog {
            Some(now) if now < SET => {
                it.with([Change { path: sysctl_path(NAME), value: SET.to_string() }])
            }
            _ => it,
        }
    })
}

fn retransmissions(tree: &Tree) -> Finding {
    let why = "segments sent again, on the whole machine: above one in a hundred the path loses \
               packets, and WebSocket players see stalls of 200 ms and more";
    let finding = Finding::of("retransmissions", Group::Network, SNMP, why);
    let read = counters(tree, [(SNMP, "Tcp", "RetransSegs"), (SNMP, "Tcp", "OutSegs")]);
    finding.over(read, "no counters", |it, (again, sent)| {
        it.warn_if(is_often(again, sent, 100), share(again, sent, "segments")).cured_by(
            "mtr -T -P PORT HOST # finds the path that loses; ss -ti shows each connection",
        )
    })
}

fn socket_memory(tree: &Tree) -> Finding {
    const PATH: &str = "/proc/net/sockstat";
    let why = "memory of all sockets; near the limit the kernel shrinks windows and drops datagrams \
               of every server on the machine";
    let finding = Finding::of("socket-memory", Group::Network, PATH, why);
    let read = tree.text(PATH).map(|text| {
        let text = text?;
        let used = |head: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(head))?;
            let mut words = line.split_ascii_whitespace().skip_while(|word| *word != "mem").skip(1);
            words.next()?.parse().ok()
        };
        let of = |head: &str, name: &str| {
            let limits = facts::sysctl(tree, name);
            // Pages: low, pressure, high.
            let pressure = limits.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()?;
            Some((used(head)?, pressure))
        };
        Some((of("TCP:", "net.ipv4.tcp_mem")?, of("UDP:", "net.ipv4.udp_mem")?))
    });
    let absent = "not told in this network namespace";
    finding.over(read, absent, |it, ((tcp, tcp_most), (udp, udp_most))| {
        let is_much = |used: u64, most: u64| float(used) > 0.7 * float(most);
        let pages = |count: u64| bytes(count.saturating_mul(PAGE_BYTES));
        let value = format!(
            "TCP {} of {}, UDP {} of {}",
            pages(tcp),
            pages(tcp_most),
            pages(udp),
            pages(udp_most)
        );
        let double = |most: u64| {
            let most = most.saturating_mul(2);
            format!("{} {most} {}", most / 4 * 3, most / 2 * 3)
        };
        it.warn_if(is_much(tcp, tcp_most) || is_much(udp, udp_most), value).cured_by(format!(
            "sysctl -w net.ipv4.tcp_mem=\"{}\" net.ipv4.udp_mem=\"{}\"",
            double(tcp_most),
            double(udp_most)
        ))
    })
}

fn busy_poll(tree: &Tree) -> Finding {
    let path = sysctl_path("net.core.busy_read");
    let poll = sysctl_path("net.core.busy_poll");
    let why = "sockets that spin for packets instead of waiting: some µs less latency, for processors \
               that game servers then lack";
    let finding = Finding::of("busy-poll", Group::Network, format!("{path}, {poll}"), why);
    let read = tree.number(&path).and_then(|one| Ok(one.zip(tree.number(&poll)?)));
    let processors = facts::online(tree).len();
    finding.over(read, "this kernel or network namespace has none", |it, (read_us, poll_us)| {
        let value = match read_us.max(poll_us) {
            0 => "off".to_owned(),
            us => format!("{us} µs ({processors} online)"),
        };
        it.warn_if(read_us.max(poll_us) > 0 && processors <= 4, value)
            .cured_by("sysctl -w net.core.busy_read=0 net.core.busy_poll=0")
            .with([&path, &poll].map(|it| Change { path: it.clone(), value: "0".to_owned() }))
    })
}

#[cfg(test)]
mod tests {
    use super::{counter, is_often};

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams RcvbufErrors\nUdp: 30 4\nUdpLite: A\nUdpLite: 9\n";
        assert_eq!(counter(text, "Udp", "RcvbufErrors"), Some(4));
        assert_eq!(counter(text, "Tcp", "B"), Some(2));
        assert_eq!((counter(text, "Udp", "C"), counter("", "Udp", "C")), (None, None));
    }

    #[test]
    fn few_are_not_often() {
        assert!(!is_often(3, 30, 100) && is_often(11, 1_000, 100) && !is_often(11, 1_100, 100));
    }
}
