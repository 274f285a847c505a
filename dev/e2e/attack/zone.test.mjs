/**
 * Players of the zone who send controls and what is none, and join and leave, as fast as the server answers; and some
 * who read nothing. What is asserted: the zone ticks on, its books agree, slots and memory stay bounded, and a
 * neighbour of the same room gets its answers.
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { newPlayer, RawSocket, until } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { CONTROLS, View } from "../../../examples/zone/zone.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";

const FLOOD_MS = 3_000;
const OPTIONS = { "world.enabled": true, "world.bots": 200, "world.side_m": 1024, "engine.rooms": 1 };

const send = (match_id, data, op_code = CONTROLS) => ({
  match_data_send: { match_id, op_code: String(op_code), data: Buffer.from(data).toString("base64") },
});

/** The zone's match, and a socket for each of so many players. */
async function enter(server, count) {
  const { client, session } = await newPlayer(server);
  const query = "+label.kind:zone";
  const { matches } = await client.listMatches(session, 1, true, undefined, 0, undefined, query);
  const raws = [];
  await inParallel(count, 8, async () => {
    const player = await newPlayer(server);
    raws.push(await RawSocket.open(server, player.session.token));
  });
  return { id: matches[0].match_id, raws };
}

test("players flood the zone with controls, come and go", throngOnly, async (context) => {
  const server = await startVictim({ options: OPTIONS });
  const { id, raws } = await enter(server, 12);
  try {
    const before = await server.counters();
    const bytes = await server.residentBytes();
    const steer = new View().controls(1, Array(8).fill({ turn: 90, thrust: 3, fire: true }));
    await besideNeighbour(server, async () => {
      const end = Date.now() + FLOOD_MS;
      await inParallel(raws.length, raws.length, async (index) => {
        const raw = raws[index];
        for (let round = 0; Date.now() < end; round += 1) {
          const { error } = await raw.request({ match_join: { match_id: id } });
          if (error) assert.match(error.message, /world\.ships_per_user/);
          if (index % 3) await raw.request({ match_leave: { match_id: id } });
          else for (let i = 0; i < 100; i += 1) raw.send(send(id, i % 2 ? steer : [CONTROLS, i, round & 255]));
        }
      });
    });
    const after = await server.counters();
    const grown = (await server.residentBytes()) - bytes;
    const of = (name) => after.of(name) - before.of(name);
    const ticks = of("zone_ticks");
    const refused = [of("zone_inputs_refused"), of("zone_joins_refused")];
    context.diagnostic(`${ticks} ticks, ${refused.join(" packets and ")} joins refused, ${grown} bytes more`);
    assert.ok(ticks > (FLOOD_MS / 50) * 0.8, `${ticks} ticks in ${FLOOD_MS} ms`);
    assert.equal(after.of("zone_faults"), 0);
    assert.ok(refused[0] > 500 && refused[1] > 10, `${refused}`);
    assert.ok(grown < 64 << 20, `${grown} bytes more`);
    raws.forEach((raw) => raw.close());
    await until(async () => (await server.counters()).of("zone_players") === 0);
  } finally {
    raws.forEach((raw) => raw.close());
    await server.stop();
  }
});

test("players of the zone read nothing", throngOnly, async (context) => {
  const server = await startVictim({ options: OPTIONS });
  const { id, raws } = await enter(server, 32);
  try {
    for (const raw of raws) await raw.request({ match_join: { match_id: id } });
    const bytes = await server.residentBytes();
    const before = await server.counters();
    raws.forEach((raw) => raw.frames.pause());
    await besideNeighbour(server, () => new Promise((done) => setTimeout(done, FLOOD_MS)));
    const after = await server.counters();
    const grown = (await server.residentBytes()) - bytes;
    const written = after.of("zone_packets") - before.of("zone_packets");
    const ticks = after.of("zone_ticks") - before.of("zone_ticks");
    context.diagnostic(`${written} snapshots in ${ticks} ticks for ${raws.length}, ${grown} bytes more`);
    assert.ok(written < (raws.length * ticks) / 4, `${written} snapshots in ${ticks} ticks`);
    assert.ok(grown < 32 << 20, `${grown} bytes more`);
  } finally {
    raws.forEach((raw) => raw.close());
    await server.stop();
  }
});
