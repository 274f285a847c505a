//go:build wasip1

package runtime

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path"
	"reflect"
	goruntime "runtime"
	"strings"

	"throng/guest/api"
	"throng/guest/rtapi"
	"throng/guest/wire"
)

type (
	initFunction   = func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, initializer Initializer) error
	rpcFunction    = func(context.Context, Logger, *sql.DB, NakamaModule, string) (string, error)
	beforeFunction = func(context.Context, Logger, *sql.DB, NakamaModule, map[string]any) (map[string]any, error)
	afterFunction  = func(context.Context, Logger, *sql.DB, NakamaModule, map[string]any, map[string]any) error
	matchFunction  = func(context.Context, Logger, *sql.DB, NakamaModule) (Match, error)
	eventFunction  = func(context.Context, map[string]any) error
)

// What the game has registered, the match of this instance if it is one's, and what is known of the server.
var (
	initModule initFunction
	rpcs       registry[rpcFunction]
	befores    registry[beforeFunction]
	afters     registry[afterFunction]
	matches    registry[matchFunction]
	events     registry[eventFunction]
	running    Match
	state      any
	about      = map[string]any{}
	// Where the game's functions begin, by what they are for, as in "rpc echo".
	places registry[uintptr]
)

// place notes where a function is that was registered.
func place(kind, name string, fn any) {
	places.set(kind+" "+strings.ToLower(name), reflect.ValueOf(fn).Pointer())
}

// placeOf is a function of the game with its file and line.
func placeOf(pc uintptr) string {
	function := goruntime.FuncForPC(pc)
	if function == nil {
		return ""
	}
	file, line := function.FileLine(pc)
	return fmt.Sprintf("%s (%s:%d)", function.Name(), path.Base(file), line)
}

