// Package runtime is what a game's server code in Go is written with. Its types and functions look like those of
// github.com/heroiclabs/nakama-common/runtime, so that a plugin written for Nakama is ported by changing imports,
// and by two functions in its package main:
//
//	func init() { runtime.Module(InitModule) }
//	func main() {}
//
// It is built with the plain Go toolchain, and put into the folder of the server's modules:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o game.wasm
//
// What is not here: the database handle (it is nil), handlers of HTTP, Satori, fleet managers, and whatever needs files,
// sockets or time that passes while a function waits. Methods whose function throng does not have yet are an error that
// says so when they are called; those with messages of such features, and their hooks, are missing.
package runtime

import (
	"context"
	"database/sql"

	"throng/guest/api"
	"throng/guest/rtapi"
)

// Keys of a context's values, as in Nakama.
const (
	RUNTIME_CTX_ENV              = "env"
	RUNTIME_CTX_MODE             = "execution_mode"
	RUNTIME_CTX_NODE             = "node"
	RUNTIME_CTX_VERSION          = "version"
	RUNTIME_CTX_QUERY_PARAMS     = "query_params"
	RUNTIME_CTX_HEADERS          = "headers"
	RUNTIME_CTX_USER_ID          = "user_id"
	RUNTIME_CTX_USERNAME         = "username"
	RUNTIME_CTX_VARS             = "vars"
	RUNTIME_CTX_USER_SESSION_EXP = "user_session_exp"
	RUNTIME_CTX_SESSION_ID       = "session_id"
	RUNTIME_CTX_LANG             = "lang"
	RUNTIME_CTX_CLIENT_IP        = "client_ip"
	RUNTIME_CTX_CLIENT_PORT      = "client_port"
	RUNTIME_CTX_MATCH_ID         = "match_id"
	RUNTIME_CTX_MATCH_NODE       = "match_node"
	RUNTIME_CTX_MATCH_LABEL      = "match_label"
	RUNTIME_CTX_MATCH_TICK_RATE  = "match_tick_rate"
)

// Error is a refusal with a gRPC code, from 1 to 16.
type Error struct {
	Message string
	Code    int
}

func (e *Error) Error() string { return e.Message }

// NewError makes an error that clients are told with this code.
func NewError(message string, code int) *Error { return &Error{Message: message, Code: code} }

// Logger writes lines to the server's log.
type Logger interface {
	Debug(format string, v ...any)
	Info(format string, v ...any)
	Warn(format string, v ...any)
	Error(format string, v ...any)
	WithField(key string, v any) Logger
	WithFields(fields map[string]any) Logger
	Fields() map[string]any
}

