//! From what the kernel brought to datagrams: pieces that it has merged come apart, and what is too
//! large, or has no sender that can be read, is counted and not given.

use super::address;
use super::control::{self, Control};
use super::{Batch, Datagram};

/// A piece as the kernel brought it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    /// Sender, in the kernel's form.
    pub(super) name: &'a [u8],
    /// Control messages.
    pub(super) control: &'a [u8],
    /// The piece had more bytes than there was room for.
    pub(super) is_truncated: bool,
}

/// Gives the datagrams of a piece, each of `bytes_max` at most, and counts them.
#[inline]
pub(super) fn give(
    piece: Piece<'_>,
    bytes_max: usize,
    batch: &mut Batch,
    each: &mut dyn FnMut(Datagram<'_>),
) {
    let Control { segment, ecn } = control::read(piece.control);
    // Only sockets of the two families are received from, so that this should not happen.
    let Some(from) = address::read(piece.name) else {
        batch.unreadable += 1;
        return;
    };
    let Some(segment) = segment else {
        if piece.is_truncated || piece.bytes.len() > bytes_max {
            batch.truncated += 1;
            return;
        }
        batch.datagrams += 1;
        batch.bytes += piece.bytes.len() as u64;
        each(Datagram { bytes: piece.bytes, from, ecn });
        return;
    };
    for bytes in piece.bytes.chunks(segment) {
        if bytes.len() > bytes_max {
            batch.truncated += 1;
            continue;
        }
        batch.datagrams += 1;
        batch.bytes += bytes.len() as u64;
        each(Datagram { bytes, from, ecn });
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Piece, give};

    #[test]
    fn what_has_no_sender_is_counted_and_not_given() {
        let mut batch = Batch::default();
        for name in [&[][..], &[0xff; 16]] {
            let piece = Piece { bytes: b"abc", name, control: &[], is_truncated: false };
            give(piece, 100, &mut batch, &mut |_| panic!("nobody sent it"));
        }
        assert_eq!(batch, Batch { unreadable: 2, ..Batch::default() });
    }
}
