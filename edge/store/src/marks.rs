//! Places in a transaction that it can be taken back to, set in the database only once something is written behind them.
//!
//! A call in the batch sets a mark before it writes, and a host function that writes several rows another one right
//! behind it: both are the same place, and one savepoint stands for them. One that only reads sets none. Each savepoint
//! costs SQLite two statements, and a look at each page that is changed.
//!
//! In: what is asked of the transaction ([`Marks::add`], [`Marks::undo`], [`Marks::forget`]) and that a statement
//! will write, when the savepoint is set ([`Marks::set`]). Out: whether the database is to be told. Not here: the statements (`sqlite`).

/// The marks of one transaction; the next one begins with none.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The savepoints that are set, from the first on: how many marks each stands for, 1 at least.
    set: Vec<u32>,
    /// Marks behind which nothing is written yet.
    pending: u32,
}

impl Marks {
    /// Sets a mark.
    pub(crate) fn add(&mut self) {
        self.pending += 1;
    }

    /// Whether there are marks without a savepoint.
    pub(crate) fn are_pending(&self) -> bool {
        self.pending > 0
    }

    /// A savepoint is set, which stands for those.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn set(&mut self) {
        assert!(self.pending > 0, "a savepoint stands for no mark");
        self.set.push(std::mem::take(&mut self.pending));
    }

    /// Goes back to the last mark, which stays. Whether to the last savepoint; nothing was written otherwise.
    ///
    /// # Panics
    /// If there is no mark.
    pub(crate) fn undo(&self) -> bool {
        assert!(self.pending > 0 || !self.set.is_empty(), "there is no mark to go back to");
        self.pending == 0
    }

    /// Forgets the last mark, and keeps what was written since. Whether its savepoint is to be released, which then
    /// stands for no other mark.
    ///
    /// # Panics
    /// If there is no mark.
    pub(crate) fn forget(&mut self) -> bool {
        if self.pending > 0 {
            self.pending -= 1;
            return false;
        }
        let Some(last) = self.set.last_mut() else { unreachable!("there is no mark to forget") };
        *last -= 1;
        let is_free = *last == 0;
        if is_free {
            self.set.pop();
        }
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;

    #[test]
    fn one_savepoint_stands_for_marks_between_which_nothing_is_written() {
        let mut marks = Marks::default();
        marks.add();
        marks.add();
        marks.set();
        assert!(!marks.are_pending() && marks.undo());
        assert!(!marks.forget(), "the outer mark is still there");
        assert!(marks.undo());
        assert!(marks.forget());
    }

    #[test]
    fn what_writes_nothing_sets_no_savepoint() {
        let mut marks = Marks::default();
        marks.add();
        marks.set();
        marks.add();
        assert!(!marks.undo(), "nothing was written behind the inner mark");
        assert!(!marks.forget());
        assert!(marks.undo() && marks.forget());
    }

    #[test]
    fn a_mark_behind_something_written_has_its_own() {
        let mut marks = Marks::default();
        marks.add();
        marks.set();
        marks.add();
        marks.set();
        assert!(marks.forget() && marks.forget());
    }
}
