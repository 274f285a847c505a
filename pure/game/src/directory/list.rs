//! Listing: a filter in, matches out, in the order that clients expect. Nothing is changed here.
//!
//! Source: nakama 3.40, `match_registry.go` and `api_match.go`; the texts of [`ListError`] are
//! what clients of Nakama see, hence their capitals.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use thiserror::Error;

use super::index::Key;
use super::{Directory, Entry, Listed};
use crate::query::{Query, QueryError};

/// What to list. `None` asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// At most so many; 0 lists nothing. Requests may ask for 1–100 (default 10), scripts for any
    /// number (default 1).
    pub limit: u32,
    /// Only authoritative matches, or only relayed ones.
    pub authoritative: Option<bool>,
    /// Exactly this label. Leaves relayed matches out, which have none. A query, even an empty
    /// one, makes it count for nothing: Nakama's guides pass `""` beside a query.
    pub label: Option<String>,
    /// At least so many members.
    pub min_size: Option<i32>,
    /// At most so many members.
    pub max_size: Option<i32>,
    /// A [`Query`]; empty finds everything. Leaves relayed matches out.
    pub query: Option<String>,
}

/// Why nothing can be listed.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ListError {
    /// Code 3.
    #[error("Invalid limit - limit must be between 1 and {}.", ListFilter::LIMIT_MAX)]
    Limit,
    /// Code 3.
    #[error("Label filtering is not supported for non-authoritative matches.")]
    LabelOfRelayed,
    /// Code 3.
    #[error("Query filtering is not supported for non-authoritative matches.")]
    QueryOfRelayed,
    /// Code 3.
    #[error("Minimum size must be 0 or above.")]
    MinSize,
    /// Code 3.
    #[error("Maximum size must be 0 or above.")]
    MaxSize,
    /// Code 3.
    #[error("Maximum size must be greater than or equal to minimum size when both are specified.")]
    Sizes,
    /// Scripts see this text; requests get code 13, `Error listing matches.`
    #[error("error parsing query string: {0}")]
    Query(#[from] QueryError),
    /// It costs more than the option `match.list_steps_max` allows. Code 8.
    #[error(
        "listing too expensive: it gave up after {seen_count} of {matches_count} matches \
         (match.list_steps_max is {steps_max})"
    )]
    Expensive {
        /// The most steps.
        steps_max: u64,
        /// Matches it has been put to.
        seen_count: usize,
        /// Matches that there are.
        matches_count: usize,
    },
}

impl ListFilter {
    /// The most that a request may ask for.
    pub const LIMIT_MAX: u32 = 100;

    /// What Nakama checks of `GET /v2/match`, in its order. Scripts are not checked: what
    /// fits nothing lists nothing.
    ///
    /// # Errors
    /// One of [`ListError`] with code 3.
    pub fn check_request(&self) -> Result<(), ListError> {
        let is_relayed = self.authoritative == Some(false);
        if !(1..=Self::LIMIT_MAX).contains(&self.limit) {
            Err(ListError::Limit)
        } else if is_relayed && self.label.is_some() {
            Err(ListError::LabelOfRelayed)
        } else if is_relayed && self.query.is_some() {
            Err(ListError::QueryOfRelayed)
        } else if self.min_size.is_some_and(|size| size < 0) {
            Err(ListError::MinSize)
        } else if self.max_size.is_some_and(|size| size < 0) {
            Err(ListError::MaxSize)
        } else if self.min_size.zip(self.max_size).is_some_and(|(min, max)| min > max) {
            Err(ListError::Sizes)
        } else {
            Ok(())
        }
    }

    /// The sizes that fit; an empty range if none does.
    fn sizes(&self) -> RangeInclusive<u32> {
        let min = self.min_size.map_or(0, |size| u32::try_from(size).unwrap_or(0));
        match self.max_size.map(u32::try_from) {
            None => min..=u32::MAX,
            Some(Ok(max)) => min..=max,
            #[expect(clippy::reversed_empty_ranges, reason = "nothing is smaller than empty")]
            Some(Err(_)) => 1..=0,
        }
    }

    fn wants_label(&self, entry: &Entry) -> bool {
        self.query.is_some()
            || self.label.as_ref().is_none_or(|label| entry.listed.label() == Some(&**label))
    }
}

