//! Bytes as hexadecimal text and back (RFC 4648, section 8). No separators, no `0x`.

/// Lower-case hexadecimal text: two digits a byte.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    let mut text = String::with_capacity(bytes.len() * 2);
    text.extend(bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]));
    text
}

/// The bytes of hexadecimal text in lower or upper case; `None` for anything else.
#[must_use]
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn every_byte_goes_there_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = encode(&bytes);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"), "{text}");
        assert_eq!(decode(text.as_bytes()), Some(bytes.clone()));
        assert_eq!(decode(text.to_uppercase().as_bytes()), Some(bytes));
        for odd in ["0", "0g", "+1", "é"] {
            assert_eq!(decode(odd.as_bytes()), None, "{odd}");
        }
    }
}
