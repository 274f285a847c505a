/**
 * The methods of the Go SDK's NakamaModule that take and give plain values, in a module built with the real toolchain
 * (`wasm/go`). Not here: the example game, in which those with structs are (`arena.test.mjs`).
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { REPOSITORY, startServer, throngOnly } from "./server.mjs";
import { bearer, http, newPlayer, openSocket } from "./client.mjs";
import { buildGo, missingGo } from "./guests.mjs";

const why = throngOnly.skip ?? missingGo();
const options = why ? { skip: why } : {};

let server, folder;
before(async () => {
  if (why) return;
  folder = mkdtempSync(join(tmpdir(), "throng-guest-go-"));
  buildGo(join(folder, "methods.wasm"), join(REPOSITORY, "dev", "e2e", "wasm", "go"));
  server = await startServer({ options: { "runtime.path": folder } });
});
after(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

const run = async (id, payload = "") => {
  const { client, session } = await newPlayer(server);
  const socket = await openSocket(client, session);
  const answer = JSON.parse((await socket.socket.rpc(id, payload)).payload);
  socket.leave();
  return answer;
};

test("accounts live and end", options, async () => {
  const { created, again, same, token, isGone, isBanned, ...rest } = await run("users", "ann");
  assert.deepEqual({ created, again, same, token, isGone, isBanned }, { created: true, again: false, same: true, token: true, isGone: true, isBanned: true });
  assert.deepEqual(rest, { name: "name-ann", shown: "Shown", lang: "en", metadata: { level: 4 } });
});

test("users have friends and are in streams", options, async () => {
  assert.deepEqual(await run("social", "ann"), { met: { met: "lobby" }, isNew: true, count: 1, left: 0 });
});

test("the machine tells of time and is told of numbers", options, async () => {
  assert.deepEqual(await run("machine"), { next: 1_700_438_400, before: 1_699_920_000 });
});

test("what is not there, and what is wrong, is an error that says so", options, async () => {
  const { missing, wrong, none } = await run("refused");
  assert.match(missing, /leaderboard/i);
  assert.match(wrong, /id/i);
  assert.match(none, /for none has returned no match/);
});

const post = async (id, body, headers = {}) => {
  const { session } = await newPlayer(server);
  const answer = await http(server, "POST", `/v2/rpc/${id}?unwrap&twice=1&twice=2`, { headers: { ...bearer(session), ...headers }, body });
  return { ...answer, user: session.user_id };
};

test("what is known of who calls has the types of Nakama's", options, async () => {
  const { user, json } = await post("caller", "", { "x-test": "yes" });
  const { node, ...known } = json;
  assert.deepEqual(known, { mode: "rpc", user, vars: null, header: ["yes"], query: ["1", "2"], expires: true, nothing: null });
  assert.ok(node.length > 0);
});

test("answers of any size follow each other, and panics", options, async () => {
  for (const size of [10, 300_000, 0, 70_000, 3]) {
    const { status, text } = await post("sized", `${size}`);
    assert.deepEqual([status, text.length], [200, size]);
    const failed = await post("sized", "none");
    assert.equal(failed.status, 500);
    assert.match(failed.text, /panic: no number/);
  }
});

test("the SDK reads values as its own tests say", options, () => {
  execFileSync("go", ["test", "./wire"], { cwd: join(REPOSITORY, "guests", "go"), stdio: "pipe" });
});
