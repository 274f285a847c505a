//! What the system allows a process, a socket or a port: the ceilings that a server meets without
//! a word.
//!
//! Source: Documentation/admin-guide/sysctl/{fs,net,kernel}.rst and
//! Documentation/networking/{ip-sysctl,nf_conntrack-sysctl}.rst of Linux, getrlimit(2), listen(2).

use super::facts::{self, sysctl_path};
use super::tree::{Read, Tree, Unread};
use super::{Change, Finding, Group};
use crate::measure::number::{bytes, float, group};

/// Players and files that one process should be able to hold.
const FILES_LEAST: u64 = 65_536;
/// What servers ask listen(2) for, throng among them.
const BACKLOG_LEAST: u64 = 4_096;
/// Processes and threads of dozens of game servers.
const PROCESSES_LEAST: u64 = 4_096;
/// Half of the connections that are open and closed in a minute at 500 a second.
const CONNECTIONS_LEAST: u64 = 65_536;
/// Ports for outgoing connections: the system's own default.
const PORTS_LEAST: u64 = 28_000;
/// What UDP sockets may ask for: a burst of 2,000 full datagrams, and Linux' default since 6.18.
const BUFFER_LEAST: u64 = 4 << 20;
/// A window of 4 MiB carries 400 Mb/s over 80 ms.
const WINDOW_LEAST: u64 = 4 << 20;
/// Ports that game servers listen on by default: Nakama's 7349 to 7351, Agones' 7000 to 8000.
const GAME_PORTS: (u64, u64) = (7_000, 8_000);

pub(super) fn checks(tree: &Tree) -> Vec<Finding> {
    vec![
        open_files(tree),
        open_files_of_all(tree),
        processes(tree),
        locked_memory(tree),
        Least {
            id: "listen-backlog",
            name: "net.core.somaxconn",
            least: BACKLOG_LEAST,
            set: BACKLOG_LEAST,
            why: "connections that wait to be accepted; beyond it the kernel drops the attempts, and \
                  players wait a second and more for the next try",
        }
        .check(tree, group),
        Least {
            id: "syn-backlog",
            name: "net.ipv4.tcp_max_syn_backlog",
            least: 1_024,
            set: 8_192,
            why: "handshakes under way at once when players come in a burst (after a restart, say)",
        }
        .check(tree, group),
        syn_cookies(tree),
        ports(tree),
        reserved_ports(tree),
        conntrack(tree),
        Least {
            id: "receive-buffer-max",
            name: "net.core.rmem_max",
            least: BUFFER_LEAST,
            set: BUFFER_LEAST,
            why: "the most that a socket may ask for; what UDP brings while the server is at a tick \
                  has to wait there, and is dropped beyond it",
        }
        .check(tree, bytes),
        Least {
            id: "send-buffer-max",
            name: "net.core.wmem_max",
            least: BUFFER_LEAST,
            set: BUFFER_LEAST,
            why: "the most that a socket may ask for; one tick's datagrams to all players leave at \
                  once",
        }
        .check(tree, bytes),
        tcp_buffers(tree),
    ]
}

/// A setting that is a number and should not be less than another.
struct Least {
    id: &'static str,
    name: &'static str,
    least: u64,
    /// What the cure sets.
    set: u64,
    why: &'static str,
}

impl Least {
    fn check(&self, tree: &Tree, write: fn(u64) -> String) -> Finding {
        let path = sysctl_path(self.name);
        let finding = Finding::of(self.id, Group::Limits, &*path, self.why);
        finding.over(tree.number(&path), ABSENT, |it, value| {
            it.warn_if(value < self.least, write(value))
                .cured_by(format!("sysctl -w {}={}", self.name, self.set))
                .with([Change { path: path.clone(), value: self.set.to_string() }])
        })
    }
}

const ABSENT: &str = "this kernel or network namespace has none";

fn limit(value: u64) -> String {
    // Linux writes no limit of files as 2^63 - 1.
    if value >= i64::MAX as u64 { "unlimited".to_owned() } else { group(value) }
}

fn open_files(tree: &Tree) -> Finding {
    let why = "a connection is a file; beyond the limit nobody can connect any more. throng raises the \
               soft limit to the hard one itself, other servers do not";
    let finding = Finding::of("open-files", Group::Limits, "/proc/self/limits", why);
    finding.over(facts::process_limit(tree, "Max open files"), ABSENT, |it, (soft, hard)| {
        it.warn_if(hard < FILES_LEAST, format!("{} soft, {} hard", limit(soft), limit(hard)))
            .cured_by(
                "ulimit -Hn 1048576; ulimit -n 1048576 # as root; of a service LimitNOFILE=1048576",
            )
    })
}

