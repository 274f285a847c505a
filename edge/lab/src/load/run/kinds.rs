//! Which kinds of errors there were in each second. The list of them that a result has is sorted by
//! how often they came, which is known at the end only: until then kinds are numbered as they come.
//!
//! In: a stretch's errors, one stretch after the other. Out: pairs of a place and a count, whose
//! places are put right once.

use std::collections::BTreeMap;

use crate::load::record::kind::{Kind, OTHER};
use crate::load::record::{ErrorCount, NO_OP};
use crate::load::result::Second;
use crate::load::result::summary::ErrorSummary;
use crate::load::scenario::program::Op;

type Errors = BTreeMap<(u16, Kind), ErrorCount>;

/// Kinds in the order in which they came; as many at most as a record tells apart.
#[derive(Default)]
pub(super) struct Kinds(Vec<(u16, Kind)>);

impl Kinds {
    /// A stretch's errors by kind; `total` has them already, and tells what is counted as `other`.
    pub(super) fn count(&mut self, errors: &Errors, total: &Errors) -> Vec<(u16, u64)> {
        let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
        for (key, error) in errors {
            let key = if total.contains_key(key) { key.clone() } else { (NO_OP, OTHER) };
            let place = self.0.iter().position(|known| *known == key).unwrap_or_else(|| {
                self.0.push(key);
                self.0.len() - 1
            });
            // As few as a record tells apart.
            let place = u16::try_from(place).unwrap_or(u16::MAX);
            *counts.entry(place).or_default() += error.count;
        }
        counts.into_iter().collect()
    }

    /// Puts the places right when the list is sorted.
    pub(super) fn place(&self, series: &mut [Second], errors: &[ErrorSummary], ops: &[Op]) {
        let is_of = |error: &ErrorSummary, (op, kind): &(u16, Kind)| {
            let name = ops.get(usize::from(*op)).map_or("-", |op| &op.name);
            error.op == name && error.cause == kind.cause && error.kind == kind.text
        };
        let place = |key| errors.iter().position(|error| is_of(error, key));
        let places = self.0.iter().map(|key| u16::try_from(place(key)?).ok());
        let places: Vec<Option<u16>> = places.collect();
        for second in series {
            let counts = std::mem::take(&mut second.errors_by).into_iter();
            let placed = counts
                .filter_map(|(seen, count)| Some(((*places.get(usize::from(seen))?)?, count)));
            second.errors_by = placed.collect();
            second.errors_by.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kinds;
    use crate::load::record::kind::{Cause, Kind};
    use crate::load::record::{NO_OP, Record, Stage};
    use crate::load::result::Second;
    use crate::load::result::summary::ErrorSummary;
    use crate::load::scenario::program::Op;

    #[test]
    fn kinds_keep_their_seconds_when_they_are_sorted() {
        let late = Kind::of(Cause::TimeOut, "no answer");
        let refused = Kind::of(Cause::ConnectRefused, "connect: refused");
        let mut total = Record::new(Stage::Counted, 1, 0);
        let mut kinds = Kinds::default();
        let mut series = Vec::new();
        for counts in [vec![(0, &late, 2)], vec![(NO_OP, &refused, 9), (0, &late, 1)], vec![]] {
            let mut record = Record::new(Stage::Counted, 1, 0);
            for (op, kind, count) in counts {
                record.count_errors(op, kind, count, String::new);
            }
            total.add_rest(&record, true);
            let errors_by = kinds.count(&record.errors, &total.errors);
            series.push(Second { errors_by, ..Second::default() });
        }
        let error = |op: &str, kind: &Kind| ErrorSummary {
            op: op.to_owned(),
            cause: kind.cause,
            kind: kind.text.clone().into_owned(),
            ..ErrorSummary::default()
        };
        let errors = [error("-", &refused), error("ask", &late)];
        let ops = [Op { name: "ask".to_owned(), counted: true, setup: false }];
        kinds.place(&mut series, &errors, &ops);
        let found: Vec<_> = series.into_iter().map(|second| second.errors_by).collect();
        assert_eq!(found, [vec![(1, 2)], vec![(0, 9), (1, 1)], vec![]]);
    }
}
