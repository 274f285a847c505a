//! What one module's text says: which functions of `nk` it uses, what it requires, whether it does
//! anything when it is run. A static look: nothing is run, and what a script computes at run time
//! (`nk[name]`, a table that is passed around) is not seen.
//!
//! In doubt nothing is noted: a warning about working code costs more than a missed one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::dialect::{self, Kind};

/// Where a name stands: the first line, and how it is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) form: Form,
}

/// How a member of `nk` or of a dispatcher is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `nk.name(…)`.
    Call,
    /// `nk.name`, say to keep it in a local, or to ask whether it is there.
    Read,
    /// `nk.name = …` or `function nk.name(…)`.
    Define,
    /// `nk:name(…)`, which passes `nk` as the first argument.
    Colon,
}

/// What was found in one module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(super) nk: Vec<Use>,
    pub(super) dispatcher: Vec<Use>,
    /// Names given to `require` as they stand, and their lines.
    pub(super) requires: Vec<(String, u32)>,
    /// Names given to `nk.match_create` as they stand, and their lines.
    pub(super) creates: Vec<(String, u32)>,
    /// Whether it ends with a value for who requires it.
    pub(super) returns: bool,
    /// Whether running it may change anything: registrations, globals, calls.
    pub(super) acts: bool,
    /// A local table that functions are put into, `M` in `function M.match_init`.
    pub(super) table: Option<String>,
}

impl Facts {
    /// Where a function of `nk` is called or kept, `file:line`.
    pub(crate) fn calls_of(&self, file: &str, function: &str) -> Vec<String> {
        let uses = self.nk.iter().filter(|it| it.name == function && it.form != Form::Define);
        uses.map(|it| format!("{file}:{}", it.line)).collect()
    }
}

/// Members of one module that are noted; generated code may have any number.
const USES_MAX: usize = 10_000;

/// The callbacks of a match that are given a dispatcher, as their second argument.
const WITH_DISPATCHER: &[&str] = &[
    "match_join_attempt",
    "match_join",
    "match_leave",
    "match_loop",
    "match_terminate",
    "match_signal",
];

/// What running a module may call without doing anything.
const IDLE_CALLS: &[&str] = &[
    "require",
    "print",
    "setmetatable",
    "pairs",
    "ipairs",
    "type",
    "tostring",
    "tonumber",
    "select",
    "string",
    "table",
    "math",
    "os",
    "bit32",
    "assert",
    "error",
    "pcall",
    "next",
    "unpack",
];

/// Reads a module. A text that is no Lua has no facts: the compiler refuses it.
pub(crate) fn read(text: &[u8]) -> Facts {
    let Ok((text, tokens)) = dialect::tokens(text) else { return Facts::default() };
    let tokens: Vec<_> = tokens.iter().map(|it| (token(&text, *it), it.line)).collect();
    let mut module = Module { tokens: &tokens, names: BTreeMap::new(), locals: BTreeSet::new() };
    module.find_names();
    let mut facts = Facts::default();
    module.find_uses(&mut facts);
    module.find_effects(&mut facts);
    facts
}

/// One token as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A name or a keyword.
    Name(&'a str),
    /// The inside of a string, escapes as written.
    Text(&'a str),
    /// A symbol of one byte.
    Mark(u8),
    /// A number, or a longer symbol.
    Other,
    /// The end of the text.
    End,
}

fn token(text: &[u8], token: dialect::Token) -> Token<'_> {
    let bytes = text.get(token.start..token.end).unwrap_or_default();
    let shown = std::str::from_utf8(bytes).unwrap_or_default();
    match (token.kind, bytes) {
        (Kind::Name | Kind::Keyword, _) => Token::Name(shown),
        (Kind::Text, [b'[', ..]) => {
            let level = bytes.iter().skip(1).take_while(|byte| **byte == b'=').count() + 2;
            Token::Text(shown.get(level..shown.len().saturating_sub(level)).unwrap_or_default())
        }
        (Kind::Text, _) => {
            Token::Text(shown.get(1..shown.len().saturating_sub(1)).unwrap_or_default())
        }
        (Kind::Symbol, [mark]) => Token::Mark(*mark),
        (Kind::Symbol | Kind::Number, _) => Token::Other,
        (Kind::End, _) => Token::End,
    }
}

