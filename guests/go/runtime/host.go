//go:build wasip1

// The server's functions that take and give structs, messages and lists, as methods of NakamaModule. What they give is
// read by wire.Fill, whose head says in which forms. Those with plain values are in functions.go.

package runtime

import (
	"bytes"
	"context"
	"encoding/json"

	"throng/guest/api"
	"throng/guest/rtapi"
	"throng/guest/wire"
)

type module struct{}

var nk NakamaModule = module{}

func (module) Call(name string, arguments ...any) ([]any, error) {
	return wire.Call(name, arguments...)
}

// call calls a function with at least so many results.
func call(results int, name string, arguments ...any) ([]any, error) {
	given, err := wire.Call(name, arguments...)
	for len(given) < results {
		given = append(given, nil)
	}
	return given, refused(err)
}

// one gives the first result of a function.
func one(name string, arguments ...any) (any, error) {
	results, err := call(1, name, arguments...)
	return results[0], err
}

// read gives the first result of a function as what is wanted.
func read[T any](name string, arguments ...any) (T, error) {
	var wanted T
	result, err := one(name, arguments...)
	if err == nil {
		err = wire.Fill(&wanted, result)
	}
	return wanted, err
}

// page gives a list and the cursor of the next page.
func page[T any](name string, arguments ...any) (T, string, error) {
	var items T
	results, err := call(2, name, arguments...)
	if err == nil {
		err = wire.Fill(&items, results[0])
	}
	return items, text(results[1]), err
}

func (module) RunOnce() bool {
	first, _ := one("run_once")
	return first == true
}

func (module) AccountGetId(_ context.Context, userID string) (*api.Account, error) {
	return read[*api.Account]("account_get_id", userID)
}

func (module) AccountsGetId(_ context.Context, userIDs, deviceIDs []string) ([]*api.Account, error) {
	return read[[]*api.Account]("accounts_get_id", list(userIDs), list(deviceIDs))
}

func (module) UsersGetId(_ context.Context, userIDs, facebookIDs []string) ([]*api.User, error) {
	return read[[]*api.User]("users_get_id", list(userIDs), list(facebookIDs))
}

func (module) UsersGetUsername(_ context.Context, usernames []string) ([]*api.User, error) {
	return read[[]*api.User]("users_get_username", list(usernames))
}

func (module) UsersGetFriendStatus(_ context.Context, userID string, userIDs []string) ([]*api.Friend, error) {
	return read[[]*api.Friend]("users_get_friend_status", userID, list(userIDs))
}

func (module) UsersGetRandom(_ context.Context, count int) ([]*api.User, error) {
	return read[[]*api.User]("users_get_random", count)
}

func (module) ReadFile(path string) (*File, error) {
	content, err := one("file_read", path)
	if err != nil {
		return nil, err
	}
	return &File{bytes.NewReader([]byte(text(content))), path}, nil
}

func (module) StorageList(_ context.Context, callerID, userID, collection string, limit int, cursor string) ([]*api.StorageObject, string, error) {
	return page[[]*api.StorageObject]("storage_list", orNil(userID), collection, limit, cursor, orNil(callerID))
}

func (module) StorageRead(_ context.Context, reads []*StorageRead) ([]*api.StorageObject, error) {
	ids := make([]any, len(reads))
	for index, read := range reads {
		ids[index] = named(read.Collection, read.Key, read.UserID)
	}
	return read[[]*api.StorageObject]("storage_read", ids)
}

func (module) StorageWrite(_ context.Context, writes []*StorageWrite) ([]*api.StorageObjectAck, error) {
	objects, err := objectsOf(writes)
	if err != nil {
		return nil, err
	}
	return read[[]*api.StorageObjectAck]("storage_write", objects)
}

// retriesMax is how often StorageWriteRetry tries again at most.
const retriesMax = 100

func (m module) StorageWriteRetry(ctx context.Context, reads []*StorageRead, updateFn func(objects []*api.StorageObject) ([]*StorageWrite, error), maxRetries int) ([]*api.StorageObjectAck, error) {
	if maxRetries < 0 || maxRetries > retriesMax {
		return nil, NewError("expects the retries to be 0-100", 3)
	}
	for range maxRetries + 1 {
		objects, err := m.StorageRead(ctx, reads)
		if err != nil {
			return nil, err
		}
		writes, err := updateFn(objects)
		if err != nil {
			return nil, err
		}
		acks, err := m.StorageWrite(ctx, writes)
		if err != ErrStorageRejectedVersion {
			return acks, err
		}
	}
	return nil, ErrStorageWriteExhaustedRetries
}

