/**
 * The zone behind the end of its server, through nakama-js: after `kill -9` it goes on within two seconds, and after an
 * ordinary stop, which is quick; pilots get back their ships and the scores that they were told. One that cannot go
 * on keeps the server from starting, with the cure (one that is damaged: edge/throng/tests/it/process.rs).
 * Nothing here waits for a time: a test goes on when what it expects has come.
 */
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { startVictim } from "./attack/rig.mjs";
import { throngOnly } from "./server.mjs";
import { FORMATS, newSocketPlayer, until } from "./client.mjs";
import { CONTROLS, SCORE, score, SNAPSHOT, View, WELCOME, welcome } from "../../examples/zone/zone.mjs";

/** From the start of the process to the first snapshot that a pilot is told. */
const BACK_MS_MAX = 2_000;

/**
 * From SIGTERM to the end of the process while clients answer close frames: what it takes is a tick and a write, and
 * closing; beyond two seconds some of it was given up.
 */
const STOP_MS_MAX = 2_000;

/** So small that ships meet. */
const OPTIONS = {
  "world.enabled": true,
  "world.side_m": 256,
  "world.bots": 300,
  "world.snapshot_interval_ms": 300,
  "engine.rooms": 2,
};

const hasOp = (op) => (data) => Number(data.op_code) === op;

async function join_(server, player) {
  const query = "+label.kind:zone";
  const { matches } = await player.client.listMatches(player.session, 1, true, undefined, 0, undefined, query);
  const [{ match_id: zone }] = matches;
  await player.socket.joinMatch(zone);
  const ship = welcome((await player.next("match_data", hasOp(WELCOME))).data);
  return { ...player, zone, ship, view: new View(), seq: 0 };
}

/** Takes the next snapshot, and turns and shoots. */
async function fly(pilot) {
  pilot.view.take((await pilot.next("match_data", hasOp(SNAPSHOT))).data);
  const packet = pilot.view.controls(pilot.seq + 1, [{ turn: 40, thrust: 1, fire: true }]);
  pilot.seq += 1;
  await pilot.socket.sendMatchState(pilot.zone, CONTROLS, packet);
}

const scores = (pilot) => pilot.on.left(({ value }) => Number(value?.op_code) === SCORE).map(({ value }) => score(value.data));

/** Four who have flown until one of them has brought something about, or suffered it; the last of them has left. */
async function squadron(server, format) {
  const pilots = [];
  for (let count = 0; count < 4; count += 1) {
    pilots.push(await join_(server, await newSocketPlayer(server, { format })));
  }
  while (!pilots.some((pilot) => scores(pilot).length > 0)) {
    await Promise.all(pilots.map(fly));
  }
  const gone = pilots.pop();
  await gone.socket.leaveMatch(gone.zone);
  return { pilots, gone };
}

for (const format of FORMATS) {
  describe(`${format}: the zone behind kill -9`, throngOnly, () => {
    test("goes on within two seconds, with the same ships and scores", async () => {
      const server = await startVictim({ options: OPTIONS });
      const { pilots, gone } = await squadron(server, format);
      // One that has come is in a snapshot or behind it.
      const late = await join_(server, await newSocketPlayer(server, { format }));
      while (!late.view.known.has(late.ship.slot)) await fly(late);
      pilots.push(late);
      const stat = async (name) => (await server.counters()).of(name);
      const before = await stat("zone_snapshots");
      await until(async () => (await stat("zone_snapshots")) > before + 1);
      await server.kill();
      [gone, ...pilots].forEach((pilot) => pilot.leave());
      for (const pilot of pilots) pilot.told = scores(pilot).at(-1) ?? { downed: 0, lost: 0 };

      const from = performance.now();
      const again = await startVictim({ options: OPTIONS, dataDir: server.dataDir });
      const back = [];
      for (const pilot of pilots) {
        const session = await newSocketPlayer(again, { format, device: pilot.device });
        back.push(await join_(again, session));
      }
      await back[0].next("match_data", hasOp(SNAPSHOT));
      const backMs = performance.now() - from;
      console.log(`${format}: back within ${Math.round(backMs)} ms, ${back.length} pilots joined again`);
      assert.ok(backMs < BACK_MS_MAX, `${backMs} ms`);
      for (const [index, pilot] of back.entries()) {
        assert.deepEqual(pilot.ship, pilots[index].ship, "the same ship");
        const value = (await pilot.next("match_data", hasOp(SCORE))).data;
        const { downed, lost } = score(value);
        const { told } = pilots[index];
        assert.ok(downed >= told.downed && lost >= told.lost, `${downed}, ${lost} behind ${JSON.stringify(told)}`);
        while (!pilot.view.known.has(pilot.ship.slot)) await fly(pilot);
        // It steers it, from its first control on.
        while (pilot.view.controlSeq < 2) await fly(pilot);
      }
      const counters = await again.counters();
      assert.equal(counters.of("zone_faults"), 0);
      assert.equal(counters.of("zone_away"), 0, "whoever had left has not come back");
      back.forEach((pilot) => pilot.leave());
      await again.stop();
    });
  });
}

for (const format of FORMATS) {
  describe(`${format}: the zone behind an ordinary stop`, throngOnly, () => {
    test("goes on with the same ships and scores, and the stop is quick", async () => {
      // So rare that nothing but the stop itself writes the snapshot that has them.
      const options = { ...OPTIONS, "world.snapshot_interval_ms": 60_000 };
      const server = await startVictim({ options });
      const { pilots } = await squadron(server, format);
      const from = performance.now();
      await server.stop({ keepData: true });
      const stopMs = performance.now() - from;
      console.log(`${format}: stopped within ${Math.round(stopMs)} ms`);
      assert.ok(stopMs < STOP_MS_MAX, `${stopMs} ms`);
      for (const pilot of pilots) {
        await pilot.next("disconnect");
        pilot.told = scores(pilot).at(-1) ?? { downed: 0, lost: 0 };
      }

      const again = await startVictim({ options, dataDir: server.dataDir });
      // Whoever had left has no ship that waits.
      await until(async () => (await again.counters()).of("zone_away") === pilots.length);
      const back = [];
      for (const { device, ship, told } of pilots) {
        const pilot = await join_(again, await newSocketPlayer(again, { format, device }));
        back.push(pilot);
        assert.deepEqual(pilot.ship, ship, "the same ship");
        const { downed, lost } = score((await pilot.next("match_data", hasOp(SCORE))).data);
        assert.ok(downed >= told.downed && lost >= told.lost, `${downed}, ${lost} behind ${JSON.stringify(told)}`);
        while (!pilot.view.known.has(pilot.ship.slot)) await fly(pilot);
      }
      assert.equal((await again.counters()).of("zone_faults"), 0);
      back.forEach((pilot) => pilot.leave());
      await again.stop();
    });
  });
}

describe("a zone of another world", throngOnly, () => {
  test("keeps the server from starting, which says what can be done", async () => {
    const server = await startVictim({ options: OPTIONS });
    const stat = async (name) => (await server.counters()).of(name);
    await until(async () => (await stat("zone_snapshots")) > 1);
    await server.kill();
    const options = (more) => ({ options: { ...OPTIONS, ...more }, dataDir: server.dataDir });
    const larger = await startVictim(options({ "world.side_m": 512 })).catch((error) => error);
    assert.match(String(larger), /world of 256 m, and this one has 512 m .*set `world\.side_m` to 256/);
    const anew = await startVictim(options({ "world.snapshot_interval_ms": 0 }));
    await anew.stop({ keepData: true });
    const clean = await startVictim(options({}));
    await clean.stop();
  });
});
