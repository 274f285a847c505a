//! What one term asks of one value: equal, in a range, like a pattern. Every test is linear in the
//! value's length, or counts what more it costs.

use std::str::Chars;

use regex_lite::{Regex, RegexBuilder};
use wire::excerpt::excerpt;

use super::QueryError;
use super::fields::FieldValue;

/// A question about a value. A test never holds for a value of another kind.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// Holds for every document: a lone `*`.
    Everything,
    /// Holds for any value.
    Exists,
    /// This text.
    Text(Box<str>),
    /// This number, or the text that it was written as.
    Number { number: f64, text: Box<str> },
    /// Numbers on one side of a limit.
    Numbers { comparison: Comparison, limit: f64 },
    /// Dates on one side of a limit.
    Dates { comparison: Comparison, limit_ns: i64 },
    /// Texts that so many insertions, deletions and replacements of letters make equal: 1 or 2.
    Fuzzy { word: Box<str>, changes_max: u8 },
    /// Texts that fit a pattern.
    Wildcard(Vec<Wild>),
    /// Texts that fit a regular expression as a whole.
    Regex { regex: Regex, steps_per_byte: u64 },
}

/// Which side of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// A piece of a wildcard pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wild {
    /// This letter.
    Letter(char),
    /// `?`: any letter.
    Any,
    /// `*`: any letters, also none.
    Run,
}

impl Comparison {
    /// The same side without the limit itself.
    pub(super) fn strict(self) -> Self {
        match self {
            Self::Greater | Self::GreaterOrEqual => Self::Greater,
            Self::Less | Self::LessOrEqual => Self::Less,
        }
    }

    fn holds<T: PartialOrd>(self, value: &T, limit: &T) -> bool {
        match self {
            Self::Greater => value > limit,
            Self::GreaterOrEqual => value >= limit,
            Self::Less => value < limit,
            Self::LessOrEqual => value <= limit,
        }
    }
}

impl Condition {
    /// Bytes that a compiled regular expression may have, tried in this order: the first that is
    /// enough tells how large it is. The last stops `((a{99}){99}){99}`.
    const REGEX_BYTES_MAX: [usize; 7] = [256, 512, 1_024, 2_048, 4_096, 8_192, 16_384];
    /// Groups in groups of a regular expression.
    const REGEX_NEST_MAX: u32 = 16;

    /// A regular expression that must fit whole values.
    pub(super) fn regex(pattern: &str) -> Result<Self, QueryError> {
        // Alone first, so that `a)|(b` does not become well-formed by the brackets around it.
        let (regex, bytes) = compile(pattern)
            .and_then(|_| compile(&format!("^(?:{pattern})$")))
            .map_err(|reason| QueryError::Regex { text: excerpt(pattern).to_owned(), reason })?;
        // At worst every byte of the value meets every state of the program, 4 steps each, as
        // chosen after `cargo bench -p game --bench listing`. A state has 32 bytes.
        let steps_per_byte = u64::try_from(bytes * 4 / 32).unwrap_or(u64::MAX);
        Ok(Self::Regex { regex, steps_per_byte })
    }

    /// Whether it holds for `value`. Adds what it cost to `steps`.
    pub(super) fn holds(&self, value: FieldValue<'_>, steps: &mut u64) -> bool {
        match (self, value) {
            (Self::Everything | Self::Exists, _) => true,
            (Self::Text(wanted), FieldValue::Text(text)) => **wanted == *text,
            (Self::Number { text: wanted, .. }, FieldValue::Text(text)) => **wanted == *text,
            #[expect(clippy::float_cmp, reason = "the number that was written, not one near it")]
            (Self::Number { number, .. }, FieldValue::Number(value)) => *number == value,
            (Self::Numbers { comparison, limit }, FieldValue::Number(value)) => {
                comparison.holds(&value, limit)
            }
            (Self::Dates { comparison, limit_ns }, FieldValue::Date(ns)) => {
                comparison.holds(&ns, limit_ns)
            }
            (Self::Fuzzy { word, changes_max }, FieldValue::Text(text)) => {
                is_like_enough(word, text, *changes_max, steps)
            }
            (Self::Wildcard(wilds), FieldValue::Text(text)) => is_wild(wilds, text, steps),
            (Self::Regex { regex, steps_per_byte }, FieldValue::Text(text)) => {
                count(steps, text, *steps_per_byte);
                regex.is_match(text)
            }
            _ => false,
        }
    }
}

/// The program of a pattern, and how many bytes suffice for it.
fn compile(pattern: &str) -> Result<(Regex, usize), String> {
    let mut reason = String::new();
    for bytes in Condition::REGEX_BYTES_MAX {
        let mut builder = RegexBuilder::new(pattern);
        match builder.size_limit(bytes).nest_limit(Condition::REGEX_NEST_MAX).build() {
            Ok(regex) => return Ok((regex, bytes)),
            Err(error) => reason = error.to_string(),
        }
    }
    Err(reason)
}

fn count(steps: &mut u64, text: &str, steps_per_byte: u64) {
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    *steps = steps.saturating_add(bytes.saturating_mul(steps_per_byte));
}

/// As [`is_like`], without a look at texts whose lengths tell already: a change of a letter changes
/// the length by 4 bytes at most.
fn is_like_enough(word: &str, text: &str, changes_max: u8, steps: &mut u64) -> bool {
    word.len().abs_diff(text.len()) <= 4 * usize::from(changes_max)
        && is_like(word.chars(), text.chars(), changes_max, steps)
}

/// Whether `changes_max` changes of one letter make `a` equal to `b`. Letters that are equal
/// anyway are never worth a change, so only a difference branches: at most 3 × 3 ways.
fn is_like(mut a: Chars<'_>, mut b: Chars<'_>, changes_max: u8, steps: &mut u64) -> bool {
    /// Two letters are decoded and compared, and copies kept of where they stood.
    const LETTER_STEPS: u64 = 8;
    loop {
        *steps += LETTER_STEPS;
        let (a_rest, b_rest) = (a.clone(), b.clone());
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(x), Some(y)) if x == y => {}
            _ if changes_max == 0 => return false,
            _ => {
                let changes_max = changes_max - 1;
                return is_like(a.clone(), b_rest, changes_max, steps)
                    || is_like(a_rest, b.clone(), changes_max, steps)
                    || is_like(a, b, changes_max, steps);
            }
        }
    }
}

/// Whether the whole text fits. Only the last run is ever widened: an earlier one that took fewer
/// letters leaves the later ones more to choose from.
fn is_wild(wilds: &[Wild], text: &str, steps: &mut u64) -> bool {
    let mut letters = text.chars();
    let mut index = 0;
    let mut widen: Option<(usize, Chars<'_>)> = None;
    loop {
        *steps += 2;
        let before = letters.clone();
        match (wilds.get(index), letters.next()) {
            (Some(Wild::Run), _) => {
                index += 1;
                letters = before;
                widen = Some((index, letters.clone()));
                continue;
            }
            (None, None) => return true,
            (Some(Wild::Any), Some(_)) => {
                index += 1;
                continue;
            }
            (Some(Wild::Letter(wanted)), Some(letter)) if *wanted == letter => {
                index += 1;
                continue;
            }
            _ => {}
        }
        let Some((behind_run, rest)) = &mut widen else { return false };
        if rest.next().is_none() {
            return false;
        }
        index = *behind_run;
        letters = rest.clone();
    }
}
