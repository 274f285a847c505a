-- Rules of the zone: pilots come in two squadrons, shots of one's own cost nothing, and streaks are worth more. The
-- same rules are written in JavaScript, Go and Rust beside this file.
--
--     mkdir -p data/modules && cp examples/zone/rules.lua data/modules/
--     throng serve --world.enabled true --world.page true --world.bots 200
--
-- What the rules are given and may change is in docs/world/rules.md. They run on the thread of events: what they take
-- too long for, the zone does by its own rules.

local nk = require("nakama")

-- Who is in which squadron: known again as long as these modules serve.
local squadrons = { west = 0, east = 0 }
local squadron_of = {}
-- Kills of each user since they were last shot down.
local streaks = {}

-- Into the squadron that fewer have joined so far, some metres from its middle, with the nose towards the other one.
nk.register_zone_spawn(function(context, zone)
  for _, pilot in ipairs(zone.pilots) do
    local squadron = squadron_of[pilot.user_id]
    if not squadron then
      squadron = squadrons.west <= squadrons.east and "west" or "east"
      squadrons[squadron] = squadrons[squadron] + 1
      squadron_of[pilot.user_id] = squadron
    end
    local is_west = squadron == "west"
    pilot.x = zone.side / 2 + (is_west and -60 or 60) + math.random(-15, 15)
    pilot.y = zone.side / 2 + math.random(-30, 30)
    pilot.heading = is_west and 0 or 180
  end
  return zone
end)

nk.register_zone_hit(function(context, zone)
  for _, hit in ipairs(zone.hits) do
    local victim = hit.victim and squadron_of[hit.victim.user_id]
    if victim and hit.by and squadron_of[hit.by.user_id] == victim then
      hit.damage = 0
    end
  end
  return zone
end)

nk.register_zone_score(function(context, zone)
  for _, kill in ipairs(zone.kills) do
    if kill.victim then
      streaks[kill.victim.user_id] = nil
    end
    if kill.by then
      local streak = (streaks[kill.by.user_id] or 0) + 1
      streaks[kill.by.user_id] = streak
      kill.points = kill.victim and 5 * streak or 1
      if streak >= 3 then
        kill.text = streak .. " in a row"
      end
    end
    kill.respawn_ms = 2000
  end
  return zone
end)
