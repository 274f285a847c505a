//! The one thing that is said in HTTP/2: that it is not spoken here. Clients of gRPC show the text to
//! their user, while an answer in HTTP/1.1 is to them a broken frame.
//!
//! Source: RFC 9113 sections 3.4 (a server's first frame is SETTINGS), 4.1, 6.5, 6.8, 7.

/// Frame types.
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// The endpoint requires HTTP/1.1.
const HTTP_1_1_REQUIRED: u32 = 0xd;

/// Bytes of the text; a frame may have 16,384.
const TEXT_BYTES_MAX: usize = 1_024;

/// Bytes to send to a client that began with the preface of HTTP/2, before the connection is closed.
/// What of `text` is beyond 1,024 bytes is left out.
#[must_use]
pub fn refusal(text: &str) -> Vec<u8> {
    let text = text.as_bytes().get(..TEXT_BYTES_MAX).unwrap_or(text.as_bytes());
    let mut bytes = Vec::with_capacity(9 + 9 + 8 + text.len());
    frame_head(&mut bytes, 0, SETTINGS);
    frame_head(&mut bytes, 8 + text.len(), GOAWAY);
    // No stream was looked at.
    bytes.extend_from_slice(&0_u32.to_be_bytes());
    bytes.extend_from_slice(&HTTP_1_1_REQUIRED.to_be_bytes());
    bytes.extend_from_slice(text);
    bytes
}

/// Length, type, no flags, and stream 0: the whole connection.
fn frame_head(bytes: &mut Vec<u8>, length: usize, kind: u8) {
    // The length has 24 bits; ours are far below.
    let length = u32::try_from(length).unwrap_or(0).to_be_bytes();
    bytes.extend_from_slice(&length[1..]);
    bytes.extend_from_slice(&[kind, 0, 0, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn a_refusal_is_settings_and_goaway() {
        let wanted = b"\0\0\0\x04\0\0\0\0\0\0\0\x0a\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0dno";
        assert_eq!(refusal("no"), wanted);
        assert_eq!(refusal(&"x".repeat(5_000)).len(), 26 + 1_024);
    }
}
