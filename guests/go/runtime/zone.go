package runtime

// Zone is the zone at a tick, with what has happened for a rule since it was asked last. Each entry says what the server
// would do; the rule changes entries, and leaves their number and order as they are. What the numbers mean, and which of
// them may be, is on the server's page about rules of the zone.
type Zone[T ZoneSpawn | ZoneHit | ZoneKill] struct {
	// The tick that comes next.
	Tick int64 `json:"tick"`
	// Ticks in a second.
	TickRate int64 `json:"tick_rate"`
	// Of the world, metres.
	Side float64 `json:"side"`
	// What has happened.
	Entries []T `json:"-"`
}

// ZonePilot is who steers a ship.
type ZonePilot struct {
	UserID    string `json:"user_id"`
	SessionID string `json:"session_id"`
	Username  string `json:"username"`
}

// ZoneShip is a ship, as in the packets of the zone: its place, and which ship it is of those that have had it.
type ZoneShip struct {
	Slot       int64 `json:"slot"`
	Generation int64 `json:"generation"`
}

// ZoneSpawn is a pilot who has joined and is to get a ship.
type ZoneSpawn struct {
	Pilot ZonePilot `json:"-"`
	// Metres east and north of a corner, from 0 up to the side of the world. May be changed.
	X float64 `json:"x"`
	Y float64 `json:"y"`
	// Where the nose points, degrees to the left of east, from 0 up to 360. May be changed.
	Heading float64 `json:"heading"`
	// 1 to 15, a whole ship. May be changed.
	Health int64 `json:"health"`
}

// ZoneHit is a ship that was hit in a tick.
type ZoneHit struct {
	// When.
	Tick int64 `json:"tick"`
	// Who steers the ship that was hit, and the one that hit it; nil of a bot.
	Victim *ZonePilot `json:"victim"`
	By     *ZonePilot `json:"by"`
	// Both ships; of several that hit it the one in the lowest slot.
	VictimShip ZoneShip `json:"victim_ship"`
	ByShip     ZoneShip `json:"by_ship"`
	// How many shots.
	Shots int64 `json:"shots"`
	// What that costs, 0 to 15. May be changed.
	Damage int64 `json:"damage"`
}

// ZoneKill is a ship that was shot down.
type ZoneKill struct {
	// When.
	Tick int64 `json:"tick"`
	// Who steers the ship that was shot down, and the one that hit it last; nil of a bot.
	Victim *ZonePilot `json:"victim"`
	By     *ZonePilot `json:"by"`
	// Both ships.
	VictimShip ZoneShip `json:"victim_ship"`
	ByShip     ZoneShip `json:"by_ship"`
	// What By and Victim get, up to a million, or lose. May be changed.
	Points       int64 `json:"points"`
	VictimPoints int64 `json:"victim_points"`
	// For how long the ship lies still, milliseconds, up to 255 ticks. May be changed.
	RespawnMs int64 `json:"respawn_ms"`
	// What all pilots are told of it, 128 bytes at most. May be changed.
	Text string `json:"text"`
}
