// Rules of the zone: pilots come in two squadrons, shots of one's own cost nothing, and streaks are worth more. The same
// rules are written in Lua, Go and Rust beside this file.
//
//   mkdir -p data/modules && cp examples/zone/rules.js data/modules/index.js
//   throng serve --world.enabled true --world.page true --world.bots 200
//
// What the rules are given and may change is in docs/world/rules.md. They run on the thread of events: what they take too
// long for, the zone does by its own rules. A variable keeps its value in one VM only, of which there may be several, so
// what is to be known again, such as streaks, is in the server's cache, until newer entries push it out.

const SQUADRONS = { west: -1, east: 1 };

// The squadron of a user: of one who comes for the first time that into which fewer have come.
function squadronOf(nk, userId) {
  const known = nk.localcacheGet(`squadron ${userId}`);
  if (known) return known;
  const counts = nk.localcacheGet('squadrons') || { west: 0, east: 0 };
  const squadron = counts.west <= counts.east ? 'west' : 'east';
  counts[squadron] += 1;
  nk.localcachePut('squadrons', counts);
  nk.localcachePut(`squadron ${userId}`, squadron);
  return squadron;
}

// Some metres from the squadron's middle, with the nose towards the other one.
function spawn(ctx, logger, nk, zone) {
  for (const pilot of zone.pilots) {
    const squadron = squadronOf(nk, pilot.userId);
    pilot.x = zone.side / 2 + 60 * SQUADRONS[squadron] + Math.random() * 30 - 15;
    pilot.y = zone.side / 2 + Math.random() * 60 - 30;
    pilot.heading = squadron === 'west' ? 0 : 180;
  }
  return zone;
}

function hit(ctx, logger, nk, zone) {
  const known = (pilot) => pilot && nk.localcacheGet(`squadron ${pilot.userId}`);
  for (const hit of zone.hits) {
    const squadron = known(hit.victim);
    if (squadron && squadron === known(hit.by)) hit.damage = 0;
  }
  return zone;
}

function score(ctx, logger, nk, zone) {
  for (const kill of zone.kills) {
    if (kill.victim) nk.localcacheDelete(`streak ${kill.victim.userId}`);
    if (kill.by) {
      const streak = (nk.localcacheGet(`streak ${kill.by.userId}`) || 0) + 1;
      nk.localcachePut(`streak ${kill.by.userId}`, streak);
      kill.points = kill.victim ? 5 * streak : 1;
      if (streak >= 3) kill.text = `${streak} in a row`;
    }
    kill.respawnMs = 2000;
  }
  return zone;
}

function InitModule(ctx, logger, nk, initializer) {
  initializer.registerZoneSpawn(spawn);
  initializer.registerZoneHit(hit);
  initializer.registerZoneScore(score);
}
