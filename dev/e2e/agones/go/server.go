// A game server that speaks the Agones SDK by Agones' client for Go: it makes every call there is, says what it saw, and
// fails loudly. Started by `throng host` from agones.test.mjs if somebody names a checkout of Agones.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "agones.dev/agones/pkg/sdk"
	"agones.dev/agones/sdks/go"
)

func say(line string) { fmt.Println("conformance: " + line) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func is[T any](value T, err error) func(func(T) bool) {
	return func(well func(T) bool) {
		must(err)
		if !well(value) {
			panic(fmt.Sprintf("not so: %v", value))
		}
	}
}

func refused(err error, part string) {
	if err == nil || !strings.Contains(err.Error(), part) {
		panic(fmt.Sprintf("not refused with %q: %v", part, err))
	}
}

func equal[T comparable](wanted T) func(T) bool { return func(it T) bool { return it == wanted } }

// The latest picture, and a sign of each new one.
type pictures struct {
	sync.Mutex
	all  []*pb.GameServer
	seen int
	sign chan struct{}
}

// The next picture that is so.
func (p *pictures) when(isSo func(*pb.GameServer) bool) *pb.GameServer {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		p.Lock()
		for p.seen < len(p.all) {
			it := p.all[p.seen]
			p.seen++
			if isSo(it) {
				p.Unlock()
				return it
			}
		}
		p.Unlock()
		select {
		case <-p.sign:
		case <-time.After(time.Second):
		}
	}
	panic("no such picture")
}

func (p *pictures) state(wanted string) *pb.GameServer {
	return p.when(func(it *pb.GameServer) bool { return it.GetStatus().GetState() == wanted })
}

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	s, err := sdk.NewSDK()
	must(err)
	go func() {
		for {
			must(s.Health())
			time.Sleep(500 * time.Millisecond)
		}
	}()
	seen := &pictures{sign: make(chan struct{}, 1)}
	must(s.WatchGameServer(func(it *pb.GameServer) {
		seen.Lock()
		seen.all = append(seen.all, it)
		seen.Unlock()
		select {
		case seen.sign <- struct{}{}:
		default:
		}
	}))
	write(s)
	seen.when(func(it *pb.GameServer) bool {
		meta := it.GetObjectMeta()
		return meta.GetLabels()["agones.dev/sdk-mode"] == "ctf" && meta.GetAnnotations()["agones.dev/sdk-note"] == "any text: ü"
	})
	say("written")
	must(s.Ready())
	seen.state("Ready")
	say("ready")
	given := seen.state("Allocated")
	meta := given.GetObjectMeta()
	if meta.GetLabels()["map"] != "dm1" || meta.GetAnnotations()["session"] != "players a, b" {
		panic(given)
	}
	if !strings.HasPrefix(meta.GetAnnotations()["agones.dev/last-allocated"], "20") {
		panic(given)
	}
	say("allocated")
	must(s.Reserve(time.Second))
	seen.state("Reserved")
	seen.state("Ready")
	say("reserved")
	must(s.Allocate())
	seen.state("Allocated")
	must(s.Shutdown())
	<-ended
	say("told to end")
}

func write(s *sdk.SDK) {
	is(s.GameServer())(func(it *pb.GameServer) bool {
		status := it.GetStatus()
		return it.GetObjectMeta().GetName() == "go" && it.GetObjectMeta().GetNamespace() == "default" &&
			status.GetState() == "Scheduled" && len(status.GetPorts()) == 1 && status.GetPorts()[0].GetName() == "default" &&
			it.GetSpec().GetHealth().GetPeriodSeconds() == 2
	})
	must(s.SetLabel("mode", "ctf"))
	must(s.SetAnnotation("note", "any text: ü"))
	refused(s.SetLabel("a b", "c"), "InvalidArgument")
	beta, alpha := s.Beta(), s.Alpha()
	is(beta.GetCounterCount("rooms"))(equal(int64(1)))
	must(beta.IncrementCounter("rooms", 4))
	must(beta.DecrementCounter("rooms", 2))
	is(beta.GetCounterCount("rooms"))(equal(int64(3)))
	refused(beta.IncrementCounter("rooms", 8), "out of range")
	must(beta.SetCounterCapacity("rooms", 20))
	must(beta.SetCounterCount("rooms", 20))
	is(beta.GetCounterCount("rooms"))(equal(int64(20)))
	is(beta.GetCounterCapacity("rooms"))(equal(int64(20)))
	_, err := beta.GetCounterCount("none")
	refused(err, "counter not found")
	must(beta.AppendListValue("players", "p1"))
	must(beta.AppendListValue("players", "p2"))
	refused(beta.AppendListValue("players", "p1"), "already exists")
	is(beta.GetListValues("players"))(func(it []string) bool { return slices.Equal(it, []string{"p0", "p1", "p2"}) })
	must(beta.DeleteListValue("players", "p0"))
	is(beta.GetListLength("players"))(equal(2))
	is(beta.ListContains("players", "p2"))(equal(true))
	must(beta.SetListCapacity("players", 2))
	is(beta.GetListCapacity("players"))(equal(int64(2)))
	refused(beta.AppendListValue("players", "p3"), "out of range")
	refused(beta.SetListCapacity("players", 1001), "[0,1000]")
	refused(beta.DeleteListValue("players", "p9"), "not found")
	must(alpha.SetPlayerCapacity(2))
	is(alpha.GetPlayerCapacity())(equal(int64(2)))
	is(alpha.PlayerConnect("a"))(equal(true))
	is(alpha.PlayerConnect("a"))(equal(false))
	is(alpha.PlayerConnect("b"))(equal(true))
	_, err = alpha.PlayerConnect("c")
	refused(err, "at capacity")
	is(alpha.IsPlayerConnected("b"))(equal(true))
	is(alpha.PlayerDisconnect("b"))(equal(true))
	is(alpha.PlayerDisconnect("b"))(equal(false))
	is(alpha.GetPlayerCount())(equal(int64(1)))
	is(alpha.GetConnectedPlayers())(func(it []string) bool { return slices.Equal(it, []string{"a"}) })
}
