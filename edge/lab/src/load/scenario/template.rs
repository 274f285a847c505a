//! Texts with holes, `${name}`, filled in for each player at each use.
//!
//! What is known when the run begins is filled in at once, so most templates end as one piece of
//! bytes that is copied. A name that nobody sets is an error.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::load::scenario::program::Source;
use wire::nearest::did_you_mean;

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
    /// A value of the player's row.
    Field(Field),
}

/// A column of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The place of its file in [`Filling::data`].
    pub(crate) source: u8,
    pub(crate) column: u8,
    pub(crate) escape: Escape,
}

/// How a value of a data file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// As it stands.
    Raw,
    /// For between the quotes of a JSON string: `${accounts.name:json}`.
    Json,
    /// For a path or a query: `${accounts.name:url}`.
    Url,
}

/// What may stand as it is in any part of a path or query. Source: RFC 3986, section 2.3.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

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
    pub(crate) data: &'a [Source],
    /// The player's row of each file.
    pub(crate) rows: &'a [u32],
}

/// Names known when templates are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Filled in at once.
    pub(crate) constants: BTreeMap<String, String>,
    /// Captured by some step; the index is the place in [`Filling::captured`].
    pub(crate) captured: Vec<String>,
    /// Data files; the index is the place in [`Filling::data`].
    pub(crate) data: Vec<Source>,
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
    #[error("`${{{name}}}`: {file} has no column `{column}`{meant}")]
    NoColumn { name: String, file: String, column: String, meant: String },
    #[error("`${{{name}}}`: a value of a data file is written `:json`, `:url`, or as it stands")]
    NoEscape { name: String },
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

    /// The columns that fill holes as they stand.
    pub(crate) fn raw_fields(&self) -> impl Iterator<Item = Field> {
        self.parts.iter().filter_map(|part| match part {
            Part::Hole(Hole::Field(field)) if field.escape == Escape::Raw => Some(*field),
            _ => None,
        })
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
            Part::Hole(Hole::Field(field)) => {
                let mut len = 0;
                escaped(*field, filling, |part| len += part.len());
                len
            }
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
                Part::Hole(Hole::Field(field)) => {
                    escaped(*field, filling, |part| out.extend_from_slice(part.as_bytes()));
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
        _ if let Some((source, column)) = of_data(name, names) => {
            Hole::Field(field(name, source, column, names)?)
        }
        _ => {
            let index = names.captured.iter().position(|known| known == name);
            let index = index.and_then(|index| u8::try_from(index).ok());
            Hole::Captured(index.ok_or_else(|| unknown(name, names))?)
        }
    })
}

/// The data file that a name speaks of, and what stands behind its point.
fn of_data<'a>(name: &'a str, names: &Names) -> Option<(u8, &'a str)> {
    let (source, column) = name.split_once('.')?;
    let place = names.data.iter().position(|it| it.name == source)?;
    Some((u8::try_from(place).ok()?, column))
}

fn field(name: &str, place: u8, column: &str, names: &Names) -> Result<Field, TemplateError> {
    let source = &names.data[usize::from(place)];
    let (column, escape) = match column.split_once(':') {
        None => (column, Escape::Raw),
        Some((column, "json")) => (column, Escape::Json),
        Some((column, "url")) => (column, Escape::Url),
        Some(_) => return Err(TemplateError::NoEscape { name: name.to_owned() }),
    };
    let known = || source.table.fields.iter().map(|it| &**it);
    let column = source.table.field(column).ok_or_else(|| TemplateError::NoColumn {
        name: name.to_owned(),
        file: source.file.clone(),
        column: column.to_owned(),
        meant: did_you_mean(column, known()),
    })?;
    Ok(Field { source: place, column, escape })
}

/// Hands out the pieces of a value, as it is to be written.
fn escaped<'a>(field: Field, filling: &Filling<'a>, mut piece: impl FnMut(&'a str)) {
    let place = usize::from(field.source);
    let (Some(source), Some(row)) = (filling.data.get(place), filling.rows.get(place)) else {
        return;
    };
    let value = source.table.value(*row, field.column);
    match field.escape {
        Escape::Raw => piece(value),
        Escape::Url => utf8_percent_encode(value, UNRESERVED).for_each(piece),
        Escape::Json => json_pieces(value, piece),
    }
}

/// Source: RFC 8259, section 7.
fn json_pieces<'a>(mut rest: &'a str, mut piece: impl FnMut(&'a str)) {
    const CONTROLS: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
        "\\b", "\\t", "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011",
        "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019",
        "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
    ];
    let is_special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    while let Some(at) = rest.as_bytes().iter().position(is_special) {
        let (before, after) = rest.split_at(at);
        piece(before);
        piece(match after.as_bytes().first() {
            Some(b'"') => "\\\"",
            Some(control @ ..0x20) => CONTROLS[usize::from(*control)],
            _ => "\\\\",
        });
        rest = &after[1..];
    }
    piece(rest);
}

fn unknown(name: &str, names: &Names) -> TemplateError {
    let known = names.constants.keys().chain(&names.captured).map(String::as_str);
    let known = known.chain(names.data.iter().map(|it| it.name.as_str()));
    // Behind a dot is the column of a data source.
    let first = name.split_once('.').map_or(name, |(source, _)| source);
    let meant = did_you_mean(first, known.chain(["player", "round", "cid"]));
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
    use crate::load::scenario::data::table_of;
    use crate::load::scenario::program::Source;

    fn check(text: &str, wanted: &str) {
        let names = Names {
            constants: [("host".to_owned(), "h:1".to_owned())].into(),
            captured: vec!["a".to_owned(), "token".to_owned()],
            data: vec![Source {
                name: "users".to_owned(),
                file: "users.csv".to_owned(),
                table: table_of("csv", "name,id\nAnn,1\n\"A \"\"é\"\"\\\n\u{1}&\",2\n"),
                ..Source::default()
            }],
        };
        let captured = ["A".into(), "T0K".into()];
        let (data, rows) = (&names.data, &[1]);
        let filling = Filling { player: 12, round: 3, cid: 456, captured: &captured, data, rows };
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

    #[test]
    fn values_of_a_row_are_written_for_where_they_stand() {
        check("${users.id}-${users.name}", "2-A \"é\"\\\n\u{1}&!");
        check("\"${users.name:json}\"", "\"A \\\"é\\\"\\\\\\n\\u0001&\"!");
        check("/${users.name:url}", "/A%20%22%C3%A9%22%5C%0A%01%26!");
        let unknown = "`${users.nam}`: users.csv has no column `nam`; did you mean `name`?!";
        check("${users.nam}", unknown);
        check(
            "${users.id:xml}",
            "`${users.id:xml}`: a value of a data file is written `:json`, `:url`, or as it stands!",
        );
        check(
            "${user.id}",
            "nothing sets `${user.id}`: not a variable, and no step captures it; did you mean `users`?!",
        );
    }
}
