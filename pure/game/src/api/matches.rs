//! `GET /v2/match`: parameters in, JSON out; the listing itself is the directory's.

use super::target::Params;
use crate::directory::Directory;
use crate::error::{ApiError, Code};

/// What to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMatches {
    /// 1–100.
    pub limit: u32,
    /// Only authoritative ones, or only relayed ones.
    pub authoritative: Option<bool>,
    /// Exactly this label.
    pub label: Option<String>,
    /// At least so many members.
    pub min_size: Option<i32>,
    /// At most so many members.
    pub max_size: Option<i32>,
    /// In the query language.
    pub query: Option<String>,
}

pub(super) fn parse(params: &Params<'_>) -> Result<ListMatches, ApiError> {
    Ok(ListMatches {
        limit: params.int("limit")?.map_or(10, |limit| u32::try_from(limit).unwrap_or(0)),
        authoritative: params.bool("authoritative")?,
        label: params.text("label")?.map(str::to_owned),
        min_size: params.int("min_size")?,
        max_size: params.int("max_size")?,
        query: params.text("query")?.map(str::to_owned),
    })
}

pub(super) fn run(_directory: &Directory, _filter: &ListMatches) -> Result<Vec<u8>, ApiError> {
    Err(ApiError::new(Code::Unimplemented, "match listing is not implemented in throng yet"))
}
