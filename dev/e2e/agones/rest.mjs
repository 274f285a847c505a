/** The same over REST by hand: what grpc-gateway of the reference answers, names, forms and statuses. */
import assert from "node:assert/strict";

const url = `http://localhost:${process.env.AGONES_SDK_HTTP_PORT}`;
const say = (line) => console.log(`conformance: ${line}`);

async function ask(method, path, body) {
  const response = await fetch(url + path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  assert.equal(response.headers.get("content-type"), "application/json");
  return [response.status, await response.json()];
}
const done = async (method, path, body) => assert.deepEqual(await ask(method, path, body), [200, {}]);

await done("POST", "/health", {});
const [, self] = await ask("GET", "/gameserver");
assert.deepEqual(Object.keys(self), ["object_meta", "spec", "status"]);
assert.deepEqual(Object.keys(self.object_meta), [
  "name", "namespace", "uid", "resource_version", "generation", "creation_timestamp", "deletion_timestamp",
  "annotations", "labels",
]);
assert.equal(self.object_meta.deletion_timestamp, "0");
assert.deepEqual(self.status.counters, { rooms: { count: "1", capacity: "10" } });
await done("PUT", "/metadata/label", { key: "mode", value: "ctf" });
await done("PUT", "/metadata/annotation", { key: "note", value: "x" });
assert.deepEqual(await ask("PATCH", "/v1beta1/counters/rooms", { countDiff: "1" }), [
  200,
  { name: "rooms", count: "2", capacity: "10" },
]);
assert.equal((await ask("PATCH", "/v1beta1/counters/rooms", { count: 11 }))[0], 500);
assert.deepEqual((await ask("PATCH", "/v1beta1/lists/players", { capacity: "120" }))[1].capacity, "120");
assert.deepEqual((await ask("POST", "/v1beta1/lists/players:addValue", { value: "p1" }))[1].values, ["p0", "p1"]);
assert.deepEqual((await ask("POST", "/v1beta1/lists/players:removeValue", { value: "p0" }))[1].values, ["p1"]);
await done("PUT", "/alpha/player/capacity", { count: "2" });
assert.deepEqual(await ask("POST", "/alpha/player/connect", { playerID: "a" }), [200, { bool: true }]);
assert.deepEqual(await ask("GET", "/alpha/player/connected/a"), [200, { bool: true }]);
assert.deepEqual(await ask("GET", "/alpha/player/connected"), [200, { list: ["a"] }]);
assert.deepEqual(await ask("GET", "/alpha/player/count"), [200, { count: "1" }]);
assert.deepEqual(await ask("POST", "/alpha/player/disconnect", { playerID: "a" }), [200, { bool: true }]);
const mistakes = [
  ["GET", "/v1beta1/counters/none", undefined, 500, 2],
  ["POST", "/health", undefined, 400, 3],
  ["GET", "/ready", undefined, 501, 12],
  ["GET", "/none", undefined, 404, 5],
];
for (const [method, path, body, status, code] of mistakes) {
  const [was, answer] = await ask(method, path, body);
  assert.deepEqual([was, answer.code, answer.details], [status, code, []], `${method} ${path}`);
}
say("written");

setInterval(() => done("POST", "/health", {}), 500);
const watch = await fetch(`${url}/watch/gameserver`);
const lines = (async function* () {
  let text = "";
  for await (const piece of watch.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let at; (at = text.indexOf("\n")) >= 0; text = text.slice(at + 1)) yield JSON.parse(text.slice(0, at)).result;
  }
})();
async function state(wanted) {
  for (;;) {
    const { value, done } = await lines.next();
    assert.ok(!done, `the watch ended before ${wanted}`);
    if (value.status.state === wanted) return value;
  }
}
await done("POST", "/ready", {});
await state("Ready");
say("ready");
assert.equal((await state("Allocated")).object_meta.labels.map, "dm1");
say("allocated");
await done("POST", "/reserve", { seconds: "1" });
await state("Reserved");
await state("Ready");
say("reserved");
await done("POST", "/allocate", {});
await state("Allocated");
process.on("SIGTERM", () => {
  say("told to end");
  process.exit(0);
});
await done("POST", "/shutdown", {});