// Initializer takes what the game has for the server to call.
type Initializer interface {
	// Hooks before and after each call of the API, with its messages. A hook before a call returns the request,
	// changed or not; nil refuses it. What a hook after a call returns no client is told.
	callHooks
	// RegisterRpc makes a function callable by clients under this id, in any case.
	RegisterRpc(id string, fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, payload string) (string, error)) error
	// RegisterBeforeRt runs a function before each socket message of this name, such as MatchCreate. It returns the
	// message, changed or not; nil refuses it.
	RegisterBeforeRt(id string, fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, in *rtapi.Envelope) (*rtapi.Envelope, error)) error
	// RegisterAfterRt runs a function after each socket message of this name, with the answer, nil if there is none.
	RegisterAfterRt(id string, fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, out, in *rtapi.Envelope) error) error
	// RegisterBefore runs a function before each API call of this name, such as UpdateAccount, or socket message,
	// such as rt:MatchCreate: for calls of which this package does not know, and for requests as tables, with the
	// names of Nakama's Lua. It returns the request, changed or not; nil refuses it.
	RegisterBefore(call string, fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, in map[string]any) (map[string]any, error)) error
	// RegisterAfter runs a function after each call of this name, with the answer and the request.
	RegisterAfter(call string, fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, out, in map[string]any) error) error
	// RegisterMatch makes matches of this name possible. Each runs in an instance of the module of its own.
	RegisterMatch(name string, fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule) (Match, error)) error
	// RegisterMatchmakerMatched is for a server with a matchmaker: throng, which has none yet, says at its start that
	// the function is never called.
	RegisterMatchmakerMatched(fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, entries []MatchmakerEntry) (string, error)) error
	// RegisterEvent runs a function for each event of a client or of the game. Nobody waits for it.
	RegisterEvent(fn func(ctx context.Context, logger Logger, evt *api.Event)) error
	// RegisterEventSessionStart runs a function for each socket that opens.
	RegisterEventSessionStart(fn func(ctx context.Context, logger Logger, evt *api.Event)) error
	// RegisterEventSessionEnd runs a function for each socket that has closed.
	RegisterEventSessionEnd(fn func(ctx context.Context, logger Logger, evt *api.Event)) error
	// RegisterZoneSpawn decides where pilots come who join the zone, and with what health: the function changes entries of
	// what it is given. This one and the next two are throng's own. An error leaves it to the server's own rules.
	RegisterZoneSpawn(fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, zone *Zone[ZoneSpawn]) error) error
	// RegisterZoneHit decides what hits in the zone cost.
	RegisterZoneHit(fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, zone *Zone[ZoneHit]) error) error
	// RegisterZoneScore decides what it means in the zone that ships were shot down.
	RegisterZoneScore(fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, zone *Zone[ZoneKill]) error) error
	// RegisterShutdown runs a function when the server stops.
	RegisterShutdown(fn func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule)) error
}

// PresenceReason is why somebody came or went.
type PresenceReason uint8

// Why somebody came or went.
const (
	PresenceReasonUnknown PresenceReason = iota
	PresenceReasonJoin
	PresenceReasonUpdate
	PresenceReasonLeave
	PresenceReasonDisconnect
)

// PresenceMeta is what there is to know of somebody in a stream or match.
type PresenceMeta interface {
	GetHidden() bool
	GetPersistence() bool
	GetUsername() string
	GetStatus() string
	GetReason() PresenceReason
}

// Presence is somebody in a stream or match. In a match there is neither status nor persistence.
type Presence interface {
	PresenceMeta
	GetUserId() string
	GetSessionId() string
	GetNodeId() string
}

// MatchmakerEntry is one whom the matchmaker has matched.
type MatchmakerEntry interface {
	GetPresence() Presence
	GetTicket() string
	GetProperties() map[string]any
	GetPartyId() string
	GetCreateTime() int64
}

// MatchData is one message of a player.
type MatchData interface {
	Presence
	GetOpCode() int64
	GetData() []byte
	GetReliable() bool
	GetReceiveTime() int64
}

// MatchDispatcher is what a match does, besides what its callbacks return.
type MatchDispatcher interface {
	BroadcastMessage(opCode int64, data []byte, presences []Presence, sender Presence, reliable bool) error
	BroadcastMessageDeferred(opCode int64, data []byte, presences []Presence, sender Presence, reliable bool) error
	MatchKick(presences []Presence) error
	MatchLabelUpdate(label string) error
}

// Match is a match. A callback that returns a nil state ends it.
type Match interface {
	MatchInit(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, params map[string]any) (any, int, string)
	MatchJoinAttempt(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, dispatcher MatchDispatcher, tick int64, state any, presence Presence, metadata map[string]string) (any, bool, string)
	MatchJoin(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, dispatcher MatchDispatcher, tick int64, state any, presences []Presence) any
	MatchLeave(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, dispatcher MatchDispatcher, tick int64, state any, presences []Presence) any
	MatchLoop(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, dispatcher MatchDispatcher, tick int64, state any, messages []MatchData) any
	MatchTerminate(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, dispatcher MatchDispatcher, tick int64, state any, graceSeconds int) any
	MatchSignal(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, dispatcher MatchDispatcher, tick int64, state any, data string) (any, string)
}
