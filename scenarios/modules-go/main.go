// The echo of the `rpc-go` scenario, and that of `rpc-json --rpc echo_json_go`, for throng: the plugin of modules-nakama with
// another import, built as a module of WebAssembly.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags=-w -o ../../data/modules/echo.wasm
package main

import (
	"context"
	"database/sql"
	"encoding/json"

	"throng/guest/runtime"
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

func init() { runtime.Module(InitModule) }

func main() {}

// InitModule registers the RPCs; throng calls it once when it starts.
func InitModule(
	_ context.Context, _ runtime.Logger, _ *sql.DB, _ runtime.NakamaModule,
	initializer runtime.Initializer,
) error {
	if err := initializer.RegisterRpc("echo_go", echo); err != nil {
		return err
	}
	return initializer.RegisterRpc("echo_json_go", echoJSON)
}
