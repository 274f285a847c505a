// Rules of the zone in Go that change all that rules may change, for dev/e2e/zone_rules.test.mjs, where the same ones stand in
// Lua and JavaScript.
package main

import (
	"context"
	"database/sql"
	"fmt"

	"throng/guest/runtime"
)

func init() { runtime.Module(InitModule) }

func main() {}

var count int64

// InitModule registers the rules.
func InitModule(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, initializer runtime.Initializer) error {
	if err := initializer.RegisterZoneSpawn(func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, zone *runtime.Zone[runtime.ZoneSpawn]) error {
		for index := range zone.Entries {
			pilot := &zone.Entries[index]
			pilot.X, pilot.Y = float64(200+10*count), 300
			pilot.Heading, pilot.Health = 0, 15-count
			count++
		}
		return nil
	}); err != nil {
		return err
	}
	if err := initializer.RegisterZoneHit(func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, zone *runtime.Zone[runtime.ZoneHit]) error {
		if mode := ctx.Value(runtime.RUNTIME_CTX_MODE); mode != "zone_hit" || zone.Tick <= 0 || zone.TickRate != 20 || zone.Side != 512 {
			return fmt.Errorf("asked as %v at %d of %d in %f", mode, zone.Tick, zone.TickRate, zone.Side)
		}
		for index := range zone.Entries {
			zone.Entries[index].Damage = zone.Entries[index].Shots * 15
		}
		return nil
	}); err != nil {
		return err
	}
	return initializer.RegisterZoneScore(func(ctx context.Context, logger runtime.Logger, db *sql.DB, nk runtime.NakamaModule, zone *runtime.Zone[runtime.ZoneKill]) error {
		for index := range zone.Entries {
			kill := &zone.Entries[index]
			kill.Points, kill.VictimPoints, kill.RespawnMs = 25, -5, 500
			kill.Text = kill.By.Username + " hit " + kill.Victim.Username
		}
		return nil
	})
}
