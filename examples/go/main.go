// A game in Go for throng: RPC functions, storage, a hook before a call, and a match of up to ten players.
//
//	cd examples/go && GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags=-w -o ../../data/modules/arena.wasm
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"throng/guest/runtime"
)

const (
	echoOpCode     = 1
	toSenderOpCode = 2
	welcomeOpCode  = 50

	// gRPC codes.
	invalidArgument    = 3
	failedPrecondition = 9

	playersMax     = 10
	nameLettersMax = 20
)

func init() { runtime.Module(InitModule) }

func main() {}

// InitModule registers what the game has.
func InitModule(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, initializer runtime.Initializer) error {
	if err := initializer.RegisterRpc("echo", echo); err != nil {
		return err
	}
	if err := initializer.RegisterRpc("store", store); err != nil {
		return err
	}
	if err := initializer.RegisterRpc("fail", fail); err != nil {
		return err
	}
	if err := initializer.RegisterRpc("spin", spinForever); err != nil {
		return err
	}
	if err := initializer.RegisterRpc("arena", newArena); err != nil {
		return err
	}
	if err := initializer.RegisterBefore("UpdateAccount", shortNames); err != nil {
		return err
	}
	return initializer.RegisterMatch("arena", func(context.Context, runtime.Logger, *sql.DB, runtime.NakamaModule) (runtime.Match, error) {
		return &arena{}, nil
	})
}

// echo answers what the client sent, decoded and encoded again, with who sent it.
func echo(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	var input any
	if err := json.Unmarshal([]byte(payload), &input); err != nil {
		return "", runtime.NewError(err.Error(), invalidArgument)
	}
	answer, err := json.Marshal(map[string]any{"user": ctx.Value(runtime.RUNTIME_CTX_USER_ID), "echo": input})
	return string(answer), err
}

// store writes what the client sent to storage, and reads it again.
func store(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	userID, _ := ctx.Value(runtime.RUNTIME_CTX_USER_ID).(string)
	acks, err := nk.StorageWrite(ctx, []*runtime.StorageWrite{
		{Collection: "go", Key: "k", UserID: userID, Value: payload, PermissionRead: 1},
	})
	if err != nil {
		return "", err
	}
	objects, err := nk.StorageRead(ctx, []*runtime.StorageRead{{Collection: "go", Key: "k", UserID: userID}})
	if err != nil {
		return "", err
	}
	same := acks[0].Version == objects[0].Version
	return fmt.Sprintf(`{"same":%t,"value":%s}`, same, objects[0].Value), nil
}

func fail(context.Context, runtime.Logger, *sql.DB, runtime.NakamaModule, string) (string, error) {
	return "", runtime.NewError("not today", failedPrecondition)
}

// spinForever never ends: the server stops it.
func spinForever(context.Context, runtime.Logger, *sql.DB, runtime.NakamaModule, string) (string, error) {
	for {
	}
}

func newArena(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id, err := nk.MatchCreate(ctx, "arena", map[string]any{"level": 3})
	return fmt.Sprintf(`{"match_id":%q}`, id), err
}

// shortNames refuses long names, and writes the others in capitals.
func shortNames(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, in map[string]any) (map[string]any, error) {
	name, _ := in["display_name"].(string)
	if utf8.RuneCountInString(name) > nameLettersMax {
		return nil, runtime.NewError("name too long", invalidArgument)
	}
	in["display_name"] = strings.ToUpper(name)
	return in, nil
}

// arena is a match; its state is who is there, and how hard it is.
type arena struct{}

type arenaState struct {
	level   any
	present map[string]bool
}

func (*arena) MatchInit(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, params map[string]any) (any, int, string) {
	return &arenaState{params["level"], map[string]bool{}}, 20, `{"game":"arena"}`
}

func (*arena) MatchJoinAttempt(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presence runtime.Presence, metadata map[string]string) (any, bool, string) {
	s := state.(*arenaState)
	if metadata["ticket"] == "forged" {
		return s, false, "forged ticket"
	}
	return s, len(s.present) < playersMax, "full"
}

func (*arena) MatchJoin(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presences []runtime.Presence) any {
	s := state.(*arenaState)
	for _, presence := range presences {
		s.present[presence.GetSessionId()] = true
	}
	welcome := fmt.Sprintf(`{"joined":%d,"level":%v}`, len(presences), s.level)
	if err := dispatcher.BroadcastMessage(welcomeOpCode, []byte(welcome), nil, nil, true); err != nil {
		logger.Error("no welcome: %v", err)
	}
	return s
}

func (*arena) MatchLeave(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presences []runtime.Presence) any {
	s := state.(*arenaState)
	for _, presence := range presences {
		delete(s.present, presence.GetSessionId())
	}
	if len(s.present) == 0 {
		return nil
	}
	return s
}

func (*arena) MatchLoop(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, messages []runtime.MatchData) any {
	for _, message := range messages {
		var err error
		switch message.GetOpCode() {
		case echoOpCode:
			err = dispatcher.BroadcastMessage(echoOpCode, message.GetData(), nil, message, true)
		case toSenderOpCode:
			err = dispatcher.BroadcastMessage(toSenderOpCode, message.GetData(), []runtime.Presence{message}, nil, true)
		default:
			for {
			}
		}
		if err != nil {
			logger.Error("not sent: %v", err)
		}
	}
	return state
}

func (*arena) MatchTerminate(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, graceSeconds int) any {
	return state
}

func (*arena) MatchSignal(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, data string) (any, string) {
	return state, "heard " + data
}