func (module) StorageDelete(_ context.Context, deletes []*StorageDelete) error {
	return do("storage_delete", idsOf(deletes))
}

func objectsOf(writes []*StorageWrite) ([]any, error) {
	objects := make([]any, len(writes))
	for index, write := range writes {
		object := named(write.Collection, write.Key, write.UserID)
		value, err := tableOf(write.Value)
		if err != nil {
			return nil, NewError("expects the value to be a JSON object: "+err.Error(), 3)
		}
		object["value"] = value
		object["permission_read"], object["permission_write"] = write.PermissionRead, write.PermissionWrite
		if write.Version != "" {
			object["version"] = write.Version
		}
		objects[index] = object
	}
	return objects, nil
}

func idsOf(deletes []*StorageDelete) []any {
	ids := make([]any, len(deletes))
	for index, delete := range deletes {
		id := named(delete.Collection, delete.Key, delete.UserID)
		if delete.Version != "" {
			id["version"] = delete.Version
		}
		ids[index] = id
	}
	return ids
}

// tableOf is a JSON object as a value. A whole number stays one, however large.
func tableOf(text string) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if value == nil {
		return nil, NewError("it is null", 3)
	}
	return value, nil
}

// named is how an object is named; one of nobody has no user.
func named(collection, key, userID string) map[string]any {
	id := map[string]any{"collection": collection, "key": key}
	if userID != "" {
		id["user_id"] = userID
	}
	return id
}

func (module) MultiUpdate(_ context.Context, accountUpdates []*AccountUpdate, storageWrites []*StorageWrite, storageDeletes []*StorageDelete, walletUpdates []*WalletUpdate, updateLedger bool) ([]*api.StorageObjectAck, []*WalletUpdateResult, error) {
	accounts := make([]any, len(accountUpdates))
	for index, update := range accountUpdates {
		account := map[string]any{"user_id": update.UserID}
		for name, text := range map[string]string{
			"username": update.Username, "display_name": update.DisplayName, "timezone": update.Timezone,
			"location": update.Location, "lang_tag": update.LangTag, "avatar_url": update.AvatarUrl,
		} {
			if text != "" {
				account[name] = text
			}
		}
		if update.Metadata != nil {
			account["metadata"] = update.Metadata
		}
		accounts[index] = account
	}
	writes, err := objectsOf(storageWrites)
	if err != nil {
		return nil, nil, err
	}
	results, err := call(2, "multi_update", accounts, writes, idsOf(storageDeletes), changesOf(walletUpdates), updateLedger)
	var acks []*api.StorageObjectAck
	if err == nil {
		err = wire.Fill(&acks, results[0])
	}
	if err != nil {
		return nil, nil, err
	}
	return acks, changedOf(results[1]), nil
}

func (module) MatchCreate(_ context.Context, name string, params map[string]any) (string, error) {
	id, err := one("match_create", name, params)
	return text(id), err
}

func (module) MatchGet(_ context.Context, id string) (*api.Match, error) {
	return read[*api.Match]("match_get", id)
}

func (module) MatchList(_ context.Context, limit int, authoritative bool, label string, minSize, maxSize *int, query string) ([]*api.Match, error) {
	return read[[]*api.Match]("match_list", limit, authoritative, orNil(label), intOrNil(minSize), intOrNil(maxSize), orNil(query))
}

func intOrNil(number *int) any {
	if number == nil {
		return nil
	}
	return *number
}

func (module) MatchSignal(_ context.Context, id, data string) (string, error) {
	answer, err := one("match_signal", id, data)
	return text(answer), err
}

func (module) WalletUpdate(_ context.Context, userID string, changeset map[string]int64, metadata map[string]any, updateLedger bool) (map[string]int64, map[string]int64, error) {
	results, err := call(2, "wallet_update", userID, wire.Plain(changeset), mapOrNil(metadata), updateLedger)
	if err != nil {
		return nil, nil, err
	}
	return numbers(results[0]), numbers(results[1]), nil
}

func changesOf(updates []*WalletUpdate) []any {
	changes := make([]any, len(updates))
	for index, update := range updates {
		change := map[string]any{"user_id": update.UserID, "changeset": wire.Plain(update.Changeset)}
		if update.Metadata != nil {
			change["metadata"] = update.Metadata
		}
		changes[index] = change
	}
	return changes
}

