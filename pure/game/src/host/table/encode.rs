//! JSON, base64, base16 and ids.

use super::built;
use crate::host::{HostFunction, encode};

pub(super) const ROWS: &[HostFunction] = &[
    built(
        "base16_decode",
        encode::base16_decode,
        "(text: string) -> bytes: string",
        "Bytes of hexadecimal text.",
        "return nk.base16_decode(\"6869\") -- hi",
    ),
    built(
        "base16_encode",
        encode::base16_encode,
        "(bytes: string) -> text: string",
        "Bytes as lower-case hexadecimal text.",
        "return nk.base16_encode(\"hi\") -- 6869",
    ),
    built(
        "base64_decode",
        encode::base64_decode,
        "(text: string) -> bytes: string",
        "Bytes of base64 text, with or without padding.",
        "return nk.base64_decode(\"aGk=\") -- hi",
    ),
    built(
        "base64_encode",
        encode::base64_encode,
        "(bytes: string, padding?: boolean = true) -> text: string",
        "Bytes as base64 text.",
        "return nk.base64_encode(\"hi\") -- aGk=",
    ),
    built(
        "base64url_decode",
        encode::base64url_decode,
        "(text: string) -> bytes: string",
        "Bytes of base64 text in the alphabet for URLs, with or without padding.",
        "return nk.base64url_decode(\"_-4\")",
    ),
    built(
        "base64url_encode",
        encode::base64url_encode,
        "(bytes: string, padding?: boolean = true) -> text: string",
        "Bytes as base64 text in the alphabet for URLs.",
        "return nk.base64url_encode(\"hi\", false)",
    ),
    built(
        "json_decode",
        encode::json_decode,
        "(text: string) -> value: any",
        "The value of JSON text. Text that is not JSON is an error: catch it with `pcall` where a \
         client sent it.",
        "local is_json, wish = pcall(nk.json_decode, payload)\n\
         if not is_json or type(wish) ~= \"table\" then return \"not JSON\" end",
    ),
    built(
        "json_encode",
        encode::json_encode,
        "(value: any) -> text: string",
        "A value as JSON text. Tables with the keys 1, 2, 3, … become arrays, others objects; an empty \
         table is `{}`.",
        "return nk.json_encode({ name = \"Ann\", scores = { 3, 5, 8 } })",
    ),
    built(
        "uuid_bytes_to_string",
        encode::uuid_bytes_to_string,
        "(bytes: string) -> id: string",
        "An id of 16 bytes as text.",
        "return nk.uuid_bytes_to_string(nk.uuid_string_to_bytes(context.user_id))",
    ),
    built(
        "uuid_string_to_bytes",
        encode::uuid_string_to_bytes,
        "(id: string) -> bytes: string",
        "An id as 16 bytes.",
        "local bytes = nk.uuid_string_to_bytes(context.user_id)",
    ),
    built(
        "uuid_v4",
        encode::uuid_v4,
        "() -> id: string",
        "A new random id.",
        "return nk.uuid_v4()",
    ),
];
