/**
 * What the log tells the author of modules while players are there. What is said of their text, before, is tested
 * in `edge/script` and `edge/throng`.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer, throngOnly } from "./server.mjs";
import { http, newSocketPlayer, until } from "./client.mjs";

/** A match that forgets the state in the callback that its parameter names. */
const FORGETFUL = `
local nk = require("nakama")
local M, forgotten = {}, nil
function M.match_init(context, params)
  forgotten = params.forgotten
  return { ticks = 0 }, 20, ""
end
function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
for _, name in ipairs({ "match_join", "match_leave", "match_terminate" }) do
  M[name] = function(context, dispatcher, tick, state)
    if name ~= forgotten then return state end
  end
end
function M.match_loop(context, dispatcher, tick, state)
  state.ticks = state.ticks + 1
  if forgotten == "match_loop" or (forgotten == "end" and state.ticks == 3) then return nil end
  return state
end
nk.register_rpc(function(context, payload) return nk.match_create("forgetful", { forgotten = payload }) end, "make")
return M
`;

let folder;
let server;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "throng-author-"));
  await writeFile(join(folder, "forgetful.lua"), FORGETFUL);
  server = await startServer({ options: { "runtime.path": folder, "logger.level": "debug" } });
});
after(async () => {
  await server?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

const call = async (id, body) =>
  (await http(server, "POST", `/v2/rpc/${id}?http_key=${server.httpKey}&unwrap`, { body })).text;
/** The log's line of a match that ended, as an object. */
async function ended(matchId) {
  const find = () =>
    server.log.find((line) => line.includes(matchId.split(".")[0]) && line.includes("match ended"));
  await until(find);
  return JSON.parse(find());
}

test("the callback that ended a match is named, an end that is meant is no advice", throngOnly, async () => {
  for (const [forgotten, level, text] of [
    ["match_loop", "info", "match_loop returned nil instead of the state"],
    ["end", "debug", "match_loop returned nil"],
    ["match_join", "info", "match_join returned nil instead of the state"],
  ]) {
    const id = await call("make", forgotten);
    if (forgotten === "match_join") {
      const player = await newSocketPlayer(server);
      await player.socket.joinMatch(id);
      player.socket.disconnect(false);
    }
    const line = await ended(id);
    assert.equal(line.level.toLowerCase(), level, JSON.stringify(line));
    assert.ok(JSON.stringify(line).includes(text), JSON.stringify(line));
    assert.equal(JSON.stringify(line).includes("return state"), level === "info");
  }
});