func changedOf(result any) []*WalletUpdateResult {
	items, _ := result.([]any)
	changed := make([]*WalletUpdateResult, len(items))
	for index, item := range items {
		members, _ := item.(map[string]any)
		changed[index] = &WalletUpdateResult{text(members["user_id"]), numbers(members["updated"]), numbers(members["previous"])}
	}
	return changed
}

func (module) WalletsUpdate(_ context.Context, updates []*WalletUpdate, updateLedger bool) ([]*WalletUpdateResult, error) {
	changed, err := one("wallets_update", changesOf(updates), updateLedger)
	if err != nil {
		return nil, err
	}
	return changedOf(changed), nil
}

// ledgerItem is a row of the ledger, as the server's function gives it.
type ledgerItem map[string]any

func (i ledgerItem) GetID() string                  { return text(i["id"]) }
func (i ledgerItem) GetUserID() string              { return text(i["user_id"]) }
func (i ledgerItem) GetCreateTime() int64           { return whole(i["create_time"]) }
func (i ledgerItem) GetUpdateTime() int64           { return whole(i["update_time"]) }
func (i ledgerItem) GetChangeset() map[string]int64 { return numbers(i["changeset"]) }
func (i ledgerItem) GetMetadata() map[string]any    { return members(i["metadata"]) }

func (module) WalletLedgerUpdate(_ context.Context, itemID string, metadata map[string]any) (WalletLedgerItem, error) {
	item, err := one("wallet_ledger_update", itemID, metadata)
	if err != nil {
		return nil, err
	}
	return ledgerItem(members(item)), nil
}

func (module) WalletLedgerList(_ context.Context, userID string, limit int, cursor string) ([]WalletLedgerItem, string, error) {
	results, err := call(2, "wallet_ledger_list", userID, limit, cursor)
	if err != nil {
		return nil, "", err
	}
	rows, _ := results[0].([]any)
	items := make([]WalletLedgerItem, len(rows))
	for index, row := range rows {
		items[index] = ledgerItem(members(row))
	}
	return items, text(results[1]), nil
}

func numbers(value any) map[string]int64 {
	members := members(value)
	numbers := make(map[string]int64, len(members))
	for name, member := range members {
		numbers[name] = whole(member)
	}
	return numbers
}

func (module) NotificationSend(_ context.Context, userID, subject string, content map[string]any, code int, sender string, persistent bool) error {
	return do("notification_send", userID, subject, content, code, orNil(sender), persistent)
}

func (module) NotificationsSend(_ context.Context, notifications []*NotificationSend) error {
	all := make([]any, len(notifications))
	for index, one := range notifications {
		notification := map[string]any{
			"user_id": one.UserID, "subject": one.Subject, "content": one.Content, "code": one.Code, "persistent": one.Persistent,
		}
		if one.Sender != "" {
			notification["sender_id"] = one.Sender
		}
		all[index] = notification
	}
	return do("notifications_send", all)
}

func (module) NotificationsList(_ context.Context, userID string, limit int, cursor string) ([]*api.Notification, string, error) {
	results, err := call(2, "notifications_list", userID, limit, cursor)
	if err != nil {
		return nil, "", err
	}
	// Two of the names are JavaScript's there, as in Nakama.
	items, _ := results[0].([]any)
	for _, item := range items {
		row := members(item)
		row["sender_id"], row["create_time"] = row["senderId"], row["createTime"]
	}
	var notifications []*api.Notification
	err = wire.Fill(&notifications, results[0])
	return notifications, text(results[1]), err
}

func (module) NotificationsGetId(_ context.Context, userID string, ids []string) ([]*Notification, error) {
	found, err := one("notifications_get_id", list(ids), orNil(userID))
	if err != nil {
		return nil, err
	}
	rows, _ := found.([]any)
	notifications := make([]*Notification, len(rows))
	for index, item := range rows {
		row := members(item)
		notification := &Notification{
			Id: text(row["id"]), UserID: text(row["user_id"]), Subject: text(row["subject"]), Content: members(row["content"]),
			Code: int(whole(row["code"])), Sender: text(row["sender_id"]), Persistent: row["persistent"] == true,
		}
		if err := wire.Fill(&notification.CreateTime, row["create_time"]); err != nil {
			return nil, err
		}
		notifications[index] = notification
	}
	return notifications, nil
}

func (module) NotificationsUpdate(_ context.Context, updates ...NotificationUpdate) error {
	all := make([]any, len(updates))
	for index, one := range updates {
		update := map[string]any{"id": one.Id}
		if one.Subject != nil {
			update["subject"] = *one.Subject
		}
		if one.Content != nil {
			update["content"] = one.Content
		}
		if one.Sender != nil {
			update["sender"] = *one.Sender
		}
		all[index] = update
	}
	return do("notifications_update", all)
}

