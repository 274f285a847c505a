//! The fields of one header block, in the order in which they came.

/// Names and values. Names are as they were sent: in lower case, or the request is malformed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    text: Vec<u8>,
    /// Where each field's name and value end in `text`.
    ends: Vec<(u32, u32)>,
}

impl Fields {
    /// Adds one at the end.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        let name_end = position(self.text.len());
        self.text.extend_from_slice(value);
        self.ends.push((name_end, position(self.text.len())));
    }

    /// All of them, names first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, (name_end, end))| {
            let part = |from: u32, to: u32| self.text.get(from as usize..to as usize);
            (part(start, *name_end).unwrap_or_default(), part(*name_end, *end).unwrap_or_default())
        })
    }

    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }

    /// All values of fields of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// A header block is far below 4 GiB.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
