//! `json_*`, `base64*_*`, `base16_*`, `uuid_*`: bytes to text and back.

use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use event::Random;
use uuid::{Builder, Uuid};
use wire::hex;

use super::{Args, Meter, json};
use crate::guest::HostError;
use crate::value::Value;

/// A kind of base64. Both of its encoders accept text with and without padding.
pub(super) struct Base64 {
    padded: GeneralPurpose,
    bare: GeneralPurpose,
    /// What errors call it.
    name: &'static str,
}

/// The usual alphabet.
pub(super) static BASE64: Base64 = Base64::new(&STANDARD, "base64");

/// The alphabet for URLs.
pub(super) static BASE64_URL: Base64 = Base64::new(&URL_SAFE, "base64 url");

impl Base64 {
    const fn new(alphabet: &Alphabet, name: &'static str) -> Self {
        let config =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        Self {
            padded: GeneralPurpose::new(alphabet, config.with_encode_padding(true)),
            bare: GeneralPurpose::new(alphabet, config.with_encode_padding(false)),
            name,
        }
    }

    pub(super) fn encode(
        &self,
        args: &Args<'_>,
        bytes: &[u8],
        padding: bool,
    ) -> Result<String, HostError> {
        args.produce(bytes.len().saturating_mul(4) / 3)?;
        Ok(if padding { &self.padded } else { &self.bare }.encode(bytes))
    }

    pub(super) fn decode(&self, args: &Args<'_>, text: &[u8]) -> Result<Vec<u8>, HostError> {
        args.produce(text.len().saturating_mul(2))?;
        // Go's decoder skips line ends, so mail-style text is accepted.
        let text: Vec<u8> = text.iter().copied().filter(|byte| !b"\r\n".contains(byte)).collect();
        self.padded
            .decode(text)
            .map_err(|error| HostError::new(format!("not a valid {} string: {error}", self.name)))
    }
}

pub(super) fn json_encode(meter: &dyn Meter, value: &Value) -> Result<Vec<u8>, HostError> {
    json::encode_for(value, meter)
        .map_err(|error| HostError::new(format!("error encoding to JSON: {error}")))
}

pub(super) fn json_decode(meter: &dyn Meter, text: &[u8]) -> Result<Value, HostError> {
    json::decode_for(text, meter)
        .map_err(|error| HostError::new(format!("not a valid JSON string: {error}")))
}

pub(super) fn base16_encode(args: &Args<'_>, bytes: &[u8]) -> Result<String, HostError> {
    args.produce(bytes.len().saturating_mul(2))?;
    Ok(hex::encode(bytes))
}

pub(super) fn base16_decode(args: &Args<'_>, text: &[u8]) -> Result<Vec<u8>, HostError> {
    args.produce(text.len() / 2)?;
    hex::decode(text).ok_or_else(|| HostError::new("not a valid base16 string"))
}

pub(super) fn uuid_v4(random: &mut Random) -> String {
    Builder::from_random_bytes(random.bytes()).into_uuid().to_string()
}

/// The text of an id that is given as the first argument's bytes.
pub(super) fn uuid_text(args: &Args<'_>, bytes: &[u8]) -> Result<String, HostError> {
    let id = Uuid::from_slice(bytes);
    id.map(|id| id.to_string()).map_err(|_| args.wrong(0, "not a valid UUID byte string"))
}
