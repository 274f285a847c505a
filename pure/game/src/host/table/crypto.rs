//! Hashes, ciphers, signatures and random bytes.

use aes::{Aes128, Aes256};

use crate::host::declare::functions;
use crate::host::read::{filled, filled_text, object, string, within};
use crate::host::{crypto, rsa};

functions! {
    ROWS(host, args) {
        /// Reads what the function for encrypting wrote. It cannot tell whether the text was
        /// changed on its way.
        /// ```lua
        /// local key = "sixteen bytes !!"
        /// return nk.aes128_decrypt(nk.aes128_encrypt("hello", key), key)
        /// ```
        built aes128_decrypt(sealed: filled("expects string"), key: string()) -> (text: Vec<u8>)
            = crypto::decrypt::<Aes128>(args, &sealed, &key);
        /// AES-128 in CFB mode with a random start; the key has 16 bytes. The text is padded with
        /// spaces to a multiple of 4.
        /// ```lua
        /// local sealed = nk.aes128_encrypt("hello", "sixteen bytes !!")
        /// ```
        built aes128_encrypt(text: filled("expects string"), key: string()) -> (sealed: Vec<u8>)
            = crypto::encrypt::<Aes128>(host, args, text, &key);
        /// Reads what the function for encrypting wrote. It cannot tell whether the text was
        /// changed on its way.
        /// ```lua
        /// local key = ("k"):rep(32)
        /// return nk.aes256_decrypt(nk.aes256_encrypt("hello", key), key)
        /// ```
        built aes256_decrypt(sealed: filled("expects string"), key: string()) -> (text: Vec<u8>)
            = crypto::decrypt::<Aes256>(args, &sealed, &key);
        /// AES-256 in CFB mode with a random start; the key has 32 bytes. The text is padded with
        /// spaces to a multiple of 4.
        /// ```lua
        /// local sealed = nk.aes256_encrypt("hello", ("k"):rep(32))
        /// ```
        built aes256_encrypt(text: filled("expects string"), key: string()) -> (sealed: Vec<u8>)
            = crypto::encrypt::<Aes256>(host, args, text, &key);
        /// Whether a hash of `bcrypt_hash` is of this text. Slow on purpose: a call pays for it with its
        /// budget; a match's callback waits for it, in turns with all other hashes.
        /// ```lua
        /// local hash = nk.bcrypt_hash("secret")
        /// return tostring(nk.bcrypt_compare(hash, "secret")) -- true
        /// ```
        built [hashes] bcrypt_compare(
            hash: filled_text("expects string"), plain: filled("expects string"),
        ) -> (same: bool)
            = crypto::bcrypt_compare(host, args, &hash, &plain);
        /// A bcrypt hash of cost 13. Slow on purpose: a call pays for it with its budget; a match's
        /// callback waits for it, in turns with all other hashes.
        /// ```lua
        /// local hash = nk.bcrypt_hash("secret")
        /// ```
        built [hashes] bcrypt_hash(plain: filled("expects string")) -> (hash: String)
            = crypto::bcrypt_hash(host, args, &plain);
        /// HMAC-SHA256, as 32 raw bytes.
        /// ```lua
        /// return nk.base16_encode(nk.hmac_sha256_hash("message", "key"))
        /// ```
        built hmac_sha256_hash(
            input: filled("expects input string"), key: filled("expects key string"),
        ) -> (hash: Vec<u8>)
            = crypto::hmac_sha256(&key, &input);
        /// A signed JSON Web Token. The algorithm is `HS256`, or `RS256` with a private key as PEM.
        /// ```lua
        /// return nk.jwt_generate("HS256", "a key of your own", { sub = context.user_id })
        /// ```
        built jwt_generate(
            algorithm: filled("expects string"), key: filled("expects string"),
            claims: object("expects a table of claims"),
        ) -> (token: String)
            = crypto::jwt(args, &algorithm, &key, claims);
        /// MD5, as hexadecimal text. Not for secrets.
        /// ```lua
        /// return nk.md5_hash("hello")
        /// ```
        built md5_hash(input: filled("expects input string")) -> (hash: String)
            = Ok(crypto::md5(&input));
        /// The RSA signature of `input` (PKCS #1 v1.5, SHA-256), as raw bytes. The key is a private
        /// key as PEM, of at most 4,096 bits.
        /// ```lua
        /// local ok, signature = pcall(nk.rsa_sha256_hash, "hello", context.env.SIGNING_KEY or "none")
        /// if ok then return nk.base64_encode(signature) end
        /// ```
        built rsa_sha256_hash(
            input: filled("expects input string"), key: filled("expects key string"),
        ) -> (signature: Vec<u8>)
            = rsa::sign(args, &key, &input);
        /// Random bytes that nobody can guess.
        /// ```lua
        /// return nk.base16_encode(nk.secure_random_bytes(16))
        /// ```
        built secure_random_bytes(
            count: within::<usize>(1, 1_000, "count must be 1-1000"),
        ) -> (bytes: Vec<u8>)
            = Ok(crypto::random_bytes(host.random(), count));
        /// SHA-256, as hexadecimal text.
        /// ```lua
        /// return nk.sha256_hash("hello")
        /// ```
        built sha256_hash(input: filled("expects input string")) -> (hash: String)
            = Ok(crypto::sha256(&input));
    }
}
