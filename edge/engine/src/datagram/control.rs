//! Control messages, read as bytes: what came beside a datagram.
//!
//! Source: cmsg(3), udp(7) on UDP_GRO, ip(7) on IP_RECVTOS.

use super::address::part;

/// Room for all that is asked for: a segment size and a traffic class, 24 bytes each.
pub(super) const CONTROL_BYTES: usize = 64;
/// Bytes of a header, after which the data begins.
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// What was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// Several datagrams came as one piece; each has so many bytes, the last perhaps fewer.
    pub(super) segment: Option<usize>,
    /// Congestion bits.
    pub(super) ecn: Option<u8>,
}

/// Reads all messages; what is not known, or does not fit together, tells nothing.
#[inline]
pub(super) fn read(mut rest: &[u8]) -> Control {
    let mut control = Control::default();
    while let Some((level, kind, data, after)) = next(rest) {
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let bytes = part(data, 0).map(i32::from_ne_bytes);
                control.segment =
                    bytes.and_then(|it| usize::try_from(it).ok()).filter(|it| *it > 0);
            }
            // One byte over IPv4, a number over IPv6.
            (libc::IPPROTO_IP, libc::IP_TOS) => control.ecn = data.first().map(|it| it & 3),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let class = part(data, 0).map(i32::from_ne_bytes);
                control.ecn = class.and_then(|it| u8::try_from(it & 3).ok());
            }
            // The kernel may tell more than it was asked for.
            _ => {}
        }
        rest = after;
    }
    control
}

/// Level, kind and data of the first message, and what is behind it.
#[inline]
fn next(bytes: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let len = usize::from_ne_bytes(part(bytes, 0)?);
    let level = i32::from_ne_bytes(part(bytes, HEADER_BYTES - 8)?);
    let kind = i32::from_ne_bytes(part(bytes, HEADER_BYTES - 4)?);
    let data = bytes.get(HEADER_BYTES..len)?;
    let whole = len.next_multiple_of(align_of::<usize>());
    Some((level, kind, data, bytes.get(whole..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::{Control, HEADER_BYTES, read};

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER_BYTES + data.len()).to_ne_bytes().to_vec();
        bytes.resize(HEADER_BYTES - 8, 0);
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(align_of::<usize>()), 0);
        bytes
    }

    #[test]
    fn what_was_asked_for_is_found_and_nothing_else() {
        let gro = message(libc::SOL_UDP, libc::UDP_GRO, &1_200_i32.to_ne_bytes());
        let tos = message(libc::IPPROTO_IP, libc::IP_TOS, &[0b1011]);
        let class = message(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &2_i32.to_ne_bytes());
        let other = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMP, &[7; 16]);
        let segment = Some(1_200);
        for (bytes, wanted) in [
            (vec![], Control::default()),
            (gro.clone(), Control { segment, ecn: None }),
            ([&*tos, &gro].concat(), Control { segment, ecn: Some(3) }),
            ([&*other, &class].concat(), Control { segment: None, ecn: Some(2) }),
            (other.clone(), Control::default()),
            (message(libc::SOL_UDP, libc::UDP_GRO, &0_i32.to_ne_bytes()), Control::default()),
            (message(libc::SOL_UDP, libc::UDP_GRO, &(-1_i32).to_ne_bytes()), Control::default()),
            (message(libc::SOL_UDP, libc::UDP_GRO, &[]), Control::default()),
        ] {
            assert_eq!(read(&bytes), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn lengths_that_do_not_fit_end_it() {
        let whole = message(libc::SOL_UDP, libc::UDP_GRO, &9_i32.to_ne_bytes());
        for cut in 0..HEADER_BYTES + 4 {
            assert_eq!(read(&whole[..cut]), Control::default(), "{cut}");
        }
        for len in [0, HEADER_BYTES - 1, whole.len() + 1, usize::MAX - 2, usize::MAX] {
            let mut odd = whole.clone();
            odd[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(read(&odd), Control::default(), "{len}");
        }
    }
}
