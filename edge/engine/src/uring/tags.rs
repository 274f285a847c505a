//! What a completion is of: an operation's `user_data` is the kind of operation above, and the slot
//! of its connection (or another number) below.

/// Declares the kinds once, so that numbers and names cannot drift apart.
macro_rules! tags {
    ($($(#[$doc:meta])* $tag:ident,)*) => {
        /// The kinds of operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Tag { $($(#[$doc])* $tag,)* }

        const ALL: &[Tag] = &[$(Tag::$tag,)*];
    };
}

tags! {
    Receive,
    Send,
    Accept,
    Wake,
    Shutdown,
    Watch,
    Socket,
    Connect,
    Cancel,
    CancelReceive,
    Close,
    /// A socket for datagrams can be read.
    Readable,
    /// Nobody waits for it.
    Ignored,
}

impl Tag {
    #[inline]
    pub(super) fn with(self, number: u32) -> u64 {
        u64::from(self as u8) << 32 | u64::from(number)
    }

    /// The reverse of [`Self::with`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the two halves apart")]
    pub(super) fn split(user_data: u64) -> (Self, u32) {
        (ALL[(user_data >> 32) as usize], user_data as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Tag};

    #[test]
    fn every_tag_is_read_back() {
        for tag in ALL {
            for number in [0, 7, u32::MAX] {
                assert_eq!(Tag::split(tag.with(number)), (*tag, number));
            }
        }
    }
}
