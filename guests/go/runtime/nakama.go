package runtime

import (
	"bytes"
	"context"
	"time"

	"throng/guest/api"
	"throng/guest/rtapi"
	"throng/guest/timestamppb"
)

// Who may read and write an object of storage.
const (
	STORAGE_PERMISSION_NO_READ     = 0
	STORAGE_PERMISSION_OWNER_READ  = 1
	STORAGE_PERMISSION_PUBLIC_READ = 2
	STORAGE_PERMISSION_NO_WRITE    = 0
	STORAGE_PERMISSION_OWNER_WRITE = 1
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

// AccountUpdate changes an account: what is not empty.
type AccountUpdate struct {
	UserID      string
	Username    string
	Metadata    map[string]any
	DisplayName string
	Timezone    string
	Location    string
	LangTag     string
	AvatarUrl   string
}

// NotificationSend is a notification to a user. An empty sender is the server.
type NotificationSend struct {
	UserID     string
	Subject    string
	Content    map[string]any
	Code       int
	Sender     string
	Persistent bool
}

// NotificationDelete names a notification of a user.
type NotificationDelete struct {
	UserID         string
	NotificationID string
}

// NotificationUpdate changes a notification: what is not nil.
type NotificationUpdate struct {
	Id      string
	Subject *string
	Content map[string]any
	Sender  *string
}

// Notification is a notification that is kept.
type Notification struct {
	Id         string
	UserID     string
	Subject    string
	Content    map[string]any
	Code       int
	Sender     string
	CreateTime *timestamppb.Timestamp
	Persistent bool
}

// WalletUpdate adds to a user's wallet.
type WalletUpdate struct {
	UserID    string
	Changeset map[string]int64
	Metadata  map[string]any
}

// WalletUpdateResult is a wallet after and before.
type WalletUpdateResult struct {
	UserID   string
	Updated  map[string]int64
	Previous map[string]int64
}

// WalletLedgerItem is a change of a wallet that was kept. Times are unix seconds.
type WalletLedgerItem interface {
	GetID() string
	GetUserID() string
	GetCreateTime() int64
	GetUpdateTime() int64
	GetChangeset() map[string]int64
	GetMetadata() map[string]any
}

// ChannelType is a kind of channel.
type ChannelType int

// The kinds of channels.
const (
	Room ChannelType = iota + 1
	DirectMessage
	Group
)

// File is a file of the server's folder of modules, as it was when it was read.
type File struct {
	*bytes.Reader
	name string
}

// Name is the path that was asked for.
func (f *File) Name() string { return f.name }

// Close does nothing: there is nothing open.
func (f *File) Close() error { return nil }

// NakamaModule has the server's functions. What is not said here is as in Nakama, or in the reference
// (docs/lua/functions.md). What is empty ("", a nil map or pointer) is nil there.
type NakamaModule interface {
	notBuilt

	// Authenticate… give the user's id and name, and whether the account is new.
	AuthenticateCustom(ctx context.Context, id, username string, create bool) (string, string, bool, error)
	AuthenticateDevice(ctx context.Context, id, username string, create bool) (string, string, bool, error)
	AuthenticateEmail(ctx context.Context, email, password, username string, create bool) (string, string, bool, error)
	// AuthenticateTokenGenerate gives a session's token and when it expires, in unix seconds.
	AuthenticateTokenGenerate(userID, username string, exp int64, vars map[string]string) (string, int64, error)

	AccountGetId(ctx context.Context, userID string) (*api.Account, error)
	AccountsGetId(ctx context.Context, userIDs, deviceIDs []string) ([]*api.Account, error)
	// AccountUpdateId changes what is not empty; metadata replaces the former one.
	AccountUpdateId(ctx context.Context, userID, username string, metadata map[string]any, displayName, timezone, location, langTag, avatarUrl string) error
	AccountDeleteId(ctx context.Context, userID string, recorded bool) error

	UsersGetId(ctx context.Context, userIDs []string, facebookIDs []string) ([]*api.User, error)
	UsersGetUsername(ctx context.Context, usernames []string) ([]*api.User, error)
	UsersGetFriendStatus(ctx context.Context, userID string, userIDs []string) ([]*api.Friend, error)
	UsersGetRandom(ctx context.Context, count int) ([]*api.User, error)
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
	// ReadFile reads a file of the folder of modules, all of it. What it gives is an io.Reader with a name, and not
	// an *os.File, because a guest has no files.
	ReadFile(path string) (*File, error)

	StreamUserList(mode uint8, subject, subcontext, label string, includeHidden, includeNotHidden bool) ([]Presence, error)
	// StreamUserGet gives nil for one who is not there.
	StreamUserGet(mode uint8, subject, subcontext, label, userID, sessionID string) (PresenceMeta, error)
	StreamUserJoin(mode uint8, subject, subcontext, label, userID, sessionID string, hidden, persistence bool, status string) (bool, error)
	StreamUserUpdate(mode uint8, subject, subcontext, label, userID, sessionID string, hidden, persistence bool, status string) error
	StreamUserLeave(mode uint8, subject, subcontext, label, userID, sessionID string) error
	StreamUserKick(mode uint8, subject, subcontext, label string, presence Presence) error
	StreamCount(mode uint8, subject, subcontext, label string) (int, error)
	StreamClose(mode uint8, subject, subcontext, label string) error
	// StreamSend and StreamSendRaw send to these presences, or to all if there are none.
	StreamSend(mode uint8, subject, subcontext, label, data string, presences []Presence, reliable bool) error
	StreamSendRaw(mode uint8, subject, subcontext, label string, msg *rtapi.Envelope, presences []Presence, reliable bool) error

	SessionDisconnect(ctx context.Context, sessionID string, reason ...PresenceReason) error
	SessionLogout(userID, token, refreshToken string) error
	StatusFollow(sessionID string, userIDs []string) error
	StatusUnfollow(sessionID string, userIDs []string) error

	MatchCreate(ctx context.Context, module string, params map[string]any) (string, error)
	// MatchGet gives nil for a match that there is not.
	MatchGet(ctx context.Context, id string) (*api.Match, error)
	MatchList(ctx context.Context, limit int, authoritative bool, label string, minSize, maxSize *int, query string) ([]*api.Match, error)
	MatchSignal(ctx context.Context, id string, data string) (string, error)

	NotificationSend(ctx context.Context, userID, subject string, content map[string]any, code int, sender string, persistent bool) error
	NotificationsSend(ctx context.Context, notifications []*NotificationSend) error
	NotificationSendAll(ctx context.Context, subject string, content map[string]any, code int, persistent bool) error
	NotificationsList(ctx context.Context, userID string, limit int, cursor string) ([]*api.Notification, string, error)
	NotificationsGetId(ctx context.Context, userID string, ids []string) ([]*Notification, error)
	NotificationsUpdate(ctx context.Context, updates ...NotificationUpdate) error
	NotificationsDelete(ctx context.Context, notifications []*NotificationDelete) error
	NotificationsDeleteId(ctx context.Context, userID string, ids []string) error

	// WalletUpdate adds to a user's wallet; it gives the wallet after and before.
	WalletUpdate(ctx context.Context, userID string, changeset map[string]int64, metadata map[string]any, updateLedger bool) (updated, previous map[string]int64, err error)
	WalletsUpdate(ctx context.Context, updates []*WalletUpdate, updateLedger bool) ([]*WalletUpdateResult, error)
	WalletLedgerUpdate(ctx context.Context, itemID string, metadata map[string]any) (WalletLedgerItem, error)
	WalletLedgerList(ctx context.Context, userID string, limit int, cursor string) ([]WalletLedgerItem, string, error)

	StorageList(ctx context.Context, callerID, userID, collection string, limit int, cursor string) ([]*api.StorageObject, string, error)
	StorageRead(ctx context.Context, reads []*StorageRead) ([]*api.StorageObject, error)
	StorageWrite(ctx context.Context, writes []*StorageWrite) ([]*api.StorageObjectAck, error)
	// StorageWriteRetry reads, lets the function make writes of it, and does so again if another was quicker.
	StorageWriteRetry(ctx context.Context, reads []*StorageRead, updateFn func(objects []*api.StorageObject) ([]*StorageWrite, error), maxRetries int) ([]*api.StorageObjectAck, error)
	StorageDelete(ctx context.Context, deletes []*StorageDelete) error
	MultiUpdate(ctx context.Context, accountUpdates []*AccountUpdate, storageWrites []*StorageWrite, storageDeletes []*StorageDelete, walletUpdates []*WalletUpdate, updateLedger bool) ([]*api.StorageObjectAck, []*WalletUpdateResult, error)

	FriendsList(ctx context.Context, userID string, limit int, state *int, cursor string) ([]*api.Friend, string, error)
	FriendsOfFriendsList(ctx context.Context, userID string, limit int, cursor string) ([]*api.FriendsOfFriendsList_FriendOfFriend, string, error)
	FriendsAdd(ctx context.Context, userID, username string, ids, usernames []string, metadata map[string]any) error
	FriendsDelete(ctx context.Context, userID, username string, ids, usernames []string) error
	FriendsBlock(ctx context.Context, userID, username string, ids, usernames []string) error
	FriendMetadataUpdate(ctx context.Context, userID, friendUserID string, metadata map[string]any) error

	Event(ctx context.Context, evt *api.Event) error

	MetricsCounterAdd(name string, tags map[string]string, delta int64)
	MetricsGaugeSet(name string, tags map[string]string, value float64)
	MetricsTimerRecord(name string, tags map[string]string, value time.Duration)

	// Call calls any function of the server by its name in the reference, docs/lua/functions.md. Not in Nakama.
	Call(name string, arguments ...any) ([]any, error)
	// RunOnce is true in the first instance of the process that asks: the place for what is done once at start. Not in
	// Nakama, where InitModule runs once.
	RunOnce() bool
}
