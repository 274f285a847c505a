//! JSON web tokens in the compact form (RFC 7515 §3.1), HS256 only (RFC 7518 §3.2). Claims go in
//! and come out as JSON text; what they mean is the caller's matter, times included.
//!
//! No other algorithm, on purpose: a verifier that obeys the token's own `alg` can be talked into
//! accepting unsigned ones.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use thiserror::Error;
use wire::mac;

/// Longest token that is looked at. Request heads end at 5 KiB, so longer session tokens cannot
/// arrive; refresh tokens come in bodies, and session variables make them grow.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// base64url of `{"alg":"HS256","typ":"JWT"}`.
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

/// base64url of a 32-byte signature, without padding.
const SIGNATURE_CHARS: usize = 43;

/// Why a token is not good. For counters and logs: clients are told only that it is invalid.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// Longer than [`TOKEN_BYTES_MAX`].
    #[error("token of {bytes} bytes is too long")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Not three parts of base64url.
    #[error("token is malformed")]
    Malformed,
    /// The header does not say HS256.
    #[error("token is not signed with HS256")]
    Algorithm,
    /// The signature is not by this key.
    #[error("token's signature is wrong")]
    Signature,
    /// The claims are not those of a session token.
    #[error("token's claims are incomplete")]
    Claims,
    /// Its time is over.
    #[error("token expired at {expires_s}")]
    Expired {
        /// Unix seconds.
        expires_s: u64,
    },
}

/// Of a tag, for what guessing is of little use for.
const SEAL_BYTES: usize = 8;

/// A signing key.
#[derive(Clone, Debug)]
pub struct Key(mac::Key);

impl Key {
    /// A key from secret bytes of any length.
    pub fn new(secret: &[u8]) -> Self {
        Self(mac::Key::new(secret))
    }

    /// The token for `claims`, which must be a JSON object.
    pub fn sign(&self, claims: &[u8]) -> String {
        let mut token =
            String::with_capacity(HEADER.len() + claims.len() / 3 * 4 + SIGNATURE_CHARS + 8);
        token.push_str(HEADER);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = self.mac(token.as_bytes()).finalize().into_bytes();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// The claims of `token` as JSON text, if this key has signed them. Takes the same time for
    /// every wrong signature.
    ///
    /// # Errors
    /// Any [`TokenError`] but [`TokenError::Claims`] and [`TokenError::Expired`].
    pub fn open(&self, token: &str) -> Result<Vec<u8>, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong { bytes: token.len() });
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        if claims.contains('.') {
            return Err(TokenError::Malformed);
        }
        check_header(header)?;
        let mut tag = [0; 48];
        let tag_len =
            URL_SAFE_NO_PAD.decode_slice(signature, &mut tag).map_err(|_| TokenError::Malformed)?;
        let tag = tag.get(..tag_len).ok_or(TokenError::Malformed)?;
        self.mac(signed.as_bytes()).verify_slice(tag).map_err(|_| TokenError::Signature)?;
        URL_SAFE_NO_PAD.decode(claims).map_err(|_| TokenError::Malformed)
    }

    /// A seal by which this server knows again what it has said, of 8 bytes as base64url (11 characters).
    /// What is `said` begins as no token does.
    pub fn seal(&self, said: &[u8]) -> String {
        assert!(!said.starts_with(b"eyJ"), "what is said could be a token");
        let tag = self.mac(said).finalize().into_bytes();
        let (seal, _) = tag.split_at(SEAL_BYTES);
        URL_SAFE_NO_PAD.encode(seal)
    }

    /// Whether this key has sealed it. Takes the same time for every wrong seal.
    pub fn has_sealed(&self, said: &[u8], seal: &str) -> bool {
        let seal = URL_SAFE_NO_PAD.decode(seal).unwrap_or_default();
        seal.len() == SEAL_BYTES && self.mac(said).verify_truncated_left(&seal).is_ok()
    }

    fn mac(&self, signed: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.begin();
        mac.update(signed);
        mac
    }
}

fn check_header(header: &str) -> Result<(), TokenError> {
    #[derive(serde::Deserialize)]
    struct Header {
        alg: String,
    }
    if header == HEADER {
        return Ok(());
    }
    // Other makers order and space the same two members differently.
    let text = URL_SAFE_NO_PAD.decode(header).map_err(|_| TokenError::Malformed)?;
    let header: Header = serde_json::from_slice(&text).map_err(|_| TokenError::Malformed)?;
    if header.alg == "HS256" { Ok(()) } else { Err(TokenError::Algorithm) }
}
