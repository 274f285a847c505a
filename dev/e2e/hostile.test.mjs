/**
 * Scripts and clients that misbehave, and what their neighbours notice of it: nothing. Only throng promises
 * this, Nakama would hang for ever on some of these scripts, so nothing here runs against it.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { connect } from "node:net";
import { once } from "node:events";
import { startServer, throngOnly } from "./server.mjs";
import {
  clientOf,
  http,
  newPlayer,
  newSocketPlayer,
  RawSocket,
  textOf,
  unique,
} from "./client.mjs";

const OP_ECHO = 1;
const OP_SPIN = 200;
const OP_HOARD = 201;
/** Budgets of the server under test: small, so that the tests are quick. */
const CALL_BUDGET_MS = 200;
const OPTIONS = {
  "runtime.call_budget_ms": CALL_BUDGET_MS,
  "runtime.memory_max_bytes": 16 * 1024 * 1024,
  "match.callback_budget_ms": 50,
  "match.memory_max_bytes": 8 * 1024 * 1024,
};
/** How long a neighbour may wait while a script burns its budget; far below "until the budget is over and over". */
const NEIGHBOUR_MS_MAX = 2_000;

let server;
let bystander;
before(async () => {
  if (throngOnly.skip) return;
  server = await startServer({ options: OPTIONS });
  bystander = await newSocketPlayer(server);
});
after(async () => {
  bystander?.leave();
  await server?.stop();
});

const caller = () => newPlayer(server);

/** Runs `harm` while a neighbour keeps calling; gives the neighbour's longest wait. */
async function worstWaitDuring(harm) {
  let done = false;
  let worst = 0;
  const harmed = harm().finally(() => (done = true));
  while (!done) {
    const started = Date.now();
    assert.equal((await bystander.socket.rpc("e2e_echo", "x")).payload, "x");
    worst = Math.max(worst, Date.now() - started);
  }
  return { worst, result: await harmed };
}

describe("functions", throngOnly, () => {
  const ROWS = [
    ["hostile_spin", /hostile\.lua:\d+: .*runtime\.call_budget_ms/],
    ["hostile_spin_pcall", /hostile\.lua:\d+: .*runtime\.call_budget_ms/],
    ["hostile_hoard", /hostile\.lua:\d+: .*runtime\.memory_max_bytes/],
    ["hostile_rep", /runtime\.memory_max_bytes|too large/],
    ["hostile_recursion", /stack overflow|runtime\.(memory_max_bytes|call_budget_ms)/],
    ["hostile_pattern", undefined],
  ];
  for (const [id, text] of ROWS) {
    test(`${id} is stopped, others go on, the next call works`, async () => {
      const { client, session } = await caller();
      const { worst, result } = await worstWaitDuring(() =>
        client.rpc(session, id, {}).then(
          (value) => ({ value }),
          (response) => (response instanceof Response ? response.json() : Promise.reject(response)),
        ),
      );
      if (text) {
        assert.equal(result.code, 13);
        assert.match(result.message, text);
      }
      assert.ok(worst < NEIGHBOUR_MS_MAX, `a neighbour waited ${worst} ms`);
      assert.deepEqual((await client.rpc(session, "e2e_echo", { after: id })).payload, {
        after: id,
      });
    });
  }

  test("more runaways than workers", async () => {
    const { client, session } = await caller();
    const runaways = Array.from({ length: 8 }, () =>
      client.rpc(session, "hostile_spin", {}).catch((e) => e.status ?? e),
    );
    // Other threads still answer what needs no script.
    const started = Date.now();
    assert.equal((await http(server, "GET", "/healthcheck")).status, 200);
    const raw = await RawSocket.open(server, session.token);
    await raw.request({ ping: {} });
    assert.ok(Date.now() - started < NEIGHBOUR_MS_MAX);
    assert.deepEqual(await Promise.all(runaways), Array(8).fill(500));
    raw.close();
  });
});

describe("matches", throngOnly, () => {
  for (const [name, op] of [
    ["runs away", OP_SPIN],
    ["hoards memory", OP_HOARD],
  ]) {
    test(`a match that ${name} is stopped, its players are closed, others play on`, async () => {
      const { client, session } = await caller();
      const create = async () =>
        (await client.rpc(session, "e2e_create_match", {})).payload.match_id;
      const [bad, good] = [await create(), await create()];
      const victim = await newSocketPlayer(server);
      const player = await newSocketPlayer(server);
      await victim.socket.joinMatch(bad);
      await player.socket.joinMatch(good);
      victim.socket.sendMatchState(bad, op, "");
      const started = Date.now();
      player.socket.sendMatchState(good, OP_ECHO, "on time");
      assert.equal(textOf(await player.next("match_data")), "on time");
      assert.ok(Date.now() - started < NEIGHBOUR_MS_MAX);
      await victim.next("disconnect");
      const refused = await player.socket.joinMatch(bad).then(assert.fail, (e) => e);
      assert.equal(refused.code, 4);
      player.leave();
    });
  }
});

describe("connections", throngOnly, () => {
  const bytes = async (text) => {
    const socket = connect(Number(server.port), server.host);
    await once(socket, "connect");
    socket.on("error", () => {}); // A reset is a fair answer to most of these.
    let answer = "";
    socket.setEncoding("latin1").on("data", (part) => (answer += part));
    socket.write(text, "latin1");
    await once(socket, "close");
    return answer;
  };
  const ROWS = [
    ["no HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400],
    ["a header without end", `GET / HTTP/1.1\r\nHost: x\r\nX: ${"y".repeat(20_000)}`, 431],
    [
      "two lengths",
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      400,
    ],
    [
      "length and chunks",
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      400,
    ],
    ["a folded header", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400],
    ["an unknown version", "GET / HTTP/3.7\r\nHost: x\r\n\r\n", 505],
  ];
  for (const [name, text, status] of ROWS) {
    test(`${name} is status ${status}`, async () => {
      assert.match(await bytes(text), new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.equal((await bystander.socket.rpc("e2e_echo", "x")).payload, "x");
    });
  }

  test("connections that say nothing keep nobody out", async () => {
    const silent = [];
    for (let n = 0; n < 200; n += 1) {
      const socket = connect(Number(server.port), server.host);
      await once(socket, "connect");
      silent.push(socket.on("error", () => {}));
    }
    const client = clientOf(server);
    await Promise.all(Array.from({ length: 20 }, () => client.authenticateDevice(unique())));
    for (const socket of silent) socket.destroy();
  });
});
