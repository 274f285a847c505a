//! Control characters of log lines in the text format, written out: nobody whose text is logged (a
//! script, a client's name) can make lines of his own or steer the terminal. JSON does so by itself.

use std::fmt::Write as _;

/// Writes control characters as `\n` or `\u{1b}`. The line's own end stays, and so do colours on a
/// terminal: those are ours, and whoever forges one changes no more than the colour.
pub(super) fn escape(line: &mut Vec<u8>, colours: bool) {
    let text = String::from_utf8_lossy(line);
    let mut rest = text.strip_suffix('\n').unwrap_or(&text);
    if !rest.contains(char::is_control) {
        return;
    }
    let mut escaped = String::with_capacity(rest.len() + 64);
    while let Some(letter) = rest.chars().next() {
        let colour = if colours { colour_bytes(rest) } else { 0 };
        let (taken, after) = rest.split_at(colour.max(letter.len_utf8()));
        rest = after;
        match letter {
            _ if colour > 0 => escaped.push_str(taken),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            control if control.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(control));
            }
            other => escaped.push(other),
        }
    }
    *line = escaped.into_bytes();
}

/// The length of the colour that a text begins with (`ESC [ 1 ; 31 m`); 0 if it begins otherwise.
fn colour_bytes(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return 0 };
    let digits = rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
    if rest.as_bytes().get(digits) == Some(&b'm') { digits + 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::escape;

    fn check(line: &str, colours: bool, expected: &str) {
        let mut bytes = line.as_bytes().to_vec();
        escape(&mut bytes, colours);
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn control_characters_are_written_out_and_colours_stay_where_they_are_ours() {
        for colours in [false, true] {
            check("plain ä text\n", colours, "plain ä text");
            check("a\r\nERROR forged\tb\n", colours, "a\\r\\nERROR forged\\tb");
            check("\u{0}\u{7}\u{7f}\u{85}\u{9b}2J", colours, "\\u{0}\\u{7}\\u{7f}\\u{85}\\u{9b}2J");
            check("\u{1b}[2J\u{1b}]0;title\u{7}", colours, "\\u{1b}[2J\\u{1b}]0;title\\u{7}");
            check("\u{1b}", colours, "\\u{1b}");
        }
        check("\u{1b}[1;31mred\u{1b}[0m\n", true, "\u{1b}[1;31mred\u{1b}[0m");
        check("\u{1b}[31mred", false, "\\u{1b}[31mred");
    }
}
