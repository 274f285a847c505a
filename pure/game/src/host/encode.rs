//! `json_*`, `base64*_*`, `base16_*`, `uuid_*`: bytes to text and back.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use uuid::{Builder, Uuid};

use super::{Args, Returns, json, one};
use crate::guest::{Host, HostError};
use crate::value::Value;

/// Encoders with and without padding; both accept text with and without.
const fn engine(alphabet: &base64::alphabet::Alphabet, padding: bool) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_encode_padding(padding)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(alphabet, config)
}

const STANDARD_PADDED: GeneralPurpose = engine(&STANDARD, true);
const STANDARD_BARE: GeneralPurpose = engine(&STANDARD, false);
const URL_PADDED: GeneralPurpose = engine(&URL_SAFE, true);
const URL_BARE: GeneralPurpose = engine(&URL_SAFE, false);

pub(super) fn json_encode(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let text = json::encode_for(args.any(0)?, args.meter)
        .map_err(|error| HostError::new(format!("error encoding to JSON: {error}")))?;
    one(Value::Bytes(text.into()))
}

pub(super) fn json_decode(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let text = args.filled(0, "expects JSON string")?;
    let value = json::decode_for(&text, args.meter)
        .map_err(|error| HostError::new(format!("not a valid JSON string: {error}")))?;
    one(value)
}

pub(super) fn base64_encode(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let bytes = args.filled(0, "expects string")?;
    let engine = if args.bool_or(1, true)? { STANDARD_PADDED } else { STANDARD_BARE };
    args.produce(bytes.len().saturating_mul(4) / 3)?;
    one(Value::text(engine.encode(&*bytes)))
}

pub(super) fn base64_decode(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    decode_with(&STANDARD_PADDED, args, "base64")
}

pub(super) fn base64url_encode(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let bytes = args.filled(0, "expects string")?;
    let engine = if args.bool_or(1, true)? { URL_PADDED } else { URL_BARE };
    args.produce(bytes.len().saturating_mul(4) / 3)?;
    one(Value::text(engine.encode(&*bytes)))
}

pub(super) fn base64url_decode(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    decode_with(&URL_PADDED, args, "base64 url")
}

fn decode_with(engine: &GeneralPurpose, args: &Args<'_>, kind: &str) -> Result<Returns, HostError> {
    let text = args.filled(0, "expects string")?;
    args.produce(text.len().saturating_mul(2))?;
    // Go's decoder skips line ends, so mail-style text is accepted.
    let text: Vec<u8> = text.iter().copied().filter(|byte| !b"\r\n".contains(byte)).collect();
    let bytes = engine
        .decode(text)
        .map_err(|error| HostError::new(format!("not a valid {kind} string: {error}")))?;
    one(Value::Bytes(bytes.into()))
}

pub(super) fn base16_encode(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let bytes = args.filled(0, "expects string")?;
    args.produce(bytes.len().saturating_mul(2))?;
    one(Value::text(hex(&bytes)))
}

pub(super) fn base16_decode(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let text = args.filled(0, "expects string")?;
    args.produce(text.len() / 2)?;
    let bytes = unhex(&text).ok_or_else(|| HostError::new("not a valid base16 string"))?;
    one(Value::Bytes(bytes.into()))
}

/// Lower-case hexadecimal text.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    let mut text = String::with_capacity(bytes.len() * 2);
    text.extend(bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]));
    text
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
}

pub(super) fn uuid_v4(host: &mut dyn Host, _: &Args<'_>) -> Result<Returns, HostError> {
    let id = Builder::from_random_bytes(host.random().bytes()).into_uuid();
    one(Value::text(id.to_string()))
}

pub(super) fn uuid_bytes_to_string(
    _: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let bytes = args.filled(0, "expects a UUID byte string")?;
    let id = Uuid::from_slice(&bytes).map_err(|_| args.wrong(0, "not a valid UUID byte string"))?;
    one(Value::text(id.to_string()))
}

pub(super) fn uuid_string_to_bytes(
    _: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    args.filled(0, "expects a UUID string")?;
    let id = args.uuid(0, "not a valid UUID string")?;
    one(Value::Bytes(Bytes::copy_from_slice(id.as_bytes())))
}