/// What a name in the module stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Nakama,
    /// It is also given another value somewhere.
    Unsure,
}

struct Module<'a> {
    tokens: &'a [(Token<'a>, u32)],
    names: BTreeMap<&'a str, Meaning>,
    locals: BTreeSet<&'a str>,
}

impl<'a> Module<'a> {
    fn at(&self, index: usize) -> Option<Token<'a>> {
        self.tokens.get(index).map(|(token, _)| *token)
    }

    fn is(&self, index: usize, mark: u8) -> bool {
        self.at(index) == Some(Token::Mark(mark))
    }

    fn name(&self, index: usize) -> Option<&'a str> {
        match self.at(index) {
            Some(Token::Name(name)) => Some(name),
            _ => None,
        }
    }

    fn line(&self, index: usize) -> u32 {
        self.tokens.get(index).map_or(0, |(_, line)| *line)
    }

    /// Whether what stands before makes a name the member of something.
    fn is_member(&self, index: usize) -> bool {
        index > 0 && (self.is(index - 1, b'.') || self.is(index - 1, b':'))
    }

    /// `require "x"` or `require("x")` at this place: `x`, and where it ends.
    fn required(&self, index: usize) -> Option<(&'a str, usize)> {
        if self.name(index) != Some("require") || self.is_member(index) {
            return None;
        }
        match (self.at(index + 1), self.at(index + 2)) {
            (Some(Token::Text(module)), _) => Some((module, index + 2)),
            (Some(Token::Mark(b'(')), Some(Token::Text(module))) if self.is(index + 3, b')') => {
                Some((module, index + 4))
            }
            _ => None,
        }
    }

    /// Which names stand for the module "nakama", and which are local.
    fn find_names(&mut self) {
        for index in 0..self.tokens.len() {
            if self.name(index) == Some("local") {
                self.add_locals(index + 1);
            }
        }
        // Twice, so that `local n = nk` finds an `nk` that is set further down.
        for _ in 0..2 {
            for index in 0..self.tokens.len() {
                if self.is(index, b'=') {
                    self.assignment(index);
                }
            }
        }
    }

    fn add_locals(&mut self, mut index: usize) {
        if self.name(index) == Some("function") {
            index += 1;
        }
        while let Some(name) = self.name(index) {
            self.locals.insert(name);
            if !self.is(index + 1, b',') {
                break;
            }
            index += 2;
        }
    }

    /// `a, b = x, y`: notes which of the names is "nakama" now.
    fn assignment(&mut self, equals: usize) {
        let mut targets = Vec::new();
        let mut index = equals;
        while let Some(name) = index.checked_sub(1).and_then(|before| self.name(before)) {
            index -= 1;
            let is_plain = !self.is_member(index);
            targets.push(is_plain.then_some(name));
            let Some(before) = index.checked_sub(1).filter(|it| self.is(*it, b',')) else { break };
            index = before;
        }
        targets.reverse();
        let mut value = equals + 1;
        for target in targets {
            let (is_nakama, end) = self.value(value);
            if let Some(name) = target {
                let before = self.names.get(name).copied();
                let now = match (before, is_nakama) {
                    (None | Some(Meaning::Nakama), true) => Some(Meaning::Nakama),
                    (None, false) => None,
                    _ => Some(Meaning::Unsure),
                };
                if let Some(now) = now {
                    self.names.insert(name, now);
                }
            }
            if !self.is(end, b',') {
                break;
            }
            value = end + 1;
        }
    }

    /// Whether the expression that begins here is the module "nakama", and where its part that is
    /// understood ends.
    fn value(&self, index: usize) -> (bool, usize) {
        let (is_nakama, end) = match self.required(index) {
            Some((module, end)) => (module == "nakama", end),
            None => match self.name(index) {
                Some(name) if self.name(index + 1) == Some("or") => {
                    let (is_nakama, end) = self.value(index + 2);
                    return (is_nakama || self.names.get(name) == Some(&Meaning::Nakama), end);
                }
                Some(name) => (self.names.get(name) == Some(&Meaning::Nakama), index + 1),
                None => (false, index + 1),
            },
        };
        let goes_on = [b'.', b'[', b':', b'('].iter().any(|mark| self.is(end, *mark));
        (is_nakama && !goes_on, end)
    }

    fn find_uses(&self, facts: &mut Facts) {
        let dispatchers = self.dispatchers();
        for index in 0..self.tokens.len() {
            if let Some((module, end)) = self.required(index) {
                facts.requires.push((module.to_owned(), self.line(index)));
                if module == "nakama" {
                    facts.nk.extend(self.member(index, end));
                }
                continue;
            }
            let Some(name) = self.name(index).filter(|_| !self.is_member(index)) else { continue };
            if self.names.get(name) == Some(&Meaning::Nakama) {
                let found = self.member(index, index + 1);
                // The whole argument: of a text that is made of parts nobody knows what it comes to.
                if found.as_ref().is_some_and(|it| it.name == "match_create")
                    && let (true, Some(Token::Text(module))) =
                        (self.is(index + 3, b'('), self.at(index + 4))
                    && (self.is(index + 5, b',') || self.is(index + 5, b')'))
                {
                    facts.creates.push((module.to_owned(), self.line(index)));
                }
                facts.nk.extend(found);
            } else if name == "dispatcher"
                || dispatchers.iter().any(|(body, it)| *it == name && body.contains(&index))
            {
                facts.dispatcher.extend(self.member(index, index + 1));
            }
            if facts.nk.len() + facts.dispatcher.len() >= USES_MAX {
                return;
            }
        }
    }

    /// What callbacks of matches call their dispatcher, the second argument, and in which tokens it is that.
    fn dispatchers(&self) -> Vec<(Range<usize>, &'a str)> {
        let functions = (0..self.tokens.len()).filter(|at| self.name(*at) == Some("function"));
        functions.filter_map(|at| self.dispatcher_of(at)).collect()
    }

    /// `function M.match_loop(context, name, …)` or `match_loop = function(context, name, …)`, if nothing
    /// else in it has that name.
    fn dispatcher_of(&self, function: usize) -> Option<(Range<usize>, &'a str)> {
        let mut open = function + 1;
        while self.name(open).is_some() || self.is(open, b'.') {
            open += 1;
        }
        let is_named = open > function + 1;
        let named = if is_named { open.checked_sub(1)? } else { function.checked_sub(2)? };
        let is_callback = self.name(named).is_some_and(|it| WITH_DISPATCHER.contains(&it));
        let is_given = is_named || self.is(function - 1, b'=');
        if !is_callback || !is_given || !self.is(open, b'(') || !self.is(open + 2, b',') {
            return None;
        }
        let name = self.name(open + 3)?;
        let body = open + 4..self.end_of(function);
        let is_another = body.clone().any(|at| self.is_made_another(at, name));
        (!is_another).then_some((body, name))
    }

    /// Whether `name` is something else from here on: a local, an argument, or another value.
    fn is_made_another(&self, at: usize, name: &str) -> bool {
        let mut index = match self.name(at) {
            Some("local" | "for") => at + 1,
            Some("function") => {
                let mut rest = self.tokens.iter().skip(at);
                let open = rest.position(|it| it.0 == Token::Mark(b'('));
                open.map_or(at, |open| at + open + 1)
            }
            Some(it) if it == name && !self.is_member(at) => {
                let mut last = at;
                while self.is(last + 1, b',') && self.name(last + 2).is_some() {
                    last += 2;
                }
                return self.is(last + 1, b'=');
            }
            _ => return false,
        };
        while let Some(declared) = self.name(index) {
            if declared == name {
                return true;
            }
            if !self.is(index + 1, b',') {
                break;
            }
            index += 2;
        }
        false
    }

    /// Where the function that begins here ends.
    fn end_of(&self, function: usize) -> usize {
        let mut depth = 0_u32;
        for index in function..self.tokens.len() {
            match self.name(index).filter(|_| !self.is_member(index)) {
                Some("function" | "do" | "if" | "repeat") => depth += 1,
                Some("end" | "until") => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index;
            }
        }
        self.tokens.len()
    }

    /// `.name`, `:name` or `["name"]` behind the table that begins at `start`.
    fn member(&self, start: usize, end: usize) -> Option<Use> {
        let (name, after, is_colon) = match (self.at(end)?, self.at(end + 1)?) {
            (Token::Mark(b'.'), Token::Name(name)) => (name, end + 2, false),
            (Token::Mark(b':'), Token::Name(name)) => (name, end + 2, true),
            (Token::Mark(b'['), Token::Text(name)) if self.is(end + 2, b']') => {
                (name, end + 3, false)
            }
            _ => return None,
        };
        let is_call = [b'(', b'{'].iter().any(|mark| self.is(after, *mark))
            || matches!(self.at(after), Some(Token::Text(_)));
        let is_function = start.checked_sub(1).is_some_and(|it| self.name(it) == Some("function"));
        let form = if is_function || self.is(after, b'=') {
            Form::Define
        } else if is_colon {
            Form::Colon
        } else if is_call {
            Form::Call
        } else {
            Form::Read
        };
        Some(Use { name: name.to_owned(), line: self.line(start), form })
    }

    /// Whether the module returns something, and whether running it may do something.
    fn find_effects(&self, facts: &mut Facts) {
        // For each open block whether it is a function's.
        let mut blocks: Vec<bool> = Vec::new();
        let mut braces = 0_u32;
        for index in 0..self.tokens.len() {
            let is_top = !blocks.contains(&true);
            match self.at(index) {
                Some(Token::Mark(b'{')) => braces += 1,
                Some(Token::Mark(b'}')) => braces = braces.saturating_sub(1),
                Some(Token::Name(_)) if self.is_member(index) => {
                    let name = self.name(index).unwrap_or_default();
                    facts.acts |= name.starts_with("register_") || name == "run_once";
                }
                Some(Token::Name("function")) => {
                    if is_top {
                        self.definition(index + 1, facts);
                    }
                    blocks.push(true);
                }
                Some(Token::Name("do" | "if" | "repeat")) => blocks.push(false),
                Some(Token::Name("end" | "until")) => drop(blocks.pop()),
                Some(Token::Name("return")) if is_top => {
                    let nothing = [Token::End, Token::Mark(b';'), Token::Name("end")];
                    facts.returns |= self.at(index + 1).is_some_and(|it| !nothing.contains(&it));
                }
                Some(Token::Name(name)) if is_top => {
                    facts.acts |= self.does_something(index, name, braces > 0);
                }
                Some(
                    Token::Name(_) | Token::Text(_) | Token::Mark(_) | Token::Other | Token::End,
                )
                | None => {}
            }
        }
    }

    /// `function name.…`: a global, or a member of a table.
    fn definition(&self, index: usize, facts: &mut Facts) {
        let Some(name) = self.name(index) else { return };
        if !self.locals.contains(name) {
            facts.acts = true;
        } else if self.is(index + 1, b'.') || self.is(index + 1, b':') {
            facts.table.get_or_insert_with(|| name.to_owned());
        }
    }

    /// Whether a name outside of functions sets a global or calls something that may matter.
    fn does_something(&self, index: usize, name: &str, in_table: bool) -> bool {
        if self.is(index + 1, b'=') {
            return !in_table && !self.locals.contains(name);
        }
        let mut end = index + 1;
        let mut member = "";
        while self.is(end, b'.') || self.is(end, b':') {
            let Some(name) = self.name(end + 1) else { break };
            member = name;
            end += 2;
        }
        let is_call = self.is(end, b'(') || matches!(self.at(end), Some(Token::Text(_)));
        let is_idle =
            IDLE_CALLS.contains(&name) || member.starts_with("logger_") || is_keyword(name);
        is_call && !is_idle
    }
}

fn is_keyword(name: &str) -> bool {
    matches!(
        name,
        "and"
            | "break"
            | "do"
            | "else"
            | "elseif"
            | "end"
            | "false"
            | "for"
            | "function"
            | "goto"
            | "if"
            | "in"
            | "local"
            | "nil"
            | "not"
            | "or"
            | "repeat"
            | "return"
            | "then"
            | "true"
            | "until"
            | "while"
    )
}
