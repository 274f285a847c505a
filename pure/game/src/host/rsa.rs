//! RSA signatures for scripts: `rsa_sha256_hash` and tokens by RS256. PKCS #1 v1.5 over SHA-256
//! (RFC 8017 §8.2), with private keys as PEM, in PKCS #1 form or PKCS #8.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`, which reads the first form only.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rsa::pkcs1::DecodeRsaPrivateKey as _;
use rsa::pkcs8::DecodePrivateKey as _;
use rsa::{Pkcs1v15Sign, RsaPrivateKey, traits::PublicKeyParts as _};
use sha2::{Digest as _, Sha256};

use super::Args;
use crate::guest::HostError;

/// Bytes of a key as text: one of 4,096 bits has 3,300.
const KEY_TEXT_BYTES_MAX: usize = 8 * 1024;

/// Bits of a key: signing takes time with the cube of it.
const KEY_BITS_MAX: usize = 4_096;

/// The signature of `input`, as long as the key.
///
/// # Errors
/// The key is none or too long, or the call's time is over.
pub(super) fn sign(args: &Args<'_>, key: &[u8], input: &[u8]) -> Result<Vec<u8>, HostError> {
    let parsing =
        |what: &dyn std::fmt::Display| HostError::new(format!("error parsing key: {what}"));
    if key.len() > KEY_TEXT_BYTES_MAX {
        return Err(parsing(&format_args!("more than {KEY_TEXT_BYTES_MAX} bytes")));
    }
    let (label, der) = unwrap_pem(key)
        .ok_or_else(|| HostError::new("could not parse private key: no valid blocks found"))?;
    args.produce(input.len())?;
    // Reading a key checks it, which takes about as long as signing.
    args.meter.spend(KEY_STEPS)?;
    let key = match label {
        "PRIVATE KEY" => RsaPrivateKey::from_pkcs8_der(&der).map_err(|error| parsing(&error))?,
        _ => RsaPrivateKey::from_pkcs1_der(&der).map_err(|error| parsing(&error))?,
    };
    if key.n().bits() as usize > KEY_BITS_MAX {
        return Err(parsing(&format_args!("more than {KEY_BITS_MAX} bits")));
    }
    key.sign(Pkcs1v15Sign::new::<Sha256>(), &Sha256::digest(input))
        .map_err(|error| HostError::new(format!("error signing input: {error}")))
}

/// What a key costs in steps of a nanosecond.
const KEY_STEPS: u32 = 5_000_000;

/// The label and the bytes of the first PEM block (RFC 7468), however its lines are broken.
fn unwrap_pem(text: &[u8]) -> Option<(&str, Vec<u8>)> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.split_whitespace().collect();
    Some((label, STANDARD.decode(body).ok()?))
}

#[cfg(test)]
mod tests {
    use wire::hex;

    use super::super::{Args, Unmetered};
    use super::sign;

    /// Made for this test by `openssl genrsa -traditional 1024`; it opens nothing.
    const KEY: &str = "-----BEGIN RSA PRIVATE KEY-----
MIICXQIBAAKBgQDPwY2zOTsjsAhA98AlFhIdZWjzUd3lAacSm2VVUYwn29Nbiacm
rClZVmm8T0c6x4Lmwd6kn/M04uIiLqk28IYR9b0cwytZnmqXt7SXACLwlFeMIn/Z
qn+H7hhcH4naO8JeTZfF8Yjf4pSIpzBeVkk0a8698S2wbvkkltt8JwYFowIDAQAB
AoGBALpWA12oCx7rF7wNeczJit3KwuLZnodzgAH0VmK7jVWCmIMVZ1IMP9nc42D+
SgiyQPnvEF3fCCd7Bw9ZgnPALr33UaqP4y+Lc+PwgUpVOGY4mHLGAo0wYbsmg7D7
R01jotsIF1X/+jAo0nzFToC418K+45qFEYlP0BUAOaz7TSBBAkEA6HF9qH4zHU01
mfGq5Gc6Is7JQDhrvyT7xUI0o+3FwPMxwfPhCDjq8jJ7Bx+859Hs8Sq/CLhfwFFB
7cTIpgFtmQJBAOTPk5mCoORdMtoGDNBXVf9CS+fq6Rb2gFjagvtbGN/ZcNKRWWhq
EfL3msmiZle6xQChwn1NV12x4aYUo+h0OpsCQCoiqIyqk8lz/Ytya3AL5lX49jJW
B/IWWi1f2vr8VySq8RIfi2NaLfzJedPIxQ2g2Dq/bPG/ulu6XyEi0tyE1cECQFgx
vpXEKRn85nXtMRE5KLesKS/qdw/X0d7t0uDp2yulV3yCc/DwOZzqXapsw3/7SKYW
s62ymwNNZkmq2QbnjhMCQQCyO4qFDLlnXcTCDZvpIFYMbb+Y8sWssEGvVFmb9GZx
Iq7VUGGtXzzj9TO08Nyao7Gv4NXqWYjAJ1XBDiwkOVqp
-----END RSA PRIVATE KEY-----";

    /// `openssl dgst -sha256 -sign` of `hello` with this key.
    const SIGNATURE: &str = "60b7c4c233da409634cd4566855e02356f5f0e677a214895720f1d0930a18d4a4ea8e87d435c250edb9f9ce9\
        22641395f461531d989b458f91a85626fb0ca1fb98f8e663cd9da7bdc57055a08cd5e464d77251a47b09dd49\
        b96ad17d2fb99f734c25a01308d37947c0115d63e388153d7c2da27aa4d433ddec2cbc79a70dcbda";

    fn signed(key: &str) -> Result<String, String> {
        let args = Args { function: "rsa_sha256_hash", values: &[], meter: &Unmetered };
        sign(&args, key.as_bytes(), b"hello")
            .map(|s| hex::encode(&s))
            .map_err(|error| error.message)
    }

    #[test]
    fn signatures_are_those_of_openssl() {
        assert_eq!(signed(KEY).unwrap(), SIGNATURE);
        // Lines that an editor has broken or indented anew.
        assert_eq!(signed(&KEY.replace('\n', "\r\n  ")).unwrap(), SIGNATURE);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let cut = KEY.replacen("MII", "MIJ", 1);
        for (key, wanted) in [
            ("", "could not parse private key: no valid blocks found"),
            (
                "-----BEGIN RSA PRIVATE KEY-----",
                "could not parse private key: no valid blocks found",
            ),
            (&*KEY.replace("END RSA", "END"), "could not parse private key: no valid blocks found"),
            (&"x".repeat(9_000), "error parsing key: more than 8192 bytes"),
        ] {
            assert_eq!(signed(key).unwrap_err(), wanted);
        }
        assert!(signed(&cut).unwrap_err().starts_with("error parsing key: "));
        let other_form = KEY.replace("RSA PRIVATE KEY", "PRIVATE KEY");
        assert!(signed(&other_form).unwrap_err().starts_with("error parsing key: "));
    }
}
