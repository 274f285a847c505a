//! Hashes, ciphers, signatures and random bytes.

use super::built;
use crate::host::{HostFunction, crypto, rsa};

const AES_DECRYPT: &str = "Reads what the function for encrypting wrote. It cannot tell whether the \
                           text was changed on its way.";

pub(super) const ROWS: &[HostFunction] = &[
    built(
        "aes128_decrypt",
        crypto::aes128_decrypt,
        "(sealed: string, key: string) -> text: string",
        AES_DECRYPT,
        "local key = \"sixteen bytes !!\"\n\
         return nk.aes128_decrypt(nk.aes128_encrypt(\"hello\", key), key)",
    ),
    built(
        "aes128_encrypt",
        crypto::aes128_encrypt,
        "(text: string, key: string) -> sealed: string",
        "AES-128 in CFB mode with a random start; the key has 16 bytes. The text is padded with \
         spaces to a multiple of 4.",
        "local sealed = nk.aes128_encrypt(\"hello\", \"sixteen bytes !!\")",
    ),
    built(
        "aes256_decrypt",
        crypto::aes256_decrypt,
        "(sealed: string, key: string) -> text: string",
        AES_DECRYPT,
        "local key = (\"k\"):rep(32)\nreturn nk.aes256_decrypt(nk.aes256_encrypt(\"hello\", key), key)",
    ),
    built(
        "aes256_encrypt",
        crypto::aes256_encrypt,
        "(text: string, key: string) -> sealed: string",
        "AES-256 in CFB mode with a random start; the key has 32 bytes. The text is padded with \
         spaces to a multiple of 4.",
        "local sealed = nk.aes256_encrypt(\"hello\", (\"k\"):rep(32))",
    ),
    built(
        "bcrypt_compare",
        crypto::bcrypt_compare,
        "(hash: string, plain: string) -> same: boolean",
        "Whether a hash of `bcrypt_hash` is of this text. Slow on purpose: it is charged to the call's \
         budget, and refused in a match.",
        "local hash = nk.bcrypt_hash(\"secret\")\n\
         return tostring(nk.bcrypt_compare(hash, \"secret\")) -- true",
    ),
    built(
        "bcrypt_hash",
        crypto::bcrypt_hash,
        "(plain: string) -> hash: string",
        "A bcrypt hash of cost 13. Slow on purpose: it is charged to the call's budget, and refused in a \
         match.",
        "local hash = nk.bcrypt_hash(\"secret\")",
    ),
    built(
        "hmac_sha256_hash",
        crypto::hmac_sha256_hash,
        "(input: string, key: string) -> hash: string",
        "HMAC-SHA256, as 32 raw bytes.",
        "return nk.base16_encode(nk.hmac_sha256_hash(\"message\", \"key\"))",
    ),
    built(
        "jwt_generate",
        crypto::jwt_generate,
        "(algorithm: string, key: string, claims: table) -> token: string",
        "A signed JSON Web Token. The algorithm is `HS256`, or `RS256` with a private key as PEM.",
        "return nk.jwt_generate(\"HS256\", \"a key of your own\", { sub = context.user_id })",
    ),
    built(
        "md5_hash",
        crypto::md5_hash,
        "(input: string) -> hash: string",
        "MD5, as hexadecimal text. Not for secrets.",
        "return nk.md5_hash(\"hello\")",
    ),
    built(
        "rsa_sha256_hash",
        rsa::rsa_sha256_hash,
        "(input: string, key: string) -> signature: string",
        "The RSA signature of `input` (PKCS #1 v1.5, SHA-256), as raw bytes. The key is a private key \
         as PEM, of at most 4,096 bits.",
        "local ok, signature = pcall(nk.rsa_sha256_hash, \"hello\", context.env.SIGNING_KEY or \"none\")\n\
         if ok then return nk.base64_encode(signature) end",
    ),
    built(
        "secure_random_bytes",
        crypto::secure_random_bytes,
        "(count: number) -> bytes: string",
        "Random bytes that nobody can guess.",
        "return nk.base16_encode(nk.secure_random_bytes(16))",
    ),
    built(
        "sha256_hash",
        crypto::sha256_hash,
        "(input: string) -> hash: string",
        "SHA-256, as hexadecimal text.",
        "return nk.sha256_hash(\"hello\")",
    ),
];
