//! What a function reads of its parameters: nobody can see what is not made of an argument that is never named.
//!
//! Data: names as the parser meets them in, what is read of each parameter out. A parameter is read wherever its
//! name stands, but for `name.member`, which reads (or sets) that member alone. What is deliberately not here:
//! whether the place is ever reached.

use std::collections::BTreeMap;

use smallvec::SmallVec;

/// Members of one parameter that are told apart; with more of them it counts as read whole.
const MEMBERS_MAX: usize = 16;

/// What is read of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Nothing: it need not be there.
    #[default]
    Nothing,
    /// Members of these names; all others need not be there.
    Members(SmallVec<[Box<[u8]>; 2]>),
    /// Perhaps all of it.
    Whole,
}

impl Reads {
    /// It is named, with a member or by itself.
    pub(super) fn note(&mut self, member: Option<&[u8]>) {
        let Some(member) = member else { return *self = Self::Whole };
        match self {
            Self::Nothing => *self = Self::Members(SmallVec::from_iter([member.into()])),
            Self::Members(members) if members.iter().any(|it| **it == *member) => {}
            Self::Members(members) if members.len() < MEMBERS_MAX => members.push(member.into()),
            Self::Members(_) | Self::Whole => *self = Self::Whole,
        }
    }

    /// Whether any of it is read.
    pub(crate) fn is_any(&self) -> bool {
        *self != Self::Nothing
    }

    /// Whether a member of this name is.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        match self {
            Self::Nothing => false,
            Self::Members(members) => members.iter().any(|member| **member == *name),
            Self::Whole => true,
        }
    }
}

/// What one function reads of its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// Those with names, in their order.
    pub(super) named: Vec<Reads>,
    /// Whether it reads what comes after them.
    pub(super) reads_more: bool,
}

impl Parameters {
    /// What is read of the argument at this place, from 0.
    pub(crate) fn reads(&self, place: usize) -> &Reads {
        const NOTHING: &Reads = &Reads::Nothing;
        const WHOLE: &Reads = &Reads::Whole;
        let more = if self.reads_more { WHOLE } else { NOTHING };
        self.named.get(place).unwrap_or(more)
    }
}

/// The functions of one text, by the line on which their word `function` stands.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// `None` where a line has several: which of them is meant is not known.
    lines: BTreeMap<u32, Option<Parameters>>,
}

impl Functions {
    pub(super) fn add(&mut self, line: u32, parameters: Parameters) {
        self.lines.entry(line).and_modify(|it| *it = None).or_insert(Some(parameters));
    }

    /// The only function that begins on this line.
    pub(crate) fn on(&self, line: u32) -> Option<&Parameters> {
        self.lines.get(&line)?.as_ref()
    }
}
