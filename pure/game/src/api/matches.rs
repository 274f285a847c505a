//! `GET /v2/match`: parameters in, JSON out; the listing itself is the directory's.

use wire::nakama::api::{Match, MatchList, encode};
use wire::query::Query;

use crate::directory::{Directory, ListError, ListFilter};
use crate::error::ApiError;

/// How many matches are listed when a request does not say.
pub(super) const LIMIT_DEFAULT: i32 = 10;

pub(super) fn parse(params: Query<'_>) -> Result<ListFilter, ApiError> {
    Ok(ListFilter {
        // What is below 0 is refused as 0 is, by `check_request`.
        limit: u32::try_from(params.int32("limit")?.unwrap_or(LIMIT_DEFAULT)).unwrap_or(0),
        authoritative: params.bool("authoritative")?,
        label: params.text("label")?.map(|text| text.into_owned()),
        min_size: params.int32("min_size")?,
        max_size: params.int32("max_size")?,
        query: params.text("query")?.map(|text| text.into_owned()),
    })
}

pub(super) fn run(directory: &Directory, filter: &ListFilter) -> Result<Vec<u8>, ApiError> {
    filter.check_request().map_err(refusal)?;
    let listed = directory.list(filter).map_err(refusal)?;
    let matches = listed.into_iter().map(|one| Match {
        match_id: one.id.text(directory.node()),
        authoritative: one.id.authoritative,
        label: one.label.as_deref().map(str::to_owned),
        size: i32::try_from(one.size).unwrap_or(i32::MAX),
        tick_rate: i32::from(one.tick_rate_hz),
        handler_name: one.handler_name.to_string(),
    });
    let mut body = Vec::new();
    encode(&mut body, &MatchList { matches: matches.collect() });
    Ok(body)
}

fn refusal(error: ListError) -> ApiError {
    match error {
        ListError::Query(_) | ListError::Expensive { .. } => {
            ApiError::internal("Error listing matches.")
        }
        error => ApiError::invalid(error.to_string()),
    }
}
