//! What TCP knows of a connection, read from the kernel's structure.
//!
//! In: bytes of `struct tcp_info`, as many as the kernel has. Out: figures; those that an older kernel
//! does not have are 0. Source: linux/tcp.h (Linux 6.18), whose fields only ever grow at the end, and
//! tcp(7).

use std::net::TcpStream;

use engine::{TCP_INFO_BYTES, tcp_info};

use crate::load::FlowConnection;
use crate::measure::number::float;

/// What TCP knows at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Smoothed round trip, its deviation and its least, in microseconds.
    pub(crate) rtt_us: u64,
    pub(crate) rtt_deviation_us: u64,
    pub(crate) rtt_least_us: u64,
    /// Segments that may be under way, and bytes of one.
    pub(crate) window_segments: u64,
    pub(crate) segment_bytes: u64,
    /// Segments that were sent again, since the connection was made.
    pub(crate) retransmits: u64,
    /// Bytes a second, as it delivered them last.
    pub(crate) delivery_bytes_per_s: u64,
    /// How long there was something to send, and how long of it the receiver's window or this end's
    /// buffer held it up; microseconds since the connection was made.
    pub(crate) busy_us: u64,
    pub(crate) receiver_limited_us: u64,
    pub(crate) buffer_limited_us: u64,
    /// Bytes that the other end has acknowledged.
    pub(crate) acknowledged_bytes: u64,
}

impl TcpInfo {
    /// Of a connection; none where the system does not say.
    pub(crate) fn of(stream: &TcpStream) -> Option<Self> {
        let mut room = [0; TCP_INFO_BYTES];
        tcp_info(stream, &mut room).ok().map(Self::read)
    }

    /// Reads the structure: numbers in this machine's order at fixed places.
    pub(crate) fn read(info: &[u8]) -> Self {
        let of_4 = |at: usize| {
            let bytes = info.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from(u32::from_ne_bytes(*bytes)))
        };
        let of_8 = |at: usize| {
            let bytes = info.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        // Of a connection without a sample the least round trip is the largest number.
        let least = of_4(148);
        Self {
            segment_bytes: of_4(16),
            rtt_us: of_4(68),
            rtt_deviation_us: of_4(72),
            window_segments: of_4(80),
            retransmits: of_4(100),
            acknowledged_bytes: of_8(120),
            rtt_least_us: if least == u64::from(u32::MAX) { 0 } else { least },
            delivery_bytes_per_s: of_8(160),
            busy_us: of_8(168),
            receiver_limited_us: of_8(176),
            buffer_limited_us: of_8(184),
        }
    }

    /// Bytes that may be under way.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_segments.saturating_mul(self.segment_bytes)
    }

    /// What it became since a moment before, for a result.
    pub(crate) fn since(&self, before: &Self) -> FlowConnection {
        let busy_us = self.busy_us.saturating_sub(before.busy_us);
        let share = |now: u64, then: u64| {
            if busy_us == 0 { 0.0 } else { float(now.saturating_sub(then)) / float(busy_us) }
        };
        FlowConnection {
            retransmits: self.retransmits.saturating_sub(before.retransmits),
            rtt_ns: self.rtt_us.saturating_mul(1_000),
            rtt_deviation_ns: self.rtt_deviation_us.saturating_mul(1_000),
            rtt_least_ns: self.rtt_least_us.saturating_mul(1_000),
            window_bytes: self.window_bytes(),
            segment_bytes: self.segment_bytes,
            delivery_bits_per_s: 8.0 * float(self.delivery_bytes_per_s),
            receiver_limited_share: share(self.receiver_limited_us, before.receiver_limited_us),
            buffer_limited_share: share(self.buffer_limited_us, before.buffer_limited_us),
            acknowledged_bytes: self.acknowledged_bytes.saturating_sub(before.acknowledged_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::TcpInfo;

    #[test]
    fn fields_are_read_from_their_places_and_are_nought_in_older_kernels() {
        let mut info = [0_u8; 248];
        let mut put = |at: usize, value: u64, bytes: usize| {
            let value = value.to_ne_bytes();
            let from = if cfg!(target_endian = "big") { 8 - bytes } else { 0 };
            info[at..at + bytes].copy_from_slice(&value[from..from + bytes]);
        };
        put(16, 1_448, 4);
        put(68, 250, 4);
        put(80, 10, 4);
        put(100, 7, 4);
        put(148, u64::from(u32::MAX), 4);
        put(160, 1_000_000, 8);
        put(168, 2_000, 8);
        put(184, 500, 8);
        let read = TcpInfo::read(&info);
        assert_eq!((read.rtt_us, read.retransmits, read.window_bytes()), (250, 7, 14_480));
        assert_eq!((read.rtt_least_us, read.delivery_bytes_per_s), (0, 1_000_000));
        let connection = read.since(&TcpInfo { retransmits: 5, ..TcpInfo::default() });
        assert_eq!((connection.retransmits, connection.rtt_ns), (2, 250_000));
        assert!((connection.buffer_limited_share - 0.25).abs() < 1e-9);
        for len in 0..info.len() {
            let read = TcpInfo::read(&info[..len]);
            assert_eq!(read.retransmits, if len < 104 { 0 } else { 7 }, "{len}");
        }
        assert_eq!(TcpInfo::read(&[]), TcpInfo::default());
    }

    #[test]
    fn a_connection_of_this_machine_has_a_window_and_what_it_sent_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        stream.write_all(&[7; 10_000]).unwrap();
        other.read_exact(&mut [0; 10_000]).unwrap();
        // Its answer carries the acknowledgement.
        other.write_all(&[1]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::of(&stream).unwrap();
        assert!(info.window_bytes() > 0 && info.segment_bytes > 500, "{info:?}");
        assert!(info.acknowledged_bytes >= 10_000 && info.retransmits == 0, "{info:?}");
    }
}
