//! The call about events.
//!
//! Source: Nakama 3.40, `server/api_event.go`.

use wire::nakama::api::{self, Empty};

use super::run::{Cx, Effect};
use crate::error::ApiError;
use crate::events::{Event, EventJob, EventKind};
use crate::guest::CallContext;
use crate::session::Claims;

/// Whether there is a handler only workers know, so that the answer is the same.
pub(super) fn event(cx: &mut Cx<'_>, request: &api::Event) -> Result<Empty, ApiError> {
    let Claims { user_id, username, vars, expires_s, .. } = cx.caller()?;
    let context = CallContext {
        execution_mode: "event",
        user_id: Some(*user_id),
        username: Some(username.to_string()),
        vars: vars.clone(),
        user_session_exp: Some(*expires_s),
        ..CallContext::default()
    };
    let job =
        EventJob { kind: EventKind::Custom, event: Event::from(request), context, cause: None };
    cx.effects.push(Effect::Event(Box::new(job)));
    Ok(Empty {})
}
