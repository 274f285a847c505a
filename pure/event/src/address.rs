//! Addresses as numbers, and what counts as one client among them, for every limit of an address.

use std::net::IpAddr;

/// An address in its IPv6 form; one of IPv4 is the same as the IPv6 address that stands for it
/// (RFC 4291 section 2.5.5.2).
#[must_use]
pub fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// What counts as one client among addresses: an IPv4 address, or the first 64 bits of an IPv6
/// address, which is what one subscriber is given (RFC 6177). The loopback address `::1` is 0.
#[must_use]
pub fn client_bits(address: IpAddr) -> u128 {
    const HOST_BITS: u128 = u64::MAX as u128;
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => address.to_bits() & !HOST_BITS,
        address => address_bits(address),
    }
}

#[cfg(test)]
mod tests {
    use super::client_bits;

    #[test]
    fn one_subscriber_is_one_client() {
        let bits = |text: &str| client_bits(text.parse().unwrap());
        assert_eq!(bits("2001:db8::1"), bits("2001:db8::ffff:ffff:ffff:ffff"));
        assert_ne!(bits("2001:db8::1"), bits("2001:db8:0:1::1"));
        assert_ne!(bits("10.0.0.1"), bits("10.0.0.2"));
        assert_eq!(bits("10.0.0.1"), bits("::ffff:10.0.0.1"));
    }
}
