/**
 * A game server that speaks the Agones SDK by the released client for Node: it makes every call there is, says what
 * it saw, and fails loudly. Started by `throng host` from agones.test.mjs; the Go and Rust servers beside do the same.
 */
import assert from "node:assert/strict";
import AgonesSDK from "@google-cloud/agones-sdk";

const sdk = new AgonesSDK();
const say = (line) => console.log(`conformance: ${line}`);
const refused = (call, part) => assert.rejects(call, (error) => error.code === 2 && error.message.includes(part));

/** Every picture that came, and who waits for one. */
const pictures = [];
const waiting = new Set();
const when = (isSo) =>
  new Promise((resolve) => {
    const look = (picture) => isSo(picture) && (waiting.delete(look), resolve(picture));
    waiting.add(look);
    if (pictures.length > 0) look(pictures.at(-1));
  });
const pairs = (map) => Object.fromEntries(map);
const state = (wanted) => when((it) => it.status.state === wanted);

await sdk.connect();
const health = setInterval(() => sdk.health((error) => { throw error; }), 500);
sdk.health();
sdk.watchGameServer(
  (picture) => {
    pictures.push(picture);
    for (const look of [...waiting]) look(picture);
  },
  (error) => say(`watch ended: ${error.code}`),
);

const self = await sdk.getGameServer();
assert.equal(self.objectMeta.name, "node");
assert.equal(self.objectMeta.namespace, "default");
assert.equal(self.status.state, "Scheduled");
assert.deepEqual(self.status.portsList, [{ name: "default", port: self.status.portsList[0].port }]);
assert.equal(self.spec.health.periodSeconds, 2);
assert.match(self.status.address, /^[0-9.]+$/);

await sdk.setLabel("mode", "ctf");
await sdk.setAnnotation("note", "any text: ü");
const marked = await when((it) => pairs(it.objectMeta.labelsMap)["agones.dev/sdk-mode"] === "ctf");
assert.equal(marked.status.state, "Scheduled");
await when((it) => pairs(it.objectMeta.annotationsMap)["agones.dev/sdk-note"] === "any text: ü");
await assert.rejects(sdk.setLabel("a b", "c"), (error) => error.code === 3);

const { beta, alpha } = sdk;
assert.equal(await beta.getCounterCount("rooms"), 1);
await beta.incrementCounter("rooms", 4);
await beta.decrementCounter("rooms", 2);
assert.equal(await beta.getCounterCount("rooms"), 3);
await refused(beta.incrementCounter("rooms", 8), "out of range");
await beta.setCounterCapacity("rooms", 20);
await beta.setCounterCount("rooms", 20);
assert.deepEqual([await beta.getCounterCount("rooms"), await beta.getCounterCapacity("rooms")], [20, 20]);
await refused(beta.getCounterCount("none"), "counter not found");

await beta.appendListValue("players", "p1");
await beta.appendListValue("players", "p2");
await refused(beta.appendListValue("players", "p1"), "already exists");
assert.deepEqual(await beta.getListValues("players"), ["p0", "p1", "p2"]);
await beta.deleteListValue("players", "p0");
assert.equal(await beta.getListLength("players"), 2);
assert.ok(await beta.listContains("players", "p2"));
await beta.setListCapacity("players", 2);
assert.equal(await beta.getListCapacity("players"), 2);
await refused(beta.appendListValue("players", "p3"), "out of range");
await refused(beta.setListCapacity("players", 1001), "[0,1000]");
await refused(beta.deleteListValue("players", "p9"), "not found");

await alpha.setPlayerCapacity(2);
assert.equal(await alpha.getPlayerCapacity(), 2);
assert.equal(await alpha.playerConnect("a"), true);
assert.equal(await alpha.playerConnect("a"), false);
assert.equal(await alpha.playerConnect("b"), true);
await refused(alpha.playerConnect("c"), "at capacity");
assert.equal(await alpha.isPlayerConnected("b"), true);
assert.equal(await alpha.playerDisconnect("b"), true);
assert.equal(await alpha.playerDisconnect("b"), false);
assert.equal(await alpha.getPlayerCount(), 1);
assert.deepEqual(await alpha.getConnectedPlayers(), ["a"]);
say("written");

await sdk.ready();
await state("Ready");
say("ready");
const given = await state("Allocated");
assert.equal(pairs(given.objectMeta.labelsMap)["map"], "dm1");
assert.equal(pairs(given.objectMeta.annotationsMap)["session"], "players a, b");
assert.match(pairs(given.objectMeta.annotationsMap)["agones.dev/last-allocated"], /^\d{4}-\d\d-\d\dT/);
say("allocated");
await sdk.reserve(1);
await state("Reserved");
await state("Ready");
say("reserved");
await sdk.allocate();
await state("Allocated");
process.on("SIGTERM", () => {
  clearInterval(health);
  say("told to end");
  process.exit(0);
});
await sdk.shutdown();
await state("Shutdown");
say("shut down");
