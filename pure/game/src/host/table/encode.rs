//! JSON, base64, base16 and ids.

use bytes::Bytes;

use crate::host::declare::functions;
use crate::host::encode::{self, BASE64, BASE64_URL};
use crate::host::read::{anything, filled, filled_id, flag};
use crate::value::Value;

functions! {
    ROWS(host, args) {
        /// Bytes of hexadecimal text.
        /// ```lua
        /// return nk.base16_decode("6869") -- hi
        /// ```
        built base16_decode(text: filled("expects string")) -> (bytes: Vec<u8>)
            = encode::base16_decode(args, &text);
        /// Bytes as lower-case hexadecimal text.
        /// ```lua
        /// return nk.base16_encode("hi") -- 6869
        /// ```
        built base16_encode(bytes: filled("expects string")) -> (text: String)
            = encode::base16_encode(args, &bytes);
        /// Bytes of base64 text, with or without padding.
        /// ```lua
        /// return nk.base64_decode("aGk=") -- hi
        /// ```
        built base64_decode(text: filled("expects string")) -> (bytes: Vec<u8>)
            = BASE64.decode(args, &text);
        /// Bytes as base64 text.
        /// ```lua
        /// return nk.base64_encode("hi") -- aGk=
        /// ```
        built base64_encode(bytes: filled("expects string"), padding: flag(true)) -> (text: String)
            = BASE64.encode(args, &bytes, padding);
        /// Bytes of base64 text in the alphabet for URLs, with or without padding.
        /// ```lua
        /// return nk.base64url_decode("_-4")
        /// ```
        built base64url_decode(text: filled("expects string")) -> (bytes: Vec<u8>)
            = BASE64_URL.decode(args, &text);
        /// Bytes as base64 text in the alphabet for URLs.
        /// ```lua
        /// return nk.base64url_encode("hi", false)
        /// ```
        built base64url_encode(
            bytes: filled("expects string"), padding: flag(true),
        ) -> (text: String)
            = BASE64_URL.encode(args, &bytes, padding);
        /// The value of JSON text. Text that is not JSON is an error: catch it with `pcall` where a
        /// client sent it.
        /// ```lua
        /// local is_json, wish = pcall(nk.json_decode, payload)
        /// if not is_json or type(wish) ~= "table" then return "not JSON" end
        /// ```
        built json_decode(text: filled("expects JSON string")) -> (value: Value)
            = encode::json_decode(args.meter, &text);
        /// A value as JSON text. Tables with the keys 1, 2, 3, … become arrays, others objects; an
        /// empty table is `{}`.
        /// ```lua
        /// return nk.json_encode({ name = "Ann", scores = { 3, 5, 8 } })
        /// ```
        built json_encode(value: anything()) -> (text: Vec<u8>)
            = encode::json_encode(args.meter, value);
        /// An id of 16 bytes as text.
        /// ```lua
        /// return nk.uuid_bytes_to_string(nk.uuid_string_to_bytes(context.user_id))
        /// ```
        built uuid_bytes_to_string(bytes: filled("expects a UUID byte string")) -> (id: String)
            = encode::uuid_text(args, &bytes);
        /// An id as 16 bytes.
        /// ```lua
        /// local bytes = nk.uuid_string_to_bytes(context.user_id)
        /// ```
        built uuid_string_to_bytes(
            id: filled_id("expects a UUID string", "not a valid UUID string"),
        ) -> (bytes: Bytes)
            = Ok(Bytes::copy_from_slice(id.as_bytes()));
        /// A new random id.
        /// ```lua
        /// return nk.uuid_v4()
        /// ```
        built uuid_v4() -> (id: String) = Ok(encode::uuid_v4(host.random()));
    }
}
