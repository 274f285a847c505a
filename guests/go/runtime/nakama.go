package runtime

import (
	"context"
	"time"
)

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
	NotificationSendAll(ctx context.Context, subject string, content map[string]any, code int, persistent bool) error
	// Authenticate… give the user's id and name, and whether the account is new.
	AuthenticateCustom(ctx context.Context, id, username string, create bool) (string, string, bool, error)
	AuthenticateDevice(ctx context.Context, id, username string, create bool) (string, string, bool, error)
	AuthenticateEmail(ctx context.Context, email, password, username string, create bool) (string, string, bool, error)
	// AuthenticateTokenGenerate gives a session's token and when it expires, in unix seconds.
	AuthenticateTokenGenerate(userID, username string, exp int64, vars map[string]string) (string, int64, error)
	// AccountUpdateId changes what is not empty; metadata replaces the former one.
	AccountUpdateId(ctx context.Context, userID, username string, metadata map[string]any, displayName, timezone, location, langTag, avatarUrl string) error
	AccountDeleteId(ctx context.Context, userID string, recorded bool) error
	UsersBanId(ctx context.Context, userIDs []string) error
	UsersUnbanId(ctx context.Context, userIDs []string) error
	LinkCustom(ctx context.Context, userID, customID string) error
	LinkDevice(ctx context.Context, userID, deviceID string) error
	LinkEmail(ctx context.Context, userID, email, password string) error
	UnlinkCustom(ctx context.Context, userID, customID string) error
	UnlinkDevice(ctx context.Context, userID, deviceID string) error
	UnlinkEmail(ctx context.Context, userID, email string) error
	// CronNext and CronPrev take and give unix seconds.
	CronNext(expression string, timestamp int64) (int64, error)
	CronPrev(expression string, timestamp int64) (int64, error)
	SessionLogout(userID, token, refreshToken string) error
	StatusFollow(sessionID string, userIDs []string) error
	StatusUnfollow(sessionID string, userIDs []string) error
	FriendsAdd(ctx context.Context, userID, username string, ids, usernames []string, metadata map[string]any) error
	FriendsDelete(ctx context.Context, userID, username string, ids, usernames []string) error
	FriendsBlock(ctx context.Context, userID, username string, ids, usernames []string) error
	FriendMetadataUpdate(ctx context.Context, userID, friendUserID string, metadata map[string]any) error
	StreamUserJoin(mode uint8, subject, subcontext, label, userID, sessionID string, hidden, persistence bool, status string) (bool, error)
	StreamUserUpdate(mode uint8, subject, subcontext, label, userID, sessionID string, hidden, persistence bool, status string) error
	StreamUserLeave(mode uint8, subject, subcontext, label, userID, sessionID string) error
	StreamCount(mode uint8, subject, subcontext, label string) (int, error)
	StreamClose(mode uint8, subject, subcontext, label string) error
	MetricsCounterAdd(name string, tags map[string]string, delta int64)
	MetricsGaugeSet(name string, tags map[string]string, value float64)
	MetricsTimerRecord(name string, tags map[string]string, value time.Duration)
	// Call calls any function of the server by its name in the reference, docs/lua/functions.md.
	Call(name string, arguments ...any) ([]any, error)
	// RunOnce is true in the first instance of the process that asks: the place for what is done once at start.
	RunOnce() bool
}
