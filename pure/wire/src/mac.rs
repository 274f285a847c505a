//! HMAC-SHA-256 (RFC 2104) by keys that are used again and again: of session tokens and of game datagrams.
//!
//! What is deliberately not here: what is sealed, and how much of the result is sent.

use hmac::{Hmac, KeyInit as _};
use sha2::{Digest as _, Sha256};

/// A key whose two hash states are prepared, which saves two of the six SHA-256 blocks of a usual token.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A key of secret bytes, of any length.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        // RFC 2104 section 2: shorter keys are filled up with zeros, longer ones are hashed first.
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        if secret.len() <= block.len() {
            block[..secret.len()].copy_from_slice(secret);
        } else {
            let digest = Sha256::digest(secret);
            block[..digest.len()].copy_from_slice(&digest);
        }
        Self(Hmac::new(&block))
    }

    /// The beginning of a tag over bytes that are still to be given.
    #[must_use]
    pub fn begin(&self) -> Hmac<Sha256> {
        self.0.clone()
    }
}
