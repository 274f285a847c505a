//! Names and texts, any number of them in one allocation: what a request's headers and query
//! parameters are on their way from the thread that reads them to the one that runs the script.
//! One string each would cost three allocations a header, and three releases on another thread.
//!
//! A name may come several times; who makes tables of them gathers its values. Nothing is looked up
//! fast here: there are few, and most calls look at none.
//!
//! The form of [`Pairs::packed`]: for each pair the name, then the text, each with its length
//! before it as 4 bytes, little-endian.

/// Pairs in one list; a request's head is limited to a few KB, so no honest call gets near.
pub const PAIRS_MAX: u32 = 4_096;

/// Appends a text with its length before it, as in the form above; what is longer than 4 GiB is
/// cut off.
pub fn pack(to: &mut Vec<u8>, text: &[u8]) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(text.get(..length as usize).unwrap_or(text));
}

/// Names and texts in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    packed: Vec<u8>,
    count: u32,
}

impl Pairs {
    /// None yet, with room for `bytes` of them (8 a pair besides the texts themselves).
    pub fn with_capacity(bytes: usize) -> Self {
        Self { packed: Vec::with_capacity(bytes), count: 0 }
    }

    /// Adds one. The ones beyond [`PAIRS_MAX`] are left out.
    pub fn push(&mut self, name: &[u8], text: &[u8]) {
        if self.count == PAIRS_MAX {
            return;
        }
        self.count += 1;
        pack(&mut self.packed, name);
        pack(&mut self.packed, text);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them, in the form above.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Names and texts.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.packed.as_slice();
        std::iter::from_fn(move || {
            let mut next = || {
                let (length, tail) = rest.split_first_chunk()?;
                let (text, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                rest = tail;
                Some(text)
            };
            Some((next()?, next()?))
        })
    }

    /// The first text with this name.
    pub fn first(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, text)| text)
    }
}

impl<N: AsRef<[u8]>, T: AsRef<[u8]>> FromIterator<(N, T)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(pairs: I) -> Self {
        let mut all = Self::default();
        for (name, text) in pairs {
            all.push(name.as_ref(), text.as_ref());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{PAIRS_MAX, Pairs};

    #[test]
    fn what_is_put_in_comes_out() {
        let given = [("a", "1"), ("", ""), ("a", "2"), ("long", "text of some bytes")];
        let pairs: Pairs = given.into_iter().collect();
        let read: Vec<_> = pairs.iter().collect();
        assert_eq!(read, given.map(|(name, text)| (name.as_bytes(), text.as_bytes())));
        assert_eq!((pairs.count(), pairs.is_empty()), (4, false));
        assert_eq!(pairs.first(b"a"), Some(b"1".as_slice()));
        assert_eq!(pairs.first(b"b"), None);
        assert_eq!(Pairs::default().iter().count(), 0);
    }

    #[test]
    fn no_more_than_the_limit() {
        let pairs: Pairs = (0..PAIRS_MAX + 10).map(|n| (n.to_string(), "")).collect();
        assert_eq!((pairs.count(), pairs.iter().count()), (4_096, 4_096));
    }
}
