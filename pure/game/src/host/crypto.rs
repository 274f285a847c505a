//! Hashes, ciphers, signatures and random bytes for scripts. The ciphers are Nakama's, for
//! data that exists already: AES in CFB mode without authentication, the text padded with spaces
//! to a multiple of 4. RSA is `rsa`'s.

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit, consts::U16};
use aes::{Aes128, Aes256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use md5::Md5;
use sha2::{Digest as _, Sha256};

use super::encode::hex;
use super::{Args, Returns, json, one, rsa};
use crate::guest::{Host, HostError};
use crate::value::Value;

const BLOCK_BYTES: usize = 16;

/// Work factor of `bcrypt_hash`: Nakama's, about 0.3 s on the lab machine.
const BCRYPT_COST: u32 = 13;

/// Hashes with a greater cost than this are refused, they would take minutes.
const BCRYPT_COST_MAX: u32 = 15;

pub(super) fn md5_hash(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    one(Value::text(hex(&Md5::digest(args.filled(0, "expects input string")?))))
}

pub(super) fn sha256_hash(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    one(Value::text(hex(&Sha256::digest(args.filled(0, "expects input string")?))))
}

pub(super) fn hmac_sha256_hash(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let input = args.filled(0, "expects input string")?;
    let key = args.filled(1, "expects key string")?;
    one(Value::Bytes(hmac_sha256(&key, &input)?.into()))
}

fn hmac_sha256(key: &[u8], input: &[u8]) -> Result<Vec<u8>, HostError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|error| HostError::new(format!("error creating hash: {error}")))?;
    mac.update(input);
    Ok(mac.finalize().into_bytes().to_vec())
}

pub(super) fn aes128_encrypt(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    encrypt::<Aes128>(host, args)
}

pub(super) fn aes128_decrypt(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    decrypt::<Aes128>(args)
}

pub(super) fn aes256_encrypt(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    encrypt::<Aes256>(host, args)
}

pub(super) fn aes256_decrypt(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    decrypt::<Aes256>(args)
}

trait Cipher: KeyInit + BlockCipherEncrypt<BlockSize = U16> {}

impl<C: KeyInit + BlockCipherEncrypt<BlockSize = U16>> Cipher for C {}

fn cipher<C: Cipher>(args: &Args<'_>) -> Result<C, HostError> {
    let key = args.bytes(1)?;
    C::new_from_slice(&key)
        .map_err(|_| args.wrong(1, &format!("expects key {} bytes long", C::key_size())))
}

fn encrypt<C: Cipher>(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let mut text = args.filled(0, "expects string")?.into_owned();
    let cipher = cipher::<C>(args)?;
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
    one(Value::Bytes(sealed.into()))
}

fn decrypt<C: Cipher>(args: &Args<'_>) -> Result<Returns, HostError> {
    let sealed = args.filled(0, "expects string")?;
    let cipher = cipher::<C>(args)?;
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
    one(Value::Bytes(text.into()))
}

/// One step of cipher feedback: the register is encrypted, and laid over the chunk.
fn mask<C: Cipher>(cipher: &C, register: [u8; BLOCK_BYTES], chunk: &mut [u8]) {
    let mut block = Array::from(register);
    cipher.encrypt_block(&mut block);
    for (byte, key) in chunk.iter_mut().zip(block) {
        *byte ^= key;
    }
}

pub(super) fn bcrypt_hash(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    args.slowly()?;
    let input = args.filled(0, "expects string")?;
    let salt = host.random().bytes();
    let hash = bcrypt::hash_with_salt(&*input, BCRYPT_COST, salt)
        .map_err(|error| HostError::new(format!("error hashing input: {error}")))?;
    one(Value::text(hash.format_for_version(bcrypt::Version::TwoA)))
}

pub(super) fn bcrypt_compare(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    args.slowly()?;
    let hash = args.filled_text(0, "expects string")?;
    let plain = args.filled(1, "expects string")?;
    let cost = hash.split('$').nth(2).and_then(|cost| cost.parse().ok()).unwrap_or(0);
    if cost > BCRYPT_COST_MAX {
        return Err(HostError::new(format!(
            "error comparing hash and plaintext: cost {cost} is above {BCRYPT_COST_MAX}"
        )));
    }
    if hash.len() < 59 {
        return one(Value::Bool(false));
    }
    let same = bcrypt::verify(&*plain, &hash)
        .map_err(|error| HostError::new(format!("error comparing hash and plaintext: {error}")))?;
    one(Value::Bool(same))
}

pub(super) fn jwt_generate(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let head: &[u8] = match &*args.filled(0, "expects string")? {
        b"HS256" => br#"{"alg":"HS256","typ":"JWT"}"#,
        b"RS256" => br#"{"alg":"RS256","typ":"JWT"}"#,
        _ => {
            return Err(args.wrong(0, "unsupported algo type - only allowed 'HS256', 'RS256'."));
        }
    };
    let key = args.filled(1, "expects string")?;
    if !matches!(args.value(2), Value::Map(_)) {
        return Err(args.wrong(2, "expects a table of claims"));
    }
    let claims = json::encode_for(args.value(2), args.meter)
        .map_err(|error| HostError::new(format!("failed to sign token: {error}")))?;
    let mut token = URL_SAFE_NO_PAD.encode(head);
    token.push('.');
    token.push_str(&URL_SAFE_NO_PAD.encode(claims));
    let signature = if head.starts_with(b"{\"alg\":\"RS") {
        rsa::sign(args, &key, token.as_bytes())
    } else {
        hmac_sha256(&key, token.as_bytes())
    };
    let signature = URL_SAFE_NO_PAD.encode(signature?);
    token.push('.');
    token.push_str(&signature);
    one(Value::text(token))
}

pub(super) fn secure_random_bytes(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let Some(count @ 1..=1_000) = usize::try_from(args.int(0)?).ok() else {
        return Err(args.wrong(0, "count must be 1-1000"));
    };
    let mut bytes = vec![0; count];
    host.random().fill(&mut bytes);
    one(Value::Bytes(bytes.into()))
}
