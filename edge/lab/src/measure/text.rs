//! Text of strangers, for terminals and pages: what a server or a file says can neither move a
//! cursor nor become markup.

/// Characters of an error's example that are printed, at most.
const EXAMPLE_CHARS_MAX: usize = 200;

/// Text of a stranger as one line for a terminal: as it is, but control characters and what cannot
/// be seen escaped, and cut.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (index, c) in text.trim_end().chars().enumerate() {
        if index == EXAMPLE_CHARS_MAX {
            line.push('…');
            break;
        }
        if "\"'\\".contains(c) {
            line.push(c);
        } else {
            line.extend(c.escape_debug());
        }
    }
    line
}

/// Words in lines of at most so many columns, the first after `first`, the others after `rest`; a
/// word that is longer has a line of its own.
pub(crate) fn wrap(first: &str, rest: &str, text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let width = line.chars().count() + word.chars().count() + usize::from(!is_empty);
        if width > columns && !is_empty {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Text for HTML and XML, also within quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{one_line, wrap};

    #[test]
    fn words_are_never_broken() {
        assert_eq!(wrap("- ", "  ", "one two three", 9), ["- one two", "  three"]);
        assert_eq!(wrap("", "  ", "a-very-long-word b", 5), ["a-very-long-word", "  b"]);
        assert_eq!(wrap("x", "", "", 5), ["x"]);
    }

    #[test]
    fn examples_are_printed_as_they_are() {
        for (text, wanted) in [
            ("{\"a\":\"it's \\ é 漢\"}", "{\"a\":\"it's \\ é 漢\"}"),
            ("a\r\nb\u{1b}[2J\u{0}", "a\\r\\nb\\u{1b}[2J\\0"),
            ("\u{202e}left\u{fffd}", "\\u{202e}left\u{fffd}"),
            ("the end\n", "the end"),
        ] {
            assert_eq!(one_line(text), wanted);
        }
        assert_eq!(one_line(&"é".repeat(300)), format!("{}…", "é".repeat(200)));
    }
}
