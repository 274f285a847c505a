//! What request bodies may hold beyond their form, which is `wire`'s matter: session variables.

use std::collections::BTreeMap;

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
