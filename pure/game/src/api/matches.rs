//! `GET /v2/match`: parameters in, JSON out; the listing itself is the directory's.

use wire::nakama::api::{Match, MatchList, encode};
use wire::query::Query;

use crate::directory::{Directory, ListError, ListFilter};
use crate::error::{ApiError, Code};

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

/// Answers a listing; adds what it cost to `steps` ([`Directory::list_counting`]).
///
/// # Errors
/// [`ApiError`], to be answered as it is: code 3, 8 or 13.
pub fn run(
    directory: &Directory,
    filter: &ListFilter,
    steps: &mut u64,
) -> Result<Vec<u8>, ApiError> {
    filter.check_request().map_err(refusal)?;
    let listed = directory.list_counting(filter, steps).map_err(refusal)?;
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
        ListError::Query(_) => ApiError::internal("Error listing matches."),
        // Says more than Nakama, which has no such limit: which setting moves it.
        ListError::Expensive { .. } => ApiError::new(Code::ResourceExhausted, error.to_string()),
        error => ApiError::invalid(error.to_string()),
    }
}
