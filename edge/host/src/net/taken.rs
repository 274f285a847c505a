//! Which addresses the machine uses already: those of its interfaces, up or not, and what it has routes to.
//! Servers that had the same would be reached by nobody, or others behind a route no more.
//!
//! In: what `ip -4 -o address show` says, and `/proc/net/route`. Out: whose addresses a subnet overlaps, and
//! one of the same size that overlaps none. Not here: routes of other tables than the main one; routes of
//! fewer than eight bits, which lead to everywhere; IPv6. Source: ip-address(8), proc_pid_net(5), route(8).

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use crate::fleet::Subnet;

/// Routes and addresses that are looked at.
const TAKEN_MAX: usize = 100_000;
/// Subnets that are tried in each of the private ranges.
const TRIES_MAX: u32 = 4_096;
/// Routes and addresses of fewer bits stand for the way to everywhere, in one piece or in two.
const BITS_LEAST: u8 = 8;
/// A route that refuses. Source: route(8), flag `!`; the kernel's include/uapi/linux/route.h, `RTF_REJECT`.
const REJECTS: u32 = 0x200;
/// Source: RFC 1918.
const PRIVATE: [Subnet; 3] = [
    Subnet { first: Ipv4Addr::new(10, 0, 0, 0), bits: 8 },
    Subnet { first: Ipv4Addr::new(172, 16, 0, 0), bits: 12 },
    Subnet { first: Ipv4Addr::new(192, 168, 0, 0), bits: 16 },
];

/// Addresses that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(super) interface: String,
    /// An address with the bits of its network; of a route the network.
    pub(super) subnet: Subnet,
    pub(super) is_route: bool,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_route { "a route to" } else { "the address" };
        write!(f, "interface {} has {what} {}", self.interface, self.subnet)
    }
}

/// All that this machine uses, with this thread's network.
pub(super) fn here() -> Vec<Taken> {
    let mut all = Vec::new();
    let output =
        Command::new("ip").args(["-4", "-o", "address", "show"]).stdin(Stdio::null()).output();
    // Without `ip` there is no server's network either, and who makes it says so.
    if let Ok(output) = output {
        let text = String::from_utf8_lossy(&output.stdout);
        all.extend(text.lines().flat_map(addresses).take(TAKEN_MAX));
    }
    if let Ok(file) = std::fs::File::open("/proc/net/route") {
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        all.extend(lines.skip(1).filter_map(|line| route(&line)).take(TAKEN_MAX));
    }
    all
}

/// Of a line such as `2: eth0    inet 192.0.2.2/24 brd 192.0.2.255 scope global eth0`; between two ends
/// `7: tun0    inet 10.8.0.2 peer 10.8.0.1/32 scope global tun0`.
fn addresses(line: &str) -> Vec<Taken> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, interface, "inet", rest @ ..] = &*words else { return Vec::new() };
    let read = |word: &&str| {
        let (first, bits) = word.split_once('/').unwrap_or((word, "32"));
        let subnet = Subnet { first: first.parse().ok()?, bits: bits.parse().ok()? };
        (BITS_LEAST..=32).contains(&subnet.bits).then(|| Taken {
            interface: (*interface).to_owned(),
            subnet,
            is_route: false,
        })
    };
    let peer = rest.get(2).filter(|_| rest.get(1) == Some(&"peer"));
    rest.first().into_iter().chain(peer).filter_map(read).collect()
}

/// Of a line of `/proc/net/route`, whose numbers are in the network's order of bytes.
fn route(line: &str) -> Option<Taken> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [interface, to, _, flags, _, _, _, mask, ..] = &*words else { return None };
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let bits = u8::try_from(u32::from_be(number(mask)?).leading_ones()).ok()?;
    if bits < BITS_LEAST || number(flags)? & REJECTS != 0 {
        return None;
    }
    let first = Ipv4Addr::from_bits(u32::from_be(number(to)?));
    let subnet = Subnet { first, bits };
    Some(Taken { interface: (*interface).to_owned(), subnet, is_route: true })
}

