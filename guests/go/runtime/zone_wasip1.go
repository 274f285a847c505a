package runtime

import (
	"context"
	"database/sql"

	"throng/guest/wire"
)

type (
	ruleFunction          = func(context.Context, map[string]any) (any, error)
	zoneFunction[T zoned] = func(context.Context, Logger, *sql.DB, NakamaModule, *Zone[T]) error
)

type zoned interface{ ZoneSpawn | ZoneHit | ZoneKill }

// rules are the game's rules of the zone, by the names of events by which they are asked.
var rules registry[ruleFunction]

// rule registers a rule that is asked about entries of this list. `changed` is what of an entry may be changed.
func rule[T zoned](name, list string, fn zoneFunction[T], changed func(*T) map[string]any) error {
	place("event", name, fn)
	rules.set(name, func(ctx context.Context, argument map[string]any) (any, error) {
		zone := &Zone[T]{}
		if err := wire.Fill(zone, argument); err != nil {
			return nil, err
		}
		given, _ := argument[list].([]any)
		zone.Entries = make([]T, len(given))
		for index := range given {
			if err := wire.Fill(&zone.Entries[index], given[index]); err != nil {
				return nil, err
			}
			if spawn, is := any(&zone.Entries[index]).(*ZoneSpawn); is {
				if err := wire.Fill(&spawn.Pilot, given[index]); err != nil {
					return nil, err
				}
			}
		}
		if err := fn(ctx, log, nil, nk, zone); err != nil {
			return nil, err
		}
		entries := make([]any, len(zone.Entries))
		for index := range zone.Entries {
			entries[index] = changed(&zone.Entries[index])
		}
		return map[string]any{list: entries}, nil
	})
	return register("event", name)
}

func (initializer) RegisterZoneSpawn(fn zoneFunction[ZoneSpawn]) error {
	return rule("zone_spawn", "pilots", fn, func(it *ZoneSpawn) map[string]any {
		return map[string]any{"x": it.X, "y": it.Y, "heading": it.Heading, "health": it.Health}
	})
}

func (initializer) RegisterZoneHit(fn zoneFunction[ZoneHit]) error {
	return rule("zone_hit", "hits", fn, func(it *ZoneHit) map[string]any {
		return map[string]any{"damage": it.Damage}
	})
}

func (initializer) RegisterZoneScore(fn zoneFunction[ZoneKill]) error {
	return rule("zone_score", "kills", fn, func(it *ZoneKill) map[string]any {
		return map[string]any{
			"points": it.Points, "victim_points": it.VictimPoints, "respawn_ms": it.RespawnMs, "text": it.Text,
		}
	})
}
