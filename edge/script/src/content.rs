//! A hash of the modules' files, by which two versions of them are told apart.
//!
//! Names and texts go in, in the order in which they are read; what comes out is the same for the same
//! files. Not here: which files are read.

use sha2::{Digest as _, Sha256};

/// Bytes of the hash that are shown.
const SHOWN_BYTES: usize = 6;

/// SHA-256 over names and contents.
#[derive(Clone, Debug, Default)]
pub struct ContentHash(Sha256);

impl ContentHash {
    /// One more file. Lengths go in too, so that no two lists of files look the same.
    pub fn add(&mut self, name: &str, content: &[u8]) {
        for part in [name.as_bytes(), content] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    /// All files of another hash, as one.
    pub fn join(&mut self, other: &Self) {
        self.add("", &other.0.clone().finalize());
    }

    /// Its beginning, in hexadecimal.
    #[must_use]
    pub fn short(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(2 * SHOWN_BYTES);
        for byte in self.0.clone().finalize().iter().take(SHOWN_BYTES) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::ContentHash;

    #[test]
    fn other_files_have_another_hash() {
        let of = |files: &[(&str, &str)]| {
            let mut hash = ContentHash::default();
            files.iter().for_each(|(name, text)| hash.add(name, text.as_bytes()));
            hash.short()
        };
        let one = of(&[("a.lua", "return 1")]);
        assert_eq!((one.len(), &one), (12, &of(&[("a.lua", "return 1")])));
        for other in [
            &[("a.lua", "return 2")][..],
            &[("b.lua", "return 1")],
            &[("a.lu", "areturn 1")],
            &[("a.lua", "return 1"), ("", "")],
            &[],
        ] {
            assert_ne!(one, of(other), "{other:?}");
        }
    }
}
