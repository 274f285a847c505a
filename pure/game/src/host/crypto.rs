//! Hashes, ciphers, signatures and random bytes for scripts. The ciphers are Nakama's, for
//! data that exists already: AES in CFB mode without authentication, the text padded with spaces
//! to a multiple of 4. RSA is `rsa`'s.

use std::borrow::Cow;

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit, consts::U16};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use event::Random;
use hmac::{Hmac, Mac as _};
use md5::Md5;
use sha2::{Digest as _, Sha256};
use wire::hex;

use super::{Args, json, rsa};
use crate::guest::{CommonHost, Host, HostError};
use crate::value::Value;

const BLOCK_BYTES: usize = 16;

/// Work factor of `bcrypt_hash`: Nakama's, about 0.3 s on the lab machine.
const BCRYPT_COST: u32 = 13;

/// Hashes with a greater cost than this are refused, they would take minutes.
const BCRYPT_COST_MAX: u32 = 15;

pub(super) fn md5(input: &[u8]) -> String {
    hex::encode(&Md5::digest(input))
}

pub(super) fn sha256(input: &[u8]) -> String {
    hex::encode(&Sha256::digest(input))
}

pub(super) fn hmac_sha256(key: &[u8], input: &[u8]) -> Result<Vec<u8>, HostError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|error| HostError::new(format!("error creating hash: {error}")))?;
    mac.update(input);
    Ok(mac.finalize().into_bytes().to_vec())
}

/// A cipher of blocks of 16 bytes.
pub(super) trait Cipher: KeyInit + BlockCipherEncrypt<BlockSize = U16> {}

impl<C: KeyInit + BlockCipherEncrypt<BlockSize = U16>> Cipher for C {}

/// The cipher with a key, which is the second argument.
fn cipher<C: Cipher>(args: &Args<'_>, key: &[u8]) -> Result<C, HostError> {
    C::new_from_slice(key)
        .map_err(|_| args.wrong(1, &format!("expects key {} bytes long", C::key_size())))
}

pub(super) fn encrypt<C: Cipher>(
    host: &mut dyn CommonHost,
    args: &Args<'_>,
    text: Cow<'_, [u8]>,
    key: &[u8],
) -> Result<Vec<u8>, HostError> {
    let cipher = cipher::<C>(args, key)?;
    let mut text = text.into_owned();
    text.resize(text.len().next_multiple_of(4), b' ');
    let start: [u8; BLOCK_BYTES] = host.random().bytes();
    let mut sealed = start.to_vec();
    let mut register = start;
    for chunk in text.chunks_mut(BLOCK_BYTES) {
        mask(&cipher, register, chunk);
        if let Ok(block) = <[u8; BLOCK_BYTES]>::try_from(&*chunk) {
            register = block;
        }
        sealed.extend_from_slice(chunk);
    }
    Ok(sealed)
}

pub(super) fn decrypt<C: Cipher>(
    args: &Args<'_>,
    sealed: &[u8],
    key: &[u8],
) -> Result<Vec<u8>, HostError> {
    let cipher = cipher::<C>(args, key)?;
    let Some((&start, body)) = sealed.split_first_chunk::<BLOCK_BYTES>() else {
        return Err(HostError::new("input too short"));
    };
    let mut text = body.to_vec();
    let mut register = start;
    for chunk in text.chunks_mut(BLOCK_BYTES) {
        let sealed_block = <[u8; BLOCK_BYTES]>::try_from(&*chunk);
        mask(&cipher, register, chunk);
        if let Ok(block) = sealed_block {
            register = block;
        }
    }
    Ok(text)
}

/// One step of cipher feedback: the register is encrypted, and laid over the chunk.
fn mask<C: Cipher>(cipher: &C, register: [u8; BLOCK_BYTES], chunk: &mut [u8]) {
    let mut block = Array::from(register);
    cipher.encrypt_block(&mut block);
    for (byte, key) in chunk.iter_mut().zip(block) {
        *byte ^= key;
    }
}

pub(super) fn bcrypt_hash(
    host: &mut dyn Host,
    args: &Args<'_>,
    plain: &[u8],
) -> Result<String, HostError> {
    args.slowly(host)?;
    let hash = bcrypt::hash_with_salt(plain, BCRYPT_COST, host.random().bytes())
        .map_err(|error| HostError::new(format!("error hashing input: {error}")))?;
    Ok(hash.format_for_version(bcrypt::Version::TwoA))
}

pub(super) fn bcrypt_compare(
    host: &mut dyn Host,
    args: &Args<'_>,
    hash: &str,
    plain: &[u8],
) -> Result<bool, HostError> {
    args.slowly(host)?;
    let cost = hash.split('$').nth(2).and_then(|cost| cost.parse().ok()).unwrap_or(0);
    if cost > BCRYPT_COST_MAX {
        return Err(HostError::new(format!(
            "error comparing hash and plaintext: cost {cost} is above {BCRYPT_COST_MAX}"
        )));
    }
    if hash.len() < 59 {
        return Ok(false);
    }
    bcrypt::verify(plain, hash)
        .map_err(|error| HostError::new(format!("error comparing hash and plaintext: {error}")))
}

/// A signed token; the algorithm is the first argument.
pub(super) fn jwt(
    args: &Args<'_>,
    algorithm: &[u8],
    key: &[u8],
    claims: &Value,
) -> Result<String, HostError> {
    let head: &[u8] = match algorithm {
        b"HS256" => br#"{"alg":"HS256","typ":"JWT"}"#,
        b"RS256" => br#"{"alg":"RS256","typ":"JWT"}"#,
        _ => {
            return Err(args.wrong(0, "unsupported algo type - only allowed 'HS256', 'RS256'."));
        }
    };
    let claims = json::encode_for(claims, args.meter)
        .map_err(|error| HostError::new(format!("failed to sign token: {error}")))?;
    let mut token = URL_SAFE_NO_PAD.encode(head);
    token.push('.');
    token.push_str(&URL_SAFE_NO_PAD.encode(claims));
    let signature = if algorithm == b"RS256" {
        rsa::sign(args, key, token.as_bytes())
    } else {
        hmac_sha256(key, token.as_bytes())
    };
    let signature = URL_SAFE_NO_PAD.encode(signature?);
    token.push('.');
    token.push_str(&signature);
    Ok(token)
}

pub(super) fn random_bytes(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes
}
