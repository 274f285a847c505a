//go:build wasip1

package runtime

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"throng/guest/wire"
)

type (
	initFunction   = func(ctx context.Context, logger Logger, db *sql.DB, nk NakamaModule, initializer Initializer) error
	rpcFunction    = func(context.Context, Logger, *sql.DB, NakamaModule, string) (string, error)
	beforeFunction = func(context.Context, Logger, *sql.DB, NakamaModule, map[string]any) (map[string]any, error)
	afterFunction  = func(context.Context, Logger, *sql.DB, NakamaModule, map[string]any, map[string]any) error
	matchFunction  = func(context.Context, Logger, *sql.DB, NakamaModule) (Match, error)
	shutFunction   = func(context.Context, Logger, *sql.DB, NakamaModule)
)

// What the game has registered, the match of this instance if it is one's, and what is known of the server.
var (
	initModule initFunction
	rpcs       = map[string]rpcFunction{}
	befores    = map[string]beforeFunction{}
	afters     = map[string]afterFunction{}
	matches    = map[string]matchFunction{}
	shutdown   shutFunction
	running    Match
	state      any
	about      = map[string]any{}
)

// Module makes a module of InitModule, which runs once in every instance: it registers what the game has, and
// leaves the rest to the calls.
func Module(init initFunction) { initModule = init }

//go:wasmexport throng_version
func throngVersion() uint32 { return wire.Version }

//go:wasmexport throng_call
func throngCall(length uint32) uint32 {
	result, err := serve(wire.Take(length))
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
	bytes, _ := wire.Append(nil, []any{code, err.Error()})
	wire.Give(bytes)
	return 1
}

// serve runs a call. A panic of the game's is an error of the call, as if it had returned it.
func serve(bytes []byte) (result any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result, err = nil, fmt.Errorf("panic: %v", panicked)
		}
	}()
	call, err := wire.Decode(bytes)
	parts, _ := call.([]any)
	if err != nil || len(parts) < 3 {
		return nil, errors.New("not a call")
	}
	kind, name := text(parts[0]), text(parts[1])
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
		if name == "shutdown" && shutdown != nil {
			shutdown(ctx, log, nil, nk)
			return nil, nil
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
	return register("rpc", id)
}

func (initializer) RegisterBefore(call string, fn beforeFunction) error {
	befores[strings.ToLower(call)] = fn
	return register("before", call)
}

func (initializer) RegisterAfter(call string, fn afterFunction) error {
	afters[strings.ToLower(call)] = fn
	return register("after", call)
}

func (initializer) RegisterMatch(name string, fn matchFunction) error {
	matches[name] = fn
	return register("match", name)
}

func (initializer) RegisterShutdown(fn shutFunction) error {
	shutdown = fn
	return register("event", "shutdown")
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
