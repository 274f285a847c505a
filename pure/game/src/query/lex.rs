//! Cuts a query into tokens. Which tokens may follow each other is the parser's business.
//!
//! Source: blugelabs/query_string, its lexer's behaviour: a word goes on to the next space, colon,
//! `^` or `~`; what begins as a number and goes on as something else is a word, of which the first
//! such character is a part even if it is a colon (`12:30`).

use super::QueryError;

/// One token and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) at: usize,
    pub(super) kind: Kind<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// A word, as written: backslashes are still in it.
    Word(&'a str),
    /// A number without a sign.
    Number(&'a str),
    /// What stands between quotes, backslashes resolved.
    Phrase(String),
    Plus,
    Minus,
    Colon,
    Greater,
    Less,
    Equal,
    /// What stands behind `^`.
    Boost(&'a str),
    /// What stands behind `~`.
    Tilde(&'a str),
}

/// Reads tokens one by one.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, QueryError> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        let (at, rest) = (self.at, self.rest());
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let (len, kind) = match first {
            '+' => (1, Kind::Plus),
            '-' => (1, Kind::Minus),
            ':' => (1, Kind::Colon),
            '>' => (1, Kind::Greater),
            '<' => (1, Kind::Less),
            '=' => (1, Kind::Equal),
            '^' => suffix(rest, &[' '], Kind::Boost),
            '~' => suffix(rest, &[' ', '^'], Kind::Tilde),
            '"' => phrase(rest).ok_or(QueryError::UnterminatedQuote { at })?,
            '0'..='9' => number_or_word(rest),
            _ => word(rest, 0),
        };
        self.at += len;
        Ok(Some(Token { at, kind }))
    }

    /// Where the next token is looked for.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
}

/// Letters of `raw`, each with whether a backslash took its meaning away. A backslash that stands
/// before an ordinary character, or at the end, is itself a letter.
pub(super) fn letters(raw: &str) -> impl Iterator<Item = (char, bool)> {
    let mut rest = raw.chars();
    std::iter::from_fn(move || {
        let letter = rest.next()?;
        if letter == '\\'
            && let Some(next) = rest.clone().next()
            && "+-=&|><!(){}[]^\"~*?:\\/ ".contains(next)
        {
            rest.next();
            return Some((next, true));
        }
        Some((letter, false))
    })
}

/// `raw` without the backslashes that have done their work.
pub(super) fn unescape(raw: &str) -> String {
    letters(raw).map(|(letter, _)| letter).collect()
}

/// Where in `text`, from `start` on, the first of `ends` stands that has no backslash before it.
fn end_of(text: &str, start: usize, ends: &[char]) -> Option<usize> {
    let mut escaped = false;
    for (index, letter) in text.get(start..)?.char_indices() {
        if escaped {
            escaped = false;
        } else if letter == '\\' {
            escaped = true;
        } else if ends.contains(&letter) {
            return Some(start + index);
        }
    }
    None
}

fn word(rest: &str, from: usize) -> (usize, Kind<'_>) {
    let end = end_of(rest, from, &[' ', ':', '^', '~']).unwrap_or(rest.len());
    (end, Kind::Word(rest.get(..end).unwrap_or_default()))
}

fn number_or_word(rest: &str) -> (usize, Kind<'_>) {
    let mut dots_count = 0;
    let is_other = |letter: char| {
        dots_count += usize::from(letter == '.');
        !(letter.is_ascii_digit() || (letter == '.' && dots_count == 1))
    };
    let len = rest.find(is_other).unwrap_or(rest.len());
    match rest.get(len..).and_then(|after| after.chars().next()) {
        None | Some(' ' | '^') => (len, Kind::Number(rest.get(..len).unwrap_or_default())),
        Some('\\') => word(rest, len),
        Some(other) => word(rest, len + other.len_utf8()),
    }
}

fn phrase(rest: &str) -> Option<(usize, Kind<'_>)> {
    let end = end_of(rest, 1, &['"'])?;
    Some((end + 1, Kind::Phrase(unescape(rest.get(1..end)?))))
}

fn suffix<'a>(rest: &'a str, ends: &[char], kind: fn(&'a str) -> Kind<'a>) -> (usize, Kind<'a>) {
    let end = end_of(rest, 1, ends).unwrap_or(rest.len());
    (end, kind(rest.get(1..end).unwrap_or_default()))
}
