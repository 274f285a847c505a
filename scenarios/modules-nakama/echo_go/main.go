// The echo of the `rpc-go` scenario, and that of `rpc-json --rpc echo_json_go`, for a real Nakama; the same for throng is
// in modules-go. A plugin must be built with the Go, the flags and the module versions of the server that loads it:
// inside Nakama's source tree,
//
//	go build -buildmode=plugin -trimpath -o echo.so ./echo_go
package main

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/heroiclabs/nakama-common/runtime"
)

func echo(
	_ context.Context, _ runtime.Logger, _ *sql.DB, _ runtime.NakamaModule, payload string,
) (string, error) {
	return payload, nil
}

// echoJSON takes its payload apart, and puts it together again.
func echoJSON(
	_ context.Context, _ runtime.Logger, _ *sql.DB, _ runtime.NakamaModule, payload string,
) (string, error) {
	var value any
	if err := json.Unmarshal([]byte(payload), &value); err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	return string(text), err
}

// InitModule registers the RPCs; Nakama calls it once when it starts.
func InitModule(
	_ context.Context, _ runtime.Logger, _ *sql.DB, _ runtime.NakamaModule,
	initializer runtime.Initializer,
) error {
	if err := initializer.RegisterRpc("echo_go", echo); err != nil {
		return err
	}
	return initializer.RegisterRpc("echo_json_go", echoJSON)
}
