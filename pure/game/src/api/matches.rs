//! `GET /v2/match`; the listing itself is the directory's.

use wire::nakama::Format;
use wire::nakama::api::{ListMatchesRequest, Match, MatchList, encode};

use super::run::Cx;
use crate::directory::{Directory, ListError, ListFilter};
use crate::error::{ApiError, Code};

/// How many matches are listed when a request does not say.
const LIMIT_DEFAULT: i32 = 10;

pub(super) fn list(cx: &mut Cx<'_>, request: &ListMatchesRequest) -> Result<MatchList, ApiError> {
    listed(cx.directory, request, &mut 0)
}

/// Answers a listing; adds what it cost to `steps` ([`Directory::list_counting`]).
///
/// # Errors
/// [`ApiError`], to be answered as it is: code 3, 8 or 13.
pub fn run(
    directory: &Directory,
    request: &ListMatchesRequest,
    format: Format,
    steps: &mut u64,
) -> Result<Vec<u8>, ApiError> {
    let list = listed(directory, request, steps)?;
    let mut body = Vec::new();
    encode(&mut body, &list, format);
    Ok(body)
}

fn listed(
    directory: &Directory,
    request: &ListMatchesRequest,
    steps: &mut u64,
) -> Result<MatchList, ApiError> {
    let filter = ListFilter {
        // What is below 0 is refused as 0 is, by `check_request`.
        limit: u32::try_from(request.limit.unwrap_or(LIMIT_DEFAULT)).unwrap_or(0),
        authoritative: request.authoritative,
        label: request.label.clone(),
        min_size: request.min_size,
        max_size: request.max_size,
        query: request.query.clone(),
    };
    filter.check_request().map_err(refusal)?;
    let found = directory.list_counting(&filter, steps).map_err(refusal)?;
    let matches = found.into_iter().map(|one| Match {
        match_id: one.id.text(directory.nodes()),
        authoritative: one.id.is_authoritative(),
        label: one.label().map(str::to_owned),
        size: i32::try_from(one.size).unwrap_or(i32::MAX),
        tick_rate: i32::from(one.info.tick_rate_hz),
        handler_name: one.info.handler_name.to_string(),
    });
    Ok(MatchList { matches: matches.collect() })
}

fn refusal(error: ListError) -> ApiError {
    match error {
        ListError::Query(_) => ApiError::internal("Error listing matches."),
        // Says more than Nakama, which has no such limit: which setting moves it.
        ListError::Expensive { .. } => ApiError::new(Code::ResourceExhausted, error.to_string()),
        error => ApiError::invalid(error.to_string()),
    }
}
