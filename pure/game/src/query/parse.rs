//! Puts a query's tokens together into terms; see the grammar at the top of `query.rs`.

use wire::excerpt::excerpt;

use super::condition::{Comparison, Condition, Wild};
use super::fields::FieldPath;
use super::lex::{Kind, Lexer, Token, letters, unescape};
use super::{Query, QueryError, Term, parse_date_ns};

pub(super) fn parse(text: &str) -> Result<Query, QueryError> {
    if text.len() > Query::BYTES_MAX {
        return Err(QueryError::TooLong { bytes: text.len() });
    }
    let mut query = Query::all();
    if text.trim() == "*" {
        return Ok(query);
    }
    let mut lexer = Lexer::new(text);
    let ahead = lexer.next()?;
    let mut parser = Parser { lexer, ahead, regexes_count: 0 };
    for count in 0.. {
        if parser.ahead.is_none() {
            break;
        }
        if count == Query::TERMS_MAX {
            return Err(QueryError::TooManyTerms);
        }
        let terms = match parser.kind() {
            Some(Kind::Plus) => Some(&mut query.must),
            Some(Kind::Minus) => Some(&mut query.must_not),
            _ => None,
        };
        if terms.is_some() {
            parser.advance()?;
        }
        terms.unwrap_or(&mut query.should).push(parser.term()?);
    }
    Ok(query)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that is next: what follows depends on one only.
    ahead: Option<Token<'a>>,
    regexes_count: usize,
}

impl<'a> Parser<'a> {
    fn kind(&self) -> Option<&Kind<'a>> {
        self.ahead.as_ref().map(|token| &token.kind)
    }

    fn advance(&mut self) -> Result<Option<Kind<'a>>, QueryError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.ahead, next).map(|token| token.kind))
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T, QueryError> {
        let at = self.ahead.as_ref().map_or(self.lexer.at(), |token| token.at);
        Err(QueryError::Syntax { at, expected })
    }

    /// A term behind its sign.
    fn term(&mut self) -> Result<Term, QueryError> {
        let (field, condition) = match *self.kind().unwrap_or(&Kind::Equal) {
            Kind::Word(word) => {
                self.advance()?;
                if self.kind() == Some(&Kind::Colon) {
                    self.advance()?;
                    (unescape(word), self.value()?)
                } else if word == "*" {
                    (String::new(), Condition::Everything)
                } else {
                    (String::new(), self.word(word)?)
                }
            }
            Kind::Number(_) | Kind::Phrase(_) => (String::new(), self.value()?),
            _ => return self.unexpected("a field or a value"),
        };
        let boost = match *self.kind().unwrap_or(&Kind::Equal) {
            Kind::Boost(text) => {
                self.advance()?;
                boost(text)?
            }
            _ => 1.0,
        };
        Ok(Term { field: FieldPath::new(&field), condition, boost })
    }

    /// What stands behind a field's colon.
    fn value(&mut self) -> Result<Condition, QueryError> {
        let or_equal = match self.kind() {
            Some(Kind::Greater) => Comparison::GreaterOrEqual,
            Some(Kind::Less) => Comparison::LessOrEqual,
            Some(Kind::Minus) => {
                let (number, text) = self.number()?;
                return Ok(Condition::Number { number, text });
            }
            Some(&Kind::Number(text)) => {
                self.advance()?;
                return Ok(Condition::Number { number: number(text)?, text: text.into() });
            }
            Some(&Kind::Word(word)) => {
                self.advance()?;
                return self.word(word);
            }
            Some(Kind::Phrase(_)) => return Ok(Condition::Text(self.phrase()?.into())),
            _ => return self.unexpected("a value"),
        };
        self.advance()?;
        let comparison = if self.kind() == Some(&Kind::Equal) {
            self.advance()?;
            or_equal
        } else {
            or_equal.strict()
        };
        if let Some(Kind::Phrase(_)) = self.kind() {
            let text = self.phrase()?;
            let limit_ns = parse_date_ns(&text)
                .ok_or_else(|| QueryError::Date { text: excerpt(&text).to_owned() })?;
            return Ok(Condition::Dates { comparison, limit_ns });
        }
        Ok(Condition::Numbers { comparison, limit: self.number()?.0 })
    }

    /// A number that may have a minus before it.
    fn number(&mut self) -> Result<(f64, Box<str>), QueryError> {
        let sign = if self.kind() == Some(&Kind::Minus) {
            self.advance()?;
            "-"
        } else {
            ""
        };
        let Some(&Kind::Number(digits)) = self.kind() else {
            return self.unexpected("a number or a date in quotes");
        };
        self.advance()?;
        let text = format!("{sign}{digits}");
        Ok((number(&text)?, text.into()))
    }

    fn phrase(&mut self) -> Result<String, QueryError> {
        match self.advance()? {
            Some(Kind::Phrase(text)) => Ok(text),
            _ => self.unexpected("a phrase"),
        }
    }

    /// A word that has been taken, and the `~` that may follow it.
    fn word(&mut self, raw: &str) -> Result<Condition, QueryError> {
        let text = unescape(raw);
        if let Some(&Kind::Tilde(changes)) = self.kind() {
            self.advance()?;
            return Ok(match fuzziness(changes)? {
                0 => Condition::Text(text.into()),
                changes_max => Condition::Fuzzy { word: text.into(), changes_max },
            });
        }
        if let Some(pattern) = text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            self.regexes_count += 1;
            if self.regexes_count > Query::REGEXES_MAX {
                return Err(QueryError::TooManyRegexes);
            }
            return Condition::regex(pattern);
        }
        let wilds: Vec<Wild> = letters(raw)
            .map(|(letter, escaped)| match letter {
                '*' if !escaped => Wild::Run,
                '?' if !escaped => Wild::Any,
                letter => Wild::Letter(letter),
            })
            .collect();
        if wilds.iter().all(|wild| *wild == Wild::Run) {
            return Ok(Condition::Exists);
        }
        if wilds.iter().all(|wild| matches!(wild, Wild::Letter(_))) {
            return Ok(Condition::Text(text.into()));
        }
        Ok(Condition::Wildcard(wilds))
    }
}

fn number(text: &str) -> Result<f64, QueryError> {
    finite(text).ok_or_else(|| QueryError::Number { text: excerpt(text).to_owned() })
}

fn boost(text: &str) -> Result<f64, QueryError> {
    if text.is_empty() {
        return Ok(1.0);
    }
    finite(text).ok_or_else(|| QueryError::Boost { text: excerpt(text).to_owned() })
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Letters that may differ; a fraction is cut off.
fn fuzziness(text: &str) -> Result<u8, QueryError> {
    if text.is_empty() {
        return Ok(1);
    }
    match finite(text) {
        Some(number) if (0.0..1.0).contains(&number) => Ok(0),
        Some(number) if (1.0..2.0).contains(&number) => Ok(1),
        Some(number) if (2.0..3.0).contains(&number) => Ok(2),
        _ => Err(QueryError::Fuzziness { text: excerpt(text).to_owned() }),
    }
}
