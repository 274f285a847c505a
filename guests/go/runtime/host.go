//go:build wasip1

package runtime

import (
	"context"
	"encoding/json"

	"throng/guest/wire"
)

type module struct{}

var nk NakamaModule = module{}

func (module) Call(name string, arguments ...any) ([]any, error) {
	return wire.Call(name, arguments...)
}

// one gives the first result of a function.
func one(name string, arguments ...any) (any, error) {
	results, err := wire.Call(name, arguments...)
	if err != nil || len(results) == 0 {
		return nil, err
	}
	return results[0], nil
}

func (module) RunOnce() bool {
	first, _ := one("run_once")
	return first == true
}

func (module) StorageRead(_ context.Context, reads []*StorageRead) ([]*StorageObject, error) {
	ids := make([]any, len(reads))
	for index, read := range reads {
		ids[index] = named(read.Collection, read.Key, read.UserID)
	}
	found, err := one("storage_read", ids)
	if err != nil {
		return nil, err
	}
	var objects []*StorageObject
	items, _ := found.([]any)
	for _, item := range items {
		object, _ := item.(map[string]any)
		value, err := json.Marshal(object["value"])
		if err != nil {
			return nil, err
		}
		objects = append(objects, &StorageObject{
			text(object["collection"]), text(object["key"]), text(object["user_id"]), string(value), text(object["version"]),
		})
	}
	return objects, nil
}

func (module) StorageWrite(_ context.Context, writes []*StorageWrite) ([]*StorageObjectAck, error) {
	objects := make([]any, len(writes))
	for index, write := range writes {
		object := named(write.Collection, write.Key, write.UserID)
		var value map[string]any
		if err := json.Unmarshal([]byte(write.Value), &value); err != nil {
			return nil, NewError("expects the value to be a JSON object: "+err.Error(), 3)
		}
		object["value"] = value
		object["permission_read"], object["permission_write"] = write.PermissionRead, write.PermissionWrite
		if write.Version != "" {
			object["version"] = write.Version
		}
		objects[index] = object
	}
	written, err := one("storage_write", objects)
	if err != nil {
		return nil, err
	}
	var acks []*StorageObjectAck
	items, _ := written.([]any)
	for _, item := range items {
		ack, _ := item.(map[string]any)
		acks = append(acks, &StorageObjectAck{
			text(ack["collection"]), text(ack["key"]), text(ack["user_id"]), text(ack["version"]),
		})
	}
	return acks, nil
}

func (module) StorageDelete(_ context.Context, deletes []*StorageDelete) error {
	ids := make([]any, len(deletes))
	for index, delete := range deletes {
		id := named(delete.Collection, delete.Key, delete.UserID)
		if delete.Version != "" {
			id["version"] = delete.Version
		}
		ids[index] = id
	}
	_, err := one("storage_delete", ids)
	return err
}

// named is how an object is named; one of nobody has no user.
func named(collection, key, userID string) map[string]any {
	id := map[string]any{"collection": collection, "key": key}
	if userID != "" {
		id["user_id"] = userID
	}
	return id
}

func (module) MatchCreate(_ context.Context, name string, params map[string]any) (string, error) {
	id, err := one("match_create", name, params)
	return text(id), err
}

func (module) MatchSignal(_ context.Context, id, data string) (string, error) {
	answer, err := one("match_signal", id, data)
	return text(answer), err
}

func (module) WalletUpdate(_ context.Context, userID string, changeset map[string]int64, metadata map[string]any, updateLedger bool) (map[string]int64, map[string]int64, error) {
	changes := make(map[string]any, len(changeset))
	for name, change := range changeset {
		changes[name] = change
	}
	results, err := wire.Call("wallet_update", userID, changes, metadata, updateLedger)
	if err != nil || len(results) < 2 {
		return nil, nil, err
	}
	return numbers(results[0]), numbers(results[1]), nil
}

func numbers(value any) map[string]int64 {
	members, _ := value.(map[string]any)
	numbers := make(map[string]int64, len(members))
	for name, member := range members {
		numbers[name], _ = member.(int64)
	}
	return numbers
}

func (module) NotificationSend(_ context.Context, userID, subject string, content map[string]any, code int, sender string, persistent bool) error {
	var from any
	if sender != "" {
		from = sender
	}
	_, err := wire.Call("notification_send", userID, subject, content, code, from, persistent)
	return err
}
