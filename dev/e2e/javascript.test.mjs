/**
 * Guest code in JavaScript through nakama-js: RPCs, a before-hook, storage, a match with players, a loop that never
 * ends; beside the modules in Lua that all tests have, whose RPCs go on.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer, throngOnly } from "./server.mjs";
import { newPlayer, newSocketPlayer, textOf } from "./client.mjs";

const MODULES = join(dirname(fileURLToPath(import.meta.url)), "javascript");

let server;
let player;
before(async () => {
  if (throngOnly.skip) return;
  server = await startServer({
    options: { "runtime.path": MODULES, "runtime.call_budget_ms": 200, "match.callback_budget_ms": 50 },
  });
  player = await newPlayer(server);
});
after(() => server?.stop());

const rpc = async (id, input = {}) => (await player.client.rpc(player.session, id, input)).payload;
const refusal = (promise) =>
  promise.then(
    () => assert.fail("expected a refusal"),
    (response) => response.json(),
  );

test("an RPC sees who calls, and answers", throngOnly, async () => {
  const input = { text: "ü", list: [1, 2.5, null] };
  assert.deepEqual(await rpc("js_echo", input), { user: player.session.user_id, echo: input });
});

test("storage is written and read", throngOnly, async () => {
  const value = { userId: "kept", snake_case: { inner: [1] } };
  assert.deepEqual(await rpc("js_store", value), { same: true, value });
});

test("an error has the script's code and text", throngOnly, async () => {
  const { code, message } = await refusal(rpc("js_fail"));
  assert.deepEqual([code, message], [9, "not today"]);
});

test("a before-hook changes and refuses", throngOnly, async () => {
  await player.client.updateAccount(player.session, { display_name: "ann" });
  assert.equal((await player.client.getAccount(player.session)).user.display_name, "ANN");
  const long = { display_name: "a".repeat(21) };
  const { code, message } = await refusal(player.client.updateAccount(player.session, long));
  assert.deepEqual([code, message], [3, "name too long"]);
});

test("a loop that never ends is stopped, and named", throngOnly, async () => {
  const { code, message } = await refusal(rpc("js_loop"));
  assert.equal(code, 13);
  assert.match(message, /^index\.js:\d+: script used up its 200 ms \(runtime\.call_budget_ms\)$/);
  assert.equal((await rpc("js_echo", { still: "here" })).echo.still, "here");
});

test("players meet in a match; one that loops ends alone", throngOnly, async () => {
  const { match_id: id } = await rpc("js_arena");
  const { match_id: other } = await rpc("js_arena");
  const [one, two, guest] = await Promise.all([1, 2, 3].map(() => newSocketPlayer(server)));
  await assert.rejects(guest.socket.joinMatch(id, undefined, { ticket: "forged" }), {
    message: "forged ticket",
  });
  const match = await one.socket.joinMatch(id);
  assert.equal(match.label, '{"game":"arena"}');
  const welcome = JSON.parse(textOf(await one.next("match_data", (d) => d.op_code === 50)));
  assert.deepEqual(welcome, { joined: 1, level: 3 });
  await two.socket.joinMatch(id);
  await guest.socket.joinMatch(other);

  await two.socket.sendMatchState(id, 1, "hello");
  const seen = await one.next("match_data", (d) => d.op_code === 1);
  assert.equal(textOf(seen), "hello");
  assert.equal(seen.presence.user_id, two.session.user_id);
  await one.socket.sendMatchState(id, 2, new Uint8Array([0, 255, 1]));
  const bytes = await one.next("match_data", (d) => d.op_code === 2);
  assert.deepEqual([...bytes.data], [0, 255, 1]);

  // The other match is stopped, and its player with it; this one plays on.
  await guest.socket.sendMatchState(other, 3, "");
  await guest.next("disconnect");
  await two.socket.sendMatchState(id, 1, "still here");
  assert.equal(textOf(await one.next("match_data", (d) => d.op_code === 1)), "still here");
  [one, two].forEach((p) => p.leave());
});
