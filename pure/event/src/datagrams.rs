//! Datagrams as a handler is lent them: what one sender has sent to one socket, one piece of memory
//! however many they are, because the kernel merges those that come close together
//! (udp(7), UDP_GRO).
//!
//! Not here: what is in them, and how they come.

use std::net::SocketAddr;

use crate::SocketId;

/// Datagrams that came to one socket from one sender, at least one, in the order in which they came.
#[derive(Debug)]
pub struct Datagrams<'a> {
    /// Where they came.
    pub socket: SocketId,
    /// Who sent them, as far as anybody can say who sent a datagram.
    pub from: SocketAddr,
    /// The congestion bits of their IP headers, 0 to 3 (not capable, 1, 0, experienced): RFC 3168
    /// section 5. 0 where the system does not tell.
    pub ecn: u8,
    /// Bytes of each but the last, which may have fewer; 0 when there is one.
    segment: u16,
    bytes: &'a mut [u8],
}

impl<'a> Datagrams<'a> {
    /// For drivers: one datagram.
    #[must_use]
    pub fn one(socket: SocketId, from: SocketAddr, ecn: u8, bytes: &'a mut [u8]) -> Self {
        Self { socket, from, ecn, segment: 0, bytes }
    }

    /// For drivers: several that lie behind each other, each of `segment` bytes, the last perhaps of
    /// fewer; 0 for one datagram.
    #[must_use]
    pub fn merged(
        socket: SocketId,
        from: SocketAddr,
        ecn: u8,
        segment: u16,
        bytes: &'a mut [u8],
    ) -> Self {
        Self { socket, from, ecn, segment, bytes }
    }

    /// How many they are: 1 at least.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self.segment {
            0 => 1,
            segment => self.bytes.len().div_ceil(usize::from(segment)).max(1) as u64,
        }
    }

    /// Bytes of all together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Leaves out those that are longer than `bytes_max`, and says how many: of several all, or all
    /// but the last.
    #[must_use]
    pub fn without_longer(self, bytes_max: u32) -> (Option<Self>, u64) {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let longest = match usize::from(self.segment) {
            0 => self.bytes.len(),
            segment => segment.min(self.bytes.len()),
        };
        if longest <= bytes_max {
            return (Some(self), 0);
        }
        let count = self.count();
        let last = self.bytes.len() - (self.bytes.len() - 1) / longest * longest;
        if last > bytes_max {
            return (None, count);
        }
        let start = self.bytes.len() - last;
        let bytes = &mut self.bytes[start..];
        (Some(Self { segment: 0, bytes, ..self }), count - 1)
    }
}

impl<'a> IntoIterator for Datagrams<'a> {
    type Item = &'a mut [u8];
    type IntoIter = Each<'a>;

    /// Each by itself, in order. They may be empty, and may be changed in place (decrypted).
    fn into_iter(self) -> Each<'a> {
        Each { segment: usize::from(self.segment), rest: Some(self.bytes) }
    }
}

/// One datagram after the other.
#[derive(Debug)]
pub struct Each<'a> {
    segment: usize,
    rest: Option<&'a mut [u8]>,
}

impl<'a> Iterator for Each<'a> {
    type Item = &'a mut [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a mut [u8]> {
        let rest = self.rest.take()?;
        if self.segment == 0 || rest.len() <= self.segment {
            return Some(rest);
        }
        let (first, rest) = rest.split_at_mut(self.segment);
        self.rest = Some(rest);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::Datagrams;
    use crate::{Input, SocketId};

    /// Lengths of each, of pieces with a segment size and so many bytes.
    fn lengths(segment: u16, bytes: usize, most: u32) -> (Vec<usize>, u64) {
        let mut memory = vec![7; bytes];
        let from = ([127, 0, 0, 1], 9).into();
        let all = Datagrams::merged(SocketId(1), from, 2, segment, &mut memory);
        let (count, bytes) = (all.count(), all.bytes());
        let (fit, longer) = all.without_longer(most);
        let Some(fit) = fit else {
            assert_eq!(longer, count);
            return (Vec::new(), longer);
        };
        assert_eq!((fit.socket, fit.from, fit.ecn), (SocketId(1), from, 2));
        assert!(fit.bytes() <= bytes);
        let told = fit.count();
        let lengths: Vec<usize> = fit.into_iter().map(|it| it.len()).collect();
        assert_eq!((told, told + longer), (lengths.len() as u64, count), "{segment} {bytes}");
        (lengths, longer)
    }

    #[test]
    fn merged_ones_come_apart_and_what_is_too_long_is_left_out() {
        for (segment, bytes, most, wanted, longer) in [
            (0, 0, 100, &[0][..], 0),
            (0, 100, 100, &[100], 0),
            (0, 101, 100, &[], 1),
            (100, 300, 100, &[100, 100, 100], 0),
            (100, 250, 100, &[100, 100, 50], 0),
            (100, 1, 100, &[1], 0),
            (100, 100, 100, &[100], 0),
            // The last alone is short enough.
            (100, 250, 99, &[50], 2),
            (100, 300, 99, &[], 3),
            (100, 201, 1, &[1], 2),
            (100, 60, 50, &[], 1),
            (1, 3, 1, &[1, 1, 1], 0),
            (u16::MAX, 65_507, 65_507, &[65_507], 0),
        ] {
            assert_eq!(
                lengths(segment, bytes, most),
                (wanted.to_vec(), longer),
                "{segment} {bytes}"
            );
        }
    }

    /// Every input of a connection is as large: what it weighed before there were datagrams.
    #[test]
    fn datagrams_make_no_other_input_larger() {
        assert!(size_of::<Input<'_, u64>>() <= 56, "{}", size_of::<Input<'_, u64>>());
    }
}
