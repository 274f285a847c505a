//! The calls about the caller's account, and about other users.
//!
//! Source: Nakama 3.40, `server/api_account.go`, `server/api_link.go`, `server/api_unlink.go`,
//! `server/api_user.go`.

use uuid::Uuid;
use wire::excerpt::excerpt;
use wire::nakama::api::{
    Account, AccountCustom, AccountDevice, AccountEmail, Empty, GetUsersRequest,
    UpdateAccountRequest, Users,
};

use super::run::{Cx, Disconnect, Effect};
use crate::account::{self, AccountUpdate};
use crate::error::ApiError;
use crate::{link, user};

pub(super) fn get(cx: &mut Cx<'_>, _: &Empty) -> Result<Account, ApiError> {
    let user_id = cx.user_id()?;
    let account = account::account(cx.db, user_id)
        .map_err(ApiError::database("Error retrieving user account."))?
        .ok_or_else(account::account_not_found)?;
    Ok(account.into_message(cx.directory.is_online(user_id)))
}

pub(super) fn update(cx: &mut Cx<'_>, request: &UpdateAccountRequest) -> Result<Empty, ApiError> {
    let request = request.clone();
    let update = AccountUpdate {
        username: request.username,
        display_name: request.display_name,
        avatar_url: request.avatar_url,
        lang_tag: request.lang_tag,
        location: request.location,
        timezone: request.timezone,
        metadata: None,
    };
    let user_id = cx.user_id()?;
    account::update(cx.db, cx.now, user_id, &update).map(empty)
}

/// How much an account has that is deleted nobody knows before.
pub(super) fn rows(_: &Empty) -> usize {
    let edges = crate::friends::EDGES_MAX + crate::friends::INVITATIONS_MAX;
    crate::storage::OBJECTS_MAX + usize::try_from(edges).unwrap_or(usize::MAX)
}

pub(super) fn delete(cx: &mut Cx<'_>, _: &Empty) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    let gone = account::delete(cx.db, cx.now, cx.signer.lifetime_s(), user_id)?;
    let cause = Disconnect::Deleted;
    cx.effects.extend([Effect::Revoke(gone), Effect::Disconnect { user_id, cause }]);
    Ok(Empty {})
}

pub(super) fn link_custom(cx: &mut Cx<'_>, request: &AccountCustom) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    link::link_custom(cx.db, cx.now, user_id, &request.id).map(empty)
}

pub(super) fn link_device(cx: &mut Cx<'_>, request: &AccountDevice) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    link::link_device(cx.db, cx.now, user_id, &request.id).map(empty)
}

pub(super) fn link_email(cx: &mut Cx<'_>, request: &AccountEmail) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    let secret = (request.email.as_str(), request.password.as_str());
    let salt = cx.random.bytes();
    link::link_email(cx.db, cx.now, user_id, secret, salt).map(empty)
}

pub(super) fn unlink_custom(cx: &mut Cx<'_>, request: &AccountCustom) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    link::unlink_custom(cx.db, cx.now, user_id, &request.id).map(empty)
}

pub(super) fn unlink_device(cx: &mut Cx<'_>, request: &AccountDevice) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    link::unlink_device(cx.db, cx.now, user_id, &request.id).map(empty)
}

pub(super) fn unlink_email(cx: &mut Cx<'_>, request: &AccountEmail) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    link::unlink_email(cx.db, cx.now, user_id, &request.email).map(empty)
}

pub(super) fn users_rows(request: &GetUsersRequest) -> usize {
    request.ids.len() + request.usernames.len()
}

pub(super) fn users(cx: &mut Cx<'_>, request: &GetUsersRequest) -> Result<Users, ApiError> {
    let ids = user_ids(&request.ids)?;
    let users = user::users(cx.db, &ids, &request.usernames)
        .map_err(ApiError::database("Error retrieving user accounts."))?;
    let users = users.into_iter().map(|user| {
        let is_online = cx.directory.is_online(user.id);
        user.into_message(is_online)
    });
    Ok(Users { users: users.collect() })
}

/// Ids as requests have them.
pub(super) fn user_ids(texts: &[String]) -> Result<Vec<Uuid>, ApiError> {
    let parse = |text: &String| {
        Uuid::try_parse(text).map_err(|_| {
            ApiError::invalid(format!("ID '{}' is not a valid system ID.", excerpt(text)))
        })
    };
    texts.iter().map(parse).collect()
}

/// The answer of calls that give nothing.
pub(super) fn empty((): ()) -> Empty {
    Empty {}
}
