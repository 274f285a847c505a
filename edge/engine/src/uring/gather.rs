//! Where the pieces of one send are, in the form that sendmsg(2) reads.

use reactor::PINNED_MAX;

/// Several pieces, for one send. The kernel reads it, so that it must stay in its box.
pub(super) struct Gather {
    header: libc::msghdr,
    pieces: [libc::iovec; PINNED_MAX],
}

impl Gather {
    /// Names `offered`, at most [`PINNED_MAX`] pieces; lends nothing by itself.
    pub(super) fn new<'a>(offered: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        assert!(offered.len() <= PINNED_MAX, "{} pieces are too many", offered.len());
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: a header of all zeroes is a valid one, of no address and no pieces.
        let header: libc::msghdr = unsafe { std::mem::zeroed() };
        let mut gather = Self { header, pieces: [none; PINNED_MAX] };
        gather.header.msg_iovlen = offered.len();
        for (place, piece) in gather.pieces.iter_mut().zip(offered) {
            place.iov_base = piece.as_ptr().cast_mut().cast();
            place.iov_len = piece.len();
        }
        gather
    }

    /// What sendmsg(2) is given. It points into this value, wherever that is now.
    pub(super) fn header(&mut self) -> *const libc::msghdr {
        self.header.msg_iov = self.pieces.as_mut_ptr();
        &raw const self.header
    }
}
