//! Frames as the interface brings them: Ethernet, IPv4 without options, UDP; what is in them, and
//! nothing that does not fit together.
//!
//! Checksums are not looked at: between two ends on one machine they are not computed, and a network
//! card has checked them.
//!
//! Source: RFC 894, RFC 791, RFC 768.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use super::super::Datagram;
use super::super::address::part;

/// Where the parts of such a frame begin.
pub(super) const ETHERTYPE: usize = 12;
pub(super) const IP: usize = 14;
pub(super) const FRAGMENT: usize = IP + 6;
pub(super) const PROTOCOL: usize = IP + 9;
pub(super) const IP_TO: usize = IP + 16;
pub(super) const UDP: usize = IP + 20;
pub(super) const PORT_TO: usize = UDP + 2;
pub(super) const DATA: usize = UDP + 8;
/// Likewise, as a number of the program's.
pub(super) const DATA_BYTES: i32 = 14 + 20 + 8;

const IP_TOS: usize = IP + 1;
const IP_BYTES: usize = IP + 2;
pub(super) const IP_FROM: usize = IP + 12;
const UDP_BYTES: usize = UDP + 4;

/// The datagram in a frame that the program at the interface has let through.
#[inline]
pub(super) fn read(frame: &[u8]) -> Option<Datagram<'_>> {
    let from = Ipv4Addr::from(part::<4>(frame, IP_FROM)?);
    let port = u16::from_be_bytes(part(frame, UDP)?);
    let bytes = usize::from(u16::from_be_bytes(part(frame, UDP_BYTES)?));
    let end = UDP.checked_add(bytes)?;
    // What fills a short frame up belongs to no packet, whatever the datagram says of its length.
    if end > IP + usize::from(u16::from_be_bytes(part(frame, IP_BYTES)?)) {
        return None;
    }
    let bytes = frame.get(DATA..end)?;
    let ecn = frame.get(IP_TOS).map(|tos| tos & 3);
    Some(Datagram { bytes, from: SocketAddr::V4(SocketAddrV4::new(from, port)), ecn })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame with `data` from 192.0.2.1:1000 to 192.0.2.2:2000.
    pub(in super::super) fn frame(data: &[u8]) -> Vec<u8> {
        let udp_bytes = u16::try_from(8 + data.len()).unwrap();
        let mut frame = vec![0; ETHERTYPE];
        frame.extend([8, 0, 0x45, 0b10]);
        frame.extend((20 + udp_bytes).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend(1_000_u16.to_be_bytes());
        frame.extend(2_000_u16.to_be_bytes());
        frame.extend(udp_bytes.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(data);
        frame
    }

    #[test]
    fn what_a_frame_carries_is_found_without_what_fills_it_up() {
        for data in [&b""[..], b"a", &[7; 1_472]] {
            let mut frame = frame(data);
            let from = "192.0.2.1:1000".parse().unwrap();
            let wanted = Some(Datagram { bytes: data, from, ecn: Some(2) });
            assert_eq!(read(&frame), wanted);
            frame.extend([0; 18]);
            assert_eq!(read(&frame), wanted);
        }
    }

    #[test]
    fn frames_that_do_not_fit_together_carry_nothing() {
        let whole = frame(b"abc");
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), None, "{cut}");
        }
        for bytes in [0_u16, 7, 12, u16::MAX] {
            let mut odd = whole.clone();
            odd[UDP_BYTES..UDP_BYTES + 2].copy_from_slice(&bytes.to_be_bytes());
            assert_eq!(read(&odd), None, "{bytes}");
        }
        // A datagram that says it is longer than its packet, in a frame that was filled up.
        let mut long = whole.clone();
        long[UDP_BYTES..UDP_BYTES + 2].copy_from_slice(&12_u16.to_be_bytes());
        long.extend([0; 18]);
        assert_eq!(read(&long), None);
    }
}