// placeOfPanic is where a panic has begun: to be called by what recovers from it.
func placeOfPanic() string {
	var stack [32]uintptr
	frames := goruntime.CallersFrames(stack[:goruntime.Callers(2, stack[:])])
	hasPanicked := false
	for {
		frame, more := frames.Next()
		isOfGo := strings.HasPrefix(frame.Function, "runtime.")
		hasPanicked = hasPanicked || isOfGo
		if hasPanicked && !isOfGo {
			return fmt.Sprintf("%s (%s:%d)", frame.Function, path.Base(frame.File), frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// Module makes a module of InitModule, which runs once in every instance: it registers what the game has, and
// leaves the rest to the calls.
func Module(init initFunction) { initModule = init }

//go:wasmexport throng_version
func throngVersion() uint32 { return wire.Version }

// received has the bytes of the last call, and answer what it came to: the next one writes over both. What outlives a call
// has its own copy.
var received, answer = room[: 0 : len(room)/2], room[len(room)/2 : len(room)/2]

// room is where both are as long as they are short.
var room [2 << 10]byte

//go:wasmexport throng_call
func throngCall(length uint32) uint32 {
	received = wire.Take(length, received)
	bytes, where, err := serve(received, answer[:0])
	status := uint32(0)
	if err != nil {
		code := 13
		if own := (*Error)(nil); errors.As(err, &own) {
			code = own.Code
		}
		bytes, _ = wire.Append(answer[:0], []any{code, err.Error(), where})
		status = 1
	}
	wire.Give(bytes)
	received, answer = wire.Kept(received), wire.Kept(bytes)
	return status
}

// serve runs a call, appends what it comes to, and tells of an error where it is from. A panic of the game's is an error
// of the call, as if it had returned it.
func serve(bytes, to []byte) (result []byte, where string, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result, where, err = nil, placeOfPanic(), fmt.Errorf("panic: %v", panicked)
		}
	}()
	call := wire.NewReader(bytes)
	kind, name, values, count, err := headOf(&call)
	if err != nil {
		return nil, "", errNoCall
	}
	switch {
	case count > 0 && string(kind) == "rpc":
		result, err = serveRPC(name, newContext(values), &call, to)
	case count >= 2 && string(kind) == "match_loop":
		result, err = serveLoop(values, &call, to)
	default:
		result, err = serveOther(string(kind), string(name), newContext(values), &call, count, to)
	}
	if err != nil {
		where = placeOf(places.get(string(kind) + " " + string(name)))
	}
	return result, where, err
}

var errNoCall = errors.New("not a call")

// headOf reads what each call begins with: its kind, its name, the bytes of its context's values, and how many arguments
// follow.
func headOf(call *wire.Reader) (kind, name, values []byte, count int, err error) {
	if count, err = call.List(); err != nil || count < 3 {
		return nil, nil, nil, 0, errNoCall
	}
	kind, errKind := call.Bytes()
	name, errName := call.Bytes()
	values, errValues := call.Skip()
	return kind, name, values, count - 3, errors.Join(errKind, errName, errValues)
}

// serveRPC runs an RPC function, of whose call no more is decoded than it asks for.
func serveRPC(name []byte, ctx context.Context, call *wire.Reader, to []byte) ([]byte, error) {
	payload, err := call.Bytes()
	if err != nil {
		return nil, errNoCall
	}
	fn := rpcs.get(string(name))
	if fn == nil {
		return nil, errorf("rpc %s is not registered", name)
	}
	result, err := fn(ctx, log, nil, nk, string(payload))
	if err != nil {
		return nil, err
	}
	return wire.AppendText(to, result), nil
}

// serveOther runs a call of any other kind, whose arguments are decoded: hooks fill their messages with them.
func serveOther(kind, name string, ctx *callContext, call *wire.Reader, count int, to []byte) ([]byte, error) {
	arguments := make([]any, count)
	for index := range arguments {
		var err error
		if arguments[index], err = call.Value(); err != nil {
			return nil, errNoCall
		}
	}
	value, err := run(kind, name, ctx, arguments)
	if err != nil {
		return nil, err
	}
	return wire.Append(to, value)
}

func run(kind, name string, ctx *callContext, arguments []any) (any, error) {
	if kind == "init" {
		return nil, start(ctx.all())
	}
	if strings.HasPrefix(kind, "match_") {
		return callMatch(ctx, kind, name, arguments)
	}
	if len(arguments) < 1 {
		return nil, errors.New("a call without its argument")
	}
	switch kind {
	case "before":
		if fn := befores.get(name); fn != nil {
			in, _ := arguments[0].(map[string]any)
			out, err := fn(ctx, log, nil, nk, in)
			if out == nil {
				return nil, err
			}
			return out, err
		}
	case "after":
		if fn := afters.get(name); fn != nil && len(arguments) == 2 {
			out, _ := arguments[0].(map[string]any)
			in, _ := arguments[1].(map[string]any)
			return nil, fn(ctx, log, nil, nk, out, in)
		}
	case "event":
		if fn := rules.get(name); fn != nil {
			return fn(ctx, members(arguments[0]))
		}
		if fn := events.get(name); fn != nil {
			return nil, fn(ctx, members(arguments[0]))
		}
	}
	return nil, errorf("%s %s is not registered", kind, name)
}

func start(values map[string]any) error {
	if initModule == nil {
		return errors.New("the module has no InitModule: func init() { runtime.Module(InitModule) }")
	}
	about = values
	about[RUNTIME_CTX_ENV] = texts(values[RUNTIME_CTX_ENV])
	about[RUNTIME_CTX_MATCH_NODE] = values[RUNTIME_CTX_NODE]
	ctx := &callContext{Context: context.Background(), values: map[string]any{RUNTIME_CTX_MODE: "run_once"}}
	return initModule(ctx, log, nil, nk, initializer{})
}

type initializer struct{}

func register(kind, name string) error {
	_, err := wire.Call("register", kind, name)
	return err
}

func (initializer) RegisterRpc(id string, fn rpcFunction) error {
	rpcs.set(strings.ToLower(id), fn)
	place("rpc", id, fn)
	return register("rpc", id)
}

func (initializer) RegisterBefore(call string, fn beforeFunction) error {
	befores.set(strings.ToLower(call), fn)
	place("before", call, fn)
	return register("before", call)
}

func (initializer) RegisterAfter(call string, fn afterFunction) error {
	afters.set(strings.ToLower(call), fn)
	place("after", call, fn)
	return register("after", call)
}

func (initializer) RegisterMatch(name string, fn matchFunction) error {
	matches.set(name, fn)
	return register("match", name)
}

// rt is the name of a socket message among those of hooks.
func rt(message string) string { return "rt:" + message }

func (initializer) RegisterBeforeRt(id string, fn func(context.Context, Logger, *sql.DB, NakamaModule, *rtapi.Envelope) (*rtapi.Envelope, error)) error {
	return before(rt(id), fn)
}

func (initializer) RegisterAfterRt(id string, fn func(context.Context, Logger, *sql.DB, NakamaModule, *rtapi.Envelope, *rtapi.Envelope) error) error {
	return after(rt(id), fn)
}

// before registers a hook with a message: it is nil for what is not there.
func before[M any](call string, fn func(context.Context, Logger, *sql.DB, NakamaModule, M) (M, error)) error {
	defer place("before", call, fn)
	return initializer{}.RegisterBefore(call, func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, in map[string]any) (map[string]any, error) {
		var request M
		if err := wire.Fill(&request, in); err != nil {
			return nil, err
		}
		returned, err := fn(ctx, logger, db, nk, request)
		if err != nil {
			return nil, err
		}
		// nil for a message that is nil.
		return members(wire.Plain(returned)), nil
	})
}

// beforeNothing registers a hook before a call without a request.
func beforeNothing(call string, fn func(context.Context, Logger, *sql.DB, NakamaModule) error) error {
	defer place("before", call, fn)
	return initializer{}.RegisterBefore(call, func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, in map[string]any) (map[string]any, error) {
		return in, fn(ctx, logger, db, nk)
	})
}

