// Package e2e calls a running server over gRPC with the client that Nakama publishes, generated from its
// apigrpc.proto. dev/e2e/grpc.test.mjs starts the server and runs this; by hand, with a server on the usual ports:
//
//	THRONG_GRPC=127.0.0.1:7349 THRONG_HTTP=http://127.0.0.1:7350 go test ./...
//
// The server has the modules of dev/e2e/modules. Here: what the tests share.
package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"os"
	"testing"
	"time"

	"github.com/heroiclabs/nakama-common/api"
	"github.com/heroiclabs/nakama/v3/apigrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// How long one call may take; a debug build on a busy machine is slow.
const callTime = 20 * time.Second

func env(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

var (
	grpcAddress = env("THRONG_GRPC", "127.0.0.1:7349")
	httpURL     = env("THRONG_HTTP", "http://127.0.0.1:7350")
	serverKey   = env("THRONG_SERVER_KEY", "defaultkey")
	httpKey     = env("THRONG_HTTP_KEY", "defaulthttpkey")
)

// dial opens a connection of the test's own.
func dial(t *testing.T, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn := must(grpc.NewClient(grpcAddress, options...))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// background is a context that ends with the test, or when a call takes too long.
func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	t.Cleanup(cancel)
	return ctx
}

// with adds credentials.
func with(ctx context.Context, authorization string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
}

func basic(key string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(key+":"))
}

func unique(prefix string) string {
	return prefix + "-" + rand.Text()
}

// player is a user of its own who is logged in.
type player struct {
	apigrpc.NakamaClient
	ctx      context.Context
	conn     *grpc.ClientConn
	id, name string
	session  *api.Session
}

func newPlayer(t *testing.T, options ...grpc.DialOption) player {
	t.Helper()
	conn := dial(t, options...)
	client := apigrpc.NewNakamaClient(conn)
	name := unique("go")
	session := must(client.AuthenticateDevice(with(background(t), basic(serverKey)), &api.AuthenticateDeviceRequest{
		Account:  &api.AccountDevice{Id: unique("device-of-go")},
		Username: name,
	}))
	if !session.Created || session.Token == "" || session.RefreshToken == "" {
		t.Fatalf("a session of a new account: %v", session)
	}
	p := player{NakamaClient: client, ctx: with(background(t), "Bearer "+session.Token), conn: conn, name: name, session: session}
	p.id = must(p.GetAccount(p.ctx, nothing)).User.Id
	return p
}

// must gives the value of a call that may not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// refused asserts the code of an error, and its text unless that is empty.
func refused(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	got := status.Convert(err)
	if got.Code() != code || (text != "" && got.Message() != text) {
		t.Errorf("got %v %q, want %v %q", got.Code(), got.Message(), code, text)
	}
}
