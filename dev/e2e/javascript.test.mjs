/**
 * A bundle in the form that TypeScript and rollup give Nakama's projects, through nakama-js: RPCs, a before-hook, storage, a match with players, a loop that never
 * ends.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startServer, throngOnly } from "./server.mjs";
import { playArenas } from "./arena_match.mjs";
import { newPlayer, refusal } from "./client.mjs";

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

test("players meet in a match; one that loops ends alone", throngOnly, () =>
  playArenas(server, async () => (await rpc("js_arena")).match_id));
