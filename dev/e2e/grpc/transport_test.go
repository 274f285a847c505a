// What carries the calls: many at one time, large ones, compressed ones, ones that are taken back, and what is
// no gRPC at all.
package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heroiclabs/nakama-common/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

// More calls at one time than a connection may have streams: the client waits by itself.
func TestManyCallsShareAConnection(t *testing.T) {
	p := newPlayer(t)
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			if i%2 == 0 {
				must(p.GetAccount(p.ctx, nothing))
			} else {
				must(p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_echo", Payload: "x"}))
			}
		})
	}
	all.Wait()
}

// Answers are larger than the windows of the client together, so that they leave in turns.
func TestLargeAnswersLeaveInTurns(t *testing.T) {
	p := newPlayer(t, grpc.WithInitialWindowSize(65_535), grpc.WithInitialConnWindowSize(65_535))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			answer := must(p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_echo", Payload: strings.Repeat("x", 250_000)}))
			if len(answer.Payload) != 250_000 {
				t.Errorf("%d bytes", len(answer.Payload))
			}
		})
	}
	all.Wait()
}

func TestMessagesThatAreTooLargeAreRefused(t *testing.T) {
	p := newPlayer(t)
	for _, bytes := range []int{262_144, 300_000, 3 << 20} {
		_, err := p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_echo", Payload: strings.Repeat("x", bytes)})
		refused(t, err, codes.ResourceExhausted, "")
		must(p.GetAccount(p.ctx, nothing))
	}
	_, err := p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_echo", Payload: strings.Repeat("x", 20<<20)}, grpc.UseCompressor(gzip.Name))
	refused(t, err, codes.ResourceExhausted, "")
	ctx := metadata.AppendToOutgoingContext(p.ctx, "large", strings.Repeat("x", 9_000))
	_, err = p.GetAccount(ctx, nothing)
	if err == nil {
		t.Error("metadata of 9,000 bytes are taken")
	}
	must(p.GetAccount(p.ctx, nothing))
}

func TestMessagesMayBeCompressed(t *testing.T) {
	p := newPlayer(t)
	for _, payload := range []string{"", "x", strings.Repeat("0123456789", 20_000)} {
		answer := must(p.RpcFunc(p.ctx, &api.Rpc{Id: "e2e_echo", Payload: payload}, grpc.UseCompressor(gzip.Name)))
		if answer.Payload != payload {
			t.Errorf("%d bytes came back as %d", len(payload), len(answer.Payload))
		}
	}
}

func TestCallsCanBeTakenBack(t *testing.T) {
	p := newPlayer(t)
	for range 5 {
		ctx, cancel := context.WithTimeout(p.ctx, 20*time.Millisecond)
		_, err := p.RpcFunc(ctx, &api.Rpc{Id: "e2e_slow", Payload: `{"ms":200}`})
		refused(t, err, codes.DeadlineExceeded, "")
		cancel()
	}
	must(p.GetAccount(p.ctx, nothing))
}

func TestAClientMayKeepItsConnectionAlive(t *testing.T) {
	p := newPlayer(t, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, PermitWithoutStream: true}))
	must(p.GetAccount(p.ctx, nothing))
}

// What is no gRPC is told so, in words that its sender can show.
func TestWhatIsNoGRPCIsTold(t *testing.T) {
	conn := must(net.Dial("tcp", grpcAddress))
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(callTime))
	must(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	answer := string(must(io.ReadAll(conn)))
	if !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.Contains(answer, "socket.port") {
		t.Errorf("to HTTP/1.1: %q", answer)
	}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: callTime}
	for _, told := range []struct {
		method, contentType, timeout string
		status                       int
		code                         string
	}{
		{"POST", "application/json", "", 415, "3"},
		{"GET", "application/grpc", "", 405, "13"},
		{"POST", "application/grpc", "1 day", 400, "13"},
		{"POST", "application/grpc", "0S", 200, "4"},
	} {
		request := must(http.NewRequest(told.method, "http://"+grpcAddress+"/nakama.api.Nakama/Healthcheck", nil))
		request.Header.Set("Content-Type", told.contentType)
		if told.timeout != "" {
			request.Header.Set("Grpc-Timeout", told.timeout)
		}
		response := must(client.Do(request))
		response.Body.Close()
		if code := response.Header.Get("Grpc-Status"); response.StatusCode != told.status || code != told.code {
			t.Errorf("%+v: %d, %s", told, response.StatusCode, code)
		}
	}
}
