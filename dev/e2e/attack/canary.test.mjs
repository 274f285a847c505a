/**
 * The rig itself: a neighbour beside nobody is served at once, and one beside a server that stands still is seen
 * to wait. Without the second, all cases here could pass because nothing is measured.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { throngOnly } from "../server.mjs";
import { besideNeighbour, NEIGHBOUR_MS_MAX, startVictim } from "./rig.mjs";

let server;
before(async () => {
  if (!throngOnly.skip) server = await startVictim();
});
after(() => server?.stop());

const rest = (ms) => new Promise((rested) => setTimeout(rested, ms));

test("a neighbour of nobody is served at once", throngOnly, async () => {
  const { report } = await besideNeighbour(server, () => rest(1_000), {
    kinds: ["rpc", "authenticate", "register", "socket", "list"],
  });
  for (const { count } of Object.values(report)) assert.ok(count >= 10, JSON.stringify(report));
  const counters = await server.counters();
  assert.ok(counters.of("rpc_count") >= report.rpc.count + report.socket.count);
  assert.ok((await server.residentBytes()) > 1 << 20);
});

test("a neighbour of a server that stands still is seen to wait", throngOnly, async () => {
  const standStill = async () => {
    await rest(100);
    server.child.kill("SIGSTOP");
    await rest(NEIGHBOUR_MS_MAX + 100);
    server.child.kill("SIGCONT");
    await rest(100);
  };
  await assert.rejects(besideNeighbour(server, standStill), /the neighbour waited \d+ ms/);
});