impl Directory {
    /// What one list may cost unless [`Directory::set_list_steps_max`] says otherwise, in steps of
    /// [`Query::score_counting`]: some 10 milliseconds. A query of ten terms over 10,000 matches
    /// stays below.
    pub const LIST_STEPS_MAX: u64 = 10_000_000;
    /// What it costs to look at one match that is found by size.
    const LOOK_STEPS: u64 = 200;
    /// What it costs to pass one match in the order of ids.
    const PASS_STEPS: u64 = 10;
    /// What it costs to read a byte of a query.
    const QUERY_BYTE_STEPS: u64 = 50;

    /// Lists matches. Without a query: authoritative ones, newest first, then relayed ones, newest
    /// first. With a query: authoritative ones, the best score first, then the newest. With a label
    /// and no query, only those with that label.
    ///
    /// Call [`ListFilter::check_request`] before, if the filter is a client's.
    ///
    /// # Errors
    /// [`ListError::Query`] for a malformed query, [`ListError::Expensive`] for one that costs too
    /// much.
    pub fn list(&self, filter: &ListFilter) -> Result<Vec<Listed>, ListError> {
        self.list_counting(filter, &mut 0)
    }

    /// As [`Directory::list`], adding to `steps` what it cost.
    ///
    /// # Errors
    /// As [`Directory::list`].
    pub fn list_counting(
        &self,
        filter: &ListFilter,
        steps: &mut u64,
    ) -> Result<Vec<Listed>, ListError> {
        *steps += Self::QUERY_BYTE_STEPS
            * filter.query.as_ref().map_or(0, |query| u64::try_from(query.len()).unwrap_or(0));
        let query = filter.query.as_deref().map(Query::parse).transpose()?;
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let relayed_only = filter.authoritative == Some(false);
        let can_be_relayed = query.is_none() && filter.label.is_none();
        if limit == 0 || (relayed_only && !can_be_relayed) {
            return Ok(Vec::new());
        }
        if let Some(query) = query
            && !query.is_all()
        {
            return self.best(filter, &query, limit, steps);
        }
        let authoritative = (!relayed_only)
            .then(|| self.index.authoritative.newest(filter.sizes()))
            .into_iter()
            .flatten();
        let relayed = (can_be_relayed && filter.authoritative != Some(true))
            .then(|| self.index.relayed.newest(filter.sizes()))
            .into_iter()
            .flatten();
        let mut found = Vec::new();
        for (seen_count, key) in authoritative.chain(relayed).enumerate() {
            if found.len() == limit {
                break;
            }
            // Scripts may ask for as many as they like; only what is looked at in vain is dear.
            *steps += Self::LOOK_STEPS;
            if *steps > self.list_steps_max && filter.label.is_some() {
                return Err(self.expensive(seen_count));
            }
            let entry = self.of(key.id).get(&key.id).filter(|entry| filter.wants_label(entry));
            found.extend(entry.map(|entry| entry.listed.clone()));
        }
        Ok(found)
    }

    /// The best `limit` matches by score. Looks at all, keeps no more than `limit` at a time.
    fn best(
        &self,
        filter: &ListFilter,
        query: &Query,
        limit: usize,
        steps: &mut u64,
    ) -> Result<Vec<Listed>, ListError> {
        let sizes = filter.sizes();
        let mut kept: BinaryHeap<Reverse<Ranked<'_>>> = BinaryHeap::new();
        for (seen_count, entry) in self.authoritative.values().enumerate() {
            let Some(fields) = entry.listed.info.known_fields() else { continue };
            *steps += Self::PASS_STEPS;
            if !sizes.contains(&entry.listed.size) {
                continue;
            }
            if *steps > self.list_steps_max {
                return Err(self.expensive(seen_count));
            }
            let Some(score) = query.score_counting(fields, steps) else { continue };
            let ranked = Ranked { score, key: entry.key, listed: &entry.listed };
            if kept.len() < limit {
                kept.push(Reverse(ranked));
            } else if let Some(mut worst) = kept.peek_mut()
                && ranked > worst.0
            {
                worst.0 = ranked;
            }
        }
        // Reversed, so that ascending is best first.
        let best = kept.into_sorted_vec().into_iter();
        Ok(best.map(|Reverse(ranked)| ranked.listed.clone()).collect())
    }

    fn expensive(&self, seen_count: usize) -> ListError {
        let (steps_max, matches_count) = (self.list_steps_max, self.authoritative.len());
        ListError::Expensive { steps_max, seen_count, matches_count }
    }
}

/// A match that a query found; more is better.
struct Ranked<'a> {
    score: f64,
    key: Key,
    listed: &'a Listed,
}

impl Ord for Ranked<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for Ranked<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked<'_> {}
