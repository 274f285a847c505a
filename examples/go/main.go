// A game in Go for throng: RPC functions, storage, a hook before a call, and a match of up to ten players. The same
// game is written in Lua, JavaScript and Rust beside this folder.
//
//	cd examples/go && GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags=-w -o ../../data/modules/arena.wasm
//
// A client's way into a match: call the RPC "arena_find", join {"match_id": "…"} over the socket, listen for welcome,
// and send toSender or toAll, which come back to oneself or to everybody.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"throng/guest/api"
	"throng/guest/runtime"
	"throng/guest/wrapperspb"
)

// Operation codes: what a message means. The numbers are the game's own choice.
const (
	toSender = 1
	toAll    = 2
	welcome  = 50
)

// gRPC codes, which clients of all languages know.
const (
	invalidArgument    = 3
	failedPrecondition = 9
)

const (
	tickRateHz = 10
	playersMax = 10
	// A match that nobody is in ends after a minute.
	emptyTicksMax  = 60 * tickRateHz
	nameLettersMax = 20
)

func init() { runtime.Module(InitModule) }

func main() {}

type rpc = func(context.Context, runtime.Logger, *sql.DB, runtime.NakamaModule, string) (string, error)

// InitModule registers what the game has.
func InitModule(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, initializer runtime.Initializer) error {
	// In the same order each time, as a map would not: what all matches write alike when they start, the server keeps once.
	functions := []struct {
		id  string
		run rpc
	}{
		{"echo", echo}, {"store", store}, {"fail", fail}, {"spin", spinForever}, {"path", path},
		{"arena", newArena}, {"arena_find", findArena},
	}
	for _, function := range functions {
		if err := initializer.RegisterRpc(function.id, function.run); err != nil {
			return err
		}
	}
	if err := initializer.RegisterBeforeUpdateAccount(shortNames); err != nil {
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
		return "", runtime.NewError("the payload is not JSON", invalidArgument)
	}
	answer, err := json.Marshal(map[string]any{"user": ctx.Value(runtime.RUNTIME_CTX_USER_ID), "echo": input})
	return string(answer), err
}

// store writes what the client sent to storage, and reads it again.
func store(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	userID, _ := ctx.Value(runtime.RUNTIME_CTX_USER_ID).(string)
	acks, err := nk.StorageWrite(ctx, []*runtime.StorageWrite{
		{Collection: "arena", Key: "k", UserID: userID, Value: payload, PermissionRead: 1},
	})
	if err != nil {
		return "", err
	}
	objects, err := nk.StorageRead(ctx, []*runtime.StorageRead{{Collection: "arena", Key: "k", UserID: userID}})
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

// Side of a maze of side × side cells. In every other row there is a wall with one gap, at its right or left end in
// turns, so that the only way from the first corner to the goal leads through every cell.
const side = 63

var neighbours = [][2]int{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}

func isWall(x, y int) bool {
	gap := 0
	if y%4 == 1 {
		gap = side - 1
	}
	return y%2 == 1 && x != gap
}

// path finds the way through the maze, breadth first: what costs time in many games.
func path(context.Context, runtime.Logger, *sql.DB, runtime.NakamaModule, string) (string, error) {
	const goal, unseen = side * (side - 1), -1
	var steps [side * side]int
	for cell := range steps {
		steps[cell] = unseen
	}
	queue, head := []int{0}, 0
	steps[0] = 0
	for {
		if head == len(queue) {
			return "", runtime.NewError("there is no way", failedPrecondition)
		}
		cell := queue[head]
		if cell == goal {
			return fmt.Sprintf(`{"seen":%d,"steps":%d}`, len(queue), steps[goal]), nil
		}
		head++
		for _, by := range neighbours {
			x, y := cell%side+by[0], cell/side+by[1]
			to := y*side + x
			isInside := x >= 0 && x < side && y >= 0 && y < side
			if isInside && steps[to] == unseen && !isWall(x, y) {
				steps[to] = steps[cell] + 1
				queue = append(queue, to)
			}
		}
	}
}

// newArena answers with a new match: {"match_id": "…"}.
func newArena(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	id, err := nk.MatchCreate(ctx, "arena", map[string]any{"level": 3})
	return fmt.Sprintf(`{"match_id":%q}`, id), err
}

// findArena answers with a match that has a free seat, or a new one. Two players may be told of the same seat: the
// second one is refused when joining, and asks again.
func findArena(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	seats := playersMax - 1
	found, err := nk.MatchList(ctx, 1, true, "", nil, &seats, "+label.game:arena")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return fmt.Sprintf(`{"match_id":%q}`, found[0].MatchId), nil
	}
	return newArena(ctx, logger, db, nk, payload)
}

// shortNames refuses long names, and writes the others in capitals.
func shortNames(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, in *api.UpdateAccountRequest) (*api.UpdateAccountRequest, error) {
	name := in.DisplayName.GetValue()
	if utf8.RuneCountInString(name) > nameLettersMax {
		return nil, runtime.NewError("name too long", invalidArgument)
	}
	in.DisplayName = wrapperspb.String(strings.ToUpper(name))
	return in, nil
}

// arena is a match.
type arena struct{}

// arenaState is what a match knows: how hard it is, how many are there, and for how long nobody was.
type arenaState struct {
	level      any
	present    int
	emptyTicks int
}

func (*arena) MatchInit(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, params map[string]any) (any, int, string) {
	return &arenaState{level: params["level"]}, tickRateHz, `{"game":"arena"}`
}

func (*arena) MatchJoinAttempt(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presence runtime.Presence, metadata map[string]string) (any, bool, string) {
	s := state.(*arenaState)
	if metadata["ticket"] == "forged" {
		return s, false, "forged ticket"
	}
	return s, s.present < playersMax, "match full"
}

func (*arena) MatchJoin(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presences []runtime.Presence) any {
	s := state.(*arenaState)
	s.present += len(presences)
	text := fmt.Sprintf(`{"joined":%d,"level":%v}`, len(presences), s.level)
	if err := dispatcher.BroadcastMessage(welcome, []byte(text), nil, nil, true); err != nil {
		logger.Error("no welcome: %v", err)
	}
	return s
}

func (*arena) MatchLeave(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, presences []runtime.Presence) any {
	s := state.(*arenaState)
	s.present -= len(presences)
	return s
}

// MatchLoop is called at every tick, with the messages that came since the last one; nil ends the match.
func (*arena) MatchLoop(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, messages []runtime.MatchData) any {
	s := state.(*arenaState)
	for _, message := range messages {
		var err error
		switch message.GetOpCode() {
		case toSender:
			err = dispatcher.BroadcastMessage(toSender, message.GetData(), []runtime.Presence{message}, message, true)
		case toAll:
			err = dispatcher.BroadcastMessage(toAll, message.GetData(), nil, message, true)
		default:
			for {
			}
		}
		if err != nil {
			logger.Error("not sent: %v", err)
		}
	}
	s.emptyTicks++
	if s.present > 0 {
		s.emptyTicks = 0
	}
	if s.emptyTicks >= emptyTicksMax {
		return nil
	}
	return s
}

func (*arena) MatchTerminate(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, graceSeconds int) any {
	return state
}

func (*arena) MatchSignal(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, dispatcher runtime.MatchDispatcher, tick int64, state any, data string) (any, string) {
	return state, "heard " + data
}