/// A subnet of the same size, in the same range if there is room, that overlaps nothing.
pub(super) fn free(wanted: Subnet, taken: &[Taken]) -> Option<Subnet> {
    let is_free = |it: &Subnet| !taken.iter().any(|taken| it.overlaps(taken.subnet));
    let (own, others): (Vec<Subnet>, Vec<Subnet>) =
        PRIVATE.into_iter().partition(|range| range.holds(wanted.first));
    let mut ranges = own.into_iter().chain(others).filter(|range| range.bits <= wanted.bits);
    ranges.find_map(|range| {
        let count = 1_u32 << (wanted.bits - range.bits);
        let bits = 32 - u32::from(wanted.bits);
        let begin = if range.holds(wanted.first) {
            (wanted.first.to_bits() - range.first.to_bits()) >> bits
        } else {
            0
        };
        let at = |step: u32| range.first.to_bits() + (((begin + step) % count) << bits);
        let all = (0..count.min(TRIES_MAX)).map(at);
        all.map(|first| Subnet { first: first.into(), bits: wanted.bits }).find(is_free)
    })
}

#[cfg(test)]
mod tests {
    use super::{Subnet, Taken, addresses, free, route};

    fn net(text: &str) -> Subnet {
        let (first, bits) = text.split_once('/').unwrap();
        Subnet { first: first.parse().unwrap(), bits: bits.parse().unwrap() }
    }

    fn taken(text: &str) -> Taken {
        Taken { interface: "x".to_owned(), subnet: net(text), is_route: true }
    }

    #[test]
    fn addresses_and_routes_are_read() {
        let read = |line: &str| {
            addresses(line).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(
            read("2: eth0    inet 192.0.2.2/24 brd 192.0.2.255 scope global eth0\\  valid_lft"),
            "interface eth0 has the address 192.0.2.2/24"
        );
        assert_eq!(
            read("7: tun0    inet 10.8.0.2 peer 10.8.0.1/32 scope global tun0"),
            "interface tun0 has the address 10.8.0.2/32; interface tun0 has the address 10.8.0.1/32"
        );
        for line in [
            "",
            "2: eth0    inet6 fe80::1/64",
            "2: eth0 inet x/24",
            "2: eth0 inet 1.2.3.4/99",
            "2: eth0 inet 1.2.3.4/0",
        ] {
            assert_eq!(read(line), "", "{line}");
        }
        // As a machine of either order of bytes writes it.
        let hex = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
        let line = |to, flags: &str, mask| {
            format!("wg0\t{}\t00000000\t{flags}\t0\t0\t0\t{}\t0\t0\t0", hex(to), hex(mask))
        };
        let found = route(&line([10, 208, 0, 0], "0001", [255, 240, 0, 0])).unwrap();
        assert_eq!(found.to_string(), "interface wg0 has a route to 10.208.0.0/12");
        // To everywhere, in one piece and in two; and one that refuses.
        assert_eq!(route(&line([0; 4], "0003", [0; 4])), None);
        assert_eq!(route(&line([128, 0, 0, 0], "0003", [128, 0, 0, 0])), None);
        assert_eq!(route(&line([10, 0, 0, 0], "0201", [255, 0, 0, 0])), None);
        assert_eq!(route("Iface"), None);
    }

    #[test]
    fn a_free_subnet_overlaps_nothing() {
        let of = |wanted: &str, all: &[&str]| {
            let all: Vec<Taken> = all.iter().map(|it| taken(it)).collect();
            free(net(wanted), &all).map(|it| it.to_string())
        };
        assert_eq!(of("10.213.0.0/16", &["10.213.5.1/24"]).unwrap(), "10.214.0.0/16");
        // Round the end, over what lies there.
        let high = ["10.254.0.0/15", "10.0.0.0/16", "10.1.255.1/32"];
        assert_eq!(of("10.255.0.0/16", &high).unwrap(), "10.2.0.0/16");
        assert_eq!(of("10.213.0.0/16", &["10.0.0.0/8"]).unwrap(), "172.16.0.0/16");
        assert_eq!(of("198.51.100.0/24", &["198.51.100.1/32"]).unwrap(), "10.0.0.0/24");
        assert_eq!(of("10.0.0.0/8", &["10.0.0.1/32"]), None);
        let all = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];
        assert_eq!(of("10.1.2.0/29", &all), None);
    }
}
