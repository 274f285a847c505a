//! Addresses in the kernel's form.
//!
//! Source: ip(7), ipv6(7).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for an address of either family.
pub(super) const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// A size as the kernel takes it.
pub(super) fn length(bytes: usize) -> libc::socklen_t {
    // What is told is a structure or a buffer of ours.
    libc::socklen_t::try_from(bytes).unwrap_or(libc::socklen_t::MAX)
}

/// Reads a `sockaddr_in` or `sockaddr_in6`; none for anything else.
#[inline]
pub(super) fn read(name: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*name.first_chunk()?);
    let port = u16::from_be_bytes(part(name, 2)?);
    match i32::from(family) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(part::<4>(name, 4)?);
            Some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
        }
        libc::AF_INET6 => {
            let flow = u32::from_be_bytes(part(name, 4)?);
            let ip = Ipv6Addr::from(part::<16>(name, 8)?);
            let scope = u32::from_ne_bytes(part(name, 24)?);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
        }
        _ => None,
    }
}

/// So many bytes from an offset.
#[inline]
pub(super) fn part<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::read;

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        for text in ["192.0.2.7:9500", "[2001:db8::1]:1", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let made = socket2::SockAddr::from(address);
            // The same bytes, put together from the parts of ip(7) and ipv6(7).
            let mut name = made.family().to_ne_bytes().to_vec();
            name.extend(address.port().to_be_bytes());
            match address {
                SocketAddr::V4(it) => {
                    name.extend(it.ip().octets());
                    name.extend([0; 8]);
                }
                SocketAddr::V6(it) => {
                    name.extend(it.flowinfo().to_be_bytes());
                    name.extend(it.ip().octets());
                    name.extend(it.scope_id().to_ne_bytes());
                }
            }
            assert_eq!(name.len(), made.len() as usize);
            assert_eq!(read(&name), Some(address));
            let shortest = if address.is_ipv4() { 8 } else { 28 };
            for cut in 0..shortest {
                assert_eq!(read(&name[..cut]), None, "{text} cut at {cut}");
            }
        }
        assert_eq!(read(&[1, 0, b'/', b'a', 0, 0, 0, 0]), None, "a Unix socket has no port");
    }
}
