//! The query language of match listings, the matchmaker, party listings and storage indexes.
//!
//! ```text
//! query  = term*                    nothing, or *, finds everything
//! term   = [+|-] [field:]value [^boost]
//! value  = word | word~ | word~2    exact; with at most 1 or 2 letters changed
//!        | "a phrase"               exact, spaces and all
//!        | wo*d? | /regex/          the whole value must fit
//!        | 5 | -5                   the number, or the text
//!        | >5 >=5 <5 <=5            numbers
//!        | >"2026-01-01" …          dates (RFC 3339, or without zone or time)
//! ```
//!
//! A `+term` must hold, a `-term` must not, others add to the score; if no term has a `+`, at
//! least one of the others must hold. Every term that holds scores its boost, 1 if it has none.
//! `\` takes a special character's meaning away. There are no groups, so nothing nests.
//!
//! Text goes in ([`Query::parse`]), a document ([`Fields`]) is put to it ([`Query::score`]).
//! Choosing and ordering documents is the caller's work.
//!
//! Source: nakama 3.40 with blugelabs/query_string; what a listing finds is the same, save:
//! * A word without a field finds nothing, as there (nothing is indexed without a field), but a
//!   lone `*` is everything wherever it stands.
//! * A string that is a date is found by ranges only, not by its text, as there.
//! * Booleans are the words `T` and `F`; `label.open:true` finds only the text `true`, as there.
//! * A phrase is compared as it stands; there it is first cut into lower-case words, so that one
//!   with a space or a capital never matches anything.
//! * Scores are constant; there they also depend on how rare a term is.
//! * More is accepted: boosts behind numbers and fuzzy words, escaped wildcards as letters, dates
//!   without a time, a query of blanks.
//! * `create_time` of a match compares with dates too.

mod condition;
mod date;
mod fields;
mod lex;
mod parse;
#[cfg(test)]
mod tests;

pub use date::parse_date_ns;
pub use fields::Fields;

use condition::Condition;
use fields::FieldPath;
use thiserror::Error;

/// A parsed query.
#[derive(Clone, Debug, Default)]
pub struct Query {
    must: Vec<Term>,
    must_not: Vec<Term>,
    should: Vec<Term>,
}

/// One term: a test of one field.
#[derive(Clone, Debug)]
struct Term {
    field: FieldPath,
    condition: Condition,
    boost: f64,
}

/// What is wrong with a query. Offsets count bytes from its start; texts are excerpts.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum QueryError {
    /// Longer than [`Query::BYTES_MAX`].
    #[error("query too long: {bytes} bytes, the most is {}", Query::BYTES_MAX)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// More than [`Query::TERMS_MAX`] terms.
    #[error("too many terms in query, the most is {}", Query::TERMS_MAX)]
    TooManyTerms,
    /// More than [`Query::REGEXES_MAX`] regular expressions.
    #[error("too many regular expressions in query, the most is {}", Query::REGEXES_MAX)]
    TooManyRegexes,
    /// A phrase has no end.
    #[error("parse error: unterminated quote at byte {at}")]
    UnterminatedQuote {
        /// Where it begins.
        at: usize,
    },
    /// Something stands where it cannot.
    #[error("syntax error at byte {at}: {expected} expected")]
    Syntax {
        /// Where.
        at: usize,
        /// What could stand there.
        expected: &'static str,
    },
    /// No number, or too large a one.
    #[error("parse error: error parsing number: {text:?}")]
    Number {
        /// What stands there.
        text: String,
    },
    /// No number of changes, or more than 2.
    #[error("parse error: invalid fuzziness value: {text:?}, must be 0-2")]
    Fuzziness {
        /// What stands behind the `~`.
        text: String,
    },
    /// No boost.
    #[error("parse error: invalid boost value: {text:?}")]
    Boost {
        /// What stands behind the `^`.
        text: String,
    },
    /// No date.
    #[error("parse error: invalid time: {text:?}")]
    Date {
        /// What stands between the quotes.
        text: String,
    },
    /// No regular expression, or one that is too large.
    #[error("parse error: invalid regular expression {text:?}: {reason}")]
    Regex {
        /// What stands between the slashes.
        text: String,
        /// The parser's words.
        reason: String,
    },
}

impl Query {
    /// Bytes of a query. REST cannot carry more than 5,120 (header limit), sockets 4,096; scripts
    /// may need lists of ids.
    pub const BYTES_MAX: usize = 16 * 1_024;
    /// Terms of a query.
    pub const TERMS_MAX: usize = 512;
    /// Regular expressions of a query.
    pub const REGEXES_MAX: usize = 8;

    /// The query that finds everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Reads a query.
    ///
    /// # Errors
    /// [`QueryError`] when it is malformed or beyond a limit.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        parse::parse(text)
    }

    /// Whether it finds every document, with the same score.
    pub fn is_all(&self) -> bool {
        self.must.is_empty() && self.must_not.is_empty() && self.should.is_empty()
    }

    /// How well the document fits; `None` if it does not.
    pub fn score(&self, fields: &Fields) -> Option<f64> {
        self.score_counting(fields, &mut 0)
    }

    /// As [`Query::score`], adding to `steps` what it cost, in units of very roughly a
    /// nanosecond: for callers that look through many documents and must stop some time.
    pub fn score_counting(&self, fields: &Fields, steps: &mut u64) -> Option<f64> {
        let mut score = 0.0;
        for term in &self.must {
            if !term.holds(fields, steps) {
                return None;
            }
            score += term.boost;
        }
        if self.must_not.iter().any(|term| term.holds(fields, steps)) {
            return None;
        }
        let mut any = self.should.is_empty() || !self.must.is_empty();
        for term in &self.should {
            if term.holds(fields, steps) {
                any = true;
                score += term.boost;
            }
        }
        if self.must.is_empty() && self.should.is_empty() {
            score = 1.0;
        }
        any.then_some(score)
    }
}

impl Term {
    fn holds(&self, fields: &Fields, steps: &mut u64) -> bool {
        /// A search by name among a label's fields, chosen after `cargo bench -p game --bench listing`.
        const LOOKUP_STEPS: u64 = 50;
        *steps += LOOKUP_STEPS;
        matches!(self.condition, Condition::Everything)
            || fields.of(&self.field).any(|value| self.condition.holds(value, steps))
    }
}
