//! Which addresses may be connected to: those of the public internet, and the networks that
//! `fetch.networks` names.
//!
//! In: an address that a name was resolved to, or that stands in a URL. Out: a permission, or what
//! kind of address it is. It is asked for the very address that is then connected to, so that a name
//! which changes its mind in between (DNS rebinding) wins nothing.
//!
//! Of IPv6 only what is given out as global unicast (2000::/3) may be public: addresses that carry
//! one of IPv4, for translators and tunnels, lead wherever that one does, so that none of them is.
//!
//! Source: IANA's registries of special-purpose addresses (RFC 6890 and updates, as of 2025), and the
//! addresses under which clouds tell machines their secrets.

use std::net::{IpAddr, UdpSocket};

use event::Network;

/// Networks of IPv4 that are not public, and what they are; the first that holds an address tells.
const V4: &[(&str, &str)] = &[
    ("168.63.129.16/32", "a cloud's metadata address"),
    ("100.100.100.200/32", "a cloud's metadata address"),
    ("169.254.169.254/32", "a cloud's metadata address"),
    ("192.0.0.192/32", "a cloud's metadata address"),
    ("0.0.0.0/8", "an unspecified address"),
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "an address of a provider's own network"),
    ("127.0.0.0/8", "a loopback address"),
    ("169.254.0.0/16", "a link-local address"),
    ("172.16.0.0/12", "a private address"),
    ("192.0.0.0/24", "a reserved address"),
    ("192.0.2.0/24", "an address for documentation"),
    ("192.88.99.0/24", "a reserved address"),
    ("192.168.0.0/16", "a private address"),
    ("198.18.0.0/15", "an address for benchmarks"),
    ("198.51.100.0/24", "an address for documentation"),
    ("203.0.113.0/24", "an address for documentation"),
    ("224.0.0.0/4", "a multicast address"),
    ("255.255.255.255/32", "a broadcast address"),
    ("240.0.0.0/4", "a reserved address"),
];

