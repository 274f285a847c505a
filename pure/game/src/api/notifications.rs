//! The calls about notifications.
//!
//! Source: Nakama 3.40, `server/api_notification.go`.

use uuid::Uuid;
use wire::excerpt::excerpt;
use wire::nakama::api::{
    DeleteNotificationsRequest, Empty, ListNotificationsRequest, NotificationList,
};

use super::account::empty;
use super::run::{Cx, limit};
use crate::error::ApiError;
use crate::notifications::{self, Notification};

/// Most notifications on one page of a client.
const LIMIT_MAX: usize = 100;

pub(super) fn list(
    cx: &mut Cx<'_>,
    request: &ListNotificationsRequest,
) -> Result<NotificationList, ApiError> {
    let limit = limit(request.limit, 1, LIMIT_MAX)?;
    let user_id = cx.user_id()?;
    let page = (limit, &*request.cacheable_cursor);
    let list = notifications::list(cx.db, user_id, page, cx.answer_bytes_max)?;
    let notifications = list.notifications.into_iter().map(Notification::into_message).collect();
    Ok(NotificationList { notifications, cacheable_cursor: list.cursor })
}

pub(super) fn delete_rows(request: &DeleteNotificationsRequest) -> usize {
    request.ids.len()
}

pub(super) fn delete(
    cx: &mut Cx<'_>,
    request: &DeleteNotificationsRequest,
) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    let id = |text: &String| {
        let wrong = |_| ApiError::invalid(format!("Invalid notification ID '{}'.", excerpt(text)));
        Uuid::try_parse(text).map_err(wrong)
    };
    let ids: Vec<Uuid> = request.ids.iter().map(id).collect::<Result<_, _>>()?;
    if ids.is_empty() {
        return Ok(Empty {});
    }
    notifications::delete(cx.db, user_id, &ids).map(empty)
}