fn open_files_of_all(tree: &Tree) -> Finding {
    const PATH: &str = "/proc/sys/fs/file-nr";
    let why = "open files of the whole machine: dozens of game servers share them";
    let finding = Finding::of("open-files-machine", Group::Limits, PATH, why);
    let numbers = tree.text(PATH).and_then(|text| {
        let Some(text) = text else { return Ok(None) };
        let numbers: Vec<u64> = text.split_ascii_whitespace().flat_map(str::parse).collect();
        match *numbers {
            [open, _, most] => Ok(Some((open, most))),
            _ => Err(Unread::new(PATH, format!("`{text}` is not understood"))),
        }
    });
    finding.over(numbers, ABSENT, |it, (open, most)| {
        let set = 2_097_152.max(open.saturating_mul(4));
        let is_few = most < 4 * FILES_LEAST || open > most / 2;
        it.warn_if(is_few, format!("{} of {}", group(open), limit(most)))
            .cured_by(format!("sysctl -w fs.file-max={set}"))
            .with([Change { path: sysctl_path("fs.file-max"), value: set.to_string() }])
    })
}

fn processes(tree: &Tree) -> Finding {
    let why = "processes and threads that this user may have: every game server needs some";
    let groups = facts::groups(tree, "pids");
    let paths = groups.iter().map(|it| format!("{}/pids.max", it.folder));
    let tightest =
        paths.filter_map(|path| Some((tree.number(&path).ok()??, path))).min_by_key(|it| it.0);
    let own = facts::process_limit(tree, "Max processes");
    let (source, cure) = match (&own, &tightest) {
        (Ok(Some((soft, _))), Some((most, path))) if most < soft => {
            (path.clone(), format!("echo max > {path} # docker update --pids-limit -1 NAME"))
        }
        _ => (
            "/proc/self/limits".to_owned(),
            "ulimit -u unlimited # of a service TasksMax=infinity".to_owned(),
        ),
    };
    let finding = Finding::of("processes", Group::Limits, source, why);
    finding.over(own, ABSENT, |it, (soft, _)| {
        let most = tightest.map_or(soft, |it| it.0.min(soft));
        it.warn_if(most < PROCESSES_LEAST, limit(most)).cured_by(cure)
    })
}

fn locked_memory(tree: &Tree) -> Finding {
    let why = "memory that may not be swapped out: registered buffers of io_uring and AF_XDP count, \
               before Linux 5.12 every ring does";
    let finding = Finding::of("locked-memory", Group::Limits, "/proc/self/limits", why);
    finding.over(facts::process_limit(tree, "Max locked memory"), ABSENT, |it, (soft, _)| {
        let value = if soft == u64::MAX { limit(soft) } else { bytes(soft) };
        it.warn_if(soft < 8 << 20, value)
            .cured_by("ulimit -l unlimited # as root; of a service LimitMEMLOCK=infinity")
    })
}

fn syn_cookies(tree: &Tree) -> Finding {
    let path = sysctl_path("net.ipv4.tcp_syncookies");
    let why = "without them a flood of half-open handshakes keeps players out";
    let finding = Finding::of("syn-cookies", Group::Limits, &*path, why);
    finding.over(tree.number(&path), ABSENT, |it, value| {
        it.warn_if(value == 0, ["off", "on"].get(usize::from(value > 0)).copied().unwrap_or("on"))
            .cured_by("sysctl -w net.ipv4.tcp_syncookies=1")
            .with([Change { path: path.clone(), value: "1".to_owned() }])
    })
}

fn ports(tree: &Tree) -> Finding {
    let path = sysctl_path("net.ipv4.ip_local_port_range");
    let why = "outgoing connections to one address and port: a load generator, a proxy or a database \
               client has no more than these, and slows down from half of them on";
    let finding = Finding::of("local-ports", Group::Limits, &*path, why);
    finding.over(facts::local_ports(tree), ABSENT, |it, (first, last)| {
        let count = last - first + 1;
        it.warn_if(count < PORTS_LEAST, format!("{first}–{last} ({} ports)", group(count)))
            .cured_by("sysctl -w net.ipv4.ip_local_port_range=\"10240 65535\"")
            .with([Change { path: path.clone(), value: "10240 65535".to_owned() }])
    })
}

