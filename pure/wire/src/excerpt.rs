//! What of a peer's text may stand in an error: its beginning. An answer that quotes a whole field
//! lets a request of 262 KB cause an answer and a log line of 1.8 MB, because quoting escapes.
//!
//! In: text of any length. Out: at most [`EXCERPT_CHARS_MAX`] characters of it.

use std::fmt::{self, Write as _};

/// Characters of a peer's text that an error quotes, at most. In Rust's escaped form one takes 10
/// bytes at most.
pub const EXCERPT_CHARS_MAX: usize = 64;

/// Characters of an error's text that a library made, at most: an excerpt, escaped, and the words
/// around it.
pub const REASON_CHARS_MAX: usize = 1_024;

/// The first [`EXCERPT_CHARS_MAX`] characters of `text`.
#[must_use]
pub fn excerpt(text: &str) -> &str {
    let end = text.char_indices().nth(EXCERPT_CHARS_MAX).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// The first [`REASON_CHARS_MAX`] characters of what `error` says, which may quote what a peer
/// sent.
#[must_use]
pub fn reason(error: &dyn fmt::Display) -> String {
    let mut text = Beginning { text: String::new(), chars_left: REASON_CHARS_MAX };
    // Fails when it is cut, so that the rest is not even formatted.
    let _ = write!(text, "{error}");
    text.text
}

struct Beginning {
    text: String,
    chars_left: usize,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = more.char_indices().nth(self.chars_left).map_or(more.len(), |(at, _)| at);
        self.text.push_str(&more[..end]);
        self.chars_left -= more[..end].chars().count();
        if end == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        for max in [EXCERPT_CHARS_MAX - 1, EXCERPT_CHARS_MAX] {
            assert_eq!(excerpt(&"é".repeat(max)), "é".repeat(max));
        }
        assert_eq!(excerpt(&"é".repeat(EXCERPT_CHARS_MAX + 1)), "é".repeat(EXCERPT_CHARS_MAX));
        assert_eq!(excerpt(""), "");
    }

    #[test]
    fn reasons_are_cut_wherever_their_pieces_end() {
        let whole = "é".repeat(REASON_CHARS_MAX);
        assert_eq!(reason(&whole), whole);
        assert_eq!(reason(&format_args!("{whole}x")), whole);
        assert_eq!(reason(&format_args!("{}x{whole}{whole}", "ab")), format!("abx{}", &whole[6..]));
    }
}