/// The same of IPv6.
const V6: &[(&str, &str)] = &[
    ("fd00:ec2::254/128", "a cloud's metadata address"),
    ("::/128", "an unspecified address"),
    ("::1/128", "a loopback address"),
    ("64:ff9b::/96", CARRIER),
    ("64:ff9b:1::/48", CARRIER),
    ("2001::/32", CARRIER),
    ("2001::/23", "a reserved address"),
    ("2001:db8::/32", "an address for documentation"),
    ("2002::/16", CARRIER),
    ("3fff::/20", "an address for documentation"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a private address"),
    ("ff00::/8", "a multicast address"),
];

/// What carries an address of IPv4.
const CARRIER: &str = "an IPv4 address in the form of IPv6";

/// All of IPv6 that is given out.
const GLOBAL: &str = "2000::/3";

type Kinds = Vec<(Network, &'static str)>;

/// Who may be connected to.
#[derive(Debug)]
pub(crate) struct Addresses {
    v4: Kinds,
    v6: Kinds,
    global: Option<Network>,
    /// What may be reached although it is not public.
    allowed: Vec<Network>,
}

impl Addresses {
    pub(crate) fn new(allowed: Vec<Network>) -> Self {
        let kinds = |table: &[(&str, &'static str)]| {
            let rows = table.iter();
            rows.filter_map(|(text, what)| Some((Network::parse(text)?, *what))).collect()
        };
        Self { v4: kinds(V4), v6: kinds(V6), global: Network::parse(GLOBAL), allowed }
    }

    /// What keeps the address from being connected to; `None` if nothing does.
    pub(crate) fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        if self.allowed.iter().any(|network| network.contains(address)) {
            return None;
        }
        self.kind(address).or_else(|| is_own(address).then_some("an address of this machine"))
    }

    /// What kind of address it is; `None` for a public one.
    fn kind(&self, address: IpAddr) -> Option<&'static str> {
        let of = |kinds: &Kinds| {
            kinds.iter().find(|(network, _)| network.contains(address)).map(|(_, what)| *what)
        };
        match address {
            IpAddr::V4(_) => of(&self.v4),
            // Rows of IPv4 hold this form, too.
            IpAddr::V6(it) if it.to_ipv4_mapped().is_some() => of(&self.v4).or(Some(CARRIER)),
            IpAddr::V6(_) => of(&self.v6).or_else(|| {
                let is_global = self.global.is_some_and(|global| global.contains(address));
                (!is_global).then_some("a reserved address")
            }),
        }
    }
}

/// Whether the machine has the address itself: then it would talk to its own services, behind
/// whatever keeps others from them. The kernel is asked by which address it would be reached, which
/// sends nothing.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let route = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    // Without a way there nothing is connected to either.
    route.is_ok_and(|from| from.ip() == address)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use event::Network;

    use super::{Addresses, GLOBAL, V4, V6};

    #[test]
    fn every_row_is_a_network() {
        let rows = V4.iter().chain(V6).map(|(text, _)| *text).chain([GLOBAL]);
        for row in rows {
            assert!(Network::parse(row).is_some(), "{row}");
        }
    }

    /// Addresses, and what they are; public ones are nothing.
    const ADDRESSES: &[(&str, &str)] = &[
        // Public.
        ("1.1.1.1", ""),
        ("8.8.8.8", ""),
        ("9.255.255.255", ""),
        ("11.0.0.0", ""),
        ("100.63.255.255", ""),
        ("100.128.0.0", ""),
        ("126.255.255.255", ""),
        ("128.0.0.0", ""),
        ("169.253.255.255", ""),
        ("172.15.255.255", ""),
        ("172.32.0.0", ""),
        ("192.167.255.255", ""),
        ("198.17.255.255", ""),
        ("198.20.0.0", ""),
        ("223.255.255.255", ""),
        ("2001:200::1", ""),
        ("2606:4700::1111", ""),
        ("2a00:1450:4001::1", ""),
        // Not.
        ("0.0.0.0", "an unspecified address"),
        ("0.1.2.3", "an unspecified address"),
        ("10.0.0.1", "a private address"),
        ("10.255.255.255", "a private address"),
        ("100.64.0.1", "an address of a provider's own network"),
        ("100.100.100.200", "a cloud's metadata address"),
        ("100.127.255.255", "an address of a provider's own network"),
        ("127.0.0.1", "a loopback address"),
        ("127.255.255.254", "a loopback address"),
        ("168.63.129.16", "a cloud's metadata address"),
        ("169.254.0.1", "a link-local address"),
        ("169.254.169.254", "a cloud's metadata address"),
        ("172.16.0.1", "a private address"),
        ("172.31.255.255", "a private address"),
        ("192.0.0.1", "a reserved address"),
        ("192.0.0.192", "a cloud's metadata address"),
        ("192.0.2.1", "an address for documentation"),
        ("192.88.99.1", "a reserved address"),
        ("192.168.255.255", "a private address"),
        ("198.18.0.1", "an address for benchmarks"),
        ("198.19.255.255", "an address for benchmarks"),
        ("198.51.100.1", "an address for documentation"),
        ("203.0.113.1", "an address for documentation"),
        ("224.0.0.1", "a multicast address"),
        ("239.255.255.255", "a multicast address"),
        ("240.0.0.1", "a reserved address"),
        ("255.255.255.255", "a broadcast address"),
        ("::", "an unspecified address"),
        ("::1", "a loopback address"),
        ("::2", "a reserved address"),
        ("::127.0.0.1", "a reserved address"),
        ("::ffff:127.0.0.1", "a loopback address"),
        ("::ffff:10.1.2.3", "a private address"),
        ("::ffff:169.254.169.254", "a cloud's metadata address"),
        ("::ffff:8.8.8.8", "an IPv4 address in the form of IPv6"),
        ("64:ff9b::7f00:1", "an IPv4 address in the form of IPv6"),
        ("64:ff9b::808:808", "an IPv4 address in the form of IPv6"),
        ("64:ff9b:1::1", "an IPv4 address in the form of IPv6"),
        ("100::1", "a reserved address"),
        ("2001::1", "an IPv4 address in the form of IPv6"),
        ("2001:20::1", "a reserved address"),
        ("2001:db8::1", "an address for documentation"),
        ("2002:7f00:1::", "an IPv4 address in the form of IPv6"),
        ("3fff::1", "an address for documentation"),
        ("4000::1", "a reserved address"),
        ("5f00::1", "a reserved address"),
        ("fc00::1", "a private address"),
        ("fd00:ec2::254", "a cloud's metadata address"),
        ("fdff::1", "a private address"),
        ("fe80::1", "a link-local address"),
        ("fec0::1", "a private address"),
        ("ff02::1", "a multicast address"),
    ];

    #[test]
    fn only_public_addresses_are_public() {
        let addresses = Addresses::new(Vec::new());
        for (address, wanted) in ADDRESSES {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(addresses.kind(address).unwrap_or_default(), *wanted, "{address}");
        }
    }

    #[test]
    fn named_networks_may_be_reached_and_no_others() {
        let networks = ["127.0.0.1/32", "fd00::/8"].iter().filter_map(|text| Network::parse(text));
        let addresses = Addresses::new(networks.collect());
        for (address, wanted) in [
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("127.0.0.2", false),
            ("::1", false),
            ("fd12::1", true),
            ("fe80::1", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(addresses.refusal(address).is_none(), wanted, "{address}");
        }
    }
}