fn reserved_ports(tree: &Tree) -> Finding {
    let path = sysctl_path("net.ipv4.ip_local_reserved_ports");
    let why = "an outgoing connection may sit on the port that a game server wants (Nakama's 7349 to \
               7351, Agones' 7000 to 8000), which then does not start";
    let finding = Finding::of("reserved-ports", Group::Limits, &*path, why);
    let read: Read<((u64, u64), String)> =
        facts::local_ports(tree).and_then(|ports| Ok(ports.zip(tree.text(&path)?)));
    let (first_game, last_game) = GAME_PORTS;
    finding.over(read, ABSENT, |it, ((first, last), reserved)| {
        if first > last_game || last < first_game {
            return it.ok(format!("outgoing connections begin at {first}, above them"));
        }
        let wanted = first_game.max(first)..=last_game.min(last);
        let is_reserved = |port: u64| {
            reserved.split(',').filter(|range| !range.is_empty()).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let bound = |text: &str| text.trim().parse::<u64>().ok();
                bound(first)
                    .zip(bound(last))
                    .is_some_and(|(first, last)| (first..=last).contains(&port))
            })
        };
        let all = wanted.clone().all(is_reserved);
        let set = if reserved.is_empty() {
            format!("{first_game}-{last_game}")
        } else {
            format!("{reserved},{first_game}-{last_game}")
        };
        let value = match (all, &*reserved) {
            (true, reserved) => format!("{reserved} are kept free"),
            (false, "") => {
                format!("{first}–{last} are for outgoing connections, and none is kept free")
            }
            (false, some) => format!("only {some} are kept free"),
        };
        it.warn_if(!all, value)
            .cured_by(format!("sysctl -w net.ipv4.ip_local_reserved_ports={set}"))
            .with([Change { path: path.clone(), value: set }])
    })
}

fn conntrack(tree: &Tree) -> Finding {
    const NAME: &str = "net.netfilter.nf_conntrack_max";
    let path = sysctl_path(NAME);
    let why = "connections that the firewall or NAT follows, datagrams of each player's address \
               included; beyond it new players' packets are dropped (\"nf_conntrack: table full\")";
    let finding = Finding::of("conntrack", Group::Limits, &*path, why);
    let count = tree.number(&sysctl_path("net.netfilter.nf_conntrack_count"));
    finding.over(tree.number(&path), "connections are not tracked here", |it, most| {
        let count = count.ok().flatten().unwrap_or(0);
        let set = 262_144.max(count.saturating_mul(4));
        it.warn_if(
            most < CONNECTIONS_LEAST || count > most / 2,
            format!("{} of {}", group(count), group(most)),
        )
        .cured_by(format!("sysctl -w {NAME}={set}"))
        .with([Change { path: path.clone(), value: set.to_string() }])
    })
}

fn tcp_buffers(tree: &Tree) -> Finding {
    let why = "how much may be on its way on one connection; what is less than rate × round trip \
               slows far players' downloads and replays";
    let paths = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].map(sysctl_path);
    let finding = Finding::of("tcp-buffers", Group::Limits, paths.join(", "), why);
    let most = |path: &String| -> Read<(String, u64)> {
        let Some(text) = tree.text(path)? else { return Ok(None) };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        match *words {
            [least, usual, most] => {
                let number = most.parse().map_err(|_| Unread::new(path, "no number"))?;
                Ok(Some((format!("{least} {usual}"), number)))
            }
            _ => Err(Unread::new(path, format!("`{text}` is not understood"))),
        }
    };
    let both = most(&paths[0]).and_then(|one| Ok(one.zip(most(&paths[1])?)));
    let scaling = tree.number(&sysctl_path("net.ipv4.tcp_window_scaling"));
    finding.over(both, ABSENT, |it, ((receive, r), (send, s))| {
        if scaling == Ok(Some(0)) {
            return it
                .warn("windows are not scaled: 64 KiB at most")
                .cured_by("sysctl -w net.ipv4.tcp_window_scaling=1")
                .with([Change {
                    path: sysctl_path("net.ipv4.tcp_window_scaling"),
                    value: "1".to_owned(),
                }]);
        }
        let set = [(&paths[0], receive, r), (&paths[1], send, s)]
            .map(|(path, rest, most)| (path, format!("{rest} {}", most.max(6_291_456))));
        let [receive, send] = &set;
        let value = format!("{} to receive, {} to send", bytes(r), bytes(s));
        it.warn_if(float(r.min(s)) < float(WINDOW_LEAST), value)
            .cured_by(format!(
                "sysctl -w net.ipv4.tcp_rmem=\"{}\" net.ipv4.tcp_wmem=\"{}\"",
                receive.1, send.1
            ))
            .with(set.map(|(path, value)| Change { path: path.clone(), value }))
    })
}
