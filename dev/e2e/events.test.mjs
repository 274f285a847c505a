/**
 * Events: of nakama-js clients, of scripts and of sessions, as the handlers of scripts hear of them. Nakama has such
 * handlers in Go only.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer, throngOnly } from "./server.mjs";
import { newPlayer, openSocket, refusal, until } from "./client.mjs";

const MODULES = join(dirname(fileURLToPath(import.meta.url)), "events");

let server;
before(async () => (server = await startServer({ options: { "runtime.path": MODULES } })));
after(() => server?.stop());

const run = async ({ client, session }, id) => (await client.rpc(session, id, {})).payload;
/** What was heard of a player, once there is so much of it. */
async function heard(player, count) {
  let list;
  await until(async () => (list = await run(player, "events_heard")).length >= count);
  assert.equal(list.length, count);
  return list;
}

test("handlers hear of clients and of scripts", throngOnly, async () => {
  const ann = await newPlayer(server);
  const { client, session } = ann;
  const event = { name: "level_up", properties: { level: "4" }, timestamp: "2026-01-02T03:04:05Z", external: false };
  assert.equal(await client.emitEvent(session, event), true);
  const [of_client] = await heard(ann, 1);
  assert.deepEqual(of_client, {
    name: "level_up",
    properties: { hooked: "yes" },
    timestamp: Date.parse(event.timestamp) / 1_000,
    external: true,
    username: session.username,
    session: false,
  });
  await run(ann, "events_tell");
  const [, of_script] = await heard(ann, 2);
  assert.deepEqual([of_script.name, of_script.timestamp, of_script.external], ["of_script", 1_700_000_000, false]);
  assert.equal((await refusal(client.emitEvent(session, { name: "refused" }))).message, "not this one");
});

test("handlers hear of sessions that begin and end", throngOnly, async () => {
  const ann = await newPlayer(server);
  const socket = await openSocket(ann.client, ann.session);
  const [start] = await heard(ann, 1);
  assert.deepEqual([start.name, start.username, start.session], ["session_start", ann.session.username, true]);
  assert.ok(Math.abs(Date.now() / 1_000 - start.timestamp) < 60);
  socket.leave();
  const [, end] = await heard(ann, 2);
  assert.deepEqual([end.name, end.properties], ["session_end", { reason: "" }]);
});