func (module) NotificationsDelete(_ context.Context, notifications []*NotificationDelete) error {
	all := make([]any, len(notifications))
	for index, one := range notifications {
		all[index] = map[string]any{"user_id": one.UserID, "notification_id": one.NotificationID}
	}
	return do("notifications_delete", all)
}

func (module) NotificationsDeleteId(_ context.Context, userID string, ids []string) error {
	return do("notifications_delete_id", list(ids), orNil(userID))
}

func (module) FriendsList(_ context.Context, userID string, limit int, state *int, cursor string) ([]*api.Friend, string, error) {
	return page[[]*api.Friend]("friends_list", userID, limit, intOrNil(state), cursor)
}

func (module) FriendsOfFriendsList(_ context.Context, userID string, limit int, cursor string) ([]*api.FriendsOfFriendsList_FriendOfFriend, string, error) {
	return page[[]*api.FriendsOfFriendsList_FriendOfFriend]("friends_of_friends_list", userID, limit, cursor)
}

func (module) Event(_ context.Context, evt *api.Event) error {
	if evt == nil {
		return NewError("expects an event", 3)
	}
	var moment any
	if evt.Timestamp != nil {
		moment = evt.Timestamp.Seconds
	}
	return do("event", evt.Name, evt.Properties, moment, evt.External)
}

// streamPresence is a row of stream_user_list, or what stream_user_get gives.
type streamPresence map[string]any

func (p streamPresence) GetHidden() bool           { return p["hidden"] == true }
func (p streamPresence) GetPersistence() bool      { return p["persistence"] == true }
func (p streamPresence) GetUsername() string       { return text(p["username"]) }
func (p streamPresence) GetStatus() string         { return text(p["status"]) }
func (p streamPresence) GetReason() PresenceReason { return PresenceReasonUnknown }
func (p streamPresence) GetUserId() string         { return text(p["user_id"]) }
func (p streamPresence) GetSessionId() string      { return text(p["session_id"]) }
func (p streamPresence) GetNodeId() string         { return text(p["node"]) }

func (module) StreamUserList(mode uint8, subject, subcontext, label string, includeHidden, includeNotHidden bool) ([]Presence, error) {
	found, err := one("stream_user_list", stream(mode, subject, subcontext, label), includeHidden, includeNotHidden)
	if err != nil {
		return nil, err
	}
	rows, _ := found.([]any)
	presences := make([]Presence, len(rows))
	for index, row := range rows {
		presences[index] = streamPresence(members(row))
	}
	return presences, nil
}

func (module) StreamUserGet(mode uint8, subject, subcontext, label, userID, sessionID string) (PresenceMeta, error) {
	found, err := one("stream_user_get", userID, sessionID, stream(mode, subject, subcontext, label))
	if err != nil || found == nil {
		return nil, err
	}
	return streamPresence(members(found)), nil
}

func (module) StreamUserKick(mode uint8, subject, subcontext, label string, presence Presence) error {
	if presence == nil {
		return NewError("expects a presence", 3)
	}
	return do("stream_user_kick", receiver(presence), stream(mode, subject, subcontext, label))
}

func (module) StreamSend(mode uint8, subject, subcontext, label, data string, presences []Presence, reliable bool) error {
	return do("stream_send", stream(mode, subject, subcontext, label), data, receivers(presences), reliable)
}

func (module) StreamSendRaw(mode uint8, subject, subcontext, label string, msg *rtapi.Envelope, presences []Presence, reliable bool) error {
	if msg == nil {
		return NewError("expects a message", 3)
	}
	return do("stream_send_raw", stream(mode, subject, subcontext, label), wire.Plain(msg), receivers(presences), reliable)
}

func receiver(presence Presence) any {
	return map[string]any{
		"user_id": presence.GetUserId(), "session_id": presence.GetSessionId(), "node": presence.GetNodeId(),
	}
}

func receivers(presences []Presence) []any {
	all := make([]any, len(presences))
	for index, presence := range presences {
		all[index] = receiver(presence)
	}
	return all
}

func (module) SessionDisconnect(_ context.Context, sessionID string, reason ...PresenceReason) error {
	if len(reason) > 0 {
		return do("session_disconnect", sessionID, int(reason[0]))
	}
	return do("session_disconnect", sessionID)
}
