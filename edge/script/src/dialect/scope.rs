//! The local variables in scope: to come and go in the order of the text, and to be asked for by every name
//! in it.
//!
//! Data: names of the text in; whether one is in scope, and what is read of it, out.

use std::collections::HashMap;

use super::reads::Reads;

/// Locals in scope, those of outer functions included.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    locals: Vec<(&'a [u8], Reads)>,
    /// Where each stands in `locals`: the last is the one that its name means.
    places: HashMap<&'a [u8], Vec<usize>>,
}

impl<'a> Scope<'a> {
    pub(super) fn len(&self) -> usize {
        self.locals.len()
    }

    pub(super) fn add(&mut self, name: &'a [u8]) {
        self.places.entry(name).or_default().push(self.locals.len());
        self.locals.push((name, Reads::Nothing));
    }

    /// What was read of each but the first `length`.
    pub(super) fn reads(&self, length: usize) -> Vec<Reads> {
        self.locals.iter().skip(length).map(|(_, reads)| reads.clone()).collect()
    }

    /// Leaves the first `length`.
    pub(super) fn truncate(&mut self, length: usize) {
        for (name, _) in self.locals.drain(length.min(self.locals.len())..) {
            let Some(places) = self.places.get_mut(name) else { unreachable!("it was added") };
            places.pop();
            if places.is_empty() {
                self.places.remove(name);
            }
        }
    }

    /// A variable is named, alone or with a member. Whether it is one of these.
    pub(super) fn read(&mut self, name: &[u8], member: Option<&[u8]>) -> bool {
        let place = self.places.get(name).and_then(|places| places.last());
        let local = place.and_then(|place| self.locals.get_mut(*place));
        local.is_some_and(|(_, reads)| {
            reads.note(member);
            true
        })
    }
}
