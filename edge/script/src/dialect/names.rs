//! What is called on which line, so that "attempt to call a nil value", which is all that Luau
//! says, can name the function. Nothing here runs unless such an error occurs.

use std::collections::BTreeMap;

/// Calls remembered of one line: a line with more says nothing.
const CALLS_MAX: usize = 8;

/// Names of a path that is remembered.
pub(super) const PATH_MAX: usize = 8;

/// How a function is named where it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A local variable or parameter.
    Local(String),
    /// A global variable.
    Global(String),
    /// `….name`; the path from its first name, if that is all names and no more than [`PATH_MAX`],
    /// and whether that is a global.
    Field { name: String, path: Vec<String>, global: bool },
    /// `…:name`.
    Method(String),
}

impl std::fmt::Display for Callee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(name) => write!(f, "local '{name}'"),
            Self::Global(name) => write!(f, "global '{name}'"),
            Self::Field { name, .. } => write!(f, "field '{name}'"),
            Self::Method(name) => write!(f, "method '{name}'"),
        }
    }
}

/// The calls of one module.
#[derive(Debug, Default)]
pub(crate) struct CallNames {
    lines: BTreeMap<u32, Vec<Callee>>,
}

impl CallNames {
    pub(super) fn add(&mut self, line: u32, callee: Callee) {
        let calls = self.lines.entry(line).or_default();
        if calls.len() <= CALLS_MAX && !calls.contains(&callee) {
            calls.push(callee);
        }
    }

    /// The names of what `line` calls, less those that `exists` knows to be there (a path of names,
    /// and whether the first is global); `None` when they are not known or too many.
    pub(crate) fn missing(
        &self,
        line: u32,
        exists: impl Fn(&[String], bool) -> bool,
    ) -> Option<String> {
        let calls = self.lines.get(&line).filter(|calls| calls.len() <= CALLS_MAX)?;
        let is_missing = |callee: &&Callee| match callee {
            Callee::Global(name) => !exists(std::slice::from_ref(name), true),
            Callee::Field { path, global, .. } => !exists(path, *global),
            Callee::Local(_) | Callee::Method(_) => true,
        };
        let names: Vec<String> = calls.iter().filter(is_missing).map(ToString::to_string).collect();
        (!names.is_empty()).then(|| names.join(" or "))
    }
}
