package runtime

import "context"

// StorageRead names an object of storage.
type StorageRead struct {
	Collection string
	Key        string
	UserID     string
}

// StorageWrite is an object to be written; Value is a JSON object.
type StorageWrite struct {
	Collection      string
	Key             string
	UserID          string
	Value           string
	Version         string
	PermissionRead  int
	PermissionWrite int
}

// StorageDelete names an object to be deleted.
type StorageDelete struct {
	Collection string
	Key        string
	UserID     string
	Version    string
}

// StorageObject is an object as it was read; Value is a JSON object.
type StorageObject struct {
	Collection string
	Key        string
	UserId     string
	Value      string
	Version    string
}

// StorageObjectAck tells the version of an object that was written.
type StorageObjectAck struct {
	Collection string
	Key        string
	UserId     string
	Version    string
}

// NakamaModule has the server's functions.
type NakamaModule interface {
	StorageRead(ctx context.Context, reads []*StorageRead) ([]*StorageObject, error)
	StorageWrite(ctx context.Context, writes []*StorageWrite) ([]*StorageObjectAck, error)
	StorageDelete(ctx context.Context, deletes []*StorageDelete) error
	MatchCreate(ctx context.Context, module string, params map[string]any) (string, error)
	MatchSignal(ctx context.Context, id, data string) (string, error)
	// WalletUpdate adds to a user's wallet; it gives the wallet after and before.
	WalletUpdate(ctx context.Context, userID string, changeset map[string]int64, metadata map[string]any, updateLedger bool) (updated, previous map[string]int64, err error)
	NotificationSend(ctx context.Context, userID, subject string, content map[string]any, code int, sender string, persistent bool) error
	// Call calls any function of the server by its name in the reference, docs/lua/functions.md.
	Call(name string, arguments ...any) ([]any, error)
	// RunOnce is true in the first instance of the process that asks: the place for what is done once at start.
	RunOnce() bool
}
