//! The names of the local variables in scope: to come and go in the order of the text, and to be
//! asked for by every name in it.
//!
//! Data: names of the text in; whether one is in scope out.

use std::collections::HashMap;

/// Locals in scope, those of outer functions included.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    names: Vec<&'a [u8]>,
    /// How often each stands in `names`.
    counts: HashMap<&'a [u8], usize>,
}

impl<'a> Scope<'a> {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn add(&mut self, name: &'a [u8]) {
        self.names.push(name);
        *self.counts.entry(name).or_default() += 1;
    }

    /// Leaves the first `length`.
    pub(super) fn truncate(&mut self, length: usize) {
        for name in self.names.drain(length.min(self.names.len())..) {
            match self.counts.get_mut(name) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.counts.remove(name)),
            }
        }
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.counts.contains_key(name)
    }
}
