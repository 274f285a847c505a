//! Both ends of a path, and what is between them. All but loopback are three network namespaces: the
//! players' machine, the machine that hosts, and the server's own.
//!
//! ```text
//! loopback      players ── lo ── server
//! wire          players ── veth ── machine, where the server is
//! macvlan       players ── veth ── machine: macvlan ── server
//! bridge        players ── veth ── machine: bridge ── veth ── server
//! translation   players ── veth ── machine: NAT, routing ── veth ── server
//! ```
//!
//! By `ip` of iproute2, and `nft` or `iptables` for the translation. Addresses are those for examples
//! (RFC 5737). Source: veth(4), ip-link(8), nft(8), iptables-extensions(8).

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use engine::{Namespace, ip};
use serde::{Deserialize, Serialize};

const PLAYERS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const MACHINE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// Behind a translation.
const ROUTER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const INSIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

/// A way from players to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// The same host.
    Loopback,
    /// A cable to the machine, no walls: what the others are compared with.
    Wire,
    /// A server with a network of its own beside the machine's interface.
    Macvlan,
    /// One behind a bridge of the machine's.
    Bridge,
    /// One behind the machine's address translation.
    Translation,
}

impl Path {
    /// All.
    pub const ALL: [Self; 5] =
        [Self::Loopback, Self::Wire, Self::Macvlan, Self::Bridge, Self::Translation];

    /// As it is typed and told.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Wire => "wire",
            Self::Macvlan => "macvlan",
            Self::Bridge => "bridge",
            Self::Translation => "translation",
        }
    }
}

/// A path that has been made, and goes when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    /// Where players are; where this process is if there is none.
    players: Option<Namespace>,
    server: Option<Namespace>,
    /// Between them; held so that it stays.
    _machine: Option<Namespace>,
    /// What the server binds, and what players call.
    pub(super) binds: Ipv4Addr,
    pub(super) calls: Ipv4Addr,
}

impl Place {
    /// Makes it, or says why it cannot be.
    pub(super) fn new(path: Path) -> Result<Self, String> {
        let failed = |error: engine::NamespaceError| error.to_string();
        if path == Path::Loopback {
            let (binds, calls) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
            return Ok(Self { players: None, server: None, _machine: None, binds, calls });
        }
        let tool = (path == Path::Translation).then(Tool::here).transpose()?;
        let (players, machine) = (Namespace::new(), Namespace::new());
        let (players, machine) = (players.map_err(failed)?, machine.map_err(failed)?);
        let there = machine.path();
        set(
            &players,
            &format!(
                "link add eth0 type veth peer name wire0 netns {there}\n\
             address add {PLAYERS}/24 dev eth0\nlink set eth0 up\n"
            ),
        )?;
        set(&machine, "link set wire0 up\n")?;
        let own = format!("address add {MACHINE}/24 dev eth0\nlink set eth0 up\n");
        if path == Path::Wire {
            set(&machine, &own.replace("eth0", "wire0"))?;
            let server = Some(machine);
            let players = Some(players);
            return Ok(Self { players, server, _machine: None, binds: MACHINE, calls: MACHINE });
        }
        let server = Namespace::new().map_err(failed)?;
        let there = server.path();
        match path {
            Path::Macvlan => {
                set(
                    &machine,
                    &format!(
                        "link add link wire0 name eth0 netns {there} type macvlan mode bridge\n"
                    ),
                )?;
                set(&server, &own)?;
            }
            Path::Bridge => {
                set(
                    &machine,
                    &format!(
                        "link add br0 type bridge\nlink add port0 type veth peer name eth0 netns {there}\n\
                     link set wire0 master br0\nlink set port0 master br0 up\nlink set br0 up\n"
                    ),
                )?;
                set(&server, &own)?;
            }
            Path::Translation => translation(&machine, &server, tool)?,
            Path::Loopback | Path::Wire => {}
        }
        let binds = if path == Path::Translation { INSIDE } else { MACHINE };
        let (players, server, machine) = (Some(players), Some(server), Some(machine));
        Ok(Self { players, server, _machine: machine, binds, calls: MACHINE })
    }

    /// Moves the calling thread, and what it starts, to the players' end.
    pub(super) fn enter_players(&self) -> Result<(), String> {
        enter(self.players.as_ref())
    }

    /// To the server's.
    pub(super) fn enter_server(&self) -> Result<(), String> {
        enter(self.server.as_ref())
    }
}

/// Routes between the machine's interface and a network behind it, with the server in that.
fn translation(machine: &Namespace, server: &Namespace, tool: Option<Tool>) -> Result<(), String> {
    let failed = |error: engine::NamespaceError| error.to_string();
    let there = server.path();
    set(
        machine,
        &format!(
            "address add {MACHINE}/24 dev wire0\n\
             link add port0 type veth peer name eth0 netns {there}\n\
             address add {ROUTER}/24 dev port0\nlink set port0 up\n"
        ),
    )?;
    set(
        server,
        &format!(
            "address add {INSIDE}/24 dev eth0\nlink set eth0 up\n\
             route add default via {ROUTER}\n"
        ),
    )?;
    let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
    let done = machine.within(forward).map_err(failed)?;
    done.map_err(|error| format!("net.ipv4.ip_forward: {error}"))?;
    match tool {
        Some(tool) => machine.within(|| tool.translate()).map_err(failed)?,
        None => Ok(()),
    }
}

fn enter(namespace: Option<&Namespace>) -> Result<(), String> {
    namespace.map_or(Ok(()), |it| it.enter().map_err(|error| error.to_string()))
}

fn set(namespace: &Namespace, lines: &str) -> Result<(), String> {
    let failed = |error: engine::NamespaceError| error.to_string();
    namespace.within(|| ip(lines)).map_err(failed)?.map_err(failed)
}

/// What sets up a translation.
#[derive(Clone, Copy, Debug)]
enum Tool {
    Nft,
    Iptables,
}

impl Tool {
    fn here() -> Result<Self, String> {
        let is_there = |name: &str| {
            let called = Command::new(name).arg("--version").stdin(Stdio::null()).output();
            called.is_ok_and(|it| it.status.success())
        };
        match (is_there("nft"), is_there("iptables")) {
            (true, _) => Ok(Self::Nft),
            (false, true) => Ok(Self::Iptables),
            (false, false) => {
                Err("takes nft or iptables, and neither is here: apt-get install nftables"
                    .to_owned())
            }
        }
    }

    /// In the calling thread's namespace: what comes for the machine goes to the server.
    fn translate(self) -> Result<(), String> {
        let (name, args, input) = match self {
            Self::Nft => (
                "nft",
                vec!["-f".to_owned(), "-".to_owned()],
                format!(
                    "table ip throng {{\nchain in {{\ntype nat hook prerouting priority -100\n\
                     ip daddr {MACHINE} dnat to {INSIDE}\n}}\n}}\n"
                ),
            ),
            Self::Iptables => {
                let line =
                    format!("-t nat -A PREROUTING -d {MACHINE} -j DNAT --to-destination {INSIDE}");
                ("iptables", line.split(' ').map(str::to_owned).collect(), String::new())
            }
        };
        let failed = |what: String| format!("{name}: {what}");
        let mut child = Command::new(name)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // If it has ended, its exit tells why.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}
