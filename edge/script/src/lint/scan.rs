//! The tokens of a module, as far as `lint` looks at them: names, strings, and punctuation byte by
//! byte. Comments and white space are gone.
//!
//! It never fails: what is not Lua has been refused by the compiler before, and whatever is left
//! becomes punctuation.

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or a keyword.
    Name(&'a str),
    /// The inside of a string, escapes as written.
    Text(&'a str),
    /// A number; its value does not matter here.
    Number,
    /// Any other byte.
    Mark(u8),
}

/// The tokens and the line, from 1, on which each begins. Text that is not UTF-8 has none.
pub(super) fn tokens(text: &[u8]) -> Vec<(Token<'_>, u32)> {
    let mut scanner = Scanner { rest: std::str::from_utf8(text).unwrap_or_default(), line: 1 };
    let mut found = Vec::new();
    while let Some(token) = scanner.next() {
        found.push(token);
    }
    found
}

struct Scanner<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Scanner<'a> {
    /// Takes so many bytes, and counts their lines.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        let lines = taken.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        taken
    }

    fn take_while(&mut self, is_in: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|byte| !is_in(byte)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn next(&mut self) -> Option<(Token<'a>, u32)> {
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace());
            if !self.rest.starts_with("--") {
                break;
            }
            self.take(2);
            if self.long_bracket().is_none() {
                self.take_while(|byte| byte != b'\n');
            }
        }
        let line = self.line;
        let first = *self.rest.as_bytes().first()?;
        let token = match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                Token::Name(self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
            }
            b'0'..=b'9' => {
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_'
                });
                Token::Number
            }
            b'"' | b'\'' => Token::Text(self.quoted(first)),
            b'[' => match self.long_bracket() {
                Some(inside) => Token::Text(inside),
                None => self.mark(),
            },
            _ => self.mark(),
        };
        Some((token, line))
    }

    fn mark(&mut self) -> Token<'a> {
        let first = self.rest.chars().next();
        let mark = first.and_then(|it| u8::try_from(it).ok()).unwrap_or(b'?');
        self.take(first.map_or(1, char::len_utf8));
        Token::Mark(mark)
    }

    /// A string in quotes; the inside as it is written.
    fn quoted(&mut self, quote: u8) -> &'a str {
        self.take(1);
        let mut is_escaped = false;
        let end = self.rest.bytes().position(|byte| {
            let ends = byte == quote && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        let inside = self.take(end.unwrap_or(self.rest.len()));
        self.take(1);
        inside
    }

    /// `[[…]]` or `[=[…]=]`, if the rest begins with one: the inside.
    fn long_bracket(&mut self) -> Option<&'a str> {
        let after = self.rest.strip_prefix('[')?;
        let level = after.bytes().position(|byte| byte != b'=')?;
        if after.as_bytes().get(level) != Some(&b'[') {
            return None;
        }
        let close = format!("]{}]", "=".repeat(level));
        self.take(level + 2);
        let inside = self.take(self.rest.find(&close).unwrap_or(self.rest.len()));
        self.take(close.len());
        Some(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    #[test]
    fn strings_and_comments_hide_what_is_in_them() {
        for (text, wanted) in [
            ("nk.time()", "nk . time ( )"),
            ("-- nk.x\nnk", "nk"),
            ("--[[ nk.x\n]] nk --[==[ ]] ]==] y", "nk y"),
            ("'it\\'s' \"a\\\\\" z", "'it\\'s' 'a\\\\' z"),
            ("[[a]b]] [==[]]]==] a[b[1]]", "'a]b' ']]' a [ b [ 0 ] ]"),
            ("1.5e3 ..x", "0 . . x"),
            ("a=0x1F;b~=c", "a = 0 ; b ~ = c"),
            ("'never ends", "'never ends'"),
            ("--[[ never ends", ""),
            ("é", "?"),
        ] {
            let shown: Vec<String> = tokens(text.as_bytes())
                .into_iter()
                .map(|(token, _)| match token {
                    Token::Name(name) => name.to_owned(),
                    Token::Text(text) => format!("'{text}'"),
                    Token::Number => "0".to_owned(),
                    Token::Mark(mark) => char::from(mark).to_string(),
                })
                .collect();
            let wanted = wanted.replace('?', "é");
            assert_eq!(shown.join(" "), wanted, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let lines: Vec<u32> =
            tokens(b"a --[[\n\n]] b\n'\\\n' c\n[[\n]] d").iter().map(|(_, line)| *line).collect();
        assert_eq!(lines, [1, 3, 4, 5, 6, 7]);
    }
}