// after registers a hook with an answer and a request.
func after[O, I any](call string, fn func(context.Context, Logger, *sql.DB, NakamaModule, O, I) error) error {
	defer place("after", call, fn)
	return initializer{}.RegisterAfter(call, func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, out, in map[string]any) error {
		var answer O
		var request I
		if err := errors.Join(fillMap(&answer, out), fillMap(&request, in)); err != nil {
			return err
		}
		return fn(ctx, logger, db, nk, answer, request)
	})
}

// fillMap leaves a message nil that is not there: a nil map is no nil value.
func fillMap(target any, values map[string]any) error {
	if values == nil {
		return nil
	}
	return wire.Fill(target, values)
}

// afterOut registers a hook with an answer alone.
func afterOut[O any](call string, fn func(context.Context, Logger, *sql.DB, NakamaModule, O) error) error {
	defer place("after", call, fn)
	return after(call, func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, out O, _ struct{}) error {
		return fn(ctx, logger, db, nk, out)
	})
}

// afterIn registers a hook with a request alone.
func afterIn[I any](call string, fn func(context.Context, Logger, *sql.DB, NakamaModule, I) error) error {
	defer place("after", call, fn)
	return after(call, func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, _ struct{}, in I) error {
		return fn(ctx, logger, db, nk, in)
	})
}

// afterNothing registers a hook after a call that has neither.
func afterNothing(call string, fn func(context.Context, Logger, *sql.DB, NakamaModule) error) error {
	defer place("after", call, fn)
	return initializer{}.RegisterAfter(call, func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, _, _ map[string]any) error {
		return fn(ctx, logger, db, nk)
	})
}

// onEvent registers a function for events of a kind.
func onEvent(kind string, fn func(context.Context, Logger, *api.Event)) error {
	place("event", kind, fn)
	events.set(kind, func(ctx context.Context, argument map[string]any) error {
		event := &api.Event{}
		if err := wire.Fill(event, argument); err != nil {
			return err
		}
		fn(ctx, log, event)
		return nil
	})
	return register("event", kind)
}

func (initializer) RegisterEvent(fn func(context.Context, Logger, *api.Event)) error {
	return onEvent("event", fn)
}

func (initializer) RegisterEventSessionStart(fn func(context.Context, Logger, *api.Event)) error {
	return onEvent("event_session_start", fn)
}

func (initializer) RegisterEventSessionEnd(fn func(context.Context, Logger, *api.Event)) error {
	return onEvent("event_session_end", fn)
}

func (initializer) RegisterShutdown(fn func(context.Context, Logger, *sql.DB, NakamaModule)) error {
	place("event", "shutdown", fn)
	events.set("shutdown", func(ctx context.Context, _ map[string]any) error {
		fn(ctx, log, nil, nk)
		return nil
	})
	return register("event", "shutdown")
}

func (initializer) RegisterMatchmakerMatched(func(context.Context, Logger, *sql.DB, NakamaModule, []MatchmakerEntry) (string, error)) error {
	return register("event", "matchmaker_matched")
}

type logger struct{ fields map[string]any }

var log Logger = logger{}

func (l logger) write(level, format string, v []any) {
	line := fmt.Sprintf(format, v...)
	for name, value := range l.fields {
		line += fmt.Sprintf(" %s=%v", name, value)
	}
	// Lines beyond the server's limit are left out there, and counted.
	_, _ = wire.Call("logger_"+level, line)
}

func (l logger) Debug(format string, v ...any) { l.write("debug", format, v) }
func (l logger) Info(format string, v ...any)  { l.write("info", format, v) }
func (l logger) Warn(format string, v ...any)  { l.write("warn", format, v) }
func (l logger) Error(format string, v ...any) { l.write("error", format, v) }
func (l logger) Fields() map[string]any        { return l.fields }

func (l logger) WithField(key string, v any) Logger {
	return l.WithFields(map[string]any{key: v})
}

func (l logger) WithFields(fields map[string]any) Logger {
	all := map[string]any{}
	for name, value := range l.fields {
		all[name] = value
	}
	for name, value := range fields {
		all[name] = value
	}
	return logger{all}
}
