// Registers every hook that Initializer has, found by reflection, so that none can be forgotten. Each writes a line to
// the log: "before NAME" or "after NAME", and what it was given (dev/e2e/guest_hooks.test.mjs). An RPC calls every method
// of NakamaModule, found in the same way.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"throng/guest/api"
	"throng/guest/rtapi"
	"throng/guest/runtime"
)

func init() { runtime.Module(InitModule) }

func main() {}

func InitModule(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, initializer runtime.Initializer) error {
	own := reflect.ValueOf(initializer)
	registered := 0
	for index := range own.NumMethod() {
		name := own.Type().Method(index).Name
		for kind, prefix := range map[string]string{"before": "RegisterBefore", "after": "RegisterAfter"} {
			call, is := strings.CutPrefix(name, prefix)
			// Those that are named with an argument are below.
			if !is || call == "" || call == "Rt" {
				continue
			}
			hook := hookOf(kind+" "+call, own.Method(index).Type().In(0))
			if err, _ := own.Method(index).Call([]reflect.Value{hook})[0].Interface().(error); err != nil {
				return err
			}
			registered++
		}
	}
	if registered == 0 {
		return runtime.NewError("no hook was found", 13)
	}
	// Every message that an envelope may hold; of those that clients may not send, and that are not built, the server
	// says so when it starts.
	for _, part := range (*rtapi.Envelope)(nil).Choices() {
		message := strings.TrimPrefix(reflect.TypeOf(part).Elem().Name(), "Envelope_")
		if err := initializer.RegisterBeforeRt(message, func(_ context.Context, logger runtime.Logger, _ *sql.DB, _ runtime.NakamaModule, in *rtapi.Envelope) (*rtapi.Envelope, error) {
			logger.Info("before rt:%s %v", message, in)
			return in, nil
		}); err != nil {
			return err
		}
		if err := initializer.RegisterAfterRt(message, func(_ context.Context, logger runtime.Logger, _ *sql.DB, _ runtime.NakamaModule, out, in *rtapi.Envelope) error {
			logger.Info("after rt:%s %v %v", message, out, in)
			return nil
		}); err != nil {
			return err
		}
	}
	for kind, register := range map[string]func(func(context.Context, runtime.Logger, *api.Event)) error{
		"event": initializer.RegisterEvent, "start": initializer.RegisterEventSessionStart, "end": initializer.RegisterEventSessionEnd,
	} {
		if err := register(func(_ context.Context, logger runtime.Logger, event *api.Event) {
			logger.Info("heard %s %v", kind, event)
		}); err != nil {
			return err
		}
	}
	return initializer.RegisterRpc("everything", everything)
}

// hookOf makes a function of a hook's type, which says what it was given and changes nothing.
func hookOf(what string, hook reflect.Type) reflect.Value {
	return reflect.MakeFunc(hook, func(given []reflect.Value) []reflect.Value {
		logger := given[1].Interface().(runtime.Logger)
		messages := given[4:]
		line := what
		for _, message := range messages {
			line += fmt.Sprintf(" %v", message.Interface())
		}
		logger.Info("%s", line)
		nothing := reflect.Zero(reflect.TypeFor[error]())
		if hook.NumOut() == 2 {
			return []reflect.Value{messages[0], nothing}
		}
		return []reflect.Value{nothing}
	})
}

// everything calls each method with nothing, and tells of those with an error what it was.
func everything(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, payload string) (string, error) {
	said := map[string]string{}
	module := reflect.ValueOf(nk)
	for index := range module.NumMethod() {
		name := module.Type().Method(index).Name
		if name != "StorageWriteRetry" && name != "RunOnce" {
			said[name] = called(ctx, module.Method(index))
		}
	}
	text, err := json.Marshal(said)
	return string(text), err
}

func called(ctx context.Context, method reflect.Value) string {
	given := []reflect.Value{}
	for index := range method.Type().NumIn() {
		switch in := method.Type().In(index); {
		case method.Type().IsVariadic() && index == method.Type().NumIn()-1:
		case in == reflect.TypeFor[context.Context]():
			given = append(given, reflect.ValueOf(ctx))
		default:
			given = append(given, reflect.Zero(in))
		}
	}
	results := method.Call(given)
	if len(results) == 0 {
		return ""
	}
	if err, _ := results[len(results)-1].Interface().(error); err != nil {
		return err.Error()
	}
	return ""
}
