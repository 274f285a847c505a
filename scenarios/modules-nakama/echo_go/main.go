// The echo of the `rpc-go` scenario, for a real Nakama: throng runs no Go plugins, and says so when
// it finds one. A plugin must be built with the Go, the flags and the module versions of the server
// that loads it: inside Nakama's source tree,
//
//	go build -buildmode=plugin -trimpath -o echo.so ./echo_go
package main

import (
	"context"
	"database/sql"

	"github.com/heroiclabs/nakama-common/runtime"
)

func echo(
	_ context.Context, _ runtime.Logger, _ *sql.DB, _ runtime.NakamaModule, payload string,
) (string, error) {
	return payload, nil
}

// InitModule registers the RPC; Nakama calls it once when it starts.
func InitModule(
	_ context.Context, _ runtime.Logger, _ *sql.DB, _ runtime.NakamaModule,
	initializer runtime.Initializer,
) error {
	return initializer.RegisterRpc("echo_go", echo)
}
