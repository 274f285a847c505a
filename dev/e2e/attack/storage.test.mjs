/**
 * Clients who write as much as one call may, over and over: a neighbour who registers and logs in beside them waits
 * for one such call at most, however many accounts send them. And functions that compute after they have written.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { bearer, http, newPlayer, unique } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";

const KINDS = { kinds: ["register", "authenticate", "rpc"] };
const WRITERS = 16;

let server;
let writers;
before(async () => {
  if (throngOnly.skip) return;
  server = await startVictim();
  writers = await inParallel(WRITERS, WRITERS, async () => (await newPlayer(server)).session);
});
after(() => server?.stop());

const put = (path, by, body) => http(server, "PUT", path, { headers: bearer(by), body: JSON.stringify(body) });
const named = (prefix, count) =>
  Array.from({ length: count }, (_, at) => ({ collection: "hoard", key: `${(at * 7919) % count}-${prefix}` }));

/** Every writer writes, `rounds` times, all at once each time. */
async function flood(rounds, objects) {
  const answers = await inParallel(WRITERS * rounds, WRITERS, (at) =>
    put("/v2/storage", writers[at % WRITERS], { objects: objects(at) }),
  );
  const refused = answers.filter(({ status }) => status !== 200);
  assert.ok(refused.length === 0, `${refused.length} refused: ${refused[0]?.status} ${refused[0]?.text}`);
}

test("calls that write a thousand objects each", throngOnly, async () => {
  const value = JSON.stringify({ text: "x".repeat(100) });
  const objects = () => named(unique(), 1_000).map((id) => ({ ...id, value }));
  await besideNeighbour(server, () => flood(4, objects), KINDS);
});

test("calls that write an object of 250 KB each", throngOnly, async () => {
  const value = JSON.stringify({ text: "x".repeat(250_000) });
  const objects = (at) => [{ collection: "large", key: `k${at % 8}`, value }];
  await besideNeighbour(server, () => flood(12, objects), KINDS);
});

test("calls that delete a thousand objects each", throngOnly, async () => {
  const ids = named("gone", 1_000);
  await flood(1, () => ids.map((id) => ({ ...id, value: "{}" })));
  const harm = async () => {
    const answers = await inParallel(WRITERS, WRITERS, (at) =>
      put("/v2/storage/delete", writers[at], { object_ids: ids }),
    );
    assert.ok(answers.every(({ status }) => status === 200));
  };
  await besideNeighbour(server, harm, KINDS);
});

for (const [what, calls, perCall, value, lists] of [
  ["a great many objects", 200, 1_000, "{}", 2_000],
  ["objects of 200 KB", 400, 1, JSON.stringify({ text: "x".repeat(200_000) }), 400],
]) {
  test(`lists that pass over ${what} that nobody may read`, throngOnly, async () => {
    const { session: by } = await newPlayer(server);
    const objects = (at) =>
      named(`${at}`, perCall).map((id) => ({ ...id, collection: "hidden", value, permission_read: 0 }));
    const written = await inParallel(calls, 8, (at) => put("/v2/storage", by, { objects: objects(at) }));
    assert.ok(written.every(({ status }) => status === 200));
    const path = `/v2/storage/hidden/${by.user_id}?limit=100`;
    const harm = () => inParallel(lists, 16, () => http(server, "GET", path, { headers: bearer(by) }));
    const { result } = await besideNeighbour(server, harm, KINDS);
    const refused = result.filter(({ status, text }) => status === 429 && text.includes("may not read"));
    assert.equal(refused.length, result.length);
  });
}

// What a function has written is committed with the next ones': until then its thread keeps others from writing.
test("functions that write and then compute", throngOnly, async () => {
  const call = (at) =>
    http(server, "POST", "/v2/rpc/e2e_slow?unwrap", {
      headers: bearer(writers[at % WRITERS]),
      body: JSON.stringify({ ms: 400, writes: true }),
    });
  const harm = async () => {
    const answers = await inParallel(20, 4, call);
    assert.ok(answers.every(({ status }) => status === 200), answers[0].text);
  };
  await besideNeighbour(server, harm, { kinds: ["register", "authenticate"] });
});

test("functions that write before each of some long functions of the host", throngOnly, async () => {
  const many = await startVictim({ options: { "engine.workers": 8 } });
  try {
    const players = await inParallel(12, 4, async () => (await newPlayer(many)).session);
    const call = (at) =>
      http(many, "POST", "/v2/rpc/e2e_write_and_encrypt?unwrap", {
        headers: bearer(players[at % players.length]),
        body: JSON.stringify({ bytes: 12_000_000, rounds: 4 }),
      });
    const harm = async () => {
      const answers = await inParallel(36, 12, call);
      assert.ok(answers.every(({ status }) => status === 200), answers.find(({ status }) => status !== 200)?.text);
    };
    await besideNeighbour(many, harm, { kinds: ["register"] });
  } finally {
    await many.stop();
  }
});
