// Rules of the zone: pilots come in two squadrons, shots of one's own cost nothing, and streaks are worth more. The same
// rules are written in Lua, JavaScript and Rust beside this folder.
//
//	mkdir -p data/modules
//	(cd examples/zone/go && GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags=-w -o ../../../data/modules/zone.wasm)
//	throng serve --world.enabled true --world.page true --world.bots 200
//
// What the rules are given and may change is in docs/world/rules.md. They run on the thread of events: what they take too
// long for, the zone does by its own rules.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"

	"throng/guest/runtime"
)

type squadron int

const (
	west squadron = iota
	east
)

// What is known again as long as this instance of the module is there, by the ids of users; if it is lost, squadrons are
// drawn anew. What must not be forgotten stands in storage.
var (
	squadrons = map[string]squadron{}
	sizes     [2]int
	// Kills since they were last shot down.
	streaks = map[string]int64{}
)

func init() { runtime.Module(InitModule) }

func main() {}

// InitModule registers the rules.
func InitModule(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, initializer runtime.Initializer) error {
	if err := initializer.RegisterZoneSpawn(spawn); err != nil {
		return err
	}
	if err := initializer.RegisterZoneHit(hit); err != nil {
		return err
	}
	return initializer.RegisterZoneScore(score)
}

// spawn puts pilots into the squadron that fewer have joined so far, some metres from its middle, with the nose towards the
// other one.
func spawn(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, zone *runtime.Zone[runtime.ZoneSpawn]) error {
	for index := range zone.Entries {
		entry := &zone.Entries[index]
		mine, known := squadrons[entry.Pilot.UserID]
		if !known {
			if sizes[east] < sizes[west] {
				mine = east
			}
			sizes[mine]++
			squadrons[entry.Pilot.UserID] = mine
		}
		entry.X, entry.Heading = zone.Side/2-60, 0
		if mine == east {
			entry.X, entry.Heading = zone.Side/2+60, 180
		}
		entry.X += rand.Float64()*30 - 15
		entry.Y = zone.Side/2 + rand.Float64()*60 - 30
	}
	return nil
}

func hit(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, zone *runtime.Zone[runtime.ZoneHit]) error {
	for index := range zone.Entries {
		hit := &zone.Entries[index]
		if hit.Victim == nil || hit.By == nil {
			continue
		}
		of, isKnown := squadrons[hit.Victim.UserID]
		by, isPilots := squadrons[hit.By.UserID]
		if isKnown && isPilots && of == by {
			hit.Damage = 0
		}
	}
	return nil
}

func score(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, zone *runtime.Zone[runtime.ZoneKill]) error {
	for index := range zone.Entries {
		kill := &zone.Entries[index]
		if kill.Victim != nil {
			delete(streaks, kill.Victim.UserID)
		}
		if kill.By != nil {
			streak := streaks[kill.By.UserID] + 1
			streaks[kill.By.UserID] = streak
			kill.Points = 1
			if kill.Victim != nil {
				kill.Points = 5 * streak
			}
			if streak >= 3 {
				kill.Text = fmt.Sprintf("%d in a row", streak)
			}
		}
		kill.RespawnMs = 2000
	}
	return nil
}
