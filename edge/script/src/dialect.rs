//! Lua 5.1 with `goto`, as Nakama's scripts are written, to the Luau that runs here: the text is
//! rewritten in place, every token stays on its line, so errors and tracebacks name the lines that
//! the author sees.
//!
//! What is rewritten: `goto` and labels ([`jumps`]), empty statements, a call whose arguments start
//! on the next line, escapes and numerals that Luau reads differently, `arg` in functions with
//! `...`, line ends, a first line with `#!`. What is left alone: everything else; the libraries are
//! `library`'s. A text that is no Lua 5.1 is an error here; whether it is Luau is the caller's
//! question.
//!
//! Data: a module's bytes in; a text for Luau's compiler, the names of what each line calls and what functions
//! read of their parameters out.
//!
//! Source: nakama 3.40, `internal/gopher-lua/parse`, and the Lua 5.1 manual, section 2.

mod jumps;
mod lexer;
mod names;
mod parser;
mod reads;
mod scope;
mod work;

pub(crate) use lexer::{Kind, Token};
pub(crate) use names::CallNames;
pub(crate) use reads::{Functions, Parameters, Reads};
pub(crate) use work::Work;

/// How deeply blocks and expressions may be nested; Luau itself stops at 1,000.
const DEPTH_MAX: usize = 190;

/// Why a text is not Lua 5.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Line from 1.
    pub(crate) line: u32,
    /// What is wrong, without the place.
    pub(crate) message: String,
}

/// Why there is no translation.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The text is not Lua 5.1.
    Syntax(SyntaxError),
    /// It would have more than so many bytes.
    TooLong(usize),
    /// The call's time is over; hand the error on.
    Budget(mlua::Error),
}

impl From<SyntaxError> for Trouble {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

/// A text for Luau's compiler.
#[derive(Debug)]
pub(crate) struct Translated {
    /// The same lines.
    pub(crate) text: Vec<u8>,
    /// What is called on which line.
    pub(crate) calls: CallNames,
    /// What its functions read of their parameters.
    pub(crate) functions: Functions,
}

/// Translates one module or one text given to `loadstring`.
///
/// # Errors
/// [`Trouble`] when the text is not Lua 5.1 with `goto`, becomes longer than `work` allows, or
/// takes longer than the running call may.
///
/// With `ordered`, tables remember the order of their keys, see `ordered.lua`.
pub(crate) fn translate(
    text: &[u8],
    ordered: bool,
    work: &mut Work,
) -> Result<Translated, Trouble> {
    let text = normalised(text);
    let (tokens, mut edits) = lexer::tokens(&text, work)?;
    let parsed = parser::parse(&text, &tokens, ordered, work)?;
    edits.extend(parsed.edits);
    edits.extend(jumps::without(&text, &parsed.roots, work)?);
    work.pay(edits.len())?;
    let text = spliced(&text, edits);
    work.check_bytes(text.len())?;
    Ok(Translated { text, calls: parsed.calls, functions: parsed.functions })
}

/// The tokens of a text for who only looks at it, with the text that their places count in; the
/// last one is [`Kind::End`].
///
/// # Errors
/// [`Trouble`] when the text is not made of Lua's tokens.
pub(crate) fn tokens(text: &[u8]) -> Result<(Vec<u8>, Vec<Token>), Trouble> {
    let text = normalised(text);
    let (tokens, _) = lexer::tokens(&text, &mut Work::unbounded())?;
    Ok((text, tokens))
}

/// A change of the text: `removed` bytes at `at` give way to `text`. Changes at one place are made
/// in the order of the list.
#[derive(Clone, Debug)]
struct Edit {
    at: usize,
    removed: usize,
    text: String,
}

impl Edit {
    fn insert(at: usize, text: impl Into<String>) -> Self {
        Self { at, removed: 0, text: text.into() }
    }
}

/// `\r\n` and `\r` become `\n`, as gopher-lua reads them; a byte order mark and a line for the
/// shell become blanks.
fn normalised(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let text = match text.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => rest,
        None => text,
    };
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'\r' {
            bytes.next_if_eq(&b'\n');
            out.push(b'\n');
        } else {
            out.push(byte);
        }
    }
    if out.first() == Some(&b'#') {
        let end = memchr::memchr(b'\n', &out).unwrap_or(out.len());
        out.splice(..end, []);
    }
    out
}

fn spliced(text: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    edits.sort_by_key(|edit| edit.at);
    let mut out = Vec::with_capacity(text.len() + edits.len() * 8);
    let mut from = 0;
    for edit in edits {
        if edit.at > from {
            out.extend_from_slice(text.get(from..edit.at).unwrap_or_default());
        }
        out.extend_from_slice(edit.text.as_bytes());
        from = from.max(edit.at + edit.removed);
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod cost;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;
