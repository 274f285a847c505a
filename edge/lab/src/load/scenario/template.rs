//! Texts with holes, `${name}`, filled in for each player at each use.
//!
//! What is known when the run begins is filled in at once, so most templates end as one piece of
//! bytes that is copied. A name that nobody sets is an error.

use std::collections::BTreeMap;

use crate::measure::nearest::did_you_mean;

/// Holes of one template, at most.
pub(crate) const HOLES_MAX: usize = 64;

/// What a hole is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hole {
    /// The player's number in the run, from 0.
    Player,
    /// How many rounds of the loop the player has begun, over all its sessions.
    Round,
    /// The number of the last envelope sent.
    Cid,
    /// A value captured from an answer.
    Captured(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    Hole(Hole),
}

/// A text with holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

/// What fills the holes of one player at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'a> {
    pub(crate) player: u32,
    pub(crate) round: u32,
    pub(crate) cid: u32,
    pub(crate) captured: &'a [Box<str>],
}

/// Names known when templates are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Filled in at once.
    pub(crate) constants: BTreeMap<String, String>,
    /// Captured by some step; the index is the place in [`Filling::captured`].
    pub(crate) captured: Vec<String>,
}

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("`${{{0}` lacks its closing brace")]
    Open(String),
    #[error("nothing sets `${{{name}}}`: not a variable, and no step captures it{meant}")]
    Unknown { name: String, meant: String },
    #[error("more than {HOLES_MAX} holes")]
    TooMany,
}

impl Template {
    /// Reads `text`.
    pub(crate) fn parse(text: &str, names: &Names) -> Result<Self, TemplateError> {
        let mut template = Self::default();
        let mut rest = text;
        let mut holes_count = 0;
        while let Some(start) = rest.find("${") {
            template.push_text(&rest.as_bytes()[..start]);
            let after = &rest[start + 2..];
            let end = after.find('}').ok_or_else(|| TemplateError::Open(after.to_owned()))?;
            let name = &after[..end];
            rest = &after[end + 1..];
            holes_count += 1;
            if holes_count > HOLES_MAX {
                return Err(TemplateError::TooMany);
            }
            if let Some(value) = names.constants.get(name) {
                template.push_text(value.as_bytes());
            } else {
                template.parts.push(Part::Hole(hole(name, names)?));
            }
        }
        template.push_text(rest.as_bytes());
        Ok(template)
    }

    /// Appends text that has no holes.
    pub(crate) fn push_text(&mut self, text: &[u8]) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => *last = [&**last, text].concat().into_boxed_slice(),
            _ => self.parts.push(Part::Text(text.into())),
        }
    }

    /// Appends another template.
    pub(crate) fn push(&mut self, other: &Self) {
        for part in &other.parts {
            match part {
                Part::Text(text) => self.push_text(text),
                Part::Hole(hole) => self.parts.push(Part::Hole(*hole)),
            }
        }
    }

    /// The whole text, if it has no holes.
    pub(crate) fn constant(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(&[]),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Bytes of the filled text.
    pub(crate) fn len(&self, filling: &Filling<'_>) -> usize {
        let digits = |number: u32| itoa::Buffer::new().format(number).len();
        let part_len = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Hole(Hole::Player) => digits(filling.player),
            Part::Hole(Hole::Round) => digits(filling.round),
            Part::Hole(Hole::Cid) => digits(filling.cid),
            Part::Hole(Hole::Captured(index)) => captured(filling, *index).len(),
        };
        self.parts.iter().map(part_len).sum()
    }

    /// Appends the filled text.
    pub(crate) fn fill(&self, out: &mut Vec<u8>, filling: &Filling<'_>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Hole(Hole::Player) => number(out, filling.player),
                Part::Hole(Hole::Round) => number(out, filling.round),
                Part::Hole(Hole::Cid) => number(out, filling.cid),
                Part::Hole(Hole::Captured(index)) => {
                    out.extend_from_slice(captured(filling, *index).as_bytes());
                }
            }
        }
    }
}

fn hole(name: &str, names: &Names) -> Result<Hole, TemplateError> {
    Ok(match name {
        "player" => Hole::Player,
        "round" => Hole::Round,
        "cid" => Hole::Cid,
        _ => {
            let index = names.captured.iter().position(|known| known == name);
            let index = index.and_then(|index| u8::try_from(index).ok());
            Hole::Captured(index.ok_or_else(|| unknown(name, names))?)
        }
    })
}

fn unknown(name: &str, names: &Names) -> TemplateError {
    let known = names.constants.keys().chain(&names.captured).map(String::as_str);
    let meant = did_you_mean(name, known.chain(["player", "round", "cid"]));
    TemplateError::Unknown { name: name.to_owned(), meant }
}

fn captured<'a>(filling: &Filling<'a>, index: u8) -> &'a str {
    filling.captured.get(usize::from(index)).map_or("", |value| value)
}

fn number(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{Filling, Names, Template};

    fn check(text: &str, wanted: &str) {
        let names = Names {
            constants: [("host".to_owned(), "h:1".to_owned())].into(),
            captured: vec!["a".to_owned(), "token".to_owned()],
        };
        let captured = ["A".into(), "T0K".into()];
        let filling = Filling { player: 12, round: 3, cid: 456, captured: &captured };
        let found = match Template::parse(text, &names) {
            Ok(template) => {
                let mut out = Vec::new();
                template.fill(&mut out, &filling);
                assert_eq!(out.len(), template.len(&filling), "{text}");
                assert_eq!(template.constant().is_some(), !wanted.contains('!'), "{text}");
                String::from_utf8(out).unwrap()
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, wanted.replace('!', ""), "{text}");
    }

    #[test]
    fn holes_are_filled() {
        check("", "");
        check("plain $ {text}", "plain $ {text}");
        check("a ${host} b", "a h:1 b");
        check("${host}${host}", "h:1h:1");
        check("${player}/${round}-${cid}:${token}${a}", "12/3-456:T0KA!");
        check("${host}", "h:1");
        let unknown = "nothing sets `${tokn}`: not a variable, and no step captures it";
        check("x ${tokn} y", &format!("{unknown}; did you mean `token`?!"));
        let unknown = "nothing sets `${zz}`: not a variable, and no step captures it!";
        check("x ${zz} y", unknown);
        check("x ${token", "`${token` lacks its closing brace!");
    }
}
