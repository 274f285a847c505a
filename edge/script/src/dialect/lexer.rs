//! The tokens of a Lua text, and the changes that single tokens need: escapes and numerals that
//! Luau reads differently.
//!
//! Source: nakama 3.40, `internal/gopher-lua/parse/lexer.go`.

use super::{Edit, SyntaxError, Trouble, Work};

/// What a token is; which symbol or keyword, its text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    Keyword,
    Number,
    Text,
    Symbol,
    End,
}

/// One token: bytes `start..end` of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Line from 1.
    pub(crate) line: u32,
}

/// Bytes of a token, and of the blanks before it, that cost a step.
const BYTES_PER_STEP: usize = 32;

const KEYWORDS: [&[u8]; 22] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"goto",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    edits: Vec<Edit>,
}

/// The tokens, the last of which is [`Kind::End`], and changes within tokens.
pub(super) fn tokens(text: &[u8], work: &mut Work) -> Result<(Vec<Token>, Vec<Edit>), Trouble> {
    let mut lexer = Lexer { text, at: 0, line: 1, edits: Vec::new() };
    let mut tokens = Vec::with_capacity(text.len() / 4);
    loop {
        let before = lexer.at;
        let token = lexer.token()?;
        work.pay(1 + (lexer.at - before) / BYTES_PER_STEP)?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok((tokens, lexer.edits));
        }
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn error<T>(&self, message: &str) -> Result<T, SyntaxError> {
        Err(SyntaxError { line: self.line, message: message.to_owned() })
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        self.blanks()?;
        let (start, line) = (self.at, self.line);
        let Some(&first) = self.text.get(start) else {
            return Ok(Token { kind: Kind::End, start, end: start, line });
        };
        let kind = match first {
            b'"' | b'\'' => self.string(first)?,
            b'[' if self.level().is_some() => {
                self.long("string")?;
                Kind::Text
            }
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() => self.number(),
            _ if is_name_byte(first) => {
                while is_name_byte(self.peek(0)) {
                    self.at += 1;
                }
                let word = self.text.get(start..self.at).unwrap_or_default();
                if KEYWORDS.contains(&word) { Kind::Keyword } else { Kind::Name }
            }
            _ => self.symbol(first)?,
        };
        Ok(Token { kind, start, end: self.at, line })
    }

    fn symbol(&mut self, first: u8) -> Result<Kind, SyntaxError> {
        let second = self.peek(1);
        self.at += match first {
            b'.' if second == b'.' && self.peek(2) == b'.' => 3,
            b'.' if second == b'.' => 2,
            b':' if second == b':' => 2,
            b'=' | b'<' | b'>' if second == b'=' => 2,
            b'~' if second == b'=' => 2,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'#' | b'(' | b')' | b'{' | b'}' | b'['
            | b']' | b';' | b',' | b'.' | b':' | b'=' | b'<' | b'>' => 1,
            _ => {
                let shown = char::from(first).escape_default();
                return self.error(&format!("unexpected symbol near '{shown}'"));
            }
        };
        Ok(Kind::Symbol)
    }

    /// Skips white space and comments.
    fn blanks(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.peek(0) {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                b'-' if self.peek(1) == b'-' => {
                    self.at += 2;
                    if self.level().is_some() {
                        self.long("comment")?;
                    } else {
                        let rest = self.text.get(self.at..).unwrap_or_default();
                        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// How many `=` stand in the long bracket that opens here, if one does.
    fn level(&self) -> Option<usize> {
        let rest = self.text.get(self.at..)?.strip_prefix(b"[")?;
        let level = rest.iter().take_while(|&&byte| byte == b'=').count();
        (rest.get(level) == Some(&b'[')).then_some(level)
    }

    fn long(&mut self, what: &str) -> Result<(), SyntaxError> {
        let level = self.level().unwrap_or(0);
        let mut close = vec![b']'];
        close.extend(std::iter::repeat_n(b'=', level));
        close.push(b']');
        let inner = self.at + level + 2;
        let rest = self.text.get(inner..).unwrap_or_default();
        let Some(length) = memchr::memmem::find(rest, &close) else {
            return self.error(&format!("unfinished long {what}"));
        };
        let lines = memchr::memchr_iter(b'\n', rest.get(..length).unwrap_or_default()).count();
        self.line += u32::try_from(lines).unwrap_or(0);
        self.at = inner + length + close.len();
        Ok(())
    }

    /// `5or x` is a number and a word; Luau wants a blank between them.
    fn number(&mut self) -> Kind {
        let digits = |lexer: &mut Self, is_digit: fn(&u8) -> bool| {
            while is_digit(&lexer.peek(0)) {
                lexer.at += 1;
            }
        };
        if self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X') {
            self.at += 2;
            digits(self, u8::is_ascii_hexdigit);
        } else {
            digits(self, u8::is_ascii_digit);
            if self.peek(0) == b'.' {
                self.at += 1;
                digits(self, u8::is_ascii_digit);
            }
            let signed = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + signed).is_ascii_digit() {
                self.at += 1 + signed;
                digits(self, u8::is_ascii_digit);
            }
        }
        if is_name_byte(self.peek(0)) || self.peek(0) == b'.' {
            self.edits.push(Edit::insert(self.at, " "));
        }
        Kind::Number
    }

    fn string(&mut self, quote: u8) -> Result<Kind, SyntaxError> {
        self.at += 1;
        loop {
            match self.text.get(self.at) {
                None | Some(b'\n') => return self.error("unfinished string"),
                Some(b'\\') => self.escape(),
                Some(&byte) => {
                    self.at += 1;
                    if byte == quote {
                        return Ok(Kind::Text);
                    }
                }
            }
        }
    }

    /// Luau's own escapes are plain letters in 5.1; a decimal code above 255 keeps its low byte.
    fn escape(&mut self) {
        let (backslash, escaped) = (self.at, self.peek(1));
        self.at += 2;
        match escaped {
            b'x' | b'z' | b'u' => {
                self.edits.push(Edit { at: backslash, removed: 1, text: String::new() });
            }
            b'\n' => self.line += 1,
            b'0'..=b'9' => {
                let mut code = u32::from(escaped - b'0');
                let mut length = 1;
                while length < 3 && self.peek(0).is_ascii_digit() {
                    code = code * 10 + u32::from(self.peek(0) - b'0');
                    self.at += 1;
                    length += 1;
                }
                if code > 255 {
                    let text = format!("{:03}", code % 256);
                    self.edits.push(Edit { at: backslash + 1, removed: length, text });
                }
            }
            _ => {}
        }
    }
}
