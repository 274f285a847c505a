/**
 * Rules of the zone in Lua, JavaScript, Go and Rust, through nakama-js: where pilots come, what hits cost and kills are worth,
 * what all pilots are told of them; rules that fail, hang or talk nonsense; a new version of the modules. The packets are
 * read by examples/zone/zone.mjs. Nothing here waits for a time: a test goes on when what it expects has come.
 */
import { after, describe, test } from "node:test";
import assert from "node:assert/strict";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startVictim } from "./attack/rig.mjs";
import { REPOSITORY, throngOnly } from "./server.mjs";
import { buildGo, buildRust, missingGo, missingRust } from "./guests.mjs";
import { FORMATS, newPlayer, newSocketPlayer, until } from "./client.mjs";
import {
  CONTROLS, NEWS, news, plain, SCORE, score, SNAPSHOT, View, WELCOME, welcome,
} from "../../examples/zone/zone.mjs";

const WORLD = { "world.enabled": true, "world.side_m": 512, "engine.rooms": 2, "world.ships_per_address": 0 };
const hasOp = (op) => (data) => Number(data.op_code) === op;

const running = [];
after(async () => {
  for (const { server, folder } of running) {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
});

/** A server with a zone whose rules are this module in Lua, or what this puts into its folder. */
async function start(module, options = {}) {
  const folder = await mkdtemp(join(tmpdir(), "throng-rules-"));
  if (typeof module === "string") await writeFile(join(folder, "rules.lua"), module);
  else await module(folder);
  const server = await startVictim({ options: { ...WORLD, "runtime.path": folder, ...options } });
  running.push({ server, folder });
  const { client, session } = await newPlayer(server);
  const query = "+label.kind:zone";
  const [{ match_id: id }] = (await client.listMatches(session, 1, true, undefined, 0, undefined, query)).matches;
  const stat = async (name) => (await server.counters()).of(name);
  return { server, folder, id, stat };
}

/** A pilot in the zone. */
async function pilot({ server, id }, format = "json") {
  const player = await newSocketPlayer(server, { format });
  await player.socket.joinMatch(id);
  const told = await player.next("match_data", hasOp(WELCOME));
  return { ...player, id, ship: welcome(told.data), view: new View(), seq: 0 };
}

/** Takes the next snapshot, acknowledges it and steers. */
async function fly(pilot, controls = []) {
  const snapshot = await pilot.next("match_data", hasOp(SNAPSHOT));
  pilot.view.take(snapshot.data);
  const packet = pilot.view.controls(pilot.seq + 1, controls);
  pilot.seq += controls.length;
  await pilot.socket.sendMatchState(pilot.id, CONTROLS, packet);
}

/** Where a pilot's ship is first seen. */
async function first(pilot) {
  while (!pilot.view.known.has(pilot.ship.slot)) await fly(pilot);
  return plain(pilot.view.at(pilot.ship.slot));
}

/** A pilot's score once it has points: that a ship was shot down may be on the disk before a rule has said what for. */
async function scored(pilot) {
  for (;;) {
    const told = score((await pilot.next("match_data", hasOp(SCORE))).data);
    if (told.points !== 0) return told;
    assert.equal(told.downed + told.lost, 1);
  }
}

/** The one shoots at whatever is before it until somebody lies still, and both scores with the points for that. */
async function shootDown(one, other) {
  let isDone = false;
  const scores = Promise.all([scored(one), scored(other)]).finally(() => (isDone = true));
  while (!isDone) {
    await fly(one, [{ fire: true }]);
    await fly(other);
  }
  return scores;
}

/** Whether the log says that a rule is not followed, and where it is. */
const complains = ({ server }) => /zone_spawn/.test(server.logTail()) && /rules\.lua:\d+/.test(server.logTail());

/** Two in a row, the first with its nose towards the second; both with what is left of a rule. */
const SIDE_BY_SIDE = `
  local nk = require("nakama")
  local count = 0
  nk.register_zone_spawn(function(context, zone)
    for _, pilot in ipairs(zone.pilots) do
      pilot.x, pilot.y, pilot.heading, pilot.health = 200 + 10 * count, 300, 0, 15 - count
      count = count + 1
    end
    return zone
  end)
`;

const RULES = `${SIDE_BY_SIDE}
  nk.register_zone_hit(function(context, zone)
    assert(context.execution_mode == "zone_hit" and zone.tick > 0 and zone.tick_rate == 20 and zone.side == 512)
    for _, hit in ipairs(zone.hits) do
      hit.damage = hit.shots * 15
    end
    return zone
  end)
  nk.register_zone_score(function(context, zone)
    for _, kill in ipairs(zone.kills) do
      kill.points, kill.victim_points = 25, -5
      kill.respawn_ms = 500
      kill.text = kill.by.username .. " hit " .. kill.victim.username
    end
    return zone
  end)
`;

const IN_JAVASCRIPT = `
  let count = 0;
  function spawn(ctx, logger, nk, zone) {
    for (const pilot of zone.pilots) {
      Object.assign(pilot, { x: 200 + 10 * count, y: 300, heading: 0, health: 15 - count });
      count += 1;
    }
    return zone;
  }
  function hit(ctx, logger, nk, zone) {
    const { tick, tickRate, side } = zone;
    if (ctx.executionMode !== 'zone_hit' || !(tick > 0) || tickRate !== 20 || side !== 512) throw Error('which zone?');
    for (const hit of zone.hits) hit.damage = hit.shots * 15;
    return zone;
  }
  function score(ctx, logger, nk, zone) {
    for (const kill of zone.kills) {
      const text = kill.by.username + ' hit ' + kill.victim.username;
      Object.assign(kill, { points: 25, victimPoints: -5, respawnMs: 500, text });
    }
    return zone;
  }
  function InitModule(ctx, logger, nk, initializer) {
    initializer.registerZoneSpawn(spawn);
    initializer.registerZoneHit(hit);
    initializer.registerZoneScore(score);
  }
`;

const WASM = (folder) => join(REPOSITORY, "dev", "e2e", "wasm", folder);

/** The same rules in every language: what is put into a folder of modules, and why it cannot be, if it cannot. */
const LANGUAGES = {
  Lua: { rules: RULES },
  JavaScript: { rules: (folder) => writeFile(join(folder, "index.js"), IN_JAVASCRIPT) },
  Go: { rules: (folder) => buildGo(join(folder, "rules.wasm"), WASM("rules")), missing: missingGo },
  Rust: { rules: (folder) => buildRust("rules", join(folder, "rules.wasm")), missing: missingRust },
};
const EXAMPLE = join(REPOSITORY, "examples", "zone");
const EXAMPLES = {
  Lua: { rules: (folder) => cp(join(EXAMPLE, "rules.lua"), join(folder, "rules.lua")) },
  JavaScript: { rules: (folder) => cp(join(EXAMPLE, "rules.js"), join(folder, "index.js")) },
  Go: { rules: (folder) => buildGo(join(folder, "zone.wasm"), join(EXAMPLE, "go")), missing: missingGo },
  Rust: { rules: (folder) => buildRust("zone", join(folder, "zone.wasm")), missing: missingRust },
};
const skips = (missing) => ({ skip: throngOnly.skip || missing?.() || false });

for (const [language, { rules, missing }] of Object.entries(LANGUAGES)) {
  for (const format of language === "Lua" ? FORMATS : FORMATS.slice(0, 1)) {
    const what = `${format}, ${language}: pilots come where a rule says, hits cost and kills give what it says, and all are told`;
    test(what, skips(missing), async () => {
      const zone = await start(rules);
      const one = await pilot(zone, format);
      const two = await pilot(zone, format);
      assert.match(zone.server.logTail(), /modules decide in the zone.*zone_spawn \([\w.:]+\), zone_hit \(/);
      const [at, other] = [await first(one), await first(two)];
      assert.deepEqual([at.x, at.y, at.heading, at.health], [200, 300, 0, 15]);
      assert.deepEqual([other.x, other.y, other.health], [210, 300, 14]);
      // One shot of 15 does it.
      const [shot, lost] = await shootDown(one, two);
      assert.deepEqual(shot, { downed: 1, lost: 0, points: 25 });
      assert.deepEqual(lost, { downed: 0, lost: 1, points: -5 });
      for (const player of [one, two]) {
        const [{ victim, by, text }] = news((await player.next("match_data", hasOp(NEWS))).data);
        assert.deepEqual([victim.slot, by.slot], [two.ship.slot, one.ship.slot]);
        assert.deepEqual([victim.name, by.name], [two.session.username, one.session.username]);
        assert.equal(text, `${one.session.username} hit ${two.session.username}`);
      }
      const health = () => plain(two.view.at(two.ship.slot)).health;
      while (health() > 0) await fly(two);
      const down = two.view.tick;
      while (health() === 0) await fly(two);
      assert.ok(two.view.tick - down <= 14, `it lay still for ${two.view.tick - down} ticks`);
      assert.equal(await zone.stat("zone_rules_failed"), 0);
      assert.equal(await zone.stat("zone_rules_refused"), 0);
      assert.ok((await zone.stat("zone_rules_asked")) >= 3);
      one.leave();
      two.leave();
    });
  }
}

describe("rules of the zone", throngOnly, () => {
  const bad = {
    "raises errors": ["error('no')", "zone_rules_failed"],
    "returns something else": ["return { pilots = 5 }", "zone_rules_refused"],
    "says what cannot be": ["zone.pilots[1].x = -7 return zone", "zone_rules_refused"],
    "has no table where one was": ["zone.pilots[1] = 5 return zone", "zone_rules_refused"],
  };
  for (const [what, [body, counter]] of Object.entries(bad)) {
    test(`one that ${what}: the zone ticks on by its own rules, and the log says where`, async () => {
      const zone = await start(`local nk = require("nakama")
        nk.register_zone_spawn(function(context, zone)
          ${body}
        end)`);
      const one = await pilot(zone);
      await first(one);
      await until(async () => (await zone.stat(counter)) >= 1);
      const from = one.view.tick;
      const two = await pilot(zone);
      await first(two);
      while (one.view.tick < from + 20) await fly(one);
      await until(() => complains(zone));
      one.leave();
      two.leave();
    });
  }

  test("one that never ends: pilots come and ticks go on while it runs, and the log says where", async () => {
    const body = "nk.register_zone_spawn(function() while true do end end)";
    const zone = await start(`local nk = require("nakama") ${body}`, { "runtime.call_budget_ms": 4_000 });
    const one = await pilot(zone);
    await first(one);
    const from = one.view.tick;
    // What comes meanwhile does not wait either.
    const two = await pilot(zone);
    await first(two);
    while (one.view.tick < from + 10) await fly(one);
    assert.deepEqual([await zone.stat("zone_rules_late"), await zone.stat("zone_rules_failed")], [1, 0], "it runs");
    await until(() => complains(zone));
    await until(async () => (await zone.stat("zone_rules_failed")) === 1, 30_000);
    one.leave();
    two.leave();
  });

  test("a new version of the modules has other rules, and the next tick has them", async () => {
    const spawns = (x, more = "") => `local nk = require("nakama")
      nk.register_zone_spawn(function(context, zone)
        for _, pilot in ipairs(zone.pilots) do pilot.x, pilot.y = ${x}, 100 end
        return zone
      end) ${more}`;
    const zone = await start(spawns(50));
    const one = await pilot(zone);
    assert.equal((await first(one)).x, 50);
    const serves = () => (zone.server.logTail().match(/the modules serve/g) ?? []).length;
    await writeFile(join(zone.folder, "rules.lua"), spawns(150, "nk.register_zone_hit(function() end)"));
    const before = serves();
    zone.server.child.kill("SIGHUP");
    await until(() => serves() > before);
    const two = await pilot(zone);
    assert.equal((await first(two)).x, 150);
    await writeFile(join(zone.folder, "rules.lua"), "return 1");
    zone.server.child.kill("SIGHUP");
    await until(() => serves() > before + 1);
    const asked = await zone.stat("zone_rules_asked");
    const three = await pilot(zone);
    await first(three);
    assert.equal(await zone.stat("zone_rules_asked"), asked, "there is no rule any more");
    for (const player of [one, two, three]) player.leave();
  });

  for (const [language, { rules, missing }] of Object.entries(EXAMPLES)) {
    test(`the example in ${language} flies two squadrons`, skips(missing), async () => {
      const zone = await start(rules);
      const [one, two] = [await pilot(zone), await pilot(zone)];
      const [west, east] = [await first(one), await first(two)];
      assert.ok(west.x < 256 && east.x > 256, `${west.x} and ${east.x}`);
      assert.ok(Math.abs(west.y - 256) < 40 && Math.abs(east.y - 256) < 40);
      assert.equal(await zone.stat("zone_rules_refused"), 0);
      one.leave();
      two.leave();
    });
  }

  test("what a rule takes away is the server's own", async () => {
    const zone = await start(`local nk = require("nakama")
      nk.register_zone_spawn(function(context, zone)
        for at, pilot in ipairs(zone.pilots) do zone.pilots[at] = { x = 77 } end
        return zone
      end)`);
    const one = await pilot(zone);
    const { x, health } = await first(one);
    assert.deepEqual([x, health], [77, 15]);
    assert.equal(await zone.stat("zone_rules_refused"), 0);
    one.leave();
  });
});
