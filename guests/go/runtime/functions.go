//go:build wasip1

// The server's functions that take and give plain values, as methods of NakamaModule: each is a call by its name in
// the reference, docs/lua/functions.md. What is empty in Go is nil there. Those with structs and lists are in host.go.

package runtime

import (
	"context"
	"time"

	"throng/guest/wire"
)

// do calls a function of which only the error is of interest.
func do(name string, arguments ...any) error {
	_, err := wire.Call(name, arguments...)
	return refused(err)
}

// orNil is nothing for what is empty: then the server leaves it as it is, or chooses.
func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func mapOrNil(members map[string]any) any {
	if members == nil {
		return nil
	}
	return members
}

func list(items []string) []any {
	values := make([]any, len(items))
	for index, item := range items {
		values[index] = item
	}
	return values
}

func (module) authenticate(name string, arguments ...any) (string, string, bool, error) {
	results, err := call(3, name, arguments...)
	created, _ := results[2].(bool)
	return text(results[0]), text(results[1]), created, err
}

func (m module) AuthenticateCustom(_ context.Context, id, username string, create bool) (string, string, bool, error) {
	return m.authenticate("authenticate_custom", id, orNil(username), create)
}

func (m module) AuthenticateDevice(_ context.Context, id, username string, create bool) (string, string, bool, error) {
	return m.authenticate("authenticate_device", id, orNil(username), create)
}

func (m module) AuthenticateEmail(_ context.Context, email, password, username string, create bool) (string, string, bool, error) {
	return m.authenticate("authenticate_email", email, password, orNil(username), create)
}

func (module) AuthenticateTokenGenerate(userID, username string, exp int64, vars map[string]string) (string, int64, error) {
	results, err := call(2, "authenticate_token_generate", userID, orNil(username), exp, vars)
	return text(results[0]), whole(results[1]), err
}

func (module) AccountUpdateId(_ context.Context, userID, username string, metadata map[string]any, displayName, timezone, location, langTag, avatarUrl string) error {
	return do("account_update_id", userID, mapOrNil(metadata), orNil(username), orNil(displayName), orNil(timezone), orNil(location), orNil(langTag), orNil(avatarUrl))
}

func (module) AccountDeleteId(_ context.Context, userID string, recorded bool) error {
	return do("account_delete_id", userID, recorded)
}

func (module) UsersBanId(_ context.Context, userIDs []string) error {
	return do("users_ban_id", list(userIDs))
}

func (module) UsersUnbanId(_ context.Context, userIDs []string) error {
	return do("users_unban_id", list(userIDs))
}

func (module) LinkCustom(_ context.Context, userID, customID string) error {
	return do("link_custom", userID, customID)
}

func (module) LinkDevice(_ context.Context, userID, deviceID string) error {
	return do("link_device", userID, deviceID)
}

func (module) LinkEmail(_ context.Context, userID, email, password string) error {
	return do("link_email", userID, email, password)
}

func (module) UnlinkCustom(_ context.Context, userID, customID string) error {
	return do("unlink_custom", userID, orNil(customID))
}

func (module) UnlinkDevice(_ context.Context, userID, deviceID string) error {
	return do("unlink_device", userID, deviceID)
}

func (module) UnlinkEmail(_ context.Context, userID, email string) error {
	return do("unlink_email", userID, orNil(email))
}

func (module) CronNext(expression string, timestamp int64) (int64, error) {
	return number("cron_next", expression, timestamp)
}

func (module) CronPrev(expression string, timestamp int64) (int64, error) {
	return number("cron_prev", expression, timestamp)
}

func number(name string, arguments ...any) (int64, error) {
	result, err := one(name, arguments...)
	return whole(result), err
}

func (module) SessionLogout(userID, token, refreshToken string) error {
	return do("session_logout", userID, orNil(token), orNil(refreshToken))
}

func (module) StatusFollow(sessionID string, userIDs []string) error {
	return do("status_follow", sessionID, list(userIDs))
}

func (module) StatusUnfollow(sessionID string, userIDs []string) error {
	return do("status_unfollow", sessionID, list(userIDs))
}

func (module) NotificationSendAll(_ context.Context, subject string, content map[string]any, code int, persistent bool) error {
	return do("notification_send_all", subject, content, code, persistent)
}

func (module) FriendsAdd(_ context.Context, userID, username string, ids, usernames []string, metadata map[string]any) error {
	return do("friends_add", userID, username, list(ids), list(usernames), mapOrNil(metadata))
}

func (module) FriendsDelete(_ context.Context, userID, username string, ids, usernames []string) error {
	return do("friends_delete", userID, username, list(ids), list(usernames))
}

func (module) FriendsBlock(_ context.Context, userID, username string, ids, usernames []string) error {
	return do("friends_block", userID, username, list(ids), list(usernames))
}

func (module) FriendMetadataUpdate(_ context.Context, userID, friendUserID string, metadata map[string]any) error {
	return do("friend_metadata_update", userID, friendUserID, metadata)
}

// stream is how a stream is named; what is empty is left out.
func stream(mode uint8, subject, subcontext, label string) map[string]any {
	named := map[string]any{"mode": int(mode)}
	for name, part := range map[string]string{"subject": subject, "subcontext": subcontext, "label": label} {
		if part != "" {
			named[name] = part
		}
	}
	return named
}

func (module) StreamUserJoin(mode uint8, subject, subcontext, label, userID, sessionID string, hidden, persistence bool, status string) (bool, error) {
	isNew, err := one("stream_user_join", userID, sessionID, stream(mode, subject, subcontext, label), hidden, persistence, status)
	return isNew == true, err
}

func (module) StreamUserUpdate(mode uint8, subject, subcontext, label, userID, sessionID string, hidden, persistence bool, status string) error {
	return do("stream_user_update", userID, sessionID, stream(mode, subject, subcontext, label), hidden, persistence, status)
}

func (module) StreamUserLeave(mode uint8, subject, subcontext, label, userID, sessionID string) error {
	return do("stream_user_leave", userID, sessionID, stream(mode, subject, subcontext, label))
}

func (module) StreamCount(mode uint8, subject, subcontext, label string) (int, error) {
	count, err := number("stream_count", stream(mode, subject, subcontext, label))
	return int(count), err
}

func (module) StreamClose(mode uint8, subject, subcontext, label string) error {
	return do("stream_close", stream(mode, subject, subcontext, label))
}

func (module) MetricsCounterAdd(name string, tags map[string]string, delta int64) {
	// As in Nakama there is no error: what is refused is counted by the server.
	_ = do("metrics_counter_add", name, tags, delta)
}

func (module) MetricsGaugeSet(name string, tags map[string]string, value float64) {
	_ = do("metrics_gauge_set", name, tags, value)
}

func (module) MetricsTimerRecord(name string, tags map[string]string, value time.Duration) {
	_ = do("metrics_timer_record", name, tags, int64(value))
}
