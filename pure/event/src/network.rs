//! Networks: an address with a prefix length, as RFC 4632 and RFC 4291 write them.

use std::net::{IpAddr, Ipv6Addr};

use crate::address_bits;

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Any address of it, in its IPv6 form.
    bits: u128,
    /// Bits that its addresses have in common, 0–128, of the IPv6 form.
    prefix: u32,
}

impl Network {
    /// Reads `10.0.0.0/8`, `fd00::/8`, or one address. `None` if it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (own_bits, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let prefix = prefix.unwrap_or(own_bits);
        if prefix > own_bits {
            return None;
        }
        Some(Self { bits: address_bits(address), prefix: prefix + offset })
    }

    /// Whether the address belongs to it. An IPv4 address is the same in its IPv6 form.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let differing = self.bits ^ address_bits(address);
        self.prefix == 0 || differing.leading_zeros() >= self.prefix
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from_bits(self.bits), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn networks_hold_their_addresses() {
        for (network, address, holds) in [
            ("127.0.0.0/8", "127.9.9.9", true),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("127.0.0.0/8", "128.0.0.1", false),
            ("::1", "::1", true),
            ("::1", "::2", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "9.9.9.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "9.9.9.9", true),
            ("2001:db8::/32", "2001:db8:ffff::", true),
        ] {
            let network = Network::parse(network).unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), holds, "{network} {address}");
        }
        for bad in ["", "localhost", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn networks_are_told_in_their_ipv6_form() {
        assert_eq!(Network::parse("10.0.0.0/8").unwrap().to_string(), "::ffff:10.0.0.0/104");
    }
}
