/**
 * A plugin as one is written for Nakama's Go runtime (`wasm/plugin`), built with the plain toolchain and driven by
 * nakama-js: typed hooks that change and refuse, the methods of `nk` with structs and lists, and what clients
 * and the log are told of errors.
 * Not here: that every hook runs and every method answers (`guest_hooks.test.mjs`).
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { REPOSITORY, startServer, throngOnly } from "./server.mjs";
import { newPlayer, newSocketPlayer, refusal, until } from "./client.mjs";
import { buildGo, missingGo } from "./guests.mjs";

const why = throngOnly.skip ?? missingGo();
const options = why ? { skip: why } : {};

let server, folder, lines;
before(async () => {
  if (why) return;
  folder = mkdtempSync(join(tmpdir(), "throng-guest-plugin-"));
  buildGo(join(folder, "plugin.wasm"), join(REPOSITORY, "dev", "e2e", "wasm", "plugin"));
  writeFileSync(join(folder, "rules.txt"), "be kind\n");
  server = await startServer({ options: { "runtime.path": folder, "session.token_expiry_sec": 600 } });
  lines = server.heard(/./);
});
after(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

/** Calls an RPC over the socket, where it knows its session. */
const call = async ({ socket }, id, payload = "") => {
  const { payload: text } = await socket.rpc(id, payload);
  return text && JSON.parse(text);
};
/** The line of the log with this text, decoded. */
const logged = async (text) => {
  const found = () => lines.findLast((line) => line.includes(text));
  await until(() => found());
  return found();
};

test("hooks after a call see the answer and the request, and what they do stays", options, async () => {
  const player = await newSocketPlayer(server);
  const { since, why: reason, ...rest } = await call(player, "profile");
  assert.ok(since >= 2020, `${since}`);
  assert.deepEqual(reason, { device: player.device });
  assert.deepEqual(rest, {
    id: player.session.user_id, devices: player.device, wallet: '{"coins":100}', metadata: "{}", verified: false,
    several: 1, users: true, named: true, random: 1, chest: '{"items":[],"open":false,"worth":9007199254740993}',
    read: 1, written: true, cursor: "", ledger: { coins: 100 }, seen: { seen: true },
  });
  player.leave();
});

test("hooks before a call change it, refuse it with a code, or without a word", options, async () => {
  const { client, session } = await newPlayer(server);
  await client.updateAccount(session, { display_name: "" });
  assert.equal((await client.getAccount(session)).user.display_name, "Nobody");
  const reserved = await refusal(client.updateAccount(session, { username: "admin" }));
  assert.deepEqual([reserved.code, reserved.message], [3, "that name is reserved"]);
  const { status, code } = await refusal(client.getUsers(session, [], ["a", "b", "c"]));
  assert.deepEqual([status, code], [404, 5]);
  const chest = { collection: "chests", key: "k", value: {} };
  assert.equal((await refusal(client.writeStorageObjects(session, [chest]))).code, 7);
  await client.writeStorageObjects(session, [{ ...chest, collection: "notes" }]);
  const [note] = (await client.listStorageObjects(session, "notes", session.user_id, 1)).objects;
  assert.equal(note.permission_read, 2);
  assert.equal((await refusal(client.deleteAccount(session))).message, "nobody leaves");
  await client.listMatches(session, 7);
  assert.match(await logged("matches were listed"), /limit=7/);
});

test("hooks of the socket have a struct for each message", options, async () => {
  const player = await newSocketPlayer(server);
  const made = await player.socket.createMatch("LOUD");
  const other = await newSocketPlayer(server);
  assert.equal((await other.socket.createMatch("loud")).match_id, made.match_id);
  await assert.rejects(player.socket.createMatch("forbidden"), (error) => error.message === "that name is reserved");
  await player.socket.updateStatus("here");
  await logged('status is \\"here\\"');
  for (const one of [player, other]) one.leave();
});

test("streams, matches, notifications, storage, wallets, friends and files", options, async () => {
  const player = await newSocketPlayer(server);
  assert.deepEqual(await call(player, "lobby"), { count: 1, same: true, node: true, status: "ready", persistence: true, hidden: false, nobody: true });
  assert.equal((await player.next("stream_data")).data, "welcome");
  assert.equal((await player.next("status_presence")).joins[0].status, "raw");
  assert.deepEqual(await call(player, "games"), {
    found: true, label: '{"prey":["fox","hare"]}', rate: 5, handler: "hunt", none: true, listed: 1, said: "xxx", wrong: true, gone: true,
  });
  assert.deepEqual(await call(player, "letters"), {
    listed: 2, content: '{"n":1}', code: 7, cursor: "", sender: true, moment: true, subjects: { first: '{"n":1}', two: '{"n":2}' }, left: 0, kept: true,
  });
  assert.deepEqual(await call(player, "chest"), {
    was: '{"items":[],"open":false,"worth":9007199254740993}', acks: 1, key: "first", coins: 105, before: 100, gems: 1,
    same: true, tries: 2, stale: true, poor: true,
  });
  assert.deepEqual(await call(player, "company"), { friends: 1, state: 1, metadata: '{"met":"here"}', same: true, status: 1, further: 0, cursor: "" });
  assert.equal((await player.socket.rpc("rules", "rules.txt")).payload, "be kind\n");
  await call(player, "season", "autumn");
  assert.match(await logged("event season of"), /event season of autumn at \d{10}/);
  await player.socket.rpc("lobby", "end").catch(() => {});
  await player.next("disconnect");
});

test("clients get the text of an error, and the log its module, version, function and line", options, async () => {
  const { client, session } = await newPlayer(server);
  const broken = await refusal(client.rpc(session, "broken", {}));
  assert.deepEqual([broken.code, broken.message], [13, "it is broken"]);
  const place = (name) => new RegExp(`plugin\\.wasm@[0-9a-f]{8}: main\\.${name} \\(main\\.go:\\d+\\)`);
  const line = await logged("rpc failed: it is broken");
  assert.match(line, place("broken"));
  assert.match(line, /"version":1[,}]/);
  const careless = await refusal(client.rpc(session, "careless", {}));
  assert.equal(careless.code, 13);
  assert.match(careless.message, /^panic: runtime error: invalid memory address/);
  assert.match(await logged("rpc failed: panic"), place("careless"));
});
