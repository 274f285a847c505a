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
	rpcs       = map[string]rpcFunction{}
	befores    = map[string]beforeFunction{}
	afters     = map[string]afterFunction{}
	matches    = map[string]matchFunction{}
	events     = map[string]eventFunction{}
	running    Match
	state      any
	about      = map[string]any{}
	// Where the game's functions begin, by what they are for, as in "rpc echo".
	places = map[string]uintptr{}
)

// place notes where a function is that was registered.
func place(kind, name string, fn any) {
	places[kind+" "+strings.ToLower(name)] = reflect.ValueOf(fn).Pointer()
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

//go:wasmexport throng_call
func throngCall(length uint32) uint32 {
	result, where, err := serve(wire.Take(length))
	if err == nil {
		var bytes []byte
		if bytes, err = wire.Append(nil, result); err == nil {
			wire.Give(bytes)
			return 0
		}
	}
	code := 13
	if own := (*Error)(nil); errors.As(err, &own) {
		code = own.Code
	}
	bytes, _ := wire.Append(nil, []any{code, err.Error(), where})
	wire.Give(bytes)
	return 1
}

// serve runs a call, and tells of an error where it is from. A panic of the game's is an error of the call, as if it had
// returned it.
func serve(bytes []byte) (result any, where string, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result, where, err = nil, placeOfPanic(), fmt.Errorf("panic: %v", panicked)
		}
	}()
	call, err := wire.Decode(bytes)
	parts, _ := call.([]any)
	if err != nil || len(parts) < 3 {
		return nil, "", errors.New("not a call")
	}
	kind, name := text(parts[0]), text(parts[1])
	if result, err = run(kind, name, parts); err != nil {
		where = placeOf(places[kind+" "+name])
	}
	return result, where, err
}

func run(kind, name string, parts []any) (any, error) {
	values, _ := parts[2].(map[string]any)
	arguments := parts[3:]
	if kind == "init" {
		return nil, start(values)
	}
	ctx := newContext(values)
	if strings.HasPrefix(kind, "match_") {
		return callMatch(ctx, kind, name, arguments)
	}
	if len(arguments) < 1 {
		return nil, errors.New("a call without its argument")
	}
	switch kind {
	case "rpc":
		if fn := rpcs[name]; fn != nil {
			return fn(ctx, log, nil, nk, text(arguments[0]))
		}
	case "before":
		if fn := befores[name]; fn != nil {
			in, _ := arguments[0].(map[string]any)
			out, err := fn(ctx, log, nil, nk, in)
			if out == nil {
				return nil, err
			}
			return out, err
		}
	case "after":
		if fn := afters[name]; fn != nil && len(arguments) == 2 {
			out, _ := arguments[0].(map[string]any)
			in, _ := arguments[1].(map[string]any)
			return nil, fn(ctx, log, nil, nk, out, in)
		}
	case "event":
		if fn := events[name]; fn != nil {
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
	ctx := &callContext{context.Background(), map[string]any{RUNTIME_CTX_MODE: "run_once"}}
	return initModule(ctx, log, nil, nk, initializer{})
}

type initializer struct{}

func register(kind, name string) error {
	_, err := wire.Call("register", kind, name)
	return err
}

func (initializer) RegisterRpc(id string, fn rpcFunction) error {
	rpcs[strings.ToLower(id)] = fn
	place("rpc", id, fn)
	return register("rpc", id)
}

func (initializer) RegisterBefore(call string, fn beforeFunction) error {
	befores[strings.ToLower(call)] = fn
	place("before", call, fn)
	return register("before", call)
}

func (initializer) RegisterAfter(call string, fn afterFunction) error {
	afters[strings.ToLower(call)] = fn
	place("after", call, fn)
	return register("after", call)
}

func (initializer) RegisterMatch(name string, fn matchFunction) error {
	matches[name] = fn
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
	events[kind] = func(ctx context.Context, argument map[string]any) error {
		event := &api.Event{}
		if err := wire.Fill(event, argument); err != nil {
			return err
		}
		fn(ctx, log, event)
		return nil
	}
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
	events["shutdown"] = func(ctx context.Context, _ map[string]any) error {
		fn(ctx, log, nil, nk)
		return nil
	}
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
