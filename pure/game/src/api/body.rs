//! Request bodies of the REST API beyond those that `wire` has: storage. Names in snake case or
//! camel case, `null` is unset, unknown names are passed over, duplicates are an error.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::ApiError;
use crate::session::Vars;

/// Most bytes of session variables, names and values together: they travel in every request's
/// token, and a request's head ends at 5 KiB.
pub(super) const VARS_BYTES_MAX: usize = 4 * 1024;

/// Session variables in the form that tokens take.
pub(super) fn vars(vars: BTreeMap<String, String>) -> Result<Vars, ApiError> {
    if vars.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > VARS_BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "Session vars invalid, must be at most {VARS_BYTES_MAX} bytes."
        )));
    }
    Ok(vars.into_iter().collect())
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ObjectIdBody {
    pub(super) collection: Option<String>,
    pub(super) key: Option<String>,
    #[serde(alias = "userId")]
    pub(super) user_id: Option<String>,
    pub(super) version: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ObjectIdsBody {
    #[serde(alias = "objectIds")]
    pub(super) object_ids: Option<Vec<ObjectIdBody>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WriteBody {
    pub(super) collection: Option<String>,
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    pub(super) version: Option<String>,
    #[serde(alias = "permissionRead")]
    pub(super) permission_read: Option<Int>,
    #[serde(alias = "permissionWrite")]
    pub(super) permission_write: Option<Int>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WritesBody {
    pub(super) objects: Option<Vec<WriteBody>>,
}

/// A whole number, as a number or as text.
#[derive(Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(super) struct Int(pub(super) i64);

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(i64),
    Text(String),
}

impl TryFrom<NumberOrText> for Int {
    type Error = std::num::ParseIntError;

    fn try_from(either: NumberOrText) -> Result<Self, Self::Error> {
        match either {
            NumberOrText::Number(number) => Ok(Self(number)),
            NumberOrText::Text(text) => text.parse().map(Self),
        }
    }
}
