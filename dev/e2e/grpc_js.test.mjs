/**
 * gRPC with node's own client (@grpc/grpc-js, on nghttp2): another implementation of the protocol than the Go client
 * of grpc.test.mjs, which looks at every call. The messages are read from the api.proto that Nakama publishes.
 */
import { after, before, test } from "node:test";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import assert from "node:assert/strict";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { startServer } from "./server.mjs";
import { unique } from "./client.mjs";

const FOLDER = fileURLToPath(new URL("grpc", import.meta.url));
const CALL_MS_MAX = 20_000;

/** The folder of a module of grpc/go.mod, which is fetched if need be. */
function folderOf(module) {
  const go = (...args) => spawnSync("go", args, { cwd: FOLDER, encoding: "utf8" });
  assert.equal(go("mod", "download", module).status, 0, `this test needs Go, and ${module}`);
  return go("list", "-m", "-f", "{{.Dir}}", module).stdout.trim();
}

const includeDirs = [FOLDER, join(folderOf("github.com/heroiclabs/nakama-common"), "api")];
const definition = loadSync("nakama.proto", { includeDirs, keepCase: true, longs: String, defaults: true });
const { Nakama } = grpc.loadPackageDefinition(definition).nakama.api;

let server;
const clients = [];
before(async () => (server = await startServer()));
after(async () => {
  for (const client of clients) client.close();
  await server?.stop();
});

/** A client with a connection of its own, whose methods give promises; `authorization` goes with each call. */
function connect(authorization, options = {}) {
  const own = { "grpc.use_local_subchannel_pool": 1, ...options };
  const client = new Nakama(`${server.host}:${server.grpcPort}`, grpc.credentials.createInsecure(), own);
  clients.push(client);
  return (method, request = {}, { ms = CALL_MS_MAX, fields = {} } = {}) =>
    new Promise((done, failed) => {
      const metadata = new grpc.Metadata();
      if (authorization) metadata.set("authorization", authorization);
      for (const [name, value] of Object.entries(fields)) metadata.set(name, value);
      client[method](request, metadata, { deadline: Date.now() + ms }, (error, answer) =>
        error ? failed(error) : done(answer),
      );
    });
}

async function newPlayer(options) {
  const key = `Basic ${btoa(`${server.serverKey}:`)}`;
  const session = await connect(key)("AuthenticateDevice", { account: { id: unique("device-of-node") } });
  assert.ok(session.created && session.token && session.refresh_token);
  return connect(`Bearer ${session.token}`, options);
}

/** The code and text of an error. */
const refusal = (call) =>
  call.then(
    () => assert.fail("it is not refused"),
    (error) => [error.code, error.details],
  );

test("accounts, storage, functions and friends", async () => {
  const [ann, bob] = [await newPlayer(), await newPlayer()];
  const [{ user, devices }, other] = [await ann("GetAccount"), await bob("GetAccount")];
  assert.match(devices[0].id, /^device-of-node/);
  const object = { collection: "node", key: "k", value: '{"ö":[1]}', permission_read: { value: 2 } };
  const { acks } = await ann("WriteStorageObjects", { objects: [object] });
  const id = { collection: "node", key: "k", user_id: user.id };
  const { objects } = await bob("ReadStorageObjects", { object_ids: [id] });
  assert.deepEqual([objects[0].value, objects[0].version], [object.value, acks[0].version]);
  const answer = await ann("RpcFunc", { id: "e2e_echo", payload: "é日本\u{1f3ae}" });
  assert.equal(answer.payload, "é日本\u{1f3ae}");
  await ann("AddFriends", { ids: [other.user.id] });
  const { friends } = await bob("ListFriends", { state: { value: 2 } });
  assert.deepEqual(friends.map((friend) => [friend.user.id, friend.state.value]), [[user.id, 2]]);
});

test("errors have gRPC's codes and their texts", async () => {
  const ann = await newPlayer();
  const { NOT_FOUND, UNAUTHENTICATED, INVALID_ARGUMENT, FAILED_PRECONDITION, DEADLINE_EXCEEDED } = grpc.status;
  assert.deepEqual(await refusal(connect()("GetAccount")), [UNAUTHENTICATED, "Auth token required"]);
  assert.deepEqual(await refusal(connect("Basic d3Jvbmc6")("AuthenticateDevice", { account: { id: unique() } })), [
    UNAUTHENTICATED,
    "Server key invalid",
  ]);
  assert.deepEqual(await refusal(ann("RpcFunc", { id: "none" })), [NOT_FOUND, "RPC function not found"]);
  assert.deepEqual(await refusal(ann("RpcFunc", {})), [INVALID_ARGUMENT, "RPC ID must be set"]);
  const payload = JSON.stringify({ code: 9, message: "50 % ä\nno" });
  assert.deepEqual(await refusal(ann("RpcFunc", { id: "e2e_fail", payload })), [FAILED_PRECONDITION, "50 % ä\nno"]);
  const slow = { id: "e2e_slow", payload: '{"ms":300}' };
  assert.equal((await refusal(ann("RpcFunc", slow, { ms: 50 })))[0], DEADLINE_EXCEEDED);
  assert.ok((await ann("GetAccount")).user.id, "the connection goes on");
});

/** More than a connection may have streams, with answers beyond the windows of both; some are compressed. */
test("many calls share a connection", async () => {
  for (const options of [{}, { "grpc.default_compression_algorithm": 2 }]) {
    const ann = await newPlayer(options);
    const payload = "0123456789".repeat(3_000);
    const calls = Array.from({ length: 250 }, () => ann("RpcFunc", { id: "e2e_echo", payload }));
    const answers = await Promise.all(calls);
    assert.ok(answers.every((answer) => answer.payload === payload));
  }
});
