/**
 * Guests who make another one be notified, and handlers of events run, as fast as the server answers. A neighbour plays
 * on beside them, and so does whom they flood.
 *
 * Not here: what a socket that is behind gets of it (pure/server/tests/it/notifications.rs).
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { bearer, http, newPlayer, RawSocket, until } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";

const ATTACKERS = 16;
const FLOOD_MS = 3_000;
const MODULES = fileURLToPath(new URL("../events", import.meta.url));

/** Every attacker calls `flood` until the time is over; gives how often it was answered, by status. */
async function floods(players, flood) {
  const end = Date.now() + FLOOD_MS;
  const statuses = {};
  await inParallel(players.length, players.length, async (at) => {
    while (Date.now() < end) {
      const { status } = await flood(players[at]);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  });
  return statuses;
}

const attackersOf = (server) => inParallel(ATTACKERS, 8, () => newPlayer(server));

test("invitations that are made and taken back", throngOnly, async (context) => {
  const server = await startVictim();
  let raw;
  try {
    const target = await newPlayer(server);
    const players = await attackersOf(server);
    raw = await RawSocket.open(server, target.session.token);
    let shown = 0;
    let pongs = 0;
    // Only as much is decoded as is asked for.
    raw.frames.removeAllListeners("message");
    raw.frames.on("message", (data) => {
      if (data.includes('"pong"')) pongs += 1;
      else shown += 1;
    });
    const path = `/v2/friend?ids=${target.session.user_id}`;
    const flood = async ({ session }) => {
      await http(server, "POST", path, { headers: bearer(session) });
      return http(server, "DELETE", path, { headers: bearer(session) });
    };
    const kinds = ["rpc", "register", "authenticate", "socket"];
    const { result, report } = await besideNeighbour(server, () => floods(players, flood), { kinds });
    context.diagnostic(`${JSON.stringify(result)}, shown ${shown}, beside ${JSON.stringify(report)}`);
    assert.ok(result[200] > ATTACKERS && shown > 2 * ATTACKERS, JSON.stringify(result));
    raw.send({ cid: "1", ping: {} });
    await until(() => pongs === 1);
    const list = await http(server, "GET", "/v2/notification?limit=100", { headers: bearer(target.session) });
    const count = list.json.notifications.length;
    assert.equal(count, 2 * ATTACKERS, `${count} are kept, where each may cause one of a kind`);
  } finally {
    raw?.close();
    await server.stop();
  }
});

test("events whose handler writes for each of them", throngOnly, async (context) => {
  const server = await startVictim({ options: { "runtime.path": MODULES, "runtime.event_queue_size": 640 } });
  try {
    const players = await attackersOf(server);
    const body = JSON.stringify({ name: "flood", properties: { x: "y".repeat(1_000) } });
    const flood = ({ session }) => http(server, "POST", "/v2/event", { headers: bearer(session), body });
    const kinds = ["register", "authenticate"];
    const { result, report } = await besideNeighbour(server, () => floods(players, flood), { kinds });
    context.diagnostic(`${JSON.stringify(result)} beside ${JSON.stringify(report)}`);
    assert.deepEqual(Object.keys(result), ["200"]);
    const counters = await server.counters();
    const waiting = counters.of("events_waiting");
    assert.ok(waiting <= 10 * ATTACKERS, `${waiting} wait, where each of ${ATTACKERS} may have 10`);
    const heard = counters.of("event_count") + waiting + counters.of("dropped_events");
    assert.ok(heard >= result[200], `${heard} of ${result[200]} are accounted for`);
  } finally {
    await server.stop();
  }
});
