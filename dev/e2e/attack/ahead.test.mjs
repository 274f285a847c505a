/**
 * Accounts whose calls take a little less than what counts as slow, several of each at a time: they are no reason to
 * leave anybody behind, and stand before a neighbour's calls all the same. His need callers, too: one reads the
 * database, one waits for a room and is to go on when that has answered.
 *
 * Not here: slow calls, and calls that were quick before (fairness.test.mjs).
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { bearer, http, newPlayer } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { besideNeighbour, goFirst, inParallel, startVictim } from "./rig.mjs";

const ACCOUNTS = 8;
/** Of each account at one time. */
const CALLS = 16;
const CALL_MS = 12;
const ATTACK_MS = 6_000;

test("calls just below slow stand before a neighbour for some milliseconds", throngOnly, async () => {
  const server = await startVictim({ options: { "engine.cores": 1, "engine.workers": 2 } });
  goFirst();
  try {
    const players = await inParallel(ACCOUNTS, 4, () => newPlayer(server));
    const call = (session) =>
      http(server, "POST", "/v2/rpc/e2e_slow?unwrap", {
        headers: bearer(session),
        body: JSON.stringify({ ms: CALL_MS }),
      });
    const harm = async () => {
      const until = Date.now() + ATTACK_MS;
      const lanes = players.flatMap(({ session }) =>
        Array.from({ length: CALLS }, async () => {
          const statuses = [];
          while (Date.now() < until) statuses.push((await call(session)).status);
          return statuses;
        }),
      );
      return (await Promise.all(lanes)).flat();
    };
    const { result, report } = await besideNeighbour(server, harm, { kinds: ["read", "wait"] });
    assert.ok(result.length > ACCOUNTS * CALLS && result.every((status) => status === 200));
    console.log(
      `${result.length} calls of ${CALL_MS} ms; half of the neighbour's answers within ${report.read.p50_ms} ms for read, ` +
        `${report.wait.p50_ms} for wait`,
    );
  } finally {
    await server.stop();
  }
});
