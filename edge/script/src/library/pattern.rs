//! Lua's patterns, matched by the script's budget: every byte and every class looked at is a step,
//! so no pattern keeps a thread longer than the call may run.
//!
//! Source: Lua 5.1 manual, section 5.4.1.

use crate::budget;

/// Captures of one pattern, as in Lua.
const CAPTURES_MAX: usize = 32;

/// How deeply a match may nest: captures and repetitions that wait for what comes after them.
const DEPTH_MAX: u32 = 200;

/// Steps taken before the budget hears of them.
const STEPS_PER_REPORT: u32 = 256;

const ESCAPE: u8 = b'%';

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The pattern is none.
    Pattern(&'static str),
    /// The call's time is over.
    Budget(mlua::Error),
}

type Matched = Result<Option<usize>, Trouble>;

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// Bytes from here to there.
    Text(usize, usize),
    /// A place, from 1.
    Place(usize),
}

#[derive(Clone, Copy)]
enum Length {
    Open,
    Place,
    Closed(usize),
}

/// A pattern on its way over a subject.
pub(super) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    depth: u32,
    steps: u32,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(subject: &'a [u8], pattern: &'a [u8]) -> Self {
        Self { subject, pattern, captures: Vec::new(), depth: 0, steps: 0 }
    }

    /// The first match that begins at `from` or later: its bytes.
    pub(super) fn find(&mut self, from: usize) -> Result<Option<(usize, usize)>, Trouble> {
        let anchored = self.pattern.first() == Some(&b'^');
        let mut start = from;
        while start <= self.subject.len() {
            self.captures.clear();
            self.depth = 0;
            if let Some(end) = self.run(start, usize::from(anchored))? {
                self.report()?;
                return Ok(Some((start, end)));
            }
            if anchored {
                break;
            }
            start += 1;
        }
        self.report()?;
        Ok(None)
    }

    /// The captures of the match that was found; the whole match if the pattern has none and
    /// `whole` is given.
    pub(super) fn captures(&self, whole: Option<(usize, usize)>) -> Result<Vec<Capture>, Trouble> {
        if let (Some((start, end)), true) = (whole, self.captures.is_empty()) {
            return Ok(vec![Capture::Text(start, end)]);
        }
        let capture = |&(start, length): &(usize, Length)| match length {
            Length::Open => Err(Trouble::Pattern("unfinished capture")),
            Length::Place => Ok(Capture::Place(start + 1)),
            Length::Closed(length) => Ok(Capture::Text(start, start + length)),
        };
        self.captures.iter().map(capture).collect()
    }

    fn step(&mut self, count: usize) -> Result<(), Trouble> {
        self.steps = self.steps.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        if self.steps >= STEPS_PER_REPORT { self.report() } else { Ok(()) }
    }

    fn report(&mut self) -> Result<(), Trouble> {
        budget::spend(std::mem::take(&mut self.steps).saturating_mul(4)).map_err(Trouble::Budget)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.subject.get(at).copied()
    }

    fn sign(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    /// Matches the pattern from `sign` on at `at`; the end of the match.
    fn run(&mut self, at: usize, sign: usize) -> Matched {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Trouble::Pattern("pattern too complex"));
        }
        let matched = self.run_here(at, sign);
        self.depth -= 1;
        matched
    }

    fn run_here(&mut self, mut at: usize, mut sign: usize) -> Matched {
        loop {
            self.step(1)?;
            let Some(first) = self.sign(sign) else { return Ok(Some(at)) };
            match (first, self.sign(sign + 1)) {
                (b'(', Some(b')')) => return self.open(at, sign + 2, Length::Place),
                (b'(', _) => return self.open(at, sign + 1, Length::Open),
                (b')', _) => return self.close(at, sign + 1),
                (b'$', None) => return Ok((at == self.subject.len()).then_some(at)),
                (ESCAPE, Some(b'b')) => match self.balance(at, sign + 2)? {
                    Some(end) => (at, sign) = (end, sign + 4),
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => match self.frontier(at, sign + 2)? {
                    Some(next) => sign = next,
                    None => return Ok(None),
                },
                (ESCAPE, Some(digit)) if digit.is_ascii_digit() => match self.again(at, digit)? {
                    Some(end) => (at, sign) = (end, sign + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(sign)?;
                    match self.sign(end) {
                        Some(b'?') => {
                            if self.single(at, sign, end)?
                                && let Some(found) = self.run(at + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            sign = end + 1;
                        }
                        Some(b'*') => return self.most(at, sign, end, 0),
                        Some(b'+') => return self.most(at, sign, end, 1),
                        Some(b'-') => return self.least(at, sign, end),
                        _ => {
                            if !self.single(at, sign, end)? {
                                return Ok(None);
                            }
                            (at, sign) = (at + 1, end);
                        }
                    }
                }
            }
        }
    }

    fn most(&mut self, at: usize, sign: usize, end: usize, least: usize) -> Matched {
        let mut count = 0;
        while self.single(at + count, sign, end)? {
            count += 1;
        }
        while count >= least {
            if let Some(found) = self.run(at + count, end + 1)? {
                return Ok(Some(found));
            }
            let Some(fewer) = count.checked_sub(1) else { break };
            count = fewer;
        }
        Ok(None)
    }

    fn least(&mut self, mut at: usize, sign: usize, end: usize) -> Matched {
        loop {
            if let Some(found) = self.run(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(at, sign, end)? {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, at: usize, sign: usize, length: Length) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Trouble::Pattern("too many captures"));
        }
        self.captures.push((at, length));
        let count = self.captures.len();
        let found = self.run(at, sign)?;
        if found.is_none() {
            self.captures.truncate(count - 1);
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, sign: usize) -> Matched {
        let open = self.captures.iter().rposition(|(_, length)| matches!(length, Length::Open));
        let Some(capture) = open.and_then(|open| self.captures.get_mut(open)) else {
            return Err(Trouble::Pattern("invalid pattern capture"));
        };
        capture.1 = Length::Closed(at - capture.0);
        let found = self.run(at, sign)?;
        if found.is_none()
            && let Some(capture) = open.and_then(|open| self.captures.get_mut(open))
        {
            capture.1 = Length::Open;
        }
        Ok(found)
    }

    /// `%bxy`.
    fn balance(&mut self, at: usize, sign: usize) -> Matched {
        let (Some(opens), Some(closes)) = (self.sign(sign), self.sign(sign + 1)) else {
            return Err(Trouble::Pattern("missing arguments to '%b'"));
        };
        if self.byte(at) != Some(opens) {
            return Ok(None);
        }
        let (mut depth, mut end) = (1_usize, at + 1);
        while let Some(byte) = self.byte(end) {
            self.step(1)?;
            end += 1;
            if byte == closes {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(end));
                }
            } else if byte == opens {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: where the pattern goes on.
    fn frontier(&mut self, at: usize, sign: usize) -> Matched {
        if self.sign(sign) != Some(b'[') {
            return Err(Trouble::Pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(sign)?;
        let before = at.checked_sub(1).and_then(|at| self.byte(at)).unwrap_or(0);
        let here = self.byte(at).unwrap_or(0);
        let begins = !self.in_set(before, sign, end)? && self.in_set(here, sign, end)?;
        Ok(begins.then_some(end))
    }

    /// `%1`: the text of an earlier capture once more.
    fn again(&mut self, at: usize, digit: u8) -> Matched {
        let index = usize::from(digit.wrapping_sub(b'1'));
        let Some(&(start, Length::Closed(length))) = self.captures.get(index) else {
            return Err(Trouble::Pattern("invalid capture index"));
        };
        self.step(length / 8)?;
        let wanted = self.subject.get(start..start + length);
        let found = self.subject.get(at..at.saturating_add(length));
        Ok((found.is_some() && wanted == found).then_some(at + length))
    }

    /// Where the class that begins at `sign` ends.
    fn class_end(&mut self, sign: usize) -> Result<usize, Trouble> {
        match self.sign(sign) {
            Some(ESCAPE) if self.sign(sign + 1).is_none() => {
                Err(Trouble::Pattern("malformed pattern (ends with '%')"))
            }
            Some(ESCAPE) => Ok(sign + 2),
            Some(b'[') => {
                let mut at = sign + 1;
                if self.sign(at) == Some(b'^') {
                    at += 1;
                }
                // A bracket that comes first is one of the set.
                loop {
                    let width = match self.sign(at) {
                        None => return Err(Trouble::Pattern("malformed pattern (missing ']')")),
                        Some(ESCAPE) => 2,
                        Some(_) => 1,
                    };
                    at += width;
                    self.step(1)?;
                    if self.sign(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(sign + 1),
        }
    }

    /// Whether the byte at `at` is of the class `sign..end`.
    fn single(&mut self, at: usize, sign: usize, end: usize) -> Result<bool, Trouble> {
        let Some(byte) = self.byte(at) else { return Ok(false) };
        self.step(1)?;
        match self.sign(sign) {
            Some(b'.') => Ok(true),
            Some(ESCAPE) => Ok(is_of(byte, self.sign(sign + 1).unwrap_or(0))),
            Some(b'[') => self.in_set(byte, sign, end),
            other => Ok(other == Some(byte)),
        }
    }

    /// Whether `byte` is in the set `[…]` at `sign..end`.
    fn in_set(&mut self, byte: u8, sign: usize, end: usize) -> Result<bool, Trouble> {
        let negated = self.sign(sign + 1) == Some(b'^');
        let mut at = sign + 1 + usize::from(negated);
        let close = end - 1;
        while at < close {
            self.step(1)?;
            let first = self.sign(at).unwrap_or(0);
            let (hit, width) = if first == ESCAPE {
                (is_of(byte, self.sign(at + 1).unwrap_or(0)), 2)
            } else if self.sign(at + 1) == Some(b'-') && at + 2 < close {
                let last = self.sign(at + 2).unwrap_or(0);
                ((first..=last).contains(&byte), 3)
            } else {
                (first == byte, 1)
            };
            if hit {
                return Ok(!negated);
            }
            at += width;
        }
        Ok(negated)
    }
}

/// Whether `byte` is of `%class`.
fn is_of(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

/// Whether a pattern means just its bytes.
pub(super) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}
